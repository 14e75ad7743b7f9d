//! Plans of stacks of numbered blocks, for frameworks that build the model themselves and are told how many blocks a stage takes.

use super::framework::{Stages, unsupported};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::Stack;

/// The blocks among the layers of a plan; `expected` says what the framework takes.
pub(super) fn find(instance: &Instance, stages: &Stages, expected: &str) -> Result<Stack, Fault> {
    let stack = instance.network.stack(|layer| stages.of_layer[layer].is_some());
    stack.ok_or_else(|| {
        let found = "no numbered blocks, or several kinds of them";
        unsupported("the network".into(), found, expected)
    })
}

/// How many blocks each stage takes, if each lies on one, the embedding on the first and the head on the last.
pub(super) fn blocks_a_stage(
    instance: &Instance,
    stages: &Stages,
    stack: &Stack,
) -> Result<Vec<usize>, Fault> {
    let mut counts = vec![0; stages.count];
    for members in stack.blocks.values() {
        counts[one_stage(instance, stages, members, "a block")?] += 1;
    }
    let [before, after] = before_and_after(instance, stages, stack)?;
    for (layers, what, only) in [
        (&before, "the embedding", 0),
        (&after, "the head", stages.count - 1),
    ] {
        // A model without one still has the framework's own.
        let stage = match layers.is_empty() {
            true => only,
            false => one_stage(instance, stages, layers, what)?,
        };
        if stage != only {
            return Err(unsupported(
                format!("stage {}", stage + 1),
                format!("{what} there"),
                format!("it on stage {}", only + 1),
            ));
        }
    }
    Ok(counts)
}

/// Layers before and after the blocks.
fn before_and_after(instance: &Instance, stages: &Stages, stack: &Stack) -> Result<[Vec<usize>; 2], Fault> {
    let layers = &instance.network.layers;
    let mut is_block = vec![false; layers.len()];
    stack.blocks.values().flatten().for_each(|&i| is_block[i] = true);
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
