//! Every field of plans of every kind, changed in every way that its type allows: what changes the meaning of a plan is
//! rejected, and nothing makes the checker panic.

use crate::common::chunked::virtual_spec;
use crate::common::mixed::random_mixed;
use crate::common::modal::random_modal;
use crate::common::{problem_of, random_problem, separate_problem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use stagecut::check::{examine, pose};
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Groups, PipelineOptions};
use stagecut::plan::{self, Plan};
use stagecut::problem::Problem;

/// Problems of each kind.
const SEEDS: u64 = 60;

/// Random problems of a kind.
type Draw = fn(u64) -> Option<(Instance, Problem)>;

/// Steps from the top of a plan to a value.
type Path = Vec<String>;

/// What one may say of a search without being contradicted by anything in the plan: how long it took, which method and bound it was.
const FREE: [&str; 10] = [
    "method",
    "bound_source",
    "stopped_by",
    "statistics.seconds",
    "statistics.looks",
    "statistics.nodes",
    "statistics.binaries",
    "statistics.ideals",
    "statistics.items",
    "statistics.items_after_presolve",
];

#[test]
fn changes_that_matter_are_rejected_and_none_panics() {
    let kinds: [(&str, Draw); 6] = [
        ("alike", random_problem),
        ("separate", separate_problem),
        ("mixed", random_mixed),
        ("modes", |seed| {
            problem_of(&random_modal(seed)).filter(|(_, problem)| problem.modes.is_some())
        }),
        ("groups", |seed| {
            let mut spec = random_modal(seed);
            spec.pipeline.groups = Some(Groups::Assign);
            problem_of(&spec).filter(|(_, problem)| problem.modes.is_some())
        }),
        ("chunks", |seed| problem_of(&virtual_spec(seed))),
    ];
    for (kind, draw) in kinds {
        let changed: Vec<usize> = (0..SEEDS)
            .into_par_iter()
            .filter_map(|seed| Some(mutate(kind, seed, draw(seed)?)))
            .collect();
        let total: usize = changed.iter().sum();
        assert!(
            changed.len() > 20 && total > 3_000,
            "{kind}: {} plans, {total} changes",
            changed.len()
        );
    }
}

/// Changes each value of a plan, and counts the changes.
fn mutate(kind: &str, seed: u64, (instance, problem): (Instance, Problem)) -> usize {
    let exact = methods::find("exact").expect("a registered method");
    let plan = exact
        .run(&instance, &problem, &Control::default())
        .expect("HiGHS works");
    let original = serde_json::to_value(&plan).expect("a plan is JSON");
    let text = original.to_string();
    // Reading may lose the last bit of a share.
    let plan = plan::parse(text.as_bytes()).unwrap_or_else(|faults| panic!("{kind} {seed}: {faults:?}"));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut places = Vec::new();
    list(&original, &mut Vec::new(), &mut places);
    let mut count = 0;
    for path in &places {
        let value = at(&original, path);
        for change in changes(&value, &original, &mut rng) {
            let mut changed = original.clone();
            match change {
                Some(new) => *at_mut(&mut changed, path) = new,
                None => remove(&mut changed, path),
            }
            count += 1;
            refuses((kind, seed), (&instance, &plan), &changed, path);
        }
    }
    for (path, value) in absent(&original) {
        let mut changed = original.clone();
        let (last, above) = path.split_last().expect("a path below the top");
        at_mut(&mut changed, above)[last.as_str()] = value;
        count += 1;
        refuses((kind, seed), (&instance, &plan), &changed, &path);
    }
    count
}

/// A plan that was changed at a place does not pass, unless it means the same.
fn refuses(of: (&str, u64), (instance, plan): (&Instance, &Plan), changed: &Value, path: &Path) {
    let accepted = accepted(instance, changed);
    if accepted.is_some_and(|accepted| means_another(plan, &accepted, path)) {
        let now = at(changed, path);
        panic!("{of:?}: {} is now {now} and passes: {plan:#?}", path.join("."));
    }
}

