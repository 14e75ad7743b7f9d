//! V-Half: half the memory of 1F1B.

use super::{Rule, Shape, block};

pub(super) const RULE: Rule = Rule {
    name: "v-half",
    summary: "two chunks a device in a V, a slot between the passes of the first chunk: half the memory of 1F1B",
    source: "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    splits: true,
    applies: Shape::is_v,
    write: |shape| {
        let p = shape.devices;
        // Where the number is even, two passes of a device would fall into one slot.
        let pause = if p.is_multiple_of(2) { 3 } else { 0 };
        block::write(shape, |i| {
            [
                2 * i,
                3 * p - i - 2,
                3 * p + pause + 2 * i - 1,
                6 * p + pause - i - 2,
            ]
        })
    },
};
