//! Hugging Face Accelerate: a device map, which says for names of modules on which device their weights lie and they run.
//!
//! Source: `infer_auto_device_map` and `clean_device_map` of src/accelerate/utils/modeling.py. A name stands for all modules inside of it; as
//! `clean_device_map` does, modules that share a device go under the longest name that they have to themselves. GPUs are
//! numbered as `devices` says; the CPU is `cpu`.
//!
//! The profilers name a layer after its module and what that calls: `h.0.attn/matmul`. A module that computes something itself, such as
//! a residual sum, runs that where it finds its inputs, and cannot be cut.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Exported;
use super::devices::{Place, RankDevice, RankDevices};
use super::framework::{Stages, one_a_device, unsupported};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::module_path;
use crate::model::options::Region;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// What layers are to be called.
const MODULE_NAMES: &str =
    "names of modules, such as `h.0.attn`, before a `/`, as `tools/profile_torch.py` writes them";

/// Writes the map.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    one_a_device(plan, Region::Accelerate)?;
    let stages = Stages::for_region(instance, plan, Region::Accelerate)?;
    let devices = RankDevices::of_stages(instance, plan)?.one_gpu_each("Accelerate")?;
    let mut tree = Module::default();
    for layer in stages.in_order(instance) {
        let stage = stages.of_layer[layer].unwrap_or(0);
        tree.insert(&instance.network.layers[layer].id, stage)?;
    }
    let mut stage_of = BTreeMap::new();
    tree.collect("", &mut stage_of)?;
    let map: serde_json::Map<String, Value> = stage_of
        .into_iter()
        .map(|(name, stage)| (name, device(&devices.devices[stage])))
        .collect();
    let text = serde_json::to_string_pretty(&map).expect("names and numbers are JSON");
    Ok(text + "\n")
}

/// A device as Accelerate names it.
fn device(of: &RankDevice) -> Value {
    match of.place {
        Place::Cpu => "cpu".into(),
        Place::Gpus { first, .. } => first.into(),
    }
}

/// A module: the stages of what it computes itself, and the modules inside of it.
#[derive(Default)]
struct Module {
    own: Vec<usize>,
    inside: BTreeMap<String, Module>,
}

impl Module {
    /// Adds a layer under its module; one that no module computes belongs to the model itself.
    fn insert(&mut self, id: &str, stage: usize) -> Result<(), Fault> {
        let Some(path) = module_path(id) else {
            return Err(unsupported(
                format!("layer `{id}`"),
                "a name that is no module's",
                MODULE_NAMES,
            ));
        };
        let mut module = self;
        for part in path {
            module = module.inside.entry(part.to_owned()).or_default();
        }
        module.own.push(stage);
        Ok(())
    }

    /// All stages inside.
    fn stages(&self) -> Vec<usize> {
        let mut stages = self.own.clone();
        self.inside
            .values()
            .for_each(|module| stages.extend(module.stages()));
        stages.sort_unstable();
        stages.dedup();
        stages
    }

    fn collect(&self, name: &str, map: &mut BTreeMap<String, usize>) -> Result<(), Fault> {
        let stages = self.stages();
        if let [stage] = stages[..] {
            map.insert(name.to_owned(), stage);
            return Ok(());
        }
        if !self.own.is_empty() {
            let names: Vec<String> = stages.iter().map(|stage| (stage + 1).to_string()).collect();
            return Err(unsupported(
                format!("module `{name}`"),
                format!("what it computes on stages {}", names.join(" and ")),
                words!(
                    "it whole on one stage, since it computes something itself; {} takes any cut",
                    setting::TO.given("torch")
                ),
            ));
        }
        for (part, module) in &self.inside {
            let inner = if name.is_empty() {
                part.clone()
            } else {
                format!("{name}.{part}")
            };
            module.collect(&inner, map)?;
        }
        Ok(())
    }
}
