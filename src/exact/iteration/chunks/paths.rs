//! Bounds and plans of the program of critical paths: `formulations/critical_paths.md`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::options::ChunkOptions;
use crate::exact::bounds::{all_in_one_ns, integral_bound};
use crate::exact::incumbent::Incumbent;
use crate::exact::program_runs::solve_once;
use crate::formulations::critical_paths::{Asked, Kind, Line, PathProgram, Room};
use crate::formulations::solver::{self, SolverError, Stop};
use crate::heuristics::orders;
use crate::model::options::Communication;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::virtual_stages::chunk_times;
use crate::problem::pipeline::{ChunkTimes, Path};

/// Kinds of items that are told apart, lines between two of them, paths that are kept, and those that a run adds.
const MOST_KINDS: usize = 8;
const MOST_LINES: usize = 8;
const MOST_PATHS: usize = 2_000;
const PATHS_OF_A_RUN: usize = 4;

/// Rounds of a search, and of those with whole items branch-and-bound nodes and a share of the time that is left.
const MOST_ROUNDS: [usize; 2] = [150, 40];
const MOST_NODES: u64 = 50_000;
const SHARE_OF_A_ROUND: f64 = 0.6;
/// A path is of interest if it is longer than the bound by such a part, and a solution of whole items if it is as near to the best.
const LONGER: f64 = 1e-7;
const NEAR: f64 = 5e-4;

/// What the items of a problem are to the program.
pub(super) struct PathSearch<'a> {
    options: Rc<dyn ChunkOptions + 'a>,
    asked: Asked,
    /// Items in the order in which solutions are cut.
    order: Vec<usize>,
}

/// Forward pass, gradients of inputs, gradients of weights; then, where memory is limited, bytes for good and in flight; and the time of what is
/// done once, as it is written.
type Parts = [u64; 6];

fn parts(options: &dyn ChunkOptions, at: usize) -> Parts {
    let item = &options.row().items[at];
    let is_limited = options.row().settings.memory_limit.is_some();
    let bytes = [item.base_bytes, item.stash_bytes].map(|bytes| if is_limited { bytes } else { 0 });
    let input_ns = item.backward_ns - item.weight_ns;
    let once = options.once_ns(at).to_bits();
    [
        item.forward_ns,
        input_ns,
        item.weight_ns,
        bytes[0],
        bytes[1],
        once,
    ]
}

fn in_doubles([forward, input, weight, _, _, once]: Parts) -> ChunkTimes {
    [forward as f64, input as f64, weight as f64, f64::from_bits(once)]
}

/// What an item of such parts is busy with.
fn work_ns(parts: &Parts) -> u64 {
    parts[..3].iter().sum()
}

impl<'a> PathSearch<'a> {
    /// `None` where no iteration is asked for.
    pub(super) fn new(of_chunks: Rc<dyn ChunkOptions + 'a>) -> Option<Self> {
        let options = Some(&*of_chunks).filter(|of| of.laid().sequence.is_some())?;
        let (problem, of) = (options.row(), options.laid());
        let mut counts: BTreeMap<Parts, usize> = BTreeMap::new();
        (0..problem.items.len()).for_each(|item| *counts.entry(parts(options, item)).or_default() += 1);
        let mut known: Vec<(u64, Parts, usize)> = counts
            .into_iter()
            .map(|(parts, count)| (count as u64 * work_ns(&parts), parts, count))
            .collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let rest = known.split_off(known.len().min(MOST_KINDS));
        let order = orders::by_number(problem);
        let mut kinds: Vec<Kind> = known
            .iter()
            .map(|&(_, parts, count)| Kind {
                times_ns: in_doubles(parts),
                bytes: [parts[3] as f64, parts[4] as f64],
                count,
                is_whole: true,
            })
            .collect();
        // What each item is to the kinds.
        let mut shares: Vec<Vec<(usize, f64)>> = Vec::new();
        for item in 0..problem.items.len() {
            let own = parts(options, item);
            let of_kind = known.iter().position(|&(_, parts, _)| parts == own);
            shares.push(of_kind.map(|k| (k, 1.0)).into_iter().collect());
        }
        for part in 0..3 {
            let all: u64 = rest
                .iter()
                .map(|&(_, parts, count)| parts[part] * count as u64)
                .sum();
            if all == 0 {
                continue;
            }
            let mut times_ns = [0.0; 4];
            times_ns[part] = all as f64;
            for (item, shares) in shares.iter_mut().enumerate() {
                let own = parts(options, item);
                if rest.iter().any(|&(_, parts, _)| parts == own) {
                    shares.push((kinds.len(), own[part] as f64 / all as f64));
                }
            }
            kinds.push(Kind {
                times_ns,
                bytes: [0.0; 2],
                count: 1,
                is_whole: false,
            });
        }
        let is_row = super::is_row(problem);
        let asked = Asked {
            lines: if is_row {
                lines(&order, &shares, kinds.len())
            } else {
                Vec::new()
            },
            kinds,
            chunks_of: of.chunks_of.clone(),
            beside_ns: beside_ns(options, is_row),
            rooms: rooms(options),
            paths: Vec::new(),
            micro_batches: super::micro_batches(problem),
            at_most_ns: 0.0,
            is_whole: false,
        };
        Some(Self {
            options: of_chunks,
            asked,
            order,
        })
    }

