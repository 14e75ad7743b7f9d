//! Problems that are told apart into cases: where forward passes lie beside a copy of their table (`formulations/copies.md`).
//!
//! Every plan is of some case that counts it as it is, and no case counts less than there is: so the best plan of all cases is the best of the problem, and
//! the least bound of all cases is one of the problem.

use std::collections::BTreeMap;

use super::{Method, solve_alone, tie_breaking};
use crate::formulations::solver::SolverError;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::{Outcome, StoppedBy, objective_ns};
use crate::problem::{Item, Problem};

/// Solves every case, each in an equal part of the time that those before it have left.
pub(super) fn solve(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut all: Option<Outcome> = None;
    let cases = problem.cases.others.len() + 1;
    let there = control.elsewhere();
    for (at, case) in problem.each_case().enumerate() {
        let case = case.by_itself();
        let within = there.with_time(there.remaining().map(|left| left / (cases - at) as u32));
        let labels = labels_of(problem, labels, &case);
        let outcome = solve_alone(&case, method, &labels, &within)?;
        let outcome = lifted(problem, at, tie_breaking::settled(&case, outcome));
        let outcome = match all {
            Some(before) => least(problem, before, outcome),
            None => outcome,
        };
        if let Some(plan) = &outcome.allocation {
            control.show_plan(plan, objective_ns(problem, plan));
        }
        all = Some(outcome);
    }
    let mut outcome = all.expect("a case at least");
    outcome.statistics.seconds = control.seconds();
    Ok(outcome)
}

/// The least of the bounds of all cases, each by itself.
pub(super) fn bound(
    problem: &Problem,
    labels: &[String],
    of_case: impl Fn(&Problem, &[String]) -> Result<Outcome, SolverError>,
) -> Result<Outcome, SolverError> {
    let mut all: Option<Outcome> = None;
    for case in problem.each_case() {
        let case = case.by_itself();
        let outcome = of_case(&case, &labels_of(problem, labels, &case))?;
        let bound = Outcome {
            allocation: None,
            ..outcome
        };
        all = Some(match all {
            Some(before) => least(problem, before, bound),
            None => bound,
        });
    }
    Ok(all.expect("a case at least"))
}

/// The same of bounds that take no search.
pub(super) fn least_of<T>(problem: &Problem, of_case: impl Fn(&Problem) -> T, ns: impl Fn(&T) -> u64) -> T {
    let bounds = problem.each_case().map(|case| of_case(&case.by_itself()));
    bounds.min_by_key(|bound| ns(bound)).expect("a case at least")
}

/// A plan of a case as one of the problem, by the place of the case.
fn lifted(problem: &Problem, at: usize, outcome: Outcome) -> Outcome {
    let case = at.checked_sub(1).map(|at| &problem.cases.others[at]);
    let lift = |plan: Allocation| match case {
        Some(case) => Allocation {
            assignment: case.lift(&plan.assignment),
            ..plan
        },
        None => plan,
    };
    Outcome {
        allocation: outcome.allocation.map(lift),
        ..outcome
    }
}

/// The better plan of two cases and the lesser bound.
fn least(problem: &Problem, one: Outcome, other: Outcome) -> Outcome {
    let ns = |outcome: &Outcome| match &outcome.allocation {
        Some(plan) => objective_ns(problem, plan),
        None => u64::MAX,
    };
    let allocation = match ns(&other) < ns(&one) {
        true => other.allocation.clone(),
        false => one.allocation.clone(),
    };
    let lesser = if other.bound_ns < one.bound_ns {
        &other
    } else {
        &one
    };
    let mut statistics = one.statistics.clone();
    statistics.nodes += other.statistics.nodes;
    statistics.binaries = statistics.binaries.max(other.statistics.binaries);
    statistics.ideals = statistics.ideals.max(other.statistics.ideals);
    statistics.bounds_ms = both(&one, &other);
    Outcome {
        bound_ns: lesser.bound_ns,
        bound_source: lesser.bound_source,
        stopped_by: match one.stopped_by {
            StoppedBy::Completed => other.stopped_by,
            stopped_by => stopped_by,
        },
        allocation,
        statistics,
    }
}

/// Bounds by what proves them: of two cases, the lesser of each that is known of both. A case without a plan says nothing.
fn both(one: &Outcome, other: &Outcome) -> BTreeMap<BoundSource, f64> {
    match [one, other].map(|outcome| outcome.bound_ns == u64::MAX) {
        [true, _] => return other.statistics.bounds_ms.clone(),
        [_, true] => return one.statistics.bounds_ms.clone(),
        _ => {}
    }
    let lesser = if other.bound_ns < one.bound_ns { other } else { one };
    let bounds = &lesser.statistics.bounds_ms;
    let another = if other.bound_ns < one.bound_ns { one } else { other };
    let of_source = |(&source, &ms): (&BoundSource, &f64)| {
        let there = another.statistics.bounds_ms.get(&source).copied();
        let is_it = source == lesser.bound_source;
        let least = there.map(|there| there.min(ms));
        Some((source, if is_it { ms } else { least? }))
    };
    bounds.iter().filter_map(of_source).collect()
}

/// A name for each item of a case: that of the first item of the problem that holds the same pass.
fn labels_of(problem: &Problem, labels: &[String], case: &Problem) -> Vec<String> {
    let first = |item: &Item| {
        [
            item.layers.first().copied(),
            item.backward_layers.first().copied(),
        ]
    };
    let label = |item: &Item| {
        let holds = |own: &Item| match first(item) {
            [Some(layer), _] => own.layers.contains(&layer),
            [None, Some(layer)] => own.backward_layers.contains(&layer),
            [None, None] => false,
        };
        let at = problem.items.iter().position(holds);
        at.and_then(|at| labels.get(at)).cloned().unwrap_or_default()
    };
    case.items.iter().map(label).collect()
}
