//! Commands that make, judge or draw a plan.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::{OutputArgs, ProblemArgs, ReportFormat, SearchArgs, seconds, unknown};
use crate::solve::methods;

pub(super) const SOLVE_EXAMPLES: &str = "Examples:\n  stagecut solve instances/googlenet.onnx --stages 4\n  \
stagecut solve net.toml --objective iteration --micro-batches 16 --schedule gpipe\n  \
stagecut solve profile.json --device-kinds accelerator --format json --output plan.json\n  \
stagecut solve net.toml --cluster mixed.toml --stages 4 --groups assign --communication overlapped\n  \
stagecut solve net.toml --stages 4 --worker concurrent --shares best --communication overlapped";

/// `bound`.
#[derive(Debug, Args)]
pub struct BoundArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub search: SearchArgs,
}

/// `solve`.
#[derive(Debug, Args)]
pub struct SolveArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub search: SearchArgs,

    /// Method; `--help` lists them
    #[arg(long, value_name = "NAME", default_value = methods::DEFAULT, value_parser = method,
        long_help = method_help(), help_heading = "Search")]
    pub method: methods::Method,

    /// Prove the result again with a second, independent method, and hold it against plans of narrower settings, such as even
    /// shares; a contradiction is an error
    #[arg(long, help_heading = "Search")]
    pub confirm: bool,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub search: SearchArgs,

    /// Methods, separated by commas [default: `exact`, every heuristic, `tied-cuts` where cuts are separate, and `piper` where stages
    /// have modes]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = method, help_heading = "Search")]
    pub methods: Option<Vec<methods::Method>>,
}

fn method(text: &str) -> Result<methods::Method, String> {
    methods::find(text).ok_or_else(|| unknown(text, methods::all().iter().map(|method| method.name())))
}

fn method_help() -> String {
    let all = methods::all();
    let lines: Vec<String> = all
        .iter()
        .map(|m| format!("- {}: {}", m.name(), m.summary()))
        .collect();
    format!("Method\n\n{}", lines.join("\n"))
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    /// Plan in JSON, as `solve --format json` writes it; with `--evaluate` stages in JSON or CSV
    #[arg(help_heading = None::<&'static str>, required_unless_present = "layout", conflicts_with = "layout")]
    pub plan: Option<PathBuf>,

    /// Say what stages cost that somebody else chose: a list of stages with their layers, or CSV with the columns `layer,stage`
    #[arg(long, help_heading = "Stages alone")]
    pub evaluate: bool,

    /// Those of a layout as Megatron takes it, such as `Et*3|(tt|)*29,m|L`, in place of a file: `E` is what lies before the blocks,
    /// `t` a block, `m` a layer named `mtp` behind them, `L` the rest; stages beyond `--stages` are virtual stages
    #[arg(
        long,
        value_name = "LAYOUT",
        requires = "evaluate",
        help_heading = "Stages alone"
    )]
    pub layout: Option<String>,

    /// Hold them against a lower bound too
    #[arg(long, requires = "evaluate", help_heading = "Stages alone")]
    pub bound: bool,

    /// Seconds that the bound may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds, requires = "bound",
        help_heading = "Stages alone")]
    pub time_limit: f64,

    /// Write them there as a whole plan, with all its numbers, if it can be run
    #[arg(
        long,
        short,
        value_name = "PLAN",
        requires = "evaluate",
        help_heading = "Stages alone"
    )]
    pub output: Option<PathBuf>,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text, help_heading = "Output")]
    pub format: ReportFormat,

    /// No notes on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    /// What was measured; may be given several times
    #[arg(long, value_name = "FILE", required = true, help_heading = "Measurements")]
    pub measured: Vec<PathBuf>,

    /// Write the cluster there, for `--cluster`; `.json` decides for JSON, else TOML
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text, help_heading = "Output")]
    pub format: ReportFormat,

    /// No notes on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

pub(super) fn calibrate_help() -> String {
    format!(
        "Measurements: {}.\n\nExamples:\n  stagecut calibrate net.json --cluster a100-bf16 --measured profile.json --output mine.toml\n  \
stagecut solve net.json --cluster mine.toml --stages 4",
        crate::solve::calibrate::FORMS
    )
}

/// `layout`.
#[derive(Debug, Args)]
pub struct LayoutArgs {
    /// The layout, such as `Et*3|(tt|)*29,m|L`
    pub layout: String,

    /// Devices in a row: Megatron's `--pipeline-model-parallel-size`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub devices: u32,

    /// Decoder layers of the model
    #[arg(long, value_name = "N")]
    pub layers: u32,

    /// Layers of the model that predict further tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub mtp: u32,

    /// Virtual stages that are set beside the layout [default: those that it implies]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub virtual_stages: Option<u32>,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// `formulate`.
#[derive(Debug, Args)]
pub struct FormulateArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    /// File to write; `.lp` or `.mps` decides the format
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: PathBuf,

    /// No notes on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Native instance (JSON, TOML) or any importable file
    pub instance: PathBuf,

    /// Plan in JSON that colours the layers by stage
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,

    /// Replace the cluster: a preset's name or a file
    #[arg(long, value_name = "FILE|PRESET")]
    pub cluster: Option<String>,

    /// Drawing format [default: by the extension of --output, else svg]
    #[arg(long, value_enum)]
    pub format: Option<Drawing>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Formats of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// A picture.
    Svg,
    /// Graphviz.
    Dot,
    /// A page for browsers, with groups that open and close, the stages as a table, and the timeline.
    Html,
}
