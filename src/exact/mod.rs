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
//! | `method` | the names of the exact methods |
//! | `portfolio` | runs steps |
//! | `halves` | two searches at the same time |
//! | [`incumbent`] | the best plan and bound, and what is of interest between them |
//! | [`presolve`] | joins items that some best plan keeps together |
//! | [`bounds`] | lower bounds that need no search |
//! | [`boundary_chain`] | what the first stages can carry, boundary by boundary |
//! | [`windows`] | the stages that an item may lie in |
//! | [`ideals`] | the dynamic program over ideals |
//! | `joint_memory` | what stages taken from the end hold, where it depends on others that are not taken yet |
//! | [`stage_diagram`] | the same over all stages as paths of a decision diagram, led by prices of items |
//! | [`ideal_tree`] | the same as a tree search from both ends, where there are no transfers |
//! | `unordered_items` | the same over ideals of the items that have an order, and sets of those that have none |
//! | `iteration` | plans by what no run of theirs can beat, each simulated: iterations that no formula tells |
//! | [`labelled_ideals`] | the same for iterations, which weigh sums and maxima together |
//! | `components`, `cut_states`, [`ideal_pairs`] | the same over pairs of ideals, for problems in two components: these and their ideals, the pairs that can lie before each boundary, and the search |
//! | [`closure`] | what lies before and behind what |
//! | `bits` | bit sets |
//! | `tuning` | every number the engine was tuned by |

mod bits;
pub mod boundary_chain;
pub mod bounds;
pub mod closure;
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
pub(crate) mod joint_memory;
pub mod labelled_ideals;
mod method;
mod modal;
mod modal_program;
mod portfolio;
pub mod presolve;
pub mod stage_diagram;
mod tuning;
mod unordered_items;
mod virtual_stages;
pub mod windows;

pub(crate) use self::method::METHODS;
pub use self::method::{Entry, Method};
use crate::bound_source::BoundSource;
use crate::control::Control;
use crate::exact::bounds::Bound;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::incumbent::Incumbent;
use crate::plan::{Outcome, StoppedBy};
use crate::problem::Problem;
use crate::solver::SolverError;

/// Solves a problem.
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
    if let Some(modes) = &problem.modes {
        return match method {
            Method::Exact | Method::Ideals => Ok(modal::solve(problem, modes, control)),
            Method::Milp | Method::Textbook => modal_program::solve(problem, modes, method, labels, control),
        };
    }
    if let Some(of) = &problem.virtual_stages {
        return virtual_stages::solve(problem, of, method, labels, control);
    }
    match &problem.workers {
        None if problem.settings.is_simulated() => iteration::solve(problem, method, labels, control),
        None => homogeneous::solve(problem, method, labels, control),
        Some(workers) => heterogeneous::solve(problem, workers, method, labels, control),
    }
}

/// The plan of Piper's program; nothing where stages have no modes.
pub(crate) fn piper(problem: &Problem, control: &Control) -> Outcome {
    match &problem.modes {
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
    if let Some(modes) = &problem.modes {
        return Ok(modal::bound(problem, modes, control));
    }
    if let Some(of) = &problem.virtual_stages {
        return Ok(virtual_stages::bound(problem, of, control));
    }
    match &problem.workers {
        None if problem.settings.is_simulated() => Ok(iteration::bound(problem, control)),
        None => homogeneous::bound(problem, labels, control),
        Some(workers) => Ok(heterogeneous::bound(problem, workers, control)),
    }
}

/// Whether a search without a program knows the chunks of devices; where each has one, they always do.
pub(crate) fn has_ideals_of_chunks(problem: &Problem) -> bool {
    let chunks = problem.virtual_stages.as_ref();
    chunks.is_none_or(|of| virtual_stages::has_ideals(problem, of))
}

/// The best bound on the objective that takes no search, in ns, and what proves it.
pub(crate) fn known_bound(problem: &Problem, control: &Control) -> (BoundSource, u64) {
    match &problem.modes {
        Some(modes) => {
            let outcome = modal::bound(problem, modes, control);
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
    if let Some(of) = &problem.virtual_stages {
        return virtual_stages::simple_bound(problem, of);
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
