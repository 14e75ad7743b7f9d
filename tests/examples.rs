//! Every command shown in the README and in `examples/` is run, in the order of the page and in one folder a page, and what
//! is shown is compared with what comes out.
//!
//! In a `console` block, a line that begins with `$ stagecut` is a command, continued by a backslash at its end, and what
//! follows is its output. `...` on a line of its own stands for lines left out, at the end of a line for the rest of it.
//! Numbers with three decimals are seconds of a search, or rounded; they need only be numbers. A comment names the exit code, or
//! numbers that the output must hold. A block of TOML, CSV or Python begins with `# NAME` and is a file as it is, which some command
//! or another such file names. `ELSEWHERE` says who runs the other commands, and those in `sh` blocks; a command that nobody runs fails. What
//! `tools/profile_torch.py` would write is the file of that name in `instances/measured`. There is nothing else: an empty home, the
//! instances of the clone, and what the page shows.

#![cfg(unix)]

#[path = "common/command.rs"]
mod command;

use std::path::{Path, PathBuf};
use std::process::Command;

use command::Folder;

/// How commands begin that this test does not run, the file that does or stands for it, and words of that file that show it.
const ELSEWHERE: [(&str, &str, &str); 4] = [
    ("make demo", "tests/examples.rs", "fn make_demo"),
    ("make test", ".ci/run", "make test"),
    // Every one of a page, in order, with the commands of `stagecut` between them.
    ("python ", "tests/python/test_pages.py", "PAGES"),
    ("torchrun ", "tests/python/test_pages.py", "PAGES"),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A command of a page, and what the page shows of its output.
#[derive(Debug, Default)]
struct Example {
    command: String,
    code: i32,
    /// Numbers in a comment behind the command.
    numbers: Vec<String>,
    shown: Vec<String>,
}

impl Example {
    fn new(line: &str) -> Self {
        let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let words: Vec<&str> = comment.split_whitespace().collect();
        let is_code = comment.contains("exit code");
        let numbers = words.iter().filter(|word| word.parse::<f64>().is_ok());
        Self {
            command: command.trim().to_owned(),
            code: match is_code {
                true => words.last().and_then(|word| word.parse().ok()).expect("a code"),
                false => 0,
            },
            numbers: match is_code {
                true => Vec::new(),
                false => numbers.map(|word| word.to_string()).collect(),
            },
            shown: Vec::new(),
        }
    }
}

/// A page: files that it shows, and its examples.
struct Page {
    files: Vec<(String, String)>,
    /// Files that a profiler would write.
    profiles: Vec<String>,
    examples: Vec<Example>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a page");
        let mut page = Self {
            files: Vec::new(),
            profiles: Vec::new(),
            examples: Vec::new(),
        };
        let mut blocks = text.split("\n```");
        blocks.next();
        // Every other part lies between fences.
        for block in blocks.step_by(2) {
            let (kind, body) = block.split_once('\n').expect("a block");
            match kind {
                "console" => page.console(body),
                "sh" => body.lines().for_each(ran_elsewhere),
                "toml" | "csv" | "python" => {
                    let first = body.lines().next().expect("lines");
                    let name = first.strip_prefix("# ").expect("the name of the file");
                    page.files.push((name.to_owned(), format!("{body}\n")));
                }
                // Such lines stand in the library's own examples, which `cargo test --doc` compiles.
                "rust" => body
                    .lines()
                    .for_each(|line| assert!(is_shown_by_the_library(line), "{line}")),
                _ => panic!("{}: nobody runs a block of `{kind}`", path.display()),
            }
        }
        for (name, _) in &page.files {
            let in_commands = page.examples.iter().any(|example| example.command.contains(name));
            let mut others = page.files.iter().filter(|(other, _)| other != name);
            let is_used = in_commands || others.any(|(_, contents)| contents.contains(name));
            assert!(is_used, "{}: nothing reads `{name}`", path.display());
        }
        page
    }

    fn console(&mut self, body: &str) {
        let body = body.replace("\\\n", "");
        let mut is_ours = false;
        for line in body.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                is_ours = command.starts_with("stagecut ");
                if command.contains("tools/profile_torch.py") {
                    let (_, file) = command.split_once(" -o ").expect("a file to write");
                    self.profiles.push(file.trim().to_owned());
                }
                match is_ours {
                    true => self.examples.push(Example::new(command)),
                    false => ran_elsewhere(command),
                }
            } else if is_ours && let Some(example) = self.examples.last_mut() {
                example.shown.push(line.to_owned());
            }
        }
    }
}

/// Whether a line of code stands in the examples of the library's front page.
fn is_shown_by_the_library(line: &str) -> bool {
    let shown = include_str!("../src/lib.rs");
    shown
        .lines()
        .any(|own| own.trim_start_matches("//!").trim() == line.trim())
}

/// Fails for a command that `ELSEWHERE` does not know.
fn ran_elsewhere(command: &str) {
    let known = ELSEWHERE.iter().find(|(start, ..)| command.starts_with(start));
    assert!(known.is_some(), "nobody runs `{command}`");
}

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

fn run(page: &str, least: usize) {
    let page_path = root().join(page);
    let page_read = Page::read(&page_path);
    let folder = Folder::new();
    let instances = root().join("instances");
    std::os::unix::fs::symlink(&instances, folder.path("instances")).expect("a link");
    for file in &page_read.profiles {
        let measured = std::fs::read(instances.join("measured").join(file));
        folder.write(
            file,
            measured.unwrap_or_else(|error| panic!("{page}: {file}: {error}")),
        );
    }
    let home = Folder::new();
    for (name, contents) in &page_read.files {
        folder.write(name, contents);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_stagecut"));
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", program.parent().expect("a folder").display());
    for example in &page_read.examples {
        let command = &example.command;
        let output = Command::new("bash")
            .args(["-c", command])
            .current_dir(folder.path("."))
            .env("PATH", &search)
            .env("HOME", home.path("."))
            .output()
            .expect("bash");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(example.code),
            "{page}: {command}\n{stderr}"
        );
        if let Some(line) = missing(example, &stdout) {
            panic!("{page}: {command}\nexpected: {line}\nin:\n{stdout}{stderr}");
        }
        for number in &example.numbers {
            assert!(
                stdout.contains(number.as_str()),
                "{page}: {command}: {number}\n{stdout}"
            );
        }
    }
    let count = page_read.examples.len();
    assert!(count >= least, "{page}: only {count} examples");
}

#[test]
fn the_readme() {
    run("README.md", 9);
}

#[test]
fn how_many_stages_for_a_resnet() {
    run("examples/resnet-stages.md", 11);
}

#[test]
fn a_network_on_a_few_phones() {
    run("examples/phones.md", 8);
}

#[test]
fn a_transformer_of_96_layers() {
    run("examples/transformer-96.md", 12);
}

#[test]
fn the_layers_of_sapp() {
    run("examples/sapp.md", 6);
}

#[test]
fn a_llama_on_gpus_in_nodes() {
    run("examples/gpus-in-nodes.md", 7);
}

#[test]
fn a_heuristic_of_your_own() {
    run("examples/own-heuristic.md", 6);
}

#[test]
fn which_order() {
    run("examples/orders.md", 10);
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

/// A page that no test runs is no worked example.
#[test]
fn every_page_is_run() {
    let own = include_str!("examples.rs");
    for entry in std::fs::read_dir(root().join("examples"))
        .expect("examples/")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(
            !name.ends_with(".md") || name == "README.md" || own.contains(&format!("examples/{name}")),
            "{name}"
        );
    }
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
