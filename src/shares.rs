//! Shares: how a worker splits each of its resources between forward and backward propagation, which run at once.
#![doc = include_str!("../formulations/shares.md")]

/// Speeds of one resource, in stages per ns: what it does of a phase in a ns if all of it serves that phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Forward propagation.
    pub forward: f64,
    /// Backward propagation.
    pub backward: f64,
}

/// A share of a resource for forward propagation, and how fast both phases run on their parts, relative to all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The share β of forward propagation, from 0 to 1; backward propagation has the rest.
    pub share: f64,
    /// Speed of forward propagation on β.
    pub forward: f64,
    /// Speed of backward propagation on 1 - β.
    pub backward: f64,
}

impl Level {
    /// The level of a resource whose speed is its share.
    pub fn linear(share: f64) -> Self {
        Self {
            share,
            forward: share,
            backward: 1.0 - share,
        }
    }
}

/// Times of both phases in ns when each resource splits at its level: one over the sum of the speeds.
pub fn times_ns(speeds: &[Speed], levels: &[Level]) -> [f64; 2] {
    let pairs = || speeds.iter().zip(levels);
    let forward: f64 = pairs().map(|(speed, level)| speed.forward * level.forward).sum();
    let backward: f64 = pairs()
        .map(|(speed, level)| speed.backward * level.backward)
        .sum();
    [1.0 / forward, 1.0 / backward]
}

/// The shares of Duan and Wu's theorem (ICPADS 2022): β = c / (c + 1) on a resource whose forward time is c times its
/// backward time. Best where c is the same on all resources.
pub fn theorem(speeds: &[Speed]) -> Vec<f64> {
    // c = (1 / forward) / (1 / backward), so that c / (c + 1) is this.
    let share = |speed: &Speed| speed.backward / (speed.forward + speed.backward);
    speeds.iter().map(share).collect()
}

/// One share for all resources of all stages: the best if speed is the share and stages that give forward propagation
/// everything take at most `forward_ns` for it, stages that give it nothing at most `backward_ns` for the rest.
///
/// With least speeds A = 1 / `forward_ns` and B = 1 / `backward_ns` the share is B / (A + B) and the period
/// `forward_ns + backward_ns`. A phase in which no stage has anything to do takes 0 ns and gets nothing.
pub fn global(forward_ns: f64, backward_ns: f64) -> f64 {
    match forward_ns + backward_ns > 0.0 {
        true => forward_ns / (forward_ns + backward_ns),
        false => 0.5,
    }
}

/// Levels this near to the middle of two are as near to one as to the other: shares are quotients of doubles.
const TIE: f64 = 1e-9;

/// The level nearest to a share; of two that are equally near, the one of the smaller share. Levels are sorted by share.
pub fn nearest(levels: &[Level], share: f64) -> Option<Level> {
    let distance = |level: &Level| (level.share - share).abs();
    let least = levels.iter().map(distance).fold(f64::INFINITY, f64::min);
    levels
        .iter()
        .find(|level| distance(level) <= least + TIE)
        .copied()
}

/// The largest share whose nearest level is the lower of two.
pub fn change(lower: &Level, upper: &Level) -> f64 {
    f64::midpoint(lower.share, upper.share) + TIE / 2.0
}

/// The shares that make the slower phase as fast as can be, where speed is the share.
///
/// Comparative advantage: resources in the order of forward over backward speed; the first serve forward propagation, the
/// last backward propagation, and at most one is split, so that both phases take the same time. O(r log r).
pub fn best(speeds: &[Speed]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..speeds.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (speeds[a], speeds[b]);
        (b.forward * a.backward).total_cmp(&(a.forward * b.backward))
    });
    let mut shares = vec![0.0; speeds.len()];
    let mut forward = 0.0;
    let mut backward: f64 = speeds.iter().map(|speed| speed.backward).sum();
    for at in order {
        let speed = speeds[at];
        backward -= speed.backward;
        if forward + speed.forward <= backward {
            shares[at] = 1.0;
            forward += speed.forward;
            continue;
        }
        // forward + β f = backward + (1 - β) b
        let split = (backward + speed.backward - forward) / (speed.forward + speed.backward);
        shares[at] = split.clamp(0.0, 1.0);
        break;
    }
    shares
}

