//! Published schedules as rules: bubbles and peaks of their papers on even chunks, and orders that cannot be run.

use crate::common::chunked::even_chunks as even;
use stagecut::schedule::rules::{RULES, Rule, Shape, find};
use stagecut::schedule::{Chunk, Chunks, Operation, Order, OrderFault, Phase, Placement, Ran, run};

/// Times of the two forms that the papers speak of, and of others: F, B without weights, W.
const TIMES: [[u64; 3]; 5] = [[1, 1, 1], [10, 10, 10], [10, 12, 8], [10, 14, 6], [3, 4, 2]];

const DEVICES: [usize; 6] = [2, 3, 4, 5, 6, 8];

fn order(name: &str, chunks: &Chunks, m: usize) -> Order {
    let shape = Shape::from_chunks(chunks, m).expect("an even pipeline");
    let rule = find(name).expect("a rule");
    rule.order(&shape).expect("a rule for such pipelines")
}

fn ran(name: &str, chunks: &Chunks, m: usize) -> Ran {
    run(chunks, &order(name, chunks, m), m).unwrap_or_else(|fault| panic!("{name}, m = {m}: {fault}"))
}

/// What a rule's paper says of its bubble and of the most activations of chunks that a device holds.
struct Published {
    name: &'static str,
    v: usize,
    placement: Placement,
    bubble: fn(p: i64, v: i64, times: [i64; 3]) -> i64,
    peak: fn(p: u64, v: u64, m: u64) -> u64,
}

/// For each the source of the formulas. `F`, `B` and `W` are those of a chunk.
const PUBLISHED: [Published; 7] = [
    // Huang et al. 2019, Section 2.3: bubble (p - 1)/(m + p - 1) of the time; all micro-batches are held.
    Published {
        name: "gpipe",
        v: 1,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b + w),
        peak: |_, _, m| m,
    },
    // Narayanan et al. 2021 (SC), Section 2.2.1: bubble (p - 1)(t_f + t_b), p micro-batches in flight.
    Published {
        name: "1f1b",
        v: 1,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b + w),
        peak: |p, _, m| p.min(m),
    },
    // Narayanan et al. 2021 (SC), Section 2.2.2: bubble (p - 1)(t_f + t_b)/v, so (p - 1)/(v m) of the work. Korthikanti et al. 2023 (MLSys),
    // Section 4.2.3: activations 1 + (p - 1)/(p v) times those of 1F1B, p v chunks.
    Published {
        name: "interleaved",
        v: 2,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b + w),
        peak: |p, v, m| (p * v + p - 1).min(v * m),
    },
    Published {
        name: "interleaved",
        v: 3,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b + w),
        peak: |p, v, m| (p * v + p - 1).min(v * m),
    },
    // Qi et al. 2024 (ICLR), Section 2, where both are held against 1F1B: (p - 1)(T_F + T_B - T_W) and p M_B.
    Published {
        name: "zb-h1",
        v: 1,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b - w),
        peak: |p, _, m| p.min(m),
    },
    // The same: (p - 1)(T_F + T_B - 2 T_W) and (2p - 1) M_B.
    Published {
        name: "zb-h2",
        v: 1,
        placement: Placement::Loop,
        bubble: |p, _, [f, b, w]| (p - 1) * (f + b - 2 * w),
        peak: |p, _, m| (2 * p - 1).min(m),
    },
    // Qi et al. 2024, Section 6: no bubble where T_F = T_B = T_W, and the p M_B of 1F1B: two chunks each.
    Published {
        name: "zb-v",
        v: 2,
        placement: Placement::V,
        bubble: |_, _, _| 0,
        peak: |p, _, m| (2 * p).min(2 * m),
    },
];

