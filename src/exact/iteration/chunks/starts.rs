//! Plans to begin with: what people write down by hand.

use std::collections::BTreeSet;

use super::options::{ChunkOptions, Rows, least_ns};
use super::{asked, fit, places};
use crate::exact::incumbent::Incumbent;
use crate::heuristics::orders;
use crate::problem::{Assignment, Problem};

/// Parts of an even chunk that the first and the last chunk hold where they have something else to do.
const PARTS_OF_ENDS: [f64; 4] = [1.0, 0.75, 0.5, 0.25];

/// So many of the chunks that are too long for whole rounds may lie at the other end of these, where something else is done.
const SPARE_ELSEWHERE: usize = 2;

/// Plans of long and short rounds that are measured.
const MOST_BY_ROUNDS: usize = 24;

/// Offers even chunks, and chunks that are as long as the others of their round.
pub(super) fn offer_even(incumbent: &mut Incumbent, options: &dyn ChunkOptions) {
    for plan in even(options) {
        incumbent.offer_some(options.plan(plan));
    }
    let (rows, rooms) = (Rows::of(options), asked::rooms(options));
    let fits = |plan: &Assignment| fit::beyond_bytes((options, &rows), (&rooms, 0.0), plan) == 0.0;
    let fitting = by_rounds(options).into_iter().filter(fits);
    let mut fitting: Vec<(u64, Assignment)> = fitting.map(|plan| (least_ns(options, &plan), plan)).collect();
    fitting.sort_unstable();
    for (least_ns, plan) in fitting.into_iter().take(MOST_BY_ROUNDS) {
        if least_ns < incumbent.upper_ns {
            incumbent.offer_some(options.plan(plan));
        }
    }
}

/// Chunks of a row that are as long as the others of their round, which is one of two lengths: micro-batches of a round come one behind the other, so that one long chunk makes
/// them wait on all devices. Long rounds come first or last, where fewest micro-batches are in flight; what is too much for whole rounds is left out of the last of the long
/// chunks, of the first ones, or of one or two at one end and the others at the other.
fn by_rounds(options: &dyn ChunkOptions) -> Vec<Assignment> {
    let (problem, of) = (options.row(), options.laid());
    let order = orders::by_number(problem);
    let (chunks, rounds) = (of.chunks(), of.chunks() / of.devices);
    // The ends of the row lie beside the first and the last of others.
    let Some(inner) = order
        .len()
        .checked_sub(2)
        .filter(|&inner| super::is_row(problem) && inner >= chunks)
    else {
        return Vec::new();
    };
    let each = inner / chunks;
    let shortest = (options.least_blocks() as usize).clamp(1, each);
    let shorts = if shortest < each {
        vec![shortest, each]
    } else {
        vec![each]
    };
    let mut plans = Vec::new();
    for (short, long_rounds) in shorts
        .into_iter()
        .flat_map(|short| (1..=rounds).map(move |long| (short, long)))
    {
        let left = inner - short * (chunks - long_rounds * of.devices);
        let long = left.div_ceil(long_rounds * of.devices);
        let spare = long * long_rounds * of.devices - left;
        for are_last in [true, false] {
            let is_long = |chunk: &usize| match chunk / of.devices {
                round if are_last => round + long_rounds >= rounds,
                round => round < long_rounds,
            };
            let at: Vec<usize> = (0..chunks).filter(is_long).collect();
            let mut sizes = vec![short; chunks];
            at.iter().for_each(|&chunk| sizes[chunk] = long);
            let ahead: BTreeSet<usize> = (0..=SPARE_ELSEWHERE.min(spare))
                .flat_map(|few| [few, spare - few])
                .collect();
            for ahead in ahead {
                let mut sizes = sizes.clone();
                let behind = at.len() - (spare - ahead);
                let left_out = at[..ahead].iter().chain(&at[behind..]);
                left_out.for_each(|&chunk| sizes[chunk] -= 1);
                sizes[0] += 1;
                sizes[chunks - 1] += 1;
                plans.push(of_sizes(&order, &sizes));
            }
        }
    }
    plans
}

/// Chunks of so many items along an order.
fn of_sizes(order: &[usize], sizes: &[usize]) -> Assignment {
    let chunks = sizes.iter().enumerate();
    let places = chunks.flat_map(|(chunk, &size)| std::iter::repeat_n(chunk, size));
    let mut assignment = vec![0; order.len()];
    order
        .iter()
        .zip(places)
        .for_each(|(&item, chunk)| assignment[item] = chunk);
    assignment
}

/// Even chunks, for devices that differ by how fast these are: by items and by work, with smaller ones at either end.
pub(super) fn even(options: &dyn ChunkOptions) -> Vec<Assignment> {
    let (problem, of) = (options.row(), options.laid());
    let work = |item: usize| problem.items[item].work_ns() as f64;
    let order = orders::by_number(problem);
    let part = |device: usize| 1.0 / places::slower(options, device);
    let parts: Vec<f64> = (0..of.devices).map(part).collect();
    let even: Vec<f64> = of.device_of.iter().map(|&device| parts[device]).collect();
    let mut plans = Vec::new();
    for first in PARTS_OF_ENDS {
        for last in PARTS_OF_ENDS {
            let mut parts = even.clone();
            parts[0] *= first;
            parts[of.chunks() - 1] *= last;
            for weigh in [&|_| 1.0, &work as &dyn Fn(usize) -> f64] {
                plans.push(shared_out(problem, &order, &parts, weigh));
            }
        }
    }
    plans
}

/// Chunks that hold such parts of an order, by what items weigh: an item lies where its middle does.
fn shared_out(problem: &Problem, order: &[usize], parts: &[f64], weigh: &dyn Fn(usize) -> f64) -> Vec<usize> {
    let weight: f64 = order.iter().map(|&item| weigh(item)).sum();
    let scale = weight.max(f64::MIN_POSITIVE) / parts.iter().sum::<f64>();
    let mut assignment = vec![0; problem.items.len()];
    let (mut chunk, mut end, mut before) = (0, parts[0] * scale, 0.0);
    for &item in order {
        let own = weigh(item);
        while before + own / 2.0 > end && chunk + 1 < parts.len() {
            chunk += 1;
            end += parts[chunk] * scale;
        }
        assignment[item] = chunk;
        before += own;
    }
    assignment
}
