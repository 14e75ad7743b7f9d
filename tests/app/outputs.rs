//! What `--output` writes without `--format`: what the name of the file promises, or a refusal.

use crate::common::command::{Folder, NET, solved};
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
            "`.csv` or `.json`",
        ),
        (
            &["bound", "net.toml", "--stages", "2"],
            &["svg", "toml"],
            "`.csv` or `.json`",
        ),
        (
            &["compare", "net.toml", "--stages", "2"],
            &["svg", "toml"],
            "`.csv` or `.json`",
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
    let net = crate::common::command::NET
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

/// Commands that find something and write it, with an output that cannot be written in the end.
const WRITERS: &[&[&str]] = &[
    &[
        "solve", "net.toml", "--stages", "2", "--format", "json", "--output",
    ],
    &[
        "bound", "net.toml", "--stages", "2", "--format", "json", "--output",
    ],
    &[
        "compare", "net.toml", "--stages", "2", "--format", "json", "--output",
    ],
    &[
        "what-if", "net.toml", "--stages", "1..2", "--format", "json", "--output",
    ],
    &["show", "net.toml", "--format", "dot", "--output"],
    &["simulate", "plan.json", "--format", "json", "--output"],
    &[
        "schedule",
        "plan.json",
        "--devices",
        "2",
        "--micro-batches",
        "2",
        "--format",
        "json",
        "--output",
    ],
    &["export", "net.toml", "plan.json", "--to", "json", "--output"],
    &["check", "--evaluate", "net.toml", "plan.json", "--output"],
    &["import", "net.toml", "--output"],
    &["generate", "random", "--layers", "3", "--output"],
    &["online", "scenario.toml", "--slots", "2", "--output"],
];

/// Scenario of the three layers.
const SCENARIO: &str = "instance = \"counted.toml\"\nreading = \"pipeline-of-groups\"\nslots = 2\nsamples = 4\nbatches_per_slot = 2\ntime_weight = 0.2\n";

/// The same on a number of devices, which a scenario needs.
fn scenario(folder: &Folder) {
    let counted = NET.replace("\"gpu\" }", "\"gpu\", count = 2 }");
    folder
        .write("counted.toml", counted)
        .write("scenario.toml", SCENARIO);
}

#[test]
fn what_cannot_be_written_in_the_end_is_on_stdout() {
    if !std::path::Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let folder = solved();
    scenario(&folder);
    for command in WRITERS {
        let run = folder.run(&[command, &["/dev/full"][..]].concat());
        assert_eq!(run.code, 1, "{command:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("`/dev/full` could not be written"),
            "{command:?}: {}",
            run.stderr
        );
        let name = if command[0] == "online" {
            "out.jsonl"
        } else {
            "out"
        };
        let plain = folder.run(&[command, &[name][..]].concat());
        assert_eq!(plain.code, 0, "{command:?}: {}", plain.stderr);
        // All of it, or of lines the first, behind which nothing is found.
        let written = folder.read(name);
        let expected = if command[0] == "online" {
            written.lines().next().unwrap()
        } else {
            written.trim_end()
        };
        let timeless = |text: &str| {
            text.lines()
                .filter(|line| !line.contains("seconds"))
                .collect::<String>()
        };
        assert!(
            timeless(&run.stdout).contains(&timeless(expected)),
            "{command:?}: {}",
            run.stdout
        );
    }
    // Of two results neither is lost with the other.
    let joint = [
        "schedule",
        "--instance",
        "net.toml",
        "--devices",
        "2",
        "--micro-batches",
        "2",
    ];
    let run = folder.run(&[&joint[..], &["--plan-output", "/dev/full", "--format", "json"]].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let documents: Vec<Value> = serde_json::Deserializer::from_str(&run.stdout)
        .into_iter()
        .map(|document| document.expect("JSON"))
        .collect();
    assert_eq!(documents.len(), 2, "{}", run.stdout);
    assert!(documents[1]["stages"].is_array(), "{}", run.stdout);
}

#[test]
#[cfg(target_os = "linux")]
fn a_place_that_cannot_be_written_is_noticed_before_the_search() {
    let folder = solved();
    // A search that takes long, and one that is refused only after the place is tried.
    let generate = "generate random --layers 300 --seed 7 --output long.json";
    folder.succeed(&generate.split(' ').collect::<Vec<_>>());
    scenario(&folder);
    let long: &[&[&str]] = &[&[
        "solve",
        "long.json",
        "--stages",
        "8",
        "--memory-limit",
        "1",
        "--output",
    ]];
    for command in WRITERS.iter().chain(long) {
        // Nobody makes files there, whoever they are.
        for place in ["/proc/out.json", "/sys/out.json", "nowhere/out.json", "."] {
            let place = if command[0] == "online" {
                place.replace(".json", ".jsonl")
            } else {
                place.into()
            };
            let run = folder.run(&[command, &[place.as_str()][..]].concat());
            assert_eq!(run.code, 2, "{command:?} {place}: {}", run.stderr);
            assert!(run.stdout.is_empty(), "{command:?} {place}: {}", run.stdout);
            assert!(
                run.elapsed.as_secs() < 10,
                "{command:?} {place}: {:?}",
                run.elapsed
            );
        }
    }
    let joint = [
        "schedule",
        "--instance",
        "net.toml",
        "--devices",
        "2",
        "--micro-batches",
        "2",
        "--plan-output",
    ];
    assert_eq!(folder.run(&[&joint[..], &["/proc/plan.json"]].concat()).code, 2);
    let formulate = folder.run(&[
        "formulate",
        "net.toml",
        "--stages",
        "2",
        "--output",
        "/proc/net.lp",
    ]);
    assert_eq!(formulate.code, 2, "{}", formulate.stderr);
    folder.write(
        "study.toml",
        "[[instances]]\nfiles = [\"net.toml\"]\n[[methods]]\nnames = [\"lpt\"]\n",
    );
    for command in ["run", "run-task"] {
        let args: &[&str] = if command == "run" { &[] } else { &["0"] };
        let run = folder.run(
            &[
                &["study", command, "study.toml", "--results", "/proc/results"],
                args,
            ]
            .concat(),
        );
        assert_eq!(run.code, 2, "{command}: {}", run.stderr);
    }
}

/// Names of files in a folder that begin with a point.
fn hidden(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
#[cfg(unix)]
fn parts_follow_no_links_and_leave_nothing() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = solved();
    let solve = [
        "solve", "net.toml", "--stages", "2", "--format", "json", "--output",
    ];
    let write = |name: &str| folder.succeed(&[&solve[..], &[name]].concat());
    // What a killed run left is gone with the next run; what another run still writes is not.
    folder.write(".stagecut-Ab12Cd.part.out.json", "half");
    folder.write(".stagecut-Ef34Gh.part.out.json", "half");
    folder.write(".stagecut-Ij56Kl.part.other.json", "half");
    let held = std::fs::File::open(folder.path(".stagecut-Ef34Gh.part.out.json")).unwrap();
    held.lock().unwrap();
    folder.write("victim", "mine");
    symlink(
        folder.path("victim"),
        folder.path(".stagecut-Mn78Op.part.out.json"),
    )
    .unwrap();
    write("out.json");
    let mut left = hidden(&folder);
    left.sort();
    assert_eq!(
        left,
        [
            ".stagecut-Ef34Gh.part.out.json",
            ".stagecut-Ij56Kl.part.other.json",
            ".stagecut-Mn78Op.part.out.json"
        ]
    );
    assert_eq!(folder.read("victim"), "mine");
    // A link stays one, and a file keeps who may read it; a new one is as the mask says.
    symlink(folder.path("aim.json"), folder.path("link.json")).unwrap();
    folder.write("aim.json", "");
    let mode = |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(folder.path("aim.json"), PermissionsExt::from_mode(0o640)).unwrap();
    write("link.json");
    assert!(folder.path("link.json").is_symlink());
    is_json(&folder, "aim.json");
    assert_eq!(mode("aim.json"), 0o640);
    std::fs::write(folder.path("plain"), "").unwrap();
    assert_eq!(mode("out.json"), mode("plain"));
}

#[test]
#[cfg(unix)]
fn a_killed_run_leaves_a_part_that_the_next_removes() {
    let folder = Folder::new();
    folder.succeed(&["generate", "random", "--layers", "20000", "--output", "net.json"]);
    let args = ["import", "net.json", "--quiet", "--output", "out.json"];
    let mut were_left = 0;
    for after in (0..40).map(|k| std::time::Duration::from_millis(20 + 10 * k)) {
        let mut child = folder.command(&args).spawn().unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
        were_left += hidden(&folder).len();
        assert!(hidden(&folder).len() < 2, "{:?}", hidden(&folder));
    }
    println!("{were_left} parts left by 40 kills");
    folder.succeed(&args);
    assert!(hidden(&folder).is_empty(), "{:?}", hidden(&folder));
    is_json(&folder, "out.json");
}
