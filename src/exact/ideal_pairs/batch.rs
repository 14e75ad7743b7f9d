//! One more stage from each of a batch of pairs of ideals, on all threads.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::exact::cut_states::cross::Between;
use crate::exact::ideal_pairs::mates::{Mates, keeps};
use crate::exact::ideal_pairs::part::{Ideal, plus};
use crate::exact::ideal_pairs::reached::{Reached, State};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::stages::{Stages, Step};
use crate::plan::StoppedBy;

/// Steps between two looks at the clock: some milliseconds.
const STEPS_UNWATCHED: u64 = 1_000_000;

/// Pairs with the same second ideal that a thread goes on from at a time.
const GROUP: usize = 32;

/// A pair that one more stage leads to.
pub struct Next {
    /// Where it leads.
    pub state: State,
    /// Whether no other pair dominates it.
    pub is_kept: bool,
    /// Whether it completes a plan.
    pub meets: bool,
}

/// The pairs that one more stage leads to from a group of pairs.
#[derive(Default)]
struct Found {
    next: Vec<Next>,
    pairs: HashSet<[Ideal; 2]>,
}

/// The pairs that one more stage leads to from some of a layer.
pub struct Batch<'b, 'a> {
    pub stages: &'b Stages<'a>,
    pub step: Step<'b>,
    pub own: &'b Reached,
    /// What the other direction has reached, where the two may meet.
    pub opposite: Option<&'b PairSet>,
    /// Those of all searches so far.
    pub steps: AtomicU64,
}

impl Batch<'_, '_> {
    /// The next pairs, in the order of those that they come from; one may come several times.
    pub fn next(&self, parents: &[usize]) -> Result<Vec<Next>, StoppedBy> {
        let second = |parent: usize| self.own.states[parent].at[1];
        let groups: Vec<&[usize]> = parents
            .chunk_by(|&one, &next| second(one) == second(next))
            .flat_map(|group| group.chunks(GROUP))
            .collect();
        let of_group = |group: &&[usize]| {
            let mut found = Found::default();
            let mut mates = self.stages.mates(&self.step, second(group[0]));
            for &parent in *group {
                self.next_from(parent, &mut mates, &mut found)?;
            }
            Ok(found.next)
        };
        let found: Result<Vec<Vec<Next>>, StoppedBy> = groups.par_iter().map(of_group).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Takes one more stage from a pair of ideals in every way.
    fn next_from(&self, parent: usize, mates: &mut Mates, found: &mut Found) -> Result<(), StoppedBy> {
        let Self {
            stages, step, own, ..
        } = self;
        let from = own.states[parent].at;
        let limit_ns = step.limit.ns;
        let within_ns = [stages.must_take_ns(step, from), step.most_ns];
        let mut steps = 0;
        let mut range = mates.all();
        let most = found.next.len().saturating_add(step.children);
        let skipped = match step.children {
            usize::MAX => 0,
            _ => parent.wrapping_mul(7919) % stages.useful(step, 0, from[0]).count().max(1),
        };
        for first in stages.useful(step, 0, from[0]).skip(skipped) {
            let work_ns = stages.own_ns(step.towards, 0, from[0], first);
            let fitting = mates.fitting(work_ns, within_ns, &mut range);
            steps += 1 + fitting.len() as u64;
            if steps > STEPS_UNWATCHED {
                let before = self.steps.fetch_add(mem::take(&mut steps), Ordering::Relaxed);
                stages.may_go_on(own, before)?;
            }
            // Transfers are looked at only where work allows something.
            let pays = stages.pays && !fitting.is_empty();
            let slice = pays.then(|| stages.slice(step.towards, 0, from[0], first));
            if slice.is_some_and(|slice| !keeps(slice.busy, limit_ns)) {
                continue;
            }
            for at in fitting {
                let to = [first, mates.to[at as usize]];
                if to == from {
                    continue;
                }
                // Most have been met before.
                if own.seen.contains(to) || found.pairs.contains(&to) {
                    continue;
                }
                let mut busy = [0; 3];
                if let Some(slice) = &slice {
                    let mate = mates.slice(at, |to| stages.slice(step.towards, 1, from[1], to));
                    if !keeps(slice.least_with(&mate, stages.cross.saved()), limit_ns) {
                        continue;
                    }
                    busy = plus(slice.busy, mate.busy);
                    if !stages.cross.is_empty() {
                        let stage = Between::new(step.towards, from, to);
                        let ends = plus(slice.ends, mate.ends);
                        busy = plus(busy, stages.cross.busy_with(ends, &stages.parts, stage));
                    }
                }
                let is_possible = keeps(busy, limit_ns)
                    && keeps(stages.rest(step.towards, to), step.beyond * limit_ns)
                    && stages.fits_memory(step.taken, from, to);
                if !is_possible {
                    continue;
                }
                let is_opposite = self.opposite.is_some_and(|opposite| opposite.contains(to));
                let meets = is_opposite || stages.leaves_one_stage(step, to);
                found.pairs.insert(to);
                found.next.push(Next {
                    state: State {
                        at: to,
                        parent: Some(parent as u32),
                    },
                    is_kept: meets || !own.prunes || !stages.is_dominated(step, from, to),
                    meets,
                });
                if meets || found.next.len() == most {
                    self.steps.fetch_add(steps, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
        self.steps.fetch_add(steps, Ordering::Relaxed);
        Ok(())
    }
}
