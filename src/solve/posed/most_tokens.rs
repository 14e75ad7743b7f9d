//! The most tokens that a problem has room for, and the best plan that has it.
#![doc = include_str!("../../../formulations/most_tokens.md")]

use super::{Existence, Posed, existence, must_apply};
use crate::check;
use crate::exact;
use crate::model::instance::Instance;
use crate::model::network::LayerMode;
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::words;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Status, StoppedBy};
use crate::solve::error::Error;
use crate::solve::methods::Method;

/// Refuses the most tokens, for what looks for one objective alone.
///
/// # Errors
///
/// [`Error::Inapplicable`].
pub(crate) fn refuse_most_tokens(settings: &Settings, method: &'static str) -> Result<(), Error> {
    match settings.room.is_most {
        false => Ok(()),
        true => Err(Error::Inapplicable {
            method,
            reason: words!(
                "it looks for no room: ask `solve` for the most tokens, then this with {}",
                setting::TOKENS.given("N")
            ),
        }),
    }
}

/// What is known of the most tokens: no plan has room for more than `most`, and this one has for `known`.
struct Range {
    known: u64,
    most: u64,
    plan: Plan,
}

/// The plan of the least objective among those that have room for the most tokens.
///
/// # Errors
///
/// Those of [`Posed::solve`].
///
/// # Complexity
///
/// At most 54 exact searches, each up to its first plan or the proof that there is none, and one for the objective.
pub(super) fn search(
    posed: &Posed,
    problem: &Problem,
    method: Method,
    control: &Control,
) -> Result<Plan, Error> {
    must_apply(method, problem)?;
    let (instance, settings) = (posed.instance, &posed.settings);
    let started = std::time::Instant::now();
    let range = match range(instance, settings, control)? {
        Ok(range) => range,
        Err(stopped) => return Ok(asked(instance, settings, method, *stopped)),
    };
    let tokens = range.known.min(most_exact(instance));
    let with_room = Posed::with_settings(instance, settings.with_tokens(tokens))?;
    let left = control.with_time(control.remaining());
    let found = with_room.solve(method, &left)?;
    if found.status == Status::Infeasible {
        let what = format!("a plan has room for {tokens} tokens, and it is proved that none has");
        return Err(Error::Contradiction(what.into()));
    }
    let mut plan = match found.stages.is_empty() {
        // What was found while looking for room is a plan all the same.
        true => costed(instance, &with_room.settings, &range.plan, found),
        false => found,
    };
    // It may have more room than it was asked for, where that is not the most.
    plan.hold_more(instance, plan.tokens.unwrap_or(tokens).saturating_sub(tokens));
    plan.statistics.seconds = started.elapsed().as_secs_f64();
    plan.tokens_bound = Some(range.most);
    if plan.tokens < Some(range.most) && plan.status == Status::Optimal {
        plan.status = Status::Feasible;
        plan.stopped_by = control.must_stop().unwrap_or(StoppedBy::TimeLimit);
    }
    Ok(asked(instance, settings, method, plan))
}

/// The plan as an answer to what was asked.
fn asked(instance: &Instance, settings: &Settings, method: Method, mut plan: Plan) -> Plan {
    plan.problem = Plan::settled(settings, &plan.stages).to_options(instance);
    plan.method = method.name().into();
    plan
}

/// The stages of a plan under an objective that it was not made for, with a bound that was found without one.
pub(super) fn costed(instance: &Instance, settings: &Settings, of: &Plan, found: Plan) -> Plan {
    let stages = of.stages.clone();
    let mut plan = Plan {
        status: Status::Feasible,
        stages,
        tokens: of.tokens,
        problem: Plan::settled(settings, &of.stages).to_options(instance),
        ..found
    };
    let verdict = check::examine(instance, settings, &plan);
    plan.objective_ms = verdict.objective_ms;
    for (stage, figures) in plan.stages.iter_mut().zip(&verdict.figures) {
        stage.memory_bytes = figures.memory_bytes;
    }
    for (stage, chunks_ns) in plan.stages.iter_mut().zip(&verdict.chunks_ns) {
        stage.state_chunks(chunks_ns);
    }
    plan.bound_ms = plan.bound_ms.or(Some(0.0));
    plan.gap = match (plan.objective_ms, plan.bound_ms) {
        (Some(objective), Some(bound)) if objective > 0.0 => Some((objective - bound) / objective),
        _ => Some(0.0),
    };
    plan.state_run(instance, settings, verdict.run);
    plan
}

