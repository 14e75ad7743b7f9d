//! Every pair of features, asked together of one small network: what has a plan, and what is refused with which reason
//! (`snapshots/plans/pairs.snap`). A pair that is asked is answered, and no feature is left out in silence: a plan records it. Larger sets are
//! drawn, and held against the best of all plans.

use crate::common::seeds;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use stagecut::check;
use stagecut::evaluate;
use stagecut::instance::Instance;
use stagecut::options::{Groups, PipelineOptions};
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::{Error, Options, solve};

/// What is asked for besides, as what it adds to the file of an instance.
fn features() -> Vec<(&'static str, Value)> {
    let pipeline = |options: Value| json!({ "pipeline": options });
    let two = json!({ "virtual_stages": 2, "stages": 2 });
    let chunks = |options: Value| pipeline(merged(&two, &options));
    let node = json!({ "devices": 2, "link": { "bandwidth_bytes_per_s": 4e9 } });
    let kinds = |more: Value| {
        let mut kinds = json!([{ "name": "fast", "count": 2 }, { "name": "slow", "count": 2 }]);
        kinds[0]
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "cluster": { "device_kinds": kinds }, "pipeline": { "device_kinds": ["fast", "slow"] } })
    };
    let core = json!({ "resources": [{ "name": "core", "forward_rate": 1.0, "backward_rate": 0.5 }] });
    vec![
        ("branching", json!({ "branch": true })),
        ("memory", pipeline(json!({ "memory_limit": 900 }))),
        ("recompute", pipeline(json!({ "recompute": "choose" }))),
        ("tensor", pipeline(json!({ "tensor": "choose" }))),
        ("replicas", pipeline(json!({ "replicas": "choose" }))),
        (
            "uniform",
            pipeline(json!({ "uniform": true, "tensor": "choose", "replicas": "choose" })),
        ),
        (
            "two levels of links",
            json!({ "cluster": { "link": { "nodes": node } } }),
        ),
        (
            "links of kinds",
            merged(
                &kinds(json!({})),
                &json!({ "cluster": { "links": slow_between_kinds() } }),
            ),
        ),
        ("virtual stages", chunks(json!({}))),
        ("a V", chunks(json!({ "placement": "v" }))),
        ("period", pipeline(json!({ "objective": "period" }))),
        ("iteration", pipeline(json!({ "objective": "iteration" }))),
        ("latency", pipeline(json!({ "objective": "latency" }))),
        ("formula", pipeline(json!({ "objective": "formula" }))),
        ("unlike devices", kinds(json!({}))),
        (
            "device order",
            merged(&kinds(json!({})), &pipeline(json!({ "device_order": "given" }))),
        ),
        ("groups", pipeline(json!({ "groups": "assign" }))),
        (
            "concurrent workers",
            merged(&kinds(core), &pipeline(json!({ "worker": "concurrent" }))),
        ),
        ("separate cuts", pipeline(json!({ "cuts": "separate" }))),
        ("overlapped", pipeline(json!({ "communication": "overlapped" }))),
        ("gpipe", pipeline(json!({ "schedule": "gpipe" }))),
        ("zb-v", chunks(json!({ "placement": "v", "schedule": "zb-v" }))),
        ("pipedream", pipeline(json!({ "schedule": "pipedream" }))),
        ("inference", pipeline(json!({ "mode": "inference" }))),
        ("rings", pipeline(json!({ "synchronization": "ring" }))),
        (
            "constraints",
            pipeline(json!({ "constraints": [{ "apart": ["block.0", "block.1"] }] })),
        ),
        (
            "together",
            pipeline(json!({ "constraints": [{ "together": ["block.1", "block.2"] }] })),
        ),
        ("for megatron", pipeline(json!({ "target": "megatron" }))),
    ]
}

