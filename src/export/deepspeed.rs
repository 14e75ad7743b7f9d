//! DeepSpeed: `deepspeed.pipe.PipelineModule` runs a list of modules, each on what the one before returns, and gives every
//! stage a run of the list.
//!
//! A network is such a list where one layer's output is all that is still needed. Between two such places lies a module of
//! the list; a plan fits if it cuts at such places only.
//!
//! The network's input is read by layers that read no other, and by those that `reads_input` marks: the importer of ONNX and
//! the profilers do, other formats cannot say it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Exported;
use super::devices::RankDevices;
use super::framework::{Stages, one_a_device, one_stage_a_device, unsupported};
use super::template::fill;
use crate::model::fault::Fault;
use crate::model::instance::Instance;
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
    one_a_device(plan, one_stage_a_device())?;
    let stages = Stages::plain(instance, plan)?;
    let order = stages.in_order(instance);
    let mut open = Open::new(instance, &order);
    let mut parts = vec![0];
    let mut modules: Vec<Vec<&str>> = vec![Vec::new()];
    for (at, &layer) in order.iter().enumerate() {
        let last = modules.len() - 1;
        modules[last].push(&instance.network.layers[layer].id);
        let Some(&next) = order.get(at + 1) else {
            break;
        };
        let needed = open.open_after(at);
        let is_cut = stages.of_layer[layer] != stages.of_layer[next];
        if needed == [Some(layer)] {
            modules.push(Vec::new());
        } else if is_cut {
            return Err(two_needed(instance, &stages, &needed, layer));
        }
        if is_cut {
            parts.push(modules.len() - 1);
        }
    }
    parts.push(modules.len());
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

/// What later layers of an order still read: earlier layers, and `None` for the network's input.
struct Open {
    /// The position of the last reader of what each position makes.
    last_reader: Vec<usize>,
    /// The layer at each position.
    order: Vec<usize>,
    /// The position of the last reader of the network's input.
    last_input: usize,
    /// Positions whose layers are still read.
    open: BTreeSet<usize>,
}

impl Open {
    fn new(instance: &Instance, order: &[usize]) -> Self {
        let mut position = vec![None; instance.network.layers.len()];
        for (at, &layer) in order.iter().enumerate() {
            position[layer] = Some(at);
        }
        let mut last_reader = vec![0; order.len()];
        let mut reads_layer = vec![false; order.len()];
        for tensor in &instance.network.tensors {
            let Some(from) = position[tensor.producer] else {
                continue;
            };
            for to in tensor.consumers.iter().filter_map(|&to| position[to]) {
                last_reader[from] = last_reader[from].max(to);
                reads_layer[to] = true;
            }
        }
        Self {
            last_reader,
            order: order.to_vec(),
            last_input: (0..order.len())
                .rfind(|&at| !reads_layer[at] || instance.network.layers[order[at]].reads_input)
                .unwrap_or(0),
            open: BTreeSet::new(),
        }
    }

    /// What is needed after a position; to be asked of one after the other.
    fn open_after(&mut self, at: usize) -> Vec<Option<usize>> {
        self.open.insert(at);
        self.open.retain(|&from| self.last_reader[from] > at);
        let input = (self.last_input > at).then_some(None);
        let layers = self.open.iter().map(|&from| Some(self.order[from]));
        layers.chain(input).collect()
    }
}

/// A cut where more than the last layer's output is needed.
fn two_needed(instance: &Instance, stages: &Stages, needed: &[Option<usize>], last: usize) -> Fault {
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
        format!("stage {}", stages.of_layer[last].unwrap_or(0) + 1),
        found,
        words!(
            "one layer's output at every cut, which is all that DeepSpeed's list of modules hands on; {} takes any",
            setting::TO.given("torch")
        ),
    )
}
