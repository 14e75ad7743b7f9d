//! The instance as one chunk of a prompt sees it: each chunk is a micro-batch of its own size.

use super::Instance;
use crate::model::network::Times;
use crate::model::prompt::{Chunk, Prompt, Reading};

impl Instance {
    /// The same with what forward propagation takes and moves for a chunk instead of a micro-batch; what is held stays as it is.
    ///
    /// Time O(layers, their modes and kinds, and tensors).
    pub(crate) fn of_chunk(&self, chunk: Chunk, prompt: &Prompt) -> Self {
        let mut own = self.clone();
        let part = |bytes: u64| chunk.share_of(bytes, prompt);
        let read = |times: &mut [Option<Times>], readings: &[Option<Reading>]| {
            for (times, reading) in times.iter_mut().zip(readings) {
                if let (Some(times), Some(reading)) = (times, reading) {
                    times.forward_ns = reading.ns(chunk, prompt);
                }
            }
        };
        for layer in &mut own.network.layers {
            read(&mut layer.times, &layer.readings);
            for mode in &mut layer.modes {
                read(&mut mode.times, &mode.readings);
                let beside = mode.input_bytes.iter_mut().chain(&mut mode.output_bytes);
                beside.for_each(|(_, bytes)| *bytes = part(*bytes));
                mode.collective_bytes = part(mode.collective_bytes);
                if let Some(experts) = &mut mode.experts {
                    experts.routed_bytes = part(experts.routed_bytes);
                }
            }
        }
        for tensor in &mut own.network.tensors {
            tensor.size = tensor.size.part(part);
        }
        own
    }
}
