//! The library in one call: plans that have passed the checker, and errors that say what is wrong.

use stagecut::spec::{InstanceSpec, LayerSpec};
use stagecut::{
    Error, Instance, Options, PipelineOptions, Status, check, compare, formulate, methods, solve,
};

/// Three layers of 3, 1 and 2 ms on two devices: the best period is 3 ms.
fn instance() -> Instance {
    let instance = Instance::builder("three")
        .layer("a", 3.0, 0.0)
        .layer("b", 1.0, 0.0)
        .layer("c", 2.0, 0.0)
        .tensor("a", ["b"], 0.0)
        .tensor("b", ["c"], 0.0)
        .devices("gpu", 2, 1e9)
        .link(1e9, 0.0);
    instance.build().expect("an instance")
}

#[test]
fn a_builder_reports_all_faults_at_once() {
    let faulty = Instance::builder("faulty")
        .layer("a", -1.0, 0.0)
        .layer("a", 1.0, f64::NAN)
        .tensor("a", ["b"], 1.0)
        .devices("gpu", 0, 1e9)
        .link(0.0, 0.0);
    let error = faulty.build().expect_err("many faults");
    assert_eq!(error.faults.len(), 6, "{error}");
    let said = error.to_string();
    for place in [
        "layers[0] `a`.forward_ms",
        "layers[1] `a`.backward_ms",
        "tensors[0] of `a`",
    ] {
        assert!(said.contains(place), "{said}");
    }
}

#[test]
fn a_builder_says_what_a_file_says() {
    let read: InstanceSpec = serde_json::from_value(serde_json::json!({
        "name": "three",
        "network": {
            "layers": [
                { "id": "a", "forward_ms": 3, "backward_ms": 0 },
                { "id": "b", "forward_ms": 1, "backward_ms": 0 },
                { "id": "c", "forward_ms": 2, "backward_ms": 0 },
            ],
            "tensors": [
                { "producer": "a", "consumers": ["b"], "bytes": 0 },
                { "producer": "b", "consumers": ["c"], "bytes": 0 },
            ],
        },
        "cluster": {
            "device_kinds": [{ "name": "gpu", "count": 2, "memory_bytes": 1e9 }],
            "link": { "bandwidth_bytes_per_s": 1e9 },
        },
    }))
    .expect("a specification");
    let [read, built] = [Instance::from_spec(&read).expect("an instance"), instance()];
    assert_eq!((read.network, read.cluster), (built.network, built.cluster));
}

#[test]
fn a_layer_larger_than_any_device_has_no_plan() {
    let layer = LayerSpec {
        id: "large".into(),
        forward_ms: Some(1.0),
        resident_bytes: 2e9,
        ..LayerSpec::default()
    };
    let instance = Instance::builder("large")
        .layer_spec(layer)
        .devices("gpu", 1, 1e9);
    let plan = solve(&instance.build().expect("an instance"), &Options::default()).expect("an answer");
    assert_eq!((plan.status, plan.stages.len()), (Status::Infeasible, 0));
}

#[test]
fn a_program_is_written_for_other_solvers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("three.lp");
    let program = formulate(&instance(), &Options::default(), &path).expect("a program");
    assert!(program.binaries > 0 && program.rows > 0, "{program:?}");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(
        text.contains("unit of time") && text.contains("prefix(a,1)"),
        "{text}"
    );
    let error = formulate(&instance(), &Options::default(), &path.with_extension("txt")).expect_err("a name");
    assert!(error.to_string().contains("ends in `.lp` or `.mps`"), "{error}");
}

#[test]
fn a_plan_is_solved_and_checked() {
    let (instance, options) = (instance(), Options::default());
    let plan = solve(&instance, &options).expect("a plan");
    assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(3.0)));
    assert_eq!(plan.stages[0].forward, ["a"]);
    assert_eq!(check(&instance, &options, &plan).expect("fitting options"), []);
    let mut wrong = plan.clone();
    wrong.objective_ms = Some(2.0);
    assert!(
        !check(&instance, &options, &wrong)
            .expect("fitting options")
            .is_empty()
    );
}

#[test]
fn every_method_that_applies_is_compared() {
    let plans = compare(&instance(), &Options::default()).expect("plans");
    assert_eq!(plans[0].method, "exact");
    assert!(plans.len() > 5, "{}", plans.len());
    assert!(plans.iter().all(|plan| plan.objective_ms >= Some(3.0)));
}

#[test]
fn errors_say_what_is_wrong() {
    let instance = instance();
    let pipeline = PipelineOptions {
        stages: Some(3),
        ..Default::default()
    };
    let error = solve(
        &instance,
        &Options {
            pipeline,
            ..Options::default()
        },
    )
    .expect_err("two devices");
    assert!(matches!(error, Error::Input(_)));
    let said = error.to_string();
    assert!(said.contains("3 stages and 2 `gpu` devices"), "{said}");
    let method = methods::find("lpt").expect("a method");
    let error = solve(
        &instance,
        &Options {
            method,
            ..Options::default()
        },
    )
    .expect_err("alike");
    let said = error.to_string();
    assert!(
        said.contains("`lpt` does not apply: its workers are all alike"),
        "{said}"
    );
}
