//! How much work devices of different classes can do in a time: what prunes and bounds plans on workers that differ.

use crate::exact::bounds::Bound;
use crate::model::network::Times;
use crate::model::options::{Groups, WorkerMode};
use crate::model::units::LARGEST_EXACT;
use crate::problem::bound_source::BoundSource;
use crate::problem::shares::Level;
use crate::problem::workers::{Choice, Class, Workers};
use crate::problem::{Item, Problem};

/// Slack for the rounding of doubles, relative.
const SLACK: f64 = 1.0 + 1e-12;

/// Work in one currency for all classes.
///
/// Class `c` values an item at `λ_c (F_ic + B_ic)`, with `λ_c` such that the whole network is worth about the same on every
/// class; the item's weight is the least value, so no class overrates it. In a ns, a device does at most `λ_c κ_c` of
/// weight: `κ_c` is the most that forward rate and backward rate add up to over all levels of its resources. That holds
/// for any `λ_c`. Also in groups: a device that does the part `d` of a phase of a stage is busy with `d` times its time, and
/// worth at least `d` times its weight. Where a group may hold several classes, one can do more of one phase and another more
/// of the other, so the weight is the least value of each phase by itself.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    /// Weight of each item.
    pub weights: Vec<u64>,
    /// Weight of all items.
    pub total_weight: u64,
    /// What the strongest choice does in a ns.
    pub strongest: f64,
    /// Bytes that the largest choice can hold.
    pub most_bytes: u64,
    /// What one of each kind of stock does in a ns, and how many there are, the strongest first with its position.
    units: Vec<(f64, usize, usize)>,
    /// Rates of both phases by class, if every resource serves that phase.
    rates: Vec<[f64; 2]>,
    pools_devices: bool,
    all_stages: bool,
    is_sequential: bool,
}

impl Capacity {
    /// Weighs a problem.
    pub(crate) fn new(problem: &Problem, workers: &Workers) -> Self {
        let values = values(problem, workers);
        let mixes = |choice: &Choice| choice.devices.iter().filter(|&&devices| devices > 0).count() > 1;
        let by_phase = workers.choices.iter().any(mixes);
        let weights: Vec<u64> = problem
            .items
            .iter()
            .map(|item| weight(item, &values, by_phase))
            .collect();
        let concurrent = problem.settings.worker == WorkerMode::Concurrent;
        let per_device: Vec<f64> = workers
            .classes
            .iter()
            .zip(&values)
            .map(|(class, value)| value * most_rate(class, concurrent))
            .collect();
        let strength = |choice: &Choice| -> f64 {
            choice
                .devices
                .iter()
                .zip(&per_device)
                .map(|(&n, rate)| n as f64 * rate)
                .sum()
        };
        let pools_devices = problem.settings.groups == Groups::Assign;
        let mut units: Vec<(f64, usize, usize)> = (0..workers.inventory.len())
            .map(|at| {
                let takes_one =
                    |choice: &&Choice| choice.takes[at] == 1 && choice.takes.iter().sum::<usize>() == 1;
                let unit = workers.choices.iter().find(takes_one).map_or_else(
                    // No group of one fits beside the other stages; a device still counts for what it can do.
                    || per_device.get(at).copied().unwrap_or(0.0),
                    strength,
                );
                (unit, workers.inventory[at], at)
            })
            .collect();
        units.sort_by(|a, b| b.0.total_cmp(&a.0));
        let holds = |choice: &Choice| workers.memory_bytes(&problem.settings, choice);
        Self {
            total_weight: weights.iter().sum(),
            weights,
            strongest: workers.choices.iter().map(strength).fold(0.0, f64::max) * SLACK,
            most_bytes: workers.choices.iter().map(holds).max().unwrap_or(0),
            units,
            rates: workers
                .classes
                .iter()
                .map(|class| whole_rates(class, concurrent))
                .collect(),
            pools_devices,
            all_stages: problem.settings.all_stages,
            is_sequential: !concurrent,
        }
    }

