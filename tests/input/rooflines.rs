//! Times that follow from work: against the calculations by hand of `docs/rooflines.md`, for three models on three GPUs, decoding and
//! training. What is expected is written down, not computed by the rule that is tested.

use crate::common::command::Folder;
use serde_json::Value;
use stagecut::generate::transformer::{Granularity, PRESETS, Transformer, transformer};
use stagecut::import::read_cluster;
use stagecut::instance::Instance;
use stagecut::spec::InstanceSpec;

const GPUS: [&str; 3] = ["a100-bf16", "h100-bf16", "rtx-4090"];

/// A model by its preset, in blocks.
fn model(name: &str) -> Transformer {
    Transformer {
        preset: PRESETS.iter().find(|preset| preset.name == name),
        granularity: Granularity::Block,
        ..Transformer::default()
    }
}

/// One token after so many.
fn decoding(name: &str, context: u32) -> Transformer {
    Transformer {
        sequence: Some(1),
        context: Some(context),
        ..model(name)
    }
}

fn made(asked: &Transformer, cluster: &str) -> (InstanceSpec, Instance) {
    let mut spec = transformer(asked).expect("even heads");
    spec.cluster = Some(read_cluster(cluster).expect("a preset"));
    let instance = Instance::from_spec(&spec).expect("a valid instance");
    (spec, instance)
}

/// Forward and backward time of the whole network on one device, in ms.
fn whole_ms(asked: &Transformer, cluster: &str) -> [f64; 2] {
    let (_, instance) = made(asked, cluster);
    let times = instance.network.layers.iter().flat_map(|layer| layer.times[0]);
    times.fold([0.0; 2], |sum, times| {
        [
            sum[0] + times.forward_ns as f64 / 1e6,
            sum[1] + times.backward_ns as f64 / 1e6,
        ]
    })
}

fn within(found: f64, expected: f64, part: f64) -> bool {
    (found / expected - 1.0).abs() <= part
}

/// Bytes of the parameters that a token reads, and of keys and values for 4,096 tokens before it, over the memory rate. Activations of
/// one token are a thousandth of that.
#[test]
fn a_token_takes_as_long_as_reading_the_parameters_and_the_cache() {
    // Model, bytes read, ms of a token on each GPU, and with the cache.
    let expected = [
        (
            "llama2-7b",
            13.215e9,
            [6.481, 3.945, 13.110],
            [7.534, 4.586, 15.240],
        ),
        (
            "llama3-70b",
            139.006e9,
            [68.174, 41.494, 137.903],
            [68.832, 41.895, 139.234],
        ),
        (
            "gpt3-175b",
            349.137e9,
            [171.230, 104.220, 346.366],
            [180.708, 109.989, 365.540],
        ),
    ];
    for (name, bytes, alone, cached) in expected {
        for (gpu, (alone_ms, cached_ms)) in GPUS.into_iter().zip(alone.into_iter().zip(cached)) {
            let [ms, backward_ms] = whole_ms(&decoding(name, 0), gpu);
            assert!(within(ms, alone_ms, 0.003), "{name} on {gpu}: {ms}");
            assert_eq!(backward_ms, 0.0, "{name}: forward alone");
            let [ms, _] = whole_ms(&decoding(name, 4096), gpu);
            assert!(within(ms, cached_ms, 0.003), "{name} on {gpu} with a cache: {ms}");
        }
        let layers = transformer(&decoding(name, 0))
            .expect("even heads")
            .network
            .layers;
        let read: f64 = layers
            .iter()
            .filter_map(|layer| layer.work.as_ref())
            .map(|work| work.forward_bytes)
            .sum();
        assert!(within(read, bytes, 0.003), "{name}: {read}");
    }
}

