//! Importers of other planners' files, on small hand-written ones: units, what is assumed, and plans that can be worked out
//! by hand.

use std::path::Path;

use crate::common::command::Folder;
use serde_json::Value;
use stagecut::import::read_spec;

use stagecut::options::{Communication, Mode, Optimizer};
use stagecut::spec::{InstanceSpec, LayerSpec};

/// What a file says, and what its importer assumed.
fn read(file: &str, contents: impl AsRef<[u8]>) -> (InstanceSpec, String) {
    let folder = Folder::with(file, contents);
    let (spec, notes) =
        read_spec(&folder.path(file)).unwrap_or_else(|error| panic!("{file}: {:?}", error.faults));
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    (spec, notes.join("\n"))
}

fn layer<'a>(spec: &'a InstanceSpec, id: &str) -> &'a LayerSpec {
    let found = spec.network.layers.iter().find(|layer| layer.id == id);
    found.unwrap_or_else(|| panic!("no layer {id}"))
}

/// Producer, consumers, bytes, transfer time.
type Tensor<'a> = (&'a str, Vec<&'a str>, Option<f64>, Option<f64>);

fn tensors(spec: &InstanceSpec) -> Vec<Tensor<'_>> {
    spec.network
        .tensors
        .iter()
        .map(|tensor| {
            let consumers = tensor.consumers.iter().map(String::as_str).collect();
            (
                tensor.producer.as_str(),
                consumers,
                tensor.bytes,
                tensor.transfer_ms,
            )
        })
        .collect()
}

/// The objective of the best plan, in ms.
fn solve(file: &str, contents: impl AsRef<[u8]>, options: &[&str]) -> f64 {
    let folder = Folder::with(file, contents);
    let plan = folder.succeed(&[&["solve", file, "--format", "json"], options].concat());
    let plan: Value = serde_json::from_str(&plan).expect("a plan in JSON");
    plan["objective_ms"].as_f64().expect("an objective")
}

/// Three layers of 3, 6 and 3 ms; a tensor of 1 MB takes 1 ms. `batch` is the batch field, if any.
fn piper(batch: &str) -> String {
    let tmpc = |name: &str, seconds: f64, sync: &str| {
        format!(
            r#"{{"id": "{name}", "timePerSample": {seconds}, "parameterSize": 100.0, "memoryUsageA": 7.0,
            "memoryUsageB": 230.0, "syncTimeFw": {{{sync}}}, "syncTimeBw": {{}}}}"#
        )
    };
    let node = |id: usize, seconds: f64| {
        format!(
            r#"{{"id": {id}, "name": "layer{id}", "TMPCs": {{"1": [{}, {}], "2": [{}]}}}}"#,
            tmpc("vanilla", seconds, ""),
            tmpc("activation recomp", 9.0, ""),
            tmpc("vanilla", 9.0, "\"1\": 5.0")
        )
    };
    let edge = |from: usize, to: usize| {
        format!(r#"{{"sourceId": {from}, "destId": {to}, "communicationCost": 1e6}}"#)
    };
    format!(
        r#"{{"maxMemoryPerDevice": 1e9, "maxDevices": 2, {batch} "bandwidth": 1e9, "nodes": [{}, {}, {}],
        "edges": [{}, {}, {}]}}"#,
        node(0, 0.003),
        node(1, 0.006),
        node(2, 0.003),
        edge(0, 1),
        edge(0, 2),
        edge(1, 2)
    )
}

#[test]
fn piper_files() {
    let (spec, notes) = read("net.json", piper("\"mbsInBatch\": 48,"));
    let first = layer(&spec, "0");
    assert_eq!(first.operator.as_deref(), Some("layer0"));
    // Seconds for both passes, of which a third is forward.
    assert_eq!((first.forward_ms, first.backward_ms), (Some(1.0), Some(2.0)));
    // What is held once has parameters and gradients in it: 230 = 2 * 100 + 30.
    assert_eq!(
        (first.parameter_bytes, first.stash_bytes, first.resident_bytes),
        (100.0, 7.0, 30.0)
    );
    assert_eq!(spec.pipeline.optimizer, Some(Optimizer::Sgd));
    assert_eq!(
        tensors(&spec),
        [
            ("0", vec!["1"], Some(1e6), None),
            ("0", vec!["2"], Some(1e6), None),
            ("1", vec!["2"], Some(1e6), None)
        ]
    );
    let modes = first
        .modes
        .iter()
        .map(|mode| (mode.tensor, mode.recompute.as_deref()));
    assert!(modes.eq([
        (Some(1), Some("none")),
        (Some(1), Some("full")),
        (Some(2), Some("none"))
    ]));
    // Piper counts the exchange of gradients twice.
    let last = &first.modes[2];
    assert_eq!((last.gradient_bytes, last.resident_bytes), (Some(200.0), 230.0));
    assert_eq!(last.input_bytes.get("1"), Some(&5.0));
    let cluster = spec.cluster.as_ref().expect("a cluster");
    let kind = &cluster.device_kinds[0];
    assert_eq!((kind.count, kind.memory_bytes), (Some(2), Some(1e9)));
    assert_eq!(
        cluster.link.as_ref().map(|link| link.bandwidth_bytes_per_s),
        Some(1e9)
    );
    let said = "times are taken for seconds";
    assert!(notes.contains(said), "no `{said}` in {notes}");
}

