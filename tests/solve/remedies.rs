//! What is said where there is no plan: the true reason first, and hints that lead to one.

use crate::common::command::{Folder, Run};
use crate::common::random_spec;
use serde_json::Value;

/// What a run wrote to stdout, without line breaks.
fn said(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(run: &Run, code: i32, parts: &[&str]) {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    let said = said(run);
    for part in parts {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

/// A chain for inference whose layers hold so many bytes, on these kinds of device.
fn chain(bytes: &[u64], kinds: &str) -> Folder {
    let layer = |(at, bytes): (usize, &u64)| {
        format!("{{ id = \"h.{at}\", forward_ms = 1, resident_bytes = {bytes} }}")
    };
    let layers: Vec<String> = bytes.iter().enumerate().map(layer).collect();
    let tensors: Vec<String> = (1..bytes.len())
        .map(|to| {
            format!(
                "{{ producer = \"h.{}\", consumers = [\"h.{to}\"], bytes = 10 }}",
                to - 1
            )
        })
        .collect();
    let net = format!(
        "[network]\nlayers = [{}]\ntensors = [{}]\n[cluster]\ndevice_kinds = [{kinds}]\n",
        layers.join(",\n"),
        tensors.join(",\n")
    );
    Folder::with("net.toml", net)
}

/// Five layers of 100 bytes on cards of 200 and 250: with 2 + 3 the larger card lacks 50, with 3 + 2 the smaller one 100.
#[test]
fn unlike_memory_is_missed_kind_by_kind() {
    let kinds = r#"{ name = "small", count = 1, memory_bytes = 200 }, { name = "large", count = 1, memory_bytes = 250 }"#;
    let folder = chain(&[100; 5], kinds);
    let run = folder.run(&["solve", "net.toml"]);
    let expected = [
        "a plan would fit `small` with 300 bytes, 100 B more than its 200 B, or `large` with 300 bytes, 50 B more than its 250 B",
        "give a kind of device as much (`memory_bytes` in the cluster); `--memory-limit` would replace the memory of all",
    ];
    says(&run, 3, &expected);
    assert!(
        !said(&run).contains("raise `--memory-limit`") && !said(&run).contains("more `--stages`"),
        "{}",
        run.stdout
    );
    let plan = json(&folder.run(&["solve", "net.toml", "--format", "json"]));
    assert_eq!(plan["least_memory"]["by_kind"][1]["at_least_bytes"], 300);
    assert_eq!(plan["least_memory"].get("at_most_bytes"), None);
    // What is said is true, and a byte less is not enough.
    for (from, to, code) in [
        ("250", "300", 0),
        ("250", "299", 3),
        ("200", "300", 0),
        ("200", "299", 3),
    ] {
        let changed = folder
            .read("net.toml")
            .replace(&format!("memory_bytes = {from}"), &format!("memory_bytes = {to}"));
        folder.write("changed.toml", changed);
        assert_eq!(
            folder.run(&["solve", "changed.toml"]).code,
            code,
            "{from} -> {to}"
        );
    }
}

#[test]
fn a_layer_that_fits_no_kind_is_named_with_what_each_would_need() {
    let kinds = r#"{ name = "small", count = 1, memory_bytes = 200 }, { name = "large", count = 1, memory_bytes = 250 }"#;
    let run = chain(&[100, 400], kinds).run(&["solve", "net.toml"]);
    let expected = [
        "layer `h.1` alone needs 400 B, more than any stage has",
        "`small` with 400 bytes, 200 B more than its 200 B, or `large` with 400 bytes",
    ];
    says(&run, 3, &expected);
}

/// A limit above what a device has stays in the report, with the stage that would not fit.
#[test]
fn a_limit_above_a_devices_memory_is_a_warning() {
    let kinds = r#"{ name = "small", count = 1, memory_bytes = 200 }, { name = "large", count = 1, memory_bytes = 250 }"#;
    let run = chain(&[100; 5], kinds).run(&["solve", "net.toml", "--memory-limit", "300"]);
    let warning = "warning: `--memory-limit` plans as if every device had 300 B, and `small` has 200 B, `large` has 250 B; stage";
    says(&run, 0, &[warning, "would hold 300 B on"]);
    let alike = chain(&[100; 4], r#"{ name = "gpu", count = 2, memory_bytes = 150 }"#);
    says(
        &alike.run(&["solve", "net.toml", "--memory-limit", "250"]),
        0,
        &[
            "warning: `--memory-limit` plans as if every device had 250 B, and `gpu` has 150 B; stage 1 would hold 200 B on gpu:1",
        ],
    );
    let below = alike.run(&["solve", "net.toml", "--memory-limit", "200"]);
    says(&below, 0, &["plans as if"]);
    // And where nothing fits, the hint says whose memory that would be.
    says(
        &alike.run(&["solve", "net.toml"]),
        3,
        &["plan for devices of 200 bytes (`--memory-limit 200` plans as if; `gpu` has 150 B)"],
    );
    let enough = chain(&[100; 4], r#"{ name = "gpu", count = 2, memory_bytes = 250 }"#);
    let run = enough.run(&["solve", "net.toml", "--memory-limit", "200"]);
    assert!(!said(&run).contains("warning"), "{}", run.stdout);
}

/// No bound of anything stands beside a proof that there is no plan.
#[test]
fn what_has_no_plan_has_no_bound() {
    let kinds = r#"{ name = "small", count = 1, memory_bytes = 200 }, { name = "large", count = 1, memory_bytes = 250 }"#;
    for layers in [vec![100; 5], vec![100, 400], vec![30; 20]] {
        let folder = chain(&layers, kinds);
        for command in ["solve", "bound"] {
            for method in [None, Some("milp"), Some("ideals")] {
                let method: Vec<&str> = match (command, method) {
                    ("solve", Some(method)) => vec!["--method", method],
                    _ => Vec::new(),
                };
                let run = folder.run(&[&[command, "net.toml"][..], &method].concat());
                let words = format!("{}{}", run.stdout, run.stderr);
                let ms = words.split_whitespace().collect::<Vec<_>>();
                let ms = ms
                    .windows(2)
                    .filter(|pair| pair[1].starts_with("ms"))
                    .filter_map(|pair| pair[0].parse::<f64>().ok());
                assert!(ms.fold(0.0, f64::max) < 1e6, "{command} {method:?}: {words}");
            }
        }
    }
}

/// Blocks with modes of degrees 1 and 2, and weights that fill a device.
fn blocks(count: usize, devices: usize, memory: u64) -> Folder {
    let block = |at: usize| {
        format!(
            r#"{{ id = "b{at}", modes = [
  {{ forward_ms = 2, backward_ms = 4, resident_bytes = 100, stash_bytes = 50 }},
  {{ recompute = "full", forward_ms = 2, backward_ms = 6, resident_bytes = 100, stash_bytes = 10 }},
  {{ tensor = 2, forward_ms = 1, backward_ms = 2, resident_bytes = 50, stash_bytes = 25 }},
  {{ tensor = 2, recompute = "full", forward_ms = 1, backward_ms = 3, resident_bytes = 50, stash_bytes = 5 }}] }}"#
        )
    };
    let layers: Vec<String> = (0..count).map(block).collect();
    let tensors: Vec<String> = (1..count)
        .map(|to| {
            format!(
                "{{ producer = \"b{}\", consumers = [\"b{to}\"], bytes = 10 }}",
                to - 1
            )
        })
        .collect();
    let net = format!(
        "[network]\nlayers = [{}]\ntensors = [{}]\n[cluster]\ndevice_kinds = [{{ name = \"gpu\", count = {devices}, memory_bytes = {memory} }}]\n",
        layers.join(",\n"),
        tensors.join(",\n")
    );
    Folder::with("net.toml", net)
}

#[test]
fn degrees_that_exclude_every_plan_are_the_reason() {
    let folder = blocks(4, 8, 1000);
    let solve = |options: &[&str]| {
        folder.run(&[&["solve", "net.toml", "--micro-batches", "512"][..], options].concat())
    };
    let reasons: [(&[&str], &str); 5] = [
        (
            &["--tensor", "3"],
            "there is none: no layer has a mode of tensor degree 3: they have 1, 2.",
        ),
        (&["--tensor", "16"], "no layer has a mode of tensor degree 16"),
        (
            &["--replicas", "3"],
            "there is none: 3 replicas cannot share out 512 micro-batches evenly: 3 does not divide 512.",
        ),
        (
            &["--replicas", "16"],
            "a stage takes 16 devices at least (16 replicas of tensor degree 1), and there are 8",
        ),
        (
            &["--tensor", "2", "--replicas", "8"],
            "a stage takes 16 devices at least (8 replicas of tensor degree 2), and there are 8",
        ),
    ];
    for (options, reason) in reasons {
        let run = solve(options);
        says(&run, 3, &[reason, "hint: there is a plan with `--"]);
        assert!(
            !said(&run).contains("fits the memory") && !said(&run).contains("memory-limit"),
            "{}",
            run.stdout
        );
        follow(&folder, &[&["--micro-batches", "512"][..], options].concat());
    }
    // One layer without the degree is named.
    let head = "{ id = \"head\", forward_ms = 1, backward_ms = 2 },\n{ id = \"b0\"";
    folder.write("net.toml", folder.read("net.toml").replace("{ id = \"b0\"", head));
    says(
        &solve(&["--tensor", "2"]),
        3,
        &["layer `head` has no mode of tensor degree 2: it has 1"],
    );
}

/// Does what each remedy says, after the options that had no plan; a later option takes the place of an earlier one.
fn follow(folder: &Folder, options: &[&str]) -> usize {
    let solve = [&["solve", "net.toml", "--format", "json"][..], options].concat();
    let run = folder.run(&solve);
    assert_eq!(run.code, 3, "{solve:?}: {}", run.stderr);
    let remedies = json(&run)["remedies"].as_array().cloned().unwrap_or_default();
    for remedy in &remedies {
        let remedy = remedy.as_str().expect("text");
        let words: Vec<&str> = remedy.split(' ').collect();
        let followed: Vec<&str> = match words.as_slice() {
            ["without", option] => solve.iter().filter(|own| *own != option).copied().collect(),
            words => {
                let mut kept: Vec<&str> = Vec::new();
                let mut own = solve.iter();
                while let Some(&word) = own.next() {
                    match word.starts_with("--") && words.contains(&word) {
                        true => drop(own.next()),
                        false => kept.push(word),
                    }
                }
                [&kept[..], words].concat()
            }
        };
        let run = folder.run(&followed);
        assert_eq!(run.code, 0, "{followed:?}: {}{}", run.stdout, run.stderr);
    }
    remedies.len()
}

#[test]
fn options_that_were_tried_lead_to_a_plan() {
    // Weights alone are too much for a device: groups of two halve them.
    let folder = blocks(4, 8, 200);
    let run = folder.run(&["solve", "net.toml", "--stages", "2", "--micro-batches", "4"]);
    says(
        &run,
        3,
        &["hint: there is a plan with `--tensor choose", "`--memory-limit"],
    );
    assert!(follow(&folder, &["--stages", "2", "--micro-batches", "4"]) > 0);
    // Stashes are: what is computed again is not kept.
    let folder = blocks(2, 2, 130);
    says(
        &folder.run(&["solve", "net.toml", "--stages", "2", "--micro-batches", "4"]),
        3,
        &["there is a plan with `--recompute choose`"],
    );
    assert_eq!(follow(&folder, &["--stages", "2", "--micro-batches", "4"]), 1);
    // More stages, where there are more devices.
    let folder = chain(&[100; 4], r#"{ name = "gpu", count = 4, memory_bytes = 100 }"#);
    says(
        &folder.run(&["solve", "net.toml", "--stages", "2"]),
        3,
        &["hint: there is a plan with `--stages 4`; or"],
    );
    assert_eq!(follow(&folder, &["--stages", "2"]), 1);
}

/// Where nothing else would do, so many more devices as are needed, and what else they need.
#[test]
fn more_devices_are_the_last_remedy() {
    let folder = chain(&[100; 4], r#"{ name = "gpu", count = 1, memory_bytes = 100 }"#);
    says(
        &folder.run(&["solve", "net.toml"]),
        3,
        &["there is a plan with `--devices 4`"],
    );
    assert_eq!(follow(&folder, &[]), 1);
    let folder = blocks(4, 2, 145);
    let run = folder.run(&["solve", "net.toml", "--micro-batches", "4"]);
    says(
        &run,
        3,
        &["there is a plan with `--devices 4 --recompute choose`"],
    );
    assert_eq!(follow(&folder, &["--micro-batches", "4"]), 1);
}

/// That there is no plan is no secret of the file that the report goes to.
#[test]
fn what_would_help_is_said_where_the_report_lies_in_a_file() {
    let folder = chain(&[100; 4], r#"{ name = "gpu", count = 4, memory_bytes = 100 }"#);
    let solve = ["solve", "net.toml", "--stages", "2", "--output", "plan.json"];
    let run = folder.run(&solve);
    let expected = "note: No plan of `net` exists; there is a plan with `--stages 4`";
    assert!(run.code == 3 && run.stderr.contains(expected), "{}", run.stderr);
    assert_eq!(folder.run(&[&solve[..], &["--quiet"]].concat()).stderr, "");
}

/// Commands that do not look for remedies name the one that does.
#[test]
fn bound_and_compare_point_to_solve() {
    let hint = "hint: `stagecut solve` says with which options there is a plan";
    let folder = chain(&[100; 4], r#"{ name = "gpu", count = 4, memory_bytes = 100 }"#);
    says(
        &folder.run(&["compare", "net.toml", "--stages", "2"]),
        3,
        &["no plan exists", hint],
    );
    let run = blocks(4, 8, 1000).run(&["bound", "net.toml", "--tensor", "3", "--micro-batches", "4"]);
    says(
        &run,
        3,
        &[
            "No plan of `net` exists",
            "no layer has a mode of tensor degree 3: they have 1, 2",
            hint,
        ],
    );
}

/// Degrees that no layer has are not silently 1.
#[test]
fn tensor_degrees_that_nothing_has_are_named() {
    let folder = chain(&[100; 4], r#"{ name = "gpu", count = 4, memory_bytes = 1000 }"#);
    let told = [
        "modes: no layer has a mode of a tensor degree above 1, so that `--tensor choose` has nothing to choose from",
    ];
    says(
        &folder.run(&["solve", "net.toml", "--tensor", "choose"]),
        0,
        &told,
    );
}

/// Random problems with limits that are too low: whatever is told was tried, and holds on the command line.
#[test]
fn remedies_of_random_problems_hold() {
    let mut told = 0;
    for seed in 0..60 {
        let spec = random_spec(seed, false);
        let folder = Folder::with("net.toml", toml::to_string(&spec).expect("an instance in TOML"));
        for limit in ["1", "1000", "1000000"] {
            let options = ["--stages", "2", "--memory-limit", limit, "--micro-batches", "4"];
            let run = folder.run(&[&["solve", "net.toml", "--format", "json"][..], &options].concat());
            if run.code == 3 {
                told += follow(&folder, &options);
            }
        }
    }
    println!("{told} remedies followed");
}
