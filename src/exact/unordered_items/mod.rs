//! Dynamic program over ideals of the items that have an order, and sets of those that have none.
#![doc = include_str!("../../../formulations/unordered_items.md")]

mod kinds;

use std::collections::{BTreeMap, HashMap};

use petgraph::unionfind::UnionFind;

use self::kinds::{Devices, Kind, Kinds, add_unless_more};
use crate::exact::bits;
use crate::exact::tuning::TUNING;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::StoppedBy;
use crate::search::ideals::Ideals;
use crate::search::limits::Answer;

/// What a stage adds up to: work and blocking transfers, link in and link out, in ns, and memory, in bytes.
type Load = [i64; 4];

/// Looks for plans whose every stage keeps a limit.
pub(crate) struct UnorderedSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    /// Items without an order, 64 at most.
    unordered: Vec<usize>,
    /// The place of each item among those, where it has one.
    place: Vec<Option<usize>>,
    /// Unordered items that exchange tensors, directly or through others of them.
    groups: Vec<Group>,
    /// The groups that exchange tensors with each item, as bits.
    touches: Vec<u64>,
    ideals: OrderedIdeals,
    kinds: Kinds,
    /// Whether each transfer has an unordered end.
    is_loose: Vec<bool>,
    /// By kind of device and by their end, the intervals that could keep a limit, and that limit: later limits are lower.
    intervals: Option<(i64, Vec<Intervals>)>,
    most_steps: u64,
    /// Decisions on unordered items in all passes.
    pub(crate) steps: u64,
    /// States met in all passes.
    pub(crate) reached: usize,
}

/// Unordered items that exchange tensors, directly or through others of them.
struct Group {
    /// Its items, as bits of their places.
    members: u64,
    /// Transfers with an end in it.
    transfers: Vec<usize>,
}

/// Ideals of the ordered items, none before one that it holds: the empty one first, the full one last.
struct OrderedIdeals {
    sets: Vec<Box<[u64]>>,
    /// The items that may join each, and the ideals that they make of it.
    successors: Vec<Vec<(usize, usize)>>,
}

impl OrderedIdeals {
    /// `None` where there are too many.
    fn new(problem: &Problem, has_order: &dyn Fn(usize) -> bool) -> Option<Self> {
        let most = TUNING.most_ideals_beside_unordered;
        let found = Ideals::of_items(problem, has_order, most, &|| false).ok()?;
        let words = bits::words(problem.items.len());
        let sets = found.sets.iter().map(|set| bits::from_members(words, set.ones()));
        Some(Self {
            sets: sets.collect(),
            successors: found.successors(),
        })
    }
}

/// A stage's ordered items: those between two ideals.
#[derive(Clone, Copy)]
struct Interval {
    /// The ideal before it.
    before: usize,
    /// What they add up to with the transfers among ordered items; memory as on the last stage.
    load: Load,
    /// The same with unordered items wherever they cost least.
    least: Load,
    /// Groups that exchange tensors with it, as bits.
    touched: u64,
}

/// Those of a kind of device, by their end.
type Intervals = Vec<Vec<Interval>>;

/// A state on the way from the end: what is still to place, the devices that stages have taken, the kind of the last, and the state before it.
struct Reached {
    ideal: usize,
    unordered: u64,
    taken: Devices,
    kind: usize,
    parent: usize,
}

/// All states reached so far, each once.
struct States {
    reached: Vec<Reached>,
    /// The devices taken, by what is still to place.
    seen: HashMap<(usize, u64), Vec<Devices>>,
}

impl States {
    /// The state that leaves everything: the full ideal, and so many unordered items.
    fn new(full: usize, unordered: usize) -> Self {
        let everything = Reached {
            ideal: full,
            unordered: u64::MAX >> (u64::BITS as usize - unordered),
            taken: Devices::default(),
            kind: 0,
            parent: usize::MAX,
        };
        Self {
            reached: vec![everything],
            seen: HashMap::new(),
        }
    }
}

/// A stage that may be taken off: where it begins and ends, its place from the end, the kind of its device, and whether groups without a
/// neighbour there may lie in it.
#[derive(Clone, Copy)]
struct Stage {
    interval: Interval,
    behind: usize,
    from_end: usize,
    kind: usize,
    takes_strangers: bool,
}

/// What is looked for: stages of these intervals, where so many devices can do with what lies before, within a limit.
struct Question<'q> {
    intervals: &'q [Intervals],
    needs: &'q [Vec<Devices>],
    limit_ns: i64,
    /// Whether groups may lie in a stage without a neighbour of theirs.
    takes_strangers: bool,
}

