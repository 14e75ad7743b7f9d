//! Formats: the published schema is current, JSON and TOML say the same, and importers read units as their files mean them.

use std::path::Path;

use crate::common::command::{Folder, NET};
use crate::common::random_spec;
use stagecut::import::{CLUSTER_PRESETS, read_cluster, read_spec};
use stagecut::instance::Instance;
use stagecut::network::Size;
use stagecut::online::spec::json_schema as scenario_schema;
use stagecut::options::MemoryLimit;
use stagecut::plan::bare::json_schema as plan_schema;
use stagecut::spec::{InstanceSpec, LayerSpec, SCHEMA, TensorSpec, json_schema};

fn read(file: &str, contents: &str) -> InstanceSpec {
    let folder = Folder::with(file, contents);
    read_spec(&folder.path(file))
        .unwrap_or_else(|error| panic!("{file}: {:?}", error.faults))
        .0
}

fn layer<'a>(spec: &'a InstanceSpec, id: &str) -> &'a LayerSpec {
    spec.network
        .layers
        .iter()
        .find(|layer| layer.id == id)
        .unwrap_or_else(|| panic!("no layer {id}"))
}

fn tensor<'a>(spec: &'a InstanceSpec, producer: &str) -> &'a TensorSpec {
    let found = spec
        .network
        .tensors
        .iter()
        .find(|tensor| tensor.producer == producer);
    found.unwrap_or_else(|| panic!("no tensor of {producer}"))
}

#[test]
fn the_published_schemas_are_current() {
    for (file, of) in [
        ("instances/schema.json", "instance"),
        ("instances/plans/schema.json", "plan"),
        ("instances/online/schema.json", "scenario"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        let current = Folder::new().succeed(&["schema", of]);
        assert!(
            published == current,
            "{file} is not what `stagecut schema {of}` prints; run `make schema`"
        );
    }
}

/// Schemas are written for editors and validators: every field of ours has a description, and none is left open.
#[test]
fn the_schemas_describe_every_field_and_forbid_others() {
    fn visit(at: &str, schema: &serde_json::Value, fields: &mut usize) {
        let Some(properties) = schema
            .get("properties")
            .and_then(|properties| properties.as_object())
        else {
            return;
        };
        assert_eq!(schema.get("additionalProperties"), Some(&false.into()), "{at}");
        for (name, property) in properties {
            assert!(property.get("description").is_some(), "{at}.{name}");
            *fields += 1;
        }
    }
    for (schema, least) in [(json_schema(), 40), (scenario_schema(), 20), (plan_schema(), 60)] {
        let mut fields = 0;
        visit("the file", &schema, &mut fields);
        for (name, definition) in schema["$defs"].as_object().expect("definitions") {
            visit(name, definition, &mut fields);
        }
        assert!(fields > least, "only {fields} fields");
    }
}

#[test]
fn json_and_toml_of_an_instance_say_the_same() {
    for seed in 0..300 {
        let spec = random_spec(seed, false);
        let json = serde_json::to_string_pretty(&spec).unwrap();
        let toml = toml::to_string(&spec).unwrap();
        assert_eq!(read("a.json", &json), spec, "seed {seed}");
        assert_eq!(read("a.toml", &toml), spec, "seed {seed}");
    }
}

#[test]
fn the_extension_of_json_is_optional_and_toml_needs_its_own() {
    let json = r#"  {"network": {"layers": [{"id": "a", "forward_ms": 1}]}}"#;
    assert_eq!(read("a.json", json), read("a", json));
    assert_eq!(read("a.JSON", json), read("a", json));
    assert_eq!(read("a.TOML", NET), read("a.toml", NET));
}

#[test]
fn defaults_are_what_the_format_says() {
    let folder = Folder::with(
        "a.json",
        format!(
            r#"{{"schema": "{SCHEMA}", "network": {{"layers": [{{"id": "a", "forward_ms": 0.0000015}}, {{"id": "b", "forward_ms": 1}}],
            "tensors": [{{"producer": "a", "consumers": ["b", "b"]}}]}}}}"#
        ),
    );
    let instance = Instance::read(&folder.path("a.json"), None).unwrap();
    assert_eq!(instance.name, "a");
    // Half nanoseconds round away from zero; a tensor without a size is free; consumers count once.
    assert_eq!(instance.network.layers[0].times[0].unwrap().forward_ns, 2);
    assert_eq!(instance.network.tensors[0].size, Size::Bytes(0));
    assert_eq!(instance.network.tensors[0].consumers, [1]);
    assert_eq!(instance.cluster.kinds[0].name, "device");
    assert!(instance.cluster.kinds[0].pays_communication);
}

