//! Commands and flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::export::Target;
use crate::generate::random::Random;
use crate::generate::transformer::Transformer;
use crate::instance::Instance;
use crate::methods;
use crate::online::policies::{self, POLICIES, Policy};
use crate::options::{PipelineOptions, Schedule};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::simulate::InFlight;

use super::CliError;
use super::study::StudyCommand;

/// Provably optimal pipeline plans for deep neural networks, and the gaps of published heuristics.
#[derive(Debug, Parser)]
#[command(name = "stagecut", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 plan found or check passed; 1 check failed or internal error; 2 bad usage or \
input; 3 proved infeasible; 4 stopped by a limit without a plan";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find the best plan and prove it
    #[command(after_help = SOLVE_EXAMPLES)]
    Solve(SolveArgs),
    /// Compute lower bounds, without looking for a plan
    #[command(after_help = "Example:\n  stagecut bound instances/googlenet.onnx --stages 4")]
    Bound(SolveArgs),
    /// Run several methods on one instance and report their gaps
    #[command(
        after_help = "Examples:\n  stagecut compare instances/googlenet.onnx --stages 4\n  \
stagecut compare net.toml --methods exact,slicing --format csv"
    )]
    Compare(CompareArgs),
    /// Check a plan against its instance, without the solver
    #[command(
        after_help = "Example:\n  stagecut solve net.toml --format json --output plan.json\n  \
stagecut check net.toml plan.json\n\nThe plan records its problem; problem options override it."
    )]
    Check(CheckArgs),
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
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Plan hybrid parallelism slot by slot as speeds, links and prices change, under budgets
    #[command(after_help = ONLINE_EXAMPLES)]
    Online(OnlineArgs),
    /// Run many methods on many instances, and report how good they are
    #[command(after_help = STUDY_EXAMPLES)]
    Study {
        /// What to do with the study
        #[command(subcommand)]
        command: StudyCommand,
    },
    /// Write a plan for the framework that is to run it
    #[command(after_help = export_help())]
    Export(ExportArgs),
    /// Convert a file of any known format to a native instance
    #[command(after_help = import_help())]
    Import(ImportArgs),
    /// Make an instance: a transformer's training graph, published ones among them, or a random network
    #[command(
        after_help = "Examples:\n  stagecut generate transformer --preset gpt3-175b --output gpt3.json\n  \
stagecut solve gpt3.json --stages 16 --time-limit 60\n  \
stagecut generate transformer --operators 10000 --output transformer.json"
    )]
    Generate(GenerateArgs),
    /// Print the JSON Schema of native instances
    Schema,
    /// Print a script that completes commands and options in a shell
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

const SOLVE_EXAMPLES: &str = "Examples:\n  stagecut solve instances/googlenet.onnx --stages 4\n  \
stagecut solve net.toml --objective iteration --micro-batches 16 --schedule gpipe\n  \
stagecut solve profile.json --device-kinds accelerator --format json --output plan.json\n  \
stagecut solve net.toml --cluster mixed.toml --stages 4 --groups assign --communication overlapped\n  \
stagecut solve net.toml --stages 4 --worker concurrent --shares best --communication overlapped";

const TRANSFORMER_EXAMPLES: &str = "Examples:\n  stagecut generate transformer --preset llama3-8b --output llama3.json\n  \
stagecut generate transformer --layers 96 --hidden 12288 --sequence 2048 --granularity block --output net.toml";

const SIMULATE_EXAMPLES: &str = "Examples:\n  stagecut simulate plan.json\n  \
stagecut simulate plan.json --micro-batches 8 --schedule gpipe --output timeline.svg\n  \
stagecut simulate plan.json --jitter 0.1 --seed 7 --format json\n\n\
A trace has the columns time_ms,device,multiplier: from that time on, the device's work takes so many times as long.\n\
Times are the plan's; the instance is not needed.";

