//! The controller: slot by slot, virtual queues, and the assertions that every run makes.

use super::policies::{self, Choice, Policy, View};
use super::record::{Header, Line, SCHEMA, SlotRecord, StageRecord, Summary, all_rounded, rounded};
use super::scenario::Scenario;
use super::states::State;
use super::yardsticks::{self, Kinds};
use crate::exact::control::Control;
use crate::exact::highs::SolverError;
use crate::hybrid::check::violations;
use crate::hybrid::counts::TooMany;
use crate::hybrid::exact::Front;
use crate::hybrid::plan::{HybridPlan, Layout, Stage};
use crate::hybrid::tentative::without;
use crate::hybrid::{Device, Slot};

/// Relative difference that rounding to 15 digits and sums in another order may make.
pub const TOLERANCE: f64 = 1e-9;

/// Joint states of all chains up to which the long run is solved: a thousand fronts take seconds.
const MOST_STATES: usize = 600;

/// Relative difference that the tolerances of the solver may make in a bound: rows of the horizon program are feasible to
/// 1e-9, and a budget's price in time may be a hundred times the time itself.
const BOUND_TOLERANCE: f64 = 1e-7;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OnlineError {
    /// The slot problem is too large for the exact method.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The solver broke down.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// What a run must show does not hold: a fault of this program.
    #[error("{0}")]
    Broken(String),
    /// The lines to go on from are not of this run.
    #[error("{0}")]
    OtherRun(String),
    /// A line could not be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

/// What is asked of a run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Policies, in the order of running.
    pub policies: Vec<&'static Policy>,
    /// Slots of each.
    pub slots: usize,
    /// Seed of the states.
    pub seed: u64,
    /// Weight `V`.
    pub time_weight: f64,
}

/// Plans of a state of which none is beaten in time and all costs by another, kept for every state that came up.
struct Known<'a> {
    scenario: &'a Scenario,
    states: Vec<(State, Vec<HybridPlan>)>,
}

impl Known<'_> {
    /// Position of the state's plans.
    fn position(&mut self, state: &State) -> Result<usize, TooMany> {
        if let Some(at) = self.states.iter().position(|(known, _)| known == state) {
            return Ok(at);
        }
        let slot = self
            .scenario
            .slot(state, 1.0, vec![0.0; self.scenario.budgets.len()]);
        self.states.push((state.clone(), frontier(&slot)?));
        Ok(self.states.len() - 1)
    }
}

/// The plans of a slot of which none is beaten: enough for every `V, Q >= 0`, as prices are not negative.
fn frontier(slot: &Slot) -> Result<Vec<HybridPlan>, TooMany> {
    if slot.devices.is_empty() {
        return Ok(Vec::new());
    }
    let front = Front::new(slot)?;
    let mut points: Vec<(usize, f64, Vec<f64>)> = front
        .points()
        .map(|(n, time_ms)| (n, time_ms, front.counts.costs(slot, n)))
        .collect();
    points.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut kept: Vec<(usize, f64, Vec<f64>)> = Vec::new();
    for point in points {
        let beats = |other: &(usize, f64, Vec<f64>)| other.2.iter().zip(&point.2).all(|(a, b)| a <= b);
        if !kept.iter().any(beats) {
            kept.push(point);
        }
    }
    Ok(kept.iter().filter_map(|(n, ..)| front.plan(slot, *n)).collect())
}

