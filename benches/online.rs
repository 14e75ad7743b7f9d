//! Times a slot of 8 devices and 40 layers, exactly and by tentative search, and writes `benches/ONLINE.md`.
//!
//! Slots are drawn with a seed. Both methods take turns on each slot in one thread of one process, so that a noisy machine
//! hurts both alike.

#[path = "../tests/common/slots.rs"]
mod slots;

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use slots::{draw_chain, draw_slot};
use stagecut::hybrid::{Reading, Slot, exact, tentative};

const LAYERS: usize = 40;
const DEVICES: usize = 8;
const SAMPLES: u32 = 64;
const SEEDS: u64 = 21;

fn main() {
    let mut rows = String::new();
    for reading in [Reading::ParallelPipelines, Reading::PipelineOfGroups] {
        for (devices, classes) in [("all different", DEVICES), ("of two classes", 2)] {
            for (memory, factor) in [("without limit", f64::INFINITY), ("may bind", 8.0)] {
                let slots = Slots {
                    reading,
                    devices,
                    classes,
                    memory,
                    factor,
                };
                row(&mut rows, &slots);
            }
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let commit = printed(
        "git",
        &["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"],
    );
    let day = printed("date", &["+%F"]);
    let page = format!(
        "# Slots of hybrid parallelism\n\n\
         Seconds to decide one slot of {DEVICES} devices and {LAYERS} layers with {SAMPLES} whole samples: the exact method, tentative search\n\
         from nothing, and tentative search from the plan of a last slot whose first device was three times as slow. Medians (largest) of\n\
         {SEEDS} drawn slots, in one thread; the gap is that of tentative search from nothing, as a mean.\n\n\
         Command: `make bench-online` at {commit}, {day}, {cores} cores, load {load} at the end.\n\n\
         | reading | devices | memory | exact, s | tentative, s | from the last slot, s | gap |\n\
         |---|---|---|---:|---:|---:|---:|\n{rows}"
    );
    print!("{page}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ONLINE.md");
    std::fs::write(path, page).expect("benches/ONLINE.md can be written");
}

/// One kind of slots: how they are called on the page, and how they are drawn.
struct Slots {
    reading: Reading,
    devices: &'static str,
    /// Classes of equal devices.
    classes: usize,
    memory: &'static str,
    /// How many times as much memory devices have as they are drawn with.
    factor: f64,
}

/// Times one kind of slots.
fn row(rows: &mut String, slots: &Slots) {
    let Slots {
        reading,
        devices,
        classes,
        memory,
        factor,
    } = *slots;
    let (mut exact_s, mut cold_s, mut warm_s, mut gaps) = (vec![], vec![], vec![], vec![]);
    for seed in 0.. {
        if exact_s.len() as u64 == SEEDS {
            break;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let chain = draw_chain(&mut rng, LAYERS);
        let mut slot = draw_slot(&mut rng, &chain, DEVICES, reading, true);
        slot.samples = SAMPLES;
        for i in 0..DEVICES {
            let name = slot.devices[i].name.clone();
            slot.devices[i] = slot.devices[i % classes].clone();
            slot.devices[i].name = name;
            // Every one a class of its own, where they are to differ.
            slot.devices[i].slowdown *= if classes == DEVICES {
                1.0 + 0.01 * i as f64
            } else {
                1.0
            };
        }
        slot.devices
            .iter_mut()
            .for_each(|device| device.memory_bytes *= factor);
        let (best, seconds) = timed(|| exact::solve(&slot).expect("few devices"));
        // Slots that have no plan take no time to tell apart.
        let Some(best) = best else { continue };
        exact_s.push(seconds);
        let (found, seconds) = timed(|| tentative::search(&slot, None));
        cold_s.push(seconds);
        gaps.extend(found.map(|found| found.value(&slot) / best.value(&slot) - 1.0));
        let last = tentative::search(&slowed(&slot), None).map(|plan| plan.layout);
        warm_s.push(timed(|| tentative::search(&slot, last)).1);
    }
    let reading = match reading {
        Reading::ParallelPipelines => "parallel pipelines",
        Reading::PipelineOfGroups => "pipeline of groups",
    };
    let gap = 100.0 * gaps.iter().sum::<f64>() / gaps.len() as f64;
    let times = [&mut exact_s, &mut cold_s, &mut warm_s]
        .map(|times| shown(times))
        .join(" | ");
    writeln!(
        rows,
        "| {reading} | {devices} | {memory} | {times} | {gap:.2} % |"
    )
    .expect("text grows");
    eprintln!("{reading}, {devices}, {memory}");
}

/// The same slot while its first device is slow.
fn slowed<'a>(slot: &Slot<'a>) -> Slot<'a> {
    let mut slowed = slot.clone();
    slowed.devices[0].slowdown *= 3.0;
    slowed
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed().as_secs_f64())
}

/// Median and largest.
fn shown(seconds: &mut [f64]) -> String {
    seconds.sort_by(f64::total_cmp);
    let (median, largest) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
    format!("{median:.4} ({largest:.4})")
}

/// What a program prints, without the end of its line.
fn printed(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
