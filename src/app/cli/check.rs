//! `check`.

use std::path::Path;

use serde::Serialize;

use crate::app::flags::as_flags;
use crate::app::report::format::count;
use crate::check::{Posed, Verdict, Violation, pose};
use crate::input::import::{CLUSTER_PRESETS, read_cluster};
use crate::input::read::OWN_CLUSTER;
use crate::model::efficiency::Efficiency;
use crate::model::fault::printable;
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::spec::{ClusterSpec, DeviceKindSpec, GivenCluster};
use crate::model::words::{Asked, Writer};
use crate::problem::plan::{self, Overrun, Plan, Status};

use super::args::{CheckArgs, ReportFormat};
use super::plans::verdict;
use super::{CliError, Ending, output};

/// Recomputes a plan and lists what is wrong with it.
pub(super) fn check(args: &CheckArgs) -> Result<Ending, CliError> {
    // Only `evaluate` goes without one.
    let path = args.plan.as_deref().unwrap_or(Path::new(""));
    let plan = plan::read(path)?;
    let instance = args.problem.read_for(plan.cluster.as_ref(), args.quiet)?;
    let mut posed = pose(&instance, &args.problem.options, &plan)?;
    if args.problem.devices.cluster.is_none() {
        posed.claimed.splice(0..0, claimed_cluster(&plan));
    }
    let verdict = verdict(&instance, &posed, &plan);
    let text = match args.format {
        ReportFormat::Text => text(path, &instance, &plan, &posed, &verdict),
        ReportFormat::Json => json(&plan, &posed, &verdict, as_flags)?,
    };
    output::write(&text, None)?;
    Ok(match verdict.violations.is_empty() {
        true => Ending::Done,
        false => Ending::CheckFailed,
    })
}

/// The cluster that a plan alone names, as the options that ask for it.
///
/// The name of a preset means what this version knows under it; a plan that holds something else there says so.
pub(crate) fn claimed_cluster(plan: &Plan) -> Vec<Asked> {
    let Some(GivenCluster { name, content }) = &plan.cluster else {
        return Vec::new();
    };
    let efficiency = asked_efficiency(content).map(|efficiency| setting::EFFICIENCY.given(efficiency));
    if name == OWN_CLUSTER {
        return efficiency.into_iter().collect();
    }
    let preset = CLUSTER_PRESETS.iter().any(|(preset, _)| preset == name);
    let known = preset.then(|| read_cluster(name).ok()).flatten();
    let differs = |content: &ClusterSpec| known.as_ref().and_then(|known| plan::difference(content, known));
    let Some((at, [found, expected])) = differs(content) else {
        return vec![setting::CLUSTER.given(name)];
    };
    if efficiency.is_some() && differs(&at_peaks(content)).is_none() {
        return [Some(setting::CLUSTER.given(name)), efficiency]
            .into_iter()
            .flatten()
            .collect();
    }
    vec![setting::CLUSTER.given(format!(
        "{name} (whose `{at}` is {found} there and {expected} in the preset)"
    ))]
}

/// The part of peak rates that kinds of a cluster say.
fn asked_efficiency(cluster: &ClusterSpec) -> Option<Efficiency> {
    let of_kind = |kind: &DeviceKindSpec| {
        let part = kind.efficiency?;
        let is_measured = kind
            .measured
            .as_ref()
            .is_some_and(|measured| measured.efficiency == part);
        Some(if is_measured {
            Efficiency::Measured
        } else {
            Efficiency::Part(part)
        })
    };
    cluster.device_kinds.iter().find_map(of_kind)
}

/// The same cluster at the peaks of its rates.
fn at_peaks(cluster: &ClusterSpec) -> ClusterSpec {
    let mut cluster = ClusterSpec {
        calibrated: None,
        ..cluster.clone()
    };
    for kind in &mut cluster.device_kinds {
        kind.efficiency = None;
    }
    cluster
}

/// The most violations that people are shown; a plan with more has one cause.
const MOST_SHOWN: usize = 30;

fn text(path: &Path, instance: &Instance, plan: &Plan, posed: &Posed, verdict: &Verdict) -> String {
    let mut lines = Vec::new();
    if !posed.claimed.is_empty() {
        let claimed: Vec<String> = posed.claimed.iter().map(as_flags).collect();
        let claimed = claimed.join(" ");
        lines.push(format!(
            "checked as the plan claims: {claimed}, which the instance does not say"
        ));
    }
    lines.extend(verdict.overruns.iter().map(|overrun| format!("note: {overrun}")));
    let shown = path.display();
    let recomputed = match verdict.objective_ms {
        Some(ms) => format!("{ms:.6} ms"),
        None => "none, since not every stage has a time".into(),
    };
    let violations = &verdict.violations;
    if violations.is_empty() {
        let stages = count(plan.stages.len(), "stage");
        lines.push(match plan.status {
            Status::Optimal | Status::Feasible => format!(
                "`{shown}` passes: {} plan in {stages}, objective {recomputed}",
                plan.status
            ),
            status => format!("`{shown}` passes: {status} plan in {stages}"),
        });
        return lines.join("\n") + "\n";
    }
    lines.extend(failed(&shown.to_string(), violations));
    if !plan.stages.is_empty() {
        lines.push(format!("recomputed objective: {recomputed}"));
    }
    if plan.instance != instance.name {
        lines.push(format!(
            "hint: it is a plan of `{}`; check it against that instance",
            plan.instance
        ));
    }
    lines.iter().map(|line| printable(line) + "\n").collect()
}

/// That a file fails its check, and how.
pub(super) fn failed(shown: &str, violations: &[Violation]) -> Vec<String> {
    let found = count(violations.len(), "violation");
    let mut lines = vec![format!("`{shown}` fails: {found}")];
    let violation = |violation: &Violation| format!("  {}", violation.written(as_flags));
    lines.extend(violations.iter().take(MOST_SHOWN).map(violation));
    if violations.len() > MOST_SHOWN {
        lines.push(format!("  and {} more", violations.len() - MOST_SHOWN));
    }
    lines
}

/// What a check found, for programs.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    instance: &'a str,
    passes: bool,
    status: Status,
    /// Options that the plan alone says.
    claimed: Vec<String>,
    /// Stated.
    stated_objective_ms: Option<f64>,
    /// Recomputed.
    objective_ms: Option<f64>,
    violations: Vec<Line>,
    /// Stages that hold more than their memory if transfers are to be hidden.
    overruns: &'a [Overrun],
}

/// A violation, for programs.
#[derive(Serialize)]
pub(super) struct Line {
    kind: &'static str,
    message: String,
}

impl Line {
    pub(super) fn new(violation: &Violation, writer: Writer) -> Self {
        Self {
            kind: violation.kind(),
            message: violation.written(writer),
        }
    }
}

/// What a check found, for programs.
pub(crate) fn json(
    plan: &Plan,
    posed: &Posed,
    verdict: &Verdict,
    writer: Writer,
) -> Result<String, CliError> {
    let report = Report {
        schema: "stagecut-check/1",
        instance: &plan.instance,
        passes: verdict.violations.is_empty(),
        status: plan.status,
        claimed: posed.claimed.iter().map(writer).collect(),
        stated_objective_ms: plan.objective_ms,
        objective_ms: verdict.objective_ms,
        violations: (verdict.violations.iter())
            .map(|violation| Line::new(violation, writer))
            .collect(),
        overruns: &verdict.overruns,
    };
    let text =
        serde_json::to_string_pretty(&report).map_err(|error| CliError::Usage(error.to_string().into()))?;
    Ok(text + "\n")
}
