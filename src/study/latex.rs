//! Tables for papers: LaTeX with booktabs, and BibTeX of what its methods are.

use std::fmt::Write;

use super::summary::Summary;
use super::table::{Cell, Table};
use super::tables::about;
use crate::methods;

/// What the repository says of itself; a test holds its lines.
const CITATION: &str = include_str!("../../CITATION.cff");
/// The key of stagecut, and the beginning of those of its methods.
const KEY: &str = "stagecut";

/// Columns of the methods that a paper has room for.
const COLUMNS: [&str; 9] = [
    "method",
    "runs",
    "solved_share",
    "without_plan",
    "mean_gap",
    "median_gap",
    "worst_gap",
    "median_s",
    "time_ratio",
];

/// The table of methods, each with a reference to [`bibliography`].
pub(crate) fn methods_table(table: &Table) -> String {
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|at| COLUMNS.contains(&table.columns[*at].0.as_str()))
        .collect();
    let cited = |name: &str| match key(name) {
        Some(key) => format!("~\\cite{{{key}}}"),
        None => String::new(),
    };
    latex(table, &columns, cited)
}

/// A table with all its columns.
pub(crate) fn whole_table(table: &Table) -> String {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    latex(table, &columns, |_| String::new())
}

/// Some columns of a table; `behind` is what follows the name in the first.
fn latex(table: &Table, columns: &[usize], behind: impl Fn(&str) -> String) -> String {
    let is_number = |at: usize| table.rows.iter().all(|row| row[at].is_number());
    let layout: String = columns
        .iter()
        .map(|at| if is_number(*at) { 'r' } else { 'l' })
        .collect();
    let headings = columns.iter().map(|at| escaped(&table.columns[*at].1));
    let mut out = format!(
        "% Needs \\usepackage{{booktabs}}; references are in methods.bib.\n\\begin{{table}}\n  \\centering\n  \\caption{{{}. {}}}\n  \
         \\label{{tab:{}}}\n  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {} \\\\\n    \\midrule\n",
        escaped(table.title),
        escaped(&table.note),
        table.name,
        headings.collect::<Vec<_>>().join(" & ")
    );
    for row in &table.rows {
        let cell = |at: &usize| match (&row[*at], at) {
            (Cell::Word(name), 0) => format!("\\texttt{{{}}}{}", escaped(name), behind(name)),
            (cell, _) => escaped(&cell.text()),
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let _ = writeln!(out, "    {} \\\\", cells.join(" & "));
    }
    out + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
}

/// The key of a method's source: its own, or that of stagecut where it comes from here; none of a method from outside.
fn key(name: &str) -> Option<String> {
    // Of several limits each has a name of its own.
    let method = methods::find(name.split(", ").next().unwrap_or(name))?;
    Some(match method.source() {
        "ours" => KEY.to_owned(),
        _ => format!("{KEY}:{}", method.name()),
    })
}

/// BibTeX of stagecut and of the source of every method of a study, as the registry states them.
pub(crate) fn bibliography(summary: &Summary) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let authors: Vec<String> = (CITATION.lines())
        .filter_map(|line| line.trim().strip_prefix("- name: "))
        .map(|name| format!("{{{}}}", escaped(name)))
        .collect();
    let title = CITATION.lines().find_map(|line| line.strip_prefix("title: "));
    let title = title.unwrap_or(KEY).trim_matches('"');
    let mut out = format!(
        "@misc{{{KEY},\n  author = {{{}}},\n  title = {{{{{}}}}},\n  note = {{Version {version}}},\n}}\n",
        authors.join(" and "),
        escaped(title)
    );
    for row in about(summary).rows {
        let [Cell::Word(name), Cell::Word(does), Cell::Word(source)] = &row[..] else {
            continue;
        };
        if let Some(key) = key(name).filter(|key| key != KEY) {
            let (name, does, source) = (escaped(name), escaped(does), escaped(source));
            let _ = write!(
                out,
                "\n@misc{{{key},\n  key = {{{name}}},\n  title = {{{{{source}}}}},\n  note = {{As `{name}` in stagecut {version}: {does}}},\n}}\n"
            );
        }
    }
    out
}

/// Text in which nothing is a command.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '"' => out += "''",
            'µ' => out += "\\textmu{}",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_a_command() {
        assert_eq!(
            escaped(r"\input{a_b} 50 % & more"),
            r"\textbackslash{}input\{a\_b\} 50 \% \& more"
        );
    }

    #[test]
    fn every_method_has_a_key() {
        for method in methods::all() {
            assert!(key(method.name()).is_some_and(|key| key.starts_with(KEY)));
        }
        assert_eq!(key("exact, 10 s"), key("exact"));
        assert_eq!(key("mine"), None);
    }

    #[test]
    fn the_citation_says_title_and_authors() {
        assert!(CITATION.lines().any(|line| line.starts_with("title: \"stagecut")));
        assert!(CITATION.lines().any(|line| line.trim().starts_with("- name: ")));
    }
}
