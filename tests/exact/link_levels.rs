//! Links of two levels, inside nodes and between them, with everything else that can be asked: they count, as brute force says, or are
//! refused by name.

use crate::common::command::Folder;
use crate::common::draw::{Scope, draw};
use stagecut::check;
use stagecut::fault::InputError;
use stagecut::instance::Instance;
use stagecut::options::{Communication, Cuts, Objective, PipelineOptions, Schedule};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LinkSpec, NodesSpec, TensorSpec};
use stagecut::{Options, Violation};

/// Faster or slower links inside nodes of two devices.
fn with_nodes(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    let cluster = spec.cluster.as_mut().expect("drawn problems have a cluster");
    let link = cluster.link.get_or_insert_with(crate::common::link);
    let inside = LinkSpec {
        bandwidth_bytes_per_s: link.bandwidth_bytes_per_s * [10.0, 0.3][seed as usize % 2],
        latency_ms: 0.0,
        nodes: None,
    };
    link.nodes = Some(Box::new(NodesSpec {
        devices: 2,
        link: inside,
    }));
    spec
}

fn asked(spec: &InstanceSpec) -> Option<(Instance, Result<Settings, InputError>)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default());
    Some((instance, settings))
}

/// The plan of `exact`, which passes the checker.
fn solved(instance: &Instance) -> Plan {
    let plan = stagecut::solve(instance, &Options::default()).expect("HiGHS works");
    let settings = Settings::resolve(instance, &PipelineOptions::default()).unwrap();
    let violations: Vec<Violation> = check::check(instance, &settings, &plan);
    assert!(violations.is_empty(), "{violations:?}");
    plan
}

/// A small problem of devices that are alike.
fn alike_spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [2, 5],
        chain: seed.is_multiple_of(3),
        mixed: false,
        cuts: Some(Cuts::Tied),
    };
    let mut spec = draw(format!("alike-{seed}"), seed, scope);
    // Most of them with what can be asked with links of two levels.
    if seed % 8 < 7 {
        spec.pipeline.objective = Some(Objective::Period);
        spec.pipeline.communication = Some(Communication::Blocking);
        spec.pipeline.schedule = Some(Schedule::OneFOneB);
    }
    list_in_order(&mut spec);
    spec
}

/// Lists layers behind those whose tensors they read, as brute force wants them.
fn list_in_order(spec: &mut InstanceSpec) {
    let network = &mut spec.network;
    let mut left = std::mem::take(&mut network.layers);
    while !left.is_empty() {
        let reads = |id: &str, from: &str| {
            let of = |tensor: &&TensorSpec| tensor.producer == from;
            network
                .tensors
                .iter()
                .filter(of)
                .any(|tensor| tensor.consumers.iter().any(|to| to == id))
        };
        let is_ready = |id: &str| !left.iter().any(|other| reads(id, &other.id));
        let next = left
            .iter()
            .position(|layer| is_ready(&layer.id))
            .expect("no cycle");
        network.layers.push(left.remove(next));
    }
}

/// Every problem that the generators draw, of unlike kinds, resources, groups, shares, separate cuts, iterations, chunks and all: if it can
/// be asked with links of one level, it is refused with those of two, which the message names, or solved as brute force says.
#[test]
fn levels_count_or_are_refused() {
    let draws: [fn(u64) -> InstanceSpec; 4] = [
        crate::common::any_spec,
        crate::common::mixed::mixed_spec,
        crate::common::chunked::virtual_spec,
        alike_spec,
    ];
    let (mut refused, mut compared, mut other) = (0, 0, 0);
    for seed in 0..600 {
        let mut spec = draws[seed as usize % 4](seed);
        spec.pipeline.objective.get_or_insert(Objective::Period);
        let Some((flat, Ok(without))) = asked(&spec) else {
            continue;
        };
        if !without.communication.takes_time() || Problem::new(&flat, without).is_err() {
            continue;
        }
        let Some((instance, settings)) = asked(&with_nodes(spec, seed)) else {
            continue;
        };
        let settings = match settings {
            Err(error) => {
                // Or rings are asked for of groups, once in an iteration that nobody knows.
                let message = error.to_string();
                // Or shares are asked for that stages in modes do not have.
                let says_so = ["links of two levels", "exchange their gradients", "shares: found"];
                let says_so = says_so.iter().any(|reason| message.contains(reason));
                assert!(says_so, "seed {seed}: {error}");
                refused += 1;
                continue;
            }
            Ok(settings) => settings,
        };
        assert!(settings.modal, "seed {seed}: levels of links are ignored");
        let (layers, tensors) = (&instance.network.layers, &instance.network.tensors);
        let is_known = layers.iter().all(|layer| layer.tie.is_none() && !layer.backward);
        let is_listed_in_order = tensors
            .iter()
            .all(|tensor| tensor.consumers.iter().all(|&to| tensor.producer < to));
        if layers.len() > 5 || !is_known || !is_listed_in_order {
            continue;
        }
        let best = crate::oracles::modes::best_ms(&instance, &settings);
        let plan = solved(&instance);
        let is_best = match (plan.objective_ms, best) {
            // Sums of stages have a bound alone where a tensor may skip a stage, and so has what moves between passes.
            (Some(ms), Some(best)) => {
                let is_sum = settings.objective == Objective::Formula || settings.cuts == Cuts::Separate;
                (ms - best).abs() <= 1e-6 && (is_sum || plan.status == Status::Optimal)
            }
            (ms, best) => ms.is_none() && best.is_none(),
        };
        assert!(is_best, "seed {seed}: {:?}, not {best:?}", plan.objective_ms);
        other += usize::from(solved(&flat).objective_ms != plan.objective_ms);
        compared += 1;
    }
    println!("{refused} refused, {compared} compared, {other} of them with another answer than on one level");
    assert!(
        refused > 100 && compared > 10 && other > 0,
        "{refused} refused, {compared} compared, {other} other"
    );
}

