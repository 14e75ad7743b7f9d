//! Where everything of a drawing goes: boxes and lines of the layout, in bands by stage.

use std::collections::{BTreeMap, BTreeSet};

use super::format::width;
use super::layout::{Fan, Ranked, Room, centres, ranks};
use super::picture::Picture;
use crate::model::network::Layer;
use crate::problem::plan::PlanStage;

/// Left of the boxes, for the names of stages, in pixels, as all lengths here.
const GUTTER: f64 = 150.0;
/// Above the first and below the last rank of a stage.
pub(super) const BAND_PADDING: f64 = 12.0;

/// Everything in its place. Vertices are those of the graph: the layers that are drawn, then bends.
pub(super) struct Scene<'a> {
    /// What is drawn.
    pub picture: &'a Picture<'a>,
    /// Positions in the network of the layers that are drawn.
    pub shown: Vec<usize>,
    /// Producers and consumers, as vertices.
    pub fans: Vec<Fan>,
    /// The vertices on their ranks.
    pub graph: Ranked,
    /// The stages from top to bottom; empty where they do not lie below each other.
    pub bands: Vec<Band<'a>>,
    /// Sizes of the boxes.
    pub sizes: Sizes,
    /// Horizontal centre of every vertex.
    pub x: Vec<f64>,
    /// Upper edge of every rank.
    pub rank_top: Vec<f64>,
    /// Width of it all.
    pub width: f64,
    /// Height of it all.
    pub height: f64,
}

/// Ranks of one stage, or of one phase of it.
pub(super) struct Band<'a> {
    /// The stage.
    pub stage: &'a PlanStage,
    /// What to add to the stage's name.
    pub phase: &'static str,
    /// Its first rank.
    pub first_rank: usize,
    /// Its last rank.
    pub last_rank: usize,
}

/// Sizes of boxes: with a second line while that stays readable, small for large networks.
pub(super) struct Sizes {
    /// Width of a box.
    pub box_width: f64,
    /// Height of a box.
    pub box_height: f64,
    /// Between two ranks.
    pub rank_gap: f64,
    /// Columns of the longest name that is shown whole.
    pub name_length: usize,
    /// Whether boxes have times below their names.
    pub two_lines: bool,
}

impl Sizes {
    fn new(layers: &[&Layer]) -> Self {
        /// More layers than this are looked at from further away.
        const MANY: usize = 250;
        let many = layers.len() > MANY;
        let name_length = if many { 16 } else { 28 };
        let longest = layers.iter().map(|layer| width(&layer.id)).max().unwrap_or(0);
        let least = if many { 40.0 } else { 84.0 };
        Self {
            box_width: (text_width(&"n".repeat(longest.min(name_length))) + 14.0).max(least),
            box_height: if many { 18.0 } else { 34.0 },
            rank_gap: if many { 16.0 } else { 22.0 },
            name_length,
            two_lines: !many,
        }
    }
}

impl<'a> Scene<'a> {
    /// Lays out the network, at least `least_width` wide.
    pub(super) fn new(picture: &'a Picture<'a>, least_width: f64) -> Self {
        let network = &picture.instance.network;
        let shown = shown(picture);
        let layers: Vec<&Layer> = shown.iter().map(|&at| &network.layers[at]).collect();
        let sizes = Sizes::new(&layers);
        let fans = fans(picture, &shown);
        let band_of = band_of(picture, &layers, &fans);
        let rank = ranks(band_of.as_deref().unwrap_or(&vec![0; layers.len()]), &fans);
        let bands = band_of.map_or_else(Vec::new, |band_of| bands(picture, &band_of, &rank));
        let graph = Ranked::new(&rank, &fans);
        let (rank_top, height) = rank_tops(&graph, &bands, &sizes);
        let room = Room {
            layer: sizes.box_width,
            bend: 2.0,
            gap: if sizes.two_lines { 14.0 } else { 8.0 },
        };
        let gutter = if bands.is_empty() { 0.0 } else { GUTTER };
        let mut x = centres(&graph, room);
        let boxes = x.iter().copied().fold(0.0, f64::max) + sizes.box_width / 2.0;
        let width = (gutter + boxes + BAND_PADDING).max(least_width);
        // What the heading needs beyond the boxes goes to both sides of them.
        let shift = gutter + (width - BAND_PADDING - gutter - boxes) / 2.0;
        x.iter_mut().for_each(|centre| *centre += shift);
        Self {
            picture,
            shown,
            fans,
            graph,
            bands,
            sizes,
            x,
            rank_top,
            width,
            height,
        }
    }

    /// The layer of a vertex that is no bend.
    pub(super) fn layer(&self, vertex: usize) -> &Layer {
        &self.picture.instance.network.layers[self.shown[vertex]]
    }

