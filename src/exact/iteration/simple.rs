//! What can be said of an iteration without a search: the page's `share`, `again`, `even` and `item`.

use crate::exact::bounds::{self, Bound};
use crate::model::options::WorkerMode;
use crate::problem::Problem;

/// The best bound that takes no search, and what it says of the objective in ns.
pub(crate) fn simple_bound(problem: &Problem) -> (Bound, u64) {
    let settings = &problem.settings;
    let micro_batches = settings.run_micro_batches();
    let of_work = match is_alternating(problem) {
        true => even_ns(problem.work_ns(), problem.stages(), micro_batches),
        false => share_ns(problem.work_ns(), problem.stages(), micro_batches),
    };
    let again = micro_batches - 1;
    let of_item = problem.items.iter().map(|item| {
        let last = match settings.mode.trains() {
            true => item.backward_ns,
            false => item.forward_ns,
        };
        (micro_batches * item.work_ns()).max(problem.work_ns() + again * last)
    });
    let item = bounds::largest_item(problem);
    let of_item = of_item
        .max()
        .unwrap_or(0)
        .max(from_period_ns(problem, item.bottleneck_ns));
    match of_item > of_work {
        true => (item, of_item),
        false => (bounds::work_per_stage(problem), of_work),
    }
}

/// What iterations take at least if some worker or link is busy for `period_ns` or more in each micro-batch, in ns.
///
/// It works for all micro-batches; and under 1F1B without links, the page's `again`.
pub(super) fn from_period_ns(problem: &Problem, period_ns: u64) -> u64 {
    let micro_batches = problem.settings.run_micro_batches();
    // A link may be the busiest.
    let is_of_worker = is_alternating(problem) && !problem.settings.communication.has_links();
    let again_ns = match is_of_worker {
        true => again_ns(problem.work_ns(), period_ns, problem.stages(), micro_batches),
        false => 0,
    };
    again_ns.max(micro_batches * period_ns)
}

/// Whether workers do what 1F1B says: forward and backward passes in turn, as many ahead as there are stages from the worker's to the end.
pub(super) fn is_alternating(problem: &Problem) -> bool {
    let settings = &problem.settings;
    let is_in_turn = settings.mode.trains() && settings.worker == WorkerMode::Sequential;
    is_in_turn && !settings.schedule.is_all_forward_first()
}

/// The least time of an iteration of 1F1B without links that has so much work in so many stages, one of which takes `period_ns` or more
/// for a micro-batch, in ns; 0 where there are too few micro-batches to say.
fn again_ns(work_ns: u64, period_ns: u64, stages: usize, micro_batches: u64) -> u64 {
    let more = micro_batches.checked_sub(stages as u64 + 1);
    more.map_or(0, |more| 2 * work_ns + more * period_ns)
}

/// The least time of an iteration of 1F1B that has so much work in so many stages, in ns, where no item is too large for
/// its stage: that of an even division, however many micro-batches there are.
fn even_ns(work_ns: u64, stages: usize, micro_batches: u64) -> u64 {
    let (work, q, m) = (u128::from(work_ns), stages as u128, u128::from(micro_batches));
    let ns = match m > q {
        true => (work * (m + q - 1)).div_ceil(q),
        false => (work * 2 * q).div_ceil(2 * q - m + 1),
    };
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The least time of an iteration of any schedule that has so much work in so many stages, in ns, where no item is too large for its
/// stage.
fn share_ns(work_ns: u64, stages: usize, micro_batches: u64) -> u64 {
    let left = (1.0 - 1.0 / micro_batches as f64).powi(stages.min(1 << 20) as i32);
    // Far more than what the power and the division lose.
    const ROUNDING: f64 = 1e-9;
    let ns = work_ns as f64 / (1.0 - left) * (1.0 - ROUNDING);
    // One batch passes all stages one after the other, and no bound is below that.
    work_ns.max(ns as u64)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::prefix::{Prefix, PrefixStage};
    use super::{again_ns, even_ns, share_ns};
    use crate::problem::pipeline::PhaseTimes;

    /// The time of an iteration of 1F1B without links, in ns.
    fn run_ns(stages: &[[u64; 2]], micro_batches: u64) -> u64 {
        let pass = |work_ns| PhaseTimes {
            work_ns,
            ..PhaseTimes::default()
        };
        let stage = |(k, times): (usize, &[u64; 2])| PrefixStage {
            passes: times.map(pass),
            replicas: 1,
            in_flight: stages.len() - k,
            once_ns: 0,
        };
        let known: Vec<PrefixStage> = stages.iter().enumerate().map(stage).collect();
        let run = Prefix {
            stages: &known,
            is_whole: true,
            rest_ns: 0,
            micro_batches: micro_batches as usize,
        };
        run.bound_ns()
    }

    #[test]
    fn no_division_beats_the_bounds_of_all() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let (count, micro_batches) = (rng.random_range(1..=7), rng.random_range(1..=16));
            let most = [1, 3, 20][rng.random_range(0..3)];
            let drawn = (0..count).map(|_| [rng.random_range(0..=most), rng.random_range(0..=most)]);
            let stages: Vec<[u64; 2]> = drawn.collect();
            let loads = stages.iter().map(|[forward, backward]| forward + backward);
            let (work, period) = (loads.clone().sum(), loads.max().unwrap_or(0));
            let run_ns = run_ns(&stages, micro_batches);
            for bound_ns in [
                even_ns(work, count, micro_batches),
                again_ns(work, period, count, micro_batches),
                share_ns(work, count, micro_batches),
            ] {
                assert!(
                    bound_ns <= run_ns,
                    "{stages:?} {micro_batches}: {bound_ns} > {run_ns}"
                );
            }
        }
    }

    #[test]
    fn even_divisions_reach_the_bound() {
        for (stages, micro_batches) in [(1, 1), (1, 9), (3, 4), (4, 20)] {
            let even = vec![[4, 4]; stages];
            let bound_ns = even_ns(8 * stages as u64, stages, micro_batches);
            assert_eq!(run_ns(&even, micro_batches), bound_ns, "{stages} {micro_batches}");
        }
        // As many micro-batches as stages: the first one carries as much as all others.
        let uneven = [[4, 4], [2, 2], [2, 2]];
        assert_eq!(run_ns(&uneven, 3), even_ns(16, 3, 3));
    }
}
