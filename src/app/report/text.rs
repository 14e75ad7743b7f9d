//! The report that a person reads: what was found, why it stopped, and the stages.

use anstyle::{AnsiColor, Style as Ink};

use super::Style;
use super::cut_points::{self, cut_points};
use super::format::{Digits, bytes, count, percent, seconds, wrap};
use super::model::grouped;
use super::{copies, memory, modes, passes, stages, times, virtual_stages};
use crate::model::instance::Instance;
use crate::model::options::{
    Communication, DeviceOrder, Groups, MemoryLimit, Mode, Objective, PipelineOptions, Schedule,
    Synchronization,
};
use crate::model::units::ns_to_ms;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::{ChunkSize, Plan, PlanStage, Status, StoppedBy};

/// Characters before a fact: its label and blanks.
pub(super) const LABEL: usize = 12;

/// What commands say that find no plan and do not look for what would help.
pub(super) const ASK_SOLVE: &str =
    "hint: `stagecut solve` says with which options there is a plan, or how much memory it needs";

/// The answer and what can be done about it, in a line: for those whose report lies in a file.
pub(crate) fn in_short(instance: &Instance, plan: &Plan) -> String {
    let digits = Digits::for_ms(plan.objective_ms.or(plan.bound_ms).unwrap_or(0.0));
    let hint = hint(instance, plan);
    let parts = [headline(plan, digits)].into_iter().chain(hint);
    parts.collect::<Vec<_>>().join("; ")
}

/// The text report of a plan, at most `style.width` columns wide where that is enough for the numbers.
///
/// `instance` gives the file order of the layers; the rest is the plan's.
pub fn text(instance: &Instance, plan: &Plan, style: &Style) -> String {
    let digits = Digits::for_ms(plan.objective_ms.or(plan.bound_ms).unwrap_or(0.0));
    let mut out = paint(
        &wrap(&headline(plan, digits), style.width, 0),
        ink(plan.status),
        style,
    );
    out += &wrap(&sentences(plan, digits), style.width, 0);
    out.push('\n');
    let least = plan
        .least_memory
        .as_ref()
        .map(|known| format!("memory: {}", memory::least(known)));
    let hint = hint(instance, plan).map(|hint| format!("hint: {hint}"));
    let overrun = passes::overrun(plan).map(|overrun| format!("memory: {overrun}"));
    let order = instance
        .network
        .unordered_in_words()
        .map(|words| format!("order: {words}"));
    let tie = cut_points::wide_tie(instance, plan);
    let notes = [
        memory::without_limit(instance, plan),
        overrun,
        order,
        tie,
        modes::without_choice(instance, plan),
        least,
        hint,
    ];
    for note in notes.into_iter().flatten() {
        out += &wrap(&note, style.width, 6);
        out.push('\n');
    }
    out.push('\n');
    if !plan.stages.is_empty() {
        out += &stages::table(instance, plan, digits, style);
        out += &wrap(legend(plan), style.width, 2);
        out += "\n\n";
    }
    for (label, fact) in facts(instance, plan, digits, style) {
        out += &wrap(&format!("{label:<LABEL$}{fact}"), style.width, LABEL);
        out.push('\n');
    }
    if let Some(table) = passes::table(plan, style) {
        out.push('\n');
        out += &table;
    }
    out
}

/// The answer in a line.
pub(super) fn headline(plan: &Plan, digits: Digits) -> String {
    let name = &plan.instance;
    let stages = count(plan.stages.len(), "stage");
    let value = plan
        .objective_ms
        .map_or_else(String::new, |ms| objective(plan, &digits.ms(ms)));
    let value = match plan
        .tokens
        .filter(|_| plan.problem.objective == Some(Objective::Tokens))
    {
        Some(tokens) => format!("room for {} tokens, then {value}", grouped(tokens)),
        None => value,
    };
    match plan.status {
        Status::Optimal => format!("Optimal plan of `{name}` in {stages}: {value}"),
        Status::Feasible => format!("Feasible plan of `{name}` in {stages}: {value}"),
        Status::Infeasible => format!("No plan of `{name}` exists"),
        Status::Unknown => {
            format!("Nothing found for `{name}`: neither a plan nor a proof that there is none")
        }
    }
}

