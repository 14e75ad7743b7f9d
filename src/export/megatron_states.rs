//! Megatron's flags for what training keeps of every parameter (Megatron-LM, megatron/training/arguments.py): its precision, the
//! optimiser, and whether replicas share out its state.

use super::framework::{is_memory_limited, unsupported};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::options::{Mode, Optimizer, OptimizerSharding, Region, StatePrecision, UnlikeStates};
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// The flags that make Megatron keep what the plan's memory counts; empty for inference.
pub(super) fn flags(instance: &Instance, plan: &Plan) -> Result<String, Fault> {
    let problem = &plan.problem;
    if problem.mode == Some(Mode::Inference) {
        return Ok(String::new());
    }
    let precision = problem.precision.unwrap_or(StatePrecision::Uniform);
    let optimizer = problem.optimizer.unwrap_or(Optimizer::Adam);
    let kept = Region::Megatron.limits().states;
    let unlike = kept.unlike(optimizer, precision, instance.network.precision);
    if let Some(UnlikeStates::Precision(half)) = unlike.filter(|_| is_memory_limited(instance, plan)) {
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
    let mut flags = match precision {
        StatePrecision::Bf16Mixed => " --bf16".to_owned(),
        StatePrecision::Fp16Mixed => " --fp16".to_owned(),
        StatePrecision::Uniform | StatePrecision::Fp32 => String::new(),
    };
    flags += match optimizer {
        Optimizer::Sgd => " --optimizer sgd --sgd-momentum 0",
        Optimizer::Momentum => " --optimizer sgd",
        Optimizer::Adam => "",
    };
    let has_replicas = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.mode)
        .any(|mode| mode.replicas * mode.context > 1);
    let sharding = problem.optimizer_sharding.filter(|_| has_replicas);
    match sharding.unwrap_or(OptimizerSharding::None) {
        OptimizerSharding::None => Ok(flags),
        OptimizerSharding::Zero1 => Ok(flags + " --use-distributed-optimizer"),
        more @ (OptimizerSharding::Zero2 | OptimizerSharding::Zero3) => Err(unsupported(
            "the plan".into(),
            words!("{}", setting::OPTIMIZER_SHARDING.given(more)),
            words!(
                "{}, which is what its distributed optimiser shares out: solve again with it",
                setting::OPTIMIZER_SHARDING.given("zero1")
            ),
        )),
    }
}
