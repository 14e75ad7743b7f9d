//! Stages with modes by brute force: every ordered partition, every degree and number of replicas of each stage, every choice of what
//! its layers compute again; where cuts are separate, every placement of passes besides. Times are doubles, on layers and tensors, as
//! `formulations/modes.md` has them.

use std::cell::RefCell;

use stagecut::cluster::Link;
use stagecut::instance::Instance;
use stagecut::network::{LayerMode, Size, Tensor};
use stagecut::options::{
    Cuts, DeviceOrder, Groups, Mode, Objective, Optimizer, OptimizerSharding, Schedule, StatePrecision,
};
use stagecut::settings::Settings;
use stagecut::simulate::{InFlight, PhaseTimes, Pipeline, StageTimes, iteration_ns};

use super::replicas::Stage;
use super::separate_modes::{Held, Leasts};

/// The least period in ms, of all plans or, if the settings say so, of those whose stages are alike; `None` where no plan fits.
pub fn best_ms(instance: &Instance, settings: &Settings) -> Option<f64> {
    best_ns(instance, settings, false).map(|ns| ns / 1e6)
}

/// The least time of an iteration in ns, likewise.
pub fn best_iteration_ns(instance: &Instance, settings: &Settings) -> Option<u64> {
    best_ns(instance, settings, true).map(|ns| ns as u64)
}

fn best_ns(instance: &Instance, settings: &Settings, of_iterations: bool) -> Option<f64> {
    let search = searched(instance, settings, of_iterations);
    search.best_ns.is_finite().then_some(search.best_ns)
}

/// A search that is done.
pub(super) fn searched<'a>(
    instance: &'a Instance,
    settings: &'a Settings,
    of_iterations: bool,
) -> Search<'a> {
    let mut search = Search::new(instance, settings, of_iterations);
    let is_tied = settings.cuts == Cuts::Tied;
    match is_tied && !search.ties_layers() {
        true => search.place(),
        false => search.place_passes(is_tied),
    }
    search
}

pub(super) struct Search<'a> {
    pub(super) instance: &'a Instance,
    pub(super) settings: &'a Settings,
    /// Of each kind in play its position, the number of its first device, and how many there are.
    pub(super) rows: Vec<[usize; 3]>,
    /// Whether iterations are asked for.
    pub(super) of_iterations: bool,
    /// The stage of each layer, where cuts are separate that of its forward pass, and that of its backward pass.
    pub(super) stage_of: Vec<usize>,
    pub(super) back_of: Vec<usize>,
    pub(super) best_ns: f64,
    /// The same where each plan takes as long as it may with shares that are equally good for its stages.
    pub(super) best_at_most_ns: f64,
    /// What parts of layers add to stages at least, as far as it is known.
    pub(super) leasts: RefCell<Leasts>,
}

/// Kind, degree and replicas of a stage, and its first device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) kind: usize,
    pub(super) tensor: usize,
    pub(super) replicas: usize,
    /// How many devices share out experts, of those of all replicas that have the same part of the layers.
    pub(super) expert: usize,
    /// How many tensor groups of a replica share out a sequence.
    pub(super) context: usize,
    /// How many members of a replica, each of tensor groups that share out a sequence, share out every micro-batch.
    pub(super) group: usize,
    /// Whether states of the optimiser lie at hosts.
    pub(super) at_host: bool,
    pub(super) start: usize,
}

/// A way to run a stage that fits.
#[derive(PartialEq)]
pub(super) struct RunWay {
    /// Forward and backward time and ring, in whole ns.
    pub(super) times: [f64; 3],
    /// What each layer computes again.
    names: Vec<String>,
}

impl Run {
    pub(super) fn last(self) -> usize {
        self.start + self.tensor * self.copies() - 1
    }

    /// Devices that have a micro-batch at once, each with its part of the work.
    pub(super) fn parts(self) -> usize {
        self.context * self.group
    }

