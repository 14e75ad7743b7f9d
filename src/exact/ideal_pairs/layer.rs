//! One more stage from pairs of ideals, where it is known which pairs may lie before the next boundary.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::exact::cut_states::Fronts;
use crate::exact::cut_states::cross::Between;
use crate::exact::cut_states::ground::Closeness;
use crate::exact::cut_states::layer::Reaching;
use crate::exact::ideal_pairs::batch::Next;
use crate::exact::ideal_pairs::mates::keeps;
use crate::exact::ideal_pairs::part::Ideal;
use crate::exact::ideal_pairs::reached::{Reached, State};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::stages::{Stages, Step};
use crate::plan::StoppedBy;

/// How closely fronts are looked at, at most.
const CLOSELY: Closeness = Closeness {
    leaves: 1 << 20,
    nodes: 1 << 21,
    thins: false,
};

/// The same in dives.
const IN_DIVES: Closeness = Closeness {
    leaves: 1 << 17,
    nodes: 1 << 15,
    thins: true,
};

/// Pairs with those they may be reached from that are looked at between two looks at the clock.
const PAIRS_AT_A_TIME: usize = 1 << 24;

/// Looking at a stage, and at a pair of nodes, in steps.
const STEPS_OF_A_STAGE: u64 = 32;
const STEPS_OF_NODES: u64 = 8;

impl Stages<'_> {
    /// One more stage from every pair of a layer; see [`Stages::layer`].
    pub fn layer_in_front(
        &mut self,
        step: Step,
        fronts: &Fronts,
        boundary: usize,
        own: &mut Reached,
        layer: Range<usize>,
        opposite: Option<&PairSet>,
    ) -> Result<Option<u32>, StoppedBy> {
        let parents: Vec<[Ideal; 2]> = own.states[layer.clone()].iter().map(|state| state.at).collect();
        let Some(ground) = &self.ground else {
            return Ok(None);
        };
        let reaching = Reaching {
            parts: &self.parts,
            cross: &self.cross,
            ground,
            fronts,
            limit_ns: step.limit.ns,
            towards: step.towards,
            from: &parents,
        };
        let left = (self.until.saturating_sub(self.steps) / STEPS_OF_NODES) as usize;
        let closely = match step.dives {
            true => IN_DIVES,
            false => CLOSELY,
        };
        let closeness = Closeness {
            nodes: closely.nodes.min(left).max(1),
            ..closely
        };
        let must_stop = || self.control.must_stop().is_some();
        let Some(next) = reaching.boundary(boundary, closeness, &must_stop) else {
            return Err(self.control.must_stop().unwrap_or(StoppedBy::SizeLimit));
        };
        self.steps += next.looked_at as u64 * STEPS_OF_NODES;
        self.may_go_on(own, self.steps)?;
        let mut parents: Vec<(i64, usize)> = next.most_ns.into_iter().zip(layer).collect();
        parents.sort_unstable_by_key(|&(most_ns, parent)| (Reverse(most_ns), parent));
        for pairs in next.pairs.chunks((PAIRS_AT_A_TIME / parents.len()).max(64)) {
            let steps = AtomicU64::new(self.steps);
            let reach = |&(least_ns, to): &(i64, [Ideal; 2])| {
                let has_room = keeps(self.rest(step.towards, to), step.beyond * step.limit.ns);
                if !has_room || own.seen.contains(to) {
                    return None;
                }
                let own_ns = reaching.least_ns(to);
                let may_lead = parents.iter().take_while(|&&(most_ns, _)| least_ns <= most_ns);
                let mut looks = 0;
                let may_lead = may_lead.filter(|&&(most_ns, parent)| {
                    looks += 1;
                    own_ns <= most_ns || own_ns - reaching.through_ns(own.states[parent].at, to) <= most_ns
                });
                let mut stages = 0;
                let found = may_lead.map(|&(_, parent)| parent).find_map(|parent| {
                    stages += 1;
                    self.next(&step, own, parent, to, opposite)
                });
                steps.fetch_add(
                    looks * STEPS_OF_NODES + stages * STEPS_OF_A_STAGE,
                    Ordering::Relaxed,
                );
                found
            };
            let found: Vec<Next> = pairs.par_iter().filter_map(reach).collect();
            self.steps = steps.into_inner();
            self.may_go_on(own, self.steps)?;
            for next in found {
                own.seen.insert(next.state.at);
                if next.is_kept {
                    own.states.push(next.state);
                }
                if next.meets {
                    return Ok(Some((own.states.len() - 1) as u32));
                }
            }
        }
        Ok(None)
    }

    /// The pair that a stage leads to, if it keeps the limit.
    fn next(
        &self,
        step: &Step,
        own: &Reached,
        parent: usize,
        to: [Ideal; 2],
        opposite: Option<&PairSet>,
    ) -> Option<Next> {
        let from = own.states[parent].at;
        let is_stage = from != to && (0..2).all(|p| self.parts[p].are_nested(from[p], step.towards, to[p]));
        if !is_stage {
            return None;
        }
        let work_ns =
            self.own_ns(step.towards, 0, from[0], to[0]) + self.own_ns(step.towards, 1, from[1], to[1]);
        let is_possible = work_ns >= step.least_ns
            && keeps(self.busy(Between::new(step.towards, from, to)), step.limit.ns)
            && self.fits_memory(step.taken, from, to);
        is_possible.then(|| {
            let is_opposite = opposite.is_some_and(|opposite| opposite.contains(to));
            let meets = is_opposite || self.leaves_one_stage(step, to);
            Next {
                state: State {
                    at: to,
                    parent: Some(parent as u32),
                },
                is_kept: meets || !own.prunes || !self.is_dominated(step, from, to),
                meets,
            }
        })
    }
}
