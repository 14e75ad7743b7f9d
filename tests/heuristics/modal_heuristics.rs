//! Heuristics where stages have modes: plans that pass the checker and are no better than brute force, each by its own rule; and
//! analytic recomputation of networks that list no modes.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::check;
use stagecut::control::Control;
use stagecut::heuristics::{METHODS, Run};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::network::Times;
use stagecut::options::{Degrees, MemoryLimit, Objective, OptimizerSharding, PipelineOptions, Schedule};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, ModeSpec, NetworkSpec, NodesSpec,
    TensorSpec,
};

/// What a method makes of an instance; every plan passes the checker.
fn solved(method: &str, instance: &Instance, settings: &Settings) -> Plan {
    let problem = Problem::new(instance, settings.clone()).unwrap();
    let method = methods::find(method).unwrap();
    assert_eq!(method.applies(&problem), Ok(()));
    let plan = method.run(instance, &problem, &Control::default()).unwrap();
    let violations = check::check(instance, settings, &plan);
    assert!(violations.is_empty(), "{violations:?}\n{plan:#?}");
    plan
}

/// Methods that know modes of stages.
fn names() -> Vec<&'static str> {
    let knows = |run: &Run| matches!(run, Run::Modal { .. } | Run::HomogeneousOrModal(..));
    let methods = METHODS.iter().filter(|method| knows(&method.run));
    methods.map(|method| method.name).collect()
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0.random_range(0..=most)
    }

    fn may(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    fn bytes(&mut self) -> f64 {
        self.up_to(6) as f64
    }

    fn some_bytes(&mut self) -> f64 {
        if self.may(0.3) { self.bytes() } else { 0.0 }
    }

    /// Modes of a layer: `full` keeps another amount for another time.
    fn modes(&mut self, degrees: &[usize]) -> Vec<ModeSpec> {
        let mut modes = Vec::new();
        for &tensor in degrees {
            let parameter_bytes = self.bytes();
            for recompute in ["none", "selective", "full"] {
                if recompute == "none" || self.may(0.6) {
                    modes.push(ModeSpec {
                        tensor: Some(tensor),
                        recompute: Some(recompute.into()),
                        forward_ms: Some(self.up_to(6) as f64),
                        backward_ms: Some(1.0 + self.up_to(8) as f64),
                        parameter_bytes,
                        stash_bytes: self.bytes(),
                        workspace_bytes: self.some_bytes(),
                        ..ModeSpec::default()
                    });
                }
            }
        }
        modes
    }

    fn network(&mut self, degrees: &[usize], is_chain: bool) -> NetworkSpec {
        let count = 1 + self.up_to(4) as usize;
        let layer = |draw: &mut Self, at: usize| LayerSpec {
            id: format!("l{at}"),
            modes: draw.modes(degrees),
            ..LayerSpec::default()
        };
        let layers: Vec<LayerSpec> = (0..count).map(|at| layer(self, at)).collect();
        let mut tensors = Vec::new();
        for from in 0..count {
            let after = (from + 1..count).filter(|&to| match is_chain {
                true => to == from + 1,
                false => self.may(0.5),
            });
            let consumers: Vec<String> = after.map(|to| format!("l{to}")).collect();
            if !consumers.is_empty() {
                tensors.push(TensorSpec {
                    producer: format!("l{from}"),
                    consumers,
                    bytes: Some(1e6 * self.bytes()),
                    ..TensorSpec::default()
                });
            }
        }
        NetworkSpec {
            layers,
            tensors,
            ..NetworkSpec::default()
        }
    }

    fn cluster(&mut self, has_nodes: bool) -> ClusterSpec {
        let link = |bandwidth_bytes_per_s: f64| LinkSpec {
            bandwidth_bytes_per_s,
            latency_ms: 0.0,
            nodes: None,
        };
        let nodes = has_nodes.then(|| {
            Box::new(NodesSpec {
                devices: 1 + self.up_to(2) as usize,
                link: link(4e9),
            })
        });
        ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                count: Some(1 + self.up_to(4) as usize),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec { nodes, ..link(1e9) }),
            ..ClusterSpec::default()
        }
    }

    fn options(&mut self) -> PipelineOptions {
        PipelineOptions {
            tensor: Some(Degrees::Choose),
            replicas: Some(if self.may(0.7) {
                Degrees::Choose
            } else {
                Degrees::one(1)
            }),
            recompute: Some("choose".parse().unwrap()),
            schedule: self.may(0.2).then_some(Schedule::Gpipe),
            objective: Some(Objective::Period),
            micro_batches: Some([1, 2, 4, 6][self.up_to(3) as usize]),
            memory_limit: self.may(0.8).then(|| MemoryLimit::Bytes(10 + self.up_to(120))),
            all_stages: self.may(0.1).then_some(true),
            optimizer_sharding: self.may(0.3).then_some(OptimizerSharding::Zero1),
            ..PipelineOptions::default()
        }
    }
}

