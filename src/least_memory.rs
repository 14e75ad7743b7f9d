//! The least memory at which a problem has a plan, for those who are told that it has none.
//!
//! A plan that fits a limit fits every larger one, so the limits with a plan are all from some number of bytes on. That number
//! is found by bisection: each limit in question goes to the exact engine, which stops at its first plan. A plan that is found
//! lowers the upper end to what its fullest stage holds; a proof that there is none raises the lower end. What is known when
//! time is up is still a range that is proved.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::check;
use crate::control::Control;
use crate::exact;
use crate::instance::Instance;
use crate::methods::Method;
use crate::plan::{LeastMemory, Plan, Status};
use crate::problem::{Problem, too_large};
use crate::settings::Settings;
use crate::solver::SolverError;

/// How long a search may take where nobody said so: it is an answer to a question that was not asked.
const PATIENCE: Duration = Duration::from_secs(10);

/// Finds the least memory of a problem that has no plan, as exactly as time allows; nothing where no memory would help.
///
/// A range whose ends are crossed shows a proof to be wrong.
///
/// `show` is called with the range before every question.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
///
/// # Complexity
///
/// At most 53 exact searches, each up to its first plan or the proof that there is none.
pub(crate) fn search(
    instance: &Instance,
    settings: &Settings,
    control: &Control,
    show: &dyn Fn(&LeastMemory),
) -> Result<Option<LeastMemory>, SolverError> {
    let started = Instant::now();
    let patience = control
        .time_limit
        .map_or(PATIENCE, |_| control.remaining().unwrap_or(PATIENCE));
    let left = || patience.saturating_sub(started.elapsed());
    let mut known = LeastMemory {
        at_least_bytes: 0,
        at_most_bytes: None,
        too_large: too_large(instance, settings),
    };
    // A stage holds any layer at least once, and all of them together.
    let unlimited = limited(settings, u64::MAX);
    let alone = too_large(instance, &limited(settings, 0));
    let largest = alone.iter().map(|layer| layer.needs_bytes).max().unwrap_or(0);
    let refused = least_limit(instance, settings).map_or(0, |limit| limit.saturating_add(1));
    known.at_least_bytes = largest.max(refused);
    let mut limit = unlimited;
    while known.at_most_bytes.is_none_or(|most| known.at_least_bytes < most) && !left().is_zero() {
        show(&known);
        match ask(instance, limit, control, left())? {
            Answer::Plan(held_bytes) => known.at_most_bytes = Some(held_bytes),
            Answer::None(None) => return Ok(None),
            Answer::None(Some(limit)) => known.at_least_bytes = limit + 1,
            Answer::Unknown => break,
        }
        let most = known.at_most_bytes.unwrap_or(known.at_least_bytes);
        limit = limited(settings, known.at_least_bytes.midpoint(most));
    }
    Ok(Some(known))
}

/// What the exact engine says of a limit.
enum Answer {
    /// A plan whose fullest stage holds so many bytes.
    Plan(u64),
    /// No plan within the limit; without one, no plan at all.
    None(Option<u64>),
    /// Time was up.
    Unknown,
}

fn ask(
    instance: &Instance,
    settings: Settings,
    control: &Control,
    left: Duration,
) -> Result<Answer, SolverError> {
    let limit = settings.memory_limit.filter(|&limit| limit < u64::MAX);
    let Ok(problem) = Problem::new(instance, settings) else {
        // Not for its memory: the limit is no less than any layer needs.
        return Ok(Answer::Unknown);
    };
    let control = Control {
        // The first plan will do.
        gap: 1.0,
        progress: None,
        ..control.with_time(Some(left))
    };
    let plan = Method::Exact(exact::Method::Exact).run(instance, &problem, &control)?;
    Ok(match plan.status {
        Status::Infeasible => Answer::None(limit),
        Status::Unknown => Answer::Unknown,
        Status::Optimal | Status::Feasible => {
            match check::check(instance, &problem.settings, &plan).is_empty() {
                true => Answer::Plan(held_bytes(&plan)),
                false => Answer::Unknown,
            }
        }
    })
}

/// What the fullest stage of a plan holds, in bytes; where devices have several chunks, the fullest device.
fn held_bytes(plan: &Plan) -> u64 {
    let mut held: HashMap<&[String], u64> = HashMap::new();
    for stage in &plan.stages {
        *held.entry(&stage.devices).or_default() += stage.memory_bytes;
    }
    held.into_values().max().unwrap_or(0)
}

/// The same problem with this limit for every stage; `u64::MAX` is none.
fn limited(settings: &Settings, bytes: u64) -> Settings {
    Settings {
        memory_limit: match (settings.heterogeneous, bytes) {
            (false, u64::MAX) => None,
            (_, bytes) => Some(bytes),
        },
        ..settings.clone()
    }
}

/// The least memory of any device that a stage may run on; `None` if some have no limit.
pub(crate) fn least_limit(instance: &Instance, settings: &Settings) -> Option<u64> {
    match (settings.memory_limit, settings.heterogeneous) {
        (Some(limit), _) => Some(limit).filter(|&limit| limit < u64::MAX),
        (None, false) => None,
        (None, true) => {
            let of = |&kind: &usize| instance.cluster.kinds[kind].memory_bytes.unwrap_or(u64::MAX);
            settings
                .kinds
                .iter()
                .map(of)
                .min()
                .filter(|&limit| limit < u64::MAX)
        }
    }
}
