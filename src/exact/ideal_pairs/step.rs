//! What holds for every stage of a layer, and which pairs of ideals such stages lead to.

use crate::exact::busy_times::keep_limit;
use crate::exact::components::ideal::{Ideal, PairStage, Towards};
use crate::exact::cut_states::states::CutStates;
use crate::exact::ideal_pairs::dominance::is_dominated;
use crate::exact::ideal_pairs::limit::StageLimit;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::ideal_pairs::reached::{ReachedLayers, ReachedPair, Successor};
use crate::exact::ideal_pairs::set::PairSet;

/// What holds for every stage of a layer.
#[derive(Clone, Copy)]
pub(super) struct LayerStep<'a> {
    pub model: &'a PairModel<'a>,
    pub limit: &'a StageLimit,
    /// Which way stages are taken.
    pub towards: Towards,
    /// Stages that are taken with it.
    pub taken: usize,
    /// Stages before the boundary that it leads to.
    pub before: usize,
    /// Stages beyond that boundary.
    beyond: u64,
    /// The cut states and the boundary that it leads to, if they are known.
    pub cut_states: Option<(&'a CutStates, usize)>,
    /// The most work of a stage: with what is paid it may come to less.
    pub most_ns: u64,
    /// Least work of a stage, in ns.
    pub least_ns: u64,
    /// Most pairs that are taken from each pair of the last layer.
    pub most_successors: usize,
    /// Whether some of the pairs that it can lead to are enough.
    pub is_beam: bool,
}

impl<'a> LayerStep<'a> {
    /// What holds for the layer that so many stages end in.
    pub(super) fn new(
        model: &'a PairModel<'a>,
        limit: &'a StageLimit,
        towards: Towards,
        taken: usize,
    ) -> Self {
        let stages = model.problem.stages();
        let beyond = stages - taken;
        let before = match towards {
            Towards::Start => beyond,
            Towards::End => taken,
        };
        let cut_states = limit
            .cut_states
            .as_deref()
            .filter(|_| (1..stages).contains(&before));
        Self {
            model,
            limit,
            towards,
            taken,
            before,
            beyond: beyond as u64,
            cut_states: cut_states.map(|cut_states| (cut_states, before - 1)),
            most_ns: limit.ns - limit.ns % model.quantum_ns,
            least_ns: 0,
            most_successors: usize::MAX,
            is_beam: false,
        }
    }

    /// Work that a stage from a pair of ideals must take, since those beyond cannot carry all of it.
    pub(super) fn must_take_ns(&self, from: [Ideal; 2]) -> u64 {
        let beyond_ns = self.model.work_beyond_ns(self.towards, from);
        let rest_ns = beyond_ns.saturating_sub(self.beyond * self.most_ns);
        rest_ns.max(self.least_ns)
    }

    /// Whether the stages beyond a pair can be busy with what lies there.
    pub(super) fn leaves_room(&self, at: [Ideal; 2]) -> bool {
        let busy = self.model.busy_beyond(self.towards, at);
        keep_limit(busy, self.beyond * self.limit.ns)
    }

    /// Whether a stage fits the memory.
    pub(super) fn fits_memory(&self, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        self.model.fits_memory(self.taken, from, to)
    }

    /// Whether a stage keeps the limit and fits the memory.
    pub(super) fn is_possible(&self, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let busy = self.model.busy(PairStage::new(self.towards, from, to));
        keep_limit(busy, self.limit.ns) && self.fits_memory(from, to)
    }

    /// The pair that a possible stage leads to from one that was reached. `opposite` is what the other direction has reached, where
    /// the two may meet.
    pub(super) fn successor(
        &self,
        own: &ReachedLayers,
        parent: usize,
        to: [Ideal; 2],
        opposite: Option<&PairSet>,
    ) -> Successor {
        let is_opposite = opposite.is_some_and(|opposite| opposite.contains(to));
        let meets = is_opposite || self.leaves_one_stage(to);
        Successor {
            reached: ReachedPair {
                at: to,
                parent: Some(parent as u32),
            },
            is_kept: meets || !own.prunes || !self.is_dominated(own.pairs[parent].at, to),
            meets,
        }
    }

    /// Whether a pair leaves a single stage, which keeps the limit since what lies beyond the pair does.
    fn leaves_one_stage(&self, at: [Ideal; 2]) -> bool {
        let end = self.model.end(self.towards);
        let is_next = self.taken + 1 == self.model.problem.stages();
        is_next && at != end && self.model.fits_memory(self.taken + 1, at, end)
    }

    /// Whether a stage that takes more leads to a pair which everything that can follow on this one can follow on as well.
    pub(super) fn is_dominated(&self, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let model = self.model;
        let is_reached = |at: [Ideal; 2]| self.is_possible(from, at);
        let load_beyond_ns = |at: [Ideal; 2]| model.load_beyond_ns(self.towards, at);
        model.dominance.as_ref().is_some_and(|dominance| {
            let one_further = dominance.one_further(&model.components, self.towards, to);
            is_dominated(to, one_further, load_beyond_ns, is_reached)
        })
    }
}