impl<'a> UnorderedSearch<'a> {
    /// Prepares a search of so many steps; `None` where no item is unordered or too many are, where the others have too many ideals, where
    /// too many unordered items exchange tensors with each other, where memory ties stages together, where every stage must be used, or where
    /// stages run on more than one device or on devices whose time is no sum.
    pub(crate) fn new(problem: &'a Problem, control: &'a Control<'a>, most_steps: u64) -> Option<Self> {
        let n = problem.items.len();
        let has_order = |item: usize| {
            problem
                .order
                .neighbors_undirected((item as u32).into())
                .next()
                .is_some()
        };
        let unordered: Vec<usize> = (0..n).filter(|&item| !has_order(item)).collect();
        if unordered.is_empty()
            || unordered.len() > u64::BITS as usize
            || unordered.len() == n
            || problem.settings.all_stages
            || problem.memory_is_joint()
            || !adds_up(problem)
        {
            return None;
        }
        let mut place = vec![None; n];
        for (at, &item) in unordered.iter().enumerate() {
            place[item] = Some(at);
        }
        let kinds = Kinds::new(problem)?;
        let groups = groups_of(problem, &unordered, &place);
        if groups
            .iter()
            .any(|group| group.members.count_ones() > TUNING.most_unordered_in_a_group)
        {
            return None;
        }
        let mut is_loose = vec![false; problem.transfers.len()];
        let mut touches = vec![0; n];
        for (at, group) in groups.iter().enumerate() {
            for &t in &group.transfers {
                is_loose[t] = true;
                problem.transfers[t]
                    .items()
                    .for_each(|item| touches[item] |= 1 << at);
            }
        }
        Some(Self {
            problem,
            control,
            unordered,
            place,
            groups,
            touches,
            ideals: OrderedIdeals::new(problem, &has_order)?,
            kinds,
            is_loose,
            intervals: None,
            most_steps,
            steps: 0,
            reached: 0,
        })
    }

    /// A plan whose every stage keeps the limit, if there is one; the fastest where limits only fall. Choices are those of workers, where these
    /// differ.
    pub(crate) fn pass(&mut self, limit_ns: u64) -> Answer<Allocation> {
        let found = self.plan_within(i64::try_from(limit_ns).unwrap_or(i64::MAX));
        Answer::within(limit_ns, found)
    }

    fn plan_within(&mut self, limit_ns: i64) -> Result<Option<Allocation>, StoppedBy> {
        let intervals = self.intervals_within(limit_ns)?;
        let needs = self.needs(&intervals);
        let mut found = None;
        if needs.last().is_some_and(|all| !all.is_empty()) {
            // Items beside one that they exchange tensors with make few states, and mostly a plan; only without one the others are looked at.
            for takes_strangers in [false, true] {
                found = self.search(&Question {
                    intervals: &intervals,
                    needs: &needs,
                    limit_ns,
                    takes_strangers,
                })?;
                if found.is_some() {
                    break;
                }
            }
        }
        self.intervals = Some((limit_ns, intervals));
        Ok(found)
    }

    /// The fewest devices that could do with each ideal, if unordered items were left out wherever they cost.
    fn needs(&self, intervals: &[Intervals]) -> Vec<Vec<Devices>> {
        let mut needs = vec![vec![Devices::default()]];
        for behind in 1..self.ideals.sets.len() {
            let on_kind = |(kind, intervals): (usize, &Intervals)| -> Vec<Devices> {
                let before = intervals[behind]
                    .iter()
                    .flat_map(|interval| &needs[interval.before]);
                before
                    .filter_map(|devices| self.kinds.with(devices, kind))
                    .collect()
            };
            let mut least = Vec::new();
            for devices in intervals.iter().enumerate().flat_map(on_kind) {
                add_unless_more(&mut least, devices);
            }
            needs.push(least);
        }
        needs
    }

    /// By kind and by their end, the intervals that could keep the limit if unordered items lay wherever they cost least.
    fn intervals_within(&mut self, limit_ns: i64) -> Result<Vec<Intervals>, StoppedBy> {
        if let Some((known_ns, mut intervals)) = self.intervals.take()
            && known_ns >= limit_ns
        {
            for (kind, of_kind) in self.kinds.all.iter().zip(&mut intervals) {
                for ending in of_kind {
                    ending.retain(|interval| keeps(kind, interval.least, limit_ns));
                }
            }
            return Ok(intervals);
        }
        let most = self.control.room_bytes() / size_of::<Interval>();
        let mut count = 0;
        let mut intervals = Vec::new();
        for kind in &self.kinds.all {
            let mut of_kind = vec![Vec::new()];
            for behind in 1..self.ideals.sets.len() {
                if let Some(stopped_by) = self.control.must_stop() {
                    return Err(stopped_by);
                }
                let ending = self.intervals_to(kind, behind, limit_ns);
                count += ending.len();
                if count > most {
                    return Err(StoppedBy::SizeLimit);
                }
                of_kind.push(ending);
            }
            intervals.push(of_kind);
        }
        Ok(intervals)
    }