/// Runs the policies over the slots, and hands every line to `write` as it is known.
///
/// * `done`: lines of a run that was broken off, to go on from;
/// * `progress`: called before each slot with the policy and the slot.
///
/// Every plan passes the checker; no plan is worth less than the proved optimum of its slot; no policy that keeps the
/// budgets is faster on average than the clairvoyant optimum or its bound, and no other one than the bound at what it paid.
///
/// # Errors
///
/// [`OnlineError`]; `Broken` if one of these does not hold.
pub fn run(
    scenario: &Scenario,
    asked: &Asked,
    done: &[Line],
    control: &Control,
    progress: &dyn Fn(&str, usize),
    write: &mut dyn FnMut(&Line) -> std::io::Result<()>,
) -> Result<(), OnlineError> {
    let header = Line::Run(header(scenario, asked));
    let done = match done.split_first() {
        None => {
            write(&header)?;
            done
        }
        Some((first, rest)) if *first == header => rest,
        Some(_) => {
            return Err(OnlineError::OtherRun(
                "the lines are of a run that was asked otherwise".into(),
            ));
        }
    };
    let states = scenario.states(asked.slots, asked.seed);
    let mut known = Known {
        scenario,
        states: Vec::new(),
    };
    let fixed = fixed_layout(scenario)?;
    let mut summaries = Vec::new();
    let mut done = done.iter();
    for policy in &asked.policies {
        let mut records: Vec<SlotRecord> = Vec::with_capacity(asked.slots);
        let mut last = Last::new(scenario);
        for (t, state) in states.iter().enumerate() {
            if let Some(line) = done.next() {
                match line {
                    Line::Slot(record) if record.policy == policy.name && record.slot == t => {
                        last.take(scenario, record);
                        records.push(record.clone());
                        continue;
                    }
                    _ => {
                        return Err(OnlineError::OtherRun(format!(
                            "found another line than slot {t} of `{}`",
                            policy.name
                        )));
                    }
                }
            }
            progress(policy.name, t);
            let at = known.position(state)?;
            let slot = scenario.slot(state, asked.time_weight, last.queues.clone());
            let record = decide(scenario, policy, t, &slot, &known.states[at].1, &last, &fixed)?;
            last.take(scenario, &record);
            write(&Line::Slot(record.clone()))?;
            records.push(record);
            if control.must_stop().is_some() {
                return Ok(());
            }
        }
        let summary = summary(scenario, policy, &records);
        match done.next() {
            None => write(&Line::Summary(summary.clone()))?,
            Some(line) if *line == Line::Summary(summary.clone()) => {}
            Some(_) => {
                return Err(OnlineError::OtherRun(format!(
                    "found another line than the summary of `{}`",
                    policy.name
                )));
            }
        }
        summaries.push(summary);
    }
    if done.next().is_some() {
        return Ok(());
    }
    let mut counts = Kinds::default();
    for state in &states {
        let at = known.position(state)?;
        counts.add(at, 1.0, &known.states[at].1);
    }
    let shares = match scenario.stationary(MOST_STATES) {
        None => None,
        Some(states) => {
            let mut shares = Kinds::default();
            for (state, share) in &states {
                let at = known.position(state)?;
                shares.add(at, *share, &known.states[at].1);
            }
            Some(shares)
        }
    };
    let yardsticks = yardsticks::of(&counts, shares.as_ref(), &scenario.per_slot, asked.slots, control)?;
    let proved_ms = yardsticks.clairvoyant_ms.or(yardsticks.lagrangian_ms);
    for summary in summaries.iter().filter(|summary| summary.served > 0) {
        let bound_ms = match summary.keeps_budgets {
            true => proved_ms,
            // Held against what the policy did pay.
            false => {
                let costs = summary.average_costs.iter().zip(&scenario.per_slot);
                // Mean costs are rounded: a part in 10^9 more is not paid by anyone.
                let paid: Vec<f64> = costs
                    .map(|(cost, budget)| cost.max(*budget) * (1.0 + TOLERANCE))
                    .collect();
                yardsticks::bound_ms(&counts, &paid, asked.slots, control)?
            }
        };
        if bound_ms.is_none_or(|bound_ms| bound_ms > summary.average_time_ms * (1.0 + BOUND_TOLERANCE)) {
            let text = format!(
                "`{}` is faster than the bound of the horizon, {bound_ms:?} ms",
                summary.policy
            );
            return Err(OnlineError::Broken(text));
        }
    }
    write(&Line::Yardsticks(yardsticks))?;
    Ok(())
}

fn header(scenario: &Scenario, asked: &Asked) -> Header {
    Header {
        schema: SCHEMA.into(),
        scenario: scenario.name.clone(),
        budgets: scenario.budgets.clone(),
        per_slot: all_rounded(&scenario.per_slot),
        policies: asked.policies.iter().map(|policy| policy.name.into()).collect(),
        slots: asked.slots,
        seed: asked.seed,
        time_weight: rounded(asked.time_weight),
    }
}

