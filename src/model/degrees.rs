//! Which degrees of parallelism a plan may choose from: of tensor groups, of replicas of a stage, and of chunks of a device.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Degrees that a plan may choose from: a number, several, or `choose` for all there are.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("type" = ["integer", "string", "array"]))]
pub enum Degrees {
    /// Any that the network and the devices allow.
    Choose,
    /// These, ascending and each once.
    Only(Vec<usize>),
}

/// The largest degree: that of the largest count of devices.
const MOST: usize = 1_000_000;

const EXPECTED: &str = "expected `choose`, a whole number from 1 to 1000000, or several separated by commas";

impl Degrees {
    /// One degree alone.
    pub fn one(degree: usize) -> Self {
        Self::Only(vec![degree])
    }

    /// The only degree, where there is one.
    pub fn only_one(&self) -> Option<usize> {
        match self {
            Self::Only(degrees) if degrees.len() == 1 => degrees.first().copied(),
            Self::Choose | Self::Only(_) => None,
        }
    }

    /// Whether it is 1 and nothing else: no parallelism of this kind.
    pub fn is_one(&self) -> bool {
        *self == Self::one(1)
    }

    /// Whether a degree is among them.
    pub fn allows(&self, degree: usize) -> bool {
        match self {
            Self::Choose => true,
            Self::Only(degrees) => degrees.binary_search(&degree).is_ok(),
        }
    }

    fn only(mut degrees: Vec<usize>) -> Result<Self, String> {
        degrees.sort_unstable();
        degrees.dedup();
        let is_valid = !degrees.is_empty() && degrees.iter().all(|degree| (1..=MOST).contains(degree));
        is_valid
            .then_some(Self::Only(degrees))
            .ok_or_else(|| EXPECTED.to_owned())
    }
}

impl From<usize> for Degrees {
    fn from(degree: usize) -> Self {
        Self::one(degree)
    }
}

impl FromStr for Degrees {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("choose") {
            return Ok(Self::Choose);
        }
        let degrees: Result<Vec<usize>, _> = text.split(',').map(|part| part.trim().parse()).collect();
        Self::only(degrees.map_err(|_| EXPECTED.to_owned())?)
    }
}

impl fmt::Display for Degrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choose => f.pad("choose"),
            Self::Only(degrees) => {
                let degrees: Vec<String> = degrees.iter().map(usize::to_string).collect();
                f.pad(&degrees.join(","))
            }
        }
    }
}

impl Serialize for Degrees {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Only(degrees) if degrees.len() == 1 => to.serialize_u64(degrees[0] as u64),
            all => to.collect_str(all),
        }
    }
}

impl<'de> Deserialize<'de> for Degrees {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "`choose`, a whole number, or a list of them")]
        enum Written {
            Number(usize),
            List(Vec<usize>),
            Text(String),
        }
        let read = match Written::deserialize(from)? {
            Written::Number(degree) => Self::only(vec![degree]),
            Written::List(degrees) => Self::only(degrees),
            Written::Text(text) => text.parse(),
        };
        read.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_read_as_they_are_written() {
        for (text, json) in [("choose", "\"choose\""), ("4", "4"), ("1,2,8", "\"1,2,8\"")] {
            let degrees: Degrees = text.parse().unwrap();
            assert_eq!(degrees.to_string(), text);
            assert_eq!(serde_json::to_string(&degrees).unwrap(), json);
            assert_eq!(serde_json::from_str::<Degrees>(json).unwrap(), degrees);
        }
        assert_eq!("8, 2,2".parse(), Ok(Degrees::Only(vec![2, 8])));
        assert!(serde_json::from_str::<Degrees>("[2, 1]").unwrap().allows(1));
        for wrong in ["", "0", "-1", "2,x", "1000001"] {
            assert!(wrong.parse::<Degrees>().is_err(), "{wrong}");
        }
    }
}