#[test]
fn both_spellings_of_pipers_batch_field() {
    let micro_batches = |batch: &str| read("net.json", piper(batch)).0.pipeline.micro_batches;
    assert_eq!(micro_batches("\"mbsInBatch\": 48,"), Some(48));
    assert_eq!(micro_batches("\"maxBatchSize\": 128,"), Some(128));
    assert_eq!(micro_batches("\"mbsInBatch\": 8, \"maxBatchSize\": 8,"), Some(8));
    assert_eq!(micro_batches(""), None);
}

/// Of 12 ms, two stages hold at best 3 and 9, or 9 and 3; either cut moves two tensors, for Piper pays for each edge.
#[test]
fn the_best_plan_of_a_piper_file() {
    let file = piper("\"mbsInBatch\": 48,");
    let best = |options: &[&str]| solve("net.json", &file, &[&["--objective", "period"], options].concat());
    assert_eq!(best(&["--stages", "2", "--communication", "ignored"]), 9.0);
    // Two tensors forth, their gradients back: 4 ms on either side of a cut.
    assert_eq!(best(&["--stages", "2", "--all-stages"]), 13.0);
    assert_eq!(best(&["--stages", "2"]), 12.0);
    // Two replicas of 6 ms, and once in 48 micro-batches a ring for 600 bytes; or computed again, at 9 s a layer.
    assert_eq!(best(&["--replicas", "2"]), 6.0000125);
    assert_eq!(best(&["--recompute", "full"]), 18004.0);
}

/// Three layers in a chain, of which two sequences take twice as long as one, and two devices half as long as one.
const SAILOR: &str = include_str!("../fuzz/seeds/sailor.json");

#[test]
fn sailors_layers() {
    let (spec, notes) = read("small.json", SAILOR);
    let middle = layer(&spec, "layer1");
    assert_eq!(middle.operator.as_deref(), Some("transformer"));
    let modes = middle.modes.iter().map(|mode| {
        let times = (mode.forward_ms, mode.backward_ms);
        (mode.tensor, times, mode.parameter_bytes, mode.stash_bytes)
    });
    // Of two sequences; parameters do not depend on them.
    assert!(modes.eq([
        (Some(1), (Some(4.0), Some(8.0)), 80.0, 600.0),
        (Some(2), (Some(2.0), Some(4.0)), 40.0, 320.0)
    ]));
    assert_eq!(
        tensors(&spec),
        [
            ("layer0", vec!["layer1"], Some(2e6), None),
            ("layer1", vec!["layer2"], Some(2e6), None)
        ]
    );
    assert_eq!(
        spec.cluster.as_ref().expect("a cluster").device_kinds[0].name,
        "gpu"
    );
    assert!(notes.contains("micro-batches of 2 of the sizes 1, 2"), "{notes}");
    // Without a word the least size is meant, which was measured on one device alone.
    let (least, _) = read("small.json", SAILOR.replace("\"micro_batch_size\": 2,", ""));
    let modes = &layer(&least, "layer1").modes;
    assert_eq!(
        (modes.len(), modes[0].forward_ms, modes[0].stash_bytes),
        (1, Some(2.0), 300.0)
    );
}

/// 26 ms of work: two stages of at least 8 + 6 ms, whose cut moves two megabytes forth and back.
#[test]
fn the_best_plan_of_sailors_layers() {
    let best = |options: &[&str]| {
        solve(
            "small.json",
            SAILOR,
            &[&["--objective", "period", "--bandwidth", "1GB/s"], options].concat(),
        )
    };
    assert_eq!(best(&["--stages", "2", "--communication", "ignored"]), 18.0);
    assert_eq!(best(&["--stages", "2", "--all-stages"]), 22.0);
    assert_eq!(best(&["--stages", "1", "--devices", "2", "--tensor", "2"]), 13.0);
}

/// What is written is what was read.
#[test]
fn sailors_layers_there_and_back() {
    let folder = Folder::with("small.json", SAILOR);
    folder.succeed(&["import", "small.json", "--output", "native.json"]);
    let native = folder.succeed(&["import", "native.json"]);
    let again = folder.succeed(&["import", "small.json"]);
    assert_eq!(native, again);
}

