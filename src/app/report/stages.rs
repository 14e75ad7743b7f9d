//! The table of a plan's stages, fitted to the terminal.

use std::collections::HashMap;

use anstyle::{AnsiColor, Style as Ink};

use super::Style;
use super::format::{Digits, bytes, devices, shorten, width};
use super::ranges::Ranges;
use super::table::{Column, GAP, draw, table_width};
use super::virtual_stages;
use crate::model::instance::Instance;
use crate::model::options::Mode;
use crate::problem::plan::{Plan, PlanStage};

/// What a table shows. Tried from the first to the last: what fits the terminal is taken.
struct Fit {
    /// Characters of the longest bar; 0 for none.
    bar: usize,
    /// Whether forward, backward and communication times have columns.
    parts: bool,
    /// Least characters for a list of layers beside the numbers; `None` puts them on a line of their own.
    layers: Option<usize>,
}

#[rustfmt::skip]
const FITS: [Fit; 5] = [
    Fit { bar: 10, parts: true, layers: Some(28) },
    Fit { bar: 5, parts: true, layers: Some(24) },
    Fit { bar: 10, parts: true, layers: None },
    Fit { bar: 0, parts: true, layers: None },
    Fit { bar: 0, parts: false, layers: None },
];

/// Layers on a line of their own stand this far to the right, under the devices.
const INDENT: usize = 7;

/// The table, a row a stage, or nothing without stages.
pub(super) fn table(instance: &Instance, plan: &Plan, digits: Digits, style: &Style) -> String {
    let (ranges, busy) = (Ranges::new(instance, plan), Busy::new(plan));
    let fixed = |fit: &Fit| table_width(&numbers(plan, &busy, digits, fit));
    let lists = 1 + usize::from(plan.stages.iter().any(|stage| ranges.differ(stage)));
    let needed = |fit: &Fit| fixed(fit) + fit.layers.map_or(0, |least| lists * least + GAP);
    let last = &FITS[FITS.len() - 1];
    let fit = FITS.iter().find(|fit| needed(fit) <= style.width).unwrap_or(last);
    let mut columns = numbers(plan, &busy, digits, fit);
    if fit.layers.is_some() {
        let room = style.width - fixed(fit) - GAP;
        let names = plan.stages.iter().map(|stage| ranges.text(stage, room)).collect();
        columns.insert(2, Column::words("layers", names));
    }
    let below = |row: usize| {
        let room = style.width.saturating_sub(INDENT);
        let text = ranges.text(&plan.stages[row], room);
        fit.layers.is_none().then(|| format!("{:INDENT$}{text}", ""))
    };
    let ink = |row: usize| match busy.is_most(row) {
        true => Ink::new().bold().fg_color(Some(AnsiColor::Yellow.into())),
        false => Ink::new(),
    };
    draw(&columns, style.color, below, ink)
}

/// For how long each stage holds up the pipeline, in ms: its work and transfers, or its busier link where transfers are overlapped.
/// Blocking transfers are part of the load, so that there the load is always the larger. Of a chunk of a device that has several, its device's.
pub(super) struct Busy {
    by_stage_ms: Vec<f64>,
    most_ms: f64,
}

impl Busy {
    /// Of all stages of a plan, in their order.
    pub(super) fn new(plan: &Plan) -> Self {
        let by_stage_ms: Vec<f64> = match virtual_stages::is_asked(plan) {
            true => {
                let devices = virtual_stages::by_device(plan);
                let known: HashMap<_, _> = (devices.iter())
                    .map(|device| (device.name, device.busy_ms))
                    .collect();
                plan.stages
                    .iter()
                    .map(|stage| known[stage.devices.as_slice()])
                    .collect()
            }
            false => {
                let busy = |stage: &PlanStage| stage.load_ms.max(stage.communication_ms);
                plan.stages.iter().map(busy).collect()
            }
        };
        let most_ms = by_stage_ms.iter().copied().fold(0.0, f64::max);
        Self { by_stage_ms, most_ms }
    }

    /// How busy a stage is, as a part of the busiest.
    pub(super) fn share(&self, at: usize) -> f64 {
        match self.most_ms {
            0.0 => 1.0,
            most => self.by_stage_ms[at] / most,
        }
    }

    /// Whether no stage is busier. Equal times are equal numbers, for all come from whole nanoseconds, also in sums as they are rounded.
    pub(super) fn is_most(&self, at: usize) -> bool {
        self.by_stage_ms[at] == self.most_ms
    }
}

/// All columns but the layers.
fn numbers(plan: &Plan, busy: &Busy, digits: Digits, fit: &Fit) -> Vec<Column> {
    /// More characters than this of the devices push out what matters more.
    const MOST_OF_DEVICES: usize = 24;
    let cells = |cell: &dyn Fn(&PlanStage) -> String| plan.stages.iter().map(cell).collect::<Vec<_>>();
    let times = |heading, time: fn(&PlanStage) -> f64| {
        Column::numbers(heading, "ms", cells(&|stage| digits.ms(time(stage))))
    };
    let every = |cell: &dyn Fn(usize) -> String| (0..plan.stages.len()).map(cell).collect::<Vec<_>>();
    let index = every(&|at| match busy.is_most(at) {
        true => format!("> {}", plan.stages[at].index),
        false => plan.stages[at].index.to_string(),
    });
    let device = cells(&|stage| shorten(&devices(&stage.devices), MOST_OF_DEVICES));
    let mut columns = vec![
        Column::numbers("stage", "", index),
        Column::words("device", device),
    ];
    if fit.parts {
        columns.push(times("forward", |stage| stage.forward_ms));
        if plan.problem.mode.is_none_or(Mode::trains) {
            columns.push(times("backward", |stage| stage.backward_ms));
        }
        columns.push(times("transfers", |stage| stage.communication_ms));
    }
    columns.push(times("load", |stage| stage.load_ms));
    columns.push(Column::numbers(
        "memory",
        "",
        cells(&|stage| bytes(stage.memory_bytes)),
    ));
    columns.push(Column::numbers(
        "share",
        "%",
        every(&|at| format!("{:.1}", 100.0 * busy.share(at))),
    ));
    if fit.bar > 0 {
        let bars = every(&|at| bar(busy.share(at), fit.bar));
        columns.push(Column::words("", bars));
    }
    columns
}

/// A bar of at most `columns` characters, to an eighth of one.
fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * columns as f64).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    debug_assert!(width(&bar) <= columns);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_exact_to_an_eighth() {
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!(bar(0.0, 3), "");
    }
}
