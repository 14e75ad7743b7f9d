//! The oracles against each other, and against problems solved by hand.

use crate::common::{problem_of, random_problem};
use crate::oracles::brute_force;
use stagecut::cost;
use stagecut::exact::labelled_ideals::{self, DEFAULT_CAP};
use stagecut::ideals::IdealsError;
use stagecut::options::{Communication, MemoryLimit, Objective, PipelineOptions, Schedule};
use stagecut::problem::Problem;
use stagecut::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

const MS: u64 = 1_000_000;

fn ideals_best(problem: &Problem) -> Option<(Vec<usize>, u64)> {
    labelled_ideals::solve(problem, DEFAULT_CAP, &|| false)
        .unwrap()
        .best
}

/// A chain of layers with these forward and backward times, and transfers of these times between them.
fn chain(times_ms: &[(f64, f64)], transfers_ms: &[f64], pipeline: PipelineOptions) -> InstanceSpec {
    let layers = times_ms
        .iter()
        .enumerate()
        .map(|(i, &(forward_ms, backward_ms))| LayerSpec {
            id: i.to_string(),
            forward_ms: Some(forward_ms),
            backward_ms: Some(backward_ms),
            ..LayerSpec::default()
        });
    let tensors = transfers_ms.iter().enumerate().map(|(i, &ms)| TensorSpec {
        producer: i.to_string(),
        consumers: vec![(i + 1).to_string()],
        bytes: None,
        transfer_ms: Some(ms),
    });
    InstanceSpec {
        network: NetworkSpec {
            layers: layers.collect(),
            tensors: tensors.collect(),
            ..NetworkSpec::default()
        },
        pipeline,
        ..InstanceSpec::default()
    }
}

fn stages(stages: usize) -> PipelineOptions {
    PipelineOptions {
        stages: Some(stages),
        ..PipelineOptions::default()
    }
}

/// Both oracles' best plan; they must agree on what it costs.
fn solve(spec: &InstanceSpec) -> Option<(Vec<usize>, u64)> {
    let (_, problem) = problem_of(spec).unwrap();
    let best = brute_force::solve(&problem).unwrap();
    let objective = |best: &Option<(Vec<usize>, u64)>| best.as_ref().map(|(_, ns)| *ns);
    assert_eq!(objective(&best), objective(&ideals_best(&problem)));
    best
}

#[test]
fn a_chain_without_communication_is_balanced() {
    // 3 1 | 1 3 is the only cut that leaves 4 on both sides.
    let times = [(3.0, 0.0), (1.0, 0.0), (1.0, 0.0), (3.0, 0.0)];
    let best = solve(&chain(&times, &[0.0; 3], stages(2)));
    assert_eq!(best, Some((vec![0, 0, 1, 1], 4 * MS)));
}

#[test]
fn dear_communication_leaves_a_stage_idle() {
    // Any cut costs 2 + 9 on a side at least; one stage costs 4.
    let times = [(2.0, 0.0), (2.0, 0.0)];
    let spec = chain(&times, &[9.0], stages(2));
    assert_eq!(solve(&spec), Some((vec![0, 0], 4 * MS)));
    let mut all = spec;
    all.pipeline.all_stages = Some(true);
    assert_eq!(solve(&all), Some((vec![0, 1], 11 * MS)));
}

#[test]
fn training_pays_the_gradient_as_well() {
    // 5 + 5 of work on each side; blocking adds activation and gradient, 3 each, on both.
    let times = [(5.0, 5.0), (5.0, 5.0)];
    let mut spec = chain(&times, &[3.0], stages(2));
    assert_eq!(solve(&spec), Some((vec![0, 1], 16 * MS)));
    spec.pipeline.communication = Some(Communication::Overlapped);
    assert_eq!(solve(&spec), Some((vec![0, 1], 10 * MS)));
}

