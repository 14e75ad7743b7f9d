//! PipeDream's programs: by hand, against a search of their own objective, and what they are worth by ours.

use crate::common::mixed::mixed_spec;
use crate::common::{problem_of, random_problem, separate_problem};
use crate::oracles::{allocations, brute_force};
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::exact::labelled_ideals;
use stagecut::heuristics::antichains::Laid;
use stagecut::heuristics::{find, pipedream, pipedream_replicated};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, Groups, Objective, PipelineOptions, Synchronization};
use stagecut::plan::Status;
use stagecut::problem::{Assignment, Problem};
use stagecut::spec::{ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};
use stagecut::units::transfer_ns;
use stagecut::workers::Workers;

const MS: u64 = 1_000_000;

/// A network of layers that take so long, a quarter of it forward, with tensors that take so long each way.
fn network(layers_ms: &[f64], tensors: &[(usize, &[usize], f64)], pipeline: PipelineOptions) -> InstanceSpec {
    let layer = |(i, &ms): (usize, &f64)| LayerSpec {
        id: i.to_string(),
        forward_ms: Some(0.25 * ms),
        backward_ms: Some(0.75 * ms),
        ..LayerSpec::default()
    };
    let tensor = |&(from, to, ms): &(usize, &[usize], f64)| TensorSpec {
        producer: from.to_string(),
        consumers: to.iter().map(usize::to_string).collect(),
        transfer_ms: Some(ms),
        ..TensorSpec::default()
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: layers_ms.iter().enumerate().map(layer).collect(),
            tensors: tensors.iter().map(tensor).collect(),
            ..NetworkSpec::default()
        },
        pipeline,
        ..InstanceSpec::default()
    }
}

fn stages(count: usize) -> PipelineOptions {
    PipelineOptions {
        stages: Some(count),
        ..PipelineOptions::default()
    }
}

/// The plan that `method` reports, after the checker has seen it.
fn checked_ns(method: &str, instance: &Instance, problem: &Problem) -> Option<u64> {
    let method = methods::find(method).expect("a method");
    let plan = method
        .run(instance, problem, &Control::default())
        .expect("no solver is asked");
    assert_eq!(check(instance, &problem.settings, &plan), [], "{}", instance.name);
    let ticks_per_ns = problem.settings.ticks_per_ns;
    plan.objective_ms
        .map(|ms| (ms * 1e6).round() as u64 * ticks_per_ns)
}

#[test]
fn a_chain_by_hand() {
    // 4 4 4 4 ms of work; tensors of 1, 5 and 1 ms, so links of 2, 10 and 2 ms.
    //   Two stages: cut after the first max(4, 2, 12) = 12, the second max(8, 10, 8) = 10, the third max(12, 2, 4) = 12.
    //   PipeDream takes the second: 10. With blocking transfers it costs 8 + 10 = 18, the others 12 + 2 = 14.
    //   Three stages: 4 | 4 4 | 4 with links of 2 is 8; both other ways have the link of 10. It costs 2 + 8 + 2 = 12.
    let chain: [(usize, &[usize], f64); 3] = [(0, &[1], 1.0), (1, &[2], 5.0), (2, &[3], 1.0)];
    for (count, own_ms, blocking_ms, best_ms, assignment) in
        [(2, 10, 18, 14, [0, 0, 1, 1]), (3, 8, 12, 12, [0, 1, 1, 2])]
    {
        let (instance, problem) = problem_of(&network(&[4.0; 4], &chain, stages(count))).unwrap();
        let laid = pipedream::lay(&problem, &|| false).unwrap();
        assert_eq!(laid.objective_ns, own_ms * MS);
        assert_eq!(laid.assignment, assignment);
        assert_eq!(
            checked_ns("pipedream", &instance, &problem),
            Some(blocking_ms * MS)
        );
        assert_eq!(brute_force::solve(&problem).unwrap().unwrap().1, best_ms * MS);
    }
    // Ties: 6 ms on one stage and 2 ms on the other are 6 whether the free last layer lies alone or not.
    let free: [(usize, &[usize], f64); 2] = [(0, &[1], 0.0), (1, &[2], 0.0)];
    let (_, problem) = problem_of(&network(&[6.0, 2.0, 0.0], &free, stages(3))).unwrap();
    let used = |laid: Laid| laid.devices.len();
    assert_eq!(pipedream::lay(&problem, &|| false).map(used), Some(2));
}

