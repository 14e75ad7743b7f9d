//! Prompts that are read in chunks, against all plans: what a chunk takes is computed here from the file, and runs are the longest of all rows of tasks
//! that wait for each other.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check::{check, pose};
use stagecut::instance::Instance;
use stagecut::options::{ChunkSizes, Communication, Constraint, MemoryLimit, Mode, PipelineOptions};
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::simulate::{Request, simulate};
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, MicroBatchSpec, NetworkSpec, TensorSpec,
    TimesSpec, WorkSpec,
};
use stagecut::{Options, Watch, bound, evaluate, solve};

use crate::common::seeds;

/// Parts of a forward time in ms: all of it, attention, what is fixed.
fn times(rng: &mut ChaCha8Rng) -> TimesSpec {
    let us = |n: u32| f64::from(n) / 1e3;
    let parts: [u32; 3] = std::array::from_fn(|_| rng.random_range(0..=20));
    TimesSpec {
        forward_ms: Some(us(parts.iter().sum())),
        attention_ms: Some(us(parts[0])),
        fixed_ms: rng.random_bool(0.5).then(|| us(parts[1])),
        ..TimesSpec::default()
    }
}

pub fn layer(rng: &mut ChaCha8Rng, at: usize, kinds: &[DeviceKindSpec]) -> LayerSpec {
    let mut few = |most: u32| f64::from(rng.random_range(0..=most));
    let sizes = LayerSpec {
        id: format!("l{at}"),
        parameter_bytes: few(20),
        resident_bytes: few(5),
        kv_bytes_per_token: (few(3) - 1.0).max(0.0),
        state_bytes_per_sequence: few(3),
        ..LayerSpec::default()
    };
    match rng.random_range(0..4) {
        0 => {
            let own = times(rng);
            LayerSpec {
                forward_ms: own.forward_ms,
                attention_ms: own.attention_ms,
                fixed_ms: own.fixed_ms,
                ..sizes
            }
        }
        1 => {
            let known = rng.random_range(1..=kinds.len());
            let some = kinds
                .sample(rng, known)
                .map(|kind| kind.name.clone())
                .collect::<Vec<_>>();
            LayerSpec {
                times: some.into_iter().map(|kind| (kind, times(rng))).collect(),
                ..sizes
            }
        }
        _ => {
            let mut few = |most: u32| f64::from(rng.random_range(0..=most));
            let (attention, rest) = (few(30), few(30));
            LayerSpec {
                work: Some(WorkSpec {
                    forward_flops: attention + rest,
                    forward_bytes: few(40),
                    attention_flops: Some(attention),
                    ..WorkSpec::default()
                }),
                ..sizes
            }
        }
    }
}

fn kind(rng: &mut ChaCha8Rng, at: usize) -> DeviceKindSpec {
    DeviceKindSpec {
        name: format!("k{at}"),
        count: Some(rng.random_range(1..=3)),
        memory_bytes: rng
            .random_bool(0.7)
            .then(|| f64::from(rng.random_range(20..=300))),
        flops_per_s: Some(1e6 * f64::from(rng.random_range(1..=4))),
        memory_bytes_per_s: Some(1e6 * f64::from(rng.random_range(1..=4))),
        efficiency: Some(0.5),
        launch_ms: rng.random_bool(0.3).then_some(0.002),
        pays_communication: rng.random_bool(0.8),
        ..DeviceKindSpec::default()
    }
}

