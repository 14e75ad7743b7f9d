//! Heuristics and oracles for workers that differ, against brute force.

use crate::common::mixed::{mixed_spec, random_mixed};
use crate::common::{is_chain, problem_of, rounding_ns, whole_ns};
use crate::oracles::{allocations, chains, groupings};
use stagecut::control::Control;
use stagecut::cost;
use stagecut::cost::allocation::Allocation;
use stagecut::heuristics::grouping::Grouping;
use stagecut::heuristics::slicing_for::SlicingFor;
use stagecut::heuristics::{Effort, Heuristic, METHODS, Run, find};
use stagecut::heuristics::{duan_wu, duan_wu_exact_groups};
use stagecut::options::{Communication, Groups, PipelineOptions, Shares};
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, GroupSpec, InstanceSpec, LayerSpec, NetworkSpec, TensorSpec, TimesSpec,
};
use stagecut::workers::Workers;

const MS: u64 = 1_000_000;

fn mixed(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Problem, Workers)> {
    seeds.filter_map(|seed| {
        let (_, problem) = random_mixed(seed)?;
        let workers = problem.workers.clone()?;
        Some((seed, problem, workers))
    })
}

/// Those that ask for a period, which is all that the oracles of this file know.
fn periods(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Problem, Workers)> {
    mixed(seeds).filter(|(_, problem, _)| problem.formula().is_bottleneck())
}

fn methods() -> impl Iterator<Item = &'static Heuristic> {
    let of_equals = |run: &Run| {
        matches!(
            run,
            Run::Homogeneous(..) | Run::HomogeneousOrModal(..) | Run::Chunks(_)
        )
    };
    METHODS
        .iter()
        .filter(move |method| !of_equals(&method.run) && method.effort != Effort::Baseline)
}

fn objective_ns(problem: &Problem, plan: &Allocation) -> u64 {
    let workers = problem.workers.as_ref().unwrap();
    whole_ns(problem, workers.objective_ns(problem, plan))
}

/// The best plan by brute force, in whole ns; an error where that would take too long.
fn by_force(problem: &Problem, workers: &Workers) -> Result<Option<(Allocation, u64)>, allocations::Refusal> {
    let best = allocations::solve(problem, workers)?;
    Ok(best.map(|(plan, ticks)| (plan, whole_ns(problem, ticks))))
}

#[test]
fn no_heuristic_beats_brute_force() {
    let mut found = vec![0; methods().count()];
    let mut optimal = found.clone();
    let mut plans = found.clone();
    for (seed, problem, workers) in mixed(0..2500) {
        let Ok(best) = by_force(&problem, &workers) else {
            continue;
        };
        for (at, method) in methods().enumerate() {
            plans[at] += usize::from(best.is_some() && method.applies(&problem).is_ok());
            let Some(plan) = method.plan(&problem, seed, &|| false) else {
                continue;
            };
            let name = method.name;
            assert!(workers.is_feasible(&problem, &plan), "seed {seed}: {name}");
            let Some((_, best_ns)) = &best else {
                panic!("seed {seed}: {name} found a plan where there is none");
            };
            // Shares found as real numbers may round to either side.
            let own_ns = objective_ns(&problem, &plan);
            let slack_ns = rounding_ns(&problem);
            assert!(
                own_ns + slack_ns >= *best_ns,
                "seed {seed}: {name} {own_ns} {best_ns}"
            );
            found[at] += 1;
            optimal[at] += usize::from(own_ns <= best_ns + slack_ns);
        }
    }
    assert!(plans.iter().all(|&plans| plans > 500), "{plans:?}");
    // The draw leaves room for each of them, and the last is as good as its place in the engine asks.
    assert!(
        found.iter().zip(&plans).all(|(&found, &plans)| found > plans / 2),
        "{found:?} of {plans:?}"
    );
    let last = plans.len() - 1;
    assert!(plans[last] > 1000, "{plans:?}");
    assert!(optimal[last] * 10 > plans[last] * 8, "{optimal:?} of {plans:?}");
}

