//! The way back: from an instance to the specification that says the same, with all times decided.

use std::collections::BTreeMap;

use super::Instance;
use crate::model::cluster::{DeviceKind, Group, Link, PairLink, Resource, ShareLevel};
use crate::model::network::{Experts, Layer, LayerMode, Size, Tensor, Times};
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, ExpertsSpec, GroupSpec, InstanceSpec, LayerSpec, LinkSpec, MicroBatchSpec,
    ModeSpec, NetworkSpec, NodesSpec, PairLinkSpec, ResourceSpec, SCHEMA, ShareLevelSpec, TensorSpec,
    TimesSpec,
};
use crate::model::units::ns_to_ms;

impl Instance {
    /// A specification that says the same: times in ms on every kind, in place of measurements, work and rates.
    #[doc(hidden)]
    pub fn to_spec(&self) -> InstanceSpec {
        let layer = |layer: &Layer| self.layer_spec(layer);
        let tensor = |tensor: &Tensor| self.tensor_spec(tensor);
        let cluster = &self.cluster;
        InstanceSpec {
            schema: Some(SCHEMA.into()),
            name: Some(self.name.clone()),
            provenance: None,
            network: NetworkSpec {
                file: None,
                precision: self.network.precision,
                micro_batch: self.network.micro_batch.map(|of| MicroBatchSpec {
                    tokens: of.tokens,
                    sequences: of.sequences,
                    forward_flops: of.forward_flops,
                    backward_flops: of.backward_flops,
                    // Times and latencies are written as they are for all passes.
                    passes: None,
                }),
                layers: self.network.layers.iter().map(layer).collect(),
                tensors: self.network.tensors.iter().map(tensor).collect(),
            },
            cluster: Some(ClusterSpec {
                device_kinds: cluster.kinds.iter().map(kind_spec).collect(),
                link: Some(LinkSpec {
                    nodes: cluster.nodes.map(|nodes| {
                        Box::new(NodesSpec {
                            devices: nodes.devices,
                            link: link_spec(nodes.link),
                        })
                    }),
                    ..link_spec(cluster.link)
                }),
                links: (cluster.links.iter())
                    .map(|pair| pair_link_spec(pair, &cluster.kinds))
                    .collect(),
                groups: (cluster.groups.iter())
                    .map(|group| group_spec(group, &cluster.kinds))
                    .collect(),
                iteration_ms: (cluster.iteration_ns > 0).then(|| ns_to_ms(cluster.iteration_ns)),
                calibrated: cluster.calibrated.clone(),
            }),
            pipeline: self.pipeline.clone(),
        }
    }

    fn layer_spec(&self, layer: &Layer) -> LayerSpec {
        let (own, by_kind) = match layer.only_in_modes {
            // Its modes say what it is.
            true => (TimesSpec::default(), BTreeMap::new()),
            false => self.times(layer.backward, &layer.times),
        };
        LayerSpec {
            id: layer.id.clone(),
            operator: layer.operator.clone(),
            // Reading it takes the weights of a frozen layer for resident bytes again.
            parameter_bytes: (layer.parameter_bytes + layer.frozen_bytes) as f64,
            stash_bytes: layer.stash_bytes as f64,
            resident_bytes: (layer.resident_bytes - layer.frozen_bytes) as f64,
            kv_bytes_per_token: layer.cache.token_bytes as f64,
            state_bytes_per_sequence: layer.cache.sequence_bytes as f64,
            tie: layer.tie.clone(),
            shared: layer.shared.clone(),
            shared_bytes: layer.shared.as_ref().map(|_| layer.shared_bytes as f64),
            experts: layer.experts.map(|experts| experts_spec(layer, experts)),
            frozen: layer.frozen,
            reads_input: layer.reads_input,
            backward: layer.backward,
            modes: layer
                .modes
                .iter()
                // What reads it lists the others again.
                .filter(|mode| mode.host_bytes == 0)
                .map(|mode| self.mode_spec(layer, mode))
                .collect(),
            forward_ms: own.forward_ms,
            backward_ms: own.backward_ms,
            weight_ms: own.weight_ms,
            times: by_kind,
            ..LayerSpec::default()
        }
    }

    /// Times of a layer or of one of its modes: those of the only kind, or of each kind by name.
    fn times(&self, backward: bool, times: &[Option<Times>]) -> (TimesSpec, BTreeMap<String, TimesSpec>) {
        let spec = |times: &Times| TimesSpec {
            forward_ms: (!backward).then_some(ns_to_ms(times.forward_ns)),
            backward_ms: Some(ns_to_ms(times.backward_ns)),
            weight_ms: (times.weight_ns > 0).then_some(ns_to_ms(times.weight_ns)),
            ..TimesSpec::default()
        };
        if let [Some(only)] = times {
            return (spec(only), BTreeMap::new());
        }
        let own = self.cluster.kinds.iter().zip(times);
        let by_kind = own.filter_map(|(kind, times)| Some((kind.name.clone(), spec(times.as_ref()?))));
        (TimesSpec::default(), by_kind.collect())
    }

