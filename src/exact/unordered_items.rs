//! Dynamic program over ideals of the items that have an order, and sets of those that have none.
#![doc = include_str!("../../formulations/unordered_items.md")]

use std::collections::HashSet;

use crate::exact::bits;
use crate::exact::ideals::{self, Pass, growth};
use crate::exact::tuning::TUNING;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// What a stage adds up to: work and blocking transfers, link in and link out, in ns.
type Load = [i64; 3];

/// Looks for plans whose every stage keeps a limit.
pub(crate) struct UnorderedSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    /// Items without an order, 64 at most.
    unordered: Vec<usize>,
    /// Ideals of the others, none before one that it holds: the empty one first, the full one last.
    ideals: Vec<Box<[u64]>>,
    /// Work of each ideal, in ns.
    works_ns: Vec<i64>,
    /// What each side of each transfer adds to load, link in and link out, in ns.
    paid: Vec<[[u64; 3]; 2]>,
    /// Whether each transfer has an unordered end.
    is_loose: Vec<bool>,
    most_steps: u64,
    steps: u64,
    /// States met in all passes.
    pub(crate) reached: usize,
}

/// A stage's ordered items: those between two ideals.
struct Interval {
    /// The ideal before it.
    before: usize,
    /// What they add up to with the transfers among ordered items.
    load: Load,
}

/// What an unordered item adds to a stage that has it, and to one that has not.
struct Choice {
    inside: Load,
    outside: Load,
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

impl<'a> UnorderedSearch<'a> {
    /// Prepares a search of so many steps; `None` where no item is unordered or too many are, where the others have too many ideals, where
    /// unordered items exchange tensors with each other, where memory can bind, or where every stage must be used.
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
            || !problem.memory_never_binds()
        {
            return None;
        }
        let loose_ends = |t: usize| {
            problem.transfers[t]
                .items()
                .filter(|&end| !has_order(end))
                .count()
        };
        let loose_ends: Vec<usize> = (0..problem.transfers.len()).map(loose_ends).collect();
        if loose_ends.iter().any(|&ends| ends > 1) {
            return None;
        }
        let ordered: Vec<usize> = (0..n).filter(|&item| has_order(item)).collect();
        let ideals = ideals_of(problem, &ordered)?;
        let work_ns = |ideal: &[u64]| {
            bits::iter(ideal)
                .map(|item| problem.items[item].work_ns() as i64)
                .sum()
        };
        Some(Self {
            problem,
            control,
            unordered,
            works_ns: ideals.iter().map(|ideal| work_ns(ideal)).collect(),
            ideals,
            paid: ideals::paid_by_sides(problem),
            is_loose: loose_ends.iter().map(|&ends| ends == 1).collect(),
            most_steps,
            steps: 0,
            reached: 0,
        })
    }

    /// A plan whose every stage keeps the limit, if there is one.
    pub(crate) fn pass(&mut self, limit_ns: u64) -> Pass {
        let limit_ns = i64::try_from(limit_ns).unwrap_or(i64::MAX);
        let mut intervals = Vec::new();
        // The fewest stages that could do with each ideal, if unordered items were left out wherever they cost.
        let mut fewest: Vec<usize> = vec![0];
        intervals.push(Vec::new());
        for behind in 1..self.ideals.len() {
            if let Some(stopped_by) = self.control.must_stop() {
                return Pass::Stopped(stopped_by);
            }
            let ending = self.intervals(behind, limit_ns);
            let before = ending.iter().map(|interval| fewest[interval.before]).min();
            fewest.push(before.unwrap_or(usize::MAX).saturating_add(1));
            intervals.push(ending);
        }
        match self.search(&intervals, &fewest, limit_ns) {
            Ok(Some(plan)) => Pass::Found(plan),
            Ok(None) => Pass::Exhausted,
            Err(stopped_by) => Pass::Stopped(stopped_by),
        }
    }

