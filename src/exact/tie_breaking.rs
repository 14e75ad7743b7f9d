//! Which of several plans with the same objective is taken.
//!
//! An objective such as the busiest stage leaves open what the other stages do, and searches end with whichever plan they meet first:
//! before one layer that takes five times as long, 11 equal ones may lie as 5, 5 and 1, or as 3, 4 and 4, which has the same period and holds
//! less. The rule: of equal objectives the shortest iteration, then the least memory on the fullest device, then the least on all together. The
//! iteration is that of the standard formula ([`Objective::Formula`]), with as many micro-batches as the problem says or a
//! [simulation](mod@crate::schedule::simulate) takes.
//!
//! The answer of a search is improved by moves of items to the stage before or behind: those at a cut, in runs of 1, 2, 4 and so
//! on, any other whose order allows it, and one over each of several neighbouring cuts at once, so that the stages between keep as many.
//! The first move that makes the plan better in this order is taken, until none does or the effort (`EFFORT`) is spent. So the
//! objective never gets worse, the result depends on the plan alone, and nothing is proved of what is behind the objective.

use std::cell::Cell;
use std::iter;

use petgraph::Direction;

use crate::model::options::Objective;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::{self, StageCost};
use crate::problem::plan::{Outcome, objective_ns};
use crate::schedule::simulate::default_micro_batches;

/// Items and ends of transfers that are looked at in all, at most: hundredths of a second, however large the problem is. That is a hundred
/// plans of ten thousand layers, and all that lie around one of a hundred.
const EFFORT: usize = 4_000_000;

/// What a micro-batch on a stage takes in a simulated run, in these looks.
const EFFORT_OF_A_TASK: usize = 20;

/// What plans are compared by, the less the better, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worth {
    /// The objective, as exactly as the problem counts.
    pub objective: u64,
    /// The iteration, in ticks.
    pub iteration: u64,
    /// Bytes of the fullest stage or device.
    pub fullest_bytes: u64,
    /// Bytes of all.
    pub all_bytes: u64,
}

/// What a plan is worth; `None` where it is none.
pub fn worth(problem: &Problem, plan: &Allocation) -> Option<Worth> {
    let assignment = &plan.assignment;
    let (iteration, bytes): (u64, Vec<u64>) = match (&problem.modes, &problem.workers) {
        (Some(modes), _) => {
            let period = cost::modal_ns(problem, modes, plan)?;
            let stages = cost::modal_stages(problem, modes, plan)?.stages;
            let once = stages.iter().map(|stage| stage.once());
            let again = (micro_batches(problem) - 1).saturating_mul(period);
            let bytes = stages.iter().map(|stage| stage.memory_bytes).collect();
            (once.sum::<u64>().saturating_add(again), bytes)
        }
        (None, Some(workers)) => {
            workers.is_feasible(problem, plan).then_some(())?;
            let loads = workers.loads(problem, plan)?;
            let costs: Vec<StageCost> = loads.iter().map(|load| load.cost).collect();
            let bytes = cost::stage_memory_bytes(problem, assignment, costs.len());
            (iteration(problem, &costs), bytes)
        }
        (None, None) => {
            cost::is_feasible(problem, assignment).then_some(())?;
            match &problem.virtual_stages {
                Some(of) => {
                    let costs = cost::virtual_stages::device_costs(problem, of, assignment);
                    let mut bytes = vec![0; of.devices];
                    let held = cost::virtual_stages::chunk_bytes(problem, of, assignment);
                    iter::zip(&of.device_of, held).for_each(|(&device, held)| bytes[device] += held);
                    (iteration(problem, &costs), bytes)
                }
                None => {
                    let (compact, used) = cost::without_empty_stages(assignment);
                    let costs = cost::stage_costs(problem, &compact);
                    let bytes = cost::stage_memory_bytes(problem, &compact, used);
                    (iteration(problem, &costs), bytes)
                }
            }
        }
    };
    Some(Worth {
        objective: objective_ns(problem, plan),
        iteration,
        fullest_bytes: bytes.iter().copied().max().unwrap_or(0),
        all_bytes: bytes.iter().copied().fold(0, u64::saturating_add),
    })
}

