//! llama.cpp: the flags of `llama-server` and `llama-cli` that say how many blocks each GPU takes, and which GPUs they see where these
//! differ.
//!
//! Sources: tools/server/README.md (`--split-mode`, `--tensor-split`, `--main-gpu`, `-ngl`, `-c`, `-np`), and `load_tensors` of
//! src/llama-model.cpp. Blocks and the head are numbered in a row, `-ngl N` puts the last N of them on GPUs and the rest on the CPU, and of
//! these the GPUs take parts in proportion to `--tensor-split`, in their order: the numbers of blocks themselves, with one more for the head,
//! are such parts, and come out to the block. The table of words is always on the CPU. So a CPU may run the first stage, and GPUs all behind
//! it. Builds before December 2025 count the head last, and need one more in `-ngl` where the CPU has blocks.

use super::devices::{Place, RankDevices};
use super::framework::{Stages, one_a_device, unsupported};
use super::{Exported, stack};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::options::Region;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// Writes the flags.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::LlamaCpp)?;
    let stages = Stages::for_region(instance, plan, Region::LlamaCpp)?;
    let devices = RankDevices::of_stages(instance, plan)?.one_gpu_each("llama.cpp")?;
    let on_cpu = cpu_first(&devices)?;
    let stack = stack::find(
        instance,
        &stages,
        "one stack of transformer blocks, which is what llama.cpp cuts",
    )?;
    let mut parts = stack::blocks_a_stage(instance, &stages, &stack)?;
    if let Some(empty) = parts[on_cpu..].iter().position(|&count| count == 0) {
        return Err(unsupported(
            format!("stage {}", on_cpu + empty + 1),
            "no block",
            words!("a block on every GPU, or fewer {}", setting::STAGES),
        ));
    }
    // The head is one more.
    if let Some(last) = parts.last_mut() {
        *last += 1;
    }
    let on_gpus = &parts[on_cpu..];
    let counts: Vec<String> = on_gpus.iter().map(usize::to_string).collect();
    let mut flags = format!("-ngl {}", on_gpus.iter().sum::<usize>());
    match on_gpus.len() {
        0 => {}
        1 => flags += " --split-mode none --main-gpu 0",
        _ => {
            flags += &format!(
                " --split-mode layer --tensor-split {} --main-gpu 0",
                counts.join(",")
            )
        }
    }
    if let Some(tokens) = plan.tokens {
        flags += &format!(" -c {tokens}");
        flags += &plan
            .problem
            .sequences
            .filter(|&sequences| sequences > 1)
            .map_or_else(String::new, |sequences| format!(" -np {sequences}"));
    }
    let environment = devices.environment()?;
    let environment = match environment {
        Some(environment) => environment.of_one_node("llama.cpp")?.shell(),
        None => String::new(),
    };
    Ok(format!("{environment}llama-server -m MODEL.gguf {flags}\n"))
}

/// How many stages lie on the CPU, 0 or 1: only the first may. A network that was measured on a CPU and names no other device says nothing of
/// where its stages will run, unless it has one.
fn cpu_first(devices: &RankDevices) -> Result<usize, Fault> {
    let is_unsaid = devices.alike && devices.devices.len() > 1;
    let is_cpu = |at: usize| devices.devices[at].place == Place::Cpu && !is_unsaid;
    match (1..devices.devices.len()).find(|&at| is_cpu(at)) {
        None => Ok(usize::from(is_cpu(0))),
        Some(at) => Err(unsupported(
            format!("stage {}", at + 1),
            format!("`{}`, a CPU, behind other devices", devices.devices[at].name),
            words!(
                "the CPU on the first stage, where llama.cpp has what its GPUs do not take; {} takes any order",
                setting::TO.given("accelerate")
            ),
        )),
    }
}
