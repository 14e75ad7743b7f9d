//! What devices with the same weights exchange in every pass: gradients and weights that replicas share out, which are whole meanwhile, and keys and values
//! of sequences; counted by the checker itself.

use super::devices::Placed;
use super::modes;
use super::{Checker, states};
use crate::model::network::LayerMode;
use crate::model::options::{OptimizerSharding, Synchronization};
use crate::model::settings::Settings;

/// How often gradients go round once an iteration: summed and brought back, brought back alone, or neither.
pub(super) fn rounds(settings: &Settings) -> f64 {
    match settings.optimizer_sharding {
        OptimizerSharding::None | OptimizerSharding::Zero1 => 2.0,
        OptimizerSharding::Zero2 => 1.0,
        OptimizerSharding::Zero3 => 0.0,
    }
}

/// How often they, or weights, do in a forward and a backward pass.
pub(super) fn passes(settings: &Settings) -> [f64; 2] {
    match settings.optimizer_sharding {
        OptimizerSharding::None | OptimizerSharding::Zero1 => [0.0, 0.0],
        OptimizerSharding::Zero2 => [0.0, 1.0],
        OptimizerSharding::Zero3 => [1.0, 2.0],
    }
}

impl Checker<'_> {
    /// What devices with the same weights exchange of a layer in each pass, in ns.
    pub(super) fn exchanged_ns(&self, at: usize, mode: &LayerMode, placed: &Placed) -> [f64; 2] {
        let [gathered_ns, scattered_ns] = self.shared_ns(at, mode, placed);
        let [handed_ns, back_ns] = self.handed_ns(at, mode, placed);
        [gathered_ns + handed_ns, scattered_ns + back_ns]
    }

    /// What a device hands round of keys and values of a layer in each pass, in ns: over the link inside a node wherever a node has the group.
    fn handed_ns(&self, at: usize, mode: &LayerMode, placed: &Placed) -> [f64; 2] {
        let link = self.link_of_group(placed, placed.tensor * placed.context);
        let tokens = self.instance.network.micro_batch.map_or(0.0, |of| of.tokens) / placed.group as f64;
        let sent = 1.0 - 1.0 / placed.context as f64;
        let bytes = sent * tokens * mode.cache.token_bytes as f64;
        let once_ns = self.counted_ns(bytes / link.bandwidth_bytes_per_s * 1e9);
        let back = match (
            self.settings.mode.trains() && self.layer(at).returns,
            [modes::NOTHING, "offload"].contains(&mode.recompute.as_str()),
        ) {
            (false, _) => 0.0,
            (true, true) => 2.0,
            (true, false) => 3.0,
        };
        [once_ns, back * once_ns]
    }

    /// What devices exchange of the weights of a layer in each pass, in ns: over the link inside a node wherever a node has the devices of the stage.
    fn shared_ns(&self, at: usize, mode: &LayerMode, placed: &Placed) -> [f64; 2] {
        let settings = self.settings;
        let is_free = settings.synchronization == Synchronization::None
            || !settings.mode.trains()
            || !settings.communication.takes_time();
        if is_free {
            return [0.0; 2];
        }
        let [first, behind] = placed.devices;
        let link = self.link_of_group(placed, behind - first);
        let sent = |bytes: f64, members: usize| bytes * (1.0 - 1.0 / members as f64);
        let of_experts = match mode.experts {
            Some(own) if placed.expert > 1 && !self.layer(at).frozen => own.parameter_bytes as f64,
            _ => 0.0,
        };
        let of_all = mode.gradient_bytes as f64 - of_experts;
        let expert = placed.expert as f64;
        let bytes =
            sent(of_all, placed.copies()) + sent(of_experts / expert, placed.copies() / placed.expert);
        let once_ns = self.counted_ns(bytes / link.bandwidth_bytes_per_s * 1e9);
        passes(settings).map(|times| times * once_ns)
    }

    /// Bytes of a layer that a device has whole while it runs, of those that it shares out with others.
    pub(super) fn whole_bytes(&self, at: usize, mode: &LayerMode, placed: &Placed) -> u128 {
        if placed.copies() == 1 || self.layer(at).frozen {
            return 0;
        }
        let whole = |bytes: u64| states::kept(self.settings, &self.instance.network, bytes).whole;
        let of_experts = whole(mode.experts.map_or(0, |own| own.parameter_bytes));
        whole(mode.parameter_bytes) - of_experts + of_experts.div_ceil(placed.expert as u128)
    }
}