/// A slower link between devices of both kinds, and a faster one between those of one.
fn slow_between_kinds() -> Value {
    let slow = json!({ "between": ["fast", "slow"], "bandwidth_bytes_per_s": 5e8, "latency_ms": 0.25 });
    let fast = json!({ "between": ["fast", "fast"], "bandwidth_bytes_per_s": 4e9 });
    json!([slow, fast])
}

/// These, a table that the ends share, and experts.
fn all_features() -> Vec<(&'static str, Value)> {
    let mut features = features();
    features.push(("shared table", json!({ "shared": true })));
    let experts = json!({ "expert": "choose", "replicas": "choose", "expert_load": 1.25 });
    features.push(("experts", json!({ "experts": true, "pipeline": experts })));
    let context = json!({ "context_parallel": "choose", "replicas": "choose" });
    features.push(("context", json!({ "context": true, "pipeline": context })));
    for sharding in ["zero2", "zero3"] {
        let options = json!({ "optimizer_sharding": sharding, "replicas": "choose" });
        features.push((sharding, json!({ "pipeline": options })));
    }
    features.push(("prompt in chunks", prompt()));
    let offload = json!({ "recompute": "none,offload", "memory_limit": 120 });
    features.push(("offload", json!({ "hosts": true, "pipeline": offload })));
    features.push((
        "states at hosts",
        json!({ "hosts": true, "pipeline": states("all") }),
    ));
    features.push(("frozen", json!({ "frozen": true })));
    features
}

/// States of Adam at hosts, with room for little else.
fn states(whose: &str) -> Value {
    json!({ "optimizer": "adam", "optimizer_offload": whose, "memory_limit": 300 })
}

/// Three chunks of a prompt, the last one of what is left.
fn prompt() -> Value {
    let options = json!({ "mode": "inference", "prompt": 250, "chunks": [100], "micro_batches": null });
    json!({ "read": true, "pipeline": options })
}

/// Four layers in a row, each with tensor degrees 1 and 2, four micro-batches on four devices.
fn base() -> Value {
    let layer = |at: usize| {
        let ms = [3.0, 2.0, 4.0, 2.0][at];
        let mode = |tensor: usize| {
            let part = 1.0 / tensor as f64;
            let times = |share: f64| json!({ "forward_ms": ms * part * share, "backward_ms": 2.0 * ms * part * share });
            json!({ "tensor": tensor, "times": { "fast": times(1.0), "slow": times(1.5) },
                    "parameter_bytes": 40.0 * part, "stash_bytes": 30.0 * part })
        };
        let mut one = mode(1);
        one["id"] = json!(format!("block.{at}"));
        one["modes"] = json!([mode(1), mode(2)]);
        one["operator"] = json!("transformer block");
        one.as_object_mut().unwrap().remove("tensor");
        one
    };
    let tensor = |from: usize, to: usize| json!({ "producer": format!("block.{from}"), "consumers": [format!("block.{to}")], "bytes": 1e5 });
    json!({
        "name": "pairs",
        "network": { "layers": [layer(0), layer(1), layer(2), layer(3)], "tensors": [tensor(0, 1), tensor(1, 2), tensor(2, 3)] },
        "cluster": { "device_kinds": [{ "name": "fast", "count": 4 }], "link": { "bandwidth_bytes_per_s": 1e9 } },
        "pipeline": { "mode": "training", "stages": 4, "micro_batches": 4, "optimizer": "sgd" },
    })
}

/// A table that the first and the last layer share, where one is asked for.
fn share(file: &mut Value, bytes: f64) {
    if file.as_object_mut().unwrap().remove("shared").is_none() {
        return;
    }
    for at in [0, 3] {
        let layer = &mut file["network"]["layers"][at];
        layer["shared"] = json!("table");
        let add = |place: &mut Value, bytes: f64| {
            place["parameter_bytes"] = json!(place["parameter_bytes"].as_f64().unwrap() + bytes);
            place["shared_bytes"] = json!(bytes);
        };
        add(layer, bytes);
        for mode in layer["modes"].as_array_mut().unwrap() {
            let part = bytes / mode["tensor"].as_f64().unwrap_or(1.0);
            add(mode, part);
        }
    }
}