    /// Takes stages off the end, layer after layer.
    fn search(&mut self, question: &Question) -> Result<Option<Allocation>, StoppedBy> {
        let mut states = States::new(self.ideals.sets.len() - 1, self.unordered.len());
        let most_reached = self.control.room_bytes() / TUNING.bytes_of_a_reached_ideal;
        let mut layer = 0..1;
        for from_end in 1..=self.problem.stages() {
            let start = states.reached.len();
            for parent in layer {
                if states.reached.len() > most_reached {
                    return Err(StoppedBy::SizeLimit);
                }
                for (kind, taken) in self.kinds.with_one_more(&states.reached[parent].taken) {
                    self.take_kind(&mut states, (parent, from_end), (kind, taken), question)?;
                }
            }
            self.reached += states.reached.len() - start;
            if states.seen.contains_key(&(0, 0)) {
                return Ok(Some(self.unwind(&states.reached)));
            }
            layer = start..states.reached.len();
        }
        Ok(None)
    }

    /// Takes off every stage on a device of a kind, where the devices that are then left could do with what lies before.
    fn take_kind(
        &mut self,
        states: &mut States,
        (parent, from_end): (usize, usize),
        (kind, taken): (usize, Devices),
        question: &Question,
    ) -> Result<(), StoppedBy> {
        let behind = states.reached[parent].ideal;
        // A stage may hold unordered items alone.
        let none = Interval {
            before: behind,
            load: [0; 4],
            least: [0; 4],
            touched: 0,
        };
        let none = question.takes_strangers.then_some(&none);
        let ending = question.intervals[kind][behind].iter().chain(none);
        for &interval in ending {
            let mut needs = question.needs[interval.before].iter();
            if !needs.any(|need| self.kinds.has_both(need, &taken)) {
                continue;
            }
            let stage = Stage {
                interval,
                behind,
                from_end,
                kind,
                takes_strangers: question.takes_strangers,
            };
            self.take_stages(states, (parent, taken), stage, question.limit_ns)?;
        }
        Ok(())
    }

    /// Takes off every stage of an interval's items, each with a set of unordered items that keeps the limit.
    fn take_stages(
        &mut self,
        states: &mut States,
        (parent, taken): (usize, Devices),
        stage: Stage,
        limit_ns: i64,
    ) -> Result<(), StoppedBy> {
        let before = stage.interval.before;
        for rest in self.rests(stage, states.reached[parent].unordered, limit_ns)? {
            if add_unless_more(states.seen.entry((before, rest)).or_default(), taken) {
                states.reached.push(Reached {
                    ideal: before,
                    unordered: rest,
                    taken,
                    kind: stage.kind,
                    parent,
                });
            }
        }
        Ok(())
    }

    /// The intervals up to an ideal that could keep the limit if unordered items lay wherever they cost least.
    ///
    /// Each is one with an item less, and what that item changes.
    fn intervals_to(&self, kind: &Kind, behind: usize, limit_ns: i64) -> Vec<Interval> {
        let end = &self.ideals.sets[behind];
        let mut sums: Vec<Option<(Load, i64, u64)>> = vec![None; behind + 1];
        sums[behind] = Some(([0; 4], 0, 0));
        let mut intervals = Vec::new();
        for before in (0..behind).rev() {
            let mut successors = self.ideals.successors[before].iter();
            let Some(&(item, shorter)) = successors.find(|(item, _)| bits::contains(end, *item)) else {
                continue;
            };
            let Some((sum, work_ns, touched)) = sums.get(shorter).copied().flatten() else {
                continue;
            };
            let load = combined(sum, self.added(kind, item, [before, shorter, behind]), |a, b| {
                a + b
            });
            let work_ns = work_ns + kind.work_ns[item];
            let touched = touched | self.touches[item];
            // Work and memory only grow with the interval.
            if work_ns > limit_ns || !keeps(kind, [0, 0, 0, load[3]], limit_ns) {
                continue;
            }
            sums[before] = Some((load, work_ns, touched));
            // Unordered items only add to it.
            if !keeps(kind, load, limit_ns) {
                continue;
            }
            let of_least = |sum: Load, group: usize| {
                let all = self.groups[group].members;
                let of_sets =
                    subsets(all).map(|set| self.group_load(kind, [before, behind], (group, set), 1));
                let least = of_sets.reduce(|one, other| combined(one, other, i64::min));
                combined(sum, least.unwrap_or_default(), |a, b| a + b)
            };
            let least = bits::iter(&[touched]).fold(load, of_least);
            if keeps(kind, least, limit_ns) {
                intervals.push(Interval {
                    before,
                    load,
                    least,
                    touched,
                });
            }
        }
        intervals
    }

