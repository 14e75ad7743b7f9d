//! Plans of stacks of numbered blocks, for frameworks that build the model themselves and are told how many blocks a stage takes.

use super::framework::{Stages, unsupported};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::{Stack, Unfit};

/// The blocks among the layers of a plan; `expected` says what the framework takes.
pub(super) fn find(instance: &Instance, stages: &Stages, expected: &str) -> Result<Stack, Fault> {
    let stack = instance.network.stack(|layer| stages.of_layer[layer].is_some());
    stack.ok_or_else(|| {
        let found = "no numbered blocks, or several kinds of them";
        unsupported("the network".into(), found, expected)
    })
}

/// How many blocks each stage takes, if each lies on one.
pub(super) fn counts(instance: &Instance, stages: &Stages, stack: &Stack) -> Result<Vec<usize>, Fault> {
    let mut counts = vec![0; stages.count];
    let mut last = 0;
    for (number, members) in &stack.blocks {
        let stage = one_stage(instance, stages, members, "a block")?;
        if stage < last {
            return Err(unsupported(
                format!("block {number}"),
                format!("it on stage {}, before a block of a smaller number", stage + 1),
                "blocks in the order of their numbers, as the framework counts them",
            ));
        }
        last = stage;
        counts[stage] += 1;
    }
    Ok(counts)
}

/// The layers of a plan before its blocks, and after them.
pub(super) fn ends(instance: &Instance, stages: &Stages, stack: &Stack) -> Result<[Vec<usize>; 2], Fault> {
    let ends = stack.ends(&instance.network, |layer| stages.of_layer[layer].is_some());
    ends.map_err(|unfit| between_blocks(instance, unfit))
}

/// How many blocks each stage takes, if each lies on one, the embedding on the first and the head on the last.
pub(super) fn blocks_a_stage(
    instance: &Instance,
    stages: &Stages,
    stack: &Stack,
) -> Result<Vec<usize>, Fault> {
    let counts = counts(instance, stages, stack)?;
    let [before, after] = ends(instance, stages, stack)?;
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

/// A layer that lies neither in a block, nor before all, nor after all.
pub(super) fn between_blocks(instance: &Instance, unfit: Unfit) -> Fault {
    let at = match unfit {
        Unfit::BetweenBlocks(at) => format!("layer `{}`", instance.network.layers[at].id),
        Unfit::NoStack | Unfit::NoModule(_) | Unfit::NotInARow => "the network".into(),
    };
    unsupported(
        at,
        "a layer between two blocks",
        "layers in blocks, before all of them, or after all",
    )
}

/// The stage that holds all of these layers.
pub(super) fn one_stage(
    instance: &Instance,
    stages: &Stages,
    members: &[usize],
    what: &str,
) -> Result<usize, Fault> {
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
