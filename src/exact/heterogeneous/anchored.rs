//! The anchored stage bound where one class of devices alone can run an item in time.

use crate::exact::bounds::anchored::{KnownStages, refutes};
use crate::exact::heterogeneous::search::HeterogeneousSearch;
use crate::formulations::solver::SolverError;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;

impl HeterogeneousSearch<'_> {
    /// Proves the incumbent by an item that one class alone can run in time, and that has no stage there: the anchored stage
    /// bound looks at one stage and at what it pays itself, so it holds whatever the other stages run on.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn use_anchors(&mut self) -> Result<(), SolverError> {
        let workers = self.workers;
        let all_single = workers.choices.iter().all(|choice| workers.is_single(choice));
        if !self.incumbent.has_plan() || !all_single {
            return Ok(());
        }
        let target_ns = self.target_ns();
        let reduced = self.reduced(target_ns);
        let labels = reduced.labels(self.labels);
        let alone = (0..workers.classes.len()).map(|class| reduced.problem.on_class(class));
        // Groups and classes that cannot run everything are not looked at.
        let Some(classes) = alone.collect::<Option<Vec<Problem>>>() else {
            return Ok(());
        };
        for (class, problem) in classes.iter().enumerate() {
            let others = || (0..classes.len()).filter(|&other| other != class);
            let is_anchor =
                |item: usize| others().all(|other| classes[other].items[item].work_ns() > target_ns);
            let known = KnownStages::of_anchors(problem, is_anchor);
            if refutes(problem, &labels, known, target_ns, self.incumbent.control)? {
                self.incumbent.rule_out(BoundSource::AnchoredStage, target_ns);
                return Ok(());
            }
        }
        Ok(())
    }
}
