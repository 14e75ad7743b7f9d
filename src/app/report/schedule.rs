//! A schedule as text, JSON and timeline.

use anstyle::Style as Ink;
use serde::Serialize;

use super::Style;
use super::csv::{pretty, to_csv};
use super::format::{Digits, count, percent, wrap};
use super::lanes::{self, Lanes, Task};
use super::palette::Colors;
use super::phases;
use super::table::{Column, draw};
use super::text::{LABEL, micro_batches};
use super::times::times;
use crate::exact::best_schedule::answer::{Answer, Iteration, Objective, Open, RepeatedPattern, Timed};
use crate::problem::plan::{PlanTimes, Status};
use crate::schedule::{Phase, Placement};

/// The text report of a schedule, about `style.width` columns wide; its chunks take such times, as far as that is known.
pub(crate) fn schedule(answer: &Answer, of_chunks: &[PlanTimes], style: &Style) -> String {
    let mut out = wrap(&headline(answer), style.width, 0) + "\n\n";
    if answer.iteration.is_some() {
        out += &draw(&columns(answer), style.color, |_| None, |_| Ink::new());
        out.push('\n');
    }
    for (label, fact) in facts(answer) {
        out += &wrap(&format!("{label:<LABEL$}{fact}"), style.width, LABEL);
        out.push('\n');
    }
    out += &times(of_chunks, style);
    if !answer.rules.is_empty() {
        out.push('\n');
        out += &draw(&rules(answer), style.color, |_| None, |_| Ink::new());
    }
    out
}

/// A schedule as JSON, with every operation.
pub(crate) fn schedule_json(answer: &Answer) -> String {
    pretty(answer)
}

/// An operation as a row.
#[derive(Serialize)]
struct Row {
    device: usize,
    chunk: usize,
    micro_batch: usize,
    phase: Phase,
    start_ms: f64,
    end_ms: f64,
}

/// The operations of an iteration as CSV, device by device; numbers from 0, as in JSON.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub(crate) fn schedule_csv(answer: &Answer) -> Result<String, ::csv::Error> {
    let row = |timed: &Timed| Row {
        device: timed.device,
        chunk: timed.operation.chunk,
        micro_batch: timed.operation.micro_batch,
        phase: timed.operation.phase,
        start_ms: timed.start_ms,
        end_ms: timed.end_ms,
    };
    let operations = answer
        .iteration
        .iter()
        .flat_map(|iteration| &iteration.operations);
    to_csv(operations.map(row))
}

/// What was asked, and what came of it.
fn headline(answer: &Answer) -> String {
    let chunks: usize = answer.devices.iter().map(Vec::len).sum();
    let placed = match (answer.placement, chunks == answer.devices.len()) {
        (_, true) => "",
        (Placement::Loop, _) => " in a loop",
        (Placement::V, _) => " in a V",
    };
    format!(
        "Schedule of `{}`: {}{placed} on {}: {}",
        answer.of,
        count(chunks, "chunk"),
        count(answer.devices.len(), "device"),
        result(answer)
    )
}

fn result(answer: &Answer) -> String {
    let proved = match answer.status {
        Status::Optimal => "proved optimal".into(),
        Status::Feasible => not_proved(answer),
        Status::Infeasible => {
            return "proved infeasible: the devices have no room for one micro-batch".into();
        }
        Status::Unknown => return format!("nothing found ({})", answer.stopped_by),
    };
    let peak = |pattern: &RepeatedPattern| pattern.peak.iter().max().copied().unwrap_or(0);
    match (answer.objective, &answer.pattern, &answer.iteration) {
        (Objective::Peak, Some(pattern), _) => format!(
            "peak of {} at a period of {}, {proved}",
            peak(pattern),
            ms(pattern.period_ms)
        ),
        (Objective::Period, Some(pattern), _) => format!("period of {}, {proved}", ms(pattern.period_ms)),
        (_, _, Some(iteration)) => format!(
            "{} in {}{}, {proved}",
            micro_batches(iteration.micro_batches as u64),
            ms(iteration.iteration_ms),
            answer
                .given
                .as_ref()
                .map_or_else(String::new, |given| format!(" by `{given}`"))
        ),
        (_, _, None) => proved,
    }
}

