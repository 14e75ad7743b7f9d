//! Frontiers: separate forward and backward cuts of a chain, compute only, exactly and in polynomial time.
//!
//! Transfers cost nothing and memory never binds, so a stage of the forward passes from `f` to `f'` and the backward passes
//! from `b` to `b'` has the load `F(f, f') + B(b, b')`. Ask whether `k` stages can take the first `f` forward and the first
//! `b` backward passes, each within a period `T`. If they can, they can take fewer of either: move every cut beyond them
//! back, and no load grows. So the pairs that `k` stages can take are known by their frontier, the most backward passes that
//! go with each number of forward ones:
//!
//! ```math
//! R_k(f') = \max_{f \le f',\; F(f, f') \le T} \max \{ b' : B(R_{k-1}(f), b') \le T - F(f, f') \}
//! ```
//!
//! with `R_0(0) = 0`. Only the largest `b = R_{k-1}(f)` need be tried, for the backward passes left over from a smaller one
//! are more. `T` is a period of some plan if `R_q(n) = m`. That holds for all larger periods too, and every load is a whole
//! number of nanoseconds, so bisection over whole numbers ends at the optimum itself.
//!
//! Source: the probe and bisection are those of chains-on-chains partitioning (A. Pınar, C. Aykanat, *Fast optimal load
//! balancing algorithms for 1D partitioning*, JPDC 64, 2004); the frontier over two chains is ours.

use super::two_chains::{NotCovered, TwoChains};
use stagecut::problem::{Assignment, Problem};

/// A best plan and its period in ns.
///
/// # Errors
///
/// [`NotCovered`]: workers that differ, no two chains, transfers, memory that may bind, iterations.
///
/// # Complexity
///
/// Time O(q n² log m log W) and space O(q n) for n forward and m backward passes, q stages and W ns of work in all.
pub fn solve(problem: &Problem) -> Result<(Assignment, u64), NotCovered> {
    let chains = TwoChains::of(problem)?;
    if !problem.transfers.is_empty() {
        return Err(NotCovered::Transfers);
    }
    if !problem.memory_never_binds() {
        return Err(NotCovered::Memory);
    }
    if !problem.formula().is_bottleneck() {
        return Err(NotCovered::Iteration);
    }
    let work = Work {
        forward: prefix_sums(problem, &chains.forward),
        backward: prefix_sums(problem, &chains.backward),
        stages: problem.stages(),
    };
    // One stage can do everything in the highest of these periods, and q stages nothing in less than the lowest.
    let (mut least, mut most) = (problem.work_ns().div_ceil(work.stages as u64), problem.work_ns());
    while least < most {
        let period = least + (most - least) / 2;
        match work.cuts_within(period) {
            Some(_) => most = period,
            None => least = period + 1,
        }
    }
    let mut cuts = work.cuts_within(most).unwrap_or_default();
    // Stages without passes.
    cuts.dedup();
    cuts.retain(|cut| *cut != [0, 0]);
    if problem.settings.all_stages {
        add_cuts(&mut cuts, work.stages);
    }
    Ok((chains.assignment(&cuts), most))
}

/// Work of the first so many passes of a chain, in ns.
fn prefix_sums(problem: &Problem, chain: &[usize]) -> Vec<u64> {
    let mut sums = vec![0];
    for &item in chain {
        sums.push(sums[sums.len() - 1] + problem.items[item].work_ns());
    }
    sums
}

/// Work of both chains up to each of their passes, in ns.
struct Work {
    forward: Vec<u64>,
    backward: Vec<u64>,
    stages: usize,
}

impl Work {
    /// Cuts of a plan whose every stage is at most so busy, the last after everything; stages may be empty.
    fn cuts_within(&self, period: u64) -> Option<Vec<[usize; 2]>> {
        let all = [self.forward.len() - 1, self.backward.len() - 1];
        // frontiers[k][f]: the most backward passes that k stages can take with the first f forward ones.
        let mut frontiers = vec![vec![None; all[0] + 1]];
        frontiers[0][0] = Some(0);
        for k in 0..self.stages {
            let last = &frontiers[k];
            let next = (0..=all[0]).map(|to| {
                let from = self.first_within(to, period);
                let most = |from| Some(self.most_backward(last[from]?, period - self.forward_ns(from, to)));
                (from..=to).filter_map(most).max()
            });
            frontiers.push(next.collect());
        }
        let mut cuts = vec![all];
        if frontiers[self.stages][all[0]] != Some(all[1]) {
            return None;
        }
        // Backwards, along any way there; the frontier says that there is one.
        for last in frontiers[1..self.stages].iter().rev() {
            let [to, backward] = cuts[cuts.len() - 1];
            let before = |from: usize| {
                let cut = [from, backward.min(last[from]?)];
                let load_ns = self.forward_ns(from, to) + self.backward[backward] - self.backward[cut[1]];
                (load_ns <= period).then_some(cut)
            };
            cuts.push((0..=to).find_map(before)?);
        }
        cuts.reverse();
        Some(cuts)
    }

    fn forward_ns(&self, from: usize, to: usize) -> u64 {
        self.forward[to] - self.forward[from]
    }

    /// The first pass from which a stage can take all forward passes up to `to`.
    fn first_within(&self, to: usize, period: u64) -> usize {
        self.forward
            .partition_point(|&sum| self.forward[to] > sum + period)
    }

    /// How far a stage gets from a backward pass on, with so many ns left.
    fn most_backward(&self, from: usize, left_ns: u64) -> usize {
        let within = |&sum: &u64| sum <= self.backward[from] + left_ns;
        self.backward.partition_point(within) - 1
    }
}

/// Cuts stages in two until there are so many: no load grows, and there are no fewer passes than stages.
fn add_cuts(cuts: &mut Vec<[usize; 2]>, stages: usize) {
    let mut stage = 0;
    while cuts.len() < stages && stage < cuts.len() {
        let [forward, backward] = stage.checked_sub(1).map_or([0, 0], |before| cuts[before]);
        let first_alone = match forward < cuts[stage][0] {
            true => [forward + 1, backward],
            false => [forward, backward + 1],
        };
        if first_alone != cuts[stage] {
            cuts.insert(stage, first_alone);
        }
        stage += 1;
    }
}
