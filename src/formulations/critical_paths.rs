//! The least iteration of any chunks as what every path of operations takes.
#![doc = include_str!("../../formulations/critical_paths.md")]

use std::collections::BTreeMap;
use std::ops::Range;

use good_lp::{Expression, variable};

use super::solver::Cut;
use super::{Column, Program};
use crate::model::units::bisect;
use crate::problem::pipeline::{ChunkTimes, Path};

/// Items that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// How each of them may run; at least one way.
    pub ways: Vec<KindWay>,
    /// How many there are.
    pub count: usize,
    /// Whether each lies in one chunk; if not, any part of one may lie in any.
    pub is_whole: bool,
}

/// A way to run an item of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct KindWay {
    /// In each chunk: forward passes, gradients of inputs, gradients of weights, and what devices do once, in ns.
    pub times_ns: Vec<ChunkTimes>,
    /// Bytes that are held for good, and for each micro-batch in flight.
    pub bytes: [f64; 2],
}

/// A limit on how many items of two kinds the first chunks hold: `a` of the one and `b` of the other is at most `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The kinds.
    pub kinds: [usize; 2],
    /// What each of their items counts.
    pub weights: [f64; 2],
    /// What they count for at most.
    pub most: f64,
}

/// What a device may hold while so many micro-batches of its chunks are in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// The chunks and their micro-batches.
    pub in_flight: Vec<(usize, f64)>,
    /// Bytes.
    pub most_bytes: f64,
}

/// What a chunk holds at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// The chunk.
    pub chunk: usize,
    /// Kinds, and what each of their items counts.
    pub weights: Vec<(usize, f64)>,
    /// What they count for at least.
    pub least: f64,
}

/// What is known before anything is cut.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The items.
    pub kinds: Vec<Kind>,
    /// What an order of all items says of the first chunks.
    pub lines: Vec<Line>,
    /// The kinds of one item that it begins and ends with.
    pub ends: Vec<usize>,
    /// The chunks of every device.
    pub chunks_of: Vec<Vec<usize>>,
    /// What every chunk takes beside its items, in ns, as [`KindWay::times_ns`] has it.
    pub beside_ns: Vec<ChunkTimes>,
    /// Before the first operation of every device and behind its last one, at least, in ns.
    pub lead_ns: Vec<f64>,
    /// What chunks hold at least.
    pub least: Vec<Least>,
    /// What devices may hold.
    pub rooms: Vec<Room>,
    /// Paths, of which no run is shorter than any.
    pub paths: Vec<Path>,
    /// Micro-batches.
    pub micro_batches: u64,
    /// Iterations of interest, in ns.
    pub at_most_ns: f64,
    /// Whether items are whole.
    pub is_whole: bool,
}

impl Kind {
    /// What some passes of an item take at least, in the way and the chunk that do them soonest, in ns.
    pub(crate) fn soonest_ns(&self, passes: Range<usize>) -> f64 {
        let sum = |times: &ChunkTimes| times[passes.clone()].iter().sum::<f64>();
        let times = self.ways.iter().flat_map(|way| &way.times_ns);
        times.map(sum).fold(f64::INFINITY, f64::min)
    }
}

