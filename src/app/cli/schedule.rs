//! `schedule`.

use std::time::{Duration, Instant};

use crate::app::flags::as_flags;
use crate::app::report;
use crate::exact::best_schedule::answer::{Answer, Objective};
use crate::exact::best_schedule::{cyclic, iteration};
use crate::formulations::solver::SolverError;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::{ChunkSizes, PipelineOptions};
use crate::model::units::ms_to_ns;
use crate::problem::control::Control;
use crate::problem::plan::{self, Plan, Status};
use crate::schedule::simulate::default_micro_batches;
use crate::schedule::{
    Chunk, Chunks, Moves, Order, Pattern, Placement, busy_link, chunks_of_plan, knows_memory, laid_on,
    take_memory,
};

use super::args::{AskedArgs, ChunkArgs, ScheduleArgs, ScheduleFormat};
use super::evaluate::evaluated;
use super::given_order::{Given, GivenOrder};
use super::plans::accept;
use super::progress::{catch_interrupts, interrupt_control};
use super::{CliError, Ending, joint, output};

/// Operations of an iteration, and terms of a program, that are refused before they are listed. Rows say by every slot how often every operation
/// has been started, by a sum over slots: eight million terms take seconds to write down, whatever the time limit.
const MOST_OPERATIONS: usize = 20_000;
const MOST_TERMS: u64 = 8_000_000;
/// Operations of a micro-batch: what waits for what takes the third power of them.
const MOST_KINDS: usize = 800;

/// Finds the best schedule and reports it.
pub(super) fn schedule(args: &ScheduleArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let format = output::format_of(path, args.format, ScheduleFormat::Text)?;
    let plan = args.plan.as_deref().map(plan::read).transpose()?;
    let limit = Duration::from_secs_f64(args.asked.time_limit);
    let control = || Control {
        started: Instant::now(),
        time_limit: Some(limit),
        seed: args.asked.seed,
        ..interrupt_control()
    };
    catch_interrupts();
    if let (Some(plan), Some(chunks)) = (&plan, &args.prompt_chunks) {
        return sized(args, plan, chunks, format);
    }
    let answer = match (&plan, &args.instance) {
        (None, Some(path)) => joint::answer(args, path, &control())?,
        _ => Question::new(args, plan.as_ref())?.answer(&control())?,
    };
    let text = match format {
        ScheduleFormat::Text => {
            let of = plan.as_ref().or(answer.cut.as_ref().map(|cut| &cut.plan));
            let times = of.map_or_else(Vec::new, |plan| plan.times.clone());
            report::schedule(&answer, &times, &output::style(path))
        }
        ScheduleFormat::Json => report::schedule_json(&answer),
        ScheduleFormat::Csv => answer
            .order()
            .as_ref()
            .map(Order::to_torch_csv)
            .unwrap_or_default(),
        ScheduleFormat::Svg => report::schedule_timeline(&answer),
    };
    let written = output::write(&text, path);
    // Neither is lost where the other cannot be written.
    if let (Some(cut), Some(path)) = (&answer.cut, args.cut.plan_output.as_deref()) {
        output::write(&report::json(&cut.plan), Some(path))?;
    }
    written?;
    Ok(match answer.status {
        Status::Optimal | Status::Feasible => Ending::Done,
        Status::Infeasible => Ending::Infeasible,
        Status::Unknown => Ending::NothingFound,
    })
}

