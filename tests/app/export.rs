//! Exports: what they say of plans worked out by hand, that what moves is what the plan paid for, and that a plan which a
//! target cannot represent is refused.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::command::{Folder, json, snapshots, solved};
use crate::common::{problem_of, random_spec};
use serde_json::Value;
use stagecut::control::Control;
use stagecut::export::{TARGETS, find};
use stagecut::methods;
use stagecut::options::Communication;

/// Solves `file` into `plan.json`.
fn solve(folder: &Folder, file: &str, options: &[&str]) {
    let args = [
        "solve",
        file,
        "--format",
        "json",
        "--output",
        "plan.json",
        "--quiet",
    ];
    folder.succeed(&[&args[..], options].concat());
}

fn export(folder: &Folder, file: &str, target: &str) -> String {
    folder.succeed(&["export", file, "plan.json", "--to", target])
}

/// Refused with exit code 2 and all of these parts of a message.
fn refused(folder: &Folder, file: &str, target: &str, expected: &[&str]) {
    let run = folder.run(&["export", file, "plan.json", "--to", target]);
    crate::common::command::refused(&run, expected);
}

/// The plan inside an exported program.
fn plan_of(program: &str) -> Value {
    let (_, rest) = program.split_once("\nPLAN = ").expect("a plan in the program");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    values.next().expect("a value").expect("JSON")
}

/// A GPT-2 of 12 blocks in 4 stages.
fn blocks() -> Folder {
    let folder = crate::common::command::gpt2_blocks();
    solve(&folder, "net.json", &["--stages", "4"]);
    folder
}

#[test]
fn what_moves_in_a_small_plan() {
    let exported = export(&solved(), "net.toml", "json");
    snapshots("export").bind(|| insta::assert_snapshot!("json", exported));
}