/// Experts in the two layers between, where some are asked for.
fn add_experts(file: &mut Value, bytes: f64) {
    if file.as_object_mut().unwrap().remove("experts").is_none() {
        return;
    }
    for at in [1, 2] {
        let layer = &mut file["network"]["layers"][at];
        let add = |place: &mut Value, bytes: f64| {
            place["parameter_bytes"] = json!(place["parameter_bytes"].as_f64().unwrap() + bytes);
            place["experts"] =
                json!({ "count": 4, "parameter_bytes": bytes, "routed_bytes": 1e5 * bytes, "share": 0.5 });
        };
        add(layer, bytes);
        for mode in layer["modes"].as_array_mut().unwrap() {
            let part = bytes / mode["tensor"].as_f64().unwrap_or(1.0);
            add(mode, part);
        }
    }
}

/// Four tokens, of which every layer keeps keys and values, where sequences may be shared out.
fn add_context(file: &mut Value) {
    if file.as_object_mut().unwrap().remove("context").is_none() {
        return;
    }
    file["network"]["micro_batch"] = json!({ "tokens": 4.0 });
    for layer in file["network"]["layers"].as_array_mut().unwrap() {
        layer["kv_bytes_per_token"] = json!(1e5);
        for mode in layer["modes"].as_array_mut().unwrap() {
            mode["kv_bytes_per_token"] = json!(1e5 / mode["tensor"].as_f64().unwrap_or(1.0));
        }
    }
}

/// Hosts of all devices, where something may lie there, and of as much memory as two layers keep.
fn add_hosts(file: &mut Value, bytes: u64) {
    if file.as_object_mut().unwrap().remove("hosts").is_none() {
        return;
    }
    for kind in file["cluster"]["device_kinds"].as_array_mut().unwrap() {
        (kind["host_bytes_per_s"], kind["host_memory_bytes"]) = (json!(1e5), json!(bytes));
    }
}

/// A first layer that training leaves as it is, where it is to.
fn freeze(file: &mut Value) {
    if file.as_object_mut().unwrap().remove("frozen").is_none() {
        return;
    }
    let layers = file["network"]["layers"].as_array_mut().unwrap();
    // A table is trained in all layers that share it, or in none.
    for at in [0, 3] {
        if at == 0 || !layers[at]["shared"].is_null() {
            layers[at]["frozen"] = json!(true);
        }
    }
}

/// What of each layer is attention, for a micro-batch of a hundred tokens, where a prompt is read.
fn add_attention(file: &mut Value) {
    if file.as_object_mut().unwrap().remove("read").is_none() {
        return;
    }
    file["network"]["micro_batch"] = json!({ "tokens": 100.0 });
    let add = |of: &mut Value| {
        for times in of["times"].as_object_mut().unwrap().values_mut() {
            let forward_ms = times["forward_ms"].as_f64().unwrap();
            times["attention_ms"] = json!(forward_ms / 4.0);
            times["fixed_ms"] = json!(forward_ms / 8.0);
        }
    };
    for layer in file["network"]["layers"].as_array_mut().unwrap() {
        layer["modes"].as_array_mut().unwrap().iter_mut().for_each(add);
        add(layer);
    }
}

/// The one with what the other adds or says instead.
fn merged(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut all = one.clone();
            for (key, value) in other {
                let before = all.get(key).cloned().unwrap_or(Value::Null);
                all.insert(key.clone(), merged(&before, value));
            }
            Value::Object(all)
        }
        _ => other.clone(),
    }
}

