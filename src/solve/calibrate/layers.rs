//! Efficiencies of devices by kind of operator, and launches, from measured passes of layers.

use std::collections::{BTreeMap, HashMap};

use super::measured::Measured;
use super::{Calibration, Figure, Kind, Residual, fit};
use crate::formulations::calibration::Row;
use crate::formulations::solver::SolverError;
use crate::model::instance::{measured_times, peak_times};
use crate::model::spec::{DeviceKindSpec, InstanceSpec};

/// No kernel is faster than its peak, and none that is measured reaches less than a millionth of it.
const INVERSE: (f64, f64) = (1.0, 1e6);

/// A measured pass of a layer whose work is known.
struct Pass {
    name: String,
    operator: Option<String>,
    peak_ms: f64,
    measured_ms: f64,
    given_ms: f64,
}

/// What fits the passes of a kind of device.
#[derive(Debug, Default)]
struct Fitted {
    /// One over the efficiency of all.
    inverse: f64,
    /// The same by operator.
    operators: BTreeMap<String, f64>,
    launch_ms: f64,
}

impl Fitted {
    fn new(passes: &[&Pass]) -> Result<Self, SolverError> {
        let mut number: BTreeMap<&str, usize> = BTreeMap::new();
        for operator in passes.iter().filter_map(|pass| pass.operator.as_deref()) {
            let next = number.len();
            number.entry(operator).or_insert(next);
        }
        // Operators, passes without one, the launch.
        let [plain, launch] = [number.len(), number.len() + 1];
        let figure = |pass: &Pass| {
            pass.operator
                .as_deref()
                .map_or(plain, |operator| number[operator])
        };
        let row = |pass: &&Pass| Row {
            terms: vec![(figure(pass), pass.peak_ms), (launch, 1.0)],
            target: pass.measured_ms,
            measured: pass.measured_ms,
        };
        let rows: Vec<Row> = passes.iter().map(row).collect();
        let mut limits = vec![INVERSE; 2 + number.len()];
        limits[launch] = (0.0, f64::INFINITY);
        let figures = fit::figures(&rows, &limits)?;
        let launch_ms = figures[launch];
        let pooled = passes.iter().map(|pass| Row {
            terms: vec![(0, pass.peak_ms)],
            target: pass.measured_ms - launch_ms,
            measured: pass.measured_ms,
        });
        let has_others = passes.iter().any(|pass| pass.operator.is_none());
        let inverse = match has_others {
            true => figures[plain],
            false => fit::figures(&pooled.collect::<Vec<_>>(), &[INVERSE])?[0],
        };
        let operators = number.iter().map(|(name, at)| ((*name).to_owned(), figures[*at]));
        Ok(Self {
            inverse,
            operators: operators.collect(),
            launch_ms,
        })
    }

    fn says_ms(&self, pass: &Pass) -> f64 {
        let own = pass
            .operator
            .as_ref()
            .and_then(|operator| self.operators.get(operator));
        own.unwrap_or(&self.inverse) * pass.peak_ms + self.launch_ms
    }
}

/// Fits every kind of device of which passes were measured.
///
/// # Errors
///
/// A solver that breaks down.
pub(super) fn fit(
    spec: &InstanceSpec,
    measured: &Measured,
    found: &mut Calibration,
) -> Result<(), SolverError> {
    for at in 0..found.cluster.device_kinds.len() {
        let kind = found.cluster.device_kinds[at].clone();
        let passes = passes(spec, measured, &kind);
        if passes.is_empty() {
            continue;
        }
        let all: Vec<&Pass> = passes.iter().collect();
        let fitted = Fitted::new(&all)?;
        let groups: Vec<String> = passes.iter().map(Pass::group).collect();
        let unseen = fit::unseen(&groups, |kept| {
            let kept: Vec<&Pass> = kept.iter().map(|&at| &passes[at]).collect();
            let without = Fitted::new(&kept)?;
            let passes = &passes;
            Ok::<_, SolverError>(move |at: usize| without.says_ms(&passes[at]))
        })?;
        for (pass, unseen_ms) in passes.iter().zip(unseen) {
            found.residuals.push(Residual {
                kind: Kind::Pass,
                name: pass.name.clone(),
                measured_ms: pass.measured_ms,
                given_ms: pass.given_ms,
                fitted_ms: fitted.says_ms(pass),
                unseen_ms,
            });
        }
        write(&fitted, &kind, found);
        let own = &mut found.cluster.device_kinds[at];
        own.efficiency = Some(1.0 / fitted.inverse);
        let parts = fitted
            .operators
            .iter()
            .map(|(name, inverse)| (name.clone(), 1.0 / inverse));
        own.efficiencies = parts.collect();
        own.launch_ms = (fitted.launch_ms > 0.0).then_some(fitted.launch_ms);
    }
    Ok(())
}

