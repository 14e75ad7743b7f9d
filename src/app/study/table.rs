//! A table of a report, once for text, CSV and the page.

use super::cells::Bracket;
use crate::app::report::format::percent;
use crate::input::csv_text;

/// A table.
pub(crate) struct Table {
    /// Its name as a file and an anchor.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What its numbers mean.
    pub note: String,
    /// Headings, as CSV has them, with what people read.
    pub columns: Vec<(String, String)>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// What does not apply.
    Empty,
    /// A word.
    Word(String),
    /// How many.
    Count(usize),
    /// A number.
    Number(f64, Unit),
    /// A number of which a range is known: two columns in CSV, with `_low` and `_high`.
    Range(Bracket, Unit),
    /// How often the first was better, neither was, the second was: three columns in CSV, with `_wins`, `_ties` and `_losses`.
    Tally([usize; 3]),
}

/// How a number is written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A fraction, as a percentage.
    Part,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Ms,
    /// A ratio.
    Ratio,
    /// A sum of ranks.
    Rank,
    /// A probability.
    Probability,
}

impl Unit {
    /// The number as people read it.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Part => percent(value),
            Self::Seconds if value < 1e-3 => format!("{:.0} µs", 1e6 * value),
            Self::Seconds if value < 1.0 => format!("{:.1} ms", 1e3 * value),
            Self::Seconds => format!("{value:.2} s"),
            Self::Ms => format!("{value:.3} ms"),
            Self::Ratio if value >= 100.0 => format!("{value:.0}"),
            Self::Ratio if value < 0.01 => format!("{value:.5}"),
            Self::Ratio => format!("{value:.3}"),
            Self::Rank => format!("{value:.1}"),
            Self::Probability if value < 0.001 => "< 0.001".into(),
            Self::Probability => format!("{value:.3}"),
        }
    }
}

impl Cell {
    /// The cell as people read it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Empty => "-".into(),
            Self::Word(word) => word.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(value, unit) => unit.text(*value),
            Self::Range(Bracket { low, high }, unit) => match (unit.text(*low), unit.text(*high)) {
                (low, high) if low == high => low,
                // It says both ends.
                (_, high) if high.starts_with('<') => high,
                (low, high) => format!("{low} to {high}"),
            },
            Self::Tally([wins, ties, losses]) => format!("{wins} / {ties} / {losses}"),
        }
    }

    /// What is added to the name of its column in CSV, for each column that it takes there.
    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Range(..) => &["_low", "_high"],
            Self::Tally(_) => &["_wins", "_ties", "_losses"],
            Self::Empty | Self::Word(_) | Self::Count(_) | Self::Number(..) => &[""],
        }
    }

    /// The values of those columns, with all their digits.
    fn values(&self) -> Vec<String> {
        match self {
            Self::Empty => vec![String::new()],
            Self::Word(word) => vec![word.clone()],
            Self::Count(count) => vec![count.to_string()],
            Self::Number(value, _) => vec![value.to_string()],
            Self::Range(Bracket { low, high }, _) => vec![low.to_string(), high.to_string()],
            Self::Tally(counts) => counts.map(|count| count.to_string()).to_vec(),
        }
    }

    /// Whether it stands on the right.
    pub(crate) fn is_number(&self) -> bool {
        !matches!(self, Self::Word(_))
    }

    /// A number, where there is one.
    pub(crate) fn number(value: Option<f64>, unit: Unit) -> Self {
        value.map_or(Self::Empty, |value| Self::Number(value, unit))
    }

    /// A range, where there is one.
    pub(crate) fn range(low: Option<f64>, high: Option<f64>, unit: Unit) -> Self {
        match (low, high) {
            (Some(low), Some(high)) => Self::Range(Bracket { low, high }, unit),
            _ => Self::Empty,
        }
    }
}

impl Table {
    /// A table without rows; columns are named as in CSV and for people.
    pub(crate) fn new(
        name: &'static str,
        title: &'static str,
        note: impl Into<String>,
        columns: &[(&str, &str)],
    ) -> Self {
        Self {
            name,
            title,
            note: note.into(),
            columns: columns
                .iter()
                .map(|(name, heading)| ((*name).into(), (*heading).into()))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// The table as CSV: every number with all its digits.
    ///
    /// # Errors
    ///
    /// What the writer reports; writing to memory gives it no cause.
    pub(crate) fn csv(&self) -> Result<String, ::csv::Error> {
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        let columns: Vec<&[&str]> = (0..self.columns.len())
            .map(|at| {
                let of_cells = self.rows.iter().map(|row| row[at].columns());
                of_cells.max_by_key(|columns| columns.len()).unwrap_or(&[""])
            })
            .collect();
        let named = self.columns.iter().zip(&columns);
        writer
            .write_record(named.flat_map(|((name, _), columns)| {
                columns.iter().map(move |column| format!("{name}{column}"))
            }))?;
        for row in &self.rows {
            let fields = row.iter().zip(&columns).flat_map(|(cell, columns)| {
                let mut values = cell.values();
                // What does not apply is empty in all of them.
                values.resize(columns.len(), String::new());
                values
            });
            writer.write_record(fields)?;
        }
        csv_text::written(writer)
    }
}
