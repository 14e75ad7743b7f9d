//! Both phases at once: what the passes of a stage take on their shares of its devices, and what items add to that at least.

use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

use super::{LayerWays, ModalStage, Modes, Way, Ways};
use crate::model::cluster::Cluster;
use crate::model::options::{Shares, WorkerMode};
use crate::model::settings::Settings;
use crate::problem::shares::{self, Allowed, Level, Speed};
use crate::problem::workers::Class;

/// Directions in which prices are looked for.
const DIRECTIONS: usize = 64;

/// How devices that run both phases at once share themselves out.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseShares {
    policy: Shares,
    /// A device of each [row](Modes::rows).
    rows: Vec<Class>,
}

/// Both phases on their shares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedPhases {
    /// The level of every resource.
    pub levels: Vec<Level>,
    /// Forward and backward time, in ticks.
    pub ticks: [u64; 2],
}

impl PhaseShares {
    /// Those of the kinds in play, where workers run both phases at once.
    pub(super) fn new(cluster: &Cluster, settings: &Settings) -> Option<Self> {
        let class = |&kind: &usize| Class::new(kind, &cluster.kinds[kind], settings);
        (settings.worker == WorkerMode::Concurrent).then(|| Self {
            policy: settings.shares,
            rows: settings.kinds.iter().map(class).collect(),
        })
    }

    /// What passes take on their shares of a device of a row, that take so long when it does nothing else.
    pub(crate) fn of(&self, row: usize, whole: [u64; 2]) -> SharedPhases {
        let class = &self.rows[row];
        let idle = whole.map(|ticks| ticks == 0);
        let [forward, backward] = whole.map(|ticks| ticks.max(1) as f64);
        let speed = |part: Speed| Speed {
            forward: part.forward / forward,
            backward: part.backward / backward,
        };
        let speeds: Vec<Speed> = parts(class).map(speed).collect();
        let allowed: Vec<Allowed> = class.levels.iter().map(|levels| levels.as_deref()).collect();
        let levels = shares::by_policy(self.policy, &speeds, &allowed, idle);
        let ticks = shares::times_ns(&speeds, &levels);
        let on_share = |phase: usize| match idle[phase] {
            true => 0,
            false => shares::whole_on_shares_ns(ticks[phase]),
        };
        SharedPhases {
            levels,
            ticks: [0, 1].map(on_share),
        }
    }

    /// Whether both phases take as long as both passes one after the other: devices are each of one resource, of which any share goes.
    pub(crate) fn is_sum(&self) -> bool {
        let is_linear = |class: &Class| matches!(class.levels[..], [None]);
        self.policy != Shares::Even && self.rows.iter().all(is_linear)
    }

    /// Whether neither phase takes longer where its own pass takes less.
    pub(crate) fn are_apart(&self) -> bool {
        self.policy == Shares::Even
    }

    /// The share of each resource of a row, by the name that plans give it.
    pub(crate) fn named(&self, row: usize, whole: [u64; 2]) -> BTreeMap<String, f64> {
        let class = &self.rows[row];
        let names = (0..class.resources.len()).map(|resource| class.share_key(resource));
        let levels = self.of(row, whole).levels;
        names.zip(levels.iter().map(|level| level.share)).collect()
    }

    /// Prices `a` and `b` of a row: no stage whose passes take `F` and `B` when its devices do nothing else takes less than `a F + b B` on any shares, nor its
    /// phases less than `a F` and `b B`.
    ///
    /// The speeds that shares reach, of a whole device, lie in a region of which `a x + b y <= 1` is a supporting line: with speeds `F / T` and `B / T` a stage
    /// takes `T`. Of all lines the one that says most of `totals`. Ours.
    fn prices(&self, row: usize, totals: [f64; 2]) -> [f64; 2] {
        /// More than sums of doubles lose.
        const ROUNDING: f64 = 1e-9;
        let class = &self.rows[row];
        if self.is_sum() {
            return [1.0, 1.0];
        }
        let levels: Vec<Vec<Level>> = class
            .levels
            .iter()
            .map(|levels| self.may_be(levels.as_deref()))
            .collect();
        let reach = |[x, y]: [f64; 2]| -> f64 {
            let of = |(part, levels): (Speed, &Vec<Level>)| {
                let speed =
                    |level: &Level| x * part.forward * level.forward + y * part.backward * level.backward;
                levels.iter().map(speed).fold(0.0, f64::max)
            };
            parts(class).zip(&levels).map(of).sum()
        };
        let line = |at: usize| {
            let (y, x) = (FRAC_PI_2 * at as f64 / DIRECTIONS as f64).sin_cos();
            let reach = reach([x, y]);
            [x, y].map(|part| part / reach * (1.0 - ROUNDING))
        };
        let says = |[a, b]: &[f64; 2]| a * totals[0] + b * totals[1];
        let lines = (0..=DIRECTIONS).map(line);
        let most = lines.max_by(|one, other| says(one).total_cmp(&says(other)));
        most.unwrap_or_default()
    }

