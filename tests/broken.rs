//! Broken inputs of every kind: each ends with exit code 2 and a short message that says where, what was found, what was
//! expected and what to do; never with a panic, a long wait or anything on stdout.

#[path = "common/command.rs"]
mod command;

use std::time::Duration;

use command::{Folder, NET, Run, snapshots};

/// No broken input may take longer, not even 100 MB of it on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The longest message for a person.
const LONGEST_MESSAGE: usize = 8_000;

/// What holds of every message, whatever the input.
fn assert_refused(name: &str, run: &Run, expected: &[&str]) {
    let Run { code, stdout, stderr, elapsed } = run;
    assert_eq!(*code, 2, "{name}: {stderr}");
    assert_eq!(stdout, "", "{name}");
    assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    assert!(stderr.starts_with("error: "), "{name}: {stderr}");
    assert!(stderr.len() < LONGEST_MESSAGE, "{name}: {} bytes of message", stderr.len());
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

const LAYER_A: &str = r#"{ id = "a", forward_ms = 1.0 }"#;
const LAYERS: &str = r#"{ id = "conv1", forward_ms = 1.0 }, { id = "conv2", forward_ms = 1.0 }"#;

#[test]
fn semantic_faults_say_what_is_wrong_with_the_network() {
    let edge = |from: &str, to: &str| format!(r#"{{ producer = "{from}", consumers = ["{to}"], bytes = 5 }}"#);
    let layer = |fields: &str| format!(r#"{{ id = "a", {fields} }}"#);
    let cases: &[(&str, String, String, &[&str])] = &[
        ("unknown consumer", LAYERS.into(), edge("conv1", "convv2"), &[
            "network.tensors[0] of `conv1`.consumers: found `convv2`, expected the name of a layer",
            "did you mean `conv2`?",
        ]),
        ("unknown producer", LAYERS.into(), edge("xyz", "conv2"), &[
            "network.tensors[0] of `xyz`.producer: found `xyz`",
            "add the layer, or correct the name",
        ]),
        ("duplicate layer", format!("{LAYER_A}, {LAYER_A}"), String::new(), &[
            "network.layers[1] `a`: found a second layer named `a`",
            "rename or remove one layer",
        ]),
        ("cycle", LAYERS.into(), format!("{}, {}", edge("conv1", "conv2"), edge("conv2", "conv1")), &[
            "found the cycle `conv2` -> `conv1` -> `conv2`",
            "unroll the loop",
        ]),
        ("self-loop", LAYER_A.into(), edge("a", "a"), &["found the cycle `a` -> `a`"]),
        ("no layers", String::new(), String::new(), &["found no layers, expected at least one", "add a layer"]),
        ("nameless layer", r#"{ id = "", forward_ms = 1.0 }"#.into(), String::new(), &[
            "network.layers[0] ``.id: found no name",
        ]),
        ("negative time", layer("forward_ms = -1.0"), String::new(), &["`a`.forward_ms: found -1, expected a time from 0"]),
        ("NaN time", layer("forward_ms = nan"), String::new(), &["`a`.forward_ms: found NaN"]),
        ("infinite time", layer("backward_ms = inf"), String::new(), &["`a`.backward_ms: found inf"]),
        ("endless time", layer("forward_ms = 1e300"), String::new(), &["`a`.forward_ms: found 1", "check the unit"]),
        ("negative parameters", layer("forward_ms = 1, parameter_bytes = -3"), String::new(), &[
            "`a`.parameter_bytes: found -3, expected a size from 0",
        ]),
        ("huge stash", layer("forward_ms = 1, stash_bytes = 1e300"), String::new(), &["`a`.stash_bytes: found 1"]),
        ("negative tensor", LAYERS.into(), edge("conv1", "conv2").replace('5', "-5"), &[
            "of `conv1`.bytes: found -5, expected a size",
        ]),
        ("negative transfer", LAYERS.into(), edge("conv1", "conv2").replace("bytes = 5", "transfer_ms = -5"), &[
            "of `conv1`.transfer_ms: found -5, expected a time",
        ]),
        ("two sizes", LAYERS.into(), edge("conv1", "conv2").replace("bytes = 5", "bytes = 5, transfer_ms = 1"), &[
            "found both `bytes` and `transfer_ms`, expected one of them",
        ]),
        ("total time", format!(r#"{}, {{ id = "b", forward_ms = 6e9 }}"#, layer("forward_ms = 6e9")), String::new(), &[
            "network: found a total of 1.200e16, expected at most 2^53",
            "check the unit",
        ]),
        ("total bytes", layer("forward_ms = 1, parameter_bytes = 4e15"), String::new(), &[
            "found a total of 1.600e16, expected at most 2^53",
        ]),
        ("no time", r#"{ id = "a" }"#.into(), String::new(), &[
            "`a`: found a layer that fits no device (it has a time on no device kind)",
            "give the layer a time on a device kind",
        ]),
        ("times of no kind", layer("times = { gpuu = { forward_ms = 1.0 } }"), String::new(), &[
            "`a`.times: found `gpuu`, expected the name of a device kind",
        ]),
        ("work without rates", layer("work = { forward_flops = 1e9 }"), String::new(), &[
            "it has work, but no device kind has `flops_per_s`",
        ]),
        ("forward time of a backward operator", layer("forward_ms = 1.0, backward = true"), String::new(), &[
            "found a forward time of a backward operator",
        ]),
    ];
    for (name, layers, tensors, expected) in cases {
        refused(name, "net.toml", network(layers, tensors), expected);
    }
}

#[test]
fn faults_of_the_cluster_and_the_pipeline() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("duplicate kind", "[cluster]\ndevice_kinds = [{ name = \"gpu\" }, { name = \"gpu\" }]", &[
            "cluster.device_kinds[1] `gpu`: found a second device kind named `gpu`",
        ]),
        ("no kind", "[cluster]\ndevice_kinds = []", &["found no device kind", "{ name = \"gpu\", count = 4 }"]),
        ("no devices", "[cluster]\ndevice_kinds = [{ name = \"gpu\", count = 0 }]", &["`gpu`.count: found 0"]),
        ("memory", "[cluster]\ndevice_kinds = [{ name = \"gpu\", memory_bytes = nan }]", &["memory_bytes: found NaN"]),
        ("rate", "[cluster]\ndevice_kinds = [{ name = \"gpu\", flops_per_s = 0 }]", &["flops_per_s: found 0"]),
        ("no bandwidth", "[cluster]\ndevice_kinds = [{ name = \"gpu\" }]\nlink = { bandwidth_bytes_per_s = 0 }", &[
            "cluster.link.bandwidth_bytes_per_s: found 0, expected a finite number above 0",
        ]),
        ("latency", "[cluster]\ndevice_kinds = []\nlink = { bandwidth_bytes_per_s = 1, latency_ms = -1 }", &[
            "cluster.link.latency_ms: found -1",
        ]),
        ("several kinds", "[cluster]\ndevice_kinds = [{ name = \"gpu\" }, { name = \"cpu\" }]", &[
            "found 2 device kinds (`gpu`, `cpu`)",
            "`--device-kinds gpu`",
        ]),
        ("unknown kind", "[pipeline]\ndevice_kinds = [\"devise\"]", &["found `devise`", "did you mean `device`?"]),
        ("memory of a device", "[cluster]\ndevice_kinds = [{ name = \"gpu\", memory_bytes = 10 }]", &[
            "layer `a`: found a layer that fits no device (it needs 40 bytes, `gpu` has 10)",
            "`--memory-limit none`",
        ]),
        ("schedule", "[pipeline]\nschedule = \"1f1\"", &["found `1f1`, expected one of", "did you mean `1f1b`?"]),
        ("mode", "[pipeline]\nmode = \"train\"", &["line 4, column 8: found `train`", "did you mean `training`?"]),
        ("option", "[pipeline]\nstage = 3", &["found unknown field `stage`", "did you mean `stages`?"]),
        ("memory limit", "[pipeline]\nmemory_limit = \"lots\"", &["expected a number of bytes", "or `none`"]),
        ("negative stages", "[pipeline]\nstages = -1", &["found the number `-1`, expected a whole number from 0"]),
        ("no micro-batches", "[pipeline]\nmicro_batches = 0", &["--micro-batches: found 0"]),
        ("tiny bandwidth", "[pipeline]\nbandwidth_bytes_per_s = -1.0", &["--bandwidth: found -1"]),
    ];
    for (name, rest, expected) in cases {
        let layer = r#"{ id = "a", forward_ms = 1.0, backward_ms = 1.0, parameter_bytes = 10 }"#;
        let text = format!("network.layers = [{layer}]\n\n{rest}\n");
        refused(name, "net.toml", text, expected);
    }
}

