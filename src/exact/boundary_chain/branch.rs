//! The most that a set before a boundary carries: branch and bound.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::exact::boundary_chain::ChainEffort;
use crate::exact::boundary_chain::boundary::{Boundary, Candidate, Sides};
use crate::exact::boundary_chain::relax::Relaxed;

/// What a set before a boundary must keep to be of interest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// What it needs, at most, in ns.
    pub most_need_ns: i128,
    /// What it carries, at least, in ns.
    pub least_carried_ns: i128,
}

/// What sets before a boundary carry.
pub(super) struct Most {
    /// None carries more, in ns.
    pub most_ns: i128,
    /// The one that carries most of those found.
    pub best: Option<Candidate>,
}

/// Some of the sets: those on given sides.
struct Branch {
    sides: Sides,
    relaxed: Relaxed,
}

/// The most that wanted sets carry; `None` where there are none.
///
/// The most promising sets are parted first, by an item that some of them have and others have not.
pub(super) fn most_carried(boundary: &Boundary, wanted: Wanted, effort: ChainEffort) -> Option<Most> {
    let all = boundary.undecided();
    effort.take(boundary.size());
    let relaxed = boundary.relax(&all, wanted.most_need_ns)?;
    let mut best = relaxed.within.clone();
    let mut queue = BinaryHeap::from([(relaxed.most_ns, Reverse(0))]);
    let mut branches = vec![Branch { sides: all, relaxed }];
    let mut nodes = 1;
    let carried = |best: &Option<Candidate>| best.as_ref().map(|set| set.totals.carried_ns);
    let most_ns = loop {
        // Without branches left there is no set.
        let (most_ns, Reverse(at)) = queue.pop()?;
        if most_ns < wanted.least_carried_ns {
            return None;
        }
        let is_over =
            carried(&best).is_some_and(|ns| most_ns <= ns) || nodes >= effort.nodes || effort.is_over();
        let Some(item) = branches[at].relaxed.undecided.filter(|_| !is_over) else {
            break most_ns;
        };
        for sides in boundary.decide(&branches[at].sides, item) {
            nodes += 1;
            effort.take(boundary.size());
            let Some(relaxed) = boundary.relax(&sides, wanted.most_need_ns) else {
                continue;
            };
            let more = relaxed.within.as_ref().map(|set| set.totals.carried_ns);
            if more > carried(&best) {
                best.clone_from(&relaxed.within);
            }
            // What is said of some sets holds of fewer.
            queue.push((relaxed.most_ns.min(most_ns), Reverse(branches.len())));
            branches.push(Branch { sides, relaxed });
        }
    };
    Some(Most { most_ns, best })
}
