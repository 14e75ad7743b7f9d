//! Commands and flags.

mod files;
mod plan;
mod plans;
mod runs;
mod schedule;
mod shared;
mod what_if;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::study::StudyCommand;

pub(super) use files::{Described, ExportArgs, Family, GenerateArgs, ImportArgs};
pub(super) use plan::PlanArgs;
pub(super) use plans::{
    BoundArgs, CalibrateArgs, CheckArgs, CompareArgs, Drawing, FormulateArgs, LayoutArgs, ShowArgs, SolveArgs,
};
pub(super) use runs::{AskedOrder, OnlineArgs, PlaceArgs, PlaceMethod, SimulateArgs, SimulationFormat};
pub(super) use schedule::{AskedArgs, ChunkArgs, GivenArgs, ScheduleArgs, ScheduleFormat};
pub(super) use shared::{Format, OutputArgs, ReportFormat, SearchArgs, read_instance};
pub(super) use what_if::{Varied, WhatIfArgs, WhatIfFormat};

/// Provably optimal pipeline plans for deep neural networks, and the gaps of published heuristics.
#[derive(Debug, Parser)]
#[command(name = "stagecut", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Let instances name files outside of their folders, as network or as external data of a model
    #[arg(long, global = true)]
    pub outside_files: bool,

    /// Lengths along symbolic axes of an ONNX model, such as batch=1,sequence=128 [default: 1 along leading axes]
    #[arg(long = "dim", global = true, value_name = "NAME=N", value_delimiter = ',', value_parser = dim)]
    pub dims: Vec<(String, u32)>,

    /// How often a loop of an ONNX model runs that does not say so itself
    #[arg(long = "trip-count", global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(..=MOST))]
    pub trips: Option<u32>,
}

/// Lengths and counts that are still those of a network.
const MOST: i64 = 1 << 30;

/// A name and a length; names hold what they like.
fn dim(text: &str) -> Result<(String, u32), String> {
    let expected = || "expected a name and a whole number up to 2^30, such as sequence=128".to_owned();
    let (name, length) = text.rsplit_once('=').ok_or_else(expected)?;
    let length = length.trim().parse().map_err(|_| expected())?;
    let is_fit = !name.trim().is_empty() && i64::from(length) <= MOST;
    is_fit
        .then(|| (name.trim().to_owned(), length))
        .ok_or_else(expected)
}

