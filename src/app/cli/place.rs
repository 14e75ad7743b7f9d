//! `place`.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::check;
use crate::exact::placement::{self, Found, Method};
use crate::problem::control::Control;
use crate::problem::placement::{Proof, SINK, SOURCE, Serving, tokens_per_s};
use crate::problem::plan::StoppedBy;

use super::args::{PlaceArgs, PlaceMethod, ReportFormat};
use super::progress::{StatusLine, catch_interrupts, interrupt_control};
use super::{CliError, Ending, output};

/// Reports say which version they are of.
const SCHEMA: &str = "stagecut-placement/1";

/// A placement as programs read it.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    name: &'a str,
    layers: usize,
    status: Proof,
    stopped_by: StoppedBy,
    seconds: f64,
    tokens_per_s: Option<f64>,
    bound_tokens_per_s: f64,
    /// The bound over the tokens, less 1.
    gap: Option<f64>,
    /// Why there is no placement.
    reason: Option<String>,
    placement: Vec<Machine>,
    flows: Vec<Sent>,
    /// Tokens a second of published rules.
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Machine {
    machine: String,
    kind: String,
    start: usize,
    layers: usize,
    tokens_per_s: f64,
}

#[derive(Serialize)]
struct Sent {
    from: String,
    to: String,
    tokens_per_s: f64,
}

#[derive(Serialize)]
struct Rule {
    name: &'static str,
    tokens_per_s: f64,
}

/// Places layers on machines and reports it, once the checker has accepted it.
pub(super) fn place(args: &PlaceArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.as_deref())?;
    let format = output::format_of(args.output.as_deref(), args.format, ReportFormat::Text)?;
    let serving = Serving::read(&args.problem)?;
    catch_interrupts();
    let line = StatusLine::new(args.quiet);
    let control = Control {
        time_limit: args.time_limit.map(Duration::from_secs_f64),
        ..interrupt_control()
    };
    let show = |rate: u64, bound: u64| line.show(|| progress(&control, rate, bound));
    let found = placement::solve(&serving, args.method.into(), &control, &show);
    line.clear();
    let found = found?;
    if let Some(fault) = check::placement_fault(&serving, &found.placement) {
        return Err(CliError::bad_plan(fault));
    }
    let report = report(&serving, &found, control.seconds());
    let text = match format {
        ReportFormat::Json => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        ReportFormat::Text => text(&serving, &report),
    };
    output::write(&text, args.output.as_deref())?;
    if let (Some(reason), false) = (
        &report.reason,
        args.quiet || (format == ReportFormat::Text && args.output.is_none()),
    ) {
        output::note(reason);
    }
    Ok(match found.proof {
        Proof::Optimal | Proof::Feasible => Ending::Done,
        Proof::Infeasible => Ending::Infeasible,
        Proof::Unknown => Ending::NothingFound,
    })
}

impl From<PlaceMethod> for Method {
    fn from(asked: PlaceMethod) -> Self {
        match asked {
            PlaceMethod::Sweep => Self::Sweep,
            PlaceMethod::Program => Self::Program,
        }
    }
}

fn progress(control: &Control, rate: u64, bound: u64) -> String {
    let seconds = control.seconds();
    let (plan, most) = (tokens_per_s(rate), tokens_per_s(bound));
    match bound {
        u64::MAX => format!("{seconds:.1} s  {plan:.1} tokens/s  no bound yet"),
        _ => format!("{seconds:.1} s  {plan:.1} tokens/s  at most {most:.1}  Ctrl-C keeps the placement"),
    }
}

fn report<'a>(serving: &'a Serving, found: &Found, seconds: f64) -> Report<'a> {
    let held = &found.placement.held;
    let names = serving.names(held);
    let end =
        |machine: Option<usize>, outside: &str| machine.map_or(outside.to_owned(), |i| names[i].clone());
    let passes = |machine: usize| {
        let into = found
            .placement
            .flows
            .iter()
            .filter(|flow| flow.to == Some(machine));
        tokens_per_s(into.map(|flow| flow.rate).sum())
    };
    let (rate, bound) = (found.placement.rate, found.bound);
    let is_there = rate > 0;
    Report {
        schema: SCHEMA,
        name: &serving.name,
        layers: serving.layers,
        status: found.proof,
        stopped_by: found.stopped_by,
        seconds,
        tokens_per_s: is_there.then(|| tokens_per_s(rate)),
        bound_tokens_per_s: tokens_per_s(bound),
        gap: is_there.then(|| (bound - rate) as f64 / rate as f64),
        reason: reason(serving, found.proof),
        placement: held
            .iter()
            .enumerate()
            .map(|(i, own)| Machine {
                machine: names[i].clone(),
                kind: serving.kinds[own.kind].name.clone(),
                start: own.start,
                layers: own.layers,
                tokens_per_s: passes(i),
            })
            .collect(),
        flows: found
            .placement
            .flows
            .iter()
            .map(|flow| Sent {
                from: end(flow.from, SOURCE),
                to: end(flow.to, SINK),
                tokens_per_s: tokens_per_s(flow.rate),
            })
            .collect(),
        rules: found
            .rules
            .iter()
            .map(|&(name, rate)| Rule {
                name,
                tokens_per_s: tokens_per_s(rate),
            })
            .collect(),
    }
}

/// Why there is no placement, where none was found.
fn reason(serving: &Serving, proof: Proof) -> Option<String> {
    let (machines, most, layers) = (serving.machines(), serving.most_layers(), serving.layers);
    match proof {
        Proof::Optimal | Proof::Feasible => None,
        Proof::Unknown => Some("no placement found yet: a limit came first".into()),
        Proof::Infeasible if most < layers => Some(format!(
            "no placement: {machines} machines hold at most {most} of {layers} layers"
        )),
        Proof::Infeasible => Some(format!(
            "no placement: no chain of the {machines} machines passes all {layers} layers"
        )),
    }
}

fn text(serving: &Serving, report: &Report) -> String {
    let mut text = format!(
        "{}: {} layers on {} machines\n",
        report.name,
        report.layers,
        serving.machines()
    );
    let mut line = |line: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{line}");
    };
    match (report.tokens_per_s, &report.reason) {
        (Some(tokens), _) if report.status == Proof::Optimal => {
            line(format!(
                "optimal: {tokens:.3} tokens/s, proved in {:.3} s",
                report.seconds
            ));
        }
        (Some(tokens), _) => line(format!(
            "feasible: {tokens:.3} tokens/s, at most {:.3}: {:.2} % more; {:.3} s",
            report.bound_tokens_per_s,
            100.0 * report.gap.unwrap_or(0.0),
            report.seconds
        )),
        (None, Some(reason)) => line(reason.clone()),
        (None, None) => {}
    }
    if !report.placement.is_empty() {
        line(format!("\n{:<16} {:<14} {:>12}", "machine", "layers", "tokens/s"));
    }
    for machine in &report.placement {
        let layers = format!(
            "{}-{} ({})",
            machine.start,
            machine.start + machine.layers - 1,
            machine.layers
        );
        line(format!(
            "{:<16} {layers:<14} {:>12.3}",
            machine.machine, machine.tokens_per_s
        ));
    }
    let idle = serving.machines() - report.placement.len();
    if idle > 0 && report.tokens_per_s.is_some() {
        line(format!("{idle} machines are left over"));
    }
    for rule in report.rules.iter().filter(|rule| rule.tokens_per_s > 0.0) {
        line(format!("rule `{}`: {:.3} tokens/s", rule.name, rule.tokens_per_s));
    }
    text
}
