//! Laws across settings: an optimum is never worse than any plan of a problem that allows less.

use crate::common::{any_spec, ns, problem_of, rounding_ns};
use rayon::prelude::*;
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::heuristics::{self, Heuristic};
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::narrower;
use stagecut::options::{Communication, Cuts, MemoryLimit, Shares, WorkerMode};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::spec::InstanceSpec;

/// Draws, each with all its narrower problems.
const SEEDS: u64 = 600;

/// A way to allow less, or nothing where it does not apply.
type Narrow = fn(&InstanceSpec, &Problem) -> Option<InstanceSpec>;

fn changed(spec: &InstanceSpec, change: impl FnOnce(&mut InstanceSpec)) -> Option<InstanceSpec> {
    let mut spec = spec.clone();
    change(&mut spec);
    Some(spec)
}

fn with_shares(spec: &InstanceSpec, problem: &Problem, from: Shares, to: Shares) -> Option<InstanceSpec> {
    let settings = &problem.settings;
    let applies = settings.worker == WorkerMode::Concurrent && settings.shares == from;
    applies.then(|| changed(spec, |spec| spec.pipeline.shares = Some(to)))?
}

const NARROWER: &[(&str, Narrow)] = &[
    ("even shares", |spec, problem| {
        with_shares(spec, problem, Shares::Best, Shares::Even)
    }),
    ("the theorem's shares", |spec, problem| {
        with_shares(spec, problem, Shares::Best, Shares::Theorem)
    }),
    ("one share for all stages", |spec, problem| {
        with_shares(spec, problem, Shares::Best, Shares::Global)
    }),
    ("even shares, not any for all stages", |spec, problem| {
        with_shares(spec, problem, Shares::Global, Shares::Even)
    }),
    ("shares in parts", |spec, problem| {
        let settings = &problem.settings;
        let is_best = settings.worker == WorkerMode::Concurrent && settings.shares == Shares::Best;
        let is_any = is_best && settings.share_parts.is_none();
        is_any.then(|| changed(spec, |spec| spec.pipeline.share_parts = Some(3)))?
    }),
    ("tied cuts", |spec, problem| {
        let is_separate = problem.settings.cuts == Cuts::Separate;
        is_separate.then(|| changed(spec, |spec| spec.pipeline.cuts = Some(Cuts::Tied)))?
    }),
    ("fewer stages", |spec, problem| {
        let stages = problem.settings.stages;
        let is_most = stages > 1 && !problem.settings.all_stages;
        is_most.then(|| changed(spec, |spec| spec.pipeline.stages = Some(stages - 1)))?
    }),
    ("all stages", |spec, problem| {
        let is_free = !problem.settings.all_stages;
        is_free.then(|| changed(spec, |spec| spec.pipeline.all_stages = Some(true)))?
    }),
    ("fewer devices", |spec, _| {
        let groups = &spec.cluster.as_ref()?.groups;
        let count = spec.cluster.as_ref()?.device_kinds[0]
            .count
            .filter(|&count| count > 1 && groups.is_empty())?;
        changed(spec, |spec| {
            spec.cluster.as_mut().expect("a cluster").device_kinds[0].count = Some(count - 1);
        })
    }),
    ("fewer kinds of device", |spec, problem| {
        let kinds = &spec.cluster.as_ref()?.device_kinds;
        let used = &problem.settings.kinds;
        let names = used[..used.len() - 1]
            .iter()
            .map(|&kind| kinds[kind].name.clone())
            .collect();
        // One kind may be a problem of workers that are alike, where memory and transfers have other defaults.
        (used.len() > 2).then(|| changed(spec, |spec| spec.pipeline.device_kinds = Some(names)))?
    }),
    ("less memory", |spec, problem| {
        let limit = problem.settings.memory_limit.filter(|&limit| limit < u64::MAX);
        match (limit, &problem.workers) {
            (Some(limit), _) => changed(spec, |spec| {
                spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(limit * 2 / 3))
            }),
            (None, Some(_)) => changed(spec, |spec| {
                for kind in &mut spec.cluster.as_mut().expect("a cluster").device_kinds {
                    kind.memory_bytes = kind.memory_bytes.map(|bytes| (bytes * 2.0 / 3.0).floor());
                }
            }),
            (None, None) => changed(spec, |spec| {
                spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(40))
            }),
        }
    }),
    ("less bandwidth", |spec, problem| {
        let bytes_per_s = problem.settings.link.bandwidth_bytes_per_s / 3.0;
        changed(spec, |spec| {
            let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
            link.expect("a link").bandwidth_bytes_per_s = bytes_per_s;
        })
    }),
    ("transfers that overlap", |spec, problem| {
        let is_free = problem.settings.communication == Communication::Ignored;
        // Where no kind pays, transfers are ignored whatever is asked.
        is_free.then(|| {
            changed(spec, |spec| {
                spec.pipeline.communication = Some(Communication::Overlapped)
            })
        })?
    }),
];