/// Six operations a parameter of a matrix and token, and twelve a number of width in every layer and token attended to, over the peak:
/// what PaLM's utilisation holds a run against. FlashAttention's scores once more, and the traffic of what stands between the matrices, come on top.
#[test]
fn a_long_sequence_takes_as_long_as_its_operations() {
    let expected = [
        ("llama2-7b", [605.0, 190.9, 1142.6]),
        ("llama3-70b", [12_640.7, 3987.8, 23_873.6]),
        ("gpt3-175b", [7065.4, 2228.9, 13_343.9]),
    ];
    for (name, on) in expected {
        for (gpu, model_ms) in GPUS.into_iter().zip(on) {
            let [forward, backward] = whole_ms(&model(name), gpu);
            let more = (forward + backward) / model_ms;
            assert!((1.0..1.1).contains(&more), "{name} on {gpu}: {more}");
            assert!((1.9..2.2).contains(&(backward / forward)), "{name} on {gpu}");
        }
    }
}

/// Forward of one token: a third of the traffic of the backward pass, which reads the parameters for the gradient of the input and writes
/// gradients as large as these. A step of the optimiser moves seven numbers a parameter beside.
#[test]
fn training_on_a_token_moves_parameters_gradients_and_states() {
    let asked = Transformer {
        sequence: Some(1),
        ..model("llama2-7b")
    };
    let [forward, backward] = whole_ms(&asked, "a100-bf16");
    assert!(within(forward, 6.481, 0.003), "{forward}");
    assert!(within(backward, 2.0 * 6.481, 0.003), "{backward}");
    let with_step = Transformer {
        micro_batches: Some(1),
        ..asked
    };
    // The table of the embedding, which is looked up and not read, is updated too.
    let step = 7.0 * 2.0 * 6.738e9 / 2039e9 * 1e3;
    let [_, backward] = whole_ms(&with_step, "a100-bf16");
    assert!(within(backward, 2.0 * 6.481 + step, 0.003), "{backward}");
}

/// A device of a tensor group reads its part of the parameters and of the cache.
#[test]
fn tensor_groups_share_out_what_is_read() {
    let (_, instance) = made(&decoding("llama3-70b", 4096), "h100-bf16");
    let forward = |degree: usize| -> f64 {
        let modes = instance.network.layers.iter().map(|layer| {
            let mut modes = layer.modes.iter();
            modes.find(|mode| mode.tensor == degree).expect("a mode")
        });
        modes
            .filter_map(|mode| Some(mode.times[0]?.forward_ns as f64))
            .sum()
    };
    for degree in [2, 4, 8] {
        let part = forward(1) / forward(degree);
        assert!(within(part, degree as f64, 0.003), "{degree}: {part}");
    }
    let cached = |degree: usize| -> u64 {
        let modes = instance.network.layers.iter().flat_map(|layer| &layer.modes);
        modes
            .filter(|mode| mode.tensor == degree)
            .map(|mode| 4096 * mode.cache.token_bytes)
            .sum()
    };
    // 80 layers of 8 heads of 128 numbers, keys and values, in 16 bits.
    assert_eq!(cached(1), 4096 * 80 * 8 * 128 * 2 * 2);
    assert_eq!(cached(8), 4096 * 80 * 128 * 2 * 2);
}

/// One network in two granularities: the same work, as far as it can be.
#[test]
fn operators_add_up_to_blocks() {
    for asked in [model("llama3-8b"), decoding("llama3-8b", 1000)] {
        let sums = [Granularity::Block, Granularity::Operator].map(|granularity| {
            let spec = transformer(&Transformer {
                granularity,
                micro_batches: asked.context.is_none().then_some(16),
                ..asked.clone()
            });
            let works = spec
                .expect("even heads")
                .network
                .layers
                .into_iter()
                .filter_map(|layer| layer.work);
            works.fold([0.0; 6], |sum, work| {
                let parts = [
                    work.forward_flops,
                    work.forward_bytes,
                    work.backward_flops,
                    work.backward_bytes,
                    work.weight_flops,
                    work.weight_bytes,
                ];
                std::array::from_fn(|at| sum[at] + parts[at])
            })
        });
        for at in 0..6 {
            assert!(
                (sums[0][at] - sums[1][at]).abs() <= 1e-9 * sums[1][at],
                "{sums:?}"
            );
        }
    }
}