#[test]
fn a_diamond_by_hand() {
    // Work 2, 3, 3, 2; one tensor of 1 ms from the first to both branches, 2 ms and 1 ms from them to the last. The states:
    //   {0}       link 2          2 | 8  gives 8
    //   {0, 1}    link 2 + 4 = 6  5 | 5  gives 6
    //   {0, 2}    link 2 + 2 = 4  5 | 5  gives 5
    //   {0, 1, 2} link 4 + 2 = 6  8 | 2  gives 8
    let tensors: [(usize, &[usize], f64); 3] = [(0, &[1, 2], 1.0), (1, &[3], 2.0), (2, &[3], 1.0)];
    let (instance, problem) = problem_of(&network(&[2.0, 3.0, 3.0, 2.0], &tensors, stages(2))).unwrap();
    let laid = pipedream::lay(&problem, &|| false).unwrap();
    let stage_of = |layer: usize| {
        let item = problem.items.iter().position(|item| item.layers == [layer]);
        laid.assignment[item.unwrap()]
    };
    assert_eq!(
        (laid.objective_ns, [0, 1, 2, 3].map(stage_of)),
        (5 * MS, [0, 1, 0, 1])
    );
    // Both sides pay 4 ms on top of 5.
    assert_eq!(checked_ns("pipedream", &instance, &problem), Some(9 * MS));
}

/// Work 9, 1, 2 on four equal devices in two groups; tensors of 0.5 ms each way; so many bytes of parameters in the first two
/// layers, at a million bytes a millisecond.
fn replicated(parameter_bytes: [f64; 2]) -> (Instance, Problem) {
    let chain: [(usize, &[usize], f64); 2] = [(0, &[1], 0.5), (1, &[2], 0.5)];
    let options = PipelineOptions {
        all_stages: Some(true),
        groups: Some(Groups::Assign),
        synchronization: Some(Synchronization::Ring),
        communication: Some(Communication::Overlapped),
        ..stages(2)
    };
    let mut spec = network(&[9.0, 1.0, 2.0], &chain, options);
    for (layer, bytes) in spec.network.layers.iter_mut().zip(parameter_bytes) {
        layer.parameter_bytes = bytes;
    }
    spec.cluster = Some(ClusterSpec {
        device_kinds: vec![DeviceKindSpec {
            name: "gpu".into(),
            count: Some(4),
            ..DeviceKindSpec::default()
        }],
        link: Some(crate::common::link()),
        ..ClusterSpec::default()
    });
    problem_of(&spec).unwrap()
}

#[test]
fn replicated_stages_by_hand() {
    // Without parameters: 9 | 1 2 on three devices and one is max(3, 3, link 1) = 3; 9 1 | 2 on three and one 10 / 3.
    let (instance, problem) = replicated([0.0, 0.0]);
    let laid = pipedream_replicated::lay(&problem, problem.workers.as_ref().unwrap(), &|| false).unwrap();
    assert_eq!((laid.objective_ns, laid.devices), (3 * MS, vec![3, 1]));
    assert_eq!(laid.assignment, [0, 1, 1]);
    assert_eq!(
        checked_ns("pipedream-replicated", &instance, &problem),
        Some(3 * MS)
    );

    // Six and one ms of parameters: a ring of m devices takes 2 (m - 1) / m of it.
    //   9 | 1 2   alone 9, on two max(4.5, 6) = 6, on three max(3, 8) = 8; the second stage 3 alone, max(1.5, 1) on two.
    //   9 1 | 2   alone 10, on two max(5, 7) = 7, on three 28 / 3.
    // So 6, on two devices and one or two: it leaves none idle. We add the gradient of the cut tensor to the ring on the link.
    let (instance, problem) = replicated([6e6, 1e6]);
    let laid = pipedream_replicated::lay(&problem, problem.workers.as_ref().unwrap(), &|| false).unwrap();
    assert_eq!((laid.objective_ns, laid.devices), (6 * MS, vec![2, 2]));
    assert_eq!(laid.assignment, [0, 1, 1]);
    assert_eq!(
        checked_ns("pipedream-replicated", &instance, &problem),
        Some(13 * MS / 2)
    );
}

