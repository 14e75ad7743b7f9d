//! Broken inputs of every kind: each ends with exit code 2 and a short message that says where, what was found, what was
//! expected and what to do; never with a panic, a long wait or anything on stdout.

#[path = "common/command.rs"]
mod command;

use std::time::Duration;

use command::{Folder, NET, Run, snapshots};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;

/// No broken input may take longer, not even 100 MB of it on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The longest message for a person.
const LONGEST_MESSAGE: usize = 8_000;

/// What holds of every message, whatever the input.
fn assert_refused(name: &str, run: &Run, expected: &[&str]) {
    let Run {
        code,
        stdout,
        stderr,
        elapsed,
    } = run;
    assert_eq!(*code, 2, "{name}: {stderr}");
    assert_eq!(stdout, "", "{name}");
    assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    assert!(stderr.starts_with("error: "), "{name}: {stderr}");
    assert!(
        stderr.len() < LONGEST_MESSAGE,
        "{name}: {} bytes of message",
        stderr.len()
    );
    assert!(*elapsed < SOON, "{name}: {elapsed:?}");
    // Long lines are wrapped for reading; what is looked for must not depend on where.
    let unwrapped = unwrap(stderr);
    for part in expected {
        assert!(unwrapped.contains(part), "{name}: no `{part}` in {stderr}");
    }
}

fn unwrap(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().filter(|word| *word != "│").collect();
    words.join(" ")
}

/// Refuses a file's contents, asked with `--stages 2`.
fn refused(name: &str, file: &str, contents: impl AsRef<[u8]>, expected: &[&str]) -> Run {
    let folder = Folder::with(file, contents);
    let run = folder.run(&["solve", file, "--stages", "2"]);
    assert_refused(name, &run, expected);
    run
}

/// A network of a TOML list of layers and one of tensors.
fn network(layers: &str, tensors: &str) -> String {
    format!("[network]\nlayers = [{layers}]\ntensors = [{tensors}]\n")
}

/// One case of the lists in `tests/broken/`; the notation stands at the head of `network.txt`.
#[derive(Default)]
struct Case<'a> {
    name: &'a str,
    options: Vec<&'a str>,
    files: Vec<(&'a str, String)>,
    expected: Vec<&'a str>,
}

impl<'a> Case<'a> {
    fn read(text: &'a str) -> Self {
        let mut case = Case {
            options: vec!["--stages", "2"],
            ..Case::default()
        };
        for (i, line) in text.lines().enumerate() {
            match (line.split_once(' '), case.files.last_mut()) {
                _ if i == 0 => case.name = line,
                (Some((">", part)), _) => case.expected.push(part),
                (Some(("@", file)), _) => case.files.push((file, String::new())),
                (_, None) => case.options = line.split_whitespace().skip(1).collect(),
                (_, Some((_, contents))) => *contents += &format!("{line}\n"),
            }
        }
        case
    }

    fn check(&self) {
        let folder = Folder::with("net.toml", NET);
        for (file, contents) in &self.files {
            folder.write(file, contents);
        }
        let first = self.files.first().map_or("net.toml", |(file, _)| file);
        let run = folder.run(&[&["solve", first], &self.options[..]].concat());
        assert!(!self.expected.is_empty(), "{}", self.name);
        assert_refused(self.name, &run, &self.expected);
    }
}

/// Runs every case of a list, of which there must be enough.
fn check_all(list: &str, least: usize) {
    let cases: Vec<Case> = list.split("\n=== ").skip(1).map(Case::read).collect();
    assert!(cases.len() >= least, "only {} cases", cases.len());
    cases.iter().for_each(Case::check);
}

#[test]
fn networks_that_make_no_sense() {
    check_all(include_str!("broken/network.txt"), 35);
}

#[test]
fn wrong_types_and_unknown_fields_have_a_line_and_a_column() {
    check_all(include_str!("broken/fields.txt"), 25);
}

#[test]
fn files_of_other_tools() {
    check_all(include_str!("broken/formats.txt"), 35);
}

#[test]
fn workers_that_make_no_sense() {
    check_all(include_str!("broken/workers.txt"), 19);
}

