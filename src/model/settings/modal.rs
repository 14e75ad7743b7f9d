//! What stages with modes need of the other options.

use std::collections::BTreeSet;

use super::{Settings, has_groups};
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::options::{
    Degrees, DeviceOrder, Groups, Objective, OptimizerOffload, OptimizerSharding, PipelineOptions, Recompute,
    Shares, Synchronization, WorkerMode,
};
use crate::model::recompute::OFFLOAD;
use crate::model::setting;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::{Setting, Words, words};

/// The most ticks of a ns: beyond this no measured time says anything.
const MOST_TICKS: u64 = 10_000;

/// The most that an expert's device may be busier than an even load: far above any.
const MOST_LOAD: f64 = 1e6;

/// How devices work on stages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staffing {
    /// Whether they share work in ways that modes know nothing of: groups that are listed, or of several kinds.
    pub mixes: bool,
    /// Whether they run both phases at once.
    pub shares: bool,
    /// Whether they may differ.
    pub differ: bool,
    /// Whether those of one kind form groups, which stages in modes may have, too.
    pub forms: bool,
}

impl Staffing {
    /// Those of some kinds.
    pub(super) fn new(instance: &Instance, kinds: &[usize], (worker, groups): (WorkerMode, Groups)) -> Self {
        let forms = groups == Groups::Assign && kinds.len() == 1;
        let has_resources = |&kind: &usize| !instance.cluster.kinds[kind].resources.is_empty();
        Self {
            mixes: has_groups(instance, groups) && !forms,
            shares: worker == WorkerMode::Concurrent,
            differ: kinds.len() > 1 || kinds.iter().any(has_resources),
            forms,
        }
    }

    /// Whether workers are told apart that are no stages in modes.
    pub(super) fn is_heterogeneous(self, modal: bool) -> bool {
        self.mixes || (!modal && (self.shares || self.differ || self.forms))
    }
}

/// What is asked of modes.
pub(super) struct Asked {
    pub tensor: Degrees,
    pub expert: Degrees,
    pub context_parallel: Degrees,
    pub replicas: Degrees,
    pub recompute: Recompute,
    pub rounds: Degrees,
    /// Whether stages have modes.
    pub modal: bool,
    /// Whether they all have one.
    pub uniform: bool,
}

impl Asked {
    /// What options ask for, of devices that work on stages so.
    pub(super) fn new(options: &PipelineOptions, instance: &Instance, staffing: Staffing) -> Self {
        let Staffing {
            mixes, differ, forms, ..
        } = staffing;
        let one = || Degrees::one(1);
        let asked = Self {
            tensor: options.tensor.clone().unwrap_or_else(one),
            expert: options.expert.clone().unwrap_or_else(one),
            context_parallel: options.context_parallel.clone().unwrap_or_else(one),
            replicas: options.replicas.clone().unwrap_or_else(one),
            recompute: options.recompute.clone().unwrap_or_else(Recompute::none),
            rounds: options.virtual_stages.clone().unwrap_or_else(one),
            modal: false,
            uniform: false,
        };
        let degrees = [
            &asked.tensor,
            &asked.expert,
            &asked.context_parallel,
            &asked.replicas,
        ];
        // Chunks of devices that differ are chunks of modes.
        let has_rounds = !asked.rounds.is_one();
        let needs_modes = instance.cluster.unlike_links().is_some()
            || confines(options, differ)
            || ((differ || forms) && has_rounds);
        let offload = options.optimizer_offload.unwrap_or(OptimizerOffload::None);
        let modal = are_chosen(degrees, &asked.recompute)
            || offload != OptimizerOffload::None
            || (needs_modes && !mixes)
            || are_only_in_modes(instance);
        let as_target = modal && options.target.is_some();
        // A device has one degree for all its chunks, and all devices the same.
        let has_chunks = has_rounds && (forms || !degrees.into_iter().all(Degrees::is_one));
        Self {
            modal,
            uniform: options.uniform.unwrap_or(has_chunks) || as_target,
            ..asked
        }
    }