pub fn drawn(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rng = &mut rng;
    let kinds = if seed.is_multiple_of(2) {
        1
    } else {
        rng.random_range(2..=3)
    };
    let kinds: Vec<DeviceKindSpec> = (0..kinds).map(|at| kind(rng, at)).collect();
    let count = rng.random_range(2..=6);
    let mut layers: Vec<LayerSpec> = (0..count).map(|at| layer(rng, at, &kinds)).collect();
    let mut tensors = Vec::new();
    for at in 0..count - 1 {
        let mut consumers: Vec<usize> = (at + 1..count).filter(|_| rng.random_bool(0.3)).collect();
        if consumers.is_empty() && (seed.is_multiple_of(3) || rng.random_bool(0.9)) {
            consumers.push(at + 1);
        }
        let bytes = f64::from(rng.random_range(0..=30u8));
        let is_timed = rng.random_bool(0.2);
        tensors.push(TensorSpec {
            producer: format!("l{at}"),
            consumers: consumers.iter().map(|to| format!("l{to}")).collect(),
            bytes: (!is_timed).then_some(bytes),
            transfer_ms: is_timed.then_some(bytes / 1e3),
        });
    }
    tensors.retain(|tensor| !tensor.consumers.is_empty());
    if rng.random_bool(0.2) {
        for at in [0, count - 1] {
            layers[at].parameter_bytes = layers[at].parameter_bytes.max(7.0);
            (layers[at].shared, layers[at].shared_bytes) = (Some("table".into()), Some(7.0));
        }
    }
    if rng.random_bool(0.15) {
        let (one, other) = (rng.random_range(0..count), rng.random_range(0..count));
        [one, other]
            .iter()
            .for_each(|&at| layers[at].tie = Some("tie".into()));
    }
    InstanceSpec {
        name: Some(format!("prompt-{seed}")),
        network: NetworkSpec {
            micro_batch: Some(MicroBatchSpec {
                tokens: f64::from(rng.random_range(1..=40u8)),
                ..MicroBatchSpec::default()
            }),
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: kinds,
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: 1e6 * f64::from(rng.random_range(1..=5)),
                latency_ms: f64::from(rng.random_range(0..=2u8)) / 1e3,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        pipeline: asked(rng, count),
        ..InstanceSpec::default()
    }
}

fn asked(rng: &mut ChaCha8Rng, layers: usize) -> PipelineOptions {
    let is_list = rng.random_bool(0.6);
    let sizes = if is_list { rng.random_range(1..=6) } else { 1 };
    let name = |at: usize| format!("l{at}");
    let constraint = match rng.random_range(0..8) {
        0 => Some(Constraint::AtMost(rng.random_range(1..=3))),
        1 => Some(Constraint::Apart(vec![name(0), name(layers - 1)])),
        2 => Some(Constraint::Together(vec![name(0), name(1)])),
        _ => None,
    };
    PipelineOptions {
        mode: Some(Mode::Inference),
        stages: rng.random_bool(0.5).then(|| rng.random_range(1..=3)),
        all_stages: rng.random_bool(0.2).then_some(true),
        prompt: (!is_list).then(|| rng.random_range(1..=60)),
        chunks: Some(
            (0..sizes)
                .map(|_| rng.random_range(8..=30))
                .collect::<Vec<u64>>()
                .into(),
        ),
        communication: [
            None,
            Some(Communication::Ignored),
            Some(Communication::Blocking),
            Some(Communication::Overlapped),
        ][rng.random_range(0..4)],
        memory_limit: rng
            .random_bool(0.2)
            .then(|| MemoryLimit::Bytes(rng.random_range(30..=300))),
        tokens: rng.random_bool(0.3).then(|| rng.random_range(1..=80)),
        sequences: rng.random_bool(0.3).then(|| rng.random_range(1..=3)),
        constraints: constraint.map(|constraint| vec![constraint]),
        ..PipelineOptions::default()
    }
}

/// Tokens before each chunk of a prompt, and its own, as parts of a micro-batch.
pub fn chunks(spec: &InstanceSpec) -> Vec<[f64; 2]> {
    let sizes = spec.pipeline.given_chunks().expect("chunks");
    let of = spec.network.micro_batch.as_ref().expect("tokens").tokens;
    let tokens = spec.pipeline.prompt.unwrap_or(sizes.iter().sum());
    let (mut chunks, mut before) = (Vec::new(), 0);
    while before < tokens {
        let size = sizes
            .get(chunks.len())
            .unwrap_or(&sizes[0])
            .min(&(tokens - before))
            .to_owned();
        chunks.push([before as f64 / of, size as f64 / of]);
        before += size;
    }
    chunks
}

/// The stage of every layer, and how many there are, in every way that keeps order, ties and constraints.
pub fn assignments(spec: &InstanceSpec, settings: &Settings) -> Vec<(Vec<usize>, usize)> {
    let layers = spec.network.layers.len();
    let stages = settings.stages.min(layers);
    let with_count = |code: usize| {
        let digit = |layer: usize| code / stages.pow(layer as u32) % stages;
        let stage_of: Vec<usize> = (0..layers).map(digit).collect();
        let used = stage_of.iter().max().map_or(0, |last| last + 1);
        (stage_of, used)
    };
    (0..stages.pow(layers as u32))
        .map(with_count)
        .filter(|(stage_of, used)| is_allowed(spec, settings, (stage_of, *used)))
        .collect()
}

fn is_allowed(spec: &InstanceSpec, settings: &Settings, (stage_of, used): (&[usize], usize)) -> bool {
    let layers = &spec.network.layers;
    let at = |name: &String| {
        stage_of[layers
            .iter()
            .position(|layer| layer.id == *name)
            .expect("a layer")]
    };
    let of = |stage: usize| stage_of.iter().filter(move |&&at| at == stage).count();
    let mut tensors = spec.network.tensors.iter();
    let is_ordered = tensors.all(|tensor| tensor.consumers.iter().all(|to| at(&tensor.producer) <= at(to)));
    let tied = layers
        .iter()
        .zip(stage_of)
        .filter(|(layer, _)| layer.tie.is_some());
    let tied: BTreeSet<&usize> = tied.map(|(_, stage)| stage).collect();
    let keeps = |constraint: &Constraint| match constraint {
        Constraint::AtMost(most) => (0..used).all(|stage| of(stage) <= *most),
        Constraint::Apart(names) => at(&names[0]) != at(&names[1]),
        Constraint::Together(names) => at(&names[0]) == at(&names[1]),
        Constraint::Cuts(_) => unreachable!(),
    };
    is_ordered
        && tied.len() <= 1
        && (0..used).all(|stage| of(stage) > 0)
        && (!settings.all_stages || used == settings.stages)
        && spec.pipeline.constraints.iter().flatten().all(keeps)
}

/// A problem in the words of its file.
struct Every<'a> {
    spec: &'a InstanceSpec,
    settings: &'a Settings,
    /// Tokens before each chunk, and its own, as parts of a micro-batch.
    chunks: Vec<[f64; 2]>,
    stage_of: Vec<usize>,
    best_ns: Option<u64>,
}