/// An instance and its settings; `None` where the two contradict each other.
fn drawn(spec: &InstanceSpec) -> Option<(Instance, Settings)> {
    let instance = Instance::from_spec(spec).unwrap();
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    Problem::new(&instance, settings.clone()).ok()?;
    settings.modal.then_some((instance, settings))
}

#[test]
fn no_heuristic_beats_brute_force() {
    let mut found: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut compared = 0;
    for seed in 0..3_000 {
        let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
        let (is_chain, has_nodes) = (draw.may(0.5), draw.may(0.4));
        let spec = InstanceSpec {
            network: draw.network(&[1, 2], is_chain),
            cluster: Some(draw.cluster(has_nodes)),
            pipeline: draw.options(),
            ..InstanceSpec::default()
        };
        let Some((instance, settings)) = drawn(&spec) else {
            continue;
        };
        compared += 1;
        let best = crate::oracles::modes::best_ms(&instance, &settings);
        for name in names() {
            let plan = solved(name, &instance, &settings);
            let Some(ms) = plan.objective_ms else { continue };
            let best =
                best.unwrap_or_else(|| panic!("seed {seed}: `{name}` finds a plan where there is none"));
            assert!(ms >= best - 1e-6, "seed {seed}: {ms} by `{name}`, not {best}");
            let bound = plan.bound_ms.unwrap();
            assert!(
                bound <= best + 1e-6,
                "seed {seed}: bound {bound} by `{name}`, not {best}"
            );
            let [plans, optima] = found.entry(name).or_default();
            *plans += 1;
            *optima += usize::from(ms <= best + 1e-6);
        }
    }
    println!("{compared} compared; plans and optima: {found:?}");
    assert!(compared > 1_500);
    assert!(
        found
            .values()
            .all(|&[plans, optima]| plans > 500 && optima < plans)
    );
    assert_eq!(found.len(), 6);
}

/// Each block takes 1 + 2 ms and keeps 5 bytes, or 1 + 3 ms and 1.
fn blocks(count: usize, memory_bytes: u64) -> (Instance, Settings) {
    let modes = [("none", 2.0, 5.0), ("full", 3.0, 1.0)].map(|(name, backward_ms, stash_bytes)| ModeSpec {
        recompute: Some(name.into()),
        forward_ms: Some(1.0),
        backward_ms: Some(backward_ms),
        stash_bytes,
        ..ModeSpec::default()
    });
    let layer = |at: usize| LayerSpec {
        id: format!("block.{at}"),
        modes: modes.to_vec(),
        ..LayerSpec::default()
    };
    let tensor = |at: usize| TensorSpec {
        producer: format!("block.{at}"),
        consumers: vec![format!("block.{}", at + 1)],
        ..TensorSpec::default()
    };
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers: (0..count).map(layer).collect(),
            tensors: (0..count - 1).map(tensor).collect(),
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            stages: Some(2),
            devices: Some(2),
            objective: Some(Objective::Period),
            micro_batches: Some(8),
            recompute: Some("choose".parse().unwrap()),
            memory_limit: Some(MemoryLimit::Bytes(memory_bytes)),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    };
    drawn(&spec).unwrap()
}

/// Period, and the layers that each stage computes again.
fn by(name: &str, memory_bytes: u64) -> Option<(f64, Vec<Vec<String>>)> {
    let (instance, settings) = blocks(6, memory_bytes);
    let plan = solved(name, &instance, &settings);
    let again = |stage: &stagecut::plan::PlanStage| {
        let modes = stage.mode.iter().flat_map(|mode| mode.recomputed.values());
        modes.flatten().cloned().collect()
    };
    Some((plan.objective_ms?, plan.stages.iter().map(again).collect()))
}

