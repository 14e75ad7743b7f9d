//! `plan`: a model and devices in, degrees, layout, memory and flags out. What is chosen is held against every choice asked by itself.

use serde_json::{Value, json};
use stagecut::plan;

use crate::common::command::{Folder, Run, refused};

/// A small Llama of six blocks.
fn llama() -> Value {
    json!({
        "model_type": "llama", "vocab_size": 4096, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    })
}

/// The same with experts in all blocks but the first.
fn experts() -> Value {
    json!({
        "model_type": "glm4_moe", "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "attention_bias": true, "use_qk_norm": false,
        "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "moe_intermediate_size": 512,
        "first_k_dense_replace": 1, "max_position_embeddings": 8192,
    })
}

const ON: [&str; 8] = [
    "--cluster",
    "h100-nodes",
    "--devices",
    "4",
    "--global-batch",
    "8",
    "--sequence",
    "2048",
];

fn planned(folder: &Folder, more: &[&str]) -> Run {
    folder.run(&[&["plan", "config.json"], &ON[..], more].concat())
}

fn parsed(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// The best iteration of a size by `import` and `solve`, in ms; `None` where there is no plan.
fn by_hand(folder: &Folder, size: u64, more: &[&str]) -> Option<f64> {
    let (size, all) = (size.to_string(), (8 / size).to_string());
    let import = [
        "import",
        "config.json",
        "--sequence",
        "2048",
        "--sequence-parallel",
        "--output",
        "net.json",
    ];
    folder.succeed(&[&import[..], &["--micro-batch", &size, "--micro-batches", &all]].concat());
    let solve = [
        "solve",
        "net.json",
        "--cluster",
        "h100-nodes",
        "--devices",
        "4",
        "--format",
        "json",
    ];
    let run = folder.run(&[&solve[..], more].concat());
    let plan: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    assert!(
        ["optimal", "infeasible"].contains(&plan["status"].as_str().unwrap()),
        "{}",
        plan["status"]
    );
    plan["objective_ms"].as_f64()
}

const CHOSEN: [&str; 8] = [
    "--tensor",
    "choose",
    "--replicas",
    "choose",
    "--recompute",
    "choose",
    "--optimizer-sharding",
    "zero1",
];

/// Every size by itself, and every choice that is another: nothing is better, and what is said of others is what they take.
#[test]
fn the_best_of_all_sizes() {
    for (config, memory) in [(llama(), "80GB"), (llama(), "2GB"), (experts(), "1500MB")] {
        let folder = Folder::with("config.json", config.to_string());
        let limits = ["--memory-limit", memory, "--for", "megatron"];
        let run = planned(
            &folder,
            &[&limits[..], &["--format", "json", "--time-limit", "600"]].concat(),
        );
        let found = parsed(&run);
        let solve = [&CHOSEN[..], &["--virtual-stages", "choose"], &limits].concat();
        let sizes = [1, 2, 4, 8].map(|size| by_hand(&folder, size, &solve));
        let best = sizes.iter().flatten().copied().min_by(f64::total_cmp).unwrap();
        assert_eq!(found["iteration_ms"], best, "{sizes:?} {found:#}");
        assert_eq!((&found["gap"], &found["bound_ms"]), (&json!(0.0), &json!(best)));
        let chosen = found["micro_batch"].as_u64().unwrap();
        assert_eq!(sizes[chosen.ilog2() as usize], Some(best));
        for (size, known) in found["sizes"].as_array().unwrap().iter().zip(&sizes) {
            let bound = size["bound_ms"].as_f64().unwrap_or(f64::INFINITY);
            assert!(bound <= known.unwrap_or(f64::INFINITY), "{size} {known:?}");
            assert_eq!(
                size["status"] == "infeasible",
                known.is_none(),
                "{size} {known:?}"
            );
        }
        others_are_what_they_take(&folder, &found, &limits);
    }
}

/// Asks for each of the choices that are another by hand.
fn others_are_what_they_take(folder: &Folder, found: &Value, limits: &[&str]) {
    let otherwise = found["otherwise"].as_array().unwrap();
    assert!(!otherwise.is_empty());
    for other in otherwise.iter().filter(|other| other["status"] == "optimal") {
        let degree = |name: &str| other[name].to_string();
        let [tensor, replicas, chunks] = ["tensor", "replicas", "virtual_stages"].map(degree);
        let own = [
            "--tensor",
            &tensor,
            "--replicas",
            &replicas,
            "--virtual-stages",
            &chunks,
            "--recompute",
            "choose",
        ];
        // Without replicas nothing is shared out.
        let sharing = if replicas == "1" {
            &[][..]
        } else {
            &["--optimizer-sharding", "zero1"]
        };
        let expert = degree("expert");
        let shared_out = ["--expert", expert.as_str()];
        let experts = if expert == "1" { &[][..] } else { &shared_out };
        let own = [&own[..], sharing, experts].concat();
        let size = other["micro_batch"].as_u64().unwrap();
        let taken = by_hand(folder, size, &[&own[..], limits].concat());
        assert_eq!(taken, other["iteration_ms"].as_f64(), "{other}");
        assert!(taken >= found["iteration_ms"].as_f64(), "{other}");
        let choice = other["choice"].as_str().unwrap();
        assert_ne!(other[choice], found[choice], "{other}");
    }
}

/// What the fullest device holds is named part by part, and the parts are those of its stage.
#[test]
fn memory_by_parts() {
    for more in [
        &["--virtual-stages", "1"][..],
        &["--tensor", "2", "--replicas", "2"],
        &["--virtual-stages", "2", "--replicas", "1"],
    ] {
        let found = with_parts(&llama(), more);
        // Two bytes a weight, four a gradient, twelve of the optimizer, shared out among replicas.
        let bytes = |name: &str| found["memory"][format!("{name}_bytes")].as_u64().unwrap();
        let replicas = found["replicas"].as_u64().unwrap();
        let shared = (6 * bytes("weight")).div_ceil(replicas);
        assert!(bytes("optimizer").abs_diff(shared) <= 2, "{found}");
    }
    // Replicas that share out experts hold a part of their weights each; all of their states are shared out anyway.
    let of_degree = |degree: &'static str| {
        let degrees = [
            "--tensor",
            "1",
            "--replicas",
            "4",
            "--virtual-stages",
            "1",
            "--expert",
            degree,
        ];
        with_parts(&experts(), &degrees)["memory"].clone()
    };
    let [whole, shared] = ["1", "4"].map(of_degree);
    let bytes = |memory: &Value, name: &str| memory[format!("{name}_bytes")].as_u64().unwrap();
    let of_experts = 2 * 4 * 16 * 3 * 512 * 512;
    assert_eq!(
        bytes(&whole, "weight") - bytes(&shared, "weight"),
        of_experts - of_experts / 4
    );
    assert_eq!(bytes(&whole, "optimizer"), bytes(&shared, "optimizer"));
}

