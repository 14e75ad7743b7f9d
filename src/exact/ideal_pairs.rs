//! Dynamic program over pairs of ideals, for problems in two parts without order between them.
#![doc = include_str!("../../formulations/ideal_pairs.md")]

use super::control::Control;
use super::cross::{Between, Cross};
use super::dominance::Dominance;
use super::fronts::Front;
use super::growth;
use super::ideals::Pass;
use super::mates::{Mates, keeps};
use super::pair_limit::Limit;
use super::pair_set::PairSet;
use super::part::{Busy, Ideal, Part, Slice, Towards, in_two, plus};
use super::reach::Reach;
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

/// Pairs of a layer that dives keep, one dive after the other.
const WIDTHS: [usize; 2] = [8, 64];

/// Steps of a layer that is taken whatever others cost: a millisecond.
const CHEAP: u64 = 1_000_000;

/// Pairs of a layer that tell what the next one costs.
const SAMPLE: usize = 16;

/// Pairs that a dive takes from each pair of the last layer.
const CHILDREN: usize = 8;

/// Looking at a pair of slices that may fit, in the time of passing over one that does not.
const STEPS_OF_A_PAIR: u64 = 8;

/// Steps between two looks at the clock: some milliseconds.
const STEPS_UNWATCHED: u64 = 1_000_000;

/// For each ideal of a part, the stages that can follow; `None` until first looked up.
type Slices = Vec<Option<Box<[Slice]>>>;

/// Looks for plans within limits over pairs of ideals.
pub struct PairSearch<'a> {
    problem: &'a Problem,
    /// Its work.
    work_ns: u64,
    control: &'a Control<'a>,
    reach: Reach,
    parts: [Part; 2],
    cross: Cross,
    /// For each stage from the end, part and ideal, the bytes that it would hold there; empty where memory cannot bind.
    bytes: Vec<[Vec<u64>; 2]>,
    /// For each direction, part and ideal, the stages that can follow; looked up when first met.
    slices: [[Slices; 2]; 2],
    slices_held: usize,
    /// What it takes to tell which pairs dominate others.
    dominance: Option<Dominance>,
    /// Slices reach up to this limit.
    most_ns: u64,
    /// The number of steps at which a pass gives up.
    until: u64,
    /// Pairs of slices passed over in all passes; one that may fit counts for more.
    pub steps: u64,
    /// Pairs of ideals met in all passes.
    pub ideals: usize,
}

/// What holds for every stage of a layer.
struct Step<'a> {
    limit: &'a Limit,
    /// Stages before the boundary that it leads to.
    before: usize,
    /// What the stages beyond that boundary can carry.
    rest_ns: u64,
    /// Most pairs that are taken from each pair of the last layer.
    children: usize,
}

impl Step<'_> {
    /// The pairs that can be reached, if they are known.
    fn front(&self) -> Option<&Front> {
        self.limit.front(self.before)
    }
}

