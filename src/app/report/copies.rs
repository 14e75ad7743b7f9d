//! Tables that layers share, as a plan has them: the stages that hold a copy, and what keeps these equal.

use std::collections::BTreeSet;

use super::format::{bytes, shorten};
use crate::model::instance::Instance;
use crate::model::network::SharedTable;
use crate::model::options::{Communication, Mode};
use crate::problem::plan::Plan;

/// Tables that are named; the rest are counted.
const MOST: usize = 3;

/// The tables of a plan and its copies of them; nothing where no layers share one.
pub(super) fn shared(instance: &Instance, plan: &Plan) -> Option<String> {
    let tables = instance.network.shared_tables();
    if tables.is_empty() || plan.stages.is_empty() {
        return None;
    }
    let mut words: Vec<String> = tables
        .iter()
        .take(MOST)
        .map(|table| held(instance, plan, table))
        .collect();
    if tables.len() > MOST {
        words.push(format!("{} more tables", tables.len() - MOST));
    }
    let is_parted = tables.iter().any(|table| stages(instance, plan, table).len() > 1);
    let is_trained = tables
        .iter()
        .any(|table| !instance.network.layers[table.layers[0]].frozen);
    if is_parted && is_trained && plan.problem.mode.is_none_or(Mode::trains) {
        words.push(summed(plan).into());
    }
    Some(words.join("; "))
}

/// What becomes of the gradients of copies.
fn summed(plan: &Plan) -> &'static str {
    let is_free = plan.problem.communication == Some(Communication::Ignored);
    match plan.problem.micro_batches {
        _ if is_free => "sums of their gradients take no time where transfers take none",
        Some(_) => "their gradients are summed once an iteration, which is counted",
        None => {
            "sums of their gradients once an iteration are not counted: `--micro-batches` says how long it is"
        }
    }
}

fn stages(instance: &Instance, plan: &Plan, table: &SharedTable) -> BTreeSet<usize> {
    let names: BTreeSet<&str> = table
        .layers
        .iter()
        .map(|&at| instance.network.layers[at].id.as_str())
        .collect();
    let holds = |ids: &[String]| ids.iter().any(|id| names.contains(id.as_str()));
    let holders = plan.stages.iter().filter(|stage| holds(&stage.forward));
    holders.map(|stage| stage.index).collect()
}

fn held(instance: &Instance, plan: &Plan, table: &SharedTable) -> String {
    let layers = table.layers.iter().map(|&at| &instance.network.layers[at]);
    let size = layers.map(|layer| layer.shared_bytes).max().unwrap_or(0);
    let stages: Vec<String> = stages(instance, plan, table)
        .iter()
        .map(usize::to_string)
        .collect();
    let copies = match stages.as_slice() {
        [only] => format!("one copy, in stage {only}"),
        all => format!("a copy in each of the stages {}", all.join(" and ")),
    };
    format!(
        "table `{}` of {}: {copies}",
        shorten(&table.name, 40),
        bytes(size)
    )
}
