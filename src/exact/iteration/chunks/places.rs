//! What devices of several chunks have time and memory for, item by item: see [`row`].

use super::super::row::{self, Place, Set};
use super::asked;
use super::options::ChunkOptions;
use crate::heuristics::orders;
use crate::problem::pipeline::ChunkTimes;

/// No plan takes less, in ns; `u64::MAX` where devices have no memory for all items.
pub(super) fn least_ns(options: &dyn ChunkOptions) -> u64 {
    let row = options.row();
    let items = row.items.iter();
    let sets = row::sets(items.map(|item| (item.work_ns(), [item.base_bytes, item.stash_bytes, 0])));
    let is_row = super::is_row(row);
    let places = places(options, (is_row, &asked::beside_ns(options, is_row)));
    let micro_batches = row.settings.run_micro_batches();
    let of_set = |set: &Set| row::least_ns(set, micro_batches, (&places, &most(options, set)), false);
    sets.iter().map(of_set).max().unwrap_or(0)
}

/// When devices begin and end at the best, and what they do beside their items, of which chunks have so much.
pub(super) fn places(options: &dyn ChunkOptions, (is_row, beside_ns): (bool, &[ChunkTimes])) -> Vec<Place> {
    let of = options.laid();
    let sum_ns = |chunk: usize, passes: usize| beside_ns[chunk][..passes].iter().sum::<f64>() as u64;
    let passes = passes_of_lead(options);
    let least_ns = least_ns_of_chunks(options, (is_row, passes));
    let place = |(device, chunks): (usize, &Vec<usize>)| Place {
        lead_ns: (0..chunks[0])
            .map(|chunk| sum_ns(chunk, passes) + least_ns[usize::from(chunk > 0)])
            .sum(),
        beside_ns: chunks.iter().map(|&chunk| sum_ns(chunk, 3)).sum(),
        slower: slower(options, device),
    };
    of.chunks_of.iter().enumerate().map(place).collect()
}

/// How many times as long as in the row every item takes on a device, at least.
pub(super) fn slower(options: &dyn ChunkOptions, device: usize) -> f64 {
    let [row, own] = [options.row(), options.row_on(device)];
    if std::ptr::eq(row, own) {
        return 1.0;
    }
    let both = row
        .items
        .iter()
        .zip(&own.items)
        .filter(|(item, _)| item.work_ns() > 0);
    let times = both.map(|(item, own)| own.work_ns() as f64 / item.work_ns() as f64);
    times.reduce(f64::min).unwrap_or(1.0)
}

/// How many passes of the chunks before a device it never works beside: where gradients of weights wait, its last operation may be one of these.
fn passes_of_lead(options: &dyn ChunkOptions) -> usize {
    match options.row().items.iter().all(|item| item.weight_ns == 0) {
        true => 2,
        false => 1,
    }
}

/// What so many passes of the items of the first chunk take at least, and of those of any other but the last, in ns.
fn least_ns_of_chunks(options: &dyn ChunkOptions, (is_row, passes): (bool, usize)) -> [u64; 2] {
    let row = options.row();
    if !asked::is_full(options) {
        return [0; 2];
    }
    let work_ns = |&item: &usize| {
        let item = &row.items[item];
        [item.forward_ns, item.backward_ns][..passes].iter().sum::<u64>()
    };
    let order = orders::by_number(row);
    let least = |items: &[usize]| match options.least_blocks() {
        0 => items.iter().map(work_ns).min(),
        blocks => {
            let of_block = |item: &usize| work_ns(item).checked_div(options.blocks(*item));
            items.iter().filter_map(of_block).min().map(|ns| blocks * ns)
        }
    };
    let inner = match order.as_slice() {
        // No chunk is empty: the ends of a chain lie at its ends.
        [_, inner @ .., _] if is_row => inner,
        all => all,
    };
    [least(&order), least(inner)].map(Option::unwrap_or_default)
}

/// How many items of a set each device has memory for.
fn most(options: &dyn ChunkOptions, set: &Set) -> Vec<u64> {
    let of = options.laid();
    let mut most = vec![u64::MAX; of.devices];
    for room in asked::rooms(options) {
        let counts = room.in_flight.iter().map(|&(_, count)| count);
        let in_flight = counts.min_by(f64::total_cmp).unwrap_or(0.0);
        let bytes = set.bytes[0] as f64 + in_flight * set.bytes[1] as f64;
        if let (Some(&(chunk, _)), true) = (room.in_flight.first(), bytes > 0.0) {
            let most = &mut most[of.device_of[chunk]];
            *most = (*most).min((room.most_bytes.max(0.0) / bytes) as u64);
        }
    }
    most
}
