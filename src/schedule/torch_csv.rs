//! Orders as text: a line a device, cells such as `0F0` for chunk, phase and micro-batch.
//!
//! That is what `torch.distributed.pipelining` reads as a schedule of computations (`_load_csv` with `compute_only`), and with
//! it torchtitan and NeMo AutoModel (`pipeline_parallel_schedule_csv`). An empty cell is a pause, which an order need not say.

use std::path::Path;

use super::{Operation, Order, Phase};
use crate::input::intake;
use crate::input::source::Source;
use crate::input::source::text::fault_at;
use crate::model::fault::{Fault, FaultKind, InputError};

impl Order {
    /// A line a device, as `torch.distributed.pipelining` reads schedules of computations.
    pub fn to_torch_csv(&self) -> String {
        let line = |order: &Vec<Operation>| {
            let cells: Vec<String> = order.iter().map(ToString::to_string).collect();
            cells.join(",") + "\n"
        };
        self.devices.iter().map(line).collect()
    }

    /// The order that such lines say, in time O(n) for n bytes.
    ///
    /// # Errors
    ///
    /// For every line its first cell that is no computation, with line and column; a text without operations.
    pub fn from_torch_csv(text: &str) -> Result<Self, Vec<Fault>> {
        let text = text.trim_end();
        let mut faults = Vec::new();
        let mut devices = Vec::new();
        let mut start = 0;
        for line in text.split('\n') {
            match operations(text, start, line) {
                Ok(operations) => devices.push(operations),
                Err(fault) => faults.push(*fault),
            }
            start += line.len() + 1;
        }
        match () {
            () if !faults.is_empty() => Err(faults),
            () if devices.iter().all(Vec::is_empty) => Err(vec![Fault::new(
                "the file",
                FaultKind::Missing {
                    what: "operations".into(),
                    expected: "a line a device, such as `0F0,0F1,0B0,0B1`".into(),
                    remedy: "`stagecut schedule --format csv` writes one".into(),
                },
            )]),
            () => Ok(Self { devices }),
        }
    }
}

/// Reads an order from a file.
///
/// # Errors
///
/// A file that cannot be read, and those of [`Order::from_torch_csv`].
pub fn read_order(path: &Path) -> Result<Order, InputError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
    let source = Source { path, bytes: &bytes };
    source.text().and_then(Order::from_torch_csv).map_err(in_file)
}

/// The operations of a line that begins at a byte of the text.
fn operations(text: &str, mut start: usize, line: &str) -> Result<Vec<Operation>, Box<Fault>> {
    let mut operations = Vec::new();
    for cell in line.split(',') {
        let word = cell.trim();
        let from = start + cell.len() - cell.trim_start().len();
        if !word.is_empty() {
            let operation = operation(word);
            operations.push(operation.ok_or_else(|| Box::new(no_operation(text, from, word)))?);
        }
        start += cell.len() + 1;
    }
    Ok(operations)
}

/// Chunk, letter, micro-batch.
fn operation(word: &str) -> Option<Operation> {
    let at = word.find(|c: char| !c.is_ascii_digit())?;
    let phase = Phase::of_letter(word[at..].chars().next()?)?;
    // Letters of phases have one byte; `parse` would take a sign.
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<usize>().ok()).flatten()
    };
    Some(Operation::new(
        number(&word[..at])?,
        phase,
        number(&word[at + 1..])?,
    ))
}

fn no_operation(text: &str, from: usize, word: &str) -> Fault {
    let kind = FaultKind::Malformed {
        found: format!("`{word}`"),
        expected: "chunk, phase and micro-batch, such as `0F0`".into(),
        remedy: "phases are F and B, or I and W for the gradients of input and weights; orders hold no communication, which \
                 PyTorch adds itself"
            .into(),
    };
    fault_at(text, from..from + word.len(), kind)
}
