//! Stages with modes whose layers may have their passes on two stages, for the brute force over modes: where passes may lie, and what a layer costs either
//! stage once they lie apart.

use std::collections::HashMap;

use stagecut::cluster::Link;
use stagecut::instance::Instance;
use stagecut::network::{Layer, LayerMode};
use stagecut::options::{Cuts, Mode, OptimizerSharding, Schedule};
use stagecut::settings::Settings;

use super::modes::{Run, Search};

/// The least objective in ns of the plans whose layers all have both passes on one stage, found among all placements of passes.
pub fn best_together_ns(instance: &Instance, settings: &Settings, of_iterations: bool) -> Option<f64> {
    let mut search = Search::new(instance, settings, of_iterations);
    search.place_passes(true);
    search.best_ns.is_finite().then_some(search.best_ns)
}

/// What lies on one stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Both passes of a layer, or the one that an operator is.
    Whole,
    Forward,
    Backward,
}

/// Passes in a row, and which of them are on no later stage than which others.
struct Passes {
    all: Vec<(usize, Part)>,
    ordered: Vec<[usize; 2]>,
}

impl Passes {
    /// Those of a network, where `joined` with both passes of every layer and all operators of a tie together.
    fn new(instance: &Instance, joined: bool) -> Self {
        let layers = &instance.network.layers;
        let is_explicit = layers.iter().any(|layer| layer.backward);
        let parts = |layer: usize| {
            let is_cut = !is_explicit && super::is_behind_trained(&instance.network, layer);
            match is_cut {
                true => vec![(layer, Part::Forward), (layer, Part::Backward)],
                false => vec![(layer, Part::Whole)],
            }
        };
        let mut passes = Self {
            all: (0..layers.len()).flat_map(parts).collect(),
            ordered: Vec::new(),
        };
        passes.follow_tensors(instance);
        passes.follow_ties(instance);
        passes.keep_together(layers, joined);
        passes
    }

    /// The pass of a layer in a direction; that of a layer without a backward pass of its own is none.
    fn of(&self, layer: usize, part: Part) -> Option<usize> {
        self.all.iter().position(|own| *own == (layer, part))
    }

    /// The pass that runs forwards: that of an operator of a backward graph is none.
    fn forward(&self, layers: &[Layer], layer: usize) -> Option<usize> {
        let whole = self.of(layer, Part::Whole).filter(|_| !layers[layer].backward);
        self.of(layer, Part::Forward).or(whole)
    }

    /// Tensors go to no earlier stage, and gradients to no later one.
    fn follow_tensors(&mut self, instance: &Instance) {
        let layers = &instance.network.layers;
        for tensor in &instance.network.tensors {
            for &to in &tensor.consumers {
                let ends = [tensor.producer, to];
                let forward = ends.map(|layer| self.forward(layers, layer));
                let backward = ends.map(|layer| self.of(layer, Part::Backward));
                let both = [forward, backward].into_iter();
                self.ordered
                    .extend(both.filter_map(|[one, other]| Some([one?, other?])));
            }
        }
    }

    /// Operators of a backward graph lie as the forward ones of their ties would have it: behind those of ties from which tensors lead to theirs.
    fn follow_ties(&mut self, instance: &Instance) {
        let network = &instance.network;
        let layers = &network.layers;
        let is_one = |one: usize, other: usize| {
            one == other || layers[one].tie.is_some() && layers[one].tie == layers[other].tie
        };
        let count = layers.len();
        let mut leads = vec![vec![false; count]; count];
        for tensor in &network.tensors {
            for &to in &tensor.consumers {
                let is_forward = !layers[tensor.producer].backward && !layers[to].backward;
                for (one, other) in pairs(count).filter(|_| is_forward) {
                    leads[one][other] |= is_one(one, tensor.producer) && is_one(to, other);
                }
            }
        }
        for by in 0..count {
            for (one, other) in pairs(count) {
                leads[one][other] |= leads[one][by] && leads[by][other];
            }
        }
        for (one, other) in pairs(count) {
            if layers[one].backward && layers[other].backward && leads[one][other] {
                let both = [one, other].map(|layer| self.of(layer, Part::Whole));
                self.ordered.extend(both[0].zip(both[1]).map(<[usize; 2]>::from));
            }
        }
    }

