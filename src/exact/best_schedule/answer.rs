//! What `schedule` found, as files and reports hold it.

use serde::Serialize;

use super::{cyclic, iteration};
use crate::model::units::ns_to_ms;
use crate::problem::plan::{Plan, Status, StoppedBy};
use crate::schedule::rules;
use crate::schedule::{
    Chunks, Operation, Order, OrderFault, Pattern, Phase, Placement, Ran, Times, run, run_with,
};

/// The value of `schema` in schedules of this version.
pub const SCHEMA: &str = "stagecut-schedule/1";

/// What was minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Of a pattern that repeats: the most that a device holds, at a given period
    Peak,
    /// Of a pattern that repeats: its period, within the room of the devices
    Period,
    /// Of one iteration: its time, within the room of the devices
    Iteration,
}

/// A schedule, what is proved of it, and its run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The format's version.
    pub schema: &'static str,
    /// What it is a schedule of: an instance's name, or even chunks.
    pub of: String,
    /// What was minimised.
    pub objective: Objective,
    /// Whose order it is: a rule's name, or a file; absent where the best was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// What was found.
    pub status: Status,
    /// Why the search stopped.
    pub stopped_by: StoppedBy,
    /// How chunks lie on devices.
    pub placement: Placement,
    /// Chunks of every device, from 0.
    pub devices: Vec<Vec<usize>>,
    /// Whether the two gradients of a backward pass are apart.
    pub splits_backward: bool,
    /// What a device may hold; `None` for as much as there is.
    pub room: Vec<Option<u64>>,
    /// The pattern that repeats; absent where one iteration was asked for, and without a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<RepeatedPattern>,
    /// One iteration of the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Iteration>,
    /// What published rules take for the same iteration; empty where none was asked for.
    pub rules: Vec<RuleTime>,
    /// Where the cut was chosen with the order, the cut; absent where a plan was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<ChosenCut>,
}

/// A cut that was chosen together with its order. The bound of the iteration then holds for every cut.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChosenCut {
    /// No order of this cut takes less, in ms.
    pub bound_ms: f64,
    /// How many cuts were run.
    pub cuts: usize,
    /// Where a gap comes from; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
    /// Its plan: every stage is a chunk, and what it says of memory is under its order, which is the one found.
    pub plan: Plan,
}

/// Where the gap of a cut and its order comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Open {
    /// A cut that was not looked at might be better.
    Cuts,
    /// Another order of a cut that was looked at might be better.
    Orders,
}

/// A pattern and its bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepeatedPattern {
    /// Times are rounded up to multiples of this, in ms.
    pub slot_ms: f64,
    /// The period in slots.
    pub slots: u64,
    /// The period in ms.
    pub period_ms: f64,
    /// The busiest device's time for a micro-batch, before it is rounded up: no period is shorter.
    pub least_period_ms: f64,
    /// The same once every operation is rounded up to slots, in ms.
    pub rounded_period_ms: f64,
    /// No pattern on this grid has a shorter period, in ms; absent where the period was given.
    pub period_bound_ms: Option<f64>,
    /// The most that each device holds.
    pub peak: Vec<u64>,
    /// No pattern on this grid with this period has a lower peak; absent where the period was minimised.
    pub peak_bound: Option<u64>,
    /// When operations of the first micro-batch start.
    pub starts: Vec<Start>,
}

/// When an operation starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Start {
    /// The device, from 0.
    pub device: usize,
    /// The chunk, from 0.
    pub chunk: usize,
    /// What is done.
    pub phase: Phase,
    /// The slot within a period.
    pub slot: u64,
    /// Periods before.
    pub offset: u64,
}

/// One iteration as it runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Iteration {
    /// Micro-batches.
    pub micro_batches: usize,
    /// Time until all operations are done, in ms.
    pub iteration_ms: f64,
    /// No order takes less, in ms; absent where it was not asked for.
    pub bound_ms: Option<f64>,
    /// The longest that a device is idle between its first and its last operation, in ms.
    pub bubble_ms: f64,
    /// The most that each device holds.
    pub peak: Vec<u64>,
    /// Every operation, device by device.
    pub operations: Vec<Timed>,
}

/// An operation with its times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// The device, from 0.
    pub device: usize,
    /// What is done.
    #[serde(flatten)]
    pub operation: Operation,
    /// From then, in ms.
    pub start_ms: f64,
    /// Till then, in ms.
    pub end_ms: f64,
}

/// What a rule takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleTime {
    /// The rule.
    pub name: &'static str,
    /// Where it is published.
    pub source: &'static str,
    /// Its iteration in ms; absent where devices have no room for it.
    pub iteration_ms: Option<f64>,
}

impl Answer {
    fn new(
        of: &str,
        chunks: &Chunks,
        objective: Objective,
        (status, stopped_by): (Status, StoppedBy),
    ) -> Self {
        let devices = 0..chunks.devices();
        Self {
            schema: SCHEMA,
            of: of.into(),
            objective,
            given: None,
            status,
            stopped_by,
            placement: chunks.placement,
            devices: devices.map(|device| chunks.of_device(device).collect()).collect(),
            splits_backward: chunks.may_split,
            room: chunks.room.clone(),
            pattern: None,
            iteration: None,
            rules: Vec::new(),
            cut: None,
        }
    }

