//! Optimal slicing of a topological order: the best plan whose stages are intervals of the order.
//!
//! A dynamic program from the end of the order, because memory depends on a stage's position from the end: layer r holds,
//! for every position, the best ways to lay all items behind it in exactly r stages. It covers whatever the problem asks,
//! for what an interval costs includes all communication, and iterations keep several [labels](crate::search::labels).
//! A plan that must beat a known one is found much faster, since that cuts off most intervals and positions.
//!
//! Source: ours as a whole; slicing sampled topological orders is Archer et al., *Practical performance guarantees for
//! pipelined DNN inference*, ICML 2024, for the period without memory.

use super::intervals::{Interval, Intervals};
use super::{Effort, Heuristic, MustStop, Run, along, binary_search, fitting, if_feasible, orders};
use crate::model::objective::Formula;
use crate::problem::cost;
use crate::problem::{Assignment, Item, Problem};
use crate::search::labels::{Label, Step};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "slicing",
    summary: "the best plan that cuts one of eleven topological orders into intervals",
    source: "A. Archer et al., ICML 2024; memory, iterations and overlap ours",
    exact_for: "chains, with any objective, communication and memory",
    effort: Effort::Quick,
    run: Run::Homogeneous(|_| Ok(()), run),
};

/// Random orders that [`best_slicing`] tries beside the fixed ones.
pub(crate) const RANDOM_ORDERS: usize = 4;

fn run(problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    Some(best_slicing(problem, seed, must_stop)?.0)
}

/// The best slicing of a handful of orders, and its objective in ns; of the orders so far when it must stop.
pub fn best_slicing(problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<(Assignment, u64)> {
    let mut best: Option<(Assignment, u64)> = None;
    for order in orders::handful(problem, RANDOM_ORDERS, seed) {
        let sliced = match &best {
            Some((_, objective_ns)) => slice_below(problem, &order, *objective_ns, must_stop),
            None => slice(problem, &order, must_stop),
        };
        best = sliced.or(best);
        if must_stop() {
            break;
        }
    }
    best
}

/// The best plan whose stages are intervals of a topological order, and its objective in ns; `None` where no such plan
/// is feasible.
///
/// Asks [`slice_below`] for plans ever further above a lower bound, since it is fast where little lies below its limit;
/// ends at a plan that balances work alone, or just holds the memory.
pub fn slice(problem: &Problem, order: &[usize], must_stop: MustStop<'_>) -> Option<(Assignment, u64)> {
    let balanced = binary_search::partition(problem, order);
    let plan = if_feasible(problem, balanced).or_else(|| fitting::slices(problem, order))?;
    let plan_ns = cost::assignment_ns(problem, &plan);

    let lower_ns = work_bound_ns(problem);
    let mut margin_ns = (lower_ns / FIRST_MARGIN).max(1);
    while lower_ns + margin_ns < plan_ns && !must_stop() {
        let sliced = slice_below(problem, order, lower_ns + margin_ns, must_stop);
        if sliced.is_some() {
            return sliced;
        }
        margin_ns *= 2;
    }
    slice_below(problem, order, plan_ns, must_stop).or(Some((plan, plan_ns)))
}

/// What every plan costs at least, in ns: all work, shared evenly among the stages, and the largest item on one of them.
/// Communication and memory are ignored.
pub(crate) fn work_bound_ns(problem: &Problem) -> u64 {
    let work_ns = problem.work_ns();
    let largest_ns = problem.items.iter().map(Item::work_ns).max().unwrap_or(0);
    let busiest_ns = largest_ns.max(work_ns.div_ceil(problem.stages() as u64));
    let formula = problem.formula();
    formula.once_ns(work_ns) + formula.weight * busiest_ns
}

/// The first limit is this fraction above the lower bound: work alone can often be balanced as well as that.
const FIRST_MARGIN: u64 = 64;

/// The best plan below `upper_ns` whose stages are intervals of a topological order, and its objective in ns; `None`
/// where there is none, or it must stop first.
///
/// # Complexity
///
/// Time O(I (d + r L²)) for the I <= n²/2 intervals that fit under `upper_ns` from a position in use, d transfers an
/// item, r <= q numbers of stages in use at a position, and L labels in a state, which is 1 for the period.
/// With a good `upper_ns` most positions drop out: those before which there is too much work for the stages left.
pub fn slice_below(
    problem: &Problem,
    order: &[usize],
    upper_ns: u64,
    must_stop: MustStop<'_>,
) -> Option<(Assignment, u64)> {
    slice_within(problem, order, upper_ns, u64::MAX, must_stop).best
}

/// A slicing of limited effort.
#[derive(Clone, Debug)]
pub struct Sliced {
    /// The best plan below the limit and its objective in ns; `None` where there is none, the effort did not suffice, or it
    /// had to stop.
    pub best: Option<(Assignment, u64)>,
    /// Pairs looked at of an interval and a way to lay what lies behind it: what the time goes into.
    pub pairs: u64,
}

/// [`slice_below`], given up once it has looked at more than `most_pairs` pairs of an interval and a way to lay what lies
/// behind it; those of one end are counted together.
///
/// The effort is counted, not timed, so that the same call gives the same plan on every machine.
pub fn slice_within(
    problem: &Problem,
    order: &[usize],
    upper_ns: u64,
    most_pairs: u64,
    must_stop: MustStop<'_>,
) -> Sliced {
    let mut slicer = Slicer::new(problem, order, upper_ns);
    let mut pairs = 0;
    for end in (1..=order.len()).rev() {
        pairs += slicer.slice_before(end);
        if pairs > most_pairs || must_stop() {
            return Sliced { best: None, pairs };
        }
    }
    Sliced {
        best: slicer.best(),
        pairs,
    }
}

struct Slicer<'a> {
    problem: &'a Problem,
    order: &'a [usize],
    upper_ns: u64,
    formula: Formula,
    /// Most stages of use.
    stages: usize,
    /// Work of the items before each position, in ns.
    work_before_ns: Vec<u64>,
    /// Bytes of the items before each position, on the stage r from the end, at r - 1; empty where memory never binds.
    bytes_before: Vec<Vec<u64>>,
    /// Last position at which a plan with r stages behind it can start, by r.
    latest: Vec<usize>,
    /// Steps to everything from a position on in r stages, at `r * (n + 1) + position`.
    steps: Vec<Vec<Step>>,
    intervals: Intervals<'a>,
}