/// What a report says of throughput, in text and JSON, and what the checker says of another figure.
#[test]
fn reports_say_tokens_a_second_and_the_part_of_peak() {
    let folder = Folder::new();
    let generate = "generate transformer --preset llama2-7b --granularity block --sequence 1 --context 0 --output net.json";
    folder.succeed(&generate.split(' ').collect::<Vec<_>>());
    let solve = ["solve", "net.json", "--stages", "1", "--quiet"];
    let text = folder.succeed(&solve);
    // 2 * 6.607e9 operations of 312e12 a second in 6.486 ms.
    assert!(
        text.contains("154.2 tokens/s on 1 device, 0.65 % of their peak in model FLOPs (MFU)"),
        "{text}"
    );
    let json = folder.succeed(&[&solve[..], &["--format", "json"]].concat());
    let plan: Value = serde_json::from_str(&json).expect("JSON");
    let rate = plan["throughput"]["tokens_per_s"].as_f64().unwrap_or(0.0);
    assert!(within(rate, 154.3, 0.003), "{rate}");
    let check = |plan: &Value| {
        folder.write("plan.json", plan.to_string());
        folder.run(&["check", "net.json", "plan.json"])
    };
    assert_eq!(check(&plan).code, 0);
    for (field, value) in [("tokens_per_s", 23_593.0), ("mfu", 0.99)] {
        let mut other = plan.clone();
        other["throughput"][field] = value.into();
        let run = check(&other);
        assert!(run.code == 1 && run.stdout.contains(field), "{}", run.stdout);
    }

    // Of an iteration, the tokens of all micro-batches.
    let generate = "generate transformer --preset llama2-7b --granularity block --output train.json";
    folder.succeed(&generate.split(' ').collect::<Vec<_>>());
    let solve = "solve train.json --stages 2 --objective iteration --micro-batches 8 --format json --quiet";
    let json = folder.succeed(&solve.split(' ').collect::<Vec<_>>());
    let plan: Value = serde_json::from_str(&json).expect("JSON");
    let ms = plan["objective_ms"].as_f64().expect("an objective");
    let throughput = &plan["throughput"];
    let rate = throughput["tokens_per_s"].as_f64().expect("tokens");
    assert!(within(rate, 8.0 * 4096.0 / ms * 1e3, 1e-9), "{rate}");
    // 188.764e12 operations a micro-batch, on two devices.
    let mfu = throughput["mfu"].as_f64().expect("a part of peak");
    assert!(
        within(mfu, 8.0 * 188.764e12 / (ms / 1e3 * 2.0 * 312e12), 1e-4),
        "{mfu}"
    );
}

