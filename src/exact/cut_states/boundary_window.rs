//! The ideals of a component that stage windows let lie before a boundary.

use std::ops::RangeInclusive;

use crate::exact::bits;
use crate::exact::components::component::Component;
use crate::exact::components::ideal::Ideal;

/// The items of a component that can lie before a boundary, and those that must, as bits.
pub(crate) struct BoundaryWindow {
    pub possible: Box<[u64]>,
    pub required: Box<[u64]>,
    /// Their work in all.
    pub work_ns: RangeInclusive<u64>,
}

impl BoundaryWindow {
    /// Whether an ideal of the component can lie before the boundary.
    pub(crate) fn admits(&self, component: &Component, ideal: Ideal) -> bool {
        let members = component.members(ideal);
        self.work_ns.contains(&component.work_ns(ideal, 0))
            && bits::is_subset(members, &self.possible)
            && bits::is_subset(&self.required, members)
    }
}
