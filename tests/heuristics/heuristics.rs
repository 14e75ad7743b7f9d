//! Heuristics against the oracles: never better, and as good where the registry says so.

use std::collections::BTreeSet;

use crate::common::{is_chain, problem_of, random_problem, random_spec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::cost;
use stagecut::exact::labelled_ideals;
use stagecut::heuristics::intervals::{Interval, Intervals};
use stagecut::heuristics::local_moves::improve;
use stagecut::heuristics::slicing::{best_slicing, slice, slice_below, slice_within};
use stagecut::heuristics::{Effort, Heuristic, METHODS, Run, brkga, find, fitting, orders};
use stagecut::options::{Communication, MemoryLimit, Mode, Objective, PipelineOptions};
use stagecut::problem::{Assignment, Problem};
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, TensorSpec};

fn optimum(problem: &Problem) -> Option<u64> {
    let solution = labelled_ideals::solve(problem, labelled_ideals::DEFAULT_CAP, &|| false).unwrap();
    solution.best.map(|(_, objective_ns)| objective_ns)
}

fn run(name: &str, problem: &Problem) -> Option<u64> {
    let assignment = find(name).unwrap().plan(problem, 7, &|| false)?.assignment;
    Some(cost::assignment_ns(problem, &assignment))
}

fn assignment(method: &Heuristic, problem: &Problem, seed: u64) -> Option<Assignment> {
    method.plan(problem, seed, &|| false).map(|plan| plan.assignment)
}

fn random_problems(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Problem)> {
    seeds.filter_map(|seed| Some((seed, random_problem(seed)?.1)))
}

/// The heuristics to try on a problem: thorough ones on every tenth, since they take a hundred times as long. Baselines have
/// tests of their own.
fn methods(seed: u64) -> impl Iterator<Item = &'static Heuristic> {
    METHODS
        .iter()
        .filter(|method| !matches!(method.run, Run::Heterogeneous(..) | Run::Chunks(_)))
        .filter(move |method| match method.effort {
            Effort::Quick => true,
            Effort::Thorough => seed.is_multiple_of(10),
            Effort::Baseline => false,
        })
}

/// Chains without communication and memory limit.
fn plain_chain(seed: u64) -> InstanceSpec {
    let mut spec = random_spec(seed, true);
    spec.pipeline.communication = Some(Communication::Ignored);
    spec.pipeline.memory_limit = Some("none".parse::<MemoryLimit>().unwrap());
    spec.pipeline.objective = Some(Objective::Period);
    spec
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
    assert_eq!(names.len(), METHODS.len());
}

#[test]
fn no_heuristic_beats_the_optimum() {
    for (seed, problem) in random_problems(0..10_000) {
        let optimum = optimum(&problem);
        for method in methods(seed) {
            let applies = problem.transfers.is_empty() || method.name != "beam-search";
            assert_eq!(method.applies(&problem).is_ok(), applies, "{}", method.name);
            let Some(assignment) = assignment(method, &problem, seed) else {
                continue;
            };
            assert!(
                cost::is_feasible(&problem, &assignment),
                "seed {seed}: {}",
                method.name
            );
            let objective = Some(cost::assignment_ns(&problem, &assignment));
            assert!(
                optimum.is_some() && objective >= optimum,
                "seed {seed}: {}",
                method.name
            );
        }
    }
}

#[test]
fn a_seed_gives_one_plan() {
    for (seed, problem) in random_problems(0..300) {
        for method in methods(seed) {
            assert_eq!(
                assignment(method, &problem, seed),
                assignment(method, &problem, seed),
                "{}",
                method.name
            );
        }
    }
}

#[test]
fn slicing_and_local_moves_are_exact_on_chains() {
    let mut chains = 0;
    for seed in 0..2000 {
        let Some((_, problem)) = problem_of(&random_spec(seed, true)) else {
            continue;
        };
        assert!(is_chain(&problem));
        chains += 1;
        assert_eq!(run("slicing", &problem), optimum(&problem), "seed {seed}");
        assert_eq!(run("local-moves", &problem), optimum(&problem), "seed {seed}");
    }
    assert!(chains > 1000);
}

