//! What the zero-bubble rules on one chunk a device share.

use super::{Order, Shape, by_device};

/// On device i, `ahead(i)` forward passes come before the first gradient of an input; from then on gradients of inputs and forward
/// passes take turns, and gradients of weights lie `late(i)` micro-batches behind those of inputs. The rest come last.
pub(super) fn write(shape: &Shape, ahead: impl Fn(usize) -> usize, late: impl Fn(usize) -> usize) -> Order {
    by_device(shape, |device, writer| {
        (0..ahead(device)).for_each(|_| writer.forward(device));
        for micro_batch in 0..shape.micro_batches {
            writer.input(device);
            if micro_batch >= late(device) {
                writer.weight(device);
            }
            writer.forward(device);
        }
        (0..late(device)).for_each(|_| writer.weight(device));
    })
}
