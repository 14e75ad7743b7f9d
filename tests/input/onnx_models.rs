//! The ONNX importer: small models by hand, and damaged files.
//!
//! Models are written field by field as protobuf; the numbers are those of onnx.proto.
#![cfg(feature = "onnx")]

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::fault::InputError;
use stagecut::import::read_spec;
use stagecut::instance::Instance;
use stagecut::spec::InstanceSpec;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// A graph's input or output; a length is a number, or a name for a symbolic one.
fn value(name: &str, lengths: &[&str]) -> Vec<u8> {
    let dim = |length: &&str| match length.parse() {
        Ok(length) => bytes(1, number(1, length)),
        Err(_) => bytes(1, bytes(2, length)),
    };
    let shape: Vec<u8> = lengths.iter().flat_map(dim).collect();
    let tensor = [number(1, FLOAT), bytes(2, shape)].concat();
    [bytes(1, name), bytes(2, bytes(1, tensor))].concat()
}

fn tensor(name: &str, data_type: i64, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|&dim| number(1, dim));
    [
        dims.collect(),
        number(2, data_type),
        bytes(8, name),
        bytes(9, raw),
    ]
    .concat()
}

fn longs(name: &str, values: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, INT64, &[values.len() as i64], &raw)
}

fn node(operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|name| bytes(1, name));
    let outputs = outputs.iter().flat_map(|name| bytes(2, name));
    let attributes = attributes.iter().flat_map(|attribute| bytes(5, attribute));
    [
        inputs.collect(),
        outputs.collect(),
        bytes(4, operator),
        attributes.collect(),
    ]
    .concat()
}

fn int_attribute(name: &str, value: i64) -> Vec<u8> {
    [bytes(1, name), number(3, value), number(20, 2)].concat()
}

#[derive(Default)]
struct Model {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    claims: Vec<Vec<u8>>,
}

impl Model {
    fn encode(&self) -> Vec<u8> {
        let all = |field, parts: &[Vec<u8>]| {
            parts
                .iter()
                .flat_map(|part| bytes(field, part))
                .collect::<Vec<u8>>()
        };
        let graph = [
            all(1, &self.nodes),
            all(5, &self.constants),
            all(11, &self.inputs),
            all(12, &self.outputs),
            all(13, &self.claims),
        ];
        [number(1, 8), bytes(7, graph.concat()), bytes(8, number(2, 13))].concat()
    }

    fn read(&self) -> Result<(Instance, InstanceSpec), InputError> {
        read_bytes(&self.encode())
    }

    fn fault(&self) -> String {
        let error = self.read().expect_err("a fault");
        error.faults.iter().map(|fault| format!("{fault}\n")).collect()
    }
}

fn read_bytes(content: &[u8]) -> Result<(Instance, InstanceSpec), InputError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, content).unwrap();
    Ok((Instance::read(&path, None)?, read_spec(&path)?.0))
}

#[test]
fn symbolic_batches_become_one() {
    let model = Model {
        inputs: vec![value("x", &["batch", "8"])],
        nodes: vec![
            node("Relu", &["x"], &["y"], &[]),
            node("Exp", &["y"], &["z"], &[]),
        ],
        outputs: vec![value("z", &["batch", "8"])],
        ..Default::default()
    };
    let (instance, spec) = model.read().unwrap();
    assert_eq!(spec.network.tensors[0].bytes, Some(32.0));
    assert_eq!(instance.network.layers[0].id, "y");
    assert!(
        instance
            .notes
            .iter()
            .any(|note| note.to_string().contains("`batch`"))
    );
    let model = Model {
        inputs: vec![value("x", &["batch", "width"])],
        ..model
    };
    assert!(
        model.fault().contains("input `x`: found no number for `width`"),
        "{}",
        model.fault()
    );
}

