//! Methods side by side on one instance.

use anstyle::{AnsiColor, Style as Ink};
use serde::Serialize;

use super::Style;
use super::format::{Digits, count, percent, seconds, shorten, wrap};
use super::gain;
use super::table::{Column, GAP, draw, table_width};
use super::text::ASK_SOLVE;
use crate::model::units::ms_to_ns;
use crate::model::words::Writer;
use crate::problem::plan::{Plan, Status, StoppedBy};
use crate::solve::posed::{Compared, MethodResult};

/// How a method stands: what its search found, or that there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// A plan whose objective meets the bound.
    Optimal,
    /// A plan without a proof.
    Feasible,
    /// Proved that there is no plan.
    Infeasible,
    /// Its search is complete and has found no plan, which proves nothing.
    NoPlan,
    /// A limit came before a plan.
    Unknown,
    /// The method is for other problems.
    Inapplicable,
}

impl Standing {
    /// What a search found.
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        match (plan.status, plan.stopped_by) {
            (Status::Optimal, _) => Self::Optimal,
            (Status::Feasible, _) => Self::Feasible,
            (Status::Infeasible, _) => Self::Infeasible,
            (Status::Unknown, StoppedBy::Completed) => Self::NoPlan,
            (Status::Unknown, _) => Self::Unknown,
        }
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::NoPlan => "no plan",
            Self::Unknown => "unknown",
            Self::Inapplicable => "inapplicable",
        })
    }
}

/// What one method did on the instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name of the method.
    pub method: String,
    /// Where the method comes from, such as a paper.
    pub source: String,
    /// What it found.
    pub status: Standing,
    /// Objective in ms; absent without a plan.
    pub objective_ms: Option<f64>,
    /// Its own lower bound in ms; absent without one.
    pub bound_ms: Option<f64>,
    /// Why its search stopped; absent where it does not apply.
    pub stopped_by: Option<StoppedBy>,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// A remark, such as why the method does not apply.
    pub note: Option<String>,
}

impl ComparisonRow {
    /// What a method came to.
    pub(crate) fn new(compared: &Compared, writer: Writer) -> Self {
        let method = compared.method;
        let row = Self::of_method(method.name(), method.source(), compared.seconds);
        match &compared.result {
            MethodResult::Plan(plan) => row.with_plan(plan),
            MethodResult::Inapplicable(reason) => Self {
                note: Some(reason.written(writer)),
                ..row
            },
            MethodResult::Interrupted => Self {
                status: Standing::Unknown,
                stopped_by: Some(StoppedBy::Interrupt),
                note: Some("not run: interrupted before".into()),
                ..row
            },
        }
    }

    /// A method that nothing is known of but how long it took.
    pub(crate) fn of_method(method: &str, source: &str, seconds: f64) -> Self {
        Self {
            method: method.into(),
            source: source.into(),
            status: Standing::Inapplicable,
            objective_ms: None,
            bound_ms: None,
            stopped_by: None,
            seconds,
            note: None,
        }
    }

    /// The same with what a plan says.
    pub(crate) fn with_plan(self, plan: &Plan) -> Self {
        Self {
            status: Standing::of_plan(plan),
            objective_ms: plan.objective_ms,
            bound_ms: plan.bound_ms,
            stopped_by: Some(plan.stopped_by),
            ..self
        }
    }
}

/// Why not all of these can be right, if so: all bounds hold for the same problem, whoever proved them, and every plan has been
/// checked.
pub(crate) fn contradiction(rows: &[ComparisonRow]) -> Option<String> {
    let ns = |ms: f64| ms_to_ns(ms).unwrap_or(u64::MAX);
    let with_plan = rows.iter().filter_map(|row| Some((row.objective_ms?, row)));
    let (objective_ms, best) = with_plan.min_by(|a, b| a.0.total_cmp(&b.0))?;
    if let Some(other) = rows.iter().find(|row| row.status == Standing::Infeasible) {
        return Some(format!(
            "`{}` proves that there is no plan, and `{}` has one of {objective_ms} ms that passes its check",
            other.method, best.method
        ));
    }
    let with_bound = rows.iter().filter_map(|row| Some((row.bound_ms?, row)));
    let (bound_ms, other) = with_bound.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (ns(bound_ms) > ns(objective_ms)).then(|| {
        format!(
            "`{}` proves that no plan takes less than {bound_ms} ms, and `{}` has one of {objective_ms} ms that passes its check",
            other.method, best.method
        )
    })
}

