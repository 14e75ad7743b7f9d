//! Results of a study: collected, compared, and reported as text and as a page.

#[path = "common/command.rs"]
mod command;
#[path = "common/study.rs"]
mod common;

use std::collections::BTreeSet;

use common::{SMALL, assert_same, folder, rows, timeless};
use stagecut::study::collect::merged;
use stagecut::study::diff::diff;
use stagecut::study::{Row, RowStatus};

#[test]
fn collected_results_are_compared() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "collect", "study.toml", "--output", "a.jsonl"]);
    let all = rows(&folder, "a.jsonl");
    assert_same(&timeless(all.clone()), &timeless(rows(&folder, "study.toml")));
    // Halves make the whole, and a torn last line is left out.
    let text = folder.read("a.jsonl");
    let (first, second) = text.split_at(text.match_indices('\n').nth(100).unwrap().0 + 1);
    folder
        .write("first.jsonl", first)
        .write("second.jsonl", format!("{second}{{\"id\":\"12"));
    let both = folder.succeed(&["study", "collect", "first.jsonl", "second.jsonl", "a.jsonl"]);
    assert_eq!(both, text);
    assert_eq!(folder.run(&["study", "diff", "a.jsonl", "study.toml"]).code, 0);
    assert_eq!(folder.run(&["study", "diff", "a.jsonl", "first.jsonl"]).code, 1);

    let changed = |change: &dyn Fn(&mut Row)| {
        let mut changed = all.clone();
        let row = changed.iter_mut().find(|row| row.task.method == "exact").unwrap();
        change(row);
        diff(&all, &changed)
    };
    let optimum = changed(&|row| {
        row.objective_ms = row.objective_ms.map(|ms| ms * 1.01);
        row.bound_ms = row.objective_ms;
    });
    assert!(
        !optimum.passes(None) && optimum.contradictory.len() == 1 && optimum.worse.len() == 1,
        "{optimum:?}"
    );
    assert!(
        optimum.contradictory[0].contains("`exact` proves an optimum of"),
        "{optimum:?}"
    );
    let lost = changed(&|row| row.status = RowStatus::Feasible);
    assert!(!lost.passes(None) && lost.contradictory.is_empty(), "{lost:?}");
    let slow = changed(&|row| row.seconds = Some(1e9));
    assert!(slow.passes(None) && !slow.passes(Some(1.5)), "{slow:?}");
    assert!(diff(&all, &all).passes(Some(1.0)));
}

#[test]
fn of_two_rows_the_one_that_is_no_failure_stays() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--part", "1/40", "--quiet"]);
    let good = rows(&folder, "study.results");
    let bad: Vec<Row> = good
        .iter()
        .map(|row| Row::ended(row.task.clone(), RowStatus::Crashed, None))
        .collect();
    assert_eq!(merged(vec![bad.clone(), good.clone()]), good);
    assert_eq!(merged(vec![good.clone(), bad]), good);
}

/// `make test-html` compares its numbers with the tables, and opens it in a browser.
#[test]
fn the_page_is_well_formed_and_needs_no_other_file() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "report", "study.toml", "--output", "report"]);
    let page = folder.read("report/report.html");
    let document = roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>")).unwrap();
    let tables = document.descendants().filter(|node| node.has_tag_name("table"));
    let names: Vec<&str> = tables
        .map(|table| table.attribute("data-name").unwrap())
        .collect();
    let expected = [
        "methods",
        "worst",
        "by-family",
        "by-stages",
        "by-size",
        "wins",
        "problems",
        "about",
    ];
    assert_eq!(names, expected);
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.attribute("id"))
        .collect();
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "names of parts are unique"
    );
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn reports_need_no_study() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "collect", "study.toml", "--output", "rows.jsonl"]);
    let from_study = folder.succeed(&["study", "report", "study.toml"]);
    let from_rows = folder.succeed(&["study", "report", "rows.jsonl", "--study", "study.toml"]);
    assert_eq!(from_study, from_rows);
    assert!(
        folder
            .succeed(&["study", "report", "rows.jsonl"])
            .contains("equal-layers")
    );
    for command in from_study
        .lines()
        .filter_map(|line| line.trim().strip_prefix("stagecut "))
    {
        let args: Vec<&str> = command.split_whitespace().collect();
        folder.succeed(&args);
    }
}