    /// Raises the bound with items in parts, or whole ones, and offers the plans of solutions, until no path is missing or a limit comes.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    ///
    /// * `beat_ns`: plans that take longer are of no interest.
    pub(super) fn run(
        &mut self,
        incumbent: &mut Incumbent,
        is_whole: bool,
        (beat_ns, all): (u64, &Control),
    ) -> Result<(), SolverError> {
        self.asked.is_whole = is_whole;
        let mut gap = NEAR;
        for _ in 0..MOST_ROUNDS[usize::from(is_whole)] {
            let target_ns = beat_ns.min(incumbent.target_ns());
            if incumbent.is_over() || incumbent.lower_ns > target_ns || all.must_stop().is_some() {
                break;
            }
            self.take_paths_of_plan(incumbent);
            self.asked.at_most_ns = match target_ns < u64::MAX {
                true => target_ns as f64,
                false => self.longest_ns(),
            };
            let built = PathProgram::build(&self.asked);
            let scale_ns = built.program.scale_ns;
            let share = if is_whole { SHARE_OF_A_ROUND } else { 1.0 };
            let within = Control {
                gap: if is_whole { gap } else { 0.0 },
                ..super::within(all, share)
            };
            let solved = solve_once(
                incumbent,
                built.program.clone(),
                |bound| bound * scale_ns,
                |program, _, watch| {
                    solver::solve_without_restarts(program, is_whole.then_some(MOST_NODES), &within, watch)
                },
            )?;
            if solved.stop == Stop::Infeasible {
                incumbent.rule_out(BoundSource::Program, target_ns);
                break;
            }
            let bound_ns = integral_bound(solved.bound, scale_ns);
            incumbent.raise(
                BoundSource::Program,
                bound_ns.min(target_ns).min(incumbent.unproved_ns()),
            );
            let Some(values) = solved.values else { break };
            let counts = built.counts(&values);
            incumbent.offer_some(self.options.plan(self.cut(&counts)));
            if !self.take_paths(&self.times_ns(&counts), solved.bound * scale_ns) {
                match is_whole && gap > 0.0 {
                    true => gap = 0.0,
                    false => break,
                }
            }
        }
        Ok(())
    }

    /// No plan takes longer if all that a device waits for is work.
    fn longest_ns(&self) -> f64 {
        let row = self.options.row();
        let beside_ns: f64 = self.asked.beside_ns.iter().flatten().sum();
        let once_ns: f64 = (0..row.items.len()).map(|item| self.options.once_ns(item)).sum();
        (2 * self.asked.micro_batches) as f64 * (all_in_one_ns(row) as f64 + beside_ns) + once_ns
    }

    /// Takes the paths of the best plan.
    fn take_paths_of_plan(&mut self, incumbent: &Incumbent) {
        let Some(plan) = &incumbent.plan else { return };
        let chunks = chunk_times(self.options.row(), self.options.laid(), &plan.assignment);
        let times_ns: Vec<ChunkTimes> = chunks
            .iter()
            .map(|chunk| [chunk.forward_ns, chunk.input_ns, chunk.weight_ns, 0].map(|ns| ns as f64))
            .collect();
        self.take_paths(&times_ns, 0.0);
    }

