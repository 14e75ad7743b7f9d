//! Plans as people and programs read them: text, CSV, JSON, Graphviz, SVG, a page; methods side by side; and simulated runs.
//!
//! Everything here is a function from a plan to a string. Nothing is printed, and nothing is computed that the plan does
//! not say, so that a report of a plan from a file is that of the search which found it. The same input gives the same
//! bytes.

mod bounds;
mod comparison;
mod copies;
mod csv;
mod cut_points;
mod dot;
pub(crate) mod format;
mod gain;
mod global_batch;
mod lanes;
mod layout;
mod memory;
mod model;
mod modes;
mod order;
mod page;
pub(crate) mod palette;
mod passes;
mod phases;
mod picture;
mod ranges;
mod scene;
mod schedule;
mod simulation;
mod stages;
mod svg;
pub(crate) mod table;
mod text;
mod timeline;
mod times;
mod virtual_stages;
mod what_if;

pub(crate) use self::bounds::bounds;
pub(crate) use self::comparison::contradiction;
pub use self::comparison::{ComparisonRow, Standing, comparison};
pub(crate) use self::csv::to_csv;
pub use self::csv::{comparison_csv, comparison_json, csv, json};
pub use self::dot::dot;
pub(crate) use self::global_batch::Chosen;
pub(crate) use self::memory::least as least_memory;
pub(crate) use self::model::model;
pub use self::page::page;
pub(crate) use self::page::{BASE_SCRIPT, BASE_STYLE};
pub(crate) use self::schedule::{schedule, schedule_csv, schedule_json, schedule_timeline};
pub(crate) use self::simulation::{simulation, simulation_csv, simulation_json};
pub use self::svg::svg;
pub use self::text::text;
pub(crate) use self::text::{how_it_runs, in_short, sizes};
pub(crate) use self::timeline::timeline;
pub(crate) use self::times::times;
pub(crate) use self::what_if::{what_if, what_if_csv, what_if_json, what_if_svg};

/// How reports look: what the terminal can do, and what the reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to colour, with ANSI escape codes.
    pub color: bool,
    /// Whether to tell how the search went: seconds, nodes, sizes. Without, two runs give the same report.
    pub statistics: bool,
}

impl Default for Style {
    /// 100 columns, no colour, all statistics.
    fn default() -> Self {
        Self {
            width: 100,
            color: false,
            statistics: true,
        }
    }
}