    /// How the devices of a stage keep their weights equal where nobody says.
    pub(super) fn synchronization(&self) -> Synchronization {
        match self.modal {
            true => Synchronization::Ring,
            false => Synchronization::None,
        }
    }
}

/// Whether some layer is not what its fields say on one device: then stages have modes, whatever the degrees.
fn are_only_in_modes(instance: &Instance) -> bool {
    instance.network.layers.iter().any(|layer| layer.only_in_modes)
}

/// Whether degrees or recomputation are asked for.
fn are_chosen(degrees: [&Degrees; 4], recompute: &Recompute) -> bool {
    !degrees.into_iter().all(Degrees::is_one) || !recompute.is_none()
}

/// Whether stages may not hold whatever they like, or not lie wherever they like, where searches of modes alone ask that: on devices that differ, and
/// for the way of one micro-batch.
fn confines(options: &PipelineOptions, differ: bool) -> bool {
    let mut constraints = options.constraints.iter().flatten();
    let is_asked = differ || options.objective == Some(Objective::Latency);
    (is_asked && constraints.any(|constraint| !constraint.joins()))
        || (differ && options.device_order == Some(DeviceOrder::Given))
}

impl Settings {
    /// What makes stages have modes.
    fn why_modes(&self, instance: &Instance) -> Words {
        let degrees = [&self.tensor, &self.expert, &self.context_parallel, &self.replicas];
        match instance.cluster.unlike_links() {
            Some(links) => links.into(),
            None if are_only_in_modes(instance) => {
                "layers of which modes alone say what they are on one device".into()
            }
            None if are_chosen(degrees, &self.recompute) => words!(
                "{}, {} or {}",
                setting::TENSOR,
                setting::REPLICAS,
                setting::RECOMPUTE
            ),
            None if self.optimizer_offload != OptimizerOffload::None => {
                words!("{}", setting::OPTIMIZER_OFFLOAD.given(self.optimizer_offload))
            }
            None if self.device_order == DeviceOrder::Given => {
                words!("{}", setting::DEVICE_ORDER.given(self.device_order))
            }
            None if self.may_have_virtual_stages() => {
                words!("{} on devices that differ", setting::VIRTUAL_STAGES)
            }
            None => words!(
                "{} on devices that differ, or of {}",
                setting::CONSTRAINTS,
                setting::OBJECTIVE.given("latency")
            ),
        }
    }

    /// Options that stages with modes cannot be asked together with.
    pub(super) fn modal_faults(&self, instance: &Instance) -> Vec<Fault> {
        if !self.modal {
            let faults = self.unshared_fault().into_iter().chain(self.alike_fault());
            return faults.chain(self.order_fault()).collect();
        }
        let asked = self.why_modes(instance);
        let mut faults = Vec::new();
        let mut refuse = |is_wrong: bool, at: Setting, found: String, expected: &str| {
            if is_wrong {
                let found = words!("{} with {}", found, asked.clone());
                let expected = expected.into();
                faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
            }
        };
        if let Some((at, found, expected)) = self.mixed() {
            refuse(true, at, found.into(), expected);
        }
        let pays = |&kind: &usize| instance.cluster.kinds[kind].pays_communication;
        refuse(
            self.kinds.iter().any(pays) && !self.kinds.iter().all(pays) && self.communication.takes_time(),
            setting::DEVICE_KINDS,
            "kinds that pay for transfers, and others that do not,".into(),
            "kinds that all pay, or transfers that take no time",
        );
        refuse(
            self.objective == Objective::Formula && self.schedule.is_all_forward_first(),
            setting::OBJECTIVE,
            format!("`{}` of each phase", self.objective),
            "`iteration`, `latency` or `period`",
        );
        refuse(
            self.objective == Objective::Latency && !self.updates_once(),
            setting::OBJECTIVE,
            format!(
                "`latency` of `{}`, whose exchanges are part of no micro-batch,",
                self.schedule
            ),
            "`period`, or a schedule that flushes",
        );
        if !self.recompute.is_none() && !self.mode.trains() {
            faults.push(Fault::new(
                setting::RECOMPUTE,
                FaultKind::Contradiction {
                    found: format!("`{}` in inference", self.recompute).into(),
                    expected: words!("`none`, or {}", setting::MODE.given("training")),
                },
            ));
        }
        faults.extend(self.unknown_recomputation(instance));
        faults.extend(self.offload_faults(instance));
        faults.extend(self.unknown_iterations().into_iter().chain(self.unkept_fault()));
        faults.extend(self.gathering_fault());
        faults.extend(self.share_faults(instance));
        if self.forms_groups_in_modes() && !self.heterogeneous {
            let kinds = self.kinds.iter().map(|&kind| &instance.cluster.kinds[kind]);
            let uncounted = kinds.filter(|kind| self.devices.or(kind.count).is_none());
            faults.extend(uncounted.map(|kind| uncounted_fault(&kind.name)));
        }
        faults
    }

