//! The native instance format: what a JSON or TOML file may say. Importers produce the same types.
//!
//! Build them with `..Default::default()`: later versions may add fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::options::PipelineOptions;
use crate::model::precision::Precision;
use crate::model::quantity;

/// The value of `schema` in files of this version.
pub const SCHEMA: &str = "stagecut-instance/1";

/// The value of `schema` in plans of this version: no instance, and told apart from one.
pub const PLAN_SCHEMA: &str = "stagecut-plan/1";

/// A planning problem: a network, the devices to run it on, and what is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "stagecut instance")]
pub struct InstanceSpec {
    /// The format's version, `stagecut-instance/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// A name for reports; by default the file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the data come from, and under which licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// The layers and tensors, or a file that holds them.
    pub network: NetworkSpec,
    /// The devices and links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSpec>,
    /// What is asked; the command line overrides it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pipeline: PipelineOptions,
}

/// A network, inline (`layers`, `tensors`) or by reference (`file`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// A file in any importable format, relative to this one; excludes `layers` and `tensors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Numbers that it computes with; those of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// What a micro-batch is, for what reports say of throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<MicroBatchSpec>,
    /// The layers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerSpec>,
    /// The tensors that flow between layers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<TensorSpec>,
}

/// A micro-batch of a language model: its tokens, and the FLOPs that the model asks for, however they are computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MicroBatchSpec {
    /// Tokens that a pass takes in: of decoding, one of each sequence.
    pub tokens: f64,
    /// Sequences that these tokens are of, as many of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// FLOPs of the matrix products of a forward pass, those of attention among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_flops: Option<f64>,
    /// The same of a backward pass, twice as many, with nothing that is computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_flops: Option<f64>,
    /// Passes forward that a micro-batch is made of, such as one to read a prompt and one for each token behind the first that is written: launches
    /// and the latency of links count as often [default: 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u64>,
}

/// A layer or operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// Unique name.
    pub id: String,
    /// What the layer computes, for reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Forward time in ms on every device kind not listed in `times`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ms: Option<f64>,
    /// Backward time in ms on every device kind not listed in `times`: the gradients of the input and of the weights together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_ms: Option<f64>,
    /// The part of `backward_ms` that is gradients of weights, in ms: `backward_ms` includes it. Where nothing is said, the backward
    /// pass is in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_ms: Option<f64>,
    /// The part of `forward_ms` that is attention, in ms, of a micro-batch with no tokens before it: for a chunk of a prompt it grows with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_ms: Option<f64>,
    /// The part of `forward_ms` that each chunk of a prompt takes, however few its tokens are, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_ms: Option<f64>,
    /// Measured times by device kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, TimesSpec>,
    /// Work for the roofline model, on device kinds without a measured time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// Bytes of the parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameter_bytes: f64,
    /// Bytes that backward propagation needs from forward propagation, for each micro-batch in flight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stash_bytes: f64,
    /// Further bytes held once, whatever the mode, schedule and optimiser.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resident_bytes: f64,
    /// Bytes of the cache for each token that a server has room for, in inference: its keys and values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv_bytes_per_token: f64,
    /// Bytes for each sequence, however long: the state of a state space, the window of attention that has one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state_bytes_per_sequence: f64,
    /// Layers of one tie share a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<String>,
    /// The table of weights, by name, that the layer reads together with others: each stage that needs it holds a copy, and in training the
    /// gradients of copies are summed once an iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// The part of `parameter_bytes` that is the table; by default all of them. A layer that says neither has the bytes of the table beside
    /// none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<f64>,
    /// Its experts, if it has some: `parameter_bytes` includes theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertsSpec>,
    /// True for a layer whose weights training leaves as they are: they have no gradient and no state of an optimiser. Where all layers before
    /// it are frozen too, nothing flows back through it: no backward work, no stash, no gradients of what it makes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frozen: bool,
    /// True for a layer that reads the network's own input beside other layers; one that reads no layer reads the input anyway.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads_input: bool,
    /// True for an operator of an explicit backward graph: all its time is backward time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backward: bool,
    /// Ways to run the layer: tensor degrees and recomputation. The fields above describe the layer on one device that keeps
    /// everything; where they are silent, they are those of its first mode of degree 1. Where these say
    /// more than such fields can, or none is of degree 1, stages have modes whatever is asked for.
    /// Where no layer of a network lists any, each may keep its input in place of its stash, and run forward again before it runs backward.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ModeSpec>,
}

