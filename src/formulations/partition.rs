//! The partition program: staging, communication, load and memory together.
#![doc = include_str!("../../formulations/partition.md")]

use std::collections::HashSet;

use super::Program;
use super::communication::{Charges, charges};
use super::load::{BottleneckColumns, Placement, load, objective};
use super::memory::memory;
use super::staging::{Staging, Windows, monotone, non_empty, precedence};
use crate::model::instance::Instance;
use crate::problem::cost;
use crate::problem::{Assignment, Problem};

/// What is known of the plans that a program is to find, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// No plan has a smaller bottleneck.
    pub bottleneck_from_ns: u64,
    /// No plan with a larger bottleneck is looked for.
    pub bottleneck_to_ns: u64,
    /// Nor one of a larger objective, where given: then cut-offs lie midway to the next objective that a plan may have.
    pub objective_to_ns: Option<u64>,
    /// What all times are multiples of, and so what sums and maxima of them are.
    pub quantum_ns: u64,
}

impl Interest {
    /// Plans of which nothing is known, with bottlenecks of at most `bottleneck_ns`.
    pub fn up_to(bottleneck_ns: u64) -> Self {
        Self {
            bottleneck_from_ns: 0,
            bottleneck_to_ns: bottleneck_ns,
            objective_to_ns: None,
            quantum_ns: 1,
        }
    }

    /// What cut-offs are above the largest objective of interest.
    fn margin_ns(&self) -> f64 {
        match self.objective_to_ns {
            Some(ns) if ns < u64::MAX => self.quantum_ns as f64 / 2.0,
            _ => 0.0,
        }
    }
}

/// A partition program, with what is needed to read and write its solutions.
pub struct Partition {
    /// The program.
    pub program: Program,
    /// What its columns mean.
    pub columns: Columns,
}

/// The meaning of a partition program's columns.
pub struct Columns {
    staging: Staging,
    charges: Charges,
    bottlenecks: BottleneckColumns,
    scale_ns: f64,
    count: usize,
}

impl Partition {
    /// Builds the program of a problem.
    ///
    /// * `windows`: stages an item may lie in; [`Windows::all`] for the textbook program;
    /// * `interest`: which plans are looked for;
    /// * `labels`: a name for each item, see [`item_labels`].
    ///
    /// Size: at most (q-1) n binaries, 2 q t charges, (q-2) n + (q-1) e + 2 q c rows for n items, e order pairs, and t
    /// transfers with c consumers in all.
    pub fn build(problem: &Problem, windows: &Windows, interest: Interest, labels: &[String]) -> Self {
        let scale_ns = (interest.bottleneck_to_ns.min(problem.work_ns().saturating_mul(2))).max(1) as f64;
        let mut program = Program::new(scale_ns);
        let staging = Staging::declare(&mut program, problem, windows, labels);
        let paid = Charges::declare(&mut program, problem, &staging, 0..problem.stages());
        let at_most = (interest.bottleneck_to_ns as f64 + interest.margin_ns()) / scale_ns;
        let bottlenecks = BottleneckColumns::declare(&mut program, problem, at_most);
        monotone(&mut program, problem, &staging, labels);
        precedence(&mut program, problem, &staging, labels);
        if problem.settings.all_stages {
            non_empty(&mut program, problem, &staging);
        }
        charges(&mut program, problem, &staging, &paid, labels);
        let placement = Placement {
            problem,
            staging: &staging,
            charges: &paid,
        };
        load(&mut program, placement, &bottlenecks, 0..problem.stages(), |_| {
            1.0
        });
        memory(&mut program, problem, &staging, labels);
        program.objective = objective(&program, placement, &bottlenecks);
        floor(&mut program, problem, &bottlenecks, interest.bottleneck_from_ns);
        if let Some(at_most_ns) = interest.objective_to_ns.filter(|&ns| ns < u64::MAX) {
            cut_off(&mut program, problem, at_most_ns as f64 + interest.margin_ns());
        }
        let columns = Columns {
            staging,
            charges: paid,
            bottlenecks,
            scale_ns,
            count: program.variables.len(),
        };
        Self { program, columns }
    }
}

impl Columns {
    /// Reads the assignment of a solution; `None` if its binaries are not whole.
    pub fn assignment(&self, values: &[f64]) -> Option<Assignment> {
        self.staging.assignment(values)
    }

    /// Leaves a solution out: see [`Staging::exclude`].
    pub fn exclude(&self, program: &mut Program, at: usize, assignment: &Assignment) {
        self.staging.exclude(program, at, assignment);
    }

    /// Column values of an assignment: a complete start for the solver.
    pub fn start(&self, problem: &Problem, assignment: &Assignment) -> Vec<f64> {
        let mut values = vec![0.0; self.count];
        self.staging.write(assignment, &mut values);
        self.charges.write(problem, assignment, &mut values);
        let costs = cost::stage_costs(problem, assignment);
        self.bottlenecks.write(self.scale_ns, &costs, &mut values);
        values
    }
}

/// Family `floor`: the bottleneck of an iteration is at least what is known of it. A period needs no row: it is the bottleneck,
/// and what is known of it proves no plan.
fn floor(program: &mut Program, problem: &Problem, bottlenecks: &BottleneckColumns, at_least_ns: u64) {
    if !problem.formula().is_bottleneck() && at_least_ns > 0 {
        let at_least = at_least_ns as f64 / program.scale_ns;
        program.add_row("floor[bottleneck]".into(), at_least.into(), bottlenecks.sum());
    }
}

/// Family `cut_off`: the objective of an iteration is at most that of interest. A period needs no row: it is the bottleneck,
/// whose upper bound says the same.
fn cut_off(program: &mut Program, problem: &Problem, at_most_ns: f64) {
    if !problem.formula().is_bottleneck() {
        let at_most = at_most_ns / program.scale_ns;
        program.add_row(
            "cut_off[objective]".into(),
            program.objective.clone(),
            at_most.into(),
        );
    }
}

/// A readable, unique name for each item that LP and MPS files can carry: that of its first layer, and `.backward` if it holds
/// backward passes alone.
pub fn item_labels(instance: &Instance, problem: &Problem) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut labels = Vec::with_capacity(problem.items.len());
    for (i, item) in problem.items.iter().enumerate() {
        let id = |&layer: &usize| instance.network.layers[layer].id.clone();
        let backward = || item.backward_layers.first().map(|layer| id(layer) + ".backward");
        let first = item.layers.first().map(id).or_else(backward).unwrap_or_default();
        let safe = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' => c,
            _ => '_',
        };
        let mut label: String = first.chars().map(safe).collect();
        if !taken.insert(label.clone()) {
            label = format!("{label}.{i}");
            taken.insert(label.clone());
        }
        labels.push(label);
    }
    labels
}
