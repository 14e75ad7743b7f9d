//! What every chunk may hold if an iteration takes so long at most, narrowed until nothing is left: `formulations/critical_paths.md`, section Ranges.

use std::ops::Range;

use super::paths::PathSearch;
use crate::exact::incumbent::Incumbent;
use crate::formulations::critical_paths::{Asked, Kind, Limits};
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::pipeline::{ChunkTimes, Path};

/// What sums of doubles lose at most, as a part of what is summed.
const ROUNDING: f64 = 1e-9;
/// How often all rows are asked again.
const MOST_PASSES: usize = 20;
/// How often paths that are missing in the middle are looked for.
const MOST_ROUNDS: usize = 8;
/// Parts that are looked at for a time.
const MOST_PARTS: usize = 5_000;
/// A time is nearer to what is proved by such a part where nothing is decided for one, and farther where it is; how near, at most.
const NEARER: u64 = 2;
pub(super) const NEAREST: u64 = 64;
/// Where less than such a part is open, all of it is asked for.
const LITTLE: u64 = 1_000;
/// Less than an item is, and more than doubles lose.
const PART: f64 = 1e-6;

/// Between what how many items lie in each chunk in each way of each kind, and how many that take as long as those of a kind on each device.
#[derive(Clone, Debug)]
struct Ranges {
    least: Vec<f64>,
    most: Vec<f64>,
    /// How much more than the least that is in them each of the first rows allows.
    rooms: Vec<f64>,
}

/// How much a range lost at its lower end and at its upper one.
type Lost = (usize, [f64; 2]);

/// What becomes of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// No plan takes as long or less.
    NoPlan,
    /// One was found.
    Plan,
    Undecided,
}

/// Rows that all plans keep to that take so long at most: products of factors and counts sum to so much.
struct Rows {
    /// Iterations of interest, in ns.
    asked_ns: u64,
    /// How many chunks there are, and the kind of every way.
    chunks: usize,
    kind_of: Vec<usize>,
    /// What lies in chunks and on devices where that is known, by way and chunk, then by kind and device.
    known: Vec<f64>,
    /// Those where it is not.
    open: Vec<usize>,
    /// Which of these are of a kind, and how many items they hold, in chunks and then on devices.
    kinds: Vec<(Range<usize>, f64)>,
    /// By row, of what is open; and the other way round.
    factors: Vec<f64>,
    columns: Vec<Vec<f64>>,
    most: Vec<f64>,
    /// Where there is more room in a row than this, it says nothing of a single range.
    largest: Vec<f64>,
    /// Paths that stand among them.
    paths: usize,
}

/// Proves that no plan takes less than some time, as near to what is of interest as there is time for.
pub(super) fn prove(search: &mut PathSearch, incumbent: &mut Incumbent, (beat_ns, all): (u64, &Control)) {
    if search.asked.kinds.iter().any(|kind| !kind.is_whole) {
        return;
    }
    search.take_first_paths();
    while search.nearer <= NEAREST && all.must_stop().is_none() && !incumbent.is_over() {
        let most_ns = beat_ns.min(incumbent.target_ns());
        // Without a plan there is nothing to be near to.
        if incumbent.lower_ns > most_ns || most_ns as f64 >= search.longest_ns() {
            return;
        }
        let left_ns = most_ns - incumbent.lower_ns;
        let nearer = if left_ns < most_ns / LITTLE {
            1
        } else {
            search.nearer
        };
        let asked_ns = most_ns - (left_ns - left_ns / nearer);
        let known = search.paths();
        // The nearest has all the time that is left.
        let share = if search.nearer < NEAREST { 0.5 } else { 1.0 };
        let answer = ask(search, incumbent, (asked_ns, &super::within(all, share)));
        // Paths of narrow ranges say little of others.
        search.asked.paths.truncate(known);
        match answer {
            Answer::NoPlan => {
                incumbent.rule_out(BoundSource::Program, asked_ns);
                search.nearer = (search.nearer / NEARER).max(1);
            }
            Answer::Plan => {}
            Answer::Undecided => search.nearer *= NEARER,
        }
    }
    search.nearer = search.nearer.min(NEAREST);
}