    /// The levels that the policy may take of a resource, or the ends of all.
    fn may_be(&self, levels: Allowed) -> Vec<Level> {
        match (self.policy, levels) {
            (Shares::Even, _) => shares::nearest_of_all(&[0.5], &[levels]),
            (_, Some(levels)) => levels.to_vec(),
            (_, None) => [0.0, 1.0].map(Level::linear).into(),
        }
    }

    /// How many times longer than both passes alone either phase takes at most.
    pub(super) fn slowest(&self) -> f64 {
        let of_class = |class: &Class| {
            let parts = parts(class).flat_map(|part| [part.forward, part.backward]);
            let levels = class.levels.iter().flatten().flatten();
            let speeds = levels.flat_map(|level| [level.forward, level.backward]);
            let least_speed = speeds.filter(|&speed| speed > 0.0).fold(0.5, f64::min);
            1.0 / (parts.fold(1.0, f64::min) * least_speed)
        };
        self.rows.iter().map(of_class).fold(1.0, f64::max)
    }
}

/// What part of a device each of its resources is in either phase.
fn parts(class: &Class) -> impl Iterator<Item = Speed> + Clone {
    let sum = |of: fn(&Speed) -> f64| class.rates().map(|rate| of(&rate)).sum::<f64>();
    let all = [sum(|rate| rate.forward), sum(|rate| rate.backward)];
    class.rates().map(move |rate| Speed {
        forward: rate.forward / all[0],
        backward: rate.backward / all[1],
    })
}

impl Modes {
    /// Says of every way what it adds to a stage at least, where passes run at once.
    pub(super) fn add_prices(&mut self) {
        let Some(shares) = self.shares.clone() else {
            return;
        };
        let totals = |degree: usize| {
            let items = self.items.iter().filter_map(|degrees| degrees[degree].as_ref());
            let passes = items
                .flat_map(|item| &item.layers)
                .map(|layer| layer.ways[0].passes());
            passes.fold([0.0, 0.0], |sum, passes| {
                [sum[0] + passes[0] as f64, sum[1] + passes[1] as f64]
            })
        };
        let of_degree = |degree: usize| shares.prices(self.degrees[degree].row, totals(degree));
        let prices: Vec<[f64; 2]> = (0..self.degrees.len()).map(of_degree).collect();
        for degrees in Arc::make_mut(&mut self.items) {
            for (item, prices) in degrees.iter_mut().zip(&prices) {
                let layers = item.iter_mut().flat_map(|item| &mut item.layers);
                layers.for_each(|layer| layer.add_prices(*prices));
            }
        }
        for apart in Arc::make_mut(&mut self.apart) {
            for (ways, prices) in apart.degrees.iter_mut().zip(&prices) {
                let layers = ways.iter_mut().flat_map(|ways| ways.layers_mut());
                layers.for_each(|layer| layer.add_prices(*prices));
            }
        }
    }

    /// What the passes of a stage take that take so long when its devices do nothing else: on their shares where both run at once.
    pub(crate) fn run_together(&self, degree: usize, whole: [u64; 2]) -> [u64; 2] {
        let row = self.degrees[degree].row;
        self.shares
            .as_ref()
            .map_or(whole, |shares| shares.of(row, whole).ticks)
    }

    /// The time between micro-batches that layers of a stage allow in the ways that take least: the longer of their phases, where both run at once; at least, where
    /// other ways may make that shorter.
    pub(crate) fn time_of(&self, degree: usize, layers: &[&LayerWays], ways: &Ways) -> u64 {
        let has_one_forward = |layer: &&LayerWays| layer.has_one_forward();
        match &self.shares {
            None => ways.time,
            Some(shares) if shares.is_sum() || layers.iter().all(has_one_forward) => {
                self.busy(self.run_together(degree, passes_of(layers, &ways.ways)))
            }
            // Ways that take more in all may take less in the longer phase: as much as they add at least.
            Some(_) => {
                let least = |layer: &&LayerWays| -> u64 {
                    let adds = layer.ways.iter().map(|way| way.adds().iter().sum());
                    adds.min().unwrap_or(0)
                };
                layers.iter().map(least).sum()
            }
        }
    }

