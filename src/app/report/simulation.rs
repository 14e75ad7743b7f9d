//! A simulated run as text, CSV and JSON.

use anstyle::Style as Ink;

use super::Style;
use super::csv::{pretty, to_csv};
use super::format::{Digits, percent, shorten, wrap};
use super::table::{Column, draw};
use super::text::{LABEL, micro_batches};
use super::times::times;
use crate::model::options::Objective;
use crate::schedule::simulate::{Lane, OrderName, Resource, Simulation, StageInFlight};

/// The text report of a simulation, at most `style.width` columns wide where that is enough for the numbers.
pub(crate) fn simulation(simulation: &Simulation, style: &Style) -> String {
    let digits = Digits::for_ms(simulation.iteration_ms);
    let mut out = wrap(&headline(simulation), style.width, 0) + "\n\n";
    out += &draw(&columns(simulation), style.color, |_| None, |_| Ink::new());
    out.push('\n');
    for (label, fact) in facts(simulation, digits) {
        out += &wrap(&format!("{label:<LABEL$}{fact}"), style.width, LABEL);
        out.push('\n');
    }
    out + &times(&simulation.times, style)
}

/// Every event as CSV.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub(crate) fn simulation_csv(simulation: &Simulation) -> Result<String, ::csv::Error> {
    to_csv(&simulation.events)
}

/// A simulation as JSON, with all of its events.
pub(crate) fn simulation_json(simulation: &Simulation) -> String {
    pretty(simulation)
}

/// What was run, and how long it took.
pub(super) fn headline(simulation: &Simulation) -> String {
    format!(
        "Simulation of `{}`: {} by `{}` in {} ms",
        simulation.instance,
        micro_batches(simulation.micro_batches),
        simulation.schedule,
        Digits::for_ms(simulation.iteration_ms).ms(simulation.iteration_ms)
    )
}

/// A row a stage: how busy its resources were, and what it held.
fn columns(simulation: &Simulation) -> Vec<Column> {
    /// More characters than this of the devices push out what matters more.
    const MOST_OF_DEVICES: usize = 20;
    let cells =
        |cell: &dyn Fn(&StageInFlight) -> String| simulation.stages.iter().map(cell).collect::<Vec<_>>();
    let mut columns = vec![
        Column::numbers("stage", "", cells(&|stage| stage.stage.to_string())),
        Column::words(
            "device",
            cells(&|stage| shorten(&stage.devices.join(" "), MOST_OF_DEVICES)),
        ),
    ];
    if simulation.stages.iter().any(|stage| stage.replicas > 1) {
        let replicas = |stage: &StageInFlight| stage.replicas.to_string();
        columns.push(Column::numbers("replicas", "", cells(&replicas)));
    }
    for (resource, heading) in RESOURCES {
        let of = |stage: &StageInFlight| {
            let is_of = |lane: &&Lane| lane.stage == stage.stage && lane.resource == resource;
            let lanes = simulation.resources.iter().filter(is_of);
            lanes.map(|lane| lane.utilisation).collect::<Vec<_>>()
        };
        if simulation.stages.iter().any(|stage| !of(stage).is_empty()) {
            // Replicas take turns, and differ by a micro-batch at most.
            let share = |stage: &StageInFlight| match &of(stage)[..] {
                [] => String::new(),
                each => format!("{:.1}", 100.0 * each.iter().sum::<f64>() / each.len() as f64),
            };
            columns.push(Column::numbers(heading, "% busy", cells(&share)));
        }
    }
    if simulation.mode.trains() {
        let held = |stage: &StageInFlight| stage.most_in_flight.to_string();
        columns.push(Column::numbers("in flight", "at most", cells(&held)));
    }
    columns
}

const RESOURCES: [(Resource, &str); 5] = [
    (Resource::Worker, "worker"),
    (Resource::Forward, "forward"),
    (Resource::Backward, "backward"),
    (Resource::LinkIn, "link in"),
    (Resource::LinkOut, "link out"),
];

fn facts(simulation: &Simulation, digits: Digits) -> Vec<(&'static str, String)> {
    let ms = |ms: f64| format!("{} ms", digits.ms(ms));
    let fine = Digits::for_ms(simulation.least_period_ms);
    let fine_ms = |ms: f64| format!("{} ms", fine.ms(ms));
    let formula = simulation.formula_iteration_ms;
    let formula = formula.map_or_else(String::new, |value| {
        format!("; {} by the standard formula", ms(value))
    });
    let each = fine_ms(simulation.iteration_ms / simulation.micro_batches as f64);
    let mut facts = vec![
        (
            "iteration",
            format!("{}, {each} a micro-batch{formula}", ms(simulation.iteration_ms)),
        ),
        ("period", period(simulation, &fine_ms)),
    ];
    if let Some(objective) = simulation.objective_ms {
        let planned = match simulation.objective {
            Objective::Period | Objective::Tokens => format!("{} (period)", fine_ms(objective)),
            Objective::Iteration => format!("{} (iteration)", ms(objective)),
            Objective::Latency => format!("{} (latency of one micro-batch)", ms(objective)),
            Objective::Formula => format!("{} (iteration by the formula)", ms(objective)),
        };
        facts.push(("plan", planned));
    }
    facts.push((
        "bubbles",
        format!("{} of the workers' time", percent(simulation.bubble_share)),
    ));
    let beyond = |stage: &&StageInFlight| stage.standard_in_flight.is_some_and(|n| stage.most_in_flight > n);
    let beyond: Vec<String> = simulation
        .stages
        .iter()
        .filter(beyond)
        .map(|stage| stage.stage.to_string())
        .collect();
    if !beyond.is_empty() {
        let plural = if beyond.len() == 1 { "" } else { "s" };
        let than = match simulation.schedule {
            OrderName::Schedule(_) => {
                "the schedule's standard, to hide transfers; `--in-flight standard` forbids it"
            }
            OrderName::Rule(_) => "the plan has counted memory for",
        };
        facts.push((
            "in flight",
            format!(
                "stage{plural} {} held more micro-batches than {than}",
                beyond.join(", ")
            ),
        ));
    }
    facts
}

fn period(simulation: &Simulation, ms: &dyn Fn(f64) -> String) -> String {
    let least = format!("busiest resource {}", ms(simulation.least_period_ms));
    match simulation.period_ms {
        Some(period) if simulation.period_is_exact => format!("{} in steady state; {least}", ms(period)),
        Some(period) => format!("{} on average, not periodic; {least}", ms(period)),
        None if matches!(simulation.schedule, OrderName::Rule(_)) => {
            format!("none, since the order is that of one iteration; {least}, which no order can beat")
        }
        None if simulation.schedule.is_all_forward_first() => {
            format!("none, since every iteration is flushed; {least}, which no schedule can beat")
        }
        None => format!("not measured, too few micro-batches for a steady state; {least}"),
    }
}