/// Times that nobody can reach, said by a file of one's own.
#[test]
fn more_than_the_peak_is_called_wrong() {
    let folder = Folder::with(
        "net.toml",
        r#"
[network]
precision = "bf16"
micro_batch = { tokens = 1000, forward_flops = 4e12 }
layers = [{ id = "a", forward_ms = 10.0 }]
[cluster]
device_kinds = [{ name = "gpu", count = 1, flops_per_s = 100e12, precision = "bf16" }]
"#,
    );
    let text = folder.succeed(&["solve", "net.toml", "--quiet"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "100000 tokens/s on 1 device, 400.00 % of their peak in model FLOPs (MFU), more than there is";
    assert!(text.contains(said), "{text}");
    // Of another precision than the rates' nothing is said.
    folder.write(
        "net.toml",
        folder
            .read("net.toml")
            .replace("precision = \"bf16\"\nmicro", "precision = \"fp32\"\nmicro"),
    );
    let text = folder.succeed(&["solve", "net.toml", "--quiet"]);
    assert!(
        text.contains("100000 tokens/s") && !text.contains("MFU"),
        "{text}"
    );
    for (wrong, field) in [
        ("tokens = 0", "tokens"),
        ("tokens = 10, sequences = 0", "sequences"),
        ("tokens = 10, sequences = 4", "sequences"),
    ] {
        let layers = "layers = [{ id = \"a\", forward_ms = 1.0 }]";
        folder.write(
            "net.toml",
            format!("[network]\nmicro_batch = {{ {wrong} }}\n{layers}\n"),
        );
        let run = folder.run(&["solve", "net.toml", "--stages", "1"]);
        let named = format!("network.micro_batch.{field}");
        assert!(run.code == 2 && run.stderr.contains(&named), "{}", run.stderr);
    }
}

/// The rows of one measurement that `docs/rooflines.md` shows, as its tables have them, and what part of the peak each row of the file is.
fn measured_rows(measured: &Value, bytes_per_ms: f64) -> (Vec<String>, Vec<f64>, Vec<f64>) {
    const OPERATIONS_PER_MS: f64 = 989e9;
    let number = |row: &Value, field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field} in {row}"));
    let rows = |part: &str| measured[part].as_array().cloned().unwrap_or_default();
    let (mut shown, mut decoding, mut training) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows("decode") {
        let peak = (number(&row, "weight_bytes") + number(&row, "cache_bytes")) / bytes_per_ms;
        let found = number(&row, "median_ms");
        shown.push(format!("| {peak:.3} | {found:.3} | {:.2} |", peak / found));
        decoding.push(peak / found);
    }
    let again = |row: &Value| row["recompute"] == true;
    let (with, without): (Vec<Value>, Vec<Value>) = rows("train").into_iter().partition(again);
    for (row, again) in without.iter().zip(&with) {
        let width = match row["model"].as_str() {
            Some("llama3-70b") => 8192.0,
            Some("gpt3-175b") => 12288.0,
            _ => 4096.0,
        };
        let attention = 12.0 * number(row, "blocks") * number(row, "sequence") * width;
        let tokens = number(row, "sequence") * number(row, "micro_batch");
        let peak = (6.0 * number(row, "parameters") + attention) * tokens / OPERATIONS_PER_MS;
        let found = number(&row["forward_backward"], "median_ms");
        let again = number(&again["forward_backward"], "median_ms");
        shown.push(format!(
            "| {peak:.1} | {found:.1} | {:.2} | {again:.1} |",
            peak / found
        ));
        training.push(peak / found);
    }
    (shown, decoding, training)
}

/// What was measured on a card, and the section of `docs/rooflines.md` about it.
fn card(folder: &str) -> (Value, String) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("instances/measured").join(folder).join("blocks.json");
    let measured = std::fs::read_to_string(file).expect("what was measured");
    let page = std::fs::read_to_string(root.join("docs/rooflines.md")).expect("the page");
    let title = format!("## Held against an {}", folder.to_uppercase());
    let (_, page) = page.split_once(&title).expect("its section");
    let (page, _) = page.split_once("\n## ").expect("the next section");
    (serde_json::from_str(&measured).expect("JSON"), page.to_string())
}

/// No time that was measured is below its peak, one efficiency fits all models, and the page shows what the file says.
fn hold_against_peaks(
    folder: &str,
    bytes_per_ms: f64,
    decoded: std::ops::Range<f64>,
    (efficiency, error): (f64, f64),
) {
    let (measured, page) = card(folder);
    let (shown, decoding, training) = measured_rows(&measured, bytes_per_ms);
    assert_eq!((decoding.len(), training.len()), (15, 20));
    assert!(decoding.iter().all(|part| decoded.contains(part)), "{decoding:?}");
    assert!(
        training.iter().all(|part| within(*part, efficiency, error)),
        "{training:?}"
    );
    let is_row =
        |line: &&str| (line.starts_with("| Llama") || line.starts_with("| GPT")) && !line.ends_with("% |");
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert!(rows.len() >= 12);
    for row in rows {
        assert!(
            shown.iter().any(|shown| row.ends_with(shown)),
            "{row}: the file says {shown:?}"
        );
    }
}

#[test]
fn an_h200_takes_what_the_page_says() {
    hold_against_peaks("h200", 4.8e9, 0.565..0.755, (0.64, 0.06));
}

#[test]
fn an_h100_takes_what_the_page_says() {
    hold_against_peaks("h100", 3.35e9, 0.635..0.795, (0.61, 0.09));
}

