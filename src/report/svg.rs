//! A network as a drawing that any browser shows: boxes on ranks, coloured by stage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::format::{escape_xml, percent, shorten, width};
use super::layout::{Fan, Ranked, Room, centres, ranks};
use super::palette::Colors;
use super::picture::Picture;
use super::stages::{bottleneck_ms, busy_ms, is_bottleneck};
use super::text;
use crate::instance::Instance;
use crate::network::Layer;
use crate::options::Mode;
use crate::plan::{Plan, PlanStage};

/// Colour of text.
pub(super) const INK: &str = "#1b1b1b";

/// Margin around everything, in pixels, as all lengths here.
const MARGIN: f64 = 24.0;
/// Left of the boxes, for the names of stages.
const GUTTER: f64 = 150.0;
/// Above the first and below the last rank of a stage.
const BAND_PADDING: f64 = 12.0;
/// Of an entry of the legend.
const ENTRY_HEIGHT: f64 = 20.0;

/// A self-contained SVG, coloured by stage where there is a plan.
///
/// Data flow from top to bottom. The stages lie below each other, those of an explicit backward graph once more in
/// reverse; every box and line has a tooltip, and lines from stage to stage are heavy. The background is white whatever
/// the reader's colour scheme. Time O(V^2) at worst for V layers, for the bends of long edges.
pub fn svg(instance: &Instance, plan: Option<&Plan>) -> String {
    let picture = Picture::new(instance, plan);
    let scene = Scene::new(&picture);
    let legend = Legend::new(&picture, scene.width);
    let top = MARGIN + 48.0 + legend.height;
    let (width, height) = (scene.width + 2.0 * MARGIN, top + scene.height + MARGIN);
    let name = escape_xml(&instance.name);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"11\" \
         fill=\"{INK}\">\n<title>{name}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    );
    out += &heading(&picture);
    out += &legend.svg;
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {top:.1})\">");
    out += &scene.bands();
    out += &scene.edges();
    out += &scene.boxes();
    out + "</g>\n</svg>\n"
}

/// The answer and how to read the drawing.
fn heading(picture: &Picture) -> String {
    let layers = picture.instance.network.layers.len();
    let title = match picture.plan {
        Some(plan) => text::headline(plan, picture.digits).replace('`', ""),
        None => format!("Network {}: {layers} layers", picture.instance.name),
    };
    let (first, second) = (MARGIN + 14.0, MARGIN + 34.0);
    let heavy = match picture.plan.is_some_and(|plan| plan.stages.len() > 1) {
        true => "; heavy lines are tensors that go from stage to stage",
        false => "",
    };
    format!(
        "<text x=\"{MARGIN}\" y=\"{first}\" font-size=\"16\" font-weight=\"600\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"{second}\" fill=\"#555555\">Data flow from top to bottom{heavy}. Point at a box or \
         line for its times and sizes.</text>\n",
        escape_xml(&title)
    )
}

/// Stages with their loads, as bars.
struct Legend {
    svg: String,
    height: f64,
}

impl Legend {
    fn new(picture: &Picture, room: f64) -> Self {
        const BAR: f64 = 90.0;
        let Some(plan) = picture.plan.filter(|plan| !plan.stages.is_empty()) else {
            return Self {
                svg: String::new(),
                height: 0.0,
            };
        };
        let labels: Vec<String> = plan
            .stages
            .iter()
            .map(|stage| picture.stage_label(stage))
            .collect();
        let longest = labels.iter().map(|label| text_width(label)).fold(0.0, f64::max);
        let bar_at = 20.0 + longest + 12.0;
        let entry = bar_at + BAR + 32.0;
        let columns = ((room / entry) as usize).clamp(1, labels.len());
        let rows = labels.len().div_ceil(columns);
        let mut svg = String::new();
        for (at, (stage, label)) in plan.stages.iter().zip(&labels).enumerate() {
            // Read downwards, column by column.
            let x = MARGIN + (at / rows) as f64 * entry;
            let y = MARGIN + 46.0 + (at % rows) as f64 * ENTRY_HEIGHT;
            let colors = Colors::stage(stage.index);
            let share = busy_ms(stage) / bottleneck_ms(plan).max(f64::MIN_POSITIVE);
            let weight = if is_bottleneck(plan, stage) {
                " font-weight=\"700\""
            } else {
                ""
            };
            let _ = writeln!(
                svg,
                "<g transform=\"translate({x:.1} {y:.1})\"><title>{} of the bottleneck</title>\
                 <rect width=\"14\" height=\"14\" rx=\"2\" fill=\"{fill}\" stroke=\"{line}\"/>\
                 <text x=\"20\" y=\"11\"{weight}>{}</text>\
                 <rect x=\"{bar_at:.1}\" y=\"2\" width=\"{BAR}\" height=\"10\" fill=\"#eeeeee\"/>\
                 <rect x=\"{bar_at:.1}\" y=\"2\" width=\"{:.1}\" height=\"10\" fill=\"{line}\"/></g>",
                escape_xml(&percent(share)),
                escape_xml(label),
                BAR * share,
                fill = colors.fill,
                line = colors.line,
            );
        }
        Self {
            svg,
            height: rows as f64 * ENTRY_HEIGHT + 8.0,
        }
    }
}

