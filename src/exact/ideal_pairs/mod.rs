//! Dynamic program over pairs of ideals, for problems in two components.
#![doc = include_str!("../../../formulations/ideal_pairs.md")]

mod batch;
mod beam;
mod budget;
mod compatible;
mod dominance;
mod expander;
mod from_cut_states;
mod limit;
mod model;
mod reachable;
mod reached;
mod set;
mod step;

use std::ops::RangeInclusive;

use crate::exact::closure::Closure;
use crate::exact::components::ideal::{Ideal, Towards};
pub use crate::exact::components::pair::Caps;
use crate::exact::cut_states::search::Corridor;
use crate::exact::ideal_pairs::beam::BeamSearch;
use crate::exact::ideal_pairs::expander::LayerExpander;
use crate::exact::ideal_pairs::limit::StageLimit;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::ideal_pairs::reached::ReachedLayers;
use crate::exact::ideal_pairs::set::PairSet;
use crate::exact::ideal_pairs::step::LayerStep;
use crate::exact::tuning::TUNING;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// Looks for plans within limits over pairs of ideals.
pub struct PairSearch<'a> {
    closure: Closure,
    model: PairModel<'a>,
    expander: LayerExpander<'a>,
    /// The tightest limit that some plan may keep.
    looser: Option<StageLimit>,
    /// Pairs of ideals met in all passes.
    pub ideals: usize,
}

/// Where a search has come from either end of the pipeline.
struct Ends {
    from_start: ReachedLayers,
    from_end: ReachedLayers,
}