/// Generated blocks at the part of peaks that the preset says was measured take what they took, within 7 % over four models, three lengths and 1 to 8
/// sequences: what stands between products takes turns with them.
#[test]
fn generated_blocks_take_what_an_h100_took() {
    let (measured, _) = card("h100");
    let rows = measured["train"].as_array().expect("rows");
    let rows: Vec<&Value> = rows.iter().filter(|row| row["recompute"] == false).collect();
    assert_eq!(rows.len(), 20);
    for row in rows {
        let number = |field: &str| row[field].as_u64().expect("a number") as u32;
        let asked = Transformer {
            layers: Some(number("blocks")),
            sequence: Some(number("sequence")),
            micro_batch: Some(number("micro_batch")),
            tensor: Some(vec![1]),
            ..model(row["model"].as_str().expect("a name"))
        };
        let (spec, instance) = made(&asked, "h100-bf16");
        let measured = spec.cluster.expect("a cluster").device_kinds[0].measured.clone();
        let blocks = instance
            .network
            .layers
            .iter()
            .filter(|layer| layer.id.starts_with('b'));
        let peak_ns: u64 = blocks
            .flat_map(|layer| layer.times[0])
            .map(|times| times.forward_ns + times.backward_ns)
            .sum();
        let predicted_ms = peak_ns as f64 / 1e6 / measured.expect("what was measured").efficiency;
        let took_ms = row["forward_backward"]["median_ms"].as_f64().expect("a time");
        assert!(within(predicted_ms, took_ms, 0.07), "{predicted_ms} ms: {row}");
    }
}

/// Micro-batches by themselves and the step by itself add up to an iteration, within 7 %, and the page shows the error.
#[test]
fn iterations_of_an_h100_are_the_sum_of_their_parts() {
    let (measured, page) = card("h100");
    let rows = |part: &str| measured[part].as_array().expect("rows").clone();
    let number = |row: &Value, field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field} in {row}"));
    let same = |field: &str, one: &Value, other: &Value| one[field] == other[field];
    let mut shown = 0;
    for row in rows("iteration") {
        let alone = rows("train").into_iter().find(|train| {
            train["recompute"] == false
                && ["model", "sequence", "micro_batch"]
                    .iter()
                    .all(|field| same(field, train, &row))
        });
        let alone = number(&alone.expect("its micro-batch")["forward_backward"], "median_ms");
        let predicted = number(&row, "micro_batches") * alone + number(&row["step"], "median_ms");
        let found = number(&row["iteration"], "median_ms");
        assert!(within(predicted, found, 0.07), "{row}: {predicted} ms");
        let line = format!(
            "| {} | {} | {predicted:.1} | {found:.1} | {:+.1} % |",
            row["micro_batch"],
            row["micro_batches"],
            100.0 * (predicted / found - 1.0)
        );
        shown += usize::from(page.contains(&line));
    }
    assert_eq!(shown, 9);
}

/// Profiles that were measured with the same model: their layers add up to the model as a whole, and they can be planned.
#[test]
fn layers_measured_on_an_h100_add_up_to_the_model() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Folder::new();
    for (file, error) in [
        ("llama3-8b-1-block-1", 0.11),
        ("llama3-8b-8-blocks-1", 0.04),
        ("llama3-8b-8-blocks-2", 0.04),
        ("llama3-8b-8-blocks-4", 0.04),
        ("llama3-8b-4-blocks-8", 0.04),
    ] {
        let path = root.join(format!("instances/measured/h100/{file}.json"));
        let text = std::fs::read_to_string(&path).expect("the profile");
        let profile: Value = serde_json::from_str(&text).expect("JSON");
        let said = profile["provenance"].as_str().expect("a provenance");
        let (_, whole) = said.rsplit_once("takes ").expect("the time of the whole");
        let whole: f64 = whole.trim_end_matches(" ms").parse().expect("a number");
        let layers = profile["network"]["layers"].as_array().expect("layers");
        let ms = |layer: &Value, pass: &str| layer["times"]["h100"][pass].as_f64().unwrap_or(0.0);
        let sum: f64 = layers
            .iter()
            .map(|layer| ms(layer, "forward_ms") + ms(layer, "backward_ms"))
            .sum();
        assert!(within(sum, whole, error), "{file}: {sum} ms of {whole} ms");
        let path = path.to_string_lossy();
        let run = folder.run(&[
            "solve",
            &path,
            "--stages",
            "2",
            "--recompute",
            "choose",
            "--format",
            "json",
        ]);
        assert_eq!(run.code, 0, "{file}: {}", run.stderr);
    }
}
