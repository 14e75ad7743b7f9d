//! Stage windows: which stages an item can lie in, if no stage may be busier than a limit.
#![doc = include_str!("../../../formulations/windows.md")]

pub(crate) mod demands;
pub(crate) mod min_cut;

use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// Windows of every item for plans whose busiest stage is at most `limit_ns` and whose stages fit their memory.
///
/// What lies before an item, and the item itself, fill a number of stages, with their work and with their bytes; the item's
/// stage is not among the first ones before that, and likewise from the end. A limit of 0 leaves no window open unless
/// nothing takes time. Under `all_stages` the windows stay valid: they only use what a plan must carry.
///
/// Time O(n^2 / 64 + n w) for n items, w of them before or after one on average.
pub(crate) fn within(problem: &Problem, closure: &Closure, limit_ns: u64) -> Windows {
    let stages = problem.stages();
    // The last stage holds least of an item, so no stage holds less.
    let least_bytes = |item: usize| problem.memory_bytes(&problem.items[item], 1);
    let memory = problem.settings.memory_limit.unwrap_or(u64::MAX);
    let filled = |item: usize, others: &[u64]| {
        let (mut work, mut bytes) = (problem.items[item].work_ns(), least_bytes(item));
        for other in bits::iter(others) {
            work += problem.items[other].work_ns();
            bytes += least_bytes(other);
        }
        needed(work, limit_ns).max(needed(bytes, memory)).min(stages + 1)
    };
    let mut windows = Windows::all(problem);
    for item in 0..problem.items.len() {
        windows.earliest[item] = filled(item, closure.ancestors.row(item)) - 1;
        match stages.checked_sub(filled(item, closure.descendants.row(item))) {
            Some(latest) => windows.latest[item] = latest,
            // More stages than there are: an empty window.
            None => (windows.earliest[item], windows.latest[item]) = (stages, 0),
        }
    }
    windows
}

/// Stages of `capacity` that an amount fills; nothing still takes one.
fn needed(amount: u64, capacity: u64) -> usize {
    match (amount, capacity) {
        (0, _) => 1,
        (_, 0) => usize::MAX,
        _ => amount.div_ceil(capacity) as usize,
    }
}
