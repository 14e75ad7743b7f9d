//! Simulated runs against times worked by hand, formulas, and the objectives of plans.

use std::collections::HashMap;

use crate::common::by_hand::{self, run};
use crate::common::command::Folder;
use crate::common::modal::random_modal_links;
use crate::common::{problem_of, random_spec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::methods;
use stagecut::options::{
    Communication, MemoryLimit, Mode, NoLimit, Objective, PipelineOptions, Schedule, Shares, WorkerMode,
};
use stagecut::plan::{Moved, Plan, PlanStage, Transfers};
use stagecut::simulate::{Activity, InFlight, Jitter, Phase, Request, Resource, Simulation, simulate};

/// Forward and backward ms of every stage.
type Times<'a> = &'a [(f64, f64)];

/// A plan of stages that move nothing.
fn plan(times: Times) -> Plan {
    let stages = times.iter().enumerate();
    by_hand::plan(
        stages
            .map(|(k, &(forward_ms, backward_ms))| by_hand::stage(k, forward_ms, backward_ms))
            .collect(),
    )
}

fn iteration_ms(times: Times, order: Schedule, micro_batches: u64) -> f64 {
    run(&plan(times), order, micro_batches).iteration_ms
}

#[test]
fn gpipe_by_hand() {
    // Two equal stages, M = 2. Forward: stage 1 0-1, 1-2; stage 2 1-2, 2-3. Backward: stage 2 3-5, 5-7; stage 1 5-7, 7-9.
    assert_eq!(iteration_ms(&[(1.0, 2.0), (1.0, 2.0)], Schedule::Gpipe, 2), 9.0);
    // Forward: stage 1 0-1, 1-2; stage 2 1-4, 4-7. Backward: stage 2 7-8, 8-9; stage 1 8-10, 10-12.
    assert_eq!(iteration_ms(&[(1.0, 2.0), (3.0, 1.0)], Schedule::Gpipe, 2), 12.0);
    // Forward: 0-2, 2-4, 4-6; 2-3, 4-5, 6-7; 3-4, 5-6, 7-8. Backward: 8-9, 9-10, 10-11; 9-12, 12-15, 15-18; 12-13, 15-16,
    // 18-19.
    let three = [(2.0, 1.0), (1.0, 3.0), (1.0, 1.0)];
    assert_eq!(iteration_ms(&three, Schedule::Gpipe, 3), 19.0);
    // One stage, M = 3: 0-2, 2-4, 4-6; 6-9, 9-12, 12-15.
    assert_eq!(iteration_ms(&[(2.0, 3.0)], Schedule::Gpipe, 3), 15.0);
}

#[test]
fn one_forward_one_backward_by_hand() {
    // Two equal stages, M = 3. Stage 1: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12. Stage 2: F 1-2, B 2-4, F 4-5, B 5-7,
    // F 7-8, B 8-10.
    assert_eq!(
        iteration_ms(&[(1.0, 2.0), (1.0, 2.0)], Schedule::OneFOneB, 3),
        12.0
    );
    // Three equal stages: (M + q - 1) (F + B).
    assert_eq!(iteration_ms(&[(1.0, 1.0); 3], Schedule::OneFOneB, 3), 10.0);
    // Stage 2 works while stage 1 does: stage 1 F 0-10, F 10-20, B 20-30, F 30-40, B 40-50, B 50-60; the formula says 68.
    let hidden = run(&plan(&[(10.0, 10.0), (4.0, 4.0)]), Schedule::OneFOneB, 3);
    assert_eq!(
        (hidden.iteration_ms, hidden.formula_iteration_ms),
        (60.0, Some(68.0))
    );
    // Stage 1 only goes forward, stage 2 only backward. Stage 2 takes its second forward at 20 before its first backward:
    // B 20-30, 30-40, 40-50, 50-60. The formula says 50.
    let late = run(
        &plan(&[(10.0, 0.0), (0.0, 10.0), (0.0, 0.0)]),
        Schedule::OneFOneB,
        4,
    );
    assert_eq!((late.iteration_ms, late.formula_iteration_ms), (60.0, Some(50.0)));
    // Two stages, M = 1: there and back.
    assert_eq!(
        iteration_ms(&[(1.0, 2.0), (3.0, 4.0)], Schedule::OneFOneB, 1),
        10.0
    );
}

#[test]
fn iterations_keep_the_bounds_of_the_documentation() {
    let (mut shorter, mut longer) = (0, 0);
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (stages, micro_batches) = (rng.random_range(1..=5), rng.random_range(1..=12));
        let mut draw = || f64::from(rng.random_range(0..=9u8));
        let mut times: Vec<(f64, f64)> = (0..stages).map(|_| (draw(), draw())).collect();
        let check = |times: Times, order: Schedule| {
            let simulation = run(&plan(times), order, micro_batches);
            let formula = simulation.formula_iteration_ms.expect("these schedules flush");
            (simulation.iteration_ms, formula)
        };
        let (simulated, formula) = check(&times, Schedule::Gpipe);
        assert_eq!(simulated, formula, "gpipe, seed {seed}");

        let (simulated, formula) = check(&times, Schedule::OneFOneB);
        let load = |(f, b): &(f64, f64)| f + b;
        let sum: f64 = times.iter().map(load).sum();
        let busiest = times.iter().map(load).fold(0.0, f64::max);
        let again = (micro_batches - 1) as f64;
        assert!(simulated >= sum + again * load(&times[stages - 1]), "seed {seed}");
        let most = load(&times[0]) + (again + (stages - 1) as f64) * busiest;
        assert!(simulated <= most && formula <= most, "seed {seed}");
        assert!(
            (simulated - formula).abs() <= (stages - 1) as f64 * busiest,
            "seed {seed}"
        );
        shorter += usize::from(simulated < formula);
        longer += usize::from(simulated > formula);

        // The same load everywhere, split differently.
        times.iter_mut().for_each(|(f, b)| *b = 9.0 - *f);
        let (simulated, formula) = check(&times, Schedule::OneFOneB);
        assert_eq!(simulated, formula, "equal loads, seed {seed}");
    }
    assert!(shorter > 100 && longer > 0, "{shorter} shorter, {longer} longer");
}

