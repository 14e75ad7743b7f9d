//! torchtitan: `module_fqns_per_model_part`, the names of the modules of every stage.
//!
//! Source: torchtitan/distributed/pipeline_parallel.py, `generate_llm_fqn_per_model_part`. Its models name their parts alike:
//! `tok_embeddings`, `layers.0` and so on, `norm` and `output`; so the network must be a stack of blocks, of whatever names.

use super::framework::{ONE_A_DEVICE, Stages, no_empty_stage, one_a_device, unsupported};
use super::{Exported, Ordered, stack};
use crate::instance::Instance;
use crate::options::Mode;
use crate::plan::Plan;
use crate::schedules::Placement;

/// Writes the lines of the job's configuration.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, ONE_A_DEVICE)?;
    lines(instance, plan, plan.stages.len(), &[])
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
                "one of these, which is how torchtitan lays them; `--to torch` takes any",
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
    lines(instance, plan, ordered.devices(), &settings)
}

fn lines(instance: &Instance, plan: &Plan, devices: usize, settings: &[String]) -> Exported {
    let stages = Stages::of(instance, plan)?;
    if plan.problem.mode == Some(Mode::Inference) {
        return Err(unsupported(
            "the plan".into(),
            "a plan for inference",
            "one for `--mode training`, which is what torchtitan does",
        ));
    }
    let expected = "one stack of transformer blocks, which is what torchtitan's models are";
    let stack = stack::find(instance, &stages, expected)?;
    let counts = stack::blocks_a_stage(instance, &stages, &stack)?;
    let mut lines = vec![
        "# Later versions call the head `lm_head` instead of `output`.".to_owned(),
        "[parallelism]".to_owned(),
        format!("pipeline_parallel_degree = {devices}"),
    ];
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