impl<'a> PairSearch<'a> {
    /// Prepares a search for limits up to `most_ns`; `None` for a problem in one component, or with too many ideals.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_ns: u64) -> Option<Self> {
        let caps = Caps::new(problem.settings.communication, control.room_bytes());
        Self::capped(problem, control, caps, most_ns)
    }

    /// The same with other numbers of ideals.
    pub fn capped(problem: &'a Problem, control: &'a Control<'a>, caps: Caps, most_ns: u64) -> Option<Self> {
        let model = PairModel::new(problem, control, caps, most_ns)?;
        Some(Self {
            closure: Closure::new(problem),
            expander: LayerExpander::new(&model),
            model,
            looser: None,
            ideals: 0,
        })
    }

    /// Pairs of slices passed over in all passes; one that may fit counts for more.
    pub(crate) fn steps(&self) -> u64 {
        self.expander.budget.steps
    }

    /// Limits may be so large at most: less than was asked for where ideals are listed for those alone.
    pub fn most_ns(&self) -> u64 {
        self.model.most_ns
    }

    /// Whether cut states are known, and so many pairs that plans near another are best looked for first.
    pub(crate) fn is_large(&self) -> bool {
        let [first, second] = [0, 1].map(|p: usize| self.model.components[p].len());
        self.model.index.is_some() && first.saturating_mul(second) > TUNING.pairs_for_corridors
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one. It gives up after so many steps.
    pub fn pass(&mut self, limit_ns: u64, most_steps: u64) -> Answer {
        let looser = self.looser.as_ref();
        let Some(limit) = StageLimit::new(&self.model, &self.closure, limit_ns, looser, None) else {
            return Answer::none_within(limit_ns);
        };
        if let Some(stopped_by) = self.model.control.must_stop() {
            return Answer::Stopped(stopped_by);
        }
        let pass = self.search(&limit, most_steps);
        if !pass.is_none() {
            self.looser = Some(limit);
        }
        pass
    }

    /// The same for plans near one, which [`Answer::NoPlan`] says no more of: where each component's ideal before each boundary is one
    /// of so many that have more and less work than the plan's. Known as the corridor method (M. Sniedovich, S. Voss, *The corridor
    /// method: a dynamic programming inspired metaheuristic*, Control and Cybernetics 2006).
    pub fn near(&mut self, plan: &Assignment, width: usize, limit_ns: u64, most_steps: u64) -> Answer {
        let corridor = self.corridor(plan, width as Ideal);
        let Some(limit) = StageLimit::new(&self.model, &self.closure, limit_ns, None, Some(&corridor)) else {
            return Answer::none_within(limit_ns);
        };
        if let Some(stopped_by) = self.model.control.must_stop() {
            return Answer::Stopped(stopped_by);
        }
        self.search(&limit, most_steps)
    }

    /// The work of so many ideals below and above a plan's, for each boundary and component.
    fn corridor(&self, plan: &Assignment, width: Ideal) -> Corridor {
        let problem = self.model.problem;
        let around = |boundary: usize, p: usize| -> RangeInclusive<u64> {
            let component = &self.model.components[p];
            let before = component.items.iter().filter(|&&item| plan[item] <= boundary);
            let work_ns: u64 = before.map(|&item| problem.items[item].work_ns()).sum();
            let own = component.of_work(work_ns..=work_ns);
            let [from, to] = [own.start.saturating_sub(width), own.end + width];
            component.work_ns(from, 0)..=component.work_ns(to.min(component.everything()), 0)
        };
        let boundaries = 0..problem.stages() - 1;
        Corridor {
            work_ns: boundaries
                .map(|boundary| [around(boundary, 0), around(boundary, 1)])
                .collect(),
        }
    }

    /// A pass from both ends, whose number of steps is limited, and a beam search where it is given up.
    fn search(&mut self, limit: &StageLimit, most_steps: u64) -> Answer {
        let mut ends = self.ends(limit);
        self.expander.budget.allow(most_steps);
        let pass = self.layers(limit, &mut ends);
        self.ideals += ends.from_start.pairs.len() + ends.from_end.pairs.len();
        if pass != Answer::Stopped(StoppedBy::SizeLimit) || !self.model.control.switches.beam {
            return pass;
        }
        if self.model.dominance.is_some() {
            // A beam search chooses what others dominate differently, and begins anew.
            ends = self.ends(limit);
        }
        self.expander.budget.allow(most_steps);
        let mut beam = BeamSearch {
            model: &self.model,
            limit,
            expander: &mut self.expander,
        };
        let meeting = beam.run(&ends.from_start, &ends.from_end);
        meeting.map_or(pass, |meeting| {
            Answer::Plan(self.plan(&meeting.own, meeting.met, meeting.other))
        })
    }

    /// Where searches from the start and from the end begin.
    fn ends(&mut self, limit: &StageLimit) -> Ends {
        let reached =
            |towards: Towards, at| ReachedLayers::new(towards, at, PairSet::new(&self.model.components));
        let mut ends = Ends {
            from_start: reached(Towards::End, self.model.end(Towards::Start)),
            from_end: reached(Towards::Start, self.model.end(Towards::End)),
        };
        if self.model.dominance.is_some() {
            let prunes_from_start = self.model.knows_memory() && {
                let cost = self.cost_of_layer(limit, &ends.from_start, u64::MAX);
                self.cost_of_layer(limit, &ends.from_end, cost) >= cost
            };
            ends.from_start.prunes = prunes_from_start;
            ends.from_end.prunes = !prunes_from_start;
        }
        ends
    }

    /// About how many steps the next layer takes; counts no further than `most`.
    fn cost_of_layer(&mut self, limit: &StageLimit, own: &ReachedLayers, most: u64) -> u64 {
        let step = LayerStep::new(&self.model, limit, own.towards, own.stages + 1);
        self.expander.cost_of_layer(&step, own, most)
    }

    /// Takes stages from both ends, always where it looks cheaper, until the two meet or have no stage left between them.
    fn layers(&mut self, limit: &StageLimit, ends: &mut Ends) -> Answer {
        while ends.from_start.stages + ends.from_end.stages < self.model.problem.stages() {
            let (own, other) = match self.goes_from_start(limit, ends) {
                true => (&mut ends.from_start, &ends.from_end),
                false => (&mut ends.from_end, &ends.from_start),
            };
            if own.layer == own.pairs.len() {
                break;
            }
            let step = LayerStep::new(&self.model, limit, own.towards, own.stages + 1);
            match self.expander.expand(&step, own, other) {
                Ok(None) => {}
                Ok(Some(met)) => return Answer::Plan(self.plan(own, met, other)),
                Err(stopped_by) => return Answer::Stopped(stopped_by),
            }
        }
        Answer::none_within(limit.ns)
    }

    /// Whether the next layer is better taken from the start than from the end.
    fn goes_from_start(&mut self, limit: &StageLimit, ends: &Ends) -> bool {
        // What a search without dominated pairs does not meet, one from the other end would have to.
        if ends.from_start.prunes {
            return true;
        }
        if ends.from_end.prunes || !self.model.knows_memory() {
            return false;
        }
        let left = self.expander.budget.left();
        let cost = self.cost_of_layer(limit, &ends.from_start, left);
        cost < TUNING.steps_of_a_cheap_layer || self.cost_of_layer(limit, &ends.from_end, cost) >= cost
    }

    /// The plan of a pair where both directions meet, or that leaves one stage.
    fn plan(&self, own: &ReachedLayers, met: u32, other: &ReachedLayers) -> Assignment {
        let met = met as usize;
        let at = own.pairs[met].at;
        // With all stages a pair may be in several layers; the last one is meant. One that is in none leaves a stage to the
        // other end.
        let may_meet = own.stages + other.stages <= self.model.problem.stages();
        let opposite = other.pairs.iter().rposition(|pair| pair.at == at);
        let opposite = opposite.filter(|_| may_meet).unwrap_or_default();
        let [mut pairs, mut beyond] = [own.way_to(met), other.way_to(opposite)];
        pairs.reverse();
        pairs.append(&mut beyond);
        pairs.dedup();
        if own.towards == Towards::Start {
            pairs.reverse();
        }
        self.model.assignment(&pairs)
    }
}
