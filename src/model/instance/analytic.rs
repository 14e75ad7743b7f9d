//! Recomputation of networks that say nothing of modes: each layer may keep its input instead of its stash.
//!
//! The backward pass then begins with the forward one: it takes as long as both, and while it runs the stash is there again, as
//! workspace beside the input (T. Chen et al., *Training deep nets with sublinear memory cost*, 2016, with segments of one layer).

use crate::model::network::{Experts, Layer, LayerMode, Network, Size, Times};
use crate::model::recompute;

/// Lists two modes for each layer that keeps more than its input: `none` and `full`. Leaves networks alone in which some layer lists
/// modes, or backward operators are layers of their own.
///
/// Nobody says how large the network's own input is, nor how many bytes are behind a transfer time: layers that read
/// either keep to what they are.
pub(super) fn recomputation(network: &mut Network) {
    let says_modes = network.layers.iter().any(|layer| !layer.modes.is_empty());
    if says_modes || network.has_explicit_backward() {
        return;
    }
    let inputs = input_bytes(network);
    for (layer, input_bytes) in network.layers.iter_mut().zip(inputs) {
        if let Some(input_bytes) = input_bytes.filter(|&bytes| bytes < layer.stash_bytes) {
            let kept = layer.modes()[0].clone();
            let full = full(layer, &kept, input_bytes);
            layer.modes = vec![kept, full];
        }
    }
}

/// For each layer the bytes of the tensors that it reads; `None` where they are not known.
fn input_bytes(network: &Network) -> Vec<Option<u64>> {
    let mut inputs: Vec<Option<u64>> = vec![None; network.layers.len()];
    let mut is_unknown: Vec<bool> = network.layers.iter().map(|layer| layer.reads_input).collect();
    for tensor in &network.tensors {
        for &consumer in &tensor.consumers {
            match tensor.size {
                Size::Bytes(bytes) => {
                    inputs[consumer] = Some(inputs[consumer].unwrap_or(0).saturating_add(bytes));
                }
                Size::TransferNs(_) => is_unknown[consumer] = true,
            }
        }
    }
    let known = inputs.into_iter().zip(is_unknown);
    known
        .map(|(bytes, is_unknown)| bytes.filter(|_| !is_unknown))
        .collect()
}

fn full(layer: &Layer, kept: &LayerMode, input_bytes: u64) -> LayerMode {
    let again = |times: Times| Times {
        backward_ns: times.backward_ns + times.forward_ns,
        ..times
    };
    LayerMode {
        experts: kept.experts.map(|experts| Experts {
            // What goes to experts and back goes there once more.
            routed_bytes: experts.routed_bytes + experts.routed_bytes / 2,
            ..experts
        }),
        recompute: recompute::FULL.to_owned(),
        times: layer.times.iter().map(|times| times.map(again)).collect(),
        stash_bytes: input_bytes,
        workspace_bytes: layer.stash_bytes - input_bytes,
        ..kept.clone()
    }
}
