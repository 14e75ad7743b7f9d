//! The one way from what is asked to plans that the checker has accepted: the command line, studies, other languages and the functions of
//! the library go it, and call nothing below it.

mod chunk_sizes;
mod most_tokens;

pub(crate) use chunk_sizes::options_by_size;
pub(crate) use most_tokens::{bound_of_tokens, refuse_most_tokens};

use std::time::Instant;

use crate::check;
use crate::exact;
use crate::formulations::solver::SolverError;
use crate::model::fault::InputError;
use crate::model::instance::Instance;
use crate::model::objective::Objective;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::model::words::Words;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::Plan;
use crate::problem::plan::Status;
use crate::solve::error::Error;
use crate::solve::methods::{self, Method};

/// An instance with the problem that is asked of it.
pub struct Posed<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// What is asked of it, with nothing left open.
    pub settings: Settings,
    /// A fault where the network and the settings alone leave no plan.
    problem: Result<Problem, InputError>,
    /// The settings for each size of chunks of a prompt, where one is to be chosen: those above are the first.
    sizes: Vec<Settings>,
}

/// What became of a method among others.
pub struct Compared {
    /// The method.
    pub method: Method,
    /// What it came to.
    pub result: MethodResult,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// What a method came to.
pub enum MethodResult {
    /// What it found, which the checker has accepted; without stages where it found none.
    Plan(Box<Plan>),
    /// It is for other problems, and why.
    Inapplicable(Words),
    /// It was not run: somebody ended all of them before.
    Interrupted,
}

impl<'a> Posed<'a> {
    /// What options ask of an instance.
    ///
    /// # Errors
    ///
    /// Options that contradict each other or the instance. That they leave no plan is none.
    pub fn new(instance: &'a Instance, options: &PipelineOptions) -> Result<Self, InputError> {
        let by_size = options_by_size(instance, options)?;
        let sizes = by_size.iter().map(|options| Settings::resolve(instance, options));
        let sizes: Vec<Settings> = sizes.collect::<Result<_, _>>()?;
        Ok(Self {
            sizes: if sizes.len() > 1 {
                sizes.clone()
            } else {
                Vec::new()
            },
            ..Self::with_settings(instance, sizes[0].clone())?
        })
    }

    /// What settings ask of an instance.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`].
    pub fn with_settings(instance: &'a Instance, settings: Settings) -> Result<Self, InputError> {
        let problem = match Problem::new(instance, settings.clone()) {
            Err(error) if !error.is_infeasible() => return Err(error),
            formed => formed,
        };
        Ok(Self {
            instance,
            settings,
            problem,
            sizes: Vec::new(),
        })
    }

    /// The problem, for what has no other answer where there is none.
    ///
    /// # Errors
    ///
    /// Why the network and the settings alone leave no plan.
    pub fn problem(&self) -> Result<&Problem, InputError> {
        self.problem.as_ref().map_err(Clone::clone)
    }

    /// What a method finds.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn solve(&self, method: Method, control: &Control) -> Result<Plan, Error> {
        match &self.problem {
            Ok(_) if self.chooses_chunks() => chunk_sizes::search(self, method, control),
            Ok(problem) if self.settings.room.is_most => most_tokens::search(self, problem, method, control),
            Ok(problem) => accepted(self.instance, problem, method, control),
            Err(_) => Ok(self.without_plan(method.name())),
        }
    }

    /// Whether a size of the chunks of a prompt is to be chosen.
    pub fn chooses_chunks(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// That the network and the settings alone leave no plan.
    fn without_plan(&self, method: &str) -> Plan {
        Plan::infeasible(self.instance, &self.settings, method)
    }

    /// What no plan can be better than, as a plan without stages.
    ///
    /// # Errors
    ///
    /// [`Error::Solver`], and [`Error::Inapplicable`] for the most tokens.
    pub fn bound(&self, control: &Control) -> Result<Plan, Error> {
        refuse_most_tokens(&self.settings, methods::BOUND)?;
        match &self.problem {
            Ok(_) if self.chooses_chunks() => chunk_sizes::bound(self, control),
            Ok(problem) => Ok(methods::bounded(self.instance, problem, control)?),
            Err(_) => Ok(self.without_plan(methods::BOUND)),
        }
    }

    /// What methods find one after the other, in their order, within one limit of time for all of them: see [`methods::in_turn`].
    ///
    /// # Errors
    ///
    /// Where there is no problem; else those of [`Self::solve`].
    pub fn compare(&self, methods: &[Method], control: &Control) -> Result<Vec<Compared>, Error> {
        let problem = self.problem()?;
        methods::in_turn(methods, problem, control.time_limit, |method, time_limit| {
            let started = Instant::now();
            let result = match method.applies(problem) {
                Err(reason) => MethodResult::Inapplicable(reason),
                Ok(()) if control.is_interrupted() => MethodResult::Interrupted,
                Ok(()) => MethodResult::Plan(Box::new(self.solve(method, &control.with_time(time_limit))?)),
            };
            Ok(Compared {
                method,
                result,
                seconds: started.elapsed().as_secs_f64(),
            })
        })
    }
}

/// Refuses a problem that a method does not apply to.
///
/// # Errors
///
/// [`Error::Inapplicable`].
fn must_apply(method: Method, problem: &Problem) -> Result<(), Error> {
    method.applies(problem).map_err(|reason| Error::Inapplicable {
        method: method.name(),
        reason,
    })
}

/// What a method finds for a problem, once the checker has accepted it.
///
/// # Errors
///
/// [`Error::Inapplicable`], [`Error::Solver`], [`Error::Rejected`].
pub(crate) fn accepted(
    instance: &Instance,
    problem: &Problem,
    method: Method,
    control: &Control,
) -> Result<Plan, Error> {
    must_apply(method, problem)?;
    let mut plan = method.run(instance, problem, control)?;
    let verdict = check::examine(instance, &problem.settings, &plan);
    if !verdict.violations.is_empty() {
        return Err(Error::Rejected {
            method: method.name(),
            violations: verdict.violations,
        });
    }
    plan.overruns = verdict.overruns;
    plan.state_run(instance, &problem.settings, verdict.run);
    Ok(plan)
}

/// Whether there is a plan at all.
pub(crate) enum Existence {
    /// This one.
    Plan(Box<Plan>),
    /// It is proved that there is none.
    None,
    /// Time was up, or the settings ask for what cannot be.
    Unknown,
}

/// Whether there is a plan of what settings ask of an instance: the exact engine stops at the first.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn existence(
    instance: &Instance,
    settings: Settings,
    control: &Control,
) -> Result<Existence, SolverError> {
    let control = Control {
        // The first plan will do.
        gap: 1.0,
        progress: None,
        ..control.clone()
    };
    let exact = Method::Exact(exact::Method::Exact);
    // What fits is the same whatever is minimised, and a period is asked soonest.
    let settings = match settings.objective {
        Objective::Iteration | Objective::Latency => Settings {
            objective: Objective::Period,
            ..settings
        },
        _ => settings,
    };
    let settings = settings.with_tokens(settings.room.tokens);
    let posed = Posed::with_settings(instance, settings).map_err(Error::from);
    match posed.and_then(|posed| posed.solve(exact, &control)) {
        Ok(plan) if !plan.stages.is_empty() => Ok(Existence::Plan(Box::new(plan))),
        Ok(plan) if plan.status == Status::Infeasible => Ok(Existence::None),
        Err(Error::Solver(error)) => Err(error),
        Ok(_) | Err(_) => Ok(Existence::Unknown),
    }
}
