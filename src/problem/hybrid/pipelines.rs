//! The best parallel pipelines, for every number of devices of each class: the best single pipelines by a dynamic program
//! over layers and counts, then the best way to divide the devices among pipelines.

use super::Slot;
use super::counts::Counts;
use super::plan::{Layout, Stage};
use super::shares::{self, Taker, whole_within};

/// By number of pipelines and count vector: a sum and the last pipeline in it.
type Sums = Vec<Vec<(f64, usize)>>;

/// Pipelines that share a batch.
#[derive(Clone)]
struct Division {
    /// The time of the batch.
    time_ms: f64,
    /// Count vectors of the pipelines.
    parts: Vec<usize>,
}

/// Tables of both programs.
pub(super) struct Pipelines {
    layers: usize,
    vectors: usize,
    /// Least time of a sample at the slowest stage, by first layer and count vector; every device has a stage.
    sample_ms: Vec<f64>,
    /// End of the first stage, and the class of its device.
    choice: Vec<(u32, u32)>,
    /// Least time of a batch and the pipelines that reach it, by count vector of all devices in use.
    divided: Vec<Division>,
}

impl Pipelines {
    /// Fills the tables. Time `O(L² V C)` for single pipelines over `V` vectors of `C` classes, and `O(G pairs)` to divide
    /// devices among up to `G` pipelines; with whole samples the latter again below each vector, for each time tried.
    pub(super) fn new(slot: &Slot, counts: &Counts) -> Self {
        let layers = slot.chain.layers();
        let vectors = counts.vectors.len();
        let cells = (layers + 1) * vectors;
        let mut tables = Self {
            layers,
            vectors,
            sample_ms: vec![f64::INFINITY; cells],
            choice: vec![(0, 0); cells],
            divided: Vec::new(),
        };
        tables.sample_ms[layers * vectors] = 0.0;
        for first in (0..layers).rev() {
            for end in first + 1..=layers {
                for class in 0..counts.classes.len() {
                    tables.extend(slot, counts, first..end, class);
                }
            }
        }
        tables.divided = tables.divide(slot, counts);
        tables
    }

    /// Tries one first stage, on a device of a class, before every pipeline of the layers that follow.
    fn extend(&mut self, slot: &Slot, counts: &Counts, layers: std::ops::Range<usize>, class: usize) {
        let device = counts.classes[class].devices[0];
        let stage_ms = slot.sample_ms(device, &layers);
        let one = counts.one(class);
        // Every device of a pipeline has a stage, so the devices count the depth.
        let deepest = slot.devices.len();
        let fits: Vec<bool> = (0..=deepest)
            .map(|depth| slot.room(device, &layers, depth).is_some())
            .collect();
        for n in 1..self.vectors {
            if counts.vectors[n][class] == 0 || !fits[counts.sizes[n]] {
                continue;
            }
            let bottleneck_ms = stage_ms.max(self.sample_ms[layers.end * self.vectors + n - one]);
            let at = layers.start * self.vectors + n;
            if bottleneck_ms < self.sample_ms[at] {
                self.sample_ms[at] = bottleneck_ms;
                self.choice[at] = (layers.end as u32, class as u32);
            }
        }
    }

    /// For every number of pipelines up to `most` and each of the vectors `among`, the largest sum of what its pipelines do,
    /// and the last pipeline. `among` holds, in rising order, every vector below any of its own.
    fn largest_sums(&self, counts: &Counts, among: &[usize], most: usize, done: &dyn Fn(f64) -> f64) -> Sums {
        let mut of_one = vec![f64::NEG_INFINITY; self.vectors];
        for &n in among.iter().filter(|&&n| self.sample_ms[n].is_finite()) {
            of_one[n] = done(self.sample_ms[n]);
        }
        let mut before = vec![(f64::NEG_INFINITY, 0); self.vectors];
        before[0] = (0.0, 0);
        let mut sums = vec![before];
        for groups in 1..=most {
            let mut next = vec![(f64::NEG_INFINITY, 0); self.vectors];
            for &n in among {
                let parts = counts.below[n].iter();
                next[n] = parts
                    .map(|&m| (sums[groups - 1][n - m].0 + of_one[m], m))
                    .fold(next[n], |most, sum| if sum.0 > most.0 { sum } else { most });
            }
            sums.push(next);
        }
        sums
    }

