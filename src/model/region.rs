//! What a framework can run of all plans: constraints that the search keeps and its exporter relies on, stated once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::named_values::named_values;
use super::states::OptimizerSharding;

named_values! {
    /// A framework that plans are for.
    Region {
        /// PyTorch: any layers, one device a stage.
        Torch = "torch",
        /// DeepSpeed: cuts where one output is all that is still needed.
        Deepspeed = "deepspeed",
        /// Megatron: one degree and number of replicas, whole blocks, and recomputation that its flags can say.
        Megatron = "megatron",
        /// torchtitan: whole blocks, all of them computed again or none.
        Torchtitan = "torchtitan",
        /// vLLM: inference, whole blocks with one on every stage, one tensor degree.
        Vllm = "vllm",
        /// SGLang: likewise.
        Sglang = "sglang",
        /// llama.cpp: inference, whole blocks with one on every stage, GPUs of one machine.
        LlamaCpp = "llama-cpp",
        /// Accelerate: modules that compute something themselves are whole.
        Accelerate = "accelerate",
        /// ONNX: any layers.
        Onnx = "onnx",
    }
}

/// What a framework can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Between which layers it can be cut.
    pub layout: Layout,
    /// Devices of a stage.
    pub staffing: Staffing,
    /// What is computed again.
    pub recomputation: Recomputation,
    /// Whether devices may hold several chunks, which lie in a loop then and hold something each.
    pub takes_chunks: bool,
    /// Whether it trains.
    pub trains: bool,
    /// Whether it runs models that are trained.
    pub infers: bool,
    /// Devices of which it runs a stage.
    pub devices: Devices,
    /// What it keeps of every parameter.
    pub states: KeptStates,
    /// What replicas of a stage share out at most.
    pub sharding: OptimizerSharding,
}

/// Between which layers a framework can cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Any two.
    Layers,
    /// Those of which no module that computes something itself holds both.
    ModuleTree,
    /// Those between which one layer's output is all that is still needed.
    ModuleList,
    /// Numbered blocks, in the order of their numbers, with all that comes before on the first stage and all that comes after on the last.
    Blocks {
        /// Whether every stage has one.
        each: bool,
        /// Whether layers of multi-token prediction, which come behind them, lie together where they will, and not on the last stage.
        predictors: bool,
    },
}

/// What devices of a stage a framework can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staffing {
    /// One.
    One,
    /// A tensor group of the same degree everywhere.
    Tensor,
    /// The same, and the same number of replicas.
    Replicated,
}

/// What a framework can be told to compute again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recomputation {
    /// Nothing.
    Nothing,
    /// All blocks, or nothing.
    AllBlocks,
    /// The same in all layers, or all in the first so many blocks of every stage.
    Alike,
}

/// On what a framework runs stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Whatever there is: that is left to who runs them.
    Any,
    /// A GPU each, or the CPU.
    OneEach,
    /// A GPU each, or CPUs alone.
    OneOfAKind,
    /// A GPU each.
    Gpus,
    /// GPUs, of which several may work as one.
    GroupedGpus,
}

/// What a framework keeps of every parameter, whatever a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptStates {
    /// What the program around it does.
    Any,
    /// Gradients and states of the optimiser in single precision, where the network has 16 bits.
    Mixed,
    /// Those of Adam, in bf16 or single precision.
    Adam,
}

impl Region {
    /// Every framework, as documents list them.
    pub const ALL: [Self; 9] = [
        Self::Torch,
        Self::Deepspeed,
        Self::Megatron,
        Self::Torchtitan,
        Self::Vllm,
        Self::Sglang,
        Self::LlamaCpp,
        Self::Accelerate,
        Self::Onnx,
    ];

    /// What it can run.
    pub fn limits(self) -> Limits {
        let plain = Limits {
            layout: Layout::Layers,
            staffing: Staffing::One,
            recomputation: Recomputation::Nothing,
            takes_chunks: false,
            trains: true,
            infers: true,
            devices: Devices::Gpus,
            states: KeptStates::Any,
            // DeepSpeed and torchtitan add up the gradients of all micro-batches before they scatter them where there are pipelines, as Megatron does.
            sharding: OptimizerSharding::Zero1,
        };
        let with_one_each = Layout::Blocks {
            each: true,
            predictors: false,
        };
        match self {
            Self::Torch => Limits {
                devices: Devices::OneOfAKind,
                ..plain
            },
            Self::Deepspeed => Limits {
                layout: Layout::ModuleList,
                ..plain
            },
            Self::Megatron => Limits {
                layout: Layout::Blocks {
                    each: false,
                    predictors: true,
                },
                staffing: Staffing::Replicated,
                recomputation: Recomputation::Alike,
                takes_chunks: true,
                devices: Devices::GroupedGpus,
                states: KeptStates::Mixed,
                ..plain
            },
            Self::Torchtitan => Limits {
                layout: Layout::Blocks {
                    each: false,
                    predictors: false,
                },
                recomputation: Recomputation::AllBlocks,
                infers: false,
                devices: Devices::GroupedGpus,
                states: KeptStates::Adam,
                ..plain
            },
            Self::Vllm | Self::Sglang => Limits {
                layout: with_one_each,
                staffing: Staffing::Tensor,
                trains: false,
                devices: Devices::GroupedGpus,
                ..plain
            },
            Self::LlamaCpp => Limits {
                layout: with_one_each,
                trains: false,
                ..plain
            },
            Self::Accelerate => Limits {
                layout: Layout::ModuleTree,
                devices: Devices::OneEach,
                ..plain
            },
            Self::Onnx => Limits {
                devices: Devices::Any,
                ..plain
            },
        }
    }
}