#[test]
fn wrong_types_and_unknown_fields_have_a_line_and_a_column() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("JSON type", "net.json", "{\"network\":\n {\"layers\": [{\"id\": \"a\", \"forward_ms\": \"fast\"}]}}", &[
            "line 2, column 40: found the text `fast`, expected a number",
            "`stagecut schema`",
        ]),
        ("TOML type", "net.toml", "[network]\nlayers = [{ id = 5 }]", &[
            "line 2, column 18: found the number `5`, expected text in quotes",
        ]),
        ("JSON list", "net.json", "{\"network\": {\"layers\": {}}}", &["found a table, expected a list"]),
        ("TOML table", "net.toml", "network = 3", &["found the number `3`, expected a table of named fields"]),
        ("JSON boolean", "net.json", "{\"network\": {\"layers\": [{\"id\": \"a\", \"backward\": 1}]}}", &[
            "found the number `1`, expected `true` or `false`",
        ]),
        ("JSON null", "net.json", "{\"network\": null}", &["found null, expected a table"]),
        ("list on top", "net.json", "[\"stagecut-instance/1\"]", &["found a list, expected"]),
        ("unknown top field", "net.toml", "networks = 3", &[
            "line 1, column 1: found unknown field `networks`",
            "did you mean `network`?",
        ]),
        ("unknown layer field", "net.json", "{\"network\": {\"layers\": [{\"id\": \"a\", \"forwardms\": 1}]}}", &[
            "line 1, column 37: found unknown field `forwardms`",
            "did you mean `forward_ms`?",
        ]),
        ("unknown tensor field", "net.toml", "network.tensors = [{ produce = \"a\" }]", &["did you mean `producer`?"]),
        ("missing consumers", "net.toml", "network.tensors = [{ producer = \"a\" }]", &["found no field `consumers`"]),
        ("no network", "net.toml", "name = \"x\"", &["the file: found no field `network`", "add `network`"]),
        ("field twice", "net.json", "{\"network\": {}, \"network\": {}}", &["found a second field named `network`"]),
        ("key twice", "net.toml", "name = \"a\"\nname = \"b\"", &["line 2, column 1: found a second field named `name`"]),
        ("1e400", "net.json", "{\"network\": {\"layers\": [{\"id\": \"a\", \"forward_ms\": 1e400}]}}", &[
            "line 1, column 51: found a number beyond the range of doubles",
        ]),
        ("other schema", "net.json", "{\"schema\": \"stagecut-instance/9\", \"network\": {\"layers\": []}}", &[
            "schema: found `stagecut-instance/9`, expected `stagecut-instance/1`",
        ]),
        ("trailing text", "net.json", "{\"network\": {}} x", &["line 1, column 17: found trailing characters"]),
        ("no quotes", "net.json", "{network: {}}", &["line 1, column 2", "key must be a string"]),
        ("open list", "net.toml", "[network]\nlayers = [\n", &["found unclosed array"]),
    ];
    for (name, file, contents, expected) in cases {
        refused(name, file, contents, expected);
    }
}

