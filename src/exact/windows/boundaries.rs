//! Stage windows from what must cross the boundaries between stages.
#![doc = include_str!("../../../formulations/boundaries.md")]

use fixedbitset::FixedBitSet;

use crate::exact::bits::{self, Rows};
use crate::exact::closure::Closure;
use crate::exact::tuning::TUNING;
use crate::exact::windows::boundary::{Boundary, CandidateSet, Place, Span};
use crate::formulations::staging::Windows;
use crate::model::options::Communication;
use crate::problem::Problem;

pub use crate::exact::windows::limits::Limits;

/// How long boundaries are asked about. What was found by then stays.
#[derive(Clone, Copy)]
pub struct ProbeBudget<'a> {
    /// Items, order pairs and consumers looked at, at most.
    pub most_steps: usize,
    /// Asked before each question.
    pub must_stop: &'a dyn Fn() -> bool,
}

impl<'a> ProbeBudget<'a> {
    /// Tenths of a second's work.
    pub fn usual(must_stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            most_steps: TUNING.most_boundary_steps,
            must_stop,
        }
    }
}

/// Narrows windows to the items that can lie on either side of each boundary; false if no plan keeps the limits.
///
/// Only `blocking` transfers make stages busier; windows stay as they are without them.
///
/// Time O(c (n + e + t)) for c minimum cuts, at most a few for each open prefix variable, n items, e order pairs and t
/// consumers, up to a fixed number of steps.
pub fn narrow(
    problem: &Problem,
    closure: &Closure,
    limits: Limits,
    windows: &mut Windows,
    budget: ProbeBudget,
) -> bool {
    if problem.settings.communication != Communication::Blocking {
        return true;
    }
    let spans: Vec<Span> = problem.transfers.iter().map(|t| Span::new(t, closure)).collect();
    let mut steps_left = budget.most_steps;
    (1..problem.stages()).all(|stages| {
        let mut probe = BoundaryProbe {
            boundary: Boundary::new(problem, &spans, limits, stages),
            closure,
            windows,
            steps_left: &mut steps_left,
            must_stop: budget.must_stop,
        };
        probe.narrow()
    })
}

/// Questions about one boundary, and what the answers make of the windows.
struct BoundaryProbe<'a> {
    boundary: Boundary<'a>,
    closure: &'a Closure,
    windows: &'a mut Windows,
    steps_left: &'a mut usize,
    must_stop: &'a dyn Fn() -> bool,
}

/// Items of which it is not ruled out that they lie before, or behind, the boundary.
struct PossibleItems {
    before: FixedBitSet,
    behind: FixedBitSet,
}

impl BoundaryProbe<'_> {
    /// Asks of every open item whether it can lie on either side; false if no set keeps the limits.
    fn narrow(&mut self) -> bool {
        let (items, stages) = (self.windows.earliest.len(), self.boundary.stages);
        let Some(mut possible) = self.ask(None, None) else {
            return false;
        };
        for item in 0..items {
            if !self.is_open(item) || possible.before.contains(item) {
                continue;
            }
            match self.ask(Some(item), None) {
                Some(more) => possible.join(&more),
                None => {
                    for late in bits::iter(self.closure.descendants.row(item)).chain([item]) {
                        let earliest = &mut self.windows.earliest[late];
                        *earliest = stages.max(*earliest);
                    }
                }
            }
        }
        for item in (0..items).rev() {
            if !self.is_open(item) || possible.behind.contains(item) {
                continue;
            }
            match self.ask(None, Some(item)) {
                Some(more) => possible.join(&more),
                None => {
                    for early in bits::iter(self.closure.ancestors.row(item)).chain([item]) {
                        let latest = &mut self.windows.latest[early];
                        *latest = (stages - 1).min(*latest);
                    }
                }
            }
        }
        !self.windows.some_is_empty()
    }

    fn is_open(&self, item: usize) -> bool {
        let stages = self.boundary.stages;
        self.windows.earliest[item] < stages && self.windows.latest[item] >= stages
    }

    /// Looks for a weight that rules out every set with one item before the boundary, or one behind it, by bisection; `None`
    /// if there is one, else what the sets on the way have in common.
    fn ask(&mut self, before: Option<usize>, behind: Option<usize>) -> Option<PossibleItems> {
        let (places, open) = self.places(before, behind);
        let boundary = &self.boundary;
        let problem = boundary.problem;
        let items = problem.items.len();
        let size = items + problem.order.edge_count() + problem.transfers.len();
        let mut possible = PossibleItems::all(items);
        let (mut low, mut high) = (-TUNING.boundary_weights - 1, TUNING.boundary_weights + 1);
        let mut weight = 0;
        while high - low > 1 && *self.steps_left >= size && !(self.must_stop)() {
            *self.steps_left -= size;
            let set = boundary.cheapest(&places, &open, weight);
            if boundary.excess(weight, &set) > 0 {
                return None;
            }
            if boundary.is_kept_by(&set) {
                return Some(PossibleItems::by(&set, items));
            }
            possible.meet(&set);
            match boundary.ascent(weight, &set) {
                0 => break,
                1.. => low = weight,
                _ => high = weight,
            }
            weight = (low + high) / 2;
        }
        Some(possible)
    }

    fn places(&self, before: Option<usize>, behind: Option<usize>) -> (Vec<Place>, Vec<usize>) {
        let mut open = Vec::new();
        let Closure {
            ancestors,
            descendants,
        } = self.closure;
        let lies = |in_set: &Rows, of: usize, item| of == item || bits::contains(in_set.row(of), item);
        let is_before = |item| before.is_some_and(|v| lies(ancestors, v, item));
        let is_behind = |item| behind.is_some_and(|v| lies(descendants, v, item));
        let mut place = |item| {
            if self.windows.latest[item] < self.boundary.stages || is_before(item) {
                Place::Before
            } else if self.windows.earliest[item] >= self.boundary.stages || is_behind(item) {
                Place::Behind
            } else {
                open.push(item);
                Place::Open(open.len() - 1)
            }
        };
        let places = (0..self.windows.earliest.len()).map(&mut place).collect();
        (places, open)
    }
}

impl PossibleItems {
    fn all(items: usize) -> Self {
        let mut all = FixedBitSet::with_capacity(items);
        all.insert_range(..);
        Self {
            before: all.clone(),
            behind: all,
        }
    }

    fn by(set: &CandidateSet, items: usize) -> Self {
        let mut possible = Self::all(items);
        possible.meet(set);
        possible
    }

    /// Keeps what holds of the set too.
    fn meet(&mut self, set: &CandidateSet) {
        self.before.intersect_with(&set.members);
        self.behind.difference_with(&set.members);
    }

    /// Adds what another answer leaves possible.
    fn join(&mut self, more: &Self) {
        self.before.union_with(&more.before);
        self.behind.union_with(&more.behind);
    }
}
