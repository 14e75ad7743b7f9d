//! The mixed-integer program of modes: against the dynamic program and brute force, and as files.

use crate::common::modal::random_modal_links;
use crate::common::{draws, seeds};
use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{Degrees, MemoryLimit, Objective, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::posed::Posed;
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;

/// A problem with modes, or `None` where the draw contradicts itself.
fn problem_of(spec: &InstanceSpec) -> Option<(Instance, Problem)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let problem = Problem::new(&instance, settings).ok()?;
    problem.modes.is_some().then_some((instance, problem))
}

/// What a method makes of a problem; every plan passes the checker.
fn solved(method: exact::Method, instance: &Instance, problem: &Problem) -> Plan {
    let method = Method::Exact(method);
    assert_eq!(method.applies(problem), Ok(()));
    let plan = method.run(instance, problem, &Control::default()).unwrap();
    let violations = check::check(instance, &problem.settings, &plan);
    assert!(violations.is_empty(), "{violations:?}\n{plan:#?}");
    plan
}

#[test]
fn the_program_proves_what_the_dynamic_program_and_brute_force_find() {
    let (mut compared, mut two_levels, mut infeasible, mut open) = (0, 0, 0, 0);
    for seed in seeds(200) {
        let Some((instance, problem)) = problem_of(&random_modal_links(seed)) else {
            continue;
        };
        let best = crate::oracles::modes::best_ms(&instance, &problem.settings);
        let is_best = |plan: &Plan| match (plan.objective_ms, best) {
            (Some(ms), Some(best)) => (ms - best).abs() <= 1e-6,
            (ms, best) => ms.is_none() && best.is_none(),
        };
        let dynamic = solved(exact::Method::Ideals, &instance, &problem);
        let methods = [exact::Method::Milp, exact::Method::Textbook];
        let method = methods[usize::from(seed.is_multiple_of(4))];
        let plan = solved(method, &instance, &problem);
        let proved = |plan: &Plan| matches!(plan.status, Status::Optimal | Status::Infeasible);
        assert!(proved(&plan), "seed {seed}: {plan:#?}");
        assert!(
            is_best(&plan),
            "seed {seed}: {:?}, not {best:?}\n{plan:#?}",
            plan.objective_ms
        );
        match proved(&dynamic) {
            true => assert_eq!(plan.objective_ms, dynamic.objective_ms, "seed {seed}"),
            false => open += 1,
        }
        compared += 1;
        two_levels += usize::from(instance.cluster.nodes.is_some());
        infeasible += usize::from(plan.status == Status::Infeasible);
    }
    println!("{compared} compared, {two_levels} with nodes, {infeasible} infeasible; {open} open by ideals");
    assert!(compared * 2 > draws(200) as usize && two_levels * 4 > compared && infeasible > 0);
}

/// A row of blocks of 3 ms that keep 5 bytes, or of 4 ms that keep 1, on so many devices.
fn blocks(blocks: usize, devices: usize, options: PipelineOptions) -> (Instance, Problem) {
    let modes = r#"{"forward_ms": 1, "backward_ms": 2, "stash_bytes": 5},
        {"recompute": "full", "forward_ms": 1, "backward_ms": 3, "stash_bytes": 1}"#;
    let layer = |at: usize| format!(r#"{{"id": "block{at}", "modes": [{modes}]}}"#);
    let tensor = |at: usize| format!(r#"{{"producer": "block{at}", "consumers": ["block{}"]}}"#, at + 1);
    let layers: Vec<String> = (0..blocks).map(layer).collect();
    let tensors: Vec<String> = (0..blocks - 1).map(tensor).collect();
    let text = format!(
        r#"{{"network": {{"layers": [{}], "tensors": [{}]}}, "cluster": {{"device_kinds": [{{"name": "gpu", "count": {devices}}}]}}}}"#,
        layers.join(","),
        tensors.join(",")
    );
    let instance = Instance::from_spec(&serde_json::from_str(&text).unwrap()).unwrap();
    let settings = Settings::resolve(&instance, &options).unwrap();
    let problem = Problem::new(&instance, settings).unwrap();
    (instance, problem)
}

fn choose(memory_bytes: u64) -> PipelineOptions {
    PipelineOptions {
        replicas: Some(Degrees::Choose),
        recompute: Some("choose".parse().unwrap()),
        objective: Some(Objective::Period),
        micro_batches: Some(64),
        memory_limit: Some(MemoryLimit::Bytes(memory_bytes)),
        ..PipelineOptions::default()
    }
}

/// The example of the page, and the same where replicas are cheaper: of two blocks on two devices nothing need be computed again.
#[test]
fn two_blocks_by_hand() {
    let without_replicas = |memory_bytes| PipelineOptions {
        replicas: None,
        ..choose(memory_bytes)
    };
    for (options, expected_ms) in [
        (without_replicas(10), Some(3.0)),
        (without_replicas(8), Some(4.0)),
        (without_replicas(1), None),
        (choose(10), Some(3.0)),
        // Two replicas have one micro-batch each in flight, and room for one block that is kept.
        (choose(6), Some(3.5)),
    ] {
        let (instance, problem) = blocks(2, 2, options);
        let plan = solved(exact::Method::Milp, &instance, &problem);
        assert_eq!(plan.objective_ms, expected_ms);
    }
}

#[test]
fn what_is_too_large_for_a_program_is_refused() {
    let (instance, problem) = blocks(200, 64, choose(100));
    for method in [exact::Method::Milp, exact::Method::Textbook] {
        let refused = Method::Exact(method).applies(&problem).unwrap_err();
        assert!(refused.to_string().contains("too many ways"), "{refused}");
    }
    let options = stagecut::Options {
        pipeline: choose(100),
        ..stagecut::Options::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let refused = stagecut::formulate(&instance, &options, &folder.path().join("net.lp")).unwrap_err();
    assert!(refused.to_string().contains("too many ways"), "{refused}");
}

/// The program confirms what the dynamic program proves.
#[test]
fn proofs_are_confirmed_by_the_program() {
    let (instance, problem) = blocks(4, 3, choose(9));
    let mut plan = solved(exact::Method::Exact, &instance, &problem);
    let posed = Posed::with_settings(&instance, problem.settings).expect("a problem");
    let note = posed
        .confirm(&mut plan, &Control::default())
        .expect("no contradiction");
    assert_eq!(
        (note, plan.statistics.confirmed_by.as_deref()),
        (None, Some("milp"))
    );
}
