//! Commands that turn one file into another: instances in, plans out.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::shared::{ReportFormat, unknown};
use crate::export::{self, TARGETS, Target};
use crate::input::generate::random::Random;
use crate::input::generate::transformer::{
    AT_LEAST_ONE, Attention, Granularity, Phase, Precision, Transformer,
};
use crate::input::import::FORMATS;
use crate::input::import::config::Asked;

const TRANSFORMER_EXAMPLES: &str = "Examples:\n  stagecut generate transformer --preset llama3-8b --output llama3.json\n  \
stagecut generate transformer --layers 96 --hidden 12288 --sequence 2048 --granularity block --output net.toml";

pub(super) fn import_help() -> String {
    let formats = FORMATS.iter();
    let lines: Vec<String> = formats
        .map(|f| format!("  {:<21} {}", f.name, f.summary))
        .collect();
    format!(
        "Formats, detected by extension and content:\n{}\n\nExamples:\n  stagecut import graph.txt --output vgg16.toml\n  \
stagecut import config.json --sequence 8192 --output qwen3.json\n  stagecut import config.json --summary",
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

    /// What the model of a configuration has, instead of an instance: parameters, bytes kept of a token, layers by kind
    #[arg(long)]
    pub summary: bool,

    /// How the summary is written
    #[arg(long, value_name = "FORMAT", requires = "summary", default_value = "text")]
    pub format: ReportFormat,

    /// No notes on stderr
    #[arg(long, short)]
    pub quiet: bool,

    /// How the model of a configuration is run
    #[command(flatten)]
    pub model: ModelArgs,
}

/// How the model of a configuration is run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Configurations of models")]
pub struct ModelArgs {
    /// Tokens of a sequence [default: 4096, or as many as the model has positions for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub sequence: Option<u32>,

    /// Tokens before these whose keys and values are in a cache: inference, forward alone
    #[arg(long, value_name = "N", conflicts_with = "micro_batches", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub context: Option<u32>,

    /// What a server does: read a prompt of `--context` tokens, or decode a token behind them; forward alone
    #[arg(long, conflicts_with = "micro_batches")]
    pub phase: Option<Phase>,

    /// Tokens of a prompt that a server reads, where a micro-batch is a whole request, or so many as it has sequences: layers as blocks
    #[arg(long, value_name = "N", requires = "decode_tokens", conflicts_with_all = ["phase", "context", "sequence", "micro_batches"],
        value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub prefill_tokens: Option<u32>,

    /// Tokens that it writes behind the prompt, one pass for each but the first
    #[arg(long, value_name = "N", requires = "prefill_tokens", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub decode_tokens: Option<u32>,

    /// Sequences of a micro-batch [default: 1]
    #[arg(long, visible_alias = "batch", value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub micro_batch: Option<u32>,

    /// Numbers to compute with, which decides the rates of the device [default: bf16]
    #[arg(long)]
    pub precision: Option<Precision>,

    /// How attention is computed [default: flash]
    #[arg(long)]
    pub attention: Option<Attention>,

    /// Degrees of tensor parallelism to write modes for, which divide the heads of keys and values [default: those of 1,2,4,8 for blocks,
    /// 1 for operators]
    #[arg(long, value_name = "DEGREES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub tensor: Option<Vec<u32>>,

    /// Let tensor groups split by sequence what they do not split by width
    #[arg(long)]
    pub sequence_parallel: bool,

    /// What a layer of the instance is [default: block]
    #[arg(long)]
    pub granularity: Option<Granularity>,

    /// Micro-batches of an iteration, as an option of the file: each takes its part of the optimiser's step
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub micro_batches: Option<u32>,

    /// Layers that predict further tokens, of those that the configuration has, with their part of the head [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    pub mtp: Option<u32>,
}

impl ModelArgs {
    /// Whether any of them is given: other files than configurations have none.
    pub fn any(&self) -> bool {
        self.sequence.is_some()
            || self.context.is_some()
            || self.phase.is_some()
            || self.prefill_tokens.is_some()
            || self.micro_batch.is_some()
            || self.precision.is_some()
            || self.attention.is_some()
            || self.tensor.is_some()
            || self.sequence_parallel
            || self.granularity.is_some()
            || self.micro_batches.is_some()
            || self.mtp.is_some()
    }

    /// The same without the command line.
    pub fn asked(&self) -> Asked {
        Asked {
            sequence: self.sequence,
            context: self.context,
            phase: self.phase,
            prefill_tokens: self.prefill_tokens,
            decode_tokens: self.decode_tokens,
            micro_batch: self.micro_batch,
            precision: self.precision,
            attention: self.attention.unwrap_or_default(),
            tensor: self.tensor.clone(),
            sequence_parallel: self.sequence_parallel,
            granularity: self.granularity,
            micro_batches: self.micro_batches,
            mtp: self.mtp,
        }
    }
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
