//! Published schedules, as rules that write down the order of every device.
//!
//! A rule is one file and one row of [`RULES`]. It knows how chunks lie on devices and how many micro-batches there are, never
//! how long anything takes: where chunks are uneven, the order stays the same and what it costs is found by running it.

mod block;
mod dualpipe;
mod gpipe;
mod interleaved;
mod one_f_one_b;
mod v_half;
mod v_min;
mod zb_h1;
mod zb_h2;
mod zb_v;
mod zero_bubble;

use super::{Chunks, Operation, Order, Phase, Placement};

/// A published schedule.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it is published.
    pub source: &'static str,
    /// Whether it runs the two gradients of a backward pass apart.
    pub splits: bool,
    /// What chunks it is for.
    pub applies: fn(&Shape) -> bool,
    /// Its order.
    write: fn(&Shape) -> Order,
}

/// All rules.
pub const RULES: &[Rule] = &[
    gpipe::RULE,
    one_f_one_b::RULE,
    interleaved::RULE,
    zb_h1::RULE,
    zb_h2::RULE,
    zb_v::RULE,
    v_min::RULE,
    v_half::RULE,
    dualpipe::RULE,
];

/// The rule of a name.
pub fn find(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

/// What a rule sees of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Devices.
    pub devices: usize,
    /// Chunks of every device.
    pub virtual_stages: usize,
    /// How chunks lie.
    pub placement: Placement,
    /// Micro-batches.
    pub micro_batches: usize,
}

impl Shape {
    /// The shape of a pipeline whose devices have as many chunks each, placed as it says.
    pub fn from_chunks(chunks: &Chunks, micro_batches: usize) -> Option<Self> {
        let devices = chunks.devices();
        let is_placed = |c: usize| chunks.chunks[c].device == chunks.placement.device(c, devices);
        let is_even = chunks.len().is_multiple_of(devices) && (0..chunks.len()).all(is_placed);
        is_even.then(|| Self {
            devices,
            virtual_stages: chunks.virtual_stages(),
            placement: chunks.placement,
            micro_batches,
        })
    }

    /// The chunks of a device, in the order of the pipeline.
    pub fn chunks_of(&self, device: usize) -> impl Iterator<Item = usize> + use<> {
        let shape = *self;
        (0..shape.virtual_stages).map(move |round| {
            let first = round * shape.devices;
            match shape.placement.device(first, shape.devices) == 0 {
                true => first + device,
                false => first + shape.devices - 1 - device,
            }
        })
    }

    /// One chunk a device.
    fn is_plain(&self) -> bool {
        self.virtual_stages == 1
    }

    /// Two chunks a device, the second ones on the way back.
    fn is_v(&self) -> bool {
        self.virtual_stages == 2 && (self.placement == Placement::V || self.devices == 1)
    }

    /// The two chunks of a device where they form a V.
    fn chunks_of_v(&self, device: usize) -> [usize; 2] {
        [device, 2 * self.devices - 1 - device]
    }
}

impl Rule {
    /// Whether it is for one chunk a device, whatever the number of devices.
    pub fn is_for_plain_pipelines(&self) -> bool {
        let plain = |devices: usize| Shape {
            devices,
            virtual_stages: 1,
            placement: Placement::Loop,
            micro_batches: 2 * devices,
        };
        (1..=4).all(|devices| (self.applies)(&plain(devices)))
    }

    /// Its order for a pipeline, if it is for such.
    pub fn order(&self, shape: &Shape) -> Option<Order> {
        ((self.applies)(shape) && shape.micro_batches > 0).then(|| (self.write)(shape))
    }
}

/// The operations of one device as they are written: each takes the next micro-batch of its chunk and phase.
struct Writer {
    operations: Vec<Operation>,
    /// Micro-batches that there are: what a rule writes beyond is left out.
    micro_batches: usize,
    /// By chunk, how many forward passes, backward passes or gradients of inputs, and gradients of weights are written.
    written: Vec<[usize; 3]>,
}

impl Writer {
    fn new(shape: &Shape) -> Self {
        Self {
            operations: Vec::new(),
            micro_batches: shape.micro_batches,
            written: vec![[0; 3]; shape.devices * shape.virtual_stages],
        }
    }

    fn write(&mut self, chunk: usize, phase: Phase) {
        let counters: &[usize] = match phase {
            Phase::Forward => &[0],
            Phase::Backward => &[1, 2],
            Phase::InputGradient => &[1],
            Phase::WeightGradient => &[2],
        };
        let micro_batch = self.written[chunk][counters[0]];
        counters
            .iter()
            .for_each(|&counter| self.written[chunk][counter] += 1);
        if micro_batch < self.micro_batches {
            self.operations.push(Operation::new(chunk, phase, micro_batch));
        }
    }

    fn forward(&mut self, chunk: usize) {
        self.write(chunk, Phase::Forward);
    }

    fn backward(&mut self, chunk: usize) {
        self.write(chunk, Phase::Backward);
    }

    fn input(&mut self, chunk: usize) {
        self.write(chunk, Phase::InputGradient);
    }

    fn weight(&mut self, chunk: usize) {
        self.write(chunk, Phase::WeightGradient);
    }
}

/// An order that is written device by device.
fn by_device(shape: &Shape, write: impl Fn(usize, &mut Writer)) -> Order {
    let device = |device: usize| {
        let mut writer = Writer::new(shape);
        write(device, &mut writer);
        writer.operations
    };
    Order {
        devices: (0..shape.devices).map(device).collect(),
    }
}
