//! The summary of a study as text and CSV.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use super::collect::judged;
use super::diff::Diff;
use super::latex;
use super::measures::{Case, MethodRow};
use super::reasons;
use super::row::{self, RowStatus};
use super::spec::Study;
use super::store::Store;
use super::summary::Summary;
use super::table::{Cell, Table, Unit};
use super::tables::{families, methods, significance, tables as all_tables, wins};
use crate::app::report::format::{self, percent, wrap};
use crate::app::report::table::{Column, draw};
use crate::model::fault::visible;

/// Columns of the text.
const WIDTH: usize = 120;
/// Methods that are compared with each other on a terminal; of more, only the tables and the page tell.
const MOST_COMPARED: usize = 6;

/// Where the rows of a summary come from.
pub(crate) struct Source<'a> {
    /// The study, where it is known.
    pub study: Option<&'a Study>,
    /// The results, where they are known.
    pub store: Option<Store>,
    /// A name where there is no study.
    pub name: String,
}

impl Source<'_> {
    /// The name of the study.
    pub(crate) fn title(&self) -> &str {
        self.study.map_or(&self.name, |study| &study.name)
    }

    /// A command that runs a case again.
    pub(crate) fn command(&self, case: &Case) -> String {
        let study = self
            .study
            .map(|study| (study.path.to_string_lossy(), study.base()));
        let (path, base) = study.unwrap_or(("STUDY.toml".into(), Path::new(".")));
        case.row.task.command(&path, base)
    }
}

/// What a summary is of, in a few sentences.
pub(crate) fn headline(summary: &Summary) -> Vec<String> {
    let proved = summary.cells.iter().filter(|cell| cell.is_solved()).count();
    let infeasible = summary.cells.iter().filter(|cell| cell.infeasible).count();
    let mut endings: BTreeMap<_, usize> = BTreeMap::new();
    for row in summary.rows {
        *endings.entry(row.status).or_default() += 1;
    }
    let endings: Vec<String> = endings
        .iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    let mut lines = vec![
        format!(
            "{} results of {} methods on {} problems; {proved} optima are proved and {infeasible} problems have no plan.",
            summary.rows.len(),
            summary.methods.len(),
            summary.cells.len()
        ),
        format!("Results: {}.", endings.join(", ")),
    ];
    for found in &summary.contradictions {
        lines.push(format!("CONTRADICTION: {}, but {}.", found.claim, found.witness));
    }
    lines
}

/// What the study finds, in a sentence: of the methods that have a plan for every problem, those that always meet the best bound, and of
/// the rest the one that comes closest and the one that stays furthest. Nothing where fewer than two have.
pub(crate) fn finding(summary: &Summary) -> Option<String> {
    let most = summary.table.iter().map(|row| row.runs).max()?;
    let whole = |row: &&MethodRow| row.runs == most && row.without_plan == 0 && row.mean_gap_high.is_some();
    let (solved, mut rest): (Vec<_>, Vec<_>) = summary
        .table
        .iter()
        .filter(whole)
        .partition(|row| row.solved == row.runs);
    if solved.len() + rest.len() < 2 {
        return None;
    }
    let gap = |row: &MethodRow| row.mean_gap_high.unwrap_or(f64::INFINITY);
    rest.sort_by(|a, b| gap(a).total_cmp(&gap(b)));
    let told = |row: &MethodRow| {
        let most = if row.mean_gap_low == row.mean_gap_high {
            ""
        } else {
            "at most "
        };
        format!("with a mean gap of {most}{}", percent(gap(row)))
    };
    let names: Vec<String> = solved.iter().map(|row| format!("`{}`", row.method)).collect();
    let verb = if names.len() == 1 { "meets" } else { "meet" };
    let of_all = format!("{} {verb} the best bound in every run", names.join(", "));
    Some(match (names.is_empty(), &rest[..]) {
        (_, []) => format!("{of_all}."),
        (false, [only]) => format!("{of_all}; `{}` does not, {}.", only.method, told(only)),
        (false, [first, .., last]) => format!(
            "{of_all}; of the rest `{}` comes closest, {}, and `{}` stays furthest, {}.",
            first.method,
            told(first),
            last.method,
            told(last)
        ),
        (true, [first, .., last]) => format!(
            "No method meets the best bound in every run; `{}` comes closest, {}, and `{}` stays furthest, {}.",
            first.method,
            told(first),
            last.method,
            told(last)
        ),
        (true, [_]) => return None,
    })
}

