//! Snapshots of optimal plans, one of each kind of problem: what must not change by itself. The objective and the status always; the
//! assignment where enumeration shows that no other plan costs as little. Those of the library stand in `instances/optima.csv`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::common::{any_problem, random_problem, separate_problem};
use stagecut::control::Control;
use stagecut::cost;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::plan::{Plan, Status};
use stagecut::problem::{Assignment, Problem};

/// Assignments that are enumerated at most.
const MOST_ASSIGNMENTS: usize = 100_000;

/// What a problem asks, as a name: objective, schedule, transfers, cuts, and what its workers are.
fn kind(problem: &Problem) -> String {
    let settings = &problem.settings;
    let mut words = vec![
        settings.objective.to_string(),
        settings.schedule.to_string(),
        settings.communication.to_string(),
        settings.cuts.to_string(),
    ];
    if settings.heterogeneous {
        words.push(settings.groups.to_string());
        words.push(settings.worker.to_string());
        if settings.worker == stagecut::options::WorkerMode::Concurrent {
            words.push(settings.shares.to_string());
        }
    }
    if !problem.memory_never_binds() {
        words.push("memory".into());
    }
    words.join("-")
}

/// All plans of least cost, empty stages left out; nothing where there are too many to enumerate.
fn best(problem: &Problem) -> Option<BTreeSet<Assignment>> {
    let (items, stages) = (problem.items.len(), problem.stages());
    let count = stages
        .checked_pow(items as u32)
        .filter(|&count| count <= MOST_ASSIGNMENTS)?;
    let mut best = (u64::MAX, BTreeSet::new());
    for code in 0..count {
        let assignment: Assignment = (0..items)
            .map(|item| code / stages.pow(item as u32) % stages)
            .collect();
        if !cost::is_feasible(problem, &assignment) {
            continue;
        }
        let objective = cost::assignment_ns(problem, &assignment);
        if objective < best.0 {
            best = (objective, BTreeSet::new());
        }
        if objective == best.0 {
            best.1.insert(cost::without_empty_stages(&assignment).0);
        }
    }
    Some(best.1)
}

fn shown(instance: &Instance, problem: &Problem, plan: &Plan) -> String {
    let mut text = format!("{}: {}", instance.name, plan.status);
    if let Some(ms) = plan.objective_ms {
        write!(text, ", {ms} ms").expect("memory");
    }
    let only = problem.workers.is_none().then(|| best(problem)).flatten();
    if only.is_some_and(|plans| plans.len() == 1) {
        for stage in &plan.stages {
            write!(
                text,
                "\n{}: {} | {}",
                stage.index,
                stage.forward.join(" "),
                stage.backward.join(" ")
            )
            .expect("memory");
        }
    }
    text + "\n"
}

#[test]
fn optimal_plans_of_every_kind_stay() {
    let drawn = (0..400).filter_map(random_problem);
    let separate = (0..400).filter_map(separate_problem);
    let mixed = (0..400)
        .filter_map(any_problem)
        .filter(|(_, problem)| problem.items.len() <= 6);
    let mut kinds: BTreeMap<String, (Instance, Problem)> = BTreeMap::new();
    for (instance, problem) in drawn.chain(separate).chain(mixed) {
        kinds.entry(kind(&problem)).or_insert((instance, problem));
    }
    assert!(kinds.len() > 60, "{}", kinds.len());
    let exact = methods::find(methods::DEFAULT).expect("the default method");
    let mut text = String::new();
    for (kind, (instance, problem)) in &kinds {
        let plan = exact
            .run(instance, problem, &Control::default())
            .expect("HiGHS works");
        if problem.workers.is_none() {
            assert!(
                matches!(plan.status, Status::Optimal | Status::Infeasible),
                "{kind}"
            );
        }
        writeln!(text, "{kind}\n{}", shown(instance, problem, &plan)).expect("memory");
    }
    crate::common::command::snapshots("plans").bind(|| insta::assert_snapshot!("every-kind", text));
}
