//! Micro-batches in flight that hide overlapped transfers, and the memory for them: plans that have none say so.

use crate::common::command::Folder;
use crate::common::random_problem;
use serde_json::{Value, json};
use stagecut::check::examine;
use stagecut::control::Control;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, Mode, Schedule};
use stagecut::simulate::{self, Request};

/// Two equal layers whose tensor takes as long as they do, in memory for two micro-batches and a half. Stage 1 is away from a
/// micro-batch for 4 ms after its forward pass and needs 1 more for the backward one, 6 in all: three in flight for a period of 2.
const TIGHT: &str = r#"
network.layers = [
  { id = "a", forward_ms = 1, backward_ms = 1, stash_bytes = 10 },
  { id = "b", forward_ms = 1, backward_ms = 1, stash_bytes = 10 },
]
network.tensors = [{ producer = "a", consumers = ["b"], bytes = 1e6 }]
cluster.device_kinds = [{ name = "gpu", count = 2, memory_bytes = 25 }]
cluster.link.bandwidth_bytes_per_s = 1e9
pipeline.communication = "overlapped"
"#;

#[test]
fn a_plan_without_memory_for_what_hides_its_transfers_says_so() {
    let folder = Folder::with("net.toml", TIGHT);
    let report = folder.succeed(&["solve", "net.toml"]);
    let memory = "memory: as simulated, stage 1 hides its transfers with 3 micro-batches in flight, which take 30 B, 5 B more than";
    let words: Vec<&str> = report.split_whitespace().collect();
    assert!(words.join(" ").contains(memory), "{report}");
    assert!(
        report.lines().take(6).any(|line| line.starts_with("memory:")),
        "{report}"
    );
    folder.succeed(&["solve", "net.toml", "--output", "plan.json"]);
    let plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan in JSON");
    let overruns = json!([{ "stage": 1, "in_flight": 3, "memory_bytes": 30, "over_bytes": 5 }]);
    assert_eq!(plan["overruns"], overruns);
    let passed = folder.succeed(&["check", "net.toml", "plan.json"]);
    let first = "note: stage 1 needs 3 micro-batches in flight to hide its transfers, and 30 bytes for them, 5 more than it has";
    assert_eq!(passed.lines().next(), Some(first));
    let mut changed = plan.clone();
    changed["overruns"][0]["over_bytes"] = json!(4);
    folder.write("changed.json", changed.to_string());
    assert_eq!(folder.run(&["check", "net.toml", "changed.json"]).code, 1);
    // With enough memory nothing is said.
    let report = folder.succeed(&["solve", "net.toml", "--memory-limit", "30"]);
    assert!(!report.contains("memory: as simulated"), "{report}");
}

/// What a simulation has in flight is never more than what the check counts with, and the bytes follow from it.
#[test]
fn the_check_counts_with_at_least_what_simulations_have_in_flight() {
    let exact = methods::find("exact").expect("a registered method");
    let (mut more, mut overrun) = (0, 0);
    for seed in 0..3_000 {
        let Some((instance, problem)) = random_problem(seed) else {
            continue;
        };
        let settings = &problem.settings;
        let is_counted = settings.communication == Communication::Overlapped
            && settings.mode == Mode::Training
            && settings.cuts == Cuts::Tied
            && !settings.has_iterations()
            && settings.memory_limit.is_some();
        if !is_counted {
            continue;
        }
        let plan = exact
            .run(&instance, &problem, &Control::default())
            .expect("HiGHS works");
        if plan.stages.is_empty() {
            continue;
        }
        let needed = simulate::in_flight(&plan).expect("a plan that can be simulated");
        let request = Request {
            micro_batches: Some(plan.problem.micro_batches.unwrap_or(40)),
            ..Request::default()
        };
        let simulation = simulate::simulate(&plan, &request).expect("a plan that can be simulated");
        for (stage, &needed) in simulation.stages.iter().zip(&needed) {
            assert!(stage.most_in_flight <= needed, "seed {seed}: {stage:?}, {needed}");
        }
        let verdict = examine(&instance, settings, &plan);
        let limit = settings.memory_limit.unwrap_or(u64::MAX);
        for (k, (stage, &needed)) in plan.stages.iter().zip(&needed).enumerate() {
            let own = stage.in_flight.expect("training");
            let bytes_of = |id: &String| {
                let layer = instance
                    .network
                    .layers
                    .iter()
                    .find(|layer| layer.id == *id)
                    .expect("a layer");
                let versions = u64::from(settings.schedule == Schedule::Pipedream) * layer.parameter_bytes;
                layer.stash_bytes + versions
            };
            let of_layers = |ids: &[String]| ids.iter().map(bytes_of).sum::<u64>();
            let ids = if stage.backward.len() >= stage.forward.len() {
                &stage.backward
            } else {
                &stage.forward
            };
            let bytes = stage.memory_bytes + (needed.max(own) - own) * of_layers(ids);
            let told = verdict.overruns.iter().find(|overrun| overrun.stage == k + 1);
            // Stashes of an explicit backward graph lie with whichever operator holds them.
            if !instance.network.has_explicit_backward() {
                assert_eq!(
                    told.map(|told| told.memory_bytes),
                    (bytes > limit).then_some(bytes),
                    "seed {seed}"
                );
            }
            more += usize::from(needed > own);
            overrun += usize::from(told.is_some());
        }
    }
    assert!(
        more > 50 && overrun > 10,
        "{more} stages need more, {overrun} have no room"
    );
}
