//! Curves as a picture: what the best known plan takes, what no plan can be better than, and where plans change.

use std::fmt::Write;

use super::values::{Towards, value};
use crate::app::report::format::{Digits, escape_xml, wrap};
use crate::app::report::palette::Colors;
use crate::app::report::scene::{columns_within, text_width};
use crate::model::units::NS_PER_MS;
use crate::solve::what_if::{Answer, AnswerCurve, Curve, Kind, Parameter, Segment};

/// Size of the drawing and of its frame, in pixels, as all lengths here.
const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 46.0;
const TOP: f64 = 122.0;
const BOTTOM: f64 = 56.0;
/// Of all text, from the edges of the picture.
const MARGIN: f64 = 24.0;
/// Between two labels.
const BETWEEN: f64 = 6.0;
/// Baseline of the last line of a header of three lines.
const HEADER: f64 = 70.0;
/// Baseline of the first row of names of curves, and height of a row.
const LEGEND: f64 = 96.0;
const ROW: f64 = 18.0;

/// Samples of a curve of real values.
const SAMPLES: usize = 240;

/// Colours in daylight. Plain ones, since not everything that shows SVG knows variables.
const STYLE: &str = "\
.paper { fill: #ffffff; } text { fill: #1b1b1b; } .soft { fill: #5f5f5f; }\n\
.grid { stroke: #d9d9d9; stroke-width: 1; fill: none; } .change { stroke: #5f5f5f; stroke-width: 1; stroke-dasharray: 3 4; }\n\
.curve { fill: none; stroke-linejoin: round; } .band { fill-opacity: 0.25; stroke: none; }\n\
.dot { stroke: #ffffff; stroke-width: 0.7; } .none { fill: #5f5f5f; fill-opacity: 0.16; }\n";

/// Colours in the dark.
const NIGHT: &str = "\
.paper { fill: #16181c; } text { fill: #ececec; } .soft { fill: #a8adb5; }\n\
.grid { stroke: #3a3f47; } .change { stroke: #a8adb5; } .dot { stroke: #16181c; } .none { fill: #a8adb5; }\n";

/// A self-contained SVG that follows the reader's colour scheme. Points are values at which the optimum was asked for; a band lies between the
/// best known plans and what no plan can be better than.
pub(crate) fn what_if_svg(answer: &Answer) -> String {
    let scene = Scene::new(answer);
    let title = super::question(answer).replace('`', "");
    let told = super::sentences(answer, super::digits(answer));
    let (header, further) = header(&title, &told);
    let height = scene.height() + further;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n<style>\n{}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{header}<g transform=\"translate(0 {further})\">",
        escape_xml(&title),
        escape_xml(&told.join(" ")),
        scene.style(),
    );
    out += &scene.axes();
    out += &scene.holes();
    for curve in &answer.curves {
        out += &scene.changes(curve);
        out += &scene.colored(curve, &scene.band(curve));
    }
    for curve in &answer.curves {
        out += &scene.colored(curve, &(scene.curve(curve) + &scene.dots(curve)));
    }
    out += &scene.legend();
    out + "</g>\n</svg>\n"
}

/// How much wider letters of the title are than others: larger and bolder.
const TITLE: f64 = 1.55;

/// Title and the first two sentences, a line or more each, and how much lower everything else has to lie for it.
fn header(title: &str, told: &[String]) -> (String, f64) {
    const TITLE_LINE: f64 = 21.0;
    const LINE: f64 = 17.0;
    let (titles, sentences) = (
        wrapped(title, TITLE),
        told.iter().take(2).flat_map(|line| wrapped(line, 1.0)),
    );
    let mut out = String::new();
    let mut y = 32.0 - TITLE_LINE;
    for line in &titles {
        y += TITLE_LINE;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"16\" font-weight=\"600\">{}</text>",
            escape_xml(line)
        );
    }
    y += TITLE_LINE - LINE;
    for line in sentences {
        y += LINE;
        let _ = writeln!(
            out,
            "<text class=\"soft\" x=\"{MARGIN}\" y=\"{y}\">{}</text>",
            escape_xml(&line)
        );
    }
    (out, (y - HEADER).max(0.0))
}

/// A sentence in lines that fit the picture, in letters so much wider than usual.
fn wrapped(sentence: &str, wider: f64) -> Vec<String> {
    let columns = columns_within((WIDTH - 2.0 * MARGIN) / wider);
    let text = wrap(&sentence.replace('`', ""), columns, 0);
    text.lines().map(str::to_owned).collect()
}

/// Labels in a row: each from the left end of what is still free.
struct Labels {
    free: f64,
}

