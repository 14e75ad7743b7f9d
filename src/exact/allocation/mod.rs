//! The exact engine for workers that differ: incumbents, bounds, and bisection of the period over ideals and devices.

pub mod ideals;
pub mod program;
mod stage;
pub mod tree;

use self::ideals::{AllocationSearch, Pass};
use self::program::{Form, Kind};
use crate::control::Control;
use crate::cost;
use crate::cost::allocation::Allocation;
use crate::exact::Method;
use crate::exact::bounds::Bound;
use crate::exact::bounds::anchored::{self, KnownStages};
use crate::exact::bounds::capacity::Capacity;
use crate::exact::presolve::{self, Reduced};
use crate::formulations::staging::Windows;
use crate::heuristics::{self, Effort};
use crate::plan::{Outcome, Statistics, StoppedBy, is_proved};
use crate::problem::Problem;
use crate::solver::SolverError;
use crate::units::LARGEST_EXACT;
use crate::workers::{Choice, Workers};

/// What a search for an allocation knows.
pub(crate) struct Search<'a> {
    pub problem: &'a Problem,
    pub workers: &'a Workers,
    pub control: &'a Control<'a>,
    pub incumbent: Option<Allocation>,
    /// Its objective in ns; `u64::MAX` without a plan.
    pub upper_ns: u64,
    /// No plan is better than this, in ns; `u64::MAX` where there is none.
    pub lower_ns: u64,
    pub bound_source: &'static str,
    pub statistics: Statistics,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, workers: &'a Workers, control: &'a Control<'a>) -> Self {
        Self {
            problem,
            workers,
            control,
            incumbent: None,
            upper_ns: u64::MAX,
            lower_ns: 0,
            bound_source: "none",
            statistics: Statistics {
                items: problem.items.len(),
                items_after_presolve: problem.items.len(),
                ..Statistics::default()
            },
        }
    }

    /// Takes a plan if it is feasible and better; its objective is computed here, whatever its finder says.
    pub fn offer(&mut self, allocation: Allocation) {
        if !self.workers.is_feasible(self.problem, &allocation) {
            return;
        }
        let objective_ns = self.workers.objective_ns(self.problem, &allocation);
        if objective_ns < self.upper_ns {
            self.upper_ns = objective_ns;
            self.control.show_plan(&allocation, objective_ns);
            self.incumbent = Some(allocation);
            self.control.report(Some(self.upper_ns), self.lower_ns);
        }
    }

    /// Takes the bounds that need no search.
    fn raise_simple_bounds(&mut self) {
        let capacity = Capacity::new(self.problem, self.workers);
        for bound in capacity.bounds(self.problem, self.workers) {
            self.raise(Bound {
                bottleneck_ns: capacity.objective_from_bottleneck(self.problem, bound.bottleneck_ns),
                ..bound
            });
        }
    }

    /// Takes a bound on the objective.
    pub fn raise(&mut self, bound: Bound) {
        let ns = self.problem.settings.whole_ns(bound.bottleneck_ns);
        if ns < u64::MAX {
            self.statistics
                .bounds_ms
                .insert(bound.source.into(), self.problem.settings.ms(ns));
        }
        if ns > self.lower_ns {
            self.lower_ns = ns;
            self.bound_source = bound.source;
            self.control.show_bound(bound.source, ns);
        }
    }

    /// The largest period that is still of interest.
    pub fn target_ns(&self) -> u64 {
        match self.upper_ns {
            u64::MAX => LARGEST_EXACT,
            upper_ns => upper_ns.saturating_sub(self.problem.settings.ticks_per_ns),
        }
    }

    /// Records that no plan keeps a period.
    pub fn exhausted(&mut self, source: &'static str, limit_ns: u64) {
        let nothing = self.incumbent.is_none() && limit_ns >= LARGEST_EXACT;
        let bottleneck_ns = if nothing { u64::MAX } else { limit_ns + 1 };
        self.raise(Bound {
            source,
            bottleneck_ns,
        });
    }

    /// Whether nothing is left to find, or it is proved that there is nothing.
    pub fn is_done(&self) -> bool {
        let gap = self.upper_ns.saturating_sub(self.lower_ns) as f64;
        match self.incumbent {
            None => self.lower_ns == u64::MAX,
            Some(_) => self.is_proved() || gap <= self.control.gap * self.upper_ns as f64,
        }
    }

    fn is_proved(&self) -> bool {
        self.incumbent.is_some() && is_proved(self.upper_ns, self.lower_ns)
    }

    fn finish(mut self, stopped_by: StoppedBy) -> Outcome {
        self.statistics.seconds = self.control.seconds();
        let stopped_by = match stopped_by {
            _ if self.is_proved() || self.lower_ns == u64::MAX => StoppedBy::Completed,
            _ if self.is_done() => StoppedBy::Gap,
            other => other,
        };
        Outcome {
            allocation: self.incumbent,
            bound_ns: self.lower_ns,
            bound_source: self.bound_source,
            stopped_by,
            statistics: self.statistics,
        }
    }
}

