//! Small random slots of hybrid parallelism, the same for the same seed.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagecut::hybrid::{Chain, Device, Reading, Slot};

/// A network of so many layers for two kinds of devices.
pub fn draw_chain(rng: &mut ChaCha8Rng, layers: usize) -> Chain {
    let mut draw = |from: u32, to: u32| f64::from(rng.random_range(from..=to));
    let row = |draw: &mut dyn FnMut(u32, u32) -> f64, from, to| {
        (0..layers).map(|_| draw(from, to)).collect::<Vec<f64>>()
    };
    let mut work_ms = vec![row(&mut draw, 0, 6), row(&mut draw, 1, 9)];
    if draw(0, 9) == 0.0 {
        // A layer that one kind cannot run.
        work_ms[1][layers - 1] = f64::INFINITY;
    }
    let inner = row(&mut draw, 0, 30);
    let cut_bytes = [0.0].into_iter().chain(inner[1..].iter().copied()).chain([0.0]);
    let cut_bytes: Vec<f64> = cut_bytes.collect();
    let tensors = cut_bytes
        .iter()
        .map(|&bytes| if bytes > 0.0 { draw(1, 2) } else { 0.0 });
    let cut_messages: Vec<f64> = tensors.collect();
    Chain {
        work_ms,
        cut_messages,
        cut_bytes,
        parameter_bytes: row(&mut draw, 0, 20),
        state_bytes: row(&mut draw, 0, 40),
        stash_bytes: row(&mut draw, 0, 10),
    }
}

/// A slot of so many devices of two kinds, with memory that may bind.
pub fn draw_slot<'a>(
    rng: &mut ChaCha8Rng,
    chain: &'a Chain,
    devices: usize,
    reading: Reading,
    whole: bool,
) -> Slot<'a> {
    let tight = rng.random_bool(0.5);
    let devices = (0..devices).map(|i| Device {
        name: format!("device:{i}"),
        kind: rng.random_range(0..2),
        slowdown: [1.0, 1.5][rng.random_range(0..2)],
        bandwidth_bytes_per_ms: [5.0, 40.0, f64::INFINITY][rng.random_range(0..3)],
        memory_bytes: match tight {
            true => f64::from(rng.random_range(60..300_u32)),
            false => f64::INFINITY,
        },
        prices: vec![f64::from(rng.random_range(0..3_u32)), 1.0],
    });
    Slot {
        chain,
        reading,
        devices: devices.collect(),
        backbone_bytes_per_ms: [4.0, 50.0][rng.random_range(0..2)],
        latency_ms: [0.0, 0.5][rng.random_range(0..2)],
        samples: rng.random_range(2..=6),
        micro_batch: [1.0, 2.0][rng.random_range(0..2)],
        whole,
        time_weight: 1.0,
        queues: vec![f64::from(rng.random_range(0..6_u32)), rng.random_range(0.0..4.0)],
    }
}
