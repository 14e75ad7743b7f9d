//! The least that chunks alone say of an iteration, from every ideal on: a dynamic program.

use super::{Question, State};
use crate::cost::{self, StageCost};
use crate::ideals::{Ideals, IdealsError};
use crate::plan::StoppedBy;
use crate::problem::{Item, Problem};

/// More ideals than this have more chunks between them than can be looked at.
const MOST_IDEALS: usize = 20_000;
/// The most chunks: a quarter of a gigabyte.
const MOST_CHUNKS: usize = 2_000_000;

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
    /// By number of devices: by chunks left and ideal, the least of [`Terms::last_ns`] and [`Terms::back_ns`] with what lies before.
    least: Vec<(usize, [Vec<Vec<u64>>; 2])>,
}

impl<'a> Relaxation<'a> {
    /// Enumerates ideals and chunks, as far as cuts may be better than the best.
    ///
    /// # Errors
    ///
    /// Too many of either, or a limit.
    pub(super) fn new(state: &State<'a>) -> Result<Self, StoppedBy> {
        let (problem, question, control) = (state.problem, state.question, state.control);
        let stop = || control.must_stop().is_some();
        let ideals = Ideals::enumerate(problem, MOST_IDEALS, &stop).map_err(|error| match error {
            IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
            IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
        })?;
        let mut relaxation = Self {
            question,
            chunks: vec![Vec::new(); ideals.sets.len()],
            ideals,
            least: Vec::new(),
        };
        relaxation.add_chunks(state)?;
        for devices in question.device_counts(problem) {
            control.check_limits()?;
            let tables = relaxation.tables(devices);
            relaxation.least.push((devices, tables));
        }
        Ok(relaxation)
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.ideals.sets.len() - 1
    }

    /// How many devices cuts may have, and what no cut for so many falls below, in ns; `u64::MAX` where there is none.
    pub(super) fn counts(&self, problem: &Problem) -> Vec<(usize, u64)> {
        let least = |(devices, tables): &(usize, [Vec<Vec<u64>>; 2])| {
            let left = devices * self.question.virtual_stages;
            let of_chunks = tables[0][left][0].max(tables[1][left][0]);
            (
                *devices,
                of_chunks.max(simple_ns(problem, self.question, *devices)),
            )
        };
        self.least.iter().map(least).collect()
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
        let of = |(count, _): &&(usize, _)| *count == devices;
        let Some((_, tables)) = self.least.iter().find(of) else {
            return u64::MAX;
        };
        let ns = |k: usize| tables[k][left][ideal].saturating_add(came[k]);
        ns(0).max(ns(1))
    }