/// Whether some plan takes so long at most: parts of all plans, depth first.
fn ask(search: &mut PathSearch, incumbent: &mut Incumbent, (asked_ns, within): (u64, &Control)) -> Answer {
    let Some(Narrowed { all, mut rows, first }) = Narrowed::new(search, asked_ns) else {
        return Answer::NoPlan;
    };
    let mut open = vec![first];
    for _ in 0..MOST_PARTS {
        let Some(mut ranges) = open.pop() else {
            return Answer::NoPlan;
        };
        if within.must_stop().is_some() {
            return Answer::Undecided;
        }
        incumbent.statistics.nodes += 1;
        if !rows.narrow_with_paths(search, (&all, &mut ranges)) {
            continue;
        }
        match rows.parts(&mut ranges, within) {
            Some(parts) if parts.is_empty() => {
                let counts = rows.middle(&ranges);
                search.offer(incumbent, &counts);
                if incumbent.upper_ns <= asked_ns {
                    return Answer::Plan;
                }
                // Rows know it to some ns.
                if search.only_ns(incumbent, &counts).is_none_or(|ns| ns <= asked_ns) {
                    return Answer::Undecided;
                }
            }
            Some(parts) => open.extend(parts),
            None => {}
        }
    }
    Answer::Undecided
}

/// What plans may hold that take so long at most, and rows that narrow parts of it.
pub(super) struct Narrowed {
    all: Ranges,
    rows: Rows,
    /// What is open of all.
    first: Ranges,
}

impl Narrowed {
    /// `None` where no plan takes so long.
    pub(super) fn new(search: &PathSearch, asked_ns: u64) -> Option<Self> {
        let mut all = Ranges::all(search, asked_ns);
        if !Rows::new(&search.asked, &all, asked_ns).narrow(&mut all, Vec::new()) {
            return None;
        }
        let rows = Rows::new(&search.asked, &all, asked_ns);
        let first = all.of(&rows.open);
        Some(Self { all, rows, first })
    }

    /// What plans of a part hold, in limits of the program; `None` where there are none.
    pub(super) fn within(&mut self, search: &PathSearch, part: &Limits) -> Option<Limits> {
        self.rows.take_paths(&search.asked, &self.all);
        self.rows.measure(&mut self.first);
        let (mut ranges, mut lost) = (self.first.clone(), Vec::new());
        let (places, mut limits) = (places(&search.asked), part.clone());
        for (column, &place) in places.iter().enumerate() {
            let known = [self.all.least[column], self.all.most[column]];
            let [least, most] = limits.insert(place, known).unwrap_or(known);
            if least > known[1] || most < known[0] {
                return None;
            }
        }
        for (at, &column) in self.rows.open.iter().enumerate() {
            let [least, most] = [ranges.least[at], ranges.most[at]];
            let own = part.get(&places[column]).copied().unwrap_or([least, most]);
            ranges.lose(at, [own[0] - least, most - own[1]], &mut lost);
        }
        if !self.rows.narrow(&mut ranges, lost) {
            return None;
        }
        let ends = ranges.least.into_iter().zip(ranges.most);
        for (&column, (least, most)) in self.rows.open.iter().zip(ends) {
            limits.insert(places[column], [least, most]);
        }
        Some(limits)
    }
}

/// Where the program has each column among those of whole items: it has totals of all kinds, and they come first.
fn places(asked: &Asked) -> Vec<usize> {
    let devices = asked.chunks_of.len();
    let counts = asked.beside_ns.len() * asked.kind_of_ways().len();
    let first = asked.kinds.len() * devices;
    let of_totals = totals(asked).flat_map(|(kind, _)| kind * devices..(kind + 1) * devices);
    (first..first + counts).chain(of_totals).collect()
}

