//! The pages of the checkout: all its Markdown files, with what they show in fences.
//!
//! In a `console` block, a line that begins with `$ ` is a command, continued by a backslash at its end, and what follows is its
//! output. A comment behind a command names its exit code, or numbers that the output must hold. A block of TOML, CSV, YAML or Python
//! that begins with `# NAME` is a file as it is; Python without a name is an example of the Python package. `<!-- not run: WHY -->` in
//! the line before a block says why nobody runs it.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// Folders that are no part of the checkout, or hold no pages of ours.
const SKIPPED: [&str; 2] = ["target", "snapshots"];

/// How commands begin that `tests/house/examples.rs` runs.
const RUN: [&str; 2] = ["stagecut ", "mkdir "];

/// How the other commands begin, the file that runs them or stands for it, and words of that file that show it.
pub const ELSEWHERE: [(&str, &str, &str); 8] = [
    ("make demo", "tests/house/examples.rs", "fn make_demo"),
    ("make build", "Makefile", "demo: build"),
    ("make lint", ".ci/run", "make lint"),
    ("make test", ".ci/run", "make test"),
    // The folder of the program is on the path of every command.
    ("export PATH=", "tests/house/examples.rs", ".env(\"PATH\""),
    // Installs what `make wheel` has built.
    ("pip install .", "scripts/test-wheel", "-m pip install"),
    // Every one of a page, in order, with the commands of `stagecut` between them.
    ("python ", "tests/python/test_pages.py", "PAGES"),
    ("torchrun ", "tests/python/test_pages.py", "PAGES"),
];

/// The root of the checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A command of a page, and what the page shows of its output.
#[derive(Debug, Default)]
pub struct Example {
    pub command: String,
    pub code: i32,
    /// Numbers in a comment behind the command.
    pub numbers: Vec<String>,
    pub shown: Vec<String>,
}

impl Example {
    pub fn new(line: &str) -> Self {
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

/// A fence and what it holds.
struct Block {
    kind: String,
    body: String,
    /// Why nobody runs it, if so.
    excuse: Option<String>,
}

/// A page: files that it shows, and its examples.
#[derive(Default)]
pub struct Page {
    /// Its path from the root of the checkout.
    pub name: String,
    pub text: String,
    /// Files with their contents.
    pub files: Vec<(String, String)>,
    /// Files that a profiler would write.
    pub profiles: Vec<String>,
    /// What `tests/house/examples.rs` runs.
    pub examples: Vec<Example>,
    /// Commands that are run elsewhere.
    pub elsewhere: Vec<String>,
    /// Commands that nobody runs, and why.
    pub excused: Vec<(String, String)>,
}

/// Every page, in the order of their paths.
pub fn pages() -> Vec<Page> {
    let mut names = Vec::new();
    collect(&root(), &mut names);
    names.sort();
    names.iter().map(|name| Page::read(name)).collect()
}

/// The Markdown files below a folder.
fn collect(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // Hidden folders hold tools, results of studies what somebody ran.
        let is_ours =
            !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) && !name.ends_with(".results");
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_ours {
            collect(&path, names);
        } else if name.ends_with(".md") {
            let name = path.strip_prefix(root()).expect("a path below the root");
            names.push(name.to_string_lossy().into_owned());
        }
    }
}

impl Page {
    /// Reads a page, and fails for what nobody runs.
    pub fn read(name: &str) -> Self {
        let text =
            std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut page = Self {
            name: name.to_owned(),
            text,
            ..Self::default()
        };
        for block in blocks(&page.text) {
            page.take(block);
        }
        page.every_file_is_used();
        page
    }

    fn take(&mut self, block: Block) {
        let Block { kind, body, excuse } = block;
        match (kind.as_str(), excuse) {
            ("console", excuse) => self.console(&body, excuse.as_deref()),
            (_, Some(_)) | ("math" | "text", None) => {}
            ("toml" | "csv" | "yaml" | "python", None) if body.starts_with("# ") => self.file(&body),
            ("json", None) if body.starts_with("# ") => self.bare_file(&body),
            ("python" | "python torch", None) => self.python(&kind),
            // Such lines stand in the library's own examples, which `cargo test --doc` compiles.
            ("rust", None) => body
                .lines()
                .for_each(|line| assert!(is_shown_by_the_library(line), "{}: {line}", self.name)),
            _ => panic!("{}: nobody runs a block of `{kind}`", self.name),
        }
    }