impl<'a> PairSearch<'a> {
    /// Prepares a search for limits up to `most_ns`; `None` for a problem in one part, or with too many ideals.
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
            reach: Reach::new(problem),
            cross: Cross::new(problem, &parts),
            parts,
            bytes,
            slices,
            slices_held: 0,
            most_ns,
            until: 0,
            steps: 0,
            ideals: 0,
        })
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one. It gives up after so many steps.
    pub fn pass(&mut self, limit_ns: u64, most_steps: u64) -> Pass {
        let limit = Limit::new(
            self.problem,
            &self.parts,
            &self.cross,
            &self.reach,
            self.control,
            limit_ns,
        );
        let Some(limit) = limit else {
            return Pass::Exhausted;
        };
        if let Some(stopped_by) = self.control.must_stop() {
            return Pass::Stopped(stopped_by);
        }
        self.until = self.steps.saturating_add(most_steps);
        let everything = [0, 1].map(|p| self.parts[p].everything());
        let mut from_end = self.reached(Towards::Start, everything);
        let mut from_start = self.reached(Towards::End, [0, 0]);
        if self.dominance.is_some() {
            let knows_memory = self.bytes.is_empty();
            let cost = self.cost_of_layer(&limit, &from_start, u64::MAX);
            let from_start_is_cheaper = knows_memory && self.cost_of_layer(&limit, &from_end, cost) >= cost;
            from_start.prunes = from_start_is_cheaper;
            from_end.prunes = !from_start_is_cheaper;
        }
        let pass = self.layers(&limit, &mut from_start, &mut from_end);
        self.ideals += from_start.states.len() + from_end.states.len();
        let gave_up = pass == Pass::Stopped(StoppedBy::SizeLimit);
        match gave_up.then(|| self.dive(&limit, &from_start, &from_end, most_steps)) {
            Some(Some(assignment)) => Pass::Found(assignment),
            _ => pass,
        }
    }

    /// Goes on with a few pairs of each layer, from the ends of a pass that was given up: where very many pairs keep the limit, most
    /// of them lead to a plan.
    fn dive(
        &mut self,
        limit: &Limit,
        from_start: &Reached,
        from_end: &Reached,
        most_steps: u64,
    ) -> Option<Assignment> {
        self.until = self.steps.saturating_add(most_steps);
        let children = match self.dominance {
            // Few are left.
            Some(_) => usize::MAX,
            None => CHILDREN,
        };
        for width in WIDTHS {
            for (own, other) in [(from_start, from_end), (from_end, from_start)] {
                // What a stage holds depends on how many stages follow it.
                let is_blind = own.towards == Towards::End && !self.bytes.is_empty();
                if is_blind || self.dominance.is_some() && !own.prunes {
                    continue;
                }
                let mut own = own.thinned(width, PairSet::new(&self.parts));
                while own.stages < self.problem.stages() && own.layer < own.states.len() {
                    match self.layer(limit, &mut own, other, children) {
                        Ok(None) => {}
                        Ok(Some(met)) => return Some(self.plan(&own, met, other)),
                        Err(_) => return None,
                    }
                    let rest_ns = |state: &State| self.rest(own.towards, state.at).iter().sum::<u64>();
                    own.states[own.layer..].sort_by_cached_key(rest_ns);
                    own.states.truncate(own.layer + width);
                }
            }
        }
        None
    }

    fn reached(&self, towards: Towards, at: [Ideal; 2]) -> Reached {
        Reached::new(towards, at, PairSet::new(&self.parts))
    }

    /// Takes stages from both ends, always where it looks cheaper, until the two meet or have no stage left between them.
    fn layers(&mut self, limit: &Limit, from_start: &mut Reached, from_end: &mut Reached) -> Pass {
        // What a stage holds depends on how many stages follow it, which a search from the start does not know.
        let knows_memory = self.bytes.is_empty();
        while from_start.stages + from_end.stages < self.problem.stages() {
            // What a search without dominated pairs does not meet, one from the other end would have to.
            let from_start_is_cheaper = from_start.prunes
                || knows_memory && !from_end.prunes && {
                    let left = self.until.saturating_sub(self.steps);
                    let cost = self.cost_of_layer(limit, from_start, left);
                    cost < CHEAP || self.cost_of_layer(limit, from_end, cost) >= cost
                };
            let (own, other) = match from_start_is_cheaper {
                true => (&mut *from_start, &*from_end),
                false => (&mut *from_end, &*from_start),
            };
            if own.layer == own.states.len() {
                break;
            }
            match self.layer(limit, own, other, usize::MAX) {
                Ok(None) => {}
                Ok(Some(met)) => return Pass::Found(self.plan(own, met, other)),
                Err(stopped_by) => return Pass::Stopped(stopped_by),
            }
        }
        Pass::Exhausted
    }

    /// The plan of a state where both directions meet, or that leaves one stage.
    fn plan(&self, own: &Reached, met: u32, other: &Reached) -> Assignment {
        let met = met as usize;
        let pair = own.states[met].at;
        // With all stages a pair may be in several layers; the last one is meant. One that is in none leaves a stage to the
        // other end.
        let may_meet = own.stages + other.stages <= self.problem.stages();
        let opposite = other.states.iter().rposition(|state| state.at == pair);
        let opposite = opposite.filter(|_| may_meet).unwrap_or_default();
        let [mut pairs, mut beyond] = [own.way_to(met), other.way_to(opposite)];
        pairs.reverse();
        pairs.append(&mut beyond);
        pairs.dedup();
        if own.towards == Towards::Start {
            pairs.reverse();
        }
        self.assignment(&pairs)
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
    fn must_take_ns(&self, step: &Step, towards: Towards, from: [Ideal; 2]) -> u64 {
        let beyond_ns = self.work_beyond(towards, from);
        let [least_ns, most_ns] = step.front().map_or([0, u64::MAX], |front| front.work_ns);
        let known_ns = match towards {
            Towards::Start => beyond_ns.saturating_sub(most_ns),
            Towards::End => (least_ns + beyond_ns).saturating_sub(self.work_ns),
        };
        known_ns.max(beyond_ns.saturating_sub(step.rest_ns))
    }

    /// About how many steps the next layer takes, told from a few of its pairs of ideals; counts no further than `most`.
    fn cost_of_layer(&mut self, limit: &Limit, own: &Reached, most: u64) -> u64 {
        let waiting = own.states.len() - own.layer;
        let step = self.step(limit, own.towards, own.stages + 1);
        if limit.has_fronts() {
            self.forget_slices();
        }
        let (mut steps, mut fitting) = (0, Vec::new());
        let sample = waiting.min(SAMPLE);
        for at in 0..sample {
            let from = own.states[own.layer + at * waiting / sample].at;
            (0..2).for_each(|p| self.look_up(step.front(), own.towards, p, from[p]));
            let mates = self.mates(&step, own.towards, from[1]);
            let least_ns = self.must_take_ns(&step, own.towards, from);
            let mut range = mates.all();
            for a in self.useful(&step, own.towards, 0, from[0]) {
                fitting.clear();
                steps += 1 + mates.fitting(&self.cross, a, least_ns, limit.ns, &mut range, &mut fitting);
                steps += fitting.len() as u64 * STEPS_OF_A_PAIR;
                if steps / sample as u64 >= most / waiting as u64 {
                    return most;
                }
            }
        }
        steps * waiting as u64 / sample.max(1) as u64
    }

    /// What holds for the layer that so many stages end in.
    fn step<'b>(&self, limit: &'b Limit, towards: Towards, taken: usize) -> Step<'b> {
        let beyond = self.problem.stages() - taken;
        Step {
            limit,
            before: match towards {
                Towards::Start => beyond,
                Towards::End => taken,
            },
            rest_ns: beyond as u64 * limit.ns,
            children: usize::MAX,
        }
    }

    /// One more stage from every pair of the last layer, in so many ways at most; the position of the state where both
    /// directions meet.
    fn layer(
        &mut self,
        limit: &Limit,
        own: &mut Reached,
        other: &Reached,
        children: usize,
    ) -> Result<Option<u32>, StoppedBy> {
        let stages = self.problem.stages();
        let all_stages = self.problem.settings.all_stages;
        let layer = own.layer..own.states.len();
        own.layer = own.states.len();
        own.stages += 1;
        if all_stages {
            own.seen.clear();
        }
        let step = Step {
            children,
            ..self.step(limit, own.towards, own.stages)
        };
        if limit.has_fronts() {
            // Those of other fronts.
            self.forget_slices();
        }
        let together = own.stages + other.stages;
        let may_meet = together == stages || together < stages && !all_stages;
        // Pairs with the same second ideal share what can be taken from there.
        own.states[layer.clone()].sort_by_key(|state| (state.at[1], state.at[0]));
        let mut mates: Option<(Ideal, Mates)> = None;
        for parent in layer {
            let [first, second] = own.states[parent].at;
            self.look_up(step.front(), own.towards, 0, first);
            if mates.as_ref().is_none_or(|(ideal, _)| *ideal != second) {
                self.look_up(step.front(), own.towards, 1, second);
                mates = Some((second, self.mates(&step, own.towards, second)));
            }
            let Some((_, mates)) = &mates else { continue };
            let mut steps = self.steps;
            let met = self.stages_from(
                &step,
                parent,
                mates,
                own,
                may_meet.then_some(&other.seen),
                &mut steps,
            );
            self.steps = steps;
            if let Some(met) = met? {
                return Ok(Some(met));
            }
            if self.slices_held > MOST_SLICES {
                self.forget_slices();
            }
            self.may_go_on(own, self.steps)?;
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

    /// Makes room: what is needed again is looked up again.
    fn forget_slices(&mut self) {
        let all = self.slices.iter_mut().flatten().flatten();
        all.for_each(|slices| *slices = None);
        self.slices_held = 0;
    }

    /// Finds the slices of an ideal, where a front is known those that lead to it.
    fn look_up(&mut self, front: Option<&Front>, towards: Towards, p: usize, ideal: Ideal) {
        let slices = &mut self.slices[towards as usize][p][ideal as usize];
        if slices.is_none() {
            let ends = |whole, left| self.cross.ends(p, whole, left);
            let (found, looked_at) = match front {
                None => (
                    self.parts[p].slices(ideal, towards, self.most_ns, ends),
                    self.parts[p].ideals.len(),
                ),
                Some(front) => {
                    let to = front.ideals[p].ones().map(|to| to as Ideal);
                    let found = self.parts[p].slices_to(ideal, towards, self.most_ns, to, ends);
                    (found, front.ideals[p].count_ones(..))
                }
            };
            self.slices_held += found.len();
            self.steps += looked_at as u64;
            *slices = Some(found.into());
        }
    }

    /// The slices of an ideal that keep the limit and the windows.
    fn useful<'b>(
        &'b self,
        step: &'b Step,
        towards: Towards,
        p: usize,
        ideal: Ideal,
    ) -> impl Iterator<Item = &'b Slice> {
        let slices = self.slices[towards as usize][p][ideal as usize].as_deref();
        let fits = move |slice: &&Slice| {
            step.limit.may_lie(p, slice.to, step.before) && keeps(slice.busy, step.limit.ns)
        };
        slices.unwrap_or(&[]).iter().filter(fits)
    }

    /// The useful slices of an ideal of the second part.
    fn mates(&self, step: &Step, towards: Towards, ideal: Ideal) -> Mates {
        let slices = self.useful(step, towards, 1, ideal).copied().collect();
        Mates::new(&self.cross, slices, |slice, bits| {
            self.cut(towards, 1, ideal, slice.to, bits)
        })
    }

    /// Takes one more stage from a pair of ideals in every way: the position of the state where both directions meet.
    fn stages_from(
        &self,
        step: &Step,
        parent: usize,
        mates: &Mates,
        own: &mut Reached,
        opposite: Option<&PairSet>,
        steps: &mut u64,
    ) -> Result<Option<u32>, StoppedBy> {
        let limit_ns = step.limit.ns;
        let front = step.front();
        let from = own.states[parent].at;
        let must_take_ns = self.must_take_ns(step, own.towards, from);
        let mut look_up_at = *steps + STEPS_UNWATCHED;
        let (mut fitting, mut cut) = (Vec::new(), Vec::new());
        let mut range = mates.all();
        let useful = self.useful(step, own.towards, 0, from[0]);
        let most = own.states.len().saturating_add(step.children);
        let first = match step.children {
            usize::MAX => 0,
            _ => parent.wrapping_mul(7919) % useful.count().max(1),
        };
        for a in self.useful(step, own.towards, 0, from[0]).skip(first) {
            fitting.clear();
            *steps += mates.fitting(&self.cross, a, must_take_ns, limit_ns, &mut range, &mut fitting);
            *steps += fitting.len() as u64 * STEPS_OF_A_PAIR;
            if *steps > look_up_at {
                self.may_go_on(own, *steps)?;
                look_up_at = *steps + STEPS_UNWATCHED;
            }
            cut.clear();
            if !fitting.is_empty() {
                self.cut(own.towards, 0, from[0], a.to, &mut cut);
            }
            for &at in &fitting {
                let to = [a.to, mates.to[at as usize]];
                if to == from || front.is_some_and(|front| !front.pairs.contains(to)) || own.seen.contains(to)
                {
                    continue;
                }
                let b = &mates.slices[at as usize];
                if a.work_ns + b.work_ns < must_take_ns {
                    continue;
                }
                let mut busy = plus(a.busy, b.busy);
                if !self.cross.is_empty() {
                    let stage = Between::new(own.towards, from, to);
                    let ends = plus(a.ends, b.ends);
                    let cut = [&cut[..], mates.cut(at)];
                    busy = plus(busy, self.cross.busy_with(ends, cut, &self.parts, stage));
                }
                let is_possible = keeps(busy, limit_ns)
                    && keeps(self.rest(own.towards, to), step.rest_ns)
                    && self.fits_memory(own.stages, from, to);
                if !is_possible {
                    continue;
                }
                own.seen.insert(to);
                let meets =
                    opposite.is_some_and(|opposite| opposite.contains(to)) || self.leaves_one_stage(own, to);
                if !meets && own.prunes && self.is_dominated(step, own, from, to) {
                    continue;
                }
                own.states.push(State {
                    at: to,
                    parent: Some(parent as u32),
                });
                if meets {
                    return Ok(Some((own.states.len() - 1) as u32));
                }
                if own.states.len() == most {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Adds the [`Cross::cut`] of the slice between two ideals.
    fn cut(&self, towards: Towards, p: usize, from: Ideal, to: Ideal, bits: &mut Vec<u64>) {
        match towards {
            Towards::Start => self.cross.cut(p, from, to, bits),
            Towards::End => self.cross.cut(p, to, from, bits),
        }
    }

    /// Whether a stage that takes more leads to a pair which everything that can follow on this one can follow on as well.
    fn is_dominated(&self, step: &Step, own: &Reached, from: [Ideal; 2], to: [Ideal; 2]) -> bool {
        let is_reached = |at: [Ideal; 2]| {
            let busy = self.busy(Between::new(own.towards, from, at));
            keeps(busy, step.limit.ns) && self.fits_memory(own.stages, from, at)
        };
        let Some(dominance) = &self.dominance else {
            return false;
        };
        let kept_ns = |at: [Ideal; 2]| {
            let inside = |p: usize| self.parts[p].ideals[at[p] as usize].crossing_ns;
            let crossing_ns = inside(0) + inside(1) + self.cross.crossing_ns(&self.parts, at);
            self.work_beyond(own.towards, at) + crossing_ns
        };
        dominance.is_dominated(own.towards, to, kept_ns, is_reached)
    }

    /// Whether a pair reached leaves a single stage, which keeps the limit since what lies beyond the pair does.
    fn leaves_one_stage(&self, own: &Reached, at: [Ideal; 2]) -> bool {
        let end = match own.towards {
            Towards::Start => [0, 0],
            Towards::End => [0, 1].map(|p| self.parts[p].everything()),
        };
        let is_next = own.stages + 1 == self.problem.stages();
        is_next && at != end && self.fits_memory(own.stages + 1, at, end)
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

    /// What the stages beyond a pair of ideals are busy with at least, all together.
    fn rest(&self, towards: Towards, at: [Ideal; 2]) -> Busy {
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
    fn assignment(&self, pairs: &[[Ideal; 2]]) -> Assignment {
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
