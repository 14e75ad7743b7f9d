//! Whether rates of devices hold for the numbers that a network computes with.

#[cfg(feature = "cli")]
use std::borrow::Cow;

use super::layers::has_times;
#[cfg(feature = "cli")]
use super::{layers::own_times, modes::base};
use crate::model::precision::Precision;
#[cfg(feature = "cli")]
use crate::model::roofline;
#[cfg(feature = "cli")]
use crate::model::spec::TimesSpec;
use crate::model::spec::{DeviceKindSpec, InstanceSpec, LayerSpec};
use crate::model::words::Words;

/// Whether a layer's time on a kind comes from its work and the rates of the kind.
pub(crate) fn is_roofline(layer: &LayerSpec, kind: &DeviceKindSpec) -> bool {
    let profile = kind.profile.as_ref().unwrap_or(&kind.name);
    let is_measured = layer.times.contains_key(profile) || has_times(layer);
    let has_work = layer.work.is_some() || layer.modes.iter().any(|mode| mode.work.is_some());
    has_work && kind.flops_per_s.is_some() && !is_measured
}

/// What a layer takes on a kind at the peaks of its rates; `None` where it says no work, or the kind no rates.
#[cfg(feature = "cli")]
pub(crate) fn peak_times(layer: &LayerSpec, kind: &DeviceKindSpec) -> Option<TimesSpec> {
    let base = match &layer.work {
        Some(_) => Cow::Borrowed(layer),
        None => base(layer),
    };
    let rates = kind.flops_per_s.zip(kind.memory_bytes_per_s);
    let (flops_per_s, memory_bytes_per_s) = rates.filter(|(flops, bytes)| *flops > 0.0 && *bytes > 0.0)?;
    Some(roofline::times(
        base.work.as_ref()?,
        flops_per_s,
        memory_bytes_per_s,
    ))
}

/// What a layer is said to take on a kind, whatever its work.
#[cfg(feature = "cli")]
pub(crate) fn measured_times(layer: &LayerSpec, kind: &DeviceKindSpec) -> Option<TimesSpec> {
    let base = base(layer);
    let profile = kind.profile.as_ref().unwrap_or(&kind.name);
    let own = has_times(&base).then(|| own_times(&base));
    base.times.get(profile).cloned().or(own)
}

/// What is said of every kind whose rates give times: a note that these are peaks, a warning where they hold for other numbers or do not say for which, a
/// note where the network does not say.
pub(super) fn remarks(spec: &InstanceSpec, notes: &mut Vec<Words>, warnings: &mut Vec<String>) {
    let kinds = spec.cluster.iter().flat_map(|cluster| &cluster.device_kinds);
    let timed: Vec<&DeviceKindSpec> = kinds.filter(|kind| gives_times(spec, kind)).collect();
    if !timed.is_empty() {
        let of_kind = |kind: &&DeviceKindSpec| {
            let part = match (kind.efficiency, kind.efficiencies.is_empty()) {
                (None, true) => "the".into(),
                (Some(part), true) => format!("{part} of the"),
                (_, false) => "parts by operator of the".into(),
            };
            let launches = kind.launch_ms.filter(|&ms| ms > 0.0);
            let launches = launches.map_or_else(String::new, |ms| format!(", and {ms} ms a pass of a layer"));
            format!("{part} peak rates of `{}`{launches}", kind.name)
        };
        let rates: Vec<String> = timed.iter().map(of_kind).collect();
        notes.push(format!("times are rooflines: FLOPs and bytes at {}", rates.join(", and ")).into());
    }
    for kind in timed {
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
            ).into()),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// The precision of a kind's rates, where they give times.
pub(super) fn precision(spec: &InstanceSpec, kind: &DeviceKindSpec) -> Option<Precision> {
    kind.precision.filter(|_| gives_times(spec, kind))
}

/// Whether some layer's time on a kind comes from the kind's rates.
pub(super) fn gives_times(spec: &InstanceSpec, kind: &DeviceKindSpec) -> bool {
    spec.network.layers.iter().any(|layer| is_roofline(layer, kind))
}

/// Whether a kind's rates hold for the network's numbers, as far as both say.
pub(super) fn hold_for(spec: &InstanceSpec, kind: &DeviceKindSpec) -> bool {
    let both = kind.precision.zip(spec.network.precision);
    both.is_none_or(|(rates, numbers)| rates.has_rates_of(numbers))
}
