//! Ideals of a component as the leaves of a binary tree, those near each other that have about the same work.

use std::ops::Range;

use fixedbitset::FixedBitSet;

use crate::exact::components::component::Component;
use crate::exact::components::cross::CrossTransfers;
use crate::exact::components::ideal::Ideal;

/// The ideals of a component as leaves, and what those below each node have in common.
pub(crate) struct IdealTree {
    ideals: usize,
    /// For each level from the leaves up, bits of the transfers to the other component with an end in some ideal below a node, and
    /// of those with an end in all, so many words a node.
    incident: Vec<[Vec<u64>; 2]>,
    words: usize,
}

impl IdealTree {
    /// A tree with so many levels above its leaves. Time and memory O(I t / 64) for I ideals and t transfers.
    pub(crate) fn new(component: &Component, cross: &CrossTransfers, p: usize, height: usize) -> Self {
        let words = cross.words();
        let ideals = 0..component.len() as Ideal;
        let leaves: Vec<u64> = ideals.flat_map(|ideal| cross.incident(p, ideal)).collect();
        let mut incident = vec![[leaves.clone(), leaves]];
        for level in 0..height {
            let [some, all] = &incident[level];
            let above = [
                join_pairs(some, words, |a, b| a | b),
                join_pairs(all, words, |a, b| a & b),
            ];
            incident.push(above);
        }
        Self {
            ideals: component.len(),
            incident,
            words,
        }
    }

    /// The level of its root.
    pub(crate) fn height(&self) -> usize {
        self.incident.len() - 1
    }

    /// The number of nodes of a level.
    pub(crate) fn width(&self, level: usize) -> usize {
        self.ideals.div_ceil(1 << level)
    }

    /// The ideals below a node.
    pub(crate) fn below(&self, level: usize, node: u32) -> Range<Ideal> {
        let from = (node as usize) << level;
        from as Ideal..(from + (1 << level)).min(self.ideals) as Ideal
    }

    /// Bits of the transfers with an end in some ideal below a node, and of those with an end in all.
    pub(crate) fn incident(&self, level: usize, node: u32) -> [&[u64]; 2] {
        let from = node as usize * self.words;
        let [some, all] = &self.incident[level];
        [&some[from..from + self.words], &all[from..from + self.words]]
    }

    /// Distinct nodes of a level, in ascending order.
    pub(crate) fn distinct(&self, level: usize, nodes: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut set = FixedBitSet::with_capacity(self.width(level));
        nodes.for_each(|node| set.insert(node as usize));
        set.ones().map(|node| node as u32).collect()
    }
}

/// Joins the sets of every two nodes; one without a neighbour stays as it is.
fn join_pairs(sets: &[u64], words: usize, join: fn(u64, u64) -> u64) -> Vec<u64> {
    let pairs = sets.chunks(2 * words.max(1));
    let joined = pairs.flat_map(|pair| {
        let (one, other) = pair.split_at(words);
        let other = if other.is_empty() { one } else { other };
        one.iter().zip(other).map(move |(&one, &other)| join(one, other))
    });
    joined.collect()
}
