//! Chains, device by device: where in each round the runs of every device end.
//!
//! The order of a chain leaves no choice but where it is cut. If it is known where every round begins, a device needs to know no more
//! of the devices before it than where their runs ended, one place a round: no loads, since they are done. See the page's *Chains*.

use super::bounds;
use crate::exact::busy_times::paid;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// Rounds that are looked at: places are packed into one number.
const MOST_ROUNDS: usize = 6;
const BITS_OF_A_PLACE: u32 = 20;

/// Steps between two looks at the clock, some ten milliseconds.
const STEPS_BETWEEN_LOOKS: u64 = 1 << 16;

/// A chain of items, of which every prefix can be added up.
pub(super) struct Chain<'a> {
    problem: &'a Problem,
    /// Work, bytes held for good, and bytes for each micro-batch in flight, of the first so many items.
    work_ns: Vec<u64>,
    base_bytes: Vec<u64>,
    stash_bytes: Vec<u64>,
    /// What each side pays at a cut before an item for transfers from the item before to it alone: load, link in, link out.
    paid_ns: Vec<[[u64; 3]; 2]>,
    /// Transfers that skip items, or go to several.
    skips: Vec<usize>,
}

impl<'a> Chain<'a> {
    /// The chain of a problem, if every item must lie before the next.
    pub(super) fn of(problem: &'a Problem) -> Option<Self> {
        let n = problem.items.len();
        let follows = |item: usize| {
            let next = (item as u32 + 1).into();
            problem.order.contains_edge((item as u32).into(), next)
        };
        if n >= 1 << BITS_OF_A_PLACE || !(0..n.saturating_sub(1)).all(follows) {
            return None;
        }
        let sums = |of: &dyn Fn(usize) -> u64| -> Vec<u64> {
            let mut sums = vec![0];
            (0..n).for_each(|item| sums.push(sums[item] + of(item)));
            sums
        };
        let mut paid_ns = vec![[[0; 3]; 2]; n + 1];
        let mut skips = Vec::new();
        for (t, transfer) in problem.transfers.iter().enumerate() {
            if transfer.consumers != [transfer.producer + 1] {
                skips.push(t);
                continue;
            }
            for side in [Side::Producer, Side::Consumer] {
                let sum = &mut paid_ns[transfer.producer + 1][side as usize];
                let paid = paid(problem, t)[side as usize];
                (0..3).for_each(|resource| sum[resource] += paid[resource]);
            }
        }
        Some(Self {
            problem,
            work_ns: sums(&|item| problem.items[item].work_ns()),
            base_bytes: sums(&|item| problem.items[item].base_bytes),
            stash_bytes: sums(&|item| problem.items[item].stash_bytes),
            paid_ns,
            skips,
        })
    }

    /// Items.
    pub(super) fn items(&self) -> usize {
        self.problem.items.len()
    }

    /// Work of the items between two cuts.
    pub(super) fn work_ns(&self, from: usize, to: usize) -> u64 {
        self.work_ns[to] - self.work_ns[from]
    }

    /// What each side pays at the cut before an item, to load, link in and link out.
    pub(super) fn paid_ns(&self, cut: usize) -> [[u64; 3]; 2] {
        self.paid_ns[cut]
    }

    /// Whether some transfer skips items, or goes to several.
    pub(super) fn has_skips(&self) -> bool {
        !self.skips.is_empty()
    }

    /// Whether every chunk must hold an item.
    pub(super) fn all_stages(&self) -> bool {
        self.problem.settings.all_stages
    }

    /// What either side of any cut pays at least, where cuts cost load; `None` where some cut is free.
    pub(super) fn least_paid_ns(&self) -> Option<u64> {
        let cuts = &self.paid_ns[1..self.problem.items.len().max(1)];
        let sides = cuts.iter().flatten().map(|paid| paid[0]);
        sides.min().filter(|&ns| ns > 0)
    }

