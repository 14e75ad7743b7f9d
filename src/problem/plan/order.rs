//! An order of operations as a plan says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::fault::Fault;
use crate::model::schedule::Order;

/// What devices do, one operation after the other.
///
/// Two stages on two devices, two micro-batches: `["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanOrder {
    /// A line a device, as `stagecut schedule --format csv` writes it: stage from 0, `F` for its forward and `B` for its backward pass, or `I` and
    /// `W` for the gradients of its input and its weights, and micro-batch from 0.
    pub devices: Vec<String>,
    /// The part of every backward pass that is gradients of weights, where that was asked for in place of what layers say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_share: Option<f64>,
    /// Time of an iteration in ms.
    pub iteration_ms: f64,
}

impl PlanOrder {
    /// The order as a plan says it.
    #[doc(hidden)]
    pub fn new(order: &Order, weight_share: Option<f64>, iteration_ms: f64) -> Self {
        Self {
            devices: order.to_torch_csv().lines().map(str::to_owned).collect(),
            weight_share,
            iteration_ms,
        }
    }

    /// The operations of every device.
    ///
    /// # Errors
    ///
    /// Cells that are no operations, with line and column.
    #[doc(hidden)]
    pub fn read(&self) -> Result<Order, Vec<Fault>> {
        Order::from_torch_csv(&self.devices.join("\n"))
    }
}
