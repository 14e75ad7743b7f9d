//! DualPipe on half the devices: its two directions are the two halves of a V.

use std::collections::VecDeque;

use super::{Order, Phase, Rule, Shape, Writer, by_device};

pub(super) const RULE: Rule = Rule {
    name: "dualpipe",
    summary: "two chunks a device in a V, forward passes of one beside backward passes of the other; M is 2p at least",
    source: "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024; cut in half: Qi et al., DualPipeV, 2025; as in PyTorch's ScheduleDualPipeV",
    splits: true,
    applies: |shape| shape.is_v() && shape.micro_batches >= 2 * shape.devices,
    write,
};

/// A device and the gradients of weights that it still owes, the oldest first.
struct Owing<'a> {
    writer: &'a mut Writer,
    owed: VecDeque<usize>,
}

impl Owing<'_> {
    fn input(&mut self, chunk: usize) {
        self.writer.input(chunk);
        self.owed.push_back(chunk);
    }

    fn weight(&mut self) {
        if let Some(chunk) = self.owed.pop_front() {
            self.writer.weight(chunk);
        }
    }

    /// The whole backward pass, or the gradient of the input alone.
    fn back(&mut self, chunk: usize, phase: Phase) {
        match phase {
            Phase::InputGradient => self.input(chunk),
            _ => self.writer.backward(chunk),
        }
    }

    /// Passes that run side by side on a real device run one after the other here.
    fn forward_and_backward(&mut self, forward: usize, backward: usize) {
        self.writer.forward(forward);
        self.writer.backward(backward);
    }
}

fn write(shape: &Shape) -> Order {
    let p = shape.devices;
    by_device(shape, |device, writer| {
        let [down, up] = shape.chunks_of_v(device);
        let mut owing = Owing {
            writer,
            owed: VecDeque::new(),
        };
        (0..2 * (p - device - 1)).for_each(|_| owing.writer.forward(down));
        for _ in 0..=device {
            owing.writer.forward(down);
            owing.writer.forward(up);
        }
        for _ in device + 1..p {
            owing.input(up);
            owing.weight();
            owing.writer.forward(up);
        }
        for _ in 0..shape.micro_batches + device + 1 - 2 * p {
            owing.forward_and_backward(down, up);
            owing.forward_and_backward(up, down);
        }
        for _ in device + 1..p {
            owing.writer.backward(up);
            owing.forward_and_backward(up, down);
        }
        drain(&mut owing, device, p, [down, up]);
    })
}

/// The tail: whole backward passes first, then gradients of inputs with those of weights behind them.
fn drain(owing: &mut Owing, device: usize, p: usize, [down, up]: [usize; 2]) {
    let half = device.div_ceil(2);
    for pass in 0..=device {
        // The two chunks of a device change over in the middle, odd devices a pass earlier.
        let splits_up = pass >= half + usize::from(device.is_multiple_of(2));
        let splits_down = pass >= half;
        for (chunk, splits) in [(up, splits_up), (down, splits_down)] {
            owing.back(chunk, phase(splits));
        }
    }
    for _ in device + 1..p {
        owing.weight();
        owing.back(down, Phase::InputGradient);
    }
    (0..=device).for_each(|_| owing.weight());
}

fn phase(splits: bool) -> Phase {
    match splits {
        true => Phase::InputGradient,
        false => Phase::Backward,
    }
}
