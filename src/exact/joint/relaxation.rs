//! The least that chunks alone say of an iteration, from every ideal on: a dynamic program.

use super::crossing::{Crossing, crossing};
use super::{Question, State};
use crate::problem::cost::{self, StageCost};
use crate::problem::plan::StoppedBy;
use crate::problem::{Item, Problem};
use crate::search::ideals::{Ideals, IdealsError};

/// More ideals than this have more chunks between them than can be looked at.
const MOST_IDEALS: usize = 20_000;
/// The most chunks: a quarter of a gigabyte.
const MOST_CHUNKS: usize = 2_000_000;

/// All ideals.
///
/// # Errors
///
/// Too many of them, or a limit.
pub(super) fn ideals(state: &State) -> Result<Ideals, StoppedBy> {
    let control = state.control;
    // Of every number of items there is an ideal.
    if state.problem.items.len() >= MOST_IDEALS {
        return Err(StoppedBy::SizeLimit);
    }
    let stop = || control.must_stop().is_some();
    Ideals::enumerate(state.problem, MOST_IDEALS, &stop).map_err(|error| match error {
        IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
        IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
    })
}

/// What a chunk says of an iteration, from when a micro-batch gets to it: the page's `busy`, `behind` and `rounds`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Its forward pass and the way to the next chunk, in ns.
    pub there_ns: u64,
    /// That, and the way back through it: the gradient of its input.
    pub both_ns: u64,
    /// What counts where nothing comes behind: gradients of weights may be last, in ns.
    pub last_ns: u64,
    /// What counts where the way back through the chunks before comes behind, in ns.
    pub back_ns: u64,
}

/// A chunk that holds the items between two ideals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// The larger ideal.
    pub to: u32,
    /// Where both neighbours lie on other devices.
    apart: Terms,
    /// Where one lies on the same device: nothing is moved there, and nothing is counted for it.
    beside: Terms,
}

/// All chunks between ideals, and the least bounds of cuts that go through each ideal.
pub(super) struct Relaxation<'a> {
    question: &'a Question,
    pub ideals: Ideals,
    /// The chunks that begin at each ideal.
    pub chunks: Vec<Vec<Chunk>>,
    least: Vec<Least>,
}

/// The least bounds of cuts for a number of devices.
struct Least {
    devices: usize,
    /// That of all of them, in ns.
    least_ns: u64,
    /// By chunks left and ideal, the least of [`Terms::last_ns`] and [`Terms::back_ns`] with what lies before.
    tables: [Vec<Vec<u64>>; 2],
}

impl<'a> Relaxation<'a> {
    /// Lists chunks, as far as cuts may be better than the best.
    ///
    /// * `simple`: for every number of devices, what takes no search.
    ///
    /// # Errors
    ///
    /// Too many chunks, or a limit.
    pub(super) fn new(state: &State<'a>, ideals: Ideals, simple: &[(usize, u64)]) -> Result<Self, StoppedBy> {
        let (question, control) = (state.question, state.control);
        let mut relaxation = Self {
            question,
            chunks: vec![Vec::new(); ideals.sets.len()],
            ideals,
            least: Vec::new(),
        };
        relaxation.add_chunks(state)?;
        for &(devices, simple_ns) in simple {
            control.check_limits()?;
            let tables = relaxation.tables(devices);
            let left = devices * question.virtual_stages;
            relaxation.least.push(Least {
                devices,
                least_ns: simple_ns.max(tables[0][left][0]).max(tables[1][left][0]),
                tables,
            });
        }
        Ok(relaxation)
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.ideals.sets.len() - 1
    }

