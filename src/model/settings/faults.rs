//! What is wrong with options: what is missing, out of range, or contradicts the instance or another option.

use super::{Settings, has_bytes, workers};
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Size, Tensor};
use crate::model::options::{Cuts, Groups, Objective, PipelineOptions, Shares, Synchronization, WorkerMode};
use crate::model::setting;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::{Piece, Setting, Words, words};

impl Settings {
    /// What is wrong with the options that these settings come from, of which `overrides` are not the instance's own.
    pub(super) fn faults(
        &self,
        instance: &Instance,
        options: &PipelineOptions,
        overrides: &PipelineOptions,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        if options.stages.or(self.devices).is_none() && workers(instance, &self.kinds).is_none() {
            faults.push(Fault::new(
                setting::STAGES,
                FaultKind::Missing {
                    what: "number of stages".into(),
                    expected: words!(
                        "{}, or a `count` of devices in the cluster",
                        setting::STAGES.given("N")
                    ),
                    remedy: words!("try {}", setting::STAGES.given("4")),
                },
            ));
        }
        faults.extend(at_least_one(setting::STAGES, self.stages as u64));
        faults.extend(self.device_fault(instance, overrides));
        let all_forward_first = self.schedule.is_all_forward_first() && self.mode.trains();
        match self.micro_batches {
            Some(micro_batches) => faults.extend(at_least_one(setting::MICRO_BATCHES, micro_batches)),
            None if self.objective.is_of_iterations() || all_forward_first => faults.push(Fault::new(
                setting::MICRO_BATCHES,
                FaultKind::Missing {
                    what: "number of micro-batches".into(),
                    expected: words!(
                        "{} with {} or `formula`, or {}",
                        setting::MICRO_BATCHES.given("M"),
                        setting::OBJECTIVE.given("iteration"),
                        setting::SCHEDULE.given("gpipe")
                    ),
                    remedy: words!(
                        "try {}, four a stage",
                        setting::MICRO_BATCHES.given(4 * self.stages.clamp(1, 1_000))
                    ),
                },
            )),
            None => {}
        }
        if self.objective.is_of_iterations() && !self.schedule.flushes() {
            faults.push(Fault::new(
                setting::OBJECTIVE,
                FaultKind::Contradiction {
                    found: words!(
                        "`{}` with {}, which never flushes",
                        self.objective.to_string(),
                        setting::SCHEDULE.given(self.schedule)
                    ),
                    expected: words!(
                        "{} or `gpipe`, or {}",
                        setting::SCHEDULE.given("1f1b"),
                        setting::OBJECTIVE.given("period")
                    ),
                },
            ));
        }
        faults.extend(self.worker_faults(options));
        faults.extend(self.shared_faults(instance));
        faults.extend(self.level_faults(instance));
        faults.extend(self.target_faults(instance));
        faults.extend(self.constraint_faults(instance));
        faults.extend(self.room_faults(instance, options));
        faults.extend(self.passes_fault(instance));
        faults.extend(self.prompt_faults(instance, options));
        faults.extend(self.bandwidth_fault(instance, options.bandwidth_bytes_per_s));
        faults.extend(self.modal_faults(instance));
        faults.extend(self.expert_faults(instance));
        faults.extend(self.virtual_stage_faults(options));
        faults
    }

    /// Micro-batches of several passes where each is one: training, and prompts in chunks.
    fn passes_fault(&self, instance: &Instance) -> Option<Fault> {
        let passes = instance.network.micro_batch.map_or(1, |of| of.passes);
        let found = match (self.mode.trains(), &self.prompt) {
            (true, _) => "training",
            (false, Some(_)) => "a prompt in chunks",
            (false, None) => return None,
        };
        let kind = FaultKind::Contradiction {
            found: format!("{passes} passes forward in {found}").into(),
            expected: "one: several are whole requests, prompt and answer, in inference".into(),
        };
        (passes > 1).then(|| Fault::new("network.micro_batch.passes", kind))
    }

