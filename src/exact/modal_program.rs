//! The mixed-integer program of modes, solved until nothing better is left.

use std::ops::ControlFlow;

use crate::exact::bounds;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::exact::modal;
use crate::exact::program_runs::{ProgramRuns, solve_once};
use crate::exact::tuning::TUNING;
use crate::formulations::modal_program::{self, Asked, Excluded, ModalProgram, Pinned};
use crate::formulations::solver::{self, Report, SolverError, Stop};
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, LEVELS, Modes, StageMode, Ways};
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::{Assignment, Problem};

/// Solves the program of a problem with modes, of which something may be known.
///
/// As everywhere, each run asks for a plan better than the last, and only a run without any solution proves the best one. Times are counted in
/// parts of a ns, which may be finer than the solver's tolerance: then, once nothing is clearly better, runs ask for plans that are
/// as good as the incumbent or hardly worse, and what they find that is no better is excluded, stage by stage.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    incumbent: Incumbent,
    modes: &Modes,
    method: Method,
    labels: &[String],
) -> Result<Outcome, SolverError> {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let mut search = ModalRuns {
        problem,
        modes,
        labels,
        incumbent,
        excluded: Vec::new(),
        is_close: false,
    };
    if !applies(problem, modes) {
        return Ok(search.incumbent.finish(StoppedBy::NoMethod));
    }
    if method != Method::Textbook {
        let bound = modal::bound(problem, modes, control);
        search.incumbent.raise(bound.bound_source, bound.bound_ns);
    }
    let stopped_by = search.run_all()?;
    Ok(search.incumbent.finish(stopped_by))
}

/// Whether there is a program of a problem.
pub(super) fn applies(problem: &Problem, modes: &Modes) -> bool {
    modal_program::too_large(problem, modes).is_ok()
}

/// What the solver tells apart from a limit, relatively: ten times its tolerance.
const APART: f64 = 1e-8;

struct ModalRuns<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    labels: &'a [String],
    incumbent: Incumbent<'a>,
    /// Stages that no better plan has.
    excluded: Vec<Excluded>,
    /// Whether nothing is better by what the solver tells apart.
    is_close: bool,
}

/// How far a run looks, and what it proves where it finds nothing.
struct Limit {
    /// Plans that take longer are not looked for, in real ticks.
    most: f64,
    /// No plan takes so long.
    ruled_out: u64,
}

impl ModalRuns<'_> {
    /// The limit of the next run.
    fn limit(&self) -> Limit {
        if !self.incumbent.has_plan() {
            return Limit {
                most: Asked::anything(self.modes).most,
                ruled_out: u64::MAX - 1,
            };
        }
        let (upper, target) = (self.incumbent.upper_ns as f64, self.incumbent.target_ns());
        let midway = (self.incumbent.upper_ns - target) as f64 / 2.0;
        if midway >= upper * APART {
            return Limit {
                most: target as f64 + midway,
                ruled_out: target,
            };
        }
        match self.is_close {
            true => Limit {
                most: upper * (1.0 + APART),
                ruled_out: target,
            },
            false => Limit {
                most: upper * (1.0 - 2.0 * APART),
                ruled_out: (upper * (1.0 - 3.0 * APART)) as u64,
            },
        }
    }

    /// Records that no plan keeps a limit.
    fn exhausted(&mut self, limit: &Limit) -> ControlFlow<StoppedBy> {
        self.incumbent.rule_out(BoundSource::Program, limit.ruled_out);
        self.is_close = true;
        ControlFlow::Continue(())
    }

    /// Takes the bound of a run that found nothing before it ended.
    fn raise(&mut self, bound_ticks: f64, limit: &Limit) {
        let bound = bounds::integral_bound(bound_ticks / limit.most, limit.most);
        let bound = bound.min(limit.ruled_out).min(self.incumbent.unproved_ns());
        self.incumbent.raise(BoundSource::Program, bound);
    }
}

