//! Sizes and rates as people write them: `16e9`, `16GB`, `80GiB`, `100GB/s`, `25Gb/s`.
//!
//! A number alone is bytes, or bytes per second. Units tell bytes (`B`) from bits (`b`), thousands (`k`, `M`, `G`, `T`, `P`)
//! from powers of 1024 (`Ki`, `Mi`, ...), and sizes from rates (`/s`); a unit of the other kind is refused, since to guess
//! would be wrong by a factor of eight.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A kind of quantity: how its text is read, and what is expected where it cannot be.
struct Kind {
    read: fn(&str) -> Result<f64, String>,
    expected: &'static str,
}

const SIZE: Kind = Kind {
    read: bytes,
    expected: "a number of bytes, or text with a unit such as `16GB` or `16GiB`",
};

const RATE: Kind = Kind {
    read: bytes_per_s,
    expected: "a number of bytes per second, or text with a unit such as `25GB/s` or, in bits, `200Gb/s`",
};

/// Bytes from a number, or a number with a unit of bytes.
///
/// # Errors
///
/// What is expected instead.
pub(crate) fn bytes(text: &str) -> Result<f64, String> {
    let of_unit = |unit: &str| match unit {
        "" => Some(1.0),
        unit => factor(unit.strip_suffix('B')?),
    };
    let expected = "expected bytes, such as 16e9, `16GB` or `16GiB`";
    read(text, of_unit).ok_or_else(|| expected.to_owned())
}

/// Bytes per second from a number, or a number with a unit of bytes or bits per second.
///
/// # Errors
///
/// What is expected instead.
pub(crate) fn bytes_per_s(text: &str) -> Result<f64, String> {
    let of_unit = |unit: &str| {
        if unit.is_empty() {
            return Some(1.0);
        }
        let moved = unit.strip_suffix("/s").or(unit.strip_suffix("ps"))?;
        match moved.strip_suffix('B') {
            Some(prefix) => factor(prefix),
            None => Some(factor(moved.strip_suffix("bit").or(moved.strip_suffix('b'))?)? / 8.0),
        }
    };
    let expected = "expected bytes per second, such as 25e9, `25GB/s` or, in bits, `200Gb/s`";
    read(text, of_unit).ok_or_else(|| expected.to_owned())
}

/// The longest number there is any use for; to split text into number and unit takes time quadratic in its length.
const LONGEST: usize = 64;

/// The longest start that is a number, times what its unit stands for.
fn read(text: &str, of_unit: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let text = text.trim();
    let mut ends = (1..=text.len()).rev().filter(|&end| text.is_char_boundary(end));
    let split = |end: usize| Some((text[..end].parse::<f64>().ok()?, text[end..].trim()));
    let (number, unit) = match text.len() <= LONGEST {
        true => ends.find_map(split)?,
        false => return None,
    };
    Some(number * of_unit(unit)?)
}

/// What a prefix stands for.
fn factor(prefix: &str) -> Option<f64> {
    let (letter, base) = match prefix.strip_suffix('i') {
        Some(letter) => (letter, 1024.0_f64),
        None => (prefix, 1000.0),
    };
    let power = match letter {
        "" if base == 1000.0 => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(base.powi(power))
}

impl Visitor<'_> for Kind {
    /// Absent where the file says null.
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<f64>, E> {
        Ok(Some(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<f64>, E> {
        let read = (self.read)(text).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(Some(read))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }
}

fn required<'de, D: Deserializer<'de>>(from: D, kind: Kind) -> Result<f64, D::Error> {
    let expected = kind.expected;
    let value = from.deserialize_any(kind)?;
    value.ok_or_else(|| D::Error::invalid_type(Unexpected::Unit, &expected))
}

/// Reads a size of a file.
pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    required(from, SIZE)
}

/// Reads a size of a file that may be missing.
pub(crate) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(SIZE)
}

/// Reads a rate of a file.
pub(crate) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    required(from, RATE)
}

/// Reads a rate of a file that may be missing.
pub(crate) fn some_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_size() {
        for (text, expected) in [
            ("16e9", 16e9),
            ("16GB", 16e9),
            ("16 GB", 16e9),
            ("1.5e3 MB", 1.5e9),
            ("80GiB", 80.0 * 1024.0 * 1024.0 * 1024.0),
            ("7B", 7.0),
            ("2kB", 2e3),
            ("2KB", 2e3),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "GB",
            "16Gb",
            "16gb",
            "16G",
            "16GB/s",
            "16 giraffes",
            "16iB",
            "1,5GB",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn units_of_rate() {
        for (text, expected) in [
            ("25e9", 25e9),
            ("100GB/s", 100e9),
            ("100GBps", 100e9),
            ("25Gb/s", 3.125e9),
            ("25 Gbit/s", 3.125e9),
            ("200Gbps", 25e9),
            ("1GiB/s", 1024.0 * 1024.0 * 1024.0),
            ("8b/s", 1.0),
        ] {
            assert_eq!(bytes_per_s(text), Ok(expected), "{text}");
        }
        for text in ["100GB", "25G/s", "fast", "25gb/s", "/s"] {
            assert!(bytes_per_s(text).is_err(), "{text}");
        }
        assert!(bytes_per_s(&"1 ".repeat(1_000_000)).is_err());
    }
}
