//! Constraints of one's own: the best plan among those that keep them, beside whatever else is asked, like brute force; and what is
//! refused.

use crate::common::chunked::virtual_spec;
use crate::common::{draws, problem_of, rounding_ns, seeds, separate_spec};
use std::collections::{BTreeMap, BTreeSet};

use crate::oracles::chunk_iterations::least_among_ns;
use crate::oracles::{allocations, each_assignment, virtual_stages};
use crate::regions::{plans, spec};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::bound_source::BoundSource;
use stagecut::cost;
use stagecut::evaluate;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::options::{
    Constraint, Cuts, Groups, NamedPlaces, Objective, PipelineOptions, Places, WorkerMode,
};
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::plan::{Outcome, Plan, Statistics, Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;
use stagecut::{Options, check};

/// A constraint on some layers, of any kind.
fn constraint(rng: &mut ChaCha8Rng, spec: &InstanceSpec) -> Constraint {
    let layers = spec.network.layers.iter().filter(|layer| !layer.backward);
    let names: Vec<String> = layers.map(|layer| layer.id.clone()).collect();
    let count = rng.random_range(1..=3.min(names.len()));
    let some: Vec<String> = names.sample(rng, count).cloned().collect();
    match rng.random_range(0..5) {
        0 => Constraint::Together(some),
        1 => Constraint::Cuts(Places::Behind(some)),
        2 => Constraint::Cuts(Places::Named(NamedPlaces::Blocks)),
        3 => Constraint::Apart(some),
        _ => Constraint::AtMost(rng.random_range(1..=names.len())),
    }
}

/// All that a layer needs, itself included.
fn needed(spec: &InstanceSpec, layer: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([layer.to_owned()]);
    loop {
        let before = spec.network.tensors.iter();
        let before = before.filter(|tensor| tensor.consumers.iter().any(|to| all.contains(to)));
        let more: BTreeSet<String> = before.map(|tensor| tensor.producer.clone()).collect();
        if more.is_subset(&all) {
            return all;
        }
        all.extend(more);
    }
}

/// The number in the name of a block.
fn block(layer: &str) -> Option<&str> {
    layer.strip_prefix("b.")?.split('.').next()
}

/// Whether a plan keeps a constraint.
fn keeps(spec: &InstanceSpec, plan: &BarePlan, constraint: &Constraint) -> bool {
    let forward: BTreeSet<&str> = (spec.network.layers.iter().filter(|layer| !layer.backward))
        .map(|layer| layer.id.as_str())
        .collect();
    let stages: Vec<Vec<&str>> = (plan.stages.iter())
        .map(|stage| {
            stage
                .layers
                .iter()
                .map(String::as_str)
                .filter(|id| forward.contains(id))
                .collect()
        })
        .collect();
    // Of backward passes there are those through which gradients return.
    let placed: BTreeSet<&str> = stages.iter().flatten().copied().collect();
    let forward: BTreeSet<&str> = &forward & &placed;
    let named = |names: &[String]| -> Vec<String> {
        let own = names.iter().filter(|id| placed.contains(id.as_str()));
        own.cloned().collect()
    };
    let constraint = match constraint {
        Constraint::Together(names) => &Constraint::Together(named(names)),
        Constraint::Apart(names) => &Constraint::Apart(named(names)),
        other => other,
    };
    let of = |id: &str| stages.iter().position(|stage| stage.contains(&id)).unwrap();
    match constraint {
        Constraint::Together(names) => names.iter().all(|id| of(id) == of(&names[0])),
        Constraint::Apart(names) => {
            let apart: BTreeSet<usize> = names.iter().map(|id| of(id)).collect();
            apart.len() == names.len()
        }
        Constraint::AtMost(most) => stages.iter().all(|stage| stage.len() <= *most),
        Constraint::Cuts(Places::Named(_)) => forward.iter().all(|one| {
            let other = |other: &&&str| block(one).is_some() && block(one) == block(other);
            forward.iter().filter(other).all(|other| of(one) == of(other))
        }),
        Constraint::Cuts(Places::Behind(names)) => (1..stages.len()).all(|cut| {
            let before: BTreeSet<String> = stages[..cut].iter().flatten().map(|&id| id.to_owned()).collect();
            let is_end = before.is_empty() || before.len() == forward.len();
            let place = |name: &String| -> BTreeSet<String> {
                let all = needed(spec, name).into_iter();
                all.filter(|id| placed.contains(id.as_str())).collect()
            };
            is_end || names.iter().any(|name| place(name) == before)
        }),
    }
}

/// The least that a plan which keeps all constraints comes to, in ms, and any plan; `None` where there are too many plans.
fn best_ms(spec: &InstanceSpec, instance: &Instance, settings: &Settings) -> Option<[Option<f64>; 2]> {
    let free = Settings {
        constraints: Vec::new(),
        ..settings.clone()
    };
    let problem = Problem::new(instance, free.clone()).ok();
    let mut best = [f64::INFINITY; 2];
    for bare in plans(instance, &free)? {
        let Ok(found) = evaluate::evaluate(instance, &free, problem.as_ref(), &bare) else {
            continue;
        };
        let Some(ms) = found.plan.objective_ms.filter(|_| found.violations.is_empty()) else {
            continue;
        };
        best[1] = best[1].min(ms);
        let kept = settings
            .constraints
            .iter()
            .all(|constraint| keeps(spec, &bare, constraint));
        // The checker says the same of it.
        let mut plan = found.plan;
        plan.problem = settings.to_options(instance);
        let accepted = check::check(instance, settings, &plan).is_empty();
        assert_eq!(
            kept,
            accepted,
            "{} {bare:?}",
            serde_json::to_string(spec).unwrap()
        );
        if kept {
            best[0] = best[0].min(ms);
        }
    }
    Some(best.map(|ms| ms.is_finite().then_some(ms)))
}

/// Whether an assignment of items to stages keeps what joins no layers.
fn keeps_apart(instance: &Instance, problem: &Problem, assignment: &[usize]) -> bool {
    let layers = &instance.network.layers;
    let of_stage = |stage: usize| -> Vec<&str> {
        let items = (0..assignment.len()).filter(|&item| assignment[item] == stage);
        let own = items.flat_map(|item| &problem.items[item].layers);
        let forward = own.filter(|&&at| !layers[at].backward);
        forward.map(|&at| layers[at].id.as_str()).collect()
    };
    let stages: Vec<Vec<&str>> = (0..problem.stages()).map(of_stage).collect();
    let mut constraints = problem.settings.constraints.iter();
    constraints.all(|constraint| match constraint {
        Constraint::Apart(names) => stages.iter().all(|stage| {
            let own = stage.iter().filter(|&&id| names.iter().any(|name| name == id));
            own.count() <= 1
        }),
        Constraint::AtMost(most) => stages.iter().all(|stage| stage.len() <= *most),
        // No plan of these items breaks them.
        Constraint::Together(_) | Constraint::Cuts(_) => true,
    })
}

/// The same of workers that are groups, or run both phases at once.
fn best_of_workers_ms(instance: &Instance, settings: &Settings) -> Option<[Option<f64>; 2]> {
    let problem = Problem::new(instance, settings.clone()).ok()?;
    let workers = problem.workers.as_ref().filter(|_| !settings.is_simulated())?;
    let keeps = |assignment: &[usize]| keeps_apart(instance, &problem, assignment);
    let ms = |admits: &dyn Fn(&[usize]) -> bool| {
        let best = allocations::solve_among(&problem, workers, admits).ok()?;
        Some(best.map(|(_, ticks)| problem.settings.ms(ticks)))
    };
    Some([ms(&keeps)?, ms(&|_| true)?])
}

/// How often what came up.
#[derive(Debug, Default)]
struct Seen {
    /// Of workers that are groups, or run both phases at once.
    of_workers: usize,
    kinds: BTreeMap<String, usize>,
    restricted: usize,
    infeasible: usize,
    refused: usize,
}

fn hold(spec: &InstanceSpec, seen: &mut Seen) -> Option<Plan> {
    let instance = Instance::from_spec(spec).ok()?;
    let Ok(settings) = Settings::resolve(&instance, &PipelineOptions::default()) else {
        seen.refused += 1;
        return None;
    };
    if settings.cuts == Cuts::Separate {
        // Their plans are enumerated below.
        return None;
    }
    let is_enumerated = settings.groups != Groups::Assign
        && instance.cluster.groups.is_empty()
        && settings.worker != WorkerMode::Concurrent;
    let [best, free] = match is_enumerated {
        true => best_ms(spec, &instance, &settings)?,
        false => {
            let found = best_of_workers_ms(&instance, &settings)?;
            seen.of_workers += 1;
            found
        }
    };
    let context = || format!("{best:?} {}", serde_json::to_string(spec).unwrap());
    let Ok(problem) = Problem::new(&instance, settings.clone()) else {
        assert!(best.is_none(), "{}", context());
        return None;
    };
    // Shares of concurrent workers are rounded.
    let close_ms = 1e-6 * (1 + rounding_ns(&problem)) as f64;
    for method in methods::all() {
        if method.applies(&problem).is_err() {
            continue;
        }
        let plan = method.run(&instance, &problem, &Default::default()).unwrap();
        let violations = check::check(&instance, &settings, &plan);
        assert!(violations.is_empty(), "{method:?} {violations:?} {}", context());
        let is_exact = matches!(method, Method::Exact(exact::Method::Exact));
        let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
        assert!(!is_exact || is_proved, "open: {}", context());
        assert!(
            plan.bound_ms
                .is_none_or(|ms| ms < best.unwrap_or(f64::INFINITY) + close_ms),
            "{method:?} {}",
            context()
        );
        match plan.objective_ms {
            Some(ms) => assert!(
                ms > best.unwrap_or(f64::INFINITY) - close_ms,
                "{method:?} {ms} {}",
                context()
            ),
            None => assert!(!is_proved || best.is_none(), "{method:?} {}", context()),
        }
        if is_proved && let (Some(ms), Some(best)) = (plan.objective_ms, best) {
            assert!((ms - best).abs() < close_ms, "{method:?} {ms} {}", context());
        }
        if is_exact {
            for constraint in &settings.constraints {
                let name = serde_json::to_value(constraint).unwrap();
                let name = name.as_object().unwrap().keys().next().unwrap().clone();
                *seen.kinds.entry(name).or_default() += 1;
            }
            seen.infeasible += usize::from(best.is_none() && free.is_some());
            seen.restricted += usize::from(best.zip(free).is_some_and(|(best, free)| free < best - 1e-6));
        }
    }
    None
}

#[test]
fn constraints_are_kept_and_plans_are_those_of_brute_force() {
    let mut seen = Seen::default();
    for seed in seeds(300) {
        let mut spec = spec(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        if rng.random_bool(0.7) {
            spec.pipeline.objective = Some(Objective::Period);
        }
        let count = rng.random_range(1..=2);
        let constraints = (0..count).map(|_| constraint(&mut rng, &spec)).collect();
        spec.pipeline.constraints = Some(constraints);
        hold(&spec, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.of_workers > 8, "{seen:?}");
    assert!(
        seen.kinds.len() == 4 && seen.kinds.values().all(|&count| count > 8),
        "{seen:?}"
    );
    assert!(seen.restricted > 8 && seen.infeasible > 3, "{seen:?}");
}

/// Chunks of devices, which are stages: periods and iterations, of chains and of other networks.
#[test]
fn chunks_keep_constraints_like_brute_force() {
    let mut seen = [0; 4];
    for seed in seeds(1_200) {
        let mut spec = virtual_spec(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let is_iteration = seed.is_multiple_of(2);
        if is_iteration {
            let rounds = spec.pipeline.stages.unwrap_or(1) as u64;
            spec.pipeline.objective = Some(Objective::Iteration);
            spec.pipeline.micro_batches = Some(rounds * rng.random_range(1..=2));
        }
        spec.pipeline.constraints = Some(vec![constraint(&mut rng, &spec)]);
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let plans = (problem.stages() as f64).powi(problem.items.len() as i32);
        if problem.confined.is_none() || plans > 3e4 {
            continue;
        }
        let keeps = |assignment: &[usize]| keeps_apart(&instance, &problem, assignment);
        let best_ns = |admits: &dyn Fn(&[usize]) -> bool| match is_iteration {
            true => least_among_ns(&problem, admits),
            false => virtual_stages::solve_among(&problem, admits).map(|(_, ticks)| ticks),
        };
        let exact = Method::Exact(exact::Method::Exact);
        let plan = exact.run(&instance, &problem, &Default::default()).unwrap();
        let told = || format!("seed {seed}: {plan:?}");
        assert_eq!(
            check::check(&instance, &problem.settings, &plan),
            [],
            "{}",
            told()
        );
        let best = best_ns(&keeps);
        let status = best.map_or(Status::Infeasible, |_| Status::Optimal);
        assert_eq!(plan.status, status, "{}", told());
        let best_ms = best.map(|ticks| problem.settings.ms(ticks));
        assert_eq!(plan.objective_ms, best_ms, "{}", told());
        let of = [true, is_iteration, best.is_none(), best != best_ns(&|_| true)];
        (0..4).for_each(|at| seen[at] += usize::from(of[at]));
    }
    println!("{seen:?}");
    let [compared, iterations, infeasible, restricted] = seen;
    assert!(
        compared > 100 && 4 * iterations > compared && 4 * iterations < 3 * compared,
        "{seen:?}"
    );
    assert!(infeasible > 5 && restricted > 20, "{seen:?}");
}

/// All assignments of items to stages that keep order, without a gap.
fn assignments(problem: &Problem) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    each_assignment(problem, problem.stages(), &mut |plan| all.push(plan.clone()));
    let has_gap = |plan: &Vec<usize>| (0..*plan.iter().max().unwrap()).any(|stage| !plan.contains(&stage));
    all.retain(|plan| !has_gap(plan));
    all
}

/// A problem of separate cuts with constraints, and the same without.
struct Apart {
    seed: u64,
    spec: InstanceSpec,
    constraints: Vec<Constraint>,
    instance: Instance,
    settings: Settings,
    free: (Instance, Problem),
}

impl Apart {
    /// `None` where it cannot be asked, or has too many plans.
    fn draw(seed: u64) -> Option<Self> {
        let mut spec = separate_spec(seed, 2 + seed as usize % 3, seed.is_multiple_of(3));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        if spec.pipeline.micro_batches.is_some() && rng.random_bool(0.5) {
            spec.pipeline.objective = Some(Objective::Iteration);
        }
        if seed % 4 == 1 {
            let forward = spec.network.layers.iter_mut().filter(|layer| !layer.backward);
            forward.for_each(|layer| layer.frozen = rng.random_bool(0.5));
        }
        let count = rng.random_range(1..=2);
        let constraints: Vec<Constraint> = (0..count).map(|_| constraint(&mut rng, &spec)).collect();
        let free = problem_of(&spec)?;
        spec.pipeline.constraints = Some(constraints.clone());
        let instance = Instance::from_spec(&spec).ok()?;
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
        let plans = (free.1.stages() as f64).powi(free.1.items.len() as i32);
        (plans <= 2e4 && !settings.modal).then_some(Self {
            seed,
            spec,
            constraints,
            instance,
            settings,
            free,
        })
    }

    fn told(&self) -> String {
        format!(
            "seed {}: {}",
            self.seed,
            serde_json::to_string(&self.spec).unwrap()
        )
    }

    /// Either cut by itself, as a plan of one pass.
    fn cut(&self, assignment: &[usize], is_forward: bool) -> BarePlan {
        let (instance, free) = &self.free;
        let layers = |stage: usize| {
            let items = (0..assignment.len()).filter(|&item| assignment[item] == stage);
            let own = items.flat_map(|item| match is_forward {
                true => &free.items[item].layers,
                false => &free.items[item].backward_layers,
            });
            let layers = own.map(|&at| &instance.network.layers[at]);
            let there = layers.filter(|layer| is_forward || layer.returns);
            there.map(|layer| layer.id.clone()).collect()
        };
        let stage = |stage| BareStage {
            layers: layers(stage),
            ..BareStage::default()
        };
        BarePlan {
            stages: (0..=*assignment.iter().max().unwrap()).map(stage).collect(),
        }
    }

    fn keeps(&self, assignment: &[usize]) -> bool {
        let cuts = [true, false].map(|is_forward| self.cut(assignment, is_forward));
        let mut both = cuts
            .iter()
            .flat_map(|cut| self.constraints.iter().map(move |of| (cut, of)));
        both.all(|(cut, constraint)| keeps(&self.spec, cut, constraint))
    }

    /// The checker takes no plan that breaks a constraint, which states all else as `plan` does.
    fn refuses(&self, broken: &[usize], plan: &Plan) {
        let outcome = Outcome {
            allocation: Some(broken.to_vec().into()),
            stopped_by: StoppedBy::Completed,
            bound_ns: 0,
            bound_source: BoundSource::None,
            statistics: Statistics::default(),
        };
        let (instance, free) = &self.free;
        let mut wrong = Plan::new(instance, free, "drawn", outcome);
        wrong.problem = plan.problem.clone();
        let violations = check::check(&self.instance, &self.settings, &wrong);
        assert!(!violations.is_empty(), "{}", self.told());
    }

    /// Whether it was compared, proved, has no plan, is restricted, and is simulated.
    fn compare(&self) -> [bool; 5] {
        let free = &self.free.1;
        let plans = assignments(free);
        let feasible = || plans.iter().filter(|plan| cost::is_feasible(free, plan));
        let ns = |plan: &Vec<usize>| cost::assignment_ns(free, plan);
        let best = feasible().filter(|plan| self.keeps(plan)).map(ns).min();
        let Ok(problem) = Problem::new(&self.instance, self.settings.clone()) else {
            assert_eq!(best, None, "{}", self.told());
            return [false; 5];
        };
        let exact = Method::Exact(exact::Method::Exact);
        let plan = exact.run(&self.instance, &problem, &Default::default()).unwrap();
        let violations = check::check(&self.instance, &self.settings, &plan);
        assert_eq!(violations, [], "{}", self.told());
        let best_ms = best.map(|ticks| free.settings.ms(ticks));
        let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
        let least_ms = best_ms.unwrap_or(f64::INFINITY);
        let [found_ms, bound_ms] = [plan.objective_ms, plan.bound_ms].map(|ms| ms.unwrap_or(f64::INFINITY));
        assert!(!is_proved || plan.objective_ms == best_ms, "{}", self.told());
        assert!(found_ms >= least_ms - 1e-9, "{}", self.told());
        assert!(
            bound_ms <= least_ms + 1e-9 || plan.bound_ms.is_none(),
            "{}",
            self.told()
        );
        if let Some(broken) = feasible().find(|plan| !self.keeps(plan)) {
            self.refuses(broken, &plan);
        }
        let is_restricted = best != feasible().map(ns).min();
        [
            true,
            is_proved,
            best.is_none(),
            is_restricted,
            self.settings.is_simulated(),
        ]
    }
}

/// Forward and backward passes are cut apart, and either cut keeps the constraints: against all plans of the problem that has none.
#[test]
fn separate_cuts_keep_constraints_like_brute_force() {
    let mut seen = [0; 5];
    for problem in seeds(1_500).filter_map(Apart::draw) {
        let of = problem.compare();
        (0..5).for_each(|at| seen[at] += usize::from(of[at]));
    }
    println!("{seen:?}");
    let [compared, proved, infeasible, restricted, simulated] = seen;
    assert!(
        4 * compared > draws(1_500) as usize && 10 * proved > 9 * compared && 8 * simulated > compared,
        "{seen:?}"
    );
    assert!(
        20 * infeasible > compared && 8 * restricted > compared,
        "{seen:?}"
    );
}

/// Three layers of 1, 2 and 3 ms on two devices: 3 and 3 where they are free.
fn three_layers(constraints: Vec<Constraint>) -> Result<Plan, stagecut::Error> {
    let layers = ["a", "b", "c"].into_iter().zip([1.0, 2.0, 3.0]);
    let built = layers.fold(Instance::builder("three layers"), |built, (name, ms)| {
        built.layer(name, ms, 0.0)
    });
    let built = built.tensor("a", ["b"], 8.0).tensor("b", ["c"], 8.0);
    let instance = built.devices("gpu", 2, 1e12).link(1e18, 0.0).build().unwrap();
    let pipeline = PipelineOptions {
        constraints: Some(constraints),
        ..PipelineOptions::default()
    };
    stagecut::solve(
        &instance,
        &Options {
            pipeline,
            ..Options::default()
        },
    )
}

#[test]
fn three_layers_by_hand() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let ms = |constraint| three_layers(vec![constraint]).unwrap().objective_ms;
    assert_eq!(three_layers(Vec::new()).unwrap().objective_ms, Some(3.0));
    assert_eq!(ms(Constraint::Together(names(&["b", "c"]))), Some(5.0));
    assert_eq!(ms(Constraint::Apart(names(&["a", "b"]))), Some(5.0));
    assert_eq!(ms(Constraint::Cuts(Places::Behind(names(&["a"])))), Some(5.0));
    assert_eq!(ms(Constraint::AtMost(2)), Some(3.0));
    assert_eq!(ms(Constraint::AtMost(1)), None);
    assert!(three_layers(vec![Constraint::Together(names(&["a", "x"]))]).is_err());
}
