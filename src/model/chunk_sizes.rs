//! The tokens of the chunks of a prompt, as they are asked for: given, or one size for all that is to be chosen.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Tokens of the chunks of a prompt: of all where there is one number, of each where there are several, or a size that is chosen.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("type" = ["integer", "string", "array"], "items" = {"type": "integer", "minimum": 1}))]
pub enum ChunkSizes {
    /// These.
    Given(Vec<u64>),
    /// One of these for all but the last chunk, ascending and each once; of [a grid](ChunkSizes::to_choose) where there are none.
    Choose(Vec<u64>),
}

/// Chunks that a size of the grid makes at most: more cost an iteration little, and a search a time each.
const MOST_OF_GRID: u64 = 256;

/// Sizes to choose from at most.
const MOST_SIZES: usize = 64;

const EXPECTED: &str = "expected whole numbers of tokens separated by commas, `choose`, or `choose:` and up to 64 sizes to choose from, such as \
                        `choose:512,1024`";

impl ChunkSizes {
    /// The sizes of chunks, unless one is to be chosen.
    pub fn given(&self) -> Option<&[u64]> {
        match self {
            Self::Given(sizes) => Some(sizes),
            Self::Choose(_) => None,
        }
    }

    /// The sizes that there are to choose from for a prompt of so many tokens, ascending: those that are named, else the powers of two that
    /// cut it into at most 256 chunks, and the whole of it; none where sizes are given.
    pub fn to_choose(&self, prompt: u64) -> Vec<u64> {
        match self {
            Self::Given(_) => Vec::new(),
            Self::Choose(named) if !named.is_empty() => named.clone(),
            Self::Choose(_) => {
                let powers = (0..u64::BITS).map(|power| 1u64 << power);
                let sizes = powers.filter(|&size| size < prompt && prompt.div_ceil(size) <= MOST_OF_GRID);
                sizes.chain([prompt]).collect()
            }
        }
    }

    fn choose(mut sizes: Vec<u64>) -> Result<Self, String> {
        sizes.sort_unstable();
        sizes.dedup();
        match (1..=MOST_SIZES).contains(&sizes.len()) && sizes[0] > 0 {
            true => Ok(Self::Choose(sizes)),
            false => Err(EXPECTED.to_owned()),
        }
    }
}

impl From<Vec<u64>> for ChunkSizes {
    fn from(sizes: Vec<u64>) -> Self {
        Self::Given(sizes)
    }
}

impl FromStr for ChunkSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = |text: &str| {
            let sizes: Result<Vec<u64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
            sizes.map_err(|_| EXPECTED.to_owned())
        };
        match text.split_once(':') {
            None if text.eq_ignore_ascii_case("choose") => Ok(Self::Choose(Vec::new())),
            None => Ok(Self::Given(sizes(text)?)),
            Some((word, named)) if word.eq_ignore_ascii_case("choose") => Self::choose(sizes(named)?),
            Some(_) => Err(EXPECTED.to_owned()),
        }
    }
}

impl fmt::Display for ChunkSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, sizes) = match self {
            Self::Given(sizes) => ("", sizes),
            Self::Choose(sizes) if sizes.is_empty() => ("choose", sizes),
            Self::Choose(sizes) => ("choose:", sizes),
        };
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        f.pad(&format!("{word}{}", sizes.join(",")))
    }
}

impl Serialize for ChunkSizes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Given(sizes) => sizes.serialize(to),
            Self::Choose(_) => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for ChunkSizes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "whole numbers of tokens in a list, one for all, `choose`, or `choose:` and sizes"
        )]
        enum Written {
            List(Vec<u64>),
            One(u64),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::List(sizes) => Ok(Self::Given(sizes)),
            Written::One(size) => Ok(Self::Given(vec![size])),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        for (text, json) in [
            ("choose", "\"choose\""),
            ("choose:512,1024", "\"choose:512,1024\""),
            ("4096", "[4096]"),
            ("400,600", "[400,600]"),
        ] {
            let sizes: ChunkSizes = text.parse().unwrap();
            assert_eq!(sizes.to_string(), text);
            assert_eq!(serde_json::to_string(&sizes).unwrap(), json);
            assert_eq!(serde_json::from_str::<ChunkSizes>(json).unwrap(), sizes);
        }
        assert_eq!("Choose: 8,2, 8".parse(), Ok(ChunkSizes::Choose(vec![2, 8])));
        assert_eq!(serde_json::from_str("7").ok(), Some(ChunkSizes::from(vec![7])));
        for wrong in [
            "",
            "-1",
            "2,x",
            "choose:",
            "choose:0",
            "chose:5",
            "1.5",
            "18446744073709551616",
        ] {
            assert!(wrong.parse::<ChunkSizes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_grid_is_of_powers_of_two_and_the_whole() {
        let grid = ChunkSizes::Choose(Vec::new());
        assert_eq!(grid.to_choose(1), [1]);
        assert_eq!(grid.to_choose(5), [1, 2, 4, 5]);
        assert_eq!(grid.to_choose(1_000), [4, 8, 16, 32, 64, 128, 256, 512, 1_000]);
        assert_eq!(grid.to_choose(0), [0]);
        assert_eq!(grid.to_choose(u64::MAX).len(), 9);
        assert!(ChunkSizes::from(vec![4]).to_choose(8).is_empty());
    }
}