/// Six blocks in two stages of three; the first one has two micro-batches in flight.
#[test]
fn rules_compute_again_what_they_say() {
    let layers = |names: &[usize]| names.iter().map(|at| format!("block.{at}")).collect::<Vec<_>>();
    let expected = |ms: f64, first: &[usize], last: &[usize]| Some((ms, vec![layers(first), layers(last)]));
    // 30 bytes keep all on the first stage, 14 two of three blocks computed again, 6 all.
    assert_eq!(by("recompute-none", 30), expected(9.0, &[], &[]));
    assert_eq!(by("recompute-none", 29), None);
    assert_eq!(by("recompute-all", 30), expected(12.0, &[0, 1, 2], &[3, 4, 5]));
    assert_eq!(by("recompute-all", 5), None);
    assert_eq!(by("recompute-block", 30), expected(9.0, &[], &[]));
    assert_eq!(by("recompute-block", 14), expected(11.0, &[0, 1], &[3, 4]));
    let (ms, again) = by("equal-layers", 14).unwrap();
    assert_eq!((ms, again[0].len(), again[1].len()), (11.0, 2, 1));
}

/// The least of SAPP's estimate over all cuts of a chain on equal devices, and all ways to run its layers.
fn least_estimate_ms(instance: &Instance, settings: &Settings) -> Option<f64> {
    let layers = &instance.network.layers;
    let limit = settings.memory_limit.unwrap_or(u64::MAX);
    let micro_batches = settings.micro_batches.unwrap();
    let choices: Vec<usize> = layers.iter().map(|layer| layer.modes().len()).collect();
    let mut least: Option<u64> = None;
    let most = settings.stages.min(layers.len());
    for cuts in 0u32..1 << (layers.len() - 1) {
        let used = cuts.count_ones() as usize + 1;
        if used > most || (settings.all_stages && used != settings.stages) {
            continue;
        }
        for number in 0..choices.iter().product::<usize>() {
            let mut rest = number;
            let (mut stages, mut body) = (vec![[0u64; 4]; used], 0);
            for (at, layer) in layers.iter().enumerate() {
                let modes = layer.modes();
                let mode = &modes[rest % choices[at]];
                rest /= choices[at];
                let stage = (cuts & ((1 << at) - 1)).count_ones() as usize;
                let times = mode.times[0].unwrap();
                let ns = times.forward_ns + times.backward_ns;
                let own = &mut stages[stage];
                own[0] += ns;
                // Weight, gradient and two states of Adam.
                own[1] += 4 * mode.parameter_bytes;
                own[2] += mode.stash_bytes;
                own[3] = own[3].max(mode.workspace_bytes);
                if !((at == 0 || at + 1 == layers.len()) && modes.len() == 1) {
                    body += ns;
                }
            }
            let fits = |(at, [_, held, stash, workspace]): (usize, &[u64; 4])| {
                let in_flight = match settings.schedule {
                    Schedule::Gpipe => micro_batches,
                    _ => micro_batches.min((used - at) as u64),
                };
                held + in_flight * stash + workspace <= limit
            };
            if stages.iter().enumerate().all(fits) {
                let longest = stages.iter().map(|stage| stage[0]).max().unwrap();
                let estimate = body + micro_batches.saturating_sub(2) * longest;
                least = Some(least.map_or(estimate, |least| least.min(estimate)));
            }
        }
    }
    least.map(|ns| ns as f64 / 1e6)
}

#[test]
fn sapps_estimate_is_least_on_chains() {
    let (mut compared, mut infeasible) = (0, 0);
    for seed in 0..3_000 {
        let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
        let spec = InstanceSpec {
            network: draw.network(&[1], true),
            cluster: Some(draw.cluster(false)),
            pipeline: PipelineOptions {
                replicas: None,
                optimizer_sharding: None,
                ..draw.options()
            },
            ..InstanceSpec::default()
        };
        let Some((instance, settings)) = drawn(&spec) else {
            continue;
        };
        let found = solved("sapp", &instance, &settings).statistics.estimate_ms;
        let least = least_estimate_ms(&instance, &settings);
        let is_same = match (found, least) {
            (Some(found), Some(least)) => (found - least).abs() <= 1e-6,
            (found, least) => found.is_none() && least.is_none(),
        };
        assert!(is_same, "seed {seed}: {found:?}, not {least:?}");
        compared += 1;
        infeasible += usize::from(least.is_none());
    }
    println!("{compared} compared, {infeasible} infeasible");
    assert!(compared > 1_500 && infeasible > 100 && infeasible * 2 < compared);
}

