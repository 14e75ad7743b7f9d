//! Files that are cut short, damaged, far too large or no text at all: refused like any other broken input, never with a panic.

use crate::common::command::{Folder, NET};
use crate::common::refusal::{assert_refused, refused};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;

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
