//! The layers of a stage in few words: ranges of names in a topological order, that of the file where it is one.

use std::collections::HashMap;

use super::format::{shorten, width};
use super::layout::topological;
use crate::model::instance::Instance;
use crate::problem::plan::{Plan, PlanStage};

/// Positions of layers among those of their phase, so that layers left out of a phase do not break a range.
pub(super) struct Ranges<'a> {
    forward: HashMap<&'a str, usize>,
    backward: HashMap<&'a str, usize>,
}

/// Layers that follow each other.
struct Range<'a> {
    first: &'a str,
    last: &'a str,
    layers: usize,
}

impl<'a> Ranges<'a> {
    /// Numbers the layers of a plan: of those whose producers all have a number, the first in the file comes next.
    pub(super) fn new(instance: &'a Instance, plan: &Plan) -> Self {
        let network = &instance.network;
        let (mut above, mut below) = (
            vec![Vec::new(); network.layers.len()],
            vec![Vec::new(); network.layers.len()],
        );
        for tensor in &network.tensors {
            for &to in &tensor.consumers {
                above[to].push(tensor.producer);
                below[tensor.producer].push(to);
            }
        }
        let order = topological(&above, &below);
        let numbered = |phase: fn(&PlanStage) -> &Vec<String>| {
            let planned: std::collections::HashSet<&str> =
                plan.stages.iter().flat_map(phase).map(String::as_str).collect();
            let ids = order.iter().map(|&at| network.layers[at].id.as_str());
            let kept = ids.filter(|id| planned.contains(id));
            kept.enumerate().map(|(at, id)| (id, at)).collect()
        };
        Self {
            forward: numbered(|stage| &stage.forward),
            backward: numbered(|stage| &stage.backward),
        }
    }

    /// Position of a layer among those of its phase.
    pub(super) fn position(&self, id: &str, backward: bool) -> Option<usize> {
        let phase = if backward { &self.backward } else { &self.forward };
        phase.get(id).copied()
    }

    /// Whether the phases of a stage have to be told apart: some phase has layers that the other does not have.
    pub(super) fn differ(&self, stage: &PlanStage) -> bool {
        // In inference no stage has backward layers.
        !self.backward.is_empty() && stage.backward != stage.forward
    }

    /// The layers of a stage in at most `columns` columns, such as `conv1 .. pool1 (3), conv4, +5 more`.
    ///
    /// Forward and backward layers are told apart where they are not the same.
    pub(super) fn text(&self, stage: &PlanStage, columns: usize) -> String {
        let forward = ranges(&self.forward, &stage.forward);
        let backward = ranges(&self.backward, &stage.backward);
        const FORWARD: &str = "F: ";
        const BACKWARD: &str = "B: ";
        const BETWEEN: &str = "; ";
        let alone = |label: &str, ranges: &[Range]| {
            let room = columns.saturating_sub(label.len());
            format!("{label}{}", line(ranges, room))
        };
        if !self.differ(stage) {
            return line(&forward, columns);
        }
        if backward.is_empty() {
            return alone(FORWARD, &forward);
        }
        if forward.is_empty() {
            return alone(BACKWARD, &backward);
        }
        let room = columns.saturating_sub(FORWARD.len() + BETWEEN.len() + BACKWARD.len());
        // Each half may use what the other leaves of the room.
        let needs = |ranges: &[Range]| width(&line(ranges, usize::MAX));
        let forward_room = (room / 2).max(room.saturating_sub(needs(&backward)));
        let forward = line(&forward, forward_room);
        let backward = line(&backward, room.saturating_sub(width(&forward)));
        format!("{FORWARD}{forward}{BETWEEN}{BACKWARD}{backward}")
    }
}

/// Maximal runs of consecutive positions; a layer that the instance does not have is a range of its own.
fn ranges<'a>(position: &HashMap<&str, usize>, ids: &'a [String]) -> Vec<Range<'a>> {
    let at = |id: &str| position.get(id).copied();
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_by_key(|id| at(id).unwrap_or(usize::MAX));
    let mut ranges: Vec<Range> = Vec::new();
    for id in sorted {
        match ranges.last_mut() {
            Some(range) if at(id).is_some() && at(id) == at(range.last).map(|last| last + 1) => {
                range.last = id;
                range.layers += 1;
            }
            _ => ranges.push(Range {
                first: id,
                last: id,
                layers: 1,
            }),
        }
    }
    ranges
}

/// As many ranges as fit, and how many layers are left out.
fn line(ranges: &[Range], columns: usize) -> String {
    let layers: usize = ranges.iter().map(|range| range.layers).sum();
    let mut best = String::new();
    let mut text = String::new();
    let mut shown = 0;
    for range in ranges {
        if shown > 0 {
            text.push_str(", ");
        }
        text.push_str(&range.text(usize::MAX));
        shown += range.layers;
        let rest = if shown < layers {
            format!(", +{} more", layers - shown)
        } else {
            String::new()
        };
        if width(&text) + width(&rest) <= columns {
            best = format!("{text}{rest}");
        }
    }
    match ranges.first() {
        Some(first) if best.is_empty() => {
            let rest = match layers - first.layers {
                0 => String::new(),
                more => format!(", +{more} more"),
            };
            let room = columns.saturating_sub(width(&rest));
            shorten(&format!("{}{rest}", first.text(room)), columns)
        }
        _ => best,
    }
}

impl Range<'_> {
    /// `first .. last (n)`, or the one name; names are shortened alike to fit.
    fn text(&self, columns: usize) -> String {
        if self.layers == 1 {
            return shorten(self.first, columns);
        }
        let count = format!(" ({})", self.layers);
        const TO: &str = " .. ";
        let names = columns.saturating_sub(TO.len() + count.len());
        let first = shorten(
            self.first,
            (names / 2).max(names.saturating_sub(width(self.last))),
        );
        let last = shorten(self.last, names.saturating_sub(width(&first)));
        format!("{first}{TO}{last}{count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ids: &[&str], columns: usize) -> String {
        let order = [
            "a",
            "b",
            "c",
            "d",
            "e",
            "f",
            "a_very_long_name",
            "another_long_name",
        ];
        let position = order.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
        line(&ranges(&position, &ids), columns)
    }

    #[test]
    fn consecutive_layers_are_one_range() {
        assert_eq!(shown(&["a", "b", "c", "e"], 80), "a .. c (3), e");
        assert_eq!(shown(&["f", "a"], 80), "a, f");
        assert_eq!(shown(&["stranger", "a"], 80), "a, stranger");
        assert_eq!(shown(&[], 80), "");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(shown(&["a", "c", "e", "a_very_long_name"], 14), "a, c, +2 more");
        assert_eq!(
            shown(&["a_very_long_name", "another_long_name"], 24),
            "a_ve…ame .. anot…ame (2)"
        );
    }
}