    /// Layers of a tie have all forward passes on one stage, and all backward ones; where `joined` all of both, and so has every layer.
    fn keep_together(&mut self, layers: &[Layer], joined: bool) {
        let is_back = |(layer, part): (usize, Part)| part == Part::Backward || layers[layer].backward;
        for (one, other) in pairs(self.all.len()) {
            let own = [self.all[one], self.all[other]];
            let ties = own.map(|(layer, _)| &layers[layer].tie);
            let is_tied = ties[0].is_some() && ties[0] == ties[1];
            let is_same = is_tied && is_back(own[0]) == is_back(own[1]);
            if is_same || joined && (is_tied || own[0].0 == own[1].0) {
                self.ordered.push([one, other]);
            }
        }
    }

    /// The stages that a pass may have, of so many, where those before it in the row have theirs.
    fn may_have(&self, at: usize, placed: &[usize], stages: usize) -> Vec<usize> {
        let (mut first, mut behind) = (0, stages);
        for &[one, other] in &self.ordered {
            if other == at && one < at {
                first = first.max(placed[one]);
            }
            if one == at && other < at {
                behind = behind.min(placed[other] + 1);
            }
        }
        (first..behind).collect()
    }
}

/// All pairs of so many, in both directions.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |one| (0..count).map(move |other| (one, other)))
}

/// What a stage has of the layers of a plan.
#[derive(Default)]
pub(super) struct Held {
    /// Layers with all that they are on the stage.
    pub(super) whole: Vec<usize>,
    /// Layers with their backward pass on the stage, and so with their gradients and states.
    pub(super) trained: Vec<usize>,
    /// Of layers with one pass on the stage: what it takes in each direction, in ns.
    pub(super) times: [f64; 2],
    /// What they keep there, what its replicas share out of them, what is there while one of them runs, and their gradients, in bytes.
    pub(super) bytes: f64,
    pub(super) shared_bytes: f64,
    pub(super) workspace: f64,
    pub(super) gradients: f64,
    /// What a stage receives and sends of their stashes in forward propagation, in ns.
    pub(super) stash_ns: [f64; 2],
    /// What it receives and sends of their weights once an update, in ns.
    pub(super) weights_ns: f64,
}

/// What a part of a layer adds to a stage at least: ns, bytes that each device has, that replicas share out, and that are there while it runs.
type Least = [f64; 4];

/// What parts of layers add to stages at least, as far as it is known.
pub(super) type Leasts = HashMap<(usize, Part, Run), Option<Least>>;

