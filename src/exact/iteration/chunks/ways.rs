//! How the layers of chunks run: the ways that a device has memory for.

use crate::problem::modes::{LayerWays, Memory, Modes, StageMode, Way, fastest_within, smallest_way};
use crate::problem::virtual_stages::VirtualStages;

/// What a device of several chunks holds, and when.
pub(super) struct Held<'a> {
    /// The layers of all its chunks.
    pub(super) layers: Vec<&'a LayerWays>,
    /// For each the chunk that it lies in, by its place on the device.
    rounds: Vec<usize>,
    /// Micro-batches in flight together, by chunk.
    moments: &'a [Vec<u64>],
    /// Beside what replicas share out.
    room: Memory,
}

impl<'a> Held<'a> {
    /// The layers of a device's chunks, which hold such items; `None` where some cannot run, or nothing is left beside what replicas share out.
    pub(super) fn of(
        modes: &'a Modes,
        (of, device): (&'a VirtualStages, usize),
        (mode, members): (&StageMode, &[Vec<usize>]),
    ) -> Option<Self> {
        let mut held = Self {
            layers: Vec::new(),
            rounds: Vec::new(),
            moments: &of.in_flight[device],
            room: Memory {
                bytes: modes.memory_bytes(mode.degree),
                host_bytes: modes.host_memory_bytes(mode.degree),
            },
        };
        for (round, &chunk) in of.chunks_of[device].iter().enumerate() {
            let items = &members[chunk];
            let shared_bytes = modes.shared_bytes(items, mode)?;
            let once = modes.once_bytes_of_chunk(items, mode.degree)?;
            held.room = held
                .room
                .without(shared_bytes, modes.at_host_of_device(once, mode))?;
            held.layers.extend(modes.layers_of(items, mode.degree)?);
            held.rounds.resize(held.layers.len(), round);
        }
        Some(held)
    }

    /// Ways that take little time within memory: the least if every chunk had its most in flight at all times, and from there on faster ones while there is room for
    /// what is in flight together.
    pub(super) fn ways(&self) -> Vec<usize> {
        let most = |round: usize| self.moments.iter().map(|counts| counts[round]).max();
        let both = self.layers.iter().zip(&self.rounds);
        let held: Vec<LayerWays> = both
            .map(|(layer, &round)| with_stashes(layer, most(round).unwrap_or(0)))
            .collect();
        let held: Vec<&LayerWays> = held.iter().collect();
        let ways = match fastest_within(&held, 1, self.room) {
            Some(ways) => ways.ways,
            None => held.iter().map(|layer| smallest_way(layer, 1)).collect(),
        };
        match self.moments.len() {
            1 => ways,
            _ => self.faster(ways),
        }
    }

    /// Goes over to faster ways where there is room, those that gain most first.
    pub(super) fn faster(&self, mut ways: Vec<usize>) -> Vec<usize> {
        let gain = |at: usize, way: usize| {
            let all = &self.layers[at].ways;
            all[ways[at]].time() - all[way].time()
        };
        let faster = (0..ways.len()).flat_map(|at| (0..ways[at]).map(move |way| (at, way)));
        let mut faster: Vec<(u64, usize, usize)> = faster.map(|(at, way)| (gain(at, way), at, way)).collect();
        faster.sort_unstable_by(|one, other| other.cmp(one));
        for (gain, at, way) in faster {
            let now = ways[at];
            if gain > 0 && way < now {
                ways[at] = way;
                if !self.fits(&ways) {
                    ways[at] = now;
                }
            }
        }
        ways
    }

    /// Whether there is room for such ways at all times.
    fn fits(&self, ways: &[usize]) -> bool {
        let own = || self.layers.iter().zip(ways).map(|(layer, &way)| &layer.ways[way]);
        let workspace = own().map(|way| way.workspace_bytes).max().unwrap_or(0);
        let for_good: u64 = own().map(|way| way.held_bytes).sum();
        let in_flight = |counts: &Vec<u64>, bytes: fn(&Way) -> u64| -> u64 {
            let each = own().zip(&self.rounds);
            each.map(|(way, &round)| counts[round] * bytes(way)).sum()
        };
        self.moments.iter().all(|counts| {
            workspace + for_good + in_flight(counts, |way| way.stash_bytes) <= self.room.bytes
                && in_flight(counts, |way| way.host_bytes) <= self.room.host_bytes
        })
    }
}

/// A layer whose every way holds the stashes of so many micro-batches as one.
fn with_stashes(layer: &LayerWays, in_flight: u64) -> LayerWays {
    let mut layer = layer.clone();
    for way in &mut layer.ways {
        way.stash_bytes *= in_flight;
        way.host_bytes *= in_flight;
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::modes::Pass;

    fn way(backward: u64, stash_bytes: u64) -> Way {
        Way {
            recompute: "none".into(),
            forward: 1,
            backward,
            held_bytes: 1,
            stash_bytes,
            ..Way::default()
        }
    }

    fn layer() -> LayerWays {
        LayerWays {
            layer: 0,
            pass: Pass::Whole,
            block: None,
            ways: vec![way(2, 5), way(3, 1)],
        }
    }

    #[test]
    fn what_is_never_in_flight_together_does_not_add_up() {
        let layer = layer();
        let held = |moments, bytes| Held {
            layers: vec![&layer, &layer],
            rounds: vec![0, 1],
            moments,
            room: Memory {
                bytes,
                host_bytes: u64::MAX,
            },
        };
        // A stash of each chunk at a time: 2 for good, and 5 and 1, or 1 and 5.
        let in_turn = [vec![1, 0], vec![0, 1]];
        assert_eq!(held(&in_turn, 7).ways(), [0, 0]);
        assert_eq!(held(&in_turn, 6).ways(), [1, 1]);
        let together = [vec![1, 1], vec![1, 0]];
        assert_eq!(held(&together, 12).ways(), [0, 0]);
        let mut one = held(&together, 8).ways();
        one.sort_unstable();
        assert_eq!(one, [0, 1]);
    }
}
