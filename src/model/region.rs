//! What a framework can run of all plans: constraints that the search keeps and its exporter relies on, stated once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::named_values::named_values;

named_values! {
    /// A framework that plans are for.
    Region {
        /// Megatron: one degree and number of replicas, whole blocks, and recomputation that its flags can say.
        Megatron = "megatron",
    }
}

impl Region {
    /// Whether all stages have one tensor degree and one number of replicas.
    pub fn is_uniform(self) -> bool {
        match self {
            Self::Megatron => true,
        }
    }

    /// Whether blocks are not cut.
    pub fn keeps_blocks(self) -> bool {
        match self {
            Self::Megatron => true,
        }
    }

    /// Whether all layers compute the same again, or as many blocks of every stage all that they can.
    pub fn recomputes_alike(self) -> bool {
        match self {
            Self::Megatron => true,
        }
    }
}
