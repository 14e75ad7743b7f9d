//! The checker: it accepts what the solver finds and rejects every way of changing it that matters.

use crate::common::random_problem;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::bound_source::BoundSource;
use stagecut::check::{Violation, check};
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::Mode;
use stagecut::plan::{Outcome, Plan, PlanStage, Statistics, Status, StoppedBy};
use stagecut::problem::Problem;

const SEEDS: std::ops::Range<u64> = 0..1_000;

/// A problem and what is known of it.
struct Solved {
    seed: u64,
    instance: Instance,
    problem: Problem,
    plan: Plan,
}

impl Solved {
    fn violations(&self, plan: &Plan) -> Vec<Violation> {
        check(&self.instance, &self.problem.settings, plan)
    }

    /// The changed plan must fail, and for the reason that was meant.
    fn rejects(&self, what: &str, change: impl Fn(&mut Plan), reason: impl Fn(&Violation) -> bool) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        let violations = self.violations(&plan);
        assert!(
            violations.iter().any(reason),
            "seed {}, {what}: {violations:?} of {plan:#?}",
            self.seed
        );
    }
}

/// Random problems with a plan, some of them proved and some not.
fn solved() -> Vec<Solved> {
    let exact = methods::find("exact").expect("a registered method");
    let slicing = methods::find("slicing").expect("a registered method");
    SEEDS
        .into_par_iter()
        .filter_map(|seed| {
            let (instance, problem) = random_problem(seed)?;
            let method = if seed.is_multiple_of(3) { slicing } else { exact };
            method.applies(&problem).ok()?;
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            Some(Solved {
                seed,
                instance,
                problem,
                plan,
            })
        })
        .collect()
}

fn is_stated(name: &'static str) -> impl Fn(&Violation) -> bool {
    move |violation| matches!(violation, Violation::Stated { field, .. } if field.contains(name))
}

fn is_field(name: &'static str) -> impl Fn(&Violation) -> bool {
    move |violation| matches!(violation, Violation::Field { field, .. } if field.contains(name))
}

fn is_claim(violation: &Violation) -> bool {
    matches!(violation, Violation::Claim(_))
}

fn is_placement(violation: &Violation) -> bool {
    matches!(violation, Violation::Placement { .. })
}

#[test]
fn plans_pass_and_changed_plans_fail() {
    let solved = solved();
    for case in &solved {
        assert_eq!(case.violations(&case.plan), [], "seed {}", case.seed);
    }
    let with_plan: Vec<&Solved> = solved
        .iter()
        .filter(|case| !case.plan.stages.is_empty())
        .collect();
    assert!(with_plan.len() > 500, "only {} plans", with_plan.len());
    for case in &with_plan {
        wrong_numbers(case);
        wrong_claims(case);
        wrong_placement(case);
        wrong_stages(case);
    }
    let moved: usize = with_plan.iter().map(|case| moved_layers(case)).sum();
    assert!(moved > 1_000, "only {moved} moves");
}

