//! What the program of critical paths is asked: items by their kind, and what is known of chunks.

use std::collections::{BTreeMap, BTreeSet};

use super::options::{ChunkOptions, ItemWay, Rows};
use super::places;
use crate::formulations::critical_paths::{Asked, Kind, KindWay, Least, Line, Room};
use crate::heuristics::orders;
use crate::model::options::Communication;
use crate::problem::pipeline::ChunkTimes;

/// Kinds of items that are told apart, and lines between two of them.
const MOST_KINDS: usize = 8;
const MOST_LINES: usize = 8;

/// Forward pass, gradients of inputs, gradients of weights; then, where memory is limited, bytes for good and in flight; the time of what is
/// done once, as it is written; and blocks, where these matter.
type Parts = [u64; 7];

fn parts(options: &dyn ChunkOptions, (way, at): (&ItemWay, usize), is_limited: bool) -> Parts {
    let bytes = way.bytes.map(|bytes| if is_limited { bytes } else { 0 });
    let once = options.once_ns(at).to_bits();
    [
        way.passes_ns[0],
        way.passes_ns[1],
        way.passes_ns[2],
        bytes[0],
        bytes[1],
        once,
        if options.least_blocks() > 0 {
            options.blocks(at)
        } else {
            0
        },
    ]
}

/// Where blocks stand.
const BLOCKS: usize = 6;

fn in_doubles([forward, input, weight, _, _, once, _]: Parts) -> ChunkTimes {
    [forward as f64, input as f64, weight as f64, f64::from_bits(once)]
}

/// What an item of such parts is busy with.
fn work_ns(parts: &Parts) -> u64 {
    parts[..3].iter().sum()
}

/// Everything but the paths, and the kind of every item that is whole; items lie in such an order.
pub(super) fn ask(options: &dyn ChunkOptions, order: &[usize]) -> (Asked, Vec<Option<usize>>) {
    let (problem, of) = (options.row(), options.laid());
    let told = Told::apart(options);
    let is_row = super::is_row(problem);
    let lines = match is_row {
        true => lines(order, &told.shares, told.kinds.len()),
        false => Vec::new(),
    };
    let beside_ns = beside_ns(options, is_row);
    let places = places::places(options, (is_row, &beside_ns));
    let whole = told.parts.len();
    let kind_of = |shares: &Vec<(usize, f64)>| shares.first().map(|&(kind, _)| kind).filter(|&k| k < whole);
    let kinds_of_items: Vec<Option<usize>> = told.shares.iter().map(kind_of).collect();
    let asked = Asked {
        ends: ends(order, (&told.kinds, &kinds_of_items), is_row),
        least: least(options, &told, (order, is_row)),
        lines,
        kinds: told.kinds,
        chunks_of: of.chunks_of.clone(),
        beside_ns,
        lead_ns: places.iter().map(|place| place.lead_ns as f64).collect(),
        rooms: rooms(options),
        paths: Vec::new(),
        micro_batches: super::micro_batches(problem),
        at_most_ns: 0.0,
        is_whole: false,
    };
    (asked, kinds_of_items)
}

/// The kinds of one item that a row of items begins and ends with, where it is not known which chunks hold them.
fn ends(order: &[usize], (kinds, kind_of): (&[Kind], &[Option<usize>]), is_row: bool) -> Vec<usize> {
    let ends = [order.first(), order.last()].into_iter().flatten();
    let own = ends.filter_map(|&item| kind_of[item]);
    own.filter(|&kind| is_row && kinds[kind].count == 1).collect()
}

/// How items of a kind may run, and what they are in each way on each of the rows.
type Ways = Vec<Vec<Parts>>;

/// Items by their kind.
struct Told {
    kinds: Vec<Kind>,
    /// Of the first kinds, whose items are whole.
    parts: Vec<Parts>,
    /// What each item is to the kinds.
    shares: Vec<Vec<(usize, f64)>>,
    /// Whether some items are told apart by nothing.
    has_others: bool,
}

