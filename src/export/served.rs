//! vLLM and SGLang: an environment variable that says how many hidden layers each stage of a served model takes, and which GPUs ranks
//! see where these differ.
//!
//! Sources: `get_pp_indices` of vllm/distributed/utils.py and of python/sglang/srt/distributed/utils.py. Both build the model
//! themselves, with the embedding on the first stage and the head on the last. They serve and do not train. Both take a part of
//! every GPU's memory alone, vLLM nine tenths (`gpu_memory_utilization` of vllm/config/cache.py): a plan that fills more says so.

use super::devices::RankDevices;
use super::framework::{Stages, one_a_device, unsupported};
use super::{Exported, stack};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::options::Region;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// The part of a card's memory that vLLM takes unasked.
const UNASKED: f64 = 0.9;

/// What a server calls its variable and its flags.
struct Server {
    region: Region,
    name: &'static str,
    variable: &'static str,
    stages: &'static str,
    degree: &'static str,
    memory: &'static str,
    chunk: &'static str,
}

/// For vLLM.
pub(super) fn vllm(instance: &Instance, plan: &Plan) -> Exported {
    Server {
        region: Region::Vllm,
        name: "vLLM",
        variable: "VLLM_PP_LAYER_PARTITION",
        stages: "--pipeline-parallel-size",
        degree: "--tensor-parallel-size",
        memory: "--gpu-memory-utilization",
        chunk: "--max-num-batched-tokens",
    }
    .lines(instance, plan)
}

/// For SGLang.
pub(super) fn sglang(instance: &Instance, plan: &Plan) -> Exported {
    Server {
        region: Region::Sglang,
        name: "SGLang",
        variable: "SGLANG_PP_LAYER_PARTITION",
        stages: "--pp-size",
        degree: "--tp-size",
        memory: "--mem-fraction-static",
        chunk: "--chunked-prefill-size",
    }
    .lines(instance, plan)
}

impl Server {
    fn lines(&self, instance: &Instance, plan: &Plan) -> Exported {
        one_a_device(plan, self.region)?;
        let stages = Stages::for_region(instance, plan, self.region)?;
        let devices = RankDevices::of_stages(instance, plan)?.no_cpu(self.name)?;
        let degree = self.degree_of(plan)? * devices.gpus()?;
        let counts: Vec<String> = self
            .counts(instance, &stages)?
            .iter()
            .map(usize::to_string)
            .collect();
        let mut flags = format!("{} {}", self.stages, stages.count);
        if degree > 1 {
            flags += &format!(" {} {degree}", self.degree);
        }
        if let Some(part) = fullest(instance, plan) {
            flags += &format!(" {} {part}", self.memory);
        }
        if let Some(tokens) = self.chunk_of(plan)? {
            flags += &format!(" {} {tokens}", self.chunk);
        }
        let environment = devices
            .environment()?
            .map_or_else(String::new, |environment| environment.shell());
        let counts = counts.join(",");
        let room = room(instance, plan).map_or_else(String::new, |room| format!("# {room}\n"));
        Ok(format!(
            "{environment}export {}={counts}  # with {flags}\n{room}",
            self.variable
        ))
    }

    /// Tokens of each chunk of a prompt, where one is read: servers take one number.
    fn chunk_of(&self, plan: &Plan) -> Result<Option<u64>, Fault> {
        let sizes = plan.problem.given_chunks().unwrap_or_default();
        match sizes.iter().position(|size| *size != sizes[0]) {
            // What is left for the last one is less.
            Some(other) if other + 1 < sizes.len() || sizes[other] > sizes[0] => {
                let found = format!("{} tokens behind chunks of {}", sizes[other], sizes[0]);
                let expected = words!("one size for all, which is what {} takes", self.name);
                Err(unsupported(format!("chunk {}", other + 1), found, expected))
            }
            _ => Ok(sizes.first().copied()),
        }
    }

    /// Blocks of every stage.
    fn counts(&self, instance: &Instance, stages: &Stages) -> Result<Vec<usize>, Fault> {
        let expected = format!(
            "one stack of transformer blocks, which is what {} cuts",
            self.name
        );
        let stack = stack::find(instance, stages, &expected)?;
        let counts = stack::blocks_a_stage(instance, stages, &stack)?;
        let Some(empty) = counts.iter().position(|&count| count == 0) else {
            return Ok(counts);
        };
        let expected = words!(
            "a block on every stage, since {} is not known to run one without; {} plans so",
            self.name,
            setting::FOR.given(self.region)
        );
        Err(unsupported(format!("stage {}", empty + 1), "no block", expected))
    }

    /// The tensor degree of all stages.
    fn degree_of(&self, plan: &Plan) -> Result<usize, Fault> {
        let degree = |at: usize| {
            plan.stages[at]
                .mode
                .as_ref()
                .map_or((1, 1), |mode| (mode.tensor, mode.replicas))
        };
        let (first, _) = degree(0);
        for at in 0..plan.stages.len() {
            let (tensor, replicas) = degree(at);
            let at = format!("stage {}", at + 1);
            if replicas > 1 {
                let expected = words!(
                    "{}; start {} once for each replica",
                    setting::REPLICAS.given(1),
                    self.name
                );
                return Err(unsupported(at, format!("{replicas} replicas"), expected));
            }
            if tensor != first {
                let expected = words!(
                    "degree {}, as on stage 1; {} gives that",
                    first.to_string(),
                    setting::TENSOR.given(first)
                );
                return Err(unsupported(
                    at,
                    format!("a tensor group of degree {tensor}"),
                    expected,
                ));
            }
        }
        Ok(first)
    }
}

/// Tokens that each rank will report room for, in the part of its memory that the server takes; nothing where layers do not say what they
/// keep of one, or memory is not limited.
fn room(instance: &Instance, plan: &Plan) -> Option<String> {
    let part = fullest(instance, plan)
        .and_then(|part| part.parse().ok())
        .unwrap_or(UNASKED);
    plan.tokens?;
    let ranks = plan.stages.iter().zip(plan.tokens_by_stage(instance, part));
    let told = ranks.map(|(stage, tokens)| {
        let tokens = tokens.map_or_else(|| "any number of".into(), |tokens| tokens.to_string());
        format!("rank {} ({}) {tokens}", stage.index - 1, stage.devices.join(", "))
    });
    Some(format!(
        "KV cache at {part:.2} of the memory, in tokens: {}; the least counts",
        told.collect::<Vec<_>>().join(", ")
    ))
}

/// The part of its memory that the fullest device needs, in hundredths, if servers would not take as much unasked.
fn fullest(instance: &Instance, plan: &Plan) -> Option<String> {
    let part = |stage: &crate::problem::plan::PlanStage| {
        let (kind, _) = stage.devices.first()?.rsplit_once(':')?;
        let memory = instance.cluster.kinds[instance.cluster.kind(kind)?].memory_bytes?;
        Some(stage.memory_bytes as f64 / memory as f64)
    };
    let most = plan.stages.iter().filter_map(part).fold(0.0, f64::max);
    (most > UNASKED && most <= 1.0).then(|| format!("{:.2}", (most * 100.0).ceil() / 100.0))
}
