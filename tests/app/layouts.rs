//! Layouts of Megatron: read as Megatron reads them, refused where it refuses them, written so that they are read again, costed as
//! stages of anybody, and exported from plans of blocks of any kinds.

use std::path::{Path, PathBuf};

use crate::common::command::{Folder, Run, json};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use regex::{Captures, Regex};
use serde_json::Value;
use stagecut::export::megatron_layout::{Layout, Letter, Model};

/// Files of known layouts, where they are.
fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data")
        .join(name);
    let there = path.exists();
    if !there {
        eprintln!("skipped: no ../shared/data/{name}");
    }
    there.then_some(path)
}

/// The letters of a stage as text.
fn letters(stage: &[Letter]) -> String {
    stage.iter().map(|letter| letter.symbol()).collect()
}

/// One row of a file of layouts, by column.
type Row = std::collections::BTreeMap<String, String>;

fn hold(row: &Row) {
    let number = |column: &str| row[column].parse::<usize>().ok();
    let model = Model {
        devices: number("pp").unwrap(),
        virtual_stages: number("vpp_declared"),
        decoders: number("layers").unwrap(),
        mtp: number("mtp").unwrap_or(0),
    };
    let read = Layout::accepted(&row["layout"], &model);
    assert_eq!(read.is_ok(), row["accepted"] == "yes", "{row:?} {read:?}");
    let Ok(layout) = read else { return };
    assert_eq!(layout.stages.len(), number("stages").unwrap(), "{row:?}");
    assert_eq!(layout.virtual_stages(model.devices), number("vpp"), "{row:?}");
    let counts = layout
        .by_stage(Letter::Decoder)
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>();
    assert_eq!(counts.join(" "), row["decoders_per_stage"], "{row:?}");
    if let Some(contents) = row.get("stage_strings") {
        let own: Vec<String> = layout.stages.iter().map(|stage| letters(stage)).collect();
        assert_eq!(own.join("|"), *contents, "{row:?}");
    }
    assert_eq!(Layout::parse(&layout.to_string()), Ok(layout), "{row:?}");
}

#[test]
fn known_layouts_are_what_megatron_makes_of_them() {
    for (name, least) in [("examples.csv", 20), ("layouts.csv", 59)] {
        let Some(path) = data(&format!("megatron-layouts/{name}")) else {
            continue;
        };
        let mut rows = csv::Reader::from_path(path).unwrap();
        let rows: Vec<Row> = rows.deserialize().map(Result::unwrap).collect();
        assert!(rows.len() >= least, "{} rows of {name}", rows.len());
        rows.iter().for_each(hold);
    }
}

/// The stages of a text by the two expressions that Megatron-LM replaces; `None` where some character is no layer.
fn expanded(text: &str) -> Option<Vec<String>> {
    let mut text = text.replace(',', "");
    for pattern in [r"\(([^)]+)\)\*([0-9]+)", r"(.)\*([0-9]+)"] {
        let repeated = |found: &Captures| found[1].repeat(found[2].parse().unwrap());
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, repeated)
            .into_owned();
    }
    let stages: Vec<String> = text.split('|').map(str::to_owned).collect();
    let is_known = |stage: &String| stage.chars().all(|c| "EtmL".contains(c));
    stages.iter().all(is_known).then_some(stages)
}

/// Whether Megatron takes stages, with chunks laid out device by device as it does.
fn is_taken(stages: &[String], model: &Model) -> bool {
    if !stages.len().is_multiple_of(model.devices) {
        return false;
    }
    let chunks = stages.len() / model.devices;
    let all = stages.concat();
    let ranks: Vec<Vec<&str>> = (0..model.devices)
        .map(|rank| {
            (0..chunks)
                .map(|chunk| stages[chunk * model.devices + rank].as_str())
                .collect()
        })
        .collect();
    let predictors = |stage: &str| stage.matches('m').count();
    let (before, after) = all.split_once('m').unwrap_or((&all, ""));
    model.virtual_stages.is_none_or(|asked| asked == chunks)
        && all.starts_with('E')
        && all.ends_with('L')
        && all.matches('E').count() == 1
        && all.matches('L').count() == 1
        && before.matches('t').count() == model.decoders
        && !after.contains('t')
        && predictors(&all) == model.mtp
        && ranks
            .iter()
            .all(|rank| rank[..chunks - 1].iter().all(|stage| predictors(stage) == 0))
        && ranks
            .iter()
            .all(|rank| [0, model.mtp].contains(&predictors(rank[chunks - 1])))
}