/// Sizes of boxes: with a second line while that stays readable, small for large networks.
struct Sizes {
    box_width: f64,
    box_height: f64,
    rank_gap: f64,
    name_length: usize,
    two_lines: bool,
}

impl Sizes {
    fn new(layers: &[&Layer]) -> Self {
        /// More layers than this are looked at from further away.
        const MANY: usize = 250;
        let many = layers.len() > MANY;
        let name_length = if many { 16 } else { 22 };
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

/// Everything in its place.
struct Scene<'a> {
    picture: &'a Picture<'a>,
    /// Positions in the network of the layers that are drawn.
    shown: Vec<usize>,
    fans: Vec<Fan>,
    graph: Ranked,
    bands: Vec<Band<'a>>,
    sizes: Sizes,
    x: Vec<f64>,
    rank_top: Vec<f64>,
    width: f64,
    height: f64,
}

/// Ranks of one stage.
struct Band<'a> {
    stage: &'a PlanStage,
    phase: &'static str,
    first_rank: usize,
    last_rank: usize,
}

impl<'a> Scene<'a> {
    fn new(picture: &'a Picture<'a>) -> Self {
        let network = &picture.instance.network;
        let inference = picture
            .plan
            .is_some_and(|plan| plan.problem.mode == Some(Mode::Inference));
        // Backward operators are no part of an inference plan.
        let drawn = |&at: &usize| !(inference && network.layers[at].backward);
        let shown: Vec<usize> = (0..network.layers.len()).filter(drawn).collect();
        let layers: Vec<&Layer> = shown.iter().map(|&at| &network.layers[at]).collect();
        let sizes = Sizes::new(&layers);
        let fans = fans(picture, &shown);
        let band_of = band_of(picture, &layers, &fans);
        let rank = ranks(band_of.as_deref().unwrap_or(&vec![0; layers.len()]), &fans);
        let bands = band_of.map_or_else(Vec::new, |band_of| bands(picture, &layers, &band_of, &rank));
        let graph = Ranked::new(&rank, &fans);
        let room = Room {
            layer: sizes.box_width,
            bend: 2.0,
            gap: if sizes.two_lines { 14.0 } else { 8.0 },
        };
        let gutter = if bands.is_empty() { 0.0 } else { GUTTER };
        let x: Vec<f64> = centres(&graph, room)
            .iter()
            .map(|centre| gutter + centre)
            .collect();
        let mut rank_top = Vec::with_capacity(graph.ranks());
        let mut y = 0.0;
        for rank in 0..graph.ranks() {
            let begins = bands.iter().any(|band| band.first_rank == rank);
            y += if begins { BAND_PADDING } else { 0.0 };
            rank_top.push(y);
            let ends = bands.iter().any(|band| band.last_rank == rank);
            y += sizes.box_height + sizes.rank_gap + if ends { BAND_PADDING } else { 0.0 };
        }
        let right = x.iter().copied().fold(0.0, f64::max) + sizes.box_width / 2.0 + BAND_PADDING;
        /// Narrower drawings would cut their own heading.
        const LEAST_WIDTH: f64 = 640.0;
        Self {
            picture,
            shown,
            fans,
            graph,
            bands,
            x,
            rank_top,
            width: right.max(LEAST_WIDTH),
            height: y - sizes.rank_gap,
            sizes,
        }
    }

