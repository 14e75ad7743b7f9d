//! Configurations of published models: parameters to the unit, what is kept of a token, layers; what is refused, and with which words.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::command::{Folder, refused};
use stagecut::generate::transformer::Precision;
use stagecut::import::config::{Summary, summary};
use stagecut::import::read_spec;
use stagecut::instance::Instance;

/// What a configuration has, with keys and values in 16 bits.
fn summed(config: &Value) -> Summary {
    let folder = Folder::with("config.json", config.to_string());
    let read = summary(&folder.path("config.json"), Precision::Bf16);
    read.unwrap_or_else(|error| panic!("{config}: {:?}", error.faults))
        .0
}

/// The same with other fields beside, or in the place of, its own.
fn with(config: &Value, fields: Value) -> Value {
    let mut config = config.clone();
    for (name, value) in fields.as_object().expect("fields") {
        config[name] = value.clone();
    }
    config
}

/// The folder of models whose counts are known, where it is at hand.
fn known_answers() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/model-configs");
    if !folder.exists() {
        eprintln!("skipped: no ../shared/data/model-configs");
        return None;
    }
    Some(folder)
}

fn rows(path: &Path) -> Vec<csv::StringRecord> {
    let mut reader = csv::Reader::from_path(path).expect("a table");
    let names = reader.headers().expect("a header").clone();
    let rows = reader.records().map(|row| row.expect("a row"));
    std::iter::once(names).chain(rows).collect()
}

/// Every file of the folder: parameters, active ones, those of vision and further predictions, bytes kept of a token.
#[test]
fn counts_of_published_models() {
    let Some(folder) = known_answers() else { return };
    let rows = rows(&folder.join("known_answers.csv"));
    for row in &rows[1..] {
        let cell = |name: &str| {
            let at = rows[0]
                .iter()
                .position(|column| column == name)
                .expect("a column");
            row[at].parse::<u64>().ok()
        };
        let path = folder.join(format!("configs/{}.json", &row[0]));
        let (found, _) =
            summary(&path, Precision::Bf16).unwrap_or_else(|error| panic!("{path:?}: {:?}", error.faults));
        let counted = [
            Some(found.parameters),
            Some(found.active_parameters),
            Some(found.embedding_parameters),
            Some(found.kv_bytes_per_token),
            found.layers.last().map(|run| run.last as u64 + 1),
            found.vision_parameters,
            found.mtp_parameters,
        ];
        let known = [
            "computed_total",
            "computed_active",
            "computed_embeddings_head_norm",
            "kv_bytes_per_token",
            "layers",
            "computed_vision",
            "computed_mtp_unshared",
        ];
        assert_eq!(counted, known.map(cell), "{}", &row[0]);
    }
    assert!(rows.len() > 1);
}

/// Runs of equal layers, of every file.
#[test]
fn layers_of_published_models() {
    let Some(folder) = known_answers() else { return };
    let rows = rows(&folder.join("layers.csv"));
    let mut known: Vec<(String, Vec<String>)> = Vec::new();
    for row in &rows[1..] {
        if known.last().is_none_or(|(model, _)| *model != row[0]) {
            known.push((row[0].to_owned(), Vec::new()));
        }
        let fields: Vec<&str> = row.iter().skip(1).collect();
        known.last_mut().expect("a model").1.push(fields.join(","));
    }
    for (model, runs) in known {
        let path = folder.join(format!("configs/{model}.json"));
        let (found, _) = summary(&path, Precision::Bf16).expect("a configuration");
        let found = found.layers.iter().map(|run| {
            format!(
                "{},{},{},{},{},{}",
                run.first, run.last, run.kind, run.parameters, run.active_parameters, run.kv_bytes_per_token
            )
        });
        assert_eq!(found.collect::<Vec<_>>(), runs, "{model}");
    }
}

/// Every file of the folder is an instance: what its layers hold is what is counted, and a copy of a head that is the table of words.
#[test]
fn published_models_are_instances() {
    let Some(folder) = known_answers() else { return };
    for entry in std::fs::read_dir(folder.join("configs")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let instance =
            Instance::read(&path, None).unwrap_or_else(|error| panic!("{path:?}: {:?}", error.faults));
        let (found, notes) = summary(&path, Precision::Bf16).expect("a configuration");
        let held: u64 = instance
            .network
            .layers
            .iter()
            .map(|layer| layer.parameter_bytes)
            .sum();
        let is_tied = notes
            .iter()
            .any(|note| note.to_string().contains("tie_word_embeddings"));
        let words: u64 = json_of(&path)["vocab_size"].as_u64().expect("words");
        let width = ["hidden_size", "n_embd"]
            .iter()
            .find_map(|name| json_of(&path)[name].as_u64())
            .expect("a width");
        let copy = if is_tied { words * width } else { 0 };
        assert_eq!(held, 2 * (found.parameters + copy), "{path:?}");
    }
}

fn json_of(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text.replace("Infinity", "0")).expect("JSON")
}

