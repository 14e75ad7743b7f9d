//! Room for requests where stages are tensor groups, on devices of one kind or two: the most tokens, the best time at them, and the best time at other numbers
//! of tokens, against all plans. What is drawn is costed here from the numbers of the draw, by `formulations/modes.md`, and from nothing of the library.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde_json::{Value, json};
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::what_if::{self, Parameter, Question, ask};
use stagecut::{Error, Options, solve};

/// A layer on the devices of a group: bytes and times of one of them.
struct Way {
    tensor: usize,
    /// By kind; none where the kind does not run it.
    ms: Vec<Option<f64>>,
    held: u64,
    workspace: u64,
    of_token: u64,
    of_sequence: u64,
    reduced_mb: u64,
    /// Beside a tensor of each other layer that enters the stage, and of each that leaves it.
    beside_mb: [Vec<u64>; 2],
}

struct Kind {
    count: usize,
    bytes: u64,
    rate: f64,
}

/// A link between two devices.
#[derive(Clone, Copy)]
struct Link {
    mb_per_ms: f64,
    latency_ms: f64,
}

/// A problem, as it is drawn.
struct Drawn {
    layers: Vec<Vec<Way>>,
    /// Producer, consumers, megabytes.
    tensors: Vec<(usize, Vec<usize>, u64)>,
    kinds: Vec<Kind>,
    /// Kinds in play, in the order in which they are listed.
    listed: Vec<usize>,
    /// Devices of a node, inside of which links are four times as fast and have no latency.
    node: Option<usize>,
    latency_ms: f64,
    /// Links of two kinds, or of one.
    links: Vec<([usize; 2], Link)>,
    limit: Option<u64>,
    degrees: &'static str,
    stages: Option<usize>,
    all_stages: bool,
    uniform: bool,
    /// Whether stages go through kinds in the order of the file.
    in_order: bool,
    sequences: Option<u64>,
    takes_time: bool,
    then: &'static str,
}

/// What is asked for beside the plan.
#[derive(Clone, Copy)]
enum Asked {
    Most,
    Tokens(u64),
}

fn draw(seed: u64) -> Drawn {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x6709);
    let layers = rng.random_range(3..=if seed.is_multiple_of(4) { 6 } else { 5 });
    let kinds: Vec<Kind> = (0..rng.random_range(1..=2))
        .map(|_| Kind {
            count: rng.random_range(1..=3),
            bytes: rng.random_range(25..=120),
            rate: *[1.0, 1.0, 0.5, 2.0].choose(rng).unwrap(),
        })
        .collect();
    // Four devices of one kind are a group of four.
    let alone = kinds.len() == 1;
    let kinds: Vec<Kind> = kinds
        .into_iter()
        .map(|kind| Kind {
            count: if alone { kind.count + 1 } else { kind.count.min(2) },
            ..kind
        })
        .collect();
    let listed: &[usize] = match kinds.len() {
        1 => &[0],
        _ => [&[0, 1][..], &[0, 1], &[1, 0], &[1]].choose(rng).unwrap(),
    };
    let is_chain = rng.random_bool(0.5);
    let mut tensors = Vec::new();
    for from in 0..layers {
        let reads = |to: &usize| {
            if is_chain {
                *to == from + 1
            } else {
                rng.random_bool(0.4)
            }
        };
        let to: Vec<usize> = (from + 1..layers).filter(reads).collect();
        if !to.is_empty() {
            tensors.push((from, to, rng.random_range(0..=3)));
        }
    }
    Drawn {
        layers: (0..layers)
            .map(|_| draw_layer(rng, layers, kinds.len()))
            .collect(),
        tensors,
        listed: listed.to_vec(),
        node: rng.random_bool(0.4).then(|| rng.random_range(1..=4)),
        latency_ms: *[0.0, 0.0, 0.5].choose(rng).unwrap(),
        links: draw_links(seed, kinds.len()),
        limit: rng.random_bool(0.2).then(|| rng.random_range(20..=80)),
        degrees: ["choose", "choose", "choose", "1,2", "1,2", "1", "1,4", "2"]
            .choose(rng)
            .unwrap(),
        stages: rng.random_bool(0.3).then(|| rng.random_range(1..=3)),
        all_stages: rng.random_bool(0.15),
        uniform: rng.random_bool(0.15),
        in_order: seed % 5 == 4,
        sequences: rng.random_bool(0.5).then(|| rng.random_range(1..=3)),
        takes_time: rng.random_bool(0.8),
        then: ["period", "latency"].choose(rng).unwrap(),
        kinds,
    }
}

