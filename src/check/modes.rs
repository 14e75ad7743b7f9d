//! Stages with modes: devices, what layers compute again, times and bytes, recomputed from the instance in floating point.

use std::collections::{BTreeMap, HashMap};

use super::devices::Placed;
use super::virtual_stages::Held;
use super::{Checker, Figures, Violation, shards};
use crate::model::cluster::{Link, Resource};
use crate::model::network::{LayerMode, Size};
use crate::model::options::{Mode, Objective, Schedule, Synchronization};
use crate::model::settings::Settings;
use crate::model::units::NS_PER_MS;
use crate::problem::plan::{Moved, Plan, PlanRun, PlanStage, Transfers};
use crate::schedule::simulate::{self, Channels, InFlight, PhaseTimes, Pipeline, StageTimes};

/// The name of modes that compute nothing again.
pub(super) const NOTHING: &str = "none";

/// The name of modes that compute all again.
pub(super) const FULL: &str = "full";

/// Sums over a stage, in ns and bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) forward_ns: f64,
    pub(super) backward_ns: f64,
    weight_ns: f64,
    /// What tensor groups reduce, and what of it in forward propagation.
    group_ns: f64,
    group_forward_ns: f64,
    /// Received and sent, forward and backward.
    moved_ns: [[f64; 2]; 2],
    gradient_bytes: f64,
    /// Of the experts that a device has, where replicas share them out.
    expert_gradient_bytes: f64,
    /// Sums over copies of tables, once an iteration.
    sums_ns: f64,
    /// States of optimisers that lie at hosts: of a device, and those that replicas share out.
    pub(super) states_at_host: [u128; 2],
    held_bytes: u128,
    shared_bytes: u128,
    pub(super) stash_bytes: u128,
    pub(super) host_bytes: u128,
    pub(super) workspace_bytes: u128,
    /// Weights that an update changes, of which a micro-batch in flight may need an earlier version.
    pub(super) weight_bytes: u128,
}

/// Positions in [`Sum::moved_ns`].
const RECEIVED: usize = 0;
const SENT: usize = 1;

impl Sum {
    /// What it receives, does and sends in forward propagation.
    pub(super) fn forward_parts_ns(&self) -> [f64; 3] {
        let work_ns = self.forward_ns + self.group_forward_ns;
        [self.moved_ns[0][RECEIVED], work_ns, self.moved_ns[0][SENT]]
    }

    /// What a device holds for good, with its part of what replicas share out.
    pub(super) fn base_bytes(&self, placed: &Placed) -> u128 {
        self.held_bytes + self.shared_bytes.div_ceil(placed.copies() as u128)
    }

    /// What a device holds with so many micro-batches in flight, and as many versions of the weights as it has then.
    pub(super) fn bytes(&self, placed: &Placed, [in_flight, versions]: [u64; 2]) -> u128 {
        self.base_bytes(placed)
            + u128::from(in_flight) * self.stash_bytes
            + u128::from(versions.saturating_sub(1)) * self.weight_bytes
            + self.workspace_bytes
    }

    /// Adds a tensor that moves in a pass, and its gradient that moves the other way in the next.
    fn add_moved(&mut self, pass: usize, way: usize, ns: f64, has_gradient: bool) {
        self.moved_ns[pass][way] += ns;
        if has_gradient {
            self.moved_ns[1][1 - way] += ns;
        }
    }
}

