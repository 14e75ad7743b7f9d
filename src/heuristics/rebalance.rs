//! Rebalancing: two stages at a time share out the items that may lie in either, so that one of them is as busy as it may be.
//!
//! Where many items have no order and no transfers that matter, the best plan is nearly an even partition of numbers, and moves of one item
//! come no nearer to it than the smallest item. Of two stages, some twenty items that may lie in either have a million ways to be shared
//! out. From stage to stage, one is filled up to a goal as exactly as any of these ways can, and what is too much goes to the next.
//!
//! **Example.** Stages of items of 5, 4 and 3 ms, and of 6, 2 and 2 ms, with a goal of 11 ms: no single item may change its stage without one
//! exceeding the goal, but 5, 4 and 2 ms make 11 ms, and 3, 6 and 2 ms make 11 ms.
//!
//! The sum that comes nearest to a goal is found from the sorted sums of either half of the items, as in E. Horowitz, S. Sahni, *Computing
//! partitions with applications to the knapsack problem*, Journal of the ACM 21(2), 1974. Filling stages one after the other is ours.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::MustStop;
use crate::model::options::Communication;
use crate::problem::cost;
use crate::problem::{Assignment, Problem};

/// Items that are shared out at a time, at most: half of them have two thousand sums, which takes a millisecond. Not measured.
const MOST_ITEMS: usize = 22;

/// Below so many, there is nothing to choose.
const LEAST_ITEMS: usize = 2;

/// Ways to fill a stage that are looked at closely, the fullest first. Not measured.
const MOST_WAYS: usize = 16;

/// Orders in which stages are filled; and where a plan comes near the goal, by its last digits: then another order may meet it. Not
/// measured.
const ROUNDS: [usize; 2] = [24, 400];

/// One part in so many of a goal is near.
const NEAR: u64 = 10_000;

/// The best of a feasible plan and what rebalancing makes of it, for the period. The same for the same seed, unless it must stop.
///
/// * `goal_ns`: no plan has a shorter period.
///
/// # Complexity
///
/// O(q 2^(m/2)) a round for q stages and m items that are shared out, beside the costs of some plans a stage.
pub fn rebalance(
    problem: &Problem,
    plan: &Assignment,
    goal_ns: u64,
    seed: u64,
    must_stop: MustStop<'_>,
) -> Assignment {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut best = plan.clone();
    let mut best_ns = cost::assignment_ns(problem, &best);
    for round in 0..ROUNDS[1] {
        let is_near = best_ns.saturating_sub(goal_ns) <= goal_ns / NEAR;
        if best_ns <= goal_ns || (round >= ROUNDS[0] && !is_near) || must_stop() {
            break;
        }
        let mut order: Vec<usize> = (0..problem.stages()).collect();
        order.shuffle(&mut rng);
        let mut filled = best.clone();
        for pair in order.windows(2) {
            let two = Two::new(problem, &filled, [pair[0], pair[1]], &mut rng);
            if let Some(better) = two.fill(goal_ns) {
                filled = better;
            }
        }
        let filled_ns = cost::assignment_ns(problem, &filled);
        if filled_ns < best_ns && cost::is_feasible(problem, &filled) {
            (best, best_ns) = (filled, filled_ns);
        }
    }
    best
}

/// Two stages of a plan.
struct Two<'a> {
    problem: &'a Problem,
    plan: &'a Assignment,
    stages: [usize; 2],
    /// Items that may lie in either, whatever others of them do.
    free: Vec<usize>,
    /// Load of the first stage without them, in ns.
    base_ns: u64,
    /// Load of both stages, in ns.
    both_ns: u64,
}

impl<'a> Two<'a> {
    fn new(problem: &'a Problem, plan: &'a Assignment, stages: [usize; 2], rng: &mut ChaCha8Rng) -> Self {
        let mut items: Vec<usize> = (0..plan.len())
            .filter(|&item| stages.contains(&plan[item]))
            .collect();
        items.shuffle(rng);
        let mut is_free = vec![false; plan.len()];
        let mut free = Vec::new();
        for item in items {
            if free.len() < MOST_ITEMS && may_lie_in_either(problem, plan, stages, &is_free, item) {
                is_free[item] = true;
                free.push(item);
            }
        }
        let costs = cost::stage_costs(problem, plan);
        let [first_ns, second_ns] = stages.map(|stage| costs[stage].load_ns());
        let in_first = free.iter().filter(|&&item| plan[item] == stages[0]);
        let moved_ns: u64 = in_first.map(|&item| problem.items[item].work_ns()).sum();
        Self {
            problem,
            plan,
            stages,
            base_ns: first_ns - moved_ns,
            both_ns: first_ns + second_ns,
            free,
        }
    }