    fn layer(&self, vertex: usize) -> &Layer {
        &self.picture.instance.network.layers[self.shown[vertex]]
    }

    fn top(&self, vertex: usize) -> f64 {
        self.rank_top[self.graph.rank[vertex]]
    }

    fn bottom(&self, vertex: usize) -> f64 {
        self.top(vertex) + self.sizes.box_height
    }

    fn bands(&self) -> String {
        let mut out = String::new();
        for band in &self.bands {
            let colors = Colors::stage(band.stage.index);
            let top = self.rank_top[band.first_rank] - BAND_PADDING;
            let bottom = self.rank_top[band.last_rank] + self.sizes.box_height + BAND_PADDING;
            let load = self.picture.digits.ms(band.stage.load_ms);
            let _ = writeln!(
                out,
                "<rect y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\" fill=\"{pale}\"/>\
                 <rect y=\"{top:.1}\" width=\"6\" height=\"{:.1}\" rx=\"3\" fill=\"{line}\"/>\
                 <text x=\"16\" y=\"{:.1}\" font-size=\"13\" font-weight=\"600\">stage {index}{phase}</text>\
                 <text x=\"16\" y=\"{:.1}\">{load} ms</text>",
                self.width,
                bottom - top,
                bottom - top,
                top + 19.0,
                top + 34.0,
                pale = colors.pale,
                line = colors.line,
                index = band.stage.index,
                phase = band.phase,
            );
        }
        out
    }

    fn edges(&self) -> String {
        let mut out = String::from("<g fill=\"none\" stroke-linecap=\"round\">\n");
        let tensors = &self.picture.instance.network.tensors;
        let mut tooltips: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for tensor in tensors {
            let lines = tooltips.entry(tensor.producer).or_default();
            lines.push(self.picture.tensor_tooltip(tensor));
        }
        for ((from, consumers), ways) in self.fans.iter().zip(&self.graph.ways) {
            // Consumers share the way until they part; a shared piece is drawn once, and heavily if any of them is
            // in another stage.
            let (mut light, mut heavy) = (BTreeSet::new(), BTreeSet::new());
            for (&to, way) in consumers.iter().zip(ways) {
                let crosses = self.picture.crosses(self.shown[*from], self.shown[to]);
                let pieces = if crosses { &mut heavy } else { &mut light };
                pieces.extend(way.windows(2).map(|pair| (pair[0], pair[1])));
            }
            let light: BTreeSet<_> = light.difference(&heavy).copied().collect();
            let tooltip = tooltips
                .get(&self.shown[*from])
                .map_or_else(String::new, |lines| lines.join("\n"));
            let _ = write!(out, "<g><title>{}</title>", escape_xml(&tooltip));
            for (pieces, stroke) in [(&light, LIGHT), (&heavy, HEAVY)] {
                if !pieces.is_empty() {
                    let curves: String = pieces.iter().map(|&(u, v)| self.piece(u, v)).collect();
                    let _ = write!(out, "<path {stroke} d=\"{}\"/>", curves.trim_start());
                }
            }
            out += "</g>\n";
        }
        out + "</g>\n"
    }

    /// From the foot of a vertex to the head of one on the next rank, and through that if it is a bend.
    fn piece(&self, from: usize, to: usize) -> String {
        let (x, y) = (self.x[from], self.bottom(from));
        let (next_x, next_y) = (self.x[to], self.top(to));
        let middle = (y + next_y) / 2.0;
        let mut path = match (x - next_x).abs() < 0.5 {
            true => format!(" M{x:.1} {y:.1}V{next_y:.1}"),
            false => {
                format!(" M{x:.1} {y:.1}C{x:.1} {middle:.1} {next_x:.1} {middle:.1} {next_x:.1} {next_y:.1}")
            }
        };
        if to >= self.graph.layers {
            let _ = write!(path, "V{:.1}", self.bottom(to));
        }
        path
    }

