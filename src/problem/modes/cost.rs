//! What the stages of a plan cost in their modes.

use std::collections::BTreeMap;

use crate::problem::modes::recomputation::{bytes_of, host_bytes_of};
use crate::problem::modes::{Chosen, LayerWays, Modes, OnceBytes, Pass, Passes, StageMode, Table};

/// What a stage costs for one micro-batch, in ticks. Work and transfers are those of one replica for one of its own micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModalStage {
    /// Forward work of a replica.
    pub forward: u64,
    /// Backward work of a replica.
    pub backward: u64,
    /// The part of it that is gradients of weights, where the schedule runs these apart.
    pub weight: u64,
    /// What its tensor group reduces.
    pub collective: u64,
    /// The part of it that is so in backward propagation.
    pub collective_back: u64,
    /// Where its devices run both phases at once: what either would take, with what the tensor group reduces, if they did nothing else. Work is on shares then.
    pub whole: Option<[u64; 2]>,
    /// Tensors that enter and leave, forward and backward.
    pub moved: [Moves; 2],
    /// Whether they do so on links beside the work.
    pub has_links: bool,
    /// The exchange of gradients between replicas, as far as each micro-batch bears it.
    pub synchronization: u64,
    /// The same once an iteration, in whole ns.
    pub exchange_ns: u64,
    /// Its replicas.
    pub replicas: usize,
    /// Bytes on each device.
    pub memory_bytes: u64,
    /// Of these, the bytes of a micro-batch in flight.
    pub stash_bytes: u64,
    /// Of these, the bytes that are needed while it runs.
    pub workspace_bytes: u64,
    /// Bytes that each device has at its host for each micro-batch in flight.
    pub host_bytes: u64,
    /// Bytes of states of its optimiser that each device has there.
    pub states_at_host: u64,
    /// Bytes that each device has there in all: of a chunk, its part when its device has most.
    pub at_host: u64,
    /// Micro-batches in flight in each replica.
    pub in_flight: u64,
}

/// What a stage moves in one pass, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

impl ModalStage {
    /// What its transfers take: one after the other, or side by side on two links.
    pub fn transfers(&self) -> u64 {
        let all = |of: fn(&Moves) -> u64| self.moved.iter().map(of).sum::<u64>();
        let [received, sent] = [all(|moves| moves.received), all(|moves| moves.sent)];
        match self.has_links {
            true => received.max(sent),
            false => received + sent,
        }
    }

    /// Forward and backward work, with what its tensor group reduces.
    pub fn passes(&self) -> [u64; 2] {
        let back = self.collective_back;
        [self.forward + self.collective - back, self.backward + back]
    }

    /// Adds what is paid for a tensor, at the stage that it leaves or at one that it enters: gradients go the other way.
    fn add_transfer(&mut self, passes: Passes, leaves: bool, ticks: u64) {
        let [forward, backward] = &mut self.moved;
        let (first, back) = match passes {
            Passes::Forward => (Some(forward), None),
            Passes::Backward => (Some(backward), None),
            Passes::Both => (Some(forward), Some(backward)),
            Passes::Gradient => (None, Some(backward)),
        };
        let gradient = match (&first, &back) {
            (Some(_), Some(_)) => ticks / 2,
            (None, _) => ticks,
            (_, None) => 0,
        };
        for (moves, leaves, ticks) in [(first, leaves, ticks - gradient), (back, !leaves, gradient)] {
            if let Some(moves) = moves {
                let paid = if leaves {
                    &mut moves.sent
                } else {
                    &mut moves.received
                };
                *paid += ticks;
            }
        }
    }

    /// The time between its micro-batches: replicas take turns.
    pub fn period(&self) -> u64 {
        self.each().div_ceil(self.replicas as u64) + self.synchronization
    }

    /// What one of its micro-batches takes on the way, with the replicas' exchange.
    pub fn once(&self) -> u64 {
        self.each() + self.synchronization
    }

