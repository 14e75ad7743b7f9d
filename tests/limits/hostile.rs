//! Files that do harm if they are believed: without an end, as links, with names that drive a terminal. Whatever is wrong with them is
//! said, soon, and in so many words.
#![cfg(unix)]

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use crate::common::command::{Folder, NET, Run, refused, solved};

/// What a refusal takes at most, on a busy machine too.
const SOON: Duration = Duration::from_secs(10);

#[track_caller]
fn refused_soon(run: &Run, parts: &[&str]) {
    refused(run, parts);
    assert!(run.elapsed < SOON, "{:?}", run.elapsed);
}

fn pipe(folder: &Folder, name: &str) {
    let made = Command::new("mkfifo").arg(folder.path(name)).status();
    assert!(made.expect("mkfifo").success());
}

/// Every command that reads a file, with `FILE` in its place and files beside it.
const READERS: &[&[&str]] = &[
    &["solve", "FILE"],
    &["solve", "net.toml", "--cluster", "FILE"],
    &["bound", "FILE"],
    &["compare", "FILE"],
    &["what-if", "FILE"],
    &["check", "FILE", "plan.json"],
    &["check", "net.toml", "FILE"],
    &["check", "--evaluate", "net.toml", "FILE"],
    &["formulate", "FILE", "--output", "out.lp"],
    &["show", "FILE"],
    &["show", "net.toml", "--plan", "FILE"],
    &["simulate", "FILE"],
    &["simulate", "plan.json", "--trace", "FILE"],
    &["schedule", "FILE"],
    &["schedule", "plan.json", "--devices", "2", "--order", "FILE"],
    &["schedule", "--instance", "FILE", "--devices", "2"],
    &["online", "FILE"],
    &["online", "scenario.toml"],
    &["export", "FILE", "plan.json", "--to", "json"],
    &["export", "net.toml", "FILE", "--to", "json"],
    &[
        "export",
        "net.toml",
        "plan.json",
        "--to",
        "torch",
        "--order",
        "FILE",
    ],
    &["import", "FILE"],
    &["study", "tasks", "FILE"],
    &["study", "run", "FILE"],
    &["study", "report", "FILE"],
    &["study", "collect", "FILE"],
    &["study", "diff", "FILE", "FILE"],
];

/// Runs a command on a file of that name.
fn run(folder: &Folder, command: &[&str], file: &str) -> Run {
    let args: Vec<&str> = command
        .iter()
        .map(|word| if *word == "FILE" { file } else { word })
        .collect();
    folder.run(&args)
}

#[test]
fn a_file_without_an_end_is_refused_wherever_one_is_read() {
    let folder = solved();
    folder.write(
        "scenario.toml",
        "instance = \"net.toml\"\nreading = \"pipeline-of-groups\"\nslots = 2\nsamples = 4\nbatches_per_slot = 2\ntime_weight = 0.2\ntrace = \"/dev/zero\"\n",
    );
    symlink("/dev/zero", folder.path("link.toml")).unwrap();
    symlink("/dev/zero", folder.path("link.onnx")).unwrap();
    for command in READERS {
        for file in ["/dev/zero", "link.toml", "link.onnx"] {
            let run = run(&folder, command, file);
            assert_eq!(run.code, 2, "{command:?} {file}: {}", run.stderr);
            assert!(run.elapsed < SOON, "{command:?} {file}: {:?}", run.elapsed);
            assert!(run.stdout.is_empty(), "{command:?} {file}: {}", run.stdout);
        }
    }
    refused_soon(
        &folder.run(&["solve", "/dev/zero"]),
        &["found a device or a socket", "a regular file or a pipe"],
    );
}

#[test]
fn a_file_that_another_names_has_an_end_too() {
    let folder = solved();
    folder.write("net2.toml", "network = { file = \"/dev/zero\" }\n");
    refused_soon(
        &folder.run(&["solve", "net2.toml", "--outside-files"]),
        &["found a device or a socket"],
    );
    folder.write(
        "study.toml",
        "[[instances]]\nfiles = [\"net2.toml\"]\n[[methods]]\nnames = [\"lpt\"]\n",
    );
    refused_soon(
        &folder.run(&["study", "tasks", "study.toml"]),
        &["a device or a socket"],
    );
    folder.write(
        "net.csv",
        "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,b,1,1,1,1\n",
    );
    symlink("/dev/zero", folder.path("net.edges.csv")).unwrap();
    refused_soon(
        &folder.run(&["solve", "net.csv", "--stages", "1", "--outside-files"]),
        &["found a device or a socket"],
    );
}

