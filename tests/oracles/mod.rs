//! Exact methods that share nothing with the solver: what the rest is tested against.
//!
//! They know neither presolve nor bounds nor incumbents, and of the library only problems, workers, what plans cost, labels
//! of partial plans and slots of hybrid parallelism.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

pub mod allocations;
pub mod brute_force;
pub mod chains;
pub mod chunk_iterations;
pub mod concurrent_modes;
pub mod cut_and_order;
pub mod cut_pairs;
pub mod frontier;
pub mod groupings;
mod hosts;
pub mod hybrid;
pub mod modal_chunks;
mod modal_layers;
mod modal_links;
mod modal_tables;
pub mod modes;
pub mod orders;
pub mod patterns;
pub mod placements;
pub mod replicas;
pub mod runs;
pub mod separate_modes;
pub mod separate_tables;
mod shares;
pub mod two_chains;
pub mod virtual_stages;

use petgraph::Direction::Incoming;

use stagecut::network::Network;
use stagecut::problem::{Assignment, Problem};

/// Shows every assignment of items to so many stages in which no item lies before one that it must follow, in lexicographic order.
pub fn each_assignment(problem: &Problem, stages: usize, show: &mut dyn FnMut(&Assignment)) {
    place_next(problem, stages, &mut Vec::new(), show);
}

/// Tries every stage for the first item without one. Items are in topological order, so all before it are placed.
fn place_next(problem: &Problem, stages: usize, placed: &mut Assignment, show: &mut dyn FnMut(&Assignment)) {
    let item = placed.len();
    if item == problem.items.len() {
        return show(placed);
    }
    let before = problem.order.neighbors_directed((item as u32).into(), Incoming);
    let earliest = before.map(|u| placed[u.index()]).max().unwrap_or(0);
    for stage in earliest..stages {
        placed.push(stage);
        place_next(problem, stages, placed, show);
        placed.pop();
    }
}

/// Whether a layer is trained, or some layer whose output reaches it: then gradients flow back through it.
pub fn is_behind_trained(network: &Network, layer: usize) -> bool {
    let mut reached: Vec<bool> = network.layers.iter().map(|layer| !layer.frozen).collect();
    // As often as the longest path has layers.
    for _ in 0..network.layers.len() {
        for tensor in &network.tensors {
            for &to in &tensor.consumers {
                reached[to] |= reached[tensor.producer];
            }
        }
    }
    reached[layer]
}
