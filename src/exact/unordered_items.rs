//! Dynamic program over ideals of the items that have an order, and sets of those that have none.
#![doc = include_str!("../../formulations/unordered_items.md")]

use std::collections::{BTreeMap, HashSet};

use petgraph::unionfind::UnionFind;

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, paid_by_sides};
use crate::exact::tuning::TUNING;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
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
    /// What each side of each transfer adds to load, link in and link out, in ns.
    paid: Vec<[BusyTimes; 2]>,
    /// Whether each transfer has an unordered end.
    is_loose: Vec<bool>,
    /// By their end, the intervals that could keep a limit, and that limit: later limits are lower.
    intervals: Option<(i64, Vec<Vec<Interval>>)>,
    most_steps: u64,
    steps: u64,
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

/// A state on the way from the end: what is still to place, and the state before it.
struct Reached {
    ideal: usize,
    unordered: u64,
    parent: usize,
}

/// All states reached so far, each once.
struct States {
    reached: Vec<Reached>,
    seen: HashSet<(usize, u64)>,
}

impl States {
    /// The state that leaves everything: the full ideal, and so many unordered items.
    fn new(full: usize, unordered: usize) -> Self {
        let everything = Reached {
            ideal: full,
            unordered: u64::MAX >> (u64::BITS as usize - unordered),
            parent: usize::MAX,
        };
        Self {
            reached: vec![everything],
            seen: HashSet::new(),
        }
    }
}

/// A stage that may be taken off: where it begins and ends, its place from the end, and whether groups without a neighbour there may lie
/// in it.
#[derive(Clone, Copy)]
struct Stage {
    interval: Interval,
    behind: usize,
    from_end: usize,
    takes_strangers: bool,
}