    /// Devices with the same weights.
    pub(super) fn copies(self) -> usize {
        self.parts() * self.replicas
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(instance: &'a Instance, settings: &'a Settings, of_iterations: bool) -> Self {
        let mut first = 0;
        let mut row = |&kind: &usize| {
            let count = settings.count(&instance.cluster, kind).unwrap_or(settings.stages);
            first += count;
            [kind, first - count, count]
        };
        Self {
            instance,
            settings,
            rows: settings.kinds.iter().map(&mut row).collect(),
            of_iterations,
            stage_of: Vec::new(),
            back_of: Vec::new(),
            best_ns: f64::INFINITY,
            best_at_most_ns: f64::INFINITY,
            leasts: RefCell::default(),
        }
    }

    /// Gives each layer a stage, in every way; layers are listed in topological order.
    fn place(&mut self) {
        let layers = self.instance.network.layers.len();
        let at = self.stage_of.len();
        if at == layers {
            let used = self.stage_of.iter().max().map_or(0, |last| last + 1);
            let is_full = (0..used).all(|stage| self.stage_of.contains(&stage));
            if is_full && (!self.settings.all_stages || used == self.settings.stages) {
                self.back_of = self.stage_of.clone();
                self.run(used, &mut Vec::new());
            }
            return;
        }
        let network = &self.instance.network;
        let own = &network.layers[at];
        let before = network
            .tensors
            .iter()
            .filter(|tensor| !own.backward && tensor.consumers.contains(&at));
        let first = before
            .map(|tensor| self.stage_of[tensor.producer])
            .max()
            .unwrap_or(0);
        // An operator of an explicit backward graph lies with the layer of its tie, which comes before it in the list.
        let tied = (0..at).find(|&other| own.backward && network.layers[other].tie == own.tie);
        let stages = match tied {
            Some(other) => self.stage_of[other]..self.stage_of[other] + 1,
            None => first..self.settings.stages.min(layers),
        };
        for stage in stages {
            self.stage_of.push(stage);
            self.place();
            self.stage_of.pop();
        }
    }

    /// Gives each stage devices, in every way.
    pub(super) fn run(&mut self, stages: usize, runs: &mut Vec<Run>) {
        if runs.len() == stages {
            let place = |run: &Run| Run {
                kind: 0,
                start: 0,
                ..*run
            };
            let is_alike = |run: &Run| place(run) == place(&runs[0]);
            let [ns, at_most_ns] = match (self.of_iterations, self.runs_both_at_once()) {
                _ if self.settings.uniform && !runs.iter().all(is_alike) => return,
                (false, _) => [self.period_ns(runs); 2],
                (true, false) => [self.iteration_ns(runs); 2],
                (true, true) => self.shared_iteration_ns(runs),
            };
            self.best_ns = self.best_ns.min(ns);
            self.best_at_most_ns = self.best_at_most_ns.min(at_most_ns);
            return;
        }
        // Rows come in the order of their first devices.
        let first_of = |kind: usize| self.rows.iter().find(|row| row[0] == kind).unwrap()[1];
        let ahead = runs.last().map_or(0, |run| first_of(run.kind));
        let may_follow = |first: usize| self.settings.device_order == DeviceOrder::Free || ahead <= first;
        let rows: Vec<[usize; 3]> = self
            .rows
            .iter()
            .copied()
            .filter(|row| may_follow(row[1]))
            .collect();
        for [kind, first, count] in rows {
            let before = runs.iter().rev().find(|run| run.kind == kind);
            let start = before.map_or(first, |run| run.last() + 1);
            let left = first + count - start;
            for run in self.runs_from([kind, start, left]) {
                if self.may_run(run) && self.may_gain(runs.len(), run) {
                    runs.push(run);
                    self.run(stages, runs);
                    runs.pop();
                }
            }
        }
    }

    /// All that a stage may be which begins at a device of a kind, of so many that are left of it.
    fn runs_from(&self, [kind, start, left]: [usize; 3]) -> Vec<Run> {
        let degrees = (1..=left).flat_map(|tensor| (1..=left / tensor).map(move |d| (tensor, d)));
        let places = self.places_of_states(kind);
        let runs_of = |(tensor, replicas): (usize, usize)| {
            let both = self.ways_to_share(left / tensor / replicas);
            let all = both.into_iter().flat_map(move |[context, group]| {
                let copies = replicas * context * group;
                let experts = (1..=copies).filter(move |expert| copies.is_multiple_of(*expert));
                experts.map(move |expert| [expert, context, group])
            });
            let all = all.flat_map(|of| places.iter().map(move |&at_host| (of, at_host)));
            all.map(move |([expert, context, group], at_host)| Run {
                kind,
                tensor,
                replicas,
                expert,
                context,
                group,
                at_host,
                start,
            })
        };
        degrees.flat_map(runs_of).collect()
    }

    /// Degrees of context and of groups whose product is at most so many: groups of several only where plans may form them.
    pub(super) fn ways_to_share(&self, most: usize) -> Vec<[usize; 2]> {
        let contexts = 1..=most;
        let groups = |context: usize| match self.settings.groups {
            Groups::Assign => 1..=most / context,
            _ => 1..=1,
        };
        contexts
            .flat_map(|context| groups(context).map(move |group| [context, group]))
            .collect()
    }

    pub(super) fn may_run(&self, run: Run) -> bool {
        let Run {
            tensor,
            replicas,
            expert,
            context,
            start,
            ..
        } = run;
        let all = tensor * run.copies();
        let divides = match (self.settings.mode, self.settings.micro_batches) {
            (Mode::Training, Some(all)) => all % replicas as u64 == 0,
            _ => true,
        };
        let inside = |size: usize| {
            let groups = all / size;
            (0..groups).all(|group| self.share_node(start + group * size, start + (group + 1) * size - 1))
        };
        let allowed = self.settings.tensor.allows(tensor)
            && self.settings.replicas.allows(replicas)
            && self.settings.expert.allows(expert);
        let together = tensor * expert;
        let may_span = self
            .instance
            .cluster
            .nodes
            .is_some_and(|nodes| together > nodes.devices);
        let larger_than_node = |size: usize| {
            self.instance
                .cluster
                .nodes
                .is_some_and(|nodes| size > nodes.devices)
        };
        let may_all_span = larger_than_node(all);
        let tokens = self.instance.network.micro_batch.map_or(1.0, |of| of.tokens);
        let sequence = tensor * context;
        let may_share = self.settings.context_parallel.allows(context)
            && tokens % context as f64 == 0.0
            && (larger_than_node(sequence) || inside(sequence));
        if context > 1 && !may_share || context == 1 && !self.settings.context_parallel.allows(1) {
            return false;
        }
        let is_met = !self.exchanges_each_time() || may_all_span || self.share_node(start, start + all - 1);
        allowed && divides && inside(tensor) && (may_span || inside(together)) && is_met
    }

    /// Whether replicas share out gradients.
    fn exchanges_each_time(&self) -> bool {
        let sharding = self.settings.optimizer_sharding;
        [OptimizerSharding::Zero2, OptimizerSharding::Zero3].contains(&sharding)
    }

    /// What replicas exchange of a layer in a forward and in a backward pass, in ns: all but a device's own part, weights before each and gradients
    /// behind the latter.
    pub(super) fn exchanged_ns(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let settings = self.settings;
        if !self.exchanges_each_time()
            || settings.mode == Mode::Inference
            || !settings.communication.takes_time()
        {
            return [0.0; 2];
        }
        let own = mode
            .experts
            .filter(|_| run.expert > 1 && !self.instance.network.layers[at].frozen);
        let of_experts = own.map_or(0.0, |experts| experts.parameter_bytes as f64);
        let [d, e] = [run.copies() as f64, run.expert as f64];
        let of_all = (mode.gradient_bytes as f64 - of_experts) * (d - 1.0) / d;
        let bytes = of_all + of_experts / e * (d / e - 1.0) / (d / e);
        let link = self.group_link(run, run.tensor * run.copies());
        let once = bytes / link.bandwidth_bytes_per_s * 1e9;
        let once = if self.of_iterations { once.round() } else { once };
        match settings.optimizer_sharding {
            OptimizerSharding::Zero2 => [0.0, once],
            _ => [once, 2.0 * once],
        }
    }

    /// What a device hands round of keys and values of a layer in a forward and in a backward pass, in ns.
    pub(super) fn handed_ns(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let Some(of) = self.instance.network.micro_batch else {
            return [0.0; 2];
        };
        let c = run.context as f64;
        let link = self.group_link(run, run.tensor * run.context);
        let tokens = of.tokens / run.group as f64;
        let once = (c - 1.0) / c * tokens * mode.cache.token_bytes as f64;
        let once = once / link.bandwidth_bytes_per_s * 1e9;
        let once = if self.of_iterations { once.round() } else { once };
        let returns = super::is_behind_trained(&self.instance.network, at);
        let computes_again = !["none", "offload"].contains(&mode.recompute.as_str());
        let times = if computes_again { 3.0 } else { 2.0 };
        let trains = self.settings.mode == Mode::Training;
        [once, if trains && returns { times * once } else { 0.0 }]
    }

    /// Bytes of a layer that are whole while it runs, beside its workspace.
    pub(super) fn workspace(&self, at: usize, mode: &LayerMode, run: Run) -> f64 {
        let own = (mode.workspace_bytes as f64 / run.context as f64).ceil();
        if run.copies() == 1 || self.instance.network.layers[at].frozen {
            return own;
        }
        let [weight, gradient, _] = self.per_byte();
        let per = match self.settings.optimizer_sharding {
            OptimizerSharding::Zero2 => gradient,
            OptimizerSharding::Zero3 => weight + gradient,
            _ => 0.0,
        };
        let of_experts = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64 * per;
        let elsewhere = of_experts - (of_experts / run.expert as f64).ceil();
        own + mode.parameter_bytes as f64 * per - elsewhere
    }

    /// What a byte of parameters takes that each replica has, and that they share out.
    fn held_per_byte(&self, run: Run) -> [f64; 2] {
        let [weight, gradient, state] = self.per_byte();
        let state = if run.at_host { 0.0 } else { state };
        match self.settings.optimizer_sharding {
            OptimizerSharding::None => [weight + gradient + state, 0.0],
            OptimizerSharding::Zero1 => [weight + gradient, state],
            OptimizerSharding::Zero2 => [weight, gradient + state],
            OptimizerSharding::Zero3 => [0.0, weight + gradient + state],
            other => unreachable!("{other:?}"),
        }
    }

    pub(super) fn share_node(&self, one: usize, other: usize) -> bool {
        self.instance
            .cluster
            .nodes
            .is_none_or(|nodes| one / nodes.devices == other / nodes.devices)
    }

    /// The link of two devices' node, else of their kinds, else that of all.
    pub(super) fn link(&self, one: usize, other: usize) -> Link {
        let nodes = self.instance.cluster.nodes;
        let own = nodes
            .filter(|_| self.share_node(one, other))
            .map(|nodes| nodes.link);
        let kind = |device: usize| {
            let holds = |row: &&[usize; 3]| (row[1]..row[1] + row[2]).contains(&device);
            self.rows.iter().find(holds).unwrap()[0]
        };
        own.unwrap_or_else(|| self.link_of_kinds([kind(one), kind(other)]))
    }

    fn link_of_kinds(&self, mut kinds: [usize; 2]) -> Link {
        kinds.sort_unstable();
        let mut pairs = self.instance.cluster.links.iter();
        pairs
            .find(|pair| pair.kinds == kinds)
            .map_or(self.settings.link, |pair| pair.link)
    }

    /// The link on which so many devices of a stage exchange something in every pass.
    fn group_link(&self, run: Run, size: usize) -> Link {
        match self.instance.cluster.nodes {
            Some(nodes) if size <= nodes.devices => nodes.link,
            _ => self.link_of_kinds([run.kind; 2]),
        }
    }

    /// How far it is from one device to another, to compare: out of a node, and else over less bandwidth, and more latency where that is equal.
    pub(super) fn distance(&self, one: usize, other: usize) -> (bool, u64, u64) {
        let link = self.link(one, other);
        // Larger numbers of one sign have larger bits.
        let slowness = (1.0 / link.bandwidth_bytes_per_s).to_bits();
        (!self.share_node(one, other), slowness, link.latency_ns)
    }

    /// The longest period of the stages, each with the best choice of what it computes again, or what the formula makes of it and of a micro-batch on
    /// all of them; infinite where one does not fit.
    fn period_ns(&self, runs: &[Run]) -> f64 {
        let (mut longest, mut once) = (0.0f64, 0.0);
        let mut behind = 0;
        for (k, &run) in runs.iter().enumerate().rev() {
            let in_flight = self.in_flight(run, behind);
            behind += run.replicas as u64;
            let Some(held) = self.held(k, runs) else {
                return f64::INFINITY;
            };
            let Some((work_ns, gradients)) = self.work_ns(&held, run, in_flight) else {
                return f64::INFINITY;
            };
            let links = self.links(k, &held, runs);
            let [received_ns, sent_ns] = [0, 1].map(|way| links[0][way] + links[1][way]);
            let busy_ns = match self.settings.communication.has_links() {
                true => work_ns.max(received_ns).max(sent_ns),
                false => work_ns + received_ns + sent_ns,
            };
            let all = self.updates_every(run);
            let of_experts = self.expert_gradients(&held.trained, run);
            let rings_ns = self.rings_ns(run, gradients - of_experts, of_experts);
            let copies_ns = self.copies_of_states_ns(self.states_at_host(&held.trained, run, false), run);
            let ring_ns = rings_ns.into_iter().sum::<f64>()
                + (self.sums_ns(k, runs) + copies_ns) / all
                + self.borne_ns(held.weights_ns);
            longest = longest.max(busy_ns / run.replicas as f64 + ring_ns);
            once += busy_ns + ring_ns;
        }
        match self.settings.objective {
            Objective::Formula => once + (self.settings.micro_batches.unwrap() - 1) as f64 * longest,
            _ => longest,
        }
    }

    /// Micro-batches in flight in each replica of a stage with so many replicas behind it.
    fn in_flight(&self, run: Run, behind: u64) -> u64 {
        let replicas = run.replicas as u64;
        let all = self.settings.micro_batches.unwrap_or(u64::MAX).div_ceil(replicas);
        let turns = (replicas + behind).div_ceil(replicas);
        match (self.settings.mode, self.settings.schedule) {
            (Mode::Inference, _) => 0,
            (_, Schedule::Gpipe) => all,
            (_, Schedule::Pipedream) => turns,
            (_, Schedule::Concurrent) => (2 * turns).min(all),
            _ => turns.min(all),
        }
    }

    /// All ways to run each stage of an iteration that fit; `None` where a layer does not run there. Times are whole ns: those of every layer's group and every
    /// message are rounded.
    pub(super) fn ways_of_stages(&self, runs: &[Run]) -> Option<Vec<Vec<RunWay>>> {
        let mut choices = Vec::new();
        let mut behind = 0;
        for (k, &run) in runs.iter().enumerate().rev() {
            let in_flight = self.in_flight(run, behind);
            behind += run.replicas as u64;
            let held = self
                .held(k, runs)
                .filter(|held| self.run_somehow(&held.whole, run))?;
            let waited = match self.settings.communication.has_links() {
                true => [0.0; 2],
                false => self.links(k, &held, runs).map(|[received, sent]| received + sent),
            };
            let sums_ns = (self.sums_ns(k, runs) - 1e-6).ceil().max(0.0);
            let mut ways = self.works_by_pass(&held, run, in_flight, waited);
            ways.iter_mut()
                .for_each(|way| way.times[2] += sums_ns + held.weights_ns);
            choices.push(ways);
        }
        choices.reverse();
        Some(choices)
    }

    /// The shortest iteration of the stages over all choices of what they compute again; infinite where one does not fit.
    fn iteration_ns(&self, runs: &[Run]) -> f64 {
        let trains = self.settings.mode == Mode::Training;
        let Some(choices) = self.ways_of_stages(runs) else {
            return f64::INFINITY;
        };
        let links = self.links_of_stages(runs);
        let count: usize = choices.iter().map(Vec::len).product();
        let mut best_ns = f64::INFINITY;
        for mut code in 0..count {
            let mut stages = Vec::new();
            let mut rings = Vec::new();
            let mut again = Vec::new();
            let mut ways = Vec::new();
            for (choices, run) in choices.iter().zip(runs) {
                let way = &choices[code % choices.len()];
                let [forward, backward, ring] = &way.times;
                again.push(&way.names);
                ways.push(way.times);
                code /= choices.len();
                stages.push(Stage {
                    forward: *forward as u64,
                    backward: *backward as u64,
                    replicas: run.replicas,
                });
                rings.push(*ring);
            }
            if self.settings.target.is_some() && !can_be_told(&again) {
                continue;
            }
            if self.settings.communication.has_links() {
                best_ns = best_ns.min(self.with_links_ns((runs, &links), &ways) as f64);
                continue;
            }
            // In inference backward passes take no time, and come last.
            let gpipe = !trains || self.settings.schedule == Schedule::Gpipe;
            let run =
                super::replicas::run(&stages, self.settings.run_micro_batches() as usize, gpipe).unwrap();
            let end = |k: usize| run[k].iter().flatten().map(|times| times.1).max().unwrap_or(0) as f64;
            let ns = (0..stages.len()).map(|k| end(k) + rings[k]).fold(0.0, f64::max);
            best_ns = best_ns.min(ns);
        }
        best_ns
    }

    /// Whether layers have modes for a stage.
    fn run_somehow(&self, layers: &[usize], run: Run) -> bool {
        layers.iter().all(|&layer| !self.modes(layer, run).is_empty())
    }

    /// What links of all stages receive and send in either pass: nothing where a worker waits for that.
    pub(super) fn links_of_stages(&self, runs: &[Run]) -> Vec<[[f64; 2]; 2]> {
        let of = |k: usize| match self.settings.communication.has_links() {
            true => self.links(k, &self.held(k, runs).unwrap(), runs),
            false => [[0.0; 2]; 2],
        };
        (0..runs.len()).map(of).collect()
    }

    /// The time of an iteration whose transfers run on links of their own, with as many micro-batches in flight as hide them where all stages have
    /// memory for these.
    pub(super) fn with_links_ns(&self, (runs, links): (&[Run], &[[[f64; 2]; 2]]), times: &[[f64; 3]]) -> u64 {
        let stages = times.iter().zip(runs).zip(links).map(|((times, run), links)| {
            let phase = |pass: usize| PhaseTimes {
                in_ns: links[pass][0] as u64,
                work_ns: times[pass] as u64,
                out_ns: links[pass][1] as u64,
            };
            StageTimes {
                forward: phase(0),
                backward: phase(1),
                weight_ns: 0,
                replicas: run.replicas as u64,
                once_ns: times[2] as u64,
            }
        });
        let pipeline = Pipeline {
            stages: stages.collect(),
            trains: self.settings.mode == Mode::Training,
            channels: self.channels(),
            has_links: true,
        };
        // Devices that might have several chunks have one here.
        let schedule = match self.settings.schedule {
            of @ (Schedule::Gpipe | Schedule::Concurrent) => of,
            _ => Schedule::OneFOneB,
        };
        let all = self.settings.run_micro_batches();
        iteration_ns(&pipeline, schedule, InFlight::Standard, all)
    }

    /// Forward and backward time and ring of every way to run a stage that fits, in whole ns.
    fn works_by_pass(&self, held: &Held, run: Run, in_flight: u64, moved: [f64; 2]) -> Vec<RunWay> {
        let layers = &held.whole;
        let choices: Vec<Vec<LayerMode>> = layers.iter().map(|&layer| self.modes(layer, run)).collect();
        let count = choices.iter().map(Vec::len).product::<usize>();
        let mut ways: Vec<RunWay> = Vec::new();
        for mut code in 0..count {
            let [mut forward, mut backward] = [0, 1].map(|pass| moved[pass] + held.times[pass]);
            let mut names = Vec::new();
            let mut at_host = 0;
            let [kept_twice, gradients_twice, shared_twice] = self.counted_twice(layers, run);
            let (mut bytes, mut shared_bytes, mut workspace, mut gradients) = (
                held.bytes - kept_twice,
                held.shared_bytes - shared_twice,
                held.workspace,
                held.gradients - gradients_twice,
            );
            for (at, choices) in choices.iter().enumerate() {
                let mode = &choices[code % choices.len()];
                code /= choices.len();
                names.push(mode.recompute.clone());
                let [_, kept, gradient, shared] = self.of_mode((layers[at], mode), run, in_flight);
                let [there, back] = self.passes_of_mode(layers[at], mode, run);
                forward += there;
                backward += back;
                bytes += kept;
                at_host += self.host_bytes(mode, run) * in_flight;
                gradients += gradient;
                shared_bytes += shared;
                workspace = self.workspace(layers[at], mode, run).max(workspace);
            }
            let part_bytes = (shared_bytes / run.copies() as f64).ceil();
            let bytes = bytes + part_bytes + workspace;
            let states = self.states_at_host(&held.trained, run, false);
            if self.fits(run.kind, bytes) && self.fits_host(run, at_host, states) {
                let micro_batches = self.settings.micro_batches.unwrap() as f64;
                // In a micro-batch's part of it nothing else is rounded.
                let of_experts = self.expert_gradients(&held.trained, run);
                let rings = self.rings_ns(run, gradients - of_experts, of_experts);
                let whole = |ns: f64| (ns * micro_batches - 1e-6).ceil().max(0.0);
                let ring = rings.into_iter().map(whole).sum::<f64>() + self.copies_of_states_ns(states, run);
                // Without a framework it does not matter what it is that takes so long.
                let names = if self.settings.target.is_some() {
                    names
                } else {
                    Vec::new()
                };
                let way = RunWay {
                    times: [forward, backward, ring],
                    names,
                };
                if !ways.contains(&way) {
                    ways.push(way);
                }
            }
        }
        ways
    }

    /// What of the backward time of a layer in a mode is gradients of weights, in whole ns.
    pub(super) fn weight_of_mode(&self, mode: &LayerMode, run: Run) -> f64 {
        let ns = mode.times[run.kind].unwrap().weight_ns as f64;
        let part = (ns / (self.rates(run.kind)[1] * run.parts() as f64)).round();
        (part * self.load(mode, run)).round()
    }

    /// Forward and backward time of a layer in a mode, with what its group reduces, in ns: whole ones where iterations are run.
    pub(super) fn passes_of_mode(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let trains = self.settings.mode == Mode::Training;
        let counted = |ns: f64| if self.of_iterations { ns.round() } else { ns };
        let times = mode.times[run.kind].unwrap();
        let rates = self.rates(run.kind);
        let own = [times.forward_ns, if trains { times.backward_ns } else { 0 }];
        let longer = self.load(mode, run);
        let part = |pass: usize| own[pass] as f64 / (rates[pass] * run.parts() as f64);
        let copied = self.copied_ns(mode, run);
        let own = [0, 1].map(|pass| counted(counted(part(pass)) * longer) + copied[pass]);
        let [gathered, exchanged] = self.exchanged_ns(at, mode, run);
        let handed = self.handed_ns(at, mode, run);
        let (gathered, exchanged) = (gathered + handed[0], exchanged + handed[1]);
        let collective = self.reduced_ns(mode, run);
        // Half of the least that is reduced at the degree is so in forward propagation.
        let layer = &self.instance.network.layers[at];
        let of_degree = layer.modes().into_owned().into_iter();
        let of_degree = of_degree.filter(|other| other.tensor == mode.tensor);
        let least = of_degree
            .map(|mode| self.reduced_ns(&mode, run))
            .fold(f64::INFINITY, f64::min);
        let there = match self.of_iterations {
            true => least - (least / 2.0).floor(),
            false => least / 2.0,
        };
        // Where backward operators are layers of their own, a frozen layer is as any other.
        let is_explicit = self.instance.network.layers.iter().any(|layer| layer.backward);
        let returns = is_explicit || super::is_behind_trained(&self.instance.network, at);
        let back = if trains && returns {
            collective - there
        } else {
            0.0
        };
        [own[0] + collective - back + gathered, own[1] + back + exchanged]
    }

    /// Whether the gradient of a tensor moves back.
    fn returns(&self, tensor: &Tensor) -> bool {
        super::is_behind_trained(&self.instance.network, tensor.producer)
    }

    /// What a stage's links receive and send in forward and in backward propagation.
    fn links(&self, stage: usize, held: &Held, runs: &[Run]) -> [[f64; 2]; 2] {
        let mut moved = [held.stash_ns, [0.0; 2]];
        for tensor in &self.instance.network.tensors {
            let own = self.on_links(tensor, stage, runs);
            (0..4).for_each(|at| moved[at / 2][at % 2] += own[at / 2][at % 2]);
        }
        moved
    }

    /// What a stage's links receive and send of a tensor in forward and in backward propagation.
    fn on_links(&self, tensor: &Tensor, stage: usize, runs: &[Run]) -> [[f64; 2]; 2] {
        let layers = &self.instance.network.layers;
        let trains = self.settings.mode == Mode::Training;
        let is_explicit = layers.iter().any(|layer| layer.backward);
        let mut moved = [[0.0; 2]; 2];
        let pass = usize::from(trains && layers[tensor.producer].backward);
        let leaves = stage == self.stage_of[tensor.producer];
        moved[pass][usize::from(leaves)] = self.moved_ns(tensor, &self.stage_of, stage, runs);
        // A gradient goes the other way, between backward passes; a tensor of backward operators goes the way it says.
        if trains && !is_explicit && self.returns(tensor) {
            let enters = stage == self.back_of[tensor.producer];
            moved[1][usize::from(!enters)] = self.moved_ns(tensor, &self.back_of, stage, runs);
        }
        moved
    }

    /// The modes of a layer at the degree of a stage, on its devices, that the options allow.
    pub(super) fn modes(&self, layer: usize, run: Run) -> Vec<LayerMode> {
        let mut modes = self.instance.network.layers[layer].modes().into_owned();
        let tensor = run.tensor;
        modes.retain(|mode| mode.host_bytes == 0);
        modes.extend(self.offloaded(layer, &modes));
        modes.retain(|mode| {
            mode.experts
                .is_none_or(|experts| experts.count.is_multiple_of(run.expert))
        });
        let of_degree: Vec<LayerMode> = modes.into_iter().filter(|mode| mode.tensor == tensor).collect();
        let asked = |mode: &&LayerMode| self.settings.recompute.names(&mode.recompute);
        let mut allowed: Vec<LayerMode> = match of_degree.iter().any(|mode| asked(&mode)) {
            true => of_degree.iter().filter(asked).cloned().collect(),
            false => of_degree
                .into_iter()
                .filter(|mode| mode.recompute == "none")
                .collect(),
        };
        let may_lie =
            |mode: &LayerMode| mode.host_bytes == 0 || self.instance.cluster.kinds[run.kind].host.is_some();
        allowed.retain(|mode| mode.times[run.kind].is_some() && may_lie(mode));
        allowed
    }

    /// The least work of a stage that fits, of two phases at once that of the slower one, and the bytes of its gradients.
    fn work_ns(&self, held: &Held, run: Run, in_flight: u64) -> Option<(f64, f64)> {
        let layers = &held.whole;
        let choices: Vec<Vec<LayerMode>> = layers.iter().map(|&layer| self.modes(layer, run)).collect();
        let count = choices.iter().map(Vec::len).product::<usize>();
        let mut best: Option<(f64, f64)> = None;
        for mut code in 0..count {
            let [kept_twice, gradients_twice, shared_twice] = self.counted_twice(layers, run);
            let mut sums = [
                held.times[0] + held.times[1],
                held.bytes - kept_twice,
                held.gradients - gradients_twice,
            ];
            let mut shared_bytes = held.shared_bytes - shared_twice;
            let mut workspace = held.workspace;
            let mut at_host = 0;
            let mut passes = held.times;
            for (at, choices) in choices.iter().enumerate() {
                let mode = &choices[code % choices.len()];
                code /= choices.len();
                let own = self.passes_of_mode(layers[at], mode, run);
                (0..2).for_each(|pass| passes[pass] += own[pass]);
                at_host += self.host_bytes(mode, run) * in_flight;
                let add = self.of_mode((layers[at], mode), run, in_flight);
                shared_bytes += add[3];
                (0..3).for_each(|at| sums[at] += add[at]);
                workspace = self.workspace(layers[at], mode, run).max(workspace);
            }
            let part_bytes = (shared_bytes / run.copies() as f64).ceil();
            let bytes = sums[1] + part_bytes + workspace;
            let states = self.states_at_host(&held.trained, run, false);
            let fits = self.fits(run.kind, bytes) && self.fits_host(run, at_host, states);
            if !fits {
                continue;
            }
            let ns = match self.runs_both_at_once() {
                true => self.slower_ns(run.kind, passes),
                false => sums[0],
            };
            if best.is_none_or(|(least, _)| ns < least) {
                best = Some((ns, sums[2]));
            }
        }
        best
    }

    /// How fast a device of a kind runs forward and backward passes.
    pub(super) fn rates(&self, kind: usize) -> [f64; 2] {
        let resources = &self.instance.cluster.kinds[kind].resources;
        match resources.as_slice() {
            [] => [1.0; 2],
            all => [
                all.iter().map(|resource| resource.forward_rate).sum(),
                all.iter().map(|resource| resource.backward_rate).sum(),
            ],
        }
    }

    /// Whether so many bytes fit a device of a kind.
    pub(super) fn fits(&self, kind: usize, bytes: f64) -> bool {
        let own = self.instance.cluster.kinds[kind].memory_bytes;
        let own = own.filter(|_| self.settings.kinds.len() > 1 || self.settings.heterogeneous);
        let limit = self.settings.memory_limit.or(own);
        limit.is_none_or(|limit| bytes <= limit as f64)
    }

    /// Bytes that a parameter takes, of weight, of gradient and of the optimiser's state: per byte in the file.
    pub(super) fn per_byte(&self) -> [f64; 3] {
        let states = match self.settings.optimizer {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
            other => unreachable!("{other:?}"),
        };
        let stated = self.instance.network.precision;
        let size = |weight: f64| stated.map_or(weight, |precision| precision.bytes() as f64);
        match self.settings.precision {
            _ if self.settings.mode == Mode::Inference => [1.0, 0.0, 0.0],
            StatePrecision::Uniform => [1.0, 1.0, states],
            StatePrecision::Fp32 => [4.0, 4.0, 4.0 * states].map(|bytes| bytes / size(4.0)),
            StatePrecision::Bf16Mixed => [2.0, 4.0, 4.0 + 4.0 * states].map(|bytes| bytes / size(2.0)),
            StatePrecision::Fp16Mixed => [2.0, 2.0, 4.0 + 4.0 * states].map(|bytes| bytes / size(2.0)),
            other => unreachable!("{other:?}"),
        }
    }

    /// Time in ns, bytes kept, bytes of gradients and bytes that replicas share out of a layer in a mode.
    pub(super) fn of_mode(&self, (at, mode): (usize, &LayerMode), run: Run, in_flight: u64) -> [f64; 4] {
        let times = mode.times[run.kind].unwrap();
        let rates = self.rates(run.kind);
        let longer = self.load(mode, run);
        let parts = run.parts() as f64;
        let at_rate = |ns: u64, rate: f64| match self.of_iterations {
            true => ((ns as f64 / (rate * parts)).round() * longer).round(),
            false => ns as f64 / (rate * parts) * longer,
        };
        let trains = self.settings.mode == Mode::Training;
        let collective_ns = self.reduced_ns(mode, run);
        let backward_ns = if trains { times.backward_ns } else { 0 };
        let [own, shared] = self
            .held_per_byte(run)
            .map(|per| mode.parameter_bytes as f64 * per);
        let exchanged_ns = self.exchanged_ns(at, mode, run).iter().sum::<f64>()
            + self.handed_ns(at, mode, run).iter().sum::<f64>();
        let stash_bytes = mode.stash_bytes.div_ceil(run.context as u64);
        let room = self.settings.room;
        let cached = room.tokens * mode.cache.token_bytes + room.sequences * mode.cache.sequence_bytes;
        let once = mode.resident_bytes + cached;
        let kept = (once + in_flight * stash_bytes) as f64 + self.versions_bytes(mode, run, in_flight)
            - self.elsewhere(mode, run);
        [
            at_rate(times.forward_ns, rates[0])
                + at_rate(backward_ns, rates[1])
                + collective_ns
                + exchanged_ns
                + self.copied_ns(mode, run).iter().sum::<f64>(),
            kept + own,
            mode.gradient_bytes as f64,
            shared,
        ]
    }

    /// How much longer work takes where one device has more tokens for its experts than others.
    pub(super) fn load(&self, mode: &LayerMode, run: Run) -> f64 {
        let share = mode
            .experts
            .filter(|_| run.expert > 1)
            .map_or(0.0, |experts| experts.share);
        1.0 + (self.settings.expert_load - 1.0) * share
    }

    /// What the tensor group reduces and what goes to experts elsewhere and back, in ns.
    pub(super) fn reduced_ns(&self, mode: &LayerMode, run: Run) -> f64 {
        let counted = |ns: f64| if self.of_iterations { ns.round() } else { ns };
        let group = mode.tensor as f64;
        let around = 2.0 * (group - 1.0) / group * mode.collective_bytes as f64 / run.parts() as f64;
        let group_ns = counted(around / self.group_link(run, run.tensor).bandwidth_bytes_per_s * 1e9);
        let link = self.group_link(run, run.tensor * run.expert);
        let expert = run.expert as f64;
        let routed = mode.experts.map_or(0, |experts| experts.routed_bytes) as f64;
        let away = routed / run.parts() as f64 * self.settings.expert_load * (expert - 1.0) / expert;
        group_ns + counted(away / link.bandwidth_bytes_per_s * 1e9)
    }

    /// Bytes of experts that are on other devices of their group: of a frozen layer, whose weights are not among its parameters, and of others with what
    /// is kept beside them.
    fn elsewhere(&self, mode: &LayerMode, run: Run) -> f64 {
        let bytes = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        let per = match mode.parameter_bytes {
            0 => 1.0,
            _ => self.held_per_byte(run)[0],
        };
        let all = bytes * per;
        all - (all / run.expert as f64).ceil()
    }

    /// Bytes of gradients of experts that a stage's layers share out.
    pub(super) fn expert_gradients(&self, layers: &[usize], run: Run) -> f64 {
        let own = |&layer: &usize| {
            let mode = &self.modes(layer, run)[0];
            let trained = run.expert > 1 && !self.instance.network.layers[layer].frozen;
            mode.experts
                .filter(|_| trained)
                .map_or(0, |experts| experts.parameter_bytes)
        };
        layers.iter().map(own).sum::<u64>() as f64
    }

    /// The exchange of a stage's gradients, as far as a micro-batch bears it, in ns: of what all replicas have, and of experts by those that have the same.
    pub(super) fn rings_ns(&self, run: Run, gradients: f64, of_experts: f64) -> [f64; 2] {
        let members = run.copies();
        let among = |replicas: usize| Run { replicas, ..run };
        let (copies, same) = (among(members), among(members / run.expert));
        let of_experts = of_experts / run.expert as f64;
        [
            self.ring_ns((run, copies), gradients),
            self.ring_ns((run, same), of_experts),
        ]
    }

    /// Pairs of layers that share a table.
    fn sharing(&self) -> Vec<[usize; 2]> {
        let layers = &self.instance.network.layers;
        let all = (0..layers.len()).flat_map(|one| (one + 1..layers.len()).map(move |other| [one, other]));
        all.filter(|[one, other]| {
            layers[*one].shared.is_some() && layers[*one].shared == layers[*other].shared
        })
        .collect()
    }

    /// Layers of which some other in a stage has the same table.
    pub(super) fn tables_twice(&self, layers: &[usize]) -> Vec<usize> {
        let both = self.sharing().into_iter();
        let both = both.filter(|pair| pair.iter().all(|layer| layers.contains(layer)));
        let trained = both.filter(|[one, _]| !self.instance.network.layers[*one].frozen);
        trained.map(|[one, _]| one).collect()
    }

    /// What layers of a stage that share tables count twice: bytes kept, bytes of gradients, and bytes that replicas share out.
    fn counted_twice(&self, layers: &[usize], run: Run) -> [f64; 3] {
        let mut twice = [0.0; 3];
        for [one, other] in self.sharing() {
            if !layers.contains(&one) || !layers.contains(&other) {
                continue;
            }
            let bytes = self.modes(one, run)[0].shared_bytes as f64;
            if self.instance.network.layers[one].frozen {
                twice[0] += bytes;
                continue;
            }
            let [own, shared] = self.held_per_byte(run).map(|per| bytes * per);
            twice[0] += own;
            twice[1] += bytes;
            twice[2] += shared;
        }
        twice
    }

    /// What the gradients of copies take to be summed with those of other stages, once an iteration, in ns.
    fn sums_ns(&self, stage: usize, runs: &[Run]) -> f64 {
        let mut sum = 0.0;
        for layers in self.sharing() {
            let [one, other] = layers.map(|layer| self.stage_of[layer]);
            let Some(own) = layers.into_iter().find(|&layer| self.stage_of[layer] == stage) else {
                continue;
            };
            let bytes = self.modes(own, runs[stage])[0].shared_bytes as f64;
            let is_free = one == other
                || bytes == 0.0
                || self.instance.network.layers[own].frozen
                || self.settings.mode == Mode::Inference
                || !self.settings.communication.takes_time();
            if !is_free {
                let link = self.link(runs[one.min(other)].last(), runs[one.max(other)].start);
                sum += bytes / link.bandwidth_bytes_per_s * 1e9 + 2.0 * link.latency_ns as f64;
            }
        }
        sum
    }

    /// What a stage pays for a tensor one way between layers on these stages: to send it as far as the last stage that reads it, or to receive it.
    fn moved_ns(&self, tensor: &Tensor, stage_of: &[usize], stage: usize, runs: &[Run]) -> f64 {
        let home = stage_of[tensor.producer];
        let away: Vec<usize> = tensor
            .consumers
            .iter()
            .copied()
            .filter(|&to| stage_of[to] != home)
            .collect();
        if !self.settings.communication.takes_time() || away.is_empty() {
            return 0.0;
        }
        let named = |bytes: &[(usize, u64)], other: usize| {
            bytes
                .iter()
                .find(|(layer, _)| *layer == other)
                .map_or(0, |(_, bytes)| *bytes)
        };
        let mode = |layer: usize, stage: usize| self.modes(layer, runs[stage])[0].clone();
        // Between the last device of the stage that comes first and the first of the other, whichever way the tensor goes.
        let ends = |other: usize| {
            let (one, other) = (home.min(other), home.max(other));
            [runs[one].last(), runs[other].start]
        };
        let distance = |other: usize| {
            let [one, other] = ends(other);
            self.distance(one, other)
        };
        let (end, beside) = if stage == home {
            let own = mode(tensor.producer, home);
            let beside = away.iter().map(|&to| named(&own.output_bytes, to)).max();
            let stages = away.iter().map(|&to| stage_of[to]);
            (
                stages.max_by_key(|&stage| distance(stage)).unwrap(),
                beside.unwrap(),
            )
        } else {
            let here = away.iter().filter(|&&to| stage_of[to] == stage);
            let Some(beside) = here
                .map(|&to| named(&mode(to, stage).input_bytes, tensor.producer))
                .max()
            else {
                return 0.0;
            };
            (stage, beside)
        };
        let [one, other] = ends(end);
        let link = self.link(one, other);
        let ns = |bytes: u64| bytes as f64 / link.bandwidth_bytes_per_s * 1e9;
        match tensor.size {
            Size::Bytes(bytes) if bytes + beside == 0 => 0.0,
            Size::Bytes(bytes) if self.of_iterations => {
                (ns(bytes) + link.latency_ns as f64).round() + ns(beside).round()
            }
            Size::Bytes(bytes) => ns(bytes + beside) + link.latency_ns as f64,
            Size::TransferNs(given_ns) => given_ns as f64 + ns(beside),
            other => unreachable!("{other:?}"),
        }
    }

    pub(super) fn ring_ns(&self, (run, members): (Run, Run), gradient_bytes: f64) -> f64 {
        let is_free = members.replicas == 1
            || self.settings.mode == Mode::Inference
            || !self.settings.communication.takes_time()
            || gradient_bytes == 0.0;
        if is_free {
            return 0.0;
        }
        let link = self.link(run.start, run.last());
        let replicas = members.replicas as f64;
        let message_ns =
            gradient_bytes / replicas / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        let rounds = match self.settings.optimizer_sharding {
            OptimizerSharding::Zero2 => 1.0,
            OptimizerSharding::Zero3 => 0.0,
            _ => 2.0,
        };
        rounds * (replicas - 1.0) * message_ns / self.updates_every(run)
    }

    /// Micro-batches between two updates of a stage's weights: where nothing is flushed, one of each replica.
    fn updates_every(&self, run: Run) -> f64 {
        match self.settings.schedule {
            Schedule::Pipedream => run.replicas as f64,
            _ => self.settings.micro_batches.unwrap_or(1) as f64,
        }
    }

    /// Weights of a layer that a device has of micro-batches in flight beside the oldest, where nothing is flushed.
    fn versions_bytes(&self, mode: &LayerMode, run: Run, in_flight: u64) -> f64 {
        if self.settings.schedule != Schedule::Pipedream || self.settings.mode == Mode::Inference {
            return 0.0;
        }
        let bytes = mode.parameter_bytes as f64;
        let of_experts = mode.experts.filter(|_| bytes > 0.0);
        let of_experts = of_experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        in_flight.saturating_sub(1) as f64 * (bytes - of_experts + (of_experts / run.expert as f64).ceil())
    }
}

/// Whether Megatron can be told what is computed again: the same in all layers, each of which is a block, or all in the first so many of each stage.
pub(super) fn can_be_told(stages: &[&Vec<String>]) -> bool {
    let mut all = stages.iter().copied().flatten();
    let first = all.next();
    if all.all(|name| Some(name) == first) {
        return true;
    }
    let leading = |names: &&Vec<String>| {
        let full = names.iter().take_while(|name| *name == "full").count();
        names[full..].iter().all(|name| name == "none").then_some(full)
    };
    let counts: Vec<Option<usize>> = stages.iter().map(leading).collect();
    counts[0].is_some() && counts.iter().all(|count| *count == counts[0])
}
