//! Lanes of boxes over time, as a picture: what simulated runs and schedules are drawn as.

use std::fmt::Write;

use super::format::{escape_xml, percent};
use super::palette::Colors;
use super::scene::text_width;
use super::svg::INK;

/// Margin around everything, in pixels, as all lengths here.
const MARGIN: f64 = 24.0;
/// Of title and legend.
const HEADING: f64 = 78.0;
/// Of a worker's lane, and of a link's.
const WORKER_HEIGHT: f64 = 24.0;
const LINK_HEIGHT: f64 = 12.0;
/// Between lanes of one group, and between groups.
const GAP: f64 = 3.0;
const GROUP_GAP: f64 = 12.0;
/// Of the axis.
const AXIS_HEIGHT: f64 = 34.0;
/// How wide the lanes are.
const LEAST_WIDTH: f64 = 720.0;
const MOST_WIDTH: f64 = 12_000.0;
/// A task of usual length is as wide as the number in it.
const TASK_WIDTH: f64 = 20.0;

/// What is drawn.
pub(super) struct Lanes {
    /// What it shows.
    pub title: String,
    /// The same in words, for those who do not see it.
    pub description: String,
    /// Names of colours.
    pub legend: Vec<(&'static str, Colors)>,
    /// From top to bottom.
    pub lanes: Vec<Lane>,
    /// In any order.
    pub boxes: Vec<Task>,
    /// How long all of it takes.
    pub total_ms: f64,
}

/// One lane.
pub(super) struct Lane {
    /// What it is of.
    pub label: String,
    /// Lanes of one group stand close together.
    pub group: (usize, usize),
    /// Lanes of links are lower than those of workers.
    pub is_link: bool,
    /// Its share of the time with something to do.
    pub utilisation: f64,
}

/// A box in a lane.
pub(super) struct Task {
    /// The lane, by position.
    pub lane: usize,
    /// From then.
    pub start_ms: f64,
    /// Till then.
    pub end_ms: f64,
    /// How it is filled.
    pub colors: Colors,
    /// What stands in it where there is room.
    pub text: String,
    /// What a reader who points at it is told.
    pub tooltip: String,
    /// Whether its length counts for how wide the picture is.
    pub is_work: bool,
}

/// A self-contained SVG: time to the right in ms, idle time light grey, texts where there is room.
///
/// The background is white whatever the reader's colour scheme. Time O(n log n) for n boxes.
pub(super) fn draw(of: &Lanes) -> String {
    let scene = Scene::new(of);
    let title = &of.title;
    let lanes_bottom = scene.tops.last().map_or(HEADING, |&(top, height)| top + height);
    let width = (MARGIN + scene.labels + scene.width).max(MARGIN + 1.7 * text_width(title)) + MARGIN;
    let height = lanes_bottom + AXIS_HEIGHT + MARGIN;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"11\" \
         fill=\"{INK}\" role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{title}</title>\n\
         <desc id=\"desc\">{}</desc>\n<rect class=\"back\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"38\" font-size=\"16\" font-weight=\"600\">{title}</text>",
        escape_xml(&of.description),
        title = escape_xml(title),
    );
    out += &legend(&of.legend);
    out += &scene.axis(lanes_bottom);
    out += &scene.lanes();
    out += &scene.boxes();
    out + "</svg>\n"
}

fn legend(entries: &[(&'static str, Colors)]) -> String {
    let mut x = MARGIN;
    let mut out = String::new();
    let entries = entries
        .iter()
        .map(|(name, colors)| (*name, colors.fill.clone(), colors.line.clone()));
    for (name, fill, line) in entries.chain([("idle", IDLE.to_owned(), IDLE_LINE.to_owned())]) {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"51\" width=\"14\" height=\"14\" rx=\"2\" fill=\"{fill}\" stroke=\"{line}\"/>\
             <text x=\"{:.1}\" y=\"62\">{name}</text>",
            x + 20.0
        );
        x += 20.0 + text_width(name) + 20.0;
    }
    out
}

/// Colours of idle time.
const IDLE: &str = "#eeeeee";
const IDLE_LINE: &str = "#cccccc";

struct Scene<'a> {
    of: &'a Lanes,
    /// Room for the names of lanes.
    labels: f64,
    /// Of the lanes.
    width: f64,
    /// Pixels a ms.
    scale: f64,
    /// Top and height of every lane.
    tops: Vec<(f64, f64)>,
}