/// A network that lists no modes: the second layer keeps 100 bytes and reads 40, the others keep no more than they read.
fn without_modes(second: LayerSpec) -> Instance {
    let layer = |id: &str, stash_bytes: f64| LayerSpec {
        id: id.into(),
        forward_ms: Some(1.0),
        backward_ms: Some(2.0),
        stash_bytes,
        ..LayerSpec::default()
    };
    let tensor = |producer: &str, consumer: &str| TensorSpec {
        producer: producer.into(),
        consumers: vec![consumer.into()],
        bytes: Some(40.0),
        ..TensorSpec::default()
    };
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers: vec![layer("first", 100.0), second, layer("last", 40.0)],
            tensors: vec![tensor("first", "second"), tensor("second", "last")],
            ..NetworkSpec::default()
        },
        ..InstanceSpec::default()
    };
    Instance::from_spec(&spec).unwrap()
}

fn second() -> LayerSpec {
    LayerSpec {
        id: "second".into(),
        forward_ms: Some(3.0),
        backward_ms: Some(5.0),
        parameter_bytes: 7.0,
        stash_bytes: 100.0,
        ..LayerSpec::default()
    }
}

#[test]
fn networks_without_modes_may_keep_inputs() {
    let instance = without_modes(second());
    let counts: Vec<usize> = instance
        .network
        .layers
        .iter()
        .map(|layer| layer.modes.len())
        .collect();
    assert_eq!(counts, [0, 2, 0]);
    let [none, full] = &instance.network.layers[1].modes[..] else {
        panic!()
    };
    assert_eq!(
        (none.recompute.as_str(), none.stash_bytes, none.workspace_bytes),
        ("none", 100, 0)
    );
    let times = Times {
        forward_ns: 3_000_000,
        backward_ns: 8_000_000,
        weight_ns: 0,
    };
    assert_eq!((full.recompute.as_str(), full.times[0]), ("full", Some(times)));
    assert_eq!(
        (full.parameter_bytes, full.stash_bytes, full.workspace_bytes),
        (7, 40, 60)
    );
    // One stage with two micro-batches in flight.
    let options = |memory_bytes: u64, micro_batches: u64| PipelineOptions {
        stages: Some(1),
        devices: Some(1),
        schedule: Some(Schedule::Gpipe),
        objective: Some(Objective::Period),
        micro_batches: Some(micro_batches),
        recompute: Some("choose".parse().unwrap()),
        memory_limit: Some(MemoryLimit::Bytes(memory_bytes)),
        ..PipelineOptions::default()
    };
    let period = |memory_bytes: u64| {
        let settings = Settings::resolve(&instance, &options(memory_bytes, 2)).unwrap();
        let plan = solved("exact", &instance, &settings);
        (plan.status, plan.objective_ms)
    };
    // Two of them: 480 bytes, or 360 and 60 of workspace; beside these weight, gradient and two states of Adam.
    let held = 4 * 7;
    assert_eq!(period(held + 480), (Status::Optimal, Some(14.0)));
    assert_eq!(period(held + 479), (Status::Optimal, Some(17.0)));
    assert_eq!(period(held + 420), (Status::Optimal, Some(17.0)));
    assert_eq!(period(held + 419), (Status::Infeasible, None));
}

#[test]
fn unknown_inputs_and_listed_modes_are_left_alone() {
    let listed = |instance: &Instance| {
        let layers = instance.network.layers.iter();
        layers.map(|layer| layer.modes.len()).collect::<Vec<_>>()
    };
    let reads_input = LayerSpec {
        reads_input: true,
        ..second()
    };
    assert_eq!(listed(&without_modes(reads_input)), [0, 0, 0]);
    let with_mode = LayerSpec {
        modes: vec![ModeSpec {
            forward_ms: Some(3.0),
            stash_bytes: 100.0,
            ..ModeSpec::default()
        }],
        ..second()
    };
    assert_eq!(listed(&without_modes(with_mode)), [0, 1, 0]);
}
