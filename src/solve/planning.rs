//! The whole way in one call: from an instance and options to plans that the checker has accepted.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::check::{self, Violation};
use crate::exact;
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::control::{self, Control};
use crate::problem::plan::Plan;
use crate::problem::plan::bare::BarePlan;
use crate::problem::switches::Switches;
pub use crate::solve::error::Error;
use crate::solve::evaluate::{self, Evaluation};
use crate::solve::formulate::{self, Formulated};
use crate::solve::methods::{self, Method};
use crate::solve::posed::{MethodResult, Posed, options_by_size};
use crate::solve::what_if::{self, Answer, Question};

/// What is asked: the problem, who solves it, and for how long. Build it with `..Options::default()`: fields may be added.
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
    /// Resident memory that the process may take, in bytes: searches keep within it, and what does not stops with the best plan and
    /// bound. Default: what it has and three quarters of what the machine has free.
    pub memory_bytes: Option<u64>,
    /// Stop at this relative gap between plan and bound. Default: 0.
    pub gap: f64,
    /// Seed of everything random. Default: 0.
    pub seed: u64,
    /// Parts of the exact engine that it may use, for its developers. Default: all.
    #[doc(hidden)]
    pub switches: Switches,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pipeline: PipelineOptions::default(),
            method: Method::Exact(exact::Method::Exact),
            time_limit: None,
            memory_bytes: None,
            gap: 0.0,
            seed: 0,
            switches: Switches::ALL,
        }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Wall-clock seconds since the start.
    pub seconds: f64,
    /// Objective of the best plan in ms; absent before the first.
    pub objective_ms: Option<f64>,
    /// The best bound in ms.
    pub bound_ms: f64,
}

/// Who looks at a search while it runs, and may end it.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    /// Once set, the search stops with the best plan and bound, within a fifth of a second or so.
    pub interrupt: Option<&'a AtomicBool>,
    /// Called now and then, from any thread.
    pub progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
}

impl Options {
    /// What `search` finds under these limits, while somebody watches.
    pub(crate) fn watched<T>(
        &self,
        settings: &Settings,
        watch: Watch,
        search: impl FnOnce(&Control) -> T,
    ) -> T {
        let told = |progress: &control::Progress| {
            if let Some(show) = watch.progress {
                show(&Progress {
                    seconds: progress.seconds,
                    objective_ms: progress.incumbent_ns.map(|ns| settings.ms(ns)),
                    bound_ms: settings.ms(progress.bound_ns),
                });
            }
        };
        search(&Control {
            progress: Some(&told),
            ..self.control(watch.interrupt)
        })
    }

    /// These limits, from now on.
    pub(crate) fn control<'a>(&self, interrupt: Option<&'a AtomicBool>) -> Control<'a> {
        let unlimited = Control::default();
        Control {
            time_limit: self.time_limit,
            memory_bytes: self.memory_bytes,
            gap: self.gap,
            seed: self.seed,
            switches: self.switches,
            interrupt: interrupt.unwrap_or(unlimited.interrupt),
            ..unlimited
        }
    }
}

/// Solves the problem that the options ask of an instance, and checks the plan on a path of its own.
///
/// Whether the plan is proved stands in [`Plan::status`]; where no plan exists, that is the answer, and the plan has no
/// stages.
///
/// ```
/// use stagecut::{Instance, Options, PipelineOptions, Status};
///
/// let instance = Instance::builder("three layers")
///     .layer("conv1", 3.0, 6.0)
///     .layer("conv2", 1.0, 2.0)
///     .layer("dense", 2.0, 4.0)
///     .tensor("conv1", ["conv2"], 8e6)
///     .tensor("conv2", ["dense"], 2e6)
///     .devices("gpu", 2, 16e9)
///     .link(100e9, 0.0)
///     .build()?;
/// let plan = stagecut::solve(&instance, &Options::default())?;
/// assert_eq!(plan.status, Status::Optimal);
/// assert_eq!(plan.stages[0].forward, ["conv1"]);
/// assert_eq!(plan.stages[1].forward, ["conv2", "dense"]);
///
/// let pipeline = PipelineOptions { stages: Some(3), ..Default::default() };
/// let error = stagecut::solve(&instance, &Options { pipeline, ..Options::default() }).expect_err("two devices");
/// assert!(error.to_string().contains("3 stages and 2 `gpu` devices"));
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn solve(instance: &Instance, options: &Options) -> Result<Plan, Error> {
    solve_watched(instance, options, Watch::default())
}

