//! What the layers of a stage compute again: the least time within memory.

use std::collections::BTreeMap;

use crate::problem::modes::region::first_blocks_within;
use crate::problem::modes::{LayerWays, Way};

/// How each layer of a stage runs: positions among its ways, in the order that the layers were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Time of all layers.
    pub time: u64,
    /// The way of each layer.
    pub ways: Vec<usize>,
}

/// What a device and its host have for the layers of a stage, in bytes; `u64::MAX` without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// On the device, without what replicas share out.
    pub bytes: u64,
    /// At the host.
    pub host_bytes: u64,
}

impl Memory {
    /// Whether there is room for layers that run in these ways.
    pub fn holds(self, layers: &[&LayerWays], ways: &[usize], in_flight: u64) -> bool {
        bytes_of(layers, ways, in_flight) <= self.bytes
            && host_bytes_of(layers, ways, in_flight) <= self.host_bytes
    }

    /// What is left of it beside so many bytes on the device and at the host; `None` where they are too many.
    pub fn without(self, bytes: u64, at_host: u64) -> Option<Self> {
        let beside = |room: u64, taken: u64| match room {
            u64::MAX => Some(room),
            _ => room.checked_sub(taken),
        };
        Some(Self {
            bytes: beside(self.bytes, bytes)?,
            host_bytes: beside(self.host_bytes, at_host)?,
        })
    }

    /// What a way has at the host, where that is limited.
    fn at_host(self, way: &Way, in_flight: u64) -> u64 {
        match self.host_bytes {
            u64::MAX => 0,
            _ => in_flight * way.host_bytes,
        }
    }
}

/// How it is decided what a stage computes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knapsack {
    /// The least time within memory: [`fastest_within`].
    Exact,
    /// Piper's rule: [`greedy_within`].
    Greedy,
    /// All of the first so many blocks of a stage, and nothing else.
    FirstBlocks(usize),
}

impl Knapsack {
    /// Ways that fit so many bytes with so many micro-batches in flight; `None` if none fits.
    pub fn within(self, layers: &[&LayerWays], in_flight: u64, limit: Memory) -> Option<Ways> {
        match self {
            Self::Exact => fastest_within(layers, in_flight, limit),
            Self::Greedy => greedy_within(layers, in_flight, limit),
            Self::FirstBlocks(count) => first_blocks_within(layers, (count, in_flight), limit),
        }
    }
}

/// Choices for the first layers: none of the others takes no more time and bytes.
struct Partial {
    time: u64,
    bytes: u64,
    /// At the host, where that is limited.
    host_bytes: u64,
    /// The way of the last of them, and the choices for those before it.
    way: usize,
    before: usize,
}

/// The ways that take the least time among those that fit so many bytes with so many micro-batches in flight; `None` if none fits.
///
/// A multiple-choice knapsack: for each workspace that may be the largest, choices that are not dominated in time and bytes are
/// extended layer by layer (G. Nemhauser, Z. Ullmann, *Discrete dynamic programming and capital allocation*, Management Science
/// 15(9), 1969). Where the host is limited its bytes are a second resource. Equal layers add one choice each, so blocks of a transformer take O(n²) steps. Where all layers differ, choices could
/// double with each, and most are left out by the price of a byte.
pub fn fastest_within(layers: &[&LayerWays], in_flight: u64, limit: Memory) -> Option<Ways> {
    let first = of_first(layers);
    if limit.holds(layers, &first.ways, in_flight) {
        return Some(first);
    }
    let mut workspaces: Vec<u64> = layers
        .iter()
        .flat_map(|layer| &layer.ways)
        .map(|way| way.workspace_bytes)
        .collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    let price = Price::new(layers, in_flight, limit);
    let within = |&most: &u64| {
        let bytes = limit.bytes.checked_sub(most)?;
        beside_workspace(layers, in_flight, (most, Memory { bytes, ..limit }), &price)
    };
    workspaces.iter().filter_map(within).min_by_key(|ways| ways.time)
}

