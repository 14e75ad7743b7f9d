//! Protocol buffers as text: fields with their places, without a schema.
//!
//! The part of the format (Protocol Buffers documentation, *Text format language specification*) that tools write: `name:
//! value`, `name { ... }`, lists in brackets, strings, comments from `#`. Extensions and `Any` are refused.

use std::ops::Range;

use super::text::fault_at;
use crate::model::fault::{Fault, FaultKind};

/// A message: its fields in file order, repeated ones several times.
pub(super) type Message<'a> = Vec<Field<'a>>;

/// A field and where its value stands.
#[derive(Debug)]
pub(super) struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: Value<'a>,
    /// The bytes of the value.
    pub span: Range<usize>,
}

/// The value of a field.
#[derive(Debug)]
pub(super) enum Value<'a> {
    /// A number or word, as written.
    Word(&'a str),
    /// A string without its quotes; escapes stay as written.
    Text(&'a str),
    /// A message.
    Message(Message<'a>),
}

/// The deepest messages that are read; schemas of cost graphs have four levels.
const DEEPEST: usize = 32;

/// Reads a message.
///
/// # Errors
///
/// The first place where the text is not of the format.
pub(super) fn read(text: &str) -> Result<Message<'_>, Fault> {
    let mut reader = Reader { text, at: 0 };
    let message = reader.message(0)?;
    match reader.token() {
        None => Ok(message),
        Some(token) => Err(reader.unexpected(&token, "the name of a field")),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The first byte not yet read.
    at: usize,
}

/// A mark, a word or a quoted string.
struct Token<'a> {
    text: &'a str,
    span: Range<usize>,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte)
}

impl<'a> Reader<'a> {
    /// Fields up to the end of the message, which is not consumed.
    fn message(&mut self, depth: usize) -> Result<Message<'a>, Fault> {
        let mut fields = Vec::new();
        while let Some(name) = self.token() {
            if ["}", ">"].contains(&name.text) {
                self.at = name.span.start;
                break;
            }
            if [",", ";"].contains(&name.text) && !fields.is_empty() {
                continue;
            }
            if !name
                .text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                return Err(self.unexpected(&name, "the name of a field"));
            }
            let mark = self.expect("`:` or `{` after the name of a field")?;
            let opens = ["{", "<"].contains(&mark.text);
            if !opens && mark.text != ":" {
                return Err(self.unexpected(&mark, "`:` or `{` after the name of a field"));
            }
            let first = if opens { mark } else { self.expect("a value")? };
            match first.text {
                "[" => self.list(name.text, depth, &mut fields)?,
                _ => fields.push(self.value(name.text, first, depth)?),
            }
        }
        Ok(fields)
    }

    /// The values of a list, as repetitions of its field.
    fn list(&mut self, name: &'a str, depth: usize, fields: &mut Message<'a>) -> Result<(), Fault> {
        loop {
            let token = self.expect("a value or `]`")?;
            match token.text {
                "]" => return Ok(()),
                "," => {}
                _ => fields.push(self.value(name, token, depth)?),
            }
        }
    }

    fn value(&mut self, name: &'a str, first: Token<'a>, depth: usize) -> Result<Field<'a>, Fault> {
        let value = match first.text.as_bytes() {
            [b'{' | b'<'] => {
                if depth == DEEPEST {
                    return Err(self.unexpected(&first, "messages that are not nested so deeply"));
                }
                let message = self.message(depth + 1)?;
                let end = if first.text == "{" { "}" } else { ">" };
                let last = self.expect(&format!("`{end}`"))?;
                if last.text != end {
                    return Err(self.unexpected(&last, &format!("`{end}`")));
                }
                Value::Message(message)
            }
            [b'"' | b'\'', .., b'"' | b'\''] => Value::Text(&first.text[1..first.text.len() - 1]),
            [byte, ..] if is_word(*byte) => Value::Word(first.text),
            _ => return Err(self.unexpected(&first, "a value")),
        };
        Ok(Field {
            name,
            value,
            span: first.span,
        })
    }

    fn expect(&mut self, what: &str) -> Result<Token<'a>, Fault> {
        self.token().ok_or_else(|| {
            let end = self.text.trim_end().len();
            let kind = FaultKind::Syntax {
                found: "the end of the file".into(),
                expected: what.into(),
            };
            fault_at(self.text, end..end, kind)
        })
    }

    fn unexpected(&self, token: &Token, expected: &str) -> Fault {
        let kind = FaultKind::Syntax {
            found: format!("`{}`", token.text),
            expected: expected.into(),
        };
        fault_at(self.text, token.span.clone(), kind)
    }

    /// The next token after blanks and comments.
    fn token(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start().len();
            match self.text[self.at..].starts_with('#') {
                true => {
                    let line = &self.text[self.at..];
                    self.at += line.find('\n').unwrap_or(line.len());
                }
                false => break,
            }
        }
        let start = self.at;
        let rest = &self.text[start..];
        let first = rest.chars().next()?;
        let length = match first {
            '"' | '\'' => string_length(rest, first),
            _ => rest.bytes().take_while(|&byte| is_word(byte)).count(),
        };
        self.at = start + length.max(first.len_utf8());
        Some(Token {
            text: &self.text[start..self.at],
            span: start..self.at,
        })
    }
}

/// The bytes of a quoted string with its quotes; up to the end of the line where the second one is missing.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
