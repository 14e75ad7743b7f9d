//! Tables that layers share, as a plan has them: the stages that hold a copy, and what keeps these equal.

use std::collections::BTreeSet;

use super::format::{bytes, shorten};
use crate::model::instance::Instance;
use crate::model::network::SharedTable;
use crate::model::options::{Communication, Mode};
use crate::problem::plan::{Plan, PlanStage};

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
    let is_parted = tables
        .iter()
        .any(|table| Holders::of(instance, plan, table).copies.len() > 1);
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

/// Stages that hold a table.
struct Holders {
    /// Those that hold all that belongs to it.
    copies: BTreeSet<usize>,
    /// Those that hold its weights alone, for forward passes whose backward passes lie elsewhere.
    weights: BTreeSet<usize>,
}

impl Holders {
    fn of(instance: &Instance, plan: &Plan, table: &SharedTable) -> Self {
        let (mut copies, mut forward) = (BTreeSet::new(), BTreeSet::new());
        for &at in &table.layers {
            let id = &instance.network.layers[at].id;
            let has = |of: fn(&PlanStage) -> &Vec<String>| {
                let stage = plan.stages.iter().find(|stage| of(stage).contains(id));
                stage.map(|stage| stage.index)
            };
            let own = has(|stage| &stage.forward);
            copies.extend(has(|stage| &stage.backward).or(own));
            forward.extend(own);
        }
        Self {
            weights: forward.difference(&copies).copied().collect(),
            copies,
        }
    }
}

fn held(instance: &Instance, plan: &Plan, table: &SharedTable) -> String {
    let layers = table.layers.iter().map(|&at| &instance.network.layers[at]);
    let size = layers.map(|layer| layer.shared_bytes).max().unwrap_or(0);
    let holders = Holders::of(instance, plan, table);
    let numbers = |stages: &BTreeSet<usize>| -> Vec<String> { stages.iter().map(usize::to_string).collect() };
    let copies = match numbers(&holders.copies).as_slice() {
        [only] => format!("one copy, in stage {only}"),
        all => format!("a copy in each of the stages {}", all.join(" and ")),
    };
    let weights = match numbers(&holders.weights).as_slice() {
        [] => String::new(),
        [only] => format!(", its weights alone in stage {only}"),
        all => format!(", its weights alone in stages {}", all.join(" and ")),
    };
    format!(
        "table `{}` of {}: {copies}{weights}",
        shorten(&table.name, 40),
        bytes(size)
    )
}