impl<'a> Every<'a> {
    fn search(spec: &'a InstanceSpec, settings: &'a Settings) -> Option<u64> {
        let mut every = Every {
            spec,
            settings,
            chunks: chunks(spec),
            stage_of: Vec::new(),
            best_ns: None,
        };
        for (stage_of, used) in assignments(spec, settings) {
            every.stage_of = stage_of;
            let counts = every.kinds().iter().map(|kind| kind.count.expect("a count"));
            every.staff(used, &mut counts.collect(), &mut Vec::new());
        }
        every.best_ns
    }

    fn kinds(&self) -> &'a [DeviceKindSpec] {
        &self.spec.cluster.as_ref().expect("a cluster").device_kinds
    }

    fn at(&self, name: &str) -> usize {
        let mut layers = self.spec.network.layers.iter();
        self.stage_of[layers.position(|layer| layer.id == name).expect("a layer")]
    }

    /// Puts the stages on devices, one after the other.
    fn staff(&mut self, used: usize, left: &mut Vec<usize>, stages: &mut Vec<Vec<[u64; 3]>>) {
        if stages.len() == used {
            let ns = longest_ns(stages, self.settings);
            self.best_ns = Some(self.best_ns.map_or(ns, |best| best.min(ns)));
            return;
        }
        for kind in 0..left.len() {
            let fits = left[kind] > 0 && self.fits(stages.len(), kind);
            let Some(each) = fits.then(|| self.each_ns(stages.len(), kind)).flatten() else {
                continue;
            };
            left[kind] -= 1;
            stages.push(each);
            self.staff(used, left, stages);
            stages.pop();
            left[kind] += 1;
        }
    }

    fn fits(&self, stage: usize, kind: usize) -> bool {
        let own = self.kinds()[kind].memory_bytes;
        let given = self.spec.pipeline.memory_limit.and_then(MemoryLimit::bytes);
        let limit = given.map_or(own.unwrap_or(f64::INFINITY), |bytes| bytes as f64);
        let layers = self.spec.network.layers.iter().zip(&self.stage_of);
        let held = layers.filter(|(_, at)| **at == stage).map(|(layer, _)| layer);
        let asked = &self.spec.pipeline;
        // The prompt is kept, of a sequence at least.
        let of = self.spec.network.micro_batch.as_ref().map_or(0.0, |of| of.tokens);
        let read: f64 = self.chunks.iter().map(|[_, part]| (part * of).round()).sum();
        let tokens = read.max(asked.tokens.unwrap_or(0) as f64);
        let sequences = asked.sequences.unwrap_or(1) as f64;
        let mut bytes = 0.0;
        let mut tables = 0;
        for layer in held {
            bytes += layer.parameter_bytes + layer.resident_bytes;
            bytes += tokens * layer.kv_bytes_per_token + sequences * layer.state_bytes_per_sequence;
            tables += usize::from(layer.shared.is_some());
        }
        bytes - if tables == 2 { 7.0 } else { 0.0 } <= limit
    }

    /// What each chunk takes to come in, to be worked on and to leave; `None` where some layer has no time there.
    fn each_ns(&self, stage: usize, kind: usize) -> Option<Vec<[u64; 3]>> {
        let pays =
            self.kinds()[kind].pays_communication && self.settings.communication != Communication::Ignored;
        let of_chunk = |&[before, part]: &[f64; 2]| {
            let pairs = part * (2.0 * before + part);
            let mut parts = [0; 3];
            for (layer, _) in self
                .spec
                .network
                .layers
                .iter()
                .zip(&self.stage_of)
                .filter(|(_, at)| **at == stage)
            {
                parts[1] += layer_ns(layer, &self.kinds()[kind], [part, pairs])?;
            }
            for tensor in self.spec.network.tensors.iter().filter(|_| pays) {
                let mut ends: Vec<usize> = tensor.consumers.iter().map(|to| self.at(to)).collect();
                ends.push(self.at(&tensor.producer));
                if ends.contains(&stage) && ends.iter().any(|&end| end != stage) {
                    let way = 2 * usize::from(self.at(&tensor.producer) == stage);
                    parts[way] += self.moved_ns(tensor, part);
                }
            }
            Some(parts)
        };
        self.chunks.iter().map(of_chunk).collect()
    }

    /// What moves of a tensor for so much of a micro-batch.
    fn moved_ns(&self, tensor: &TensorSpec, part: f64) -> u64 {
        let link = self
            .spec
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.link.as_ref())
            .expect("a link");
        let timed = tensor
            .transfer_ms
            .map_or(0.0, |ms| (part * (1e6 * ms).round()).round());
        let bytes = (part * tensor.bytes.unwrap_or(0.0)).round();
        let sent = (1e9 * bytes / link.bandwidth_bytes_per_s).round() + (1e6 * link.latency_ms).round();
        (timed + if bytes > 0.0 { sent } else { 0.0 }) as u64
    }
}

