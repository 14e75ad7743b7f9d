//! The ONNX importer: functions, bodies of control flow, symbolic lengths; each held against the same written out.
#![cfg(feature = "onnx")]

use crate::onnx_written::*;

fn x() -> Vec<tract_onnx::pb::ValueInfoProto> {
    vec![value("x", FLOAT, &["4", "64"])]
}

/// A function that calls another, with attributes by their names, is what it does.
#[test]
fn calls_are_what_functions_do() {
    let mut called = Written::new(
        x(),
        vec![zeros("w", FLOAT, &[64, 64]), zeros("v", FLOAT, &[64, 64])],
        vec![
            node("Block", &["x", "w"], &["a"])
                .of("own")
                .named("first")
                .with("axis", 1),
            node("Block", &["a", "v"], &["b"])
                .of("own")
                .named("second")
                .with("axis", 0),
        ],
    );
    called.functions = vec![
        function(
            "Block",
            &["in", "weight"],
            &["out"],
            vec![
                node("MatMul", &["in", "weight"], &["t"]),
                node("Norm", &["t"], &["out"])
                    .of("own")
                    .named("norm")
                    .given("axis", "axis"),
            ],
        ),
        function(
            "Norm",
            &["in"],
            &["out"],
            vec![
                node("Softmax", &["in"], &["s"]).given("axis", "axis"),
                node("Relu", &["s"], &["out"]).named("relu"),
            ],
        ),
    ];
    let called = called.read();
    let names = [
        "first/MatMul",
        "first/norm/Softmax",
        "first/norm/relu",
        "second/MatMul",
        "second/norm/Softmax",
        "second/norm/relu",
    ];
    assert_eq!(ids(&called), names);
    let plain = Written::new(
        x(),
        vec![zeros("w", FLOAT, &[64, 64]), zeros("v", FLOAT, &[64, 64])],
        vec![
            node("MatMul", &["x", "w"], &["t"]).named(names[0]),
            node("Softmax", &["t"], &["s"]).named(names[1]).with("axis", 1),
            node("Relu", &["s"], &["a"]).named(names[2]),
            node("MatMul", &["a", "v"], &["t2"]).named(names[3]),
            node("Softmax", &["t2"], &["s2"]).named(names[4]).with("axis", 0),
            node("Relu", &["s2"], &["b"]).named(names[5]),
        ],
    );
    assert_eq!(called.network, plain.read().network);
}

#[test]
fn functions_without_end_are_refused() {
    let mut model = Written::new(x(), vec![], vec![node("F", &["x"], &["y"]).of("own")]);
    model.functions = vec![function(
        "F",
        &["a"],
        &["b"],
        vec![node("F", &["a"], &["b"]).of("own")],
    )];
    assert!(
        model.fault().contains("more than 32 bodies or calls"),
        "{}",
        model.fault()
    );
    // Thirty functions that call the next one twice.
    let twice = |at: usize| {
        let next = format!("F{}", at + 1);
        let nodes = vec![
            node(&next, &["a"], &["t"]).of("own"),
            node(&next, &["t"], &["b"]).of("own"),
        ];
        function(&format!("F{at}"), &["a"], &["b"], nodes)
    };
    model.graph.node = vec![node("F0", &["x"], &["y"]).of("own")];
    model.functions = (0..30).map(twice).collect();
    assert!(
        model.fault().contains("more than 200000 nodes"),
        "{}",
        model.fault()
    );
}

/// A product with weights of its own, of so many inputs, on what stands outside.
fn branch(name: &str, inner: i64) -> tract_onnx::pb::GraphProto {
    let weights = [zeros("w", FLOAT, &[64, inner]), zeros("v", FLOAT, &[inner, 64])];
    let nodes = vec![
        node("MatMul", &["a", "w"], &["t"]),
        node("MatMul", &["t", "v"], &[name]),
    ];
    graph(vec![], weights.to_vec(), nodes, &[name])
}

