//! Stages between pairs of ideals: which ones keep a limit, and the pairs that they lead to.

use std::iter;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use crate::control::Control;
use crate::exact::bounds;
use crate::exact::cut_states::cross::{Between, Cross};
use crate::exact::cut_states::{Fronts, Ground};
use crate::exact::ideal_pairs::batch::Batch;
use crate::exact::ideal_pairs::dominance::Dominance;
use crate::exact::ideal_pairs::limit::Limit;
use crate::exact::ideal_pairs::listing::Ranges;
use crate::exact::ideal_pairs::mates::{Mates, Slice, keeps};
use crate::exact::ideal_pairs::part::{Busy, Ideal, Part, Towards, plus};
use crate::exact::ideal_pairs::parts::{Caps, list, wanted_before};
use crate::exact::ideal_pairs::reached::{Reached, State};
use crate::exact::ideals::growth;
use crate::exact::room;
use crate::options::Communication;
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// Most bytes of the sets of pairs met from one end.
const MOST_BYTES: usize = 1 << 30;

/// Most ideals at the far ends of stages that are kept at a time, four bytes each.
const MOST_REACHABLE: usize = 100_000_000;

/// Pairs of a layer that tell what the next one costs.
const SAMPLE: usize = 16;

/// Ideals that are looked at, more or less, for the stages from a batch of pairs.
const IDEALS_OF_A_BATCH: usize = 4_000_000;

/// For each ideal of a part, those that a stage can lead to, in ascending order; `None` until first looked up.
type Reachable = Vec<Option<Box<[Ideal]>>>;

/// What is known of a problem in two parts, and of the stages between pairs of their ideals.
pub struct Stages<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Its work.
    pub work_ns: u64,
    /// What the work of every stage is a multiple of.
    grain_ns: u64,
    pub control: &'a Control<'a>,
    /// Its parts.
    pub parts: [Part; 2],
    /// Transfers between them.
    pub cross: Cross,
    /// For each stage from the end, part and ideal, the bytes that it would hold there; empty where memory cannot bind.
    bytes: Vec<[Vec<u64>; 2]>,
    /// For each direction, part and ideal, those that a stage can lead to; looked up when first met.
    reachable: [[Reachable; 2]; 2],
    reachable_held: usize,
    /// Whether stages pay for anything beside work.
    pub pays: bool,
    /// What searches for fronts need, if transfers are blocking.
    pub ground: Option<Ground>,
    /// What it takes to tell which pairs dominate others.
    dominance: Option<Dominance>,
    /// Limits are at most so much.
    pub most_ns: u64,
    /// The number of steps at which to give up.
    pub until: u64,
    /// What there is room for.
    room_bytes: usize,
    /// Ideals looked at, and pairs that work allows, which count for more.
    pub steps: u64,
}

/// What holds for every stage of a layer.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Which way stages are taken.
    pub towards: Towards,
    /// Stages that are taken with it.
    pub taken: usize,
    /// Stages before the boundary that it leads to.
    before: usize,
    /// Stages beyond that boundary.
    pub beyond: u64,
    /// The most work of a stage: with what is paid it may come to less.
    pub most_ns: u64,
    /// Most pairs that are taken from each pair of the last layer.
    pub children: usize,
    /// Least work of a stage, in ns.
    pub least_ns: u64,
    /// Whether some of the pairs that it can lead to are enough.
    pub dives: bool,
    /// The fronts and the boundary that it leads to, if they are known.
    pub front: Option<(&'a Fronts, usize)>,
}

