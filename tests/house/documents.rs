//! What the program prints about itself for shells and `man`, and what the pages of the checkout say of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::command::Folder;
use crate::common::pages::Page;

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
    let words = [
        ("solve --objective it", "iteration"),
        ("solve --method duan-wu-e", "duan-wu-exact-groups"),
        ("compare --methods torchgpipe-t", "torchgpipe-time"),
        ("solve --cluster a100-", "a100-bf16 a100-nodes a100-of-mine.toml"),
        ("export --to torcht", "torchtitan"),
        ("schedule --rule zb-v", "zb-v"),
        ("online --policies myo", "myopic"),
        ("generate transformer --preset llama3-8", "llama3-8b"),
        ("simu", "simulate"),
    ];
    let ask: String = words.iter().map(|(line, _)| bash_asks(line)).collect();
    let expected: String = words.iter().map(|(_, answer)| format!("{answer}\n")).collect();
    let folder = Folder::with("a100-of-mine.toml", "");
    let bash = Command::new("bash")
        .current_dir(folder.path("."))
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
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

/// What bash does when somebody presses the tab key behind these words.
fn bash_asks(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.len();
    let last = words[at - 1];
    let before = words.iter().rev().nth(1).unwrap_or(&"stagecut");
    format!(
        "COMP_WORDS=(stagecut {line}); COMP_CWORD={at}; _stagecut stagecut {last} {before}
echo $(printf '%s\\n' \"${{COMPREPLY[@]}}\" | sort -u)\n"
    )
}

/// The names of every registry stand in the scripts of shells that complete values, and files beside the presets of clusters.
#[test]
fn completions_know_every_name() {
    let methods = stagecut::methods::all().into_iter().map(|method| method.name());
    let targets = stagecut::export::TARGETS.iter().map(|target| target.name);
    let rules = stagecut::schedule::rules::RULES.iter().map(|rule| rule.name);
    let clusters = stagecut::import::CLUSTER_PRESETS.iter().map(|(name, _)| *name);
    let names: Vec<&str> = methods.chain(targets).chain(rules).chain(clusters).collect();
    assert!(names.len() > 60, "{names:?}");
    for (shell, files) in [
        ("bash", "compgen -f -W \"v100 "),
        ("zsh", "{compadd v100 "),
        ("fish", "-F -a \"v100"),
    ] {
        let script = Folder::new().succeed(&["completions", shell]);
        let absent = names.iter().find(|name| !script.contains(**name));
        assert_eq!(absent, None, "{shell}");
        let count = script.matches(files).count();
        assert!(count >= 7, "{shell}: {count} commands complete clusters");
    }
}

#[test]
fn manual_pages() {
    let folder = Folder::new();
    let page = folder.succeed(&["man"]);
    assert!(page.contains(".TH stagecut 1"), "{page}");
    std::fs::create_dir(folder.path("man1")).expect("a folder");
    folder.succeed(&["man", "--output", "man1"]);
    for command in commands() {
        let shown = command.replace('-', "\\-");
        assert!(page.contains(&format!("stagecut\\-{shown}(1)")), "{command}");
        let own = folder.read(&format!("man1/stagecut-{command}.1"));
        assert!(own.contains(".TH") && own.contains(&command), "{command}");
    }
    assert!(folder.read("man1/stagecut-solve.1").contains("time\\-limit"));
    // What cannot be written is no fault of the input.
    assert_eq!(folder.run(&["man", "--output", "nowhere/at/all"]).code, 1);
}

/// The rows of the README's table, and nothing else: a new command goes there, with a link to its page.
#[test]
fn the_readme_lists_every_command() {
    let readme = Page::read("README.md");
    let rows = readme.text.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let mut listed: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let mut commands = commands();
    listed.sort_unstable();
    commands.sort_unstable();
    assert_eq!(listed, commands, "the table of commands in README.md");
}

/// What stands on the first page is read; what is long is not.
#[test]
fn the_readme_is_one_screen() {
    let lines = Page::read("README.md").text.lines().count();
    assert!(
        lines <= 66,
        "README.md has {lines} lines: the rest belongs in docs/"
    );
}

/// Whatever a page shows is run by somebody: reading it fails otherwise.
#[test]
fn every_page_can_be_run() {
    let pages = crate::common::pages::pages();
    assert!(pages.len() > 80, "{}", pages.len());
    for folder in ["docs", "examples"] {
        let index = Page::read(&format!("{folder}/README.md")).links();
        let start = format!("{folder}/");
        let names = pages.iter().filter_map(|page| page.name.strip_prefix(&start));
        for name in names.filter(|name| *name != "README.md") {
            assert!(
                index.iter().any(|link| link == name),
                "{folder}/README.md: no link to `{name}`"
            );
        }
    }
}

/// Links inside the checkout lead to files, and to headings where they name one. Those to items of the crate are for rustdoc.
#[test]
fn links_lead_somewhere() {
    for page in crate::common::pages::pages() {
        let own = Path::new(&page.name).parent().expect("a folder").to_path_buf();
        for link in page
            .links()
            .iter()
            .filter(|link| !link.contains("::") && !link.contains("://"))
        {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                PathBuf::from(&page.name)
            } else {
                own.join(path)
            };
            assert!(
                crate::common::pages::root().join(&target).exists(),
                "{}: `{link}`",
                page.name
            );
            if !anchor.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
                let anchors = Page::read(&target.to_string_lossy()).anchors();
                assert!(
                    anchors.iter().any(|own| own == anchor),
                    "{}: `{link}`: {anchors:?}",
                    page.name
                );
            }
        }
    }
}

/// `make TARGET`, wherever a page says so.
#[test]
fn targets_of_make_exist() {
    let makefile = include_str!("../../Makefile");
    for page in crate::common::pages::pages() {
        for part in page.text.split("`make ").skip(1) {
            let word = part.split(['`', ' ', '\n']).next().expect("a word");
            let known = makefile.contains(&format!("\n{word}:"));
            assert!(known, "{}: `make {word}`", page.name);
        }
    }
}

/// `stagecut COMMAND`, wherever a page says so.
#[test]
fn commands_that_pages_name_exist() {
    let commands = commands();
    for page in crate::common::pages::pages() {
        for part in page.text.split("`stagecut ").skip(1) {
            let word = part.split(['`', ' ', '\n']).next().expect("a word");
            let is_other = ["COMMAND", "="].contains(&word);
            let known = is_other || commands.iter().any(|command| command == word);
            assert!(known, "{}: `stagecut {word}`", page.name);
        }
    }
}

/// A table of `benches/` is of one build: what stands before it names the commit, as `at 1234567`.
#[test]
fn tables_of_benchmarks_name_their_commit() {
    let is_commit = |word: &str| {
        let word = word.trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
        word.len() >= 7 && word.chars().all(|sign| matches!(sign, '0'..='9' | 'a'..='f'))
    };
    let pages = crate::common::pages::pages().into_iter();
    let pages: Vec<Page> = pages.filter(|page| page.name.starts_with("benches/")).collect();
    assert!(pages.len() > 8, "{} pages", pages.len());
    for page in pages {
        let Some((before, _)) = page.text.split_once("\n|") else {
            continue;
        };
        let words: Vec<&str> = before.split_whitespace().collect();
        let named = words
            .windows(2)
            .any(|pair| matches!(pair[0], "at" | "commit") && is_commit(pair[1]));
        assert!(named, "{}: no commit before its first table", page.name);
    }
}