const EXIT_CODES: &str = "Exit codes: 0 plan found or check passed; 1 check failed, result not written, or internal error; 2 bad usage or \
input; 3 proved infeasible; 4 stopped by a limit without a plan";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// From a model's `config.json` and devices to degrees, layout, memory, tokens a second and flags, in one screen
    #[command(after_help = plan::EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Find the best plan and prove it
    #[command(after_help = plans::SOLVE_EXAMPLES)]
    Solve(SolveArgs),
    /// Compute lower bounds, without looking for a plan
    #[command(after_help = "Example:\n  stagecut bound instances/googlenet.onnx --stages 4")]
    Bound(BoundArgs),
    /// Run several methods on one instance and report their gaps
    #[command(
        after_help = "Examples:\n  stagecut compare instances/googlenet.onnx --stages 4\n  \
stagecut compare net.toml --methods exact,slicing --format csv"
    )]
    Compare(CompareArgs),
    /// Follow the optimum as bandwidth, memory, stages or devices change, with proved breakpoints
    #[command(after_help = what_if::EXAMPLES)]
    WhatIf(WhatIfArgs),
    /// Check a plan against its instance, without the solver; with `--evaluate`, cost stages of somebody else
    #[command(
        after_help = "Example:\n  stagecut solve net.toml --format json --output plan.json\n  \
stagecut check net.toml plan.json\n  \
stagecut check --evaluate net.toml stages.csv --stages 4 --bound\n  \
stagecut check --evaluate net.toml --layout 'Et*3|(tt|)*14,tL' --stages 8 --virtual-stages 2\n\nThe instance and these options decide the problem. What both leave open, the plan may say, except that devices \
hold more or links are faster: give `--memory-limit` and `--bandwidth` here too."
    )]
    Check(CheckArgs),
    /// Fit the cluster's efficiencies, launches and links to measured layers, transfers or iterations
    #[command(after_help = plans::calibrate_help())]
    Calibrate(CalibrateArgs),
    /// Say what the stages of a layout of Megatron hold, or why Megatron refuses it
    #[command(
        after_help = "Example:\n  stagecut layout 'Et*3|(tt|)*29,m|L' --devices 16 --layers 61 --mtp 1\n\n`check --evaluate --layout` says \
what a layout costs, `export --to megatron` writes that of a plan."
    )]
    Layout(LayoutArgs),
    /// Write the mixed-integer program as LP or MPS, with readable names
    #[command(
        after_help = "Examples:\n  stagecut formulate net.toml --stages 4 --output net.lp\n  \
stagecut formulate net.toml --stages 4 --output net.mps"
    )]
    Formulate(FormulateArgs),
    /// Draw the network, coloured by stage where a plan is given, as SVG or Graphviz DOT
    #[command(
        after_help = "Examples:\n  stagecut show instances/googlenet.onnx --output net.svg\n  \
stagecut show net.toml --plan plan.json --format dot | dot -Tpdf > net.pdf"
    )]
    Show(ShowArgs),
    /// Run a plan micro-batch by micro-batch: time of an iteration, period, idle time, timeline
    #[command(after_help = runs::SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Find the best order of a pipeline's operations and prove it: cyclic patterns, and iterations of M micro-batches
    #[command(after_help = schedule::help())]
    Schedule(ScheduleArgs),
    /// Plan hybrid parallelism slot by slot as speeds, links and prices change, under budgets
    #[command(after_help = runs::ONLINE_EXAMPLES)]
    Online(OnlineArgs),
    /// Place layers on machines that serve requests together, for most tokens a second, and prove it
    #[command(after_help = runs::PLACE_EXAMPLES)]
    Place(PlaceArgs),
    /// Run many methods on many instances, and report how good they are
    #[command(after_help = STUDY_EXAMPLES)]
    Study {
        /// What to do with the study
        #[command(subcommand)]
        command: StudyCommand,
    },
    /// Write a plan for the framework that is to run it
    #[command(after_help = files::export_help())]
    Export(ExportArgs),
    /// Convert a file of any known format to a native instance
    #[command(after_help = files::import_help())]
    Import(ImportArgs),
    /// Make an instance: a transformer's training graph, published ones among them, or a random network
    #[command(
        after_help = "Examples:\n  stagecut generate transformer --preset gpt3-175b --output gpt3.json\n  \
stagecut solve gpt3.json --stages 16 --time-limit 60\n  \
stagecut generate transformer --operators 10000 --output transformer.json"
    )]
    Generate(GenerateArgs),
    /// Infer the shapes of models from stdin: see `import::onnx::isolated`
    #[cfg(feature = "onnx")]
    #[command(hide = true)]
    InferShapes,
    /// Print the JSON Schema of native instances, of plans, or of scenarios
    Schema {
        /// The format
        #[arg(value_enum, default_value = "instance")]
        of: Described,
    },
    /// Print a script that completes commands, options and names in a shell
    #[command(
        after_help = "Examples:\n  stagecut completions bash > ~/.local/share/bash-completion/completions/stagecut\n  \
stagecut completions fish > ~/.config/fish/completions/stagecut.fish"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command
    #[command(
        after_help = "Examples:\n  stagecut man | man -l -\n  stagecut man --output ~/.local/share/man/man1"
    )]
    Man {
        /// Folder for a page of every command [default: the main page, to stdout]
        #[arg(long, short, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

const STUDY_EXAMPLES: &str = "Examples:\n  stagecut study run studies/heuristic-quality/study.toml\n  \
stagecut study report studies/heuristic-quality/study.toml --output report\n  \
stagecut study diff old.jsonl new.jsonl\n\n\
A study that is killed goes on where it was. `studies/README.md` describes its file and its results.";