impl<'a> ProgramRuns<'a> for ModalRuns<'a> {
    fn incumbent(&mut self) -> &mut Incumbent<'a> {
        &mut self.incumbent
    }

    fn run(&mut self) -> Result<ControlFlow<StoppedBy>, SolverError> {
        let limit = self.limit();
        let asked = Asked {
            least: self.incumbent.lower_ns as f64,
            most: limit.most,
            excluded: &self.excluded,
        };
        if asked.least > asked.most {
            return Ok(self.exhausted(&limit));
        }
        let ModalProgram { program, columns } =
            ModalProgram::build(self.problem, self.modes, asked, self.labels);
        let scale = program.scale_ns;
        let ticks = |bound: f64| bound * scale;
        let solve = |program, control: &Control, watch: &dyn Fn(Report)| {
            solver::solve(program, None, None, control, watch)
        };
        let mut solved = solve_once(&mut self.incumbent, program.clone(), ticks, solve)?;
        let is_again = solved.stop == Stop::Infeasible;
        if is_again {
            // Presolve of HiGHS before 1.16 loses plans of these programs: see the page.
            solved = solve_once(&mut self.incumbent, program, ticks, solver::solve_as_it_is)?;
        }
        let found = solved.values.as_deref().and_then(|values| columns.plan(values));
        let Some((assignment, stages)) = found else {
            return Ok(match solved.stop {
                Stop::Infeasible => self.exhausted(&limit),
                Stop::Limit(stopped_by) => {
                    if is_again {
                        self.raise(solved.bound * scale, &limit);
                    }
                    ControlFlow::Break(stopped_by)
                }
                Stop::Optimal => ControlFlow::Break(StoppedBy::SolverError),
            });
        };
        let improved = self.take(&assignment, &stages);
        Ok(match solved.stop {
            Stop::Limit(stopped_by) => ControlFlow::Break(stopped_by),
            _ if improved => ControlFlow::Continue(()),
            _ if self.excluded.len() >= TUNING.modal_stages_excluded => {
                ControlFlow::Break(StoppedBy::SizeLimit)
            }
            _ => match self.exclude(&assignment, &stages) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(StoppedBy::SolverError),
            },
        })
    }
}

/// A stage of a solution, with the ways of its layers that take least.
struct Found {
    /// Its position among all stages, empty ones among them.
    stage: usize,
    items: Vec<usize>,
    mode: StageMode,
    in_flight: u64,
    /// Time and ways; `None` where no ways fit the memory, whatever the solver's tolerance makes of it.
    ways: Option<Ways>,
}