/// How far an order that was given may be from the best; of one that was looked for, the gap is told below.
fn not_proved(answer: &Answer) -> String {
    let bound = answer
        .iteration
        .as_ref()
        .and_then(|iteration| Some((iteration.iteration_ms, iteration.bound_ms?)));
    match (&answer.given, bound) {
        (Some(_), Some((ms, bound_ms))) if bound_ms > 0.0 => {
            let above = percent((ms - bound_ms) / bound_ms);
            format!("at most {above} longer than the best")
        }
        (Some(_), None) => "under the trace or jitter that was asked for".into(),
        _ => "not proved".into(),
    }
}

fn ms(ms: f64) -> String {
    format!("{} ms", Digits::for_ms(ms).ms(ms))
}

/// A row a device: its chunks, what it holds, and what it does, one period or the beginning of an iteration.
fn columns(answer: &Answer) -> Vec<Column> {
    let devices = 0..answer.devices.len();
    let cells = |cell: &dyn Fn(usize) -> String| devices.clone().map(cell).collect::<Vec<_>>();
    let chunks = |device: usize| {
        let own: Vec<String> = answer.devices[device].iter().map(ToString::to_string).collect();
        own.join(" ")
    };
    let mut columns = vec![
        Column::numbers("device", "", cells(&|device| device.to_string())),
        Column::words("chunks", cells(&chunks)),
    ];
    if let Some(pattern) = &answer.pattern {
        columns.push(Column::numbers(
            "holds",
            "at most",
            cells(&|device| pattern.peak[device].to_string()),
        ));
        columns.push(Column::words(
            "one period",
            cells(&|device| of_period(pattern, device)),
        ));
    } else if let Some(iteration) = &answer.iteration {
        columns.push(Column::numbers(
            "holds",
            "at most",
            cells(&|device| iteration.peak[device].to_string()),
        ));
        columns.push(Column::words(
            "begins with",
            cells(&|device| beginning(iteration, device)),
        ));
    }
    columns
}

/// What a device does in a period; `7F-1` is of the micro-batch before the newest.
fn of_period(pattern: &RepeatedPattern, device: usize) -> String {
    let own = pattern.starts.iter().filter(|start| start.device == device);
    let cell = |chunk: usize, phase: Phase, offset: u64| match offset {
        0 => format!("{chunk}{}", phase.letter()),
        offset => format!("{chunk}{}-{offset}", phase.letter()),
    };
    let cells: Vec<String> = own
        .map(|start| cell(start.chunk, start.phase, start.offset))
        .collect();
    cells.join(" ")
}

fn beginning(iteration: &Iteration, device: usize) -> String {
    /// More operations push out what matters more; JSON and CSV have all.
    const MOST: usize = 12;
    let own: Vec<&Timed> = iteration
        .operations
        .iter()
        .filter(|timed| timed.device == device)
        .collect();
    let shown: Vec<String> = own
        .iter()
        .take(MOST)
        .map(|timed| timed.operation.to_string())
        .collect();
    let more = if own.len() > MOST { " ..." } else { "" };
    shown.join(" ") + more
}

fn facts(answer: &Answer) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(pattern) = &answer.pattern {
        if let Some(bound) = pattern.peak_bound {
            facts.push((
                "peak",
                format!("no pattern with this period and grid holds less than {bound}"),
            ));
        }
        if let Some(bound) = pattern.period_bound_ms {
            let bound = ms(bound);
            facts.push((
                "period",
                format!("no pattern on this grid that fits is shorter than {bound}"),
            ));
        }
        let lost = (pattern.rounded_period_ms - pattern.least_period_ms).max(0.0);
        let grid = format!("{} slots of {}", pattern.slots, ms(pattern.slot_ms));
        let busiest = ms(pattern.least_period_ms);
        let lost_part = percent(lost / pattern.least_period_ms.max(f64::MIN_POSITIVE));
        facts.push((
            "grid",
            format!(
                "{grid}; the busiest device works {busiest} a micro-batch, and rounding up adds {lost_part}"
            ),
        ));
    }
    if let Some(iteration) = &answer.iteration {
        let bound = iteration.bound_ms.map_or_else(String::new, |bound| {
            let gap = (iteration.iteration_ms - bound) / iteration.iteration_ms.max(f64::MIN_POSITIVE);
            let than = if answer.cut.is_some() {
                "no cut and order take"
            } else {
                "no order takes"
            };
            format!("; {than} less than {}, gap {}", ms(bound), percent(gap))
        });
        facts.push((
            "iteration",
            format!(
                "{} take {}, at most {} of it bubble on a device{bound}",
                micro_batches(iteration.micro_batches as u64),
                ms(iteration.iteration_ms),
                ms(iteration.bubble_ms)
            ),
        ));
    }
    if let Some(cut) = &answer.cut {
        let open = match cut.open {
            None => "",
            Some(Open::Cuts) => "; cuts that were not looked at leave the gap",
            Some(Open::Orders) => "; orders of cuts that were looked at leave the gap",
        };
        facts.push((
            "cut",
            format!(
                "the best of {} that were run; no order of it takes less than {}{open}",
                cut.cuts,
                ms(cut.bound_ms)
            ),
        ));
    }
    if answer.given.is_none() && matches!(answer.status, Status::Feasible | Status::Unknown) {
        facts.push(("stopped by", answer.stopped_by.to_string()));
    }
    facts
}

