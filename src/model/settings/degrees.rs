//! What is wrong with the degrees of stages in modes: what no layer has, no device is there for, or nothing divides.

use std::collections::BTreeSet;

use super::Settings;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::Layer;
use crate::model::options::Degrees;
use crate::model::setting;
use crate::model::words::words;

/// The most that an expert's device may be busier than an even load: far above any.
const MOST_LOAD: f64 = 1e6;

impl Settings {
    /// Why there is no plan whatever the stages, where the degrees that are asked for say so; empty where they do not.
    pub(crate) fn reasons(&self, instance: &Instance) -> Vec<String> {
        if !self.modal {
            return Vec::new();
        }
        let devices = self.count(&instance.cluster, self.kind).unwrap_or(self.stages);
        let mut reasons: Vec<String> = self.tensor_reason(instance).into_iter().collect();
        reasons.extend(self.replicas_reason());
        let least = |degrees: &Degrees| match degrees {
            Degrees::Choose => 1,
            Degrees::Only(degrees) => degrees.first().copied().unwrap_or(1),
        };
        let (tensor, replicas) = (least(&self.tensor), least(&self.replicas));
        let context = least(&self.context_parallel);
        let needed = tensor.saturating_mul(replicas).saturating_mul(context);
        let degree = match context {
            1 => String::new(),
            context => format!(" and context degree {context}"),
        };
        if needed > devices {
            reasons.push(format!(
                "a stage takes {needed} devices at least ({replicas} replicas of tensor degree {tensor}{degree}), and there are {devices}"
            ));
        }
        reasons
    }

    /// Layers without a mode of the tensor degrees that are asked for, or groups that are wider than nodes.
    fn tensor_reason(&self, instance: &Instance) -> Option<String> {
        let Degrees::Only(asked) = &self.tensor else {
            return None;
        };
        let words = |degrees: &[usize], between: &str| {
            let words: Vec<String> = degrees.iter().map(usize::to_string).collect();
            words.join(between)
        };
        let layers: Vec<&Layer> = self.included(instance).collect();
        let lacks = |layer: &&&Layer| degrees(layer).is_disjoint(&asked.iter().copied().collect());
        let lacking: Vec<&Layer> = layers.iter().filter(lacks).copied().collect();
        let known = |layers: &[&Layer]| -> Vec<usize> {
            let all: BTreeSet<usize> = layers.iter().flat_map(|layer| degrees(layer)).collect();
            all.into_iter().collect()
        };
        if let Some(first) = lacking.first() {
            return Some(match lacking.len() == layers.len() {
                true => format!(
                    "no layer has a mode of tensor degree {}: they have {}",
                    words(asked, " or "),
                    words(&known(&layers), ", ")
                ),
                false => format!(
                    "layer `{}` has no mode of tensor degree {}: it has {}",
                    first.id,
                    words(asked, " or "),
                    words(&known(&[first]), ", ")
                ),
            });
        }
        let node = instance.cluster.nodes?.devices;
        let narrowest = asked.first().filter(|&&degree| degree > node)?;
        Some(format!(
            "a tensor group of {narrowest} devices does not fit in a node of {node}"
        ))
    }

    /// Numbers of replicas of which none divides the micro-batches.
    fn replicas_reason(&self) -> Option<String> {
        let (Degrees::Only(asked), Some(all), true) =
            (&self.replicas, self.micro_batches, self.mode.trains())
        else {
            return None;
        };
        if asked.iter().any(|&replicas| all % replicas as u64 == 0) {
            return None;
        }
        let words: Vec<String> = asked.iter().map(usize::to_string).collect();
        let words = words.join(" or ");
        Some(format!(
            "{words} replicas cannot share out {all} micro-batches evenly: {words} does not divide {all}"
        ))
    }

    /// The layers of the mode.
    pub(super) fn included<'a>(&'a self, instance: &'a Instance) -> impl Iterator<Item = &'a Layer> {
        (instance.network.layers.iter()).filter(|layer| self.includes(layer))
    }

    /// What is wrong with degrees of experts, with their load, and with degrees of context parallelism.
    pub(super) fn expert_faults(&self, instance: &Instance) -> impl Iterator<Item = Fault> {
        let of_experts = self.load_fault().into_iter().chain(self.expert_fault(instance));
        of_experts.chain(self.context_fault(instance))
    }

    /// A load of experts that is none, or that nothing bears.
    fn load_fault(&self) -> Option<Fault> {
        let found = self.expert_load;
        if !(1.0..=MOST_LOAD).contains(&found) {
            let expected = "a factor from 1 to 1000000";
            return Some(Fault::new(
                setting::EXPERT_LOAD,
                FaultKind::BadNumber { found, expected },
            ));
        }
        let kind = FaultKind::Contradiction {
            found: format!("a load of {found} without experts that are shared out").into(),
            expected: words!("{}", setting::EXPERT),
        };
        (found > 1.0 && self.expert.is_one()).then(|| Fault::new(setting::EXPERT_LOAD, kind))
    }

    /// Degrees of experts for a network that has none.
    fn expert_fault(&self, instance: &Instance) -> Option<Fault> {
        let has_experts = |layer: &Layer| layer.modes().iter().any(|mode| mode.experts.is_some());
        let kind = FaultKind::Contradiction {
            found: format!("`{}` of a network without experts", self.expert).into(),
            expected: "1, or layers that say their `experts`".into(),
        };
        let is_wrong = !self.expert.is_one() && !instance.network.layers.iter().any(has_experts);
        is_wrong.then(|| Fault::new(setting::EXPERT, kind))
    }

    /// Sequences to be shared out where nobody knows how long they are, or what is not counted where they are.
    fn context_fault(&self, instance: &Instance) -> Option<Fault> {
        let network = &instance.network;
        let keeps = |layer: &Layer| layer.modes().iter().any(|mode| mode.cache.token_bytes > 0);
        let (found, expected) = match () {
            () if self.context_parallel.is_one() => return None,
            () if !self.mode.trains() => ("inference", words!("{}", setting::MODE.given("training"))),
            () if network.micro_batch.is_none() || !network.layers.iter().any(keeps) => (
                "a network that does not say its tokens, or keys and values",
                "`micro_batch = { tokens }`, and layers that say their `kv_bytes_per_token`".into(),
            ),
            () if network.has_explicit_backward() => (
                "backward operators that are layers",
                "layers with both passes".into(),
            ),
            () => return None,
        };
        let found = words!(
            "{} with {}",
            found,
            setting::CONTEXT_PARALLEL.given(&self.context_parallel)
        );
        Some(Fault::new(
            setting::CONTEXT_PARALLEL,
            FaultKind::Contradiction { found, expected },
        ))
    }
}

/// Tensor degrees that a layer has modes of.
fn degrees(layer: &Layer) -> BTreeSet<usize> {
    layer.modes().iter().map(|mode| mode.tensor).collect()
}