/// Fields that a plan may have and this one has not, each with a claim.
fn absent(plan: &Value) -> Vec<(Path, Value)> {
    let of_plan = [
        (
            "split",
            json!({"stash_bytes_moved": 0, "weight_bytes_moved": 0, "layers": []}),
        ),
        ("least_memory", json!({"at_least_bytes": 7})),
        (
            "overruns",
            json!([{"stage": 1, "in_flight": 7, "memory_bytes": 7, "over_bytes": 7}]),
        ),
    ];
    let moved = json!({"in_ms": 0.0, "out_ms": 7.0});
    let of_stage = [
        ("weight_ms", json!(7.0)),
        ("transfers", json!({"forward": moved, "backward": moved})),
        ("in_flight", json!(7)),
        ("weight_versions", json!(7)),
        ("mode", json!({"tensor": 1, "replicas": 1})),
    ];
    let path = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Path>();
    let mut absent: Vec<(Path, Value)> = Vec::new();
    // What a proof of no plan says of memory is its own.
    let is_free = |name: &str| name == "least_memory" && plan["status"] == "infeasible";
    for (name, value) in of_plan
        .into_iter()
        .filter(|(name, _)| plan.get(name).is_none() && !is_free(name))
    {
        absent.push((path(&[name]), value));
    }
    for (k, stage) in plan["stages"].as_array().into_iter().flatten().enumerate() {
        for (name, value) in of_stage.iter().filter(|(name, _)| stage.get(name).is_none()) {
            absent.push((path(&["stages", &k.to_string(), name]), value.clone()));
        }
        let mode = stage.get("mode");
        let degrees = ["expert", "context", "group"].into_iter();
        for name in degrees.filter(|name| mode.is_some_and(|mode| mode.get(name).is_none())) {
            absent.push((path(&["stages", &k.to_string(), "mode", name]), json!(2)));
        }
    }
    absent
}

/// The plan, if it passes without owing anything to claims of its own.
fn accepted(instance: &Instance, changed: &Value) -> Option<Plan> {
    let plan = plan::parse(changed.to_string().as_bytes()).ok()?;
    let posed = pose(instance, &PipelineOptions::default(), &plan).ok()?;
    let verdict = examine(instance, &posed.settings, &plan);
    (verdict.violations.is_empty() && posed.claimed.is_empty()).then_some(plan)
}

/// Whether the plans differ in more than what is free, names of devices alike, and the order in which layers are listed.
fn means_another(plan: &Plan, changed: &Plan, path: &Path) -> bool {
    let is_free = FREE.contains(&path.join(".").as_str())
        || path[0] == "statistics" && path.get(1).is_some_and(|name| name == "bounds_ms");
    // A plan need not say what gradients of weights take.
    let unsaid = |stage: usize| (changed.stages.get(stage)).is_some_and(|stage| stage.weight_ms.is_none());
    let said = |reason: &String| changed.reasons.contains(reason);
    let plain = |plan: &Plan| {
        let mut plan = plan.clone();
        // Nor every reason why there is none, nor of which kind its times are.
        plan.reasons.retain(said);
        plan.times.retain(|times| changed.times.contains(times));
        for (k, stage) in plan.stages.iter_mut().enumerate() {
            stage.weight_ms = stage.weight_ms.filter(|_| !unsaid(k));
            stage.forward.sort();
            stage.backward.sort();
            let recomputed = stage
                .mode
                .iter_mut()
                .flat_map(|mode| mode.recomputed.values_mut());
            recomputed.for_each(|layers| layers.sort());
            // A device of the same kind is as good, as long as no other stage has it.
            for device in &mut stage.devices {
                *device = device.split(':').next().unwrap_or_default().to_owned();
            }
            stage.devices.sort();
            // Whatever a stage without work is given, it takes no time.
            if stage.load_ms < 1e-6 {
                stage.shares.clear();
            }
        }
        if let Some(split) = &mut plan.split {
            split.layers.sort_by(|one, other| one.layer.cmp(&other.layer));
        }
        plan
    };
    !is_free && !nearly(plain(plan), plain(changed))
}

