//! Communication modes: what a transfer between two stages keeps busy.
//!
//! What asks is told by these methods or by [`crate::problem::cost::StageCost::add_transfer`], which charges a stage; a new mode is a
//! variant, and the compiler lists both. [`mod@crate::check`] charges transfers on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::named_values::named_values;

named_values! {
    /// How transfers between stages cost time.
    Communication {
        /// A stage waits for its transfers: they add to its load.
        Blocking = "blocking",
        /// Transfers run beside the work, on a link in and a link out of each stage.
        Overlapped = "overlapped",
        /// Transfers cost nothing.
        Ignored = "ignored",
    }
}

impl Communication {
    /// Whether transfers take time at all.
    pub fn takes_time(self) -> bool {
        match self {
            Self::Blocking | Self::Overlapped => true,
            Self::Ignored => false,
        }
    }

    /// Whether a worker waits for its transfers.
    pub fn blocks(self) -> bool {
        match self {
            Self::Blocking => true,
            Self::Overlapped | Self::Ignored => false,
        }
    }

    /// Whether links work beside the workers, so that each of them can be the bottleneck.
    pub fn has_links(self) -> bool {
        match self {
            Self::Overlapped => true,
            Self::Blocking | Self::Ignored => false,
        }
    }
}
