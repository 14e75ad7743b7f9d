//! What there would be a plan with, for those who are told that there is none: options that were tried.
//!
//! Each candidate changes one or two of the options that were asked, and goes to the exact engine, which stops at its first plan. Only
//! those that lead to a plan are told, so that a hint that names an option is true.

use std::time::{Duration, Instant};

use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::options::{Degrees, PipelineOptions, Recompute, Schedule};
use crate::model::settings::Settings;
use crate::problem::control::Control;
use crate::problem::plan::{LeastMemory, Plan};
use crate::solve::error::Error;
use crate::solve::least_memory;
use crate::solve::posed::{Existence, Posed, existence};

/// How long all of them may take where nobody said so: it is an answer to a question that was not asked.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long one may take, so that others have their turn.
const PATIENCE_EACH: Duration = Duration::from_secs(2);

/// Remedies that are told; more would hide the first.
const MOST: usize = 3;

/// The remedy that takes an option away.
const WITHOUT_ALL_STAGES: &str = "without --all-stages";

/// A change of options, and how it is written.
struct Candidate {
    words: String,
    change: PipelineOptions,
}

impl Posed<'_> {
    /// Says in a plan that there is none what there would be one with: options, and how much memory, in what is left of the time that its
    /// search was given.
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
    ) -> Result<(), Error> {
        let spent = Duration::try_from_secs_f64(plan.statistics.seconds).unwrap_or_default();
        let left = control.time_limit.map(|limit| limit.saturating_sub(spent));
        let control = control.with_time(left);
        plan.remedies = search(self.instance, asked, &self.settings, &control)?;
        let is_limited = least_memory::least_limit(self.instance, &self.settings).is_some();
        if !is_limited || !plan.reasons.is_empty() {
            return Ok(());
        }
        plan.least_memory = least_memory::search(self.instance, &self.settings, &control, show)?;
        match &plan.least_memory {
            Some(known)
                if known
                    .at_most_bytes
                    .is_some_and(|most| most < known.at_least_bytes) =>
            {
                Err(Error::Contradiction(format!(
                    "it is proved that no plan fits less than {} bytes, and one holds {:?}",
                    known.at_least_bytes, known.at_most_bytes
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The options with which a problem has a plan that has none as it was asked, each as it stands on the command line.
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
) -> Result<Vec<String>, SolverError> {
    let started = Instant::now();
    let patience = control.time_limit.map_or(PATIENCE, |_| {
        control.remaining().unwrap_or(PATIENCE).min(PATIENCE)
    });
    let tried = |candidate: &Candidate| {
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
    let mut found: Vec<String> = Vec::new();
    for candidate in candidates(instance, settings) {
        // Two changes where one of them will do help nobody, nor more stages than are needed.
        let option = |words: &str| words.split(' ').next().map(str::to_owned);
        let is_known =
            |words: &String| candidate.words.contains(words) || option(words) == option(&candidate.words);
        if found.len() < MOST && !found.iter().any(is_known) && tried(&candidate)? {
            found.push(candidate.words);
        }
    }
    // Devices that nobody has are the last thing to ask for, and no more of them than are needed.
    if found.is_empty() {
        for candidate in more_devices(instance, settings) {
            if tried(&candidate)? {
                return Ok(vec![candidate.words]);
            }
        }
    }
    Ok(found)
}

/// What may help, the mildest first.
fn candidates(instance: &Instance, settings: &Settings) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    let mut add = |words: &str, change: PipelineOptions| {
        let words = words.to_owned();
        all.push(Candidate { words, change });
    };
    let replicas = PipelineOptions {
        replicas: Some(Degrees::Choose),
        ..PipelineOptions::default()
    };
    let (tensor, recompute) = (split(), again());
    let may_split = may_split(instance, settings);
    let may_recompute = may_recompute(settings);
    if may_split {
        add("--tensor choose", tensor.clone());
    }
    if settings.replicas != Degrees::Choose && !settings.replicas.is_one() {
        add("--replicas choose", replicas.clone());
    }
    if may_recompute {
        add("--recompute choose", recompute.clone());
    }
    if may_split && may_recompute {
        add(
            "--tensor choose --recompute choose",
            tensor.clone().or(&recompute),
        );
    }
    if may_split && !settings.replicas.is_one() {
        add("--tensor choose --replicas choose", tensor.or(&replicas));
    }
    if settings.all_stages {
        let change = PipelineOptions {
            all_stages: Some(false),
            ..PipelineOptions::default()
        };
        add(WITHOUT_ALL_STAGES, change);
    }
    for stages in more_stages(instance, settings) {
        let change = PipelineOptions {
            stages: Some(stages),
            ..PipelineOptions::default()
        };
        add(&format!("--stages {stages}"), change);
    }
    if settings.schedule == Schedule::Gpipe && settings.mode.trains() {
        let change = PipelineOptions {
            schedule: Some(Schedule::OneFOneB),
            ..PipelineOptions::default()
        };
        add("--schedule 1f1b", change);
    }
    all
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
fn more_devices(instance: &Instance, settings: &Settings) -> Vec<Candidate> {
    let [kind] = settings.kinds[..] else {
        return Vec::new();
    };
    let Some(count) = settings.count(&instance.cluster, kind) else {
        return Vec::new();
    };
    let mut ways = vec![("", PipelineOptions::default())];
    if may_recompute(settings) {
        ways.push((" --recompute choose", again()));
    }
    if may_split(instance, settings) {
        ways.push((" --tensor choose", split()));
        ways.push((" --tensor choose --recompute choose", split().or(&again())));
    }
    let mut all = Vec::new();
    for devices in [2, 4, 8].map(|times| count.saturating_mul(times)) {
        all.extend(ways.iter().map(|(words, change)| Candidate {
            words: format!("--devices {devices}{words}"),
            change: PipelineOptions {
                devices: Some(devices),
                ..change.clone()
            },
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
