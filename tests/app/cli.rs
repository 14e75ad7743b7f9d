//! The command line as users and scripts meet it: help, exit codes, what goes to stdout, and files that go through it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::command::{Folder, NET, json, snapshots, solved};
use serde_json::Value;

const COMMANDS: &[&str] = &[
    "plan",
    "solve",
    "bound",
    "compare",
    "what-if",
    "check",
    "formulate",
    "show",
    "simulate",
    "schedule",
    "online",
    "calibrate",
    "layout",
    "place",
    "study",
    "export",
    "import",
    "generate",
    "schema",
    "completions",
    "man",
];

/// Options under which [`NET`] has no plan: with Adam, `fc` needs 1230 bytes, so that it fits alone; the other two
/// together need 1260 on the first of two stages.
const INFEASIBLE: &[&str] = &["--stages", "2", "--memory-limit", "1250"];

#[test]
fn help_of_every_command() {
    let folder = Folder::new();
    let settings = snapshots("cli");
    settings.bind(|| insta::assert_snapshot!("stagecut", folder.succeed(&["--help"])));
    for command in COMMANDS {
        let help = folder.succeed(&[command, "--help"]);
        settings.bind(|| insta::assert_snapshot!(*command, help));
    }
    let help = folder.succeed(&["generate", "transformer", "--help"]);
    settings.bind(|| insta::assert_snapshot!("generate-transformer", help));
    for command in ["run", "tasks", "run-task", "collect", "report", "diff", "submit"] {
        let help = folder.succeed(&["study", command, "--help"]);
        settings.bind(|| insta::assert_snapshot!(format!("study-{command}"), help));
    }
}

#[test]
fn help_lists_every_command_and_every_method() {
    let folder = Folder::new();
    let help = folder.succeed(&["--help"]);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    let help = folder.succeed(&["solve", "--help"]);
    for method in stagecut::methods::all() {
        assert!(
            help.contains(&format!("- {}: ", method.name())),
            "{}",
            method.name()
        );
    }
}

