//! Building an instance in code.

use super::Instance;
use crate::model::fault::InputError;
use crate::model::options::PipelineOptions;
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, PairLinkSpec, TensorSpec,
};

/// An instance under construction, from [`Instance::builder`]. What stands in it is validated as a file is, once and
/// together: [`InstanceBuilder::build`] returns every fault.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct InstanceBuilder {
    spec: InstanceSpec,
}

impl InstanceBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            spec: InstanceSpec {
                name: Some(name),
                ..InstanceSpec::default()
            },
        }
    }

    /// Adds a layer with its times in ms, the same on every device kind. `id` must be unique.
    pub fn layer(self, id: impl Into<String>, forward_ms: f64, backward_ms: f64) -> Self {
        self.layer_spec(LayerSpec {
            id: id.into(),
            forward_ms: Some(forward_ms),
            backward_ms: Some(backward_ms),
            ..LayerSpec::default()
        })
    }

    /// Adds a layer with all that a file can say of it: times by device kind, memory, ties.
    pub fn layer_spec(mut self, layer: LayerSpec) -> Self {
        self.spec.network.layers.push(layer);
        self
    }

    /// Adds a tensor of so many bytes from one layer to others. Layers may be named before they are added.
    pub fn tensor<C: Into<String>>(
        self,
        producer: impl Into<String>,
        consumers: impl IntoIterator<Item = C>,
        bytes: f64,
    ) -> Self {
        self.tensor_spec(TensorSpec {
            producer: producer.into(),
            consumers: consumers.into_iter().map(Into::into).collect(),
            bytes: Some(bytes),
            transfer_ms: None,
        })
    }

    /// Adds a tensor with all that a file can say of it: its size in bytes or its measured time.
    pub fn tensor_spec(mut self, tensor: TensorSpec) -> Self {
        self.spec.network.tensors.push(tensor);
        self
    }

    /// Adds `count` devices of a kind with `memory_bytes` each.
    pub fn devices(self, kind: impl Into<String>, count: usize, memory_bytes: f64) -> Self {
        self.device_kind(DeviceKindSpec {
            name: kind.into(),
            count: Some(count),
            memory_bytes: Some(memory_bytes),
            ..DeviceKindSpec::default()
        })
    }

    /// Adds a kind of device with all that a file can say of it: rates, resources, no limit on their number or memory.
    pub fn device_kind(mut self, kind: DeviceKindSpec) -> Self {
        self.cluster_mut().device_kinds.push(kind);
        self
    }

    /// Sets the link between any two devices: bytes per second, and ms before the first byte arrives.
    pub fn link(mut self, bandwidth_bytes_per_s: f64, latency_ms: f64) -> Self {
        self.cluster_mut().link = Some(LinkSpec {
            bandwidth_bytes_per_s,
            latency_ms,
            nodes: None,
        });
        self
    }

    /// Sets the link between a device of one kind and a device of another, or between any two of one, in place of the one between all.
    pub fn link_between(mut self, kinds: [&str; 2], bandwidth_bytes_per_s: f64, latency_ms: f64) -> Self {
        self.cluster_mut().links.push(PairLinkSpec {
            between: kinds.map(str::to_owned),
            bandwidth_bytes_per_s,
            latency_ms,
        });
        self
    }

    /// Sets devices and link at once, in place of all that were added: such as a preset by [`crate::input::import::read_cluster`].
    pub fn cluster(mut self, cluster: ClusterSpec) -> Self {
        self.spec.cluster = Some(cluster);
        self
    }

    /// Sets what is asked where [`crate::Options`] are silent.
    pub fn pipeline(mut self, pipeline: PipelineOptions) -> Self {
        self.spec.pipeline = pipeline;
        self
    }

    /// Validates all of it.
    ///
    /// # Errors
    ///
    /// Every fault, with its place as in a file: ``network.layers[2] `conv3`.forward_ms``.
    pub fn build(&self) -> Result<Instance, InputError> {
        Instance::from_spec(&self.spec)
    }

    fn cluster_mut(&mut self) -> &mut ClusterSpec {
        self.spec.cluster.get_or_insert_default()
    }
}
