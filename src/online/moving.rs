//! Layouts that change from slot to slot: what is left of one where devices have gone, and what moving to another takes.

use super::scenario::Scenario;
use crate::problem::hybrid::plan::Layout;
use crate::problem::hybrid::tentative::without_device;
use crate::problem::hybrid::{Device, Slot};

/// A layout of the scenario by position in a slot, without the devices that are not there; none if nothing is left.
pub(crate) fn present(scenario: &Scenario, slot: &Slot, layout: &Layout) -> Option<Layout> {
    let position = |device: &Device| slot.devices.iter().position(|other| other.name == device.name);
    let positions: Vec<Option<usize>> = scenario.devices.iter().map(position).collect();
    let mut layout = layout.clone();
    let gone = (0..positions.len()).filter(|&device| positions[device].is_none());
    for device in gone {
        let mut stages = layout.iter().flatten();
        if stages.any(|stage| stage.devices.contains(&device)) {
            layout = without_device(&layout, device)?;
        }
    }
    for device in layout.iter_mut().flatten().flat_map(|stage| &mut stage.devices) {
        *device = positions[*device]?;
    }
    (!layout.is_empty()).then_some(layout)
}

/// What devices hold, by position in the scenario.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    /// The last layout.
    pub layout: &'a Layout,
    /// Devices that have been there ever since.
    pub stayed: &'a [bool],
}

/// Time that moving layers adds to each batch, in ms: devices load in parallel what they did not hold.
///
/// `layout` is by position in the slot. The first plan moves nothing.
pub fn moving_ms(scenario: &Scenario, slot: &Slot, held: Option<Held>, layout: &Layout) -> f64 {
    let Some(last) = held else { return 0.0 };
    let loads = layout.iter().flatten().flat_map(|stage| {
        stage.devices.iter().map(move |&position| {
            let device = &slot.devices[position];
            let is_it = |&d: &usize| scenario.devices[d].name == device.name && last.stayed[d];
            let held = last
                .layout
                .iter()
                .flatten()
                .find(|stage| stage.devices.iter().any(is_it));
            let is_new = |layer: &usize| held.is_none_or(|held| !held.layers.contains(layer));
            let new = stage.layers.clone().filter(is_new);
            new.map(|layer| slot.chain.state_bytes[layer]).sum::<f64>() / device.bandwidth_bytes_per_ms
        })
    });
    loads.fold(0.0, f64::max) / scenario.spec.batches_per_slot
}