#[test]
fn a_pipe_is_read_to_its_end_and_no_longer() {
    let folder = Folder::with("net.toml", NET);
    pipe(&folder, "pipe.toml");
    let path = folder.path("pipe.toml");
    let writer = std::thread::spawn(move || std::fs::write(path, NET).unwrap());
    let solved = folder.succeed(&["solve", "pipe.toml", "--stages", "2", "--reproducible"]);
    writer.join().unwrap();
    let plain = folder.succeed(&["solve", "net.toml", "--stages", "2", "--reproducible"]);
    assert_eq!(solved.replace("pipe", "net"), plain);
    // Nobody ever writes.
    let run = folder.run(&["solve", "pipe.toml", "--stages", "2"]);
    refused(
        &run,
        &[
            "a pipe that does not end",
            "within 20 s",
            "write it to a file first",
        ],
    );
    assert!(run.elapsed < Duration::from_secs(40), "{:?}", run.elapsed);
}

#[test]
fn a_pipe_that_goes_on_for_ever_ends_at_a_limit() {
    let folder = Folder::new();
    let mut yes = Command::new("yes")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut command = folder.command(&["solve", "/dev/stdin"]);
    let output = command.stdin(yes.stdout.take().unwrap()).output().unwrap();
    yes.kill().unwrap();
    yes.wait().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("more bytes than are read") || message.contains("does not end"),
        "{message}"
    );
}

#[test]
fn a_file_larger_than_any_network_is_not_read() {
    let folder = Folder::new();
    for (name, bytes, most) in [
        ("net.json", 1 << 30, "512 MiB"),
        ("net.onnx", 3 << 30, "2048 MiB"),
    ] {
        // A file with a hole takes no room on the disk.
        std::fs::File::create(folder.path(name))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        let run = folder.run(&["solve", name]);
        refused_soon(&run, &["more bytes than are read", &format!("at most {most}")]);
    }
}

#[test]
fn stages_of_huge_numbers_take_no_memory() {
    let folder = Folder::with("net.toml", NET);
    for (stage, expected) in [("1000000", "from 1 to 65536"), ("60000", "at most")] {
        folder.write(
            "stages.csv",
            format!("layer,stage\nconv1,{stage}\nconv2,2\nfc,1\n"),
        );
        for options in [
            &[][..],
            &["--virtual-stages", "2", "--stages", "2", "--mode", "training"],
        ] {
            let run = folder.run(&[&["check", "--evaluate", "net.toml", "stages.csv"], options].concat());
            refused_soon(&run, &[expected]);
        }
    }
}

#[test]
fn an_instance_names_files_of_its_own_folder() {
    let folder = Folder::with("secret.toml", "password = \"hunter2\"\n[hunter3]\n");
    std::fs::create_dir_all(folder.path("there/deeper")).unwrap();
    folder.write("there/deeper/net.toml", NET).write("net.toml", NET);
    let write = |file: &str| folder.write("there/asks.toml", format!("network = {{ file = \"{file}\" }}\n"));
    let asks = |more: &[&str]| folder.run(&[&["solve", "there/asks.toml", "--stages", "2"], more].concat());
    write("deeper/net.toml");
    assert_eq!(asks(&[]).code, 0);
    symlink(folder.path("net.toml"), folder.path("there/link.toml")).unwrap();
    let outside = folder.path("net.toml");
    for file in [
        "../net.toml",
        "deeper/../../net.toml",
        "link.toml",
        outside.to_str().unwrap(),
    ] {
        write(file);
        refused_soon(
            &asks(&[]),
            &["network.file", "outside of the folder", "`--outside-files`"],
        );
        assert_eq!(asks(&["--outside-files"]).code, 0, "{file}");
    }
    // A cache of models keeps every file as a link into one folder.
    std::fs::create_dir(folder.path("cache")).unwrap();
    folder
        .write("cache/a.toml", "network = { file = \"b.toml\" }\n")
        .write("cache/b.toml", NET);
    std::fs::create_dir(folder.path("links")).unwrap();
    for name in ["a.toml", "b.toml"] {
        symlink(folder.path("cache").join(name), folder.path("links").join(name)).unwrap();
    }
    assert_eq!(folder.run(&["solve", "links/a.toml", "--stages", "2"]).code, 0);
}