impl Search<'_> {
    /// Whether layers of which none is an operator of a backward graph share a tie, which alone does not follow from the order of layers.
    pub(super) fn ties_layers(&self) -> bool {
        let layers = &self.instance.network.layers;
        let both = |one: usize, other: usize| {
            one != other && !layers[one].backward && !layers[other].backward && layers[one].tie.is_some()
        };
        pairs(layers.len()).any(|(one, other)| both(one, other) && layers[one].tie == layers[other].tie)
    }

    /// Gives each pass a stage, in every way.
    pub(super) fn place_passes(&mut self, joined: bool) {
        let passes = Passes::new(self.instance, joined);
        self.put(&passes, &mut Vec::new());
    }

    fn put(&mut self, passes: &Passes, placed: &mut Vec<usize>) {
        let at = placed.len();
        if at == passes.all.len() {
            let used = placed.iter().max().map_or(0, |last| last + 1);
            let is_full = (0..used).all(|stage| placed.contains(&stage));
            if is_full && (!self.settings.all_stages || used == self.settings.stages) {
                self.settle(passes, placed);
                self.run(used, &mut Vec::new());
            }
            return;
        }
        for stage in passes.may_have(at, placed, self.settings.stages.min(passes.all.len())) {
            placed.push(stage);
            self.put(passes, placed);
            placed.pop();
        }
    }

    /// Notes the stages of layers whose passes have these.
    fn settle(&mut self, passes: &Passes, placed: &[usize]) {
        let layers = self.instance.network.layers.len();
        (self.stage_of, self.back_of) = (vec![0; layers], vec![0; layers]);
        for (&(layer, part), &stage) in passes.all.iter().zip(placed) {
            if part != Part::Backward {
                self.stage_of[layer] = stage;
            }
            if part != Part::Forward {
                self.back_of[layer] = stage;
            }
        }
    }

    /// What a stage has of a layer, if anything.
    fn part(&self, layer: usize, stage: usize) -> Option<Part> {
        match [self.stage_of[layer] == stage, self.back_of[layer] == stage] {
            [true, true] => Some(Part::Whole),
            [true, false] => Some(Part::Forward),
            [false, true] => Some(Part::Backward),
            [false, false] => None,
        }
    }

    /// Whether a stage may be part of a better plan than is known: whether it does not take longer by itself, and may fit. Only where placements are so many
    /// that this is needed.
    pub(super) fn may_gain(&self, stage: usize, run: Run) -> bool {
        if self.settings.cuts == Cuts::Tied {
            return true;
        }
        let (mut ns, mut bytes, mut shared, mut workspace) = (0.0, 0.0, 0.0, 0.0f64);
        for layer in 0..self.stage_of.len() {
            let Some(part) = self.part(layer, stage) else {
                continue;
            };
            let Some(least) = self.least(layer, part, run) else {
                return false;
            };
            ns += least[0];
            bytes += least[1];
            shared += least[2];
            workspace = workspace.max(least[3]);
        }
        let part_bytes = (shared / run.copies() as f64).ceil();
        // Some replica has so many micro-batches, one after the other.
        let ns = if self.runs_both_at_once() {
            self.slower_at_least_ns(run.kind, ns)
        } else {
            ns
        };
        let least_ns = match self.of_iterations {
            true => ns * self.settings.run_micro_batches().div_ceil(run.replicas as u64) as f64,
            false => ns / run.replicas as f64,
        };
        least_ns <= self.best_ns && self.fits(run.kind, bytes + part_bytes + workspace)
    }

    /// What a part of a layer adds to a stage at least, with one micro-batch in flight; `None` where it does not run there.
    fn least(&self, layer: usize, part: Part, run: Run) -> Option<Least> {
        let known = self.leasts.borrow().get(&(layer, part, run)).copied();
        if let Some(known) = known {
            return known;
        }
        let least = match part {
            Part::Whole => {
                let modes = self.modes(layer, run);
                let each = modes.iter().map(|mode| {
                    let [ns, bytes, _, shared] = self.of_mode((layer, mode), run, 1);
                    [ns, bytes, shared, self.workspace(layer, mode, run)]
                });
                each.reduce(|one, other| std::array::from_fn(|of| one[of].min(other[of])))
            }
            _ => self.plain(layer, run).map(|mode| {
                let own = self.held_apart((layer, &mode), part, run, 1);
                let ns = own.times.into_iter().sum();
                [ns, own.bytes, own.shared_bytes, own.workspace]
            }),
        };
        // Of tables that a stage reads twice it may have one.
        let is_shared = self.instance.network.layers[layer].shared.is_some();
        let least = least.map(|[ns, bytes, shared, workspace]| match is_shared {
            true => [ns, 0.0, 0.0, workspace],
            false => [ns, bytes, shared, workspace],
        });
        self.leasts.borrow_mut().insert((layer, part, run), least);
        least
    }

    /// The mode of a layer at a stage that has one of its passes alone; `None` where it may not run so.
    fn plain(&self, layer: usize, run: Run) -> Option<LayerMode> {
        let mut modes = self.modes(layer, run).into_iter();
        modes.find(|mode| mode.recompute == "none")
    }

    /// What a stage has of all layers; `None` where one of them does not run there.
    pub(super) fn held(&self, stage: usize, runs: &[Run]) -> Option<Held> {
        let run = runs[stage];
        let mut held = Held::default();
        for layer in 0..self.stage_of.len() {
            let Some(part) = self.part(layer, stage) else {
                continue;
            };
            if part != Part::Forward {
                held.trained.push(layer);
            }
            if part == Part::Whole {
                held.whole.push(layer);
                continue;
            }
            let mode = self.plain(layer, run)?;
            let own = self.held_apart((layer, &mode), part, run, self.in_flight_apart(layer, runs));
            (0..2).for_each(|pass| held.times[pass] += own.times[pass]);
            let is_here = part == Part::Forward && self.has_table_for_another(layer, stage);
            let table = if is_here { mode.shared_bytes as f64 } else { 0.0 };
            match self.settings.optimizer_sharding == OptimizerSharding::Zero3
                && !self.instance.network.layers[layer].frozen
            {
                true => held.shared_bytes -= table,
                false => held.bytes -= table,
            }
            held.bytes += own.bytes;
            held.shared_bytes += own.shared_bytes;
            held.workspace = held.workspace.max(own.workspace);
            held.gradients += own.gradients;
            let link = self.link_apart(layer, runs);
            let stash_bytes = mode.stash_bytes.div_ceil(run.context as u64) as f64;
            let stash_ns = self.message_ns(stash_bytes, link);
            let stash_ns = if self.of_iterations {
                stash_ns.round()
            } else {
                stash_ns
            };
            held.stash_ns[usize::from(part == Part::Forward)] += stash_ns;
            // Either end counts the weights as its own devices have them.
            let is_moved = !self.has_table_for_another(layer, self.stage_of[layer])
                || self.instance.network.layers[layer].frozen;
            let stays = if is_moved { 0.0 } else { mode.shared_bytes as f64 };
            let weights_ns = self.message_ns(self.weights_on(layer, &mode, run) - stays, link);
            held.weights_ns += (weights_ns - 1e-6).ceil().max(0.0);
        }
        Some(held)
    }

    /// Whether a stage with the forward pass of a layer has the layer's table for something else: a backward pass of some layer that reads it, or the forward
    /// pass of one that the file has before it.
    fn has_table_for_another(&self, layer: usize, stage: usize) -> bool {
        let layers = &self.instance.network.layers;
        (0..layers.len()).any(|other| {
            let reads_it = other != layer
                && layers[other].shared.is_some()
                && layers[other].shared == layers[layer].shared;
            reads_it && (self.back_of[other] == stage || other < layer && self.stage_of[other] == stage)
        })
    }

    /// What a stage with one pass of a layer has of it, but for what moves.
    fn held_apart(&self, (layer, mode): (usize, &LayerMode), part: Part, run: Run, in_flight: u64) -> Held {
        let [there_ns, back_ns] = self.passes_apart(layer, mode, run);
        let workspace = self.workspace(layer, mode, run);
        if part == Part::Backward {
            let [_, bytes, gradients, shared_bytes] = self.of_mode((layer, mode), run, in_flight);
            return Held {
                times: [0.0, back_ns],
                bytes,
                shared_bytes,
                workspace,
                gradients,
                ..Held::default()
            };
        }
        let is_shared_out = self.settings.optimizer_sharding == OptimizerSharding::Zero3;
        let [bytes, shared_bytes] = match (self.instance.network.layers[layer].frozen, is_shared_out) {
            (true, _) => [self.frozen_on(mode, run), 0.0],
            (false, true) => [0.0, mode.parameter_bytes as f64],
            (false, false) => [self.weights_on(layer, mode, run), 0.0],
        };
        Held {
            times: [there_ns, 0.0],
            bytes,
            shared_bytes,
            workspace,
            ..Held::default()
        }
    }

    /// Weights of a trained layer on a device: of experts its part. Those of a frozen layer never change.
    fn weights_on(&self, layer: usize, mode: &LayerMode, run: Run) -> f64 {
        if self.instance.network.layers[layer].frozen {
            return 0.0;
        }
        let of_experts = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        mode.parameter_bytes as f64 - of_experts + (of_experts / run.expert as f64).ceil()
    }

    /// What a device has for good of a frozen layer: of experts its part.
    fn frozen_on(&self, mode: &LayerMode, run: Run) -> f64 {
        let of_experts = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        mode.resident_bytes as f64 - of_experts + (of_experts / run.expert as f64).ceil()
    }

    /// Forward and backward time of a layer in a mode, with what its groups move in either; whole ns where iterations are run.
    fn passes_apart(&self, layer: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let counted = |ns: f64| if self.of_iterations { ns.round() } else { ns };
        let times = mode.times[run.kind].unwrap();
        let own = [times.forward_ns, times.backward_ns];
        let rates = self.rates(run.kind);
        let of_degree = self.instance.network.layers[layer].modes().into_owned();
        let least_ns = of_degree
            .iter()
            .filter(|other| other.tensor == mode.tensor)
            .map(|other| self.reduced_ns(other, run))
            .fold(f64::INFINITY, f64::min);
        // Half of the least that is reduced at the degree is so in forward propagation, and what is odd of whole ns.
        let there_ns = match self.of_iterations {
            true => least_ns - (least_ns / 2.0).floor(),
            false => least_ns / 2.0,
        };
        let reduced = [there_ns, self.reduced_ns(mode, run) - there_ns];
        let exchanged = self.exchanged_ns(layer, mode, run);
        let handed = self.handed_ns(layer, mode, run);
        [0, 1].map(|pass| {
            let alone = counted(own[pass] as f64 / (rates[pass] * run.parts() as f64));
            counted(alone * self.load(mode, run)) + reduced[pass] + exchanged[pass] + handed[pass]
        })
    }

    /// Micro-batches of a layer between its passes, in each replica of the stage that has its backward pass: all of those that are on the way behind either.
    fn in_flight_apart(&self, layer: usize, runs: &[Run]) -> u64 {
        let first = self.stage_of[layer].min(self.back_of[layer]);
        let behind: u64 = runs[first..].iter().map(|run| run.replicas as u64).sum();
        let own = runs[self.back_of[layer]].replicas as u64;
        let all = self.settings.micro_batches.unwrap_or(u64::MAX).div_ceil(own);
        match self.settings.schedule {
            Schedule::Gpipe => all,
            Schedule::Pipedream => behind.div_ceil(own),
            Schedule::Concurrent => self.in_flight_at_once(layer, runs).min(all),
            _ => behind.div_ceil(own).min(all),
        }
    }

    /// The link between the stages of both passes: from the last device of the one that comes first to the first of the other.
    fn link_apart(&self, layer: usize, runs: &[Run]) -> Link {
        let [one, other] = [self.stage_of[layer], self.back_of[layer]];
        self.link(runs[one.min(other)].last(), runs[one.max(other)].start)
    }

    /// What a message of so many bytes takes, in ns.
    fn message_ns(&self, bytes: f64, link: Link) -> f64 {
        if bytes == 0.0 || !self.settings.communication.takes_time() {
            return 0.0;
        }
        bytes / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64
    }

    /// What a micro-batch bears of weights that move once an update: all of it where nothing is flushed.
    pub(super) fn borne_ns(&self, weights_ns: f64) -> f64 {
        match self.settings.schedule {
            Schedule::Pipedream => weights_ns,
            _ => weights_ns / self.settings.micro_batches.unwrap_or(1) as f64,
        }
    }
}

/// The least objective in ms that brute force finds with these cuts; iterations are counted in whole ns.
pub fn best_with(instance: &Instance, settings: &Settings, cuts: Cuts) -> Option<f64> {
    use stagecut::options::Objective;
    assert_eq!(settings.mode, Mode::Training);
    let settings = Settings {
        cuts,
        ..settings.clone()
    };
    match settings.objective {
        Objective::Iteration | Objective::Latency => {
            super::modes::best_iteration_ns(instance, &settings).map(|ns| ns as f64 / 1e6)
        }
        _ => super::modes::best_ms(instance, &settings),
    }
}