/// Slower and faster links of some pairs of kinds, for one seed of three.
fn draw_links(seed: u64, kinds: usize) -> Vec<([usize; 2], Link)> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x11a5);
    let pairs = (0..kinds).flat_map(|one| (one..kinds).map(move |other| [one, other]));
    let is_drawn = rng.random_bool(1.0 / 3.0);
    let own: Vec<[usize; 2]> = pairs.filter(|_| is_drawn && rng.random_bool(0.7)).collect();
    let link = |pair: [usize; 2]| {
        let link = Link {
            mb_per_ms: *[0.25, 0.5, 2.0, 8.0].choose(rng).unwrap(),
            latency_ms: *[0.0, 0.25, 1.0].choose(rng).unwrap(),
        };
        (pair, link)
    };
    own.into_iter().map(link).collect()
}

/// A layer at degrees 1, 2 and 4: most bytes in equal parts, and those of a token no smaller than one of its heads.
fn draw_layer(rng: &mut ChaCha8Rng, layers: usize, kinds: usize) -> Vec<Way> {
    let [held, of_token, of_sequence] = [24, 6, 4].map(|most| rng.random_range(0..=most));
    let heads = *[1, 2, 4].choose(rng).unwrap();
    let own: Vec<usize> = [1, 2, 4].into_iter().filter(|_| rng.random_bool(0.93)).collect();
    let degrees = if own.is_empty() { vec![1] } else { own };
    let way = |&tensor: &usize| {
        let part = tensor as u64;
        let mut beside = || (0..layers).map(|_| u64::from(rng.random_bool(0.1))).collect();
        let beside_mb = [beside(), beside()];
        let ms = (0..kinds).map(|_| rng.random_bool(0.94).then(|| f64::from(rng.random_range(1..=8))));
        let ms: Vec<Option<f64>> = ms.collect();
        Way {
            tensor,
            ms: if ms.iter().all(Option::is_none) {
                vec![Some(2.0); kinds]
            } else {
                ms
            },
            held: u64::div_ceil(held, part),
            workspace: if rng.random_bool(0.2) {
                rng.random_range(0..=6)
            } else {
                0
            },
            of_token: u64::div_ceil(of_token, part.min(heads)),
            of_sequence: u64::div_ceil(of_sequence, part),
            reduced_mb: rng.random_range(0..=2),
            beside_mb,
        }
    };
    degrees.iter().map(way).collect()
}

