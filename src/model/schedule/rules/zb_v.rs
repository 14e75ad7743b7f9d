//! ZB-V: two chunks a device in a V, the memory of 1F1B, no bubble where all phases take as long.

use super::{Order, Rule, Shape, Writer, by_device};

pub(super) const RULE: Rule = Rule {
    name: "zb-v",
    summary: "two chunks a device in a V: the first chunk fills the pipeline, then both take turns with all three phases",
    source: "Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241v1, Section 6; as in PyTorch's ScheduleZBVZeroBubble",
    splits: true,
    applies: Shape::is_v,
    write,
};

/// The rule is for `2p - 1` micro-batches at least; where there are fewer, those that there are not are left out.
fn write(shape: &Shape) -> Order {
    let p = shape.devices;
    let all = shape.micro_batches.max(2 * p - 1);
    by_device(shape, |device, writer| {
        let [down, up] = shape.chunks_of_v(device);
        (0..2 * (p - device) - 1).for_each(|_| writer.forward(down));
        for _ in 0..device {
            writer.forward(up);
            writer.forward(down);
        }
        for _ in device..p {
            writer.forward(up);
            both_gradients(writer, up);
        }
        while writer.written[up][0] < writer.written[down][0] || writer.written[down][0] < all {
            if writer.written[down][0] < all {
                writer.forward(down);
            }
            both_gradients(writer, down);
            writer.forward(up);
            both_gradients(writer, up);
        }
        for _ in 0..device {
            writer.input(down);
            writer.input(up);
        }
        for _ in device..p {
            writer.input(down);
            writer.weight(down);
        }
        for chunk in [up, down] {
            (writer.written[chunk][2]..all).for_each(|_| writer.weight(chunk));
        }
    })
}

fn both_gradients(writer: &mut Writer, chunk: usize) {
    writer.input(chunk);
    writer.weight(chunk);
}
