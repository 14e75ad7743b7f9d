//! States of optimisers that lie at the hosts of their devices, in which a stage may have them as it may have replicas: what a device then
//! holds, and what copies take once an iteration.

use super::{Modes, Ring, StageMode};
use crate::model::network::{Layer, LayerMode};
use crate::model::settings::Settings;

/// What a stage moves once an iteration, in bytes: gradients that all replicas have, gradients of all experts that they share out, and states
/// of optimisers that lie at hosts.
pub type OnceBytes = [u64; 3];

/// What is kept of parameters, in bytes.
pub(super) struct Kept {
    /// By each replica.
    pub own: u64,
    /// By all replicas of a stage together.
    pub shared: u64,
    /// At hosts: of each replica, or of all together where they share it out.
    pub at_host: u64,
}

impl Modes {
    /// What is kept at a degree of parameters that take so many bytes in the file.
    pub(super) fn kept(&self, settings: &Settings, parameter_bytes: u64, degree: usize) -> Kept {
        let shared = settings.shared_bytes(parameter_bytes);
        let own = settings.state_bytes.all(parameter_bytes) - shared;
        let at_host = match self.degrees[degree].at_host {
            true => settings.state_bytes.of_optimizer(parameter_bytes),
            false => 0,
        };
        let [of_own, of_shared] = match self.shares_out_states() {
            true => [0, at_host],
            false => [at_host, 0],
        };
        Kept {
            own: own - of_own,
            shared: shared - of_shared,
            at_host,
        }
    }

    /// The states of a layer in a mode that lie at hosts. Of experts that replicas share out each has its part.
    pub(super) fn states_at_host(
        &self,
        settings: &Settings,
        layer: &Layer,
        mode: &LayerMode,
        degree: usize,
    ) -> u64 {
        let kept = |bytes: u64| self.kept(settings, bytes, degree).at_host;
        let all = kept(mode.parameter_bytes);
        match mode.experts {
            Some(experts) if !layer.frozen && !self.shares_out_states() => {
                let of_experts = kept(experts.parameter_bytes);
                all - of_experts + of_experts.div_ceil(self.degrees[degree].expert as u64)
            }
            _ => all,
        }
    }

    /// What a micro-batch in flight keeps of the weights of a layer in a mode: the version that it began with, where these are updated meanwhile.
    pub(super) fn version_bytes(&self, settings: &Settings, mode: &LayerMode, degree: usize) -> u64 {
        match settings.updates_once() {
            true => 0,
            false => mode.weights_of(self.degrees[degree].expert),
        }
    }

    /// Whether replicas share out the states of the optimiser.
    fn shares_out_states(&self) -> bool {
        let [.., states] = self.sharding.shares_out();
        states
    }

    /// Devices of a stage over which its states are shared out.
    fn holders_of_states(&self, mode: &StageMode) -> u64 {
        match self.shares_out_states() {
            true => self.copies_of_weights(mode) as u64,
            false => 1,
        }
    }

    /// Bytes at the host of each device of a stage that has so many bytes of states there.
    pub fn at_host_of_device(&self, [.., states]: OnceBytes, mode: &StageMode) -> u64 {
        states.div_ceil(self.holders_of_states(mode))
    }

    /// Whether the host of a device of a degree is limited, and may have something of it.
    pub(crate) fn may_fill_host(&self, degree: usize) -> bool {
        let items = self.items.iter().filter_map(|degrees| degrees[degree].as_ref());
        let mut ways = items.flat_map(|item| &item.layers).flat_map(|layer| &layer.ways);
        self.host_memory_bytes(degree) < u64::MAX
            && (self.degrees[degree].at_host || ways.any(|way| way.host_bytes > 0))
    }

    /// What a device takes to copy a stage's states one way, once an iteration, in ns.
    fn copy_of_states_ns(&self, [.., states]: OnceBytes, mode: &StageMode) -> f64 {
        let of_device = states as f64 / self.holders_of_states(mode) as f64;
        let host = self.row(mode.degree).host;
        host.map_or(0.0, |host| of_device / host.bytes_per_s * 1e9)
    }

    /// What a stage pays for what it moves once an iteration, for one micro-batch, with rings over links of a level.
    pub fn synchronization(&self, once: OnceBytes, mode: &StageMode, level: usize) -> u64 {
        let rings = self.rings(once, mode);
        let rings = rings.map(|(bytes, members)| self.shared_out(self.ring(mode, members, level), bytes));
        let ticks = self.copy_of_states_ns(once, mode) * self.ticks_per_ns as f64;
        (rings.sum::<f64>() + 2.0 * ticks / self.updates_every(mode) as f64).ceil() as u64
    }

    /// What a stage takes for it, once an iteration, in whole ns: the exchange of gradients, and states there and back.
    pub fn exchange_ns(&self, once: OnceBytes, mode: &StageMode, level: usize) -> u64 {
        let rings = self.rings(once, mode);
        let rings = rings.map(|(bytes, members)| self.once_ns(self.ring(mode, members, level), bytes));
        rings.sum::<u64>() + 2 * self.copy_of_states_ns(once, mode).ceil() as u64
    }

    /// No stage takes less for these bytes of it once an iteration, whose rings lie at some of the levels, in ns: without what each message begins with.
    pub(crate) fn least_once_ns(
        &self,
        once: OnceBytes,
        mode: &StageMode,
        levels: impl Iterator<Item = usize> + Clone,
    ) -> f64 {
        let least = |(bytes, members): (f64, usize)| {
            let rings = levels.clone().filter_map(|level| self.ring(mode, members, level));
            let byte_ticks = rings
                .map(|Ring { byte_ticks, .. }| byte_ticks)
                .min_by(f64::total_cmp);
            byte_ticks.unwrap_or(0.0) * bytes * self.updates_every(mode) as f64
        };
        self.rings(once, mode).map(least).sum::<f64>() + 2.0 * self.copy_of_states_ns(once, mode)
    }
}
