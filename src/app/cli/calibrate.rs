//! `calibrate`.

use std::path::Path;

use anstyle::Style;
use serde::Serialize;

use crate::app::report::table::{Column, draw};
use crate::input::import::read_spec;
use crate::model::spec::ClusterSpec;
use crate::solve::calibrate::{Calibration, Figure, Kind, Measured, Residual, calibrate};

use super::args::{CalibrateArgs, ReportFormat};
use super::{CliError, Ending, output};

/// Residuals that a text shows: the largest.
const MOST_SHOWN: usize = 20;

/// Fits the cluster of an instance to what was measured.
pub(super) fn run(args: &CalibrateArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::format(path, None, (), &[("toml", ()), ("json", ())])?;
    if path.is_some() {
        output::check_path(path)?;
    }
    let instance = args.problem.read(args.quiet)?;
    let (mut spec, _) = read_spec(&args.problem.instance)?;
    if let Some(given) = instance.given_cluster {
        spec.cluster = Some(given.content);
    }
    let mut measured = Measured::default();
    for file in &args.measured {
        measured.read(file)?;
    }
    let found = calibrate(&spec, &args.problem.options, &measured)?;
    if !args.quiet {
        found.left.iter().for_each(|left| output::note(left));
    }
    let text = match args.format {
        ReportFormat::Text => text(&instance.name, &found),
        ReportFormat::Json => json(&instance.name, &found)?,
    };
    output::write(&text, None)?;
    if let Some(path) = path {
        output::write(&cluster(&found.cluster, path)?, Some(path))?;
    }
    Ok(Ending::Done)
}

fn cluster(cluster: &ClusterSpec, path: &Path) -> Result<String, CliError> {
    let failed = |error: String| CliError::Usage(error.into());
    match crate::input::source::has_extension(path, "json") {
        true => serde_json::to_string_pretty(cluster)
            .map_err(|error| failed(error.to_string()))
            .map(|text| text + "\n"),
        false => toml::to_string(cluster).map_err(|error| failed(error.to_string())),
    }
}

/// What programs read.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    instance: &'a str,
    figures: &'a [Figure],
    errors: Vec<Errors>,
    residuals: &'a [Residual],
    /// Figures that nothing measured tells.
    left: &'a [String],
    cluster: &'a ClusterSpec,
}

/// Mean absolute relative errors of a kind of measurement, and the largest.
#[derive(Serialize)]
struct Errors {
    kind: Kind,
    count: usize,
    given: Option<[f64; 2]>,
    fitted: Option<[f64; 2]>,
    unseen: Option<[f64; 2]>,
}

fn errors(found: &Calibration) -> Vec<Errors> {
    let of = |kind: Kind| {
        let count = found
            .residuals
            .iter()
            .filter(|residual| residual.kind == kind)
            .count();
        let pair = |said| found.errors(kind, said).map(|(mean, largest)| [mean, largest]);
        Errors {
            kind,
            count,
            given: pair(|residual| Some(residual.given_ms)),
            fitted: pair(|residual| Some(residual.fitted_ms)),
            unseen: pair(|residual| residual.unseen_ms),
        }
    };
    let all = Kind::ALL.into_iter().map(of);
    all.filter(|errors| errors.count > 0).collect()
}

fn json(instance: &str, found: &Calibration) -> Result<String, CliError> {
    let report = Report {
        schema: "stagecut-calibration/1",
        instance,
        figures: &found.figures,
        errors: errors(found),
        residuals: &found.residuals,
        left: &found.left,
        cluster: &found.cluster,
    };
    let text =
        serde_json::to_string_pretty(&report).map_err(|error| CliError::Usage(error.to_string().into()))?;
    Ok(text + "\n")
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if (1e-3..1e4).contains(&value) => format!("{value:.4}"),
        value => format!("{value:.3e}"),
    }
}

fn plain(columns: &[Column]) -> String {
    draw(columns, false, |_| None, |_| Style::new())
}

/// What people read.
fn text(instance: &str, found: &Calibration) -> String {
    let head = format!("the cluster of `{instance}`, calibrated\n");
    let tail = "`unseen`: of each measurement by figures that were fitted without it and its equals\n";
    [
        head,
        figures(found),
        residuals(&found.residuals),
        summary(found),
        tail.into(),
    ]
    .join("\n")
}

fn figures(found: &Calibration) -> String {
    let column = |heading: &str, of: &dyn Fn(&Figure) -> String| {
        (
            heading.to_owned(),
            found.figures.iter().map(of).collect::<Vec<_>>(),
        )
    };
    let (heading, cells) = column("figure", &|figure| figure.name.clone());
    let mut columns = vec![Column::words(heading, cells)];
    for (heading, cells) in [
        column("before", &|figure| number(figure.before)),
        column("fitted", &|figure| number(figure.fitted)),
    ] {
        columns.push(Column::numbers(heading, "", cells));
    }
    plain(&columns)
}

/// The largest of the residuals.
fn residuals(all: &[Residual]) -> String {
    let off = |said: f64, measured: f64| format!("{:+.1} %", 100.0 * (said / measured - 1.0));
    let mut shown: Vec<&Residual> = all.iter().collect();
    let size = |residual: &Residual| (residual.fitted_ms / residual.measured_ms - 1.0).abs();
    shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    shown.truncate(MOST_SHOWN);
    let cells =
        |of: &dyn Fn(&Residual) -> String| shown.iter().map(|residual| of(residual)).collect::<Vec<_>>();
    let table = plain(&[
        Column::words("measurement", cells(&|residual| residual.name.clone())),
        Column::numbers("measured", "ms", cells(&|residual| number(residual.measured_ms))),
        Column::numbers("fitted", "ms", cells(&|residual| number(residual.fitted_ms))),
        Column::numbers(
            "residual",
            "",
            cells(&|residual| off(residual.fitted_ms, residual.measured_ms)),
        ),
        Column::numbers(
            "unseen",
            "",
            cells(&|residual| {
                residual
                    .unseen_ms
                    .map_or_else(|| "-".into(), |ms| off(ms, residual.measured_ms))
            }),
        ),
        Column::numbers(
            "before",
            "",
            cells(&|residual| off(residual.given_ms, residual.measured_ms)),
        ),
    ]);
    match all.len() - shown.len() {
        0 => table,
        more => format!("{table}and {more} more, which are smaller: `--format json` has them\n"),
    }
}

/// Mean errors by kind of measurement.
fn summary(found: &Calibration) -> String {
    let percent = |error: Option<[f64; 2]>| {
        error.map_or_else(
            || "-".into(),
            |[mean, most]| format!("{:.1} % ({:.1})", 100.0 * mean, 100.0 * most),
        )
    };
    let all = errors(found);
    let cells = |of: &dyn Fn(&Errors) -> String| all.iter().map(of).collect::<Vec<_>>();
    plain(&[
        Column::words(
            "mean absolute error (largest)",
            cells(&|errors| format!("{} {}", errors.count, errors.kind.plural())),
        ),
        Column::numbers("before", "", cells(&|errors| percent(errors.given))),
        Column::numbers("fitted", "", cells(&|errors| percent(errors.fitted))),
        Column::numbers("unseen", "", cells(&|errors| percent(errors.unseen))),
    ])
}