/// A way to run a layer, on the devices of a tensor group. All sizes are those of one device of the group.
///
/// Modes of one tensor degree differ in what they compute again, not in weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeSpec {
    /// Devices of the tensor group; by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<usize>,
    /// What is computed again in the backward pass: a name such as `selective` or `full`; by default `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<String>,
    /// Forward time of a micro-batch in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ms: Option<f64>,
    /// Backward time of a micro-batch in ms, with what is computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_ms: Option<f64>,
    /// The part of `backward_ms` that is gradients of weights, in ms, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_ms: Option<f64>,
    /// The part of `forward_ms` that is attention, in ms, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_ms: Option<f64>,
    /// The part of `forward_ms` that each chunk of a prompt takes, in ms, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_ms: Option<f64>,
    /// Measured times by device kind, as of a layer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, TimesSpec>,
    /// Work for the roofline model, where no time is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// Bytes of the parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameter_bytes: f64,
    /// The part of `parameter_bytes` that is a table which the layer shares with others, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<f64>,
    /// The experts, as of a layer; their parameters are the same for all modes of a degree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertsSpec>,
    /// Bytes of gradients that replicas exchange once an iteration; by default those of the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_bytes: Option<f64>,
    /// Bytes kept for each micro-batch in flight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stash_bytes: f64,
    /// Further bytes held once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resident_bytes: f64,
    /// Bytes of the cache for each token that a server has room for, as of a layer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv_bytes_per_token: f64,
    /// Bytes for each sequence, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state_bytes_per_sequence: f64,
    /// Bytes that are needed while the layer runs, beside what is kept: a stage has room for the largest of its layers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workspace_bytes: f64,
    /// Bytes of the tensors that the group reduces for a micro-batch, forward and backward: each goes around a ring.
    #[serde(default, skip_serializing_if = "is_default")]
    pub collective_bytes: f64,
    /// Bytes to move beside a tensor that enters the stage, by the layer that makes it; they are part of its message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_bytes: BTreeMap<String, f64>,
    /// Bytes to move beside a tensor that leaves the stage, by a layer that reads it; they are part of its message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub output_bytes: BTreeMap<String, f64>,
}

/// Experts of a layer, of which each token goes to some: what of the layer the replicas of a stage may share out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertsSpec {
    /// How many there are.
    pub count: usize,
    /// The part of `parameter_bytes` that is theirs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameter_bytes: f64,
    /// Bytes that a device sends and receives of the tokens' vectors if all of their experts are elsewhere, for a micro-batch, in all passes: to
    /// the experts and back, in training as many again in the backward pass, and what is computed again once more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub routed_bytes: f64,
    /// The part of the layer's time that is theirs, from 0 to 1: it grows with the load of the busiest expert's device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub share: f64,
}

/// Times of a layer on one device kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesSpec {
    /// Forward time in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ms: Option<f64>,
    /// Backward time in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_ms: Option<f64>,
    /// The part of `backward_ms` that is gradients of weights, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_ms: Option<f64>,
    /// The part of `forward_ms` that is attention, in ms, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_ms: Option<f64>,
    /// The part of `forward_ms` that each chunk of a prompt takes, in ms, as of a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_ms: Option<f64>,
}

/// Work of a layer, for the roofline model: a pass takes as long as its arithmetic or its memory traffic, whichever is
/// longer, at the rates of the device kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkSpec {
    /// Floating-point operations of the forward pass.
    #[serde(default)]
    pub forward_flops: f64,
    /// Bytes that the forward pass reads and writes.
    #[serde(default)]
    pub forward_bytes: f64,
    /// Floating-point operations of the backward pass.
    #[serde(default)]
    pub backward_flops: f64,
    /// Bytes that the backward pass reads and writes.
    #[serde(default)]
    pub backward_bytes: f64,
    /// Of `backward_flops`, those of the gradients of weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight_flops: f64,
    /// Of `backward_bytes`, those of the gradients of weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight_bytes: f64,
    /// Of `forward_flops`, those of attention of a micro-batch with no tokens before it: for a chunk of a prompt they grow with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_flops: Option<f64>,
    /// Of all this, what takes turns with the rest: each of them, and what they leave, takes as long as its own arithmetic or its own traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelSpec>,
}

/// A part of the work of a layer that nothing else runs beside, such as its norms and sums between products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// Floating-point operations of the forward pass.
    #[serde(default)]
    pub forward_flops: f64,
    /// Bytes that the forward pass reads and writes.
    #[serde(default)]
    pub forward_bytes: f64,
    /// Floating-point operations of the backward pass.
    #[serde(default)]
    pub backward_flops: f64,
    /// Bytes that the backward pass reads and writes.
    #[serde(default)]
    pub backward_bytes: f64,
}

/// A tensor: one producer, many consumers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// The layer that makes it.
    pub producer: String,
    /// The layers that read it.
    pub consumers: Vec<String>,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<f64>,
    /// Time in ms to move it, instead of `bytes` over a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ms: Option<f64>,
}

/// The devices and links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Kinds of device.
    pub device_kinds: Vec<DeviceKindSpec>,
    /// The link between any two devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// Links of their own between devices of two kinds, or of one, that share no node: in place of `link`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PairLinkSpec>,
    /// Groups of devices that work as one, for `groups = "given"`; by default every device is its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
    /// Time in ms once an iteration beside its passes, their transfers and the gradients' reduction, such as an optimiser's step that no layer has, or loading
    /// data. No plan changes it: reports say it beside what a plan takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_ms: Option<f64>,
    /// What its rates, efficiencies and links were fitted to, and how well, where they are not those of data sheets: `stagecut calibrate` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<String>,
}