/// A way to lay everything from a position on.
struct Way {
    stages: usize,
    step: usize,
    label: Label,
}

impl<'a> Slicer<'a> {
    fn new(problem: &'a Problem, order: &'a [usize], upper_ns: u64) -> Self {
        let n = order.len();
        let formula = problem.formula();
        let stages = problem.stages().min(n);
        let sums = |value: &dyn Fn(&Item) -> u64| {
            let mut sum = 0;
            let mut before = vec![0];
            for &item in order {
                sum += value(&problem.items[item]);
                before.push(sum);
            }
            before
        };
        let work_before_ns = sums(&Item::work_ns);
        // A bottleneck of more than this costs `upper_ns` or more, beside all work that counts once.
        let rest_ns = upper_ns
            .saturating_sub(1)
            .saturating_sub(formula.once_ns(work_before_ns[n]));
        let most_ns = rest_ns.checked_div(formula.weight).unwrap_or(u64::MAX);
        let latest = (0..=stages).map(|r| match stages - r {
            0 => 0,
            left => {
                let room_ns = most_ns.saturating_mul(left as u64);
                work_before_ns.partition_point(|&work_ns| work_ns <= room_ns) - 1
            }
        });
        let mut steps = vec![Vec::new(); (stages + 1) * (n + 1)];
        steps[n].push(Step::default());
        Self {
            problem,
            order,
            upper_ns,
            formula,
            stages,
            latest: latest.collect(),
            bytes_before: match problem.memory_never_binds() {
                true => Vec::new(),
                false => (1..=stages)
                    .map(|r| sums(&|item| problem.memory_bytes(item, r)))
                    .collect(),
            },
            work_before_ns,
            steps,
            intervals: Intervals::new(problem, order),
        }
    }

