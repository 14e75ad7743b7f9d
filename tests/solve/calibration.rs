//! The program of calibration against an oracle: the best of all corners, for two figures.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::control::Control;
use stagecut::formulations::calibration::{Calibration, Row};
use stagecut::solver;

/// Sum of relative deviations.
fn deviation(rows: &[Row], figures: &[f64]) -> f64 {
    let off = |row: &Row| {
        let said: f64 = row
            .terms
            .iter()
            .map(|&(figure, amount)| amount * figures[figure])
            .sum();
        (said - row.target).abs() / row.measured
    };
    rows.iter().map(off).sum()
}

/// Where deviations of two figures are least some two of these hold: a time is explained, or a figure is at its limit.
fn best_corner(rows: &[Row], limits: [(f64, f64); 2]) -> f64 {
    let of = |row: &Row, figure: usize| {
        row.terms
            .iter()
            .find(|(at, _)| *at == figure)
            .map_or(0.0, |term| term.1)
    };
    let mut lines: Vec<[f64; 3]> = rows
        .iter()
        .map(|row| [of(row, 0), of(row, 1), row.target])
        .collect();
    for (at, limits) in limits.iter().enumerate() {
        for limit in [limits.0, limits.1].into_iter().filter(|limit| limit.is_finite()) {
            let mut line = [0.0, 0.0, limit];
            line[at] = 1.0;
            lines.push(line);
        }
    }
    let mut best = f64::INFINITY;
    for (i, a) in lines.iter().enumerate() {
        for b in &lines[i + 1..] {
            let determinant = a[0] * b[1] - a[1] * b[0];
            if determinant.abs() < 1e-12 {
                continue;
            }
            let corner = [
                (a[2] * b[1] - a[1] * b[2]) / determinant,
                (a[0] * b[2] - a[2] * b[0]) / determinant,
            ];
            let is_within = |at: usize| (limits[at].0 - 1e-9..=limits[at].1 + 1e-9).contains(&corner[at]);
            if is_within(0) && is_within(1) {
                best = best.min(deviation(rows, &corner));
            }
        }
    }
    best
}

#[test]
fn no_corner_explains_more() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = rng.random_range(2..8);
        let rows: Vec<Row> = (0..count)
            .map(|_| {
                let peak: f64 = rng.random_range(0.1..20.0);
                let measured = (peak * rng.random_range(0.5..4.0) + rng.random_range(0.0..2.0_f64)).max(0.01);
                Row {
                    terms: vec![(0, peak), (1, 1.0)],
                    target: measured,
                    measured,
                }
            })
            .collect();
        let limits = [(1.0, 1e6), (0.0, f64::INFINITY)];
        let build = || Calibration::build(&rows, &limits);
        let solved = solver::solve(build().program, None, None, &Control::default(), &|_| ())
            .expect("a linear program");
        let figures = build().figures(&solved.values.expect("figures"));
        let (found, best) = (deviation(&rows, &figures), best_corner(&rows, limits));
        // What figures cost to part those that explain as much is a millionth of what they move.
        assert!(
            (found - best).abs() < 1e-5 * (1.0 + best) * f64::from(count),
            "seed {seed}: {found}, {best}"
        );
    }
}