impl Drawn {
    /// The file that says so.
    fn file(&self, asked: Asked) -> Value {
        let kind = |at: usize| format!("kind{at}");
        let id = |at: usize| format!("l{at}");
        let way = |way: &Way| {
            let on = way.ms.iter().enumerate();
            let on = on.filter_map(|(at, ms)| Some((kind(at), json!({ "forward_ms": (*ms)? }))));
            let beside = |of: usize| {
                let all = way.beside_mb[of].iter().enumerate().filter(|(_, mb)| **mb > 0);
                Value::Object(all.map(|(at, mb)| (id(at), json!(1e6 * *mb as f64))).collect())
            };
            json!({
                "tensor": way.tensor, "times": Value::Object(on.collect()), "parameter_bytes": way.held,
                "workspace_bytes": way.workspace, "kv_bytes_per_token": way.of_token, "state_bytes_per_sequence": way.of_sequence,
                "collective_bytes": 1e6 * way.reduced_mb as f64, "input_bytes": beside(0), "output_bytes": beside(1),
            })
        };
        let layers = self.layers.iter().enumerate();
        let layers = layers
            .map(|(at, ways)| json!({ "id": id(at), "modes": ways.iter().map(way).collect::<Vec<_>>() }));
        let tensors = self.tensors.iter().map(|(from, to, mb)| {
            let to: Vec<String> = to.iter().map(|&at| id(at)).collect();
            json!({ "producer": id(*from), "consumers": to, "bytes": 1e6 * *mb as f64 })
        });
        let kinds = self.kinds.iter().enumerate().map(|(at, own)| {
            json!({ "name": kind(at), "count": own.count, "memory_bytes": own.bytes,
                    "resources": [{ "name": "core", "forward_rate": own.rate }] })
        });
        let mut link = json!({ "bandwidth_bytes_per_s": 1e9, "latency_ms": self.latency_ms });
        if let Some(devices) = self.node {
            link["nodes"] = json!({ "devices": devices, "link": { "bandwidth_bytes_per_s": 4e9 } });
        }
        let links = self.links.iter().map(|([one, other], link)| {
            json!({ "between": [kind(*one), kind(*other)], "bandwidth_bytes_per_s": 1e9 * link.mb_per_ms, "latency_ms": link.latency_ms })
        });
        let mut pipeline = json!({
            "mode": "inference", "tensor": self.degrees, "uniform": self.uniform,
            "device_kinds": self.listed.iter().map(|&at| kind(at)).collect::<Vec<_>>(),
            "communication": if self.takes_time { "blocking" } else { "ignored" },
        });
        let mut say = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                pipeline[name] = value;
            }
        };
        say("device_order", self.in_order.then(|| "given".into()));
        say("memory_limit", self.limit.map(Value::from));
        say("stages", self.stages.map(Value::from));
        say(
            "all_stages",
            (self.stages.is_some() && self.all_stages).then(|| true.into()),
        );
        say("sequences", self.sequences.map(Value::from));
        match asked {
            Asked::Most => {
                say("objective", Some("tokens".into()));
                say("then", Some(self.then.into()));
            }
            Asked::Tokens(tokens) => {
                say("objective", Some(self.then.into()));
                say("tokens", Some(tokens.into()));
            }
        }
        json!({
            "name": "room of groups",
            "network": { "layers": layers.collect::<Vec<_>>(), "tensors": tensors.collect::<Vec<_>>() },
            "cluster": { "device_kinds": kinds.collect::<Vec<_>>(), "link": link, "links": links.collect::<Vec<_>>() },
            "pipeline": pipeline,
        })
    }

    fn allows(&self, tensor: usize) -> bool {
        self.degrees == "choose" || self.degrees.split(',').any(|own| own == tensor.to_string())
    }

    fn is_inside(&self, one: usize, other: usize) -> bool {
        self.node.is_none_or(|devices| one / devices == other / devices)
    }

    /// The kind of a device; those in play are numbered in the order of the file.
    fn kind_of(&self, device: usize) -> usize {
        let mut behind = 0;
        let mut listed = (0..self.kinds.len()).filter(|kind| self.listed.contains(kind));
        let holds = |kind: &usize| {
            behind += self.kinds[*kind].count;
            device < behind
        };
        listed.find(holds).unwrap()
    }

    /// The link between two devices: of their node, of their kinds, of all.
    fn link(&self, one: usize, other: usize) -> Link {
        if self.node.is_some() && self.is_inside(one, other) {
            let (mb_per_ms, latency_ms) = (4.0, 0.0);
            return Link {
                mb_per_ms,
                latency_ms,
            };
        }
        let mut kinds = [self.kind_of(one), self.kind_of(other)];
        kinds.sort_unstable();
        let own = self.links.iter().find(|(pair, _)| *pair == kinds);
        own.map_or(
            Link {
                mb_per_ms: 1.0,
                latency_ms: self.latency_ms,
            },
            |(_, link)| *link,
        )
    }

    /// Time of so many megabytes between two devices, without latency.
    fn moved_ms(&self, mb: u64, [one, other]: [usize; 2]) -> f64 {
        mb as f64 / self.link(one, other).mb_per_ms
    }
}

/// A stage on devices.
#[derive(Clone, Copy)]
struct Run {
    kind: usize,
    tensor: usize,
    /// Number of its first device.
    first: usize,
}

impl Run {
    fn last(self) -> usize {
        self.first + self.tensor - 1
    }
}

/// All plans of a problem, each as the tokens that it has room for and its time in ms.
struct Every<'a> {
    of: &'a Drawn,
    stage_of: Vec<usize>,
    runs: Vec<Run>,
    found: Vec<(u64, f64)>,
}

