//! Mixed-integer programs, family by family, modelled with good_lp.
#![doc = include_str!("../../formulations/README.md")]

pub(crate) mod anchored;
pub mod calibration;
pub mod chunk_times;
pub(crate) mod communication;
pub mod critical_paths;
pub mod cyclic;
pub(crate) mod devices;
pub(crate) mod groups;
pub mod horizon;
pub(crate) mod hybrid_groups;
pub(crate) mod hybrid_pipelines;
pub mod hybrid_program;
pub(crate) mod load;
pub(crate) mod memory;
pub mod modal_program;
pub mod partition;
pub mod placement;
pub(crate) mod pools;
pub mod solver;
pub(crate) mod splits;
pub mod staging;
pub mod three_block;
pub mod virtual_stages;

use crate::model::units::NS_PER_MS;
use crate::problem::Problem;
use good_lp::variable::VariableDefinition;
use good_lp::{Constraint, Expression, IntoAffineExpression, ProblemVariables, Variable};

/// A program ready to be solved or written: variables with their names, rows with theirs, and what to minimise.
#[derive(Clone)]
pub struct Program {
    /// Every variable, named.
    pub variables: ProblemVariables,
    /// Every row, named `family[indices]`.
    pub rows: Vec<Constraint>,
    /// What to minimise, in units of `scale_ns`.
    pub objective: Expression,
    /// One unit of time in the program, in ns: times are divided by it, so that they lie near 1.
    pub scale_ns: f64,
    /// What the objective says of the plan's.
    pub meaning: Meaning,
}

/// What the objective of a program says of the plan's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is a time, in units of the scale: a period or an iteration.
    Time,
    /// It is 1 less the pace, which is one unit of time over the period.
    Pace,
}

/// Bytes that building the program of a problem with such stages and solving it takes, about: the entries of its rows, of which most are the
/// charges of producers and consumers, each counted with the copies that good_lp, HiGHS and its presolve make. Programs of generated
/// transformers in 8 to 40 stages took 170 to 230 bytes an entry to write, and twice that to solve.
pub(crate) fn bytes_of_program(problem: &Problem) -> usize {
    const BYTES_OF_AN_ENTRY: usize = 500;
    let consumers: usize = problem
        .transfers
        .iter()
        .map(|transfer| transfer.consumers.len())
        .sum();
    let of_a_stage = 4 * problem.items.len() + 2 * problem.order.edge_count() + 12 * consumers;
    of_a_stage
        .saturating_mul(problem.stages())
        .saturating_mul(BYTES_OF_AN_ENTRY)
}

impl Program {
    /// The part of the objective that depends on no variable; files leave it out, as solvers may.
    pub(crate) fn constant(&self) -> f64 {
        self.objective.constant()
    }

    /// How to read the objective value that a solver finds for the program as it is written, which leaves out the constant:
    /// sentences that a file may carry.
    pub(crate) fn reading(&self, ticks_per_ns: u64) -> [String; 2] {
        let scale_ms = self.scale_ns / (ticks_per_ns as f64 * NS_PER_MS);
        let constant = self.constant();
        let [kind, formula] = match self.meaning {
            Meaning::Time => ["a time", &format!("{scale_ms} * (value + {constant})")],
            Meaning::Pace => [
                "1 less the unit over the period",
                &format!("{scale_ms} / (1 - (value + {constant}))"),
            ],
        };
        [
            format!(
                "one unit of time is {scale_ms} ms; the objective is {kind}, written without its constant {constant}"
            ),
            format!("a plan of objective `value` takes {formula} ms"),
        ]
    }

    /// An empty program.
    pub fn new(scale_ns: f64) -> Self {
        Self {
            variables: ProblemVariables::new(),
            rows: Vec::new(),
            objective: Expression::default(),
            scale_ns,
            meaning: Meaning::Time,
        }
    }

    /// Declares a variable; columns are numbered in the order of declaration.
    pub fn declare(&mut self, definition: VariableDefinition) -> Column {
        let index = self.variables.len();
        let variable = self.variables.add(definition);
        Column { variable, index }
    }

    /// Adds `lower <= upper` as a row of a family; rows that hold whatever the variables are left out.
    pub fn add_row(&mut self, name: String, lower: Expression, upper: Expression) {
        let row = good_lp::constraint::leq(lower, upper);
        let is_trivial = row.expression().linear_coefficients().all(|(_, c)| c == 0.0)
            && row.expression().constant() <= 0.0;
        if !is_trivial {
            self.rows.push(row.set_name(name));
        }
    }

    /// Adds `left = right` as a row of a family.
    pub(crate) fn add_equality(&mut self, name: String, left: Expression, right: Expression) {
        self.rows
            .push(good_lp::constraint::eq(left, right).set_name(name));
    }

    /// Names of the variables, in column order.
    pub fn variable_names(&self) -> Vec<String> {
        self.variables
            .iter_variables_with_def()
            .map(|(_, definition)| definition.get_name().to_owned())
            .collect()
    }

    /// Names of the rows, in their order.
    pub(crate) fn row_names(&self) -> Vec<String> {
        let names = self.rows.iter().map(|row| row.name().unwrap_or_default());
        names.map(str::to_owned).collect()
    }

    /// Number of integer variables.
    pub fn binaries(&self) -> usize {
        self.variables
            .iter_variables_with_def()
            .filter(|(_, definition)| definition.is_integer())
            .count()
    }

    /// Families of the rows, each once, in the order of first appearance.
    pub fn families(&self) -> Vec<String> {
        let mut families: Vec<String> = Vec::new();
        for row in &self.rows {
            let family = row.name().unwrap_or("").split('[').next().unwrap_or("");
            if !families.iter().any(|known| known == family) {
                families.push(family.to_owned());
            }
        }
        families
    }
}

/// A variable and the position of its column, which good_lp keeps to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    variable: Variable,
    index: usize,
}

impl Column {
    /// `expression += coefficient * variable`.
    pub(crate) fn add_to(self, expression: &mut Expression, coefficient: f64) {
        expression.add_mul(coefficient, self.variable);
    }

    /// The variable as an expression.
    pub fn expression(self) -> Expression {
        self.variable.into()
    }

    /// Its value among column values.
    pub(crate) fn value(self, values: &[f64]) -> f64 {
        values[self.index]
    }

    /// Sets its value among column values.
    pub(crate) fn set(self, values: &mut [f64], value: f64) {
        values[self.index] = value;
    }
}
