//! Whether one method's plans are better than another's by more than chance.
//!
//! Two methods are compared on the problems that both apply to: each is a pair, and what counts is the logarithm of the ratio of
//! their objectives, so that a large problem counts no more than a small one. F. Wilcoxon, *Individual comparisons by ranking
//! methods*, Biometrics Bulletin 1, 1945, ranks the pairs by the size of their difference: if neither method were better, the ranks
//! of the pairs that one of them wins would add up to about half of all. Pairs without a difference are left out, equal
//! differences share their ranks, and a run without a plan is worse than any plan.
//!
//! Many comparisons find something by chance. S. Holm, *A simple sequentially rejective multiple test procedure*, Scandinavian
//! Journal of Statistics 6, 1979, raises the probabilities such that all of them together err no more often than one alone may.

use std::f64::consts::SQRT_2;

use super::measures::TIE;

/// Up to so many pairs the probability is counted out; beyond, the normal distribution is less than 0.01 off.
const COUNTED_OUT: usize = 50;
/// The probability from which on a difference may be chance.
pub(crate) const LEVEL: f64 = 0.05;

/// One method against another on their common problems.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// Positions of the methods.
    pub methods: (usize, usize),
    /// Problems on which the first has the better plan.
    pub wins: usize,
    /// Problems on which neither has.
    pub ties: usize,
    /// Problems on which the second has.
    pub losses: usize,
    /// Sum of the ranks of the problems that the first wins.
    pub rank_sum: f64,
    /// The probability of ranks that are so far from half, if neither method were better.
    pub p: f64,
    /// The same, raised for all comparisons of the study together.
    pub p_holm: f64,
}

impl Comparison {
    /// Pairs with a difference, which the test ranks.
    pub(crate) fn pairs(&self) -> usize {
        self.wins + self.losses
    }
}

/// Every two methods that have a problem in common, by their mean objectives of every problem.
pub(crate) fn comparisons(objectives: &[Vec<Option<f64>>]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for first in 0..objectives.len() {
        for second in first + 1..objectives.len() {
            let both = objectives[first].iter().zip(&objectives[second]);
            let differences: Vec<f64> = both.filter_map(|(a, b)| Some(difference((*a)?, (*b)?))).collect();
            if !differences.is_empty() {
                all.push(compared((first, second), &differences));
            }
        }
    }
    let raised = holm(&all.iter().map(|one| one.p).collect::<Vec<_>>());
    for (one, p_holm) in all.iter_mut().zip(raised) {
        one.p_holm = p_holm;
    }
    all
}

fn compared(methods: (usize, usize), differences: &[f64]) -> Comparison {
    let count = |test: fn(f64) -> bool| differences.iter().filter(|one| test(**one)).count();
    let (rank_sum, p) = signed_rank(differences);
    Comparison {
        methods,
        wins: count(|one| one > 0.0),
        ties: count(|one| one == 0.0),
        losses: count(|one| one < 0.0),
        rank_sum,
        p,
        p_holm: p,
    }
}

/// By how much the first objective is better, as a logarithm; none where both are alike, all there is where one has no plan.
fn difference(first: f64, second: f64) -> f64 {
    let has_plans = first.is_finite() && second.is_finite();
    if first == second || (has_plans && (first - second).abs() <= TIE * first.max(second)) {
        return 0.0;
    }
    let exact = (second / first).ln();
    // Equal ratios of different objectives differ in their last digits, and are to share a rank.
    format!("{exact:.11e}").parse().unwrap_or(exact)
}

