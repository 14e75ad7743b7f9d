//! What is known of cut states while they are searched for.

use std::mem;
use std::ops::RangeInclusive;

use fixedbitset::FixedBitSet;

use crate::exact::bits;
use crate::exact::cut_states::boundary_window::BoundaryWindow;
use crate::exact::cut_states::costs::{BoundaryCosts, Crossers};
use crate::exact::cut_states::index::{BoundaryTransfer, IndexedPairs, NodeBounds};
use crate::exact::cut_states::node_bound::NEVER_NS;
use crate::exact::cut_states::refine::{NodePairs, RefinedPairs, Refinement, RefinementLimits};
use crate::exact::tuning::TUNING;
use crate::formulations::staging::Windows;

/// For each boundary and component, the work of ideals that are looked at.
pub(crate) struct Corridor {
    pub work_ns: Vec<[RangeInclusive<u64>; 2]>,
}

/// Which cut states are searched for.
pub(crate) struct CutStateQuery<'a> {
    pub pairs: IndexedPairs<'a>,
    /// No stage may be busier.
    pub limit_ns: u64,
    /// Stages that items may lie in.
    pub windows: &'a Windows,
    /// If only pairs in one are of interest.
    pub corridor: Option<&'a Corridor>,
    pub boundaries: usize,
}

impl CutStateQuery<'_> {
    fn boundary_windows(&self) -> Vec<[BoundaryWindow; 2]> {
        let windows = self.windows;
        let window = |boundary: usize, p: usize| {
            let component = &self.pairs.components[p];
            BoundaryWindow {
                possible: component.items_where(|item| windows.earliest[item] <= boundary),
                required: component.items_where(|item| windows.latest[item] <= boundary),
                work_ns: match self.corridor {
                    None => 0..=u64::MAX,
                    Some(corridor) => corridor.work_ns[boundary][p].clone(),
                },
            }
        };
        let boundaries = 0..self.boundaries;
        boundaries
            .map(|boundary| [window(boundary, 0), window(boundary, 1)])
            .collect()
    }
}

/// What is known of all boundaries.
#[derive(Clone)]
pub(crate) struct KnownStates {
    /// For each boundary, the pairs that can lie before it.
    pub pairs: Vec<NodePairs>,
    /// For each boundary, the transfers that may cross it.
    crossers: Vec<Crossers>,
    /// For each boundary, what is charged there at least.
    charged_ns: Vec<u64>,
}

impl KnownStates {
    /// All pairs that windows let lie before boundaries.
    fn all(pairs: IndexedPairs, windows: &[[BoundaryWindow; 2]]) -> Self {
        let crossers = |windows: &[BoundaryWindow; 2]| {
            [0, 1, 2].map(|of: usize| {
                let transfers: &[BoundaryTransfer] = &pairs.index.transfers[of];
                (0..transfers.len())
                    .filter(|&t| transfers[t].may_cross(windows))
                    .collect()
            })
        };
        Self {
            pairs: windows
                .iter()
                .map(|windows| NodePairs::within(pairs, windows))
                .collect(),
            crossers: windows.iter().map(crossers).collect(),
            charged_ns: vec![0; windows.len()],
        }
    }
}

/// The search for cut states.
pub(crate) struct CutStateSearch<'a> {
    pairs: IndexedPairs<'a>,
    limit_ns: u64,
    /// Work of all items.
    all_ns: u64,
    /// For each boundary and component, from windows.
    pub windows: Vec<[BoundaryWindow; 2]>,
    pub known: KnownStates,
    /// For each boundary, the transfers that may cross it as known at the start of the round.
    pub crossers: Vec<Crossers>,
    /// For each side and boundary, the least that it costs, if this round has told.
    found_ns: [Vec<Option<i64>>; 2],
    /// Given back when the search has ended.
    bounds: NodeBounds,
}

impl<'a> CutStateSearch<'a> {
    /// A search among all pairs of ideals, or among those that are known.
    pub(crate) fn new(query: &CutStateQuery<'a>, known: Option<&KnownStates>) -> Self {
        let (pairs, boundaries) = (query.pairs, query.boundaries);
        let windows = query.boundary_windows();
        let known = known.cloned();
        Self {
            known: known.unwrap_or_else(|| KnownStates::all(pairs, &windows)),
            limit_ns: query.limit_ns,
            all_ns: pairs.all_work_ns(),
            windows,
            crossers: Vec::new(),
            found_ns: [vec![None; boundaries], vec![None; boundaries]],
            bounds: pairs.index.take_bounds(),
            pairs,
        }
    }

