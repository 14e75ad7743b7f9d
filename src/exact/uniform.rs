//! Plans whose stages all have one tensor degree and number of replicas: kind by kind, each with what the others have found.

use super::incumbent::Incumbent;
use super::method::Method;
use super::solve_by;
use crate::formulations::solver::SolverError;
use crate::model::options::Recomputation;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::modes::{Modes, StageMode};
use crate::problem::plan::{Outcome, StoppedBy};

/// Whether stages are to be alike in what they may differ, or layers in what they compute again.
pub(super) fn applies(problem: &Problem, modes: &Modes) -> bool {
    let settings = &problem.settings;
    (settings.uniform && modes.alike_kinds().len() > 1) || settings.target.is_some()
}

/// Solves a problem whose stages are to be alike, of which something may be known.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    known: Incumbent,
    modes: &Modes,
    method: Method,
    labels: &[String],
) -> Result<Outcome, SolverError> {
    let mut incumbent = known;
    let (problem, control) = (incumbent.problem, incumbent.control);
    let mut least = (incumbent.source, u64::MAX);
    let mut stopped_by = StoppedBy::Completed;
    // What no framework need be told is a bound for what it is told, where that is no list of ways.
    let told = problem
        .settings
        .target
        .map(|target| target.limits().recomputation);
    let mut variants = match told {
        None | Some(Recomputation::Alike) => vec![modes.clone()],
        Some(Recomputation::Nothing | Recomputation::AllBlocks) => Vec::new(),
    };
    let bounds = variants.len();
    variants.extend(
        told.into_iter()
            .flat_map(|told| modes.recomputing_all_alike(told)),
    );
    let of = |(at, modes): (usize, &Modes)| -> Vec<(bool, Vec<StageMode>, Modes)> {
        let kinds = modes.alike_kinds().into_iter();
        let is_bound = bounds == 0 || at < bounds;
        let of_kind = |alike: Vec<StageMode>| {
            let only = modes.only(&alike);
            (is_bound, alike, only)
        };
        kinds.map(of_kind).collect()
    };
    let kinds: Vec<(bool, Vec<StageMode>, Modes)> = variants.iter().enumerate().flat_map(of).collect();
    for (at, (is_bound, alike, only)) in kinds.iter().enumerate() {
        let own = problem.in_modes(only.clone());
        // Whoever comes later has what the others have left.
        let share = control.remaining().map(|left| left / (kinds.len() - at) as u32);
        let within = match share {
            Some(share) => control.elsewhere().with_time(Some(share)),
            None => control.elsewhere(),
        };
        let outcome = of_kind(&own, &within, (incumbent.upper_ns, method), labels)?;
        if let Some(mut plan) = outcome.allocation {
            if let Some(chosen) = &mut plan.modes {
                chosen
                    .stages
                    .iter_mut()
                    .for_each(|stage| *stage = alike[stage.degree]);
            }
            incumbent.offer(plan);
        }
        if !is_bound {
            continue;
        }
        if outcome.bound_ns < least.1 {
            least = (outcome.bound_source, outcome.bound_ns);
        }
        if outcome.stopped_by != StoppedBy::Completed {
            stopped_by = outcome.stopped_by;
        }
    }
    incumbent.raise(least.0, least.1.min(incumbent.upper_ns));
    Ok(incumbent.finish(control.must_stop().unwrap_or(stopped_by)))
}

/// Solves the problem of a kind, for plans that beat what is known.
fn of_kind(
    own: &Problem,
    control: &Control,
    (upper_ns, method): (u64, Method),
    labels: &[String],
) -> Result<Outcome, SolverError> {
    let known = Incumbent::new(own, control).beating(upper_ns, 0);
    solve_by(method, known, labels)
}
