//! A stage of a plan: what it holds and costs, and how an allocation becomes one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::weights;
use crate::model::instance::Instance;
use crate::model::options::{Communication, WorkerMode};
use crate::model::settings::Settings;
use crate::model::units::ns_to_ms;
use crate::problem::cost::allocation::{Allocation, StageLoad};
use crate::problem::cost::{self, PhaseCost, StageCost};
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// One stage of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStage {
    /// Position in the pipeline, from 1. Where devices hold several chunks, each chunk is a stage, and may be empty.
    pub index: usize,
    /// Layers whose forward propagation runs here.
    pub forward: Vec<String>,
    /// Layers whose backward propagation runs here.
    pub backward: Vec<String>,
    /// Devices, as `kind:number`.
    pub devices: Vec<String>,
    /// Shares of forward propagation by `kind.resource`, or by `kind` where that is all one resource; empty for sequential
    /// workers.
    pub shares: BTreeMap<String, f64>,
    /// Work and blocking transfers; of a concurrent worker the longer phase.
    pub load_ms: f64,
    /// Time of forward propagation on the stage's devices and shares.
    pub forward_ms: f64,
    /// Time of backward propagation, likewise.
    pub backward_ms: f64,
    /// The part of `backward_ms` that is gradients of weights, for which no other stage waits: `backward_ms` includes it. Absent
    /// where no layer of the network says, in inference, and for workers that run both phases at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_ms: Option<f64>,
    /// Transfers: blocking ones, or the busier of link in and link out where overlapped.
    pub communication_ms: f64,
    /// The same transfers by phase and direction; absent where nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// What its replicas take to exchange their gradients, once an iteration, of which `load_ms` and `communication_ms` have each micro-batch's
    /// part; absent where they exchange nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization_ms: Option<f64>,
    /// Memory in use; of a chunk, its part when its device holds most.
    pub memory_bytes: u64,
    /// Micro-batches between the forward and the backward pass of a layer that has both here, each with its stash; of a chunk, the
    /// most at any time. Absent in inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Versions of the weights that such a layer keeps: a gradient meets weights that are this less one updates newer than
    /// those it was computed with; absent in inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_versions: Option<u64>,
    /// How its devices and layers run; absent where stages have no modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PlanMode>,
    /// What each chunk of a prompt takes here, work and transfers together, or the work alone where these are overlapped; absent where none is read. The
    /// other times are those of the file's micro-batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks_ms: Vec<f64>,
    /// What of each chunk is received and sent beside the work, where transfers are overlapped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_transfers: Vec<Moved>,
}

/// How a stage runs: its devices are replicas, one after the other, and each replica is a tensor group.
///
/// Times of the stage are those between its micro-batches: what one replica takes, divided by the replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanMode {
    /// Devices of a tensor group.
    pub tensor: usize,
    /// Degree of expert parallelism: so many replicas share out the experts of every layer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub expert: usize,
    /// Degree of context parallelism: so many tensor groups of a replica share out the sequence of a micro-batch.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub context: usize,
    /// Members of a replica that share out every micro-batch and finish together, each of so many tensor groups as the context degree says.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub group: usize,
    /// Replicas, each of which takes every so-manieth micro-batch.
    pub replicas: usize,
    /// Layers that compute something again in the backward pass, or hand what they keep to the host, by the name of what.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recomputed: BTreeMap<String, Vec<String>>,
    /// Whether the state of the optimiser lies at the hosts of the devices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optimizer_offload: bool,
    /// Bytes that each device has at its host: that, and of all micro-batches in flight what layers keep that run `offload` or `...+offload` among
    /// `recomputed`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_bytes: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

fn one() -> usize {
    1
}

fn is_one(degree: &usize) -> bool {
    *degree == 1
}

/// What a stage moves for one micro-batch, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfers {
    /// During forward propagation.
    pub forward: Moved,
    /// During backward propagation.
    pub backward: Moved,
}