    fn mode_spec(&self, layer: &Layer, mode: &LayerMode) -> ModeSpec {
        let (own, by_kind) = self.times(layer.backward, &mode.times);
        let by_name = |beside: &[(usize, u64)]| -> BTreeMap<String, f64> {
            let named = beside.iter().map(|&(layer, bytes)| {
                let id = self.network.layers[layer].id.clone();
                (id, bytes as f64)
            });
            named.collect()
        };
        let base = layer
            .modes
            .iter()
            .find(|mode| mode.tensor == 1)
            .or(layer.modes.first());
        // Of a frozen layer that stands in its modes alone, what reads it takes the weights from these.
        let is_base = layer.only_in_modes && base.is_some_and(|base| base.tensor == mode.tensor);
        let frozen_bytes = if is_base { layer.frozen_bytes } else { 0 };
        ModeSpec {
            tensor: Some(mode.tensor),
            recompute: Some(mode.recompute.clone()),
            forward_ms: own.forward_ms,
            backward_ms: own.backward_ms,
            weight_ms: own.weight_ms,
            attention_ms: own.attention_ms,
            fixed_ms: own.fixed_ms,
            times: by_kind,
            work: None,
            parameter_bytes: (mode.parameter_bytes + frozen_bytes) as f64,
            shared_bytes: layer.shared.as_ref().map(|_| mode.shared_bytes as f64),
            experts: mode.experts.map(|experts| experts_spec(layer, experts)),
            gradient_bytes: Some(mode.gradient_bytes as f64),
            stash_bytes: mode.stash_bytes as f64,
            resident_bytes: (mode.resident_bytes - frozen_bytes) as f64,
            kv_bytes_per_token: mode.cache.token_bytes as f64,
            state_bytes_per_sequence: mode.cache.sequence_bytes as f64,
            workspace_bytes: mode.workspace_bytes as f64,
            // A frozen layer that runs forward alone is read as half of what a file says for both passes.
            collective_bytes: if layer.returns { 1.0 } else { 2.0 } * mode.collective_bytes as f64,
            input_bytes: by_name(&mode.input_bytes),
            output_bytes: by_name(&mode.output_bytes),
        }
    }

    fn tensor_spec(&self, tensor: &Tensor) -> TensorSpec {
        let name = |&layer: &usize| self.network.layers[layer].id.clone();
        let (bytes, transfer_ms) = match tensor.size {
            Size::Bytes(bytes) => (Some(bytes as f64), None),
            Size::TransferNs(ns) => (None, Some(ns_to_ms(ns))),
        };
        TensorSpec {
            producer: name(&tensor.producer),
            consumers: tensor.consumers.iter().map(name).collect(),
            bytes,
            transfer_ms,
        }
    }
}

fn experts_spec(layer: &Layer, experts: Experts) -> ExpertsSpec {
    ExpertsSpec {
        count: experts.count,
        parameter_bytes: experts.parameter_bytes as f64,
        // As of what a group reduces.
        routed_bytes: if layer.returns { 1.0 } else { 2.0 } * experts.routed_bytes as f64,
        share: experts.share,
    }
}

fn kind_spec(kind: &DeviceKind) -> DeviceKindSpec {
    DeviceKindSpec {
        name: kind.name.clone(),
        count: kind.count,
        memory_bytes: kind.memory_bytes.map(|bytes| bytes as f64),
        flops_per_s: kind.flops_per_s,
        host_bytes_per_s: kind.host.map(|host| host.bytes_per_s),
        host_memory_bytes: kind.host.and_then(|host| Some(host.memory_bytes? as f64)),
        pays_communication: kind.pays_communication,
        gpus: (kind.gpus > 1).then_some(kind.gpus),
        resources: kind.resources.iter().map(resource_spec).collect(),
        ..DeviceKindSpec::default()
    }
}

fn resource_spec(resource: &Resource) -> ResourceSpec {
    let level = |level: &ShareLevel| ShareLevelSpec {
        share: level.share,
        speed: level.forward_speed,
        backward_speed: Some(level.backward_speed),
    };
    ResourceSpec {
        name: resource.name.clone(),
        forward_rate: resource.forward_rate,
        backward_rate: Some(resource.backward_rate),
        levels: resource.levels.iter().map(level).collect(),
    }
}

fn link_spec(link: Link) -> LinkSpec {
    LinkSpec {
        bandwidth_bytes_per_s: link.bandwidth_bytes_per_s,
        latency_ms: ns_to_ms(link.latency_ns),
        nodes: None,
    }
}

fn pair_link_spec(pair: &PairLink, kinds: &[DeviceKind]) -> PairLinkSpec {
    let own = link_spec(pair.link);
    PairLinkSpec {
        between: pair.kinds.map(|kind| kinds[kind].name.clone()),
        bandwidth_bytes_per_s: own.bandwidth_bytes_per_s,
        latency_ms: own.latency_ms,
    }
}

fn group_spec(group: &Group, kinds: &[DeviceKind]) -> GroupSpec {
    let devices = kinds.iter().zip(&group.devices).filter(|(_, count)| **count > 0);
    GroupSpec {
        devices: devices.map(|(kind, &count)| (kind.name.clone(), count)).collect(),
        count: Some(group.count),
    }
}
