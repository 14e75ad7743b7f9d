//! One boundary between stages: the limits of the sets before it, and the cheapest of these sets. See
//! [`crate::exact::windows::boundaries`].

use fixedbitset::FixedBitSet;
use petgraph::visit::EdgeRef;

use crate::exact::windows::boundaries::Limits;
use crate::exact::windows::min_cut::Closure;
use crate::exact::windows::reach::Reach;
use crate::problem::{Problem, Transfer};

/// The two limits of a boundary are weighed in so many parts.
pub const PARTS: i128 = 64;

/// The ends of a transfer that decide whether it crosses a boundary: it does if any of the first lie before it, and not all
/// of the last.
pub struct Span {
    first: Vec<usize>,
    last: Vec<usize>,
    ns: i128,
}

impl Span {
    /// One end stands for all where it lies before, or behind, all others. Items are numbered along the order.
    pub fn new(transfer: &Transfer, reach: &Reach) -> Self {
        let mut ends: Vec<usize> = transfer.items().collect();
        ends.sort_unstable();
        let (least, most) = (ends[0], ends[ends.len() - 1]);
        let is_first = ends[1..]
            .iter()
            .all(|&end| reach.descendants[least].contains(end));
        let is_last = ends[..ends.len() - 1]
            .iter()
            .all(|&end| reach.ancestors[most].contains(end));
        Self {
            first: if is_first { vec![least] } else { ends.clone() },
            last: if is_last { vec![most] } else { ends },
            ns: i128::from(transfer.total_ns()),
        }
    }

    /// Whether it crosses the boundary behind a set.
    fn crosses(&self, members: &FixedBitSet) -> bool {
        self.first.iter().any(|&end| members.contains(end))
            && !self.last.iter().all(|&end| members.contains(end))
    }
}

/// Limits of the sets of items before a boundary, with `W` all work, `w` and `c` the work of a set and what crosses behind
/// it: `d w + a c <= before`, `b c - d w <= behind`, `2 c <= spare`.
pub struct Boundary<'a> {
    /// The problem.
    pub problem: &'a Problem,
    spans: &'a [Span],
    /// Stages before it.
    pub stages: usize,
    d: i128,
    a: i128,
    b: i128,
    before: i128,
    behind: i128,
    spare: i128,
}

/// A set of items that may lie before a boundary.
pub struct Set {
    /// The items.
    pub members: FixedBitSet,
    work_ns: i128,
    cut_ns: i128,
}

/// Where an item lies, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before it.
    Before,
    /// Behind it.
    Behind,
    /// Either, with its place in the list of all such items.
    Open(usize),
}

impl<'a> Boundary<'a> {
    /// The boundary behind the first so many stages, as [the page](crate::exact::windows::boundaries) derives its limits.
    pub fn new(problem: &'a Problem, spans: &'a [Span], limits: Limits, stages: usize) -> Self {
        let work = i128::from(problem.work_ns());
        let (k, rest) = (stages as i128, (problem.stages() - stages) as i128);
        let bottleneck = i128::from(limits.bottleneck_ns);
        match problem.formula() {
            formula if formula.counts_loads && limits.objective_ns < u64::MAX => {
                let d = i128::from(formula.weight);
                let spare = i128::from(limits.objective_ns) - work;
                Self {
                    problem,
                    spans,
                    stages,
                    d,
                    a: d + 2 * k,
                    b: d + 2 * rest,
                    before: k * spare,
                    behind: rest * spare - d * work,
                    spare: spare - d * i128::from(limits.least_bottleneck_ns),
                }
            }
            _ => Self {
                problem,
                spans,
                stages,
                d: 1,
                a: 1,
                b: 1,
                before: k * bottleneck,
                behind: rest * bottleneck - work,
                spare: (k + rest) * bottleneck - work,
            },
        }
    }

    /// Whether a set keeps the limits.
    pub fn holds(&self, set: &Set) -> bool {
        self.d * set.work_ns + self.a * set.cut_ns <= self.before
            && self.b * set.cut_ns - self.d * set.work_ns <= self.behind
            && 2 * set.cut_ns <= self.spare
    }

    /// Factor of the cut in the weighed limits, and twice what they allow: `weight` parts of the first limit, or of the second
    /// where it is negative, and the others of the third.
    fn weighed(&self, weight: i128) -> (i128, i128) {
        let (of_cut, allowed) = match weight >= 0 {
            true => (self.a, self.before),
            false => (self.b, self.behind),
        };
        let others = PARTS - weight.abs();
        (
            PARTS * of_cut,
            2 * weight.abs() * allowed + others * of_cut * self.spare,
        )
    }

    /// How far the cheapest set of a weight breaks the weighed limits: no set keeps the limits if it is above 0.
    pub fn excess(&self, weight: i128, set: &Set) -> i128 {
        let (of_cut, twice_allowed) = self.weighed(weight);
        2 * (weight * self.d * set.work_ns + of_cut * set.cut_ns) - twice_allowed
    }

    /// The way in which the excess of the cheapest set may grow; 0 if there is none.
    pub fn uphill(&self, weight: i128, set: &Set) -> i128 {
        let above = 2 * (self.d * set.work_ns - self.before) + self.a * self.spare;
        let below = 2 * (self.d * set.work_ns + self.behind) - self.b * self.spare;
        match weight {
            0 if above > 0 => 1,
            0 if below < 0 => -1,
            0 => 0,
            1.. => above.signum(),
            _ => below.signum(),
        }
    }

    /// The cheapest set of a weight.
    pub fn cheapest(&self, places: &[Place], open: &[usize], weight: i128) -> Set {
        let problem = self.problem;
        let (of_cut, _) = self.weighed(weight);
        let mut closure = Closure::new(open.len());
        for (node, &item) in open.iter().enumerate() {
            closure.charge(node, weight * self.d * i128::from(problem.items[item].work_ns()));
        }
        for pair in problem.order.edge_references() {
            let ends = [pair.source(), pair.target()].map(|end| places[end.index()]);
            if let [Place::Open(u), Place::Open(v)] = ends {
                closure.require(v, u);
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
                closure.charge_split(any.as_deref(), all.as_deref(), cost);
            }
        }
        let chosen = closure.cheapest();
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
        Set {
            work_ns: work.sum(),
            cut_ns: cut.sum(),
            members,
        }
    }
}
