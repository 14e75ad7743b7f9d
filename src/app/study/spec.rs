//! What a study file may say.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::faults::Text;
use super::grid;
use super::size::MOST_TASKS;
use super::task::Task;
use super::values::Axes;
use crate::input::intake;
use crate::input::source::text::from_toml;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::PipelineOptions;

/// A study: which methods run on which instances under which options.
///
/// Its tasks are the product of the three, for each entry of `methods` with its seeds and limits. Where an entry names
/// `families`, it is meant for those alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StudySpec {
    /// Name for reports. Default: that of the file.
    pub name: Option<String>,
    /// What it asks, in a sentence or two.
    #[serde(default)]
    pub description: String,
    /// Limits of every task.
    #[serde(default)]
    pub limits: Limits,
    /// Where instances come from.
    pub instances: Vec<InstancesSpec>,
    /// Options of the problem, each a value or several; `families` may restrict them. Default: the instances' own.
    #[serde(default)]
    pub options: Vec<OptionsSpec>,
    /// Which methods are run.
    pub methods: Vec<MethodsSpec>,
}

/// What a task may use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Seconds a method may search.
    pub time_limit_s: f64,
    /// Seconds beyond, after which the task is ended from outside: heuristics do not look at the clock.
    pub grace_s: f64,
    /// Address space of the process that runs a task, in bytes. Default: no limit.
    pub memory_limit_bytes: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time_limit_s: 60.0,
            grace_s: 10.0,
            memory_limit_bytes: None,
        }
    }
}

/// Instances from files, or from a generator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstancesSpec {
    /// What they have in common, for `families` and for reports. Default: the generator's name, or `files`.
    pub family: Option<String>,
    /// Files and globs, relative to the study.
    #[serde(default)]
    pub files: Vec<Spanned<String>>,
    /// Name of a generator.
    pub generator: Option<Spanned<String>>,
    /// Its parameters, each a value or several.
    #[serde(default)]
    pub parameters: Axes,
    /// Clusters that replace the files', each a preset or a file relative to the study. Default: the files' own.
    #[serde(default)]
    pub clusters: Vec<Spanned<String>>,
    /// Options that hold for these instances where the grid is silent.
    #[serde(default)]
    pub options: PipelineOptions,
}

/// A product of options by the names that instance files use; beside them [`FAMILIES`], the families it is for.
pub(crate) type OptionsSpec = Axes;

/// The name among options that lists families. Default: all.
pub(crate) const FAMILIES: &str = "families";

/// Methods, their seeds and limits: some of the registry, or a command from outside.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MethodsSpec {
    /// Names of methods, or `heuristics` for every one of the registry.
    #[serde(default)]
    pub names: Vec<Spanned<String>>,
    /// What a command is called in results.
    pub name: Option<Spanned<String>>,
    /// A program and its arguments, run in the study's folder, see [`super::outside`].
    pub command: Option<Spanned<Vec<String>>>,
    /// Further files and globs that decide what the command answers, such as modules that it imports.
    #[serde(default)]
    pub files: Vec<Spanned<String>>,
    /// Names to leave out, where a group was named.
    #[serde(default)]
    pub except: Vec<Spanned<String>>,
    /// The families they are for. Default: all.
    #[serde(default)]
    pub families: Vec<Spanned<String>>,
    /// Seeds: one or several. Default: 0.
    pub seeds: Option<Spanned<toml::Value>>,
    /// Time limits, each of which makes tasks of its own. Default: that of `limits`.
    #[serde(default)]
    pub time_limits_s: Vec<f64>,
}

/// A study that was read, with its tasks.
#[derive(Debug)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub description: String,
    /// The file.
    pub path: PathBuf,
    /// Its tasks, those of one instance together.
    pub tasks: Vec<Task>,
}

impl Study {
    /// Reads a study and lists its tasks, at most `size::MOST_TASKS`.
    ///
    /// # Errors
    ///
    /// Every fault of the file at its line, among them names and files that do not exist; too many tasks.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        Self::read_up_to(path, MOST_TASKS)
    }

    /// Reads a study like [`Self::read`], with another limit on its tasks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub(crate) fn read_up_to(path: &Path, most_tasks: u64) -> Result<Self, InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let kind = FaultKind::Syntax {
                found: "bytes that are not UTF-8".into(),
                expected: "text".into(),
            };
            let at = error.utf8_error().valid_up_to();
            in_file(vec![Fault::new(format!("byte {at}"), kind)])
        })?;
        let spec: StudySpec = from_toml(&text).map_err(in_file)?;
        let tasks = grid::tasks(&spec, &Text(text), base_of(path), most_tasks).map_err(in_file)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: spec.name.unwrap_or_else(|| stem.into_owned()),
            description: spec.description,
            path: path.to_owned(),
            tasks,
        })
    }

    /// The folder that paths of the study are relative to.
    pub(crate) fn base(&self) -> &Path {
        base_of(&self.path)
    }

    /// Where results go unless told otherwise: beside the file.
    pub(crate) fn results_folder(&self) -> PathBuf {
        self.path.with_extension("results")
    }
}

/// The folder of a file; a dot where its path names none.
fn base_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
