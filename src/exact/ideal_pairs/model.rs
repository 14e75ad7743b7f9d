//! A problem in two components as pairs of their ideals see it: what stages between these cost and hold.

use crate::exact::bounds;
use crate::exact::busy_times::{BusyTimes, sum};
use crate::exact::components::component::Component;
use crate::exact::components::cross::CrossTransfers;
use crate::exact::components::ideal::{Ideal, PairStage, Towards};
use crate::exact::components::pair::{self, Caps};
use crate::exact::cut_states::index::{CutStateIndex, IndexedPairs};
use crate::exact::ideal_pairs::compatible::Slice;
use crate::exact::ideal_pairs::dominance::Dominance;
use crate::model::options::Communication;
use crate::problem::control::Control;
use crate::problem::{Assignment, Problem};

/// What is known of a problem in two components. Nothing in it changes while a search goes on.
pub(super) struct PairModel<'a> {
    /// The problem.
    pub problem: &'a Problem,
    pub control: &'a Control<'a>,
    /// Its work.
    pub work_ns: u64,
    /// What the work of every stage is a multiple of: the greatest common divisor of all times.
    pub quantum_ns: u64,
    /// Its components.
    pub components: [Component; 2],
    /// Transfers between them.
    pub cross: CrossTransfers,
    /// Whether stages pay for anything beside work.
    pub pays: bool,
    /// What searches for cut states need, if transfers are blocking.
    pub index: Option<CutStateIndex>,
    /// What it takes to tell which pairs dominate others, where they can be told.
    pub dominance: Option<Dominance>,
    /// No ideals are missing for limits up to so much.
    pub most_ns: u64,
    /// For each stage from the end, component and ideal, the bytes that it would hold there; empty where memory cannot bind.
    bytes: Vec<[Vec<u64>; 2]>,
}

impl<'a> PairModel<'a> {
    /// Lists the ideals of both components, for limits up to `most_ns`; `None` for a problem in one component, or with too many
    /// ideals.
    pub(super) fn new(
        problem: &'a Problem,
        control: &'a Control<'a>,
        caps: Caps,
        most_ns: u64,
    ) -> Option<Self> {
        let must_stop = || control.must_stop().is_some();
        let (components, most_ns) = pair::list(problem, caps, most_ns, &must_stop)?;
        let is_blocking = problem.settings.communication == Communication::Blocking;
        let dominates = is_blocking && !problem.settings.all_stages && control.switches.dominance;
        let has_cut_states = is_blocking && control.switches.cut_states;
        let cross = CrossTransfers::new(problem, &components);
        Some(Self {
            index: has_cut_states.then(|| CutStateIndex::new(&components, &cross, caps.pairs)),
            dominance: dominates.then(|| Dominance::new(&components)),
            pays: !problem.transfers.is_empty(),
            work_ns: problem.work_ns(),
            quantum_ns: bounds::quantum_ns(problem),
            bytes: stage_bytes(problem, &components),
            problem,
            control,
            components,
            cross,
            most_ns,
        })
    }

