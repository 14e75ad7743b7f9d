//! Greedy chunks: every chunk takes what its device's share of the rounds so far allows, for the least period at which all is taken;
//! then cuts move.

use super::chunk_moves::{Cuts, improve};
use super::{Effort, Heuristic, MustStop, Run, orders};
use crate::cost;
use crate::problem::{Assignment, Problem};
use crate::virtual_stages::VirtualStages;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "chunk-greedy",
    summary: "chunks filled in turn up to their device's share of a period, the least period by bisection, then moves of cuts",
    source: "ours",
    exact_for: "nothing in particular",
    effort: Effort::Quick,
    run: Run::Chunks(run),
};

/// Periods that are tried for each number of rounds: halving a range so often leaves nothing of it.
const PERIODS: u32 = 40;

fn run(problem: &Problem, of: &VirtualStages, seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let mut orders = vec![orders::by_number(problem)];
    for other in [orders::depth_first(problem), orders::least_crossing(problem)] {
        if !orders.contains(&other) {
            orders.push(other);
        }
    }
    let mut best: Option<(u64, Assignment)> = None;
    for order in orders {
        for cuts in filled(problem, of, order) {
            if must_stop() && best.is_some() {
                break;
            }
            let assignment = improve(problem, of, cuts, seed, must_stop).assignment();
            let period_ns = cost::assignment_ns(problem, &assignment);
            let is_better = best.as_ref().is_none_or(|(known, _)| period_ns < *known);
            if is_better && cost::is_feasible(problem, &assignment) {
                best = Some((period_ns, assignment));
            }
        }
    }
    best.map(|(_, assignment)| assignment)
}

/// Fillings of an order: the best with all rounds, and, where chunks may be empty, with fewer, as chunks cost transfers.
fn filled(problem: &Problem, of: &VirtualStages, order: Vec<usize>) -> Vec<Cuts> {
    let most = of.chunks() / of.devices;
    let least = if problem.settings.all_stages { most } else { 1 };
    let rounds = [most, most.div_ceil(2), 1]
        .into_iter()
        .filter(|&rounds| rounds >= least);
    let mut rounds: Vec<usize> = rounds.collect();
    rounds.dedup();
    let least = |rounds: usize| -> Option<Cuts> {
        let (mut short_ns, mut long_ns) = (0, problem.work_ns());
        let mut best = fill(problem, of, &order, (long_ns, rounds));
        for _ in 0..PERIODS {
            let middle_ns = short_ns + (long_ns - short_ns) / 2;
            match fill(problem, of, &order, (middle_ns, rounds)) {
                Some(cuts) => (long_ns, best) = (middle_ns, Some(cuts)),
                None => short_ns = middle_ns,
            }
        }
        best
    };
    rounds.into_iter().filter_map(least).collect()
}

/// Chunks of the first rounds, each with as much work as its device may have had by then; `None` where some items are left.
fn fill(
    problem: &Problem,
    of: &VirtualStages,
    order: &[usize],
    (period_ns, rounds): (u64, usize),
) -> Option<Cuts> {
    let (n, chunks) = (order.len(), of.chunks());
    let mut work_ns = vec![0; of.devices];
    let mut cuts = vec![0; chunks + 1];
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
            next += 1;
        }
        cuts[chunk + 1] = next;
    }
    (next == n).then(|| Cuts {
        order: order.to_vec(),
        cuts,
    })
}
