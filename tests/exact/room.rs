//! Room for requests, against all plans: the most tokens, and the best time at them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check::check;
use stagecut::instance::Instance;
use stagecut::network::Layer;
use stagecut::options::{Degrees, Groups, MemoryLimit, Mode, Objective, PipelineOptions, WorkerMode};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;
use stagecut::{Options, solve};

use crate::common::{any_spec, plan_ns};
use crate::oracles;

/// A drawn problem in inference, of layers that keep something of tokens and sequences, on devices of limited memory.
fn serving(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xcafe);
    let mut few = |most: u32| f64::from(rng.random_range(0..=most));
    spec.pipeline = PipelineOptions {
        mode: Some(Mode::Inference),
        objective: Some(Objective::Tokens),
        then: Some([Objective::Period, Objective::Latency][seed as usize % 2]),
        sequences: (!seed.is_multiple_of(3)).then_some(seed % 3),
        memory_limit: seed
            .is_multiple_of(5)
            .then(|| MemoryLimit::Bytes(40 + few(60) as u64)),
        stages: spec.pipeline.stages,
        all_stages: spec.pipeline.all_stages,
        communication: spec.pipeline.communication,
        device_kinds: spec.pipeline.device_kinds,
        ..PipelineOptions::default()
    };
    for layer in &mut spec.network.layers {
        (layer.parameter_bytes, layer.resident_bytes) = (few(20), few(5));
        let kept = if layer.backward { 0.0 } else { 1.0 };
        layer.kv_bytes_per_token = kept * few(3);
        layer.state_bytes_per_sequence = kept * few(4);
        for mode in &mut layer.modes {
            let part = 1.0 / mode.tensor.unwrap_or(1) as f64;
            (mode.parameter_bytes, mode.resident_bytes) = ((part * layer.parameter_bytes).ceil(), 0.0);
            mode.gradient_bytes = None;
            mode.kv_bytes_per_token = (part * layer.kv_bytes_per_token).ceil();
            mode.state_bytes_per_sequence = (part * layer.state_bytes_per_sequence).ceil();
            mode.workspace_bytes = 0.0;
        }
    }
    if let Some(cluster) = &mut spec.cluster {
        cluster.groups.clear();
        for kind in &mut cluster.device_kinds {
            kind.memory_bytes = Some(20.0 + few(80));
        }
    }
    spec
}

/// Every plan by its memory alone: which stage holds each layer, and what it runs on.
struct Every<'a> {
    instance: &'a Instance,
    settings: &'a Settings,
    stage_of: Vec<usize>,
    /// Devices left of each kind.
    left: Vec<usize>,
    most: Option<u64>,
}

impl Every<'_> {
    fn search(instance: &Instance, settings: &Settings) -> Option<u64> {
        let count = |kind: usize| match settings.kinds.contains(&kind) {
            true => settings.count(&instance.cluster, kind).unwrap_or(settings.stages),
            false => 0,
        };
        let mut every = Every {
            instance,
            settings,
            stage_of: Vec::new(),
            left: (0..instance.cluster.kinds.len()).map(count).collect(),
            most: None,
        };
        every.place();
        every.most
    }

    fn layers(&self) -> Vec<&Layer> {
        self.instance.network.layers.iter().collect()
    }

    /// Gives each layer a stage; backward operators go with nobody.
    fn place(&mut self) {
        let at = self.stage_of.len();
        let layers = self.layers().len();
        if at < layers {
            let stages = if self.layers()[at].backward {
                1
            } else {
                self.settings.stages.min(layers)
            };
            for stage in 0..stages {
                self.stage_of.push(stage);
                self.place();
                self.stage_of.pop();
            }
            return;
        }
        if let Some(stages) = self.stages() {
            self.staff(&stages, u64::MAX);
        }
    }

    /// The layers of each stage, if they keep the order and ties, with none empty.
    fn stages(&self) -> Option<Vec<Vec<usize>>> {
        let layers = self.layers();
        let runs = |layer: &usize| !layers[*layer].backward;
        let network = &self.instance.network;
        let is_ordered = network
            .tensors
            .iter()
            .filter(|tensor| runs(&tensor.producer))
            .all(|tensor| {
                let mut consumers = tensor.consumers.iter().filter(|to| runs(to));
                consumers.all(|&to| self.stage_of[tensor.producer] <= self.stage_of[to])
            });
        let tied =
            |one: usize, other: usize| layers[one].tie.is_some() && layers[one].tie == layers[other].tie;
        let own: Vec<usize> = (0..layers.len()).filter(runs).collect();
        let is_tied = own.iter().all(|&one| {
            own.iter()
                .all(|&other| !tied(one, other) || self.stage_of[one] == self.stage_of[other])
        });
        let used = own.iter().map(|&layer| self.stage_of[layer] + 1).max()?;
        let stages: Vec<Vec<usize>> = (0..used)
            .map(|stage| {
                own.iter()
                    .copied()
                    .filter(|&layer| self.stage_of[layer] == stage)
                    .collect()
            })
            .collect();
        let is_full = stages.iter().all(|stage| !stage.is_empty());
        let is_asked = !self.settings.all_stages || used == self.settings.stages.min(own.len());
        (is_ordered && is_tied && is_full && is_asked).then_some(stages)
    }

    /// Puts the stages on devices, one after the other; `tokens` is what those before have room for.
    fn staff(&mut self, stages: &[Vec<usize>], tokens: u64) {
        let Some((stage, behind)) = stages.split_first() else {
            self.most = self.most.max(Some(tokens));
            return;
        };
        for kind in 0..self.left.len() {
            let Some(own) = self.tokens(stage, kind).filter(|_| self.left[kind] > 0) else {
                continue;
            };
            self.left[kind] -= 1;
            self.staff(behind, tokens.min(own));
            self.left[kind] += 1;
        }
    }

    /// Tokens that a stage has room for on a device of a kind.
    fn tokens(&self, stage: &[usize], kind: usize) -> Option<u64> {
        let own = self.instance.cluster.kinds[kind].memory_bytes;
        let limit = self.settings.memory_limit.or(own)?;
        let (mut held, mut of_a_token) = (0, 0);
        for &at in stage {
            let layer = self.layers()[at];
            layer.times[kind]?;
            held += layer.parameter_bytes + layer.resident_bytes;
            held += self.settings.room.sequences * layer.cache.sequence_bytes;
            of_a_token += layer.cache.token_bytes;
        }
        let left = limit.checked_sub(held)?;
        Some(left.checked_div(of_a_token).unwrap_or(u64::MAX))
    }
}

