//! The optimum as a function of a number: sentences and tables, JSON, CSV, and a picture.

mod picture;
mod values;

use anstyle::{AnsiColor, Style as Ink};
use serde::Serialize;

pub(crate) use picture::what_if_svg;
use values::{Towards, amount, value};

use super::Style;
use super::csv::{pretty, to_csv};
use super::format::{Digits, count, percent, seconds, wrap};
use super::table::{Column, draw};
use super::times::times;
use crate::model::options::Objective;
use crate::problem::plan::{Status, StoppedBy};
use crate::solve::what_if::{Answer, AnswerCurve, AnswerPoint, Better, Kind, Parameter, Segment, Stretch};

/// The text report, about `style.width` columns wide.
pub(crate) fn what_if(answer: &Answer, style: &Style) -> String {
    let digits = digits(answer);
    let mut out = wrap(&question(answer), style.width, 0) + "\n";
    for sentence in sentences(answer, digits) {
        out += &wrap(&sentence, style.width, 0);
        out.push('\n');
    }
    for curve in &answer.curves {
        out.push('\n');
        if let Some(stages) = curve.stages {
            out += &format!("In at most {}:\n\n", count(stages, "stage"));
        }
        out += &table(answer, curve, digits, style);
    }
    if let Some(plan) = answer.plans.first() {
        out += &format!("\n{}", times(&plan.times, style));
    }
    if style.statistics {
        let searches = answer.searches;
        let plural = if searches == 1 { "search" } else { "searches" };
        out += &format!("\n{searches} {plural} in {} s\n", seconds(answer.seconds));
    }
    out
}

/// Everything, with all plans.
pub(crate) fn what_if_json(answer: &Answer) -> String {
    pretty(answer)
}

/// What is known at single values, a row each.
#[derive(Serialize)]
struct Row {
    most_stages: Option<usize>,
    parameter: Parameter,
    at: f64,
    status: Status,
    objective_ms: Option<f64>,
    bound_ms: Option<f64>,
    stages: Option<usize>,
    plan: Option<usize>,
    searched: bool,
}

/// What is known at single values, as CSV.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub(crate) fn what_if_csv(answer: &Answer) -> Result<String, ::csv::Error> {
    let row = |curve: &AnswerCurve, point: &AnswerPoint| Row {
        most_stages: curve.stages,
        parameter: answer.parameter,
        at: point.at,
        status: point.status,
        objective_ms: point.objective_ms,
        bound_ms: point.bound_ms,
        stages: point.stages,
        plan: point.plan,
        searched: point.searched,
    };
    let rows = |curve: &AnswerCurve| {
        curve
            .points
            .iter()
            .map(|point| row(curve, point))
            .collect::<Vec<_>>()
    };
    to_csv(answer.curves.iter().flat_map(rows))
}

/// As many digits as tell the best plan of all.
fn digits(answer: &Answer) -> Digits {
    let points = answer.curves.iter().flat_map(|curve| &curve.points);
    let least = points.filter_map(|point| point.objective_ms).reduce(f64::min);
    Digits::for_ms(least.unwrap_or(0.0))
}

/// What was asked.
fn question(answer: &Answer) -> String {
    let parameter = answer.parameter;
    let range = format!(
        "{} to {}",
        value(parameter, answer.from, Towards::Nearest),
        value(parameter, answer.to, Towards::Nearest)
    );
    let name = &answer.instance;
    let asked = match parameter {
        Parameter::Bandwidth => format!("links of `{name}` moved {range}"),
        Parameter::Memory => format!("stages of `{name}` held {range}"),
        Parameter::Stages => format!("`{name}` had {range} stages"),
        Parameter::Devices => format!("`{name}` had {range} devices"),
        Parameter::Tokens => format!("`{name}` had room for {range} tokens"),
    };
    let is_varied = parameter == Parameter::Stages || parameter == Parameter::Devices;
    let stages = match (&answer.curves[..], answer.problem.stages) {
        ([_, .., last], _) => format!(", in at most 1 to {} stages", last.stages.unwrap_or(0)),
        (_, Some(stages)) if !is_varied && answer.problem.all_stages == Some(true) => {
            format!(", in exactly {}", count(stages, "stage"))
        }
        (_, Some(stages)) if !is_varied => format!(", in at most {}", count(stages, "stage")),
        _ => String::new(),
    };
    let stages = match &answer.curves[..] {
        [first, .., last] => {
            let [least, most] = [first, last].map(|curve| curve.stages.unwrap_or(0));
            format!(", in at most {least} to {most} stages")
        }
        _ => stages,
    };
    format!("What if {asked}{stages}?")
}

/// What came of it.
fn sentences(answer: &Answer, digits: Digits) -> Vec<String> {
    let mut all: Vec<String> = answer
        .better
        .iter()
        .map(|better| of_better(answer, better))
        .collect();
    if let [curve] = &answer.curves[..] {
        all.extend(ends(answer, curve, digits));
        match answer.parameter.is_continuous() {
            true => all.extend(used_stages(answer, curve)),
            false if answer.parameter == Parameter::Tokens => all.extend(steps_of_room(answer, curve)),
            false => all.extend(steps(answer, curve)),
        }
    }
    all.push(proved(answer));
    all
}