/// Transfers of one stage in one phase, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Received.
    pub in_ms: f64,
    /// Sent.
    pub out_ms: f64,
}

impl PlanStage {
    /// Its replicas, which take turns: each runs every so-manieth micro-batch on devices of its own. At least one.
    pub fn replicas(&self) -> usize {
        self.mode.as_ref().map_or(1, |mode| mode.replicas.max(1))
    }

    /// States what each chunk of a prompt takes, in ns: on the device, or on the link in, the device and the link out.
    pub(crate) fn state_chunks(&mut self, machines: &[Vec<u64>]) {
        let ms = |each: &Vec<u64>| -> Vec<f64> { each.iter().map(|&ns| ns_to_ms(ns)).collect() };
        match machines {
            [came_in, device, left] => {
                let moved = ms(came_in).into_iter().zip(ms(left));
                self.chunk_transfers = moved.map(|(in_ms, out_ms)| Moved { in_ms, out_ms }).collect();
                self.chunks_ms = ms(device);
            }
            _ => self.chunks_ms = machines.first().map(ms).unwrap_or_default(),
        }
    }

    /// The devices of a replica, by its position; all of the stage's where they cannot be shared out evenly.
    pub fn replica_devices(&self, replica: usize) -> &[String] {
        let replicas = self.replicas();
        match self.devices.len() / replicas {
            each if each * replicas == self.devices.len() && each > 0 => {
                self.devices.chunks(each).nth(replica).unwrap_or(&self.devices)
            }
            _ => &self.devices,
        }
    }
}

/// What runs a stage, and what it costs there.
pub(super) struct Staffed {
    devices: Vec<String>,
    /// The kinds of these devices, and how fast all of a kind are in backward propagation.
    pub(super) rates: Vec<(usize, f64)>,
    shares: BTreeMap<String, f64>,
    load_ns: u64,
    pub(super) cost: StageCost,
    /// Transfers received and sent, as if on links.
    moved: StageCost,
}

pub(super) fn plan_stages(instance: &Instance, problem: &Problem, allocation: &Allocation) -> Vec<PlanStage> {
    let (assignment, used) = cost::without_empty_stages(&allocation.assignment);
    let staffed = match &problem.workers {
        None => homogeneous(instance, problem, &assignment, used),
        Some(workers) => heterogeneous(problem, workers, allocation),
    };
    let memory = cost::stage_memory_bytes(problem, &assignment, used);
    let sums = cost::sums_ns(problem, (&assignment, &allocation.choices), used);
    let chunks = problem
        .reads()
        .and_then(|reads| reads.stages_ns(problem, &assignment, &allocation.choices));
    let chunks = chunks.unwrap_or_default();
    let settings = &problem.settings;
    let trains = settings.mode.trains();
    let splits = weights::are_told(instance, settings);
    let mut layers = vec![[Vec::new(), Vec::new()]; used];
    for (item, &stage) in assignment.iter().enumerate() {
        layers[stage][0].extend(&problem.items[item].layers);
        layers[stage][1].extend(&problem.items[item].backward_layers);
    }
    let names = |layers: &mut Vec<usize>| -> Vec<String> {
        layers.sort_unstable();
        layers
            .iter()
            .map(|&layer| instance.network.layers[layer].id.clone())
            .collect()
    };
    let stage = |(k, ([forward, backward], staffed)): (usize, (&mut [Vec<usize>; 2], Staffed))| PlanStage {
        index: k + 1,
        weight_ms: splits.then(|| settings.ms(weights::weight_ns(instance, backward, &staffed))),
        forward: names(forward),
        backward: names(backward),
        devices: staffed.devices,
        shares: staffed.shares,
        load_ms: settings.ms(staffed.load_ns),
        forward_ms: settings.ms(staffed.cost.forward.work_ns),
        backward_ms: settings.ms(staffed.cost.backward.work_ns),
        communication_ms: settings.ms(communication_ns(&staffed.cost)),
        transfers: transfers(settings, &staffed.moved),
        synchronization_ms: (sums[k] > 0).then(|| ns_to_ms(sums[k])),
        memory_bytes: memory[k],
        in_flight: trains.then(|| settings.in_flight(used - k)),
        weight_versions: trains.then(|| settings.weight_versions(used - k)),
        mode: None,
        chunks_ms: Vec::new(),
        chunk_transfers: Vec::new(),
    };
    let mut stages: Vec<PlanStage> = layers.iter_mut().zip(staffed).enumerate().map(stage).collect();
    let both = stages.iter_mut().zip(&chunks);
    both.for_each(|(stage, machines)| stage.state_chunks(machines));
    stages
}