#[test]
fn options_that_make_no_sense() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("no stages", &[], &["--stages: found no number of stages", "try `--stages 4`"]),
        ("0 stages", &["--stages", "0"], &["--stages: found 0, expected a whole number from 1"]),
        ("stages in words", &["--stages", "four"], &["invalid value 'four' for '--stages"]),
        ("more stages than items", &["--stages", "4", "--all-stages"], &[
            "found 4 stages under `--all-stages`, expected at most the 3 items",
            "lower `--stages`",
        ]),
        ("GPipe", &["--stages", "2", "--schedule", "gpipe"], &["no number of micro-batches", "try `--micro-batches 8`"]),
        ("iteration", &["--stages", "3", "--objective", "iteration"], &["try `--micro-batches 12`"]),
        ("0 micro-batches", &["--stages", "2", "--micro-batches", "0"], &["--micro-batches: found 0"]),
        (
            "iteration without a flush",
            &["--stages", "2", "--micro-batches", "2", "--objective", "iteration", "--schedule", "pipedream"],
            &["found `iteration` with `--schedule pipedream`, which never flushes"],
        ),
        ("no bandwidth", &["--stages", "2", "--bandwidth", "0"], &["--bandwidth: found 0, expected a finite number"]),
        ("NaN bandwidth", &["--stages", "2", "--bandwidth", "nan"], &["--bandwidth: found NaN"]),
        ("tiny bandwidth", &["--stages", "2", "--bandwidth", "1e-300"], &["--bandwidth: found a total of"]),
        // 2^53 bytes in 2^63 ns, there and back: 2^64 ns, which in 64 bits are none.
        ("wrapping bandwidth", &["--stages", "2", "--bandwidth", "976562.5"], &["--bandwidth: found a total of"]),
        ("negative bandwidth", &["--stages", "2", "--bandwidth=-1"], &["--bandwidth: found -1"]),
        ("junk memory", &["--stages", "2", "--memory-limit", "lots"], &["such as 16e9, or `none`"]),
        ("huge memory", &["--stages", "2", "--memory-limit", "1e300"], &["between 0 and 2^53 bytes"]),
        ("little memory", &["--stages", "2", "--memory-limit", "500"], &["layer `conv2`: found a layer that fits no"]),
        ("gap", &["--stages", "2", "--gap", "2"], &["expected a relative gap from 0 to 1"]),
        ("NaN gap", &["--stages", "2", "--gap", "nan"], &["expected a relative gap from 0 to 1"]),
        ("time limit", &["--stages", "2", "--time-limit=-1"], &["expected a number of seconds from 0"]),
        ("threads", &["--stages", "2", "--threads", "0"], &["0 is not in 1..=1024"]),
        ("method", &["--stages", "2", "--method", "exat"], &["did you mean `exact`?"]),
        ("unknown method", &["--stages", "2", "--method", "zzz"], &["expected one of exact"]),
        ("cluster", &["--stages", "2", "--cluster", "a1000"], &["--cluster: found `a1000`", "did you mean `a100`?"]),
        ("unknown cluster", &["--stages", "2", "--cluster", "zzz"], &["expected one of `v100`, `a100`"]),
        ("cluster file", &["--stages", "2", "--cluster", "zzz.toml"], &["1 fault in `zzz.toml`", "there is none of that name"]),
        ("faulty cluster file", &["--cluster", "faulty.toml"], &["`faulty.toml`, cluster.device_kinds[0] `x`.count"]),
        ("device kind", &["--stages", "2", "--device-kinds", "gpuu"], &["found `gpuu`", "did you mean `gpu`?"]),
        ("flag", &["--stage", "2"], &["unexpected argument '--stage'", "'--stages'"]),
        ("output", &["--stages", "2", "--output", "no/such/folder/plan.json"], &["its folder does not exist"]),
    ];
    let folder = Folder::with("net.toml", NET);
    folder.write("faulty.toml", "device_kinds = [{ name = \"x\", count = 0 }]");
    folder.write("big.toml", NET.replace("1e6", "9007199254740992").replace("1e9", "1e15"));
    for (name, args, expected) in cases {
        let mut all = vec!["solve", "net.toml"];
        if *name == "wrapping bandwidth" {
            all[1] = "big.toml";
        }
        all.extend(*args);
        let run = folder.run(&all);
        assert_refused(name, &run, expected);
    }
}