#[test]
fn shape_arithmetic_is_folded_and_shared_weights_count_once() {
    let weights = vec![0; 4 * 16 * 16];
    let model = Model {
        inputs: vec![value("x", &["2", "4", "4"])],
        constants: vec![
            tensor("w", FLOAT, &[16, 16], &weights),
            longs("zero", &[0]),
            longs("rest", &[-1]),
        ],
        nodes: vec![
            node("Shape", &["x"], &["shape"], &[]),
            node(
                "Gather",
                &["shape", "zero"],
                &["batch"],
                &[int_attribute("axis", 0)],
            ),
            node(
                "Concat",
                &["batch", "rest"],
                &["target"],
                &[int_attribute("axis", 0)],
            ),
            node("Reshape", &["x", "target"], &["flat"], &[]),
            node("MatMul", &["flat", "w"], &["hidden"], &[]),
            node("Transpose", &["w"], &["wt"], &[]),
            node("MatMul", &["hidden", "wt"], &["out"], &[]),
        ],
        ..Default::default()
    };
    let (instance, spec) = model.read().unwrap();
    let ids: Vec<&str> = spec
        .network
        .layers
        .iter()
        .map(|layer| layer.id.as_str())
        .collect();
    assert_eq!(ids, ["flat", "hidden", "out"]);
    let parameters: Vec<f64> = spec
        .network
        .layers
        .iter()
        .map(|layer| layer.parameter_bytes)
        .collect();
    assert_eq!(parameters, [0.0, 1024.0, 0.0]);
    let work = spec.network.layers[1].work.clone().unwrap();
    assert_eq!((work.forward_flops, work.backward_flops), (1024.0, 1024.0));
    let work = spec.network.layers[2].work.clone().unwrap();
    assert_eq!((work.forward_flops, work.backward_flops), (1024.0, 2048.0));
    assert!(instance.notes.iter().any(|note| {
        note.to_string()
            .starts_with("constants read by several layers: 1")
    }));
}

#[test]
fn unknown_operators_need_a_claimed_shape() {
    let mut model = Model {
        inputs: vec![value("x", &["1", "8"])],
        nodes: vec![
            node("Mystery", &["x"], &["y"], &[]),
            node("Relu", &["y"], &["z"], &[]),
        ],
        ..Default::default()
    };
    let fault = model.fault();
    assert!(
        fault.contains("node `y` (Mystery): found output `y`, whose shape"),
        "{fault}"
    );
    assert_eq!(fault.lines().count(), 1, "{fault}");
    model.claims = vec![value("y", &["1", "8"])];
    let (instance, spec) = model.read().unwrap();
    assert_eq!(spec.network.layers.len(), 2);
    assert!(
        instance
            .notes
            .iter()
            .any(|note| note.to_string().ends_with("element-wise: Mystery"))
    );
}

/// `Add` reads the graph's input beside a layer; `Relu` reads it alone, and a weight is no input.
#[test]
fn layers_that_read_the_input_beside_others_say_so() {
    let model = Model {
        inputs: vec![value("x", &["1", "2"])],
        constants: vec![tensor("w", FLOAT, &[2], &[0; 8])],
        nodes: vec![
            node("Relu", &["x"], &["a"], &[]),
            node("Mul", &["a", "w"], &["b"], &[]),
            node("Add", &["x", "b"], &["c"], &[]),
        ],
        outputs: vec![value("c", &["1", "2"])],
        ..Default::default()
    };
    let (instance, spec) = model.read().unwrap();
    let flags = [false, false, true];
    assert_eq!(
        spec.network
            .layers
            .iter()
            .map(|l| l.reads_input)
            .collect::<Vec<_>>(),
        flags
    );
    assert_eq!(
        instance
            .network
            .layers
            .iter()
            .map(|l| l.reads_input)
            .collect::<Vec<_>>(),
        flags
    );
}

