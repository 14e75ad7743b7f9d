//! Every method under its name: exact ones, heuristics and the baseline of separate cuts, run the same way.

use std::time::{Duration, Instant};

use crate::exact;
use crate::exact::heterogeneous::program::Form;
use crate::exact::tie_breaking;
use crate::exact::tied_cuts;
use crate::formulations::modal_program;
use crate::formulations::partition::item_labels;
use crate::formulations::solver::SolverError;
use crate::heuristics::{self, Heuristic, equal_layers};
use crate::model::instance::Instance;
use crate::model::options::Objective;
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::{Outcome, Plan, Statistics, StoppedBy};
use crate::search::in_time;

/// A method, from [`find`] or [`all`].
///
/// ```
/// let method = stagecut::methods::find("slicing").expect("a heuristic");
/// println!("{}: {}; {}", method.name(), method.summary(), method.source());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Method {
    /// One that proves what it finds.
    #[doc(hidden)]
    Exact(exact::Method),
    /// One that does not.
    #[doc(hidden)]
    Heuristic(&'static Heuristic),
    /// The best plan with tied cuts, where cuts are separate.
    #[doc(hidden)]
    TiedCuts,
    /// Piper's program, where stages have modes.
    #[doc(hidden)]
    Piper,
}

/// The name of the default method.
pub const DEFAULT: &str = "exact";

/// Every method: exact ones, heuristics, tied cuts, Piper.
pub fn all() -> Vec<Method> {
    let exact = exact::METHODS.iter().map(|method| Method::Exact(method.method));
    exact
        .chain(heuristics::METHODS.iter().map(Method::Heuristic))
        .chain([Method::TiedCuts, Method::Piper])
        .collect()
}

/// What a plan names as its method that none of these made.
#[doc(hidden)]
pub const OTHER: &str = "other";

/// Whether a plan may name this as what made it: a method, the command that computes bounds alone, or [`OTHER`].
#[doc(hidden)]
pub fn may_be_named(name: &str) -> bool {
    [BOUND, OTHER].contains(&name) || find(name).is_some()
}

/// What `stagecut bound` names as its method.
#[doc(hidden)]
pub const BOUND: &str = "bound";

/// The method of that name.
pub fn find(name: &str) -> Option<Method> {
    all().into_iter().find(|method| method.name() == name)
}

/// The objective that comes near an iteration, of those that a program may be written for: its formula, or the period where that is no sum of what
/// stages take, or programs know no sums.
pub(crate) fn near_iterations(problem: &Problem) -> Objective {
    match problem.modes.is_none() && problem.settings.knows_formula() {
        true => Objective::Formula,
        false => Objective::Period,
    }
}