impl Asked {
    /// All ways of all kinds, one behind the other: for each there is a row of counts, one a chunk.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &KindWay> {
        self.kinds.iter().flat_map(|kind| &kind.ways)
    }

    /// The kind of every way.
    pub(crate) fn kind_of_ways(&self) -> Vec<usize> {
        let of_kind = |(k, kind): (usize, &Kind)| vec![k; kind.ways.len()];
        self.kinds.iter().enumerate().flat_map(of_kind).collect()
    }

    /// The whole kinds of which each item takes as long as one of a kind, or longer.
    pub(crate) fn as_long_as(&self, kind: usize) -> Vec<usize> {
        let least_ns = self.kinds[kind].soonest_ns(0..3);
        let takes = |other: &Kind| other.is_whole && other.soonest_ns(0..3) >= least_ns;
        let all = 0..self.kinds.len();
        all.filter(|&other| takes(&self.kinds[other])).collect()
    }

    /// Whether devices hold one item or more of a whole kind on the average.
    pub(crate) fn is_many(&self, kind: usize) -> bool {
        self.kinds[kind].is_whole && self.kinds[kind].count >= self.chunks_of.len()
    }

    /// How many items some kinds have.
    pub(crate) fn count_of(&self, kinds: &[usize]) -> usize {
        kinds.iter().map(|&kind| self.kinds[kind].count).sum()
    }

    /// What a device does for an item of a kind and a micro-batch at least, in ns.
    fn own_ns(&self, device: usize, kind: &Kind) -> f64 {
        let first = self.chunks_of[device].first();
        let of_ways = |&chunk: &usize| {
            let ways = kind.ways.iter().map(|way| in_turn(&way.times_ns[chunk]).sum());
            ways.fold(f64::INFINITY, f64::min)
        };
        first.map_or(0.0, of_ways)
    }

    /// How many items of some kinds a device has time and memory for in an iteration of so many ns.
    pub(crate) fn most_on(&self, device: usize, kinds: &[usize], ns: f64) -> f64 {
        let by_time = self.most_in_time(device, kinds, ns);
        by_time.min(self.most_in_memory(device, kinds))
    }

    /// No plan takes less, in ns, than devices need to hold all items that take as long as those of a kind, as long as that is no more than so much; `u64::MAX` where they have no memory.
    pub(crate) fn least_ns(&self, longest_ns: u64) -> u64 {
        let whole = (0..self.kinds.len()).filter(|&k| self.kinds[k].is_whole);
        let of_kind = |k: usize| {
            let (devices, among) = (0..self.chunks_of.len(), self.as_long_as(k));
            let count = self.count_of(&among) as f64;
            let in_memory: Vec<f64> = devices.map(|d| self.most_in_memory(d, &among)).collect();
            if in_memory.iter().sum::<f64>() < count {
                return u64::MAX;
            }
            let fits = |ns: u64| {
                let most = |(d, &most): (usize, &f64)| most.min(self.most_in_time(d, &among, ns as f64));
                in_memory.iter().enumerate().map(most).sum::<f64>() >= count
            };
            if fits(0) {
                return 0;
            }
            bisect([0, longest_ns], fits)
        };
        whole.map(of_kind).max().unwrap_or(0)
    }

    /// How many of them it has time for.
    fn most_in_time(&self, device: usize, kinds: &[usize], ns: f64) -> f64 {
        let chunks = &self.chunks_of[device];
        let beside = chunks.iter().flat_map(|&c| in_turn(&self.beside_ns[c]));
        let room_ns = (ns - self.lead_ns[device]) / self.micro_batches as f64 - beside.sum::<f64>();
        let own_ns = |_: usize, kind: usize| self.own_ns(device, &self.kinds[kind]);
        self.most_within((chunks, kinds), room_ns, own_ns)
    }

    /// How many of them it has memory for whenever it holds most.
    fn most_in_memory(&self, device: usize, kinds: &[usize]) -> f64 {
        let chunks = &self.chunks_of[device];
        let is_own = |room: &&Room| room.in_flight.first().is_some_and(|(c, _)| chunks.contains(c));
        let of_room = |room: &Room| {
            let bytes = |chunk: usize, kind: usize| {
                let own = room.in_flight.iter().find(|&&(c, _)| c == chunk);
                let in_flight = own.map_or(0.0, |&(_, count)| count);
                let of_ways = self.kinds[kind].ways.iter().map(|way| way.bytes);
                let of_ways = of_ways.map(|[once, each]| once + in_flight * each);
                of_ways.fold(f64::INFINITY, f64::min)
            };
            self.most_within((chunks, kinds), room.most_bytes, bytes)
        };
        let rooms = self.rooms.iter().filter(is_own).map(of_room);
        rooms.fold(f64::INFINITY, f64::min)
    }

    /// How many items of some kinds chunks hold at most that have room for so much, of which an item of a kind takes a part in a chunk at least.
    ///
    /// A chunk that holds items that count for `m` at least, one or more each, holds `m` or fewer of them that do: these take `m` times the least that any takes for what it
    /// counts, and every other item of the kinds takes what the least of all does. Where rows are of other kinds, what they take is beside all items of the kinds.
    fn most_within(
        &self,
        (chunks, kinds): (&[usize], &[usize]),
        room: f64,
        cost: impl Fn(usize, usize) -> f64,
    ) -> f64 {
        // Less than an item is, more than doubles lose.
        const ROUNDING: f64 = 1e-6;
        let all = chunks.iter().flat_map(|&c| kinds.iter().map(move |&k| (c, k)));
        let each = all.map(|(c, k)| cost(c, k)).fold(f64::INFINITY, f64::min);
        if each <= 0.0 || each == f64::INFINITY {
            return f64::INFINITY;
        }
        let beside_rows = |takes_own: bool| {
            let (mut left, mut most) = (room, 0.0);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for row in self.least.iter().filter(|row| chunks.contains(&row.chunk)) {
                let is_own = row.weights.iter().any(|(kind, _)| kinds.contains(kind));
                let is_known =
                    |&(kind, weight): &(usize, f64)| weight < 1.0 || taken.contains(&(row.chunk, kind));
                if (is_own && !takes_own) || row.weights.is_empty() || row.weights.iter().any(is_known) {
                    continue;
                }
                let costs = row
                    .weights
                    .iter()
                    .map(|&(kind, weight)| cost(row.chunk, kind) / weight);
                left -= row.least * costs.fold(f64::INFINITY, f64::min);
                most += if is_own { row.least } else { 0.0 };
                taken.extend(row.weights.iter().map(|&(kind, _)| (row.chunk, kind)));
            }
            (most + (left / each).max(0.0) + ROUNDING).floor()
        };
        beside_rows(false).min(beside_rows(true))
    }
}

