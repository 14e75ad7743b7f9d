//! Exchange between devices: the cuts between two devices are chosen again in all rounds at once.
//!
//! One cut moves a whole item from one device to the other, which is coarse where items are few. Several cuts together move differences of
//! items, and there are as many sums of these as products of places: with four rounds and seven places each 2,401, among which one is
//! near any balance. See the page's *Quick plans*.

mod fill;
mod joint;
mod loads;
mod search;

use self::loads::Loads;
use self::search::ExchangeSearch;
use super::{Effort as Takes, Heuristic, MustStop, Run, orders};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "chunk-exchange",
    summary: "chunks filled up to a period; then all cuts between two devices are chosen again at once, within a limit that sinks",
    source: "ours; sums of two halves as E. Horowitz and S. Sahni, JACM 21(2), 1974",
    exact_for: "nothing in particular",
    effort: Takes::Quick,
    run: Run::Chunks(run),
};

/// Steps from each start, and from the best of all: tenths of a second.
const STEPS_OF_A_START: u64 = 1 << 18;
const STEPS_OF_THE_BEST: u64 = 1 << 21;
/// Limits out of reach, one after the other, that end the search.
const FAILURES: u32 = 24;

fn run(problem: &Problem, of: &VirtualStages, seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let mut orders = vec![orders::by_number(problem)];
    for other in [orders::depth_first(problem), orders::least_crossing(problem)] {
        if !orders.contains(&other) {
            orders.push(other);
        }
    }
    let paid_ns = loads::paid_ns(problem);
    let floor_ns = floor_ns(problem, of);
    let effort = |steps: u64| Effort {
        seed,
        steps,
        failures: FAILURES,
        floor_ns,
    };
    let mut best: Option<(search::Worth, Assignment)> = None;
    for order in &orders {
        for start in fill::filled(problem, of, order) {
            let loads = Loads::new(problem, of, &paid_ns, start);
            let mut search = ExchangeSearch::new(problem, loads, order, seed, must_stop)?;
            let found = search.improve(effort(STEPS_OF_A_START));
            if best.as_ref().is_none_or(|best| found.0 < best.0) {
                best = Some(found);
            }
            if must_stop() {
                break;
            }
        }
    }
    let (_, best) = best?;
    let found = improve(problem, of, best, effort(STEPS_OF_THE_BEST), must_stop);
    super::if_feasible(problem, found)
}

/// How long a search from a plan may take.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Seed of what is drawn.
    pub seed: u64,
    /// Steps: some nanoseconds each.
    pub steps: u64,
    /// Limits out of reach, one after the other.
    pub failures: u32,
    /// No plan is shorter.
    pub floor_ns: u64,
}

/// The best plan that a search of so many steps from this one finds.
pub(crate) fn improve(
    problem: &Problem,
    of: &VirtualStages,
    plan: Assignment,
    effort: Effort,
    must_stop: MustStop<'_>,
) -> Assignment {
    let paid_ns = loads::paid_ns(problem);
    let [order, _] = orders::within_stages(problem, &plan);
    let loads = Loads::new(problem, of, &paid_ns, plan.clone());
    match ExchangeSearch::new(problem, loads, &order, effort.seed, must_stop) {
        Some(mut search) => search.improve(effort).1,
        None => plan,
    }
}

/// No plan is shorter.
fn floor_ns(problem: &Problem, of: &VirtualStages) -> u64 {
    let largest = problem.items.iter().map(|item| item.work_ns()).max().unwrap_or(0);
    problem.work_ns().div_ceil(of.devices as u64).max(largest)
}