#[test]
fn bubbles_and_peaks_of_the_papers() {
    for rule in &PUBLISHED {
        let all_times: &[[u64; 3]] = if rule.name == "zb-v" { &TIMES[..2] } else { &TIMES };
        for &times in all_times {
            for p in DEVICES {
                for m in [2 * p, 3 * p, 8 * p] {
                    let ran = ran(rule.name, &even(p, rule.v, rule.placement, times), m);
                    let named = format!("{} v={} p={p} m={m} {times:?}", rule.name, rule.v);
                    let bubble = (rule.bubble)(p as i64, rule.v as i64, times.map(|time| time as i64));
                    assert_eq!(ran.bubble_ns() as i64, bubble, "{named}");
                    let peak = ran.peak.iter().max().copied();
                    assert_eq!(
                        peak,
                        Some((rule.peak)(p as u64, rule.v as u64, m as u64)),
                        "{named}"
                    );
                }
            }
        }
    }
}

/// Qi et al. 2024 (NeurIPS) and the table of the authors' demonstration: where all phases take as long, V-Min holds
/// ⌊(p + 4)/3⌋ and V-Half ⌊(p + 2)/2⌋ micro-batches of two chunks, with bubbles of about 2p/3m and p/2m of the 6m that a device works.
#[test]
fn peaks_and_bubbles_of_v_schedules() {
    for p in DEVICES {
        for m in [2 * p, 4 * p, 8 * p] {
            let chunks = even(p, 2, Placement::V, [1, 1, 1]);
            let [min, half] = ["v-min", "v-half"].map(|name| ran(name, &chunks, m));
            let peak = |ran: &Ran| ran.peak.iter().max().copied().unwrap_or(0) as usize;
            assert_eq!(peak(&min), 2 * ((p + 4) / 3), "v-min p={p} m={m}");
            assert_eq!(peak(&half), 2 * ((p + 2) / 2), "v-half p={p} m={m}");
            assert!(
                min.bubble_ns() as usize <= 4 * p,
                "v-min p={p} m={m}: {}",
                min.bubble_ns()
            );
            assert!(
                half.bubble_ns() as usize <= 3 * p,
                "v-half p={p} m={m}: {}",
                half.bubble_ns()
            );
        }
    }
}

/// DeepSeek's README of DualPipe: for PP = 2p chunks (PP/2 - 1)(F&B + B - 3W), with B both gradients, and PP + 1 activations. Here F&B is
/// F + B, since a device does one thing at a time; the rule stays below what the formula says then.
#[test]
fn bubble_and_peak_of_dualpipe() {
    for times in TIMES {
        for p in DEVICES {
            for m in [2 * p, 4 * p, 8 * p] {
                let ran = ran("dualpipe", &even(p, 2, Placement::V, times), m);
                let [f, both, w] = [times[0], times[1] + times[2], times[2]];
                let formula = (p as u64 - 1) * (f + both + both - 3 * w);
                assert!(
                    ran.bubble_ns() <= formula,
                    "p={p} m={m} {times:?}: {}",
                    ran.bubble_ns()
                );
                let peak = ran.peak.iter().max().copied();
                assert_eq!(peak, Some((2 * p as u64 + 1).min(2 * m as u64)), "p={p} m={m}");
            }
        }
    }
}

/// Every rule writes an order that can be run, for any number of micro-batches that it is for.
#[test]
fn every_order_can_be_run() {
    let placed = [
        (1, Placement::Loop),
        (2, Placement::Loop),
        (2, Placement::V),
        (3, Placement::V),
    ];
    for rule in RULES {
        let mut applied = 0;
        for (p, m) in (1..=6).flat_map(|p| (1..=14).map(move |m| (p, m))) {
            for (v, placement) in placed {
                let chunks = even(p, v, placement, [3, 4, 2]);
                let order = rule.order(&Shape::from_chunks(&chunks, m).expect("even"));
                applied += usize::from(order.is_some());
                order
                    .iter()
                    .for_each(|order| assert_runs(rule, &chunks, order, m));
            }
        }
        assert!(applied > 20, "{}: {applied}", rule.name);
    }
}

fn assert_runs(rule: &Rule, chunks: &Chunks, order: &Order, m: usize) {
    let named = format!("{} p={} m={m}", rule.name, chunks.devices());
    let ran = run(chunks, order, m).unwrap_or_else(|fault| panic!("{named}: {fault}"));
    let split = run(chunks, &order.split(), m).expect("both gradients in turn");
    assert!(split.makespan_ns <= ran.makespan_ns, "{named}");
    let is_part = |operation: &Operation| operation.phase == Phase::WeightGradient;
    assert!(
        rule.splits || !order.devices.iter().flatten().any(is_part),
        "{named}"
    );
}

