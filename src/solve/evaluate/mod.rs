//! What a plan of somebody else costs: from stages alone to a whole plan, and everything that is wrong with it.
//!
//! The checker recomputes all numbers of a plan, whatever the plan says of them. So stages alone are completed with what it
//! finds, and checked again: what remains is what is wrong with the stages. Cost functions and searches have no part in it,
//! except for the shares of concurrent workers, which the problem's policy decides, and a bound that takes no search.

mod form;
mod shares;

use crate::check::{self, Figures, Verdict, Violation};
use crate::exact;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::{Cuts, Degrees, PipelineOptions};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::bare::BarePlan;
use crate::problem::plan::split::Split;
use crate::problem::plan::{Plan, PlanStage, Status, Transfers};
use crate::solve::methods;
use crate::solve::posed::bound_of_tokens;

/// What stages come to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The stages as a whole plan, with all numbers recomputed; those of a plan with violations say what it would take if it
    /// could be run, as far as that can be told.
    pub plan: Plan,
    /// Everything that is wrong with it.
    pub violations: Vec<Violation>,
}

/// The settings under which stages are costed: those that are asked for. Where nothing says how many stages there may be, as
/// many as the plan has, or as many devices as hold its chunks.
///
/// # Errors
///
/// Options that contradict each other or the instance.
pub fn settings(
    instance: &Instance,
    asked: &PipelineOptions,
    bare: &BarePlan,
) -> Result<Settings, InputError> {
    let settled = Settings::resolve(instance, asked);
    let said = asked.clone().or(&instance.pipeline);
    if settled.is_ok() || said.stages.is_some() {
        return settled;
    }
    let chunks = said
        .virtual_stages
        .as_ref()
        .and_then(Degrees::only_one)
        .unwrap_or(1);
    let own = PipelineOptions {
        stages: Some(bare.stages.len().div_ceil(chunks).max(1)),
        ..PipelineOptions::default()
    };
    Settings::resolve(instance, &said.or(&own))
}

/// Costs stages, and says what is wrong with them.
///
/// * `problem`: the problem of the settings, if there is one: where some layer fits no stage, there is none.
///
/// # Errors
///
/// What keeps the stages from being a plan at all: layers that are unknown, named twice or left out, empty stages, devices
/// that would have to be chosen.
pub fn evaluate(
    instance: &Instance,
    settings: &Settings,
    problem: Option<&Problem>,
    bare: &BarePlan,
) -> Result<Evaluation, InputError> {
    if settings.modal && settings.may_have_virtual_stages() {
        let kind = FaultKind::Unsupported {
            found: "stages in modes of which devices hold several".into(),
            expected: "a stage for each; `check` takes plans with their devices".into(),
        };
        return Err(InputError::option(setting::VIRTUAL_STAGES, kind));
    }
    let stages =
        form::stages(instance, settings, bare).map_err(|faults| InputError { path: None, faults })?;
    let mut plan = unknown(instance, settings, stages);
    if let Some(problem) = problem {
        shares::fill(problem, &mut plan.stages, instance);
    }
    // Whether stages have memory to hide their transfers follows from times that the plan has after the first time, and the time of an
    // iteration follows from that.
    for _ in 0..2 {
        let found = check::examine(instance, settings, &plan);
        complete(instance, settings, &mut plan, &found);
    }
    prove(settings, problem, &mut plan);
    let mut verdict = check::examine(instance, settings, &plan);
    plan.overruns = verdict.overruns;
    // What the plan says of itself are numbers of this module. They follow from stages that can be run, and from no others.
    let is_ours = |violation: &Violation| matches!(violation, Violation::Stated { .. } | Violation::Claim(_));
    if !verdict.violations.iter().all(is_ours) {
        verdict.violations.retain(|violation| !is_ours(violation));
    }
    Ok(Evaluation {
        plan,
        violations: verdict.violations,
    })
}

impl Evaluation {
    /// The best of the same stages at sizes of chunks of a prompt, with what is known of each; nothing without any.
    pub(crate) fn best_of_sizes(each: Vec<Self>) -> Option<Self> {
        match each.iter().any(|one| one.violations.is_empty()) && each.len() > 1 {
            false => each.into_iter().next(),
            true => {
                let passing = each.into_iter().filter(|one| one.violations.is_empty());
                Plan::best_of_sizes(passing.map(|one| one.plan).collect()).map(|plan| Self {
                    plan,
                    violations: Vec::new(),
                })
            }
        }
    }