/// The objective in words.
fn objective(plan: &Plan, ms: &str) -> String {
    match (plan.problem.timed_objective(), plan.problem.micro_batches) {
        (Some(Objective::Iteration), Some(chunks)) if plan.problem.chunks.is_some() => {
            format!("first token after {ms} ms, of a prompt in {}", in_chunks(chunks))
        }
        (Some(Objective::Iteration), Some(m)) => {
            format!("{ms} ms an iteration of {}", micro_batches(m))
        }
        (Some(Objective::Iteration), None) => format!("{ms} ms an iteration"),
        (Some(Objective::Formula), Some(m)) => {
            format!("{ms} ms an iteration of {} by the formula", micro_batches(m))
        }
        (Some(Objective::Formula), None) => format!("{ms} ms an iteration by the formula"),
        (Some(Objective::Latency), _) => format!("one micro-batch takes {ms} ms from end to end"),
        (Some(Objective::Period | Objective::Tokens) | None, _) if virtual_stages::is_asked(plan) => {
            format!("devices busy for at most {ms} ms with a micro-batch")
        }
        (Some(Objective::Period | Objective::Tokens) | None, _) => format!("one micro-batch every {ms} ms"),
    }
}

/// What is proved, and why the search stopped.
pub(super) fn sentences(plan: &Plan, digits: Digits) -> String {
    let by = match plan.bound_source {
        BoundSource::None => String::new(),
        source => format!(", by `{source}`"),
    };
    let limit = match plan.problem.stages {
        _ if virtual_stages::is_asked(plan) => virtual_stages::limit(plan).unwrap_or_default(),
        Some(1) => "in 1 stage".to_owned(),
        Some(q) if plan.problem.all_stages == Some(true) => format!("in exactly {q} stages"),
        Some(q) => format!("in at most {q} stages"),
        None => "in any number of stages".to_owned(),
    };
    let limit = match plan.chunk_sizes.len() {
        0 => limit,
        sizes => format!("{limit} and chunks of any of {sizes} sizes"),
    };
    let proved = match (plan.status, plan.bound_ms) {
        (Status::Optimal, _) => format!("It is proved that no plan {limit} is better{by}."),
        (Status::Feasible, _) if plan.tokens < plan.tokens_bound => format!(
            "A plan may exist with room for more tokens, up to {}.",
            grouped(plan.tokens_bound.unwrap_or(0))
        ),
        (Status::Infeasible, _) if !plan.reasons.is_empty() => {
            format!("It is proved that there is none: {}.", plan.reasons.join("; "))
        }
        (Status::Infeasible, _) => {
            format!("It is proved that none {limit} keeps to the order and fits the memory{by}.")
        }
        (_, Some(bound)) if bound > 0.0 => {
            let gap = match plan.gap {
                Some(gap) => format!("A better plan may exist, by at most {}: ", percent(gap)),
                None => String::new(),
            };
            let none = if gap.is_empty() { "No plan" } else { "no plan" };
            format!("{gap}{none} {limit} takes less than {} ms{by}.", digits.ms(bound))
        }
        _ => "Nothing is known of how good a plan could be.".into(),
    };
    format!("{proved} {}", why(plan))
}

fn why(plan: &Plan) -> String {
    let method = &plan.method;
    match plan.stopped_by {
        StoppedBy::Completed if matches!(plan.status, Status::Optimal | Status::Infeasible) => {
            format!("The search by `{method}` is complete.")
        }
        StoppedBy::Completed => format!("The method `{method}` has nothing left to try."),
        StoppedBy::Gap => format!("The search by `{method}` stopped at the gap that was asked for."),
        StoppedBy::TimeLimit => format!("The search by `{method}` stopped at the time limit."),
        StoppedBy::MemoryLimit => format!("The search by `{method}` stopped at the limit of its memory."),
        StoppedBy::Interrupt => format!("The search by `{method}` was interrupted."),
        StoppedBy::SizeLimit => {
            format!("The search by `{method}` stopped at a cap of the method, such as the number of ideals.")
        }
        StoppedBy::NoMethod => "No method proves this kind of problem.".into(),
        StoppedBy::SolverError => {
            format!("HiGHS broke down on a part of the search by `{method}`; the other parts are done.")
        }
    }
}