/// The layout of static policies, by position in the scenario: myopic in the nominal state.
fn fixed_layout(scenario: &Scenario) -> Result<Layout, OnlineError> {
    let nominal = State::nominal(scenario.devices.len());
    let slot = scenario.slot(&nominal, 1.0, vec![0.0; scenario.budgets.len()]);
    let frontier = frontier(&slot)?;
    let plan = policies::within(&frontier, &scenario.per_slot);
    Ok(plan.map(|plan| plan.layout.clone()).unwrap_or_default())
}

/// What a policy carries from slot to slot.
struct Last {
    queues: Vec<f64>,
    /// The last layout, by position in the scenario; none before the first plan.
    layout: Option<Layout>,
}

impl Last {
    fn new(scenario: &Scenario) -> Self {
        Self {
            queues: vec![0.0; scenario.budgets.len()],
            layout: None,
        }
    }

    fn take(&mut self, scenario: &Scenario, record: &SlotRecord) {
        self.queues.clone_from(&record.queues);
        let position = |name: &String| scenario.devices.iter().position(|device| device.name == *name);
        let stage = |stage: &StageRecord| Stage {
            layers: stage.layers[0]..stage.layers[1],
            devices: stage.devices.iter().filter_map(position).collect(),
        };
        let pipelines = record.pipelines.iter();
        let layout: Layout = pipelines
            .map(|stages| stages.iter().map(stage).collect())
            .collect();
        if !layout.is_empty() {
            self.layout = Some(layout);
        }
    }
}

/// A layout of the scenario by position in a slot, without the devices that are not there; none if nothing is left.
fn present(scenario: &Scenario, slot: &Slot, layout: &Layout) -> Option<Layout> {
    let position = |device: &Device| slot.devices.iter().position(|other| other.name == device.name);
    let positions: Vec<Option<usize>> = scenario.devices.iter().map(position).collect();
    let mut layout = layout.clone();
    for (device, _) in positions
        .iter()
        .enumerate()
        .filter(|(_, position)| position.is_none())
    {
        if layout
            .iter()
            .flatten()
            .any(|stage| stage.devices.contains(&device))
        {
            layout = without(&layout, device)?;
        }
    }
    for device in layout.iter_mut().flatten().flat_map(|stage| &mut stage.devices) {
        *device = positions[*device]?;
    }
    (!layout.is_empty()).then_some(layout)
}

/// Time that moving layers adds to each batch, in ms: devices load in parallel what they did not hold.
///
/// `last` is by position in the scenario, `layout` by position in the slot. The first plan moves nothing.
fn moving_ms(scenario: &Scenario, slot: &Slot, last: Option<&Layout>, layout: &Layout) -> f64 {
    let Some(last) = last else { return 0.0 };
    let loads = layout.iter().flatten().flat_map(|stage| {
        stage.devices.iter().map(move |&position| {
            let device = &slot.devices[position];
            let held = last.iter().flatten().find(|stage| {
                stage
                    .devices
                    .iter()
                    .any(|&d| scenario.devices[d].name == device.name)
            });
            let is_new = |layer: &usize| held.is_none_or(|held| !held.layers.contains(layer));
            let new = stage.layers.clone().filter(is_new);
            new.map(|layer| slot.chain.state_bytes[layer]).sum::<f64>() / device.bandwidth_bytes_per_ms
        })
    });
    loads.fold(0.0, f64::max) / scenario.spec.batches_per_slot
}