    /// The answer to a question about patterns, with an iteration of so many micro-batches.
    ///
    /// # Errors
    ///
    /// An order that cannot be run: a fault of this program.
    pub fn of_pattern(
        of: &str,
        chunks: &Chunks,
        objective: Objective,
        found: &cyclic::Found,
        micro_batches: usize,
    ) -> Result<Self, OrderFault> {
        let mut answer = Self::new(of, chunks, objective, (found.status, found.stopped_by));
        if let Some(pattern) = &found.pattern {
            let bounds = match objective {
                Objective::Peak | Objective::Iteration => (Some(found.bound), None),
                Objective::Period => (None, Some(found.bound * pattern.slot_ns)),
            };
            answer.pattern = Some(RepeatedPattern::new(chunks, pattern, &found.peaks, bounds));
            let order = pattern.order(chunks, micro_batches);
            let ran = run(chunks, &order, micro_batches)?;
            answer.iteration = Some(Iteration::new(&ran, micro_batches, None));
        }
        Ok(answer)
    }

    /// The answer to a question about one iteration.
    ///
    /// # Errors
    ///
    /// An order that cannot be run: a fault of this program.
    pub fn of_iteration(
        of: &str,
        chunks: &Chunks,
        found: &iteration::Found,
        micro_batches: usize,
    ) -> Result<Self, OrderFault> {
        let mut answer = Self::new(of, chunks, Objective::Iteration, (found.status, found.stopped_by));
        if let Some(order) = &found.order {
            let ran = run(chunks, order, micro_batches)?;
            answer.iteration = Some(Iteration::new(&ran, micro_batches, Some(found.bound_ns)));
        }
        let rule = |rule: &iteration::OfRule| RuleTime {
            name: rule.name,
            source: rules::find(rule.name).map_or("", |rule| rule.source),
            iteration_ms: rule.iteration_ns.map(ns_to_ms),
        };
        answer.rules = found.rules.iter().map(rule).collect();
        Ok(answer)
    }

    /// What becomes of an order that is there already, held against what no order falls below.
    ///
    /// # Errors
    ///
    /// An order that cannot be run.
    pub fn of_order(
        of: &str,
        chunks: &Chunks,
        (given, order): (&str, &Order),
        micro_batches: usize,
    ) -> Result<Self, OrderFault> {
        let ran = run(chunks, order, micro_batches)?;
        let bound_ns = iteration::bound_ns(chunks, micro_batches);
        let status = match ran.makespan_ns <= bound_ns {
            true => Status::Optimal,
            false => Status::Feasible,
        };
        let found = (status, StoppedBy::Completed);
        Ok(Self {
            given: Some(given.into()),
            iteration: Some(Iteration::new(&ran, micro_batches, Some(bound_ns))),
            splits_backward: order.splits(),
            ..Self::new(of, chunks, Objective::Iteration, found)
        })
    }

    /// What becomes of an order that is there already where a trace or jitter changes the times. Nothing is proved of it: bounds are for
    /// times that are known beforehand.
    ///
    /// # Errors
    ///
    /// An order that cannot be run.
    pub fn of_disturbed_order(
        of: &str,
        chunks: &Chunks,
        (given, order): (&str, &Order),
        micro_batches: usize,
        times: &dyn Times,
    ) -> Result<Self, OrderFault> {
        let ran = run_with(chunks, order, micro_batches, times)?;
        let found = (Status::Feasible, StoppedBy::Completed);
        Ok(Self {
            given: Some(given.into()),
            iteration: Some(Iteration::new(&ran, micro_batches, None)),
            splits_backward: order.splits(),
            ..Self::new(of, chunks, Objective::Iteration, found)
        })
    }

    /// The order of every device, where there is one.
    pub fn order(&self) -> Option<Order> {
        let iteration = self.iteration.as_ref()?;
        let mut devices = vec![Vec::new(); self.devices.len()];
        for timed in &iteration.operations {
            devices[timed.device].push(timed.operation);
        }
        Some(Order { devices })
    }
}

impl RepeatedPattern {
    fn new(chunks: &Chunks, pattern: &Pattern, peaks: &[u64], bounds: (Option<u64>, Option<u64>)) -> Self {
        let start = |&(chunk, phase, start): &(usize, Phase, u64)| Start {
            device: chunks.chunks[chunk].device,
            chunk,
            phase,
            slot: start % pattern.period,
            offset: start / pattern.period,
        };
        let mut starts: Vec<Start> = pattern.starts.iter().map(start).collect();
        starts.sort_by_key(|start| (start.device, start.slot, start.offset));
        Self {
            slot_ms: ns_to_ms(pattern.slot_ns),
            slots: pattern.period,
            period_ms: ns_to_ms(pattern.period * pattern.slot_ns),
            least_period_ms: ns_to_ms(chunks.least_period_ns()),
            rounded_period_ms: ns_to_ms(cyclic::least_period(chunks, pattern.slot_ns) * pattern.slot_ns),
            period_bound_ms: bounds.1.map(ns_to_ms),
            peak: peaks.to_vec(),
            peak_bound: bounds.0,
            starts,
        }
    }
}

impl Iteration {
    fn new(ran: &Ran, micro_batches: usize, bound_ns: Option<u64>) -> Self {
        let timed = |device: usize| {
            move |&(operation, start_ns, end_ns): &(Operation, u64, u64)| Timed {
                device,
                operation,
                start_ms: ns_to_ms(start_ns),
                end_ms: ns_to_ms(end_ns),
            }
        };
        let devices = ran.devices.iter().enumerate();
        Self {
            micro_batches,
            iteration_ms: ns_to_ms(ran.makespan_ns),
            bound_ms: bound_ns.map(ns_to_ms),
            bubble_ms: ns_to_ms(ran.bubble_ns()),
            peak: ran.peak.clone(),
            operations: devices
                .flat_map(|(device, list)| list.iter().map(timed(device)))
                .collect(),
        }
    }
}