/// What the reader can do about it, if anything.
fn hint(instance: &Instance, plan: &Plan) -> Option<String> {
    match (plan.status, plan.stopped_by) {
        (Status::Optimal, _) => virtual_stages::empty(plan),
        (Status::Infeasible, _) => infeasible(instance, plan),
        (_, StoppedBy::Completed | StoppedBy::SizeLimit) if plan.method != "exact" => {
            Some("`--method exact` finds and proves an optimum".into())
        }
        (_, StoppedBy::TimeLimit) => Some("raise `--time-limit`".into()),
        (_, StoppedBy::MemoryLimit) => Some("raise `--memory`".into()),
        (_, StoppedBy::SolverError) => Some("try another `--seed` or `--method`".into()),
        (_, StoppedBy::Gap) => Some("lower `--gap`; 0 asks for the optimum".into()),
        _ => None,
    }
}

/// What a plan was found with, or else what may help.
fn infeasible(instance: &Instance, plan: &Plan) -> Option<String> {
    let with = |options: &String| match options.strip_prefix("without ") {
        Some(option) => format!("without `{option}`"),
        None => format!("with `{options}`"),
    };
    let found: Vec<String> = plan.remedies.iter().map(with).collect();
    let problem = &plan.problem;
    let kinds = problem.device_kinds.iter().flatten();
    let counts = kinds.map(|name| instance.cluster.kinds[instance.cluster.kind(name)?].count);
    let devices = problem.devices.or(counts.sum());
    let may_grow = problem.stages < devices || devices.is_none();
    let mut remedies = match (found.is_empty(), problem.all_stages) {
        (false, _) => vec![format!("there is a plan {}", found.join(", or "))],
        (true, Some(true)) => vec!["try fewer `--stages`, or none of `--all-stages`".into()],
        (true, _) if may_grow => vec!["try more `--stages`".into()],
        (true, _) => Vec::new(),
    };
    if plan.reasons.is_empty() {
        remedies.extend(memory::raise(instance, plan));
    }
    (!remedies.is_empty()).then(|| remedies.join("; or "))
}

pub(super) fn legend(plan: &Plan) -> &'static str {
    match plan.problem.communication {
        _ if virtual_stages::is_asked(plan) => {
            "> marks the chunks of the busiest device. Share: how busy a chunk's device is, of the busiest. Memory: a chunk's part \
             when its device holds most."
        }
        Some(Communication::Overlapped) => {
            "> marks the bottleneck. Share: the busier of load and transfers, of the bottleneck's; transfers are those \
             of the busier link."
        }
        Some(Communication::Blocking | Communication::Ignored) | None => {
            "> marks the bottleneck. Load: work and transfers. Share: load, of the bottleneck's."
        }
    }
}

