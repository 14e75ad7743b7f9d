//! The part of their peak rates at which devices are taken, where times follow from work.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Efficiency {
    /// That part, an assumption. Whoever takes it checks that it is above 0 and at most 1.
    Part(f64),
    /// What was measured of each kind, as its cluster says it with the source.
    Measured,
}

/// What may be asked for.
pub(crate) const EXPECTED: &str = "a part of peak rates, above 0 and at most 1, such as 0.5, or `measured`";

/// The word for what was measured.
const MEASURED: &str = "measured";

impl FromStr for Efficiency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == MEASURED {
            return Ok(Self::Measured);
        }
        let part = text.parse().map(Self::Part);
        part.map_err(|_| format!("expected {EXPECTED}"))
    }
}

impl fmt::Display for Efficiency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => part.fmt(f),
            Self::Measured => f.write_str(MEASURED),
        }
    }
}

impl<'de> Deserialize<'de> for Efficiency {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a part of peak rates, or `measured`")]
        enum Written {
            Part(f64),
            Word(String),
        }
        match Written::deserialize(from)? {
            Written::Part(part) => Ok(Self::Part(part)),
            Written::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}
