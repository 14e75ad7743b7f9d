//! What moves between stages in modes: tensors and their gradients, and what a layer whose passes lie apart sends from one to the other.

use std::collections::BTreeMap;

use super::devices::Placed;
use super::hosts::weights_on;
use super::modes::Sum;
use super::parts::{Part, apart, part_of};
use super::{BACKWARD, Checker, FORWARD};
use crate::model::cluster::Link;
use crate::model::network::{Size, Tensor};

/// Positions in [`Sum::moved_ns`].
pub(super) const RECEIVED: usize = 0;
/// The other one.
pub(super) const SENT: usize = 1;

impl Checker<'_> {
    /// Charges every tensor to the stages that it leaves and enters, and what layers move between their passes to the stages of these.
    pub(super) fn add_crossings(
        &self,
        (placed, parts): (&[Placed], &[Part]),
        size_of: &dyn Fn(Size) -> Size,
        sums: &mut [Sum],
    ) {
        if !self.settings.communication.takes_time() {
            return;
        }
        for tensor in &self.instance.network.tensors {
            if !self.kept(tensor.producer) {
                continue;
            }
            let of = (tensor, size_of(tensor.size));
            let pass = usize::from(self.layer(tensor.producer).backward);
            self.add_tensor((placed, parts), of, [pass, SENT], sums);
            if self.has_gradient(tensor) {
                self.add_tensor((placed, parts), of, [BACKWARD, RECEIVED], sums);
            }
        }
        for two in apart(parts) {
            self.add_between_passes(placed, two, sums);
        }
    }

    /// Charges a tensor that moves in a pass, or its gradient: by whether the producer's stage sends or receives it.
    fn add_tensor(
        &self,
        (placed, parts): (&[Placed], &[Part]),
        (tensor, size): (&Tensor, Size),
        [pass, way]: [usize; 2],
        sums: &mut [Sum],
    ) {
        let Some(own) = part_of(parts, tensor.producer, pass) else {
            return;
        };
        let home = own.stage;
        // What reads it elsewhere, by the devices, with the first stage there that does.
        let start = |stage: usize| placed[stage].devices[0];
        let mut by_place: BTreeMap<usize, (usize, Vec<&Part>)> = BTreeMap::new();
        let readers = tensor.consumers.iter().filter_map(|&to| part_of(parts, to, pass));
        for reader in readers.filter(|reader| start(reader.stage) != start(home)) {
            let none = || (reader.stage, Vec::new());
            let (first, readers) = by_place.entry(start(reader.stage)).or_insert_with(none);
            *first = reader.stage.min(*first);
            readers.push(reader);
        }
        let away: BTreeMap<usize, Vec<&Part>> = by_place.into_values().collect();
        for (&stage, readers) in &away {
            let entering = readers
                .iter()
                .map(|reader| beside(&reader.mode.input_bytes, tensor.producer));
            let (_, link) = self.link_of_stages(placed, [home, stage]);
            let ns = self.moving_ns(size, link, entering.max().unwrap_or(0));
            sums[stage].moved_ns[pass][1 - way] += ns;
        }
        let links = away
            .keys()
            .map(|&stage| self.link_of_stages(placed, [home, stage]));
        // Out of a node, and else over less bandwidth, and more latency where that is equal.
        let farthest = links.max_by(|(one_out, one), (other_out, other)| {
            (one_out.cmp(other_out))
                .then(other.bandwidth_bytes_per_s.total_cmp(&one.bandwidth_bytes_per_s))
                .then(one.latency_ns.cmp(&other.latency_ns))
        });
        if let Some((_, link)) = farthest {
            let readers = away.values().flatten();
            let leaving = readers.map(|reader| beside(&own.mode.output_bytes, reader.layer));
            let ns = self.moving_ns(size, link, leaving.max().unwrap_or(0));
            sums[home].moved_ns[pass][way] += ns;
        }
    }

    /// Charges the stash that follows every forward pass to the backward pass, and the weights that come back behind every update: either stage pays for what its
    /// own devices have.
    fn add_between_passes(&self, placed: &[Placed], two: [&Part; 2], sums: &mut [Sum]) {
        let (_, link) = self.link_of_stages(placed, two.map(|part| part.stage));
        for (part, way) in two.into_iter().zip([SENT, RECEIVED]) {
            let (placed, sum) = (&placed[part.stage], &mut sums[part.stage]);
            let [stash, weights] = self.moved_of(placed, part);
            sum.moved_ns[FORWARD][way] += self.moving_ns(Size::Bytes(stash), link, 0);
            if weights > 0 {
                let bytes_ns = weights as f64 / link.bandwidth_bytes_per_s * 1e9;
                sum.updates_ns += (bytes_ns + link.latency_ns as f64).ceil();
            }
        }
    }

    /// Layers whose passes lie apart, by name: stages of both passes, micro-batches and versions between them, bytes of stash that a device sends with the one
    /// and of weights that one sends with the other.
    pub(super) fn split_parts(&self, placed: &[Placed], parts: &[Part]) -> BTreeMap<String, [u64; 6]> {
        let through = through(placed);
        let split = apart(parts).map(|[forward, backward]| {
            let [f, b] = [forward, backward].map(|part| part.stage);
            let [in_flight, versions] = self.counts_of(&placed[b], [f, b].map(|stage| through[stage]));
            let [stash, _] = self.moved_of(&placed[f], forward);
            let [_, weights] = self.moved_of(&placed[b], backward);
            let numbers = [f as u64 + 1, b as u64 + 1, in_flight, versions, stash, weights];
            (self.layer(forward.layer).id.clone(), numbers)
        });
        split.collect()
    }

    /// Bytes that a device has of a layer's stash, and of its weights but for a table that the forward pass has anyway.
    fn moved_of(&self, placed: &Placed, part: &Part) -> [u64; 2] {
        let mode = &part.mode;
        let there_bytes = match self.layer(part.layer).frozen {
            true => 0,
            false => self.there_anyway(part.layer, mode.shared_bytes),
        };
        let weights = weights_on(placed, mode) - u128::from(there_bytes);
        [placed.part(mode.stash_bytes), weights].map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The link between two stages, and whether it leaves a node: from the last device of whichever comes first in the row to the first of the other.
    pub(super) fn link_of_stages(&self, placed: &[Placed], [one, other]: [usize; 2]) -> (bool, Link) {
        // Chunks lie where their places in the row do.
        let is_first = match self.settings.has_virtual_stages() {
            true => self.device_of_chunk(one) < self.device_of_chunk(other),
            false => one < other,
        };
        let (first, last) = if is_first { (one, other) } else { (other, one) };
        let (from, to) = (placed[first].devices[1] - 1, placed[last].devices[0]);
        (!self.is_inside(from, to), self.link_between(from, to))
    }

    /// Time to move a tensor and so many bytes beside it in one message, in ns: its latency counts once, if there is a byte at all.
    fn moving_ns(&self, size: Size, link: Link, beside_bytes: u64) -> f64 {
        let ns = |bytes: u64| bytes as f64 / link.bandwidth_bytes_per_s * 1e9;
        let latency_ns = link.latency_ns as f64;
        let [own_ns, beside_ns] = match size {
            Size::TransferNs(tensor_ns) => [tensor_ns as f64, ns(beside_bytes)],
            Size::Bytes(0) if beside_bytes == 0 => [0.0, 0.0],
            Size::Bytes(bytes) => [ns(bytes) + latency_ns, ns(beside_bytes)],
        };
        self.counted_ns(own_ns) + self.counted_ns(beside_ns)
    }
}

/// Replicas of every stage and of all behind it.
pub(super) fn through(placed: &[Placed]) -> Vec<u64> {
    let mut through: Vec<u64> = placed.iter().map(|placed| placed.replicas as u64).collect();
    (1..placed.len()).rev().for_each(|k| through[k - 1] += through[k]);
    through
}

/// Bytes that move beside a tensor, by the layer at its other end.
fn beside(bytes: &[(usize, u64)], other: usize) -> u64 {
    let own = bytes.iter().find(|(named, _)| *named == other);
    own.map_or(0, |&(_, bytes)| bytes)
}
