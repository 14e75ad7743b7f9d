//! Layers that training leaves as they are: what is left of their bytes and times, and where no gradient flows.
//!
//! Gradients of weights are left out of the backward pass of a frozen layer, and its weights are held once, as the file has them: they are
//! resident bytes, of which there is no gradient, no state, no further version, and which replicas do not exchange. What is behind
//! trained layers still hands their gradients on. Where everything before a frozen layer is frozen too, nobody asks for the gradient of its
//! input: it has no backward pass, keeps nothing for one and computes nothing again, its tensor group reduces the forward pass alone, and no
//! gradient of what it makes moves. Backward operators that are layers of their own stay what they are.

use crate::model::network::{Experts, LayerMode, Network, Times};
use crate::model::recompute;

/// Settles what frozen layers take and hold. Time O(layers + tensors and their consumers).
pub(super) fn leave_as_they_are(network: &mut Network) {
    if !network.layers.iter().any(|layer| layer.frozen) {
        return;
    }
    let is_explicit = network.has_explicit_backward();
    let returns = behind_trained(network);
    for (layer, returns) in network.layers.iter_mut().zip(returns) {
        layer.returns = returns || is_explicit;
        if !layer.frozen {
            continue;
        }
        layer.frozen_bytes = std::mem::take(&mut layer.parameter_bytes);
        layer.resident_bytes += layer.frozen_bytes;
        layer
            .times
            .iter_mut()
            .flatten()
            .for_each(|times| settle(times, layer.returns));
        if !layer.returns {
            layer.stash_bytes = 0;
            let experts = layer.experts.as_mut();
            experts
                .into_iter()
                .for_each(|experts| experts.routed_bytes -= experts.routed_bytes / 2);
        }
        let kept = std::mem::take(&mut layer.modes);
        layer.modes = kept
            .iter()
            .map(|mode| settled(mode, &kept, layer.returns))
            .collect();
    }
}

/// For each layer whether gradients flow back through it: it is trained, or reads, over others perhaps, one that is.
fn behind_trained(network: &Network) -> Vec<bool> {
    let graph = network.graph();
    let mut is_behind = vec![false; network.layers.len()];
    let trained = (0..network.layers.len()).filter(|&layer| !network.layers[layer].frozen);
    let mut open: Vec<usize> = trained.collect();
    while let Some(layer) = open.pop() {
        if !std::mem::replace(&mut is_behind[layer], true) {
            open.extend(graph.neighbors((layer as u32).into()).map(|next| next.index()));
        }
    }
    is_behind
}

fn settle(times: &mut Times, returns: bool) {
    times.backward_ns = if returns {
        times.backward_ns - times.weight_ns.min(times.backward_ns)
    } else {
        0
    };
    times.weight_ns = 0;
}

/// A mode of a frozen layer that lists these.
fn settled(mode: &LayerMode, all: &[LayerMode], returns: bool) -> LayerMode {
    let mut own = match returns {
        true => mode.clone(),
        false => forward_alone(mode, all),
    };
    own.resident_bytes += std::mem::take(&mut own.parameter_bytes);
    own.gradient_bytes = 0;
    own.times
        .iter_mut()
        .flatten()
        .for_each(|times| settle(times, returns));
    own
}

/// A mode without its backward pass: that of its degree which computes nothing again, and of what that reduces half.
fn forward_alone(mode: &LayerMode, all: &[LayerMode]) -> LayerMode {
    let of_degree = || all.iter().filter(|other| other.tensor == mode.tensor);
    let plain = of_degree()
        .find(|other| other.recompute == recompute::NONE)
        .unwrap_or(mode);
    let least = of_degree().map(|other| other.collective_bytes).min().unwrap_or(0);
    let routed = |other: &LayerMode| other.experts.map_or(0, |experts| experts.routed_bytes);
    let least_routed = of_degree().map(routed).min().unwrap_or(0);
    LayerMode {
        recompute: mode.recompute.clone(),
        stash_bytes: 0,
        experts: mode.experts.map(|experts| Experts {
            routed_bytes: least_routed - least_routed / 2,
            ..experts
        }),
        collective_bytes: least - least / 2,
        ..plain.clone()
    }
}