#[test]
fn claims_of_size_allocate_nothing() {
    let huge = 1 << 40;
    let mut model = Model {
        inputs: vec![value("x", &["1", "8"])],
        constants: vec![tensor("w", FLOAT, &[huge], &[0; 8])],
        nodes: vec![node("Add", &["x", "w"], &["y"], &[])],
        ..Default::default()
    };
    assert!(model.fault().contains("initializer `w`"), "{}", model.fault());
    // 4 GiB of constants that nobody makes; only their size is known.
    let large = 1 << 30;
    model.constants = vec![longs("shape", &[large, 1])];
    model.nodes = vec![
        node("ConstantOfShape", &["shape"], &["w"], &[]),
        node("Add", &["x", "w"], &["y"], &[]),
        node("Relu", &["y"], &["z"], &[]),
    ];
    let (_, spec) = model.read().unwrap();
    assert_eq!(spec.network.layers[0].parameter_bytes, 4.0 * large as f64);
    model.constants = vec![longs("shape", &[large, large, 1])];
    assert!(model.fault().contains("2^53"), "{}", model.fault());
    model.constants = vec![longs("shape", &[huge, 1])];
    assert!(model.fault().contains("beyond 2^31"), "{}", model.fault());
    for (operator, constant) in [
        ("Expand", longs("shape", &[huge, 8])),
        ("Tile", longs("shape", &[huge, 1])),
    ] {
        model.constants = vec![constant, longs("one", &[1, 1])];
        model.nodes = vec![
            node(operator, &["one", "shape"], &["w"], &[]),
            node("Add", &["x", "w"], &["y"], &[]),
        ];
        let _ = model.read();
    }
    // A length that becomes a rank, and an axis beyond any rank.
    model.inputs.push(value("long", &[&huge.to_string()]));
    model.nodes = vec![node("ConstantOfShape", &["long"], &["y"], &[])];
    assert!(model.fault().contains("output `y`"), "{}", model.fault());
    model.nodes = vec![node(
        "Concat",
        &["x", "x"],
        &["y"],
        &[int_attribute("axis", huge)],
    )];
    assert!(model.fault().contains("attribute `axis`"), "{}", model.fault());
}

#[test]
fn faults_say_where() {
    let mut model = Model::default();
    assert!(model.fault().contains("found no layers"));
    model.inputs = vec![value("x", &["8"])];
    model.nodes = vec![
        node("Add", &["x", "z"], &["y"], &[]),
        node("Relu", &["y"], &["z"], &[]),
    ];
    assert!(
        model.fault().contains("node `y` (Add): found input `z`"),
        "{}",
        model.fault()
    );
    model.nodes = vec![
        node("Relu", &["x"], &["y"], &[]),
        node("Exp", &["x"], &["y"], &[]),
    ];
    assert!(
        model.fault().contains("second tensor named `y`"),
        "{}",
        model.fault()
    );
    let location = [bytes(1, "location"), bytes(2, "weights.bin")].concat();
    let external = [
        number(1, 8),
        number(2, FLOAT),
        bytes(8, "w"),
        bytes(13, location),
        number(14, 1),
    ]
    .concat();
    model.constants = vec![external];
    model.nodes = vec![node("Add", &["x", "w"], &["y"], &[])];
    assert!(
        model.fault().contains("initializer `w`: found no external data"),
        "{}",
        model.fault()
    );
    for junk in [&b""[..], b"junk", &[0xff; 64], b"\x3a\xff\xff\xff\xff\x0f"] {
        assert!(read_bytes(junk).is_err());
    }
}

#[test]
fn contradictory_shapes_are_refused_at_once() {
    // Left alone, tract carries the broadcast of 6 and 7 along as an expression that doubles with every node.
    let mut model = Model {
        inputs: vec![value("x0", &["1", "7"]), value("y", &["1", "6"])],
        ..Default::default()
    };
    for i in 0..200 {
        let (input, output) = (format!("x{i}"), format!("x{}", i + 1));
        model
            .nodes
            .push(node("Sum", &[&input, "y", &input], &[&output], &[]));
    }
    let fault = model.fault();
    assert!(
        fault.contains("node `x1` (Sum)") && fault.contains("do not agree"),
        "{fault}"
    );
}

#[test]
fn damaged_files_never_panic() {
    let networks = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut refused, mut read) = (0, 0);
    let mut try_it = |content: &[u8]| match read_bytes(content) {
        Ok(_) => read += 1,
        Err(error) => {
            assert!(!error.faults.is_empty());
            refused += 1;
        }
    };
    for _ in 0..200 {
        let junk: Vec<u8> = (0..random.random_range(0..400))
            .map(|_| random.random())
            .collect();
        try_it(&junk);
    }
    for (name, truncations, flips) in [
        ("alexnet", 200, 500),
        ("googlenet", 30, 40),
        ("shufflenet", 20, 20),
    ] {
        let whole = std::fs::read(networks.join(format!("{name}.onnx"))).unwrap();
        for _ in 0..truncations {
            try_it(&whole[..random.random_range(0..whole.len())]);
        }
        for _ in 0..flips {
            let mut damaged = whole.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..damaged.len());
                damaged[at] ^= 1 << random.random_range(0..8);
            }
            try_it(&damaged);
        }
    }
    assert!(refused > 400 && read > 10, "{refused} refused, {read} read");
}
