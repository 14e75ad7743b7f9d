//! Tentative search with linear solving, after Ling et al. (IEEE TPDS 36(2), 2025, doi 10.1109/TPDS.2024.3506588). A
//! reconstruction: the paper's abstract names the method, its listing was not available.
//!
//! Discrete moves change a layout: shift a cut, move, add, drop or swap devices, split a stage or merge two, open or close
//! a pipeline. For each tried layout the shares and the time are the optimum of a linear program, which has a closed form
//! (`super::shares`). The best move is taken until none helps.

use std::collections::HashSet;
use std::ops::Range;

use super::plan::{HybridPlan, Layout, Rule, Stage, plan_of};
use super::{Reading, Slot};

/// Moves taken before a search gives up; each one lowers the value, so this only bounds the time of a slot.
const MOST_MOVES: usize = 60;

/// By how many layers a cut is shifted at once.
const SHIFTS: [usize; 4] = [1, 2, 4, 8];

/// Searches from the last slot's layout, without the devices that have gone, and from three layouts of the slot itself: the
/// best single device, all devices in one pipeline, and all devices side by side.
///
/// `last` names devices by position in this slot. Returns `None` if no start has a plan.
pub fn search(slot: &Slot, last: Option<Layout>) -> Option<HybridPlan> {
    let all = 0..slot.chain.layers();
    let whole = |devices: Vec<usize>| Stage {
        layers: all.clone(),
        devices,
    };
    let devices = 0..slot.devices.len();
    let plan = |layout: Layout| plan_of(slot, layout, Rule::Best);
    let least = |a: &HybridPlan, b: &HybridPlan| a.value(slot).total_cmp(&b.value(slot));
    let singles = devices
        .clone()
        .filter_map(|device| plan(vec![vec![whole(vec![device])]]));
    let side_by_side = match slot.reading {
        Reading::PipelineOfGroups => vec![vec![whole(devices.collect())]],
        Reading::ParallelPipelines => devices.map(|device| vec![whole(vec![device])]).collect(),
    };
    let layouts = last.into_iter().chain([balanced(slot), side_by_side]);
    let starts = layouts.filter_map(plan).chain(singles.min_by(least));
    starts.map(|start| improve(slot, start)).min_by(least)
}

fn improve(slot: &Slot, mut best: HybridPlan) -> HybridPlan {
    let mut seen: HashSet<Layout> = HashSet::new();
    for _ in 0..MOST_MOVES {
        let value = best.value(slot);
        let candidates = neighbours(slot, &best.layout).into_iter();
        let plans = candidates
            .filter(|layout| seen.insert(layout.clone()))
            .filter_map(|layout| plan_of(slot, layout, Rule::Best));
        let next = plans.min_by(|a, b| a.value(slot).total_cmp(&b.value(slot)));
        match next.filter(|next| next.value(slot) < value) {
            Some(next) => best = next,
            None => break,
        }
    }
    best
}

/// All devices in one pipeline, as many layers to each as its speed allows: the start where there is no last slot.
fn balanced(slot: &Slot) -> Layout {
    let layers = slot.chain.layers();
    let all = 0..layers;
    let rates: Vec<f64> = (0..slot.devices.len())
        .map(|device| 1.0 / slot.sample_ms(device, &all))
        .collect();
    let total: f64 = rates.iter().sum();
    let (mut stages, mut first, mut done) = (Vec::new(), 0, 0.0);
    for (device, rate) in rates.iter().enumerate() {
        done += rate;
        let end = match device + 1 == rates.len() {
            true => layers,
            false => (done / total * layers as f64).round() as usize,
        };
        if end > first {
            let devices = vec![device];
            stages.push(Stage {
                layers: first..end,
                devices,
            });
            first = end;
        }
    }
    vec![stages]
}

/// Every layout that one move leads to.
fn neighbours(slot: &Slot, layout: &Layout) -> Vec<Layout> {
    let mut found = Vec::new();
    let mut used = vec![false; slot.devices.len()];
    for &device in layout.iter().flatten().flat_map(|stage| &stage.devices) {
        used[device] = true;
    }
    let free: Vec<usize> = (0..used.len()).filter(|&device| !used[device]).collect();
    cuts(layout, &mut found);
    swaps(layout, &free, &mut found);
    drops(layout, &mut found);
    for &device in &free {
        insertions(slot, layout, device, &mut found);
    }
    let places = layout.iter().flatten().flat_map(|stage| &stage.devices);
    for &device in places {
        if let Some(without) = without_device(layout, device) {
            insertions(slot, &without, device, &mut found);
        }
    }
    if slot.reading == Reading::PipelineOfGroups {
        merges(layout, &mut found);
    }
    found
}