#[test]
fn of_branches_the_largest_counts_and_all_weights_are_held() {
    let inputs = vec![value("x", FLOAT, &["4", "64"]), value("c", BOOL, &[])];
    let choice = |condition: &str| {
        node("If", &[condition], &["y"])
            .named("choice")
            .body("then_branch", branch("p", 32))
            .body("else_branch", branch("q", 128))
    };
    let nodes = |condition: &str| {
        vec![
            node("Relu", &["x"], &["a"]).named("before"),
            choice(condition),
            node("Add", &["a", "y"], &["z"]).named("behind"),
        ]
    };
    let spec = Written::new(inputs.clone(), vec![], nodes("c")).read();
    assert_eq!(ids(&spec), ["before", "choice", "behind"]);
    let found = layer(&spec, "choice");
    assert_eq!(forward(found)[0], 2.0 * 2.0 * 4.0 * 64.0 * 128.0);
    assert_eq!(found.parameter_bytes, 4.0 * 2.0 * 64.0 * (32.0 + 128.0));
    assert!(found.reads_input, "the condition is an input of the network");
    // It reads what its branches read.
    let read = spec
        .network
        .tensors
        .iter()
        .find(|tensor| tensor.producer == "before")
        .unwrap();
    assert_eq!(read.consumers, ["choice", "behind"]);
    // A constant takes a branch.
    let mut then = zeros("c", BOOL, &[]);
    then.raw_data = vec![1];
    let spec = Written::new(inputs[..1].to_vec(), vec![then], nodes("c")).read();
    assert_eq!(forward(layer(&spec, "choice"))[0], 2.0 * 2.0 * 4.0 * 64.0 * 32.0);
}

fn looped(limit: &str, outputs: &[&str]) -> tract_onnx::pb::NodeProto {
    let body = graph(
        vec![
            value("i", LONG, &[]),
            value("c", BOOL, &[]),
            value("s", FLOAT, &["4", "64"]),
        ],
        vec![zeros("w", FLOAT, &[64, 64])],
        vec![
            node("MatMul", &["s", "w"], &["t"]),
            node("Identity", &["c"], &["d"]),
        ],
        &["d", "t", "t"],
    );
    node("Loop", &[limit, "", "a"], outputs)
        .named("loop")
        .body("body", body)
}

#[test]
fn loops_have_the_work_of_their_trips() {
    let relu = node("Relu", &["x"], &["a"]);
    let nodes = vec![
        relu.clone(),
        looped("m", &["y", "all"]),
        node("Exp", &["all"], &["z"]).named("behind"),
    ];
    let spec = Written::new(x(), vec![long("m", &[], &[5])], nodes.clone()).read();
    let found = layer(&spec, "loop");
    let once = Written::new(
        x(),
        vec![zeros("w", FLOAT, &[64, 64])],
        vec![relu, node("MatMul", &["a", "w"], &["y"]).named("once")],
    )
    .read();
    let once = layer(&once, "once");
    assert_eq!(forward(found), forward(once).map(|one| 5.0 * one));
    // From the second trip on what it is handed has a gradient, so each trip has two products backward.
    assert_eq!(backward(found)[0], 5.0 * 2.0 * forward(once)[0]);
    assert_eq!(found.parameter_bytes, 4.0 * 64.0 * 64.0);
    assert_eq!(found.stash_bytes, 5.0 * once.stash_bytes);
    // What trips add is five times as long.
    assert_eq!(forward(layer(&spec, "behind"))[0], 4.0 * 5.0 * 4.0 * 64.0);
    // A limit that means none, and one that nobody knows.
    for limit in [i64::MAX, 1 << 40] {
        let model = Written::new(
            x(),
            vec![long("m", &[], &[limit])],
            vec![nodes[0].clone(), looped("m", &["y"])],
        );
        let fault = model.fault();
        assert!(
            fault.contains("node `loop` (Loop): found no number of trips"),
            "{fault}"
        );
    }
    let inputs = [x(), vec![value("m", LONG, &[])]].concat();
    let fault = Written::new(inputs, vec![], nodes).fault();
    assert!(
        fault.contains("output `all`") || fault.contains("number of trips"),
        "{fault}"
    );
}

#[test]
fn trips_that_shapes_say_are_known() {
    // As many as the input has rows.
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Shape", &["x"], &["lengths"]),
        node("Gather", &["lengths", "zero"], &["m"]),
        looped("m", &["y"]),
    ];
    let spec = Written::new(x(), vec![long("zero", &[], &[0])], nodes).read();
    assert_eq!(forward(layer(&spec, "loop"))[0], 4.0 * 2.0 * 4.0 * 64.0 * 64.0);
}

#[test]
fn loops_whose_tensors_grow_are_refused() {
    let body = graph(
        vec![
            value("i", LONG, &[]),
            value("c", BOOL, &[]),
            value("s", FLOAT, &["4", "64"]),
        ],
        vec![],
        vec![
            node("Concat", &["s", "s"], &["t"]).with("axis", 0),
            node("Identity", &["c"], &["d"]),
        ],
        &["d", "t"],
    );
    let grows = node("Loop", &["m", "", "x"], &["y"])
        .named("grows")
        .body("body", body);
    let fault = Written::new(x(), vec![long("m", &[], &[3])], vec![grows]).fault();
    assert!(
        fault.contains("node `grows` (Loop)") && fault.contains("only loops that keep shapes"),
        "{fault}"
    );
}