/// The sum of the ranks of positive differences, and the probability, on both sides, of one that is so far from half.
///
/// Time O(n³) up to [`COUNTED_OUT`] differences that are not zero, O(n log n) beyond.
fn signed_rank(differences: &[f64]) -> (f64, f64) {
    let mut left: Vec<f64> = differences.iter().copied().filter(|one| *one != 0.0).collect();
    left.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the mean of the ranks of equal differences is whole.
    let mut doubled: Vec<usize> = Vec::with_capacity(left.len());
    let mut shared = 0.0;
    for alike in left.chunk_by(|a, b| a.abs() == b.abs()) {
        let (before, size) = (doubled.len(), alike.len());
        doubled.extend(std::iter::repeat_n(2 * before + size + 1, size));
        shared += (size as f64).powi(3) - size as f64;
    }
    let positive = left.iter().zip(&doubled).filter(|(one, _)| **one > 0.0);
    let doubled_sum: usize = positive.map(|(_, rank)| rank).sum();
    let all: usize = doubled.iter().sum();
    let less = doubled_sum.min(all - doubled_sum);
    let p = match left.len() {
        0..=COUNTED_OUT => 2.0 * counted_out(&doubled, less),
        pairs => normal(pairs, shared, all as f64 / 4.0 - less as f64 / 2.0),
    };
    (doubled_sum as f64 / 2.0, p.min(1.0))
}

/// The probability, on both sides, of a sum of ranks at least so far from half, as if it were normal. `shared` is the sum of t³ - t over
/// groups of t equal differences.
fn normal(pairs: usize, shared: f64, distance: f64) -> f64 {
    let n = pairs as f64;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - shared / 48.0;
    libm::erfc(distance / variance.sqrt() / SQRT_2)
}

/// The probability that ranks which are each taken or not, with equal chances, add up to at most `most`.
fn counted_out(ranks: &[usize], most: usize) -> f64 {
    let mut of_sum = vec![0.0; most + 1];
    of_sum[0] = 1.0;
    for &rank in ranks {
        for sum in (0..=most).rev() {
            let with = if sum >= rank { of_sum[sum - rank] } else { 0.0 };
            of_sum[sum] = 0.5 * (of_sum[sum] + with);
        }
    }
    of_sum.iter().sum()
}

/// Probabilities raised by Holm's rule: the least times their number, the next times one less, and none below the one before.
fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut raised = vec![0.0; probabilities.len()];
    let mut least: f64 = 0.0;
    for (before, at) in order.into_iter().enumerate() {
        least = least.max((probabilities.len() - before) as f64 * probabilities[at]);
        raised[at] = least.min(1.0);
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_of_few_differences() {
        // Ranks 1, 2.5, 2.5 and 4, one of them negative: of 16 signs, those with a sum of at most 2.5 are {}, {1}, {2.5}, {2.5}.
        let (sum, p) = signed_rank(&[0.1, -0.2, 0.2, 0.3, 0.0]);
        assert_eq!((sum, p), (7.5, 2.0 * 4.0 / 16.0));
        // Five of five: two of 32.
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, f64::INFINITY]), (15.0, 0.0625));
        assert_eq!(signed_rank(&[0.0, 0.0]), (0.0, 1.0));
        assert_eq!(signed_rank(&[]), (0.0, 1.0));
    }

    #[test]
    fn both_ways_agree_where_they_meet() {
        let ranks: Vec<usize> = (1..=COUNTED_OUT).map(|rank| 2 * rank).collect();
        let half = (COUNTED_OUT * (COUNTED_OUT + 1)) as f64 / 4.0;
        for sum in [300, 400, 500, 600] {
            let counted = 2.0 * counted_out(&ranks, 2 * sum);
            let normal = normal(COUNTED_OUT, 0.0, half - sum as f64);
            assert!((counted - normal).abs() < 0.01, "{sum}: {counted} {normal}");
        }
    }

    #[test]
    fn holm_by_hand() {
        let raised = holm(&[0.04, 0.01, 0.03, 0.5]);
        let expected = [0.09, 0.04, 0.09, 0.5];
        let far = raised
            .iter()
            .zip(expected)
            .any(|(one, other)| (one - other).abs() > 1e-12);
        assert!(!far, "{raised:?}");
    }

    #[test]
    fn a_run_without_a_plan_loses() {
        let none = f64::INFINITY;
        let found = comparisons(&[
            vec![Some(1.0), Some(2.0), None],
            vec![Some(none), Some(2.0), Some(1.0)],
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].wins, found[0].ties, found[0].losses), (1, 1, 0));
        assert_eq!(difference(none, none), 0.0);
    }
}
