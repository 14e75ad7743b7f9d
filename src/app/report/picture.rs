//! What every drawing shows of a network and its plan: who is where, and what the tooltips say.

use std::collections::HashMap;

use super::format::{Digits, bytes};
use crate::model::instance::Instance;
use crate::model::network::{Layer, Size, Tensor};
use crate::model::units::{ns_to_ms, transfer_ns};
use crate::problem::plan::{Plan, PlanStage};

/// A network seen through a plan, if there is one.
pub(super) struct Picture<'a> {
    /// The network and devices.
    pub instance: &'a Instance,
    /// The plan that colours it.
    pub plan: Option<&'a Plan>,
    /// Digits of every time.
    pub digits: Digits,
    kind: usize,
    bandwidth_bytes_per_s: f64,
    forward: HashMap<&'a str, usize>,
    backward: HashMap<&'a str, usize>,
}

impl<'a> Picture<'a> {
    /// Looks up the stages of all layers, and the device kind and link of the plan, or else of the instance.
    pub(super) fn new(instance: &'a Instance, plan: Option<&'a Plan>) -> Self {
        let options = plan.map_or(&instance.pipeline, |plan| &plan.problem);
        let kind = options
            .device_kinds
            .iter()
            .flatten()
            .find_map(|name| instance.cluster.kind(name));
        let link = instance.cluster.link.bandwidth_bytes_per_s;
        let objective = plan.and_then(|plan| plan.objective_ms);
        let stages = |layers: fn(&PlanStage) -> &Vec<String>| {
            let stages = plan.iter().flat_map(|plan| &plan.stages);
            stages
                .flat_map(|stage| layers(stage).iter().map(|id| (id.as_str(), stage.index)))
                .collect()
        };
        let mut picture = Self {
            instance,
            plan,
            digits: Digits::for_ms(0.0),
            kind: kind.unwrap_or(0),
            bandwidth_bytes_per_s: options.bandwidth_bytes_per_s.unwrap_or(link),
            forward: stages(|stage| &stage.forward),
            backward: stages(|stage| &stage.backward),
        };
        let times = instance
            .network
            .layers
            .iter()
            .map(|layer| picture.total_ms(layer).unwrap_or(0.0));
        picture.digits = Digits::for_ms(objective.unwrap_or_else(|| times.fold(0.0, f64::max)));
        picture
    }

    /// The stage of a layer, from 1: that of its forward propagation where it has one.
    pub(super) fn stage(&self, layer: &Layer) -> Option<usize> {
        let id = layer.id.as_str();
        self.forward.get(id).or(self.backward.get(id)).copied()
    }

    /// The stage of a layer's backward propagation, where that is another.
    pub(super) fn other_stage(&self, layer: &Layer) -> Option<usize> {
        let backward = self.backward.get(layer.id.as_str()).copied();
        backward.filter(|_| backward != self.stage(layer))
    }

    /// Whether a tensor goes from stage to stage.
    pub(super) fn crosses(&self, from: usize, to: usize) -> bool {
        let stage = |layer: usize| self.stage(&self.instance.network.layers[layer]);
        stage(from) != stage(to)
    }

    /// Forward and backward time of a layer in ms; `None` where the device cannot run it.
    pub(super) fn total_ms(&self, layer: &Layer) -> Option<f64> {
        layer.times[self.kind].map(|times| ns_to_ms(times.forward_ns + times.backward_ns))
    }

    /// Lines on a layer: name, operator, stage, times and sizes.
    pub(super) fn layer_tooltip(&self, layer: &Layer) -> String {
        let mut lines = vec![layer.id.clone()];
        lines.extend(layer.operator.clone());
        match (self.stage(layer), self.other_stage(layer)) {
            (Some(stage), Some(other)) => {
                lines.push(format!("forward in stage {stage}, backward in stage {other}"))
            }
            (Some(stage), None) => lines.push(format!("stage {stage}")),
            (None, _) => {}
        }
        match layer.times[self.kind] {
            Some(times) => {
                let forward = self.digits.ms(ns_to_ms(times.forward_ns));
                let backward = self.digits.ms(ns_to_ms(times.backward_ns));
                lines.push(format!("forward {forward} ms, backward {backward} ms"));
            }
            None => lines.push(format!(
                "cannot run on `{}`",
                self.instance.cluster.kinds[self.kind].name
            )),
        }
        let sizes = [
            ("parameters", layer.parameter_bytes),
            ("stash", layer.stash_bytes),
            ("resident", layer.resident_bytes),
        ];
        let held = sizes.iter().filter(|(_, size)| *size > 0);
        lines.extend(held.map(|(what, size)| format!("{what} {}", bytes(*size))));
        lines.join("\n")
    }

    /// A line on a tensor: producer, consumers, and what moving it costs.
    pub(super) fn tensor_tooltip(&self, tensor: &Tensor) -> String {
        /// More names than this hide the rest of the line.
        const MOST_NAMES: usize = 6;
        let name = |&layer: &usize| self.instance.network.layers[layer].id.as_str();
        let shown = tensor
            .consumers
            .iter()
            .take(MOST_NAMES)
            .map(name)
            .collect::<Vec<_>>();
        let more = match tensor.consumers.len() - shown.len() {
            0 => String::new(),
            more => format!(", +{more} more"),
        };
        let ms = self.digits.ms(self.tensor_ms(tensor));
        let size = match tensor.size {
            Size::TransferNs(_) => format!("{ms} ms"),
            Size::Bytes(size) => format!("{}, {ms} ms", bytes(size)),
        };
        format!("{} -> {}{more}: {size}", name(&tensor.producer), shown.join(", "))
    }

    /// What moving a tensor takes between two nodes, in ms.
    pub(super) fn tensor_ms(&self, tensor: &Tensor) -> f64 {
        ns_to_ms(match tensor.size {
            Size::TransferNs(ns) => ns,
            Size::Bytes(size) => {
                let latency_ns = self.instance.cluster.link.latency_ns;
                transfer_ns(size, self.bandwidth_bytes_per_s, latency_ns)
            }
        })
    }

    /// The kind of device that times are of where no stage says: the first of the plan, or of the cluster.
    pub(super) fn kind(&self) -> usize {
        self.kind
    }

    /// A line on a stage: its number, devices and load.
    pub(super) fn stage_label(&self, stage: &PlanStage) -> String {
        let load = self.digits.ms(stage.load_ms);
        format!("stage {}, {}: {load} ms", stage.index, stage.devices.join(" "))
    }
}
