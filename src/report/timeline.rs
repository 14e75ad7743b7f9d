//! A simulated run as a picture: a lane a resource, a box an event.

use std::fmt::Write;

use super::format::{Digits, escape_xml, percent};
use super::palette::Colors;
use super::scene::text_width;
use super::simulation::headline;
use super::svg::INK;
use crate::simulate::{Activity, Event, Lane, Phase, Resource, Simulation};

/// Margin around everything, in pixels, as all lengths here.
const MARGIN: f64 = 24.0;
/// Of title and legend.
const HEADING: f64 = 78.0;
/// Of a worker's lane, and of a link's.
const WORKER_HEIGHT: f64 = 24.0;
const LINK_HEIGHT: f64 = 12.0;
/// Between lanes of one stage, and between stages.
const GAP: f64 = 3.0;
const STAGE_GAP: f64 = 12.0;
/// Of the axis.
const AXIS_HEIGHT: f64 = 34.0;
/// How wide the lanes are.
const LEAST_WIDTH: f64 = 720.0;
const MOST_WIDTH: f64 = 12_000.0;
/// A task of usual length is as wide as the number in it.
const TASK_WIDTH: f64 = 20.0;

/// A self-contained SVG: time to the right in ms, idle time light grey, micro-batches numbered from 1 where there is room.
///
/// The background is white whatever the reader's colour scheme. Time O(events).
pub(crate) fn timeline(simulation: &Simulation) -> String {
    let scene = Scene::new(simulation);
    let title = headline(simulation).replace('`', "");
    let lanes_bottom = scene.tops.last().map_or(HEADING, |&(top, height)| top + height);
    let width = (MARGIN + scene.labels + scene.width).max(MARGIN + 1.7 * text_width(&title)) + MARGIN;
    let height = lanes_bottom + AXIS_HEIGHT + MARGIN;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"11\" \
         fill=\"{INK}\" role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{title}</title>\n\
         <desc id=\"desc\">{}</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"38\" font-size=\"16\" font-weight=\"600\">{title}</text>",
        escape_xml(&description(simulation)),
        title = escape_xml(&title),
    );
    out += &legend(simulation);
    out += &scene.axis(lanes_bottom);
    out += &scene.lanes();
    out += &scene.events();
    out + "</svg>\n"
}

/// The picture in words.
fn description(simulation: &Simulation) -> String {
    let stages = simulation.stages.len();
    let period = match simulation.period_ms {
        Some(ms) => format!(" In steady state a micro-batch takes {ms} ms."),
        None => String::new(),
    };
    format!(
        "Timeline with one lane a resource of {stages} stages, time in ms to the right.{period} Workers are idle for {} of \
         the time.",
        percent(simulation.bubble_share)
    )
}

