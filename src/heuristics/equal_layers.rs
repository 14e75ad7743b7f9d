//! Equal layers: the same number of layers on every stage, whatever they cost.

use super::{Effort, Heuristic, MustStop, Run, along, if_feasible, orders, uniform};
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "equal-layers",
    summary: "the same number of layers on every stage; of modes one degree and number of replicas for all, and what fits",
    source: "what frameworks do unless told otherwise: Megatron-LM, D. Narayanan et al., SC 2021; \
             `uniform` in DeepSpeed, J. Rasley et al., KDD 2020; with recomputation by stage the even partitioning of \
             AdaPipe, Z. Sun et al., ASPLOS 2024",
    exact_for: "the period of chains of equal layers without communication and memory limit",
    effort: Effort::Quick,
    run: Run::HomogeneousOrModal(run, run_modal),
};

fn run(problem: &Problem, _seed: u64, _must_stop: MustStop<'_>) -> Option<Assignment> {
    if_feasible(problem, cut(problem, problem.stages()))
}

/// Each stage computes again what costs it least among what fits.
fn run_modal(problem: &Problem, modes: &Modes, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    uniform::best(problem, modes, uniform::fastest, must_stop)
}

/// Cuts the order by item number so that stage k of q ends where k/q of the layers do.
///
/// An item of several tied layers goes where its first layer would. Time O(n log n) for n items.
pub(super) fn cut(problem: &Problem, stages: usize) -> Assignment {
    let order = orders::by_number(problem);
    let layers = |item: usize| problem.items[item].layers.len() + problem.items[item].backward_layers.len();
    let all: usize = order.iter().map(|&item| layers(item)).sum();
    let mut before = 0;
    let mut stage_of = Vec::with_capacity(order.len());
    for &item in &order {
        stage_of.push(before * stages / all.max(1));
        before += layers(item);
    }
    along(problem, &order, &stage_of)
}
