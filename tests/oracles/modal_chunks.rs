//! Devices of several chunks whose stages are alike in a mode, by brute force: every mode and number of chunks that the options allow, every
//! assignment of layers to chunks, every choice of what these compute again. A replica runs its micro-batches operation by operation.

use stagecut::instance::Instance;
use stagecut::network::{LayerMode, Size, Tensor};
use stagecut::options::{Degrees, DeviceOrder, Mode, Objective};
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Operation, Phase};
use stagecut::settings::Settings;

use super::chunk_iterations::first;
use super::modes::{Run, Search, best_iteration_ns, can_be_told};

/// The least time of an iteration in ns of all plans, those of one chunk a device among them where the options allow these; `None` where none fits.
pub fn best_ns(instance: &Instance, settings: &Settings) -> Option<u64> {
    let mut best = match settings.allows_virtual_stages(1) {
        true => best_iteration_ns(instance, settings),
        false => None,
    };
    let layers = instance.network.layers.iter().filter(|layer| !layer.backward);
    let layers = layers.count();
    let search = Search::new(instance, settings, true);
    let devices = search.rows.iter().map(|row| row[2]).max().unwrap_or(0);
    for [tensor, context, group] in groups(&search, devices) {
        for replicas in 1..=devices / (tensor * context * group) {
            let copies = context * group * replicas;
            let all = search.rows.iter().map(|row| row[2] / (tensor * copies));
            let row = settings.stages.min(all.sum());
            let experts = (1..=copies).filter(|expert| copies.is_multiple_of(*expert));
            let both = experts.flat_map(|expert| (2..=layers.max(3)).map(move |chunks| (expert, chunks)));
            let all = both.flat_map(|both| [false, true].map(|at_host| (both, at_host)));
            for ((expert, chunks), at_host) in all {
                let too_many =
                    matches!(settings.rounds, Some(Degrees::Choose)) && (row == 1 || chunks * row > layers);
                if too_many || !settings.allows_virtual_stages(chunks) {
                    continue;
                }
                let least = |kinds: Vec<usize>| {
                    let degrees = [tensor, context, group, replicas, expert, chunks];
                    let mut rows = Rows::new(instance, settings, (degrees, at_host, &kinds))?;
                    rows.place();
                    rows.best_ns
                };
                let orders = orders(&search, tensor * copies, row);
                best = orders.into_iter().filter_map(least).chain(best).min();
            }
        }
    }
    best
}

/// Degrees of tensor groups, of context and of groups that so many devices are enough for.
fn groups(search: &Search, devices: usize) -> Vec<[usize; 3]> {
    let all = (1..=devices).flat_map(|tensor| {
        let shared = search.ways_to_share(devices / tensor).into_iter();
        shared.map(move |[context, group]| [tensor, context, group])
    });
    all.collect()
}

