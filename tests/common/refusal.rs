//! What holds whenever the program refuses an input.

use std::time::Duration;

use super::command::{Folder, Run};

/// No broken input may take longer, not even 100 MB of it on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The longest message for a person.
const LONGEST_MESSAGE: usize = 8_000;

/// What holds of every message, whatever the input.
pub fn assert_refused(name: &str, run: &Run, expected: &[&str]) {
    let Run {
        code,
        stdout,
        stderr,
        elapsed,
    } = run;
    assert_eq!(*code, 2, "{name}: {stderr}");
    assert_eq!(stdout, "", "{name}");
    assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    assert!(stderr.starts_with("error: "), "{name}: {stderr}");
    assert!(
        stderr.len() < LONGEST_MESSAGE,
        "{name}: {} bytes of message",
        stderr.len()
    );
    assert!(*elapsed < SOON, "{name}: {elapsed:?}");
    // Long lines are wrapped for reading; what is looked for must not depend on where.
    let unwrapped = unwrap(stderr);
    for part in expected {
        assert!(unwrapped.contains(part), "{name}: no `{part}` in {stderr}");
    }
}

fn unwrap(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().filter(|word| *word != "│").collect();
    words.join(" ")
}

/// Refuses a file's contents, asked with `--stages 2`.
pub fn refused(name: &str, file: &str, contents: impl AsRef<[u8]>, expected: &[&str]) -> Run {
    let folder = Folder::with(file, contents);
    let run = folder.run(&["solve", file, "--stages", "2"]);
    assert_refused(name, &run, expected);
    run
}
