//! Moves of cuts between chunks: neighbouring cuts go the same way together, so that a chunk takes from another far away while those
//! between them keep their sizes.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::MustStop;
use crate::cost::virtual_stages::{chunk_bytes, device_costs};
use crate::problem::{Assignment, Problem};
use crate::virtual_stages::VirtualStages;

/// An order that is cut into chunks.
#[derive(Clone, Debug)]
pub(super) struct Cuts {
    /// Items, in a topological order.
    pub order: Vec<usize>,
    /// Where each chunk begins, and the number of items.
    pub cuts: Vec<usize>,
}

impl Cuts {
    pub(super) fn assignment(&self) -> Assignment {
        let mut assignment = vec![0; self.order.len()];
        for (chunk, ends) in self.cuts.windows(2).enumerate() {
            self.order[ends[0]..ends[1]]
                .iter()
                .for_each(|&item| assignment[item] = chunk);
        }
        assignment
    }
}

/// Items, transfers and chunks that are looked at in all: about a second.
const MOST_WORK: usize = 100_000_000;
/// Times that cuts are moved at random once no move helps, and how many of them.
const SHAKES: usize = 40;
const SHAKEN: usize = 3;

/// What a plan is judged by, the less the better: bytes beyond memory, the busiest device, and how uneven devices are.
type Worth = (u64, u64, u128);

fn worth(problem: &Problem, of: &VirtualStages, cuts: &Cuts) -> Worth {
    let assignment = cuts.assignment();
    let busy = device_costs(problem, of, &assignment);
    let busy = busy.iter().map(|cost| cost.bottleneck_ns());
    let uneven = busy.clone().map(|ns| u128::from(ns) * u128::from(ns)).sum();
    let limit = problem.settings.memory_limit.unwrap_or(u64::MAX);
    let over = match problem.memory_never_binds() {
        true => 0,
        false => {
            let bytes = chunk_bytes(problem, of, &assignment);
            let held = |chunks: &Vec<usize>| chunks.iter().map(|&chunk| bytes[chunk]).sum::<u64>();
            let over = of
                .chunks_of
                .iter()
                .map(|chunks| held(chunks).saturating_sub(limit));
            over.sum()
        }
    };
    (over, busy.max().unwrap_or(0), uneven)
}

/// The best plan that moves of cuts lead to: the best move at a time until none helps, then again from a few cuts moved at random.
pub(super) fn improve(
    problem: &Problem,
    of: &VirtualStages,
    cuts: Cuts,
    seed: u64,
    must_stop: MustStop<'_>,
) -> Cuts {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let each = problem.items.len() + problem.transfers.len() + of.chunks();
    let mut search = Moves {
        problem,
        of,
        left: MOST_WORK / each.max(1),
        must_stop,
    };
    let mut best = search.descend(cuts);
    for _ in 0..SHAKES {
        if search.is_over() {
            break;
        }
        let mut shaken = best.1.clone();
        for _ in 0..SHAKEN {
            let first = rng.random_range(1..of.chunks());
            let last = rng.random_range(first..of.chunks());
            let ahead = rng.random_bool(0.5);
            if let Some(moved) = search.moved(&shaken, (first, last), ahead) {
                shaken = moved;
            }
        }
        let found = search.descend(shaken);
        if found.0 < best.0 {
            best = found;
        }
    }
    best.1
}

struct Moves<'a> {
    problem: &'a Problem,
    of: &'a VirtualStages,
    /// Plans that may still be looked at.
    left: usize,
    must_stop: MustStop<'a>,
}

impl Moves<'_> {
    fn is_over(&self) -> bool {
        self.left == 0 || (self.must_stop)()
    }

    fn descend(&mut self, cuts: Cuts) -> (Worth, Cuts) {
        let mut best = (worth(self.problem, self.of, &cuts), cuts);
        loop {
            let from = best.1.clone();
            let before = best.0;
            for first in 1..self.of.chunks() {
                for last in first..self.of.chunks() {
                    self.try_both_ways(&from, (first, last), &mut best);
                }
                if self.is_over() {
                    return best;
                }
            }
            if best.0 == before {
                return best;
            }
        }
    }

    fn try_both_ways(&mut self, from: &Cuts, range: (usize, usize), best: &mut (Worth, Cuts)) {
        for ahead in [false, true] {
            let Some(moved) = self.moved(from, range, ahead).filter(|_| self.left > 0) else {
                continue;
            };
            self.left -= 1;
            let found = worth(self.problem, self.of, &moved);
            if found < best.0 {
                *best = (found, moved);
            }
        }
    }

    /// Moves some neighbouring cuts by an item, if that leaves them in order, and chunks with an item where all must have one.
    fn moved(&self, from: &Cuts, (first, last): (usize, usize), ahead: bool) -> Option<Cuts> {
        let room = usize::from(self.problem.settings.all_stages);
        let cuts = &from.cuts;
        let fits = match ahead {
            true => cuts[last] + room < cuts[last + 1],
            false => cuts[first - 1] + room < cuts[first],
        };
        fits.then(|| {
            let mut moved = from.clone();
            for cut in &mut moved.cuts[first..=last] {
                *cut = if ahead { *cut + 1 } else { *cut - 1 };
            }
            moved
        })
    }
}
