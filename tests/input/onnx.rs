//! The ONNX importer: known networks against published counts.
#![cfg(feature = "onnx")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use stagecut::import::{read_cluster, read_spec};
use stagecut::instance::Instance;
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Networks of `instances/`: multiply-adds of convolutions and products in units of 10^9, and learned parameters.
///
/// Multiply-adds were counted with the shape inference of the `onnx` package 1.23.2, which shares no code with ours.
/// Parameters are the published counts of the architectures (torchvision's for ResNet-50, VGG-19, SqueezeNet 1.1 and
/// DenseNet-121; the Caffe model zoo's for AlexNet and GoogLeNet), else counted in the same way.
const NETWORKS: &[(&str, f64, f64)] = &[
    ("alexnet", 0.6546, 60_965_224.0),
    ("densenet121", 2.8342, 7_978_856.0),
    ("googlenet", 1.4316, 6_998_552.0),
    ("inception_v2", 2.0189, 11_194_984.0),
    ("resnet50", 4.0892, 25_557_032.0),
    ("shufflenet", 0.1247, 1_393_320.0),
    ("squeezenet", 0.3492, 1_235_496.0),
    ("vgg19", 19.6321, 143_667_240.0),
    ("zfnet", 1.4817, 87_250_536.0),
];

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("instances/{name}.onnx"))
}

fn import(name: &str) -> (InstanceSpec, Vec<stagecut::fault::Words>) {
    read_spec(&model(name)).unwrap_or_else(|error| panic!("{name}: {error}: {:?}", error.faults))
}

fn is_product(layer: &LayerSpec) -> bool {
    ["Conv", "Gemm"].contains(&layer.operator.as_deref().unwrap_or_default())
}

#[test]
fn networks_have_their_published_size() {
    for &(name, multiply_adds, parameters) in NETWORKS {
        let (spec, _) = import(name);
        let layers = &spec.network.layers;
        let flops: f64 = layers
            .iter()
            .filter(|l| is_product(l))
            .map(|l| l.work.as_ref().unwrap().forward_flops)
            .sum();
        let bytes: f64 = layers.iter().map(|layer| layer.parameter_bytes).sum();
        println!(
            "{name}: {} layers, {:.4} GMAC, {} parameters",
            layers.len(),
            flops / 2e9,
            bytes / 4.0
        );
        approx::assert_relative_eq!(flops / 2e9, multiply_adds, max_relative = 0.01);
        // DenseNet-121 and Inception-v2 carry scale and shift twice, in the normalisation and after it.
        approx::assert_relative_eq!(bytes / 4.0, parameters, max_relative = 0.02);
    }
}

#[test]
fn networks_are_valid_instances() {
    for &(name, ..) in NETWORKS {
        let (spec, _) = import(name);
        let ids: HashSet<&str> = spec
            .network
            .layers
            .iter()
            .map(|layer| layer.id.as_str())
            .collect();
        assert_eq!(ids.len(), spec.network.layers.len(), "{name}");
        // Building refuses cycles, unknown names and sums out of range.
        let instance = Instance::read(&model(name), None).unwrap();
        assert!(
            instance
                .network
                .layers
                .iter()
                .any(|layer| layer.times[0].unwrap().backward_ns > 0)
        );
        // Networks of one input and one output are connected: all but the last layer feed another one.
        let feeding: HashSet<&str> = spec.network.tensors.iter().map(|t| t.producer.as_str()).collect();
        assert_eq!(feeding.len(), ids.len() - 1, "{name}");
        assert!(spec.network.tensors.iter().all(|t| t.bytes.unwrap() > 0.0));
    }
}

#[test]
fn constants_are_folded() {
    let (spec, notes) = import("densenet121");
    assert!(
        spec.network
            .layers
            .iter()
            .all(|l| !["ConstantOfShape", "Unsqueeze"].contains(&l.operator.as_deref().unwrap()))
    );
    // 836 weights made by ConstantOfShape, 242 of them unsqueezed.
    assert!(
        notes
            .iter()
            .any(|note| note.to_string().starts_with("1078 nodes that compute constants")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.to_string().contains("`v100`")));
}