/// Limits of some columns of whole items, by their position: the least and the most.
pub(crate) type Limits = BTreeMap<usize, [f64; 2]>;

/// The program, with what is needed to read its solutions.
pub struct PathProgram {
    /// The program; its objective is a time that no plan of interest falls below.
    pub program: Program,
    /// How many items each chunk runs in each way of each kind.
    counts: Vec<Vec<Column>>,
    /// Which of these rows are ways of each kind.
    ways_of: Vec<Range<usize>>,
    /// Columns of whole items, and the most that each may be: how many a device holds that take as long as those of a kind, then how many of one each of its
    /// chunks holds.
    whole: Vec<(Column, f64)>,
    /// Which of these tell whether a chunk holds what a row begins or ends with: what comes first says most.
    ends: Vec<usize>,
    /// Which of these tell how many a device holds of those of which devices hold one or more on the average: the first to branch on.
    many: Vec<usize>,
    devices: usize,
    iteration: Column,
}

impl PathProgram {
    /// Builds it.
    ///
    /// Size: w c counts for w ways of kinds and c chunks, and a row for each path, line and cut, kind and device.
    pub fn build(asked: &Asked) -> Self {
        let mut program = Program::new(asked.at_most_ns.max(1.0));
        let chunks = asked.beside_ns.len();
        let iteration = program.declare(variable().bounds(0.0..=1.0).name("iteration"));
        let (mut counts, mut ways_of) = (Vec::new(), Vec::with_capacity(asked.kinds.len()));
        for (k, kind) in asked.kinds.iter().enumerate() {
            let first = counts.len();
            for way in 1..=kind.ways.len() {
                let of_chunk = |c: usize| {
                    let count = variable().bounds(0.0..=kind.count as f64);
                    program.declare(count.name(format!("count[{},{way},{}]", k + 1, c + 1)))
                };
                counts.push((0..chunks).map(of_chunk).collect());
            }
            ways_of.push(first..counts.len());
        }
        program.objective = iteration.expression();
        let mut built = Self {
            program,
            counts,
            ways_of,
            whole: Vec::new(),
            ends: Vec::new(),
            many: Vec::new(),
            devices: asked.chunks_of.len(),
            iteration,
        };
        built.all_items(asked);
        if asked.is_whole {
            built.totals(asked);
        }
        built.lines(asked);
        built.least(asked);
        built.devices(asked);
        built.rooms(asked);
        for (at, path) in asked.paths.iter().enumerate() {
            let cut = built.path(asked, path);
            let mut length = Expression::default();
            (cut.coefficients.iter()).for_each(|&(column, factor)| column.add_to(&mut length, factor));
            let name = format!("path[{}]", at + 1);
            built.program.add_row(name, length, cut.most.into());
        }
        built
    }

    /// How many items the chunks of a solution run in each way of each kind.
    pub fn counts(&self, values: &[f64]) -> Vec<Vec<f64>> {
        let of_kind = |columns: &Vec<Column>| columns.iter().map(|column| column.value(values)).collect();
        self.counts.iter().map(of_kind).collect()
    }

    /// Adds so much for every item of a kind that a chunk holds, in whatever way.
    fn add_items(&self, (kind, chunk): (usize, usize), sum: &mut Expression, factor: f64) {
        let ways = &self.counts[self.ways_of[kind].clone()];
        ways.iter().for_each(|counts| counts[chunk].add_to(sum, factor));
    }

