//! A good plan of a line of unlike devices in limited work: narrow searches alone, without a proof.
//!
//! Limits are found by bisection at one width, then close below the best plan at the next. Prices are rougher than those of a proof: a
//! narrow search is led as well by them, and there are many periods to price. The best plan is then improved in
//! `neighbourhoods`.

use crate::search::device_levels::line::Line;
use crate::search::device_levels::neighbourhoods;
use crate::search::device_levels::search::{LAST_WIDTH, LevelSearch, Outcome};

/// Width of the first searches, and the factor between two widths. On every third file of ALWABP tonge, with as much work, a first width of 10 is
/// on average 1.6 % above the best known, 20 with a factor of 3 is 1.0 %, with a factor of 2 1.4 %.
const FIRST_WIDTH: usize = 20;
const WIDER: usize = 3;
/// Up to this width both directions are searched, from then on the one that took less work.
const WIDTH_BOTH_WAYS: usize = 30;
/// Subgradient steps for the prices of a period: with 40 plans are 0.5 % longer, since that takes a share of the work.
const STEPS: usize = 20;
/// The next width looks for plans that are shorter by this part at most; a first plan is looked for this part above the bound.
const REACH: u64 = 16;
/// The share of the work that narrow searches have; neighbourhoods have the rest. Of 7 million nodes on all files of ALWABP tonge: with 3 million plans are
/// on average 0.4 % above the best known and at most 3.3 %; of 4 million, with 3 million 0.7 and 6.2 %, with 2 million 1.4 % (a third of the files).
const SHARE: [u64; 2] = [3, 7];

/// Finds a good plan of at most `stations` stations in about `budget` search nodes; a proof where it comes on the way.
///
/// `must_stop`, asked every few milliseconds, ends it from outside.
pub fn narrow(line: &Line, stations: usize, budget: u64, must_stop: &dyn Fn() -> bool) -> Outcome {
    let [part, whole] = SHARE;
    let mut search = LevelSearch::new(line, stations, None, budget / whole * part, must_stop);
    search.steps = STEPS;
    if search.begin() {
        let mut width = FIRST_WIDTH;
        while !search.is_over() && width <= LAST_WIDTH {
            search.bisect(width);
            width *= WIDER;
        }
    }
    let mut outcome = search.outcome;
    if !outcome.proved() {
        let left = budget.saturating_sub(outcome.work);
        neighbourhoods::improve(line, &mut outcome, left, must_stop);
    }
    outcome
}

impl LevelSearch<'_> {
    /// Searches the middle between the best plan and periods that led to none at this width; before there is a plan, ever larger
    /// periods.
    fn bisect(&mut self, width: usize) {
        let mut from = self.outcome.lower;
        if let Some(upper) = self.outcome.upper {
            from = from.max(upper.saturating_sub((upper / REACH).max(1)));
        }
        let mut step = (from.saturating_sub(1) / REACH).max(1);
        while !self.is_over() {
            from = from.max(self.outcome.lower);
            let period = match self.outcome.upper {
                Some(upper) if upper <= from => return,
                Some(upper) => from + (upper - from - 1) / 2,
                None if from > self.longest() => return,
                None => (from + step - 1).min(self.longest()),
            };
            step *= 2;
            let ways = if width <= WIDTH_BOTH_WAYS { 2 } else { 1 };
            if !self.decide(period, width, ways) {
                from = period + 1;
            }
        }
    }
}