/// Solves a problem whose workers differ.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn solve(
    problem: &Problem,
    workers: &Workers,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut search = Search::new(problem, workers, control);
    if method != Method::Textbook {
        search.raise_simple_bounds();
        if control.switches.incumbents {
            find_incumbents(&mut search);
        }
        if problem.formula().is_bottleneck() {
            if control.switches.one_class {
                use_one_class(&mut search)?;
            }
            use_anchors(&mut search, labels)?;
        }
    }
    let (steps, switches) = (steps(method, problem, workers), control.switches);
    let mut stopped_by = match steps.is_empty() {
        true => StoppedBy::NoMethod,
        false => StoppedBy::Completed,
    };
    for &step in steps {
        if search.is_done() {
            break;
        }
        stopped_by = match step {
            Step::Ideals(most_steps) if switches.ideals => bisect(&mut search, most_steps),
            Step::Iteration if switches.labelled_ideals => use_labels(&mut search),
            Step::Tree(most_steps) if switches.tree => use_tree(&mut search, most_steps),
            Step::Program { presolve } if switches.program || !presolve => {
                use_program(&mut search, presolve, labels)?
            }
            // Switched off: left to other steps.
            _ => StoppedBy::SizeLimit,
        };
        if let Some(limit) = control.must_stop() {
            stopped_by = limit;
            break;
        }
    }
    Ok(search.finish(stopped_by))
}

/// What methods are made of, after incumbents and bounds.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Passes over ideals and devices, with so many steps at most.
    Ideals(u64),
    /// One pass over ideals and devices for an iteration.
    Iteration,
    /// Exhaustive search, with so many steps at most.
    Tree(u64),
    /// The mixed-integer program.
    Program { presolve: bool },
}

/// The steps of a method for a problem; none where the method cannot prove anything.
///
/// One share for all stages ties them together, and so does memory that depends on both passes of a layer: states of one stage
/// after the other cannot say that. For shares there is the program, for either exhaustive search while items are few.
/// Otherwise ideals come first. Where they are many and places for items are few, the program of single devices is soon the
/// better one: `layer_gnmt_inference` with its CPU takes 0.9 s so, and minutes with ideals alone. With many places, or for
/// groups, it comes last: `operator_bert_l-12_inference` takes 1.5 s with ideals, and minutes with the program.
fn steps(method: Method, problem: &Problem, workers: &Workers) -> &'static [Step] {
    const AT_FIRST: u64 = 20_000_000;
    const LONG: u64 = 4_000_000_000;
    const FEW_PLACES: usize = 2_000;
    /// Stages that exhaustive search looks at before the program: a second's work.
    const STAGES_AT_FIRST: u64 = 200_000;
    let places = problem.items.len() * problem.stages() * workers.choices.len();
    let is_tied = problem.shares_are_global() || problem.memory_is_joint();
    let is_small = problem.items.len() <= tree::MOST_ITEMS;
    let form = Form::new(problem, workers).ok();
    match (method, form.map(|form| form.kind())) {
        (Method::Textbook | Method::Milp, None) => &[],
        (Method::Textbook, Some(_)) => &[Step::Program { presolve: false }],
        (Method::Milp, Some(_)) => &[Step::Program { presolve: true }],
        (Method::Ideals, _) if is_tied => &[],
        (Method::Exact | Method::Ideals, _) if !is_tied && !problem.formula().is_bottleneck() => {
            &[Step::Iteration]
        }
        (Method::Ideals, _) => &[Step::Ideals(u64::MAX)],
        (Method::Exact, None) if is_tied && is_small => &[Step::Tree(u64::MAX)],
        (Method::Exact, None) if is_tied => &[],
        (Method::Exact, None) => &[Step::Ideals(u64::MAX)],
        (Method::Exact, Some(_)) if is_tied && is_small => &[
            Step::Tree(STAGES_AT_FIRST),
            Step::Program { presolve: true },
            Step::Tree(u64::MAX),
        ],
        (Method::Exact, Some(_)) if is_tied => &[Step::Program { presolve: true }],
        // What comes after the program is for what the solver's tolerance leaves open.
        (Method::Exact, Some(Kind::Devices)) if places <= FEW_PLACES => &[
            Step::Ideals(AT_FIRST),
            Step::Program { presolve: true },
            Step::Ideals(u64::MAX),
        ],
        (Method::Exact, Some(_)) => &[
            Step::Ideals(LONG),
            Step::Program { presolve: true },
            Step::Ideals(u64::MAX),
        ],
    }
}

