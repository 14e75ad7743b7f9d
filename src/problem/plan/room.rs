//! Tokens that a plan has room for.

use super::{Plan, PlanStage};
use crate::model::instance::Instance;
use crate::model::network::Layer;
use crate::model::settings::Settings;

/// Tokens that every device has room for; `None` in training, and where nothing is kept of a token or no memory is limited.
pub(super) fn tokens(instance: &Instance, settings: &Settings, stages: &[PlanStage]) -> Option<u64> {
    let by_stage = tokens_by_stage(instance, settings, stages, 1.0);
    by_stage.into_iter().flatten().min()
}

impl Plan {
    /// Tokens that the devices of each stage have room for, those that it holds room for among them, in a `part` of their memory. `None` for a
    /// stage that keeps nothing or may hold anything, and in training.
    ///
    /// Time O(layers + stages²).
    #[doc(hidden)]
    pub fn tokens_by_stage(&self, instance: &Instance, part: f64) -> Vec<Option<u64>> {
        match Settings::resolve(instance, &self.problem) {
            Ok(settings) => {
                tokens_by_stage(instance, &settings.of_plan_with(self.tokens), &self.stages, part)
            }
            Err(_) => vec![None; self.stages.len()],
        }
    }
}

impl Plan {
    /// Lets every stage hold room for more tokens.
    pub(crate) fn hold_more(&mut self, instance: &Instance, tokens: u64) {
        for stage in &mut self.stages {
            let bytes = tokens.saturating_mul(kept_of_a_token(instance, stage));
            stage.memory_bytes = stage.memory_bytes.saturating_add(bytes);
        }
    }
}

/// What is left of the memory of each stage's devices, over what its layers keep of a token, and the tokens that it holds room for already.
fn tokens_by_stage(
    instance: &Instance,
    settings: &Settings,
    stages: &[PlanStage],
    part: f64,
) -> Vec<Option<u64>> {
    if settings.mode.trains() {
        return vec![None; stages.len()];
    }
    let of_a_token: Vec<u64> = stages
        .iter()
        .map(|stage| kept_of_a_token(instance, stage))
        .collect();
    let tokens = |stage: &PlanStage| {
        // A device of several chunks holds them all.
        let same = |other: &usize| stages[*other].devices == stage.devices;
        let own: Vec<usize> = (0..stages.len()).filter(same).collect();
        let sum =
            |each: &dyn Fn(usize) -> u64| own.iter().fold(0, |sum: u64, &at| sum.saturating_add(each(at)));
        let kinds = stage.devices.iter().filter_map(|device| {
            let (kind, _) = device.rsplit_once(':')?;
            instance.cluster.kind(kind)
        });
        let limits = kinds.filter_map(|kind| settings.device_bytes(&instance.cluster, kind));
        let limit = limits.min().filter(|&limit| limit < u64::MAX)?;
        let left = ((limit as f64 * part) as u64).saturating_sub(sum(&|at| stages[at].memory_bytes));
        let more = left.checked_div(sum(&|at| of_a_token[at]))?;
        Some(settings.room.tokens.saturating_add(more))
    };
    stages.iter().map(tokens).collect()
}

/// Bytes that a device of a stage keeps of a token.
fn kept_of_a_token(instance: &Instance, stage: &PlanStage) -> u64 {
    let degree = stage.mode.as_ref().map(|mode| mode.tensor);
    let of_layer = |layer: &Layer| match degree {
        None => layer.cache.token_bytes,
        Some(degree) => {
            let modes = layer.modes();
            let mut of_degree = modes.iter().filter(|mode| mode.tensor == degree);
            of_degree.next().map_or(0, |mode| mode.cache.token_bytes)
        }
    };
    let named: std::collections::HashSet<&str> = stage.forward.iter().map(String::as_str).collect();
    let layers = instance.network.layers.iter();
    let here = layers.filter(|layer| named.contains(layer.id.as_str()));
    here.map(of_layer).fold(0, u64::saturating_add)
}
