//! Commands that run a plan: simulation, and planning as time goes on.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::shared::{ReportFormat, seconds, unknown};
use crate::model::options::Schedule;
use crate::online::policies::{self, POLICIES, Policy};
use crate::schedule::rules::{RULES, Rule};
use crate::schedule::simulate::InFlight;

pub(super) const SIMULATE_EXAMPLES: &str = "Examples:\n  stagecut simulate plan.json\n  \
stagecut simulate plan.json --micro-batches 8 --schedule gpipe --output timeline.svg\n  \
stagecut simulate plan.json --schedule zb-h1 --output timeline.svg\n  \
stagecut simulate plan.json --jitter 0.1 --seed 7 --format json\n\n\
A trace has the columns time_ms,device,multiplier: from that time on, the device's work takes so many times as long.\n\
zb-h1 and zb-h2 need a plan that says what gradients of weights take, \
and with --instance stages that have memory for what is in flight.\n\
Times are the plan's; the instance is not needed, and refuses what is no plan of it where it is given.";

pub(super) const ONLINE_EXAMPLES: &str = "Examples:\n  stagecut online instances/online/spot.toml --slots 20\n  \
stagecut online instances/online/stragglers.toml --policies tentative,static --output run.jsonl\n  \
stagecut online instances/online/stragglers.toml --policies tentative,static --output run.jsonl --resume\n\n\
A line of JSON for each slot as it is decided, then a summary of each policy, then what no policy can beat.";

pub(super) const PLACE_EXAMPLES: &str = "Examples:\n  stagecut place machines.json\n  \
stagecut place machines.json --time-limit 60 --output placement.json\n\n\
Machines hold runs of layers, which may overlap; tokens go from a machine to one that starts where it ends. \
The most that passes is a maximum flow. docs/serving.md describes the file.";

/// `place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Layers, machines by kind, and tokens a second by the number of layers held, in JSON or TOML
    pub problem: PathBuf,

    /// How to look for placements
    #[arg(long, value_enum, default_value_t = PlaceMethod::Sweep, help_heading = "Search")]
    pub method: PlaceMethod,

    /// Stop after so many seconds with the best placement so far
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Search")]
    pub time_limit: Option<f64>,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the result [default: by the extension of --output, else text]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<ReportFormat>,

    /// No notes and no progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Methods of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlaceMethod {
    /// Boundary by boundary, with what may have passed by then.
    Sweep,
    /// The mixed-integer program alone.
    Program,
}

/// `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Plan in JSON, as `solve --format json` writes it
    pub plan: PathBuf,

    /// Refuse a plan that is not one of this instance
    #[arg(long, value_name = "FILE")]
    pub instance: Option<PathBuf>,

    /// The cluster that the plan was made on, where it does not carry it: a preset's name or a file
    #[arg(long, value_name = "FILE|PRESET", requires = "instance")]
    pub cluster: Option<String>,

    /// Micro-batches to run [default: the plan's, else four a stage and at least eight]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    pub micro_batches: Option<u64>,

    /// Order in which the stages work [default: the plan's]
    #[arg(long, value_parser = order())]
    pub schedule: Option<AskedOrder>,

    /// Micro-batches in flight on a stage, where transfers are overlapped [default: standard where the plan says how many an iteration has, or a stage has no memory for more; else hiding]
    #[arg(long)]
    pub in_flight: Option<InFlight>,

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

/// An order in which stages work.
#[derive(Clone, Copy, Debug)]
pub enum AskedOrder {
    /// That of a schedule.
    Schedule(Schedule),
    /// That of a published rule.
    Rule(&'static Rule),
}

/// Schedules, and the rules for one chunk a device that are none of them.
fn order() -> impl TypedValueParser<Value = AskedOrder> {
    let schedules = Schedule::value_variants().iter();
    let schedules = schedules.filter_map(|&schedule| {
        let value = schedule.to_possible_value()?;
        Some((value.get_name().to_owned(), value, AskedOrder::Schedule(schedule)))
    });
    let rules = RULES
        .iter()
        .filter(|rule| rule.splits && rule.is_for_plain_pipelines());
    let rules = rules.map(|rule| {
        let value = PossibleValue::new(rule.name).help(rule.summary);
        (rule.name.to_owned(), value, AskedOrder::Rule(rule))
    });
    let known: Vec<(String, PossibleValue, AskedOrder)> = schedules.chain(rules).collect();
    let values: Vec<PossibleValue> = known.iter().map(|(_, value, _)| value.clone()).collect();
    PossibleValuesParser::new(values).try_map(move |name| {
        let found = known.iter().find(|(known, ..)| *known == name);
        found.map(|&(.., order)| order).ok_or("no such order")
    })
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

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err("expected a fraction from 0 to 1, such as 0.1".into()),
    }
}

/// `online`.
#[derive(Debug, Args)]
pub struct OnlineArgs {
    /// Scenario, TOML or JSON: network, devices, prices, budgets, and the processes that drive them
    pub scenario: PathBuf,

    /// Policies, separated by commas; `--help` lists them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = known_policy,
        default_value = "tentative,exact,myopic,static,even,proportional,pipedream", long_help = policy_help())]
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

fn known_policy(text: &str) -> Result<&'static Policy, String> {
    policies::find(text).ok_or_else(|| unknown(text, POLICIES.iter().map(|policy| policy.name)))
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