/// Where more stages are better, and where not.
fn of_better(answer: &Answer, better: &Better) -> String {
    let stages = better.stages;
    let than = match better.than {
        1 => "one".to_owned(),
        than => than.to_string(),
    };
    let stretches = better.better.iter();
    let parts: Vec<String> = stretches
        .map(|stretch| stretch_in_words(answer, stretch))
        .collect();
    if parts.is_empty() {
        return match better.gain_elsewhere {
            Some(gain) => format!(
                "{stages} stages gain at most {} over {than} anywhere.",
                percent(gain)
            ),
            None => format!("Whether {stages} stages are better than {than} is not proved."),
        };
    }
    let most = better
        .most
        .filter(|most| most.gain.is_finite())
        .map_or(String::new(), |most| {
            let at = value(answer.parameter, most.at, Towards::Nearest);
            format!(", by {} at {at}", percent(most.gain))
        });
    let is_all = |stretch: &Stretch| stretch.from <= answer.from && stretch.to >= answer.to;
    let elsewhere = match better.gain_elsewhere {
        _ if better.better.iter().any(is_all) => String::new(),
        Some(gain) => format!("; elsewhere they gain at most {}", percent(gain)),
        None => "; elsewhere that is not proved".to_owned(),
    };
    format!(
        "{}, {stages} stages are better than {than}{most}{elsewhere}.",
        capital(&parts.join(", and "))
    )
}

/// Values from one to another, as an adverb; both ends are rounded so that they lie within.
fn stretch_in_words(answer: &Answer, stretch: &Stretch) -> String {
    let from = amount(answer.parameter, stretch.from, Towards::Up);
    let to = amount(answer.parameter, stretch.to, Towards::Down);
    match (stretch.from <= answer.from, stretch.to >= answer.to) {
        (true, true) => format!("from {from} to {to}"),
        (false, true) => format!("from {from} on"),
        (true, false) => format!("up to {to}"),
        (false, false) if stretch.from == stretch.to => format!("at {from} alone"),
        (false, false) => format!("from {from} to {to}"),
    }
}

/// What the ends take.
fn ends(answer: &Answer, curve: &AnswerCurve, digits: Digits) -> Option<String> {
    let [first, .., last] = &curve.points[..] else {
        return None;
    };
    let of = |point: &AnswerPoint| {
        let at = amount(answer.parameter, point.at, Towards::Nearest);
        point
            .objective_ms
            .map(|ms| format!("{} ms {}", digits.ms(ms), at_value(answer, &at)))
    };
    let what = match answer.problem.timed_objective() {
        Some(Objective::Period | Objective::Tokens) | None => "One micro-batch takes",
        Some(Objective::Latency) => "One micro-batch alone takes",
        Some(Objective::Iteration) => "An iteration takes",
        Some(Objective::Formula) => "An iteration takes by the formula",
    };
    let both: Vec<String> = [first, last].into_iter().filter_map(of).collect();
    (!both.is_empty()).then(|| format!("{what} {}.", both.join(", and ")))
}

fn at_value(answer: &Answer, at: &str) -> String {
    match answer.parameter {
        Parameter::Bandwidth => format!("at {at}"),
        Parameter::Memory => format!("within {at}"),
        Parameter::Stages => format!("in at most {at}"),
        Parameter::Devices => format!("on {at}"),
        Parameter::Tokens => format!("with room for {at}"),
    }
}

/// How many stages the best known plans have, where they have different numbers.
fn used_stages(answer: &Answer, curve: &AnswerCurve) -> Option<String> {
    /// More parts are for the table.
    const MOST: usize = 6;
    let mut runs: Vec<(usize, Stretch)> = Vec::new();
    for segment in curve.segments.iter().filter(|segment| segment.kind == Kind::Plan) {
        let stages = segment.stages?;
        match runs.last_mut() {
            Some((last, stretch)) if *last == stages => stretch.to = segment.to,
            _ => runs.push((
                stages,
                Stretch {
                    from: segment.from,
                    to: segment.to,
                },
            )),
        }
    }
    let parts: Vec<String> = runs
        .iter()
        .map(|(stages, stretch)| {
            format!(
                "{} {}",
                count(*stages, "stage"),
                stretch_in_words(answer, stretch)
            )
        })
        .collect();
    (2..=MOST)
        .contains(&parts.len())
        .then(|| format!("The best known plans have {}.", parts.join(", ")))
}

