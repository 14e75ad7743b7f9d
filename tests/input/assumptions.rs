//! What an answer assumes is said where nobody misses it: how many devices there are, how much memory, which precision.

use crate::common::command::{Folder, NET, Run};
use serde_json::{Value, json};

fn solve(folder: &Folder, options: &[&str]) -> Run {
    folder.run(&[&["solve", "net.toml", "--stages", "2", "--quiet"], options].concat())
}

fn read(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

/// Words in a row, however the lines are broken.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_says(run: &Run, code: i32, expected: &[&str]) {
    assert_eq!(run.code, code, "{}", run.stderr);
    let text = unwrapped(&run.stdout);
    for words in expected {
        assert!(
            text.contains(words),
            "no `{words}` in\n{}{}",
            run.stdout,
            run.stderr
        );
    }
}

/// [`NET`] with another kind of device in place of `{ name = "gpu" }`.
fn on(kind: &str) -> Folder {
    Folder::with("net.toml", NET.replace(r#"{ name = "gpu" }"#, kind))
}

#[test]
fn devices_are_counted() {
    let three = on(r#"{ name = "gpu", count = 3 }"#);
    assert_says(&solve(&three, &[]), 0, &["devices `gpu` (3)"]);
    assert_says(
        &solve(&on(r#"{ name = "gpu" }"#), &[]),
        0,
        &["devices `gpu` (no count given: unlimited)"],
    );

    // Stages default to the devices there are, and are never more.
    assert_eq!(
        read(&three.run(&["solve", "net.toml", "--format", "json"]))["problem"]["stages"],
        3
    );
    let run = three.run(&["solve", "net.toml", "--stages", "4", "--quiet"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let message = unwrapped(&run.stderr);
    assert!(
        message.contains("found 4 stages and 3 `gpu` devices"),
        "{message}"
    );
    assert!(message.contains("`--devices 4`"), "{message}");
}

#[test]
fn devices_may_be_asked_for() {
    let one = on(r#"{ name = "gpu", count = 1 }"#);
    let run = solve(&one, &["--devices", "2"]);
    assert_says(
        &run,
        0,
        &["devices `gpu` (2, as if there were; the cluster has 1)"],
    );
    let plan = solve(&one, &["--devices", "2", "--format", "json"]);
    assert_eq!(read(&plan)["problem"]["devices"], 2);
    assert_eq!(read(&plan)["stages"][1]["devices"][0], "gpu:2");
    one.write("plan.json", &plan.stdout);
    assert_eq!(
        one.run(&["check", "net.toml", "plan.json", "--devices", "2"])
            .code,
        0
    );

    // Stages follow them, a file may ask for them, and groups are formed of them.
    let run = one.run(&["solve", "net.toml", "--devices", "3", "--format", "json"]);
    assert_eq!(read(&run)["problem"]["stages"], 3);
    one.write("net.toml", one.read("net.toml") + "[pipeline]\ndevices = 2\n");
    assert_eq!(solve(&one, &[]).code, 0);
    let run = solve(
        &one,
        &["--devices", "4", "--groups", "assign", "--format", "json"],
    );
    let stages = read(&run)["stages"].as_array().cloned().unwrap_or_default();
    let used: usize = stages
        .iter()
        .filter_map(|stage| Some(stage["devices"].as_array()?.len()))
        .sum();
    assert_eq!(used, 4, "{}{}", run.stdout, run.stderr);
}

/// `formulations/online.md` and `workers.md` say so.
#[cfg(feature = "onnx")]
#[test]
fn devices_are_numbered_from_one_in_plans_and_from_zero_online() {
    let instances = concat!(env!("CARGO_MANIFEST_DIR"), "/instances");
    let (model, scenario) = (
        format!("{instances}/alexnet.onnx"),
        format!("{instances}/online/spot.toml"),
    );
    let folder = Folder::new();
    let plan = folder.succeed(&["solve", &model, "--stages", "2", "--format", "json", "--quiet"]);
    assert!(
        plan.contains("\"v100:1\"") && !plan.contains("\"v100:0\""),
        "{plan}"
    );
    let run = folder.succeed(&[
        "online",
        &scenario,
        "--slots",
        "1",
        "--policies",
        "even",
        "--quiet",
    ]);
    assert!(run.contains("\"t4:0\"") && !run.contains("\"t4:4\""), "{run}");
}

#[test]
fn memory_without_a_limit_is_said_at_once() {
    let first_lines = |run: &Run| unwrapped(run.stdout.split("\n\n").next().unwrap_or_default());
    let run = solve(&on(r#"{ name = "gpu" }"#), &[]);
    let text = first_lines(&run);
    assert!(
        text.contains("memory: no limit given; stage 1 would hold 1.26 kB"),
        "{text}"
    );

    let limited = on(r#"{ name = "gpu", memory_bytes = "2.5kB" }"#);
    let text = first_lines(&solve(&limited, &[]));
    assert!(!text.contains("memory"), "{text}");
    let text = first_lines(&solve(&limited, &["--memory-limit", "none"]));
    assert!(
        text.contains("memory: limit lifted (`gpu` has 2.50 kB); stage"),
        "{text}"
    );
}

/// The best cut for memory is conv1 conv2 | fc: 4 * 300 + 2 * 30 = 1260 bytes on the first stage, 4 * 300 + 30 on the last.
#[test]
fn the_least_memory_of_an_infeasible_problem() {
    let folder = on(r#"{ name = "gpu" }"#);
    for limit in ["1250", "1259", "1.23kB"] {
        let run = solve(&folder, &["--memory-limit", limit]);
        assert_says(
            &run,
            3,
            &[
                "No plan",
                "the least limit with a plan is 1260 bytes (1.26 kB)",
                "raise `--memory-limit` to 1260",
            ],
        );
    }
    let plan = read(&solve(&folder, &["--memory-limit", "1250", "--format", "json"]));
    let known = &plan["least_memory"];
    assert_eq!(
        (&known["at_least_bytes"], &known["at_most_bytes"]),
        (&1260.into(), &1260.into())
    );
    assert_eq!(solve(&folder, &["--memory-limit", "1260"]).code, 0);

    // No time for it: what is proved so far.
    let run = solve(
        &folder,
        &[
            "--memory-limit",
            "1250",
            "--format",
            "json",
            "--time-limit",
            "0",
            "--method",
            "exact",
        ],
    );
    assert!(run.code == 3 || run.code == 4, "{}", run.stderr);
}

#[test]
fn a_layer_that_fits_no_stage_is_named() {
    let folder = on(r#"{ name = "gpu", memory_bytes = 500 }"#);
    let run = solve(&folder, &[]);
    assert_says(
        &run,
        3,
        &[
            "No plan",
            "layer `fc` alone needs 1.23 kB, more than any stage has, and 1 other layer too",
            "the least limit with a plan is 1260 bytes",
        ],
    );
    let plan = read(&solve(&folder, &["--format", "json"]));
    assert_eq!(plan["status"], "infeasible");
    assert_eq!(plan["least_memory"]["too_large"][0]["layer"], "conv2");
    assert_eq!(plan["least_memory"]["too_large"][0]["needs_bytes"], 820);
    // Commands that make no plan say it on stderr.
    for command in ["compare", "bound"] {
        let run = folder.run(&[command, "net.toml", "--stages", "2"]);
        assert_eq!(run.code, 3, "{command}: {}", run.stderr);
        let message = unwrapped(&run.stderr);
        assert!(
            message.contains("layer `conv2`: found a layer that needs 820 bytes alone"),
            "{message}"
        );
    }
}

#[test]
fn workers_that_differ_have_a_least_memory_too() {
    let own = r#"{ name = "big", count = 1, memory_bytes = 1240 }, { name = "small", count = 1, memory_bytes = 700 }"#;
    let kinds_of = |from: &str, to: &str| own.replace(from, to);
    let run = solve(&on(own), &["--format", "json"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    // Each has its own memory: a limit for all would take none for what it is, so each kind is asked by itself. The cheapest cut for `big`
    // is conv1 conv2 | fc, of which `small` cannot hold fc; the whole on `big` takes 3 * 4 * 200 and the stashes.
    let known = &read(&run)["least_memory"];
    assert_eq!(known.get("at_most_bytes"), None);
    let kinds: Vec<&Value> = known["by_kind"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(|of| &of["kind"])
        .collect();
    assert_eq!(kinds, ["big", "small"]);
    for of in known["by_kind"].as_array().expect("kinds") {
        let (name, has, most) = (
            of["kind"].as_str().expect("a name"),
            &of["has_bytes"],
            &of["at_most_bytes"],
        );
        let raised = |bytes: u64| {
            let from = format!("name = \"{name}\", count = 1, memory_bytes = {has}");
            let to = format!("name = \"{name}\", count = 1, memory_bytes = {bytes}");
            solve(&on(&kinds_of(&from, &to)), &[]).code
        };
        let most = most.as_u64().expect("bytes");
        assert_eq!((raised(most), raised(most - 1)), (0, 3), "{of}");
    }
    let open = r#"{ name = "big", count = 1, memory_bytes = 5000 }, { name = "open", count = 1 }"#;
    assert_says(
        &solve(&on(open), &[]),
        0,
        &["memory: no limit given for `open`; stage"],
    );
}

/// Work and parameters, and devices that state rates.
fn roofline(network: &str, kind: &str) -> Folder {
    let net = format!(
        r#"
[network]
{network}
layers = [{{ id = "a", parameter_bytes = 100, work = {{ forward_flops = 1e9, backward_flops = 2e9 }} }},
          {{ id = "b", parameter_bytes = 100, work = {{ forward_flops = 1e9, backward_flops = 2e9 }} }}]
tensors = [{{ producer = "a", consumers = ["b"], bytes = 10 }}]
[cluster]
device_kinds = [{{ name = "gpu", count = 2, memory_bytes = 1e9, flops_per_s = 1e12, memory_bytes_per_s = 1e12 {kind} }}]
link = {{ bandwidth_bytes_per_s = "10GB/s" }}
"#
    );
    Folder::with("net.toml", net)
}

#[test]
fn rates_of_another_precision_cannot_be_missed() {
    let run = solve(&roofline(r#"precision = "bf16""#, r#", precision = "fp32""#), &[]);
    let warning = "warning: the network computes in bf16, and the rates of `gpu` hold for fp32: its times are those of fp32\n";
    assert_eq!(run.stderr, warning);
    let said = [
        "8 bytes a parameter (weight, gradient and 2 states of adam, all in bf16; mixed precision with adam needs 16)",
        "rates of `gpu` are the peaks of fp32",
    ];
    assert_says(&run, 0, &said);

    let run = solve(&roofline(r#"precision = "bf16""#, ""), &[]);
    let warning =
        "warning: the network computes in bf16, and `gpu` does not say for which precision its rates hold\n";
    assert_eq!(run.stderr, warning);

    let run = solve(
        &roofline(r#"precision = "fp32""#, r#", precision = "fp32""#),
        &["--optimizer", "sgd"],
    );
    assert_eq!(run.stderr, "");
    assert_says(
        &run,
        0,
        &["8 bytes a parameter (weight and gradient, all in fp32)"],
    );

    // A network that does not say: a note.
    let folder = roofline("", r#", precision = "fp32""#);
    let run = folder.run(&["solve", "net.toml"]);
    let notes = "note: times are rooflines: FLOPs and bytes at the peak rates of `gpu`\n\
                 note: the network does not say in which precision it computes; the rates of `gpu` hold for fp32\n";
    assert_eq!(run.stderr, notes);
    assert_says(
        &run,
        0,
        &[
            "4 numbers a parameter (weight, gradient and 2 states of adam), of the size that the file gives it",
        ],
    );
}

/// 50 parameters a layer, in bf16: `formulations/memory.md` has the table.
#[test]
fn bytes_of_a_parameter_are_those_asked_for() {
    let folder = roofline(r#"precision = "bf16""#, r#", precision = "bf16""#);
    let solve = |options: &[&str]| {
        let asked = ["solve", "net.toml", "--quiet", "--format", "json"];
        let run = folder.run(&[&asked[..], options].concat());
        let plan = read(&run);
        let bytes = plan["stages"][0]["memory_bytes"].as_u64().unwrap_or(0);
        folder.write("plan.json", &run.stdout);
        let check = folder.run(&[&["check", "net.toml", "plan.json"], options].concat());
        assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
        (bytes, plan["problem"]["precision"].clone())
    };
    assert_eq!(solve(&[]), (400, Value::Null));
    for (precision, adam, sgd) in [
        ("uniform", 400, 200),
        ("fp32", 800, 400),
        ("fp16-mixed", 800, 400),
        ("bf16-mixed", 900, 500),
    ] {
        assert_eq!(solve(&["--precision", precision]).0, adam, "{precision}");
        let run = solve(&["--precision", precision, "--optimizer", "sgd"]);
        assert_eq!(run.0, sgd, "{precision}");
    }
    // Mixed where stages have modes; two layers, and half of the optimiser's state on each of two replicas.
    assert_eq!(solve(&["--recompute", "choose"]), (900, "bf16-mixed".into()));
    let replicas = ["--replicas", "2", "--micro-batches", "2"];
    assert_eq!(solve(&replicas).0, 1800);
    let shared = [&replicas[..], &["--optimizer-sharding", "zero1"]].concat();
    assert_eq!(solve(&shared).0, 1200);
    let said = "18 bytes a parameter (bf16-mixed: weight 2, gradient 4, weight in fp32 and 2 states of adam 12, shared out by the \
                replicas of a stage)";
    let run = folder.run(&[&["solve", "net.toml", "--quiet"], &shared[..]].concat());
    assert_says(&run, 0, &[said]);

    let run = folder.run(&["solve", "net.toml", "--optimizer-sharding", "zero1"]);
    assert_eq!(run.code, 2);
    assert!(
        unwrapped(&run.stderr).contains("without replicas of stages"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_part_of_the_peak_is_reached() {
    let forward_ms = |kind: &str| {
        let folder = roofline(
            r#"precision = "bf16""#,
            &format!(r#", precision = "bf16" {kind}"#),
        );
        read(&solve(&folder, &["--format", "json"]))["stages"][0]["forward_ms"].as_f64()
    };
    assert_eq!(forward_ms(""), Some(1.0));
    assert_eq!(forward_ms(", efficiency = 0.5"), Some(2.0));
    let folder = roofline(
        r#"precision = "bf16""#,
        r#", precision = "bf16", efficiency = 1.5"#,
    );
    let run = solve(&folder, &[]);
    assert_eq!(run.code, 2);
    let message = unwrapped(&run.stderr);
    assert!(
        message.contains("efficiency") && message.contains("at most 1"),
        "{message}"
    );
}

/// The attention of a generated network in bf16 on GPUs in nodes: nothing to warn of.
#[test]
fn generated_networks_fit_presets_of_nodes() {
    let folder = crate::common::command::gpt2_blocks();
    for cluster in ["a100-nodes", "h100-nodes"] {
        let run = folder.run(&[
            "solve",
            "net.json",
            "--cluster",
            cluster,
            "--devices",
            "16",
            "--stages",
            "4",
            "--micro-batches",
            "8",
            "--replicas",
            "choose",
            "--tensor",
            "choose",
            "--quiet",
        ]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert_says(&run, 0, &["Optimal plan", "18 bytes a parameter (bf16-mixed"]);
    }
}

#[test]
fn every_preset_states_its_precision() {
    for (name, text) in stagecut::import::CLUSTER_PRESETS {
        let rates = text.matches("\nflops_per_s").count();
        assert_eq!(text.matches("\nprecision").count(), rates, "{name}");
    }
}

#[cfg(feature = "onnx")]
#[test]
fn models_state_their_precision() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/squeezenet.onnx");
    let folder = Folder::new();
    let run = |cluster: &str| folder.run(&["solve", model, "--stages", "2", "--cluster", cluster, "--quiet"]);
    assert_eq!(run("v100").stderr, "");
    let other = run("dgx-a100");
    assert_eq!((other.code, other.stdout.as_str()), (2, ""));
    // The preset that is assumed is not spoken of where another is given.
    let noted = |options: &[&str]| {
        folder
            .run(&[&["solve", model, "--stages", "2"], options].concat())
            .stderr
    };
    assert!(noted(&[]).contains("the model names no devices"));
    assert!(!noted(&["--cluster", "a100"]).contains("the model names no devices"));
}

/// A preset's rates hold for one precision: those of another are refused with the presets that fit, the same GPU's first.
#[test]
fn presets_of_another_precision_are_refused() {
    let folder = roofline(r#"precision = "bf16""#, "");
    folder.write(
        "fp32.toml",
        roofline(r#"precision = "fp32""#, "").read("net.toml"),
    );
    folder.write(
        "fp16.toml",
        roofline(r#"precision = "fp16""#, "").read("net.toml"),
    );
    folder.write(
        "int8.toml",
        roofline(r#"precision = "int8""#, "").read("net.toml"),
    );
    let solve =
        |file: &str, cluster: &str| folder.run(&["solve", file, "--stages", "2", "--cluster", cluster]);
    for (file, cluster, remedy) in [
        (
            "net.toml",
            "h100",
            "use `--cluster h100-bf16`, or h100-nodes, a100-bf16",
        ),
        (
            "net.toml",
            "a100",
            "use `--cluster a100-bf16`, or a100-nodes, h100-bf16",
        ),
        ("net.toml", "t4", "use `--cluster a100-bf16`, or"),
        ("fp32.toml", "h100-nodes", "use `--cluster h100`, or v100, a100"),
        ("fp16.toml", "h100", "use `--cluster h100-bf16`"),
        (
            "int8.toml",
            "h100",
            "give the rates of your devices in a file: `--cluster FILE`",
        ),
    ] {
        let run = solve(file, cluster);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{file} on {cluster}");
        let message = unwrapped(&run.stderr);
        let found = format!("found `{cluster}`, whose rates hold for");
        assert!(message.contains(&found) && message.contains(remedy), "{message}");
    }
    for (file, cluster) in [("net.toml", "h100-bf16"), ("fp32.toml", "h100")] {
        let run = solve(file, cluster);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    }
    // Data sheets state the same peaks for both formats of 16 bits.
    assert_eq!(solve("fp16.toml", "h100-bf16").code, 0);
    // Times that are given do not follow from rates.
    assert_eq!(
        on(r#"{ name = "gpu" }"#)
            .run(&["solve", "net.toml", "--cluster", "h100", "--stages", "2"])
            .code,
        0
    );
    // A file of one's own is one's own business, with a warning.
    let rates = "[[device_kinds]]\nname = \"gpu\"\nflops_per_s = 1e12\nprecision = \"fp32\"\nmemory_bytes_per_s = 1e12\n";
    folder.write("own.toml", rates);
    let run = solve("net.toml", "own.toml");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("warning: the network computes in bf16"),
        "{}",
        run.stderr
    );
}

/// Reports say of which kind the times are that they are made of.
#[test]
fn times_are_peak_calibrated_or_measured() {
    let folder = roofline(r#"precision = "bf16""#, r#", precision = "bf16""#);
    let measured = folder
        .read("net.toml")
        .replace("work = {", "forward_ms = 1, backward_ms = 2, work = {");
    folder.write("measured.toml", measured);
    let asked = ["solve", "--stages", "2", "--mode", "training"];
    let cases: [(&[&str], &str); 4] = [
        (&["net.toml"], "peak: rooflines at the rates of `gpu`"),
        (
            &["net.toml", "--efficiency", "0.5"],
            "peak: rooflines at an assumed 0.5 of the rates of `gpu`",
        ),
        (
            &["net.toml", "--cluster", "h100-bf16", "--efficiency", "measured"],
            "calibrated: rooflines at 0.65 of the rates of `h100`; cluster calibrated: `h100` at 0.65 of its rates: blocks of four models",
        ),
        (&["measured.toml"], "measured, or what else the file gives"),
    ];
    for (file, said) in cases {
        assert_says(&folder.run(&[&asked[..], file].concat()), 0, &[said]);
    }
}

/// A part of peak rates, of arithmetic and of memory: the option, and the key of a device kind, make every roofline longer by the same.
#[test]
fn an_efficiency_may_be_asked_for() {
    let folder = roofline(r#"precision = "bf16""#, r#", precision = "bf16""#);
    let of_memory = folder
        .read("net.toml")
        .replace("forward_flops = 1e9", "forward_flops = 1e9, forward_bytes = 3e9");
    folder.write("memory.toml", of_memory);
    let objective = |arguments: &[&str]| {
        let asked = [
            &["solve"][..],
            arguments,
            &["--stages", "2", "--format", "json", "--quiet"],
        ]
        .concat();
        read(&folder.run(&asked))["objective_ms"].as_f64()
    };
    for file in ["net.toml", "memory.toml"] {
        let peak = objective(&[file, "--communication", "ignored"]).expect("a plan");
        for (part, times) in [("1", 1.0), ("0.5", 2.0), ("0.25", 4.0)] {
            let found = objective(&[file, "--communication", "ignored", "--efficiency", part]);
            assert_eq!(found, Some(times * peak), "{file} at {part}");
        }
    }
    let cluster = ["net.toml", "--cluster", "a100-bf16", "--efficiency", "0.5"];
    let slower = objective(&cluster)
        .zip(objective(&cluster[..3]))
        .map(|(half, peak)| half / peak);
    assert!(
        slower.is_some_and(|times| (1.99..2.01).contains(&times)),
        "{slower:?}"
    );
    let said = [
        "rates of `a100` are 0.5 of the peaks of bf16",
        "peak: rooflines at an assumed 0.5 of the rates of `a100`",
    ];
    assert_says(
        &folder.run(&[&["solve", "--stages", "2"][..], &cluster[..]].concat()),
        0,
        &said,
    );
    let noted = folder
        .run(&[&["solve", "--stages", "2"][..], &cluster[..]].concat())
        .stderr;
    assert!(
        noted.contains("note: times are rooflines: FLOPs and bytes at 0.5 of the peak rates of `a100`"),
        "{noted}"
    );
    // Other commands that read a cluster read it too.
    for command in ["bound", "compare", "what-if"] {
        let more: &[&str] = if command == "what-if" {
            &["--stages", "1..2"]
        } else {
            &["--stages", "2"]
        };
        let run = folder.run(&[&[command][..], &cluster[..], more].concat());
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
    }
    for wrong in ["0", "1.5", "-1", "nan", "half"] {
        assert_eq!(
            folder.run(&["solve", "net.toml", "--efficiency", wrong]).code,
            2,
            "{wrong}"
        );
    }
    let measured = on(r#"{ name = "gpu" }"#).run(&["solve", "net.toml", "--efficiency", "0.5"]);
    assert_eq!(measured.code, 2);
    let message = unwrapped(&measured.stderr);
    assert!(message.contains("where no time follows from rates"), "{message}");
}

/// The plan says in its JSON of which kind its times are, the checker believes no other, and a kind of which nothing was measured is refused with
/// those of which something was.
#[test]
fn a_plan_carries_of_which_kind_its_times_are() {
    let folder = roofline(r#"precision = "bf16""#, r#", precision = "bf16""#);
    let asked = [
        "solve", "net.toml", "--stages", "2", "--mode", "training", "--format", "json",
    ];
    let cases: [(&[&str], Value); 3] = [
        (
            &[],
            json!({ "device_kind": "gpu", "basis": "peak", "efficiency": 1.0 }),
        ),
        (
            &["--efficiency", "0.5"],
            json!({ "device_kind": "gpu", "basis": "peak", "efficiency": 0.5 }),
        ),
        (
            &["--cluster", "h100-bf16", "--efficiency", "measured"],
            json!({ "device_kind": "h100", "basis": "calibrated", "efficiency": 0.65 }),
        ),
    ];
    for (more, expected) in cases {
        let mut plan = read(&folder.run(&[&asked[..], more].concat()));
        let mut said = plan["times"][0].clone();
        said.as_object_mut().expect("an object").remove("source");
        assert_eq!(said, expected);
        folder.write("plan.json", plan.to_string());
        let checked = folder.run(&["check", "net.toml", "plan.json"]);
        assert_eq!(checked.code, 0, "{}", checked.stdout);
        assert!(
            more.iter().all(|word| unwrapped(&checked.stdout).contains(word)),
            "{}",
            checked.stdout
        );
        plan["times"][0]["basis"] = "measured".into();
        folder.write("plan.json", plan.to_string());
        let checked = folder.run(&["check", "net.toml", "plan.json"]);
        assert_says(&checked, 1, &["times that are measured on `"]);
    }
    let refused = folder.run(&["solve", "net.toml", "--efficiency", "measured"]);
    let message = unwrapped(&refused.stderr);
    assert_eq!(refused.code, 2);
    assert!(
        message.contains("nothing that was measured of `gpu`") && message.contains("h100-nodes"),
        "{message}"
    );
}

/// Parts of a layer's work take turns: each as long as its own arithmetic or traffic, and so is what they leave. More than all is refused.
#[test]
fn kernels_of_a_layer_take_turns() {
    let folder = roofline(r#"precision = "bf16""#, r#", precision = "bf16""#);
    let net = folder.read("net.toml");
    let period = |kernels: &str| {
        let work = format!("forward_flops = 1e9, forward_bytes = 3e9, kernels = [{kernels}]");
        folder.write("kernels.toml", net.replace("forward_flops = 1e9", &work));
        folder.run(&[
            "solve",
            "kernels.toml",
            "--stages",
            "1",
            "--mode",
            "inference",
            "--communication",
            "ignored",
            "--format",
            "json",
        ])
    };
    let ms = |kernels: &str| read(&period(kernels))["objective_ms"].as_f64().expect("a plan");
    let alone = ms("");
    assert_eq!(ms("{ forward_flops = 1e9, forward_bytes = 3e9 }"), alone);
    // A third of the bytes with all of the arithmetic, and the rest of the bytes: neither hides what the other takes.
    let [flops_ms, bytes_ms] = [ms("{ forward_bytes = 3e9 }") - alone, alone];
    assert!(flops_ms > 0.0 && flops_ms < bytes_ms);
    assert_eq!(
        ms("{ forward_bytes = 1e9 }, { forward_bytes = 2e9 }"),
        alone + flops_ms
    );
    let refused = period("{ forward_flops = 2e9 }");
    assert_eq!(refused.code, 2);
    assert!(
        unwrapped(&refused.stderr).contains("2000000000 of `forward_flops` in all"),
        "{}",
        refused.stderr
    );
}

/// Whoever types `--devices` may never have seen the `stages` of a file.
#[test]
fn an_option_of_the_file_is_called_one() {
    let folder = on(r#"{ name = "gpu" }"#);
    folder.write("net.toml", folder.read("net.toml") + "[pipeline]\nstages = 3\n");
    let run = folder.run(&["solve", "net.toml", "--devices", "2"]);
    let message = unwrapped(&run.stderr);
    assert!(
        message.contains("found 3 stages (`stages` of the instance) and 2 `gpu` devices"),
        "{message}"
    );
    let run = folder.run(&["solve", "net.toml", "--devices", "2", "--stages", "3"]);
    assert!(
        unwrapped(&run.stderr).contains("found 3 stages and 2 `gpu` devices"),
        "{}",
        run.stderr
    );
}

#[test]
fn schedules_are_read_in_either_case() {
    let run = solve(
        &on(r#"{ name = "gpu" }"#),
        &["--schedule", "1F1B", "--bandwidth", "8Gb/s", "--format", "json"],
    );
    let plan = read(&run);
    assert_eq!(plan["problem"]["schedule"], "1f1b");
    assert_eq!(plan["problem"]["bandwidth_bytes_per_s"], 1e9);
}

/// What no tensor orders is said by the importer and in the report, by name.
#[test]
fn layers_that_nothing_orders_are_named() {
    let net = |tensors: &str| {
        let layers =
            ["a", "b", "c"].map(|id| format!("{{ id = \"{id}\", forward_ms = 1, backward_ms = 2 }}"));
        Folder::with(
            "net.toml",
            format!(
                "[network]\nlayers = [{}]\ntensors = [{tensors}]\n",
                layers.join(", ")
            ),
        )
    };
    let between =
        |from: &str, to: &str| format!("{{ producer = \"{from}\", consumers = [\"{to}\"], bytes = 0 }}");
    let cases = [
        (
            String::new(),
            "none of the 3 layers reads another (`a` .. `c`): nothing orders them",
        ),
        (
            between("a", "b"),
            "1 of 3 layers read no other and are read by none (`c`): nothing orders them",
        ),
    ];
    for (tensors, words) in cases {
        let folder = net(&tensors);
        let run = folder.run(&["solve", "net.toml", "--stages", "2"]);
        let imported = folder.run(&["import", "net.toml"]);
        assert!(
            unwrapped(&imported.stderr).contains(&format!("note: {words}")),
            "{}",
            imported.stderr
        );
        assert_says(
            &run,
            0,
            &[&format!(
                "order: {words}, unless `tensors` say what flows between"
            )],
        );
    }
    let ordered = net(&format!("{}, {}", between("a", "b"), between("b", "c")));
    let run = ordered.run(&["solve", "net.toml", "--stages", "2"]);
    assert!(
        !format!("{}{}", run.stdout, run.stderr).contains("orders"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}
