//! SAPP's instance: least period, least recomputation, its own objective, and the shortest simulated iteration
//! (`instances/sapp`, written by `studies/modes/sapp`).

use std::path::{Path, PathBuf};

use stagecut::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Objective, PipelineOptions};
use stagecut::plan::{self, Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::simulate;

const STAGES: usize = 16;
const MICRO_BATCHES: u64 = 16;
const BLOCKS: usize = 96;
const LIMIT: u64 = 53_000;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("instances/sapp")
        .join(name)
}

fn instance() -> Instance {
    Instance::read(&file("llama-96.json"), None).unwrap()
}

fn settings(instance: &Instance) -> Settings {
    let period = PipelineOptions {
        objective: Some(Objective::Period),
        ..PipelineOptions::default()
    };
    Settings::resolve(instance, &period).unwrap()
}

fn planned(method: &str) -> Plan {
    let instance = instance();
    let problem = Problem::new(&instance, settings(&instance)).unwrap();
    let method = methods::find(method).unwrap();
    let plan = method.run(&instance, &problem, &Control::default()).unwrap();
    assert_eq!(check::check(&instance, &problem.settings, &plan), []);
    plan
}

/// A plan of the folder, which passes its check, and its simulated iteration in ms.
fn simulated(name: &str) -> (Plan, f64) {
    let instance = instance();
    let plan = plan::read(&file(name)).unwrap();
    assert_eq!(check::check(&instance, &settings(&instance), &plan), []);
    let simulation = simulate::simulate(&plan, &simulate::Request::default()).unwrap();
    (plan, simulation.iteration_ms)
}

fn recomputed(plan: &Plan) -> Vec<usize> {
    let of_stage = |stage: &plan::PlanStage| {
        let modes = stage.mode.iter().flat_map(|mode| mode.recomputed.values());
        modes.map(Vec::len).sum()
    };
    plan.stages.iter().map(of_stage).collect()
}

/// A stage of so many blocks as the figures of the source have it, computed apart from the library.
#[derive(Clone, Copy)]
struct Stage {
    forward: u64,
    backward: u64,
    again: u64,
}

/// `None` where memory has no room; `stages` in all, counted from 0.
fn stage(at: usize, stages: usize, blocks: u64) -> Option<Stage> {
    let end = |first: u64, last: u64| u64::from(at == 0) * first + u64::from(at + 1 == stages) * last;
    let bytes = |again: u64| {
        let stash = 826 * (blocks - again) + 32 * again;
        1583 * blocks + end(11_000, 2473) + (stages - at) as u64 * stash
    };
    let again = (0..=blocks).find(|&again| bytes(again) <= LIMIT)?;
    Some(Stage {
        forward: 60 * blocks + end(10, 30),
        backward: 120 * blocks + 60 * again + end(20, 60),
        again,
    })
}

/// 1F1B without transfers, operation by operation.
fn iteration(stages: &[Stage]) -> u64 {
    let (count, all) = (stages.len(), MICRO_BATCHES as usize);
    // When forward and backward of each micro-batch end.
    let mut ends = vec![[Vec::<u64>::new(), Vec::new()]; count];
    let mut free = vec![0; count];
    let mut last = 0;
    while ends.iter().any(|[_, backward]| backward.len() < all) {
        for k in 0..count {
            let [forward, backward] = [0, 1].map(|pass| ends[k][pass].len());
            let goes_forward = forward < all && forward - backward < count - k;
            let before = match (goes_forward, k == 0, k + 1 == count) {
                (true, true, _) => Some(&0),
                (true, false, _) => ends[k - 1][0].get(forward),
                (false, _, true) => ends[k][0].get(backward),
                (false, _, false) => ends[k + 1][1].get(backward),
            };
            let Some(&before) = before.filter(|_| backward < all) else {
                continue;
            };
            let own = if goes_forward {
                stages[k].forward
            } else {
                stages[k].backward
            };
            free[k] = before.max(free[k]) + own;
            ends[k][usize::from(!goes_forward)].push(free[k]);
            last = last.max(free[k]);
        }
    }
    last
}

/// All plans whose iteration may be shorter than the best.
///
/// Stage `k` starts no backward pass before the first micro-batch has come through all stages behind. Then it has `M` backward passes
/// and `M - q + k` forward ones to do, and the last micro-batch has to go back: the sum of all loads and
/// `(M - 1) B_k + (M - q + k) F_k` are no longer than an iteration.
struct Search {
    /// For each stage what it may hold: blocks, and its part of the bound.
    choices: Vec<Vec<(usize, Stage, u64)>>,
    best: u64,
    simulated: usize,
}

/// Time of all blocks and of head and tail.
const WORK: u64 = 180 * BLOCKS as u64 + 120;