/// The best level of each resource, where only some are allowed: all sums of speeds that no other sum beats in both
/// phases, one resource after the other. Time O(r l s log(l s)) for l levels and s such sums.
pub fn best_levels(speeds: &[Speed], allowed: &[Vec<Level>]) -> Vec<Level> {
    /// Speeds of both phases so far, the level taken last, and the sum before it.
    struct Sum {
        forward: f64,
        backward: f64,
        level: usize,
        before: usize,
    }
    let start = Sum {
        forward: 0.0,
        backward: 0.0,
        level: 0,
        before: 0,
    };
    let mut layers = vec![vec![start]];
    for (speed, levels) in speeds.iter().zip(allowed) {
        let mut sums = Vec::new();
        for (before, sum) in layers[layers.len() - 1].iter().enumerate() {
            for (level, at) in levels.iter().enumerate() {
                sums.push(Sum {
                    forward: sum.forward + speed.forward * at.forward,
                    backward: sum.backward + speed.backward * at.backward,
                    level,
                    before,
                });
            }
        }
        sums.sort_by(|a, b| {
            b.forward
                .total_cmp(&a.forward)
                .then(b.backward.total_cmp(&a.backward))
        });
        let mut most = f64::NEG_INFINITY;
        sums.retain(|sum| {
            let keeps = sum.backward > most;
            most = most.max(sum.backward);
            keeps
        });
        layers.push(sums);
    }
    let slower = |sum: &Sum| sum.forward.min(sum.backward);
    let last = &layers[layers.len() - 1];
    let best = (0..last.len()).max_by(|&a, &b| slower(&last[a]).total_cmp(&slower(&last[b])));
    let mut at = best.unwrap_or(0);
    let mut chosen = Vec::with_capacity(speeds.len());
    for r in (0..speeds.len()).rev() {
        let sum = &layers[r + 1][at];
        chosen.push(allowed[r][sum.level]);
        at = sum.before;
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds(times: &[(f64, f64)]) -> Vec<Speed> {
        let speed = |&(forward, backward): &(f64, f64)| Speed {
            forward: 1.0 / forward,
            backward: 1.0 / backward,
        };
        times.iter().map(speed).collect()
    }

    fn period_ns(speeds: &[Speed], shares: &[f64]) -> f64 {
        let levels: Vec<Level> = shares.iter().copied().map(Level::linear).collect();
        let [forward, backward] = times_ns(speeds, &levels);
        forward.max(backward)
    }

    #[test]
    fn equal_ratios_make_the_theorem_best_and_no_better_than_taking_turns() {
        // f = 6 and g = 12 on one type, f = 3 and g = 6 on another: c = 1/2, together f = 2 and g = 4.
        let both = speeds(&[(6.0, 12.0), (3.0, 6.0)]);
        let shares = theorem(&both);
        assert!(shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-15));
        assert!((period_ns(&both, &shares) - 6.0).abs() < 1e-12);
        assert!((period_ns(&both, &best(&both)) - 6.0).abs() < 1e-12);
    }

    #[test]
    fn unequal_ratios_follow_comparative_advantage() {
        // One type is four times as good at forward propagation, the other at backward propagation.
        let both = speeds(&[(2.0, 8.0), (8.0, 2.0)]);
        assert_eq!(best(&both), [1.0, 0.0]);
        assert_eq!(period_ns(&both, &best(&both)), 2.0);
        assert!(period_ns(&both, &theorem(&both)) > 3.0);
        assert!((period_ns(&both, &[0.5, 0.5]) - 3.2).abs() < 1e-12);
    }

    #[test]
    fn fine_levels_come_close_to_any_share() {
        let both = speeds(&[(5.0, 7.0), (11.0, 3.0), (4.0, 9.0)]);
        let grid: Vec<Level> = (0..=1000).map(|i| Level::linear(f64::from(i) / 1000.0)).collect();
        let levels = best_levels(&both, &[grid.clone(), grid.clone(), grid]);
        let [forward, backward] = times_ns(&both, &levels);
        let best = period_ns(&both, &best(&both));
        let of_levels = forward.max(backward);
        assert!(best <= of_levels + 1e-12 && of_levels < best * 1.002);
    }
}
