//! PyTorch's automatic split: `split_into_equal_size` of PiPPy, from which `torch.distributed.pipelining` came; it takes the policy as its
//! `split_policy`.
//!
//! Source: pytorch/PiPPy, pippy/ModelSplit.py. A stage is filled in the order of the traced graph until the next operator's parameters
//! would exceed the q-th part of all; it then ends behind the last operator before that has parameters. Operators
//! larger than that part end a stage of their own if nothing is filled yet. Where less than q stages come out, PiPPy stops with an
//! error, and so does this. Bytes of parameters stand for their number, which includes buffers.

use super::frameworks::{cut_list, keep_passes_together, weights};
use super::{Effort, Heuristic, Run};
use crate::model::words::Words;
use crate::problem::Problem;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "pytorch-equal-size",
    summary: "stages filled in turn with the q-th part of all parameters",
    source: "PyTorch: `split_into_equal_size` of PiPPy, pippy/ModelSplit.py, a split policy of torch.distributed.pipelining",
    exact_for: "the period of chains of equal layers that divide evenly, without communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(applies, |problem, _, _| {
        cut_list(problem, &split(&sizes(problem), problem.stages())?)
    }),
};

fn sizes(problem: &Problem) -> Vec<u64> {
    weights(problem, |item| item.parameter_bytes)
}

fn applies(problem: &Problem) -> Result<(), Words> {
    keep_passes_together(problem)?;
    match split(&sizes(problem), problem.stages()) {
        Some(_) => Ok(()),
        None => Err("it fills stages by their parameters, and these do not fill so many stages".into()),
    }
}

/// Ends of the stages, or `None` where there are too few.
pub fn split(sizes: &[u64], stages: usize) -> Option<Vec<usize>> {
    let threshold = sizes.iter().sum::<u64>() / stages as u64;
    let mut ends = Vec::new();
    let mut filled = 0;
    // Where the last operator with parameters ends.
    let mut last_end = 0;
    for (position, &size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
        if filled + size <= threshold {
            filled += size;
        } else if filled == 0 {
            ends.push(position + 1);
        } else {
            ends.push(last_end);
            filled = size;
        }
        last_end = position + 1;
    }
    // A stage that would begin behind all operators is none.
    ends.truncate(stages - 1);
    ends.retain(|&end| end < sizes.len());
    ends.push(sizes.len());
    (ends.len() == stages).then_some(ends)
}