/// The published profiles, where they are: a micro-batch of one sequence on four GPUs takes 39.4 ms forward.
#[test]
fn sailors_profile_of_opt() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data/measured-plans/profiles/opt-350.gh-96.json");
    if !path.exists() {
        eprintln!("skipped: no ../shared/data/measured-plans");
        return;
    }
    let (spec, _) = read_spec(&path).expect("a profile");
    let of_four = |layer: &LayerSpec| {
        layer
            .modes
            .iter()
            .find(|mode| mode.tensor == Some(4))
            .and_then(|mode| mode.forward_ms)
    };
    let forward: f64 = spec.network.layers.iter().filter_map(of_four).sum();
    assert_eq!(spec.network.layers.len(), 26);
    assert!((forward - 39.372).abs() < 1e-9, "{forward}");
}

/// Two devices; operators 1 to 3 in a row, 5 and 6 the transfers between them.
const MOIRAI: &str = "\
id,comm,succ,succ with comm,p1,p2,c11,c12,c21,c22,m,M1,M2
1,5,2,5,4,8,0,1,1,0,10,100,80
2.0,\"6,7\",\"3,4\",\"6,7\",6,3,\"0,0\",\"2,1\",\"5,1\",\"0,0\",20,,
3,8,4,8,2,1,0,0.5,0.5,0,30,,
4,,,,0,0,,,,,0,,
";

#[test]
fn moirai_tables() {
    let (spec, notes) = read("table.csv", MOIRAI);
    assert_eq!(spec.network.layers.len(), 4);
    let second = layer(&spec, "2");
    assert_eq!(second.resident_bytes, 20.0);
    assert_eq!(second.times["device1"].forward_ms, Some(6.0));
    assert_eq!(second.times["device2"].forward_ms, Some(3.0));
    assert_eq!(second.times["device2"].backward_ms, None);
    // The longer of both directions; transfers of different length are different tensors.
    assert_eq!(
        tensors(&spec),
        [
            ("1", vec!["2"], None, Some(1.0)),
            ("2", vec!["4"], None, Some(1.0)),
            ("2", vec!["3"], None, Some(5.0)),
            ("3", vec!["4"], None, Some(0.5)),
        ]
    );
    let kinds = &spec.cluster.as_ref().expect("a cluster").device_kinds;
    let memory: Vec<_> = kinds.iter().map(|kind| (kind.count, kind.memory_bytes)).collect();
    assert_eq!(memory, [(Some(1), Some(100.0)), (Some(1), Some(80.0))]);
    assert_eq!(spec.pipeline.mode, Some(Mode::Inference));
    assert!(
        notes.contains("taken for ms") && notes.contains("on the slowest"),
        "{notes}"
    );
}

/// Operator 1 is faster on the first device, the others on the second: 4 + 1 there, 1 + 3 + 1 here.
#[test]
fn the_best_plan_of_a_moirai_table() {
    let options = ["--stages", "2", "--all-stages", "--groups", "assign"];
    assert_eq!(solve("table.csv", MOIRAI, &options), 5.0);
}

/// The example of REGAL's own README, with a size that is not known and a second output added.
const COST_GRAPH: &str = r#"
# A comment.
node { name: "_SOURCE" }
node {
  name: "node_0"
  id: 1
  control_input: 0
}
node {
  name: "node_1" id: 2
  output_info { size: 70 alias_input_port: -1 }
  output_info { size: -1 }
  control_input: [0, 1]
  compute_cost: 58
}
node: <
  name: 'node_2', id: 3;
  output_info { size: 52 shape { dim { size: 13 } } dtype: DT_FLOAT }
  compute_cost: 47000
  device_persistent_memory_size: 400
>
node {
  name: "node_3"
  id: 4
  input_info { preceding_node: 2 }
  input_info { preceding_node: 2 preceding_port: 1 }
  input_info { preceding_node: 3 }
  compute_cost: 58
  is_final: true
}
"#;