impl Rows {
    /// All that say something of ranges of all ways and chunks.
    fn new(asked: &Asked, all: &Ranges, asked_ns: u64) -> Self {
        let chunks = asked.beside_ns.len();
        let is_open = |&at: &usize| all.least[at] < all.most[at];
        let open: Vec<usize> = (0..all.least.len()).filter(is_open).collect();
        let kind_of = asked.kind_of_ways();
        let held_in = |columns: Range<usize>, count: usize| {
            let [from, to] = [columns.start, columns.end].map(|end| open.partition_point(|&at| at < end));
            let known = columns.filter(|at| !is_open(at));
            (
                from..to,
                count as f64 - known.map(|at| all.least[at]).sum::<f64>(),
            )
        };
        let in_chunks = |(k, kind): (usize, &Kind)| {
            let [first, end] = [k, k + 1].map(|k| chunks * kind_of.partition_point(|&of| of < k));
            held_in(first..end, kind.count)
        };
        let on_devices =
            totals(asked).map(|(kind, columns)| held_in(columns, asked.count_of(&asked.as_long_as(kind))));
        let kinds = asked.kinds.iter().enumerate().map(in_chunks);
        let mut rows = Self {
            asked_ns,
            known: all.least.clone(),
            kinds: kinds.chain(on_devices).collect(),
            columns: vec![Vec::new(); open.len()],
            chunks,
            kind_of,
            open,
            factors: Vec::new(),
            most: Vec::new(),
            largest: Vec::new(),
            paths: 0,
        };
        rows.add_all(asked, all);
        rows
    }

    fn add_all(&mut self, asked: &Asked, all: &Ranges) {
        let (kind_of, ways) = (self.kind_of.clone(), asked.ways().collect::<Vec<_>>());
        for line in &asked.lines {
            for c in 0..self.chunks - 1 {
                let of = |way: usize| line.kinds.iter().position(|&kind| kind == kind_of[way]);
                let factor = |way: usize, chunk: usize| match of(way) {
                    Some(at) if chunk <= c => line.weights[at],
                    Some(_) | None => 0.0,
                };
                self.add(all, factor, line.most);
            }
        }
        for least in &asked.least {
            let factor = |way: usize, chunk: usize| {
                let own = least.weights.iter().find(|&&(kind, _)| kind == kind_of[way]);
                own.filter(|_| chunk == least.chunk)
                    .map_or(0.0, |&(_, weight)| -weight)
            };
            self.add(all, factor, -least.least);
        }
        for room in &asked.rooms {
            let factor = |way: usize, chunk: usize| {
                let own = room.in_flight.iter().find(|&&(c, _)| c == chunk);
                let [once, each] = ways[way].bytes;
                own.map_or(0.0, |&(_, in_flight)| once + in_flight * each)
            };
            self.add(all, factor, room.most_bytes);
        }
        for (kind, columns) in totals(asked) {
            let among = asked.as_long_as(kind);
            for (device, total) in columns.enumerate() {
                let chunks = &asked.chunks_of[device];
                let is_held =
                    |way: usize, chunk: usize| among.contains(&kind_of[way]) && chunks.contains(&chunk);
                self.add_total(all, &is_held, total);
            }
        }
        for path in one_by_one(asked) {
            self.add_path(asked, all, &path);
        }
        self.take_paths(asked, all);
    }

    /// Adds a row of what lies in chunks, by way and chunk, unless all that is in the ranges keeps to it.
    fn add(&mut self, all: &Ranges, factor: impl Fn(usize, usize) -> f64, most: f64) {
        let (chunks, counts) = (self.chunks, self.chunks * self.kind_of.len());
        let of = |at: usize| (at < counts).then(|| factor(at / chunks, at % chunks));
        self.add_row(all, |at| of(at).unwrap_or(0.0), most);
    }

    /// Some counts add up to a total: no more and no less.
    fn add_total(&mut self, all: &Ranges, is_held: &dyn Fn(usize, usize) -> bool, total: usize) {
        let (chunks, counts) = (self.chunks, self.chunks * self.kind_of.len());
        for sign in [1.0, -1.0] {
            let factor = |at: usize| match at < counts {
                true if is_held(at / chunks, at % chunks) => sign,
                false if at == total => -sign,
                true | false => 0.0,
            };
            self.add_row(all, factor, 0.0);
        }
    }