    /// A file in a language without comments: its name is no part of it.
    fn bare_file(&mut self, body: &str) {
        let (first, rest) = body.split_once('\n').expect("lines");
        let name = first.strip_prefix("# ").expect("the name of the file");
        self.files.push((name.to_owned(), rest.to_owned()));
    }

    fn file(&mut self, body: &str) {
        let first = body.lines().next().expect("lines");
        let name = first.strip_prefix("# ").expect("the name of the file");
        self.files.push((name.to_owned(), body.to_owned()));
    }

    /// An example of the Python package, run by the script that tests it.
    fn python(&self, kind: &str) {
        let runner = match kind {
            "python" => "scripts/test-wheel",
            _ => "tests/python/test_pages.py",
        };
        let text = std::fs::read_to_string(root().join(runner)).expect("a script");
        let knows = text.contains(&self.name) || kind != "python";
        assert!(knows, "{}: {runner} does not run its Python", self.name);
    }

    fn console(&mut self, body: &str, excuse: Option<&str>) {
        let body = body.replace("\\\n", "");
        let mut is_ours = false;
        for line in body.lines() {
            let Some(command) = line.strip_prefix("$ ") else {
                if let (true, Some(example)) = (is_ours, self.examples.last_mut()) {
                    example.shown.push(line.to_owned());
                }
                continue;
            };
            is_ours = excuse.is_none() && RUN.iter().any(|start| command.starts_with(start));
            match excuse {
                Some(excuse) => self.excused.push((command.to_owned(), excuse.to_owned())),
                None if is_ours => self.examples.push(Example::new(command)),
                None => self.ran_elsewhere(command),
            }
        }
    }

    /// Fails for a command that [`ELSEWHERE`] does not know.
    fn ran_elsewhere(&mut self, command: &str) {
        let known = ELSEWHERE.iter().any(|(start, ..)| command.starts_with(start));
        assert!(known, "{}: nobody runs `{command}`", self.name);
        if command.contains("tools/profile_torch.py") {
            let (_, file) = command.split_once(" -o ").expect("a file to write");
            self.profiles.push(file.trim().to_owned());
        }
        self.elsewhere.push(command.to_owned());
    }

    fn every_file_is_used(&self) {
        for (name, _) in &self.files {
            let in_commands = self.examples.iter().any(|example| example.command.contains(name));
            let mut others = self.files.iter().filter(|(other, _)| other != name);
            // What GitHub reads is named nowhere.
            let is_used = in_commands
                || name.starts_with(".github/")
                || others.any(|(_, contents)| contents.contains(name));
            assert!(is_used, "{}: nothing reads `{name}`", self.name);
        }
    }

    /// Where the links of the page lead: addresses, as they stand.
    pub fn links(&self) -> Vec<String> {
        let mut links = Vec::new();
        let mut is_code = false;
        for line in self.text.lines() {
            is_code ^= line.starts_with("```");
            let parts = line.split("](").skip(1).filter(|_| !is_code);
            links.extend(parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())));
        }
        links
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| {
                let heading = line.trim_start_matches('#').trim().to_lowercase();
                let kept = heading
                    .chars()
                    .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
                kept.map(|c| if c == ' ' { '-' } else { c }).collect()
            })
            .collect()
    }
}

/// The fences of a page.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            before = if line.is_empty() { before } else { line };
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let excuse = before
            .strip_prefix("<!-- not run: ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        blocks.push(Block {
            kind: kind.to_owned(),
            body: body.join("\n") + "\n",
            excuse: excuse.map(str::to_owned),
        });
        before = "";
    }
    blocks
}

/// Whether a line of code stands in the examples of the library's front page.
fn is_shown_by_the_library(line: &str) -> bool {
    let shown = include_str!("../../src/lib.rs");
    shown
        .lines()
        .any(|own| own.trim_start_matches("//!").trim() == line.trim())
}