const ONLINE_EXAMPLES: &str = "Examples:\n  stagecut online instances/online/spot.toml --slots 20\n  \
stagecut online instances/online/stragglers.toml --policies tentative,static --output run.jsonl\n  \
stagecut online instances/online/stragglers.toml --policies tentative,static --output run.jsonl --resume\n\n\
A line of JSON for each slot as it is decided, then a summary of each policy, then what no policy can beat.";

const STUDY_EXAMPLES: &str = "Examples:\n  stagecut study run studies/heuristic-quality/study.toml\n  \
stagecut study report studies/heuristic-quality/study.toml --output report\n  \
stagecut study diff old.jsonl new.jsonl\n\n\
A study that is killed goes on where it was. `studies/README.md` describes its file and its results.";

fn import_help() -> String {
    let formats = crate::import::FORMATS.iter();
    let lines: Vec<String> = formats
        .map(|f| format!("  {:<17} {}", f.name, f.summary))
        .collect();
    format!(
        "Formats, detected by extension and content:\n{}\n\nExample:\n  stagecut import graph.txt --output vgg16.toml",
        lines.join("\n")
    )
}

fn export_help() -> String {
    let targets = crate::export::TARGETS.iter();
    let lines: Vec<String> = targets
        .map(|target| format!("  {:<9}  {}", target.name, target.summary))
        .collect();
    format!(
        "Targets:\n{}\n\nA plan that a target cannot represent is refused, with the reason and exit code 2.\n\n\
Examples:\n  stagecut solve net.json --stages 4 --format json --output plan.json\n  \
stagecut export net.json plan.json --to torch --output split.py",
        lines.join("\n")
    )
}

fn target(text: &str) -> Result<&'static Target, String> {
    crate::export::find(text).ok_or_else(|| {
        let known: Vec<String> = crate::export::TARGETS.iter().map(|t| t.name.to_owned()).collect();
        match crate::fault::closest(text, &known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected one of {}", known.join(", ")),
        }
    })
}

/// An instance and the problem asked of it.
#[derive(Debug, Args)]
pub struct ProblemArgs {
    /// Native instance (JSON, TOML) or any importable file; the format is detected
    pub instance: PathBuf,

    #[command(flatten)]
    pub options: PipelineOptions,

    /// Replace the cluster: a preset's name or a file
    #[arg(
        long,
        value_name = "FILE|PRESET",
        help_heading = "Problem (overrides the instance)"
    )]
    pub cluster: Option<String>,
}

impl ProblemArgs {
    /// Reads the instance; what its importer assumed goes to stderr unless `quiet`.
    pub fn read(&self, quiet: bool) -> Result<Instance, CliError> {
        let instance = Instance::read(&self.instance, self.cluster.as_deref())?;
        if !quiet {
            instance.notes.iter().for_each(|note| super::output::note(note));
        }
        Ok(instance)
    }

    /// Reads the instance and forms the problem.
    pub fn problem(&self, quiet: bool) -> Result<(Instance, Problem), CliError> {
        let instance = self.read(quiet)?;
        let settings = Settings::resolve(&instance, &self.options)?;
        let count = instance.cluster.kinds[settings.kind].count;
        let too_few = |&count: &usize| count < settings.stages && !settings.mixed && !quiet;
        if let Some(count) = count.filter(too_few) {
            super::output::note(&format!(
                "{} stages on {count} `{}` devices: planned as if there were enough",
                settings.stages, instance.cluster.kinds[settings.kind].name
            ));
        }
        let problem = Problem::new(&instance, settings)?;
        Ok((instance, problem))
    }
}

/// How results are written.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,

    /// No notes and no progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    /// Report 0 for wall-clock seconds, so that two runs give the same bytes
    #[arg(long, help_heading = "Output")]
    pub reproducible: bool,
}

impl OutputArgs {
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

/// Limits of a search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Stop after so many seconds with the best plan so far
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<f64>,

    /// Stop at this relative gap between plan and bound
    #[arg(long, default_value_t = 0.0, value_parser = gap)]
    pub gap: f64,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

fn seconds(text: &str) -> Result<f64, String> {
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

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err("expected a fraction from 0 to 1, such as 0.1".into()),
    }
}