    /// Devices that share work in ways that modes know nothing of: where that is asked, what it is, and what would be known.
    fn mixed(&self) -> Option<(Setting, &'static str, &'static str)> {
        match self.groups {
            _ if !self.heterogeneous => None,
            Groups::Assign => Some((
                setting::GROUPS,
                "groups of devices of several kinds",
                "devices of one kind: how others would share out a micro-batch depends on the mode of every layer",
            )),
            Groups::Given => Some((
                setting::GROUPS,
                "groups that the cluster lists",
                "none, or `assign` of devices of one kind",
            )),
        }
    }

    /// Shares of stages in modes that no search of these knows.
    fn share_faults(&self, instance: &Instance) -> Vec<Fault> {
        if self.worker != WorkerMode::Concurrent {
            return Vec::new();
        }
        let resources = self
            .kinds
            .iter()
            .map(|&kind| &instance.cluster.kinds[kind].resources);
        let has_levels = self.share_parts.is_some()
            || (resources.clone().flatten()).any(|resource| !resource.levels.is_empty());
        let is_sum = !has_levels
            && self.shares != Shares::Even
            && resources.clone().all(|resources| resources.len() < 2);
        let at = setting::SHARES;
        let faults = [
            (
                self.shares == Shares::Global,
                words!("{} of stages in modes", at.given(self.shares)),
                "`best`, `even` or `theorem`: each stage has shares of its own".into(),
            ),
            (
                self.shares == Shares::Theorem && has_levels,
                words!("{} of devices whose resources have levels", at.given(self.shares)),
                "`best` or `even`: at the level that is nearest a stage of less work may take longer".into(),
            ),
            (
                !is_sum
                    && self
                        .included(instance)
                        .any(|layer| self.may_differ_forwards(layer)),
                "layers whose ways differ in forward propagation, or copy to the host, on devices of several resources or levels, or with `even` shares".into(),
                "layers that are computed again in backward propagation alone".into(),
            ),
        ];
        let faults = faults.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        let fault = |(_, found, expected)| Fault::new(at, FaultKind::Contradiction { found, expected });
        faults.map(fault).collect()
    }

    /// The layers of the mode.
    fn included<'a>(&'a self, instance: &'a Instance) -> impl Iterator<Item = &'a Layer> {
        (instance.network.layers.iter()).filter(|layer| self.includes(layer))
    }

    /// Whether a layer may be run in ways of one tensor degree that differ in their forward pass.
    fn may_differ_forwards(&self, layer: &Layer) -> bool {
        let modes = layer.modes();
        let allowed = modes.iter().filter(|mode| self.may_run(mode));
        let forwards = |mode: &LayerMode| -> Vec<Option<u64>> {
            let times = self.kinds.iter().map(|&kind| mode.times[kind]);
            times.map(|times| times.map(|times| times.forward_ns)).collect()
        };
        let differ = |one: &LayerMode, other: &LayerMode| {
            one.tensor == other.tensor && (forwards(one) != forwards(other))
        };
        let allowed: Vec<&LayerMode> = allowed.collect();
        allowed
            .iter()
            .any(|one| one.host_bytes > 0 || allowed.iter().any(|other| differ(one, other)))
    }