    /// The pairs with what searches for cut states need, if there are such searches.
    pub(super) fn indexed_pairs(&self) -> Option<IndexedPairs<'_>> {
        Some(IndexedPairs {
            components: &self.components,
            cross: &self.cross,
            index: self.index.as_ref()?,
        })
    }

    /// Whether a search from the start can tell what a stage holds, which depends on how many stages follow it.
    pub(super) fn knows_memory(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The pair at the end of the pipeline that searches come to.
    pub(super) fn end(&self, towards: Towards) -> [Ideal; 2] {
        match towards {
            Towards::Start => [0, 0],
            Towards::End => [0, 1].map(|p| self.components[p].everything()),
        }
    }

    /// The work of the slice between two ideals of a component, in ns.
    pub(super) fn slice_work_ns(&self, towards: Towards, p: usize, from: Ideal, to: Ideal) -> u64 {
        let [whole, rest] = towards.larger_first(from, to);
        self.components[p].work_ns(whole, rest)
    }

    /// What the slice between two ideals of a component does there.
    pub(super) fn slice(&self, towards: Towards, p: usize, from: Ideal, to: Ideal) -> Slice {
        let [whole, rest] = towards.larger_first(from, to);
        Slice {
            busy: self.components[p].busy(whole, rest),
            ends: self.cross.ends(p, whole, rest),
        }
    }

    /// What a stage is busy with.
    pub(super) fn busy(&self, stage: PairStage) -> BusyTimes {
        let [first, second] = [0, 1].map(|p| self.components[p].busy(stage.whole[p], stage.rest[p]));
        let busy = sum(first, second);
        match self.cross.is_empty() {
            true => busy,
            false => sum(busy, self.cross.busy(&self.components, stage)),
        }
    }

    /// Work beyond a pair of ideals, in ns.
    pub(super) fn work_beyond_ns(&self, towards: Towards, at: [Ideal; 2]) -> u64 {
        let end = self.end(towards);
        let of = |p: usize| self.slice_work_ns(towards, p, at[p], end[p]);
        of(0) + of(1)
    }

    /// The work beyond a pair of ideals and the transfers across it, in ns.
    pub(super) fn load_beyond_ns(&self, towards: Towards, at: [Ideal; 2]) -> u64 {
        let inside = |p: usize| self.components[p].crossing_ns(at[p]);
        let crossing_ns = inside(0) + inside(1) + self.cross.crossing_ns(&self.components, at);
        self.work_beyond_ns(towards, at) + crossing_ns
    }

    /// What the stages beyond a pair of ideals are busy with at least, all together.
    pub(super) fn busy_beyond(&self, towards: Towards, at: [Ideal; 2]) -> BusyTimes {
        match self.problem.settings.communication {
            Communication::Blocking => [self.load_beyond_ns(towards, at), 0, 0],
            Communication::Ignored | Communication::Overlapped => {
                self.busy(PairStage::new(towards, at, self.end(towards)))
            }
        }
    }

    /// Whether the stage between two pairs of ideals, so many stages from the end, holds what it must. `whole` is the pair that it
    /// is taken from: where memory can bind, searches come from the end alone.
    pub(super) fn fits_memory(&self, from_end: usize, whole: [Ideal; 2], rest: [Ideal; 2]) -> bool {
        let Some(bytes) = self.bytes.get(from_end - 1) else {
            return true;
        };
        let of = |p: usize| bytes[p][whole[p] as usize] - bytes[p][rest[p] as usize];
        self.problem
            .settings
            .memory_limit
            .is_none_or(|limit| of(0) + of(1) <= limit)
    }

    /// The plan whose stages lie between pairs of ideals that grow.
    pub(super) fn assignment(&self, pairs: &[[Ideal; 2]]) -> Assignment {
        let mut assignment = vec![0; self.problem.items.len()];
        for (stage, ends) in pairs.windows(2).enumerate() {
            for (p, component) in self.components.iter().enumerate() {
                let added = component.between(ends[1][p], ends[0][p]);
                added.for_each(|at| assignment[component.items[at]] = stage);
            }
        }
        assignment
    }
}

/// For each stage from the end, component and ideal, the bytes that a stage would hold; nothing where memory cannot bind.
fn stage_bytes(problem: &Problem, components: &[Component; 2]) -> Vec<[Vec<u64>; 2]> {
    if problem.memory_never_binds() {
        return Vec::new();
    }
    let of_component = |component: &Component, from_end: usize| {
        let of_item = |at: usize| problem.memory_bytes(&problem.items[component.items[at]], from_end);
        component.sums(of_item, |a: u64, b| a + b)
    };
    let [first, second] = components;
    let stages = 1..=problem.stages();
    stages
        .map(|from_end| [of_component(first, from_end), of_component(second, from_end)])
        .collect()
}