    /// The busiest of load, link in and link out of a device that holds these runs of items, in their order; none of them overlap.
    fn bottleneck_ns(&self, runs: &[(usize, usize)]) -> u64 {
        let n = self.problem.items.len();
        let mut busy = [0; 3];
        let mut at = 0;
        let filled: Vec<(usize, usize)> = runs.iter().copied().filter(|run| run.0 < run.1).collect();
        while at < filled.len() {
            let (from, mut to) = filled[at];
            at += 1;
            // Runs that meet exchange nothing.
            while at < filled.len() && filled[at].0 == to {
                to = filled[at].1;
                at += 1;
            }
            busy[0] += self.work_ns[to] - self.work_ns[from];
            let sides = [(from, Side::Consumer), (to, Side::Producer)];
            for (cut, side) in sides.into_iter().filter(|&(cut, _)| 0 < cut && cut < n) {
                (0..3).for_each(|resource| busy[resource] += self.paid_ns[cut][side as usize][resource]);
            }
        }
        let holds = |item: usize| filled.iter().any(|&(from, to)| from <= item && item < to);
        for &t in &self.skips {
            let transfer = &self.problem.transfers[t];
            let all = transfer.consumers.iter().all(|&to| holds(to));
            let some = transfer.consumers.iter().any(|&to| holds(to));
            let side = match (holds(transfer.producer), all, some) {
                (true, false, _) => Side::Producer,
                (false, _, true) => Side::Consumer,
                _ => continue,
            };
            let paid = paid(self.problem, t)[side as usize];
            (0..3).for_each(|resource| busy[resource] += paid[resource]);
        }
        busy.into_iter().max().unwrap_or(0)
    }

    /// Whether a chunk may hold a run of items. If not, it may hold no longer one.
    fn may_be_chunk(&self, (from, to): (usize, usize)) -> bool {
        let is_free = self.problem.confined.is_none();
        is_free || self.problem.admits_together(&(from..to).collect::<Vec<_>>())
    }

    /// Whether a device has room for runs of items, whatever of them is in flight together.
    fn fits(&self, of: &VirtualStages, device: usize, runs: &[(usize, usize)]) -> bool {
        let Some(limit) = self.problem.settings.memory_limit else {
            return true;
        };
        of.in_flight[device].iter().all(|counts| {
            let held = runs.iter().zip(counts).map(|(&(from, to), count)| {
                let stash = self.stash_bytes[to] - self.stash_bytes[from];
                self.base_bytes[to] - self.base_bytes[from] + count * stash
            });
            held.sum::<u64>() <= limit
        })
    }
}

/// The places of all rounds, packed.
type Places = u128;

/// A search for plans of at most a period.
pub(super) struct ChainSearch<'a> {
    chain: &'a Chain<'a>,
    of: &'a VirtualStages,
    control: &'a Control<'a>,
    /// Chunks of a device.
    rounds: usize,
    /// Steps that are left.
    left: u64,
    period_ns: u64,
    /// What the devices behind each can do.
    behind_ns: Vec<u64>,
    /// Where rounds begin, and the number of items.
    begins: Vec<usize>,
}

/// States of a device, in order, each with the one that led to it.
type Reached = Vec<(Places, Places)>;

impl<'a> ChainSearch<'a> {
    /// A search that gives up after so many steps; `None` for more rounds than it can take.
    pub(super) fn new(
        chain: &'a Chain<'a>,
        of: &'a VirtualStages,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Option<Self> {
        let rounds = of.chunks() / of.devices;
        (rounds <= MOST_ROUNDS).then(|| Self {
            chain,
            of,
            control,
            rounds,
            left: most_steps,
            period_ns: 0,
            behind_ns: Vec::new(),
            begins: Vec::new(),
        })
    }

    /// Looks for a plan of at most so long a period.
    pub(super) fn within(&mut self, period_ns: u64) -> Answer {
        self.period_ns = period_ns;
        self.behind_ns = bounds::behind_ns(self.chain, self.of, period_ns);
        self.begins = vec![0];
        Answer::within(period_ns, self.place_rounds())
    }

