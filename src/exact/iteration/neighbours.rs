//! Better plans where no proof is near: the best that cut an order of the items, for one order after the other.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::options::Alike;
use super::relaxation::Relaxation;
use super::search::PlanSearch;
use crate::exact::incumbent::Incumbent;
use crate::heuristics::orders;
use crate::problem::{Assignment, Problem};
use crate::search::ideals::Ideals;

/// Partial plans that are looked at for an order.
const MOST_NODES: u64 = 5_000;

/// So many orders around the best plan that lead to none better end the search.
const MOST_ORDERS: u32 = 100;

/// Searches plans that cut the usual orders, then such as keep the stages of the best plan one after the other and are drawn within.
///
/// A stage of such an order begins with items that could lie in the stage before and ends with some that could lie in the next, so many
/// items change places at once.
pub(super) fn improve(incumbent: &mut Incumbent) {
    let problem = incumbent.problem;
    for order in orders::handful(problem, 0, incumbent.control.seed) {
        cut(incumbent, &order);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(incumbent.control.seed);
    let mut in_vain = 0;
    while in_vain < MOST_ORDERS && !incumbent.is_over() && incumbent.control.must_stop().is_none() {
        let Some(plan) = &incumbent.plan else {
            return;
        };
        let order = drawn(problem, &plan.assignment, &mut rng);
        in_vain = match cut(incumbent, &order) {
            true => 0,
            false => in_vain + 1,
        };
    }
}

/// The stages of a plan one after the other, the items of each in an order that is drawn.
fn drawn(problem: &Problem, plan: &Assignment, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let priority: Vec<u64> = plan
        .iter()
        .map(|&stage| (stage as u64) << 32 | u64::from(rng.next_u32()))
        .collect();
    orders::by_priority(problem, &priority)
}

/// Looks for a better plan that cuts an order; whether there is one.
fn cut(incumbent: &mut Incumbent, order: &[usize]) -> bool {
    let control = incumbent.control.elsewhere();
    let mut copy = incumbent.under(&control);
    let options = Alike(incumbent.problem);
    let Ok(relaxation) = Relaxation::over(Ideals::along(order), &options, &copy) else {
        return false;
    };
    PlanSearch::new(relaxation, Arc::new(options), &copy).run(&mut copy, MOST_NODES);
    let nodes = copy.statistics.nodes;
    // What this says of bounds holds for the order alone.
    let is_better = copy.upper_ns < incumbent.upper_ns;
    let plan = copy.plan.filter(|_| is_better);
    incumbent.statistics.nodes = nodes;
    plan.is_some_and(|plan| incumbent.offer(plan))
}
