//! A plain table: a heading of one or two lines, a rule, rows; numbers to the right.

use anstyle::Style as Ink;

use super::format::width;
use crate::model::fault::visible;

/// Blanks between columns.
pub(crate) const GAP: usize = 2;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column: its heading, the unit below, and its cells.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    heading: String,
    unit: &'static str,
    align: Align,
    cells: Vec<String>,
}

impl Column {
    /// A column of words.
    pub(crate) fn words(heading: impl Into<String>, cells: Vec<String>) -> Self {
        Self {
            heading: visible(&heading.into()).into_owned(),
            unit: "",
            align: Align::Left,
            cells: cells.iter().map(|cell| visible(cell).into_owned()).collect(),
        }
    }

    /// A column of numbers, with their unit where all share one.
    pub(crate) fn numbers(heading: impl Into<String>, unit: &'static str, cells: Vec<String>) -> Self {
        Self {
            heading: visible(&heading.into()).into_owned(),
            unit,
            align: Align::Right,
            cells,
        }
    }

    /// Columns of the terminal that it takes.
    pub(crate) fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
        cells.max(width(&self.heading)).max(width(self.unit))
    }
}

/// Width of a table of these columns, gaps included.
pub(crate) fn table_width(columns: &[Column]) -> usize {
    let gaps = GAP * columns.len().saturating_sub(1);
    columns.iter().map(Column::width).sum::<usize>() + gaps
}

/// Draws a table. `below` gives a line for under a row, and `ink` how a row is drawn; both take the row's position.
///
/// Lines carry no blanks at their end. All columns must have the same number of cells.
pub(crate) fn draw(
    columns: &[Column],
    color: bool,
    below: impl Fn(usize) -> Option<String>,
    ink: impl Fn(usize) -> Ink,
) -> String {
    let paint = |style: Ink, line: &str| match color && style != Ink::new() {
        true => format!("{style}{}{style:#}\n", line.trim_end()),
        false => format!("{}\n", line.trim_end()),
    };
    let mut out = String::new();
    out += &paint(Ink::new().bold(), &line(columns, |column| &column.heading));
    if columns.iter().any(|column| !column.unit.is_empty()) {
        out += &paint(Ink::new().dimmed(), &line(columns, |column| column.unit));
    }
    out += &paint(Ink::new().dimmed(), &"─".repeat(table_width(columns)));
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        out += &paint(ink(row), &line(columns, |column| &column.cells[row]));
        if let Some(text) = below(row) {
            out += &paint(Ink::new(), &visible(&text));
        }
    }
    out
}

fn line<'a>(columns: &'a [Column], cell: impl Fn(&'a Column) -> &'a str) -> String {
    let mut out = String::new();
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.extend(std::iter::repeat_n(' ', GAP));
        }
        let text = cell(column);
        let blanks = " ".repeat(column.width() - width(text));
        match column.align {
            Align::Left => out.extend([text, &blanks]),
            Align::Right => out.extend([blanks.as_str(), text]),
        }
    }
    out
}
