//! Megatron's flags for degrees and recomputation (NVIDIA, *Megatron Core user guide*, parallelism and activation recomputation).
//!
//! Megatron has one tensor degree and one number of replicas for all stages, and recomputes nothing, the attention core of all
//! layers (`selective`), all layers, or the first so many of every stage.

use std::collections::{BTreeMap, HashMap};

use super::framework::unsupported;
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::{Plan, PlanMode};

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
        let degrees = |mode: &PlanMode| format!("{} replicas of degree {}", mode.replicas, mode.tensor);
        if (mode.tensor, mode.replicas) != (first.tensor, first.replicas) {
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
    Ok(size(first.tensor * gpus) + &recomputation(&again(instance, plan, blocks)?)?)
}

/// The blocks of a stage.
pub(super) struct StageBlocks {
    /// How many there are.
    pub all: usize,
    /// How many of them compute again what.
    pub again: BTreeMap<String, usize>,
}

impl StageBlocks {
    pub(super) fn again(&self, name: &str) -> usize {
        self.again.get(name).copied().unwrap_or(0)
    }
}

/// For each stage, its blocks and how many of them compute again what.
pub(super) fn again(
    instance: &Instance,
    plan: &Plan,
    blocks: &BTreeMap<u64, Vec<usize>>,
) -> Result<Vec<StageBlocks>, Fault> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    for (name, layers) in plan
        .stages
        .iter()
        .filter_map(|stage| stage.mode.as_ref())
        .flat_map(|mode| &mode.recomputed)
    {
        names.extend(layers.iter().map(|layer| (layer.as_str(), name.as_str())));
    }
    let id = |at: usize| instance.network.layers[at].id.as_str();
    let mut stages = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        let own = blocks
            .values()
            .filter(|members| stage.forward.iter().any(|layer| layer == id(members[0])));
        let mut counts = BTreeMap::new();
        let mut total = 0;
        for members in own {
            total += 1;
            let name = names.get(id(members[0])).copied();
            if let Some(&other) = members.iter().find(|&&at| names.get(id(at)).copied() != name) {
                let found = "a block of which parts are computed again";
                let at = format!("layer `{}`", id(other));
                return Err(unsupported(
                    at,
                    found,
                    words!("whole blocks; {} takes layers", setting::TO.given("json")),
                ));
            }
            if let Some(name) = name {
                *counts.entry(name.to_owned()).or_insert(0) += 1;
            }
        }
        stages.push(StageBlocks {
            all: total,
            again: counts,
        });
    }
    Ok(stages)
}

fn recomputation(stages: &[StageBlocks]) -> Result<String, Fault> {
    let is_all = |name: &str| stages.iter().all(|stage| stage.again(name) == stage.all);
    let is_none = stages.iter().all(|stage| stage.again.is_empty());
    let full: Vec<usize> = stages.iter().map(|stage| stage.again("full")).collect();
    let is_only_full = stages
        .iter()
        .all(|stage| stage.again.keys().all(|name| name == "full"));
    let flags = match () {
        () if is_none => String::new(),
        () if is_all("full") => {
            " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1".into()
        }
        () if is_all("selective") => " --recompute-granularity selective".into(),
        () if is_only_full && full.iter().all(|&blocks| blocks == full[0]) => {
            let method = "--recompute-granularity full --recompute-method block";
            format!(" {method} --recompute-num-layers {}", full[0])
        }
        () => {
            let found = format!("{full:?} blocks computed again on the stages");
            let expected = words!(
                "none, all, or as many on every stage, which {} and `full` give; {} takes all",
                setting::RECOMPUTE.given("none"),
                setting::TO.given("json")
            );
            return Err(unsupported("the plan".into(), found, expected));
        }
    };
    Ok(flags)
}