/// A layer that goes over from its fastest way to its smallest.
struct Change {
    layer: usize,
    way: usize,
    /// How much longer it takes.
    time: u64,
    saved_bytes: u64,
}

/// Ways that fit so many bytes, by the rule of Piper (J. Tarnawski, D. Narayanan, A. Phanishayee, NeurIPS 2021): from the fastest on, the
/// layer that gains most bytes for its time goes over to its smallest way, until all fit. A change that later ones make unnecessary is not
/// undone. `None` if the smallest ways do not fit.
///
/// Workspaces, which Piper does not know, count as everywhere. Where the host has no room for what that lays there, nothing is laid there that a
/// layer can do without.
pub fn greedy_within(layers: &[&LayerWays], in_flight: u64, limit: Memory) -> Option<Ways> {
    let by_rule = greedy_by(layers, in_flight, limit, |layer| smallest_way(layer, in_flight));
    let fits = |ways: &Ways| host_bytes_of(layers, &ways.ways, in_flight) <= limit.host_bytes;
    if by_rule.as_ref().is_none_or(fits) {
        return by_rule;
    }
    let without_host = |layer: &LayerWays| {
        let key = |&way: &usize| {
            let way = &layer.ways[way];
            (way.host_bytes, kept_bytes(way, in_flight))
        };
        (0..layer.ways.len()).min_by_key(key).unwrap_or(0)
    };
    greedy_by(layers, in_flight, limit, without_host).filter(fits)
}

/// The same where layers go over to ways of another rule.
fn greedy_by(
    layers: &[&LayerWays],
    in_flight: u64,
    limit: Memory,
    smaller: impl Fn(&LayerWays) -> usize,
) -> Option<Ways> {
    let mut ways = of_first(layers);
    let change = |(at, layer): (usize, &&LayerWays)| {
        let (fastest, way) = (&layer.ways[0], smaller(layer));
        let smaller = &layer.ways[way];
        let saved_bytes = kept_bytes(fastest, in_flight).checked_sub(kept_bytes(smaller, in_flight))?;
        (saved_bytes > 0).then(|| Change {
            layer: at,
            way,
            time: smaller.time() - fastest.time(),
            saved_bytes,
        })
    };
    let mut changes: Vec<Change> = layers.iter().enumerate().filter_map(change).collect();
    // Time for a byte, without dividing.
    let price = |one: &Change, other: &Change| u128::from(one.time) * u128::from(other.saved_bytes);
    changes.sort_by(|one, other| price(one, other).cmp(&price(other, one)));
    let mut changes = changes.into_iter();
    while bytes_of(layers, &ways.ways, in_flight) > limit.bytes {
        let change = changes.next()?;
        ways.time += change.time;
        ways.ways[change.layer] = change.way;
    }
    Some(ways)
}

/// The way of a layer that keeps least with so many micro-batches in flight; of equals the fastest.
pub fn smallest_way(layer: &LayerWays, in_flight: u64) -> usize {
    let bytes = |&way: &usize| kept_bytes(&layer.ways[way], in_flight);
    (0..layer.ways.len()).min_by_key(bytes).unwrap_or(0)
}

/// Bytes of a stage whose layers run in these ways, without what replicas share out.
pub fn bytes_of(layers: &[&LayerWays], ways: &[usize], in_flight: u64) -> u64 {
    let chosen = || layers.iter().zip(ways).map(|(layer, &way)| &layer.ways[way]);
    let kept: u64 = chosen().map(|way| kept_bytes(way, in_flight)).sum();
    kept + chosen().map(|way| way.workspace_bytes).max().unwrap_or(0)
}

/// Bytes at the host of a device of a stage whose layers run in these ways.
pub fn host_bytes_of(layers: &[&LayerWays], ways: &[usize], in_flight: u64) -> u64 {
    let chosen = layers.iter().zip(ways).map(|(layer, &way)| &layer.ways[way]);
    in_flight * chosen.map(|way| way.host_bytes).sum::<u64>()
}

