//! What a framework can say of recomputation: the same for all layers, or for as many blocks of every stage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Chosen, Knapsack, LayerWays, ModalItem, Modes, Part};
use crate::model::options::Recomputation;
use crate::model::recompute::{FULL, NONE};
use crate::problem::modes::recomputation::{Memory, Ways};

impl Modes {
    /// The ways in which a framework that can be told so much can run all layers, each by itself.
    pub(crate) fn recomputing(&self, told: Recomputation) -> Vec<Self> {
        let mut all = self.recomputing_all_alike(told);
        let names = names_of(self.layers().filter(|layer| layer.block.is_some()));
        if told == Recomputation::Alike && names.contains(FULL) && names.contains(NONE) {
            let counts = 1..=self.blocks_held();
            all.extend(counts.map(|count| self.clone().deciding_by(Knapsack::FirstBlocks(count))));
        }
        all
    }

    /// Those of them in which all blocks compute the same again.
    pub(crate) fn recomputing_all_alike(&self, told: Recomputation) -> Vec<Self> {
        let names = names_of(self.layers());
        let is_told = |name: &&&str| match told {
            Recomputation::Nothing => **name == NONE,
            Recomputation::AllBlocks => [NONE, FULL].contains(*name),
            Recomputation::Alike => true,
        };
        let names = names.iter().filter(is_told);
        names.filter_map(|name| self.keeping(name)).collect()
    }

    fn layers(&self) -> impl Iterator<Item = &LayerWays> {
        self.items
            .iter()
            .flatten()
            .flatten()
            .flat_map(|item| &item.layers)
    }

    /// Blocks that items hold; 0 where the network is no stack of these.
    pub(crate) fn blocks_held(&self) -> usize {
        self.blocks_held
    }

    /// How many chunks can hold something: a block each, or an item beside them, such as an embedding.
    pub(crate) fn most_parts(&self) -> usize {
        let is_beside = |of_degrees: &&Vec<Option<ModalItem>>| {
            let item = of_degrees.iter().flatten().next();
            item.is_some_and(|item| item.layers.iter().all(|layer| layer.block.is_none()))
        };
        self.blocks_held + self.items.iter().filter(is_beside).count()
    }

    /// How many of the blocks of these ranks, layer by layer, hold a layer of some item.
    pub(super) fn count_blocks(ranks: &[Option<usize>], items: &[Vec<Part>]) -> usize {
        let ranks = items
            .iter()
            .flatten()
            .filter_map(|part| ranks.get(part.layer).copied()?);
        ranks.collect::<BTreeSet<usize>>().len()
    }

    /// Every block in its ways of a name, its layers in those that keep everything where they have none, as all layers outside of blocks;
    /// `None` if some layer has neither, or some block no layer of the name.
    fn keeping(&self, name: &str) -> Option<Self> {
        let mut modes = self.clone();
        for item in Arc::make_mut(&mut modes.items).iter_mut().flatten().flatten() {
            let mut lacking: BTreeSet<usize> = item.layers.iter().filter_map(|layer| layer.block).collect();
            for layer in &mut item.layers {
                let has = |name: &str| layer.ways.iter().any(|way| way.recompute == name);
                let kept = match layer.block {
                    Some(_) if has(name) => name,
                    _ => NONE,
                };
                if !has(kept) {
                    return None;
                }
                layer.ways.retain(|way| way.recompute == kept);
                if let Some(block) = layer.block.filter(|_| kept == name) {
                    lacking.remove(&block);
                }
            }
            if !lacking.is_empty() {
                return None;
            }
        }
        Some(modes)
    }

    /// Whether a framework that can be told so much can be told what a plan computes again: nothing outside of blocks, and the same in all blocks, or
    /// all in the first so many of every stage and else nothing.
    pub(crate) fn can_be_told(&self, told: Recomputation, assignment: &[usize], chosen: &Chosen) -> bool {
        let Some(stages) = self.again_by_stage(assignment, chosen) else {
            return false;
        };
        let all: BTreeSet<&str> = stages.iter().flatten().copied().collect();
        let is_one = all.len() <= 1;
        match told {
            Recomputation::Nothing => all.iter().all(|&name| name == NONE),
            Recomputation::AllBlocks => is_one && all.iter().all(|name| [NONE, FULL].contains(name)),
            Recomputation::Alike => {
                let first = |names: &Vec<&str>| {
                    let count = names.iter().take_while(|&&name| name == FULL).count();
                    names[count..].iter().all(|&name| name == NONE).then_some(count)
                };
                let counts: Vec<Option<usize>> = stages.iter().map(first).collect();
                is_one || (counts[0].is_some() && counts.iter().all(|&count| count == counts[0]))
            }
        }
    }

    /// What each block of each stage computes again; `None` where layers of a block that can do the same do not, or others do something.
    fn again_by_stage(&self, assignment: &[usize], chosen: &Chosen) -> Option<Vec<Vec<&str>>> {
        let mut blocks: BTreeMap<(usize, usize), Vec<(&LayerWays, &str)>> = BTreeMap::new();
        for (item, &stage) in assignment.iter().enumerate() {
            let of_degree = self.items[item][chosen.stages[stage].degree].iter();
            for layer in of_degree.flat_map(|item| &item.layers) {
                let mode = chosen.layers[layer.layer];
                let name = layer.ways.iter().find(|way| way.mode == mode)?.recompute.as_str();
                match layer.block {
                    Some(block) => blocks.entry((stage, block)).or_default().push((layer, name)),
                    None if name == NONE => {}
                    None => return None,
                }
            }
        }
        let mut stages: Vec<Vec<&str>> = vec![Vec::new(); chosen.stages.len()];
        for ((stage, _), layers) in &blocks {
            let again = layers.iter().map(|(_, name)| *name).find(|&name| name != NONE);
            let name = again.unwrap_or(NONE);
            let is_alike = |(layer, own): &(&LayerWays, &str)| {
                let can = layer.ways.iter().any(|way| way.recompute == name);
                *own == name || (*own == NONE && !can)
            };
            if !layers.iter().all(is_alike) {
                return None;
            }
            stages[*stage].push(name);
        }
        Some(stages)
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
    limit: Memory,
) -> Option<Ways> {
    let blocks: BTreeSet<usize> = layers.iter().filter_map(|layer| layer.block).collect();
    let first: BTreeSet<usize> = blocks.into_iter().take(count).collect();
    let is_full = |block: &usize| {
        let mut own = layers.iter().filter(|layer| layer.block == Some(*block));
        own.any(|layer| layer.ways.iter().any(|way| way.recompute == FULL))
    };
    if first.len() < count || !first.iter().all(is_full) {
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
    limit
        .holds(layers, &ways, in_flight)
        .then_some(Ways { time, ways })
}

/// The names of what layers may compute again.
fn names_of<'l>(layers: impl Iterator<Item = &'l LayerWays>) -> BTreeSet<&'l str> {
    let ways = layers.flat_map(|layer| &layer.ways);
    ways.map(|way| way.recompute.as_str()).collect()
}
