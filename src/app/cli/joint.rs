//! `schedule` of an instance: the cut is chosen together with the order.

use std::path::Path;

use crate::app::flags::as_flags;
use crate::check::{self, pose};
use crate::exact::best_schedule::answer::{Answer, ChosenCut, Objective};
use crate::exact::joint::{self, Found, Question};
use crate::formulations::partition::item_labels;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::{PipelineOptions, Schedule};
use crate::model::settings::Settings;
use crate::model::units::ns_to_ms;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::Plan;
use crate::schedule::simulate::default_micro_batches;
use crate::schedule::{Chunks, chunks_of_plan};
use crate::solve::methods;

use super::args::{ChunkArgs, ScheduleArgs};
use super::schedule::{check_operations, moves, placement, virtual_stages, warn_of_busy_links};
use super::{CliError, output};

/// Chooses a cut of an instance and an order, and writes the plan if a file is named for it.
pub(super) fn answer(args: &ScheduleArgs, path: &Path, control: &Control) -> Result<Answer, CliError> {
    refuse(args)?;
    output::check_path(args.cut.plan_output.as_deref())?;
    let mut instance = Instance::read_at(path, args.cluster.as_deref(), args.efficiency)?;
    let chunks = &own_chunks(args, &mut instance);
    instance
        .warnings
        .iter()
        .for_each(|warning| output::warning(warning));
    let asked = args.asked.micro_batches.map_or(1, |asked| asked as usize);
    let stages = chunks.devices.map_or(1, usize::from) * virtual_stages(chunks);
    check_operations(2 * stages, asked)?;
    // There must be devices, however many chunks they hold.
    Settings::resolve(&instance, &one_stage_a_device(args, chunks))?;
    let settings = Settings::resolve(&instance, &options(args, chunks))?;
    if let Some(found) = joint::refusal(&settings) {
        let kind = FaultKind::Unsupported {
            found: found.into(),
            expected: "training on devices that are alike, with tied cuts".into(),
        };
        return Err(InputError::in_file(path, [Fault::new("the problem", kind)]).into());
    }
    let splits = chunks.weight_share.is_some() || instance.network.splits_backward();
    let micro_batches = micro_batches(args, &settings);
    check_operations(if splits { 3 } else { 2 } * settings.stages, micro_batches)?;
    let problem = Problem::new(&instance, settings)?;
    let question = Question {
        devices: chunks.devices.map_or(1, usize::from),
        virtual_stages: virtual_stages(chunks),
        placement: placement(chunks),
        micro_batches,
        weights: joint::Weights::of(&instance, &problem, args.chunks.weight_share),
        room: args.asked.room,
    };
    let labels = item_labels(&instance, &problem);
    let found = joint::best_in_time(&problem, &question, &labels, control);
    let Some((_, of_cut)) = &found.cut else {
        let none = Chunks {
            placement: question.placement,
            chunks: Vec::new(),
            room: vec![None; question.devices],
            may_split: question.weights.may_split(),
            trains: true,
        };
        return Answer::of_iteration(&instance.name, &none, &found.of_cut, question.micro_batches)
            .map_err(CliError::bad_plan);
    };
    let plan = plan((&instance, &problem), &question, &found)?;
    // The order is run once more, on times that are those of the plan.
    let own = chunks_of_plan(&plan, &moves(&plan, chunks, None))?;
    let own = of_cut.with_times_of(&own);
    warn_of_busy_links(&plan, &own)?;
    let answer = Answer::of_iteration(&instance.name, &own, &found.of_cut, question.micro_batches);
    let mut answer = answer.map_err(CliError::bad_plan)?;
    let claimed_ms = found.of_cut.iteration_ns.map(ns_to_ms);
    if answer.iteration.as_ref().map(|iteration| iteration.iteration_ms) != claimed_ms {
        return Err(CliError::bad_plan(format!(
            "its order does not take {claimed_ms:?} ms"
        )));
    }
    answer.cut = Some(ChosenCut {
        bound_ms: ns_to_ms(found.cut_bound_ns),
        cuts: found.cuts,
        open: found.open,
        plan,
    });
    Ok(answer)
}