/// A text of pieces of layouts: most come to nothing that is known, many to what is refused.
fn random_text(rng: &mut ChaCha8Rng) -> String {
    const PIECES: [&str; 20] = [
        "t",
        "t",
        "t*2",
        "tt",
        "|",
        "|",
        "|*2",
        "(t|)*2",
        "(tt|t|)*3",
        "(|)*2",
        "m",
        "m|",
        ",",
        "t*0",
        "(t*2|)*2",
        "*2",
        ")",
        "((t|)*2",
        "(",
        " ",
    ];
    // Of some texts all pieces, of most only those that layouts are made of.
    let known = if rng.random_range(0..5) == 0 { 20 } else { 15 };
    let pieces = (0..rng.random_range(0..7)).map(|_| PIECES[rng.random_range(0..known)]);
    let middle: String = pieces.collect();
    match rng.random_range(0..12) {
        0 => middle,
        1 => format!("|E{middle}L"),
        2 => format!("E{middle}L|"),
        _ => format!("E{middle}L"),
    }
}

#[test]
fn random_texts_are_read_as_their_expansion() {
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    let [mut known, mut taken] = [0, 0];
    for _ in 0..6_000 {
        let text = random_text(&mut rng);
        let own = Layout::parse(&text).ok();
        let contents = own
            .as_ref()
            .map(|layout| layout.stages.iter().map(|stage| letters(stage)).collect());
        assert_eq!(contents, expanded(&text), "{text}");
        let (Some(layout), Some(stages)) = (own, contents) else {
            continue;
        };
        known += 1;
        assert_eq!(Layout::parse(&layout.to_string()), Ok(layout.clone()), "{text}");
        let all = stages.concat();
        let count = |letter: char| all.matches(letter).count();
        let model = Model {
            devices: rng.random_range(1..=4),
            virtual_stages: rng.random_bool(0.2).then(|| rng.random_range(1..=3)),
            decoders: count('t') + usize::from(rng.random_bool(0.1)),
            mtp: count('m') + usize::from(rng.random_bool(0.1)),
        };
        assert_eq!(
            layout.refusals(&model).is_empty(),
            is_taken(&stages, &model),
            "{text} {model:?}"
        );
        taken += usize::from(layout.refusals(&model).is_empty());
    }
    assert!(known > 3_000 && taken > 500, "{known} {taken}");
}

/// Stages of all sizes, written and read.
#[test]
fn what_is_written_is_read_again() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..2_000 {
        let mut layout = Layout { stages: Vec::new() };
        for _ in 0..rng.random_range(1..5) {
            let stage: Vec<Letter> = (0..rng.random_range(0..5))
                .map(|_| Letter::ALL[rng.random_range(0..4)])
                .collect();
            let equal = rng.random_range(1..12);
            layout.stages.extend(vec![stage; equal]);
        }
        let text = layout.to_string();
        assert_eq!(expanded(&text).unwrap().len(), layout.stages.len(), "{text}");
        assert_eq!(Layout::parse(&text), Ok(layout), "{text}");
    }
    let manual = "Et*3|(t*2|)*29,m|L";
    assert_eq!(Layout::parse("Et*3|(tt|)*29,m|L").unwrap().to_string(), manual);
}

