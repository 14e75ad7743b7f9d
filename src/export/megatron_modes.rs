//! Megatron's flags for degrees and recomputation (NVIDIA, *Megatron Core user guide*, parallelism and activation recomputation).
//!
//! Megatron has one tensor degree and one number of replicas for all stages, and recomputes nothing, the attention core of all
//! layers (`selective`), all layers, or the first so many of every stage.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::framework::unsupported;
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::{Plan, PlanMode, PlanStage};

/// The flags for a plan whose blocks are layers at these positions, on devices of so many GPUs; empty where stages have no modes and
/// devices are single GPUs.
///
/// A group that splits layers splits by sequence what is not split by width: plans count the stashes of such groups so, and where they
/// do not, less is held than planned.
pub(super) fn flags(
    instance: &Instance,
    plan: &Plan,
    (blocks, gpus): (&BTreeMap<u64, Vec<usize>>, usize),
) -> Result<String, Fault> {
    let modes: Vec<&PlanMode> = plan
        .stages
        .iter()
        .filter_map(|stage| stage.mode.as_ref())
        .collect();
    let size = |degree: usize| match degree {
        1 => " --tensor-model-parallel-size 1".to_owned(),
        degree => format!(" --tensor-model-parallel-size {degree} --sequence-parallel"),
    };
    let Some(first) = modes.first() else {
        return Ok(if gpus > 1 { size(gpus) } else { String::new() });
    };
    for (mode, stage) in modes.iter().zip(&plan.stages) {
        let degrees = |mode: &PlanMode| {
            let experts = match mode.expert {
                1 => String::new(),
                expert => format!(", expert degree {expert}"),
            };
            let context = match mode.context {
                1 => String::new(),
                context => format!(", context degree {context}"),
            };
            format!(
                "{} replicas of degree {}{experts}{context}",
                mode.replicas, mode.tensor
            )
        };
        let of = |mode: &PlanMode| (mode.tensor, mode.expert, mode.context, mode.replicas);
        if of(mode) != of(first) {
            let expected = words!(
                "{}, as on stage 1: solve again with one degree for all stages, such as {}, and with {} where that does not fit; {} takes all",
                degrees(first),
                setting::TENSOR
                    .given(first.tensor)
                    .and(setting::REPLICAS.given(first.replicas)),
                setting::RECOMPUTE.given("full"),
                setting::TO.given("json")
            );
            return Err(unsupported(
                format!("stage {}", stage.index),
                degrees(mode),
                expected,
            ));
        }
    }
    // Megatron splits experts by its tensor degree as plans do, unless it is told another.
    let experts = match first.expert {
        1 => String::new(),
        expert => format!(" --expert-model-parallel-size {expert}"),
    };
    let context = match first.context {
        1 => String::new(),
        context => format!(" --context-parallel-size {context}"),
    };
    Ok(size(first.tensor * gpus) + &context + &experts + &recomputation(&again(instance, plan, blocks)?)?)
}

/// The blocks of a stage.
pub(super) struct StageBlocks {
    /// What each computes again, in their order.
    blocks: Vec<Option<String>>,
}

impl StageBlocks {
    /// Whether each computes again what has this name.
    pub(super) fn are_all(&self, name: &str) -> bool {
        self.blocks.iter().all(|block| block.as_deref() == Some(name))
    }

    /// How many compute again what has this name, if they are the first ones and the others compute nothing.
    fn first(&self, name: &str) -> Option<usize> {
        let is_one = |block: &&Option<String>| block.as_deref() == Some(name);
        let first = self.blocks.iter().take_while(is_one).count();
        self.blocks[first..].iter().all(Option::is_none).then_some(first)
    }
}

/// Layers of a stage that compute something again.
pub(super) fn recomputed(stage: &PlanStage) -> usize {
    let named = stage.mode.iter().flat_map(|mode| mode.recomputed.values());
    named.map(Vec::len).sum()
}

/// For each stage, its blocks and which of them compute again what: all their layers that can, and no layer elsewhere.
pub(super) fn again(
    instance: &Instance,
    plan: &Plan,
    blocks: &BTreeMap<u64, Vec<usize>>,
) -> Result<Vec<StageBlocks>, Fault> {
    let layers = &instance.network.layers;
    let refused = |at: String, found: &str| {
        let expected = words!("whole blocks; {} takes layers", setting::TO.given("json"));
        Err(unsupported(at, found, expected))
    };
    let mut stages = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (name, layers) in stage.mode.iter().flat_map(|mode| &mode.recomputed) {
            names.extend(layers.iter().map(|layer| (layer.as_str(), name.as_str())));
        }
        let degree = stage.mode.as_ref().map_or(1, |mode| mode.tensor);
        let own: HashSet<&str> = stage.forward.iter().map(String::as_str).collect();
        let mut of_stage = StageBlocks { blocks: Vec::new() };
        for members in blocks
            .values()
            .filter(|members| own.contains(layers[members[0]].id.as_str()))
        {
            let named = |&at: &usize| names.get(layers[at].id.as_str()).copied();
            let Some(name) = members.iter().find_map(named) else {
                of_stage.blocks.push(None);
                continue;
            };
            let can = |at: usize| {
                let modes = layers[at].modes();
                modes
                    .iter()
                    .any(|mode| mode.tensor == degree && mode.recompute == name)
            };
            if let Some(&other) = members
                .iter()
                .find(|&at| named(at) != Some(name) && (named(at).is_some() || can(*at)))
            {
                let at = format!("layer `{}`", layers[other].id);
                return refused(at, "a block of which parts are computed again");
            }
            members.iter().for_each(|&at| {
                names.remove(layers[at].id.as_str());
            });
            of_stage.blocks.push(Some(name.to_owned()));
        }
        if let Some(layer) = names.keys().min() {
            return refused(
                format!("layer `{layer}`"),
                "a layer outside of blocks that is computed again",
            );
        }
        stages.push(of_stage);
    }
    Ok(stages)
}

fn recomputation(stages: &[StageBlocks]) -> Result<String, Fault> {
    let is_all = |name: &str| stages.iter().all(|stage| stage.are_all(name));
    let full: Vec<Option<usize>> = stages.iter().map(|stage| stage.first("full")).collect();
    let again = |stage: &StageBlocks| stage.blocks.iter().flatten().count();
    let flags = match () {
        () if stages.iter().all(|stage| again(stage) == 0) => String::new(),
        () if is_all("full") => {
            " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1".into()
        }
        () if is_all("selective") => " --recompute-granularity selective".into(),
        () if full[0].is_some() && full.iter().all(|&blocks| blocks == full[0]) => {
            let method = "--recompute-granularity full --recompute-method block";
            format!(" {method} --recompute-num-layers {}", full[0].unwrap_or(0))
        }
        () => {
            let counts: Vec<usize> = stages.iter().map(again).collect();
            let found = format!("{counts:?} blocks computed again on the stages");
            let expected = words!(
                "none, all, or as many on every stage, its first ones, which {} and `full` give; {} takes all",
                setting::RECOMPUTE.given("none"),
                setting::TO.given("json")
            );
            return Err(unsupported("the plan".into(), found, expected));
        }
    };
    Ok(flags)
}
