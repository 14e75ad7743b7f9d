//! What there would be a plan with, for those who are told that there is none: options that were tried.
//!
//! Each candidate changes one or two of the options that were asked, and goes to the exact engine, which stops at its first plan. Only
//! those that lead to a plan are told, so that a hint that names an option is true.

use std::time::{Duration, Instant};

use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::options::{Degrees, PipelineOptions, Recompute, Schedule};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::{Asked, Setting, Writer};
use crate::problem::control::Control;
use crate::problem::plan::{LeastMemory, Plan};
use crate::solve::error::Error;
use crate::solve::least_memory;
use crate::solve::posed::{Existence, Posed, existence, options_by_size};

/// How long all of them may take where nobody said so: it is an answer to a question that was not asked.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long one may take, so that others have their turn.
const PATIENCE_EACH: Duration = Duration::from_secs(2);

/// Remedies that are told; more would hide the first.
const MOST: usize = 3;

/// A change of options.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// What is asked, or no longer asked.
    asked: Asked,
    /// Whether it is asked no longer.
    is_without: bool,
    change: PipelineOptions,
}

impl Remedy {
    fn new(asked: impl Into<Asked>, change: PipelineOptions) -> Self {
        Self {
            asked: asked.into(),
            is_without: false,
            change,
        }
    }

    /// The change, with options as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        let without = if self.is_without { "without " } else { "" };
        format!("{without}{}", writer(&self.asked))
    }

    /// Whether it asks for all that another does, or for the same option first.
    fn is_covered_by(&self, other: &Self) -> bool {
        let (Asked(own), Asked(others)) = (&self.asked, &other.asked);
        own[0].0 == others[0].0 || others.iter().all(|option| own.contains(option))
    }
}

impl Posed<'_> {
    /// What there would be a plan with where there is none: the options, and, said in the plan, how much memory, in what is left of the time
    /// that its search was given.
    ///
    /// * `asked`: the options that were given beside the instance's own;
    /// * `show`: called with what is known of the memory before every question.
    ///
    /// # Errors
    ///
    /// [`Error::Solver`] where HiGHS breaks down, [`Error::Contradiction`] where a plan fits less memory than is proved to be needed.
    pub fn help(
        &self,
        asked: &PipelineOptions,
        plan: &mut Plan,
        control: &Control,
        show: &dyn Fn(&LeastMemory),
    ) -> Result<Vec<Remedy>, Error> {
        let spent = Duration::try_from_secs_f64(plan.statistics.seconds).unwrap_or_default();
        let left = control.time_limit.map(|limit| limit.saturating_sub(spent));
        let control = control.with_time(left);
        // What fits is the same whatever the size of chunks.
        let by_size = options_by_size(self.instance, asked);
        let asked = by_size.as_ref().map_or(asked, |options| &options[0]);
        let remedies = search(self.instance, asked, &self.settings, &control)?;
        let is_limited = least_memory::least_limit(self.instance, &self.settings).is_some();
        if !is_limited || !plan.reasons.is_empty() {
            return Ok(remedies);
        }
        plan.least_memory = least_memory::search(self.instance, &self.settings, &control, spent, show)?;
        match &plan.least_memory {
            Some(known)
                if known
                    .at_most_bytes
                    .is_some_and(|most| most < known.at_least_bytes) =>
            {
                let what = format!(
                    "it is proved that no plan fits less than {} bytes, and one holds {:?}",
                    known.at_least_bytes, known.at_most_bytes
                );
                Err(Error::Contradiction(what.into()))
            }
            _ => Ok(remedies),
        }
    }
}

/// The options with which a problem has a plan that has none as it was asked.
///
/// * `asked`: the options that were given beside the instance's own;
/// * `settings`: what became of them.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn search(
    instance: &Instance,
    asked: &PipelineOptions,
    settings: &Settings,
    control: &Control,
) -> Result<Vec<Remedy>, SolverError> {
    let started = Instant::now();
    let patience = control.time_limit.map_or(PATIENCE, |_| {
        control.remaining().unwrap_or(PATIENCE).min(PATIENCE)
    });
    let tried = |candidate: &Remedy| {
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() || control.is_interrupted() {
            return Ok(false);
        }
        let Ok(settings) = Settings::resolve(instance, &candidate.change.clone().or(asked)) else {
            return Ok(false);
        };
        let control = control.with_time(Some(left.min(PATIENCE_EACH)));
        let found = existence(instance, settings, &control)?;
        Ok(matches!(found, Existence::Plan(_)))
    };
    let mut found: Vec<Remedy> = Vec::new();
    for candidate in candidates(instance, settings) {
        // Two changes where one of them will do help nobody, nor more stages than are needed.
        let is_known = |other: &Remedy| candidate.is_covered_by(other);
        if found.len() < MOST && !found.iter().any(is_known) && tried(&candidate)? {
            found.push(candidate);
        }
    }
    // Devices that nobody has are the last thing to ask for, and no more of them than are needed.
    if found.is_empty() {
        for candidate in more_devices(instance, settings) {
            if tried(&candidate)? {
                return Ok(vec![candidate]);
            }
        }
    }
    Ok(found)
}

