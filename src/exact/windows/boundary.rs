//! One boundary between stages: the limits of the sets before it, and the cheapest of these sets. See
//! [`crate::exact::windows::boundaries`].

use fixedbitset::FixedBitSet;
use petgraph::visit::EdgeRef;

use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::exact::tuning::TUNING;
use crate::exact::windows::limits::Limits;
use crate::exact::windows::min_cut::MinCostClosure;
use crate::problem::{Problem, Transfer};

/// The ends of a transfer that decide whether it crosses a boundary: it does if any of the first lie before it, and not all
/// of the last.
pub(crate) struct Span {
    /// Any of them before the boundary, and it crosses;
    pub first: Vec<usize>,
    /// unless all of these are.
    pub last: Vec<usize>,
    /// What either side pays.
    pub ns: i128,
}

impl Span {
    /// One end stands for all where it lies before, or behind, all others. Items are numbered along the order.
    pub(crate) fn new(transfer: &Transfer, closure: &Closure) -> Self {
        let mut ends: Vec<usize> = transfer.items().collect();
        ends.sort_unstable();
        let (least, most) = (ends[0], ends[ends.len() - 1]);
        let is_first = ends[1..]
            .iter()
            .all(|&end| bits::contains(closure.descendants.row(least), end));
        let is_last = ends[..ends.len() - 1]
            .iter()
            .all(|&end| bits::contains(closure.ancestors.row(most), end));
        Self {
            first: if is_first { vec![least] } else { ends.clone() },
            last: if is_last { vec![most] } else { ends },
            ns: i128::from(transfer.total_ns()),
        }
    }

    /// Whether it crosses the boundary behind a set.
    pub(crate) fn crosses(&self, members: &FixedBitSet) -> bool {
        self.first.iter().any(|&end| members.contains(end))
            && !self.last.iter().all(|&end| members.contains(end))
    }
}

/// Limits of the sets of items before a boundary, with `w` and `c` the work of a set and the ns of what crosses behind it:
///
/// * `work_factor w + before_factor c <= before_ns`: what the stages before can carry,
/// * `behind_factor c - work_factor w <= behind_ns`: what those behind can carry,
/// * `2 c <= twice_cut_ns`: what is left for both ends of what crosses.
pub(super) struct Boundary<'a> {
    /// The problem.
    pub problem: &'a Problem,
    spans: &'a [Span],
    /// Stages before it.
    pub stages: usize,
    work_factor: i128,
    before_factor: i128,
    behind_factor: i128,
    before_ns: i128,
    behind_ns: i128,
    twice_cut_ns: i128,
}

/// A set of items that may lie before a boundary.
pub(super) struct CandidateSet {
    /// The items.
    pub members: FixedBitSet,
    work_ns: i128,
    cut_ns: i128,
}

/// Where an item lies, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Before it.
    Before,
    /// Behind it.
    Behind,
    /// Either, with its place in the list of all such items.
    Open(usize),
}

impl<'a> Boundary<'a> {
    /// The boundary behind the first so many stages, as [the page](crate::exact::windows::boundaries) derives its limits.
    pub(super) fn new(problem: &'a Problem, spans: &'a [Span], limits: Limits, stages: usize) -> Self {
        let work = i128::from(problem.work_ns());
        let (k, rest) = (stages as i128, (problem.stages() - stages) as i128);
        let bottleneck = i128::from(limits.bottleneck_ns);
        match problem.formula() {
            formula if formula.counts_loads && limits.objective_ns < u64::MAX => {
                // The iteration pays for the busiest stage once a further micro-batch, and for all work and cuts once.
                let periods = i128::from(formula.weight);
                let beyond_work = i128::from(limits.objective_ns) - work;
                Self {
                    problem,
                    spans,
                    stages,
                    work_factor: periods,
                    before_factor: periods + 2 * k,
                    behind_factor: periods + 2 * rest,
                    before_ns: k * beyond_work,
                    behind_ns: rest * beyond_work - periods * work,
                    twice_cut_ns: beyond_work - periods * i128::from(limits.least_bottleneck_ns),
                }
            }
            _ => Self {
                problem,
                spans,
                stages,
                work_factor: 1,
                before_factor: 1,
                behind_factor: 1,
                before_ns: k * bottleneck,
                behind_ns: rest * bottleneck - work,
                twice_cut_ns: (k + rest) * bottleneck - work,
            },
        }
    }

