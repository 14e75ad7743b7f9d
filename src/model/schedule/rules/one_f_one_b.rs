//! 1F1B: one forward, one backward in steady state.

use super::{Order, Rule, Shape, by_device};

pub(super) const RULE: Rule = Rule {
    name: "1f1b",
    summary: "p - i forward passes on device i from 0, then one backward and one forward pass in turn",
    source: "Narayanan et al., PipeDream, SOSP 2019; with a flush: Narayanan et al., ICML 2021",
    splits: false,
    applies: Shape::is_plain,
    write,
};

fn write(shape: &Shape) -> Order {
    by_device(shape, |device, writer| {
        let ahead = shape.devices - device;
        (0..ahead).for_each(|_| writer.forward(device));
        for _ in 0..shape.micro_batches {
            writer.backward(device);
            writer.forward(device);
        }
    })
}