#[test]
fn options_that_contradict_each_other_are_reported_together() {
    let folder = Folder::with("net.toml", NET);
    let args = ["solve", "net.toml", "--objective", "iteration", "--schedule", "pipedream", "--bandwidth", "0"];
    let run = folder.run(&args);
    let expected = ["4 faults", "--stages", "--micro-batches", "--objective", "--bandwidth"];
    assert_refused("options", &run, &expected);
    let folder = Folder::with("net.toml", NET.replace("bytes = 1e6", "transfer_ms = 1").replace("bytes = 5e5", "transfer_ms = 1"));
    let run = folder.run(&["solve", "net.toml", "--stages", "2", "--bandwidth", "1e9"]);
    assert_refused("bandwidth", &run, &["found a bandwidth for tensors whose transfer times are given"]);
}

#[test]
fn references_between_files() {
    let folder = Folder::with("missing.toml", "network.file = \"nowhere.json\"");
    let solve = |file: &str| folder.run(&["solve", file, "--stages", "2"]);
    assert_refused("missing", &solve("missing.toml"), &["1 fault in `nowhere.json`", "there is none of that name"]);
    folder.write("self.toml", "network.file = \"self.toml\"");
    assert_refused("itself", &solve("self.toml"), &["found a reference to `self.toml` in a file that is itself referred"]);
    folder.write("one.toml", "network.file = \"two.toml\"").write("two.toml", "network.file = \"three.toml\"");
    assert_refused("chain", &solve("one.toml"), &["1 fault in `two.toml`", "a reference to `three.toml`"]);
    folder.write("both.toml", format!("{NET}\n").replace("[network]", "[network]\nfile = \"net.json\""));
    assert_refused("both", &solve("both.toml"), &["found both `file` and `layers` or `tensors`, expected one of them"]);
    // A fault of the other file names the other file.
    folder.write("outer.toml", "network.file = \"inner.toml\"");
    folder.write("inner.toml", network(r#"{ id = "a", forward_ms = -1 }"#, ""));
    assert_refused("inner", &solve("outer.toml"), &["`inner.toml`, network.layers[0] `a`.forward_ms: found -1"]);
}

#[test]
fn dnn_partitioning_files() {
    let node = r#"{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0}"#;
    let file = |nodes: &str, edges: &str, rest: &str| format!(r#"{{"nodes": [{nodes}], "edges": [{edges}]{rest}}}"#);
    let edge = |to: u8, cost: f64| format!(r#"{{"sourceId": 1, "destId": {to}, "cost": {cost}}}"#);
    let ends = r#", "maxFPGAs": 2"#;
    let cases: &[(&str, String, &[&str])] = &[
        ("costs", file(node, &format!("{}, {}", edge(2, 1.0), edge(3, 2.5)), ends), &[
            "edges[1] from `1`: found cost 2.5, expected 1, as on the other edges of this source",
        ]),
        ("no devices", file(node, "", ""), &["found no field `maxFPGAs`"]),
        ("no edges", format!(r#"{{"nodes": [{node}]{ends}}}"#), &["found no field `edges`"]),
        ("no latency", file(&node.replace("fpgaLatency", "latency"), "", ends), &["found no field `fpgaLatency`"]),
        ("flag", file(&node.replace("\"supportedOnFpga\": 1", "\"supportedOnFpga\": \"yes\""), "", ends), &[
            "expected 0, 1, `true` or `false`",
        ]),
        ("id", file(&node.replace("\"id\": 1", "\"id\": 1.5"), "", ends), &["expected a name: text or a whole number"]),
        ("unknown node", file(node, &edge(7, 1.0), ends), &["found `7`, expected the name of a layer"]),
    ];
    for (name, contents, expected) in cases {
        refused(name, "graph.json", contents, expected);
    }
}

#[test]
fn pipedream_and_csv_files() {
    let full = "forward_compute_time=1, backward_compute_time=2, activation_size=[4; 5], parameter_size=3";
    let cases: &[(&str, String, &[&str])] = &[
        ("missing field", "node1 -- Conv -- forward_compute_time=1.0".into(), &[
            "line 1, node `node1`: found no field `activation_size`",
            "add `activation_size=...`",
        ]),
        ("no number", format!("node1 -- Conv -- {}", full.replace("=2", "=fast")), &[
            "line 1, node `node1`: found `backward_compute_time=fast`, expected `name=number`",
        ]),
        ("open list", format!("node1 -- Conv -- {}", full.replace("5]", "5")), &["found `activation_size=[4; 5`"]),
        ("no tab", format!("node1 -- Conv -- {full}\nnode1 -- node1"), &["line 2: found `node1 -- node1`", "a tab"]),
        ("prose", "This is no profile.\n".repeat(1_000), &["1 fault in", "line 1: found `This is no profile.`"]),
        ("unknown node", format!("node1 -- Conv -- {full}\n\tnode1 -- node2"), &["found `node2`", "`node1`?"]),
    ];
    for (name, contents, expected) in cases {
        refused(name, "graph.txt", contents, expected);
    }

    let rows = "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,Conv,1,2,3,4\n";
    let cases: &[(&str, String, Option<&str>, &[&str])] = &[
        ("no edges", rows.into(), None, &["`net.edges.csv`, the file: found no readable file"]),
        ("unknown column", rows.replace("bp_ms", "bpms"), Some("src,dst\n"), &["`net.csv`, line 1", "mean `bp_ms`?"]),
        ("missing column", rows.replace(",param_bytes", "").replace(",4", ""), Some("src,dst\n"), &[
            "found no column `param_bytes`",
        ]),
        ("other header", "a,b\n1,2\n".into(), Some("src,dst\n"), &["found the header `a,b`, expected `node,op,fp_ms"]),
        ("no number", rows.replace(",2,", ",two,"), Some("src,dst\n"), &["line 2, column `bp_ms`: found `two`"]),
        ("short row", rows.replace(",3,4", ""), Some("src,dst\na\n"), &[
            "2 faults",
            "`net.csv`, line 2: found 4 values, expected 6",
            "`net.edges.csv`, line 2: found 1 value, expected 2",
        ]),
        ("unknown node", rows.into(), Some("src,dst\na,b\n"), &["found `b`, expected the name of a layer"]),
    ];
    for (name, contents, edges, expected) in cases {
        let folder = Folder::with("net.csv", contents);
        edges.iter().for_each(|edges| {
            folder.write("net.edges.csv", edges);
        });
        assert_refused(name, &folder.run(&["solve", "net.csv", "--stages", "2"]), expected);
    }
}

#[test]
fn files_cut_short_anywhere() {
    let json = r#"{"network": {"layers": [{"id": "a", "forward_ms": 1.5}], "tensors": []}}"#;
    let dnn = r#"{"maxFPGAs": 2, "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1,
        "isBackwardNode": 0}], "edges": []}"#;
    for (name, whole) in [("native", json), ("dnn-partitioning", dnn)] {
        for cut in 1..whole.len() {
            // That the file ends is the fault, whatever stands at its beginning; `1.` is no number.
            let expected = if whole[..cut].ends_with('.') { "invalid number" } else { "found the end of the file" };
            refused(&format!("{name} cut at {cut}"), "cut.json", &whole[..cut], &[expected]);
        }
    }
    let toml = "network.layers = [{ id = \"a\", forward_ms = 1.5 }]";
    for cut in 1..toml.len() {
        refused(&format!("TOML cut at {cut}"), "cut.toml", &toml[..cut], &["cut.toml"]);
    }
    let profile = "node1 -- Conv -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=";
    for cut in 1..profile.len() {
        refused(&format!("profile cut at {cut}"), "cut.txt", &profile[..cut], &["line 1"]);
    }
    // Real files, where they are at hand: cut inside the first nodes, every kind of token is hit.
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    match std::fs::read(data.join("dnn-partitioning/layer_resnet50_inference.json")) {
        Ok(whole) => {
            for cut in (1..whole.len() - 2).step_by(whole.len() / 40) {
                refused("real file", "cut.json", &whole[..cut], &["1 fault in `cut.json`", "line "]);
            }
        }
        Err(_) => eprintln!("skipped: no {}", data.display()),
    }
}

#[test]
fn binary_junk_and_empty_files_under_every_extension() {
    // Every byte value in a mixed order.
    let junk: Vec<u8> = (0..4_096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for file in ["junk.json", "junk.toml", "junk.txt", "junk.csv", "junk.onnx", "junk"] {
        refused(file, file, &junk, &["found", file]);
        refused(file, file, "", &["the file: found nothing in it, expected an instance or a model"]);
        refused(file, file, " \n\n\t", &["the file: found nothing in it"]);
    }
    for file in ["latin1.json", "latin1.toml", "latin1.txt"] {
        refused(file, file, b"{\"n\xe9twork\": 3}", &["byte 3: found bytes that are not UTF-8"]);
    }
    refused("unknown", "net.yaml", "network:\n  layers: []\n", &["found no format that is known by its extension"]);
    refused("PDF", "paper.pdf", b"%PDF-1.7\n%\xe2\xe3", &["found no format that is known", "`stagecut import --help`"]);
}

#[test]
fn what_is_no_readable_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder.json")).unwrap();
    assert_refused("folder", &folder.run(&["solve", "folder.json"]), &["it is a folder"]);
    assert_refused("missing", &folder.run(&["solve", "no.json"]), &["1 fault in `no.json`", "check the path"]);
    folder.write("net.toml", NET);
    let run = folder.run(&["solve", "net.toml", "--stages", "2", "--cluster", "folder.json"]);
    assert_refused("cluster", &run, &["1 fault in `folder.json`"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path("net.toml"), std::fs::Permissions::from_mode(0)).unwrap();
        match std::fs::read(folder.path("net.toml")) {
            Ok(_) => eprintln!("skipped: this user reads every file"),
            Err(_) => assert_refused("permission", &folder.run(&["solve", "net.toml"]), &["ermission denied"]),
        }
    }
}

#[test]
fn a_hundred_megabytes_in_one_line() {
    let long = "x".repeat(100_000_000);
    let cases: &[(&str, String, &[&str])] = &[
        ("text.json", long.clone(), &["line 1, column 1: found something else, expected value"]),
        ("string.json", format!("{{\"network\": \"{long}\"}}"), &["...`, expected a table of named fields"]),
        ("name.json", format!("{{\"network\": {{\"layers\": [{{\"id\": \"{long}\"}}]}}}}"), &["fits no device"]),
        ("profile.txt", long.clone(), &["line 1: found `xxx", "...`, expected `id -- description -- fields`"]),
        ("net.csv", long.clone(), &["found the header `xxx"]),
        ("net.toml", format!("name = \"{long}\""), &["found no field `network`"]),
    ];
    for (file, contents, expected) in cases {
        refused(file, file, contents, expected);
    }
}

#[test]
fn deep_nesting() {
    let deep = 100_000;
    let cases: &[(&str, String)] = &[
        ("lists.json", "[".repeat(deep)),
        ("closed.json", "[".repeat(deep) + &"]".repeat(deep)),
        ("objects.json", "{\"network\":".repeat(deep)),
        ("layers.json", format!("{{\"network\": {{\"layers\": {}{}}}}}", "[".repeat(deep), "]".repeat(deep))),
        ("lists.toml", format!("a = {}", "[".repeat(deep))),
        ("closed.toml", format!("a = {}{}", "[".repeat(deep), "]".repeat(deep))),
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
    let layers: Vec<String> = (0..5_000).map(|i| format!("{{ id = \"layer{i}\", forward_ms = 1 }}")).collect();
    let tensor = |i| format!("{{ producer = \"layr{i}\", consumers = [\"laier{i}\"] }}");
    let tensors: Vec<String> = (0..5_000).map(tensor).collect();
    let text = network(&layers.join(",\n"), &tensors.join(",\n"));
    refused("unknown names", "net.toml", text, &["10000 faults in", "and 9970 more faults"]);
    let ring: Vec<String> =
        (0..5_000).map(|i| format!("{{ producer = \"layer{i}\", consumers = [\"layer{}\"] }}", (i + 1) % 5_000)).collect();
    refused("long cycle", "net.toml", network(&layers.join(",\n"), &ring.join(",\n")), &["(4989 more)"]);
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
        ("no JSON", "not a plan".into(), &["1 fault in `plan.json`", "line 1"]),
        ("empty", String::new(), &["found the end of the file"]),
        ("cut", plan[..plan.len() / 2].to_owned(), &["found the end of the file"]),
        ("instance", "{\"network\": {}}".into(), &["schema: found no field `schema`, expected `stagecut-plan/1`"]),
        ("other version", plan.replace("stagecut-plan/1", "stagecut-plan/7"), &[
            "schema: found `stagecut-plan/7`, expected `stagecut-plan/1`",
        ]),
        ("status", plan.replace("\"optimal\"", "\"optimall\""), &["found `optimall`", "did you mean `optimal`?"]),
        ("index", plan.replace("\"index\": 1", "\"index\": -1"), &["found the number `-1`, expected a whole number"]),
        ("infinite", plan.replace("\"gap\": 0.0", "\"gap\": 1e999"), &["beyond the range of doubles"]),
        ("kind", plan.replace("\"gpu\"", "\"tpu\""), &["--device-kinds: found `tpu`"]),
        ("list", "[]".into(), &["found a list"]),
    ];
    for (name, contents, expected) in cases {
        folder.write("plan.json", contents);
        for args in [&["check", "net.toml", "plan.json"][..], &["show", "net.toml", "--plan", "plan.json"]] {
            if *name != "kind" || args[0] == "check" {
                assert_refused(name, &folder.run(args), expected);
            }
        }
    }
    assert_refused("missing", &folder.run(&["check", "net.toml", "no.json"]), &["1 fault in `no.json`"]);
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
    let run = refused("eleven", "net.toml", ELEVEN_FAULTS, &[
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
    ]);
    snapshots("broken").bind(|| insta::assert_snapshot!("all-at-once", run.stderr));
}

#[test]
fn messages_read_well() {
    let snapshot = |name: &str, run: &Run| {
        assert_eq!(run.code, 2, "{name}");
        snapshots("broken").bind(|| insta::assert_snapshot!(name, run.stderr));
    };
    let solve = |file: &str, contents: &str| Folder::with(file, contents).run(&["solve", file, "--stages", "2"]);
    let net = |from: &str, to: &str| NET.replacen(from, to, 1);
    snapshot("unknown-layer", &solve("net.toml", &net("[\"conv2\"]", "[\"conv3\"]")));
    snapshot("cycle", &solve("net.toml", &net("[\"fc\"]", "[\"fc\", \"conv1\"]")));
    snapshot("wrong-type-toml", &solve("net.toml", &net("2.0", "\"2 ms\"")));
    snapshot("wrong-type-json", &solve("net.json", "{\n  \"network\": {\n    \"layers\": 3\n  }\n}\n"));
    snapshot("unknown-field", &solve("net.toml", &net("stash_bytes", "stash")));
    snapshot("unknown-format", &solve("net.yaml", "network: {}"));
    snapshot("truncated", &solve("net.json", "{\n  \"network\": {\n    \"layers\": [\n"));
    snapshot("csv", &{
        let folder = Folder::with("net.csv", "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\na,Conv,1,x,3,4\nb,1\n");
        folder.run(&["solve", "net.csv"])
    });
    let folder = Folder::with("net.toml", NET);
    snapshot("missing-stages", &folder.run(&["solve", "net.toml"]));
    snapshot("fits-no-device", &folder.run(&["solve", "net.toml", "--stages", "2", "--memory-limit", "500"]));
    snapshot("too-many-stages", &folder.run(&["solve", "net.toml", "--stages", "9", "--all-stages"]));
    snapshot("unknown-method", &folder.run(&["solve", "net.toml", "--stages", "2", "--method", "exat"]));
    snapshot("missing-file", &folder.run(&["solve", "nett.toml", "--stages", "2"]));
}
