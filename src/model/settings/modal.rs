//! What stages with modes need of the other options.

use std::collections::BTreeSet;

use super::{Settings, has_groups};
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::options::{
    Degrees, DeviceOrder, Groups, Objective, OptimizerOffload, OptimizerSharding, PipelineOptions, Recompute,
    Synchronization, WorkerMode,
};
use crate::model::recompute::OFFLOAD;
use crate::model::setting;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::{Setting, Words, words};

/// The most ticks of a ns: beyond this no measured time says anything.
const MOST_TICKS: u64 = 10_000;

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