#[test]
fn options_that_make_no_sense() {
    check_all(include_str!("broken/options.txt"), 28);
}

#[test]
fn files_cut_short_anywhere() {
    let json = r#"{"network": {"layers": [{"id": "a", "forward_ms": 1.5}], "tensors": []}}"#;
    let dnn = r#"{"maxFPGAs": 2, "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1,
        "isBackwardNode": 0}], "edges": []}"#;
    for (name, whole) in [("native", json), ("dnn-partitioning", dnn)] {
        for cut in 1..whole.len() {
            // That the file ends is the fault, whatever stands at its beginning; `1.` is no number.
            let expected = if whole[..cut].ends_with('.') {
                "invalid number"
            } else {
                "found the end of the file"
            };
            refused(
                &format!("{name} cut at {cut}"),
                "cut.json",
                &whole[..cut],
                &[expected],
            );
        }
    }
    let toml = "network.layers = [{ id = \"a\", forward_ms = 1.5 }]";
    for cut in 1..toml.len() {
        refused(
            &format!("TOML cut at {cut}"),
            "cut.toml",
            &toml[..cut],
            &["cut.toml"],
        );
    }
    let profile = "node1 -- Conv -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=";
    for cut in 1..profile.len() {
        refused(
            &format!("profile cut at {cut}"),
            "cut.txt",
            &profile[..cut],
            &["line 1"],
        );
    }
    // Real files, where they are at hand: cut inside the first nodes, every kind of token is hit.
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    match std::fs::read(data.join("dnn-partitioning/layer_resnet50_inference.json")) {
        Ok(whole) => {
            for cut in (1..whole.len() - 2).step_by(whole.len() / 40) {
                refused(
                    "real file",
                    "cut.json",
                    &whole[..cut],
                    &["1 fault in `cut.json`", "line "],
                );
            }
        }
        Err(_) => eprintln!("skipped: no {}", data.display()),
    }
}

#[test]
fn binary_junk_and_empty_files_under_every_extension() {
    // Every byte value in a mixed order.
    let junk: Vec<u8> = (0..4_096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for file in [
        "junk.json",
        "junk.toml",
        "junk.txt",
        "junk.csv",
        "junk.onnx",
        "junk",
    ] {
        refused(file, file, &junk, &["found", file]);
        refused(
            file,
            file,
            "",
            &["the file: found nothing in it, expected an instance or a model"],
        );
        refused(file, file, " \n\n\t", &["the file: found nothing in it"]);
    }
    for file in ["latin1.json", "latin1.toml", "latin1.txt", "latin1.csv"] {
        refused(
            file,
            file,
            b"{\"n\xe9twork\": 3}",
            &["byte 3: found bytes that are not UTF-8"],
        );
    }
    refused(
        "unknown",
        "net.yaml",
        "network:\n  layers: []\n",
        &["found no format that is known by its extension"],
    );
    refused(
        "PDF",
        "paper.pdf",
        b"%PDF-1.7\n%\xe2\xe3",
        &["found no format that is known", "`stagecut import --help`"],
    );
}

#[test]
fn what_is_no_readable_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder.json")).unwrap();
    assert_refused(
        "folder",
        &folder.run(&["solve", "folder.json"]),
        &["it is a folder"],
    );
    assert_refused(
        "missing",
        &folder.run(&["solve", "no.json"]),
        &["1 fault in `no.json`", "check the path"],
    );
    folder.write("net.toml", NET);
    let run = folder.run(&["solve", "net.toml", "--stages", "2", "--cluster", "folder.json"]);
    assert_refused("cluster", &run, &["1 fault in `folder.json`"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path("net.toml"), std::fs::Permissions::from_mode(0o000)).unwrap();
        match std::fs::read(folder.path("net.toml")) {
            Ok(_) => eprintln!("skipped: this user reads every file"),
            Err(_) => assert_refused(
                "permission",
                &folder.run(&["solve", "net.toml"]),
                &["ermission denied"],
            ),
        }
    }
}

