//! The shortest iteration: against all orders, against every rule, and its bound.

use crate::common::chunked::even_chunks;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::best_schedule::iteration::{Found, best};
use stagecut::control::Control;
use stagecut::plan::Status;
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Chunk, Chunks, Placement, run};

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
fn found(chunks: &Chunks, micro_batches: usize, control: &Control, named: &str) -> Found {
    let found = best(chunks, micro_batches, None, control);
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
        let Some(shortest) = crate::oracles::orders::shortest_ns(&chunks, micro_batches, MOST_ORDERS) else {
            continue;
        };
        let named = format!("seed {seed}");
        let found = found(&chunks, micro_batches, &Control::default(), &named);
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

/// Larger ones are not always proved; they are never worse than a rule, and no order that can be run beats the bound.
#[test]
fn larger_iterations_keep_their_bounds_and_beat_the_rules() {
    let mut compared = 0;
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (devices, virtual_stages) = [(2, 2), (3, 2), (4, 1), (5, 1), (4, 2)][seed as usize % 5];
        let micro_batches = random.random_range(4..=10);
        let chunks = draw(&mut random, devices, virtual_stages, micro_batches);
        let control = Control {
            time_limit: Some(Duration::from_secs(1)),
            ..Control::default()
        };
        let named = format!("seed {seed}");
        let found = found(&chunks, micro_batches, &control, &named);
        let without_room = Chunks {
            room: vec![None; devices],
            ..chunks.clone()
        };
        let shape = Shape::from_chunks(&chunks, micro_batches).expect("devices have as many chunks each");
        for rule in RULES.iter().filter(|rule| chunks.may_split || !rule.splits) {
            let Some(order) = rule.order(&shape) else { continue };
            let shortest = best(&without_room, micro_batches, None, &control);
            let ran = run(&without_room, &order, micro_batches).expect("there is room");
            assert!(shortest.bound_ns <= ran.makespan_ns, "{named}: {}", rule.name);
            if let Ok(ran) = run(&chunks, &order, micro_batches) {
                assert!(found.bound_ns <= ran.makespan_ns, "{named}: {}", rule.name);
            }
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

/// Known optima: the rules of papers on even chunks, which the bound proves.
#[test]
fn rules_that_are_optimal_are_proved_to_be() {
    let even = |v: usize, placement: Placement, times: [u64; 3], room: u64| {
        let mut chunks = even_chunks(4, v, placement, times);
        chunks.may_split = times[2] > 0;
        chunks.room = vec![Some(room); 4];
        chunks
    };
    let cases = [
        ("1f1b", even(1, Placement::Loop, [10, 20, 0], 4)),
        ("zb-h1", even(1, Placement::Loop, [10, 12, 8], 4)),
        ("zb-v", even(2, Placement::V, [10, 10, 10], 8)),
    ];
    for (name, chunks) in cases {
        let found = found(&chunks, 16, &Control::default(), name);
        let of_rule = found
            .rules
            .iter()
            .find(|rule| rule.name == name)
            .and_then(|rule| rule.iteration_ns);
        assert_eq!(
            (found.iteration_ns, found.status),
            (of_rule, Status::Optimal),
            "{name}"
        );
    }
}

#[test]
fn no_room_for_a_micro_batch_is_proved() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut chunks = draw(&mut random, 2, 2, 3);
    chunks.room[1] = Some(chunks.least_held(1) - 1);
    let found = best(&chunks, 3, None, &Control::default());
    assert_eq!((found.status, found.order), (Status::Infeasible, None));
}
