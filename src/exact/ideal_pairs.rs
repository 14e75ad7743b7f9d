//! Dynamic program over pairs of ideals, for problems in two parts without order between them.
#![doc = include_str!("../../formulations/ideal_pairs.md")]

use std::cmp::Reverse;

use petgraph::unionfind::UnionFind;

use super::boundaries::{self, Limits};
use super::control::Control;
use super::cross::{Between, Cross};
use super::growth;
use super::ideals::Pass;
use super::mates::{Mates, keeps};
use super::pair_set::PairSet;
use super::part::{self, Busy, Ideal, Members, Part, Slice, Towards, is_subset, meets, plus};
use super::reach::Reach;
use super::windows;
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
    control: &'a Control<'a>,
    reach: Reach,
    parts: [Part; 2],
    cross: Cross,
    /// For each stage from the end, part and ideal, the bytes that it would hold there; empty where memory cannot bind.
    bytes: Vec<[Vec<u64>; 2]>,
    /// For each direction, part and ideal, the stages that can follow; looked up when first met.
    slices: [[Slices; 2]; 2],
    slices_held: usize,
    /// Slices reach up to this limit.
    most_ns: u64,
    /// The number of steps at which a pass gives up.
    until: u64,
    /// Pairs of slices passed over in all passes; one that may fit counts for more.
    pub steps: u64,
    /// Pairs of ideals met in all passes.
    pub ideals: usize,
}

/// A pair of ideals between two stages, and the one it was reached from.
#[derive(Clone, Copy)]
struct State {
    at: [Ideal; 2],
    parent: u32,
}

/// The pairs that a direction has reached.
struct Reached {
    towards: Towards,
    states: Vec<State>,
    /// Where the last layer starts.
    layer: usize,
    stages: usize,
    seen: PairSet,
}

impl Reached {
    /// So many pairs of the last layer, and where they come from.
    fn thinned(&self, width: usize, seen: PairSet) -> Self {
        let mut states = self.states.clone();
        let waiting = states.split_off(self.layer);
        states.extend(waiting.iter().step_by(waiting.len().div_ceil(width).max(1)));
        Self {
            states,
            seen,
            ..*self
        }
    }
}

/// The same limit for every stage, and what follows from it.
struct Limit {
    ns: u64,
    /// For each part and ideal, the stages that can lie before the boundary behind it: at least and at most.
    before: [Vec<(usize, usize)>; 2],
}

/// What holds for every stage of a layer.
struct Step<'a> {
    limit: &'a Limit,
    /// Stages before the boundary that it leads to.
    before: usize,
    /// What the stages beyond that boundary can carry.
    rest_ns: u64,
}

