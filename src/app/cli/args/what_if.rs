//! `what-if`: options of the problem, some of which may be ranges.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::shared::{ClusterArgs, OutputArgs, SearchArgs, seconds};
use crate::model::options::{MemoryLimit, PipelineOptions};
use crate::model::quantity;
use crate::model::units;
use crate::solve::what_if::Parameter;

pub(super) const EXAMPLES: &str = "Examples:\n  stagecut what-if instances/googlenet.onnx --stages 4 --bandwidth 1GB/s..100GB/s\n  \
stagecut what-if instances/googlenet.onnx --stages 2..4 --bandwidth 1GB/s..100GB/s --output curves.svg\n  \
stagecut what-if instances/googlenet.onnx --stages 4 --memory-limit 100MB..1GB\n  \
stagecut what-if net.toml --devices 2..16 --format csv\n  \
stagecut what-if llama3.json --cluster cards.toml --tokens 1..40000\n\n\
One of `--bandwidth`, `--memory-limit`, `--stages`, `--devices` and `--tokens` is a range; `--stages` may be one beside a bandwidth, a memory or tokens, \
and is then a curve for each number. Breakpoints of memory, stages, devices and tokens are exact. Between the bandwidths at which the optimum is proved, bounds say \
how far the best known plan can be from it: see formulations/what_if.md.";

/// `what-if`.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// Native instance (JSON, TOML) or any importable file; the format is detected
    pub instance: PathBuf,

    #[command(flatten)]
    pub options: VariedOptions,

    #[command(flatten)]
    pub devices: ClusterArgs,

    /// How much longer than the optimum the best known plan may take anywhere in the range, as a part of that [default: 0.01 for bandwidths,
    /// else 0]
    #[arg(long, value_name = "PART", value_parser = tolerance, help_heading = "Search")]
    pub tolerance: Option<f64>,

    /// Seconds that the search at one value may take [default: an eighth of --time-limit, where there is one]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Search")]
    pub point_limit: Option<f64>,

    #[command(flatten)]
    pub search: SearchArgs,

    #[command(flatten)]
    pub output: OutputArgs<WhatIfFormat>,
}

/// Formats of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhatIfFormat {
    /// Sentences and tables, for people.
    Text,
    /// All of it, with every plan, for programs.
    Json,
    /// What is known at single values, for tables.
    Csv,
    /// The curves, as a picture.
    Svg,
}

/// Options of the problem, and those among them that are ranges.
#[derive(Clone, Debug, Default)]
pub struct VariedOptions {
    /// All that are no ranges.
    pub options: PipelineOptions,
    /// The ranges.
    pub ranges: Vec<Varied>,
}

/// A range of values of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Varied {
    /// The option.
    pub parameter: Parameter,
    /// The smallest value.
    pub from: f64,
    /// The largest value.
    pub to: f64,
}

/// A value, or values from one to another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values<T> {
    One(T),
    From([f64; 2]),
}

/// The options that may be ranges, by the names of their fields, with what stands for their values.
const VARIED: [(&str, &str); 5] = [
    ("stages", "N|FROM..TO"),
    ("devices", "N|FROM..TO"),
    ("bandwidth_bytes_per_s", "BYTES_PER_S|FROM..TO"),
    ("memory_limit", "BYTES|none|FROM..TO"),
    ("tokens", "N|FROM..TO"),
];

impl Varied {
    /// A range of the option of that name in files.
    ///
    /// # Errors
    ///
    /// What is expected instead.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let only =
            |range: Option<[f64; 2]>| range.ok_or_else(|| "expected a range, such as `1..8`".to_owned());
        let (parameter, range) = match name {
            "stages" => (Parameter::Stages, only(counts(text)?.range())?),
            "devices" => (Parameter::Devices, only(counts(text)?.range())?),
            "bandwidth_bytes_per_s" => (Parameter::Bandwidth, only(bandwidths(text)?.range())?),
            "memory_limit" => (Parameter::Memory, only(sizes(text)?.range())?),
            "tokens" => (Parameter::Tokens, only(counts(text)?.range())?),
            _ => return Err("only stages, devices, bandwidth, memory and tokens may be a range".into()),
        };
        let [from, to] = range;
        Ok(Self { parameter, from, to })
    }
}

