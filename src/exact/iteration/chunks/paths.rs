//! Bounds and plans of the program of critical paths: `formulations/critical_paths.md`.

use std::sync::Arc;

use super::asked;
use super::branch::Tree;
use super::options::ChunkOptions;
use super::ranges;
use crate::exact::bounds::integral_bound;
use crate::exact::incumbent::Incumbent;
use crate::formulations::critical_paths::{Asked, PathProgram};
use crate::formulations::solver::{self, Cut, GrowingProgram, Solved, SolverError, Stop};
use crate::heuristics::orders;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::virtual_stages::chunk_times;
use crate::problem::pipeline::{ChunkTimes, Path};

/// Paths that are kept, and those that a run adds.
const MOST_PATHS: usize = 2_000;
const PATHS_OF_A_RUN: usize = 4;

/// Rounds of a search with items in parts.
const MOST_ROUNDS: usize = 400;
/// How far from the best point that is known to a solution paths are looked for.
const OUTWARD: [f64; 3] = [1.0, 0.5, 0.2];
/// A path is of interest if it is longer than the bound by such a part.
const LONGER: f64 = 1e-7;

/// What the items of a problem are to the program.
pub(super) struct PathSearch<'a> {
    options: Arc<dyn ChunkOptions + 'a>,
    pub(super) asked: Asked,
    /// The kind of every item, where it is whole.
    kind_of: Vec<Option<usize>>,
    /// Items in the order in which solutions are cut.
    order: Vec<usize>,
    /// How near to what is proved times are asked for.
    pub(super) nearer: u64,
    /// How far whole items have been looked at.
    tree: Option<Tree>,
}

impl<'a> PathSearch<'a> {
    /// `None` where no iteration is asked for.
    pub(super) fn new(options: Arc<dyn ChunkOptions + 'a>) -> Option<Self> {
        options.laid().sequence.as_ref()?;
        let order = orders::by_number(options.row());
        let (asked, kind_of) = asked::ask(&*options, &order);
        Some(Self {
            asked,
            kind_of,
            options,
            order,
            nearer: ranges::NEAREST,
            tree: None,
        })
    }

    /// Raises the bound and offers the plans of solutions, until no path is missing or a limit comes.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    ///
    /// * `is_whole`: whether items are;
    /// * `beat_ns`: plans that take longer are of no interest.
    pub(super) fn run(
        &mut self,
        incumbent: &mut Incumbent,
        is_whole: bool,
        (beat_ns, all): (u64, &Control),
    ) -> Result<(), SolverError> {
        self.asked.is_whole = is_whole;
        self.take_first_paths();
        let mut run = PathRun {
            search: self,
            incumbent,
            beat_ns,
            all,
        };
        match is_whole {
            false => run.in_parts(),
            true => run.whole(),
        }
    }

    /// Takes paths to begin with, where none is known.
    pub(super) fn take_first_paths(&mut self) {
        if self.asked.paths.is_empty() {
            self.take_paths_of_even_chunks();
        }
    }

    /// Takes the paths of even chunks, and of those where one device has more to do than the others: between them lies what any plan waits for.
    fn take_paths_of_even_chunks(&mut self) {
        /// What the device has for one of the others.
        const MORE: f64 = 1.5;
        let chunks = self.asked.beside_ns.len();
        // Each item in its first way.
        let even = self.asked.kinds.iter().flat_map(|kind| {
            let each = kind.count as f64 / chunks as f64;
            (0..kind.ways.len()).map(move |way| vec![if way == 0 { each } else { 0.0 }; chunks])
        });
        let even: Vec<Vec<f64>> = even.collect();
        let times_ns = self.times_ns(&even);
        self.take_paths(&times_ns, 0.0);
        for device in 0..self.asked.chunks_of.len() {
            let mut uneven_ns = times_ns.clone();
            for &chunk in &self.asked.chunks_of[device] {
                uneven_ns[chunk].iter_mut().for_each(|ns| *ns *= MORE);
            }
            self.take_paths(&uneven_ns, 0.0);
        }
    }

    /// No plan takes longer if all that a device waits for is work.
    pub(super) fn longest_ns(&self) -> f64 {
        let row = self.options.row();
        let beside_ns: f64 = self.asked.beside_ns.iter().flatten().sum();
        let once_ns: f64 = (0..row.items.len()).map(|item| self.options.once_ns(item)).sum();
        (2 * self.asked.micro_batches) as f64 * (self.options.most_ns() as f64 + beside_ns) + once_ns
    }

