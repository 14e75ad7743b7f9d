//! The text of Megatron's `--pipeline-model-parallel-layout`: read, held against a model, and written.
//!
//! `Et*3|(tt|)*29,m|L` is 32 stages: the embedding with three decoder layers, 29 stages of two, one of the layers that predict further
//! tokens, and the loss. What a text means, and which are refused, follows NVIDIA's Megatron-LM, megatron/core/transformer/
//! pipeline_parallel_layer_layout.py (`parse_str_to_list`, `validate_layer_layout`):
//!
//! 1. Commas go; they separate nothing, so that `t*1,2` is twelve layers.
//! 2. `(...)*n`, from left to right, is the text between `(` and the next `)`, n times. Groups do not nest.
//! 3. `x*n`, from left to right, is the one character x, n times, whatever it is.
//! 4. `|` parts stages, of which any may be empty.
//!
//! The same in Python, a list of lists of names as recipes have it, is read too: `[["embedding", "decoder"], ["decoder", "loss"]]`.
//!
//! With p devices, stage s (from 0) is chunk s div p of device s mod p.

use std::fmt;

use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::setting;
use crate::model::words::{Piece, Words, words};

/// A layer as layouts know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Letter {
    /// The embedding.
    Embedding,
    /// A decoder layer, of whatever kind.
    Decoder,
    /// A layer that predicts a further token.
    Mtp,
    /// The head with the loss.
    Loss,
}

impl Letter {
    /// Every letter, in the order in which a model runs them.
    pub const ALL: [Self; 4] = [Self::Embedding, Self::Decoder, Self::Mtp, Self::Loss];

    /// The character.
    pub fn symbol(self) -> char {
        match self {
            Self::Embedding => 'E',
            Self::Decoder => 't',
            Self::Mtp => 'm',
            Self::Loss => 'L',
        }
    }

    fn of(symbol: char) -> Option<Self> {
        Self::ALL.into_iter().find(|letter| letter.symbol() == symbol)
    }

    /// Its name in a list of lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Decoder => "decoder",
            Self::Mtp => "mtp",
            Self::Loss => "loss",
        }
    }

    /// In whatever case, with whatever blanks around it.
    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|letter| letter.name().eq_ignore_ascii_case(name.trim()))
    }
}

/// The letters of every stage, in the order of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The stages.
    pub stages: Vec<Vec<Letter>>,
}

/// What a layout is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Devices in a row, Megatron's pipeline-parallel size; at least one.
    pub devices: usize,
    /// Chunks of every device, where they are asked for beside the layout.
    pub virtual_stages: Option<usize>,
    /// Decoder layers.
    pub decoders: usize,
    /// Layers that predict further tokens.
    pub mtp: usize,
}

/// Characters that a text may come to: far above any model, far below what fills memory.
const MOST_CHARACTERS: usize = 1_000_000;

/// Equal stages in a row that are written one by one; more of them are a group.
const MOST_LISTED: usize = 6;