    fn boxes(&self) -> String {
        let mut out = String::from("<g text-anchor=\"middle\">\n");
        let Sizes {
            box_width,
            box_height,
            name_length,
            two_lines,
            ..
        } = self.sizes;
        for vertex in 0..self.shown.len() {
            let layer = self.layer(vertex);
            let own = self.picture.stage(layer).map_or_else(Colors::none, Colors::stage);
            let (centre, top) = (self.x[vertex], self.top(vertex));
            let left = centre - box_width / 2.0;
            let dashed = if layer.backward {
                " stroke-dasharray=\"4 2\""
            } else {
                ""
            };
            let _ = write!(
                out,
                "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{box_width:.1}\" \
                 height=\"{box_height:.1}\" rx=\"4\" fill=\"{}\" stroke=\"{}\"{dashed}/>",
                escape_xml(&self.picture.layer_tooltip(layer)),
                own.fill,
                own.line,
            );
            if let Some(other) = self.picture.other_stage(layer).map(Colors::stage) {
                // The backward half, to the right.
                let _ = write!(
                    out,
                    "<rect x=\"{centre:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{box_height:.1}\" rx=\"4\" \
                     fill=\"{}\" stroke=\"{}\"/>",
                    box_width / 2.0,
                    other.fill,
                    other.line,
                );
            }
            let name = escape_xml(&shorten(&layer.id, name_length));
            let base = top + if two_lines { 14.0 } else { box_height / 2.0 + 3.5 };
            let size = if two_lines { "" } else { " font-size=\"9\"" };
            let _ = write!(out, "<text x=\"{centre:.1}\" y=\"{base:.1}\"{size}>{name}</text>");
            if two_lines {
                let time = self.picture.total_ms(layer);
                let time = time.map_or_else(
                    || "cannot run".into(),
                    |ms| format!("{} ms", self.picture.digits.ms(ms)),
                );
                let base = top + 27.0;
                let _ = write!(
                    out,
                    "<text x=\"{centre:.1}\" y=\"{base:.1}\" font-size=\"9\">{time}</text>"
                );
            }
            out += "</g>\n";
        }
        out + "</g>\n"
    }
}

/// Lines inside a stage, and from stage to stage.
const LIGHT: &str = "stroke=\"#8a8a8a\" stroke-width=\"1.1\"";
const HEAVY: &str = "stroke=\"#1b1b1b\" stroke-width=\"2.2\"";

/// All consumers of each producer that are drawn, by position among the layers drawn.
fn fans(picture: &Picture, shown: &[usize]) -> Vec<Fan> {
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

/// The band of every layer: its stage, and for backward operators those in reverse below. `None` where some layer has no
/// stage, or an edge goes up; then stages show by colour alone.
fn band_of(picture: &Picture, layers: &[&Layer], fans: &[Fan]) -> Option<Vec<usize>> {
    let stages = &picture.plan?.stages;
    let place = |stage: usize| stages.iter().position(|of| of.index == stage);
    let band = |layer: &&Layer| {
        let place = place(picture.stage(layer)?)?;
        Some(if layer.backward {
            2 * stages.len() - 1 - place
        } else {
            place
        })
    };
    let bands: Vec<usize> = layers.iter().map(band).collect::<Option<_>>()?;
    let down = |(from, consumers): &Fan| consumers.iter().all(|&to| bands[*from] <= bands[to]);
    fans.iter().all(down).then_some(bands)
}

fn bands<'a>(picture: &Picture<'a>, layers: &[&Layer], band_of: &[usize], rank: &[usize]) -> Vec<Band<'a>> {
    let stages = picture.plan.map_or(&[][..], |plan| &plan.stages);
    let both = layers.iter().any(|layer| layer.backward);
    let mut bands = Vec::new();
    for at in 0..2 * stages.len() {
        let members = || (0..layers.len()).filter(|&v| band_of[v] == at).map(|v| rank[v]);
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

/// About how wide a text is at the size of the drawing, in pixels; fonts differ.
fn text_width(text: &str) -> f64 {
    const PER_COLUMN: f64 = 6.6;
    PER_COLUMN * width(text) as f64
}
