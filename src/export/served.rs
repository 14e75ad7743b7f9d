//! vLLM and SGLang: an environment variable that says how many hidden layers each stage of a served model takes.
//!
//! Sources: `get_pp_indices` of vllm/distributed/utils.py and of python/sglang/srt/distributed/utils.py. Both build the model
//! themselves, with the embedding on the first stage and the head on the last. They serve and do not train.

use super::framework::{ONE_A_DEVICE, Stages, one_a_device, unsupported};
use super::{Exported, stack};
use crate::instance::Instance;
use crate::options::Mode;
use crate::plan::Plan;

/// For vLLM.
pub(super) fn vllm(instance: &Instance, plan: &Plan) -> Exported {
    partition(instance, plan, "vLLM").map(|(counts, stages)| {
        format!("export VLLM_PP_LAYER_PARTITION={counts}  # with --pipeline-parallel-size {stages}\n")
    })
}

/// For SGLang.
pub(super) fn sglang(instance: &Instance, plan: &Plan) -> Exported {
    partition(instance, plan, "SGLang").map(|(counts, stages)| {
        format!("export SGLANG_PP_LAYER_PARTITION={counts}  # with --pp-size {stages}\n")
    })
}

/// The blocks a stage, as both write them, and the number of stages.
fn partition(instance: &Instance, plan: &Plan, server: &str) -> Result<(String, usize), crate::fault::Fault> {
    one_a_device(plan, ONE_A_DEVICE)?;
    let stages = Stages::of(instance, plan)?;
    if plan.problem.mode != Some(Mode::Inference) {
        let expected = format!("one for `--mode inference`, which is all that {server} runs");
        return Err(unsupported("the plan".into(), "a plan for training", expected));
    }
    let expected = format!("one stack of transformer blocks, which is what {server} cuts");
    let stack = stack::find(instance, &stages, &expected)?;
    let counts = stack::blocks_a_stage(instance, &stages, &stack)?;
    if let Some(empty) = counts.iter().position(|&count| count == 0) {
        let expected = format!("a block on every stage; whether {server} runs one without is untested");
        return Err(unsupported(format!("stage {}", empty + 1), "no block", expected));
    }
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    Ok((counts.join(","), stages.count))
}
