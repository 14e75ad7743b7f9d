//! What layers and transfers leave open, from measured iterations of plans.

use super::links;
use super::measured::{Measured, Run};
use super::{Calibration, Figure, Kind, Residual, fit};
use crate::check;
use crate::formulations::calibration::Row;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::{Instance, is_roofline};
use crate::model::options::PipelineOptions;
use crate::model::spec::{ClusterSpec, InstanceSpec};
use crate::problem::Problem;
use crate::solve::error::Error;
use crate::solve::evaluate;

/// Rounds of slopes and figures; times are the longest of few sums, and rarely need five.
const ROUNDS: usize = 12;

/// A figure that iterations may tell, in the order in which few runs tell them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unknown {
    /// One over the efficiency of a kind of device.
    Inverse(usize),
    /// One over the efficiency of the links.
    Link,
    /// What an iteration takes beside its plan.
    Iteration,
    /// What a boundary of two stages takes beside its bytes, from both.
    Latency,
}

/// Fits what is open to the runs.
///
/// # Errors
///
/// Plans that cannot be costed on the instance, and a solver that breaks down.
pub(super) fn fit(
    spec: &InstanceSpec,
    options: &PipelineOptions,
    measured: &Measured,
    found: &mut Calibration,
) -> Result<(), Error> {
    let runs = &measured.runs;
    if runs.is_empty() {
        return Ok(());
    }
    let given = spec.cluster.clone().unwrap_or_else(|| found.cluster.clone());
    let base = found.cluster.clone();
    let asked = Asked {
        spec,
        options,
        runs,
        base: &base,
    };
    let unknowns = asked.told(found)?;
    let start: Vec<f64> = unknowns.iter().map(|&unknown| asked.start(unknown)).collect();
    let all: Vec<usize> = (0..runs.len()).collect();
    let fitted = asked.figures(&unknowns, &start, &all)?;
    let groups: Vec<String> = all.iter().map(usize::to_string).collect();
    let unseen = fit::unseen(&groups, |kept| {
        let without = asked.figures(&unknowns, &fitted, kept)?;
        let said = asked.says_ms(&asked.cluster(&unknowns, &without))?;
        Ok::<_, Error>(move |at: usize| said[at])
    })?;
    let (before, after) = (
        asked.says_ms(&given)?,
        asked.says_ms(&asked.cluster(&unknowns, &fitted))?,
    );
    for (at, run) in runs.iter().enumerate() {
        found.residuals.push(Residual {
            kind: Kind::Iteration,
            name: run.name.clone(),
            measured_ms: run.measured_ms,
            given_ms: before[at],
            fitted_ms: after[at],
            unseen_ms: unseen[at],
        });
    }
    for (&unknown, &value) in unknowns.iter().zip(&fitted) {
        let before = asked.start(unknown);
        found.figures.push(match unknown {
            Unknown::Inverse(kind) => Figure {
                name: format!("efficiency of `{}`", base.device_kinds[kind].name),
                before: 1.0 / before,
                fitted: 1.0 / value,
            },
            Unknown::Link => Figure {
                name: "efficiency of the links, of what they are said to carry".into(),
                before: 1.0,
                fitted: 1.0 / value,
            },
            Unknown::Iteration | Unknown::Latency => Figure {
                name: asked.name(unknown),
                before,
                fitted: value,
            },
        });
    }
    found.cluster = asked.cluster(&unknowns, &fitted);
    Ok(())
}

struct Asked<'a> {
    spec: &'a InstanceSpec,
    options: &'a PipelineOptions,
    runs: &'a [Run],
    /// The cluster as layers and transfers leave it.
    base: &'a ClusterSpec,
}