    /// Tries every place where the next round may begin, and the devices once all rounds have one.
    fn place_rounds(&mut self) -> Result<Option<Assignment>, StoppedBy> {
        let n = self.chain.problem.items.len();
        let from = self.begins[self.begins.len() - 1];
        if self.begins.len() == self.rounds {
            self.begins.push(n);
            let found = match self.round_may_be(from, n) {
                true => self.along_devices(),
                false => Ok(None),
            };
            self.begins.pop();
            return found;
        }
        for begin in from..=n {
            if !self.round_may_be(from, begin) {
                continue;
            }
            self.begins.push(begin);
            let found = self.place_rounds();
            self.begins.pop();
            if !matches!(found, Ok(None)) {
                return found;
            }
        }
        Ok(None)
    }

    /// Whether a round may hold these items: devices have time for them, and all have one where all chunks must.
    fn round_may_be(&self, from: usize, to: usize) -> bool {
        let work_ns = self.chain.work_ns[to] - self.chain.work_ns[from];
        let is_long = work_ns > self.period_ns.saturating_mul(self.of.devices as u64);
        let is_short = self.chain.problem.settings.all_stages && to - from < self.of.devices;
        !is_long && !is_short
    }

    /// Whether a round goes through the devices backwards.
    fn goes_back(&self, round: usize) -> bool {
        self.of.devices > 1 && self.of.device_of[round * self.of.devices] != 0
    }

    /// Where a round has come to before the first device and behind the last.
    fn ends(&self, round: usize) -> [usize; 2] {
        let [from, to] = [self.begins[round], self.begins[round + 1]];
        if self.goes_back(round) {
            [to, from]
        } else {
            [from, to]
        }
    }

    /// Gives every device its runs, from each state that those before it lead to.
    fn along_devices(&mut self) -> Result<Option<Assignment>, StoppedBy> {
        let all = |end: usize| pack((0..self.rounds).map(|round| self.ends(round)[end]));
        let (start, goal) = (all(0), all(1));
        let mut reached: Vec<Reached> = vec![vec![(start, start)]];
        for device in 0..self.of.devices {
            let mut next = Reached::new();
            for &(state, _) in &reached[device] {
                let places = unpack(state, self.rounds);
                let left_ns: Vec<u64> = (0..self.rounds)
                    .map(|round| self.left_ns(round, places[round]))
                    .collect();
                let mut runs = Runs {
                    device,
                    state,
                    needed_ns: left_ns.iter().sum::<u64>().saturating_sub(self.behind_ns[device]),
                    open_ns: left_ns.iter().sum(),
                    left_ns,
                    places,
                    runs: Vec::with_capacity(self.rounds),
                    work_ns: 0,
                };
                self.take_runs(&mut runs, &mut next)?;
            }
            if next.is_empty() {
                return Ok(None);
            }
            // The first way to a state is kept.
            next.sort_unstable();
            next.dedup_by_key(|way| way.0);
            reached.push(next);
        }
        let is_there = reached[self.of.devices].iter().any(|way| way.0 == goal);
        Ok(is_there.then(|| self.unwind(&reached, goal)))
    }

    /// Work of a round that is left at a place.
    fn left_ns(&self, round: usize, place: usize) -> u64 {
        let end = self.ends(round)[1];
        self.chain.work_ns(place.min(end), place.max(end))
    }

