//! ONNX: a program that writes one file a stage with onnx's extractor, between the tensors that cross the boundaries.

use super::Exported;
use super::framework::{Stages, one_a_device};
use super::template::{Planned, fill};
use crate::model::instance::Instance;
use crate::model::options::Region;
use crate::problem::plan::Plan;

/// Writes the program.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::Onnx)?;
    Stages::for_region(instance, plan, Region::Onnx)?;
    Ok(fill(include_str!("templates/onnx.py"), &Planned::new(plan)))
}