impl<'a> Every<'a> {
    fn plans(of: &'a Drawn) -> Vec<(u64, f64)> {
        let mut every = Every {
            of,
            stage_of: Vec::new(),
            runs: Vec::new(),
            found: Vec::new(),
        };
        every.place();
        every.found
    }

    fn most_stages(&self) -> usize {
        let devices = self.of.listed.iter().map(|&kind| self.of.kinds[kind].count).sum();
        self.of.stages.unwrap_or(devices).min(devices)
    }

    /// Gives every layer a stage, none before that of what it reads.
    fn place(&mut self) {
        let at = self.stage_of.len();
        let used = self.stage_of.iter().max().map_or(0, |last| last + 1);
        if at == self.of.layers.len() {
            let is_full = (0..used).all(|stage| self.stage_of.contains(&stage));
            let is_asked = !self.of.all_stages || self.of.stages.is_none_or(|stages| stages == used);
            if is_full && is_asked {
                self.staff(used);
            }
            return;
        }
        let read = self.of.tensors.iter().filter(|(_, to, _)| to.contains(&at));
        let first = read.map(|(from, ..)| self.stage_of[*from]).max().unwrap_or(0);
        for stage in first..self.most_stages() {
            self.stage_of.push(stage);
            self.place();
            self.stage_of.pop();
        }
    }

    /// Gives every stage devices of a kind that follow those of the stages before it, inside a node.
    fn staff(&mut self, stages: usize) {
        if self.runs.len() == stages {
            let is_uniform = self.runs.iter().all(|run| run.tensor == self.runs[0].tensor);
            if !self.of.uniform || is_uniform {
                self.found.extend(self.cost());
            }
            return;
        }
        let mut start = 0;
        // Devices of all kinds in play are numbered in the order of the file.
        let ahead = self.runs.last().map_or(0, |run| run.kind);
        for kind in (0..self.of.kinds.len()).filter(|kind| self.of.listed.contains(kind)) {
            if self.of.in_order && kind < ahead {
                start += self.of.kinds[kind].count;
                continue;
            }
            let before: usize = self
                .runs
                .iter()
                .filter(|run| run.kind == kind)
                .map(|run| run.tensor)
                .sum();
            let count = self.of.kinds[kind].count;
            for tensor in (1..=count - before).filter(|&tensor| self.of.allows(tensor)) {
                let run = Run {
                    kind,
                    tensor,
                    first: start + before,
                };
                if self.of.is_inside(run.first, run.last()) {
                    self.runs.push(run);
                    self.staff(stages);
                    self.runs.pop();
                }
            }
            start += count;
        }
    }

    fn way(&self, layer: usize) -> Option<&Way> {
        let run = self.runs[self.stage_of[layer]];
        let mut ways = self.of.layers[layer].iter();
        ways.find(|way| way.tensor == run.tensor && way.ms[run.kind].is_some())
    }

    /// Tokens and time; none if a layer does not run where it is, or memory does not do.
    fn cost(&self) -> Option<(u64, f64)> {
        let ways: Vec<&Way> = (0..self.stage_of.len())
            .map(|layer| self.way(layer))
            .collect::<Option<_>>()?;
        let (mut tokens, mut longest, mut sum) = (u64::MAX, 0.0f64, 0.0);
        for (k, run) in self.runs.iter().enumerate() {
            let kind = &self.of.kinds[run.kind];
            let own = || {
                ways.iter()
                    .zip(&self.stage_of)
                    .filter(|(_, of)| **of == k)
                    .map(|(way, _)| way)
            };
            let sequences = self.of.sequences.unwrap_or(1);
            let held: u64 = own().map(|way| way.held + sequences * way.of_sequence).sum();
            let workspace = own().map(|way| way.workspace).max().unwrap_or(0);
            let left = self
                .of
                .limit
                .unwrap_or(kind.bytes)
                .checked_sub(held + workspace)?;
            let of_token: u64 = own().map(|way| way.of_token).sum();
            tokens = tokens.min(left.checked_div(of_token).unwrap_or(u64::MAX));
            let works = own().map(|way| {
                let around = 2.0 * (run.tensor as f64 - 1.0) / run.tensor as f64;
                way.ms[run.kind].unwrap() / kind.rate
                    + around * self.of.moved_ms(way.reduced_mb, [run.first; 2])
            });
            let ms = works.sum::<f64>() + self.crossing_ms(k, &ways);
            longest = longest.max(ms);
            sum += ms;
        }
        Some((tokens, if self.of.then == "period" { longest } else { sum }))
    }