    /// What devices need at least to hold all items that take as long as those of a kind, in ns: `u64::MAX` where they have no memory.
    pub(super) fn least_ns(&self) -> u64 {
        self.asked.least_ns(self.longest_ns() as u64)
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

    /// Takes the longest paths of chunks of such times that are longer than a bound; the longest time, and whether there was a new one.
    fn take_paths(&mut self, times_ns: &[ChunkTimes], bound_ns: f64) -> (f64, bool) {
        let before = self.asked.paths.len();
        let sequence = self.options.laid().sequence.as_ref();
        let mut paths = sequence.map_or_else(Vec::new, |sequence| sequence.longest_paths(times_ns));
        paths.sort_by(|a, b| b.length_ns.total_cmp(&a.length_ns));
        let longest_ns = paths.first().map_or(0.0, |path| path.length_ns);
        for path in paths.into_iter().take(PATHS_OF_A_RUN) {
            let is_known = |other: &Path| other.often == path.often;
            if path.length_ns > bound_ns * (1.0 + LONGER) && !self.asked.paths.iter().any(is_known) {
                self.asked.paths.push(path);
            }
        }
        let is_new = self.asked.paths.len() > before && self.asked.paths.len() < MOST_PATHS;
        (longest_ns, is_new)
    }

    /// Takes paths that are missing at a solution, and between it and the best point that is known; whether there was a new one.
    ///
    /// The solutions of few paths lie at far corners, whose paths say little of the middle (W. Ben-Ameur and J. Neto, *Acceleration of cutting-plane and
    /// column generation algorithms: applications to network design*, Networks 49, 2007).
    pub(super) fn separate(
        &mut self,
        counts: &[Vec<f64>],
        inside: &mut Option<Inside>,
        bound_ns: f64,
    ) -> bool {
        let known = inside.as_ref().map(|inside| inside.counts.clone());
        let mut is_new = false;
        for outward in OUTWARD {
            let point = match &known {
                Some(known) => between(known, counts, outward),
                None => counts.to_vec(),
            };
            let (longest_ns, is_taken) = self.take_paths(&self.times_ns(&point), bound_ns);
            is_new |= is_taken;
            if inside
                .as_ref()
                .is_none_or(|inside| longest_ns < inside.longest_ns)
            {
                *inside = Some(Inside {
                    counts: point,
                    longest_ns,
                });
            }
        }
        is_new
    }

    fn times_ns(&self, counts: &[Vec<f64>]) -> Vec<ChunkTimes> {
        let mut times_ns = self.asked.beside_ns.clone();
        for (way, counts) in self.asked.ways().zip(counts) {
            for ((times, count), own) in times_ns.iter_mut().zip(counts).zip(&way.times_ns) {
                (0..4).for_each(|part| times[part] += count * own[part]);
            }
        }
        times_ns
    }

    /// The program with all paths that are known.
    pub(super) fn program(&self) -> PathProgram {
        PathProgram::build(&self.asked)
    }

    /// The most items that take as long as those of a kind on a device in plans of interest that take so long at most, in ns, as far as that is known.
    pub(super) fn most_on(&self, (kind, device): (usize, usize), ns: u64) -> f64 {
        let at = kind * self.asked.chunks_of.len() + device;
        let by_time = self
            .asked
            .most_on(device, &self.asked.as_long_as(kind), ns as f64);
        let known = self.tree.as_ref().map(|tree| tree.totals.most_within(at, ns));
        by_time.min(known.unwrap_or(f64::INFINITY))
    }

    /// How many paths are known.
    pub(super) fn paths(&self) -> usize {
        self.asked.paths.len()
    }

    /// The rows of paths, from one on.
    pub(super) fn cuts(&self, built: &PathProgram, from: usize) -> Vec<Cut> {
        let new = self.asked.paths[from..].iter();
        new.map(|path| built.path(&self.asked, path)).collect()
    }

    /// Takes the paths of such counts that are longer than a bound; whether there was a new one.
    pub(super) fn take_missing(&mut self, counts: &[Vec<f64>], bound_ns: f64) -> bool {
        self.take_paths(&self.times_ns(counts), bound_ns).1
    }

    /// Offers the plans nearest to such counts: in the ways that devices choose by themselves, and in those that the counts say.
    pub(super) fn offer(&self, incumbent: &mut Incumbent, counts: &[Vec<f64>]) {
        let assignment = self.cut(counts);
        incumbent.offer_some(self.options.plan(assignment.clone()));
        if self.asked.kinds.iter().any(|kind| kind.ways.len() > 1) {
            let ways = self.ways_near(counts, &assignment);
            let near = ways.and_then(|ways| self.options.plan_in(&assignment, &ways, true));
            incumbent.offer_some(near);
        }
    }

    /// What the one plan of whole counts takes, in ns, and `u64::MAX` where it does not fit; `None` where there may be several, or none has them. It is offered.
    pub(super) fn only_ns(&self, incumbent: &mut Incumbent, counts: &[Vec<f64>]) -> Option<u64> {
        let plan = self.only_plan(counts)?;
        let ns = incumbent.measure(&plan);
        incumbent.offer_some(ns.map(|_| plan));
        ns.or_else(|| (!self.options.may_fit_otherwise()).then_some(u64::MAX))
    }

    /// The one plan of whole counts; `None` where there may be several, or none has them.
    fn only_plan(&self, counts: &[Vec<f64>]) -> Option<Allocation> {
        let row = self.options.row();
        if !super::is_row(row) || self.kind_of.contains(&None) {
            return None;
        }
        let held = |chunk: usize| counts.iter().map(|counts| counts[chunk].round() as usize).sum();
        let sizes: Vec<usize> = (0..self.options.laid().chunks()).map(held).collect();
        let chunks = sizes.iter().enumerate();
        let in_turn = chunks.flat_map(|(chunk, &size)| std::iter::repeat_n(chunk, size));
        let mut assignment = vec![0; self.order.len()];
        let both = self.order.iter().zip(in_turn);
        both.for_each(|(&item, chunk)| assignment[item] = chunk);
        let mut kinds = vec![vec![0.0; sizes.len()]; self.asked.kinds.len()];
        for (item, &chunk) in assignment.iter().enumerate() {
            kinds[self.kind_of[item]?][chunk] += 1.0;
        }
        let mut asked = vec![vec![0.0; sizes.len()]; kinds.len()];
        for (kind, counts) in self.asked.kind_of_ways().into_iter().zip(counts) {
            let sums = asked[kind].iter_mut().zip(counts);
            sums.for_each(|(sum, count)| *sum += count.round());
        }
        let ways = self.ways_near(counts, &assignment).filter(|_| kinds == asked)?;
        self.options.plan_in(&assignment, &ways, false)
    }

    /// Ways of items that lie so, as near to such counts as whole numbers are: where they have to be rounded, more are slow.
    fn ways_near(&self, counts: &[Vec<f64>], assignment: &Assignment) -> Option<Vec<usize>> {
        /// More than a solver's tolerance.
        const WHOLE: f64 = 1e-5;
        let mut members = vec![vec![Vec::new(); self.options.laid().chunks()]; self.asked.kinds.len()];
        for (item, &chunk) in assignment.iter().enumerate() {
            members[self.kind_of[item]?][chunk].push(item);
        }
        let mut way_of = vec![0; assignment.len()];
        let mut first = 0;
        for (kind, members) in self.asked.kinds.iter().zip(members) {
            let own = &counts[first..first + kind.ways.len()];
            first += kind.ways.len();
            for (chunk, members) in members.iter().enumerate() {
                let all: f64 = own.iter().map(|counts| counts[chunk]).sum();
                let mut left = members.iter();
                for (way, counts) in own.iter().enumerate().rev() {
                    let part = members.len() as f64 * counts[chunk] / all.max(WHOLE);
                    let slow = left.by_ref().take((part - WHOLE).ceil().max(0.0) as usize);
                    slow.for_each(|&item| way_of[item] = way);
                }
            }
        }
        Some(way_of)
    }

    /// Cuts the order where the work before is nearest to that of a solution.
    fn cut(&self, counts: &[Vec<f64>]) -> Assignment {
        // On the device that does it soonest, as the row has it.
        let kinds = self.asked.kinds.iter();
        let works = kinds.flat_map(|kind| vec![kind.soonest_ns(0..3); kind.ways.len()]);
        let works: Vec<f64> = works.collect();
        let mut assignment = vec![0; self.order.len()];
        let (mut end, mut before, mut chunk) = (0.0, 0.0, 0);
        let of_chunk = |chunk: usize| -> f64 {
            let ways = works.iter().zip(counts);
            ways.map(|(work, counts)| work * counts[chunk]).sum()
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

/// Counts of items that all rows but the paths allow.
pub(super) struct Inside {
    counts: Vec<Vec<f64>>,
    /// The longest path of such chunks, in ns.
    longest_ns: f64,
}

/// Counts on the way from some to others.
fn between(from: &[Vec<f64>], to: &[Vec<f64>], part: f64) -> Vec<Vec<f64>> {
    let of_kind = |(from, to): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> {
        let both = from.iter().zip(to);
        both.map(|(from, to)| from + part * (to - from)).collect()
    };
    from.iter().zip(to).map(of_kind).collect()
}

/// A run of a search.
struct PathRun<'r, 's, 'i> {
    search: &'r mut PathSearch<'s>,
    incumbent: &'r mut Incumbent<'i>,
    /// Plans that take longer, in ns, are of no interest.
    beat_ns: u64,
    all: &'r Control<'r>,
}

impl PathRun<'_, '_, '_> {
    /// What a plan of interest takes at most, in ns; `None` where nothing is left to do.
    fn target_ns(&self) -> Option<u64> {
        let target_ns = self.beat_ns.min(self.incumbent.target_ns());
        let is_over = self.incumbent.is_over() || self.incumbent.lower_ns > target_ns;
        (!is_over && self.all.must_stop().is_none()).then_some(target_ns)
    }

    /// The program with all paths that are known, for plans that take so long at most.
    fn build(&mut self, target_ns: u64) -> PathProgram {
        self.search.take_paths_of_plan(self.incumbent);
        self.search.asked.at_most_ns = match target_ns < u64::MAX {
            true => target_ns as f64,
            false => self.search.longest_ns(),
        };
        PathProgram::build(&self.search.asked)
    }

    /// Takes what is proved, and the plan nearest to the solution; its counts and the bound in ns, if there is one.
    fn take(
        &mut self,
        (built, solved): (&PathProgram, &Solved),
        target_ns: u64,
    ) -> Option<(Vec<Vec<f64>>, f64)> {
        if solved.stop == Stop::Infeasible {
            self.incumbent.rule_out(BoundSource::Program, target_ns);
            return None;
        }
        let scale_ns = built.program.scale_ns;
        let bound_ns = integral_bound(solved.bound, scale_ns).min(target_ns);
        let bound_ns = bound_ns.min(self.incumbent.unproved_ns());
        self.incumbent.raise(BoundSource::Program, bound_ns);
        let counts = built.counts(solved.values.as_ref()?);
        self.search.offer(self.incumbent, &counts);
        Some((counts, solved.bound * scale_ns))
    }

    /// With items in parts: one linear program that gains paths.
    fn in_parts(&mut self) -> Result<(), SolverError> {
        let Some(target_ns) = self.target_ns() else {
            return Ok(());
        };
        let built = self.build(target_ns);
        let mut growing = GrowingProgram::new(built.program.clone())?;
        let (mut inside, mut sent) = (None, self.search.asked.paths.len());
        for _ in 0..MOST_ROUNDS {
            if self.target_ns().is_none() {
                break;
            }
            let solved = match growing.solve(self.all) {
                Ok(solved) => solved,
                // It lost its way among the rows: from the start again.
                Err(_) => {
                    let anew = PathProgram::build(&self.search.asked);
                    solver::solve(anew.program, None, None, self.all, &|_| ())?
                }
            };
            let Some((counts, bound_ns)) = self.take((&built, &solved), target_ns) else {
                break;
            };
            let is_new = self.search.separate(&counts, &mut inside, bound_ns);
            // No such bound rises above what some point takes.
            let is_known = |inside: &Inside| inside.longest_ns <= self.incumbent.lower_ns as f64;
            if !is_new || inside.as_ref().is_some_and(is_known) {
                break;
            }
            for cut in self.search.cuts(&built, sent) {
                growing.add(&cut);
            }
            sent = self.search.paths();
        }
        Ok(())
    }

    /// With whole items, by branch and cut.
    fn whole(&mut self) -> Result<(), SolverError> {
        let Some(target_ns) = self.target_ns() else {
            return Ok(());
        };
        let mut tree = match self.search.tree.take() {
            Some(tree) => tree,
            None => {
                let built = self.build(target_ns);
                Tree::new(self.search, built)?
            }
        };
        self.search.take_paths_of_plan(self.incumbent);
        tree.run(self.search, self.incumbent, (self.beat_ns, self.all));
        self.search.tree = Some(tree);
        Ok(())
    }
}
