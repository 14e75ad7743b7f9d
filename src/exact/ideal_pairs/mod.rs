//! Dynamic program over pairs of ideals, for problems in two parts without order between them.
#![doc = include_str!("../../../formulations/ideal_pairs.md")]

mod batch;
pub mod coarse;
pub(crate) mod dominance;
mod layer;
pub(crate) mod limit;
pub(crate) mod listing;
pub(crate) mod mates;
pub(crate) mod part;
pub(crate) mod parts;
pub(crate) mod reached;
pub(crate) mod set;
pub(crate) mod stages;

use std::mem;
use std::ops::Range;

use crate::control::Control;
use crate::exact::cut_states::Corridor;
use crate::exact::ideal_pairs::limit::Limit;
use crate::exact::ideal_pairs::part::{Ideal, Towards};
pub use crate::exact::ideal_pairs::parts::Caps;
use crate::exact::ideal_pairs::reached::{Reached, State};
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::stages::Stages;
use crate::exact::ideals::Pass;
use crate::exact::windows::reach::Reach;
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// Beyond so many pairs plans near another are found faster than others.
const LARGE: usize = 10_000_000;

/// Pairs of a layer that dives keep, one dive after the other.
const WIDTHS: [usize; 3] = [8, 64, 512];

/// Steps of a layer that is taken whatever others cost: a millisecond.
const CHEAP: u64 = 1_000_000;

/// Where dominated pairs cannot be told, the pairs that a dive takes from each pair of the last layer.
const CHILDREN: usize = 8;

/// Where they can, how many times as much as the average one a stage of a dive may leave of its limit.
const IDLE: u64 = 4;

/// Looks for plans within limits over pairs of ideals.
pub struct PairSearch<'a> {
    control: &'a Control<'a>,
    reach: Reach,
    stages: Stages<'a>,
    /// The tightest limit that some plan may keep.
    looser: Option<Limit>,
    /// Pairs of ideals met in all passes.
    pub ideals: usize,
}

