//! Room for the KV cache, as two cards that serve have it.

use crate::common::command::{Folder, refused};
use serde_json::{Value, json};

/// 40 blocks of 630 MB that keep 20 kB a token, between the table of words and the head, on cards of 12 and 22 GB.
fn two_cards() -> Folder {
    let id = |at: usize| match at {
        0 => "model.embed_tokens".to_owned(),
        41 => "lm_head".to_owned(),
        at => format!("model.layers.{}", at - 1),
    };
    let layer = |at: usize| match at {
        0 | 41 => {
            format!(
                "{{ id = \"{}\", forward_ms = 0.25, parameter_bytes = 1557135360 }}",
                id(at)
            )
        }
        at => format!(
            "{{ id = \"{}\", forward_ms = 1, parameter_bytes = 630000000, kv_bytes_per_token = 20480 }}",
            id(at)
        ),
    };
    let tensor = |at: usize| {
        format!(
            "{{ producer = \"{}\", consumers = [\"{}\"], bytes = 10240 }}",
            id(at),
            id(at + 1)
        )
    };
    let layers: Vec<String> = (0..42).map(layer).collect();
    let tensors: Vec<String> = (0..41).map(tensor).collect();
    Folder::with(
        "net.toml",
        format!(
            "[network]\nprecision = \"fp16\"\nlayers = [{}]\ntensors = [{}]\n[cluster]\n\
             device_kinds = [{{ name = \"small\", count = 1, memory_bytes = \"12GB\" }}, \
             {{ name = \"large\", count = 1, memory_bytes = \"22GB\" }}]\n\
             link = {{ bandwidth_bytes_per_s = \"8GB/s\" }}\n[pipeline]\nmode = \"inference\"\n",
            layers.join(",\n"),
            tensors.join(",\n")
        ),
    )
}

fn solved(folder: &Folder, more: &[&str]) -> Value {
    let command = [&["solve", "net.toml", "--format", "json"], more].concat();
    serde_json::from_str(&folder.succeed(&command)).expect("JSON")
}

fn blocks(plan: &Value) -> Vec<(String, usize)> {
    let stages = plan["stages"].as_array().expect("stages");
    let stage = |stage: &Value| {
        let names = stage["forward"].as_array().expect("layers");
        let is_block = |name: &&Value| name.as_str().expect("a name").contains("layers");
        let device = stage["devices"][0].as_str().expect("a device").to_owned();
        (device, names.iter().filter(is_block).count())
    };
    stages.iter().map(stage).collect()
}

#[test]
fn the_most_tokens_on_two_cards() {
    let folder = two_cards();
    let plan = solved(&folder, &["--objective", "tokens"]);
    let best = [("large:1".to_owned(), 27), ("small:1".to_owned(), 13)];
    assert_eq!(blocks(&plan), best);
    let stated = [&plan["status"], &plan["tokens"], &plan["tokens_bound"]];
    assert_eq!(stated, [&json!("optimal"), &json!(6208), &json!(6208)]);
    assert_eq!(plan["problem"]["objective"], json!("tokens"));
    assert_eq!(plan["problem"]["then"], json!("period"));
    // As many are kept when they are asked for, one more is refused.
    let asked = solved(&folder, &["--tokens", "6208"]);
    assert_eq!(blocks(&asked), best);
    assert_eq!(
        [&asked["tokens"], &asked["problem"]["tokens"]],
        [&json!(6208), &json!(6208)]
    );
    let of_each = solved(&folder, &["--sequences", "4", "--context", "1552"]);
    assert_eq!(of_each["problem"]["tokens"], json!(6208));
    let over = folder.run(&["solve", "net.toml", "--tokens", "6209"]);
    assert_eq!(over.code, 3);
    let free = solved(&folder, &[]);
    assert!(free["tokens"].as_u64() < Some(6208), "{}", free["tokens"]);
    let latency = solved(&folder, &["--objective", "tokens", "--then", "latency"]);
    assert_eq!(
        (&latency["status"], &latency["tokens"]),
        (&json!("optimal"), &json!(6208))
    );
}

#[test]
fn a_plan_of_the_most_tokens_is_read_checked_and_told() {
    let folder = two_cards();
    folder.succeed(&[
        "solve",
        "net.toml",
        "--objective",
        "tokens",
        "--output",
        "plan.json",
    ]);
    folder.succeed(&["check", "net.toml", "plan.json"]);
    let text = folder.succeed(&["solve", "net.toml", "--objective", "tokens"]);
    assert!(
        text.contains("room for 6,208 tokens, then one micro-batch every"),
        "{text}"
    );
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no plan has room for more"), "{text}");
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("JSON");
    for (field, value, says) in [
        ("tokens", json!(6209), "above the bound 6208"),
        ("tokens", json!(6000), "room for Some(6000) tokens stated"),
        ("tokens_bound", json!(6209), "below the bound 6209"),
        (
            "tokens_bound",
            Value::Null,
            "the most tokens without `tokens_bound`",
        ),
    ] {
        let right = std::mem::replace(&mut plan[field], value);
        folder.write("wrong.json", plan.to_string());
        let run = folder.run(&["check", "net.toml", "wrong.json"]);
        let out = run.stdout + &run.stderr;
        assert!(run.code == 1 && out.contains(says), "{field}: {out}");
        plan[field] = right;
    }
}

#[test]
fn what_knows_nothing_of_room_is_refused() {
    let folder = two_cards();
    let refusals: [(&[&str], &str); 5] = [
        (
            &[
                "solve",
                "net.toml",
                "--method",
                "slicing",
                "--objective",
                "tokens",
            ],
            "it looks for no room",
        ),
        (
            &["bound", "net.toml", "--objective", "tokens"],
            "with `--tokens N`",
        ),
        (
            &["what-if", "net.toml", "--stages", "1..2", "--objective", "tokens"],
            "with `--tokens N`",
        ),
        (&["solve", "net.toml", "--tokens", "0"], "from 1 to 2^53"),
        (
            &["solve", "net.toml", "--then", "latency"],
            "without `--objective tokens`",
        ),
    ];
    for (command, says) in refusals {
        refused(&folder.run(command), &[says]);
    }
    let unlimited = [
        "solve",
        "net.toml",
        "--objective",
        "tokens",
        "--memory-limit",
        "none",
    ];
    refused(
        &folder.run(&unlimited),
        &["without which there is no end to tokens"],
    );
}