/// What a layer takes on a kind for a chunk, of so many tokens and pairs of tokens as parts of a micro-batch's, in ns.
pub fn layer_ns(layer: &LayerSpec, kind: &DeviceKindSpec, [part, pairs]: [f64; 2]) -> Option<u64> {
    let measured = layer
        .times
        .get(&kind.name)
        .cloned()
        .or(layer.forward_ms.map(|_| TimesSpec {
            forward_ms: layer.forward_ms,
            attention_ms: layer.attention_ms,
            fixed_ms: layer.fixed_ms,
            ..TimesSpec::default()
        }));
    if let Some(times) = measured {
        let [forward, attention, fixed] =
            [times.forward_ms, times.attention_ms, times.fixed_ms].map(|ms| 1e6 * ms.unwrap_or(0.0));
        let rest = forward.round() - attention.round() - fixed.round();
        return Some((fixed.round() + (rest * part + attention.round() * pairs)).round() as u64);
    }
    let work = layer.work.as_ref()?;
    let [arithmetic_ns, traffic_ns] = [kind.flops_per_s?, kind.memory_bytes_per_s?]
        .map(|rate| move |amount: f64| 1e9 * amount / (0.5 * rate));
    let attention = work.attention_flops.unwrap_or(0.0);
    let arithmetic = arithmetic_ns(work.forward_flops - attention) * part + arithmetic_ns(attention) * pairs;
    let weights = layer.parameter_bytes.min(work.forward_bytes);
    let traffic = traffic_ns(weights) + traffic_ns(work.forward_bytes - weights) * part;
    let is_idle = work.forward_flops == 0.0 && work.forward_bytes == 0.0;
    let launch = if is_idle {
        0.0
    } else {
        1e6 * kind.launch_ms.unwrap_or(0.0)
    };
    Some((launch + arithmetic.max(traffic)).round() as u64)
}