    fn add_row(&mut self, all: &Ranges, factor: impl Fn(usize) -> f64, most: f64) {
        let (mut left, mut all_of_it, mut size, mut largest) = (most, 0.0, most.abs(), 0.0f64);
        let from = self.factors.len();
        let mut open = self.open.iter().peekable();
        for at in 0..all.least.len() {
            let factor = factor(at);
            size += factor.abs() * all.most[at];
            if open.next_if_eq(&&at).is_some() {
                all_of_it += (factor * all.least[at]).max(factor * all.most[at]);
                largest = largest.max(factor.abs() * (all.most[at] - all.least[at]));
                self.factors.push(factor);
            } else {
                left -= factor * all.least[at];
            }
        }
        // What sums of doubles lose.
        left += size * ROUNDING;
        if all_of_it <= left {
            self.factors.truncate(from);
            return;
        }
        self.most.push(left);
        self.largest.push(largest);
        for (column, factor) in self.columns.iter_mut().zip(&self.factors[from..]) {
            column.push(*factor);
        }
    }

    /// A path, and how much longer it is than what each item takes once: the sum of that is known.
    fn add_path(&mut self, asked: &Asked, all: &Ranges, path: &Path) {
        let times =
            |often: &ChunkTimes, ns: &ChunkTimes| -> f64 { often.iter().zip(ns).map(|(n, ns)| n * ns).sum() };
        let both = path.often.iter().zip(&asked.beside_ns);
        let beside_ns: f64 = both.map(|(often, ns)| times(often, ns)).sum();
        let (kind_of, ways) = (self.kind_of.clone(), asked.ways().collect::<Vec<_>>());
        for part in [0.0, 1.0] {
            let once = asked.kinds.iter().map(|kind| part * kind.soonest_ns(0..2));
            let once_ns: Vec<f64> = once.collect();
            let both = asked.kinds.iter().zip(&once_ns);
            let known_ns: f64 = both.map(|(kind, once_ns)| kind.count as f64 * once_ns).sum();
            let factor = |way: usize, chunk: usize| {
                times(&path.often[chunk], &ways[way].times_ns[chunk]) - once_ns[kind_of[way]]
            };
            // Times are rounded to ns.
            self.add(all, factor, self.asked_ns as f64 + 1.0 - beside_ns - known_ns);
        }
    }

    /// Adds the paths that are new.
    fn take_paths(&mut self, asked: &Asked, all: &Ranges) {
        for path in &asked.paths[self.paths..] {
            self.add_path(asked, all, path);
        }
        self.paths = asked.paths.len();
    }

    /// Narrows ranges, with paths that are missing in their middle; whether anything is left.
    fn narrow_with_paths(&mut self, search: &mut PathSearch, (all, ranges): (&Ranges, &mut Ranges)) -> bool {
        for _ in 0..MOST_ROUNDS {
            self.take_paths(&search.asked, all);
            if !self.narrow(ranges, Vec::new()) {
                return false;
            }
            if !search.take_missing(&self.middle(ranges), self.asked_ns as f64) {
                break;
            }
        }
        true
    }

    /// Two parts of ranges that hold all plans in them, none where they hold one; `None` where they hold no plan.
    ///
    /// Both halves of every range are narrowed. Where one is empty, the other is what is left; of all others the range is parted that leaves least.
    fn parts(&self, ranges: &mut Ranges, within: &Control) -> Option<Vec<Ranges>> {
        let mut best: Option<(f64, [Ranges; 2])> = None;
        let columns = ranges.least.len();
        // Where one was narrowed, all others are asked again.
        let (mut at, mut left) = (0, columns);
        while left > 0 && (best.is_none() || within.must_stop().is_none()) {
            (at, left) = ((at + 1) % columns, left - 1);
            let [least, most] = [ranges.least[at], ranges.most[at]];
            if least >= most {
                continue;
            }
            let middle = ((least + most) / 2.0).floor();
            let [mut fewer, mut more] = [ranges.clone(), ranges.clone()];
            let [mut below, mut above] = [Vec::new(), Vec::new()];
            fewer.lose(at, [0.0, most - middle], &mut below);
            more.lose(at, [middle + 1.0 - least, 0.0], &mut above);
            match (self.narrow(&mut fewer, below), self.narrow(&mut more, above)) {
                (false, false) => return None,
                (true, false) => (*ranges, best, left) = (fewer, None, columns),
                (false, true) => (*ranges, best, left) = (more, None, columns),
                (true, true) => {
                    let widths = [fewer.width(), more.width()];
                    let width = widths[0].max(widths[1]) + (widths[0] + widths[1]) / (2 * columns) as f64;
                    if best.as_ref().is_none_or(|(least, _)| width < *least) {
                        best = Some((width, [fewer, more]));
                    }
                }
            }
        }
        Some(best.map_or_else(Vec::new, |(_, halves)| halves.into()))
    }