fn instance(features: &[&Value]) -> Instance {
    let mut file = features
        .iter()
        .fold(base(), |file, feature| merged(&file, feature));
    if file.as_object_mut().unwrap().remove("branch").is_some() {
        let skip = json!({ "producer": "block.0", "consumers": ["block.2"], "bytes": 2e5 });
        file["network"]["tensors"].as_array_mut().unwrap().push(skip);
    }
    share(&mut file, 20.0);
    add_experts(&mut file, 20.0);
    add_context(&mut file);
    add_attention(&mut file);
    add_hosts(&mut file, 160);
    freeze(&mut file);
    Instance::from_spec(&serde_json::from_value(file).expect("an instance")).expect("a valid instance")
}

/// A network of other times, sizes and memory, and fewer layers or micro-batches.
fn drawn(rng: &mut ChaCha8Rng) -> Value {
    let mut file = base();
    let layers = file["network"]["layers"].as_array_mut().unwrap();
    for layer in layers.iter_mut() {
        let times: [f64; 2] = [0, 1].map(|_| f64::from(rng.random_range(1..=6)));
        let bytes: [f64; 2] = [0, 1].map(|_| 10.0 * f64::from(rng.random_range(0..=6)));
        let again = rng.random_bool(0.5);
        let modes = [1, 2].map(|tensor| {
            let part = 1.0 / f64::from(tensor);
            let on = |kind: f64| json!({ "forward_ms": times[0] * part * kind, "backward_ms": times[1] * part * kind });
            json!({ "tensor": tensor, "times": { "fast": on(1.0), "slow": on(1.5) },
                    "parameter_bytes": bytes[0] * part, "stash_bytes": bytes[1] * part })
        });
        let mut modes = modes.to_vec();
        if again {
            for mut mode in modes.clone() {
                for kind in ["fast", "slow"] {
                    let times = &mut mode["times"][kind];
                    times["backward_ms"] =
                        json!(times["backward_ms"].as_f64().unwrap() + times["forward_ms"].as_f64().unwrap());
                }
                mode["recompute"] = json!("full");
                mode["stash_bytes"] = json!(5.0);
                modes.push(mode);
            }
        }
        for key in ["times", "parameter_bytes", "stash_bytes"] {
            layer[key] = modes[0][key].clone();
        }
        layer["modes"] = json!(modes);
    }
    for tensor in file["network"]["tensors"].as_array_mut().unwrap() {
        tensor["bytes"] = json!(1e6 * f64::from(rng.random_range(0..=3)));
    }
    file["pipeline"]["micro_batches"] = json!([1, 2, 4][rng.random_range(0..3)]);
    file["pipeline"]["stages"] = json!(rng.random_range(2..=3));
    file["cluster"]["device_kinds"][0]["count"] = json!(rng.random_range(2..=4));
    file
}

/// Most plans of a problem that are looked at; larger ones are left out.
const MOST_PLANS: usize = 20_000;

/// How often what was seen.
#[derive(Debug, Default)]
struct Seen {
    refused: usize,
    left_out: usize,
    compared: usize,
    proved: usize,
    infeasible: usize,
}

/// Holds the plan of a file against the best of all plans, each costed and simulated by itself.
fn hold(file: &Value, seen: &mut Seen) {
    let spec = serde_json::from_value(file.clone()).unwrap();
    let instance = Instance::from_spec(&spec).unwrap();
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
    let is_enumerated = settings.groups != Groups::Assign
        && !settings.may_have_virtual_stages()
        && settings.cuts == stagecut::options::Cuts::Tied;
    let plans = is_enumerated.then(|| crate::regions::plans_up_to(MOST_PLANS, &instance, &settings));
    let Some(plans) = plans.flatten() else {
        seen.left_out += 1;
        return;
    };
    let problem = Problem::new(&instance, settings.clone()).ok();
    let mut best = f64::INFINITY;
    for bare in plans {
        if let Ok(found) = evaluate::evaluate(&instance, &settings, problem.as_ref(), &bare)
            && found.violations.is_empty()
        {
            best = best.min(found.plan.objective_ms.unwrap_or(f64::INFINITY));
        }
    }
    if problem.is_none() {
        assert!(
            best.is_infinite(),
            "refused, though {best} ms are possible: {file}"
        );
        seen.infeasible += 1;
        return;
    }
    let plan = solve(&instance, &Options::default()).unwrap_or_else(|error| panic!("{error}: {file}"));
    let context = || {
        format!(
            "{:?}, best {best}: {file}",
            (plan.status, plan.objective_ms, plan.bound_ms)
        )
    };
    assert!(
        check::check(&instance, &settings, &plan).is_empty(),
        "{}",
        context()
    );
    let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
    let found = plan.objective_ms.unwrap_or(f64::INFINITY);
    assert!(found >= best - 1e-6, "{}", context());
    assert!(plan.bound_ms.is_none_or(|ms| ms < best + 1e-6), "{}", context());
    assert!(
        !is_proved || best.is_infinite() || (found - best).abs() < 1e-6,
        "{}",
        context()
    );
    assert!(
        !is_proved || found.is_finite() || best.is_infinite(),
        "{}",
        context()
    );
    seen.compared += 1;
    seen.proved += usize::from(is_proved);
    seen.infeasible += usize::from(best.is_infinite());
}

