//! Progress on terminals of several widths: one line that is rewritten in place, never wraps and leaves nothing behind.

#![cfg(unix)]

use std::io::Read;

use crate::common::command::Folder;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

const ROWS: u16 = 24;

/// What the program writes to a terminal of so many columns; all of it is progress and notes, as results go to files.
fn on_terminal(folder: &Folder, columns: u16, args: &[&str]) -> Vec<u8> {
    let size = PtySize {
        rows: ROWS,
        cols: columns,
        ..PtySize::default()
    };
    let terminal = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_stagecut"));
    command.args(args);
    command.cwd(folder.path("."));
    command.env("TERM", "xterm");
    let mut child = terminal.slave.spawn_command(command).expect("the program starts");
    // So that reading ends when the program does.
    drop(terminal.slave);
    let mut reader = terminal.master.try_clone_reader().expect("what is written");
    let (mut written, mut part) = (Vec::new(), [0; 4096]);
    // A terminal whose other end is closed reports an error instead of an end.
    while let Ok(count @ 1..) = reader.read(&mut part) {
        written.extend(&part[..count]);
    }
    let status = child.wait().expect("the program ends");
    assert!(
        status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&written)
    );
    written
}

/// Shows what was written to a terminal, and checks that it stays on the first line and is gone at the end.
fn assert_one_line(columns: u16, args: &[&str], written: &[u8]) {
    let mut terminal = vt100::Parser::new(ROWS, columns, 0);
    let mut shown = 0;
    for byte in written {
        terminal.process(&[*byte]);
        let (row, column) = terminal.screen().cursor_position();
        assert_eq!(
            row,
            0,
            "{columns} columns, {args:?}: {}",
            terminal.screen().contents()
        );
        shown = shown.max(column);
    }
    let left = terminal.screen().contents();
    assert_eq!(left.trim(), "", "{columns} columns, {args:?}");
    assert!(shown > 20, "{columns} columns, {args:?}: no progress was shown");
}

#[test]
fn progress_is_one_line_and_leaves_nothing() {
    let folder = Folder::new();
    folder.succeed(&[
        "generate", "random", "--layers", "300", "--reach", "10", "--output", "net.json",
    ]);
    let study = r#"
name = "few"
[limits]
time_limit_s = 1
[[instances]]
files = ["net.json"]
[[options]]
stages = [2, 3, 4]
[[methods]]
names = ["slicing", "brkga"]
"#;
    folder.write("study.toml", study);
    for columns in [40, 80, 120] {
        let results = format!("results-{columns}");
        let solve = "solve net.json --stages 8 --method milp --time-limit 1 --output result";
        let bound = "bound net.json --stages 8 --time-limit 1 --output result";
        let compare =
            "compare net.json --stages 8 --methods milp,slicing,brkga,milp --time-limit 1 --output result";
        let study = format!("study run study.toml --results {results} --jobs 1");
        for command in [solve, bound, compare, &study] {
            let args: Vec<&str> = command.split(' ').collect();
            let args = args.as_slice();
            let written = on_terminal(&folder, columns, args);
            // The study ends with a note, which stands alone on the line.
            let end = written
                .windows(5)
                .position(|part| part == b"note:")
                .unwrap_or(written.len());
            assert_one_line(columns, args, &written[..end]);
        }
    }
}
