//! `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shared::{ClusterArgs, ReportFormat, SearchArgs};
use crate::input::generate::transformer::{AT_LEAST_ONE, Attention};
use crate::model::options::PipelineOptions;
use crate::solve::global_batch::TIME_LIMIT;

pub(super) const EXAMPLES: &str = "Examples:\n  \
stagecut plan config.json --cluster h100-nodes --devices 512 --global-batch 1024 --sequence 4096 --for megatron\n  \
stagecut plan config.json --cluster h100-nodes --devices 64 --global-batch 256 --micro-batch 1,2 --tensor 8 --efficiency 0.5\n\n\
What is not given is chosen: the size of micro-batches, tensor degree, replicas, recomputation, and chunks of devices where `--for` names \
who runs them. Replicas share out the optimizer (`--optimizer-sharding none` has each keep all of it), training keeps mixed precision, and tensor groups \
split by sequence what they do not split by width.";

/// A configuration has no cluster to replace.
const CLUSTER: &str = "Devices and links: a preset's name or a file [default: a100-bf16]";

/// `plan`.
#[derive(Debug, Args)]
#[command(mut_arg("cluster", |arg| arg.help(CLUSTER)))]
pub struct PlanArgs {
    /// `config.json` of a model, as Hugging Face has it
    pub config: PathBuf,

    /// Sequences of an iteration, all replicas together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE), help_heading = "Model")]
    pub global_batch: u32,

    /// Tokens of a sequence [default: 4096, or as many as the model has positions for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE), help_heading = "Model")]
    pub sequence: Option<u32>,

    /// Sequences of a micro-batch, or sizes to choose from, separated by commas [default: 1, 2, 4 and so on, while they fit]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE), help_heading = "Model")]
    pub micro_batch: Option<Vec<u32>>,

    /// How attention is computed [default: flash]
    #[arg(long, help_heading = "Model")]
    pub attention: Option<Attention>,

    /// Layers that predict further tokens, of those that the configuration has, with their part of the head [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32), help_heading = "Model")]
    pub mtp: Option<u32>,

    #[command(flatten)]
    pub options: PipelineOptions,

    #[command(flatten)]
    pub devices: ClusterArgs,

    /// Write there instead of to stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the result [default: by the extension of --output, else text]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<ReportFormat>,

    /// Write the plan there, as `solve --format json` does, for `check`, `simulate` and `export`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plan_output: Option<PathBuf>,

    /// Write the instance there that it is a plan of: the model with micro-batches of this size
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub instance_output: Option<PathBuf>,

    /// No notes and no progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    #[command(flatten)]
    pub search: SearchArgs,
}

impl PlanArgs {
    /// How long all of it may take.
    pub fn time_limit(&self) -> Duration {
        self.search.time_limit.map_or(TIME_LIMIT, Duration::from_secs_f64)
    }
}
