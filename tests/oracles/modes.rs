//! Stages with modes by brute force: every ordered partition, every degree and number of replicas of each stage, every choice of what
//! its layers compute again; where cuts are separate, every placement of passes besides. Times are doubles, on layers and tensors, as
//! `formulations/modes.md` has them.

use std::cell::RefCell;

use stagecut::instance::Instance;
use stagecut::network::LayerMode;
use stagecut::options::{Cuts, DeviceOrder, Groups, Mode, Objective, Schedule};
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
            let [kept_twice, gradients_twice, shared_twice] = self.counted_twice(&held.trained, run);
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

    /// The least work of a stage that fits, of two phases at once that of the slower one, and the bytes of its gradients.
    fn work_ns(&self, held: &Held, run: Run, in_flight: u64) -> Option<(f64, f64)> {
        let layers = &held.whole;
        let choices: Vec<Vec<LayerMode>> = layers.iter().map(|&layer| self.modes(layer, run)).collect();
        let count = choices.iter().map(Vec::len).product::<usize>();
        let mut best: Option<(f64, f64)> = None;
        for mut code in 0..count {
            let [kept_twice, gradients_twice, shared_twice] = self.counted_twice(&held.trained, run);
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
