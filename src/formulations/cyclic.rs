//! The cyclic program: a pattern of one period that every micro-batch repeats.
#![doc = include_str!("../../formulations/cyclic.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};
use crate::schedule::{Chunks, Pattern, Phase};

/// What is asked of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The least peak of the device that holds most, whatever room there is.
    Peak,
    /// The least that any device holds more than it has room for: nothing, if a pattern fits.
    Excess,
}

/// A pattern to look for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The chunks.
    pub chunks: &'a Chunks,
    /// A slot in ns; times are rounded up to whole slots.
    pub slot_ns: u64,
    /// The period in slots; no device has more to do in a period.
    pub period: u64,
    /// What is asked.
    pub goal: Goal,
}

/// The program, and what its columns mean.
pub struct Cyclic {
    /// The program.
    pub program: Program,
    /// What one unit of the peak is, in units of the stashes.
    pub unit: u64,
    is_whole: bool,
    operations: Vec<Operation>,
    period: u64,
    slot_ns: u64,
}

/// An operation of the pattern and its columns.
struct Operation {
    chunk: usize,
    phase: Phase,
    device: usize,
    /// Slots that it takes.
    length: u64,
    /// `x_oτ`.
    slot: Vec<Column>,
    /// `κ_o`.
    offset: Column,
}

impl Operation {
    fn label(&self) -> String {
        format!("{}{}", self.chunk, self.phase.letter())
    }

    /// How many micro-batches have started it by slot `at`, which may lie beyond the period, less those before the first one.
    fn started(&self, at: i64) -> Expression {
        let period = self.slot.len() as i64;
        let (periods, slot) = (at.div_euclid(period), at.rem_euclid(period));
        let mut started = Expression::from(periods as f64);
        self.slot[..=slot as usize]
            .iter()
            .for_each(|column| column.add_to(&mut started, 1.0));
        self.offset.add_to(&mut started, -1.0);
        started
    }
}

impl Cyclic {
    /// Builds the program.
    pub fn build(asked: &Asked) -> Self {
        let unit = unit(asked.chunks);
        let mut cyclic = Self {
            program: Program::new(asked.slot_ns as f64),
            unit,
            is_whole: is_whole(asked.chunks, unit),
            operations: Vec::new(),
            period: asked.period,
            slot_ns: asked.slot_ns,
        };
        cyclic.declare(asked);
        cyclic.starts();
        cyclic.device(asked);
        for (before, after, delay) in cyclic.waits(asked) {
            cyclic.precedence(before, after, delay);
        }
        match asked.goal {
            Goal::Peak => cyclic.peak(asked),
            Goal::Excess => cyclic.room(asked),
        }
        cyclic
    }

    /// Whether all stashes are whole units, and so is every peak.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The pattern of column values, which are whole up to the solver's tolerance.
    pub fn pattern(&self, values: &[f64]) -> Pattern {
        let start = |operation: &Operation| {
            let slots = operation.slot.iter().enumerate();
            let slot = slots.max_by(|a, b| a.1.value(values).total_cmp(&b.1.value(values)));
            let slot = slot.map_or(0, |(slot, _)| slot as u64);
            let offset = operation.offset.value(values).round() as u64;
            (operation.chunk, operation.phase, slot + offset * self.period)
        };
        Pattern {
            slot_ns: self.slot_ns,
            period: self.period,
            starts: self.operations.iter().map(start).collect(),
        }
    }

    /// The columns. The first forward pass starts in slot 0: a pattern that starts all later is the same one.
    fn declare(&mut self, asked: &Asked) {
        let phases: &[Phase] = match asked.chunks.may_split {
            true => &[Phase::Forward, Phase::InputGradient, Phase::WeightGradient],
            false => &[Phase::Forward, Phase::Backward],
        };
        let most = most_offset(asked, phases.len() * asked.chunks.len());
        for chunk in 0..asked.chunks.len() {
            for &phase in phases {
                let is_first = chunk == 0 && phase == Phase::Forward;
                let label = format!("{chunk}{}", phase.letter());
                let slot = self.slots(&label, is_first);
                let most = if is_first { 0 } else { most };
                let definition = variable().integer().min(0).max(most as f64);
                let offset = self.program.declare(definition.name(format!("offset[{label}]")));
                self.operations.push(Operation {
                    chunk,
                    phase,
                    device: asked.chunks.chunks[chunk].device,
                    length: Pattern::length(asked.chunks, (chunk, phase), asked.slot_ns),
                    slot,
                    offset,
                });
            }
        }
    }

    /// The slots of an operation; the first of all has slot 0 alone.
    fn slots(&mut self, label: &str, is_first: bool) -> Vec<Column> {
        let most = |slot: u64| u8::from(!is_first || slot == 0);
        let definition = |slot: u64| variable().integer().min(0).max(most(slot));
        let slots = (0..self.period).map(|slot| {
            self.program
                .declare(definition(slot).name(format!("slot[{label},{slot}]")))
        });
        slots.collect()
    }

    /// Every operation starts in one slot.
    fn starts(&mut self) {
        for operation in &self.operations {
            let mut all = Expression::default();
            operation
                .slot
                .iter()
                .for_each(|column| column.add_to(&mut all, 1.0));
            let label = operation.label();
            self.program
                .add_row(format!("starts[{label}]"), Expression::from(1.0), all.clone());
            self.program
                .add_row(format!("once[{label}]"), all, Expression::from(1.0));
        }
    }

    /// A device runs one operation in a slot, of whichever micro-batch.
    fn device(&mut self, asked: &Asked) {
        for device in 0..asked.chunks.devices() {
            for slot in 0..self.period {
                let running = self.running(device, slot);
                self.program
                    .add_row(format!("device[{device},{slot}]"), running, Expression::from(1.0));
            }
        }
    }

