//! The exact engine: incumbents, bounds, windows, a mixed-integer program on what is left, and a dynamic program over
//! ideals beside it.
//!
//! | module | what it does |
//! |---|---|
//! | [`homogeneous`] | the steps of every method where all workers are alike, and their order |
//! | [`heterogeneous`] | the same where they are not: ideals and devices, programs, exhaustive search |
//! | `modal` | the same where stages have modes: ideals, devices and replicas |
//! | `modal_program` | the mixed-integer program of modes |
//! | `virtual_stages` | bounds, chains, ideals and the program where devices have several chunks |
//! | `beside` | problems that are told apart into cases, each of which is solved by itself |
//! | `method` | the names of the exact methods |
//! | `portfolio` | runs steps |
//! | `program_runs` | solves a program again and again, each time for a better plan |
//! | `halves` | two searches at the same time |
//! | [`incumbent`] | the best plan and bound, and what is of interest between them |
//! | [`presolve`] | joins items that some best plan keeps together |
//! | [`bounds`] | lower bounds that need no search |
//! | `busy_times` | what stages and transfers keep busy |
//! | [`boundary_chain`] | what the first stages can carry, boundary by boundary |
//! | `windows` | the stages that an item may lie in |
//! | [`ideals`] | the dynamic program over ideals |
//! | `joint_memory` | what stages taken from the end hold, where it depends on others that are not taken yet |
//! | [`stage_diagram`] | the same over all stages as paths of a decision diagram, led by prices of items |
//! | [`ideal_tree`] | the same as a tree search from both ends, where there are no transfers |
//! | `unordered_items` | the same over ideals of the items that have an order, and sets of those that have none |
//! | `iteration` | plans by what no run of theirs can beat, each simulated: iterations that no formula tells |
//! | [`labelled_ideals`] | the same for iterations, which weigh sums and maxima together |
//! | `components`, `cut_states`, [`ideal_pairs`] | the same over pairs of ideals, for problems in two components: these and their ideals, the pairs that can lie before each boundary, and the search |
//! | `closure` | what lies before and behind what |
//! | `bits` | bit sets |
//! | [`tie_breaking`] | which of several plans with the same objective is taken |
//! | `uniform` | plans whose stages are alike, kind by kind |
//! | `tuning` | every number the engine was tuned by |

mod beside;
pub mod best_schedule;
mod bits;
pub mod boundary_chain;
pub mod bounds;
mod busy_times;
mod closure;
mod components;
mod cut_states;
mod halves;
pub mod heterogeneous;
pub mod homogeneous;
pub mod ideal_pairs;
pub mod ideal_tree;
pub mod ideals;
pub mod incumbent;
mod iteration;
pub mod joint;
pub(crate) mod joint_memory;
pub mod labelled_ideals;
mod method;
mod modal;
mod modal_program;
pub mod placement;
mod portfolio;
pub mod presolve;
mod program_runs;
pub mod stage_diagram;
pub mod tie_breaking;
pub(crate) mod tied_cuts;
mod tuning;
mod uniform;
mod unordered_items;
mod virtual_stages;
mod windows;

pub(crate) use self::method::METHODS;
pub use self::method::{Entry, Method};
use std::collections::BTreeMap;

use crate::exact::bounds::Bound;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::incumbent::Incumbent;
use crate::formulations::solver::SolverError;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;
use crate::problem::plan::{Outcome, Statistics, StoppedBy};

/// Solves a problem.
///
/// [`Method::Exact`] has nothing left to try only where no other exact method has: each is asked what it makes of what is left.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down; never for a limit or an infeasible problem.
pub(crate) fn solve(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    match problem.is_told_apart() {
        true => beside::solve(problem, method, labels, control),
        false => solve_alone(problem, method, labels, control),
    }
}

/// Solves a problem that is not told apart.
fn solve_alone(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let outcome = solve_by(method, known(problem, control), labels)?;
    // What is simulated has one method.
    match method == Method::Exact && !problem.settings.is_simulated() {
        true => Ok(ask_others(problem, outcome, labels, control)),
        false => Ok(outcome),
    }
}

