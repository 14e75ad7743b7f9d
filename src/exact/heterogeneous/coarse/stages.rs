//! Stages from one cell to others, and what can run them.

/// Stages from one cell to others.
#[derive(Default)]
pub(super) struct Stages {
    to: Vec<u32>,
    /// Where the choices of each end.
    ends: Vec<u32>,
    choices: Vec<u32>,
    /// Nothing where memory never binds.
    bytes: Vec<[u64; 3]>,
}

/// Stages between two cells.
#[derive(Clone, Copy)]
pub(super) struct StagesBetween<'s> {
    pub to: usize,
    /// What can run them.
    pub choices: &'s [u32],
    /// Their bytes at least, where memory binds: held once, of one further version of the weights, of one micro-batch in flight.
    pub bytes: Option<[u64; 3]>,
}

impl Stages {
    /// Adds those to one more cell, if anything can run them.
    pub(super) fn push(&mut self, to: usize, choices: impl Iterator<Item = usize>, bytes: Option<[u64; 3]>) {
        let before = self.choices.len();
        self.choices.extend(choices.map(|choice| choice as u32));
        if self.choices.len() > before {
            self.to.push(to as u32);
            self.ends.push(self.choices.len() as u32);
            self.bytes.extend(bytes);
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = StagesBetween<'_>> {
        let start = |at: usize| if at == 0 { 0 } else { self.ends[at - 1] as usize };
        (0..self.to.len()).map(move |at| StagesBetween {
            to: self.to[at] as usize,
            choices: &self.choices[start(at)..self.ends[at] as usize],
            bytes: self.bytes.get(at).copied(),
        })
    }

    /// What they take in memory, about.
    pub(super) fn bytes(&self) -> usize {
        8 * self.to.len() + 4 * self.choices.len() + 24 * self.bytes.len()
    }
}
