//! What a simulation found, as files and reports hold it.

use serde::Serialize;

use super::Request;
use super::disturbance::Disturbance;
use super::measure::{self, Period};
use crate::model::options::{Mode, Objective, Schedule};
use crate::model::units::{NS_PER_MS, ns_to_ms};
use crate::problem::cost::{PhaseCost, StageCost, formula_ns};
use crate::problem::pipeline::{
    Activity, Channels, Leads, Phase, PhaseTimes, Pipeline, Resource, Run, Streams, Task, makespan_ns, steady,
};
use crate::problem::plan::{Plan, PlanTimes};

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
    /// That time by the standard formula (`formula_ns`), in ms; none for asynchronous and concurrent schedules, for rules, and where
    /// replicas take turns.
    pub formula_iteration_ms: Option<f64>,
    /// Time between micro-batches in steady state, in ms; none for GPipe and for listed orders, which are those of one iteration, and for
    /// too few micro-batches.
    pub period_ms: Option<f64>,
    /// Whether every run of the order keeps that period in the long run; otherwise it is the average of this one. Undisturbed it is always
    /// exact, and never shorter than the busiest resource takes.
    pub period_is_exact: bool,
    /// The busiest resource's time for one micro-batch, replicas that take turns sharing it out, in ms: what the period would be at best.
    pub least_period_ms: f64,
    /// What the plan minimises.
    pub objective: Objective,
    /// The plan's objective in ms.
    pub objective_ms: Option<f64>,
    /// Share of the workers' time in which they were idle.
    pub bubble_share: f64,
    /// Of which kind the times are that the plan was made with, as far as it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<PlanTimes>,
    /// The stages.
    pub stages: Vec<StageInFlight>,
    /// The resources, stage by stage and replica by replica.
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
    /// Its devices, one replica's after the other's.
    pub devices: Vec<String>,
    /// Its replicas, which take turns.
    pub replicas: usize,
    /// The most at any time, on any of its replicas.
    pub most_in_flight: u64,
    /// As many as the schedule is known for, or as the plan has counted where a rule listed the order; none in inference.
    pub standard_in_flight: Option<u64>,
}

/// How busy a resource was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lane {
    /// Its stage, from 1.
    pub stage: usize,
    /// The replica of the stage, from 1.
    pub replica: usize,
    /// Which resource of the replica.
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
    /// The replica of the stage, from 1.
    pub replica: usize,
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
    /// What orders the lanes; `None` where a list does.
    pub leads: Option<&'a Leads>,
    pub request: &'a Request,
    pub run: &'a Run,
}

impl Simulation {
    pub(super) fn new(of: &Simulated) -> Self {
        let problem = &of.plan.problem;
        let end_ns = makespan_ns(of.pipeline, of.streams, of.run);
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
            period_ms: period.map(|period| period.pace.each_ns() / NS_PER_MS),
            period_is_exact: period.is_some_and(|period| period.is_exact),
            least_period_ms: of.chunks().unwrap_or(of.streams.busiest().each_ns() / NS_PER_MS),
            objective: problem.timed_objective().unwrap_or(Objective::Period),
            objective_ms: of.plan.objective_ms,
            bubble_share: bubble_share(&resources),
            times: of.plan.times.clone(),
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
    /// What the busiest stage takes for a chunk of a prompt on average, in ms, where one is read.
    fn chunks(&self) -> Option<f64> {
        let chunks = self.plan.stages.iter().map(|stage| &stage.chunks_ms);
        let means = chunks
            .filter(|each| !each.is_empty())
            .map(|each| each.iter().sum::<f64>() / each.len() as f64);
        means.reduce(f64::max)
    }

    /// None for lists: stages run ahead of the busiest one as far as these let them; what they do meanwhile repeats, and is no period.
    fn period(&self) -> Option<Period> {
        let leads = self.leads?;
        let draining = match self.pipeline.trains {
            true if self.order.is_all_forward_first() => return None,
            true => (leads.in_flight[0] * self.pipeline.stages[0].replicas) as usize,
            false => 0,
        };
        let measured = measure::period(self.streams, self.run, draining)?;
        let Request { trace, jitter, .. } = self.request;
        let pace = |streams: &Streams| steady(self.pipeline, streams, leads);
        if trace.is_empty() && jitter.is_none() && self.chunks().is_none() {
            return Some(Period {
                pace: pace(self.streams),
                is_exact: true,
            });
        }
        let end_ns = makespan_ns(self.pipeline, self.streams, self.run);
        let settled = Disturbance::new(self.plan, self.request).settled(self.streams, end_ns);
        Some(Period {
            is_exact: measured.is_exact && settled.is_some_and(|streams| pace(&streams) == measured.pace),
            ..measured
        })
    }

    fn formula_iteration_ns(&self) -> Option<u64> {
        let OrderName::Schedule(order) = self.order else {
            return None;
        };
        let takes_turns = self.pipeline.stages.iter().any(|stage| stage.replicas > 1);
        if !order.flushes()
            || self.chunks().is_some()
            || self.pipeline.channels == Channels::Split
            || takes_turns
        {
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
        let stages = self.plan.stages.iter().enumerate();
        let standard = |k: usize| {
            let from_end = self.pipeline.distance_from_end(k);
            let most = match self.order {
                OrderName::Schedule(order) => order.in_flight(from_end, from_end, self.micro_batches),
                OrderName::Rule(_) => self.plan.stages[k].in_flight?,
            };
            Some(most.min(self.micro_batches.div_ceil(self.pipeline.stages[k].replicas)))
        };
        stages
            .map(|(k, stage)| StageInFlight {
                stage: k + 1,
                devices: stage.devices.clone(),
                replicas: stage.replicas(),
                most_in_flight: measure::most_in_flight(self.streams, self.run, k),
                standard_in_flight: if self.pipeline.trains { standard(k) } else { None },
            })
            .collect()
    }

    /// Lanes stage by stage, workers before links.
    fn lanes(&self, end_ns: u64) -> Vec<Lane> {
        let lane = |lane: &crate::problem::pipeline::Lane| {
            let busy_ns = measure::busy_ns(lane, self.run);
            Lane {
                stage: lane.stage + 1,
                replica: lane.replica + 1,
                resource: lane.resource,
                busy_ms: ns_to_ms(busy_ns),
                utilisation: busy_ns as f64 / end_ns.max(1) as f64,
            }
        };
        let mut lanes: Vec<Lane> = self.streams.lanes.iter().map(lane).collect();
        lanes.sort_by_key(|lane| (lane.stage, lane.replica, lane.resource));
        lanes
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (stream, tasks) in self.streams.streams.iter().zip(self.run) {
            let first = &self.streams.lanes[stream.lane];
            for (m, task) in tasks.iter().enumerate() {
                for (activity, from_ns, to_ns) in parts(task) {
                    let event = Event {
                        resource: first.resource,
                        stage: stream.stage + 1,
                        replica: m % first.replicas + 1,
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
        events.sort_by_key(|(from_ns, event)| (event.stage, event.replica, event.resource, *from_ns));
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
