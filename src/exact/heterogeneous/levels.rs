//! The search over ideals and free devices, level by level, as a step: periods of single devices without transfers.

use crate::exact::heterogeneous::search::HeterogeneousSearch;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::Workers;
use crate::search::device_levels::problem::DeviceLine;
use crate::search::device_levels::search;

impl HeterogeneousSearch<'_> {
    /// Searches levels of ideals and devices with so many nodes at most.
    pub(super) fn use_levels(&mut self, most_nodes: u64) -> StoppedBy {
        let (problem, control) = (self.incumbent.problem, self.incumbent.control);
        let Some(levels) = DeviceLine::new(problem, self.workers) else {
            return StoppedBy::SizeLimit;
        };
        let known = self
            .incumbent
            .has_plan()
            .then(|| self.incumbent.upper_ns.div_ceil(levels.quantum_ns));
        let must_stop = || control.must_stop().is_some();
        let found = search::search(&levels.line, problem.stages(), known, most_nodes, &must_stop);
        if let Some(stations) = &found.plan {
            self.incumbent
                .offer(levels.allocation(stations, problem.items.len()));
        }
        match found.lower {
            u64::MAX => self.incumbent.exhausted(BoundSource::DeviceLevels),
            lower => self
                .incumbent
                .raise(BoundSource::DeviceLevels, lower * levels.quantum_ns),
        }
        match self.incumbent.is_over() {
            true => StoppedBy::Completed,
            false => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
        }
    }
}

/// Whether a problem is one for this search.
pub(super) fn applies(problem: &Problem, workers: &Workers) -> bool {
    DeviceLine::new(problem, workers).is_some()
}