/// Weights of all layers in one tensor, of which each trip gets its own, as JAX writes models.
#[test]
fn scans_read_a_part_a_trip_and_hold_all() {
    let body = graph(
        vec![value("s", FLOAT, &["4", "64"]), value("w", FLOAT, &["64", "64"])],
        vec![],
        vec![node("MatMul", &["s", "w"], &["t"])],
        &["t", "t"],
    );
    let scan = node("Scan", &["x", "stack"], &["y", "each"])
        .named("scan")
        .with("num_scan_inputs", 1)
        .body("body", body);
    let spec = Written::new(
        x(),
        vec![zeros("stack", FLOAT, &[7, 64, 64])],
        vec![scan, node("Exp", &["each"], &["z"]).named("behind")],
    )
    .read();
    let found = layer(&spec, "scan");
    assert_eq!(forward(found)[0], 7.0 * 2.0 * 4.0 * 64.0 * 64.0);
    assert_eq!(found.parameter_bytes, 4.0 * 7.0 * 64.0 * 64.0);
    assert_eq!(forward(layer(&spec, "behind"))[0], 4.0 * 7.0 * 4.0 * 64.0);
}

#[test]
fn bodies_in_bodies() {
    let inner = graph(
        vec![
            value("i", LONG, &[]),
            value("c", BOOL, &[]),
            value("s", FLOAT, &["4", "64"]),
        ],
        vec![zeros("w", FLOAT, &[64, 64])],
        vec![
            node("MatMul", &["s", "w"], &["t"]),
            node("Identity", &["c"], &["d"]),
        ],
        &["d", "t"],
    );
    let then = graph(
        vec![],
        vec![long("m", &[], &[3])],
        vec![node("Loop", &["m", "", "a"], &["r"]).body("body", inner)],
        &["r"],
    );
    let other = graph(vec![], vec![], vec![node("Relu", &["a"], &["r"])], &["r"]);
    let choice = node("If", &["c"], &["y"])
        .named("choice")
        .body("then_branch", then)
        .body("else_branch", other);
    let inputs = [x(), vec![value("c", BOOL, &[])]].concat();
    let spec = Written::new(inputs, vec![], vec![node("Relu", &["x"], &["a"]), choice]).read();
    assert_eq!(forward(layer(&spec, "choice"))[0], 3.0 * 2.0 * 4.0 * 64.0 * 64.0);
    assert_eq!(layer(&spec, "choice").parameter_bytes, 4.0 * 64.0 * 64.0);
}

#[test]
fn other_bodies_and_missing_ones_are_refused() {
    let body = graph(vec![], vec![], vec![], &[]);
    let own = node("BeamSearch", &["x"], &["y"])
        .named("search")
        .of("com.microsoft")
        .body("decoder", body);
    let fault = Written::new(x(), vec![], vec![own]).fault();
    assert!(
        fault.contains("node `search` (BeamSearch): found a body"),
        "{fault}"
    );
    let fault = Written::new(x(), vec![], vec![node("If", &["x"], &["y"])]).fault();
    assert!(fault.contains("found no graph in `then_branch`"), "{fault}");
}

/// One real fault brings no second one.
#[test]
fn faults_are_told_once() {
    let mut packed = zeros("w", FLOAT, &[64, 64]);
    packed.data_type = 22;
    let fault = Written::new(x(), vec![packed], vec![node("MatMul", &["x", "w"], &["y"])]).fault();
    assert!(
        fault.contains("initializer `w`: found element type INT4"),
        "{fault}"
    );
    // A symbol that three inputs have, and what reads them.
    let lengths = ["batch", "sequence", "64"];
    let inputs = ["a", "b", "c"].map(|name| value(name, FLOAT, &lengths)).to_vec();
    let fault = Written::new(
        inputs,
        vec![],
        vec![
            node("Sum", &["a", "b", "c"], &["y"]),
            node("Relu", &["y"], &["z"]),
        ],
    )
    .fault();
    assert!(
        fault.contains("input `a`: found no number for `sequence`"),
        "{fault}"
    );
    // An operator that nothing is known of, eight times in a row.
    let mystery = |i: usize| node("Mystery", &[&format!("t{i}")], &[&format!("t{}", i + 1)]).of("own");
    let nodes = std::iter::once(node("Relu", &["x"], &["t0"]))
        .chain((0..8).map(mystery))
        .collect();
    let fault = Written::new(x(), vec![], nodes).fault();
    assert!(fault.contains("`Mystery` is not known"), "{fault}");
    // A tensor that nobody makes, read twice.
    let fault = Written::new(
        x(),
        vec![],
        vec![node("Add", &["x", "z"], &["y"]), node("Mul", &["y", "z"], &["w"])],
    )
    .fault();
    assert!(fault.contains("found input `z`"), "{fault}");
}
