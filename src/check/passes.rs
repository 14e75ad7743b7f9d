//! What the two passes of a layer have between them: micro-batches, weight versions, bytes held and bytes moved.

use std::collections::BTreeMap;

use super::{BACKWARD, Checker, FORWARD, Load, Violation, charge, states};
use crate::model::options::{Cuts, Mode, Schedule};
use crate::model::units::transfer_ns;
use crate::problem::plan::{Plan, PlanStage};

impl Checker<'_> {
    /// Micro-batches in flight and versions of the weights between a forward pass and a backward pass that lie so many
    /// stages from the end.
    pub(super) fn held_between(&self, forward: u64, backward: u64) -> [u64; 2] {
        let settings = self.settings;
        let longer = forward.max(backward);
        let all = settings.micro_batches.unwrap_or(u64::MAX);
        match (settings.mode, settings.schedule) {
            (Mode::Inference, _) => [0, 1],
            (_, Schedule::Gpipe) => [all, 1],
            // Chunks are counted by their order: see `virtual_stages`.
            (_, Schedule::Interleaved | Schedule::ZbV | Schedule::VHalf | Schedule::VMin) => [all, 1],
            (_, Schedule::OneFOneB) => [longer.min(all), 1],
            (_, Schedule::Pipedream) => [longer, longer],
            (_, Schedule::Concurrent) => [(forward + backward).min(all), 1],
        }
    }

    /// Adds what a layer holds on the stages of its passes.
    ///
    /// Weights lie wherever a pass is, everything else with the backward pass: gradients, state, resident bytes, and the
    /// stash of every micro-batch between the two passes.
    pub(super) fn hold(&self, at: usize, places: [Option<usize>; 2], stages: usize, bytes: &mut [u128]) {
        let (layer, settings) = (self.layer(at), self.settings);
        let Some(home) = places[BACKWARD].or(places[FORWARD]) else {
            return;
        };
        let [parameter_bytes, stash_bytes] = [layer.parameter_bytes, layer.stash_bytes].map(u128::from);
        let kept = states::kept(settings, &self.instance.network, layer.parameter_bytes);
        bytes[home] += u128::from(layer.resident_bytes) + self.served(layer.cache) + kept.each;
        if !settings.mode.trains() {
            return;
        }
        let other = places[FORWARD].unwrap_or(home);
        let between = self.between_held((stages - other) as u64, (stages - home) as u64);
        let [in_flight, versions] = between.map(u128::from);
        bytes[home] += (versions - 1) * parameter_bytes + in_flight * stash_bytes;
        if other != home {
            let there_bytes = self.there_anyway(at, layer.shared_bytes);
            bytes[other] += parameter_bytes + u128::from(layer.frozen_bytes) - u128::from(there_bytes);
        }
    }

    /// Charges what separate cuts move for a layer whose passes lie apart: the stash of every micro-batch, and the weights
    /// after every update.
    pub(super) fn moved_between_passes(&self, at: usize, forward: &mut [Load], backward: &mut [Load]) {
        let [Some(f), Some(b)] = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]) else {
            return;
        };
        if f == b || !self.settings.communication.takes_time() {
            return;
        }
        let link = self.settings.link;
        let ns = |bytes: u64| transfer_ns(bytes, link.bandwidth_bytes_per_s, link.latency_ns);
        let updates_every = match self.settings.schedule {
            Schedule::Pipedream => 1,
            Schedule::Gpipe
            | Schedule::OneFOneB
            | Schedule::Concurrent
            | Schedule::Interleaved
            | Schedule::ZbV
            | Schedule::VHalf
            | Schedule::VMin => u128::from(self.settings.micro_batches.unwrap_or(1)),
        };
        let layer = self.layer(at);
        charge(forward, &[f], &[b], self.ticks(ns(layer.stash_bytes)));
        let weights = self.ticks(ns(self.updated_bytes(at))).div_ceil(updates_every);
        charge(backward, &[b], &[f], weights);
    }

    /// Bytes of weights that follow an update from the backward pass of a layer to its forward pass elsewhere: all but a table that is there anyway.
    fn updated_bytes(&self, at: usize) -> u64 {
        let layer = self.layer(at);
        match layer.frozen {
            true => layer.parameter_bytes,
            false => layer.parameter_bytes - self.there_anyway(at, layer.shared_bytes),
        }
    }

    /// The micro-batches in flight and the versions of the weights that a stage of whatever kind states: none in inference.
    pub(super) fn stated_counts(&mut self, (k, stage): (usize, &PlanStage), recomputed: [Option<u64>; 2]) {
        let counts = [
            ("in_flight", stage.in_flight),
            ("weight_versions", stage.weight_versions),
        ];
        for ((name, stated), recomputed) in counts.into_iter().zip(recomputed) {
            let field = format!("stages[{k}].{name}");
            match (stated, recomputed) {
                (Some(stated), Some(recomputed)) => self.stated_count(field, stated, recomputed.into()),
                (None, None) => {}
                (stated, recomputed) => self.violations.push(Violation::Field {
                    field,
                    found: stated.map_or("nothing".into(), |stated| stated.to_string()),
                    expected: recomputed
                        .map_or("nothing in inference".into(), |count| count.to_string().into()),
                }),
            }
        }
    }

    /// Stated counts and bytes against recomputed ones.
    pub(super) fn counts(&mut self, plan: &Plan) {
        let stages = plan.stages.len();
        for (k, stage) in plan.stages.iter().enumerate() {
            let from_end = (stages - k) as u64;
            let counts = self.held_between(from_end, from_end);
            self.stated_counts(
                (k, stage),
                counts.map(|count| self.settings.mode.trains().then_some(count)),
            );
        }
        self.stated_split(plan, self.split_layers(stages));
    }

    /// What a plan states of layers whose passes lie apart against what there is, by their names.
    pub(super) fn stated_split(&mut self, plan: &Plan, mut expected: BTreeMap<String, [u64; 6]>) {
        let stated = plan.split.clone().unwrap_or_default();
        let sum =
            |field: usize| -> u128 { expected.values().map(|numbers| u128::from(numbers[field])).sum() };
        let totals = [
            ("stash_bytes_moved", stated.stash_bytes_moved, sum(4)),
            ("weight_bytes_moved", stated.weight_bytes_moved, sum(5)),
        ];
        for (name, stated, recomputed) in totals {
            self.stated_count(format!("split.{name}"), stated, recomputed);
        }
        for layer in &stated.layers {
            let Some(recomputed) = expected.remove(&layer.layer) else {
                self.wrong_split(
                    &layer.layer,
                    "listed",
                    "layers with passes on two stages, each once",
                );
                continue;
            };
            let fields = [
                ("forward_stage", layer.forward_stage as u64),
                ("backward_stage", layer.backward_stage as u64),
                ("in_flight", layer.in_flight),
                ("weight_versions", layer.weight_versions),
                ("stash_bytes", layer.stash_bytes),
                ("weight_bytes", layer.weight_bytes),
            ];
            for ((name, stated), recomputed) in fields.into_iter().zip(recomputed) {
                let field = format!("split `{}`.{name}", layer.layer);
                self.stated_count(field, stated, recomputed.into());
            }
        }
        for layer in expected.into_keys() {
            self.wrong_split(&layer, "left out", "every layer with passes on two stages");
        }
    }

    /// Layers whose passes lie apart, by name: stages of both passes, micro-batches and versions between them, bytes of
    /// stash and of weights.
    fn split_layers(&self, stages: usize) -> BTreeMap<String, [u64; 6]> {
        let mut layers = BTreeMap::new();
        for at in 0..self.instance.network.layers.len() {
            let [Some(f), Some(b)] = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]) else {
                continue;
            };
            if f == b || self.settings.cuts == Cuts::Tied {
                continue;
            }
            let [in_flight, versions] = self.held_between((stages - f) as u64, (stages - b) as u64);
            let layer = self.layer(at);
            let places = [f as u64 + 1, b as u64 + 1];
            let bytes = [layer.stash_bytes, self.updated_bytes(at)];
            layers.insert(
                layer.id.clone(),
                [places[0], places[1], in_flight, versions, bytes[0], bytes[1]],
            );
        }
        layers
    }

    fn wrong_split(&mut self, layer: &str, found: &str, expected: &str) {
        self.violations.push(Violation::Field {
            field: "split.layers".into(),
            found: format!("`{layer}` {found}"),
            expected: expected.into(),
        });
    }
}
