//! Tensors between items, and what stages pay for them.

use super::{BETWEEN, ByLevel, INSIDE, LEVELS, Modes, Part, Pass};
use crate::model::cluster::Link;
use crate::model::instance::Instance;
use crate::model::network::{LayerMode, Size, Tensor};
use crate::model::settings::Settings;
use std::sync::Arc;

/// A tensor between items: what a side pays for it, by level of the link.
#[derive(Clone, Debug, PartialEq)]
pub struct ModalTransfer {
    /// The producing item.
    pub producer: usize,
    /// The other items that consume it, sorted; at least one.
    pub consumers: Vec<usize>,
    /// What either side pays for a micro-batch.
    pub ticks: ByLevel,
    /// When it moves.
    pub passes: Passes,
    /// For each degree and consumer, what the producer's stage pays beside if that consumer is elsewhere.
    pub leaving: Vec<Vec<ByLevel>>,
    /// For each degree and consumer, what the consumer's stage pays beside if the producer is elsewhere.
    pub entering: Vec<Vec<ByLevel>>,
}

/// When a tensor moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// In forward propagation.
    Forward,
    /// In backward propagation: it is of an explicit backward graph.
    Backward,
    /// In forward propagation, and its gradient back.
    Both,
    /// Its gradient alone: from consumers to the producer in backward propagation.
    Gradient,
}

impl Modes {
    pub(super) fn add_transfers(&mut self, instance: &Instance, settings: &Settings, items: &[Vec<Part>]) {
        let none = vec![usize::MAX; instance.network.layers.len()];
        let [mut forward_of, mut backward_of] = [none.clone(), none];
        for (item, parts) in items.iter().enumerate() {
            for part in parts {
                if part.pass != Pass::Backward {
                    forward_of[part.layer] = item;
                }
                if part.pass != Pass::Forward {
                    backward_of[part.layer] = item;
                }
            }
        }
        // A tensor and its gradient, unless gradients are tensors of their own.
        let has_gradients = settings.mode.trains() && !instance.network.has_explicit_backward();
        for tensor in &instance.network.tensors {
            let made_by = &instance.network.layers[tensor.producer];
            let has_gradient = has_gradients && made_by.returns;
            let of = |item_of: &[usize]| self.between_items(instance, tensor, item_of);
            let (moved, back) = (of(&forward_of), of(&backward_of));
            let ends = |moved: &Option<ModalTransfer>| {
                let ends = moved.as_ref().map(|moved| (moved.producer, &moved.consumers));
                ends.map(|(producer, consumers)| (producer, consumers.clone()))
            };
            if has_gradient && ends(&moved) == ends(&back) {
                moved
                    .into_iter()
                    .for_each(|moved| self.add_transfer(moved.and_gradient()));
                continue;
            }
            let passes = if made_by.backward {
                Passes::Backward
            } else {
                Passes::Forward
            };
            let back = back.filter(|_| has_gradient);
            for (moved, passes) in [(moved, passes), (back, Passes::Gradient)] {
                moved
                    .into_iter()
                    .for_each(|moved| self.add_transfer(ModalTransfer { passes, ..moved }));
            }
        }
    }

    /// Adds what is not free.
    pub(super) fn add_transfer(&mut self, transfer: ModalTransfer) {
        if transfer.is_free() {
            return;
        }
        let all = Arc::make_mut(&mut self.transfers);
        let ends = transfer.consumers.iter().copied().chain([transfer.producer]);
        ends.for_each(|item| self.transfers_of[item].push(all.len()));
        all.push(transfer);
    }

    /// A tensor between the items of some pass of layers; `None` where it stays in one.
    fn between_items(
        &self,
        instance: &Instance,
        tensor: &Tensor,
        item_of: &[usize],
    ) -> Option<ModalTransfer> {
        let producer = item_of[tensor.producer];
        let mut consumers: Vec<usize> = tensor.consumers.iter().map(|&to| item_of[to]).collect();
        consumers.sort_unstable();
        consumers.dedup();
        consumers.retain(|&item| item != producer && item != usize::MAX);
        let crosses = producer < usize::MAX && !consumers.is_empty();
        crosses.then(|| self.transfer(instance, tensor, (producer, consumers), item_of))
    }

    fn transfer(
        &self,
        instance: &Instance,
        tensor: &Tensor,
        (producer, consumers): (usize, Vec<usize>),
        item_of: &[usize],
    ) -> ModalTransfer {
        let layers = &instance.network.layers;
        let moving = |bytes: u64| self.links.by_level(|link| self.moving(bytes as f64, link));
        // What moves beside a tensor is part of its message. A tensor without bytes has none, so that what is beside it takes the latency.
        let is_alone = matches!(tensor.size, Size::Bytes(0));
        let beside = |bytes: u64| {
            let within = |link: Link| Link {
                latency_ns: if is_alone { link.latency_ns } else { 0 },
                ..link
            };
            self.links
                .by_level(|link| self.moving(bytes as f64, within(link)))
        };
        // The most that any of the layers involved adds.
        let extra = |layer: usize, degree: usize, other: usize, of: fn(&LayerMode) -> &[(usize, u64)]| {
            let modes = layers[layer].modes();
            let mode = modes.iter().find(|mode| mode.tensor == degree);
            let bytes = mode.and_then(|mode| of(mode).iter().find(|(named, _)| *named == other));
            bytes.map_or(0, |(_, bytes)| *bytes)
        };
        let of_consumers = |degree: usize, bytes: &dyn Fn(usize, usize) -> u64| -> Vec<ByLevel> {
            let of_item = |&item: &usize| {
                let inside = tensor.consumers.iter().filter(|&&to| item_of[to] == item);
                beside(inside.map(|&to| bytes(to, degree)).max().unwrap_or(0))
            };
            consumers.iter().map(of_item).collect()
        };
        let leaving =
            |to: usize, degree: usize| extra(tensor.producer, degree, to, |mode| &mode.output_bytes);
        let entering =
            |to: usize, degree: usize| extra(to, degree, tensor.producer, |mode| &mode.input_bytes);
        ModalTransfer {
            producer,
            passes: Passes::Forward,
            ticks: match tensor.size {
                Size::Bytes(bytes) => moving(bytes),
                Size::TransferNs(ns) => [ns * self.ticks_per_ns; LEVELS],
            },
            leaving: self
                .degrees
                .iter()
                .map(|of| of_consumers(of.tensor, &leaving))
                .collect(),
            entering: self
                .degrees
                .iter()
                .map(|of| of_consumers(of.tensor, &entering))
                .collect(),
            consumers,
        }
    }
}

impl ModalTransfer {
    /// Whether it may take longer inside a node than between nodes, at some degree.
    pub fn may_be_slower_inside(&self) -> bool {
        let levels = |ticks: &[ByLevel]| ticks.iter().any(|ticks| ticks[INSIDE] > ticks[BETWEEN]);
        let mut beside = self.leaving.iter().chain(&self.entering);
        levels(&[self.ticks]) || beside.any(|ticks| levels(ticks))
    }

    pub(super) fn is_free(&self) -> bool {
        let beside = self.leaving.iter().chain(&self.entering).flatten();
        self.ticks == [0; LEVELS] && beside.clone().all(|ticks| *ticks == [0; LEVELS])
    }

    /// With its gradient, which takes as long.
    pub(super) fn and_gradient(mut self) -> Self {
        self.passes = Passes::Both;
        let beside = self.leaving.iter_mut().chain(&mut self.entering).flatten();
        beside
            .chain([&mut self.ticks])
            .flatten()
            .for_each(|ticks| *ticks *= 2);
        self
    }
}
