//! Stages between pairs of ideals: which ones keep a limit, and the pairs that they lead to.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::control::Control;
use super::cross::{Between, Cross};
use super::dominance::Dominance;
use super::fronts::Front;
use super::growth;
use super::mates::{Mates, keeps};
use super::pair_limit::Limit;
use super::pair_set::PairSet;
use super::part::{Busy, Ideal, Part, Slice, Towards, in_two, plus};
use super::reached::{Reached, State};
use crate::options::Communication;
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// Most ideals of one part: where there are more, passes hardly ever end in time, and the program has the machine to itself.
fn most_ideals(communication: Communication) -> usize {
    match communication {
        // Loads far above the work leave more pairs.
        Communication::Blocking => 50_000,
        Communication::Ignored | Communication::Overlapped => 300_000,
    }
}

/// Most bytes of the pairs met from one end.
const MOST_BYTES: usize = 1 << 30;

/// Most slices that are kept at a time, 88 bytes each.
const MOST_SLICES: usize = 10_000_000;

/// Pairs of a layer that tell what the next one costs.
const SAMPLE: usize = 16;

/// Looking at a pair of slices that may fit, in the time of passing over one that does not.
const STEPS_OF_A_PAIR: u64 = 8;

/// Steps between two looks at the clock: some milliseconds.
const STEPS_UNWATCHED: u64 = 1_000_000;

/// Ideals that are looked at, more or less, for the slices of a batch of pairs.
const IDEALS_OF_A_BATCH: usize = 4_000_000;

/// Pairs with the same second ideal that a thread goes on from at a time.
const GROUP: usize = 32;

/// For each ideal of a part, the stages that can follow; `None` until first looked up.
type Slices = Vec<Option<Box<[Slice]>>>;

/// What is known of a problem in two parts, and of the stages between pairs of their ideals.
pub struct Stages<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Its work.
    pub work_ns: u64,
    control: &'a Control<'a>,
    /// Its parts.
    pub parts: [Part; 2],
    /// Transfers between them.
    pub cross: Cross,
    /// For each stage from the end, part and ideal, the bytes that it would hold there; empty where memory cannot bind.
    bytes: Vec<[Vec<u64>; 2]>,
    /// For each direction, part and ideal, the stages that can follow; looked up when first met.
    slices: [[Slices; 2]; 2],
    slices_held: usize,
    /// What it takes to tell which pairs dominate others.
    dominance: Option<Dominance>,
    /// Slices reach up to this limit.
    most_ns: u64,
    /// The number of steps at which to give up.
    pub until: u64,
    /// Pairs of slices passed over; one that may fit counts for more.
    pub steps: u64,
}

/// What holds for every stage of a layer.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    limit: &'a Limit,
    towards: Towards,
    /// Stages that are taken with it.
    taken: usize,
    /// Stages before the boundary that it leads to.
    before: usize,
    /// What the stages beyond that boundary can carry.
    rest_ns: u64,
    /// Most pairs that are taken from each pair of the last layer.
    pub children: usize,
    /// Least work of a stage, in ns.
    pub least_ns: u64,
}

impl<'a> Step<'a> {
    /// The pairs that can be reached, if they are known.
    fn front(&self) -> Option<&'a Front> {
        self.limit.front(self.before)
    }
}

/// A pair that one more stage leads to.
struct Next {
    state: State,
    /// Whether no other pair dominates it.
    is_kept: bool,
    /// Whether it completes a plan.
    meets: bool,
}

/// The pairs that one more stage leads to from a group of pairs.
#[derive(Default)]
struct Found {
    next: Vec<Next>,
    pairs: HashSet<[Ideal; 2]>,
}