/// What `plan` finds of a model, where the parts of the fullest devices add up to what its stages say they hold.
fn with_parts(model: &Value, more: &[&str]) -> Value {
    let folder = Folder::with("config.json", model.to_string());
    let found = parsed(&planned(
        &folder,
        &[&["--for", "megatron", "--format", "json"], more].concat(),
    ));
    let memory = &found["memory"];
    let parts = [
        "weight",
        "gradient",
        "optimizer",
        "resident",
        "activation",
        "workspace",
    ];
    let bytes = |name: &str| memory[format!("{name}_bytes")].as_u64().unwrap();
    let all = memory["bytes"].as_u64().unwrap();
    assert_eq!(parts.map(bytes).iter().sum::<u64>(), all, "{memory}");
    assert_eq!(bytes("gradient"), 2 * bytes("weight"), "{memory}");
    let stages = found["plan"]["stages"].as_array().unwrap();
    let held = stages
        .iter()
        .filter(|stage| stage["devices"] == memory["devices"]);
    let held: Vec<u64> = held
        .map(|stage| stage["memory_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(held.iter().sum::<u64>(), all);
    if let [_] = held[..] {
        // Of one stage: as many times what a micro-batch leaves as are in flight.
        let at = memory["stage"].as_u64().unwrap() as usize - 1;
        let in_flight = stages[at]["in_flight"].as_u64().unwrap();
        assert_eq!(bytes("activation") % in_flight, 0, "{memory}");
    }
    found
}

/// Plan and instance go on to the other commands, and the layout is one that Megatron takes.
#[test]
fn what_is_written_goes_on() {
    let folder = Folder::with("config.json", llama().to_string());
    let files = ["--plan-output", "plan.json", "--instance-output", "net.json"];
    let more = [
        "--for",
        "megatron",
        "--tensor",
        "1",
        "--replicas",
        "1",
        "--format",
        "json",
    ];
    let found = parsed(&planned(&folder, &[&files[..], &more].concat()));
    folder.succeed(&["check", "net.json", "plan.json"]);
    let flags = folder.succeed(&["export", "net.json", "plan.json", "--to", "megatron"]);
    assert_eq!(found["told"], flags);
    let size = found["micro_batch"].as_u64().unwrap();
    let batch = format!(" --seq-length 2048 --micro-batch-size {size} --global-batch-size 8\n");
    assert!(flags.ends_with(&batch), "{flags}");
    let layout = found["layout"].as_str().unwrap();
    assert!(flags.contains(&format!("\"{layout}\"")), "{flags}");
    let pipeline = found["pipeline"].to_string();
    folder.succeed(&["layout", layout, "--devices", &pipeline, "--layers", "6"]);
    let run: Value =
        serde_json::from_str(&folder.succeed(&["simulate", "plan.json", "--format", "json"])).unwrap();
    // Six blocks, the embedding and the head have a chunk each.
    assert_eq!(found["virtual_stages"], 2, "{found}");
    assert_eq!(run["iteration"]["iteration_ms"], found["iteration_ms"]);
    let solved = plan::read(&folder.path("plan.json")).unwrap();
    assert_eq!(solved.objective_ms, found["iteration_ms"].as_f64());
}

/// Every framework, and none.
#[test]
fn plans_for_every_framework() {
    let folder = Folder::with("config.json", llama().to_string());
    for target in [
        "torch",
        "deepspeed",
        "megatron",
        "torchtitan",
        "vllm",
        "sglang",
        "accelerate",
        "onnx",
    ] {
        let found = parsed(&planned(
            &folder,
            &[
                "--for",
                target,
                "--format",
                "json",
                "--time-limit",
                "20",
                "--micro-batch",
                "2",
            ],
        ));
        assert!(
            found["told"].as_str().is_some_and(|told| !told.is_empty()),
            "{target}: {found:#}"
        );
    }
    let found = parsed(&planned(
        &folder,
        &["--format", "json", "--time-limit", "20", "--micro-batch", "1,4"],
    ));
    assert_eq!((&found["told"], &found["target"]), (&json!(null), &json!(null)));
    assert_eq!(found["sizes"].as_array().unwrap().len(), 2);
    let text = planned(&folder, &["--for", "megatron", "--time-limit", "20"]).stdout;
    for part in [
        "degrees",
        "layout",
        "recomputed",
        "memory",
        "tokens/s",
        "MFU",
        "next best",
        "--pipeline-model-parallel-size",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(text.lines().count() <= 40, "{text}");
}

/// A tower that sees lies before the blocks, on the first stage, and is none of them.
#[test]
fn a_model_that_sees() {
    let mut config = llama();
    config["model_type"] = json!("qwen2_vl");
    config["vision_config"] =
        json!({ "depth": 2, "embed_dim": 128, "hidden_size": 1024, "mlp_ratio": 4, "num_heads": 2 });
    let folder = Folder::with("config.json", config.to_string());
    let more = [
        "--for",
        "megatron",
        "--tensor",
        "1",
        "--replicas",
        "1",
        "--micro-batch",
        "1",
    ];
    let found = parsed(&planned(&folder, &[&more[..], &["--format", "json"]].concat()));
    let stages = found["plan"]["stages"].as_array().unwrap();
    assert!(stages.len() > 1);
    let sees = |layer: &&Value| layer.as_str().unwrap().starts_with("vision");
    let on_first = stages[0]["forward"]
        .as_array()
        .unwrap()
        .iter()
        .filter(sees)
        .count();
    assert_eq!(on_first, 4, "patches, two blocks and the projector");
    assert!(
        found["told"].as_str().unwrap().starts_with("--num-layers 6 "),
        "{}",
        found["told"]
    );
}

/// Where nothing fits, by how much, and what would help; experts are named.
#[test]
fn nothing_fits() {
    let folder = Folder::with("config.json", experts().to_string());
    let run = planned(&folder, &["--memory-limit", "50MB", "--for", "megatron"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let said: Vec<&str> = run.stdout.split_whitespace().collect();
    let said = said.join(" ");
    for part in [
        "No plan of `config` exists",
        "the least limit",
        "hint: ",
        "experts: tokens choose them evenly and none is dropped; replicas of a stage share them out where `--expert` says so",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    let run = planned(&folder, &["--memory-limit", "50MB", "--format", "json"]);
    assert_eq!(run.code, 3);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["status"], "infeasible");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::with("config.json", llama().to_string());
    let refuses = |more: &[&str], parts: &[&str]| refused(&planned(&folder, more), parts);
    refuses(&["--micro-batches", "8"], &["--micro-batches", "--global-batch"]);
    refuses(&["--objective", "period"], &["`period`", "--objective iteration"]);
    refuses(
        &["--micro-batch", "3"],
        &["micro-batches of 3 for 8 sequences", "--micro-batch 2"],
    );
    refuses(&["--tensor", "3"], &["3", "4 heads of keys and values"]);
    refuses(&["--efficiency", "2"], &["part of peak"]);
    refuses(&["--output", "a.csv"], &["`.json`"]);
    for zero in ["--micro-batch", "--sequence"] {
        refuses(&[zero, "0"], &[zero]);
    }
    let run = folder.run(&[
        "plan",
        "config.json",
        "--cluster",
        "h100-nodes",
        "--global-batch",
        "8",
    ]);
    refused(&run, &["number of `h100` devices", "--devices"]);
    let run = folder.run(&["plan", "config.json", "--cluster", "h100-nodes", "--devices", "4"]);
    refused(&run, &["--global-batch"]);
    folder.write("net.toml", crate::common::command::NET);
    let run = folder.run(&["plan", "net.toml", "--devices", "4", "--global-batch", "8"]);
    refused(&run, &["no configuration of a model"]);
    let run = folder.run(&["plan", "absent.json", "--devices", "4", "--global-batch", "8"]);
    refused(&run, &["absent.json"]);
}

/// However short the time: an answer, or the word that there is none yet.
#[test]
fn any_time_limit_is_kept() {
    let folder = Folder::with("config.json", llama().to_string());
    for seconds in ["0", "0.05", "1"] {
        let run = planned(
            &folder,
            &["--for", "megatron", "--time-limit", seconds, "--format", "json"],
        );
        assert!([0, 4].contains(&run.code), "{}{}", run.stdout, run.stderr);
        assert!(run.elapsed.as_secs() < 20, "{:?}", run.elapsed);
        if run.code == 0 {
            let found = parsed(&run);
            assert!(found["bound_ms"].as_f64() <= found["iteration_ms"].as_f64());
            // Whatever takes less is the plan itself.
            let others = found["otherwise"].as_array().expect("a list").iter();
            let mut others = others.filter_map(|other| other["iteration_ms"].as_f64());
            assert!(
                others.all(|ms| ms >= found["iteration_ms"].as_f64().unwrap()),
                "{found}"
            );
        }
    }
}