fn kept_bytes(way: &Way, in_flight: u64) -> u64 {
    way.held_bytes + in_flight * way.stash_bytes
}

/// The fastest way of each layer.
fn of_first(layers: &[&LayerWays]) -> Ways {
    Ways {
        time: layers.iter().map(|layer| layer.ways[0].time()).sum(),
        ways: vec![0; layers.len()],
    }
}

/// What a byte is worth: so much `time` for so many `bytes`, and what a choice of ways may cost at most.
///
/// Whatever the price `λ` of a byte, ways that fit the room `R` take at least `Σ min (time + λ bytes) - λ R`: a Lagrangian bound, for the first
/// layers with the ways that are chosen, for the others with the best of each. Choices whose bound is above the time of a plan at hand lead
/// to none that is as good. At the price of the last byte that [`greedy_within`] pays for, the bound is near its time.
struct Price {
    time: i128,
    bytes: i128,
    /// The time of the ways at hand, where there are any.
    most_time: Option<u64>,
}

impl Price {
    fn new(layers: &[&LayerWays], in_flight: u64, limit: Memory) -> Self {
        let at_hand = greedy_within(layers, in_flight, limit);
        let dearest = at_hand.iter().flat_map(|ways| {
            let changed = layers.iter().zip(&ways.ways).filter(|&(_, &way)| way > 0);
            changed.map(|(layer, &way)| {
                let [fastest, smaller] = [&layer.ways[0], &layer.ways[way]];
                let saved_bytes = kept_bytes(fastest, in_flight) - kept_bytes(smaller, in_flight);
                (smaller.time() - fastest.time(), saved_bytes)
            })
        });
        let dearest = dearest.max_by(|(time, bytes), (other_time, other_bytes)| {
            (u128::from(*time) * u128::from(*other_bytes))
                .cmp(&(u128::from(*other_time) * u128::from(*bytes)))
        });
        let totals = |value: &dyn Fn(&Way) -> u64| -> u128 {
            let most = |layer: &&LayerWays| layer.ways.iter().map(value).max().unwrap_or(0);
            layers.iter().map(|layer| u128::from(most(layer))).sum()
        };
        let all_time = totals(&Way::time);
        let all_bytes = u128::from(limit.bytes) + totals(&|way| kept_bytes(way, in_flight));
        // At no price for a byte no product is too large.
        let is_small = |&(time, bytes): &(u64, u64)| {
            all_time.max(u128::from(time)) < 1 << 60 && all_bytes.max(u128::from(bytes)) < 1 << 64
        };
        let (time, bytes) = dearest.filter(is_small).unwrap_or((0, 1));
        Self {
            time: i128::from(time),
            bytes: i128::from(bytes),
            most_time: at_hand.map(|ways| ways.time),
        }
    }

    /// So much time and so many bytes at this price.
    fn of(&self, time: u64, bytes: u64) -> i128 {
        i128::from(time) * self.bytes + i128::from(bytes) * self.time
    }

    /// The most that ways may come to whose bytes fit the room, if they are to be as good as those at hand.
    fn most(&self, room_bytes: u64) -> i128 {
        self.most_time.map_or(i128::MAX, |time| self.of(time, room_bytes))
    }
}