fn rules(answer: &Answer) -> Vec<Column> {
    let best = answer
        .iteration
        .as_ref()
        .map_or(0.0, |iteration| iteration.iteration_ms);
    let time = |ms: Option<f64>| ms.map_or_else(|| "no room".into(), |ms| Digits::for_ms(best).ms(ms));
    let above = |of_rule: Option<f64>| {
        let part = of_rule.map(|ms| (ms - best) / best.max(f64::MIN_POSITIVE));
        part.map_or_else(String::new, |part| format!("{:.2}", 100.0 * part))
    };
    let rules = || answer.rules.iter();
    vec![
        Column::words("rule", rules().map(|rule| rule.name.into()).collect()),
        Column::numbers(
            "iteration",
            "ms",
            rules().map(|rule| time(rule.iteration_ms)).collect(),
        ),
        Column::numbers(
            "longer by",
            "%",
            rules().map(|rule| above(rule.iteration_ms)).collect(),
        ),
        Column::words("source", rules().map(|rule| rule.source.into()).collect()),
    ]
}

/// The timeline of one iteration: a lane a device, micro-batches numbered from 0.
pub(crate) fn schedule_timeline(answer: &Answer) -> String {
    let iteration = answer.iteration.as_ref();
    let total_ms = iteration.map_or(0.0, |iteration| iteration.iteration_ms);
    let operations: &[Timed] = iteration.map_or(&[], |iteration| &iteration.operations);
    let busy = |device: usize| -> f64 {
        let own = operations.iter().filter(|timed| timed.device == device);
        own.map(|timed| timed.end_ms - timed.start_ms).sum()
    };
    let lanes = (0..answer.devices.len()).map(|device| lanes::Lane {
        label: format!("device {device}"),
        group: (device, 1),
        is_link: false,
        utilisation: busy(device) / total_ms.max(f64::MIN_POSITIVE),
    });
    let mut legend = vec![("forward", Colors::forward()), ("backward", Colors::backward())];
    if answer.splits_backward {
        legend.push(("gradient of weights", Colors::weight()));
    }
    lanes::draw(&Lanes {
        title: headline(answer).replace('`', ""),
        description: format!(
            "Timeline with one lane a device, time in ms to the right. {} take {}.",
            micro_batches(iteration.map_or(0, |iteration| iteration.micro_batches as u64)),
            ms(total_ms)
        ),
        legend,
        lanes: lanes.collect(),
        boxes: operations.iter().map(|timed| task(timed, total_ms)).collect(),
        total_ms,
    })
}

fn task(timed: &Timed, total_ms: f64) -> Task {
    let digits = Digits::for_ms(total_ms);
    let what = phases::name(timed.operation.phase);
    let colors = phases::colors(timed.operation.phase);
    let tooltip = format!(
        "{what} of chunk {}, micro-batch {}&#10;{} to {} ms",
        timed.operation.chunk,
        timed.operation.micro_batch,
        digits.ms(timed.start_ms),
        digits.ms(timed.end_ms)
    );
    Task {
        lane: timed.device,
        start_ms: timed.start_ms,
        end_ms: timed.end_ms,
        colors,
        text: timed.operation.micro_batch.to_string(),
        tooltip,
        is_work: true,
    }
}
