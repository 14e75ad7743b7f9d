//! Joint choices: the cuts between two devices, one in every round, of which each has some places to choose from. Effects of places add
//! up, so that of the products of all choices those near a balance of the two devices are found from two halves, as subset sums are.
//!
//! **Example.** Two cuts with places that shift 0, 3 or 7 ms from the first device to the second, where 10 are too many: the halves are
//! `0 3 7` and `0 3 7`, and beside 3 of the first half the 7 of the second is nearest. (E. Horowitz and S. Sahni, *Computing
//! partitions with applications to the knapsack problem*, JACM 21(2), 1974.)

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Sums in each half, at most.
pub(super) const MOST_SUMS: usize = 1 << 10;
/// Choices within limits of which one is drawn.
const DRAWN_FROM: u32 = 24;
/// Sums that are looked at where all could be of interest.
const MOST_LOOKED_AT: usize = 1 << 12;

/// What a cut may choose from: changes of all rows, one place after the other.
pub(super) struct Places {
    pub changes: Vec<i64>,
}

/// Sums of one choice of each of some cuts.
struct Half {
    width: usize,
    /// Places of every cut.
    places: Vec<usize>,
    sums: Vec<i64>,
}

impl Half {
    fn of(cuts: &[Places], width: usize) -> Self {
        let mut sums = vec![0; width];
        for cut in cuts {
            let mut longer = Vec::with_capacity(sums.len() * cut.changes.len() / width);
            for sum in sums.chunks_exact(width) {
                for change in cut.changes.chunks_exact(width) {
                    longer.extend(sum.iter().zip(change).map(|(a, b)| a + b));
                }
            }
            sums = longer;
        }
        Self {
            width,
            places: cuts.iter().map(|cut| cut.changes.len() / width).collect(),
            sums,
        }
    }

    fn len(&self) -> usize {
        self.sums.len() / self.width
    }

    fn sum(&self, at: usize) -> &[i64] {
        &self.sums[at * self.width..][..self.width]
    }

    /// The place of every cut in a sum.
    fn picks(&self, mut at: usize) -> Vec<usize> {
        let pick = |places: &usize| {
            let pick = at % places;
            at /= places;
            pick
        };
        let mut picks: Vec<usize> = self.places.iter().rev().map(pick).collect();
        picks.reverse();
        picks
    }
}

/// Rows of the two devices, those of the second behind those of the first, each with its times first.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub width: usize,
    pub second: usize,
    pub times: usize,
}

impl Shape {
    /// The times among all rows.
    pub fn times(self) -> impl Iterator<Item = usize> {
        (0..self.times).chain(self.second..self.second + self.times)
    }

    /// The largest of the times.
    pub fn bottleneck(self, rows: &[i64]) -> i64 {
        self.times().map(|row| rows[row]).max().unwrap_or(0)
    }
}

/// All choices of the cuts between two devices.
pub(super) struct Joint {
    shape: Shape,
    base: Vec<i64>,
    halves: [Half; 2],
    /// Sums of the second half by how much more the first device takes on than the second.
    sorted: Vec<(i64, usize)>,
    /// What both devices take on together at least.
    least: i64,
}

/// Is shown sums of both halves, with the limits, which it may tighten; whether it wants more.
type Show<'a> = &'a mut dyn FnMut([usize; 2], &mut [i64], &mut ChaCha8Rng) -> bool;

/// A choice: a place for every cut, and what the rows come to.
pub(super) struct Choice {
    pub picks: Vec<usize>,
    pub rows: Vec<i64>,
}

impl Joint {
    /// `base` is what rows have without any of the changes.
    pub fn new(base: Vec<i64>, cuts: &[Places], shape: Shape) -> Self {
        let (first, second) = cuts.split_at(cuts.len() / 2);
        let halves = [first, second].map(|cuts| Half::of(cuts, shape.width));
        let sums = (0..halves[1].len()).map(|at| halves[1].sum(at));
        let least = sums.clone().map(|sum| sum[0] + sum[shape.second]).min();
        let differences = sums.map(|sum| sum[0] - sum[shape.second]);
        let mut sorted: Vec<(i64, usize)> = differences.enumerate().map(|(at, sum)| (sum, at)).collect();
        sorted.sort_unstable();
        Self {
            shape,
            base,
            halves,
            sorted,
            least: least.unwrap_or(0),
        }
    }

