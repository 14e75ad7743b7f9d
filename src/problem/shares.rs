//! Shares: how a worker splits each of its resources between forward and backward propagation, which run at once.
#![doc = include_str!("../../formulations/shares.md")]

use crate::model::options::Shares;

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
pub(crate) fn nearest(levels: &[Level], share: f64) -> Option<Level> {
    let distance = |level: &Level| (level.share - share).abs();
    let least = levels.iter().map(distance).fold(f64::INFINITY, f64::min);
    levels
        .iter()
        .find(|level| distance(level) <= least + TIE)
        .copied()
}

/// The largest share whose nearest level is the lower of two.
pub(crate) fn change(lower: &Level, upper: &Level) -> f64 {
    f64::midpoint(lower.share, upper.share) + TIE / 2.0
}

/// What a resource may do: one of its levels, or any share.
pub type Allowed<'a> = Option<&'a [Level]>;

/// Speeds that doubles cannot tell from each other, relative to them.
const ALIKE: f64 = 1e-12;

/// The levels and shares that make the slower phase as fast as can be, and of these the other one; a phase that is `idle` needs nothing.
///
/// All sums of speeds of resources with levels that no other sum beats in both phases, and for each of them the best shares
/// of the free resources beside it.
///
/// # Complexity
///
/// Time O(r log r + s l log(s l) r) for r resources, l levels and s such sums.
pub fn best(speeds: &[Speed], allowed: &[Allowed], idle: [bool; 2]) -> Vec<Level> {
    let free = FreeResources::new(speeds, allowed, idle);
    // The slower phase that works, and the faster one.
    let both = |[forward, backward]: [f64; 2]| match idle {
        [true, _] => [backward, 0.0],
        [_, true] => [forward, 0.0],
        _ => [forward.min(backward), forward.max(backward)],
    };
    let layers = pareto_sums(speeds, allowed);
    let last = &layers[layers.len() - 1];
    let reached = |sum: &Sum| both(free.reach([sum.forward, sum.backward], |_, _| ()));
    let exceeds = |one: f64, other: f64| one > other * (1.0 + ALIKE);
    let mut at = 0;
    let mut most = [0.0; 2];
    for (position, sum) in last.iter().enumerate() {
        let speeds = reached(sum);
        let is_faster =
            exceeds(speeds[0], most[0]) || (!exceeds(most[0], speeds[0]) && exceeds(speeds[1], most[1]));
        if position == 0 || is_faster {
            (at, most) = (position, speeds);
        }
    }
    let mut chosen = vec![Level::linear(0.0); speeds.len()];
    free.reach([last[at].forward, last[at].backward], |r, share| {
        chosen[r] = Level::linear(share);
    });
    for r in (0..speeds.len()).rev() {
        let sum = &layers[r + 1][at];
        if let Some(levels) = allowed[r] {
            chosen[r] = levels[sum.level];
        }
        at = sum.before;
    }
    chosen
}

/// Speeds of both phases so far, the level taken last, and the sum before it.
struct Sum {
    forward: f64,
    backward: f64,
    level: usize,
    before: usize,
}