#[test]
fn programs_hold_the_stages_of_the_plan() {
    let folder = solved();
    let run = include_str!("../../src/export/templates/torch_run.py");
    let (_, shared) = include_str!("../../tools/profile_torch.py")
        .split_once("`stagecut export --to torch` share ---\n")
        .expect("the beginning of what is shared");
    let (shared, _) = shared
        .split_once("# --- End of the shared part ---\n")
        .expect("its end");
    let torch = include_str!("../../src/export/templates/torch.py")
        .replace(
            "# --- Here stands the shared part of tools/profile_torch.py ---\n",
            shared,
        )
        .replace("# --- Here stands templates/torch_run.py ---\n", run);
    let onnx = include_str!("../../src/export/templates/onnx.py");
    for (target, template) in [("torch", torch.as_str()), ("onnx", onnx)] {
        let program = export(&folder, "net.toml", target);
        let plan = plan_of(&program);
        assert_eq!(plan["mode"], "training");
        let layers: Vec<&Value> = [0, 1].iter().map(|&k| &plan["stages"][k]["layers"]).collect();
        assert_eq!(layers, [&json(r#"["conv1", "conv2"]"#), &json(r#"["fc"]"#)]);
        assert_eq!(plan["stages"][1]["index"], 2);
        assert_eq!(plan["stages"][1]["devices"], json(r#"["gpu:2"]"#));
        let (before, after) = template.split_once("PLAN = {}").expect("a place for the plan");
        assert!(
            program.starts_with(before) && program.ends_with(after),
            "{target}"
        );
    }
}

#[test]
fn programs_go_to_a_file() {
    let folder = solved();
    let args = [
        "export",
        "net.toml",
        "plan.json",
        "--to",
        "torch",
        "--output",
        "split.py",
    ];
    assert_eq!(folder.succeed(&args), "");
    assert_eq!(folder.read("split.py"), export(&folder, "net.toml", "torch"));
}

#[test]
fn megatrons_layout() {
    let folder = blocks();
    let flags = |folder: &Folder| export(folder, "net.json", "megatron");
    let same = "--num-layers 12 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout";
    // The head, with all words, weighs as much as four blocks.
    let batch = "--seq-length 1024 --micro-batch-size 1";
    assert_eq!(flags(&folder), format!("{same} \"Et*4|t*4|t*4|L\" {batch}\n"));
    solve(&folder, "net.json", &["--stages", "2"]);
    let two = flags(&folder);
    assert!(two.contains("\"Et*8|t*4,L\""), "{two}");
}

/// Without embedding and head, those that Megatron has itself go to the ends.
#[test]
fn megatrons_own_embedding_and_head() {
    let folder = Folder::new();
    let generate = [
        "generate",
        "transformer",
        "--layers",
        "3",
        "--granularity",
        "block",
    ];
    folder.succeed(&[&generate[..], &["--output", "net.json"]].concat());
    solve(&folder, "net.json", &["--stages", "3", "--all-stages"]);
    let flags = export(&folder, "net.json", "megatron");
    assert!(flags.contains("\"Et|t|tL\""), "{flags}");
}

#[test]
fn megatron_builds_stacks_of_blocks_only() {
    // Blocks of other parameters are blocks all the same: a layout counts them.
    let flags = export(&solved(), "net.toml", "megatron");
    assert!(flags.contains("--num-layers 2 "), "{flags}");
    let folder = Folder::with("net.toml", crate::common::command::NET.replace("conv1", "conv"));
    solve(&folder, "net.toml", &["--stages", "2"]);
    refused(
        &folder,
        "net.toml",
        "megatron",
        &["no numbered blocks", "one stack"],
    );
    let folder = Folder::new();
    let generate = ["generate", "transformer", "--layers", "4", "--output", "net.json"];
    folder.succeed(&generate);
    solve(&folder, "net.json", &["--stages", "3"]);
    refused(
        &folder,
        "net.json",
        "megatron",
        &["found a block in parts, on stages", "--granularity block"],
    );
}

/// What is pasted: the layers of each stage, for servers and torchtitan.
#[test]
fn layers_a_stage_to_paste() {
    let folder = blocks();
    let torchtitan = export(&folder, "net.json", "torchtitan");
    snapshots("export").bind(|| insta::assert_snapshot!("torchtitan", torchtitan));
    refused(
        &folder,
        "net.json",
        "vllm",
        &[
            "found a plan for training",
            "`--mode inference`, which is all that `vllm` runs",
        ],
    );
    solve(&folder, "net.json", &["--stages", "2", "--mode", "inference"]);
    let vllm = export(&folder, "net.json", "vllm");
    let counts = vllm
        .strip_prefix("export VLLM_PP_LAYER_PARTITION=")
        .and_then(|rest| rest.strip_suffix("  # with --pipeline-parallel-size 2\n"))
        .expect("a line to paste");
    let sum: usize = counts
        .split(',')
        .map(|count| count.parse::<usize>().expect("a count"))
        .sum();
    assert_eq!((sum, counts.split(',').count()), (12, 2));
    let sglang = export(&folder, "net.json", "sglang");
    assert_eq!(
        sglang,
        format!("export SGLANG_PP_LAYER_PARTITION={counts}  # with --pp-size 2\n")
    );
    refused(&folder, "net.json", "torchtitan", &["found a plan for inference"]);
    // The head takes longer than any two blocks, so that it has a stage of its own; the embedding, which holds most, has another, since
    // that leaves the period and holds less than with a block beside it.
    solve(
        &folder,
        "net.json",
        &["--stages", "8", "--all-stages", "--mode", "inference"],
    );
    refused(&folder, "net.json", "sglang", &["stage 1: found no block"]);
    let unnumbered = &[
        "found no numbered blocks, or several kinds of them",
        "one stack of transformer blocks",
    ];
    let other = Folder::with(
        "net.toml",
        "[network]\nlayers = [{ id = \"a\", forward_ms = 1, backward_ms = 2 }, { id = \"b\", forward_ms = 1, backward_ms = 2 }]\n\
tensors = [{ producer = \"a\", consumers = [\"b\"] }]",
    );
    solve(&other, "net.toml", &["--stages", "2", "--mode", "inference"]);
    for target in ["vllm", "sglang"] {
        refused(&other, "net.toml", target, unnumbered);
    }
    solve(&other, "net.toml", &["--stages", "2"]);
    refused(&other, "net.toml", "torchtitan", unnumbered);
}

/// A chain of five layers of these names, planned in so many stages.
fn named(ids: [&str; 5], stages: &str) -> Folder {
    let layers = ids
        .map(|id| format!("{{ id = \"{id}\", forward_ms = 2 }}"))
        .join(", ");
    let pair = |pair: &[&str]| format!("{{ producer = \"{}\", consumers = [\"{}\"] }}", pair[0], pair[1]);
    let tensors: Vec<String> = ids.windows(2).map(pair).collect();
    let net = format!(
        "[network]\nlayers = [{layers}]\ntensors = [{}]",
        tensors.join(", ")
    );
    let folder = Folder::with("net.toml", net);
    solve(&folder, "net.toml", &["--stages", stages, "--all-stages"]);
    folder
}

/// Modules on one device go under one name.
#[test]
fn accelerates_device_map() {
    let map = |folder: &Folder, file: &str| json(&export(folder, file, "accelerate"));
    let ids = [
        "embed",
        "h.0.attn/matmul",
        "h.0.mlp/linear",
        "h.1.attn/matmul",
        "h.1.mlp/linear",
    ];
    assert_eq!(map(&named(ids, "1"), "net.toml"), json(r#"{ "": 0 }"#));
    let parts = json(r#"{ "embed": 0, "h.0.attn": 1, "h.0.mlp": 2, "h.1.attn": 3, "h.1.mlp": 4 }"#);
    assert_eq!(map(&named(ids, "5"), "net.toml"), parts);
    let map = map(&blocks(), "net.json");
    assert_eq!(
        (&map["embedding"], &map["b0"], &map["head"]),
        (&json("0"), &json("0"), &json("3"))
    );
}

/// What computes something itself is not cut, and what is no module has no device.
#[test]
fn accelerate_runs_modules() {
    let one = [
        "embed",
        "h.0.attn/matmul",
        "h.0.attn/softmax",
        "h.1.attn/matmul",
        "h.1.mlp/linear",
    ];
    let cut = &[
        "module `h.0.attn`: found what it computes on stages 2 and 3",
        "whole on one stage",
    ];
    refused(&named(one, "5"), "net.toml", "accelerate", cut);
    let residual = [
        "embed",
        "h.0.attn/matmul",
        "h.0/add",
        "h.1.attn/matmul",
        "h.1.mlp/linear",
    ];
    let cut = &["module `h.0`", "stages 2 and 3"];
    refused(&named(residual, "5"), "net.toml", "accelerate", cut);
    let onnx = [
        "embed",
        "/h.0/MatMul",
        "h.0/add",
        "h.1.attn/matmul",
        "h.1.mlp/linear",
    ];
    let unnamed = &["layer `/h.0/MatMul`: found a name that is no module's"];
    refused(&named(onnx, "2"), "net.toml", "accelerate", unnamed);
}

/// DeepSpeed is not needed to see what the module tells it: a stand-in of its class records the bounds of every stage.
#[test]
fn deepspeeds_partition() {
    let folder = blocks();
    let module = export(&folder, "net.json", "deepspeed");
    let plan = plan_of(&module);
    assert_eq!(plan["parts"], json("[0, 5, 9, 13, 14]"));
    assert_eq!(plan["modules"][0], json(r#"["embedding"]"#));
    assert_eq!(plan["modules"][13], json(r#"["head"]"#));
    folder.write("partition.py", module);
    folder.write(
        "run.py",
        r#"
import sys, types

class PipelineModule:
    def __init__(self, layers, num_stages):
        self.layers, self.num_stages, self.global_rank = layers, num_stages, rank
        coordinate = types.SimpleNamespace(pipe=rank)
        self._topo = types.SimpleNamespace(get_dim=lambda axis: num_stages, get_coord=lambda rank: coordinate)
        self._partition_layers(method="parameters")

    def _set_bounds(self, start=None, stop=None):
        self.bounds = (start, stop)

deepspeed, pipe = types.ModuleType("deepspeed"), types.ModuleType("deepspeed.pipe")
pipe.PipelineModule = PipelineModule
sys.modules.update({"deepspeed": deepspeed, "deepspeed.pipe": pipe})
import partition

for rank in range(4):
    print(*partition.PlannedPipelineModule(layers=list(range(14))).bounds)
try:
    partition.PlannedPipelineModule(layers=list(range(13)))
except ValueError as error:
    print(error)
"#,
    );
    let output = Command::new("python3")
        .arg("run.py")
        .current_dir(folder.path("."))
        .output()
        .expect("python3, which the README asks for");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let expected = "0 5\n5 9\n9 13\n13 14\nthe plan has 14 modules, not 13: see PLAN['modules']\n";
    assert_eq!(stdout, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

/// A skip connection makes its layers one module; a cut inside it is refused.
#[test]
fn deepspeed_hands_on_one_output() {
    let layer = |id: &str, ms: u8| format!("{{ id = \"{id}\", forward_ms = {ms} }}");
    let net = |work: [u8; 4]| {
        let layers: Vec<String> = ["a", "b", "c", "d"]
            .iter()
            .zip(work)
            .map(|(id, ms)| layer(id, ms))
            .collect();
        format!(
            "[network]\nlayers = [{}]\ntensors = [{{ producer = \"a\", consumers = [\"b\", \"c\"] }}, \
{{ producer = \"b\", consumers = [\"c\"] }}, {{ producer = \"c\", consumers = [\"d\"] }}]",
            layers.join(", ")
        )
    };
    let folder = Folder::with("net.toml", net([5, 1, 1, 5]));
    solve(&folder, "net.toml", &["--stages", "3"]);
    let plan = plan_of(&export(&folder, "net.toml", "deepspeed"));
    assert_eq!(plan["modules"], json(r#"[["a"], ["b", "c"], ["d"]]"#));
    assert_eq!(plan["parts"], json("[0, 1, 2, 3]"));
    folder.write("net.toml", net([3, 3, 3, 3]));
    solve(&folder, "net.toml", &["--stages", "2"]);
    refused(
        &folder,
        "net.toml",
        "deepspeed",
        &[
            "stage 1: found a cut that what `a` and `b` give crosses",
            "`--to torch` takes any",
        ],
    );
    // A second layer that reads the network's input, behind the first cut.
    folder.write(
        "net.toml",
        net([3, 3, 3, 3]).replace("\"b\", \"c\"] }, {", "\"c\"] }, {"),
    );
    solve(&folder, "net.toml", &["--stages", "4"]);
    refused(&folder, "net.toml", "deepspeed", &["the network's input"]);
    // A chain whose last layer reads the input, too: no cut fits.
    let chain = "[network]\nlayers = [{ id = \"a\", forward_ms = 1 }, { id = \"b\", forward_ms = 1, reads_input = true }]\n\
tensors = [{ producer = \"a\", consumers = [\"b\"] }]";
    folder.write("net.toml", chain);
    solve(&folder, "net.toml", &["--stages", "2"]);
    let both = "what `a` and the network's input give crosses";
    refused(&folder, "net.toml", "deepspeed", &[both]);
    folder.write("net.toml", chain.replace(", reads_input = true", ""));
    solve(&folder, "net.toml", &["--stages", "2"]);
    let plan = plan_of(&export(&folder, "net.toml", "deepspeed"));
    assert_eq!(plan["parts"], json("[0, 1, 2]"));
}

#[test]
fn what_only_json_can_say() {
    let net = r#"
[network]
layers = [
  { id = "a", forward_ms = 1, backward_ms = 5, stash_bytes = 8, parameter_bytes = 4 },
  { id = "b", forward_ms = 5, backward_ms = 1, stash_bytes = 8, parameter_bytes = 4 },
]
tensors = [{ producer = "a", consumers = ["b"], bytes = 2 }]
[cluster]
device_kinds = [{ name = "gpu", count = 3, resources = [{ name = "gpu", forward_rate = 1 }] }]
"#;
    let folder = Folder::with("net.toml", net);
    let cases: &[(&[&str], &[&str])] = &[
        (
            &[
                "--cuts",
                "separate",
                "--stages",
                "2",
                "--communication",
                "ignored",
            ],
            &["found forward propagation on stage", "expected both on one"],
        ),
        (
            &["--groups", "assign", "--stages", "2", "--all-stages"],
            &["found 2 devices (gpu:", "expected one device a stage"],
        ),
        (
            &[
                "--groups=assign",
                "--stages=1",
                "--tensor=choose",
                "--micro-batches=4",
            ],
            &["found groups of 3 that share out", "`--groups given`"],
        ),
        (
            &[
                "--worker",
                "concurrent",
                "--communication",
                "overlapped",
                "--stages",
                "2",
            ],
            &["found a share of", "of `gpu` for forward propagation"],
        ),
    ];
    for (options, expected) in cases {
        solve(&folder, "net.toml", options);
        for target in TARGETS.iter().filter(|target| target.name != "json") {
            refused(&folder, "net.toml", target.name, expected);
        }
        assert_eq!(
            json(&export(&folder, "net.toml", "json"))["schema"],
            "stagecut-export/1"
        );
    }
    // Apart, the two passes of a layer exchange its stash and its weights.
    solve(&folder, "net.toml", cases[0].0);
    let exported = json(&export(&folder, "net.toml", "json"));
    let kinds: BTreeSet<&str> = exported["transfers"]
        .as_array()
        .expect("transfers")
        .iter()
        .filter_map(|transfer| transfer["kind"].as_str())
        .collect();
    assert!(kinds.contains("stash") && kinds.contains("weights"), "{kinds:?}");
}

#[test]
fn plans_of_other_instances_and_no_plans_are_refused() {
    let folder = solved();
    folder.write(
        "other.toml",
        crate::common::command::NET.replace("\"fc\"", "\"fc2\""),
    );
    refused(
        &folder,
        "other.toml",
        "torch",
        &["instance: found a plan of `net`, expected a plan of `other`"],
    );
    let run = folder.run(&["export", "net.toml", "plan.json", "--to", "tourch"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("did you mean `torch`?"), "{}", run.stderr);
    let args = [
        "solve",
        "net.toml",
        "--stages",
        "2",
        "--memory-limit",
        "1250",
        "--format",
        "json",
    ];
    folder.write("plan.json", folder.run(&args).stdout);
    refused(&folder, "net.toml", "json", &["found no stages, expected a plan"]);
}

fn transfer_ms(transfer: &Value, bandwidth_bytes_per_s: f64) -> f64 {
    match transfer["bytes"].as_f64() {
        Some(bytes) => 1e3 * bytes / bandwidth_bytes_per_s,
        None => transfer["transfer_ms"].as_f64().expect("a size"),
    }
}

/// For each stage and direction, the exported transfers take the time that the plan reports.
#[test]
fn what_moves_is_what_the_plan_pays_for() {
    let slicing = methods::find("slicing").expect("a registered method");
    let target = find("json").expect("a registered target");
    let mut compared = 0;
    for seed in 0..400 {
        let spec = random_spec(seed, seed.is_multiple_of(5));
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let pays = instance.cluster.kinds[0].pays_communication && instance.cluster.link.latency_ns == 0;
        let ignored = problem.settings.communication == Communication::Ignored;
        if instance.network.has_explicit_backward() || !pays || ignored {
            continue;
        }
        let plan = slicing
            .run(&instance, &problem, &Control::default())
            .expect("no solver breaks");
        let exported = json(&(target.write)(&instance, &plan).expect("JSON takes every plan"));
        let bandwidth = instance.cluster.link.bandwidth_bytes_per_s;
        for stage in &plan.stages {
            let sum = |kind: &str, end: &str, once: bool| -> f64 {
                let transfers = exported["transfers"].as_array().expect("a list");
                let here = transfers
                    .iter()
                    .filter(|transfer| transfer["kind"] == kind && transfer[end] == stage.index);
                // However many stages it goes to or comes from, its own stage handles it once.
                let mut seen = BTreeSet::new();
                let paid = here.filter(|transfer| !once || seen.insert(transfer["tensor"].as_u64()));
                paid.map(|transfer| transfer_ms(transfer, bandwidth)).sum()
            };
            let moved = stage.transfers.unwrap_or_default();
            for (found, expected) in [
                (sum("tensor", "to", false), moved.forward.in_ms),
                (sum("tensor", "from", true), moved.forward.out_ms),
                (sum("gradient", "to", true), moved.backward.in_ms),
                (sum("gradient", "from", false), moved.backward.out_ms),
            ] {
                assert!(
                    (found - expected).abs() < 1e-6,
                    "seed {seed}: {found} {expected} {stage:?}"
                );
                compared += usize::from(expected > 0.0);
            }
        }
    }
    assert!(compared > 200, "only {compared}");
}
