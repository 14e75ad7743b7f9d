//! `compare` on the command line: methods that are for other problems, that find nothing, that take no time to speak of.

use crate::common::command::{Folder, NET};
use serde_json::Value;

#[test]
fn methods_for_other_problems_are_named_together() {
    let folder = Folder::with("net.toml", NET);
    let text = folder.succeed(&["compare", "net.toml", "--stages", "2"]);
    assert!(!text.contains("unknown"), "{text}");
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "inapplicable: `bi-partition` (its cuts are tied; `--cuts separate` parts them); ",
        "; `duan-wu`, ",
        "`pipedream-replicated` (its workers are all alike)",
    ] {
        assert!(one_line.contains(part), "{part}: {text}");
    }
    assert_eq!(one_line.matches("inapplicable").count(), 1, "{text}");

    let json = folder.succeed(&["compare", "net.toml", "--stages", "2", "--format", "json"]);
    let rows: Vec<Value> = serde_json::from_str(&json).expect("rows");
    let row = rows.iter().find(|row| row["method"] == "duan-wu").expect("a row");
    assert_eq!(
        (&row["status"], &row["note"]),
        (&"inapplicable".into(), &"its workers are all alike".into())
    );
}

#[test]
fn no_time_is_shown_as_none() {
    let folder = Folder::with("net.toml", NET);
    let text = folder.succeed(&["compare", "net.toml", "--stages", "2"]);
    // How times below a thousandth read is `report::format`'s own test: here they may take longer.
    assert!(!text.contains(" 0.000  "), "{text}");
    // But for those who ask that two runs be alike.
    let text = folder.succeed(&["compare", "net.toml", "--stages", "2", "--reproducible"]);
    assert!(text.contains(" 0.000  ") && !text.contains('<'), "{text}");
}

/// Plans of `brkga` once broke this memory limit, and the comparison with it. No plan fits, and every method says so.
#[test]
fn a_method_without_a_feasible_plan_is_a_row() {
    let net = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/brkga-memory.json");
    let problem = "--mode training --stages 5 --all-stages --objective period --schedule pipedream \
                   --communication blocking --optimizer momentum --cuts separate --micro-batches 7 \
                   --memory-limit 20";
    let problem: Vec<&str> = problem.split_whitespace().collect();
    let compare = |format: &str| {
        let run = Folder::new().run(&[&["compare", net, "--format", format], &problem[..]].concat());
        assert_eq!(run.code, 3, "{}", run.stderr);
        run.stdout
    };
    let rows: Vec<Value> = serde_json::from_str(&compare("json")).expect("rows");
    let status = |name: &str| &rows.iter().find(|row| row["method"] == name).expect("a row")["status"];
    assert_eq!(
        (status("exact"), status("brkga")),
        (&"infeasible".into(), &"no-plan".into())
    );
    let text = compare("text");
    let brkga = text
        .lines()
        .find(|line| line.starts_with("brkga"))
        .expect("a row");
    assert!(brkga.contains("no plan"), "{text}");
}
