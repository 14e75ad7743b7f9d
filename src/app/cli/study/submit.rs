//! `study submit`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::app::cli::output;
use crate::app::study::runner;
use crate::app::study::store::Store;
use crate::app::study::submit::{DASK_DRIVER, Engine, Submission, hyperqueue, slurm};

use super::super::{CliError, Ending};
use super::args::SubmitArgs;

/// What the machines of the engine are to run: one word, whatever it is here.
fn program() -> Result<PathBuf, CliError> {
    match crate::input::program::words() {
        None => std::env::current_exe().map_err(|error| CliError::write(Path::new("this program"), error)),
        Some([program]) => Ok(program.into()),
        Some(_) => Err(CliError::Usage(
            "`study submit` writes down the program itself; call `stagecut` rather than `python -m stagecut`"
                .into(),
        )),
    }
}

/// Hands a study to an engine.
pub(super) fn submit(args: &SubmitArgs) -> Result<Ending, CliError> {
    let (study, results) = args.study.read()?;
    let program = program()?;
    // Engines run elsewhere: nothing may depend on this folder.
    let (study_path, results) = (absolute(&study.path)?, absolute(&results)?);
    let asked = Submission {
        program: &program,
        study: &study_path,
        results: &results,
        parts: args.parts as usize,
        cores: args.cores as usize,
        minutes: args.minutes,
        most_tasks: args.study.most_tasks,
        scheduler: args.scheduler.as_deref(),
    };
    match args.engine {
        Engine::Slurm => {
            let script = slurm(&asked);
            match args.dry_run {
                true => output::write(&script, None)?,
                false => fed(Command::new("sbatch"), &script)?,
            }
        }
        Engine::Hyperqueue => {
            let missing = runner::missing(&study.tasks, &Store::new(&results), false).tasks;
            let list: String = missing.iter().map(|task| format!("{}\n", task.id)).collect();
            let command = hyperqueue(&asked);
            if args.dry_run {
                output::write(&format!("{command}\n{list}"), None)?;
                return Ok(Ending::Done);
            }
            std::fs::create_dir_all(&results).map_err(|error| CliError::write(&results, error))?;
            let path = results.join("missing.txt");
            crate::input::whole::write(&path, list).map_err(|error| CliError::write(&path, error))?;
            let mut hq = Command::new("hq");
            hq.args(["submit", "--cpus", "1", "--each-line"])
                .arg(&path)
                .args(["--", "sh", "-c", &command]);
            fed(hq, "")?;
        }
        Engine::Dask => {
            let Some(scheduler) = asked.scheduler else {
                return Err(CliError::Usage(
                    "`--engine dask` needs `--scheduler ADDRESS`".into(),
                ));
            };
            if args.dry_run {
                output::write(DASK_DRIVER, None)?;
                return Ok(Ending::Done);
            }
            let mut python = Command::new(&args.python);
            python
                .arg("-")
                .args([&program, &study_path, &results])
                .arg(scheduler);
            fed(python, DASK_DRIVER)?;
        }
    }
    Ok(Ending::Done)
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::write(path, error))
}

/// Runs a command with a text on its stdin; what it says is for the user.
fn fed(mut command: Command, text: &str) -> Result<(), CliError> {
    use std::io::Write;
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |what: String| CliError::Usage(format!("`{name}` {what}").into());
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}; is it installed?")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read says why itself.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(format!("failed: {status}"))),
    }
}
