//! A small study in a folder, its rows, and comparisons of rows.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

use std::collections::BTreeSet;

use stagecut::study::{Row, collect};

use super::command::{Folder, NET};

/// Small networks that every method for alike workers is done with at once.
pub const SMALL: &str = r#"
name = "small"

[limits]
time_limit_s = 30

[[instances]]
generator = "random"
parameters = { layers = [6, 9], seed = { from = 0, count = 3 } }

[[instances]]
files = ["net.toml"]
family = "written"

[[options]]
stages = [2, 3]
communication = ["blocking", "overlapped"]

[[methods]]
names = ["exact", "ideals"]

[[methods]]
names = ["slicing", "local-moves", "binary-search", "equal-layers"]
seeds = [0, 1]
"#;
/// Its tasks: 7 instances, 4 options, 2 methods and 4 with 2 seeds.
pub const SMALL_TASKS: usize = 7 * 4 * (2 + 4 * 2);

/// A folder with a study and the three layers of [`NET`].
pub fn folder(study: &str) -> Folder {
    let folder = Folder::with("study.toml", study);
    folder.write("net.toml", NET);
    folder
}

/// The rows of a study, a folder of results or a file.
pub fn rows(folder: &Folder, name: &str) -> Vec<Row> {
    collect::rows(&folder.path(name)).unwrap()
}

/// Rows as lines without times, which no two runs share.
pub fn timeless(rows: Vec<Row>) -> BTreeSet<String> {
    let line = |row: Row| {
        let timeless = Row {
            seconds: None,
            startup_seconds: None,
            ..row
        };
        timeless.line()
    };
    rows.into_iter().map(line).collect()
}

/// Fails with the first differences, not with thousands of equal rows.
pub fn assert_same(first: &BTreeSet<String>, second: &BTreeSet<String>) {
    let differing: Vec<&String> = first.symmetric_difference(second).take(4).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}
