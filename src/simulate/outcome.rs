//! What a simulation found, as files and reports hold it.

use serde::Serialize;

use super::measure;
use crate::cost::{PhaseCost, StageCost, formula_ns};
use crate::options::{Mode, Objective, Schedule};
use crate::pipeline::{
    Activity, Channels, Phase, PhaseTimes, Pipeline, Resource, Run, Streams, Task, makespan_ns,
};
use crate::plan::Plan;
use crate::units::{NS_PER_MS, ns_to_ms};

/// The value of `schema` in simulations of this version.
pub const SCHEMA: &str = "stagecut-simulation/1";

/// What fixed the order in which the stages worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OrderName {
    /// A schedule.
    Schedule(Schedule),
    /// A list, such as a published rule writes, by its name.
    Rule(&'static str),
}

impl OrderName {
    /// Whether every forward pass comes before every backward pass.
    pub fn is_all_forward_first(self) -> bool {
        match self {
            Self::Schedule(schedule) => schedule.is_all_forward_first(),
            Self::Rule(_) => false,
        }
    }
}

impl std::fmt::Display for OrderName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Schedule(schedule) => schedule.fmt(f),
            Self::Rule(name) => f.pad(name),
        }
    }
}

/// A simulated run, with what the plan says beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// The format's version.
    pub schema: &'static str,
    /// Name of the plan's instance.
    pub instance: String,
    /// Training or inference.
    pub mode: Mode,
    /// The schedule, or the rule that listed the order.
    pub schedule: OrderName,
    /// Micro-batches that were run.
    pub micro_batches: u64,
    /// Time until all of them are done, in ms.
    pub iteration_ms: f64,
    /// That time by the standard formula (`formula_ns`), in ms; none for asynchronous and concurrent schedules, and for rules.
    pub formula_iteration_ms: Option<f64>,
    /// Time between micro-batches in steady state, in ms; none for GPipe and for listed orders, which are those of one iteration, and for
    /// too few micro-batches.
    pub period_ms: Option<f64>,
    /// Whether that is the exact period of a periodic run, not an average.
    pub period_is_exact: bool,
    /// The busiest resource's time for one micro-batch, in ms: what the period would be at best.
    pub least_period_ms: f64,
    /// What the plan minimises.
    pub objective: Objective,
    /// The plan's objective in ms.
    pub objective_ms: Option<f64>,
    /// Share of the workers' time in which they were idle.
    pub bubble_share: f64,
    /// The stages.
    pub stages: Vec<StageInFlight>,
    /// The resources, stage by stage.
    pub resources: Vec<Lane>,
    /// Every event, by resource and time.
    pub events: Vec<Event>,
}

/// Micro-batches in flight on a stage: from the start of forward to the end of backward propagation, or of forward
/// propagation in inference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageInFlight {
    /// Position in the pipeline, from 1.
    pub stage: usize,
    /// Its devices.
    pub devices: Vec<String>,
    /// The most at any time.
    pub most_in_flight: u64,
    /// As many as the schedule is known for, or as the plan has counted where a rule listed the order; none in inference.
    pub standard_in_flight: Option<u64>,
}

/// How busy a resource was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lane {
    /// Its stage, from 1.
    pub stage: usize,
    /// Which resource of the stage.
    pub resource: Resource,
    /// Time with something to do, in ms.
    pub busy_ms: f64,
    /// That time over the time of the iteration.
    pub utilisation: f64,
}

/// What a resource did for a time. Parts of a task that take no time have no event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The resource.
    pub resource: Resource,
    /// Its stage, from 1.
    pub stage: usize,
    /// The micro-batch, from 1.
    pub micro_batch: usize,
    /// Forward or backward propagation, or one of its two gradients.
    pub phase: Phase,
    /// What it did.
    pub activity: Activity,
    /// From then, in ms.
    pub start_ms: f64,
    /// Till then, in ms.
    pub end_ms: f64,
}

/// A run and all that it came from.
pub(super) struct Simulated<'a> {
    pub plan: &'a Plan,
    pub pipeline: &'a Pipeline,
    pub order: OrderName,
    pub micro_batches: u64,
    pub streams: &'a Streams,
    /// Micro-batches in flight on the first stage.
    pub in_flight: u64,
    pub run: &'a Run,
}

impl Simulation {
    pub(super) fn new(of: &Simulated) -> Self {
        let problem = &of.plan.problem;
        let end_ns = makespan_ns(of.run);
        let resources = of.lanes(end_ns);
        let period = of.period();
        Self {
            schema: SCHEMA,
            instance: of.plan.instance.clone(),
            mode: problem.mode.unwrap_or(Mode::Training),
            schedule: of.order,
            micro_batches: of.micro_batches,
            iteration_ms: ns_to_ms(end_ns),
            formula_iteration_ms: of.formula_iteration_ns().map(ns_to_ms),
            period_ms: period.map(|period| period.ns / NS_PER_MS),
            period_is_exact: period.is_some_and(|period| period.is_exact),
            least_period_ms: ns_to_ms(of.streams.period_ns()),
            objective: problem.objective.unwrap_or(Objective::Period),
            objective_ms: of.plan.objective_ms,
            bubble_share: bubble_share(&resources),
            stages: of.stages(),
            resources,
            events: of.events(),
        }
    }
}

