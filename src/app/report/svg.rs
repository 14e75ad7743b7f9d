//! A network as a drawing that any browser shows: boxes on ranks, coloured by stage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::format::{escape_xml, percent, shorten};
use super::palette::Colors;
use super::picture::Picture;
use super::scene::{BAND_PADDING, Scene, Sizes, text_width};
use super::stages::Busy;
use super::text;
use crate::model::instance::Instance;
use crate::problem::plan::Plan;

/// Colour of text.
pub(super) const INK: &str = "#1b1b1b";

/// Margin around everything, in pixels, as all lengths here.
const MARGIN: f64 = 24.0;
/// What the line on how to read the drawing needs.
const LEAST_WIDTH: f64 = 760.0;
/// Of the title, in times the size of other text; bold letters are wider.
const TITLE_SIZE: f64 = 1.6;
/// Of an entry of the legend.
const ENTRY_HEIGHT: f64 = 20.0;

/// A self-contained SVG, coloured by stage where there is a plan.
///
/// Data flow from top to bottom. The stages lie below each other, those of an explicit backward graph once more in
/// reverse; every box and line has a tooltip, and lines from stage to stage are heavy. The background is white whatever
/// the reader's colour scheme. Time O(V^2) at worst for V layers, for the bends of long edges.
pub fn svg(instance: &Instance, plan: Option<&Plan>) -> String {
    let picture = Picture::new(instance, plan);
    let title = title(&picture);
    let scene = Scene::new(&picture, LEAST_WIDTH.max(text_width(&title) * TITLE_SIZE));
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
    out += &heading(&picture, &title);
    out += &legend.svg;
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {top:.1})\">");
    out += &scene.bands();
    out += &scene.edges();
    out += &scene.boxes();
    out + "</g>\n</svg>\n"
}

/// The answer in a line.
fn title(picture: &Picture) -> String {
    let layers = picture.instance.network.layers.len();
    match picture.plan {
        Some(plan) => text::headline(plan, picture.digits).replace('`', ""),
        None => format!("Network {}: {layers} layers", picture.instance.name),
    }
}

/// The title and how to read the drawing.
fn heading(picture: &Picture, title: &str) -> String {
    let (first, second) = (MARGIN + 14.0, MARGIN + 34.0);
    let heavy = match picture.plan.is_some_and(|plan| plan.stages.len() > 1) {
        true => "; heavy lines are tensors that go from stage to stage",
        false => "",
    };
    format!(
        "<text x=\"{MARGIN}\" y=\"{first}\" font-size=\"16\" font-weight=\"600\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"{second}\" fill=\"#555555\">Data flow from top to bottom{heavy}. Point at a box or \
         line for its times and sizes.</text>\n",
        escape_xml(title)
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
        let busy = Busy::new(plan);
        for (at, (stage, label)) in plan.stages.iter().zip(&labels).enumerate() {
            // Read downwards, column by column.
            let x = MARGIN + (at / rows) as f64 * entry;
            let y = MARGIN + 46.0 + (at % rows) as f64 * ENTRY_HEIGHT;
            let colors = Colors::stage(stage.index);
            let share = busy.share(at);
            let weight = if busy.is_most(at) {
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

impl Scene<'_> {
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
                    let curves: String = pieces.iter().map(|&(u, v)| self.edge_piece(u, v)).collect();
                    let _ = write!(out, "<path {stroke} d=\"{}\"/>", curves.trim_start());
                }
            }
            out += "</g>\n";
        }
        out + "</g>\n"
    }

    /// From the foot of a vertex to the head of one on the next rank, and through that if it is a bend.
    fn edge_piece(&self, from: usize, to: usize) -> String {
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