/// A plan of a random problem that minimises the period, by slicing.
fn period_plan(seed: u64, schedule: Schedule, communication: Communication) -> Option<Plan> {
    let mut spec = random_spec(seed, seed.is_multiple_of(5));
    spec.pipeline = PipelineOptions {
        objective: Some(Objective::Period),
        schedule: Some(schedule),
        communication: Some(communication),
        memory_limit: Some(MemoryLimit::Unlimited(NoLimit::None)),
        micro_batches: None,
        ..spec.pipeline
    };
    let (instance, problem) = problem_of(&spec)?;
    let method = methods::find("slicing").expect("slicing is registered");
    let plan = method.run(&instance, &problem, &Control::default()).ok()?;
    plan.objective_ms.filter(|&ms| ms > 0.0).map(|_| plan)
}

/// Long enough for a run to become periodic.
const LONG: u64 = 300;

fn assert_period(simulation: &Simulation, expected_ms: f64, context: &str) {
    let period = simulation.period_ms.expect("the run is long enough");
    assert!(simulation.period_is_exact, "{context}: {period} on average");
    assert!(
        (period - expected_ms).abs() <= 1e-9 * expected_ms,
        "{context}: {period} ms simulated, {expected_ms} ms planned"
    );
}

/// The period of a long run is the plan's; unless transfers overlap, no stage has more in flight than the schedule is known for.
fn assert_steady(plan: &Plan, context: &str) {
    let request = Request {
        micro_batches: Some(LONG),
        ..Request::default()
    };
    let simulation = simulate(plan, &request).expect("the plan can be run");
    let objective_ms = plan.objective_ms.expect("there is a plan");
    assert_period(&simulation, objective_ms, context);
    if plan.problem.communication != Some(Communication::Overlapped) {
        let standard = |s: &stagecut::simulate::StageInFlight| {
            s.standard_in_flight.is_none_or(|most| s.most_in_flight <= most)
        };
        assert!(simulation.stages.iter().all(standard), "{context}");
    }
}