impl ModalRuns<'_> {
    /// The stages of a solution, of which the ways are chosen again: those of the program may compute again what need not be.
    fn stages(&self, assignment: &Assignment, modes: &[Option<StageMode>]) -> Vec<Found> {
        let mut behind = 0;
        let mut found = Vec::new();
        for (stage, mode) in modes.iter().enumerate().rev() {
            let Some(mode) = *mode else { continue };
            let items = (0..assignment.len()).filter(|&item| assignment[item] == stage);
            let items: Vec<usize> = items.collect();
            let in_flight = self.modes.flight.of(mode.replicas, behind);
            behind += mode.replicas;
            let ways = self.ways(&items, &mode, in_flight);
            found.push(Found {
                stage,
                items,
                mode,
                in_flight,
                ways,
            });
        }
        found.reverse();
        found
    }

    fn ways(&self, items: &[usize], mode: &StageMode, in_flight: u64) -> Option<Ways> {
        let layers = self.modes.layers_of(items, mode.degree)?;
        let room = self.modes.room(items, mode)?;
        self.modes.knapsack.within(&layers, in_flight, room)
    }

    /// The plan of such stages, if they all fit.
    fn plan(&self, assignment: &Assignment, found: &[Found]) -> Option<Allocation> {
        let all = self.modes.items.iter().flatten().flatten();
        let last = all
            .flat_map(|item| &item.layers)
            .map(|layer| layer.layer + 1)
            .max();
        let mut chosen = Chosen {
            virtual_stages: 1,
            stages: found.iter().map(|stage| stage.mode).collect(),
            layers: vec![0; last.unwrap_or(0)],
        };
        for stage in found {
            let layers = self.modes.layers_of(&stage.items, stage.mode.degree)?;
            Modes::note_ways(&layers, &stage.ways.as_ref()?.ways, &mut chosen.layers);
        }
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(cost::without_empty_stages(assignment).0)
        })
    }

    /// Offers a solution; whether it is better than the incumbent.
    fn take(&mut self, assignment: &Assignment, modes: &[Option<StageMode>]) -> bool {
        let found = self.stages(assignment, modes);
        let plan = self.plan(assignment, &found);
        plan.is_some_and(|plan| self.incumbent.offer(plan))
    }

    /// Leaves out the stages of a solution that no better plan has; whether there are any.
    fn exclude(&mut self, assignment: &Assignment, modes: &[Option<StageMode>]) -> bool {
        let found = self.stages(assignment, modes);
        let plan = self.plan(assignment, &found);
        let costs = plan.and_then(|plan| cost::modal_stages(self.incumbent.problem, self.modes, &plan));
        let upper = self.incumbent.upper_ns;
        let before = self.excluded.len();
        for (at, stage) in found.iter().enumerate() {
            let excluded = |without: Vec<usize>, pinned: Option<Pinned>| Excluded {
                items: stage.items.clone(),
                mode: stage.mode,
                in_flight: stage.in_flight,
                without,
                pinned,
            };
            let neighbours = || self.neighbours(&stage.items);
            let is_long = costs
                .as_ref()
                .is_some_and(|costs| costs.stages[at].period() >= upper);
            // More items hold no less, and take no less but where tensors then stay inside.
            let excluded = match &stage.ways {
                None => excluded(Vec::new(), None),
                Some(ways) if self.least(stage, ways) >= upper => excluded(neighbours(), None),
                Some(_) if is_long => {
                    let place = Pinned {
                        stage: stage.stage,
                        items: neighbours()
                            .into_iter()
                            .map(|item| (item, assignment[item]))
                            .collect(),
                        modes: modes.to_vec(),
                    };
                    excluded(Vec::new(), Some(place))
                }
                Some(_) => continue,
            };
            self.excluded.push(excluded);
        }
        self.excluded.len() > before
    }

    /// Items of other stages that exchange tensors with a stage.
    fn neighbours(&self, items: &[usize]) -> Vec<usize> {
        let transfers = items.iter().flat_map(|&item| &self.modes.transfers_of[item]);
        let mut ends: Vec<usize> = transfers
            .flat_map(|&t| {
                let transfer = &self.modes.transfers[t];
                transfer.consumers.iter().copied().chain([transfer.producer])
            })
            .filter(|end| !items.contains(end))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// What a stage takes whose layers take so long, wherever it lies: on the cheaper level of every link.
    fn least(&self, stage: &Found, ways: &Ways) -> u64 {
        let modes = self.modes;
        let degree = stage.mode.degree;
        let inside = |item: &usize| stage.items.contains(item);
        let layers = modes.layers_of(&stage.items, degree).unwrap_or_default();
        let mut each = modes.time_of(degree, &layers, ways);
        for transfer in modes.transfers.iter() {
            let is_home = inside(&transfer.producer);
            let beside = match is_home {
                true => &transfer.leaving,
                false => &transfer.entering,
            };
            let ends = transfer.consumers.iter().zip(&beside[degree]);
            let paying = ends.filter(|(to, _)| inside(to) != is_home);
            let ticks = |level: usize| {
                let beside = paying.clone().map(|(_, beside)| beside[level]).max()?;
                Some(transfer.ticks[level] + beside)
            };
            each += (0..LEVELS).filter_map(ticks).min().unwrap_or(0);
        }
        let bytes = modes.once_bytes(&stage.items, degree).unwrap_or_default();
        let ring = |level: usize| modes.synchronization(bytes, &stage.mode, level);
        each.div_ceil(stage.mode.replicas as u64) + (0..LEVELS).map(ring).min().unwrap_or(0)
    }
}