impl Method {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact(method) => method.entry().name,
            Self::Heuristic(heuristic) => heuristic.name,
            Self::TiedCuts => tied_cuts::NAME,
            Self::Piper => "piper",
        }
    }

    /// What it does, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Exact(method) => method.entry().summary,
            Self::Heuristic(heuristic) => heuristic.summary,
            Self::TiedCuts => tied_cuts::SUMMARY,
            Self::Piper => {
                "ideals, devices and replicas as in `exact`, but each stage's recomputation by a greedy knapsack"
            }
        }
    }

    /// Where it comes from.
    pub fn source(self) -> &'static str {
        match self {
            Self::Exact(method) => method.entry().source,
            Self::Heuristic(heuristic) => heuristic.source,
            Self::TiedCuts => tied_cuts::SOURCE,
            Self::Piper => "Tarnawski, Narayanan, Phanishayee, Piper, NeurIPS 2021",
        }
    }

    /// Whether it can be asked at all, or why not.
    #[doc(hidden)]
    pub fn applies(self, problem: &Problem) -> Result<(), Words> {
        match self {
            Self::Exact(exact::Method::Milp | exact::Method::Ideals | exact::Method::Textbook)
                if problem.settings.is_simulated() =>
            {
                Err(words!(
                    "no formula tells the time of an iteration; `exact` simulates it, and {} comes near it",
                    setting::OBJECTIVE.given(near_iterations(problem))
                ))
            }
            Self::Exact(exact::Method::Ideals) if !exact::has_ideals_of_chunks(problem) => {
                Err("more than 64 devices have several chunks, and items are no chain".into())
            }
            Self::Exact(exact::Method::Milp | exact::Method::Textbook) if problem.confined.is_some() => {
                Err("it does not know what is to lie apart, and how many layers a stage may have".into())
            }
            Self::Exact(exact::Method::Milp | exact::Method::Textbook) if problem.has_ordered_rows() => {
                Err("it does not know the order of kinds of devices".into())
            }
            Self::Exact(exact::Method::Milp | exact::Method::Textbook) => {
                match (&problem.modes, &problem.workers) {
                    (Some(modes), _) => Ok(modal_program::too_large(problem, modes)?),
                    (None, Some(workers)) => Form::new(problem, workers).map(|_| ()).map_err(Words::from),
                    (None, None) => Ok(()),
                }
            }
            Self::Exact(exact::Method::Ideals) if problem.memory_is_joint() => {
                Err("memory binds, and depends on where both passes of a layer lie".into())
            }
            Self::Exact(exact::Method::Ideals) if problem.shares_are_global() => {
                Err("one share for all stages ties them together".into())
            }
            Self::Exact(_) => Ok(()),
            Self::Heuristic(_) | Self::TiedCuts | Self::Piper if problem.settings.room.is_most => {
                Err(words!(
                    "it looks for no room; `exact` does, and {} is room that it keeps",
                    setting::TOKENS.given("N")
                ))
            }
            Self::Heuristic(_) | Self::TiedCuts | Self::Piper
                if problem.modes.is_some() && !problem.settings.allows_virtual_stages(1) =>
            {
                Err("devices hold several chunks of stages in modes, which only `exact` knows".into())
            }
            Self::Heuristic(heuristic) => heuristic.applies(problem),
            Self::TiedCuts => tied_cuts::applies(problem),
            Self::Piper => match problem.modes {
                Some(_) if problem.settings.uniform || problem.settings.target.is_some() => {
                    Err("it gives every stage a degree of its own".into())
                }
                Some(_) => Ok(()),
                None => Err("stages have no modes to choose from".into()),
            },
        }
    }

    /// Runs it and lifts what it found to a plan.
    ///
    /// A heuristic's plan is set against the simple bounds, so that it may turn out optimal.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    #[doc(hidden)]
    pub fn run(self, instance: &Instance, problem: &Problem, control: &Control) -> Result<Plan, SolverError> {
        let outcome = match self {
            Self::Exact(method) => {
                let labels = item_labels(instance, problem);
                let search = move |problem: &Problem, control: &Control| {
                    let outcome = exact::solve(problem, method, &labels, control)?;
                    Ok(tie_breaking::settled(problem, outcome))
                };
                let outcome = in_time::run(problem, control, search)?;
                match (method, outcome.stopped_by, &outcome.allocation) {
                    // A better plan than that is known where one is to be beaten.
                    (exact::Method::Exact, StoppedBy::TimeLimit, None) if control.beat_ns.is_none() => {
                        at_once(problem, control, outcome)
                    }
                    _ => outcome,
                }
            }
            Self::Heuristic(heuristic) => {
                let search =
                    |problem: &Problem, control: &Control| Ok(run_heuristic(heuristic, problem, control));
                in_time::run(problem, control, search)?
            }
            Self::TiedCuts => {
                let labels = tied_cuts::labels(instance, problem);
                let search =
                    move |problem: &Problem, control: &Control| tied_cuts::solve(problem, &labels, control);
                in_time::run(problem, control, search)?
            }
            Self::Piper => {
                let search = |problem: &Problem, control: &Control| Ok(exact::piper(problem, control));
                in_time::run(problem, control, search)?
            }
        };
        Ok(Plan::new(instance, problem, self.name(), outcome))
    }
}

/// The bounds of a problem, as a plan without stages.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
#[doc(hidden)]
pub fn bounded(instance: &Instance, problem: &Problem, control: &Control) -> Result<Plan, SolverError> {
    let labels = item_labels(instance, problem);
    let search = move |problem: &Problem, control: &Control| exact::bound(problem, &labels, control);
    let outcome = in_time::run(problem, control, search)?;
    Ok(Plan::new(instance, problem, BOUND, outcome))
}

