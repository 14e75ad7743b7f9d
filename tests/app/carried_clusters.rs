//! Plans that were made on another cluster than the instance's own carry it: only instance and plan are asked for.

use crate::common::command::{Folder, Run};
use serde_json::{Value, json};

/// A chain that says its work, on one kind of device; times follow from the rates of whatever cluster it lies on.
const NET: &str = r#"
name = "net"
[cluster]
device_kinds = [{ name = "own", count = 4, memory_bytes = 8e9, flops_per_s = 1e12, memory_bytes_per_s = 1e11 }]
link = { bandwidth_bytes_per_s = 1e9 }
[network]
layers = [
    { id = "h.0", work = { forward_flops = 3e9, backward_flops = 6e9 }, parameter_bytes = 1e8 },
    { id = "h.1", work = { forward_flops = 3e9, backward_flops = 6e9 }, parameter_bytes = 1e8 },
    { id = "h.2", work = { forward_flops = 3e9, backward_flops = 6e9 }, parameter_bytes = 1e8 },
    { id = "h.3", work = { forward_flops = 3e9, backward_flops = 6e9 }, parameter_bytes = 1e8 },
]
tensors = [
    { producer = "h.0", consumers = ["h.1"], bytes = 1e5 },
    { producer = "h.1", consumers = ["h.2"], bytes = 1e5 },
    { producer = "h.2", consumers = ["h.3"], bytes = 1e5 },
]
"#;

/// Another kind, faster, with more memory and another link.
const OTHER: &str = r#"
device_kinds = [{ name = "other", count = 2, memory_bytes = 16e9, flops_per_s = 7.3e12, memory_bytes_per_s = 1.1e12 }]
link = { bandwidth_bytes_per_s = 12.3e9, latency_ms = 0.003 }
"#;

/// Two kinds, and a link inside nodes of two.
const NODES: &str = r#"
device_kinds = [
    { name = "big", count = 2, memory_bytes = 16e9, flops_per_s = 7.3e12, memory_bytes_per_s = 1.1e12 },
    { name = "small", count = 2, memory_bytes = 4e9, flops_per_s = 2.1e12, memory_bytes_per_s = 3e11 },
]
link = { bandwidth_bytes_per_s = 12.3e9 }
"#;

fn folder() -> Folder {
    let folder = Folder::with("net.toml", NET);
    folder.write("other.toml", OTHER);
    folder.write("nodes.toml", NODES);
    folder
}

/// A plan of the net, in `plan.json`.
fn solved(cluster: &str, options: &[&str]) -> Folder {
    let folder = folder();
    let solve = ["solve", "net.toml", "--cluster", cluster, "--output", "plan.json"];
    folder.succeed(&[&solve[..], options].concat());
    folder
}