/// Looks for the best iteration by a pass over ideals and devices.
fn use_labels(search: &mut Search) -> StoppedBy {
    let limit_ns = search.upper_ns.saturating_sub(1).min(LARGEST_EXACT);
    let capacity = Capacity::new(search.problem, search.workers);
    let mut ideals = AllocationSearch::new(
        search.problem,
        search.workers,
        &capacity,
        search.control,
        u64::MAX,
    );
    let pass = ideals.pass(limit_ns);
    search.statistics.ideals = Some(ideals.ideals);
    match pass {
        Pass::Found(found) => search.offer(found),
        Pass::Exhausted => {}
        Pass::Stopped(stopped_by) => {
            let unfinished = ideals.unfinished.take();
            unfinished.into_iter().for_each(|plan| search.offer(plan));
            return search.control.must_stop().unwrap_or(stopped_by);
        }
    }
    search.exhausted(
        "ideals and devices",
        search.upper_ns.saturating_sub(1).min(LARGEST_EXACT),
    );
    StoppedBy::Completed
}

/// Searches exhaustively for better plans.
fn use_tree(search: &mut Search, most_steps: u64) -> StoppedBy {
    let (problem, workers) = (search.problem, search.workers);
    let searched = tree::search(problem, workers, search.control, search.upper_ns, most_steps);
    searched.found.into_iter().for_each(|plan| search.offer(plan));
    if searched.stopped_by == StoppedBy::Completed {
        let least_ns = search.upper_ns.min(searched.open_ns);
        search.exhausted("exhaustive search", least_ns.saturating_sub(1).min(LARGEST_EXACT));
    }
    searched.stopped_by
}

/// Solves the program of what presolve leaves for better plans.
fn use_program(search: &mut Search, presolve: bool, labels: &[String]) -> Result<StoppedBy, SolverError> {
    let reduced = match presolve {
        true => presolve::reduce(search.problem, search.target_ns(), &search.control.switches),
        false => Reduced::identity(search.problem),
    };
    search.statistics.items_after_presolve = reduced.problem.items.len();
    let form = Form::new(&reduced.problem, search.workers).map_err(|reason| SolverError {
        doing: "building the program",
        what: reason.into(),
    })?;
    let windows = Windows::all(&reduced.problem);
    let known_ns = search.incumbent.as_ref().map(|_| search.upper_ns);
    let labels = reduced.labels(labels);
    let solved = program::solve(
        &form,
        &windows,
        presolve,
        known_ns,
        search.lower_ns,
        &labels,
        search.control,
    )?;
    search.statistics.nodes += solved.nodes;
    search.statistics.binaries = solved.binaries;
    if let Some(found) = solved.allocation {
        search.offer(Allocation {
            assignment: reduced.lift(&found.assignment),
            ..found
        });
    }
    search.raise(Bound {
        source: "program",
        bottleneck_ns: solved.bound_ns,
    });
    Ok(solved.stopped_by)
}

/// Bounds alone.
pub(crate) fn bound(problem: &Problem, workers: &Workers, control: &Control) -> Outcome {
    let mut search = Search::new(problem, workers, control);
    search.raise_simple_bounds();
    search.finish(StoppedBy::Completed)
}

/// Runs every heuristic for workers that differ, the quick ones first.
fn find_incumbents(search: &mut Search) {
    for effort in [Effort::Quick, Effort::Thorough] {
        for heuristic in heuristics::METHODS
            .iter()
            .filter(|heuristic| heuristic.effort == effort)
        {
            if search.is_done() || search.control.must_stop().is_some() {
                return;
            }
            let control = search.control;
            let must_stop = || control.must_stop().is_some();
            if let Some(plan) = heuristic.plan(search.problem, control.seed, &must_stop) {
                search.offer(plan);
            }
        }
    }
}

