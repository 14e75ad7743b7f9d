//! What is refused of shares where stages have modes.

use super::Settings;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::options::{Shares, WorkerMode};
use crate::model::setting;
use crate::model::words::words;

impl Settings {
    /// Shares of stages in modes that no search of these knows.
    pub(super) fn share_faults(&self, instance: &Instance) -> Vec<Fault> {
        if self.worker != WorkerMode::Concurrent {
            return Vec::new();
        }
        let resources = self
            .kinds
            .iter()
            .map(|&kind| &instance.cluster.kinds[kind].resources);
        let has_levels = self.share_parts.is_some()
            || (resources.clone().flatten()).any(|resource| !resource.levels.is_empty());
        let is_sum = !has_levels
            && self.shares != Shares::Even
            && resources.clone().all(|resources| resources.len() < 2);
        let at = setting::SHARES;
        let faults = [
            (
                self.shares == Shares::Global,
                words!("{} of stages in modes", at.given(self.shares)),
                "`best`, `even` or `theorem`: each stage has shares of its own".into(),
            ),
            (
                self.shares == Shares::Theorem && has_levels,
                words!("{} of devices whose resources have levels", at.given(self.shares)),
                "`best` or `even`: at the level that is nearest a stage of less work may take longer".into(),
            ),
            (
                !is_sum
                    && self
                        .included(instance)
                        .any(|layer| self.may_differ_forwards(layer)),
                "layers whose ways differ in forward propagation, or copy to the host, on devices of several resources or levels, or with `even` shares".into(),
                "layers that are computed again in backward propagation alone".into(),
            ),
        ];
        let faults = faults.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        let fault = |(_, found, expected)| Fault::new(at, FaultKind::Contradiction { found, expected });
        faults.map(fault).collect()
    }

    /// Whether a layer may be run in ways of one tensor degree that differ in their forward pass.
    fn may_differ_forwards(&self, layer: &Layer) -> bool {
        let modes = layer.modes();
        let allowed = modes.iter().filter(|mode| self.may_run(mode));
        let forwards = |mode: &LayerMode| -> Vec<Option<u64>> {
            let times = self.kinds.iter().map(|&kind| mode.times[kind]);
            times.map(|times| times.map(|times| times.forward_ns)).collect()
        };
        let differ = |one: &LayerMode, other: &LayerMode| {
            one.tensor == other.tensor && (forwards(one) != forwards(other))
        };
        let allowed: Vec<&LayerMode> = allowed.collect();
        allowed
            .iter()
            .any(|one| one.host_bytes > 0 || allowed.iter().any(|other| differ(one, other)))
    }
}