/// Every method that is worth a place beside the others where nobody named any: `exact`, every heuristic, and tied cuts and Piper where they
/// apply.
#[doc(hidden)]
pub fn beside_each_other(problem: &Problem) -> Vec<Method> {
    let is_default = |method: &Method| match method {
        Method::Exact(method) => *method == exact::Method::Exact,
        Method::Heuristic(_) => true,
        Method::TiedCuts | Method::Piper => method.applies(problem).is_ok(),
    };
    all().into_iter().filter(is_default).collect()
}

/// Runs methods on a problem one after the other, within a limit of time for all of them together; what each came to, in their order.
///
/// Each may take an equal part of what those before it have left. Those that prove come last, since most heuristics leave nearly all of
/// theirs. `run` is given the part.
///
/// # Errors
///
/// The first error of `run`.
#[doc(hidden)]
pub fn in_turn<T, E>(
    methods: &[Method],
    problem: &Problem,
    time_limit: Option<Duration>,
    mut run: impl FnMut(Method, Option<Duration>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let started = Instant::now();
    let (provers, others): (Vec<usize>, Vec<usize>) =
        (0..methods.len()).partition(|&at| matches!(methods[at], Method::Exact(_)));
    let applies = |&&at: &&usize| methods[at].applies(problem).is_ok();
    let mut waiting = provers.iter().chain(&others).filter(applies).count() as u32;
    let mut results: Vec<Option<T>> = methods.iter().map(|_| None).collect();
    for at in others.into_iter().chain(provers) {
        let left = time_limit.map(|limit| limit.saturating_sub(started.elapsed()));
        results[at] = Some(run(methods[at], left.map(|left| left / waiting.max(1)))?);
        waiting -= u32::from(applies(&&at));
    }
    Ok(results.into_iter().flatten().collect())
}

/// An outcome without a plan, with that of the quickest heuristic and the simple bounds: of a million layers a limit may leave the search no
/// time for them.
fn at_once(problem: &Problem, control: &Control, outcome: Outcome) -> Outcome {
    let quickest = run_heuristic(&equal_layers::METHOD, problem, control);
    let (bound_source, bound_ns) = match outcome.bound_ns >= quickest.bound_ns {
        true => (outcome.bound_source, outcome.bound_ns),
        false => (quickest.bound_source, quickest.bound_ns),
    };
    let mut statistics = outcome.statistics;
    if bound_ns < u64::MAX {
        let listed_ms = statistics.bounds_ms.entry(bound_source).or_default();
        *listed_ms = listed_ms.max(problem.settings.ms(bound_ns));
    }
    Outcome {
        allocation: quickest.allocation,
        bound_source,
        bound_ns,
        statistics,
        ..outcome
    }
}

fn run_heuristic(heuristic: &Heuristic, problem: &Problem, control: &Control) -> Outcome {
    let started = Instant::now();
    let (bound_source, bound_ns) = exact::known_bound(problem, control);
    control.show_bound(bound_source, bound_ns);
    let must_stop = || control.must_stop().is_some();
    // They compare parts of plans, which a simulation says nothing of.
    let allocation = match problem.settings.is_simulated() {
        true if problem.virtual_stages.is_some() => {
            heuristic.plan(&problem.for_the_period(), control.seed, &must_stop)
        }
        true => heuristic.plan(&problem.for_the_formula(), control.seed, &must_stop),
        false => heuristic.plan(problem, control.seed, &must_stop),
    };
    let estimate = |plan: &Allocation| heuristic.estimate_ms(problem, plan);
    Outcome {
        bound_ns,
        bound_source,
        stopped_by: control.must_stop().unwrap_or(StoppedBy::Completed),
        statistics: Statistics {
            seconds: started.elapsed().as_secs_f64(),
            items: problem.items.len(),
            items_after_presolve: problem.items.len(),
            estimate_ms: allocation.as_ref().and_then(estimate),
            ..Statistics::default()
        },
        allocation,
    }
}
