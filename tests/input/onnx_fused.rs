//! The ONNX importer: operators that do what several do, each against the same written out, and by hand.
#![cfg(feature = "onnx")]

use std::path::{Path, PathBuf};

use stagecut::import::read_spec;
use stagecut::spec::InstanceSpec;
use tract_onnx::pb::{NodeProto, TensorProto, ValueInfoProto};

use crate::onnx_written::*;

const CONTRIBUTED: &str = "com.microsoft";

fn one(inputs: Vec<ValueInfoProto>, constants: Vec<TensorProto>, node: NodeProto) -> InstanceSpec {
    let before = crate::onnx_written::node("Relu", &["x"], &["q"]);
    Written::new(inputs, constants, vec![before, node.named("it")]).read()
}

/// Scores, softmax and weighed values of 4 heads of 16 for 8 queries and 24 keys.
fn written_out() -> f64 {
    let inputs = vec![
        value("q", FLOAT, &["2", "4", "8", "16"]),
        value("k", FLOAT, &["2", "4", "16", "24"]),
        value("v", FLOAT, &["2", "4", "24", "16"]),
    ];
    let nodes = vec![
        node("MatMul", &["q", "k"], &["s"]),
        node("Softmax", &["s"], &["p"]).with("axis", -1),
        node("MatMul", &["p", "v"], &["y"]),
    ];
    let spec = Written::new(inputs, vec![], nodes).read();
    spec.network.layers.iter().map(|layer| forward(layer)[0]).sum()
}

#[test]
fn attention_of_onnx_has_the_work_of_its_parts() {
    let expected = written_out();
    // Heads apart, and in one row; with 16 tokens before.
    let apart = vec![
        value("x", FLOAT, &["2", "4", "8", "16"]),
        value("k", FLOAT, &["2", "4", "24", "16"]),
        value("v", FLOAT, &["2", "4", "24", "16"]),
    ];
    let spec = one(apart, vec![], node("Attention", &["q", "k", "v"], &["y"]));
    assert_eq!(forward(layer(&spec, "it"))[0], expected);
    let rows = vec![
        value("x", FLOAT, &["2", "8", "64"]),
        value("k", FLOAT, &["2", "8", "32"]),
        value("v", FLOAT, &["2", "8", "32"]),
        value("pk", FLOAT, &["2", "2", "16", "16"]),
        value("pv", FLOAT, &["2", "2", "16", "16"]),
    ];
    let attention = node("Attention", &["q", "k", "v", "", "pk", "pv"], &["y", "nk", "nv"])
        .with("q_num_heads", 4)
        .with("kv_num_heads", 2);
    let model = vec![
        node("Relu", &["x"], &["q"]),
        attention.named("it"),
        node("Exp", &["nk"], &["z"]).named("cache"),
    ];
    let spec = Written::new(rows, vec![], model).read();
    assert_eq!(forward(layer(&spec, "it"))[0], expected);
    // Keys with those before: 24 tokens of two heads of 16.
    assert_eq!(forward(layer(&spec, "cache"))[0], 4.0 * 2.0 * 2.0 * 24.0 * 16.0);
}

#[test]
fn attention_that_was_contributed() {
    let expected = written_out();
    let past = [
        value("pk", FLOAT, &["2", "2", "16", "16"]),
        value("pv", FLOAT, &["2", "2", "16", "16"]),
    ];
    let apart = [
        vec![
            value("x", FLOAT, &["2", "8", "64"]),
            value("k", FLOAT, &["2", "8", "32"]),
            value("v", FLOAT, &["2", "8", "32"]),
        ],
        past.to_vec(),
    ]
    .concat();
    let grouped = |inputs: &[&str]| {
        node("GroupQueryAttention", inputs, &["y", "nk", "nv"])
            .of(CONTRIBUTED)
            .with("num_heads", 4)
            .with("kv_num_heads", 2)
    };
    let spec = one(apart.clone(), vec![], grouped(&["q", "k", "v", "pk", "pv"]));
    assert_eq!(forward(layer(&spec, "it"))[0], expected);
    assert_eq!(spec.network.layers.len(), 2);
    // Queries, keys and values in one tensor.
    let packed = [vec![value("x", FLOAT, &["2", "8", "128"])], past.to_vec()].concat();
    let spec = one(packed, vec![], grouped(&["q", "", "", "pk", "pv"]));
    assert_eq!(forward(layer(&spec, "it"))[0], expected);
    // A window of six of the 24 tokens.
    let spec = one(
        apart.clone(),
        vec![],
        grouped(&["q", "k", "v", "pk", "pv"]).with("local_window_size", 6),
    );
    assert_eq!(forward(layer(&spec, "it"))[0], expected / 4.0);
    // A cache with room for more than there is: the constant says how many tokens count.
    let spec = one(
        apart,
        vec![long("n", &[], &[12])],
        grouped(&["q", "k", "v", "pk", "pv", "", "n"]),
    );
    assert_eq!(forward(layer(&spec, "it"))[0], expected / 2.0);
    // Heads by themselves.
    let inputs = vec![
        value("x", FLOAT, &["2", "8", "64"]),
        value("k", FLOAT, &["2", "24", "64"]),
        value("v", FLOAT, &["2", "24", "64"]),
    ];
    let heads = node("MultiHeadAttention", &["q", "k", "v"], &["y"])
        .of(CONTRIBUTED)
        .with("num_heads", 4);
    assert_eq!(forward(layer(&one(inputs, vec![], heads), "it"))[0], expected);
    // The same name with the product before it.
    let own = node("Attention", &["q", "w", "b"], &["y"])
        .of(CONTRIBUTED)
        .with("num_heads", 4);
    let constants = vec![zeros("w", FLOAT, &[64, 192]), zeros("b", FLOAT, &[192])];
    let spec = one(vec![value("x", FLOAT, &["2", "24", "64"])], constants, own);
    let product = 2.0 * 2.0 * 24.0 * 64.0 * 192.0;
    assert_eq!(forward(layer(&spec, "it"))[0], product + 3.0 * expected);
    assert_eq!(layer(&spec, "it").parameter_bytes, 4.0 * (64.0 * 192.0 + 192.0));
}

