//! Exports say which device runs which stage, in the words of what starts ranks, and all that the plan's memory relied on.

use crate::common::command::{Folder, refused};
use serde_json::{Value, json};

/// Three unlike cards, the smallest listed first; blocks that fit them one way alone.
fn cards(kinds: &str, mode: &str) -> Folder {
    let times = |forward: &str| match mode {
        "training" => format!("{forward}, backward_ms = 2"),
        _ => forward.to_owned(),
    };
    let layer = |id: &str, bytes: u64| {
        let times = times("forward_ms = 1");
        format!("{{ id = \"{id}\", {times}, resident_bytes = {bytes} }}")
    };
    let blocks = (0..11).map(|at| layer(&format!("model.layers.{at}"), 100));
    let layers: Vec<String> = std::iter::once(layer("model.embed_tokens", 10))
        .chain(blocks)
        .chain([layer("lm_head", 10)])
        .collect();
    let id = |at: usize| match at {
        0 => "model.embed_tokens".to_owned(),
        12 => "lm_head".to_owned(),
        at => format!("model.layers.{}", at - 1),
    };
    let tensors: Vec<String> = (0..12)
        .map(|at| {
            format!(
                "{{ producer = \"{}\", consumers = [\"{}\"], bytes = 1 }}",
                id(at),
                id(at + 1)
            )
        })
        .collect();
    let net = format!(
        "[network]\nlayers = [{}]\ntensors = [{}]\n[cluster]\n{kinds}\n[pipeline]\nmode = \"{mode}\"\n",
        layers.join(",\n"),
        tensors.join(",\n")
    );
    let folder = Folder::with("net.toml", net);
    folder.succeed(&[
        "solve",
        "net.toml",
        "--communication",
        "ignored",
        "--output",
        "plan.json",
    ]);
    folder
}

const REVERSED: &str = r#"device_kinds = [
  { name = "card-8", count = 1, memory_bytes = 215 },
  { name = "card-12", count = 1, memory_bytes = 320 },
  { name = "card-24", count = 1, memory_bytes = 620 },
]"#;

fn export(folder: &Folder, target: &str) -> String {
    folder.succeed(&["export", "net.toml", "plan.json", "--to", target])
}

fn plan(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON")
}

/// The number of a stage's card among those of the cluster.
fn numbers(folder: &Folder) -> Vec<usize> {
    let cards = ["card-8:1", "card-12:1", "card-24:1"];
    let plan = plan(folder);
    let stages = plan["stages"].as_array().expect("stages");
    stages
        .iter()
        .map(|stage| {
            let device = stage["devices"][0].as_str().expect("a device");
            cards.iter().position(|card| *card == device).expect("a card")
        })
        .collect()
}

/// The program in which a plan stands.
fn plan_of(program: &str) -> Value {
    let (_, rest) = program.split_once("\nPLAN = ").expect("a plan in the program");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    values.next().expect("a value").expect("JSON")
}

#[test]
fn every_stage_goes_to_its_own_card() {
    for mode in ["inference", "training"] {
        let folder = cards(REVERSED, mode);
        let numbers = numbers(&folder);
        assert_eq!(numbers.len(), 3, "{mode}");
        let list: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let visible = format!(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}",
            list.join(",")
        );

        let map: Value = serde_json::from_str(&export(&folder, "accelerate")).expect("JSON");
        let plan = plan(&folder);
        for (stage, number) in plan["stages"].as_array().expect("stages").iter().zip(&numbers) {
            for layer in stage["forward"].as_array().expect("layers") {
                assert_eq!(map[layer.as_str().expect("a name")], json!(number), "{map}");
            }
        }
        let torch = plan_of(&export(&folder, "torch"));
        assert_eq!(torch["gpus"], json!(numbers));
        let deepspeed = plan_of(&export(&folder, "deepspeed"));
        assert_eq!(
            deepspeed["environment"]["CUDA_VISIBLE_DEVICES"],
            json!(list.join(","))
        );
        let servers = ["vllm", "sglang"];
        let trainers = ["megatron", "torchtitan"];
        for target in if mode == "inference" { servers } else { trainers } {
            let text = export(&folder, target);
            assert!(text.contains(&visible), "{target}: {text}");
            for (stage, card) in plan["stages"].as_array().expect("stages").iter().zip(1..) {
                let place = format!(
                    "stage {card} on {}",
                    stage["devices"][0].as_str().expect("a device")
                );
                assert!(text.contains(&place), "{target}: {text}");
            }
        }
    }
}

