//! Devices of several chunks: plans against brute force and the simulator, and what is refused.

use crate::common::chunked::virtual_spec;
use crate::common::draw::{Scope, draw};
use crate::common::{is_chain, link, plan_ns, problem_of};
use crate::oracles::virtual_stages as brute_force;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check;
use stagecut::control::Control;
use stagecut::cost::virtual_stages::chunk_bytes;
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::options::{Cuts, Placement, Schedule};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::schedule::in_flight::{most_of_rule, steady};
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Chunk, Chunks, run};
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;
use stagecut::switches::Switches;

/// The most assignments that brute force looks at.
const MOST_ASSIGNMENTS: f64 = 3e5;

/// The problem, if it is valid and small enough.
fn virtual_problem(seed: u64) -> Option<(Instance, Problem)> {
    let (instance, problem) = problem_of(&virtual_spec(seed))?;
    let plans = (problem.stages() as f64).powi(problem.items.len() as i32);
    (plans <= MOST_ASSIGNMENTS).then_some((instance, problem))
}

fn method(name: &str) -> Method {
    methods::find(name).expect("a registered method")
}

fn solve(name: &str, instance: &Instance, problem: &Problem) -> Plan {
    method(name)
        .run(instance, problem, &Control::default())
        .expect("HiGHS works")
}

/// A method finds what brute force finds, with a proof, and the plan passes the checker.
fn agrees(name: &str, seed: u64, (instance, problem): &(Instance, Problem), truth_ns: Option<u64>) {
    let plan = solve(name, instance, problem);
    let truth_ms = truth_ns.map(|ns| problem.settings.ms(ns));
    assert_eq!(
        plan.objective_ms, truth_ms,
        "{name}, seed {seed}: {:?}",
        problem.settings
    );
    let proved = match truth_ns {
        Some(_) => Status::Optimal,
        None => Status::Infeasible,
    };
    assert_eq!(plan.status, proved, "{name}, seed {seed}: {plan:?}");
    let violations = check::check(instance, &problem.settings, &plan);
    assert_eq!(violations, [], "{name}, seed {seed}: {plan:?}");
}

/// How many of some problems there were, on each of which these methods find what brute force finds.
fn agree_with_brute_force(
    names: &[&str],
    seeds: std::ops::Range<u64>,
    problem_of: fn(u64) -> Option<(Instance, Problem)>,
) -> usize {
    let solved = seeds.into_par_iter().filter_map(|seed| {
        let asked = problem_of(seed)?;
        let truth_ns = brute_force::solve(&asked.1).map(|(_, ns)| ns);
        names.iter().for_each(|name| agrees(name, seed, &asked, truth_ns));
        Some(())
    });
    solved.count()
}

#[test]
fn exact_methods_agree_with_brute_force() {
    let solved = agree_with_brute_force(&["exact", "ideals", "milp"], 0..2500, virtual_problem);
    assert!(solved >= 2000, "only {solved} valid problems");
}

#[test]
fn textbook_agrees_with_brute_force() {
    assert!(agree_with_brute_force(&["textbook"], 2500..2900, virtual_problem) > 200);
}

/// Whatever part is left out, what is proved is true.
#[test]
fn parts_can_be_left_out() {
    let parts = [
        "incumbents",
        "anchored",
        "device_runs",
        "chunk_exchange",
        "repeated_chunks",
        "chunk_chains",
        "chunk_ideals",
        "program",
    ];
    (5000..5600).into_par_iter().for_each(|seed| {
        let Some((instance, problem)) = virtual_problem(seed) else {
            return;
        };
        let truth = brute_force::solve(&problem).map(|(_, ns)| ns);
        let part = parts[seed as usize % parts.len()];
        for switches in [Switches::without([part]).expect("a switch"), Switches::NONE] {
            let control = Control {
                switches,
                ..Control::default()
            };
            let plan = method("exact").run(&instance, &problem, &control);
            let plan = plan.expect("HiGHS works");
            let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
            let own = plan_ns(&plan).filter(|_| !plan.stages.is_empty());
            assert!(!is_proved || own == truth, "seed {seed} without {part}: {plan:?}");
            assert!(
                own.is_none_or(|own| Some(own) >= truth),
                "seed {seed} without {part}"
            );
            assert!(
                switches == Switches::NONE || is_proved,
                "seed {seed} without {part}"
            );
        }
    });
}

/// The search over chains, alone.
#[test]
fn chains_agree_with_brute_force() {
    let chain = |seed| virtual_problem(4 * seed).filter(|(_, problem)| is_chain(problem));
    let solved = agree_with_brute_force(&["ideals"], 0..6000, chain);
    assert!(solved >= 2000, "only {solved} chains");
}

