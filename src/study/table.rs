//! A table of a report, once for text, CSV and the page.

use super::cells::Bracket;
use crate::csv_text;
use crate::report::format::percent;

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
        let is_range = |at: usize| self.rows.iter().any(|row| matches!(row[at], Cell::Range(..)));
        let mut headings = Vec::new();
        for (at, (name, _)) in self.columns.iter().enumerate() {
            match is_range(at) {
                true => headings.extend([format!("{name}_low"), format!("{name}_high")]),
                false => headings.push(name.clone()),
            }
        }
        writer.write_record(&headings)?;
        for row in &self.rows {
            let mut fields = Vec::new();
            for (at, cell) in row.iter().enumerate() {
                match cell {
                    Cell::Range(Bracket { low, high }, _) => {
                        fields.extend([low.to_string(), high.to_string()])
                    }
                    Cell::Empty if is_range(at) => fields.extend([String::new(), String::new()]),
                    Cell::Empty => fields.push(String::new()),
                    Cell::Word(word) => fields.push(word.clone()),
                    Cell::Count(count) => fields.push(count.to_string()),
                    Cell::Number(value, _) => fields.push(value.to_string()),
                }
            }
            writer.write_record(&fields)?;
        }
        csv_text::written(writer)
    }
}
