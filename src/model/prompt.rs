//! Prompts that are read in chunks, each a micro-batch of its own length behind those before it.
//!
//! A file says what a layer takes for a micro-batch of `S` tokens with none before them. A chunk of `s` tokens behind `l` others takes the
//! part of attention `(2 l s + s²) / S²` times, since each token attends to all up to itself; what moves weights as often as before; and the
//! rest `s / S` times.

use crate::model::units::LARGEST_EXACT;

/// Chunks of a prompt beyond which it is refused: searches keep a time for each.
pub(crate) const MOST_CHUNKS: u64 = 1_024;

/// What is asked of a prompt: its tokens, and how they are cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// All tokens.
    pub tokens: u64,
    /// Tokens of each chunk; one number alone is that of all, but for a last one that takes what is left.
    pub sizes: Vec<u64>,
    /// Tokens of the micro-batch that the file's times are of.
    pub micro_batch: f64,
}

/// Tokens of a prompt that are read at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Tokens before it.
    pub before: u64,
    /// Its own.
    pub tokens: u64,
}

impl Prompt {
    /// What is asked; `None` where no chunks are.
    pub(crate) fn new(tokens: Option<u64>, sizes: Option<&[u64]>, micro_batch: f64) -> Option<Self> {
        let sizes = sizes?.to_vec();
        let all = sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
        Some(Self {
            tokens: tokens.unwrap_or(all),
            sizes,
            micro_batch,
        })
    }

    /// How many chunks there are; 0 where their sizes are none.
    pub fn count(&self) -> u64 {
        match self.sizes[..] {
            [size] => self.tokens.div_ceil(size.max(1)),
            _ => self.sizes.len() as u64,
        }
    }

    /// The chunks, in order, of a prompt that has passed its checks.
    pub fn chunks(&self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut before = 0;
        for k in 0..self.count().min(MOST_CHUNKS) as usize {
            let size = self.sizes.get(k).or(self.sizes.first()).copied().unwrap_or(0);
            let tokens = size.min(self.tokens.saturating_sub(before));
            chunks.push(Chunk { before, tokens });
            before += tokens;
        }
        chunks
    }
}

impl Chunk {
    /// Its tokens, and the pairs of tokens that attention counts, of those of a micro-batch of so many with none before them.
    fn parts(self, micro_batch: f64) -> [f64; 2] {
        let [before, tokens] = [self.before, self.tokens].map(|tokens| tokens as f64 / micro_batch);
        [tokens, tokens * (2.0 * before + tokens)]
    }

    /// What of some bytes, or of some time, is in proportion to its tokens.
    pub(crate) fn share_of(self, all: u64, prompt: &Prompt) -> u64 {
        let [part, _] = self.parts(prompt.micro_batch);
        whole(part * all as f64)
    }
}

/// The parts of a layer's forward time for a micro-batch with no tokens before it, in ns: together they take `fixed` and the longer of
/// arithmetic and traffic. A measured time is arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Whatever the chunk.
    pub fixed: f64,
    /// Arithmetic in proportion to tokens.
    pub arithmetic: f64,
    /// Arithmetic in proportion to pairs of tokens: attention.
    pub attention: f64,
    /// Traffic whatever the chunk: weights.
    pub weights: f64,
    /// Traffic in proportion to tokens.
    pub traffic: f64,
}

impl Reading {
    /// The time for a chunk, in whole ns.
    pub(crate) fn ns(self, chunk: Chunk, prompt: &Prompt) -> u64 {
        let [tokens, pairs] = chunk.parts(prompt.micro_batch);
        let arithmetic = self.arithmetic * tokens + self.attention * pairs;
        whole(self.fixed + arithmetic.max(self.weights + self.traffic * tokens))
    }

    /// At least what all chunks of a prompt take together, in ns: a float, since it may be of any size.
    pub(crate) fn most_ns(self, prompt: &Prompt) -> f64 {
        let all = Chunk {
            before: 0,
            tokens: prompt.tokens,
        };
        let [tokens, pairs] = all.parts(prompt.micro_batch);
        let each = self.fixed + self.weights + 1.0;
        prompt.count() as f64 * each + (self.arithmetic + self.traffic) * tokens + self.attention * pairs
    }
}

/// The nearest whole number; what is out of range has been refused where it is asked for.
fn whole(number: f64) -> u64 {
    (number.round() as u64).min(LARGEST_EXACT)
}
