//! `schedule`: what is scheduled, and what is asked.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::shared::seconds;
use crate::exact::best_schedule::answer::Objective;
use crate::model::efficiency::Efficiency;
use crate::model::options::{ChunkSizes, Communication, MemoryLimit};
use crate::schedule::Placement;
use crate::schedule::rules::{self, RULES, Rule};

pub(in crate::app::cli) fn help() -> String {
    let lines: Vec<String> = RULES
        .iter()
        .map(|rule| format!("  {:<11}  {}", rule.name, rule.summary))
        .collect();
    format!(
        "Published rules that an iteration is held against, p devices and M micro-batches:\n{}\n\n\
Operations are written as chunk, phase and micro-batch, from 0: F forward, B backward, or I and W for the gradients of \
input and weights. The CSV is a line a device, as torch.distributed.pipelining and torchtitan read it.\n\n\
Examples:\n  stagecut schedule --instance gpt2.json --devices 4 --micro-batches 16 --weight-share 0.5 --plan-output plan.json\n  \
stagecut schedule plan.json --micro-batches 16 --weight-share 0.5 --room 4 --output timeline.svg\n  \
stagecut schedule plan.json --devices 4 --placement v --weight-share 0.5\n  \
stagecut schedule --devices 4 --placement v --forward 1 --backward 1 --weight 1\n  \
stagecut schedule --devices 4 --forward 1 --backward 1 --weight 1 --micro-batches 8 --room 4 --output order.csv\n  \
stagecut schedule plan.json --devices 4 --rule interleaved --micro-batches 8 --output order.csv\n  \
stagecut schedule plan.json --devices 4 --order order.csv\n  \
stagecut schedule read.json --instance prompt.json --chunks choose --output sized.json",
        lines.join("\n")
    )
}

/// `schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Plan in JSON, as `solve --format json` writes it: every stage is a chunk [default: the best cut of --instance, or even chunks by
    /// --forward and --backward]
    pub plan: Option<PathBuf>,

    #[command(flatten)]
    pub chunks: ChunkArgs,

    /// The plan's instance: activations are then counted in bytes, and devices have the room that their memory leaves. Without a plan, the
    /// instance to cut: cut and order are then chosen together, for the shortest iteration
    #[arg(long, value_name = "FILE", help_heading = "Chunks")]
    pub instance: Option<PathBuf>,

    /// Replace the cluster of the instance: a preset's name or a file; a plan carries its own
    #[arg(
        long,
        value_name = "FILE|PRESET",
        requires = "instance",
        help_heading = "Chunks"
    )]
    pub cluster: Option<String>,

    /// Part of the devices' peak rates that layers of an instance to cut reach, such as 0.5, or `measured` for what the cluster says was measured
    #[arg(
        long,
        value_name = "PART|measured",
        requires = "instance",
        conflicts_with = "plan",
        help_heading = "Chunks"
    )]
    pub efficiency: Option<Efficiency>,

    #[command(flatten)]
    pub cut: CutArgs,

    #[command(flatten)]
    pub asked: AskedArgs,

    #[command(flatten)]
    pub given: GivenArgs,

    /// Instead of an order, the size of the chunks of a prompt that has it read soonest by the stages of the plan: `choose` of powers of two,
    /// or of sizes such as `choose:512,1024`
    #[arg(
        long = "chunks",
        value_name = "LIST|choose",
        requires_all = ["plan", "instance"],
        conflicts_with_all = ["objective", "micro_batches", "room", "period", "slot", "devices", "placement", "weight_share", "rule", "order"],
        help_heading = "Prompt in chunks"
    )]
    pub prompt_chunks: Option<ChunkSizes>,

    /// Tokens of the prompt [default: as the plan says]
    #[arg(
        long,
        value_name = "N",
        requires = "prompt_chunks",
        help_heading = "Prompt in chunks"
    )]
    pub prompt: Option<u64>,

    /// Format of the result [default: by the extension of --output, else text]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<ScheduleFormat>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// How an instance is cut where no plan is given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cut, with --instance and without a plan")]
pub struct CutArgs {
    /// How transfers between stages cost time [default: as the instance says, else blocking]
    #[arg(long, ignore_case = true, requires = "instance", conflicts_with = "plan")]
    pub communication: Option<Communication>,

    /// Memory of a device, such as 16GB, or `none` [default: as the instance says, else that of the device kind]
    #[arg(
        long,
        value_name = "BYTES|none",
        requires = "instance",
        conflicts_with_all = ["plan", "room"]
    )]
    pub memory_limit: Option<MemoryLimit>,

    /// Write the plan of the cut there, as JSON
    #[arg(long, value_name = "FILE", requires = "instance", conflicts_with = "plan")]
    pub plan_output: Option<PathBuf>,
}