/// What is known of a problem before it is looked at: a plan to beat, where the search is one that looks for less from the start.
fn known<'a>(problem: &'a Problem, control: &'a Control) -> Incumbent<'a> {
    let known = Incumbent::new(problem, control);
    let beat_ns = control.beat_ns.filter(|_| {
        let looks_for_less = problem.modes.is_some() || problem.reads().is_some();
        looks_for_less && problem.settings.is_simulated()
    });
    match beat_ns {
        Some(upper_ns) => known.beating(upper_ns, 0),
        None => known,
    }
}

/// Whether a method may prove what [`Method::Exact`] has left open.
fn may_know_more(method: Method, problem: &Problem) -> bool {
    if problem.confined.is_some() || problem.has_ordered_rows() {
        return false;
    }
    match (&problem.modes, &problem.workers) {
        // Its dynamic program is that of `exact`.
        (Some(modes), _) => method == Method::Milp && modal_program::applies(problem, modes),
        (None, Some(workers)) => heterogeneous::applies(method, problem, workers),
        (None, None) => true,
    }
}

/// Asks the other exact methods, one after the other, for what an outcome leaves open that no limit has ended.
fn ask_others(problem: &Problem, mut outcome: Outcome, labels: &[String], control: &Control) -> Outcome {
    let others = [Method::Milp, Method::Ideals].into_iter();
    for method in others.filter(|&method| may_know_more(method, problem)) {
        let mut known = Incumbent::new(problem, control);
        if let Some(plan) = outcome.allocation.clone() {
            known.offer(plan);
        }
        known.raise(outcome.bound_source, outcome.bound_ns);
        if known.is_over() || control.must_stop().is_some() {
            break;
        }
        known.statistics = outcome.statistics.clone();
        // One that breaks down has found nothing.
        let Ok(found) = solve_by(method, known.clone(), labels) else {
            continue;
        };
        let mut other = Incumbent::new(problem, control);
        other.plan = found.allocation;
        (other.lower_ns, other.source) = (found.bound_ns, found.bound_source);
        other.statistics = found.statistics;
        known.join(other);
        outcome = known.finish(found.stopped_by);
    }
    outcome
}

/// Solves a problem by one method, which may begin with what is known.
fn solve_by(method: Method, known: Incumbent, labels: &[String]) -> Result<Outcome, SolverError> {
    let (problem, control) = (known.problem, known.control);
    if let Some(modes) = &problem.modes {
        let known = match (&problem.with_tied_cuts, method) {
            (Some(tied), Method::Exact) => with_tied_plan(known, tied, labels)?,
            _ => known,
        };
        return match method {
            Method::Exact if problem.settings.is_simulated() => iteration::modal::solve(known, modes, labels),
            _ if uniform::applies(problem, modes) => uniform::solve(known, modes, method, labels),
            Method::Exact | Method::Ideals => Ok(modal::solve(known, modes)),
            Method::Milp | Method::Textbook => modal_program::solve(known, modes, method, labels),
        };
    }
    if let Some(of) = &problem.virtual_stages {
        return match problem.settings.is_simulated() {
            true => iteration::chunks::solve(problem, of, method, labels, control),
            false => virtual_stages::solve(problem, of, method, labels, control),
        };
    }
    match &problem.workers {
        _ if problem.settings.is_simulated() => iteration::solve(known, method, labels),
        None => homogeneous::solve(problem, method, labels, control),
        Some(workers) => heterogeneous::solve(problem, workers, method, labels, control),
    }
}

/// What plans with tied cuts may take of the time that is left where passes may lie apart.
const SHARE_OF_TIED: f64 = 0.25;

