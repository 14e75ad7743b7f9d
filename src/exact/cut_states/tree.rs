//! Ideals of a part as the leaves of a binary tree, those near each other that have about the same work.

use std::ops::Range;

use crate::exact::cut_states::cross::Cross;
use crate::exact::ideal_pairs::part::{Ideal, Part};

/// The ideals of a part as leaves, and what those below each node have in common.
pub struct Tree {
    ideals: usize,
    /// For each level from the leaves up, bits of the transfers to the other part with an end in some ideal below a node, and
    /// of those with an end in all, so many words a node.
    held: Vec<[Vec<u64>; 2]>,
    words: usize,
}

impl Tree {
    /// A tree with so many levels above its leaves. Time and memory O(I t / 64) for I ideals and t transfers.
    pub fn new(part: &Part, cross: &Cross, p: usize, height: usize) -> Self {
        let words = cross.words();
        let ideals = 0..part.len() as Ideal;
        let leaves: Vec<u64> = ideals.flat_map(|ideal| cross.held(p, ideal)).collect();
        let mut held = vec![[leaves.clone(), leaves]];
        for level in 0..height {
            let [some, all] = &held[level];
            let join = |of: &[u64], join: fn(u64, u64) -> u64| -> Vec<u64> {
                let nodes = of.chunks(2 * words.max(1));
                nodes
                    .flat_map(|pair| {
                        let (one, other) = pair.split_at(words);
                        let other = if other.is_empty() { one } else { other };
                        one.iter().zip(other).map(move |(&one, &other)| join(one, other))
                    })
                    .collect()
            };
            held.push([join(some, |a, b| a | b), join(all, |a, b| a & b)]);
        }
        Self {
            ideals: part.len(),
            held,
            words,
        }
    }

    /// The number of nodes of a level.
    pub fn width(&self, level: usize) -> usize {
        self.ideals.div_ceil(1 << level)
    }

    /// The ideals below a node.
    pub fn below(&self, level: usize, node: u32) -> Range<Ideal> {
        let from = (node as usize) << level;
        from as Ideal..(from + (1 << level)).min(self.ideals) as Ideal
    }

    /// Bits of the transfers with an end in some ideal below a node, and of those with an end in all.
    pub fn held(&self, level: usize, node: u32) -> [&[u64]; 2] {
        let from = node as usize * self.words;
        let [some, all] = &self.held[level];
        [&some[from..from + self.words], &all[from..from + self.words]]
    }
}