/// A chain whose middle layers repeat one or two, all tensors alike.
fn repeated_spec(seed: u64) -> InstanceSpec {
    let mut spec = virtual_spec(seed);
    let scope = Scope {
        layers: [5, 9],
        chain: true,
        mixed: false,
        cuts: Some(Cuts::Tied),
    };
    spec.network = draw(format!("repeated-{seed}"), seed, scope).network;
    let length = 1 + seed as usize % 2;
    let layers = &mut spec.network.layers;
    for i in 1 + length..layers.len() - 1 {
        let (id, like) = (layers[i].id.clone(), layers[i - length].clone());
        layers[i] = stagecut::spec::LayerSpec { id, ..like };
    }
    let bytes = spec.network.tensors.first().map(|tensor| tensor.bytes);
    for tensor in &mut spec.network.tensors {
        tensor.bytes = bytes.unwrap_or(tensor.bytes);
    }
    spec
}

/// The search over chains whose items repeat.
#[test]
fn repeated_items_agree_with_brute_force() {
    let chain = |seed| problem_of(&repeated_spec(seed)).filter(|(_, problem)| is_chain(problem));
    let solved = agree_with_brute_force(&["ideals"], 0..6000, chain);
    assert!(solved >= 2000, "only {solved} chains");
}

/// No bound without search is above the optimum, and no heuristic below.
#[test]
fn bounds_and_heuristics_are_on_their_sides() {
    let found: usize = (2900..5000)
        .into_par_iter()
        .map(|seed| {
            let Some((instance, problem)) = virtual_problem(seed) else {
                return 0;
            };
            let truth = brute_force::solve(&problem).map(|(_, ns)| ns);
            let bound = methods::bounded(&instance, &problem, &Control::default()).expect("no solver");
            let bound_ns = crate::common::ns(bound.bound_ms);
            assert!(bound_ns <= truth.unwrap_or(u64::MAX), "seed {seed}");
            let plans = ["chunk-even", "chunk-exchange"].map(|name| solve(name, &instance, &problem));
            for plan in plans.iter().filter(|plan| !plan.stages.is_empty()) {
                let own = plan_ns(plan);
                assert!(truth.is_some() && own >= truth, "seed {seed}: {own:?} {truth:?}");
                assert_eq!(
                    check::check(&instance, &problem.settings, plan),
                    [],
                    "seed {seed}"
                );
            }
            usize::from(plan_ns(&plans[1]) == truth && truth.is_some())
        })
        .sum();
    assert!(found > 800, "exchange is best {found} times");
}

#[test]
fn one_virtual_stage_is_the_problem_without() {
    for seed in 0..300 {
        let mut spec = virtual_spec(seed);
        spec.pipeline.virtual_stages = None;
        spec.pipeline.placement = None;
        spec.pipeline.schedule = spec
            .pipeline
            .schedule
            .filter(|&schedule| schedule == Schedule::Gpipe);
        let without = problem_of(&spec);
        spec.pipeline.virtual_stages = Some(1.into());
        let with = problem_of(&spec);
        let (Some((instance, without)), Some((_, with))) = (without, with) else {
            continue;
        };
        assert_eq!(with.settings, without.settings, "seed {seed}");
        let [with, without] = [with, without].map(|problem| solve("exact", &instance, &problem));
        assert_eq!(with.stages, without.stages, "seed {seed}");
        assert_eq!(with.problem, without.problem, "seed {seed}");
    }
}

/// What devices hold as the simulator runs the schedule, with random times.
fn simulated_peaks(problem: &Problem, bytes: &[[u64; 2]], rng: &mut ChaCha8Rng) -> Vec<u64> {
    let of = problem.virtual_stages.as_ref().expect("virtual stages");
    let micro_batches = problem.settings.micro_batches.unwrap_or(6 * of.devices as u64);
    let shape = Shape {
        devices: of.devices,
        virtual_stages: problem.settings.virtual_stages,
        placement: of.placement,
        micro_batches: micro_batches as usize,
    };
    let rule = problem.settings.schedule.rule().expect("a rule");
    let mut chunks = Chunks::even(of.devices, shape.virtual_stages, of.placement, Chunk::default());
    for (chunk, &[_, stash]) in chunks.chunks.iter_mut().zip(bytes) {
        chunk.forward_ns = rng.random_range(0..5);
        chunk.input_ns = rng.random_range(0..5);
        chunk.weight_ns = rng.random_range(0..5);
        chunk.forward_transfer_ns = rng.random_range(0..3);
        (chunk.stash, chunk.kept) = (stash, stash);
    }
    let order = rule.order(&shape).expect("an order");
    let ran = run(&chunks, &order, shape.micro_batches).expect("no deadlock");
    let base = |device: usize| -> u64 { of.chunks_of[device].iter().map(|&c| bytes[c][0]).sum() };
    ran.peak
        .iter()
        .enumerate()
        .map(|(device, peak)| base(device) + peak)
        .collect()
}

