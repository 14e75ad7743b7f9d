//! Who decides the problem of a plan that is checked: the instance and the command line, not the plan.

use crate::common::command::{Folder, Run, solved};
use serde_json::{Value, json};

/// The folder of the instance with two devices of 20 bytes, and a plan of it that `options` ask for.
fn two_devices(options: &[&str]) -> Folder {
    let folder = Folder::with(
        "net.json",
        include_str!("../cases/device-99-plan-or-instance.json"),
    );
    let solve = ["solve", "net.json", "--output", "plan.json"];
    folder.succeed(&[&solve[..], options].concat());
    folder
}

/// Checks a plan after a change.
fn changed(folder: &Folder, change: impl Fn(&mut Value), options: &[&str]) -> Run {
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    change(&mut plan);
    folder.write("changed.json", plan.to_string());
    folder.run(&[&["check", "net.json", "changed.json"][..], options].concat())
}

#[track_caller]
fn fails(run: &Run, parts: &[&str]) {
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    for part in parts {
        assert!(run.stdout.contains(part), "no `{part}` in {}", run.stdout);
    }
}

#[test]
fn a_plan_may_not_lift_the_memory_of_the_devices() {
    let folder = two_devices(&["--memory-limit", "none"]);
    let run = folder.run(&["check", "net.json", "plan.json"]);
    let expected =
        "problem.memory_limit: found `none`, expected `20`, unless `--memory-limit none` is asked for";
    fails(&run, &[expected]);
    let asked = ["check", "net.json", "plan.json", "--memory-limit", "none"];
    assert!(folder.succeed(&asked).starts_with("`plan.json` passes"));
    let run = changed(&folder, |plan| plan["problem"]["memory_limit"] = json!(21), &[]);
    fails(&run, &["problem.memory_limit: found `21`"]);
}

#[test]
fn a_plan_may_not_speed_up_the_links() {
    let folder = two_devices(&["--memory-limit", "none", "--bandwidth", "2e9"]);
    let options = ["check", "net.json", "plan.json", "--memory-limit", "none"];
    fails(
        &folder.run(&options),
        &["problem.bandwidth_bytes_per_s", "unless `--bandwidth"],
    );
    folder.succeed(&[&options[..], &["--bandwidth", "2e9"]].concat());
}

#[test]
fn devices_that_are_not_there_are_rejected() {
    let folder = two_devices(&["--memory-limit", "none"]);
    let run = changed(
        &folder,
        |plan| plan["stages"][0]["devices"] = json!(["gpu:99"]),
        &["--memory-limit", "none"],
    );
    fails(&run, &["device `gpu:99` is beyond the count of its kind"]);
}

#[test]
fn what_the_plan_alone_says_stands_in_the_first_line() {
    let folder = solved();
    let first = |options: &[&str]| {
        let text = folder.succeed(&[&["check", "net.toml", "plan.json"][..], options].concat());
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        first(&[]),
        "checked as the plan claims: --stages 2, which the instance does not say"
    );
    assert!(first(&["--stages", "2"]).contains("passes"));
    let options = [
        "--stages",
        "3",
        "--communication",
        "ignored",
        "--optimizer",
        "sgd",
    ];
    let solve = ["solve", "net.toml", "--output", "plan.json"];
    folder.succeed(&[&solve[..], &options].concat());
    assert_eq!(
        first(&[]),
        "checked as the plan claims: --stages 3 --communication ignored --optimizer sgd, which the instance does not say"
    );
    assert!(first(&options).contains("passes"));
}

#[test]
fn what_the_instance_says_a_plan_may_not_change() {
    let folder = solved();
    let said = "pipeline = { stages = 2, schedule = \"1f1b\" }\n";
    folder.write(
        "said.toml",
        format!("name = \"net\"\n{said}{}", folder.read("net.toml")),
    );
    assert!(
        folder
            .succeed(&["check", "said.toml", "plan.json"])
            .contains("passes")
    );
    let solve = ["solve", "net.toml", "--stages", "3", "--schedule", "pipedream"];
    folder.succeed(&[&solve[..], &["--output", "plan.json"]].concat());
    let expected = [
        "problem.stages: found `3`, expected `2`, unless `--stages 3` is asked for here too",
        "problem.schedule: found `pipedream`, expected `1f1b`",
    ];
    fails(&folder.run(&["check", "said.toml", "plan.json"]), &expected);
}

#[test]
fn what_a_plan_says_of_itself_is_checked() {
    let folder = two_devices(&["--memory-limit", "none"]);
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 7] = [
        ("method: found `magic`", |plan| plan["method"] = json!("magic")),
        ("instance: found `other`", |plan| {
            plan["instance"] = json!("other")
        }),
        ("the search stopped by `time-limit`", |plan| {
            plan["stopped_by"] = json!("time-limit");
        }),
        ("statistics: the bound `windows`", |plan| {
            plan["statistics"]["bounds_ms"]["windows"] = json!(1e3);
        }),
        ("objective_ms: stated 64", |plan| {
            plan["objective_ms"] = json!(64.0)
        }),
        ("confirmed by another method", |plan| {
            plan["statistics"]["confirmed_by"] = json!("ideals");
            plan["status"] = json!("feasible");
        }),
        ("statistics.confirmed_by: found `magic`", |plan| {
            plan["statistics"]["confirmed_by"] = json!("magic");
        }),
    ];
    for (expected, change) in changes {
        let run = changed(&folder, change, &["--memory-limit", "none"]);
        fails(&run, &[expected, "recomputed objective: 2.000000 ms"]);
    }
}

#[test]
fn json_tells_violations_and_the_recomputed_objective() {
    let folder = two_devices(&["--memory-limit", "none"]);
    let options = ["--memory-limit", "none", "--format", "json"];
    let report = |run: &Run| -> Value { serde_json::from_str(&run.stdout).expect("JSON on stdout") };
    let passed = changed(&folder, |_| {}, &options);
    let expected = json!({
        "schema": "stagecut-check/1", "instance": "cnt", "passes": true, "status": "optimal", "claimed": [],
        "stated_objective_ms": 2.0, "objective_ms": 2.0, "violations": [], "overruns": [],
    });
    assert_eq!((passed.code, report(&passed)), (0, expected));
    let failed = changed(
        &folder,
        |plan| plan["stages"][0]["load_ms"] = json!(9.0),
        &options,
    );
    let expected = json!([{
        "kind": "stated", "message": format!("stages[0].load_ms: stated 9, recomputed {}", first_load(&folder)),
    }]);
    assert_eq!(
        (failed.code, report(&failed)["violations"].clone()),
        (1, expected)
    );
}

/// The load of the first stage and how far 9 ms are from it.
fn first_load(folder: &Folder) -> String {
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    let ms = plan["stages"][0]["load_ms"].as_f64().expect("a number");
    format!("{ms} (off by {})", 9.0 - ms)
}
