//! The mixed-integer programs of heterogeneous workers, solved until nothing better is left.

use std::ops::ControlFlow;

use crate::exact::closure::Closure;
use crate::exact::incumbent::Incumbent;
use crate::exact::program_runs::{ProgramRuns, solve_once};
use crate::exact::tuning::TUNING;
use crate::exact::windows::demands::{self, Demand};
use crate::formulations::Program;
use crate::formulations::devices::{self, Devices};
use crate::formulations::groups::{self, Groups};
use crate::formulations::pools::{Pool, Pooled, Unsupported};
use crate::formulations::solver::Report;
use crate::formulations::solver::{self, SolverError, Stop};
use crate::formulations::staging::Windows;
use crate::model::options::WorkerMode;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// A program that can express a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The devices program: a binary for every choice and stage.
    Devices,
    /// The groups program: a number of devices for every class and stage.
    Groups,
}

/// A program for a problem, with the pools it needs.
pub struct Form<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    kind: Kind,
    pools: Vec<Pool>,
}

impl<'a> Form<'a> {
    /// The first program that can express the problem: groups, else devices.
    ///
    /// # Errors
    ///
    /// Why neither can.
    pub fn new(problem: &'a Problem, workers: &'a Workers) -> Result<Self, Unsupported> {
        Self::of_kind(Kind::Groups, problem, workers)
            .or_else(|_| Self::of_kind(Kind::Devices, problem, workers))
    }

    /// One program.
    ///
    /// # Errors
    ///
    /// Why it cannot express the problem.
    pub fn of_kind(kind: Kind, problem: &'a Problem, workers: &'a Workers) -> Result<Self, Unsupported> {
        if problem.memory_is_joint() {
            return Err("memory that depends on where both passes of a layer lie, on workers that differ");
        }
        if !problem.formula().is_bottleneck() {
            return Err("an iteration of groups of devices");
        }
        let pools = match kind {
            Kind::Groups => groups::singles(problem, workers)?,
            Kind::Devices => devices::pools(problem, workers)?,
        };
        Ok(Self {
            problem,
            workers,
            kind,
            pools,
        })
    }

    /// Which program it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The program of all plans, without windows and cut-off, to be written to a file.
    pub fn program(&self, labels: &[String]) -> Program {
        let windows = Windows::all(self.problem);
        self.build(&windows, [self.least_ns(), self.most_ns()], labels).0
    }

    /// A period that no plan beats, in real ns.
    fn least_ns(&self) -> f64 {
        if self.kind == Kind::Groups {
            return groups::least_ns(self.problem, self.workers, &self.pools);
        }
        let largest = |demand: &Demand| demand.work.iter().copied().fold(0.0, f64::max);
        self.demands().iter().map(largest).fold(0.0, f64::max)
    }

    /// By how many ns at most rounding makes a plan cheaper than it is in real numbers; up to half a ns it leaves proofs whole.
    pub fn rounding_ns(&self) -> f64 {
        let of_pools = self.pools.iter().map(Pool::rounding_ns).fold(0.0, f64::max);
        match self.kind {
            Kind::Devices => of_pools,
            // Groups pool rates, which are not whole even where those of single devices are.
            Kind::Groups => 0.5,
        }
    }

    /// What stages must get done and can do, for windows.
    fn demands(&self) -> Vec<Demand> {
        if self.kind == Kind::Groups {
            let demands = groups::demands(self.problem, self.workers, &self.pools);
            let demand = |(work, capacity)| Demand { work, capacity };
            return demands.into_iter().map(demand).collect();
        }
        // An item that nothing can run needs no window: the program has no place for it.
        let least = |time: &dyn Fn(&Pool) -> Option<f64>| {
            let least = self.pools.iter().filter_map(time).fold(f64::INFINITY, f64::min);
            if least.is_finite() { least } else { 0.0 }
        };
        let items = || 0..self.problem.items.len();
        let work: Vec<Vec<f64>> = match self.problem.settings.worker {
            WorkerMode::Sequential => {
                vec![items().map(|i| least(&|pool| pool.least_ns(i))).collect()]
            }
            WorkerMode::Concurrent => (0..2)
                .map(|phase| {
                    let of_phase = |i: usize| least(&|pool| Some(pool.phases_ns(i)?[phase]));
                    items().map(of_phase).collect()
                })
                .collect(),
        };
        let capacity: Vec<f64> = (0..=self.problem.stages()).map(|k| k as f64).collect();
        let demand = |work| Demand {
            work,
            capacity: capacity.clone(),
        };
        work.into_iter().map(demand).collect()
    }