impl Layout {
    /// Reads a layout, as text or as a list of lists.
    ///
    /// # Errors
    ///
    /// A text that comes to more than a million characters, or to one that is no layer; a list that is none. Time O(characters that it
    /// comes to).
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.trim_start().starts_with('[') {
            return listed(text);
        }
        let text: Vec<char> = text.chars().filter(|&c| c != ',').collect();
        let text = repeated(&text, group).and_then(|text| repeated(&text, character))?;
        let stage = |(at, stage): (usize, &[char])| {
            let letter = |&c: &char| Letter::of(c).ok_or_else(|| unknown(at, c));
            stage.iter().map(letter).collect::<Result<Vec<_>, _>>()
        };
        let stages = text.split(|&c| c == '|').enumerate().map(stage);
        Ok(Self {
            stages: stages.collect::<Result<_, _>>()?,
        })
    }

    /// Everything for which Megatron refuses the layout for a model; nothing if it takes it.
    pub fn refusals(&self, model: &Model) -> Vec<Fault> {
        let all: Vec<Letter> = self.stages.iter().flatten().copied().collect();
        let count = |letter: Letter| all.iter().filter(|&&own| own == letter).count();
        let mut faults = Vec::new();
        let mut expect = |is_right: bool, at: Piece, (found, expected): (String, Words)| {
            if !is_right {
                let found = found.into();
                faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
            }
        };
        let symbol = |letter: Option<&Letter>| {
            letter.map_or("nothing".into(), |letter| format!("`{}`", letter.symbol()))
        };
        let ends = [
            (all.first(), Letter::Embedding, "first", "the embedding"),
            (all.last(), Letter::Loss, "last", "the loss"),
        ];
        for (end, letter, which, what) in ends {
            let expected = words!("{}", format!("`{}`, {what}", letter.symbol()));
            let place = format!("the {which} layer of the layout");
            expect(end == Some(&letter), place.into(), (symbol(end), expected));
        }
        let counts = [
            (Letter::Embedding, 1, "the embedding"),
            (
                Letter::Decoder,
                model.decoders,
                "one for each decoder layer of the model",
            ),
            (
                Letter::Mtp,
                model.mtp,
                "one for each layer of the model that predicts a further token",
            ),
            (Letter::Loss, 1, "the loss"),
        ];
        for (letter, asked, what) in counts {
            let found = format!("{} of `{}`", count(letter), letter.symbol());
            let expected = words!("{}", format!("{asked}, {what}"));
            expect(count(letter) == asked, LAYOUT.into(), (found, expected));
        }
        let first_mtp = all.iter().position(|&own| own == Letter::Mtp);
        let behind = first_mtp.map_or(&[][..], |at| &all[at..]);
        let found = "a decoder layer behind one that predicts a further token".to_owned();
        let is_ordered = !behind.contains(&Letter::Decoder);
        expect(
            is_ordered,
            LAYOUT.into(),
            (found, "all `t` before the first `m`".into()),
        );
        faults.extend(self.refused_stages(model));
        faults
    }

    /// What is wrong with the number of stages, and with those of `m`.
    fn refused_stages(&self, model: &Model) -> Vec<Fault> {
        let (stages, devices) = (self.stages.len(), model.devices);
        let mut faults = Vec::new();
        let mut refuse = |at: Piece, found: String, expected: Words| {
            let found = found.into();
            faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
        };
        let Some(chunks) = self.virtual_stages(devices) else {
            let expected = words!("{}", format!("a multiple of the {devices} devices in a row"));
            refuse(LAYOUT.into(), format!("{stages} stages"), expected);
            return faults;
        };
        if let Some(asked) = model.virtual_stages.filter(|&asked| asked != chunks) {
            let found = format!("{stages} stages on {devices} devices, {chunks} on each");
            let expected = words!("{} on each, as asked", setting::VIRTUAL_STAGES.given(asked));
            refuse(LAYOUT.into(), found, expected);
        }
        let holding = self.stages.iter().enumerate();
        let holding = holding.filter(|(_, stage)| stage.contains(&Letter::Mtp));
        let holding: Vec<usize> = holding.map(|(at, _)| at).collect();
        if holding.len() > 1 {
            let found = format!("`m` in {} stages", holding.len());
            refuse(LAYOUT.into(), found, "all of them in one".into());
        }
        for at in holding.into_iter().filter(|at| at / devices + 1 < chunks) {
            let found = format!("`m` in chunk {} of {chunks} of its device", at / devices + 1);
            refuse(stage(at), found, "it in the last one".into());
        }
        faults
    }

    /// The layout, if Megatron takes it for the model.
    ///
    /// # Errors
    ///
    /// Its faults.
    pub fn accepted(text: &str, model: &Model) -> Result<Self, InputError> {
        let layout = Self::parse(text).map_err(|fault| vec![fault]);
        let layout = layout.and_then(|layout| match layout.refusals(model) {
            faults if faults.is_empty() => Ok(layout),
            faults => Err(faults),
        });
        layout.map_err(|faults| InputError { path: None, faults })
    }

    /// How many stages each of so many devices has, if all have the same number.
    pub fn virtual_stages(&self, devices: usize) -> Option<usize> {
        let stages = self.stages.len();
        (devices > 0 && stages.is_multiple_of(devices)).then(|| stages / devices)
    }

    /// How many layers of a kind every stage has.
    pub fn by_stage(&self, letter: Letter) -> Vec<usize> {
        let count = |stage: &Vec<Letter>| stage.iter().filter(|&&own| own == letter).count();
        self.stages.iter().map(count).collect()
    }
}

const LAYOUT: &str = "the layout";

fn stage(at: usize) -> Piece {
    format!("stage {} of the layout", at + 1).into()
}

fn unknown(at: usize, found: char) -> Fault {
    let hint = match found {
        c if c.is_whitespace() => "; blanks are layers that no model has",
        '(' | ')' => "; groups are written `(tt|)*3` and do not nest",
        '*' => "; `x*n` is one character n times",
        c if Letter::of(c.to_ascii_uppercase())
            .or(Letter::of(c.to_ascii_lowercase()))
            .is_some() =>
        {
            "; capitals count"
        }
        _ => "",
    };
    let found = format!("the character `{}`", found.escape_debug()).into();
    let expected = format!("`E` embedding, `t` decoder layer, `m` layer that predicts a further token, `L` loss, or `|` between stages{hint}").into();
    Fault::new(stage(at), FaultKind::Unsupported { found, expected })
}

