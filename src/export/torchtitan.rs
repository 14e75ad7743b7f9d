//! torchtitan: `module_fqns_per_model_part`, the names of the modules of every stage.
//!
//! Source: torchtitan/distributed/pipeline_parallel.py, `generate_llm_fqn_per_model_part`. Its models name their parts alike:
//! `tok_embeddings`, `layers.0` and so on, `norm` and `output`; so the network must be a stack of blocks, of whatever names.

use super::devices::{Environment, RankDevices};
use super::framework::{Stages, is_memory_limited, no_empty_stage, one_a_device, unsupported};
use super::megatron_modes::{again, recomputed};
use super::{Exported, Ordered, stack};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::Stack;
use crate::model::options::{Optimizer, Region, StatePrecision, UnlikeStates};
use crate::model::precision::Precision;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;
use crate::schedule::Placement;

/// Writes the lines of the job's configuration.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::Torchtitan)?;
    let ranks = RankDevices::of_stages(instance, plan)?;
    lines(instance, plan, (plan.stages.len(), ranks), &[])
}

/// The same with the file of an order. torchtitan lays stages in a loop, or in a V where the schedule that it is told besides is one
/// of those (`pipeline_module_split`); the file replaces that schedule (`build_pipeline_schedule`).
pub(super) fn write_ordered(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Exported {
    no_empty_stage(plan)?;
    let is_even = ordered.ranks.len().is_multiple_of(ordered.devices());
    let schedule = match ordered.placement().filter(|_| is_even) {
        Some(Placement::Loop) if ordered.ranks.len() == ordered.devices() => "1F1B",
        Some(Placement::Loop) => "Interleaved1F1B",
        Some(Placement::V) if ordered.ranks.len() == 2 * ordered.devices() => "ZBVZeroBubble",
        Some(Placement::V) | None => {
            return Err(unsupported(
                "the order".into(),
                "stages that lie neither in a loop nor, two a device, in a V",
                words!(
                    "one of these, which is how torchtitan lays them; {} takes any",
                    setting::TO.given("torch")
                ),
            ));
        }
    };
    // Names of files are text of TOML as they are of JSON.
    let file = serde_json::Value::from(ordered.name.as_str());
    let settings = [
        format!("pipeline_parallel_schedule = \"{schedule}\"  # how stages lie; the file says the order"),
        format!("pipeline_parallel_schedule_csv = {file}"),
        format!(
            "# training.local_batch_size / pipeline_parallel_microbatch_size must be {}.",
            ordered.micro_batches
        ),
    ];
    let ranks = RankDevices::of_lines(instance, plan, ordered)?;
    lines(instance, plan, (ordered.devices(), ranks), &settings)
}

fn lines(
    instance: &Instance,
    plan: &Plan,
    (devices, ranks): (usize, RankDevices),
    settings: &[String],
) -> Exported {
    let stages = Stages::for_region(instance, plan, Region::Torchtitan)?;
    stages.hold_no_copies(instance)?;
    let expected = "one stack of transformer blocks, which is what torchtitan's models are";
    let stack = stack::find(instance, &stages, expected)?;
    let counts = stack::blocks_a_stage(instance, &stages, &stack)?;
    let [_, after] = stack::ends(instance, &stages, &stack)?;
    if let Some(&layer) = instance.network.predictors(after).0.values().flatten().next() {
        let at = format!("layer `{}`", instance.network.layers[layer].id);
        let expected = "a network without it: torchtitan's models have none";
        return Err(unsupported(at, "multi-token prediction", expected));
    }
    let ranks = ranks.no_cpu("torchtitan")?;
    let mut lines = vec!["# Later versions call the head `lm_head` instead of `output`.".to_owned()];
    lines.extend(ranks.environment()?.iter().flat_map(Environment::comment));
    lines.extend(states(instance, plan)?);
    lines.extend(recomputation(instance, plan, &stack)?);
    lines.extend([
        "[parallelism]".to_owned(),
        format!("pipeline_parallel_degree = {devices}"),
    ]);
    if ranks.gpus()? > 1 {
        lines.push(format!("tensor_parallel_degree = {}", ranks.gpus()?));
    }
    lines.extend_from_slice(settings);
    lines.push("module_fqns_per_model_part = [".to_owned());
    let mut begin = 0;
    for (stage, count) in counts.iter().enumerate() {
        let mut names: Vec<String> = (begin..begin + count)
            .map(|block| format!("\"layers.{block}\""))
            .collect();
        begin += count;
        if stage == 0 {
            names.insert(0, "\"tok_embeddings\"".to_owned());
        }
        if stage == stages.count - 1 {
            names.extend(["\"norm\"".to_owned(), "\"output\"".to_owned()]);
        }
        lines.push(format!("    [{}],", names.join(", ")));
    }
    lines.push("]\n".to_owned());
    Ok(lines.join("\n"))
}

/// What makes torchtitan compute its blocks again: all of them or none (torchtitan/distributed/activation_checkpoint.py). Its `selective`
/// picks operators, or every so many blocks of the model, which is no choice of a plan.
fn recomputation(instance: &Instance, plan: &Plan, stack: &Stack) -> Result<Vec<String>, Fault> {
    let stages = again(instance, plan, &stack.blocks)?;
    let recomputed: usize = plan.stages.iter().map(recomputed).sum();
    match recomputed {
        0 => Ok(Vec::new()),
        _ if stages.iter().all(|stage| stage.are_all("full")) => {
            Ok(vec!["[activation_checkpoint]".into(), "mode = \"full\"".into()])
        }
        _ => Err(unsupported(
            "the plan".into(),
            format!("{recomputed} layers that are computed again"),
            words!(
                "whole blocks, all of them or none, as with {} or `none`; {} takes all",
                setting::RECOMPUTE.given("full"),
                setting::TO.given("json")
            ),
        )),
    }
}

/// What makes torchtitan keep of every parameter what the plan's memory counts. It trains with Adam alone (`OptimizersContainer`), and
/// has weights, gradients and states in single precision unless `training.dtype` says otherwise.
fn states(instance: &Instance, plan: &Plan) -> Result<Vec<String>, Fault> {
    if !is_memory_limited(instance, plan) {
        return Ok(Vec::new());
    }
    let precision = plan.problem.precision.unwrap_or(StatePrecision::Uniform);
    let optimizer = plan.problem.optimizer.unwrap_or(Optimizer::Adam);
    let network = instance.network.precision;
    let [found, expected] = match Region::Torchtitan
        .limits()
        .states
        .unlike(optimizer, precision, network)
    {
        None if precision == StatePrecision::Uniform && network == Some(Precision::Bf16) => {
            return Ok(vec!["[training]".into(), "dtype = \"bfloat16\"".into()]);
        }
        None => return Ok(Vec::new()),
        Some(UnlikeStates::Optimizer(optimizer)) => [
            words!("memory for {}", setting::OPTIMIZER.given(optimizer)),
            words!(
                "{}, which is what torchtitan trains with: solve again with it",
                setting::OPTIMIZER.given("adam")
            ),
        ],
        Some(UnlikeStates::Precision(half)) => [
            words!(
                "memory for gradients and optimiser states in {}, as {} counts them",
                half.to_string(),
                setting::PRECISION.given("uniform")
            ),
            words!(
                "{} or `bf16-mixed`: torchtitan trains in bf16 or fp32; solve again with one of them",
                setting::PRECISION.given("fp32")
            ),
        ],
    };
    Err(unsupported("the plan".into(), found, expected))
}
