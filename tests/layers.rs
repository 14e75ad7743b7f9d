//! Who may use whom: the order of the modules of `src`, read from their `crate::` paths.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules at the top of `src`, from the bottom up: each line may use the lines above it, and nothing of its own line or
/// below.
const LAYERS: &[&[&str]] = &[
    &[
        "bound_source",
        "csv_text",
        "fault",
        "hybrid",
        "memory",
        "named_values",
        "program",
        "quantity",
        "sealed",
        "shares",
        "switches",
        "units",
        "whole",
    ],
    // What belongs to no problem of ours.
    &["intake"],
    // What may be asked and said.
    &["communication", "degrees", "precision", "recompute", "source"],
    &["schedule", "states"],
    &["objective"],
    &["options"],
    &["pipeline", "spec"],
    &["cluster", "network", "roofline"],
    // From files to a problem.
    &["import", "instance"],
    &["generate", "read"],
    &["settings"],
    &["modes", "passes", "virtual_stages", "workers"],
    &["problem"],
    // What a plan costs, and what it is.
    &["cost"],
    &["device_levels", "ideals", "labels", "plan"],
    &["control", "simulate"],
    &["schedules"],
    // How one is found and accepted.
    &["check", "export", "formulations"],
    &["heuristics", "solver"],
    &["in_time"],
    &["best_schedule"],
    &["exact"],
    &["joint", "tied_cuts"],
    &["methods", "narrower"],
    // What is made of it.
    &["error"],
    &["evaluate", "formulate", "what_if"],
    &["least_memory", "online", "planning", "remedies", "report"],
    &["study"],
    &["cli"],
    &["embedded"],
];

/// Modules that see less than their layer allows.
const SEES_ONLY: &[(&str, &[&str])] = &[
    // What accepts plans recomputes them from layers and tensors alone.
    (
        "check",
        &[
            "cluster", "fault", "instance", "network", "options", "plan", "settings", "simulate", "units",
        ],
    ),
    (
        "export",
        &[
            "cluster",
            "fault",
            "instance",
            "network",
            "options",
            "plan",
            "precision",
            "schedules",
            "units",
        ],
    ),
    ("hybrid", &[]),
    (
        "import",
        &[
            "fault",
            "intake",
            "options",
            "precision",
            "program",
            "roofline",
            "source",
            "spec",
            "units",
        ],
    ),
    (
        "instance",
        &[
            "cluster",
            "fault",
            "network",
            "options",
            "precision",
            "recompute",
            "roofline",
            "spec",
            "units",
        ],
    ),
];

/// Dependencies that stay behind one wall each, and the modules inside it.
const WALLS: &[(&str, &[&str])] = &[
    ("good_lp", &["formulations", "solver"]),
    ("highs", &["formulations", "solver"]),
    ("highs_sys", &["formulations", "solver"]),
    ("clap_complete", &["cli"]),
    ("miette", &["cli"]),
];

/// A path in a source file: `line` uses `module`.
struct Use {
    file: PathBuf,
    line: usize,
    from: String,
    module: String,
}

#[test]
fn dependencies_point_one_way() {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut wrong = Vec::new();
    for used in uses() {
        let Use {
            file,
            line,
            from,
            module,
        } = &used;
        let place = format!("{}:{line}", file.display());
        let (Some(above), Some(below)) = (layer(from), layer(module)) else {
            wrong.push(format!(
                "{place}: `{from}` or `{module}` has no place in LAYERS of tests/layers.rs"
            ));
            continue;
        };
        if below >= above {
            wrong.push(format!(
                "{place}: `{from}` uses `{module}`, which is not below it in LAYERS of tests/layers.rs"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_modules_see_less_than_they_might() {
    let mut wrong = Vec::new();
    for used in uses() {
        let rule = SEES_ONLY.iter().find(|(module, _)| *module == used.from);
        if let Some((from, allowed)) = rule
            && !allowed.contains(&used.module.as_str())
        {
            let (place, module) = (used.file.display(), &used.module);
            let allowed = allowed.join(", ");
            wrong.push(format!(
                "{place}:{}: `{from}` uses `{module}`, and may use {allowed} alone",
                used.line
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_dependencies_stay_in_their_modules() {
    let mut wrong = Vec::new();
    for (file, from) in files() {
        for (line, text) in code(&file) {
            for (dependency, inside) in WALLS {
                let names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                let is_named =
                    text.contains(&format!("{dependency}::")) && names.into_iter().any(|n| n == *dependency);
                if is_named && !inside.contains(&from.as_str()) {
                    let inside = inside.join(", ");
                    wrong.push(format!(
                        "{}:{line}: `{from}` names `{dependency}`, which belongs to {inside}",
                        file.display()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What reads a file, however long it is.
const READS: &[&str] = &["fs::read(", "fs::read_to_string(", "File::open("];

/// Where that is right: in the reader of all inputs, where a file of ours is moved to its place, in the text that HiGHS has written, and
/// where the system tells of itself.
const READERS: &[&str] = &[
    "src/intake.rs",
    "src/whole.rs",
    "src/formulate.rs",
    "src/import/onnx/isolated.rs",
    "src/study/outside/supervisor.rs",
];

#[test]
fn inputs_are_read_in_one_place() {
    let mut wrong = Vec::new();
    for (file, _) in files() {
        let place = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        let reads = code(&file)
            .into_iter()
            .filter(|(_, text)| READS.iter().any(|reads| text.contains(reads)));
        if !READERS.iter().any(|reader| Path::new(reader) == place) {
            wrong.extend(reads.map(|(line, _)| {
                let place = place.display();
                format!("{place}:{line}: it reads a file past `intake`, which limits how much")
            }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every use of one module at the top of `src` by another.
fn uses() -> Vec<Use> {
    let mut uses = Vec::new();
    for (file, from) in files() {
        let lines = code(&file);
        for (at, (line, text)) in lines.iter().enumerate() {
            for (start, _) in text.match_indices("crate::") {
                let path = &text[start + "crate::".len()..];
                // `pub(crate)` names no path, and a name in capitals is one of the root's own.
                let others = modules(path, &lines[at + 1..])
                    .into_iter()
                    .filter(|module| *module != from && module.starts_with(|c: char| c.is_lowercase()));
                uses.extend(others.map(|module| Use {
                    file: file.clone(),
                    line: *line,
                    from: from.clone(),
                    module,
                }));
            }
        }
    }
    assert!(uses.len() > 500, "only {} paths found", uses.len());
    uses
}

/// The modules that a path names first, or a list of paths, which may go on over the next lines.
fn modules(path: &str, next: &[(usize, String)]) -> Vec<String> {
    let Some(first) = path.strip_prefix('{') else {
        return vec![first_name(path)];
    };
    // Only names at the top of a list are modules.
    let rest = next.iter().map(|(_, text)| text.as_str());
    names_at_top(&[first].into_iter().chain(rest).collect::<Vec<_>>().join(" "))
}

/// The names that a list of paths starts with, up to its closing brace.
fn names_at_top(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(list[start..at].trim()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> String {
    path.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Lines of a file without comments, from 1.
fn code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap();
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(at, line)| (at, line.to_owned()))
        .collect()
}

/// Every source file below `src`, and the module at the top that it belongs to.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
            let module = first
                .as_os_str()
                .to_str()
                .unwrap()
                .trim_end_matches(".rs")
                .to_owned();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == "rs")
                && module != "lib"
                && module != "main"
            {
                files.push((path, module));
            }
        }
    }
    files.sort();
    files
}