/// A row, and how it stands among the others.
#[derive(Serialize)]
pub(super) struct Ranked<'a> {
    method: &'a str,
    source: &'a str,
    status: Standing,
    objective_ms: Option<f64>,
    bound_ms: Option<f64>,
    /// (objective - best bound of all methods) / objective.
    gap: Option<f64>,
    /// Objective over the best objective of all methods.
    ratio: Option<f64>,
    stopped_by: Option<StoppedBy>,
    seconds: f64,
    note: Option<&'a str>,
}

/// The rows by objective, those without a plan last; equals stay in the order given.
pub(super) fn ranked(rows: &[ComparisonRow]) -> impl Iterator<Item = Ranked<'_>> {
    let best = best_objective(rows);
    let bound = best_bound(rows);
    let mut sorted: Vec<&ComparisonRow> = rows.iter().collect();
    let key = |row: &ComparisonRow| row.objective_ms.unwrap_or(f64::INFINITY);
    sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
    sorted.into_iter().map(move |row| Ranked {
        method: &row.method,
        source: &row.source,
        status: row.status,
        objective_ms: row.objective_ms,
        bound_ms: row.bound_ms,
        gap: row.objective_ms.zip(bound).map(|(own, bound)| gap(own, bound)),
        ratio: row.objective_ms.zip(best).map(|(own, best)| ratio(own, best)),
        stopped_by: row.stopped_by,
        seconds: row.seconds,
        note: row.note.as_deref(),
    })
}

/// Methods of one instance as a table, best first, with the gap of each to the best bound that any of them proved.
///
/// Every bound holds for the instance, whichever method proved it; so the gaps say how far a heuristic can be from the
/// optimum although it proves nothing itself.
pub fn comparison(rows: &[ComparisonRow], style: &Style) -> String {
    let is_ranked = |row: &Ranked| row.status != Standing::Inapplicable;
    let ranks: Vec<Ranked> = ranked(rows).filter(is_ranked).collect();
    let digits = Digits::for_ms(best_objective(rows).or(best_bound(rows)).unwrap_or(0.0));
    let proved = ranks.iter().find(|row| row.status == Standing::Optimal);
    let mut out = wrap(&headline(&ranks, proved, digits), style.width, 0);
    if let Some(gain) = gain::of_separate_cuts(rows, digits) {
        out.push('\n');
        out += &wrap(&gain, style.width, 0);
    }
    out.push_str("\n\n");
    let cells = |cell: &dyn Fn(&Ranked) -> String| ranks.iter().map(cell).collect::<Vec<_>>();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut columns = vec![
        Column::words("method", cells(&|row| row.method.to_owned())),
        Column::words("status", cells(&|row| row.status.to_string())),
        Column::numbers(
            "objective",
            "ms",
            cells(&|row| or_dash(row.objective_ms.map(|ms| digits.ms(ms)))),
        ),
        Column::numbers(
            "bound",
            "ms",
            cells(&|row| or_dash(row.bound_ms.map(|ms| digits.ms(ms)))),
        ),
        Column::numbers("gap", "", cells(&|row| or_dash(row.gap.map(percent)))),
        Column::numbers(
            if proved.is_some() { "of optimum" } else { "of best" },
            "",
            cells(&|row| or_dash(row.ratio.map(|ratio| format!("{ratio:.4}")))),
        ),
    ];
    if style.statistics {
        let seconds = cells(&|row| seconds(row.seconds));
        columns.push(Column::numbers("time", "s", seconds));
    }
    let sources = Column::words("source", cells(&|row| row.source.to_owned()));
    // A source that would be cut to less than this tells nothing.
    const LEAST_SOURCE: usize = 12;
    let room = style.width.saturating_sub(table_width(&columns) + GAP);
    if room >= sources.width().min(LEAST_SOURCE) {
        let sources = cells(&|row| shorten(row.source, room));
        columns.push(Column::words("source", sources));
    }
    let below = |row: usize| {
        const INDENT: usize = 2;
        let note = wrap(ranks[row].note?, style.width.saturating_sub(INDENT), INDENT);
        Some(format!("{:INDENT$}{note}", ""))
    };
    let ink = |row: usize| match ranks[row].status {
        Standing::Optimal => Ink::new().fg_color(Some(AnsiColor::Green.into())),
        Standing::Infeasible | Standing::NoPlan | Standing::Unknown | Standing::Inapplicable => {
            Ink::new().dimmed()
        }
        Standing::Feasible => Ink::new(),
    };
    out += &draw(&columns, style.color, below, ink);
    if let Some(others) = inapplicable(rows) {
        out += &wrap(&others, style.width, 2);
        out.push('\n');
    }
    if ranks.iter().any(|row| row.status == Standing::Infeasible) {
        out += &wrap(ASK_SOLVE, style.width, 6);
        out.push('\n');
    }
    out
}

