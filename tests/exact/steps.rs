//! Steps of searches, against the table of `benches/GUARD.md`: with one thread they are the same on every machine, so that a search which
//! begins to take more of them is noticed, however fast the machine is.
//!
//! The problems are those of `benches/guard` that take files or generators of the program itself, and little time. `make bench-guard` holds all
//! of them, and their times.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::command::Folder;
use serde_json::Value;

/// Loops, as the table has them, that a problem of this test may take: the whole test takes seconds.
const MOST_LOOPS: f64 = 4.0;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Network and options of each problem, by name: lines `"name": ("network", "options"),` of `benches/guard`.
fn problems() -> BTreeMap<String, [String; 2]> {
    let script = read("benches/guard");
    let of_line = |line: &str| {
        let parts: Vec<&str> = line.trim().split('"').collect();
        match parts[..] {
            ["", name, ": (", network, ", ", options, "),"] => {
                Some((name.to_owned(), [network, options].map(str::to_owned)))
            }
            _ => None,
        }
    };
    script.lines().filter_map(of_line).collect()
}

/// Loops and looks of each row, by name.
fn rows() -> BTreeMap<String, (f64, u64)> {
    let page = read("benches/GUARD.md");
    let of_line = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, _, _, loops, looks, ""] = cells[..] else {
            return None;
        };
        Some((name.to_owned(), (loops.parse().ok()?, looks.parse().ok()?)))
    };
    page.lines().filter_map(of_line).collect()
}

#[test]
fn the_guard_and_its_table_have_the_same_problems() {
    let [problems, rows] = [
        problems().into_keys().collect::<Vec<_>>(),
        rows().into_keys().collect(),
    ];
    assert_eq!(problems, rows);
    assert!(problems.len() >= 40, "{}", problems.len());
}

#[test]
fn searches_take_the_steps_that_the_table_says() {
    let rows = rows();
    let mut held = 0;
    let mut wrong = Vec::new();
    for (name, [network, options]) in problems() {
        let (loops, looks) = rows[&name];
        if loops > MOST_LOOPS
            || ["unlike", "repeated", "operators"]
                .iter()
                .any(|kind| network.starts_with(kind))
        {
            continue;
        }
        let found = looks_of(&network, &options);
        held += 1;
        if found.abs_diff(looks) > looks / 10 + 1 {
            wrong.push(format!(
                "{name}: {found} looks at the clock, and {looks} in the table"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nrun `make bench-guard`; where the change is wanted, `benches/guard --write`",
        wrong.join("\n")
    );
    assert!(held >= 12, "only {held} problems");
}

/// How often the search of a problem looks at the clock with one thread.
fn looks_of(network: &str, options: &str) -> u64 {
    let folder = Folder::new();
    let file = match network.split_once(' ') {
        Some((kind, arguments)) => {
            let mut generate = vec!["generate", kind, "--output", "network.json"];
            generate.extend(arguments.split(' '));
            folder.succeed(&generate);
            folder.path("network.json")
        }
        None => Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("instances")
            .join(network),
    };
    let file = file.display().to_string();
    let mut solve = vec!["solve", &file, "--threads", "1", "--format", "json", "--quiet"];
    solve.extend(options.split(' '));
    let plan: Value = serde_json::from_str(&folder.succeed(&solve)).expect("a plan");
    plan["statistics"]["looks"].as_u64().expect("looks")
}