/// The least objective of any cut of the items by number into stages on these choices; stages may stay out where the
/// problem lets them.
fn least_slicing_ns(problem: &Problem, workers: &Workers, choices: &[usize]) -> u64 {
    let n = problem.items.len();
    let mut least = u64::MAX;
    for code in 0..choices.len().pow(n as u32) {
        let stages: Vec<usize> = (0..n)
            .map(|item| code / choices.len().pow(item as u32) % choices.len())
            .collect();
        let (assignment, used) = cost::without_empty_stages(&stages);
        let mut kept = stages.clone();
        kept.dedup();
        if stages.is_sorted() && used == kept.len() {
            let plan = Allocation {
                choices: kept.iter().map(|&stage| choices[stage]).collect(),
                ..Allocation::from(assignment)
            };
            if workers.is_feasible(problem, &plan) {
                least = least.min(workers.objective_ns(problem, &plan));
            }
        }
    }
    least
}

#[test]
fn slicing_for_fixed_workers_is_optimal() {
    let mut compared = 0;
    for (seed, problem, workers) in periods(0..2000) {
        let settings = &problem.settings;
        let snaps = settings.shares == Shares::Theorem
            && workers
                .classes
                .iter()
                .any(|class| class.levels.iter().any(Option::is_some));
        let has_memory = workers.classes.iter().any(|class| class.memory_bytes < u64::MAX);
        // Where it says that it may miss plans: shares that snap to levels, and stages left out while memory binds.
        if snaps || has_memory && !settings.all_stages {
            continue;
        }
        let Some(plan) = find("duan-wu").unwrap().plan(&problem, seed, &|| false) else {
            continue;
        };
        let order: Vec<usize> = (0..problem.items.len()).collect();
        let sliced = SlicingFor::new(&problem, &workers, &order).slice(&plan.choices, u64::MAX, &|| false);
        let least_ns = least_slicing_ns(&problem, &workers, &plan.choices);
        let sliced_ns = sliced.as_ref().map_or(u64::MAX, |(_, ns)| *ns);
        assert_eq!(settings.whole_ns(sliced_ns), least_ns, "seed {seed}");
        let none = SlicingFor::new(&problem, &workers, &order).slice(&plan.choices, sliced_ns, &|| false);
        assert_eq!(none, None, "seed {seed}");
        if let Some((sliced, sliced_ns)) = sliced {
            assert!(workers.is_feasible(&problem, &sliced), "seed {seed}");
            assert_eq!(
                objective_ns(&problem, &sliced),
                whole_ns(&problem, sliced_ns),
                "seed {seed}"
            );
        }
        compared += 1;
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn they_are_exact_where_the_registry_says_so() {
    let mut compared = 0;
    for seed in 0..1500 {
        // Single devices of one kind: a group of one fixed by the cluster makes the problem mixed.
        let mut spec = mixed_spec(3 * seed);
        let cluster = spec.cluster.as_mut().unwrap();
        cluster.device_kinds.truncate(1);
        let kind = &mut cluster.device_kinds[0];
        (kind.resources, kind.memory_bytes) = (Vec::new(), None);
        cluster.groups = vec![GroupSpec {
            devices: [(kind.name.clone(), 1)].into(),
            count: kind.count,
        }];
        spec.pipeline = PipelineOptions {
            mode: spec.pipeline.mode,
            stages: spec.pipeline.stages,
            all_stages: spec.pipeline.all_stages,
            communication: Some(Communication::Ignored),
            ..PipelineOptions::default()
        };
        let Some((_, problem)) = problem_of(&spec) else {
            continue;
        };
        let workers = problem.workers.as_ref().unwrap();
        let Ok(best) = chains::solve(&problem, workers) else {
            continue;
        };
        for method in methods() {
            let own = method
                .plan(&problem, seed, &|| false)
                .map(|plan| objective_ns(&problem, &plan));
            assert_eq!(
                own,
                best.as_ref().map(|(_, ns)| *ns),
                "seed {seed}: {}",
                method.name
            );
        }
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn no_heuristic_claims_a_proof_it_does_not_have() {
    let mut proved = 0;
    for (instance, problem) in (0..1500).filter_map(random_mixed) {
        let workers = problem.workers.as_ref().unwrap();
        let Ok(Some((_, best_ns))) = by_force(&problem, workers) else {
            continue;
        };
        let best_ms = best_ns as f64 / 1e6;
        for method in methods() {
            let method = stagecut::methods::find(method.name).unwrap();
            let plan = method.run(&instance, &problem, &Control::default()).unwrap();
            let name = method.name();
            // Shares found as real numbers may round to either side.
            let slack_ms = if rounding_ns(&problem) > 0 { 2e-6 } else { 0.0 };
            assert!(
                plan.bound_ms.unwrap() <= best_ms + slack_ms,
                "{}: {name}",
                instance.name
            );
            if plan.status == Status::Optimal {
                assert!(
                    plan.objective_ms.unwrap() <= best_ms + slack_ms,
                    "{}: {name}",
                    instance.name
                );
                proved += 1;
            }
        }
    }
    assert!(proved > 100, "{proved}");
}

#[test]
fn a_seed_gives_one_plan() {
    for (seed, problem, _) in mixed(0..300) {
        for method in methods() {
            assert_eq!(
                method.plan(&problem, seed, &|| false),
                method.plan(&problem, seed, &|| false),
                "{}",
                method.name
            );
        }
    }
}

#[test]
fn local_search_and_alternation_only_improve() {
    for (seed, problem, _) in periods(0..2500) {
        let run = |name| find(name).unwrap().plan(&problem, seed, &|| false);
        let [greedy, local, lpt, alternate] = ["duan-wu", "duan-wu-local", "lpt", "alternate"].map(run);
        let cost = |plan: &Option<Allocation>| {
            plan.as_ref()
                .map_or(u64::MAX, |plan| objective_ns(&problem, plan))
        };
        assert!(cost(&local) <= cost(&greedy), "seed {seed}");
        let costs = [&alternate, &local, &lpt].map(cost);
        assert!(costs[0] <= costs[1].min(costs[2]), "seed {seed}: {costs:?}");
    }
}

#[test]
fn the_program_over_prefixes_is_brute_force_on_chains() {
    let mut compared = 0;
    for (seed, problem, workers) in periods(0..4000) {
        let by_prefix = chains::solve(&problem, &workers);
        if !is_chain(&problem) {
            assert_eq!(by_prefix, Err(chains::ChainsError::NoChain));
            continue;
        }
        let Ok(by_prefix) = by_prefix else { continue };
        let Ok(by_force) = by_force(&problem, &workers) else {
            continue;
        };
        let by_prefix = by_prefix.map(|(plan, ticks)| (plan, whole_ns(&problem, ticks)));
        let ns = |best: &Option<(Allocation, u64)>| best.as_ref().map(|(_, ns)| *ns);
        match (ns(&by_prefix), ns(&by_force)) {
            (Some(one), Some(other)) => assert!(
                one.abs_diff(other) <= rounding_ns(&problem),
                "seed {seed}: {one} and {other}"
            ),
            (one, other) => assert_eq!(one, other, "seed {seed}"),
        }
        if let Some((plan, own_ns)) = &by_prefix {
            assert!(workers.is_feasible(&problem, plan), "seed {seed}");
            assert_eq!(objective_ns(&problem, plan), *own_ns, "seed {seed}");
        }
        compared += 1;
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn no_grouping_of_a_partition_beats_brute_force() {
    let (mut compared, mut optimal) = (0, 0);
    for (seed, problem, workers) in periods(0..2500) {
        let Ok(Some((plan, best_ns))) = by_force(&problem, &workers) else {
            continue;
        };
        let stages = plan.choices.len();
        let Ok(grouped) = groupings::solve(&problem, &workers, &plan.assignment, stages) else {
            continue;
        };
        // The partition is that of a best plan, so its best grouping is that plan's objective.
        let (grouped, grouped_ns) = grouped.unwrap();
        let same = |ns: u64| ns.abs_diff(best_ns) <= rounding_ns(&problem);
        let grouped_ns = whole_ns(&problem, grouped_ns);
        assert!(same(grouped_ns), "seed {seed}: {grouped_ns} and {best_ns}");
        assert!(workers.is_feasible(&problem, &grouped), "seed {seed}");
        assert!(same(objective_ns(&problem, &grouped)), "seed {seed}");
        let grouping = Grouping::new(&problem, &workers, &plan.assignment, stages);
        for choices in [grouping.greedy(), grouping.deal()].into_iter().flatten() {
            let mut choices = choices;
            let cost = |choices: &[usize]| {
                let costs = (0..stages).map(|stage| grouping.cost_ns(stage, choices[stage]));
                whole_ns(&problem, costs.max().unwrap_or(0))
            };
            let before_ns = cost(&choices);
            grouping.improve(&mut choices, &|| false);
            assert!(
                best_ns <= cost(&choices) + rounding_ns(&problem) && cost(&choices) <= before_ns,
                "seed {seed}"
            );
            optimal += usize::from(same(cost(&choices)));
            compared += 1;
        }
    }
    assert!(
        compared > 1000 && optimal * 10 > compared * 8,
        "{optimal} of {compared}"
    );
}

#[test]
fn exact_groups_are_brute_force_on_the_same_partition() {
    let (mut compared, mut better, mut none) = (0, 0, 0);
    for (seed, problem, workers) in mixed(0..4000) {
        let partition = duan_wu::partition(&problem, &workers);
        let stages = partition.iter().max().unwrap() + 1;
        let Ok(by_force) = groupings::solve(&problem, &workers, &partition, stages) else {
            continue;
        };
        let grouping = Grouping::new(&problem, &workers, &partition, stages);
        let cost = |choices: Vec<usize>| {
            let costs = (0..stages).map(|stage| grouping.cost_ns(stage, choices[stage]));
            costs.max().unwrap()
        };
        let own = duan_wu_exact_groups::best(&workers, &grouping, stages, &|| false).map(cost);
        assert_eq!(own, by_force.map(|(_, ns)| ns), "seed {seed}");
        if let Some(greedy_ns) = grouping.greedy().map(cost) {
            assert!(own.unwrap() <= greedy_ns, "seed {seed}");
            better += usize::from(own.unwrap() < greedy_ns);
        }
        none += usize::from(own.is_none());
        compared += 1;
    }
    assert!(
        compared > 2000 && better > 100 && none > 20,
        "{compared} {better} {none}"
    );
}

/// A chain of layers with these forward times, on kinds with these rates and counts.
fn chain(times_ms: &[f64], kinds: &[(f64, usize)], pipeline: PipelineOptions) -> InstanceSpec {
    let layers = times_ms.iter().enumerate().map(|(i, &ms)| LayerSpec {
        id: i.to_string(),
        times: kinds
            .iter()
            .map(|&(rate, _)| {
                let times = TimesSpec {
                    forward_ms: Some(ms / rate),
                    ..TimesSpec::default()
                };
                (format!("rate {rate}"), times)
            })
            .collect(),
        ..LayerSpec::default()
    });
    let tensors = (1..times_ms.len()).map(|i| TensorSpec {
        producer: (i - 1).to_string(),
        consumers: vec![i.to_string()],
        bytes: Some(0.0),
        transfer_ms: None,
    });
    let kind = |&(rate, count): &(f64, usize)| DeviceKindSpec {
        name: format!("rate {rate}"),
        count: Some(count),
        ..DeviceKindSpec::default()
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: layers.collect(),
            tensors: tensors.collect(),
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: kinds.iter().map(kind).collect(),
            ..ClusterSpec::default()
        }),
        pipeline,
        ..InstanceSpec::default()
    }
}

fn asking(stages: usize, groups: Groups) -> PipelineOptions {
    PipelineOptions {
        stages: Some(stages),
        all_stages: Some(true),
        groups: Some(groups),
        ..PipelineOptions::default()
    }
}

#[test]
fn algorithm_2_by_hand() {
    // Work 12 | 8 | 4 on two devices of rate 2 and three of rate 1. Every group starts at an infinite cost.
    //   12 is largest of the empty ones: a fast device makes 6, a slow one 12, so fast.        6  inf inf
    //   8: fast makes 4.                                                                       6  4   inf
    //   4: no fast one is left; slow makes 4.                                                  6  4   4
    //   6 is largest: slow makes 12 / 3 = 4.                                                   4  4   4
    //   All equal, most work first: slow makes 12 / 4 = 3. No device is left.                  3  4   4
    let spec = chain(
        &[12.0, 8.0, 4.0],
        &[(2.0, 2), (1.0, 3)],
        asking(3, Groups::Assign),
    );
    let (_, problem) = problem_of(&spec).unwrap();
    let workers = problem.workers.as_ref().unwrap();
    let grouping = Grouping::new(&problem, workers, &vec![0, 1, 2], 3);
    let choices = grouping.greedy().unwrap();
    let devices = |choices: &[usize]| -> Vec<Vec<usize>> {
        choices
            .iter()
            .map(|&choice| workers.choices[choice].devices.clone())
            .collect()
    };
    assert_eq!(devices(&choices), [vec![1, 2], vec![1, 0], vec![0, 1]]);
    let costs: Vec<u64> = (0..3)
        .map(|stage| grouping.cost_ns(stage, choices[stage]))
        .collect();
    assert_eq!(costs, [3 * MS, 4 * MS, 4 * MS]);
    // It is optimal: to cost less than 4, work of 12, 8 and 4 needs speeds of 4, 3 and 2, and there are 7 in all.
    let (_, best_ns) = groupings::solve(&problem, workers, &vec![0, 1, 2], 3)
        .unwrap()
        .unwrap();
    assert_eq!(best_ns, 4 * MS);
}

#[test]
fn greedy_grouping_is_not_optimal() {
    // Work 6 | 5 on rates 3, 2 and 2. Greedy: 6 takes the 3 (2 ms), 5 takes a 2 (2.5 ms) and the other 2 (1.25 ms): 2 ms.
    // Better: 6 on both 2s (1.5 ms) and 5 on the 3 (1.67 ms). One swap away, and not one device's move.
    let spec = chain(&[6.0, 5.0], &[(3.0, 1), (2.0, 2)], asking(2, Groups::Assign));
    let (_, problem) = problem_of(&spec).unwrap();
    let workers = problem.workers.as_ref().unwrap();
    let run = |name| {
        objective_ns(
            &problem,
            &find(name).unwrap().plan(&problem, 0, &|| false).unwrap(),
        )
    };
    assert_eq!(run("duan-wu"), 2 * MS);
    assert_eq!(run("duan-wu-local"), 5 * MS / 3 + 1);
    let (_, best_ns) = chains::solve(&problem, workers).unwrap().unwrap();
    assert_eq!(best_ns, 5 * MS / 3 + 1);
}

#[test]
fn given_devices_go_to_the_largest_stage_first() {
    // Equal workers get 4 4 | 6; with rates 1 and 2 the larger takes the faster: 8 / 2 = 4 and 6. The other way round,
    // 4 | 4 6 costs 4 and 10 / 2 = 5, which needs another partition: alternation finds it.
    let spec = chain(&[4.0, 4.0, 6.0], &[(1.0, 1), (2.0, 1)], asking(2, Groups::Given));
    let (_, problem) = problem_of(&spec).unwrap();
    let run = |name| {
        objective_ns(
            &problem,
            &find(name).unwrap().plan(&problem, 0, &|| false).unwrap(),
        )
    };
    assert_eq!(run("duan-wu"), 6 * MS);
    assert_eq!(run("alternate"), 5 * MS);
}

#[test]
fn assigned_choices_are_found_by_their_devices() {
    for (seed, problem, workers) in mixed(0..500) {
        if problem.settings.groups == Groups::Assign {
            for (at, choice) in workers.choices.iter().enumerate() {
                assert_eq!(workers.choice_of(&choice.devices), Some(at), "seed {seed}");
            }
            assert_eq!(workers.choice_of(&vec![0; workers.classes.len()]), None);
        }
    }
}
