//! A plan as one page: its stages, its network with groups that open and close, and its timeline. No network, no other file.
//!
//! The tables and the timeline are there without the script; the network is laid out by it, since every group that opens makes
//! another picture.

mod data;
mod groups;

use std::fmt::Write;

use self::data::Data;
use super::Style;
use super::format::{Digits, bytes, count, devices, percent, prose};
use super::format::{escape_xml, shorten};
use super::palette::Colors;
use super::ranges::Ranges;
use super::stages::Busy;
use super::{cut_points, memory, passes, text};
use crate::model::instance::Instance;
use crate::model::options::Mode;
use crate::problem::plan::{Plan, PlanStage};
use crate::schedule::simulate::Simulation;

/// Colours, tables and paper, as all pages have them.
pub(crate) const BASE_STYLE: &str = include_str!("base.css");
/// Marks tables and pictures that go on to the right, in all pages.
pub(crate) const BASE_SCRIPT: &str = include_str!("base.js");

const STYLE: &str = include_str!("page.css");
/// One script, in files by concern; each uses those above it.
const SCRIPTS: [&str; 7] = [
    include_str!("tree.js"),
    include_str!("order.js"),
    include_str!("layout.js"),
    include_str!("grid.js"),
    include_str!("draw.js"),
    include_str!("view.js"),
    include_str!("controls.js"),
];

/// The page: UTF-8, well-formed as XML too, so that any parser reads it. The same input gives the same bytes.
///
/// The plan must be one of the instance. Without a plan it shows the network, and without a simulation no timeline.
pub fn page(instance: &Instance, plan: Option<&Plan>, simulation: Option<&Simulation>) -> String {
    let data = Data::new(instance, plan);
    let title = escape_xml(&match plan {
        Some(plan) => text::headline(plan, digits(plan)).replace('`', ""),
        None => format!("Network {}", instance.name),
    });
    let mut main = String::new();
    if let Some(plan) = plan.filter(|plan| !plan.stages.is_empty()) {
        main += &section("stages", "Stages", &table(instance, plan));
    }
    main += &section("network", "Network", &network(&data, plan));
    if let Some(simulation) = simulation {
        main += &section("timeline", "Timeline", &timeline(simulation));
    }
    if let Some(plan) = plan {
        main += &section("facts", "Facts", &facts(instance, plan));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/><meta name=\"color-scheme\" content=\"light dark\"/><link rel=\"icon\" \
         href=\"data:,\"/><title>{title}</title>\n<style>{BASE_STYLE}{STYLE}</style></head>\n<body><a class=\"skip\" \
         href=\"#main\">Skip to the plan</a>\n<header>{}</header>\n<main id=\"main\" tabindex=\"-1\">\n{main}</main>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>//<![CDATA[\n\"use strict\";\n{BASE_SCRIPT}{}\n\
         //]]></script>\n</body></html>\n",
        head(instance, plan, data.layers()),
        data.json(),
        SCRIPTS.concat(),
    )
}

fn digits(plan: &Plan) -> Digits {
    Digits::for_ms(plan.objective_ms.or(plan.bound_ms).unwrap_or(0.0))
}

fn section(name: &str, heading: &str, body: &str) -> String {
    format!(
        "<section id=\"{name}\" aria-labelledby=\"h-{name}\"><h2 id=\"h-{name}\">{heading}</h2>\n{body}</section>\n"
    )
}

/// The answer, what is proved of it, and what the reader should know.
fn head(instance: &Instance, plan: Option<&Plan>, layers: usize) -> String {
    let mut lines = Vec::new();
    let headline = match plan {
        Some(plan) => {
            lines.push(text::sentences(plan, digits(plan)));
            let notes = [
                memory::without_limit(instance, plan),
                passes::overrun(plan).map(|overrun| format!("memory: {overrun}")),
                plan.least_memory
                    .as_ref()
                    .map(|known| format!("memory: {}", memory::least(known))),
                cut_points::wide_tie(instance, plan),
            ];
            lines.extend(notes.into_iter().flatten());
            text::headline(plan, digits(plan))
        }
        None => {
            lines.push(format!(
                "{} without a plan; `stagecut solve` makes one.",
                count(layers, "layer")
            ));
            format!("Network `{}`", instance.name)
        }
    };
    let lines: String = lines
        .iter()
        .map(|line| format!("<p>{}</p>", prose(line)))
        .collect();
    format!(
        "<div class=\"top\"><h1>{}</h1><button type=\"button\" id=\"theme\" hidden=\"hidden\">Dark</button></div>{lines}",
        prose(&headline)
    )
}

/// A row a stage, with its share of the busiest as a bar.
fn table(instance: &Instance, plan: &Plan) -> String {
    let digits = digits(plan);
    let ranges = Ranges::new(instance, plan);
    // The bottleneck is marked in words here.
    let legend = text::legend(plan);
    let legend = legend.split_once(". ").map_or(legend, |(_, rest)| rest);
    let trains = plan.problem.mode.is_none_or(Mode::trains);
    let mut headings = vec![
        ("Stage", false),
        ("Device", false),
        ("Load ms", true),
        ("Share", false),
        ("Forward ms", true),
    ];
    if trains {
        headings.push(("Backward ms", true));
    }
    headings.extend([("Transfers ms", true), ("Memory", true), ("Layers", false)]);
    let mut out = String::from(
        "<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Stages\"><table><caption>Stages</caption><thead><tr>",
    );
    for (heading, is_number) in headings {
        let class = if is_number { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{heading}</th>");
    }
    out += "</tr></thead><tbody>\n";
    let busy = Busy::new(plan);
    for (at, stage) in plan.stages.iter().enumerate() {
        out += &row(plan, stage, (busy.share(at), busy.is_most(at)), digits, &ranges);
    }
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"note\">{}</p>",
        escape_xml(legend)
    );
    out
}