    /// What a stage pays for tensors that enter or leave it.
    fn crossing_ms(&self, k: usize, ways: &[&Way]) -> f64 {
        let mut sum = 0.0;
        for (from, to, mb) in self.of.tensors.iter().filter(|_| self.of.takes_time) {
            let home = self.stage_of[*from];
            let ends = |stage: usize| [self.runs[home].last(), self.runs[stage].first];
            let away: Vec<usize> = to
                .iter()
                .copied()
                .filter(|&to| self.stage_of[to] != home)
                .collect();
            let (readers, link) = match k == home {
                true => {
                    let stages = away.iter().map(|&to| self.stage_of[to]);
                    let distance = |stage: &usize| {
                        let [one, other] = ends(*stage);
                        let link = self.of.link(one, other);
                        let hundredths = |value: f64| (100.0 * value).round() as u64;
                        let slowness = hundredths(8.0 / link.mb_per_ms);
                        (
                            !self.of.is_inside(one, other),
                            slowness,
                            hundredths(link.latency_ms),
                        )
                    };
                    (away.clone(), stages.max_by_key(distance).map(ends))
                }
                false => (
                    away.into_iter().filter(|&to| self.stage_of[to] == k).collect(),
                    Some(ends(k)),
                ),
            };
            let beside = readers.iter().map(|&to| match k == home {
                true => ways[*from].beside_mb[1][to],
                false => ways[to].beside_mb[0][*from],
            });
            let (Some(beside), Some(link)) = (beside.max(), link) else {
                continue;
            };
            if mb + beside > 0 {
                sum += self.of.moved_ms(mb + beside, link) + self.of.link(link[0], link[1]).latency_ms;
            }
        }
        sum
    }
}