    /// The plan with the first stage as full as it may be, if there is a way that memory holds.
    fn fill(&self, goal_ns: u64) -> Option<Assignment> {
        let room_ns = goal_ns.checked_sub(self.base_ns)?;
        if self.free.len() < LEAST_ITEMS || self.both_ns <= goal_ns {
            return None;
        }
        let ways = fullest(&self.works_ns(), room_ns);
        let plans = ways.into_iter().map(|way| {
            let mut plan = self.plan.clone();
            for (at, &item) in self.free.iter().enumerate() {
                plan[item] = self.stages[usize::from(way >> at & 1 == 0)];
            }
            plan
        });
        plans
            .into_iter()
            .find(|plan| cost::is_feasible(self.problem, plan))
    }

    fn works_ns(&self) -> Vec<u64> {
        self.free
            .iter()
            .map(|&item| self.problem.items[item].work_ns())
            .collect()
    }
}

/// Whether an item can lie in either of two stages, whatever those that are free do: the order allows it, and no transfer adds to a load.
fn may_lie_in_either(
    problem: &Problem,
    plan: &Assignment,
    stages: [usize; 2],
    is_free: &[bool],
    item: usize,
) -> bool {
    let [early, late] = [stages[0].min(stages[1]), stages[0].max(stages[1])];
    let is_blocking = problem.settings.communication == Communication::Blocking;
    let node = (item as u32).into();
    let mut before = problem.order.neighbors_directed(node, petgraph::Incoming);
    let mut after = problem.order.neighbors_directed(node, petgraph::Outgoing);
    problem.items[item].work_ns() > 0
        && (!is_blocking || problem.transfers_of[item].is_empty())
        && before.all(|other| plan[other.index()] <= early && !is_free[other.index()])
        && after.all(|other| plan[other.index()] >= late && !is_free[other.index()])
}

/// Sets of numbers, as bits, whose sum is at most `room`: those with the largest sums, the largest first, and of each sum only one.
fn fullest(numbers: &[u64], room: u64) -> Vec<u32> {
    let half = numbers.len() / 2;
    let low = sums(&numbers[..half]);
    let high = sums(&numbers[half..]);
    // The largest partner within the room, for each sum of one half.
    let mut left = high.len();
    let mut ways: Vec<(u64, u32)> = Vec::with_capacity(low.len());
    for &(sum, set) in &low {
        while left > 0 && sum + high[left - 1].0 > room {
            left -= 1;
        }
        let Some(&(other, its)) = left.checked_sub(1).map(|at| &high[at]) else {
            break;
        };
        ways.push((sum + other, set | its << half));
    }
    ways.sort_unstable_by(|one, other| other.cmp(one));
    ways.dedup_by_key(|way| way.0);
    ways.into_iter().take(MOST_WAYS).map(|(_, set)| set).collect()
}

/// The sums of all sets of some numbers, ascending, with the sets as bits.
fn sums(numbers: &[u64]) -> Vec<(u64, u32)> {
    let mut sums = vec![(0, 0)];
    for (at, &number) in numbers.iter().enumerate() {
        let with = sums.iter().map(|&(sum, set)| (sum + number, set | 1 << at));
        sums.extend(with.collect::<Vec<_>>());
        // Two runs that ascend, which a stable sort merges.
        sums.sort();
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn fullest_sets_equal_brute_force() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..2_000 {
            let numbers: Vec<u64> = (0..rng.random_range(1..=9))
                .map(|_| rng.random_range(1..=30))
                .collect();
            let room = rng.random_range(0..=150);
            let sum_of = |set: u32| -> u64 {
                let chosen = numbers.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
                chosen.map(|(_, &number)| number).sum()
            };
            let all = 0..1_u32 << numbers.len();
            let best = all.map(sum_of).filter(|&sum| sum <= room).max();
            let ways = fullest(&numbers, room);
            assert_eq!(ways.first().map(|&set| sum_of(set)), best);
            assert!(ways.iter().all(|&set| sum_of(set) <= room));
        }
    }
}