    /// What a replica is busy with for one of its micro-batches: it waits for its transfers, or one of its links may be busier.
    pub fn each(&self) -> u64 {
        let work = match self.whole {
            Some(_) => self.forward.max(self.backward),
            None => self.forward + self.backward + self.collective,
        };
        match self.has_links {
            true => work.max(self.transfers()),
            false => work + self.transfers(),
        }
    }
}

/// The stages of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModalStages {
    /// What each costs, in pipeline order.
    pub stages: Vec<ModalStage>,
    /// The number of the first device of each, from 0.
    pub starts: Vec<usize>,
    /// Devices that they take of each [row](Modes::rows).
    pub devices: Vec<usize>,
    /// Whether every tensor group lies inside a node.
    pub groups_fit: bool,
}

impl ModalStages {
    /// The longest period.
    pub fn period(&self) -> u64 {
        self.stages.iter().map(ModalStage::period).max().unwrap_or(0)
    }

    /// An iteration of so many micro-batches by the standard formula: what one takes through all stages, and the longest period for each other.
    pub fn by_formula(&self, micro_batches: u64) -> u64 {
        let once: u64 = self.stages.iter().map(ModalStage::once).sum();
        once.saturating_add((micro_batches - 1).saturating_mul(self.period()))
    }
}

impl Modes {
    /// What the stages of a plan cost; `None` if some item has no mode of its stage's degree, or some layer no such way.
    pub fn stages(&self, assignment: &[usize], chosen: &Chosen) -> Option<ModalStages> {
        let seats: Vec<usize> = (0..chosen.stages.len()).collect();
        let mut in_flight = vec![0; seats.len()];
        let mut behind = 0;
        for (k, mode) in chosen.stages.iter().enumerate().rev() {
            in_flight[k] = self.flight.of(mode.replicas, behind);
            behind += mode.replicas;
        }
        self.stages_on(assignment, chosen, (&seats, &in_flight))
    }

    /// The same of stages that have such places in the row of devices, and so many micro-batches in flight: stages of one place are of one mode.
    pub fn stages_on(
        &self,
        assignment: &[usize],
        chosen: &Chosen,
        (seats, in_flight): (&[usize], &[u64]),
    ) -> Option<ModalStages> {
        let mut costs = self.placed(chosen, seats);
        for (k, mode) in chosen.stages.iter().enumerate() {
            costs.stages[k].in_flight = in_flight[k];
            let items = (0..assignment.len()).filter(|&item| assignment[item] == k);
            let items: Vec<usize> = items.collect();
            self.add_work(&items, mode, chosen, &mut costs.stages[k])?;
            let once = match chosen.virtual_stages {
                1 => self.once_bytes(&items, mode.degree)?,
                _ => self.once_bytes_of_chunk(&items, mode.degree)?,
            };
            let (first, devices) = (costs.starts[k], self.devices_of(mode));
            let level = self.links.level(first, first + devices - 1);
            costs.stages[k].synchronization = self.synchronization(once, mode, level);
            costs.stages[k].exchange_ns = self.exchange_ns(once, mode, level);
            let cost = &mut costs.stages[k];
            cost.states_at_host = self.at_host_of_device(once, mode);
            cost.at_host = cost.in_flight * cost.host_bytes + cost.states_at_host;
        }
        self.add_away(assignment, chosen, &mut costs.stages);
        self.add_crossings(assignment, (chosen, seats), &mut costs);
        self.add_sums(assignment, (chosen, seats), &mut costs);
        Some(costs)
    }

    /// Devices of a stage.
    pub fn devices_of(&self, mode: &StageMode) -> usize {
        self.width(mode.degree) * mode.replicas
    }

    /// What a stage moves once an iteration, with one copy of a table for all its layers; `None` if some item has no mode of the degree.
    pub fn once_bytes(&self, items: &[usize], degree: usize) -> Option<OnceBytes> {
        let all = self.once_bytes_of_chunk(items, degree)?;
        let twice = self.surplus(items, degree).once_bytes;
        Some([0, 1, 2].map(|of| all[of] - twice[of]))
    }

