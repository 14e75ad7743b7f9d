//! Pairs of ideals that others dominate, where transfers are blocking.
#![doc = include_str!("../../formulations/dominance.md")]

use super::part::{Ideal, Part, Towards};

/// What it takes to tell which pairs of ideals dominate others.
pub struct Dominance {
    /// For each direction, part and ideal, those one item further.
    further: [[Vec<Vec<Ideal>>; 2]; 2],
}

impl Dominance {
    /// Time O(I n) for I ideals of n items.
    pub fn new(parts: &[Part; 2]) -> Self {
        let above = [0, 1].map(|p: usize| parts[p].covers());
        let below = [0, 1].map(|p: usize| {
            let mut below = vec![Vec::new(); above[p].len()];
            for (ideal, larger) in (0..).zip(&above[p]) {
                larger
                    .iter()
                    .for_each(|&larger| below[larger as usize].push(ideal));
            }
            below
        });
        Self {
            further: [below, above],
        }
    }

    /// Whether a pair one or two items further dominates this one. `kept_ns` tells the work beyond a pair and the transfers
    /// across it, `is_reached` whether the same stage can take what lies before it.
    pub fn is_dominated(
        &self,
        towards: Towards,
        at: [Ideal; 2],
        kept_ns: impl Fn([Ideal; 2]) -> u64,
        is_reached: impl Fn([Ideal; 2]) -> bool,
    ) -> bool {
        let own_ns = kept_ns(at);
        let with = |at: [Ideal; 2]| (at, kept_ns(at));
        let further = |p: usize| &self.further[towards as usize][p][at[p] as usize];
        let first: Vec<_> = further(0).iter().map(|&first| with([first, at[1]])).collect();
        let second: Vec<_> = further(1).iter().map(|&second| with([at[0], second])).collect();
        let mut single = first.iter().chain(&second);
        let mut both = first
            .iter()
            .flat_map(|one| second.iter().map(move |other| (one, other)));
        single.any(|&(at, ns)| ns <= own_ns && is_reached(at))
            || both.any(|((one, one_ns), (other, other_ns))| {
                let (at, ns) = with([one[0], other[1]]);
                ns <= own_ns.min(*one_ns).min(*other_ns) && is_reached(at)
            })
    }
}