impl Labels {
    /// Whether there is room for a label between two places; if so it takes that.
    fn takes(&mut self, from: f64, to: f64) -> bool {
        let fits = from >= self.free && to <= WIDTH;
        if fits {
            self.free = to + BETWEEN;
        }
        fits
    }
}

/// A scale of an axis.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// Equal factors are equally far apart where the ends are far from each other.
    fn new(from: f64, to: f64, may_be_logarithmic: bool) -> Self {
        const FAR: f64 = 8.0;
        let to = if to > from { to } else { from + from.abs().max(1.0) };
        Self {
            from,
            to,
            is_logarithmic: may_be_logarithmic && from > 0.0 && to / from >= FAR,
        }
    }

    fn place(&self, at: f64) -> f64 {
        let scale = |at: f64| {
            if self.is_logarithmic {
                at.max(f64::MIN_POSITIVE).ln()
            } else {
                at
            }
        };
        ((scale(at) - scale(self.from)) / (scale(self.to) - scale(self.from))).clamp(0.0, 1.0)
    }

    /// The value at a place.
    fn value(&self, place: f64) -> f64 {
        match self.is_logarithmic {
            true => self.from * (self.to / self.from).powf(place),
            false => self.from + place * (self.to - self.from),
        }
    }

    /// Round values, about six, whole ones where only these are values.
    fn ticks(&self, is_whole: bool) -> Vec<f64> {
        if self.is_logarithmic {
            let factors: &[f64] = if self.to / self.from > 1e3 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let decades = (self.from.log10().floor() as i32)..=(self.to.log10().ceil() as i32);
            let all =
                decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
            let within = self.from * 0.999_999..=self.to * 1.000_001;
            return all.filter(|tick| within.contains(tick)).collect();
        }
        let raw = (self.to - self.from) / 6.0;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(raw);
        let step = if is_whole { step.max(1.0).round() } else { step };
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step * 1.000_001).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

struct Scene<'a> {
    answer: &'a Answer,
    x: Axis,
    y: Axis,
    /// Of every curve's name: its row and where it begins.
    names: Vec<(usize, f64)>,
}

impl<'a> Scene<'a> {
    fn new(answer: &'a Answer) -> Self {
        let points = answer.curves.iter().flat_map(|curve| &curve.points);
        let times = points.flat_map(|point| [point.objective_ms, point.bound_ms.filter(|&ms| ms > 0.0)]);
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for ms in times.flatten() {
            least = least.min(ms);
            most = most.max(ms);
        }
        let y = match most > 0.0 {
            true => Axis::new(least * 0.94, most * 1.06, true),
            false => Axis::new(0.0, 1.0, false),
        };
        // Where the ends are near, nothing hides that one is no multiple of the other.
        let from = if y.is_logarithmic { y.from } else { 0.0 };
        let is_count = matches!(answer.parameter, Parameter::Stages | Parameter::Devices);
        Self {
            answer,
            x: Axis::new(answer.from, answer.to, !is_count),
            y: Axis { from, ..y },
            names: places_of_names(answer),
        }
    }

    /// Rows of names beyond the first.
    fn lower(&self) -> f64 {
        ROW * self.names.last().map_or(0, |&(row, _)| row) as f64
    }

    fn height(&self) -> f64 {
        HEIGHT + self.lower()
    }

    fn top(&self) -> f64 {
        TOP + self.lower()
    }

    fn bottom(&self) -> f64 {
        self.height() - BOTTOM
    }

    /// All colours, those of curves among them.
    fn style(&self) -> String {
        let (mut day, mut night) = (STYLE.to_owned(), NIGHT.to_owned());
        for (k, curve) in self.answer.curves.iter().enumerate() {
            let colors = self.colors(curve);
            for (rules, color) in [(&mut day, colors.line), (&mut night, colors.fill)] {
                let _ = writeln!(
                    rules,
                    ".own{k} .curve {{ stroke: {color}; }} .own{k} .band, .own{k} .dot {{ fill: {color}; }}"
                );
            }
        }
        format!("{day}@media (prefers-color-scheme: dark) {{\n{night}}}\n")
    }

    /// The colours of a curve: by its stages, or blue for the only one.
    fn colors(&self, curve: &AnswerCurve) -> Colors {
        let first = self.answer.curves.first().and_then(|first| first.stages);
        Colors::stage(match (curve.stages, first) {
            (Some(stages), Some(first)) => stages - first + 1,
            _ => 5,
        })
    }

    fn pixel(&self, at: f64, ms: f64) -> (f64, f64) {
        let (right, top, bottom) = (WIDTH - RIGHT, self.top(), self.bottom());
        (
            LEFT + (right - LEFT) * self.x.place(at),
            bottom - (bottom - top) * self.y.place(ms),
        )
    }