impl<'a> Stages<'a> {
    /// Lists the ideals of both parts, for limits up to `most_ns`; `None` for a problem in one part, or with too many ideals.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, caps: Caps, most_ns: u64) -> Option<Self> {
        let (parts, listed_ns) = list(problem, caps, most_ns, &|| control.must_stop().is_some())?;
        let none = || [0, 1].map(|p: usize| vec![None; parts[p].len()]);
        let reachable = [none(), none()];
        let bytes = |from_end: usize| {
            let of_item =
                |part: &Part, at: usize| problem.memory_bytes(&problem.items[part.items[at]], from_end);
            let of = |part: &Part| part.sums(|at| of_item(part, at), |a: u64, b| a + b);
            [of(&parts[0]), of(&parts[1])]
        };
        let bytes = match problem.memory_never_binds() {
            true => Vec::new(),
            false => (1..=problem.stages()).map(bytes).collect(),
        };
        let is_blocking = problem.settings.communication == Communication::Blocking;
        let dominates = is_blocking && !problem.settings.all_stages && control.switches.dominance;
        let cross = Cross::new(problem, &parts);
        let has_fronts = is_blocking && control.switches.fronts;
        Some(Self {
            ground: has_fronts.then(|| Ground::new(&parts, &cross, caps.pairs)),
            dominance: dominates.then(|| Dominance::new(&parts)),
            pays: !problem.transfers.is_empty(),
            problem,
            work_ns: problem.work_ns(),
            grain_ns: bounds::quantum_ns(problem),
            control,
            cross,
            parts,
            bytes,
            reachable,
            reachable_held: 0,
            most_ns: listed_ns,
            until: 0,
            room_bytes: room::bytes(),
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
        let before = match towards {
            Towards::Start => beyond,
            Towards::End => taken,
        };
        Step {
            limit,
            towards,
            taken,
            before,
            front: limit
                .fronts
                .as_deref()
                .filter(|_| (1..self.problem.stages()).contains(&before))
                .map(|fronts| (fronts, before - 1)),
            beyond: beyond as u64,
            most_ns: limit.ns - limit.ns % self.grain_ns,
            children: usize::MAX,
            dives: false,
            least_ns: 0,
        }
    }

    /// About how many steps the next layer takes, told from a few of its pairs of ideals; counts no further than `most`.
    pub fn cost_of_layer(&mut self, limit: &Limit, own: &Reached, most: u64) -> u64 {
        let waiting = own.states.len() - own.layer;
        let step = self.step(limit, own.towards, own.stages + 1);
        if let Some((fronts, boundary)) = step.front {
            return fronts.pairs(boundary) as u64;
        }
        let sample = waiting.min(SAMPLE);
        let samples: Vec<usize> = (0..sample).map(|at| own.layer + at * waiting / sample).collect();
        let enough = most / waiting.max(1) as u64 * sample as u64;
        self.forget_others();
        self.look_up(&step, own, &samples);
        let mut steps = 0;
        for &at in &samples {
            steps += self.cost_of_stages(&step, own.states[at].at, enough.saturating_sub(steps));
            if steps >= enough {
                return most;
            }
        }
        steps * waiting as u64 / sample.max(1) as u64
    }

    /// About how many steps the stages from one pair take; counts no further than `most`.
    fn cost_of_stages(&self, step: &Step, from: [Ideal; 2], most: u64) -> u64 {
        let mut steps = 0;
        let mates = self.mates(step, from[1]);
        let within_ns = [self.must_take_ns(step, from), step.most_ns];
        let mut range = mates.all();
        for first in self.useful(step, 0, from[0]) {
            let work_ns = self.own_ns(step.towards, 0, from[0], first);
            steps += 1 + mates.fitting(work_ns, within_ns, &mut range).len() as u64;
            if steps >= most {
                break;
            }
        }
        steps
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
        let together = own.stages + other.stages;
        let may_meet = together == stages || together < stages && !all_stages;
        let opposite = may_meet.then_some(&other.seen);
        if let Some((fronts, boundary)) = step.front {
            return self.layer_in_front(step, fronts, boundary, own, layer, opposite);
        }
        self.forget_others();
        // Pairs with the same second ideal share what can be taken from there.
        own.states[layer.clone()].sort_by_key(|state| (state.at[1], state.at[0]));
        let parents: Vec<usize> = layer.collect();
        let ideals = self.parts.iter().map(Part::len).max();
        let batch = IDEALS_OF_A_BATCH / ideals.unwrap_or(1);
        for parents in parents.chunks(batch.clamp(8, 512)) {
            self.look_up(&step, own, parents);
            let batch = Batch {
                stages: self,
                step,
                own,
                opposite,
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
            if self.reachable_held > MOST_REACHABLE.min(self.room_bytes / 16) {
                self.forget_reachable();
            }
        }
        Ok(None)
    }

    /// Whether there is room, time and effort left.
    pub fn may_go_on(&self, own: &Reached, steps: u64) -> Result<(), StoppedBy> {
        // States double as they grow.
        let bytes = own.seen.bytes + 2 * own.states.len() * size_of::<State>();
        let is_large = own.seen.bytes > MOST_BYTES || bytes > self.room_bytes / 2;
        match self.control.must_stop() {
            _ if is_large || steps > self.until => Err(StoppedBy::SizeLimit),
            Some(stopped_by) => Err(stopped_by),
            None => Ok(()),
        }
    }

    /// Where only ideals are looked up that can lie before one boundary, those for another are of no use.
    fn forget_others(&mut self) {
        if self.parts[0].is_partial() {
            self.forget_reachable();
        }
    }

    /// Makes room: what is needed again is looked up again.
    fn forget_reachable(&mut self) {
        let all = self.reachable.iter_mut().flatten().flatten();
        all.for_each(|reachable| *reachable = None);
        self.reachable_held = 0;
    }

    /// Finds what a stage can lead to from the ideals in some pairs, as far as it is not known.
    fn look_up(&mut self, step: &Step, own: &Reached, pairs: &[usize]) {
        for p in 0..2 {
            let reachable = &self.reachable[step.towards as usize][p];
            let mut ideals: Vec<Ideal> = pairs.iter().map(|&pair| own.states[pair].at[p]).collect();
            ideals.sort_unstable();
            ideals.dedup();
            ideals.retain(|&ideal| reachable[ideal as usize].is_none());
            let candidates = self.candidates(step, p);
            let find = |&ideal: &Ideal| self.find_reachable(step.towards, p, ideal, &candidates);
            let found: Vec<Box<[Ideal]>> = ideals.par_iter().map(find).collect();
            let looked_at: usize = candidates.iter().map(Range::len).sum();
            self.steps += (looked_at * ideals.len()) as u64;
            for (ideal, found) in ideals.into_iter().zip(found) {
                self.reachable_held += found.len();
                self.reachable[step.towards as usize][p][ideal as usize] = Some(found);
            }
        }
    }

    /// Ideals of a part that may lie where stages lead, in ascending ranges.
    fn candidates(&self, step: &Step, p: usize) -> Vec<Range<Ideal>> {
        let [large, small] = &self.parts;
        match p {
            0 if self.parts[0].is_partial() && (1..self.problem.stages()).contains(&step.before) => {
                let wanted = wanted_before(self.problem, small, step.limit.ns, step.before).collect();
                let ranges = Ranges::new(wanted);
                ranges
                    .iter()
                    .map(|[from_ns, to_ns]| large.of_work(from_ns..=to_ns))
                    .collect()
            }
            _ => iter::once(0..self.parts[p].len() as Ideal).collect(),
        }
    }

    /// Those of the candidates that a stage can lead to from an ideal.
    fn find_reachable(
        &self,
        towards: Towards,
        p: usize,
        from: Ideal,
        candidates: &[Range<Ideal>],
    ) -> Box<[Ideal]> {
        let part = &self.parts[p];
        let own_ns = part.work_ns(from, 0);
        let near = match towards {
            Towards::Start => own_ns.saturating_sub(self.most_ns)..=own_ns,
            Towards::End => own_ns..=own_ns.saturating_add(self.most_ns),
        };
        let near = part.of_work(near);
        let ranges = candidates.iter();
        let to = ranges.flat_map(|range| range.start.max(near.start)..range.end.min(near.end));
        part.nested(from, towards, to).into()
    }

    /// The ideals that a stage within the limit and the windows can lead to from one.
    pub fn useful<'b>(&'b self, step: &'b Step, p: usize, from: Ideal) -> impl Iterator<Item = Ideal> {
        let reachable = self.reachable[step.towards as usize][p][from as usize].as_deref();
        let fits = move |&to: &Ideal| {
            self.own_ns(step.towards, p, from, to) <= step.limit.ns
                && step.limit.may_lie(&self.parts, p, to, step.before)
        };
        reachable.unwrap_or(&[]).iter().copied().filter(fits)
    }

    /// The useful ideals from one of the second part.
    pub fn mates(&self, step: &Step, from: Ideal) -> Mates {
        let to = self.useful(step, 1, from).collect();
        Mates::new(&self.parts[1], from, to, step.towards)
    }

    /// The work between two ideals of a part, in ns.
    pub fn own_ns(&self, towards: Towards, p: usize, from: Ideal, to: Ideal) -> u64 {
        match towards {
            Towards::Start => self.parts[p].work_ns(from, to),
            Towards::End => self.parts[p].work_ns(to, from),
        }
    }

    /// What the stage between two ideals of a part does there.
    pub fn slice(&self, towards: Towards, p: usize, from: Ideal, to: Ideal) -> Slice {
        let [whole, rest] = match towards {
            Towards::Start => [from, to],
            Towards::End => [to, from],
        };
        let (ends, cut_ns) = self.cross.ends(p, whole, rest);
        Slice {
            busy: self.parts[p].busy(whole, rest),
            ends,
            cut_ns,
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
    pub fn must_take_ns(&self, step: &Step, from: [Ideal; 2]) -> u64 {
        let beyond_ns = self.work_beyond(step.towards, from);
        let rest_ns = beyond_ns.saturating_sub(step.beyond * step.most_ns);
        rest_ns.max(step.least_ns)
    }

    /// Whether a stage that takes more leads to a pair which everything that can follow on this one can follow on as well.
    pub fn is_dominated(&self, step: &Step, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let is_reached = |at: [Ideal; 2]| {
            let busy = self.busy(Between::new(step.towards, from, at));
            keeps(busy, step.limit.ns) && self.fits_memory(step.taken, from, at)
        };
        let kept_ns = |at: [Ideal; 2]| self.kept_ns(step.towards, at);
        let dominance = self.dominance.as_ref();
        dominance.is_some_and(|dominance| {
            dominance.is_dominated(&self.parts, step.towards, to, kept_ns, is_reached)
        })
    }

    /// Whether a pair reached leaves a single stage, which keeps the limit since what lies beyond the pair does.
    pub fn leaves_one_stage(&self, step: &Step, at: [Ideal; 2]) -> bool {
        let end = match step.towards {
            Towards::Start => [0, 0],
            Towards::End => [0, 1].map(|p| self.parts[p].everything()),
        };
        let is_next = step.taken + 1 == self.problem.stages();
        is_next && at != end && self.fits_memory(step.taken + 1, at, end)
    }

    /// Whether the stage between two pairs of ideals, so many stages from the end, holds what it must.
    pub fn fits_memory(&self, from_end: usize, whole: [Ideal; 2], left: [Ideal; 2]) -> bool {
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
        let inside = |p: usize| self.parts[p].crossing_ns(at[p]);
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
    pub fn busy(&self, stage: Between) -> Busy {
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
                let [before, after] = [0, 1].map(|end: usize| part.bits(ends[end][p]));
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
