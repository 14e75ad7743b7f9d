//! Figures of a machine that explain measured times best: least absolute deviations, relative to what was measured.
#![doc = include_str!("../../formulations/calibration.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};

/// What figures that explain nothing cost, so that the smallest are taken of those that explain as much: the first as much as this, and each more than
/// the one before, so that rates come before constants.
const TIE: f64 = 1e-6;

/// A measured time as a sum of figures.
#[derive(Clone, Debug)]
pub struct Row {
    /// How much of each figure is in it, by its number; none is negative.
    pub terms: Vec<(usize, f64)>,
    /// What is to be explained: the measured time without what is fixed.
    pub target: f64,
    /// What was measured, above 0.
    pub measured: f64,
}

/// The program, and what its columns mean.
pub struct Calibration {
    /// The program. Its objective is the sum of relative deviations.
    pub program: Program,
    /// Of each figure its column and the unit that it is in; `None` where no time has it.
    figures: Vec<Option<(Column, f64)>>,
    limits: Vec<(f64, f64)>,
}

impl Calibration {
    /// Builds the program of figures between limits, those first that are to explain what several could. Time O(rows and their terms).
    pub fn build(rows: &[Row], limits: &[(f64, f64)]) -> Self {
        let mut program = Program::new(1.0);
        let mut objective = Expression::default();
        let figures: Vec<Option<(Column, f64)>> = (0..limits.len())
            .map(|at| {
                let parts = rows.iter().flat_map(|row| {
                    let own = row.terms.iter().filter(move |(figure, _)| *figure == at);
                    own.map(|(_, amount)| amount / row.measured)
                });
                let most = parts.fold(0.0, f64::max);
                // A figure that moves no time by a billionth of it is not told by any.
                (most > 1e-9).then(|| {
                    let (low, high) = limits[at];
                    let unit = 1.0 / most;
                    let definition = variable().min(low / unit).name(format!("figure[{at}]"));
                    let definition = match high.is_finite() {
                        true => definition.max(high / unit),
                        false => definition,
                    };
                    let column = program.declare(definition);
                    column.add_to(&mut objective, TIE * (at + 1) as f64);
                    (column, unit)
                })
            })
            .collect();
        for (at, row) in rows.iter().enumerate() {
            let deviation = program.declare(variable().min(0.0).name(format!("deviation[{at}]")));
            deviation.add_to(&mut objective, 1.0);
            let mut said = Expression::from(-row.target / row.measured);
            for &(figure, amount) in &row.terms {
                if let Some((column, unit)) = figures[figure] {
                    column.add_to(&mut said, amount / row.measured * unit);
                }
            }
            program.add_row(format!("above[{at}]"), said.clone(), deviation.expression());
            program.add_row(format!("below[{at}]"), -said, deviation.expression());
        }
        program.objective = objective;
        Self {
            program,
            figures,
            limits: limits.to_vec(),
        }
    }

    /// Figures by column values; one that no time has is 1, or at the limit next to it.
    pub fn figures(&self, values: &[f64]) -> Vec<f64> {
        let value = |at: usize| {
            let (low, high) = self.limits[at];
            let found = self.figures[at].map_or(1.0, |(column, unit)| column.value(values) * unit);
            // The solver keeps limits up to its tolerance.
            found.clamp(low, high)
        };
        (0..self.figures.len()).map(value).collect()
    }
}
