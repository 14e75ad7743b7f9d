//! Reading and validating scenarios.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chain::chain;
use super::spec::{BudgetSpec, ScenarioSpec};
use super::states::{self, Process, Recorded, State};
use super::{long_run, trace, validate};
use crate::input::import::CLUSTER_PRESETS;
use crate::input::intake;
use crate::input::source::{Source, from_structured};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::units::ns_to_ms;
use crate::model::words::Words;
use crate::problem::hybrid::{Chain, Device, Slot};

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
    pub notes: Vec<Words>,
    backbone_bytes_per_ms: f64,
    latency_ms: f64,
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
        let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let source = Source { path, bytes: &bytes };
        let spec: ScenarioSpec = from_structured(&source).map_err(in_file)?;
        let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
        let cluster = spec.cluster.as_deref().map(|name| cluster(name, &beside));
        let instance = Instance::read(&beside(&spec.instance), cluster.as_deref())?;
        let mut scenario = Self::build(spec, &instance, path).map_err(in_file)?;
        if let Some(trace) = scenario.spec.trace.clone() {
            let trace = beside(&trace);
            scenario.recorded = trace::read(&trace, &scenario.devices)
                .map_err(|faults| InputError::in_file(&trace, faults))?;
        }
        match validate::products(&scenario.processes, &scenario.recorded) {
            None => Ok(scenario),
            Some(fault) => Err(in_file(vec![fault])),
        }
    }

    fn build(spec: ScenarioSpec, instance: &Instance, path: &Path) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        validate::numbers(&spec, &mut faults);
        let link = instance.cluster.link;
        let backbone = spec.backbone_bytes_per_s.unwrap_or(link.bandwidth_bytes_per_s);
        let kinds: Vec<String> = instance
            .cluster
            .kinds
            .iter()
            .map(|kind| kind.name.clone())
            .collect();
        let budgets: Vec<String> = spec.budgets.iter().map(|budget| budget.name.clone()).collect();
        validate::names(&spec, &kinds, &budgets, &mut faults);
        faults.extend(validate::levels(instance));
        let devices = devices(&spec, instance, &mut faults);
        faults.extend(validate::slots(spec.slots, devices.len()));
        let processes = processes(&spec, &devices, &mut faults);
        let chain = chain(instance)
            .map_err(|more| faults.extend(more))
            .unwrap_or_default();
        if !faults.is_empty() {
            return Err(faults);
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: spec.name.clone().or(stem).unwrap_or_else(|| "scenario".into()),
            chain,
            devices,
            budgets,
            per_slot: spec.budgets.iter().map(|budget| budget.per_slot).collect(),
            spec,
            notes: instance.notes.clone(),
            backbone_bytes_per_ms: backbone / 1e3,
            latency_ms: ns_to_ms(link.latency_ns),
            processes,
            recorded: Vec::new(),
        })
    }

    /// The kind of each device: those of one kind are alike but for the factors of a state.
    pub(crate) fn kinds(&self) -> Vec<usize> {
        self.devices.iter().map(|device| device.kind).collect()
    }

    /// The queues of the first slot.
    pub(crate) fn start_queues(&self) -> Vec<f64> {
        self.spec
            .budgets
            .iter()
            .map(|budget| budget.start_queue)
            .collect()
    }

    /// All factors at their means in the long run; what a trace records is not known beforehand.
    pub(crate) fn mean(&self) -> State {
        long_run::mean(self.devices.len(), &self.processes)
    }

    /// Why so many slots are too many, if they are.
    pub fn slots_fault(&self, slots: usize) -> Option<Fault> {
        validate::slots(slots, self.devices.len())
    }

    /// The states of so many slots, see [`Self::slots_fault`].
    pub fn states(&self, slots: usize, seed: u64) -> Vec<State> {
        states::states(self.devices.len(), slots, seed, &self.processes, &self.recorded)
    }

    /// The share of slots that each state has in the long run; `None` where there are more states than `most`, or a trace.
    /// States are told apart up to swaps of devices of one kind.
    pub fn stationary(&self, most: usize) -> Option<Vec<(State, f64)>> {
        match self.recorded.is_empty() {
            true => long_run::stationary(&self.kinds(), &self.processes, most),
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
            latency_ms: self.latency_ms,
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

/// The devices of all kinds, with the prices of the budgets.
fn devices(spec: &ScenarioSpec, instance: &Instance, faults: &mut Vec<Fault>) -> Vec<Device> {
    let link = instance.cluster.link;
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
        if let Some(fault) = validate::devices(
            &format!("device kind `{}`", kind.name),
            devices.len().saturating_add(count),
        ) {
            faults.push(fault);
            continue;
        }
        let prices = spec.prices.get(&kind.name);
        let price = |budget: &BudgetSpec| {
            let price = prices.and_then(|of| of.get(&budget.name));
            price.copied().unwrap_or(0.0)
        };
        devices.extend((0..count).map(|number| Device {
            name: format!("{}:{number}", kind.name),
            kind: k,
            slowdown: 1.0,
            bandwidth_bytes_per_ms: match kind.pays_communication {
                true => link.bandwidth_bytes_per_s / 1e3,
                false => f64::INFINITY,
            },
            memory_bytes: kind.memory_bytes.map_or(f64::INFINITY, |bytes| bytes as f64),
            prices: spec.budgets.iter().map(price).collect(),
        }));
    }
    devices
}

/// The chains of states, each with the devices that it drives.
fn processes(spec: &ScenarioSpec, devices: &[Device], faults: &mut Vec<Fault>) -> Vec<Process> {
    let mut processes = Vec::new();
    for (i, process) in spec.processes.iter().enumerate() {
        validate::process(i, process, faults);
        let driven = validate::driven(i, process, devices, faults);
        let transitions: Arc<[Vec<f64>]> = process.transitions.clone().into();
        processes.extend(driven.into_iter().map(|devices| Process {
            of: process.of,
            devices,
            factors: process.factors.clone(),
            transitions: Arc::clone(&transitions),
            start: process.start,
        }));
    }
    processes
}
