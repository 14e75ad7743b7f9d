//! GPipe: all forward passes, then all backward passes.

use super::{Operation, Order, Phase, Rule, Shape};

pub(super) const RULE: Rule = Rule {
    name: "gpipe",
    summary: "all forward passes, then all backward passes, chunk by chunk",
    source: "Huang et al., GPipe, NeurIPS 2019; several chunks a device breadth-first: Lamy-Poirier, MLSys 2023",
    splits: false,
    applies: |_| true,
    write,
};

/// Backward begins with the last micro-batch, as in the paper's figure.
fn write(shape: &Shape) -> Order {
    let device = |device: usize| {
        let own: Vec<usize> = shape.chunks_of(device).collect();
        let all = 0..shape.micro_batches;
        let forward = own
            .iter()
            .flat_map(|&c| all.clone().map(move |m| Operation::new(c, Phase::Forward, m)));
        let backward = own.iter().rev().flat_map(|&c| {
            all.clone()
                .rev()
                .map(move |m| Operation::new(c, Phase::Backward, m))
        });
        forward.chain(backward).collect()
    };
    Order {
        devices: (0..shape.devices).map(device).collect(),
    }
}