    /// Samples in real numbers: pipelines share a batch by their rates, so the largest sum of rates is best. With whole
    /// samples that time is a bound, and its pipelines are where the search begins.
    fn divide(&self, slot: &Slot, counts: &Counts) -> Vec<Division> {
        let most = slot.devices.len();
        let all: Vec<usize> = (1..self.vectors).collect();
        let sums = self.largest_sums(counts, &all, most, &|sample_ms| 1.0 / sample_ms);
        let none = Division {
            time_ms: f64::INFINITY,
            parts: Vec::new(),
        };
        let mut divided = vec![none; self.vectors];
        for n in 1..self.vectors {
            let mut asked: Vec<(f64, usize)> = (1..=most)
                .filter(|&groups| sums[groups][n].0 > 0.0)
                .map(|groups| (f64::from(slot.samples) / sums[groups][n].0, groups))
                .collect();
            let total = |&(time_ms, groups): &(f64, usize)| time_ms + self.ring_ms(slot, groups);
            asked.sort_by(|a, b| total(a).total_cmp(&total(b)));
            for bound in asked {
                if total(&bound) >= divided[n].time_ms {
                    break;
                }
                let (time_ms, groups) = bound;
                let parts = parts(&sums, groups, n);
                let mut found = Division { time_ms, parts };
                if slot.whole {
                    found = self.whole(slot, counts, n, found);
                }
                found.time_ms += self.ring_ms(slot, groups);
                if found.time_ms < divided[n].time_ms {
                    divided[n] = found;
                }
            }
        }
        divided
    }

    /// The best pipelines for whole samples, as many as the best division of samples in real numbers has: the least time in
    /// which enough samples are done is a multiple of some pipeline's sample time, and what can be done grows with time, so
    /// bisection finds it.
    fn whole(&self, slot: &Slot, counts: &Counts, n: usize, real: Division) -> Division {
        let takers: Vec<Taker> = real
            .parts
            .iter()
            .map(|&part| Taker {
                sample_ms: self.sample_ms[part],
                room: f64::from(slot.samples),
            })
            .collect();
        let mut best = Division {
            time_ms: shares::time_ms(&takers, slot.samples, true),
            parts: real.parts,
        };
        let mut times = Vec::new();
        let mut rates: Vec<f64> = counts.below[n].iter().map(|&m| self.sample_ms[m]).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        for sample_ms in rates {
            // The real bound is rounded: a part in 10^12 below it, nothing is lost.
            let first = (real.time_ms * (1.0 - 1e-12) / sample_ms).floor().max(1.0) as u32;
            let multiples = (first..=slot.samples).map(|count| f64::from(count) * sample_ms);
            times.extend(multiples.take_while(|time_ms| *time_ms < best.time_ms));
        }
        times.sort_by(f64::total_cmp);
        let (mut low, mut high) = (0, times.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let groups = best.parts.len();
            let within = |sample_ms: f64| whole_within(sample_ms, times[middle]);
            let sums = self.largest_sums(counts, &counts.below[n], groups, &within);
            if sums[groups][n].0 >= f64::from(slot.samples) {
                best = Division {
                    time_ms: times[middle],
                    parts: parts(&sums, groups, n),
                };
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        best
    }

    fn ring_ms(&self, slot: &Slot, groups: usize) -> f64 {
        slot.ring_ms(&(0..self.layers), groups, slot.backbone_bytes_per_ms)
    }

    /// The least time of a batch with exactly these devices, in ms.
    pub(super) fn time_ms(&self, n: usize) -> f64 {
        self.divided[n].time_ms
    }

    /// The layout that takes it.
    pub(super) fn layout(&self, counts: &Counts, n: usize) -> Layout {
        let mut taken = vec![0; counts.classes.len()];
        let mut layout = Vec::new();
        for &part in &self.divided[n].parts {
            let (mut stages, mut first, mut rest) = (Vec::new(), 0, part);
            while first < self.layers {
                let (end, class) = self.choice[first * self.vectors + rest];
                let class = class as usize;
                stages.push(Stage {
                    layers: first..end as usize,
                    devices: vec![counts.classes[class].devices[taken[class]]],
                });
                taken[class] += 1;
                (first, rest) = (end as usize, rest - counts.one(class));
            }
            layout.push(stages);
        }
        layout
    }
}

/// The count vectors of the pipelines behind a largest sum.
fn parts(sums: &Sums, groups: usize, mut n: usize) -> Vec<usize> {
    let mut parts = Vec::with_capacity(groups);
    for groups in (1..=groups).rev() {
        let part = sums[groups][n].1;
        parts.push(part);
        n -= part;
    }
    parts
}
