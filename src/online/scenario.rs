//! Reading and validating scenarios.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::chain::chain;
use super::spec::{ProcessSpec, QUANTITIES, Quantity, SCHEMA, ScenarioSpec};
use super::states::{self, Process, Recorded, State};
use crate::fault::{Fault, FaultKind, InputError, closest};
use crate::hybrid::{Chain, Device, Slot};
use crate::import::{Source, from_structured, table};
use crate::instance::{CLUSTER_PRESETS, Instance};

/// The columns of a trace of states.
pub const COLUMNS: &[&str] = &["slot", "device", "quantity", "factor"];

/// What stands for the backbone in the column `device`.
const BACKBONE: &str = "backbone";

/// How far the chances of a row may be from adding up to 1.
const CHANCE_TOLERANCE: f64 = 1e-9;

/// A validated scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name for reports.
    pub name: String,
    /// The network.
    pub chain: Chain,
    /// Devices in the nominal state, with unique names `kind:number`.
    pub devices: Vec<Device>,
    /// Names of the budgets.
    pub budgets: Vec<String>,
    /// The most that each budget may pay per slot on average.
    pub per_slot: Vec<f64>,
    /// What the file says, for its numbers.
    pub spec: ScenarioSpec,
    /// What was assumed, one sentence each.
    pub notes: Vec<String>,
    backbone_bytes_per_ms: f64,
    processes: Vec<Process>,
    recorded: Vec<Recorded>,
}

impl Scenario {
    /// Reads a scenario and the files it names.
    ///
    /// # Errors
    ///
    /// Every fault of the scenario, each with its place; the faults of its instance, cluster or trace.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        let bytes = std::fs::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let source = Source { path, bytes: &bytes };
        let spec: ScenarioSpec = from_structured(&source).map_err(in_file)?;
        let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
        let cluster = spec.cluster.as_deref().map(|name| cluster(name, &beside));
        let instance = Instance::read(&beside(&spec.instance), cluster.as_deref())?;
        let mut scenario = Self::build(spec, &instance, path).map_err(in_file)?;
        if let Some(trace) = scenario.spec.trace.clone() {
            let trace = beside(&trace);
            scenario.recorded = scenario
                .trace(&trace)
                .map_err(|faults| InputError::in_file(&trace, faults))?;
        }
        Ok(scenario)
    }

    fn build(spec: ScenarioSpec, instance: &Instance, path: &Path) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        check_numbers(&spec, &mut faults);
        let link = instance.cluster.link;
        let backbone = spec.backbone_bytes_per_s.unwrap_or(link.bandwidth_bytes_per_s);
        let kinds: Vec<String> = instance
            .cluster
            .kinds
            .iter()
            .map(|kind| kind.name.clone())
            .collect();
        let budgets: Vec<String> = spec.budgets.iter().map(|budget| budget.name.clone()).collect();
        check_names(&spec, &kinds, &budgets, &mut faults);
        let mut devices = Vec::new();
        for (k, kind) in instance.cluster.kinds.iter().enumerate() {
            let Some(count) = kind.count else {
                faults.push(Fault::new(
                    format!("device kind `{}`", kind.name),
                    FaultKind::Missing {
                        what: "`count`".into(),
                        expected: "how many devices there are".into(),
                        remedy: "give the kind a `count` in the cluster".into(),
                    },
                ));
                continue;
            };
            let prices = spec.prices.get(&kind.name);
            let price = |budget: &String| prices.and_then(|of| of.get(budget)).copied().unwrap_or(0.0);
            devices.extend((0..count).map(|number| Device {
                name: format!("{}:{number}", kind.name),
                kind: k,
                slowdown: 1.0,
                bandwidth_bytes_per_ms: match kind.pays_communication {
                    true => link.bandwidth_bytes_per_s / 1e3,
                    false => f64::INFINITY,
                },
                memory_bytes: kind.memory_bytes.map_or(f64::INFINITY, |bytes| bytes as f64),
                prices: budgets.iter().map(price).collect(),
            }));
        }
        let mut processes = Vec::new();
        for (i, process) in spec.processes.iter().enumerate() {
            check_process(i, process, &mut faults);
            let driven = driven(i, process, &devices, &mut faults);
            processes.extend(driven.into_iter().map(|devices| Process {
                of: process.of,
                devices,
                factors: process.factors.clone(),
                transitions: process.transitions.clone(),
                start: process.start,
            }));
        }
        let chain = chain(instance)
            .map_err(|more| faults.extend(more))
            .unwrap_or_default();
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut notes = instance.notes.clone();
        if link.latency_ns > 0 {
            notes.push("the link's latency is left out: hybrid plans count bandwidth alone".into());
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: spec.name.clone().or(stem).unwrap_or_else(|| "scenario".into()),
            chain,
            devices,
            budgets,
            per_slot: spec.budgets.iter().map(|budget| budget.per_slot).collect(),
            spec,
            notes,
            backbone_bytes_per_ms: backbone / 1e3,
            processes,
            recorded: Vec::new(),
        })
    }

    fn trace(&self, path: &Path) -> Result<Vec<Recorded>, Vec<Fault>> {
        #[derive(Deserialize)]
        struct Row {
            slot: usize,
            device: String,
            quantity: String,
            factor: f64,
        }
        let bytes = std::fs::read(path).map_err(|error| vec![Fault::unreadable(path, &error)])?;
        let source = Source { path, bytes: &bytes };
        let rows: Vec<(u64, Row)> = table::rows(source.text()?, COLUMNS)?;
        let (mut faults, mut recorded) = (Vec::new(), Vec::<Recorded>::new());
        let mut last_slot = 0;
        for (line, row) in rows {
            let at = |column: &str| format!("line {line}, column `{column}`");
            let quantity = QUANTITIES.iter().find(|(name, _)| *name == row.quantity);
            let devices = self.devices.iter().map(|device| device.name.clone());
            let known: Vec<String> = devices.chain([BACKBONE.into()]).collect();
            let device = known.iter().position(|name| *name == row.device);
            match (quantity, device) {
                (None, _) => faults.push(Fault::new(
                    at("quantity"),
                    FaultKind::UnknownValue {
                        found: row.quantity,
                        known: QUANTITIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
                    },
                )),
                (_, None) => faults.push(Fault::new(
                    at("device"),
                    FaultKind::UnknownName {
                        what: "device",
                        similar: closest(&row.device, &known).map(str::to_owned),
                        name: row.device,
                    },
                )),
                (Some(&(_, of)), Some(position)) => {
                    let is_backbone = position == self.devices.len();
                    if is_backbone != (of == Quantity::Backbone) {
                        let found = format!("`{}` of `{}`", row.quantity, row.device);
                        let expected =
                            "`backbone` of `backbone`, and every other quantity of a device".into();
                        faults.push(Fault::new(
                            at("device"),
                            FaultKind::Contradiction { found, expected },
                        ));
                    }
                    if let Some(kind) = factor_fault(of, row.factor) {
                        faults.push(Fault::new(at("factor"), kind));
                    }
                    if row.slot < last_slot {
                        let found = format!("slot {}, after slot {last_slot}", row.slot);
                        let expected = "slots in rising order".into();
                        faults.push(Fault::new(
                            at("slot"),
                            FaultKind::Contradiction { found, expected },
                        ));
                    }
                    last_slot = row.slot;
                    recorded.push(Recorded {
                        slot: row.slot,
                        of,
                        devices: if is_backbone { vec![] } else { vec![position] },
                        factor: row.factor,
                    });
                }
            }
        }
        if faults.is_empty() {
            Ok(recorded)
        } else {
            Err(faults)
        }
    }

    /// The states of so many slots.
    pub fn states(&self, slots: usize, seed: u64) -> Vec<State> {
        states::states(self.devices.len(), slots, seed, &self.processes, &self.recorded)
    }

    /// The share of slots that each state has in the long run; `None` where there are more states than `most`, or a trace.
    pub fn stationary(&self, most: usize) -> Option<Vec<(State, f64)>> {
        match self.recorded.is_empty() {
            true => states::stationary(self.devices.len(), &self.processes, most),
            false => None,
        }
    }

    /// The slot of a state: the devices that are there, with their factors. Weights are those of `V` and `Q`.
    pub fn slot(&self, state: &State, time_weight: f64, queues: Vec<f64>) -> Slot<'_> {
        let present = self
            .devices
            .iter()
            .enumerate()
            .filter(|(i, _)| state.available[*i]);
        let devices = present.map(|(i, device)| Device {
            slowdown: state.slowdown[i],
            bandwidth_bytes_per_ms: device.bandwidth_bytes_per_ms * state.bandwidth[i],
            prices: device.prices.iter().map(|price| price * state.price[i]).collect(),
            ..device.clone()
        });
        Slot {
            chain: &self.chain,
            reading: self.spec.reading,
            devices: devices.collect(),
            backbone_bytes_per_ms: self.backbone_bytes_per_ms * state.backbone,
            samples: self.spec.samples,
            micro_batch: f64::from(self.spec.micro_batch),
            whole: self.spec.whole_samples,
            time_weight,
            queues,
        }
    }
}

