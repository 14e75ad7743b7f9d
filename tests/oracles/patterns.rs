//! The least peak of a small pipeline's patterns, by enumeration of when operations start.
//!
//! An operation that starts a period or more after all that it waits for may as well start a period earlier, with everything that waits for
//! it: slots stay the same, what it waits for is held for less time, and what comes later is held as long. So one period of starts
//! is enough; a caller may ask for more.

use stagecut::schedule::{Chunks, Pattern, Phase};

/// The least peak at a period of so many slots of 1 ns; operations start up to so many periods after what they wait for.
pub fn least_peak(chunks: &Chunks, period: u64, periods: u64) -> Option<u64> {
    let phases: &[Phase] = match chunks.may_split {
        true => &[Phase::Forward, Phase::InputGradient, Phase::WeightGradient],
        false => &[Phase::Forward, Phase::Backward],
    };
    let forward = (0..chunks.len()).map(|chunk| (chunk, Phase::Forward));
    let back = (0..chunks.len()).rev();
    let backward = back.flat_map(|chunk| phases[1..].iter().map(move |&phase| (chunk, phase)));
    let mut search = Search {
        chunks,
        operations: forward.chain(backward).collect(),
        spare: periods * period,
        pattern: Pattern {
            slot_ns: 1,
            period,
            starts: Vec::new(),
        },
        busy: vec![vec![false; period as usize]; chunks.devices()],
        least: None,
    };
    search.place(0);
    search.least
}

struct Search<'a> {
    chunks: &'a Chunks,
    /// Each after those that it waits for.
    operations: Vec<(usize, Phase)>,
    /// No operation starts so long after what it waits for.
    spare: u64,
    pattern: Pattern,
    busy: Vec<Vec<bool>>,
    least: Option<u64>,
}

impl Search<'_> {
    fn place(&mut self, at: usize) {
        let Some(&(chunk, phase)) = self.operations.get(at) else {
            if let Ok(peaks) = self.pattern.peaks(self.chunks) {
                let peak = peaks.into_iter().max().unwrap_or(0);
                self.least = Some(self.least.map_or(peak, |least| least.min(peak)));
            }
            return;
        };
        let ready = self.ready(chunk, phase);
        let last = if at == 0 { 1 } else { ready + self.spare };
        for start in ready..last {
            let Some(slots) = self.take(chunk, phase, start) else {
                continue;
            };
            self.pattern.starts.push((chunk, phase, start));
            self.place(at + 1);
            self.pattern.starts.pop();
            let device = self.chunks.chunks[chunk].device;
            slots.into_iter().for_each(|slot| self.busy[device][slot] = false);
        }
    }

    /// When what an operation waits for has ended and arrived.
    fn ready(&self, chunk: usize, phase: Phase) -> u64 {
        let of = &self.chunks.chunks;
        let end = |chunk: usize, phase: Phase| {
            let placed = self
                .pattern
                .starts
                .iter()
                .find(|start| (start.0, start.1) == (chunk, phase));
            placed.map_or(0, |start| start.2 + self.length(chunk, phase))
        };
        let back = if self.chunks.may_split {
            Phase::InputGradient
        } else {
            Phase::Backward
        };
        match phase {
            Phase::Forward if chunk == 0 => 0,
            Phase::Forward => end(chunk - 1, Phase::Forward) + of[chunk - 1].forward_transfer_ns,
            Phase::WeightGradient => end(chunk, Phase::InputGradient),
            _ if chunk + 1 == of.len() => end(chunk, Phase::Forward),
            _ => end(chunk, Phase::Forward).max(end(chunk + 1, back) + of[chunk + 1].backward_transfer_ns),
        }
    }

    /// Slots of an operation; a forward pass takes one at least.
    fn length(&self, chunk: usize, phase: Phase) -> u64 {
        let least = if phase == Phase::Forward { 1 } else { 0 };
        self.chunks.duration_ns(chunk, phase).max(least)
    }

    /// Takes the slots of an operation, if its device has them free.
    fn take(&mut self, chunk: usize, phase: Phase, start: u64) -> Option<Vec<usize>> {
        let device = self.chunks.chunks[chunk].device;
        let slots = start..start + self.length(chunk, phase);
        let slots: Vec<usize> = slots.map(|slot| (slot % self.pattern.period) as usize).collect();
        if slots.iter().any(|&slot| self.busy[device][slot]) {
            return None;
        }
        slots.iter().for_each(|&slot| self.busy[device][slot] = true);
        Some(slots)
    }
}
