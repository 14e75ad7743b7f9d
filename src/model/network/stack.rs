//! Stacks: networks of numbered blocks, such as the layers of a transformer, which frameworks count and lay on stages whole.
//!
//! A block is known by a number in the names of its layers: `h.3.attn`, `encoder/layer.3/query`, `b3.norm1`. Layers of multi-token
//! prediction are known by `mtp`: `mtp.0.attn`, `model.mtp/projection`. Blocks of a tower that sees are known by `vision` or
//! `visual`, as `model.visual.blocks.3`: beside others they are none, since frameworks run such a tower whole, before the blocks.

use std::collections::BTreeMap;

use super::{Layer, Network};

/// The blocks of a network, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// What stands before the number in their names.
    pub(crate) family: String,
    /// Positions of the layers of each block.
    pub(crate) blocks: BTreeMap<u64, Vec<usize>>,
}

impl Network {
    /// The blocks of the one family that there is among the layers that count; `None` where there is none, or several.
    pub(crate) fn stack(&self, counts: impl Fn(usize) -> bool) -> Option<Stack> {
        let mut families: BTreeMap<String, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
        for (position, layer) in self.layers.iter().enumerate().filter(|(i, _)| counts(*i)) {
            let block = block_of(&layer.id).filter(|_| predictor_of(&layer.id).is_none());
            if let Some((family, number)) = block {
                let blocks = families.entry(family).or_default();
                blocks.entry(number).or_default().push(position);
            }
        }
        families.retain(|_, blocks| blocks.len() > 1);
        if !families.keys().all(|family| sees(family)) {
            families.retain(|family, _| !sees(family));
        }
        let (family, blocks) = families.pop_first()?;
        families.is_empty().then_some(Stack { family, blocks })
    }

    /// Of some layers those of multi-token prediction, by its layers, and the others.
    pub(crate) fn predictors(&self, of: Vec<usize>) -> (BTreeMap<u64, Vec<usize>>, Vec<usize>) {
        let mut predictors: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut others = Vec::new();
        for at in of {
            match predictor_of(&self.layers[at].id) {
                Some(number) => predictors.entry(number).or_default().push(at),
                None => others.push(at),
            }
        }
        (predictors, others)
    }

    /// For each layer the rank of its block in the stack of forward layers; empty unless that is a stack of blocks with equally many
    /// parameters, as frameworks that count blocks take them to be.
    pub(crate) fn equal_blocks(&self) -> Vec<Option<usize>> {
        let Some(stack) = self.stack(|layer| !self.layers[layer].backward) else {
            return Vec::new();
        };
        let bytes = |members: &Vec<usize>| -> u64 {
            let of = |layer: &Layer| layer.parameter_bytes;
            members.iter().map(|&member| of(&self.layers[member])).sum()
        };
        let mut sizes = stack.blocks.values().map(bytes);
        let first = sizes.next().unwrap_or(0);
        if first == 0 || sizes.any(|size| size != first) {
            return Vec::new();
        }
        self.ranks(&stack)
    }

    /// For each layer the rank of its block in the stack of forward layers; empty where that is none.
    pub(crate) fn block_ranks(&self) -> Vec<Option<usize>> {
        let stack = self.stack(|layer| !self.layers[layer].backward);
        stack.map_or_else(Vec::new, |stack| self.ranks(&stack))
    }

    fn ranks(&self, stack: &Stack) -> Vec<Option<usize>> {
        let mut rank_of = vec![None; self.layers.len()];
        for (rank, members) in stack.blocks.values().enumerate() {
            members.iter().for_each(|&member| rank_of[member] = Some(rank));
        }
        rank_of
    }
}

/// The family and number of the block that a layer belongs to: the first part of its name that ends in digits, with what
/// stands before them.
fn block_of(id: &str) -> Option<(String, u64)> {
    let mut end = 0;
    for part in id.split(['.', '/']) {
        end += part.len();
        let digits = part.len() - part.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let family = &id[..end - digits];
            return Some((family.to_owned(), id[end - digits..end].parse().ok()?));
        }
        end += 1;
    }
    None
}

/// Whether blocks are those of a tower that sees, by what stands before their numbers.
fn sees(family: &str) -> bool {
    let mut parts = family.split(['.', '/']);
    parts.any(|part| part.starts_with("vision") || part.starts_with("visual"))
}

/// The number of the layer of multi-token prediction that a layer belongs to, 0 where its name has none: a part of the name begins with
/// `mtp`, and no block's number stands before it.
pub(crate) fn predictor_of(id: &str) -> Option<u64> {
    let mut parts = id.split(['.', '/']);
    let ends_in_digit = |part: &str| part.ends_with(|c: char| c.is_ascii_digit());
    let begins = |part: &str| {
        part.get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case("mtp"))
    };
    let first = parts.find(|part| begins(part) || ends_in_digit(part));
    let first = first.filter(|part| begins(part))?;
    let own = first.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = match own.is_empty() {
        false => own.parse().ok(),
        true => parts.find_map(|part| part.parse().ok()),
    };
    Some(number.unwrap_or(0))
}