    /// Choices, about: what looking at them takes.
    pub fn size(&self) -> usize {
        self.halves[0].len() + self.halves[1].len()
    }

    /// One of the choices within the limits of all rows.
    pub fn any(&self, limits: &[i64], rng: &mut ChaCha8Rng) -> Option<Choice> {
        let mut found = None;
        let mut seen = 0;
        self.scan(limits.to_vec(), rng, &mut |at, _, rng| {
            seen += 1;
            if rng.random_range(0..seen) == 0 {
                found = Some(at);
            }
            seen < DRAWN_FROM
        });
        found.map(|at| self.choice(at))
    }

    /// The choice of the least bottleneck within the limits of all rows.
    pub fn least(&self, limits: &[i64], rng: &mut ChaCha8Rng) -> Option<Choice> {
        let mut found = None;
        let mut rows = Vec::new();
        self.scan(limits.to_vec(), rng, &mut |at, limits, _| {
            self.rows(at, &mut rows);
            let shorter = self.shape.bottleneck(&rows) - 1;
            self.shape.times().for_each(|row| limits[row] = shorter);
            found = Some(at);
            true
        });
        found.map(|at| self.choice(at))
    }

    /// Of some choices the one that exceeds limits by least, then with the least bottleneck.
    pub fn least_excess(&self, limits: &[i64], rng: &mut ChaCha8Rng) -> Option<Choice> {
        let [first, second] = [0, 1].map(|half| self.halves[half].len());
        let start = rng.random_range(0..first * second);
        let mut rows = Vec::new();
        let looked_at = (0..(first * second).min(MOST_LOOKED_AT)).map(|at| {
            let at = (start + at) % (first * second);
            [at / second, at % second]
        });
        let worth = |&at: &[usize; 2]| {
            self.rows(at, &mut rows);
            let beyond = rows.iter().zip(limits).map(|(row, limit)| (row - limit).max(0));
            (beyond.sum::<i64>(), self.shape.bottleneck(&rows))
        };
        looked_at.min_by_key(worth).map(|at| self.choice(at))
    }

    /// Shows choices within the limits, from every sum of the first half those that balance the devices best first, until told to stop.
    fn scan(&self, mut limits: Vec<i64>, rng: &mut ChaCha8Rng, show: Show<'_>) {
        let [first, second] = &self.halves;
        let other = self.shape.second;
        let start = rng.random_range(0..first.len());
        for x in (start..first.len()).chain(0..start) {
            let sum = first.sum(x);
            let own = [0, other].map(|row| self.base[row] + sum[row]);
            let balance = own[1] - own[0];
            let mut above = self.sorted.partition_point(|&(key, _)| key < balance);
            let mut below = above;
            loop {
                let up = self.sorted.get(above).map(|&(key, _)| key - balance);
                let down = below.checked_sub(1).map(|at| balance - self.sorted[at].0);
                let (apart, at) = match (up, down) {
                    (Some(up), Some(down)) if down < up => (down, below - 1),
                    (Some(up), _) => (up, above),
                    (None, Some(down)) => (down, below - 1),
                    (None, None) => break,
                };
                // The busier of the two takes at least half of both, and of what they are apart.
                if own[0] + own[1] + self.least + apart > limits[0] + limits[other] {
                    break;
                }
                if at < below {
                    below -= 1;
                } else {
                    above += 1;
                }
                let y = self.sorted[at].1;
                let rows = self.base.iter().zip(sum).zip(second.sum(y));
                let fits = rows
                    .zip(&limits)
                    .all(|(((base, x), y), limit)| base + x + y <= *limit);
                if fits && !show([x, y], &mut limits, rng) {
                    return;
                }
            }
        }
    }

    fn rows(&self, [x, y]: [usize; 2], rows: &mut Vec<i64>) {
        rows.clear();
        let sums = self.halves[0].sum(x).iter().zip(self.halves[1].sum(y));
        rows.extend(self.base.iter().zip(sums).map(|(base, (x, y))| base + x + y));
    }

    fn choice(&self, [x, y]: [usize; 2]) -> Choice {
        let mut rows = Vec::new();
        self.rows([x, y], &mut rows);
        Choice {
            picks: [self.halves[0].picks(x), self.halves[1].picks(y)].concat(),
            rows,
        }
    }
}
