//! Whether rates of devices hold for the numbers that a network computes with.

use super::layers::has_times;
use crate::precision::Precision;
use crate::spec::{DeviceKindSpec, InstanceSpec, LayerSpec};

/// Whether a layer's time on a kind comes from its work and the rates of the kind.
pub(super) fn is_roofline(layer: &LayerSpec, kind: &DeviceKindSpec) -> bool {
    let profile = kind.profile.as_ref().unwrap_or(&kind.name);
    let is_measured = layer.times.contains_key(profile) || has_times(layer);
    layer.work.is_some() && kind.flops_per_s.is_some() && !is_measured
}

/// What is said of every kind whose rates give times: a warning where they hold for other numbers or do not say for which, a
/// note where the network does not say.
pub(super) fn remarks(spec: &InstanceSpec, notes: &mut Vec<String>, warnings: &mut Vec<String>) {
    let kinds = spec.cluster.iter().flat_map(|cluster| &cluster.device_kinds);
    for kind in kinds {
        if !spec.network.layers.iter().any(|layer| is_roofline(layer, kind)) {
            continue;
        }
        let name = &kind.name;
        match (spec.network.precision, kind.precision) {
            (Some(network), Some(rates)) if network != rates => warnings.push(format!(
                "the network computes in {network}, and the rates of `{name}` hold for {rates}: its times are those of {rates}"
            )),
            (Some(network), None) => warnings.push(format!(
                "the network computes in {network}, and `{name}` does not say for which precision its rates hold"
            )),
            (None, Some(rates)) => notes.push(format!(
                "the network does not say in which precision it computes; the rates of `{name}` hold for {rates}"
            )),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// The precision of a kind's rates, where they give times.
pub(super) fn precision(spec: &InstanceSpec, kind: &DeviceKindSpec) -> Option<Precision> {
    let layers = &spec.network.layers;
    kind.precision
        .filter(|_| layers.iter().any(|layer| is_roofline(layer, kind)))
}