#[test]
fn version() {
    let version = format!("stagecut {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Folder::new().succeed(&["--version"]), version);
}

#[test]
fn exit_codes_say_how_it_ended() {
    let folder = Folder::with("net.toml", NET);
    let code = |args: &[&str]| folder.run(&[&["solve", "net.toml"], args].concat()).code;
    assert_eq!(code(&["--stages", "2"]), 0);
    assert_eq!(code(&[]), 2);
    assert_eq!(code(INFEASIBLE), 3);
    assert_eq!(
        code(&["--stages", "2", "--method", "textbook", "--time-limit", "0"]),
        4
    );
    assert_eq!(folder.run(&[]).code, 2);
    assert_eq!(folder.run(&["solve"]).code, 2);
    assert_eq!(folder.run(&["dissolve"]).code, 2);
    let code = |args: &[&str]| folder.run(&[&["compare", "net.toml"], args].concat()).code;
    assert_eq!(code(&["--stages", "2"]), 0);
    assert_eq!(code(&[INFEASIBLE, &["--methods", "exact,textbook"]].concat()), 3);
    assert_eq!(
        code(&["--stages", "2", "--methods", "textbook", "--time-limit", "0"]),
        4
    );
}

#[test]
fn without_time_the_default_method_still_has_a_plan() {
    let folder = Folder::with("net.toml", NET);
    let solve = |method: &str| {
        let args = [
            "solve",
            "net.toml",
            "--stages",
            "2",
            "--time-limit",
            "0",
            "--format",
            "json",
            "--method",
            method,
        ];
        json(&folder.run(&args).stdout)
    };
    let plan = solve("exact");
    assert!(
        ["optimal", "feasible"].contains(&plan["status"].as_str().unwrap()),
        "{plan}"
    );
    assert!(plan["objective_ms"].is_number());
    let none = solve("textbook");
    assert_eq!(
        (&none["status"], &none["stopped_by"]),
        (&"unknown".into(), &"time-limit".into())
    );
    assert!(none["objective_ms"].is_null() && none["stages"].as_array().unwrap().is_empty());
}

#[test]
fn an_infeasible_problem_is_proved_to_be_one() {
    let folder = Folder::with("net.toml", NET);
    let run = folder.run(&[&["solve", "net.toml", "--format", "json"], INFEASIBLE].concat());
    let plan = json(&run.stdout);
    assert_eq!(plan["status"], "infeasible");
    assert!(
        plan["objective_ms"].is_null() && plan["bound_ms"].is_null() && plan["gap"].is_null(),
        "{plan}"
    );
    folder.write("plan.json", &run.stdout);
    assert_eq!(folder.run(&["check", "net.toml", "plan.json"]).code, 0);
}

/// The keys that other programs rely on, as the design's section on the command line lists them.
#[test]
fn the_keys_of_a_plan_are_stable() {
    let folder = Folder::with("net.toml", NET);
    let plan = json(&folder.succeed(&["solve", "net.toml", "--stages", "2", "--format", "json"]));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    fn sorted(mut keys: Vec<&str>) -> Vec<&str> {
        keys.sort_unstable();
        keys
    }
    let stated = vec![
        "schema",
        "instance",
        "method",
        "status",
        "stopped_by",
        "times",
        "objective_ms",
        "bound_ms",
        "gap",
        "bound_source",
        "problem",
        "stages",
        "statistics",
    ];
    assert_eq!(keys(&plan), sorted(stated));
    assert_eq!(plan["schema"], "stagecut-plan/1");
    let stage = &plan["stages"][0];
    let stated = vec![
        "index",
        "forward",
        "backward",
        "devices",
        "shares",
        "load_ms",
        "forward_ms",
        "backward_ms",
        "communication_ms",
        "transfers",
        "memory_bytes",
        "in_flight",
        "weight_versions",
    ];
    assert_eq!(keys(stage), sorted(stated));
    for key in ["seconds", "nodes", "items", "items_after_presolve", "binaries"] {
        assert!(plan["statistics"][key].is_number(), "{key}");
    }
    // By hand: conv1 and conv2 take 9 ms, fc 4.5 ms and the tensor between them 0.5 ms each way, paid on both sides.
    assert_eq!(plan["objective_ms"], 10.0);
    assert_eq!(
        (&plan["bound_ms"], &plan["gap"], &plan["status"]),
        (&10.0.into(), &0.0.into(), &"optimal".into())
    );
    assert_eq!(
        plan["stages"][0]["forward"],
        serde_json::json!(["conv1", "conv2"])
    );
    assert_eq!(plan["stages"][0]["devices"], serde_json::json!(["gpu:1"]));
    assert_eq!(plan["stages"][1]["load_ms"], 5.5);
    let separate = [
        "solve", "net.toml", "--stages", "2", "--cuts", "separate", "--format", "json",
    ];
    let plan = json(&folder.succeed(&separate));
    // By hand: all forwards and fc backwards take 7.5 ms on stage 2, the gradient 0.5 ms, stash and weights 330 ns.
    assert_eq!(plan["objective_ms"], 8.00033);
    let split = &plan["split"];
    let stated = vec!["stash_bytes_moved", "weight_bytes_moved", "layers"];
    assert_eq!(keys(split), sorted(stated));
    assert_eq!(split["weight_bytes_moved"], 300);
    let conv2 = serde_json::json!({
        "layer": "conv2", "forward_stage": 2, "backward_stage": 1, "in_flight": 2, "weight_versions": 1,
        "stash_bytes": 20, "weight_bytes": 200,
    });
    assert_eq!(split["layers"][1], conv2);
}

#[test]
fn stdout_holds_data_and_nothing_else() {
    // Without a link, a note says which one is assumed.
    let text = NET.replace("link = { bandwidth_bytes_per_s = 1e9 }", "");
    let folder = Folder::with("net.toml", text);
    let args = ["solve", "net.toml", "--stages", "2", "--format", "json"];
    let run = folder.run(&args);
    assert!(
        run.stderr.starts_with("note: ") && run.stderr.contains("no link"),
        "{}",
        run.stderr
    );
    let plan = json(&run.stdout);
    let run = folder.run(&[&args[..], &["--quiet"]].concat());
    assert_eq!(run.stderr, "");
    assert_eq!(json(&run.stdout)["objective_ms"], plan["objective_ms"]);
    // With `--output`, the file has what stdout would have had.
    let run = folder.run(&[&args[..], &["--output", "plan.json", "--quiet"]].concat());
    assert_eq!((run.stdout.as_str(), run.stderr.as_str(), run.code), ("", "", 0));
    assert_eq!(
        json(&folder.read("plan.json"))["objective_ms"],
        plan["objective_ms"]
    );
}

#[test]
fn tables_are_csv_with_a_header() {
    let folder = Folder::with("net.toml", NET);
    let rows = |text: String| {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        (
            header,
            reader
                .records()
                .map(|row| row.expect("a row as long as the header"))
                .collect::<Vec<_>>(),
        )
    };
    let (header, stages) = rows(folder.succeed(&["solve", "net.toml", "--stages", "2", "--format", "csv"]));
    assert!(header.contains(&"load_ms".to_owned()), "{header:?}");
    assert_eq!(stages.len(), 2);
    let args = [
        "compare",
        "net.toml",
        "--stages",
        "2",
        "--methods",
        "exact,slicing",
        "--format",
        "csv",
    ];
    let (header, methods) = rows(folder.succeed(&args));
    assert!(header.contains(&"objective_ms".to_owned()), "{header:?}");
    assert_eq!(
        methods.iter().map(|row| row[0].to_owned()).collect::<Vec<_>>(),
        ["exact", "slicing"]
    );
}

#[test]
fn options_of_the_command_line_override_the_file() {
    let text = format!("{NET}\n[pipeline]\nstages = 3\ncommunication = \"ignored\"\n");
    let folder = Folder::with("net.toml", text);
    let objective = |args: &[&str]| {
        let all = [&["solve", "net.toml", "--format", "json"], args].concat();
        json(&folder.succeed(&all))["objective_ms"].as_f64().unwrap()
    };
    // Without communication the longest layer decides three stages, and the best cut in two leaves 7.5 and 6.
    assert_eq!(objective(&[]), 6.0);
    assert_eq!(objective(&["--stages", "2"]), 9.0);
    assert_eq!(objective(&["--stages", "2", "--communication", "blocking"]), 10.0);
    assert_eq!(objective(&["--mode", "inference"]), 2.0);
    assert_eq!(objective(&["--stages", "1"]), 13.5);
    // M micro-batches pass through: all layers once, and the bottleneck M - 1 times more.
    assert_eq!(
        objective(&["--objective", "formula", "--micro-batches", "5"]),
        13.5 + 4.0 * 6.0
    );
}

#[test]
fn check_accepts_a_plan_and_rejects_a_changed_one() {
    let folder = solved();
    let passed = folder.succeed(&["check", "net.toml", "plan.json", "--stages", "2"]);
    assert_eq!(
        passed,
        "`plan.json` passes: optimal plan in 2 stages, objective 10.000000 ms\n"
    );
    folder.succeed(&[
        "solve", "net.toml", "--stages", "1", "--format", "json", "--output", "one.json",
    ]);
    let passed = folder.succeed(&["check", "net.toml", "one.json", "--stages", "1"]);
    assert_eq!(
        passed,
        "`one.json` passes: optimal plan in 1 stage, objective 13.500000 ms\n"
    );
    folder.write(
        "plan.json",
        folder
            .read("plan.json")
            .replace("\"objective_ms\": 10.0", "\"objective_ms\": 9.0"),
    );
    let run = folder.run(&["check", "net.toml", "plan.json", "--stages", "2"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("check-fails", run.stdout));
}

#[test]
fn bounds_are_below_the_optimum_and_need_no_plan() {
    let folder = Folder::with("net.toml", NET);
    let plan = json(&folder.succeed(&["bound", "net.toml", "--stages", "2", "--format", "json"]));
    let bound = plan["bound_ms"].as_f64().unwrap();
    assert!(bound > 0.0 && bound <= 10.0, "{plan}");
    let text = folder.succeed(&["bound", "net.toml", "--stages", "2"]);
    assert!(text.contains("ms"), "{text}");
}

#[test]
fn programs_are_written_with_names_that_can_be_read() {
    let folder = Folder::with("net.toml", NET);
    // Brackets in LP are for quadratic terms.
    for (file, open, close) in [("net.lp", '(', ')'), ("net.mps", '[', ']')] {
        let args = [
            "formulate",
            "net.toml",
            "--stages",
            "2",
            "--output",
            file,
            "--quiet",
        ];
        assert_eq!(folder.succeed(&args), "");
        let program = folder.read(file);
        for name in [
            "load[1]",
            "load[2]",
            "precedence[conv1,conv2,1]",
            "precedence[conv2,fc,1]",
            "prefix[conv1,1]",
        ] {
            let name = name
                .replace('[', &open.to_string())
                .replace(']', &close.to_string());
            assert!(program.contains(&name), "{file} lacks {name}:\n{program}");
        }
    }
    let run = folder.run(&["formulate", "net.toml", "--stages", "2", "--output", "net.txt"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("`.lp` or `.mps`"), "{}", run.stderr);
}

#[test]
fn drawings() {
    let folder = solved();
    let svg = folder.succeed(&["show", "net.toml", "--plan", "plan.json"]);
    assert!(svg.starts_with("<svg") && svg.contains("conv2"), "{svg}");
    let dot = folder.succeed(&["show", "net.toml", "--format", "dot"]);
    assert!(dot.starts_with("digraph") && dot.contains("conv2"), "{dot}");
    folder.succeed(&["show", "net.toml", "--output", "net.dot"]);
    assert!(folder.read("net.dot").starts_with("digraph"));
}

#[test]
fn no_colour_where_nobody_sees_it() {
    let folder = Folder::with("net.toml", NET);
    for args in [
        &["solve", "net.toml", "--stages", "2"][..],
        &["solve", "net.toml"],
        &["solve", "--help"],
    ] {
        for no_color in [None, Some("1")] {
            let mut command = folder.command(args);
            no_color.iter().for_each(|value| {
                command.env("NO_COLOR", value);
            });
            let output = command.output().unwrap();
            assert!(
                ![output.stdout, output.stderr].concat().contains(&0x1b),
                "{args:?}"
            );
        }
    }
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    // A report longer than any pipe holds.
    let layers: Vec<String> = (0..2_000)
        .map(|i| format!("{{ id = \"layer-{i:0>100}\", forward_ms = 1 }}"))
        .collect();
    let folder = Folder::with("net.toml", format!("network.layers = [{}]", layers.join(", ")));
    // Quiet: that nothing orders them is a note.
    let mut command = folder.command(&["import", "net.toml", "--quiet"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let folder = Folder::with("net.toml", NET);
    // An order to print something is not done where nothing is printed.
    for args in [
        &["schema"][..],
        &["--help"],
        &["solve", "--help"],
        &["--version"],
        &["solve", "net.toml", "--stages", "2"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = folder.command(args).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(
            stderr.contains("`stdout` could not be written"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_closed_stdout_is_an_error() {
    let folder = Folder::with("net.toml", NET);
    let program = env!("CARGO_BIN_EXE_stagecut");
    for (args, code) in [
        ("solve net.toml --stages 2", 1),
        ("--help", 1),
        ("schema", 1),
        ("solve net.toml --stages 2 --output plan.json", 0),
    ] {
        let shell = |end: &str| {
            let line = format!("exec {program} {args} {end}");
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &line]).current_dir(folder.path("."));
            command.output().unwrap()
        };
        let output = shell(">&-");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args}: {stderr}");
        assert_eq!(
            code == 1,
            stderr.contains("`stdout` could not be written"),
            "{args}: {stderr}"
        );
        // Whoever asks for nothing gets it.
        assert_eq!(shell("> /dev/null").status.code(), Some(0), "{args}");
        assert_eq!(shell("1<> /dev/null").status.code(), Some(0), "{args}");
    }
}

/// Importing to JSON and to TOML changes no optimum.
fn same_after_import(folder: &Folder, file: &str, options: &[&str]) {
    let objective = |file: &str| {
        let args = [
            &["solve", file, "--quiet", "--format", "json", "--time-limit", "60"],
            options,
        ]
        .concat();
        let plan = json(&folder.succeed(&args));
        (plan["objective_ms"].clone(), plan["status"].clone())
    };
    let original = objective(file);
    for native in ["native.json", "native.toml"] {
        folder.succeed(&["import", file, "--output", native, "--quiet"]);
        assert_eq!(objective(native), original, "{file} as {native}");
        // What is native already stays as it is.
        let again = format!("again-{native}");
        folder.succeed(&["import", native, "--output", &again, "--quiet"]);
        assert_eq!(folder.read(&again), folder.read(native), "{file}");
    }
    assert_eq!(
        json(&folder.succeed(&["import", file, "--quiet"])),
        json(&folder.read("native.json"))
    );
}

#[test]
fn small_files_survive_import() {
    let folder = Folder::with(
        "graph.json",
        r#"{"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 1e9,
            "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1.25, "isBackwardNode": 0, "size": 5},
                      {"id": 2, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 2.5, "isBackwardNode": 0, "colorClass": 3},
                      {"id": 3, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 1, "colorClass": 3}],
            "edges": [{"sourceId": 1, "destId": 2, "cost": 0.1}, {"sourceId": 2, "destId": 3, "cost": 0.2}]}"#,
    );
    same_after_import(&folder, "graph.json", &["--device-kinds", "accelerator"]);
    let fields = "backward_compute_time=2.5, activation_size=[4e8; 5e8], parameter_size=3e6";
    folder.write(
        "graph.txt",
        format!(
            "node1 -- Input0 -- forward_compute_time=0.0, {fields}\nnode2 -- Conv -- forward_compute_time=1.5, {fields}\n\
             node3 -- Linear -- forward_compute_time=0.1, {fields}\n\tnode1 -- node2\n\tnode2 -- node3\n"
        ),
    );
    same_after_import(&folder, "graph.txt", &["--stages", "2"]);
    folder.write(
        "net.csv",
        "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,Conv,1.5,3,4e6,8\nb,Fc,0.1,0.2,40,1e3\n",
    );
    folder.write("net.edges.csv", "src,dst\ndata,a\na,b\n");
    same_after_import(&folder, "net.csv", &["--stages", "2"]);
    folder.write("line.IN2", "3\n4\n5\n6\n1,2\n1,3\n-1,-1\n");
    same_after_import(&folder, "line.IN2", &["--stages", "2"]);
    folder.write("workers", "3\n4 Inf\n5 2\n6 8\n1 2\n1 3\n-1 -1\n");
    same_after_import(&folder, "workers", &[]);
}

#[test]
fn shipped_models_and_published_profiles_survive_import() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let files: &[(&str, &[&str])] = &[
        ("instances/squeezenet.onnx", &["--stages", "3"]),
        ("../shared/data/pipedream/vgg16.graph.txt", &["--stages", "4"]),
        ("../shared/data/caffe/googlenet.csv", &["--stages", "4"]),
        (
            "../shared/data/dnn-partitioning/layer_resnet50_inference.json",
            &[
                "--stages",
                "6",
                "--device-kinds",
                "accelerator",
                "--memory-limit",
                "none",
            ],
        ),
    ];
    for (file, options) in files {
        let path = root.join(file);
        if !path.exists() {
            eprintln!("skipped: no {}", path.display());
            continue;
        }
        same_after_import(&Folder::new(), path.to_str().unwrap(), options);
    }
}

/// The same input and seed give the same bytes, whatever the threads. At 3 stages the first program settles it; at 4 the
/// ideals and the program run at the same time, and the program settles it.
#[test]
fn threads_do_not_change_the_plan() {
    let folder = Folder::new();
    let instances = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/");
    let googlenet = format!("{instances}googlenet.onnx");
    let inception = format!("{instances}inception_v2.onnx");
    for (file, stages, method) in [
        (&googlenet, "3", "exact"),
        (&googlenet, "3", "milp"),
        (&googlenet, "3", "brkga"),
        (&inception, "4", "exact"),
    ] {
        let [one, two] = ["1", "2"].map(|threads| {
            let mut args = vec!["solve", file, "--stages", stages, "--format", "json"];
            args.extend(["--threads", threads, "--method", method, "--seed", "5"]);
            args.push("--reproducible");
            folder.succeed(&args)
        });
        assert_eq!(one, two, "{method}, {stages} stages");
    }
}

#[test]
fn a_second_method_confirms_a_proof() {
    let folder = Folder::with("net.toml", NET);
    for method in ["exact", "milp", "ideals", "textbook"] {
        let args = [
            "solve",
            "net.toml",
            "--stages",
            "2",
            "--format",
            "json",
            "--confirm",
            "--method",
            method,
        ];
        let plan = json(&folder.succeed(&args));
        assert_eq!(plan["status"], "optimal");
        assert!(plan["statistics"]["confirmed_by"].is_string(), "{method}: {plan}");
    }
    let run = folder.run(&[
        "solve",
        "net.toml",
        "--stages",
        "2",
        "--confirm",
        "--method",
        "equal-layers",
    ]);
    assert!(run.stderr.contains("nothing to confirm"), "{}", run.stderr);
}
