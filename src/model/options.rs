//! What one may ask of a pipeline: the options of an instance file and, under the same names, of the command line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::named_values::named_values;
use crate::model::quantity;

pub use crate::model::chunk_sizes::ChunkSizes;
pub use crate::model::communication::Communication;
pub use crate::model::constraint::{Constraint, NamedPlaces, Places};
pub use crate::model::degrees::Degrees;
pub use crate::model::objective::Objective;
pub use crate::model::recompute::Recompute;
pub use crate::model::region::{Devices, KeptStates, Layout, Limits, Recomputation, Region, Staffing};
pub use crate::model::schedule::{Placement, Schedule, WorkerMode};
pub(crate) use crate::model::states::UnlikeStates;
pub use crate::model::states::{Optimizer, OptimizerOffload, OptimizerSharding, StatePrecision};

/// Options of the planning problem; a missing one takes the default that [`crate::model::settings::Settings`] states.
///
/// The same struct is the `pipeline` table of an instance file and a group of command-line flags, so both have the same
/// names and meanings. Build it with `..PipelineOptions::default()`: fields may be added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[cfg_attr(
    feature = "cli",
    command(next_help_heading = "Problem (overrides the instance)")
)]
#[serde(deny_unknown_fields)]
pub struct PipelineOptions {
    /// Train (forward and backward) or only infer [default: training where backward times exist]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,

    /// Most stages the pipeline may have, a device each [default: the number of devices]
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stages: Option<usize>,

    /// Plan as if there were so many devices of the kind, alike [default: its count]
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub devices: Option<usize>,

    /// Ask for exactly that many non-empty stages
    #[cfg_attr(feature = "cli", arg(long, num_args = 0, default_missing_value = "true"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_stages: Option<bool>,

    /// What to minimise [default: iteration where micro-batches are known, the schedule flushes and an iteration can be told, else period]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,

    /// What to minimise where there is room for the most tokens: `period` or `latency` [default: period]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Objective>,

    /// Tokens of all requests together that every stage has room for in its cache: inference
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,

    /// Sequences that are served at a time [default: 1 where tokens are asked for]
    #[cfg_attr(feature = "cli", arg(long, value_name = "S"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sequences: Option<u64>,

    /// Tokens of each of them, in place of the tokens of all
    #[cfg_attr(feature = "cli", arg(long, value_name = "L"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub context: Option<u64>,

    /// Tokens of a prompt that is read in chunks, each a micro-batch: inference [default: those of the chunks]
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prompt: Option<u64>,

    /// Tokens of each chunk of a prompt, separated by commas, or of all where there is one number; `choose` of powers of two, or of sizes
    /// such as `choose:512,1024`
    #[cfg_attr(feature = "cli", arg(long, value_name = "LIST|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<ChunkSizes>,

    /// Micro-batches of one iteration, for `--objective iteration` or `formula` and for the memory of GPipe
    #[cfg_attr(feature = "cli", arg(long, value_name = "M"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub micro_batches: Option<u64>,

    /// Order in which a stage works, which fixes the micro-batches in flight [default: 1f1b, or that of the virtual stages]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,

    /// How transfers between stages cost time [default: blocking]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<Communication>,