/// PipeDream's bottleneck of a plan without empty stages, where stage k takes `stage_ns(k)`: a second definition, by tensors
/// and the stages they span.
fn bottleneck_ns(
    problem: &Problem,
    assignment: &Assignment,
    used: usize,
    stage_ns: impl Fn(usize) -> u64,
) -> u64 {
    let mut links = vec![0; used - 1];
    for transfer in &problem.transfers {
        let ends = || transfer.items().map(|item| assignment[item]);
        for link in &mut links[ends().min().unwrap()..ends().max().unwrap()] {
            *link += transfer.forward_ns + transfer.backward_ns + transfer.gradient_ns;
        }
    }
    let stages = (0..used).map(stage_ns);
    stages.chain(links).max().unwrap()
}

/// All assignments of the items to stages, without empty ones in between.
fn assignments(problem: &Problem) -> impl Iterator<Item = (Assignment, usize)> {
    let (items, stages) = (problem.items.len(), problem.stages());
    (0..stages.pow(items as u32)).filter_map(move |mut code| {
        let assignment: Assignment = (0..items)
            .map(|_| {
                let stage = code % stages;
                code /= stages;
                stage
            })
            .collect();
        let (compact, used) = cost::without_empty_stages(&assignment);
        (compact == assignment).then_some((assignment, used))
    })
}

fn sum(problem: &Problem, assignment: &Assignment, stage: usize, of: fn(&Problem, usize) -> u64) -> u64 {
    let members = (0..assignment.len()).filter(|&item| assignment[item] == stage);
    members.map(|item| of(problem, item)).sum()
}

fn own_ns(problem: &Problem, assignment: &Assignment, used: usize) -> u64 {
    bottleneck_ns(problem, assignment, used, |stage| {
        sum(problem, assignment, stage, |problem, item| {
            problem.items[item].work_ns()
        })
    })
}

/// The least bottleneck of any plan with tied cuts, and the fewest stages that have it.
fn least(problem: &Problem) -> Option<(u64, usize)> {
    assignments(problem)
        .filter(|(plan, _)| problem.ties.iter().all(|&(a, b)| plan[a] == plan[b]))
        .filter(|(plan, _)| cost::is_feasible(problem, plan))
        .map(|(plan, used)| (own_ns(problem, &plan, used), used))
        .min()
}

#[test]
fn no_plan_has_a_smaller_bottleneck() {
    let tied = (0..2_000).filter_map(random_problem);
    let separate = (0..1_000).filter_map(separate_problem);
    let (mut compared, mut apart, mut none) = (0, 0, 0);
    for (instance, problem) in tied.chain(separate) {
        if problem.stages().pow(problem.items.len() as u32) > 70_000 {
            continue;
        }
        let name = &instance.name;
        let laid = pipedream::lay(&problem, &|| false);
        let own = laid.as_ref().map(|laid| (laid.objective_ns, laid.devices.len()));
        assert_eq!(own, least(&problem), "{name}");
        let best = brute_force::solve(&problem).unwrap().map(|(_, ns)| ns);
        let costed = checked_ns("pipedream", &instance, &problem);
        assert_eq!(costed.is_some(), laid.is_some(), "{name}");
        if let Some(laid) = &laid {
            assert!(cost::is_feasible(&problem, &laid.assignment), "{name}");
            let used = laid.devices.len();
            assert_eq!(
                own_ns(&problem, &laid.assignment, used),
                laid.objective_ns,
                "{name}"
            );
            assert_eq!(
                costed,
                Some(cost::assignment_ns(&problem, &laid.assignment)),
                "{name}"
            );
            assert!(best.is_some() && costed >= best, "{name}");
        }
        compared += 1;
        apart += usize::from(problem.settings.cuts == Cuts::Separate);
        none += usize::from(laid.is_none());
    }
    assert!(
        compared > 1_500 && apart > 500 && none > 50,
        "{compared} {apart} {none}"
    );
}