impl Told {
    fn apart(options: &dyn ChunkOptions) -> Self {
        let (items, rows) = (options.row().items.len(), Rows::of(options));
        let is_limited = rows.all.iter().any(|row| row.settings.memory_limit.is_some());
        // At least, on each of the rows.
        let least_of = |item: usize| -> Vec<Parts> {
            let own = rows.all.iter().map(|row| ItemWay::of(&row.items[item]));
            own.map(|way| parts(options, (&way, item), is_limited)).collect()
        };
        let ways_of = |item: usize| -> Ways {
            let ways = options.ways(item);
            let of_way = |way: &ItemWay| vec![parts(options, (way, item), is_limited)];
            match ways.is_empty() {
                true => vec![least_of(item)],
                false => ways.iter().map(of_way).collect(),
            }
        };
        let in_chunks = |of_row: &dyn Fn(usize) -> ChunkTimes| -> Vec<ChunkTimes> {
            let devices = options.laid().device_of.iter();
            devices.map(|&device| of_row(rows.of_devices[device])).collect()
        };
        let mut alike: BTreeMap<Ways, Vec<usize>> = BTreeMap::new();
        (0..items).for_each(|item| alike.entry(ways_of(item)).or_default().push(item));
        let mut known: Vec<(u64, Ways, Vec<usize>)> = alike
            .into_iter()
            .map(|(ways, members)| (members.len() as u64 * work_ns(&ways[0][0]), ways, members))
            .collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let rest = known.split_off(known.len().min(MOST_KINDS));
        let way = |parts: &Vec<Parts>| KindWay {
            times_ns: in_chunks(&|row| in_doubles(parts[row])),
            bytes: [parts[0][3] as f64, parts[0][4] as f64],
        };
        let kind = |(_, ways, members): &(u64, Ways, Vec<usize>)| Kind {
            ways: ways.iter().map(way).collect(),
            count: members.len(),
            is_whole: true,
        };
        let mut kinds: Vec<Kind> = known.iter().map(kind).collect();
        let mut shares: Vec<Vec<(usize, f64)>> = vec![Vec::new(); items];
        for (k, (_, _, members)) in known.iter().enumerate() {
            members.iter().for_each(|&item| shares[item].push((k, 1.0)));
        }
        let rest = rest.into_iter().flat_map(|(_, _, members)| members);
        let rest: Vec<(usize, Vec<Parts>)> = rest.map(|item| (item, least_of(item))).collect();
        for part in 0..3 {
            let all: u64 = rest.iter().map(|(_, parts)| parts[0][part]).sum();
            if all == 0 {
                continue;
            }
            for (item, parts) in &rest {
                shares[*item].push((kinds.len(), parts[0][part] as f64 / all as f64));
            }
            let way = KindWay {
                times_ns: in_chunks(&|row| {
                    let mut times_ns = [0.0; 4];
                    times_ns[part] = all as f64 * slower_on(row, part, &rest);
                    times_ns
                }),
                bytes: [0.0; 2],
            };
            kinds.push(Kind {
                ways: vec![way],
                count: 1,
                is_whole: false,
            });
        }
        Self {
            kinds,
            parts: known.iter().map(|(_, ways, _)| ways[0][0]).collect(),
            shares,
            has_others: !rest.is_empty(),
        }
    }
}

/// How many times as long as in the first row a part of all these items takes on another, at least.
fn slower_on(row: usize, part: usize, items: &[(usize, Vec<Parts>)]) -> f64 {
    let times = items
        .iter()
        .map(|(_, parts)| [row, 0].map(|row| parts[row][part] as f64));
    let times = times.filter(|[_, least]| *least > 0.0);
    times
        .map(|[here, least]| here / least)
        .fold(f64::INFINITY, f64::min)
}