    /// Bandwidth of every link, in bytes per second, or with a unit such as 100GB/s or 25Gb/s
    #[cfg_attr(feature = "cli", arg(long = "bandwidth", value_name = "BYTES_PER_S", value_parser = quantity::bytes_per_s))]
    #[serde(
        default,
        deserialize_with = "quantity::some_rate",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("type" = ["number", "string", "null"]))]
    pub bandwidth_bytes_per_s: Option<f64>,

    /// Use only these device kinds, separated by commas
    #[cfg_attr(feature = "cli", arg(long, value_name = "LIST", value_delimiter = ','))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_kinds: Option<Vec<String>>,

    /// Memory of every stage in bytes, or with a unit such as 16GB, or `none` [default: that of the device kind]
    #[cfg_attr(feature = "cli", arg(long, value_name = "BYTES|none"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<MemoryLimit>,

    /// Whether a layer's forward and backward pass share a stage [default: tied]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Cuts>,

    /// How a worker runs forward and backward propagation [default: sequential, or as the schedule says]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerMode>,

    /// How concurrent workers split their resources between the two [default: best]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,

    /// Allow shares in so many equal parts only, as GPU partitioning does [default: any share]
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub share_parts: Option<usize>,

    /// Which devices form a worker [default: given]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,

    /// Whether stages go through the kinds of devices in any order, or as these are listed [default: free]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_order: Option<DeviceOrder>,

    /// How the devices of a group keep their weights equal [default: none]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Synchronization>,

    /// Optimiser whose state is kept beside parameters and gradients [default: adam]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,

    /// Numbers that training keeps for each parameter [default: uniform; for networks of 16 bits whose stages have modes: mixed]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<StatePrecision>,

    /// What the replicas of a stage share out: the state of the optimiser, gradients too, or weights too [default: none]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_sharding: Option<OptimizerSharding>,

    /// Whose optimiser's state lies at the hosts of their devices: of no stages, of all, or of those that are chosen [default: none]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_offload: Option<OptimizerOffload>,

    /// Degrees of tensor parallelism that stages may have: numbers, or `choose` for all that layers have modes for [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEGREES|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<Degrees>,

    /// Degrees of expert parallelism that stages may have: so many of their replicas share out the experts of a layer, as numbers or `choose` [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEGREES|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert: Option<Degrees>,

    /// Tokens of the busiest expert device over those of an even load, where experts are shared out [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "FACTOR"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert_load: Option<f64>,

    /// Degrees of context parallelism that stages may have: so many devices share out the sequence of a micro-batch, as numbers or `choose` [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEGREES|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_parallel: Option<Degrees>,

    /// Replicas that stages may have, each for every d-th micro-batch: numbers, or `choose` [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEGREES|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Degrees>,

    /// What layers may compute again in the backward pass, or lay at a host: `none`, `full`, `offload`, other names of modes, or `choose` [default: none]
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAMES|choose"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,

    /// Give all stages one tensor degree and one number of replicas, as frameworks do
    #[cfg_attr(feature = "cli", arg(long, num_args = 0, default_missing_value = "true"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<bool>,

    /// Plan only what a framework can run
    #[cfg_attr(feature = "cli", arg(long = "for", value_name = "TARGET", ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Region>,

    /// Chunks that every device holds, as virtual stages: the pipeline passes all devices so many times. Where stages have modes, numbers or
    /// `choose` [default: 1]
    #[cfg_attr(feature = "cli", arg(long, value_name = "V"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_stages: Option<Degrees>,

    /// Which device holds which chunk, where devices hold several [default: loop]
    #[cfg_attr(feature = "cli", arg(long, ignore_case = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,

    /// Constraints of one's own on where layers lie: in files and keywords alone
    #[cfg_attr(feature = "cli", arg(skip))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Vec<Constraint>>,
}

impl PipelineOptions {
    /// These options, and those of `fallback` where these are silent.
    pub fn or(self, fallback: &Self) -> Self {
        // Room is asked for in one way.
        let is_most = self.objective == Some(Objective::Tokens);
        let may_say_tokens = !is_most && self.context.is_none();
        let may_say_context = !is_most && self.tokens.is_none();
        // A list of chunks says how long the prompt is.
        let may_say_prompt = self.given_chunks().is_none_or(|sizes| sizes.len() == 1);
        Self {
            mode: self.mode.or(fallback.mode),
            stages: self.stages.or(fallback.stages),
            devices: self.devices.or(fallback.devices),
            all_stages: self.all_stages.or(fallback.all_stages),
            objective: self.objective.or(fallback.objective),
            then: self.then.or(fallback.then.filter(|_| self.objective.is_none())),
            tokens: self.tokens.or(fallback.tokens.filter(|_| may_say_tokens)),
            sequences: self.sequences.or(fallback.sequences),
            context: self.context.or(fallback.context.filter(|_| may_say_context)),
            prompt: self.prompt.or(fallback.prompt.filter(|_| may_say_prompt)),
            micro_batches: self
                .micro_batches
                .or(fallback.micro_batches.filter(|_| self.chunks.is_none())),
            chunks: self.chunks.or_else(|| fallback.chunks.clone()),
            schedule: self.schedule.or(fallback.schedule),
            communication: self.communication.or(fallback.communication),
            bandwidth_bytes_per_s: self.bandwidth_bytes_per_s.or(fallback.bandwidth_bytes_per_s),
            device_kinds: self.device_kinds.or_else(|| fallback.device_kinds.clone()),
            memory_limit: self.memory_limit.or(fallback.memory_limit),
            cuts: self.cuts.or(fallback.cuts),
            worker: self.worker.or(fallback.worker),
            shares: self.shares.or(fallback.shares),
            share_parts: self.share_parts.or(fallback.share_parts),
            groups: self.groups.or(fallback.groups),
            device_order: self.device_order.or(fallback.device_order),
            synchronization: self.synchronization.or(fallback.synchronization),
            optimizer: self.optimizer.or(fallback.optimizer),
            precision: self.precision.or(fallback.precision),
            optimizer_sharding: self.optimizer_sharding.or(fallback.optimizer_sharding),
            optimizer_offload: self.optimizer_offload.or(fallback.optimizer_offload),
            tensor: self.tensor.or_else(|| fallback.tensor.clone()),
            expert: self.expert.or_else(|| fallback.expert.clone()),
            expert_load: self.expert_load.or(fallback.expert_load),
            context_parallel: self
                .context_parallel
                .or_else(|| fallback.context_parallel.clone()),
            replicas: self.replicas.or_else(|| fallback.replicas.clone()),
            recompute: self.recompute.or_else(|| fallback.recompute.clone()),
            uniform: self.uniform.or(fallback.uniform),
            target: self.target.or(fallback.target),
            virtual_stages: self.virtual_stages.or_else(|| fallback.virtual_stages.clone()),
            placement: self.placement.or(fallback.placement),
            constraints: self.constraints.or_else(|| fallback.constraints.clone()),
        }
    }
}

