//! Rules of frameworks that count the blocks of a stack: what Megatron-LM, torchtitan, vLLM and SGLang do unless told otherwise.
//!
//! They differ in where the remainder goes and in what the embedding and the head count for. None looks at a time. Each is undefined
//! for networks that are no stack of numbered blocks, and refuses them; where a framework stops with an error, so does its rule.

use super::frameworks::{cut_stack, keep_passes_together, stack_size};
use super::{Heuristic, MustStop, Run, baseline};
use crate::model::words::Words;
use crate::problem::cost;
use crate::problem::{Assignment, Problem};

/// How many blocks each stage takes, for numbers of blocks and stages, or why the framework refuses.
type Rule = fn(usize, usize) -> Result<Vec<usize>, &'static str>;

/// A rule as what a heuristic runs: functions that hold no rule can be told none, so that each rule has two of its own.
macro_rules! counted {
    ($rule:ident) => {
        Run::Homogeneous(
            |problem| applies(problem, $rule),
            |problem, _, _| plan(problem, $rule),
        )
    };
}

/// vLLM's even split: the remainder goes to the stages before the last.
pub(crate) const VLLM: Heuristic = baseline(
    [
        "vllm-even",
        "equally many blocks a stage; the remainder on the stages before the last",
    ],
    "vLLM, W. Kwon et al., SOSP 2023: `get_pp_indices` of vllm/distributed/utils.py",
    BLOCKS_ALONE,
    counted!(vllm),
);

/// SGLang's even split: the remainder goes to the last stages.
pub(crate) const SGLANG: Heuristic = baseline(
    [
        "sglang-even",
        "equally many blocks a stage; the remainder on the last stages",
    ],
    "SGLang, L. Zheng et al., NeurIPS 2024: `get_pp_indices` of python/sglang/srt/distributed/utils.py",
    BLOCKS_ALONE,
    counted!(sglang),
);

/// Megatron-LM's default.
pub(crate) const MEGATRON: Heuristic = baseline(
    ["megatron-even", "equally many blocks a stage, without remainder"],
    "Megatron-LM, D. Narayanan et al., SC 2021: `get_num_layers_to_build` of megatron/core/transformer/transformer_block.py",
    BLOCKS_ALONE,
    counted!(megatron_even),
);

/// Megatron-LM told to count embedding and loss.
pub(crate) const MEGATRON_COUNTED: Heuristic = baseline(
    [
        "megatron-counted",
        "equally many blocks a stage, where embedding and loss count for one each",
    ],
    "Megatron-LM: `--account-for-embedding-in-pipeline-split` and `--account-for-loss-in-pipeline-split`",
    ENDS_LIKE_BLOCKS,
    counted!(megatron_counted),
);

/// Megatron-LM told how many blocks the first and the last stage take, as well as can be.
pub(crate) const MEGATRON_ENDS: Heuristic = baseline(
    [
        "megatron-ends",
        "equally many blocks on all stages but the first and the last, and on these the numbers of the best plan",
    ],
    "Megatron-LM: `--decoder-first-pipeline-num-layers` and `--decoder-last-pipeline-num-layers`; trying all numbers is ours",
    "the period of stacks of equal blocks alone that divide evenly, without communication and memory limit",
    Run::Homogeneous(
        |problem| {
            keep_passes_together(problem)?;
            stack_size(problem).map(|_| ()).map_err(Words::from)
        },
        best_ends,
    ),
);

/// torchtitan's default.
pub(crate) const TORCHTITAN: Heuristic = baseline(
    [
        "torchtitan",
        "equally many blocks a stage, where embedding and head count for one each; the remainder on the first stages",
    ],
    "torchtitan, W. Liang et al., ICLR 2025: `generate_llm_fqn_per_model_part` of torchtitan/distributed/pipeline_parallel.py",
    ENDS_LIKE_BLOCKS,
    counted!(torchtitan_default),
);

/// What the rules are exact for that count blocks alone.
const BLOCKS_ALONE: &str =
    "the period of stacks of equal blocks alone, without communication and memory limit";
/// What those are exact for that count embedding and head as well.
const ENDS_LIKE_BLOCKS: &str = "the period of stacks whose embedding and head each take as long as a block, without communication and \
                                memory limit";

fn counts(problem: &Problem, rule: Rule) -> Result<Vec<usize>, Words> {
    keep_passes_together(problem)?;
    Ok(rule(stack_size(problem)?, problem.stages())?)
}

fn applies(problem: &Problem, rule: Rule) -> Result<(), Words> {
    counts(problem, rule).map(|_| ())
}

fn plan(problem: &Problem, rule: Rule) -> Option<Assignment> {
    cut_stack(problem, &counts(problem, rule).ok()?)
}

/// vLLM's blocks a stage: one more for each of as many stages before the last as there are blocks left.
pub fn vllm(blocks: usize, stages: usize) -> Result<Vec<usize>, &'static str> {
    let mut counts = vec![blocks / stages; stages];
    counts
        .iter_mut()
        .rev()
        .skip(1)
        .take(blocks % stages)
        .for_each(|count| *count += 1);
    Ok(counts)
}