    /// Upper edge of a vertex.
    pub(super) fn top(&self, vertex: usize) -> f64 {
        self.rank_top[self.graph.rank[vertex]]
    }

    /// Lower edge of a vertex.
    pub(super) fn bottom(&self, vertex: usize) -> f64 {
        self.top(vertex) + self.sizes.box_height
    }
}

/// Upper edge of every rank, and the height of all.
fn rank_tops(graph: &Ranked, bands: &[Band], sizes: &Sizes) -> (Vec<f64>, f64) {
    let padding = |edge: fn(&Band) -> usize, rank: usize| match bands.iter().any(|band| edge(band) == rank) {
        true => BAND_PADDING,
        false => 0.0,
    };
    let mut y = 0.0;
    let mut tops = Vec::with_capacity(graph.ranks());
    for rank in 0..graph.ranks() {
        y += padding(|band| band.first_rank, rank);
        tops.push(y);
        y += sizes.box_height + sizes.rank_gap + padding(|band| band.last_rank, rank);
    }
    (tops, y - sizes.rank_gap)
}

/// Positions in the network of the layers that are drawn: backward operators are no part of an inference plan.
pub(super) fn shown(picture: &Picture) -> Vec<usize> {
    let layers = &picture.instance.network.layers;
    let inference = picture
        .plan
        .is_some_and(|plan| plan.problem.mode.is_some_and(|mode| !mode.trains()));
    (0..layers.len())
        .filter(|&at| !(inference && layers[at].backward))
        .collect()
}

/// All consumers of each producer that are drawn, by position among the layers drawn.
pub(super) fn fans(picture: &Picture, shown: &[usize]) -> Vec<Fan> {
    let place = |at: &usize| shown.binary_search(at).ok();
    let mut merged: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for tensor in &picture.instance.network.tensors {
        if let Some(from) = place(&tensor.producer) {
            let consumers = tensor.consumers.iter().filter_map(place);
            merged.entry(from).or_default().extend(consumers);
        }
    }
    let fans = merged
        .into_iter()
        .map(|(from, consumers)| (from, consumers.into_iter().collect()));
    fans.filter(|(_, consumers): &Fan| !consumers.is_empty())
        .collect()
}

/// The band of every layer. Backward operators have bands of their own, stages in reverse, below the forward ones; files
/// whose backward edges run the way of the forward ones have both in one band a stage. `None` where some layer has no
/// stage, or an edge goes up all the same; then stages show by colour alone.
pub(super) fn band_of(picture: &Picture, layers: &[&Layer], fans: &[Fan]) -> Option<Vec<usize>> {
    let stages = &picture.plan?.stages;
    let place = |layer: &&Layer| {
        let index = picture.stage(layer)?;
        stages.iter().position(|stage| stage.index == index)
    };
    let together: Vec<usize> = layers.iter().map(place).collect::<Option<_>>()?;
    let apart = |(layer, &place): (&&Layer, &usize)| match layer.backward {
        true => 2 * stages.len() - 1 - place,
        false => place,
    };
    let apart: Vec<usize> = layers.iter().zip(&together).map(apart).collect();
    let goes_down = |bands: &Vec<usize>| {
        let mut pairs = fans
            .iter()
            .flat_map(|(from, to)| to.iter().map(|to| (*from, *to)));
        pairs.all(|(from, to)| bands[from] <= bands[to])
    };
    [apart, together].into_iter().find(goes_down)
}

fn bands<'a>(picture: &Picture<'a>, band_of: &[usize], rank: &[usize]) -> Vec<Band<'a>> {
    let stages = picture.plan.map_or(&[][..], |plan| &plan.stages);
    let both = band_of.iter().any(|&band| band >= stages.len());
    let mut bands = Vec::new();
    for at in 0..2 * stages.len() {
        let members = || (0..rank.len()).filter(|&v| band_of[v] == at).map(|v| rank[v]);
        if let (Some(first_rank), Some(last_rank)) = (members().min(), members().max()) {
            let backward = at >= stages.len();
            let place = if backward { 2 * stages.len() - 1 - at } else { at };
            let phase = match (both, backward) {
                (false, _) => "",
                (true, false) => " forward",
                (true, true) => " backward",
            };
            bands.push(Band {
                stage: &stages[place],
                phase,
                first_rank,
                last_rank,
            });
        }
    }
    bands
}

/// Width of a column of text.
const PER_COLUMN: f64 = 6.6;

/// About how wide a text is at the size of the drawing, in pixels; fonts differ.
pub(super) fn text_width(text: &str) -> f64 {
    PER_COLUMN * width(text) as f64
}

/// How many columns of text fit a width.
pub(super) fn columns_within(width: f64) -> usize {
    (width / PER_COLUMN) as usize
}
