//! The report as one page: no network, no other file, one script.
//!
//! Everything is there without the script but sorting, values under the pointer, and the drawings, which are compressed.

mod drawings;
mod plot;
mod plots;

use std::fmt::Write;

use self::drawings::{Drawing, drawings, packed};
use super::report::{Source, finding, headline, worst};
use super::summary::Summary;
use super::table::{Cell, Table};
use super::tables::tables;
use crate::app::report::format::{escape_xml, prose};
use crate::app::report::{BASE_SCRIPT, BASE_STYLE};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Rows of a table that a page can hold; the CSV has all.
const MOST_ROWS: usize = 600;
/// Rows of a table that is shown at once.
const SHORT: usize = 40;
/// Characters of all drawings together, so that the page stays well below 5 MB.
const MOST_DRAWN: usize = 3_500_000;
/// Tables that are shown as plots instead.
const PLOTTED: [&str; 3] = ["quality", "speed", "gaps"];

/// The page: UTF-8, well-formed as XML too, so that any parser reads it.
pub(crate) fn page(summary: &Summary, source: &Source) -> String {
    let title = escape_xml(source.title());
    let tables = tables(summary);
    let shown: Vec<Table> = tables
        .into_iter()
        .filter(|table| !PLOTTED.contains(&table.name))
        .collect();
    let plots = plots::plots(summary);
    let mut links = String::new();
    let mut main = String::new();
    let mut section = |name: &str, heading: &str, body: &str| {
        let _ = write!(links, "<li><a href=\"#{name}\">{}</a></li>", escape_xml(heading));
        let _ = write!(
            main,
            "<section id=\"{name}\" aria-labelledby=\"h-{name}\"><h2 id=\"h-{name}\">{}</h2>\n{body}</section>\n",
            escape_xml(heading)
        );
    };
    for table in shown.iter().filter(|table| table.name == "methods") {
        section(table.name, table.title, &self::table(table));
    }
    let figures: String = plots.iter().map(plot::Plot::html).collect();
    section(
        "plots",
        "Plots",
        &format!("<div class=\"plots\">\n{figures}</div>\n"),
    );
    let worst = worst(summary, source);
    section(worst.name, worst.title, &table(&worst));
    let drawn: String = drawn(drawings(summary, source));
    if !drawn.is_empty() {
        section("instances", "Instances", &drawn);
    }
    for table in shown.iter().filter(|table| table.name != "methods") {
        section(table.name, table.title, &self::table(table));
    }
    let description = source.study.map_or("", |study| &study.description);
    let mut head = format!("<p>{}</p>", escape_xml(description));
    if let Some(finding) = finding(summary) {
        let _ = write!(head, "<p class=\"finding\">{}</p>", prose(&finding));
    }
    for line in headline(summary) {
        let class = if line.starts_with("CONTRADICTION") {
            " class=\"wrong\""
        } else {
            ""
        };
        let _ = write!(head, "<p{class}>{}</p>", prose(&line));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/><meta name=\"color-scheme\" content=\"light dark\"/><link rel=\"icon\" \
         href=\"data:,\"/><title>{title}</title>\n<style>{BASE_STYLE}{STYLE}</style></head>\n<body><a class=\"skip\" href=\"#main\">Skip to \
         the results</a>\n<header><div class=\"top\"><h1>{title}</h1><button type=\"button\" id=\"theme\" hidden=\"hidden\">\
         Dark</button></div>{head}<nav aria-label=\"Contents\"><ul>{links}</ul></nav></header>\n\
         <main id=\"main\" tabindex=\"-1\">\n{main}</main>\n<script>//<![CDATA[\n\"use strict\";\n{BASE_SCRIPT}{SCRIPT}\n//]]></script>\n</body></html>\n"
    )
}

/// A table whose headings sort it.
fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", prose(&table.note));
    }
    let left_out = table.rows.len().saturating_sub(MOST_ROWS);
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{left_out} more rows are in {}.csv.</p>",
            table.name
        );
    }
    // A long table is opened by who wants it.
    let is_long = table.rows.len() > SHORT;
    if is_long {
        let _ = write!(
            out,
            "<details><summary>{} rows</summary>",
            table.rows.len() - left_out
        );
    }
    let title = escape_xml(table.title);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table data-name=\"{}\"><caption>{title}</caption>\
         <thead><tr>",
        table.name
    );
    for (at, (_, heading)) in table.columns.iter().enumerate() {
        let class = match table.rows.iter().all(|row| row[at].is_number()) {
            true => " class=\"n\"",
            false => "",
        };
        let _ = write!(
            out,
            "<th scope=\"col\"{class}><button type=\"button\">{}</button></th>",
            escape_xml(heading)
        );
    }
    out += "</tr></thead><tbody>\n";
    for row in table.rows.iter().take(MOST_ROWS) {
        out += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            out += &shown(cell, at == 0);
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    match is_long {
        true => out + "</details>\n",
        false => out,
    }
}

/// A cell of a table; the first of a row is its heading.
fn shown(cell: &Cell, is_heading: bool) -> String {
    let text = escape_xml(&cell.text());
    match cell {
        Cell::Word(_) if is_heading => format!("<th scope=\"row\">{text}</th>"),
        Cell::Word(word) if word.starts_with("stagecut ") => format!("<td><code>{text}</code></td>"),
        Cell::Word(word) => format!("<td>{}</td>", prose(word)),
        Cell::Empty => "<td class=\"n\">-</td>".into(),
        Cell::Count(count) => format!("<td class=\"n\" data-v=\"{count}\">{text}</td>"),
        Cell::Number(value, _) => format!("<td class=\"n\" data-v=\"{value}\">{text}</td>"),
        // Where room is scarce, a range breaks between its ends.
        Cell::Range(range, _) => format!(
            "<td class=\"n\" data-v=\"{}\" data-low=\"{}\"><span>{}</span></td>",
            range.high,
            range.low,
            text.replace(" to ", "</span> <span>to ")
        ),
        Cell::Tally([wins, ties, losses]) => format!(
            "<td class=\"n\" data-v=\"{wins}\" data-ties=\"{ties}\" data-losses=\"{losses}\">{text}</td>"
        ),
    }
}

/// Drawings that open on demand, as many as the page can hold.
fn drawn(drawings: Vec<Drawing>) -> String {
    let mut out = String::new();
    for drawing in drawings {
        let network = packed(&drawing.network);
        let timeline = drawing.timeline.as_deref().map(packed).unwrap_or_default();
        if out.len() + network.len() + timeline.len() > MOST_DRAWN {
            out += "<p class=\"note\">Further instances would make this page too large.</p>\n";
            break;
        }
        let _ = write!(
            out,
            "<details class=\"drawing\"><summary>{}</summary><p>{}</p>",
            escape_xml(&drawing.title),
            escape_xml(&drawing.caption)
        );
        for (what, data) in [("Network", network), ("Timeline", timeline)] {
            if !data.is_empty() {
                let _ = write!(
                    out,
                    "<div class=\"scroll picture\" tabindex=\"0\" role=\"region\" aria-label=\"{what} of {}\" data-svg=\"{data}\">\
                     <noscript>The drawing needs a script.</noscript></div>",
                    escape_xml(&drawing.title)
                );
            }
        }
        out += "</details>\n";
    }
    out
}
