//! How much time each part of a worker gives to each phase.
#![doc = include_str!("../../formulations/splits.md")]

use good_lp::{Expression, variable};

use super::pools::Part;
use super::{Column, Program};

/// The time that something spends at each of its levels.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// Time at each level.
    pub at: Vec<Column>,
    /// Whether that level is taken; empty where any mixture of levels goes.
    pub taken: Vec<Column>,
}

impl Split {
    /// Declares the times, and one binary a level unless the part is free.
    pub(crate) fn declare(program: &mut Program, part: &Part, indices: &str) -> Self {
        let levels = 0..part.levels.len();
        let at = levels.clone().map(|level| {
            let time = variable()
                .min(0.0)
                .name(format!("time_at[{indices},{}]", level + 1));
            program.declare(time)
        });
        let at = at.collect();
        let taken = levels.filter(|_| !part.is_free).map(|level| {
            let binary = variable()
                .binary()
                .name(format!("level_taken[{indices},{}]", level + 1));
            program.declare(binary)
        });
        let taken = taken.collect();
        Self { at, taken }
    }

    /// Families `split`, `level` and `one_level`: the levels share the time there is, and only one of them has any.
    ///
    /// * `time`: the time there is; `most`: an upper bound on it.
    pub(crate) fn add_rows(&self, program: &mut Program, indices: &str, time: Expression, most: f64) {
        let sum = |columns: &[Column]| {
            let mut sum = Expression::default();
            columns.iter().for_each(|column| column.add_to(&mut sum, 1.0));
            sum
        };
        program.add_row(format!("split[{indices}]"), sum(&self.at), time);
        if self.taken.is_empty() {
            return;
        }
        for (level, (at, taken)) in self.at.iter().zip(&self.taken).enumerate() {
            let mut limit = Expression::default();
            taken.add_to(&mut limit, most);
            program.add_row(format!("level[{indices},{}]", level + 1), at.expression(), limit);
        }
        program.add_row(format!("one_level[{indices}]"), sum(&self.taken), 1.into());
    }

    /// Adds what a part does of a phase, 0 for forward propagation, with this split.
    pub(crate) fn add_speed(&self, part: &Part, phase: usize, speed: &mut Expression) {
        for (at, level) in self.at.iter().zip(&part.levels) {
            let relative = [level.forward, level.backward][phase];
            if relative > 0.0 {
                at.add_to(speed, part.rates[phase] * relative);
            }
        }
    }

    /// The share of forward propagation in a solution.
    pub(crate) fn share(&self, part: &Part, values: &[f64]) -> f64 {
        let most = |a: &usize, b: &usize| {
            self.taken[*a]
                .value(values)
                .total_cmp(&self.taken[*b].value(values))
        };
        if let Some(level) = (0..self.taken.len()).max_by(most) {
            return part.levels[level].share;
        }
        let times: Vec<f64> = self.at.iter().map(|at| at.value(values).max(0.0)).collect();
        let all: f64 = times.iter().sum();
        let forward: f64 = times
            .iter()
            .zip(&part.levels)
            .map(|(time, level)| time * level.share)
            .sum();
        if all > 0.0 {
            (forward / all).clamp(0.0, 1.0)
        } else {
            0.5
        }
    }
}
