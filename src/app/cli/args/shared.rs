//! What many commands take: the problem, where results go, limits of a search.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::app::cli::{CliError, output};
use crate::app::flags::as_flags;
use crate::model::efficiency::Efficiency;
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::quantity;
use crate::model::settings::Settings;
use crate::model::spec::GivenCluster;
use crate::problem::Problem;
use crate::problem::plan::{self, Statistics};
use crate::problem::switches::Switches;

/// An instance and the problem asked of it.
#[derive(Debug, Args)]
pub struct ProblemArgs {
    /// Native instance (JSON, TOML) or any importable file; the format is detected
    pub instance: PathBuf,

    #[command(flatten)]
    pub options: PipelineOptions,

    #[command(flatten)]
    pub devices: ClusterArgs,
}

/// Devices that are not those of the instance.
#[derive(Debug, Args)]
#[command(next_help_heading = "Problem (overrides the instance)")]
pub struct ClusterArgs {
    /// Replace the cluster: a preset's name or a file
    #[arg(long, value_name = "FILE|PRESET")]
    pub cluster: Option<String>,

    /// Part of the devices' peak rates that layers reach, such as 0.5, or `measured` for what the cluster's file says was measured; for times that follow
    /// from FLOPs and bytes [default: what the cluster says, else 1]
    #[arg(long, value_name = "PART|measured")]
    pub efficiency: Option<Efficiency>,
}

impl ProblemArgs {
    /// Reads the instance; what its importer assumed goes to stderr unless `quiet`, what must not be missed always.
    pub fn read(&self, quiet: bool) -> Result<Instance, CliError> {
        read_instance(&self.instance, &self.devices, quiet)
    }

    /// Reads the instance of a plan, on the cluster that it carries; told like [`read`](Self::read).
    pub fn read_for(&self, carried: Option<&GivenCluster>, quiet: bool) -> Result<Instance, CliError> {
        let cluster = self.devices.cluster.as_deref();
        let instance = match self.devices.efficiency {
            Some(_) => Instance::read_at(&self.instance, cluster, self.devices.efficiency)?,
            None => plan::read_on(&self.instance, cluster, carried)?,
        };
        tell(&instance, quiet);
        Ok(instance)
    }

    /// What is asked of the instance.
    pub fn settings(&self, instance: &Instance) -> Result<Settings, CliError> {
        Ok(Settings::resolve(instance, &self.options)?)
    }

    /// Reads the instance and forms the problem.
    pub fn problem(&self, quiet: bool) -> Result<(Instance, Problem), CliError> {
        let instance = self.read(quiet)?;
        let problem = Problem::new(&instance, self.settings(&instance)?)?;
        Ok((instance, problem))
    }
}

/// Reads an instance: see [`ProblemArgs::read`].
pub(in crate::app::cli) fn read_instance(
    path: &Path,
    devices: &ClusterArgs,
    quiet: bool,
) -> Result<Instance, CliError> {
    let instance = Instance::read_at(path, devices.cluster.as_deref(), devices.efficiency)?;
    tell(&instance, quiet);
    Ok(instance)
}

fn tell(instance: &Instance, quiet: bool) {
    if !quiet {
        instance
            .notes
            .iter()
            .for_each(|note| output::note(&note.written(as_flags)));
    }
    instance
        .warnings
        .iter()
        .for_each(|warning| output::warning(warning));
}

/// How results are written, in one of some formats.
#[derive(Debug, Args)]
pub struct OutputArgs<F: ValueEnum + Send + Sync + 'static = Format> {
    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the result [default: by the extension of --output, else text]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<F>,

    /// No notes and no progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    /// Report 0 for wall-clock seconds, so that two runs give the same bytes
    #[arg(long, help_heading = "Output")]
    pub reproducible: bool,
}

impl OutputArgs {
    /// The format of the result.
    pub fn format(&self) -> Result<Format, CliError> {
        output::format_of(self.output.as_deref(), self.format, Format::Text)
    }
}

impl<F: ValueEnum + Send + Sync + 'static> OutputArgs<F> {
    /// Leaves out of the statistics of a plan what differs from run to run, where two runs must not.
    pub fn settle(&self, statistics: &mut Statistics) {
        statistics.seconds = self.seconds(statistics.seconds);
        if self.reproducible {
            statistics.looks = 0;
        }
    }

    /// Measured seconds as they are to be reported: none where two runs must not differ.
    pub fn seconds(&self, measured: f64) -> f64 {
        if self.reproducible { 0.0 } else { measured }
    }
}

/// Formats of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For tables.
    Csv,
}

/// Formats of reports that are no tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Limits of a search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Stop after so many seconds with the best plan so far
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<f64>,

    /// Memory that the search may take, such as 8GB; it keeps within it, or stops with the best plan so far [default: three quarters of
    /// what the machine has free]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub memory: Option<f64>,

    /// Stop at this relative gap between plan and bound
    #[arg(long, default_value_t = 0.0, value_parser = gap)]
    pub gap: f64,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Parts of the exact engine to leave out, separated by commas, to see what they are worth: for its developers
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = part, hide_short_help = true, long_help = without_help())]
    pub without: Vec<&'static str>,
}

fn without_help() -> String {
    format!(
        "Parts of the exact engine to leave out, separated by commas, to see what they are worth; answers stay right, proofs \
         may take longer or be missed. For its developers. Parts: {}",
        Switches::NAMES.join(", ")
    )
}

fn part(name: &str) -> Result<&'static str, String> {
    let known = Switches::NAMES.iter().find(|known| **known == name);
    known
        .copied()
        .ok_or_else(|| format!("expected one of {}", Switches::NAMES.join(", ")))
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0".into()),
    }
}

fn gap(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gap) if (0.0..=1.0).contains(&gap) => Ok(gap),
        _ => Err("expected a relative gap from 0 to 1, such as 0.01".into()),
    }
}

/// What to say of a name that is none of these.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<String> = known.map(str::to_owned).collect();
    match crate::model::fault::closest(name, &known) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}