    /// What an item adds to the stage between two ideals that is longer by it, with the transfers among ordered items.
    fn added(&self, kind: &Kind, item: usize, [before, shorter, behind]: [usize; 3]) -> Load {
        let sets = &self.ideals.sets;
        let [before, shorter, behind] = [&sets[before], &sets[shorter], &sets[behind]];
        let is_in = |other: usize| bits::contains(behind, other) && !bits::contains(before, other);
        let was_in = |other: usize| bits::contains(behind, other) && !bits::contains(shorter, other);
        let own = self.own(kind, item, 1);
        let transfers = self.problem.transfers_of[item].iter();
        transfers.filter(|&&t| !self.is_loose[t]).fold(own, |sum, &t| {
            let now = combined(sum, self.paid(kind, t, &is_in), |a, b| a + b);
            combined(now, self.paid(kind, t, &was_in), |a, b| a - b)
        })
    }

    /// Work and memory of an item.
    fn own(&self, kind: &Kind, item: usize, from_end: usize) -> Load {
        let bytes = match kind.memory_limit {
            Some(_) => self.problem.memory_bytes(&self.problem.items[item], from_end),
            None => 0,
        };
        [kind.work_ns[item], 0, 0, i64::try_from(bytes).unwrap_or(i64::MAX)]
    }

    /// For a stage, every set of unordered items that it can leave of those left.
    fn rests(&mut self, stage: Stage, left: u64, limit_ns: i64) -> Result<Vec<u64>, StoppedBy> {
        let Stage { interval, behind, .. } = stage;
        let kind = &self.kinds.all[stage.kind];
        let ends = [interval.before, behind];
        let mut load = interval.load;
        if stage.from_end > 1 {
            let items = bits::without(&self.ideals.sets[behind], &self.ideals.sets[interval.before]);
            load[3] = items.map(|item| self.own(kind, item, stage.from_end)[3]).sum();
        }
        // The sets that each group can have inside, and what each adds.
        let mut open: Vec<Vec<(u64, Load)>> = Vec::new();
        for group in 0..self.groups.len() {
            let is_touched = interval.touched >> group & 1 == 1;
            let may_lie = match is_touched || stage.takes_strangers {
                true => self.groups[group].members & left,
                false => 0,
            };
            let load_of = |set| self.group_load(kind, ends, (group, set), stage.from_end);
            let sets = subsets(may_lie).map(|set| (set, load_of(set)));
            if is_touched || may_lie != 0 {
                open.push(sets.collect());
            }
        }
        // What the choices from each on add at least.
        let mut least = vec![[0; 4]; open.len() + 1];
        for (at, sets) in open.iter().enumerate().rev() {
            let of_sets = sets.iter().map(|&(_, load)| load);
            let of_group = of_sets.reduce(|one, other| combined(one, other, i64::min));
            least[at] = combined(least[at + 1], of_group.unwrap_or_default(), |a, b| a + b);
        }
        let mut rests = Vec::new();
        let mut chosen = vec![(0, load, left)];
        while let Some((decided, load, rest)) = chosen.pop() {
            self.steps += 1;
            if self.steps > self.most_steps {
                return Err(StoppedBy::SizeLimit);
            }
            if self.steps.is_multiple_of(TUNING.growth_steps_between_clock_looks)
                && let Some(stopped_by) = self.control.must_stop()
            {
                return Err(stopped_by);
            }
            if !keeps(kind, combined(load, least[decided], |a, b| a + b), limit_ns) {
                continue;
            }
            let Some(sets) = open.get(decided) else {
                rests.push(rest);
                continue;
            };
            let with = sets
                .iter()
                .map(|&(set, added)| (decided + 1, combined(load, added, |a, b| a + b), rest & !set));
            chosen.extend(with);
        }
        // A stage that takes nothing is none.
        rests.retain(|&rest| interval.before != behind || rest != left);
        Ok(rests)
    }

