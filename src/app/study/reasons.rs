//! Why methods have no plan: what refused, limited or broke them, run by run and counted.

use super::row::{Row, RowStatus};
use super::summary::Summary;
use super::table::{Cell, Table};

/// Runs without a plan, by method in the order of the study. A proof that there is none is no failure.
fn without_plan<'a>(summary: &Summary<'a>) -> Vec<(String, &'a Row)> {
    let is_failed = |row: &&Row| row.objective_ms.is_none() && row.status != RowStatus::Infeasible;
    let mut runs: Vec<(String, &Row)> = (summary.rows.iter().filter(is_failed))
        .map(|row| (summary.label(&row.task), row))
        .collect();
    let place = |label: &String| summary.labels().iter().position(|name| name == label);
    runs.sort_by_cached_key(|(label, _)| place(label));
    runs
}

/// Why a run has no plan, in words.
fn reason(row: &Row) -> String {
    match (&row.note, &row.stopped_by) {
        (Some(note), _) => note.clone(),
        (None, Some(by)) if by != "completed" => format!("stopped by its {by} before it found one"),
        (None, _) => "it found none".into(),
    }
}

/// What refused, limited or broke a method in some of its runs.
pub(crate) struct Reason {
    /// The method.
    pub method: String,
    /// How the runs ended.
    pub status: RowStatus,
    /// Why, in words.
    pub reason: String,
    /// How many they are.
    pub runs: usize,
}

/// Why methods have no plan, by method in the order of the study.
pub(crate) fn counted(summary: &Summary) -> Vec<Reason> {
    let mut counted: Vec<Reason> = Vec::new();
    for (method, row) in without_plan(summary) {
        let (status, reason) = (row.status, reason(row));
        let is_same =
            |one: &&mut Reason| one.method == method && one.status == status && one.reason == reason;
        match counted.iter_mut().find(is_same) {
            Some(known) => known.runs += 1,
            None => counted.push(Reason {
                method,
                status,
                reason,
                runs: 1,
            }),
        }
    }
    counted
}

/// The table of [`counted`].
pub(crate) fn reasons(summary: &Summary) -> Table {
    let columns = [
        ("method", "method"),
        ("status", "ended"),
        ("reason", "reason"),
        ("runs", "runs"),
    ];
    let note = "What refused, limited or broke a method, and in how many of its runs; those that are proved to have no plan are \
                not among them.";
    let mut table = Table::new("reasons", "Why there is no plan", note, &columns);
    let cells = |one: Reason| {
        vec![
            Cell::Word(one.method),
            Cell::Word(one.status.name().into()),
            Cell::Word(one.reason),
            Cell::Count(one.runs),
        ]
    };
    table.rows = counted(summary).into_iter().map(cells).collect();
    table
}

/// Every run without a plan.
pub(crate) fn failures(summary: &Summary) -> Table {
    let columns = [
        ("method", "method"),
        ("problem", "problem"),
        ("seed", "seed"),
        ("status", "ended"),
        ("reason", "reason"),
    ];
    let note = "Every run without a plan, of problems that are not proved to have none.";
    let mut table = Table::new("failures", "Runs without a plan", note, &columns);
    let cells = |(method, row): (String, &Row)| {
        vec![
            Cell::Word(method),
            Cell::Word(row.task.problem()),
            Cell::Count(row.task.seed as usize),
            Cell::Word(row.status.name().into()),
            Cell::Word(reason(row)),
        ]
    };
    table.rows = without_plan(summary).into_iter().map(cells).collect();
    table
}