#[test]
fn memory_is_what_the_simulator_shows() {
    let mut checked = 0;
    for seed in 0..1000 {
        let Some((_, problem)) = virtual_problem(seed).filter(|(_, p)| p.settings.mode.trains()) else {
            continue;
        };
        let of = problem.virtual_stages.as_ref().expect("virtual stages");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let assignment: Vec<usize> = (0..problem.items.len())
            .map(|_| rng.random_range(0..of.chunks()))
            .collect();
        let mut bytes = vec![[0; 2]; of.chunks()];
        for (item, &chunk) in problem.items.iter().zip(&assignment) {
            bytes[chunk][0] += item.base_bytes;
            bytes[chunk][1] += item.stash_bytes;
        }
        let stated = chunk_bytes(&problem, of, &assignment);
        let own = of.chunks_of.iter();
        let stated: Vec<u64> = own.map(|own| own.iter().map(|&c| stated[c]).sum()).collect();
        assert_eq!(stated, simulated_peaks(&problem, &bytes, &mut rng), "seed {seed}");
        checked += 1;
    }
    assert!(checked > 500, "only {checked}");
}

/// More micro-batches show no larger counts, from the number on that the page states.
#[test]
fn counts_settle() {
    let names = [
        ("interleaved", Placement::Loop),
        ("zb-v", Placement::V),
        ("v-half", Placement::V),
        ("v-min", Placement::V),
    ];
    for (name, placement) in names {
        let rule = RULES.iter().find(|rule| rule.name == name).expect("a rule");
        for devices in 1..=16 {
            for virtual_stages in if placement == Placement::Loop {
                2..=4
            } else {
                2..=2
            } {
                let counts = |micro_batches: usize| {
                    let shape = Shape {
                        devices,
                        virtual_stages,
                        placement,
                        micro_batches,
                    };
                    let mut counts = most_of_rule(rule, shape).expect("a rule for the shape");
                    counts.iter_mut().for_each(|of_device| of_device.sort_unstable());
                    counts
                };
                let enough = steady(devices) as usize;
                let step = if placement == Placement::Loop { devices } else { 1 };
                for more in 1..=4 {
                    assert_eq!(
                        counts(enough),
                        counts(enough + more * step),
                        "{name} on {devices}"
                    );
                }
            }
        }
    }
}

/// More chunks allow all that fewer do, where memory has room: those of the last round stay empty.
#[test]
fn more_chunks_are_never_worse() {
    for seed in 0..200 {
        let mut spec = virtual_spec(seed);
        spec.pipeline.memory_limit = None;
        spec.pipeline.all_stages = None;
        spec.pipeline.schedule = Some(Schedule::Gpipe);
        spec.pipeline.micro_batches = Some(1);
        let mut last = None;
        for virtual_stages in 1..=3 {
            spec.pipeline.virtual_stages = Some(virtual_stages.into());
            spec.pipeline.placement = (virtual_stages > 1).then_some(Placement::V);
            let Some((instance, problem)) = problem_of(&spec) else {
                continue;
            };
            let plan = solve("exact", &instance, &problem);
            assert!(
                plan.objective_ms <= last.unwrap_or(plan.objective_ms),
                "seed {seed}"
            );
            last = Some(plan.objective_ms);
        }
    }
}

/// 96 equal blocks between an embedding and a head, with the times and sizes of GPT-3 on A100.
fn gpt3() -> Instance {
    let mut builder = Instance::builder("96 blocks")
        .layer("embedding", 0.07, 0.13)
        .layer("head", 8.5, 15.9);
    for block in 0..96 {
        let next = match block {
            95 => "head".to_owned(),
            _ => format!("b{}", block + 1),
        };
        let own = format!("b{block}");
        builder = builder
            .layer(own.as_str(), 25.0, 50.0)
            .tensor(own.as_str(), [next.as_str()], 50_331_648.0);
    }
    builder
        .tensor("embedding", ["b0"], 50_331_648.0)
        .devices("a100", 8, 80e9)
        .link(300e9, 0.0)
        .build()
        .expect("an instance")
}

