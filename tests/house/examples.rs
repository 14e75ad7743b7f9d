//! Every command that a page of the checkout shows is run, in the order of the page and in one folder a page, and what
//! is shown is compared with what comes out.
//!
//! `common/pages.rs` says how a page is read; `PAGE=docs/online.md` runs one alone. `...` on a line of its own stands for lines left
//! out, at the end of a line for the rest of it. Numbers with three decimals are seconds of a search, or rounded; they need only be
//! numbers. What `tools/profile_torch.py` would write is the file of that name in `instances/measured`. There is nothing else: an empty
//! home, the instances and studies of the clone, and what the page shows.

#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::common::command::Folder;
use crate::common::pages::{ELSEWHERE, Example, Page, root};

/// Whether a word of the output is what the page shows.
fn is_same(shown: &str, found: &str) -> bool {
    let seconds = |word: &str| {
        let word = word.trim_start_matches('<');
        let decimals = word.split_once('.').map(|(_, decimals)| decimals.len());
        decimals == Some(3) && word.parse::<f64>().is_ok()
    };
    shown == found || (seconds(shown) && seconds(found))
}

/// Whether a line of the output is what the page shows; words are compared, not the blanks between them.
fn fits(shown: &str, found: &str) -> bool {
    let (start, is_cut) = match shown.strip_suffix("...") {
        Some(start) => (start, true),
        None => (shown, false),
    };
    let shown: Vec<&str> = start.split_whitespace().collect();
    let found: Vec<&str> = found.split_whitespace().collect();
    let enough = match is_cut {
        true => found.len() >= shown.len(),
        false => found.len() == shown.len(),
    };
    enough
        && shown
            .iter()
            .zip(&found)
            .all(|(shown, found)| is_same(shown, found))
}

/// The first line shown that does not come out in its place, if there is one.
fn missing(example: &Example, stdout: &str) -> Option<String> {
    let mut lines = stdout.lines();
    let mut may_skip = false;
    for shown in &example.shown {
        if shown.trim() == "..." {
            may_skip = true;
            continue;
        }
        let found = match may_skip {
            true => lines.any(|line| fits(shown, line)),
            false => lines.next().is_some_and(|line| fits(shown, line)),
        };
        if !found {
            return Some(shown.clone());
        }
        may_skip = false;
    }
    let has_more = !example.shown.is_empty() && !may_skip && lines.next().is_some();
    has_more.then(|| "nothing more".into())
}

