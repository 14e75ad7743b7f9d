//! What may lie at the hosts of devices: what layers keep for the backward pass, and states of optimisers.

use super::Settings;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::LayerMode;
use crate::model::options::{OptimizerOffload, Recompute};
use crate::model::setting;
use crate::model::words::{Words, words};

impl Settings {
    /// Whether a mode of a layer is among those that are asked for. No framework that plans are for is told what lies at hosts.
    pub(crate) fn may_run(&self, mode: &LayerMode) -> bool {
        self.recompute.names(&mode.recompute) && (mode.host_bytes == 0 || self.target.is_none())
    }

    /// What is to lie at hosts, where frameworks are not told so, or nothing can.
    pub(super) fn offload_faults(&self, instance: &Instance) -> impl Iterator<Item = Fault> {
        let of_layers = self.layers_fault(instance).into_iter();
        of_layers.chain(self.optimizer_fault(instance))
    }

    /// Layers that are to hand what they keep to hosts, for a framework that is not told so.
    fn layers_fault(&self, instance: &Instance) -> Option<Fault> {
        let target = self.target.filter(|_| self.recompute != Recompute::Choose)?;
        let layers = instance.network.layers.iter();
        let mut modes = layers.flat_map(|layer| &layer.modes);
        let is_asked = |mode: &&LayerMode| mode.host_bytes > 0 && self.recompute.names(&mode.recompute);
        let name = modes.find(is_asked).map(|mode| mode.recompute.clone())?;
        let kind = FaultKind::Contradiction {
            found: words!("`{}`, which `{}` is not told of", name, target.to_string()),
            expected: words!("what it computes again, or {} left out", setting::FOR),
        };
        Some(Fault::new(setting::RECOMPUTE, kind))
    }

    /// States of an optimiser that are to lie at hosts where there are none of them, or no hosts, or whose step a framework runs there.
    fn optimizer_fault(&self, instance: &Instance) -> Option<Fault> {
        let asked = self.optimizer_offload;
        let has_host = |&kind: &usize| instance.cluster.kinds[kind].host.is_some();
        let (with, expected): (Words, Words) = match self.target {
            _ if asked == OptimizerOffload::None => return None,
            _ if !self.mode.trains() => ("inference".into(), words!("{}", setting::MODE.given("training"))),
            _ if self.state_bytes.optimizer == 0 => (
                words!(
                    "{}, which keeps nothing beside weights and gradients",
                    setting::OPTIMIZER.given(self.optimizer)
                ),
                words!("{}, or `none`", setting::OPTIMIZER.given("adam")),
            ),
            _ if !self.kinds.iter().any(has_host) => (
                "devices without hosts".into(),
                "device kinds with `host_bytes_per_s`, or `none`".into(),
            ),
            Some(target) => (
                words!(
                    "{}, which runs the optimiser's step at the host or not at all: how long that takes is not counted",
                    setting::FOR.given(target)
                ),
                words!("`none`, or {} left out", setting::FOR),
            ),
            None => return None,
        };
        let kind = FaultKind::Contradiction {
            found: words!("`{}` with {}", asked.to_string(), with),
            expected,
        };
        Some(Fault::new(setting::OPTIMIZER_OFFLOAD, kind))
    }
}
