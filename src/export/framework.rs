//! What the frameworks have in common: a stage is a device and the layers whose both passes run there.

use std::collections::{HashMap, HashSet};

use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::SharedTable;
use crate::model::options::{Mode, Recomputation, Region, Staffing};
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::plan::{Plan, PlanMode, PlanStage};

/// A plan as frameworks see it: the stage of every forward layer, from 0.
pub(super) struct Stages {
    /// By position in the network; `None` for backward operators, which frameworks derive.
    pub of_layer: Vec<Option<usize>>,
    /// Number of stages.
    pub count: usize,
}

/// Refuses a plan whose devices hold several stages, for frameworks that know one a device.
pub(super) fn one_a_device(plan: &Plan, region: Region) -> Result<(), Fault> {
    match plan.virtual_stages().filter(|_| !region.limits().takes_chunks) {
        None => Ok(()),
        Some(chunks) => {
            let found = format!("{chunks} virtual stages on every device");
            Err(unsupported("the plan".into(), found, one_stage_a_device()))
        }
    }
}

/// Refuses a stage without layers, which frameworks have no place for.
pub(super) fn no_empty_stage(plan: &Plan) -> Result<(), Fault> {
    match plan.stages.iter().find(|stage| stage.forward.is_empty()) {
        None => Ok(()),
        Some(stage) => Err(unsupported(
            format!("stage {}", stage.index),
            "no layer",
            words!("one at least; ask for {}", setting::ALL_STAGES),
        )),
    }
}

/// What targets say that know one stage a device.
fn one_stage_a_device() -> Words {
    words!(
        "one stage a device; {} and `megatron` take virtual stages, `torch` and `torchtitan` with {}",
        setting::TO.given("json"),
        setting::ORDER
    )
}

/// Refuses a stage whose replicas have members that share out every micro-batch: to frameworks that is another size of micro-batch.
fn no_group(plan: &Plan) -> Result<(), Fault> {
    let members = |mode: &PlanMode| mode.group > 1;
    let of_stage = |stage: &&PlanStage| stage.mode.as_ref().is_some_and(members);
    let Some(stage) = plan.stages.iter().find(of_stage) else {
        return Ok(());
    };
    let group = stage.mode.as_ref().map_or(1, |mode| mode.group);
    Err(unsupported(
        format!("stage {}", stage.index),
        format!("groups of {group} that share out every micro-batch"),
        words!(
            "none, as with {}; {} takes all",
            setting::GROUPS.given("given"),
            setting::TO.given("json")
        ),
    ))
}

/// Refuses devices that run both phases at once, on shares: no framework is told of any.
fn no_shares(plan: &Plan) -> Result<(), Fault> {
    let first = |stage: &PlanStage| {
        let (resource, share) = stage.shares.first_key_value()?;
        let found = format!("a share of {share:.3} of `{resource}` for forward propagation");
        Some((format!("stage {}", stage.index), found))
    };
    let Some((at, found)) = plan.stages.iter().find_map(first) else {
        return Ok(());
    };
    Err(unsupported(
        at,
        found,
        words!(
            "{}, which has no shares; {} takes them",
            setting::WORKER.given("sequential"),
            setting::TO.given("json")
        ),
    ))
}

/// Whether the plan has been held to the memory of its devices.
pub(super) fn is_memory_limited(instance: &Instance, plan: &Plan) -> bool {
    let kinds = plan.stages.iter().flat_map(|stage| &stage.devices);
    let mut memories = kinds.filter_map(|device| {
        let (kind, _) = device.rsplit_once(':')?;
        instance.cluster.kinds[instance.cluster.kind(kind)?].memory_bytes
    });
    match plan.problem.memory_limit {
        Some(limit) => limit.bytes().is_some(),
        None => memories.next().is_some(),
    }
}

/// Something that a target cannot represent.
pub(super) fn unsupported(at: String, found: impl Into<Words>, expected: impl Into<Words>) -> Fault {
    let (found, expected) = (found.into(), expected.into());
    Fault::new(at, FaultKind::Unsupported { found, expected })
}

impl Stages {
    /// The stages of a plan, if it is in a mode that the framework has, and of devices and recomputation that it can be told of.
    pub(super) fn for_region(instance: &Instance, plan: &Plan, region: Region) -> Result<Self, Fault> {
        no_group(plan)?;
        let at_host = |mode: &PlanMode| mode.host_bytes > 0;
        if let Some(stage) = plan
            .stages
            .iter()
            .find(|stage| stage.mode.as_ref().is_some_and(at_host))
        {
            return Err(unsupported(
                format!("stage {}", stage.index),
                "what lies at the host of a device",
                words!(
                    "nothing there, as with {} and {}; {} takes all",
                    setting::RECOMPUTE.given("full"),
                    setting::OPTIMIZER_OFFLOAD.given("none"),
                    setting::TO.given("json")
                ),
            ));
        }
        let limits = region.limits();
        let (is_run, own) = match plan.problem.mode {
            Some(Mode::Inference) => (limits.infers, Mode::Training),
            Some(Mode::Training) | None => (limits.trains, Mode::Inference),
        };
        let stages = match (limits.staffing, limits.recomputation) {
            (Staffing::One, Recomputation::Nothing) => Self::plain(instance, plan)?,
            (Staffing::One, _) => Self::of_single_devices(instance, plan)?,
            (Staffing::Tensor | Staffing::Replicated, _) => {
                match plan.stages.iter().any(|stage| stage.mode.is_some()) {
                    true => Self::in_modes(instance, plan)?,
                    false => Self::plain(instance, plan)?,
                }
            }
        };
        match is_run {
            true => Ok(stages),
            false => Err(unsupported(
                "the plan".into(),
                format!("a plan for {}", plan.problem.mode.unwrap_or(Mode::Training)),
                words!(
                    "one for {}, which is all that `{}` runs",
                    setting::MODE.given(own),
                    region.to_string()
                ),
            )),
        }
    }

