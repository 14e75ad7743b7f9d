//! What the program prints about itself for shells and `man`.

#[path = "common/command.rs"]
mod command;

use std::io::Write;
use std::process::{Command, Stdio};

use command::Folder;

/// Every command, as the main help lists them.
fn commands() -> Vec<String> {
    let help = Folder::new().succeed(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty());
    names
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        // Descriptions go on in lines that begin with more blanks.
        .filter(|name| !["", "help"].contains(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn completions_know_every_command() {
    let commands = commands();
    assert!(commands.len() > 12, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Folder::new().succeed(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("time-limit"), "{shell}");
    }
    assert_eq!(Folder::new().run(&["completions", "dos"]).code, 2);
}

/// Bash itself completes the name of a command and the value of an option.
#[test]
fn bash_completes() {
    let script = Folder::new().succeed(&["completions", "bash"]);
    let ask = "COMP_WORDS=(stagecut solve --objective it); COMP_CWORD=3; \
_stagecut stagecut it --objective; echo \"${COMPREPLY[@]}\"
COMP_WORDS=(stagecut simu); COMP_CWORD=1; _stagecut stagecut simu stagecut; echo \"${COMPREPLY[@]}\"\n";
    let bash = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut bash) = bash else {
        eprintln!("skipped: no bash");
        return;
    };
    let mut input = bash.stdin.take().expect("a pipe");
    input
        .write_all(format!("{script}\n{ask}").as_bytes())
        .expect("bash reads");
    drop(input);
    let output = bash.wait_with_output().expect("bash ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "iteration\nsimulate\n");
}

#[test]
fn manual_pages() {
    let folder = Folder::new();
    let page = folder.succeed(&["man"]);
    assert!(page.contains(".TH stagecut 1"), "{page}");
    std::fs::create_dir(folder.path("man1")).expect("a folder");
    folder.succeed(&["man", "--output", "man1"]);
    for command in commands() {
        assert!(page.contains(&format!("stagecut\\-{command}(1)")), "{command}");
        let own = folder.read(&format!("man1/stagecut-{command}.1"));
        assert!(own.contains(".TH") && own.contains(&command), "{command}");
    }
    assert!(folder.read("man1/stagecut-solve.1").contains("time\\-limit"));
    assert_eq!(folder.run(&["man", "--output", "nowhere/at/all"]).code, 2);
}
