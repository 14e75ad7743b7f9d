//! Whole items: branch and cut over the program of critical paths (M. Padberg and G. Rinaldi, *A branch-and-cut algorithm for the resolution of large-scale
//! symmetric traveling salesman problems*, SIAM Review 33(1), 1991).
//!
//! First it is decided which chunks a row of items begins and ends in, then how many items of a kind devices hold, then each of their chunks: what makes a plan slow
//! is the device with an item too many, and there are few of them. A path that is found anywhere holds everywhere, and all that are known narrow a part before it is solved.

use std::collections::BTreeMap;

use super::paths::PathSearch;
use super::ranges::Narrowed;
use super::totals::Totals;
use crate::exact::bounds::integral_bound;
use crate::exact::incumbent::Incumbent;
use crate::formulations::critical_paths::{Limits, PathProgram};
use crate::formulations::solver::{GrowingProgram, SolverError, Stop};
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;

/// How often paths are looked for in a part, as long as its bound rises by such a part of itself.
const MOST_ROUNDS: usize = 12;
const RISE: f64 = 1e-3;
/// How much longer than the bound a path is that is worth it.
const LONGER: f64 = 1e-5;
/// How often HiGHS may lose its way.
const MOST_LOST: u32 = 10;
/// Whole solutions of which all others are looked at: each leaves two parts a column.
const MOST_SETTLED: usize = 64;
/// Parts that are kept.
const MOST_PARTS: usize = 1 << 20;

/// What is known of a part.
enum Known {
    /// It has no plan of interest.
    Nothing,
    /// A limit came.
    TooLittle,
    /// No plan takes less, in ns; where its solution is not whole, the parts of it that hold all whole ones.
    Least(u64, Vec<Limits>),
}

/// The parts of a problem that may hold plans of interest.
pub(super) struct Tree {
    pub(super) built: PathProgram,
    pub(super) program: GrowingProgram,
    /// What is known of all parts.
    pub(super) totals: Totals,
    /// How many paths the program has.
    sent: usize,
    /// By bound, and of equals the newest first.
    open: BTreeMap<(u64, u64), Limits>,
    /// How many parts there were, downwards.
    next: u64,
    /// The limits that the program has.
    set: Limits,
    /// What narrows parts for plans that take so long at most, in ns.
    narrowed: Option<(u64, Narrowed)>,
    /// The least bound of parts whose solutions are whole, in ns.
    whole_ns: u64,
    /// How many whole solutions were left behind.
    settled: usize,
    /// How often HiGHS lost its way.
    lost: u32,
}

impl Tree {
    /// All of a program as one part.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS refuses the program.
    pub(super) fn new(search: &PathSearch, built: PathProgram) -> Result<Self, SolverError> {
        Ok(Self {
            program: GrowingProgram::new(built.program.clone())?,
            sent: search.paths(),
            built,
            totals: Totals::default(),
            open: BTreeMap::from([((0, u64::MAX), Limits::new())]),
            next: u64::MAX,
            set: Limits::new(),
            narrowed: None,
            whole_ns: u64::MAX,
            settled: 0,
            lost: 0,
        })
    }

    /// Looks at parts, until none may hold a plan of interest or a limit comes.
    ///
    /// * `beat_ns`: plans that take longer are of no interest.
    pub(super) fn run(
        &mut self,
        search: &mut PathSearch,
        incumbent: &mut Incumbent,
        (beat_ns, all): (u64, &Control),
    ) {
        while self.open.len() < MOST_PARTS {
            let target_ns = beat_ns.min(incumbent.target_ns());
            let first = self.open.first_key_value();
            let least_ns = first.map_or(u64::MAX, |(&(ns, _), _)| ns);
            let proved_ns = least_ns.min(self.whole_ns);
            if proved_ns > target_ns {
                incumbent.rule_out(BoundSource::Program, target_ns);
                return;
            }
            incumbent.raise(BoundSource::Program, proved_ns.min(incumbent.unproved_ns()));
            // Below what is whole nothing is left.
            if self.whole_ns <= least_ns || incumbent.is_over() || all.must_stop().is_some() {
                return;
            }
            let may_be_left = match incumbent.control.switches.count_totals {
                true => self.ask_totals(search, incumbent, (target_ns, all)),
                false => Ok(true),
            };
            match may_be_left {
                Ok(true) if all.must_stop().is_some() => return,
                Ok(true) => {}
                Ok(false) => {
                    incumbent.rule_out(BoundSource::Program, target_ns);
                    return;
                }
                Err(_) if self.begins_again(search) => continue,
                Err(_) => return,
            }
            let Some((key, limits)) = self.open.pop_first() else {
                return;
            };
            let Some(limits) = self.within_totals(limits) else {
                continue;
            };
            match self.look_at(search, incumbent, (&limits, target_ns, all)) {
                Ok(Known::Nothing) => {}
                Ok(Known::Least(ns, parts)) => {
                    let ns = ns.max(key.0);
                    if parts.is_empty() {
                        self.whole_ns = self.whole_ns.min(ns);
                    }
                    for part in parts {
                        self.next -= 1;
                        self.open.insert((ns, self.next), part);
                    }
                }
                Ok(Known::TooLittle) => {
                    self.open.insert(key, limits);
                    return;
                }
                Err(_) => {
                    self.open.insert(key, limits);
                    if !self.begins_again(search) {
                        return;
                    }
                    continue;
                }
            }
            incumbent.statistics.nodes += 1;
        }
    }