#[test]
fn lists_of_lists_are_read_as_text_is() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..500 {
        let stages: Vec<Vec<Letter>> = (0..rng.random_range(1..6))
            .map(|_| {
                (0..rng.random_range(0..5))
                    .map(|_| Letter::ALL[rng.random_range(0..4)])
                    .collect()
            })
            .collect();
        let mut named = |letter: &Letter| {
            let quote = ["'", "\""][rng.random_range(0..2)];
            let name = match rng.random_range(0..3) {
                0 => letter.name().to_uppercase(),
                1 => format!(" {}  ", letter.name()),
                _ => letter.name().to_owned(),
            };
            format!("{quote}{name}{quote}")
        };
        let mut stage = |stage: &Vec<Letter>| {
            let names: Vec<String> = stage.iter().map(&mut named).collect();
            format!("[{}]", names.join(", "))
        };
        let list: Vec<String> = stages.iter().map(&mut stage).collect();
        let list = format!(" [\n{},\n]", list.join(" ,"));
        assert_eq!(Layout::parse(&list), Ok(Layout { stages }), "{list}");
    }
    for (text, reason) in [
        (
            "[['encoder'], ['loss']]",
            "stage 1 of the layout: found the layer `encoder`",
        ),
        ("['embedding', 'loss']", "behind 1 characters"),
        ("[['embedding' 'loss']]", "behind 14 characters"),
        ("[['embedding']['loss']]", "behind 14 characters"),
        ("[['embedding'], ['loss']", "found its end"),
        ("[['embedding'], ['loss']]L", "found `L`"),
        ("[[['embedding']]]", "found `[`"),
        ("[['embedding", "found its end"),
        ("[", "found its end"),
    ] {
        let fault = Layout::parse(text).expect_err(text);
        assert!(fault.to_string().contains(reason), "{text}: {fault}");
    }
}

fn layout(text: &str, options: &str) -> Run {
    let args = ["layout", text].into_iter().chain(options.split_whitespace());
    Folder::new().run(&args.collect::<Vec<_>>())
}

#[test]
fn the_command_says_what_stages_hold() {
    let run = layout("Et*3|(tt|)*2,m|L", "--devices 5 --layers 7 --mtp 1");
    assert_eq!(run.code, 0, "{}", run.stderr);
    for part in [
        "5 stages, 1 on each of 5 devices",
        "by stage: 3 2 2 0 0",
        "stage 4 on device 4, chunk 1: m",
    ] {
        assert!(run.stdout.contains(part), "{}", run.stdout);
    }
    let run = layout(
        "E|*2t|L",
        "--devices 2 --layers 1 --virtual-stages 2 --format json",
    );
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&found["accepted"], &found["virtual_stages"]),
        (&true.into(), &2.into())
    );
    assert_eq!(found["contents"], serde_json::json!(["E", "", "t", "L"]));
}

#[test]
fn what_megatron_refuses_is_refused_with_its_reason() {
    for (text, options, reason) in [
        (
            "t|L",
            "--devices 2 --layers 1",
            "first layer of the layout: found `t`, expected `E`",
        ),
        (
            "Et|t",
            "--devices 2 --layers 2",
            "last layer of the layout: found `t`, expected `L`",
        ),
        (
            "Et|tL|",
            "--devices 2 --layers 2",
            "found 3 stages, expected a multiple of the 2 devices",
        ),
        ("Et|tL", "--devices 2 --layers 3", "found 2 of `t`, expected 3"),
        ("EEt|tL", "--devices 2 --layers 2", "found 2 of `E`, expected 1"),
        ("Et|mL", "--devices 2 --layers 1", "found 1 of `m`, expected 0"),
        (
            "Et|m|t|L",
            "--devices 4 --layers 2 --mtp 1",
            "a decoder layer behind",
        ),
        (
            "Em|L|t|tL",
            "--devices 2 --layers 2 --mtp 1",
            "`m` in chunk 1 of 2",
        ),
        ("Et|m|mL", "--devices 3 --layers 1 --mtp 2", "`m` in 2 stages"),
        (
            "Et|tL",
            "--devices 2 --layers 2 --virtual-stages 2",
            "found 2 stages on 2 devices, 1 on each",
        ),
        (
            "Et |tL",
            "--devices 2 --layers 2",
            "stage 1 of the layout: found the character ` `",
        ),
        ("et|tL", "--devices 2 --layers 2", "capitals count"),
        ("Et*2*2L", "--devices 1 --layers 4", "the character `*`"),
        ("E|((t|)*2t|)*2L", "--devices 7 --layers 7", "do not nest"),
        (
            "Et*99999999999999999999L",
            "--devices 1 --layers 1",
            "more than a million characters",
        ),
        (
            "E(t*1000)*1000*1000L",
            "--devices 1 --layers 1",
            "more than a million characters",
        ),
    ] {
        crate::common::command::refused(&layout(text, options), &[reason]);
        let run = layout(text, &format!("{options} --format json"));
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((run.code, &found["accepted"]), (2, &false.into()), "{text}");
        assert!(!found["reasons"].as_array().unwrap().is_empty(), "{text}");
    }
}

