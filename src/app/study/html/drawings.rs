//! Each instance's network, coloured by the stages of its best plan, and the plan's timeline.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::app::report;
use crate::app::study::cells::Cell;
use crate::app::study::report::Source;
use crate::app::study::row::Row;
use crate::app::study::solve;
use crate::app::study::store::Store;
use crate::app::study::summary::Summary;
use crate::app::study::task;
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::problem::plan::{Plan, SCHEMA, Statistics, Status, StoppedBy};
use crate::schedule::simulate::{Request, simulate};

/// An instance with its best plan.
pub(super) struct Drawing {
    /// The problem in words.
    pub title: String,
    /// The plan in words.
    pub caption: String,
    /// The network as SVG.
    pub network: String,
    /// The plan's timeline as SVG, where it can be simulated.
    pub timeline: Option<String>,
}

/// One drawing an instance: of the first problem whose best plan uses most stages, up to eight, so that it can be read.
///
/// Instances that are made by generators are drawn once a family: they look alike.
pub(super) fn drawings(summary: &Summary, source: &Source) -> Vec<Drawing> {
    let (Some(study), Some(store)) = (source.study, &source.store) else {
        return Vec::new();
    };
    let mut places: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for cell in &summary.cells {
        let key = match &cell.task.source {
            task::Source::File(file) => file,
            task::Source::Generator(..) => &cell.task.family,
        };
        match places.iter_mut().find(|place| place.0 == key) {
            Some((_, cells)) => cells.push(cell),
            None => places.push((key, vec![cell])),
        }
    }
    places
        .iter()
        .filter_map(|(_, cells)| drawing(cells, study.base(), store))
        .collect()
}

fn drawing(cells: &[&Cell], base: &Path, store: &Store) -> Option<Drawing> {
    /// More stages than this are hard to tell apart.
    const READABLE: usize = 8;
    let best = |cell: &Cell| -> Option<(usize, Row)> {
        let row = cell
            .rows
            .iter()
            .find(|row| row.plan.is_some() && row.objective_ms == cell.best_ms)?;
        Some((row.stages_used?, (*row).clone()))
    };
    let mut found: Vec<(usize, Row, String)> = Vec::new();
    for cell in cells {
        found.extend(best(cell).map(|(stages, row)| (stages, row, cell.name())));
    }
    let (_, row, title) = found
        .into_iter()
        .rev()
        .max_by_key(|(stages, ..)| match *stages <= READABLE {
            true => (true, *stages),
            false => (false, usize::MAX - stages),
        })?;
    let instance = solve::read(&row.task, base).ok()?;
    let plan = plan(&row, &instance, store)?;
    let simulated = simulate(
        &plan,
        &Request {
            micro_batches: Some(2 * plan.stages.len() as u64 + 2),
            ..Request::default()
        },
    );
    let caption = format!(
        "{} plan by `{}`: {} ms in {} stages.",
        row.status,
        row.task.method,
        row.objective_ms?,
        plan.stages.len()
    );
    Some(Drawing {
        title,
        caption,
        network: report::svg(&instance, Some(&plan)),
        timeline: simulated.ok().map(|simulation| report::timeline(&simulation)),
    })
}

/// The plan of a row, from the stages that the store keeps.
fn plan(row: &Row, instance: &Instance, store: &Store) -> Option<Plan> {
    let settings = Settings::resolve(instance, &row.task.options).ok()?;
    let is_optimal = row.status == crate::app::study::RowStatus::Optimal;
    Some(Plan {
        order: None,
        overruns: Vec::new(),
        split: None,
        reasons: Vec::new(),
        remedies: Vec::new(),
        unrestricted: None,
        run: None,
        throughput: None,
        times: Vec::new(),
        least_memory: None,
        schema: SCHEMA.into(),
        instance: instance.name.clone(),
        method: row.task.method.clone(),
        status: if is_optimal {
            Status::Optimal
        } else {
            Status::Feasible
        },
        stopped_by: StoppedBy::Completed,
        objective_ms: row.objective_ms,
        bound_ms: row.bound_ms,
        gap: row.gap,
        bound_source: row.bound_source.unwrap_or_default(),
        tokens: None,
        tokens_bound: None,
        chunk_sizes: Vec::new(),
        problem: settings.to_options(instance),
        cluster: instance.given_cluster.clone(),
        stages: store.plan(row.plan.as_deref()?)?,
        statistics: Statistics::default(),
    })
}

/// A drawing as the page holds it: compressed, in letters; a browser unpacks it when it is opened.
pub(super) fn packed(svg: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory has no cause to fail.
    let written = encoder.write_all(svg.as_bytes()).and_then(|()| encoder.finish());
    base64(&written.unwrap_or_default())
}

/// Base64 of RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            match at <= chunk.len() {
                true => out.push(char::from(LETTERS[(word >> (18 - 6 * at)) as usize % 64])),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
