//! Chunks that somebody else chose: what they cost, and what is wrong with them.

use crate::common::chunked::virtual_spec;
use crate::common::command::{Folder, NET};
use crate::common::problem_of;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use stagecut::cost;
use stagecut::evaluate::evaluate;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::plan::Status;
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::problem::{Assignment, Problem};

/// An assignment as somebody would write it down.
fn written(instance: &Instance, problem: &Problem, assignment: &Assignment) -> BarePlan {
    let mut stages = vec![BareStage::default(); problem.settings.chunks()];
    let name = |&layer: &usize| instance.network.layers[layer].id.clone();
    for (item, &chunk) in problem.items.iter().zip(assignment) {
        stages[chunk].layers.extend(item.layers.iter().map(name));
        // Elsewhere they are the same layers.
        if instance.network.has_explicit_backward() {
            stages[chunk].layers.extend(item.backward_layers.iter().map(name));
        }
    }
    BarePlan { stages }
}

/// Any chunks, half of them in the order of the items' numbers, which is more often one that can be run.
fn at_random(rng: &mut ChaCha8Rng, problem: &Problem) -> Assignment {
    let chunks = problem.settings.chunks();
    let mut assignment: Assignment = problem
        .items
        .iter()
        .map(|_| rng.random_range(0..chunks))
        .collect();
    if rng.random_bool(0.5) {
        assignment.sort_unstable();
    }
    assignment
}

#[test]
fn chunks_at_random_cost_what_the_search_says() {
    let mut counts = [0; 2];
    for seed in 0..2_000 {
        let Some((instance, problem)) = problem_of(&virtual_spec(seed)) else {
            continue;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..3 {
            let assignment = at_random(&mut rng, &problem);
            let bare = written(&instance, &problem, &assignment);
            let found = evaluate(&instance, &problem.settings, Some(&problem), &bare)
                .unwrap_or_else(|error| panic!("{seed}: {error}"));
            let runs = cost::is_feasible(&problem, &assignment);
            let passes = found.violations.is_empty();
            assert_eq!(passes, runs, "{seed}: {:?}", found.violations);
            let own_ms = problem.settings.ms(cost::assignment_ns(&problem, &assignment));
            assert_eq!(found.plan.objective_ms, Some(own_ms), "{seed}");
            assert!(
                !passes || found.plan.bound_ms <= found.plan.objective_ms,
                "{seed}"
            );
            counts[usize::from(runs)] += 1;
        }
    }
    assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
}

/// The best plan comes back from its chunks alone, and no other costs less than its bound.
#[test]
fn best_chunks_come_back() {
    let exact = methods::find("exact").expect("a registered method");
    let mut proved = 0;
    for seed in 0..400 {
        let Some((instance, problem)) = problem_of(&virtual_spec(seed)) else {
            continue;
        };
        let best = exact
            .run(&instance, &problem, &Default::default())
            .expect("HiGHS works");
        let stage = |stage: &stagecut::plan::PlanStage| BareStage {
            layers: stage.forward.clone(),
            backward: Some(stage.backward.clone()),
            ..BareStage::default()
        };
        let bare = BarePlan {
            stages: best.stages.iter().map(stage).collect(),
        };
        if best.status != Status::Optimal {
            continue;
        }
        let mut found = evaluate(&instance, &problem.settings, Some(&problem), &bare).expect("stages");
        assert_eq!(found.violations, [], "{seed}");
        found.hold_against(&problem.settings, &best);
        assert_eq!(
            (found.plan.objective_ms, found.plan.status),
            (best.objective_ms, best.status),
            "{seed}"
        );
        let without_statistics = |plan: &stagecut::plan::Plan| (plan.stages.clone(), plan.problem.clone());
        assert_eq!(
            without_statistics(&found.plan),
            without_statistics(&best),
            "{seed}"
        );
        proved += 1;
    }
    assert!(proved > 200, "{proved}");
}

/// The command, for chunks of a V, one of them empty; the plan that it writes runs.
#[test]
fn chunks_of_a_file() {
    let folder = Folder::with("net.toml", NET);
    let asked = ["--stages", "2", "--virtual-stages", "2", "--placement", "v"];
    let solve = [&["solve", "net.toml", "--output", "plan.json"], &asked[..]].concat();
    folder.succeed(&solve);
    let best: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    let stages = best["stages"].as_array().expect("chunks").iter();
    let chunks: Vec<&Value> = stages.map(|stage| &stage["forward"]).collect();
    assert_eq!(chunks.len(), 4);
    folder.write("chunks.json", json!(chunks).to_string());
    // Of virtual stages alone the file says how many devices there are.
    for asked in [&asked[..], &asked[2..]] {
        let check = [
            &[
                "check",
                "--evaluate",
                "net.toml",
                "chunks.json",
                "--output",
                "own.json",
            ],
            asked,
        ]
        .concat();
        folder.succeed(&check);
        let own: Value = serde_json::from_str(&folder.read("own.json")).expect("a plan");
        assert_eq!(
            (&own["objective_ms"], &own["stages"]),
            (&best["objective_ms"], &best["stages"])
        );
        folder.succeed(&["check", "net.toml", "own.json"]);
        folder.succeed(&["simulate", "own.json", "--micro-batches", "4"]);
    }
    folder.write("chunks.json", json!(chunks[1..]).to_string());
    let check = [&["check", "--evaluate", "net.toml", "chunks.json"], &asked[..]].concat();
    let run = folder.run(&check);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stdout.contains("2 on each of 2 devices, empty ones too"),
        "{}",
        run.stdout
    );
}