#[test]
fn a_tensor_is_paid_once_by_each_stage() {
    // Layer 0 feeds both others. Apart from it they pay 1 together, not 1 each: 0 | 1 2 costs max(4 + 1, 1 + 2 + 2).
    let mut spec = chain(&[(4.0, 0.0), (2.0, 0.0), (2.0, 0.0)], &[], stages(2));
    spec.network.tensors.push(TensorSpec {
        producer: "0".into(),
        consumers: vec!["1".into(), "2".into()],
        bytes: None,
        transfer_ms: Some(1.0),
    });
    assert_eq!(solve(&spec), Some((vec![0, 1, 1], 5 * MS)));
}

#[test]
fn iterations_follow_the_formulas() {
    // Cut in the middle, M = 3. 1F1B: 20 + 2 * max(4 + 6, 6 + 4) = 40. GPipe: 20 + 2 * (max(4, 6) + max(6, 4)) = 44.
    // On one stage: 20 + 2 * 20 = 60 under both.
    let times = [(4.0, 6.0), (6.0, 4.0)];
    let mut spec = chain(&times, &[0.0], stages(2));
    spec.pipeline.objective = Some(Objective::Formula);
    spec.pipeline.micro_batches = Some(3);
    assert_eq!(solve(&spec), Some((vec![0, 1], 40 * MS)));
    spec.pipeline.schedule = Some(Schedule::Gpipe);
    assert_eq!(solve(&spec), Some((vec![0, 1], 44 * MS)));
}

#[test]
fn early_stages_hold_more_micro_batches() {
    // Stash 5 and 5, then 2: the first of two stages holds two micro-batches, so 5 | 5 2 needs 10 and 7.
    // With 9 bytes that fails, and so does 5 5 | 2, and 12 on one stage.
    let mut spec = chain(&[(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], &[0.0; 2], stages(2));
    for (layer, stash_bytes) in spec.network.layers.iter_mut().zip([5.0, 5.0, 2.0]) {
        layer.stash_bytes = stash_bytes;
    }
    spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(10));
    assert_eq!(solve(&spec), Some((vec![0, 1, 1], 4 * MS)));
    spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(9));
    assert_eq!(solve(&spec), None);
}

#[test]
fn caps_and_interrupts_are_errors() {
    let spec = chain(&[(1.0, 0.0); 13], &[], stages(2));
    let (_, problem) = problem_of(&spec).unwrap();
    assert_eq!(
        brute_force::solve(&problem),
        Err(brute_force::TooManyItems { items: 13 })
    );
    let capped = labelled_ideals::solve(&problem, 1000, &|| false);
    assert_eq!(capped, Err(IdealsError::TooManyIdeals { cap: 1000 }));
    let stopped = labelled_ideals::solve(&problem, DEFAULT_CAP, &|| true);
    assert_eq!(stopped, Err(IdealsError::Interrupted));
}

#[test]
fn brute_force_and_ideals_agree() {
    let (mut plans, mut infeasible) = (0, 0);
    for seed in 0..20_000 {
        let Some((_, problem)) = random_problem(seed) else {
            continue;
        };
        let brute = brute_force::solve(&problem).unwrap();
        let ideals = ideals_best(&problem);
        for (assignment, objective_ns) in [&brute, &ideals].into_iter().flatten() {
            assert!(
                cost::is_feasible(&problem, assignment),
                "seed {seed}: {assignment:?}"
            );
            assert_eq!(
                cost::assignment_ns(&problem, assignment),
                *objective_ns,
                "seed {seed}"
            );
        }
        let objective = |best: &Option<(Vec<usize>, u64)>| best.as_ref().map(|(_, ns)| *ns);
        assert_eq!(objective(&brute), objective(&ideals), "seed {seed}");
        match brute {
            Some(_) => plans += 1,
            None => infeasible += 1,
        }
    }
    // The draw must keep both kinds common.
    assert!(
        plans > 10_000 && infeasible > 500,
        "{plans} with a plan, {infeasible} without"
    );
}
