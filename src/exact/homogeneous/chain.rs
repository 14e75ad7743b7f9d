//! Chains of boundaries as a step: periods with blocking transfers.

use std::cell::Cell;
use std::mem;

use crate::exact::boundary_chain::{BoundaryChain, ChainEffort};
use crate::exact::bounds::Bound;
use crate::exact::closure::Closure;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::tuning::TUNING;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::Answer;

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
    let control = search.control();
    if !Closure::has_room(&reduced.problem, control) {
        return StoppedBy::SizeLimit;
    }
    let Some(mut chain) = BoundaryChain::new(&reduced.problem) else {
        return StoppedBy::SizeLimit;
    };
    let must_stop = || control.must_stop().is_some();
    let steps_left = Cell::new(steps);
    let effort = ChainEffort {
        nodes: nodes as usize,
        steps_left: &steps_left,
        must_stop: &must_stop,
    };
    // The least limit that was asked for and not refuted.
    let mut open_ns = u64::MAX;
    while !search.incumbent.is_over() && steps_left.get() > 0 && !must_stop() {
        let Some(target_ns) = search.target_bottleneck_ns() else {
            search.incumbent.exhausted(BoundSource::BoundaryChain);
            return StoppedBy::Completed;
        };
        let lower_ns = search.lower_bottleneck_ns;
        let upper_ns = open_ns.min(target_ns);
        let is_precise = upper_ns.saturating_sub(lower_ns) <= upper_ns / TUNING.not_halved_by_chains;
        if lower_ns > upper_ns || is_precise && open_ns <= target_ns {
            break;
        }
        let limit_ns = match is_precise {
            true => upper_ns,
            false => lower_ns + (upper_ns - lower_ns) / 2,
        };
        match chain.within(limit_ns, effort) {
            Answer::NoPlan { .. } if limit_ns >= target_ns => {
                search.incumbent.exhausted(BoundSource::BoundaryChain)
            }
            Answer::NoPlan { .. } => search.raise_bottleneck(Bound {
                source: BoundSource::BoundaryChain,
                bottleneck_ns: limit_ns + 1,
            }),
            Answer::Plan(_) | Answer::Undecided | Answer::Stopped(_) => {
                for plan in mem::take(&mut chain.near) {
                    search.offer_reduced(&plan);
                    search.offer(search.improved(reduced.lift(&plan)));
                }
                open_ns = limit_ns;
            }
        }
    }
    match search.incumbent.is_over() {
        true => StoppedBy::Completed,
        false => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}