/// * `share`, `is_busiest`: how busy it is as a part of the busiest, and whether it is that.
fn row(
    plan: &Plan,
    stage: &PlanStage,
    (share, is_busiest): (f64, bool),
    digits: Digits,
    ranges: &Ranges,
) -> String {
    /// Columns of the list of layers.
    const LAYERS: usize = 64;
    /// And of the devices.
    const DEVICES: usize = 32;
    let colors = Colors::stage(stage.index);
    let (class, mark) = match is_busiest {
        true => (
            " class=\"busiest\"",
            "<span class=\"mark\" title=\"the bottleneck\">&#9668; bottleneck</span>",
        ),
        false => ("", ""),
    };
    let mut out = format!(
        "<tr{class}><th scope=\"row\"><button type=\"button\" class=\"stage\" data-stage=\"{index}\"><span class=\"swatch\" \
         style=\"background:{fill};border-color:{line}\"></span>{index}</button></th><td>{}</td>",
        escape_xml(&shorten(&devices(&stage.devices), DEVICES)),
        index = stage.index,
        fill = colors.fill,
        line = colors.line,
    );
    let _ = write!(
        out,
        "<td class=\"n\">{}</td><td class=\"share\"><span class=\"bar\"><span style=\"width:{:.2}%;background:{}\"></span></span>\
         {}{mark}</td>",
        digits.ms(stage.load_ms),
        100.0 * share,
        colors.line,
        percent(share),
    );
    let mut numbers = vec![digits.ms(stage.forward_ms)];
    if plan.problem.mode.is_none_or(Mode::trains) {
        numbers.push(digits.ms(stage.backward_ms));
    }
    numbers.extend([digits.ms(stage.communication_ms), bytes(stage.memory_bytes)]);
    for number in numbers {
        let _ = write!(out, "<td class=\"n\">{number}</td>");
    }
    let _ = writeln!(
        out,
        "<td class=\"layers\">{}</td></tr>",
        escape_xml(&ranges.text(stage, LAYERS)),
    );
    out
}

/// What the script draws on, and the controls for it.
fn network(data: &Data, plan: Option<&Plan>) -> String {
    let heavy = match plan.is_some_and(|plan| plan.stages.len() > 1) {
        true => " Heavy lines are tensors that go from stage to stage.",
        false => "",
    };
    format!(
        "<noscript><p>The drawing of the network needs a script; `stagecut show --format svg` makes one that does not.</p></noscript>\n\
         <div class=\"tools\" hidden=\"hidden\"><div class=\"search\"><input type=\"search\" id=\"search\" placeholder=\"Find a layer or group\" \
         aria-label=\"Find one of {} by name\" autocomplete=\"off\" spellcheck=\"false\" role=\"combobox\" aria-expanded=\"false\" \
         aria-controls=\"found\" aria-autocomplete=\"list\"/><ul id=\"found\" role=\"listbox\" aria-label=\"Found\" hidden=\"hidden\"></ul></div>\
         <button type=\"button\" id=\"expand\">Expand all</button><button type=\"button\" id=\"collapse\">Collapse all</button>\
         <button type=\"button\" id=\"fit\">Fit</button><button type=\"button\" id=\"out\" aria-label=\"Zoom out\">&#8722;</button>\
         <button type=\"button\" id=\"in\" aria-label=\"Zoom in\">+</button></div>\n\
         <div class=\"drawing\" hidden=\"hidden\"><svg id=\"canvas\" tabindex=\"0\" role=\"tree\" aria-label=\"Layers and groups\" \
         aria-describedby=\"keys\"><g id=\"view\"></g></svg><div id=\"about\" aria-live=\"polite\"></div></div>\n\
         <p class=\"note\" id=\"keys\">Data flow downwards in each stage.{heavy} Click a group to open it and its title to close it; drag to \
         pan, wheel or pinch to zoom. Keys: up and down go from box to box, right opens a group, left closes it, + and - zoom, 0 fits, \
         shift and an arrow pans.</p>\n",
        count(data.layers(), "layer"),
    )
}

/// The simulated run; a line below it says what lies under the pointer.
fn timeline(simulation: &Simulation) -> String {
    format!(
        "<div class=\"scroll lanes\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">{}</div>\n<p class=\"note\" \
         id=\"event\" aria-live=\"polite\">As simulated with {}; point at a box for its times.</p>\n",
        super::timeline(simulation),
        text::micro_batches(simulation.micro_batches),
    )
}

fn facts(instance: &Instance, plan: &Plan) -> String {
    let style = Style::default();
    let facts = text::facts(instance, plan, digits(plan), &style);
    let facts = facts.iter();
    let facts: String = facts
        .map(|(label, fact)| format!("<dt>{}</dt><dd>{}</dd>", escape_xml(label), prose(fact)))
        .collect();
    format!("<dl>{facts}</dl>\n")
}