/// Fields that most configurations have: layers, width, width inside, heads, heads of keys and values, words.
fn sizes([layers, hidden, inner, heads, key_values, words]: [u64; 6]) -> Value {
    json!({
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": key_values,
        "vocab_size": words,
    })
}

/// A published model: its sizes, other fields, and how many parameters its checkpoint holds, copies of tables beside multi-token prediction
/// counted apart. The counts are those of the safetensors files as model pages and mirrors of them state.
type Published = (&'static str, [u64; 6], Value, u64);

fn published() -> Vec<Published> {
    vec![
        ("phi3", [32, 3072, 8192, 32, 32, 32_064], json!({}), 3_821_079_552),
        (
            "gemma2",
            [26, 2304, 9216, 8, 4, 256_000],
            json!({}),
            2_614_341_888,
        ),
        (
            "gemma3_text",
            [26, 1152, 6912, 4, 1, 262_144],
            json!({}),
            999_885_952,
        ),
        (
            "olmo2",
            [32, 4096, 11_008, 32, 32, 100_352],
            json!({}),
            7_298_617_344,
        ),
        (
            "olmoe",
            [16, 2048, 1024, 16, 16, 50_304],
            json!({ "num_experts": 64, "num_experts_per_tok": 8 }),
            6_919_161_856,
        ),
        (
            "glm4",
            [40, 4096, 13_696, 32, 2, 151_552],
            json!({ "attention_bias": true, "head_dim": 128 }),
            9_400_279_040,
        ),
        (
            "qwen2_moe",
            [24, 2048, 5632, 16, 16, 151_936],
            json!({
                "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1,
            }),
            14_315_784_192,
        ),
        (
            "deepseek_v3",
            [61, 7168, 18_432, 128, 128, 129_280],
            deepseek_v3(),
            671_026_419_200,
        ),
    ]
}

fn deepseek_v3() -> Value {
    json!({
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3, "moe_layer_freq": 1, "topk_method": "noaux_tc", "num_nextn_predict_layers": 1,
    })
}

#[test]
fn counts_of_checkpoints() {
    for (name, of, fields, known) in published() {
        let config = with(&with(&sizes(of), fields), json!({ "model_type": name }));
        assert_eq!(summed(&config).parameters, known, "{name}");
    }
}

/// Two blocks of the same kind for two: a layer for predictions is another block, a product of twice the width, and norms of state, embedding
/// and head. What a checkpoint of GLM-4.5-Air holds has copies of both tables beside.
#[test]
fn layers_that_predict_further_tokens() {
    let config = with(
        &sizes([46, 4096, 10_944, 96, 8, 151_552]),
        json!({
            "model_type": "glm4_moe", "head_dim": 128, "attention_bias": true, "use_qk_norm": false, "n_routed_experts": 128,
            "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 1,
        }),
    );
    let found = summed(&config);
    let copies = 2 * 151_552 * 4096;
    assert_eq!(
        found.parameters + found.mtp_parameters.unwrap() + copies,
        110_468_824_832
    );
    let kinds: Vec<_> = found
        .layers
        .iter()
        .map(|run| (run.first, run.last, run.kind))
        .collect();
    assert_eq!(kinds, [(0, 0, "dense"), (1, 45, "moe")]);
    assert_eq!(found.kv_bytes_per_token, 46 * 2 * 8 * 128 * 2);
    // DeepSeek-V3 keeps a latent vector of 512 and a rotary key of 64.
    let fields = with(&deepseek_v3(), json!({ "model_type": "deepseek_v3" }));
    let found = summed(&with(&sizes([61, 7168, 18_432, 128, 128, 129_280]), fields));
    assert_eq!(found.kv_bytes_per_token, 61 * 576 * 2);
    assert_eq!(found.active_parameters, 37_552_297_472);
    assert_eq!(found.mtp_parameters, Some(11_610_068_224));
}

/// A network of three blocks and two layers for further tokens: small numbers of unlike factors.
fn predicting(mtp: &str, granularity: &str) -> stagecut::spec::InstanceSpec {
    let fields = with(&deepseek_v3(), json!({ "num_nextn_predict_layers": 2 }));
    let config = with(&sizes([4, 8, 24, 4, 4, 10]), fields);
    let config = with(
        &config,
        json!({ "model_type": "deepseek_v3", "n_routed_experts": 16 }),
    );
    let folder = Folder::with("config.json", config.to_string());
    let asked = [
        "import",
        "config.json",
        "--mtp",
        mtp,
        "--granularity",
        granularity,
    ];
    let run = folder.run(&[&asked[..], &["--sequence", "7", "--micro-batch", "3", "--quiet"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("an instance")
}

/// Bytes of parameters that a layer does not share.
fn own_bytes(layer: &stagecut::spec::LayerSpec) -> f64 {
    layer.parameter_bytes - layer.shared_bytes.unwrap_or(0.0)
}

/// Layers for further tokens are in the network with as many parameters as the summary counts, hold a copy of the table of words, read the state
/// and hand theirs to the head, which compares all vectors with all words.
#[test]
fn layers_that_predict_further_tokens_in_the_network() {
    let (words, width, tokens) = (10.0, 8.0, 21.0);
    let without = predicting("0", "block");
    let with_two = predicting("2", "block");
    let ids = |spec: &stagecut::spec::InstanceSpec| -> Vec<String> {
        spec.network.layers.iter().map(|layer| layer.id.clone()).collect()
    };
    assert_eq!(ids(&without), ["embedding", "b0", "b1", "b2", "b3", "head"]);
    assert_eq!(
        ids(&with_two),
        ["embedding", "b0", "b1", "b2", "b3", "mtp0", "mtp1", "head"]
    );
    let layer = |spec: &stagecut::spec::InstanceSpec, id: &str| {
        let found = spec.network.layers.iter().find(|layer| layer.id == id);
        found.cloned().expect("a layer")
    };
    // What a block has, the join of two vectors, and three norms.
    let own = own_bytes(&layer(&with_two, "b3")) + 2.0 * (2.0 * width * width + 3.0 * width);
    for id in ["mtp0", "mtp1"] {
        let predictor = layer(&with_two, id);
        assert_eq!(own_bytes(&predictor), own);
        assert_eq!(predictor.shared_bytes, Some(2.0 * words * width));
        assert_eq!(predictor.shared, layer(&with_two, "embedding").shared);
        assert!(predictor.modes.iter().all(|mode| mode.recompute.is_none()));
    }
    assert_eq!(layer(&without, "embedding").shared, None);
    assert_eq!(layer(&with_two, "head").shared, None);
    let head = |spec| layer(spec, "head");
    assert_eq!(head(&without).parameter_bytes, head(&with_two).parameter_bytes);
    let flops = |spec| head(spec).work.expect("work").forward_flops;
    let further = 2.0 * tokens * (2.0 * width * words + 5.0 * words);
    assert_eq!(flops(&with_two) - flops(&without), further);
    let readers = |producer: &str| {
        let tensors = with_two.network.tensors.iter();
        let mut found = tensors.filter(|tensor| tensor.producer == producer);
        found
            .next()
            .map(|tensor| tensor.consumers.clone())
            .unwrap_or_default()
    };
    assert_eq!(readers("b3"), ["mtp0", "head"]);
    assert_eq!(readers("mtp0"), ["mtp1", "head"]);
    assert_eq!(readers("mtp1"), ["head"]);
}

/// Operators of further predictions hold what their blocks do, and every tensor that is read backward too was read forward.
#[test]
fn operators_that_predict_further_tokens() {
    let (blocks, operators) = (predicting("2", "block"), predicting("2", "operator"));
    let of = |spec: &stagecut::spec::InstanceSpec, begins: &str| -> f64 {
        let layers = spec.network.layers.iter();
        let own = layers.filter(|layer| layer.id.starts_with(begins));
        own.map(own_bytes).sum()
    };
    for begins in ["mtp0", "mtp1", "head", "embedding"] {
        assert_eq!(of(&blocks, begins), of(&operators, begins), "{begins}");
    }
    let reads = |from: &str, to: &str| {
        let mut tensors = operators.network.tensors.iter();
        tensors.any(|tensor| tensor.producer == from && tensor.consumers.iter().any(|own| own == to))
    };
    for (from, to) in [
        ("b3.output", "mtp0.norm_state"),
        ("mtp0.output", "mtp1.norm_state"),
        ("mtp0.output", "head.logits"),
        ("mtp1.output", "head.logits"),
        ("head.logits.grad", "mtp0.output.grad"),
        ("mtp1.norm_state.grad", "mtp0.output.grad"),
        ("mtp0.norm_state.grad", "b3.output.grad"),
    ] {
        assert!(reads(from, to), "{from} to {to}");
    }
}

#[test]
fn further_predictions_that_are_not_there() {
    let config = with(&sizes([4, 8, 24, 4, 4, 10]), deepseek_v3());
    let config = with(
        &config,
        json!({ "model_type": "deepseek_v3", "max_position_embeddings": 64 }),
    );
    let folder = Folder::with("config.json", config.to_string());
    for (asked, words) in [
        (
            &["import", "config.json", "--mtp", "2"][..],
            "at most 1, which the file says (`num_nextn_predict_layers`)",
        ),
        (
            &["import", "config.json", "--mtp", "1", "--phase", "decode"],
            "drafts of tokens are not modelled",
        ),
        (
            &["plan", "config.json", "--mtp", "9", "--global-batch", "4"],
            "at most 1, which the file says (`num_nextn_predict_layers`)",
        ),
    ] {
        refused(&folder.run(asked), &["--mtp", words]);
    }
    let note = folder.run(&["import", "config.json"]).stderr;
    assert!(
        note.contains("left out of the network: 1; `--mtp 1` puts so many in"),
        "{note}"
    );
}

/// A model that sees: its type, its fields, and how many parameters its checkpoint holds.
type Seeing = (&'static str, Value, u64);

fn vision(fields: Value) -> Value {
    json!({ "vision_config": fields })
}

fn qwens_that_see() -> Vec<Seeing> {
    let qwen = with(
        &sizes([28, 3584, 18_944, 28, 4, 152_064]),
        json!({ "tie_word_embeddings": false }),
    );
    let third = with(
        &sizes([36, 4096, 12_288, 32, 8, 151_936]),
        json!({ "head_dim": 128 }),
    );
    let fields =
        json!({ "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "num_heads": 16 });
    let second = ("qwen2_vl", with(&qwen, vision(fields)), 8_291_375_616);
    let fields = json!({ "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16 });
    let fields = with(&qwen, vision(fields));
    let half = ("qwen2_5_vl", fields, 8_292_166_656);
    let fields =
        json!({ "depth": 27, "hidden_size": 1152, "num_heads": 16, "deepstack_visual_indexes": [8, 16, 24] });
    let fields = with(&vision(fields), json!({ "text_config": third }));
    vec![second, half, ("qwen3_vl", fields, 8_767_123_696)]
}

fn others_that_see() -> Vec<Seeing> {
    let siglip = json!({
        "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
        "image_size": 896, "patch_size": 14,
    });
    // The file of the published model says no more.
    let words = json!({ "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34 });
    let gemma = with(&vision(siglip), json!({ "text_config": words }));
    let words = sizes([32, 4096, 11_008, 32, 32, 32_064]);
    let llava = with(&vision(json!({})), json!({ "text_config": words }));
    let words = with(
        &sizes([48, 5120, 8192, 40, 8, 202_048]),
        json!({
            "num_local_experts": 16, "num_experts_per_tok": 1, "intermediate_size_mlp": 16_384, "interleave_moe_layer_step": 1,
        }),
    );
    let scout = json!({ "hidden_size": 1408, "image_size": 336, "vision_output_dim": 4096 });
    let scout = with(&vision(scout), json!({ "text_config": words }));
    let words = sizes([40, 4096, 14_336, 32, 8, 128_256]);
    let crossing = with(
        &vision(json!({ "image_size": 560 })),
        json!({ "text_config": words }),
    );
    vec![
        ("gemma3", gemma, 4_300_079_472),
        ("llava", llava, 7_063_427_072),
        ("llama4", scout, 108_641_793_536),
        ("mllama", crossing, 10_670_220_835),
    ]
}

/// Models that see: the language model and what sees are what the checkpoint holds.
#[test]
fn counts_of_models_that_see() {
    for (name, config, known) in [qwens_that_see(), others_that_see()].concat() {
        let config = with(&config, json!({ "model_type": name }));
        let found = summed(&config);
        let seen = found.vision_parameters.expect("a tower");
        assert_eq!(
            found.parameters + seen,
            known,
            "{name}: {} and {seen}",
            found.parameters
        );
        let folder = Folder::with("config.json", config.to_string());
        let instance = Instance::read(&folder.path("config.json"), None).expect("an instance");
        assert_eq!(instance.network.layers[0].id, "vision.patches", "{name}");
    }
}

/// Small models whose tensors are written down: matrices by their sides, vectors by their length.
#[test]
fn counts_by_hand() {
    let tiny = sizes([2, 8, 24, 4, 2, 10]);
    let tables = 2 * 10 * 8 + 8;
    // Heads of 2: queries 8, keys and values 4 each.
    let attention = 8 * 8 + 2 * 8 * 4 + 8 * 8;
    let gated = 3 * 8 * 24;
    let of = |name: &str, fields: Value| summed(&with(&with(&tiny, fields), json!({ "model_type": name })));
    assert_eq!(
        of("llama", json!({})).parameters,
        tables + 2 * (attention + gated + 2 * 8)
    );
    let biases = 8 + 2 * 4 + 8;
    let found = of(
        "llama",
        json!({ "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true }),
    );
    assert_eq!(
        found.parameters,
        10 * 8 + 8 + 2 * (attention + biases + gated + 2 * 24 + 8 + 2 * 8)
    );
    assert_eq!(
        of("mistral", json!({})).parameters,
        tables + 2 * (attention + gated + 2 * 8)
    );
    assert_eq!(
        of("qwen2", json!({})).parameters,
        tables + 2 * (attention + 8 + 2 * 4 + gated + 2 * 8)
    );
    // Heads of 16, and a scale for all heads of queries and one for those of keys.
    let wide = 8 * 64 + 2 * 8 * 32 + 64 * 8;
    let found = of("qwen3", json!({ "head_dim": 16 }));
    assert_eq!(found.parameters, tables + 2 * (wide + 2 * 16 + gated + 2 * 8));
    assert_eq!(found.kv_bytes_per_token, 2 * 2 * 32 * 2);
    let found = of("gemma", json!({ "head_dim": 16 }));
    assert_eq!(found.parameters, 10 * 8 + 8 + 2 * (wide + gated + 2 * 8));
    // A norm before and one behind each part; scales of queries and keys are those of all heads.
    assert_eq!(
        of("glm4", json!({ "head_dim": 2 })).parameters,
        tables + 2 * (attention + gated + 4 * 8)
    );
    assert_eq!(
        of("olmo2", json!({})).parameters,
        tables + 2 * (attention + 8 + 4 + gated + 2 * 8)
    );
    // Two matrices, norms with a shift.
    let found = of("nemotron", json!({}));
    assert_eq!(
        found.parameters,
        2 * 10 * 8 + 2 * 8 + 2 * (attention + 2 * 8 * 24 + 4 * 8)
    );
}

/// The same of experts: what is held, and what a token uses.
#[test]
fn experts_by_hand() {
    let tiny = sizes([4, 8, 24, 4, 2, 10]);
    let tables = 2 * 10 * 8 + 8;
    let attention = 8 * 8 + 2 * 8 * 4 + 8 * 8;
    let of = |name: &str, fields: Value| summed(&with(&with(&tiny, fields), json!({ "model_type": name })));
    let all = |found: &Summary| [found.parameters, found.active_parameters];
    let expert = 3 * 8 * 24;
    let found = of(
        "mixtral",
        json!({ "num_local_experts": 6, "num_experts_per_tok": 2 }),
    );
    let rest = attention + 8 * 6 + 2 * 8;
    assert_eq!(
        all(&found),
        [6, 2].map(|experts| tables + 4 * (rest + experts * expert))
    );
    // Biases of experts and router, and a score for nothing in each head.
    let found = of(
        "gpt_oss",
        json!({ "head_dim": 2, "num_local_experts": 6, "num_experts_per_tok": 2 }),
    );
    let rest = attention + 8 + 2 * 4 + 8 + 4 + 8 * 6 + 6 + 2 * 8;
    assert_eq!(
        all(&found),
        [6, 2].map(|experts| tables + 4 * (rest + experts * (expert + 2 * 24 + 8)))
    );
    // Every other layer has experts of width 5; layer 3 would have, and is listed.
    let fields = json!({
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "decoder_sparse_step": 2, "mlp_only_layers": [3],
        "head_dim": 2,
    });
    let found = of("qwen3_moe", fields);
    let norms = 2 * 2 + 2 * 8;
    let dense = attention + norms + expert;
    let moe = |experts: u64| attention + norms + 8 * 6 + experts * 3 * 8 * 5;
    assert_eq!(
        all(&found),
        [6, 2].map(|experts| tables + 3 * dense + moe(experts))
    );
    let kinds: Vec<_> = found
        .layers
        .iter()
        .map(|run| (run.first, run.last, run.kind))
        .collect();
    assert_eq!(kinds, [(0, 0, "dense"), (1, 1, "moe"), (2, 3, "dense")]);
    // Interleaved, with a shared expert as wide as the routed ones, and dense layers of a width of their own.
    let fields = json!({
        "num_local_experts": 6, "num_experts_per_tok": 1, "intermediate_size_mlp": 40, "interleave_moe_layer_step": 2, "head_dim": 2,
    });
    let found = of("llama4_text", fields);
    let dense = attention + 2 * 8 + 3 * 8 * 40;
    let moe = |experts: u64| attention + 2 * 8 + 8 * 6 + (experts + 1) * expert;
    assert_eq!(
        all(&found),
        [6, 1].map(|experts| tables + 2 * dense + 2 * moe(experts))
    );
    // Latent attention without a latent vector of queries, and no correction where nothing says one.
    let fields = json!({
        "kv_lora_rank": 6, "qk_nope_head_dim": 3, "qk_rope_head_dim": 1, "v_head_dim": 5, "n_routed_experts": 6,
        "num_experts_per_tok": 2, "n_shared_experts": 2, "moe_intermediate_size": 5, "first_k_dense_replace": 3,
    });
    let latent = 8 * 16 + 8 * 7 + 6 + 6 * 4 * (3 + 5) + 4 * 5 * 8 + 2 * 8;
    let moe = |experts: u64| latent + 8 * 6 + (experts + 2) * 3 * 8 * 5;
    let found = of("deepseek_v2", fields.clone());
    assert_eq!(
        all(&found),
        [6, 2].map(|experts| tables + 3 * (latent + expert) + moe(experts))
    );
    assert_eq!(found.kv_bytes_per_token, 4 * 7 * 2);
    // With one, and the correction of each expert.
    let found = of("kimi_k2", with(&fields, json!({ "q_lora_rank": 4 })));
    let latent = latent - 8 * 16 + 8 * 4 + 4 + 4 * 16;
    assert_eq!(
        found.parameters,
        tables + 3 * (latent + expert) + latent + 8 * 6 + 6 + 8 * 3 * 8 * 5
    );
}

/// Layers that differ: state spaces, attention, MLPs, experts, and layers without one part.
#[test]
fn unlike_layers_by_hand() {
    let tiny = sizes([4, 8, 24, 4, 2, 10]);
    let tables = 2 * 10 * 8 + 8;
    let attention = 8 * 8 + 2 * 8 * 4 + 8 * 8;
    let config = with(
        &tiny,
        json!({
            "model_type": "nemotron_h", "hybrid_override_pattern": "M*-E", "head_dim": 2,
            "mamba_num_heads": 6, "mamba_head_dim": 2, "n_groups": 2, "ssm_state_size": 3, "conv_kernel": 4,
            "n_routed_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 5, "moe_shared_expert_intermediate_size": 7,
        }),
    );
    let found = summed(&config);
    // Inside, 6 heads of 2 and 2 groups of 3 numbers in and out: the gate, what is convolved, a step for each head.
    let (inner, convolved) = (12, 12 + 2 * 6);
    let mamba = 8 + 8 * (inner + convolved + 6) + convolved * 5 + 3 * 6 + inner + inner * 8;
    let moe = 8 + 8 * 4 + 4 + 2 * 8 * 7 + 4 * 2 * 8 * 5;
    let sum = mamba + (8 + attention) + (8 + 2 * 8 * 24) + moe;
    assert_eq!(found.parameters, tables + sum);
    assert_eq!(found.active_parameters, tables + sum - 3 * 2 * 8 * 5);
    assert_eq!(found.kv_bytes_per_token, 2 * 4 * 2);
    let kinds: Vec<_> = found.layers.iter().map(|run| run.kind).collect();
    assert_eq!(kinds, ["mamba", "attention", "mlp", "moe"]);
    let part = |attention: Value, mlp: Value| json!({ "attention": attention, "ffn": mlp });
    let no = json!({ "no_op": true });
    let config = with(
        &tiny,
        json!({
            "model_type": "nemotron-nas", "num_key_value_heads": null,
            "block_configs": [
                part(json!({ "n_heads_in_group": 4 }), json!({ "ffn_mult": 2.0 })),
                part(no.clone(), json!({ "ffn_mult": 60.0 })),
                part(json!({ "n_heads_in_group": 2 }), no.clone()),
                part(no.clone(), no),
            ],
        }),
    );
    let found = summed(&config);
    // Widths inside are two thirds of 2 and 60 times 8, rounded up to multiples of 256; of queries 8, of keys 2 and 4.
    let first = 8 * 8 + 2 * 8 * 2 + 8 * 8 + 8 + 8 + 3 * 8 * 256;
    assert_eq!(found.parameters, tables + first + 8 + 3 * 8 * 512 + attention + 8);
    assert_eq!(found.kv_bytes_per_token, (2 * 2 + 2 * 4) * 2);
}

/// Where windows are said by layer, layers are told apart by them; where a class has them, they are known without.
#[test]
fn windows_make_work_shorter() {
    let config = with(
        &sizes([4, 8, 24, 4, 2, 10]),
        json!({ "model_type": "gemma2", "head_dim": 2, "sliding_window": 16 }),
    );
    let times = |config: &Value| -> Vec<f64> {
        let folder = Folder::with("config.json", config.to_string());
        let (spec, _) = read_spec(&folder.path("config.json")).expect("a configuration");
        let blocks = spec
            .network
            .layers
            .iter()
            .filter(|layer| layer.id.starts_with('b'));
        blocks
            .map(|layer| layer.work.as_ref().expect("work").forward_flops)
            .collect()
    };
    let of = times(&config);
    // 4 heads of 2 over 4,096 tokens: two products and a softmax for each pair.
    let pair = 4.0 * (2.0 * 2.0 * 2.0 + 5.0);
    assert_eq!(of[1] - of[0], 4096.0 * (4096.0 - 16.0) * pair);
    assert_eq!([of[0], of[1]], [of[2], of[3]]);
    assert_eq!(summed(&config).layers.len(), 1);
    let types = json!([
        "sliding_attention",
        "sliding_attention",
        "full_attention",
        "full_attention"
    ]);
    let said = with(&config, json!({ "layer_types": types }));
    assert_eq!(times(&said), [of[0], of[0], of[1], of[1]]);
    let kinds: Vec<_> = summed(&said)
        .layers
        .iter()
        .map(|run| (run.last, run.kind))
        .collect();
    assert_eq!(kinds, [(1, "sliding"), (3, "full")]);
}

/// FLOPs that the model asks for, of a micro-batch.
fn model_flops(config: &Value, options: &[&str]) -> f64 {
    let folder = Folder::with("config.json", config.to_string());
    let text = folder.succeed(&[&["import", "config.json", "--quiet"], options].concat());
    let spec: Value = serde_json::from_str(&text).expect("JSON");
    spec["network"]["micro_batch"]["forward_flops"]
        .as_f64()
        .expect("FLOPs")
}

/// Two for each number of a matrix that a token meets, and two for each pair of tokens and each number of a head's key and value: behind a
/// cache keys and values are the latent vectors themselves, and the product that would expand them is as large.
#[test]
fn work_of_latent_attention_and_experts_by_hand() {
    let config = with(
        &sizes([4, 8, 24, 4, 4, 10]),
        json!({
            "model_type": "deepseek_v2", "kv_lora_rank": 6, "qk_nope_head_dim": 3, "qk_rope_head_dim": 1, "v_head_dim": 5,
            "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 2, "moe_intermediate_size": 5, "first_k_dense_replace": 3,
        }),
    );
    let latent = 8 * 16 + 8 * 7 + 6 * 4 * (3 + 5) + 4 * 5 * 8;
    let numbers = 4 * latent + 3 * 3 * 8 * 24 + 8 * 6 + (2 + 2) * 3 * 8 * 5 + 8 * 10;
    let of =
        |tokens: u32, pairs: u32, widths: u32| f64::from(2 * tokens * numbers + 2 * 4 * 4 * pairs * widths);
    assert_eq!(
        model_flops(&config, &["--sequence", "16"]),
        of(16, 16 * 16, 4 + 5)
    );
    let decoding = ["--sequence", "1", "--context", "15", "--micro-batch", "2"];
    assert_eq!(model_flops(&config, &decoding), of(2, 2 * 16, 7 + 6));
}

/// A chunk of tokens is computed as attention is, with one pair of matrices a group; then the state goes on.
#[test]
fn work_of_a_state_space_by_hand() {
    let config = with(
        &sizes([1, 8, 24, 4, 2, 10]),
        json!({
            "model_type": "nemotron_h", "hybrid_override_pattern": "M", "chunk_size": 4,
            "mamba_num_heads": 6, "mamba_head_dim": 2, "n_groups": 2, "ssm_state_size": 3, "conv_kernel": 4,
        }),
    );
    let numbers = 8 * (12 + 24 + 6) + 12 * 8 + 8 * 10;
    let scan = 2 * 4 * (2 * 3 + 12) + 2 * 2 * 3 * 12;
    assert_eq!(
        model_flops(&config, &["--sequence", "16"]),
        f64::from(16 * (2 * numbers + scan))
    );
}

/// Operators of every kind of model are an instance too, each layer with a name of its own.
#[test]
fn operators_are_instances() {
    let short = |config: &Value| {
        let text = with(&config["text_config"], json!({ "num_hidden_layers": 4 }));
        let vision = with(
            &config["vision_config"],
            json!({ "depth": 2, "num_hidden_layers": 2, "num_global_layers": 1 }),
        );
        with(
            config,
            json!({ "text_config": text, "vision_config": vision, "num_hidden_layers": 4 }),
        )
    };
    let seeing = [qwens_that_see(), others_that_see()].concat();
    let seeing = seeing
        .into_iter()
        .filter(|(_, config, _)| config["text_config"].is_object());
    for (name, config, _) in seeing {
        let config = with(&short(&config), json!({ "model_type": name }));
        let folder = Folder::with("config.json", config.to_string());
        let text = folder.succeed(&["import", "config.json", "--quiet", "--granularity", "operator"]);
        let spec: Value = serde_json::from_str(&text).expect("JSON");
        let count = |ends: &str| {
            let layers = spec["network"]["layers"].as_array().expect("layers").iter();
            layers
                .filter(|layer| layer["id"].as_str().expect("a name").ends_with(ends))
                .count()
        };
        // The last operator of the head makes no gradient that somebody reads, and has one all the same.
        assert!(count(".grad") > 50 && count(".update") > 20, "{name}");
    }
}

/// One token goes to its experts; many go to all of them, whose weights are read.
#[test]
fn a_micro_batch_reads_the_experts_that_it_touches() {
    let config = with(
        &sizes([1, 1024, 4096, 8, 8, 10]),
        json!({
            "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2,
        }),
    );
    let bytes = |options: &[&str]| -> [f64; 2] {
        let folder = Folder::with("config.json", config.to_string());
        let text = folder.succeed(&[&["import", "config.json", "--quiet"], options].concat());
        let spec: Value = serde_json::from_str(&text).expect("JSON");
        let layers = spec["network"]["layers"].as_array().expect("layers").clone();
        let block = layers
            .into_iter()
            .find(|layer| layer["id"] == "b0")
            .expect("a block");
        [&block["work"]["forward_bytes"], &block["parameter_bytes"]]
            .map(|bytes| bytes.as_f64().expect("bytes"))
    };
    let expert = 2.0 * 3.0 * 1024.0 * 4096.0;
    let [one, held] = bytes(&["--sequence", "1", "--context", "0"]);
    let [two, _] = bytes(&["--sequence", "1", "--context", "0", "--micro-batch", "2"]);
    let [many, same] = bytes(&["--sequence", "512", "--context", "0"]);
    assert_eq!(held, same);
    // The rest is a hundredth of an expert for a token.
    assert!((one - (held - 6.0 * expert)).abs() < 0.03 * expert, "{one}");
    // The second token finds a quarter of its two there already.
    assert!((two - one - 1.5 * expert).abs() < 0.03 * expert, "{two}");
    assert!(many > held, "{many}");
}

/// Whatever is missing is named, all of it at once.
#[test]
fn what_is_missing_or_unknown_is_named() {
    let import = |config: Value| {
        Folder::with("config.json", config.to_string()).run(&["import", "config.json", "--summary"])
    };
    let run = import(json!({ "model_type": "qwen3_moe", "hidden_size": 8, "num_attention_heads": 4 }));
    let missing = [
        "vocab_size",
        "num_hidden_layers",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
    ];
    refused(&run, &missing);
    let whole = sizes([2, 8, 24, 4, 2, 10]);
    let of = |fields: Value| import(with(&whole, fields));
    refused(
        &of(json!({ "model_type": "mystery" })),
        &["unknown architecture, `mystery`", "deepseek_v3", "qwen3_vl"],
    );
    refused(
        &of(json!({ "architectures": ["MysteryForCausalLM"] })),
        &["unknown architecture", "llama"],
    );
    refused(
        &of(json!({ "model_type": "llama", "hidden_size": "wide" })),
        &["hidden_size", "`wide`"],
    );
    refused(
        &of(json!({ "model_type": "llama", "num_attention_heads": 3 })),
        &["num_attention_heads", "head_dim"],
    );
    refused(
        &of(json!({ "model_type": "llama", "num_key_value_heads": 3 })),
        &["num_key_value_heads"],
    );
    refused(
        &of(json!({ "model_type": "llama", "vocab_size": 0 })),
        &["vocab_size", "above 0"],
    );
    refused(
        &of(json!({ "model_type": "qwen3", "layer_types": ["linear_attention", "full_attention"] })),
        &["layer_types"],
    );
    refused(
        &of(json!({ "model_type": "qwen3", "layer_types": ["full_attention"] })),
        &["layer_types", "1 elements for 2"],
    );
    let vision = json!({ "model_type": "llama", "vision_config": {} });
    refused(&of(vision), &["a vision tower of an unknown form"]);
    refused(
        &of(json!({ "model_type": "nemotron_h", "hybrid_override_pattern": "M" })),
        &["1 letters for 2 layers"],
    );
    refused(
        &of(
            json!({ "model_type": "mllama", "text_config": with(&whole, json!({ "cross_attention_layers": [1] })) }),
        ),
        &["vision_config"],
    );
    let cut_short =
        Folder::with("config.json", "{\"model_type\": \"llama\",").run(&["import", "config.json"]);
    refused(&cut_short, &["line 1"]);
}

/// A file is known by its class where it has no type; numbers that are none are read as Python writes them.
#[test]
fn what_python_writes_is_read() {
    let text = with(
        &sizes([2, 8, 24, 4, 2, 10]),
        json!({ "architectures": ["LlamaForCausalLM"], "limit": ["of", "-Infinity"] }),
    );
    let text = text
        .to_string()
        .replace("[\"of\"", "[Infinity, -Infinity, NaN, \"NaN \\\" Infinity\"");
    let folder = Folder::with("config.json", text);
    let (found, _) = summary(&folder.path("config.json"), Precision::Fp32).expect("a configuration");
    assert_eq!(found.kv_bytes_per_token, 2 * 2 * 4 * 4);
}

/// Options of a run belong to configurations, and degrees must share out heads.
#[test]
fn options_are_those_of_configurations() {
    let folder = Folder::with(
        "config.json",
        with(&sizes([2, 8, 24, 4, 2, 10]), json!({ "model_type": "llama" })).to_string(),
    );
    folder.write("net.json", crate::common::command::NET.replace("[network]", ""));
    refused(
        &folder.run(&["import", "net.json", "--sequence", "8"]),
        &["no configuration of a model"],
    );
    refused(
        &folder.run(&["import", "net.json", "--summary"]),
        &["no configuration of a model"],
    );
    refused(
        &folder.run(&["import", "config.json", "--tensor", "4"]),
        &["--tensor", "2 heads of keys and values"],
    );
    let spec: Value =
        serde_json::from_str(&folder.succeed(&["import", "config.json", "--quiet", "--micro-batches", "8"]))
            .unwrap();
    assert_eq!(spec["pipeline"]["micro_batches"], 8);
    let layers: Vec<&str> = spec["network"]["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|layer| layer["id"].as_str().unwrap())
        .collect();
    assert_eq!(layers, ["embedding", "b0", "b1", "head"]);
    let degrees: Vec<_> = spec["network"]["layers"][1]["modes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode["tensor"].clone())
        .collect();
    assert!(
        degrees.contains(&json!(2)) && !degrees.contains(&json!(4)),
        "{degrees:?}"
    );
    let json: Value =
        serde_json::from_str(&folder.succeed(&["import", "config.json", "--summary", "--format", "json"]))
            .unwrap();
    assert_eq!(json["precision"], "bf16");
    assert_eq!(json["layers"][0]["last"], 1);
}

/// The same sizes by a preset of the generator and by a configuration are the same work, layer by layer.
#[test]
fn presets_and_configurations_agree() {
    let folder = Folder::with(
        "config.json",
        with(
            &sizes([80, 8192, 28_672, 64, 8, 128_256]),
            json!({ "model_type": "llama" }),
        )
        .to_string(),
    );
    let imported = folder.succeed(&["import", "config.json", "--quiet", "--sequence", "8192"]);
    let generated = folder.succeed(&[
        "generate",
        "transformer",
        "--preset",
        "llama3-70b",
        "--granularity",
        "block",
    ]);
    let network = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["network"].clone();
    assert_eq!(network(&imported), network(&generated));
}