#[test]
fn a_bottleneck_is_worth_what_its_page_says() {
    let (mut exact, mut blocking, mut overlapped, mut chains) = (0, 0, 0, 0);
    for seed in 0..6_000 {
        let Some((instance, problem)) = random_problem(seed) else {
            continue;
        };
        let Some(laid) = pipedream::lay(&problem, &|| false) else {
            continue;
        };
        if problem.settings.objective != Objective::Period {
            continue;
        }
        let (own_ns, period_ns) = (laid.objective_ns, cost::assignment_ns(&problem, &laid.assignment));
        let solution = labelled_ideals::solve(&problem, labelled_ideals::DEFAULT_CAP, &|| false).unwrap();
        let best_ns = solution.best.unwrap().1;
        let between_neighbours = problem.transfers.iter().all(|t| t.consumers == [t.producer + 1]);
        let is_explicit = instance.network.has_explicit_backward();
        let is_chain = crate::common::is_chain(&problem) && between_neighbours && !is_explicit;
        let factor = match problem.settings.communication {
            Communication::Ignored => {
                exact += 1;
                assert_eq!((period_ns, own_ns), (best_ns, best_ns), "seed {seed}");
                continue;
            }
            Communication::Blocking => {
                blocking += 1;
                assert!(period_ns <= 3 * own_ns, "seed {seed}");
                assert!(!is_chain || own_ns <= period_ns, "seed {seed}");
                3
            }
            Communication::Overlapped => {
                overlapped += 1;
                assert!(is_explicit || period_ns <= own_ns, "seed {seed}");
                assert!(!is_chain || own_ns <= 2 * period_ns, "seed {seed}");
                2
            }
            other => unreachable!("{other}"),
        };
        if is_chain {
            chains += 1;
            assert!(period_ns <= factor * best_ns, "seed {seed}");
        }
    }
    assert!(
        exact > 300 && blocking > 300 && overlapped > 300 && chains > 100,
        "{exact} {blocking} {overlapped} {chains}"
    );
}

/// A problem of one to four equal devices that form groups, taking turns.
fn equal_devices(seed: u64) -> Option<(Instance, Problem)> {
    let mut spec = mixed_spec(seed);
    let cluster = spec.cluster.as_mut()?;
    cluster.device_kinds.truncate(1);
    cluster.groups.clear();
    let kind = &mut cluster.device_kinds[0];
    kind.count = Some(1 + (seed % 4) as usize);
    kind.resources
        .iter_mut()
        .for_each(|resource| resource.levels.clear());
    let mut layers = spec.network.layers.iter_mut();
    if layers.any(|layer| !layer.times.is_empty()) {
        return None;
    }
    let options = &spec.pipeline;
    spec.pipeline = PipelineOptions {
        mode: options.mode,
        stages: options.stages,
        all_stages: Some(seed.is_multiple_of(2)),
        objective: Some(Objective::Period),
        micro_batches: options.micro_batches,
        communication: options.communication,
        groups: Some(Groups::Assign),
        synchronization: (!seed.is_multiple_of(5)).then_some(Synchronization::Ring),
        ..PipelineOptions::default()
    };
    problem_of(&spec)
}

/// What a stage on m devices takes by PipeDream's count.
fn replicated_ns(problem: &Problem, workers: &Workers, plan: &Assignment, stage: usize, m: usize) -> u64 {
    let of = |of: fn(&Problem, usize) -> u64| sum(problem, plan, stage, of);
    let rates = |of: fn(&stagecut::cluster::Resource) -> f64| -> f64 {
        workers.classes[0].resources.iter().map(of).sum()
    };
    let forward_ns = of(|problem, item| problem.items[item].forward_ns) as f64;
    let backward_ns = of(|problem, item| problem.items[item].backward_ns) as f64;
    let alone_ns = forward_ns / rates(|r| r.forward_rate) + backward_ns / rates(|r| r.backward_rate);
    let settings = &problem.settings;
    let bytes = of(|problem, item| problem.items[item].parameter_bytes);
    let (m, link) = (m as u64, settings.link);
    let part_ns = transfer_ns(bytes.div_ceil(m), link.bandwidth_bytes_per_s, link.latency_ns);
    let is_free = settings.synchronization == Synchronization::None
        || settings.communication == Communication::Ignored
        || settings.mode == stagecut::options::Mode::Inference;
    let ring_ns = match is_free {
        true => 0,
        false => {
            let all = 2 * (m - 1) * part_ns * settings.ticks_per_ns;
            all.div_ceil(settings.micro_batches.unwrap_or(1))
        }
    };
    ring_ns.max((alone_ns / m as f64).round() as u64)
}