    fn build(&self, windows: &Windows, periods_ns: [f64; 2], labels: &[String]) -> (Program, Columns) {
        let pooled = Pooled {
            problem: self.problem,
            workers: self.workers,
            pools: &self.pools,
            labels,
        };
        match self.kind {
            Kind::Devices => {
                let built = Devices::build(pooled, windows, periods_ns);
                (built.program, Columns::Devices(built.columns))
            }
            Kind::Groups => {
                let built = Groups::build(pooled, windows, periods_ns);
                (built.program, Columns::Groups(built.columns))
            }
        }
    }

    /// More than any plan costs, in real ns.
    fn most_ns(&self) -> f64 {
        let problem = self.problem;
        let moving = problem.transfers.iter().map(|transfer| {
            let sides = 1 + transfer.consumers.len() as u64;
            (transfer.total_ns() * sides) as f64
        });
        let parameters: u64 = problem.items.iter().map(|item| item.parameter_bytes).sum();
        let rings = self.pools.iter().filter_map(|pool| pool.synchronization);
        let ring_ns = rings.map(|ring| ring.byte_ns * parameters as f64 + ring.latency_ns + ring.messages);
        let work_ns = self.workers.slowest() * problem.work_ns() as f64;
        // Half or a third of every part for either phase, or the least measured speed, which is in `slowest`.
        3.0 * work_ns + moving.sum::<f64>() + ring_ns.fold(0.0, f64::max) + 2.0
    }
}

/// Solves the program of a problem.
///
/// * `form`: the program, see [`Form::new`];
/// * `windows`: stages an item may lie in; with one stage each, the best choices for a given partition;
/// * `presolve`: whether windows are narrowed for each incumbent;
/// * `incumbent`: what is known of the form's problem; if no plan is returned, none is better;
/// * `labels`: a name for each item.
///
/// Programs count in real numbers and plans in whole ns for each phase. A run therefore asks for real periods up to what
/// rounding could still make better than the incumbent, as far as that leaves the incumbent itself out; where it cannot, the
/// bound that is proved stays below the incumbent by what rounding makes, a ns for workers that take turns.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn solve(
    form: &Form,
    windows: &Windows,
    presolve: bool,
    incumbent: Incumbent,
    labels: &[String],
) -> Result<Outcome, SolverError> {
    let control = incumbent.control;
    let narrows = presolve && control.switches.windows && Closure::has_room(form.problem, control);
    let mut search = FormRuns {
        form,
        windows,
        labels,
        narrowing: narrows.then(|| (Closure::new(form.problem), form.demands())),
        incumbent,
        retreats: 0,
    };
    // Every run finds a better plan, is the last, or is one of few retreats.
    let stopped_by = search.run_all()?;
    Ok(search.incumbent.finish(stopped_by))
}

/// What sums of doubles may be off by, relatively: more than that of a million.
const DOUBLES: f64 = 1e-10;

struct FormRuns<'a, 'f> {
    form: &'f Form<'f>,
    windows: &'f Windows,
    labels: &'f [String],
    /// What narrows windows, where it is asked for.
    narrowing: Option<(Closure, Vec<Demand>)>,
    incumbent: Incumbent<'a>,
    /// Runs since the last better plan.
    retreats: u64,
}

