//! `study`: its commands, each a thin cover of [`crate::app::study`].

mod args;
mod progress;
mod run;
mod submit;

use std::path::{Path, PathBuf};

pub(super) use args::StudyCommand;

use crate::app::study::store::Store;
use crate::app::study::summary::Summary;
use crate::app::study::{Study, collect, diff, html, outside, report, row, runner, worker};

use super::{CliError, Ending, output};
use args::{CollectArgs, DiffArgs, OutsideArgs, ReportArgs, RowFormat, StudyArgs, TasksArgs, WorkerArgs};

/// Runs a command of a study.
pub(super) fn study(command: &StudyCommand) -> Result<Ending, CliError> {
    match command {
        StudyCommand::Run(args) => run::run(args),
        StudyCommand::Tasks(args) => tasks(args),
        StudyCommand::RunTask(args) => run::run_tasks(args),
        StudyCommand::Collect(args) => collect(args),
        StudyCommand::Report(args) => report(args),
        StudyCommand::Diff(args) => diff(args),
        StudyCommand::Submit(args) => submit::submit(args),
        StudyCommand::Worker(args) => serve(args),
        StudyCommand::Outside(args) => become_command(args),
    }
}

impl StudyArgs {
    /// The study and the folder of its results.
    fn read(&self) -> Result<(Study, PathBuf), CliError> {
        let study = Study::read_up_to(&self.study, self.most_tasks)?;
        let results = self.results.clone().unwrap_or_else(|| study.results_folder());
        Ok((study, results))
    }
}

fn tasks(args: &TasksArgs) -> Result<Ending, CliError> {
    let (study, results) = args.study.read()?;
    let tasks = match args.missing {
        true => runner::missing(&study.tasks, &Store::new(results), false).tasks,
        false => study.tasks.iter().collect(),
    };
    let lines: String = tasks
        .into_iter()
        .map(|task| crate::app::study::task::json(task) + "\n")
        .collect();
    output::write(&lines, None)?;
    Ok(Ending::Done)
}

fn collect(args: &CollectArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let format = output::format_of(path, args.format, RowFormat::Jsonl)?;
    let sets = args.inputs.iter().map(|input| {
        let read = collect::read(input)?;
        note_damage(&read.damage, LEFT_OUT);
        Ok(read.rows)
    });
    let rows = collect::merged(sets.collect::<Result<_, CliError>>()?);
    let text = match format {
        RowFormat::Jsonl => collect::jsonl(&rows),
        RowFormat::Csv => {
            row::csv(&collect::judged(&rows)).map_err(|error| CliError::Usage(error.to_string().into()))?
        }
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

fn report(args: &ReportArgs) -> Result<Ending, CliError> {
    args.output.as_deref().map(output::check_folder).transpose()?;
    let read = collect::read(&args.input)?;
    note_damage(&read.damage, LEFT_OUT);
    let rows = read.rows;
    let is_study = args
        .input
        .extension()
        .is_some_and(|extension| extension == "toml");
    let study_path = args
        .study
        .clone()
        .or_else(|| is_study.then(|| args.input.clone()));
    let study = study_path.as_deref().map(Study::read).transpose()?;
    let results = match (&study, args.input.is_dir()) {
        (_, true) => Some(args.input.clone()),
        (Some(study), false) => Some(study.results_folder()),
        (None, false) => None,
    };
    let source = report::Source {
        study: study.as_ref(),
        store: results.map(Store::new),
        name: args
            .input
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    let summary = Summary::new(&rows);
    let text = report::text(&summary, &source);
    let Some(folder) = &args.output else {
        output::write(&text, None)?;
        return Ok(Ending::Done);
    };
    report_into(folder, &summary, &source)?;
    Ok(Ending::Done)
}

/// What becomes of results that are torn or altered where nothing is run.
const LEFT_OUT: &str =
    "rows among them are left out, and plans are not drawn; `stagecut study run` makes them again";

/// Says which results are not as they were kept, and what is done about it.
fn note_damage(damage: &[String], then: &str) {
    /// More have one cause.
    const MOST_SAID: usize = 5;
    if damage.is_empty() {
        return;
    }
    let more = match damage.len().saturating_sub(MOST_SAID) {
        0 => String::new(),
        more => format!("\n{more} more"),
    };
    let said = damage[..damage.len().min(MOST_SAID)].join("\n");
    let count = match damage.len() {
        1 => "a file of the results is not as it was written".to_owned(),
        count => format!("{count} files of the results are not as they were written"),
    };
    output::note(&format!("{count}; {then}\n{said}{more}"));
}

/// Where the results of a study come from.
pub(crate) fn source_of<'a>(study: &'a Study, results: &Path) -> report::Source<'a> {
    report::Source {
        study: Some(study),
        store: Some(Store::new(results)),
        name: study.name.clone(),
    }
}

/// Writes the page, the text and the tables of a report.
pub(crate) fn report_into(folder: &Path, summary: &Summary, source: &report::Source) -> Result<(), CliError> {
    output::check_folder(folder)?;
    let write = |name: &str, text: &str| output::write_file(text, &folder.join(name));
    write("report.txt", &report::text(summary, source))?;
    write("report.html", &html::page(summary, source))?;
    let tables =
        report::tables(summary, source).map_err(|error| CliError::Usage(error.to_string().into()))?;
    for (name, table) in tables {
        write(&name, &table)?;
    }
    Ok(())
}

fn diff(args: &DiffArgs) -> Result<Ending, CliError> {
    let diff = diff::diff(&collect::rows(&args.old)?, &collect::rows(&args.new)?);
    output::write(&report::diff(&diff), None)?;
    Ok(match diff.passes(args.time_ratio) {
        true => Ending::Done,
        false => Ending::CheckFailed,
    })
}

fn become_command(args: &OutsideArgs) -> Result<Ending, CliError> {
    let error = outside::become_command(args.worker, &args.command);
    Err(CliError::Usage(format!("`{}`: {error}", args.command[0]).into()))
}

fn serve(args: &WorkerArgs) -> Result<Ending, CliError> {
    let failed = |error| CliError::write(Path::new(&args.results), error);
    worker::serve(&args.base, &Store::new(&args.results)).map_err(failed)?;
    Ok(Ending::Done)
}
