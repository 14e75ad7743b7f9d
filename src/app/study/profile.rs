//! Distributions as curves: performance profiles and empirical distribution functions.

use serde::Serialize;

/// A step function: at each `x` the value jumps to `y`, which holds until the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Curve {
    /// Whose curve it is.
    pub method: String,
    /// Steps in order of `x`, which is finite.
    pub steps: Vec<(f64, f64)>,
    /// How many values it is the distribution of.
    pub count: usize,
}

/// The part of values that are at most x, for every x among them; infinite values never count, and keep the curve below 1.
pub(crate) fn distribution(method: &str, values: &[f64]) -> Curve {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (at, &x) in finite.iter().enumerate() {
        let y = (at + 1) as f64 / values.len() as f64;
        match steps.last_mut() {
            Some(step) if step.0 == x => step.1 = y,
            _ => steps.push((x, y)),
        }
    }
    Curve {
        method: method.into(),
        steps,
        count: values.len(),
    }
}

/// Performance profiles of E. Dolan and J. Moré, *Benchmarking optimization software with performance profiles*,
/// Mathematical Programming 91, 2002: for each method the part of problems on which it costs at most τ times as much as the
/// cheapest method.
///
/// `costs[s][p]` is the cost of method s on problem p: infinite where it failed, absent where it does not apply. A method's curve
/// is over the problems that it applies to. A problem that nobody solves counts against all.
pub(crate) fn performance(methods: &[String], costs: &[Vec<Option<f64>>]) -> Vec<Curve> {
    let problems = costs.first().map_or(0, Vec::len);
    let best = |problem: usize| {
        let all = costs.iter().filter_map(|of| of[problem]);
        all.fold(f64::INFINITY, f64::min)
    };
    let best: Vec<f64> = (0..problems).map(best).collect();
    let ratio = |(cost, best): (&Option<f64>, &f64)| {
        cost.map(|cost| match cost.is_finite() {
            // Two that cost nothing are alike.
            true if cost == *best => 1.0,
            true => cost / best,
            false => f64::INFINITY,
        })
    };
    let curve = |(method, of): (&String, &Vec<Option<f64>>)| {
        let ratios: Vec<f64> = of.iter().zip(&best).filter_map(ratio).collect();
        distribution(method, &ratios)
    };
    methods.iter().zip(costs).map(curve).collect()
}

impl Curve {
    /// The value at `x`.
    pub(crate) fn part(&self, x: f64) -> f64 {
        let before = self.steps.partition_point(|step| step.0 <= x);
        before.checked_sub(1).map_or(0.0, |last| self.steps[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_by_hand() {
        let methods = ["a".to_owned(), "b".to_owned()];
        let costs = [
            vec![Some(1.0), Some(4.0), Some(f64::INFINITY)],
            vec![Some(2.0), Some(2.0), None],
        ];
        let curves = performance(&methods, &costs);
        assert_eq!(curves[0].steps, [(1.0, 1.0 / 3.0), (2.0, 2.0 / 3.0)]);
        assert_eq!(curves[1].steps, [(1.0, 0.5), (2.0, 1.0)]);
        assert_eq!((curves[0].part(0.5), curves[0].part(1.5)), (0.0, 1.0 / 3.0));
    }
}