/// The chunks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Chunks")]
pub struct ChunkArgs {
    /// Devices, which share the chunks evenly [default: one for every stage of the plan, or those of its virtual stages]
    #[arg(long, value_name = "P", required_unless_present = "plan", value_parser = clap::value_parser!(u16).range(1..))]
    pub devices: Option<u16>,

    /// How chunks lie on devices that hold several [default: loop, or as in a plan with virtual stages]
    #[arg(long, value_enum)]
    pub placement: Option<Placement>,

    /// Chunks of every device [default: 2 with `--placement v`, else 1]
    #[arg(long, value_name = "V", conflicts_with = "plan", value_parser = clap::value_parser!(u16).range(1..))]
    pub virtual_stages: Option<u16>,

    /// Forward pass of a chunk in ms
    #[arg(
        long,
        value_name = "MS",
        required_unless_present_any = ["plan", "instance"],
        // What needs an instance is named here too: clap asks for nothing that `forward` rules out.
        conflicts_with_all = ["plan", "instance", "cluster", "efficiency", "communication", "memory_limit", "plan_output"]
    )]
    pub forward: Option<f64>,

    /// Backward pass of a chunk in ms; without the gradients of weights where `--weight` says those
    #[arg(
        long,
        value_name = "MS",
        required_unless_present_any = ["plan", "instance"],
        conflicts_with_all = ["plan", "instance"]
    )]
    pub backward: Option<f64>,

    /// Gradients of a chunk's weights in ms, which may then run apart from the rest of the backward pass
    #[arg(long, value_name = "MS", conflicts_with_all = ["plan", "instance"])]
    pub weight: Option<f64>,

    /// From a chunk to one on another device, in ms
    #[arg(long, value_name = "MS", conflicts_with_all = ["plan", "instance"])]
    pub transfer: Option<f64>,

    /// Part of every backward pass of the plan or instance that is gradients of weights, which may then run apart from the rest [default: what
    /// the plan says of each stage, or the instance of each layer, else whole backward passes]
    #[arg(long, value_name = "PART", conflicts_with = "forward", value_parser = part)]
    pub weight_share: Option<f64>,
}

/// What is asked of the schedule.
#[derive(Debug, Args)]
#[command(next_help_heading = "Question")]
pub struct AskedArgs {
    /// What to minimise [default: `iteration` with `--micro-batches`, else `peak`]
    #[arg(long, value_enum)]
    pub objective: Option<Objective>,

    /// Micro-batches of an iteration [default: the plan's, else four a device and at least eight]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    pub micro_batches: Option<u32>,

    /// The most activations that a device may hold: each chunk has one a micro-batch, from its forward pass to the end of its backward pass
    #[arg(long, value_name = "N")]
    pub room: Option<u64>,

    /// Period of the pattern in ms, for `--objective peak` [default: the least there is]
    #[arg(long, value_name = "MS")]
    pub period: Option<f64>,

    /// Round times of patterns up to multiples of this, in ms [default: what loses least with up to 48 slots a period]
    #[arg(long, value_name = "MS")]
    pub slot: Option<f64>,

    /// Stop after so many seconds with the best schedule so far
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub time_limit: f64,

    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Flags that say how to look for an order, and nothing of one that is there.
const SEARCH: [&str; 5] = ["objective", "period", "slot", "time_limit", "seed"];

/// An order that is there already.
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of the best order")]
pub struct GivenArgs {
    /// Run the order of a published rule, and hold it against a bound on all orders
    #[arg(long, value_name = "NAME", value_parser = rules(), conflicts_with_all = SEARCH)]
    pub rule: Option<&'static Rule>,

    /// Run the order of a file, a line a device as `--format csv` writes it, likewise; faults are named
    #[arg(long, value_name = "FILE", conflicts_with = "rule", conflicts_with_all = SEARCH)]
    pub order: Option<PathBuf>,
}

/// Formats of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleFormat {
    /// What came out, for people.
    Text,
    /// All of it, with every operation, for programs.
    Json,
    /// The order, a line a device, for PyTorch.
    Csv,
    /// The timeline, as a picture.
    Svg,
}

fn rules() -> impl TypedValueParser<Value = &'static Rule> {
    let names = PossibleValuesParser::new(RULES.iter().map(|rule| rule.name));
    names.map(|name| rules::find(&name).expect("one of the rules"))
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("expected a part from 0 to 1, such as 0.5".into()),
    }
}
