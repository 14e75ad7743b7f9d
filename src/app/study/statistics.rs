//! The few statistics that reports need, each by its usual definition.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Sum over count; nothing of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    match values {
        [] => None,
        _ => Some(values.iter().sum::<f64>() / values.len() as f64),
    }
}

/// Exponential of the mean logarithm, for ratios.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logarithms).map(f64::exp)
}

/// The value below which the part `p` lies, between neighbours in proportion: definition 7 of R. Hyndman and Y. Fan,
/// *Sample quantiles in statistical packages*, The American Statistician 50, 1996, which is numpy's and R's default.
pub(crate) fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = p * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    // Equal neighbours first: two infinite ones have no difference.
    Some(match below == above {
        true => below,
        false => below + (above - below) * at.fract(),
    })
}

/// A percentile bootstrap interval of 95 % (B. Efron, *Bootstrap methods*, Annals of Statistics 7, 1979): the statistic of
/// 2000 samples drawn with replacement, the same for the same values.
///
/// Time O(2000 n) and the statistic's. Fewer than two values have none.
pub(crate) fn bootstrap(values: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<(f64, f64)> {
    const RESAMPLES: usize = 2_000;
    const SEED: u64 = 1979;
    if values.len() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut sample = values.to_vec();
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        sample.fill_with(|| values[rng.random_range(0..values.len())]);
        found.extend(statistic(&sample));
    }
    Some((quantile(&found, 0.025)?, quantile(&found, 0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        // A twentieth is not a binary fraction.
        let near_the_end = quantile(&values, 0.95).unwrap();
        assert!((near_the_end - 3.85).abs() < 1e-12, "{near_the_end}");
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_bootstrap_interval_holds_the_mean_and_is_the_same_again() {
        let values: Vec<f64> = (0..50).map(f64::from).collect();
        let (low, high) = bootstrap(&values, mean).unwrap();
        assert!(low < 24.5 && 24.5 < high && high - low < 10.0, "{low} {high}");
        assert_eq!(bootstrap(&values, mean), Some((low, high)));
        assert_eq!(bootstrap(&[1.0], mean), None);
    }
}