/// A preset by its name, else a file beside the scenario.
fn cluster(name: &str, beside: &dyn Fn(&str) -> PathBuf) -> String {
    match CLUSTER_PRESETS.iter().any(|(preset, _)| *preset == name) {
        true => name.to_owned(),
        false => beside(name).display().to_string(),
    }
}

fn check_numbers(spec: &ScenarioSpec, faults: &mut Vec<Fault>) {
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
    let positive = |number: f64| number.is_finite() && number > 0.0;
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
    ask("batches_per_slot", batches, positive(batches), "a number above 0");
    ask(
        "time_weight",
        spec.time_weight,
        positive(spec.time_weight),
        "a number above 0",
    );
    if let Some(backbone) = spec.backbone_bytes_per_s {
        ask(
            "backbone_bytes_per_s",
            backbone,
            positive(backbone),
            "a number above 0",
        );
    }
    for (i, budget) in spec.budgets.iter().enumerate() {
        let at = format!("budgets[{i}].per_slot");
        ask(
            &at,
            budget.per_slot,
            positive(budget.per_slot),
            "a number above 0",
        );
    }
    for (kind, prices) in &spec.prices {
        for (budget, &price) in prices {
            let at = format!("prices.{kind}.{budget}");
            ask(&at, price, price.is_finite() && price >= 0.0, "a number from 0");
        }
    }
}

fn check_names(spec: &ScenarioSpec, kinds: &[String], budgets: &[String], faults: &mut Vec<Fault>) {
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

/// What is wrong with a factor.
fn factor_fault(of: Quantity, found: f64) -> Option<FaultKind> {
    let may_be_zero = matches!(of, Quantity::Price | Quantity::Availability);
    let holds = found.is_finite() && (found > 0.0 || may_be_zero && found == 0.0);
    let expected = if may_be_zero {
        "a number from 0"
    } else {
        "a number above 0"
    };
    (!holds).then_some(FaultKind::BadNumber { found, expected })
}

fn check_process(i: usize, process: &ProcessSpec, faults: &mut Vec<Fault>) {
    let count = process.factors.len();
    let mut contradicts = |at: String, found: String, expected: String| {
        faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
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
fn driven(i: usize, process: &ProcessSpec, devices: &[Device], faults: &mut Vec<Fault>) -> Vec<Vec<usize>> {
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