/// Where all devices are alike, any of them does.
#[test]
fn devices_that_are_alike_need_no_list() {
    let folder = cards(
        "device_kinds = [{ name = \"gpu\", count = 4, memory_bytes = 420 }]",
        "inference",
    );
    for target in ["vllm", "sglang", "torch", "deepspeed"] {
        let text = export(&folder, target);
        assert!(!text.contains("CUDA_VISIBLE_DEVICES="), "{target}: {text}");
    }
    assert_eq!(plan_of(&export(&folder, "torch")).get("gpus"), None);
}

#[test]
fn a_stage_on_a_cpu_is_one_or_refused() {
    let kinds = r#"device_kinds = [
  { name = "gpu", count = 1, memory_bytes = 620 },
  { name = "cpu", count = 1, memory_bytes = 6000 },
]"#;
    for mode in ["inference", "training"] {
        let folder = cards(kinds, mode);
        let plan = plan(&folder);
        let stages = plan["stages"].as_array().expect("stages");
        let cpu = stages
            .iter()
            .position(|stage| stage["devices"][0] == "cpu:1")
            .expect("a stage on the CPU");
        let map: Value = serde_json::from_str(&export(&folder, "accelerate")).expect("JSON");
        let layer = stages[cpu]["forward"][1].as_str().expect("a name");
        assert_eq!(map[layer], json!("cpu"), "{map}");
        let other = stages[1 - cpu]["forward"][1].as_str().expect("a name");
        assert_eq!(map[other], json!(0), "{map}");
        let found = format!("stage {}: found `cpu:1`, a CPU", cpu + 1);
        let runners = match mode {
            "inference" => ["vllm", "sglang", "torch", "deepspeed"],
            _ => ["megatron", "torchtitan", "torch", "deepspeed"],
        };
        for target in runners {
            let run = folder.run(&["export", "net.toml", "plan.json", "--to", target]);
            refused(
                &run,
                &[
                    &found,
                    "expected a GPU, which is what",
                    "`--to accelerate` and `--to json` take CPUs",
                ],
            );
        }
    }
}

/// A server takes nine tenths of a card unless it is told otherwise.
#[test]
fn servers_are_told_how_much_of_a_card_the_plan_fills() {
    let folder = cards(REVERSED, "inference");
    let plan = plan(&folder);
    let memory = [("card-8:1", 215.0), ("card-12:1", 320.0), ("card-24:1", 620.0)];
    let parts = plan["stages"].as_array().expect("stages").iter().map(|stage| {
        let (_, memory) = memory
            .iter()
            .find(|(card, _)| stage["devices"][0] == *card)
            .expect("a card");
        stage["memory_bytes"].as_f64().expect("bytes") / memory
    });
    let most = (parts.fold(0.0, f64::max) * 100.0).ceil() / 100.0;
    assert!(most > 0.9, "{most}");
    let vllm = export(&folder, "vllm");
    assert!(
        vllm.contains(&format!("--gpu-memory-utilization {most:.2}")),
        "{vllm}"
    );
    let sglang = export(&folder, "sglang");
    assert!(
        sglang.contains(&format!("--mem-fraction-static {most:.2}")),
        "{sglang}"
    );
}

/// A stage without a block is refused with a way out that works.
#[test]
fn a_stage_without_a_block_has_a_remedy() {
    let folder = Folder::new();
    let block = |at: usize| format!("{{ id = \"h.{at}\", forward_ms = 1 }}");
    let blocks: Vec<String> = (0..3).map(block).collect();
    let net = format!(
        "[network]\nlayers = [{{ id = \"embed\", forward_ms = 0.1 }}, {}, {{ id = \"head\", forward_ms = 9 }}]\n\
         tensors = [{{ producer = \"embed\", consumers = [\"h.0\"] }}, {{ producer = \"h.0\", consumers = [\"h.1\"] }}, \
         {{ producer = \"h.1\", consumers = [\"h.2\"] }}, {{ producer = \"h.2\", consumers = [\"head\"] }}]\n\
         [cluster]\ndevice_kinds = [{{ name = \"gpu\", count = 4 }}]\n[pipeline]\nmode = \"inference\"\n",
        blocks.join(", ")
    );
    folder.write("net.toml", net);
    let solve = [
        "solve",
        "net.toml",
        "--stages",
        "3",
        "--all-stages",
        "--output",
        "plan.json",
    ];
    for target in ["vllm", "sglang"] {
        folder.succeed(&solve);
        let run = folder.run(&["export", "net.toml", "plan.json", "--to", target]);
        let remedy = format!("is not known to run one without; `--for {target}` plans so");
        refused(
            &run,
            &[
                "stage 3: found no block, expected a block on every stage",
                &remedy,
            ],
        );
        folder.succeed(&[&solve[..], &["--for", target]].concat());
        let lines = export(&folder, target);
        assert!(lines.contains("_PP_LAYER_PARTITION=1,1,1"), "{lines}");
    }
}

