//! Plans with virtual stages: which device holds which chunk, what devices are busy with, and what they hold.
//!
//! A path of its own: devices are counted by whether they have met a tensor, and memory is what the schedule's order of operations
//! shows, operation by operation.

use std::collections::BTreeMap;

use super::costs::{Load, charge};
use super::{BACKWARD, Checker, FORWARD, Figures, Violation, orders, states};
use crate::model::network::Tensor;
use crate::model::options::{Mode, Placement, Schedule};
use crate::model::settings::Settings;
use crate::model::units::NS_PER_MS;
use crate::problem::plan::{Moved, Plan, PlanRun, PlanStage, Transfers};

/// What a chunk holds, in bytes, and what its gradients of weights take.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    /// In ticks, as a part of the backward pass.
    pub weights: u128,
    /// For good.
    pub base: u128,
    /// For each micro-batch in flight.
    pub stash: u128,
}

impl Checker<'_> {
    /// The device of a chunk, from 0: rounds go through all devices, in a V every other one backwards.
    pub(super) fn device_of_chunk(&self, chunk: usize) -> usize {
        let devices = self.settings.stages;
        let (round, place) = (chunk / devices, chunk % devices);
        let goes_back = self.settings.placement == Placement::V && round % 2 == 1;
        match goes_back {
            true => devices - 1 - place,
            false => place,
        }
    }

    /// Every chunk is there, on its device.
    pub(super) fn chunks_in_place(&mut self, plan: &Plan) {
        let settings = self.settings;
        let expected = settings.stages * settings.virtual_stages;
        if settings.has_virtual_stages() && plan.stages.len() != expected {
            self.violations.push(Violation::StageCount {
                found: plan.stages.len(),
                expected: format!(
                    "{expected}, {} on each of {} devices, empty ones too",
                    settings.virtual_stages, settings.stages
                ),
            });
        }
        let kind = &self.instance.cluster.kinds[settings.kind].name;
        for (chunk, stage) in plan.stages.iter().enumerate() {
            let device = format!("{kind}:{}", self.device_of_chunk(chunk) + 1);
            if stage.devices != [device.clone()] {
                self.violations.push(Violation::Device {
                    stage: chunk + 1,
                    device: stage.devices.join(", "),
                    reason: format!("is not `{device}`, where the placement puts this chunk"),
                });
            }
        }
    }

    /// Stated times and sizes against recomputed ones. Returns the objective in ms.
    pub(super) fn virtual_costs(&mut self, plan: &Plan) -> Option<f64> {
        let mut loads = [(); 2].map(|()| vec![Load::default(); plan.stages.len()]);
        let mut held = vec![Held::default(); plan.stages.len()];
        self.work_of_chunks(&mut loads, &mut held);
        for tensor in &self.instance.network.tensors {
            self.transfer_between_devices(tensor, &mut loads);
        }
        let device = |chunk: usize| self.device_of_chunk(chunk);
        self.sums_of_micro_batches(&mut loads[BACKWARD], &device);
        let at_end_ns = self.sums_at_end_ns(plan.stages.len(), &device);
        let [forward, backward] = &loads;
        for (chunk, stage) in plan.stages.iter().enumerate() {
            let weights = held[chunk].weights;
            self.figures[chunk].synchronization_ms =
                (at_end_ns[chunk] > 0).then(|| at_end_ns[chunk] as f64 / NS_PER_MS);
            self.times_of_chunk((chunk, stage), [&forward[chunk], &backward[chunk]], weights);
        }
        self.memory_of_devices(plan, &held, self.settings);
        let weights: Vec<u128> = held.iter().map(|held| held.weights).collect();
        self.own_order(plan, &loads, &weights);
        let mut devices: BTreeMap<usize, Load> = BTreeMap::new();
        for (chunk, (forward, backward)) in forward.iter().zip(backward).enumerate() {
            let device = devices.entry(self.device_of_chunk(chunk)).or_default();
            *device = device.plus(*forward).plus(*backward);
        }
        let mode = self.settings.communication;
        let busiest = devices.values().map(|load| load.busiest(mode)).max().unwrap_or(0);
        let objective = match self.settings.is_simulated() {
            true => self.iteration_of_chunks(true, &loads, &weights)?,
            false => busiest.next_multiple_of(u128::from(self.settings.ticks_per_ns)),
        };
        self.run = self.run_of_chunks(plan, &loads, &weights, busiest);
        if let Some(stated) = plan.objective_ms {
            self.stated_ms("objective_ms".into(), stated, self.ms(objective));
        }
        Some(self.ms(objective))
    }

    /// How a plan of chunks runs by the order of its schedule, whose busiest device takes so long for a micro-batch; `None` where that is not
    /// known, or too much to be run.
    fn run_of_chunks(
        &self,
        plan: &Plan,
        loads: &[Vec<Load>; 2],
        weights: &[u128],
        busiest: u128,
    ) -> Option<PlanRun> {
        /// A moment for each plan that is checked.
        const MOST_OPERATIONS: u64 = 100_000;
        let settings = self.settings;
        let micro_batches = settings.micro_batches?;
        let operations = micro_batches.saturating_mul(3 * plan.stages.len() as u64);
        if plan.order.is_some() || !settings.schedule.flushes() || operations > MOST_OPERATIONS {
            return None;
        }
        let ticks = self.iteration_of_chunks(false, loads, weights)?;
        (ticks > 0).then(|| PlanRun::new(self.ms(ticks), self.ms(busiest), micro_batches))
    }

    /// What the layers of every chunk take and hold.
    fn work_of_chunks(&self, loads: &mut [Vec<Load>; 2], held: &mut [Held]) {
        for at in (0..self.instance.network.layers.len()).filter(|&at| self.kept(at)) {
            let layer = self.layer(at);
            let places = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]);
            let times = layer.times[self.settings.kind].unwrap_or_default();
            for (pass, ns) in [times.forward_ns, times.backward_ns].into_iter().enumerate() {
                if let Some(chunk) = places[pass] {
                    loads[pass][chunk].add_work(self.ticks(ns));
                }
            }
            if let Some(chunk) = places[BACKWARD] {
                held[chunk].weights += self.ticks(times.weight_ns);
            }
            if let Some(home) = places[BACKWARD].or(places[FORWARD]) {
                let kept = states::kept(self.settings, &self.instance.network, layer.parameter_bytes);
                held[home].base += u128::from(layer.resident_bytes) + self.served(layer.cache) + kept.each;
                if self.settings.mode.trains() {
                    held[home].stash += u128::from(layer.stash_bytes);
                }
            }
        }
    }

    /// Charges a tensor, and in training its gradient, to its producer's chunk and to the first chunk on every other device that reads it.
    fn transfer_between_devices(&self, tensor: &Tensor, loads: &mut [Vec<Load>; 2]) {
        if !self.kept(tensor.producer) {
            return;
        }
        let ticks = self.ticks(self.settings.transfer_ns(tensor));
        let is_backward = self.layer(tensor.producer).backward;
        let consumers = || tensor.consumers.iter().filter(|&&to| self.kept(to));
        let [forward, backward] = loads;
        if let Some(home) = self.own_stage(tensor.producer) {
            let chunks = consumers().filter_map(|&to| self.own_stage(to));
            let away = self.first_on_other_devices(home, chunks);
            let phase = if is_backward { &mut *backward } else { forward };
            if !away.is_empty() {
                charge(phase, &[home], &away, ticks);
            }
        }
        let has_gradient = self.has_gradient(tensor);
        if let Some(home) = self.stage_of[BACKWARD][tensor.producer].filter(|_| has_gradient) {
            let chunks = consumers().filter_map(|&to| self.stage_of[BACKWARD][to]);
            let away = self.first_on_other_devices(home, chunks);
            if !away.is_empty() {
                charge(backward, &away, &[home], ticks);
            }
        }
    }

    fn first_on_other_devices(&self, home: usize, chunks: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        for chunk in chunks {
            let known = first.entry(self.device_of_chunk(chunk)).or_insert(chunk);
            *known = chunk.min(*known);
        }
        first.remove(&self.device_of_chunk(home));
        first.into_values().collect()
    }

    fn times_of_chunk(
        &mut self,
        (chunk, stage): (usize, &PlanStage),
        [forward, backward]: [&Load; 2],
        weights: u128,
    ) {
        let mode = self.settings.communication;
        let moved = |load: &Load| {
            let [in_ms, out_ms] = load.ends().map(|ticks| self.ms(ticks));
            Moved { in_ms, out_ms }
        };
        let both = forward.plus(*backward);
        let figures = Figures {
            forward_ms: self.ms(forward.work()),
            backward_ms: self.ms(backward.work()),
            weight_ms: (self.settings.mode.trains() && self.instance.network.splits_backward())
                .then(|| self.ms(weights)),
            load_ms: self.ms(both.worker(mode)),
            communication_ms: self.ms(both.moved(mode)),
            transfers: Transfers {
                forward: moved(forward),
                backward: moved(backward),
            },
            synchronization_ms: self.figures[chunk].synchronization_ms,
            ..Figures::default()
        };
        self.stated_figures((chunk, stage), figures, true);
    }

    /// What every device holds, operation by operation, against what its chunks state and what it may.
    ///
    /// * `of`: the settings of whoever runs the order.
    pub(super) fn memory_of_devices(&mut self, plan: &Plan, held: &[Held], of: &Settings) {
        for seen in self.seen(plan, held, of) {
            let chunks = &seen.chunks;
            for (at, &chunk) in chunks.iter().enumerate() {
                let bytes = u64::try_from(seen.fullest[at]).unwrap_or(u64::MAX);
                self.figures[chunk].memory_bytes = bytes;
                let field = format!("stages[{chunk}].memory_bytes");
                self.stated_count(field, plan.stages[chunk].memory_bytes, seen.fullest[at]);
                self.counts_of_chunk((chunk, &plan.stages[chunk]), seen.most[at]);
            }
            let bytes: u128 = seen.fullest.iter().sum();
            let Some(&first) = chunks.first() else { continue };
            if let Some(limit) = self.limit_of(first).filter(|&limit| bytes > limit) {
                self.violations.push(Violation::Memory {
                    stage: first + 1,
                    bytes,
                    over: bytes - limit,
                });
            }
        }
    }

    /// What the chunks of every device hold while it works off its order.
    pub(super) fn seen(&self, plan: &Plan, held: &[Held], of: &Settings) -> Vec<Seen> {
        let order = orders::operations(plan).or_else(|| order_of_schedule(of));
        let mut chunks_of = vec![Vec::new(); self.settings.stages];
        for chunk in 0..plan.stages.len() {
            chunks_of[self.device_of_chunk(chunk)].push(chunk);
        }
        let of_device = |(device, chunks): (usize, Vec<usize>)| {
            let mut seen = Seen::new(chunks, held);
            match &order {
                // Letters as the operations are written: only three of them change what is held.
                Some(devices) => {
                    let operations = devices.get(device).into_iter().flatten();
                    operations.for_each(|&(chunk, letter, _)| seen.note(chunk, letter));
                }
                None => seen.all_at_once(micro_batches_of_chunks(of)),
            }
            seen
        };
        chunks_of.into_iter().enumerate().map(of_device).collect()
    }

    fn counts_of_chunk(&mut self, (chunk, stage): (usize, &PlanStage), in_flight: u64) {
        let trains = self.settings.mode.trains();
        let expected = [in_flight, 1].map(|count| trains.then_some(count));
        [self.figures[chunk].in_flight, self.figures[chunk].weight_versions] = expected;
        self.stated_counts((chunk, stage), expected);
    }
}