    /// Something in the colours of a curve.
    fn colored(&self, curve: &AnswerCurve, what: &str) -> String {
        let is_own = |other: &AnswerCurve| other.stages == curve.stages;
        let own = self.answer.curves.iter().position(is_own).unwrap_or(0);
        format!("<g class=\"own{own}\">{what}</g>\n")
    }

    fn axes(&self) -> String {
        let (right, top, bottom) = (WIDTH - RIGHT, self.top(), self.bottom());
        let mut out = String::from("<g>\n");
        let mut labels = Labels { free: 0.0 };
        let is_whole = !self.answer.parameter.is_continuous();
        for tick in self.x.ticks(is_whole) {
            let (x, _) = self.pixel(tick, self.y.from);
            let _ = writeln!(out, "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>");
            let label = value(
                self.answer.parameter,
                tick.max(f64::MIN_POSITIVE),
                Towards::Nearest,
            );
            let half = text_width(&label) / 2.0;
            if labels.takes(x - half, x + half) {
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    bottom + 18.0,
                );
            }
        }
        for tick in self.y.ticks(false) {
            let (_, y) = self.pixel(self.x.from, tick);
            let label = number(tick);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0,
            );
        }
        let name = match self.answer.parameter {
            Parameter::Bandwidth => "bandwidth of the link",
            Parameter::Memory => "memory of a stage",
            Parameter::Stages => "most stages",
            Parameter::Devices => "devices",
            Parameter::Tokens => "tokens that there is room for",
        };
        let _ = writeln!(
            out,
            "<text class=\"soft\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">ms</text>\n</g>",
            bottom + 40.0,
            LEFT - 8.0,
            top - 8.0,
        );
        out
    }

    /// Values at which there is no plan on any curve.
    fn holes(&self) -> String {
        let mut out = String::new();
        let top = self.top();
        let [curve] = &self.answer.curves[..] else {
            return out;
        };
        for segment in curve
            .segments
            .iter()
            .filter(|segment| segment.kind == Kind::Infeasible)
        {
            let [(from, _), (to, bottom)] = [segment.from, segment.to].map(|at| self.pixel(at, self.y.from));
            let width = (to - from).max(2.0);
            let _ = writeln!(
                out,
                "<rect class=\"none\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{:.1}\"><title>no plan exists</title></rect>",
                bottom - top
            );
            if width > text_width("no plan") + 12.0 {
                let middle = (from + to) / 2.0;
                let _ = writeln!(
                    out,
                    "<text class=\"soft\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">no plan</text>",
                    top + 20.0
                );
            }
        }
        out
    }

    /// A line where the number of stages of the best known plan changes, with that number above the frame: within, curves run through it.
    fn changes(&self, curve: &AnswerCurve) -> String {
        let mut out = String::new();
        if self.answer.curves.len() > 1 || self.answer.parameter == Parameter::Stages {
            return out;
        }
        let with_plan: Vec<&Segment> = curve
            .segments
            .iter()
            .filter(|segment| segment.plan.is_some())
            .collect();
        let top = self.top();
        let mut labels = Labels { free: LEFT };
        for (k, segment) in with_plan.iter().enumerate() {
            let before = k.checked_sub(1).and_then(|before| with_plan[before].stages);
            if before == segment.stages {
                continue;
            }
            let (x, bottom) = self.pixel(segment.from, self.y.from);
            if k > 0 {
                let _ = writeln!(out, "<path class=\"change\" d=\"M{x:.1} {top}V{bottom:.1}\"/>");
            }
            let stages = segment.stages.unwrap_or(0);
            let label = if k == 0 {
                format!("{stages} stages")
            } else {
                stages.to_string()
            };
            let label = if stages == 1 && k == 0 {
                "1 stage".to_owned()
            } else {
                label
            };
            if labels.takes(x, x + text_width(&label)) {
                let _ = writeln!(
                    out,
                    "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
                    top - 8.0
                );
            }
        }
        out
    }

    /// Bounds in ms at values from one end to the other, in steps where values are whole: what is proved, and what is known.
    fn samples(&self, bounds: &Curve) -> Vec<(f64, [f64; 2])> {
        let ms = |ns: f64| ns / NS_PER_MS;
        let at = |at: f64| (at, bounds.bounds_ns(at).map(ms));
        let by_value = |(at, ms): (f64, [f64; 2])| (bounds.easier.across(at), ms);
        if !bounds.is_whole {
            let place = |k: usize| self.x.value(k as f64 / SAMPLES as f64);
            let mut all: Vec<f64> = (1..SAMPLES).map(place).collect();
            all.extend(bounds.points.iter().map(|point| point.at));
            all.sort_by(f64::total_cmp);
            return all.into_iter().map(at).collect();
        }
        let mut all = Vec::new();
        for (k, point) in bounds.points.iter().enumerate() {
            all.push(at(point.at));
            let Some(next) = bounds.points.get(k + 1) else {
                continue;
            };
            if next.at > point.at + 1.0 {
                let (_, inside) = at(point.at + 1.0);
                all.push((point.at, inside));
                all.push((next.at, inside));
            } else {
                all.push((next.at, at(point.at).1));
            }
        }
        all.into_iter().map(by_value).collect()
    }

    /// Between what is proved and what is known.
    fn band(&self, curve: &AnswerCurve) -> String {
        let samples = self.samples(&curve.bounds);
        let known: Vec<_> = samples
            .iter()
            .filter(|(_, [lower, upper])| lower.is_finite() && upper.is_finite())
            .collect();
        if known.len() < 2 || curve.gap == Some(0.0) {
            return String::new();
        }
        let mut path = String::new();
        let above = known.iter().map(|(at, [_, upper])| (*at, *upper));
        let below = known.iter().rev().map(|(at, [lower, _])| (*at, *lower));
        for (k, (at, ms)) in above.chain(below).enumerate() {
            let (x, y) = self.pixel(at, ms);
            let _ = write!(path, "{}{x:.1} {y:.1}", if k == 0 { "M" } else { "L" });
        }
        format!("<path class=\"band\" d=\"{path}Z\"/>\n")
    }

    /// What the best known plan takes.
    fn curve(&self, curve: &AnswerCurve) -> String {
        let mut path = String::new();
        let mut is_down = false;
        for (at, [_, upper]) in self.samples(&curve.bounds) {
            if !upper.is_finite() {
                is_down = false;
                continue;
            }
            let (x, y) = self.pixel(at, upper);
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { "L" } else { "M" });
            is_down = true;
        }
        format!(
            "<path class=\"curve\" stroke-width=\"{:.1}\" d=\"{path}\"/>\n",
            self.stroke(curve)
        )
    }

    /// Of curves that lie on each other the later ones are thinner, so that all are seen.
    fn stroke(&self, curve: &AnswerCurve) -> f64 {
        const THIN: f64 = 2.2;
        const STEP: f64 = 1.0;
        let above = self
            .answer
            .curves
            .iter()
            .filter(|other| other.stages > curve.stages);
        THIN + STEP * above.count().min(5) as f64
    }

    /// Values that were asked, with what is known of them.
    fn dots(&self, curve: &AnswerCurve) -> String {
        /// Where there are more, they must not hide the curve.
        const MANY: usize = 24;
        let radius = if curve.points.len() > MANY { 1.9 } else { 3.4 };
        let mut out = String::new();
        for point in curve.points.iter().filter(|point| point.searched) {
            let Some(ms) = point.objective_ms else {
                continue;
            };
            let (x, y) = self.pixel(point.at, ms);
            let at = value(self.answer.parameter, point.at, Towards::Nearest);
            let _ = writeln!(
                out,
                "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{at}: {} ms in {} stages, {}</title></circle>",
                Digits::for_ms(ms).ms(ms),
                point.stages.unwrap_or(0),
                point.status,
            );
        }
        out
    }

    /// Names of curves, where there are several.
    fn legend(&self) -> String {
        let mut out = String::new();
        if self.answer.curves.len() < 2 {
            return out;
        }
        for (curve, &(row, x)) in self.answer.curves.iter().zip(&self.names) {
            let y = LEGEND + ROW * row as f64;
            let line = format!(
                "<path class=\"curve\" stroke-width=\"{:.1}\" d=\"M{x:.1} {:.1}H{:.1}\"/>",
                self.stroke(curve),
                y - 4.0,
                x + SAMPLE
            );
            out += &self.colored(curve, &line);
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                x + SAMPLE + BETWEEN,
                name(curve)
            );
        }
        out
    }
}

/// Length of a curve's sample beside its name.
const SAMPLE: f64 = 22.0;

/// What a curve is called.
fn name(curve: &AnswerCurve) -> String {
    match curve.stages.unwrap_or(0) {
        1 => "1 stage".to_owned(),
        stages => format!("{stages} stages"),
    }
}

/// Rows of names as wide as the picture.
fn places_of_names(answer: &Answer) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, MARGIN);
    let mut places = Vec::new();
    for curve in &answer.curves {
        let width = SAMPLE + BETWEEN + text_width(&name(curve));
        if x + width > WIDTH - MARGIN && x > MARGIN {
            (row, x) = (row + 1, MARGIN);
        }
        places.push((row, x));
        x += width + 3.0 * BETWEEN;
    }
    places
}

/// A time of an axis.
fn number(ms: f64) -> String {
    let text = format!("{ms:.6}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
