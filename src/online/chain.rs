//! An instance's network as a row of layers, and its cluster as devices by name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::cluster::DeviceKind;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Network, Size};
use crate::model::options::Optimizer;
use crate::model::units::ns_to_ms;
use crate::problem::hybrid::Chain;

/// The network in the topological order that keeps to the order of the file where it can.
///
/// # Errors
///
/// What hybrid parallelism has no place for: explicit backward graphs, and tensors without bytes.
pub(super) fn chain(instance: &Instance) -> Result<Chain, Vec<Fault>> {
    let network = &instance.network;
    let faults = refused(network);
    if !faults.is_empty() {
        return Err(faults);
    }
    let order = order(network);
    let mut position = vec![0; order.len()];
    order
        .iter()
        .enumerate()
        .for_each(|(at, &layer)| position[layer] = at);
    let trains = network
        .layers
        .iter()
        .flat_map(|layer| layer.times.iter().flatten());
    let trains = trains.into_iter().any(|times| times.backward_ns > 0);
    let mut cut_bytes = vec![0.0; order.len() + 1];
    let mut cut_messages = vec![0.0; order.len() + 1];
    for tensor in &network.tensors {
        let Size::Bytes(bytes) = tensor.size else { continue };
        let last = tensor.consumers.iter().map(|&layer| position[layer]).max();
        // In training the gradient comes back over every boundary that the tensor passed.
        let returns = trains && network.layers[tensor.producer].returns;
        let ways = if returns { 2.0 } else { 1.0 };
        let first = position[tensor.producer] + 1;
        for boundary in first..last.map_or(0, |last| last + 1) {
            cut_bytes[boundary] += bytes as f64 * ways;
            // Nothing to move takes no time.
            cut_messages[boundary] += if bytes > 0 { ways } else { 0.0 };
        }
    }
    let optimizer = instance.pipeline.optimizer.unwrap_or(Optimizer::Adam);
    let copies = if trains {
        2 + optimizer.states_per_parameter()
    } else {
        1
    };
    let layers = || order.iter().map(|&layer| &network.layers[layer]);
    Ok(Chain {
        work_ms: instance
            .cluster
            .kinds
            .iter()
            .enumerate()
            .map(|(k, kind)| layers().map(|layer| work_ms(layer.times[k], kind)).collect())
            .collect(),
        cut_bytes,
        cut_messages,
        parameter_bytes: layers()
            .map(|layer| if trains { layer.parameter_bytes as f64 } else { 0.0 })
            .collect(),
        state_bytes: layers()
            .map(|layer| (copies * layer.parameter_bytes + layer.resident_bytes) as f64)
            .collect(),
        stash_bytes: layers()
            .map(|layer| if trains { layer.stash_bytes as f64 } else { 0.0 })
            .collect(),
    })
}

/// What of a network hybrid parallelism has no place for.
fn refused(network: &Network) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut refuse = |found: &str, expected: &str| {
        let (found, expected) = (found.into(), expected.into());
        faults.push(Fault::new("instance", FaultKind::Unsupported { found, expected }));
    };
    if network.has_explicit_backward() {
        refuse(
            "an explicit backward graph",
            "a network whose layers have forward and backward times",
        );
    }
    let measured = |size: &Size| matches!(size, Size::TransferNs(_));
    if network.tensors.iter().any(|tensor| measured(&tensor.size)) {
        refuse("a tensor with a transfer time", "tensors with bytes");
    }
    if !network.shared_tables().is_empty() {
        refuse(
            "a table that layers share",
            "layers whose weights are their own: leave `shared` out to count them so",
        );
    }
    faults
}

/// Both passes of a sample; the resources of a device serve them one after the other, all together.
fn work_ms(times: Option<crate::model::network::Times>, kind: &DeviceKind) -> f64 {
    let rate = |rate: fn(&crate::model::cluster::Resource) -> f64| match kind.resources.is_empty() {
        true => 1.0,
        false => kind.resources.iter().map(rate).sum(),
    };
    let (forward, backward) = (rate(|r| r.forward_rate), rate(|r| r.backward_rate));
    times.map_or(f64::INFINITY, |times| {
        ns_to_ms(times.forward_ns) / forward + ns_to_ms(times.backward_ns) / backward
    })
}

/// Kahn's algorithm, smallest position first.
fn order(network: &Network) -> Vec<usize> {
    let mut after = vec![Vec::new(); network.layers.len()];
    let mut waits = vec![0; network.layers.len()];
    for tensor in &network.tensors {
        for &consumer in &tensor.consumers {
            after[tensor.producer].push(consumer);
            waits[consumer] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..waits.len()).filter(|&l| waits[l] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(layer)) = ready.pop() {
        order.push(layer);
        for &next in &after[layer] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    order
}
