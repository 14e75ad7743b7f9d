//! One share a resource type, the same in all stages: `--shares global`.
//!
//! Ours. With one type, the best share in closed form, see [`shares::global`]; that share for all types is also where the
//! search for several begins. It takes two types at a time, and for each share of the one searches that of the other, by
//! golden section (J. Kiefer, *Sequential minimax search for a maximum*, Proc. AMS 4, 1953). The period is one over a
//! concave function of the shares, and so is its minimum over one of them: either search ends at the minimum, and two
//! types are solved to rounding. With three or more, or with levels, this is a heuristic: it tries every level, and where
//! other devices take any share of the same type, the shares between the points at which the nearest level changes.

use std::ops::ControlFlow;

use super::MustStop;
use crate::model::options::{Shares, WorkerMode};
use crate::problem::Problem;
use crate::problem::cost::allocation::{Allocation, StageWork};
use crate::problem::shares::{self, Level};
use crate::problem::workers::Workers;

/// Rounds over all types after which the search ends even if it could go on.
const MOST_ROUNDS: usize = 8;

/// Golden sections of a line: the last is shorter than a billionth of the first.
const SECTIONS: usize = 44;

/// The allocation with its global shares where the problem asks for them; as it was otherwise, or where some worker cannot
/// run its stage. When it must stop, the shares so far.
pub fn fill(
    problem: &Problem,
    workers: &Workers,
    allocation: Allocation,
    must_stop: MustStop<'_>,
) -> Allocation {
    let settings = &problem.settings;
    if settings.shares != Shares::Global || settings.worker != WorkerMode::Concurrent {
        return allocation;
    }
    let works = workers.works(problem, &allocation.assignment, allocation.choices.len());
    let search = ShareSearch {
        problem,
        workers,
        allocation: &allocation,
        works,
        must_stop,
    };
    let global = search.best_shares();
    Allocation { global, ..allocation }
}

struct ShareSearch<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    allocation: &'a Allocation,
    works: Vec<StageWork>,
    must_stop: MustStop<'a>,
}

/// The best shares so far.
struct Incumbent {
    global: Vec<f64>,
    period_ns: u64,
}