#[test]
fn the_first_layer_of_alexnet_is_counted_by_hand() {
    let (spec, _) = import("alexnet");
    let [first, relu, lrn, pool, second, ..] = &spec.network.layers[..] else {
        panic!("few layers")
    };
    // 96 kernels of 3 x 11 x 11 on 54 x 54 positions; a multiply-add is two operations, the bias one.
    let positions = 96.0 * 54.0 * 54.0;
    let work = first.work.clone().unwrap();
    assert_eq!(work.forward_flops, positions * (2.0 * 363.0 + 1.0));
    assert_eq!(
        work.forward_bytes,
        4.0 * (150_528.0 + positions + 96.0 * 363.0 + 96.0)
    );
    // Nobody asks for the gradient of the data.
    assert_eq!(work.backward_flops, work.forward_flops);
    assert_eq!(first.parameter_bytes, 4.0 * (96.0 * 363.0 + 96.0));
    assert_eq!(first.stash_bytes, 4.0 * 150_528.0);
    assert_eq!(
        (relu.operator.as_deref(), relu.stash_bytes),
        (Some("Relu"), positions)
    );
    assert_eq!(
        (lrn.operator.as_deref(), lrn.stash_bytes),
        (Some("LRN"), 8.0 * positions)
    );
    assert_eq!(
        (pool.operator.as_deref(), pool.stash_bytes),
        (Some("MaxPool"), 8.0 * 96.0 * 26.0 * 26.0)
    );
    // Two groups: each of the 256 outputs sees 48 channels of 5 x 5.
    let work = second.work.clone().unwrap();
    assert_eq!(
        work.forward_flops,
        256.0 * 26.0 * 26.0 * (2.0 * 48.0 * 25.0 + 1.0)
    );
    assert_eq!(work.backward_flops, 2.0 * work.forward_flops);
    let bytes: Vec<f64> = spec.network.tensors[..4]
        .iter()
        .map(|t| t.bytes.unwrap())
        .collect();
    assert_eq!(
        bytes,
        [positions, positions, positions, 96.0 * 26.0 * 26.0].map(|n| 4.0 * n)
    );
}

#[test]
fn backward_is_twice_forward_only_for_inner_products() {
    for &(name, ..) in NETWORKS {
        let (spec, _) = import(name);
        for (i, layer) in spec.network.layers.iter().enumerate() {
            let work = layer.work.clone().unwrap();
            let flops = work.backward_flops / work.forward_flops;
            let bytes = work.backward_bytes / work.forward_bytes;
            match layer.operator.as_deref().unwrap() {
                "Conv" if i == 0 => assert_eq!((flops, bytes), (1.0, 1.0), "{name}"),
                "Conv" | "Gemm" => assert_eq!((flops, bytes), (2.0, 2.0), "{name} {}", layer.id),
                // Reads the gradient and a mask of one byte, writes a gradient: nine bytes for eight.
                "Relu" => assert_eq!((flops, bytes), (1.0, 1.125), "{name} {}", layer.id),
                "Add" | "Mul" | "Sum" => assert!(bytes < 1.6, "{name} {} {bytes}", layer.id),
                "Reshape" => assert_eq!((work.forward_bytes, work.backward_bytes), (0.0, 0.0)),
                _ => {}
            }
            // The first layer learns and hands nothing on; the others do both, where they have weights.
            let weights = [
                work.weight_flops / work.backward_flops,
                work.weight_bytes / work.backward_bytes,
            ];
            match layer.operator.as_deref().unwrap() {
                "Conv" | "Gemm" if i > 0 => assert_eq!(weights, [0.5; 2], "{name} {}", layer.id),
                "Conv" => assert_eq!(weights, [1.0; 2], "{name}"),
                _ => assert_eq!(
                    (work.weight_flops, work.weight_bytes),
                    (0.0, 0.0),
                    "{name} {}",
                    layer.id
                ),
            }
        }
        let instance = Instance::read(&model(name), None).unwrap();
        let first = instance.network.layers[0].times[0].unwrap();
        assert_eq!(first.backward_ns, first.forward_ns, "{name}");
    }
}

#[test]
fn presets_are_valid() {
    for name in ["v100", "a100", "h100", "t4", "titan-x"] {
        let cluster = read_cluster(name).unwrap();
        assert_eq!(
            (cluster.device_kinds.len(), cluster.device_kinds[0].name.as_str()),
            (1, name)
        );
        Instance::read(&model("alexnet"), Some(name)).unwrap();
    }
    assert!(
        read_cluster("v10").unwrap_err().faults[0]
            .to_string()
            .contains("v10")
    );
}
