//! Small random problems, the same for the same seed.
//!
//! Most times are whole milliseconds and sizes a few bytes, so that ties are many, sums are exact, and two methods that agree,
//! agree to the last digit.

// Every test crate uses only some of this.
#![allow(dead_code)]

pub mod by_hand;
pub mod chunked;
pub mod command;
pub mod draw;
pub mod mixed;
pub mod modal;
pub mod pages;
pub mod refusal;
pub mod slots;
pub mod study;
pub mod together;

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::options::{Cuts, PipelineOptions, WorkerMode};
use stagecut::plan::Plan;
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LinkSpec};
use stagecut::units::ms_to_ns;

use draw::{Scope, draw};

/// Bandwidth at which a million bytes take a millisecond.
const BANDWIDTH_BYTES_PER_S: f64 = 1e9;
const BYTES_PER_MS: f64 = 1e6;

/// Seeds of the problems that a test draws: so many, or as many as `RANDOM_CASES` says, from 0 or from `RANDOM_FROM` on.
pub fn seeds(count: u64) -> Range<u64> {
    let said = |name: &str| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse::<u64>().expect("a whole number"))
    };
    let from = said("RANDOM_FROM").unwrap_or(0);
    from..from + said("RANDOM_CASES").unwrap_or(count)
}

/// How many problems a test draws where some draws are none, likewise.
pub fn draws(count: u64) -> u64 {
    let seeds = seeds(count);
    seeds.end - seeds.start
}

/// A small problem with anything in it, or `None` where the draw is an input fault, such as more non-empty stages than
/// items.
pub fn random_problem(seed: u64) -> Option<(Instance, Problem)> {
    let chain = seed.is_multiple_of(5);
    problem_of(&random_spec(seed, chain))
}

/// A link on which a million bytes take a millisecond.
pub fn link() -> LinkSpec {
    LinkSpec {
        bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
        latency_ms: 0.0,
        nodes: None,
    }
}

/// The problem that a specification asks, or `None` where it is faulty.
pub fn problem_of(spec: &InstanceSpec) -> Option<(Instance, Problem)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let problem = Problem::new(&instance, settings).ok()?;
    Some((instance, problem))
}

/// By how much two programs may differ on what the same plan takes, in whole ns.
///
/// A time on shares is one over a sum of doubles: half-way between two ns its rounding may go either way. Seed 810 of mixed
/// problems: a third of two, for 13,498,249 ns, is 20,247,373.5 ns.
pub fn rounding_ns(problem: &Problem) -> u64 {
    u64::from(problem.settings.worker == WorkerMode::Concurrent)
}

/// An objective of the problem's own unit in whole ns.
pub fn whole_ns(problem: &Problem, objective: u64) -> u64 {
    match objective {
        u64::MAX => u64::MAX,
        objective => problem.settings.whole_ns(objective) / problem.settings.ticks_per_ns,
    }
}

/// What a plan takes in whole ns.
pub fn plan_ns(plan: &Plan) -> Option<u64> {
    plan.objective_ms.and_then(ms_to_ns)
}

/// A time in whole ns; more than any where there is none.
pub fn ns(ms: Option<f64>) -> u64 {
    ms.and_then(ms_to_ns).unwrap_or(u64::MAX)
}

/// Whether the order leaves no choice. Items are numbered along it, so each must be tied to the next.
pub fn is_chain(problem: &Problem) -> bool {
    let pair = |item: usize| ((item as u32).into(), (item as u32 + 1).into());
    (0..problem.items.len() - 1).all(|item| {
        let (from, to) = pair(item);
        problem.order.contains_edge(from, to)
    })
}

/// A problem with anything in it that brute force can take, whether workers are alike or differ, or `None` where the draw is an
/// input fault.
pub fn any_problem(seed: u64) -> Option<(Instance, Problem)> {
    problem_of(&any_spec(seed))
}

/// What [`any_problem`] asks.
pub fn any_spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [[2, 4], [2, 5], [3, 7]][seed as usize % 3],
        chain: seed.is_multiple_of(5),
        mixed: seed % 4 < 3,
        cuts: (seed % 3 == 2).then_some(Cuts::Tied),
    };
    draw(format!("any-{seed}"), seed, scope)
}

/// A network of 4 to 10 layers with tied cuts and options of any kind; a chain has a tensor from every layer to the next.
pub fn random_spec(seed: u64, chain: bool) -> InstanceSpec {
    spec_of_size(seed, [4, 10], chain, Cuts::Tied)
}

/// A problem of at most 8 passes with anything in it, in training and with separate cuts; every fourth one is a chain, and every fifth has frozen layers.
pub fn separate_problem(seed: u64) -> Option<(Instance, Problem)> {
    let mut spec = separate_spec(seed, 3 + seed as usize % 2, seed.is_multiple_of(4));
    if seed % 5 == 2 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let forward = spec.network.layers.iter_mut().filter(|layer| !layer.backward);
        forward.for_each(|layer| layer.frozen = rng.random_bool(0.5));
    }
    problem_of(&spec).filter(|(_, problem)| problem.items.len() <= 8)
}

/// A chain of so many layers with options of any kind, in training and with separate cuts.
pub fn separate_chain(seed: u64, layers: usize) -> InstanceSpec {
    separate_spec(seed, layers, true)
}

/// A network of so many layers with options of any kind, in training and with separate cuts.
pub fn separate_spec(seed: u64, layers: usize, chain: bool) -> InstanceSpec {
    spec_of_size(seed, [layers, layers], chain, Cuts::Separate)
}

/// A problem of 12 to 18 layers that asks for a period, or `None` where the draw is faulty or asks for an iteration.
pub fn larger_problem(seed: u64) -> Option<(Instance, Problem)> {
    let count = ChaCha8Rng::seed_from_u64(seed).random_range(12..=18);
    let spec = spec_of_size(seed, [count, count], false, Cuts::Tied);
    problem_of(&spec).filter(|(_, problem)| problem.formula().is_bottleneck())
}

/// A problem of 12 to 18 passes with separate cuts that asks for a period, or `None` where the draw is faulty.
pub fn larger_separate_problem(seed: u64) -> Option<(Instance, Problem)> {
    let count = ChaCha8Rng::seed_from_u64(seed).random_range(6..=9);
    let spec = spec_of_size(seed, [count, count], false, Cuts::Separate);
    problem_of(&spec).filter(|(_, problem)| problem.formula().is_bottleneck())
}

/// A problem of workers that are alike.
fn spec_of_size(seed: u64, layers: [usize; 2], chain: bool, cuts: Cuts) -> InstanceSpec {
    let scope = Scope {
        layers,
        chain,
        mixed: false,
        cuts: Some(cuts),
    };
    draw(format!("random-{seed}"), seed, scope)
}