#[test]
fn the_steady_state_keeps_the_period_of_the_plan() {
    let mut cases = [[0; 3]; 2];
    for seed in 0..300 {
        for (c, communication) in [
            Communication::Blocking,
            Communication::Overlapped,
            Communication::Ignored,
        ]
        .into_iter()
        .enumerate()
        {
            for (s, schedule) in [Schedule::OneFOneB, Schedule::Pipedream].into_iter().enumerate() {
                let Some(plan) = period_plan(seed, schedule, communication) else {
                    continue;
                };
                assert_steady(&plan, &format!("seed {seed}, {communication}, {schedule}"));
                cases[s][c] += 1;
            }
        }
    }
    assert!(cases.iter().flatten().all(|&count| count > 150), "{cases:?}");
}

#[test]
fn concurrent_workers_keep_the_period_of_their_busiest_channel_or_link() {
    let mut cases = 0;
    for seed in 0..150 {
        for communication in [Communication::Overlapped, Communication::Ignored] {
            let Some(mut plan) = period_plan(seed, Schedule::OneFOneB, communication) else {
                continue;
            };
            if plan.problem.mode == Some(Mode::Inference) {
                continue;
            }
            let mut expected_ms = 0.0_f64;
            plan.problem.worker = Some(WorkerMode::Concurrent);
            for stage in &plan.stages {
                let busiest = stage
                    .forward_ms
                    .max(stage.backward_ms)
                    .max(stage.communication_ms);
                expected_ms = expected_ms.max(busiest);
            }
            let simulation = run(&plan, Schedule::Concurrent, LONG);
            assert_period(&simulation, expected_ms, &format!("seed {seed}, {communication}"));
            cases += 1;
        }
    }
    assert!(cases > 100, "{cases}");
}

/// Plans of the exact engine on mixed devices, in groups, on shares, with synchronisation.
#[test]
fn workers_that_differ_keep_the_period_of_their_plan() {
    let exact = methods::find("exact").expect("exact is registered");
    let mut cases = 0;
    for seed in 0..400 {
        let Some((instance, problem)) = crate::common::mixed::random_mixed(seed) else {
            continue;
        };
        let asks_for_a_period = problem.formula().is_bottleneck();
        if problem.settings.schedule == Schedule::Gpipe
            || problem.settings.shares == Shares::Global
            || !asks_for_a_period
        {
            continue;
        }
        let plan = exact
            .run(&instance, &problem, &Control::default())
            .expect("HiGHS works");
        let Some(objective_ms) = plan.objective_ms.filter(|&ms| ms > 0.0) else {
            continue;
        };
        let request = Request {
            micro_batches: Some(LONG),
            order: Some(problem.settings.schedule),
            in_flight: Some(InFlight::Hiding),
            ..Request::default()
        };
        let simulation = simulate(&plan, &request).expect("the plan can be run");
        if problem.settings.ticks_per_ns > 1 {
            // Parts of a ns are rounded: at most five times of a stage, and its sum for the plan.
            let period_ms = simulation.period_ms.expect("the run is long enough");
            assert!(
                (period_ms - objective_ms).abs() <= 6e-6,
                "seed {seed}: {period_ms}, {objective_ms}"
            );
        } else {
            assert_period(&simulation, objective_ms, &format!("seed {seed}"));
        }
        cases += 1;
    }
    assert!(cases > 150, "{cases}");
}