/// Solves like [`solve`], while somebody watches and may end the search.
///
/// ```
/// use std::sync::atomic::AtomicBool;
/// use stagecut::{Instance, Options, Status, Watch};
///
/// let instance = Instance::builder("two layers")
///     .layer("conv", 3.0, 6.0)
///     .layer("dense", 2.0, 4.0)
///     .tensor("conv", ["dense"], 8e6)
///     .devices("gpu", 2, 16e9)
///     .build()?;
/// // Another thread, or a handler of signals, would set it.
/// let interrupt = AtomicBool::new(false);
/// let watch = Watch {
///     interrupt: Some(&interrupt),
///     progress: Some(&|progress| println!("{progress:?}")),
/// };
/// let plan = stagecut::solve_watched(&instance, &Options::default(), watch)?;
/// assert_eq!(plan.status, Status::Optimal);
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn solve_watched(instance: &Instance, options: &Options, watch: Watch) -> Result<Plan, Error> {
    let posed = Posed::new(instance, &options.pipeline)?;
    options.watched(&posed.settings, watch, |control| {
        posed.solve(options.method, control)
    })
}

/// What no plan can be better than, without looking for one: a plan without stages.
///
/// ```
/// use stagecut::{Instance, Options, Watch};
///
/// let instance = Instance::builder("two layers")
///     .layer("conv", 3.0, 6.0)
///     .layer("dense", 2.0, 4.0)
///     .tensor("conv", ["dense"], 8e6)
///     .devices("gpu", 2, 16e9)
///     .build()?;
/// let bound = stagecut::bound(&instance, &Options::default(), Watch::default())?;
/// assert!(bound.bound_ms >= Some(7.5));
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn bound(instance: &Instance, options: &Options, watch: Watch) -> Result<Plan, Error> {
    let posed = Posed::new(instance, &options.pipeline)?;
    options.watched(&posed.settings, watch, |control| posed.bound(control))
}

/// The optimum as a bandwidth, memory, stages or devices change. What the options say of that number is replaced; their time limit is for
/// all searches together.
///
/// ```
/// use stagecut::what_if::{Parameter, Question};
/// use stagecut::{Instance, Options, Watch};
///
/// let instance = Instance::builder("two layers")
///     .layer("conv", 3.0, 6.0)
///     .layer("dense", 2.0, 4.0)
///     .build()?;
/// let question = Question {
///     parameter: Parameter::Stages,
///     from: 1.0,
///     to: 2.0,
///     stages: None,
///     tolerance: 0.0,
///     point_limit: None,
/// };
/// let answer = stagecut::what_if(&instance, &Options::default(), &question, Watch::default())?;
/// assert_eq!(answer.curves[0].points[1].objective_ms, Some(9.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn what_if(
    instance: &Instance,
    options: &Options,
    question: &Question,
    watch: Watch,
) -> Result<Answer, Error> {
    let control = options.control(watch.interrupt);
    what_if::ask(instance, &options.pipeline, question, &control, &|_| ())
}

