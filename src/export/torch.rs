//! PyTorch: a program that captures the model with torch.export, as the profiler does, and cuts it at the plan's stages.

use super::devices::RankDevices;
use super::framework::{Stages, no_empty_stage, one_a_device};
use super::template::{Planned, fill};
use super::{Exported, Ordered};
use crate::model::instance::Instance;
use crate::model::options::Region;
use crate::problem::plan::Plan;

/// The line of the program that the part which runs it takes the place of.
const RUN: &str = "# --- Here stands templates/torch_run.py ---\n";

/// That of the part which captures a model and groups its operators, as the profiler does.
const CAPTURE: &str = "# --- Here stands the shared part of tools/profile_torch.py ---\n";

/// Around that part in the profiler.
const SHARED: [&str; 2] = [
    "# --- Begin of the part that the programs of `stagecut export --to torch` share ---\n",
    "# --- End of the shared part ---\n",
];

/// Writes the program.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::Torch)?;
    Stages::for_region(instance, plan, Region::Torch)?;
    let ranks = RankDevices::of_stages(instance, plan)?.one_gpu_each("this program")?;
    Ok(fill(&program(), &Planned::new(plan).with_ranks(ranks)?))
}

/// Writes the program with an order, which it hands to `_PipelineScheduleRuntime` of torch.distributed.pipelining.
pub(super) fn write_ordered(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Exported {
    no_empty_stage(plan)?;
    Stages::for_region(instance, plan, Region::Torch)?;
    let ranks = RankDevices::of_lines(instance, plan, ordered)?.one_gpu_each("this program")?;
    Ok(fill(
        &program(),
        &Planned::in_order(plan, ordered).with_ranks(ranks)?,
    ))
}

fn program() -> String {
    let (_, from) = include_str!("../../tools/profile_torch.py")
        .split_once(SHARED[0])
        .unwrap_or_default();
    let (shared, _) = from.split_once(SHARED[1]).unwrap_or_default();
    include_str!("templates/torch.py")
        .replace(CAPTURE, shared)
        .replace(RUN, include_str!("templates/torch_run.py"))
}
