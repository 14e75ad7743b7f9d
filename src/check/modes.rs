//! Stages with modes: devices, what layers compute again, times and bytes, recomputed from the instance in floating point.

use std::collections::BTreeMap;

use super::crossings::{RECEIVED, SENT, through};
use super::devices::Placed;
use super::virtual_stages::Held;
use super::workers::WorkingStage;
use super::{Checker, FORWARD, Figures, Violation, shards};
use crate::model::options::{Mode, Objective, Schedule, Synchronization, WorkerMode};
use crate::model::settings::Settings;
use crate::model::units::NS_PER_MS;
use crate::problem::plan::{Moved, Plan, PlanRun, PlanStage, Transfers};
use crate::schedule::simulate::{self, InFlight, PhaseTimes, Pipeline, StageTimes};

/// The name of modes that compute nothing again.
pub(super) const NOTHING: &str = "none";

/// The name of modes that compute all again.
pub(super) const FULL: &str = "full";

/// Sums over a stage, in ns and bytes.
#[derive(Clone, Default)]
pub(super) struct Sum {
    /// Work in either pass, with what groups of devices move in it.
    pub(super) work_ns: [f64; 2],
    /// The part of it that is gradients of weights.
    pub(super) weight_ns: f64,
    /// Received and sent, forward and backward.
    pub(super) moved_ns: [[f64; 2]; 2],
    pub(super) gradient_bytes: f64,
    /// Of the experts that a device has, where replicas share them out.
    pub(super) expert_gradient_bytes: f64,
    /// Sums over copies of tables, once an iteration.
    pub(super) sums_ns: f64,
    /// Weights between the passes of layers that lie apart, once an update.
    pub(super) updates_ns: f64,
    /// States of optimisers that lie at hosts: of a device, and those that replicas share out.
    pub(super) states_at_host: [u128; 2],
    pub(super) held_bytes: u128,
    pub(super) shared_bytes: u128,
    /// Stash of a micro-batch, and weights that an update changes, of which a micro-batch in flight may need an earlier version: by the stages of the layers'
    /// forward and backward passes, which say how many there are.
    pub(super) between: BTreeMap<[usize; 2], [u128; 2]>,
    pub(super) host_bytes: u128,
    pub(super) workspace_bytes: u128,
}

impl Sum {
    /// What it receives, does and sends in forward propagation.
    pub(super) fn forward_parts_ns(&self) -> [f64; 3] {
        let moved_ns = self.moved_ns[FORWARD];
        [moved_ns[RECEIVED], self.work_ns[FORWARD], moved_ns[SENT]]
    }

    /// What a device holds for good, with its part of what replicas share out.
    pub(super) fn base_bytes(&self, placed: &Placed) -> u128 {
        self.held_bytes + self.shared_bytes.div_ceil(placed.copies() as u128)
    }

    /// What a device holds with so many micro-batches in flight, and as many versions of the weights as it has then, by the stages of both passes.
    pub(super) fn bytes(&self, placed: &Placed, counts: &dyn Fn([usize; 2]) -> [u64; 2]) -> u128 {
        let between = self.between.iter().map(|(&ends, [stash, weights])| {
            let [in_flight, versions] = counts(ends);
            u128::from(in_flight) * stash + u128::from(versions.saturating_sub(1)) * weights
        });
        self.base_bytes(placed) + between.sum::<u128>() + self.workspace_bytes
    }
}