    /// How many devices cuts may have, and what no cut for so many falls below, in ns; `u64::MAX` where there is none.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.least.iter().map(|least| (least.devices, least.least_ns))
    }

    /// What a chunk says as the one that so many come behind, for so many devices.
    pub(super) fn terms<'b>(&self, chunk: &'b Chunk, devices: usize, left: usize) -> &'b Terms {
        let all = devices * self.question.virtual_stages;
        let device = |c: usize| self.question.placement.device(c, devices);
        let c = all - 1 - left;
        let is_beside = (c > 0 && device(c - 1) == device(c)) || (left > 0 && device(c + 1) == device(c));
        if is_beside { &chunk.beside } else { &chunk.apart }
    }

    /// No cut for so many devices that goes on from an ideal with so many chunks, once its micro-batches have come so far, takes less.
    pub(super) fn least_ns(&self, devices: usize, left: usize, ideal: usize, came: [u64; 2]) -> u64 {
        let Some(least) = self.least.iter().find(|least| least.devices == devices) else {
            return u64::MAX;
        };
        let ns = |k: usize| least.tables[k][left][ideal].saturating_add(came[k]);
        ns(0).max(ns(1))
    }

    /// What certainly crosses each ideal, where devices hold several chunks; nothing where stages say it themselves.
    fn crossings(&self, state: &State) -> Result<Vec<Crossing>, StoppedBy> {
        let mut crossings = Vec::new();
        for set in self.ideals.sets.iter().filter(|_| !self.question.is_plain()) {
            state.control.check_limits()?;
            crossings.push(crossing(state.problem, set, state.problem.settings.communication));
        }
        Ok(crossings)
    }

    fn add_chunks(&mut self, state: &State) -> Result<(), StoppedBy> {
        let (problem, control) = (state.problem, state.control);
        let best_ns = u128::from(state.best_ns());
        let micro_batches = state.question.micro_batches as u128;
        let work =
            |set: &fixedbitset::FixedBitSet| set.ones().map(|item| problem.items[item].work_ns()).sum();
        let work_ns: Vec<u64> = self.ideals.sets.iter().map(work).collect();
        let most = MOST_CHUNKS.min(control.room_bytes() / (2 * size_of::<Chunk>()));
        let crossings = self.crossings(state)?;
        let mut count = 0;
        for to in 1..self.ideals.sets.len() {
            control.check_limits()?;
            let behind = self.ideals.between(to, self.all());
            let may_be = |from: usize| micro_batches * u128::from(work_ns[to] - work_ns[from]) < best_ns;
            for from in self.ideals.inside_while(to, may_be) {
                let members = self.ideals.between(from, to);
                let Some(most_held) = most_held(problem, self.question, &members) else {
                    continue;
                };
                let mut work = StageCost::default();
                members.iter().for_each(|&item| work.add_item(problem, item));
                let inside = |item: usize| {
                    self.ideals.sets[to].contains(item) && !self.ideals.sets[from].contains(item)
                };
                let cost = match self.question.is_plain() {
                    true => cost::stage_cost(problem, &members, inside),
                    // The rest of what comes and goes may come from the same device, go there, or be there.
                    false => work.plus(crossings[from].behind).plus(crossings[to].before),
                };
                let of = |cost: &StageCost| self.of_chunk(problem, cost, [&members, &behind], most_held);
                let chunk = Chunk {
                    to: to as u32,
                    apart: of(&cost),
                    beside: of(&work),
                };
                self.chunks[from].push(chunk);
                count += 1;
            }
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(())
    }

    /// The bounds of a chunk of this cost, with these items in it and behind it, on a device that can hold so many of its activations.
    fn of_chunk(
        &self,
        problem: &Problem,
        cost: &StageCost,
        [members, behind]: [&[usize]; 2],
        most_held: usize,
    ) -> Terms {
        let micro_batches = self.question.micro_batches as u64;
        let forward_ns = cost.forward.load_ns();
        let weight_ns = self.question.weights.of_items(members, cost.backward.work_ns);
        let input_ns = cost.backward.load_ns() - weight_ns;
        let (sent_ns, returned_ns) = match behind.is_empty() {
            true => (0, 0),
            false => (cost.forward.link_out_ns, cost.backward.link_in_ns),
        };
        let chunks = self.question.devices * self.question.virtual_stages;
        let backward_ns = behind.iter().map(|&item| problem.items[item].backward_ns).sum();
        let of_weights_ns = self.question.weights.at_most(behind, backward_ns, chunks);
        let forwards_ns: u64 = behind.iter().map(|&item| problem.items[item].forward_ns).sum();
        let rest_ns = forwards_ns + backward_ns.saturating_sub(of_weights_ns);
        let both_ns = forward_ns + sent_ns + returned_ns + input_ns;
        let stay_ns = both_ns + rest_ns;
        let held = (most_held as u64).min(micro_batches);
        let late_ns = (micro_batches - held) * forward_ns;
        let (rounds, ahead_ns) = (
            (micro_batches - 1) / held,
            (micro_batches - 1) % held * forward_ns,
        );
        let passes_ns = micro_batches * (forward_ns + input_ns);
        let behind_ns = stay_ns + (micro_batches - 1) * input_ns + late_ns;
        let rounds_ns = ahead_ns + rounds * (stay_ns + weight_ns) + stay_ns;
        let weights_ns = micro_batches * weight_ns;
        Terms {
            there_ns: forward_ns + sent_ns,
            both_ns,
            last_ns: (passes_ns + weights_ns)
                .max(behind_ns + weights_ns)
                .max(rounds_ns + weight_ns),
            back_ns: passes_ns.max(behind_ns).max(rounds_ns),
        }
    }

    /// The dynamic program, from the last chunk to the first.
    fn tables(&self, devices: usize) -> [Vec<Vec<u64>>; 2] {
        let count = self.ideals.sets.len();
        let mut last = vec![u64::MAX; count];
        last[count - 1] = 0;
        let mut tables = [vec![last.clone()], vec![last]];
        for left in 0..devices * self.question.virtual_stages {
            let rows = [0, 1].map(|k| {
                let through_ns = |chunk: &Chunk| {
                    let terms = self.terms(chunk, devices, left);
                    let (own_ns, way_ns) =
                        [(terms.last_ns, terms.there_ns), (terms.back_ns, terms.both_ns)][k];
                    let next_ns: u64 = tables[k][left][chunk.to as usize];
                    own_ns.max(next_ns.saturating_add(way_ns))
                };
                let of = |from: usize| self.chunks[from].iter().map(through_ns).min().unwrap_or(u64::MAX);
                (0..count).map(of).collect::<Vec<u64>>()
            });
            let [last, back] = rows;
            tables[0].push(last);
            tables[1].push(back);
        }
        tables
    }
}

/// The most activations of a chunk of these items that a device can hold; `None` where it has no room for one.
fn most_held(problem: &Problem, question: &Question, members: &[usize]) -> Option<usize> {
    let sum =
        |bytes: fn(&Item) -> u64| -> u64 { members.iter().map(|&item| bytes(&problem.items[item])).sum() };
    let held = match (question.room, problem.settings.memory_limit) {
        (Some(room), _) => room,
        (None, None) => u64::MAX,
        (None, Some(limit)) => {
            let room = limit.checked_sub(sum(|item| item.base_bytes))?;
            room.checked_div(sum(|item| item.stash_bytes)).unwrap_or(u64::MAX)
        }
    };
    (held > 0).then(|| held.min(usize::MAX as u64) as usize)
}
