//! Plans with virtual stages as commands make, run and export them.

use crate::common::command::{Folder, refused};
use serde_json::Value;

/// Eight blocks of GPT-2 between embedding and head, with a plan of two chunks on each of two devices.
fn chunks(options: &[&str]) -> Folder {
    let folder = Folder::new();
    let generate = "generate transformer --preset gpt2 --layers 8 --granularity block --output net.json";
    folder.succeed(&generate.split(' ').collect::<Vec<_>>());
    let solve = "solve net.json --stages 2 --virtual-stages 2 --all-stages --quiet --output plan.json";
    let solve: Vec<&str> = solve.split(' ').collect();
    folder.succeed(&[&solve[..], options].concat());
    folder
}

fn run(folder: &Folder, command: &str) -> String {
    folder.succeed(&command.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn is_refused(folder: &Folder, command: &str, parts: &[&str]) {
    refused(&folder.run(&command.split(' ').collect::<Vec<_>>()), parts);
}

fn plan(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("plan.json")).expect("a plan")
}

#[test]
fn a_plan_says_its_chunks_and_passes_the_check() {
    let folder = chunks(&[]);
    let plan = plan(&folder);
    assert_eq!(plan["problem"]["virtual_stages"], 2);
    assert_eq!(plan["problem"]["placement"], "loop");
    assert_eq!(plan["problem"]["schedule"], "interleaved");
    let stages = plan["stages"].as_array().expect("stages");
    let devices: Vec<&Value> = stages.iter().map(|stage| &stage["devices"][0]).collect();
    assert_eq!(devices, ["a100:1", "a100:2", "a100:1", "a100:2"]);
    assert!(run(&folder, "check net.json plan.json --stages 2 --all-stages").contains("passes"));
}

/// What a plan says of its run is what the simulator makes of it, whatever the objective.
#[test]
fn a_plan_says_how_its_chunks_run() {
    for objective in ["period", "iteration"] {
        let folder = chunks(&["--micro-batches", "8", "--objective", objective]);
        let plan = plan(&folder);
        let ran: Value =
            serde_json::from_str(&run(&folder, "simulate plan.json --format json")).expect("JSON");
        let ms = |of: &Value, field: &str| of[field].as_f64().expect("a time");
        let told = ms(&plan["run"], "iteration_ms");
        assert_eq!(told, ms(&ran["iteration"], "iteration_ms"), "{objective}");
        let full = 8.0 * ms(&plan["run"], "period_ms");
        assert!(
            (ms(&plan["run"], "bubble_share") - (1.0 - full / told)).abs() < 1e-9,
            "{objective}"
        );
    }
}

#[test]
fn simulate_runs_the_order_of_the_schedule() {
    let folder = chunks(&[]);
    let text = run(&folder, "simulate plan.json --micro-batches 8");
    assert!(text.contains("4 chunks in a loop on 2 devices"), "{text}");
    assert!(text.contains("by `interleaved`"), "{text}");
    let ran: Value = serde_json::from_str(&run(
        &folder,
        "simulate plan.json --micro-batches 8 --format json",
    ))
    .expect("JSON");
    let period = plan(&folder)["objective_ms"].as_f64().expect("a period");
    let iteration = ran["iteration"]["iteration_ms"].as_f64().expect("a time");
    assert!(iteration >= 8.0 * period, "{iteration} of {period}");
    is_refused(
        &folder,
        "simulate plan.json --micro-batches 7",
        &["multiple of the devices"],
    );
    is_refused(
        &folder,
        "simulate plan.json --in-flight standard",
        &["--in-flight", "virtual stages"],
    );
}

#[test]
fn a_split_backward_pass_runs_with_the_weights_of_the_plan() {
    let folder = chunks(&["--placement", "v"]);
    assert_eq!(plan(&folder)["problem"]["schedule"], "zb-v");
    let text = run(&folder, "simulate plan.json --micro-batches 8");
    assert!(text.contains("4 chunks in a V on 2 devices"), "{text}");
    assert!(text.contains("by `zb-v`"), "{text}");
}

#[test]
fn schedule_takes_devices_and_placement_from_the_plan() {
    let folder = chunks(&["--placement", "v"]);
    let text = run(&folder, "schedule plan.json --rule gpipe --micro-batches 4");
    assert!(text.contains("4 chunks in a V on 2 devices"), "{text}");
    let within = run(
        &folder,
        "schedule plan.json --instance net.json --rule gpipe --micro-batches 2",
    );
    assert!(within.contains("4 chunks in a V"), "{within}");
    is_refused(
        &folder,
        "schedule plan.json --devices 4",
        &["--devices", "expected 2"],
    );
    is_refused(
        &folder,
        "schedule plan.json --placement loop",
        &["--placement", "`v`"],
    );
}

#[test]
fn exports_say_virtual_stages_or_refuse_them() {
    let folder = chunks(&[]);
    let flags = run(&folder, "export net.json plan.json --to megatron");
    assert!(flags.contains("--pipeline-model-parallel-size 2 "), "{flags}");
    let layout = flags.split('"').nth(1).expect("a layout");
    let parts: Vec<&str> = layout.split('|').collect();
    assert_eq!(parts.len(), 4, "{layout}");
    assert!(parts[0].starts_with('E') && parts[3].ends_with('L'), "{layout}");
    let json: Value =
        serde_json::from_str(&run(&folder, "export net.json plan.json --to json")).expect("JSON");
    let transfers = json["transfers"].as_array().expect("transfers");
    // Three cuts, a tensor ahead and its gradient back over each.
    assert_eq!(transfers.len(), 6, "{transfers:?}");
    for target in ["torch", "deepspeed", "torchtitan", "accelerate", "onnx"] {
        let export = format!("export net.json plan.json --to {target}");
        is_refused(&folder, &export, &["2 virtual stages on every device"]);
    }
    run(
        &folder,
        "schedule plan.json --rule interleaved --micro-batches 4 --output order.csv",
    );
    let program = run(&folder, "export net.json plan.json --to torch --order order.csv");
    assert!(program.contains("\"rank\": 1"), "{program}");
    let in_v = chunks(&["--placement", "v"]);
    is_refused(
        &in_v,
        "export net.json plan.json --to megatron",
        &["virtual stages in a V"],
    );
}

/// What is proved of an iteration is what `simulate` says of the plan, to the ns, in training and in inference.
#[test]
fn iterations_are_those_of_simulate() {
    for options in [
        &["--mode", "training"][..],
        &["--mode", "training", "--placement", "v"],
        &["--mode", "inference"],
        &["--mode", "training", "--communication", "overlapped"],
    ] {
        let asked = ["--objective", "iteration", "--micro-batches", "4"];
        let folder = chunks(&[&asked, options].concat());
        let plan = plan(&folder);
        assert_eq!(plan["problem"]["objective"], "iteration", "{options:?}");
        let ran = run(&folder, "simulate plan.json --format json");
        let ran: Value = serde_json::from_str(&ran).expect("JSON");
        assert_eq!(
            ran["iteration"]["iteration_ms"], plan["objective_ms"],
            "{options:?}"
        );
        let check = "check net.json plan.json --stages 2 --all-stages --objective iteration";
        assert!(run(&folder, check).contains("passes"), "{options:?}");
    }
    let folder = chunks(&["--mode", "inference"]);
    is_refused(&folder, "schedule plan.json --micro-batches 4", &["inference"]);
    let iteration = "solve net.json --stages 2 --virtual-stages 2 --objective iteration";
    is_refused(&folder, iteration, &["--micro-batches"]);
}

/// Memory of a device, not of a chunk: what is told to be the least limit has a plan, and a byte less has none.
#[test]
fn least_memory_is_that_of_devices() {
    let folder = chunks(&[]);
    let solve = "solve net.json --stages 2 --virtual-stages 2 --schedule gpipe --micro-batches 2 --format json --quiet";
    let solve = |limit: u64| {
        let limit = limit.to_string();
        let mut args: Vec<&str> = solve.split(' ').collect();
        args.extend(["--memory-limit", &limit]);
        folder.run(&args)
    };
    let run = solve(1_000_000);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let plan: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let least = plan["least_memory"]["at_most_bytes"]
        .as_u64()
        .expect("a limit with a plan");
    assert_eq!(plan["least_memory"]["at_least_bytes"], least);
    assert_eq!(solve(least).code, 0);
    assert_eq!(solve(least - 1).code, 3);
}
