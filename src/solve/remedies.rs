//! What there would be a plan with, for those who are told that there is none: options that were tried.
//!
//! Each candidate changes one or two of the options that were asked, and goes to the exact engine, which stops at its first plan. Only
//! those that lead to a plan are told, so that a hint that names an option is true.

use std::time::{Duration, Instant};

use crate::check;
use crate::exact;
use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::options::{Degrees, PipelineOptions, Recompute, Schedule};
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::solve::methods::Method;

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
        let control = control.with_time(Some(left.min(PATIENCE_EACH)));
        leads_to_a_plan(instance, &candidate.change.clone().or(asked), control)
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

fn leads_to_a_plan(
    instance: &Instance,
    options: &PipelineOptions,
    control: Control,
) -> Result<bool, SolverError> {
    let Ok(settings) = Settings::resolve(instance, options) else {
        return Ok(false);
    };
    let Ok(problem) = Problem::new(instance, settings) else {
        return Ok(false);
    };
    let method = Method::Exact(exact::Method::Exact);
    if method.applies(&problem).is_err() {
        return Ok(false);
    }
    let control = Control {
        // The first plan will do.
        gap: 1.0,
        progress: None,
        ..control
    };
    let plan = method.run(instance, &problem, &control)?;
    Ok(!plan.stages.is_empty() && check::check(instance, &problem.settings, &plan).is_empty())
}
