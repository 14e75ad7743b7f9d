//! Stage windows where workers differ: which stages an item can lie in, if none may take longer than a limit.
#![doc = include_str!("../../../formulations/demands.md")]

use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// Work that every stage must get done in a period, and what stages can do of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    /// What each item needs.
    pub work: Vec<f64>,
    /// What so many stages together can do in a ns, from 0 to all of them; never decreasing.
    pub capacity: Vec<f64>,
}

impl Demand {
    /// Stages needed for an amount within a limit; one more than there are if all cannot do it.
    fn stages(&self, amount: f64, limit_ns: f64) -> usize {
        // What doubles cannot tell apart is kept.
        let fits = |&k: &usize| amount <= limit_ns * self.capacity[k] * (1.0 + 1e-9);
        let needed = (1..self.capacity.len()).find(fits);
        needed.unwrap_or(self.capacity.len())
    }
}

/// Narrows windows to plans whose busiest stage takes at most `limit_ns`.
///
/// Time O(n^2 / 64 + n w) a demand, for n items, w of them before or after one on average.
pub(crate) fn narrow(
    problem: &Problem,
    closure: &Closure,
    demands: &[Demand],
    limit_ns: f64,
    windows: &mut Windows,
) {
    let stages = problem.stages();
    for demand in demands {
        let needed = |item: usize, others: &[u64]| {
            let others: f64 = bits::iter(others).map(|other| demand.work[other]).sum();
            demand.stages(demand.work[item] + others, limit_ns)
        };
        for item in 0..problem.items.len() {
            let earliest = needed(item, closure.ancestors.row(item)) - 1;
            windows.earliest[item] = windows.earliest[item].max(earliest);
            match stages.checked_sub(needed(item, closure.descendants.row(item))) {
                Some(latest) => windows.latest[item] = windows.latest[item].min(latest),
                // More stages than there are: an empty window.
                None => (windows.earliest[item], windows.latest[item]) = (stages, 0),
            }
        }
    }
}
