//! Ideals of the items, and the stages that grow off their ends.
//!
//! An ideal holds what some first stages of a plan can hold together. Of three items where `a` comes before `b` and `c` they are `{}`,
//! `{a}`, `{a, b}`, `{a, c}` and all: a stage is the difference of two of them that lie in each other.

use std::collections::HashMap;

use crate::exact::bits;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// All ideals, by ascending number of items: the empty one first, that of all items last.
pub(super) struct Lattice {
    /// The items of each.
    sets: Vec<Box<[u64]>>,
    /// For each ideal, items that may be taken off its end, each with the ideal that it leaves.
    below: Vec<Vec<(u32, u32)>>,
}

/// How often the clock and memory are looked at: once in so many ideals.
const LOOK: usize = 1024;

/// So many are always there.
const FEW_BYTES: usize = 1 << 20;

impl Lattice {
    /// Ideals of items with these predecessors; only those along the numbering of the items, if plans are to follow it.
    pub(super) fn new(
        predecessors: &[Vec<usize>],
        in_order: bool,
        control: &Control,
    ) -> Result<Self, StoppedBy> {
        let items = predecessors.len();
        let mut successors = vec![Vec::new(); items];
        for (item, before) in predecessors.iter().enumerate() {
            before.iter().for_each(|&first| successors[first].push(item));
        }
        // From all items down, by descending number of items.
        let mut sets = vec![bits::full(items)];
        let mut below: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut position: HashMap<Box<[u64]>, usize> = HashMap::new();
        while below.len() < sets.len() {
            if below.len().is_multiple_of(LOOK) {
                control.check_limits()?;
                let bytes = bytes(items, sets.len());
                if bytes > FEW_BYTES && bytes > control.room_bytes() {
                    return Err(StoppedBy::MemoryLimit);
                }
            }
            let set = sets[below.len()].clone();
            let is_last = |item: &usize| successors[*item].iter().all(|&next| !bits::contains(&set, next));
            let ends: Vec<usize> = match in_order {
                true => bits::iter(&set).last().into_iter().collect(),
                false => bits::iter(&set).filter(is_last).collect(),
            };
            let mut own = Vec::with_capacity(ends.len());
            for item in ends {
                let mut left = set.clone();
                bits::remove(&mut left, item);
                let at = *position.entry(left).or_insert_with_key(|left| {
                    sets.push(left.clone());
                    sets.len() - 1
                });
                own.push((item as u32, at as u32));
            }
            below.push(own);
        }
        let last = sets.len() - 1;
        sets.reverse();
        below.reverse();
        let left = below.iter_mut().flatten();
        left.for_each(|(_, ideal)| *ideal = last as u32 - *ideal);
        Ok(Self { sets, below })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.sets.len() - 1
    }

    /// The items of an ideal.
    pub(super) fn set(&self, ideal: usize) -> &[u64] {
        &self.sets[ideal]
    }

    /// Items at the end of an ideal, each with the ideal that is left without it.
    pub(super) fn below(&self, ideal: usize) -> impl Iterator<Item = (usize, usize)> {
        let below = self.below[ideal].iter();
        below.map(|&(item, left)| (item as usize, left as usize))
    }

    /// A sum over the items of each ideal.
    pub(super) fn sums(&self, of_items: &[u64]) -> Vec<u64> {
        let mut sums = vec![0; self.len()];
        for ideal in 1..self.len() {
            if let Some((item, left)) = self.below(ideal).next() {
                sums[ideal] = sums[left] + of_items[item];
            }
        }
        sums
    }

    /// The items of the stage between two ideals.
    pub(super) fn stage(&self, ahead: usize, behind: usize) -> Vec<usize> {
        bits::without(self.set(behind), self.set(ahead)).collect()
    }
}

/// Bytes that so many ideals take while they are listed, about: sets are kept twice.
fn bytes(items: usize, ideals: usize) -> usize {
    ideals * (2 * 8 * bits::words(items) + 160)
}