/// An embedding, two dense blocks, six of experts, multi-token prediction of two operators, and a head.
fn unlike_blocks() -> Folder {
    let mut layers = vec![("embedding".to_owned(), "embedding", 1)];
    layers.extend((0..8).map(|k| match k {
        0 | 1 => (format!("blocks.{k}"), "dense", 2),
        _ => (format!("blocks.{k}"), "experts", 4),
    }));
    layers.push(("mtp.0.projection".into(), "linear", 1));
    layers.push(("mtp.0.block".into(), "experts", 4));
    layers.push(("head".into(), "linear", 3));
    let layer = |(id, operator, ms): &(String, &str, i32)| {
        let bytes = 100 * ms;
        format!(
            "  {{ id = \"{id}\", operator = \"{operator}\", forward_ms = {ms}, backward_ms = {}, parameter_bytes = {bytes} }},\n",
            2 * ms
        )
    };
    let tensor = |pair: &[(String, &str, i32)]| {
        format!(
            "  {{ producer = \"{}\", consumers = [\"{}\"], bytes = 1e6 }},\n",
            pair[0].0, pair[1].0
        )
    };
    let text = format!(
        "name = \"unlike\"\n[network]\nlayers = [\n{}]\ntensors = [\n{}]\n[cluster]\ndevice_kinds = [{{ name = \"gpu\", count = 8 }}]\n\
         link = {{ bandwidth_bytes_per_s = 1e9 }}\n",
        layers.iter().map(layer).collect::<String>(),
        layers.windows(2).map(tensor).collect::<String>()
    );
    Folder::with("net.toml", text)
}

fn run(folder: &Folder, command: &str) -> String {
    folder.succeed(&command.split_whitespace().collect::<Vec<_>>())
}

/// The layout that an export has.
fn exported(flags: &str) -> String {
    flags.split('"').nth(1).expect("a layout").to_owned()
}

#[test]
fn a_layout_costs_what_its_stages_cost() {
    let folder = unlike_blocks();
    folder.write(
        "stages.json",
        r#"[["embedding", "blocks.0", "blocks.1"], ["blocks.2", "blocks.3", "blocks.4"], ["blocks.5", "blocks.6", "blocks.7"],
            ["mtp.0.projection", "mtp.0.block", "head"]]"#,
    );
    let options = "--micro-batches 8 --schedule 1f1b --format json";
    let by_hand = run(
        &folder,
        &format!("check --evaluate net.toml stages.json --stages 4 {options}"),
    );
    let command = format!("check --evaluate net.toml --layout Et*2|(t*3|)*2,mL {options} --output plan.json");
    let by_layout = run(&folder, &command);
    assert_eq!(json(&by_hand), json(&by_layout));
    // Alone on its stage, multi-token prediction is behind all blocks all the same.
    let alone = json(&run(&folder, &command.replace("t*3|)*2,mL", "t*2|)*3,m|L")));
    assert_eq!(alone["stages"].as_array().unwrap().len(), 6, "{alone}");
    assert_eq!(
        alone["stages"][4]["forward"],
        serde_json::json!(["mtp.0.projection", "mtp.0.block"])
    );
    let ran = json(&run(
        &folder,
        "simulate plan.json --micro-batches 8 --format json",
    ));
    assert_eq!(ran["iteration_ms"], plan_of(&folder)["run"]["iteration_ms"]);
    for (layout, options, reason) in [
        ("Et*2|(t*3|)*2,L", "", "found 0 of `m`, expected 1"),
        ("Et*3|(t*3|)*2,mL", "", "found 9 of `t`, expected 8"),
        (
            "Et*2|(t*3|)*2,mL",
            "--stages 3",
            "expected a multiple of the 3 devices",
        ),
        ("Et*2|(t*3|)*2,mL", "--virtual-stages 3", "expected"),
        (
            "Et*2|(t*3|)*2,mL",
            "--placement v --virtual-stages 2",
            "which is how layouts lie",
        ),
    ] {
        let words = ["check", "--evaluate", "net.toml", "--layout", layout];
        let words: Vec<&str> = words.into_iter().chain(options.split_whitespace()).collect();
        crate::common::command::refused(&folder.run(&words), &[reason]);
    }
}