    /// Gradients that are to gather over an iteration where there is none.
    fn gathering_fault(&self) -> Option<Fault> {
        let kind = FaultKind::Contradiction {
            found: words!(
                "{} with {}, which updates weights behind every backward pass",
                setting::OPTIMIZER_SHARDING.given(self.optimizer_sharding),
                setting::SCHEDULE.given(self.schedule)
            ),
            expected: "`none` or `zero1`: gradients that are shared out gather over an iteration".into(),
        };
        (!self.updates_once() && self.optimizer_sharding.exchanges_each_time())
            .then(|| Fault::new(setting::OPTIMIZER_SHARDING, kind))
    }

    /// What is exchanged or copied once in an iteration of which nothing is said.
    fn unknown_iterations(&self) -> Option<Fault> {
        let synchronizes = self.may_copy_weights() && self.synchronization == Synchronization::Ring;
        let offloads = self.optimizer_offload != OptimizerOffload::None;
        let what = match synchronizes {
            true if self.replicas.is_one() && self.forms_groups_in_modes() => {
                words!("{}, which exchange their gradients", setting::GROUPS)
            }
            true => words!("{}, which exchange their gradients", setting::REPLICAS),
            false => words!(
                "{}, which is copied",
                setting::OPTIMIZER_OFFLOAD.given(self.optimizer_offload)
            ),
        };
        let kind = FaultKind::Missing {
            what: "number of micro-batches".into(),
            expected: words!(
                "{} with {} once in so many",
                setting::MICRO_BATCHES.given("M"),
                what
            ),
            remedy: words!("try {}", setting::MICRO_BATCHES.given("64")),
        };
        let is_missing = (synchronizes || offloads)
            && self.mode.trains()
            && self.updates_once()
            && self.micro_batches.is_none();
        is_missing.then(|| Fault::new(setting::MICRO_BATCHES, kind))
    }

    /// Why there is no plan whatever the stages, where the degrees that are asked for say so; empty where they do not.
    pub(crate) fn reasons(&self, instance: &Instance) -> Vec<String> {
        if !self.modal {
            return Vec::new();
        }
        let devices = self.count(&instance.cluster, self.kind).unwrap_or(self.stages);
        let mut reasons: Vec<String> = self.tensor_reason(instance).into_iter().collect();
        reasons.extend(self.replicas_reason());
        let least = |degrees: &Degrees| match degrees {
            Degrees::Choose => 1,
            Degrees::Only(degrees) => degrees.first().copied().unwrap_or(1),
        };
        let (tensor, replicas) = (least(&self.tensor), least(&self.replicas));
        let context = least(&self.context_parallel);
        let needed = tensor.saturating_mul(replicas).saturating_mul(context);
        let degree = match context {
            1 => String::new(),
            context => format!(" and context degree {context}"),
        };
        if needed > devices {
            reasons.push(format!(
                "a stage takes {needed} devices at least ({replicas} replicas of tensor degree {tensor}{degree}), and there are {devices}"
            ));
        }
        reasons
    }

    /// Layers without a mode of the tensor degrees that are asked for, or groups that are wider than nodes.
    fn tensor_reason(&self, instance: &Instance) -> Option<String> {
        let Degrees::Only(asked) = &self.tensor else {
            return None;
        };
        let words = |degrees: &[usize], between: &str| {
            let words: Vec<String> = degrees.iter().map(usize::to_string).collect();
            words.join(between)
        };
        let layers: Vec<&Layer> = self.included(instance).collect();
        let lacks = |layer: &&&Layer| degrees(layer).is_disjoint(&asked.iter().copied().collect());
        let lacking: Vec<&Layer> = layers.iter().filter(lacks).copied().collect();
        let known = |layers: &[&Layer]| -> Vec<usize> {
            let all: BTreeSet<usize> = layers.iter().flat_map(|layer| degrees(layer)).collect();
            all.into_iter().collect()
        };
        if let Some(first) = lacking.first() {
            return Some(match lacking.len() == layers.len() {
                true => format!(
                    "no layer has a mode of tensor degree {}: they have {}",
                    words(asked, " or "),
                    words(&known(&layers), ", ")
                ),
                false => format!(
                    "layer `{}` has no mode of tensor degree {}: it has {}",
                    first.id,
                    words(asked, " or "),
                    words(&known(&[first]), ", ")
                ),
            });
        }
        let node = instance.cluster.nodes?.devices;
        let narrowest = asked.first().filter(|&&degree| degree > node)?;
        Some(format!(
            "a tensor group of {narrowest} devices does not fit in a node of {node}"
        ))
    }