pub(super) fn facts(
    instance: &Instance,
    plan: &Plan,
    digits: Digits,
    style: &Style,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let meaning = match plan.problem.timed_objective() {
        Some(Objective::Iteration) if plan.problem.chunks.is_some() => {
            "iteration: until the last stage has read the last chunk, as simulated"
        }
        Some(Objective::Iteration) => "iteration: all micro-batches and the flush, as simulated",
        Some(Objective::Formula) => "formula: all micro-batches and the flush, by the standard formula",
        Some(Objective::Latency) => "latency: one micro-batch alone, through all stages",
        Some(Objective::Period | Objective::Tokens) | None if virtual_stages::is_asked(plan) => {
            "the busiest device's work: no period is shorter, and `--objective iteration` says what runs"
        }
        Some(Objective::Period | Objective::Tokens) | None => {
            "period: time between micro-batches in steady state"
        }
    };
    facts.extend(memory::room(instance, plan).map(|room| ("room", room)));
    if let Some(ms) = plan.objective_ms {
        facts.push(("objective", format!("{} ms ({meaning})", digits.ms(ms))));
    }
    if let Some(ms) = plan.bound_ms {
        let source = match plan.bound_source {
            BoundSource::None => String::new(),
            source => format!(" (from `{source}`)"),
        };
        facts.push(("bound", format!("{} ms{source}", digits.ms(ms))));
    }
    if let Some(gap) = plan.gap {
        facts.push(("gap", percent(gap)));
    }
    facts.extend(how_it_runs(plan, digits).map(|run| ("run", run)));
    facts.extend(prompt(plan, digits).map(|prompt| ("prompt", prompt)));
    facts.extend(sizes(plan, digits).map(|sizes| ("chunks", sizes)));
    facts.extend(estimate(plan, digits).map(|estimate| ("estimate", estimate)));
    facts.push(("status", plan.status.to_string()));
    facts.push(("stopped by", plan.stopped_by.to_string()));
    facts.push(("region", region(plan)));
    facts.extend(price(plan, digits).map(|price| ("price", price)));
    facts.push(("problem", problem(instance, plan)));
    facts.extend(times::described(&plan.times).map(|times| ("times", times)));
    facts.extend(once(instance, plan).map(|once| ("once", once)));
    facts.extend(memory::precision(instance, plan).map(|precision| ("precision", precision)));
    facts.extend(modes::throughput(plan).map(|rate| ("throughput", rate)));
    facts.extend(modes::modes(plan).map(|modes| ("modes", modes)));
    facts.extend(modes::experts(plan).map(|load| ("experts", load)));
    facts.extend(copies::shared(instance, plan).map(|tables| ("shared", tables)));
    facts.extend(modes::recomputation(instance, plan, digits).map(|again| ("recomputed", again)));
    facts.extend(modes::offload(instance, plan, digits).map(|there| ("offloaded", there)));
    facts.extend(virtual_stages::period(plan, digits).map(|period| ("period", period)));
    facts.extend(virtual_stages::devices(plan, digits).map(|devices| ("by device", devices)));
    facts.extend(passes::in_flight(plan).map(|in_flight| ("in flight", in_flight)));
    facts.extend(passes::cuts(instance, plan).map(|cuts| ("cuts", cuts)));
    facts.extend(shares(plan).map(|shares| ("shares", shares)));
    facts.extend(cut_points(instance, plan).map(|points| ("cut at", points)));
    if style.statistics {
        facts.push(("search", search(plan)));
        let bounds = plan.statistics.bounds_ms.iter();
        let bounds: Vec<String> = bounds
            .map(|(name, &ms)| format!("{name} {} ms", digits.ms(ms)))
            .collect();
        if !bounds.is_empty() {
            facts.push(("bounds", bounds.join(", ")));
        }
    }
    facts
}

/// What a heuristic takes its plan for.
fn estimate(plan: &Plan, digits: Digits) -> Option<String> {
    let ms = digits.ms(plan.statistics.estimate_ms?);
    Some(format!(
        "{ms} ms (what `{}` minimises, by its own model)",
        plan.method
    ))
}

/// What the region costs against plans of none.
fn price(plan: &Plan, digits: Digits) -> Option<String> {
    let (free, objective_ms) = (plan.unrestricted?, plan.objective_ms?);
    let costs = match plan.problem.target {
        Some(target) => format!("`{target}` costs"),
        None => "equal degrees cost".into(),
    };
    let best_ms = free.objective_ms.unwrap_or(f64::INFINITY).min(objective_ms);
    let bound_ms = free.bound_ms.min(best_ms);
    let [least, most] = [best_ms, bound_ms].map(|ms| percent(objective_ms / ms - 1.0));
    let [best, bound] = [best_ms, bound_ms].map(|ms| digits.ms(ms));
    Some(match (best_ms < objective_ms, bound_ms < best_ms) {
        (false, false) => format!("{costs} nothing: no plan of any region takes less"),
        (true, false) => format!("{costs} {least}: the best plan of any region takes {best} ms"),
        (false, true) => {
            format!(
                "{costs} {most} at most: no better plan of any region was found, and none takes less than {bound} ms"
            )
        }
        (true, true) => {
            format!(
                "{costs} {least} to {most}: a plan of any region takes {best} ms, and none less than {bound} ms"
            )
        }
    })
}

/// How it runs: what fill and drain are, and what is left of a second, so that a period is not taken for what runs.
pub(crate) fn how_it_runs(plan: &Plan, digits: Digits) -> Option<String> {
    let (run, m) = (plan.run?, plan.problem.micro_batches?);
    Some(format!(
        "an iteration of {} takes {} ms as simulated, {} of it fill and drain; one every {} ms between; {:.4} micro-batches a second",
        micro_batches(m),
        digits.ms(run.iteration_ms),
        percent(run.bubble_share),
        digits.ms(run.period_ms),
        run.micro_batches_per_s
    ))
}

