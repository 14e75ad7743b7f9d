//! What a model has, before it is planned.

use anstyle::Style as Ink;

use super::format::count;
use super::table::{Column, draw};
use crate::input::import::config::{LayerRun, Summary};

/// The summary of a configuration in words and a table of its layers.
pub(crate) fn model(summary: &Summary, name: &str) -> String {
    let layers = summary.layers.last().map_or(0, |run| run.last + 1);
    let mut out = format!("`{name}`: {}\n", count(layers, "layer"));
    let facts = [
        ("parameters", Some(summary.parameters)),
        ("active for a token", Some(summary.active_parameters)),
        (
            "in tables, head and last norm",
            Some(summary.embedding_parameters),
        ),
        ("beside these, vision", summary.vision_parameters),
        ("beside these, further predictions", summary.mtp_parameters),
        ("bytes kept of a token", Some(summary.kv_bytes_per_token)),
    ];
    let known: Vec<(&str, u64)> = facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)))
        .collect();
    let words = known.iter().map(|(name, _)| (*name).to_owned()).collect();
    let numbers = known.iter().map(|(_, fact)| grouped(*fact)).collect();
    let columns = [Column::words("", words), Column::numbers("", "", numbers)];
    out += draw(&columns, false, |_| None, |_| Ink::new()).trim_start_matches(['\n', '-', ' ']);
    out += "\n";
    let cells = |cell: fn(&LayerRun) -> String| summary.layers.iter().map(cell).collect::<Vec<_>>();
    let columns = [
        Column::words("layers", cells(numbered)),
        Column::words("kind", cells(|run| run.kind.to_owned())),
        Column::numbers("parameters", "each", cells(|run| grouped(run.parameters))),
        Column::numbers("active", "each", cells(|run| grouped(run.active_parameters))),
        Column::numbers(
            "kept of a token",
            "bytes each",
            cells(|run| grouped(run.kv_bytes_per_token)),
        ),
    ];
    out + &draw(&columns, false, |_| None, |_| Ink::new())
}

fn numbered(run: &LayerRun) -> String {
    match run.first == run.last {
        true => run.first.to_string(),
        false => format!("{}-{}", run.first, run.last),
    }
}

/// A number with a comma before every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
