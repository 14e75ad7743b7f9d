//! Importers of what profilers write, on small files in their forms: times that can be worked out by hand, and there and back.

use crate::common::command::Folder;
use serde_json::Value;
use stagecut::import::read_spec;
use stagecut::options::Mode;
use stagecut::spec::{InstanceSpec, LayerSpec};

/// A file of a profiler, and what lies beside it.
struct Profile {
    file: &'static str,
    contents: &'static str,
    beside: Option<(&'static str, &'static str)>,
}

const fn alone(file: &'static str, contents: &'static str) -> Profile {
    Profile {
        file,
        contents,
        beside: None,
    }
}

const GALVATRON: Profile = Profile {
    file: "computation_profiling_bf16_net_all.json",
    contents: include_str!("../fuzz/seeds/galvatron.json"),
    beside: Some((
        "memory_profiling_bf16_net.json",
        include_str!("../fuzz/seeds/galvatron-memory.json"),
    )),
};
const TRACE: Profile = alone("trace.json", include_str!("../fuzz/seeds/trace.json"));
const DEEPSPEED: Profile = alone("profile.txt", include_str!("../fuzz/seeds/deepspeed.txt"));
const NSIGHT: Profile = alone("ranges.csv", include_str!("../fuzz/seeds/nsight.csv"));
const VIDUR: Profile = alone("mlp.csv", include_str!("../fuzz/seeds/vidur.csv"));
const AICONFIGURATOR: Profile = alone("gemm_perf.txt", include_str!("../fuzz/seeds/aiconfigurator.csv"));

fn folder(profile: &Profile) -> Folder {
    let folder = Folder::with(profile.file, profile.contents);
    if let Some((name, contents)) = profile.beside {
        folder.write(name, contents);
    }
    folder
}

fn read(profile: &Profile) -> (InstanceSpec, String) {
    let folder = folder(profile);
    let (spec, notes) = read_spec(&folder.path(profile.file))
        .unwrap_or_else(|error| panic!("{}: {:?}", profile.file, error.faults));
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    (spec, notes.join("\n"))
}

/// Names, and ms forward and backward.
fn times(spec: &InstanceSpec) -> Vec<(&str, Option<f64>, Option<f64>)> {
    let of = |layer: &LayerSpec| (layer.forward_ms, layer.backward_ms);
    let layers = spec.network.layers.iter();
    layers
        .map(|layer| (layer.id.as_str(), of(layer).0, of(layer).1))
        .collect()
}

/// Producers, consumers and bytes.
fn chain(spec: &InstanceSpec) -> Vec<(&str, &str, Option<f64>)> {
    let tensors = spec.network.tensors.iter();
    tensors
        .map(|tensor| {
            (
                tensor.producer.as_str(),
                tensor.consumers[0].as_str(),
                tensor.bytes,
            )
        })
        .collect()
}

#[test]
fn galvatrons_layers() {
    let (spec, notes) = read(&GALVATRON);
    // Two sequences of 3 ms each, and twice as long back; three layers, as the file says.
    let layer = |name| (name, Some(6.0), Some(12.0));
    assert_eq!(
        times(&spec),
        [
            layer("layer0"),
            layer("layer1"),
            layer("layer2"),
            ("other", Some(8.0), Some(16.0))
        ]
    );
    let mib = 1_048_576.0;
    let first = &spec.network.layers[0];
    assert_eq!(
        (first.parameter_bytes, first.stash_bytes),
        (48.0 * mib, 2.0 * 100.5 * mib)
    );
    assert_eq!(chain(&spec)[0], ("layer0", "layer1", Some(8.0 * mib)));
    assert!(
        notes.contains("micro-batches of 2 sequences of 1024 tokens, of the 2 sizes")
            && notes.contains("memory_profiling_bf16_net.json"),
        "{notes}"
    );
    // Another size, and no word of how many layers there are.
    let other = GALVATRON.contents.replace("\"n_layers\": 3", "\"bsz\": 4");
    let folder = Folder::with("times.json", other);
    let (spec, _) = read_spec(&folder.path("times.json")).expect("a profile");
    assert_eq!(times(&spec)[0], ("layer0", Some(10.0), Some(20.0)));
    assert_eq!(
        (times(&spec).len(), spec.network.layers[0].parameter_bytes),
        (5, 0.0)
    );
}

