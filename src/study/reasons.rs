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

/// How often each method was refused, limited or broken, and by what.
pub(crate) fn reasons(summary: &Summary) -> Table {
    let mut counted: Vec<(String, RowStatus, String, usize)> = Vec::new();
    for (method, row) in without_plan(summary) {
        let reason = reason(row);
        let known = counted
            .iter_mut()
            .find(|one| (&one.0, one.1, &one.2) == (&method, row.status, &reason));
        match known {
            Some(known) => known.3 += 1,
            None => counted.push((method, row.status, reason, 1)),
        }
    }
    let columns = [
        ("method", "method"),
        ("status", "ended"),
        ("reason", "reason"),
        ("runs", "runs"),
    ];
    let note = "What refused, limited or broke a method, and in how many of its runs; those that are proved to have no plan are \
                not among them.";
    let mut table = Table::new("reasons", "Why there is no plan", note, &columns);
    let cells = |(method, status, reason, runs)| {
        let status = RowStatus::name(status).into();
        vec![
            Cell::Word(method),
            Cell::Word(status),
            Cell::Word(reason),
            Cell::Count(runs),
        ]
    };
    table.rows = counted.into_iter().map(cells).collect();
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
