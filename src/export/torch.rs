//! PyTorch: a program that captures the model with torch.export, as the profiler does, and cuts it at the plan's stages.

use super::devices::RankDevices;
use super::framework::{ONE_A_DEVICE, Stages, no_empty_stage, one_a_device};
use super::template::{Planned, fill};
use super::{Exported, Ordered};
use crate::model::instance::Instance;
use crate::problem::plan::Plan;

/// The line of the program that the part which runs it takes the place of.
const RUN: &str = "# --- Here stands templates/torch_run.py ---\n";

/// Writes the program.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, ONE_A_DEVICE)?;
    Stages::of(instance, plan)?;
    let ranks = RankDevices::of_stages(instance, plan)?.one_gpu_each("this program")?;
    Ok(fill(&program(), &Planned::of(plan).on(ranks)?))
}

/// Writes the program with an order, which it hands to `_PipelineScheduleRuntime` of torch.distributed.pipelining.
pub(super) fn write_ordered(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Exported {
    no_empty_stage(plan)?;
    Stages::of(instance, plan)?;
    let ranks = RankDevices::of_lines(instance, plan, ordered)?.one_gpu_each("this program")?;
    Ok(fill(&program(), &Planned::in_order(plan, ordered).on(ranks)?))
}

fn program() -> String {
    include_str!("templates/torch.py").replace(RUN, include_str!("templates/torch_run.py"))
}
