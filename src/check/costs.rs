//! What the stages of a plan cost, recomputed: times, transfers, bytes, and the objective.
//!
//! Sums are of 128 bits: what a plan makes of the numbers of its instance, each below 2^53, stays far below that, so that no
//! plan overflows them.

use std::collections::{BTreeMap, BTreeSet};

use super::{BACKWARD, Checker, FORWARD, Figures, Violation, workers};
use crate::model::network::Tensor;
use crate::model::options::{Communication, Objective, Schedule, WorkerMode};
use crate::model::units::{LARGEST_EXACT, NS_PER_MS};
use crate::problem::plan::{Moved, Plan, PlanStage, Transfers};
use crate::schedule::simulate::{self, InFlight, PhaseTimes, Pipeline, StageTimes};

/// How far a stated time may lie from the recomputed one, in ms: half a nanosecond of rounding on either side, and what
/// printing a number in decimal may lose.
pub(super) const TIME_TOLERANCE_MS: f64 = 1.01 / NS_PER_MS;

/// Times of one stage, in [ticks](crate::model::settings::Settings::ticks_per_ns).
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    work: u128,
    received: u128,
    sent: u128,
}

impl Load {
    /// Adds the work of a layer.
    pub(super) fn add_work(&mut self, ticks: u128) {
        self.work += ticks;
    }

    /// The work of its layers.
    pub(super) fn work(&self) -> u128 {
        self.work
    }

    /// What is received and sent.
    pub(super) fn ends(&self) -> [u128; 2] {
        [self.received, self.sent]
    }

    /// What the worker is busy with.
    pub(super) fn worker(&self, mode: Communication) -> u128 {
        match mode {
            Communication::Blocking => self.work + self.moved(mode),
            Communication::Overlapped | Communication::Ignored => self.work,
        }
    }

    /// Transfers as they cost time: one after the other, or side by side on two links.
    pub(super) fn moved(&self, mode: Communication) -> u128 {
        match mode {
            Communication::Ignored => 0,
            Communication::Blocking => self.received + self.sent,
            Communication::Overlapped => self.received.max(self.sent),
        }
    }

    pub(super) fn busiest(&self, mode: Communication) -> u128 {
        self.worker(mode).max(self.moved(mode))
    }

    /// As a simulation has it, in ns.
    fn times(&self) -> PhaseTimes {
        let ns = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        PhaseTimes {
            in_ns: ns(self.received),
            work_ns: ns(self.work),
            out_ns: ns(self.sent),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            work: self.work + other.work,
            received: self.received + other.received,
            sent: self.sent + other.sent,
        }
    }
}

/// Charges every stage that sends or receives once.
pub(super) fn charge(loads: &mut [Load], senders: &[usize], receivers: &[usize], ticks: u128) {
    senders.iter().for_each(|&k| loads[k].sent += ticks);
    receivers.iter().for_each(|&k| loads[k].received += ticks);
}

/// Stages other than the producer's, each once.
fn elsewhere(home: usize, mut stages: BTreeSet<usize>) -> Vec<usize> {
    stages.remove(&home);
    stages.into_iter().collect()
}

/// What the layers of every stage come to.
pub(super) struct Sums {
    /// Forward and backward times by kind, in ticks.
    times: Vec<BTreeMap<usize, [u128; 2]>>,
    /// The part of the backward times that is gradients of weights.
    weights: Vec<BTreeMap<usize, u128>>,
    pub(super) bytes: Vec<u128>,
    /// Parameters that lie with their backward pass.
    parameter_bytes: Vec<u128>,
}

