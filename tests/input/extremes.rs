//! Numbers of any size in instances and options of every kind: a plan that passes its check, or a fault of the input, and nothing that
//! overflows.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use stagecut::instance::Instance;
use stagecut::spec::InstanceSpec;
use stagecut::{Error, Options};

/// Times in ms, sizes, rates, numbers of things: from nothing to the largest that a field may be.
const EXTREMES: [f64; 16] = [
    0.0, 1.0, 2.0, 1e-300, 1e-6, 0.01, 20.0, 1e3, 1e6, 1e9, 8.9e9, 1e12, 9.007e15, 1e18, 1e30, 1e300,
];

/// Replaces numbers now and then.
fn stretch(value: &mut Value, rng: &mut ChaCha8Rng) {
    match value {
        Value::Number(number) if rng.random_bool(0.04) => {
            let extreme = EXTREMES[rng.random_range(0..EXTREMES.len())];
            let whole = number.is_u64();
            *value = if whole {
                json!(extreme.min(1e6) as u64)
            } else {
                json!(extreme)
            };
        }
        Value::Array(values) => values.iter_mut().for_each(|value| stretch(value, rng)),
        Value::Object(fields) => fields.values_mut().for_each(|value| stretch(value, rng)),
        _ => {}
    }
}

#[test]
fn numbers_of_any_size_end_in_a_plan_or_a_fault() {
    let draws: [fn(u64) -> InstanceSpec; 5] = [
        crate::common::any_spec,
        crate::common::modal::random_modal,
        crate::common::modal::random_modal_slow_inside,
        crate::common::chunked::virtual_spec,
        |seed| crate::common::separate_spec(seed, 4, false),
    ];
    let (mut plans, mut faults) = (0, 0);
    let count = crate::common::draws(400) as usize;
    for seed in crate::common::seeds(400) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut spec = serde_json::to_value(draws[seed as usize % draws.len()](seed)).expect("JSON");
        stretch(&mut spec, &mut rng);
        let Ok(spec) = serde_json::from_value::<InstanceSpec>(spec) else {
            continue;
        };
        let Ok(instance) = Instance::from_spec(&spec) else {
            faults += 1;
            continue;
        };
        let options = Options {
            time_limit: Some(Duration::from_millis(100)),
            ..Options::default()
        };
        match stagecut::solve(&instance, &options) {
            Ok(_) => plans += 1,
            Err(Error::Input(_) | Error::Inapplicable { .. }) => faults += 1,
            Err(error) => panic!(
                "seed {seed}: {error}\n{}",
                serde_json::to_string(&spec).expect("JSON")
            ),
        }
    }
    println!("{plans} plans, {faults} faults");
    assert!(
        plans > count / 20 && faults > count / 20,
        "{plans} plans, {faults} faults"
    );
}

/// Two layers with modes on nodes of two devices: the link inside, and the longest backward pass.
fn with_modes(bandwidth_bytes_per_s: f64, backward_ms: f64) -> Instance {
    let layer = |id: &str| {
        json!({"id": id, "modes": [
            {"tensor": 1, "forward_ms": 3.0, "backward_ms": 6.0, "stash_bytes": 1e8},
            {"tensor": 1, "forward_ms": 3.0, "backward_ms": backward_ms, "recompute": "full"},
            {"tensor": 2, "forward_ms": 1.6, "backward_ms": 3.1, "collective_bytes": 1e7},
        ]})
    };
    let inside = json!({"bandwidth_bytes_per_s": bandwidth_bytes_per_s, "latency_ms": 0.0});
    let link =
        json!({"bandwidth_bytes_per_s": 25e9, "latency_ms": 0.01, "nodes": {"devices": 2, "link": inside}});
    let spec = json!({
        "network": {
            "layers": [layer("a"), layer("b")],
            "tensors": [{"producer": "a", "consumers": ["b"], "bytes": 1e6}],
        },
        "cluster": {"device_kinds": [{"name": "gpu", "count": 4}], "link": link},
        "pipeline": {"tensor": "choose", "recompute": "choose"},
    });
    let spec: InstanceSpec = serde_json::from_value(spec).expect("an instance");
    Instance::from_spec(&spec).expect("no fault by itself")
}

#[test]
fn what_cannot_be_added_up_is_refused_where_it_is_asked() {
    let cases = [
        (with_modes(0.01, 9.0), "cluster.link: found a total of"),
        (with_modes(1e9, 3e9), "network.layers: found a total of"),
    ];
    for (instance, expected) in cases {
        let error = stagecut::solve(&instance, &Options::default()).expect_err("a fault");
        assert!(matches!(error, Error::Input(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(stagecut::solve(&with_modes(1e9, 9.0), &Options::default()).is_ok());
}
