//! The shortest iteration: against all orders, against every rule, and its bound.

#[path = "oracles/orders.rs"]
mod orders;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::best_schedule::iteration::{Found, best};
use stagecut::control::Control;
use stagecut::plan::Status;
use stagecut::schedules::{Chunk, Chunks, Placement, run};

/// Chunks with anything: uneven or not, with transfers or not, backward passes that may be split or not, room or none.
fn draw(random: &mut impl Rng, devices: usize, virtual_stages: usize, micro_batches: usize) -> Chunks {
    let placement = if random.random() {
        Placement::V
    } else {
        Placement::Loop
    };
    let mut chunks = Chunks::even(devices, virtual_stages, placement, Chunk::default());
    let (even, moves) = (random.random_range(0..4) == 0, random.random::<bool>());
    let first = draw_chunk(random, moves);
    for c in 0..chunks.len() {
        let device = chunks.chunks[c].device;
        let drawn = if even { first } else { draw_chunk(random, moves) };
        chunks.chunks[c] = Chunk { device, ..drawn };
    }
    chunks.may_split = random.random();
    for device in 0..devices {
        let least = chunks.least_held(device);
        let limited = random.random::<bool>();
        let room = random.random_range(least..=least * micro_batches as u64 + 1);
        chunks.room[device] = limited.then_some(room);
    }
    chunks
}

fn draw_chunk(random: &mut impl Rng, moves: bool) -> Chunk {
    let mut transfer = || if moves { random.random_range(0..4) } else { 0 };
    let (forward_transfer_ns, backward_transfer_ns) = (transfer(), transfer());
    let stash = random.random_range(1..=3);
    Chunk {
        forward_ns: random.random_range(0..6),
        input_ns: random.random_range(0..6),
        weight_ns: random.random_range(0..6),
        forward_transfer_ns,
        backward_transfer_ns,
        stash,
        kept: random.random_range(0..=stash),
        ..Chunk::default()
    }
}

/// What a search found, once its order has been run.
fn found(chunks: &Chunks, micro_batches: usize, named: &str) -> Found {
    let found = best(chunks, micro_batches, None, &Control::default());
    let order = found.order.as_ref().expect("devices have room");
    let ran = run(chunks, order, micro_batches).unwrap_or_else(|fault| panic!("{named}: {fault}"));
    assert_eq!(found.iteration_ns, Some(ran.makespan_ns), "{named}");
    assert!(found.bound_ns <= ran.makespan_ns, "{named}");
    for rule in &found.rules {
        let no_better = rule.iteration_ns.is_none_or(|of_rule| ran.makespan_ns <= of_rule);
        assert!(no_better, "{named}: {} takes {:?}", rule.name, rule.iteration_ns);
    }
    found
}

#[test]
fn small_iterations_are_as_short_as_any_order_makes_them() {
    const MOST_ORDERS: usize = 5_000;
    let mut tried = 0;
    for seed in 0.. {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let devices = random.random_range(1..=3);
        let virtual_stages = random.random_range(1..=2);
        let micro_batches = random.random_range(1..=3);
        let chunks = draw(&mut random, devices, virtual_stages, micro_batches);
        let Some(shortest) = orders::shortest_ns(&chunks, micro_batches, MOST_ORDERS) else {
            continue;
        };
        let named = format!("seed {seed}");
        let found = found(&chunks, micro_batches, &named);
        assert_eq!(found.status, Status::Optimal, "{named}");
        assert_eq!(
            found.iteration_ns, shortest,
            "{named}: {chunks:?}, {micro_batches} micro-batches"
        );
        tried += 1;
        if tried == 600 {
            break;
        }
    }
}
