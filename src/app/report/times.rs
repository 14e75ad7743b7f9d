//! Of which kind the times are that a report speaks of.

use super::Style;
use super::format::wrap;
use super::text::LABEL;
use crate::problem::plan::{PlanTimes, TimesBasis};

/// A line of a report, or nothing where there is nothing to say.
pub(crate) fn times(times: &[PlanTimes], style: &Style) -> String {
    described(times).map_or_else(String::new, |words| {
        wrap(&format!("{:<LABEL$}{words}", "times"), style.width, LABEL) + "\n"
    })
}

/// Of which of three kinds the times of layers are, on each kind of device.
pub(super) fn described(times: &[PlanTimes]) -> Option<String> {
    let mut words: Vec<String> = times.iter().map(of_kind).collect();
    words.dedup();
    let source = times.iter().find_map(|times| times.source.as_ref());
    words.extend(source.map(|source| format!("cluster calibrated: {source}")));
    (!words.is_empty()).then(|| words.join("; "))
}

fn of_kind(times: &PlanTimes) -> String {
    let name = &times.device_kind;
    match (times.basis, times.efficiency) {
        (TimesBasis::Measured, _) => "measured, or what else the file gives".into(),
        (TimesBasis::Peak, Some(part)) if part < 1.0 => {
            format!("peak: rooflines at an assumed {part} of the rates of `{name}`")
        }
        (TimesBasis::Peak, _) => format!("peak: rooflines at the rates of `{name}`, which no kernel reaches"),
        (TimesBasis::Calibrated, Some(part)) => {
            format!("calibrated: rooflines at {part} of the rates of `{name}`")
        }
        (TimesBasis::Calibrated, None) => {
            format!("calibrated: rooflines at parts by operator of the rates of `{name}`")
        }
    }
}