    /// Takes stages off the end, layer after layer, where the stages left could do with what lies before.
    fn search(
        &mut self,
        intervals: &[Vec<Interval>],
        fewest: &[usize],
        limit_ns: i64,
    ) -> Result<Option<Assignment>, StoppedBy> {
        let mut states = States::new(self.ideals.len() - 1, self.unordered.len());
        let most_reached = self.control.room_bytes() / TUNING.bytes_of_a_reached_ideal;
        let mut layer = 0..1;
        for left in (0..self.problem.stages()).rev() {
            let start = states.reached.len();
            for parent in layer {
                if states.reached.len() > most_reached {
                    return Err(StoppedBy::SizeLimit);
                }
                let ideal = states.reached[parent].ideal;
                // A stage may hold unordered items alone.
                let none = Interval {
                    before: ideal,
                    load: [0; 3],
                };
                let ending = intervals[ideal].iter().chain([&none]);
                for interval in ending.filter(|interval| fewest[interval.before] <= left) {
                    self.take_stages(&mut states, parent, interval, limit_ns)?;
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
        interval: &Interval,
        limit_ns: i64,
    ) -> Result<(), StoppedBy> {
        let Reached { ideal, unordered, .. } = states.reached[parent];
        let stage = [interval.before, ideal];
        for rest in self.rests(stage, unordered, interval.load, limit_ns)? {
            if states.seen.insert((interval.before, rest)) {
                states.reached.push(Reached {
                    ideal: interval.before,
                    unordered: rest,
                    parent,
                });
            }
        }
        Ok(())
    }

    /// The intervals up to an ideal that could keep the limit if unordered items lay wherever they cost least.
    fn intervals(&self, behind: usize, limit_ns: i64) -> Vec<Interval> {
        let could_keep = |before: usize| {
            let is_part = bits::is_subset(&self.ideals[before], &self.ideals[behind]);
            let work_ns = self.works_ns[behind] - self.works_ns[before];
            if !is_part || work_ns > limit_ns {
                return None;
            }
            let load = self.ordered_load([before, behind]);
            // Unordered items only add to it.
            if !keeps(load, limit_ns) {
                return None;
            }
            let choices = self
                .unordered
                .iter()
                .map(|&item| self.choice([before, behind], item));
            let least = choices.fold(load, |sum, choice| {
                let less = combined(choice.inside, choice.outside, i64::min);
                combined(sum, less, |a, b| a + b)
            });
            keeps(least, limit_ns).then_some(Interval { before, load })
        };
        (0..behind).filter_map(could_keep).collect()
    }

    /// For a stage between two ideals, every set of unordered items that it can leave of those left.
    fn rests(
        &mut self,
        stage: [usize; 2],
        left: u64,
        load: Load,
        limit_ns: i64,
    ) -> Result<Vec<u64>, StoppedBy> {
        let mut load = load;
        let mut open = Vec::new();
        for (at, &item) in self.unordered.iter().enumerate() {
            let Choice { inside, outside } = self.choice(stage, item);
            load = combined(load, outside, |a, b| a + b);
            if left >> at & 1 == 1 {
                open.push((at, combined(inside, outside, |a, b| a - b)));
            }
        }
        // What the choices from each on can save at most.
        let mut savings = vec![[0; 3]; open.len() + 1];
        for (at, (_, change)) in open.iter().enumerate().rev() {
            savings[at] = combined(savings[at + 1], *change, |sum, change| sum + change.min(0));
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
            if !keeps(combined(load, savings[decided], |a, b| a + b), limit_ns) {
                continue;
            }
            let Some(&(at, change)) = open.get(decided) else {
                rests.push(rest);
                continue;
            };
            chosen.push((decided + 1, load, rest));
            let taken = combined(load, change, |a, b| a + b);
            chosen.push((decided + 1, taken, rest & !(1 << at)));
        }
        // A stage that takes nothing is none.
        rests.retain(|&rest| stage[0] != stage[1] || rest != left);
        Ok(rests)
    }

    /// What the items between two ideals add up to with the transfers among ordered items.
    fn ordered_load(&self, stage: [usize; 2]) -> Load {
        let [before, behind] = stage.map(|ideal| &self.ideals[ideal]);
        let inside = |item: usize| bits::contains(behind, item) && !bits::contains(before, item);
        let mut touched: Vec<usize> = bits::without(behind, before)
            .flat_map(|item| self.problem.transfers_of[item].iter().copied())
            .filter(|&t| !self.is_loose[t])
            .collect();
        touched.sort_unstable();
        touched.dedup();
        let work_ns = self.works_ns[stage[1]] - self.works_ns[stage[0]];
        touched.into_iter().fold([work_ns, 0, 0], |sum, t| {
            combined(sum, self.paid(t, &inside), |a, b| a + b)
        })
    }

    /// What an unordered item adds to a stage between two ideals, inside and outside.
    fn choice(&self, [before, behind]: [usize; 2], item: usize) -> Choice {
        let [before, behind] = [before, behind].map(|ideal| &self.ideals[ideal]);
        let ordered = |other: usize| bits::contains(behind, other) && !bits::contains(before, other);
        let with = |other: usize| other == item || ordered(other);
        let sum = |inside: &dyn Fn(usize) -> bool, work_ns: u64| {
            let transfers = self.problem.transfers_of[item].iter();
            transfers.fold([work_ns as i64, 0, 0], |sum, &t| {
                combined(sum, self.paid(t, inside), |a, b| a + b)
            })
        };
        Choice {
            inside: sum(&with, self.problem.items[item].work_ns()),
            outside: sum(&ordered, 0),
        }
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
        side.map_or([0; 3], |side| self.paid[t][side as usize].map(|ns| ns as i64))
    }

    /// Reads the stages off the states that lead to the one that leaves nothing.
    fn unwind(&self, reached: &[Reached]) -> Assignment {
        let mut plan = vec![0; self.problem.items.len()];
        let is_last = |state: &Reached| state.ideal == 0 && state.unordered == 0;
        let mut at = reached.iter().position(is_last).unwrap_or(0);
        let mut stage = 0;
        while reached[at].parent != usize::MAX {
            let (now, then) = (&reached[at], &reached[reached[at].parent]);
            for item in bits::without(&self.ideals[then.ideal], &self.ideals[now.ideal]) {
                plan[item] = stage;
            }
            for (at, &item) in self.unordered.iter().enumerate() {
                if (then.unordered & !now.unordered) >> at & 1 == 1 {
                    plan[item] = stage;
                }
            }
            at = now.parent;
            stage += 1;
        }
        plan
    }
}

/// All ideals of some items, which others do not come before, none before one that it holds; `None` where there are too many.
fn ideals_of(problem: &Problem, items: &[usize]) -> Option<Vec<Box<[u64]>>> {
    let before = growth::predecessors(problem);
    let empty = bits::from_members(bits::words(problem.items.len()), []);
    let mut seen = HashSet::from([empty.clone()]);
    let mut ideals = vec![empty];
    let mut next = 0;
    while let Some(ideal) = ideals.get(next).cloned() {
        next += 1;
        for &item in items {
            let comes_next = !bits::contains(&ideal, item)
                && before[item].iter().all(|&other| bits::contains(&ideal, other));
            if comes_next {
                let mut larger = ideal.clone();
                bits::insert(&mut larger, item);
                if seen.insert(larger.clone()) {
                    ideals.push(larger);
                }
            }
        }
        if ideals.len() > TUNING.most_ideals_beside_unordered {
            return None;
        }
    }
    Some(ideals)
}

fn keeps(load: Load, limit_ns: i64) -> bool {
    load.into_iter().all(|ns| ns <= limit_ns)
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
            let to = chain
                .iter()
                .filter(|_| rng.random_bool(0.5))
                .cloned()
                .collect::<Vec<_>>();
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
        let mut compared = 0;
        for round in 0..600 {
            let problem = problem(&mut rng);
            let (items, stages) = (problem.items.len(), problem.stages());
            let all = (0..stages.pow(items as u32)).map(|code| {
                let stage = |item: usize| code / stages.pow(item as u32) % stages;
                (0..items).map(stage).collect::<Assignment>()
            });
            let feasible = all.filter(|plan| cost::is_feasible(&problem, plan));
            let least_ns = feasible.map(|plan| bottleneck_ns(&problem, &plan)).min().unwrap();
            let Some(mut search) = UnorderedSearch::new(&problem, &control, u64::MAX) else {
                continue;
            };
            let Pass::Found(plan) = search.pass(least_ns) else {
                panic!("round {round}: there is a plan");
            };
            assert!(cost::is_feasible(&problem, &plan), "round {round}");
            assert_eq!(bottleneck_ns(&problem, &plan), least_ns, "round {round}");
            if least_ns > 0 {
                assert_eq!(search.pass(least_ns - 1), Pass::Exhausted, "round {round}");
            }
            compared += 1;
        }
        assert!(compared > 300, "{compared}");
    }
}
