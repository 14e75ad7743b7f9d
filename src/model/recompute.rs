//! What layers may compute again in the backward pass, instead of keeping it from the forward pass.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of modes that keep everything.
pub const NONE: &str = "none";
/// The name of modes that compute all of a layer again.
pub const FULL: &str = "full";
/// The name of modes that keep everything, at the host. Those that hand what others keep to it are called as these with `+offload` behind.
pub const OFFLOAD: &str = "offload";

/// Kinds of recomputation that a plan may choose from, by the names that layers give them.
///
/// A layer that has none of the names keeps to its modes called `none`, so that `full` means every layer that can.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub enum Recompute {
    /// Any that a layer has.
    Choose,
    /// These, sorted and each once.
    Only(Vec<String>),
}

impl Recompute {
    /// No recomputation.
    pub fn none() -> Self {
        Self::Only(vec![NONE.to_owned()])
    }

    /// Whether nothing may be computed again.
    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }

    /// Whether a name is among them.
    pub fn names(&self, name: &str) -> bool {
        match self {
            Self::Choose => true,
            Self::Only(names) => names.iter().any(|own| own == name),
        }
    }
}

impl FromStr for Recompute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("choose") {
            return Ok(Self::Choose);
        }
        let mut names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        match names.iter().any(String::is_empty) {
            true => Err("expected `none`, `full`, `choose`, or names of modes separated by commas".into()),
            false => Ok(Self::Only(names)),
        }
    }
}

impl fmt::Display for Recompute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choose => f.pad("choose"),
            Self::Only(names) => f.pad(&names.join(",")),
        }
    }
}

impl Serialize for Recompute {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Recompute {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for text in ["choose", "none", "full,none"] {
            let recompute: Recompute = text.parse().unwrap();
            assert_eq!(recompute.to_string(), text);
        }
        assert!("none,".parse::<Recompute>().is_err());
        assert!(Recompute::Choose.names("anything") && !Recompute::none().names("full"));
    }
}