fn micro_batches(problem: &Problem) -> u64 {
    let asked = problem.settings.micro_batches;
    asked
        .unwrap_or_else(|| default_micro_batches(problem.stages()))
        .max(1)
}

fn iteration(problem: &Problem, stages: &[StageCost]) -> u64 {
    let schedule = problem.settings.schedule;
    cost::formula_ns(
        Objective::Formula.formula(schedule, micro_batches(problem)),
        stages,
    )
}

/// The outcome of a search with its plan improved; that of a problem that is told apart has been, case by case.
pub(crate) fn settled(problem: &Problem, mut outcome: Outcome) -> Outcome {
    if let Some(plan) = outcome.allocation.as_mut().filter(|_| !problem.is_told_apart()) {
        settle(problem, plan);
    }
    outcome
}

fn settle(problem: &Problem, plan: &mut Allocation) {
    let Some(mut best) = worth(problem, plan) else {
        return;
    };
    let ends: usize = problem.transfers.iter().map(|to| 1 + to.consumers.len()).sum();
    let run = match problem.settings.is_simulated() {
        true => {
            let tasks = (problem.settings.run_micro_batches() as usize).saturating_mul(problem.stages());
            tasks.saturating_mul(EFFORT_OF_A_TASK)
        }
        false => 0,
    };
    let left = Cell::new(EFFORT);
    let spend = |effort: usize| left.set(left.get().saturating_sub(effort));
    loop {
        spend(problem.items.len());
        let held = held(plan);
        let mut moves = moves(&held).take_while(|_| left.get() > 0);
        let better = moves.find_map(|(items, by)| {
            spend(items.len());
            shift(plan, &items, by);
            let mut found = None;
            if items.iter().all(|&item| keeps_order(problem, plan, item)) {
                spend((problem.items.len() + ends).saturating_add(run));
                found = worth(problem, plan).filter(|&found| found < best);
            }
            if found.is_none() {
                shift(plan, &items, -by);
            }
            found
        });
        match better {
            Some(better) => best = better,
            None => return,
        }
    }
}

/// The items of every stage. They are numbered in a topological order.
fn held(plan: &Allocation) -> Vec<Vec<usize>> {
    let stages = plan.assignment.iter().max().map_or(0, |last| last + 1);
    let mut held = vec![Vec::new(); stages];
    for (item, &stage) in plan.assignment.iter().enumerate() {
        held[stage].push(item);
    }
    held
}

/// Items that may move together, and whether to the stage behind (1) or before (-1).
fn moves(held: &[Vec<usize>]) -> impl Iterator<Item = (Vec<usize>, isize)> {
    let at_cuts = (1..held.len()).flat_map(|cut| [(cut - 1, 1), (cut, -1)]);
    let over_one = at_cuts.flat_map(|(from, by)| {
        let mut own = held[from].clone();
        if by == 1 {
            own.reverse();
        }
        let lengths = iter::successors(Some(1), |length| Some(2 * length));
        let runs = lengths.take_while(|&length| length <= own.len());
        let mut all: Vec<_> = runs.map(|length| (own[..length].to_vec(), by)).collect();
        all.extend(own.iter().skip(1).map(|&item| (vec![item], by)));
        all
    });
    let cuts = (1..held.len()).flat_map(|first| (first + 1..held.len()).map(move |last| (first, last)));
    let over_several = cuts.flat_map(|(first, last)| {
        let forwards = held[first - 1..last].iter().filter_map(|own| own.last().copied());
        let backwards = held[first..=last].iter().filter_map(|own| own.first().copied());
        [(forwards.collect(), 1), (backwards.collect(), -1)]
    });
    over_one.chain(over_several)
}

fn shift(plan: &mut Allocation, items: &[usize], by: isize) {
    for &item in items {
        plan.assignment[item] = plan.assignment[item].wrapping_add_signed(by);
    }
}

/// Whether an item lies behind what must lie before it, and before what must lie behind.
fn keeps_order(problem: &Problem, plan: &Allocation, item: usize) -> bool {
    let stage = |item: usize| plan.assignment[item];
    let others = |direction| problem.order.neighbors_directed((item as u32).into(), direction);
    let before = others(Direction::Incoming).all(|other| stage(other.index()) <= stage(item));
    before && others(Direction::Outgoing).all(|other| stage(item) <= stage(other.index()))
}