    /// Refuses copies of a table on several stages, for frameworks that do not sum their gradients.
    pub(super) fn hold_no_copies(&self, instance: &Instance) -> Result<(), Fault> {
        let tables = instance.network.shared_tables();
        let parts = |table: &&SharedTable| {
            let stages: HashSet<Option<usize>> = table.layers.iter().map(|&at| self.of_layer[at]).collect();
            stages.len() > 1
        };
        match tables.iter().find(parts) {
            None => Ok(()),
            Some(table) => Err(unsupported(
                "the plan".into(),
                format!("copies of the table `{}` on several stages", table.name),
                words!(
                    "its layers on one stage, where they have one `tie`; {} sums the gradients of copies, and so does {}",
                    setting::TO.given("megatron"),
                    setting::TO.given("torch")
                ),
            )),
        }
    }

    /// The stages of a plan, if each is one device that takes turns, no layer's passes are apart, and none is computed again.
    fn plain(instance: &Instance, plan: &Plan) -> Result<Self, Fault> {
        for stage in &plan.stages {
            if let Some((name, layers)) = stage.mode.iter().flat_map(|mode| &mode.recomputed).next() {
                return Err(unsupported(
                    format!("stage {}", stage.index),
                    format!("recomputation `{name}` of {} layers", layers.len()),
                    words!(
                        "none, as with {}; {} and `torchtitan` take {}, {} takes all",
                        setting::RECOMPUTE.given("none"),
                        setting::TO.given("megatron"),
                        setting::RECOMPUTE.given("full"),
                        setting::TO.given("json")
                    ),
                ));
            }
        }
        Self::of_single_devices(instance, plan)
    }

    /// The same whatever is computed again, for targets that look at that.
    fn of_single_devices(instance: &Instance, plan: &Plan) -> Result<Self, Fault> {
        for stage in &plan.stages {
            let at = format!("stage {}", stage.index);
            if stage.devices.len() != 1 {
                let found = format!("{} devices ({})", stage.devices.len(), stage.devices.join(", "));
                let expected = match &stage.mode {
                    Some(_) => words!(
                        "one device a stage, as with {}; {} takes one degree for all stages, such as {}, {} takes all",
                        setting::TENSOR.given(1).and(setting::REPLICAS.given(1)),
                        setting::TO.given("megatron"),
                        setting::TENSOR.given(2).and(setting::REPLICAS.given(1)),
                        setting::TO.given("json")
                    ),
                    None => words!("one device a stage; {} takes groups", setting::TO.given("json")),
                };
                return Err(unsupported(at, found, expected));
            }
        }
        Self::in_modes(instance, plan)
    }

    /// The same whatever devices a stage has, for targets that look at them.
    fn in_modes(instance: &Instance, plan: &Plan) -> Result<Self, Fault> {
        no_shares(plan)?;
        let layers = &instance.network.layers;
        let position: HashMap<&str, usize> = layers
            .iter()
            .enumerate()
            .map(|(i, layer)| (layer.id.as_str(), i))
            .collect();
        let stage_of = |names: fn(&PlanStage) -> &Vec<String>| {
            let mut stage_of = vec![None; layers.len()];
            for (k, stage) in plan.stages.iter().enumerate() {
                for layer in names(stage).iter().filter_map(|id| position.get(id.as_str())) {
                    stage_of[*layer] = Some(k);
                }
            }
            stage_of
        };
        let forward = stage_of(|stage| &stage.forward);
        let backward = stage_of(|stage| &stage.backward);
        // A backward operator belongs to the forward one of its tie.
        let tied: HashMap<&str, usize> = (0..layers.len())
            .filter_map(|i| Some((layers[i].tie.as_deref()?, forward[i]?)))
            .collect();
        for (i, layer) in layers.iter().enumerate() {
            let own = forward[i].or_else(|| tied.get(layer.tie.as_deref()?).copied());
            if let (Some(own), Some(back)) = (own, backward[i])
                && own != back
            {
                return Err(unsupported(
                    format!("layer `{}`", layer.id),
                    format!(
                        "forward propagation on stage {} and backward propagation on stage {}",
                        own + 1,
                        back + 1
                    ),
                    words!(
                        "both on one, as with {}; {} takes separate cuts",
                        setting::CUTS.given("tied"),
                        setting::TO.given("json")
                    ),
                ));
            }
        }
        Ok(Self {
            of_layer: forward,
            count: plan.stages.len(),
        })
    }

    /// Positions of the forward layers, in an order in which they can run: stage by stage, producers before consumers, and
    /// among equals as in the file.
    pub(super) fn in_order(&self, instance: &Instance) -> Vec<usize> {
        let graph = instance.network.graph();
        let mut waits_for: Vec<usize> = graph
            .node_indices()
            .map(|v| graph.neighbors_directed(v, petgraph::Incoming).count())
            .collect();
        let key = |layer: usize| std::cmp::Reverse((self.of_layer[layer].unwrap_or(usize::MAX), layer));
        let first = (0..waits_for.len()).filter(|&layer| waits_for[layer] == 0);
        let mut ready: std::collections::BinaryHeap<_> = first.map(key).collect();
        let mut order = Vec::with_capacity(waits_for.len());
        while let Some(std::cmp::Reverse((_, layer))) = ready.pop() {
            order.push(layer);
            for next in graph.neighbors((layer as u32).into()) {
                waits_for[next.index()] -= 1;
                if waits_for[next.index()] == 0 {
                    ready.push(key(next.index()));
                }
            }
        }
        order.retain(|&layer| self.of_layer[layer].is_some());
        order
    }
}