/// Rotations turn each number by its angle; the table of angles is not learned, and its rows of the positions are read alone.
#[test]
fn rotations_read_their_rows() {
    let inputs = vec![
        value("x", FLOAT, &["1", "8", "64"]),
        value("p", LONG, &["1", "8"]),
    ];
    let tables = vec![zeros("cos", FLOAT, &[4096, 8]), zeros("sin", FLOAT, &[4096, 8])];
    let rotation = node("RotaryEmbedding", &["q", "p", "cos", "sin"], &["y"])
        .of(CONTRIBUTED)
        .with("num_heads", 4);
    let spec = one(inputs, tables, rotation);
    let found = layer(&spec, "it");
    assert_eq!(
        forward(found),
        [3.0 * 512.0, 4.0 * 2.0 * 512.0 + 8.0 * 8.0 + 2.0 * 4.0 * 8.0 * 8.0]
    );
    assert_eq!(
        (found.parameter_bytes, found.resident_bytes),
        (0.0, 2.0 * 4.0 * 4096.0 * 8.0)
    );
}

#[test]
fn products_with_packed_weights_have_the_work_of_plain_ones() {
    for bits in [2, 4, 8] {
        let packed = node("MatMulNBits", &["q", "w", "s"], &["y"])
            .of(CONTRIBUTED)
            .with("K", 256)
            .with("N", 96)
            .with("bits", bits)
            .with("block_size", 32);
        let bytes = 256 / 32 * (32 * bits / 8);
        let constants = vec![zeros("w", BYTE, &[96, 8, 4 * bits]), zeros("s", FLOAT, &[96 * 8])];
        let input = vec![value("x", FLOAT, &["2", "16", "256"])];
        let spec = one(input.clone(), constants, packed);
        let plain = one(
            input,
            vec![zeros("w", FLOAT, &[256, 96])],
            node("MatMul", &["q", "w"], &["y"]),
        );
        let [found, plain] = [&spec, &plain].map(|spec| layer(spec, "it"));
        assert_eq!(forward(found)[0], forward(plain)[0]);
        let held = 96.0 * bytes as f64 + 4.0 * 96.0 * 8.0;
        assert_eq!((found.parameter_bytes, found.resident_bytes), (0.0, held));
        assert_eq!(forward(found)[1], held + 4.0 * 2.0 * 16.0 * (256.0 + 96.0));
        assert_eq!(spec.network.layers.len(), 2);
    }
}

#[test]
fn sums_with_their_norm_hand_on_both() {
    let inputs = vec![
        value("x", FLOAT, &["1", "8", "64"]),
        value("r", FLOAT, &["1", "8", "64"]),
    ];
    let norm = node(
        "SkipSimplifiedLayerNormalization",
        &["q", "r", "g"],
        &["y", "", "", "sum"],
    )
    .of(CONTRIBUTED)
    .named("it");
    let nodes = vec![
        node("Relu", &["x"], &["q"]),
        norm,
        node("Add", &["y", "sum"], &["z"]).named("behind"),
    ];
    let spec = Written::new(inputs, vec![zeros("g", FLOAT, &[64])], nodes).read();
    assert_eq!(forward(layer(&spec, "it"))[0], 9.0 * 512.0);
    assert_eq!(layer(&spec, "it").parameter_bytes, 256.0);
    assert_eq!(
        spec.network
            .tensors
            .iter()
            .filter(|tensor| tensor.producer == "it")
            .count(),
        2
    );
}