impl<'a> UnorderedSearch<'a> {
    /// Prepares a search of so many steps; `None` where no item is unordered or too many are, where the others have too many ideals, where
    /// too many unordered items exchange tensors with each other, where memory ties stages together, or where every stage must be used.
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
            paid: paid_by_sides(problem),
            is_loose,
            intervals: None,
            most_steps,
            steps: 0,
            reached: 0,
        })
    }

    /// A plan whose every stage keeps the limit, if there is one; limits only fall.
    pub(crate) fn pass(&mut self, limit_ns: u64) -> Answer {
        let found = self.plan_within(i64::try_from(limit_ns).unwrap_or(i64::MAX));
        Answer::within(limit_ns, found)
    }

    fn plan_within(&mut self, limit_ns: i64) -> Result<Option<Assignment>, StoppedBy> {
        let intervals = self.intervals_within(limit_ns)?;
        // The fewest stages that could do with each ideal, if unordered items were left out wherever they cost.
        let mut fewest: Vec<usize> = vec![0];
        for ending in &intervals[1..] {
            let before = ending.iter().map(|interval| fewest[interval.before]).min();
            fewest.push(before.unwrap_or(usize::MAX).saturating_add(1));
        }
        let mut found = None;
        if fewest.last().is_some_and(|&least| least <= self.problem.stages()) {
            // Items beside one that they exchange tensors with make few states, and mostly a plan; only without one the others are looked at.
            for takes_strangers in [false, true] {
                found = self.search(&intervals, &fewest, (limit_ns, takes_strangers))?;
                if found.is_some() {
                    break;
                }
            }
        }
        self.intervals = Some((limit_ns, intervals));
        Ok(found)
    }

    /// By their end, the intervals that could keep the limit if unordered items lay wherever they cost least.
    fn intervals_within(&mut self, limit_ns: i64) -> Result<Vec<Vec<Interval>>, StoppedBy> {
        if let Some((known_ns, mut intervals)) = self.intervals.take()
            && known_ns >= limit_ns
        {
            for ending in &mut intervals {
                ending.retain(|interval| self.keeps(interval.least, limit_ns));
            }
            return Ok(intervals);
        }
        let most = self.control.room_bytes() / size_of::<Interval>();
        let (mut intervals, mut count) = (vec![Vec::new()], 0);
        for behind in 1..self.ideals.sets.len() {
            if let Some(stopped_by) = self.control.must_stop() {
                return Err(stopped_by);
            }
            let ending = self.intervals_to(behind, limit_ns);
            count += ending.len();
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
            intervals.push(ending);
        }
        Ok(intervals)
    }

    /// Takes stages off the end, layer after layer, where the stages left could do with what lies before.
    fn search(
        &mut self,
        intervals: &[Vec<Interval>],
        fewest: &[usize],
        (limit_ns, takes_strangers): (i64, bool),
    ) -> Result<Option<Assignment>, StoppedBy> {
        let mut states = States::new(self.ideals.sets.len() - 1, self.unordered.len());
        let most_reached = self.control.room_bytes() / TUNING.bytes_of_a_reached_ideal;
        let stages = self.problem.stages();
        let mut layer = 0..1;
        for left in (0..stages).rev() {
            let start = states.reached.len();
            for parent in layer {
                if states.reached.len() > most_reached {
                    return Err(StoppedBy::SizeLimit);
                }
                let ideal = states.reached[parent].ideal;
                // A stage may hold unordered items alone.
                let none = Interval {
                    before: ideal,
                    load: [0; 4],
                    least: [0; 4],
                    touched: 0,
                };
                let none = takes_strangers.then_some(&none);
                let ending = intervals[ideal].iter().chain(none);
                for &interval in ending.filter(|interval| fewest[interval.before] <= left) {
                    let stage = Stage {
                        interval,
                        behind: ideal,
                        from_end: stages - left,
                        takes_strangers,
                    };
                    self.take_stages(&mut states, parent, stage, limit_ns)?;
                }
            }
            self.reached += states.reached.len() - start;
            if states.seen.contains(&(0, 0)) {
                return Ok(Some(self.unwind(&states.reached)));
            }
            layer = start..states.reached.len();
        }
        Ok(None)
    }

    /// Takes off every stage of an interval's items, each with a set of unordered items that keeps the limit.
    fn take_stages(
        &mut self,
        states: &mut States,
        parent: usize,
        stage: Stage,
        limit_ns: i64,
    ) -> Result<(), StoppedBy> {
        let before = stage.interval.before;
        for rest in self.rests(stage, states.reached[parent].unordered, limit_ns)? {
            if states.seen.insert((before, rest)) {
                states.reached.push(Reached {
                    ideal: before,
                    unordered: rest,
                    parent,
                });
            }
        }
        Ok(())
    }

    /// The intervals up to an ideal that could keep the limit if unordered items lay wherever they cost least.
    ///
    /// Each is one with an item less, and what that item changes.
    fn intervals_to(&self, behind: usize, limit_ns: i64) -> Vec<Interval> {
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
            let load = combined(sum, self.added(item, [before, shorter, behind]), |a, b| a + b);
            let work_ns = work_ns + self.problem.items[item].work_ns() as i64;
            let touched = touched | self.touches[item];
            // Work and memory only grow with the interval.
            if work_ns > limit_ns || !self.keeps([0, 0, 0, load[3]], limit_ns) {
                continue;
            }
            sums[before] = Some((load, work_ns, touched));
            // Unordered items only add to it.
            if !self.keeps(load, limit_ns) {
                continue;
            }
            let of_least = |sum: Load, group: usize| {
                let all = self.groups[group].members;
                let of_sets = subsets(all).map(|set| self.group_load([before, behind], group, set, 1));
                let least = of_sets.reduce(|one, other| combined(one, other, i64::min));
                combined(sum, least.unwrap_or_default(), |a, b| a + b)
            };
            let least = bits::iter(&[touched]).fold(load, of_least);
            if self.keeps(least, limit_ns) {
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
    fn added(&self, item: usize, [before, shorter, behind]: [usize; 3]) -> Load {
        let sets = &self.ideals.sets;
        let [before, shorter, behind] = [&sets[before], &sets[shorter], &sets[behind]];
        let is_in = |other: usize| bits::contains(behind, other) && !bits::contains(before, other);
        let was_in = |other: usize| bits::contains(behind, other) && !bits::contains(shorter, other);
        let own = self.own(item, 1);
        let transfers = self.problem.transfers_of[item].iter();
        transfers.filter(|&&t| !self.is_loose[t]).fold(own, |sum, &t| {
            let now = combined(sum, self.paid(t, &is_in), |a, b| a + b);
            combined(now, self.paid(t, &was_in), |a, b| a - b)
        })
    }

    /// Work and memory of an item.
    fn own(&self, item: usize, from_end: usize) -> Load {
        let item = &self.problem.items[item];
        let bytes = match self.problem.settings.memory_limit {
            Some(_) => self.problem.memory_bytes(item, from_end),
            None => 0,
        };
        [
            item.work_ns() as i64,
            0,
            0,
            i64::try_from(bytes).unwrap_or(i64::MAX),
        ]
    }

    /// For a stage, every set of unordered items that it can leave of those left.
    fn rests(&mut self, stage: Stage, left: u64, limit_ns: i64) -> Result<Vec<u64>, StoppedBy> {
        let Stage { interval, behind, .. } = stage;
        let ends = [interval.before, behind];
        let mut load = interval.load;
        if stage.from_end > 1 {
            let items = bits::without(&self.ideals.sets[behind], &self.ideals.sets[interval.before]);
            load[3] = items.map(|item| self.own(item, stage.from_end)[3]).sum();
        }
        // The sets that each group can have inside, and what each adds.
        let mut open: Vec<Vec<(u64, Load)>> = Vec::new();
        for group in 0..self.groups.len() {
            let is_touched = interval.touched >> group & 1 == 1;
            let may_lie = match is_touched || stage.takes_strangers {
                true => self.groups[group].members & left,
                false => 0,
            };
            let sets = subsets(may_lie).map(|set| (set, self.group_load(ends, group, set, stage.from_end)));
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
            if !self.keeps(combined(load, least[decided], |a, b| a + b), limit_ns) {
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
    fn group_load(&self, [before, behind]: [usize; 2], group: usize, set: u64, from_end: usize) -> Load {
        let [before, behind] = [&self.ideals.sets[before], &self.ideals.sets[behind]];
        let inside = |item: usize| match self.place[item] {
            Some(at) => set >> at & 1 == 1,
            None => bits::contains(behind, item) && !bits::contains(before, item),
        };
        let own = bits::iter(&[set]).fold([0; 4], |sum, at| {
            combined(sum, self.own(self.unordered[at], from_end), |a, b| a + b)
        });
        let transfers = self.groups[group].transfers.iter();
        transfers.fold(own, |sum, &t| combined(sum, self.paid(t, &inside), |a, b| a + b))
    }

    /// What a stage pays for a transfer.
    fn paid(&self, t: usize, inside: &dyn Fn(usize) -> bool) -> Load {
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
            let [work, link_in, link_out] = self.paid[t][side as usize].map(|ns| ns as i64);
            [work, link_in, link_out, 0]
        })
    }

    fn keeps(&self, load: Load, limit_ns: i64) -> bool {
        let [work, link_in, link_out, bytes] = load;
        let limit_bytes = self.problem.settings.memory_limit;
        work.max(link_in).max(link_out) <= limit_ns
            && limit_bytes.is_none_or(|limit| u64::try_from(bytes).is_ok_and(|bytes| bytes <= limit))
    }

    /// Reads the stages off the states that lead to the one that leaves nothing.
    fn unwind(&self, reached: &[Reached]) -> Assignment {
        let mut plan = vec![0; self.problem.items.len()];
        let is_last = |state: &Reached| state.ideal == 0 && state.unordered == 0;
        let mut at = reached.iter().position(is_last).unwrap_or(0);
        let mut stage = 0;
        while reached[at].parent != usize::MAX {
            let (now, then) = (&reached[at], &reached[reached[at].parent]);
            for item in bits::without(&self.ideals.sets[then.ideal], &self.ideals.sets[now.ideal]) {
                plan[item] = stage;
            }
            for at in bits::iter(&[then.unordered & !now.unordered]) {
                plan[self.unordered[at]] = stage;
            }
            at = now.parent;
            stage += 1;
        }
        plan
    }
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
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::model::instance::Instance;
    use crate::model::options::{Communication, PipelineOptions};
    use crate::model::settings::Settings;
    use crate::problem::cost::{self, StageCost};

    /// A chain of layers with skips, and layers beside it whose order is taken away.
    fn problem(rng: &mut ChaCha8Rng) -> Problem {
        let chain: Vec<String> = (0..rng.random_range(2..5)).map(|i| format!("c{i}")).collect();
        let beside: Vec<String> = (0..rng.random_range(1..4)).map(|i| format!("u{i}")).collect();
        let mut built = Instance::builder("beside");
        for id in chain.iter().chain(&beside) {
            built = built.layer(id, f64::from(rng.random_range(0..9)), 0.0);
        }
        for (at, id) in chain.iter().enumerate().take(chain.len() - 1) {
            let mut to = vec![chain[at + 1].clone()];
            to.extend(chain[at + 2..].iter().filter(|_| rng.random_bool(0.3)).cloned());
            built = built.tensor(id, to, f64::from(rng.random_range(0..9)) * 1e6);
        }
        for id in &beside {
            let mut to: Vec<String> = (chain.iter()).filter(|_| rng.random_bool(0.5)).cloned().collect();
            let others = beside.iter().filter(|&other| other > id);
            to.extend(others.filter(|_| rng.random_bool(0.3)).cloned());
            if !to.is_empty() {
                built = built.tensor(id, to, f64::from(rng.random_range(0..9)) * 1e6);
            }
        }
        let instance = built.devices("device", 3, 1e12).link(1e9, 0.0).build().unwrap();
        let modes = [
            Communication::Ignored,
            Communication::Overlapped,
            Communication::Blocking,
        ];
        let asked = PipelineOptions {
            communication: Some(modes[rng.random_range(0..3)]),
            stages: Some(rng.random_range(1..4)),
            ..Default::default()
        };
        let mut problem = Problem::new(&instance, Settings::resolve(&instance, &asked).unwrap()).unwrap();
        let labels = crate::formulations::partition::item_labels(&instance, &problem);
        let is_beside = |item: usize| labels[item].starts_with('u');
        problem.order.retain_edges(|order, edge| {
            let (from, to) = order.edge_endpoints(edge).unwrap();
            !is_beside(from.index()) && !is_beside(to.index())
        });
        for item in &mut problem.items {
            [item.base_bytes, item.stash_bytes] = [rng.random_range(0..9), rng.random_range(0..3)];
        }
        problem.settings.memory_limit = rng.random_bool(0.5).then(|| rng.random_range(8..40));
        problem
    }

    fn bottleneck_ns(problem: &Problem, plan: &Assignment) -> u64 {
        let costs = cost::stage_costs(problem, plan);
        costs.iter().map(StageCost::bottleneck_ns).max().unwrap_or(0)
    }

    #[test]
    fn passes_find_the_least_bottleneck_of_all_assignments() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let control = Control::default();
        let (mut compared, mut without_plan) = (0, 0);
        for round in 0..600 {
            let problem = problem(&mut rng);
            let (items, stages) = (problem.items.len(), problem.stages());
            let all = (0..stages.pow(items as u32)).map(|code| {
                let stage = |item: usize| code / stages.pow(item as u32) % stages;
                (0..items).map(stage).collect::<Assignment>()
            });
            let feasible = all.filter(|plan| cost::is_feasible(&problem, plan));
            let least_ns = feasible.map(|plan| bottleneck_ns(&problem, &plan)).min();
            let Some(mut search) = UnorderedSearch::new(&problem, &control, u64::MAX) else {
                continue;
            };
            let Some(least_ns) = least_ns else {
                assert!(search.pass(u64::MAX).is_none(), "round {round}");
                without_plan += 1;
                continue;
            };
            let Answer::Plan(plan) = search.pass(least_ns) else {
                panic!("round {round}: there is a plan");
            };
            assert!(cost::is_feasible(&problem, &plan), "round {round}");
            assert_eq!(bottleneck_ns(&problem, &plan), least_ns, "round {round}");
            if least_ns > 0 {
                assert!(search.pass(least_ns - 1).is_none(), "round {round}");
            }
            compared += 1;
        }
        assert!(compared > 300 && without_plan > 10, "{compared}, {without_plan}");
    }
}