    /// Whether a set keeps the limits.
    pub(super) fn is_kept_by(&self, set: &CandidateSet) -> bool {
        self.work_factor * set.work_ns + self.before_factor * set.cut_ns <= self.before_ns
            && self.behind_factor * set.cut_ns - self.work_factor * set.work_ns <= self.behind_ns
            && 2 * set.cut_ns <= self.twice_cut_ns
    }

    /// Factor of the cut in the weighed limits, and twice what they allow: `weight` parts of the first limit, or of the second
    /// where it is negative, and the others of the third.
    fn weighed(&self, weight: i128) -> (i128, i128) {
        let (of_cut, allowed) = match weight >= 0 {
            true => (self.before_factor, self.before_ns),
            false => (self.behind_factor, self.behind_ns),
        };
        let others = TUNING.boundary_weights - weight.abs();
        (
            TUNING.boundary_weights * of_cut,
            2 * weight.abs() * allowed + others * of_cut * self.twice_cut_ns,
        )
    }

    /// How far the cheapest set of a weight breaks the weighed limits: no set keeps the limits if it is above 0.
    pub(super) fn excess(&self, weight: i128, set: &CandidateSet) -> i128 {
        let (of_cut, twice_allowed) = self.weighed(weight);
        2 * (weight * self.work_factor * set.work_ns + of_cut * set.cut_ns) - twice_allowed
    }

    /// The way in which the excess of the cheapest set may grow; 0 if there is none.
    pub(super) fn ascent(&self, weight: i128, set: &CandidateSet) -> i128 {
        let above =
            2 * (self.work_factor * set.work_ns - self.before_ns) + self.before_factor * self.twice_cut_ns;
        let below =
            2 * (self.work_factor * set.work_ns + self.behind_ns) - self.behind_factor * self.twice_cut_ns;
        match weight {
            0 if above > 0 => 1,
            0 if below < 0 => -1,
            0 => 0,
            1.. => above.signum(),
            _ => below.signum(),
        }
    }

    /// The cheapest set of a weight.
    pub(super) fn cheapest(&self, places: &[Place], open: &[usize], weight: i128) -> CandidateSet {
        let problem = self.problem;
        let (of_cut, _) = self.weighed(weight);
        let mut choice = MinCostClosure::new(open.len());
        for (node, &item) in open.iter().enumerate() {
            choice.charge(
                node,
                weight * self.work_factor * i128::from(problem.items[item].work_ns()),
            );
        }
        for pair in problem.order.edge_references() {
            let ends = [pair.source(), pair.target()].map(|end| places[end.index()]);
            if let [Place::Open(u), Place::Open(v)] = ends {
                choice.require(v, u);
            }
        }
        let is_at = |place: Place| move |&end: &usize| places[end] == place;
        let open_ends = |ends: &[usize]| -> Vec<usize> {
            let node = |&end: &usize| match places[end] {
                Place::Open(node) => Some(node),
                _ => None,
            };
            ends.iter().filter_map(node).collect()
        };
        for span in self.spans {
            let any = (!span.first.iter().any(is_at(Place::Before))).then(|| open_ends(&span.first));
            let all = (!span.last.iter().any(is_at(Place::Behind))).then(|| open_ends(&span.last));
            // One that crosses wherever open items go, or nowhere, says nothing about them.
            let is_open = any.as_ref().is_none_or(|any| !any.is_empty())
                && all.as_ref().is_none_or(|all| !all.is_empty())
                && any.is_some() | all.is_some();
            if is_open {
                let cost = (of_cut * span.ns).unsigned_abs();
                choice.charge_split(any.as_deref(), all.as_deref(), cost);
            }
        }
        let chosen = choice.cheapest();
        let is_member = |place: &Place| match *place {
            Place::Before => true,
            Place::Behind => false,
            Place::Open(node) => chosen[node],
        };
        let members = places.iter().map(is_member);
        let members = members
            .enumerate()
            .filter_map(|(item, is_member)| is_member.then_some(item));
        let members: FixedBitSet = members.collect();
        let work = members
            .ones()
            .map(|item| i128::from(problem.items[item].work_ns()));
        let cut = self
            .spans
            .iter()
            .filter(|span| span.crosses(&members))
            .map(|span| span.ns);
        CandidateSet {
            work_ns: work.sum(),
            cut_ns: cut.sum(),
            members,
        }
    }
}
