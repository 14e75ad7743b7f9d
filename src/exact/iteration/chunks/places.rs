//! What devices of several chunks have time and memory for, item by item: see [`row`].

use super::super::row::{self, Cost, Place, Room, Set};
use super::asked;
use super::options::{ChunkOptions, ItemWay};
use crate::heuristics::orders;
use crate::problem::pipeline::ChunkTimes;

/// No plan takes less, in ns; `u64::MAX` where devices have no memory for all items.
pub(super) fn least_ns(options: &dyn ChunkOptions) -> u64 {
    let row = options.row();
    let cost = |way: &ItemWay| -> Cost { (way.passes_ns.iter().sum(), [way.bytes[0], way.bytes[1], 0]) };
    let costs = |item: usize| -> Vec<Cost> {
        match &options.ways(item)[..] {
            [] => vec![cost(&ItemWay::of(&row.items[item]))],
            ways => ways.iter().map(cost).collect(),
        }
    };
    let sets = row::sets((0..row.items.len()).map(costs));
    let is_row = super::is_row(row);
    let places = places(options, (is_row, &asked::beside_ns(options, is_row)));
    let micro_batches = row.settings.run_micro_batches();
    let of_set = |set: &Set| row::least_ns(set, micro_batches, (&places, &rooms(options, set)), false);
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

/// What each device has memory for of a set: an item lies in one of its chunks, with as little in flight as any of them.
fn rooms(options: &dyn ChunkOptions, set: &Set) -> Vec<Room> {
    let of = options.laid();
    let endless = Room::new(&set.ways, u64::MAX, |_| 0);
    let mut rooms = vec![endless; of.devices];
    for room in asked::rooms(options) {
        let counts = room.in_flight.iter().map(|&(_, count)| count);
        let in_flight = counts.min_by(f64::total_cmp).unwrap_or(0.0) as u64;
        let held = |[held, stash, _]: [u64; 3]| held.saturating_add(in_flight.saturating_mul(stash));
        if let Some(&(chunk, _)) = room.in_flight.first() {
            let of_device = &mut rooms[of.device_of[chunk]];
            let own = Room::new(&set.ways, room.most_bytes.max(0.0) as u64, held);
            *of_device = of_device.clone().and(own);
        }
    }
    rooms
}
