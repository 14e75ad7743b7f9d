//! The page of a plan: one document, well-formed, the same every time, whatever layers are called.

use crate::common::command::{Folder, solved};
use roxmltree::Document;
use serde_json::Value;

/// Names that end a script, an attribute or a line where nobody escapes them.
const NASTY: [&str; 5] = [
    "a/</script><script>alert(1)</script>",
    "a/\"quoted' & <b>]]>",
    "層/卷積 \u{2028}\u{fffd}é",
    "b/{{x}}${y}`",
    "b/--><!--",
];

fn nasty() -> String {
    let layers: Vec<Value> = NASTY
        .iter()
        .map(|id| serde_json::json!({ "id": id, "forward_ms": 1.0, "backward_ms": 2.0, "operator": "<i>op</i>" }))
        .collect();
    let tensors: Vec<Value> = NASTY
        .windows(2)
        .map(|pair| serde_json::json!({ "producer": pair[0], "consumers": [pair[1]], "bytes": 1e6 }))
        .collect();
    serde_json::json!({
        "name": "<title> & \"more\"",
        "network": { "layers": layers, "tensors": tensors },
    })
    .to_string()
}

/// Text of the elements of a name, without what is a script.
fn texts(document: &Document, name: &str) -> Vec<String> {
    let named = document.descendants().filter(|node| node.has_tag_name(name));
    named
        .map(|node| {
            node.descendants()
                .filter(|inner| inner.is_text())
                .filter_map(|inner| inner.text())
                .collect()
        })
        .collect()
}

/// What the script is given.
fn data(page: &str) -> Value {
    let document = parsed(page);
    let holder = document
        .descendants()
        .find(|node| node.attribute("id") == Some("data"));
    serde_json::from_str(holder.expect("data").text().expect("text")).expect("JSON")
}

fn parsed(page: &str) -> Document<'_> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_page_stands_alone_and_is_the_same_every_time() {
    let folder = solved();
    let page = folder.succeed(&["show", "net.toml", "--plan", "plan.json", "--format", "html"]);
    assert!(page.starts_with("<!DOCTYPE html>"), "{}", &page[..80]);
    for word in ["src=", "@import", "url(", "http-equiv", "fetch("] {
        assert!(!page.contains(word), "{word}");
    }
    folder.succeed(&["show", "net.toml", "--plan", "plan.json", "--output", "page.html"]);
    assert_eq!(folder.read("page.html"), page);
    let document = parsed(&page);
    let headings = texts(&document, "h2");
    assert_eq!(headings, ["Stages", "Network", "Timeline", "Facts"]);
    let rows = texts(&document, "tr");
    assert_eq!(rows.len(), 3, "{rows:?}");
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.attribute("id"))
        .collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
}

#[test]
fn the_script_knows_what_the_plan_says() {
    let folder = solved();
    let page = folder.succeed(&["show", "net.toml", "--plan", "plan.json", "--format", "html"]);
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    let data = data(&page);
    for (stage, told) in plan["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .zip(data["stages"].as_array().expect("stages"))
    {
        for field in ["index", "load_ms", "forward_ms", "backward_ms", "memory_bytes"] {
            assert_eq!(stage[field], told[field], "{field}");
        }
        for name in stage["forward"].as_array().expect("layers") {
            let mut layers = data["layers"].as_array().expect("layers").iter();
            let layer = layers.find(|layer| layer["id"] == *name).expect("the layer");
            assert_eq!(layer["stage"], stage["index"]);
        }
    }
}

#[test]
fn names_are_text_whatever_they_are() {
    let folder = Folder::with("net.json", nasty());
    folder.succeed(&[
        "solve",
        "net.json",
        "--stages",
        "2",
        "--format",
        "json",
        "--output",
        "plan.json",
    ]);
    let page = folder.succeed(&["show", "net.json", "--plan", "plan.json", "--format", "html"]);
    let document = parsed(&page);
    assert_eq!(texts(&document, "script").len(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<i>op") && !page.contains("<title> &"));
    let ids: Vec<Value> = data(&page)["layers"]
        .as_array()
        .expect("layers")
        .iter()
        .map(|layer| layer["id"].clone())
        .collect();
    assert_eq!(ids, NASTY);
}

#[test]
fn a_network_alone_has_a_page_too() {
    let folder = solved();
    let page = folder.succeed(&["show", "net.toml", "--format", "html"]);
    assert_eq!(texts(&parsed(&page), "h2"), ["Network"]);
    assert_eq!(data(&page)["staged"], false);
}

#[test]
fn what_is_no_plan_of_the_instance_has_no_page() {
    let folder = solved();
    let other = folder.read("plan.json").replace("conv1", "conv9");
    folder.write("other.json", other);
    let run = folder.run(&["show", "net.toml", "--plan", "other.json", "--format", "html"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("`conv9`"), "{}", run.stderr);
    // One that claims what does not hold is refused as well.
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    plan["objective_ms"] = 0.5.into();
    folder.write("wrong.json", plan.to_string());
    let run = folder.run(&["show", "net.toml", "--plan", "wrong.json", "--format", "html"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("stagecut check"), "{}", run.stderr);
}

/// NASNet-A Large: every layer is in one group, no group has more members than can be read, and data never flow back.
#[test]
fn groups_of_a_thousand_layers() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/instances/pipedream/nasnetalarge.graph.txt"
    );
    let folder = Folder::new();
    let page = folder.succeed(&["show", path, "--format", "html"]);
    let data = data(&page);
    let layers = data["layers"].as_array().expect("layers").len();
    assert!(layers > 1_200, "{layers}");
    let mut next = 0;
    for member in data["groups"].as_array().expect("groups") {
        count(member, &mut next);
    }
    assert_eq!(next as usize, layers);
    for tensor in data["tensors"].as_array().expect("tensors") {
        let from = tensor["from"].as_u64();
        assert!(
            tensor["to"]
                .as_array()
                .expect("readers")
                .iter()
                .all(|to| to.as_u64() > from)
        );
    }
}

/// Members are runs: each begins where the one before it ends.
fn count(member: &Value, next: &mut u64) {
    if let Some(layer) = member.as_u64() {
        assert_eq!(layer, *next);
        *next += 1;
        return;
    }
    let members = member["members"].as_array().expect("members");
    assert!((2..=32).contains(&members.len()), "{}", members.len());
    members.iter().for_each(|inner| count(inner, next));
}