#[test]
fn memory_limits_are_numbers_or_none() {
    let limit = |text: &str| {
        let spec = read(
            "a.toml",
            &format!("network.layers = []\npipeline.memory_limit = {text}"),
        );
        spec.pipeline.memory_limit.and_then(MemoryLimit::bytes)
    };
    assert_eq!(limit("16_000_000_000"), Some(16_000_000_000));
    assert_eq!(limit("16e9"), Some(16_000_000_000));
    assert_eq!(limit("\"none\""), None);
}

#[test]
fn measured_times_come_before_general_ones_and_those_before_work() {
    let text = r#"
[network]
layers = [
  { id = "a", forward_ms = 5, times = { x = { forward_ms = 1, backward_ms = 2 } }, work = { forward_flops = 1e9 } },
  { id = "b", work = { forward_flops = 2e9, forward_bytes = 1e6, backward_flops = 1e9, backward_bytes = 8e9 } },
]
[cluster]
device_kinds = [
  { name = "x", flops_per_s = 1e12, memory_bytes_per_s = 1e12 },
  { name = "y", flops_per_s = 1e12, memory_bytes_per_s = 1e12 },
]
"#;
    let folder = Folder::with("a.toml", text);
    let instance = Instance::read(&folder.path("a.toml"), None).unwrap();
    let times = |layer: usize, kind: usize| {
        let times = instance.network.layers[layer].times[kind].unwrap();
        (times.forward_ns, times.backward_ns)
    };
    assert_eq!(times(0, 0), (1_000_000, 2_000_000));
    assert_eq!(times(0, 1), (5_000_000, 0));
    // 2 GFLOP at 1 TFLOP/s take 2 ms; 8 GB at 1 TB/s take 8 ms, longer than the arithmetic.
    assert_eq!(times(1, 1), (2_000_000, 8_000_000));
}

#[test]
fn a_reference_takes_network_and_cluster_from_another_file() {
    let folder = Folder::with("net.toml", NET);
    folder.write(
        "asked.toml",
        "name = \"asked\"\nnetwork.file = \"net.toml\"\npipeline.stages = 2\n",
    );
    let instance = Instance::read(&folder.path("asked.toml"), None).unwrap();
    assert_eq!(
        (instance.name.as_str(), instance.pipeline.stages),
        ("asked", Some(2))
    );
    assert_eq!(instance.network.layers.len(), 3);
    assert_eq!(instance.cluster.kinds[0].name, "gpu");
    let instance = Instance::read(&folder.path("asked.toml"), Some("a100")).unwrap();
    assert_ne!(instance.cluster.kinds[0].name, "gpu");
}

#[test]
fn cluster_presets_read() {
    for (name, _) in CLUSTER_PRESETS {
        let cluster = read_cluster(name).unwrap_or_else(|error| panic!("{name}: {:?}", error.faults));
        assert!(!cluster.device_kinds.is_empty(), "{name}");
    }
}

#[test]
fn pipedream_profiles() {
    let profile = "\
node1 -- Input0 -- forward_compute_time=9.0, backward_compute_time=9.0, activation_size=9.0, parameter_size=0.0
node2 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=2.25, activation_size=100.0, parameter_size=40.0
node3 -- Split -- forward_compute_time=0.5, backward_compute_time=0.0, activation_size=[30.0; 12.0], parameter_size=0.0
node4 -- Add -- forward_compute_time=0.25, backward_compute_time=0.125, activation_size=7.0, parameter_size=0.0
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
\tnode3 -- node4
";
    let spec = read("graph.txt", profile);
    // `Input` carries the time of loading data: dropped, with its edges.
    assert_eq!(spec.network.layers.len(), 3);
    let conv = layer(&spec, "node2");
    assert_eq!(conv.operator.as_deref(), Some("Conv2d(3, 64)"));
    assert_eq!((conv.forward_ms, conv.backward_ms), (Some(1.5), Some(2.25)));
    assert_eq!((conv.parameter_bytes, conv.stash_bytes), (40.0, 100.0));
    // A list of activations is one output in parts.
    assert_eq!(layer(&spec, "node3").stash_bytes, 42.0);
    assert_eq!(tensor(&spec, "node3").bytes, Some(42.0));
    assert_eq!(spec.network.tensors.len(), 2);
    assert_eq!(tensor(&spec, "node2").consumers, ["node3", "node4"]);
    // Known by its first lines under any other name, and with the line ends of any system.
    assert_eq!(read("profile", profile), spec);
    assert_eq!(read("graph.txt", &profile.replace('\n', "\r\n")), spec);
}