/// A transformer whose layers are blocks.
fn generated(solve: &[&str]) -> Folder {
    let folder = crate::common::command::gpt2_blocks();
    // The preset's precision is what rates must hold for.
    let written: Value = serde_json::from_str(&folder.read("net.json")).expect("JSON");
    let precision = written["network"]["precision"]
        .as_str()
        .unwrap_or("bf16")
        .to_owned();
    let kind = |name: &str, gpus: &str| {
        format!(
            "device_kinds = [{{ name = \"{name}\", count = 16, memory_bytes = 64e9, flops_per_s = 1e14, memory_bytes_per_s = 1e12, \
             precision = \"{precision}\"{gpus} }}]\nlink = {{ bandwidth_bytes_per_s = 1e11 }}\n"
        )
    };
    folder.write("gpus.toml", kind("gpu", ""));
    folder.write("nodes.toml", kind("node", ", gpus = 8"));
    folder.succeed(&[&["solve", "net.json", "--output", "plan.json"][..], solve].concat());
    folder
}

fn megatron(folder: &Folder) -> String {
    folder.succeed(&["export", "net.json", "plan.json", "--to", "megatron"])
}

#[test]
fn megatron_is_told_all_that_the_memory_counts() {
    let pipeline = ["--stages", "2", "--micro-batches", "8"];
    let on = |cluster: &'static str, options: &[&'static str]| {
        generated(&[&pipeline[..], &["--cluster", cluster], options].concat())
    };
    // A node that is a device splits layers over its GPUs.
    let nodes = megatron(&on("nodes.toml", &["--precision", "bf16-mixed"]));
    let flags = " --tensor-model-parallel-size 8 --sequence-parallel --bf16 --seq-length 1024 --micro-batch-size 1 --global-batch-size 8\n";
    assert!(nodes.ends_with(flags), "{nodes}");
    let groups = megatron(&on(
        "gpus.toml",
        &[
            "--tensor",
            "2",
            "--devices",
            "8",
            "--replicas",
            "2",
            "--optimizer-sharding",
            "zero1",
        ],
    ));
    for flag in [
        "--tensor-model-parallel-size 2 --sequence-parallel",
        "--use-distributed-optimizer",
    ] {
        assert!(groups.contains(flag), "{groups}");
    }
    let alone = megatron(&on(
        "gpus.toml",
        &["--tensor", "1", "--replicas", "2", "--devices", "4"],
    ));
    assert!(
        !alone.contains("--sequence-parallel") && !alone.contains("--use-distributed-optimizer"),
        "{alone}"
    );
    let sgd = megatron(&on(
        "gpus.toml",
        &["--optimizer", "sgd", "--precision", "bf16-mixed"],
    ));
    assert!(sgd.contains(" --bf16 --optimizer sgd --sgd-momentum 0 "), "{sgd}");
    // What Megatron would not keep so is refused, with the option that it does keep.
    let folder = on("gpus.toml", &["--precision", "uniform"]);
    let written: Value = serde_json::from_str(&folder.read("net.json")).expect("JSON");
    if let Some(half @ ("bf16" | "fp16")) = written["network"]["precision"].as_str() {
        let run = folder.run(&["export", "net.json", "plan.json", "--to", "megatron"]);
        let found = format!("found memory for gradients and optimiser states in {half}");
        refused(
            &run,
            &[
                &found,
                &format!("`--precision {half}-mixed`, which is what Megatron keeps"),
            ],
        );
    }
}

/// What runs layers on one GPU does not take a node for one.
#[test]
fn nodes_as_devices_are_refused_by_what_does_not_split_layers() {
    let folder = generated(&["--stages", "2", "--cluster", "nodes.toml"]);
    for target in ["torch", "deepspeed", "accelerate"] {
        let run = folder.run(&["export", "net.json", "plan.json", "--to", target]);
        refused(
            &run,
            &[
                "found `node:1`, a node of 8 GPUs that work as one",
                "expected one GPU a stage",
            ],
        );
    }
    let titan = folder.succeed(&["export", "net.json", "plan.json", "--to", "torchtitan"]);
    assert!(titan.contains("tensor_parallel_degree = 8"), "{titan}");
    folder.succeed(&[
        "solve",
        "net.json",
        "--stages",
        "2",
        "--mode",
        "inference",
        "--cluster",
        "nodes.toml",
        "--output",
        "plan.json",
    ]);
    let vllm = folder.succeed(&["export", "net.json", "plan.json", "--to", "vllm"]);
    assert!(
        vllm.contains("--pipeline-parallel-size 2 --tensor-parallel-size 8"),
        "{vllm}"
    );
    let sglang = folder.succeed(&["export", "net.json", "plan.json", "--to", "sglang"]);
    assert!(sglang.contains("--pp-size 2 --tp-size 8"), "{sglang}");
}