/// Plans of stages that choose tensor degree and replicas, on links of one level and two: replicas take turns, and what they exchange once
/// an iteration comes at its end, and is no part of the time between micro-batches. Their orders can be slower than that, never faster.
#[test]
fn stages_with_modes_keep_the_period_of_their_plan() {
    let exact = methods::find("exact").expect("exact is registered");
    let (mut cases, mut replicated, mut moved, mut slower) = (0, 0, 0, 0);
    for seed in 0..500 {
        let Some((instance, problem)) = problem_of(&random_modal_links(seed)) else {
            continue;
        };
        if problem.modes.is_none() || problem.settings.schedule == Schedule::Gpipe {
            continue;
        }
        let plan = exact
            .run(&instance, &problem, &Control::default())
            .expect("HiGHS works");
        if plan.stages.is_empty() {
            continue;
        }
        let micro_batches = problem.settings.micro_batches.unwrap_or(1) as f64;
        let between =
            |stage: &PlanStage| stage.load_ms - stage.synchronization_ms.unwrap_or(0.0) / micro_batches;
        let between_ms = plan.stages.iter().map(between).fold(0.0, f64::max);
        let simulation = run(&plan, problem.settings.schedule, LONG);
        let period_ms = simulation.period_ms.expect("the run is long enough");
        // Parts of a ns are rounded: six times of a stage.
        let least_ms = simulation.least_period_ms;
        assert!(
            simulation.period_is_exact && (least_ms - between_ms).abs() <= 7e-6 && period_ms >= least_ms,
            "seed {seed}: {period_ms} simulated, {least_ms} busy, {between_ms} planned"
        );
        let is_replicated = plan.stages.iter().any(|stage| stage.replicas() > 1);
        assert!(is_replicated || period_ms == least_ms, "seed {seed}: {period_ms}");
        cases += 1;
        replicated += usize::from(is_replicated);
        slower += usize::from(period_ms > least_ms + 6e-6);
        moved += usize::from(plan.stages.iter().any(|stage| stage.communication_ms > 0.0));
    }
    assert!(
        cases > 150 && replicated > 50 && moved > 50 && slower < replicated / 5,
        "{cases}, {replicated} with replicas, {moved} with transfers, {slower} slower"
    );
}

/// Two stages with a forward and a backward pass of 1 ms each and transfers of 1 ms either way.
fn slow_link() -> Plan {
    let mut plan = plan(&[(1.0, 1.0), (1.0, 1.0)]);
    plan.problem.communication = Some(Communication::Overlapped);
    let moved = |in_ms, out_ms| Moved { in_ms, out_ms };
    let transfers = [
        (moved(0.0, 1.0), moved(1.0, 0.0)),
        (moved(1.0, 0.0), moved(0.0, 1.0)),
    ];
    for (stage, (forward, backward)) in plan.stages.iter_mut().zip(transfers) {
        stage.communication_ms = 1.0;
        stage.transfers = Some(Transfers { forward, backward });
    }
    plan
}

#[test]
fn standard_numbers_in_flight_may_not_hide_a_transfer() {
    let period = |in_flight: InFlight| {
        let request = Request {
            micro_batches: Some(50),
            in_flight: Some(in_flight),
            ..Request::default()
        };
        let simulation = simulate(&slow_link(), &request).expect("the plan can be run");
        (simulation.period_ms, simulation.stages[0].most_in_flight)
    };
    assert_eq!(period(InFlight::Hiding), (Some(2.0), 3));
    assert_eq!(period(InFlight::Standard), (Some(3.0), 2));
}

/// A run of few micro-batches can repeat a difference that longer ones do not keep: two stages of 14 and 16 ms with a transfer of 2 ms
/// let micro-batches leave every 14 ms at first.
#[test]
fn a_period_is_exact_only_if_a_long_run_keeps_it() {
    let moved = |in_ms, out_ms| Moved { in_ms, out_ms };
    let mut early = plan(&[(14.0, 0.0), (15.0, 1.0)]);
    early.problem.communication = Some(Communication::Overlapped);
    early.stages[0].transfers = Some(Transfers {
        forward: moved(0.0, 2.0),
        backward: moved(2.0, 0.0),
    });
    early.stages[1].transfers = Some(Transfers {
        forward: moved(2.0, 0.0),
        backward: moved(0.0, 2.0),
    });
    let few = run(&early, Schedule::OneFOneB, 8);
    assert_eq!((few.period_ms, few.period_is_exact), (Some(16.0), true));

    let mut exact = 0;
    for seed in 0..400 {
        for in_flight in [InFlight::Hiding, InFlight::Standard] {
            let Some(plan) = period_plan(seed, Schedule::OneFOneB, Communication::Overlapped) else {
                continue;
            };
            let iteration = |micro_batches: u64| {
                let request = Request {
                    micro_batches: Some(micro_batches),
                    in_flight: Some(in_flight),
                    ..Request::default()
                };
                simulate(&plan, &request).expect("the plan can be run")
            };
            let few = iteration(ChaCha8Rng::seed_from_u64(seed).random_range(6..=16));
            let Some(period_ms) = few.period_ms.filter(|_| few.period_is_exact) else {
                continue;
            };
            // As many more micro-batches as many cycles divide.
            let again = (iteration(2760).iteration_ms - iteration(240).iteration_ms) / 2520.0;
            assert!(
                (again - period_ms).abs() <= 1e-8,
                "seed {seed}, {in_flight:?}: {period_ms}, {again}"
            );
            assert!(period_ms >= few.least_period_ms, "seed {seed}");
            exact += 1;
        }
    }
    assert!(exact > 200, "{exact}");
}

