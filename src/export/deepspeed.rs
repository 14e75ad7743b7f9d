//! DeepSpeed: `deepspeed.pipe.PipelineModule` runs a list of modules, each on what the one before returns, and gives every
//! stage a run of the list.
//!
//! A network is such a list where one layer's output is all that is still needed. Between two such places lies a module of
//! the list; a plan fits if it cuts at such places only.
//!
//! The network's input is read by layers that read no other, and by those that `reads_input` marks: the importer of ONNX and
//! the profilers do, other formats cannot say it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Exported;
use super::devices::RankDevices;
use super::framework::{Stages, one_a_device, unsupported};
use super::template::fill;
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::Open;
use crate::model::options::Region;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// What the template needs.
#[derive(Serialize)]
struct Partition<'a> {
    instance: &'a str,
    /// Variables that have to be set before CUDA starts, where devices differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<BTreeMap<&'static str, String>>,
    /// The devices of the stages, as the plan names them.
    devices: Vec<String>,
    /// First module of every stage, and the number of modules at the end.
    parts: Vec<usize>,
    /// The layers of each module.
    modules: Vec<Vec<&'a str>>,
}

/// Writes the module.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::Deepspeed)?;
    let stages = Stages::for_region(instance, plan, Region::Deepspeed)?;
    let modules = instance.network.module_list();
    let mut parts = vec![0];
    let mut last = 0;
    for (at, module) in modules.iter().enumerate() {
        let stage = stages.of_layer[module[0]].unwrap_or(0);
        if stage < last || module.iter().any(|&layer| stages.of_layer[layer] != Some(stage)) {
            return Err(two_needed(instance, &stages, module));
        }
        if stage > last {
            parts.push(at);
        }
        last = stage;
    }
    parts.push(modules.len());
    let named = |module: &Vec<usize>| {
        module
            .iter()
            .map(|&layer| instance.network.layers[layer].id.as_str())
            .collect()
    };
    let modules = modules.iter().map(named).collect();
    let ranks = RankDevices::of_stages(instance, plan)?;
    let ranks = ranks
        .one_gpu_each("DeepSpeed's PipelineModule")?
        .no_cpu("DeepSpeed")?;
    let partition = Partition {
        instance: &plan.instance,
        environment: environment(&ranks)?,
        devices: ranks.devices.into_iter().map(|device| device.name).collect(),
        parts,
        modules,
    };
    Ok(fill(include_str!("templates/deepspeed.py"), &partition))
}

/// What sets the GPU of every rank, where devices differ.
fn environment(ranks: &RankDevices) -> Result<Option<BTreeMap<&'static str, String>>, Fault> {
    let Some(environment) = ranks.environment()? else {
        return Ok(None);
    };
    let gpus = environment.of_one_node("the module")?.gpus();
    let gpus: Vec<String> = gpus.iter().map(usize::to_string).collect();
    Ok(Some(BTreeMap::from([
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", gpus.join(",")),
    ])))
}

/// A module that is cut: more than the last layer's output is needed where the first stage ends that has a part of it, and of others.
fn two_needed(instance: &Instance, stages: &Stages, module: &[usize]) -> Fault {
    let order = stages.in_order(instance);
    let mut open = Open::new(&instance.network, &order);
    let stage = |at: usize| stages.of_layer[order[at]];
    let mut cut = (stages.of_layer[module[0]].unwrap_or(0), Vec::new());
    for (at, &layer) in order.iter().enumerate().take(order.len().saturating_sub(1)) {
        let needed = open.after(at);
        if stage(at) != stage(at + 1) && needed != [Some(layer)] {
            cut = (stage(at).unwrap_or(0), needed);
            break;
        }
    }
    let (stage, needed) = cut;
    let names: Vec<String> = needed
        .iter()
        .map(|from| match from {
            Some(layer) => format!("`{}`", instance.network.layers[*layer].id),
            None => "the network's input".into(),
        })
        .collect();
    let found = match names.is_empty() {
        true => "a cut that nothing crosses".into(),
        false => format!("a cut that what {} give crosses", names.join(" and ")),
    };
    unsupported(
        format!("stage {}", stage + 1),
        found,
        words!(
            "one layer's output at every cut, which is all that DeepSpeed's list of modules hands on; {} takes any",
            setting::TO.given("torch")
        ),
    )
}