/// The network with features, and little memory where memory is one of them.
fn together(network: &Value, set: &[&Value], limit: u64) -> Value {
    let mut file = set
        .iter()
        .fold(network.clone(), |file, feature| merged(&file, feature));
    if file.as_object_mut().unwrap().remove("branch").is_some() {
        let skip = json!({ "producer": "block.0", "consumers": ["block.2"], "bytes": 2e6 });
        file["network"]["tensors"].as_array_mut().unwrap().push(skip);
    }
    if let Some(bytes) = file["pipeline"].get_mut("memory_limit") {
        *bytes = json!(limit);
    }
    share(&mut file, 10.0);
    add_experts(&mut file, 20.0);
    add_context(&mut file);
    add_attention(&mut file);
    add_hosts(&mut file, limit / 2);
    freeze(&mut file);
    file
}

fn is_accepted(file: &Value) -> bool {
    let spec = serde_json::from_value(file.clone()).unwrap_or_else(|error| panic!("{error}: {file}"));
    let instance = Instance::from_spec(&spec);
    instance.is_ok_and(|instance| Settings::resolve(&instance, &PipelineOptions::default()).is_ok())
}

#[test]
fn larger_sets_are_the_best_of_all_plans() {
    compare_sets(&[]);
}

/// A shared table beside whatever else: copies, and sums of their gradients that take as long as transfers, over a link of some latency.
#[test]
fn sets_with_a_shared_table_are_the_best_of_all_plans() {
    compare_sets(&[&json!({ "shared": true, "cluster": { "link": { "latency_ms": 0.75 } } })]);
}

/// Experts beside whatever else: shared out by replicas, of which the busiest has more tokens than others.
#[test]
fn sets_with_experts_are_the_best_of_all_plans() {
    let options = json!({ "expert": "choose", "replicas": "choose", "expert_load": 1.25 });
    compare_sets(&[&json!({ "experts": true, "pipeline": options })]);
}

/// Sequences that tensor groups of a replica share out, beside whatever else.
#[test]
fn sets_with_context_degrees_are_the_best_of_all_plans() {
    let options = json!({ "context_parallel": "choose", "replicas": "choose" });
    compare_sets(&[&json!({ "context": true, "pipeline": options })]);
}

/// Gradients, or gradients and weights, that replicas share out, beside whatever else.
#[test]
fn sets_with_shards_are_the_best_of_all_plans() {
    for sharding in ["zero2", "zero3"] {
        let options = json!({ "optimizer_sharding": sharding, "replicas": "choose" });
        compare_sets(&[&json!({ "pipeline": options })]);
    }
}

/// States of the optimiser at hosts beside whatever else.
#[test]
fn sets_with_hosts_are_the_best_of_all_plans() {
    compare_some_sets(&[&json!({ "hosts": true, "pipeline": states("choose") })], 400);
}