#[test]
fn faults_of_a_file_that_another_names_do_not_quote_it() {
    let secrets = [
        ("secret.toml", "password = \"hunter2\"\n"),
        ("secret.toml", "hunter2\n"),
        ("secret.toml", "[network]\nlayers = [{ hunter2 = 1 }]\n"),
        ("secret.toml", "[network]\nlayers = \"hunter2\"\n"),
        ("secret.json", "{\"hunter2\": 1}"),
        (
            "secret.json",
            "{\"network\": {\"layers\": [{\"id\": \"a\", \"forward_ms\": \"hunter2\"}]}}",
        ),
        ("secret.txt", "root:hunter2:0:0\n"),
        ("secret.csv", "hunter2,x\n1,2\n"),
        ("secret.IN2", "3\nhunter2\n"),
        ("graph.txt", "node1 -- hunter2 -- forward_compute_time=hunter2\n"),
        ("secret.pbtxt", "node { name: \"hunter2\" id: hunter2 }\n"),
    ];
    for (name, contents) in secrets {
        let folder = Folder::with(name, contents);
        folder.write("asks.toml", format!("network = {{ file = \"{name}\" }}\n"));
        let run = folder.run(&["solve", "asks.toml", "--stages", "2"]);
        assert_eq!(run.code, 2, "{name}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter"), "{name}: {}", run.stderr);
    }
}