    /// What a device runs in a slot: whatever started so many slots ago as it takes, or later.
    fn running(&self, device: usize, slot: u64) -> Expression {
        let mut running = Expression::default();
        for operation in self
            .operations
            .iter()
            .filter(|operation| operation.device == device)
        {
            for ago in 0..operation.length {
                let started = (slot + self.period - ago) % self.period;
                operation.slot[started as usize].add_to(&mut running, 1.0);
            }
        }
        running
    }

    /// What waits for what, by position, with the slots from one start to the other at least.
    fn waits(&self, asked: &Asked) -> Vec<(usize, usize, u64)> {
        let chunks = &asked.chunks.chunks;
        let of_chunk = self.operations.len() / chunks.len();
        let slots = |ns: u64| Pattern::slots(ns, asked.slot_ns);
        let mut waits = Vec::new();
        for (chunk, of) in chunks.iter().enumerate() {
            let first = chunk * of_chunk;
            for own in first..first + of_chunk - 1 {
                waits.push((own, own + 1, self.operations[own].length));
            }
            if chunk + 1 < chunks.len() {
                let next = first + of_chunk;
                let forward = self.operations[first].length + slots(of.forward_transfer_ns);
                waits.push((first, next, forward));
                let back = &chunks[chunk + 1];
                let backward = self.operations[next + 1].length + slots(back.backward_transfer_ns);
                waits.push((next + 1, first + 1, backward));
            }
        }
        waits
    }

    /// Of every slot: no more micro-batches have started an operation than had started what it waits for, a delay ago.
    fn precedence(&mut self, before: usize, after: usize, delay: u64) {
        let [first, then] = [before, after].map(|at| &self.operations[at]);
        let names = format!("{},{}", first.label(), then.label());
        for slot in 0..self.period {
            let started = then.started((slot + delay) as i64);
            let name = format!("precedence[{names},{slot}]");
            self.program.add_row(name, started, first.started(slot as i64));
        }
    }

    /// What a device holds in a slot, in units.
    fn held(&self, asked: &Asked, device: usize, slot: u64) -> Expression {
        let mut held = Expression::default();
        let own = self
            .operations
            .iter()
            .filter(|operation| operation.device == device);
        for operation in own {
            let of = &asked.chunks.chunks[operation.chunk];
            let (change, at) = match operation.phase {
                Phase::Forward => (of.stash as f64, slot as i64),
                Phase::Backward => (-(of.stash as f64), slot as i64 - operation.length as i64),
                Phase::InputGradient => {
                    let freed = of.stash - of.kept;
                    (-(freed as f64), slot as i64 - operation.length as i64)
                }
                Phase::WeightGradient => (-(of.kept as f64), slot as i64 - operation.length as i64),
            };
            if change != 0.0 {
                held += operation.started(at) * (change / self.unit as f64);
            }
        }
        held
    }

    /// The peak is what some device holds in some slot.
    fn peak(&mut self, asked: &Asked) {
        let peak = self.held_in_all("peak");
        for device in 0..asked.chunks.devices() {
            for slot in 0..self.period {
                let held = self.held(asked, device, slot);
                self.program
                    .add_row(format!("peak[{device},{slot}]"), held, peak.expression());
            }
        }
    }

    /// No device holds more than it has room for and the excess.
    ///
    /// As rows without the excess, room leaves the solver without a direction: it then found no pattern of four devices in half a
    /// minute that it finds in seconds so.
    fn room(&mut self, asked: &Asked) {
        let excess = self.held_in_all("excess");
        for (device, room) in asked.chunks.room.iter().enumerate() {
            let Some(room) = room else { continue };
            // Whole units fit, and a part of one does not help.
            let units = match self.is_whole {
                true => (room / self.unit) as f64,
                false => *room as f64 / self.unit as f64,
            };
            for slot in 0..self.period {
                let held = self.held(asked, device, slot);
                let most = excess.expression() + units;
                self.program.add_row(format!("room[{device},{slot}]"), held, most);
            }
        }
    }

    /// What is minimised, in units: whole where all that is held is.
    fn held_in_all(&mut self, name: &str) -> Column {
        let definition = variable().min(0).name(name);
        let column = self.program.declare(match self.is_whole {
            true => definition.integer(),
            false => definition,
        });
        self.program.objective = column.expression();
        column
    }
}

/// Offsets that no pattern needs to exceed: see the page.
fn most_offset(asked: &Asked, operations: usize) -> u64 {
    let chunks = &asked.chunks.chunks;
    let longest = |chunk: usize| {
        let of = &chunks[chunk];
        let transfer = of.forward_transfer_ns.max(of.backward_transfer_ns);
        let work = of.forward_ns.max(of.input_ns + of.weight_ns);
        Pattern::slots(transfer, asked.slot_ns) + Pattern::slots(work, asked.slot_ns).max(1)
    };
    let longest = (0..chunks.len()).map(longest).max().unwrap_or(0);
    operations as u64 * (longest.div_ceil(asked.period) + 1)
}

/// More units than this are no longer counted as whole ones.
const MOST_UNITS: u64 = 1_000;

/// What all stashes are multiples of; where that is too fine, a part of the largest.
fn unit(chunks: &Chunks) -> u64 {
    let sizes = || chunks.chunks.iter().flat_map(|chunk| [chunk.stash, chunk.kept]);
    let common = sizes().fold(0, crate::model::units::gcd).max(1);
    let largest = sizes().max().unwrap_or(0);
    common.max(largest / MOST_UNITS)
}

fn is_whole(chunks: &Chunks, unit: u64) -> bool {
    let mut sizes = chunks.chunks.iter().flat_map(|chunk| [chunk.stash, chunk.kept]);
    sizes.all(|size| size.is_multiple_of(unit))
}
