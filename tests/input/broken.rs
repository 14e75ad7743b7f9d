//! Inputs of every kind that make no sense: each ends with exit code 2 and a short message that says where, what was found,
//! what was expected and what to do; never with a panic, a long wait or anything on stdout.

use crate::common::command::{Folder, NET, Run, snapshots};
use crate::common::refusal::{assert_refused, refused};

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
    check_all(include_str!("../broken/network.txt"), 35);
}

#[test]
fn wrong_types_and_unknown_fields_have_a_line_and_a_column() {
    check_all(include_str!("../broken/fields.txt"), 25);
}

#[test]
fn files_of_other_tools() {
    check_all(include_str!("../broken/formats.txt"), 35);
}

#[test]
fn workers_that_make_no_sense() {
    check_all(include_str!("../broken/workers.txt"), 24);
}

#[test]
fn options_that_make_no_sense() {
    check_all(include_str!("../broken/options.txt"), 28);
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