fn legend(simulation: &Simulation) -> String {
    let mut entries = vec![("forward", Colors::forward())];
    if simulation.mode.trains() {
        entries.push(("backward", Colors::backward()));
    }
    if simulation
        .events
        .iter()
        .any(|event| event.activity != Activity::Compute)
    {
        entries.push(("transfer", Colors::transfer()));
    }
    let mut x = MARGIN;
    let mut out = String::new();
    let entries = entries
        .into_iter()
        .map(|(name, colors)| (name, colors.fill, colors.line));
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
    simulation: &'a Simulation,
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
    fn new(simulation: &'a Simulation) -> Self {
        let mut lengths: Vec<f64> = simulation
            .events
            .iter()
            .filter(|event| event.activity == Activity::Compute)
            .map(|event| event.end_ms - event.start_ms)
            .collect();
        lengths.sort_by(f64::total_cmp);
        // The smaller half of the tasks has no numbers; tooltips tell.
        let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(1.0);
        let total = simulation.iteration_ms.max(f64::MIN_POSITIVE);
        let width = (TASK_WIDTH / usual * total).clamp(LEAST_WIDTH, MOST_WIDTH);
        let labels = simulation
            .resources
            .iter()
            .map(|lane| text_width(&label(simulation, lane)));
        let mut tops = Vec::new();
        let mut top = HEADING;
        let mut before = None;
        for lane in &simulation.resources {
            top += match before {
                Some(stage) if stage == lane.stage => GAP,
                _ => STAGE_GAP,
            };
            before = Some(lane.stage);
            let height = match is_link(lane.resource) {
                true => LINK_HEIGHT,
                false => WORKER_HEIGHT,
            };
            tops.push((top, height));
            top += height;
        }
        Self {
            simulation,
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
        for (lane, &(top, height)) in self.simulation.resources.iter().zip(&self.tops) {
            let size = if is_link(lane.resource) { 9 } else { 11 };
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"{size}\">{}</text>\
                 <rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{IDLE}\" \
                 fill-opacity=\"0.8\"><title>busy for {}</title></rect>",
                self.x(0.0) - 8.0,
                top + height / 2.0 + 0.35 * f64::from(size),
                escape_xml(&label(self.simulation, lane)),
                self.x(0.0),
                self.width,
                percent(lane.utilisation),
            );
        }
        out
    }

    fn events(&self) -> String {
        let mut out = String::from("<g text-anchor=\"middle\" stroke-width=\"0.6\">\n");
        // Events come lane by lane, in the order of the lanes.
        let mut lane = 0;
        for event in &self.simulation.events {
            let of = |lane: &Lane| lane.stage == event.stage && lane.resource == event.resource;
            while !of(&self.simulation.resources[lane]) {
                lane += 1;
            }
            out += &self.event(event, self.tops[lane]);
        }
        out + "</g>\n"
    }

    fn event(&self, event: &Event, (top, height): (f64, f64)) -> String {
        let digits = Digits::for_ms(self.simulation.iteration_ms);
        let colors = match (event.activity, event.phase) {
            (Activity::Compute, Phase::Forward) => Colors::forward(),
            (Activity::Compute, Phase::Backward) => Colors::backward(),
            _ => Colors::transfer(),
        };
        let phase = match event.phase {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
        };
        let doing = match event.activity {
            Activity::Receive => ", receiving",
            Activity::Compute => "",
            Activity::Send => ", sending",
        };
        let (from, to) = (self.x(event.start_ms), self.x(event.end_ms));
        let number = event.micro_batch.to_string();
        let size = if is_link(event.resource) { 8 } else { 10 };
        let mut out = format!(
            "<g><title>{phase} of micro-batch {number}{doing}&#10;{} to {} ms</title>\
             <rect x=\"{from:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{height:.1}\" fill=\"{}\" stroke=\"{}\"/>",
            digits.ms(event.start_ms),
            digits.ms(event.end_ms),
            to - from,
            colors.fill,
            colors.line,
        );
        if text_width(&number) + 3.0 <= to - from {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\">{number}</text>",
                (from + to) / 2.0,
                top + height / 2.0 + 0.35 * f64::from(size),
            );
        }
        out + "</g>\n"
    }

    /// Ticks at round times, with lines through the lanes.
    fn axis(&self, bottom: f64) -> String {
        let total = self.simulation.iteration_ms;
        let step = round_step(total * 80.0 / self.width);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let mut out = String::from("<g stroke=\"#bbbbbb\" stroke-width=\"0.8\">\n");
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

fn is_link(resource: Resource) -> bool {
    matches!(resource, Resource::LinkIn | Resource::LinkOut)
}

/// A worker's lane has the stage and its devices.
fn label(simulation: &Simulation, lane: &Lane) -> String {
    let stage = &simulation.stages[lane.stage - 1];
    let devices = match &stage.devices[..] {
        [] => String::new(),
        [device] => format!(", {device}"),
        [device, more @ ..] => format!(", {device} +{}", more.len()),
    };
    match lane.resource {
        Resource::Worker => format!("stage {}{devices}", lane.stage),
        Resource::Forward => format!("stage {}{devices}: forward", lane.stage),
        Resource::Backward => "backward".into(),
        Resource::LinkIn => "link in".into(),
        Resource::LinkOut => "link out".into(),
    }
}
