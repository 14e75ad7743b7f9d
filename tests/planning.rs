//! The library in one call: plans that have passed the checker, and errors that say what is wrong.

use stagecut::instance::Instance;
use stagecut::{Error, Options, PipelineOptions, Status, check, compare, methods, solve};

/// Three layers of 3, 1 and 2 ms on two devices: the best period is 3 ms.
fn instance() -> Instance {
    let spec = serde_json::json!({
        "name": "three",
        "network": {
            "layers": [
                { "id": "a", "forward_ms": 3 },
                { "id": "b", "forward_ms": 1 },
                { "id": "c", "forward_ms": 2 },
            ],
            "tensors": [
                { "producer": "a", "consumers": ["b"], "bytes": 0 },
                { "producer": "b", "consumers": ["c"], "bytes": 0 },
            ],
        },
        "cluster": { "device_kinds": [{ "name": "gpu", "count": 2 }], "link": { "bandwidth_bytes_per_s": 1e9 } },
    });
    Instance::from_spec(&serde_json::from_value(spec).expect("a specification")).expect("an instance")
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