/// Workers alone count: an idle link costs nothing.
fn bubble_share(resources: &[Lane]) -> f64 {
    let is_worker = |lane: &&Lane| !matches!(lane.resource, Resource::LinkIn | Resource::LinkOut);
    let workers: Vec<f64> = resources
        .iter()
        .filter(is_worker)
        .map(|lane| lane.utilisation)
        .collect();
    1.0 - workers.iter().sum::<f64>() / workers.len().max(1) as f64
}

impl Simulated<'_> {
    fn period(&self) -> Option<measure::Period> {
        if let OrderName::Rule(_) = self.order {
            // Stages run ahead of the busiest one as far as an order lets them: what they do meanwhile repeats, and is no period.
            return None;
        }
        let draining = match self.pipeline.trains {
            true if self.order.is_all_forward_first() => return None,
            true => self.in_flight as usize,
            false => 0,
        };
        measure::period(self.streams, self.run, draining)
    }

    fn formula_iteration_ns(&self) -> Option<u64> {
        let OrderName::Schedule(order) = self.order else {
            return None;
        };
        if !order.flushes() || self.pipeline.channels == Channels::Split {
            return None;
        }
        let phase = |times: PhaseTimes| match self.pipeline.has_links {
            true => PhaseCost {
                work_ns: times.work_ns,
                link_in_ns: times.in_ns,
                link_out_ns: times.out_ns,
                ..PhaseCost::default()
            },
            false => PhaseCost {
                work_ns: times.work_ns,
                communication_ns: times.in_ns + times.out_ns,
                ..PhaseCost::default()
            },
        };
        let stages: Vec<StageCost> = self
            .pipeline
            .stages
            .iter()
            .map(|stage| StageCost {
                forward: phase(stage.forward),
                backward: phase(stage.backward),
            })
            .collect();
        let formula = Objective::Formula.formula(order, self.micro_batches);
        Some(formula_ns(formula, &stages))
    }

    fn stages(&self) -> Vec<StageInFlight> {
        let count = self.plan.stages.len();
        let stages = self.plan.stages.iter().enumerate();
        let standard = |k: usize| {
            let from_end = (count - k) as u64;
            let most = match self.order {
                OrderName::Schedule(order) => order.in_flight(from_end, from_end, self.micro_batches),
                OrderName::Rule(_) => self.plan.stages[k].in_flight?,
            };
            Some(most.min(self.micro_batches))
        };
        stages
            .map(|(k, stage)| StageInFlight {
                stage: k + 1,
                devices: stage.devices.clone(),
                most_in_flight: measure::most_in_flight(self.streams, self.run, k),
                standard_in_flight: if self.pipeline.trains { standard(k) } else { None },
            })
            .collect()
    }

    /// Lanes stage by stage, workers before links.
    fn lanes(&self, end_ns: u64) -> Vec<Lane> {
        let lane = |lane: &crate::pipeline::Lane| {
            let busy_ns = measure::busy_ns(lane, self.run);
            Lane {
                stage: lane.stage + 1,
                resource: lane.resource,
                busy_ms: ns_to_ms(busy_ns),
                utilisation: busy_ns as f64 / end_ns.max(1) as f64,
            }
        };
        let mut lanes: Vec<Lane> = self.streams.lanes.iter().map(lane).collect();
        lanes.sort_by_key(|lane| (lane.stage, lane.resource));
        lanes
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (stream, tasks) in self.streams.streams.iter().zip(self.run) {
            for (m, task) in tasks.iter().enumerate() {
                for (activity, from_ns, to_ns) in parts(task) {
                    let event = Event {
                        resource: self.streams.lanes[stream.lane].resource,
                        stage: stream.stage + 1,
                        micro_batch: m + 1,
                        phase: stream.phase,
                        activity,
                        start_ms: ns_to_ms(from_ns),
                        end_ms: ns_to_ms(to_ns),
                    };
                    events.push((from_ns, event));
                }
            }
        }
        events.sort_by_key(|(from_ns, event)| (event.stage, event.resource, *from_ns));
        events.into_iter().map(|(_, event)| event).collect()
    }
}

/// What a task does, one after the other, and from when to when in ns; not what takes no time.
fn parts(task: &Task) -> impl Iterator<Item = (Activity, u64, u64)> {
    let [receive, work, send] = task.parts;
    let (received_ns, worked_ns) = (task.start_ns + receive, task.start_ns + receive + work);
    let parts = [
        (Activity::Receive, task.start_ns, received_ns),
        (Activity::Compute, received_ns, worked_ns),
        (Activity::Send, worked_ns, worked_ns + send),
    ];
    parts.into_iter().filter(|(_, from_ns, to_ns)| from_ns < to_ns)
}