/// What is known, and the best plan with tied cuts that a part of the time finds: it is one with separate cuts as well.
fn with_tied_plan<'a>(
    mut known: Incumbent<'a>,
    tied: &Problem,
    labels: &[String],
) -> Result<Incumbent<'a>, SolverError> {
    let (problem, control) = (known.problem, known.control.elsewhere());
    if control.switches.incumbents {
        let left = control.remaining();
        let within = control.with_time(left.map(|left| left.mul_f64(SHARE_OF_TIED)));
        let outcome = solve_by(Method::Exact, Incumbent::new(tied, &within), labels)?;
        known.offer_some(outcome.allocation.map(|plan| Allocation {
            assignment: problem.over_passes(tied, &plan.assignment),
            ..plan
        }));
    }
    Ok(known)
}

/// The plan of Piper's program; nothing where stages have no modes.
pub(crate) fn piper(problem: &Problem, control: &Control) -> Outcome {
    let alone = problem.by_itself();
    let outcome = piper_alone(&alone, control);
    match problem.is_told_apart() {
        true => {
            let (bound_source, bound_ns) = known_bound(problem, control);
            let statistics = Statistics {
                bounds_ms: BTreeMap::new(),
                ..outcome.statistics
            };
            Outcome {
                bound_source,
                bound_ns,
                statistics,
                ..outcome
            }
        }
        false => outcome,
    }
}

fn piper_alone(problem: &Problem, control: &Control) -> Outcome {
    match &problem.modes {
        // It knows periods alone.
        Some(modes) if problem.settings.is_of_all_stages() => {
            let known = modal_bound(problem, modes, control);
            let outcome = modal::piper(&problem.for_the_period(), modes, &control.elsewhere());
            Outcome {
                allocation: outcome.allocation,
                stopped_by: outcome.stopped_by,
                ..known
            }
        }
        Some(modes) => modal::piper(problem, modes, control),
        None => Incumbent::new(problem, control).finish(StoppedBy::NoMethod),
    }
}

/// Lower bounds alone. Quick plans tell the bounds what would be of interest; they are not reported.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn bound(problem: &Problem, labels: &[String], control: &Control) -> Result<Outcome, SolverError> {
    if problem.is_told_apart() {
        let there = control.elsewhere();
        let of_case = |case: &Problem, labels: &[String]| bound(case, labels, &there);
        return beside::bound(problem, labels, of_case);
    }
    if let Some(modes) = &problem.modes {
        return Ok(modal_bound(problem, modes, control));
    }
    if let Some(of) = &problem.virtual_stages {
        return Ok(match problem.settings.is_simulated() {
            true => iteration::chunks::bound(problem, of, control),
            false => virtual_stages::bound(problem, of, control),
        });
    }
    match &problem.workers {
        _ if problem.settings.is_simulated() => Ok(iteration::bound(problem, control)),
        None => homogeneous::bound(problem, labels, control),
        Some(workers) => Ok(heterogeneous::bound(problem, workers, control)),
    }
}

/// Lower bounds alone, where stages have modes.
fn modal_bound(problem: &Problem, modes: &Modes, control: &Control) -> Outcome {
    match problem.settings.is_simulated() {
        true => iteration::modal::bound(Incumbent::new(problem, control), modes),
        false => modal::bound(problem, modes, control),
    }
}

/// Whether a search without a program knows the chunks of devices; where each has one, they always do.
pub(crate) fn has_ideals_of_chunks(problem: &Problem) -> bool {
    let chunks = problem.virtual_stages.as_ref();
    chunks.is_none_or(|of| virtual_stages::has_ideals(problem, of))
}

/// The best bound on the objective that takes no search, in ns, and what proves it.
pub(crate) fn known_bound(problem: &Problem, control: &Control) -> (BoundSource, u64) {
    if problem.is_told_apart() {
        let there = control.elsewhere();
        return beside::least_of(problem, |case| known_bound(case, &there), |&(_, ns)| ns);
    }
    match &problem.modes {
        Some(modes) => {
            let outcome = modal_bound(problem, modes, control);
            (outcome.bound_source, outcome.bound_ns)
        }
        None => {
            let (bound, bound_ns) = simple_bound(problem);
            (bound.source, bound_ns)
        }
    }
}

