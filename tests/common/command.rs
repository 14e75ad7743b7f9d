//! Running the program as a user does: in a folder of its own, with files in it.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A folder to run the program in; it is gone when this is dropped.
pub struct Folder(TempDir);

/// How a run ended and what it wrote.
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Folder {
    /// An empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder with one file.
    pub fn with(name: &str, contents: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.write(name, contents);
        folder
    }

    /// Adds a file.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), contents).expect("a file in a temporary folder");
        self
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program with these arguments, to be run in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stagecut"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env_remove("NO_COLOR");
        command
    }

    /// Runs the program.
    pub fn run(&self, args: &[&str]) -> Run {
        let started = Instant::now();
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(args).output().expect("the program starts");
        Run {
            // A signal has no code; none of the program's own is negative.
            code: status.code().unwrap_or(-1),
            stdout: String::from_utf8(stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(stderr).expect("UTF-8 on stderr"),
            elapsed: started.elapsed(),
        }
    }

    /// Runs the program, which must succeed, and returns its stdout.
    pub fn succeed(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run.stdout
    }
}

/// What the program wrote as JSON.
#[track_caller]
pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Exit code 2, nothing on stdout, and these parts of the message, whatever its line breaks.
#[track_caller]
pub fn refused(run: &Run, parts: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    let words = run.stderr.split_whitespace().filter(|word| *word != "│");
    let message = words.collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(message.contains(part), "no `{part}` in {message}");
    }
}

/// Settings for snapshots in a folder below `snapshots/`.
pub fn snapshots(folder: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("snapshots")
            .join(folder),
    );
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Three layers in a row; a million bytes take a millisecond.
pub const NET: &str = r#"
[network]
layers = [
  { id = "conv1", forward_ms = 1.0, backward_ms = 2.0, parameter_bytes = 100, stash_bytes = 10 },
  { id = "conv2", forward_ms = 2.0, backward_ms = 4.0, parameter_bytes = 200, stash_bytes = 20 },
  { id = "fc", forward_ms = 1.5, backward_ms = 3.0, parameter_bytes = 300, stash_bytes = 30 },
]
tensors = [
  { producer = "conv1", consumers = ["conv2"], bytes = 1e6 },
  { producer = "conv2", consumers = ["fc"], bytes = 5e5 },
]

[cluster]
device_kinds = [{ name = "gpu" }]
link = { bandwidth_bytes_per_s = 1e9 }
"#;

/// A plan of three layers in two stages in a folder.
pub fn solved() -> Folder {
    solved_with(NET, &[])
}

/// The same of any network, with further options.
pub fn solved_with(net: &str, more: &[&str]) -> Folder {
    let folder = Folder::with("net.toml", net);
    let solve = "solve net.toml --stages 2 --format json --output plan.json";
    folder.succeed(&[&solve.split(' ').collect::<Vec<_>>()[..], more].concat());
    folder
}

/// GPT-2 in a folder, a layer a block.
pub fn gpt2_blocks() -> Folder {
    let folder = Folder::new();
    let generate = [
        "generate",
        "transformer",
        "--preset",
        "gpt2",
        "--granularity",
        "block",
    ];
    folder.succeed(&[&generate[..], &["--output", "net.json"]].concat());
    folder
}