impl<'a> Scene<'a> {
    fn new(of: &'a Lanes) -> Self {
        let work = of.boxes.iter().filter(|task| task.is_work);
        let mut lengths: Vec<f64> = work.map(|task| task.end_ms - task.start_ms).collect();
        lengths.sort_by(f64::total_cmp);
        // The smaller half of the tasks has no numbers; tooltips tell.
        let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(1.0);
        let total = of.total_ms.max(f64::MIN_POSITIVE);
        let width = (TASK_WIDTH / usual * total).clamp(LEAST_WIDTH, MOST_WIDTH);
        let labels = of.lanes.iter().map(|lane| text_width(&lane.label));
        let mut tops = Vec::new();
        let mut top = HEADING;
        let mut before = None;
        for lane in &of.lanes {
            top += match before {
                Some(group) if group == lane.group => GAP,
                _ => GROUP_GAP,
            };
            before = Some(lane.group);
            let height = match lane.is_link {
                true => LINK_HEIGHT,
                false => WORKER_HEIGHT,
            };
            tops.push((top, height));
            top += height;
        }
        Self {
            of,
            labels: labels.fold(0.0, f64::max) + 12.0,
            width,
            scale: width / total,
            tops,
        }
    }

    fn x(&self, ms: f64) -> f64 {
        MARGIN + self.labels + self.scale * ms
    }

    /// Names and idle time.
    fn lanes(&self) -> String {
        let mut out = String::new();
        for (lane, &(top, height)) in self.of.lanes.iter().zip(&self.tops) {
            let size = if lane.is_link { 9 } else { 11 };
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"{size}\">{}</text>\
                 <rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" class=\"idle\" fill=\"{IDLE}\" \
                 fill-opacity=\"0.8\"><title>busy for {}</title></rect>",
                self.x(0.0) - 8.0,
                top + height / 2.0 + 0.35 * f64::from(size),
                escape_xml(&lane.label),
                self.x(0.0),
                self.width,
                percent(lane.utilisation),
            );
        }
        out
    }

    fn boxes(&self) -> String {
        let mut out = String::from("<g class=\"tasks\" text-anchor=\"middle\" stroke-width=\"0.6\">\n");
        for task in &self.of.boxes {
            out += &self.task(task);
        }
        out + "</g>\n"
    }

    fn task(&self, task: &Task) -> String {
        let (top, height) = self.tops[task.lane];
        let (from, to) = (self.x(task.start_ms), self.x(task.end_ms));
        let size = if self.of.lanes[task.lane].is_link { 8 } else { 10 };
        let mut out = format!(
            "<g><title>{}</title>\
             <rect x=\"{from:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{height:.1}\" fill=\"{}\" stroke=\"{}\"/>",
            task.tooltip,
            to - from,
            task.colors.fill,
            task.colors.line,
        );
        if text_width(&task.text) + 3.0 <= to - from {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\">{}</text>",
                (from + to) / 2.0,
                top + height / 2.0 + 0.35 * f64::from(size),
                task.text,
            );
        }
        out + "</g>\n"
    }

    /// Ticks at round times, with lines through the lanes.
    fn axis(&self, bottom: f64) -> String {
        let total = self.of.total_ms;
        let step = round_step(total * 80.0 / self.width);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let mut out = String::from("<g class=\"axis\" stroke=\"#bbbbbb\" stroke-width=\"0.8\">\n");
        let mut numbers = String::from("<g text-anchor=\"middle\">\n");
        let ticks = (total / step).floor() as usize;
        for tick in 0..=ticks {
            let ms = tick as f64 * step;
            let x = self.x(ms);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
                HEADING + 4.0,
                bottom + 8.0
            );
            let unit = if tick == 0 { " ms" } else { "" };
            let _ = writeln!(
                numbers,
                "<text x=\"{x:.1}\" y=\"{:.1}\">{ms:.digits$}{unit}</text>",
                bottom + 21.0
            );
        }
        out + "</g>\n" + &numbers + "</g>\n"
    }
}

/// The least of 1, 2 and 5 times a power of ten that is no smaller.
fn round_step(least: f64) -> f64 {
    let least = least.max(1e-6);
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|&step| step >= least)
        .unwrap_or(10.0 * power)
}
