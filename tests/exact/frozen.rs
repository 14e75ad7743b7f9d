//! Frozen layers: what they take and hold, against brute force that works it out from what the file says.

use crate::common::seeds;
use crate::in_modes::found;
use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::options::{Communication, Cuts, MemoryLimit, Mode, PipelineOptions, Schedule, StatePrecision};
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};

const MICRO_BATCHES: u64 = 3;

/// A small network whose layers are frozen here and there, often from its beginning on. A byte takes a millionth of a second.
fn spec(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = rng.random_range(3..=6);
    let tower = rng.random_range(0..count);
    let mut layers = Vec::new();
    for at in 0..count {
        let backward = rng.random_range(0..=6);
        layers.push(LayerSpec {
            id: format!("n{at}"),
            forward_ms: Some(rng.random_range(0..=4).into()),
            backward_ms: Some(backward.into()),
            weight_ms: rng
                .random_bool(0.5)
                .then(|| rng.random_range(0..=backward).into()),
            parameter_bytes: rng.random_range(0..=5).into(),
            stash_bytes: rng.random_range(0..=4).into(),
            resident_bytes: rng.random_range(0..=2).into(),
            frozen: at < tower || rng.random_bool(0.2),
            ..LayerSpec::default()
        });
    }
    let mut tensors = Vec::new();
    for from in 0..count - 1 {
        let mut consumers: Vec<usize> = (from + 1..count).filter(|_| rng.random_bool(0.4)).collect();
        if consumers.is_empty() {
            consumers.push(from + 1);
        }
        tensors.push(TensorSpec {
            producer: format!("n{from}"),
            consumers: consumers.iter().map(|to| format!("n{to}")).collect(),
            bytes: Some(1e3 * f64::from(rng.random_range(0..=3))),
            transfer_ms: None,
        });
    }
    InstanceSpec {
        name: Some(format!("frozen-{seed}")),
        network: NetworkSpec {
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "gpu".into(),
                count: Some(3),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: 1e6,
                latency_ms: 0.25,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        pipeline: PipelineOptions {
            stages: Some(rng.random_range(2..=3)),
            mode: Some(Mode::Training),
            communication: Some(Communication::Blocking),
            schedule: Some(Schedule::Gpipe),
            precision: Some(StatePrecision::Uniform),
            micro_batches: Some(MICRO_BATCHES),
            objective: Some(stagecut::options::Objective::Period),
            memory_limit: rng
                .random_bool(0.6)
                .then(|| MemoryLimit::Bytes(rng.random_range(20..=60))),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    }
}

/// What the file says, by position.
struct Written {
    layers: Vec<LayerSpec>,
    /// Producer, consumers and ms of each tensor.
    tensors: Vec<(usize, Vec<usize>, f64)>,
    /// Whether each layer is trained, or reads what comes from one that is.
    is_behind_trained: Vec<bool>,
}

impl Written {
    fn new(spec: &InstanceSpec) -> Self {
        let layers = spec.network.layers.clone();
        let at = |id: &String| layers.iter().position(|layer| layer.id == *id).unwrap();
        let tensor = |tensor: &TensorSpec| {
            let bytes = tensor.bytes.unwrap();
            let ms = if bytes > 0.0 { bytes / 1e3 + 0.25 } else { 0.0 };
            (
                at(&tensor.producer),
                tensor.consumers.iter().map(at).collect(),
                ms,
            )
        };
        let tensors: Vec<(usize, Vec<usize>, f64)> = spec.network.tensors.iter().map(tensor).collect();
        let mut is_behind_trained: Vec<bool> = layers.iter().map(|layer| !layer.frozen).collect();
        // Layers stand in the order of the data.
        for (producer, consumers, _) in &tensors {
            consumers
                .iter()
                .for_each(|&to| is_behind_trained[to] |= is_behind_trained[*producer]);
        }
        Self {
            layers,
            tensors,
            is_behind_trained,
        }
    }

    /// The busiest stage of a plan in ms; `None` if it is none, or some stage has too little memory.
    fn period_ms(&self, stage_of: &[usize], stages: usize, limit: Option<u64>) -> Option<f64> {
        let mut loads = vec![0.0; stages];
        let mut held = vec![0.0; stages];
        for (at, layer) in self.layers.iter().enumerate() {
            let weights_ms = if layer.frozen {
                layer.weight_ms.unwrap_or(0.0)
            } else {
                0.0
            };
            let back_ms = layer.backward_ms.unwrap() - weights_ms;
            loads[stage_of[at]] +=
                layer.forward_ms.unwrap() + if self.is_behind_trained[at] { back_ms } else { 0.0 };
            // Weight, gradient and two numbers of Adam.
            let kept = if layer.frozen { 1.0 } else { 4.0 };
            let stash = if self.is_behind_trained[at] {
                MICRO_BATCHES as f64 * layer.stash_bytes
            } else {
                0.0
            };
            held[stage_of[at]] += layer.resident_bytes + kept * layer.parameter_bytes + stash;
        }
        for (from, consumers, ms) in &self.tensors {
            let home = stage_of[*from];
            let mut away: Vec<usize> = consumers
                .iter()
                .map(|&to| stage_of[to])
                .filter(|&to| to != home)
                .collect();
            away.sort_unstable();
            away.dedup();
            if away.first().is_some_and(|&to| to < home) {
                return None;
            }
            let ways = if self.is_behind_trained[*from] { 2.0 } else { 1.0 };
            loads[home] += if away.is_empty() { 0.0 } else { ways * ms };
            away.into_iter().for_each(|to| loads[to] += ways * ms);
        }
        let fits = limit.is_none_or(|limit| held.iter().all(|&bytes| bytes <= limit as f64));
        fits.then(|| loads.into_iter().fold(0.0, f64::max))
    }

    fn best_ms(&self, stages: usize, limit: Option<u64>) -> Option<f64> {
        let plans = stages.pow(self.layers.len() as u32);
        let stage_of =
            |plan: usize| (0..self.layers.len()).map(move |at| plan / stages.pow(at as u32) % stages);
        let all =
            (0..plans).filter_map(|plan| self.period_ms(&stage_of(plan).collect::<Vec<_>>(), stages, limit));
        all.reduce(f64::min)
    }
}

fn solve(spec: &InstanceSpec) -> Option<Plan> {
    let instance = Instance::from_spec(spec).unwrap();
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
    found(&instance, &settings, None)
}

#[test]
fn plans_of_frozen_layers_are_those_of_brute_force() {
    let [mut found, mut none, mut apart] = [0, 0, 0];
    for seed in seeds(400) {
        let spec = spec(seed);
        let written = Written::new(&spec);
        let limit = spec.pipeline.memory_limit.and_then(MemoryLimit::bytes);
        let best = written.best_ms(spec.pipeline.stages.unwrap(), limit);
        let plan = solve(&spec);
        let own = plan.as_ref().and_then(|plan| plan.objective_ms);
        let is_same = match (own, best) {
            (Some(own), Some(best)) => (own - best).abs() < 1e-6,
            (own, best) => own.is_none() && best.is_none(),
        };
        assert!(is_same, "seed {seed}: {own:?}, brute force {best:?}");
        match plan.filter(|_| own.is_some()) {
            None => none += 1,
            Some(plan) => {
                assert_eq!(plan.status, Status::Optimal, "seed {seed}");
                found += 1;
            }
        }
        // What the file would be without the word is another problem.
        let mut trained = spec.clone();
        trained
            .network
            .layers
            .iter_mut()
            .for_each(|layer| layer.frozen = false);
        apart += usize::from(solve(&trained).and_then(|plan| plan.objective_ms) != own);
        // An instance says what it is.
        let again = Instance::from_spec(&Instance::from_spec(&spec).unwrap().to_spec()).unwrap();
        assert_eq!(
            again.network,
            Instance::from_spec(&spec).unwrap().network,
            "seed {seed}"
        );
    }
    assert!(found > 250 && none > 10 && apart > 150, "{found} {none} {apart}");
}

/// Two frozen layers, one that is trained, and a frozen one behind it, on at most four stages.
fn tower(cuts: Cuts) -> (Instance, PipelineOptions) {
    let text = "[network]\nlayers = [\n\
        { id = \"a\", forward_ms = 1, backward_ms = 2, parameter_bytes = 100, stash_bytes = 10, frozen = true },\n\
        { id = \"b\", forward_ms = 1, backward_ms = 2, parameter_bytes = 100, stash_bytes = 10, frozen = true },\n\
        { id = \"c\", forward_ms = 1, backward_ms = 2, parameter_bytes = 100, stash_bytes = 10 },\n\
        { id = \"d\", forward_ms = 1, backward_ms = 2, weight_ms = 0.5, parameter_bytes = 100, stash_bytes = 10, frozen = true },\n]\n\
        tensors = [\n{ producer = \"a\", consumers = [\"b\"], bytes = 1e6 },\n{ producer = \"b\", consumers = [\"c\"], bytes = 1e6 },\n\
        { producer = \"c\", consumers = [\"d\"], bytes = 1e6 },\n]\n\
        [cluster]\ndevice_kinds = [{ name = \"gpu\", count = 4 }]\nlink = { bandwidth_bytes_per_s = 1e9 }\n";
    let instance = Instance::from_spec(&toml::from_str(text).unwrap()).unwrap();
    let options = PipelineOptions {
        stages: Some(4),
        cuts: Some(cuts),
        ..PipelineOptions::default()
    };
    (instance, options)
}

/// What each stage takes, by hand.
#[test]
fn a_frozen_tower_by_hand() {
    let (instance, options) = tower(Cuts::Tied);
    let settings = Settings::resolve(&instance, &options).unwrap();
    let stage = |id: &str| BareStage {
        layers: vec![id.into()],
        ..BareStage::default()
    };
    let bare = BarePlan {
        stages: ["a", "b", "c", "d"].map(stage).into(),
    };
    let problem = Problem::new(&instance, settings.clone()).unwrap();
    let found = stagecut::evaluate::evaluate(&instance, &settings, Some(&problem), &bare).unwrap();
    assert_eq!(found.violations, Vec::new());
    let told: Vec<[f64; 4]> = (found.plan.stages.iter())
        .map(|stage| {
            [
                stage.forward_ms,
                stage.backward_ms,
                stage.communication_ms,
                stage.memory_bytes as f64,
            ]
        })
        .collect();
    // 1F1B on four stages: 4, 3, 2 and 1 micro-batches in flight; Adam keeps 400 bytes of what is trained.
    let by_hand = [
        [1.0, 0.0, 1.0, 100.0],
        [1.0, 0.0, 2.0, 100.0],
        [1.0, 2.0, 3.0, 420.0],
        [1.0, 1.5, 2.0, 110.0],
    ];
    assert_eq!(told, by_hand);
}

/// The weights of a frozen layer lie with either of its passes, by hand.
#[test]
fn a_frozen_tower_with_separate_cuts() {
    let (instance, options) = tower(Cuts::Separate);
    let settings = Settings::resolve(&instance, &options).unwrap();
    let names = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<String>>();
    let both = |forward: &[&str], backward: &[&str]| BareStage {
        layers: names(forward),
        backward: Some(names(backward)),
        ..BareStage::default()
    };
    let bare = BarePlan {
        stages: vec![both(&["a", "b", "c"], &["a", "b", "c", "d"]), both(&["d"], &[])],
    };
    let problem = Problem::new(&instance, settings.clone()).unwrap();
    let found = stagecut::evaluate::evaluate(&instance, &settings, Some(&problem), &bare).unwrap();
    assert_eq!(found.violations, Vec::new());
    let held = found.plan.stages.iter().map(|stage| stage.memory_bytes);
    assert_eq!(
        held.collect::<Vec<u64>>(),
        [100 + 100 + (400 + 2 * 10) + (100 + 2 * 10), 100]
    );
    let best = |options: &PipelineOptions| {
        let asked = stagecut::Options {
            pipeline: options.clone(),
            ..stagecut::Options::default()
        };
        stagecut::solve(&instance, &asked).unwrap().objective_ms.unwrap()
    };
    assert!(best(&options) <= best(&tower(Cuts::Tied).1));
}

/// The vision tower of a published case, frozen: 35.1 and not 40.1 GB on its stage, and its tensors go one way.
#[test]
fn a_frozen_vision_tower() {
    let folder = std::path::Path::new("../shared/data/cases/turn3/models");
    if !folder.exists() {
        eprintln!("skipped: no ../shared/data/cases/turn3");
        return;
    }
    let read = |name: &str, frozen: bool| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let mut spec = toml::from_str::<InstanceSpec>(&text).unwrap();
        for layer in spec
            .network
            .layers
            .iter_mut()
            .filter(|layer| layer.id.starts_with("vision"))
        {
            layer.parameter_bytes += std::mem::take(&mut layer.resident_bytes);
            layer.frozen = frozen;
        }
        solve(&spec).unwrap()
    };
    let gigabytes = |plan: &Plan| (plan.stages[0].memory_bytes as f64 / 1e8).round() / 10.0;
    assert_eq!(gigabytes(&read("param.toml", false)), 40.1);
    assert_eq!(gigabytes(&read("param.toml", true)), 35.1);
    let moved: BTreeMap<bool, f64> = [false, true]
        .map(|frozen| (frozen, read("eight.toml", frozen).stages[0].communication_ms))
        .into();
    assert!((moved[&true] - 0.671_089).abs() < 1e-6, "{moved:?}");
}
