//! Alternation: the best slicing for fixed workers, then better workers for the fixed stages, and so on.
//!
//! Ours. It starts from the plans of [`duan_wu_local`] and [`lpt`], goes along several orders, and keeps what is strictly
//! better, so the objective only falls. When neither step helps, it changes the workers of two stages and slices anew: a
//! neighbour of the sequence of workers is as good as its best slicing. Effort is counted, not timed, so that the same
//! seed gives the same plan on every machine.

use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::grouping::{Grouping, free_choices, neighbours};
use super::slicing_for::SlicingFor;
use super::{
    Effort, Heuristic, MustStop, Run, better, duan_wu, duan_wu_local, global_shares, if_runs, lpt, orders,
};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::Workers;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "alternate",
    summary: "the best slicing for fixed workers and better workers for fixed stages, in turn",
    source: "ours",
    exact_for: "what duan-wu is",
    effort: Effort::Thorough,
    run: Run::Heterogeneous(|_, _| Ok(()), run),
};

/// Random orders beside the fixed ones.
const RANDOM_ORDERS: usize = 2;

/// Stages costed after which the search ends: about a tenth of a second's work.
const MOST_LOADS: u64 = 300_000;

/// Random sequences of workers to try where no start is a plan.
const RANDOM_STARTS: usize = 20;

fn run(problem: &Problem, workers: &Workers, seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let starts = [
        duan_wu::partition_and_group(problem, workers),
        lpt::slice_and_deal(problem, workers, seed, must_stop),
    ];
    let mut best: Option<Allocation> = None;
    let mut keep = |plan: Allocation| {
        best = Some(match best.take() {
            Some(best) => better(problem, workers, plan, best),
            None => plan,
        });
    };
    for start in starts.into_iter().flatten() {
        let filled = global_shares::fill(problem, workers, start, must_stop);
        if let Some(start) = if_runs(problem, workers, filled) {
            let improved = duan_wu_local::improve(problem, workers, start.clone(), must_stop);
            if_runs(problem, workers, improved)
                .into_iter()
                .for_each(&mut keep);
            keep(start);
        }
    }
    let orders = orders::handful(problem, RANDOM_ORDERS, seed);
    let mut search = Alternation {
        problem,
        workers,
        slicers: orders
            .iter()
            .map(|order| SlicingFor::new(problem, workers, order))
            .collect(),
        rng: ChaCha8Rng::seed_from_u64(seed),
        must_stop,
    };
    let start = best.clone().or_else(|| search.random_start())?;
    let searched = search.improve(start);
    let searched = duan_wu_local::improve(problem, workers, searched, must_stop);
    // Groups are improved by what they cost alone, and may then hold too much.
    match (if_runs(problem, workers, searched), best) {
        (Some(searched), Some(best)) => Some(better(problem, workers, searched, best)),
        (searched, best) => searched.or(best),
    }
}

struct Alternation<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    /// One for each order.
    slicers: Vec<SlicingFor<'a>>,
    rng: ChaCha8Rng,
    must_stop: MustStop<'a>,
}