#[test]
fn ranges_of_torch() {
    let (spec, notes) = read(&TRACE);
    assert_eq!(
        times(&spec),
        [
            // Of 1, 1.2 and 9 ms; gradients of weights beside the backward pass are added to it.
            ("encoder", Some(1.2), Some(2.5)),
            ("head", Some(2.0), Some(4.0))
        ]
    );
    let weights: Vec<_> = spec.network.layers.iter().map(|layer| layer.weight_ms).collect();
    assert_eq!(weights, [Some(0.5), Some(1.5)]);
    assert_eq!(chain(&spec), [("encoder", "head", None)]);
    assert!(
        notes.contains("ranges that hold those of other layers are left out: `model`"),
        "{notes}"
    );
    // What the GPU ran counts where it was traced, not what launched it.
    let on_gpu = r#"{ "ph": "X", "cat": "gpu_user_annotation", "name": "encoder/forward", "pid": 0, "tid": 7, "ts": 5, "dur": 3000 },
    { "ph": "M", "name": "process_name""#;
    let traced = TRACE
        .contents
        .replace("{ \"ph\": \"M\", \"name\": \"process_name\"", on_gpu);
    let folder = Folder::with("trace.json", traced);
    let (spec, _) = read_spec(&folder.path("trace.json")).expect("a trace");
    assert_eq!(times(&spec), [("encoder", Some(3.0), None)]);
    assert_eq!(spec.pipeline.mode, Some(Mode::Inference));
}

/// What `tools/trace_torch.py` made of four modules on a CPU with torch 2.10: three steps, most of its operators left out.
#[test]
fn a_trace_that_torch_wrote() {
    let folder = Folder::with("trace.json", include_str!("../fuzz/seeds/torch-trace.json"));
    let (spec, _) = read_spec(&folder.path("trace.json")).expect("a trace");
    let rounded = |ms: Option<f64>| ms.map(|ms| (1e6 * ms).round() / 1e6);
    let found: Vec<_> = times(&spec)
        .into_iter()
        .map(|(id, forward, backward)| (id, rounded(forward), rounded(backward)))
        .collect();
    assert_eq!(
        found,
        [
            ("0", Some(1.349769), Some(24.115542)),
            ("1", Some(0.380079), Some(0.46623)),
            ("2", Some(1.067412), Some(2.532796)),
            ("3", Some(0.268771), Some(0.420765))
        ]
    );
}

#[test]
fn ranges_of_nsight() {
    let expected = [("encoder", Some(2.1), Some(4.0)), ("head", Some(1.0), Some(2.5))];
    let (spec, _) = read(&NSIGHT);
    assert_eq!(times(&spec), expected);
    // The report of what the CPU did has other columns.
    let rows = "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree
100,2000100,2000000,0,2000000,:a/forward,1,1,0,0,1,,:1,:a/forward
3000000,4500000,1500000,0,1500000,:b/forward,1,1,0,0,2,,:2,:b/forward
";
    let folder = Folder::with("cpu.csv", rows);
    let (spec, _) = read_spec(&folder.path("cpu.csv")).expect("a report");
    assert_eq!(times(&spec), [("a", Some(2.0), None), ("b", Some(1.5), None)]);
}

#[test]
fn modules_of_deepspeed() {
    let (spec, notes) = read(&DEEPSPEED);
    assert_eq!(
        times(&spec),
        [
            ("embedding", Some(0.25), Some(0.375)),
            ("encoder.layers.0", Some(1.9), Some(1.5 * 1.9)),
            ("encoder.layers.1", Some(2.1), Some(1.5 * 2.1)),
            ("head", Some(0.75), Some(1.125))
        ]
    );
    let block = &spec.network.layers[1];
    assert_eq!(
        (block.operator.as_deref(), block.parameter_bytes),
        (Some("Block"), 2_100_000.0)
    );
    assert_eq!(block.work.as_ref().map(|work| work.forward_flops), Some(4e9));
    assert!(notes.contains("1.500 times its forward pass"), "{notes}");
    // Older releases print commas for equal signs, and no latency of the pass back.
    let older = DEEPSPEED
        .contents
        .replace(" = ", ", ")
        .replace("bwd latency:", "other:");
    let folder = Folder::with("older.log", older);
    let (spec, notes) = read_spec(&folder.path("older.log")).expect("a profile");
    assert_eq!(times(&spec)[1], ("encoder.layers.0", Some(1.9), Some(3.8)));
    assert!(
        notes
            .iter()
            .any(|note| note.to_string().contains("twice its forward pass")),
        "{notes:?}"
    );
}

#[test]
fn operators_of_vidur() {
    let (spec, notes) = read(&VIDUR);
    let modes = |id: &str| -> Vec<(Option<usize>, Option<f64>, f64)> {
        let layer = spec.network.layers.iter().find(|layer| layer.id == id);
        let modes = layer.expect("an operator").modes.iter();
        modes
            .map(|mode| (mode.tensor, mode.forward_ms, mode.parameter_bytes))
            .collect()
    };
    // Medians of two rows; heads of 64 numbers, eight of queries and four each of keys and values.
    assert_eq!(
        modes("attn_pre_proj"),
        [
            (Some(1), Some(0.62), 1_048_576.0),
            (Some(2), Some(0.3), 524_288.0)
        ]
    );
    assert_eq!(modes("emb")[0], (Some(1), Some(0.13), 1_024_000.0));
    assert_eq!(modes("mlp_up_proj")[0].1, Some(1.0));
    assert_eq!(
        chain(&spec)[3],
        ("mlp_act", "mlp_down_proj", Some(2.0 * 2048.0 * 2048.0))
    );
    assert_eq!(spec.pipeline.mode, Some(Mode::Inference));
    assert!(notes.contains("for 2048 tokens"), "{notes}");
}

#[test]
fn operators_of_aiconfigurator() {
    let (spec, _) = read(&AICONFIGURATOR);
    let layers = &spec.network.layers;
    let ids: Vec<&str> = layers.iter().map(|layer| layer.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "gemm gemm_dtype=bfloat16 m=1024 n=4096 k=4096",
            "gemm gemm_dtype=bfloat16 m=2048 n=4096 k=4096",
            "gemm gemm_dtype=bfloat16 m=4096 n=4096 k=4096",
            "gemm gemm_dtype=fp8 m=4096 n=4096 k=4096"
        ]
    );
    let on = |layer: usize, device: &str| layers[layer].times.get(device).and_then(|times| times.forward_ms);
    assert_eq!(
        (on(0, "gpu-a"), on(0, "gpu-b"), on(2, "gpu-a"), on(2, "gpu-b")),
        (Some(0.15), Some(0.25), Some(0.58), None)
    );
    let work = layers[3].work.as_ref().expect("work of a product");
    let side = 4096.0_f64;
    assert_eq!(
        (work.forward_flops, work.forward_bytes),
        (2.0 * side.powi(3), 4.0 * side.powi(2))
    );
    assert!(spec.network.tensors.is_empty());

    // What the table is for: products attain so much of a device's peak.
    let folder = folder(&AICONFIGURATOR);
    let cluster = "device_kinds = [{ name = \"gpu-a\", flops_per_s = 312e12, memory_bytes_per_s = 2039e9 }]";
    folder.write("peaks.toml", cluster);
    let report = folder.succeed(&[
        "calibrate",
        "gemm_perf.txt",
        "--cluster",
        "peaks.toml",
        "--measured",
        "gemm_perf.txt",
        "--format",
        "json",
        "--quiet",
    ]);
    let report: Value = serde_json::from_str(&report).expect("a report");
    let part = report["cluster"]["device_kinds"][0]["efficiencies"]["gemm"].as_f64();
    assert!(part.is_some_and(|part| (0.7..=1.0).contains(&part)), "{report}");
}

/// What is written is what was read, and what was read can be planned.
#[test]
fn profiles_there_and_back() {
    for profile in [GALVATRON, TRACE, DEEPSPEED, NSIGHT, VIDUR, AICONFIGURATOR] {
        let folder = folder(&profile);
        folder.succeed(&["import", profile.file, "--output", "native.json"]);
        let native = folder.succeed(&["import", "native.json"]);
        let again = folder.succeed(&["import", profile.file]);
        let name = |text: &str| -> Value {
            let mut value: Value = serde_json::from_str(text).expect("an instance");
            value["name"] = Value::Null;
            value
        };
        assert_eq!(name(&native), name(&again), "{}", profile.file);
        let kinds = if profile.file == AICONFIGURATOR.file {
            &["--device-kinds", "gpu-a"][..]
        } else {
            &[]
        };
        folder.succeed(&[&["solve", profile.file, "--stages", "2", "--quiet"], kinds].concat());
    }
}
