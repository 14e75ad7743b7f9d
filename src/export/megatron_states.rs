//! Megatron's flags for what training keeps of every parameter (Megatron-LM, megatron/training/arguments.py): its precision, the
//! optimiser, and whether replicas share out its state.

use super::framework::{is_memory_limited, unsupported};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::options::{Mode, Optimizer, OptimizerSharding, StatePrecision};
use crate::model::precision::Precision;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// The flags that make Megatron keep what the plan's memory counts; empty for inference.
pub(super) fn flags(instance: &Instance, plan: &Plan) -> Result<String, Fault> {
    let problem = &plan.problem;
    if problem.mode == Some(Mode::Inference) {
        return Ok(String::new());
    }
    let mut flags = match (problem.precision, instance.network.precision) {
        (Some(StatePrecision::Bf16Mixed), _) => " --bf16".to_owned(),
        (Some(StatePrecision::Fp16Mixed), _) => " --fp16".to_owned(),
        (None | Some(StatePrecision::Uniform), Some(half @ (Precision::Bf16 | Precision::Fp16)))
            if is_memory_limited(instance, plan) =>
        {
            return Err(unsupported(
                "the plan".into(),
                words!(
                    "memory for gradients and optimiser states in {}, as {} counts them",
                    half.to_string(),
                    setting::PRECISION.given("uniform")
                ),
                words!(
                    "{}, which is what Megatron keeps in training: solve again with it",
                    setting::PRECISION.given(format!("{half}-mixed"))
                ),
            ));
        }
        _ => String::new(),
    };
    flags += match problem.optimizer {
        Some(Optimizer::Sgd) => " --optimizer sgd --sgd-momentum 0",
        Some(Optimizer::Momentum) => " --optimizer sgd",
        Some(Optimizer::Adam) | None => "",
    };
    let has_replicas = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.mode)
        .any(|mode| mode.replicas > 1);
    if problem.optimizer_sharding == Some(OptimizerSharding::Zero1) && has_replicas {
        flags += " --use-distributed-optimizer";
    }
    Ok(flags)
}