/// What is read, and what the first and the last chunk take on each stage.
fn prompt(plan: &Plan, digits: Digits) -> Option<String> {
    let (tokens, ms) = (plan.problem.prompt?, plan.objective_ms?);
    let each = plan
        .stages
        .iter()
        .filter_map(|stage| stage.chunks_ms.first().zip(stage.chunks_ms.last()));
    let each: Vec<String> = each
        .map(|(first, last)| format!("{} to {}", digits.ms(*first), digits.ms(*last)))
        .collect();
    let per_s = if ms > 0.0 {
        format!(", {:.1} a second", 1e3 * tokens as f64 / ms)
    } else {
        String::new()
    };
    Some(format!(
        "{} tokens{per_s}; first to last chunk, stage by stage: {} ms",
        grouped(tokens),
        each.join(", ")
    ))
}

/// The size that was chosen, and what others take: at least so long where no plan of theirs is known.
pub(crate) fn sizes(plan: &Plan, digits: Digits) -> Option<String> {
    let own = plan.problem.given_chunks()?.first()?;
    let others = plan.chunk_sizes.iter().filter(|size| size.tokens != *own);
    let each = |size: &ChunkSize| {
        let (tokens, bound) = (grouped(size.tokens), digits.ms(size.bound_ms));
        match size.objective_ms.map(|ms| digits.ms(ms)) {
            Some(ms) if ms == bound => format!("{tokens} {ms} ms"),
            Some(ms) => format!("{tokens} {ms} ms ({bound} at least)"),
            None => format!("{tokens} {bound} ms at least"),
        }
    };
    let others: Vec<String> = others.map(each).collect();
    let stand = format!(
        "{} tokens, chosen of {}",
        grouped(*own),
        count(plan.chunk_sizes.len(), "size")
    );
    (!others.is_empty()).then(|| format!("{stand}: {}", others.join(", ")))
}

fn in_chunks(chunks: u64) -> String {
    count(chunks as usize, "chunk")
}

/// Which plans were compared. Other tools mean other regions by the same words, so every report says it.
fn region(plan: &Plan) -> String {
    let used = match (plan.problem.stages, plan.stages.len()) {
        _ if virtual_stages::is_asked(plan) => {
            let limit = virtual_stages::limit(plan);
            limit.map_or_else(String::new, |limit| format!("; {limit}"))
        }
        (None, _) => String::new(),
        (Some(q), 0) => format!("; at most {}", count(q, "stage")),
        (Some(q), used) => format!("; {used} of at most {} used", count(q, "stage")),
    };
    let used = match plan.problem.all_stages {
        Some(true) => used.replace("at most ", "exactly "),
        _ => used,
    };
    format!("ordered: the quotient graph is acyclic and stage order is a topological order of it{used}")
}

/// What the cluster says of an iteration beside what is planned.
fn once(instance: &Instance, plan: &Plan) -> Option<String> {
    let once_ms = ns_to_ms(instance.cluster.iteration_ns);
    let run = plan.run.filter(|_| once_ms > 0.0)?;
    Some(format!(
        "{once_ms} ms an iteration beside the plan, by the cluster's figures: {:.6} ms in all",
        run.iteration_ms + once_ms
    ))
}

fn problem(instance: &Instance, plan: &Plan) -> String {
    let problem = &plan.problem;
    let mut words = Vec::new();
    words.extend(problem.mode.map(|mode| mode.to_string()));
    // In inference there is one order of work only.
    if problem.mode.is_some_and(Mode::trains) {
        words.extend(
            problem
                .schedule
                .map(|schedule: Schedule| format!("schedule {schedule}")),
        );
    }
    words.extend(virtual_stages::shape(plan));
    words.extend(problem.micro_batches.map(|count| match &problem.chunks {
        Some(_) => format!("a prompt in {}", in_chunks(count)),
        None => micro_batches(count),
    }));
    words.extend(problem.communication.map(|c| format!("{c} communication")));
    if problem.communication.is_none_or(Communication::takes_time) {
        let link = problem.bandwidth_bytes_per_s;
        let inside = instance.cluster.nodes.map(|nodes| {
            let rate = bytes(nodes.link.bandwidth_bytes_per_s as u64);
            format!(" between nodes of {}, {rate}/s inside", nodes.devices)
        });
        let inside = inside.unwrap_or_default();
        let kind = |at: usize| &instance.cluster.kinds[at].name;
        let pairs = instance.cluster.links.iter().map(|pair| {
            let [one, other] = pair.kinds.map(kind);
            let rate = bytes(pair.link.bandwidth_bytes_per_s as u64);
            format!(", {rate}/s between {one} and {other}")
        });
        let pairs: String = pairs.collect();
        words.extend(link.map(|rate| format!("links of {}/s{inside}{pairs}", bytes(rate as u64))));
    }
    let kinds = problem.device_kinds.iter().flatten();
    let kinds: Vec<String> = kinds.map(|kind| devices(instance, problem, kind)).collect();
    if !kinds.is_empty() {
        words.push(format!("devices {}", kinds.join(", ")));
    }
    words.extend(workers(problem));
    words.extend(problem.memory_limit.map(|limit| match limit {
        MemoryLimit::Bytes(most) => format!("{} of memory a stage", bytes(most)),
        MemoryLimit::Unlimited(_) => "memory without limit".into(),
    }));
    if problem.mode.is_some_and(Mode::trains) {
        words.extend(
            problem
                .optimizer
                .map(|optimizer| format!("optimizer {optimizer}")),
        );
    }
    words.join(", ")
}

