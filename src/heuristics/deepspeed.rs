//! DeepSpeed: `PipelineModule` cuts a list of modules by their number (`uniform`) or by a weight (`parameters`, its default, and `type:`,
//! which counts the modules of a class).
//!
//! Source: J. Rasley et al., *DeepSpeed*, KDD 2020; `partition_uniform` and `partition_balanced` of deepspeed/runtime/utils.py,
//! `_partition_layers` of deepspeed/runtime/pipe/module.py. Since 2023 `partition_balanced` is a dynamic program for the *spread*, the
//! largest part less the smallest, where it used to search for the smallest bottleneck. It keeps one prefix for each number of parts, the
//! one of least spread, although another may have the better rest: so its answer need not have the least spread either. We keep its
//! recurrence and its ties. Bytes of parameters stand for their number.

use super::frameworks::{block_of, cut_list, keep_passes_together, stack_size, weights};
use super::{Effort, Heuristic, MustStop, Run, orders};
use crate::model::words::Words;
use crate::problem::{Assignment, Problem};

/// Equally many modules.
pub(crate) const UNIFORM: Heuristic = Heuristic {
    name: "deepspeed-uniform",
    summary: "equally many layers a stage; the remainder on the first stages",
    source: "DeepSpeed, J. Rasley et al., KDD 2020: `partition_uniform` of deepspeed/runtime/utils.py",
    exact_for: "the period of chains of equal layers without communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(keep_passes_together, |problem, _, _| {
        cut_list(problem, &uniform(problem.items.len(), problem.stages()))
    }),
};

/// Balanced parameters.
pub(crate) const PARAMETERS: Heuristic = Heuristic {
    name: "deepspeed-parameters",
    summary: "parts of the list of layers whose parameters differ little, by DeepSpeed's dynamic program",
    source: "DeepSpeed, J. Rasley et al., KDD 2020: `partition_balanced` of deepspeed/runtime/utils.py, by `parameters`",
    exact_for: "the period of chains whose layers take times in proportion to parameters that divide evenly, without \
                communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(keep_passes_together, |problem, _, must_stop| {
        let bytes = weights(problem, |item| item.parameter_bytes);
        cut_list(problem, &balanced(&bytes, problem.stages(), must_stop)?)
    }),
};

/// Balanced numbers of blocks.
pub(crate) const TYPE: Heuristic = Heuristic {
    name: "deepspeed-type",
    summary: "parts of the list of layers whose numbers of blocks differ little, by DeepSpeed's dynamic program",
    source: "DeepSpeed, J. Rasley et al., KDD 2020: `partition_balanced` of deepspeed/runtime/utils.py, by `type:` of the blocks",
    exact_for: "the period of stacks of equal blocks alone that divide evenly, without communication and memory limit",
    effort: Effort::Baseline,
    run: Run::Homogeneous(
        |problem| {
            keep_passes_together(problem)?;
            stack_size(problem).map(|_| ()).map_err(Words::from)
        },
        by_type,
    ),
};

/// A block counts where it begins, since its other layers are inside of one module.
fn by_type(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let mut seen = vec![false; stack_size(problem).ok()?];
    let begins: Vec<u64> = orders::by_number(problem)
        .into_iter()
        .map(|item| match block_of(problem, item) {
            Some(block) => u64::from(!std::mem::replace(&mut seen[block], true)),
            None => 0,
        })
        .collect();
    // Modules: what follows the beginning of a block up to the next one belongs to it, if it has a number.
    let mut modules: Vec<(u64, usize)> = Vec::new();
    for (position, item) in orders::by_number(problem).into_iter().enumerate() {
        match (block_of(problem, item), begins[position], modules.last_mut()) {
            (Some(_), 0, Some(module)) => module.1 = position + 1,
            (_, weight, _) => modules.push((weight, position + 1)),
        }
    }
    let counted: Vec<u64> = modules.iter().map(|module| module.0).collect();
    let parts = balanced(&counted, problem.stages(), must_stop)?;
    let ends: Vec<usize> = parts
        .iter()
        .map(|&part| part.checked_sub(1).map_or(0, |last| modules[last].1))
        .collect();
    cut_list(problem, &ends)
}

/// Ends of the parts of a list of so many modules: the first ones of the remainder are one longer.
pub fn uniform(modules: usize, parts: usize) -> Vec<usize> {
    if modules <= parts {
        return (1..=parts).map(|part| part.min(modules)).collect();
    }
    let (each, left) = (modules / parts, modules % parts);
    (1..=parts).map(|part| part * each + part.min(left)).collect()
}

/// Ends of the parts that DeepSpeed's dynamic program finds, none of them empty if there are enough modules. `None` when it must stop.
///
/// Time O(n² q) for n modules and q parts.
pub fn balanced(weights: &[u64], parts: usize, must_stop: MustStop<'_>) -> Option<Vec<usize>> {
    let n = weights.len();
    if n <= parts {
        return Some(uniform(n, parts));
    }
    let mut before = vec![0; n + 1];
    for (position, weight) in weights.iter().enumerate() {
        before[position + 1] = before[position] + weight;
    }
    // best[j][i]: the largest and smallest part, and where the last begins, of the prefix of i modules in j parts.
    let mut best: Vec<Vec<Option<Prefix>>> = vec![vec![None; n + 1]; parts + 1];
    best[0][0] = Some(Prefix {
        largest: 0,
        smallest: u64::MAX,
        start: 0,
    });
    for j in 1..=parts {
        for i in j..=n {
            if must_stop() {
                return None;
            }
            let mut found: Option<Prefix> = None;
            for start in j - 1..i {
                let Some(prefix) = best[j - 1][start] else {
                    continue;
                };
                let part = before[i] - before[start];
                let longer = Prefix {
                    largest: prefix.largest.max(part),
                    smallest: prefix.smallest.min(part),
                    start,
                };
                if found.is_none_or(|found| longer.spread() <= found.spread()) {
                    found = Some(longer);
                }
            }
            best[j][i] = found;
        }
    }
    let mut ends = vec![n];
    for j in (2..=parts).rev() {
        ends.push(best[j][ends[ends.len() - 1]]?.start);
    }
    ends.reverse();
    Some(ends)
}

/// A prefix of the list in so many parts.
#[derive(Clone, Copy)]
struct Prefix {
    largest: u64,
    smallest: u64,
    start: usize,
}

impl Prefix {
    fn spread(self) -> u64 {
        self.largest - self.smallest
    }
}