/// What all prefixes of an order hold of each two kinds: the sides of the convex hull.
fn lines(order: &[usize], shares: &[Vec<(usize, f64)>], kinds: usize) -> Vec<Line> {
    let mut held = vec![vec![0.0; kinds]];
    for &item in order {
        let mut next = held[held.len() - 1].clone();
        shares[item].iter().for_each(|&(kind, share)| next[kind] += share);
        held.push(next);
    }
    let mut lines = Vec::new();
    for a in 0..kinds {
        for b in a + 1..kinds {
            let points: Vec<[f64; 2]> = held.iter().map(|held| [held[a], held[b]]).collect();
            let own = [1.0, -1.0].iter().flat_map(|&side| sides(&points, [a, b], side));
            let own: Vec<Line> = own.collect();
            if own.len() <= MOST_LINES {
                lines.extend(own);
            }
        }
    }
    lines
}

/// The sides of the hull of points that never fall below (`side` = 1), or above (-1); points grow in both coordinates.
fn sides(points: &[[f64; 2]], kinds: [usize; 2], side: f64) -> Vec<Line> {
    let mut hull: Vec<[f64; 2]> = Vec::new();
    for &point in points {
        while let [.., p, q] = hull[..] {
            let turn = (q[0] - p[0]) * (point[1] - p[1]) - (q[1] - p[1]) * (point[0] - p[0]);
            if side * turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let line = |pair: &[[f64; 2]]| {
        let [dx, dy] = [0, 1].map(|at| pair[1][at] - pair[0][at]);
        let weights = [side * dy, -side * dx];
        // Sums of shares are rounded.
        const ROUNDING: f64 = 1e-7;
        let most = points
            .iter()
            .map(|point| weights[0] * point[0] + weights[1] * point[1])
            .fold(f64::NEG_INFINITY, f64::max);
        (dx > 0.0 && dy > 0.0).then_some(Line {
            kinds,
            weights,
            most: most + ROUNDING,
        })
    };
    hull.windows(2).filter_map(line).collect()
}

/// What devices may hold, of what the row knows: bytes of items in chunks that are not empty.
pub(super) fn rooms(options: &dyn ChunkOptions) -> Vec<Room> {
    let of = options.laid();
    let workspaces = workspaces(options);
    let of_device = |(device, (chunks, moments)): (usize, (&Vec<usize>, &Vec<Vec<u64>>))| -> Vec<Room> {
        let row = options.row_on(device);
        let Some(limit) = row.settings.memory_limit.filter(|_| !row.memory_never_binds()) else {
            return Vec::new();
        };
        let room = |counts: &Vec<u64>| {
            let own = || chunks.iter().zip(counts);
            let spare_bytes: u64 = own().map(|(&c, &count)| count * options.spare_bytes(c)).sum();
            Room {
                in_flight: own().map(|(&c, &count)| (c, count as f64)).collect(),
                most_bytes: limit as f64 - (options.spare_bytes_of_row() + workspaces[device]) as f64
                    + spare_bytes as f64,
            }
        };
        moments.iter().map(room).collect()
    };
    of.chunks_of
        .iter()
        .zip(&of.in_flight)
        .enumerate()
        .flat_map(of_device)
        .collect()
}

/// What each device needs at least while some item runs: where no chunk of a chain is empty, those before it and behind it have an item each, and it has one of
/// those between.
fn workspaces(options: &dyn ChunkOptions) -> Vec<u64> {
    let (row, of) = (options.row(), options.laid());
    let order = orders::by_number(row);
    let spare = order.len().checked_sub(of.chunks());
    let Some(spare) = spare.filter(|_| is_full(options) && super::is_row(row)) else {
        return vec![0; of.devices];
    };
    let bytes: Vec<u64> = order.iter().map(|&item| options.workspace_bytes(item)).collect();
    let of_chunk = |&chunk: &usize| bytes[chunk..=chunk + spare].iter().copied().min();
    let of_device = |chunks: &Vec<usize>| chunks.iter().filter_map(of_chunk).max().unwrap_or(0);
    of.chunks_of.iter().map(of_device).collect()
}

/// What chunks hold at least: as many blocks as each computes again, something where none is empty, and then the ends of a chain at its ends.
fn least(options: &dyn ChunkOptions, told: &Told, (order, is_row): (&[usize], bool)) -> Vec<Least> {
    let chunks = options.laid().chunks();
    let mut all = Vec::new();
    // Nothing is known of parts of items.
    if !is_full(options) || told.has_others {
        return all;
    }
    for chunk in 0..chunks {
        let kinds = kinds_of_chunk((options, told), (order, is_row), chunk);
        let mut at_least = |weigh: &dyn Fn(&Parts) -> u64, least: u64| {
            let weights = told.parts.iter().enumerate().filter(|(k, _)| kinds.contains(k));
            let weights = weights.map(|(k, parts)| (k, weigh(parts) as f64));
            all.push(Least {
                chunk,
                weights: weights.filter(|&(_, weight)| weight > 0.0).collect(),
                least: least as f64,
            });
        };
        match options.least_blocks() {
            0 => at_least(&|_| 1, 1),
            blocks => at_least(&|parts| parts[BLOCKS], blocks),
        }
    }
    let ends = [(0, order.first()), (chunks - 1, order.last())];
    for (chunk, item) in ends.into_iter().filter(|_| is_row) {
        all.extend(item.map(|&item| Least {
            chunk,
            weights: told.shares[item].clone(),
            least: 1.0,
        }));
    }
    all
}

/// The kinds of items that may lie in a chunk: where items are a chain and no chunk is empty, chunks before it and behind it hold as many as they must.
fn kinds_of_chunk(
    (options, told): (&dyn ChunkOptions, &Told),
    (order, is_row): (&[usize], bool),
    chunk: usize,
) -> BTreeSet<usize> {
    let least = options.least_blocks();
    let own = |&item: &usize| if least > 0 { options.blocks(item) } else { 1 };
    let each = least.max(1);
    let [ahead, behind] = [chunk, options.laid().chunks() - chunk - 1].map(|others| others as u64 * each);
    let mut left: u64 = order.iter().map(own).sum();
    let (mut before, mut kinds) = (0, BTreeSet::new());
    for item in order {
        left -= own(item);
        if !is_row || (before >= ahead && left >= behind) {
            kinds.extend(told.shares[*item].iter().map(|&(kind, _)| kind));
        }
        before += own(item);
    }
    kinds
}

/// Whether no chunk is empty.
pub(super) fn is_full(options: &dyn ChunkOptions) -> bool {
    options.row().settings.all_stages || options.again_ns(0).is_some()
}

/// What chunks of a chain pay for transfers at least, where these block and no chunk is empty.
pub(super) fn beside_ns(options: &dyn ChunkOptions, is_row: bool) -> Vec<ChunkTimes> {
    let (problem, of) = (options.row(), options.laid());
    let again_ns = |chunk: usize| options.again_ns(chunk).unwrap_or(0) as f64;
    let mut beside: Vec<ChunkTimes> = (0..of.chunks())
        .map(|chunk| [0.0, again_ns(chunk), 0.0, 0.0])
        .collect();
    let settings = &problem.settings;
    if !is_row || !is_full(options) || settings.communication != Communication::Blocking {
        return beside;
    }
    let mut known: BTreeMap<[usize; 2], [u64; 2]> = BTreeMap::new();
    for c in 1..of.chunks() {
        let places = [of.device_of[c - 1], of.device_of[c]];
        if places[0] == places[1] {
            continue;
        }
        let items = 0..problem.items.len() - 1;
        let of_places = |places: &[usize; 2]| {
            let paid = items.map(|item| options.passing_ns(item, *places));
            let least = paid.reduce(|one, other| [one[0].min(other[0]), one[1].min(other[1])]);
            least.unwrap_or_default()
        };
        let least = *known.entry(places).or_insert_with_key(of_places);
        for at in [c - 1, c] {
            (0..2).for_each(|part| beside[at][part] += least[part] as f64);
        }
    }
    beside
}
