//! What a plan comes to in tokens a second, and in the part of its devices' peak: the figures by which a reader tells at a glance
//! whether times can be believed.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanRun, PlanStage};
use crate::model::instance::Instance;
use crate::model::settings::Settings;

/// Throughput of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Throughput {
    /// Tokens that the pipeline takes in a second.
    pub tokens_per_s: f64,
    /// Model FLOPs utilisation: the FLOPs that the model asks for, of those that the plan's devices could do in the time. Absent where
    /// the network does not say the one, or the cluster the other for its precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
}

impl Throughput {
    /// Of a plan that runs so, or with this objective where nobody knows; `None` where the network says nothing of tokens, or the objective takes no time.
    ///
    /// The part of peak is that of A. Chowdhery et al., *PaLM: scaling language modeling with pathways*, JMLR 24, 2023, appendix B:
    /// matrix products and attention, whatever is computed again, over the peak of all devices. In time linear in devices.
    pub(super) fn new(
        instance: &Instance,
        settings: &Settings,
        (objective_ms, run): (Option<f64>, Option<PlanRun>),
        stages: &[PlanStage],
    ) -> Option<Self> {
        // Of a prompt, the time to the first token says more.
        let micro_batch = instance
            .network
            .micro_batch
            .filter(|_| settings.prompt.is_none())?;
        let per_s = match run {
            Some(run) => run.micro_batches_per_s,
            None => {
                let seconds = objective_ms.filter(|&ms| ms > 0.0)? / 1e3;
                settings.objective.micro_batches(settings.micro_batches) as f64 / seconds
            }
        };
        let flops = match settings.mode.trains() {
            true => micro_batch
                .forward_flops
                .zip(micro_batch.backward_flops)
                .map(|(f, b)| f + b),
            false => micro_batch.forward_flops,
        };
        let peak = peak_flops_per_s(instance, stages);
        Some(Self {
            tokens_per_s: per_s * micro_batch.tokens,
            mfu: flops.zip(peak).map(|(flops, peak)| per_s * flops / peak),
        })
    }
}

/// The peak of all devices of a plan, where each states one for the numbers of the network.
fn peak_flops_per_s(instance: &Instance, stages: &[PlanStage]) -> Option<f64> {
    // Chunks of one device name it several times.
    let devices: BTreeSet<&String> = stages.iter().flat_map(|stage| &stage.devices).collect();
    let peak = |device: &String| {
        let (name, _) = device.rsplit_once(':')?;
        let kind = &instance.cluster.kinds[instance.cluster.kind(name)?];
        // Rates of resources are relative to that of layers, whatever it is.
        kind.flops_per_s.filter(|_| kind.resources.is_empty())
    };
    devices.into_iter().map(peak).sum()
}