fn method(text: &str) -> Result<methods::Method, String> {
    methods::find(text).ok_or_else(|| {
        let known: Vec<String> = methods::all().iter().map(|m| m.name().to_owned()).collect();
        match crate::fault::closest(text, &known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected one of {}", known.join(", ")),
        }
    })
}

fn method_help() -> String {
    let all = methods::all();
    let lines: Vec<String> = all
        .iter()
        .map(|m| format!("- {}: {}", m.name(), m.summary()))
        .collect();
    format!("Method\n\n{}", lines.join("\n"))
}

/// `solve` and `bound`.
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

    /// Prove the result again with a second, independent method; a contradiction is an error
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

    /// Methods, separated by commas [default: `exact`, every heuristic, and `tied-cuts` where cuts are separate]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = method, help_heading = "Search")]
    pub methods: Option<Vec<methods::Method>>,
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub problem: ProblemArgs,

    /// Plan in JSON, as `solve --format json` writes it
    #[arg(help_heading = None::<&'static str>)]
    pub plan: PathBuf,

    /// No notes on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
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
}

/// `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Plan in JSON, as `solve --format json` writes it
    pub plan: PathBuf,

    /// Micro-batches to run [default: the plan's, else four a stage and at least eight]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    pub micro_batches: Option<u64>,

    /// Order in which the stages work [default: the plan's]
    #[arg(long)]
    pub schedule: Option<Schedule>,

    /// Micro-batches in flight on a stage, where transfers are overlapped
    #[arg(long, default_value = "hiding")]
    pub in_flight: InFlight,

    /// Device speeds over time, as CSV
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Multiply every task by a random factor between 1 - FRACTION and 1 + FRACTION
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub jitter: Option<f64>,

    /// Seed of the jitter
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Format of the result [default: by the extension of --output, else text]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<SimulationFormat>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// Formats of simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulationFormat {
    /// What came out, for people.
    Text,
    /// All of it, with every event, for programs.
    Json,
    /// The events, for tables.
    Csv,
    /// The timeline, as a picture.
    Svg,
}

/// `online`.
#[derive(Debug, Args)]
pub struct OnlineArgs {
    /// Scenario, TOML or JSON: network, devices, prices, budgets, and the processes that drive them
    pub scenario: PathBuf,

    /// Policies, separated by commas; `--help` lists them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = policy,
        default_value = "tentative,exact,myopic,static,even,proportional", long_help = policy_help())]
    pub policies: Vec<&'static Policy>,

    /// Slots to run [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = slots)]
    pub slots: Option<usize>,

    /// Seed of the processes [default: the scenario's]
    #[arg(long)]
    pub seed: Option<u64>,

    /// Weight of a ms of batch time against the budgets' queues [default: the scenario's]
    #[arg(long, value_name = "V", value_parser = positive)]
    pub time_weight: Option<f64>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Go on from the lines that are already in --output
    #[arg(long, requires = "output", help_heading = "Output")]
    pub resume: bool,

    /// No notes and no progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

fn policy(text: &str) -> Result<&'static Policy, String> {
    policies::find(text).ok_or_else(|| {
        let known: Vec<String> = POLICIES.iter().map(|policy| policy.name.to_owned()).collect();
        match crate::fault::closest(text, &known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected one of {}", known.join(", ")),
        }
    })
}

fn policy_help() -> String {
    let lines: Vec<String> = POLICIES
        .iter()
        .map(|p| format!("- {}: {}", p.name, p.summary))
        .collect();
    format!("Policies, separated by commas\n\n{}", lines.join("\n"))
}

fn slots(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(slots) if slots > 0 => Ok(slots),
        _ => Err("expected a number from 1".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("expected a number above 0, such as 2.5".into()),
    }
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

    /// Replace the cluster, as when the plan was made: a preset's name or a file
    #[arg(long, value_name = "FILE|PRESET")]
    pub cluster: Option<String>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// No notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
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
