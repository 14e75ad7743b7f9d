//! A problem from one end, without transfers and memory: what its items take on each kind of worker, and what both are worth.

use fixedbitset::FixedBitSet;
use petgraph::Direction;

use crate::model::units::LARGEST_EXACT;
use crate::problem::Problem;
use crate::problem::cost::allocation::StageWork;

/// Rounds in which prices are found from nothing, and from those for a little more.
const ROUNDS: [usize; 2] = [300, 10];

/// Items, order and kinds of workers.
pub(super) struct Line {
    /// Stages there may be.
    pub stages: usize,
    /// Time of each item on each kind of worker, in ns; `None` where it cannot run there. `times[kind][item]`.
    pub times: Vec<Vec<Option<u64>>>,
    /// Workers of each kind.
    pub counts: Vec<usize>,
    /// What a kind is among the choices of a problem whose workers differ.
    pub choices: Vec<usize>,
    /// What all of it is worth.
    pub prices: Prices,
    /// Items right behind each item.
    pub next: Vec<Vec<usize>>,
    /// How many items stand right before each item.
    pub entering: Vec<usize>,
    /// What the items behind each item are worth together.
    pub following: Vec<f64>,
}

/// What is worth how much of what is left: dual variables of the linear program that shares items out to workers whatever their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    /// A ns of each kind of worker: those of all workers left are 1 together.
    pub of_kinds: Vec<f64>,
    /// Each item left: the least that its time is worth on any kind. 0 for those that are done.
    pub of_items: Vec<f64>,
}

impl Prices {
    /// What all items left are worth: some worker takes as long, in ns.
    pub(super) fn total(&self) -> f64 {
        self.of_items.iter().sum()
    }
}

impl Line {
    /// The problem from its beginning, or from its end where the direction is `Incoming`.
    ///
    /// Workers count one by one: as devices or as groups that are given. `None` where none of them can run some item.
    pub(super) fn new(problem: &Problem, direction: Direction) -> Option<Self> {
        let n = problem.items.len();
        let neighbours = |direction| -> Vec<Vec<usize>> {
            let of = |item: usize| problem.order.neighbors_directed((item as u32).into(), direction);
            (0..n)
                .map(|item| of(item).map(|other| other.index()).collect())
                .collect()
        };
        let next = neighbours(direction);
        let mut line = Self {
            stages: problem.stages(),
            times: Vec::new(),
            counts: Vec::new(),
            choices: Vec::new(),
            prices: Prices::default(),
            entering: neighbours(direction.opposite()).iter().map(Vec::len).collect(),
            following: Vec::new(),
            next,
        };
        line.add_workers(problem);
        let taken = vec![0; line.counts.len()];
        let same = vec![1.0; line.counts.len()];
        let nothing = FixedBitSet::with_capacity(n);
        line.prices = line.price(&nothing, &taken, same, ROUNDS[0])?;
        line.following = line.worth_behind();
        Some(line)
    }

    fn add_workers(&mut self, problem: &Problem) {
        let Some(workers) = &problem.workers else {
            self.times = vec![problem.items.iter().map(|item| Some(item.work_ns())).collect()];
            self.counts = vec![problem.stages()];
            self.choices = vec![0];
            return;
        };
        for (at, choice) in workers.choices.iter().enumerate() {
            if choice.takes.iter().sum::<usize>() != 1 {
                continue;
            }
            let time = |item| {
                let work = StageWork::of_item(problem, item);
                let load = workers.load(problem, choice, &work, &[]);
                load.map(|load| load.bottleneck_ns)
                    .filter(|&ns| ns <= LARGEST_EXACT)
            };
            let inventory = choice.takes.iter().zip(&workers.inventory);
            self.times.push((0..problem.items.len()).map(time).collect());
            self.counts
                .push(inventory.map(|(takes, inventory)| takes * inventory).sum());
            self.choices.push(at);
        }
    }

    /// Prices for what is left, from those for a little more; `None` where no worker left can run some item.
    pub(super) fn reprice(&self, done: &FixedBitSet, taken: &[usize], known: &Prices) -> Option<Prices> {
        let rounds = if self.counts.len() == 1 { 1 } else { ROUNDS[1] };
        self.price(done, taken, known.of_kinds.clone(), rounds)
    }