/// Choices that a framework does not take are refused with the options that it does take; followed, they lead to its flags.
#[test]
fn refused_choices_have_a_remedy() {
    let pipeline = [
        "--stages",
        "2",
        "--devices",
        "8",
        "--micro-batches",
        "8",
        "--cluster",
        "gpus.toml",
    ];
    let on = |options: &[&'static str]| generated(&[&pipeline[..], options].concat());
    let recomputed = on(&["--recompute", "full"]);
    let groups = on(&["--tensor", "2", "--replicas", "1"]);
    for target in ["torch", "torchtitan", "deepspeed", "accelerate"] {
        let export = ["export", "net.json", "plan.json", "--to", target];
        if target == "torchtitan" {
            let written = recomputed.succeed(&export);
            assert!(
                written.contains("[activation_checkpoint]\nmode = \"full\"\n"),
                "{written}"
            );
        } else {
            refused(
                &recomputed.run(&export),
                &[
                    "as with `--recompute none`",
                    "`--to megatron` and `torchtitan` take `--recompute full`",
                ],
            );
        }
        refused(
            &groups.run(&export),
            &[
                "as with `--tensor 1 --replicas 1`",
                "one degree for all stages, such as `--tensor 2",
            ],
        );
    }
    assert!(megatron(&recomputed).contains("--recompute-granularity full"));
    assert!(megatron(&groups).contains("--tensor-model-parallel-size 2"));
    on(&["--tensor", "1", "--replicas", "1"]).succeed(&["export", "net.json", "plan.json", "--to", "torch"]);
}

/// llama.cpp counts blocks and the head in a row: the last are on GPUs, the first on the CPU.
#[test]
fn llama_cpp_is_told_blocks_by_card() {
    let folder = cards(REVERSED, "inference");
    let count = |stage: &Value| {
        let names = stage["forward"].as_array().expect("layers").iter();
        let is_block = |name: &&Value| name.as_str().expect("a name").contains("layers");
        names.filter(is_block).count()
    };
    let plan_of_cards = plan(&folder);
    let stages = plan_of_cards["stages"].as_array().expect("stages").iter();
    let mut counts: Vec<usize> = stages.map(count).collect();
    *counts.last_mut().expect("stages") += 1;
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    let text = export(&folder, "llama-cpp");
    let flags = format!(
        "-ngl 12 --split-mode layer --tensor-split {} --main-gpu 0",
        counts.join(",")
    );
    assert!(text.contains(&flags), "{text}");
    assert!(text.contains("CUDA_VISIBLE_DEVICES="), "{text}");
    let one = cards("device_kinds = [{ name = \"gpu\", count = 1 }]", "inference");
    assert_eq!(
        export(&one, "llama-cpp"),
        "llama-server -m MODEL.gguf -ngl 12 --split-mode none --main-gpu 0\n"
    );
    let kinds = |first: &str, second: &str| format!("device_kinds = [{first}, {second}]");
    let (gpu, cpu) = (
        "{ name = \"gpu\", count = 1, memory_bytes = 620 }",
        "{ name = \"cpu\", count = 1, memory_bytes = 6000, pays_communication = false }",
    );
    let folder = cards(&kinds(gpu, cpu), "inference");
    let plan = plan(&folder);
    let first = plan["stages"][0]["devices"][0].as_str().expect("a device");
    let run = folder.run(&["export", "net.toml", "plan.json", "--to", "llama-cpp"]);
    match first {
        "cpu:1" => assert!(run.stdout.contains("-ngl "), "{}", run.stderr),
        _ => refused(
            &run,
            &[
                "stage 2: found `cpu:1`, a CPU, behind other devices",
                "the CPU on the first stage",
            ],
        ),
    }
    let trained = cards(REVERSED, "training");
    refused(
        &trained.run(&["export", "net.toml", "plan.json", "--to", "llama-cpp"]),
        &["a plan for training"],
    );
}
