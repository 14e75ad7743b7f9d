//! Ideals of a part as the leaves of a binary tree, those near each other that have many items in common.

use super::cross::Cross;
use super::part::{Ideal, Part};

/// The ideals of a part as leaves, and what those below each node have in common.
pub struct Tree {
    /// The ideals, in lexicographic order of their items.
    pub order: Vec<Ideal>,
    /// For each level from the leaves up, bits of the transfers to the other part with an end in some ideal below a node, and
    /// of those with an end in all, so many words a node.
    held: Vec<[Vec<u64>; 2]>,
    words: usize,
}

impl Tree {
    /// A tree with so many levels above its leaves. Time O(I log I) and memory O(I t / 64) for I ideals and t transfers.
    pub fn new(part: &Part, cross: &Cross, p: usize, height: usize) -> Self {
        let mut order: Vec<Ideal> = (0..part.len() as Ideal).collect();
        // Items are numbered from the first bit on, which here weighs most.
        let reversed = |ideal: Ideal| part.bits(ideal).iter().map(|word| word.reverse_bits());
        order.sort_unstable_by(|&one, &other| reversed(one).cmp(reversed(other)));
        let words = cross.words();
        let leaves: Vec<u64> = order.iter().flat_map(|&ideal| cross.held(p, ideal)).collect();
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
        Self { order, held, words }
    }

    /// The number of nodes of a level.
    pub fn width(&self, level: usize) -> usize {
        self.order.len().div_ceil(1 << level)
    }

    /// The ideals below a node.
    pub fn below(&self, level: usize, node: u32) -> &[Ideal] {
        let from = (node as usize) << level;
        &self.order[from..(from + (1 << level)).min(self.order.len())]
    }

    /// Bits of the transfers with an end in some ideal below a node, and of those with an end in all.
    pub fn held(&self, level: usize, node: u32) -> [&[u64]; 2] {
        let from = node as usize * self.words;
        let [some, all] = &self.held[level];
        [&some[from..from + self.words], &all[from..from + self.words]]
    }
}
