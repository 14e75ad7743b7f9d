//! The size of the chunks of a prompt, chosen: an outer search over sizes, each of which is a problem of its own.
//!
//! `formulations/prompt.md` says when a size needs no search.

use std::time::Instant;

use super::{Posed, accepted, most_tokens, must_apply};
use crate::check;
use crate::exact;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::{ChunkSizes, PipelineOptions};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::units::{LARGEST_EXACT, NS_PER_MS};
use crate::model::words::words;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Status, StoppedBy};
use crate::solve::error::Error;
use crate::solve::methods::{self, Method};

/// What options ask of an instance at each size of chunks that there is to choose from, ascending; the options alone where none is chosen.
///
/// # Errors
///
/// No tokens of the prompt that is to be cut.
pub(crate) fn options_by_size(
    instance: &Instance,
    options: &PipelineOptions,
) -> Result<Vec<PipelineOptions>, InputError> {
    let own = &instance.pipeline;
    let Some(choose @ ChunkSizes::Choose(_)) = options.chunks.as_ref().or(own.chunks.as_ref()) else {
        return Ok(vec![options.clone()]);
    };
    let Some(prompt) = options.prompt.or(own.prompt) else {
        let missing = FaultKind::Missing {
            what: "number of tokens of the prompt".into(),
            expected: words!(
                "{} with {}",
                setting::PROMPT.given("N"),
                setting::CHUNKS.given(choose)
            ),
            remedy: words!("try {}", setting::PROMPT.given(65_536)),
        };
        return Err(InputError::option(setting::PROMPT, missing));
    };
    // A prompt of tokens that cannot be is refused as such.
    let sizes = match (1..=LARGEST_EXACT).contains(&prompt) {
        true => choose.to_choose(prompt),
        false => vec![1],
    };
    let own_count = own.micro_batches.filter(|_| options.chunks.is_none());
    let at = |size: u64| PipelineOptions {
        chunks: Some(vec![size].into()),
        micro_batches: options.micro_batches.or(own_count),
        ..options.clone()
    };
    Ok(sizes.into_iter().map(at).collect())
}

/// A size that is looked at.
struct Size<'a> {
    settings: &'a Settings,
    problem: Problem,
    /// No plan of it takes less, in ns.
    bound_ns: u64,
}

/// The best plan of all sizes, with what is known of each: of those that need no search, what the same stages take.
///
/// # Errors
///
/// Those of [`Posed::solve`].
///
/// # Complexity
///
/// A search a size, those that are known to take long after the others: each looks for less than the best plan takes.
pub(super) fn search(posed: &Posed, method: Method, control: &Control) -> Result<Plan, Error> {
    let started = Instant::now();
    let (mut sizes, none) = sizes(posed, method.name())?;
    sizes.sort_by_key(|size| (size.bound_ns, size.settings.micro_batches));
    let mut plans: Vec<Plan> = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        must_apply(method, &size.problem)?;
        let left = (sizes.len() - at) as u32;
        let best_ms = plans
            .iter()
            .filter_map(|plan| plan.objective_ms)
            .min_by(f64::total_cmp);
        let control = Control {
            beat_ns: best_ms.map(|ms| (ms * NS_PER_MS).round() as u64),
            ..control
                .elsewhere()
                .with_time(control.remaining().map(|all| all / left))
        };
        plans.push(accepted(posed.instance, &size.problem, method, &control)?);
    }
    cost_others(posed.instance, &sizes, &mut plans);
    plans.extend(none);
    let mut plan = Plan::best_of_sizes(plans).unwrap_or_else(|| posed.without_plan(method.name()));
    plan.method = method.name().into();
    plan.statistics.seconds = started.elapsed().as_secs_f64();
    Ok(plan)
}

/// The least bound of all sizes, with what is known of each.
///
/// # Errors
///
/// Those of [`Posed::bound`].
pub(super) fn bound(posed: &Posed, control: &Control) -> Result<Plan, Error> {
    let (sizes, mut plans) = sizes(posed, methods::BOUND)?;
    for (at, size) in sizes.iter().enumerate() {
        let left = (sizes.len() - at) as u32;
        let control = control
            .elsewhere()
            .with_time(control.remaining().map(|all| all / left));
        plans.push(methods::bounded(posed.instance, &size.problem, &control)?);
    }
    Ok(Plan::best_of_sizes(plans).unwrap_or_else(|| posed.without_plan(methods::BOUND)))
}

/// The problem of each size, and that there is no plan of those that have none.
fn sizes<'a>(posed: &'a Posed, method: &str) -> Result<(Vec<Size<'a>>, Vec<Plan>), Error> {
    let (mut sizes, mut none) = (Vec::new(), Vec::new());
    for settings in &posed.sizes {
        match Problem::new(posed.instance, settings.clone()) {
            Ok(problem) => sizes.push(Size {
                settings,
                bound_ns: exact::simple_bound(&problem).1,
                problem,
            }),
            Err(error) if error.is_infeasible() => {
                none.push(Plan::infeasible(posed.instance, settings, method));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((sizes, none))
}

/// What the stages of the best plan take at the sizes that have no plan of their own.
fn cost_others(instance: &Instance, sizes: &[Size], plans: &mut [Plan]) {
    let objective_ms = |plan: &&Plan| plan.objective_ms.unwrap_or(f64::INFINITY);
    let best = plans
        .iter()
        .min_by(|one, other| objective_ms(one).total_cmp(&objective_ms(other)));
    let Some(best) = best.filter(|best| best.objective_ms.is_some()).cloned() else {
        return;
    };
    for (size, plan) in sizes.iter().zip(plans) {
        if plan.objective_ms.is_some() || plan.bound_ms.is_none() {
            continue;
        }
        let mut costed = most_tokens::costed(instance, size.settings, &best, plan.clone());
        let (objective_ms, bound_ms) = (costed.objective_ms, costed.bound_ms);
        if let (Some(objective_ms), Some(bound_ms)) = (objective_ms, bound_ms)
            && check::is_met(size.settings, objective_ms, bound_ms)
        {
            (costed.status, costed.stopped_by) = (Status::Optimal, StoppedBy::Completed);
        }
        if check::check(instance, size.settings, &costed).is_empty() {
            *plan = costed;
        }
    }
}
