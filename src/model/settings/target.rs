//! What the framework that plans are for can run of no plan.

use super::Settings;
use crate::model::cluster::DeviceKind;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::Unfit;
use crate::model::options::{
    Cuts, Devices, Groups, Placement, Recomputation, Region, Staffing, UnlikeStates, WorkerMode,
};
use crate::model::setting;
use crate::model::words::{Piece, Setting, Words, words};

/// What is refused: where, what was found, and what is expected.
type Refusals = Vec<(Piece, Words, Words)>;

impl Settings {
    /// What the framework that plans are for can run of no plan.
    pub(super) fn target_faults(&self, instance: &Instance) -> Vec<Fault> {
        let Some(target) = self.target else {
            return Vec::new();
        };
        let mut refusals = self.unfit_network(instance, target);
        refusals.extend(self.unfit_stages(instance, target));
        refusals.extend(self.unfit_modes(target));
        refusals.extend(self.unfit_states(instance, target));
        refusals.extend(self.unfit_devices(instance, target));
        let fault = |(at, found, expected): (Piece, Words, Words)| {
            let found = words!("{} for `{}`", found, target.to_string());
            Fault::new(at, FaultKind::Contradiction { found, expected })
        };
        refusals.into_iter().map(fault).collect()
    }

    /// A network that the framework cannot lay out.
    fn unfit_network(&self, instance: &Instance, target: Region) -> Refusals {
        let network = &instance.network;
        let id = |at: usize| format!("layer `{}`", network.layers[at].id);
        let limits = target.limits();
        let (found, expected) = match network.laid_out(limits.layout) {
            Ok(_) => return Vec::new(),
            Err(Unfit::NoStack | Unfit::NotInARow) => (
                "no numbered blocks, or several kinds of them,".to_owned(),
                "one stack of transformer blocks",
            ),
            Err(Unfit::BetweenBlocks(at)) => (
                format!("{} between two blocks", id(at)),
                "layers in blocks, before all of them, or after all",
            ),
            Err(Unfit::NoModule(at)) => (
                format!("{}, whose name is no module's,", id(at)),
                "names of modules, such as `h.0.attn`, before a `/`",
            ),
        };
        vec![(setting::FOR.given(target).into(), found.into(), expected.into())]
    }

    /// Stages that it does not know.
    fn unfit_stages(&self, instance: &Instance, target: Region) -> Refusals {
        let limits = target.limits();
        let mut refusals = Vec::new();
        let mut refuse = |is_wrong: bool, at: Piece, found: &str, expected: Words| {
            if is_wrong {
                refusals.push((at, found.into(), expected));
            }
        };
        let trains = self.mode.trains();
        refuse(
            trains && !limits.trains,
            setting::MODE.into(),
            "training",
            words!("{}", setting::MODE.given("inference")),
        );
        refuse(
            !trains && !limits.infers,
            setting::MODE.into(),
            "inference",
            words!("{}", setting::MODE.given("training")),
        );
        refuse(
            self.cuts == Cuts::Separate,
            setting::CUTS.into(),
            "separate cuts",
            words!("{}", setting::CUTS.given("tied")),
        );
        refuse(
            self.worker == WorkerMode::Concurrent,
            setting::WORKER.into(),
            "shares of concurrent workers",
            words!("{}", setting::WORKER.given("sequential")),
        );
        let of_several = |devices: &[usize]| devices.iter().sum::<usize>() > 1;
        let mut groups = instance.cluster.groups.iter();
        refuse(
            self.groups == Groups::Given && groups.any(|group| of_several(&group.devices)),
            "cluster.groups".into(),
            "groups of devices",
            "one device a stage".into(),
        );
        refuse(
            self.groups == Groups::Assign,
            setting::GROUPS.into(),
            "groups to be formed",
            words!("{}", setting::GROUPS.given("given")),
        );
        refuse(
            self.may_have_virtual_stages() && !limits.takes_chunks,
            setting::VIRTUAL_STAGES.into(),
            "several chunks on a device",
            words!(
                "{}: without an order of operations it runs one stage a device",
                setting::VIRTUAL_STAGES.given(1)
            ),
        );
        refuse(
            self.may_have_virtual_stages() && limits.takes_chunks && self.placement == Placement::V,
            setting::PLACEMENT.into(),
            "chunks in a V",
            words!("{}", setting::PLACEMENT.given("loop")),
        );
        refusals
    }