/// What Python's `json` writes of numbers of any length and of half a surrogate pair, and what it nests.
#[test]
fn documents_that_json_can_write_and_nobody_can_read_are_inputs() {
    use stagecut::embedded::{Cluster, Network, options, toml_of};
    let digits = "9".repeat(400);
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let net = Network::parse(
        r#"{"network": {"layers": [{"id": "a", "forward_ms": 1}]}}"#,
        "net",
    )
    .unwrap();
    for value in [digits.as_str(), "\"\\ud800\"", &deep] {
        let failures = [
            Network::parse(
                &format!(r#"{{"network": {{"layers": [{{"id": {value}}}]}}}}"#),
                "net",
            )
            .err(),
            net.on_cluster(Cluster::Document(&format!(r#"{{"device_kinds": {value}}}"#)))
                .err(),
            options(&format!(r#"{{"stages": {value}}}"#)).err(),
            toml_of(&format!(r#"{{"name": {value}}}"#)).err(),
        ];
        for failure in failures {
            let failure = failure.expect("a failure");
            let kind = serde_json::to_value(failure.kind).unwrap();
            assert_eq!(kind, "input", "{value}: {}", failure.message);
        }
    }
}

/// Characters that a terminal or a page obeys.
fn obeyed(text: &str) -> Option<char> {
    text.chars().find(|&c| {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() && c != '\n' || turns
    })
}

/// Names in every place of an instance that has one.
fn driving() -> String {
    let name = |tail: &str| format!("\\u001b[31m\\u001b]0;t\\u0007\\u202e\\u009b1m\\u0000\\r\\u2028{tail}");
    let names: Vec<String> = ["a", "b", "c", "kind", "name", "operator", "resource", "tie"]
        .map(name)
        .into();
    let [a, b, c, kind, whole, operator, resource, tie] = &names[..] else {
        unreachable!()
    };
    format!(
        r#"{{ "name": "{whole}",
  "network": {{
    "layers": [
      {{ "id": "{a}", "operator": "{operator}", "forward_ms": 1, "backward_ms": 2, "parameter_bytes": 8, "tie": "{tie}" }},
      {{ "id": "{b}", "forward_ms": 1, "backward_ms": 2, "parameter_bytes": 8, "tie": "{tie}" }},
      {{ "id": "{c}", "forward_ms": 3, "backward_ms": 2 }}
    ],
    "tensors": [
      {{ "producer": "{a}", "consumers": ["{b}"], "bytes": 1 }},
      {{ "producer": "{b}", "consumers": ["{c}"], "bytes": 1 }}
    ]
  }},
  "cluster": {{
    "device_kinds": [{{ "name": "{kind}", "count": 4, "memory_bytes": 1000, "resources": [{{ "name": "{resource}", "forward_rate": 1 }}] }}],
    "link": {{ "bandwidth_bytes_per_s": 1e9 }}
  }}
}}"#
    )
}

/// No command writes a character that a terminal obeys, and each writes something.
fn assert_none_is_obeyed(folder: &Folder, commands: &[&[&str]]) {
    let mut wrong = String::new();
    for command in commands {
        let run = folder.run(command);
        for (stream, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
            if let Some(c) = obeyed(text) {
                wrong += &format!("{command:?} on {stream}: {c:?} in {text:?}\n");
            }
        }
        assert!(
            run.stdout.len() + run.stderr.len() > 20,
            "{command:?} says nothing"
        );
    }
    assert_eq!(wrong, "");
}

#[test]
fn names_drive_no_terminal() {
    let folder = Folder::with("net.json", driving().replace("\"operator\"", "\"\\u001b[2J\""));
    // What is wrong with it is told without them, too.
    let run = folder.run(&["solve", "net.json"]);
    assert_eq!((run.code, obeyed(&run.stderr)), (2, None), "{:?}", run.stderr);
    folder.write("net.json", driving());
    let solve = ["solve", "net.json", "--stages", "2", "--mode", "training"];
    folder.succeed(&[&solve[..], &["--output", "plan.json"]].concat());
    let commands: &[&[&str]] = &[
        &solve,
        &["solve", "net.json", "--stages", "2", "--format", "json"],
        &["solve", "net.json", "--stages", "2", "--memory-limit", "1"],
        &[
            "solve", "net.json", "--stages", "2", "--cuts", "separate", "--mode", "training",
        ],
        &["bound", "net.json", "--stages", "2"],
        &["compare", "net.json", "--stages", "2"],
        &["compare", "net.json", "--stages", "2", "--format", "json"],
        &["what-if", "net.json", "--stages", "1..3"],
        &["check", "net.json", "plan.json"],
        &[
            "check",
            "--evaluate",
            "net.json",
            "plan.json",
            "--mode",
            "training",
        ],
        &["check", "net.json", "plan.json", "--format", "json"],
        &["show", "net.json"],
        &["show", "net.json", "--format", "dot"],
        &["show", "net.json", "--plan", "plan.json", "--format", "dot"],
        &["show", "net.json", "--plan", "plan.json", "--format", "svg"],
        &["show", "net.json", "--plan", "plan.json", "--format", "html"],
        &["simulate", "plan.json"],
        &["simulate", "plan.json", "--format", "json"],
        &["simulate", "plan.json", "--format", "svg"],
        &["schedule", "plan.json", "--devices", "2", "--micro-batches", "2"],
        &[
            "schedule",
            "--instance",
            "net.json",
            "--devices",
            "2",
            "--micro-batches",
            "2",
        ],
        &["import", "net.json"],
        &["export", "net.json", "plan.json", "--to", "json"],
        &[
            "solve",
            "net.json",
            "--stages",
            "2",
            "--worker",
            "concurrent",
            "--replicas",
            "2",
        ],
        &["solve", "net.json", "--device-kinds", "x\u{1b}[31m"],
        &["solve", "x\u{1b}[31m.json"],
    ];
    assert_none_is_obeyed(&folder, commands);
    let report = folder.succeed(&solve);
    assert!(report.contains("\\u{1b}[31m"), "{report}");
}

#[test]
#[cfg(feature = "onnx")]
fn a_node_that_inference_panics_over_is_told_for_what_it_is() {
    let folder = Folder::new();
    let cases: [(&str, &[u8], &[&str]); 2] = [
        (
            "hardmax.onnx",
            include_bytes!("../cases/hardmax-panic.onnx"),
            &["node `dup` (Hardmax)", "no input", "ONNX asks for with `Hardmax`"],
        ),
        (
            "transpose.onnx",
            include_bytes!("../cases/transpose-panic.onnx"),
            &[
                "node `n0_0` (Transpose)",
                "no input",
                "ONNX asks for with `Transpose`",
            ],
        ),
    ];
    for (name, model, expected) in cases {
        folder.write(name, model);
        let run = folder.run(&["solve", name, "--stages", "2"]);
        refused_soon(&run, expected);
        assert!(!run.stderr.contains("onnx.shape_inference"), "{}", run.stderr);
        assert!(run.stderr.contains("onnx.checker.check_model"), "{}", run.stderr);
    }
}

#[test]
#[cfg(feature = "onnx")]
fn nodes_of_one_name_are_read_as_soon_as_others() {
    use prost::Message;
    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
    let read = |name: &dyn Fn(usize) -> String| {
        let node = |at: usize| NodeProto {
            name: name(at),
            op_type: "Relu".into(),
            input: vec!["t".into()],
            output: vec![format!("t{at}")],
            ..Default::default()
        };
        let input = tract_onnx::pb::ValueInfoProto {
            name: "t".into(),
            r#type: Some(float_of(&[1, 8])),
            ..Default::default()
        };
        let graph = GraphProto {
            node: (0..20_000).map(node).collect(),
            input: vec![input],
            ..Default::default()
        };
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: 13,
            }],
            graph: Some(graph),
            ..Default::default()
        };
        let folder = Folder::with("net.onnx", model.encode_to_vec());
        folder.run(&["import", "net.onnx", "--quiet", "--output", "net.json"])
    };
    let others = read(&|at| format!("node {at}"));
    let same = read(&|_| "the same".into());
    assert_eq!(
        (others.code, same.code),
        (0, 0),
        "{} {}",
        others.stderr,
        same.stderr
    );
    // Each name would be held against all before it: two hundred million of them.
    assert!(
        same.elapsed < 3 * others.elapsed + SOON,
        "{:?} {:?}",
        same.elapsed,
        others.elapsed
    );
}

#[cfg(feature = "onnx")]
fn float_of(dims: &[i64]) -> tract_onnx::pb::TypeProto {
    use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value::DimValue};
    use tract_onnx::pb::{TensorShapeProto, TypeProto, type_proto};
    let dim = |&length: &i64| Dimension {
        value: Some(DimValue(length)),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: 1,
        shape: Some(TensorShapeProto {
            dim: dims.iter().map(dim).collect(),
        }),
    };
    TypeProto {
        value: Some(type_proto::Value::TensorType(tensor)),
        ..Default::default()
    }
}

#[test]
#[cfg(feature = "onnx")]
fn external_data_lie_beside_their_model() {
    use prost::Message;
    use tract_onnx::pb::{
        GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
        ValueInfoProto,
    };
    let weights = |location: &str| TensorProto {
        name: "w".into(),
        data_type: 1,
        dims: vec![8],
        data_location: Some(1),
        external_data: vec![StringStringEntryProto {
            key: "location".into(),
            value: location.into(),
        }],
        ..Default::default()
    };
    let model = |location: &str| {
        let add = NodeProto {
            op_type: "Add".into(),
            input: vec!["x".into(), "w".into()],
            output: vec!["y".into()],
            ..Default::default()
        };
        let input = ValueInfoProto {
            name: "x".into(),
            r#type: Some(float_of(&[1, 8])),
            ..Default::default()
        };
        let graph = GraphProto {
            node: vec![add],
            initializer: vec![weights(location)],
            input: vec![input],
            ..Default::default()
        };
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: 13,
            }],
            graph: Some(graph),
            ..Default::default()
        }
        .encode_to_vec()
    };
    let folder = Folder::with("outside.bin", [0; 32]);
    std::fs::create_dir(folder.path("model")).unwrap();
    folder.write("model/inside.bin", [0; 32]);
    symlink(folder.path("outside.bin"), folder.path("model/link.bin")).unwrap();
    symlink("/dev/zero", folder.path("model/zero.bin")).unwrap();
    pipe(&folder, "model/pipe.bin");
    let read = |location: &str, more: &[&str]| {
        folder.write("model/net.onnx", model(location));
        folder.run(&[&["import", "model/net.onnx", "--quiet"], more].concat())
    };
    assert_eq!(read("inside.bin", &[]).code, 0);
    refused_soon(
        &read("../outside.bin", &[]),
        &["a relative path inside the model's folder"],
    );
    refused_soon(&read("link.bin", &[]), &["outside of the folder"]);
    assert_eq!(read("link.bin", &["--outside-files"]).code, 0);
    for location in ["zero.bin", "pipe.bin", "/dev/zero"] {
        let run = read(location, &["--outside-files"]);
        assert_eq!(run.code, 2, "{location}: {}", run.stderr);
        assert!(run.elapsed < SOON, "{location}: {:?}", run.elapsed);
    }
}
