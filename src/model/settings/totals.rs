//! What sums over a whole problem may come to: one rule, asked before any of them is formed, so that nothing behind it can overflow.
//!
//! Times of a problem are added up in whole ticks, and bytes in whole numbers. Here the largest of these sums are formed in floating point,
//! where they may be of any size: what all layers and tensors take, each at its slowest and over the slowest link, and what all layers hold
//! together, with every version of the weights and every micro-batch that can be in flight. What whole numbers have no room for is refused;
//! so are times of modes of which the checker, which adds up parts of a ns as doubles, would not know the last digit. Whatever passes is
//! added up, and then refused where it is not exact in a double: see [`crate::problem::Problem::new`].

use super::Settings;
use crate::model::cluster::Link;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode, Size, Tensor, Times};
use crate::model::options::{Cuts, OptimizerOffload, Synchronization};
use crate::model::units::{LARGEST_EXACT, LARGEST_SUM};

/// No sum of times may be larger where stages have modes: replicas divide them, and the checker adds up the parts as doubles.
const LARGEST_OF_MODES: u64 = LARGEST_EXACT / 16;

impl Settings {
    /// Totals that leave the range in which sums are right.
    pub(super) fn total_faults(&self, instance: &Instance) -> Vec<Fault> {
        let most = if self.modal { LARGEST_OF_MODES } else { LARGEST_SUM };
        // What is no number is no total either.
        let fits = |total: f64| total <= most as f64;
        let overflow = |at: &str, found: f64, most: u64, unit: &'static str| {
            Fault::new(at, FaultKind::Overflow { found, most, unit })
        };
        let mut faults = Vec::new();
        let layers = instance.network.layers.iter();
        let work_ns = self.slowest(instance) * layers.map(|layer| self.most_work_ns(layer)).sum::<f64>();
        let all_ns = self.most_ns(instance);
        if !fits(work_ns) {
            faults.push(overflow("network.layers", work_ns, most, "ns"));
        } else if !fits(all_ns) {
            faults.push(overflow("cluster.link", all_ns, most, "ns"));
        }
        let bytes = self.most_bytes(instance);
        if bytes > LARGEST_SUM as f64 {
            faults.push(overflow("network.layers", bytes, LARGEST_SUM, "bytes"));
        }
        faults
    }

    /// What all layers and tensors could take for a micro-batch, whatever their stages, and what they share out over an iteration, in ns.
    pub(super) fn most_ns(&self, instance: &Instance) -> f64 {
        let network = &instance.network;
        let moved = |bytes: u64| self.longest_ns(instance, bytes as f64);
        let shares_out = self.shares_out(instance);
        let of_layer = |layer: &Layer| match (self.modal, shares_out) {
            (true, _) => self.most_of_modes_ns(instance, layer),
            (false, true) => {
                self.most_work_ns(layer) * self.slowest(instance) + 2.0 * moved(layer.stash_bytes)
            }
            (false, false) => self.most_work_ns(layer) * self.slowest(instance),
        };
        let layers = network.layers.iter().map(of_layer);
        let tensors = network
            .tensors
            .iter()
            .map(|tensor| self.most_of_tensor_ns(instance, tensor));
        layers.chain(tensors).sum::<f64>() + self.most_shared_ns(instance)
    }

    /// What the weights of all layers could take that move, or the gradients, in ns: once an iteration where there is a flush.
    pub(super) fn most_shared_ns(&self, instance: &Instance) -> f64 {
        let moved = |layer: &Layer| 4.0 * self.longest_ns(instance, layer.parameter_bytes as f64);
        match self.shares_out(instance) && !self.modal {
            true => instance.network.layers.iter().map(moved).sum(),
            false => 0.0,
        }
    }

    /// Work of a layer at its slowest, in ns.
    fn most_work_ns(&self, layer: &Layer) -> f64 {
        let both = |times: Times| times.forward_ns as f64 + times.backward_ns as f64;
        let on_kinds = |mode: &LayerMode| {
            self.kinds
                .iter()
                .filter_map(|&kind| mode.times[kind])
                .collect::<Vec<_>>()
        };
        let of_modes = layer.modes.iter().flat_map(on_kinds);
        of_modes.map(both).fold(both(self.longest_times(layer)), f64::max)
    }

    /// What a layer takes in any of its modes, with all that its stage may move for it, in ns.
    fn most_of_modes_ns(&self, instance: &Instance, layer: &Layer) -> f64 {
        let of_mode = |mode: &LayerMode| {
            let beside = |bytes: &[(usize, u64)]| bytes.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>();
            let beside_bytes = beside(&mode.input_bytes) + beside(&mode.output_bytes);
            let routed_bytes = mode.experts.map_or(0, |experts| experts.routed_bytes);
            let routed_ns = self.longest_ns(instance, self.expert_load * routed_bytes as f64);
            let sums_ns = 2.0 * self.longest_ns(instance, mode.shared_bytes as f64);
            let states_ns = match self.optimizer_offload {
                OptimizerOffload::None => 0.0,
                _ => {
                    2.0 * self.longest_copy_ns(instance, self.state_bytes.of_optimizer(mode.parameter_bytes))
                }
            };
            let group_ns =
                self.longest_ns(instance, 2.0 * mode.collective_bytes as f64) + routed_ns + sums_ns;
            // Once for each stage that pays for one of its tensors, there and back.
            let tensors = &instance.network.tensors;
            let touching = |tensor: &&Tensor| std::ptr::eq(&instance.network.layers[tensor.producer], layer);
            let paid: usize = match beside_bytes > 0.0 {
                true => tensors
                    .iter()
                    .filter(touching)
                    .map(|tensor| 1 + tensor.consumers.len())
                    .sum(),
                false => 0,
            };
            let beside_ns = (1.0 + paid as f64) * self.longest_ns(instance, beside_bytes);
            // Replicas exchange them twice an iteration, or three times a micro-batch.
            let tokens = instance.network.micro_batch.map_or(0.0, |of| of.tokens);
            let context_ns = match self.context_parallel.is_one() {
                true => 0.0,
                false => 4.0 * self.longest_ns(instance, tokens * mode.cache.token_bytes as f64),
            };
            group_ns
                + context_ns
                + states_ns
                + 2.0 * self.longest_copy_ns(instance, mode.host_bytes)
                + 2.0 * beside_ns
                + 3.0 * self.longest_ns(instance, mode.gradient_bytes as f64)
        };
        let moved = layer.modes().iter().map(of_mode).fold(0.0, f64::max);
        // A ring sends as many messages, each of which waits for the first byte.
        let messages = match self.synchronization == Synchronization::Ring && self.may_copy_weights() {
            true => 2.0 * self.most_devices(instance),
            false => 0.0,
        };
        self.most_work_ns(layer) * self.slowest(instance) * self.expert_load
            + moved
            + messages * self.longest_latency_ns(instance)
    }

    /// What a tensor takes at most if every stage pays for it that may, there and back, in ns.
    fn most_of_tensor_ns(&self, instance: &Instance, tensor: &Tensor) -> f64 {
        let once_ns = match tensor.size {
            _ if !self.communication.takes_time() => 0.0,
            Size::TransferNs(ns) => ns as f64,
            Size::Bytes(bytes) => self.longest_ns(instance, bytes as f64),
        };
        2.0 * once_ns * (1 + tensor.consumers.len()) as f64
    }

    /// What all layers hold together, with every version of the weights and all that is in flight, in bytes.
    fn most_bytes(&self, instance: &Instance) -> f64 {
        let stages = self.most_stages(instance);
        let mut in_flight = 4.0 * stages.max(self.most_devices(instance));
        if let Some(all) = self.micro_batches {
            in_flight = match self.schedule.is_all_forward_first() {
                true => all as f64,
                false => in_flight.min(2.0 * all as f64).max(4.0 * stages),
            };
        }
        let versions = if self.schedule.flushes() {
            1.0
        } else {
            2.0 * stages
        };
        let of_mode = |mode: &LayerMode| {
            let states = 18.0 * mode.parameter_bytes as f64;
            let room = self.room.bytes(mode.cache) as f64;
            let once = states + room + (mode.resident_bytes + mode.workspace_bytes) as f64;
            let moved = mode.gradient_bytes as f64 + mode.collective_bytes as f64;
            once + versions * mode.parameter_bytes as f64
                + in_flight * (mode.stash_bytes + mode.host_bytes) as f64
                + moved
        };
        let layers = instance.network.layers.iter();
        layers
            .map(|layer| layer.modes().iter().map(of_mode).sum::<f64>())
            .sum()
    }

    /// What a copy to the slowest host takes, in ns.
    fn longest_copy_ns(&self, instance: &Instance, bytes: u64) -> f64 {
        let hosts = self
            .kinds
            .iter()
            .filter_map(|&kind| instance.cluster.kinds[kind].host);
        let ns = hosts.map(|host| bytes as f64 / host.bytes_per_s * 1e9);
        ns.fold(0.0, f64::max)
    }

    /// No plan has more stages that hold something.
    fn most_stages(&self, instance: &Instance) -> f64 {
        self.chunks().min(2 * instance.network.layers.len()) as f64
    }

    fn most_devices(&self, instance: &Instance) -> f64 {
        let counts = self
            .kinds
            .iter()
            .filter_map(|&kind| self.count(&instance.cluster, kind));
        counts
            .map(|count| count as f64)
            .sum::<f64>()
            .max(self.stages as f64)
    }

    /// Whether something that happens once an iteration is shared out over micro-batches: weights that move back, or gradients. A device
    /// that is alone has nobody to share its gradients with.
    pub(super) fn shares_out(&self, instance: &Instance) -> bool {
        let has_rings = self.synchronization == Synchronization::Ring && self.heterogeneous;
        let has_copies = self.sums_copies() && !instance.network.shared_tables().is_empty();
        let is_shared = self.cuts == Cuts::Separate || has_rings || has_copies;
        is_shared && self.mode.trains() && self.communication.takes_time()
    }

    /// Time to move bytes over the slowest link, in ns; none for nothing, or where transfers take none.
    fn longest_ns(&self, instance: &Instance, bytes: f64) -> f64 {
        if bytes == 0.0 || !(self.communication.takes_time() || self.modal) {
            return 0.0;
        }
        let ns = self
            .links(instance)
            .map(|link| bytes / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64);
        ns.fold(0.0, f64::max)
    }

    fn longest_latency_ns(&self, instance: &Instance) -> f64 {
        let latencies = self.links(instance).map(|link| link.latency_ns as f64);
        latencies.fold(0.0, f64::max)
    }

    /// All links.
    fn links(&self, instance: &Instance) -> impl Iterator<Item = Link> {
        let cluster = &instance.cluster;
        let inside = cluster.nodes.map(|nodes| nodes.link);
        let pairs = cluster.links.iter().map(|pair| pair.link);
        [Some(self.link), inside].into_iter().flatten().chain(pairs)
    }

    /// How many times longer than at rate 1 a phase may take on any device in play.
    fn slowest(&self, instance: &Instance) -> f64 {
        let resources = self
            .kinds
            .iter()
            .flat_map(|&kind| &instance.cluster.kinds[kind].resources);
        let least_rate = resources.map(|resource| resource.forward_rate.min(resource.backward_rate));
        1.0 / least_rate.fold(1.0, f64::min)
    }
}