impl Asked<'_> {
    fn name(&self, unknown: Unknown) -> String {
        match unknown {
            Unknown::Inverse(kind) => format!("efficiency of `{}`", self.base.device_kinds[kind].name),
            Unknown::Link => "efficiency of the links".into(),
            Unknown::Iteration => "once an iteration beside its plan, ms".into(),
            Unknown::Latency => "latency of a boundary, which both of its stages pay, ms".into(),
        }
    }

    fn start(&self, unknown: Unknown) -> f64 {
        match unknown {
            Unknown::Inverse(kind) => 1.0 / self.base.device_kinds[kind].efficiency.unwrap_or(1.0),
            Unknown::Link => 1.0,
            Unknown::Iteration => self.base.iteration_ms.unwrap_or(0.0),
            Unknown::Latency => self.base.link.as_ref().map_or(0.0, |link| link.latency_ms),
        }
    }

    fn limits(unknown: Unknown) -> (f64, f64) {
        match unknown {
            Unknown::Inverse(_) => (1.0, 1e6),
            Unknown::Link => links::INVERSE,
            Unknown::Iteration | Unknown::Latency => (0.0, f64::INFINITY),
        }
    }

    /// What is open, has a say in some run, and is not more than half of the runs can tell.
    fn told(&self, found: &mut Calibration) -> Result<Vec<Unknown>, Error> {
        let has = |kind: Kind| found.residuals.iter().any(|residual| residual.kind == kind);
        let (has_layers, has_links) = (has(Kind::Pass), has(Kind::Transfer));
        let mut open: Vec<Unknown> = Vec::new();
        if !has_layers {
            let kinds = self.base.device_kinds.iter().enumerate();
            let timed = kinds.filter(|(_, kind)| {
                let mut layers = self.spec.network.layers.iter();
                layers.any(|layer| is_roofline(layer, kind))
            });
            open.extend(timed.map(|(at, _)| Unknown::Inverse(at)));
        }
        if !has_links {
            open.push(Unknown::Link);
        }
        open.push(Unknown::Iteration);
        if !has_links {
            open.push(Unknown::Latency);
        }
        let most = (self.runs.len() / 2).max(1);
        let mut told = Vec::new();
        for unknown in open {
            let slopes = self.slopes(&[unknown], &[self.start(unknown)])?.1;
            let name = self.name(unknown);
            if slopes.iter().all(|slope| slope[0].abs() < 1e-9) {
                found
                    .left
                    .push(format!("{name}: as it was, since no run depends on it"));
            } else if told.len() == most {
                let runs = self.runs.len();
                found.left.push(format!(
                    "{name}: as it was, since {runs} runs tell no more than {most} figures"
                ));
            } else {
                told.push(unknown);
            }
        }
        Ok(told)
    }

    /// The cluster with some figures.
    fn cluster(&self, unknowns: &[Unknown], figures: &[f64]) -> ClusterSpec {
        let mut cluster = self.base.clone();
        for (&unknown, &value) in unknowns.iter().zip(figures) {
            match unknown {
                Unknown::Inverse(kind) => {
                    cluster.device_kinds[kind].efficiency = Some(1.0 / value);
                    cluster.device_kinds[kind].efficiencies.clear();
                }
                Unknown::Iteration => cluster.iteration_ms = Some(value),
                Unknown::Link | Unknown::Latency => {
                    let Some(link) = &mut cluster.link else { continue };
                    let within = link.nodes.as_mut().map(|nodes| &mut nodes.link);
                    if unknown == Unknown::Latency {
                        link.latency_ms = value;
                    } else {
                        within
                            .into_iter()
                            .for_each(|link| link.bandwidth_bytes_per_s /= value);
                        link.bandwidth_bytes_per_s /= value;
                    }
                }
            }
        }
        cluster
    }

    /// What a cluster says of every run, in ms.
    fn says_ms(&self, cluster: &ClusterSpec) -> Result<Vec<f64>, Error> {
        let spec = InstanceSpec {
            cluster: Some(cluster.clone()),
            ..self.spec.clone()
        };
        let instance = Instance::from_spec(&spec)?;
        let once_ms = cluster.iteration_ms.unwrap_or(0.0);
        self.runs
            .iter()
            .map(|run| Ok(once_ms + iteration_ms(&instance, self.options, run)?))
            .collect()
    }

    /// What some figures say of every run, and how much more for each unit of each figure.
    fn slopes(&self, unknowns: &[Unknown], figures: &[f64]) -> Result<(Vec<f64>, Vec<Vec<f64>>), Error> {
        let said = self.says_ms(&self.cluster(unknowns, figures))?;
        let mut slopes = vec![Vec::new(); said.len()];
        for at in 0..unknowns.len() {
            let step = (1e-3 * figures[at]).max(1e-3);
            let mut more = figures.to_vec();
            more[at] += step;
            let more = self.says_ms(&self.cluster(unknowns, &more))?;
            for (slopes, (more, said)) in slopes.iter_mut().zip(more.iter().zip(&said)) {
                slopes.push((more - said) / step);
            }
        }
        Ok((said, slopes))
    }

    /// The figures that explain the kept runs best, from others on.
    fn figures(&self, unknowns: &[Unknown], start: &[f64], kept: &[usize]) -> Result<Vec<f64>, Error> {
        let limits: Vec<(f64, f64)> = unknowns.iter().map(|&unknown| Self::limits(unknown)).collect();
        let error = |said: &[f64]| -> f64 {
            let off = |&at: &usize| (said[at] / self.runs[at].measured_ms - 1.0).abs();
            kept.iter().map(off).sum()
        };
        let mut best = start.to_vec();
        let (mut said, mut slopes) = self.slopes(unknowns, &best)?;
        for _ in 0..ROUNDS {
            let rows = kept.iter().map(|&at| {
                let own = slopes[at].iter().enumerate();
                let terms: Vec<(usize, f64)> = own.map(|(figure, &slope)| (figure, slope.max(0.0))).collect();
                let explained: f64 = terms.iter().map(|&(figure, slope)| slope * best[figure]).sum();
                let measured = self.runs[at].measured_ms;
                Row {
                    terms,
                    target: measured - (said[at] - explained),
                    measured,
                }
            });
            let mut next = fit::figures(&rows.collect::<Vec<_>>(), &limits)?;
            let mut is_better = false;
            // The next corner of the times may lie before the figures that these slopes lead to.
            for _ in 0..4 {
                let there = self.says_ms(&self.cluster(unknowns, &next))?;
                if error(&there) < error(&said) - 1e-9 {
                    is_better = true;
                    break;
                }
                next.iter_mut()
                    .zip(&best)
                    .for_each(|(next, best)| *next = (*next + best) / 2.0);
            }
            if !is_better {
                break;
            }
            best = next;
            (said, slopes) = self.slopes(unknowns, &best)?;
        }
        Ok(best)
    }
}

/// What an iteration of a plan takes on an instance, as simulated.
fn iteration_ms(instance: &Instance, options: &PipelineOptions, run: &Run) -> Result<f64, Error> {
    let settings = match &run.plan {
        Some(plan) => check::pose(instance, options, plan)?.settings,
        None => evaluate::settings(instance, options, &run.stages)?,
    };
    let problem = Problem::new(instance, settings.clone()).ok();
    let found = evaluate::evaluate(instance, &settings, problem.as_ref(), &run.stages)?;
    let run_ms = found.plan.run.map(|run| run.iteration_ms);
    let untold = || {
        let kind = FaultKind::Missing {
            what: "iteration".into(),
            expected: "a plan whose schedule flushes, of known micro-batches".into(),
            remedy: "say how many there are, in the plan or as an option".into(),
        };
        InputError {
            path: None,
            faults: vec![Fault::new(run.name.clone(), kind)],
        }
    };
    Ok(run_ms.filter(|ms| *ms > 0.0).ok_or_else(untold)?)
}
