//! What is varied, and what is known of every plan as it grows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::named_values::named_values;
use crate::model::network::Tensor;
use crate::model::options::{Cuts, MemoryLimit, PipelineOptions, Synchronization, WorkerMode};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::{Setting, Words, words};

named_values! {
    /// A number of the problem that is varied. The larger it is, the better for plans, but for tokens.
    Parameter {
        /// Bytes per second of the link.
        Bandwidth = "bandwidth",
        /// Bytes of memory a stage.
        Memory = "memory-limit",
        /// The most stages.
        Stages = "stages",
        /// Devices of the one kind.
        Devices = "devices",
        /// Tokens that plans have room for: the fewer, the better for plans.
        Tokens = "tokens",
    }
}

/// The most whole values that are asked one by one.
const MOST_APART: f64 = 1_000.0;

impl Parameter {
    /// Its option.
    pub fn setting(self) -> Setting {
        match self {
            Self::Bandwidth => setting::BANDWIDTH,
            Self::Memory => setting::MEMORY_LIMIT,
            Self::Stages => setting::STAGES,
            Self::Devices => setting::DEVICES,
            Self::Tokens => setting::TOKENS,
        }
    }

    /// Whether it is any real number, not a whole one.
    pub fn is_continuous(self) -> bool {
        match self {
            Self::Bandwidth => true,
            Self::Memory | Self::Stages | Self::Devices | Self::Tokens => false,
        }
    }

    /// The options with this value.
    pub fn set(self, options: &PipelineOptions, at: f64) -> PipelineOptions {
        let mut options = options.clone();
        match self {
            Self::Bandwidth => options.bandwidth_bytes_per_s = Some(at),
            Self::Memory => options.memory_limit = Some(MemoryLimit::Bytes(at as u64)),
            Self::Stages => options.stages = Some(at as usize),
            Self::Devices => options.devices = Some(at as usize),
            Self::Tokens => options.tokens = Some(at as u64),
        }
        options
    }

    /// Which of the values of a range are easier.
    pub(super) fn easier(self, [from, to]: [f64; 2]) -> Easier {
        match self {
            Self::Bandwidth | Self::Memory | Self::Stages | Self::Devices => Easier::Larger,
            Self::Tokens => Easier::Smaller { ends: from + to },
        }
    }
}

/// Which values of a range are easier for plans. A curve has a place for each value such that those further on are easier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Easier {
    /// The larger ones: they are places themselves.
    Larger,
    /// The smaller ones: places count from the other end.
    Smaller {
        /// Both ends together.
        ends: f64,
    },
}

impl Easier {
    /// The value at a place, and the place of a value.
    pub fn across(self, at: f64) -> f64 {
        match self {
            Self::Larger => at,
            Self::Smaller { ends } => ends - at,
        }
    }

    /// The values between two places, the smaller one first, and the places between two values.
    pub(super) fn between(self, [from, to]: [f64; 2]) -> [f64; 2] {
        match self {
            Self::Larger => [from, to],
            Self::Smaller { .. } => [self.across(to), self.across(from)],
        }
    }
}

/// What the problems of two values have to do with each other, in the order of their places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Nothing: every value is asked by itself.
    Apart,
    /// A plan of a value is one of every larger value, and takes no longer there.
    Falling,
    /// The same; and what a plan takes is, up to so many ns, the largest of sums of parts that stay and parts in proportion to one over the
    /// value.
    Linear {
        /// All that the rounding of transfers to whole ns may come to, in ns.
        slack_ns: f64,
    },
}

impl Law {
    /// What holds for the parameter from one end of the range to the other, in the problem that is asked.
    ///
    /// # Errors
    ///
    /// A parameter that changes nothing, or of which nothing is known.
    pub(super) fn new(
        parameter: Parameter,
        instance: &Instance,
        options: &PipelineOptions,
        [from, to]: [&Settings; 2],
    ) -> Result<Self, InputError> {
        let refuse = |found: Words, expected: Words| {
            Err(InputError::option(
                parameter.setting(),
                FaultKind::Contradiction { found, expected },
            ))
        };
        let has_times_of_runs = to.is_simulated() && to.communication.has_links();
        match parameter {
            Parameter::Bandwidth if !to.communication.takes_time() => refuse(
                "a range where transfers take no time".into(),
                words!("{} or `overlapped`", setting::COMMUNICATION.given("blocking")),
            ),
            Parameter::Bandwidth | Parameter::Memory | Parameter::Tokens if has_times_of_runs => refuse(
                "a range for simulated iterations with overlapped transfers, in which more micro-batches in flight change the order of work".into(),
                without_runs(to),
            ),
            Parameter::Bandwidth if !to.modal && from.ticks_per_ns != to.ticks_per_ns => refuse(
                "a range over which shares of a ns are rounded in two ways".into(),
                words!("a shorter range, or fewer {}", setting::MICRO_BATCHES),
            ),
            Parameter::Bandwidth => Ok(linear(instance, to)),
            Parameter::Memory | Parameter::Tokens => Ok(Self::Falling),
            Parameter::Stages | Parameter::Devices => {
                let is_fixed = parameter == Parameter::Devices && options.stages.is_some();
                // Chunks lie elsewhere, and more micro-batches are in flight, where a pipeline has more devices.
                let is_apart = to.all_stages || to.may_have_virtual_stages();
                let law = match is_apart && !is_fixed {
                    true => Self::Apart,
                    false => Self::Falling,
                };
                let values = (to.stages.max(to.devices.unwrap_or(0)) as f64) - 1.0;
                match law == Self::Apart && values > MOST_APART {
                    true => refuse(
                        words!("more than a thousand values with {} or {}", setting::ALL_STAGES, setting::VIRTUAL_STAGES),
                        "a shorter range".into(),
                    ),
                    false => Ok(law),
                }
            }
        }
    }
}

/// What may be asked in place of iterations that are simulated with overlapped transfers.
fn without_runs(settings: &Settings) -> Words {
    let period = setting::OBJECTIVE.given("period");
    let blocking = setting::COMMUNICATION.given("blocking");
    match settings.worker {
        WorkerMode::Concurrent => words!("{}", period),
        WorkerMode::Sequential if settings.knows_formula() => {
            words!("{} or `formula`, or {}", period, blocking)
        }
        WorkerMode::Sequential => words!("{}, or {}", period, blocking),
    }
}

/// See `formulations/what_if.md`: roundings count where what a plan takes is a sum and largest of whole transfers, each of which is charged
/// once a stage and way.
fn linear(instance: &Instance, settings: &Settings) -> Law {
    let is_plain = settings.cuts == Cuts::Tied
        && !settings.modal
        && !settings.has_virtual_stages()
        && settings.synchronization == Synchronization::None
        && settings.ticks_per_ns == 1;
    if !is_plain {
        return Law::Falling;
    }
    let tensors = &instance.network.tensors;
    // Forward and as a gradient, once in every stage that it touches.
    let in_a_stage = 2.0 * tensors.len() as f64;
    let touches = |tensor: &Tensor| 2.0 * (1 + tensor.consumers.len()) as f64;
    let in_all_stages: f64 = tensors.iter().map(touches).sum();
    let formula = settings.formula();
    let roundings = match settings.is_simulated() {
        true => settings.micro_batches.unwrap_or(1) as f64 * in_all_stages,
        false => {
            let once = if formula.counts_loads { in_all_stages } else { 0.0 };
            once + formula.weight as f64 * in_a_stage
        }
    };
    // One more for sums of doubles.
    Law::Linear {
        slack_ns: roundings + 1.0,
    }
}