/// Two machines of two GPUs each, 24 layers of 2 ms; what the kinds are is left open.
fn two_machines(kinds: &str) -> String {
    let layers: Vec<String> = (0..24)
        .map(|at| format!("{{ id = \"l{at}\", forward_ms = 2.0, parameter_bytes = 1e9 }}"))
        .collect();
    let tensors: Vec<String> = (1..24)
        .map(|at| {
            format!(
                "{{ producer = \"l{}\", consumers = [\"l{at}\"], bytes = 4e6 }}",
                at - 1
            )
        })
        .collect();
    format!(
        "network = {{ layers = [{}], tensors = [{}] }}\npipeline = {{ mode = \"inference\" }}\n[cluster]\n\
         link = {{ bandwidth_bytes_per_s = \"10Gb/s\", nodes = {{ devices = 2, link = {{ bandwidth_bytes_per_s = \"24GB/s\" }} }} }}\n\
         device_kinds = [{kinds}]\n",
        layers.join(", "),
        tensors.join(", ")
    )
}

const PLAIN: &str = "{ name = \"rtx4090\", count = 4, memory_bytes = \"24GB\" }";
const SAYS_NOTHING: &str = "{ name = \"rtx4090\", count = 4, memory_bytes = \"24GB\", resources = [{ name = \"gpu\", forward_rate = 1.0 }] }";
const UNLIKE: &str = "{ name = \"rtx4090\", count = 2, resources = [{ name = \"gpu\", forward_rate = 1.0 }] }, \
     { name = \"rtx3060\", count = 2, resources = [{ name = \"gpu\", forward_rate = 0.4 }] }";

/// 7, 6, 5 and 6 layers where devices are alike; 9, 8, 3 and 4 where two of them take 2.5 times as long.
#[test]
fn levels_count_whatever_the_devices_are() {
    let inside_ms = 4.0 / 24.0;
    let half = SAYS_NOTHING.replace("1.0", "0.5");
    for (kinds, expected_ms) in [
        (PLAIN, 14.0 + inside_ms),
        (SAYS_NOTHING, 14.0 + inside_ms),
        // Six each: 24 ms, and both links where nodes meet.
        (&half, 24.0 + 3.2 + inside_ms),
        (UNLIKE, 20.0 + inside_ms),
        (&UNLIKE.replace("0.4", "1.0"), 14.0 + inside_ms),
    ] {
        let run =
            Folder::with("net.toml", two_machines(kinds)).run(&["solve", "net.toml", "--format", "json"]);
        let plan: serde_json::Value = serde_json::from_str(&run.stdout).expect("a plan");
        assert_eq!(plan["status"], "optimal", "{}", run.stderr);
        let ms = plan["objective_ms"].as_f64().expect("a plan");
        assert!((ms - expected_ms).abs() < 1e-6, "{kinds}: {ms}");
    }
}

#[test]
fn what_knows_nothing_of_levels_is_refused_by_name() {
    let folder = Folder::with("net.toml", two_machines(UNLIKE));
    let run = folder.run(&["solve", "net.toml", "--groups", "assign"]);
    let message: String = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        run.code == 2 && message.contains("--groups") && message.contains("links of two levels"),
        "{}",
        run.stderr
    );
}
