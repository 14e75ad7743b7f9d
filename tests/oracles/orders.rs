//! All orders of a small iteration, by enumeration: every device's operations in every sequence that keeps each micro-batch's own
//! order there, run one by one.

use stagecut::schedule::{Chunks, Operation, Order, Phase, run};

/// The shortest iteration of all orders that can be run; `None` where there are more than `most` orders to try.
pub fn shortest_ns(chunks: &Chunks, micro_batches: usize, most: usize) -> Option<Option<u64>> {
    let lists: Vec<Vec<Vec<Operation>>> = (0..chunks.devices())
        .map(|device| sequences(chunks, device, micro_batches, most))
        .collect::<Option<_>>()?;
    let count = lists
        .iter()
        .try_fold(1usize, |count, list| count.checked_mul(list.len()))?;
    if count > most {
        return None;
    }
    let mut shortest = None;
    for mut number in 0..count {
        let mut devices = Vec::new();
        for list in &lists {
            devices.push(list[number % list.len()].clone());
            number /= list.len();
        }
        if let Ok(ran) = run(chunks, &Order { devices }, micro_batches) {
            shortest = Some(shortest.map_or(ran.makespan_ns, |known: u64| known.min(ran.makespan_ns)));
        }
    }
    Some(shortest)
}

/// What a device does for a micro-batch before an operation of its own.
fn comes_before(chunks: &Chunks, one: Operation, other: Operation) -> bool {
    if one.micro_batch != other.micro_batch || one == other {
        return false;
    }
    let rank = |operation: Operation| match operation.phase {
        Phase::Forward => operation.chunk,
        _ => 2 * chunks.len() - operation.chunk,
    };
    match (one.phase, other.phase) {
        (Phase::WeightGradient, _) => false,
        (_, Phase::WeightGradient) => rank(one) <= rank(other),
        _ => rank(one) < rank(other),
    }
}

/// All sequences of a device's operations, or none where there are too many.
fn sequences(
    chunks: &Chunks,
    device: usize,
    micro_batches: usize,
    most: usize,
) -> Option<Vec<Vec<Operation>>> {
    let phases: &[Phase] = match chunks.may_split {
        true => &[Phase::Forward, Phase::InputGradient, Phase::WeightGradient],
        false => &[Phase::Forward, Phase::Backward],
    };
    let mut operations = Vec::new();
    for chunk in chunks.of_device(device) {
        for micro_batch in 0..micro_batches {
            operations.extend(
                phases
                    .iter()
                    .map(|&phase| Operation::new(chunk, phase, micro_batch)),
            );
        }
    }
    let mut found = Vec::new();
    extend(chunks, &operations, &mut Vec::new(), &mut found, most).then_some(found)
}

fn extend(
    chunks: &Chunks,
    operations: &[Operation],
    prefix: &mut Vec<Operation>,
    found: &mut Vec<Vec<Operation>>,
    most: usize,
) -> bool {
    if prefix.len() == operations.len() {
        found.push(prefix.clone());
        return found.len() <= most;
    }
    for &operation in operations {
        let waits = |other: &Operation| comes_before(chunks, *other, operation) && !prefix.contains(other);
        if prefix.contains(&operation) || operations.iter().any(waits) {
            continue;
        }
        prefix.push(operation);
        let fits = extend(chunks, operations, prefix, found, most);
        prefix.pop();
        if !fits {
            return false;
        }
    }
    true
}