    /// More stages than devices, or a number of devices that replaces no count.
    fn device_fault(&self, instance: &Instance, overrides: &PipelineOptions) -> Option<Fault> {
        let cluster = &instance.cluster;
        let kinds = self.kinds.iter().map(|&kind| &cluster.kinds[kind].name);
        let names: Vec<String> = kinds.map(|name| format!("`{name}`")).collect();
        let conflict = |at: Setting, found: Words, expected: &str, remedy: Words| {
            let kind = FaultKind::Conflict {
                found,
                expected: expected.into(),
                remedy,
            };
            Some(Fault::new(at, kind))
        };
        let has_groups = self.groups == Groups::Given && !cluster.groups.is_empty();
        let assign = setting::GROUPS.given("assign");
        if self.devices.is_some() && has_groups {
            return conflict(
                setting::DEVICES,
                "a number of devices for a cluster of groups".into(),
                "the devices of its groups",
                words!(
                    "leave out {}, or form groups anew with {}",
                    setting::DEVICES,
                    assign
                ),
            );
        }
        if let Some(devices) = self.devices {
            if names.len() > 1 {
                return conflict(
                    setting::DEVICES,
                    format!("a number of devices for the kinds {}", names.join(", ")).into(),
                    "one kind of device",
                    words!(
                        "name the one that is meant, such as {}",
                        setting::DEVICE_KINDS.given(names[0].trim_matches('`'))
                    ),
                );
            }
            if let Some(fault) = at_least_one(setting::DEVICES, devices as u64) {
                return Some(fault);
            }
        }
        let most = self
            .devices
            .or(workers(instance, &self.kinds))
            .filter(|&most| most < self.stages)?;
        let plural = ["s", ""][usize::from(most == 1)];
        let (devices, more) = match (has_groups, names.len()) {
            (true, _) => (
                format!("{most} group{plural}"),
                words!("form others with {}", assign),
            ),
            (false, 1) => (
                format!("{most} {} device{plural}", names[0]),
                words!(
                    "plan as if there were more devices: {}",
                    setting::DEVICES.given(self.stages)
                ),
            ),
            (false, _) => (
                format!("{most} device{plural} of the kinds {}", names.join(", ")),
                "give the kinds a larger `count`".into(),
            ),
        };
        conflict(
            setting::STAGES,
            format!("{} and {devices}", self.stages_asked(instance, overrides)).into(),
            "at least one device a stage",
            words!("lower {} to {}, or {}", setting::STAGES, most.to_string(), more),
        )
    }

    /// The number of stages; who typed another option may never have seen it.
    fn stages_asked(&self, instance: &Instance, overrides: &PipelineOptions) -> String {
        let is_own = overrides.stages.is_none() && instance.pipeline.stages.is_some();
        let origin = if is_own { " (`stages` of the instance)" } else { "" };
        format!("{} stages{origin}", self.stages)
    }

    /// Options of workers that contradict each other, or that cannot be asked together.
    fn worker_faults(&self, options: &PipelineOptions) -> Vec<Fault> {
        let is_concurrent = self.worker == WorkerMode::Concurrent;
        let mut faults = Vec::new();
        let mut contradiction = |at: Setting, found: Words, expected: Words| {
            faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
        };
        if self.cuts == Cuts::Separate && !self.mode.trains() {
            contradiction(
                setting::CUTS,
                "`separate` in inference".into(),
                words!("`tied`, or {}", setting::MODE.given("training")),
            );
        }
        if self.worker != self.schedule.worker() {
            let found = words!(
                "`{}` with {}",
                self.worker.to_string(),
                setting::SCHEDULE.given(self.schedule)
            );
            let expected = "`concurrent` for both, or for neither";
            contradiction(setting::WORKER, found, expected.into());
        }
        if is_concurrent && self.communication.blocks() {
            contradiction(
                setting::COMMUNICATION,
                words!(
                    "`blocking` with {}, where both phases share what a transfer would block",
                    setting::WORKER.given("concurrent")
                ),
                "`overlapped` or `ignored`".into(),
            );
        }
        if !is_concurrent && (options.shares.is_some() || options.share_parts.is_some()) {
            let found = "shares of sequential workers".into();
            contradiction(
                setting::SHARES,
                found,
                words!("{}", setting::WORKER.given("concurrent")),
            );
        }
        if is_concurrent && matches!(self.objective, Objective::Latency | Objective::Formula) {
            contradiction(
                setting::OBJECTIVE,
                format!(
                    "`{}`, in which phases follow each other, with workers that run both at once",
                    self.objective
                )
                .into(),
                words!("{} or `iteration`", setting::OBJECTIVE.given("period")),
            );
        }
        if is_concurrent && self.objective == Objective::Iteration && self.shares == Shares::Global {
            contradiction(
                setting::SHARES,
                "`global`, a share for the period of all stages, with an iteration".into(),
                words!(
                    "`best`, `even` or `theorem`, or {}",
                    setting::OBJECTIVE.given("period")
                ),
            );
        }
        faults.extend(self.share_parts_fault());
        faults
    }

