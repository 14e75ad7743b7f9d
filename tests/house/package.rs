//! What others take of the checkout: the files of the crate, the citation, the workflow of docs/ci.md.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::common::pages::Page;

/// Files that the crate consists of, or folders where there is a slash.
const PACKAGED: [&str; 19] = [
    ".cargo_vcs_info.json",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches/",
    "build.rs",
    "docs/",
    "examples/",
    "formulations/",
    "instances/",
    "references.bib",
    "src/",
    "studies/",
    "tools/",
];

/// A pattern without a slash in front means that name at whatever depth: the sources of a virtual environment, for one.
#[test]
fn the_crate_is_its_own_files() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, rest) = manifest
        .split_once("\ninclude = [")
        .expect("what the crate includes");
    let (patterns, _) = rest.split_once(']').expect("a list");
    for pattern in patterns.split('"').skip(1).step_by(2) {
        assert!(pattern.starts_with('/'), "`{pattern}` in Cargo.toml");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(crate::common::pages::root())
        .output()
        .expect("cargo");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let listed = String::from_utf8_lossy(&output.stdout);
    for file in listed.lines() {
        let file = file.strip_suffix(".orig").unwrap_or(file);
        let known = PACKAGED
            .iter()
            .any(|own| file == *own || (own.ends_with('/') && file.starts_with(own)));
        assert!(known, "{file}");
    }
    for file in [
        "src/main.rs",
        "formulations/README.md",
        "instances/clusters/v100.toml",
        "docs/answers.md",
    ] {
        assert!(listed.lines().any(|line| line == file), "{file} is missing");
    }
    let has = |target: &Path| {
        let target = target.to_string_lossy();
        let folder = format!("{target}/");
        listed
            .lines()
            .any(|line| line == target || line.starts_with(&folder))
    };
    for name in listed.lines().filter(|name| name.ends_with(".md")) {
        let own = Path::new(name).parent().expect("a folder");
        for link in Page::read(name).links() {
            let path = link.split('#').next().unwrap_or_default();
            let is_file = !path.is_empty() && !path.contains("::") && !path.contains(':');
            assert!(
                !is_file || has(&normal(&own.join(path))),
                "{name}: `{link}` leads out of the crate"
            );
        }
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// The fields of a file of scalars, folded text and lists of scalars, as `CITATION.cff` is.
fn fields(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value = match line.strip_prefix("  ") {
            Some(more) => more,
            None => {
                let (key, value) = line.split_once(':').expect("a field");
                last = key.to_owned();
                assert!(!fields.contains_key(key), "`{key}` stands twice");
                fields.entry(last.clone()).or_default();
                value.trim()
            }
        };
        let value = value.trim_start_matches("- ").trim_matches('"');
        if !["", ">-"].contains(&value) {
            fields.get_mut(&last).expect("a field").push(value.to_owned());
        }
    }
    fields
}

/// The format is version 1.2.0 of the Citation File Format (Druskat et al., 2021).
#[test]
fn the_citation_is_that_of_this_version() {
    let cited = fields(include_str!("../../CITATION.cff"));
    let one = |name: &str| match cited.get(name).map(Vec::as_slice) {
        Some([value]) => value.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(one("cff-version"), "1.2.0");
    assert_eq!(one("type"), "software");
    assert_eq!(one("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(one("title").split(':').next(), Some(env!("CARGO_PKG_NAME")));
    assert!(one("message").contains("cite"));
    let holders = include_str!("../../LICENSE-MIT")
        .lines()
        .find(|line| line.contains("(c)"));
    let author = one("authors");
    let author = author.strip_prefix("name: ").expect("an entity");
    assert!(holders.is_some_and(|line| line.ends_with(author)), "{author}");
    assert_eq!(cited["license"].join(" OR "), env!("CARGO_PKG_LICENSE"));
    let known = [
        "abstract",
        "authors",
        "cff-version",
        "keywords",
        "license",
        "message",
        "title",
        "type",
        "version",
    ];
    let others: Vec<&String> = cited
        .keys()
        .filter(|key| !known.contains(&key.as_str()))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The commands of the workflow are those that the page runs.
#[test]
fn the_workflow_runs_what_the_page_runs() {
    let page = Page::read("docs/ci.md");
    let (_, workflow) = page
        .files
        .iter()
        .find(|(name, _)| name.ends_with(".yml"))
        .expect("a workflow");
    let runs = workflow.lines().filter_map(|line| line.split_once("run: "));
    let commands: Vec<&str> = runs
        .map(|(_, command)| command)
        .filter(|command| command.starts_with("stagecut "))
        .collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        assert!(
            page.examples.iter().any(|example| example.command == command),
            "nobody runs `{command}`"
        );
    }
}
