//! Studies: what a file may say, what its tasks are, and what a row holds.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::command::NET;
use crate::common::study::{SMALL, SMALL_TASKS, assert_same, folder, rows, timeless};
use stagecut::study::store::Store;
use stagecut::study::{Row, RowStatus, Study};

#[test]
fn faults_stand_at_their_place() {
    let cases = [
        (
            "methods = 3",
            "line 1, column 11: found the number `3`, expected a list",
        ),
        ("[[methods]]\nnames = [\"exact\"]", "found no field `instances`"),
        (
            "instances = [{ files = [\"net.toml\"] }]\nmethods = [{ names = [\"exakt\"] }]",
            "line 2, column 23: found `exakt`, expected one of `exact`",
        ),
        (
            "instances = [{ files = [\"no*.toml\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 25: found no readable file (no file matches), expected one",
        ),
        (
            "instances = [{ generator = \"randon\" }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 28: found `randon`, expected one of `random`",
        ),
        (
            "instances = [{ generator = \"random\", parameters = { layer = 3 } }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 61: found unknown field `layer`",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ stages = [2, \"two\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 23: found the text `two`, expected a whole number from 0",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ stages = [] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 23: found an empty list",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ comunication = \"blocking\" }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 29: found unknown field `comunication`",
        ),
        (
            "instances = [{ files = [\"net.toml\"], clusters = [\"v1000\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 50: found no readable file",
        ),
        (
            "instances = [{ files = [\"net.toml\"], family = \"a\" }]\nmethods = [{ names = [\"exact\"], families = [\"b\"] }]",
            "line 2, column 45: found `b`, expected `a`",
        ),
        (
            "limits = { time_limit_s = -1 }\ninstances = [{ files = [\"net.toml\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "limits.time_limit_s: found -1, expected seconds from 0",
        ),
    ];
    for (text, expected) in cases {
        let folder = folder(text);
        let error = Study::read(&folder.path("study.toml")).unwrap_err();
        let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{text}\n{faults:?}\n{expected}"
        );
        assert_eq!(folder.run(&["study", "tasks", "study.toml"]).code, 2);
    }
}

#[test]
fn tasks_are_known_by_what_decides_their_results() {
    let folder = folder(SMALL);
    let ids = || -> BTreeSet<String> {
        let study = Study::read(&folder.path("study.toml")).unwrap();
        assert_eq!(study.tasks.len(), SMALL_TASKS);
        study.tasks.into_iter().map(|task| task.id).collect()
    };
    let before = ids();
    assert_eq!(before.len(), SMALL_TASKS);
    assert_eq!(ids(), before);
    // A byte of one instance changes its tasks and no other.
    folder.write("net.toml", NET.replace("5e5", "6e5"));
    assert_eq!(ids().intersection(&before).count(), SMALL_TASKS * 6 / 7);
    folder.write("net.toml", NET);
    folder.write(
        "study.toml",
        SMALL.replace("time_limit_s = 30", "time_limit_s = 31"),
    );
    assert!(ids().is_disjoint(&before));
    // The grace says when to give up on a task, not what it finds.
    folder.write(
        "study.toml",
        SMALL.replace("time_limit_s = 30", "time_limit_s = 30\ngrace_s = 3"),
    );
    assert_eq!(ids(), before);
}

#[test]
fn what_is_there_is_not_run_again() {
    let folder = folder(SMALL);
    let run = || folder.run(&["study", "run", "study.toml", "--jobs", "2"]);
    let said =
        |before: usize, run: usize| format!("{SMALL_TASKS} tasks: {before} had results, {run} run, 0 left");
    let first = run();
    assert!(first.stderr.contains(&said(0, SMALL_TASKS)), "{}", first.stderr);
    assert!(run().stderr.contains(&said(SMALL_TASKS, 0)));
    let all = rows(&folder, "study.toml");
    assert_eq!(all.len(), SMALL_TASKS);
    // A file that is lost, and two that a power cut left torn.
    let path = |row: &Row| {
        folder.path(&format!(
            "study.results/rows/{}/{}.json",
            &row.task.id[..2],
            row.task.id
        ))
    };
    std::fs::remove_file(path(&all[0])).unwrap();
    std::fs::write(path(&all[1]), "").unwrap();
    std::fs::write(path(&all[2]), &all[2].line()[..40]).unwrap();
    assert_eq!(rows(&folder, "study.results").len(), SMALL_TASKS - 3);
    let report = folder.run(&["study", "report", "study.toml"]);
    for torn in &all[1..3] {
        assert!(report.stderr.contains(&torn.task.id), "{}", report.stderr);
    }
    let missing = folder.succeed(&["study", "tasks", "study.toml", "--missing"]);
    assert_eq!(missing.lines().count(), 3);
    let again = run();
    assert!(
        again.stderr.contains(&said(SMALL_TASKS - 3, 3)),
        "{}",
        again.stderr
    );
    assert!(
        again
            .stderr
            .contains("2 files of the results are not as they were written"),
        "{}",
        again.stderr
    );
    assert_same(&timeless(rows(&folder, "study.toml")), &timeless(all));
}