    /// What tables that layers share, each stage with a copy, cannot be asked together with.
    fn shared_faults(&self, instance: &Instance) -> Vec<Fault> {
        let tables = instance.network.shared_tables();
        let Some(table) = tables.first() else {
            return Vec::new();
        };
        let reasons = [
            (
                !self.schedule.flushes(),
                setting::SCHEDULE,
                format!(
                    "`{}`, which updates weights behind every backward pass,",
                    self.schedule
                ),
                words!(
                    "{}: copies of a table get the gradients of a micro-batch at different times, and would differ, or wait for each other",
                    setting::SCHEDULE.given("1f1b")
                ),
            ),
            (
                self.heterogeneous && self.synchronization == Synchronization::Ring,
                setting::SYNCHRONIZATION,
                "rings of groups".to_owned(),
                words!(
                    "{}, for which copies of a table are counted",
                    setting::SYNCHRONIZATION.given("none")
                ),
            ),
        ];
        let fault = |(_, at, found, instead): (bool, Setting, String, Words)| {
            let kind = FaultKind::Conflict {
                found: format!("{found} with layers that share the table `{}`", table.name).into(),
                expected: instead,
                remedy: "leave `shared` out of the layers to count their tables as if they were of their own"
                    .into(),
            };
            Fault::new(at, kind)
        };
        let wrong = reasons.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        wrong.map(fault).collect()
    }

    fn share_parts_fault(&self) -> Option<Fault> {
        let found = self.share_parts.filter(|parts| !(2..=1000).contains(parts))? as f64;
        let expected = "a whole number from 2 to 1000";
        Some(Fault::new(
            setting::SHARE_PARTS,
            FaultKind::BadNumber { found, expected },
        ))
    }

    /// Links that are not all alike where devices share a stage's work: nothing that plans for these knows which of them share a node, or a link.
    fn level_faults(&self, instance: &Instance) -> Vec<Fault> {
        let cluster = &instance.cluster;
        let Some(links) = cluster
            .unlike_links()
            .filter(|_| self.heterogeneous && self.communication.takes_time())
        else {
            return Vec::new();
        };
        let reasons = [
            (
                self.groups == Groups::Assign,
                setting::GROUPS.into(),
                "groups to be formed".into(),
            ),
            (
                self.groups == Groups::Given && !cluster.groups.is_empty(),
                "cluster.groups".into(),
                "groups of devices".into(),
            ),
        ];
        let reasons = reasons.into_iter().filter(|(is_one, ..)| *is_one);
        let fault = |(_, at, with): (bool, Piece, String)| {
            let kind = FaultKind::Conflict {
                found: format!("{with} with {links}").into(),
                expected: "devices that are each alone and sequential, or links that are all alike".into(),
                remedy: match cluster.nodes {
                    Some(_) => "leave out `nodes` of the link to plan as if all links were those between nodes: no plan takes longer than \
                                it says where those inside are faster"
                        .into(),
                    None => "leave out `links` of the cluster to plan as if all were its `link`".into(),
                },
            };
            Fault::new(at, kind)
        };
        reasons.map(fault).collect()
    }

    /// A bandwidth that is none, that nothing crosses, or that makes transfers too long to count in whole ns.
    fn bandwidth_fault(&self, instance: &Instance, given: Option<f64>) -> Option<Fault> {
        let bandwidth = given?;
        let fault = |kind| Some(Fault::new(setting::BANDWIDTH, kind));
        if !(bandwidth.is_finite() && bandwidth > 0.0) {
            return fault(FaultKind::BadNumber {
                found: bandwidth,
                expected: "a finite number of bytes per second above 0",
            });
        }
        if !has_bytes(instance) {
            return fault(FaultKind::Contradiction {
                found: "a bandwidth for tensors whose transfer times are given".into(),
                expected: words!("no {} with this instance", setting::BANDWIDTH),
            });
        }
        // Both ways, and once for every stage that may pay; in floating point, since the sum may be of any size.
        let paid_ns = |tensor: &Tensor| match tensor.size {
            Size::Bytes(bytes) => 2e9 * bytes as f64 / bandwidth * (1 + tensor.consumers.len()) as f64,
            Size::TransferNs(_) => 0.0,
        };
        let found: f64 = instance.network.tensors.iter().map(paid_ns).sum();
        match found > LARGEST_EXACT as f64 {
            true => fault(FaultKind::Overflow {
                found,
                most: LARGEST_EXACT,
                unit: "ns",
            }),
            false => None,
        }
    }
}

fn at_least_one(option: Setting, value: u64) -> Option<Fault> {
    // Far above any real pipeline, far below where M times a total could leave the exact range unnoticed.
    const MOST: u64 = 1_000_000;
    if (1..=MOST).contains(&value) {
        return None;
    }
    Some(Fault::new(
        option,
        FaultKind::BadNumber {
            found: value as f64,
            expected: "a whole number from 1 to 1000000",
        },
    ))
}
