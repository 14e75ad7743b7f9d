//! Results of a study: collected, compared, and reported as text and as a page.

use std::collections::BTreeSet;

use crate::common::study::{SMALL, assert_same, folder, rows, timeless};
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
fn altered_and_torn_lines_are_named() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--part", "1/20", "--quiet"]);
    let text = folder.succeed(&["study", "collect", "study.results"]);
    assert!(text.lines().count() > 4 && text.lines().all(|line| line.contains(",\"digest\":\"")));
    let lines: Vec<&str> = text.lines().collect();
    let said = |text: &str, arguments: &[&str]| {
        folder.write("rows.jsonl", text);
        let run = folder.run(arguments);
        (
            run.code,
            run.stderr.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let collect = ["study", "collect", "rows.jsonl"];
    // An altered number, a line that lost its end, and a file that was cut off.
    let altered = text.replacen("\"seed\":0", "\"seed\":7", 1);
    let (code, error) = said(&altered, &collect);
    assert!(
        code == 2 && error.contains("line 1") && error.contains("altered"),
        "{error}"
    );
    let torn = text.replacen(lines[2], &lines[2][..80], 1);
    let (code, error) = said(&torn, &collect);
    assert!(code == 2 && error.contains("line 3"), "{error}");
    let cut = &text[..text.len() - 20];
    for command in [&collect[..], &["study", "report", "rows.jsonl"]] {
        let (code, error) = said(cut, command);
        let last = format!("line {} of", lines.len());
        assert!(code == 0 && error.contains(&last), "{error}");
    }
    // What older versions wrote.
    let old: String = rows(&folder, "study.results")
        .iter()
        .map(|row| row.line() + "\n")
        .collect();
    let (code, error) = said(&old, &collect);
    assert_eq!((code, error.as_str()), (0, ""));
}

/// Rows of two methods on as many problems as there are pairs of objectives.
fn paired(folder: &crate::common::command::Folder, objectives: &[(Option<f64>, Option<f64>)]) -> Vec<Row> {
    let one = rows(folder, "study.toml").remove(0);
    let row = |at: usize, method: &str, ms: Option<f64>| {
        let mut row = one.clone();
        row.task.id = format!("{at}{method}");
        row.task.content = at.to_string();
        row.task.method = method.into();
        row.status = RowStatus::Feasible;
        (row.objective_ms, row.bound_ms) = (ms, Some(1.0));
        if ms.is_none() {
            row.status = RowStatus::OverLimit;
            row.note = Some("ended after 2 s".into());
        }
        row
    };
    let pairs = objectives.iter().enumerate();
    pairs
        .flat_map(|(at, (a, b))| [row(at, "slicing", *a), row(at, "equal-layers", *b)])
        .collect()
}

/// `make test-study` computes the same with scipy.
#[test]
fn methods_are_compared_by_pairs() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--part", "1/280", "--quiet"]);
    // Six problems won, one of them since the other has no plan; one lost; two alike. Ranks of wins: 2 to 7 of 7.
    let pairs = [
        (Some(2.0), Some(3.0)),
        (Some(2.0), Some(4.0)),
        (Some(2.0), Some(5.0)),
        (Some(2.0), Some(6.0)),
        (Some(2.0), Some(7.0)),
        (Some(2.0), None),
        (Some(2.1), Some(2.0)),
        (Some(2.0), Some(2.0)),
        (None, None),
    ];
    let text: String = paired(&folder, &pairs)
        .iter()
        .map(|row| row.line() + "\n")
        .collect();
    folder.write("rows.jsonl", text);
    folder.succeed(&["study", "report", "rows.jsonl", "--output", "report"]);
    let line = |name: &str, at: usize| {
        folder
            .read(&format!("report/{name}.csv"))
            .lines()
            .nth(at)
            .map(str::to_owned)
    };
    let wins = folder.read("report/wins.csv");
    assert!(
        wins.contains("equal-layers_wins,equal-layers_ties,equal-layers_losses"),
        "{wins}"
    );
    assert!(
        wins.lines()
            .any(|line| line.starts_with("slicing,") && line.ends_with("6,2,1")),
        "{wins}"
    );
    // Two of the 128 signs of seven ranks have a sum of at most 1: p = 2 · 2/128.
    assert_eq!(
        line("significance", 1).as_deref(),
        Some("slicing,equal-layers,9,7,6,2,1,27,0.03125,0.03125,slicing")
    );
    assert_eq!(
        line("reasons", 1).as_deref(),
        Some("slicing,over-limit,ended after 2 s,1")
    );
    assert_eq!(
        line("reasons", 2).as_deref(),
        Some("equal-layers,over-limit,ended after 2 s,2")
    );
    assert_eq!(folder.read("report/failures.csv").lines().count(), 4);
    let said = folder.read("report/report.txt");
    assert!(
        said.contains("6 / 2 / 1") && said.contains("2 runs of `equal-layers`: over-limit, ended after 2 s"),
        "{said}"
    );
}

