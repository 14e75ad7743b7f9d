//! One more stage from each of a batch of pairs of ideals, on all threads.

use std::collections::HashSet;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::exact::busy_times::{BusyTimes, keep_limit, sum};
use crate::exact::components::ideal::{Ideal, PairStage};
use crate::exact::ideal_pairs::budget::Budget;
use crate::exact::ideal_pairs::compatible::{CompatibleSlices, Slice};
use crate::exact::ideal_pairs::reachable::ReachableIdeals;
use crate::exact::ideal_pairs::reached::{ReachedLayers, Successor};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::step::LayerStep;
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;

/// The pairs that one more stage leads to from some of a layer.
pub(super) struct Batch<'b> {
    pub step: &'b LayerStep<'b>,
    pub reachable: &'b ReachableIdeals,
    pub budget: &'b Budget<'b>,
    pub own: &'b ReachedLayers,
    /// What the other direction has reached, where the two may meet.
    pub opposite: Option<&'b PairSet>,
    /// Those of all searches so far.
    pub steps: AtomicU64,
}

/// The pairs that one more stage leads to from a group of pairs with the same second ideal.
struct Group {
    /// The slices of the second component from there.
    compatible: CompatibleSlices,
    successors: Vec<Successor>,
    found: HashSet<[Ideal; 2]>,
    /// Stages looked at more closely than their work and whether their pairs were met before.
    stages: u64,
}

/// A pair that stages are taken from.
struct Parent {
    position: usize,
    at: [Ideal; 2],
    /// The number of successors of its group at which it has enough.
    enough: usize,
}

impl Batch<'_> {
    /// The next pairs, in the order of those that they come from; one may come several times.
    pub(super) fn successors(&self, parents: &[usize]) -> Result<Vec<Successor>, StoppedBy> {
        let second = |parent: usize| self.own.pairs[parent].at[1];
        let groups: Vec<&[usize]> = parents
            .chunk_by(|&one, &next| second(one) == second(next))
            .flat_map(|group| group.chunks(TUNING.pairs_of_a_group))
            .collect();
        let of_group = |parents: &&[usize]| {
            let mut group = Group {
                compatible: self.reachable.compatible(self.step, second(parents[0])),
                successors: Vec::new(),
                found: HashSet::new(),
                stages: 0,
            };
            for &parent in *parents {
                self.add_successors(parent, &mut group)?;
            }
            Ok(group.successors)
        };
        let found: Result<Vec<Vec<Successor>>, StoppedBy> = groups.par_iter().map(of_group).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Takes one more stage from a pair of ideals in every way.
    fn add_successors(&self, position: usize, group: &mut Group) -> Result<(), StoppedBy> {
        let Self { step, reachable, .. } = self;
        let model = step.model;
        let parent = Parent {
            position,
            at: self.own.pairs[position].at,
            enough: group.successors.len().saturating_add(step.most_successors),
        };
        let from = parent.at[0];
        let within_ns = [step.must_take_ns(parent.at), step.most_ns];
        let mut steps = 0;
        let mut range = group.compatible.start();
        let skipped = match step.most_successors {
            usize::MAX => 0,
            _ => {
                let useful = reachable.useful(step, 0, from).count();
                position.wrapping_mul(TUNING.beam_stride) % useful.max(1)
            }
        };
        for first in reachable.useful(step, 0, from).skip(skipped) {
            let work_ns = model.slice_work_ns(step.towards, 0, from, first);
            let fitting = group.compatible.fitting(work_ns, within_ns, &mut range);
            steps += 1 + fitting.len() as u64 + mem::take(&mut group.stages) * TUNING.steps_of_a_stage;
            if steps > TUNING.pair_steps_between_clock_looks {
                let before = self.steps.fetch_add(mem::take(&mut steps), Ordering::Relaxed);
                self.budget.check(self.own, before)?;
            }
            if !fitting.is_empty() && self.add_with_first(&parent, first, fitting, group) {
                break;
            }
        }
        self.steps.fetch_add(steps, Ordering::Relaxed);
        Ok(())
    }

    /// Takes stages that hold the slice of the first component to an ideal; whether its pair needs no more.
    fn add_with_first(&self, parent: &Parent, first: Ideal, fitting: Range<u32>, group: &mut Group) -> bool {
        let step = self.step;
        let slice = step
            .model
            .pays
            .then(|| step.model.slice(step.towards, 0, parent.at[0], first));
        if slice.is_some_and(|slice| !keep_limit(slice.busy, step.limit.ns)) {
            return false;
        }
        for at in fitting {
            let to = [first, group.compatible.to[at as usize]];
            // Most have been met before.
            if to == parent.at || self.own.seen.contains(to) || group.found.contains(&to) {
                continue;
            }
            group.stages += 1;
            let busy = match &slice {
                None => Some([0; 3]),
                Some(slice) => {
                    let of = |to: Ideal| step.model.slice(step.towards, 1, parent.at[1], to);
                    let other = group.compatible.slice(at, of);
                    self.busy([slice, &other], PairStage::new(step.towards, parent.at, to))
                }
            };
            let is_possible = busy.is_some_and(|busy| keep_limit(busy, step.limit.ns))
                && step.leaves_room(to)
                && step.fits_memory(parent.at, to);
            if !is_possible {
                continue;
            }
            let successor = step.successor(self.own, parent.position, to, self.opposite);
            let meets = successor.meets;
            group.found.insert(to);
            group.successors.push(successor);
            if meets || group.successors.len() == parent.enough {
                return true;
            }
        }
        false
    }

    /// What the stage of two slices is busy with; `None` if it is clear before all is counted that it breaks the limit.
    fn busy(&self, [first, second]: [&Slice; 2], stage: PairStage) -> Option<BusyTimes> {
        let model = self.step.model;
        let least = first.least_with(second, model.cross.saved());
        if !keep_limit(least, self.step.limit.ns) {
            return None;
        }
        let busy = sum(first.busy, second.busy);
        if model.cross.is_empty() {
            return Some(busy);
        }
        let ends = sum(first.ends.busy, second.ends.busy);
        Some(sum(busy, model.cross.busy_with(ends, &model.components, stage)))
    }
}