/// A cluster that took the place of an instance's own, as a plan carries it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenCluster {
    /// What `--cluster` was given: the name of a preset, or a file.
    pub name: String,
    /// What that held.
    pub content: ClusterSpec,
}

/// Devices that work as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// How many devices of each kind.
    pub devices: BTreeMap<String, usize>,
    /// How many such groups there are; by default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A kind of device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceKindSpec {
    /// Unique name.
    pub name: String,
    /// How many there are; by default as many as stages are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Memory in bytes, or as text with a unit such as `16GB`; by default without a limit.
    #[serde(
        default,
        deserialize_with = "quantity::some_size",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("type" = ["number", "string", "null"]))]
    pub memory_bytes: Option<f64>,
    /// Arithmetic rate for the roofline model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_s: Option<f64>,
    /// Numbers for which that rate holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Part of the arithmetic and the memory rate that layers reach, above 0 and at most 1; by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// The same for layers of an `operator`, in place of `efficiency`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub efficiencies: BTreeMap<String, f64>,
    /// What was measured of these parts, for those who ask for it by `--efficiency measured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredSpec>,
    /// Time in ms that each pass of a layer takes beside its work, such as launches of its kernels: added where times follow from work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_ms: Option<f64>,
    /// Memory rate for the roofline model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_s: Option<f64>,
    /// Rate at which a device copies to its host or back, one of them at a time and beside no work, in bytes per second or as text with a unit such as
    /// `50GB/s`: layers may then hand what they keep for the backward pass to the host (`offload`). By default they may not.
    #[serde(
        default,
        deserialize_with = "quantity::some_rate",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("type" = ["number", "string", "null"]))]
    pub host_bytes_per_s: Option<f64>,
    /// A device's part of the memory of its host, in bytes or as text with a unit; by default without a limit.
    #[serde(
        default,
        deserialize_with = "quantity::some_size",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("type" = ["number", "string", "null"]))]
    pub host_memory_bytes: Option<f64>,
    /// False for kinds whose transfers are free, such as a host CPU.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub pays_communication: bool,
    /// GPUs of a device that is a node whose GPUs work as one, by tensor parallelism: exports name the degree. By default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub gpus: Option<usize>,
    /// Name of the kind whose measured times hold for this one at rate 1, such as a profile's; by default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Types of resource in the device, each able to serve both phases at once; by default one, of rate 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSpec>,
}

/// A part of a kind's rates that layers were measured to reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSpec {
    /// The part, of the arithmetic and the memory rate, above 0 and at most 1.
    pub efficiency: f64,
    /// What was measured where, and how far single measurements are from it.
    pub source: String,
}

/// A type of resource in a device, such as its CPU or its GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    /// Unique name in the device.
    pub name: String,
    /// Rate of forward propagation: layer times hold at rate 1, and the rates of all types add up.
    pub forward_rate: f64,
    /// Rate of backward propagation; by default that of forward propagation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_rate: Option<f64>,
    /// Measured speeds at shares below 1; by default the speed is the share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<ShareLevelSpec>,
}

/// How fast a resource serves a phase with part of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareLevelSpec {
    /// The share, above 0 and below 1; what is left of 1 must be a level too.
    pub share: f64,
    /// Speed relative to the whole resource.
    pub speed: f64,
    /// Speed in backward propagation, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_speed: Option<f64>,
}

impl Default for DeviceKindSpec {
    fn default() -> Self {
        Self {
            name: "device".into(),
            count: None,
            memory_bytes: None,
            flops_per_s: None,
            precision: None,
            efficiency: None,
            efficiencies: BTreeMap::new(),
            measured: None,
            launch_ms: None,
            memory_bytes_per_s: None,
            host_bytes_per_s: None,
            host_memory_bytes: None,
            pays_communication: true,
            gpus: None,
            profile: None,
            resources: Vec::new(),
        }
    }
}

/// A link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Bandwidth in bytes per second, or as text with a unit such as `25GB/s` or `200Gb/s`.
    #[serde(deserialize_with = "quantity::rate")]
    #[schemars(extend("type" = ["number", "string"]))]
    pub bandwidth_bytes_per_s: f64,
    /// Time in ms before the first byte arrives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latency_ms: f64,
    /// Nodes of several devices with a faster link inside: then this link is the one between nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Box<NodesSpec>>,
}

/// The link between a device of one kind and a device of another, or between any two of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairLinkSpec {
    /// Names of the two kinds: the same one twice for the devices of that kind.
    pub between: [String; 2],
    /// Bandwidth in bytes per second, or as text with a unit such as `1Gb/s`.
    #[serde(deserialize_with = "quantity::rate")]
    #[schemars(extend("type" = ["number", "string"]))]
    pub bandwidth_bytes_per_s: f64,
    /// Time in ms before the first byte arrives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latency_ms: f64,
}

/// Nodes: devices are numbered, and so many in a row are a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodesSpec {
    /// Devices of a node.
    pub devices: usize,
    /// The link between two devices of a node.
    pub link: LinkSpec,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// The JSON Schema of the format, generated from the types above.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(InstanceSpec).to_value()
}