/// SGLang's blocks a stage: one more for each of as many last stages as there are blocks left.
pub fn sglang(blocks: usize, stages: usize) -> Result<Vec<usize>, &'static str> {
    let mut counts = vec![blocks / stages; stages];
    counts
        .iter_mut()
        .rev()
        .take(blocks % stages)
        .for_each(|count| *count += 1);
    Ok(counts)
}

/// What Megatron-LM may be told of the ends of the pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Blocks of the first stage.
    pub first: Option<usize>,
    /// Blocks of the last stage.
    pub last: Option<usize>,
    /// Whether the embedding counts for a block.
    pub embedding: bool,
    /// Whether the loss counts for a block.
    pub loss: bool,
}

/// Megatron-LM's blocks a stage.
///
/// # Errors
///
/// What Megatron-LM asserts: that blocks divide evenly, and that ends are told one way.
pub fn megatron(blocks: usize, stages: usize, ends: Ends) -> Result<Vec<usize>, &'static str> {
    const UNEVEN: &str = "Megatron-LM asks that the blocks divide evenly among the stages";
    let told = ends.first.is_some() || ends.last.is_some();
    if told && (ends.embedding || ends.loss) {
        return Err("Megatron-LM does not count embedding and loss where it is told the blocks of an end");
    }
    let counted = blocks + usize::from(ends.embedding) + usize::from(ends.loss);
    let at_ends = ends.first.unwrap_or(0) + ends.last.unwrap_or(0);
    let left = counted.checked_sub(at_ends).ok_or(UNEVEN)?;
    let told_stages = usize::from(ends.first.is_some()) + usize::from(ends.last.is_some());
    let others = stages.checked_sub(told_stages).ok_or(UNEVEN)?;
    let each = match others {
        0 if left == 0 => 0,
        0 => return Err(UNEVEN),
        _ if left % others > 0 => return Err(UNEVEN),
        _ => left / others,
    };
    let mut counts = vec![each; stages];
    counts[0] = ends.first.unwrap_or(each);
    counts[stages - 1] = ends.last.unwrap_or(counts[stages - 1]);
    for (stage, counts_one) in [(0, ends.embedding), (stages - 1, ends.loss)] {
        let without = counts[stage].checked_sub(usize::from(counts_one));
        counts[stage] = without.ok_or("Megatron-LM asks for enough blocks at both ends")?;
    }
    Ok(counts)
}

fn megatron_even(blocks: usize, stages: usize) -> Result<Vec<usize>, &'static str> {
    megatron(blocks, stages, Ends::default())
}

fn megatron_counted(blocks: usize, stages: usize) -> Result<Vec<usize>, &'static str> {
    let ends = Ends {
        embedding: true,
        loss: true,
        ..Ends::default()
    };
    megatron(blocks, stages, ends)
}

/// The best plan that the two flags can say: Megatron-LM leaves the numbers, from 1 on, to its user. The best one so far when it must
/// stop. Time O(b²) plans of b blocks at most; where middle stages are many, far less, since these divide evenly.
fn best_ends(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let blocks = stack_size(problem).ok()?;
    if problem.stages() == 1 {
        return cut_stack(problem, &[blocks]);
    }
    let mut best: Option<(u64, Assignment)> = None;
    let numbers = (1..=blocks).flat_map(|first| (1..=blocks - first).map(move |last| (first, last)));
    for (first, last) in numbers {
        if must_stop() {
            break;
        }
        let ends = Ends {
            first: Some(first),
            last: Some(last),
            ..Ends::default()
        };
        let plan = megatron(blocks, problem.stages(), ends)
            .ok()
            .and_then(|counts| cut_stack(problem, &counts));
        if let Some(plan) = plan {
            let objective_ns = cost::assignment_ns(problem, &plan);
            if best.as_ref().is_none_or(|(least_ns, _)| objective_ns < *least_ns) {
                best = Some((objective_ns, plan));
            }
        }
    }
    best.map(|(_, plan)| plan)
}

/// torchtitan's blocks a stage, where what stands before and behind them counts for so many.
///
/// # Errors
///
/// What torchtitan raises: more stages than there is to count, or a first or last stage whose share is less than what must lie there.
pub fn torchtitan(blocks: usize, stages: usize, weights: [usize; 2]) -> Result<Vec<usize>, &'static str> {
    let [input, output] = weights;
    if stages == 1 {
        return Ok(vec![blocks]);
    }
    let counted = blocks + input + output;
    let each = counted / stages;
    if each == 0 {
        return Err("torchtitan asks for a block, the embedding or the head on every stage");
    }
    if input > each || output > each {
        return Err("torchtitan asks that embedding and head count for no more than a stage's share");
    }
    let mut counts: Vec<usize> = (0..stages)
        .map(|stage| each + usize::from(stage < counted % stages))
        .collect();
    counts[0] -= input;
    counts[stages - 1] -= output;
    Ok(counts)
}

fn torchtitan_default(blocks: usize, stages: usize) -> Result<Vec<usize>, &'static str> {
    torchtitan(blocks, stages, [1, 1])
}