impl FormRuns<'_, '_> {
    /// The largest period of interest, in real ns.
    fn limit_ns(&self) -> f64 {
        if !self.incumbent.has_plan() {
            return self.form.most_ns();
        }
        let Incumbent {
            upper_ns, quantum_ns, ..
        } = self.incumbent;
        // What the solver could not tell from the incumbent is left open, twice as much of it each time.
        let retreat_ns = upper_ns as f64 * TUNING.retreat * ((1u64 << self.retreats) - 1) as f64;
        let target_ns = upper_ns.saturating_sub(quantum_ns) as f64 - retreat_ns.ceil();
        // What rounding takes off, up to midway to the incumbent: then better plans lie below and the incumbent does not.
        let rounding_ns = self.form.rounding_ns().max(0.5);
        match rounding_ns <= quantum_ns as f64 / 2.0 {
            true => target_ns + rounding_ns,
            false => target_ns,
        }
    }

    /// Records that every plan takes more than `limit_ns` in real numbers.
    fn exhausted(&mut self, limit_ns: f64) -> ControlFlow<StoppedBy> {
        let bound_ns = match self.incumbent.has_plan() {
            true => ((limit_ns - self.form.rounding_ns()).floor() + 1.0).max(0.0) as u64,
            false => u64::MAX,
        };
        self.incumbent.raise(BoundSource::Program, bound_ns);
        ControlFlow::Break(StoppedBy::Completed)
    }
}

impl<'a> ProgramRuns<'a> for FormRuns<'a, '_> {
    fn incumbent(&mut self) -> &mut Incumbent<'a> {
        &mut self.incumbent
    }

    fn run(&mut self) -> Result<ControlFlow<StoppedBy>, SolverError> {
        let (limit_ns, least_ns) = (self.limit_ns(), self.form.least_ns());
        if limit_ns < least_ns * (1.0 - DOUBLES) {
            return Ok(self.exhausted(limit_ns));
        }
        let mut windows = self.windows.clone();
        if let Some((closure, demands)) = &self.narrowing {
            demands::narrow(self.form.problem, closure, demands, limit_ns, &mut windows);
        }
        if windows.some_is_empty() {
            return Ok(self.exhausted(limit_ns));
        }
        let (program, columns) = self.form.build(&windows, [least_ns, limit_ns], self.labels);
        let scale_ns = program.scale_ns;
        let period_ns = |objective: f64| match self.form.kind {
            Kind::Devices => objective * scale_ns,
            // The objective is 1 - θ.
            Kind::Groups => scale_ns / (1.0 - objective).max(f64::MIN_POSITIVE),
        };
        let solve = |program, control: &Control, watch: &dyn Fn(Report)| {
            solver::solve(program, None, None, control, watch)
        };
        let solved = solve_once(&mut self.incumbent, program, period_ns, solve)?;
        let found = solved.values.as_deref().and_then(|values| match &columns {
            Columns::Devices(columns) => columns.allocation(&self.form.pools, values),
            Columns::Groups(columns) => columns.allocation(self.form.workers, values),
        });
        let improved = found.is_some_and(|allocation| self.incumbent.offer(allocation));
        if improved {
            self.retreats = 0;
        }
        Ok(match solved.stop {
            Stop::Infeasible => self.exhausted(limit_ns),
            Stop::Limit(stopped_by) => ControlFlow::Break(stopped_by),
            Stop::Optimal if improved => ControlFlow::Continue(()),
            // A solution that rounding, or a tolerance of the solver, makes no better than the incumbent.
            Stop::Optimal => {
                self.retreats += 1;
                match self.incumbent.has_plan() && self.retreats <= TUNING.retreats {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(StoppedBy::Completed),
                }
            }
        })
    }
}

/// What the columns of either program mean.
enum Columns {
    Devices(devices::Columns),
    Groups(groups::Columns),
}

/// The best groups or devices for a partition without empty stages: the same program with items fixed.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn for_partition(
    form: &Form,
    assignment: &Assignment,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    // Memory counts stages from the end of all, so empty ones go to the front.
    let used = assignment.iter().max().map_or(0, |most| most + 1);
    let shifted: Assignment = assignment
        .iter()
        .map(|stage| stage + form.problem.stages() - used)
        .collect();
    let windows = Windows {
        earliest: shifted.clone(),
        latest: shifted,
    };
    solve(
        form,
        &windows,
        false,
        Incumbent::new(form.problem, control),
        labels,
    )
}