    fn add_chunks(&mut self, state: &State) -> Result<(), StoppedBy> {
        let (problem, control) = (state.problem, state.control);
        let best_ns = u128::from(state.best_ns());
        let micro_batches = state.question.micro_batches as u128;
        let work =
            |set: &fixedbitset::FixedBitSet| set.ones().map(|item| problem.items[item].work_ns()).sum();
        let work_ns: Vec<u64> = self.ideals.sets.iter().map(work).collect();
        let most = MOST_CHUNKS.min(control.room_bytes() / (2 * size_of::<Chunk>()));
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
                let inside = |item: usize| {
                    self.ideals.sets[to].contains(item) && !self.ideals.sets[from].contains(item)
                };
                let cost = cost::stage_cost(problem, &members, inside);
                let of = |cost: &StageCost| self.of_chunk(problem, cost, &behind, most_held);
                let mut work = cost;
                for phase in [&mut work.forward, &mut work.backward] {
                    (phase.communication_ns, phase.link_in_ns, phase.link_out_ns) = (0, 0, 0);
                }
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

    /// The bounds of a chunk of this cost, with these items behind it, on a device that can hold so many of its activations.
    fn of_chunk(&self, problem: &Problem, cost: &StageCost, behind: &[usize], most_held: usize) -> Terms {
        let micro_batches = self.question.micro_batches as u64;
        let forward_ns = cost.forward.load_ns();
        let weight_ns = self.question.weight_ns(cost.backward.work_ns);
        let input_ns = cost.backward.load_ns() - weight_ns;
        let (sent_ns, returned_ns) = match behind.is_empty() {
            true => (0, 0),
            false => (cost.forward.link_out_ns, cost.backward.link_in_ns),
        };
        // Weights' shares are rounded chunk by chunk.
        let chunks = (self.question.devices * self.question.virtual_stages) as u64;
        let backward_ns = behind.iter().map(|&item| problem.items[item].backward_ns).sum();
        let of_weights_ns = match self.question.weight_share {
            None => 0,
            Some(_) => self.question.weight_ns(backward_ns) + chunks,
        };
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

/// What takes no search: the page's `share`, `series` and `item`, for so many devices.
pub(super) fn simple_ns(problem: &Problem, question: &Question, devices: usize) -> u64 {
    let simple = Simple {
        problem,
        question,
        devices,
    };
    let of = |ends: Ends| simple.share_ns(ends).max(simple.series_ns(ends));
    of(Ends::Back).max(of(Ends::Weights)).max(simple.item_ns())
}

/// What an iteration ends with on a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The way back of the last micro-batch, which gradients of weights are no part of.
    Back,
    /// Gradients of weights, behind which nothing comes.
    Weights,
}

struct Simple<'a> {
    problem: &'a Problem,
    question: &'a Question,
    devices: usize,
}

impl Simple<'_> {
    /// The work that counts, in ns. Gradients of weights are rounded chunk by chunk, which loses half a ns each.
    fn work_ns(&self, ends: Ends) -> u64 {
        let items = &self.problem.items;
        let work_ns: u64 = items.iter().map(Item::work_ns).sum();
        let backward_ns = items.iter().map(|item| item.backward_ns).sum();
        match (ends, self.question.weight_share) {
            (Ends::Back, Some(_)) => {
                let chunks = (self.devices * self.question.virtual_stages) as u64;
                work_ns.saturating_sub(self.question.weight_ns(backward_ns) + chunks)
            }
            _ => work_ns,
        }
    }

    /// The gradient of an item's input, in ns; a chunk that holds it takes no less.
    fn input_ns(&self, item: &Item) -> u64 {
        item.backward_ns - self.question.weight_ns(item.backward_ns)
    }

    /// All work, and what devices wait for at the least: device d for d chunks of an item each.
    fn share_ns(&self, ends: Ends) -> u64 {
        let pass_ns = |item: &Item| match ends {
            Ends::Back => item.forward_ns + self.input_ns(item),
            Ends::Weights => item.forward_ns,
        };
        let mut passes: Vec<u64> = self.problem.items.iter().map(pass_ns).collect();
        passes.sort_unstable();
        let waits = passes.iter().take(self.devices).enumerate();
        let waits_ns: u64 = waits.map(|(d, ns)| (self.devices - 1 - d) as u64 * ns).sum();
        let all_ns = self.question.micro_batches as u64 * self.work_ns(ends) + waits_ns;
        all_ns.div_ceil(self.devices as u64)
    }

    /// With one chunk each, a device waits for all that the ones before have of a micro-batch: loads fall off like a geometric series.
    fn series_ns(&self, ends: Ends) -> u64 {
        if !self.question.is_plain() || ends == Ends::Weights {
            return 0;
        }
        // Far more than what the power and the division lose.
        const ROUNDING: f64 = 1e-9;
        let left = (1.0 - 1.0 / self.question.micro_batches as f64).powi(self.devices as i32);
        (self.work_ns(ends) as f64 / (1.0 - left) * (1.0 - ROUNDING)) as u64
    }

    /// A device does all of an item's work; and once a micro-batch has come back to it, the gradients of the others are to be done.
    fn item_ns(&self) -> u64 {
        let micro_batches = self.question.micro_batches as u64;
        let through_ns = self.work_ns(Ends::Back);
        let of = |item: &Item| {
            let behind_ns = through_ns + (micro_batches - 1) * self.input_ns(item);
            behind_ns.max(micro_batches * item.work_ns())
        };
        self.problem.items.iter().map(of).max().unwrap_or(0)
    }
}
