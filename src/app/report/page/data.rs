//! What the script of a page knows: layers, tensors, stages and groups.

use std::collections::HashMap;

use serde::Serialize;

use super::groups::{Group, Groups, Member, order};
use crate::app::report::format::devices;
use crate::app::report::layout::Fan;
use crate::app::report::palette::Colors;
use crate::app::report::picture::Picture;
use crate::app::report::scene::{band_of, fans, shown};
use crate::model::fault::is_obeyed;
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode, Size};
use crate::model::recompute;
use crate::model::units::ns_to_ms;
use crate::problem::plan::{Plan, PlanStage};

/// The data, written as JSON. Layers are known by their place in `layers`, a topological order.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    /// Digits of times after the point.
    digits: usize,
    stages: Vec<Stage>,
    layers: Vec<Drawn<'a>>,
    tensors: Vec<Moved>,
    /// From the first to the last; those of a stage, or of one phase of it, where there are any.
    groups: Vec<Member>,
    /// Whether the groups at the top are stages.
    staged: bool,
}

#[derive(Serialize)]
struct Stage {
    index: usize,
    devices: String,
    load_ms: f64,
    forward_ms: f64,
    backward_ms: f64,
    communication_ms: f64,
    memory_bytes: u64,
    fill: String,
    line: String,
}

/// A layer as its stage runs it; times are absent where the device cannot.
#[derive(Serialize)]
struct Drawn<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<usize>,
    /// Where the backward pass runs, if elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    backward_stage: Option<usize>,
    /// Whether it is an operator of an explicit backward graph.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    backward: bool,
    /// The kind of device that the times are of.
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backward_ms: Option<f64>,
    parameter_bytes: u64,
    stash_bytes: u64,
    resident_bytes: u64,
    /// What is computed again, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    recompute: Option<String>,
}

/// A tensor; its size is absent where the file says a time.
#[derive(Serialize)]
struct Moved {
    from: usize,
    to: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    ms: f64,
}

impl<'a> Data<'a> {
    /// Lays out nothing: the script does, whenever a group opens. Time as that of [`order`].
    pub(super) fn new(instance: &'a Instance, plan: Option<&'a Plan>) -> Self {
        let picture = Picture::new(instance, plan);
        let all = &instance.network.layers;
        let shown = shown(&picture);
        let layers: Vec<&Layer> = shown.iter().map(|&at| &all[at]).collect();
        let fans = fans(&picture, &shown);
        let band_of = band_of(&picture, &layers, &fans);
        let names: Vec<&str> = layers.iter().map(|layer| layer.id.as_str()).collect();
        let flat = vec![0; layers.len()];
        let order = order(&names, band_of.as_deref().unwrap_or(&flat), &fans);
        let mut place = vec![0; layers.len()];
        order.iter().enumerate().for_each(|(at, &v)| place[v] = at);
        let moved = |(from, to): &Fan| (place[*from], to.iter().map(|&to| place[to]).collect());
        let placed: Vec<Fan> = fans.iter().map(moved).collect();
        let groups = Groups::new(order.iter().map(|&v| names[v]).collect(), &placed);
        let drawn = Ways::new(&picture);
        Self {
            digits: picture.digits.after_point(),
            stages: plan.map_or_else(Vec::new, |plan| plan.stages.iter().map(Stage::new).collect()),
            layers: order.iter().map(|&v| drawn.layer(layers[v])).collect(),
            tensors: tensors(&picture, &shown, &place),
            staged: band_of.is_some(),
            groups: match &band_of {
                Some(bands) => stages(&picture, &order, bands, &groups),
                None => groups.members_of(0..order.len()),
            },
        }
    }

    /// The data as JSON that no HTML or XML parser takes for anything but text.
    pub(super) fn json(&self) -> String {
        // Numbers and texts: nothing that could fail.
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut out = String::with_capacity(json.len());
        for c in json.chars() {
            match c {
                '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => {
                    out += &format!("\\u{:04x}", u32::from(c));
                }
                // A page would turn the direction of what it writes: it shows the character written out.
                c if is_obeyed(c) => {
                    out.push('\\');
                    out.extend(c.escape_default());
                }
                _ => out.push(c),
            }
        }
        out
    }

    /// Layers that are drawn.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }
}

impl Stage {
    fn new(stage: &PlanStage) -> Self {
        let colors = Colors::stage(stage.index);
        Self {
            index: stage.index,
            devices: devices(&stage.devices),
            load_ms: stage.load_ms,
            forward_ms: stage.forward_ms,
            backward_ms: stage.backward_ms,
            communication_ms: stage.communication_ms,
            memory_bytes: stage.memory_bytes,
            fill: colors.fill,
            line: colors.line,
        }
    }
}

