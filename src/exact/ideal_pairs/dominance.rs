//! Pairs of ideals that others dominate, where transfers are blocking.
#![doc = include_str!("../../../formulations/dominance.md")]

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::exact::components::component::Component;
use crate::exact::components::ideal::{Ideal, Towards};

/// What it takes to tell which pairs of ideals dominate others.
pub(super) struct Dominance {
    /// For each component its ideals by [`key`].
    by_key: [HashMap<u64, Ideal>; 2],
    /// For each direction, component and ideal, those one item further.
    one_further: [[Vec<OneFurther>; 2]; 2],
}

/// The ideals one item further than one, once they were asked for.
type OneFurther = OnceLock<Box<[Ideal]>>;

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
    pub(super) fn new(components: &[Component; 2]) -> Self {
        let by_key = |component: &Component| {
            let keys = component.sums(|at| key([at].into_iter()), |a: u64, b| a ^ b);
            keys.into_iter().zip(0..).collect()
        };
        let none = || [0, 1].map(|p: usize| vec![OnceLock::new(); components[p].len()]);
        Self {
            by_key: [by_key(&components[0]), by_key(&components[1])],
            one_further: [none(), none()],
        }
    }

    /// For each component, the ideals that are one item further than that of a pair.
    pub(super) fn one_further(
        &self,
        components: &[Component; 2],
        towards: Towards,
        at: [Ideal; 2],
    ) -> [&[Ideal]; 2] {
        [0, 1].map(|p: usize| {
            let of_component = &self.one_further[towards as usize][p];
            let find = || self.find_one_further(&components[p], towards, p, at[p]);
            &**of_component[at[p] as usize].get_or_init(find)
        })
    }

    fn find_one_further(
        &self,
        component: &Component,
        towards: Towards,
        p: usize,
        ideal: Ideal,
    ) -> Box<[Ideal]> {
        let own = key(component.between(ideal, 0));
        let (whole, rest) = match towards {
            Towards::Start => (ideal, 0),
            Towards::End => (component.everything(), ideal),
        };
        let with = |item: usize| {
            let other = *self.by_key[p].get(&(own ^ key([item].into_iter())))?;
            component.differ_by(ideal, other, item).then_some(other)
        };
        component.between(whole, rest).filter_map(with).collect()
    }
}

/// Whether a pair one or two items further dominates this one, at most one in each component. `load_beyond_ns` tells the work beyond
/// a pair and the transfers across it, `is_reached` whether the same stage can take what lies before it.
pub(super) fn is_dominated(
    at: [Ideal; 2],
    one_further: [&[Ideal]; 2],
    load_beyond_ns: impl Fn([Ideal; 2]) -> u64,
    is_reached: impl Fn([Ideal; 2]) -> bool,
) -> bool {
    let own_ns = load_beyond_ns(at);
    // For each component the load beyond with one item more there.
    let mut loads = [Vec::new(), Vec::new()];
    for p in 0..2 {
        for &ideal in one_further[p] {
            let with = if p == 0 { [ideal, at[1]] } else { [at[0], ideal] };
            let ns = load_beyond_ns(with);
            if ns <= own_ns && is_reached(with) {
                return true;
            }
            loads[p].push((ideal, ns));
        }
    }
    let [first, second] = loads;
    let mut both = first
        .iter()
        .flat_map(|one| second.iter().map(move |other| (one, other)));
    both.any(|(&(first, first_ns), &(second, second_ns))| {
        let with = [first, second];
        load_beyond_ns(with) <= own_ns.min(first_ns).min(second_ns) && is_reached(with)
    })
}