    /// A column of whole items, by its position.
    pub(crate) fn whole(&self, at: usize) -> Column {
        self.whole[at].0
    }

    /// The most that it may be.
    pub(crate) fn most(&self, at: usize) -> f64 {
        self.whole[at].1
    }

    /// The parts of a part, by their limits, that hold all its whole solutions but not the one that is given; none where that is whole.
    ///
    /// Where the ends of a row lie comes first: chunks before the one that it begins in are empty. Where a device holds a broken number of a kind, either none holds more than the whole part of that, or some device is the first that does; unless one is known to.
    /// Else it is the number of that device, or of a chunk, that is less or more.
    pub(crate) fn parts(&self, values: &[f64], limits: &Limits) -> Vec<Limits> {
        let limits_of = |at: usize| limits.get(&at).copied().unwrap_or([0.0, self.most(at)]);
        let of_ends = self.most_broken(values, self.ends.iter().copied());
        let of_devices = match of_ends {
            Some(_) => None,
            None => self.most_broken(values, self.many.iter().copied()),
        };
        let broken = of_ends.or(of_devices);
        let Some((at, value)) = broken.or_else(|| self.most_broken(values, 0..self.whole.len())) else {
            return Vec::new();
        };
        let (most, more) = (value.floor(), value.ceil());
        let first = at - at % self.devices;
        let devices = first..first + self.devices;
        let is_known = devices.clone().any(|other| limits_of(other)[0] >= more);
        let several = if of_devices.is_some() && !is_known {
            devices
        } else {
            at..at + 1
        };
        let (mut parts, mut none) = (Vec::new(), limits.clone());
        for other in several.filter(|&other| limits_of(other)[1] >= more) {
            let [own_least, own_most] = limits_of(other);
            let mut part = none.clone();
            part.insert(other, [more, own_most]);
            parts.push(part);
            // Whoever comes later is the first, or there is none.
            none.insert(other, [own_least, most]);
        }
        parts.push(none);
        parts
    }

    /// The parts of a part that hold all its whole solutions but one.
    pub(crate) fn others(&self, values: &[f64], limits: &Limits) -> Vec<Limits> {
        let (mut parts, mut same) = (Vec::new(), limits.clone());
        for at in 0..self.whole.len() {
            let [least, most] = limits.get(&at).copied().unwrap_or([0.0, self.most(at)]);
            let value = self.whole(at).value(values).round();
            for other in [[least, value - 1.0], [value + 1.0, most]] {
                if other[0] <= other[1] {
                    let mut part = same.clone();
                    part.insert(at, other);
                    parts.push(part);
                }
            }
            same.insert(at, [value, value]);
        }
        parts
    }

    /// The column of whole items among some that is farthest from whole in a solution, with its value.
    fn most_broken(&self, values: &[f64], among: impl Iterator<Item = usize>) -> Option<(usize, f64)> {
        /// More than a solver's tolerance.
        const WHOLE: f64 = 1e-5;
        let off = |value: f64| (value - value.round()).abs();
        let valued = among.map(|at| (at, self.whole(at).value(values)));
        let farthest = valued.max_by(|one, other| off(one.1).total_cmp(&off(other.1)));
        farthest.filter(|(_, value)| off(*value) > WHOLE)
    }

    /// Family `total`: how many items a device holds that take as long as those of a kind, as a column of its own.
    fn totals(&mut self, asked: &Asked) {
        let kinds: Vec<usize> = (0..asked.kinds.len())
            .filter(|&k| asked.kinds[k].is_whole)
            .collect();
        for &k in &kinds {
            let among = asked.as_long_as(k);
            let most = asked.count_of(&among) as f64;
            for (d, chunks) in asked.chunks_of.iter().enumerate() {
                let name = format!("total[{},{}]", k + 1, d + 1);
                let total = self
                    .program
                    .declare(variable().bounds(0.0..=most).name(name.clone()));
                let mut sum = Expression::default();
                let held = among.iter().flat_map(|&k| chunks.iter().map(move |&c| (k, c)));
                held.for_each(|held| self.add_items(held, &mut sum, 1.0));
                self.program.add_equality(name, sum, total.expression());
                if asked.is_many(k) {
                    self.many.push(self.whole.len());
                }
                self.whole.push((total, most));
            }
        }
        for &k in &kinds {
            let most = asked.kinds[k].count as f64;
            let counts = self.counts[self.ways_of[k].clone()].iter().flatten();
            let counts: Vec<(Column, f64)> = counts.map(|&count| (count, most)).collect();
            if asked.ends.contains(&k) {
                self.ends
                    .extend(self.whole.len()..self.whole.len() + counts.len());
            }
            self.whole.extend(counts);
        }
    }