/// Halves the numbers of tokens that are open until none is, or time for it is up: what is left is for the objective. Without a plan, why.
fn range(
    instance: &Instance,
    settings: &Settings,
    control: &Control,
) -> Result<Result<Range, Box<Plan>>, Error> {
    let deadline = control.remaining().map(|left| left / 2);
    let started = std::time::Instant::now();
    let left = || {
        let left = deadline.map(|all| all.saturating_sub(started.elapsed()));
        control.with_time(left)
    };
    let first = match existence(instance, settings.with_tokens(0), &left())? {
        Existence::Plan(plan) => *plan,
        Existence::None | Existence::Unknown => {
            // Whether there is one at all is what time is for.
            let without = Posed::with_settings(instance, settings.with_tokens(0))?;
            let exact = Method::Exact(exact::Method::Exact);
            let plan = without.solve(exact, &control.with_time(control.remaining()))?;
            match plan.stages.is_empty() {
                true => return Ok(Err(Box::new(plan))),
                false => plan,
            }
        }
    };
    let mut range = Range {
        known: first.tokens.unwrap_or(0),
        most: bound_of_tokens(instance, settings),
        plan: first,
    };
    let exact = most_exact(instance);
    while range.known < range.most.min(exact) && control.must_stop().is_none() {
        let tokens = (range.known + (range.most - range.known).div_ceil(2)).min(exact);
        match existence(instance, settings.with_tokens(tokens), &left())? {
            Existence::Plan(plan) => {
                range.known = plan.tokens.unwrap_or(tokens).max(tokens);
                range.plan = *plan;
            }
            Existence::None => range.most = tokens - 1,
            Existence::Unknown => break,
        }
    }
    Ok(Ok(range))
}

/// All memory of the devices, over what all layers keep of a token, each in the mode that keeps least on its devices together.
pub(crate) fn bound_of_tokens(instance: &Instance, settings: &Settings) -> u64 {
    let cluster = &instance.cluster;
    let memory = settings.kinds.iter().map(|&kind| {
        let limit = settings.device_bytes(cluster, kind).unwrap_or(u64::MAX);
        let devices = settings.count(cluster, kind).unwrap_or(settings.stages);
        u128::from(limit) * devices as u128
    });
    let on_all = |mode: &LayerMode| mode.tensor as u128 * u128::from(mode.cache.token_bytes);
    let least = |modes: &[LayerMode]| modes.iter().map(on_all).min().unwrap_or(0);
    let layers = instance
        .network
        .layers
        .iter()
        .filter(|layer| settings.includes(layer));
    let of_a_token: u128 = layers.map(|layer| least(&layer.modes())).sum();
    let most = memory.sum::<u128>().checked_div(of_a_token).unwrap_or(0);
    // No memory is larger, and some layer keeps a byte of a token.
    u64::try_from(most).unwrap_or(u64::MAX).min(LARGEST_EXACT)
}

/// Tokens whose bytes in all layers together are exact in a double; of more nothing is asked.
fn most_exact(instance: &Instance) -> u64 {
    let layers = instance.network.layers.iter();
    let kept = layers
        .flat_map(|layer| layer.modes().into_owned())
        .map(|mode| u128::from(mode.cache.token_bytes));
    let most = u128::from(LARGEST_EXACT / 2) / kept.sum::<u128>().max(1);
    u64::try_from(most).unwrap_or(u64::MAX)
}
