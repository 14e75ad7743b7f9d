//! Stage windows: which stages an item can lie in, if no stage may be busier than a limit.
#![doc = include_str!("../../formulations/windows.md")]

use fixedbitset::FixedBitSet;

use super::reach::Reach;
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// Windows of every item for plans whose busiest stage is at most `limit_ns`.
///
/// What lies before an item, and the item itself, fill at least `ceil(work / limit)` stages, so its stage is not among the
/// first ones before that; likewise from the end. A limit of 0 leaves no window open unless nothing takes time. Under
/// `all_stages` the windows stay valid: they only use what a plan must carry.
///
/// Time O(n^2 / 64 + n w) for n items, w of them before or after one on average.
pub fn from_work(problem: &Problem, reach: &Reach, limit_ns: u64) -> Windows {
    let stages = problem.stages();
    let filled = |item: usize, others: &FixedBitSet| {
        let others: u64 = others.ones().map(|other| problem.items[other].work_ns()).sum();
        let work = others + problem.items[item].work_ns();
        match (work, limit_ns) {
            (0, _) => 1,
            (_, 0) => stages + 1,
            _ => (work.div_ceil(limit_ns)).min(stages as u64 + 1) as usize,
        }
    };
    let mut windows = Windows::all(problem);
    for item in 0..problem.items.len() {
        windows.earliest[item] = filled(item, &reach.ancestors[item]) - 1;
        // Saturating: more stages filled than there are leaves latest at 0 and, with earliest checked below, is caught
        // by the item itself or by an item before it.
        windows.latest[item] = match stages.checked_sub(filled(item, &reach.descendants[item])) {
            Some(latest) => latest,
            None => {
                windows.earliest[item] = stages;
                0
            }
        };
    }
    windows
}
