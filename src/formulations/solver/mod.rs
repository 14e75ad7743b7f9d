//! Solving a [`Program`] with HiGHS, and reading honestly what came of it.
//!
//! Why HiGHS stopped and what it left are two facts, see [`Solved`]. Both gaps are set to 0, tolerances to the tightest
//! that HiGHS keeps reliably, and the best bound is read whatever the status.

mod c;
mod exit;
mod growing;

use std::path::Path;

use good_lp::solvers::highs::highs as model_with_highs;
use good_lp::{IntoAffineExpression, SolverModel, solvers};
use highs::{HighsModelStatus, HighsOptionValue, HighsSolutionStatus, Model, SolvedModel};

pub(crate) use self::c::Report;
use self::exit::Inside;
pub(crate) use self::growing::{Cut, GrowingProgram};
use crate::formulations::Program;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Feasibility and integrality tolerance asked of HiGHS. Rows are scaled to lie near 1, so this is also about the relative
/// error of a bound; the proof tolerance of a plan is a hundred times wider.
const TOLERANCE: f64 = 1e-9;

/// What HiGHS left.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// Why it stopped.
    pub stop: Stop,
    /// Column values of the best solution.
    pub values: Option<Vec<f64>>,
    /// Proved bound on the objective, in units of the program's scale; minus infinity if nothing is proved, infinity if
    /// the program has no solution.
    pub bound: f64,
    /// Dual values of the rows of a linear program that is solved, in the sense of a minimum: none is positive, as all rows
    /// have upper limits.
    pub duals: Option<Vec<f64>>,
    /// Branch-and-bound nodes.
    pub nodes: u64,
}

/// Why HiGHS stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The best solution is optimal, within the gap asked for.
    Optimal,
    /// There is no solution.
    Infeasible,
    /// A limit or interrupt; a solution may have been found before.
    Limit(StoppedBy),
}

/// HiGHS failed: a fault of the program or of the solver, never of the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("HiGHS failed while {doing}: {what}")]
pub struct SolverError {
    /// What was being done.
    pub doing: &'static str,
    /// What HiGHS says.
    pub what: String,
}

/// Minimises a program.
///
/// * `start`: values of all columns, tried as the first solution;
/// * `most_nodes`: branch-and-bound nodes after which it stops, whatever the machine;
/// * `watch`: called now and then with the objective and bound in units of the scale.
///
/// HiGHS breaks down where a row of its best solution is off by more than the tolerance once its presolve is undone, by 1.5e-9, say.
/// Then it is asked again without its presolve. A wider tolerance would do as well, but proofs count on this one.
///
/// # Errors
///
/// [`SolverError`] where HiGHS refuses the program or breaks down both times.
pub fn solve(
    program: Program,
    start: Option<&[f64]>,
    most_nodes: Option<u64>,
    control: &Control,
    watch: &dyn Fn(Report),
) -> Result<Solved, SolverError> {
    let limits = Limits {
        start,
        most_nodes,
        control,
        restarts: true,
    };
    solve_twice(program, &limits, watch)
}

/// The same without a start, and without HiGHS's restarts: the presolve of a restart may not end for programs whose rows differ in little
/// but their right side.
///
/// # Errors
///
/// Those of [`solve`].
pub fn solve_without_restarts(
    program: Program,
    most_nodes: Option<u64>,
    control: &Control,
    watch: &dyn Fn(Report),
) -> Result<Solved, SolverError> {
    let limits = Limits {
        start: None,
        most_nodes,
        control,
        restarts: false,
    };
    solve_twice(program, &limits, watch)
}

fn solve_twice(program: Program, limits: &Limits, watch: &dyn Fn(Report)) -> Result<Solved, SolverError> {
    let _inside = Inside::enter();
    solve_within(program.clone(), true, limits, watch)
        .or_else(|_| solve_within(program, false, limits, watch))
}

/// The same without HiGHS's presolve, which removes solutions now and then: whoever is told that there is none may ask again so.
///
/// # Errors
///
/// [`SolverError`] where HiGHS refuses the program or breaks down.
pub fn solve_as_it_is(
    program: Program,
    control: &Control,
    watch: &dyn Fn(Report),
) -> Result<Solved, SolverError> {
    let limits = Limits {
        start: None,
        most_nodes: None,
        control,
        restarts: true,
    };
    let _inside = Inside::enter();
    solve_within(program, false, &limits, watch)
}