/// Writes the plan of the same stages at the size of chunks that has a prompt read soonest.
fn sized(
    args: &ScheduleArgs,
    plan: &Plan,
    chunks: &ChunkSizes,
    format: ScheduleFormat,
) -> Result<Ending, CliError> {
    let (Some(plan_path), Some(path)) = (&args.plan, &args.instance) else {
        return Err(CliError::Usage(
            "found `--chunks` alone, expected a plan and `--instance`".into(),
        ));
    };
    let instance = plan.read_instance(path, args.cluster.as_deref())?;
    accept(&instance, path, plan, plan_path)?;
    let options = PipelineOptions {
        chunks: Some(chunks.clone()),
        prompt: args.prompt.or(plan.problem.prompt),
        micro_batches: None,
        ..plan.problem.clone()
    };
    let (evaluation, _) = evaluated(&instance, &options, (&plan.into(), Some(plan_path)), None)?;
    if let Some(violation) = evaluation.violations.first() {
        return Err(CliError::bad_plan(violation.written(as_flags)));
    }
    let path = args.output.as_deref();
    let text = match format {
        ScheduleFormat::Text => report::text(&instance, &evaluation.plan, &output::style(path)),
        ScheduleFormat::Json => report::json(&evaluation.plan),
        ScheduleFormat::Csv | ScheduleFormat::Svg => {
            return Err(CliError::Usage(
                "found `--format csv` or `svg` with `--chunks`, expected `text` or `json`: the order is that of the chunks".into(),
            ));
        }
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// What is asked, with nothing left open.
struct Question {
    of: String,
    chunks: Chunks,
    objective: Objective,
    micro_batches: usize,
    slot_ns: u64,
    /// In slots, for the least peak.
    period: u64,
    /// An order in place of the best.
    given: Option<GivenOrder>,
}

/// What is asked of an order where nobody says.
fn default_objective(is_iteration: bool) -> Objective {
    match is_iteration {
        true => Objective::Iteration,
        false => Objective::Peak,
    }
}

impl Question {
    fn new(args: &ScheduleArgs, plan: Option<&Plan>) -> Result<Self, CliError> {
        if plan.is_some() && args.instance.is_some() && args.asked.room.is_some() {
            return Err(CliError::Usage(
                "found `--room` in activations and `--instance` of a plan, which counts bytes; expected one of the two".into(),
            ));
        }
        let of_plan = plan.and_then(|plan| plan.problem.micro_batches);
        let laid = plan.map(|plan| Laid::new(args, plan)).transpose()?;
        let plan = laid.as_ref().map(|laid| &laid.plan);
        let mut chunks = match &laid {
            Some(laid) => laid.chunks(args)?,
            None => {
                check_even(args)?;
                even(&args.chunks)?
            }
        };
        chunks.room.iter_mut().for_each(|room| *room = args.asked.room);
        if let Some(Laid {
            plan,
            instance: Some(instance),
        }) = &laid
        {
            take_memory(&mut chunks, plan, instance)?;
        }
        if let Some(plan) = plan {
            warn_of_busy_links(plan, &chunks)?;
        }
        let asked = &args.asked;
        let given = Given::read(&args.given)?;
        let is_iteration = asked.micro_batches.is_some() || given.is_some();
        let objective = asked.objective.unwrap_or_else(|| default_objective(is_iteration));
        refuse(asked, objective)?;
        let of_order = given.as_ref().and_then(Given::micro_batches);
        let micro_batches = asked.micro_batches.map(u64::from).or(of_order).or(of_plan);
        let micro_batches = micro_batches
            .unwrap_or_else(|| default_micro_batches(chunks.devices()))
            .max(1);
        let slot_ns = match asked.slot {
            Some(slot) => time_ns("--slot", slot)?.max(1),
            None => cyclic::slot_ns(&chunks),
        };
        let least = cyclic::least_period(&chunks, slot_ns);
        let period = match asked.period {
            Some(period) => time_ns("--period", period)? / slot_ns,
            None => least,
        };
        if period < least {
            return Err(CliError::Usage(format!(
                "found `--period` of {period} slots, expected {least} at least, which the busiest device needs for a micro-batch"
            ).into()));
        }
        if given.is_some() {
            check_operations(kinds(&chunks), micro_batches as usize)?;
        }
        let given = given
            .map(|given| given.order(&chunks, micro_batches as usize))
            .transpose()?;
        let question = Self {
            of: plan.map_or_else(|| "even chunks".into(), |plan| plan.instance.clone()),
            chunks,
            objective,
            micro_batches: micro_batches as usize,
            slot_ns,
            period,
            given,
        };
        question.check_size()?;
        Ok(question)
    }

    fn check_size(&self) -> Result<(), CliError> {
        let kinds = kinds(&self.chunks);
        match self.objective {
            Objective::Iteration => check_operations(kinds, self.micro_batches)?,
            Objective::Peak | Objective::Period => check_count(kinds, self.micro_batches)?,
        }
        let terms = (kinds as u64)
            .saturating_mul(self.period)
            .saturating_mul(self.period);
        if self.objective != Objective::Iteration && terms > MOST_TERMS {
            return Err(CliError::Usage(format!(
                "found {kinds} operations in a period of {} slots, expected {MOST_TERMS} at most of operations times slots times slots; raise \
                 `--slot`",
                self.period
            ).into()));
        }
        Ok(())
    }

    fn answer(&self, control: &Control) -> Result<Answer, CliError> {
        let chunks = &self.chunks;
        if let Some(given) = &self.given {
            return Ok(given.run(&self.of, chunks, self.micro_batches)?);
        }
        let found = match self.objective {
            Objective::Peak => cyclic::least_peak(chunks, self.slot_ns, self.period, control)?,
            Objective::Period => cyclic::least_period_within_room(chunks, self.slot_ns, control)?,
            Objective::Iteration => {
                let own = self.start();
                // It is no more than a start, so that a solver that breaks down does no harm.
                let pattern = move |control: &Control| own.pattern(control).ok().flatten();
                let found = iteration::best_in_time(chunks, self.micro_batches, pattern, control);
                let answer = Answer::of_iteration(&self.of, chunks, &found, self.micro_batches);
                return answer.map_err(CliError::bad_plan);
            }
        };
        let answer = Answer::of_pattern(&self.of, chunks, self.objective, &found, self.micro_batches);
        answer.map_err(CliError::bad_plan)
    }

    /// What a pattern to start from needs to know.
    fn start(&self) -> StartingPattern {
        StartingPattern {
            chunks: self.chunks.clone(),
            slot_ns: self.slot_ns,
            period: self.period,
        }
    }
}

/// A pattern that fits, to start a search for an iteration from.
struct StartingPattern {
    chunks: Chunks,
    slot_ns: u64,
    period: u64,
}

impl StartingPattern {
    /// It, if one is found soon.
    fn pattern(&self, control: &Control) -> Result<Option<Pattern>, SolverError> {
        /// The part of the time that this may take, and the most operations and slots.
        const PART: u32 = 8;
        const MOST: u64 = 3_000;
        if 3 * self.chunks.len() as u64 * self.period > MOST {
            return Ok(None);
        }
        let control = control.with_time(control.remaining().map(|left| left / PART));
        let found = cyclic::least_period_within_room(&self.chunks, self.slot_ns, &control)?;
        Ok(found.pattern)
    }
}

/// A plan as its devices hold it, and its instance if that is given.
struct Laid {
    plan: Plan,
    instance: Option<Instance>,
}

impl Laid {
    fn new(args: &ScheduleArgs, plan: &Plan) -> Result<Self, CliError> {
        let mut laid = Self {
            plan: plan.clone(),
            instance: None,
        };
        let (Some(plan_path), Some(path)) = (&args.plan, &args.instance) else {
            return Ok(laid);
        };
        let instance = plan.read_instance(path, args.cluster.as_deref())?;
        accept(&instance, path, plan, plan_path)?;
        let devices = args.chunks.devices.map_or(plan.stages.len(), usize::from);
        let is_shared = plan.stages.len().is_multiple_of(devices) && devices < plan.stages.len();
        if plan.virtual_stages().is_none() && is_shared && knows_memory(plan, &instance)? {
            laid.plan = laid_on(plan, &instance, devices, placement(&args.chunks))?;
        }
        laid.instance = Some(instance);
        Ok(laid)
    }

    fn chunks(&self, args: &ScheduleArgs) -> Result<Chunks, InputError> {
        let devices = args.chunks.devices.map(usize::from);
        chunks_of_plan(&self.plan, &moves(&self.plan, &args.chunks, devices))
    }
}

/// Operations of a micro-batch.
fn kinds(chunks: &Chunks) -> usize {
    let phases = if chunks.may_split { 3 } else { 2 };
    phases * chunks.len()
}

/// Refuses even chunks that are too many before they are listed: what is refused later is, and what is small enough to be looked at is not.
fn check_even(args: &ScheduleArgs) -> Result<(), CliError> {
    let chunks = args.chunks.devices.map_or(1, usize::from) * virtual_stages(&args.chunks);
    let phases = if args.chunks.weight.is_some() { 3 } else { 2 };
    let asked = args.asked.micro_batches.map_or(1, |asked| asked as usize);
    let is_iteration = args.asked.objective == Some(Objective::Iteration);
    match is_iteration {
        true => check_operations(phases * chunks, asked),
        false => check_count(phases * chunks, asked),
    }
}

/// Refuses iterations of too many operations before they are listed, `kinds` of them a micro-batch.
pub(super) fn check_operations(kinds: usize, micro_batches: usize) -> Result<(), CliError> {
    if kinds > MOST_KINDS {
        return Err(CliError::Usage(
            format!(
                "found {kinds} operations a micro-batch, expected {MOST_KINDS} at most; use fewer chunks"
            )
            .into(),
        ));
    }
    check_count(kinds, micro_batches)
}

fn check_count(kinds: usize, micro_batches: usize) -> Result<(), CliError> {
    if kinds.saturating_mul(micro_batches) > MOST_OPERATIONS {
        return Err(CliError::Usage(format!(
            "found {micro_batches} micro-batches of {kinds} operations each, expected {MOST_OPERATIONS} operations in all at most; lower \
             `--micro-batches`, or use fewer chunks"
        ).into()));
    }
    Ok(())
}

/// Says so where links are what everything waits for.
pub(super) fn warn_of_busy_links(plan: &Plan, chunks: &Chunks) -> Result<(), CliError> {
    if let Some(stage) = busy_link(plan, chunks)? {
        output::warning(&format!(
            "a link of stage {stage} is busier than any device; schedules take transfers for delays, so that this one promises too much"
        ));
    }
    Ok(())
}

/// How the stages of a plan become chunks of so many devices: as the plan says of its virtual stages, where the flags say nothing.
pub(super) fn moves(plan: &Plan, args: &ChunkArgs, devices: Option<usize>) -> Moves {
    Moves {
        devices,
        placement: args
            .placement
            .or(plan.problem.placement)
            .unwrap_or(Placement::Loop),
        weight_share: args.weight_share,
    }
}

/// How even chunks, and those of an instance, lie on devices.
pub(super) fn placement(args: &ChunkArgs) -> Placement {
    args.placement.unwrap_or(Placement::Loop)
}

/// Chunks of every device.
pub(super) fn virtual_stages(args: &ChunkArgs) -> usize {
    let by_placement = match placement(args) {
        Placement::V => 2,
        Placement::Loop => 1,
    };
    args.virtual_stages.map_or(by_placement, usize::from)
}

/// Even chunks, as the flags say.
fn even(args: &ChunkArgs) -> Result<Chunks, CliError> {
    let devices = args.devices.map_or(1, usize::from);
    let virtual_stages = virtual_stages(args);
    let time = |name: &str, ms: Option<f64>| time_ns(name, ms.unwrap_or(0.0));
    let transfer_ns = time("--transfer", args.transfer)?;
    let chunk = Chunk {
        forward_ns: time("--forward", args.forward)?,
        input_ns: time("--backward", args.backward)?,
        weight_ns: time("--weight", args.weight)?,
        forward_transfer_ns: transfer_ns,
        backward_transfer_ns: transfer_ns,
        stash: 1,
        kept: 1,
        ..Chunk::default()
    };
    let mut chunks = Chunks::even(devices, virtual_stages, placement(args), chunk);
    chunks.may_split = args.weight.is_some();
    Ok(chunks)
}

/// A time of a flag in ns; far from what would no longer be exact once an iteration is added up.
fn time_ns(flag: &str, ms: f64) -> Result<u64, InputError> {
    const MOST_MS: f64 = 1e6;
    let fault = FaultKind::BadNumber {
        found: ms,
        expected: "a time in ms from 0 to 1000000",
    };
    match ms_to_ns(ms).filter(|_| ms <= MOST_MS) {
        Some(ns) => Ok(ns),
        None => Err(InputError::option(flag, fault)),
    }
}

/// Flags that say nothing where something else is minimised.
fn refuse(asked: &AskedArgs, objective: Objective) -> Result<(), CliError> {
    let without_meaning = match objective {
        Objective::Peak => (
            asked.room.is_some(),
            "--room",
            "`--objective period` or `iteration`",
        ),
        Objective::Period | Objective::Iteration => {
            (asked.period.is_some(), "--period", "`--objective peak`")
        }
    };
    match without_meaning {
        (true, flag, expected) => Err(CliError::Usage(
            format!("found `{flag}`, expected it with {expected} alone").into(),
        )),
        _ => Ok(()),
    }
}