    /// The same of a chunk, whose layers each have their tables.
    pub(crate) fn once_bytes_of_chunk(&self, items: &[usize], degree: usize) -> Option<OnceBytes> {
        let mut sum = [0; 3];
        for &item in items {
            let own = self.items[item][degree].as_ref()?.once_bytes;
            sum = [0, 1, 2].map(|of| sum[of] + own[of]);
        }
        Some(sum)
    }

    /// Bytes that a device holds of what the replicas of a stage share out, of chunks, whose layers each have their tables; `None` if some item has
    /// no mode of the degree.
    pub fn shared_bytes(&self, items: &[usize], mode: &StageMode) -> Option<u64> {
        let all = self.to_share_bytes(items, mode.degree)?;
        Some(all.div_ceil(self.copies_of_weights(mode) as u64))
    }

    /// Bytes that the replicas of a stage share out; `None` if some item has no mode of the degree.
    pub(super) fn to_share_bytes(&self, items: &[usize], degree: usize) -> Option<u64> {
        let of_item = |&item: &usize| self.items[item][degree].as_ref().map(|item| item.shared_bytes);
        let whole: u64 = items.iter().map(of_item).sum::<Option<u64>>()?;
        Some(whole + self.shared_alone(items, degree))
    }

    /// The layers of a stage at a degree, once each; `None` if some item has no mode of it.
    pub fn layers_of(&self, items: &[usize], degree: usize) -> Option<Vec<&LayerWays>> {
        let mut layers = Vec::with_capacity(items.len());
        for &item in items {
            for part in &self.items[item][degree].as_ref()?.layers {
                layers.extend(self.in_stage(part, items, degree)?);
            }
        }
        Some(layers)
    }

    /// Stages of no cost: places are consecutive devices of a row, and each is known from its first stage on.
    fn placed(&self, chosen: &Chosen, seats: &[usize]) -> ModalStages {
        let mut placed = ModalStages {
            groups_fit: true,
            devices: vec![0; self.rows.len()],
            ..ModalStages::default()
        };
        let mut start_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (mode, &seat) in chosen.stages.iter().zip(seats) {
            let row = self.degrees[mode.degree].row;
            let next = self.rows[row].first + placed.devices[row];
            let start = *start_of.entry(seat).or_insert(next);
            placed.starts.push(start);
            placed.stages.push(ModalStage {
                replicas: mode.replicas,
                has_links: self.has_links,
                ..ModalStage::default()
            });
            placed.groups_fit &= self.groups_fit(start, mode);
            let end = start + self.devices_of(mode) - self.rows[row].first;
            placed.devices[row] = placed.devices[row].max(end);
        }
        placed
    }

    /// The number of the first device of each of some places in a row, from 0.
    pub(crate) fn starts_in_turn(&self, places: &[StageMode]) -> Vec<usize> {
        let chosen = Chosen {
            stages: places.to_vec(),
            layers: Vec::new(),
            virtual_stages: 1,
        };
        let seats: Vec<usize> = (0..places.len()).collect();
        self.placed(&chosen, &seats).starts
    }