/// After each resource, the sums of its speeds and those before it that no other sum beats in both phases; a free resource adds
/// nothing.
fn pareto_sums(speeds: &[Speed], allowed: &[Allowed]) -> Vec<Vec<Sum>> {
    let start = Sum {
        forward: 0.0,
        backward: 0.0,
        level: 0,
        before: 0,
    };
    let mut layers = vec![vec![start]];
    for (speed, levels) in speeds.iter().zip(allowed) {
        let none = [Level {
            share: 0.0,
            forward: 0.0,
            backward: 0.0,
        }];
        let levels = levels.unwrap_or(&none);
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
    layers
}

/// The levels that a policy takes, of shares that each stage has for itself.
pub fn by_policy(policy: Shares, speeds: &[Speed], allowed: &[Allowed], idle: [bool; 2]) -> Vec<Level> {
    let wanted = match (policy, idle) {
        (Shares::Best | Shares::Global, _) => return best(speeds, allowed, idle),
        (Shares::Even, _) => vec![0.5; speeds.len()],
        (Shares::Theorem, [false, false]) => theorem(speeds),
        // Nothing to weigh: the phase that works takes everything.
        (Shares::Theorem, [is_idle, _]) => vec![if is_idle { 0.0 } else { 1.0 }; speeds.len()],
    };
    nearest_of_all(&wanted, allowed)
}

/// The level of each resource that is nearest to the share that is wanted of it.
pub(crate) fn nearest_of_all(wanted: &[f64], allowed: &[Allowed]) -> Vec<Level> {
    let level = |(&share, levels): (&f64, &Allowed)| {
        nearest(levels.unwrap_or_default(), share).unwrap_or(Level::linear(share))
    };
    wanted.iter().zip(allowed).map(level).collect()
}

/// A time on shares, rounded to the nearest ns, of two that are equally near to the lower: one over a sum of doubles, it may come out on
/// either side of what lies midway, so that everything counts as midway which doubles cannot tell from it. `u64::MAX` for what does not
/// end.
pub(crate) fn whole_on_shares_ns(ns: f64) -> u64 {
    /// What doubles cannot tell, relative to a time: more than the sums behind it are off by.
    const MIDWAY: f64 = 1e-12;
    let within = ns * MIDWAY;
    // Where that is much of a ns, nothing is known to lie midway.
    let is_midway = within < 0.25 && ns.round() - ns >= 0.5 - within;
    ns.round() as u64 - u64::from(is_midway)
}

/// Resources of which any share goes, in the order of forward over backward speed: comparative advantage.
struct FreeResources {
    resources: Vec<(usize, Speed)>,
    backward: f64,
    idle: [bool; 2],
}

impl FreeResources {
    fn new(speeds: &[Speed], allowed: &[Allowed], idle: [bool; 2]) -> Self {
        let is_free = |&(r, _): &(usize, Speed)| allowed[r].is_none();
        let mut resources: Vec<(usize, Speed)> = speeds.iter().copied().enumerate().filter(is_free).collect();
        resources.sort_by(|(_, a), (_, b)| (b.forward * a.backward).total_cmp(&(a.forward * b.backward)));
        Self {
            backward: resources.iter().map(|(_, speed)| speed.backward).sum(),
            resources,
            idle,
        }
    }

    /// The speeds of both phases at the best shares beside others of these speeds; hands out each share.
    ///
    /// The first resources serve forward propagation, the last backward propagation, and at most one is split, so that both
    /// phases take the same time.
    fn reach(&self, beside: [f64; 2], mut give: impl FnMut(usize, f64)) -> [f64; 2] {
        let [mut forward, mut backward] = beside;
        backward += self.backward;
        let mut is_split = false;
        for &(r, speed) in &self.resources {
            let rest = backward - speed.backward;
            let share = match self.idle {
                [true, _] => 0.0,
                [_, true] => 1.0,
                _ if is_split => 0.0,
                _ if forward + speed.forward <= rest => 1.0,
                // forward + β f = rest + (1 - β) b
                _ => ((backward - forward) / (speed.forward + speed.backward)).clamp(0.0, 1.0),
            };
            is_split |= share < 1.0;
            give(r, share);
            forward += share * speed.forward;
            backward = rest + (1.0 - share) * speed.backward;
        }
        [forward, backward]
    }
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

    fn period_ns(speeds: &[Speed], levels: &[Level]) -> f64 {
        let [forward, backward] = times_ns(speeds, levels);
        forward.max(backward)
    }

    fn linear(shares: &[f64]) -> Vec<Level> {
        shares.iter().copied().map(Level::linear).collect()
    }

    fn best_of(speeds: &[Speed], allowed: &[Allowed]) -> Vec<Level> {
        best(speeds, allowed, [false, false])
    }

    #[test]
    fn equal_ratios_make_the_theorem_best_and_no_better_than_taking_turns() {
        // f = 6 and g = 12 on one type, f = 3 and g = 6 on another: c = 1/2, together f = 2 and g = 4.
        let both = speeds(&[(6.0, 12.0), (3.0, 6.0)]);
        let shares = theorem(&both);
        assert!(shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-15));
        assert!((period_ns(&both, &linear(&shares)) - 6.0).abs() < 1e-12);
        assert!((period_ns(&both, &best_of(&both, &[None, None])) - 6.0).abs() < 1e-12);
    }

    #[test]
    fn unequal_ratios_follow_comparative_advantage() {
        // One type is four times as good at forward propagation, the other at backward propagation.
        let both = speeds(&[(2.0, 8.0), (8.0, 2.0)]);
        let chosen = best_of(&both, &[None, None]);
        assert_eq!(chosen, linear(&[1.0, 0.0]));
        assert_eq!(period_ns(&both, &chosen), 2.0);
        assert!(period_ns(&both, &linear(&theorem(&both))) > 3.0);
        assert!((period_ns(&both, &linear(&[0.5, 0.5])) - 3.2).abs() < 1e-12);
    }

    #[test]
    fn fine_levels_come_close_to_any_share() {
        let both = speeds(&[(5.0, 7.0), (11.0, 3.0), (4.0, 9.0)]);
        let grid: Vec<Level> = (0..=1000).map(|i| Level::linear(f64::from(i) / 1000.0)).collect();
        let levels = best_of(&both, &[Some(&grid), Some(&grid), Some(&grid)]);
        let best = period_ns(&both, &best_of(&both, &[None, None, None]));
        let of_levels = period_ns(&both, &levels);
        assert!(best <= of_levels + 1e-12 && of_levels < best * 1.002);
        // Any share of one, a grid for the others: in between.
        let mixed = period_ns(&both, &best_of(&both, &[Some(&grid), None, Some(&grid)]));
        assert!(best <= mixed + 1e-12 && mixed <= of_levels + 1e-12);
    }

    #[test]
    fn a_resource_without_levels_makes_up_for_one_with() {
        // Rates 1.5 with any share and 1 at a half: f = 1 / (1.5 β + 0.5) and b = 1 / (1.5 (1 - β) + 0.5) are 0.8 at β = 1/2.
        let both = speeds(&[(1.0 / 1.5, 1.0 / 1.5), (1.0, 1.0)]);
        let halves: Vec<Level> = [0.0, 0.5, 1.0].map(Level::linear).into();
        let chosen = best_of(&both, &[None, Some(&halves)]);
        assert!((period_ns(&both, &chosen) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn an_idle_phase_leaves_the_other_the_fastest_level() {
        let both = speeds(&[(1.0, 1.0), (1.0, 1.0)]);
        // Measured: three quarters of the resource are faster than all of it.
        let mut levels: Vec<Level> = [0.0, 0.25, 0.75, 1.0].map(Level::linear).into();
        levels[2].forward = 1.2;
        let forward_alone = best(&both, &[Some(&levels), None], [false, true]);
        assert_eq!(forward_alone, [levels[2], Level::linear(1.0)]);
        let backward_alone = best(&both, &[Some(&levels), None], [true, false]);
        assert_eq!(backward_alone, linear(&[0.0, 0.0]));
    }

    #[test]
    fn the_smaller_of_two_equally_near_levels_is_taken() {
        let thirds: Vec<Level> = (0..=3).map(|part| Level::linear(f64::from(part) / 3.0)).collect();
        assert_eq!(nearest(&thirds, 0.5), Some(thirds[1]));
        assert_eq!(nearest(&thirds, 0.5 + 1e-6), Some(thirds[2]));
        assert_eq!(nearest(&[], 0.5), None);
    }
}