    /// Weight that so many stages on what is left of the stock can carry within a limit; negative where they cannot even
    /// have a device each.
    pub(crate) fn carries(&self, taken: &[usize], stages_left: usize, limit_ns: u64) -> f64 {
        // Each phase is rounded, by half a ns at most.
        let limit = (limit_ns as f64 + 1.0) * SLACK;
        let mut rate = 0.0;
        let mut stages = stages_left;
        let mut devices = 0;
        for &(unit, stock, at) in &self.units {
            let left = stock - taken[at];
            let counts = if self.pools_devices {
                left
            } else {
                left.min(stages)
            };
            stages = stages.saturating_sub(left);
            devices += left;
            rate += counts as f64 * unit;
        }
        match self.all_stages && devices < stages_left {
            true => -1.0,
            false => rate * limit,
        }
    }

    /// What so much weight adds at least to what counts once in the objective, in ns: for an iteration its time on the strongest
    /// choice, but for the rounding of so many stages.
    pub(crate) fn least_once_ns(&self, problem: &Problem, weight: u64, stages: usize) -> u64 {
        match problem.formula().counts_loads {
            false => 0,
            true => (weight as f64 / self.strongest - stages as f64).max(0.0) as u64,
        }
    }

    /// The least objective of a plan whose busiest stage is at least `bottleneck_ns`: as
    /// [`objective_from_bottleneck`](crate::exact::bounds::objective_from_bottleneck), with the work that counts once on the
    /// strongest choice.
    pub(crate) fn objective_from_bottleneck(&self, problem: &Problem, bottleneck_ns: u64) -> u64 {
        let formula = problem.formula();
        match formula.counts_loads {
            false => formula.weight * bottleneck_ns,
            true => {
                let once_ns = self.least_once_ns(problem, self.total_weight, problem.stages());
                once_ns.max(bottleneck_ns) + formula.weight * bottleneck_ns
            }
        }
    }

    /// Whether the devices are too slow for a stage even if every resource serves both phases in turn or at once;
    /// `inverse` and `idle` hold one over its times by class, and whether they are zero.
    pub(crate) fn too_slow(
        &self,
        choice: &Choice,
        inverse: &[[f64; 2]],
        idle: &[[bool; 2]],
        limit_ns: u64,
    ) -> bool {
        let mut speed = [0.0; 2];
        let mut is_idle = [false; 2];
        for (class, &devices) in choice.devices.iter().enumerate().filter(|(_, n)| **n > 0) {
            for phase in 0..2 {
                speed[phase] += devices as f64 * self.rates[class][phase] * inverse[class][phase];
                is_idle[phase] |= idle[class][phase];
            }
        }
        let time = |phase: usize| if is_idle[phase] { 0.0 } else { 1.0 / speed[phase] };
        self.takes_longer([time(0), time(1)], limit_ns)
    }

    /// The same of many choices at once for a stage that keeps all its devices busy, by the number of devices of each class and choice.
    pub(crate) fn all_too_slow(
        &self,
        devices_of_class: &[Vec<f64>],
        inverse: &[[f64; 2]],
        limit_ns: u64,
    ) -> Vec<bool> {
        let count = devices_of_class.first().map_or(0, Vec::len);
        let mut speeds = [vec![0.0; count], vec![0.0; count]];
        for (class, devices) in devices_of_class.iter().enumerate() {
            for (phase, speeds) in speeds.iter_mut().enumerate() {
                let (rate, inverse) = (self.rates[class][phase], inverse[class][phase]);
                for (speed, devices) in speeds.iter_mut().zip(devices) {
                    *speed += devices * rate * inverse;
                }
            }
        }
        let [forward, backward] = &speeds;
        let times = forward.iter().zip(backward);
        times
            .map(|(forward, backward)| self.takes_longer([1.0 / forward, 1.0 / backward], limit_ns))
            .collect()
    }

    /// Whether both phases take longer than a limit.
    fn takes_longer(&self, [forward, backward]: [f64; 2], limit_ns: u64) -> bool {
        let least = match self.is_sequential {
            true => forward + backward,
            false => forward.max(backward),
        };
        least > (limit_ns as f64 + 1.0) * SLACK
    }

