//! The plots of a study.

use std::collections::BTreeMap;

use super::plot::{Axis, Look, Plot, Series};
use crate::app::study::measures::Group;
use crate::app::study::profile::Curve;
use crate::app::study::summary::Summary;

/// How a method is drawn.
fn look(summary: &Summary, method: &str) -> Look {
    let is_outside = summary.outside.contains(method);
    let alike = |name: &&String| summary.outside.contains(*name) == is_outside;
    let mut alike = summary.methods.iter().filter(alike);
    let place = alike.position(|name| name == method).unwrap_or(0);
    match is_outside {
        true => Look::Outside(place),
        false => Look::Registered(place),
    }
}

/// Fractions from none to all.
const SHARE: Axis = Axis {
    title: "share",
    range: (0.0, 1.0),
    logarithmic: false,
    part: true,
};

/// All plots that have anything to show.
pub(super) fn plots(summary: &Summary) -> Vec<Plot<'static>> {
    let mut all = [
        quality(summary),
        speed(summary),
        gaps(summary),
        by_stages(summary),
        by_size(summary),
    ];
    for plot in &mut all {
        // What somebody compares with ours lies above it.
        plot.series
            .sort_by_key(|series| matches!(series.look, Look::Outside(_)));
    }
    all.into_iter()
        .filter(|plot| plot.series.iter().any(|series| !series.points.is_empty()))
        .collect()
}

fn quality(summary: &Summary) -> Plot<'static> {
    /// Plans that are worse by more are all alike.
    const MOST: f64 = 3.0;
    Plot {
        name: "quality",
        title: "Performance profiles",
        description: "For each method, the share of problems on which its plan is at most so many times as long as the best plan \
                      of all methods. Higher is better."
            .into(),
        x: ratio_axis("objective over the best", &summary.quality, MOST),
        y: SHARE,
        series: steps(summary, &summary.quality),
    }
}

fn speed(summary: &Summary) -> Plot<'static> {
    /// Beyond this only stragglers are left.
    const MOST: f64 = 1e6;
    Plot {
        name: "speed",
        title: "Time to the optimum",
        description: "For each method, the share of problems on which it finds a plan that meets the best bound, in at most so many \
                      times the time of the fastest method that does."
            .into(),
        x: ratio_axis("time over the fastest", &summary.speed, MOST),
        y: SHARE,
        series: steps(summary, &summary.speed),
    }
}

fn gaps(summary: &Summary) -> Plot<'static> {
    let largest = furthest(&summary.gaps_high).max(0.01);
    let mut series = steps(summary, &summary.gaps_high);
    // Where the optimum is known for all, the second curve is the first.
    let apart = summary
        .gaps_low
        .iter()
        .zip(&summary.gaps_high)
        .filter(|(low, high)| low.steps != high.steps);
    for (low, _) in apart {
        series.push(Series {
            name: low.method.clone(),
            look: look(summary, &low.method),
            points: low.steps.clone(),
            steps: true,
            faint: true,
        });
    }
    Plot {
        name: "gaps",
        title: "Distribution of gaps",
        description: "For each method, the share of runs whose gap to the optimum is at most so large. Where the optimum is not \
                      known the gap lies in a range: the strong curve counts its upper end, the faint one its lower end."
            .into(),
        x: Axis {
            title: "gap",
            range: (0.0, largest),
            logarithmic: false,
            part: true,
        },
        y: SHARE,
        series,
    }
}

fn by_stages(summary: &Summary) -> Plot<'static> {
    let plot = Plot {
        name: "by-stages",
        title: "Gap by stages",
        description: "Mean gap of each method over the problems whose plans may have so many stages; families with few such \
                      problems make it jump. Where the optimum is not known it is the gap to the best bound."
            .into(),
        x: Axis {
            title: "stages",
            ..COUNT
        },
        y: MEAN_GAP,
        series: Vec::new(),
    };
    mean_gap_curves(plot, summary, &summary.by_stages, |stages| stages)
}

fn by_size(summary: &Summary) -> Plot<'static> {
    let plot = Plot {
        name: "by-size",
        title: "Gap by size",
        description: "Mean gap of each method by the number of layers of the network: all networks between two powers of two together. \
                      Where the optimum is not known it is the gap to the best bound."
            .into(),
        x: Axis {
            title: "layers, at least",
            logarithmic: true,
            ..COUNT
        },
        y: MEAN_GAP,
        series: Vec::new(),
    };
    mean_gap_curves(plot, summary, &summary.by_size, |layers| {
        1 << layers.max(1).ilog2()
    })
}

/// Whole numbers; the range is that of the points.
const COUNT: Axis = Axis {
    title: "",
    range: (1.0, 1.0),
    logarithmic: false,
    part: false,
};
/// Gaps from none; the range is that of the points.
const MEAN_GAP: Axis = Axis {
    title: "mean gap",
    range: (0.0, 0.0),
    logarithmic: false,
    part: true,
};

/// The plot with a curve a method: mean gaps of the groups that `bin` puts at one place.
fn mean_gap_curves(
    mut plot: Plot<'static>,
    summary: &Summary,
    groups: &[Group],
    bin: fn(usize) -> usize,
) -> Plot<'static> {
    let of = |method: &String| {
        let mut bins: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.method == *method) {
            let (sum, weight) = bins.entry(bin(group.x)).or_default();
            *sum += group.mean_gap_high * group.runs as f64;
            *weight += group.runs as f64;
        }
        Series {
            name: method.clone(),
            look: look(summary, method),
            points: bins
                .into_iter()
                .map(|(x, (sum, weight))| (x as f64, sum / weight))
                .collect(),
            steps: false,
            faint: false,
        }
    };
    plot.series = summary.methods.iter().map(of).collect();
    let all = || plot.series.iter().flat_map(|series| &series.points);
    let (first, last) = all().fold((f64::INFINITY, 1.0), |(first, last): (f64, f64), point| {
        (first.min(point.0), last.max(point.0))
    });
    let top = all().map(|point| point.1).fold(0.01, f64::max);
    let from = if first.is_finite() { first } else { 1.0 };
    plot.x.range = (from, last.max(from * 1.01));
    plot.y.range = (0.0, top);
    plot
}

fn steps(summary: &Summary, curves: &[Curve]) -> Vec<Series> {
    let series = |curve: &Curve| Series {
        name: curve.method.clone(),
        look: look(summary, &curve.method),
        points: curve.steps.clone(),
        steps: true,
        faint: false,
    };
    curves.iter().map(series).collect()
}

/// From 1 to the largest ratio, up to a most.
fn ratio_axis(title: &'static str, curves: &[Curve], most: f64) -> Axis {
    let largest = furthest(curves);
    Axis {
        title,
        range: (1.0, largest.clamp(1.01, most)),
        logarithmic: true,
        part: false,
    }
}

fn furthest(curves: &[Curve]) -> f64 {
    let last = curves.iter().filter_map(|curve| curve.steps.last());
    last.map(|step| step.0).fold(0.0, f64::max)
}
