//! Bounds and plans from problems that ask for less.
#![doc = include_str!("../../../formulations/relaxed.md")]

use crate::exact::bounds::Bound;
use crate::exact::homogeneous::pendant::WithoutPendantItems;
use crate::exact::homogeneous::search::{HomogeneousSearch, Looser};
use crate::exact::homogeneous::{destructive, parallel, tree};
use crate::exact::tuning::{Round, TUNING};
use crate::model::options::Communication;
use crate::problem::bound_source::BoundSource;
use crate::problem::{Assignment, Problem};

/// Whether the least period without transfers says something of that with them.
pub(crate) fn has_work_alone(problem: &Problem) -> bool {
    match problem.settings.communication {
        Communication::Overlapped => !problem.transfers.is_empty(),
        Communication::Ignored | Communication::Blocking => false,
    }
}

/// Raises the bound of a period with overlapped transfers by the least one without transfers, and takes the plans for that. So many pairs
/// of ideals are looked at, at most; with none nothing is done.
pub(crate) fn work_alone(search: &mut HomogeneousSearch, most_pairs: u64) {
    if most_pairs == 0 {
        return;
    }
    let relaxed = search.problem().without_transfers();
    let effort = Effort {
        pairs: most_pairs,
        lower_ns: search.work_alone_ns,
    };
    let found = solve(search, &relaxed, effort, Assignment::clone);
    search.work_alone_ns = found.lower_ns;
    search.raise_bottleneck(Bound {
        source: BoundSource::WorkAlone,
        bottleneck_ns: found.lower_ns,
    });
    offer(search, found.plans);
}

/// Raises the bound of a period by the least one where stages hold no more than if the passes of every layer lay together, and takes the
/// plans for that where memory holds them; whether more effort may do more.
pub(crate) fn with_passes_together(search: &mut HomogeneousSearch, round: Round) -> bool {
    let looser = || search.problem().with_passes_together();
    let looser = (!search.looser.is_solved).then(looser).flatten();
    looser.is_some_and(|looser| solve_looser(search, &looser, BoundSource::PassesTogether, round))
}

/// Raises the bound of a formula by the least period, and takes the plans for that; whether more effort may do more.
pub(crate) fn by_the_period(search: &mut HomogeneousSearch, round: Round) -> bool {
    let period = search.problem().for_the_period();
    let counts = search.problem().formula().weight > 0 && !search.looser.is_solved;
    counts && solve_looser(search, &period, BoundSource::Period, round)
}

/// Solves a problem for a period that asks for less, by all searches over ideals that apply there; whether more effort may do more.
fn solve_looser(search: &mut HomogeneousSearch, looser: &Problem, source: BoundSource, round: Round) -> bool {
    let control = search.control().elsewhere();
    let looser = looser.in_ticks();
    let mut loose = HomogeneousSearch::new(&looser, &control);
    loose.raise_simple_bounds();
    loose.raise_bottleneck(Bound {
        source,
        bottleneck_ns: search.looser.lower_ns,
    });
    for plan in search.plans.iter().chain(&search.looser.plan) {
        loose.offer(plan.clone());
    }
    let known = loose.plans.len();
    let may_do_more = !loose.incumbent.is_over() && parallel::over_ideals(&mut loose, round);
    search.looser = Looser {
        lower_ns: loose.incumbent.lower_ns,
        plan: loose.best().cloned(),
        is_solved: loose.incumbent.is_over(),
    };
    match loose.incumbent.is_infeasible() {
        true => search.incumbent.exhausted(source),
        false => search.raise_bottleneck(Bound {
            source,
            bottleneck_ns: loose.incumbent.lower_ns,
        }),
    }
    offer(search, loose.plans.split_off(known));
    may_do_more && !search.looser.is_solved
}

/// Raises the bound of a period by the least one without pendant items, and takes the plans for that. So many pairs of ideals are looked
/// at, at most.
pub(crate) fn without_pendant_items(search: &mut HomogeneousSearch, most_pairs: u64) {
    let Some(limit_ns) = search.target_bottleneck_ns() else {
        return;
    };
    search.presolve(limit_ns);
    let reduced = search.reduced.clone();
    let Some(without) = WithoutPendantItems::new(&reduced.problem, limit_ns) else {
        return;
    };
    let effort = Effort {
        pairs: most_pairs,
        lower_ns: 0,
    };
    let found = solve(search, &without.problem, effort, |plan| {
        let mut stage_of = vec![0; reduced.problem.items.len()];
        let stages = reduced.item_of.iter().zip(plan);
        stages.for_each(|(&item, &stage)| stage_of[item] = stage);
        without.restrict(&stage_of)
    });
    // Presolve keeps plans of interest alone: of others the bound says nothing.
    let most_ns = search.best().map_or(u64::MAX, |_| limit_ns + 1);
    search.raise_bottleneck(Bound {
        source: BoundSource::WithoutPendantItems,
        bottleneck_ns: found.lower_ns.min(most_ns),
    });
    let extended = found.plans.into_iter().map(|plan| {
        let plan = without.extend(&plan);
        reduced.lift(&without.settled(&reduced.problem, plan))
    });
    offer(search, extended.collect());
}

/// What a relaxed problem is solved with.
struct Effort {
    /// Pairs of slices that are passed over, at most.
    pairs: u64,
    /// No plan of it has a shorter period, in ns, as is known from an earlier turn.
    lower_ns: u64,
}

/// What is found of a relaxed problem.
struct Found {
    /// No plan of it has a shorter period, in ns.
    lower_ns: u64,
    /// Plans that were not known.
    plans: Vec<Assignment>,
}

/// Solves a relaxed problem by the search over pairs of ideals and the tree search; `restrict` makes a plan of it from one of the problem.
fn solve(
    search: &HomogeneousSearch,
    relaxed: &Problem,
    effort: Effort,
    restrict: impl Fn(&Assignment) -> Assignment,
) -> Found {
    let control = search.control().elsewhere();
    let relaxed = relaxed.in_ticks();
    let mut alone = HomogeneousSearch::new(&relaxed, &control);
    alone.raise_simple_bounds();
    alone.raise_bottleneck(Bound {
        source: BoundSource::WorkAlone,
        bottleneck_ns: effort.lower_ns,
    });
    for plan in &search.plans {
        alone.offer(restrict(plan));
    }
    let known = alone.plans.len();
    let has_ideals = !relaxed.memory_is_joint();
    // Passes that may lie apart are two components with few ideals each, and more items than the tree search is good for.
    if control.switches.ideal_tree && relaxed.ties.is_empty() {
        tree::over_ideals(&mut alone, TUNING.work_of_tree[0]);
    }
    if !alone.incumbent.is_over() && control.switches.ideal_pairs && has_ideals {
        destructive::over_ideal_pairs(&mut alone, effort.pairs);
    }
    Found {
        lower_ns: alone.incumbent.lower_ns,
        plans: alone.plans.split_off(known),
    }
}

/// Offers plans, and what local moves make of them.
fn offer(search: &mut HomogeneousSearch, plans: Vec<Assignment>) {
    for plan in plans {
        search.offer(plan.clone());
        search.offer(search.improved(plan));
    }
}
