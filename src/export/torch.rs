//! PyTorch: a program that captures the model with torch.export, as the profiler does, and cuts it at the plan's stages.

use super::Exported;
use super::framework::Stages;
use super::template::{Planned, fill};
use crate::instance::Instance;
use crate::plan::Plan;

/// Writes the program.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    Stages::of(instance, plan)?;
    Ok(fill(include_str!("templates/torch.py"), &Planned::of(plan)))
}
