//! Workers as linear programs can have them: one time for every item, and rates that add up.
#![doc = include_str!("../../formulations/pools.md")]

use crate::model::options::{Shares, Synchronization, WorkerMode};
use crate::problem::Problem;
use crate::problem::cost::allocation::StageWork;
use crate::problem::shares::Level;
use crate::problem::workers::{Choice, Workers};

/// Why a program cannot express a problem: in words for a message.
pub(crate) type Unsupported = &'static str;

/// Devices that work as one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    /// Forward and backward time of every item at rate 1, in ns; `None` where some device cannot run it.
    pub times_ns: Vec<Option<[u64; 2]>>,
    /// What the devices are made of.
    pub parts: Vec<Part>,
    /// How the phases share the parts.
    pub policy: Policy,
    /// Whether its transfers take time.
    pub pays: bool,
    /// Bytes it may hold.
    pub memory_bytes: u64,
    /// The cost of keeping its weights equal, if it has any.
    pub synchronization: Option<Ring>,
}

/// A type of resource in all devices of a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// Forward and backward rate.
    pub rates: [f64; 2],
    /// Position in [`Workers::resource_names`].
    pub name: usize,
    /// What may be done with it: its levels, or the two ends, between which any share lies.
    pub levels: Vec<Level>,
    /// Whether any share between the ends goes.
    pub is_free: bool,
}

/// How the phases share a pool's parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    /// Each phase has everything in its turn.
    Turns,
    /// Shares are prescribed: the rates that each phase gets.
    Fixed([f64; 2]),
    /// The plan chooses shares, stage by stage.
    Free,
    /// The plan chooses one share a resource type for all stages.
    Global,
}

/// A ring all-reduce, by micro-batch: so many ns for each byte of parameters, and if there are any at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ring {
    /// ns a byte.
    pub byte_ns: f64,
    /// ns where there is something to reduce.
    pub latency_ns: f64,
    /// Messages of each device, over the micro-batches of an iteration.
    pub messages: f64,
}

/// A problem of workers that differ, as its programs take it.
#[derive(Clone, Copy)]
pub(crate) struct Pooled<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Its workers.
    pub workers: &'a Workers,
    /// What may run stages: a pool for every choice, or one device of every class.
    pub pools: &'a [Pool],
    /// A name for each item.
    pub labels: &'a [String],
}

impl Pool {
    /// The pool of a choice.
    ///
    /// # Errors
    ///
    /// Classes that take unlike times for some item, and shares that depend on the items in a way that is not linear.
    pub(crate) fn new(problem: &Problem, workers: &Workers, choice: &Choice) -> Result<Self, Unsupported> {
        let parts = parts(workers, choice);
        Ok(Self {
            times_ns: times_ns(problem, choice)?,
            policy: share_policy(problem, workers, choice, &parts)?,
            parts,
            pays: workers.pays(choice),
            memory_bytes: workers.memory_bytes(&problem.settings, choice),
            synchronization: ring(problem, workers, choice),
        })
    }

    /// The most that all parts do of a phase, 0 for forward propagation, in a ns: a measured level may be faster than the whole.
    pub(crate) fn rate(&self, phase: usize) -> f64 {
        let fastest = |part: &Part| match self.policy {
            Policy::Turns => 1.0,
            _ => {
                let speeds = part
                    .levels
                    .iter()
                    .map(|level| [level.forward, level.backward][phase]);
                speeds.fold(1.0, f64::max)
            }
        };
        self.parts
            .iter()
            .map(|part| part.rates[phase] * fastest(part))
            .sum()
    }

    /// Least time in ns that an item keeps the pool busy, all shares being as good as can be; `None` if it cannot run.
    pub(crate) fn least_ns(&self, item: usize) -> Option<f64> {
        let [forward, backward] = self.phases_ns(item)?;
        Some(match self.policy {
            Policy::Turns => forward + backward,
            _ => forward.max(backward),
        })
    }

    /// Time in ns that each phase of an item takes at the full rate; `None` if it cannot run.
    pub(crate) fn phases_ns(&self, item: usize) -> Option<[f64; 2]> {
        let times = self.times_ns[item]?;
        Some([0, 1].map(|phase| times[phase] as f64 / self.rate(phase)))
    }

    /// Whether some item has work in a phase.
    pub(crate) fn works(&self, phase: usize) -> bool {
        self.times_ns.iter().flatten().any(|times| times[phase] > 0)
    }