fn plan_of(folder: &Folder) -> Value {
    json(&folder.read("plan.json"))
}

#[test]
fn chunks_of_a_layout_keep_their_places() {
    let folder = unlike_blocks();
    folder.write(
        "chunks.json",
        r#"[["embedding"], ["blocks.0", "blocks.1", "blocks.2"], ["blocks.3", "blocks.4"], [], ["blocks.5", "blocks.6", "blocks.7"],
            ["mtp.0.projection", "mtp.0.block"], ["head"], []]"#,
    );
    let options = "--stages 4 --virtual-stages 2 --micro-batches 8 --format json";
    let by_hand = run(
        &folder,
        &format!("check --evaluate net.toml chunks.json {options}"),
    );
    let by_layout = run(
        &folder,
        &format!("check --evaluate net.toml --layout E|t*3|t*2||t*3|m|L| {options} --output plan.json"),
    );
    assert_eq!(json(&by_hand), json(&by_layout));
    // Megatron takes stages without layers, and so does its export.
    let flags = run(&folder, "export net.toml plan.json --to megatron");
    assert_eq!(exported(&flags), "E|t*3|t*2||t*3|m|L|");
    assert!(
        flags.contains("--num-layers 8 --mtp-num-layers 1 --pipeline-model-parallel-size 4 "),
        "{flags}"
    );
    // Where every device has one, those without layers are left out.
    let bare = run(
        &folder,
        "check --evaluate net.toml --layout Et*4||t*4m|L --format json",
    );
    let devices = json(&bare)["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["devices"][0].clone())
        .collect::<Vec<_>>();
    assert_eq!(devices, ["gpu:1", "gpu:3", "gpu:4"]);
}

/// Blocks of two kinds are planned for Megatron, exported, and cost what the plan says.
#[test]
fn blocks_of_any_kind_are_exported() {
    for options in [
        "--stages 4",
        "--stages 3 --objective iteration --micro-batches 6",
        "--stages 2 --virtual-stages 2",
    ] {
        let folder = unlike_blocks();
        run(
            &folder,
            &format!("solve net.toml --for megatron {options} --output plan.json"),
        );
        let flags = run(&folder, "export net.toml plan.json --to megatron");
        let command = format!(
            "check --evaluate net.toml --layout {} {options} --format json",
            exported(&flags)
        );
        let found = json(&run(&folder, &command));
        assert_eq!(found["objective_ms"], plan_of(&folder)["objective_ms"], "{flags}");
    }
    // The head before multi-token prediction is what no layout says.
    let folder = unlike_blocks();
    let text = folder.read("net.toml").replace("mtp.0.projection", "norm");
    folder.write("net.toml", text);
    folder.write(
        "stages.json",
        r#"[["embedding", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "blocks.4", "blocks.5", "blocks.6", "blocks.7", "norm"],
            ["mtp.0.block"], ["head"]]"#,
    );
    run(
        &folder,
        "check --evaluate net.toml stages.json --output plan.json",
    );
    let refused = folder.run(&["export", "net.toml", "plan.json", "--to", "megatron"]);
    crate::common::command::refused(
        &refused,
        &["layer `head`", "the head in parts, on stages 1 and 3"],
    );
}

