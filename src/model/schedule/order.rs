//! Orders of operations: what every device does, one after the other.

use std::fmt;

use serde::Serialize;

/// What a device does with a chunk and a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The forward pass.
    Forward,
    /// The whole backward pass: both gradients, in one operation.
    Backward,
    /// The gradient of the chunk's input alone.
    InputGradient,
    /// The gradient of the chunk's weights alone.
    WeightGradient,
}

impl Phase {
    /// The letter that `torch.distributed.pipelining` has for it.
    pub fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Backward => 'B',
            Self::InputGradient => 'I',
            Self::WeightGradient => 'W',
        }
    }

    /// The phase of a letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        let all = [
            Self::Forward,
            Self::Backward,
            Self::InputGradient,
            Self::WeightGradient,
        ];
        all.into_iter().find(|phase| phase.letter() == letter)
    }
}

/// One pass of one micro-batch through one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Operation {
    /// The chunk, from 0.
    pub chunk: usize,
    /// What is done.
    pub phase: Phase,
    /// The micro-batch, from 0.
    pub micro_batch: usize,
}

impl Operation {
    /// An operation.
    pub fn new(chunk: usize, phase: Phase, micro_batch: usize) -> Self {
        Self {
            chunk,
            phase,
            micro_batch,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.chunk, self.phase.letter(), self.micro_batch)
    }
}

/// For every device its operations, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By device.
    pub devices: Vec<Vec<Operation>>,
}

impl Order {
    /// Micro-batches, as far as the order names them: one more than the last.
    pub fn micro_batches(&self) -> usize {
        let all = self.devices.iter().flatten();
        all.map(|operation| operation.micro_batch.saturating_add(1))
            .max()
            .unwrap_or(0)
    }

    /// Its forward passes alone: what is left of it in inference.
    pub fn ahead(&self) -> Self {
        let forward = |list: &Vec<Operation>| {
            let own = list.iter().filter(|of| of.phase == Phase::Forward);
            own.copied().collect()
        };
        Self {
            devices: self.devices.iter().map(forward).collect(),
        }
    }

    /// Its first micro-batch alone, with the two gradients of its backward passes where they are run.
    pub fn of_first(&self) -> Self {
        let first = |list: &Vec<Operation>| {
            let own = list.iter().filter(|of| of.micro_batch == 0);
            own.copied().collect()
        };
        Self {
            devices: self.devices.iter().map(first).collect(),
        }
    }

    /// Whether it runs the two gradients of some backward pass apart.
    pub fn splits(&self) -> bool {
        let all = self.devices.iter().flatten();
        all.into_iter()
            .any(|operation| matches!(operation.phase, Phase::InputGradient | Phase::WeightGradient))
    }

    /// The same order with every backward pass as its two gradients, the weights' right after the input's: no operation ends
    /// later, since the chunk before waits for the first of the two alone.
    pub fn split(&self) -> Self {
        let parts = |operation: &Operation| match operation.phase {
            Phase::Backward => vec![
                Operation::new(operation.chunk, Phase::InputGradient, operation.micro_batch),
                Operation::new(operation.chunk, Phase::WeightGradient, operation.micro_batch),
            ],
            _ => vec![*operation],
        };
        let devices = self.devices.iter();
        Self {
            devices: devices
                .map(|order| order.iter().flat_map(parts).collect())
                .collect(),
        }
    }
}
