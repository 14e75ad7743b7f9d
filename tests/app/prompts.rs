//! Prompts in chunks of a size that is chosen, from command to command.

use serde_json::{Value, json};

use crate::common::command::{Folder, refused};

/// Eight blocks whose times are of 100 tokens, a fifth of them attention and a tenth fixed.
fn stack() -> Folder {
    let block = |at: usize| {
        format!(
            "{{ id = \"b{at}\", forward_ms = 1.0, attention_ms = 0.2, fixed_ms = 0.1, kv_bytes_per_token = 10, parameter_bytes = 100 }}"
        )
    };
    let flow = |at: usize| {
        format!(
            "{{ producer = \"b{at}\", consumers = [\"b{}\"], bytes = 1000 }}",
            at + 1
        )
    };
    let blocks: Vec<String> = (0..8).map(block).collect();
    let flows: Vec<String> = (0..7).map(flow).collect();
    let text = format!(
        "[network]\nmicro_batch = {{ tokens = 100 }}\nlayers = [{}]\ntensors = [{}]\n[cluster]\n\
         device_kinds = [{{ name = \"gpu\", count = 4 }}]\nlink = {{ bandwidth_bytes_per_s = 1e9 }}\n\
         [pipeline]\nmode = \"inference\"\nprompt = 1600\nchunks = \"choose\"\n",
        blocks.join(",\n"),
        flows.join(",\n")
    );
    Folder::with("net.toml", text)
}

fn plan(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_size_is_chosen_and_every_command_knows_it() {
    let folder = stack();
    let best = plan(&folder.succeed(&["solve", "net.toml", "--format", "json"]));
    let sizes = best["chunk_sizes"].as_array().expect("sizes");
    let tokens: Vec<&Value> = sizes.iter().map(|size| &size["tokens"]).collect();
    let grid = [8, 16, 32, 64, 128, 256, 512, 1_024, 1_600].map(|size| json!(size));
    assert_eq!(tokens, grid.iter().collect::<Vec<_>>());
    assert_eq!(best["status"], json!("optimal"));
    // Each size by itself takes no less, and the one that was chosen as long.
    for size in sizes {
        let size = size["tokens"].to_string();
        let alone = plan(&folder.succeed(&["solve", "net.toml", "--chunks", &size, "--format", "json"]));
        let [alone_ms, best_ms] = [&alone, &best].map(|plan| plan["objective_ms"].as_f64().expect("a time"));
        assert!(alone_ms >= best_ms, "{size}: {alone_ms}, {best_ms}");
        assert_eq!(
            best["problem"]["chunks"] == json!([size.parse::<u64>().unwrap()]),
            alone_ms == best_ms
        );
    }
    folder.write("best.json", best.to_string());
    folder.succeed(&["check", "net.toml", "best.json"]);
    folder.succeed(&["simulate", "best.json"]);
    let text = folder.succeed(&["solve", "net.toml"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("chosen of 9 sizes: ") && words.contains("chunks of any of 9 sizes"),
        "{text}"
    );
    // Stages that are given keep to it too, and what another size costs them is no less.
    let command = [
        "solve",
        "net.toml",
        "--chunks",
        "800",
        "--format",
        "json",
        "--output",
        "coarse.json",
    ];
    folder.succeed(&command);
    let command = [
        "schedule",
        "coarse.json",
        "--instance",
        "net.toml",
        "--chunks",
        "choose:100,400,800",
    ];
    folder.succeed(&[&command[..], &["--output", "sized.json"]].concat());
    folder.succeed(&[
        "check",
        "net.toml",
        "sized.json",
        "--chunks",
        "choose:100,400,800",
    ]);
    let sized = plan(&folder.read("sized.json"));
    let coarse = plan(&folder.read("coarse.json"));
    assert!(sized["objective_ms"].as_f64() < coarse["objective_ms"].as_f64());
    let command = [
        "check",
        "--evaluate",
        "net.toml",
        "coarse.json",
        "--chunks",
        "choose:100,400,800",
    ];
    let costed = folder.succeed(&[&command[..], &["--format", "json"]].concat());
    assert_eq!(plan(&costed)["objective_ms"], sized["objective_ms"]);
    let bound = plan(&folder.succeed(&["bound", "net.toml", "--format", "json"]));
    assert!(bound["bound_ms"].as_f64() <= best["bound_ms"].as_f64());
}

#[test]
fn what_is_said_of_sizes_is_checked() {
    let folder = stack();
    let mut best = plan(&folder.succeed(&["solve", "net.toml", "--format", "json"]));
    let own = best["problem"]["chunks"][0].clone();
    let is_own = |size: &Value| size["tokens"] == own;
    let at = best["chunk_sizes"]
        .as_array()
        .and_then(|sizes| sizes.iter().position(is_own));
    let (at, bound) = (at.expect("its own"), best["bound_ms"].as_f64().expect("a bound"));
    let other = usize::from(at == 0);
    for (at, field, value) in [
        (at, "objective_ms", json!(bound + 1.0)),
        (at, "objective_ms", Value::Null),
        (at, "tokens", json!(7)),
        (other, "objective_ms", json!(bound - 1.0)),
        (other, "bound_ms", json!(bound - 1.0)),
        (other, "bound_ms", json!(1e9)),
    ] {
        let right = std::mem::replace(&mut best["chunk_sizes"][at][field], value.clone());
        folder.write("wrong.json", best.to_string());
        let run = folder.run(&["check", "net.toml", "wrong.json"]);
        assert!(
            run.code == 1 && run.stdout.contains("chunk"),
            "{field} {value}: {}",
            run.stdout + &run.stderr
        );
        best["chunk_sizes"][at][field] = right;
    }
}

#[test]
fn what_knows_no_choice_of_sizes_says_so() {
    let folder = stack();
    folder.succeed(&["solve", "net.toml", "--output", "plan.json"]);
    for (command, says) in [
        (&["what-if", "net.toml", "--stages", "1..4"][..], "choose one"),
        (&["formulate", "net.toml", "--output", "net.lp"], "choose one"),
        (
            &["check", "net.toml", "plan.json", "--chunks", "choose:3,5"],
            "choose:3,5",
        ),
        (&["solve", "net.toml", "--prompt", "0"], "from 1 to 2^53"),
        (&["solve", "net.toml", "--chunks", "choose:0"], "choose:512,1024"),
        (
            &["solve", "net.toml", "--chunks", "choose:1"],
            "at most 1024 chunks",
        ),
        (
            &["solve", "net.toml", "--micro-batches", "3"],
            "found 3 with a prompt",
        ),
        (
            &["solve", "net.toml", "--objective", "period"],
            "`period` with a prompt",
        ),
        (&["schedule", "plan.json", "--chunks", "choose"], "--instance"),
        (
            &[
                "schedule",
                "plan.json",
                "--instance",
                "net.toml",
                "--chunks",
                "choose",
                "--format",
                "csv",
            ],
            "expected `text` or `json`",
        ),
    ] {
        let run = folder.run(command);
        let said = (run.stdout.clone() + &run.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            run.code != 0 && said.replace("│ ", "").contains(says),
            "{command:?}: {said}"
        );
    }
    refused(
        &folder.run(&["what-if", "net.toml", "--stages", "1..4"]),
        &["--chunks: found `choose`"],
    );
}