impl<'a> Stages<'a> {
    /// Lists the ideals of both parts, for limits up to `most_ns`; `None` for a problem in one part, or with too many ideals.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_ns: u64) -> Option<Self> {
        let most_ideals = most_ideals(problem.settings.communication);
        let [first, second] = in_two(problem, most_ideals)?;
        let first = Part::new(problem, first, most_ideals)?;
        let second = Part::new(problem, second, most_ideals)?;
        let none = || [&first, &second].map(|part| vec![None; part.ideals.len()]);
        let slices = [none(), none()];
        let parts = [first, second];
        let bytes = |from_end: usize| {
            let of = |part: &Part| part.sums(|item| problem.memory_bytes(&problem.items[item], from_end));
            [of(&parts[0]), of(&parts[1])]
        };
        let bytes = match problem.memory_never_binds() {
            true => Vec::new(),
            false => (1..=problem.stages()).map(bytes).collect(),
        };
        let is_blocking = problem.settings.communication == Communication::Blocking;
        let dominates = is_blocking && !problem.settings.all_stages && control.reductions.dominance;
        Some(Self {
            dominance: dominates.then(|| Dominance::new(&parts)),
            problem,
            work_ns: problem.work_ns(),
            control,
            cross: Cross::new(problem, &parts),
            parts,
            bytes,
            slices,
            slices_held: 0,
            most_ns,
            until: 0,
            steps: 0,
        })
    }

    /// Whether dominated pairs can be told.
    pub fn dominates(&self) -> bool {
        self.dominance.is_some()
    }

    /// Whether a search from the start can tell what a stage holds, which depends on how many stages follow it.
    pub fn knows_memory(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What holds for the layer that so many stages end in.
    pub fn step<'b>(&self, limit: &'b Limit, towards: Towards, taken: usize) -> Step<'b> {
        let beyond = self.problem.stages() - taken;
        Step {
            limit,
            towards,
            taken,
            before: match towards {
                Towards::Start => beyond,
                Towards::End => taken,
            },
            rest_ns: beyond as u64 * limit.ns,
            children: usize::MAX,
            least_ns: 0,
        }
    }

    /// About how many steps the next layer takes, told from a few of its pairs of ideals; counts no further than `most`.
    pub fn cost_of_layer(&mut self, limit: &Limit, own: &Reached, most: u64) -> u64 {
        let waiting = own.states.len() - own.layer;
        let step = self.step(limit, own.towards, own.stages + 1);
        let sample = waiting.min(SAMPLE);
        let samples: Vec<usize> = (0..sample).map(|at| own.layer + at * waiting / sample).collect();
        self.forget_fronts(&step);
        self.look_up(&step, own, &samples);
        let (mut steps, mut fitting) = (0, Vec::new());
        for &at in &samples {
            let from = own.states[at].at;
            let mates = self.mates(&step, from[1]);
            let within_ns = [self.must_take_ns(&step, from), limit.ns];
            let mut range = mates.all();
            for a in self.useful(&step, 0, from[0]) {
                fitting.clear();
                steps += 1 + mates.fitting(a, within_ns, &mut range, &mut fitting);
                steps += fitting.len() as u64 * STEPS_OF_A_PAIR;
                if steps / sample as u64 >= most / waiting as u64 {
                    return most;
                }
            }
        }
        steps * waiting as u64 / sample.max(1) as u64
    }

    /// One more stage from every pair of the last layer; the position of the state that meets what the other direction has
    /// reached, or that leaves one stage. What is found does not depend on the number of threads.
    pub fn layer(
        &mut self,
        step: Step,
        own: &mut Reached,
        other: &Reached,
    ) -> Result<Option<u32>, StoppedBy> {
        let stages = self.problem.stages();
        let all_stages = self.problem.settings.all_stages;
        let layer = own.layer..own.states.len();
        own.layer = own.states.len();
        own.stages += 1;
        if all_stages {
            own.seen.clear();
        }
        self.forget_fronts(&step);
        let together = own.stages + other.stages;
        let may_meet = together == stages || together < stages && !all_stages;
        // Pairs with the same second ideal share what can be taken from there.
        own.states[layer.clone()].sort_by_key(|state| (state.at[1], state.at[0]));
        let parents: Vec<usize> = layer.collect();
        let ideals = self.parts.iter().map(|part| part.ideals.len()).max();
        let batch = IDEALS_OF_A_BATCH / ideals.unwrap_or(1);
        for parents in parents.chunks(batch.clamp(8, 512)) {
            self.look_up(&step, own, parents);
            let batch = Batch {
                stages: self,
                step,
                own,
                opposite: may_meet.then_some(&other.seen),
                steps: AtomicU64::new(self.steps),
            };
            let found = batch.next(parents);
            self.steps = batch.steps.into_inner();
            self.may_go_on(own, self.steps)?;
            for next in found? {
                if own.seen.contains(next.state.at) {
                    continue;
                }
                own.seen.insert(next.state.at);
                if next.is_kept {
                    own.states.push(next.state);
                }
                if next.meets {
                    return Ok(Some((own.states.len() - 1) as u32));
                }
            }
            if self.slices_held > MOST_SLICES {
                self.forget_slices();
            }
        }
        Ok(None)
    }

    /// Whether there is room, time and effort left.
    fn may_go_on(&self, own: &Reached, steps: u64) -> Result<(), StoppedBy> {
        let is_large = own.seen.bytes > MOST_BYTES;
        match self.control.must_stop() {
            _ if is_large || steps > self.until => Err(StoppedBy::SizeLimit),
            Some(stopped_by) => Err(stopped_by),
            None => Ok(()),
        }
    }

    /// Slices lead to a front where it is known, so that those of another are of no use.
    fn forget_fronts(&mut self, step: &Step) {
        if step.limit.fronts.is_some() {
            self.forget_slices();
        }
    }

    /// Makes room: what is needed again is looked up again.
    fn forget_slices(&mut self) {
        let all = self.slices.iter_mut().flatten().flatten();
        all.for_each(|slices| *slices = None);
        self.slices_held = 0;
    }

    /// Finds the slices of the ideals in some pairs, as far as they are not known.
    fn look_up(&mut self, step: &Step, own: &Reached, pairs: &[usize]) {
        for p in 0..2 {
            let slices = &self.slices[step.towards as usize][p];
            let mut ideals: Vec<Ideal> = pairs.iter().map(|&pair| own.states[pair].at[p]).collect();
            ideals.sort_unstable();
            ideals.dedup();
            ideals.retain(|&ideal| slices[ideal as usize].is_none());
            let find = |&ideal: &Ideal| self.find_slices(step, p, ideal);
            let found: Vec<Box<[Slice]>> = ideals.par_iter().map(find).collect();
            let looked_at = step
                .front()
                .map_or(self.parts[p].ideals.len(), |front| front.ideals[p].count_ones(..));
            self.steps += (looked_at * ideals.len()) as u64;
            for (ideal, found) in ideals.into_iter().zip(found) {
                self.slices_held += found.len();
                self.slices[step.towards as usize][p][ideal as usize] = Some(found);
            }
        }
    }

    /// The slices of an ideal, where a front is known those that lead to it.
    fn find_slices(&self, step: &Step, p: usize, ideal: Ideal) -> Box<[Slice]> {
        let ends = |whole, left| self.cross.ends(p, whole, left);
        let part = &self.parts[p];
        let found = match step.front() {
            None => part.slices(ideal, step.towards, self.most_ns, ends),
            Some(front) => {
                let to = front.ideals[p].ones().map(|to| to as Ideal);
                part.slices_to(ideal, step.towards, self.most_ns, to, ends)
            }
        };
        found.into()
    }

    /// The slices of an ideal that keep the limit and the windows.
    fn useful<'b>(&'b self, step: &'b Step, p: usize, ideal: Ideal) -> impl Iterator<Item = &'b Slice> {
        let slices = self.slices[step.towards as usize][p][ideal as usize].as_deref();
        let fits = move |slice: &&Slice| {
            step.limit.may_lie(p, slice.to, step.before) && keeps(slice.busy, step.limit.ns)
        };
        slices.unwrap_or(&[]).iter().filter(fits)
    }

    /// The useful slices of an ideal of the second part.
    fn mates<'b>(&self, step: &Step<'b>, ideal: Ideal) -> Mates<'b> {
        let slices = self.useful(step, 1, ideal).copied().collect();
        let front = step.front().map(|front| (front, step.towards));
        Mates::new(&self.cross, front, slices, |slice, bits| {
            self.cut(step.towards, 1, ideal, slice.to, bits)
        })
    }

    /// Adds the [`Cross::cut`] of the slice between two ideals.
    fn cut(&self, towards: Towards, p: usize, from: Ideal, to: Ideal, bits: &mut Vec<u64>) {
        match towards {
            Towards::Start => self.cross.cut(p, from, to, bits),
            Towards::End => self.cross.cut(p, to, from, bits),
        }
    }

    /// Work beyond a pair of ideals, in ns.
    fn work_beyond(&self, towards: Towards, at: [Ideal; 2]) -> u64 {
        let of = |p: usize| match towards {
            Towards::Start => self.parts[p].work_ns(at[p], 0),
            Towards::End => self.parts[p].work_ns(self.parts[p].everything(), at[p]),
        };
        of(0) + of(1)
    }

    /// Work that a stage from a pair of ideals must take, since those beyond cannot carry all of it.
    fn must_take_ns(&self, step: &Step, from: [Ideal; 2]) -> u64 {
        let beyond_ns = self.work_beyond(step.towards, from);
        let [least_ns, most_ns] = step.front().map_or([0, u64::MAX], |front| front.work_ns);
        let known_ns = match step.towards {
            Towards::Start => beyond_ns.saturating_sub(most_ns),
            Towards::End => (least_ns + beyond_ns).saturating_sub(self.work_ns),
        };
        let rest_ns = beyond_ns.saturating_sub(step.rest_ns);
        known_ns.max(rest_ns).max(step.least_ns)
    }

    /// Whether a stage that takes more leads to a pair which everything that can follow on this one can follow on as well.
    pub fn is_dominated(&self, step: &Step, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let is_reached = |at: [Ideal; 2]| {
            let busy = self.busy(Between::new(step.towards, from, at));
            keeps(busy, step.limit.ns) && self.fits_memory(step.taken, from, at)
        };
        let kept_ns = |at: [Ideal; 2]| self.kept_ns(step.towards, at);
        let dominance = self.dominance.as_ref();
        dominance.is_some_and(|dominance| dominance.is_dominated(step.towards, to, kept_ns, is_reached))
    }

    /// Whether a pair reached leaves a single stage, which keeps the limit since what lies beyond the pair does.
    fn leaves_one_stage(&self, step: &Step, at: [Ideal; 2]) -> bool {
        let end = match step.towards {
            Towards::Start => [0, 0],
            Towards::End => [0, 1].map(|p| self.parts[p].everything()),
        };
        let is_next = step.taken + 1 == self.problem.stages();
        is_next && at != end && self.fits_memory(step.taken + 1, at, end)
    }

    /// Whether the stage between two pairs of ideals, so many stages from the end, holds what it must.
    fn fits_memory(&self, from_end: usize, whole: [Ideal; 2], left: [Ideal; 2]) -> bool {
        let Some(bytes) = self.bytes.get(from_end - 1) else {
            return true;
        };
        let of = |p: usize| bytes[p][whole[p] as usize] - bytes[p][left[p] as usize];
        self.problem
            .settings
            .memory_limit
            .is_none_or(|limit| of(0) + of(1) <= limit)
    }

    /// The work beyond a pair of ideals and the transfers across it, in ns.
    fn kept_ns(&self, towards: Towards, at: [Ideal; 2]) -> u64 {
        let inside = |p: usize| self.parts[p].ideals[at[p] as usize].crossing_ns;
        let crossing_ns = inside(0) + inside(1) + self.cross.crossing_ns(&self.parts, at);
        self.work_beyond(towards, at) + crossing_ns
    }

    /// What the stages beyond a pair of ideals are busy with at least, all together.
    pub fn rest(&self, towards: Towards, at: [Ideal; 2]) -> Busy {
        if self.problem.settings.communication == Communication::Blocking {
            return [self.kept_ns(towards, at), 0, 0];
        }
        let beyond = match towards {
            Towards::Start => [0, 0],
            Towards::End => [0, 1].map(|p| self.parts[p].everything()),
        };
        self.busy(Between::new(towards, at, beyond))
    }

    /// What a stage is busy with.
    fn busy(&self, stage: Between) -> Busy {
        let [first, second] = [0, 1].map(|p| self.parts[p].busy(stage.whole[p], stage.left[p]));
        let busy = plus(first, second);
        match self.cross.is_empty() {
            true => busy,
            false => plus(busy, self.cross.busy(&self.parts, stage)),
        }
    }

    /// Reads the stages off pairs from either end that meet, or leave one stage between them.
    pub fn assignment(&self, pairs: &[[Ideal; 2]]) -> Assignment {
        let mut assignment = vec![0; self.problem.items.len()];
        for (stage, ends) in pairs.windows(2).enumerate() {
            for (p, part) in self.parts.iter().enumerate() {
                let [before, after] = [0, 1].map(|end| &part.ideals[ends[end][p] as usize].bits);
                for (at, &item) in part.items.iter().enumerate() {
                    if growth::has(after, at) && !growth::has(before, at) {
                        assignment[item] = stage;
                    }
                }
            }
        }
        assignment
    }
}

