//! Networks of any depth and width: what reads and plans them takes no more stack for a long chain than for a short one, and no more
//! time than they are large.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::common::command::Folder;
use stagecut::{Instance, Options, PipelineOptions, check, methods, solve};

/// Less than a thread of any system has by default.
const STACK_BYTES: usize = 512 << 10;

/// A layer `i` whose output goes to `consumers(i)`, for each of so many.
fn network(layers: usize, consumers: impl Fn(usize) -> Vec<usize>) -> String {
    let mut text =
        String::from(r#"{"schema": "stagecut-instance/1", "name": "deep", "network": {"layers": ["#);
    for layer in 0..layers {
        let comma = if layer > 0 { "," } else { "" };
        let _ = write!(
            text,
            r#"{comma}{{"id": "a{layer}", "forward_ms": 1, "backward_ms": 1}}"#
        );
    }
    text.push_str(r#"], "tensors": ["#);
    let mut comma = "";
    for layer in 0..layers {
        let names: Vec<String> = consumers(layer).iter().map(|to| format!(r#""a{to}""#)).collect();
        if !names.is_empty() {
            let _ = write!(
                text,
                r#"{comma}{{"producer": "a{layer}", "consumers": [{}], "bytes": 1}}"#,
                names.join(",")
            );
            comma = ",";
        }
    }
    text.push_str(r#"]}, "cluster": {"device_kinds": [{"name": "g", "count": 4}], "link": {"bandwidth_bytes_per_s": 1e9}}}"#);
    text
}

fn chain(layers: usize) -> String {
    network(layers, |layer| (layer + 1..layers.min(layer + 2)).collect())
}

fn fan(layers: usize) -> String {
    network(layers, |layer| {
        if layer == 0 {
            (1..layers).collect()
        } else {
            Vec::new()
        }
    })
}

/// Runs on a thread with a small stack: a stack that overflows ends the process.
fn on_a_small_stack<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let thread = thread.spawn(body).expect("a thread");
    thread.join().expect("it ends")
}

fn read(text: &str) -> Result<Instance, stagecut::InputError> {
    let folder = Folder::with("deep.json", text);
    Instance::read(&folder.path("deep.json"), None)
}

#[test]
fn long_chains_are_read_planned_and_checked_on_a_small_stack() {
    on_a_small_stack(|| {
        let instance = read(&chain(150_000)).expect("a chain is valid");
        let pipeline = PipelineOptions {
            stages: Some(4),
            ..Default::default()
        };
        let options = Options {
            pipeline,
            method: methods::find("equal-layers").expect("a method"),
            ..Options::default()
        };
        let plan = solve(&instance, &options).expect("a plan");
        assert_eq!(plan.stages.len(), 4);
        assert_eq!(check(&instance, &options, &plan).expect("a check"), []);
    });
}

#[test]
fn exact_searches_of_long_chains_take_no_more_stack_either() {
    on_a_small_stack(|| {
        let instance = read(&chain(30_000)).expect("a chain is valid");
        let pipeline = PipelineOptions {
            stages: Some(4),
            ..Default::default()
        };
        let options = Options {
            pipeline,
            time_limit: Some(Duration::from_secs(2)),
            ..Options::default()
        };
        let plan = solve(&instance, &options).expect("a plan");
        assert!(plan.objective_ms.is_some());
    });
}

#[test]
fn a_cycle_of_any_length_is_named() {
    let error = on_a_small_stack(|| {
        let layers = 150_000;
        read(&network(layers, |layer| vec![(layer + 1) % layers])).expect_err("a cycle")
    });
    assert!(error.to_string().contains("cycle"), "{:.200}", error.to_string());
}

/// A tensor of many consumers costs as many steps, not their square: 16 times as many take far less than 256 times as long.
#[test]
fn wide_networks_are_read_in_the_time_of_their_size() {
    let seconds = |layers: usize| {
        let text = fan(layers);
        let started = Instant::now();
        read(&text).expect("a fan is valid");
        started.elapsed().as_secs_f64()
    };
    let few = seconds(12_500).max(0.01);
    let many = seconds(200_000);
    assert!(
        many < 60.0 * few,
        "{few} s for 12,500 layers, {many} s for 200,000"
    );
}

#[test]
fn a_million_layers_are_checked_and_shown() {
    for text in [chain(1_000_000), fan(300_000)] {
        let folder = Folder::with("deep.json", text);
        let solve = "solve deep.json --stages 4 --method equal-layers --quiet --output plan.json";
        folder.succeed(&solve.split(' ').collect::<Vec<_>>());
        folder.succeed(&["check", "deep.json", "plan.json"]);
    }
}
