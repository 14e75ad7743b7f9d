//! The per-slot program of hybrid parallelism: exact = brute force, plans pass the checker, closed forms, tentative search.

use std::collections::BTreeSet;

use crate::common::slots::{draw_chain, draw_slot};
use crate::oracles::hybrid::least_value;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::control::Control;
use stagecut::formulations::hybrid_program::build;
use stagecut::hybrid::check::violations;
use stagecut::hybrid::counts::Counts;
use stagecut::hybrid::exact::{self, Front};
use stagecut::hybrid::{Chain, Device, Reading, Slot, tentative};
use stagecut::solver::{self, Stop};

const READINGS: [Reading; 2] = [Reading::ParallelPipelines, Reading::PipelineOfGroups];

/// Relative difference that rounding of doubles may make.
const ROUNDING: f64 = 1e-9;

fn assert_close(found: f64, expected: f64, what: &str) {
    let is_close = found == expected || (found - expected).abs() <= ROUNDING * expected.abs().max(1.0);
    assert!(is_close, "{what}: {found} is not {expected}");
}

#[test]
fn exact_is_brute_force() {
    let mut solved = [0, 0];
    for seed in 0..800 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let layers = rng.random_range(1..=5);
        let chain = draw_chain(&mut rng, layers);
        let reading = READINGS[seed as usize % 2];
        let devices = rng.random_range(1..=4);
        let whole = rng.random_bool(0.5);
        let slot = draw_slot(&mut rng, &chain, devices, reading, whole);
        let expected = least_value(&slot);
        let plan = exact::solve(&slot).expect("few devices");
        match plan {
            None => assert!(
                expected.is_infinite(),
                "seed {seed}: brute force finds {expected}"
            ),
            Some(plan) => {
                assert_eq!(violations(&slot, &plan), Vec::<String>::new(), "seed {seed}");
                assert_close(plan.value(&slot), expected, &format!("seed {seed}, {reading:?}"));
                solved[seed as usize % 2] += 1;
            }
        }
    }
    assert!(solved.iter().all(|count| *count > 200), "{solved:?}");
}

#[test]
fn the_plan_of_every_point_takes_its_time() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let chain = draw_chain(&mut rng, 8);
        for reading in READINGS {
            let whole = rng.random_bool(0.5);
            let slot = draw_slot(&mut rng, &chain, 5, reading, whole);
            let front = Front::new(&slot).expect("few devices");
            for (n, time_ms) in front.points() {
                let plan = front.plan(&slot, n).expect("a plan for a finite time");
                assert_eq!(
                    violations(&slot, &plan),
                    Vec::<String>::new(),
                    "seed {seed}, point {n}"
                );
                assert_close(plan.time_ms, time_ms, &format!("seed {seed}, point {n}"));
                let used: usize = plan
                    .layout
                    .iter()
                    .flatten()
                    .map(|stage| stage.devices.len())
                    .sum();
                assert_eq!(used, front.counts.sizes[n]);
            }
        }
    }
}

#[test]
fn tentative_search_is_never_below_the_optimum_and_often_at_it() {
    let (mut at, mut all) = (0, 0);
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let layers = rng.random_range(4..=12);
        let chain = draw_chain(&mut rng, layers);
        for reading in READINGS {
            let whole = rng.random_bool(0.5);
            let slot = draw_slot(&mut rng, &chain, 5, reading, whole);
            let Some(plan) = tentative::search(&slot, None) else {
                continue;
            };
            assert_eq!(violations(&slot, &plan), Vec::<String>::new(), "seed {seed}");
            let best = exact::solve(&slot)
                .expect("few devices")
                .expect("a plan was found");
            let (found, least) = (plan.value(&slot), best.value(&slot));
            assert!(
                least <= found * (1.0 + ROUNDING),
                "seed {seed}: {least} above {found}"
            );
            at += usize::from(found <= least * (1.0 + ROUNDING));
            all += 1;
        }
    }
    println!("{at} of {all} at the optimum");
    // Measured: 164 of 376. Far fewer would mean that a move is broken.
    assert!(at * 5 > all * 2, "{at} of {all}");
}

