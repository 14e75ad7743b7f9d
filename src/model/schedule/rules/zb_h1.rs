//! ZB-H1: the memory of 1F1B, a third of its bubble.

use super::{Rule, Shape, zero_bubble};

pub(super) const RULE: Rule = Rule {
    name: "zb-h1",
    summary: "1F1B whose gradients of weights wait until the tail, as far as the memory of 1F1B goes",
    source: "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, Section 2.1",
    splits: true,
    applies: Shape::is_plain,
    write: |shape| zero_bubble::write(shape, |device| shape.devices - device, |device| device),
};