#[test]
fn results_that_were_altered_or_lost_are_noticed_and_made_again() {
    let folder = folder(
        &SMALL
            .replace("\"exact\", \"ideals\"", "\"exact\"")
            .replace("seeds = [0, 1]", ""),
    );
    let run = || folder.run(&["study", "run", "study.toml", "--jobs", "2"]);
    run();
    let all = rows(&folder, "study.toml");
    let row_path = |row: &Row| {
        folder.path(&format!(
            "study.results/rows/{}/{}.json",
            &row.task.id[..2],
            row.task.id
        ))
    };
    let plan_path = |row: &Row| {
        let name = row.plan.as_ref().expect("a plan");
        folder.path(&format!("study.results/plans/{}/{name}.json", &name[..2]))
    };
    // A better objective than was found, and a row of an older version, which has no digest.
    let text = std::fs::read_to_string(row_path(&all[0])).expect("a row");
    let ms = all[0].objective_ms.expect("a plan");
    std::fs::write(
        row_path(&all[0]),
        text.replace(&format!("\"objective_ms\":{ms}"), "\"objective_ms\":0.5"),
    )
    .expect("a file");
    std::fs::write(row_path(&all[1]), all[1].line() + "\n").expect("a file");
    // Plans: gone, torn, and another one.
    let mut plans: Vec<_> = all.iter().map(plan_path).collect();
    plans.sort();
    plans.dedup();
    std::fs::remove_file(&plans[0]).expect("a plan");
    let text = std::fs::read_to_string(&plans[1]).expect("a plan");
    std::fs::write(&plans[1], &text[..text.len() / 2]).expect("a file");
    let text = std::fs::read_to_string(&plans[2]).expect("a plan");
    std::fs::write(&plans[2], text.replacen("\"index\":1", "\"index\":2", 1)).expect("a file");
    let damaged = [&row_path(&all[0]), &plans[0], &plans[1], &plans[2]];
    let damaged = damaged.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
    for said in [folder.run(&["study", "report", "study.toml"]), run()] {
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            said.stderr
                .contains("4 files of the results are not as they were written"),
            "{}",
            said.stderr
        );
        for name in &damaged {
            assert!(said.stderr.contains(name.as_str()), "{name}\n{}", said.stderr);
        }
    }
    assert!(run().stderr.contains("0 run, 0 left"));
    let report = folder.run(&["study", "report", "study.toml"]);
    assert_eq!(report.stderr, "");
    assert_same(&timeless(rows(&folder, "study.toml")), &timeless(all.clone()));
    assert!(all.iter().all(|row| {
        Store::new(folder.path("study.results"))
            .plan(row.plan.as_ref().expect("a plan"))
            .is_some()
    }));
}

#[test]
fn patterns_do_not_walk_the_whole_disk() {
    let folder =
        folder("instances = [{ files = [\"/**/*.no-such-network\"] }]\nmethods = [{ names = [\"exact\"] }]");
    let started = std::time::Instant::now();
    let run = folder.run(&["study", "tasks", "study.toml"]);
    assert_eq!(run.code, 2);
    // A disk that holds little is walked to its end.
    let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("files and folders to look at") || said.contains("no file matches"),
        "{said}"
    );
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn parts_and_single_tasks_make_the_whole() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--results", "whole", "--quiet"]);
    for part in ["1/3", "2/3"] {
        folder.succeed(&[
            "study",
            "run",
            "study.toml",
            "--results",
            "parts",
            "--part",
            part,
            "--quiet",
        ]);
    }
    let left = folder.succeed(&["study", "tasks", "study.toml", "--results", "parts", "--missing"]);
    let mut command = vec!["study", "run-task", "study.toml", "--results", "parts"];
    // By the whole line, as engines hand it over, or by its identity.
    command.extend(left.lines());
    let printed = folder.succeed(&command);
    assert_eq!(printed.lines().count(), SMALL_TASKS / 3 + SMALL_TASKS % 3 / 2);
    let again = folder.succeed(&command);
    assert_eq!(again, printed, "a row that is there is not computed again");
    assert_same(
        &timeless(rows(&folder, "parts")),
        &timeless(rows(&folder, "whole")),
    );
    let unknown = folder.run(&["study", "run-task", "study.toml", "0123"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("0123"), "{}", unknown.stderr);
}

#[test]
fn rows_are_what_the_methods_find() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    for row in rows(&folder, "study.toml")
        .iter()
        .filter(|row| row.task.family == "written")
    {
        let options = row.task.options_text();
        let stages = if options.contains("stages=2") { "2" } else { "3" };
        let communication = if options.contains("blocking") {
            "blocking"
        } else {
            "overlapped"
        };
        let seed = row.task.seed.to_string();
        let plan = folder.succeed(&[
            "solve",
            "net.toml",
            "--stages",
            stages,
            "--communication",
            communication,
            "--method",
            &row.task.method,
            "--seed",
            &seed,
            "--format",
            "json",
        ]);
        let plan: stagecut::plan::Plan = serde_json::from_str(&plan).unwrap();
        assert_eq!(
            (row.objective_ms, row.bound_ms),
            (plan.objective_ms, plan.bound_ms),
            "{}",
            row.line()
        );
        assert_eq!(row.status, RowStatus::from(plan.status));
        let kept = Store::new(folder.path("study.results"))
            .plan(row.plan.as_ref().unwrap())
            .unwrap();
        assert_eq!(kept, plan.stages);
        // The command of a report is the one that was just run.
        let command = row.task.command("study.toml", Path::new("."));
        assert!(
            command.starts_with(&format!(
                "stagecut solve net.toml --stages {stages} --communication"
            )),
            "{command}"
        );
    }
}

#[test]
fn studies_of_this_repository_can_be_read() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("studies")
        .read_dir()
        .unwrap()
        .flatten();
    let studies: Vec<_> = folders
        .map(|folder| folder.path().join("study.toml"))
        .filter(|path| path.exists())
        .collect();
    assert!(!studies.is_empty());
    for path in studies {
        let study = Study::read(&path).unwrap();
        assert!(study.tasks.len() > 100, "{}", path.display());
    }
}
