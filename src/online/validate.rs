//! What can be wrong with a scenario.

use std::collections::HashMap;

use super::spec::{ProcessSpec, Quantity, SCHEMA, ScenarioSpec};
use super::states::{Process, Recorded};
use crate::model::fault::{Fault, FaultKind, closest};
use crate::model::instance::Instance;
use crate::problem::hybrid::Device;

/// Prices, budgets, queues and weights beyond this, or below its inverse where 0 makes no sense, are slips: no sum or product
/// of them may leave the range of doubles.
const LARGEST: f64 = 1e12;

/// The same for factors, and for the product of all factors that can meet on one device.
const LARGEST_FACTOR: f64 = 1e6;

/// Devices of a scenario, above what the exact method can count, and what all its slots together may hold of them: 25 bytes a device, and about nine times as much
/// beside.
const MOST_DEVICES: usize = 1_000;
const MOST_DEVICE_SLOTS: usize = 20_000_000;

/// How far the chances of a row may be from adding up to 1.
const CHANCE_TOLERANCE: f64 = 1e-9;

const POSITIVE: &str = "a number above 0, from 1e-12 to 1e12";
const FROM_ZERO: &str = "a number from 0 to 1e12";

/// Links that are not all alike: a scenario has one link between groups, and those of its devices.
pub(super) fn levels(instance: &Instance) -> Option<Fault> {
    let found = instance.cluster.unlike_links()?;
    let kind = FaultKind::Conflict {
        found: found.into(),
        expected: "one link between all groups of devices".into(),
        remedy: "leave out `links` of the cluster and `nodes` of its link, and say `backbone_bytes_per_s`"
            .into(),
    };
    Some(Fault::new("instance cluster", kind))
}

/// Numbers that are out of range, and a schema of another version.
pub(super) fn numbers(spec: &ScenarioSpec, faults: &mut Vec<Fault>) {
    if let Some(schema) = spec.schema.as_deref().filter(|schema| *schema != SCHEMA) {
        let kind = FaultKind::UnknownValue {
            found: schema.into(),
            known: vec![SCHEMA.into()],
        };
        faults.push(Fault::new("schema", kind));
    }
    let mut ask = |at: &str, found: f64, holds: bool, expected: &'static str| {
        if !holds {
            faults.push(Fault::new(at, FaultKind::BadNumber { found, expected }));
        }
    };
    let positive = |number: f64| (1.0 / LARGEST..=LARGEST).contains(&number);
    let from_zero = |number: f64| (0.0..=LARGEST).contains(&number);
    ask("slots", spec.slots as f64, spec.slots > 0, "a number from 1");
    ask(
        "samples",
        f64::from(spec.samples),
        spec.samples > 0,
        "a number from 1",
    );
    let micro_batch = f64::from(spec.micro_batch);
    let is_part = spec.micro_batch > 0 && spec.micro_batch <= spec.samples;
    ask(
        "micro_batch",
        micro_batch,
        is_part,
        "a number from 1 to `samples`",
    );
    let batches = spec.batches_per_slot;
    ask("batches_per_slot", batches, positive(batches), POSITIVE);
    ask(
        "time_weight",
        spec.time_weight,
        positive(spec.time_weight),
        POSITIVE,
    );
    if let Some(backbone) = spec.backbone_bytes_per_s {
        ask(
            "backbone_bytes_per_s",
            backbone,
            backbone.is_finite() && backbone > 0.0,
            "a number above 0",
        );
    }
    for (i, budget) in spec.budgets.iter().enumerate() {
        let at = format!("budgets[{i}].per_slot");
        ask(&at, budget.per_slot, positive(budget.per_slot), POSITIVE);
    }
    for (i, budget) in spec.budgets.iter().enumerate() {
        let (at, start) = (format!("budgets[{i}].start_queue"), budget.start_queue);
        ask(&at, start, from_zero(start), FROM_ZERO);
    }
    for (kind, prices) in &spec.prices {
        for (budget, &price) in prices {
            let at = format!("prices.{kind}.{budget}");
            ask(&at, price, from_zero(price), FROM_ZERO);
        }
    }
}

/// Names that nothing bears, or two budgets.
pub(super) fn names(spec: &ScenarioSpec, kinds: &[String], budgets: &[String], faults: &mut Vec<Fault>) {
    for (i, name) in budgets.iter().enumerate() {
        if budgets[..i].contains(name) {
            let (what, name) = ("budget", name.clone());
            faults.push(Fault::new(
                format!("budgets[{i}]"),
                FaultKind::DuplicateName { what, name },
            ));
        }
    }
    let mut known = |at: String, what: &'static str, name: &String, names: &[String]| {
        if !names.contains(name) {
            let similar = closest(name, names).map(str::to_owned);
            let name = name.clone();
            faults.push(Fault::new(at, FaultKind::UnknownName { what, name, similar }));
        }
    };
    for (kind, prices) in &spec.prices {
        known("prices".into(), "device kind", kind, kinds);
        for budget in prices.keys() {
            known(format!("prices.{kind}"), "budget", budget, budgets);
        }
    }
}

/// So many devices that not even their names fit.
pub(super) fn devices(at: &str, count: usize) -> Option<Fault> {
    let found = count as f64;
    let expected = "at most 1000 devices in all";
    (count > MOST_DEVICES).then(|| Fault::new(at, FaultKind::BadNumber { found, expected }))
}

/// So many slots that the states of all do not fit.
pub(super) fn slots(count: usize, devices: usize) -> Option<Fault> {
    let most = MOST_DEVICE_SLOTS / (devices + 9);
    let found = format!("{count} slots of {devices} devices");
    let expected = format!("at most {most} slots");
    (count > most).then(|| {
        Fault::new(
            "slots",
            FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            },
        )
    })
}