#[test]
fn transfers_are_delays_between_devices_alone() {
    let chunk = Chunk {
        forward_ns: 2,
        input_ns: 3,
        forward_transfer_ns: 10,
        backward_transfer_ns: 20,
        stash: 1,
        kept: 1,
        ..Chunk::default()
    };
    // Two devices, a V of four chunks, one micro-batch: three hops of which the middle one stays on its device.
    let chunks = Chunks::even(2, 2, Placement::V, chunk);
    let ran = ran("gpipe", &chunks, 1);
    assert_eq!(ran.makespan_ns, 4 * 2 + 2 * 10 + 4 * 3 + 2 * 20);
}

#[test]
fn orders_that_cannot_be_run_are_named() {
    let chunks = even(2, 1, Placement::Loop, [1, 1, 1]);
    let good = order("1f1b", &chunks, 2);
    let fault = |change: &dyn Fn(&mut Order), room: Option<u64>| {
        let mut chunks = chunks.clone();
        chunks.room[0] = room;
        let mut order = good.clone();
        change(&mut order);
        run(&chunks, &order, 2).expect_err("it cannot be run").to_string()
    };
    let cases: [(String, &str); 7] = [
        (
            fault(&|_| {}, Some(1)),
            "found `0F1`, with which device 0 would hold 2, expected at most 1",
        ),
        (
            fault(&|order| order.devices[1].truncate(3), None),
            "found no `1B1`, expected it once",
        ),
        (
            fault(
                &|order| order.devices[1].push(Operation::new(1, Phase::Forward, 0)),
                None,
            ),
            "found `1F0` a second time",
        ),
        (
            fault(
                &|order| order.devices[0].push(Operation::new(1, Phase::Forward, 0)),
                None,
            ),
            "found `1F0` on device 0, expected it on device 1",
        ),
        (
            fault(
                &|order| order.devices[1].push(Operation::new(7, Phase::Forward, 0)),
                None,
            ),
            "found `7F0`, expected chunks",
        ),
        (
            fault(&|order| order.devices.truncate(1), None),
            "found 1 orders, expected one for each of 2 devices",
        ),
        (
            fault(&|order| order.devices[1].swap(0, 1), None),
            "device 1 waits with `1B0` for `1F0` of device 1",
        ),
    ];
    for (found, expected) in &cases {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn devices_that_wait_for_each_other_are_named() {
    let chunks = even(2, 1, Placement::Loop, [1, 1, 1]);
    let mut order = order("1f1b", &chunks, 2);
    // Backward of the first micro-batch before forward of the second: with room for one, that is no deadlock.
    let mut tight = chunks.clone();
    tight.room[0] = Some(1);
    order.devices[0].swap(1, 2);
    assert_eq!(run(&tight, &order, 2).expect("it can be run").peak[0], 1);
    // Each of two devices waits for what stands behind what the other waits with.
    order.devices[0] = [
        (Phase::Forward, 0),
        (Phase::Backward, 0),
        (Phase::Forward, 1),
        (Phase::Backward, 1),
    ]
    .map(|(phase, m)| Operation::new(0, phase, m))
    .to_vec();
    order.devices[1] = [
        (Phase::Forward, 0),
        (Phase::Forward, 1),
        (Phase::Backward, 0),
        (Phase::Backward, 1),
    ]
    .map(|(phase, m)| Operation::new(1, phase, m))
    .to_vec();
    let Err(OrderFault::Deadlock(waits)) = run(&chunks, &order, 2) else {
        panic!("a deadlock");
    };
    let text = OrderFault::Deadlock(waits).to_string();
    assert_eq!(
        text,
        "found a deadlock (device 0 waits with `0B0` for `1B0` of device 1, device 1 waits with `1F1` for `0F1` of device 0), expected \
an order in which no device waits for itself"
    );
}

#[test]
fn torch_reads_a_line_a_device() {
    let chunks = even(2, 1, Placement::Loop, [1, 1, 1]);
    assert_eq!(
        order("1f1b", &chunks, 2).to_torch_csv(),
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    );
    assert_eq!(
        order("zb-h1", &chunks, 2).to_torch_csv(),
        "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"
    );
}

/// Whatever a rule writes is read again as it was; torch itself writes the same with other ends of lines, and pauses.
#[test]
fn an_order_is_read_as_it_was_written() {
    let mut compared = 0;
    for rule in RULES {
        for (p, v, placement) in [
            (1, 1, Placement::Loop),
            (4, 1, Placement::Loop),
            (4, 3, Placement::Loop),
            (4, 2, Placement::V),
        ] {
            let chunks = even(p, v, placement, [1, 1, 1]);
            let Some(order) = Shape::from_chunks(&chunks, 12).and_then(|shape| rule.order(&shape)) else {
                continue;
            };
            let csv = order.to_torch_csv();
            assert_eq!(Order::from_torch_csv(&csv).as_ref(), Ok(&order), "{csv}");
            let by_torch = csv.replace('\n', "\r\n").replace(",0", ",, 0");
            assert_eq!(
                Order::from_torch_csv(&by_torch).as_ref(),
                Ok(&order),
                "{by_torch}"
            );
            assert_eq!(
                (order.micro_batches(), order.splits()),
                (12, rule.splits),
                "{}",
                rule.name
            );
            compared += 1;
        }
    }
    assert!(compared > 12, "only {compared}");
}

/// Every line with a fault is named, with the place of its first one.
#[test]
fn cells_that_are_no_operations_are_pointed_at() {
    let faults = |text: &str| -> Vec<String> {
        let faults = Order::from_torch_csv(text).expect_err("no order");
        faults.iter().map(ToString::to_string).collect()
    };
    let expected = "expected chunk, phase and micro-batch, such as `0F0`";
    assert_eq!(
        faults("0F0,0SEND_F0\n1F0,1B0\n2F0, 2B,2C0\n"),
        [
            format!("line 1, column 5: found `0SEND_F0`, {expected}"),
            format!("line 3, column 6: found `2B`, {expected}"),
        ]
    );
    for word in [
        "F0",
        "0F",
        "0f0",
        "0F-1",
        "+0F1",
        "0F0B0",
        "0ß0",
        "(0F0;1B1)OVERLAP_F_B",
        "0F99999999999999999999",
    ] {
        assert_eq!(
            faults(word),
            [format!("line 1, column 1: found `{word}`, {expected}")]
        );
    }
    for nothing in ["", "\n\n", ",,\n,"] {
        assert!(faults(nothing)[0].contains("found no operations"), "{nothing:?}");
    }
}

/// However a file was damaged: its reader names faults or returns what it says again, and running that ends one way or the other.
#[test]
fn damaged_orders_are_read_or_named() {
    let chunks = even(2, 2, Placement::V, [1, 1, 1]);
    let csv = order("zb-v", &chunks, 3).to_torch_csv();
    let mut random = 1u64;
    let mut below = |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % most
    };
    let [mut named, mut deadlocked, mut ran] = [0; 3];
    for _ in 0..3000 {
        let mut bytes = csv.clone().into_bytes();
        for _ in 0..1 + below(3) {
            let at = below(bytes.len());
            match below(3) {
                0 => drop(bytes.remove(at)),
                1 => bytes[at] = b"0123FBIW,\n x\xc3"[below(13)],
                _ => {
                    let to = below(bytes.len());
                    bytes.swap(at, to);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match Order::from_torch_csv(&text) {
            Err(faults) => named += usize::from(!faults.is_empty()),
            Ok(order) => {
                assert_eq!(Order::from_torch_csv(&order.to_torch_csv()).as_ref(), Ok(&order));
                match run(&chunks, &order, 3) {
                    Ok(_) => ran += 1,
                    Err(OrderFault::Deadlock(waits)) => deadlocked += usize::from(!waits.is_empty()),
                    Err(_) => {}
                }
            }
        }
    }
    assert!(
        named > 500 && deadlocked > 0 && ran > 10,
        "{named} {deadlocked} {ran}"
    );
}
