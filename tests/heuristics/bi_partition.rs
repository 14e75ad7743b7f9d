//! Bi-Partition's stand-in: by hand, against brute force, and where it stops.

use crate::common::{is_chain, problem_of, random_problem, separate_problem};
use crate::oracles::brute_force;
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::heuristics::find;
use stagecut::methods;
use stagecut::options::{Cuts, PipelineOptions};
use stagecut::problem::{Assignment, Problem};
use stagecut::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

fn plan(problem: &Problem) -> Option<Assignment> {
    let method = find("bi-partition").expect("a method");
    assert_eq!(method.applies(problem), Ok(()));
    method.plan(problem, 0, &|| false).map(|plan| plan.assignment)
}

/// A chain of layers with these forward and backward times and free transfers, in two stages.
fn chain(times_ms: &[[f64; 2]]) -> Problem {
    let layer = |(i, &[forward_ms, backward_ms]): (usize, &[f64; 2])| LayerSpec {
        id: i.to_string(),
        forward_ms: Some(forward_ms),
        backward_ms: Some(backward_ms),
        ..LayerSpec::default()
    };
    let tensor = |i: usize| TensorSpec {
        producer: (i - 1).to_string(),
        consumers: vec![i.to_string()],
        bytes: Some(0.0),
        ..TensorSpec::default()
    };
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers: times_ms.iter().enumerate().map(layer).collect(),
            tensors: (1..times_ms.len()).map(tensor).collect(),
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            stages: Some(2),
            cuts: Some(Cuts::Separate),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    };
    problem_of(&spec).expect("a valid network").1
}

#[test]
fn fills_by_hand() {
    // Three layers of 1 ms forward and 2 ms backward: 9 ms in all, so the first target is half of it, and 5 at least.
    //   Target 7: F B F B F is 7 | B is 2. Target 5: F B F, then B does not fit but F does, 5 | B B is 4. No pass is of 1 ms
    //   alone to even that out, and tied cuts have 6 | 3.
    let problem = chain(&[[1.0, 2.0]; 3]);
    let filled = plan(&problem).unwrap();
    assert_eq!(cost::assignment_ns(&problem, &filled), 5_000_000);
    let (tied, _) = problem.tied();
    assert_eq!(brute_force::solve(&tied).unwrap().unwrap().1, 6_000_000);
}

#[test]
fn it_never_beats_brute_force() {
    let (mut compared, mut optimal, mut apart) = (0, 0, 0);
    for seed in 0..2_000 {
        let Some((instance, problem)) = separate_problem(seed) else {
            continue;
        };
        let method = methods::find("bi-partition").expect("a method");
        let found = method
            .run(&instance, &problem, &Control::default())
            .expect("no solver is asked");
        assert_eq!(check(&instance, &problem.settings, &found), [], "seed {seed}");
        let best = brute_force::solve(&problem).expect("few items");
        if let Some(own) = plan(&problem) {
            let (_, best_ns) = best.expect("no plan where there is none");
            let own_ns = cost::assignment_ns(&problem, &own);
            assert!(own_ns >= best_ns, "seed {seed}");
            assert_eq!(
                found.objective_ms,
                Some(problem.settings.ms(own_ns)),
                "seed {seed}"
            );
            compared += 1;
            optimal += usize::from(own_ns == best_ns);
            apart += usize::from(problem.ties.iter().any(|&(a, b)| own[a] != own[b]));
        }
    }
    assert!(
        compared > 1_000 && optimal * 2 > compared && apart > 100,
        "{compared} {optimal} {apart}"
    );
}

/// On two chains every pass that may go to a neighbouring stage by itself is at a cut.
#[test]
fn no_single_cut_helps_where_it_stops() {
    let (mut chains, mut moves) = (0, 0);
    for seed in 0..4_000 {
        let Some((_, problem)) = separate_problem(4 * seed) else {
            continue;
        };
        let passes = problem.items.len() / 2;
        let (tied, _) = problem.tied();
        let Some(found) = plan(&problem).filter(|_| is_chain(&tied) && tied.items.len() == passes) else {
            continue;
        };
        let found_ns = cost::assignment_ns(&problem, &found);
        for item in 0..found.len() {
            for to in found[item].saturating_sub(1)..(found[item] + 2).min(problem.stages()) {
                let mut moved = found.clone();
                moved[item] = to;
                if cost::is_feasible(&problem, &moved) {
                    assert!(cost::assignment_ns(&problem, &moved) >= found_ns, "seed {seed}");
                    moves += 1;
                }
            }
        }
        chains += 1;
    }
    assert!(chains > 500 && moves > 5_000, "{chains} {moves}");
}

#[test]
fn it_wants_separate_cuts() {
    let (_, problem) = (0..).find_map(random_problem).expect("a problem");
    let method = find("bi-partition").expect("a method");
    assert!(method.applies(&problem).is_err());
    assert_eq!(method.plan(&problem, 0, &|| false), None);
}
