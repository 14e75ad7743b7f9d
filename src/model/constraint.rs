//! Constraints of one's own on where layers lie, beside those of a problem.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::named_values::named_values;

/// A constraint on where layers lie. In a file it is a table of one key: `together = ["embed", "head"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Constraint {
    /// These layers share a stage.
    Together(Vec<String>),
    /// No two of these layers share a stage.
    Apart(Vec<String>),
    /// The network is cut nowhere else.
    Cuts(Places),
    /// No stage has more layers.
    AtMost(#[schemars(range(min = 1))] usize),
}

/// Where a network may be cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Places {
    /// Behind these layers, each with all that it needs.
    Behind(Vec<String>),
    /// Between places that have a name.
    Named(NamedPlaces),
}

named_values! {
    /// Places with a name.
    NamedPlaces {
        /// Between the numbered blocks of the network.
        Blocks = "blocks",
    }
}

impl Constraint {
    /// The word that files say it by.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Together(_) => "together",
            Self::Apart(_) => "apart",
            Self::Cuts(_) => "cuts",
            Self::AtMost(_) => "at_most",
        }
    }

    /// The layers that it names.
    pub(crate) fn layers(&self) -> &[String] {
        match self {
            Self::Together(layers) | Self::Apart(layers) | Self::Cuts(Places::Behind(layers)) => layers,
            Self::Cuts(Places::Named(_)) | Self::AtMost(_) => &[],
        }
    }

    /// Whether it says which layers cannot be parted, and no more.
    pub(crate) fn joins(&self) -> bool {
        match self {
            Self::Together(_) | Self::Cuts(_) => true,
            Self::Apart(_) | Self::AtMost(_) => false,
        }
    }
}