/// Two equal devices, two equal layers, no transfers: worked by hand.
#[test]
fn two_devices_by_hand() {
    let chain = Chain {
        work_ms: vec![vec![3.0, 3.0]],
        cut_bytes: vec![0.0, 4.0, 0.0],
        cut_messages: vec![0.0, 2.0, 0.0],
        parameter_bytes: vec![10.0, 10.0],
        state_bytes: vec![0.0; 2],
        stash_bytes: vec![0.0; 2],
    };
    let halves = Chain {
        state_bytes: vec![10.0; 2],
        ..chain.clone()
    };
    let device = |i: usize| Device {
        name: format!("gpu:{i}"),
        kind: 0,
        slowdown: 1.0,
        bandwidth_bytes_per_ms: 2.0,
        memory_bytes: 15.0,
        prices: vec![1.0],
    };
    let mut slot = Slot {
        chain: &chain,
        reading: Reading::PipelineOfGroups,
        devices: vec![device(0), device(1)],
        backbone_bytes_per_ms: 1.0,
        latency_ms: 0.0,
        samples: 10,
        micro_batch: 1.0,
        whole: false,
        time_weight: 1.0,
        queues: vec![0.0],
    };
    let time_ms = |slot: &Slot| exact::solve(slot).unwrap().unwrap().time_ms;
    // One group: 5 samples of 6 ms each, and a ring of 2 (1/2) 20 bytes at 2 bytes a ms. A pipeline takes 10 (3 + 4).
    assert_close(time_ms(&slot), 30.0 + 10.0, "groups");
    // Pipelines: one of two stages takes 10 (3 + 4/2) = 50, two take 30 and a ring at 1 byte a ms, 20.
    slot.reading = Reading::ParallelPipelines;
    assert_close(time_ms(&slot), 50.0, "pipelines");
    // Half a ms before the first byte: 2 messages a sample between stages make 60, one ring of 2 steps makes 51.
    slot.latency_ms = 0.5;
    assert_close(time_ms(&slot), 51.0, "pipelines that wait");
    slot.reading = Reading::PipelineOfGroups;
    assert_close(time_ms(&slot), 41.0, "groups that wait");
    // Too little memory for both layers: the pipeline, at 10 (3 + 4) and 20 messages of a batch.
    slot.chain = &halves;
    assert_close(time_ms(&slot), 80.0, "a pipeline of groups that waits");
    slot.chain = &chain;
    slot.reading = Reading::ParallelPipelines;
    slot.latency_ms = 0.0;
    // At a weight of 20 a device, one device alone costs 60 + 20.
    slot.queues = vec![20.0];
    assert_close(time_ms(&slot), 60.0, "dear");
    slot.devices
        .iter_mut()
        .for_each(|device| device.memory_bytes = -1.0);
    assert_eq!(exact::solve(&slot).unwrap(), None);
}

/// Relative difference that the solver's tolerances may make.
const SOLVED: f64 = 1e-6;

/// A slot that the program solves in a moment.
fn small_slot<'a>(seed: u64, chain: &'a mut Chain) -> Slot<'a> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let reading = READINGS[seed as usize % 2];
    let layers = rng.random_range(1..=4);
    *chain = draw_chain(&mut rng, layers);
    let (devices, whole) = (rng.random_range(1..=3), rng.random_bool(0.5));
    draw_slot(&mut rng, chain, devices, reading, whole)
}

/// The objective of column values, from the names of the columns: what was found, not what was proved.
fn objective(slot: &Slot, names: &[String], values: &[f64]) -> f64 {
    let classes = Counts::new(slot).expect("few devices").classes;
    let terms = names.iter().zip(values).map(|(name, value)| {
        let (family, indices) = name.trim_end_matches(']').split_once('[').unwrap_or((name, ""));
        let indices: Vec<usize> = indices
            .split(',')
            .filter_map(|index| index.parse().ok())
            .collect();
        match (family, &indices[..]) {
            ("busiest", _) => slot.time_weight * value,
            ("count", [_, c, m]) => *m as f64 * slot.weight(classes[*c].devices[0]) * value,
            ("runs_on", [_, _, c]) => slot.weight(classes[*c].devices[0]) * value,
            _ => 0.0,
        }
    });
    terms.sum()
}

#[test]
fn the_program_is_brute_force() {
    for seed in 0..200 {
        let mut chain = Chain::default();
        let slot = small_slot(seed, &mut chain);
        let expected = least_value(&slot);
        let program = build(&slot).expect("few devices");
        let names = program.variable_names();
        let solved = solver::solve(program, None, None, &Control::default(), &|_| {}).expect("it solves");
        match solved.values {
            None => {
                assert_eq!(solved.stop, Stop::Infeasible, "seed {seed}");
                assert!(
                    expected.is_infinite(),
                    "seed {seed}: brute force finds {expected}"
                );
            }
            Some(values) => {
                let found = objective(&slot, &names, &values);
                let is_close = (found - expected).abs() <= SOLVED * expected.max(1.0);
                let bound = solved.bound;
                assert!(
                    is_close,
                    "seed {seed}: {found} is not {expected} (bound {bound}) {slot:?} {:?}",
                    names
                        .iter()
                        .zip(&values)
                        .filter(|(_, value)| value.abs() > 1e-7)
                        .collect::<Vec<_>>()
                );
                assert!(
                    bound <= expected + SOLVED * expected.max(1.0),
                    "seed {seed}: bound {bound} above {expected}"
                );
            }
        }
    }
}

/// What the table of families of a page names.
fn families_on(page: &str) -> impl Iterator<Item = &str> {
    let table = page.lines().skip_while(|line| !line.starts_with("| family |"));
    let rows = table.filter(|line| line.starts_with("| `"));
    let names = rows.filter_map(|line| line.split('|').nth(1));
    names.flat_map(|names| names.split('`').skip(1).step_by(2))
}

#[test]
fn pages_and_code_name_the_same_families() {
    let shared = include_str!("../../formulations/hybrid_program.md");
    let pages = [
        include_str!("../../formulations/hybrid_pipelines.md"),
        include_str!("../../formulations/hybrid_groups.md"),
    ];
    for (reading, own) in READINGS.into_iter().zip(pages) {
        let families = [shared, own].into_iter().flat_map(families_on);
        let on_pages: BTreeSet<String> = families.map(str::to_owned).collect();
        let in_code: BTreeSet<String> = (0..200)
            .flat_map(|seed| {
                let mut chain = Chain::default();
                let slot = small_slot(seed, &mut chain);
                let is_asked = slot.reading == reading;
                is_asked.then(|| build(&slot).expect("few devices").families())
            })
            .flatten()
            .collect();
        assert_eq!(on_pages, in_code, "{reading:?}");
    }
}
