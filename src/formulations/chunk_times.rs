//! The least iteration of any chunks of some work on some devices.
#![doc = include_str!("../../formulations/chunk_times.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};
use crate::schedule::Placement;

/// What is known before anything is cut.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Devices.
    pub devices: usize,
    /// Chunks of every device.
    pub virtual_stages: usize,
    /// How they lie.
    pub placement: Placement,
    /// Micro-batches.
    pub micro_batches: usize,
    /// What of backward passes is gradients of weights.
    pub weights: Weights,
    /// How many activations a device may hold, one a chunk and micro-batch.
    pub room: Option<u64>,
    /// Forward and backward work of a micro-batch, in ns.
    pub work_ns: [u64; 2],
    /// How far what the first chunks have of the backward work may lie below and above their part of it, by their forward work, in ns.
    pub uneven_ns: [f64; 2],
}

/// What is known of gradients of weights, which may run apart from the rest of backward passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// There are none: backward passes are whole.
    Whole,
    /// They are the same part of each.
    Share(f64),
    /// They are a part of the backward work of their own.
    Told {
        /// In all, of a micro-batch, in ns.
        work_ns: u64,
        /// How far what the first chunks have of it may lie below and above their part of it, by their backward work, in ns.
        uneven_ns: [f64; 2],
    },
}

/// Builds the program. Its objective is a time that no iteration falls below, but for what rounding to whole ns adds: see
/// [`rounding_ns`].
pub fn build(asked: &Asked) -> Program {
    let all_ns: u64 = asked.work_ns.iter().sum();
    let scale_ns = (asked.micro_batches as u64 * all_ns) as f64 / asked.devices as f64;
    let mut program = Program::new(scale_ns.max(1.0));
    let mut declare = |name: String| program.declare(variable().min(0.0).name(name));
    let chunks = asked.devices * asked.virtual_stages;
    let iteration = declare("iteration".into());
    let forward = (0..chunks).map(|c| declare(format!("forward[{c}]"))).collect();
    let backward = (0..chunks).map(|c| declare(format!("backward[{c}]"))).collect();
    let told = matches!(asked.weights, Weights::Told { .. });
    let weight = (0..chunks)
        .filter(|_| told)
        .map(|c| declare(format!("weight[{c}]")));
    let columns = Columns {
        asked,
        chunks,
        iteration,
        forward,
        backward,
        weight: weight.collect(),
    };
    columns.work(&mut program);
    for device in 0..asked.devices {
        columns.device(&mut program, device);
    }
    program.objective = iteration.expression();
    program
}

/// More than what whole ns change: the gradients of a chunk's weights are rounded, and a row has them no more often than that.
pub fn rounding_ns(asked: &Asked) -> u64 {
    match asked.weights {
        Weights::Whole | Weights::Told { .. } => 0,
        Weights::Share(_) => {
            let chunks = asked.devices * asked.virtual_stages;
            ((asked.micro_batches + 2) * (asked.virtual_stages + 1) * chunks) as u64
        }
    }
}

struct Columns<'a> {
    asked: &'a Asked,
    chunks: usize,
    iteration: Column,
    forward: Vec<Column>,
    backward: Vec<Column>,
    /// Gradients of weights; none where they are no times of their own.
    weight: Vec<Column>,
}

/// How often an iteration has the passes of each chunk one after the other, at least.
#[derive(Clone)]
struct Sum {
    forward: Vec<f64>,
    /// Gradients of inputs; whole backward passes where these may not be split.
    input: Vec<f64>,
    /// Gradients of weights.
    weight: Vec<f64>,
}

impl Sum {
    /// Nothing of so many chunks.
    fn new(chunks: usize) -> Self {
        Self {
            forward: vec![0.0; chunks],
            input: vec![0.0; chunks],
            weight: vec![0.0; chunks],
        }
    }

    fn forward(mut self, chunks: impl IntoIterator<Item = usize>, times: f64) -> Self {
        chunks.into_iter().for_each(|c| self.forward[c] += times);
        self
    }

    fn input(mut self, chunks: impl IntoIterator<Item = usize>, times: f64) -> Self {
        chunks.into_iter().for_each(|c| self.input[c] += times);
        self
    }

    fn weight(mut self, chunks: impl IntoIterator<Item = usize>, times: f64) -> Self {
        chunks.into_iter().for_each(|c| self.weight[c] += times);
        self
    }
}

