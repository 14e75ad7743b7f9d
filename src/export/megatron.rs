//! Megatron: `--pipeline-model-parallel-layout` (NVIDIA, *Megatron Core user guide*, custom pipeline model parallel layout), from
//! plans and to stages. What a layout says and which are refused, [`megatron_layout`](super::megatron_layout) knows.
//!
//! Megatron builds the model itself, so the network must be a stack of blocks: of any kind, since a layout only counts them.

use std::collections::HashSet;

use super::devices::RankDevices;
use super::framework::{Stages, unsupported};
use super::megatron_layout::{Layout, Letter, Model};
use super::{Exported, Ordered, megatron_modes, megatron_states, stack};
use crate::model::cluster::DeviceKind;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::network::{Layer, Stack};
use crate::model::options::{Degrees, PipelineOptions, Region};
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;
use crate::problem::plan::bare::{BarePlan, BareStage};
use crate::schedule::{Placement, rules};

/// The networks that Megatron builds.
const BUILDS: &str = "one stack of transformer blocks, which is what Megatron builds";

/// Writes the flags.
///
/// Virtual stages are the stages of the layout beyond the devices; Megatron lays them in a loop.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    let devices = match (plan.virtual_stages(), plan.problem.placement, plan.problem.stages) {
        (None, ..) => plan.stages.len(),
        (Some(_), Some(Placement::Loop), Some(devices)) => devices,
        (Some(_), ..) => {
            return Err(unsupported(
                "the plan".into(),
                "virtual stages in a V",
                words!(
                    "{}, which is how Megatron lays them",
                    setting::PLACEMENT.given("loop")
                ),
            ));
        }
    };
    let ranks = RankDevices::of_stages(instance, plan)?;
    flags(instance, plan, (devices, ranks))
}

/// Writes the flags where devices run several stages in turn. Megatron takes no order: it runs 1F1B, or interleaved 1F1B once its
/// layout has more stages than there are devices.
pub(super) fn write_ordered(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Exported {
    let is_own = |name: &str| rules::find(name).is_some_and(|rule| ordered.is_of(rule));
    match ["1f1b", "interleaved"].into_iter().any(is_own) {
        true => {
            let ranks = RankDevices::of_lines(instance, plan, ordered)?;
            flags(instance, plan, (ordered.devices(), ranks))
        }
        false => Err(unsupported(
            "the order".into(),
            "another order than `1f1b` and `interleaved` of `stagecut schedule --rule`",
            words!(
                "one of these two, which is what Megatron runs; {} takes any",
                setting::TO.given("torch")
            ),
        )),
    }
}

fn flags(instance: &Instance, plan: &Plan, (devices, ranks): (usize, RankDevices)) -> Exported {
    let stages = Stages::for_region(instance, plan, Region::Megatron)?;
    let stack = stack::find(instance, &stages, BUILDS)?;
    let (layout, mtp) = layout(instance, &stages, &stack)?;
    let model = Model {
        devices,
        virtual_stages: None,
        decoders: stack.blocks.len(),
        mtp,
    };
    if let Some(fault) = layout.refusals(&model).into_iter().next() {
        return Err(fault);
    }
    let ranks = ranks.no_cpu("Megatron")?;
    let modes = megatron_modes::flags(instance, plan, (&stack.blocks, ranks.gpus()?))?;
    let states = megatron_states::flags(instance, plan)?;
    let environment = ranks
        .environment()?
        .map_or_else(String::new, |environment| environment.shell());
    let predictors = match mtp {
        0 => String::new(),
        mtp => format!(" --mtp-num-layers {mtp}"),
    };
    Ok(format!(
        "{environment}--num-layers {}{predictors} --pipeline-model-parallel-size {devices} --pipeline-model-parallel-layout \"{layout}\"{modes}{states}\n",
        stack.blocks.len(),
    ))
}

/// The layout of stages, and how many layers of multi-token prediction it has.
fn layout(instance: &Instance, stages: &Stages, stack: &Stack) -> Result<(Layout, usize), Fault> {
    let counts = stack::counts(instance, stages, stack)?;
    let [before, after] = stack::ends(instance, stages, stack)?;
    let (predictors, after) = instance.network.predictors(after);
    let mtp = predictors.len();
    let predictors: Vec<usize> = predictors.into_values().flatten().collect();
    let mut layout = Layout {
        stages: vec![Vec::new(); stages.count],
    };
    // A model without an embedding or a head still has the framework's own.
    let ends = [
        (&before, "the embedding", 0),
        (&predictors, "multi-token prediction", 0),
        (&after, "the head", stages.count - 1),
    ];
    let mut places = [0; 3];
    for (place, (layers, what, own)) in places.iter_mut().zip(ends) {
        *place = match layers.is_empty() {
            true => own,
            false => stack::one_stage(instance, stages, layers, what)?,
        };
    }
    layout.stages[places[0]].push(Letter::Embedding);
    for (stage, count) in layout.stages.iter_mut().zip(counts) {
        stage.extend(vec![Letter::Decoder; count]);
    }
    layout.stages[places[1]].extend(vec![Letter::Mtp; mtp]);
    layout.stages[places[2]].push(Letter::Loss);
    Ok((layout, mtp))
}

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