impl Alternation<'_> {
    /// A plan no worse than a feasible one, each stage weighed at its own best shares if they are global; the objective falls in
    /// every step, and the effort is counted.
    fn improve(&mut self, start: Allocation) -> Allocation {
        let mut plan = start;
        plan.global.clear();
        let mut objective_ns = self.objective_ns(&plan);
        for at in 0..self.slicers.len() {
            let same = plan.choices.clone();
            self.alternate(at, same, &mut plan, &mut objective_ns);
        }
        // Orders in turn, until none of them knows a better neighbour.
        let (mut at, mut fruitless) = (0, 0);
        while fruitless < self.slicers.len() && !self.is_spent() {
            match self.step_to_neighbour(at, &mut plan, &mut objective_ns) {
                true => fruitless = 0,
                false => {
                    fruitless += 1;
                    at = (at + 1) % self.slicers.len();
                }
            }
        }
        plan
    }

    /// Slices an order for these workers and regroups, in turn, while the plan gets better; whether it did at all.
    ///
    /// Regrouping weighs stages by a value of its own, which can lift the objective, and slicing reckons memory by stages
    /// alone. So the plan is the better of both only if it is feasible and costs less than the last: its objective in ns falls
    /// in every turn.
    fn alternate(
        &mut self,
        at: usize,
        mut choices: Vec<usize>,
        plan: &mut Allocation,
        objective_ns: &mut u64,
    ) -> bool {
        let before_ns = *objective_ns;
        while let Some((sliced, _)) = self.slicers[at].slice(&choices, *objective_ns, self.must_stop) {
            let mut regrouped = sliced.clone();
            Grouping::new(
                self.problem,
                self.workers,
                &sliced.assignment,
                sliced.choices.len(),
            )
            .improve(&mut regrouped.choices, self.must_stop);
            let costed = [regrouped, sliced].map(|plan| (self.objective_ns(&plan), plan));
            let Some((better_ns, better)) = costed.into_iter().min_by_key(|&(ns, _)| ns) else {
                break;
            };
            if better_ns >= *objective_ns {
                break;
            }
            choices.clone_from(&better.choices);
            (*plan, *objective_ns) = (better, better_ns);
        }
        *objective_ns < before_ns
    }

    /// What a plan costs in ns; `u64::MAX` if it is none.
    fn objective_ns(&self, plan: &Allocation) -> u64 {
        match self.workers.is_feasible(self.problem, plan) {
            true => self.workers.objective_ns(self.problem, plan),
            false => u64::MAX,
        }
    }

    /// Moves to the first better neighbour, in random order, if there is one.
    fn step_to_neighbour(&mut self, at: usize, plan: &mut Allocation, objective_ns: &mut u64) -> bool {
        let mut sequences = self.sequences(&plan.choices);
        sequences.shuffle(&mut self.rng);
        for choices in sequences {
            if self.is_spent() {
                return false;
            }
            if self.alternate(at, choices, plan, objective_ns) {
                return true;
            }
        }
        false
    }

    /// The sequence with one or two stages changed, or a free worker put in where there may be more stages.
    fn sequences(&self, choices: &[usize]) -> Vec<Vec<usize>> {
        let mut sequences = Vec::new();
        for stage in 0..choices.len() {
            for step in neighbours(self.problem, self.workers, choices, stage) {
                // Each pair of stages once.
                if step.iter().all(|&(changed, _)| changed >= stage) {
                    let mut changed = choices.to_vec();
                    step.iter().for_each(|&(stage, choice)| changed[stage] = choice);
                    sequences.push(changed);
                }
            }
        }
        if choices.len() < duan_wu::most_stages(self.problem, self.workers) {
            for choice in free_choices(self.workers, choices) {
                for stage in 0..=choices.len() {
                    let mut longer = choices.to_vec();
                    longer.insert(stage, choice);
                    sequences.push(longer);
                }
            }
        }
        sequences
    }

    fn is_spent(&self) -> bool {
        self.slicers.iter().map(|slicer| slicer.loads).sum::<u64>() > MOST_LOADS || (self.must_stop)()
    }

    /// The best slicing for some random sequence of workers.
    fn random_start(&mut self) -> Option<Allocation> {
        let stages = duan_wu::most_stages(self.problem, self.workers);
        for attempt in 0..RANDOM_STARTS {
            if self.is_spent() {
                return None;
            }
            let mut choices: Vec<usize> = Vec::new();
            while choices.len() < stages {
                let free = free_choices(self.workers, &choices);
                // One device each, so that there are enough for all.
                let is_single =
                    |&choice: &usize| self.workers.choices[choice].takes.iter().sum::<usize>() == 1;
                let singles: Vec<usize> = free.into_iter().filter(is_single).collect();
                choices.push(*singles.choose(&mut self.rng)?);
            }
            let at = attempt % self.slicers.len();
            if let Some((plan, _)) = self.slicers[at].slice(&choices, u64::MAX, self.must_stop) {
                return Some(plan);
            }
        }
        None
    }
}