    /// By how many ns at most rounding makes a stage cheaper than it is in real numbers: half a ns where work may not
    /// take whole ns, and for each message of a ring.
    pub(crate) fn rounding_ns(&self) -> f64 {
        let is_whole = |phase: usize| self.rate(phase) == 1.0 || !self.works(phase);
        let work = match self.policy {
            Policy::Turns if is_whole(0) && is_whole(1) => 0.0,
            _ => 0.5,
        };
        work + self.synchronization.map_or(0.0, |ring| 0.5 * ring.messages)
    }
}

/// One time an item for all devices of the choice, at rate 1.
fn times_ns(problem: &Problem, choice: &Choice) -> Result<Vec<Option<[u64; 2]>>, Unsupported> {
    let mut of_items = Vec::with_capacity(problem.items.len());
    for item in &problem.items {
        let present = (0..choice.devices.len()).filter(|&class| choice.devices[class] > 0);
        let times: Option<Vec<[u64; 2]>> = present
            .map(|class| item.times[class].map(|times| [times.forward_ns, times.backward_ns]))
            .collect();
        if times
            .iter()
            .any(|times| times.iter().any(|other| *other != times[0]))
        {
            return Err("groups of kinds with unrelated times are not linear");
        }
        of_items.push(times.map(|times| times[0]));
    }
    Ok(of_items)
}

fn parts(workers: &Workers, choice: &Choice) -> Vec<Part> {
    let part = |(class, resource): (usize, usize)| {
        let devices = choice.devices[class] as f64;
        let of = &workers.classes[class];
        let rates = &of.resources[resource];
        let ends = || vec![Level::linear(0.0), Level::linear(1.0)];
        Part {
            rates: [devices * rates.forward_rate, devices * rates.backward_rate],
            name: workers.name_of(class, resource),
            levels: of.levels[resource].clone().unwrap_or_else(ends),
            is_free: of.levels[resource].is_none(),
        }
    };
    workers.resources(choice).map(part).collect()
}

fn share_policy(
    problem: &Problem,
    workers: &Workers,
    choice: &Choice,
    parts: &[Part],
) -> Result<Policy, Unsupported> {
    match (problem.settings.worker, problem.settings.shares) {
        (WorkerMode::Sequential, _) => Ok(Policy::Turns),
        (_, Shares::Even) => {
            // The levels do not depend on what the stage holds.
            let something = StageWork {
                times_ns: vec![Some([1, 1]); workers.classes.len()],
                ..StageWork::default()
            };
            let load = workers.load(problem, choice, &something, &[]);
            let levels = load.map_or(Vec::new(), |load| load.levels);
            let sum = |of: &dyn Fn(&Part, &Level) -> f64| -> f64 {
                parts
                    .iter()
                    .zip(&levels)
                    .map(|(part, level)| of(part, level))
                    .sum()
            };
            let rates = [
                sum(&|part, level| part.rates[0] * level.forward),
                sum(&|part, level| part.rates[1] * level.backward),
            ];
            match rates.iter().all(|&rate| rate > 0.0) {
                true => Ok(Policy::Fixed(rates)),
                false => Err("the level nearest to an even share stops a phase"),
            }
        }
        (_, Shares::Best) => Ok(Policy::Free),
        (_, Shares::Global) => Ok(Policy::Global),
        (_, Shares::Theorem) => match same_ratio(parts) && parts.iter().all(|part| part.is_free) {
            true => Ok(Policy::Free),
            false => {
                Err("the theorem's shares are not linear where ratios of rates differ or shares have levels")
            }
        },
    }
}

/// Whether forward and backward rates have the same ratio in all parts.
pub(crate) fn same_ratio(parts: &[Part]) -> bool {
    let [forward, backward] = parts.first().map_or([1.0; 2], |part| part.rates);
    let differs = |part: &Part| {
        let (one, other) = (part.rates[0] * backward, part.rates[1] * forward);
        (one - other).abs() > 1e-12 * one
    };
    !parts.iter().any(differs)
}

fn ring(problem: &Problem, workers: &Workers, choice: &Choice) -> Option<Ring> {
    let settings = &problem.settings;
    let devices: usize = choice.devices.iter().sum();
    let is_free = settings.synchronization == Synchronization::None
        || !settings.mode.trains()
        || !settings.communication.takes_time()
        || devices < 2
        || !workers.pays(choice);
    let ticks = settings.ticks_per_ns as f64 / settings.micro_batches.unwrap_or(1) as f64;
    let messages = 2.0 * (devices as f64 - 1.0) * ticks;
    (!is_free).then(|| Ring {
        byte_ns: messages / devices as f64 * 1e9 / settings.link.bandwidth_bytes_per_s,
        latency_ns: messages * settings.link.latency_ns as f64,
        messages,
    })
}
