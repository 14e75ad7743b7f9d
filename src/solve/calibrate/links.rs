//! Bandwidth and latency of a link, from measured transfers.

use super::measured::{Measured, Transfer};
use super::{Calibration, Figure, Kind, Residual, fit};
use crate::formulations::calibration::Row;
use crate::formulations::solver::SolverError;
use crate::model::spec::LinkSpec;

/// A link is not a million times faster or slower than it is said to be.
pub(super) const INVERSE: (f64, f64) = (1e-6, 1e6);

/// Fits the links of which transfers were measured.
///
/// # Errors
///
/// A solver that breaks down.
pub(super) fn fit(measured: &Measured, found: &mut Calibration) -> Result<(), SolverError> {
    let mut link = found.cluster.link.clone();
    if let Some(link) = &mut link {
        fit_link(link, ("", &measured.transfers), found)?;
        match &mut link.nodes {
            Some(nodes) => fit_link(
                &mut nodes.link,
                (" within nodes", &measured.transfers_within),
                found,
            )?,
            None if !measured.transfers_within.is_empty() => found
                .left
                .push("transfers within nodes tell nothing of a cluster whose `link` has no `nodes`".into()),
            None => {}
        }
    }
    found.cluster.link = link;
    Ok(())
}

fn fit_link(
    link: &mut LinkSpec,
    (place, transfers): (&str, &[Transfer]),
    found: &mut Calibration,
) -> Result<(), SolverError> {
    if transfers.is_empty() {
        return Ok(());
    }
    let stated_ms = |transfer: &Transfer| 1e3 * transfer.bytes / link.bandwidth_bytes_per_s;
    // A copy, for the link changes below.
    let stated: Vec<f64> = transfers.iter().map(stated_ms).collect();
    let row = |at: usize| Row {
        terms: vec![(0, stated[at]), (1, 1.0)],
        target: transfers[at].measured_ms,
        measured: transfers[at].measured_ms,
    };
    let figures = |kept: &[usize]| {
        let rows: Vec<Row> = kept.iter().map(|&at| row(at)).collect();
        fit::figures(&rows, &[INVERSE, (0.0, f64::INFINITY)])
    };
    let says_ms = |figures: &[f64], at: usize| stated[at] * figures[0] + figures[1];
    let all: Vec<usize> = (0..transfers.len()).collect();
    let fitted = figures(&all)?;
    let groups: Vec<String> = transfers
        .iter()
        .map(|transfer| format!("{:e}", transfer.bytes))
        .collect();
    let unseen = fit::unseen(&groups, |kept| {
        let without = figures(kept)?;
        Ok::<_, SolverError>(move |at| says_ms(&without, at))
    })?;
    for (at, unseen_ms) in unseen.into_iter().enumerate() {
        found.residuals.push(Residual {
            kind: Kind::Transfer,
            name: format!("{} bytes{place}", transfers[at].bytes),
            measured_ms: transfers[at].measured_ms,
            given_ms: stated[at] + link.latency_ms,
            fitted_ms: says_ms(&fitted, at),
            unseen_ms,
        });
    }
    set(link, place, [1.0 / fitted[0], fitted[1]], found);
    Ok(())
}

/// Sets a link to a part of its bandwidth and a latency, and writes both down.
fn set(link: &mut LinkSpec, place: &str, [part, latency_ms]: [f64; 2], found: &mut Calibration) {
    found.figures.push(Figure {
        name: format!(
            "efficiency of the link{place}, of {:.4e} bytes/s",
            link.bandwidth_bytes_per_s
        ),
        before: 1.0,
        fitted: part,
    });
    found.figures.push(Figure {
        name: format!("latency of the link{place}, ms"),
        before: link.latency_ms,
        fitted: latency_ms,
    });
    link.bandwidth_bytes_per_s *= part;
    link.latency_ms = latency_ms;
}