/// The same with ways of at most so much workspace, and so many bytes for what is kept, where they are no slower than those at hand.
fn beside_workspace(
    layers: &[&LayerWays],
    in_flight: u64,
    (most_workspace, room): (u64, Memory),
    price: &Price,
) -> Option<Ways> {
    let least = |layer: &&LayerWays, bytes: &dyn Fn(&Way) -> u64| {
        let ways = layer.ways.iter();
        let fitting = ways.filter(|way| way.workspace_bytes <= most_workspace);
        fitting.map(bytes).min()
    };
    let least_bytes = |layer: &&LayerWays| {
        let of = [
            least(layer, &|way| kept_bytes(way, in_flight))?,
            least(layer, &|way| room.at_host(way, in_flight))?,
        ];
        Some(of)
    };
    let least_price = |layer: &&LayerWays| {
        let prices = layer
            .ways
            .iter()
            .map(|way| price.of(way.time(), kept_bytes(way, in_flight)));
        prices.min().unwrap_or(0)
    };
    let most_price = price.most(room.bytes);
    let mut left_price: i128 = layers.iter().map(least_price).sum();
    let mut left_bytes = [0; 2];
    for layer in layers {
        let own = least_bytes(layer)?;
        (0..2).for_each(|at| left_bytes[at] += own[at]);
    }
    let mut steps: Vec<Vec<Partial>> = vec![vec![Partial {
        time: 0,
        bytes: 0,
        host_bytes: 0,
        way: 0,
        before: 0,
    }]];
    for layer in layers {
        let own = least_bytes(layer)?;
        (0..2).for_each(|at| left_bytes[at] -= own[at]);
        left_price -= least_price(layer);
        let last = &steps[steps.len() - 1];
        let mut next = Vec::with_capacity(last.len() * layer.ways.len());
        for (way, costs) in layer.ways.iter().enumerate() {
            if costs.workspace_bytes > most_workspace {
                continue;
            }
            let extended = last.iter().enumerate().map(|(before, partial)| Partial {
                time: partial.time + costs.time(),
                bytes: partial.bytes + kept_bytes(costs, in_flight),
                host_bytes: partial.host_bytes + room.at_host(costs, in_flight),
                way,
                before,
            });
            next.extend(extended.filter(|partial| {
                partial.bytes + left_bytes[0] <= room.bytes
                    && partial.host_bytes + left_bytes[1] <= room.host_bytes
                    && price.of(partial.time, partial.bytes) + left_price <= most_price
            }));
        }
        steps.push(not_dominated(next));
    }
    let last = steps.last()?.first()?;
    let (time, mut way, mut before) = (last.time, last.way, last.before);
    let mut ways = Vec::with_capacity(layers.len());
    for step in steps[..steps.len() - 1].iter().rev() {
        ways.push(way);
        (way, before) = (step[before].way, step[before].before);
    }
    ways.reverse();
    Some(Ways { time, ways })
}