#[test]
fn interleaved_gpt3_is_proved() {
    let instance = gpt3();
    for all_stages in [false, true] {
        for virtual_stages in [1, 2, 4] {
            let pipeline = stagecut::PipelineOptions {
                stages: Some(8),
                virtual_stages: Some(virtual_stages.into()),
                all_stages: Some(all_stages),
                ..Default::default()
            };
            let options = stagecut::Options {
                pipeline,
                time_limit: Some(std::time::Duration::from_secs(10)),
                ..stagecut::Options::default()
            };
            let plan = stagecut::solve(&instance, &options).expect("a plan");
            let what = format!("{virtual_stages} chunks, {all_stages}: {:?}", plan.objective_ms);
            assert_eq!(plan.status, Status::Optimal, "{what}, bound {:?}", plan.bound_ms);
            // Twelve blocks, and a transfer each way at least.
            assert!(
                plan.objective_ms > Some(900.0) && plan.objective_ms < Some(976.0),
                "{what}"
            );
        }
    }
}

/// Blocks of 70 to 77 ms: single cuts are coarse, and yet devices come out even.
#[test]
fn exchange_evens_out_uneven_blocks() {
    for (virtual_stages, most_apart) in [(3, 5e-4), (4, 2e-4), (6, 1e-4)] {
        let mut rng = ChaCha8Rng::seed_from_u64(virtual_stages);
        let mut instance = Instance::builder("uneven blocks").devices("a100", 8, 80e9);
        for block in 0..96 {
            let name = format!("b{block}");
            let forward_ms = rng.random_range(23.0..26.0);
            instance = instance.layer(name.as_str(), forward_ms, 2.0 * forward_ms);
            if block > 0 {
                instance = instance.tensor(format!("b{}", block - 1), [name.as_str()], 50e6);
            }
        }
        let instance = instance.link(300e9, 0.0).build().expect("an instance");
        let options = stagecut::PipelineOptions {
            stages: Some(8),
            virtual_stages: Some((virtual_stages as usize).into()),
            communication: Some(stagecut::options::Communication::Overlapped),
            ..Default::default()
        };
        let settings = Settings::resolve(&instance, &options).expect("settings");
        let problem = Problem::new(&instance, settings).expect("a problem");
        let plan = solve("chunk-exchange", &instance, &problem);
        let even_ns = problem.work_ns() as f64 / 8.0;
        let apart = plan_ns(&plan).expect("a plan") as f64 / even_ns - 1.0;
        assert!(apart < most_apart, "{virtual_stages} chunks: {apart}");
    }
}

/// Embedding, 96 blocks of two kinds in turn, head.
#[test]
fn blocks_of_two_kinds_are_proved() {
    let mut instance = Instance::builder("two kinds")
        .layer("embedding", 1.0, 2.0)
        .layer("head", 10.0, 20.0)
        .devices("a100", 8, 80e9)
        .link(300e9, 0.0);
    let name = |block: usize| format!("b{block}");
    for block in 0..96 {
        let forward_ms = 20.0 + 7.0 * (block % 2) as f64;
        let next = if block == 95 {
            "head".into()
        } else {
            name(block + 1)
        };
        instance =
            instance
                .layer(name(block), forward_ms, 2.0 * forward_ms)
                .tensor(name(block), [next], 50e6);
    }
    let instance = instance
        .tensor("embedding", ["b0"], 50e6)
        .build()
        .expect("an instance");
    for (virtual_stages, all_stages) in [(3, false), (3, true), (4, true)] {
        let pipeline = stagecut::PipelineOptions {
            stages: Some(8),
            virtual_stages: Some(virtual_stages.into()),
            all_stages: Some(all_stages),
            ..Default::default()
        };
        let options = stagecut::Options {
            pipeline,
            ..stagecut::Options::default()
        };
        let plan = stagecut::solve(&instance, &options).expect("a plan");
        assert_eq!(plan.status, Status::Optimal, "{virtual_stages} chunks");
    }
}

fn three_layers() -> Instance {
    Instance::builder("three layers")
        .layer("a", 3.0, 3.0)
        .layer("b", 2.0, 2.0)
        .layer("c", 1.0, 1.0)
        .tensor("a", ["b"], 1e6)
        .tensor("b", ["c"], 1e6)
        .devices("gpu", 2, 16e9)
        .link(link().bandwidth_bytes_per_s, 0.0)
        .build()
        .expect("an instance")
}