    /// Numbers of replicas of which none divides the micro-batches.
    fn replicas_reason(&self) -> Option<String> {
        let (Degrees::Only(asked), Some(all), true) =
            (&self.replicas, self.micro_batches, self.mode.trains())
        else {
            return None;
        };
        if asked.iter().any(|&replicas| all % replicas as u64 == 0) {
            return None;
        }
        let words: Vec<String> = asked.iter().map(usize::to_string).collect();
        let words = words.join(" or ");
        Some(format!(
            "{words} replicas cannot share out {all} micro-batches evenly: {words} does not divide {all}"
        ))
    }

    /// Names of what is computed again that mean nothing in any network, and that no layer of this one has.
    fn unknown_recomputation(&self, instance: &Instance) -> Option<Fault> {
        const USUAL: [&str; 3] = ["none", "selective", "full"];
        let Recompute::Only(names) = &self.recompute else {
            return None;
        };
        let of_layers = instance.network.layers.iter().flat_map(|layer| &layer.modes);
        let known: BTreeSet<&str> = of_layers
            .map(|mode| mode.recompute.as_str())
            .chain(USUAL)
            .collect();
        let name = names.iter().find(|name| !known.contains(name.as_str()))?;
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let kind = match name.ends_with(OFFLOAD) {
            true => FaultKind::Contradiction {
                found: format!("`{name}`, which no layer can do").into(),
                expected: format!("{known}, or device kinds with `host_bytes_per_s`").into(),
            },
            false => FaultKind::Contradiction {
                found: format!("`{name}`, which no layer can compute again").into(),
                expected: known.into(),
            },
        };
        Some(Fault::new(setting::RECOMPUTE, kind))
    }

    /// Stages that are to be alike in what they have no choice of.
    fn alike_fault(&self) -> Option<Fault> {
        let kind = FaultKind::Contradiction {
            found: "stages of one degree and number of replicas, without any to choose from".into(),
            expected: words!("{} or {}", setting::TENSOR, setting::REPLICAS),
        };
        self.uniform.then(|| Fault::new(setting::UNIFORM, kind))
    }

    /// An order of kinds that searches of devices which are each alone know, and no others.
    fn order_fault(&self) -> Option<Fault> {
        let kind = FaultKind::Contradiction {
            found: words!(
                "{} with groups, or workers that run both phases at once",
                setting::DEVICE_ORDER.given(self.device_order)
            ),
            expected: "devices that are each alone and sequential: a group of several kinds has no place in an order of kinds".into(),
        };
        let is_wrong = self.device_order == DeviceOrder::Given && self.has_unlike_devices();
        is_wrong.then(|| Fault::new(setting::DEVICE_ORDER, kind))
    }

    /// What is wrong with degrees of experts, with their load, and with degrees of context parallelism.
    pub(super) fn expert_faults(&self, instance: &Instance) -> impl Iterator<Item = Fault> {
        let of_experts = self.load_fault().into_iter().chain(self.expert_fault(instance));
        of_experts.chain(self.context_fault(instance))
    }

    /// A load of experts that is none, or that nothing bears.
    fn load_fault(&self) -> Option<Fault> {
        let found = self.expert_load;
        if !(1.0..=MOST_LOAD).contains(&found) {
            let expected = "a factor from 1 to 1000000";
            return Some(Fault::new(
                setting::EXPERT_LOAD,
                FaultKind::BadNumber { found, expected },
            ));
        }
        let kind = FaultKind::Contradiction {
            found: format!("a load of {found} without experts that are shared out").into(),
            expected: words!("{}", setting::EXPERT),
        };
        (found > 1.0 && self.expert.is_one()).then(|| Fault::new(setting::EXPERT_LOAD, kind))
    }