/// Without choices that another beats in time and bytes, those at the host too; by ascending time.
fn not_dominated(mut partials: Vec<Partial>) -> Vec<Partial> {
    partials.sort_by_key(|partial| (partial.time, partial.bytes, partial.host_bytes));
    // Of those before, the least bytes at the host by the bytes on the device: both ascend, the other way round.
    let mut least: BTreeMap<u64, u64> = BTreeMap::new();
    partials.retain(|partial| {
        let below = least.range(..=partial.bytes).next_back();
        if below.is_some_and(|(_, &host_bytes)| host_bytes <= partial.host_bytes) {
            return false;
        }
        let above = least.range(partial.bytes..);
        let beaten = above.take_while(|(_, host_bytes)| **host_bytes >= partial.host_bytes);
        let beaten: Vec<u64> = beaten.map(|(&bytes, _)| bytes).collect();
        for bytes in beaten {
            least.remove(&bytes);
        }
        least.insert(partial.bytes, partial.host_bytes);
        true
    });
    partials
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::problem::modes::Pass;

    fn way(time: u64, held_bytes: u64, stash_bytes: u64, workspace_bytes: u64) -> Way {
        Way {
            forward: time,
            held_bytes,
            stash_bytes,
            workspace_bytes,
            ..Way::default()
        }
    }

    /// So many bytes of a device, and a host without a limit.
    fn room(bytes: u64) -> Memory {
        Memory {
            bytes,
            host_bytes: u64::MAX,
        }
    }

    /// All layers differ: without the price of a byte there would be some billion choices.
    #[test]
    fn layers_that_differ_do_not_double_choices() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let layer = |layer: usize, rng: &mut ChaCha8Rng| {
            let (time, bytes) = (
                rng.random_range(1_000_000..9_000_000),
                rng.random_range(1_000_000..9_000_000),
            );
            let ways = vec![
                way(time, 0, bytes, 0),
                way(time + rng.random_range(100_000..900_000), 0, bytes / 8, 0),
            ];
            LayerWays {
                layer,
                pass: Pass::Whole,
                block: None,
                ways,
            }
        };
        let layers: Vec<LayerWays> = (0..60).map(|at| layer(at, &mut rng)).collect();
        let layers: Vec<&LayerWays> = layers.iter().collect();
        let limit_bytes = bytes_of(&layers, &[0; 60], 4) / 2;
        let greedy = greedy_within(&layers, 4, room(limit_bytes)).expect("the smallest fit");
        let best = fastest_within(&layers, 4, room(limit_bytes)).expect("the smallest fit");
        assert!(best.time <= greedy.time && bytes_of(&layers, &best.ways, 4) <= limit_bytes);
    }

    /// Every choice of ways for layers of these numbers of ways.
    fn all(counts: &[usize]) -> Vec<Vec<usize>> {
        counts.iter().fold(vec![Vec::new()], |choices, &count| {
            let extended = choices
                .iter()
                .flat_map(|choice| (0..count).map(move |way| choice.iter().copied().chain([way]).collect()));
            extended.collect()
        })
    }

    #[test]
    fn fewest_blocks_are_computed_again() {
        let block = LayerWays {
            pass: Pass::Whole,
            block: None,
            layer: 0,
            ways: vec![way(180, 100, 826, 0), way(240, 100, 32, 0)],
        };
        let blocks = vec![&block; 5];
        let most = fastest_within(&blocks, 16, room(500 + 16 * (2 * 826 + 3 * 32))).unwrap();
        assert_eq!(most.time, 5 * 180 + 3 * 60);
        assert_eq!(fastest_within(&blocks, 16, room(500 + 16 * 5 * 32 - 1)), None);
    }

    #[test]
    fn choices_are_those_of_brute_force() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..2_000 {
            let layers: Vec<LayerWays> = (0..random.random_range(1..=5))
                .map(|layer| {
                    let mut draw = |most: u64| random.random_range(0..=most);
                    let count = 1 + draw(2);
                    let mut ways: Vec<Way> = (0..count)
                        .map(|_| way(draw(20), draw(9), draw(9), draw(1) * draw(9)))
                        .collect();
                    for way in &mut ways {
                        way.host_bytes = draw(1) * draw(9);
                    }
                    ways.sort_by_key(Way::time);
                    LayerWays {
                        layer,
                        pass: Pass::Whole,
                        block: None,
                        ways,
                    }
                })
                .collect();
            let layers: Vec<&LayerWays> = layers.iter().collect();
            let (in_flight, bytes) = (random.random_range(0..=3), random.random_range(0..=80));
            let limit = Memory {
                bytes,
                host_bytes: match random.random_bool(0.5) {
                    true => random.random_range(0..=40),
                    false => u64::MAX,
                },
            };
            let counts: Vec<usize> = layers.iter().map(|layer| layer.ways.len()).collect();
            let fitting = all(&counts)
                .into_iter()
                .filter(|ways| limit.holds(&layers, ways, in_flight));
            let time = |ways: &[usize]| -> u64 {
                let chosen = layers.iter().zip(ways);
                chosen.map(|(layer, &way)| layer.ways[way].time()).sum()
            };
            let least = fitting.map(|ways| time(&ways)).min();
            let found = fastest_within(&layers, in_flight, limit);
            assert_eq!(found.as_ref().map(|found| found.time), least);
            if let Some(greedy) = greedy_within(&layers, in_flight, limit) {
                assert_eq!(time(&greedy.ways), greedy.time);
                assert!(limit.holds(&layers, &greedy.ways, in_flight));
                assert!(found.as_ref().is_some_and(|found| found.time <= greedy.time));
            }
            if let Some(found) = found {
                assert_eq!(time(&found.ways), found.time);
                assert!(limit.holds(&layers, &found.ways, in_flight));
            }
        }
    }
}