/// A kind of device, and how many there are.
fn devices(instance: &Instance, problem: &PipelineOptions, kind: &str) -> String {
    let stated = instance
        .cluster
        .kind(kind)
        .and_then(|at| instance.cluster.kinds[at].count);
    match (problem.devices, stated) {
        (Some(asked), Some(count)) => {
            format!("`{kind}` ({asked}, as if there were; the cluster has {count})")
        }
        (Some(asked), None) => format!("`{kind}` ({asked})"),
        (None, Some(count)) => format!("`{kind}` ({count})"),
        (None, None) => format!("`{kind}` (no count given: unlimited)"),
    }
}

/// Who runs a stage, and how, where the problem says so.
fn workers(problem: &PipelineOptions) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(problem.groups.map(|groups| match groups {
        Groups::Given => "groups as given".to_owned(),
        Groups::Assign => "groups of any devices".into(),
    }));
    if problem.device_order == Some(DeviceOrder::Given) {
        words.push("kinds of devices in the order in which they are listed".into());
    }
    if problem.synchronization == Some(Synchronization::Ring) {
        words.push("ring synchronization".into());
    }
    words.extend(problem.worker.map(|worker| format!("{worker} workers")));
    words.extend(problem.shares.map(|shares| format!("{shares} shares")));
    words.extend(
        problem
            .share_parts
            .map(|parts| format!("shares in {parts} parts")),
    );
    words
}

/// The part of every resource that works on forward propagation, stage by stage; the rest works on backward propagation.
fn shares(plan: &Plan) -> Option<String> {
    let stage = |stage: &PlanStage| {
        let part = |(name, share): (&String, &f64)| format!("{name} {:.1} %", 100.0 * share);
        let parts: Vec<String> = stage.shares.iter().map(part).collect();
        (!parts.is_empty()).then(|| format!("stage {}: {}", stage.index, parts.join(", ")))
    };
    let stages: Vec<String> = plan.stages.iter().filter_map(stage).collect();
    (!stages.is_empty()).then(|| format!("forward propagation gets, in {}", stages.join("; ")))
}

pub(super) fn micro_batches(m: u64) -> String {
    match m {
        1 => "1 micro-batch".into(),
        m => format!("{m} micro-batches"),
    }
}

fn search(plan: &Plan) -> String {
    let statistics = &plan.statistics;
    let mut words = vec![
        format!("{} s", seconds(statistics.seconds)),
        count(statistics.nodes as usize, "node"),
        format!(
            "{} -> {} items after presolve",
            statistics.items, statistics.items_after_presolve
        ),
        format!("{} binaries", statistics.binaries),
    ];
    words.extend(statistics.ideals.map(|ideals| count(ideals, "ideal")));
    words.extend(
        statistics
            .confirmed_by
            .as_ref()
            .map(|method| format!("confirmed by `{method}`")),
    );
    words.join(", ")
}

/// A plan is good news, a proof the best; nothing is neither.
fn ink(status: Status) -> Ink {
    let color = match status {
        Status::Optimal => AnsiColor::Green,
        Status::Feasible => AnsiColor::Cyan,
        Status::Infeasible => AnsiColor::Red,
        Status::Unknown => AnsiColor::Yellow,
    };
    Ink::new().bold().fg_color(Some(color.into()))
}

fn paint(text: &str, ink: Ink, style: &Style) -> String {
    match style.color {
        true => format!("{ink}{text}{ink:#}\n"),
        false => format!("{text}\n"),
    }
}