impl Checker<'_> {
    /// Stated modes, times and sizes against recomputed ones. Returns the objective in ms, unless some stage cannot be costed.
    pub(super) fn modal_costs(&mut self, plan: &Plan) -> Option<f64> {
        let placed = self.placed(plan)?;
        let parts = self.parts(plan, &placed)?;
        self.told_of_recomputation(plan, &parts);
        let mut sums = self.modal_sums(&placed, &parts);
        self.share_out(plan, &placed, &mut sums)?;
        self.add_crossings((&placed, &parts), &|size| size, &mut sums);
        self.add_copies(&placed, &parts, &mut sums);
        self.stated_split(plan, self.split_parts(&placed, &parts));
        let through = through(&placed);
        let (mut period_ms, mut once_ms) = (0.0f64, 0.0);
        for (k, stage) in plan.stages.iter().enumerate().rev() {
            let [load_ms, own_ms] = self.stated_stage((k, stage), &placed[k], &sums[k]);
            once_ms += own_ms;
            if !self.settings.has_virtual_stages() {
                self.memory_of_stage((k, stage), &placed[k], &sums[k], &through);
            }
            period_ms = period_ms.max(load_ms);
        }
        let pipeline = self.pipeline(&placed);
        if !self.settings.has_virtual_stages() {
            self.overruns = self.overruns_of_modes((&placed, &sums), &pipeline);
        }
        let objective_ms = match self.settings.objective {
            _ if self.settings.has_virtual_stages() => self.chunks_of_rows(plan, &placed, &sums)?,
            _ if self.settings.reads_prompt() => self.modal_read_ms(plan, (&placed, &parts)),
            Objective::Iteration | Objective::Latency => self.iteration_ms(&pipeline),
            Objective::Formula => once_ms + (self.settings.micro_batches.unwrap_or(1) - 1) as f64 * period_ms,
            Objective::Period | Objective::Tokens => period_ms,
        };
        if let Some(stated) = plan.objective_ms {
            self.stated_ms("objective_ms".into(), stated, objective_ms);
        }
        Some(objective_ms)
    }

    /// Where workers run both phases at once, what passes take on the shares that stages state; `None` where some work never ends.
    fn share_out(&mut self, plan: &Plan, placed: &[Placed], sums: &mut [Sum]) -> Option<()> {
        let (instance, settings) = (self.instance, self.settings);
        if settings.worker == WorkerMode::Sequential {
            return Some(());
        }
        let mut do_end = true;
        for (k, (placed, sum)) in placed.iter().zip(sums).enumerate() {
            let working = WorkingStage {
                k,
                stage: &plan.stages[k],
                kind: &instance.cluster.kinds[placed.kind],
                work_ns: sum.work_ns,
            };
            let on_shares_ns = working.on_shares_ns(settings, &mut self.violations);
            do_end &= on_shares_ns.is_some();
            sum.work_ns = on_shares_ns.unwrap_or_default();
        }
        do_end.then_some(())
    }

    /// The recomputed stages, as they are run.
    fn pipeline(&self, placed: &[Placed]) -> Pipeline {
        let stage = |(figures, placed): (&Figures, &Placed)| {
            // Times are whole ns, those of a replica.
            let ns = |ms: f64| (ms * placed.replicas as f64 * NS_PER_MS).round() as u64;
            let phase = |moved: Moved, work_ms: f64| PhaseTimes {
                in_ns: ns(moved.in_ms),
                work_ns: ns(work_ms),
                out_ns: ns(moved.out_ms),
            };
            StageTimes {
                forward: phase(figures.transfers.forward, figures.forward_ms),
                backward: phase(figures.transfers.backward, figures.backward_ms),
                weight_ns: 0,
                replicas: placed.replicas as u64,
                once_ns: (figures.synchronization_ms.unwrap_or(0.0) * NS_PER_MS).round() as u64,
            }
        };
        let stages = self.figures.iter().zip(placed).map(stage);
        Pipeline::new(self.settings, stages.collect())
    }

    /// The time of an iteration as a simulation of the recomputed stages says, in ms.
    fn iteration_ms(&self, pipeline: &Pipeline) -> f64 {
        let settings = self.settings;
        let micro_batches = match settings.objective {
            Objective::Latency => 1,
            _ => settings.micro_batches.unwrap_or(1),
        };
        let ns = simulate::iteration_ns(pipeline, settings.schedule, InFlight::Standard, micro_batches);
        ns as f64 / NS_PER_MS
    }

    /// A time as plans count it: in whole ns where they are run, in whole ticks where shares weigh one against another, and to the last digit elsewhere.
    pub(super) fn counted_ns(&self, ns: f64) -> f64 {
        match self.counted_ticks() {
            Some(ticks) => (ns * ticks).round() / ticks,
            None => ns,
        }
    }

    /// Of how many ticks a ns is where times are whole ones.
    pub(super) fn counted_ticks(&self) -> Option<f64> {
        let ticks = self.settings.ticks_per_ns;
        let are_weighed = self.settings.worker == WorkerMode::Concurrent;
        (ticks == 1 || are_weighed).then_some(ticks as f64)
    }

    pub(super) fn wrong(&mut self, field: String, found: String, expected: &str) {
        self.violations.push(Violation::Field {
            field,
            found,
            expected: expected.to_owned().into(),
        });
    }

    /// The exchange of a stage's gradients among so many devices, once an iteration, in ns.
    fn ring_ns(&self, placed: &Placed, members: usize, gradient_bytes: f64) -> f64 {
        let settings = self.settings;
        let is_free = settings.synchronization == Synchronization::None
            || !settings.mode.trains()
            || !settings.communication.takes_time()
            || members < 2
            || gradient_bytes == 0.0;
        if is_free {
            return 0.0;
        }
        let [first, behind] = placed.devices;
        let link = self.link_between(first, behind - 1);
        let members = members as f64;
        let message_ns = gradient_bytes / members / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        shards::rounds(settings) * (members - 1.0) * message_ns
    }

    /// Micro-batches in flight in a replica of a stage, and versions of the weights beside them, between a forward and a backward pass on stages with so many
    /// replicas there and behind.
    pub(super) fn counts_of(&self, placed: &Placed, ways: [u64; 2]) -> [u64; 2] {
        let replicas = placed.replicas as u64;
        let ways = ways.map(|through| through.div_ceil(replicas));
        let longer = ways.into_iter().max().unwrap_or(0);
        let all = self.settings.micro_batches.unwrap_or(u64::MAX).div_ceil(replicas);
        let in_flight = match (self.settings.mode, self.settings.schedule) {
            (Mode::Inference, _) => 0,
            (Mode::Training, Schedule::Gpipe) => all,
            // It never waits for the end of an iteration.
            (Mode::Training, Schedule::Pipedream) => longer,
            // Each phase of a stage takes up to a period.
            (Mode::Training, Schedule::Concurrent) => ways.iter().sum::<u64>().min(all),
            (Mode::Training, _) => longer.min(all),
        };
        [in_flight, self.versions_beside(in_flight)]
    }

    /// Versions of the weights that a replica holds beside so many micro-batches in flight.
    pub(super) fn versions_beside(&self, in_flight: u64) -> u64 {
        match self.settings.schedule {
            Schedule::Pipedream => in_flight.max(1),
            _ => 1,
        }
    }

    /// Micro-batches behind which the replicas of a stage exchange gradients once: those of an iteration, or one for each.
    fn exchanges_every(&self, placed: &Placed) -> u64 {
        match self.settings.schedule {
            Schedule::Pipedream => placed.replicas as u64,
            _ => self.settings.micro_batches.unwrap_or(1),
        }
    }

    /// Micro-batches behind which a layer whose passes lie apart sends its weights from one to the other: those of an iteration, or each.
    fn updates_every(&self) -> u64 {
        match self.settings.schedule {
            Schedule::Pipedream => 1,
            _ => self.settings.micro_batches.unwrap_or(1),
        }
    }

    /// What a stage states against what it comes to; the time between its micro-batches, and that of one of them, in ms.
    fn stated_stage(&mut self, (k, stage): (usize, &PlanStage), placed: &Placed, sum: &Sum) -> [f64; 2] {
        let replicas = placed.replicas as f64;
        let of_all_ns = self.ring_ns(placed, placed.copies(), sum.gradient_bytes);
        let of_experts_ns = self.ring_ns(placed, placed.copies() / placed.expert, sum.expert_gradient_bytes);
        let copy_ns = self.copy_of_states_ns(placed, sum);
        // Each in whole ns where iterations are run.
        let whole = |ns: f64| {
            if self.settings.ticks_per_ns == 1 {
                ns.ceil()
            } else {
                ns
            }
        };
        let once_ns = whole(of_all_ns) + whole(of_experts_ns) + sum.sums_ns + 2.0 * whole(copy_ns);
        let of_updates_ns = sum.updates_ns / self.updates_every() as f64;
        let ring_ms = (once_ns / self.exchanges_every(placed) as f64 + of_updates_ns) / NS_PER_MS;
        let shared = |ns: f64| ns / replicas / NS_PER_MS;
        let says_weights = self.settings.mode.trains() && self.settings.worker == WorkerMode::Sequential;
        let [forward, backward] = sum.work_ns.map(shared);
        let [received, sent] =
            [RECEIVED, SENT].map(|way| shared(sum.moved_ns.iter().map(|moved| moved[way]).sum()));
        let work = match self.settings.worker {
            WorkerMode::Sequential => forward + backward,
            WorkerMode::Concurrent => forward.max(backward),
        };
        // Links work side by side, and beside the work.
        let (moved, load_ms) = match self.settings.communication.has_links() {
            true => (
                received.max(sent) + ring_ms,
                work.max(received).max(sent) + ring_ms,
            ),
            false => (received + sent + ring_ms, work + received + sent + ring_ms),
        };
        let [there, back] = sum.moved_ns.map(|moved| moved.map(shared));
        let ways = |[in_ms, out_ms]: [f64; 2]| Moved { in_ms, out_ms };
        let figures = Figures {
            forward_ms: forward,
            backward_ms: backward,
            weight_ms: (says_weights && self.instance.network.splits_backward())
                .then(|| shared(sum.weight_ns)),
            load_ms,
            communication_ms: moved,
            transfers: Transfers {
                forward: ways(there),
                backward: ways(back),
            },
            synchronization_ms: (once_ns + sum.updates_ns > 0.0).then(|| {
                let rings_ns = of_all_ns.ceil() + of_experts_ns.ceil();
                (rings_ns + sum.sums_ns + sum.updates_ns + 2.0 * copy_ns.ceil()) / NS_PER_MS
            }),
            ..Figures::default()
        };
        self.stated_figures((k, stage), figures, true);
        [load_ms, (load_ms - ring_ms) * replicas + ring_ms]
    }

    /// What a stage holds, with so many replicas in each stage and those behind it.
    fn memory_of_stage(
        &mut self,
        (k, stage): (usize, &PlanStage),
        placed: &Placed,
        sum: &Sum,
        through: &[u64],
    ) {
        let trains = self.settings.mode.trains();
        let [in_flight, versions] = self.counts_of(placed, [through[k]; 2]);
        let counts = [in_flight, versions].map(|count| trains.then_some(count));
        [self.figures[k].in_flight, self.figures[k].weight_versions] = counts;
        self.stated_counts((k, stage), counts);
        let bytes = sum.bytes(placed, &|ends| {
            self.counts_of(placed, ends.map(|stage| through[stage]))
        });
        self.memory((k, stage), bytes);
        let at_host = sum.states_of_device(placed).0 + u128::from(in_flight) * sum.host_bytes;
        self.stated_at_host((k, stage), at_host);
        self.host_memory(k, placed, at_host);
    }

    /// Virtual stages that were to be chosen from, and as many devices in a row as there are for the mode.
    pub(super) fn rows_as_asked(&mut self, asked: &Settings, plan: &Plan) {
        let chunks = self.settings.virtual_stages;
        if !asked.may_have_virtual_stages() {
            return;
        }
        if !asked.allows_virtual_stages(chunks) {
            let found = chunks.to_string();
            self.wrong(
                "problem.virtual_stages".into(),
                found,
                "a number of chunks that is asked for",
            );
        }
        if chunks == 1 {
            return;
        }
        let of_stage = plan.stages[0].devices.len().max(1);
        let of_kind = |&kind: &usize| {
            let devices = asked.count(&self.instance.cluster, kind);
            devices.unwrap_or(asked.stages) / of_stage
        };
        let row = asked.kinds.iter().map(of_kind).sum::<usize>().min(asked.stages);
        if plan.stages.len() != row * chunks {
            self.violations.push(Violation::StageCount {
                found: plan.stages.len(),
                expected: format!("{chunks} on each of {row} places in the row, empty ones too"),
            });
        }
    }

    /// What chunks hold together on their devices, and how they run: the iteration in ms. `None` where chunks are missing.
    fn chunks_of_rows(&mut self, plan: &Plan, placed: &[Placed], sums: &[Sum]) -> Option<f64> {
        let replicas = placed.first()?.replicas;
        let rows = self.settings.of_replica(replicas);
        if plan.stages.len() != self.settings.chunks() {
            return None;
        }
        let held = |(sum, placed): (&Sum, &Placed)| Held {
            weights: 0,
            base: sum.base_bytes(placed),
            stash: sum.between.values().map(|[stash, _]| stash).sum(),
        };
        let mut held: Vec<Held> = sums.iter().zip(placed).map(held).collect();
        // One chunk of a device runs at a time: room for the one that needs most.
        let mut most: BTreeMap<usize, usize> = BTreeMap::new();
        for chunk in 0..sums.len() {
            let known = most.entry(self.device_of_chunk(chunk)).or_insert(chunk);
            if sums[chunk].workspace_bytes > sums[*known].workspace_bytes {
                *known = chunk;
            }
        }
        most.into_values()
            .for_each(|chunk| held[chunk].base += sums[chunk].workspace_bytes);
        self.memory_of_devices(plan, &held, &rows);
        self.hosts_of_chunks(plan, (placed, sums), &rows);
        // Times are whole ns, those of a replica.
        let ns = |ms: f64| (ms * replicas as f64 * NS_PER_MS).round() as u128;
        let is_apart = self.settings.splits_backward();
        let has_links = self.settings.communication.has_links();
        let moved = |figures: &Figures| {
            let passes = [figures.transfers.forward, figures.transfers.backward];
            passes.map(|moved| [ns(moved.in_ms), ns(moved.out_ms)])
        };
        let times = |figures: &Figures| {
            let waited = |moved: [u128; 2]| if has_links { 0 } else { moved[0] + moved[1] };
            let [forward, backward] = moved(figures).map(waited);
            let weight = figures.weight_ms.filter(|_| is_apart).map_or(0, ns);
            [
                ns(figures.forward_ms) + forward,
                ns(figures.backward_ms) + backward - weight,
                weight,
            ]
        };
        let takes: Vec<[u128; 3]> = self.figures.iter().map(times).collect();
        let on_links = |figures| if has_links { moved(figures) } else { [[0; 2]; 2] };
        let links: Vec<[[u128; 2]; 2]> = self.figures.iter().map(on_links).collect();
        let mut busy_ns = vec![0; rows.stages];
        let mut once_ns = vec![0; rows.stages];
        for (chunk, takes) in takes.iter().enumerate() {
            let once_ms = self.figures[chunk].synchronization_ms.unwrap_or(0.0);
            let device = self.device_of_chunk(chunk);
            once_ns[device] += (once_ms * NS_PER_MS).round() as u128;
            busy_ns[device] += takes.iter().sum::<u128>();
        }
        let in_ms = |ns: u128| ns as f64 / NS_PER_MS;
        let last_ms = |is_objective: bool| {
            let ends_ns = self.ends_of_chunks((&rows, is_objective), &takes, &links)?;
            let both = ends_ns.into_iter().zip(&once_ns);
            both.map(|(end, once)| end + once).max().map(in_ms)
        };
        let objective_ms = last_ms(true)?;
        let iteration_ms = match self.settings.objective {
            Objective::Iteration => Some(objective_ms),
            _ => last_ms(false),
        };
        let busiest_ms = in_ms(busy_ns.into_iter().max().unwrap_or(0)) / replicas as f64;
        let ran = iteration_ms
            .filter(|&ms| ms > 0.0)
            .zip(self.settings.micro_batches);
        self.run = ran.map(|(ms, micro_batches)| PlanRun::new(ms, busiest_ms, micro_batches));
        Some(objective_ms)
    }
}