    /// Narrows ranges of what is open by all rows; whether anything is left.
    fn narrow(&self, ranges: &mut Ranges, mut lost: Vec<Lost>) -> bool {
        self.measure(ranges);
        for pass in 0..MOST_PASSES {
            let kinds = &mut self.kinds.iter();
            if !kinds.all(|(own, count)| ranges.hold(own, *count, &mut lost))
                || !self.take_room(ranges, &lost)
            {
                return false;
            }
            if lost.is_empty() && pass > 0 {
                break;
            }
            lost.clear();
            for (row, factors) in self.factors.chunks_exact(self.open.len().max(1)).enumerate() {
                if ranges.rooms[row] < self.largest[row] {
                    ranges.keep_to(factors, ranges.rooms[row], &mut lost);
                }
            }
        }
        // What was lost last is in no room yet.
        self.take_room(ranges, &lost)
    }

    /// The rooms of rows that are new.
    fn measure(&self, ranges: &mut Ranges) {
        let columns = self.open.len();
        for row in ranges.rooms.len()..self.most.len() {
            let factors = &self.factors[row * columns..(row + 1) * columns];
            let ends = ranges.least.iter().zip(&ranges.most);
            let least = factors
                .iter()
                .zip(ends)
                .map(|(&factor, (least, most))| factor.max(0.0) * least + factor.min(0.0) * most);
            let room = self.most[row] - least.sum::<f64>();
            ranges.rooms.push(room);
        }
    }

    /// Takes what ranges lost from the rooms of rows; whether none has too little.
    fn take_room(&self, ranges: &mut Ranges, lost: &[Lost]) -> bool {
        for &(at, [lower, upper]) in lost {
            for (room, factor) in ranges.rooms.iter_mut().zip(&self.columns[at]) {
                *room -= factor.max(0.0) * lower - factor.min(0.0) * upper;
            }
        }
        ranges.rooms.iter().all(|room| *room >= 0.0)
    }

    /// Counts in the middle, by way and chunk: as far from the least to the most as all items of a kind need.
    fn middle(&self, ranges: &Ranges) -> Vec<Vec<f64>> {
        let mut counts = self.known.clone();
        for (own, count) in &self.kinds {
            let (least, most) = (&ranges.least[own.clone()], &ranges.most[own.clone()]);
            let [least_of_all, most_of_all]: [f64; 2] = [least.iter().sum(), most.iter().sum()];
            let part = match most_of_all > least_of_all {
                true => (count - least_of_all) / (most_of_all - least_of_all),
                false => 0.0,
            };
            for ((&at, least), most) in self.open[own.clone()].iter().zip(least).zip(most) {
                counts[at] = least + part * (most - least);
            }
        }
        let counts = counts.chunks_exact(self.chunks).take(self.kind_of.len());
        counts.map(<[f64]>::to_vec).collect()
    }
}