#[test]
fn cost_graphs() {
    let (spec, notes) = read("graph_1.pbtxt", COST_GRAPH);
    let ids: Vec<&str> = spec
        .network
        .layers
        .iter()
        .map(|layer| layer.id.as_str())
        .collect();
    assert_eq!(ids, ["node_0", "node_1", "node_2", "node_3"]);
    // Microseconds.
    assert_eq!(layer(&spec, "node_1").forward_ms, Some(0.058));
    assert_eq!(layer(&spec, "node_2").forward_ms, Some(47.0));
    assert_eq!(layer(&spec, "node_2").resident_bytes, 400.0);
    assert_eq!(layer(&spec, "node_0").forward_ms, Some(0.0));
    // Waiting moves nothing; a port is a tensor of its own.
    assert_eq!(
        tensors(&spec),
        [
            ("node_0", vec!["node_1"], None, Some(0.0)),
            ("node_1", vec!["node_3"], Some(70.0), None),
            ("node_1", vec!["node_3"], Some(0.0), None),
            ("node_2", vec!["node_3"], Some(52.0), None),
        ]
    );
    for said in [
        "microseconds",
        "forward operator",
        "_SOURCE",
        "1 outputs of unknown size",
    ] {
        assert!(notes.contains(said), "no `{said}` in {notes}");
    }
    // Without the extension, the first node tells.
    assert_eq!(read("graph.txt", COST_GRAPH).0.network, spec.network);
}

/// `node_2` reads nothing: it runs alone in the first stage.
#[test]
fn the_best_plan_of_a_cost_graph() {
    let options = ["--stages", "2", "--communication", "ignored"];
    assert_eq!(solve("graph.pbtxt", COST_GRAPH, &options), 47.0);
}

/// Five tasks, two branches; behind the mark a remark in Latin-1 and DOS's end of file.
const LINE: &[u8] =
    b"5\r\n6\r\n2\r\n5\r\n7\r\n1\r\n1,2\r\n1,3\r\n2,4\r\n3,5\r\n4,5\r\n-1,-1\r\n\r\nsch\xf6n, 3\r\n\x1a";

#[test]
fn assembly_lines() {
    let (spec, notes) = read("line.IN2", LINE);
    let times: Vec<_> = spec
        .network
        .layers
        .iter()
        .map(|layer| (layer.id.as_str(), layer.forward_ms, layer.backward_ms))
        .collect();
    let expected = [("1", 6.0), ("2", 2.0), ("3", 5.0), ("4", 7.0), ("5", 1.0)];
    assert_eq!(times, expected.map(|(id, ms)| (id, Some(ms), None)));
    let precedences = [("1", "2"), ("1", "3"), ("2", "4"), ("3", "5"), ("4", "5")];
    assert_eq!(
        tensors(&spec),
        precedences.map(|(before, after)| (before, vec![after], None, None))
    );
    assert_eq!(spec.cluster, None);
    assert_eq!(spec.pipeline.mode, Some(Mode::Inference));
    assert_eq!(spec.pipeline.communication, Some(Communication::Ignored));
    assert!(notes.contains("taken for ms"), "{notes}");
}

/// Of 21 ms, tasks 1 and 3 make 11 and the others 10; in three stations none of 7 holds all.
#[test]
fn the_best_plans_of_an_assembly_line() {
    let best = |stations| solve("line.IN2", LINE, &["--stages", stations]);
    assert_eq!(best("1"), 21.0);
    assert_eq!(best("2"), 11.0);
    assert_eq!(best("3"), 8.0);
}

/// Two workers, of whom the second cannot do task 2; there is no mark at the end.
const WORKERS: &str = "4\n9 3\n2 Inf\n6 4\n5 8\n1 2\n1 3\n2 4\n3 4\n";

#[test]
fn assembly_lines_with_workers() {
    let (spec, notes) = read("17", WORKERS);
    let times = |id: &str| -> Vec<_> {
        let of = layer(&spec, id).times.iter();
        of.map(|(kind, times)| (kind.as_str(), times.forward_ms))
            .collect()
    };
    assert_eq!(times("1"), [("worker1", Some(9.0)), ("worker2", Some(3.0))]);
    assert_eq!(times("2"), [("worker1", Some(2.0))]);
    assert_eq!(tensors(&spec).len(), 4);
    let kinds = &spec.cluster.as_ref().expect("a cluster").device_kinds;
    let counts: Vec<_> = kinds
        .iter()
        .map(|kind| (kind.name.as_str(), kind.count))
        .collect();
    assert_eq!(counts, [("worker1", Some(1)), ("worker2", Some(1))]);
    assert_eq!(spec.pipeline.mode, Some(Mode::Inference));
    assert_eq!(spec.pipeline.communication, Some(Communication::Ignored));
    assert!(notes.contains("taken for ms"), "{notes}");
    // What follows the mark is no part of the line.
    let marked = WORKERS.to_owned() + "-1 -1\n3 2\n";
    assert_eq!(read("17", marked).0, spec);
}

/// The second worker does tasks 1 and 3, then the first 2 and 4; in the other order it takes 12 ms.
#[test]
fn the_best_plan_of_an_assembly_line_with_workers() {
    assert_eq!(solve("17", WORKERS, &[]), 7.0);
}
