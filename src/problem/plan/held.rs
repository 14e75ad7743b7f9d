//! What devices hold of a plan, by what it is for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Plan, PlanMode, PlanStage};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::recompute;
use crate::model::settings::Settings;

/// What each device of a stage holds, or of all chunks that have the same devices, when it holds most. The parts add up to the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// The first of these stages, from 1.
    pub stage: usize,
    /// Devices that hold as much each, as `kind:number`.
    pub devices: Vec<String>,
    /// All of it.
    pub bytes: u64,
    /// Weights that are trained, or all of them in inference: their part where replicas share them out, as of the next two.
    pub weight_bytes: u64,
    /// Their gradients.
    pub gradient_bytes: u64,
    /// The optimiser's state, with further weights in single precision.
    pub optimizer_bytes: u64,
    /// What else is held once: caches, buffers, frozen weights.
    pub resident_bytes: u64,
    /// What is kept from forward to backward passes, of all micro-batches in flight, and further versions of weights where there are any.
    pub activation_bytes: u64,
    /// What is needed while a layer runs, of the one that needs most.
    pub workspace_bytes: u64,
}

impl Plan {
    /// What the fullest devices hold; `None` without a plan, where the plan names what the instance does not have, and where what several layers
    /// hold is counted once: a table of two layers of one stage.
    ///
    /// In time linear in layers, modes and devices.
    pub fn fullest(&self, instance: &Instance, settings: &Settings) -> Option<Held> {
        let mut by_devices: BTreeMap<&[String], Vec<&PlanStage>> = BTreeMap::new();
        for stage in &self.stages {
            by_devices.entry(&stage.devices).or_default().push(stage);
        }
        let bytes = |stages: &Vec<&PlanStage>| stages.iter().map(|stage| stage.memory_bytes).sum::<u64>();
        let key = |stages: &&Vec<&PlanStage>| (bytes(stages), std::cmp::Reverse(stages[0].index));
        let stages = by_devices.values().max_by_key(key)?;
        let mut held = Held {
            stage: stages[0].index,
            devices: stages[0].devices.clone(),
            bytes: bytes(stages),
            ..Held::default()
        };
        let settings = &settings.of_plan_with(self.tokens);
        for stage in stages {
            held.add_stage(instance, settings, stage)?;
        }
        let others = held.weight_bytes
            + held.gradient_bytes
            + held.optimizer_bytes
            + held.resident_bytes
            + held.workspace_bytes;
        held.activation_bytes = held.bytes.checked_sub(others)?;
        Some(held)
    }
}

impl Held {
    fn add_stage(&mut self, instance: &Instance, settings: &Settings, stage: &PlanStage) -> Option<()> {
        let network = &instance.network;
        let again = |name: &String| {
            let mut named = stage.mode.iter().flat_map(|mode| &mode.recomputed);
            let found = named.find(|(_, layers)| layers.contains(name));
            found.map_or(recompute::NONE, |(again, _)| again.as_str())
        };
        let own: BTreeSet<&String> = stage.forward.iter().chain(&stage.backward).collect();
        let position: BTreeMap<&String, usize> = network
            .layers
            .iter()
            .enumerate()
            .map(|(at, layer)| (&layer.id, at))
            .collect();
        let tables = own
            .iter()
            .filter_map(|name| network.layers[*position.get(*name)?].shared.as_ref());
        let tables: Vec<&String> = tables.collect();
        let is_twice = (1..tables.len()).any(|at| tables[..at].contains(&tables[at]));
        if is_twice {
            return None;
        }
        let states = settings.state_bytes;
        let [expert, context, group] = degrees(stage);
        let replicas = context * group * stage.replicas() as u64;
        let mut shared_bytes = [0; 3];
        for name in own {
            let layer = &network.layers[*position.get(name)?];
            let mode = mode_of(layer, stage, again(name))?;
            let parameter_bytes = mode.parameter_bytes;
            let all = states.parts(parameter_bytes);
            // Replicas that share out experts hold as many parts of them; frozen ones are held once as they are.
            let expert_bytes = mode.experts.map_or(0, |experts| experts.parameter_bytes);
            let (frozen_bytes, trained_bytes) = match layer.frozen {
                true => (expert_bytes, 0),
                false => (0, expert_bytes),
            };
            let elsewhere = states
                .parts(trained_bytes)
                .map(|bytes| bytes - bytes.div_ceil(expert));
            let parts = [
                &mut self.weight_bytes,
                &mut self.gradient_bytes,
                &mut self.optimizer_bytes,
            ];
            let at_host = stage.mode.as_ref().is_some_and(|mode| mode.optimizer_offload);
            let on_device = parts.into_iter().take(if at_host { 2 } else { 3 });
            for (at, own) in on_device.enumerate() {
                match settings.optimizer_sharding.shares_out()[at] {
                    true => shared_bytes[at] += all[at],
                    false => *own += all[at] - elsewhere[at],
                }
            }
            self.resident_bytes += mode.resident_bytes + settings.room.bytes(mode.cache);
            self.resident_bytes -= frozen_bytes - frozen_bytes.div_ceil(expert);
            let whole = if replicas > 1 {
                let [all, experts] =
                    [parameter_bytes, trained_bytes].map(|bytes| settings.gathered_bytes(bytes));
                all - experts + experts.div_ceil(expert)
            } else {
                0
            };
            self.workspace_bytes = self
                .workspace_bytes
                .max(mode.workspace_bytes.div_ceil(context) + whole);
        }
        // All of it is shared out together: what is over a whole byte is the optimiser's.
        let [weights, gradients] = [0, 1].map(|at| shared_bytes[at] / replicas);
        self.weight_bytes += weights;
        self.gradient_bytes += gradients;
        self.optimizer_bytes += shared_bytes.iter().sum::<u64>().div_ceil(replicas) - weights - gradients;
        Some(())
    }
}

/// How many share out experts, sequences and micro-batches on a stage.
fn degrees(stage: &PlanStage) -> [u64; 3] {
    let own = |mode: &PlanMode| [mode.expert, mode.context, mode.group];
    let own = stage.mode.as_ref().map_or([1; 3], own);
    own.map(|degree| degree.max(1) as u64)
}

/// How a layer runs on a stage.
fn mode_of(layer: &Layer, stage: &PlanStage, again: &str) -> Option<LayerMode> {
    let degree = stage.mode.as_ref().map_or(1, |mode| mode.tensor);
    let modes = layer.modes();
    let is_it = |mode: &&LayerMode| mode.tensor == degree && mode.recompute == again;
    match &stage.mode {
        Some(_) => modes.iter().find(is_it).cloned(),
        None => Some(LayerMode {
            parameter_bytes: layer.parameter_bytes,
            resident_bytes: layer.resident_bytes,
            cache: layer.cache,
            workspace_bytes: 0,
            ..modes.first()?.clone()
        }),
    }
}
