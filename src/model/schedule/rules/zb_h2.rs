//! ZB-H2: about twice the memory of 1F1B, no bubble where all phases take as long.

use super::{Rule, Shape, zero_bubble};

pub(super) const RULE: Rule = Rule {
    name: "zb-h2",
    summary: "2 (p - i) - 1 forward passes on device i from 0 before the first gradient; those of weights fill the tail",
    source: "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, Section 2.2",
    splits: true,
    applies: Shape::is_plain,
    write: |shape| {
        let ahead = |device: usize| 2 * (shape.devices - device) - 1;
        zero_bubble::write(shape, ahead, |device| 2 * device)
    },
};
