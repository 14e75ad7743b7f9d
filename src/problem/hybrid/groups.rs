//! The best pipelines of groups, for every number of devices of each class: a dynamic program over layers and counts.

use super::Slot;
use super::counts::Counts;
use super::plan::{Layout, Stage};
use super::shares::{self, Taker};

/// Least bottlenecks of the last layers, by depth, first layer and count vector, and how they come about.
pub(super) struct Groups {
    layers: usize,
    vectors: usize,
    /// Deepest pipeline told apart; 0 where memory binds at no depth and depths need not be told apart.
    depths: usize,
    best_ms: Vec<f64>,
    /// End of the first stage, and the number of its count vector.
    choice: Vec<(u32, u32)>,
}

impl Groups {
    /// Fills the tables. Time `O(depths L² pairs)` for `L` layers and the pairs `m <= n` of count vectors.
    pub(super) fn new(slot: &Slot, counts: &Counts) -> Self {
        let layers = slot.chain.layers();
        let vectors = counts.vectors.len();
        let depths = match memory_binds(slot, counts) {
            true => slot.devices.len().min(layers),
            false => 0,
        };
        let cells = (depths + 1) * (layers + 1) * vectors;
        let mut tables = Self {
            layers,
            vectors,
            depths,
            best_ms: vec![f64::INFINITY; cells],
            choice: vec![(0, 0); cells],
        };
        let end = tables.cell(0, layers, 0);
        tables.best_ms[end] = 0.0;
        if depths == 0 {
            tables.fill(slot, counts, 0, 0);
        }
        for depth in 1..=depths {
            tables.fill(slot, counts, depth, depth - 1);
        }
        tables
    }

    fn cell(&self, depth: usize, first: usize, n: usize) -> usize {
        (depth * (self.layers + 1) + first) * self.vectors + n
    }

    /// Pipelines of a depth, from those of the depth that follows their first stage.
    fn fill(&mut self, slot: &Slot, counts: &Counts, depth: usize, next: usize) {
        let mut stage_ms = vec![f64::INFINITY; self.vectors];
        for first in (0..self.layers).rev() {
            for end in first + 1..=self.layers {
                stage_times(slot, counts, first..end, depth.max(1), &mut stage_ms);
                self.put_stage(counts, &stage_ms, (depth, first), (next, end));
            }
        }
    }

    /// Puts one stage, whose times are known by count vector, in front of every pipeline of the layers that follow. Both
    /// pipelines are told by their depth and first layer.
    fn put_stage(
        &mut self,
        counts: &Counts,
        stage_ms: &[f64],
        (depth, first): (usize, usize),
        (next, end): (usize, usize),
    ) {
        for n in 1..self.vectors {
            let at = self.cell(depth, first, n);
            for &m in &counts.below[n] {
                let rest_ms = self.best_ms[self.cell(next, end, n - m)];
                let bottleneck_ms = rest_ms.max(stage_ms[m]);
                if bottleneck_ms < self.best_ms[at] {
                    self.best_ms[at] = bottleneck_ms;
                    self.choice[at] = (end as u32, m as u32);
                }
            }
        }
    }

    /// The depth of the best pipeline that uses exactly these devices.
    fn depth(&self, n: usize) -> usize {
        let time_ms = |depth: &usize| self.best_ms[self.cell(*depth, 0, n)];
        let depths = self.depths.min(1)..=self.depths;
        depths
            .min_by(|a, b| time_ms(a).total_cmp(&time_ms(b)))
            .unwrap_or(0)
    }

    /// The least time of a batch with exactly these devices, in ms.
    pub(super) fn time_ms(&self, n: usize) -> f64 {
        self.best_ms[self.cell(self.depth(n), 0, n)]
    }

    /// The layout that takes it.
    pub(super) fn layout(&self, counts: &Counts, mut n: usize) -> Layout {
        let mut depth = self.depth(n);
        let mut taken = vec![0; counts.classes.len()];
        let (mut stages, mut first) = (Vec::new(), 0);
        while first < self.layers {
            let (end, m) = self.choice[self.cell(depth, first, n)];
            let mut devices = Vec::new();
            for (c, &count) in counts.vectors[m as usize].iter().enumerate() {
                devices.extend(&counts.classes[c].devices[taken[c]..taken[c] + count]);
                taken[c] += count;
            }
            stages.push(Stage {
                layers: first..end as usize,
                devices,
            });
            (first, n, depth) = (end as usize, n - m as usize, depth.saturating_sub(1));
        }
        vec![stages]
    }
}

/// Whether any device could run out of memory anywhere: else depths need not be told apart.
fn memory_binds(slot: &Slot, counts: &Counts) -> bool {
    let deepest = slot.devices.len();
    let mut devices = counts.classes.iter().map(|class| class.devices[0]);
    let chain = slot.chain;
    let bytes = chain.state_bytes.iter().sum::<f64>()
        + chain.stash_bytes.iter().sum::<f64>() * slot.micro_batch * deepest as f64;
    devices.any(|device| bytes > slot.devices[device].memory_bytes)
}

/// Time of a stage for every count vector of its group.
fn stage_times(
    slot: &Slot,
    counts: &Counts,
    layers: std::ops::Range<usize>,
    depth: usize,
    stage_ms: &mut [f64],
) {
    let members: Vec<Option<(Taker, f64)>> = counts
        .classes
        .iter()
        .map(|class| {
            let device = class.devices[0];
            let taker = Taker {
                sample_ms: slot.sample_ms(device, &layers),
                room: slot.room(device, &layers, depth)?,
            };
            Some((taker, slot.devices[device].bandwidth_bytes_per_ms))
        })
        .collect();
    let waiting_ms = slot.waiting_ms(layers.start) + slot.waiting_ms(layers.end);
    let mut takers = Vec::new();
    for (m, vector) in counts.vectors.iter().enumerate().skip(1) {
        takers.clear();
        let mut slowest = f64::INFINITY;
        let mut allowed = true;
        for (&count, member) in vector.iter().zip(&members).filter(|(count, _)| **count > 0) {
            let Some((taker, bandwidth)) = member else {
                allowed = false;
                break;
            };
            takers.extend(std::iter::repeat_n(*taker, count));
            slowest = slowest.min(*bandwidth);
        }
        stage_ms[m] = match allowed {
            false => f64::INFINITY,
            true => {
                let ring_ms = slot.ring_ms(&layers, takers.len(), slowest);
                shares::time_ms(&takers, slot.samples, slot.whole) + waiting_ms + ring_ms
            }
        };
    }
}