/// Flags that say nothing of a cut and its best order.
fn refuse(args: &ScheduleArgs) -> Result<(), CliError> {
    const PATTERN: &str = "an iteration, for which alone cut and order are chosen together";
    const GIVEN: &str = "a plan that it is an order of";
    let asked = &args.asked;
    let is_other = |objective: Objective| objective != Objective::Iteration;
    let flags = [
        (asked.objective.is_some_and(is_other), "--objective", PATTERN),
        (asked.period.is_some(), "--period", PATTERN),
        (asked.slot.is_some(), "--slot", PATTERN),
        (args.given.rule.is_some(), "--rule", GIVEN),
        (args.given.order.is_some(), "--order", GIVEN),
    ];
    match flags.into_iter().find(|&(is_there, ..)| is_there) {
        None if args.output.is_some() && args.output == args.cut.plan_output => Err(CliError::Usage(
            "found the same file for `--output` and `--plan-output`, expected one for each".into(),
        )),
        None => Ok(()),
        Some((_, flag, expected)) => Err(CliError::Usage(
            format!("found `{flag}` with an instance in place of a plan, expected {expected}").into(),
        )),
    }
}

/// The chunks that are asked for; what the instance says of its virtual stages, where the flags say nothing. Stages of the problem are chunks,
/// so that it has no virtual ones itself.
fn own_chunks(args: &ScheduleArgs, instance: &mut Instance) -> ChunkArgs {
    let own = &mut instance.pipeline;
    own.schedule = own.schedule.filter(|&schedule| schedule == Schedule::Concurrent);
    let virtual_stages = own
        .virtual_stages
        .take()
        .and_then(|chunks| u16::try_from(chunks.only_one()?).ok());
    ChunkArgs {
        virtual_stages: args.chunks.virtual_stages.or(virtual_stages),
        placement: args.chunks.placement.or(own.placement.take()),
        ..args.chunks.clone()
    }
}

/// The problem whose cuts are looked at. Its objective and schedule do not matter, but what they ask for must be there.
fn options(args: &ScheduleArgs, chunks: &ChunkArgs) -> PipelineOptions {
    let devices = chunks.devices.map_or(1, usize::from);
    let virtual_stages = virtual_stages(chunks);
    PipelineOptions {
        stages: Some(devices * virtual_stages),
        // Several stages lie on a device: there are as many as stages need, for all that plans know.
        devices: (virtual_stages > 1).then_some(devices * virtual_stages),
        all_stages: (virtual_stages > 1).then_some(true),
        objective: Some(crate::model::options::Objective::Period),
        micro_batches: args.asked.micro_batches.map(u64::from),
        communication: args.cut.communication,
        memory_limit: args.cut.memory_limit,
        ..PipelineOptions::default()
    }
}

fn one_stage_a_device(args: &ScheduleArgs, chunks: &ChunkArgs) -> PipelineOptions {
    PipelineOptions {
        stages: chunks.devices.map(usize::from),
        devices: None,
        all_stages: None,
        ..options(args, chunks)
    }
}

fn micro_batches(args: &ScheduleArgs, settings: &Settings) -> usize {
    let devices = args.chunks.devices.map_or(1, usize::from);
    let asked = settings.micro_batches;
    asked.unwrap_or_else(|| default_micro_batches(devices)).max(1) as usize
}

/// The plan of a cut and its order, once the checker has accepted it.
fn plan(
    (instance, problem): (&Instance, &Problem),
    question: &Question,
    found: &Found,
) -> Result<Plan, CliError> {
    let plan = joint::plan((instance, problem), question, found, methods::OTHER);
    let plan = plan.ok_or_else(|| CliError::bad_plan("a cut without an order"))?;
    let posed = pose(instance, &plan.problem, &plan)?;
    match check::check(instance, &posed.settings, &plan).first() {
        None => Ok(plan),
        Some(violation) => Err(CliError::bad_plan(violation.written(as_flags))),
    }
}
