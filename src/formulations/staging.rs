//! Which stage each item lies in.
#![doc = include_str!("../../formulations/staging.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};
use crate::problem::{Assignment, Problem};

/// Stages that each item may lie in, from 0, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// First stage of each item.
    pub earliest: Vec<usize>,
    /// Last stage of each item.
    pub latest: Vec<usize>,
}

impl Windows {
    /// Every item may lie anywhere.
    pub fn all(problem: &Problem) -> Self {
        Self {
            earliest: vec![0; problem.items.len()],
            latest: vec![problem.stages() - 1; problem.items.len()],
        }
    }

    /// Number of prefix variables that are left open, one less an item than it has stages.
    pub fn open(&self) -> usize {
        let both = self.earliest.iter().zip(&self.latest);
        both.map(|(earliest, latest)| latest.saturating_sub(*earliest))
            .sum()
    }

    /// Whether some item has no stage left.
    pub(crate) fn some_is_empty(&self) -> bool {
        let mut both = self.earliest.iter().zip(&self.latest);
        both.any(|(earliest, latest)| earliest > latest)
    }
}

/// A prefix variable: open, or fixed by a window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Prefix {
    Fixed(bool),
    Open(Column),
}

/// The prefix variables `z_ik`, and the expressions `x_ik` made of them.
#[derive(Debug)]
pub(crate) struct Staging {
    /// `prefix[i][k]`: item `i` lies in the first `k` stages, k = 0..=q.
    prefix: Vec<Vec<Prefix>>,
}

impl Staging {
    /// Declares the prefix variables that the windows leave open.
    pub(crate) fn declare(
        program: &mut Program,
        problem: &Problem,
        windows: &Windows,
        labels: &[String],
    ) -> Self {
        let mut prefix = Vec::with_capacity(problem.items.len());
        for (i, label) in labels.iter().enumerate() {
            let of_item = (0..=problem.stages()).map(|k| {
                if k <= windows.earliest[i] {
                    Prefix::Fixed(false)
                } else if k > windows.latest[i] {
                    Prefix::Fixed(true)
                } else {
                    let binary = variable().binary().name(format!("prefix[{label},{k}]"));
                    Prefix::Open(program.declare(binary))
                }
            });
            prefix.push(of_item.collect());
        }
        Self { prefix }
    }

    /// `z_ik` for `k` in 0..=q.
    pub(crate) fn z(&self, item: usize, k: usize) -> Expression {
        let mut expression = Expression::default();
        self.add_z(&mut expression, 1.0, item, k);
        expression
    }

    /// `x_ik = z_i,k+1 - z_ik`: item `i` lies in stage `k`, from 0.
    pub(crate) fn x(&self, item: usize, stage: usize) -> Expression {
        let mut expression = Expression::default();
        self.add_x(&mut expression, 1.0, item, stage);
        expression
    }

    /// `expression += coefficient * x_ik`.
    pub(crate) fn add_x(&self, expression: &mut Expression, coefficient: f64, item: usize, stage: usize) {
        self.add_z(expression, coefficient, item, stage + 1);
        self.add_z(expression, -coefficient, item, stage);
    }

    /// `expression += coefficient * z`: the item lies in one of the first `k` stages.
    pub(crate) fn add_z(&self, expression: &mut Expression, coefficient: f64, item: usize, k: usize) {
        match self.prefix[item][k] {
            Prefix::Fixed(false) => {}
            Prefix::Fixed(true) => *expression += coefficient,
            Prefix::Open(column) => column.add_to(expression, coefficient),
        }
    }

    /// Whether the windows allow the item in a stage, from 0.
    pub(crate) fn allows(&self, item: usize, stage: usize) -> bool {
        let before = self.prefix[item][stage] == Prefix::Fixed(true);
        let after = self.prefix[item][stage + 1] == Prefix::Fixed(false);
        !before && !after
    }

