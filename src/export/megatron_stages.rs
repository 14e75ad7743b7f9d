//! Stages of an instance that a layout of Megatron says.

use std::collections::HashSet;

use super::framework::unsupported;
use super::megatron::BUILDS;
use super::megatron_layout::{Layout, Letter, Model};
use super::stack;
use crate::model::cluster::DeviceKind;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::network::Layer;
use crate::model::options::{Degrees, PipelineOptions};
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::bare::{BarePlan, BareStage};
use crate::schedule::Placement;

/// The stages of an instance that a layout says, a device or, with virtual stages, a chunk each, and the options that these need: `E` is what
/// lies before all blocks, `t` a block of whatever kind, `m` a layer of multi-token prediction, and `L` what else lies behind the blocks.
///
/// Devices in a row are the stages that are asked for; where nobody asks, all devices, or as many as the virtual stages say.
///
/// # Errors
///
/// A text that is no layout, or none of the instance.
pub(crate) fn stages(
    instance: &Instance,
    text: &str,
    asked: &PipelineOptions,
) -> Result<(BarePlan, PipelineOptions), InputError> {
    let said = asked.clone().or(&instance.pipeline);
    if said.placement == Some(Placement::V) {
        let found = words!("{}", setting::PLACEMENT.given("v"));
        let expected = words!("{}, which is how layouts lie", setting::PLACEMENT.given("loop"));
        let kind = FaultKind::Contradiction { found, expected };
        return Err(InputError::option(setting::PLACEMENT, kind));
    }
    let refused = |fault| InputError {
        path: None,
        faults: vec![fault],
    };
    let layers = layers(instance).map_err(refused)?;
    let stages = Layout::parse(text).map_err(refused)?.stages.len();
    let chunks = said.virtual_stages.as_ref().and_then(Degrees::only_one);
    let devices = match said.stages.or(said.devices) {
        Some(devices) => devices,
        None => stages / chunks.unwrap_or(1),
    };
    let model = Model {
        devices: devices.max(1),
        virtual_stages: chunks,
        decoders: layers[Letter::Decoder as usize].len(),
        mtp: layers[Letter::Mtp as usize].len(),
    };
    let layout = Layout::accepted(text, &model)?;
    let chunks = layout.virtual_stages(model.devices).unwrap_or(1);
    let mut of_letter = layers.map(Vec::into_iter);
    let names = |layers: Vec<usize>| with_gradients(instance, &layers);
    let stage = |letters: &Vec<Letter>| BareStage {
        layers: (letters.iter())
            .filter_map(|&letter| of_letter[letter as usize].next())
            .flat_map(names)
            .collect(),
        ..BareStage::default()
    };
    let mut stages: Vec<BareStage> = layout.stages.iter().map(stage).collect();
    if chunks == 1 {
        name_devices(instance, &mut stages);
        // One without layers hands on what it gets, which costs no more than what the link between its neighbours does.
        stages.retain(|stage| !stage.layers.is_empty());
    }
    let options = PipelineOptions {
        stages: Some(model.devices),
        virtual_stages: (chunks > 1).then(|| Degrees::one(chunks)).or(said.virtual_stages),
        ..asked.clone()
    };
    Ok((BarePlan { stages }, options))
}

/// Forward layers by what each letter of a layout stands for, in the order of the layout.
fn layers(instance: &Instance) -> Result<[Vec<Vec<usize>>; 4], Fault> {
    let network = &instance.network;
    let forward = |layer: usize| !network.layers[layer].backward;
    let stack = network.stack(forward).ok_or_else(|| {
        let found = "no numbered blocks, or several kinds of them";
        unsupported("the network".into(), found, BUILDS)
    })?;
    let ends = stack.ends(network, forward);
    let [before, after] = ends.map_err(|unfit| stack::between_blocks(instance, unfit))?;
    let (predictors, after) = network.predictors(after);
    Ok([
        vec![before],
        stack.blocks.into_values().collect(),
        predictors.into_values().collect(),
        vec![after],
    ])
}

/// Names of layers, and of the operators of an explicit backward graph that are tied to them.
fn with_gradients(instance: &Instance, layers: &[usize]) -> Vec<String> {
    let all = &instance.network.layers;
    let ties = layers.iter().filter_map(|&layer| all[layer].tie.as_deref());
    let ties: HashSet<&str> = ties.collect();
    let is_tied =
        |layer: &&Layer| layer.backward && layer.tie.as_deref().is_some_and(|tie| ties.contains(tie));
    let backward = all.iter().filter(is_tied).map(|layer| layer.id.clone());
    let forward = layers.iter().map(|&layer| all[layer].id.clone());
    forward.chain(backward).collect()
}

/// Names the devices of stages, rank by rank as the cluster lists them, where it matters which they are.
fn name_devices(instance: &Instance, stages: &mut [BareStage]) {
    let kinds = &instance.cluster.kinds;
    if kinds.len() == 1 && stages.iter().all(|stage| !stage.layers.is_empty()) {
        return;
    }
    let count = stages.len();
    let of_kind = |kind: &DeviceKind| {
        let name = kind.name.clone();
        (1..=kind.count.unwrap_or(count)).map(move |number| format!("{name}:{number}"))
    };
    for (stage, device) in stages.iter_mut().zip(kinds.iter().flat_map(of_kind)) {
        stage.devices = vec![device];
    }
}