/// The plans of every method that applies to the problem: `exact`, the heuristics, and the baseline of separate cuts. The time limit of the
/// options is for all of them together.
///
/// ```no_run
/// use stagecut::{Instance, Options, PipelineOptions};
///
/// let instance = Instance::read("instances/googlenet.onnx".as_ref(), None)?;
/// let pipeline = PipelineOptions { stages: Some(4), ..Default::default() };
/// for plan in stagecut::compare(&instance, &Options { pipeline, ..Options::default() })? {
///     println!("{:16} {:?} ms", plan.method, plan.objective_ms);
/// }
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error`].
pub fn compare(instance: &Instance, options: &Options) -> Result<Vec<Plan>, Error> {
    let posed = Posed::new(instance, &options.pipeline)?;
    let methods = methods::beside_each_other(posed.problem()?);
    let search = |control: &Control| posed.compare(&methods, control);
    let compared = options.watched(&posed.settings, Watch::default(), search)?;
    let plans = compared.into_iter().filter_map(|compared| match compared.result {
        MethodResult::Plan(plan) => Some(*plan),
        MethodResult::Inapplicable(_) | MethodResult::Interrupted => None,
    });
    Ok(plans.collect())
}

/// What is wrong with a plan of the problem that the options ask; nothing if it holds.
///
/// ```no_run
/// use stagecut::{Instance, Options, PipelineOptions, plan};
///
/// let instance = Instance::read("instances/googlenet.onnx".as_ref(), None)?;
/// let plan = plan::read("plan.json".as_ref())?;
/// let pipeline = PipelineOptions { stages: Some(4), ..Default::default() };
/// for violation in stagecut::check(&instance, &Options { pipeline, ..Options::default() }, &plan)? {
///     println!("{violation}");
/// }
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Input`] where the options do not fit the instance.
pub fn check(instance: &Instance, options: &Options, plan: &Plan) -> Result<Vec<Violation>, Error> {
    let settings = Settings::resolve(instance, &options.pipeline)?;
    Ok(check::check(instance, &settings, plan))
}

/// What stages that somebody else chose cost under the problem that the options ask, and everything that is wrong with them.
///
/// Where nothing says how many stages there may be, there may be as many as the plan has.
///
/// ```
/// use stagecut::{Instance, Options, plan::bare};
///
/// let instance = Instance::builder("three layers")
///     .layer("conv1", 3.0, 6.0)
///     .layer("conv2", 1.0, 2.0)
///     .layer("dense", 2.0, 4.0)
///     .tensor("conv1", ["conv2"], 8e6)
///     .tensor("conv2", ["dense"], 2e6)
///     .devices("gpu", 2, 16e9)
///     .link(100e9, 0.0)
///     .build()?;
/// let stages = bare::parse(br#"[["conv1", "conv2"], ["dense"]]"#).expect("two stages");
/// let evaluation = stagecut::evaluate(&instance, &Options::default(), &stages)?;
/// assert!(evaluation.violations.is_empty());
/// assert_eq!(evaluation.plan.objective_ms, Some(12.04));
/// # Ok::<(), stagecut::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Input`] where the options do not fit the instance, or the stages are none of its layers.
pub fn evaluate(instance: &Instance, options: &Options, stages: &BarePlan) -> Result<Evaluation, Error> {
    let at_size = |asked: &PipelineOptions| {
        let settings = evaluate::settings(instance, asked, stages)?;
        let problem = Problem::new(instance, settings.clone()).ok();
        evaluate::evaluate(instance, &settings, problem.as_ref(), stages)
    };
    let by_size = options_by_size(instance, &options.pipeline)?;
    let each = by_size.iter().map(at_size).collect::<Result<_, _>>()?;
    Ok(Evaluation::best_of_sizes(each).expect("a size at least"))
}

/// Writes the mixed-integer program of the problem for other solvers: LP or MPS, by the extension of the file's name.
/// Comments in the file say how to read its objective in ms; its rows are named as in the pages of `formulations/`.
///
/// ```
/// use stagecut::{Instance, Options};
///
/// let instance = Instance::builder("two layers")
///     .layer("conv", 3.0, 6.0)
///     .layer("dense", 2.0, 4.0)
///     .tensor("conv", ["dense"], 8e6)
///     .devices("gpu", 2, 16e9)
///     .build()?;
/// let path = std::env::temp_dir().join(format!("stagecut-{}.lp", std::process::id()));
/// let program = stagecut::formulate(&instance, &Options::default(), &path)?;
/// assert!(program.binaries > 0);
/// assert!(std::fs::read_to_string(&path)?.contains("unit of time"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error`]; another extension is [`Error::UnknownProgramFormat`].
pub fn formulate(instance: &Instance, options: &Options, path: &Path) -> Result<Formulated, Error> {
    let posed = Posed::new(instance, &options.pipeline)?;
    formulate::write(instance, posed.problem()?, path)
}