/// No two events of a resource overlap, and every micro-batch passes the stages in order.
#[test]
fn every_timeline_is_one_that_can_happen() {
    for seed in 0..60 {
        for communication in [Communication::Blocking, Communication::Overlapped] {
            let Some(plan) = period_plan(seed, Schedule::OneFOneB, communication) else {
                continue;
            };
            for order in [Schedule::OneFOneB, Schedule::Gpipe] {
                let request = Request {
                    order: Some(order),
                    micro_batches: Some(12),
                    jitter: Some(Jitter { fraction: 0.5, seed }),
                    ..Request::default()
                };
                can_happen(&simulate(&plan, &request).expect("the plan can be run"), seed);
            }
        }
    }
}

fn can_happen(simulation: &Simulation, seed: u64) {
    let mut last_end: HashMap<(usize, Resource), f64> = HashMap::new();
    let mut work: HashMap<(usize, Phase, usize), (f64, f64)> = HashMap::new();
    for event in &simulation.events {
        let free = last_end.insert((event.stage, event.resource), event.end_ms);
        assert!(free.unwrap_or(0.0) <= event.start_ms, "seed {seed}: {event:?}");
        if event.activity == Activity::Compute {
            work.insert(
                (event.stage, event.phase, event.micro_batch),
                (event.start_ms, event.end_ms),
            );
        }
    }
    for (&(stage, phase, micro_batch), &(start_ms, _)) in &work {
        let before = match phase {
            Phase::Forward => (stage.wrapping_sub(1), phase, micro_batch),
            Phase::Backward if stage == simulation.stages.len() => (stage, Phase::Forward, micro_batch),
            Phase::Backward => (stage + 1, phase, micro_batch),
            Phase::InputGradient | Phase::WeightGradient => panic!("whole backward passes"),
        };
        if let Some(&(_, end_ms)) = work.get(&before) {
            assert!(
                end_ms <= start_ms,
                "seed {seed}: {phase:?} of {micro_batch} on {stage}"
            );
        }
    }
}

#[test]
fn a_slow_device_sets_the_pace() {
    let folder = Folder::with(
        "trace.csv",
        "time_ms,device,multiplier\n0,gpu:2,3\n100,gpu:1,1.5\n",
    );
    let plan = plan(&[(1.0, 2.0), (1.0, 1.5), (1.0, 2.0)]);
    let trace =
        stagecut::simulate::Trace::read(&folder.path("trace.csv"), &plan).expect("the trace is valid");
    let request = Request {
        micro_batches: Some(100),
        trace,
        ..Request::default()
    };
    let slow = simulate(&plan, &request).expect("the plan can be run");
    // Three times 2.5 ms; stage 1 takes 4.5 ms from 100 ms on and still waits.
    assert_eq!((slow.period_ms, slow.period_is_exact), (Some(7.5), true));
    let utilisation: Vec<f64> = slow.resources.iter().map(|lane| lane.utilisation).collect();
    assert!(utilisation[1] > 0.95, "{utilisation:?}");
    assert!(utilisation[0] < 0.65 && utilisation[2] < 0.45, "{utilisation:?}");
    let plain = run(&plan, Schedule::OneFOneB, 100);
    assert_eq!(plain.period_ms, Some(3.0));
    assert!(plain.bubble_share < slow.bubble_share);
}

