//! Chains of boundaries as a step: periods with blocking transfers.

use std::cell::Cell;
use std::mem;

use crate::exact::boundary_chain::{BoundaryChain, ChainEffort};
use crate::exact::closure::Closure;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::tuning::TUNING;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::{self, Answer, Asked, Halving};

/// Halves what is open with chains of boundaries, then asks for anything better: with so many relaxations a boundary and so many steps
/// in all, at most.
pub(super) fn along_boundaries(search: &mut HomogeneousSearch, [nodes, steps]: [u64; 2]) -> StoppedBy {
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.incumbent.exhausted(BoundSource::WorkPerStage);
        return StoppedBy::Completed;
    };
    search.presolve(most_ns);
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    if !Closure::has_room(&reduced.problem, search.control()) {
        return StoppedBy::SizeLimit;
    }
    let Some(mut chain) = BoundaryChain::new(&reduced.problem) else {
        return StoppedBy::SizeLimit;
    };
    let steps_left = Cell::new(steps);
    let mut decider = Asked {
        source: Some(BoundSource::BoundaryChain),
        halving: Some(Halving::down_to(TUNING.not_halved_by_chains)),
        decide: |search: &mut HomogeneousSearch, limit_ns| {
            let control = search.control();
            let is_spent = (steps_left.get() == 0).then_some(StoppedBy::SizeLimit);
            if let Some(stopped_by) = control.must_stop().or(is_spent) {
                return Answer::Stopped(stopped_by);
            }
            let effort = ChainEffort {
                nodes: nodes as usize,
                steps_left: &steps_left,
                must_stop: &|| control.must_stop().is_some(),
            };
            let answer = chain.within(limit_ns, effort);
            for plan in mem::take(&mut chain.near) {
                let plan = search.reduced.lift(&plan);
                let improved = search.improved(plan.clone());
                search.offer(plan);
                search.offer(improved);
            }
            answer
        },
    };
    match limits::search(search, &mut decider) {
        StoppedBy::Completed if !search.incumbent.is_over() => StoppedBy::SizeLimit,
        stopped_by => stopped_by,
    }
}