#[test]
fn a_plan_lists_all_chunks_and_changes_are_found() {
    let instance = three_layers();
    let options = stagecut::PipelineOptions {
        virtual_stages: Some(2.into()),
        ..Default::default()
    };
    let settings = Settings::resolve(&instance, &options).expect("settings");
    let problem = Problem::new(&instance, settings.clone()).expect("a problem");
    let plan = solve("exact", &instance, &problem);
    assert_eq!(check::check(&instance, &settings, &plan), []);
    assert_eq!(plan.stages.len(), 4);
    let devices: Vec<&str> = plan
        .stages
        .iter()
        .map(|stage| stage.devices[0].as_str())
        .collect();
    assert_eq!(devices, ["gpu:1", "gpu:2", "gpu:1", "gpu:2"]);
    let wrong = |change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        let violations = check::check(&instance, &settings, &changed);
        assert!(!violations.is_empty(), "{changed:?}");
    };
    wrong(&|plan| plan.stages.swap(0, 1));
    wrong(&|plan| plan.stages[2].devices = vec!["gpu:2".into()]);
    wrong(&|plan| drop(plan.stages.pop()));
    wrong(&|plan| plan.stages[0].memory_bytes += 1);
    wrong(&|plan| plan.stages[0].in_flight = Some(99));
    wrong(&|plan| plan.stages[3].weight_versions = None);
    wrong(&|plan| plan.stages[0].load_ms += 1.0);
    wrong(&|plan| plan.objective_ms = Some(1.0));
    wrong(&|plan| plan.problem.placement = Some(Placement::V));
}

/// What is refused, and the option that the fault names.
#[test]
fn what_does_not_go_with_virtual_stages_is_refused_by_name() {
    let instance = three_layers();
    // A lone device exchanges nothing, with several chunks as with one.
    let ring = toml::from_str("virtual_stages=2\nsynchronization='ring'").expect("options");
    assert!(Settings::resolve(&instance, &ring).is_ok());
    let refused = |at: &str, text: &str| {
        let toml: String = text
            .split_whitespace()
            .map(|line| line.to_owned() + "\n")
            .collect();
        let options: stagecut::PipelineOptions = toml::from_str(&toml).expect("options");
        let error = Settings::resolve(&instance, &options).expect_err(text);
        assert!(
            error.faults.iter().any(|fault| fault.at.to_string() == at),
            "{text}: {error}"
        );
    };
    assert!(toml::from_str::<stagecut::PipelineOptions>("virtual_stages=0").is_err());
    refused("virtual_stages", "virtual_stages=1001");
    refused("placement", "placement='v'");
    refused("schedule", "schedule='interleaved'");
    refused("schedule", "schedule='v-min' virtual_stages=1");
    refused("schedule", "schedule='1f1b' virtual_stages=2");
    refused("schedule", "schedule='pipedream' virtual_stages=2");
    refused("schedule", "schedule='zb-v' virtual_stages=2");
    refused(
        "schedule",
        "schedule='interleaved' virtual_stages=2 placement='v'",
    );
    refused("schedule", "virtual_stages=3 placement='v'");
    refused("micro_batches", "virtual_stages=2 micro_batches=3");
    refused("micro_batches", "virtual_stages=2 schedule='gpipe'");
    refused("micro_batches", "virtual_stages=2 objective='iteration'");
    refused(
        "micro_batches",
        "virtual_stages=2 objective='iteration' micro_batches=1000000",
    );
    refused(
        "micro_batches",
        "virtual_stages=2 objective='iteration' micro_batches=3 mode='inference'",
    );
    refused(
        "objective",
        "virtual_stages=2 objective='formula' micro_batches=4",
    );
    refused("cuts", "virtual_stages=2 cuts='separate'");
    refused("worker", "virtual_stages=2 worker='concurrent'");
    // Of one kind they are a degree of stages in modes, whose iterations are asked.
    refused("micro_batches", "virtual_stages=2 groups='assign'");
    refused(
        "objective",
        "virtual_stages=2 replicas=2 micro_batches=4 objective='period'",
    );
    refused(
        "virtual_stages",
        "virtual_stages='choose' objective='iteration' micro_batches=4",
    );
    refused("virtual_stages", "virtual_stages='1,1001' replicas=2");
    for (at, more) in [
        ("uniform", "tensor='choose' uniform=false"),
        ("schedule", "replicas=2 schedule='1f1b'"),
    ] {
        let text = format!("virtual_stages='1,2' objective='iteration' micro_batches=4 {more}");
        refused(at, &text);
    }
}