/// Stated numbers that are off by a few nanoseconds, by much, or no numbers at all.
fn wrong_numbers(case: &Solved) {
    for change in [3e-6, -3e-6, 1e9, f64::NAN, f64::INFINITY] {
        case.rejects(
            "objective",
            |plan| *plan.objective_ms.as_mut().unwrap() += change,
            is_stated("objective_ms"),
        );
        for k in 0..case.plan.stages.len() {
            type Field = fn(&mut PlanStage) -> &mut f64;
            let fields: [(&'static str, Field); 8] = [
                ("load_ms", |stage| &mut stage.load_ms),
                ("forward_ms", |stage| &mut stage.forward_ms),
                ("backward_ms", |stage| &mut stage.backward_ms),
                ("communication_ms", |stage| &mut stage.communication_ms),
                ("forward.in_ms", |stage| {
                    &mut stage.transfers.get_or_insert_default().forward.in_ms
                }),
                ("forward.out_ms", |stage| {
                    &mut stage.transfers.get_or_insert_default().forward.out_ms
                }),
                ("backward.in_ms", |stage| {
                    &mut stage.transfers.get_or_insert_default().backward.in_ms
                }),
                ("backward.out_ms", |stage| {
                    &mut stage.transfers.get_or_insert_default().backward.out_ms
                }),
            ];
            for (name, field) in fields {
                case.rejects(
                    name,
                    |plan| *field(&mut plan.stages[k]) += change,
                    is_stated(name),
                );
            }
        }
    }
    for k in 0..case.plan.stages.len() {
        case.rejects(
            "memory",
            |plan| plan.stages[k].memory_bytes += 1,
            is_stated("memory_bytes"),
        );
        type Count = fn(&mut PlanStage) -> &mut Option<u64>;
        let counts: [(&'static str, Count); 2] = [
            ("in_flight", |stage| &mut stage.in_flight),
            ("weight_versions", |stage| &mut stage.weight_versions),
        ];
        for (name, count) in counts {
            case.rejects(
                name,
                |plan| *count(&mut plan.stages[k]).get_or_insert(5) += 1,
                |violation| is_stated(name)(violation) || is_field(name)(violation),
            );
            if case.problem.settings.mode == Mode::Training {
                case.rejects(name, |plan| *count(&mut plan.stages[k]) = None, is_field(name));
            }
        }
    }
    case.rejects("no objective", |plan| plan.objective_ms = None, is_claim);
}

/// Claims that the numbers do not bear out.
fn wrong_claims(case: &Solved) {
    let objective = case.plan.objective_ms.unwrap();
    case.rejects(
        "bound above objective",
        |plan| plan.bound_ms = Some(objective + 1.0),
        is_claim,
    );
    case.rejects("NaN as bound", |plan| plan.bound_ms = Some(f64::NAN), is_claim);
    case.rejects("no bound", |plan| plan.bound_ms = None, is_claim);
    case.rejects("no gap", |plan| plan.gap = None, is_claim);
    case.rejects(
        "wrong gap",
        |plan| plan.gap = plan.gap.map(|gap| gap + 0.01),
        is_claim,
    );
    case.rejects("NaN as gap", |plan| plan.gap = Some(f64::NAN), is_claim);
    for status in [Status::Infeasible, Status::Unknown] {
        case.rejects("status", |plan| plan.status = status, is_claim);
    }
    if objective > 0.0 {
        // Numbers that agree with each other, and a proof that they do not give.
        let unproved = |plan: &mut Plan| {
            plan.status = Status::Optimal;
            plan.bound_ms = Some(objective * 0.9);
            plan.gap = Some(1.0 - 0.9);
        };
        case.rejects("false proof", unproved, is_claim);
    }
    let is_proved = matches!(case.plan.status, Status::Optimal);
    if is_proved {
        let late = |plan: &mut Plan| plan.stopped_by = StoppedBy::TimeLimit;
        case.rejects("a proof at the time limit", late, is_claim);
        let modest = |plan: &mut Plan| plan.status = Status::Feasible;
        case.rejects("feasible at the bound", modest, is_claim);
    }
    let twice = |plan: &mut Plan| {
        let bounds = &mut plan.statistics.bounds_ms;
        bounds.insert(BoundSource::LargestItem, 2.0 * objective + 1.0);
    };
    case.rejects("a bound above the bound", twice, is_claim);
    let many = |plan: &mut Plan| plan.statistics.items_after_presolve = plan.statistics.items + 1;
    case.rejects("items that presolve adds", many, is_claim);
    case.rejects("too many items", |plan| plan.statistics.items = 1_000, is_claim);
    case.rejects("no time", |plan| plan.statistics.seconds = -1.0, is_claim);
    case.rejects(
        "another instance",
        |plan| plan.instance += "x",
        is_field("instance"),
    );
    case.rejects(
        "another schema",
        |plan| plan.schema = "stagecut-plan/9".into(),
        |violation| matches!(violation, Violation::Field { .. }),
    );
}

/// Layers dropped, doubled and made up.
fn wrong_placement(case: &Solved) {
    for k in 0..case.plan.stages.len() {
        let stage = &case.plan.stages[k];
        if !stage.forward.is_empty() {
            case.rejects("dropped", |plan| drop(plan.stages[k].forward.pop()), is_placement);
            let name = stage.forward[0].clone();
            for other in 0..case.plan.stages.len() {
                case.rejects(
                    "doubled",
                    |plan| plan.stages[other].forward.push(name.clone()),
                    is_placement,
                );
            }
            case.rejects(
                "wrong pass",
                |plan| plan.stages[k].backward.push(name.clone()),
                is_placement,
            );
        }
        if !stage.backward.is_empty() {
            case.rejects(
                "dropped backward",
                |plan| drop(plan.stages[k].backward.pop()),
                is_placement,
            );
        }
        case.rejects(
            "unknown",
            |plan| plan.stages[k].forward.push("nowhere".into()),
            |violation| matches!(violation, Violation::UnknownLayer { layer, .. } if layer == "nowhere"),
        );
    }
}

/// Stages numbered wrongly, too many of them, and none.
fn wrong_stages(case: &Solved) {
    for k in 0..case.plan.stages.len() {
        case.rejects(
            "index",
            |plan| plan.stages[k].index += 1,
            |violation| matches!(violation, Violation::Field { field, .. } if field.contains("index")),
        );
    }
    let empty = |index| PlanStage {
        index,
        forward: Vec::new(),
        backward: Vec::new(),
        load_ms: 0.0,
        forward_ms: 0.0,
        backward_ms: 0.0,
        communication_ms: 0.0,
        transfers: None,
        synchronization_ms: None,
        memory_bytes: 0,
        ..case.plan.stages[0].clone()
    };
    let most = case.problem.settings.stages;
    let too_many = |plan: &mut Plan| {
        for index in plan.stages.len() + 1..=most + 1 {
            plan.stages.push(empty(index));
        }
    };
    case.rejects("too many stages", too_many, |violation| {
        matches!(violation, Violation::StageCount { .. })
    });
    case.rejects("no stages", |plan| plan.stages.clear(), is_claim);
}

/// Moves every layer to every other stage and leaves the stated numbers. Returns the number of moves.
///
/// A move can only be right if it changes no number that is stated: a layer without work, bytes, transfers that the move
/// makes or ends, and with nothing that holds it in its place. All that is told apart here without the checker's help.
fn moved_layers(case: &Solved) -> usize {
    let network = &case.instance.network;
    let mut moves = 0;
    for (at, layer) in network.layers.iter().enumerate() {
        let home = case
            .plan
            .stages
            .iter()
            .position(|stage| stage.forward.contains(&layer.id) || stage.backward.contains(&layer.id));
        let Some(home) = home else {
            continue;
        };
        for to in (0..case.plan.stages.len()).filter(|&to| to != home) {
            let mut plan = case.plan.clone();
            let is_other = |name: &String| *name != layer.id;
            let passes: [fn(&mut PlanStage) -> &mut Vec<String>; 2] =
                [|stage| &mut stage.forward, |stage| &mut stage.backward];
            for pass in passes {
                if pass(&mut plan.stages[home]).contains(&layer.id) {
                    pass(&mut plan.stages[home]).retain(is_other);
                    pass(&mut plan.stages[to]).push(layer.id.clone());
                }
            }
            moves += 1;
            let violations = case.violations(&plan);
            if violations.is_empty() {
                assert!(
                    is_weightless(case, at),
                    "seed {}: `{}` to stage {}: {plan:#?}",
                    case.seed,
                    layer.id,
                    to + 1
                );
            } else if case
                .problem
                .settings
                .times_on(layer, case.problem.settings.kind)
                .is_some_and(|times| times.forward_ns + times.backward_ns > 0)
            {
                // Work that moves shows in two loads, whatever else the move breaks.
                let loads = violations
                    .iter()
                    .filter(|violation| is_stated("load_ms")(violation))
                    .count();
                let apart = violations
                    .iter()
                    .any(|violation| matches!(violation, Violation::Order { .. } | Violation::Apart { .. }));
                assert!(loads > 0 || apart, "seed {}: {violations:?}", case.seed);
            }
        }
    }
    moves
}

/// Whether a layer could lie elsewhere without a change in any stated number, for all that it holds itself.
fn is_weightless(case: &Solved, at: usize) -> bool {
    let settings = &case.problem.settings;
    let layer = &case.instance.network.layers[at];
    let times = settings.times_on(layer, settings.kind).unwrap_or_default();
    let stash = layer.stash_bytes * u64::from(settings.in_flight(1) > 0);
    times.forward_ns + times.backward_ns + settings.base_bytes(layer) + stash == 0
}

/// Plans whose numbers are all right: then the checker must reject exactly those that break the order, overfill a stage
/// or leave one empty where none may be.
#[test]
fn honest_plans_fail_only_where_they_cannot_be_run() {
    let [mut runnable, mut broken] = [0; 2];
    for seed in SEEDS {
        let Some((instance, problem)) = random_problem(seed) else {
            continue;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let stages = problem.stages();
        let in_order = seed.is_multiple_of(2);
        // Items are numbered along the order, so sorted stages respect it; half of the draws are left as they are.
        let mut assignment: Vec<usize> = problem
            .items
            .iter()
            .map(|_| rng.random_range(0..stages))
            .collect();
        if in_order {
            assignment.sort_unstable();
        }
        let is_ordered = problem
            .order
            .raw_edges()
            .iter()
            .all(|edge| assignment[edge.source().index()] <= assignment[edge.target().index()]);
        let outcome = Outcome {
            allocation: Some(assignment.into()),
            bound_ns: 0,
            bound_source: BoundSource::None,
            stopped_by: StoppedBy::Completed,
            statistics: Statistics::default(),
        };
        let plan = Plan::new(&instance, &problem, "drawn", outcome);
        let settings = &problem.settings;
        let fits = |stage: &PlanStage| {
            settings
                .memory_limit
                .is_none_or(|limit| stage.memory_bytes <= limit)
        };
        let is_full = !settings.all_stages || plan.stages.len() == settings.stages;
        let can_run = is_ordered && is_full && plan.stages.iter().all(fits);
        let violations = check(&instance, settings, &plan);
        assert_eq!(
            violations.is_empty(),
            can_run,
            "seed {seed}: {violations:?} of {plan:#?}"
        );
        let counted = if can_run { &mut runnable } else { &mut broken };
        *counted += 1;
    }
    assert!(
        runnable > 100 && broken > 100,
        "{runnable} plans that can be run, {broken} that cannot"
    );
}

#[test]
fn a_plan_for_another_problem_is_rejected() {
    let case = solved()
        .into_iter()
        .find(|case| case.plan.stages.len() > 1)
        .expect("a plan of several stages");
    let mut settings = case.problem.settings.clone();
    settings.stages = case.plan.stages.len() - 1;
    let violations = check(&case.instance, &settings, &case.plan);
    assert!(
        violations
            .iter()
            .any(|v| matches!(v, Violation::StageCount { .. })),
        "{violations:?}"
    );
    let mut settings = case.problem.settings.clone();
    let needed = case
        .plan
        .stages
        .iter()
        .map(|stage| stage.memory_bytes)
        .max()
        .unwrap();
    if needed > 0 {
        settings.memory_limit = Some(needed - 1);
        let violations = check(&case.instance, &settings, &case.plan);
        assert!(
            violations
                .iter()
                .any(|v| matches!(v, Violation::Memory { over: 1, .. })),
            "{violations:?}"
        );
    }
}