/// Where whole values stop to matter.
fn steps(answer: &Answer, curve: &AnswerCurve) -> Vec<String> {
    let mut all = Vec::new();
    let at = |at: f64, towards| amount(answer.parameter, at, towards);
    if let Some(none) = curve
        .segments
        .first()
        .filter(|segment| segment.kind == Kind::Infeasible)
    {
        let next = curve.segments.get(1).filter(|segment| segment.kind == Kind::Plan);
        all.push(match next {
            Some(next) => format!("No plan exists below {}: proved.", at(next.from, Towards::Up)),
            None => format!("No plan exists up to {}: proved.", at(none.to, Towards::Down)),
        });
    }
    if let Some(last) = curve.segments.last()
        && last.kind == Kind::Plan
        && last.gap == Some(0.0)
        && last.from < answer.to
    {
        let from = at(last.from, Towards::Up);
        let to = at(answer.to, Towards::Nearest);
        all.push(match last.from <= answer.from {
            true => format!("Nothing up to {to} is better than {from}."),
            false => format!("From {from} on, more gains nothing up to {to}."),
        });
    }
    all
}

/// Up to where room costs nothing, and how much there is.
fn steps_of_room(answer: &Answer, curve: &AnswerCurve) -> Vec<String> {
    let mut all = Vec::new();
    let at = |at: f64| amount(answer.parameter, at, Towards::Nearest);
    if let Some(first) = curve.segments.first()
        && first.kind == Kind::Plan
        && first.gap == Some(0.0)
        && first.from < first.to
    {
        all.push(format!("Room for up to {} takes no time.", at(first.to)));
    }
    if let Some(none) = curve.segments.last()
        && none.kind == Kind::Infeasible
    {
        all.push(match none.from <= answer.from {
            true => format!("No plan has room for {}: proved.", at(none.from)),
            false => format!("No plan has room for more than {}: proved.", at(none.from - 1.0)),
        });
    }
    all
}

/// How much is proved.
fn proved(answer: &Answer) -> String {
    let points = answer.curves.iter().flat_map(|curve| &curve.points);
    let (mut proved, mut all) = (0, 0);
    for point in points {
        all += 1;
        proved += usize::from(matches!(point.status, Status::Optimal | Status::Infeasible));
    }
    let gaps: Option<Vec<f64>> = answer.curves.iter().map(|curve| curve.gap).collect();
    let worst = gaps.map(|gaps| gaps.into_iter().fold(0.0, f64::max));
    let is_everywhere = proved == all && worst == Some(0.0);
    let between = match worst {
        _ if is_everywhere => "The optimum is proved at every value.".to_owned(),
        Some(worst) => format!(
            "Optima are proved at {proved} of {all} values that were looked at; anywhere in the range the best known plan takes at most \
             {} longer than the optimum.",
            percent(worst)
        ),
        None => format!(
            "Optima are proved at {proved} of {all} values that were looked at; for some of the others no bound on what is missing is known."
        ),
    };
    match answer.stopped_by {
        StoppedBy::Completed | StoppedBy::Gap => between,
        StoppedBy::TimeLimit => format!("{between} More takes a longer time limit."),
        StoppedBy::Interrupt => format!("{between} It was interrupted."),
        other => format!("{between} It stopped early ({other})."),
    }
}

/// A row a segment.
fn table(answer: &Answer, curve: &AnswerCurve, digits: Digits, style: &Style) -> String {
    let rows = &curve.segments;
    let cells = |cell: &dyn Fn(&Segment) -> String| rows.iter().map(cell).collect::<Vec<_>>();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let at = |at: f64, towards| value(answer.parameter, at, towards);
    let mut columns = vec![
        Column::numbers("from", "", cells(&|row| at(row.from, Towards::Up))),
        Column::numbers("to", "", cells(&|row| at(row.to, Towards::Down))),
        Column::words("best", cells(&|row| kind(row).to_owned())),
        Column::numbers(
            "stages",
            "",
            cells(&|row| or_dash(row.stages.map(|stages| stages.to_string()))),
        ),
    ];
    let ms = |ms: Option<f64>| or_dash(ms.map(|ms| digits.ms(ms)));
    match answer.parameter.is_continuous() {
        true => {
            columns.push(Column::numbers("at first", "ms", cells(&|row| ms(row.from_ms))));
            columns.push(Column::numbers("at last", "ms", cells(&|row| ms(row.to_ms))));
        }
        false => columns.push(Column::numbers("objective", "ms", cells(&|row| ms(row.from_ms)))),
    }
    columns.push(Column::numbers(
        "within",
        "",
        cells(&|row| or_dash(row.gap.map(percent))),
    ));
    let ink = |row: usize| match rows[row].kind {
        Kind::Plan if rows[row].gap == Some(0.0) => Ink::new().fg_color(Some(AnsiColor::Green.into())),
        Kind::Plan => Ink::new(),
        Kind::Changes | Kind::Infeasible | Kind::Unknown => Ink::new().dimmed(),
    };
    draw(&columns, style.color, |_| None, ink)
}

fn kind(segment: &Segment) -> String {
    match (segment.kind, segment.plan) {
        (Kind::Plan, Some(plan)) => format!("plan {}", plan + 1),
        (Kind::Plan, None) => "plan".into(),
        (Kind::Changes, _) => "changes".into(),
        (Kind::Infeasible, _) => "none exists".into(),
        (Kind::Unknown, _) => "not known".into(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