#[test]
fn binary_search_is_exact_on_plain_chains() {
    for seed in 0..2000 {
        let mut spec = plain_chain(seed);
        if seed % 3 == 0 {
            spec.pipeline.objective = Some(Objective::Formula);
            spec.pipeline.micro_batches = Some(4);
            spec.pipeline.schedule = None;
        }
        let Some((_, problem)) = problem_of(&spec) else {
            continue;
        };
        assert_eq!(run("binary-search", &problem), optimum(&problem), "seed {seed}");
    }
}

#[test]
fn equal_layers_and_blocks_are_exact_on_chains_of_equals() {
    for seed in 0..500 {
        let mut spec = plain_chain(seed);
        for layer in &mut spec.network.layers {
            layer.forward_ms = layer.forward_ms.map(|_| 2.0);
            layer.backward_ms = layer.backward_ms.map(|_| 3.0);
            // Where nothing is trained there is no backward pass, so that not all would be equal.
            layer.frozen = false;
        }
        let Some((_, problem)) = problem_of(&spec) else {
            continue;
        };
        assert_eq!(run("equal-layers", &problem), optimum(&problem), "seed {seed}");
        assert_eq!(run("gpipe-blocks", &problem), optimum(&problem), "seed {seed}");
    }
}

#[test]
fn blocks_are_within_a_layer_of_the_optimum_on_plain_chains() {
    for seed in 0..1000 {
        let Some((_, problem)) = problem_of(&plain_chain(seed)) else {
            continue;
        };
        let largest = problem.items.iter().map(|item| item.work_ns()).max().unwrap();
        assert!(
            run("gpipe-blocks", &problem).unwrap() <= optimum(&problem).unwrap() + largest,
            "seed {seed}"
        );
    }
}

#[test]
fn orders_are_topological() {
    for (seed, problem) in random_problems(0..300) {
        for order in orders::handful(&problem, 5, seed) {
            let mut position = vec![usize::MAX; order.len()];
            order
                .iter()
                .enumerate()
                .for_each(|(at, &item)| position[item] = at);
            let pairs = problem
                .order
                .edge_indices()
                .filter_map(|e| problem.order.edge_endpoints(e));
            for (u, v) in pairs {
                assert!(
                    position[u.index()] < position[v.index()],
                    "seed {seed}: {order:?}"
                );
            }
        }
    }
}

#[test]
fn what_hangs_on_a_chain_lies_next_to_where_it_hangs() {
    // A chain of six layers; another takes what the second makes, and the fifth takes what one more makes.
    let ids = ["l0", "l1", "l2", "l3", "l4", "l5", "taker", "maker"];
    let mut built = stagecut::Instance::builder("hanging");
    for id in ids {
        built = built.layer(id, 1.0, 2.0);
    }
    for pair in ids[..6].windows(2) {
        built = built.tensor(pair[0], [pair[1]], 1e6);
    }
    let built = built.tensor("l1", ["taker"], 1e6).tensor("maker", ["l4"], 1e6);
    let instance = built.devices("device", 3, 1e9).link(1e9, 0.0).build().unwrap();
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
    let problem = Problem::new(&instance, settings).unwrap();
    let labels = stagecut::formulations::partition::item_labels(&instance, &problem);
    let place = |order: &[usize], id: &str| order.iter().position(|&item| labels[item] == id).unwrap();
    let forward = orders::least_crossing(&problem);
    assert_eq!(place(&forward, "l1") + 1, place(&forward, "taker"), "{forward:?}");
    let backward = orders::least_crossing_from_end(&problem);
    assert_eq!(
        place(&backward, "maker") + 1,
        place(&backward, "l4"),
        "{backward:?}"
    );
}

#[test]
fn intervals_cost_what_their_stage_costs() {
    for (seed, problem) in random_problems(0..500) {
        for order in orders::handful(&problem, 2, seed) {
            let intervals = Intervals::new(&problem, &order);
            for end in 1..=order.len() {
                let mut interval = Interval::before(end);
                let mut settled = 0;
                while interval.start > 0 {
                    intervals.grow(&mut interval);
                    let members = &order[interval.start..end];
                    let expected = cost::stage_cost(&problem, members, |item| members.contains(&item));
                    assert_eq!(interval.cost(), expected, "seed {seed}");
                    let least = interval.settled.bottleneck_ns();
                    assert!(
                        settled <= least && least <= expected.bottleneck_ns(),
                        "seed {seed}"
                    );
                    settled = least;
                }
            }
        }
    }
}