/// The report for a terminal: methods, gaps by stages, the worst cases.
pub(crate) fn text(summary: &Summary, source: &Source) -> String {
    let mut out = format!("{}\n\n", visible(source.title()));
    for line in headline(summary) {
        out += &format!("{}\n", wrap(&line, WIDTH, 0));
    }
    let table = methods(summary);
    out += &format!("\n{}\n\n{}\n", drawn(&table), wrap(&table.note, WIDTH, 0));
    if (2..=MOST_COMPARED).contains(&summary.methods.len()) {
        for table in [wins(summary), significance(summary)] {
            out += &format!(
                "\n{}\n\n{}\n\n{}\n",
                table.title,
                drawn(&table),
                wrap(&table.note, WIDTH, 0)
            );
        }
    }
    out += &without_plan(summary);
    if !summary.worst.is_empty() {
        out += "\nWorst cases, each with a command that runs it again\n\n";
    }
    for case in &summary.worst {
        let gap = Cell::Range(case.gap, Unit::Part).text();
        let line = format!(
            "{gap} `{}` on {}: {} ms, best {} ms",
            case.method,
            case.name,
            case.row.objective_ms.unwrap_or_default(),
            case.best_ms
        );
        out += &format!("{}\n    {}\n", wrap(&line, WIDTH, 2), source.command(case));
    }
    out
}

/// Why methods have no plan, the most frequent reasons first; those that a method is not made for last.
fn without_plan(summary: &Summary) -> String {
    /// More are in the table.
    const MOST_SAID: usize = 10;
    let mut reasons = reasons::counted(summary);
    reasons.sort_by_key(|one| (one.status == RowStatus::Inapplicable, Reverse(one.runs)));
    let mut out = String::new();
    if !reasons.is_empty() {
        out += "\nWhy there is no plan\n\n";
    }
    for one in reasons.iter().take(MOST_SAID) {
        let runs = format::count(one.runs, "run");
        let line = format!("{runs} of `{}`: {}, {}", one.method, one.status, one.reason);
        out += &format!("{}\n", wrap(&line, WIDTH, 2));
    }
    match reasons.len().saturating_sub(MOST_SAID) {
        0 => out,
        more => out + &format!("{} more in reasons.csv\n", format::count(more, "reason")),
    }
}

/// A table for a terminal.
fn drawn(table: &Table) -> String {
    let column = |(at, (_, heading)): (usize, &(String, String))| {
        let cells = table.rows.iter().map(|row| row[at].text()).collect();
        match table.rows.iter().all(|row| row[at].is_number()) {
            true => Column::numbers(heading.clone(), "", cells),
            false => Column::words(heading.clone(), cells),
        }
    };
    let columns: Vec<Column> = table.columns.iter().enumerate().map(column).collect();
    draw(&columns, false, |_| None, |_| anstyle::Style::new())
}

/// All tables under the names of their files: as CSV the rows, what they sum up to, and the worst cases; as LaTeX and BibTeX what
/// papers show of them.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub(crate) fn tables(summary: &Summary, source: &Source) -> Result<Vec<(String, String)>, ::csv::Error> {
    let mut out = vec![("results.csv".to_owned(), row::csv(&judged(summary.rows))?)];
    for table in all_tables(summary).into_iter().chain([worst(summary, source)]) {
        out.push((format!("{}.csv", table.name), table.csv()?));
    }
    let for_papers = [
        ("methods.tex", latex::methods_table(&methods(summary))),
        ("by-family.tex", latex::whole_table(&families(summary))),
        ("wins.tex", latex::whole_table(&wins(summary))),
        ("methods.bib", latex::bibliography(summary)),
    ];
    out.extend(for_papers.map(|(name, text)| (name.to_owned(), text)));
    Ok(out)
}

/// The worst cases as a table.
pub(crate) fn worst(summary: &Summary, source: &Source) -> Table {
    let columns = [
        ("method", "method"),
        ("problem", "problem"),
        ("objective_ms", "plan"),
        ("best_ms", "best plan"),
        ("gap", "gap"),
        ("command", "runs it again"),
    ];
    let cells = |case: &Case| {
        vec![
            Cell::Word(case.method.clone()),
            Cell::Word(case.name.clone()),
            Cell::Number(case.row.objective_ms.unwrap_or_default(), Unit::Ms),
            Cell::Number(case.best_ms, Unit::Ms),
            Cell::Range(case.gap, Unit::Part),
            Cell::Word(source.command(case)),
        ]
    };
    Table {
        name: "worst",
        title: "Worst cases",
        note: "The runs whose plans are certainly furthest from the optimum, one a method and instance."
            .into(),
        columns: columns
            .iter()
            .map(|(name, heading)| ((*name).into(), (*heading).into()))
            .collect(),
        rows: summary.worst.iter().map(cells).collect(),
    }
}

/// A comparison of two sets of results in words.
pub(crate) fn diff(diff: &Diff) -> String {
    let mut out = String::new();
    let lists = [
        ("contradictory", &diff.contradictory),
        ("worse", &diff.worse),
        ("better", &diff.better),
    ];
    for (what, list) in lists {
        for line in list {
            out += &format!("{what}: {line}\n");
        }
    }
    for (method, (ratio, tasks)) in &diff.time_ratios {
        out += &format!("time of `{method}`: {ratio:.3} times as long, over {tasks} tasks\n");
    }
    out + &format!(
        "{} tasks compared, {} added: {} contradictory, {} worse, {} better\n",
        diff.compared,
        diff.added,
        diff.contradictory.len(),
        diff.worse.len(),
        diff.better.len()
    )
}