    /// Family `items`: all items of a kind lie in some chunk.
    fn all_items(&mut self, asked: &Asked) {
        for (k, kind) in asked.kinds.iter().enumerate() {
            let mut sum = Expression::default();
            (0..asked.beside_ns.len()).for_each(|c| self.add_items((k, c), &mut sum, 1.0));
            let all = Expression::from(kind.count as f64);
            self.program.add_equality(format!("items[{}]", k + 1), sum, all);
        }
    }

    /// Family `order`: what the first chunks hold of two kinds.
    fn lines(&mut self, asked: &Asked) {
        for (at, line) in asked.lines.iter().enumerate() {
            let scale = line.most.abs().max(1.0);
            let mut held = Expression::default();
            for c in 0..asked.beside_ns.len() - 1 {
                for (kind, weight) in line.kinds.into_iter().zip(line.weights) {
                    self.add_items((kind, c), &mut held, weight / scale);
                }
                let name = format!("order[{},{}]", at + 1, c + 1);
                self.program
                    .add_row(name, held.clone(), (line.most / scale).into());
            }
        }
    }

    /// Family `least`: what a chunk holds at least.
    fn least(&mut self, asked: &Asked) {
        for (at, least) in asked.least.iter().enumerate() {
            let mut held = Expression::default();
            for &(kind, weight) in &least.weights {
                self.add_items((kind, least.chunk), &mut held, weight);
            }
            self.program
                .add_row(format!("least[{}]", at + 1), least.least.into(), held);
        }
    }

    /// Family `device`: as many items of a kind, and of those that take longer, as a device has time for in an iteration of interest.
    fn devices(&mut self, asked: &Asked) {
        for (d, chunks) in asked.chunks_of.iter().enumerate() {
            for (k, kind) in asked.kinds.iter().enumerate() {
                let least_ns = asked.own_ns(d, kind);
                let is_among = |other: &usize| {
                    let other = &asked.kinds[*other];
                    other.is_whole && asked.own_ns(d, other) >= least_ns
                };
                let among: Vec<usize> = (0..asked.kinds.len()).filter(is_among).collect();
                let count = asked.count_of(&among);
                let most = asked.most_on(d, &among, asked.at_most_ns);
                if kind.is_whole && least_ns > 0.0 && most < count as f64 {
                    let mut held = Expression::default();
                    let counts = among
                        .iter()
                        .flat_map(|&other| chunks.iter().map(move |&c| (other, c)));
                    counts.for_each(|(other, c)| self.add_items((other, c), &mut held, 1.0));
                    let name = format!("device[{},{}]", d + 1, k + 1);
                    self.program.add_row(name, held, most.into());
                }
            }
        }
    }

    /// Family `room`: what a device holds when some counts of micro-batches are in flight together.
    fn rooms(&mut self, asked: &Asked) {
        /// Bytes are whole, and their sums rounded.
        const ROUNDING: f64 = 1e-9;
        for (at, room) in asked.rooms.iter().enumerate() {
            let scale = room.most_bytes.max(1.0);
            let mut held = Expression::default();
            let of_chunk = |&(c, in_flight): &(usize, f64)| {
                let ways = asked.ways().enumerate();
                ways.map(move |(row, way)| (row, c, way.bytes[0] + in_flight * way.bytes[1]))
            };
            let own = room.in_flight.iter().flat_map(of_chunk);
            for (row, c, bytes) in own.filter(|&(.., bytes)| bytes > 0.0) {
                self.counts[row][c].add_to(&mut held, bytes / scale);
            }
            let most = room.most_bytes / scale + ROUNDING;
            self.program
                .add_row(format!("room[{}]", at + 1), held, most.into());
        }
    }

    /// Family `path`: no iteration is shorter than what follows each other in it.
    pub(crate) fn path(&self, asked: &Asked, path: &Path) -> Cut {
        let scale_ns = self.program.scale_ns;
        let (mut coefficients, mut beside) = (vec![(self.iteration, -1.0)], 0.0);
        for (c, often) in path.often.iter().enumerate() {
            let ns =
                |times: &ChunkTimes| -> f64 { often.iter().zip(times).map(|(often, ns)| often * ns).sum() };
            beside += ns(&asked.beside_ns[c]) / scale_ns;
            for (row, way) in asked.ways().enumerate() {
                let own = ns(&way.times_ns[c]) / scale_ns;
                if own > 0.0 {
                    coefficients.push((self.counts[row][c], own));
                }
            }
        }
        Cut {
            coefficients,
            most: -beside,
        }
    }
}