fn run(method: Method, instance: &Instance, problem: &Problem) -> Plan {
    let plan = method
        .run(instance, problem, &Control::default())
        .expect("HiGHS works");
    assert_eq!(check(instance, &problem.settings, &plan), [], "{}", method.name());
    plan
}

#[test]
fn an_optimum_is_never_worse_than_a_plan_of_a_narrower_problem() {
    let exact = methods::find(methods::DEFAULT).expect("the default method");
    let compared: Vec<Vec<usize>> = (0..SEEDS)
        .into_par_iter()
        .filter_map(|seed| {
            let spec = any_spec(seed);
            let (instance, problem) = problem_of(&spec).filter(|(_, problem)| problem.items.len() <= 7)?;
            let best = run(exact, &instance, &problem);
            if !matches!(best.status, Status::Optimal | Status::Infeasible) {
                return None;
            }
            let rounding_ns = rounding_ns(&problem);
            let of = |(what, narrow): &(&str, Narrow)| {
                let Some((instance, narrower)) = narrow(&spec, &problem).as_ref().and_then(problem_of) else {
                    return 0;
                };
                let heuristic: &Heuristic = &heuristics::METHODS[seed as usize % heuristics::METHODS.len()];
                for method in [exact, Method::Heuristic(heuristic)] {
                    if method.applies(&narrower).is_ok() {
                        let theirs = ns(run(method, &instance, &narrower).objective_ms);
                        let ours = ns(best.objective_ms);
                        assert!(
                            ours <= theirs.saturating_add(rounding_ns),
                            "seed {seed}, {what}: {ours} ns, and `{}` finds {theirs} ns",
                            method.name()
                        );
                    }
                }
                1
            };
            Some(NARROWER.iter().map(of).collect())
        })
        .collect();
    let times: Vec<usize> = (0..NARROWER.len())
        .map(|law| compared.iter().map(|of_seed| of_seed[law]).sum())
        .collect();
    let named: Vec<(&str, usize)> = NARROWER.iter().map(|(what, _)| *what).zip(times).collect();
    assert!(named.iter().all(|&(_, times)| times > 5), "{named:?}");
}

/// What `--confirm` looks at finds nothing better than an optimum, and does find what is better than another plan.
#[test]
fn narrower_settings_beat_only_what_is_not_optimal() {
    let exact = methods::find(methods::DEFAULT).expect("the default method");
    let control = Control::default();
    let caught: usize = (0..SEEDS / 2)
        .into_par_iter()
        .filter_map(|seed| {
            let (instance, problem) =
                problem_of(&any_spec(seed)).filter(|(_, problem)| problem.items.len() <= 7)?;
            let mut plan = run(exact, &instance, &problem);
            if plan.status != Status::Optimal {
                return None;
            }
            let beaten =
                |plan: &Plan| narrower::beaten(&instance, &problem, plan, &control).expect("HiGHS works");
            assert_eq!(beaten(&plan), None, "seed {seed}");
            plan.objective_ms = plan.objective_ms.map(|ms| 100.0 * ms);
            Some(usize::from(beaten(&plan).is_some()))
        })
        .sum();
    assert!(caught > 30, "{caught}");
}
