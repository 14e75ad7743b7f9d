//! Lines of JSON that say of themselves whether they are whole: each object ends with a digest of what stands before it.
//!
//! ```text
//! {"slot":3,"time_ms":1.5}  -->  {"slot":3,"time_ms":1.5,"digest":"f2a9c0..."}
//! ```
//!
//! It tells accidents, such as a torn disk or a slip in an editor, not intent. Lines without a digest are older than it, and taken
//! as they are.

use sha2::{Digest, Sha256};

/// Hexadecimal digits of a digest: one in 2^64 accidents goes unseen.
const DIGITS: usize = 16;
/// What stands before the digest, and behind it.
const FIELD: &str = ",\"digest\":\"";
const END: &str = "\"}";

/// A line that was changed since its digest was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Altered;

impl std::fmt::Display for Altered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it was altered after it was written: its digest is that of another line")
    }
}

/// An object in one line, with its digest as its last field.
pub(crate) fn sealed(object: &str) -> String {
    match object.strip_suffix('}') {
        Some(fields) => format!("{fields}{FIELD}{}{END}", digest(object)),
        None => object.to_owned(),
    }
}

/// The object of a line, without the digest.
///
/// # Errors
///
/// Where the digest is that of another object.
pub(crate) fn opened(line: &str) -> Result<String, Altered> {
    let line = line.trim();
    let parts = line.strip_suffix(END).and_then(|rest| {
        let (fields, found) = rest.rsplit_once(FIELD)?;
        (found.len() == DIGITS).then_some((fields, found))
    });
    let Some((fields, found)) = parts else {
        return Ok(line.to_owned());
    };
    let object = format!("{fields}}}");
    match digest(&object) == found {
        true => Ok(object),
        false => Err(Altered),
    }
}

fn digest(object: &str) -> String {
    let hash = Sha256::digest(object);
    let mut digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_character_is_seen() {
        let object = r#"{"a":1,"b":"x\"}"}"#;
        let line = sealed(object);
        assert_eq!(opened(&line).as_deref(), Ok(object));
        assert_eq!(opened(object).as_deref(), Ok(object));
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
            let changed = String::from_utf8(bytes).expect("ASCII");
            let seen = opened(&changed).is_err();
            // Where the digest is no digest any more, the line is no row either: an unknown field, or no JSON.
            let is_torn = serde_json::from_str::<serde_json::Value>(&changed).map_or(true, |value| {
                value.get("digest").and_then(|one| one.as_str()).map(str::len) != Some(DIGITS)
            });
            assert!(seen || is_torn, "{changed}");
        }
    }
}