/// The operations of every device in the order of a schedule.
fn order_of_schedule(of: &Settings) -> Option<Vec<Vec<(usize, char, usize)>>> {
    let order = of.order_of_chunks()?;
    let devices = order.devices.iter().map(|list| {
        let operations = list.iter();
        let operations = operations.map(|of| (of.chunk, of.phase.letter(), of.micro_batch));
        operations.collect()
    });
    Some(devices.collect())
}

/// Micro-batches that every chunk holds where no order says otherwise.
fn micro_batches_of_chunks(of: &Settings) -> u64 {
    match (of.mode, of.schedule) {
        (Mode::Training, Schedule::Gpipe) => of.micro_batches.unwrap_or(0),
        _ => 0,
    }
}

/// What a device holds while it works off its order.
pub(super) struct Seen {
    pub chunks: Vec<usize>,
    held: Vec<Held>,
    in_flight: Vec<u64>,
    /// The most micro-batches of each chunk.
    most: Vec<u64>,
    /// Bytes of each chunk when all of them hold most; of several such times when the first chunks hold most.
    pub fullest: Vec<u128>,
}

impl Seen {
    fn new(chunks: Vec<usize>, held: &[Held]) -> Self {
        let mut seen = Self {
            held: chunks.iter().map(|&chunk| held[chunk]).collect(),
            in_flight: vec![0; chunks.len()],
            most: vec![0; chunks.len()],
            fullest: vec![0; chunks.len()],
            chunks,
        };
        seen.look();
        seen
    }

    fn all_at_once(&mut self, micro_batches: u64) {
        self.in_flight.fill(micro_batches);
        self.look();
    }

    fn note(&mut self, chunk: usize, letter: char) {
        let Some(at) = self.chunks.iter().position(|&own| own == chunk) else {
            return;
        };
        match letter {
            'F' => self.in_flight[at] += 1,
            'B' | 'W' => self.in_flight[at] = self.in_flight[at].saturating_sub(1),
            _ => return,
        }
        self.look();
    }

    fn look(&mut self) {
        let bytes = self.held.iter().zip(&self.in_flight);
        let bytes: Vec<u128> = bytes
            .map(|(held, &count)| held.base + u128::from(count) * held.stash)
            .collect();
        let key = |bytes: &Vec<u128>| (bytes.iter().sum::<u128>(), bytes.clone());
        if key(&bytes) > key(&self.fullest) {
            self.fullest = bytes;
        }
        for (most, &count) in self.most.iter_mut().zip(&self.in_flight) {
            *most = count.max(*most);
        }
    }
}
