//! Block partition of a sequence: blocks whose sums differ by no more than the largest element.
//!
//! Source: I. Bárány, V. Grinberg, *Block partitions of sequences*, Israel Journal of Mathematics 206, 2015, whose
//! algorithm torchgpipe uses to balance layers for GPipe: C. Kim et al., *torchgpipe: On-the-fly pipeline parallelism for
//! training giant models*, 2020; Y. Huang et al., *GPipe*, NeurIPS 2019. torchgpipe first subtracts the smallest element
//! from all; we keep to the paper, whose bound holds for the sums themselves.

use super::{Effort, Heuristic, MustStop, Run, along, if_feasible, orders};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "gpipe-blocks",
    summary: "blocks of consecutive layers whose work differs by at most the largest layer",
    source: "GPipe, Y. Huang et al., NeurIPS 2019, as in torchgpipe, C. Kim et al., 2020; \
             I. Bárány, V. Grinberg, Block partitions of sequences, 2015",
    exact_for: "the period of chains of equal layers without communication and memory limit; \
                on other such chains within one layer of the optimum",
    effort: Effort::Quick,
    run: Run::Homogeneous(|_| Ok(()), run),
};

fn run(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let order = orders::by_number(problem);
    let work: Vec<u64> = order.iter().map(|&item| problem.items[item].work_ns()).collect();
    let ends = blocks(&work, problem.stages().min(work.len()), must_stop)?;
    let stages: Vec<usize> = (0..order.len())
        .map(|position| ends.partition_point(|&end| end <= position))
        .collect();
    if_feasible(problem, along(problem, &order, &stages))
}

/// Ends of k blocks of a sequence, such that no two sums differ by more than the largest element. Some blocks may be empty. `None`
/// when it must stop. Time O(k n³), far less in practice.
pub(crate) fn blocks(sequence: &[u64], k: usize, must_stop: MustStop<'_>) -> Option<Vec<usize>> {
    let ends = (1..=k).map(|block| block * sequence.len() / k).collect();
    balance(sequence, ends, Nearest::Always, must_stop)
}

/// Of equally small blocks, which one grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearest {
    /// The one nearest to the largest block, so that the one it takes from is not empty.
    Always,
    /// The first, but the nearest where the first would take from an empty one.
    IfFirstIsEmpty,
}

/// The same from initial blocks: moves elements one by one towards a smallest block from the neighbour on the side of a largest one.
pub(super) fn balance(
    sequence: &[u64],
    mut ends: Vec<usize>,
    nearest: Nearest,
    must_stop: MustStop<'_>,
) -> Option<Vec<usize>> {
    let k = ends.len();
    let largest = sequence.iter().copied().max().unwrap_or(0);
    let mut start = 0;
    let mut sums: Vec<u64> = ends
        .iter()
        .map(|&end| sequence[std::mem::replace(&mut start, end)..end].iter().sum())
        .collect();
    // Outer: a largest block p. Inner: until p itself gives an element away, or all is balanced.
    while let Some(p) = (0..k).max_by_key(|&block| sums[block]) {
        loop {
            if must_stop() {
                return None;
            }
            let Some(q) = growing(&sums, &ends, p, nearest) else {
                return Some(ends);
            };
            if sums[p] <= sums[q] + largest {
                return Some(ends);
            }
            let (giver, moved) = if p < q {
                ends[q - 1] -= 1;
                (q - 1, sequence[ends[q - 1]])
            } else {
                ends[q] += 1;
                (q + 1, sequence[ends[q] - 1])
            };
            sums[giver] -= moved;
            sums[q] += moved;
            if giver == p {
                break;
            }
        }
    }
    Some(ends)
}

/// The smallest block that grows towards the largest one.
fn growing(sums: &[u64], ends: &[usize], p: usize, nearest: Nearest) -> Option<usize> {
    let first = (0..sums.len()).min_by_key(|&block| sums[block])?;
    let gives_nothing = first < p && ends[first] == ends[first + 1];
    match nearest {
        Nearest::IfFirstIsEmpty if !gives_nothing => Some(first),
        Nearest::IfFirstIsEmpty | Nearest::Always => {
            (0..sums.len()).min_by_key(|&block| (sums[block], block.abs_diff(p)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_differ_by_at_most_the_largest_element() {
        let mut sequence: Vec<u64> = (0..60).map(|i| (i * i * 7 + 3 * i) % 23).collect();
        sequence[40] = 200;
        for k in 1..=9 {
            let ends = blocks(&sequence, k, &|| false).unwrap();
            let starts = [0].into_iter().chain(ends.iter().copied());
            let sums: Vec<u64> = starts
                .zip(&ends)
                .map(|(a, &b)| sequence[a..b].iter().sum())
                .collect();
            let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
            assert_eq!(ends[k - 1], 60);
            assert!(spread <= 200, "{k} blocks: {sums:?}");
        }
    }
}
