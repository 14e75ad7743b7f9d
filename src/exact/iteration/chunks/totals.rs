//! How many items that take as long as those of a kind devices hold, asked device by device: `formulations/critical_paths.md`, section Totals.

use std::collections::BTreeMap;
use std::ops::Range;

use super::branch::Tree;
use super::paths::PathSearch;
use crate::exact::bounds::integral_bound;
use crate::exact::incumbent::Incumbent;
use crate::formulations::critical_paths::{Asked, Limits};
use crate::formulations::solver::{SolverError, Stop};
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;

/// How often paths are looked for, and how often in a row without a bound that rises by such a part of itself.
const MOST_ROUNDS: usize = 60;
const ROUNDS_IN_VAIN: usize = 2;
const RISE: f64 = 3e-4;
/// How much longer than the bound a path is that is worth it.
const LONGER: f64 = 1e-5;
/// More than a solver's tolerance.
const WHOLE: f64 = 1e-5;

/// A pass begins again where plans of interest take less by such a part than those of the last one that narrowed nothing.
const LESS: u64 = 1_000;

/// What is known of how many items of a kind each device holds.
#[derive(Default)]
pub(super) struct Totals {
    /// Limits that all plans of interest keep to.
    pub limits: Limits,
    /// What no plan of interest takes less than in which a device holds so many items, in ns, by total and number.
    least_ns: BTreeMap<(usize, u64), u64>,
    /// What is being asked.
    pass: Option<Pass>,
    /// Plans that take less than this, in ns, are to be asked for again.
    done_ns: Option<u64>,
}

/// Totals that are still asked for, each with a number of items, and whether anything was narrowed.
struct Pass {
    waiting: Vec<(usize, u64)>,
    has_narrowed: bool,
}

/// What a program says of some limits.
enum Least {
    /// There is no plan of interest.
    Nothing,
    /// No plan takes less, in ns, than the solution of such values.
    Ns(u64, Vec<f64>),
    /// A limit came first.
    TooLittle,
}

