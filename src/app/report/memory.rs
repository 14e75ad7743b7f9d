//! What a report says of memory: limits that nobody gave, and how much a plan would need.

use super::format::{bytes, count};
use super::model::grouped;
use super::virtual_stages;
use crate::model::instance::Instance;
use crate::model::options::{MemoryLimit, Mode, Optimizer, OptimizerSharding, StatePrecision};
use crate::model::precision::Precision;
use crate::model::states::StateBytes;
use crate::problem::TooLarge;
use crate::problem::plan::{KindMemory, LeastMemory, Plan};

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
        Some(MemoryLimit::Bytes(limit)) => return above(&known, limit, plan),
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
        let devices = virtual_stages::by_device(plan);
        let fullest = devices.iter().max_by_key(|device| device.memory_bytes)?;
        return Some(format!(
            "memory: {reason}; {} would hold {}",
            fullest.name.join(", "),
            bytes(fullest.memory_bytes)
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

/// Tokens that there is room for, and which stage has how much; nothing where no layer says what it keeps of them.
pub(super) fn room(instance: &Instance, plan: &Plan) -> Option<String> {
    let tokens = plan.tokens?;
    let by_stage = plan.stages.iter().zip(plan.tokens_by_stage(instance, 1.0));
    let by_stage = by_stage.map(|(stage, tokens)| {
        let devices = stage.devices.join(", ");
        match tokens {
            Some(tokens) => format!("{} on {devices}", grouped(tokens)),
            None => format!("any on {devices}"),
        }
    });
    let proved = match plan.tokens_bound {
        Some(bound) if bound == tokens => "; no plan has room for more".to_owned(),
        Some(bound) => format!("; no plan has room for more than {}", grouped(bound)),
        None => String::new(),
    };
    let sequences = match plan.problem.sequences {
        Some(sequences) => format!(
            " in {}",
            count(usize::try_from(sequences).unwrap_or(usize::MAX), "sequence")
        ),
        None => String::new(),
    };
    Some(format!(
        "{} tokens{sequences} ({}){proved}",
        grouped(tokens),
        by_stage.collect::<Vec<_>>().join("; ")
    ))
}

/// That the limit which was asked for is above what devices have.
fn above(known: &[(&String, Option<u64>)], limit: u64, plan: &Plan) -> Option<String> {
    let less = known
        .iter()
        .filter(|(_, memory)| memory.is_some_and(|memory| memory < limit));
    let less: Vec<String> = less
        .map(|(name, memory)| format!("`{name}` has {}", bytes(memory.unwrap_or(0))))
        .collect();
    let over = plan.stages.iter().find(|stage| {
        let of_kind = |device: &String| {
            known
                .iter()
                .find(|(name, _)| device.rsplit_once(':').is_some_and(|(kind, _)| kind == *name))
        };
        let holds = |device| of_kind(device).and_then(|(_, memory)| *memory);
        stage
            .devices
            .iter()
            .filter_map(holds)
            .any(|memory| stage.memory_bytes > memory)
    });
    let over = over.map_or_else(String::new, |stage| {
        format!(
            "; stage {} would hold {} on {}",
            stage.index,
            bytes(stage.memory_bytes),
            stage.devices.join(", ")
        )
    });
    (!less.is_empty()).then(|| {
        format!(
            "warning: `--memory-limit` plans as if every device had {}, and {}{over}",
            bytes(limit),
            less.join(", ")
        )
    })
}

/// What to do where no plan fits the memory, if it is the memory.
pub(super) fn raise(instance: &Instance, plan: &Plan) -> Option<String> {
    let known = plan.least_memory.as_ref();
    if known.is_some_and(|known| !known.by_kind.is_empty()) {
        return Some("give a kind of device as much (`memory_bytes` in the cluster); `--memory-limit` would replace the memory of all".into());
    }
    let limit = plan.problem.memory_limit.and_then(MemoryLimit::bytes);
    if limit.is_none() && known.is_none() {
        return None;
    }
    let Some(most) = known.and_then(|known| known.at_most_bytes) else {
        return Some("try a larger `--memory-limit`, if devices have it".into());
    };
    let kinds = plan.problem.device_kinds.iter().flatten();
    let least = kinds
        .filter_map(|name| {
            Some((
                name,
                instance.cluster.kinds[instance.cluster.kind(name)?].memory_bytes?,
            ))
        })
        .min_by_key(|&(_, memory)| memory);
    Some(match least.filter(|&(_, memory)| memory < most) {
        None => format!("raise `--memory-limit` to {most}"),
        Some((name, memory)) => format!(
            "plan for devices of {most} bytes (`--memory-limit {most}` plans as if; `{name}` has {})",
            bytes(memory)
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
        if let Some((precision, efficiency)) = kind.and_then(|kind| Some((kind.precision?, kind.efficiency)))
        {
            let part = match efficiency < 1.0 {
                true => format!("{efficiency} of the peaks"),
                false => "the peaks".into(),
            };
            words.push(format!("rates of `{name}` are {part} of {precision}"));
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
    let by = "shared out by the replicas of a stage";
    let (of_states, of_more) = match sharding {
        Some(OptimizerSharding::Zero1) => (format!(", {by}"), String::new()),
        Some(OptimizerSharding::Zero2) => (String::new(), format!("; all but weights {by}")),
        Some(OptimizerSharding::Zero3) => (String::new(), format!("; all of it {by}")),
        Some(OptimizerSharding::None) | None => Default::default(),
    };
    let kept = match bytes.optimizer {
        0 => String::new(),
        all => format!(", {} {all}{of_states}", kept.join(" and ")),
    };
    format!(
        "{} bytes a parameter ({policy}: weight {}, gradient {}{kept}{of_more})",
        bytes.weight + bytes.gradient + bytes.optimizer,
        bytes.weight,
        bytes.gradient
    )
}

/// How much memory a plan would need, in a line.
pub(crate) fn least(known: &LeastMemory) -> String {
    let range = match known.by_kind.is_empty() {
        true => uniform(known),
        false => by_kind(&known.by_kind),
    };
    match too_large(&known.too_large) {
        Some(layers) => format!("{layers}; {range}"),
        None => range,
    }
}

/// What each kind of device would need if all others stayed as they are.
fn by_kind(kinds: &[KindMemory]) -> String {
    let enough = kinds.iter().filter_map(|of| Some((of, of.at_most_bytes?)));
    let enough: Vec<String> = enough
        .map(|(of, most)| {
            let up_to = if of.at_least_bytes < most { "up to " } else { "" };
            format!(
                "`{}` with {up_to}{most} bytes, {up_to}{} more than its {}",
                of.kind,
                bytes(most.saturating_sub(of.has_bytes)),
                bytes(of.has_bytes)
            )
        })
        .collect();
    match enough.is_empty() {
        true => "no kind of device is known to be enough alone, however much memory it had".into(),
        false => format!("a plan would fit {}", enough.join(", or ")),
    }
}

/// The least limit, the same for every stage.
fn uniform(known: &LeastMemory) -> String {
    let exact = |n: u64| format!("{n} bytes ({})", bytes(n));
    match known.at_most_bytes {
        Some(most) if most == known.at_least_bytes => {
            format!("the least limit with a plan is {}", exact(most))
        }
        Some(most) => format!(
            "the least limit with a plan is between {} and {}",
            exact(known.at_least_bytes),
            exact(most)
        ),
        None => format!("no plan fits less than {}", exact(known.at_least_bytes)),
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
