//! Bounds for every cut and order that take no search.

use fixedbitset::FixedBitSet;

use super::{Question, State, Weights};
use crate::formulations::chunk_times;
use crate::formulations::solver::{self, Stop};
use crate::problem::control::Control;
use crate::problem::{Item, Problem};
use crate::search::ideals::Ideals;

/// What takes no search, for so many devices: the page's `share`, `series` and `item`, and the program of [`chunk_times`].
pub(super) fn simple_ns(state: &State, devices: usize, ideals: Option<&Ideals>) -> u64 {
    let simple = Simple {
        problem: state.problem,
        question: state.question,
        devices,
        ideals,
    };
    let of = |ends: Ends| simple.share_ns(ends).max(simple.series_ns(ends));
    let of_work = of(Ends::Back).max(of(Ends::Weights)).max(simple.item_ns());
    of_work.max(simple.of_times_ns(state.control).unwrap_or(0))
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
    /// All ideals, where they are few.
    ideals: Option<&'a Ideals>,
}

impl Simple<'_> {
    /// The work that counts, in ns. Gradients of weights are rounded chunk by chunk where they are a share, which loses half a ns each.
    fn work_ns(&self, ends: Ends) -> u64 {
        let items = &self.problem.items;
        let work_ns: u64 = items.iter().map(Item::work_ns).sum();
        let backward_ns = items.iter().map(|item| item.backward_ns).sum();
        let all: Vec<usize> = (0..items.len()).collect();
        let chunks = self.devices * self.question.virtual_stages;
        match ends {
            Ends::Back => work_ns.saturating_sub(self.question.weights.at_most(&all, backward_ns, chunks)),
            Ends::Weights => work_ns,
        }
    }

    /// The gradient of an item's input, in ns; a chunk that holds it takes no less.
    fn input_ns(&self, item: usize) -> u64 {
        let backward_ns = self.problem.items[item].backward_ns;
        backward_ns - self.question.weights.of_items(&[item], backward_ns)
    }

    /// All work, and what devices wait for at the least: device d for d chunks of an item each.
    fn share_ns(&self, ends: Ends) -> u64 {
        let items = &self.problem.items;
        let pass_ns = |item: usize| match ends {
            Ends::Back => items[item].forward_ns + self.input_ns(item),
            Ends::Weights => items[item].forward_ns,
        };
        let mut passes: Vec<u64> = (0..items.len()).map(pass_ns).collect();
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

    /// The least iteration of any chunks of this work; `None` where HiGHS breaks down or a limit comes.
    fn of_times_ns(&self, control: &Control) -> Option<u64> {
        // More than the tolerances of the solver come to.
        const ROUNDING: f64 = 1e-6;
        let items = &self.problem.items;
        let asked = chunk_times::Asked {
            devices: self.devices,
            virtual_stages: self.question.virtual_stages,
            placement: self.question.placement,
            micro_batches: self.question.micro_batches,
            weights: self.weight_times(),
            room: self.question.room,
            work_ns: [
                items.iter().map(|item| item.forward_ns).sum(),
                items.iter().map(|item| item.backward_ns).sum(),
            ],
            uneven_ns: self.uneven_ns(&|item| items[item].forward_ns, &|item| items[item].backward_ns),
        };
        let program = chunk_times::build(&asked);
        let scale_ns = program.scale_ns;
        let solved = solver::solve(program, None, None, &control.elsewhere(), &|_| ()).ok()?;
        let ns = (solved.stop == Stop::Optimal).then_some(solved.bound * scale_ns * (1.0 - ROUNDING))?;
        Some((ns as u64).saturating_sub(chunk_times::rounding_ns(&asked)))
    }

    /// What the program knows of gradients of weights.
    fn weight_times(&self) -> chunk_times::Weights {
        match &self.question.weights {
            Weights::Whole => chunk_times::Weights::Whole,
            Weights::Share(share) => chunk_times::Weights::Share(*share),
            Weights::Told(told) => chunk_times::Weights::Told {
                work_ns: told.iter().sum(),
                uneven_ns: self.uneven_ns(&|item| self.problem.items[item].backward_ns, &|item| told[item]),
            },
        }
    }

    /// How far some work of first chunks may lie below and above their part of it, by other work of theirs: what ideals say, or else what any
    /// items could.
    fn uneven_ns(&self, of: &dyn Fn(usize) -> u64, more: &dyn Fn(usize) -> u64) -> [f64; 2] {
        let items = 0..self.problem.items.len();
        let sum = |ns: &dyn Fn(usize) -> u64| items.clone().map(ns).sum::<u64>() as f64;
        let (all_ns, more_ns) = (sum(of), sum(more));
        let ratio = if all_ns > 0.0 { more_ns / all_ns } else { 0.0 };
        let over = |item: usize| more(item) as f64 - ratio * of(item) as f64;
        let (least, most) = match self.ideals {
            Some(ideals) => {
                let of = |set: &FixedBitSet| set.ones().map(over).sum();
                let all = ideals.sets.iter().map(of);
                all.fold((0.0f64, 0.0f64), |(least, most), over: f64| {
                    (least.min(over), most.max(over))
                })
            }
            None => {
                let of = |sign: f64| {
                    items
                        .clone()
                        .map(|item| (sign * over(item)).max(0.0))
                        .sum::<f64>()
                };
                (-of(-1.0), of(1.0))
            }
        };
        // Sums of doubles are off by far less than a ns.
        [least - 1.0, most + 1.0]
    }

    /// A device does all of an item's work; and once a micro-batch has come back to it, the gradients of the others are to be done.
    fn item_ns(&self) -> u64 {
        let micro_batches = self.question.micro_batches as u64;
        let through_ns = self.work_ns(Ends::Back);
        let of = |item: usize| {
            let behind_ns = through_ns + (micro_batches - 1) * self.input_ns(item);
            behind_ns.max(micro_batches * self.problem.items[item].work_ns())
        };
        (0..self.problem.items.len()).map(of).max().unwrap_or(0)
    }
}