#[track_caller]
fn fails(run: &Run, code: i32, parts: &[&str]) {
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, code, "{said}");
    // Lines of an error are wrapped, with bars before them.
    let said: String = said
        .replace('│', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in parts {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
}

#[test]
fn every_command_that_takes_a_plan_needs_instance_and_plan_alone() {
    let pipelines: [&[&str]; 3] = [
        &["--stages", "2"],
        &[
            "--stages",
            "2",
            "--memory-limit",
            "none",
            "--bandwidth",
            "100GB/s",
            "--communication",
            "overlapped",
        ],
        &[
            "--devices",
            "4",
            "--stages",
            "4",
            "--schedule",
            "gpipe",
            "--micro-batches",
            "3",
            "--optimizer",
            "sgd",
        ],
    ];
    for options in pipelines {
        let folder = solved("other.toml", options);
        let checked = folder.succeed(&["check", "net.toml", "plan.json"]);
        assert!(
            checked.starts_with("checked as the plan claims: --cluster other.toml"),
            "{checked}"
        );
        assert!(checked.contains("`plan.json` passes"), "{checked}");
        for target in ["torch", "json", "deepspeed"] {
            folder.succeed(&["export", "net.toml", "plan.json", "--to", target]);
        }
        for format in ["svg", "dot", "html"] {
            folder.succeed(&["show", "net.toml", "--plan", "plan.json", "--format", format]);
        }
        folder.succeed(&["simulate", "plan.json", "--instance", "net.toml"]);
        folder.succeed(&[
            "schedule",
            "plan.json",
            "--instance",
            "net.toml",
            "--rule",
            "1f1b",
            "--micro-batches",
            "3",
        ]);
    }
}

/// A part of the instance's own rates is no cluster of another name.
#[test]
fn a_part_of_the_peak_is_claimed_as_it_was_asked() {
    let folder = folder();
    folder.succeed(&[
        "solve",
        "net.toml",
        "--efficiency",
        "0.5",
        "--output",
        "plan.json",
    ]);
    let checked = folder.succeed(&["check", "net.toml", "plan.json"]);
    assert!(
        checked.starts_with("checked as the plan claims: --efficiency 0.5") && checked.contains("passes"),
        "{checked}"
    );
}

#[test]
fn plans_of_unlike_devices_carry_them_too() {
    let folder = solved("nodes.toml", &["--stages", "3"]);
    assert!(
        folder
            .succeed(&["check", "net.toml", "plan.json"])
            .contains("passes")
    );
    folder.succeed(&["export", "net.toml", "plan.json", "--to", "json"]);
}

#[test]
fn stages_that_were_costed_carry_it() {
    let folder = folder();
    folder.write("stages.json", r#"[["h.0"], ["h.1", "h.2", "h.3"]]"#);
    let evaluate = ["check", "--evaluate", "net.toml"];
    let there = ["stages.json", "--cluster", "other.toml", "--output", "plan.json"];
    folder.succeed(&[&evaluate[..], &there].concat());
    assert!(
        folder
            .succeed(&["check", "net.toml", "plan.json"])
            .contains("passes")
    );
    // A whole plan that is costed again lies where it lay.
    let again = folder.succeed(&[&evaluate[..], &["plan.json", "--stages", "2"]].concat());
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    let objective = format!(
        "objective {:.6} ms",
        plan["objective_ms"].as_f64().expect("a time")
    );
    assert!(again.contains(&objective), "{again}");
}

#[test]
fn a_cluster_that_is_given_again_must_agree() {
    let folder = solved("other.toml", &["--stages", "2"]);
    let check = ["check", "net.toml", "plan.json", "--stages", "2", "--cluster"];
    let same = folder.succeed(&[&check[..], &["other.toml"]].concat());
    assert!(same.starts_with("`plan.json` passes"), "{same}");
    folder.write("changed.toml", OTHER.replace("16e9", "40e9"));
    let expected = [
        "--cluster: found `changed.toml`, whose `device_kinds[0].memory_bytes` is `40000000000.0`",
        "expected `other.toml`, which the plan was made on and carries, whose `device_kinds[0].memory_bytes` is `16000000000.0`",
    ];
    for command in [
        &check[..],
        &["export", "net.toml", "plan.json", "--to", "torch", "--cluster"],
        &["show", "net.toml", "--plan", "plan.json", "--cluster"],
        &["simulate", "plan.json", "--instance", "net.toml", "--cluster"],
        &["schedule", "plan.json", "--instance", "net.toml", "--cluster"],
    ] {
        let run = folder.run(&[command, &["changed.toml"]].concat());
        fails(&run, 2, &expected);
    }
    // Options that are given again must agree as well.
    let run = folder.run(&[
        "check",
        "net.toml",
        "plan.json",
        "--stages",
        "3",
        "--devices",
        "3",
    ]);
    fails(&run, 1, &["problem.stages: found `2`, expected `3`"]);
}

#[test]
fn plans_on_the_own_cluster_carry_none() {
    let folder = folder();
    folder.succeed(&["solve", "net.toml", "--stages", "2", "--output", "plan.json"]);
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    assert_eq!(plan.get("cluster"), None);
    assert!(
        folder
            .succeed(&["check", "net.toml", "plan.json"])
            .contains("passes")
    );
    // And the plan of an older version, which carries none, takes the cluster that is given.
    let made = solved("other.toml", &["--stages", "2"]);
    let mut old: Value = serde_json::from_str(&made.read("plan.json")).expect("a plan in JSON");
    old.as_object_mut().expect("a table").remove("cluster");
    made.write("old.json", old.to_string());
    let there = ["old.json", "--stages", "2", "--cluster", "other.toml"];
    assert!(
        made.succeed(&[&["check", "net.toml"][..], &there].concat())
            .contains("passes")
    );
}

#[test]
fn what_a_plan_holds_under_the_name_of_a_preset_is_told() {
    let folder = solved("other.toml", &["--stages", "2"]);
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    plan["cluster"]["name"] = json!("v100");
    folder.write("plan.json", plan.to_string());
    let said = folder.succeed(&["check", "net.toml", "plan.json"]);
    assert!(said.contains("--cluster v100 (whose `device_kinds[0]."), "{said}");
    assert!(said.contains("in the preset)"), "{said}");
}

#[test]
fn faults_of_a_carried_cluster_are_told_where_they_are() {
    let folder = solved("other.toml", &["--stages", "2"]);
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        change(&mut plan["cluster"]);
        folder.write("changed.json", plan.to_string());
        folder.run(&["check", "net.toml", "changed.json"])
    };
    let negative = changed(&|cluster| cluster["content"]["device_kinds"][0]["memory_bytes"] = json!(-1));
    fails(
        &negative,
        2,
        &["`other.toml`, cluster.device_kinds[0]", "found -1"],
    );
    let unknown = changed(&|cluster| cluster["content"]["device_kinds"][0]["memroy"] = json!(1));
    fails(&unknown, 2, &["cluster.content.device_kinds[0]", "memroy"]);
    // A claim that does not hold there is found: a slower device, the same times.
    let slower = changed(&|cluster| cluster["content"]["device_kinds"][0]["flops_per_s"] = json!(1e12));
    fails(&slower, 1, &["violation"]);
}
