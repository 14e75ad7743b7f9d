//! `completions`: commands, their options, and the names that options take.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::export::TARGETS;
use crate::input::generate::transformer::PRESETS;
use crate::input::import::CLUSTER_PRESETS;
use crate::online::policies::POLICIES;
use crate::problem::switches::Switches;
use crate::solve::methods;

use super::{Cli, CliError, Ending, output};

/// The names of a registry.
type Names = fn() -> Vec<&'static str>;

/// Arguments that take names, whatever the command, and those names. Only the scripts know them as values: where the program reads
/// one, its own parser says what was meant.
const NAMED: [(&str, Names); 7] = [
    ("cluster", clusters),
    ("method", all_methods),
    ("methods", all_methods),
    ("policies", || POLICIES.iter().map(|policy| policy.name).collect()),
    ("preset", || PRESETS.iter().map(|preset| preset.name).collect()),
    ("target", || TARGETS.iter().map(|target| target.name).collect()),
    ("without", || Switches::NAMES.to_vec()),
];

/// Prints a script that completes commands, options and names.
pub(super) fn completions(shell: Shell) -> Result<Ending, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut named(Cli::command()), "stagecut", &mut script);
    output::write(
        &with_files(shell, String::from_utf8_lossy(&script).into_owned()),
        None,
    )?;
    Ok(Ending::Done)
}

/// The command, and those below it, with the names that arguments take.
fn named(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let known = NAMED.iter().find(|(id, _)| argument.get_id() == id);
        match known {
            Some((_, names)) => argument.value_parser(PossibleValuesParser::new(names())),
            None => argument,
        }
    });
    command.mut_subcommands(named)
}

/// `--cluster` takes a preset or a file, and clap describes one or the other: the scripts offer both.
fn with_files(shell: Shell, script: String) -> String {
    let words = clusters().join(" ");
    match shell {
        Shell::Bash => script.replace(
            &format!("compgen -W \"{words}\""),
            &format!("compgen -f -W \"{words}\""),
        ),
        Shell::Zsh => script.replace(&format!("({words})"), &format!("{{compadd {words}; _files}}")),
        Shell::Fish => {
            let rows: Vec<String> = clusters().iter().map(|name| format!("{name}\\t''")).collect();
            let rows = rows.join("\n");
            script.replace(&format!("-f -a \"{rows}"), &format!("-F -a \"{rows}"))
        }
        // These complete no values.
        _ => script,
    }
}

fn clusters() -> Vec<&'static str> {
    CLUSTER_PRESETS.iter().map(|(name, _)| *name).collect()
}

fn all_methods() -> Vec<&'static str> {
    methods::all().iter().map(|method| method.name()).collect()
}