    /// How long a stage of such passes keeps a device busy: the longer of them, where both run at once.
    pub(crate) fn busy(&self, [forward, backward]: [u64; 2]) -> u64 {
        match self.shares {
            Some(_) => forward.max(backward),
            None => forward + backward,
        }
    }
}

/// What both passes of layers take in such ways on devices that do nothing else.
pub(crate) fn passes_of(layers: &[&LayerWays], ways: &[usize]) -> [u64; 2] {
    let passes = layers
        .iter()
        .zip(ways)
        .map(|(layer, &way)| layer.ways[way].passes());
    passes.fold([0, 0], |sum, own| [sum[0] + own[0], sum[1] + own[1]])
}

impl ModalStage {
    /// Puts its passes on their shares, where both run at once.
    pub(super) fn share_out(&mut self, modes: &Modes, degree: usize) {
        if modes.shares.is_some() {
            let whole = self.passes();
            self.whole = Some(whole);
            [self.forward, self.backward] = modes.run_together(degree, whole);
            (self.collective, self.collective_back) = (0, 0);
        }
    }
}

impl LayerWays {
    /// Whether its ways differ in their backward passes alone.
    pub(crate) fn has_one_forward(&self) -> bool {
        let forward = |at: usize| self.ways[at].passes()[0];
        (1..self.ways.len()).all(|at| forward(at) == forward(0))
    }

    fn add_prices(&mut self, prices: [f64; 2]) {
        for way in &mut self.ways {
            let passes = way.passes();
            way.least = Some([0, 1].map(|pass| (passes[pass] as f64 * prices[pass]) as u64));
        }
    }
}

impl Way {
    /// Forward and backward time that it adds to a stage at least.
    pub fn adds(&self) -> [u64; 2] {
        self.least.unwrap_or_else(|| self.passes())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::model::cluster::Resource;

    /// A device of some resources, of each of which some levels, or any share.
    fn drawn(rng: &mut ChaCha8Rng) -> Class {
        let mut rate = || f64::from(rng.random_range(1..=8)) / 4.0;
        let resource = |name: usize, rates: [f64; 2]| Resource {
            name: name.to_string(),
            forward_rate: rates[0],
            backward_rate: rates[1],
            levels: Vec::new(),
        };
        let rates: Vec<[f64; 2]> = (0..3).map(|_| [rate(), rate()]).collect();
        let count = rng.random_range(1..=3);
        let levels = |rng: &mut ChaCha8Rng| -> Vec<Level> {
            let speed = |rng: &mut ChaCha8Rng, share: f64| share * f64::from(rng.random_range(6..=14)) / 10.0;
            let inner = (1..3).map(|part| f64::from(part) / 3.0).map(|share| Level {
                share,
                forward: speed(rng, share),
                backward: speed(rng, 1.0 - share),
            });
            let inner: Vec<Level> = inner.collect();
            [Level::linear(0.0), inner[0], inner[1], Level::linear(1.0)].into()
        };
        Class {
            kind: 0,
            name: "device".into(),
            memory_bytes: u64::MAX,
            pays_communication: true,
            resources: (0..count).map(|at| resource(at, rates[at])).collect(),
            levels: (0..count)
                .map(|_| rng.random_bool(0.5).then(|| levels(rng)))
                .collect(),
        }
    }

    #[test]
    fn no_stage_takes_less_than_the_prices_of_its_passes() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..4_000 {
            let class = drawn(&mut rng);
            let policy = [Shares::Best, Shares::Even, Shares::Theorem][rng.random_range(0..3)];
            let shares = PhaseShares {
                policy,
                rows: vec![class],
            };
            let mut drawn = || [rng.random_range(0..=400u64), rng.random_range(0..=400u64)];
            let prices = shares.prices(0, drawn().map(|ticks| ticks as f64 + 1.0));
            for _ in 0..10 {
                let whole = drawn();
                let ticks = shares.of(0, whole).ticks;
                let least = [0, 1].map(|pass| (whole[pass] as f64 * prices[pass]) as u64);
                let longest = ticks[0].max(ticks[1]);
                assert!(
                    least[0] + least[1] <= longest,
                    "{shares:?} {whole:?}: {ticks:?}, {least:?}"
                );
                assert!(
                    least[0] <= ticks[0] && least[1] <= ticks[1],
                    "{shares:?} {whole:?}: {ticks:?}"
                );
            }
        }
    }
}