    /// Limits of a part, and those that all plans of interest keep to; `None` where nothing is left.
    fn within_totals(&self, mut limits: Limits) -> Option<Limits> {
        for (&at, &[least, most]) in &self.totals.limits {
            let own = limits.entry(at).or_insert([least, most]);
            *own = [own[0].max(least), own[1].min(most)];
            if own[0] > own[1] {
                return None;
            }
        }
        Some(limits)
    }

    /// The limits of a part as narrow as ranges make them, where these are asked; `None` where nothing is left.
    fn narrow(
        &mut self,
        search: &PathSearch,
        (part, target_ns): (&Limits, u64),
        has_ranges: bool,
    ) -> Option<Limits> {
        if !has_ranges || search.asked.kinds.iter().any(|kind| !kind.is_whole) {
            return Some(part.clone());
        }
        if self.narrowed.as_ref().is_none_or(|(ns, _)| *ns != target_ns) {
            self.narrowed = Some((target_ns, Narrowed::new(search, target_ns)?));
        }
        self.narrowed.as_mut()?.1.within(search, part)
    }

    /// Narrows a part and solves what is left of it with the paths that are missing there.
    fn look_at(
        &mut self,
        search: &mut PathSearch,
        incumbent: &mut Incumbent,
        (part, target_ns, all): (&Limits, u64, &Control),
    ) -> Result<Known, SolverError> {
        let has_ranges = incumbent.control.switches.count_ranges;
        let Some(narrow) = self.narrow(search, (part, target_ns), has_ranges) else {
            return Ok(Known::Nothing);
        };
        self.set_limits(&narrow);
        let scale_ns = self.built.program.scale_ns;
        let (mut round, mut before_ns) = (0, 0);
        loop {
            self.send(search);
            let solved = self.program.solve(all)?;
            if solved.stop == Stop::Infeasible {
                return Ok(Known::Nothing);
            }
            let Some(values) = solved.values.as_ref().filter(|_| solved.stop == Stop::Optimal) else {
                return Ok(Known::TooLittle);
            };
            let ns = integral_bound(solved.bound, scale_ns);
            if ns > target_ns {
                return Ok(Known::Nothing);
            }
            let counts = self.built.counts(values);
            let parts = self.built.parts(values, part);
            if parts.is_empty() {
                search.offer(incumbent, &counts);
                if self.is_settled(search.only_ns(incumbent, &counts), incumbent) {
                    return Ok(Known::Least(ns, self.built.others(values, part)));
                }
            }
            // What is whole is to be known to the ns.
            let longer = if parts.is_empty() { 0.0 } else { LONGER };
            let is_new = search.take_missing(&counts, solved.bound * scale_ns * (1.0 + longer));
            let has_risen = ns as f64 > before_ns as f64 * (1.0 + RISE);
            let is_worth_it = parts.is_empty() || (round < MOST_ROUNDS && has_risen);
            if !is_new || !is_worth_it {
                return Ok(Known::Least(ns, parts));
            }
            (round, before_ns) = (round + 1, ns);
        }
    }

    /// Whether the one plan of a whole solution is known to take too long, to the ns: then all others of its part are left, some of which the program may not tell from it.
    fn is_settled(&mut self, only_ns: Option<u64>, incumbent: &Incumbent) -> bool {
        let is_too_long = only_ns.is_some_and(|ns| ns > incumbent.target_ns());
        let is_settled = is_too_long && self.settled < MOST_SETTLED;
        self.settled += usize::from(is_settled);
        is_settled
    }

    /// Where HiGHS lost its way among the rows: from the start again, unless that was so too often.
    fn begins_again(&mut self, search: &PathSearch) -> bool {
        self.lost += 1;
        self.lost <= MOST_LOST && self.begin_again(search).is_ok()
    }

    /// Hands all rows that are known to HiGHS anew.
    fn begin_again(&mut self, search: &PathSearch) -> Result<(), SolverError> {
        self.built = search.program();
        self.program = GrowingProgram::new(self.built.program.clone())?;
        (self.sent, self.set) = (search.paths(), Limits::new());
        Ok(())
    }

    /// Hands over the paths that are new.
    pub(super) fn send(&mut self, search: &PathSearch) {
        for cut in search.cuts(&self.built, self.sent) {
            self.program.add(&cut);
        }
        self.sent = search.paths();
    }

    pub(super) fn set_limits(&mut self, limits: &Limits) {
        let gone = self.set.keys().filter(|at| !limits.contains_key(at));
        for &at in gone {
            self.program
                .limit(self.built.whole(at), [0.0, self.built.most(at)]);
        }
        for (&at, &own) in limits.iter().filter(|(at, own)| self.set.get(at) != Some(own)) {
            self.program.limit(self.built.whole(at), own);
        }
        self.set.clone_from(limits);
    }
}
