//! torchgpipe: `balance_by_time` and `balance_by_size`, block partitions of a list of layers.
//!
//! Source: C. Kim et al., *torchgpipe: On-the-fly pipeline parallelism for training giant models*, 2020; torchgpipe/balance. It is the
//! algorithm of `block_partition`, but on what each layer has beyond the smallest one, from other initial
//! blocks, and with the first of the smallest blocks instead of the nearest. Where that one would take from an empty block, which
//! makes torchgpipe's blocks overlap, we take the nearest. Its sums are floating-point numbers, ours whole.
//!
//! By size it weighs bytes that the GPU's allocator counts for a micro-batch and, twice, those of the parameters; for the former stand what a
//! layer keeps for its backward pass. By time it measures both passes.

use super::block_partition::{Nearest, balance};
use super::frameworks::{cut_list, keep_passes_together, weights};
use super::{Effort, Heuristic, MustStop, Run};
use crate::problem::Item;

/// By time.
pub(crate) const TIME: Heuristic = Heuristic {
    name: "torchgpipe-time",
    summary: "blocks of consecutive layers whose work beyond the smallest layer's differs by at most the largest layer",
    source: "torchgpipe, C. Kim et al., 2020: `balance_by_time` of torchgpipe/balance",
    exact_for: "the period of chains of equal layers that divide evenly, without communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(keep_passes_together, |problem, _, must_stop| {
        cut_list(
            problem,
            &solve(&weights(problem, Item::work_ns), problem.stages(), must_stop)?,
        )
    }),
};

/// By size.
pub(crate) const SIZE: Heuristic = Heuristic {
    name: "torchgpipe-size",
    summary: "the same with bytes of parameters, twice, and of stashes for the work",
    source: "torchgpipe, C. Kim et al., 2020: `balance_by_size` of torchgpipe/balance",
    exact_for: "the period of chains of equal layers that divide evenly, without communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(keep_passes_together, |problem, _, must_stop| {
        let bytes = weights(problem, |item| item.stash_bytes + 2 * item.parameter_bytes);
        cut_list(problem, &solve(&bytes, problem.stages(), must_stop)?)
    }),
};

/// Ends of the blocks of torchgpipe's `blockpartition.solve`. `None` when it must stop, or where there are more blocks than elements,
/// which torchgpipe refuses.
pub fn solve(sequence: &[u64], blocks: usize, must_stop: MustStop<'_>) -> Option<Vec<usize>> {
    let n = sequence.len();
    let smallest = sequence.iter().copied().min()?;
    if n < blocks {
        return None;
    }
    let beyond: Vec<u64> = sequence.iter().map(|element| element - smallest).collect();
    let mut ends: Vec<usize> = (1..=blocks).map(|block| block * (n / blocks)).collect();
    ends[blocks - 1] = n;
    balance(&beyond, ends, Nearest::IfFirstIsEmpty, must_stop)
}