/// Methods that are for other problems, those with one reason together.
fn inapplicable(rows: &[ComparisonRow]) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|row| row.status == Standing::Inapplicable) {
        let reason = row.note.as_deref().unwrap_or_default();
        let method = format!("`{}`", row.method);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, methods)) => methods.push(method),
            None => reasons.push((reason, vec![method])),
        }
    }
    let words = |(reason, methods): &(&str, Vec<String>)| format!("{} ({reason})", methods.join(", "));
    let all: Vec<String> = reasons.iter().map(words).collect();
    (!all.is_empty()).then(|| format!("inapplicable: {}", all.join("; ")))
}

/// How far an objective is above a bound, as a fraction of the objective. A bound above it is rounding of the solver's.
fn gap(own_ms: f64, bound_ms: f64) -> f64 {
    match own_ms {
        0.0 => 0.0,
        own_ms => ((own_ms - bound_ms) / own_ms).max(0.0),
    }
}

/// 1 for the best, which may be 0 where nothing takes time; infinite for the others then.
fn ratio(own_ms: f64, best_ms: f64) -> f64 {
    if own_ms == best_ms { 1.0 } else { own_ms / best_ms }
}

fn headline(ranks: &[Ranked], proved: Option<&Ranked>, digits: Digits) -> String {
    let methods = count(ranks.len(), "method");
    let best = ranks.first().and_then(|row| row.objective_ms);
    let infeasible = ranks.iter().find(|row| row.status == Standing::Infeasible);
    match (proved, best, infeasible) {
        (Some(row), Some(ms), _) => {
            format!(
                "{methods}: the optimum is {} ms, proved by `{}`",
                digits.ms(ms),
                row.method
            )
        }
        (None, Some(ms), _) => format!(
            "{methods}: the best plan takes {} ms, and is not proved optimal",
            digits.ms(ms)
        ),
        (_, None, Some(row)) => format!("{methods}: no plan exists, proved by `{}`", row.method),
        (_, None, None) => format!("{methods}: none found a plan"),
    }
}

fn best_objective(rows: &[ComparisonRow]) -> Option<f64> {
    rows.iter()
        .filter_map(|row| row.objective_ms)
        .min_by(f64::total_cmp)
}

fn best_bound(rows: &[ComparisonRow]) -> Option<f64> {
    rows.iter().filter_map(|row| row.bound_ms).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        method: &str,
        status: Standing,
        objective_ms: Option<f64>,
        bound_ms: Option<f64>,
    ) -> ComparisonRow {
        ComparisonRow {
            status,
            objective_ms,
            bound_ms,
            ..ComparisonRow::of_method(method, "", 0.0)
        }
    }

    #[test]
    fn a_plan_below_a_bound_is_a_contradiction() {
        let proved = row("exact", Standing::Optimal, Some(2.0), Some(2.0));
        let worse = row("lpt", Standing::Feasible, Some(2.5), Some(1.0));
        assert_eq!(contradiction(&[proved.clone(), worse]), None);
        let better = row("alternate", Standing::Feasible, Some(1.5), Some(1.0));
        let what = contradiction(&[proved, better.clone()]).expect("a contradiction");
        assert!(
            what.contains("`exact` proves that no plan takes less than 2 ms"),
            "{what}"
        );
        assert!(what.contains("`alternate` has one of 1.5 ms"), "{what}");
        let infeasible = row("milp", Standing::Infeasible, None, None);
        assert!(contradiction(&[infeasible.clone(), better]).is_some());
        assert_eq!(contradiction(&[infeasible]), None);
    }
}
