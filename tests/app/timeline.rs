//! The command `simulate`: what it reports, and what it refuses.

use crate::common::command::{Run, snapshots, solved};

#[test]
fn reports_of_a_small_run() {
    let folder = solved();
    let report = |format: &str| {
        let args = [
            "simulate",
            "plan.json",
            "--micro-batches",
            "4",
            "--format",
            format,
        ];
        let first = folder.succeed(&args);
        assert_eq!(first, folder.succeed(&args), "two runs differ");
        first
    };
    let settings = snapshots("simulate");
    settings.bind(|| {
        for format in ["text", "json", "csv", "svg"] {
            insta::assert_snapshot!(format, report(format));
        }
    });
    let svg = report("svg");
    let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
    let count = |name: &str| {
        document
            .descendants()
            .filter(|node| node.has_tag_name(name))
            .count()
    };
    assert_eq!(count("desc"), 1);
    // A tooltip an event, one a lane, and the title.
    let events = report("csv").lines().count() - 1;
    assert_eq!(count("title"), events + 3);
}

#[test]
fn the_extension_decides_for_the_format() {
    let folder = solved();
    for (file, start) in [
        ("t.svg", "<svg"),
        ("t.json", "{"),
        ("t.csv", "resource,"),
        ("t.txt", "Simulation"),
    ] {
        folder.succeed(&["simulate", "plan.json", "--output", file]);
        assert!(folder.read(file).starts_with(start), "{file}");
    }
}

#[test]
fn broken_traces() {
    let cases: &[(&str, &[&str])] = &[
        (
            "time_ms,device,multiplier\n0,gpu1,2\n",
            &["line 2, column `device`", "found `gpu1`", "did you mean `gpu:1`?"],
        ),
        (
            "time_ms,device,multiplier\n0,gpu:1,fast\n",
            &["line 2, column `multiplier`", "found `fast`, expected a number"],
        ),
        (
            "time_ms,device,multiplier\n0,gpu:1,-1\n",
            &["line 2, column `multiplier`", "found -1", "above 0"],
        ),
        (
            "time_ms,device,multiplier\n0,gpu:1,NaN\n",
            &["line 2, column `multiplier`", "found NaN"],
        ),
        (
            "time_ms,device,multiplier\n-5,gpu:1,1\n",
            &["line 2, column `time_ms`", "found -5"],
        ),
        (
            "time_ms,device,multiplier\n5,gpu:1,1\n0,gpu:2,1\n5,gpu:1,2\n",
            &["line 4, column `time_ms`", "in line 2", "increasing order"],
        ),
        (
            "time_ms,device,multiplier\n0,gpu:1\n",
            &["line 2", "found 2 values, expected 3"],
        ),
        (
            "time_ms,devise,multiplier\n0,gpu:1,2\n",
            &["line 1", "unknown field `devise`", "did you mean `device`?"],
        ),
        (
            "time_ms,device\n0,gpu:1\n",
            &["line 1", "found no column `multiplier`"],
        ),
        ("", &["line 1", "expected `time_ms,device,multiplier`"]),
    ];
    let folder = solved();
    for (trace, expected) in cases {
        folder.write("trace.csv", trace);
        let run = folder.run(&["simulate", "plan.json", "--trace", "trace.csv"]);
        assert_refused(&run, trace, expected);
    }
}

#[test]
fn broken_requests() {
    let folder = solved();
    let cases: &[(&[&str], &[&str])] = &[
        (&["plan.json", "--trace", "none.csv"], &["no readable file"]),
        (
            &["plan.json", "--schedule", "concurrent"],
            &["`--schedule gpipe`, `1f1b` or `pipedream`"],
        ),
        (
            &["plan.json", "--micro-batches", "9999999"],
            &["found 9999999", "500000 tasks"],
        ),
        (&["plan.json", "--jitter", "2"], &["a fraction from 0 to 1"]),
        (&["net.toml"], &["1 fault in `net.toml`"]),
    ];
    for (args, expected) in cases {
        let run = folder.run(&[&["simulate"], *args].concat());
        assert_refused(&run, &args.join(" "), expected);
    }
}

#[test]
fn plans_that_cannot_be_run() {
    let folder = solved();
    let text = folder.read("plan.json");
    for (from, to, expected) in [
        (
            "\"forward_ms\": 3.0",
            "\"forward_ms\": -3.0",
            "stages[0].forward_ms: found -3, expected a time",
        ),
        ("\"transfers\"", "\"other\"", "found unknown field `other`"),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text, "{from}: {text}");
        folder.write("broken.json", broken);
        assert_refused(&folder.run(&["simulate", "broken.json"]), from, &[expected]);
    }
}

fn assert_refused(run: &Run, name: &str, expected: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {}", run.stderr);
    let words: Vec<&str> = run
        .stderr
        .split_whitespace()
        .filter(|word| *word != "│")
        .collect();
    let message = words.join(" ");
    for part in expected {
        assert!(message.contains(part), "{name}: no `{part}` in {message}");
    }
}