impl<T> Values<T> {
    fn range(self) -> Option<[f64; 2]> {
        match self {
            Self::One(_) => None,
            Self::From(range) => Some(range),
        }
    }
}

impl Args for VariedOptions {
    fn augment_args(command: Command) -> Command {
        let mut command = PipelineOptions::augment_args(command);
        for (name, shown) in VARIED {
            let is_size = name == "memory_limit";
            command = command.mut_arg(name, |arg: Arg| {
                let arg = arg.value_name(shown);
                match name {
                    "bandwidth_bytes_per_s" => arg.value_parser(bandwidths),
                    _ if is_size => arg.value_parser(sizes),
                    _ => arg.value_parser(counts),
                }
            });
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for VariedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let stages = matches.remove_one::<Values<usize>>("stages");
        let devices = matches.remove_one::<Values<usize>>("devices");
        let bandwidth = matches.remove_one::<Values<f64>>("bandwidth_bytes_per_s");
        let memory = matches.remove_one::<Values<MemoryLimit>>("memory_limit");
        let tokens = matches.remove_one::<Values<usize>>("tokens");
        let mut varied = Self {
            options: PipelineOptions::from_arg_matches_mut(matches)?,
            ranges: Vec::new(),
        };
        varied.options.stages = varied.take(Parameter::Stages, stages);
        varied.options.devices = varied.take(Parameter::Devices, devices);
        varied.options.bandwidth_bytes_per_s = varied.take(Parameter::Bandwidth, bandwidth);
        varied.options.memory_limit = varied.take(Parameter::Memory, memory);
        varied.options.tokens = varied.take(Parameter::Tokens, tokens).map(|tokens| tokens as u64);
        Ok(varied)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl VariedOptions {
    /// A value for the options; a range goes to the ranges.
    fn take<T>(&mut self, parameter: Parameter, values: Option<Values<T>>) -> Option<T> {
        match values? {
            Values::One(value) => Some(value),
            Values::From([from, to]) => {
                self.ranges.push(Varied { parameter, from, to });
                None
            }
        }
    }
}

/// A value, or a range of them as numbers.
fn values<T>(
    text: &str,
    one: impl Fn(&str) -> Result<T, String>,
    number: impl Fn(&str) -> Result<f64, String>,
) -> Result<Values<T>, String> {
    let Some((from, to)) = text.split_once("..") else {
        return one(text).map(Values::One);
    };
    let [from, to] = [number(from)?, number(to)?];
    match from.is_finite() && to.is_finite() && 0.0 < from && from < to {
        true => Ok(Values::From([from, to])),
        false => Err("expected a range from a value above 0 to a larger one, such as `1..8`".into()),
    }
}

fn counts(text: &str) -> Result<Values<usize>, String> {
    let count = |text: &str| {
        usize::from_str(text).map_err(|_| "expected a whole number, or a range such as `1..8`".to_owned())
    };
    values(text, count, |text| {
        let many = count(text)?;
        // Both ends together are exact.
        units::whole(2.0 * many as f64)
            .map(|twice| twice as f64 / 2.0)
            .ok_or_else(|| "expected a smaller number".to_owned())
    })
}

fn bandwidths(text: &str) -> Result<Values<f64>, String> {
    values(text, quantity::bytes_per_s, quantity::bytes_per_s)
}

fn sizes(text: &str) -> Result<Values<MemoryLimit>, String> {
    values(text, MemoryLimit::from_str, |text| {
        let bytes = units::whole(quantity::bytes(text)?);
        bytes
            .map(|bytes| bytes as f64)
            .ok_or_else(|| "expected between 0 and 2^53 bytes".to_owned())
    })
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("expected a part from 0 to 1, such as 0.01".into()),
    }
}