impl ShareSearch<'_> {
    /// The best shares that rounds over the types of resources lead to, from those for half of everything.
    fn best_shares(&self) -> Vec<f64> {
        let names = self.workers.resource_names.len();
        // On half of everything: both phases take twice as long as on all of it, where speed is the share.
        let [forward_ns, backward_ns] = self.longest_ns(&vec![0.5; names]);
        let global = vec![shares::global(forward_ns, backward_ns); names];
        let mut best = Incumbent {
            period_ns: self.period_ns(&global),
            global,
        };
        for _ in 0..MOST_ROUNDS {
            let before_ns = best.period_ns;
            if self.round(&mut best).is_break() || best.period_ns == before_ns {
                break;
            }
        }
        best.global
    }

    /// One round over all types, and then over all pairs of types; breaks when it must stop.
    fn round(&self, best: &mut Incumbent) -> ControlFlow<()> {
        let names = self.workers.resource_names.len();
        for name in 0..names {
            self.try_resource(name, best)?;
        }
        for first in 0..names {
            for second in first + 1..names {
                self.look_at_clock()?;
                let tried = self.pair(&best.global, first, second);
                self.keep_better(tried, best);
            }
        }
        ControlFlow::Continue(())
    }

    /// Tries every level of a type of resource, and the shares between those points at which the nearest level changes.
    fn try_resource(&self, name: usize, best: &mut Incumbent) -> ControlFlow<()> {
        for share in self.levels(name) {
            self.look_at_clock()?;
            let mut tried = best.global.clone();
            tried[name] = share;
            self.keep_better(tried, best);
        }
        for between in self.steps(name).windows(2) {
            let tried = self.line(&best.global, name, [between[0], between[1]]);
            self.keep_better(tried, best);
        }
        ControlFlow::Continue(())
    }

    fn look_at_clock(&self) -> ControlFlow<()> {
        match (self.must_stop)() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn keep_better(&self, tried: Vec<f64>, best: &mut Incumbent) {
        let tried_ns = self.period_ns(&tried);
        if tried_ns < best.period_ns {
            *best = Incumbent {
                global: tried,
                period_ns: tried_ns,
            };
        }
    }

    /// The longest time of each phase over all stages, in ns.
    fn longest_ns(&self, global: &[f64]) -> [f64; 2] {
        let mut longest = [0, 0];
        for (&choice, work) in self.allocation.choices.iter().zip(&self.works) {
            let choice = &self.workers.choices[choice];
            if let Some(load) = self.workers.load(self.problem, choice, work, global) {
                longest[0] = longest[0].max(load.cost.forward.work_ns);
                longest[1] = longest[1].max(load.cost.backward.work_ns);
            }
        }
        longest.map(|ns| ns as f64)
    }

    fn period_ns(&self, global: &[f64]) -> u64 {
        let stages = self.allocation.choices.iter().zip(&self.works);
        let cost = |(&choice, work): (&usize, &StageWork)| {
            let choice = &self.workers.choices[choice];
            let load = self.workers.load(self.problem, choice, work, global);
            load.map_or(u64::MAX, |load| load.bottleneck_ns)
        };
        stages.map(cost).max().unwrap_or(0)
    }

    /// The levels of all resources of this name.
    fn allowed(&self, name: usize) -> Vec<&Option<Vec<Level>>> {
        let classes = self.workers.classes.iter().enumerate();
        let all = classes.flat_map(|(class, of)| {
            let levels = of.levels.iter().enumerate();
            levels.map(move |(resource, levels)| (class, resource, levels))
        });
        all.filter(|&(class, resource, _)| self.workers.name_of(class, resource) == name)
            .map(|(_, _, levels)| levels)
            .collect()
    }

    /// Shares that some resource of this name allows, where not all are.
    fn levels(&self, name: usize) -> Vec<f64> {
        let levels = self.allowed(name).into_iter().flatten().flatten();
        sorted(levels.map(|level| level.share).collect())
    }

    /// Where some resource of this name has levels and another has none, the ends and the shares at which the nearest level
    /// changes.
    fn steps(&self, name: usize) -> Vec<f64> {
        let allowed = self.allowed(name);
        if !allowed.iter().any(|levels| levels.is_none()) || !allowed.iter().any(|levels| levels.is_some()) {
            return Vec::new();
        }
        let pairs = allowed.into_iter().flatten().flat_map(|levels| levels.windows(2));
        let middle = |pair: &[Level]| f64::midpoint(pair[0].share, pair[1].share);
        sorted(pairs.map(middle).chain([0.0, 1.0]).collect())
    }

    /// The least period over a part of the shares of one type.
    fn line(&self, global: &[f64], name: usize, between: [f64; 2]) -> Vec<f64> {
        let at = |share: f64| {
            let mut global = global.to_vec();
            global[name] = share;
            global
        };
        at(golden_section(between, |share| self.period_ns(&at(share))).0)
    }

    /// The least period over the shares of two types.
    fn pair(&self, global: &[f64], first: usize, second: usize) -> Vec<f64> {
        let at = |share: f64, other: f64| {
            let mut global = global.to_vec();
            (global[first], global[second]) = (share, other);
            global
        };
        let inner = |share: f64| golden_section([0.0, 1.0], |other| self.period_ns(&at(share, other)));
        let (share, _) = golden_section([0.0, 1.0], |share| inner(share).1);
        at(share, inner(share).0)
    }
}

fn sorted(mut shares: Vec<f64>) -> Vec<f64> {
    shares.sort_unstable_by(f64::total_cmp);
    shares.dedup();
    shares
}

/// Where a function of a share between two is least, and the least value, if it falls up to there and rises from there on.
fn golden_section([first, last]: [f64; 2], value: impl Fn(f64) -> u64) -> (f64, u64) {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (first, last);
    let (mut left, mut right) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..SECTIONS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - ratio * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + ratio * (high - low);
            at_right = value(right);
        }
    }
    // The ends are reached only in the limit.
    let candidates = [(left, at_left), (first, value(first)), (last, value(last))];
    let least = candidates.into_iter().min_by_key(|&(_, value)| value);
    least.unwrap_or((left, at_left))
}
