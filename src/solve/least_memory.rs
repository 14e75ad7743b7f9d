//! The least memory at which a problem has a plan, for those who are told that it has none.
//!
//! A plan that fits a limit fits every larger one, so the limits with a plan are all from some number of bytes on. That number
//! is found by bisection: each limit in question goes to the exact engine, which stops at its first plan. A plan that is found
//! lowers the upper end to what its fullest stage holds; a proof that there is none raises the lower end. What is known when
//! time is up is still a range that is proved.
//!
//! Where devices differ and each has its own memory, one limit for all would take no device for what it is. Then each kind is asked by
//! itself: how much it would need if all others stayed as they are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::problem::control::Control;
use crate::problem::plan::{KindMemory, LeastMemory, Plan};
use crate::problem::too_large;
use crate::solve::posed::{Existence, existence};

/// How long a search may take at least and at most: it is an answer to a question that was not asked.
const PATIENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];

/// How many times what the question itself took.
const TIMES_THE_QUESTION: u32 = 10;

/// Finds the least memory of a problem that has no plan, as exactly as time allows; nothing where no memory would help.
///
/// A range whose ends are crossed shows a proof to be wrong.
///
/// * `spent`: what it took to prove that there is no plan;
/// * `show`: called with the range before every question.
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
    spent: Duration,
    show: &dyn Fn(&LeastMemory),
) -> Result<Option<LeastMemory>, SolverError> {
    let started = Instant::now();
    let [least, most] = PATIENCE;
    let patience = (TIMES_THE_QUESTION * spent).clamp(least, most);
    let patience = control.remaining().map_or(patience, |left| left.min(patience));
    let left = || patience.saturating_sub(started.elapsed());
    let mut known = LeastMemory {
        at_least_bytes: 0,
        at_most_bytes: None,
        too_large: too_large(instance, settings),
        by_kind: Vec::new(),
    };
    // A stage holds any layer at least once, and all of them together.
    let unlimited = limited(settings, u64::MAX);
    let alone = too_large(instance, &limited(settings, 0));
    let largest = alone.iter().map(|layer| layer.needs_bytes).max().unwrap_or(0);
    let refused = least_limit(instance, settings).map_or(0, |limit| limit.saturating_add(1));
    known.at_least_bytes = largest.max(refused);
    if settings.has_unlike_devices() && settings.memory_limit.is_none() {
        return by_kind(instance, (settings, unlimited), (control, &left), known);
    }
    let mut limit = unlimited;
    while known.at_most_bytes.is_none_or(|most| known.at_least_bytes < most) && !left().is_zero() {
        show(&known);
        let bytes = limit.memory_limit.filter(|&bytes| bytes < u64::MAX);
        match (
            existence(instance, limit, &control.with_time(Some(left())))?,
            bytes,
        ) {
            (Existence::Plan(plan), _) => known.at_most_bytes = Some(held_bytes(&plan)),
            (Existence::None, None) => return Ok(None),
            (Existence::None, Some(bytes)) => known.at_least_bytes = bytes + 1,
            (Existence::Unknown, _) => break,
        }
        let most = known.at_most_bytes.unwrap_or(known.at_least_bytes);
        limit = limited(settings, known.at_least_bytes.midpoint(most));
    }
    Ok(Some(known))
}

/// Asks every kind that has a limit how much it would need; nothing where no memory would help.
fn by_kind(
    instance: &Instance,
    (settings, unlimited): (&Settings, Settings),
    (control, left): (&Control, &dyn Fn() -> Duration),
    mut known: LeastMemory,
) -> Result<Option<LeastMemory>, SolverError> {
    if let Existence::None = existence(instance, unlimited, &control.with_time(Some(left())))? {
        return Ok(None);
    }
    let limited: Vec<usize> = (settings.kinds.iter().copied())
        .filter(|&kind| instance.cluster.kinds[kind].memory_bytes.is_some())
        .collect();
    for (at, &kind) in limited.iter().enumerate() {
        // What is left is for this kind and those behind it.
        let share = left() / (limited.len() - at) as u32;
        let found = of_kind(instance, settings, kind, (control, share))?;
        known.by_kind.extend(found);
    }
    Ok(Some(known))
}

/// How much memory a kind needs if all others keep theirs.
fn of_kind(
    instance: &Instance,
    settings: &Settings,
    kind: usize,
    (control, patience): (&Control, Duration),
) -> Result<Option<KindMemory>, SolverError> {
    let started = Instant::now();
    let Some(has_bytes) = instance.cluster.kinds[kind].memory_bytes else {
        return Ok(None);
    };
    let name = &instance.cluster.kinds[kind].name;
    let mut known = KindMemory {
        kind: name.clone(),
        has_bytes,
        at_least_bytes: has_bytes.saturating_add(1),
        at_most_bytes: None,
    };
    let mut there = instance.clone();
    let mut bytes = None;
    while known.at_most_bytes.is_none_or(|most| known.at_least_bytes < most) {
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() {
            break;
        }
        there.cluster.kinds[kind].memory_bytes = bytes;
        match (
            existence(&there, settings.clone(), &control.with_time(Some(left)))?,
            bytes,
        ) {
            (Existence::Plan(plan), _) => {
                known.at_most_bytes = Some(held_on(&plan, name).max(known.at_least_bytes))
            }
            (Existence::None, Some(bytes)) => known.at_least_bytes = bytes + 1,
            (Existence::None, None) | (Existence::Unknown, _) => break,
        }
        bytes = known
            .at_most_bytes
            .map(|most| known.at_least_bytes.midpoint(most));
    }
    Ok(Some(known))
}

/// What the fullest stage on devices of a kind holds, in bytes: as much as each of them needs at most.
fn held_on(plan: &Plan, kind: &str) -> u64 {
    let is_there = |device: &String| device.rsplit_once(':').is_some_and(|(name, _)| name == kind);
    let stages = plan
        .stages
        .iter()
        .filter(|stage| stage.devices.iter().any(is_there));
    stages.map(|stage| stage.memory_bytes).max().unwrap_or(0)
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
        memory_limit: match (settings.has_unlike_devices(), bytes) {
            (false, u64::MAX) => None,
            (_, bytes) => Some(bytes),
        },
        ..settings.clone()
    }
}

/// The least memory of any device that a stage may run on; `None` if some have no limit.
pub(crate) fn least_limit(instance: &Instance, settings: &Settings) -> Option<u64> {
    match (settings.memory_limit, settings.has_unlike_devices()) {
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
