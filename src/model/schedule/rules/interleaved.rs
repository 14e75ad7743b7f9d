//! Interleaved 1F1B: several chunks a device, in rounds of p micro-batches.

use super::{Order, Placement, Rule, Shape, by_device};

pub(super) const RULE: Rule = Rule {
    name: "interleaved",
    summary: "1F1B over v chunks a device, p micro-batches of a chunk at a time; M is a multiple of p",
    source: "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021",
    splits: false,
    applies: |shape| {
        let loops = shape.placement == Placement::Loop;
        loops && shape.virtual_stages > 1 && shape.micro_batches.is_multiple_of(shape.devices)
    },
    write,
};

/// Passes are numbered: p of the first chunk, p of the second, and so on, then the next p micro-batches. On device i from 0,
/// `2 (p - i - 1) + (v - 1) p` of them come before the first backward pass is due.
fn write(shape: &Shape) -> Order {
    let (p, v) = (shape.devices, shape.virtual_stages);
    let passes = v * shape.micro_batches;
    by_device(shape, |device, writer| {
        let round = |pass: usize| pass / p % v;
        let forward = |pass: usize| round(pass) * p + device;
        let backward = |pass: usize| (v - 1 - round(pass)) * p + device;
        let ahead = (2 * (p - device - 1) + (v - 1) * p).min(passes);
        (0..ahead).for_each(|pass| writer.forward(forward(pass)));
        for pass in 0..passes {
            if ahead + pass < passes {
                writer.forward(forward(ahead + pass));
            }
            writer.backward(backward(pass));
        }
    })
}