/// The best bound on the busiest stage that takes no search, and what it says of the objective in ns: for workers that differ,
/// one that counts all their devices.
pub(crate) fn simple_bound(problem: &Problem) -> (Bound, u64) {
    if problem.is_told_apart() {
        return beside::least_of(problem, simple_bound, |&(_, ns)| ns);
    }
    if let Some(of) = &problem.virtual_stages {
        return match problem.settings.is_simulated() {
            true => iteration::chunks::simple_bound(problem, of),
            false => virtual_stages::simple_bound(problem, of),
        };
    }
    if problem.settings.is_simulated() {
        return iteration::simple_bound(problem);
    }
    let Some(workers) = &problem.workers else {
        let bound = bounds::simple(problem)[0];
        let objective_ns = bounds::objective_from_bottleneck(problem, bound.bottleneck_ns);
        return (bound, problem.settings.whole_ns(objective_ns));
    };
    let capacity = Capacity::new(problem, workers);
    let [work, item] = capacity.bounds(problem, workers);
    let bound = match item.bottleneck_ns > work.bottleneck_ns {
        true => item,
        false => work,
    };
    let objective_ns = capacity.objective_from_bottleneck(problem, bound.bottleneck_ns);
    (bound, problem.settings.whole_ns(objective_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formulations::partition::item_labels;
    use crate::model::instance::Instance;
    use crate::model::options::{Cuts, Degrees, Objective, PipelineOptions, WorkerMode};
    use crate::model::settings::Settings;
    use crate::problem::plan::Status;

    /// Options of problems of every kind of search.
    fn kinds() -> [PipelineOptions; 5] {
        let plain = || PipelineOptions {
            stages: Some(2),
            micro_batches: Some(4),
            objective: Some(Objective::Period),
            ..PipelineOptions::default()
        };
        [
            plain(),
            PipelineOptions {
                cuts: Some(Cuts::Separate),
                ..plain()
            },
            PipelineOptions {
                worker: Some(WorkerMode::Concurrent),
                schedule: Some(crate::model::schedule::Schedule::Concurrent),
                ..plain()
            },
            PipelineOptions {
                replicas: Some(Degrees::Choose),
                ..plain()
            },
            PipelineOptions {
                virtual_stages: Some(2.into()),
                ..plain()
            },
        ]
    }

    #[test]
    fn what_exact_leaves_open_others_prove() {
        let names = ["a", "b", "c", "d", "e"];
        let layers = names.iter().zip([3.0, 1.0, 4.0, 1.0, 5.0]);
        let built = layers.fold(Instance::builder("five layers"), |built, (name, ms)| {
            built.layer(*name, ms, 2.0 * ms)
        });
        let built = names
            .windows(2)
            .fold(built, |built, pair| built.tensor(pair[0], [pair[1]], 1e5));
        let instance = built.devices("gpu", 2, 1e12).link(1e9, 0.0).build().unwrap();
        for options in kinds() {
            let settings = Settings::resolve(&instance, &options).unwrap();
            let problem = Problem::new(&instance, settings).unwrap();
            let (labels, control) = (item_labels(&instance, &problem), Control::default());
            let best = solve(&problem, Method::Exact, &labels, &control).unwrap();
            let open = Incumbent::new(&problem, &control).finish(StoppedBy::Completed);
            let proved = ask_others(&problem, open, &labels, &control);
            assert_eq!(proved.status(&problem), Status::Optimal, "{options:?}");
            assert_eq!(proved.bound_ns, best.bound_ns, "{options:?}");
            // A limit that has ended the search is kept.
            let limited = Control {
                time_limit: Some(std::time::Duration::ZERO),
                ..Control::default()
            };
            let open = Incumbent::new(&problem, &limited).finish(StoppedBy::TimeLimit);
            let asked = ask_others(&problem, open.clone(), &labels, &limited);
            assert_eq!(asked.stopped_by, StoppedBy::TimeLimit, "{options:?}");
        }
    }
}
