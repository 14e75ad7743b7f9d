//! Layouts that static policies keep: PipeDream's plan of devices of mean speed.

use crate::common::slots::{draw_chain, draw_slot};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use stagecut::hybrid::check::violations;
use stagecut::hybrid::exact::Front;
use stagecut::hybrid::plan::{Layout, Rule, plan_of};
use stagecut::hybrid::{Chain, Device, Reading, Slot};
use stagecut::online::pipedream::layout;

const READINGS: [Reading; 2] = [Reading::ParallelPipelines, Reading::PipelineOfGroups];

/// Whole nanoseconds of PipeDream's program against doubles: times are a few ms.
const ROUNDING: f64 = 1e-5;

fn device(i: usize, kind: usize) -> Device {
    Device {
        name: format!("gpu:{i}"),
        kind,
        slowdown: 1.0,
        bandwidth_bytes_per_ms: 10.0,
        memory_bytes: f64::INFINITY,
        prices: Vec::new(),
    }
}

fn slot(chain: &Chain, reading: Reading, devices: Vec<Device>) -> Slot<'_> {
    Slot {
        chain,
        reading,
        devices,
        backbone_bytes_per_ms: 10.0,
        latency_ms: 0.0,
        samples: 12,
        micro_batch: 1.0,
        whole: false,
        time_weight: 1.0,
        queues: Vec::new(),
    }
}

/// First layer, last layer and devices of each stage.
fn told(layout: &Layout) -> Vec<Vec<(usize, usize, Vec<usize>)>> {
    let stage = |stage: &stagecut::hybrid::plan::Stage| {
        (stage.layers.start, stage.layers.end - 1, stage.devices.clone())
    };
    layout
        .iter()
        .map(|stages| stages.iter().map(stage).collect())
        .collect()
}

/// A fast and a slow device look like two of 3 ms a layer. The gradients of the second layer are dear to reduce.
#[test]
fn two_devices_of_different_speed_by_hand() {
    let chain = Chain {
        work_ms: vec![vec![2.0, 2.0], vec![4.0, 4.0]],
        cut_bytes: vec![0.0, 1.0, 0.0],
        cut_messages: vec![0.0, 2.0, 0.0],
        parameter_bytes: vec![0.0, 10_000.0],
        state_bytes: vec![0.0; 2],
        stash_bytes: vec![0.0; 2],
    };
    let devices = vec![device(0, 0), device(1, 1)];
    for reading in READINGS {
        // Side by side a batch takes 36 ms, and the ring 1000.
        let slot = slot(&chain, reading, devices.clone());
        let expected = vec![vec![(0, 0, vec![0]), (1, 1, vec![1])]];
        assert_eq!(told(&layout(&slot, &[0, 1]).expect("a plan")), expected);
    }
    let light = Chain {
        parameter_bytes: vec![0.0; 2],
        cut_bytes: vec![0.0, 100.0, 0.0],
        ..chain
    };
    // Now links are what binds: 120 ms between stages, 36 ms side by side.
    let together = vec![vec![(0, 1, vec![0, 1])]];
    let apart = vec![vec![(0, 1, vec![0])], vec![(0, 1, vec![1])]];
    for (reading, expected) in READINGS.into_iter().zip([apart, together]) {
        let slot = slot(&light, reading, devices.clone());
        assert_eq!(told(&layout(&slot, &[0, 1]).expect("a plan")), expected);
    }
}

/// Where PipeDream's program is exact, so is its layout here.
#[test]
fn equal_devices_without_transfers_are_planned_best() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = draw_chain(&mut rng, 6);
        let chain = Chain {
            cut_bytes: vec![0.0; 7],
            cut_messages: vec![0.0; 7],
            parameter_bytes: vec![0.0; 6],
            ..drawn
        };
        let count = 2 + seed as usize % 4;
        let devices = (0..count).map(|i| device(i, 0)).collect();
        let slot = slot(&chain, Reading::PipelineOfGroups, devices);
        let all: Vec<usize> = (0..count).collect();
        let plan = plan_of(&slot, layout(&slot, &all).expect("a plan"), Rule::Even).expect("it fits");
        let front = Front::new(&slot).expect("few devices");
        let (_, least_ms) = front.points().last().expect("all devices");
        assert!(
            (plan.time_ms - least_ms).abs() <= ROUNDING * least_ms.max(1.0),
            "seed {seed}: {} is not {least_ms}",
            plan.time_ms
        );
    }
}

#[test]
fn layouts_of_mixed_devices_are_plans_and_no_better_than_the_best() {
    let mut planned = 0;
    for seed in 0..100 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let chain = draw_chain(&mut rng, 7);
        for reading in READINGS {
            let slot = draw_slot(&mut rng, &chain, 5, reading, seed % 2 == 0);
            let Some(layout) = layout(&slot, &[0, 1, 3, 4]) else {
                continue;
            };
            let used: Vec<usize> = layout.iter().flatten().flat_map(|s| s.devices.clone()).collect();
            assert!(!used.contains(&2), "seed {seed}: {used:?}");
            let Some(plan) = plan_of(&slot, layout, Rule::Even) else {
                continue;
            };
            assert_eq!(violations(&slot, &plan), Vec::<String>::new(), "seed {seed}");
            let front = Front::new(&slot).expect("few devices");
            let best = front.best(&slot).expect("a plan was found");
            assert!(
                best.value(&slot) <= plan.value(&slot) * (1.0 + 1e-9),
                "seed {seed}"
            );
            planned += 1;
        }
    }
    assert!(planned > 50, "{planned}");
}