/// Shifts each cut.
fn cuts(layout: &Layout, found: &mut Vec<Layout>) {
    for (p, stages) in layout.iter().enumerate() {
        for k in 1..stages.len() {
            let cut = stages[k].layers.start;
            let inside = stages[k - 1].layers.start + 1..stages[k].layers.end;
            let shifted = SHIFTS
                .into_iter()
                .flat_map(|shift| [cut.wrapping_sub(shift), cut + shift]);
            for to in shifted.filter(|to| inside.contains(to)) {
                let mut moved = layout.clone();
                moved[p][k - 1].layers.end = to;
                moved[p][k].layers.start = to;
                found.push(moved);
            }
        }
    }
}

/// Swaps two devices of different stages, or one in use and one that is free; and two neighbouring groups.
fn swaps(layout: &Layout, free: &[usize], found: &mut Vec<Layout>) {
    let mut places = Vec::new();
    for (p, stages) in layout.iter().enumerate() {
        for (k, stage) in stages.iter().enumerate() {
            places.extend((0..stage.devices.len()).map(|i| (p, k, i)));
        }
        for k in 1..stages.len() {
            let mut swapped = layout.clone();
            let devices = std::mem::take(&mut swapped[p][k - 1].devices);
            let other = std::mem::replace(&mut swapped[p][k].devices, devices);
            swapped[p][k - 1].devices = other;
            found.push(swapped);
        }
    }
    for (at, &(p, k, i)) in places.iter().enumerate() {
        let device = layout[p][k].devices[i];
        for &(p2, k2, i2) in places[at + 1..]
            .iter()
            .filter(|place| (place.0, place.1) != (p, k))
        {
            let mut swapped = layout.clone();
            swapped[p][k].devices[i] = layout[p2][k2].devices[i2];
            swapped[p2][k2].devices[i2] = device;
            found.push(swapped);
        }
        for &other in free {
            let mut swapped = layout.clone();
            swapped[p][k].devices[i] = other;
            found.push(swapped);
        }
    }
}

/// Drops a device, or a whole pipeline.
fn drops(layout: &Layout, found: &mut Vec<Layout>) {
    let devices = layout.iter().flatten().flat_map(|stage| &stage.devices);
    found.extend(devices.filter_map(|&device| without_device(layout, device)));
    if layout.len() > 1 {
        for p in 0..layout.len() {
            let mut fewer = layout.clone();
            fewer.remove(p);
            found.push(fewer);
        }
    }
}

/// The layout without a device; a stage that this leaves empty goes to its neighbour, a pipeline that it leaves empty ends.
pub(crate) fn without_device(layout: &Layout, device: usize) -> Option<Layout> {
    let mut layout = layout.clone();
    for p in 0..layout.len() {
        let Some(k) = layout[p].iter().position(|stage| stage.devices.contains(&device)) else {
            continue;
        };
        layout[p][k].devices.retain(|other| *other != device);
        if layout[p][k].devices.is_empty() {
            let layers = layout[p].remove(k).layers;
            match (k, layout[p].is_empty()) {
                (_, true) => {
                    layout.remove(p);
                }
                (0, _) => layout[p][0].layers.start = layers.start,
                _ => layout[p][k - 1].layers.end = layers.end,
            }
        }
        return (!layout.is_empty()).then_some(layout);
    }
    None
}

/// Adds a device: to a stage where stages are groups, as a stage of its own, or as a pipeline of its own.
fn insertions(slot: &Slot, layout: &Layout, device: usize, found: &mut Vec<Layout>) {
    for (p, stages) in layout.iter().enumerate() {
        for (k, stage) in stages.iter().enumerate() {
            if slot.reading == Reading::PipelineOfGroups {
                let mut joined = layout.clone();
                joined[p][k].devices.push(device);
                found.push(joined);
            }
            let Range { start, end } = stage.layers;
            let middle = (start + end) / 2;
            if middle == start {
                continue;
            }
            // The new stage takes a half of the layers, the first or the last.
            for (new, own, at) in [
                (start..middle, middle..end, k),
                (middle..end, start..middle, k + 1),
            ] {
                let mut split = layout.clone();
                split[p][k].layers = own;
                let new = Stage {
                    layers: new,
                    devices: vec![device],
                };
                split[p].insert(at, new);
                found.push(split);
            }
        }
    }
    if slot.reading == Reading::ParallelPipelines {
        let mut more = layout.clone();
        more.push(vec![Stage {
            layers: 0..slot.chain.layers(),
            devices: vec![device],
        }]);
        found.push(more);
    }
}

/// Merges two neighbouring groups.
fn merges(layout: &Layout, found: &mut Vec<Layout>) {
    for (p, stages) in layout.iter().enumerate() {
        for k in 1..stages.len() {
            let mut merged = layout.clone();
            let last = merged[p].remove(k);
            merged[p][k - 1].layers.end = last.layers.end;
            merged[p][k - 1].devices.extend(last.devices);
            found.push(merged);
        }
    }
}
