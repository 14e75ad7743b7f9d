//! Exports of plans with an order of operations: what they say, and that an order which is none of the plan is refused.

use crate::common::command::{Folder, snapshots};
use serde_json::Value;
use stagecut::export::TARGETS;

/// A GPT-2 of 12 blocks, planned in so many stages, and the order of a rule on so many devices.
fn planned(stages: &str, schedule: &[&str]) -> Folder {
    let folder = crate::common::command::gpt2_blocks();
    let solve = [
        "solve",
        "net.json",
        "--stages",
        stages,
        "--all-stages",
        "--quiet",
        "--format",
        "json",
    ];
    folder.succeed(&[&solve[..], &["--output", "plan.json"]].concat());
    ordered(&folder, schedule);
    folder
}

fn ordered(folder: &Folder, schedule: &[&str]) {
    let command = ["schedule", "plan.json", "--micro-batches", "8"];
    folder.succeed(&[&command[..], schedule, &["--output", "order.csv"]].concat());
}

fn arguments(target: &str) -> [&str; 7] {
    [
        "export",
        "net.json",
        "plan.json",
        "--to",
        target,
        "--order",
        "order.csv",
    ]
}

fn export(folder: &Folder, target: &str) -> String {
    folder.succeed(&arguments(target))
}

fn refused(folder: &Folder, target: &str, expected: &[&str]) {
    crate::common::command::refused(&folder.run(&arguments(target)), expected);
}

const SPLIT: [&str; 2] = ["--weight-share", "0.5"];

#[test]
fn torch_gets_the_order_and_who_runs_what() {
    let zb_v = ["--devices", "2", "--placement", "v", "--rule", "zb-v"];
    let folder = planned("4", &[&zb_v[..], &SPLIT].concat());
    let program = export(&folder, "torch");
    let (_, rest) = program.split_once("\nPLAN = ").expect("a plan in the program");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let plan = values.next().expect("a value").expect("JSON");
    assert_eq!(plan["micro_batches"], 8);
    let ranks: Vec<u64> = (0..4)
        .filter_map(|k| plan["stages"][k]["rank"].as_u64())
        .collect();
    assert_eq!(ranks, [0, 1, 1, 0]);
    let order = plan["order"].as_array().expect("lines");
    let lines: Vec<&str> = order.iter().filter_map(Value::as_str).collect();
    assert_eq!(lines.join("\n") + "\n", folder.read("order.csv"));
    // Without an order nothing is said of one.
    let plain = folder.succeed(&arguments("torch")[..5]);
    assert!(!plain.contains("\"rank\": 0") && !plain.contains("\"micro_batches\": 8"));
}

#[test]
fn torchtitan_gets_the_file() {
    let folder = planned("4", &["--devices", "2", "--rule", "interleaved"]);
    let settings = export(&folder, "torchtitan");
    snapshots("export").bind(|| insta::assert_snapshot!("torchtitan_order", settings));
    let v = ["--devices", "2", "--placement", "v", "--rule", "v-half"];
    ordered(&folder, &[&v[..], &SPLIT].concat());
    let settings = export(&folder, "torchtitan");
    assert!(
        settings.contains("pipeline_parallel_schedule = \"ZBVZeroBubble\""),
        "{settings}"
    );
    ordered(&folder, &["--rule", "gpipe"]);
    let settings = export(&folder, "torchtitan");
    assert!(
        settings.contains("= \"1F1B\"") && settings.contains("degree = 4"),
        "{settings}"
    );
    // Neither a loop nor a V.
    folder.write("order.csv", "0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n");
    refused(
        &folder,
        "torchtitan",
        &["neither in a loop nor", "`--to torch` takes any"],
    );
}

/// Megatron runs two orders, and is told how many devices there are.
#[test]
fn megatron_runs_its_own_orders() {
    let folder = planned("4", &["--devices", "2", "--rule", "interleaved"]);
    let flags = export(&folder, "megatron");
    assert!(flags.contains("--pipeline-model-parallel-size 2 "), "{flags}");
    assert_eq!(flags.matches('|').count(), 3, "{flags}");
    ordered(&folder, &["--rule", "1f1b"]);
    assert!(export(&folder, "megatron").contains("--pipeline-model-parallel-size 4 "));
    for other in [&["--rule", "gpipe"][..], &["--devices", "2", "--rule", "gpipe"]] {
        ordered(&folder, other);
        refused(
            &folder,
            "megatron",
            &["another order than `1f1b` and `interleaved`"],
        );
    }
}

#[test]
fn frameworks_without_orders_are_named() {
    let folder = planned("4", &["--rule", "1f1b"]);
    for target in TARGETS.iter().filter(|target| target.write_ordered.is_none()) {
        let expected = format!("found `--order` with `--to {}`", target.name);
        refused(
            &folder,
            target.name,
            &[&expected, "`torch`, `megatron`, `torchtitan`"],
        );
    }
}

/// Nothing is written of an order that is not the plan's or cannot be run.
#[test]
fn orders_of_other_plans_are_refused() {
    let folder = planned("2", &["--rule", "1f1b"]);
    let cases = [
        ("0F0,0B0\n", "found an order of 1 chunks, expected 2"),
        (
            "0F0,0B0\n1F0,1B0\n2F0,2B0\n",
            "found an order of 3 chunks, expected 2",
        ),
        ("0F0,0B0\n\n1F0,1B0\n", "found no operation on line 2"),
        (
            "0F0,0B0,1B0\n1F0\n",
            "found `1B0` on device 0, expected it on device 1",
        ),
        ("0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n", "found no `0B1`"),
        ("0F0,0B0,0I0\n1F0,1B0\n", "found `0I0` a second time"),
        (
            "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
            "device 0 waits with `0B0` for `1B0` of device 1",
        ),
        ("0F0,0B0\n1F0,1SEND_B0\n", "line 2, column 5"),
    ];
    for (order, expected) in cases {
        folder.write("order.csv", order);
        for target in ["torch", "megatron", "torchtitan"] {
            refused(&folder, target, &["fault in `order.csv`", expected]);
        }
    }
    let solve = [
        "solve",
        "net.json",
        "--stages",
        "2",
        "--quiet",
        "--format",
        "json",
        "--output",
        "plan.json",
    ];
    folder.write("order.csv", "0F0,0B0\n1F0,1B0\n");
    folder.succeed(&[&solve[..], &["--objective", "iteration", "--micro-batches", "4"]].concat());
    refused(
        &folder,
        "torch",
        &["found an order of 1 micro-batches, expected the plan's 4"],
    );
    // A stage has room for what 1F1B holds of it, not for all micro-batches.
    let plain = ["--memory-limit", "2.5GB", "--micro-batches", "8"];
    folder.succeed(&[&solve[..], &plain].concat());
    ordered(&folder, &["--rule", "1f1b"]);
    export(&folder, "torch");
    ordered(&folder, &["--rule", "gpipe"]);
    refused(
        &folder,
        "torch",
        &["with which device 0 would hold", "expected at most"],
    );
    folder.succeed(&[&solve[..], &["--mode", "inference"]].concat());
    folder.write("order.csv", "0F0,0B0\n1F0,1B0\n");
    refused(&folder, "torch", &["found one for a plan for inference"]);
}