impl Search {
    fn new(stages: usize, best: u64) -> Self {
        let choice = |at: usize, blocks: usize| {
            let own = stage(at, stages, blocks as u64)?;
            let forward = MICRO_BATCHES - (stages - at) as u64;
            let bound = (MICRO_BATCHES - 1) * own.backward + forward * own.forward;
            (WORK + 60 * own.again + bound < best).then_some((blocks, own, bound))
        };
        let of_stage = |at: usize| (0..=BLOCKS).filter_map(|blocks| choice(at, blocks)).collect();
        Self {
            choices: (0..stages).map(of_stage).collect(),
            best,
            simulated: 0,
        }
    }

    /// Gives the stages from `behind.len()` on, counted from the last, so many blocks.
    fn place(&mut self, left: usize, behind: &mut Vec<Stage>, most: u64) {
        let again: u64 = behind.iter().map(|stage| 60 * stage.again).sum();
        if WORK + again + most >= self.best {
            return;
        }
        let Some(at) = self.choices.len().checked_sub(behind.len() + 1) else {
            let stages: Vec<Stage> = behind.iter().rev().copied().collect();
            self.simulated += 1;
            self.best = self.best.min(iteration(&stages));
            return;
        };
        let most_of = |choices: &Vec<(usize, Stage, u64)>| choices.last().map_or(0, |choice| choice.0);
        let room: usize = self.choices[..at].iter().map(most_of).sum();
        for choice in 0..self.choices[at].len() {
            let (blocks, stage, bound) = self.choices[at][choice];
            if blocks <= left && left - blocks <= room {
                behind.push(stage);
                self.place(left - blocks, behind, most.max(bound));
                behind.pop();
            }
        }
    }
}

#[test]
fn the_least_period_computes_eleven_blocks_again() {
    let plan = planned("exact");
    assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(1260.0)));
    assert_eq!(recomputed(&plan).iter().sum::<usize>(), 11);
}

/// What is asked for where nobody says an objective, since the file says its micro-batches.
#[test]
fn the_shortest_iteration_is_proved() {
    let plan = stagecut::solve(&instance(), &stagecut::Options::default()).unwrap();
    assert_eq!(
        (plan.status, plan.objective_ms),
        (Status::Optimal, Some(35_820.0))
    );
}

/// The model as the source has it: blocks and recomputed ones of each stage are counted, stages may hold no block.
#[test]
fn sapps_objective_is_least() {
    let plan = planned("sapp");
    let mut least = u64::MAX;
    for longest in (0..3_000).step_by(30) {
        // Least time computed again, by blocks placed.
        let mut sums = vec![None; BLOCKS + 1];
        sums[0] = Some(0);
        for at in 0..STAGES {
            let fits = |own: &Stage| own.forward + own.backward <= longest;
            let stages = (0..=BLOCKS).map(|blocks| stage(at, STAGES, blocks as u64).filter(fits));
            let stages: Vec<Option<Stage>> = stages.collect();
            let reached = |placed: usize| -> Option<u64> {
                let with = |blocks: usize| Some(sums[placed - blocks]? + 60 * stages[blocks]?.again);
                (0..=placed).filter_map(with).min()
            };
            sums = (0..=BLOCKS).map(reached).collect();
        }
        if let Some(sum) = sums[BLOCKS] {
            least = least.min(180 * BLOCKS as u64 + sum + (MICRO_BATCHES - 2) * longest);
        }
    }
    assert_eq!((least, plan.statistics.estimate_ms), (35_580, Some(35_580.0)));
}

#[test]
fn the_published_plan_takes_what_is_published() {
    let (plan, iteration_ms) = simulated("published.json");
    assert_eq!((plan.objective_ms, iteration_ms), (Some(1260.0), 36_870.0));
    let loads: f64 = plan.stages.iter().map(|stage| stage.load_ms).sum();
    // Without head and tail.
    assert_eq!(loads - 120.0 + (MICRO_BATCHES - 2) as f64 * 1260.0, 35_580.0);
    assert_eq!(
        recomputed(&plan),
        [3, 3, 0, 1, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn no_plan_has_a_shorter_simulated_iteration() {
    let (_, iteration_ms) = simulated("shortest-iteration.json");
    assert_eq!(iteration_ms, 35_820.0);
    let mut simulated = 0;
    for stages in 1..=STAGES {
        let mut search = Search::new(stages, 35_821);
        search.place(BLOCKS, &mut Vec::new(), 0);
        let least = if stages == STAGES { 35_820 } else { 35_821 };
        assert_eq!(search.best, least, "{stages} stages");
        simulated += search.simulated;
    }
    println!("{simulated} plans simulated");
}