impl Columns<'_> {
    /// All work lies in some chunk, and the first chunks have about as much of the one as of the other.
    fn work(&self, program: &mut Program) {
        let [forward, backward] = self.asked.work_ns.map(|ns| ns as f64 / program.scale_ns);
        let both = [
            ("forward", &self.forward, forward),
            ("backward", &self.backward, backward),
        ];
        for (name, columns, work) in both {
            let mut sum = Expression::default();
            columns.iter().for_each(|column| column.add_to(&mut sum, 1.0));
            program.add_equality(format!("work[{name}]"), sum, Expression::from(work));
        }
        let parts = (&self.forward[..], &self.backward[..]);
        self.uneven(
            program,
            ("uneven", self.asked.uneven_ns),
            parts,
            (forward, backward),
        );
        if let Weights::Told { work_ns, uneven_ns } = self.asked.weights {
            let weight = work_ns as f64 / program.scale_ns;
            let mut sum = Expression::default();
            self.weight.iter().for_each(|column| column.add_to(&mut sum, 1.0));
            program.add_equality("work[weight]".into(), sum, Expression::from(weight));
            let parts = (&self.backward[..], &self.weight[..]);
            self.uneven(program, ("uneven_weights", uneven_ns), parts, (backward, weight));
            for (c, (weight, backward)) in self.weight.iter().zip(&self.backward).enumerate() {
                program.add_row(format!("part[{c}]"), weight.expression(), backward.expression());
            }
        }
    }

    /// What the first chunks have of some work lies near their part of it, by other work of theirs.
    fn uneven(
        &self,
        program: &mut Program,
        (family, uneven_ns): (&str, [f64; 2]),
        (of, more): (&[Column], &[Column]),
        (of_all, more_of_all): (f64, f64),
    ) {
        let ratio = if of_all > 0.0 { more_of_all / of_all } else { 0.0 };
        let [least, most] = uneven_ns.map(|ns| ns / program.scale_ns);
        for c in 1..self.chunks {
            let mut before = Expression::default();
            for column in 0..c {
                more[column].add_to(&mut before, 1.0);
                of[column].add_to(&mut before, -ratio);
            }
            program.add_row(
                format!("{family}[{c},least]"),
                Expression::from(least),
                before.clone(),
            );
            program.add_row(format!("{family}[{c},most]"), before, Expression::from(most));
        }
    }

    /// What the chunks of a device say of the iteration.
    fn device(&self, program: &mut Program, device: usize) {
        let (all, m) = (self.chunks, self.asked.micro_batches as f64);
        let own = |c: &usize| self.asked.placement.device(*c, self.asked.devices) == device;
        let own: Vec<usize> = (0..all).filter(own).collect();
        let first = own[0];
        let new = || Sum::new(all);
        for (at, &c) in own.iter().enumerate() {
            let (so_far, from_here) = (own[..=at].iter().copied(), own[at..].iter().copied());
            let every = || own.iter().copied();
            let arrival = new()
                .forward(0..c, 1.0)
                .forward(from_here.clone(), m)
                .input(every(), m);
            self.row(
                program,
                format!("arrival[{c}]"),
                &arrival.clone().input(0..first, 1.0),
            );
            let departure = new()
                .forward(0..first, 1.0)
                .forward(every(), m)
                .input(from_here, m);
            self.row(program, format!("departure[{c}]"), &departure.input(0..c, 1.0));
            let behind = new()
                .forward(0..all, 1.0)
                .input(c + 1..all, 1.0)
                .input(so_far.clone(), m);
            self.row(
                program,
                format!("behind[{c}]"),
                &behind.clone().input(0..first, 1.0),
            );
            let ahead = new()
                .forward(0..first, 1.0)
                .forward(so_far.clone(), m)
                .forward(c + 1..all, 1.0);
            self.row(program, format!("ahead[{c}]"), &ahead.input(0..all, 1.0));
            if self.asked.weights != Weights::Whole {
                self.row(
                    program,
                    format!("weights_arrival[{c}]"),
                    &arrival.weight(every(), m),
                );
                self.row(program, format!("weights_behind[{c}]"), &behind.weight(so_far, m));
            }
        }
        if let Some(room) = self.asked.room {
            let each = m / room.max(1) as f64;
            let came = new().forward(0..first, 1.0).input(0..first, 1.0);
            let held = own
                .iter()
                .fold(came, |sum, &c| sum.forward(c..all, each).input(c..all, each));
            self.row(program, format!("room[{device}]"), &held);
        }
    }

    /// The iteration takes no less than a sum.
    fn row(&self, program: &mut Program, name: String, sum: &Sum) {
        let share = match self.asked.weights {
            Weights::Share(share) => share,
            Weights::Whole | Weights::Told { .. } => 0.0,
        };
        let mut lower = Expression::default();
        for c in 0..self.chunks {
            self.forward[c].add_to(&mut lower, sum.forward[c]);
            let backward = (1.0 - share) * sum.input[c] + share * sum.weight[c];
            self.backward[c].add_to(&mut lower, backward);
            if let Some(weight) = self.weight.get(c) {
                weight.add_to(&mut lower, sum.weight[c] - sum.input[c]);
            }
        }
        program.add_row(name, lower, self.iteration.expression());
    }
}
