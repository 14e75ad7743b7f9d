//! Runs of plans whose stages have replicas: each is a device of its own that takes every so-manieth micro-batch.

use std::collections::BTreeMap;

use crate::common::by_hand;
use crate::common::command::Folder;
use crate::oracles::replicas::{Stage, makespan, run};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::options::Schedule;
use stagecut::plan::{Plan, PlanMode, PlanStage};
use stagecut::simulate::{Activity, Phase, Request, Trace, simulate};

/// A plan of such stages: times of a plan are a replica's over the replicas. Whole ns.
fn plan(stages: &[Stage]) -> Plan {
    let mut first = 0;
    let mut stage = |(k, of): (usize, &Stage)| {
        let ms = |ns: u64| ns as f64 / of.replicas as f64 * 1e-6;
        let devices = first..first + of.replicas;
        first = devices.end;
        PlanStage {
            devices: devices.map(|device| format!("gpu:{}", device + 1)).collect(),
            mode: Some(PlanMode {
                tensor: 1,
                expert: 1,
                context: 1,
                group: 1,
                replicas: of.replicas,
                recomputed: BTreeMap::new(),
                optimizer_offload: false,
                host_bytes: 0,
            }),
            ..by_hand::stage(k, ms(of.forward), ms(of.backward))
        }
    };
    by_hand::plan(stages.iter().enumerate().map(&mut stage).collect())
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

fn drawn(rng: &mut ChaCha8Rng) -> Vec<Stage> {
    let stages = rng.random_range(1..=5);
    let mut stage = |_| Stage {
        forward: rng.random_range(1..=20),
        backward: rng.random_range(1..=20),
        replicas: rng.random_range(1..=4),
    };
    (0..stages).map(&mut stage).collect()
}

#[test]
fn a_micro_batch_takes_as_long_as_a_replica_takes() {
    let two = plan(&[Stage {
        forward: 200,
        backward: 372,
        replicas: 2,
    }]);
    assert_eq!(ns(by_hand::run(&two, Schedule::OneFOneB, 1).iteration_ms), 572);
    // Two at once, then the third alone.
    let three = by_hand::run(&two, Schedule::OneFOneB, 3);
    assert_eq!(ns(three.iteration_ms), 2 * 572);
    let busy: Vec<u64> = three.resources.iter().map(|lane| ns(lane.busy_ms)).collect();
    assert_eq!(busy, [2 * 572, 572]);
    assert_eq!((three.bubble_share, three.least_period_ms), (0.25, 286e-6));
}

/// The end of the iteration and every pass, by an oracle that knows lists alone.
#[test]
fn runs_are_those_of_the_oracle() {
    let mut rng = ChaCha8Rng::seed_from_u64(39);
    let mut replicated = 0;
    for case in 0..3000 {
        let stages = drawn(&mut rng);
        let micro_batches = rng.random_range(1..=24);
        let plan = plan(&stages);
        for (order, gpipe) in [(Schedule::OneFOneB, false), (Schedule::Gpipe, true)] {
            let expected = run(&stages, micro_batches, gpipe).expect("no replica waits for itself");
            let found = by_hand::run(&plan, order, micro_batches as u64);
            let context = format!("case {case}, {order}, {micro_batches} of {stages:?}");
            assert_eq!(ns(found.iteration_ms), makespan(&expected), "{context}");
            for event in &found.events {
                assert_eq!(event.activity, Activity::Compute);
                let passes = &expected[event.stage - 1][usize::from(event.phase == Phase::Backward)];
                let own = passes[event.micro_batch - 1];
                assert_eq!(
                    (ns(event.start_ms), ns(event.end_ms)),
                    own,
                    "{context}: {event:?}"
                );
                let replicas = stages[event.stage - 1].replicas;
                assert_eq!(event.replica, (event.micro_batch - 1) % replicas + 1, "{context}");
            }
            let within = |stage: &stagecut::simulate::StageInFlight| {
                stage.most_in_flight <= stage.standard_in_flight.expect("it trains")
            };
            assert!(found.stages.iter().all(within), "{context}");
        }
        replicated += usize::from(stages.iter().any(|stage| stage.replicas > 1));
    }
    assert!(replicated > 2000, "{replicated}");
}

/// The period that a short run states is what a long one takes, by the oracle.
#[test]
fn periods_are_those_of_long_runs() {
    /// Micro-batches until a run is periodic, and a number that many cycles divide.
    const SETTLED: usize = 600;
    const CYCLES: usize = 2520;
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let (mut longer, mut cases) = (0, 0);
    for case in 0..300 {
        let stages = drawn(&mut rng);
        let found = by_hand::run(&plan(&stages), Schedule::OneFOneB, 60);
        let long = run(&stages, 2 * SETTLED + CYCLES, false).expect("no replica waits for itself");
        let left = &long[0][1];
        let expected = (left[SETTLED + CYCLES].1 - left[SETTLED].1) as f64 / CYCLES as f64;
        let period = found.period_ms.expect("60 are enough") * 1e6;
        assert!(found.period_is_exact);
        assert!(
            (period - expected).abs() < 1e-6,
            "case {case}: {period}, {expected} of {stages:?}"
        );
        assert!(period >= found.least_period_ms * 1e6 - 1e-6, "case {case}");
        longer += usize::from(period > found.least_period_ms * 1e6 + 1e-6);
        cases += 1;
    }
    // Where replicas do not divide those behind, orders can be slower than what is busiest.
    assert!(longer > 0 && longer < cases / 2, "{longer} of {cases}");
}

#[test]
fn a_trace_slows_down_the_replica_that_it_names() {
    let stages = [Stage {
        forward: 1_000_000,
        backward: 1_000_000,
        replicas: 2,
    }];
    let plan = plan(&stages);
    let folder = Folder::with("trace.csv", "time_ms,device,multiplier\n0,gpu:2,3\n");
    let trace = Trace::read(&folder.path("trace.csv"), &plan).expect("the trace is valid");
    let request = Request {
        micro_batches: Some(8),
        trace,
        ..Request::default()
    };
    let slow = simulate(&plan, &request).expect("the plan can be run");
    let busy: Vec<f64> = slow.resources.iter().map(|lane| lane.busy_ms).collect();
    assert_eq!(busy, [8.0, 24.0]);
    assert_eq!((slow.iteration_ms, slow.period_is_exact), (24.0, false));
}

#[test]
fn replicas_that_devices_cannot_be_shared_out_to_are_refused() {
    let mut broken = plan(&[Stage {
        forward: 1,
        backward: 1,
        replicas: 3,
    }]);
    broken.stages[0].devices.pop();
    let error = simulate(&broken, &Request::default()).expect_err("two devices are no three replicas");
    let message = format!("{error:?}");
    assert!(message.contains("3 replicas on 2 devices"), "{message}");
}