/// One device of the kind a stage.
fn homogeneous(instance: &Instance, problem: &Problem, assignment: &Assignment, used: usize) -> Vec<Staffed> {
    let kind = &instance.cluster.kinds[problem.settings.kind].name;
    let costs = cost::stage_costs(problem, assignment);
    let moved = cost::stage_costs_under(problem, assignment, Communication::Overlapped);
    let stage = |(k, (cost, moved)): (usize, (StageCost, StageCost))| Staffed {
        devices: vec![format!("{kind}:{}", k + 1)],
        rates: vec![(problem.settings.kind, 1.0)],
        shares: BTreeMap::new(),
        load_ns: cost.load_ns(),
        cost,
        moved,
    };
    costs
        .into_iter()
        .zip(moved)
        .take(used)
        .enumerate()
        .map(stage)
        .collect()
}

/// The devices of each stage's choice, numbered along the pipeline, and their shares.
fn heterogeneous(problem: &Problem, workers: &Workers, allocation: &Allocation) -> Vec<Staffed> {
    let mut numbered = vec![0; workers.classes.len()];
    let loads = workers.loads(problem, allocation).unwrap_or_default();
    let moved = cost::stage_costs_under(problem, &allocation.assignment, Communication::Overlapped);
    let works = workers.works(problem, &allocation.assignment, loads.len());
    let moved = moved
        .into_iter()
        .zip(&works)
        .zip(&allocation.choices)
        .map(|((moved, work), &choice)| workers.moved(problem, &workers.choices[choice], work, moved));
    let stage = |((load, moved), &choice): ((StageLoad, StageCost), &usize)| {
        let choice = &workers.choices[choice];
        let mut devices = Vec::new();
        for (class, number) in numbered.iter_mut().enumerate() {
            for _ in 0..choice.devices[class] {
                *number += 1;
                devices.push(format!("{}:{number}", workers.classes[class].name));
            }
        }
        let keys = workers
            .resources(choice)
            .map(|(class, resource)| workers.share_key(class, resource));
        let load_ns = match problem.settings.worker {
            WorkerMode::Sequential => load.cost.load_ns(),
            WorkerMode::Concurrent => load.cost.forward.work_ns.max(load.cost.backward.work_ns),
        };
        Staffed {
            devices,
            rates: weights::rates(workers, choice),
            shares: keys.zip(load.levels.iter().map(|level| level.share)).collect(),
            load_ns,
            cost: load.cost,
            moved,
        }
    };
    loads
        .into_iter()
        .zip(moved)
        .zip(&allocation.choices)
        .map(stage)
        .collect()
}

/// Blocking transfers, or the busier link where they are overlapped; one of the two is zero.
pub(super) fn communication_ns(cost: &StageCost) -> u64 {
    let both = cost.both();
    both.communication_ns.max(both.link_in_ns).max(both.link_out_ns)
}

/// What the links of a stage move, if anything.
pub(super) fn transfers(settings: &Settings, cost: &StageCost) -> Option<Transfers> {
    let moved = |phase: &PhaseCost| Moved {
        in_ms: settings.ms(phase.link_in_ns),
        out_ms: settings.ms(phase.link_out_ns),
    };
    let transfers = Transfers {
        forward: moved(&cost.forward),
        backward: moved(&cost.backward),
    };
    (transfers != Transfers::default()).then_some(transfers)
}
