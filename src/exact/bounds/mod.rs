//! Lower bounds on the busiest stage, each with the argument why no plan can do better.

pub(crate) mod anchored;
pub(crate) mod capacity;
pub mod dual_feasible;

use crate::model::units::gcd;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;

/// A lower bound and its name in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// What proved it.
    pub source: BoundSource,
    /// On the busiest stage's bottleneck, in ns.
    pub bottleneck_ns: u64,
}

/// Work of all items over the number of stages: some stage carries at least the average, and a multiple of the
/// [quantum](quantum_ns).
pub(crate) fn work_per_stage(problem: &Problem) -> Bound {
    let average = problem.work_ns().div_ceil(problem.stages() as u64);
    Bound {
        source: BoundSource::WorkPerStage,
        bottleneck_ns: average.next_multiple_of(quantum_ns(problem)),
    }
}

/// The greatest common divisor of all items' work: what any stage carries is a multiple of it. Profiles that count microseconds
/// have one of 1000 ns.
pub(crate) fn quantum_ns(problem: &Problem) -> u64 {
    let works = problem.items.iter().map(|item| item.work_ns());
    works.fold(0, gcd).max(1)
}

/// The same for objectives: of all times of work and transfers, of which sums and maxima are made.
pub(crate) fn time_quantum_ns(problem: &Problem) -> u64 {
    let works = problem
        .items
        .iter()
        .flat_map(|item| [item.forward_ns, item.backward_ns]);
    // Chunks may run the gradients of their weights apart from the rest.
    let apart = (problem.items.iter())
        .filter(|_| problem.virtual_stages.is_some() && problem.settings.is_simulated())
        .map(|item| item.weight_ns);
    let moved = problem
        .transfers
        .iter()
        .flat_map(|t| [t.forward_ns, t.backward_ns, t.gradient_ns]);
    let once = problem.copies.iter().map(|copy| copy.once_ns);
    works.chain(apart).chain(moved).chain(once).fold(0, gcd).max(1)
}

/// What objectives are multiples of: they are made of such times, and whole ns. Where workers differ, rates leave whole ns alone.
pub(crate) fn objective_quantum_ns(problem: &Problem) -> u64 {
    if let Some(modes) = &problem.modes {
        return if problem.settings.is_simulated() {
            1
        } else {
            modes.quantum()
        };
    }
    if problem.reads().is_some() {
        return 1;
    }
    let ticks = problem.settings.ticks_per_ns;
    match (&problem.workers, time_quantum_ns(problem)) {
        (None, times) if times.is_multiple_of(ticks) => times,
        _ => ticks,
    }
}

/// The largest item: the stage that holds it carries at least its work.
pub(crate) fn largest_item(problem: &Problem) -> Bound {
    let largest = problem.items.iter().map(|item| item.work_ns()).max();
    Bound {
        source: BoundSource::LargestItem,
        bottleneck_ns: largest.unwrap_or(0),
    }
}

/// Both, the better first.
pub(crate) fn simple(problem: &Problem) -> [Bound; 2] {
    let (work, item) = (work_per_stage(problem), largest_item(problem));
    if item.bottleneck_ns > work.bottleneck_ns {
        [item, work]
    } else {
        [work, item]
    }
}

/// The least objective of a plan whose busiest stage is at least `bottleneck_ns`.
///
/// For the period they are the same. An iteration adds up all loads once, at least all the work, and M - 1 times the
/// bottleneck; with GPipe the bottlenecks of the two phases add up to at least the bottleneck of both together.
pub(crate) fn objective_from_bottleneck(problem: &Problem, bottleneck_ns: u64) -> u64 {
    let formula = problem.formula();
    formula.once_ns(problem.work_ns()) + formula.weight * bottleneck_ns
}

/// The largest bottleneck that a plan of at most `objective_ns` may have; `None` if no plan can be so cheap.
///
/// The converse of `objective_from_bottleneck`: a plan's bottleneck satisfies it, so one that is larger does not cost
/// at most `objective_ns`. A single micro-batch leaves the bottleneck free but for the sum of the loads, which bounds it.
pub fn bottleneck_from_objective(problem: &Problem, objective_ns: u64) -> Option<u64> {
    let formula = problem.formula();
    if formula.is_bottleneck() {
        return Some(objective_ns);
    }
    let spare = objective_ns.checked_sub(problem.work_ns())?;
    let everything = all_in_one_ns(problem);
    Some(
        spare
            .checked_div(formula.weight)
            .unwrap_or(everything)
            .min(everything),
    )
}

/// A bottleneck that no plan exceeds: all work and both sides of every transfer, once for each consumer.
pub fn all_in_one_ns(problem: &Problem) -> u64 {
    let moving = problem
        .transfers
        .iter()
        .map(|t| t.total_ns() * (1 + t.consumers.len() as u64));
    (problem.work_ns() + moving.sum::<u64>()).max(1)
}

/// A bound in whole nanoseconds from one in doubles: every plan costs a whole number, so it may be rounded up, once the
/// solver's own tolerance has been taken off.
pub(crate) fn integral_bound(bound: f64, scale_ns: f64) -> u64 {
    const SOLVER_ERROR: f64 = 2e-9;
    let safe = (bound - SOLVER_ERROR * bound.abs().max(1.0)) * scale_ns;
    match safe {
        safe if safe.is_nan() || safe <= 0.0 => 0,
        safe if safe.is_infinite() => u64::MAX,
        safe => safe.ceil() as u64,
    }
}
