//! Passes against every plan.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::model::cluster::Resource;
use crate::model::instance::Instance;
use crate::model::network::Times;
use crate::model::options::{Communication, PipelineOptions};
use crate::model::settings::Settings;
use crate::problem::cost;
use crate::problem::workers::{Choice, Class, Workers};

/// A chain of layers with skips, and layers beside it whose order is taken away.
fn problem(rng: &mut ChaCha8Rng) -> Problem {
    let chain: Vec<String> = (0..rng.random_range(2..5)).map(|i| format!("c{i}")).collect();
    let beside: Vec<String> = (0..rng.random_range(1..4)).map(|i| format!("u{i}")).collect();
    let mut built = Instance::builder("beside");
    for id in chain.iter().chain(&beside) {
        built = built.layer(id, f64::from(rng.random_range(0..9)), 0.0);
    }
    for (at, id) in chain.iter().enumerate().take(chain.len() - 1) {
        let mut to = vec![chain[at + 1].clone()];
        to.extend(chain[at + 2..].iter().filter(|_| rng.random_bool(0.3)).cloned());
        built = built.tensor(id, to, f64::from(rng.random_range(0..9)) * 1e6);
    }
    for id in &beside {
        let mut to: Vec<String> = (chain.iter()).filter(|_| rng.random_bool(0.5)).cloned().collect();
        let others = beside.iter().filter(|&other| other > id);
        to.extend(others.filter(|_| rng.random_bool(0.3)).cloned());
        if !to.is_empty() {
            built = built.tensor(id, to, f64::from(rng.random_range(0..9)) * 1e6);
        }
    }
    let instance = built.devices("device", 3, 1e12).link(1e9, 0.0).build().unwrap();
    let modes = [
        Communication::Ignored,
        Communication::Overlapped,
        Communication::Blocking,
    ];
    let asked = PipelineOptions {
        communication: Some(modes[rng.random_range(0..3)]),
        stages: Some(rng.random_range(1..4)),
        ..Default::default()
    };
    let mut problem = Problem::new(&instance, Settings::resolve(&instance, &asked).unwrap()).unwrap();
    let labels = crate::formulations::partition::item_labels(&instance, &problem);
    let is_beside = |item: usize| labels[item].starts_with('u');
    problem.order.retain_edges(|order, edge| {
        let (from, to) = order.edge_endpoints(edge).unwrap();
        !is_beside(from.index()) && !is_beside(to.index())
    });
    for item in &mut problem.items {
        [item.base_bytes, item.stash_bytes] = [rng.random_range(0..9), rng.random_range(0..3)];
    }
    problem.settings.memory_limit = rng.random_bool(0.5).then(|| rng.random_range(8..40));
    problem
}

/// The same where devices are of two kinds: one may be slower, of less memory, or pay nothing for transfers.
fn on_two_kinds(rng: &mut ChaCha8Rng) -> Problem {
    let mut problem = problem(rng);
    let mut class = |name: &str, kind: usize| Class {
        kind,
        name: name.into(),
        resources: vec![Resource {
            name: name.into(),
            forward_rate: 1.0,
            backward_rate: 1.0,
            levels: Vec::new(),
        }],
        levels: vec![None],
        memory_bytes: rng.random_range(8..40),
        pays_communication: rng.random_bool(0.7),
    };
    let classes = vec![class("gpu", 0), class("cpu", 1)];
    let choice = |devices: [usize; 2]| Choice {
        devices: devices.into(),
        takes: devices.into(),
    };
    for item in &mut problem.items {
        let forward_ns = rng.random_range(0..9_000_000);
        item.times = vec![
            Some(Times {
                forward_ns: item.forward_ns,
                backward_ns: item.backward_ns,
                weight_ns: 0,
            }),
            Some(Times {
                forward_ns,
                ..Times::default()
            }),
        ];
    }
    problem.settings.memory_limit = None;
    problem.settings.heterogeneous = true;
    problem.workers = Some(Workers {
        classes,
        choices: vec![choice([1, 0]), choice([0, 1])],
        inventory: vec![rng.random_range(1..4), rng.random_range(1..3)],
        resource_names: vec!["cpu".into(), "gpu".into()],
    });
    problem
}

/// The least period of all plans.
fn least_ns(problem: &Problem) -> Option<u64> {
    let codes = |digits: usize, base: usize| {
        (0..base.pow(digits as u32)).map(move |code| -> Vec<usize> {
            (0..digits)
                .map(|digit| code / base.pow(digit as u32) % base)
                .collect()
        })
    };
    let items = problem.items.len();
    let Some(workers) = &problem.workers else {
        let feasible = codes(items, problem.stages()).filter(|plan| cost::is_feasible(problem, plan));
        return feasible.map(|plan| cost::assignment_ns(problem, &plan)).min();
    };
    let plans = (1..=problem.stages()).flat_map(|used| {
        let choices = codes(used, workers.choices.len());
        choices.flat_map(move |choices| {
            codes(items, used).map(move |assignment| Allocation {
                choices: choices.clone(),
                ..Allocation::from(assignment)
            })
        })
    });
    let feasible = plans.filter(|plan| workers.is_feasible(problem, plan));
    feasible.map(|plan| workers.objective_ns(problem, &plan)).min()
}

fn period_ns(problem: &Problem, plan: &Allocation) -> Option<u64> {
    match &problem.workers {
        Some(workers) => workers
            .is_feasible(problem, plan)
            .then(|| workers.objective_ns(problem, plan)),
        None => cost::is_feasible(problem, &plan.assignment)
            .then(|| cost::assignment_ns(problem, &plan.assignment)),
    }
}

fn compare_with_all_plans(draw: fn(&mut ChaCha8Rng) -> Problem, rounds: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let control = Control::default();
    let (mut compared, mut without_plan) = (0, 0);
    for round in 0..rounds {
        let problem = draw(&mut rng);
        let Some(mut search) = UnorderedSearch::new(&problem, &control, u64::MAX) else {
            continue;
        };
        let Some(least_ns) = least_ns(&problem) else {
            assert!(search.pass(u64::MAX).is_none(), "round {round}");
            without_plan += 1;
            continue;
        };
        let Answer::Plan(plan) = search.pass(least_ns) else {
            panic!("round {round}: there is a plan");
        };
        assert_eq!(period_ns(&problem, &plan), Some(least_ns), "round {round}");
        if least_ns > 0 {
            assert!(search.pass(least_ns - 1).is_none(), "round {round}");
        }
        compared += 1;
    }
    assert!(
        compared > rounds / 2 && without_plan > 10,
        "{compared}, {without_plan}"
    );
}

#[test]
fn passes_find_the_least_bottleneck_of_all_assignments() {
    compare_with_all_plans(problem, 600);
}

#[test]
fn passes_find_the_least_bottleneck_of_all_allocations() {
    compare_with_all_plans(on_two_kinds, 300);
}
