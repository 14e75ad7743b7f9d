//! What can be wrong with a plan.

use crate::model::words::{Words, Writer};

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A field is not what the format asks for.
    #[error("{field}: found {found}, expected {expected}")]
    Field {
        /// The field.
        field: String,
        /// What it says.
        found: String,
        /// What it should say.
        expected: Words,
    },
    /// A layer that the network does not have.
    #[error("stage {stage}: layer `{layer}` is not in the network")]
    UnknownLayer {
        /// Stage that lists it.
        stage: usize,
        /// Its name.
        layer: String,
    },
    /// A layer placed twice or not at all.
    #[error("layer `{layer}`: its {pass} is placed {times} times, expected once")]
    Placement {
        /// The layer.
        layer: String,
        /// Forward or backward.
        pass: &'static str,
        /// How often it is placed.
        times: usize,
    },
    /// Forward and backward of a layer, or layers of one tie, on different stages.
    #[error("`{first}` and `{second}` share a stage by {reason}, found stages {stages:?}")]
    Apart {
        /// One layer.
        first: String,
        /// The other.
        second: String,
        /// Why they belong together.
        reason: &'static str,
        /// Where they lie.
        stages: [usize; 2],
    },
    /// A tensor that flows against the pipeline.
    #[error("`{from}` feeds `{to}` but lies {by} stages later (stage {stages:?})")]
    Order {
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
        /// Stages of both.
        stages: [usize; 2],
        /// How many stages too late.
        by: usize,
    },
    /// More stages than allowed, or an empty one where none may be.
    #[error("found {found} stages, expected {expected}")]
    StageCount {
        /// Stages of the plan.
        found: usize,
        /// What the problem asks for.
        expected: String,
    },
    /// A layer on a device kind that cannot run it.
    #[error("stage {stage}: layer `{layer}` has no time on `{kind}`")]
    CannotRun {
        /// The stage.
        stage: usize,
        /// The layer.
        layer: String,
        /// The kind.
        kind: String,
    },
    /// A device that is not there, or may not be used so.
    #[error("stage {stage}: device `{device}` {reason}")]
    Device {
        /// The stage.
        stage: usize,
        /// The device.
        device: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A phase with work that no resource of the stage serves.
    #[error("stage {stage}: {phase} propagation has work, but no part of a resource")]
    Unserved {
        /// The stage.
        stage: usize,
        /// Forward or backward.
        phase: &'static str,
    },
    /// A share that is missing, unknown, or not what the problem allows.
    #[error("stage {stage}: `{resource}` has the share {share}, which the problem does not allow")]
    Share {
        /// The stage.
        stage: usize,
        /// The resource.
        resource: String,
        /// Its share of forward propagation; NaN where there is none.
        share: f64,
    },
    /// A stage that is too full.
    #[error("stage {stage}: needs {bytes} bytes, {over} more than its device has")]
    Memory {
        /// The stage.
        stage: usize,
        /// What it needs.
        bytes: u128,
        /// How much too much.
        over: u128,
    },
    /// A stated number that is not the recomputed one.
    #[error("{field}: stated {stated}, recomputed {recomputed} (off by {})", stated - recomputed)]
    Stated {
        /// The field.
        field: String,
        /// What the plan says.
        stated: f64,
        /// What it is.
        recomputed: f64,
    },
    /// A claim about the proof that the numbers do not bear out.
    #[error("{0}")]
    Claim(String),
}

impl Violation {
    /// The same in words, with options as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        match self {
            Self::Field {
                field,
                found,
                expected,
            } => format!("{field}: found {found}, expected {}", expected.written(writer)),
            other => other.to_string(),
        }
    }

    /// The kind in a word, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Field { .. } => "field",
            Self::UnknownLayer { .. } => "unknown-layer",
            Self::Placement { .. } => "placement",
            Self::Apart { .. } => "apart",
            Self::Order { .. } => "order",
            Self::StageCount { .. } => "stage-count",
            Self::CannotRun { .. } => "cannot-run",
            Self::Device { .. } => "device",
            Self::Unserved { .. } => "unserved",
            Self::Share { .. } => "share",
            Self::Memory { .. } => "memory",
            Self::Stated { .. } => "stated",
            Self::Claim(_) => "claim",
        }
    }
}