fn decide(
    scenario: &Scenario,
    policy: &Policy,
    t: usize,
    slot: &Slot,
    frontier: &[HybridPlan],
    last: &Last,
    fixed: &Layout,
) -> Result<SlotRecord, OnlineError> {
    let moving = |layout: &Layout| moving_ms(scenario, slot, last.layout.as_ref(), layout);
    let is_static = matches!(policy.choice, Choice::Static(_));
    let view = View {
        slot,
        frontier,
        last: last
            .layout
            .as_ref()
            .and_then(|layout| present(scenario, slot, layout)),
        fixed: if is_static {
            present(scenario, slot, fixed)
        } else {
            None
        },
        per_slot: &scenario.per_slot,
        moving_ms: &moving,
    };
    let plan = policies::choose(policy.choice, &view);
    let mut record = SlotRecord {
        policy: policy.name.into(),
        slot: t,
        devices: slot.devices.len(),
        time_ms: None,
        moving_ms: 0.0,
        costs: vec![0.0; scenario.budgets.len()],
        queues: Vec::new(),
        value: 0.0,
        optimum: 0.0,
        pipelines: Vec::new(),
    };
    if let (Some(plan), Some(best)) = (&plan, policies::best(slot, frontier)) {
        let wrong = violations(slot, plan);
        if !wrong.is_empty() {
            let text = format!("slot {t} of `{}`: {}", policy.name, wrong.join("; "));
            return Err(OnlineError::Broken(text));
        }
        let (value, optimum) = (plan.value(slot), best.value(slot));
        if optimum > value * (1.0 + TOLERANCE) {
            let text = format!(
                "slot {t} of `{}` is worth {value}, below the optimum {optimum}",
                policy.name
            );
            return Err(OnlineError::Broken(text));
        }
        let moving_ms = moving(&plan.layout);
        record.time_ms = Some(rounded(plan.time_ms + moving_ms));
        record.moving_ms = rounded(moving_ms);
        record.costs = all_rounded(&plan.costs);
        (record.value, record.optimum) = (rounded(value), rounded(optimum));
        record.pipelines = pipelines(slot, plan);
    }
    let queues = last.queues.iter().zip(&record.costs).zip(&scenario.per_slot);
    record.queues = queues
        .map(|((queue, cost), budget)| rounded((queue + cost - budget).max(0.0)))
        .collect();
    Ok(record)
}

fn pipelines(slot: &Slot, plan: &HybridPlan) -> Vec<Vec<StageRecord>> {
    let is_parallel = slot.reading == crate::hybrid::Reading::ParallelPipelines;
    let stage = |p: usize, k: usize, stage: &Stage| StageRecord {
        layers: [stage.layers.start, stage.layers.end],
        devices: stage
            .devices
            .iter()
            .map(|&d| slot.devices[d].name.clone())
            .collect(),
        samples: match is_parallel {
            true => vec![rounded(plan.samples[0][p])],
            false => all_rounded(&plan.samples[k]),
        },
    };
    let stages =
        |(p, stages): (usize, &Vec<Stage>)| stages.iter().enumerate().map(|(k, s)| stage(p, k, s)).collect();
    plan.layout.iter().enumerate().map(stages).collect()
}

fn summary(scenario: &Scenario, policy: &Policy, records: &[SlotRecord]) -> Summary {
    let served: Vec<&SlotRecord> = records.iter().filter(|record| record.time_ms.is_some()).collect();
    let mean = |total: f64, count: usize| rounded(total / count.max(1) as f64);
    let average_costs: Vec<f64> = (0..scenario.budgets.len())
        .map(|i| mean(records.iter().map(|record| record.costs[i]).sum(), records.len()))
        .collect();
    let gaps = || {
        served
            .iter()
            .map(|record| (record.value / record.optimum - 1.0).max(0.0))
    };
    let mut kept = average_costs.iter().zip(&scenario.per_slot);
    Summary {
        policy: policy.name.into(),
        served: served.len(),
        average_time_ms: mean(
            served.iter().filter_map(|record| record.time_ms).sum(),
            served.len(),
        ),
        keeps_budgets: kept.all(|(cost, budget)| *cost <= budget * (1.0 + TOLERANCE)),
        average_costs,
        queues_per_slot: records
            .last()
            .map(|last| {
                last.queues
                    .iter()
                    .map(|queue| mean(*queue, records.len()))
                    .collect()
            })
            .unwrap_or_default(),
        moves: served.iter().filter(|record| record.moving_ms > 0.0).count(),
        mean_gap: mean(gaps().sum(), served.len()),
        largest_gap: rounded(gaps().fold(0.0, f64::max)),
    }
}
