//! Patterns: known peaks, all patterns of small pipelines, and room.

use crate::common::chunked::even_chunks as even;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::best_schedule::cyclic::{Found, least_peak, least_period, least_period_within_room, slot_ns};
use stagecut::control::Control;
use stagecut::plan::Status;
use stagecut::schedule::{Chunk, Chunks, Placement, run};

fn least(chunks: &Chunks) -> Found {
    let slot = slot_ns(chunks);
    least_peak(chunks, slot, least_period(chunks, slot), &Control::default()).expect("HiGHS answers")
}

/// An independent program found these. They are V-Min's but for two devices.
#[test]
fn known_peaks_of_a_v() {
    for (p, peak) in [(2, 3), (3, 4), (4, 4), (5, 6), (6, 6), (8, 8)] {
        let found = least(&even(p, 2, Placement::V, [1, 1, 1]));
        assert_eq!(
            (found.peak(), found.bound, found.status),
            (Some(peak), peak, Status::Optimal),
            "p = {p}"
        );
    }
}

/// Without a split nothing holds less than 1F1B: device 0 waits for p forward and p backward passes.
#[test]
fn whole_backward_passes_hold_what_1f1b_does() {
    for (p, times) in [
        (2, [1, 1, 0]),
        (4, [1, 1, 0]),
        (8, [1, 1, 0]),
        (4, [1, 1, 1]),
        (8, [1, 1, 1]),
    ] {
        let mut chunks = even(p, 1, Placement::Loop, times);
        chunks.may_split = false;
        let found = least(&chunks);
        assert_eq!(
            (found.peak(), found.status),
            (Some(p as u64), Status::Optimal),
            "p = {p} {times:?}"
        );
    }
}

fn draw(random: &mut impl Rng) -> Chunks {
    let (p, v) = [(1, 1), (1, 2), (2, 1), (2, 1), (3, 1)][random.random_range(0..5)];
    let placement = if random.random() {
        Placement::V
    } else {
        Placement::Loop
    };
    let mut chunks = Chunks::even(p, v, placement, Chunk::default());
    chunks.may_split = p * v < 3 && random.random();
    for of in &mut chunks.chunks {
        let stash = random.random_range(1..=3);
        *of = Chunk {
            device: of.device,
            forward_ns: random.random_range(0..=2),
            input_ns: random.random_range(0..=2),
            weight_ns: random.random_range(0..=1),
            forward_transfer_ns: random.random_range(0..=2),
            backward_transfer_ns: random.random_range(0..=2),
            stash,
            kept: random.random_range(0..=stash),
            ..Chunk::default()
        };
    }
    chunks
}

#[test]
fn peaks_are_those_of_the_best_of_all_patterns() {
    let mut tried = 0;
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let chunks = draw(&mut random);
        let period = least_period(&chunks, 1) + random.random_range(0..=1);
        if period > 6 {
            continue;
        }
        let found = least_peak(&chunks, 1, period, &Control::default()).expect("HiGHS answers");
        assert_eq!(found.status, Status::Optimal, "seed {seed}");
        let periods = if period <= 3 { 2 } else { 1 };
        assert_eq!(
            found.peak(),
            crate::oracles::patterns::least_peak(&chunks, period, periods),
            "seed {seed}: {chunks:?}"
        );
        let pattern = found.pattern.expect("a pattern");
        for m in [1, 3, 8] {
            let ran = run(&chunks, &pattern.order(&chunks, m), m)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            for (of_order, of_pattern) in ran.peak.iter().zip(&found.peaks) {
                assert!(of_order <= of_pattern, "seed {seed}: {of_order} > {of_pattern}");
            }
        }
        tried += 1;
    }
    assert!(tried >= 150, "{tried}");
}

/// The least period within room is the first at which the least peak fits.
#[test]
fn room_makes_periods_longer() {
    let mut longer = 0;
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut chunks = draw(&mut random);
        let least_held = (0..chunks.devices())
            .map(|device| chunks.least_held(device))
            .max()
            .unwrap_or(0);
        let room = least_held + random.random_range(0..=2);
        chunks.room.iter_mut().for_each(|of| *of = Some(room));
        let found = least_period_within_room(&chunks, 1, &Control::default()).expect("HiGHS answers");
        assert_eq!(found.status, Status::Optimal, "seed {seed}");
        let period = found.pattern.expect("a pattern").period;
        let peak = |period| {
            least_peak(&chunks, 1, period, &Control::default())
                .expect("HiGHS answers")
                .peak()
        };
        assert!(peak(period) <= Some(room), "seed {seed}");
        if period > least_period(&chunks, 1) {
            assert!(peak(period - 1) > Some(room), "seed {seed}");
            longer += 1;
        }
        chunks.room[0] = Some(chunks.least_held(0) - 1);
        let found = least_period_within_room(&chunks, 1, &Control::default()).expect("HiGHS answers");
        assert_eq!(
            (found.status, found.pattern),
            (Status::Infeasible, None),
            "seed {seed}"
        );
    }
    assert!(longer > 5, "{longer}");
}

/// A grid that is too coarse loses time, never more than a slot an operation.
#[test]
fn the_grid_rounds_up() {
    let chunks = even(3, 2, Placement::V, [1_003, 1_999, 997]);
    let slot = slot_ns(&chunks);
    let period_ns = least_period(&chunks, slot) * slot;
    assert!(period_ns >= chunks.least_period_ns() && period_ns < chunks.least_period_ns() + 6 * slot);
    assert_eq!(slot_ns(&even(3, 2, Placement::V, [300, 600, 150])), 150);
}

/// Some pattern is found at once, whatever the size, and a little search makes it a good one: 24 chunks were too many for the program alone.
#[test]
fn there_is_always_a_pattern() {
    let within = |seconds: f64| Control {
        time_limit: Some(Duration::from_secs_f64(seconds)),
        ..Control::default()
    };
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let chunks = draw(&mut random);
        let period = least_period(&chunks, 1) + random.random_range(0..=2);
        let found = least_peak(&chunks, 1, period, &within(0.0)).expect("HiGHS answers");
        let pattern = found.pattern.expect("a pattern");
        assert_eq!(pattern.period, period, "seed {seed}");
        assert_eq!(pattern.peaks(&chunks).as_ref(), Ok(&found.peaks), "seed {seed}");
        assert!(
            found.bound <= found.peaks.iter().copied().max().unwrap_or(0),
            "seed {seed}"
        );
    }
    let mut large = even(8, 3, Placement::Loop, [13, 17, 11]);
    for of in &mut large.chunks {
        (of.forward_transfer_ns, of.backward_transfer_ns) = (3, 3);
    }
    let slot = slot_ns(&large);
    let found = least_peak(&large, slot, least_period(&large, slot), &within(2.0)).expect("HiGHS answers");
    assert!(found.peak().is_some_and(|peak| peak < 40), "{found:?}");
}
