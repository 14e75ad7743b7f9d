//! Pairs of ideals that others dominate, where transfers are blocking.
#![doc = include_str!("../../../formulations/dominance.md")]

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::exact::ideal_pairs::part::{Ideal, Part, Towards};

/// What it takes to tell which pairs of ideals dominate others.
pub struct Dominance {
    /// For each part its ideals by [`key`].
    by_key: [HashMap<u64, Ideal>; 2],
    /// For each direction, part and ideal, those one item further, once they were asked for.
    further: [[Vec<Further>; 2]; 2],
}

/// The ideals one item further than one, once they were asked for.
type Further = OnceLock<Box<[Ideal]>>;

/// A number that tells sets of items apart, and that items join and leave by exclusive or: the output function of SplitMix64
/// (G. Steele et al., *Fast splittable pseudorandom number generators*, OOPSLA 2014).
fn key(items: impl Iterator<Item = usize>) -> u64 {
    let of_item = |item: usize| {
        let mut bits = (item as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    items.fold(0, |key, item| key ^ of_item(item))
}

impl Dominance {
    /// Time O(I n) for I ideals of n items.
    pub fn new(parts: &[Part; 2]) -> Self {
        let by_key = |part: &Part| {
            let keys = part.sums(|at| key([at].into_iter()), |a: u64, b| a ^ b);
            keys.into_iter().zip(0..).collect()
        };
        let none = || [0, 1].map(|p: usize| vec![OnceLock::new(); parts[p].len()]);
        Self {
            by_key: [by_key(&parts[0]), by_key(&parts[1])],
            further: [none(), none()],
        }
    }

    /// The ideals of a part that are one item further than one.
    fn further(&self, parts: &[Part; 2], towards: Towards, p: usize, ideal: Ideal) -> &[Ideal] {
        self.further[towards as usize][p][ideal as usize].get_or_init(|| {
            let part = &parts[p];
            let own = key(part.between(ideal, 0));
            let (whole, rest) = match towards {
                Towards::Start => (ideal, 0),
                Towards::End => (part.everything(), ideal),
            };
            let with = |item: usize| {
                let other = *self.by_key[p].get(&(own ^ key([item].into_iter())))?;
                part.differ_by(ideal, other, item).then_some(other)
            };
            part.between(whole, rest).filter_map(with).collect()
        })
    }

    /// Whether a pair one or two items further dominates this one. `kept_ns` tells the work beyond a pair and the transfers
    /// across it, `is_reached` whether the same stage can take what lies before it.
    pub fn is_dominated(
        &self,
        parts: &[Part; 2],
        towards: Towards,
        at: [Ideal; 2],
        kept_ns: impl Fn([Ideal; 2]) -> u64,
        is_reached: impl Fn([Ideal; 2]) -> bool,
    ) -> bool {
        let own_ns = kept_ns(at);
        let further = [0, 1].map(|p: usize| self.further(parts, towards, p, at[p]));
        // For each part what is kept with one item more there.
        let mut kept = [Vec::new(), Vec::new()];
        for p in 0..2 {
            for &ideal in further[p] {
                let with = if p == 0 { [ideal, at[1]] } else { [at[0], ideal] };
                let ns = kept_ns(with);
                if ns <= own_ns && is_reached(with) {
                    return true;
                }
                kept[p].push((ideal, ns));
            }
        }
        let [first, second] = kept;
        let mut both = first
            .iter()
            .flat_map(|one| second.iter().map(move |other| (one, other)));
        both.any(|(&(first, first_ns), &(second, second_ns))| {
            let with = [first, second];
            kept_ns(with) <= own_ns.min(first_ns).min(second_ns) && is_reached(with)
        })
    }
}
