//! What ideals of a component cost at a boundary, one after the other: those near each other differ by little.

use crate::exact::bits;
use crate::exact::components::ideal::Ideal;
use crate::exact::cut_states::boundary_window::BoundaryWindow;
use crate::exact::cut_states::costs::BoundaryCosts;
use crate::exact::cut_states::index::IndexedPairs;
use crate::exact::cut_states::node_bound::{BoundaryCost, NodeBound, plus};

/// Keeps what the last ideal cost, and changes it for the next one.
pub(super) struct LeafBounds<'a> {
    pairs: IndexedPairs<'a>,
    /// The component.
    p: usize,
    window: &'a BoundaryWindow,
    costs: &'a BoundaryCosts,
    /// Work of all items of the component.
    all_ns: i64,
    last: Ideal,
    /// What the last ideal cost: transfers inside the component, and ends of those between the components.
    inside: BoundaryCost,
    ends: BoundaryCost,
}

impl<'a> LeafBounds<'a> {
    /// Starts from the empty ideal.
    pub(super) fn new(
        pairs: IndexedPairs<'a>,
        p: usize,
        window: &'a BoundaryWindow,
        costs: &'a BoundaryCosts,
    ) -> Self {
        Self {
            pairs,
            p,
            window,
            costs,
            all_ns: pairs.components[p].all_work_ns() as i64,
            last: 0,
            inside: [0; 2],
            ends: [0; 2],
        }
    }

    /// What an ideal costs.
    pub(super) fn of(&mut self, ideal: Ideal) -> NodeBound {
        let IndexedPairs {
            components,
            cross,
            index,
        } = self.pairs;
        let (p, last) = (self.p, self.last);
        let component = &components[p];
        if !self.window.admits(component, ideal) {
            return NodeBound::NEVER;
        }
        let crossing = component
            .crossing_bits(ideal)
            .iter()
            .zip(component.crossing_bits(last));
        let crossing = crossing.map(|(&new, &old)| (new, old));
        self.inside = exchanged(self.inside, crossing, &self.costs.inside[p]);
        let incident = cross.incident(p, ideal).zip(cross.incident(p, last));
        self.ends = exchanged(self.ends, incident, &self.costs.ends);
        self.last = ideal;
        let inside_ns = self.inside.map(|units| i64::from(units) * index.unit_ns);
        let work_ns = component.work_ns(ideal, 0) as i64;
        NodeBound::of_leaf(
            [inside_ns[0] + work_ns, inside_ns[1] + self.all_ns - work_ns],
            self.ends,
        )
    }
}

/// The sum of what transfers cost once some of them were exchanged for others, which come as words of new and old ones.
fn exchanged(
    mut sum: BoundaryCost,
    words: impl Iterator<Item = (u64, u64)>,
    costs: &[BoundaryCost],
) -> BoundaryCost {
    for (at, (new, old)) in words.enumerate() {
        for t in bits::members([new & !old]) {
            sum = plus(sum, costs[64 * at + t]);
        }
        for t in bits::members([old & !new]) {
            sum = plus(sum, costs[64 * at + t].map(|units| -units));
        }
    }
    sum
}
