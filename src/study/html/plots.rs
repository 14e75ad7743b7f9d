//! The plots of a study.

use super::plot::{Axis, Plot, Series};
use crate::study::measures::Group;
use crate::study::profile::Curve;
use crate::study::summary::Summary;

/// Fractions from none to all.
const SHARE: Axis = Axis {
    title: "share",
    range: (0.0, 1.0),
    logarithmic: false,
    part: true,
};

/// All plots that have anything to show.
pub fn plots(summary: &Summary) -> Vec<Plot<'static>> {
    let all = [
        quality(summary),
        speed(summary),
        gaps(summary),
        by_stages(summary),
        by_size(summary),
    ];
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
        series: steps(&summary.quality, false),
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
        series: steps(&summary.speed, false),
    }
}

fn gaps(summary: &Summary) -> Plot<'static> {
    let largest = furthest(&summary.gaps_high).max(0.01);
    let mut series = steps(&summary.gaps_high, false);
    // Where the optimum is known for all, the second curve is the first.
    let apart = summary
        .gaps_low
        .iter()
        .zip(&summary.gaps_high)
        .filter(|(low, high)| low.steps != high.steps);
    for (low, _) in apart {
        let place = summary
            .methods
            .iter()
            .position(|method| *method == low.method)
            .unwrap_or(0);
        series.push(Series {
            name: low.method.clone(),
            place,
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
    grouped(
        summary,
        "by-stages",
        "Gap by stages",
        "Mean gap of each method by the number of stages that a plan may have. Where the optimum is not known it is the gap to the \
         best bound.",
        "stages",
        &summary.by_stages,
        false,
    )
}

fn by_size(summary: &Summary) -> Plot<'static> {
    grouped(
        summary,
        "by-size",
        "Gap by size",
        "Mean gap of each method by the number of layers of the network. Where the optimum is not known it is the gap to the best \
         bound.",
        "layers",
        &summary.by_size,
        true,
    )
}

fn grouped(
    summary: &Summary,
    name: &'static str,
    title: &'static str,
    description: &str,
    x: &'static str,
    groups: &[Group],
    logarithmic: bool,
) -> Plot<'static> {
    let of = |(place, method): (usize, &String)| {
        let own = groups.iter().filter(|group| group.method == *method);
        let mut points: Vec<(f64, f64, f64)> = Vec::new();
        for group in own {
            let (x, weight) = (group.x as f64, group.runs as f64);
            match points.last_mut() {
                // Instances of one size are one point.
                Some(point) if point.0 == x => {
                    point.1 += group.mean_gap_high * weight;
                    point.2 += weight;
                }
                _ => points.push((x, group.mean_gap_high * weight, weight)),
            }
        }
        Series {
            name: method.clone(),
            place,
            points: points
                .into_iter()
                .map(|(x, sum, weight)| (x, sum / weight))
                .collect(),
            steps: false,
            faint: false,
        }
    };
    let series: Vec<Series> = summary.methods.iter().enumerate().map(of).collect();
    let all = || series.iter().flat_map(|series| &series.points);
    let (first, last) = all().fold((f64::INFINITY, 1.0), |(first, last): (f64, f64), point| {
        (first.min(point.0), last.max(point.0))
    });
    let top = all().map(|point| point.1).fold(0.01, f64::max);
    let from = if first.is_finite() { first } else { 1.0 };
    Plot {
        name,
        title,
        description: description.into(),
        x: Axis {
            title: x,
            range: (from, last.max(from * 1.01)),
            logarithmic,
            part: false,
        },
        y: Axis {
            title: "mean gap",
            range: (0.0, top),
            logarithmic: false,
            part: true,
        },
        series,
    }
}

fn steps(curves: &[Curve], faint: bool) -> Vec<Series> {
    let series = |(place, curve): (usize, &Curve)| Series {
        name: curve.method.clone(),
        place,
        points: curve.steps.clone(),
        steps: true,
        faint,
    };
    curves.iter().enumerate().map(series).collect()
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