/// What a solve starts from, and where it ends.
struct Limits<'a> {
    start: Option<&'a [f64]>,
    most_nodes: Option<u64>,
    control: &'a Control<'a>,
    /// Whether HiGHS may presolve again what is left of the program.
    restarts: bool,
}

/// Turns a part of HiGHS off, if asked to.
fn set<V: HighsOptionValue>(model: &mut Model, name: &'static str, value: V) -> Result<(), SolverError> {
    model.try_set_option(name, value).map_err(|_| SolverError {
        doing: "setting options",
        what: name.into(),
    })
}

/// What every run is told.
fn prepare(model: &mut Model) -> Result<(), SolverError> {
    for name in [
        "mip_feasibility_tolerance",
        "primal_feasibility_tolerance",
        "dual_feasibility_tolerance",
    ] {
        set(model, name, TOLERANCE)?;
    }
    // One thread a solve: the number is process-wide in HiGHS, and searches run side by side.
    set(model, "threads", 1)
}

fn solve_within(
    program: Program,
    presolve: bool,
    limits: &Limits,
    watch: &dyn Fn(Report),
) -> Result<Solved, SolverError> {
    let &Limits {
        start,
        most_nodes,
        control,
        restarts,
    } = limits;
    // good_lp hands HiGHS the linear part alone.
    let constant = program.objective.constant();
    let is_linear = program.binaries() == 0;
    let mut model = build(program)?;
    prepare(&mut model)?;
    if !restarts {
        set(&mut model, "mip_allow_restart", false)?;
    }
    if !presolve {
        set(&mut model, "presolve", "off")?;
    }
    set(&mut model, "mip_rel_gap", control.gap)?;
    set(&mut model, "mip_abs_gap", 0.0)?;
    if let Some(left) = control.remaining() {
        set(&mut model, "time_limit", left.as_secs_f64())?;
    }
    // HiGHS takes a 31-bit seed.
    set(&mut model, "random_seed", (control.seed % (1 << 31)) as i32)?;
    if let Some(most_nodes) = most_nodes.and_then(|nodes| i32::try_from(nodes).ok()) {
        set(&mut model, "mip_max_nodes", most_nodes)?;
    }
    if let Some(start) = start {
        model
            .try_set_solution(Some(start), None, None, None)
            .map_err(|status| SolverError {
                doing: "taking the incumbent",
                what: format!("{status:?}"),
            })?;
    }
    let mut watcher = |report: Option<Report>| {
        let shifted = report.map(|report| Report {
            primal_bound: report.primal_bound + constant,
            dual_bound: report.dual_bound + constant,
        });
        shifted.into_iter().for_each(watch);
        control.limit().is_some() || exit::must_leave()
    };
    let solved = c::watched(model, &mut watcher, |model| model.try_solve());
    let solved = solved.map_err(|status| SolverError {
        doing: "solving",
        what: format!("{status:?}"),
    })?;
    let solved = read(&solved, is_linear, control)?;
    Ok(Solved {
        bound: solved.bound + constant,
        ..solved
    })
}

/// Writes a program as LP or MPS with its names, by the extension of the path.
///
/// Names are `family[indices]` in MPS and `family(indices)` in LP, where brackets belong to quadratic terms: HiGHS would
/// drop every name of a file that has one.
///
/// # Errors
///
/// [`SolverError`] where HiGHS cannot write there.
pub(crate) fn write(program: Program, title: &str, path: &Path) -> Result<(), SolverError> {
    let is_lp = path.extension().is_some_and(|extension| extension == "lp");
    let allowed = |name: &str| match is_lp {
        true => name.replace('[', "(").replace(']', ")"),
        false => name.to_owned(),
    };
    let columns: Vec<String> = program
        .variable_names()
        .iter()
        .map(|name| allowed(name))
        .collect();
    let rows: Vec<String> = program.row_names().iter().map(|name| allowed(name)).collect();
    let _inside = Inside::enter();
    let mut model = build(program)?;
    c::set_names(&mut model, title, &columns, &rows);
    match c::write(&mut model, path) {
        true => Ok(()),
        false => Err(SolverError {
            doing: "writing the program",
            what: format!("`{}` could not be written", path.display()),
        }),
    }
}

