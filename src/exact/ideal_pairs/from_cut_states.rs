//! One more stage from pairs of ideals, where the cut states of the next boundary are known.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::exact::components::ideal::Ideal;
use crate::exact::cut_states::refine::RefinementLimits;
use crate::exact::cut_states::states::CutStates;
use crate::exact::cut_states::successors::SuccessorSearch;
use crate::exact::ideal_pairs::budget::Budget;
use crate::exact::ideal_pairs::reached::{ReachedLayers, Successor};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::step::LayerStep;
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;

/// Looks among the cut states of a boundary for those that stages lead to.
pub(super) struct CutStateExpansion<'b> {
    pub step: &'b LayerStep<'b>,
    /// The cut states, and the boundary.
    pub to: (&'b CutStates, usize),
    /// What the other direction has reached, where the two may meet.
    pub opposite: Option<&'b PairSet>,
}

impl CutStateExpansion<'_> {
    /// One more stage from every pair of a layer; the position of a pair that completes a plan.
    pub(super) fn expand(
        &self,
        own: &mut ReachedLayers,
        layer: Range<usize>,
        budget: &mut Budget,
    ) -> Result<Option<u32>, StoppedBy> {
        let step = self.step;
        let Some(pairs) = step.model.indexed_pairs() else {
            return Ok(None);
        };
        let from: Vec<[Ideal; 2]> = own.pairs[layer.clone()].iter().map(|pair| pair.at).collect();
        let (cut_states, boundary) = self.to;
        let search = SuccessorSearch {
            pairs,
            cut_states,
            limit_ns: step.limit.ns,
            towards: step.towards,
            from: &from,
        };
        let control = step.model.control;
        let must_stop = || control.must_stop().is_some();
        let Some(successors) = search.before(boundary, self.limits(budget), &must_stop) else {
            return Err(control.must_stop().unwrap_or(StoppedBy::SizeLimit));
        };
        budget.steps += successors.looked_at as u64 * TUNING.steps_of_a_node_pair;
        budget.check(own, budget.steps)?;
        let mut parents: Vec<(i64, usize)> = successors.most_ns.into_iter().zip(layer).collect();
        parents.sort_unstable_by_key(|&(most_ns, parent)| (Reverse(most_ns), parent));
        let at_a_time = TUNING.reached_pairs_between_clock_looks / parents.len();
        for pairs in successors
            .pairs
            .chunks(at_a_time.max(TUNING.least_pairs_between_clock_looks))
        {
            let origins = Origins {
                expansion: self,
                search: &search,
                own,
                parents: &parents,
                steps: AtomicU64::new(budget.steps),
            };
            let found: Vec<Successor> = pairs
                .par_iter()
                .filter_map(|&(least_ns, to)| origins.reach(least_ns, to))
                .collect();
            budget.steps = origins.steps.into_inner();
            budget.check(own, budget.steps)?;
            if let Some(met) = own.add(found) {
                return Ok(Some(met));
            }
        }
        Ok(None)
    }

    /// How far cut states are refined.
    fn limits(&self, budget: &Budget) -> RefinementLimits {
        let [leaf_pairs, node_pairs] = match self.step.is_beam {
            true => TUNING.beam_leaf_and_node_pairs,
            false => TUNING.layer_leaf_and_node_pairs,
        };
        let left = (budget.left() / TUNING.steps_of_a_node_pair) as usize;
        RefinementLimits {
            leaf_pairs,
            node_pairs: node_pairs.min(left).max(1),
            samples: self.step.is_beam,
        }
    }
}

/// Where stages to a cut state may begin.
struct Origins<'b> {
    expansion: &'b CutStateExpansion<'b>,
    search: &'b SuccessorSearch<'b>,
    own: &'b ReachedLayers,
    /// The pairs of the last layer, each behind what the right side of the inequality comes to, the largest first.
    parents: &'b [(i64, usize)],
    /// Those of all searches so far.
    steps: AtomicU64,
}

impl Origins<'_> {
    /// A cut state with the first pair that a possible stage leads to it from; `least_ns` is what the left side of the inequality
    /// comes to.
    fn reach(&self, least_ns: i64, to: [Ideal; 2]) -> Option<Successor> {
        let step = self.expansion.step;
        if !step.leaves_room(to) || self.own.seen.contains(to) {
            return None;
        }
        let own_ns = self.search.least_ns(to);
        let may_lead = self
            .parents
            .iter()
            .take_while(|&&(most_ns, _)| least_ns <= most_ns);
        let mut looks = 0;
        let may_lead = may_lead.filter(|&&(most_ns, parent)| {
            looks += 1;
            let from = self.own.pairs[parent].at;
            own_ns <= most_ns || own_ns - self.search.through_ns(from, to) <= most_ns
        });
        let mut stages = 0;
        let parent = may_lead.map(|&(_, parent)| parent).find(|&parent| {
            stages += 1;
            self.leads(self.own.pairs[parent].at, to)
        });
        self.steps.fetch_add(
            looks * TUNING.steps_of_a_node_pair + stages * TUNING.steps_of_a_stage,
            Ordering::Relaxed,
        );
        Some(step.successor(self.own, parent?, to, self.expansion.opposite))
    }

    /// Whether there is a stage between two pairs, and it is possible.
    fn leads(&self, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let step = self.expansion.step;
        let (model, towards) = (step.model, step.towards);
        let is_stage = from != to && (0..2).all(|p| model.components[p].are_nested(from[p], towards, to[p]));
        let work_ns = |p: usize| model.slice_work_ns(towards, p, from[p], to[p]);
        is_stage && work_ns(0) + work_ns(1) >= step.least_ns && step.is_possible(from, to)
    }
}