/// The pairs that one more stage leads to from some of a layer.
struct Batch<'b, 'a> {
    stages: &'b Stages<'a>,
    step: Step<'b>,
    own: &'b Reached,
    /// What the other direction has reached, where the two may meet.
    opposite: Option<&'b PairSet>,
    /// Those of all searches so far.
    steps: AtomicU64,
}

impl Batch<'_, '_> {
    /// The next pairs, in the order of those that they come from; one may come several times.
    fn next(&self, parents: &[usize]) -> Result<Vec<Next>, StoppedBy> {
        let second = |parent: usize| self.own.states[parent].at[1];
        let groups: Vec<&[usize]> = parents
            .chunk_by(|&one, &next| second(one) == second(next))
            .flat_map(|group| group.chunks(GROUP))
            .collect();
        let of_group = |group: &&[usize]| {
            let mut found = Found::default();
            let mates = self.stages.mates(&self.step, second(group[0]));
            for &parent in *group {
                self.next_from(parent, &mates, &mut found)?;
            }
            Ok(found.next)
        };
        let found: Result<Vec<Vec<Next>>, StoppedBy> = groups.par_iter().map(of_group).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Takes one more stage from a pair of ideals in every way.
    fn next_from(&self, parent: usize, mates: &Mates, found: &mut Found) -> Result<(), StoppedBy> {
        let Self {
            stages, step, own, ..
        } = self;
        let from = own.states[parent].at;
        let limit_ns = step.limit.ns;
        let must_take_ns = stages.must_take_ns(step, from);
        let has_front = step.front().is_some();
        let mut steps = 0;
        let (mut fitting, mut cut) = (Vec::new(), Vec::new());
        let mut range = mates.all();
        let most = found.next.len().saturating_add(step.children);
        let first = match step.children {
            usize::MAX => 0,
            _ => parent.wrapping_mul(7919) % stages.useful(step, 0, from[0]).count().max(1),
        };
        for a in stages.useful(step, 0, from[0]).skip(first) {
            fitting.clear();
            steps += mates.fitting(a, [must_take_ns, limit_ns], &mut range, &mut fitting);
            steps += fitting.len() as u64 * STEPS_OF_A_PAIR;
            if steps > STEPS_UNWATCHED {
                let before = self.steps.fetch_add(mem::take(&mut steps), Ordering::Relaxed);
                stages.may_go_on(own, before)?;
            }
            cut.clear();
            if !fitting.is_empty() {
                stages.cut(step.towards, 0, from[0], a.to, &mut cut);
            }
            for &at in &fitting {
                let to = [a.to, mates.to[at as usize]];
                let b = &mates.slices[at as usize];
                if to == from || a.work_ns + b.work_ns < must_take_ns {
                    continue;
                }
                // With fronts most stages are too busy, without them most pairs have been met before.
                let is_met = || own.seen.contains(to) || found.pairs.contains(&to);
                if !has_front && is_met() {
                    continue;
                }
                let mut busy = plus(a.busy, b.busy);
                if !stages.cross.is_empty() {
                    let stage = Between::new(step.towards, from, to);
                    let ends = plus(a.ends, b.ends);
                    let cut = [&cut[..], mates.cut(at)];
                    busy = plus(busy, stages.cross.busy_with(ends, cut, &stages.parts, stage));
                }
                let is_possible = keeps(busy, limit_ns)
                    && !(has_front && is_met())
                    && keeps(stages.rest(step.towards, to), step.rest_ns)
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
