//! Beam search over pairs of ideals: a few of each layer are kept.

use std::mem;

use crate::exact::components::ideal::Towards;
use crate::exact::ideal_pairs::expander::LayerExpander;
use crate::exact::ideal_pairs::limit::StageLimit;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::ideal_pairs::reached::{ReachedLayers, ReachedPair};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::step::LayerStep;
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;

/// Goes on with a few pairs of each layer from where a pass begins, or was given up: where very many pairs keep the limit, most of them
/// lead to a plan.
pub(super) struct BeamSearch<'b, 'a> {
    pub model: &'b PairModel<'a>,
    pub limit: &'b StageLimit,
    pub expander: &'b mut LayerExpander<'a>,
}

/// Two directions with a pair where they meet.
pub(super) struct Meeting<'b> {
    /// The one that came there.
    pub own: ReachedLayers,
    /// The position of the pair.
    pub met: u32,
    /// The other one.
    pub other: &'b ReachedLayers,
}

impl<'b> BeamSearch<'b, '_> {
    /// Searches from either end, with wider beams if narrow ones find nothing.
    pub(super) fn run<'r>(
        &mut self,
        from_start: &'r ReachedLayers,
        from_end: &'r ReachedLayers,
    ) -> Option<Meeting<'r>> {
        for width in TUNING.beam_widths {
            for [from, other] in [[from_start, from_end], [from_end, from_start]] {
                if !self.is_of_use(from, other) {
                    continue;
                }
                let mut own = from.thinned(width, PairSet::new(&self.model.components));
                if let Some(met) = self.search(&mut own, other, width).ok()? {
                    return Some(Meeting { own, met, other });
                }
            }
        }
        None
    }

    fn is_of_use(&self, from: &ReachedLayers, other: &ReachedLayers) -> bool {
        let knows_memory = self.model.knows_memory();
        let is_blind = from.towards == Towards::End && !knows_memory;
        // From an end where nothing was cheap there is far to go.
        let is_behind = from.stages < other.stages && knows_memory;
        let leaves_pruning = self.model.dominance.is_some() && !from.prunes;
        !is_blind && !is_behind && !leaves_pruning
    }

    /// One beam of so many pairs; the position of the one that completes a plan.
    fn search(
        &mut self,
        own: &mut ReachedLayers,
        other: &ReachedLayers,
        width: usize,
    ) -> Result<Option<u32>, StoppedBy> {
        // Only of pairs that are about to be kept is it asked whether others dominate them.
        let prunes = mem::take(&mut own.prunes);
        while own.stages < self.model.problem.stages() && own.layer < own.pairs.len() {
            let step = self.step(own);
            if let Some(met) = self.expander.expand(&step, own, other)? {
                return Ok(Some(met));
            }
            let mut reached = own.pairs.split_off(own.layer);
            reached.sort_by_cached_key(|pair| {
                let busy = self.model.busy_beyond(own.towards, pair.at);
                busy.iter().sum::<u64>()
            });
            let is_kept = |pair: &ReachedPair| {
                let parent = pair.parent.map_or(0, |parent| parent as usize);
                !prunes || !step.is_dominated(own.pairs[parent].at, pair.at)
            };
            let kept: Vec<ReachedPair> = reached.into_iter().filter(is_kept).take(width).collect();
            own.pairs.extend(kept);
        }
        Ok(None)
    }

    /// The next step, with fewer stages to look at than in a pass.
    fn step(&self, own: &ReachedLayers) -> LayerStep<'b> {
        let mut step = LayerStep::new(self.model, self.limit, own.towards, own.stages + 1);
        step.is_beam = true;
        if self.model.dominance.is_some() {
            // Stages that carry much less than others leave too much to them.
            let stages = self.model.problem.stages() as u64;
            let idle_ns = self.limit.ns.saturating_sub(self.model.work_ns / stages);
            step.least_ns = self.limit.ns.saturating_sub(TUNING.beam_idle_factor * idle_ns);
        } else {
            step.most_successors = TUNING.beam_successors;
        }
        step
    }
}
