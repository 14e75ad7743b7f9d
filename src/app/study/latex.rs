//! Tables for papers: LaTeX with booktabs, and BibTeX of where its methods come from.
//!
//! A method's source names authors and years; the records of `references.bib` that it names are cited as they are. A source that
//! names none, such as the code of a framework, has a record made of what the registry says.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::summary::Summary;
use super::table::{Cell, Table};
use super::tables::about;
use crate::solve::methods;

/// What the repository says of itself; a test holds its lines.
const CITATION: &str = include_str!("../../../CITATION.cff");
/// The bibliography of the repository.
const REFERENCES: &str = include_str!("../../../references.bib");
/// The key of stagecut, and the beginning of those of methods whose source is no record of the bibliography.
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
    let cited = |name: &str| match &keys(name)[..] {
        [] => String::new(),
        keys => format!("~\\cite{{{}}}", keys.join(",")),
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
        prose(&table.note),
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

/// A sentence whose words between backticks are names.
fn prose(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(at, piece)| match at % 2 {
        0 => escaped(piece),
        _ => format!("\\texttt{{{}}}", escaped(piece)),
    });
    pieces.collect()
}

/// The records that a method's source names; else its own, or stagecut where it comes from here; none of a method from outside.
fn keys(name: &str) -> Vec<String> {
    // Of several limits each has a name of its own.
    let Some(method) = methods::find(name.split(", ").next().unwrap_or(name)) else {
        return Vec::new();
    };
    let named: Vec<Record> = records()
        .filter(|record| record.is_named(method.source()))
        .collect();
    // Of several papers of one author and year, the venue tells which.
    let is_meant = |record: &&Record| {
        let alike = named
            .iter()
            .filter(|other| other.signature() == record.signature());
        alike.count() == 1
            || record
                .venue()
                .is_some_and(|venue| method.source().contains(venue))
    };
    let named: Vec<String> = (named.iter().filter(is_meant))
        .map(|record| record.key.to_owned())
        .collect();
    match (named.is_empty(), method.source()) {
        (false, _) => named,
        (true, source) if source.starts_with("ours") => vec![KEY.to_owned()],
        (true, _) => vec![format!("{KEY}:{}", method.name())],
    }
}

/// A record of the bibliography.
struct Record<'a> {
    key: &'a str,
    text: &'a str,
}

/// The records of the bibliography, in its order.
fn records() -> impl Iterator<Item = Record<'static>> {
    let starts = REFERENCES.match_indices("\n@").map(|(at, _)| at + 1);
    starts.filter_map(|at| {
        let rest = &REFERENCES[at..];
        let text = rest[..rest.find("\n}").map_or(rest.len(), |end| end + 2)].trim();
        let key = text.split_once('{')?.1.split_once(',')?.0;
        Some(Record { key, text })
    })
}

impl Record<'_> {
    /// A field, without its braces.
    fn field(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("\n  {name} = {{"))?;
        rest.split("}\n").next()?.split("},\n").next()
    }

    /// What citations name: the family name of the first author, and the year.
    fn signature(&self) -> Option<(String, &str)> {
        let author = self.field("author")?.split(',').next()?;
        Some((plain(author), self.field("year")?))
    }

    /// Where it appeared.
    fn venue(&self) -> Option<&str> {
        self.field("booktitle").or(self.field("journal"))
    }

    /// Whether a text names the first author and, as the next year behind, its own.
    fn is_named(&self, text: &str) -> bool {
        let Some((author, year)) = self.signature() else {
            return false;
        };
        let text = plain(text);
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_cited = |at: usize| {
            let (before, behind) = (&text[..at], &text[at + author.len()..]);
            let mut years = behind.split(|c: char| !c.is_ascii_digit());
            !is_letter(before.chars().next_back())
                && !is_letter(behind.chars().next())
                && years.find(|digits| digits.len() == 4) == Some(year)
        };
        text.match_indices(&author).any(|(at, _)| is_cited(at))
    }
}

/// A text without accented letters, whether they are letters or commands of LaTeX.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, command)) = rest.split_once("{\\") {
        out += before;
        // Accents stand around one letter, which may have braces of its own.
        let end = command.find('}').map_or(command.len(), |end| end + 1);
        rest = command[end..].strip_prefix('}').unwrap_or(&command[end..]);
    }
    out += rest;
    out.retain(|c| c.is_ascii() && c != '{' && c != '}');
    out
}

/// BibTeX of stagecut and of the source of every method of a study.
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
    let methods = about(summary).rows;
    let cited: BTreeSet<String> = (methods.iter()).flat_map(|row| keys(&row[0].text())).collect();
    for record in records().filter(|record| cited.contains(record.key)) {
        let _ = write!(out, "\n{}\n", record.text);
    }
    for row in &methods {
        let [name, does, source] = [0, 1, 2].map(|at| escaped(&row[at].text()));
        let key = format!("{KEY}:{}", row[0].text());
        if cited.contains(&key) {
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
    fn every_method_is_cited() {
        for method in methods::all() {
            assert!(!keys(method.name()).is_empty(), "{}", method.name());
        }
        assert_eq!(keys("exact, 10 s"), keys("exact"));
        assert_eq!(keys("mine"), [""; 0]);
        assert_eq!(keys("slicing"), ["archer2024practical"]);
        assert_eq!(keys("brkga"), ["archer2024practical", "goncalves2011brkga"]);
        assert_eq!(keys("local-moves"), [KEY]);
        assert_eq!(keys("chunk-even"), ["narayanan2021efficient"]);
        assert_eq!(keys("milp"), [KEY]);
        assert_eq!(keys("sapp"), ["sapp2024mindformers"]);
        assert_eq!(keys("pytorch-equal-size"), ["stagecut:pytorch-equal-size"]);
        assert_eq!(plain("Gon{\\c c}alves"), plain("Gonçalves"));
        assert_eq!(plain("{\\\"O}zlem"), plain("Özlem"));
    }

    #[test]
    fn the_citation_says_title_and_authors() {
        assert!(CITATION.lines().any(|line| line.starts_with("title: \"stagecut")));
        assert!(CITATION.lines().any(|line| line.trim().starts_with("- name: ")));
    }
}
