//! Ideals in cells: what no plan beats where stages between ideals are too many to be looked at.
//!
//! A cell holds ideals of nearly the same forward and of nearly the same backward work. A stage from an ideal of one to an ideal of another takes at least the difference of
//! their ends that are nearest, whatever items and transfers lie between, so that a path over cells is bounded no higher than any plan that goes that way: a
//! state-space relaxation (N. Christofides, A. Mingozzi, P. Toth, *State-space relaxation procedures for the computation of bounds to routing problems*, Networks 11(2), 1981). A
//! stage may lie in one cell; such a plan is a path of fewer stages, of which so many more count as to come.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use crate::problem::Problem;
use crate::search::ideals::Ideals;

/// Cells are as small as leaves so many of them: some seconds.
const MOST_CELLS: usize = 4_000;

/// Cells of ideals, as plans may pass them: the empty one first, all items last.
pub(super) struct Cells {
    /// The least and the most forward work, backward work and both of an ideal of each, in ns.
    works: Vec<[[u64; 3]; 2]>,
}

impl Cells {
    pub(super) fn new(problem: &Problem, ideals: &Ideals) -> Self {
        let work = |set: &FixedBitSet| {
            let items = set.ones().map(|item| &problem.items[item]);
            let parts = items.map(|item| [item.forward_ns, item.backward_ns, item.work_ns()]);
            parts.fold([0; 3], |sum, own| [0, 1, 2].map(|part| sum[part] + own[part]))
        };
        let works: Vec<[u64; 3]> = ideals.sets.iter().map(work).collect();
        let last = works.len() - 1;
        let mut width_ns = works[last][2] / (2 * MOST_CELLS as u64) + 1;
        loop {
            let mut cells: BTreeMap<[u64; 3], Vec<usize>> = BTreeMap::new();
            for (ideal, work) in works.iter().enumerate().take(last).skip(1) {
                // What holds another ideal is in no cell before the other's.
                let [forward, backward] = [0, 1].map(|pass| work[pass] / width_ns);
                let place = [forward + backward, forward, backward];
                cells.entry(place).or_default().push(ideal);
            }
            if cells.len() + 2 > MOST_CELLS {
                // A little wider.
                width_ns += width_ns / 4 + 1;
                continue;
            }
            let ends = [vec![0], vec![last]];
            let all = ends[..1].iter().chain(cells.values()).chain(&ends[1..]);
            let ends_of = |held: &Vec<usize>| {
                let end = |end: fn(u64, u64) -> u64| {
                    let works = held.iter().map(|&ideal| works[ideal]);
                    works.reduce(|one, other| [0, 1, 2].map(|part| end(one[part], other[part])))
                };
                [end(u64::min), end(u64::max)].map(Option::unwrap_or_default)
            };
            let works = all.map(ends_of).collect();
            return Self { works };
        }
    }

    /// The least work of each cell's ideals, in ns.
    pub(super) fn work_ns(&self) -> impl Iterator<Item = u64> {
        self.works.iter().map(|[least, _]| least[2])
    }

    /// The least forward work, backward work and both of stages from a cell to a later one; `None` where no ideal of that holds one of the other.
    pub(super) fn between_ns(&self, from: usize, to: usize) -> Option<[u64; 3]> {
        let ([fewest, most], [least, highest]) = (self.works[from], self.works[to]);
        let may_hold = (0..3).all(|part| fewest[part] <= highest[part]);
        let [forward_ns, backward_ns, both_ns] = [0, 1, 2].map(|part| least[part].saturating_sub(most[part]));
        may_hold.then_some([forward_ns, backward_ns, both_ns.max(forward_ns + backward_ns)])
    }
}
