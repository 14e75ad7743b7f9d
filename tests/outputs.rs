//! What `--output` writes without `--format`: what the name of the file promises, or a refusal.

#[path = "common/command.rs"]
mod command;

use command::{Folder, solved};
use serde_json::Value;

#[track_caller]
fn is_json(folder: &Folder, name: &str) {
    let value: Result<Value, _> = serde_json::from_str(&folder.read(name));
    assert!(value.is_ok(), "{name}: {}", folder.read(name));
}

#[test]
fn the_extension_decides_the_format() {
    let folder = solved();
    for command in ["solve", "bound", "compare"] {
        let run = |name: &str| folder.succeed(&[command, "net.toml", "--stages", "2", "--output", name]);
        run("out.json");
        is_json(&folder, "out.json");
        run("OUT.JSON");
        is_json(&folder, "OUT.JSON");
        run("out.csv");
        let csv = folder.read("out.csv");
        let rows: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(rows[0] > 3 && csv.contains("objective_ms"), "{csv}");
        run("out.txt");
        run("out");
        assert_eq!(
            folder.read("out.txt").lines().next(),
            folder.read("out").lines().next()
        );
        assert!(serde_json::from_str::<Value>(&folder.read("out.txt")).is_err());
    }
    folder.succeed(&["simulate", "plan.json", "--output", "run.json"]);
    is_json(&folder, "run.json");
    folder.succeed(&["simulate", "plan.json", "--output", "run.svg"]);
    assert!(folder.read("run.svg").contains("<svg"));
    folder.succeed(&["show", "net.toml", "--output", "net.gv"]);
    assert!(folder.read("net.gv").contains("digraph"));
    folder.succeed(&["import", "net.toml", "--output", "copy.toml"]);
    assert!(folder.read("copy.toml").contains("[[network.layers]]"));
    folder.succeed(&["import", "net.toml", "--output", "copy.json"]);
    is_json(&folder, "copy.json");
    // What is asked for counts more than the name.
    folder.succeed(&[
        "solve", "net.toml", "--stages", "2", "--format", "csv", "--output", "out.json",
    ]);
    assert!(folder.read("out.json").contains(','));
    assert!(serde_json::from_str::<Value>(&folder.read("out.json")).is_err());
}

#[test]
fn a_name_that_promises_what_a_command_does_not_write_is_refused() {
    let folder = solved();
    let cases: [(&[&str], &[&str], &str); 8] = [
        (
            &["solve", "net.toml", "--stages", "2"],
            &["svg", "toml", "dot", "lp"],
            "`.json` or `.csv`",
        ),
        (
            &["bound", "net.toml", "--stages", "2"],
            &["svg", "toml"],
            "`.json` or `.csv`",
        ),
        (
            &["compare", "net.toml", "--stages", "2"],
            &["svg", "toml"],
            "`.json` or `.csv`",
        ),
        (
            &["simulate", "plan.json"],
            &["toml", "dot"],
            "`.svg` or `.csv` or `.json`",
        ),
        (
            &["show", "net.toml"],
            &["json", "csv", "toml"],
            "`.svg` or `.dot`",
        ),
        (&["import", "net.toml"], &["csv", "svg"], "`.json` or `.toml`"),
        (
            &["generate", "random", "--layers", "3"],
            &["csv", "svg"],
            "`.json` or `.toml`",
        ),
        (
            &["export", "net.toml", "plan.json", "--to", "json"],
            &["csv", "py"],
            "`.json`",
        ),
    ];
    for (command, extensions, expected) in cases {
        for extension in extensions {
            let name = format!("refused.{extension}");
            let run = folder.run(&[command, &["--output", &name]].concat());
            assert_eq!(
                (run.code, run.stdout.as_str()),
                (2, ""),
                "{command:?} {name}: {}",
                run.stderr
            );
            assert!(
                run.stderr.contains(expected),
                "{command:?} {name}: {}",
                run.stderr
            );
            assert!(!folder.path(&name).exists(), "{command:?} wrote {name}");
        }
    }
}

/// Spreadsheets run what begins with these characters; an apostrophe makes it text, and our readers take that away.
#[test]
fn no_name_is_a_formula_in_a_spreadsheet() {
    let net = command::NET
        .replace("conv1", "=1+1")
        .replace("conv2", "@sum")
        .replace("\"fc\"", "\"-x\"")
        .replace("\"gpu\"", "\"+gpu\"");
    let folder = Folder::with("=net.toml", format!("name = \"=cmd|' /C calc'!A0\"\n{net}"));
    let study = "[[instances]]\nfamily = \"-family\"\nfiles = [\"=net.toml\"]\noptions = { stages = 2 }\n[[methods]]\nnames = [\"exact\", \"slicing\"]\n\
                 [[methods]]\nname = \"=mine\"\ncommand = [\"false\"]\n";
    folder.write("study.toml", study);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "report", "study.toml", "--output", "report"]);
    folder.succeed(&["solve", "=net.toml", "--stages", "2", "--output", "plan.json"]);
    let mut tables = vec![
        folder.succeed(&["solve", "=net.toml", "--stages", "2", "--format", "csv"]),
        folder.succeed(&["compare", "=net.toml", "--stages", "2", "--format", "csv"]),
        folder.succeed(&["simulate", "plan.json", "--format", "csv"]),
        folder.succeed(&["study", "collect", "study.toml", "--format", "csv"]),
    ];
    let reports = std::fs::read_dir(folder.path("report"))
        .expect("a report")
        .flatten();
    let written = reports.map(|entry| entry.file_name().to_string_lossy().into_owned());
    tables.extend(
        written
            .filter(|name| name.ends_with(".csv"))
            .map(|name| folder.read(&format!("report/{name}"))),
    );
    let mut marked = 0;
    for table in &tables {
        // Fields in quotes hold commas, but none that begins one of ours.
        for field in table.lines().flat_map(|line| line.split(',')) {
            let field = field.trim_start_matches('"');
            let is_formula = field.starts_with(['=', '+', '-', '@']) && field.parse::<f64>().is_err();
            assert!(!is_formula, "{field}\n{table}");
            marked += usize::from(field.starts_with("'=") || field.starts_with("'-"));
        }
    }
    assert!(marked > 10, "{marked} names in {} tables", tables.len());
    // Both as people write it and as we do.
    for rows in ["=1+1,1\n@sum,2\n-x,2\n", "'=1+1,1\n'@sum,2\n'-x,2\n"] {
        folder.write("stages.csv", format!("layer,stage\n{rows}"));
        folder.succeed(&["check", "--evaluate", "=net.toml", "stages.csv", "--stages", "2"]);
    }
}