#[test]
fn csv_pairs() {
    let folder = Folder::with(
        "net.csv",
        "node,op,fp_ms,bp_ms,activation_bytes,param_bytes\nconv1,Convolution,1.5,3,400,88\nfc,InnerProduct,0.5,1,40,1e3\n",
    );
    folder.write("net.edges.csv", "src,dst\ndata,conv1\nconv1,fc\n");
    let (spec, notes) = read_spec(&folder.path("net.csv")).unwrap();
    assert_eq!(spec.name.as_deref(), Some("net"));
    let conv = layer(&spec, "conv1");
    assert_eq!((conv.forward_ms, conv.backward_ms), (Some(1.5), Some(3.0)));
    assert_eq!((conv.stash_bytes, conv.parameter_bytes), (400.0, 88.0));
    assert_eq!(layer(&spec, "fc").parameter_bytes, 1000.0);
    // `data` is no layer, and said so.
    assert_eq!(spec.network.tensors.len(), 1);
    assert_eq!(tensor(&spec, "conv1").bytes, Some(400.0));
    assert!(notes[0].to_string().contains("`data`"), "{notes:?}");
    // Either file names the pair.
    assert_eq!(read_spec(&folder.path("net.edges.csv")).unwrap().0, spec);
    // Columns in another order, and blanks after commas, mean the same.
    folder.write("net.edges.csv", "dst, src\nconv1, data\nfc, conv1\n");
    assert_eq!(read_spec(&folder.path("net.csv")).unwrap().0, spec);
}

#[test]
fn dnn_partitioning_graphs() {
    let node = |id: &str, on: &str, backward: &str, rest: &str| {
        format!(
            r#"{{"id": {id}, "supportedOnFpga": {on}, "cpuLatency": 30, "fpgaLatency": 3.5, "isBackwardNode": {backward}{rest}}}"#
        )
    };
    let file = |id: fn(u8) -> String, [no, yes]: [&str; 2]| {
        let nodes = [
            node(
                &id(1),
                yes,
                no,
                r#", "name": "conv", "size": 600, "colorClass": 7"#,
            ),
            node(&id(2), no, no, r#", "colorClass": null"#),
            node(&id(3), yes, yes, r#", "colorClass": 7"#),
        ];
        let edge = |from, to, cost| {
            format!(
                r#"{{"sourceId": {}, "destId": {}, "cost": {cost}}}"#,
                id(from),
                id(to)
            )
        };
        let edges = [edge(1, 2, 0.5), edge(1, 3, 0.5), edge(2, 3, 0.25)];
        format!(
            r#"{{"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 1000, "nodes": [{}], "edges": [{}]}}"#,
            nodes.join(", "),
            edges.join(", ")
        )
    };
    let spec = read("graph.json", &file(|id| id.to_string(), ["0", "1"]));
    let first = layer(&spec, "1");
    assert_eq!(first.operator.as_deref(), Some("conv"));
    assert_eq!(first.times["accelerator"].forward_ms, Some(3.5));
    assert_eq!(first.times["cpu"].forward_ms, Some(30.0));
    assert_eq!((first.resident_bytes, first.tie.as_deref()), (600.0, Some("7")));
    // Not supported on accelerators: no time there.
    assert!(!layer(&spec, "2").times.contains_key("accelerator"));
    assert_eq!(layer(&spec, "2").tie, None);
    let backward = &layer(&spec, "3").times["accelerator"];
    assert!(layer(&spec, "3").backward);
    assert_eq!((backward.forward_ms, backward.backward_ms), (None, Some(3.5)));
    // The cost of a source's edges is one transfer, paid once.
    assert_eq!(spec.network.tensors.len(), 2);
    assert_eq!(tensor(&spec, "1").consumers, ["2", "3"]);
    assert_eq!(tensor(&spec, "1").transfer_ms, Some(0.5));
    let kinds = &spec.cluster.as_ref().unwrap().device_kinds;
    assert_eq!(
        (kinds[0].name.as_str(), kinds[0].count, kinds[0].memory_bytes),
        ("accelerator", Some(2), Some(1000.0))
    );
    assert_eq!(
        (kinds[1].name.as_str(), kinds[1].pays_communication),
        ("cpu", false)
    );
    // Truth values in words and names in quotes mean the same.
    assert_eq!(
        read("graph.json", &file(|id| format!("\"{id}\""), ["false", "true"])),
        spec
    );
}

#[test]
fn shipped_instances_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("instances/").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_native = name.ends_with(".toml") || (name.ends_with(".json") && name != "schema.json");
        if is_native && path.is_file() {
            Instance::read(&path, None).unwrap_or_else(|error| panic!("{name}: {:?}", error.faults));
            count += 1;
        }
    }
    eprintln!("{count} native instances");
}