/// A problem whose plans are few enough to be listed.
fn posed(spec: &InstanceSpec) -> Option<(Instance, Settings)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    // What is refused has no answer.
    let formed = Problem::new(&instance, settings.clone());
    formed
        .err()
        .is_none_or(|error| error.is_infeasible())
        .then_some(())?;
    let is_small = instance
        .network
        .layers
        .iter()
        .filter(|layer| !layer.backward)
        .count()
        <= 6;
    is_small.then_some((instance, settings))
}

/// The plan of the most tokens, which the checker accepts and brute force says is right.
fn with_most_tokens(seed: u64, instance: &Instance, settings: &Settings) -> Plan {
    let plan = solve(instance, &Options::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(check(instance, settings, &plan), [], "seed {seed}");
    let most = Every::search(instance, settings);
    assert_eq!(plan.tokens, most, "seed {seed}: {:?}", plan.status);
    assert_eq!(plan.tokens_bound, most, "seed {seed}");
    let expected = if most.is_some() {
        Status::Optimal
    } else {
        Status::Infeasible
    };
    assert_eq!(plan.status, expected, "seed {seed}");
    plan
}

/// The same problem, asked for so many tokens.
fn at(instance: &Instance, settings: &Settings, tokens: u64) -> Settings {
    let asked = PipelineOptions {
        objective: Some(settings.objective),
        tokens: Some(tokens).filter(|&tokens| tokens > 0),
        ..PipelineOptions::default()
    };
    let mut file = instance.clone();
    file.pipeline.objective = None;
    file.pipeline.then = None;
    file.pipeline.sequences = Some(settings.room.sequences);
    Settings::resolve(&file, &asked).expect("room is asked for")
}

/// Whether a drawn problem has a plan; then it is the best of all plans, and none has room for a token more.
fn is_best(seed: u64) -> Option<()> {
    let (instance, settings) = posed(&serving(any_spec(seed), seed))?;
    let plan = with_most_tokens(seed, &instance, &settings);
    let tokens = plan.tokens?;
    let best = |tokens: u64| {
        let problem = Problem::new(&instance, at(&instance, &settings, tokens)).ok()?;
        let found = match &problem.workers {
            Some(workers) => oracles::allocations::solve(&problem, workers)
                .ok()?
                .map(|(_, ns)| ns),
            None => oracles::brute_force::solve(&problem).ok()?.map(|(_, ns)| ns),
        };
        found.filter(|_| !problem.settings.is_simulated())
    };
    if !settings.is_simulated() {
        assert_eq!(plan_ns(&plan), best(tokens), "seed {seed}");
        assert_eq!(best(tokens + 1), None, "seed {seed}");
    }
    Some(())
}

#[test]
fn the_most_tokens_are_those_of_brute_force() {
    let compared = (0..1_500_u64).into_par_iter().filter_map(is_best).count();
    assert!(compared > 800, "{compared}");
}

#[test]
fn the_most_tokens_of_more_problems_are_those_of_brute_force() {
    let compared = (1_500..9_000_u64).into_par_iter().filter_map(is_best).count();
    assert!(compared > 4_200, "{compared}");
}

#[test]
fn room_is_kept_by_every_heuristic_and_refused_by_name_elsewhere() {
    let mut spec = serving(any_spec(1), 1);
    spec.pipeline.mode = Some(Mode::Training);
    let instance = Instance::from_spec(&spec).expect("a valid file");
    let refused = |change: PipelineOptions, with: &str| {
        let error = Settings::resolve(&instance, &change).expect_err("it cannot be asked");
        assert!(error.to_string().contains(with), "{error}");
    };
    refused(
        PipelineOptions::default(),
        "`training` with `objective=\"tokens\"`",
    );
    let asked = PipelineOptions {
        mode: Some(Mode::Inference),
        ..PipelineOptions::default()
    };
    let replicas = Some(Degrees::Choose);
    refused(
        PipelineOptions {
            replicas,
            ..asked.clone()
        },
        "replicas with",
    );
    let groups = Some(Groups::Assign);
    refused(
        PipelineOptions {
            groups,
            ..asked.clone()
        },
        "groups with",
    );
    let worker = Some(WorkerMode::Concurrent);
    refused(
        PipelineOptions {
            worker,
            ..asked.clone()
        },
        "worker",
    );
    let then = Some(Objective::Iteration);
    refused(
        PipelineOptions {
            then,
            ..asked.clone()
        },
        "`period` or `latency`",
    );
    let tokens = Some(0);
    let objective = Some(Objective::Period);
    refused(
        PipelineOptions {
            tokens,
            objective,
            ..asked.clone()
        },
        "from 1 to",
    );
    let (tokens, context) = (Some(4), Some(4));
    refused(
        PipelineOptions {
            tokens,
            context,
            objective,
            ..asked
        },
        "context",
    );
}
