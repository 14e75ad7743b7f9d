//! Layers from ranges of time that a profiler saw, whose names say a module and a pass: `encoder.0/forward`, `encoder.0/backward`,
//! `encoder.0/weight`. Torch's and Nsight's traces share this.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Imported;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Mode, PipelineOptions};
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};
use crate::model::words::{Words, words};

/// A range, in ms.
pub(super) struct Range {
    pub name: String,
    /// Whose stack of ranges it lies on.
    pub thread: String,
    pub start_ms: f64,
    pub duration_ms: f64,
}

/// Passes by the last word of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Forward,
    Backward,
    Weight,
}

/// What a name says, if it is one of ours: the layer, and the pass.
fn parse(name: &str) -> Option<(&str, Pass)> {
    let name = name.strip_prefix(':').unwrap_or(name);
    let (layer, pass) = name.rsplit_once(['/', ':', ' ', '.'])?;
    let pass = match pass {
        "forward" => Pass::Forward,
        "backward" => Pass::Backward,
        "weight" | "weights" => Pass::Weight,
        _ => return None,
    };
    (!layer.is_empty()).then_some((layer, pass))
}

/// The middle of some numbers, or the mean of the two middle ones; 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

/// What is known of a layer.
#[derive(Default)]
struct Seen {
    first_ms: f64,
    times: BTreeMap<Pass, Vec<f64>>,
    /// Whether a range of weights lay within one of its backward pass.
    nested: bool,
}

/// A chain of the layers that ranges name, in the order of their first forward passes, each with the medians of its passes.
///
/// A layer whose ranges hold those of other layers is a part of the network that holds them, and is left out. Time O(R log R) for R ranges.
pub(super) fn network(mut ranges: Vec<Range>, source: &'static str) -> Imported {
    for range in &ranges {
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        if !is_time(range.duration_ms) || !range.start_ms.is_finite() {
            let (found, expected) = (range.duration_ms, "a duration from 0");
            return Err(vec![Fault::new(
                format!("range `{}`", range.name),
                FaultKind::BadNumber { found, expected },
            )]);
        }
    }
    // An outer range comes before what begins with it.
    let order = |a: &Range, b: &Range| {
        let starts = a.start_ms.total_cmp(&b.start_ms);
        starts.then(b.duration_ms.total_cmp(&a.duration_ms))
    };
    ranges.sort_by(order);
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    let mut outer: BTreeSet<&str> = BTreeSet::new();
    let mut open: HashMap<&str, Vec<(&str, Pass, f64)>> = HashMap::new();
    for range in &ranges {
        let Some((layer, pass)) = parse(&range.name) else {
            continue;
        };
        let end_ms = range.start_ms + range.duration_ms;
        let stack = open.entry(&range.thread).or_default();
        while stack.last().is_some_and(|(.., end)| *end <= range.start_ms) {
            stack.pop();
        }
        outer.extend(
            stack
                .iter()
                .map(|(outer, ..)| *outer)
                .filter(|outer| *outer != layer),
        );
        let own = seen.entry(layer).or_insert_with(|| Seen {
            first_ms: f64::INFINITY,
            ..Seen::default()
        });
        own.nested |= pass == Pass::Weight
            && stack
                .iter()
                .any(|&(name, pass, _)| name == layer && pass == Pass::Backward);
        if pass == Pass::Forward {
            own.first_ms = own.first_ms.min(range.start_ms);
        }
        own.times.entry(pass).or_default().push(range.duration_ms);
        stack.push((layer, pass, end_ms));
    }
    let left: Vec<&str> = outer.iter().copied().collect();
    seen.retain(|layer, _| !outer.contains(layer));
    chain(seen, &left, source)
}

fn chain(seen: BTreeMap<&str, Seen>, left: &[&str], source: &'static str) -> Imported {
    if seen.is_empty() {
        let kind = FaultKind::Missing {
            what: "range that names a pass of a layer".into(),
            expected: "ranges such as `encoder.0/forward`, `encoder.0/backward` and, of gradients of weights, `encoder.0/weight`".into(),
            remedy: "trace the model with `tools/trace_torch.py`, or name its ranges so".into(),
        };
        return Err(vec![Fault::new("the file", kind)]);
    }
    let mut faults = Vec::new();
    for (layer, own) in &seen {
        if !own.times.contains_key(&Pass::Forward) {
            let kind = FaultKind::Missing {
                what: "range of its forward pass".into(),
                expected: "one for each layer".into(),
                remedy: words!("name one {}", format!("`{layer}/forward`")),
            };
            faults.push(Fault::new(format!("layer `{layer}`"), kind));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let trains = seen.values().any(|own| own.times.len() > 1);
    let steps = seen
        .values()
        .map(|own| own.times[&Pass::Forward].len())
        .max()
        .unwrap_or(0);
    let mut layers: Vec<(f64, LayerSpec)> = seen.into_iter().map(|(id, own)| layer(id, own)).collect();
    layers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let layers: Vec<LayerSpec> = layers.into_iter().map(|(_, layer)| layer).collect();
    let tensors = layers.windows(2).map(|pair| TensorSpec {
        producer: pair[0].id.clone(),
        consumers: vec![pair[1].id.clone()],
        ..TensorSpec::default()
    });
    let tensors = tensors.collect();
    let mut notes = vec![words!(
        "medians of {} passes; {} does not say sizes: parameters, stash and tensors have no bytes, and layers are a chain in the order in which they ran",
        steps.to_string(),
        source
    )];
    notes.extend(said(left));
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            mode: (!trains).then_some(Mode::Inference),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    };
    Ok((spec, notes))
}

/// Which ranges are left out for those within.
fn said(left: &[&str]) -> Option<Words> {
    /// More are no longer read.
    const MOST: usize = 5;
    let first: Vec<String> = left.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = match left.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = format!("{}{more}", first.join(", "));
    (!left.is_empty()).then(|| words!("ranges that hold those of other layers are left out: {}", listed))
}

/// A layer, and when it first ran.
fn layer(id: &str, own: Seen) -> (f64, LayerSpec) {
    let mut times = own.times;
    let mut middle = |pass| times.remove(&pass).map(median);
    let (forward, backward, weight) = (
        middle(Pass::Forward),
        middle(Pass::Backward),
        middle(Pass::Weight),
    );
    // Beside the backward pass, gradients of weights are added to it.
    let backward_ms = match (backward, weight) {
        (Some(backward), Some(weight)) if own.nested => Some(backward.max(weight)),
        (backward, weight) => backward
            .or(weight.map(|_| 0.0))
            .map(|ms| ms + weight.unwrap_or(0.0)),
    };
    let layer = LayerSpec {
        id: id.to_owned(),
        forward_ms: forward,
        backward_ms,
        weight_ms: weight,
        ..LayerSpec::default()
    };
    (own.first_ms, layer)
}