/// A list of lists of names as Python writes it: either quotation mark, and commas behind the last.
fn listed(text: &str) -> Result<Layout, Fault> {
    let wrong = |at: usize, found: Option<char>| {
        let found = found.map_or("its end".to_owned(), |found| {
            format!("`{}`", found.escape_debug())
        });
        let found = format!("{found} behind {at} characters").into();
        let expected = "a list of lists of names in quotation marks, such as [[\"embedding\", \"decoder\"], [\"decoder\", \"loss\"]]";
        let expected = expected.into();
        Fault::new(LAYOUT, FaultKind::Unsupported { found, expected })
    };
    let mut stages: Vec<Vec<Letter>> = Vec::new();
    // How many brackets are open, and whether a comma must come before what comes next.
    let (mut depth, mut is_behind) = (0, false);
    let mut characters = text.chars().enumerate();
    while let Some((at, c)) = characters.next() {
        match c {
            _ if c.is_whitespace() => {}
            ',' if is_behind && depth > 0 => is_behind = false,
            '[' if depth < 2 && !is_behind => {
                depth += 1;
                stages.extend((depth == 2).then(Vec::new));
            }
            ']' if depth > 0 => (depth, is_behind) = (depth - 1, true),
            '\'' | '"' if depth == 2 && !is_behind => {
                let name: String = characters
                    .by_ref()
                    .map(|(_, own)| own)
                    .take_while(|&own| own != c)
                    .collect();
                let stage = stages.len() - 1;
                let letter = Letter::named(&name).ok_or_else(|| unknown_name(stage, &name))?;
                stages[stage].push(letter);
                is_behind = true;
            }
            _ => return Err(wrong(at, Some(c))),
        }
    }
    match depth {
        0 => Ok(Layout { stages }),
        _ => Err(wrong(text.chars().count(), None)),
    }
}

fn unknown_name(at: usize, found: &str) -> Fault {
    let found = format!("the layer `{}`", found.escape_debug()).into();
    let names: Vec<&str> = Letter::ALL.iter().map(|letter| letter.name()).collect();
    let expected = format!("one of {}", names.join(", ")).into();
    Fault::new(stage(at), FaultKind::Unsupported { found, expected })
}

/// Something that is repeated: what, how often, and how many characters say so.
type Repetition<'a> = (&'a [char], usize, usize);

/// The text with all that is repeated written out, from left to right; what is written out is not looked at again.
fn repeated(text: &[char], of: fn(&[char]) -> Option<Repetition<'_>>) -> Result<Vec<char>, Fault> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (what, count, length) = of(&text[at..]).unwrap_or((&text[at..=at], 1, 1));
        let size = what.len().saturating_mul(count).saturating_add(out.len());
        if size > MOST_CHARACTERS {
            let found = "more than a million characters, all repetitions written out,".into();
            let expected = "fewer: a character for every layer, and one between stages".into();
            return Err(Fault::new(LAYOUT, FaultKind::Contradiction { found, expected }));
        }
        (0..count).for_each(|_| out.extend_from_slice(what));
        at += length;
    }
    Ok(out)
}

/// A group in parentheses that a text begins with.
fn group(text: &[char]) -> Option<Repetition<'_>> {
    let end = text.iter().position(|&c| c == ')')?;
    let (count, length) = times(&text[end + 1..])?;
    (text[0] == '(' && end > 1).then(|| (&text[1..end], count, end + 1 + length))
}

/// A character that a text begins with, if it is repeated.
fn character(text: &[char]) -> Option<Repetition<'_>> {
    let (count, length) = times(text.get(1..)?)?;
    (text[0] != '\n').then(|| (&text[..1], count, 1 + length))
}

/// The number behind an asterisk that a text begins with, and how long both are. One that no memory could hold is the largest there is.
fn times(text: &[char]) -> Option<(usize, usize)> {
    let (_, rest) = text.split_first().filter(|(first, _)| **first == '*')?;
    let digits: String = rest.iter().take_while(|c| c.is_ascii_digit()).collect();
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(usize::MAX), 1 + digits.len()))
}

impl fmt::Display for Layout {
    /// Writes the layout, equal layers and many equal stages as repetitions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut at = 0;
        while at < self.stages.len() {
            let own = &self.stages[at];
            let equal = self.stages[at..].iter().take_while(|&stage| stage == own).count();
            // The last stage has no separator behind it, which a group has.
            let last = at + equal == self.stages.len();
            let grouped = if last { equal - 1 } else { equal };
            let own = written(own);
            let listed = if grouped > MOST_LISTED {
                append(&mut text, &format!("({own}|)*{grouped}"));
                equal - grouped
            } else {
                equal
            };
            for k in equal - listed..equal {
                append(&mut text, &own);
                if at + k + 1 < self.stages.len() {
                    text.push('|');
                }
            }
            at += equal;
        }
        f.write_str(&text)
    }
}

/// The letters of a stage.
fn written(stage: &[Letter]) -> String {
    let mut text = String::new();
    for equal in stage.chunk_by(|one, other| one == other) {
        let symbol = equal[0].symbol();
        match equal.len() {
            1 => append(&mut text, &symbol.to_string()),
            count => append(&mut text, &format!("{symbol}*{count}")),
        }
    }
    text
}

/// Adds to a text, behind a comma where a reader would take the two for one.
fn append(text: &mut String, more: &str) {
    let ends_in_number = text.ends_with(|c: char| c.is_ascii_digit());
    if ends_in_number && !more.is_empty() {
        text.push(',');
    }
    text.push_str(more);
}
