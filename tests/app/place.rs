//! `place`: what it writes, and what it refuses.

use serde_json::Value;

use crate::common::command::{Folder, refused};

const MACHINES: &str = r#"{
  "name": "two kinds", "layers": 4, "machines": {"fast": 1, "slow": 2},
  "tokens_per_s_at_layers": {"fast": {"1": 40, "2": 20}, "slow": {"1": 22, "2": 10}},
  "smallest_link_tokens_per_s": {"between_machines": 15, "from_source": 1000, "to_sink": 1000}
}"#;

/// Two layers on the fast machine, and the other two on each slow one: 10 and 10 over links of 15.
#[test]
fn a_placement_says_where_tokens_go() {
    let folder = Folder::with("machines.json", MACHINES);
    let text = folder.succeed(&["place", "machines.json", "--format", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["status"], "optimal");
    assert_eq!(report["tokens_per_s"], 20.0);
    assert_eq!(report["bound_tokens_per_s"], 20.0);
    assert_eq!(report["placement"].as_array().map(Vec::len), Some(3));
    let sent = |from: &str, to: &str| {
        let flows = report["flows"].as_array().expect("flows").iter();
        let own = flows.filter(|flow| flow["from"].as_str() == Some(from) && flow["to"].as_str() == Some(to));
        own.map(|flow| flow["tokens_per_s"].as_f64().expect("a number"))
            .sum::<f64>()
    };
    assert_eq!(sent("source", "fast:1") + sent("fast:1", "sink"), 20.0);
    let text = folder.succeed(&["place", "machines.json"]);
    assert!(text.contains("optimal: 20.000 tokens/s"), "{text}");
    folder.succeed(&["place", "machines.json", "--output", "plan.json", "--quiet"]);
    assert_eq!(
        folder.read("plan.json").lines().nth(1),
        Some("  \"schema\": \"stagecut-placement/1\",")
    );
}

/// Links of their own speed: from slow to fast and back there are none, and one slow machine holds two layers at most.
#[test]
fn links_by_kind_bind() {
    let own = r#", "links": [{"from": "fast", "to": "slow", "tokens_per_s": 0}, {"from": "slow", "to": "fast", "tokens_per_s": 0}]}"#;
    let folder = Folder::with("machines.json", MACHINES.trim_end_matches('}').to_owned() + own);
    let text = folder.succeed(&["place", "machines.json"]);
    assert!(
        text.contains("optimal: 10.000 tokens/s") && text.contains("1 machines are left over"),
        "{text}"
    );
}

#[test]
fn there_may_be_no_placement() {
    let folder = Folder::with(
        "machines.json",
        MACHINES.replace("\"layers\": 4", "\"layers\": 7"),
    );
    let run = folder.run(&["place", "machines.json"]);
    assert_eq!(run.code, 3);
    assert!(
        run.stdout
            .contains("no placement: 3 machines hold at most 6 of 7 layers"),
        "{}",
        run.stdout
    );
    let run = folder.run(&["place", "machines.json", "--format", "json"]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.contains("no placement: 3 machines"), "{}", run.stderr);
    assert!(
        run.stdout.contains("\"status\": \"infeasible\""),
        "{}",
        run.stdout
    );
}

#[test]
fn faults_are_told_by_name() {
    let folder = Folder::new();
    let told = |from: &str, to: &str, parts: &[&str]| {
        assert!(MACHINES.contains(from));
        folder.write("machines.json", MACHINES.replace(from, to));
        refused(&folder.run(&["place", "machines.json"]), parts);
    };
    told("\"name\"", "\"nmae\"", &["unknown field `nmae`"]);
    told(
        "\"1\": 40",
        "\"1\": -40",
        &["tokens_per_s_at_layers.fast.1", "-40"],
    );
    told(
        "\"1\": 40",
        "\"0\": 40",
        &["tokens_per_s_at_layers.fast.0", "a number of layers from 1"],
    );
    told(
        "\"layers\": 4",
        "\"layers\": 0",
        &["layers", "a number from 1 to 1000"],
    );
    told(
        "{\"fast\": 1,",
        "{\"fsat\": 1,",
        &["tokens_per_s_at_layers.fsat", "no tokens a second of `fsat`"],
    );
    told(
        "\"between_machines\": 15",
        "\"between_machines\": -1",
        &["between_machines", "-1"],
    );
    let own = r#", "links": [{"from": "fats", "to": "slow", "tokens_per_s": 1}]}"#;
    folder.write("machines.json", MACHINES.trim_end_matches('}').to_owned() + own);
    refused(
        &folder.run(&["place", "machines.json"]),
        &["links[0].from", "`fats`", "did you mean `fast`?"],
    );
    refused(
        &folder.run(&["place", "none.json"]),
        &["there is none of that name"],
    );
}
