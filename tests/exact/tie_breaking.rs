//! Of plans with the same objective the one with the shortest iteration is taken, then the one that holds least: against brute force.

use crate::common::{problem_of, random_spec};
use stagecut::control::Control;
use stagecut::cost;
use stagecut::exact::tie_breaking::{Worth, worth};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::Objective;
use stagecut::plan::Plan;
use stagecut::problem::{Assignment, Problem};
use stagecut::spec::InstanceSpec;

fn solved(instance: &Instance, problem: &Problem) -> Plan {
    let exact = methods::find("exact").expect("exact is registered");
    let plan = exact.run(instance, problem, &Control::default());
    plan.expect("HiGHS works")
}

/// The stage of every item in a plan.
fn assignment(instance: &Instance, problem: &Problem, plan: &Plan) -> Assignment {
    let stage = |item: &stagecut::problem::Item| {
        let (layer, is_forward) = match item.layers.first() {
            Some(&layer) => (layer, true),
            None => (item.backward_layers[0], false),
        };
        let id = &instance.network.layers[layer].id;
        let mut stages = plan.stages.iter();
        let own = stages.position(|stage| {
            if is_forward {
                &stage.forward
            } else {
                &stage.backward
            }
            .contains(id)
        });
        own.expect("every layer lies somewhere")
    };
    problem.items.iter().map(stage).collect()
}

/// The best of all plans, one after the other.
fn best(problem: &Problem) -> Option<Worth> {
    let (items, stages) = (problem.items.len() as u32, problem.stages());
    let mut best: Option<Worth> = None;
    for code in 0..stages.pow(items) {
        let plan: Assignment = (0..items).map(|item| code / stages.pow(item) % stages).collect();
        if !cost::keeps_order(problem, &plan) {
            continue;
        }
        if let Some(found) = worth(problem, &plan.into()) {
            best = Some(best.map_or(found, |best| best.min(found)));
        }
    }
    best
}

/// Eleven layers of 1 ms before one of 5 ms: many plans in four stages have the period of 5 ms.
#[test]
fn equal_periods_take_the_plan_that_holds_least() {
    let layer = |k: usize| {
        let ms = if k == 11 { 2.5 } else { 0.5 };
        format!(r#"{{"id": "l{k}", "forward_ms": {ms}, "backward_ms": {ms}, "stash_bytes": 1000}}"#)
    };
    let tensor = |k: usize| {
        format!(
            r#"{{"producer": "l{k}", "consumers": ["l{}"], "bytes": 0}}"#,
            k + 1
        )
    };
    let layers: Vec<String> = (0..12).map(layer).collect();
    let tensors: Vec<String> = (0..11).map(tensor).collect();
    let text = format!(
        r#"{{"network": {{"layers": [{}], "tensors": [{}]}},
            "cluster": {{"device_kinds": [{{"name": "g", "count": 4}}], "link": {{"bandwidth_bytes_per_s": 1e9}}}},
            "pipeline": {{"objective": "period", "micro_batches": 8}}}}"#,
        layers.join(","),
        tensors.join(",")
    );
    let spec: InstanceSpec = serde_json::from_str(&text).expect("the instance is valid");
    let (instance, problem) = problem_of(&spec).expect("the problem is valid");
    let plan = solved(&instance, &problem);
    assert_eq!(plan.objective_ms, Some(5.0));
    let fullest = plan.stages.iter().map(|stage| stage.memory_bytes).max();
    // 3, 4 and 4 layers with four, three and two micro-batches in flight; 5, 5 and 1 hold 20 in the first stage.
    assert_eq!(fullest, Some(12_000), "{:?}", plan.stages);
    assert_eq!(solved(&instance, &problem).stages, plan.stages);
}

/// Problems of all kinds that are small enough for brute force: objectives are the least there are, and with few exceptions so is all else.
#[test]
fn answers_are_the_best_of_their_equals() {
    let (mut cases, mut missed, mut choices) = (0, 0, 0);
    for seed in 0..900 {
        let spec = random_spec(seed, seed % 2 == 0);
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let (items, stages) = (problem.items.len() as u32, problem.stages());
        let is_small = (stages as u64)
            .checked_pow(items)
            .is_some_and(|plans| plans < 5_000);
        if !is_small || problem.settings.objective == Objective::Iteration {
            continue;
        }
        let plan = solved(&instance, &problem);
        let Some(best) = best(&problem) else {
            assert!(plan.stages.is_empty(), "seed {seed}");
            continue;
        };
        let found = assignment(&instance, &problem, &plan);
        let found = worth(&problem, &found.into()).expect("a plan");
        assert_eq!(found.objective, best.objective, "seed {seed}");
        cases += 1;
        missed += usize::from(found != best);
        choices += usize::from(best.all_bytes > 0);
    }
    assert!(cases > 200 && choices > 100, "{cases}, {choices}");
    assert!(
        missed * 20 <= cases,
        "{missed} of {cases} are not the best of their equals"
    );
}
