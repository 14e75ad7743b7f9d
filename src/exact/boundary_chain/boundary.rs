//! One boundary of the chain: the sets that may lie before it, and what they need and carry.

use fixedbitset::FixedBitSet;
use petgraph::visit::EdgeRef;

use crate::exact::bits;
use crate::exact::boundary_chain::share::Share;
use crate::exact::closure::Closure;
use crate::exact::windows::min_cut::MinCostClosure;
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// The boundary behind the first so many stages.
pub(super) struct Boundary<'a> {
    /// Items that may lie on either side, in topological order.
    pub open: Vec<usize>,
    /// Items that lie before it.
    pub before: Vec<usize>,
    /// Work of each open item, in ns.
    pub work_ns: Vec<i128>,
    closure: &'a Closure,
    /// Transfers that they decide on.
    pub crossings: Vec<Crossing>,
    /// What all sets have, whichever open items they hold.
    pub common: Totals,
    /// The requirements of open items.
    pub choice: MinCostClosure,
}

/// A transfer that open items decide on: it crosses if any of the first ends lie before the boundary, and not all of the last.
pub(super) struct Crossing {
    /// Among open items; `None` where one lies before it anyway.
    pub first: Option<Vec<usize>>,
    /// Among open items; `None` where one lies behind it anyway.
    pub last: Option<Vec<usize>>,
    /// What a set needs and carries more where it crosses.
    pub costs: Totals,
}

/// What a set of items needs and carries, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Its work, and what the stage before the boundary pays for what crosses it.
    pub need_ns: i128,
    /// Its work, less what the stage behind the boundary pays.
    pub carried_ns: i128,
}

/// A set of open items.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub chosen: FixedBitSet,
    pub totals: Totals,
}

/// Open items whose side is decided: before, and behind.
#[derive(Clone, Debug)]
pub(super) struct Sides(pub [FixedBitSet; 2]);

impl<'a> Boundary<'a> {
    /// The boundary behind the first so many stages, for plans that keep to the windows.
    pub(super) fn new(
        problem: &Problem,
        closure: &'a Closure,
        windows: &Windows,
        shares: &[Share],
        stages: usize,
    ) -> Self {
        let items = problem.items.len();
        let is_before = |item: usize| windows.latest[item] < stages;
        let is_open = |item: &usize| !is_before(*item) && windows.earliest[*item] < stages;
        let open: Vec<usize> = (0..items).filter(is_open).collect();
        let mut node = vec![usize::MAX; items];
        open.iter().enumerate().for_each(|(at, &item)| node[item] = at);
        let mut choice = MinCostClosure::new(open.len());
        for pair in problem.order.edge_references() {
            let [u, v] = [pair.source(), pair.target()].map(|end| node[end.index()]);
            if u != usize::MAX && v != usize::MAX {
                choice.require(v, u);
            }
        }
        let before: Vec<usize> = (0..items).filter(|&item| is_before(item)).collect();
        let work_ns = |&item: &usize| i128::from(problem.items[item].work_ns());
        let common_ns: i128 = before.iter().map(work_ns).sum();
        let mut boundary = Self {
            work_ns: open.iter().map(work_ns).collect(),
            open,
            before,
            closure,
            crossings: Vec::new(),
            common: Totals {
                need_ns: common_ns,
                carried_ns: common_ns,
            },
            choice,
        };
        for share in shares {
            boundary.add(share, stages, &node, windows);
        }
        boundary
    }

    /// Adds a transfer, if it may cross.
    fn add(&mut self, share: &Share, stages: usize, node: &[usize], windows: &Windows) {
        let Some(costs) = share.at(stages) else {
            return;
        };
        let among_open = |ends: &[usize]| -> Vec<usize> {
            let nodes = ends.iter().map(|&end| node[end]);
            nodes.filter(|&at| at != usize::MAX).collect()
        };
        let crosses = |ends: &[usize], is_there: &dyn Fn(usize) -> bool| {
            (!ends.iter().any(|&end| is_there(end))).then(|| among_open(ends))
        };
        let first = crosses(&share.span.first, &|end| windows.latest[end] < stages);
        let last = crosses(&share.span.last, &|end| windows.earliest[end] >= stages);
        if first.is_none() && last.is_none() {
            self.common.add(costs);
            return;
        }
        self.crossings.push(Crossing { first, last, costs });
    }

    /// The same with what sets need and carry exchanged, and less for more: the most that one carries is less what one needs at least.
    pub(super) fn mirrored(mut self) -> Self {
        self.work_ns.iter_mut().for_each(|ns| *ns = -*ns);
        self.common = self.common.mirrored();
        for crossing in &mut self.crossings {
            crossing.costs = crossing.costs.mirrored();
        }
        self
    }

    /// What a relaxation looks at.
    pub(super) fn size(&self) -> usize {
        self.open.len() + self.crossings.len()
    }

    /// No open item's side is decided.
    pub(super) fn undecided(&self) -> Sides {
        let none = FixedBitSet::with_capacity(self.open.len());
        Sides([none.clone(), none])
    }

    /// The same sides with an item before, and what comes before it; and behind, with what comes behind it.
    pub(super) fn decide(&self, sides: &Sides, node: usize) -> [Sides; 2] {
        let rows = [&self.closure.ancestors, &self.closure.descendants];
        [0, 1].map(|side| {
            let mut decided = sides.clone();
            let row = rows[side].row(self.open[node]);
            let with = (0..self.open.len()).filter(|&at| at == node || bits::contains(row, self.open[at]));
            decided.0[side].extend(with);
            decided
        })
    }

    /// Whether every set with one open item has another.
    pub(super) fn comes_with(&self, node: usize, other: usize) -> bool {
        node == other || bits::contains(self.closure.ancestors.row(self.open[node]), self.open[other])
    }

    /// The items of a set before the boundary.
    pub(super) fn items(&self, chosen: &FixedBitSet) -> impl Iterator<Item = usize> {
        let open = chosen.ones().map(|node| self.open[node]);
        self.before.iter().copied().chain(open)
    }
}

impl Crossing {
    /// Whether it crosses the boundary behind a set.
    pub(super) fn is_by(&self, has: &[bool]) -> bool {
        let starts = self
            .first
            .as_ref()
            .is_none_or(|ends| ends.iter().any(|&end| has[end]));
        let ends = self
            .last
            .as_ref()
            .is_some_and(|ends| ends.iter().all(|&end| has[end]));
        starts && !ends
    }
}

impl Totals {
    fn mirrored(self) -> Self {
        Self {
            need_ns: -self.carried_ns,
            carried_ns: -self.need_ns,
        }
    }

    /// Adds what some items, or crossings, need and carry.
    pub(super) fn add(&mut self, more: Totals) {
        self.need_ns += more.need_ns;
        self.carried_ns += more.carried_ns;
    }
}