/// All ways to give each of so many stages some of the devices.
fn shares(stages: usize, devices: usize) -> Vec<Vec<usize>> {
    if stages == 0 {
        return vec![Vec::new()];
    }
    let first = 1..=devices.saturating_sub(stages - 1);
    let longer = |first: usize| {
        let rest = shares(stages - 1, devices - first);
        rest.into_iter().map(move |rest| [vec![first], rest].concat())
    };
    first.flat_map(longer).collect()
}

#[test]
fn no_replicated_plan_has_a_smaller_bottleneck() {
    let (mut compared, mut pooled, mut rings, mut exact) = (0, 0, 0, 0);
    for seed in 0..3_000 {
        let Some((instance, problem)) = equal_devices(seed) else {
            continue;
        };
        let workers = problem.workers.as_ref().unwrap();
        let mut least_ns = None;
        for (plan, used) in assignments(&problem) {
            let must_use = problem.settings.all_stages;
            if must_use && used < problem.stages() || !cost::keeps_order(&problem, &plan) {
                continue;
            }
            let held = cost::stage_memory_bytes(&problem, &plan, used);
            if held.iter().max() > Some(&workers.classes[0].memory_bytes) {
                continue;
            }
            for devices in shares(used, workers.inventory[0]) {
                let own_ns = bottleneck_ns(&problem, &plan, used, |stage| {
                    replicated_ns(&problem, workers, &plan, stage, devices[stage])
                });
                least_ns = Some(least_ns.map_or(own_ns, |least: u64| least.min(own_ns)));
            }
        }
        let laid = pipedream_replicated::lay(&problem, workers, &|| false);
        assert_eq!(
            laid.as_ref().map(|laid| laid.objective_ns),
            least_ns,
            "seed {seed}"
        );
        let costed = checked_ns("pipedream-replicated", &instance, &problem);
        let best = allocations::solve(&problem, workers).unwrap().map(|(_, ns)| ns);
        assert_eq!(costed.is_some(), best.is_some(), "seed {seed}");
        assert!(costed >= best, "seed {seed}");
        if problem.settings.communication == Communication::Ignored {
            exact += 1;
            // Speeds are added up in another order, which may round to either side.
            assert!(
                costed.unwrap_or(0).abs_diff(best.unwrap_or(0)) <= problem.settings.ticks_per_ns,
                "seed {seed}"
            );
        }
        compared += 1;
        let devices = laid.map_or(Vec::new(), |laid| laid.devices);
        pooled += usize::from(devices.iter().any(|&devices| devices > 1));
        rings += usize::from(least_ns.is_some() && problem.settings.synchronization == Synchronization::Ring);
    }
    assert!(
        compared > 500 && pooled > 200 && rings > 300 && exact > 100,
        "{compared} {pooled} {rings} {exact}"
    );
}

#[test]
fn what_it_cannot_do_it_refuses() {
    // Twenty layers side by side have a million states.
    let (instance, problem) = problem_of(&network(&[1.0; 20], &[], stages(2))).unwrap();
    let reason = Err("it has more than 10,000 antichain states".into());
    let straight = find("pipedream").unwrap();
    assert_eq!(straight.applies(&problem), reason);
    assert_eq!(straight.plan(&problem, 0, &|| false), None);
    let (_, chosen) = replicated([0.0, 0.0]);
    let replicated = find("pipedream-replicated").unwrap();
    assert!(replicated.applies(&problem).is_err());
    assert_eq!(replicated.applies(&chosen), Ok(()));
    assert!(straight.applies(&chosen).is_err());
    // A method that is not asked proves nothing.
    let plan = methods::find("pipedream")
        .unwrap()
        .run(&instance, &problem, &Control::default());
    assert_eq!(plan.unwrap().status, Status::Unknown);
    let reasons: Vec<_> = (0..500)
        .filter_map(crate::common::mixed::random_mixed)
        .filter_map(|(_, problem)| replicated.applies(&problem).err())
        .collect();
    for word in ["given", "several kinds", "both phases"] {
        assert!(
            reasons.iter().any(|reason| reason.to_string().contains(word)),
            "{word}"
        );
    }
}