    /// Whether the windows leave the item no other stage.
    pub(crate) fn is_fixed_to(&self, item: usize, stage: usize) -> bool {
        self.prefix[item][stage] == Prefix::Fixed(false)
            && self.prefix[item][stage + 1] == Prefix::Fixed(true)
    }

    /// Reads an assignment off column values, rounding at one half; `None` where a binary is further than
    /// [`INTEGRALITY`] from whole.
    pub(crate) fn assignment(&self, values: &[f64]) -> Option<Assignment> {
        let stage = |prefixes: &Vec<Prefix>| {
            let mut stage = 0;
            for prefix in &prefixes[1..] {
                let z = match *prefix {
                    Prefix::Fixed(set) => f64::from(set),
                    Prefix::Open(column) => column.value(values),
                };
                if (z - z.round()).abs() > INTEGRALITY {
                    return None;
                }
                stage += usize::from(z < 0.5);
            }
            Some(stage)
        };
        self.prefix.iter().map(stage).collect()
    }

    /// Row `excluded`: some open prefix variable differs from those of an assignment.
    pub(crate) fn exclude(&self, program: &mut Program, at: usize, assignment: &Assignment) {
        let mut differing = Expression::default();
        for (column, is_set) in self.open(assignment) {
            column.add_to(&mut differing, if is_set { -1.0 } else { 1.0 });
            differing += f64::from(is_set);
        }
        program.add_row(format!("excluded[{}]", at + 1), 1.into(), differing);
    }

    /// Writes the column values of an assignment.
    pub(crate) fn write(&self, assignment: &Assignment, values: &mut [f64]) {
        for (column, is_set) in self.open(assignment) {
            column.set(values, f64::from(is_set));
        }
    }

    /// The open prefix variables, and whether an assignment sets them.
    fn open(&self, assignment: &Assignment) -> impl Iterator<Item = (Column, bool)> {
        let items = self.prefix.iter().zip(assignment);
        items.flat_map(|(prefixes, &stage)| {
            let of_item = prefixes.iter().enumerate();
            of_item.filter_map(move |(k, prefix)| match *prefix {
                Prefix::Open(column) => Some((column, stage < k)),
                Prefix::Fixed(_) => None,
            })
        })
    }
}

/// How far a binary may lie from whole. HiGHS is asked for 1e-9; a value beyond this is a solver fault, not rounding.
pub(crate) const INTEGRALITY: f64 = 1e-4;

/// Family `monotone`: what lies in the first `k` stages lies in the first `k + 1`.
pub(crate) fn monotone(program: &mut Program, problem: &Problem, staging: &Staging, labels: &[String]) {
    for (i, label) in labels.iter().enumerate() {
        for k in 1..problem.stages().saturating_sub(1) {
            let name = format!("monotone[{label},{k}]");
            program.add_row(name, staging.z(i, k), staging.z(i, k + 1));
        }
    }
}

/// Family `precedence`: the later end of an order pair is in the first `k` stages only if the earlier end is.
pub(crate) fn precedence(program: &mut Program, problem: &Problem, staging: &Staging, labels: &[String]) {
    for edge in problem.order.edge_indices() {
        let Some((u, v)) = problem.order.edge_endpoints(edge) else {
            continue;
        };
        for k in 1..problem.stages() {
            let name = format!("precedence[{},{},{k}]", labels[u.index()], labels[v.index()]);
            program.add_row(name, staging.z(v.index(), k), staging.z(u.index(), k));
        }
    }
}

/// Family `non_empty`: every stage holds an item.
pub(crate) fn non_empty(program: &mut Program, problem: &Problem, staging: &Staging) {
    for k in 0..problem.stages() {
        let mut held = Expression::default();
        for i in 0..problem.items.len() {
            staging.add_x(&mut held, 1.0, i, k);
        }
        program.add_row(format!("non_empty[{}]", k + 1), 1.into(), held);
    }
}