/// Factors that a device, or the backbone, could meet all at once, and whose product is out of range.
pub(super) fn products(processes: &[Process], recorded: &[Recorded]) -> Option<Fault> {
    let extremes = |factors: &[f64]| {
        let sizes = factors
            .iter()
            .filter(|factor| **factor > 0.0)
            .map(|factor| factor.ln().abs());
        sizes.fold(0.0, f64::max)
    };
    for of in [
        Quantity::Slowdown,
        Quantity::Bandwidth,
        Quantity::Price,
        Quantity::Backbone,
    ] {
        let mut sizes: HashMap<Option<usize>, f64> = HashMap::new();
        let mut meet = |devices: &[usize], size: f64| {
            let all = devices.iter().copied().map(Some);
            let at: Vec<Option<usize>> = if of == Quantity::Backbone {
                vec![None]
            } else {
                all.collect()
            };
            at.into_iter()
                .for_each(|at| *sizes.entry(at).or_default() += size);
        };
        let driving = processes.iter().filter(|process| process.of == of);
        driving.for_each(|process| meet(&process.devices, extremes(&process.factors)));
        // Rows of one device take turns.
        let mut rows: HashMap<&[usize], f64> = HashMap::new();
        for row in recorded.iter().filter(|row| row.of == of) {
            let largest = rows.entry(&row.devices).or_default();
            *largest = largest.max(extremes(&[row.factor]));
        }
        rows.into_iter().for_each(|(devices, size)| meet(devices, size));
        // A little beyond one factor at its limit, for the rounding of logarithms.
        let most = LARGEST_FACTOR.ln() * (1.0 + CHANCE_TOLERANCE);
        if let Some(size) = sizes.into_values().find(|size| *size > most) {
            let found = format!(
                "factors of one quantity whose product is as far from 1 as {:.3e}",
                size.exp()
            );
            let expected = "a product from 1e-6 to 1e6".into();
            return Some(Fault::new(
                "processes",
                FaultKind::Contradiction {
                    found: found.into(),
                    expected,
                },
            ));
        }
    }
    None
}

/// What is wrong with a factor.
pub(super) fn factor_fault(of: Quantity, found: f64) -> Option<FaultKind> {
    let may_be_zero = matches!(of, Quantity::Price | Quantity::Availability);
    let holds = (1.0 / LARGEST_FACTOR..=LARGEST_FACTOR).contains(&found) || may_be_zero && found == 0.0;
    let expected = if may_be_zero {
        "0, or a number from 1e-6 to 1e6"
    } else {
        "a number above 0, from 1e-6 to 1e6"
    };
    (!holds).then_some(FaultKind::BadNumber { found, expected })
}

/// A chain that is none.
pub(super) fn process(i: usize, process: &ProcessSpec, faults: &mut Vec<Fault>) {
    let count = process.factors.len();
    let mut contradicts = |at: String, found: String, expected: String| {
        faults.push(Fault::new(
            at,
            FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            },
        ));
    };
    let at = format!("processes[{i}]");
    if count == 0 || process.transitions.len() != count {
        contradicts(
            format!("{at}.transitions"),
            format!("{} rows for {count} factors", process.transitions.len()),
            "a row for each factor, at least one".into(),
        );
    }
    for (row, chances) in process.transitions.iter().enumerate() {
        let total: f64 = chances.iter().sum();
        let are_chances = chances.iter().all(|chance| (0.0..=1.0).contains(chance));
        if chances.len() != count || !are_chances || (total - 1.0).abs() > CHANCE_TOLERANCE {
            contradicts(
                format!("{at}.transitions[{row}]"),
                format!("{} chances with sum {total}", chances.len()),
                format!("{count} chances from 0 to 1 that sum to 1"),
            );
        }
    }
    if process.start >= count {
        contradicts(
            format!("{at}.start"),
            format!("state {}", process.start),
            format!("a state below {count}"),
        );
    }
    for (state, &factor) in process.factors.iter().enumerate() {
        if let Some(kind) = factor_fault(process.of, factor) {
            faults.push(Fault::new(format!("{at}.factors[{state}]"), kind));
        }
    }
}

/// The devices of each chain of a process: one by one, or all together where they share it.
pub(super) fn driven(
    i: usize,
    process: &ProcessSpec,
    devices: &[Device],
    faults: &mut Vec<Fault>,
) -> Vec<Vec<usize>> {
    if process.of == Quantity::Backbone {
        return vec![Vec::new()];
    }
    let kind_of = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    for name in process.devices.iter().flatten() {
        let is_known = |device: &Device| device.name == *name || kind_of(&device.name) == *name;
        if !devices.iter().any(is_known) {
            let known: Vec<String> = devices
                .iter()
                .flat_map(|device| [device.name.clone(), kind_of(&device.name)])
                .collect();
            faults.push(Fault::new(
                format!("processes[{i}].devices"),
                FaultKind::UnknownName {
                    what: "device kind or device",
                    similar: closest(name, &known).map(str::to_owned),
                    name: name.clone(),
                },
            ));
        }
    }
    let is_driven = |device: &Device| match &process.devices {
        None => true,
        Some(names) => names.contains(&device.name) || names.contains(&kind_of(&device.name)),
    };
    let members = (0..devices.len()).filter(|&position| is_driven(&devices[position]));
    match process.shared {
        true => vec![members.collect()],
        false => members.map(|position| vec![position]).collect(),
    }
}
