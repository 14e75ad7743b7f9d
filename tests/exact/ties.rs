//! Ties that keep more together than their own layers: reports and refusals name them.

use crate::common::command::{Folder, Run, refused};

/// A chain of layers of a millisecond, some of which share a stage.
fn chain(ids: &[(&str, Option<&str>)]) -> Folder {
    let layer = |(id, tie): &(&str, Option<&str>)| {
        let tie = tie.map_or_else(String::new, |tie| format!(", tie = \"{tie}\""));
        format!("{{ id = \"{id}\", forward_ms = 1, backward_ms = 2{tie} }}")
    };
    let layers: Vec<String> = ids.iter().map(layer).collect();
    let tensors: Vec<String> = ids
        .windows(2)
        .map(|pair| {
            format!(
                "{{ producer = \"{}\", consumers = [\"{}\"], bytes = 1000 }}",
                pair[0].0, pair[1].0
            )
        })
        .collect();
    let net = format!(
        "[network]\nlayers = [{}]\ntensors = [{}]\n[cluster]\ndevice_kinds = [{{ name = \"gpu\", count = 4 }}]\nlink = {{ bandwidth_bytes_per_s = 1e9 }}\n",
        layers.join(",\n"),
        tensors.join(",\n")
    );
    Folder::with("net.toml", net)
}

fn said(run: &Run) -> String {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

const TIED_ENDS: [(&str, Option<&str>); 7] = [
    ("in", None),
    ("embed", Some("table")),
    ("h.0", None),
    ("h.1", None),
    ("h.2", None),
    ("head", Some("table")),
    ("out", None),
];

#[test]
fn a_tie_across_the_network_is_told() {
    let folder = chain(&TIED_ENDS);
    let report = said(&folder.run(&["solve", "net.toml", "--stages", "3"]));
    let words = "`table` keeps `embed` and `head` together, and the 3 layers between them";
    assert!(
        report.contains(&format!(
            "tie: {words}: 5 of the 7 layers are one piece, which no plan cuts; `shared` in place of `tie` gives each end a copy of a table"
        )),
        "{report}"
    );
    assert!(report.contains(&format!("(tie {words})")), "{report}");
    let one = said(&folder.run(&["solve", "net.toml", "--stages", "1"]));
    assert!(
        !one.contains("one piece") && one.contains("cut at stage 1:"),
        "{one}"
    );
    refused(
        &folder.run(&["solve", "net.toml", "--stages", "4", "--all-stages"]),
        &[
            "found 4 stages under `--all-stages`, expected at most the 3 items that can be told apart",
            &format!("(tie {words})"),
            "take the `tie` out of the instance if each end may keep a copy of its own",
        ],
    );
}

#[test]
fn ties_of_neighbours_keep_nothing_else() {
    let ids = [("a", Some("t")), ("b", Some("t")), ("c", None), ("d", None)];
    let folder = chain(&ids);
    let report = said(&folder.run(&["solve", "net.toml", "--stages", "2"]));
    assert!(!report.contains("tie `") && !report.contains("tie:"), "{report}");
    // What they leave of the items is their doing all the same.
    refused(
        &folder.run(&["solve", "net.toml", "--stages", "4", "--all-stages"]),
        &["at most the 3 items", "(tie `t` keeps `a` and `b` together)"],
    );
}

#[test]
fn ties_inside_stages_stand_beside_them() {
    let ids = [
        ("a", Some("one")),
        ("b", None),
        ("c", Some("one")),
        ("d", Some("two")),
        ("e", None),
        ("f", Some("two")),
        ("g", None),
        ("h", None),
        ("i", None),
    ];
    let report = said(&chain(&ids).run(&["solve", "net.toml", "--stages", "3"]));
    for words in [
        "stage 1: a .. c (tie `one` keeps `a` and `c` together, and the layer between them)",
        "stage 2: d .. f (tie `two` keeps `d` and `f` together, and the layer between them)",
        "stage 3: g .. i",
    ] {
        assert!(report.contains(words), "no `{words}` in {report}");
    }
    assert!(!report.contains("one piece"), "{report}");
}