    /// Takes the longest paths of chunks of such times that are longer than a bound; whether there was a new one.
    fn take_paths(&mut self, times_ns: &[ChunkTimes], bound_ns: f64) -> bool {
        let before = self.asked.paths.len();
        let sequence = self.options.laid().sequence.as_ref();
        let mut paths = sequence.map_or_else(Vec::new, |sequence| sequence.longest_paths(times_ns));
        paths.sort_by(|a, b| b.length_ns.total_cmp(&a.length_ns));
        for path in paths.into_iter().take(PATHS_OF_A_RUN) {
            let is_known = |other: &Path| other.often == path.often;
            if path.length_ns > bound_ns * (1.0 + LONGER) && !self.asked.paths.iter().any(is_known) {
                self.asked.paths.push(path);
            }
        }
        self.asked.paths.len() > before && self.asked.paths.len() < MOST_PATHS
    }

    fn times_ns(&self, counts: &[Vec<f64>]) -> Vec<ChunkTimes> {
        let mut times_ns = self.asked.beside_ns.clone();
        for (kind, counts) in self.asked.kinds.iter().zip(counts) {
            for (times, count) in times_ns.iter_mut().zip(counts) {
                (0..4).for_each(|part| times[part] += count * kind.times_ns[part]);
            }
        }
        times_ns
    }

    /// Cuts the order where the work before is nearest to that of a solution.
    fn cut(&self, counts: &[Vec<f64>]) -> Assignment {
        let work = |kind: &Kind| kind.times_ns[..3].iter().sum::<f64>();
        let mut assignment = vec![0; self.order.len()];
        let (mut end, mut before, mut chunk) = (0.0, 0.0, 0);
        let of_chunk = |chunk: usize| -> f64 {
            let kinds = self.asked.kinds.iter().zip(counts);
            kinds.map(|(kind, counts)| work(kind) * counts[chunk]).sum()
        };
        end += of_chunk(0);
        for &item in &self.order {
            let own = self.options.row().items[item].work_ns() as f64;
            while before + own / 2.0 > end && chunk + 1 < self.options.laid().chunks() {
                chunk += 1;
                end += of_chunk(chunk);
            }
            assignment[item] = chunk;
            before += own;
        }
        assignment
    }
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
fn rooms(options: &dyn ChunkOptions) -> Vec<Room> {
    let (row, of) = (options.row(), options.laid());
    let Some(limit) = row.settings.memory_limit.filter(|_| !row.memory_never_binds()) else {
        return Vec::new();
    };
    let of_device = |(chunks, moments): (&Vec<usize>, &Vec<Vec<u64>>)| -> Vec<Room> {
        let room = |counts: &Vec<u64>| Room {
            in_flight: chunks
                .iter()
                .zip(counts)
                .map(|(&c, &count)| (c, count as f64))
                .collect(),
            most_bytes: (limit - options.spare_bytes_of_row()) as f64
                + (options.spare_bytes() * counts.iter().sum::<u64>()) as f64,
        };
        moments.iter().map(room).collect()
    };
    of.chunks_of
        .iter()
        .zip(&of.in_flight)
        .flat_map(of_device)
        .collect()
}

/// What chunks of a chain pay for transfers at least, where these block and no chunk is empty.
fn beside_ns(options: &dyn ChunkOptions, is_row: bool) -> Vec<ChunkTimes> {
    let (problem, of) = (options.row(), options.laid());
    let backward_ns = options.beside_ns();
    let mut beside = vec![[0.0, backward_ns.unwrap_or(0) as f64, 0.0, 0.0]; of.chunks()];
    let settings = &problem.settings;
    let is_full = settings.all_stages || backward_ns.is_some();
    if !is_row || !is_full || settings.communication != Communication::Blocking {
        return beside;
    }
    let paid = |item: usize| -> [u64; 3] {
        let own = problem.transfers_of[item].iter().map(|&t| &problem.transfers[t]);
        let on = own.filter(|t| t.producer == item && t.consumers.contains(&(item + 1)));
        on.fold([0; 3], |paid, t| {
            [paid[0] + t.forward_ns, paid[1] + t.backward_ns + t.gradient_ns, 0]
        })
    };
    let all: Vec<[u64; 3]> = (0..problem.items.len() - 1).map(paid).collect();
    let least = [0, 1, 2].map(|part| all.iter().map(|paid| paid[part]).min().unwrap_or(0));
    for c in 1..of.chunks() {
        if of.device_of[c] != of.device_of[c - 1] {
            for at in [c - 1, c] {
                (0..3).for_each(|part| beside[at][part] += least[part] as f64);
            }
        }
    }
    beside
}