impl Tree {
    /// Asks for one item more than a solution in parts has, device by device, until nothing is narrowed; whether some plan of interest may be left.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn ask_totals(
        &mut self,
        search: &mut PathSearch,
        incumbent: &mut Incumbent,
        (target_ns, all): (u64, &Control),
    ) -> Result<bool, SolverError> {
        while self.totals.done_ns.is_none_or(|done_ns| target_ns < done_ns) {
            let mut pass = match self.totals.pass.take() {
                Some(pass) => pass,
                None => match self.least(search, &self.totals.limits.clone(), (target_ns, all))? {
                    Least::Nothing => return Ok(false),
                    Least::TooLittle => return Ok(true),
                    Least::Ns(ns, values) => {
                        incumbent.raise(BoundSource::Program, ns.min(incumbent.unproved_ns()));
                        Pass {
                            waiting: self.one_more(&search.asked, &values),
                            has_narrowed: false,
                        }
                    }
                },
            };
            while let Some(&(at, more)) = pass.waiting.last() {
                let limits = self.with_more((at, more));
                let least_ns = match self.least(search, &limits, (target_ns, all))? {
                    Least::Nothing => u64::MAX,
                    Least::Ns(ns, _) => ns,
                    Least::TooLittle => {
                        self.totals.pass = Some(pass);
                        return Ok(true);
                    }
                };
                pass.waiting.pop();
                pass.has_narrowed |= self.totals.learn((at, more), least_ns);
            }
            let ns = self.least_of_all(&search.asked);
            if ns > target_ns {
                return Ok(false);
            }
            incumbent.raise(BoundSource::Program, ns.min(incumbent.unproved_ns()));
            self.totals.done_ns = (!pass.has_narrowed).then_some(target_ns - target_ns / LESS);
        }
        Ok(true)
    }

    /// The limits of all plans of interest in which a device holds so many items.
    fn with_more(&self, (at, more): (usize, u64)) -> Limits {
        let mut limits = self.totals.limits.clone();
        limits.insert(at, [more as f64, self.most_of(at)]);
        limits
    }

    /// The most items that a device holds in plans of interest.
    fn most_of(&self, at: usize) -> f64 {
        let limits = self.totals.limits.get(&at);
        limits.map_or(self.built.most(at), |&[_, most]| most)
    }

    /// Totals of which devices hold one or more on the average, and a whole number of items that is more than a solution has.
    fn one_more(&self, asked: &Asked, values: &[f64]) -> Vec<(usize, u64)> {
        let devices = asked.chunks_of.len();
        let many = (0..asked.kinds.len()).filter(|&k| asked.is_many(k));
        let of_kind = many.flat_map(|k| k * devices..(k + 1) * devices);
        of_kind
            .map(|at| (at, (self.built.whole(at).value(values) + WHOLE) as u64 + 1))
            .filter(|&(at, more)| more as f64 <= self.most_of(at))
            .collect()
    }

    /// No plan within the limits takes less, in ns, than what devices need to hold all items that take as long as those of a kind.
    fn least_of_all(&self, asked: &Asked) -> u64 {
        let devices = asked.chunks_of.len();
        let whole = (0..asked.kinds.len()).filter(|&k| asked.kinds[k].is_whole);
        let of_kind = |k: usize| {
            let own = k * devices..(k + 1) * devices;
            let among = asked.as_long_as(k);
            let count = asked.count_of(&among) as f64;
            // What a device holds in plans that take less than a time.
            let most = |at: usize, ns: u64| {
                let by_time = asked.most_on(at - own.start, &among, ns as f64);
                by_time
                    .min(self.built.most(at))
                    .min(self.totals.most_within(at, ns - 1))
            };
            let times = self.totals.of(own.clone()).map(|(_, ns)| ns);
            let leaves_some = |&ns: &u64| own.clone().map(|at| most(at, ns)).sum::<f64>() < count;
            times.filter(leaves_some).max().unwrap_or(0)
        };
        whole.map(of_kind).max().unwrap_or(0)
    }

    /// What plans within limits take at least, as far as paths that are missing say.
    fn least(
        &mut self,
        search: &mut PathSearch,
        limits: &Limits,
        (target_ns, all): (u64, &Control),
    ) -> Result<Least, SolverError> {
        let scale_ns = self.built.program.scale_ns;
        self.set_limits(limits);
        let (mut inside, mut before_ns, mut in_vain) = (None, 0, 0);
        for round in 1.. {
            self.send(search);
            let solved = self.program.solve(all)?;
            let ns = integral_bound(solved.bound, scale_ns);
            if solved.stop == Stop::Infeasible || (solved.stop == Stop::Optimal && ns > target_ns) {
                return Ok(Least::Nothing);
            }
            let Some(values) = solved.values.filter(|_| solved.stop == Stop::Optimal) else {
                break;
            };
            in_vain = match ns as f64 > before_ns as f64 * (1.0 + RISE) {
                true => 0,
                false => in_vain + 1,
            };
            before_ns = ns;
            let counts = self.built.counts(&values);
            let is_new = search.separate(&counts, &mut inside, ns as f64 * (1.0 + LONGER));
            if !is_new || round == MOST_ROUNDS || in_vain == ROUNDS_IN_VAIN {
                return Ok(Least::Ns(ns, values));
            }
        }
        Ok(Least::TooLittle)
    }
}

impl Totals {
    /// Numbers of items that some devices were asked for, and the times that these take at least.
    fn of(&self, totals: Range<usize>) -> impl Iterator<Item = (u64, u64)> {
        let own = self.least_ns.range((totals.start, 0)..(totals.end, 0));
        own.map(|(&(_, more), &ns)| (more, ns))
    }

    /// The most items of a total in plans of interest that take so long at most, in ns.
    pub(super) fn most_within(&self, at: usize, ns: u64) -> f64 {
        let limit = self.limits.get(&at).map_or(f64::INFINITY, |&[_, most]| most);
        let too_many = self.of(at..at + 1).filter(|&(_, least_ns)| ns < least_ns);
        too_many.fold(limit, |most, (more, _)| most.min((more - 1) as f64))
    }

    /// Takes what a plan in which a device holds so many items takes at least, in ns, `u64::MAX` where none is of interest; whether that narrows anything.
    fn learn(&mut self, (at, more): (usize, u64), least_ns: u64) -> bool {
        let known = self.least_ns.entry((at, more)).or_insert(0);
        *known = (*known).max(least_ns);
        let is_one_too_many = least_ns == u64::MAX;
        if is_one_too_many {
            self.limits.insert(at, [0.0, (more - 1) as f64]);
        }
        is_one_too_many
    }
}
