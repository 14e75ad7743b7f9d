//! Layers of pairs of ideals: one more stage from every pair of the last layer, and what that takes.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::exact::components::component::Component;
use crate::exact::components::ideal::Ideal;
use crate::exact::ideal_pairs::batch::Batch;
use crate::exact::ideal_pairs::budget::Budget;
use crate::exact::ideal_pairs::from_cut_states::CutStateExpansion;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::ideal_pairs::reachable::ReachableIdeals;
use crate::exact::ideal_pairs::reached::ReachedLayers;
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::step::LayerStep;
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;

/// Takes stages from pairs of ideals, and keeps what it has looked up on the way.
pub(super) struct LayerExpander<'a> {
    pub budget: Budget<'a>,
    reachable: ReachableIdeals,
}

impl<'a> LayerExpander<'a> {
    /// Nothing looked up so far.
    pub(super) fn new(model: &PairModel<'a>) -> Self {
        Self {
            budget: Budget::new(model.control),
            reachable: ReachableIdeals::new(model),
        }
    }

    /// One more stage from every pair of the last layer; the position of the pair that meets what the other direction has reached,
    /// or that leaves one stage. What is found does not depend on the number of threads.
    ///
    /// # Errors
    ///
    /// The limit that it was stopped by.
    pub(super) fn expand(
        &mut self,
        step: &LayerStep,
        own: &mut ReachedLayers,
        other: &ReachedLayers,
    ) -> Result<Option<u32>, StoppedBy> {
        let problem = step.model.problem;
        let all_stages = problem.settings.all_stages;
        let layer = own.begin_layer();
        if all_stages {
            own.seen.clear();
        }
        let stages = own.stages + other.stages;
        let may_meet = stages == problem.stages() || stages < problem.stages() && !all_stages;
        let opposite = may_meet.then_some(&other.seen);
        match step.cut_states {
            None => self.expand_by_work(step, own, layer, opposite),
            Some(to) => CutStateExpansion { step, to, opposite }.expand(own, layer, &mut self.budget),
        }
    }

    /// The same where only work tells which pairs stages may lead to.
    fn expand_by_work(
        &mut self,
        step: &LayerStep,
        own: &mut ReachedLayers,
        layer: Range<usize>,
        opposite: Option<&PairSet>,
    ) -> Result<Option<u32>, StoppedBy> {
        self.forget_other_boundaries(step.model);
        // Pairs with the same second ideal share what can be taken from there.
        own.pairs[layer.clone()].sort_by_key(|pair| (pair.at[1], pair.at[0]));
        let parents: Vec<usize> = layer.collect();
        let ideals = step.model.components.iter().map(Component::len).max();
        let [least, most] = TUNING.pairs_of_a_batch;
        let size = (TUNING.ideals_of_a_batch / ideals.unwrap_or(1)).clamp(least, most);
        for parents in parents.chunks(size) {
            self.look_up(step, own, parents);
            let batch = Batch {
                step,
                reachable: &self.reachable,
                budget: &self.budget,
                own,
                opposite,
                steps: AtomicU64::new(self.budget.steps),
            };
            let found = batch.successors(parents);
            self.budget.steps = batch.steps.into_inner();
            self.budget.check(own, self.budget.steps)?;
            if let Some(met) = own.add(found?) {
                return Ok(Some(met));
            }
            if self.reachable.held > TUNING.most_reachable_ideals.min(self.budget.room_bytes / 16) {
                self.reachable.forget();
            }
        }
        Ok(None)
    }

    /// About how many steps the next layer takes, told from a few of its pairs of ideals; counts no further than `most`.
    pub(super) fn cost_of_layer(&mut self, step: &LayerStep, own: &ReachedLayers, most: u64) -> u64 {
        if let Some((cut_states, boundary)) = step.cut_states {
            return cut_states.pairs(boundary).leaf_pairs() as u64;
        }
        let waiting = own.pairs.len() - own.layer;
        let sample = waiting.min(TUNING.pairs_sampled_for_cost);
        let samples: Vec<usize> = (0..sample).map(|at| own.layer + at * waiting / sample).collect();
        let enough = most / waiting.max(1) as u64 * sample as u64;
        self.forget_other_boundaries(step.model);
        self.look_up(step, own, &samples);
        let mut steps = 0;
        for &at in &samples {
            steps += self.cost_of_stages(step, own.pairs[at].at, enough.saturating_sub(steps));
            if steps >= enough {
                return most;
            }
        }
        steps * waiting as u64 / sample.max(1) as u64
    }

    /// About how many steps the stages from one pair take; counts no further than `most`.
    fn cost_of_stages(&self, step: &LayerStep, from: [Ideal; 2], most: u64) -> u64 {
        let mut steps = 0;
        let compatible = self.reachable.compatible(step, from[1]);
        let within_ns = [step.must_take_ns(from), step.most_ns];
        let mut range = compatible.start();
        for first in self.reachable.useful(step, 0, from[0]) {
            let work_ns = step.model.slice_work_ns(step.towards, 0, from[0], first);
            steps += 1 + compatible.fitting(work_ns, within_ns, &mut range).len() as u64;
            if steps >= most {
                break;
            }
        }
        steps
    }

    fn look_up(&mut self, step: &LayerStep, own: &ReachedLayers, pairs: &[usize]) {
        let pairs: Vec<[Ideal; 2]> = pairs.iter().map(|&pair| own.pairs[pair].at).collect();
        self.budget.steps += self.reachable.look_up(step, &pairs);
    }

    /// Where only ideals are looked up that can lie before one boundary, those for another are of no use.
    fn forget_other_boundaries(&mut self, model: &PairModel) {
        if model.components[0].is_partial() {
            self.reachable.forget();
        }
    }
}
