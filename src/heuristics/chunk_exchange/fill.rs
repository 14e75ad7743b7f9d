//! Greedy chunks: every chunk takes what its device's share of the rounds so far allows, for the least period at which all is taken.

use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Periods that are tried for each number of rounds: halving a range so often leaves nothing of it.
const PERIODS: u32 = 40;

/// An order cut into chunks, with all rounds; and, where chunks may be empty, with half of them and with one, as chunks cost transfers.
pub(super) fn filled(problem: &Problem, of: &VirtualStages, order: &[usize]) -> Vec<Assignment> {
    let most = of.chunks() / of.devices;
    let least = if problem.settings.all_stages { most } else { 1 };
    let mut rounds = vec![most, most.div_ceil(2), 1];
    rounds.retain(|&rounds| rounds >= least);
    rounds.dedup();
    let best = |rounds: usize| -> Option<Assignment> {
        let (mut short_ns, mut long_ns) = (0, problem.work_ns());
        let mut best = fill(problem, of, order, (long_ns, rounds));
        for _ in 0..PERIODS {
            let middle_ns = short_ns + (long_ns - short_ns) / 2;
            match fill(problem, of, order, (middle_ns, rounds)) {
                Some(chunks) => (long_ns, best) = (middle_ns, Some(chunks)),
                None => short_ns = middle_ns,
            }
        }
        best
    };
    rounds.into_iter().filter_map(best).collect()
}

/// Chunks of the first rounds, each with as much work as its device may have had by then; `None` where some items are left.
fn fill(
    problem: &Problem,
    of: &VirtualStages,
    order: &[usize],
    (period_ns, rounds): (u64, usize),
) -> Option<Assignment> {
    let (n, chunks) = (order.len(), of.chunks());
    let mut work_ns = vec![0; of.devices];
    let mut assignment = vec![0; n];
    let mut next = 0;
    for chunk in 0..chunks {
        let device = of.device_of[chunk];
        let round = of.round_of[chunk] + 1;
        let share_ns = match round <= rounds {
            true => (u128::from(period_ns) * round as u128 / rounds as u128) as u64,
            false => 0,
        };
        let (least, most) = match problem.settings.all_stages {
            true => (next + 1, (n + 1 + chunk).checked_sub(chunks)?),
            false => (next, n),
        };
        while next < most {
            let item_ns = problem.items[order[next]].work_ns();
            let fits = round <= rounds && work_ns[device] + item_ns <= share_ns;
            if next >= least && !fits {
                break;
            }
            work_ns[device] += item_ns;
            assignment[order[next]] = chunk;
            next += 1;
        }
    }
    (next == n).then_some(assignment)
}