    /// Prices for which the items left are worth most: a lower bound of the limit, by linear duality.
    ///
    /// Subgradient steps: whoever has more work than the others at these prices becomes dearer, ever less so.
    fn price(
        &self,
        done: &FixedBitSet,
        taken: &[usize],
        mut of_kinds: Vec<f64>,
        rounds: usize,
    ) -> Option<Prices> {
        let left: Vec<f64> = self
            .counts
            .iter()
            .zip(taken)
            .map(|(count, taken)| (count - taken) as f64)
            .collect();
        let mut best = Prices::default();
        for round in 0..rounds {
            let all: f64 = of_kinds.iter().zip(&left).map(|(price, left)| price * left).sum();
            of_kinds.iter_mut().for_each(|price| *price /= all);
            let (of_items, loads) = self.cheapest(done, &left, &of_kinds)?;
            let prices = Prices {
                of_kinds: of_kinds.clone(),
                of_items,
            };
            let total = prices.total();
            if best.of_kinds.is_empty() || total > best.total() {
                best = prices;
            }
            let step = 0.5 / (1.0 + round as f64 / 10.0);
            for kind in (0..left.len()).filter(|&kind| left[kind] > 0.0) {
                let busy = loads[kind] / left[kind] / total.max(1.0);
                of_kinds[kind] *= (step * (busy - 1.0)).clamp(-1.0, 1.0).exp();
            }
        }
        Some(best)
    }

    /// What each item left is worth where it is worth least, and how long each kind of worker takes for what is worth least there.
    fn cheapest(&self, done: &FixedBitSet, left: &[f64], of_kinds: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let mut of_items = vec![0.0; self.entering.len()];
        let mut loads = vec![0.0; left.len()];
        for item in done.zeroes() {
            let on = |kind: usize| Some((self.times[kind][item]? as f64, kind));
            let worth = (0..left.len()).filter(|&kind| left[kind] > 0.0).filter_map(on);
            let (ns, kind) = worth.min_by(|a, b| (a.0 * of_kinds[a.1]).total_cmp(&(b.0 * of_kinds[b.1])))?;
            of_items[item] = ns * of_kinds[kind];
            loads[kind] += ns;
        }
        Some((of_items, loads))
    }

    /// What the items behind each item are worth together.
    fn worth_behind(&self) -> Vec<f64> {
        let n = self.entering.len();
        let behind = |item: usize| {
            let mut seen = FixedBitSet::with_capacity(n);
            let mut open = vec![item];
            while let Some(at) = open.pop() {
                open.extend(self.next[at].iter().filter(|&&next| !seen.put(next)));
            }
            seen.ones().map(|item| self.prices.of_items[item]).sum()
        };
        (0..n).map(behind).collect()
    }

    /// Workers of a kind that are left beside these.
    pub(super) fn left(&self, kind: usize, used: &[usize]) -> usize {
        self.counts[kind] - used.iter().filter(|&&other| other == kind).count()
    }

    /// No stage of any plan takes less, in ns: work at its prices, and the longest item.
    pub(super) fn bound_ns(&self) -> u64 {
        let longest = (0..self.entering.len()).map(|item| {
            self.times
                .iter()
                .filter_map(|times| times[item])
                .min()
                .unwrap_or(0)
        });
        (self.prices.total() as u64)
            .max(longest.max().unwrap_or(0))
            .max(1)
    }

    /// Every stage of any plan takes at most so much, in ns.
    pub(super) fn most_ns(&self) -> u64 {
        let all = |times: &Vec<Option<u64>>| {
            times
                .iter()
                .flatten()
                .fold(0, |sum: u64, &ns| sum.saturating_add(ns))
        };
        self.times.iter().map(all).max().unwrap_or(0)
    }

    /// What the time of workers that are left is worth when some are taken: of the dearest, one for each stage that is left.
    pub(super) fn worth_left(
        &self,
        prices: &Prices,
        taken: &[usize],
        stages_left: usize,
        limit_ns: u64,
    ) -> f64 {
        let of_kinds = &prices.of_kinds;
        let mut kinds: Vec<usize> = (0..of_kinds.len()).collect();
        kinds.sort_by(|&a, &b| of_kinds[b].total_cmp(&of_kinds[a]));
        let mut stages = stages_left;
        let mut price = 0.0;
        for kind in kinds {
            let used = (self.counts[kind] - taken[kind]).min(stages);
            stages -= used;
            price += used as f64 * of_kinds[kind];
        }
        price * limit_ns as f64
    }
}
