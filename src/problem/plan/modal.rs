//! Stages of a plan in their modes.

use std::collections::BTreeMap;

use super::{Moved, PlanMode, PlanStage, Transfers, weights};
use crate::model::instance::Instance;
use crate::model::recompute;
use crate::model::units::ns_to_ms;
use crate::problem::Problem;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, ModalStage, Modes, Moves, Pass, Row};

/// The stages of a plan; none where it is not one.
pub(super) fn stages(
    instance: &Instance,
    problem: &Problem,
    modes: &Modes,
    plan: &Allocation,
) -> Vec<PlanStage> {
    let (Some(costs), Some(chosen)) = (cost::modal_stages(problem, modes, plan), &plan.modes) else {
        return Vec::new();
    };
    let lift = Lift {
        instance,
        problem,
        modes,
        chosen,
    };
    let chunks = (problem.reads()).and_then(|reads| reads.modal_stages_ns(&plan.assignment, chosen));
    let chunks = chunks.unwrap_or_default();
    let of_stage = |(k, cost): (usize, &ModalStage)| {
        let items = (0..plan.assignment.len()).filter(|&item| plan.assignment[item] == k);
        let mut stage = lift.stage(k, costs.starts[k], cost, &items.collect::<Vec<_>>());
        if let Some(machines) = chunks.get(k) {
            stage.state_chunks(machines);
        }
        stage
    };
    costs.stages.iter().enumerate().map(of_stage).collect()
}

/// From items back to layers.
struct Lift<'a> {
    instance: &'a Instance,
    problem: &'a Problem,
    modes: &'a Modes,
    chosen: &'a Chosen,
}

impl Lift<'_> {
    fn stage(&self, k: usize, start: usize, cost: &ModalStage, items: &[usize]) -> PlanStage {
        let settings = &self.problem.settings;
        let mode = &self.chosen.stages[k];
        let row = self.modes.row(mode.degree);
        let kind = &self.instance.cluster.kinds[row.kind].name;
        let start = start - row.first;
        let devices = start..start + self.modes.devices_of(mode);
        // Replicas take turns.
        let shared = |ticks: u64| settings.ms(ticks) / mode.replicas as f64;
        let trains = settings.mode.trains();
        let [forward_ticks, backward_ticks] = cost.passes();
        // Where ticks are ns, parts of one are lost on the time between micro-batches.
        let (load_ms, ring_ms) = match settings.is_simulated() {
            true => {
                let ring_ms = ns_to_ms(cost.exchange_ns) / self.modes.updates_every(mode) as f64;
                (shared(cost.each()) + ring_ms, ring_ms)
            }
            false => (settings.ms(cost.period()), settings.ms(cost.synchronization)),
        };
        let of = |layers: fn(&crate::problem::Item) -> &Vec<usize>| {
            let mut layers: Vec<usize> = items
                .iter()
                .flat_map(|&item| layers(&self.problem.items[item]))
                .copied()
                .collect();
            layers.sort_unstable();
            layers
        };
        let forward = of(|item| &item.layers);
        // What a forward pass alone does is told by the stage of the other one.
        let layers = self.modes.layers_of(items, mode.degree).unwrap_or_default();
        let layers = layers.iter().filter(|layer| layer.pass != Pass::Forward);
        let all: Vec<usize> = layers.map(|layer| layer.layer).collect();
        PlanStage {
            index: k + 1,
            forward: self.names(&forward),
            backward: self.names(&of(|item| &item.backward_layers)),
            devices: devices.map(|device| format!("{kind}:{}", device + 1)).collect(),
            shares: self.shares(row, cost),
            load_ms,
            forward_ms: shared(forward_ticks),
            backward_ms: shared(backward_ticks),
            weight_ms: weights::are_told(self.instance, settings)
                .then(|| shared(self.weight_ticks(&all, (row, mode.degree)))),
            communication_ms: shared(cost.transfers()) + ring_ms,
            transfers: transfers(cost.moved, shared),
            synchronization_ms: (cost.exchange_ns > 0).then(|| ns_to_ms(cost.exchange_ns)),
            memory_bytes: cost.memory_bytes,
            in_flight: trains.then_some(cost.in_flight),
            weight_versions: trains.then(|| settings.weight_versions(cost.in_flight as usize)),
            mode: Some(PlanMode {
                tensor: self.modes.degrees[mode.degree].tensor,
                expert: self.modes.degrees[mode.degree].expert,
                context: self.modes.degrees[mode.degree].context,
                group: self.modes.degrees[mode.degree].group,
                replicas: mode.replicas,
                recomputed: self.recomputed(&all),
                optimizer_offload: self.modes.degrees[mode.degree].at_host,
                host_bytes: cost.at_host,
            }),
            chunks_ms: Vec::new(),
            chunk_transfers: Vec::new(),
        }
    }

    /// The share of each resource, where both passes run at once.
    fn shares(&self, row: &Row, cost: &ModalStage) -> BTreeMap<String, f64> {
        let position = self.modes.rows.iter().position(|other| other == row);
        let shares = self.modes.shares.as_ref().zip(position).zip(cost.whole);
        shares.map_or_else(BTreeMap::new, |((shares, row), whole)| shares.named(row, whole))
    }

    /// Gradients of weights of these layers on a replica, in their modes.
    fn weight_ticks(&self, layers: &[usize], (row, degree): (&Row, usize)) -> u64 {
        let settings = &self.problem.settings;
        let of = |&layer: &usize| {
            let modes = self.instance.network.layers[layer].modes();
            let mode = &modes[self.chosen.layers[layer]];
            let ns = mode.times[row.kind].map_or(0, |times| times.weight_ns);
            let ticks = self.modes.backward(degree, settings.ticks_per_ns * ns);
            self.modes.with_load(settings, mode, degree, ticks)
        };
        layers.iter().map(of).sum()
    }

    fn names(&self, layers: &[usize]) -> Vec<String> {
        let name = |&layer: &usize| self.instance.network.layers[layer].id.clone();
        layers.iter().map(name).collect()
    }

    fn recomputed(&self, layers: &[usize]) -> BTreeMap<String, Vec<String>> {
        let mut recomputed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut layers = layers.to_vec();
        layers.sort_unstable();
        for layer in layers {
            let own = &self.instance.network.layers[layer];
            let mode = &own.modes()[self.chosen.layers[layer]];
            if mode.recompute != recompute::NONE {
                recomputed
                    .entry(mode.recompute.clone())
                    .or_default()
                    .push(own.id.clone());
            }
        }
        recomputed
    }
}

/// What a stage moves for a micro-batch, if anything.
fn transfers(moved: [Moves; 2], shared: impl Fn(u64) -> f64) -> Option<Transfers> {
    let [forward, backward] = moved.map(|moves| Moved {
        in_ms: shared(moves.received),
        out_ms: shared(moves.sent),
    });
    let transfers = Transfers { forward, backward };
    (transfers != Transfers::default()).then_some(transfers)
}
