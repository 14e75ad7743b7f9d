//! Bytes that are kept for parameters, counted by the checker itself.

use crate::model::network::Network;
use crate::model::options::{Optimizer, OptimizerSharding, StatePrecision};
use crate::model::settings::Settings;

/// What is kept of parameters: by each replica, and by all replicas of a stage together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Bytes on every replica.
    pub each: u128,
    /// Bytes that are shared out.
    pub together: u128,
    /// Of these, bytes that a replica has whole while the layer runs.
    pub whole: u128,
    /// Of these, the state of the optimiser.
    state: u128,
    /// What lies at hosts: that of every replica, and what is shared out.
    pub at_host: [u128; 2],
}

impl Kept {
    /// The same with the state of the optimiser at hosts.
    pub(super) fn without_state(mut self, settings: &Settings) -> Self {
        let (on_devices, at_host) = match settings.optimizer_sharding {
            OptimizerSharding::None => (&mut self.each, &mut self.at_host[0]),
            _ => (&mut self.together, &mut self.at_host[1]),
        };
        (*on_devices, *at_host) = (*on_devices - self.state, self.state);
        self
    }
}

/// What is kept of parameters that take so many bytes in the file.
pub(super) fn kept(settings: &Settings, network: &Network, parameter_bytes: u64) -> Kept {
    let bytes = u128::from(parameter_bytes);
    if !settings.mode.trains() {
        return Kept {
            each: bytes,
            ..Kept::default()
        };
    }
    let states = match settings.optimizer {
        Optimizer::Sgd => 0,
        Optimizer::Momentum => 1,
        Optimizer::Adam => 2,
    };
    // Bytes of a weight, of it with its gradient, of what the optimiser keeps, and of the weight in the file.
    let (weight, own, state, in_file) = match settings.precision {
        StatePrecision::Uniform => (1, 2, states, 1),
        StatePrecision::Fp32 => (4, 8, 4 * states, in_file(network, 4)),
        StatePrecision::Bf16Mixed => (2, 6, 4 + 4 * states, in_file(network, 2)),
        StatePrecision::Fp16Mixed => (2, 4, 4 + 4 * states, in_file(network, 2)),
    };
    let [weight, own, state] = [weight, own, state].map(|part: u128| (bytes * part).div_ceil(in_file));
    // What is not shared out, and what of the rest runs as a whole.
    let (each, whole) = match settings.optimizer_sharding {
        OptimizerSharding::None => (own + state, 0),
        OptimizerSharding::Zero1 => (own, 0),
        OptimizerSharding::Zero2 => (weight, own - weight),
        OptimizerSharding::Zero3 => (0, own),
    };
    Kept {
        each,
        together: own + state - each,
        whole,
        state,
        at_host: [0; 2],
    }
}

fn in_file(network: &Network, unless_said: u128) -> u128 {
    network
        .precision
        .map_or(unless_said, |precision| precision.bytes().into())
}
