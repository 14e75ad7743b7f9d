//! What runs the steps of a method: one after the other, until a step or a limit ends the search.

use crate::exact::incumbent::Incumbent;
use crate::formulations::solver::SolverError;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// A search that is made of steps.
pub(super) trait Portfolio {
    /// What it is made of. A step ends the search, or leaves it to the next.
    type Step: Copy;

    /// What is known so far.
    fn incumbent(&self) -> &Incumbent<'_>;

    /// Takes a step; returns why it stopped.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    fn take(&mut self, step: Self::Step) -> Result<StoppedBy, SolverError>;

    /// Takes steps in their order until nothing is left to do, or a limit comes first; returns why the last one stopped. The clock is
    /// looked at behind each, so that the first is always begun.
    ///
    /// A step that breaks down leaves what it has found, and the rest to the others.
    ///
    /// # Errors
    ///
    /// The last error of [`Portfolio::take`] where the search ends without a plan.
    fn take_all(&mut self, steps: &[Self::Step], control: &Control) -> Result<StoppedBy, SolverError> {
        let mut stopped_by = StoppedBy::Completed;
        let mut broken = None;
        for &step in steps {
            match self.take(step) {
                Ok(stop) => stopped_by = stop,
                Err(error) => broken = Some(error),
            }
            if self.incumbent().is_over() {
                return Ok(StoppedBy::Completed);
            }
            if let Some(limit) = control.must_stop() {
                return Ok(limit);
            }
        }
        match broken {
            Some(error) if !self.incumbent().has_plan() => Err(error),
            Some(_) => Ok(StoppedBy::SolverError),
            None => Ok(stopped_by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::instance::Instance;
    use crate::model::options::PipelineOptions;
    use crate::model::settings::Settings;
    use crate::problem::Problem;

    /// Steps that break down, or offer a plan of one stage.
    struct Fragile<'a> {
        incumbent: Incumbent<'a>,
        taken: usize,
    }

    impl Portfolio for Fragile<'_> {
        /// Whether it finds a plan; else it breaks down.
        type Step = bool;

        fn incumbent(&self) -> &Incumbent<'_> {
            &self.incumbent
        }

        fn take(&mut self, finds_plan: bool) -> Result<StoppedBy, SolverError> {
            self.taken += 1;
            if !finds_plan {
                return Err(SolverError {
                    doing: "solving",
                    what: "Error".into(),
                });
            }
            let items = self.incumbent.problem.items.len();
            self.incumbent.offer(vec![0; items].into());
            Ok(StoppedBy::SizeLimit)
        }
    }

    fn take(steps: &[bool]) -> (Result<StoppedBy, SolverError>, usize) {
        let built = Instance::builder("a layer").layer("a", 1.0, 2.0);
        let instance = built.devices("device", 1, 1e12).link(1e9, 0.0).build().unwrap();
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
        let problem = Problem::new(&instance, settings).unwrap();
        let control = Control::default();
        let mut fragile = Fragile {
            incumbent: Incumbent::new(&problem, &control),
            taken: 0,
        };
        let stopped_by = fragile.take_all(steps, &control);
        (stopped_by, fragile.taken)
    }

    #[test]
    fn step_that_breaks_down_leaves_the_rest_to_others() {
        for steps in [[false, true], [true, false]] {
            assert_eq!(take(&steps), (Ok(StoppedBy::SolverError), 2), "{steps:?}");
        }
        let (stopped_by, taken) = take(&[false, false]);
        assert!(stopped_by.is_err() && taken == 2, "{stopped_by:?}");
    }
}