impl<'a> PairSearch<'a> {
    /// Prepares a search for limits up to `most_ns`; `None` for a problem in one part, or with too many ideals.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_ns: u64) -> Option<Self> {
        let [first, second] = in_two(problem)?;
        let most_ideals = most_ideals(problem.settings.communication);
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
        Some(Self {
            problem,
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
        self.until = self.steps.saturating_add(most_steps);
        let Some(limit) = self.limit(limit_ns) else {
            return Pass::Exhausted;
        };
        let everything = [0, 1].map(|p| self.parts[p].everything());
        let mut from_end = self.reached(Towards::Start, everything);
        let mut from_start = self.reached(Towards::End, [0, 0]);
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
        for width in WIDTHS {
            for (own, other) in [(from_start, from_end), (from_end, from_start)] {
                // What a stage holds depends on how many stages follow it.
                if own.towards == Towards::End && !self.bytes.is_empty() {
                    continue;
                }
                let mut own = own.thinned(width, PairSet::new(&self.parts));
                while own.stages < self.problem.stages() && own.layer < own.states.len() {
                    match self.layer(limit, &mut own, other, CHILDREN) {
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

    /// What follows from a limit; `None` if no plan keeps it.
    fn limit(&self, limit_ns: u64) -> Option<Limit> {
        let problem = self.problem;
        let mut windows = windows::within(problem, &self.reach, limit_ns);
        let limits = Limits {
            bottleneck_ns: limit_ns,
            least_bottleneck_ns: 0,
            objective_ns: limit_ns,
        };
        let must_stop = || self.control.must_stop().is_some();
        // As much work on windows as there are pairs to look at without them.
        let most_steps = self.parts[0]
            .ideals
            .len()
            .saturating_mul(self.parts[1].ideals.len())
            .min(boundaries::MOST_STEPS);
        let is_dead = windows.some_is_empty()
            || self.control.reductions.boundaries
                && !boundaries::narrow(problem, &self.reach, limits, &mut windows, most_steps, &must_stop);
        let stages = problem.stages();
        let before = |part: &Part| {
            // Items that need so many stages before the boundary behind them, and items that bear no more in front.
            let need: Vec<Box<[u64]>> = (0..=stages)
                .map(|k| part.set(|item| windows.earliest[item] >= k))
                .collect();
            let bear: Vec<Box<[u64]>> = (0..=stages)
                .map(|k| part.set(|item| windows.latest[item] < k))
                .collect();
            let of = |members: &Members| {
                let least = (0..=stages)
                    .find(|&k| !meets(&need[k], &members.bits))
                    .unwrap_or(stages);
                let most = (0..=stages).rev().find(|&k| is_subset(&bear[k], &members.bits));
                (least, most.unwrap_or(0))
            };
            part.ideals.iter().map(of).collect()
        };
        (!is_dead).then(|| Limit {
            ns: limit_ns,
            before: [before(&self.parts[0]), before(&self.parts[1])],
        })
    }

    fn reached(&self, towards: Towards, at: [Ideal; 2]) -> Reached {
        let mut seen = PairSet::new(&self.parts);
        seen.insert(at);
        Reached {
            towards,
            states: vec![State { at, parent: u32::MAX }],
            layer: 0,
            stages: 0,
            seen,
        }
    }

    /// Takes stages from both ends, always where it looks cheaper, until the two meet or have no stage left between them.
    fn layers(&mut self, limit: &Limit, from_start: &mut Reached, from_end: &mut Reached) -> Pass {
        // What a stage holds depends on how many stages follow it, which a search from the start does not know.
        let knows_memory = self.bytes.is_empty();
        while from_start.stages + from_end.stages < self.problem.stages() {
            let from_start_is_cheaper = knows_memory && {
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
        let opposite = other.states.iter().rposition(|state| state.at == pair);
        let opposite = opposite.unwrap_or_default();
        match own.towards {
            Towards::End => self.unwind(&own.states, met, &other.states, opposite),
            Towards::Start => self.unwind(&other.states, opposite, &own.states, met),
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

    /// About how many steps the next layer takes, told from a few of its pairs of ideals; counts no further than `most`.
    fn cost_of_layer(&mut self, limit: &Limit, own: &Reached, most: u64) -> u64 {
        let waiting = own.states.len() - own.layer;
        let step = self.step(limit, own.towards, own.stages + 1);
        let (mut steps, mut fitting) = (0, Vec::new());
        let sample = waiting.min(SAMPLE);
        for at in 0..sample {
            let from = own.states[own.layer + at * waiting / sample].at;
            (0..2).for_each(|p| self.look_up(own.towards, p, from[p]));
            let mates = self.mates(&step, own.towards, from[1]);
            let least_ns = self.work_beyond(own.towards, from).saturating_sub(step.rest_ns);
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
        let step = self.step(limit, own.towards, own.stages);
        let together = own.stages + other.stages;
        let may_meet = together == stages || together < stages && !all_stages;
        // Pairs with the same second ideal share what can be taken from there.
        own.states[layer.clone()].sort_by_key(|state| (state.at[1], state.at[0]));
        let mut mates: Option<(Ideal, Mates)> = None;
        for parent in layer {
            let [first, second] = own.states[parent].at;
            self.look_up(own.towards, 0, first);
            if mates.as_ref().is_none_or(|(ideal, _)| *ideal != second) {
                self.look_up(own.towards, 1, second);
                mates = Some((second, self.mates(&step, own.towards, second)));
            }
            let Some((_, mates)) = &mates else { continue };
            let mut steps = self.steps;
            let met = self.stages_from(
                &step,
                parent,
                children,
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

    fn look_up(&mut self, towards: Towards, p: usize, ideal: Ideal) {
        let slices = &mut self.slices[towards as usize][p][ideal as usize];
        if slices.is_none() {
            let ends = |whole, left| self.cross.ends(p, whole, left);
            let found = self.parts[p].slices(ideal, towards, self.most_ns, ends);
            self.slices_held += found.len();
            self.steps += self.parts[p].ideals.len() as u64;
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
            let (least, most) = step.limit.before[p][slice.to as usize];
            (least..=most).contains(&step.before) && keeps(slice.busy, step.limit.ns)
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
        children: usize,
        mates: &Mates,
        own: &mut Reached,
        opposite: Option<&PairSet>,
        steps: &mut u64,
    ) -> Result<Option<u32>, StoppedBy> {
        let limit_ns = step.limit.ns;
        let from = own.states[parent].at;
        // The stages left cannot carry all of it.
        let must_take_ns = self.work_beyond(own.towards, from).saturating_sub(step.rest_ns);
        let mut look_up_at = *steps + STEPS_UNWATCHED;
        let (mut fitting, mut cut) = (Vec::new(), Vec::new());
        let mut range = mates.all();
        let useful = self.useful(step, own.towards, 0, from[0]);
        let most = own.states.len().saturating_add(children);
        let first = match children {
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
                if own.seen.contains(to) || to == from {
                    continue;
                }
                let b = &mates.slices[at as usize];
                if a.work_ns + b.work_ns < must_take_ns {
                    continue;
                }
                let mut busy = plus(a.busy, b.busy);
                if !self.cross.is_empty() {
                    let stage = between(own.towards, from, to);
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
                own.states.push(State {
                    at: to,
                    parent: parent as u32,
                });
                let meets = opposite.is_some_and(|opposite| opposite.contains(to));
                if meets || self.leaves_one_stage(own, to) {
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
        let between = between(towards, at, beyond);
        let [first, second] = [0, 1].map(|p| self.parts[p].busy(between.whole[p], between.left[p]));
        let busy = plus(first, second);
        match self.cross.is_empty() {
            true => busy,
            false => plus(busy, self.cross.busy(&self.parts, between)),
        }
    }

    /// Reads the stages off the chains of states that meet.
    fn unwind(&self, from_start: &[State], start: usize, from_end: &[State], end: usize) -> Assignment {
        let chain = |states: &[State], mut at: usize| {
            let mut pairs = vec![states[at].at];
            while states[at].parent != u32::MAX {
                at = states[at].parent as usize;
                pairs.push(states[at].at);
            }
            pairs
        };
        let mut pairs = chain(from_start, start);
        pairs.reverse();
        pairs.extend(chain(from_end, end));
        pairs.dedup();
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

/// The stage between two pairs of ideals.
fn between(towards: Towards, from: [Ideal; 2], to: [Ideal; 2]) -> Between {
    match towards {
        Towards::Start => Between {
            whole: from,
            left: to,
        },
        Towards::End => Between {
            whole: to,
            left: from,
        },
    }
}

/// The items in two parts without order between them, each made of whole components, with about as many ideals each; `None`
/// if there is but one component, or too many ideals in one.
fn in_two(problem: &Problem) -> Option<[Vec<usize>; 2]> {
    let n = problem.items.len();
    let mut joined = UnionFind::new(n);
    for edge in problem.order.edge_indices() {
        if let Some((u, v)) = problem.order.edge_endpoints(edge) {
            joined.union(u.index(), v.index());
        }
    }
    let mut components = vec![Vec::new(); n];
    (0..n).for_each(|item| components[joined.find(item)].push(item));
    components.retain(|items| !items.is_empty());
    let mut counted = Vec::new();
    for items in components {
        counted.push((
            part::count_ideals(problem, &items, most_ideals(problem.settings.communication))?,
            items,
        ));
    }
    counted.sort_by_key(|(ideals, items)| (Reverse(*ideals), items[0]));
    let mut parts = [(1.0, Vec::new()), (1.0, Vec::new())];
    for (ideals, items) in counted {
        let part = &mut parts[usize::from(parts[1].0 < parts[0].0)];
        part.0 *= ideals as f64;
        part.1.extend(items);
    }
    let [first, second] = parts.map(|(_, mut items)| {
        items.sort_unstable();
        items
    });
    (!second.is_empty()).then_some([first, second])
}