/// What may help, the mildest first.
fn candidates(instance: &Instance, settings: &Settings) -> Vec<Remedy> {
    let mut all: Vec<Remedy> = (0..settings.constraints.len())
        .map(|at| without_constraint(settings, at))
        .collect();
    let mut push = |candidate: Remedy| all.push(candidate);
    let choose = |setting: Setting| setting.given("choose");
    let replicas = PipelineOptions {
        replicas: Some(Degrees::Choose),
        ..PipelineOptions::default()
    };
    let (tensor, recompute) = (split(), again());
    let may_split = may_split(instance, settings);
    let may_recompute = may_recompute(settings);
    if may_split {
        push(Remedy::new(choose(setting::TENSOR), tensor.clone()));
    }
    if settings.replicas != Degrees::Choose && !settings.replicas.is_one() {
        push(Remedy::new(choose(setting::REPLICAS), replicas.clone()));
    }
    if may_recompute {
        push(Remedy::new(choose(setting::RECOMPUTE), recompute.clone()));
    }
    if may_split && may_recompute {
        let both = choose(setting::TENSOR).and(choose(setting::RECOMPUTE));
        push(Remedy::new(both, tensor.clone().or(&recompute)));
    }
    if may_split && !settings.replicas.is_one() {
        let both = choose(setting::TENSOR).and(choose(setting::REPLICAS));
        push(Remedy::new(both, tensor.or(&replicas)));
    }
    if settings.all_stages {
        let change = PipelineOptions {
            all_stages: Some(false),
            ..PipelineOptions::default()
        };
        push(Remedy {
            is_without: true,
            ..Remedy::new(setting::ALL_STAGES, change)
        });
    }
    for stages in more_stages(instance, settings) {
        let change = PipelineOptions {
            stages: Some(stages),
            ..PipelineOptions::default()
        };
        push(Remedy::new(setting::STAGES.given(stages), change));
    }
    if settings.schedule == Schedule::Gpipe && settings.mode.trains() {
        let change = PipelineOptions {
            schedule: Some(Schedule::OneFOneB),
            ..PipelineOptions::default()
        };
        push(Remedy::new(setting::SCHEDULE.given(Schedule::OneFOneB), change));
    }
    all
}

/// All constraints but one.
fn without_constraint(settings: &Settings, at: usize) -> Remedy {
    let mut others = settings.constraints.clone();
    let left_out = others.remove(at);
    let change = PipelineOptions {
        constraints: Some(others),
        ..PipelineOptions::default()
    };
    let text = serde_json::to_string(&left_out).unwrap_or_default();
    Remedy {
        is_without: true,
        ..Remedy::new(setting::CONSTRAINTS.given(text), change)
    }
}

/// Stages may be groups that split layers.
fn split() -> PipelineOptions {
    PipelineOptions {
        tensor: Some(Degrees::Choose),
        ..PipelineOptions::default()
    }
}

/// Layers may be computed again.
fn again() -> PipelineOptions {
    PipelineOptions {
        recompute: Some(Recompute::Choose),
        ..PipelineOptions::default()
    }
}

fn may_split(instance: &Instance, settings: &Settings) -> bool {
    instance.network.has_tensor_degrees() && settings.tensor != Degrees::Choose
}

fn may_recompute(settings: &Settings) -> bool {
    settings.mode.trains() && settings.recompute != Recompute::Choose
}

/// Two, four and eight times the devices, of a kind that is counted: alone, and with what else makes room.
fn more_devices(instance: &Instance, settings: &Settings) -> Vec<Remedy> {
    let [kind] = settings.kinds[..] else {
        return Vec::new();
    };
    let Some(count) = settings.count(&instance.cluster, kind) else {
        return Vec::new();
    };
    let choose = |setting: Setting| setting.given("choose");
    let mut ways = vec![(None, PipelineOptions::default())];
    if may_recompute(settings) {
        ways.push((Some(choose(setting::RECOMPUTE)), again()));
    }
    if may_split(instance, settings) {
        ways.push((Some(choose(setting::TENSOR)), split()));
        let both = choose(setting::TENSOR).and(choose(setting::RECOMPUTE));
        ways.push((Some(both), split().or(&again())));
    }
    let mut all = Vec::new();
    for devices in [2, 4, 8].map(|times| count.saturating_mul(times)) {
        all.extend(ways.iter().map(|(also, change)| {
            let asked = setting::DEVICES.given(devices);
            let asked = also.iter().cloned().fold(asked, Asked::and);
            let change = PipelineOptions {
                devices: Some(devices),
                ..change.clone()
            };
            Remedy::new(asked, change)
        }));
    }
    all
}

/// Larger numbers of stages, up to the devices that there are; twice and four times as many where nothing counts them.
fn more_stages(instance: &Instance, settings: &Settings) -> Vec<usize> {
    let layers = instance.network.layers.len();
    let counts = settings
        .kinds
        .iter()
        .map(|&kind| settings.count(&instance.cluster, kind));
    let most = counts
        .sum::<Option<usize>>()
        .map_or(layers, |devices| devices.min(layers));
    let mut numbers: Vec<usize> = [2, 4]
        .into_iter()
        .map(|times| settings.stages.saturating_mul(times).min(most))
        .filter(|&stages| stages > settings.stages)
        .collect();
    numbers.dedup();
    numbers
}