impl Ranges {
    /// All that plans may have that take so long at most.
    fn all(search: &PathSearch, asked_ns: u64) -> Self {
        let asked = &search.asked;
        let chunks = asked.beside_ns.len();
        let kinds = asked.kinds.iter();
        let in_chunks = kinds.flat_map(|kind| vec![kind.count as f64; kind.ways.len() * chunks]);
        let on_device = |(kind, device): (usize, usize)| {
            let most = search.most_on((kind, device), asked_ns);
            most.min(asked.count_of(&asked.as_long_as(kind)) as f64)
        };
        let of_kind =
            |(kind, columns): (usize, Range<usize>)| (0..columns.len()).map(move |device| (kind, device));
        let on_devices = totals(asked).flat_map(of_kind).map(on_device);
        let most: Vec<f64> = in_chunks.chain(on_devices).collect();
        Self {
            least: vec![0.0; most.len()],
            most,
            rooms: Vec::new(),
        }
    }

    /// Some of them.
    fn of(&self, open: &[usize]) -> Self {
        let [least, most] = [&self.least, &self.most].map(|ends| open.iter().map(|&at| ends[at]).collect());
        Self {
            least,
            most,
            rooms: Vec::new(),
        }
    }

    fn width(&self) -> f64 {
        self.least
            .iter()
            .zip(&self.most)
            .map(|(least, most)| most - least)
            .sum()
    }

    /// Narrows some, since together they hold so much; whether anything is left.
    fn hold(&mut self, own: &Range<usize>, count: f64, lost: &mut Vec<Lost>) -> bool {
        let [least_of_all, most_of_all]: [f64; 2] =
            [&self.least, &self.most].map(|ends| ends[own.clone()].iter().sum());
        let (spare, missing) = (count - least_of_all, most_of_all - count);
        if spare < 0.0 || missing < 0.0 {
            return false;
        }
        for at in own.clone() {
            let width = self.most[at] - self.least[at];
            self.lose(at, [width - missing, width - spare], lost);
        }
        true
    }

    /// Raises one end and lowers the other by so much, where that is anything.
    fn lose(&mut self, at: usize, own: [f64; 2], lost: &mut Vec<Lost>) {
        let own = own.map(|end| end.max(0.0));
        if own != [0.0; 2] {
            self.least[at] += own[0];
            self.most[at] -= own[1];
            lost.push((at, own));
        }
    }

    /// Narrows them by a row with such room.
    fn keep_to(&mut self, factors: &[f64], room: f64, lost: &mut Vec<Lost>) {
        for (at, factor) in factors.iter().enumerate() {
            let width = self.most[at] - self.least[at];
            if factor.abs() * width > room {
                let end = width - (room / factor.abs() + PART).floor();
                let own = if *factor > 0.0 { [0.0, end] } else { [end, 0.0] };
                self.lose(at, own, lost);
            }
        }
    }
}

/// The kinds of which, with those that take as long, devices hold one or more on the average, and the columns of how many each of them does: behind those of chunks.
fn totals(asked: &Asked) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (chunks, devices) = (asked.beside_ns.len(), asked.chunks_of.len());
    let first = chunks * asked.kinds.iter().map(|kind| kind.ways.len()).sum::<usize>();
    let many = (0..asked.kinds.len()).filter(|&k| asked.is_many(k));
    let of_kind = move |(at, k)| (k, first + at * devices..first + (at + 1) * devices);
    many.enumerate().map(of_kind)
}

/// For every chunk and pass: one micro-batch passes all chunks, but that chunk all of them do.
///
/// Whatever the order, some micro-batch is the first there and some is the last: the one on its way to the chunk, all passes of the chunk, and the other on its way on
/// follow each other.
fn one_by_one(asked: &Asked) -> Vec<Path> {
    let chunks = asked.beside_ns.len();
    let path = |(chunk, pass): (usize, usize)| {
        let mut often = vec![[1.0, 1.0, 0.0, 0.0]; chunks];
        often[chunk][pass] = asked.micro_batches as f64;
        // It ends where the last backward pass does.
        let first = asked.chunks_of.iter().find(|chunks| chunks.contains(&0));
        first
            .into_iter()
            .flatten()
            .for_each(|&chunk| often[chunk][3] = 1.0);
        Path {
            length_ns: 0.0,
            often,
        }
    };
    (0..chunks)
        .flat_map(|chunk| [(chunk, 0), (chunk, 1)])
        .map(path)
        .collect()
}
