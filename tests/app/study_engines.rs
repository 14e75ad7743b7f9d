//! Engines that run a study on many machines: what they are told to run.

use std::path::Path;

use crate::common::study::{SMALL, SMALL_TASKS, assert_same, folder, rows, timeless};

#[test]
fn engines_are_told_what_to_run() {
    let folder = folder(SMALL);
    let submit = |args: &[&str]| {
        let start = ["study", "submit", "study.toml", "--dry-run", "--engine"];
        folder.succeed(&[&start[..], args].concat())
    };
    let slurm = submit(&["slurm", "--parts", "8", "--cores", "2"]);
    assert!(
        slurm.contains("#SBATCH --array=1-8\n") && slurm.contains("--part \"$SLURM_ARRAY_TASK_ID/8\""),
        "{slurm}"
    );
    let absolute = std::fs::canonicalize(folder.path("study.toml")).unwrap();
    assert!(slurm.contains(absolute.to_str().unwrap()), "{slurm}");
    let hyperqueue = submit(&["hyperqueue"]);
    assert!(
        hyperqueue.starts_with("exec '") && hyperqueue.lines().count() == 1 + SMALL_TASKS,
        "{hyperqueue}"
    );
    assert!(submit(&["dask", "--scheduler", "tcp://127.0.0.1:8786"]).contains("client.submit("));
    assert_eq!(
        folder
            .run(&["study", "submit", "study.toml", "--engine", "dask"])
            .code,
        2
    );
    assert!(!Path::new(&folder.path("study.results")).exists());
}

/// A stand-in for HyperQueue that does what its manual says of `submit --each-line`: the command once a line, in `HQ_ENTRY`.
const HQ: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "submit --cpus 1 --each-line" ] || exit 1
lines=$5; shift 6
while read -r line; do HQ_ENTRY="$line" "$@" </dev/null >/dev/null || exit 1; done < "$lines"
"#;

#[test]
#[cfg(unix)]
fn hyperqueue_runs_a_task_a_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(&SMALL.replace("count = 3", "count = 1"));
    folder.write("hq", HQ);
    std::fs::set_permissions(folder.path("hq"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path("").display(), std::env::var("PATH").unwrap());
    let submit = [
        "study",
        "submit",
        "study.toml",
        "--results",
        "remote",
        "--engine",
        "hyperqueue",
    ];
    let submitted = folder.command(&submit).env("PATH", path).status().unwrap();
    assert!(submitted.success());
    folder.succeed(&["study", "run", "study.toml", "--results", "local", "--quiet"]);
    assert_same(
        &timeless(rows(&folder, "remote")),
        &timeless(rows(&folder, "local")),
    );
    assert_eq!(rows(&folder, "remote").len(), 3 * 4 * (2 + 4 * 2));
}
