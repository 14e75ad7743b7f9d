//! What all searches for the cut states of a problem share.

use std::sync::Mutex;

use crate::exact::bits;
use crate::exact::components::component::Component;
use crate::exact::components::cross::CrossTransfers;
use crate::exact::components::inner::InnerTransfer;
use crate::exact::cut_states::boundary_window::BoundaryWindow;
use crate::exact::cut_states::node_bound::NodeBound;
use crate::exact::cut_states::tree::IdealTree;

/// For each component and level of its tree, the bounds of its nodes, as far as they were asked for.
pub(crate) type NodeBounds = [Vec<Vec<NodeBound>>; 2];

/// What all searches for the cut states of a problem share.
pub(crate) struct CutStateIndex {
    /// The ideals of either component.
    pub trees: [IdealTree; 2],
    /// Transfers inside each component, and between the components. Of one with consumers in both components only those in its
    /// producer's count.
    pub transfers: [Vec<BoundaryTransfer>; 3],
    /// Costs are counted in so many ns.
    pub unit_ns: i64,
    /// Pairs of ideals before a boundary that a round looks at one by one, at most.
    pub most_pairs: usize,
    /// Bounds that are not in use: tens of megabytes, which take long to clear.
    idle_bounds: Mutex<Option<NodeBounds>>,
}

/// A transfer as boundaries see it: it can cross one that has some of its ends on either side.
pub(crate) struct BoundaryTransfer {
    ends: [Vec<usize>; 2],
    /// What one side pays, in ns.
    pub ns: u64,
}

impl BoundaryTransfer {
    /// Whether it may cross a boundary, as far as windows tell.
    pub(crate) fn may_cross(&self, windows: &[BoundaryWindow; 2]) -> bool {
        let ends = || (0..2).flat_map(|p| self.ends[p].iter().map(move |&end| (p, end)));
        ends().any(|(p, end)| bits::contains(&windows[p].possible, end))
            && ends().any(|(p, end)| !bits::contains(&windows[p].required, end))
    }

    /// Those inside a component.
    fn inside(component: &Component, p: usize) -> Vec<Self> {
        let of = |transfer: &InnerTransfer| {
            let is_end = |&at: &usize| at == transfer.producer || bits::contains(&transfer.consumers, at);
            let mut ends = [Vec::new(), Vec::new()];
            ends[p] = (0..component.items.len()).filter(is_end).collect();
            Self {
                ends,
                ns: transfer.load_ns(),
            }
        };
        component.transfers.iter().map(of).collect()
    }

    /// Those between the components.
    fn between(cross: &CrossTransfers) -> Vec<Self> {
        let of = cross.unicast.iter().map(|transfer| Self {
            ends: transfer.ends.map(|end| vec![end]),
            ns: transfer.total_ns,
        });
        of.collect()
    }
}

impl CutStateIndex {
    /// Time O(I t / 64) for I ideals and t transfers between the components. Rounds look at `most_pairs` before a boundary one by one,
    /// at most.
    pub(crate) fn new(components: &[Component; 2], cross: &CrossTransfers, most_pairs: usize) -> Self {
        let transfers = [
            BoundaryTransfer::inside(&components[0], 0),
            BoundaryTransfer::inside(&components[1], 1),
            BoundaryTransfer::between(cross),
        ];
        let sum_ns: u64 = transfers.iter().flatten().map(|transfer| transfer.ns).sum();
        let most = components.iter().map(Component::len).max().unwrap_or(1);
        let height = most.next_power_of_two().trailing_zeros() as usize;
        Self {
            trees: [0, 1].map(|p| IdealTree::new(&components[p], cross, p, height)),
            transfers,
            // All sums fit 32 bits.
            unit_ns: (sum_ns >> 30) as i64 + 1,
            most_pairs,
            idle_bounds: Mutex::new(None),
        }
    }

    /// Bounds to fill. What is there from earlier means nothing.
    pub(crate) fn take_bounds(&self) -> NodeBounds {
        let idle = self.idle_bounds.lock().ok().and_then(|mut idle| idle.take());
        idle.unwrap_or_else(|| {
            [0, 1].map(|p: usize| {
                let tree = &self.trees[p];
                (0..=tree.height())
                    .map(|level| vec![NodeBound::default(); tree.width(level)])
                    .collect()
            })
        })
    }

    /// Gives bounds back for the next search.
    pub(crate) fn return_bounds(&self, bounds: NodeBounds) {
        if let Ok(mut idle) = self.idle_bounds.lock() {
            *idle = Some(bounds);
        }
    }
}

/// Pairs of ideals of two components, and what searches for their cut states share.
#[derive(Clone, Copy)]
pub(crate) struct IndexedPairs<'a> {
    pub components: &'a [Component; 2],
    pub cross: &'a CrossTransfers,
    pub index: &'a CutStateIndex,
}

impl IndexedPairs<'_> {
    /// Work of all items, in ns.
    pub(crate) fn all_work_ns(&self) -> u64 {
        self.components.iter().map(Component::all_work_ns).sum()
    }
}
