//! What lies at the hosts of devices: what layers keep for the backward pass, and states of the optimiser; counted by the checker itself.

use super::devices::Placed;
use super::modes::Sum;
use super::parts::Part;
use super::states::{self, Kept};
use super::virtual_stages::Held;
use super::{BACKWARD, Checker, FORWARD};
use crate::model::network::LayerMode;
use crate::model::settings::Settings;
use crate::problem::plan::{Plan, PlanStage};

impl Sum {
    /// Bytes of states that the host of a device holds, with its part of what replicas share out, rounded up or as it is.
    pub(super) fn states_of_device(&self, placed: &Placed) -> (u128, f64) {
        let [own, together] = self.states_at_host;
        let copies = placed.copies() as u128;
        (
            own + together.div_ceil(copies),
            own as f64 + together as f64 / copies as f64,
        )
    }
}

impl Checker<'_> {
    /// Devices whose hosts hold states of the optimiser have hosts.
    pub(super) fn have_hosts(&mut self, k: usize, placed: &Placed) {
        let kind = &self.instance.cluster.kinds[placed.kind];
        if placed.offloads && kind.host.is_none() {
            let expected = format!("false, as `{}` has no host", kind.name);
            self.wrong(
                format!("stages[{k}].mode.optimizer_offload"),
                "true".into(),
                &expected,
            );
        }
    }

    /// What is kept on devices of a stage, and at their hosts, of parameters that take so many bytes in the file.
    pub(super) fn kept_on(&self, placed: &Placed, parameter_bytes: u64) -> Kept {
        let kept = states::kept(self.settings, &self.instance.network, parameter_bytes);
        match placed.offloads {
            true => kept.without_state(self.settings),
            false => kept,
        }
    }

    /// Adds what a layer keeps for its backward pass: on the device, or at the host, copied there behind the forward pass and back before that one.
    pub(super) fn keep(&self, sum: &mut Sum, part: &Part, placed: &Placed) {
        let [stash, weights] = sum.between.entry(part.ends).or_default();
        *stash += placed.part(part.mode.stash_bytes);
        *weights += weights_on(placed, &part.mode);
        let bytes = placed.part(part.mode.host_bytes);
        sum.host_bytes += bytes;
        if let Some(host) = self.instance.cluster.kinds[placed.kind].host {
            let copied_ns = self.counted_ns(bytes as f64 / host.bytes_per_s * 1e9);
            sum.work_ns[FORWARD] += copied_ns;
            sum.work_ns[BACKWARD] += copied_ns;
        }
    }

    /// What lies at the host of each device of a stage, against what is stated.
    pub(super) fn stated_at_host(&mut self, (k, stage): (usize, &PlanStage), bytes: u128) {
        self.figures[k].host_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let stated = stage.mode.as_ref().map_or(0, |mode| mode.host_bytes);
        self.stated_count(format!("stages[{k}].mode.host_bytes"), stated, bytes);
    }

    /// What lies at the host of a device of a stage, against what the host has.
    pub(super) fn host_memory(&mut self, k: usize, placed: &Placed, bytes: u128) {
        let host = self.instance.cluster.kinds[placed.kind].host;
        let limit = host.and_then(|host| host.memory_bytes);
        if let Some(limit) = limit.filter(|&limit| bytes > u128::from(limit)) {
            let expected = format!("at most {limit}, which the host has for it");
            self.wrong(
                format!("stages[{k}].mode.host_bytes"),
                bytes.to_string(),
                &expected,
            );
        }
    }

    /// What the chunks of a device have at its host.
    pub(super) fn hosts_of_chunks(
        &mut self,
        plan: &Plan,
        (placed, sums): (&[Placed], &[Sum]),
        rows: &Settings,
    ) {
        let at_host = |(sum, placed): (&Sum, &Placed)| Held {
            weights: 0,
            base: sum.states_of_device(placed).0,
            stash: sum.host_bytes,
        };
        let at_host: Vec<Held> = sums.iter().zip(placed).map(at_host).collect();
        for seen in self.seen(plan, &at_host, rows) {
            for (&k, &bytes) in seen.chunks.iter().zip(&seen.fullest) {
                self.stated_at_host((k, &plan.stages[k]), bytes);
            }
            if let Some(&first) = seen.chunks.first() {
                self.host_memory(first, &placed[first], seen.fullest.iter().sum());
            }
        }
    }

    /// What a device takes to copy its states one way, in ns.
    pub(super) fn copy_of_states_ns(&self, placed: &Placed, sum: &Sum) -> f64 {
        let (_, bytes) = sum.states_of_device(placed);
        let host = self.instance.cluster.kinds[placed.kind].host;
        host.map_or(0.0, |host| bytes / host.bytes_per_s * 1e9)
    }
}

/// Weights of a layer that a device has and an update changes: of experts its part. Those of frozen layers are not among the parameters.
pub(super) fn weights_on(placed: &Placed, mode: &LayerMode) -> u128 {
    let all = u128::from(mode.parameter_bytes);
    let of_experts = mode
        .experts
        .map_or(0, |own| u128::from(own.parameter_bytes))
        .min(all);
    all - of_experts + of_experts.div_ceil(placed.expert as u128)
}