    /// What a group adds to a stage between two ideals that has so many of its items.
    fn group_load(
        &self,
        kind: &Kind,
        [before, behind]: [usize; 2],
        (group, set): (usize, u64),
        from_end: usize,
    ) -> Load {
        let [before, behind] = [&self.ideals.sets[before], &self.ideals.sets[behind]];
        let inside = |item: usize| match self.place[item] {
            Some(at) => set >> at & 1 == 1,
            None => bits::contains(behind, item) && !bits::contains(before, item),
        };
        let own = bits::iter(&[set]).fold([0; 4], |sum, at| {
            combined(sum, self.own(kind, self.unordered[at], from_end), |a, b| a + b)
        });
        let transfers = self.groups[group].transfers.iter();
        transfers.fold(own, |sum, &t| {
            combined(sum, self.paid(kind, t, &inside), |a, b| a + b)
        })
    }

    /// What a stage pays for a transfer.
    fn paid(&self, kind: &Kind, t: usize, inside: &dyn Fn(usize) -> bool) -> Load {
        let transfer = &self.problem.transfers[t];
        let side = match inside(transfer.producer) {
            true => transfer
                .consumers
                .iter()
                .any(|&to| !inside(to))
                .then_some(Side::Producer),
            false => transfer
                .consumers
                .iter()
                .any(|&to| inside(to))
                .then_some(Side::Consumer),
        };
        side.map_or([0; 4], |side| {
            let [work, link_in, link_out] = kind.paid[t][side as usize].map(|ns| ns as i64);
            [work, link_in, link_out, 0]
        })
    }

    /// Reads the stages off the states that lead to the one that leaves nothing.
    fn unwind(&self, reached: &[Reached]) -> Allocation {
        let mut assignment = vec![0; self.problem.items.len()];
        let mut choices = Vec::new();
        let is_last = |state: &Reached| state.ideal == 0 && state.unordered == 0;
        let mut at = reached.iter().position(is_last).unwrap_or(0);
        while reached[at].parent != usize::MAX {
            let (now, then) = (&reached[at], &reached[reached[at].parent]);
            for item in bits::without(&self.ideals.sets[then.ideal], &self.ideals.sets[now.ideal]) {
                assignment[item] = choices.len();
            }
            for at in bits::iter(&[then.unordered & !now.unordered]) {
                assignment[self.unordered[at]] = choices.len();
            }
            choices.push(self.kinds.all[now.kind].choice);
            at = now.parent;
        }
        let plan = Allocation::from(assignment);
        match self.problem.workers {
            Some(_) => Allocation { choices, ..plan },
            None => plan,
        }
    }
}

/// Whether a device of a kind can carry a load.
fn keeps(kind: &Kind, load: Load, limit_ns: i64) -> bool {
    let [work, link_in, link_out, bytes] = load;
    work.max(link_in).max(link_out) <= limit_ns
        && kind
            .memory_limit
            .is_none_or(|limit| u64::try_from(bytes).is_ok_and(|bytes| bytes <= limit))
}

/// Whether no sum of bytes leaves the numbers that loads are kept in.
fn adds_up(problem: &Problem) -> bool {
    let bytes = |item| u128::from(problem.memory_bytes(item, problem.stages()));
    problem.items.iter().map(bytes).sum::<u128>() <= i64::MAX as u128
}

/// Unordered items by the tensors that they exchange with each other.
fn groups_of(problem: &Problem, unordered: &[usize], place: &[Option<usize>]) -> Vec<Group> {
    let mut joined = UnionFind::<usize>::new(unordered.len());
    let places = |t: usize| problem.transfers[t].items().filter_map(|item| place[item]);
    for t in 0..problem.transfers.len() {
        let mut ends = places(t);
        if let Some(first) = ends.next() {
            ends.for_each(|other| {
                joined.union(first, other);
            });
        }
    }
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for at in 0..unordered.len() {
        let group = groups.entry(joined.find(at)).or_insert_with(|| Group {
            members: 0,
            transfers: Vec::new(),
        });
        group.members |= 1 << at;
    }
    for t in 0..problem.transfers.len() {
        if let Some(at) = places(t).next()
            && let Some(group) = groups.get_mut(&joined.find(at))
        {
            group.transfers.push(t);
        }
    }
    groups.into_values().collect()
}

/// All subsets of some bits, the empty one first.
fn subsets(of: u64) -> impl Iterator<Item = u64> {
    let next = move |&set: &u64| (set != of).then(|| (set | !of).wrapping_add(1) & of);
    std::iter::successors(Some(0), next)
}

fn combined(a: Load, b: Load, combine: impl Fn(i64, i64) -> i64) -> Load {
    std::array::from_fn(|at| combine(a[at], b[at]))
}

#[cfg(test)]
mod tests;