impl Checker<'_> {
    /// Stated times and sizes against recomputed ones. Returns the objective in ms, unless some stage has no time at all.
    pub(super) fn costs(&mut self, plan: &Plan) -> Option<f64> {
        let sums = self.sums(plan.stages.len());
        let mut forward = vec![Load::default(); plan.stages.len()];
        let mut backward = forward.clone();
        let mut is_known = vec![true; plan.stages.len()];
        for (k, stage) in plan.stages.iter().enumerate() {
            let (instance, settings) = (self.instance, self.settings);
            let staffed = workers::StaffedStage {
                k,
                stage,
                staff: &self.staff[k],
                times_ns: &sums.times[k],
            };
            let times = workers::times_ns(instance, settings, &staffed, &mut self.violations);
            is_known[k] = times.is_some();
            [forward[k].work, backward[k].work] = times.unwrap_or_default();
        }
        for tensor in &self.instance.network.tensors {
            self.transfer(tensor, &mut forward, &mut backward);
        }
        for at in 0..self.instance.network.layers.len() {
            self.moved_between_passes(at, &mut forward, &mut backward);
        }
        self.sums_of_micro_batches(&mut backward, &|stage| stage);
        self.devices_at_work(&mut forward, &mut backward, &sums.parameter_bytes);
        let at_end_ns = self.sums_at_end_ns(plan.stages.len(), &|stage| stage);
        for (k, stage) in plan.stages.iter().enumerate() {
            let weights = self.weights(k, &sums, backward[k].work);
            self.figures[k].synchronization_ms = (at_end_ns[k] > 0).then(|| at_end_ns[k] as f64 / NS_PER_MS);
            self.stated_times((k, stage), [&forward[k], &backward[k]], weights, is_known[k]);
            self.memory((k, stage), sums.bytes[k]);
        }
        if is_known.contains(&false) {
            return None;
        }
        let objective_ns = match self.settings.reads_prompt() {
            true => {
                let each = self.chunks_ns(plan.stages.len());
                self.read_ns(plan, &each)
            }
            false => self.objective(&forward, &backward),
        };
        if let Some(stated) = plan.objective_ms {
            self.stated_ms("objective_ms".into(), stated, self.ms(objective_ns));
        }
        Some(self.ms(objective_ns))
    }

    pub(super) fn sums(&self, stages: usize) -> Sums {
        let mut sums = Sums {
            times: vec![BTreeMap::new(); stages],
            weights: vec![BTreeMap::new(); stages],
            bytes: vec![0; stages],
            parameter_bytes: vec![0; stages],
        };
        for at in 0..self.instance.network.layers.len() {
            if !self.kept(at) {
                continue;
            }
            let places = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]);
            for (pass, k) in places.into_iter().enumerate() {
                let Some(k) = k else {
                    continue;
                };
                for &kind in self.staff[k].keys() {
                    let times = self.layer(at).times[kind].unwrap_or_default();
                    let sum = sums.times[k].entry(kind).or_default();
                    sum[pass] += self.ticks([times.forward_ns, times.backward_ns][pass]);
                    *sums.weights[k].entry(kind).or_default() += self.ticks([0, times.weight_ns][pass]);
                }
            }
            self.hold(at, places, stages, &mut sums.bytes);
            if let Some(k) = places[BACKWARD].or(places[FORWARD]) {
                sums.parameter_bytes[k] += u128::from(self.layer(at).parameter_bytes);
            }
        }
        for (bytes, twice) in sums.bytes.iter_mut().zip(self.bytes_counted_twice(stages)) {
            *bytes -= twice;
        }
        sums
    }

    /// What of a stage's backward work is gradients of weights, in ms; `None` where no layer says or no pass is split.
    ///
    /// Each device spends the same part of its time on them as all layers of the stage do on its kind. Devices of several kinds share
    /// every micro-batch by how fast they are, and count by these shares.
    fn weights(&self, k: usize, sums: &Sums, work: u128) -> Option<f64> {
        let (settings, kinds) = (self.settings, &self.instance.cluster.kinds);
        let is_told = settings.mode.trains()
            && settings.worker == WorkerMode::Sequential
            && self.instance.network.splits_backward();
        if !is_told {
            return None;
        }
        if !settings.heterogeneous {
            return Some(self.ms(sums.weights[k].values().sum()));
        }
        let sums_on = |kind: usize| {
            let backward = sums.times[k].get(&kind).map_or(0, |times| times[BACKWARD]);
            [sums.weights[k].get(&kind).copied().unwrap_or(0), backward]
        };
        if let (Some((&kind, _)), 1) = (self.staff[k].first_key_value(), self.staff[k].len()) {
            let [weight, backward] = sums_on(kind);
            return Some(
                self.ms((work.saturating_mul(weight).saturating_add(backward / 2))
                    .checked_div(backward)
                    .unwrap_or(0)),
            );
        }
        let (mut all, mut of_weights) = (0.0, 0.0);
        for (&kind, &devices) in &self.staff[k] {
            let [weight, backward] = sums_on(kind).map(|ticks| ticks as f64);
            if backward == 0.0 {
                return Some(0.0);
            }
            let resources = &kinds[kind].resources;
            let rate: f64 = resources.iter().map(|resource| resource.backward_rate).sum();
            let rate = if resources.is_empty() { 1.0 } else { rate };
            let share = devices as f64 * rate / backward;
            all += share;
            of_weights += share * (weight / backward);
        }
        // A stage without devices has none to be told of.
        let part = if all > 0.0 { of_weights / all } else { 0.0 };
        Some(self.ms((work as f64 * part).round() as u128))
    }

    fn stated_times(
        &mut self,
        (k, stage): (usize, &PlanStage),
        [forward, backward]: [&Load; 2],
        weights: Option<f64>,
        has_times: bool,
    ) {
        let moved = |load: &Load| Moved {
            in_ms: self.ms(load.received),
            out_ms: self.ms(load.sent),
        };
        let both = forward.plus(*backward);
        let from_end = (self.figures.len() - k) as u64;
        let counts = self.held_between(from_end, from_end);
        let [in_flight, weight_versions] = counts.map(|count| self.settings.mode.trains().then_some(count));
        let figures = Figures {
            forward_ms: self.ms(forward.work),
            backward_ms: self.ms(backward.work),
            weight_ms: weights,
            load_ms: self.ms(self.load(forward, backward)),
            communication_ms: self.ms(both.moved(self.settings.communication)),
            transfers: Transfers {
                forward: moved(forward),
                backward: moved(backward),
            },
            in_flight,
            weight_versions,
            synchronization_ms: self.figures[k].synchronization_ms,
            ..Figures::default()
        };
        self.stated_figures((k, stage), figures, has_times);
    }

    /// Stated times of a stage against recomputed ones, which are kept; those of its work only where it has any.
    pub(super) fn stated_figures(
        &mut self,
        (k, stage): (usize, &PlanStage),
        figures: Figures,
        has_times: bool,
    ) {
        self.figures[k] = figures;
        let stated = stage.transfers.unwrap_or_default();
        let own = figures.transfers;
        let weight_ms = figures.weight_ms.unwrap_or(0.0);
        let work = [
            ("forward_ms", stage.forward_ms, figures.forward_ms),
            ("backward_ms", stage.backward_ms, figures.backward_ms),
            ("load_ms", stage.load_ms, figures.load_ms),
            // A plan need not say it.
            ("weight_ms", stage.weight_ms.unwrap_or(weight_ms), weight_ms),
        ];
        let moved = [
            (
                "communication_ms",
                stage.communication_ms,
                figures.communication_ms,
            ),
            ("transfers.forward.in_ms", stated.forward.in_ms, own.forward.in_ms),
            (
                "transfers.forward.out_ms",
                stated.forward.out_ms,
                own.forward.out_ms,
            ),
            (
                "transfers.backward.in_ms",
                stated.backward.in_ms,
                own.backward.in_ms,
            ),
            (
                "transfers.backward.out_ms",
                stated.backward.out_ms,
                own.backward.out_ms,
            ),
        ];
        let once = [(
            "synchronization_ms",
            stage.synchronization_ms.unwrap_or(0.0),
            figures.synchronization_ms.unwrap_or(0.0),
        )];
        let moved = moved.into_iter().chain(once);
        for (field, stated, recomputed) in work.into_iter().filter(|_| has_times).chain(moved) {
            self.stated_ms(format!("stages[{k}].{field}"), stated, recomputed);
        }
    }

    pub(super) fn memory(&mut self, (k, stage): (usize, &PlanStage), bytes: u128) {
        self.figures[k].memory_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.stated_count(format!("stages[{k}].memory_bytes"), stage.memory_bytes, bytes);
        if let Some(limit) = self.limit_of(k).filter(|&limit| bytes > limit) {
            self.violations.push(Violation::Memory {
                stage: k + 1,
                bytes,
                over: bytes - limit,
            });
        }
    }

    /// What the devices of a stage may hold, each.
    pub(super) fn limit_of(&self, stage: usize) -> Option<u128> {
        let staff = self.staff.get(stage)?;
        workers::memory_bytes(self.instance, self.settings, staff).map(u128::from)
    }

    /// What the devices of a stage make of its transfers: nothing if none of them pays, more if they synchronise.
    fn devices_at_work(&self, forward: &mut [Load], backward: &mut [Load], parameter_bytes: &[u128]) {
        for (k, staff) in self
            .staff
            .iter()
            .enumerate()
            .filter(|_| self.settings.heterogeneous)
        {
            if !workers::pays(self.instance, staff) {
                for load in [&mut forward[k], &mut backward[k]] {
                    (load.received, load.sent) = (0, 0);
                }
                continue;
            }
            let ns = workers::synchronization_ns(self.settings, staff, parameter_bytes[k]);
            match self.settings.communication {
                Communication::Ignored => {}
                Communication::Blocking => backward[k].sent += ns,
                Communication::Overlapped => {
                    backward[k].sent += ns;
                    backward[k].received += ns;
                }
            }
        }
    }

    /// What a stage's worker is busy with: both phases in turn, or the longer one.
    fn load(&self, forward: &Load, backward: &Load) -> u128 {
        match self.settings.worker {
            WorkerMode::Sequential => forward.plus(*backward).worker(self.settings.communication),
            WorkerMode::Concurrent => forward.work.max(backward.work),
        }
    }

    /// The busiest of a stage's worker and links.
    fn busiest(&self, forward: &Load, backward: &Load) -> u128 {
        let moved = match self.settings.communication {
            // Part of the load.
            Communication::Blocking => 0,
            mode => forward.plus(*backward).moved(mode),
        };
        self.load(forward, backward).max(moved)
    }

    /// Ns of an instance in ticks.
    pub(super) fn ticks(&self, ns: u64) -> u128 {
        u128::from(ns) * u128::from(self.settings.ticks_per_ns)
    }

    pub(super) fn ms(&self, ticks: u128) -> f64 {
        ticks as f64 / (self.settings.ticks_per_ns as f64 * NS_PER_MS)
    }

    pub(super) fn stated_ms(&mut self, field: String, stated: f64, recomputed: f64) {
        // A comparison that is false for NaN too.
        let agrees = (stated - recomputed).abs() <= TIME_TOLERANCE_MS;
        if !agrees {
            self.violations.push(Violation::Stated {
                field,
                stated,
                recomputed,
            });
        }
    }

    pub(super) fn stated_count(&mut self, field: String, stated: u64, recomputed: u128) {
        if u128::from(stated) != recomputed {
            self.violations.push(Violation::Stated {
                field,
                stated: stated as f64,
                recomputed: recomputed as f64,
            });
        }
    }

    /// Charges a tensor, and in training its gradient, to every stage it touches.
    fn transfer(&self, tensor: &Tensor, forward: &mut [Load], backward: &mut [Load]) {
        if !self.kept(tensor.producer) {
            return;
        }
        let ticks = self.ticks(self.settings.transfer_ns(tensor));
        let kept = || tensor.consumers.iter().filter(|&&to| self.kept(to));
        let own = kept().filter_map(|&to| self.own_stage(to)).collect();
        let phase = match self.layer(tensor.producer).backward {
            true => &mut *backward,
            false => forward,
        };
        if let Some(home) = self.own_stage(tensor.producer) {
            let away = elsewhere(home, own);
            if !away.is_empty() {
                charge(phase, &[home], &away, ticks);
            }
        }
        let has_gradient = self.has_gradient(tensor);
        if let Some(home) = self.stage_of[BACKWARD][tensor.producer].filter(|_| has_gradient) {
            let back = kept().filter_map(|&to| self.stage_of[BACKWARD][to]).collect();
            let away = elsewhere(home, back);
            if !away.is_empty() {
                charge(backward, &away, &[home], ticks);
            }
        }
    }

    fn objective(&self, forward: &[Load], backward: &[Load]) -> u128 {
        let mode = self.settings.communication;
        let busiest = |loads: &[Load]| loads.iter().map(|load| load.busiest(mode)).max().unwrap_or(0);
        let stages = || forward.iter().zip(backward);
        let period = stages().map(|(f, b)| self.busiest(f, b)).max().unwrap_or(0);
        let whole_ns = |ticks: u128| ticks.next_multiple_of(u128::from(self.settings.ticks_per_ns));
        match self.settings.objective {
            Objective::Period | Objective::Tokens => return whole_ns(period),
            Objective::Iteration | Objective::Latency if self.settings.is_simulated() => {
                return self.simulated(forward, backward);
            }
            Objective::Iteration | Objective::Latency | Objective::Formula => {}
        }
        let once: u128 = stages().map(|(f, b)| f.plus(*b).worker(mode)).sum();
        if self.settings.objective == Objective::Latency {
            return whole_ns(once);
        }
        let again = u128::from(self.settings.micro_batches.unwrap_or(1).saturating_sub(1));
        let round = match self.settings.schedule {
            Schedule::Gpipe => busiest(forward) + busiest(backward),
            Schedule::OneFOneB | Schedule::Pipedream | Schedule::Concurrent => period,
            Schedule::Interleaved | Schedule::ZbV | Schedule::VHalf | Schedule::VMin => period,
        };
        whole_ns(once + again * round)
    }

    /// The time of an iteration, or of one micro-batch alone, as a simulation says, in ns, which ticks are there.
    fn simulated(&self, forward: &[Load], backward: &[Load]) -> u128 {
        let settings = self.settings;
        // More than any plan of the instance takes, and small enough to be run.
        let all: u128 = forward
            .iter()
            .chain(backward)
            .map(|load| load.work + load.received + load.sent)
            .sum();
        let micro_batches = match settings.objective {
            Objective::Latency => 1,
            _ => settings.micro_batches.unwrap_or(1),
        };
        let most = all.saturating_mul(u128::from(micro_batches) + 2 * forward.len() as u128);
        if most > u128::from(LARGEST_EXACT) {
            return most;
        }
        let at_end_ns = self.sums_at_end_ns(forward.len(), &|stage| stage);
        let stages = forward
            .iter()
            .zip(backward)
            .zip(at_end_ns)
            .map(|((forward, backward), at_end_ns)| StageTimes {
                forward: forward.times(),
                backward: backward.times(),
                weight_ns: 0,
                replicas: 1,
                once_ns: u64::try_from(at_end_ns).unwrap_or(u64::MAX),
            });
        let pipeline = Pipeline::new(settings, stages.collect());
        simulate::iteration_ns(&pipeline, settings.schedule, InFlight::Standard, micro_batches).into()
    }
}
