//! What devices of several chunks hold at once: how many micro-batches of which chunk, read off an order.
//!
//! A device does one operation after the other. So what it holds after each of them depends on its order alone, whatever the
//! times: of every chunk the micro-batches whose forward pass is done and whose backward pass is not. An operation that is under
//! way counts as done if it takes, and as not done if it gives back.

use super::rules::{Rule, Shape};
use super::{Operation, Order, Phase};

/// For every device, how many micro-batches of each of its chunks, in the order of the pipeline, may be in flight together: the
/// largest of these counts, none of which is at most another in all chunks.
///
/// The bytes that a device holds are linear in these counts and never fall with them, so what holds for each of the largest holds
/// for all. Time O(n c k) for n operations of a device of c chunks with k largest counts.
///
/// Two chunks on one device, GPipe with two micro-batches, `0F0 0F1 1F0 1F1 1B1 1B0 0B1 0B0`: `[2, 2]`. One micro-batch
/// after the other, `0F0 1F0 1B0 0B0 0F1 ..`: `[1, 1]`.
pub fn most_in_flight(order: &Order, shape: &Shape) -> Vec<Vec<Vec<u64>>> {
    let devices = order.devices.iter().enumerate();
    devices
        .map(|(device, operations)| {
            let own: Vec<usize> = shape.chunks_of(device).collect();
            largest(operations, &own)
        })
        .collect()
}

/// The same for a rule, which writes as many micro-batches as there are, or where nobody says, as many as show all that more of
/// them would: [`steady`].
///
/// `None` where the rule is not for such a pipeline.
pub fn most_of_rule(rule: &Rule, shape: Shape) -> Option<Vec<Vec<Vec<u64>>>> {
    let order = rule.order(&shape)?;
    Some(most_in_flight(&order, &shape))
}

/// Micro-batches beyond which a rule that alternates holds no more, on so many devices: see `formulations/virtual_stages.md`.
pub fn steady(devices: usize) -> u64 {
    (devices as u64).saturating_mul(4)
}

fn largest(operations: &[Operation], own: &[usize]) -> Vec<Vec<u64>> {
    let mut held = vec![0; own.len()];
    let mut largest: Vec<Vec<u64>> = Vec::new();
    let mut has_taken = false;
    for operation in operations {
        let Some(at) = own.iter().position(|&chunk| chunk == operation.chunk) else {
            continue;
        };
        match operation.phase {
            Phase::Forward => {
                held[at] += 1;
                has_taken = true;
            }
            Phase::InputGradient => {}
            Phase::Backward | Phase::WeightGradient => {
                if std::mem::take(&mut has_taken) {
                    keep(&mut largest, &held);
                }
                // An order that gives back what it never took is told when it is run.
                held[at] = u64::saturating_sub(held[at], 1);
            }
        }
    }
    if has_taken || largest.is_empty() {
        keep(&mut largest, &held);
    }
    largest
}

fn keep(largest: &mut Vec<Vec<u64>>, held: &[u64]) {
    let is_within = |a: &[u64], b: &[u64]| a.iter().zip(b).all(|(a, b)| a <= b);
    if !largest.iter().any(|other| is_within(held, other)) {
        largest.retain(|other| !is_within(other, held));
        largest.push(held.to_vec());
    }
}
