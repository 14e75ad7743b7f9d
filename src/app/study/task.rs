//! One run of one method on one problem, and what it is known by.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PROGRAM;
use super::content::digest;
use super::places::resolved_cluster;
use crate::model::options::PipelineOptions;

/// Digits of an identity: 128 bits, so that no two of any number of tasks meet.
const ID_DIGITS: usize = 32;

/// A task: everything that is needed to run it, and nothing that changes between runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Hash of all that decides its result, in hexadecimal.
    pub id: String,
    /// Name of the instance, for people.
    pub instance: String,
    /// What it belongs to.
    pub family: String,
    /// Where it comes from.
    pub source: Source,
    /// Hash of the instance and the cluster that replaces its own.
    pub content: String,
    /// A preset's name or a file relative to the study; absent for the instance's own cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The options that are asked.
    pub options: PipelineOptions,
    /// The method.
    pub method: String,
    /// What is run, where the method is none of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
    /// Its seed.
    pub seed: u64,
    /// Seconds it may search.
    pub time_limit_s: f64,
    /// Seconds beyond, before it is ended from outside.
    pub grace_s: f64,
    /// Address space it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// The program, see [`PROGRAM`].
    pub program: String,
}

/// A method from outside: a command that reads a problem and writes stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// The program and its arguments, run in the study's folder.
    pub command: Vec<String>,
    /// Hash of the files that it names.
    pub content: String,
}

/// Where an instance comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A file, relative to the study.
    File(String),
    /// A generator and its parameters.
    Generator(String, BTreeMap<String, serde_json::Value>),
}

/// What decides a result; names and paths do not.
#[derive(Serialize)]
struct Identity<'a> {
    content: &'a str,
    options: &'a PipelineOptions,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<&'a Outside>,
    seed: u64,
    time_limit_s: f64,
    memory_limit_bytes: Option<u64>,
    program: &'a str,
}

impl Task {
    /// The same task under its identity.
    pub(crate) fn identified(mut self) -> Self {
        self.program = PROGRAM.into();
        self.id = self.hash(&self.program, self.outside.as_ref());
        self
    }

    /// What the task is, whatever the program, ours or the one from outside: the same in two versions that are compared.
    pub(crate) fn question(&self) -> String {
        self.hash("", None)
    }

    fn hash(&self, program: &str, outside: Option<&Outside>) -> String {
        let identity = Identity {
            content: &self.content,
            options: &self.options,
            method: &self.method,
            outside,
            seed: self.seed,
            time_limit_s: self.time_limit_s,
            memory_limit_bytes: self.memory_limit_bytes,
            program,
        };
        let mut id = digest(&[&json(&identity)]);
        id.truncate(ID_DIGITS);
        id
    }

    /// The options as `name=value`, in the order of the instance format; empty where the instance's own hold.
    pub fn options_text(&self) -> String {
        let pairs = named(&self.options);
        let text = |(name, value): (String, String)| format!("{name}={value}");
        pairs.map(text).collect::<Vec<_>>().join(" ")
    }

    /// What the tasks of one problem have in common.
    pub(crate) fn problem_key(&self) -> (&str, String) {
        (&self.content, self.options_text())
    }

    /// The problem in words: instance, cluster and options.
    pub(crate) fn problem(&self) -> String {
        let cluster = self
            .cluster
            .as_ref()
            .map_or_else(String::new, |name| format!(" on {name}"));
        let options = self.options_text();
        match options.is_empty() {
            true => format!("{}{cluster}", self.instance),
            false => format!("{}{cluster}, {options}", self.instance),
        }
    }

    /// A command that runs the task again.
    ///
    /// `study` is the study's path as the reader would type it, and `base` its folder; a method of ours on an instance of a file needs the folder alone.
    pub fn command(&self, study: &str, base: &Path) -> String {
        let (Source::File(file), None) = (&self.source, &self.outside) else {
            return format!("stagecut study run-task {} {}", quoted(study), self.id);
        };
        let path = without_dots(&base.join(file));
        let mut command = format!("stagecut solve {}", quoted(&path.to_string_lossy()));
        let mut flag = |name: &str, value: &str| {
            command.push_str(&format!(" --{name} {}", quoted(value)));
        };
        if let Some(cluster) = &self.cluster {
            let path = without_dots(Path::new(&resolved_cluster(cluster, base)));
            flag("cluster", &path.to_string_lossy());
        }
        for (name, value) in named(&self.options) {
            let name = name.trim_end_matches("_bytes_per_s").replace('_', "-");
            match value.as_str() {
                "true" => flag(&name, ""),
                value => flag(&name, value),
            }
        }
        flag("method", &self.method);
        flag("seed", &self.seed.to_string());
        flag("time-limit", &self.time_limit_s.to_string());
        command.replace(" ''", "")
    }
}

/// The options that say something, in the order of the instance format.
fn named(options: &PipelineOptions) -> impl Iterator<Item = (String, String)> {
    let value = serde_json::to_value(options).unwrap_or_default();
    let order = json(options);
    let mut pairs: Vec<_> = match value {
        serde_json::Value::Object(fields) => fields.into_iter().collect(),
        _ => Vec::new(),
    };
    // A map sorts its names; the text keeps the order of the fields.
    pairs.sort_by_key(|(name, _)| order.find(&format!("\"{name}\":")));
    pairs.into_iter().map(|(name, value)| {
        let text = match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Array(list) => {
                let words = list.iter().map(|word| word.as_str().unwrap_or_default());
                words.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        (name, text)
    })
}

/// A path without dots, where that can be told from its words.
fn without_dots(path: &Path) -> PathBuf {
    let mut shorter = PathBuf::new();
    for part in path.components() {
        let last_is_name = matches!(shorter.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::CurDir => {}
            Component::ParentDir if last_is_name => {
                shorter.pop();
            }
            part => shorter.push(part),
        }
    }
    shorter
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A value as JSON in one line.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Only maps whose keys are no strings cannot be written, and no type of a study has one.
    serde_json::to_string(value).expect("types of a study have string keys alone")
}
