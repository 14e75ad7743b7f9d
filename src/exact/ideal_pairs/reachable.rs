//! The ideals that slices lead to, looked up when they are first asked for.

use std::iter;
use std::ops::Range;

use rayon::prelude::*;

use crate::exact::components::ideal::{Ideal, Towards};
use crate::exact::components::pair::relevant_work_before_ns;
use crate::exact::components::ranges::RangeUnion;
use crate::exact::ideal_pairs::compatible::CompatibleSlices;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::ideal_pairs::step::LayerStep;

/// For each ideal of a component, those that a slice can lead to, in ascending order; `None` until first looked up.
type ReachableFrom = Vec<Option<Box<[Ideal]>>>;

/// For each direction, component and ideal, those that a slice can lead to.
pub(super) struct ReachableIdeals {
    of: [[ReachableFrom; 2]; 2],
    /// The number of ideals in all lists.
    pub held: usize,
}

impl ReachableIdeals {
    /// Nothing looked up so far.
    pub(super) fn new(model: &PairModel) -> Self {
        let none = || [0, 1].map(|p: usize| vec![None; model.components[p].len()]);
        Self {
            of: [none(), none()],
            held: 0,
        }
    }

    /// Makes room: what is needed again is looked up again.
    pub(super) fn forget(&mut self) {
        let all = self.of.iter_mut().flatten().flatten();
        all.for_each(|reachable| *reachable = None);
        self.held = 0;
    }

    /// Finds what slices lead to from the ideals in some pairs, as far as it is not known; the number of ideals looked at.
    pub(super) fn look_up(&mut self, step: &LayerStep, pairs: &[[Ideal; 2]]) -> u64 {
        let mut looked_at = 0;
        for p in 0..2 {
            let reachable = &mut self.of[step.towards as usize][p];
            let mut ideals: Vec<Ideal> = pairs.iter().map(|pair| pair[p]).collect();
            ideals.sort_unstable();
            ideals.dedup();
            ideals.retain(|&ideal| reachable[ideal as usize].is_none());
            let candidates = candidates(step, p);
            let find = |&ideal: &Ideal| find_reachable(step, p, ideal, &candidates);
            let found: Vec<Box<[Ideal]>> = ideals.par_iter().map(find).collect();
            let candidates: usize = candidates.iter().map(Range::len).sum();
            looked_at += (candidates * ideals.len()) as u64;
            for (ideal, found) in ideals.into_iter().zip(found) {
                self.held += found.len();
                reachable[ideal as usize] = Some(found);
            }
        }
        looked_at
    }

    /// The ideals that a slice within the limit and the windows can lead to from one.
    pub(super) fn useful<'b>(
        &'b self,
        step: &'b LayerStep,
        p: usize,
        from: Ideal,
    ) -> impl Iterator<Item = Ideal> + 'b {
        let reachable = self.of[step.towards as usize][p][from as usize].as_deref();
        let fits = move |&to: &Ideal| {
            step.model.slice_work_ns(step.towards, p, from, to) <= step.limit.ns
                && step.limit.may_lie(&step.model.components, p, to, step.before)
        };
        reachable.unwrap_or(&[]).iter().copied().filter(fits)
    }

    /// The useful slices of the second component from an ideal.
    pub(super) fn compatible(&self, step: &LayerStep, from: Ideal) -> CompatibleSlices {
        let to = self.useful(step, 1, from).collect();
        CompatibleSlices::new(&step.model.components[1], from, to, step.towards)
    }
}

/// Ideals of a component that may lie where stages lead, in ascending ranges.
fn candidates(step: &LayerStep, p: usize) -> Vec<Range<Ideal>> {
    let model = step.model;
    let [large, small] = &model.components;
    match p {
        0 if large.is_partial() && (1..model.problem.stages()).contains(&step.before) => {
            let relevant_ns = relevant_work_before_ns(model.problem, small, step.limit.ns, step.before);
            let ranges = RangeUnion::new(relevant_ns.collect());
            ranges
                .iter()
                .map(|[from_ns, to_ns]| large.of_work(from_ns..=to_ns))
                .collect()
        }
        _ => iter::once(0..model.components[p].len() as Ideal).collect(),
    }
}

/// Those of the candidates that a slice leads to from an ideal, for any limit of the model.
fn find_reachable(step: &LayerStep, p: usize, from: Ideal, candidates: &[Range<Ideal>]) -> Box<[Ideal]> {
    let (component, most_ns) = (&step.model.components[p], step.model.most_ns);
    let own_ns = component.work_ns(from, 0);
    let near = match step.towards {
        Towards::Start => own_ns.saturating_sub(most_ns)..=own_ns,
        Towards::End => own_ns..=own_ns.saturating_add(most_ns),
    };
    let near = component.of_work(near);
    let ranges = candidates.iter();
    let to = ranges.flat_map(|range| range.start.max(near.start)..range.end.min(near.end));
    component.nested(from, step.towards, to).into()
}
