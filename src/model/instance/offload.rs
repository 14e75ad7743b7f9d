//! Offload: what layers keep for the backward pass may lie at the host meanwhile (M. Rhu et al., *vDNN*, MICRO 2016).
//!
//! Each mode that keeps something has another beside it that keeps none of it: the device copies it to its host behind the forward pass and
//! back before the backward one. While either copies and runs, what is copied is on the device, as workspace. Copies take turns with
//! work, which is the most that they take.

use crate::model::cluster::DeviceKind;
use crate::model::network::{LayerMode, Network};
use crate::model::recompute::{NONE, OFFLOAD};

/// Lists the modes of all layers that hand what they keep to a host, behind those that they have, for the kinds that can. Leaves networks alone whose
/// backward operators are layers of their own, which nobody tells what is kept for them.
pub(super) fn to_hosts(network: &mut Network, kinds: &[DeviceKind]) {
    let has_hosts = kinds.iter().any(|kind| kind.host.is_some());
    if !has_hosts || network.has_explicit_backward() {
        return;
    }
    for layer in network.layers.iter_mut().filter(|layer| layer.returns) {
        let mut modes = layer.modes().into_owned();
        let handed = modes.iter().filter_map(|mode| handed(mode, kinds));
        let is_new = |own: &LayerMode| {
            let is_it = |mode: &LayerMode| (mode.tensor, &mode.recompute) == (own.tensor, &own.recompute);
            !modes.iter().any(is_it)
        };
        let handed: Vec<LayerMode> = handed.filter(is_new).collect();
        if !handed.is_empty() {
            modes.extend(handed);
            layer.modes = modes;
        }
    }
}

/// The mode that hands to a host what this one keeps.
fn handed(mode: &LayerMode, kinds: &[DeviceKind]) -> Option<LayerMode> {
    let times = mode.times.iter().zip(kinds);
    let times: Vec<_> = times.map(|(times, kind)| kind.host.and(*times)).collect();
    let may = mode.stash_bytes > 0 && times.iter().any(Option::is_some);
    may.then(|| LayerMode {
        recompute: match mode.recompute.as_str() {
            NONE => OFFLOAD.to_owned(),
            again => format!("{again}+{OFFLOAD}"),
        },
        times,
        stash_bytes: 0,
        host_bytes: mode.stash_bytes,
        workspace_bytes: mode.workspace_bytes.saturating_add(mode.stash_bytes),
        ..mode.clone()
    })
}
