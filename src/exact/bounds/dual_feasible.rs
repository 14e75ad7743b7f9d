//! Bounds by dual feasible functions: what items count for in any bin that they fit.
#![doc = include_str!("../../../formulations/dual_feasible.md")]

use crate::exact::bounds::{self, Bound};
use crate::exact::tuning::TUNING;
use crate::model::units::bisect;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;

/// The best of them on the busiest stage; at least that of work per stage, and of the largest item.
///
/// Time O(f (n + log W)) for n items of work W in all and f functions, beside O(n log W) for those that raise the bound.
pub fn bottleneck_ns(problem: &Problem) -> u64 {
    let mut works: Vec<u64> = problem.items.iter().map(|item| item.work_ns()).collect();
    works.retain(|&work_ns| work_ns > 0);
    works.sort_unstable();
    let [best, _] = bounds::simple(problem);
    let most_ns = works.iter().sum();
    let mut least = Least {
        stages: problem.stages() as u128,
        bound_ns: best.bottleneck_ns,
        most_ns,
    };
    let Some(&largest_ns) = works.last() else {
        return least.bound_ns;
    };
    // Items that fill no part count for nothing, and all others for no more than their work where none is large.
    if largest_ns.saturating_mul(TUNING.parts_of_dual_feasible + 1) < least.bound_ns {
        return least.bound_ns;
    }
    for parts in 1..=TUNING.parts_of_dual_feasible {
        least.raise(|limit_ns| by_parts(&works, parts, limit_ns));
    }
    let mut small = works.clone();
    small.dedup();
    let sums: Vec<u128> = std::iter::once(0)
        .chain(works.iter().scan(0, |sum, &work_ns| {
            *sum += u128::from(work_ns);
            Some(*sum)
        }))
        .collect();
    for small_ns in small.into_iter().take(TUNING.thresholds_of_dual_feasible) {
        least.raise(|limit_ns| without_small(&works, &sums, small_ns, limit_ns));
    }
    least.bound_ns
}

/// The same as a bound of a search.
pub(crate) fn bound(problem: &Problem) -> Bound {
    Bound {
        source: BoundSource::DualFeasible,
        bottleneck_ns: bottleneck_ns(problem),
    }
}

/// The least limit that no function has ruled out.
struct Least {
    stages: u128,
    bound_ns: u64,
    /// All items fit one stage of so much.
    most_ns: u64,
}

impl Least {
    /// Raises the bound to the least limit that a function allows: `counted` says what all items count for within a limit, and what a stage
    /// counts for at most. It allows all limits from the least one on.
    fn raise(&mut self, counted: impl Fn(u64) -> [u128; 2]) {
        let allows = |limit_ns| {
            let [all, stage] = counted(limit_ns);
            all <= self.stages * stage
        };
        if self.bound_ns >= self.most_ns || allows(self.bound_ns) {
            return;
        }
        self.bound_ns = bisect([self.bound_ns, self.most_ns], allows);
    }
}

/// What items count for where a stage counts for `parts` limits, if each counts for the whole parts of it that it fills: an item of a limit's
/// `x` for `floor((parts + 1) x) / parts`, or for `x` where `(parts + 1) x` is whole.
fn by_parts(works: &[u64], parts: u64, limit_ns: u64) -> [u128; 2] {
    let [parts, limit] = [parts, limit_ns].map(u128::from);
    let counts = |&work_ns: &u64| {
        let filled = (parts + 1) * u128::from(work_ns);
        match filled.is_multiple_of(limit) {
            true => parts * u128::from(work_ns),
            false => filled / limit * limit,
        }
    };
    [works.iter().map(counts).sum(), parts * limit]
}

/// What items count for where small ones count for nothing, and those beside which none but small ones fit for the whole limit. Works
/// ascend, and `sums` are those of so many of them.
fn without_small(works: &[u64], sums: &[u128], small_ns: u64, limit_ns: u64) -> [u128; 2] {
    let limit = u128::from(limit_ns);
    if small_ns > limit_ns / 2 {
        return [0, limit];
    }
    let counted_from = works.partition_point(|&work_ns| work_ns < small_ns);
    let whole_from = works.partition_point(|&work_ns| work_ns <= limit_ns - small_ns);
    let whole = (works.len() - whole_from) as u128 * limit;
    [sums[whole_from] - sums[counted_from] + whole, limit]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Items that fit a limit together never count for more than a stage, whatever the function.
    #[test]
    fn what_fits_counts_for_one_at_most() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let limit_ns = rng.random_range(1..=60);
            let mut works = Vec::new();
            let mut left = limit_ns;
            while left > 0 && works.len() < 8 {
                let work_ns = rng.random_range(1..=left);
                works.push(work_ns);
                left -= work_ns;
            }
            works.sort_unstable();
            let mut sums = vec![0];
            for &work_ns in &works {
                sums.push(sums[sums.len() - 1] + u128::from(work_ns));
            }
            for k in 1..=70 {
                let [all, stage] = by_parts(&works, k, limit_ns);
                assert!(all <= stage, "{works:?} within {limit_ns}, {k} parts");
                let [all, stage] = without_small(&works, &sums, k, limit_ns);
                assert!(all <= stage, "{works:?} within {limit_ns}, small up to {k}");
            }
        }
    }
}