#[test]
fn slices_are_the_best_of_their_order() {
    for (seed, problem) in random_problems(0..5000) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let order = orders::random(&problem, &mut rng);
        let best = best_by_trial(&problem, &order);
        let fitting = fitting::slices(&problem, &order);
        assert_eq!(fitting.is_some(), best.is_some(), "seed {seed}");
        assert!(
            fitting.is_none_or(|plan| cost::is_feasible(&problem, &plan)),
            "seed {seed}"
        );
        let sliced = slice(&problem, &order, &|| false);
        if let Some((assignment, objective_ns)) = &sliced {
            assert!(cost::is_feasible(&problem, assignment), "seed {seed}");
            assert_eq!(
                cost::assignment_ns(&problem, assignment),
                *objective_ns,
                "seed {seed}"
            );
        }
        assert_eq!(sliced.map(|(_, ns)| ns), best, "seed {seed}");
        let below = |upper_ns| slice_below(&problem, &order, upper_ns, &|| false).map(|(_, ns)| ns);
        assert_eq!(below(u64::MAX), best, "seed {seed}");
        assert_eq!(below(0), None, "seed {seed}");
        if let Some(best_ns) = best {
            assert_eq!(below(best_ns + 1), best, "seed {seed}");
            assert_eq!(below(best_ns + 3_000_000), best, "seed {seed}");
            assert_eq!(below(best_ns), None, "seed {seed}");
        }
    }
}

/// Two stages of 20,000 equal layers each: a climb that followed all layers behind each layer would look at 400 million.
#[test]
fn climbs_of_long_chains_look_at_few_layers_behind_each() {
    let layers = 40_000;
    let mut spec = plain_chain(0);
    let layer = spec.network.layers[0].clone();
    let named = |at: usize| LayerSpec {
        id: format!("l{at}"),
        ..layer.clone()
    };
    spec.network.layers = (0..layers).map(named).collect();
    let tensor = spec.network.tensors.first().cloned().unwrap_or_default();
    let between = |at: usize| TensorSpec {
        producer: format!("l{at}"),
        consumers: vec![format!("l{}", at + 1)],
        ..tensor.clone()
    };
    spec.network.tensors = (0..layers - 1).map(between).collect();
    spec.pipeline.stages = Some(2);
    let (_, problem) = problem_of(&spec).expect("a problem");
    let uneven: Assignment = (0..layers).map(|at| usize::from(at >= layers / 2 - 3)).collect();
    let start = std::time::Instant::now();
    let improved = improve(&problem, uneven, &|| false);
    assert_eq!(improved.iter().filter(|&&stage| stage == 0).count(), layers / 2);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn local_moves_never_worsen_a_plan() {
    for (seed, problem) in random_problems(0..5000) {
        for method in methods(seed) {
            let Some(assignment) = assignment(method, &problem, seed) else {
                continue;
            };
            let improved = improve(&problem, assignment.clone(), &|| false);
            assert!(cost::is_feasible(&problem, &improved), "seed {seed}");
            let objective = |assignment: &Assignment| cost::assignment_ns(&problem, assignment);
            assert!(objective(&improved) <= objective(&assignment), "seed {seed}");
        }
    }
}

#[test]
fn slicing_gives_up_just_below_its_effort() {
    for (seed, problem) in random_problems(0..500) {
        let order = orders::by_number(&problem);
        let free = slice_within(&problem, &order, u64::MAX, u64::MAX, &|| false);
        let enough = slice_within(&problem, &order, u64::MAX, free.pairs, &|| false);
        assert_eq!(
            (enough.best, enough.pairs),
            (free.best, free.pairs),
            "seed {seed}"
        );
        let short = slice_within(&problem, &order, u64::MAX, free.pairs - 1, &|| false);
        assert_eq!(short.best, None, "seed {seed}");
    }
}

#[test]
fn evolution_is_no_worse_than_where_it_starts() {
    for (seed, problem) in random_problems(0..500) {
        let evolved = brkga::evolve(&problem, seed, &[], &|| false);
        let sliced = best_slicing(&problem, seed, &|| false);
        assert_eq!(evolved.is_some(), sliced.is_some(), "seed {seed}");
        let (Some(evolved), Some((sliced, sliced_ns))) = (evolved, sliced) else {
            continue;
        };
        let objective = |assignment: &Assignment| cost::assignment_ns(&problem, assignment);
        assert!(objective(&evolved) <= sliced_ns, "seed {seed}");
        assert!(
            run("brkga", &problem) <= run("local-moves", &problem),
            "seed {seed}"
        );

        // Infeasible plans are passed over.
        let backwards = problem
            .items
            .iter()
            .enumerate()
            .map(|(item, _)| problem.items.len() - item);
        let plans = [backwards.collect(), improve(&problem, sliced, &|| false)];
        let from_plans = brkga::evolve(&problem, seed, &plans, &|| false).unwrap();
        assert!(cost::is_feasible(&problem, &from_plans), "seed {seed}");
        assert!(objective(&from_plans) <= objective(&plans[1]), "seed {seed}");
    }
}

#[test]
fn evolution_that_is_stopped_returns_what_it_has() {
    for (seed, problem) in random_problems(0..100) {
        let Some((sliced, sliced_ns)) = best_slicing(&problem, seed, &|| false) else {
            continue;
        };
        let stopped = brkga::evolve(&problem, seed, &[sliced], &|| true).unwrap();
        assert!(cost::is_feasible(&problem, &stopped), "seed {seed}");
        assert_eq!(cost::assignment_ns(&problem, &stopped), sliced_ns, "seed {seed}");
    }
}

#[test]
fn evolution_is_the_same_on_any_number_of_threads() {
    let on = |threads: usize, problem: &Problem, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| brkga::evolve(problem, seed, &[], &|| false))
    };
    let longer = (0..5).map(|seed| (seed, side_by_side(seed)));
    for (seed, problem) in random_problems(0..50).chain(longer) {
        assert_eq!(on(1, &problem, seed), on(2, &problem, seed), "seed {seed}");
    }
}