    /// Holds the plan against a bound that a search has proved.
    #[doc(hidden)]
    pub fn hold_against(&mut self, settings: &Settings, bound: &Plan) {
        let Some(bound_ms) = bound.bound_ms else {
            return;
        };
        let plan = &mut self.plan;
        if plan.bound_ms.is_some_and(|own| own >= bound_ms) {
            return;
        }
        plan.bound_source = bound.bound_source;
        plan.statistics.bounds_ms.clone_from(&bound.statistics.bounds_ms);
        set_bound(settings, plan, bound_ms);
    }
}

/// A plan of these stages of which nothing else is known.
fn unknown(instance: &Instance, settings: &Settings, stages: Vec<PlanStage>) -> Plan {
    Plan {
        status: Status::Feasible,
        bound_source: BoundSource::None,
        stages,
        reasons: Vec::new(),
        ..Plan::infeasible(instance, settings, methods::OTHER)
    }
}

/// Writes down what the checker has found.
fn complete(instance: &Instance, settings: &Settings, plan: &mut Plan, found: &Verdict) {
    plan.objective_ms = found.objective_ms;
    for (stage, figures) in plan.stages.iter_mut().zip(&found.figures) {
        let Figures {
            forward_ms,
            backward_ms,
            weight_ms,
            load_ms,
            communication_ms,
            transfers,
            synchronization_ms,
            memory_bytes,
            host_bytes,
            in_flight,
            weight_versions,
        } = *figures;
        if let Some(mode) = &mut stage.mode {
            mode.host_bytes = host_bytes;
        }
        stage.forward_ms = forward_ms;
        stage.backward_ms = backward_ms;
        stage.weight_ms = weight_ms;
        stage.load_ms = load_ms;
        stage.communication_ms = communication_ms;
        stage.transfers = (transfers != Transfers::default()).then_some(transfers);
        stage.synchronization_ms = synchronization_ms;
        stage.memory_bytes = memory_bytes;
        stage.in_flight = in_flight;
        stage.weight_versions = weight_versions;
    }
    for (k, stage) in plan.stages.iter_mut().enumerate() {
        stage.state_chunks(found.chunks_ns.get(k).map_or(&[], Vec::as_slice));
    }
    plan.tokens = plan.tokens_by_stage(instance, 1.0).into_iter().flatten().min();
    plan.tokens_bound = settings.room.is_most.then(|| bound_of_tokens(instance, settings));
    let is_split = settings.cuts == Cuts::Separate;
    plan.split = is_split.then(|| Split::new(instance, settings, &plan.stages));
    plan.state_run(instance, settings, found.run);
}

/// States the bound that takes no search, as for the heuristics of the registry.
fn prove(settings: &Settings, problem: Option<&Problem>, plan: &mut Plan) {
    // Simple bounds count a layer with the times that it has on one device: stages with modes may be faster.
    let known = problem.filter(|problem| problem.modes.is_none());
    let bound_ms = known.map_or(0.0, |problem| {
        let (bound, bound_ns) = exact::simple_bound(problem);
        if bound_ns > 0 {
            plan.bound_source = bound.source;
        }
        settings.ms(bound_ns)
    });
    set_bound(settings, plan, bound_ms);
}

/// The bound, with the gap and the status that follow from it.
fn set_bound(settings: &Settings, plan: &mut Plan, bound_ms: f64) {
    plan.bound_ms = Some(bound_ms);
    let Some(objective_ms) = plan.objective_ms else {
        return;
    };
    plan.gap = Some(match objective_ms > 0.0 {
        true => ((objective_ms - bound_ms) / objective_ms).max(0.0),
        false => 0.0,
    });
    let has_most = plan.tokens_bound.is_none() || plan.tokens == plan.tokens_bound;
    plan.status = match has_most && check::is_met(settings, objective_ms, bound_ms) {
        true => Status::Optimal,
        false => Status::Feasible,
    };
}