/// What is done for each micro-batch.
fn in_turn(times: &ChunkTimes) -> impl Iterator<Item = f64> + use<> {
    let [forward, input, weight, _] = *times;
    [forward, input, weight].into_iter()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Two chunks of a device, kinds of which a chunk holds some, and what it has memory for; some rows say what chunks hold at least.
    fn draw(rng: &mut ChaCha8Rng) -> Asked {
        let mut number = |from: u32, to: u32| f64::from(rng.random_range(from..=to));
        let mut kind = || Kind {
            ways: vec![KindWay {
                times_ns: vec![[number(1, 3), number(0, 2), 0.0, 0.0]; 2],
                bytes: [number(0, 3), number(0, 3)],
            }],
            count: 3,
            is_whole: true,
        };
        let kinds: Vec<Kind> = (0..3).map(|_| kind()).collect();
        let mut least = |chunk: usize| {
            let kinds = [vec![0, 1], vec![2], vec![0, 1, 2], vec![1]][number(0, 3) as usize].clone();
            Least {
                chunk,
                weights: kinds.into_iter().map(|kind| (kind, number(1, 2))).collect(),
                least: number(1, 2),
            }
        };
        let least = vec![least(0), least(1), least(0), least(1)];
        Asked {
            kinds,
            least,
            chunks_of: vec![vec![0, 1]],
            beside_ns: vec![[0.0; 4]; 2],
            lead_ns: vec![0.0],
            rooms: vec![Room {
                in_flight: vec![(0, number(0, 3)), (1, number(0, 3))],
                most_bytes: number(10, 60),
            }],
            micro_batches: 1,
            ..Asked::default()
        }
    }

    /// The most items of some kinds in chunks that keep to all rows, memory and a time, of all counts up to three; `None` where nothing keeps to them.
    fn most_of_all(asked: &Asked, kinds: &[usize], ns: f64) -> Option<f64> {
        let counts = (0..4usize.pow(6)).map(|code| -> Vec<f64> {
            let digit = |at: usize| (code / 4usize.pow(at as u32) % 4) as f64;
            (0..6).map(digit).collect()
        });
        let keeps = |counts: &Vec<f64>| {
            let sum = |of: &dyn Fn(usize, usize) -> f64| -> f64 {
                (0..6).map(|at| counts[at] * of(at / 3, at % 3)).sum()
            };
            let holds = |row: &Least| {
                let own = row.weights.iter();
                own.map(|&(kind, weight)| weight * counts[3 * row.chunk + kind])
                    .sum::<f64>()
                    >= row.least
            };
            let (room, ways) = (&asked.rooms[0], |kind: usize| &asked.kinds[kind].ways[0]);
            sum(&|chunk, kind| ways(kind).bytes[0] + room.in_flight[chunk].1 * ways(kind).bytes[1])
                <= room.most_bytes
                && sum(&|chunk, kind| in_turn(&ways(kind).times_ns[chunk]).sum()) <= ns
                && asked.least.iter().all(holds)
        };
        let own = |counts: Vec<f64>| -> f64 {
            let own = kinds.iter().flat_map(|&kind| [counts[kind], counts[3 + kind]]);
            own.sum()
        };
        counts.filter(keeps).map(own).reduce(f64::max)
    }

    #[test]
    fn devices_hold_no_more_than_they_have_time_and_memory_for() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut compared, mut reached) = (0, 0);
        for _ in 0..400 {
            let asked = draw(&mut rng);
            let kinds = [vec![0], vec![0, 1], vec![2], vec![0, 1, 2]][rng.random_range(0..4)].clone();
            let ns = f64::from(rng.random_range(5..40));
            let Some(best) = most_of_all(&asked, &kinds, ns) else {
                continue;
            };
            let most = asked.most_on(0, &kinds, ns);
            assert!(most >= best, "{most}, {best}: {asked:?} {kinds:?} {ns}");
            compared += 1;
            reached += usize::from(most == best);
        }
        assert!(compared > 150 && 3 * reached > compared, "{compared} {reached}");
    }
}
