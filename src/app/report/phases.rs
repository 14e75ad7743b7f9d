//! What phases are called and how they are coloured in timelines.

use super::palette::Colors;
use crate::model::schedule::Phase;

/// A phase in words.
pub(super) fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::InputGradient => "gradient of the input",
        Phase::WeightGradient => "gradient of the weights",
    }
}

/// Its colours.
pub(super) fn colors(phase: Phase) -> Colors {
    match phase {
        Phase::Forward => Colors::forward(),
        Phase::Backward | Phase::InputGradient => Colors::backward(),
        Phase::WeightGradient => Colors::weight(),
    }
}
