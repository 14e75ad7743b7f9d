//! A simulated run as a picture: a lane a resource, a box an event.

use super::format::{Digits, percent};
use super::lanes::{self, Lanes, Task};
use super::palette::Colors;
use super::phases;
use super::simulation::headline;
use crate::schedule::simulate::{Activity, Event, Lane, OrderName, Phase, Resource, Simulation};

/// A self-contained SVG, micro-batches numbered from 1. Time O(events).
pub(crate) fn timeline(simulation: &Simulation) -> String {
    lanes::draw(&Lanes {
        title: headline(simulation).replace('`', ""),
        description: description(simulation),
        legend: legend(simulation),
        lanes: lanes_of(simulation),
        boxes: boxes(simulation),
        total_ms: simulation.iteration_ms,
    })
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

fn legend(simulation: &Simulation) -> Vec<(&'static str, Colors)> {
    let mut found = vec![Phase::Forward];
    if simulation.mode.trains() {
        let splits = matches!(simulation.schedule, OrderName::Rule(_));
        found.extend(match splits {
            true => &[Phase::InputGradient, Phase::WeightGradient][..],
            false => &[Phase::Backward],
        });
    }
    let entry = |phase: Phase| (phases::name(phase), phases::colors(phase));
    let mut entries: Vec<_> = found.into_iter().map(entry).collect();
    if simulation
        .events
        .iter()
        .any(|event| event.activity != Activity::Compute)
    {
        entries.push(("transfer", Colors::transfer()));
    }
    entries
}

fn lanes_of(simulation: &Simulation) -> Vec<lanes::Lane> {
    let lane = |lane: &Lane| lanes::Lane {
        label: label(simulation, lane),
        group: (lane.stage, lane.replica),
        is_link: matches!(lane.resource, Resource::LinkIn | Resource::LinkOut),
        utilisation: lane.utilisation,
    };
    simulation.resources.iter().map(lane).collect()
}

fn boxes(simulation: &Simulation) -> Vec<Task> {
    // Events come lane by lane, in the order of the lanes.
    let mut lane = 0;
    let task = |event: &Event| {
        let of = |lane: &Lane| {
            (lane.stage, lane.replica, lane.resource) == (event.stage, event.replica, event.resource)
        };
        while !of(&simulation.resources[lane]) {
            lane += 1;
        }
        task(simulation, event, lane)
    };
    simulation.events.iter().map(task).collect()
}

fn task(simulation: &Simulation, event: &Event, lane: usize) -> Task {
    let digits = Digits::for_ms(simulation.iteration_ms);
    let colors = match event.activity {
        Activity::Compute => phases::colors(event.phase),
        Activity::Receive | Activity::Send => Colors::transfer(),
    };
    let phase = phases::name(event.phase);
    let doing = match event.activity {
        Activity::Receive => ", receiving",
        Activity::Compute => "",
        Activity::Send => ", sending",
    };
    Task {
        lane,
        start_ms: event.start_ms,
        end_ms: event.end_ms,
        colors,
        text: event.micro_batch.to_string(),
        tooltip: format!(
            "{phase} of micro-batch {}{doing}&#10;{} to {} ms",
            event.micro_batch,
            digits.ms(event.start_ms),
            digits.ms(event.end_ms)
        ),
        is_work: event.activity == Activity::Compute,
    }
}

/// A worker's lane has the stage, its replica where there are several, and the devices.
fn label(simulation: &Simulation, lane: &Lane) -> String {
    let stage = &simulation.stages[lane.stage - 1];
    let each = stage.devices.len() / stage.replicas;
    let name = match stage.replicas {
        1 => format!("stage {}", lane.stage),
        _ => format!("stage {} replica {}", lane.stage, lane.replica),
    };
    let devices = match &stage.devices[(lane.replica - 1) * each..lane.replica * each] {
        [] => String::new(),
        [device] => format!(", {device}"),
        [device, more @ ..] => format!(", {device} +{}", more.len()),
    };
    match lane.resource {
        Resource::Worker => format!("{name}{devices}"),
        Resource::Forward => format!("{name}{devices}: forward"),
        Resource::Backward => "backward".into(),
        Resource::LinkIn => "link in".into(),
        Resource::LinkOut => "link out".into(),
    }
}