    /// Puts one more stage in front of everything from `end` on, as long as it may be; returns how many pairs of
    /// an interval and a way it looked at.
    fn slice_before(&mut self, end: usize) -> u64 {
        let ways = self.ways(end);
        let Some(latest) = ways.iter().map(|way| self.latest[way.stages + 1]).max() else {
            return 0;
        };
        let mut interval = Interval::before(end);
        for start in (0..end).rev() {
            self.intervals.grow(&mut interval);
            if self.is_too_dear(&interval) {
                return ((end - start) * ways.len()) as u64;
            }
            if start > latest {
                continue;
            }
            let stage = self.formula.stage(&interval.cost());
            let once_before_ns = self.formula.once_ns(self.work_before_ns[start]);
            for way in &ways {
                let r = way.stages + 1;
                let label = way.label.join(stage);
                let objective_ns = self.formula.objective_ns(&label) + once_before_ns;
                if objective_ns < self.upper_ns && self.may_start(start, r) && self.fits(start, end, r) {
                    let step = Step {
                        label,
                        state: end,
                        step: way.step,
                    };
                    let at = r * (self.order.len() + 1) + start;
                    self.formula.insert(&mut self.steps[at], step);
                }
            }
        }
        (end * ways.len()) as u64
    }

    /// Ways to lay everything from `end` on that leave a stage free and could be part of a best plan.
    ///
    /// With few stages a way beats another with more, if it is no worse otherwise: what comes before may use as many, and
    /// holds no more. Not so where every stage must be used.
    fn ways(&self, end: usize) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        for stages in 0..self.stages {
            for (step, Step { label, .. }) in self.steps(stages, end).iter().enumerate() {
                let beaten = !self.problem.settings.all_stages
                    && ways.iter().any(|way| self.formula.dominates(&way.label, label));
                if !beaten {
                    ways.push(Way {
                        stages,
                        step,
                        label: *label,
                    });
                }
            }
        }
        ways
    }

    fn steps(&self, stages: usize, start: usize) -> &[Step] {
        &self.steps[stages * (self.order.len() + 1) + start]
    }

    /// Whether every plan with a stage that holds the interval, and perhaps more to the left, costs `upper_ns` or more.
    fn is_too_dear(&self, interval: &Interval) -> bool {
        let all_ns = self.work_before_ns[self.order.len()];
        let inside_ns = self.work_before_ns[interval.end] - self.work_before_ns[interval.start];
        let least = self.formula.stage(&interval.settled);
        self.formula.objective_ns(&least) + self.formula.once_ns(all_ns - inside_ns) >= self.upper_ns
    }

    /// Whether the items before a position can go to the stages that r leave free.
    fn may_start(&self, start: usize, r: usize) -> bool {
        let enough = !self.problem.settings.all_stages || start >= self.problem.stages() - r;
        start <= self.latest[r] && enough
    }

    /// Whether an interval fits the r-th stage from the end.
    fn fits(&self, start: usize, end: usize, r: usize) -> bool {
        let limit = self.problem.settings.memory_limit.unwrap_or(u64::MAX);
        self.bytes_before
            .get(r - 1)
            .is_none_or(|before| before[end] - before[start] <= limit)
    }

    fn best(&self) -> Option<(Assignment, u64)> {
        let fewest = if self.problem.settings.all_stages {
            self.problem.stages()
        } else {
            1
        };
        let plans = (fewest..=self.stages).flat_map(|r| self.steps(r, 0).iter().map(move |step| (r, step)));
        let (stages, first) = plans.min_by_key(|(_, step)| self.formula.objective_ns(&step.label))?;
        let mut along_order = Vec::with_capacity(self.order.len());
        let mut step = first;
        for stage in 0..stages {
            along_order.resize(step.state, stage);
            step = &self.steps(stages - stage - 1, step.state)[step.step];
        }
        let objective_ns = self.formula.objective_ns(&first.label);
        Some((along(self.problem, self.order, &along_order), objective_ns))
    }
}