/// One expert for all tokens is an MLP; of eight experts two work, and a token's experts are read alone.
#[test]
fn experts_work_as_often_as_they_are_chosen() {
    let inputs = vec![
        value("x", FLOAT, &["1", "8", "64"]),
        value("r", FLOAT, &["8", "8"]),
    ];
    let experts = |count: i64, chosen: i64| {
        let moe = node("MoE", &["q", "r", "up", "", "down"], &["y"])
            .of(CONTRIBUTED)
            .with("k", chosen);
        let constants = vec![
            zeros("up", FLOAT, &[count, 128, 64]),
            zeros("down", FLOAT, &[count, 64, 128]),
        ];
        one(inputs.clone(), constants, moe)
    };
    let of_one = 8.0 * (2.0 * 2.0 * 64.0 * 128.0 + 8.0 * 128.0);
    let weights = 4.0 * 2.0 * 64.0 * 128.0;
    for (count, chosen) in [(1, 1), (8, 2), (8, 8)] {
        let spec = experts(count, chosen);
        let found = layer(&spec, "it");
        let (count, chosen) = (count as f64, chosen as f64);
        assert_eq!(forward(found)[0], chosen * of_one);
        assert_eq!(found.parameter_bytes, count * weights);
        let read = count * (1.0 - (1.0 - chosen / count).powi(8)) * weights;
        let moved = read + 4.0 * (2.0 * 512.0 + 64.0);
        assert!(
            (forward(found)[1] / moved - 1.0).abs() < 1e-12,
            "{} {moved}",
            forward(found)[1]
        );
        // Nothing before it learns, so that backward it has the gradient of its weights alone.
        assert_eq!(backward(found)[0], forward(found)[0]);
    }
    // Four bits a weight: half a byte each.
    let moe = node("QMoE", &["q", "r", "up", "us", "", "down", "ds"], &["y"])
        .of(CONTRIBUTED)
        .with("k", 2)
        .with("expert_weight_bits", 4);
    let constants = vec![
        zeros("up", BYTE, &[8, 128, 32]),
        zeros("us", FLOAT, &[8, 128]),
        zeros("down", BYTE, &[8, 64, 64]),
        zeros("ds", FLOAT, &[8, 64]),
    ];
    let spec = one(inputs, constants, moe);
    assert_eq!(forward(layer(&spec, "it"))[0], 2.0 * of_one);
    assert_eq!(
        layer(&spec, "it").resident_bytes,
        8.0 * (128.0 * 32.0 + 64.0 * 64.0 + 4.0 * (128.0 + 64.0))
    );
}

/// Files of today's models, where they are.
fn case(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data/cases/turn3/onnx")
        .join(name);
    let there = path.exists();
    if !there {
        eprintln!("skipped: no {name}");
    }
    there.then_some(path)
}

#[test]
fn files_of_todays_models() {
    let square = |side: f64| 2.0 * side * side;
    for (name, layers, flops, held) in [
        (
            "if.onnx",
            vec!["pre", "branch", "join"],
            2.0 * square(64.0) + 64.0,
            3.0 * 16_384.0,
        ),
        (
            "functions.onnx",
            vec![
                "layers.0/MatMul",
                "layers.0/Relu",
                "layers.1/MatMul",
                "layers.1/Relu",
            ],
            8.0 * square(64.0) + 2.0 * 256.0,
            2.0 * 16_384.0,
        ),
        (
            "new23.onnx",
            vec!["/layers.0/norm", "/layers.0/q", "/layers.0/attn", "/layers.0/o"],
            8.0 * 512.0 + 16.0 * square(64.0) + 4.0 * 64.0 * (4.0 * 16.0 + 5.0),
            2.0 * 16_384.0 + 256.0,
        ),
    ] {
        let Some(path) = case(name) else { continue };
        let (spec, _) = read_spec(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(ids(&spec), layers, "{name}");
        let found: f64 = spec.network.layers.iter().map(|layer| forward(layer)[0]).sum();
        assert_eq!(found, flops, "{name}");
        let bytes: f64 = spec
            .network
            .layers
            .iter()
            .map(|layer| layer.parameter_bytes + layer.resident_bytes)
            .sum();
        assert_eq!(bytes, held, "{name}");
    }
    if let Some(path) = case("four-bit.onnx") {
        let (spec, notes) = read_spec(&path).unwrap();
        for at in 0..8 {
            let found = layer(&spec, &format!("/layers.{at}/MatMulNBits"));
            assert_eq!(forward(found)[0], 128.0 * square(256.0));
            assert_eq!(found.resident_bytes, 256.0 * 8.0 * 16.0 + 4.0 * 2048.0);
        }
        assert!(
            notes
                .iter()
                .all(|note| !note.to_string().contains("without a rule")),
            "{notes:?}"
        );
    }
    for (name, reason) in [
        ("int4.onnx", "element type INT4"),
        ("seqdyn.onnx", "no number for `sequence`"),
    ] {
        let Some(path) = case(name) else { continue };
        let faults = read_spec(&path).expect_err(name).faults;
        assert_eq!(faults.len(), 1, "{name}: {faults:?}");
        assert!(faults[0].to_string().contains(reason), "{name}: {}", faults[0]);
    }
}
