//! The controller: slot by slot, virtual queues, and the assertions that every run makes.

use super::decisions::{Last, Situation, decide};
use super::fixed::Fixed;
use super::known::Known;
use super::policies::Policy;
use super::record::{Header, Line, SCHEMA, SlotRecord, Summary, Yardsticks, all_rounded, rounded};
use super::resumed;
use super::scenario::Scenario;
use super::stationary;
use super::summary::summary;
use super::yardsticks::{self, Kinds};
use crate::formulations::solver::SolverError;
use crate::problem::control::Control;
use crate::problem::hybrid::counts::TooMany;

/// Relative difference that rounding to 15 digits and sums in another order may make.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// States up to which the long run is solved: their fronts take a second or two.
const MOST_STATES: usize = 300;

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

/// Runs the policies over the slots, and writes every line as it is known.
///
/// * `lines`: those of a run that was broken off, to go on from, and where new ones go;
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
    mut lines: Lines,
    control: &Control,
    progress: &dyn Fn(&str, usize),
) -> Result<(), OnlineError> {
    lines.put(Line::Run(header(scenario, asked)))?;
    let states = scenario.states(asked.slots, asked.seed);
    let mut known = Known::new(scenario);
    let fixed = Fixed::new(scenario)?;
    let mut summaries = Vec::new();
    for policy in &asked.policies {
        let mut records: Vec<SlotRecord> = Vec::with_capacity(asked.slots);
        let mut last = Last::new(scenario);
        for (t, state) in states.iter().enumerate() {
            let there = lines.slot(policy, t)?;
            let slot = scenario.slot(state, asked.time_weight, last.queues.clone());
            let (_, frontier) = known.plans(state)?;
            let situation = Situation {
                t,
                slot: &slot,
                frontier: &frontier,
                last: &last,
            };
            let record = match there {
                Some(record) => {
                    if let Some(why) = resumed::contradiction(scenario, &situation, &record) {
                        let text = format!(
                            "the lines are of another run: slot {t} of `{}` has {why}",
                            policy.name
                        );
                        return Err(OnlineError::OtherRun(text));
                    }
                    record
                }
                None => {
                    progress(policy.name, t);
                    let record = decide(scenario, policy, &fixed, &situation)?;
                    lines.put(Line::Slot(record.clone()))?;
                    if control.must_stop().is_some() {
                        return Ok(());
                    }
                    record
                }
            };
            last.take(scenario, state, &record);
            records.push(record);
        }
        let summary = summary(scenario, policy, &records);
        lines.put(Line::Summary(summary.clone()))?;
        summaries.push(summary);
    }
    if lines.done.next().is_some() {
        return Ok(());
    }
    let mut counts = Kinds::default();
    for state in &states {
        let (at, plans) = known.plans(state)?;
        counts.add(at, 1.0, &plans);
    }
    let mut yardsticks = yardsticks::yardsticks(&counts, &scenario.per_slot, asked.slots, control)?;
    if let Some(states) = scenario.stationary(MOST_STATES) {
        let least_ms = stationary::optimum_ms(scenario, &mut known, &states, control)?;
        yardsticks.stationary_ms = least_ms.map(rounded);
    }
    let horizon = Horizon {
        per_slot: &scenario.per_slot,
        counts: &counts,
        slots: asked.slots,
        yardsticks: &yardsticks,
    };
    let held = summaries.iter().map(|summary| horizon.held_ms(summary, control));
    yardsticks.held_ms = held.collect::<Result<_, _>>()?;
    lines.put(Line::Yardsticks(yardsticks))
}

/// The lines of a run: first those of the run that was broken off, then new ones.
pub struct Lines<'a> {
    done: std::slice::Iter<'a, Line>,
    write: &'a mut dyn FnMut(&Line) -> std::io::Result<()>,
}

impl<'a> Lines<'a> {
    /// The lines that are there, and what writes a new one.
    pub fn new(done: &'a [Line], write: &'a mut dyn FnMut(&Line) -> std::io::Result<()>) -> Self {
        let done = done.iter();
        Self { done, write }
    }

    /// Writes a line, unless it is there already.
    fn put(&mut self, line: Line) -> Result<(), OnlineError> {
        match self.done.next() {
            None => Ok((self.write)(&line)?),
            Some(there) if *there == line => Ok(()),
            Some(_) => Err(OnlineError::OtherRun(format!(
                "the lines are of another run: expected {}",
                line.text().trim_end()
            ))),
        }
    }

    /// A slot that was decided before.
    fn slot(&mut self, policy: &Policy, t: usize) -> Result<Option<SlotRecord>, OnlineError> {
        match self.done.next() {
            None => Ok(None),
            Some(Line::Slot(record)) if record.policy == policy.name && record.slot == t => {
                Ok(Some(record.clone()))
            }
            Some(_) => Err(OnlineError::OtherRun(format!(
                "the lines are of another run: expected slot {t} of `{}`",
                policy.name
            ))),
        }
    }
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

/// All slots of a run, and what no policy can beat over them.
struct Horizon<'a> {
    /// What each budget may pay per slot on average.
    per_slot: &'a [f64],
    /// The slots, by kind.
    counts: &'a Kinds,
    slots: usize,
    yardsticks: &'a Yardsticks,
}

impl Horizon<'_> {
    /// What a policy's mean time is held against, in ms: the clairvoyant optimum where it keeps the budgets, else the bound
    /// at the costs that it paid. None where it served no slot.
    fn held_ms(&self, summary: &Summary, control: &Control) -> Result<Option<f64>, OnlineError> {
        if summary.served == 0 {
            return Ok(None);
        }
        let bound_ms = match summary.keeps_budgets {
            true => self.yardsticks.clairvoyant_ms.or(self.yardsticks.lagrangian_ms),
            false => {
                let costs = summary.average_costs.iter().zip(self.per_slot);
                // Mean costs are rounded: a part in 10^9 more is not paid by anyone.
                let paid: Vec<f64> = costs
                    .map(|(cost, budget)| cost.max(*budget) * (1.0 + TOLERANCE))
                    .collect();
                yardsticks::bound_ms(self.counts, &paid, self.slots, control)?.map(rounded)
            }
        };
        if bound_ms.is_none_or(|bound_ms| bound_ms > summary.average_time_ms * (1.0 + BOUND_TOLERANCE)) {
            let text = format!(
                "`{}` is faster than the bound of the horizon, {bound_ms:?} ms",
                summary.policy
            );
            return Err(OnlineError::Broken(text));
        }
        Ok(bound_ms)
    }
}
