//! Flags of `study`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::app::study::size::MOST_TASKS;
use crate::app::study::submit::Engine;

/// The commands of a study.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Run the tasks that have no result yet
    Run(RunArgs),
    /// List the tasks as JSONL
    Tasks(TasksArgs),
    /// Run single tasks, unless they have results, and print their rows
    RunTask(RunTaskArgs),
    /// Merge results into one file
    Collect(CollectArgs),
    /// Say what the results show of the methods
    Report(ReportArgs),
    /// Compare two sets of results; exit code 1 if the second is worse or contradicts the first
    Diff(DiffArgs),
    /// Hand the tasks to an engine that runs on many machines
    Submit(SubmitArgs),
    /// Serve tasks from stdin
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Become the command of a method from outside
    #[command(hide = true)]
    Outside(OutsideArgs),
}

/// A study and its results.
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// The study, in TOML
    pub study: PathBuf,

    /// Folder of results [default: the study's name with `.results`]
    #[arg(long, value_name = "FOLDER")]
    pub results: Option<PathBuf>,

    /// Tasks that the study may have; more are refused before they are listed
    #[arg(long, value_name = "N", default_value_t = MOST_TASKS)]
    pub most_tasks: u64,
}

/// `study run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub study: StudyArgs,

    /// Tasks side by side, one thread each [default: all cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub jobs: Option<u16>,

    /// Run only the K-th of N parts, such as 1/8; together they are all tasks
    #[arg(long, value_name = "K/N", value_parser = part)]
    pub part: Option<(usize, usize)>,

    /// Run tasks again whose result is a crash or a limit
    #[arg(long)]
    pub retry_failed: bool,

    /// No notes and no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// `study tasks`.
#[derive(Debug, Args)]
pub struct TasksArgs {
    #[command(flatten)]
    pub study: StudyArgs,

    /// Only those without a result
    #[arg(long)]
    pub missing: bool,
}

/// `study run-task`.
#[derive(Debug, Args)]
pub struct RunTaskArgs {
    #[command(flatten)]
    pub study: StudyArgs,

    /// Identities of tasks, as `study tasks` lists them, or whole lines of that list
    #[arg(required = true)]
    pub ids: Vec<String>,
}

/// `study collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Studies, folders of results, or JSONL files
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Format of the result [default: by the extension of --output, else jsonl]
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
}

/// Formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A row a line, nothing lost.
    Jsonl,
    /// For tables.
    Csv,
}

/// `study report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A study, a folder of results, or a JSONL file
    pub input: PathBuf,

    /// Folder for the page, the text and a CSV file a table [default: the text on stdout]
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,

    /// The study of a JSONL file or folder, for its instances and commands
    #[arg(long, value_name = "STUDY")]
    pub study: Option<PathBuf>,
}

/// `study diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Results to compare with: a study, a folder of results, or a JSONL file
    pub old: PathBuf,

    /// Results to judge
    pub new: PathBuf,

    /// Fail too where a method takes on average so many times as long
    #[arg(long, value_name = "RATIO")]
    pub time_ratio: Option<f64>,
}

/// `study submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    #[command(flatten)]
    pub study: StudyArgs,

    /// What runs the tasks
    #[arg(long, value_enum)]
    pub engine: Engine,

    /// Elements of a job array (slurm)
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub parts: u32,

    /// Cores of an element (slurm)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: u32,

    /// Minutes of an element (slurm)
    #[arg(long, value_name = "M", default_value_t = 60)]
    pub minutes: u64,

    /// Address of the scheduler, such as tcp://10.0.0.1:8786 (dask)
    #[arg(long, value_name = "ADDRESS")]
    pub scheduler: Option<String>,

    /// Python with `dask[distributed]` (dask)
    #[arg(long, value_name = "FILE", default_value = "python3")]
    pub python: PathBuf,

    /// Print what would be submitted instead
    #[arg(long)]
    pub dry_run: bool,
}

/// `study worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Folder that paths of tasks are relative to
    #[arg(long)]
    pub base: PathBuf,

    /// Folder of results
    #[arg(long)]
    pub results: PathBuf,
}

/// `study outside`.
#[derive(Debug, Args)]
pub struct OutsideArgs {
    /// The process that starts this one
    #[arg(long)]
    pub worker: i32,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let parts = text
        .split_once('/')
        .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((k, n)) if 1 <= k && k <= n => Ok((k, n)),
        _ => Err("expected K/N with K from 1 to N, such as 1/8".into()),
    }
}