    /// Degrees, replicas and recomputation that it has no words for.
    fn unfit_modes(&self, target: Region) -> Refusals {
        let limits = target.limits();
        let mut refusals = Vec::new();
        let mut refuse = |is_wrong: bool, option: Setting, expected: &str| {
            if is_wrong {
                let found = words!("{}", option);
                refusals.push((option.into(), found, words!("{}", option.given(expected))));
            }
        };
        let (splits, replicates) = match limits.staffing {
            Staffing::One => (false, false),
            Staffing::Tensor => (true, false),
            Staffing::Replicated => (true, true),
        };
        refuse(!splits && !self.tensor.is_one(), setting::TENSOR, "1");
        refuse(!replicates && !self.replicas.is_one(), setting::REPLICAS, "1");
        refuse(!replicates && !self.expert.is_one(), setting::EXPERT, "1");
        refuse(
            !replicates && !self.context_parallel.is_one(),
            setting::CONTEXT_PARALLEL,
            "1",
        );
        let shares_more =
            self.optimizer_sharding.exchanges_each_time() && !limits.sharding.exchanges_each_time();
        refuse(shares_more, setting::OPTIMIZER_SHARDING, "zero1");
        let recomputes = limits.recomputation != Recomputation::Nothing;
        refuse(
            !recomputes && !self.recompute.is_none(),
            setting::RECOMPUTE,
            "none",
        );
        refusals
    }

    /// What it keeps of every parameter, where memory is limited and counts something else.
    fn unfit_states(&self, instance: &Instance, target: Region) -> Refusals {
        let mut kinds = self.kinds.iter().map(|&kind| &instance.cluster.kinds[kind]);
        let is_limited = match self.memory_limit {
            Some(limit) => limit < u64::MAX,
            None => self.has_unlike_devices() && kinds.any(|kind| kind.memory_bytes.is_some()),
        };
        let kept = target.limits().states;
        let unlike = kept.unlike(self.optimizer, self.precision, instance.network.precision);
        let refusal = match unlike.filter(|_| is_limited && self.mode.trains()) {
            None => return Vec::new(),
            Some(UnlikeStates::Optimizer(optimizer)) => (
                setting::OPTIMIZER.into(),
                format!("`{optimizer}`").into(),
                words!("{}", setting::OPTIMIZER.given("adam")),
            ),
            Some(UnlikeStates::Precision(half)) => (
                setting::PRECISION.into(),
                words!(
                    "gradients and optimiser states in {}, as {} counts them,",
                    half.to_string(),
                    setting::PRECISION.given("uniform")
                ),
                words!(
                    "{}, or {}",
                    setting::PRECISION.given(format!("{half}-mixed")),
                    setting::PRECISION.given("fp32")
                ),
            ),
        };
        vec![refusal]
    }

    /// Devices that it does not run on, or cannot be told of.
    fn unfit_devices(&self, instance: &Instance, target: Region) -> Refusals {
        let cluster = &instance.cluster;
        let kinds: Vec<&DeviceKind> = self.kinds.iter().map(|&kind| &cluster.kinds[kind]).collect();
        let is_alone = cluster.kinds.len() == 1;
        let cpu = kinds.iter().find(|kind| kind.is_cpu());
        let (takes_cpus, splits) = match target.limits().devices {
            Devices::Any => return Vec::new(),
            Devices::OneEach => (true, false),
            Devices::OneOfAKind => (is_alone || kinds.iter().all(|kind| kind.is_cpu()), false),
            Devices::Gpus => (is_alone, false),
            Devices::GroupedGpus => (is_alone, true),
        };
        let mut refusals = Vec::new();
        let mut refuse = |found: String, expected: &str| {
            refusals.push((setting::DEVICE_KINDS.into(), found.into(), expected.into()));
        };
        if let Some(cpu) = cpu.filter(|_| !takes_cpus) {
            refuse(format!("`{}`, a CPU,", cpu.name), "kinds of GPUs alone");
        }
        let several = kinds.iter().find(|kind| kind.gpus > 1);
        if let Some(several) = several.filter(|_| !splits) {
            let found = format!(
                "`{}`, a node of {} GPUs that work as one,",
                several.name, several.gpus
            );
            refuse(found, "one GPU a device");
        }
        let other = kinds.iter().find(|kind| kind.gpus != kinds[0].gpus);
        if let Some(other) = other.filter(|_| splits) {
            let found = format!("`{}`, of {} GPUs a device,", other.name, other.gpus);
            refuse(found, "as many on every device");
        }
        let is_ranked = target.limits().devices != Devices::OneEach;
        let gpus = cluster.kinds.iter().filter(|kind| !kind.is_cpu()).count();
        if cluster.nodes.is_some() && gpus > 1 && is_ranked {
            refuse(
                "unlike GPUs in nodes".into(),
                "one kind of GPU, or links of one level: ranks are numbered node by node",
            );
        }
        refusals
    }
}