#[test]
fn papers_have_tables_and_references() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "report", "study.toml", "--output", "report"]);
    let (table, references) = (
        folder.read("report/methods.tex"),
        folder.read("report/methods.bib"),
    );
    assert!(
        table.contains("\\toprule") && table.contains("\\bottomrule"),
        "{table}"
    );
    assert!(
        table.contains("that of \\texttt{exact}, with") && !table.contains('`'),
        "{table}"
    );
    // Every method is cited, and every citation has an entry.
    let cites = table.split("\\cite{").skip(1);
    let cited: BTreeSet<&str> = cites
        .filter_map(|rest| rest.split('}').next())
        .flat_map(|keys| keys.split(','))
        .collect();
    let entries: BTreeSet<&str> = (references.lines())
        .filter_map(|line| line.strip_prefix('@')?.split_once('{')?.1.strip_suffix(','))
        .collect();
    assert!(
        entries.contains("stagecut") && entries.is_superset(&cited),
        "{cited:?} {entries:?}"
    );
    assert_eq!(table.matches("\\cite{").count(), 6, "{table}");
    let is_balanced = |text: &str| text.matches('{').count() == text.matches('}').count();
    for name in ["methods.tex", "by-family.tex", "wins.tex", "methods.bib"] {
        let text = folder.read(&format!("report/{name}"));
        assert!(
            is_balanced(&text) && text.matches('&').count() < 200,
            "{name}\n{text}"
        );
    }
}

#[test]
fn rows_say_their_gap_to_the_best_bound_of_all() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    let text = folder.succeed(&["study", "collect", "study.toml"]);
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut further = 0;
    for row in &rows {
        let same = |other: &&serde_json::Value| {
            other["content"] == row["content"] && other["options"] == row["options"]
        };
        let bounds = rows
            .iter()
            .filter(same)
            .filter_map(|other| other["bound_ms"].as_f64());
        let best = bounds.fold(0.0, f64::max);
        let ms = row["objective_ms"].as_f64().expect("a plan");
        let gap = row["gap_to_best_bound"].as_f64().expect("a gap");
        assert_eq!(row["best_bound_ms"].as_f64(), Some(best));
        assert!((gap - (ms - best) / ms).abs() < 1e-9, "{row}");
        further += usize::from(gap + 1e-9 < row["gap"].as_f64().expect("a gap"));
    }
    assert!(
        further > 0,
        "a heuristic's own bound is weaker than that of an exact method somewhere"
    );
    let csv = folder.succeed(&["study", "collect", "study.toml", "--format", "csv"]);
    assert!(
        csv.lines()
            .next()
            .expect("a header")
            .ends_with("best_bound_ms,gap_to_best_bound")
    );
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
        "significance",
        "reasons",
        "failures",
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