/// The longest of all rows of tasks that wait for each other: each stage takes chunks in their order, and works on one that is there. Where transfers are beside
/// the work, links take them in their order, and a link in may start with the link out that it takes from.
///
/// * `stages`: what each chunk takes on each stage to come in, to be worked on and to leave.
pub fn longest_ns(stages: &[Vec<[u64; 3]>], settings: &Settings) -> u64 {
    let is_apart = settings.communication == Communication::Overlapped;
    let takes = |k: usize, chunk: usize| match stages[k][chunk] {
        parts if is_apart => parts,
        parts => [0, parts.iter().sum(), 0],
    };
    let mut starts = vec![vec![[0u64; 3]; stages[0].len()]; stages.len()];
    let mut last = 0;
    for (k, chunk) in (0..stages.len()).flat_map(|k| (0..stages[0].len()).map(move |chunk| (k, chunk))) {
        let own = takes(k, chunk);
        for part in 0..3 {
            let mut waits = vec![0];
            if chunk > 0 {
                waits.push(starts[k][chunk - 1][part] + takes(k, chunk - 1)[part]);
            }
            if part > 0 {
                waits.push(starts[k][chunk][part - 1] + own[part - 1]);
            }
            if k > 0 && part == 0 {
                waits.push(starts[k - 1][chunk][2]);
            }
            if k > 0 && part == 1 {
                waits.push(starts[k - 1][chunk][2] + takes(k - 1, chunk)[2]);
            }
            starts[k][chunk][part] = waits.into_iter().max().unwrap_or(0);
            last = last.max(starts[k][chunk][part] + own[part]);
        }
    }
    last
}

fn ns(ms: f64) -> u64 {
    (1e6 * ms).round() as u64
}

/// Whether a drawn problem is not refused, and has a plan; then it is the best, the checker accepts it and it runs as it says.
fn is_best(seed: u64) -> Option<bool> {
    let spec = drawn(seed);
    let instance = Instance::from_spec(&spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let best = Every::search(&spec, &settings);
    let plan = match solve(&instance, &Options::default()) {
        Ok(plan) => plan,
        // Fewer items than stages that are all to hold something.
        Err(error) if error.to_string().contains("under `all_stages`") => return None,
        Err(error) => panic!("seed {seed}: {error}"),
    };
    assert_eq!(check(&instance, &settings, &plan), [], "seed {seed}");
    let expected = if best.is_some() {
        Status::Optimal
    } else {
        Status::Infeasible
    };
    assert_eq!(
        (plan.status, plan.objective_ms.map(ns)),
        (expected, best),
        "seed {seed}"
    );
    if best.is_some() {
        let run = simulate(&plan, &Request::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(Some(ns(run.iteration_ms)), best, "seed {seed}");
        let mut wrong = plan;
        match wrong.stages[0].chunk_transfers.first_mut() {
            Some(moved) => moved.out_ms += 1.0,
            None => wrong.stages[0].chunks_ms[0] += 1.0,
        }
        assert_eq!(check(&instance, &settings, &wrong).len(), 1, "seed {seed}");
    }
    Some(best.is_some())
}

#[test]
fn prompts_are_read_as_soon_as_by_brute_force() {
    let found: Vec<bool> = seeds(1_500).into_par_iter().filter_map(is_best).collect();
    let planned = found.iter().filter(|&&is_planned| is_planned).count();
    println!("{} compared, {planned} with a plan", found.len());
    assert!(found.len() > 1_000 && planned > 600, "{} {planned}", found.len());
}

/// The sizes of chunks that a problem is to choose from, and of what prompt.
fn choice(seed: u64) -> (u64, ChunkSizes, Vec<u64>) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x51_2e);
    let prompt: u64 = rng.random_range(1..=if seed.is_multiple_of(50) { 300 } else { 60 });
    if rng.random_bool(0.5) {
        let mut powers = Vec::new();
        let mut size = 1;
        while size < prompt {
            if prompt.div_ceil(size) <= 256 {
                powers.push(size);
            }
            size *= 2;
        }
        powers.push(prompt);
        return (prompt, ChunkSizes::Choose(Vec::new()), powers);
    }
    let sizes: BTreeSet<u64> = (0..rng.random_range(1..=4))
        .map(|_| rng.random_range(1..=70))
        .collect();
    let sizes: Vec<u64> = sizes.into_iter().collect();
    (prompt, ChunkSizes::Choose(sizes.clone()), sizes)
}

