//! Plans of somebody else, and files that are no plans or no instances: each refusal says where, what was found, what was
//! expected and what to do.

use std::time::Duration;

use crate::common::command::{Folder, refused, solved};
use serde_json::{Value, json};

/// A network of other layers on other devices, and a plan of it.
const OTHER: &str = r#"
network.layers = [{ id = "x", forward_ms = 1 }, { id = "y", forward_ms = 2 }]
cluster.device_kinds = [{ name = "npu", count = 2 }]
"#;

fn with_other() -> Folder {
    let folder = solved();
    folder.write("other.toml", OTHER);
    folder.succeed(&["solve", "other.toml", "--output", "other.json"]);
    folder
}

#[test]
fn a_plan_of_another_instance_is_refused() {
    let folder = with_other();
    let commands: [&[&str]; 3] = [
        &["show", "net.toml", "--plan", "other.json"],
        &["simulate", "other.json", "--instance", "net.toml"],
        &["export", "net.toml", "other.json", "--to", "json"],
    ];
    for command in commands {
        let expected = [
            "1 fault in `other.json`",
            "instance: found a plan of `other`, expected a plan of `net`, read from `net.toml`",
            "give the instance that the plan was made for",
        ];
        refused(&folder.run(command), &expected);
    }
    // Under the same name as well.
    let plan = folder.read("other.json").replace("\"other\"", "\"net\"");
    folder.write("other.json", plan);
    for command in commands {
        refused(
            &folder.run(command),
            &["found the layer `", "expected a plan of `net`"],
        );
    }
    assert!(
        folder
            .succeed(&["simulate", "plan.json", "--instance", "net.toml"])
            .contains("period")
    );
}

#[test]
fn check_says_whose_plan_it_is_and_does_not_blame_options() {
    let folder = with_other();
    let run = folder.run(&["check", "net.toml", "other.json"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    for part in [
        "instance: found `other`, expected `net`",
        "problem.device_kinds: found `[\"npu\"]`, expected `[\"gpu\"]`",
        "layer `x` is not in the network",
        "hint: it is a plan of `other`; check it against that instance",
    ] {
        assert!(run.stdout.contains(part), "no `{part}` in {}", run.stdout);
    }
}

#[test]
fn a_plan_as_instance_and_an_instance_as_plan_are_told_apart() {
    let folder = solved();
    for command in ["solve", "bound", "compare", "show", "import"] {
        let expected = [
            "found a plan, expected an instance",
            "`stagecut check INSTANCE PLAN` checks a plan",
        ];
        refused(&folder.run(&[command, "plan.json"]), &expected);
    }
    folder.succeed(&["import", "net.toml", "--output", "net.json"]);
    let expected = [
        "found an instance, expected a plan",
        "`stagecut solve --format json`",
    ];
    refused(&folder.run(&["check", "net.toml", "net.json"]), &expected);
    refused(&folder.run(&["simulate", "net.json"]), &expected);
}

#[test]
fn all_fields_that_are_missing_or_unknown_are_told_at_once() {
    let folder = solved();
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    for (place, field) in [
        ("", "method"),
        ("", "stopped_by"),
        ("/stages/0", "load_ms"),
        ("/stages/1", "devices"),
    ] {
        let table = plan
            .pointer_mut(place)
            .and_then(Value::as_object_mut)
            .expect("a table");
        table.remove(field);
    }
    plan["author"] = json!("somebody");
    plan["statistics"]["speed"] = json!(1);
    plan["stages"][1]["transfers"]["forward"]["lost_ms"] = json!(0);
    plan["problem"]["colour"] = json!("red");
    folder.write("plan.json", plan.to_string());
    let expected = [
        "8 faults in `plan.json`",
        "the plan: found no field `method`",
        "the plan: found no field `stopped_by`",
        "stages[0]: found no field `load_ms`",
        "stages[1]: found no field `devices`",
        "the plan: found unknown field `author`",
        "statistics: found unknown field `speed`",
        "stages[1].transfers.forward: found unknown field `lost_ms`",
        "problem: found unknown field `colour`",
    ];
    refused(&folder.run(&["check", "net.toml", "plan.json"]), &expected);
}

#[test]
fn plans_that_once_overflowed_are_refused_fast_and_in_numbers_that_mean_something() {
    let folder = Folder::with("net.json", include_str!("../corpus/plans/net.json"));
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/plans");
    let files = std::fs::read_dir(corpus).expect("the corpus");
    let mut refused = 0;
    for file in files.flatten().filter(|file| file.file_name() != "net.json") {
        let run = folder.run(&["check", "net.json", &file.path().display().to_string(), "--quiet"]);
        assert!([1, 2].contains(&run.code), "{:?}: {}", file.path(), run.stderr);
        let text = run.stdout + &run.stderr;
        for part in ["panicked", "18446744073709", "340282366920938"] {
            assert!(!text.contains(part), "{:?}: {text}", file.path());
        }
        assert!(
            run.elapsed < Duration::from_secs(1),
            "{:?}: {:?}",
            file.path(),
            run.elapsed
        );
        refused += 1;
    }
    assert_eq!(refused, 4);
}

#[test]
fn many_stages_and_many_layers_are_refused_fast() {
    let folder = solved();
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    let many = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        change(&mut plan);
        folder.write("many.json", plan.to_string());
        let run = folder.run(&["check", "net.toml", "many.json"]);
        assert!(run.elapsed < Duration::from_secs(2), "{:?}", run.elapsed);
        assert!(run.stdout.len() + run.stderr.len() < 20_000);
        run.code
    };
    assert_eq!(
        many(&|plan| plan["stages"] = Value::Array(vec![plan["stages"][0].clone(); 2_000])),
        1
    );
    assert_eq!(
        many(&|plan| plan["stages"][0]["forward"] = json!(vec!["nowhere"; 100_000])),
        1
    );
    assert_eq!(
        many(&|plan| plan["stages"][0]["devices"] = json!(vec!["gpu:1"; 100_000])),
        1
    );
    assert_eq!(many(&|plan| plan["stages"] = json!(vec![json!({}); 100_000])), 2);
    // A plan may say that it was the best of any number of stages.
    assert_eq!(many(&|plan| plan["problem"]["stages"] = json!(1_000_000)), 0);
    assert_eq!(
        many(&|plan| plan["problem"]["micro_batches"] = json!(u64::MAX)),
        2
    );
}