    /// Looks at all boundaries, there and back, refining pairs where they are few; false if no pair can lie before one of them.
    pub(crate) fn round(&mut self, must_stop: &dyn Fn() -> bool) -> bool {
        let boundaries = self.windows.len();
        self.crossers.clone_from(&self.known.crossers);
        self.found_ns.iter_mut().for_each(|of| of.fill(None));
        let forth = (0..boundaries).map(|boundary| (1, boundary));
        let back = (0..boundaries).rev().map(|boundary| (0, boundary));
        for (side, boundary) in forth.chain(back) {
            if must_stop() {
                break;
            }
            let Some(least_ns) = self.refine(boundary, must_stop) else {
                return false;
            };
            self.found_ns[side][boundary] = Some(least_ns[side]);
        }
        true
    }

    /// Twice what may be charged at boundaries, if at each of them as much is as there is room for; `None` if there is too little
    /// for the work.
    pub(crate) fn slack_ns(&self) -> Option<u64> {
        let of =
            |boundary: usize| u64::try_from(self.most_ns(boundary).iter().sum::<i64>() - self.all_ns as i64);
        (0..self.windows.len()).map(|boundary| of(boundary).ok()).sum()
    }

    /// What either side of a boundary may cost, in ns.
    pub(crate) fn most_ns(&self, boundary: usize) -> [i64; 2] {
        let boundaries = self.windows.len();
        let [limit_ns, all_ns] = [self.limit_ns, self.all_ns].map(|ns| ns as i64);
        let next = [
            boundary.checked_sub(1),
            (boundary + 1 < boundaries).then_some(boundary + 1),
        ];
        let stages = [boundary + 1, boundaries - boundary];
        let charged_ns = &self.known.charged_ns;
        let others = [&charged_ns[..boundary], &charged_ns[boundary + 1..]];
        [0, 1].map(|side| {
            let charged_ns: u64 = others[side].iter().sum();
            let sum_ns = stages[side] as i64 * limit_ns - 2 * charged_ns as i64;
            let next_ns = match next[side] {
                None => Some(0),
                Some(next) => self.found_ns[1 - side][next].map(|least_ns| all_ns - least_ns),
            };
            next_ns.map_or(sum_ns, |next_ns| sum_ns.min(limit_ns + next_ns))
        })
    }

    /// Takes pairs away that cannot lie before a boundary, and refines the others where they are few; the least that either side
    /// costs, if there are pairs left.
    fn refine(&mut self, boundary: usize, must_stop: &dyn Fn() -> bool) -> Option<[i64; 2]> {
        let index = self.pairs.index;
        let limits = RefinementLimits {
            leaf_pairs: index.most_pairs,
            node_pairs: index.most_pairs / TUNING.leaf_pairs_per_node_pair,
            samples: false,
        };
        let costs = BoundaryCosts::shared(index, self.most_ns(boundary), &self.crossers, boundary);
        let bounds = mem::take(&mut self.bounds);
        let mut refinement = Refinement::new(self.pairs, &self.windows[boundary], costs, bounds);
        let refined = refinement.refine(&self.known.pairs[boundary], limits, must_stop);
        self.bounds = refinement.bounds;
        self.note(boundary, refined)
    }

    /// Notes the pairs before a boundary, what is charged there, and what crosses it.
    fn note(&mut self, boundary: usize, refined: RefinedPairs) -> Option<[i64; 2]> {
        if refined.pairs.nodes.is_empty() {
            return None;
        }
        let charged_ns = &mut self.known.charged_ns[boundary];
        *charged_ns = (refined.charged_ns.max(0) as u64 / 2).max(*charged_ns);
        let [first, second] = [0, 1].map(|p: usize| self.crossers_inside(&refined.pairs, p));
        let between: FixedBitSet = bits::members(refined.cut).collect();
        let crossers = &mut self.known.crossers[boundary];
        for (old, new) in crossers.iter_mut().zip([first, second, between]) {
            old.intersect_with(&new);
        }
        self.known.pairs[boundary] = refined.pairs;
        Some(refined.least_ns)
    }

    /// The transfers inside a component that cross behind some ideal below some pairs.
    fn crossers_inside(&self, NodePairs { level, nodes }: &NodePairs, p: usize) -> FixedBitSet {
        let tree = &self.pairs.index.trees[p];
        let component = &self.pairs.components[p];
        let bounds = &self.bounds[p][0];
        let mut crossers = FixedBitSet::with_capacity(component.transfers.len());
        let nodes = tree.distinct(*level, nodes.iter().map(|pair| pair[p]));
        let ideals = nodes.into_iter().flat_map(|node| tree.below(*level, node));
        for ideal in ideals.filter(|&ideal| bounds[ideal as usize].sum_ns < NEVER_NS) {
            component.crossing(ideal).for_each(|t| crossers.insert(t));
        }
        crossers
    }

    /// Gives back what was borrowed.
    pub(crate) fn end(self) -> (KnownStates, Vec<Crossers>, Vec<[BoundaryWindow; 2]>) {
        self.pairs.index.return_bounds(self.bounds);
        (self.known, self.crossers, self.windows)
    }
}