#[test]
fn evolution_finds_what_local_moves_miss() {
    let mut gained = 0;
    for seed in 0..20 {
        let problem = side_by_side(seed);
        let sliced = run("local-moves", &problem).unwrap();
        let evolved = run("brkga", &problem).unwrap();
        assert!(evolved <= sliced, "seed {seed}");
        gained += usize::from(evolved < sliced);
    }
    assert!(gained >= 15, "{gained} of 20");
}

/// Layers between a source and a sink with no order among them: whatever order they are sliced in, others fit better.
fn side_by_side(seed: u64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spec = plain_chain(seed);
    let id = |i: usize| format!("f{i}");
    spec.network.layers = (0..16)
        .map(|i| LayerSpec {
            id: id(i),
            forward_ms: Some(f64::from(rng.random_range(1..=1000))),
            ..LayerSpec::default()
        })
        .collect();
    spec.network.tensors = (1..15)
        .flat_map(|i| [(0, i), (i, 15)])
        .map(|(from, to)| TensorSpec {
            producer: id(from),
            consumers: vec![id(to)],
            bytes: Some(0.0),
            ..TensorSpec::default()
        })
        .collect();
    spec.pipeline = PipelineOptions {
        stages: Some(4),
        mode: Some(Mode::Inference),
        ..PipelineOptions::default()
    };
    problem_of(&spec).expect("a valid network").1
}

/// The best objective over all ways to cut an order, each costed from scratch.
fn best_by_trial(problem: &Problem, order: &[usize]) -> Option<u64> {
    let cuts = order.len() - 1;
    (0..1_usize << cuts)
        .filter(|cut| (cut.count_ones() as usize) < problem.stages())
        .filter_map(|cut| {
            let mut assignment = vec![0; order.len()];
            let mut stage = 0;
            for (position, &item) in order.iter().enumerate() {
                stage += usize::from(position > 0 && cut >> (position - 1) & 1 == 1);
                assignment[item] = stage;
            }
            cost::is_feasible(problem, &assignment).then(|| cost::assignment_ns(problem, &assignment))
        })
        .min()
}
