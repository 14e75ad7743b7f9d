//! A proof held against others: a second method, and plans of narrower settings.

use crate::exact;
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Status, StoppedBy};
use crate::solve::error::Error;
use crate::solve::methods::Method;
use crate::solve::narrower;
use crate::solve::posed::Posed;

/// What is said where one method alone tells the objective.
const NO_SECOND_METHOD: &str = "not confirmed: no second method proves this kind of problem";

impl Posed<'_> {
    /// Proves a plan again with the other half of the engine, which is recorded in it, and looks for a better plan under narrower settings. The
    /// halves share the incumbents and the cost function, but neither bounds nor search. Returns why nothing is confirmed, if so.
    ///
    /// Both searches may take as long as the control says.
    ///
    /// # Errors
    ///
    /// [`Error::Contradiction`] where one of the results must be wrong, [`Error::Solver`] where HiGHS breaks down.
    pub fn confirm(&self, plan: &mut Plan, control: &Control) -> Result<Option<Words>, Error> {
        if !is_proved(plan) {
            return Ok(Some("nothing to confirm: the result is not proved".into()));
        }
        if self.settings.room.is_most {
            let tokens = setting::TOKENS.given(plan.tokens.unwrap_or(0));
            return Ok(Some(words!(
                "the most tokens are not confirmed, but a plan with {} can be",
                tokens
            )));
        }
        if self.chooses_chunks() {
            let size = plan
                .problem
                .chunks
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
            return Ok(Some(words!(
                "the size of chunks is not confirmed, but a plan with {} can be",
                setting::CHUNKS.given(size)
            )));
        }
        let Ok(problem) = self.problem() else {
            return Ok(Some(
                "nothing to confirm: the network and the options alone leave no plan".into(),
            ));
        };
        let note = self.proved_again(plan, problem, control)?;
        let control = control.with_time(control.time_limit);
        match narrower::beaten(self.instance, problem, plan, &control)? {
            None => Ok(note),
            Some(better) => Err(Error::Contradiction(words!(
                "{}{}{}",
                format!(
                    "`{}` finds {} at {:?} ms, and with ",
                    plan.method, plan.status, plan.objective_ms
                ),
                better.by,
                format!(
                    ", which allows no more, a plan takes {:?} ms",
                    better.objective_ms
                )
            ))),
        }
    }

    /// Proves a plan again, and records by what; why it is not, if so.
    fn proved_again(
        &self,
        plan: &mut Plan,
        problem: &Problem,
        control: &Control,
    ) -> Result<Option<Words>, Error> {
        let second = second(plan);
        if second.applies(problem).is_err() {
            return Ok(Some(NO_SECOND_METHOD.into()));
        }
        let again = second.run(self.instance, problem, &control.with_time(control.time_limit))?;
        Ok(match (is_proved(&again), again.stopped_by) {
            (true, _) if again.status == plan.status && again.objective_ms == plan.objective_ms => {
                plan.statistics.confirmed_by = Some(second.name().into());
                None
            }
            (true, _) => {
                let [own, other] = [&*plan, &again].map(|plan| {
                    let found = format!("{} at {:?} ms", plan.status, plan.objective_ms);
                    format!("`{}` finds {found}", plan.method)
                });
                return Err(Error::Contradiction(format!("{own}, {other}").into()));
            }
            (false, StoppedBy::NoMethod) => Some(NO_SECOND_METHOD.into()),
            (false, stopped_by) => {
                let method = second.name();
                let why =
                    format!("not confirmed: `{method}` stopped before it could tell ({stopped_by}); raise ");
                Some(words!("{}{}", why, setting::TIME_LIMIT))
            }
        })
    }
}

fn is_proved(plan: &Plan) -> bool {
    matches!(plan.status, Status::Optimal | Status::Infeasible)
}

/// The program where ideals proved it, ideals otherwise.
fn second(plan: &Plan) -> Method {
    Method::Exact(match plan.bound_source {
        BoundSource::Ideals
        | BoundSource::IdealsAndDevices
        | BoundSource::IdealsAndModes
        | BoundSource::ChainsOfChunks
        | BoundSource::IdealsAndLoads
        | BoundSource::IdealPairs => exact::Method::Milp,
        _ => exact::Method::Ideals,
    })
}
