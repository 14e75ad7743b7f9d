//! Mutations of text, by tokens and lines, and of trees of values.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

/// Numbers and words at which arithmetic and readers break.
const EXTREMES: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "2",
    "3",
    "1e-9",
    "1e-300",
    "1e9",
    "1e15",
    "9007199254740993",
    "1e18",
    "1e19",
    "1e300",
    "-1e300",
    "1e999",
    "NaN",
    "inf",
    "255",
    "65536",
    "1000000",
    "1000001",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "true",
    "null",
    "none",
    "[]",
    "{}",
    "\"\"",
    "\"a\"",
];

const MARKS: &[u8] = b"{}[]()\",:;=\\\n\t-.e9#<>'";

/// A draw below `count`, which is above 0.
pub fn below(rng: &mut ChaCha8Rng, count: usize) -> usize {
    rng.random_range(0..count)
}

fn extreme(rng: &mut ChaCha8Rng) -> &'static str {
    EXTREMES[below(rng, EXTREMES.len())]
}

/// Text with a few changes.
pub fn text(rng: &mut ChaCha8Rng, seed: &str) -> Vec<u8> {
    let mut text = seed.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..=4) {
        if text.is_empty() {
            break;
        }
        match below(rng, 4) {
            0 | 1 => tokens(rng, &mut text),
            2 => lines(rng, &mut text),
            _ => bytes(rng, &mut text),
        }
    }
    text
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte)
}

/// Replaces, drops or doubles words.
fn tokens(rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    let mut words = Vec::new();
    let mut start = None;
    for at in 0..=text.len() {
        match (start, text.get(at).is_some_and(|byte| is_word(*byte))) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if words.is_empty() {
        return;
    }
    let word = words[below(rng, words.len())].clone();
    let other = words[below(rng, words.len())].clone();
    let new: Vec<u8> = match below(rng, 8) {
        0..=3 => extreme(rng).into(),
        4 | 5 => text[other].to_vec(),
        6 => Vec::new(),
        _ => [&text[word.clone()], &text[word.clone()]].concat(),
    };
    text.splice(word, new);
}

/// Drops, doubles, multiplies or swaps lines.
fn lines(rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (below(rng, lines.len()), below(rng, lines.len()));
    match below(rng, 5) {
        0 => drop(lines.remove(a)),
        1 => lines.insert(b, lines[a].clone()),
        2 => {
            let line = lines[a].clone();
            let count = below(rng, 100);
            lines.splice(a..a, std::iter::repeat_n(line, count));
        }
        3 => lines.truncate(a),
        _ => lines.swap(a, b),
    }
    *text = lines.join(&b'\n');
}

/// Changes, drops, doubles or inserts bytes.
fn bytes(rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    let at = below(rng, text.len());
    match below(rng, 6) {
        0 => text[at] = rng.random(),
        1 => text[at] = MARKS[below(rng, MARKS.len())],
        2 => drop(text.remove(at)),
        3 => text.insert(at, text[at]),
        4 => text.insert(at, MARKS[below(rng, MARKS.len())]),
        _ => {
            let end = (at + below(rng, 20)).min(text.len());
            text.drain(at..end);
        }
    }
}

/// A tree with a few changes.
pub fn tree(rng: &mut ChaCha8Rng, seed: &Value) -> Value {
    let mut value = seed.clone();
    for _ in 0..rng.random_range(1..=4) {
        let count = size(&value);
        let (at, other) = (below(rng, count), below(rng, count));
        let other = node(&mut value, other)
            .map(|node| node.clone())
            .unwrap_or_default();
        if let Some(node) = node(&mut value, at) {
            change(rng, node, other);
        }
    }
    value
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// The node of that number, in the order of a walk.
fn node(value: &mut Value, at: usize) -> Option<&mut Value> {
    if at == 0 {
        return Some(value);
    }
    let mut left = at - 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(values) => values.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return None,
    };
    for child in children {
        let count = size(child);
        if left < count {
            return node(child, left);
        }
        left -= count;
    }
    None
}

fn change(rng: &mut ChaCha8Rng, value: &mut Value, other: Value) {
    match (value, below(rng, 4)) {
        (Value::Array(values), 0..=2) if !values.is_empty() => {
            let (a, b) = (below(rng, values.len()), below(rng, values.len()));
            match below(rng, 5) {
                0 => drop(values.remove(a)),
                1 => values.insert(b, values[a].clone()),
                2 => values.swap(a, b),
                3 => values.insert(a, other),
                _ => {
                    let (value, count) = (values[a].clone(), below(rng, 40));
                    values.splice(a..a, std::iter::repeat_n(value, count));
                }
            }
        }
        (Value::Object(fields), 0..=2) if !fields.is_empty() => rename(rng, fields, other),
        (value @ (Value::Number(_) | Value::Bool(_)), 0..=2) => {
            *value = match below(rng, 3) {
                0 => json!(rng.random_range(0..8)),
                _ => serde_json::from_str(extreme(rng)).unwrap_or_else(|_| json!(rng.random::<f64>() * 10.0)),
            }
        }
        (value, 0) => *value = serde_json::from_str(extreme(rng)).unwrap_or_default(),
        (value, _) => *value = other,
    }
}

/// Drops a field, gives it another's name or value, or adds one.
fn rename(rng: &mut ChaCha8Rng, fields: &mut Map<String, Value>, other: Value) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let (a, b) = (&names[below(rng, names.len())], &names[below(rng, names.len())]);
    match below(rng, 4) {
        0 => drop(fields.remove(a)),
        1 => {
            let value = fields[a].clone();
            fields.insert(b.clone(), value);
        }
        2 => drop(fields.insert(a.clone(), other)),
        _ => drop(fields.insert(format!("{a}{b}"), other)),
    }
}