/// Solves the problem for every class by itself, where that makes workers alike: often the best plan, and always one.
fn use_one_class(search: &mut Search) -> Result<(), SolverError> {
    for class in 0..search.workers.classes.len() {
        let Some(problem) = search.problem.on_class(class) else {
            continue;
        };
        let is_it = |choice: &Choice| choice.devices[class] == 1 && search.workers.is_single(choice);
        let Some(choice) = search.workers.choices.iter().position(is_it) else {
            continue;
        };
        let control = search.control.elsewhere();
        let labels: Vec<String> = (0..problem.items.len()).map(|item| item.to_string()).collect();
        let outcome = crate::exact::solve(&problem, Method::Exact, &labels, &control)?;
        if let Some(allocation) = outcome.allocation {
            let (assignment, used) = cost::without_empty_stages(&allocation.assignment);
            search.offer(Allocation {
                assignment,
                choices: vec![choice; used],
                global: Vec::new(),
            });
        }
    }
    Ok(())
}

/// Proves the incumbent by an item that one class alone can run in time, and that has no stage there: the anchored stage
/// bound looks at one stage and at what it pays itself, so it holds whatever the other stages run on.
fn use_anchors(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let workers = search.workers;
    let all_single = workers.choices.iter().all(|choice| workers.is_single(choice));
    if search.is_done() || search.incumbent.is_none() || !all_single || !search.control.switches.anchored {
        return Ok(());
    }
    let target_ns = search.target_ns();
    let reduced = presolve::reduce(search.problem, target_ns, &search.control.switches);
    let labels = reduced.labels(labels);
    let alone = |class: usize| reduced.problem.on_class(class);
    let classes: Vec<Option<Problem>> = (0..search.workers.classes.len()).map(alone).collect();
    // Groups and classes that cannot run everything are not looked at.
    if classes.iter().any(Option::is_none) {
        return Ok(());
    }
    let classes: Vec<Problem> = classes.into_iter().flatten().collect();
    for (class, problem) in classes.iter().enumerate() {
        let others = || (0..classes.len()).filter(|&other| other != class);
        let is_anchor = |item: usize| others().all(|other| classes[other].items[item].work_ns() > target_ns);
        let known = KnownStages::of_anchors(problem, is_anchor);
        if anchored::refutes(problem, &labels, known, target_ns, search.control)? {
            search.exhausted("anchored stage", target_ns);
            return Ok(());
        }
    }
    Ok(())
}

/// Halves the range between bound and plan, each time by a pass over the ideals, until they meet.
///
/// Without a plan it starts at twice the bound and doubles: passes for short periods are quick, since few stages keep them.
/// Where little is left in between, it asks for anything better at once, unless the last pass did and found a plan.
fn bisect(search: &mut Search, most_steps: u64) -> StoppedBy {
    /// Of the incumbent, what is little.
    const LITTLE: u64 = 1 << 20;
    let mut visited = 0;
    let mut steps = 0;
    let mut has_asked = false;
    // Every pass finds a better plan or raises the bound.
    while !search.is_done() {
        let (low, high) = (search.lower_ns, search.target_ns());
        let asks = search.incumbent.is_some() && high - low < high / LITTLE && !has_asked;
        has_asked = asks;
        let limit_ns = match search.incumbent {
            None => low.max(1).saturating_mul(2).min(LARGEST_EXACT),
            Some(_) if asks => high,
            Some(_) => low + (high - low) / 2,
        };
        search
            .control
            .report(search.incumbent.is_some().then_some(search.upper_ns), low);
        let reduced = presolve::reduce(search.problem, limit_ns, &search.control.switches);
        search.statistics.items_after_presolve = reduced.problem.items.len();
        let capacity = Capacity::new(&reduced.problem, search.workers);
        let left = most_steps - steps;
        let mut ideals =
            AllocationSearch::new(&reduced.problem, search.workers, &capacity, search.control, left);
        let pass = ideals.pass(limit_ns);
        visited += ideals.ideals;
        steps += ideals.steps.min(left);
        search.statistics.ideals = Some(visited);
        match pass {
            Pass::Found(found) => {
                let before_ns = search.upper_ns;
                search.offer(Allocation {
                    assignment: reduced.lift(&found.assignment),
                    ..found
                });
                if search.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
            }
            Pass::Exhausted => search.exhausted("ideals and devices", limit_ns),
            Pass::Stopped(stopped_by) => return search.control.must_stop().unwrap_or(stopped_by),
        }
    }
    StoppedBy::Completed
}