/// A layer that is not trained beside whatever else.
#[test]
fn sets_with_a_frozen_layer_are_the_best_of_all_plans() {
    compare_sets(&[&json!({ "frozen": true })]);
}

/// A prompt in chunks beside whatever else.
#[test]
fn sets_that_read_a_prompt_are_the_best_of_all_plans() {
    compare_sets(&[&prompt()]);
}

/// Holds sets of drawn features and these against the best of all plans.
fn compare_sets(always: &[&Value]) {
    compare_some_sets(always, 1_000);
}

/// Draws fewer of those that have many plans.
fn compare_some_sets(always: &[&Value], draws: u64) {
    let features = features();
    let mut seen = Seen::default();
    for seed in seeds(draws) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = always.len() + rng.random_range(3..=7);
        let drawn_set = features.sample(&mut rng, count - always.len());
        let set: Vec<&Value> = always
            .iter()
            .copied()
            .chain(drawn_set.map(|(_, feature)| feature))
            .collect();
        let network = drawn(&mut rng);
        let limit = rng.random_range(100..=700);
        // What is refused is asked again with fewer features.
        let files = (3 + always.len()..=count)
            .rev()
            .map(|count| together(&network, &set[..count], limit));
        let Some(file) = files.into_iter().find(is_accepted) else {
            seen.refused += 1;
            continue;
        };
        hold(&file, &mut seen);
    }
    println!("{seen:?}");
    assert!(
        seen.compared > 20 && seen.proved * 10 >= seen.compared * 9,
        "{seen:?}"
    );
}

/// What is said of the features together: the reasons, or how far the plan is proved.
fn answer(features: &[&Value]) -> Result<String, String> {
    let instance = instance(features);
    let options = Options {
        time_limit: Some(std::time::Duration::from_secs(20)),
        ..Options::default()
    };
    match solve(&instance, &options) {
        Ok(plan) => {
            if plan.status == Status::Infeasible {
                return Ok("infeasible".into());
            }
            let [found, bound] = [plan.objective_ms, plan.bound_ms].map(|ms| ms.unwrap_or(f64::NAN));
            assert!(bound <= found * (1.0 + 1e-9), "{bound} above {found}");
            let objective = Settings::resolve(&instance, &PipelineOptions::default())
                .expect("it was solved")
                .objective;
            Ok(match plan.status {
                Status::Optimal => format!("{objective} {found:.3} ms"),
                _ => format!("{objective} {found:.3} ms, at least {bound:.3}"),
            })
        }
        Err(Error::Input(error)) => {
            let reason = |fault: &stagecut::fault::Fault| fault.to_string().replace('\n', " ");
            Err(error.faults.iter().map(reason).collect::<Vec<_>>().join("; "))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn pairs_of_features_are_answered_or_refused_by_name() {
    let features = all_features();
    let (mut answers, mut refusals) = (String::new(), BTreeMap::<String, Vec<String>>::new());
    let (mut asked, mut refused) = (0, 0);
    for (at, (name, feature)) in features.iter().enumerate() {
        let alone = answer(&[feature]);
        writeln!(
            answers,
            "{name}: {}",
            alone.as_deref().unwrap_or_else(|reason| reason)
        )
        .unwrap();
        for (other, more) in &features[at + 1..] {
            asked += 1;
            let pair = format!("{name} + {other}");
            match answer(&[feature, more]) {
                Ok(said) => writeln!(answers, "{pair}: {said}").unwrap(),
                Err(reason) => {
                    refused += 1;
                    refusals.entry(reason).or_default().push(pair);
                }
            }
        }
    }
    let mut text = format!("{refused} of {asked} pairs are refused\n\n{answers}\nrefused\n");
    for (reason, pairs) in refusals {
        writeln!(text, "\n{reason}\n  {}", pairs.join("\n  ")).unwrap();
    }
    crate::common::command::snapshots("plans").bind(|| insta::assert_snapshot!("pairs", text));
}