#[test]
fn a_task_takes_the_multiplier_that_holds_when_it_starts() {
    let folder = Folder::with("trace.csv", "time_ms,device,multiplier\n2,gpu:1,10\n5,gpu:1,1\n");
    let plan = plan(&[(3.0, 1.0)]);
    let trace =
        stagecut::simulate::Trace::read(&folder.path("trace.csv"), &plan).expect("the trace is valid");
    let request = Request {
        micro_batches: Some(2),
        trace,
        ..Request::default()
    };
    // F 0-3 at 1, B 3-13 at 10, F 13-16, B 16-17.
    let simulation = simulate(&plan, &request).expect("the plan can be run");
    assert_eq!(simulation.iteration_ms, 17.0);
}

#[test]
fn jitter_depends_on_the_task_alone() {
    let plan = plan(&[(1.0, 2.0), (1.5, 1.0)]);
    let lengths = |order: Schedule, seed: u64| {
        let request = Request {
            order: Some(order),
            micro_batches: Some(6),
            jitter: Some(Jitter { fraction: 0.3, seed }),
            ..Request::default()
        };
        let simulation = simulate(&plan, &request).expect("the plan can be run");
        let mut lengths: Vec<(usize, usize, Phase, i64)> = simulation
            .events
            .iter()
            .map(|e| {
                let ns = ((e.end_ms - e.start_ms) * 1e6).round() as i64;
                (e.stage, e.micro_batch, e.phase, ns)
            })
            .collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(Schedule::Gpipe, 5), lengths(Schedule::OneFOneB, 5));
    assert_ne!(lengths(Schedule::Gpipe, 5), lengths(Schedule::Gpipe, 6));
    for (stage, _, phase, ns) in lengths(Schedule::Gpipe, 5) {
        let stage = &plan.stages[stage - 1];
        let planned = match phase {
            Phase::Forward => stage.forward_ms,
            Phase::Backward => stage.backward_ms,
            Phase::InputGradient | Phase::WeightGradient => panic!("whole backward passes"),
        };
        assert!((ns as f64 * 1e-6 - planned).abs() <= 0.3 * planned + 1e-6);
    }
}

/// What plans say of their runs is what the simulator makes of them, whatever they were planned for, and the checker takes nothing else.
#[test]
fn plans_say_how_they_run() {
    let (mut told, mut with_bubbles) = (0, 0);
    for seed in 0..400 {
        let mut spec = random_spec(seed, seed % 3 == 0);
        spec.pipeline.micro_batches = Some(1 + seed % 9);
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let plan = stagecut::solve(&instance, &stagecut::Options::default()).expect("a plan or none");
        let flushes = problem.settings.schedule.flushes();
        assert_eq!(
            plan.run.is_some(),
            flushes && plan.objective_ms.is_some_and(|ms| ms > 0.0),
            "seed {seed}"
        );
        let Some(run) = plan.run else {
            continue;
        };
        told += 1;
        let simulation = simulate(&plan, &Request::default()).expect("a plan that can be run");
        assert_eq!(run.iteration_ms, simulation.iteration_ms, "seed {seed}");
        match simulation.period_ms {
            Some(period_ms) => assert_eq!(run.period_ms, period_ms, "seed {seed}"),
            // Too few micro-batches to be waited for.
            None => assert!(run.period_ms >= simulation.least_period_ms, "seed {seed}"),
        }
        let m = simulation.micro_batches as f64;
        assert!(
            (run.micro_batches_per_s - 1e3 * m / run.iteration_ms).abs() < 1e-6 * run.micro_batches_per_s
        );
        assert!((0.0..1.0).contains(&run.bubble_share), "seed {seed}");
        with_bubbles += u64::from(run.bubble_share > 0.0);
        if problem.settings.objective == Objective::Iteration {
            assert_eq!(Some(run.iteration_ms), plan.objective_ms, "seed {seed}");
        }
        let mut other = plan.clone();
        other.run.as_mut().expect("a run").iteration_ms += 1.0;
        assert!(
            !check(&instance, &problem.settings, &other).is_empty(),
            "seed {seed}"
        );
    }
    assert!(told > 100 && with_bubbles > 50, "{told} and {with_bubbles}");
}