#[test]
fn a_hundred_megabytes_in_one_line() {
    let long = "x".repeat(100_000_000);
    let cases: &[(&str, String, &[&str])] = &[
        (
            "text.json",
            long.clone(),
            &["line 1, column 1: found something else, expected value"],
        ),
        (
            "string.json",
            format!("{{\"network\": \"{long}\"}}"),
            &["...`, expected a table of named fields"],
        ),
        (
            "name.json",
            format!("{{\"network\": {{\"layers\": [{{\"id\": \"{long}\"}}]}}}}"),
            &["fits no device"],
        ),
        (
            "profile.txt",
            long.clone(),
            &[
                "line 1: found `xxx",
                "...`, expected `id -- description -- fields`",
            ],
        ),
        ("net.csv", long.clone(), &["found the header `xxx"]),
        (
            "net.toml",
            format!("name = \"{long}\""),
            &["found no field `network`"],
        ),
    ];
    for (file, contents, expected) in cases {
        refused(file, file, contents, expected);
    }
}

/// Files of every text format with a few bytes changed, dropped or doubled: read or refused, but never with a panic.
#[test]
fn damaged_files_do_not_panic() {
    let node = r#"{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0}"#;
    let json = serde_json::to_string(&toml::from_str::<serde_json::Value>(NET).unwrap()).unwrap();
    let fields = "forward_compute_time=1, backward_compute_time=2, activation_size=[4; 5], parameter_size=3";
    let files = [
        ("net.toml", NET.to_owned()),
        ("net.json", json),
        (
            "dnn.json",
            format!(r#"{{"maxFPGAs": 2, "nodes": [{node}], "edges": []}}"#),
        ),
        (
            "graph.txt",
            format!("node1 -- Conv -- {fields}\nnode2 -- Fc -- {fields}\n\tnode1 -- node2\n"),
        ),
        (
            "piper.json",
            r#"{"maxMemoryPerDevice": 9, "maxDevices": 2, "bandwidth": 1, "nodes": [{"id": 1, "TMPCs": {"1": [{"id": "a",
            "timePerSample": 1, "parameterSize": 1, "memoryUsageA": 1, "memoryUsageB": 2}]}}], "edges": []}"#
                .into(),
        ),
        (
            "table.csv",
            "a,b,c,d,e,f,g,h\n1,3,2,3,1.5,0,10,100\n2,,,,1,,10,\n".into(),
        ),
        (
            "graph.pbtxt",
            "node { name: \"a\" output_info { size: 4 } }\nnode: < name: 'b' id: 1 input_info {} control_input: [0] >\n"
                .into(),
        ),
        (
            "net.csv",
            "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,Conv,1,2,3,4\nb,Conv,1,2,3,4\n".into(),
        ),
        ("line.IN2", "3\n4\n5\n6\n1,2\n1,3\n-1,-1\nremark\n".into()),
        ("workers", "3\n4 Inf\n5 2\n6 8\n1 2\n1 3\n-1 -1\n".into()),
    ];
    const MARKS: &[u8] = b"{}[]\",:=\\\n-.e9";
    let folder = Folder::with("net.edges.csv", "src,dst\na,b\n");
    let mut refused = 0;
    for (file, contents) in &files {
        for seed in 0..400 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut bytes = contents.clone().into_bytes();
            for _ in 0..rng.random_range(1..=4) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..4) {
                    0 => bytes[at] = rng.random(),
                    1 => bytes[at] = MARKS[rng.random_range(0..MARKS.len())],
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, bytes[at]),
                }
            }
            folder.write(file, &bytes);
            if let Err(error) = Instance::read(&folder.path(file), None) {
                assert!(!error.faults.is_empty(), "{file}, seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "only {refused} were refused");
}

#[test]
fn deep_nesting() {
    let deep = 100_000;
    let cases: &[(&str, String)] = &[
        ("lists.json", "[".repeat(deep)),
        ("closed.json", "[".repeat(deep) + &"]".repeat(deep)),
        ("objects.json", "{\"network\":".repeat(deep)),
        (
            "layers.json",
            format!(
                "{{\"network\": {{\"layers\": {}{}}}}}",
                "[".repeat(deep),
                "]".repeat(deep)
            ),
        ),
        ("messages.pbtxt", "node { ".repeat(deep)),
        ("closed.pbtxt", "node < ".repeat(deep) + &"> ".repeat(deep)),
        ("lists.toml", format!("a = {}", "[".repeat(deep))),
        (
            "closed.toml",
            format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
        ),
        ("tables.toml", format!("a = {}", "{ b = ".repeat(deep))),
        ("keys.toml", format!("{}a = 1", "a.".repeat(deep))),
        ("header.toml", format!("[{}a]", "a.".repeat(deep))),
    ];
    for (file, contents) in cases {
        refused(file, file, contents, &[]);
    }
}

#[test]
fn many_faults_take_little_time_and_room() {
    let layers: Vec<String> = (0..5_000)
        .map(|i| format!("{{ id = \"layer{i}\", forward_ms = 1 }}"))
        .collect();
    let tensor = |i| format!("{{ producer = \"layr{i}\", consumers = [\"laier{i}\"] }}");
    let tensors: Vec<String> = (0..5_000).map(tensor).collect();
    let text = network(&layers.join(",\n"), &tensors.join(",\n"));
    refused(
        "unknown names",
        "net.toml",
        text,
        &["10000 faults in", "and 9970 more faults"],
    );
    let ring: Vec<String> = (0..5_000)
        .map(|i| {
            format!(
                "{{ producer = \"layer{i}\", consumers = [\"layer{}\"] }}",
                (i + 1) % 5_000
            )
        })
        .collect();
    refused(
        "long cycle",
        "net.toml",
        network(&layers.join(",\n"), &ring.join(",\n")),
        &["(4989 more)"],
    );
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let text = network(r#"{ id = "\u001b[2Jgone\u0007", forward_ms = -1 }"#, "");
    let run = refused("escape", "net.toml", text, &["`\\u{1b}[2Jgone\\u{7}`"]);
    assert!(!run.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", run.stderr);
}

#[test]
fn plans_that_are_no_plans() {
    let folder = Folder::with("net.toml", NET);
    let plan = folder.succeed(&["solve", "net.toml", "--stages", "2", "--format", "json"]);
    let cases: &[(&str, String, &[&str])] = &[
        (
            "no JSON",
            "not a plan".into(),
            &["1 fault in `plan.json`", "line 1"],
        ),
        ("empty", String::new(), &["found the end of the file"]),
        (
            "cut",
            plan[..plan.len() / 2].to_owned(),
            &["found the end of the file"],
        ),
        (
            "instance",
            "{\"network\": {}}".into(),
            &["schema: found an instance, expected a plan"],
        ),
        (
            "neither",
            "{\"layers\": {}}".into(),
            &["schema: found no field `schema`, expected `stagecut-plan/1`"],
        ),
        (
            "other version",
            plan.replace("stagecut-plan/1", "stagecut-plan/7"),
            &["schema: found `stagecut-plan/7`, expected `stagecut-plan/1`"],
        ),
        (
            "status",
            plan.replace("\"optimal\"", "\"optimall\""),
            &["found `optimall`", "did you mean `optimal`?"],
        ),
        (
            "index",
            plan.replace("\"index\": 1", "\"index\": -1"),
            &["found the number `-1`, expected a whole number"],
        ),
        (
            "infinite",
            plan.replace("\"gap\": 0.0", "\"gap\": 1e999"),
            &["beyond the range of doubles"],
        ),
        ("list", "[]".into(), &["found a list"]),
    ];
    for (name, contents, expected) in cases {
        folder.write("plan.json", contents);
        for args in [
            &["check", "net.toml", "plan.json"][..],
            &["show", "net.toml", "--plan", "plan.json"],
        ] {
            assert_refused(name, &folder.run(args), expected);
        }
    }
    assert_refused(
        "missing",
        &folder.run(&["check", "net.toml", "no.json"]),
        &["1 fault in `no.json`"],
    );
}

/// Eleven faults of as many kinds in one file.
const ELEVEN_FAULTS: &str = r#"
schema = "stagecut-instance/2"

[network]
layers = [
  { id = "conv1", forward_ms = -1.0 },
  { id = "conv1", forward_ms = 1.0 },
  { id = "conv2", forward_ms = 1.0, parameter_bytes = nan },
  { id = "pool" },
  { id = "fc", forward_ms = 1.0, backward = true },
]
tensors = [
  { producer = "conv2", consumers = ["pol"], bytes = 10 },
  { producer = "conv2", consumers = ["fc"], bytes = 10, transfer_ms = 1.0 },
  { producer = "conv2", consumers = ["conv2"], bytes = 10 },
]

[cluster]
device_kinds = [{ name = "gpu", count = 0 }]
link = { bandwidth_bytes_per_s = 0 }
"#;

#[test]
fn all_faults_of_a_file_are_reported_at_once() {
    let run = refused(
        "eleven",
        "net.toml",
        ELEVEN_FAULTS,
        &[
            "11 faults in `net.toml`",
            "schema: found `stagecut-instance/2`",
            "`gpu`.count",
            "bandwidth_bytes_per_s",
            "network.layers[0] `conv1`.forward_ms",
            "second layer named `conv1`",
            "`conv2`.parameter_bytes: found NaN",
            "`pool`: found a layer that fits no device",
            "forward time of a backward operator",
            "did you mean `pool`?",
            "both `bytes` and `transfer_ms`",
        ],
    );
    snapshots("broken").bind(|| insta::assert_snapshot!("all-at-once", run.stderr));
}

#[test]
fn messages_read_well() {
    let snapshot = |name: &str, run: &Run| {
        assert_eq!(run.code, 2, "{name}");
        snapshots("broken").bind(|| insta::assert_snapshot!(name, run.stderr));
    };
    let solve =
        |file: &str, contents: &str| Folder::with(file, contents).run(&["solve", file, "--stages", "2"]);
    let net = |from: &str, to: &str| NET.replacen(from, to, 1);
    snapshot(
        "unknown-layer",
        &solve("net.toml", &net("[\"conv2\"]", "[\"conv3\"]")),
    );
    snapshot(
        "cycle",
        &solve("net.toml", &net("[\"fc\"]", "[\"fc\", \"conv1\"]")),
    );
    snapshot("wrong-type-toml", &solve("net.toml", &net("2.0", "\"2 ms\"")));
    snapshot(
        "wrong-type-json",
        &solve("net.json", "{\n  \"network\": {\n    \"layers\": 3\n  }\n}\n"),
    );
    snapshot("unknown-field", &solve("net.toml", &net("stash_bytes", "stash")));
    snapshot("unknown-format", &solve("net.yaml", "network: {}"));
    snapshot(
        "truncated",
        &solve("net.json", "{\n  \"network\": {\n    \"layers\": [\n"),
    );
    snapshot("csv", &{
        let folder = Folder::with(
            "net.csv",
            "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,Conv,1,x,3,4\nb,1\n",
        );
        folder.run(&["solve", "net.csv"])
    });
    let folder = Folder::with("net.toml", NET);
    snapshot("missing-stages", &folder.run(&["solve", "net.toml"]));
    snapshot(
        "more-stages-than-devices",
        &solve(
            "net.toml",
            &net(r#"{ name = "gpu" }"#, r#"{ name = "gpu", count = 1 }"#),
        ),
    );
    snapshot(
        "bandwidth-without-a-time",
        &folder.run(&["solve", "net.toml", "--stages", "2", "--bandwidth", "100GB"]),
    );
    snapshot("toml-without-quotes", &solve("net.toml", &net("\"fc\"", "fc")));
    snapshot(
        "toml-without-a-comma",
        &solve("net.toml", &net("forward_ms = 1.0,", "forward_ms = 1.0")),
    );
    snapshot(
        "toml-with-an-open-list",
        &solve("net.toml", "[network]\nlayers = [\n"),
    );
    snapshot("toml-of-json", &solve("net.toml", "{ \"network\": {} }\n"));
    snapshot(
        "too-many-stages",
        &folder.run(&["solve", "net.toml", "--stages", "9", "--all-stages"]),
    );
    snapshot(
        "unknown-method",
        &folder.run(&["solve", "net.toml", "--stages", "2", "--method", "exat"]),
    );
    snapshot(
        "missing-file",
        &folder.run(&["solve", "nett.toml", "--stages", "2"]),
    );
}