    fn add_work(
        &self,
        items: &[usize],
        mode: &StageMode,
        chosen: &Chosen,
        cost: &mut ModalStage,
    ) -> Option<()> {
        let layers = self.layers_of(items, mode.degree)?;
        let position = |layer: &&LayerWays| {
            let is_chosen = |way: &crate::problem::modes::Way| way.mode == chosen.layers[layer.layer];
            // Its backward pass says of both that they keep everything.
            let is_told = layer.pass == Pass::Forward;
            layer.ways.iter().position(|way| is_told || is_chosen(way))
        };
        let ways: Vec<usize> = layers.iter().map(position).collect::<Option<_>>()?;
        for (layer, &way) in layers.iter().zip(&ways) {
            let way = &layer.ways[way];
            cost.forward += way.forward;
            cost.backward += way.backward;
            cost.weight += way.weight;
            cost.collective += way.collective;
            cost.collective_back += way.collective_back;
        }
        cost.share_out(self, mode.degree);
        let twice = match chosen.virtual_stages {
            1 => self.surplus(items, mode.degree),
            _ => Table::default(),
        };
        let shared_bytes = self.to_share_bytes(items, mode.degree)? - twice.shared_bytes;
        cost.memory_bytes = shared_bytes.div_ceil(self.copies_of_weights(mode) as u64)
            + bytes_of(&layers, &ways, cost.in_flight)
            - twice.held_bytes;
        cost.host_bytes = host_bytes_of(&layers, &ways, 1);
        let ways = || layers.iter().zip(&ways).map(|(layer, &way)| &layer.ways[way]);
        cost.stash_bytes = ways().map(|way| way.stash_bytes).sum();
        cost.workspace_bytes = ways().map(|way| way.workspace_bytes).max().unwrap_or(0);
        Some(())
    }

    /// Charges the sum of the gradients of copies to both their stages, once an iteration, over the link between the last device of the place that
    /// comes first in the row and the first of the other; one place keeps copies equal by itself.
    fn add_sums(&self, assignment: &[usize], (chosen, seats): (&Chosen, &[usize]), costs: &mut ModalStages) {
        for copy in &self.copies {
            let [one, other] = copy.items.map(|item| assignment[item]);
            if seats[one] == seats[other] {
                continue;
            }
            let (first, last) = if seats[one] < seats[other] {
                (one, other)
            } else {
                (other, one)
            };
            let end = costs.starts[first] + self.devices_of(&chosen.stages[first]) - 1;
            let level = self.links.level(end, costs.starts[last]);
            for stage in [one, other] {
                let table = &copy.tables[chosen.stages[stage].degree];
                costs.stages[stage].synchronization += table.sum_ticks[level];
                costs.stages[stage].exchange_ns += table.sum_ns[level];
            }
        }
    }

    /// Charges every tensor that crosses: the producer's stage once, at the level that goes farthest to a consumer, and on every other place the first
    /// stage that consumes it once. It goes between the last device of the place that comes first in the row and the first of the other: so do
    /// the tensors of an explicit backward graph, against the order of stages.
    fn add_crossings(
        &self,
        assignment: &[usize],
        (chosen, seats): (&Chosen, &[usize]),
        costs: &mut ModalStages,
    ) {
        for transfer in self.transfers.iter() {
            let home = assignment[transfer.producer];
            let level_to = |stage: usize| {
                let (one, other) = match seats[home] < seats[stage] {
                    true => (home, stage),
                    false => (stage, home),
                };
                let last_device = costs.starts[one] + self.devices_of(&chosen.stages[one]) - 1;
                self.links.level(last_device, costs.starts[other])
            };
            let ends = transfer.consumers.iter().enumerate();
            let mut away: Vec<(usize, usize, usize)> = ends
                .map(|(at, &to)| (seats[assignment[to]], assignment[to], at))
                .collect();
            away.retain(|&(seat, ..)| seat != seats[home]);
            away.sort_unstable();
            let levels = away.iter().map(|&(_, stage, _)| level_to(stage));
            let Some(level) = levels.reduce(|one, other| self.links.farther(one, other)) else {
                continue;
            };
            let leaving = &transfer.leaving[chosen.stages[home].degree];
            let beside = away.iter().map(|&(.., at)| leaving[at][level]).max();
            let paid = transfer.ticks[level] + beside.unwrap_or(0);
            costs.stages[home].add_transfer(transfer.passes, true, paid);
            for group in away.chunk_by(|one, other| one.0 == other.0) {
                let stage = group[0].1;
                let entering = &transfer.entering[chosen.stages[stage].degree];
                let level = level_to(stage);
                let beside = group.iter().map(|&(.., at)| entering[at][level]).max();
                let paid = transfer.ticks[level] + beside.unwrap_or(0);
                costs.stages[stage].add_transfer(transfer.passes, false, paid);
            }
        }
    }
}