impl<'a> PairSearch<'a> {
    /// Prepares a search for limits up to `most_ns`; `None` for a problem in one part, or with too many ideals.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_ns: u64) -> Option<Self> {
        Self::capped(
            problem,
            control,
            Caps::new(problem.settings.communication),
            most_ns,
        )
    }

    /// The same with other numbers of ideals.
    pub fn capped(problem: &'a Problem, control: &'a Control<'a>, caps: Caps, most_ns: u64) -> Option<Self> {
        Some(Self {
            control,
            reach: Reach::new(problem),
            stages: Stages::new(problem, control, caps, most_ns)?,
            looser: None,
            ideals: 0,
        })
    }

    /// Pairs of slices passed over in all passes; one that may fit counts for more.
    pub fn steps(&self) -> u64 {
        self.stages.steps
    }

    /// Limits may be so large at most: less than was asked for where ideals are listed for those alone.
    pub fn most_ns(&self) -> u64 {
        self.stages.most_ns
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one. It gives up after so many steps.
    pub fn pass(&mut self, limit_ns: u64, most_steps: u64) -> Pass {
        let limit = Limit::new(
            &self.stages,
            &self.reach,
            self.control,
            limit_ns,
            self.looser.as_ref(),
            None,
        );
        let Some(limit) = limit else {
            return Pass::Exhausted;
        };
        if let Some(stopped_by) = self.control.must_stop() {
            return Pass::Stopped(stopped_by);
        }
        let [mut from_start, mut from_end] = self.ends(&limit);
        let pass = self.search(&limit, &mut from_start, &mut from_end, most_steps);
        if pass != Pass::Exhausted {
            self.looser = Some(limit);
        }
        pass
    }

    /// The same for plans near one, which `Pass::Exhausted` says no more of: where each part's ideal before each boundary is one of so
    /// many that have more and less work than the plan's. Known as the corridor method (M. Sniedovich, S. Voss, *The corridor method:
    /// a dynamic programming inspired metaheuristic*, Control and Cybernetics 2006).
    pub fn near(&mut self, plan: &Assignment, width: usize, limit_ns: u64, most_steps: u64) -> Pass {
        let problem = self.stages.problem;
        let range = |boundary: usize, p: usize| {
            let part = &self.stages.parts[p];
            let before = part.items.iter().filter(|&&item| plan[item] <= boundary);
            let work_ns: u64 = before.map(|&item| problem.items[item].work_ns()).sum();
            let Range { start, end } = part.of_work(work_ns..=work_ns);
            let [from, to] = [start.saturating_sub(width as Ideal), end + width as Ideal];
            part.work_ns(from, 0)..=part.work_ns(to.min(part.everything()), 0)
        };
        let boundaries = 0..problem.stages() - 1;
        let corridor = Corridor {
            work_ns: boundaries
                .map(|boundary| [0, 1].map(|p| range(boundary, p)))
                .collect(),
        };
        let limit = Limit::new(
            &self.stages,
            &self.reach,
            self.control,
            limit_ns,
            None,
            Some(&corridor),
        );
        let Some(limit) = limit else {
            return Pass::Exhausted;
        };
        if let Some(stopped_by) = self.control.must_stop() {
            return Pass::Stopped(stopped_by);
        }
        let [mut from_start, mut from_end] = self.ends(&limit);
        self.search(&limit, &mut from_start, &mut from_end, most_steps)
    }

    /// Whether there are fronts, and so many pairs that plans near another are best looked for first.
    pub fn is_large(&self) -> bool {
        let [first, second] = [0, 1].map(|p: usize| self.stages.parts[p].len());
        self.stages.ground.is_some() && first.saturating_mul(second) > LARGE
    }

    /// Where searches from the start and from the end begin.
    fn ends(&mut self, limit: &Limit) -> [Reached; 2] {
        let everything = [0, 1].map(|p| self.stages.parts[p].everything());
        let mut from_end = self.reached(Towards::Start, everything);
        let mut from_start = self.reached(Towards::End, [0, 0]);
        if self.stages.dominates() {
            let knows_memory = self.stages.knows_memory();
            let cost = self.stages.cost_of_layer(limit, &from_start, u64::MAX);
            let from_start_is_cheaper =
                knows_memory && self.stages.cost_of_layer(limit, &from_end, cost) >= cost;
            from_start.prunes = from_start_is_cheaper;
            from_end.prunes = !from_start_is_cheaper;
        }
        [from_start, from_end]
    }

    /// A pass from either end, whose number of steps is limited.
    fn search(
        &mut self,
        limit: &Limit,
        from_start: &mut Reached,
        from_end: &mut Reached,
        most_steps: u64,
    ) -> Pass {
        self.stages.until = self.steps().saturating_add(most_steps);
        let pass = self.layers(limit, from_start, from_end);
        self.ideals += from_start.states.len() + from_end.states.len();
        if pass != Pass::Stopped(StoppedBy::SizeLimit) {
            return pass;
        }
        let found = match self.stages.dominates() {
            // Dives choose what others dominate differently, and begin anew.
            true => {
                let [from_start, from_end] = self.ends(limit);
                self.dive(limit, &from_start, &from_end, most_steps)
            }
            false => self.dive(limit, from_start, from_end, most_steps),
        };
        found.map_or(pass, Pass::Found)
    }

    /// Goes on with a few pairs of each layer from where a pass begins, or was given up: where very many pairs keep the limit, most
    /// of them lead to a plan.
    fn dive(
        &mut self,
        limit: &Limit,
        from_start: &Reached,
        from_end: &Reached,
        most_steps: u64,
    ) -> Option<Assignment> {
        if !self.control.switches.dives {
            return None;
        }
        self.stages.until = self.steps().saturating_add(most_steps);
        let stages = self.stages.problem.stages();
        let dominates = self.stages.dominates();
        for width in WIDTHS {
            for (own, other) in [(from_start, from_end), (from_end, from_start)] {
                let is_blind = own.towards == Towards::End && !self.stages.knows_memory();
                // From an end where nothing was cheap there is far to go.
                let is_behind = own.stages < other.stages && self.stages.knows_memory();
                if is_blind || is_behind || dominates && !own.prunes {
                    continue;
                }
                let mut own = own.thinned(width, PairSet::new(&self.stages.parts));
                // Only of pairs that are about to be kept is it asked whether others dominate them.
                let prunes = mem::take(&mut own.prunes);
                while own.stages < stages && own.layer < own.states.len() {
                    let mut step = self.stages.step(limit, own.towards, own.stages + 1);
                    step.dives = true;
                    match dominates {
                        true => {
                            // Stages that carry much less than others leave too much to them.
                            let idle_ns = limit.ns.saturating_sub(self.stages.work_ns / stages as u64);
                            step.least_ns = limit.ns.saturating_sub(IDLE * idle_ns);
                        }
                        false => step.children = CHILDREN,
                    }
                    match self.stages.layer(step, &mut own, other) {
                        Ok(None) => {}
                        Ok(Some(met)) => return Some(self.plan(&own, met, other)),
                        Err(_) => return None,
                    }
                    let mut reached = own.states.split_off(own.layer);
                    let rest_ns = |state: &State| self.stages.rest(own.towards, state.at).iter().sum::<u64>();
                    reached.sort_by_cached_key(rest_ns);
                    let is_kept = |state: &State| {
                        let parent = state.parent.map_or(0, |parent| parent as usize);
                        !prunes || !self.stages.is_dominated(&step, own.states[parent].at, state.at)
                    };
                    let kept: Vec<State> = reached.into_iter().filter(is_kept).take(width).collect();
                    own.states.extend(kept);
                }
            }
        }
        None
    }

    fn reached(&self, towards: Towards, at: [Ideal; 2]) -> Reached {
        Reached::new(towards, at, PairSet::new(&self.stages.parts))
    }

    /// Takes stages from both ends, always where it looks cheaper, until the two meet or have no stage left between them.
    fn layers(&mut self, limit: &Limit, from_start: &mut Reached, from_end: &mut Reached) -> Pass {
        let knows_memory = self.stages.knows_memory();
        while from_start.stages + from_end.stages < self.stages.problem.stages() {
            // What a search without dominated pairs does not meet, one from the other end would have to.
            let from_start_is_cheaper = from_start.prunes
                || knows_memory && !from_end.prunes && {
                    let left = self.stages.until.saturating_sub(self.steps());
                    let cost = self.stages.cost_of_layer(limit, from_start, left);
                    cost < CHEAP || self.stages.cost_of_layer(limit, from_end, cost) >= cost
                };
            let (own, other) = match from_start_is_cheaper {
                true => (&mut *from_start, &*from_end),
                false => (&mut *from_end, &*from_start),
            };
            if own.layer == own.states.len() {
                break;
            }
            let step = self.stages.step(limit, own.towards, own.stages + 1);
            match self.stages.layer(step, own, other) {
                Ok(None) => {}
                Ok(Some(met)) => return Pass::Found(self.plan(own, met, other)),
                Err(stopped_by) => return Pass::Stopped(stopped_by),
            }
        }
        Pass::Exhausted
    }

    /// The plan of a state where both directions meet, or that leaves one stage.
    fn plan(&self, own: &Reached, met: u32, other: &Reached) -> Assignment {
        let met = met as usize;
        let pair = own.states[met].at;
        // With all stages a pair may be in several layers; the last one is meant. One that is in none leaves a stage to the
        // other end.
        let may_meet = own.stages + other.stages <= self.stages.problem.stages();
        let opposite = other.states.iter().rposition(|state| state.at == pair);
        let opposite = opposite.filter(|_| may_meet).unwrap_or_default();
        let [mut pairs, mut beyond] = [own.way_to(met), other.way_to(opposite)];
        pairs.reverse();
        pairs.append(&mut beyond);
        pairs.dedup();
        if own.towards == Towards::Start {
            pairs.reverse();
        }
        self.stages.assignment(&pairs)
    }
}
