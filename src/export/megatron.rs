//! Megatron: `--pipeline-model-parallel-layout` (NVIDIA, *Megatron Core user guide*, custom pipeline model parallel layout): a
//! string of `E` for the embedding, `t` for a transformer layer, `L` for the loss, with `|` between stages and `t*3` for
//! three.
//!
//! Megatron builds the model itself, so the network must be a stack of equal blocks. A block is known by a number in the names
//! of its layers: `h.3.attn`, `encoder/layer.3/query`, `b3.norm1`.

use std::collections::BTreeMap;

use super::framework::{Stages, unsupported};
use super::{Exported, megatron_modes};
use crate::fault::Fault;
use crate::instance::Instance;
use crate::plan::Plan;

/// Writes the flags.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    let stages = match plan.stages.iter().any(|stage| stage.mode.is_some()) {
        true => Stages::in_modes(instance, plan)?,
        false => Stages::of(instance, plan)?,
    };
    let blocks = blocks(instance, &stages)?;
    let count = blocks.len();
    let mut symbols = vec![String::new(); stages.count];
    let mut in_stage = vec![0; stages.count];
    for members in blocks.values() {
        in_stage[one_stage(instance, &stages, members, "a block")?] += 1;
    }
    let [before, after] = before_and_after(instance, &stages, &blocks)?;
    for (layers, what, only, symbol) in [
        (&before, "the embedding", 0, "E"),
        (&after, "the head", stages.count - 1, "L"),
    ] {
        // A model without one still has Megatron's own.
        let stage = match layers.is_empty() {
            true => only,
            false => one_stage(instance, &stages, layers, what)?,
        };
        if symbol == "E" {
            symbols[stage].push_str(symbol);
        }
        if stage != only {
            return Err(unsupported(
                format!("stage {}", stage + 1),
                format!("{what} there"),
                format!("it on stage {}", only + 1),
            ));
        }
    }
    for (symbols, &count) in symbols.iter_mut().zip(&in_stage) {
        match count {
            0 => {}
            1 => symbols.push('t'),
            _ => symbols.push_str(&format!("t*{count}")),
        }
    }
    if let Some(last) = symbols.last_mut() {
        if last.chars().next_back().is_some_and(|c| c.is_ascii_digit()) {
            last.push(',');
        }
        last.push('L');
    }
    let modes = megatron_modes::flags(instance, plan, &blocks)?;
    Ok(format!(
        "--num-layers {count} --pipeline-model-parallel-size {} --pipeline-model-parallel-layout \"{}\"{modes}\n",
        stages.count,
        symbols.join("|")
    ))
}

/// Layers by the number of their block.
type Blocks = BTreeMap<u64, Vec<usize>>;

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

/// The blocks of the one family that there is.
fn blocks(instance: &Instance, stages: &Stages) -> Result<Blocks, Fault> {
    let layers = &instance.network.layers;
    let mut families: BTreeMap<String, Blocks> = BTreeMap::new();
    for (i, layer) in layers
        .iter()
        .enumerate()
        .filter(|(i, _)| stages.of_layer[*i].is_some())
    {
        if let Some((family, number)) = block_of(&layer.id) {
            families
                .entry(family)
                .or_default()
                .entry(number)
                .or_default()
                .push(i);
        }
    }
    families.retain(|_, blocks| blocks.len() > 1);
    let stack = "one stack of equal transformer blocks, which is what Megatron builds";
    let (Some((family, blocks)), None) = (families.pop_first(), families.pop_first()) else {
        return Err(unsupported(
            "the network".into(),
            "no numbered blocks, or several kinds of them",
            stack,
        ));
    };
    let make = |members: &[usize]| {
        let mut make: Vec<_> = members
            .iter()
            .map(|&i| (&layers[i].operator, layers[i].parameter_bytes))
            .collect();
        make.sort_unstable();
        make
    };
    let mut others = blocks.iter();
    if let Some((first, model)) = others.next()
        && let Some((number, _)) = others.find(|(_, members)| make(members) != make(model))
    {
        let found = format!("`{family}{number}` with other operators or parameters than `{family}{first}`");
        return Err(unsupported("the network".into(), found, stack));
    }
    Ok(blocks)
}

/// Layers before and after the blocks.
fn before_and_after(instance: &Instance, stages: &Stages, blocks: &Blocks) -> Result<[Vec<usize>; 2], Fault> {
    let layers = &instance.network.layers;
    let mut is_block = vec![false; layers.len()];
    blocks.values().flatten().for_each(|&i| is_block[i] = true);
    let graph = instance.network.graph();
    let order = stages.in_order(instance);
    let reads_block = |at: usize, known: &[bool]| {
        let before = graph.neighbors_directed((at as u32).into(), petgraph::Incoming);
        before
            .into_iter()
            .any(|from| is_block[from.index()] || known[from.index()])
    };
    let mut behind = vec![false; layers.len()];
    for &at in &order {
        behind[at] = reads_block(at, &behind);
    }
    let [mut before, mut after] = [Vec::new(), Vec::new()];
    for &at in order.iter().filter(|&&at| !is_block[at]) {
        match behind[at] {
            false => before.push(at),
            true => after.push(at),
        }
        let next = graph.neighbors((at as u32).into());
        if behind[at] && next.into_iter().any(|to| is_block[to.index()]) {
            return Err(unsupported(
                format!("layer `{}`", layers[at].id),
                "a layer between two blocks",
                "layers in blocks, before all of them, or after all",
            ));
        }
    }
    Ok([before, after])
}

/// The stage that holds all of these layers.
fn one_stage(instance: &Instance, stages: &Stages, members: &[usize], what: &str) -> Result<usize, Fault> {
    let stage = |&layer: &usize| stages.of_layer[layer].unwrap_or(0);
    let first = members.first().map_or(0, stage);
    match members.iter().find(|layer| stage(layer) != first) {
        None => Ok(first),
        Some(other) => Err(unsupported(
            format!("layer `{}`", instance.network.layers[*other].id),
            format!(
                "{what} in parts, on stages {} and {}",
                first + 1,
                stage(other) + 1
            ),
            "it whole on one stage; layers of one `tie` stay together (or `stagecut generate transformer --granularity block`)",
        )),
    }
}
