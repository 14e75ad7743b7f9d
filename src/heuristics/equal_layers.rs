//! Equal layers: the same number of layers on every stage, whatever they cost.

use super::{Effort, Heuristic, MustStop, Run, along, if_feasible, orders};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "equal-layers",
    summary: "the same number of layers on every stage",
    source: "what frameworks do unless told otherwise: Megatron-LM, D. Narayanan et al., SC 2021; \
             `uniform` in DeepSpeed, J. Rasley et al., KDD 2020",
    exact_for: "the period of chains of equal layers without communication and memory limit",
    effort: Effort::Quick,
    run: Run::Homogeneous(|_| Ok(()), run),
};

/// Cuts the order by item number so that stage k of q ends where k/q of the layers do.
///
/// An item of several tied layers goes where its first layer would. Time O(n log n) for n items.
fn run(problem: &Problem, _seed: u64, _must_stop: MustStop<'_>) -> Option<Assignment> {
    let order = orders::by_number(problem);
    let layers = |item: usize| problem.items[item].layers.len() + problem.items[item].backward_layers.len();
    let all: usize = order.iter().map(|&item| layers(item)).sum();
    let mut before = 0;
    let mut stages = Vec::with_capacity(order.len());
    for &item in &order {
        stages.push(before * problem.stages() / all.max(1));
        before += layers(item);
    }
    if_feasible(problem, along(problem, &order, &stages))
}