    /// Bounds on the period: all work over all devices, and the item that takes longest on the devices that suit it best.
    pub(crate) fn bounds(&self, problem: &Problem, workers: &Workers) -> [Bound; 2] {
        let none = vec![0; workers.inventory.len()];
        // `carries` of 0 ns counts the one ns of rounding.
        let rate = self.carries(&none, problem.stages(), 0);
        let all = (self.total_weight as f64 / rate - 1.0).ceil();
        let longest = problem
            .items
            .iter()
            .map(|item| self.shortest_ns(item, workers))
            .max();
        [
            Bound {
                source: BoundSource::WorkOverDevices,
                bottleneck_ns: if rate > 0.0 { all.max(0.0) as u64 } else { 0 },
            },
            Bound {
                source: BoundSource::LargestItem,
                bottleneck_ns: longest.unwrap_or(0),
            },
        ]
    }

    /// The least time of an item on any choice, by bisection over [`Capacity::too_slow`].
    fn shortest_ns(&self, item: &Item, workers: &Workers) -> u64 {
        let times: Vec<[u64; 2]> = item
            .times
            .iter()
            .map(|times| times.map_or([u64::MAX; 2], |times| [times.forward_ns, times.backward_ns]))
            .collect();
        let inverse: Vec<[f64; 2]> = times
            .iter()
            .map(|times| times.map(|ns| 1.0 / ns.max(1) as f64))
            .collect();
        let idle: Vec<[bool; 2]> = times.iter().map(|times| times.map(|ns| ns == 0)).collect();
        let (mut low, mut high) = (0, crate::model::units::LARGEST_EXACT);
        while low < high {
            let middle = low + (high - low) / 2;
            let too_slow = |choice: &Choice| self.too_slow(choice, &inverse, &idle, middle);
            match workers.choices.iter().all(too_slow) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// λ of each class: what makes the items that it can run worth as much as on the first class, as far as weights stay exact.
fn values(problem: &Problem, workers: &Workers) -> Vec<f64> {
    let value = |class: usize| {
        let (mut first, mut own, mut all) = (0.0, 0.0, 0.0);
        for item in &problem.items {
            let Some(times) = item.times[class] else { continue };
            let time = (times.forward_ns + times.backward_ns) as f64;
            all += time;
            if let Some(a) = item.times[0] {
                first += (a.forward_ns + a.backward_ns) as f64;
                own += time;
            }
        }
        let same = if first > 0.0 && own > 0.0 {
            first / own
        } else {
            1.0
        };
        same.min(LARGEST_EXACT as f64 / f64::max(all, 1.0))
    };
    (0..workers.classes.len()).map(value).collect()
}

fn weight(item: &Item, values: &[f64], by_phase: bool) -> u64 {
    let least = |time: fn(&Times) -> u64| {
        let of_class =
            |(times, value): (&Option<Times>, &f64)| times.as_ref().map(|times| value * time(times) as f64);
        let least = item
            .times
            .iter()
            .zip(values)
            .filter_map(of_class)
            .fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 0.0 }
    };
    let weight = match by_phase {
        true => least(|times| times.forward_ns) + least(|times| times.backward_ns),
        false => least(|times| times.forward_ns + times.backward_ns),
    };
    weight as u64
}

/// What both phases together get done in a ns at most, at rate 1.
fn most_rate(class: &Class, concurrent: bool) -> f64 {
    let [forward, backward] = whole_rates(class, concurrent);
    if !concurrent {
        return forward.max(backward);
    }
    let of_resource = |(resource, levels): (&crate::model::cluster::Resource, &Option<Vec<Level>>)| {
        let rate =
            |level: &Level| resource.forward_rate * level.forward + resource.backward_rate * level.backward;
        match levels {
            None => resource.forward_rate.max(resource.backward_rate),
            Some(levels) => levels.iter().map(rate).fold(0.0, f64::max),
        }
    };
    class.resources.iter().zip(&class.levels).map(of_resource).sum()
}

/// Rates of both phases if every resource serves that phase at its fastest level.
fn whole_rates(class: &Class, concurrent: bool) -> [f64; 2] {
    let mut rates = [0.0; 2];
    for (resource, levels) in class.resources.iter().zip(&class.levels) {
        let fastest = |speed: fn(&Level) -> f64| match levels {
            Some(levels) if concurrent => levels.iter().map(speed).fold(1.0, f64::max),
            _ => 1.0,
        };
        rates[0] += resource.forward_rate * fastest(|level| level.forward);
        rates[1] += resource.backward_rate * fastest(|level| level.backward);
    }
    rates
}