/// The kinds of so many places in a row, each of so many devices, in every order that there is.
fn orders(search: &Search, size: usize, places: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..places {
        let longer = |order: Vec<usize>| {
            let before = order
                .last()
                .and_then(|last| search.rows.iter().position(|row| row[0] == *last));
            let is_given = search.settings.device_order == DeviceOrder::Given;
            let first = before.filter(|_| is_given).unwrap_or(0);
            let has_left = |row: &&[usize; 3]| {
                let taken = order.iter().filter(|&&kind| kind == row[0]).count();
                row[2] / size > taken
            };
            let next: Vec<Vec<usize>> = search.rows[first..]
                .iter()
                .filter(has_left)
                .map(|row| [order.clone(), vec![row[0]]].concat())
                .collect();
            next
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

struct Rows<'a> {
    search: Search<'a>,
    runs: Vec<Run>,
    /// What fills memory, and what is timed.
    order: Vec<Vec<Operation>>,
    timed: Vec<Vec<Operation>>,
    micro_batches: usize,
    /// Chunk of every layer so far.
    chunk_of: Vec<usize>,
    best_ns: Option<u64>,
}

impl<'a> Rows<'a> {
    /// `None` where the schedule has no order for these, or the mode is not allowed.
    fn new(
        instance: &'a Instance,
        settings: &'a Settings,
        ([tensor, context, group, replicas, expert, chunks], at_host, kinds): ([usize; 6], bool, &[usize]),
    ) -> Option<Self> {
        let search = Search::new(instance, settings, true);
        let (all, row, size) = (
            settings.micro_batches? as usize,
            kinds.len(),
            tensor * context * group * replicas,
        );
        // Devices of a kind follow each other, wherever their places are.
        let start = |place: usize| {
            let own = search.rows.iter().find(|row| row[0] == kinds[place]).unwrap();
            own[1]
                + size
                    * kinds[..place]
                        .iter()
                        .filter(|kind| **kind == kinds[place])
                        .count()
        };
        let shape = Shape {
            devices: row,
            virtual_stages: chunks,
            placement: settings.placement,
            micro_batches: all.div_ceil(replicas),
        };
        let name = settings.schedule.to_string();
        let rule = RULES.iter().find(|rule| rule.name == name)?;
        let mut order = rule.order(&shape)?.devices;
        let trains = settings.mode == Mode::Training;
        order
            .iter_mut()
            .for_each(|list| list.retain(|of| trains || of.phase == Phase::Forward));
        let place = |chunk: usize| settings.placement.device(chunk, row);
        let run = |chunk: usize| Run {
            kind: kinds[place(chunk)],
            tensor,
            replicas,
            expert,
            context,
            group,
            at_host,
            start: start(place(chunk)),
        };
        let runs: Vec<Run> = (0..row * chunks).map(run).collect();
        let may_lie = |run: &Run| search.places_of_states(run.kind).contains(&at_host);
        let is_allowed = runs.iter().all(|&run| search.may_run(run) && may_lie(&run));
        let is_whole = !settings.all_stages || row == settings.stages;
        (is_allowed && is_whole).then_some(Self {
            search,
            runs,
            timed: match settings.objective {
                Objective::Latency => order.iter().map(|list| first(list)).collect(),
                _ => order.clone(),
            },
            order,
            micro_batches: shape.micro_batches,
            chunk_of: Vec::new(),
            best_ns: None,
        })
    }

    fn place(&mut self) {
        let network = &self.search.instance.network;
        let at = self.chunk_of.len();
        let Some(own) = network.layers.get(at) else {
            let is_used = |chunk: usize| self.chunk_of.contains(&chunk);
            if !self.search.settings.fills_chunks() || (0..self.runs.len()).all(is_used) {
                self.take();
            }
            return;
        };
        let before = network
            .tensors
            .iter()
            .filter(|tensor| !own.backward && tensor.consumers.contains(&at));
        let first = before
            .map(|tensor| self.chunk_of[tensor.producer])
            .max()
            .unwrap_or(0);
        let tied = (0..at).find(|&other| own.backward && network.layers[other].tie == own.tie);
        let chunks = match tied {
            Some(other) => self.chunk_of[other]..self.chunk_of[other] + 1,
            None => first..self.runs.len(),
        };
        for chunk in chunks {
            self.chunk_of.push(chunk);
            self.place();
            self.chunk_of.pop();
        }
    }

    /// Runs the chunks in every way that fits.
    fn take(&mut self) {
        let choices: Vec<Vec<LayerMode>> = (0..self.chunk_of.len())
            .map(|layer| self.search.modes(layer, self.runs[self.chunk_of[layer]]))
            .collect();
        if choices.iter().any(Vec::is_empty) {
            return;
        }
        let links: Vec<[[f64; 2]; 2]> = (0..self.runs.len()).map(|chunk| self.links(chunk)).collect();
        let waits = !self.search.settings.communication.has_links();
        let waited = |links: &[[f64; 2]; 2]| links.map(|moved| if waits { moved[0] + moved[1] } else { 0.0 });
        let moved: Vec<[f64; 2]> = links.iter().map(waited).collect();
        let late = if waits {
            vec![[0; 2]; links.len()]
        } else {
            self.late(&links)
        };
        let mut tried: Vec<Vec<[u64; 4]>> = Vec::new();
        for mut code in 0..choices.iter().map(Vec::len).product::<usize>() {
            let mut modes = Vec::new();
            for choices in &choices {
                modes.push(&choices[code % choices.len()]);
                code /= choices.len();
            }
            let told = |chunk: usize| -> Vec<String> {
                let own = modes.iter().zip(&self.chunk_of).filter(|(_, of)| **of == chunk);
                own.map(|(mode, _)| mode.recompute.clone()).collect()
            };
            let told: Vec<Vec<String>> = (0..self.runs.len()).map(told).collect();
            let told: Vec<&Vec<String>> = told.iter().collect();
            let can_be_told = self.search.settings.target.is_none() || can_be_told(&told);
            if !can_be_told || !self.fits(&modes) {
                continue;
            }
            let times = self.times(&modes, &moved);
            if !tried.contains(&times) {
                let ns = self.run_ns(&times, &late);
                self.best_ns = Some(self.best_ns.map_or(ns, |best| best.min(ns)));
                tried.push(times);
            }
        }
    }

    /// The device of a chunk.
    fn device(&self, chunk: usize) -> usize {
        self.search.settings.placement.device(chunk, self.order.len())
    }

    /// Whether no device ever holds too much, nor its host.
    fn fits(&self, modes: &[&LayerMode]) -> bool {
        let row = self.order.len();
        let trains = self.search.settings.mode == Mode::Training;
        (0..row).all(|device| {
            let own = |chunk: usize| {
                modes
                    .iter()
                    .zip(&self.chunk_of)
                    .enumerate()
                    .filter(move |(_, (_, of))| **of == chunk)
                    .map(|(layer, (mode, _))| (layer, *mode))
            };
            let (mut held, mut workspace, mut states) = (0.0, 0.0, 0.0);
            for chunk in (0..self.runs.len()).filter(|&chunk| self.device(chunk) == device) {
                let (mut shared, run) = (0.0, self.runs[chunk]);
                for (layer, mode) in own(chunk) {
                    let [_, kept, _, part] = self.search.of_mode((layer, mode), run, 0);
                    held += kept;
                    shared += part;
                    workspace = self.search.workspace(layer, mode, run).max(workspace);
                }
                held += (shared / run.copies() as f64).ceil();
                let layers: Vec<usize> = own(chunk).map(|(layer, _)| layer).collect();
                states += self.search.states_at_host(&layers, run, true).ceil();
            }
            let mut most = held;
            let (mut at_host, mut most_at_host) = (0, 0);
            for operation in self.order[device].iter().filter(|_| trains) {
                // Devices of a sequence have their part of it.
                let context = self.runs[operation.chunk].context as u64;
                let of_each = |bytes: fn(&LayerMode) -> u64| -> u64 {
                    let each = own(operation.chunk);
                    each.map(|(_, mode)| bytes(mode).div_ceil(context)).sum()
                };
                let stash = of_each(|mode| mode.stash_bytes);
                let copied = of_each(|mode| mode.host_bytes);
                match operation.phase {
                    Phase::Forward => (held, at_host) = (held + stash as f64, at_host + copied),
                    // What is kept is there until nothing needs it.
                    Phase::InputGradient => {}
                    Phase::Backward | Phase::WeightGradient => {
                        (held, at_host) = (held - stash as f64, at_host - copied);
                    }
                }
                most = f64::max(most, held);
                most_at_host = u64::max(most_at_host, at_host);
            }
            let first = (0..self.runs.len()).find(|&chunk| self.device(chunk) == device);
            let run = self.runs[first.unwrap()];
            self.search.fits(run.kind, most + workspace) && self.search.fits_host(run, most_at_host, states)
        })
    }

    /// Forward pass, backward pass, ring, and what of the backward pass is gradients of weights, of every chunk in whole ns.
    fn times(&self, modes: &[&LayerMode], moved: &[[f64; 2]]) -> Vec<[u64; 4]> {
        let trains = self.search.settings.mode == Mode::Training;
        let mut times: Vec<[f64; 4]> = moved
            .iter()
            .map(|&[there, back]| [there, back, 0.0, 0.0])
            .collect();
        let mut gradients = vec![0.0; times.len()];
        let mut layers = vec![Vec::new(); times.len()];
        for (layer, (mode, &chunk)) in modes.iter().zip(&self.chunk_of).enumerate() {
            let run = self.runs[chunk];
            let [forward, backward] = self.search.passes_of_mode(layer, mode, run);
            times[chunk][0] += forward;
            times[chunk][1] += if trains { backward } else { 0.0 };
            gradients[chunk] += mode.gradient_bytes as f64;
            layers[chunk].push(layer);
            times[chunk][3] += if trains {
                self.search.weight_of_mode(mode, run)
            } else {
                0.0
            };
        }
        let all = self.search.settings.micro_batches.unwrap() as f64;
        for (chunk, &run) in self.runs.iter().enumerate() {
            let of_experts = self.search.expert_gradients(&layers[chunk], run);
            let rings = self
                .search
                .rings_ns(run, gradients[chunk] - of_experts, of_experts);
            times[chunk][2] = rings
                .map(|ns| (ns * all - 1e-6).ceil().max(0.0))
                .into_iter()
                .sum();
            let states = self.search.states_at_host(&layers[chunk], run, true);
            times[chunk][2] += self.search.copies_of_states_ns(states, run);
        }
        times.into_iter().map(|times| times.map(|ns| ns as u64)).collect()
    }

    /// How late what a chunk sends to the next and to the one before is there, where transfers are beside the work: as long as the busier end takes.
    fn late(&self, links: &[[[f64; 2]; 2]]) -> Vec<[u64; 2]> {
        let of = |from: usize, to: Option<usize>, pass: usize| {
            let to = to.filter(|&to| to < links.len() && self.device(to) != self.device(from));
            to.map_or(0, |to| links[from][pass][1].max(links[to][pass][0]) as u64)
        };
        (0..links.len())
            .map(|chunk| [of(chunk, Some(chunk + 1), 0), of(chunk, chunk.checked_sub(1), 1)])
            .collect()
    }

    /// What a chunk receives and sends of all tensors, forwards and backwards: its device sends each once, as far as the farthest that reads it, and
    /// receives it once, for the first of its chunks that does.
    fn links(&self, chunk: usize) -> [[f64; 2]; 2] {
        let network = &self.search.instance.network;
        let is_explicit = network.layers.iter().any(|layer| layer.backward);
        let trains = self.search.settings.mode == Mode::Training;
        let mut moved = [[0.0; 2]; 2];
        for tensor in &network.tensors {
            let is_back = network.layers[tensor.producer].backward;
            if is_back && !trains {
                continue;
            }
            let ns = self.moved_ns(tensor, chunk);
            let sends = usize::from(self.chunk_of[tensor.producer] == chunk);
            moved[usize::from(is_back)][sends] += ns;
            let returns = super::is_behind_trained(network, tensor.producer);
            moved[1][1 - sends] += if trains && !is_explicit && returns {
                ns
            } else {
                0.0
            };
        }
        moved
    }

    fn moved_ns(&self, tensor: &Tensor, chunk: usize) -> f64 {
        let trains = self.search.settings.mode == Mode::Training;
        let layers = &self.search.instance.network.layers;
        let home = self.chunk_of[tensor.producer];
        let start = |chunk: usize| self.runs[chunk].start;
        let kept = |to: &usize| trains || !layers[*to].backward;
        let away: Vec<usize> = (tensor.consumers.iter().copied())
            .filter(|to| kept(to) && start(self.chunk_of[*to]) != start(home))
            .collect();
        if away.is_empty() || !self.search.settings.communication.takes_time() {
            return 0.0;
        }
        let named = |bytes: &[(usize, u64)], other: usize| {
            bytes
                .iter()
                .find(|(layer, _)| *layer == other)
                .map_or(0, |(_, bytes)| *bytes)
        };
        let mode = |layer: usize| self.search.modes(layer, self.runs[self.chunk_of[layer]])[0].clone();
        let ends = |to: usize| {
            let (one, other) = match self.device(home) < self.device(to) {
                true => (start(home), start(to)),
                false => (start(to), start(home)),
            };
            let devices = self.runs[0].tensor * self.runs[0].copies();
            [one + devices - 1, other]
        };
        let distance = |to: usize| {
            let [one, other] = ends(to);
            self.search.distance(one, other)
        };
        let (end, beside) = if chunk == home {
            let beside = away
                .iter()
                .map(|&to| named(&mode(tensor.producer).output_bytes, to))
                .max();
            let ends = away.iter().map(|&to| self.chunk_of[to]);
            (ends.max_by_key(|&to| distance(to)).unwrap(), beside.unwrap())
        } else {
            let here: Vec<usize> = (away.iter().copied())
                .filter(|&to| start(self.chunk_of[to]) == start(chunk))
                .collect();
            if here.iter().map(|&to| self.chunk_of[to]).min() != Some(chunk) {
                return 0.0;
            }
            let beside = here
                .iter()
                .map(|&to| named(&mode(to).input_bytes, tensor.producer))
                .max();
            (chunk, beside.unwrap())
        };
        let [one, other] = ends(end);
        let link = self.search.link(one, other);
        let ns = |bytes: u64| bytes as f64 / link.bandwidth_bytes_per_s * 1e9;
        match tensor.size {
            Size::Bytes(bytes) if bytes + beside == 0 => 0.0,
            Size::Bytes(bytes) => (ns(bytes) + link.latency_ns as f64).round() + ns(beside).round(),
            Size::TransferNs(given_ns) => given_ns as f64 + ns(beside).round(),
            other => unreachable!("{other:?}"),
        }
    }

    /// Devices do their operations one after the other, each as soon as what it waits for is there; then their rings.
    fn run_ns(&self, times: &[[u64; 4]], late: &[[u64; 2]]) -> u64 {
        let mut ends = vec![[None::<u64>; 3]; times.len() * self.micro_batches];
        let mut free = vec![0; self.timed.len()];
        let mut next = vec![0; self.timed.len()];
        while (0..self.timed.len()).any(|device| next[device] < self.timed[device].len()) {
            let before = next.clone();
            for (device, list) in self.timed.iter().enumerate() {
                let Some(of) = list.get(next[device]) else {
                    continue;
                };
                let at = |chunk: usize, way: usize| ends[chunk * self.micro_batches + of.micro_batch][way];
                let (way, waits) = match of.phase {
                    Phase::Forward if of.chunk == 0 => (0, Some(0)),
                    Phase::Forward => (0, at(of.chunk - 1, 0).map(|end| end + late[of.chunk - 1][0])),
                    // Behind the gradient of the input on the same device.
                    Phase::WeightGradient => (2, Some(0)),
                    _ if of.chunk + 1 == times.len() => (1, at(of.chunk, 0)),
                    _ => (1, at(of.chunk + 1, 1).map(|end| end + late[of.chunk + 1][1])),
                };
                let [forward, backward, _, weight] = times[of.chunk];
                let takes = match of.phase {
                    Phase::Forward => forward,
                    Phase::Backward => backward,
                    Phase::InputGradient => backward - weight,
                    Phase::WeightGradient => weight,
                };
                if let Some(waits) = waits {
                    free[device] = free[device].max(waits) + takes;
                    ends[of.chunk * self.micro_batches + of.micro_batch][way] = Some(free[device]);
                    next[device] += 1;
                }
            }
            assert_ne!(before, next, "a deadlock");
        }
        for (chunk, times) in times.iter().enumerate() {
            free[self.device(chunk)] += times[2];
        }
        free.into_iter().max().unwrap_or(0)
    }
}