/// Runs the pages that are asked for, and fails with what is wrong with any of them.
fn run(is_asked: impl Fn(&str) -> bool) {
    let only = std::env::var("PAGE").ok();
    let mut failures = Vec::new();
    for page in crate::common::pages::pages() {
        let is_chosen = only.as_ref().is_none_or(|only| *only == page.name);
        if !is_asked(&page.name) || !is_chosen {
            continue;
        }
        let started = std::time::Instant::now();
        failures.extend(run_page(&page).err());
        if !page.examples.is_empty() {
            let (count, seconds) = (page.examples.len(), started.elapsed().as_secs());
            println!("{}: {count} commands in {seconds} s", page.name);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn run_page(page: &Page) -> Result<(), String> {
    let folder = Folder::new();
    for name in ["instances", "studies"] {
        std::os::unix::fs::symlink(root().join(name), folder.path(name)).expect("a link");
    }
    for file in &page.profiles {
        let measured = root().join("instances/measured").join(file);
        let contents = std::fs::read(measured).map_err(|error| format!("{}: {file}: {error}", page.name))?;
        folder.write(file, contents);
    }
    for (name, contents) in &page.files {
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        folder.write(name, contents);
    }
    let home = Folder::new();
    for example in &page.examples {
        run_example(example, &folder, &home)
            .map_err(|what| format!("{}: {}\n{what}", page.name, example.command))?;
    }
    Ok(())
}

fn run_example(example: &Example, folder: &Folder, home: &Folder) -> Result<(), String> {
    let program = Path::new(env!("CARGO_BIN_EXE_stagecut"));
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", program.parent().expect("a folder").display());
    let output = Command::new("bash")
        .args(["-c", &example.command])
        .current_dir(folder.path("."))
        .env("PATH", &search)
        .env("HOME", home.path("."))
        .output()
        .expect("bash");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(example.code) {
        return Err(format!("{:?}\n{stderr}", output.status));
    }
    if let Some(line) = missing(example, &stdout) {
        return Err(format!("expected: {line}\nin:\n{stdout}{stderr}"));
    }
    let absent = example
        .numbers
        .iter()
        .find(|number| !stdout.contains(number.as_str()));
    absent.map_or(Ok(()), |number| Err(format!("no {number} in:\n{stdout}")))
}

#[test]
fn the_readme() {
    run(|page| page == "README.md");
}

#[test]
fn documentation() {
    run(|page| page.starts_with("docs/"));
}

#[test]
fn worked_stories() {
    run(|page| page.starts_with("examples/"));
}

#[test]
fn all_other_pages() {
    run(|page| page != "README.md" && !page.starts_with("docs/") && !page.starts_with("examples/"));
}

/// The test would pass if it found nothing.
#[test]
fn no_command_is_lost() {
    let mut examples = 0;
    for page in crate::common::pages::pages() {
        let shown = page.text.lines().filter(|line| line.starts_with("$ ")).count();
        let found = page.examples.len() + page.elsewhere.len() + page.excused.len();
        assert_eq!(shown, found, "{}", page.name);
        examples += page.examples.len();
    }
    assert!(examples >= 90, "{examples}");
}

/// Commands that nobody runs exist all the same, with their options, and the page says what they need.
#[test]
fn what_is_not_run_exists() {
    for page in crate::common::pages::pages() {
        for (command, excuse) in &page.excused {
            assert!(excuse.len() > 10, "{}: {excuse}", page.name);
            let mut words = command.split_whitespace();
            if words.next() != Some("stagecut") {
                continue;
            }
            let (flags, names): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("--"));
            let depth = if names[0] == "study" || names[0] == "generate" {
                2
            } else {
                1
            };
            let help = Folder::new().succeed(&[&names[..depth], &["--help"]].concat());
            for flag in flags {
                assert!(help.contains(flag), "{}: {command}: {flag}", page.name);
            }
        }
    }
}

/// A reader without PyTorch is told before the first command that needs it.
#[test]
fn what_needs_pytorch_is_said() {
    for page in crate::common::pages::pages() {
        let starts = ["$ python ", "$ torchrun ", "```python torch"];
        let lines = page.text.lines();
        let before: Vec<&str> = lines
            .take_while(|line| !starts.iter().any(|start| line.starts_with(start)))
            .collect();
        let needs = before.len() < page.text.lines().count();
        let words: Vec<&str> = before.iter().flat_map(|line| line.split_whitespace()).collect();
        let words = words.join(" ");
        let said = ["need PyTorch", "needs PyTorch", "PyTorch 2"];
        assert!(
            !needs || said.iter().any(|said| words.contains(said)),
            "{}",
            page.name
        );
    }
}

/// The other tests are there.
#[test]
fn what_runs_elsewhere() {
    for (start, file, words) in ELSEWHERE {
        let text =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(words), "`{start}`: no `{words}` in {file}");
    }
}

/// What `make demo` runs once everything is built.
#[test]
fn make_demo() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let (_, recipe) = makefile.split_once("\ndemo: build").expect("a target `demo`");
    let command = recipe.lines().nth(1).expect("a recipe").trim();
    let options = command.strip_prefix("$(BIN) ").expect("the program");
    let output = Command::new(env!("CARGO_BIN_EXE_stagecut"))
        .args(options.split_whitespace())
        .current_dir(root())
        .output()
        .expect("stagecut");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("It is proved that"), "{stdout}");
}

#[test]
fn what_is_shown_must_come_out() {
    let example = |shown: &[&str]| Example {
        shown: shown.iter().map(|line| line.to_string()).collect(),
        ..Example::default()
    };
    let stdout = "one 1.000001\ntwo 0.123 s\nthree\n";
    let is_missing = |shown: &[&str]| missing(&example(shown), stdout).is_some();
    assert!(!is_missing(&[]));
    assert!(!is_missing(&["one 1.000001", "two 0.456 s", "three"]));
    assert!(!is_missing(&["one 1.000001", "..."]));
    assert!(!is_missing(&["...", "three"]));
    assert!(!is_missing(&["one  ...", "...", "three"]));
    assert!(is_missing(&["one 1.000002", "..."]));
    assert!(is_missing(&["one 1.000001"]));
    assert!(is_missing(&["...", "three", "four"]));
    assert!(is_missing(&["...", "three", "...", "one 1.000001"]));
    let example = Example::new("stagecut solve x    # exit code 3");
    assert_eq!((example.command.as_str(), example.code), ("stagecut solve x", 3));
}
