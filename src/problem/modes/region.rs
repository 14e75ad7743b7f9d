//! What a framework can say of recomputation: the same for all layers, or for as many blocks of every stage.

use std::collections::{BTreeMap, BTreeSet};

use super::{Chosen, Knapsack, LayerWays, Modes};
use crate::model::recompute::{FULL, NONE};
use crate::problem::modes::recomputation::{Ways, bytes_of};

impl Modes {
    /// The ways in which such a framework can run all layers, each by itself.
    pub(crate) fn recomputing_alike(&self) -> Vec<Self> {
        let mut all = self.recomputing_all_alike();
        let names = self.names();
        if names.contains(FULL) && names.contains(NONE) {
            let counts = 1..=self.blocks_held();
            all.extend(counts.map(|count| self.clone().deciding_by(Knapsack::FirstBlocks(count))));
        }
        all
    }

    /// Those of them in which all layers compute the same again.
    pub(crate) fn recomputing_all_alike(&self) -> Vec<Self> {
        let names = self.names();
        names.iter().filter_map(|name| self.keeping(name)).collect()
    }

    fn layers(&self) -> impl Iterator<Item = &LayerWays> {
        self.items
            .iter()
            .flatten()
            .flatten()
            .flat_map(|item| &item.layers)
    }

    fn names(&self) -> BTreeSet<&str> {
        let ways = self.layers().flat_map(|layer| &layer.ways);
        ways.map(|way| way.recompute.as_str()).collect()
    }

    fn blocks_held(&self) -> usize {
        let blocks: BTreeSet<usize> = self.layers().filter_map(|layer| layer.block).collect();
        blocks.len()
    }

    /// Every layer in its ways of a name, or those that keep everything where it has none; `None` if some layer has neither.
    fn keeping(&self, name: &str) -> Option<Self> {
        let mut modes = self.clone();
        for item in modes.items.iter_mut().flatten().flatten() {
            for layer in &mut item.layers {
                let has = |name: &str| layer.ways.iter().any(|way| way.recompute == name);
                let kept = if has(name) { name } else { NONE };
                if !has(kept) {
                    return None;
                }
                layer.ways.retain(|way| way.recompute == kept);
            }
        }
        Some(modes)
    }

    /// Whether a plan computes the same again in all layers, or all in the first so many blocks of every stage and else nothing.
    pub(crate) fn recomputes_alike(&self, assignment: &[usize], chosen: &Chosen) -> bool {
        // The name of each layer by stage and block.
        let mut names: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
        for (item, &stage) in assignment.iter().enumerate() {
            let of_degree = self.items[item][chosen.stages[stage].degree].iter();
            for layer in of_degree.flat_map(|item| &item.layers) {
                let way = layer
                    .ways
                    .iter()
                    .find(|way| way.mode == chosen.layers[layer.layer]);
                if let (Some(way), Some(block)) = (way, layer.block) {
                    names.entry((stage, block)).or_default().insert(&way.recompute);
                }
            }
        }
        let all: BTreeSet<&str> = names
            .values()
            .flatten()
            .copied()
            .filter(|&name| name != NONE)
            .collect();
        let again = |names: &BTreeSet<&str>| names.iter().any(|&name| name != NONE);
        if all.is_empty() || (all.len() == 1 && names.values().all(again)) {
            return true;
        }
        let stages = names.keys().next_back().map_or(0, |last| last.0 + 1);
        let leading = |stage: usize| -> Option<usize> {
            let own: Vec<bool> = names
                .range((stage, 0)..(stage + 1, 0))
                .map(|(_, names)| again(names))
                .collect();
            let count = own.iter().take_while(|&&again| again).count();
            (!own[count..].contains(&true)).then_some(count)
        };
        let counts: Vec<Option<usize>> = (0..stages).map(leading).collect();
        all == BTreeSet::from([FULL]) && counts.iter().all(|&count| count.is_some() && count == counts[0])
    }

    /// How many stages there can be at most, where each computes some of its own blocks again.
    pub(crate) fn most_stages(&self) -> Option<usize> {
        match self.knapsack {
            Knapsack::FirstBlocks(count) => Some(self.blocks_held() / count),
            Knapsack::Exact | Knapsack::Greedy => None,
        }
    }
}

/// The first so many blocks of a stage compute all again that they can, the others nothing; `None` where it has fewer, or no memory.
pub(super) fn first_blocks_within(
    layers: &[&LayerWays],
    (count, in_flight): (usize, u64),
    limit_bytes: u64,
) -> Option<Ways> {
    let blocks: BTreeSet<usize> = layers.iter().filter_map(|layer| layer.block).collect();
    let first: BTreeSet<usize> = blocks.into_iter().take(count).collect();
    if first.len() < count {
        return None;
    }
    let way = |layer: &&LayerWays| {
        let of = |name: &str| layer.ways.iter().position(|way| way.recompute == name);
        let again = layer.block.is_some_and(|block| first.contains(&block));
        let full = of(FULL).filter(|_| again);
        full.or(of(NONE))
    };
    let ways: Vec<usize> = layers.iter().map(way).collect::<Option<_>>()?;
    let time = layers
        .iter()
        .zip(&ways)
        .map(|(layer, &way)| layer.ways[way].time())
        .sum();
    (bytes_of(layers, &ways, in_flight) <= limit_bytes).then_some(Ways { time, ways })
}