/// A file that is not refused, and what it asks.
fn posed(seed: u64, file: &Value) -> Option<(Instance, Settings)> {
    let spec = serde_json::from_value(file.clone()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let instance = Instance::from_spec(&spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    Some((instance, settings))
}

/// Whether it is said that some layer runs nowhere, which leaves no plan.
fn is_idle(error: &Error) -> bool {
    matches!(error, Error::Input(error) if error.to_string().contains("fits no device"))
}

/// A plan that the checker accepts; none where the file is refused, or where some layer runs nowhere.
fn planned(seed: u64, file: &Value, plans: &[(u64, f64)]) -> Option<Plan> {
    let (instance, settings) = posed(seed, file)?;
    match solve(&instance, &Options::default()) {
        Ok(plan) => {
            assert_eq!(check(&instance, &settings, &plan), [], "seed {seed}: {file}");
            Some(plan)
        }
        Err(error) => {
            assert!(
                is_idle(&error) && plans.is_empty(),
                "seed {seed}: {error}: {file}"
            );
            None
        }
    }
}

/// The least time of plans that have room for so many tokens.
fn best(plans: &[(u64, f64)], tokens: u64) -> f64 {
    let with_room = plans.iter().filter(|(own, _)| *own >= tokens);
    with_room.map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min)
}

/// Holds a plan against the least time of all plans that have room.
fn hold(seed: u64, plan: &Plan, (best, file): (f64, &Value)) {
    if best.is_infinite() {
        assert_eq!(plan.status, Status::Infeasible, "seed {seed}: {file}");
        return;
    }
    let ms = plan.objective_ms.unwrap();
    // Periods on links that differ have bounds, and not always a search that ends with a proof.
    let cluster = &file["cluster"];
    let differ = cluster["link"]["nodes"].is_object()
        || cluster["links"].as_array().is_some_and(|own| !own.is_empty());
    if plan.status == Status::Feasible && differ {
        let bound = plan.bound_ms.unwrap();
        assert!(
            bound < best + 1e-6 && best < ms + 1e-6,
            "seed {seed}: {bound} <= {best} <= {ms} in {file}"
        );
        return;
    }
    assert_eq!(plan.status, Status::Optimal, "seed {seed}: {best} ms in {file}");
    assert!(
        (ms - best).abs() < 1e-6,
        "seed {seed}: {ms} found, {best} best in {file}"
    );
}

/// Whether the most tokens of a drawn problem are compared, and whether there is a plan.
fn compare(seed: u64) -> Option<bool> {
    let drawn = draw(seed);
    let file = drawn.file(Asked::Most);
    let plans = Every::plans(&drawn);
    let plan = planned(seed, &file, &plans)?;
    let most = plans.iter().map(|(tokens, _)| *tokens).max();
    assert_eq!(plan.tokens, most, "seed {seed}: {:?} in {file}", plan.status);
    assert_eq!(plan.tokens_bound, most, "seed {seed}: {file}");
    hold(seed, &plan, (best(&plans, most.unwrap_or(0)), &file));
    for tokens in [1, most.unwrap_or(1) / 2, most.unwrap_or(1) + 1] {
        let file = drawn.file(Asked::Tokens(tokens.max(1)));
        let plan = planned(seed, &file, &plans).unwrap_or_else(|| panic!("seed {seed}: refused: {file}"));
        hold(seed, &plan, (best(&plans, tokens.max(1)), &file));
    }
    Some(most.is_some())
}

/// Whether the time of the best plan is compared at every number of tokens that there is room for, and at two more.
fn compare_curve(seed: u64) -> Option<()> {
    let drawn = draw(seed);
    let is_chain = drawn.tensors.iter().all(|(from, to, _)| to[..] == [from + 1]);
    if !drawn.links.is_empty() && !is_chain {
        // What skips stages is bounded there, and not always proved.
        return None;
    }
    let plans = Every::plans(&drawn);
    let most = plans.iter().map(|(tokens, _)| *tokens).max().unwrap_or(0);
    let file = drawn.file(Asked::Tokens(1));
    let (instance, _) = posed(seed, &file)?;
    let question = Question {
        parameter: Parameter::Tokens,
        from: 1.0,
        to: (most + 2) as f64,
        stages: None,
        tolerance: 0.0,
        point_limit: None,
    };
    let answer = match ask(
        &instance,
        &PipelineOptions::default(),
        &question,
        &Control::default(),
        &|_| {},
    ) {
        Ok(answer) => answer,
        Err(error) => {
            assert!(
                is_idle(&error) && plans.is_empty(),
                "seed {seed}: {error}: {file}"
            );
            return None;
        }
    };
    let mut next = 1;
    for segment in &answer.curves[0].segments {
        assert_eq!(segment.from, next as f64, "seed {seed}: {file}");
        for tokens in next..=segment.to as u64 {
            let expected = best(&plans, tokens);
            match segment.kind {
                what_if::Kind::Infeasible => {
                    assert!(expected.is_infinite(), "seed {seed} at {tokens}: {file}")
                }
                _ => assert!(
                    (segment.from_ms.unwrap() - expected).abs() < 1e-6,
                    "seed {seed} at {tokens}: {segment:?}, best {expected}: {file}"
                ),
            }
            let curve = &answer.curves[0].bounds;
            let bounds = curve.bounds_ns(curve.easier.across(tokens as f64));
            let is_same = |ns: f64| ns == expected || (ns / 1e6 - expected).abs() < 1e-5;
            assert!(
                bounds.into_iter().all(is_same),
                "seed {seed} at {tokens}: {bounds:?}"
            );
        }
        next = segment.to as u64 + 1;
    }
    assert_eq!(next, most + 3, "seed {seed}: {file}");
    Some(())
}

#[test]
fn room_against_time_is_that_of_brute_force() {
    let compared = (0..200_u64).into_par_iter().filter_map(compare_curve).count();
    assert!(compared > 130, "{compared}");
}

/// How many problems are drawn: `ROOM_CASES` of them, from `ROOM_FROM` on.
#[test]
fn room_of_tensor_groups_is_that_of_brute_force() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let (from, cases) = (number("ROOM_FROM", 0), number("ROOM_CASES", 300));
    let seen: Vec<bool> = (from..from + cases).into_par_iter().filter_map(compare).collect();
    let planned = seen.iter().filter(|&&is_planned| is_planned).count() as u64;
    println!("{cases} drawn, {} compared, {planned} with a plan", seen.len());
    assert!(
        seen.len() as u64 * 10 > cases * 8 && planned * 2 > cases,
        "{} {planned}",
        seen.len()
    );
}