    /// Tries every run of the next round, and keeps the state once every round has one.
    ///
    /// What the devices behind cannot do, this one must: runs are so long at least that those of the rounds to come can make up for it.
    fn take_runs(&mut self, runs: &mut Runs, next: &mut Reached) -> Result<(), StoppedBy> {
        self.control.take_step(&mut self.left, STEPS_BETWEEN_LOOKS)?;
        let round = runs.runs.len();
        if round == self.rounds {
            if self.may_keep(runs) {
                next.push((pack(runs.places.iter().copied()), runs.state));
            }
            return Ok(());
        }
        let place = runs.places[round];
        let end = self.ends(round)[1];
        let behind = self.of.devices - 1 - runs.device;
        let must_hold = usize::from(self.chain.problem.settings.all_stages);
        let left = place.abs_diff(end);
        runs.open_ns -= runs.left_ns[round];
        let least_ns = runs.needed_ns.saturating_sub(runs.work_ns + runs.open_ns);
        let least = if behind == 0 {
            left
        } else {
            self.least_size([place, end], least_ns)
        };
        for size in least.max(must_hold)..=left {
            if left - size < must_hold * behind {
                break;
            }
            let (to, run) = match place <= end {
                true => (place + size, (place, place + size)),
                false => (place - size, (place - size, place)),
            };
            let work_ns = self.chain.work_ns(run.0, run.1);
            if runs.work_ns + work_ns > self.period_ns || !self.chain.may_be_chunk(run) {
                break;
            }
            runs.runs.push(run);
            runs.places[round] = to;
            runs.work_ns += work_ns;
            let taken = self.take_runs(runs, next);
            runs.work_ns -= work_ns;
            runs.places[round] = place;
            runs.runs.pop();
            taken?;
        }
        runs.open_ns += runs.left_ns[round];
        Ok(())
    }

    /// The fewest items from a place on towards an end that take so long; one more than there are where all take less.
    fn least_size(&self, [place, end]: [usize; 2], least_ns: u64) -> usize {
        let sums = &self.chain.work_ns;
        if place <= end {
            let enough = sums[place] + least_ns;
            sums[place..=end].partition_point(|&sum| sum < enough)
        } else {
            let behind = sums[end..=place].partition_point(|&sum| sum + least_ns <= sums[place]);
            place - end + 1 - behind
        }
    }

    /// Whether a device can have its runs, and does enough for the devices behind it to have time for the rest.
    fn may_keep(&self, runs: &Runs) -> bool {
        runs.work_ns >= runs.needed_ns
            && self.chain.bottleneck_ns(&runs.runs) <= self.period_ns
            && self.chain.fits(self.of, runs.device, &runs.runs)
    }

    /// The plan that leads to the goal.
    fn unwind(&self, reached: &[Reached], goal: Places) -> Assignment {
        let mut assignment = vec![0; self.chain.problem.items.len()];
        let mut after = goal;
        for device in (0..self.of.devices).rev() {
            let ways = &reached[device + 1];
            let at = ways.binary_search_by_key(&after, |way| way.0);
            let before = at.map_or(after, |at| ways[at].1);
            let places = unpack(before, self.rounds)
                .into_iter()
                .zip(unpack(after, self.rounds));
            for ((from, to), &chunk) in places.zip(&self.of.chunks_of[device]) {
                assignment[from.min(to)..from.max(to)].fill(chunk);
            }
            after = before;
        }
        assignment
    }
}

/// The runs that a device is given.
struct Runs {
    device: usize,
    /// Where the devices before it have come to.
    state: Places,
    /// What the device must do.
    needed_ns: u64,
    /// Work that is left of every round, and of those that have no run yet.
    left_ns: Vec<u64>,
    open_ns: u64,
    /// Where this device comes to.
    places: Vec<usize>,
    /// Its runs of the first rounds.
    runs: Vec<(usize, usize)>,
    work_ns: u64,
}

fn pack(places: impl Iterator<Item = usize>) -> Places {
    places.fold(0, |packed, place| packed << BITS_OF_A_PLACE | place as Places)
}

fn unpack(mut packed: Places, rounds: usize) -> Vec<usize> {
    let mut places = vec![0; rounds];
    for place in places.iter_mut().rev() {
        *place = (packed & ((1 << BITS_OF_A_PLACE) - 1)) as usize;
        packed >>= BITS_OF_A_PLACE;
    }
    places
}
