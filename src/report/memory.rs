//! What a report says of memory: limits that nobody gave, and how much a plan would need.

use super::format::{bytes, count};
use super::virtual_stages;
use crate::instance::Instance;
use crate::options::{MemoryLimit, Mode, Optimizer, OptimizerSharding, StatePrecision};
use crate::plan::{LeastMemory, Plan, PlanStage};
use crate::precision::Precision;
use crate::problem::TooLarge;
use crate::states::StateBytes;

/// That some stage may hold as much as it likes, and what the fullest one would hold; nothing where memory is limited.
pub(super) fn without_limit(instance: &Instance, plan: &Plan) -> Option<String> {
    let kinds = plan.problem.device_kinds.iter().flatten();
    let kinds = kinds.filter_map(|name| {
        Some((
            name,
            instance.cluster.kinds[instance.cluster.kind(name)?].memory_bytes,
        ))
    });
    let (known, unknown): (Vec<_>, Vec<_>) = kinds.partition(|(_, memory)| memory.is_some());
    let reason = match plan.problem.memory_limit {
        Some(MemoryLimit::Bytes(_)) => return None,
        Some(MemoryLimit::Unlimited(_)) if !known.is_empty() => {
            let of = |(name, memory): &(&String, Option<u64>)| {
                format!("`{name}` has {}", bytes(memory.unwrap_or(0)))
            };
            format!(
                "limit lifted ({})",
                known.iter().map(of).collect::<Vec<_>>().join(", ")
            )
        }
        Some(MemoryLimit::Unlimited(_)) => "no limit given".into(),
        None if unknown.is_empty() => return None,
        None => {
            let names: Vec<String> = unknown.iter().map(|(name, _)| format!("`{name}`")).collect();
            format!("no limit given for {}", names.join(", "))
        }
    };
    let fullest = plan.stages.iter().max_by_key(|stage| stage.memory_bytes);
    if virtual_stages::is_asked(plan) {
        let held = |stage: &PlanStage| virtual_stages::device(plan, &stage.devices).memory_bytes;
        let fullest = plan.stages.iter().max_by_key(|stage| held(stage))?;
        return Some(format!(
            "memory: {reason}; {} would hold {}",
            fullest.devices.join(", "),
            bytes(held(fullest))
        ));
    }
    Some(match fullest {
        None => format!("memory: {reason}"),
        Some(stage) if stage.memory_bytes == 0 => format!("memory: {reason}, and no layer states bytes"),
        Some(stage) => format!(
            "memory: {reason}; stage {} would hold {}",
            stage.index,
            bytes(stage.memory_bytes)
        ),
    })
}

/// In which precision parameters and rates are counted; nothing where the network has no parameters and states no rates.
pub(super) fn precision(instance: &Instance, plan: &Plan) -> Option<String> {
    let mut words = Vec::new();
    let network = &instance.network;
    if network.layers.iter().any(|layer| layer.parameter_bytes > 0) {
        words.push(copies(network.precision, plan));
    }
    let kinds = plan.problem.device_kinds.iter().flatten();
    for name in kinds {
        let kind = instance.cluster.kind(name).map(|at| &instance.cluster.kinds[at]);
        if let Some(precision) = kind.and_then(|kind| kind.precision) {
            words.push(format!("rates of `{name}` are those of {precision}"));
        }
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// How many bytes a parameter counts: its weight and, in training, its gradient and the optimiser's state.
fn copies(precision: Option<Precision>, plan: &Plan) -> String {
    /// Adam with weights and gradients of 16 bits: 2 + 2 bytes, and the weight and both states in single precision.
    const MIXED_BYTES: u64 = 16;
    if let (Some(Mode::Training), Some(policy), Some(optimizer)) =
        (plan.problem.mode, plan.problem.precision, plan.problem.optimizer)
        && policy != StatePrecision::Uniform
    {
        return of_policy(policy, optimizer, plan.problem.optimizer_sharding);
    }
    let states = plan.problem.optimizer.map_or(0, Optimizer::states_per_parameter);
    let (numbers, of) = match (plan.problem.mode, plan.problem.optimizer) {
        (Some(Mode::Training), Some(optimizer)) if states > 0 => (
            2 + states,
            format!(
                "weight, gradient and {} of {optimizer}",
                count(states as usize, "state")
            ),
        ),
        (Some(Mode::Training), _) => (2, "weight and gradient".into()),
        _ => (1, "weight".into()),
    };
    match precision {
        None => format!(
            "{} a parameter ({of}), of the size that the file gives it",
            count(numbers as usize, "number")
        ),
        Some(precision) => {
            let all = numbers * precision.bytes();
            let mixed = match precision.bytes() {
                2 if numbers > 1 => format!("; mixed precision with adam needs {MIXED_BYTES}"),
                _ => String::new(),
            };
            format!("{all} bytes a parameter ({of}, all in {precision}{mixed})")
        }
    }
}

/// How many bytes a parameter counts where the problem says in which numbers it is trained.
fn of_policy(policy: StatePrecision, optimizer: Optimizer, sharding: Option<OptimizerSharding>) -> String {
    let bytes = StateBytes::training(policy, optimizer, None);
    let states = optimizer.states_per_parameter() as usize;
    let mut kept = Vec::new();
    if bytes.weight < 4 {
        kept.push("weight in fp32".to_owned());
    }
    if states > 0 {
        kept.push(format!("{} of {optimizer}", count(states, "state")));
    }
    let shared = match sharding {
        Some(OptimizerSharding::Zero1) => ", shared out by the replicas of a stage",
        Some(OptimizerSharding::None) | None => "",
    };
    let kept = match bytes.optimizer {
        0 => String::new(),
        all => format!(", {} {all}{shared}", kept.join(" and ")),
    };
    format!(
        "{} bytes a parameter ({policy}: weight {}, gradient {}{kept})",
        bytes.weight + bytes.gradient + bytes.optimizer,
        bytes.weight,
        bytes.gradient
    )
}

/// How much memory a plan would need, in a line.
pub(crate) fn least(known: &LeastMemory) -> String {
    let exact = |n: u64| format!("{n} bytes ({})", bytes(n));
    let range = match known.at_most_bytes {
        Some(most) if most == known.at_least_bytes => {
            format!("the least limit with a plan is {}", exact(most))
        }
        Some(most) => format!(
            "the least limit with a plan is between {} and {}",
            exact(known.at_least_bytes),
            exact(most)
        ),
        None => format!("no plan fits less than {}", exact(known.at_least_bytes)),
    };
    match too_large(&known.too_large) {
        Some(layers) => format!("{layers}; {range}"),
        None => range,
    }
}

/// Layers that never fit, the largest by name.
fn too_large(layers: &[TooLarge]) -> Option<String> {
    let largest = layers.iter().max_by_key(|layer| layer.needs_bytes)?;
    let others = match layers.len() {
        1 => String::new(),
        n => format!(", and {} too", count(n - 1, "other layer")),
    };
    Some(format!(
        "layer `{}` alone needs {}, more than any stage has{others}",
        largest.layer,
        bytes(largest.needs_bytes)
    ))
}
