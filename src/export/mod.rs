//! Plans for the frameworks that run them. Each target is one file and one row of [`TARGETS`].
//!
//! A framework knows less than a plan may say. What it cannot represent is refused, with the place and the reason; nothing
//! is left out silently.

mod accelerate;
mod deepspeed;
mod devices;
mod framework;
mod json;
mod llama_cpp;
mod megatron;
#[doc(hidden)]
pub mod megatron_layout;
mod megatron_modes;
#[cfg(feature = "cli")]
pub(crate) mod megatron_stages;
mod megatron_states;
mod onnx;
mod ordered;
mod served;
mod stack;
mod template;
mod torch;
mod torchtitan;

#[doc(hidden)]
pub use ordered::Ordered;

#[cfg(feature = "cli")]
pub(crate) use megatron::layout_of;

use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::problem::plan::Plan;

/// What a target makes of a plan: the text to write, or the first thing that it cannot represent.
pub type Exported = Result<String, Fault>;

/// A framework or format.
#[derive(Debug)]
pub struct Target {
    /// Short name.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// Extensions of what it writes, as far as they have a meaning; other names are free.
    pub extensions: &'static [&'static str],
    /// Writes a plan that has stages and passes the checker.
    pub write: fn(&Instance, &Plan) -> Exported,
    /// The same with an order of operations, where the framework can be told one.
    #[doc(hidden)]
    pub write_ordered: Option<fn(&Instance, &Plan, &Ordered) -> Exported>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "torch",
        summary: "Python program that splits a PyTorch model for torch.distributed.pipelining",
        extensions: &["py"],
        write: torch::write,
        write_ordered: Some(torch::write_ordered),
    },
    Target {
        name: "deepspeed",
        summary: "Python module with a DeepSpeed `PipelineModule` of the plan's partition",
        extensions: &["py"],
        write: deepspeed::write,
        write_ordered: None,
    },
    Target {
        name: "megatron",
        summary: "Megatron's `--pipeline-model-parallel-layout`, for stacks of blocks of any kinds",
        extensions: &["txt"],
        write: megatron::write,
        write_ordered: Some(megatron::write_ordered),
    },
    Target {
        name: "torchtitan",
        summary: "torchtitan's `module_fqns_per_model_part`, for stacks of transformer blocks",
        extensions: &["toml"],
        write: torchtitan::write,
        write_ordered: Some(torchtitan::write_ordered),
    },
    Target {
        name: "vllm",
        summary: "vLLM's `VLLM_PP_LAYER_PARTITION`, for stacks of transformer blocks",
        extensions: &["sh"],
        write: served::vllm,
        write_ordered: None,
    },
    Target {
        name: "sglang",
        summary: "SGLang's `SGLANG_PP_LAYER_PARTITION`, likewise",
        extensions: &["sh"],
        write: served::sglang,
        write_ordered: None,
    },
    Target {
        name: "llama-cpp",
        summary: "llama.cpp's `--tensor-split`, `-ngl` and `--main-gpu`, likewise; the first stage may be a CPU",
        extensions: &["sh"],
        write: llama_cpp::write,
        write_ordered: None,
    },
    Target {
        name: "accelerate",
        summary: "device map of Hugging Face Accelerate, as JSON",
        extensions: &["json"],
        write: accelerate::write,
        write_ordered: None,
    },
    Target {
        name: "onnx",
        summary: "Python program that writes one ONNX file a stage",
        extensions: &["py"],
        write: onnx::write,
        write_ordered: None,
    },
    Target {
        name: "json",
        summary: "stages and the transfers between them, for programs of one's own; takes every plan",
        extensions: &["json"],
        write: json::write,
        write_ordered: None,
    },
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
