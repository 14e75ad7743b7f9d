//! The whole way in one call: from an instance and options to plans that the checker has accepted.

use std::time::Duration;

use crate::check::{self, Violation};
use crate::control::Control;
use crate::exact;
use crate::fault::InputError;
use crate::instance::Instance;
use crate::methods::{self, Method};
use crate::options::PipelineOptions;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::solver::SolverError;

/// What is asked: the problem, who solves it, and for how long.
///
/// ```
/// use std::time::Duration;
/// use stagecut::{Options, PipelineOptions};
///
/// let options = Options {
///     pipeline: PipelineOptions { stages: Some(4), ..Default::default() },
///     time_limit: Some(Duration::from_secs(10)),
///     ..Options::default()
/// };
/// assert_eq!(options.method.name(), "exact");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The problem; what it leaves open, the instance's own options and then the defaults decide.
    pub pipeline: PipelineOptions,
    /// The method. Default: `exact`; others by [`methods::find`].
    pub method: Method,
    /// Stop after so long with the best plan and bound. Default: no limit.
    pub time_limit: Option<Duration>,
    /// Stop at this relative gap between plan and bound. Default: 0.
    pub gap: f64,
    /// Seed of everything random. Default: 0.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pipeline: PipelineOptions::default(),
            method: Method::Exact(exact::Method::Exact),
            time_limit: None,
            gap: 0.0,
            seed: 0,
        }
    }
}

impl Options {
    fn control(&self) -> Control<'_> {
        Control {
            time_limit: self.time_limit,
            gap: self.gap,
            seed: self.seed,
            ..Control::default()
        }
    }
}

/// Why there is no answer. That no plan exists is one: a [`Plan`] whose status says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The instance or the options are faulty, or contradict each other.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The method is not for this problem.
    #[error("method `{method}` does not apply: {reason}")]
    Inapplicable {
        /// The method.
        method: &'static str,
        /// Why.
        reason: String,
    },
    /// HiGHS broke down.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// A method made a plan that the checker refuses: a fault of this library.
    #[error("the plan of `{method}` fails its check: {}", in_words(violations))]
    Rejected {
        /// The method.
        method: &'static str,
        /// What the checker says.
        violations: Vec<Violation>,
    },
}

fn in_words(violations: &[Violation]) -> String {
    let words: Vec<String> = violations.iter().map(ToString::to_string).collect();
    words.join("; ")
}

/// Solves the problem that the options ask of an instance, and checks the plan on a path of its own.
///
/// ```no_run
/// use stagecut::{Instance, Options, PipelineOptions, Status};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let instance = Instance::read("instances/googlenet.onnx".as_ref(), None)?;
/// let pipeline = PipelineOptions { stages: Some(4), ..Default::default() };
/// let plan = stagecut::solve(&instance, &Options { pipeline, ..Options::default() })?;
/// assert_eq!(plan.status, Status::Optimal);
/// for stage in &plan.stages {
///     println!("{} ms: {}", stage.load_ms, stage.forward.join(", "));
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn solve(instance: &Instance, options: &Options) -> Result<Plan, Error> {
    let problem = problem(instance, options)?;
    let method = options.method;
    method.applies(&problem).map_err(|reason| Error::Inapplicable {
        method: method.name(),
        reason: reason.to_string(),
    })?;
    accepted(instance, &problem, method, options)
}

/// The plans of every method that applies to the problem, each with the limits of the options: `exact`, the heuristics, and
/// the baseline of separate cuts.
///
/// # Errors
///
/// [`Error`].
pub fn compare(instance: &Instance, options: &Options) -> Result<Vec<Plan>, Error> {
    let problem = problem(instance, options)?;
    let is_default = |method: &Method| match method {
        Method::Exact(method) => *method == exact::Method::Exact,
        Method::Heuristic(_) | Method::TiedCuts => true,
    };
    let methods = methods::all().into_iter();
    methods
        .filter(|method| is_default(method) && method.applies(&problem).is_ok())
        .map(|method| accepted(instance, &problem, method, options))
        .collect()
}

/// What is wrong with a plan of the problem that the options ask; nothing if it holds.
///
/// # Errors
///
/// [`Error::Input`] where the options do not fit the instance.
pub fn check(instance: &Instance, options: &Options, plan: &Plan) -> Result<Vec<Violation>, Error> {
    let settings = Settings::resolve(instance, &options.pipeline)?;
    Ok(check::check(instance, &settings, plan))
}

fn problem(instance: &Instance, options: &Options) -> Result<Problem, Error> {
    Ok(Problem::new(
        instance,
        Settings::resolve(instance, &options.pipeline)?,
    )?)
}

fn accepted(
    instance: &Instance,
    problem: &Problem,
    method: Method,
    options: &Options,
) -> Result<Plan, Error> {
    let mut plan = method.run(instance, problem, &options.control())?;
    let verdict = check::examine(instance, &problem.settings, &plan);
    if !verdict.violations.is_empty() {
        return Err(Error::Rejected {
            method: method.name(),
            violations: verdict.violations,
        });
    }
    plan.overruns = verdict.overruns;
    Ok(plan)
}
