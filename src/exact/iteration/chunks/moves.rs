//! Better plans by moves, each measured by a run.

use petgraph::Direction::{Incoming, Outgoing};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fit;
use super::options::{ChunkOptions, least_ns};
use crate::exact::incumbent::Incumbent;
use crate::problem::control::Control;
use crate::problem::{Assignment, Problem};

/// A plan may be as long as the one so many moves before.
const MEMORY: usize = 400;

/// So many moves for each chunk without a better plan end a round, and so many rounds that find none end the search.
const MOVES_IN_VAIN: usize = 400;
const ROUNDS_IN_VAIN: u32 = 4;

/// Moves items from the best plan on until a few rounds in a row find nothing better, or the control says so.
///
/// * `turn`: another draws other moves from the same plan.
///
/// Late acceptance (E. Burke and Y. Bykov, *The late acceptance hill-climbing heuristic*, European Journal of Operational Research 258, 2017).
pub(super) fn improve(incumbent: &mut Incumbent, options: &dyn ChunkOptions, control: &Control, turn: u64) {
    let mut copy = incumbent.under(control);
    let mut rng = ChaCha8Rng::seed_from_u64(control.seed.wrapping_add(turn));
    if !copy.has_plan() {
        fit::offer_fitting(&mut copy, options, &mut rng);
    }
    let mut in_vain = 0;
    while in_vain < ROUNDS_IN_VAIN && !copy.is_over() && control.must_stop().is_none() {
        in_vain = match round(&mut copy, options, &mut rng) {
            true => 0,
            false => in_vain + 1,
        };
    }
    let found = copy.plan.filter(|_| copy.upper_ns < incumbent.upper_ns);
    if let Some(plan) = found {
        incumbent.offer(plan);
    }
}

/// A round of moves from the best plan on; whether it found a better one.
fn round(incumbent: &mut Incumbent, options: &dyn ChunkOptions, rng: &mut ChaCha8Rng) -> bool {
    let problem = options.row();
    let Some(plan) = &incumbent.plan else {
        return false;
    };
    let (mut plan, mut now_ns) = (plan.assignment.clone(), incumbent.upper_ns);
    let before_ns = now_ns;
    let mut late = [now_ns; MEMORY];
    let most = MOVES_IN_VAIN * problem.stages();
    let (mut at, mut idle) = (0, 0);
    while idle < most && !incumbent.is_over() && incumbent.control.must_stop().is_none() {
        at = (at + 1) % MEMORY;
        idle += 1;
        let mut other = plan.clone();
        for _ in 0..[1, 1, 2, 3][rng.random_range(0..4)] {
            shift(problem, &mut other, rng);
        }
        let is_taken = |ns: u64| ns <= now_ns || ns < late[at];
        // Most are not, which a part of the time that plans are measured in says.
        let found = match other != plan && is_taken(least_ns(options, &other)) {
            true => options.plan(other.clone()),
            false => None,
        };
        let measured = found.and_then(|found| Some((incumbent.measure(&found)?, found)));
        if let Some((other_ns, found)) = measured {
            if other_ns < incumbent.upper_ns {
                incumbent.offer(found);
                idle = 0;
            }
            if is_taken(other_ns) {
                (plan, now_ns) = (other, other_ns);
            }
        }
        late[at] = late[at].min(now_ns);
    }
    incumbent.upper_ns < before_ns
}

/// Moves items over neighbouring cuts, one over each, all the same way: one chunk gives an item, another takes one, and those between keep as many.
pub(super) fn shift(problem: &Problem, plan: &mut Assignment, rng: &mut ChaCha8Rng) {
    let chunks = problem.stages();
    let (from, to) = (rng.random_range(0..chunks), rng.random_range(0..chunks));
    // Half of the time next to each other, where most is won.
    let to = match rng.random_bool(0.5) {
        true => to,
        false => [from.saturating_sub(1), (from + 1).min(chunks - 1)][rng.random_range(0..2)],
    };
    let mut chunk = from;
    while chunk != to {
        let next = if chunk < to { chunk + 1 } else { chunk - 1 };
        let Some(item) = outermost(problem, plan, [chunk, next], rng) else {
            return;
        };
        plan[item] = next;
        chunk = next;
    }
}

/// Some item of a chunk that may lie in the chunk beside it.
fn outermost(
    problem: &Problem,
    plan: &Assignment,
    [chunk, next]: [usize; 2],
    rng: &mut ChaCha8Rng,
) -> Option<usize> {
    let direction = if next > chunk { Outgoing } else { Incoming };
    let may_leave = |&item: &usize| {
        let mut beside = problem.order.neighbors_directed((item as u32).into(), direction);
        plan[item] == chunk && !beside.any(|other| plan[other.index()] == chunk)
    };
    let all: Vec<usize> = (0..plan.len()).filter(may_leave).collect();
    (!all.is_empty()).then(|| all[rng.random_range(0..all.len())])
}