    /// Degrees of experts for a network that has none.
    fn expert_fault(&self, instance: &Instance) -> Option<Fault> {
        let has_experts = |layer: &Layer| layer.modes().iter().any(|mode| mode.experts.is_some());
        let kind = FaultKind::Contradiction {
            found: format!("`{}` of a network without experts", self.expert).into(),
            expected: "1, or layers that say their `experts`".into(),
        };
        let is_wrong = !self.expert.is_one() && !instance.network.layers.iter().any(has_experts);
        is_wrong.then(|| Fault::new(setting::EXPERT, kind))
    }

    /// Sequences to be shared out where nobody knows how long they are, or what is not counted where they are.
    fn context_fault(&self, instance: &Instance) -> Option<Fault> {
        let network = &instance.network;
        let keeps = |layer: &Layer| layer.modes().iter().any(|mode| mode.cache.token_bytes > 0);
        let (found, expected) = match () {
            () if self.context_parallel.is_one() => return None,
            () if !self.mode.trains() => ("inference", words!("{}", setting::MODE.given("training"))),
            () if network.micro_batch.is_none() || !network.layers.iter().any(keeps) => (
                "a network that does not say its tokens, or keys and values",
                "`micro_batch = { tokens }`, and layers that say their `kv_bytes_per_token`".into(),
            ),
            () if network.has_explicit_backward() => (
                "backward operators that are layers",
                "layers with both passes".into(),
            ),
            () => return None,
        };
        let found = words!(
            "{} with {}",
            found,
            setting::CONTEXT_PARALLEL.given(&self.context_parallel)
        );
        Some(Fault::new(
            setting::CONTEXT_PARALLEL,
            FaultKind::Contradiction { found, expected },
        ))
    }

    /// Gradients and weights of training to be shared out where nothing trains.
    fn unkept_fault(&self) -> Option<Fault> {
        let sharding = self.optimizer_sharding;
        let kind = FaultKind::Contradiction {
            found: format!("`{sharding}` in inference").into(),
            expected: words!("`none`, or {}", setting::MODE.given("training")),
        };
        (sharding.exchanges_each_time() && !self.mode.trains())
            .then(|| Fault::new(setting::OPTIMIZER_SHARDING, kind))
    }

    /// Sharing out among replicas where there can be none.
    fn unshared_fault(&self) -> Option<Fault> {
        let kind = FaultKind::Contradiction {
            found: format!("`{}` without replicas of stages", self.optimizer_sharding).into(),
            expected: words!("{}, or `none`", setting::REPLICAS),
        };
        (self.optimizer_sharding != OptimizerSharding::None)
            .then(|| Fault::new(setting::OPTIMIZER_SHARDING, kind))
    }

    /// One tick a ns where iterations are simulated, which are run in whole ns; else as many, a power of ten, as keep the sums of all layers and tensors exact, and what a
    /// formula makes of them: stage times are divided by replicas and micro-batches.
    pub(super) fn fine_ticks(&self, instance: &Instance) -> u64 {
        if self.is_simulated() {
            return 1;
        }
        let rounds = match self.objective {
            Objective::Formula => 1.0 + self.micro_batches.unwrap_or(1) as f64,
            _ => 1.0,
        };
        let all_ns = rounds * self.most_ns(instance).max(1.0);
        let mut ticks = MOST_TICKS;
        while ticks > 1 && 4.0 * all_ns * ticks as f64 > LARGEST_EXACT as f64 {
            ticks /= 10;
        }
        ticks
    }
}

/// A kind of which nobody knows how many devices there are to form groups of.
pub(crate) fn uncounted_fault(kind: &str) -> Fault {
    Fault::new(
        format!("cluster.device_kinds `{kind}`"),
        FaultKind::Missing {
            what: "count".into(),
            expected: "how many devices there are, to form groups of them".into(),
            remedy: words!(
                "give the kind a `count`, such as `count = 4`, or ask for {}",
                setting::DEVICES.given("4")
            ),
        },
    )
}

/// Tensor degrees that a layer has modes of.
fn degrees(layer: &Layer) -> BTreeSet<usize> {
    layer.modes().iter().map(|mode| mode.tensor).collect()
}