impl PipelineOptions {
    /// Tokens of the chunks of a prompt, where they are given.
    pub fn given_chunks(&self) -> Option<&[u64]> {
        self.chunks.as_ref().and_then(ChunkSizes::given)
    }

    /// The time that is minimised: where the most tokens are asked for, the one that comes after.
    pub(crate) fn timed_objective(&self) -> Option<Objective> {
        match self.objective {
            Some(Objective::Tokens) => self.then.or(Some(Objective::Period)),
            other => other,
        }
    }
}

named_values! {
    /// Whether backward propagation is part of the work.
    Mode {
        /// Forward and backward propagation.
        Training = "training",
        /// Forward propagation only.
        Inference = "inference",
    }
}

impl Mode {
    /// Whether there is backward propagation, and with it gradients, optimiser state and micro-batches in flight.
    pub fn trains(self) -> bool {
        match self {
            Self::Training => true,
            Self::Inference => false,
        }
    }
}

named_values! {
    /// Where forward and backward propagation are cut.
    Cuts {
        /// At the same places: both passes of a layer share a stage.
        Tied = "tied",
        /// At places of their own.
        Separate = "separate",
    }
}

named_values! {
    /// How concurrent workers split their resources between forward and backward propagation.
    Shares {
        /// Half of every resource for either phase.
        Even = "even",
        /// c / (c + 1) for forward propagation, where c is the ratio of forward to backward time on the resource.
        Theorem = "theorem",
        /// One share for each type of resource, the same in all stages, chosen to be best.
        Global = "global",
        /// The best share of every resource in every stage.
        Best = "best",
    }
}

named_values! {
    /// Which devices form a worker.
    Groups {
        /// The cluster's groups, or else every device by itself.
        Given = "given",
        /// The plan decides: any devices may work as one.
        Assign = "assign",
    }
}

named_values! {
    /// In which order stages go through the kinds of devices.
    DeviceOrder {
        /// Any.
        Free = "free",
        /// That in which the kinds are listed: no stage is on a kind before that of the stage ahead of it. Kinds may be left out.
        Given = "given",
    }
}

named_values! {
    /// How the devices of a group keep their weights equal.
    Synchronization {
        /// At no cost.
        None = "none",
        /// By a ring all-reduce of the gradients, once an iteration.
        Ring = "ring",
    }
}

/// Memory of a stage: a number of bytes, or `none` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "invalid type: another value, expected a number of bytes from 0 to 2^53, or as text one with a unit such as `16GB`, or `none`"
)]
pub enum MemoryLimit {
    /// At most so many bytes.
    #[schemars(extend("type" = ["integer", "string"]))]
    Bytes(#[serde(deserialize_with = "whole_bytes")] u64),
    /// The word `none`.
    Unlimited(NoLimit),
}

named_values! {
    /// The word that stands for the absence of a limit.
    NoLimit {
        /// No limit.
        None = "none",
    }
}

/// Bytes may be written like any other number, such as 16e9, or with a unit.
fn whole_bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    crate::model::units::whole(quantity::size(from)?)
        .ok_or_else(|| serde::de::Error::custom("a number of bytes out of range"))
}

impl MemoryLimit {
    /// The limit in bytes, if there is one.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Unlimited(_) => None,
        }
    }
}

impl From<Option<u64>> for MemoryLimit {
    fn from(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Unlimited(NoLimit::None), Self::Bytes)
    }
}

impl std::str::FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Unlimited(NoLimit::None));
        }
        let bytes = quantity::bytes(text).map_err(|expected| format!("{expected}, or `none`"))?;
        crate::model::units::whole(bytes)
            .map(Self::Bytes)
            .ok_or_else(|| "expected between 0 and 2^53 bytes".to_owned())
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::model::setting;

    #[test]
    fn settings_are_the_fields_and_flags() {
        let command = <PipelineOptions as clap::Args>::augment_args(clap::Command::new("any"));
        let arguments = command.get_arguments();
        let typed: Vec<(String, String)> = arguments
            .filter_map(|argument| {
                Some((
                    argument.get_id().to_string(),
                    // Where it is typed it is another word.
                    match argument.get_long()? {
                        "for" => "target".to_owned(),
                        long => long.replace('-', "_"),
                    },
                ))
            })
            .collect();
        let named =
            setting::OF_PROBLEM.map(|setting| (setting.field().to_owned(), setting.name().to_owned()));
        // Constraints are not typed.
        let (not_typed, named) = named.split_last().expect("options");
        assert_eq!((typed.as_slice(), not_typed.0.as_str()), (named, "constraints"));
    }
}