/// Whether plans are the same up to differences that a check cannot see: times of less than a nanosecond.
fn nearly(plan: Plan, changed: Plan) -> bool {
    let [plan, changed] = [plan, changed].map(|plan| serde_json::to_value(plan).expect("a plan is JSON"));
    same(&plan, &changed)
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            (a.as_f64().unwrap_or(0.0) - b.as_f64().unwrap_or(0.0)).abs() <= 1.01e-6
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Every value in a plan.
fn list(value: &Value, path: &mut Path, places: &mut Vec<Path>) {
    if !path.is_empty() {
        places.push(path.clone());
    }
    let mut visit = |name: String, value: &Value| {
        path.push(name);
        list(value, path, places);
        path.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| visit(name.clone(), value)),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .for_each(|(at, value)| visit(at.to_string(), value)),
        _ => {}
    }
}

fn pointer(path: &[String]) -> String {
    path.iter()
        .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")))
        .collect()
}

fn at(plan: &Value, path: &[String]) -> Value {
    plan.pointer(&pointer(path)).cloned().unwrap_or(Value::Null)
}

fn at_mut<'a>(plan: &'a mut Value, path: &[String]) -> &'a mut Value {
    plan.pointer_mut(&pointer(path)).expect("a listed path")
}

fn remove(plan: &mut Value, path: &[String]) {
    let (last, above) = path.split_last().expect("a path below the top");
    match at_mut(plan, above) {
        Value::Object(fields) => drop(fields.remove(last)),
        Value::Array(values) => drop(values.remove(last.parse().expect("a position"))),
        _ => {}
    }
}

/// Other values for a place; `None` leaves it out.
fn changes(value: &Value, plan: &Value, rng: &mut ChaCha8Rng) -> Vec<Option<Value>> {
    let mut changes = vec![None, Some(Value::Null)];
    match value {
        Value::Number(number) => {
            let others = other_numbers(number.as_f64().unwrap_or(0.0), rng);
            changes.extend(others.into_iter().map(Some));
        }
        Value::String(text) => changes.extend(other_texts(text, plan, rng).into_iter().map(Some)),
        Value::Bool(value) => changes.push(Some(json!(!value))),
        Value::Array(values) => {
            changes.push(Some(json!([])));
            changes.push(Some(Value::Array(values.iter().rev().cloned().collect())));
            if let Some(first) = values.first() {
                let doubled = values.iter().cloned().chain([first.clone()]);
                changes.push(Some(Value::Array(doubled.collect())));
            }
        }
        Value::Object(fields) => {
            let mut more: Map<String, Value> = fields.clone();
            more.insert("nonsense".into(), json!(1.0));
            changes.push(Some(Value::Object(more)));
            changes.push(Some(json!({})));
        }
        Value::Null => changes.extend([json!(1.0), json!("optimal")].map(Some)),
    }
    changes
}

fn other_numbers(number: f64, rng: &mut ChaCha8Rng) -> Vec<Value> {
    let others = [
        0.0,
        number + 1.0,
        number - 1.0,
        2.0 * number,
        0.5 * number,
        -number,
        rng.random_range(0.0..100.0),
        1e300,
        -1e300,
        1e-300,
        18446744073709.55,
    ];
    let whole = [
        0,
        1,
        2,
        1 << 53,
        u64::MAX,
        number as u64 + 1,
        (number as u64).wrapping_sub(1),
    ];
    let others = others.into_iter().map(Value::from);
    others.chain(whole.into_iter().map(Value::from)).collect()
}

/// Words that plans have, numbers that devices may have, and another text of this plan.
fn other_texts(text: &str, plan: &Value, rng: &mut ChaCha8Rng) -> Vec<Value> {
    let mut places = Vec::new();
    list(plan, &mut Vec::new(), &mut places);
    let text_at = |path: &Path| at(plan, path).as_str().map(str::to_owned);
    let texts: Vec<String> = places.iter().filter_map(text_at).collect();
    let other = texts[rng.random_range(0..texts.len())].clone();
    let fixed = [
        "",
        "none",
        "other",
        "optimal",
        "feasible",
        "infeasible",
        "time-limit",
        "gpu:99",
    ];
    let numbered = [
        format!("{text}:99999"),
        format!("{text}9"),
        text.replace('1', "18446744073709551616"),
    ];
    let fixed = fixed.into_iter().map(Value::from);
    let others = numbered.into_iter().chain([other]).map(Value::from);
    fixed.chain(others).collect()
}