/// Writes down the figures of a kind.
fn write(fitted: &Fitted, kind: &DeviceKindSpec, found: &mut Calibration) {
    let name = &kind.name;
    let before = kind.efficiency.unwrap_or(1.0);
    let mut figure = |name: String, before: f64, fitted: f64| {
        found.figures.push(Figure { name, before, fitted });
        if fitted == 1.0 {
            let last = found.figures.last().map_or("", |figure| figure.name.as_str());
            found
                .left
                .push(format!("{last} is at its limit: the peak rates may be too low"));
        }
    };
    figure(format!("efficiency of `{name}`"), before, 1.0 / fitted.inverse);
    for (operator, inverse) in &fitted.operators {
        let before = kind.efficiencies.get(operator).copied().unwrap_or(before);
        figure(
            format!("efficiency of `{name}`, `{operator}`"),
            before,
            1.0 / inverse,
        );
    }
    let launch_ms = kind.launch_ms.unwrap_or(0.0);
    found.figures.push(Figure {
        name: format!("launch of a pass of a layer on `{name}`, ms"),
        before: launch_ms,
        fitted: fitted.launch_ms,
    });
}

impl Pass {
    /// What passes share that would give each other away.
    fn group(&self) -> String {
        format!("{:?} {:e}", self.operator, self.peak_ms)
    }
}

/// Passes of layers whose work the instance says and whose time was measured on a kind, by the layers' names.
fn passes(spec: &InstanceSpec, measured: &Measured, kind: &DeviceKindSpec) -> Vec<Pass> {
    let mut passes = Vec::new();
    for profile in &measured.layers {
        let own: HashMap<&str, _> = profile
            .layers
            .iter()
            .map(|layer| (layer.id.as_str(), layer))
            .collect();
        for layer in &spec.network.layers {
            let Some(times) = own
                .get(layer.id.as_str())
                .and_then(|own| measured_times(own, kind))
            else {
                continue;
            };
            let Some(peak) = peak_times(layer, kind) else {
                continue;
            };
            let operator = layer.operator.clone();
            let both = [
                ("forward", peak.forward_ms, times.forward_ms),
                ("backward", peak.backward_ms, times.backward_ms),
            ];
            for (phase, peak_ms, measured_ms) in both {
                let (Some(peak_ms), Some(measured_ms)) = (peak_ms, measured_ms) else {
                    continue;
                };
                let is_told =
                    peak_ms.is_finite() && peak_ms > 0.0 && measured_ms.is_finite() && measured_ms > 0.0;
                if is_told {
                    let part = operator
                        .as_ref()
                        .and_then(|operator| kind.efficiencies.get(operator));
                    let part = part.copied().or(kind.efficiency).unwrap_or(1.0);
                    passes.push(Pass {
                        name: format!("`{}` {phase} on `{}`", layer.id, kind.name),
                        operator: operator.clone(),
                        peak_ms,
                        measured_ms,
                        given_ms: peak_ms / part + kind.launch_ms.unwrap_or(0.0),
                    });
                }
            }
        }
    }
    passes
}