/// Whether a drawn problem that chooses a size of chunks is not refused, and has a plan; then no plan of any size is better, and what is said of
/// each size is true.
fn chooses_best(seed: u64) -> Option<bool> {
    let (prompt, chunks, sizes) = choice(seed);
    let mut spec = drawn(seed);
    (spec.pipeline.prompt, spec.pipeline.chunks) = (Some(prompt), Some(chunks));
    let mut best = Vec::new();
    for size in sizes {
        let mut at = spec.clone();
        at.pipeline.chunks = Some(vec![size].into());
        let instance = Instance::from_spec(&at).ok()?;
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
        best.push((size, Every::search(&at, &settings)));
    }
    let instance = Instance::from_spec(&spec).expect("a valid file");
    let plan = match solve(&instance, &Options::default()) {
        Ok(plan) => plan,
        Err(error) if error.to_string().contains("under `all_stages`") => return None,
        Err(error) => panic!("seed {seed}: {error}"),
    };
    let posed = pose(&instance, &PipelineOptions::default(), &plan).expect("a problem");
    assert_eq!(check(&instance, &posed.settings, &plan), [], "seed {seed}");
    let least = best.iter().filter_map(|(_, best)| *best).min();
    let status = if least.is_some() {
        Status::Optimal
    } else {
        Status::Infeasible
    };
    assert_eq!(
        (plan.status, plan.objective_ms.map(ns)),
        (status, least),
        "seed {seed}: {best:?}"
    );
    let lower = bound(&instance, &Options::default(), Watch::default()).expect("a bound");
    assert!(
        lower.bound_ms.map(ns) <= Some(least.unwrap_or(u64::MAX)),
        "seed {seed}"
    );
    if least.is_none() || best.len() == 1 {
        return Some(false);
    }
    let took = plan.problem.given_chunks().expect("a size")[0];
    assert!(best.contains(&(took, least)), "seed {seed}: {took} of {best:?}");
    let told: Vec<u64> = plan.chunk_sizes.iter().map(|size| size.tokens).collect();
    assert_eq!(
        told,
        best.iter().map(|(size, _)| *size).collect::<Vec<_>>(),
        "seed {seed}"
    );
    for (told, (_, best)) in plan.chunk_sizes.iter().zip(&best) {
        let takes = told.objective_ms.map(ns);
        assert!(
            takes >= *best && Some(ns(told.bound_ms)) <= *best,
            "seed {seed}: {told:?}, {best:?}"
        );
    }
    let run = simulate(&plan, &Request::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(Some(ns(run.iteration_ms)), least, "seed {seed}");
    // The same stages at another size are no better.
    let again = evaluate(&instance, &Options::default(), &BarePlan::from(&plan)).expect("a plan");
    assert_eq!(
        (again.plan.objective_ms.map(ns), again.violations),
        (least, vec![]),
        "seed {seed}"
    );
    Some(true)
}

#[test]
fn the_size_of_chunks_is_the_best_of_brute_force() {
    let found: Vec<bool> = seeds(1_000).into_par_iter().filter_map(chooses_best).collect();
    let chosen = found.iter().filter(|&&is_chosen| is_chosen).count();
    println!("{} compared, {chosen} with sizes to choose from", found.len());
    assert!(found.len() > 500 && chosen > 250, "{} {chosen}", found.len());
}

/// Equal blocks, of which attention is a part.
fn stack(blocks: usize, asked: PipelineOptions) -> InstanceSpec {
    let block = |at: usize| LayerSpec {
        id: format!("b{at}"),
        forward_ms: Some(2.0),
        attention_ms: Some(0.5),
        fixed_ms: Some(0.1),
        ..LayerSpec::default()
    };
    let flow = |at: usize| TensorSpec {
        producer: format!("b{at}"),
        consumers: vec![format!("b{}", at + 1)],
        bytes: Some(0.0),
        transfer_ms: None,
    };
    InstanceSpec {
        name: Some("stack".into()),
        network: NetworkSpec {
            micro_batch: Some(MicroBatchSpec {
                tokens: 1_000.0,
                ..MicroBatchSpec::default()
            }),
            layers: (0..blocks).map(block).collect(),
            tensors: (0..blocks - 1).map(flow).collect(),
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            mode: Some(Mode::Inference),
            ..asked
        },
        ..InstanceSpec::default()
    }
}

fn blocks(plan: &Plan) -> Vec<usize> {
    plan.stages.iter().map(|stage| stage.forward.len()).collect()
}

#[test]
fn what_is_over_lies_on_the_last_stages() {
    for (count, stages, chunks) in [(10, 2, 4), (13, 4, 8), (15, 4, 6), (22, 5, 16)] {
        let asked = PipelineOptions {
            stages: Some(stages),
            prompt: Some(1_000 * chunks),
            chunks: Some(vec![1_000].into()),
            ..PipelineOptions::default()
        };
        let instance = Instance::from_spec(&stack(count, asked)).expect("a valid file");
        let plan = solve(&instance, &Options::default()).expect("a plan");
        let counts = blocks(&plan);
        assert_eq!(plan.status, Status::Optimal, "{counts:?}");
        assert!(counts.is_sorted() && counts[0] < counts[stages - 1], "{counts:?}");
        // The same stages the other way round.
        let turned: Vec<usize> = counts.iter().rev().copied().collect();
        let ms = cost_ms(&instance, &turned);
        assert!(ms > plan.objective_ms.expect("a plan"), "{turned:?}");
    }
}

/// What stages of so many layers, in order, come to.
fn cost_ms(instance: &Instance, counts: &[usize]) -> f64 {
    let mut layers = instance.network.layers.iter().map(|layer| layer.id.clone());
    let stage = |&count: &usize| BareStage {
        layers: layers.by_ref().take(count).collect(),
        ..BareStage::default()
    };
    let bare = BarePlan {
        stages: counts.iter().map(stage).collect(),
    };
    let evaluation = evaluate(instance, &Options::default(), &bare).expect("a plan");
    assert_eq!(evaluation.violations, []);
    evaluation.plan.objective_ms.expect("a time")
}

/// Options as a file has them, and what is said of them.
const REFUSED: [(&str, &str); 15] = [
    (r#"{"mode": "training"}"#, "`training` with a prompt"),
    (r#"{"objective": "period"}"#, "`period` with a prompt"),
    (r#"{"objective": "tokens"}"#, "`tokens` with a prompt"),
    (r#"{"replicas": 2}"#, "replicas of stages"),
    (r#"{"expert": 2}"#, "experts that they share out"),
    (r#"{"context_parallel": 2}"#, "inference"),
    (r#"{"virtual_stages": 2}"#, "virtual stages with a prompt"),
    (r#"{"groups": "assign"}"#, "groups with a prompt"),
    (r#"{"micro_batches": 3}"#, "3 with a prompt of 2"),
    (r#"{"prompt": 999}"#, "1000 tokens in chunks of a prompt of 999"),
    (r#"{"chunks": []}"#, "none"),
    (r#"{"chunks": [5, 0]}"#, "from 1 to 2^53"),
    (
        r#"{"prompt": 18446744073709551615, "chunks": [1]}"#,
        "from 1 to 2^53",
    ),
    (r#"{"prompt": 9007199254740992, "chunks": [1]}"#, "of them"),
    (
        r#"{"prompt": 9007199254740992, "chunks": [1125899906842624]}"#,
        "ns",
    ),
];

#[test]
fn what_a_prompt_cannot_be_asked_with_is_refused_by_name() {
    let asked = PipelineOptions {
        stages: Some(2),
        chunks: Some(vec![400, 600].into()),
        ..PipelineOptions::default()
    };
    let instance = Instance::from_spec(&stack(4, asked.clone())).expect("a valid file");
    for (change, with) in REFUSED {
        let change: PipelineOptions = serde_json::from_str(change).expect("options");
        let error = Settings::resolve(&instance, &change).expect_err(with);
        assert!(error.to_string().contains(with), "{with}: {error}");
    }
    let alone = PipelineOptions {
        chunks: None,
        ..asked
    };
    let without = Instance::from_spec(&stack(4, alone)).expect("a valid file");
    let prompt = PipelineOptions {
        prompt: Some(5_000),
        ..PipelineOptions::default()
    };
    let error = Settings::resolve(&without, &prompt).expect_err("no chunks");
    assert!(error.to_string().contains("tokens of a chunk"), "{error}");
}