/// From a configuration to the flags: `m` is where the plan has it, the loss of further predictions in `L`, and what was written is read again at
/// the plan's cost.
#[test]
fn further_predictions_of_a_configuration_are_exported() {
    let config = serde_json::json!({
        "model_type": "deepseek_v3", "num_hidden_layers": 5, "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4,
        "vocab_size": 40_000, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "first_k_dense_replace": 1, "num_nextn_predict_layers": 2, "max_position_embeddings": 128,
    });
    let folder = Folder::with("config.json", config.to_string());
    for (mtp, chunks) in [(1, 1), (2, 1), (2, 2)] {
        run(
            &folder,
            &format!("import config.json --mtp {mtp} --micro-batches 6 --output net.json"),
        );
        let options = format!("--stages 3 --all-stages --virtual-stages {chunks} --tensor 1 --replicas 1");
        run(
            &folder,
            &format!("solve net.json --for megatron {options} --output plan.json"),
        );
        let flags = run(&folder, "export net.json plan.json --to megatron");
        let expected = format!("--num-layers 5 --mtp-num-layers {mtp} --pipeline-model-parallel-size 3 ");
        assert!(flags.contains(&expected), "{flags}");
        let model = Model {
            devices: 3,
            virtual_stages: Some(chunks),
            decoders: 5,
            mtp,
        };
        let layout = exported(&flags);
        Layout::accepted(&layout, &model).unwrap();
        run(
            &folder,
            &format!("layout {layout} --devices 3 --layers 5 --mtp {mtp}"),
        );
        let plan = plan_of(&folder);
        let command = format!("check --evaluate net.json --layout {layout} {options} --format json");
        let read = json(&run(&folder, &command));
        assert_eq!(
            (&read["passes"], &read["objective_ms"]),
            (&true.into(), &plan["objective_ms"]),
            "{layout}"
        );
    }
    // All blocks are computed again, and what predicts further keeps what it has.
    let options = "--for megatron --stages 3 --all-stages --recompute full --output plan.json";
    run(&folder, &format!("solve net.json {options}"));
    let flags = run(&folder, "export net.json plan.json --to megatron");
    assert!(
        flags.contains("--mtp-num-layers 2") && flags.contains("--recompute-method uniform"),
        "{flags}"
    );
    // torchtitan's models have none.
    let folder = unlike_blocks();
    run(
        &folder,
        "solve net.toml --stages 2 --memory-limit none --output plan.json",
    );
    let refused = folder.run(&["export", "net.toml", "plan.json", "--to", "torchtitan"]);
    crate::common::command::refused(&refused, &["layer `mtp.0.projection`", "multi-token prediction"]);
}

/// DeepSeek-V3's proportions: 3 dense blocks, 58 of experts, multi-token prediction and a head on 16 devices.
#[test]
fn the_layout_of_deepseek_is_exported() {
    let Some(path) = data("cases/turn3/models/v3.toml") else {
        return;
    };
    let folder = Folder::with("v3.toml", std::fs::read(path).unwrap());
    run(
        &folder,
        "solve v3.toml --for megatron --stages 16 --output plan.json",
    );
    let flags = run(&folder, "export v3.toml plan.json --to megatron");
    assert!(
        flags.contains("--num-layers 61 --mtp-num-layers 1 --pipeline-model-parallel-size 16 "),
        "{flags}"
    );
    let model = Model {
        devices: 16,
        virtual_stages: Some(1),
        decoders: 61,
        mtp: 1,
    };
    Layout::accepted(&exported(&flags), &model).unwrap();
    let layout = "Et*3|(tt|)*29,m|L";
    let found = json(&run(
        &folder,
        &format!("check --evaluate v3.toml --layout {layout} --stages 16 --virtual-stages 2 --format json"),
    ));
    assert_eq!(
        (&found["passes"], found["stages"].as_array().unwrap().len()),
        (&true.into(), 32),
        "{found}"
    );
}