fn build(program: Program) -> Result<Model, SolverError> {
    let mut problem: solvers::highs::HighsProblem = program
        .variables
        .minimise(program.objective)
        .using(model_with_highs);
    for row in program.rows {
        problem.add_constraint(row);
    }
    let mut model = problem.try_into_inner().map_err(|error| SolverError {
        doing: "building the program",
        what: error.to_string(),
    })?;
    model.make_quiet();
    Ok(model)
}

fn read(solved: &SolvedModel, is_linear: bool, control: &Control) -> Result<Solved, SolverError> {
    let has_solution = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
    let stopped_by = control.limit().unwrap_or(StoppedBy::TimeLimit);
    let stop = interpret(solved.status(), has_solution, stopped_by)?;
    // HiGHS keeps a dual bound for integer programs only; an optimal linear one is its own bound.
    let dual_bound = match is_linear {
        true if stop == Stop::Optimal => solved.objective_value(),
        true => f64::NEG_INFINITY,
        false => solved
            .double_info_value(c"mip_dual_bound")
            .unwrap_or(f64::NEG_INFINITY),
    };
    Ok(Solved {
        stop,
        values: (has_solution && stop != Stop::Infeasible).then(|| solved.get_solution().columns().to_vec()),
        bound: if stop == Stop::Infeasible {
            f64::INFINITY
        } else {
            dual_bound
        },
        duals: (is_linear && stop == Stop::Optimal).then(|| solved.get_solution().dual_rows().to_vec()),
        nodes: c::int64_info(solved, c"mip_node_count").map_or(0, |nodes| nodes.max(0) as u64),
    })
}

/// Every status HiGHS may end with, in our two facts.
///
/// All our programs are bounded below by 0, so "unbounded or infeasible", which presolve may say, means infeasible, and
/// "unbounded" is a fault.
fn interpret(
    status: HighsModelStatus,
    has_solution: bool,
    stopped_by: StoppedBy,
) -> Result<Stop, SolverError> {
    use HighsModelStatus as S;
    match status {
        S::Optimal | S::ModelEmpty if has_solution => Ok(Stop::Optimal),
        S::Infeasible | S::UnboundedOrInfeasible => Ok(Stop::Infeasible),
        S::ReachedTimeLimit => Ok(Stop::Limit(StoppedBy::TimeLimit)),
        S::ReachedInterrupt => Ok(Stop::Limit(stopped_by)),
        S::ReachedIterationLimit | S::ReachedSolutionLimit | S::ReachedMemoryLimit => {
            Ok(Stop::Limit(StoppedBy::SizeLimit))
        }
        other => Err(SolverError {
            doing: "solving",
            what: format!("status {other:?}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HighsModelStatus as S;

    #[test]
    fn every_status_has_its_meaning() {
        let limit = |stopped_by| Ok(Stop::Limit(stopped_by));
        for has_solution in [false, true] {
            let read = |status| interpret(status, has_solution, StoppedBy::Interrupt);
            assert_eq!(read(S::Infeasible), Ok(Stop::Infeasible));
            assert_eq!(read(S::UnboundedOrInfeasible), Ok(Stop::Infeasible));
            assert_eq!(read(S::ReachedTimeLimit), limit(StoppedBy::TimeLimit));
            assert_eq!(read(S::ReachedInterrupt), limit(StoppedBy::Interrupt));
            assert_eq!(read(S::ReachedMemoryLimit), limit(StoppedBy::SizeLimit));
            assert_eq!(read(S::ReachedSolutionLimit), limit(StoppedBy::SizeLimit));
            for broken in [
                S::SolveError,
                S::Unbounded,
                S::NotSet,
                S::PresolveError,
                S::Unknown,
            ] {
                assert!(read(broken).is_err(), "{broken:?}");
            }
        }
        assert_eq!(
            interpret(S::Optimal, true, StoppedBy::Interrupt),
            Ok(Stop::Optimal)
        );
        assert!(interpret(S::Optimal, false, StoppedBy::Interrupt).is_err());
    }
}
