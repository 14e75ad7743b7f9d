//! What lies between the passes of a layer: micro-batches in flight and weight versions and, with separate cuts, the layers
//! that are split and the bytes that move because of it.

use std::collections::BTreeMap;

use anstyle::Style as Ink;

use super::Style;
use super::format::{bytes, count, shorten, wrap};
use super::table::{Column, GAP, draw, table_width};
use super::text::micro_batches;
use super::virtual_stages;
use crate::model::instance::Instance;
use crate::problem::plan::Plan;
use crate::problem::plan::split::{SplitLayer, stages_by_layer};

/// Layers of a table; the rest are counted.
const MOST_ROWS: usize = 10;

/// Micro-batches in flight and what that means for the weights; nothing in inference.
pub(super) fn in_flight(plan: &Plan) -> Option<String> {
    let first = plan.stages.first()?.in_flight?;
    let last = plan.stages.last()?.in_flight?;
    let in_flight = match first == last {
        _ if virtual_stages::is_asked(plan) => {
            let of_chunks = plan.stages.iter().filter_map(|stage| stage.in_flight);
            let [least, most] = [of_chunks.clone().min()?, of_chunks.max()?];
            format!("at most {least} to {most} micro-batches of a chunk")
        }
        true => format!("{} on every stage", micro_batches(first)),
        false => format!("{first} micro-batches on the first stage, {last} on the last"),
    };
    let of_stages = plan.stages.iter().filter_map(|stage| stage.weight_versions);
    let of_layers = split_layers(plan).iter().map(|layer| layer.weight_versions);
    let versions = match of_stages.chain(of_layers).max()? {
        1 => "one version of the weights".to_owned(),
        versions => format!(
            "at most {versions} versions of the weights: a gradient is up to {} old when it is applied",
            count(versions as usize - 1, "update")
        ),
    };
    Some(format!("{in_flight}; {versions}"))
}

/// Where memory is short of what hides the transfers, worst first; nothing where it is not.
pub(super) fn overrun(plan: &Plan) -> Option<String> {
    let worst = plan.overruns.iter().max_by_key(|overrun| overrun.over_bytes)?;
    let own = plan.stages.get(worst.stage.checked_sub(1)?)?.in_flight?;
    let others = match plan.overruns.len() - 1 {
        0 => String::new(),
        others => format!("; {} overrun as well", count(others, "more stage")),
    };
    Some(format!(
        "as simulated, stage {} hides its transfers with {} in flight, which take {}, {} more than it has{others}. With the {own} \
         that are counted here the plan fits, and its period is longer: `stagecut simulate --in-flight standard`",
        worst.stage,
        micro_batches(worst.in_flight),
        bytes(worst.memory_bytes),
        bytes(worst.over_bytes),
    ))
}

/// How many layers are split, and what that moves; nothing with tied cuts.
pub(super) fn cuts(instance: &Instance, plan: &Plan) -> Option<String> {
    let split = plan.split.as_ref()?;
    if instance.network.has_explicit_backward() {
        let (apart, ties) = ties_apart(instance, plan);
        return Some(format!(
            "separate: {apart} of {} with forward and backward operators on different stages, between which the tensors of \
             the graph move",
            count(ties, "tie")
        ));
    }
    Some(format!(
        "separate: {} of {} with both passes on different stages, which moves {} of stash a micro-batch and {} of weights \
         an update",
        split.layers.len(),
        count(instance.network.layers.len(), "layer"),
        bytes(split.stash_bytes_moved),
        bytes(split.weight_bytes_moved)
    ))
}

/// Ties whose forward and backward operators lie on different stages, and all that have both.
fn ties_apart(instance: &Instance, plan: &Plan) -> (usize, usize) {
    let sides = [
        stages_by_layer(&plan.stages, |stage| &stage.forward),
        stages_by_layer(&plan.stages, |stage| &stage.backward),
    ];
    let mut ties: BTreeMap<&str, [Option<usize>; 2]> = BTreeMap::new();
    for layer in &instance.network.layers {
        for (side, stages) in sides.iter().enumerate() {
            if let (Some(tie), Some(&stage)) = (&layer.tie, stages.get(layer.id.as_str())) {
                ties.entry(tie).or_default()[side] = Some(stage);
            }
        }
    }
    ties.retain(|_, stages| stages.iter().all(Option::is_some));
    let apart = ties.values().filter(|stages| stages[0] != stages[1]).count();
    (apart, ties.len())
}

fn split_layers(plan: &Plan) -> &[SplitLayer] {
    plan.split.as_ref().map_or(&[], |split| &split.layers)
}

/// The split layers, those that move most first; nothing without any.
pub(super) fn table(plan: &Plan, style: &Style) -> Option<String> {
    let mut layers: Vec<&SplitLayer> = split_layers(plan).iter().collect();
    layers.sort_by_key(|layer| std::cmp::Reverse(layer.stash_bytes + layer.weight_bytes));
    let rest = layers.split_off(layers.len().min(MOST_ROWS));
    let cells = |cell: &dyn Fn(&SplitLayer) -> String| layers.iter().map(|layer| cell(layer)).collect();
    let mut columns = vec![
        Column::numbers(
            "forward",
            "stage",
            cells(&|layer| layer.forward_stage.to_string()),
        ),
        Column::numbers(
            "backward",
            "stage",
            cells(&|layer| layer.backward_stage.to_string()),
        ),
        Column::numbers("in flight", "", cells(&|layer| layer.in_flight.to_string())),
        Column::numbers("versions", "", cells(&|layer| layer.weight_versions.to_string())),
        Column::numbers("stash", "", cells(&|layer| bytes(layer.stash_bytes))),
        Column::numbers("weights", "", cells(&|layer| bytes(layer.weight_bytes))),
    ];
    const LEAST_OF_NAME: usize = 12;
    let room = style.width.saturating_sub(table_width(&columns) + GAP);
    let name = |layer: &SplitLayer| shorten(&layer.layer, room.max(LEAST_OF_NAME));
    columns.insert(0, Column::words("layer", cells(&name)));
    let more = match rest.len() {
        0 => String::new(),
        more => {
            let moved = |of: fn(&SplitLayer) -> u64| bytes(rest.iter().map(|layer| of(layer)).sum());
            format!(
                "And {} with {} of stash and {} of weights; `--format json` lists them all. ",
                count(more, "more layer"),
                moved(|layer| layer.stash_bytes),
                moved(|layer| layer.weight_bytes)
            )
        }
    };
    let legend = format!(
        "{more}Stash moves to the backward pass with every micro-batch, weights to the forward pass after every update."
    );
    let table = draw(&columns, style.color, |_| None, |_| Ink::new());
    (!layers.is_empty()).then(|| format!("{table}{}\n", wrap(&legend, style.width, 2)))
}
