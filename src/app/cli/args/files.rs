//! Commands that turn one file into another: instances in, plans out.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::shared::unknown;
use crate::export::{self, TARGETS, Target};
use crate::input::generate::random::Random;
use crate::input::generate::transformer::Transformer;
use crate::input::import::FORMATS;

const TRANSFORMER_EXAMPLES: &str = "Examples:\n  stagecut generate transformer --preset llama3-8b --output llama3.json\n  \
stagecut generate transformer --layers 96 --hidden 12288 --sequence 2048 --granularity block --output net.toml";

pub(super) fn import_help() -> String {
    let formats = FORMATS.iter();
    let lines: Vec<String> = formats
        .map(|f| format!("  {:<21} {}", f.name, f.summary))
        .collect();
    format!(
        "Formats, detected by extension and content:\n{}\n\nExample:\n  stagecut import graph.txt --output vgg16.toml",
        lines.join("\n")
    )
}

pub(super) fn export_help() -> String {
    let targets = TARGETS.iter();
    let lines: Vec<String> = targets
        .map(|target| format!("  {:<10}  {}", target.name, target.summary))
        .collect();
    let ordered = TARGETS.iter().filter(|target| target.write_ordered.is_some());
    let ordered: Vec<&str> = ordered.map(|target| target.name).collect();
    format!(
        "Targets:\n{}\n\nA plan that a target cannot represent is refused, with the reason and exit code 2. Orders of operations go to {}.\n\n\
Examples:\n  stagecut solve net.json --stages 4 --format json --output plan.json\n  \
stagecut export net.json plan.json --to torch --output split.py\n  \
stagecut schedule plan.json --devices 2 --placement v --weight-share 0.5 --rule zb-v --output order.csv\n  \
stagecut export net.json plan.json --to torch --order order.csv --output split.py",
        lines.join("\n"),
        ordered.join(", ")
    )
}

/// `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The instance that was planned
    pub instance: PathBuf,

    /// Plan in JSON, as `solve --format json` writes it
    pub plan: PathBuf,

    /// What to write; `--help` lists the targets
    #[arg(long = "to", value_name = "TARGET", value_parser = target)]
    pub target: &'static Target,

    /// The cluster that the plan was made on, where it does not carry it: a preset's name or a file
    #[arg(long, value_name = "FILE|PRESET")]
    pub cluster: Option<String>,

    /// Order of operations, as `schedule --format csv` writes it: every stage is a chunk, on the device whose line names it
    #[arg(long, value_name = "FILE")]
    pub order: Option<PathBuf>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// No notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

fn target(text: &str) -> Result<&'static Target, String> {
    export::find(text).ok_or_else(|| unknown(text, TARGETS.iter().map(|target| target.name)))
}

/// `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File of any known format
    pub file: PathBuf,

    /// Write there instead of to stdout; `.toml` decides for TOML, else JSON
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// No notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// `generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// What to generate
    #[command(subcommand)]
    pub family: Family,
}

/// Families of generated instances.
#[derive(Debug, Subcommand)]
pub enum Family {
    /// Blocks of attention and MLP, forward and backward, with the optimiser's updates
    #[command(after_help = TRANSFORMER_EXAMPLES)]
    Transformer {
        #[command(flatten)]
        asked: Transformer,

        /// Write there instead of to stdout; `.toml` decides for TOML, else JSON
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Layers with random times that read a few layers before them
    Random {
        #[command(flatten)]
        asked: Random,

        /// Write there instead of to stdout; `.toml` decides for TOML, else JSON
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Formats that have a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Described {
    /// What the other commands plan for.
    Instance,
    /// What `solve` writes, and the least of it that `check --evaluate` reads.
    Plan,
    /// What `online` runs.
    Scenario,
}
