//! V-Min: a third of the memory of 1F1B.

use super::{Rule, Shape, block};

pub(super) const RULE: Rule = Rule {
    name: "v-min",
    summary: "two chunks a device in a V, every pass right behind the one before: a third of the memory of 1F1B",
    source: "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    splits: true,
    applies: Shape::is_v,
    write: |shape| {
        let p = shape.devices;
        // A multiple of three would have two passes of a device in one slot.
        let pause = if p.is_multiple_of(3) { 2 } else { 0 };
        block::write(shape, |i| {
            [i, 2 * p - i - 1, 2 * p + pause + i, 4 * p + pause - i - 1]
        })
    },
};
