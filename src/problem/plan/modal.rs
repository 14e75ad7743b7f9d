//! Stages of a plan in their modes.

use std::collections::BTreeMap;

use super::{Moved, PlanMode, PlanStage, Transfers, weights};
use crate::model::instance::Instance;
use crate::model::recompute;
use crate::problem::Problem;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, ModalStage, Modes, Moves};

/// The stages of a plan; none where it is not one.
pub(super) fn stages(
    instance: &Instance,
    problem: &Problem,
    modes: &Modes,
    plan: &Allocation,
) -> Vec<PlanStage> {
    let (Some(costs), Some(chosen)) = (cost::modal_stages(modes, plan), &plan.modes) else {
        return Vec::new();
    };
    let lift = Lift {
        instance,
        problem,
        modes,
        chosen,
    };
    let of_stage = |(k, cost): (usize, &ModalStage)| {
        let items = (0..plan.assignment.len()).filter(|&item| plan.assignment[item] == k);
        lift.stage(k, costs.starts[k], cost, &items.collect::<Vec<_>>())
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
        let kind = &self.instance.cluster.kinds[settings.kind].name;
        let devices = start..start + self.modes.devices_of(mode);
        // Replicas take turns.
        let shared = |ticks: u64| settings.ms(ticks) / mode.replicas as f64;
        let trains = settings.mode.trains();
        // What a tensor group reduces is work of its layers, in either pass alike.
        let collective = shared(cost.collective);
        let in_passes = if trains {
            [collective / 2.0; 2]
        } else {
            [collective, 0.0]
        };
        let ring_ms = settings.ms(cost.synchronization);
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
        let all: Vec<usize> = items
            .iter()
            .flat_map(|&item| self.problem.items[item].all_layers())
            .collect();
        PlanStage {
            index: k + 1,
            forward: self.names(&forward),
            backward: self.names(&of(|item| &item.backward_layers)),
            devices: devices.map(|device| format!("{kind}:{}", device + 1)).collect(),
            shares: BTreeMap::new(),
            load_ms: settings.ms(cost.period()),
            forward_ms: shared(cost.forward) + in_passes[0],
            backward_ms: shared(cost.backward) + in_passes[1],
            weight_ms: weights::are_told(self.instance, settings).then(|| shared(self.weight_ticks(&all))),
            communication_ms: shared(cost.transfers()) + ring_ms,
            transfers: transfers(cost.moved, shared, ring_ms),
            memory_bytes: cost.memory_bytes,
            in_flight: trains.then_some(cost.in_flight),
            weight_versions: trains.then_some(1),
            mode: Some(PlanMode {
                tensor: self.modes.degrees[mode.degree],
                replicas: mode.replicas,
                recomputed: self.recomputed(&all),
            }),
        }
    }

    /// Gradients of weights of these layers on a replica, in their modes.
    fn weight_ticks(&self, layers: &[usize]) -> u64 {
        let settings = &self.problem.settings;
        let of = |&layer: &usize| {
            let modes = self.instance.network.layers[layer].modes();
            modes[self.chosen.layers[layer]].times[settings.kind].map_or(0, |times| times.weight_ns)
        };
        settings.ticks_per_ns * layers.iter().map(of).sum::<u64>()
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

/// What a stage moves for a micro-batch, if anything; gradients that replicas exchange are sent in backward propagation.
fn transfers(moved: [Moves; 2], shared: impl Fn(u64) -> f64, ring_ms: f64) -> Option<Transfers> {
    let [forward, backward] = moved.map(|moves| Moved {
        in_ms: shared(moves.received),
        out_ms: shared(moves.sent),
    });
    let backward = Moved {
        out_ms: backward.out_ms + ring_ms,
        ..backward
    };
    let transfers = Transfers { forward, backward };
    (transfers != Transfers::default()).then_some(transfers)
}
