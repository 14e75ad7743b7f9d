//! Equal chunks: the same number of layers in every chunk, whatever they cost.

use super::{Effort, Heuristic, MustStop, Run, orders};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "chunk-even",
    summary: "the same number of layers in every chunk of every device",
    source: "D. Narayanan et al., SC 2021, section 2.2: interleaved stages of Megatron-LM",
    exact_for: "the period of chains of equal layers, as many in every chunk, without communication and memory limit",
    effort: Effort::Quick,
    run: Run::Chunks(run),
};

/// Chunk k of c ends where k/c of the layers do, in the order of the items' numbers. Time O(n log n) for n items.
fn run(problem: &Problem, of: &VirtualStages, _seed: u64, _must_stop: MustStop<'_>) -> Option<Assignment> {
    let order = orders::by_number(problem);
    let layers = |item: usize| {
        let item = &problem.items[item];
        item.layers.len() + item.backward_layers.len()
    };
    let all: usize = order.iter().map(|&item| layers(item)).sum();
    let mut before = 0;
    let mut assignment = vec![0; order.len()];
    for item in order {
        assignment[item] = before * of.chunks() / all.max(1);
        before += layers(item);
    }
    super::if_feasible(problem, assignment)
}