impl Checker<'_> {
    /// Stated modes, times and sizes against recomputed ones. Returns the objective in ms, unless some stage cannot be costed.
    pub(super) fn modal_costs(&mut self, plan: &Plan) -> Option<f64> {
        let placed = self.placed(plan)?;
        let modes = self.modes_of_layers(plan, &placed)?;
        self.told_of_recomputation(plan, &modes);
        let mut sums = self.modal_sums(&placed, &modes);
        self.add_crossings((&placed, &modes), &|size| size, &mut sums);
        self.add_copies(&placed, &modes, &mut sums);
        let mut behind = 0;
        let (mut period_ms, mut once_ms) = (0.0f64, 0.0);
        for (k, stage) in plan.stages.iter().enumerate().rev() {
            let [load_ms, own_ms] = self.stated_stage((k, stage), &placed[k], &sums[k]);
            once_ms += own_ms;
            if !self.settings.has_virtual_stages() {
                self.memory_of_stage((k, stage), &placed[k], &sums[k], behind);
            }
            period_ms = period_ms.max(load_ms);
            behind += placed[k].replicas as u64;
        }
        let pipeline = self.pipeline(&placed);
        if !self.settings.has_virtual_stages() {
            self.overruns = self.overruns_of_modes((&placed, &sums), &pipeline);
        }
        let objective_ms = match self.settings.objective {
            _ if self.settings.has_virtual_stages() => self.chunks_of_rows(plan, &placed, &sums)?,
            _ if self.settings.reads_prompt() => self.modal_read_ms(plan, (&placed, &modes)),
            Objective::Iteration | Objective::Latency => self.iteration_ms(&pipeline),
            Objective::Formula => once_ms + (self.settings.micro_batches.unwrap_or(1) - 1) as f64 * period_ms,
            Objective::Period | Objective::Tokens => period_ms,
        };
        if let Some(stated) = plan.objective_ms {
            self.stated_ms("objective_ms".into(), stated, objective_ms);
        }
        Some(objective_ms)
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
        Pipeline {
            stages: self.figures.iter().zip(placed).map(stage).collect(),
            trains: self.settings.mode.trains(),
            channels: Channels::Shared,
            has_links: self.settings.communication.has_links(),
        }
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

    /// A time as plans count it: in whole ns where they are run, and to the last digit where they are not.
    pub(super) fn counted_ns(&self, ns: f64) -> f64 {
        match self.settings.ticks_per_ns {
            1 => ns.round(),
            _ => ns,
        }
    }

    pub(super) fn wrong(&mut self, field: String, found: String, expected: &str) {
        self.violations.push(Violation::Field {
            field,
            found,
            expected: expected.to_owned().into(),
        });
    }

    /// The mode of every layer: what its stage says, else the one that computes nothing again.
    fn modes_of_layers(&mut self, plan: &Plan, placed: &[Placed]) -> Option<Vec<Option<LayerMode>>> {
        let named = self.recomputed(plan);
        let mut modes = vec![None; self.instance.network.layers.len()];
        let mut is_complete = true;
        for (at, mode) in modes.iter_mut().enumerate() {
            let Some(k) = self.own_stage(at).filter(|_| self.kept(at)) else {
                continue;
            };
            let name = named.get(&at).map_or(NOTHING, String::as_str);
            *mode = self.mode_of_layer(at, placed[k].tensor, name);
            let expert = placed[k].expert;
            let shares_out =
                |mode: &LayerMode| mode.experts.is_none_or(|own| own.count.is_multiple_of(expert));
            let runs = |mode: &LayerMode| mode.times[placed[k].kind].is_some() && shares_out(mode);
            *mode = mode.take().filter(runs);
            if mode.is_none() {
                is_complete = false;
                let found = format!(
                    "`{}` at degree {} with recomputation `{name}`",
                    self.layer(at).id,
                    placed[k].tensor
                );
                self.wrong(
                    format!("stages[{k}].mode"),
                    found,
                    "a mode of the layer that the problem allows",
                );
            }
        }
        is_complete.then_some(modes)
    }

    /// What stages say that layers compute again.
    fn recomputed(&mut self, plan: &Plan) -> HashMap<usize, String> {
        let layers = self.instance.network.layers.iter().enumerate();
        let position: HashMap<&str, usize> = layers.map(|(at, layer)| (layer.id.as_str(), at)).collect();
        let mut named = HashMap::new();
        for (k, stage) in plan.stages.iter().enumerate() {
            let listed = stage.mode.iter().flat_map(|mode| &mode.recomputed);
            for (name, layer) in
                listed.flat_map(|(name, layers)| layers.iter().map(move |layer| (name, layer)))
            {
                let at = position.get(layer.as_str()).copied();
                let own = at.filter(|&at| self.own_stage(at) == Some(k));
                let before = own.and_then(|at| named.insert(at, name.clone()));
                if own.is_none() || before.is_some() {
                    let field = format!("stages[{k}].mode.recomputed.{name}");
                    self.wrong(field, format!("`{layer}`"), "layers of the stage, each once");
                }
            }
        }
        named
    }

    /// The mode of a layer at a degree and of a name, if the problem allows it.
    pub(super) fn mode_of_layer(&self, at: usize, tensor: usize, name: &str) -> Option<LayerMode> {
        let modes = self.layer(at).modes().into_owned();
        let of_degree: Vec<LayerMode> = modes.into_iter().filter(|mode| mode.tensor == tensor).collect();
        let recompute = &self.settings.recompute;
        // No framework is told what lies at hosts.
        let may = |mode: &LayerMode| mode.host_bytes == 0 || self.settings.target.is_none();
        let mut asked = of_degree
            .iter()
            .filter(|mode| recompute.names(&mode.recompute) && may(mode));
        let is_allowed = if asked.clone().next().is_some() {
            asked.any(|mode| mode.recompute == name)
        } else {
            name == NOTHING
        };
        let mode = of_degree.into_iter().find(|mode| mode.recompute == name)?;
        let runs = |&kind: &usize| mode.times[kind].is_some();
        (is_allowed && self.settings.kinds.iter().any(runs)).then_some(mode)
    }

    /// How fast a device of a kind runs forward and backward passes.
    fn rates_of(&self, kind: usize) -> [f64; 2] {
        let resources = &self.instance.cluster.kinds[kind].resources;
        let sum = |of: fn(&Resource) -> f64| resources.iter().map(of).sum();
        match resources.is_empty() {
            true => [1.0; 2],
            false => [sum(|own| own.forward_rate), sum(|own| own.backward_rate)],
        }
    }

    pub(super) fn modal_sums(&self, placed: &[Placed], modes: &[Option<LayerMode>]) -> Vec<Sum> {
        let settings = self.settings;
        let trains = settings.mode.trains();
        let mut sums = vec![Sum::default(); placed.len()];
        for (at, mode) in modes.iter().enumerate() {
            let (Some(mode), Some(k)) = (mode, self.own_stage(at)) else {
                continue;
            };
            let sum = &mut sums[k];
            let times = mode.times[placed[k].kind].unwrap_or_default();
            let [forward_rate, backward_rate] = self.rates_of(placed[k].kind);
            let expert = placed[k].expert as f64;
            let load = settings.expert_load;
            let longer = mode.experts.filter(|_| expert > 1.0 && load > 1.0);
            let longer = longer.map_or(1.0, |own| 1.0 + (load - 1.0) * own.share);
            let context = placed[k].context as f64;
            let at_rate =
                |ns: u64, rate: f64| self.counted_ns(self.counted_ns(ns as f64 / (rate * context)) * longer);
            sum.forward_ns += at_rate(times.forward_ns, forward_rate);
            if trains {
                sum.backward_ns += at_rate(times.backward_ns, backward_rate);
                sum.weight_ns += at_rate(times.weight_ns, backward_rate);
            }
            self.keep(sum, mode, &placed[k]);
            let group = mode.tensor as f64;
            let bandwidth = self.link_of_group(&placed[k], mode.tensor).bandwidth_bytes_per_s;
            let group_ns = |bytes: u64| {
                self.counted_ns(2.0 * (group - 1.0) / group * bytes as f64 / context / bandwidth * 1e9)
            };
            let link = self.link_of_group(&placed[k], placed[k].tensor * placed[k].expert);
            // Of the tokens' vectors all but one in so many go to other devices.
            let routed_ns = |mode: &LayerMode| {
                let bytes = mode.experts.map_or(0, |own| own.routed_bytes) as f64;
                self.counted_ns(
                    load * bytes * (1.0 - 1.0 / expert) / context / link.bandwidth_bytes_per_s * 1e9,
                )
            };
            let moved_ns = |mode: &LayerMode| group_ns(mode.collective_bytes) + routed_ns(mode);
            let [there_ns, back_ns] = self.exchanged_ns(at, mode, &placed[k]);
            sum.group_ns += moved_ns(mode) + there_ns + back_ns;
            sum.group_forward_ns += there_ns;
            // Of the least that a mode of the degree reduces half is forward propagation's; the rest is backward's.
            let modes = self.layer(at).modes();
            let of_degree = modes.iter().filter(|other| other.tensor == mode.tensor);
            let least_ns = of_degree.map(moved_ns).fold(f64::INFINITY, f64::min);
            let returns = trains && self.layer(at).returns;
            sum.group_forward_ns += match (returns, settings.ticks_per_ns) {
                (false, _) => moved_ns(mode),
                (true, 1) => least_ns - (least_ns / 2.0).floor(),
                (true, _) => least_ns / 2.0,
            };
            let own_bytes = mode.experts.map_or(0, |own| own.parameter_bytes);
            let of_experts = self.kept_on(&placed[k], own_bytes);
            let kept = self.kept_on(&placed[k], mode.parameter_bytes);
            sum.held_bytes += u128::from(mode.resident_bytes) + self.served(mode.cache) + kept.each;
            (0..2).for_each(|of| sum.states_at_host[of] += kept.at_host[of]);
            sum.gradient_bytes += mode.gradient_bytes as f64;
            if placed[k].expert > 1 {
                let frozen = self.layer(at).frozen;
                let elsewhere = |all: u128| all - all.div_ceil(placed[k].expert as u128);
                sum.held_bytes -= elsewhere(if frozen { own_bytes.into() } else { of_experts.each });
                if !frozen {
                    sum.states_at_host[0] -= elsewhere(of_experts.at_host[0]);
                    sum.gradient_bytes -= own_bytes as f64;
                    sum.expert_gradient_bytes += own_bytes as f64 / expert;
                }
            }
            sum.shared_bytes += kept.together;
            let workspace_bytes =
                placed[k].part(mode.workspace_bytes) + self.whole_bytes(at, mode, &placed[k]);
            sum.workspace_bytes = sum.workspace_bytes.max(workspace_bytes);
        }
        sums
    }

    /// Charges every tensor to the stages that it leaves and enters.
    pub(super) fn add_crossings(
        &self,
        (placed, modes): (&[Placed], &[Option<LayerMode>]),
        size_of: &dyn Fn(Size) -> Size,
        sums: &mut [Sum],
    ) {
        if !self.settings.communication.takes_time() {
            return;
        }
        for tensor in &self.instance.network.tensors {
            let has_gradient = self.has_gradient(tensor);
            let Some(home) = self
                .own_stage(tensor.producer)
                .filter(|_| self.kept(tensor.producer))
            else {
                continue;
            };
            // What reads it elsewhere, by the devices, with the first stage there that does.
            let start = |stage: usize| placed[stage].devices[0];
            let mut by_place: BTreeMap<usize, (usize, Vec<usize>)> = BTreeMap::new();
            for &to in tensor.consumers.iter().filter(|&&to| self.kept(to)) {
                if let Some(stage) = self.own_stage(to).filter(|&stage| start(stage) != start(home)) {
                    let (first, readers) = by_place.entry(start(stage)).or_insert((stage, Vec::new()));
                    *first = stage.min(*first);
                    readers.push(to);
                }
            }
            let away: BTreeMap<usize, Vec<usize>> = by_place.into_values().collect();
            // From the last device of whichever stage comes first in the row to the first of the other.
            let ends = |stage: usize| {
                // Chunks lie where their places in the row do.
                let is_before = match self.settings.has_virtual_stages() {
                    true => self.device_of_chunk(home) < self.device_of_chunk(stage),
                    false => home < stage,
                };
                let (one, other) = if is_before { (home, stage) } else { (stage, home) };
                [placed[one].devices[1] - 1, placed[other].devices[0]]
            };
            let link_to = |stage: usize| {
                let [one, other] = ends(stage);
                self.link_between(one, other)
            };
            // Out of a node, and else over less bandwidth, and more latency where that is equal.
            let is_farther = |one: &usize, other: &usize| {
                let of = |stage: usize| {
                    let [from, to] = ends(stage);
                    (!self.is_inside(from, to), link_to(stage))
                };
                let ((one_out, one), (other_out, other)) = (of(*one), of(*other));
                (one_out.cmp(&other_out))
                    .then(other.bandwidth_bytes_per_s.total_cmp(&one.bandwidth_bytes_per_s))
                    .then(one.latency_ns.cmp(&other.latency_ns))
            };
            let pass = usize::from(self.layer(tensor.producer).backward);
            let own = |layer: usize, of: fn(&LayerMode) -> &Vec<(usize, u64)>, other: usize| {
                let bytes = modes[layer]
                    .as_ref()
                    .and_then(|mode| of(mode).iter().find(|(named, _)| *named == other));
                bytes.map_or(0, |(_, bytes)| *bytes)
            };
            for (&stage, readers) in &away {
                let entering = readers
                    .iter()
                    .map(|&to| own(to, |mode| &mode.input_bytes, tensor.producer));
                let ns = self.moving_ns(size_of(tensor.size), link_to(stage), entering.max().unwrap_or(0));
                sums[stage].add_moved(pass, RECEIVED, ns, has_gradient);
            }
            if let Some(&farthest) = away.keys().max_by(|one, other| is_farther(one, other)) {
                let readers = away.values().flatten();
                let leaving = readers.map(|&to| own(tensor.producer, |mode| &mode.output_bytes, to));
                let ns = self.moving_ns(
                    size_of(tensor.size),
                    link_to(farthest),
                    leaving.max().unwrap_or(0),
                );
                sums[home].add_moved(pass, SENT, ns, has_gradient);
            }
        }
    }

    /// One copy of a table in a stage of several layers that read it, and sums of gradients between stages.
    fn add_copies(&self, placed: &[Placed], modes: &[Option<LayerMode>], sums: &mut [Sum]) {
        for table in self.tables() {
            let layer = self.layer(table.layer);
            // At each degree, what any layer of it says that is in the stage.
            let bytes_in = |stage: usize| {
                let own = (0..modes.len()).filter(|&at| self.own_stage(at) == Some(stage));
                let mut own = own.filter(|&at| self.layer(at).shared == layer.shared);
                let mode = own.find_map(|at| modes[at].as_ref());
                mode.map_or(0, |mode| mode.shared_bytes)
            };
            let surplus = table.surplus().filter(|_| !self.settings.has_virtual_stages());
            for stage in surplus {
                self.count_once((bytes_in(stage), layer.frozen), &placed[stage], &mut sums[stage]);
            }
            let link = self.link_of_sums(&table, placed);
            for (stage, link) in table.holders().into_iter().zip(link.into_iter().cycle()) {
                let half = bytes_in(stage) as f64 / 2.0;
                if half > 0.0 {
                    let message_ns = half / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
                    sums[stage].sums_ns += (2.0 * message_ns).ceil();
                }
            }
        }
    }

    /// Takes off a table of so many bytes that a stage counts once too often.
    fn count_once(&self, (bytes, is_frozen): (u64, bool), placed: &Placed, sum: &mut Sum) {
        if is_frozen {
            sum.held_bytes -= u128::from(bytes);
            return;
        }
        let kept = self.kept_on(placed, bytes);
        sum.held_bytes -= kept.each;
        sum.shared_bytes -= kept.together;
        (0..2).for_each(|of| sum.states_at_host[of] -= kept.at_host[of]);
        sum.gradient_bytes -= bytes as f64;
    }

    /// The link over which two stages sum the gradients of a table; `None` where they do not.
    fn link_of_sums(&self, table: &super::copies::Table, placed: &[Placed]) -> Option<Link> {
        let settings = self.settings;
        let is_summed = settings.mode.trains() && settings.communication.takes_time();
        let [one, other] = table.holders()[..] else {
            return None;
        };
        let start = |stage: usize| placed[stage].devices[0];
        let is_free = !is_summed
            || settings.micro_batches.is_none()
            || self.layer(table.layer).frozen
            || start(one) == start(other);
        let is_first = match settings.has_virtual_stages() {
            true => self.device_of_chunk(one) < self.device_of_chunk(other),
            false => one < other,
        };
        let (first, last) = if is_first { (one, other) } else { (other, one) };
        (!is_free).then(|| self.link_between(placed[first].devices[1] - 1, start(last)))
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

    /// Micro-batches in flight in a replica, with so many replicas in the stages behind.
    fn in_flight_of(&self, replicas: u64, behind: u64) -> u64 {
        let all = self.settings.micro_batches.unwrap_or(u64::MAX).div_ceil(replicas);
        match (self.settings.mode, self.settings.schedule) {
            (Mode::Inference, _) => 0,
            (Mode::Training, Schedule::Gpipe) => all,
            // It never waits for the end of an iteration.
            (Mode::Training, Schedule::Pipedream) => (replicas + behind).div_ceil(replicas),
            (Mode::Training, _) => (replicas + behind).div_ceil(replicas).min(all),
        }
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
        let ring_ms = once_ns / self.exchanges_every(placed) as f64 / NS_PER_MS;
        let shared = |ns: f64| ns / replicas / NS_PER_MS;
        let trains = self.settings.mode.trains();
        let forward = shared(sum.forward_ns + sum.group_forward_ns);
        let backward = shared(sum.backward_ns + sum.group_ns - sum.group_forward_ns);
        let [received, sent] =
            [RECEIVED, SENT].map(|way| shared(sum.moved_ns.iter().map(|moved| moved[way]).sum()));
        // Links work side by side, and beside the work.
        let (moved, load_ms) = match self.settings.communication.has_links() {
            true => (
                received.max(sent) + ring_ms,
                (forward + backward).max(received).max(sent) + ring_ms,
            ),
            false => (
                received + sent + ring_ms,
                forward + backward + received + sent + ring_ms,
            ),
        };
        let [there, back] = sum.moved_ns.map(|moved| moved.map(shared));
        let ways = |[in_ms, out_ms]: [f64; 2]| Moved { in_ms, out_ms };
        let figures = Figures {
            forward_ms: forward,
            backward_ms: backward,
            weight_ms: (trains && self.instance.network.splits_backward()).then(|| shared(sum.weight_ns)),
            load_ms,
            communication_ms: moved,
            transfers: Transfers {
                forward: ways(there),
                backward: ways(back),
            },
            synchronization_ms: (once_ns > 0.0).then(|| {
                (of_all_ns.ceil() + of_experts_ns.ceil() + sum.sums_ns + 2.0 * copy_ns.ceil()) / NS_PER_MS
            }),
            ..Figures::default()
        };
        self.stated_figures((k, stage), figures, true);
        [load_ms, (load_ms - ring_ms) * replicas + ring_ms]
    }

    /// What a stage holds, with so many replicas in the stages behind.
    fn memory_of_stage(&mut self, (k, stage): (usize, &PlanStage), placed: &Placed, sum: &Sum, behind: u64) {
        let trains = self.settings.mode.trains();
        let in_flight = self.in_flight_of(placed.replicas as u64, behind);
        let versions = self.versions_beside(in_flight);
        let counts = [in_flight, versions].map(|count| trains.then_some(count));
        [self.figures[k].in_flight, self.figures[k].weight_versions] = counts;
        self.stated_counts((k, stage), counts);
        self.memory((k, stage), sum.bytes(placed, [in_flight, versions]));
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
            stash: sum.stash_bytes,
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
