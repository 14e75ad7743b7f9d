//! Studies on engines that others run: Slurm, HyperQueue, Dask.
//!
//! All of them do the same: run the tasks that are missing, wherever the folder of the study is mounted. Whatever is killed or
//! run twice, the results are the same, see [`super::store`].

use std::path::Path;

use super::size::MOST_TASKS;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// A job array, through `sbatch`.
    Slurm,
    /// A task a line, through `hq submit --each-line`.
    Hyperqueue,
    /// Futures on a running scheduler, through Python and `dask[distributed]`.
    Dask,
}

/// What an engine is asked.
#[derive(Clone, Debug)]
pub(crate) struct Submission<'a> {
    /// This program.
    pub program: &'a Path,
    /// The study.
    pub study: &'a Path,
    /// The folder of results.
    pub results: &'a Path,
    /// Elements of a job array.
    pub parts: usize,
    /// Cores of an element.
    pub cores: usize,
    /// Minutes of an element.
    pub minutes: u64,
    /// Tasks that the study may have.
    pub most_tasks: u64,
    /// Address of Dask's scheduler.
    pub scheduler: Option<&'a str>,
}

/// The script of a job array: element k runs part k of the study on its cores.
pub(crate) fn slurm(asked: &Submission) -> String {
    let Submission {
        parts,
        cores,
        minutes,
        ..
    } = asked;
    format!(
        "#!/bin/sh\n#SBATCH --job-name=stagecut-study\n#SBATCH --array=1-{parts}\n#SBATCH --cpus-per-task={cores}\n\
         #SBATCH --time={minutes}\n#SBATCH --requeue\n\
         # What is there already is not run again: submit the same script until nothing is missing.\n\
         exec {} study run {} --results {}{} --part \"$SLURM_ARRAY_TASK_ID/{parts}\" --jobs \"${{SLURM_CPUS_PER_TASK:-{cores}}}\" --quiet\n",
        quoted_for_shell(asked.program),
        quoted_for_shell(asked.study),
        quoted_for_shell(asked.results),
        most_tasks(asked)
    )
}

/// The command that a HyperQueue task runs; the line of its task is in `HQ_ENTRY`.
pub(crate) fn hyperqueue(asked: &Submission) -> String {
    format!(
        "exec {} study run-task {} --results {}{} \"$HQ_ENTRY\"",
        quoted_for_shell(asked.program),
        quoted_for_shell(asked.study),
        quoted_for_shell(asked.results),
        most_tasks(asked)
    )
}

/// The flag for a study that may have more tasks than usual.
fn most_tasks(asked: &Submission) -> String {
    match asked.most_tasks {
        MOST_TASKS => String::new(),
        most => format!(" --most-tasks {most}"),
    }
}

/// The driver of Dask, in Python.
pub(crate) const DASK_DRIVER: &str = include_str!("dask_driver.py");

/// A path as one word of a shell command.
fn quoted_for_shell(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}
