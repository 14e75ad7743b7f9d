//! Where a plan cuts, in words: the first and the last layer of every stage with their operators, and the tensors that come
//! into a stage which is no run of layers.

use std::collections::HashSet;

use super::format::{count, shorten};
use super::ranges::Ranges;
use crate::model::instance::Instance;
use crate::model::network::{Layer, Tied};
use crate::problem::plan::{Plan, PlanStage};

/// Characters of a name; the rest of a longer one is left out.
const LONGEST_NAME: usize = 28;

/// Tensors that are named for a stage; the rest are counted.
const MOST_TENSORS: usize = 4;

/// First and last layer of every stage in a topological order, or nothing where nothing is cut and no tie is why.
pub(super) fn cut_points(instance: &Instance, plan: &Plan) -> Option<String> {
    let mut tied = instance.network.tied();
    tied.retain(|tied| tied.layers_between() > 0);
    if plan.stages.is_empty() || (plan.stages.len() == 1 && tied.is_empty()) {
        return None;
    }
    let ranges = Ranges::new(instance, plan);
    let points = Points {
        instance,
        ranges,
        tied,
    };
    let stages: Vec<String> = plan.stages.iter().map(|stage| points.stage(stage)).collect();
    Some(stages.join("; "))
}

/// That a tie keeps half of the layers or more on one stage, where several could be had.
pub(super) fn wide_tie(instance: &Instance, plan: &Plan) -> Option<String> {
    let network = &instance.network;
    let all = network.layers.iter().filter(|layer| !layer.backward).count();
    let widest = network.tied().into_iter().next()?;
    let is_wide = widest.layers_between() > 0 && 2 * widest.together.len() >= all;
    (is_wide && plan.problem.stages != Some(1)).then(|| {
        format!(
            "tie: {}: {} of the {all} layers are one piece, which no plan cuts; `shared` in place of `tie` gives each end a copy of a table",
            widest.in_words(network).trim_start_matches("tie "),
            widest.together.len()
        )
    })
}

struct Points<'a> {
    instance: &'a Instance,
    ranges: Ranges<'a>,
    /// Ties that keep layers together beside those that they name.
    tied: Vec<Tied>,
}

impl Points<'_> {
    fn stage(&self, stage: &PlanStage) -> String {
        let forward = || self.layers(&stage.forward, false);
        let backward = || self.layers(&stage.backward, true);
        let text = match (
            self.ranges.differ(stage),
            stage.forward.is_empty(),
            stage.backward.is_empty(),
        ) {
            (false, ..) | (_, false, true) => forward(),
            (true, true, _) => format!("backward {}", backward()),
            (true, false, false) => format!("forward {}, backward {}", forward(), backward()),
        };
        format!("stage {}: {text}{}", stage.index, self.ties(stage))
    }

    /// The ties that keep layers of a stage together, up to two by name.
    fn ties(&self, stage: &PlanStage) -> String {
        let network = &self.instance.network;
        let own: HashSet<&str> = stage.forward.iter().map(String::as_str).collect();
        let is_here = |tied: &&Tied| own.contains(network.layers[tied.named[0]].id.as_str());
        let here: Vec<String> = self
            .tied
            .iter()
            .filter(is_here)
            .map(|tied| tied.in_words(network))
            .collect();
        match here.len() {
            0 => String::new(),
            1 | 2 => format!(" ({})", here.join(", ")),
            more => format!(" ({}, and {} more ties)", here[0], more - 1),
        }
    }

    /// `first .. last`, and what comes in where layers between belong to other stages.
    fn layers(&self, ids: &[String], backward: bool) -> String {
        let layers = &self.instance.network.layers;
        let mut placed: Vec<(usize, &Layer)> = Vec::new();
        let own: HashSet<&str> = ids.iter().map(String::as_str).collect();
        for layer in layers.iter().filter(|layer| own.contains(layer.id.as_str())) {
            placed.extend(self.ranges.position(&layer.id, backward).map(|at| (at, layer)));
        }
        placed.sort_unstable_by_key(|(at, _)| *at);
        let (Some((from, first)), Some((to, last))) = (placed.first(), placed.last()) else {
            return "nothing".into();
        };
        let ends = match placed.len() {
            1 => named(first),
            _ => format!("{} .. {}", named(first), named(last)),
        };
        if to - from + 1 == placed.len() {
            return ends;
        }
        // Gradients of a layer's own tensors come back to it, where backward operators are no layers of their own.
        let turned = backward && !first.backward;
        let what = if turned { "gradients" } else { "tensors" };
        let tensors = self.instance.network.tensors.iter();
        let inside = |at: usize| own.contains(layers[at].id.as_str());
        let comes_in = tensors.filter(|tensor| match turned {
            true => inside(tensor.producer) && tensor.consumers.iter().any(|&to| !inside(to)),
            false => !inside(tensor.producer) && tensor.consumers.iter().any(|&to| inside(to)),
        });
        let mut producers: Vec<usize> = comes_in.map(|tensor| tensor.producer).collect();
        producers.sort_unstable();
        producers.dedup();
        let shown = producers.iter().take(MOST_TENSORS).map(|&at| named(&layers[at]));
        let mut shown: Vec<String> = shown.collect();
        if producers.len() > MOST_TENSORS {
            shown.push(format!("{} more", producers.len() - MOST_TENSORS));
        }
        let number = count(placed.len(), "layer");
        match shown.is_empty() {
            true => format!("{ends}, {number} not in a run"),
            false => format!(
                "{ends}, {number} not in a run, behind the {what} of {}",
                shown.join(", ")
            ),
        }
    }
}

/// A layer and what it computes.
fn named(layer: &Layer) -> String {
    let id = shorten(&layer.id, LONGEST_NAME);
    match &layer.operator {
        Some(operator) => format!("{id} {}", shorten(operator, LONGEST_NAME)),
        None => id,
    }
}
