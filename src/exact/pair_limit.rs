//! A limit for every stage of a search over pairs of ideals, and what follows from it.

use super::boundaries::{self, Limits};
use super::control::Control;
use super::cross::Cross;
use super::fronts::{self, Front};
use super::part::{Ideal, Members, Part, is_subset, meets};
use super::reach::Reach;
use super::windows;
use crate::options::Communication;
use crate::problem::Problem;

/// The same limit for every stage, and what follows from it.
pub struct Limit {
    /// The limit.
    pub ns: u64,
    /// For each part and ideal, the stages that can lie before the boundary behind it: at least and at most.
    before: [Vec<(usize, usize)>; 2],
    /// The pairs that can lie before each boundary, where they are known.
    fronts: Vec<Option<Front>>,
}

impl Limit {
    /// What follows from a limit; `None` if no plan keeps it.
    pub fn new(
        problem: &Problem,
        parts: &[Part; 2],
        cross: &Cross,
        reach: &Reach,
        control: &Control,
        limit_ns: u64,
    ) -> Option<Self> {
        let mut windows = windows::within(problem, reach, limit_ns);
        if windows.some_is_empty() {
            return None;
        }
        let reductions = &control.reductions;
        let must_stop = || control.must_stop().is_some();
        let mut fronts = Vec::new();
        if reductions.fronts && problem.settings.communication == Communication::Blocking {
            fronts = fronts::fronts(problem, parts, cross, limit_ns, &windows, &must_stop)?;
        } else if reductions.boundaries {
            let limits = Limits {
                bottleneck_ns: limit_ns,
                least_bottleneck_ns: 0,
                objective_ns: limit_ns,
            };
            // As much work on windows as there are pairs to look at without them.
            let [first, second] = [0, 1].map(|p: usize| parts[p].ideals.len());
            let most_steps = first.saturating_mul(second).min(boundaries::MOST_STEPS);
            if !boundaries::narrow(problem, reach, limits, &mut windows, most_steps, &must_stop) {
                return None;
            }
        }
        let stages = problem.stages();
        let before = |part: &Part| {
            // Items that need so many stages before the boundary behind them, and items that bear no more in front.
            let need: Vec<Box<[u64]>> = (0..=stages)
                .map(|k| part.set(|item| windows.earliest[item] >= k))
                .collect();
            let bear: Vec<Box<[u64]>> = (0..=stages)
                .map(|k| part.set(|item| windows.latest[item] < k))
                .collect();
            let of = |members: &Members| {
                let least = (0..=stages)
                    .find(|&k| !meets(&need[k], &members.bits))
                    .unwrap_or(stages);
                let most = (0..=stages).rev().find(|&k| is_subset(&bear[k], &members.bits));
                (least, most.unwrap_or(0))
            };
            part.ideals.iter().map(of).collect()
        };
        Some(Self {
            ns: limit_ns,
            fronts,
            before: [before(&parts[0]), before(&parts[1])],
        })
    }

    /// Whether an ideal can lie before a boundary with so many stages in front.
    pub fn may_lie(&self, p: usize, ideal: Ideal, stages: usize) -> bool {
        let (least, most) = self.before[p][ideal as usize];
        let front = self.front(stages);
        (least..=most).contains(&stages) && front.is_none_or(|front| front.ideals[p].contains(ideal as usize))
    }

    /// The pairs that can lie before a boundary with so many stages in front, if they are known.
    pub fn front(&self, stages: usize) -> Option<&Front> {
        self.fronts.get(stages.wrapping_sub(1))?.as_ref()
    }

    /// Whether some are known.
    pub fn has_fronts(&self) -> bool {
        !self.fronts.is_empty()
    }
}
