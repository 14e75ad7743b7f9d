//! What all searches for fronts of a problem need.

use std::sync::Mutex;

use crate::exact::cut_states::costs::Own;
use crate::exact::cut_states::cross::Cross;
use crate::exact::cut_states::look::{Owns, Zone};
use crate::exact::cut_states::tree::Tree;
use crate::exact::ideal_pairs::part::{Inside, Part};
use crate::exact::ideals::growth;

/// Looking at a pair of nodes, in the time of looking at so many of leaves.
const LEAVES: usize = 64;

/// What all searches for fronts of a problem need.
pub struct Ground {
    /// The ideals of either part.
    pub trees: [Tree; 2],
    /// The level that has one node in either.
    pub top: usize,
    /// Transfers inside each part, and between the parts. Of one with consumers in both parts only those in its producer's
    /// count.
    pub links: [Vec<Link>; 3],
    /// Costs are counted in so many ns.
    pub unit_ns: i64,
    /// Pairs of ideals before a boundary that are looked at one by one, at most.
    most_pairs: usize,
    /// Room that is not used: tens of megabytes, which take long to clear.
    spare: Mutex<Option<Owns>>,
}

/// A transfer as boundaries see it: it can cross one that has some of its ends on either side.
pub struct Link {
    ends: [Vec<usize>; 2],
    /// What one side pays, in ns.
    pub ns: u64,
}

impl Link {
    /// Whether it may cross a boundary, as far as windows tell.
    pub fn may_cross(&self, zones: &[Zone; 2]) -> bool {
        let ends = || (0..2).flat_map(|p| self.ends[p].iter().map(move |&end| (p, end)));
        ends().any(|(p, end)| growth::has(&zones[p].may, end))
            && ends().any(|(p, end)| !growth::has(&zones[p].must, end))
    }
}

impl Ground {
    /// Time O(I t / 64) for I ideals and t transfers between the parts. At most `most_pairs` before a boundary are looked at
    /// one by one.
    pub fn new(parts: &[Part; 2], cross: &Cross, most_pairs: usize) -> Self {
        let [first, second] = [0, 1].map(|p| links_inside(&parts[p], p));
        let between = cross.narrow.iter().map(|transfer| Link {
            ends: transfer.ends.map(|end| vec![end]),
            ns: transfer.total_ns,
        });
        let links = [first, second, between.collect()];
        let sum_ns: u64 = links.iter().flatten().map(|link| link.ns).sum();
        let most = parts.iter().map(Part::len).max().unwrap_or(1);
        let top = most.next_power_of_two().trailing_zeros() as usize;
        Self {
            trees: [0, 1].map(|p| Tree::new(&parts[p], cross, p, top)),
            top,
            links,
            unit_ns: (sum_ns >> 30) as i64 + 1,
            most_pairs,
            spare: Mutex::new(None),
        }
    }

    /// Room for what nodes come to. What is there from earlier means nothing.
    pub fn owns(&self) -> Owns {
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.take());
        spare.unwrap_or_else(|| {
            [0, 1].map(|p: usize| {
                (0..=self.top)
                    .map(|level| vec![Own::default(); self.trees[p].width(level)])
                    .collect()
            })
        })
    }

    /// Gives room back.
    pub fn keep(&self, owns: Owns) {
        if let Ok(mut spare) = self.spare.lock() {
            *spare = Some(owns);
        }
    }

    /// How closely rounds look.
    pub fn closeness(&self) -> Closeness {
        Closeness {
            leaves: self.most_pairs,
            nodes: self.most_pairs / LEAVES,
            thins: false,
        }
    }
}

/// How closely a round looks.
#[derive(Clone, Copy)]
pub struct Closeness {
    /// Up to so many pairs of ideals below the nodes of a boundary it looks at each.
    pub leaves: usize,
    /// Up to so many pairs of nodes it goes on to those below.
    pub nodes: usize,
    /// Whether it goes on with some of them where they are more.
    pub thins: bool,
}

/// The transfers inside a part.
fn links_inside(part: &Part, p: usize) -> Vec<Link> {
    let of = |transfer: &Inside| {
        let is_end = |&at: &usize| at == transfer.producer || growth::has(&transfer.consumers, at);
        let mut ends = [Vec::new(), Vec::new()];
        ends[p] = (0..part.items.len()).filter(is_end).collect();
        Link {
            ends,
            ns: transfer.load_ns(),
        }
    };
    part.transfers.iter().map(of).collect()
}