/// A group a stage, or two where an explicit backward graph comes back.
fn stages(picture: &Picture, order: &[usize], bands: &[usize], groups: &Groups) -> Vec<Member> {
    let stages = picture.plan.map_or(&[][..], |plan| &plan.stages);
    let has_both = bands.iter().any(|&band| band >= stages.len());
    let mut members = Vec::new();
    let mut at = 0;
    while at < order.len() {
        let band = bands[order[at]];
        let end = at + order[at..].iter().take_while(|&&v| bands[v] == band).count();
        let (place, phase) = match (has_both, band < stages.len()) {
            (false, _) => (band, ""),
            (true, true) => (band, " forward"),
            (true, false) => (2 * stages.len() - 1 - band, " backward"),
        };
        members.push(Member::Group(Group {
            name: format!("stage {}{phase}", stages[place].index),
            prefix: String::new(),
            members: groups.members_of(at..end),
        }));
        at = end;
    }
    members
}

/// Tensors between layers that are drawn, by place in the order.
fn tensors(picture: &Picture, shown: &[usize], place: &[usize]) -> Vec<Moved> {
    let placed = |at: &usize| shown.binary_search(at).ok().map(|v| place[v]);
    let tensors = picture.instance.network.tensors.iter();
    let moved = tensors.filter_map(|tensor| {
        let to: Vec<usize> = tensor.consumers.iter().filter_map(placed).collect();
        Some(Moved {
            from: placed(&tensor.producer)?,
            to,
            bytes: match tensor.size {
                Size::Bytes(bytes) => Some(bytes),
                Size::TransferNs(_) => None,
            },
            ms: picture.tensor_ms(tensor),
        })
    });
    moved.filter(|moved| !moved.to.is_empty()).collect()
}

/// How layers run.
struct Ways<'p, 'a> {
    picture: &'p Picture<'a>,
    /// What a layer computes again, by its name.
    recomputed: HashMap<&'a str, &'a str>,
}

impl<'p, 'a> Ways<'p, 'a> {
    fn new(picture: &'p Picture<'a>) -> Self {
        let modes = picture.plan.iter().flat_map(|plan| &plan.stages);
        let modes = modes.filter_map(|stage| stage.mode.as_ref());
        let listed = modes.flat_map(|mode| &mode.recomputed);
        let recomputed =
            listed.flat_map(|(what, layers)| layers.iter().map(|layer| (layer.as_str(), what.as_str())));
        Self {
            picture,
            recomputed: recomputed.collect(),
        }
    }

    fn layer(&self, layer: &'a Layer) -> Drawn<'a> {
        let picture = self.picture;
        let stage = picture.stage(layer);
        let stages = picture.plan.map_or(&[][..], |plan| &plan.stages);
        let own = stages.iter().find(|own| Some(own.index) == stage);
        let kind = own
            .and_then(|own| kind(picture.instance, own))
            .unwrap_or(picture.kind());
        let way = self.way(layer, own);
        let times = way.times[kind];
        Drawn {
            id: &layer.id,
            operator: layer.operator.as_deref(),
            stage,
            backward_stage: picture.other_stage(layer),
            backward: layer.backward,
            kind: &picture.instance.cluster.kinds[kind].name,
            forward_ms: times.map(|times| ns_to_ms(times.forward_ns)),
            backward_ms: times.map(|times| ns_to_ms(times.backward_ns)),
            parameter_bytes: way.parameter_bytes,
            stash_bytes: way.stash_bytes,
            resident_bytes: way.resident_bytes,
            recompute: Some(way.recompute).filter(|what| what != recompute::NONE),
        }
    }

    /// The mode that the plan chose, or what the layer is on one device.
    fn way(&self, layer: &Layer, stage: Option<&PlanStage>) -> LayerMode {
        let modes = layer.modes();
        let again = self.recomputed.get(layer.id.as_str()).copied();
        let again = again.unwrap_or(recompute::NONE);
        let tensor = stage
            .and_then(|stage| stage.mode.as_ref())
            .map(|mode| mode.tensor);
        let chosen = modes
            .iter()
            .find(|mode| Some(mode.tensor) == tensor && mode.recompute == again);
        match chosen {
            Some(mode) => mode.clone(),
            // Every layer has a mode.
            None => modes[0].clone(),
        }
    }
}

/// The kind of a stage's first device.
fn kind(instance: &Instance, stage: &PlanStage) -> Option<usize> {
    let device = stage.devices.first()?;
    let name = device.rsplit_once(':').map_or(device.as_str(), |(kind, _)| kind);
    instance.cluster.kind(name)
}
