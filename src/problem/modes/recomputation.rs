//! What the layers of a stage compute again: the least time within memory.

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
    pub fn within(self, layers: &[&LayerWays], in_flight: u64, limit_bytes: u64) -> Option<Ways> {
        match self {
            Self::Exact => fastest_within(layers, in_flight, limit_bytes),
            Self::Greedy => greedy_within(layers, in_flight, limit_bytes),
            Self::FirstBlocks(count) => first_blocks_within(layers, (count, in_flight), limit_bytes),
        }
    }
}

/// Choices for the first layers: none of the others takes no more time and bytes.
struct Partial {
    time: u64,
    bytes: u64,
    /// The way of the last of them, and the choices for those before it.
    way: usize,
    before: usize,
}

/// The ways that take the least time among those that fit so many bytes with so many micro-batches in flight; `None` if none fits.
///
/// A multiple-choice knapsack: for each workspace that may be the largest, choices that are not dominated in time and bytes are
/// extended layer by layer (G. Nemhauser, Z. Ullmann, *Discrete dynamic programming and capital allocation*, Management Science
/// 15(9), 1969). Equal layers add one choice each, so blocks of a transformer take O(n²) steps. Where all layers differ, choices could
/// double with each, and most are left out by the price of a byte.
pub fn fastest_within(layers: &[&LayerWays], in_flight: u64, limit_bytes: u64) -> Option<Ways> {
    let first = of_first(layers);
    if bytes_of(layers, &first.ways, in_flight) <= limit_bytes {
        return Some(first);
    }
    let mut workspaces: Vec<u64> = layers
        .iter()
        .flat_map(|layer| &layer.ways)
        .map(|way| way.workspace_bytes)
        .collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    let price = Price::new(layers, in_flight, limit_bytes);
    let within = |&most: &u64| {
        let room_bytes = limit_bytes.checked_sub(most)?;
        beside_workspace(layers, in_flight, (most, room_bytes), &price)
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
/// Workspaces, which Piper does not know, count as everywhere.
pub fn greedy_within(layers: &[&LayerWays], in_flight: u64, limit_bytes: u64) -> Option<Ways> {
    let mut ways = of_first(layers);
    let change = |(at, layer): (usize, &&LayerWays)| {
        let (fastest, way) = (&layer.ways[0], smallest_way(layer, in_flight));
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
    while bytes_of(layers, &ways.ways, in_flight) > limit_bytes {
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
    fn new(layers: &[&LayerWays], in_flight: u64, limit_bytes: u64) -> Self {
        let at_hand = greedy_within(layers, in_flight, limit_bytes);
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
        let all_bytes = u128::from(limit_bytes) + totals(&|way| kept_bytes(way, in_flight));
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
    (most_workspace, room_bytes): (u64, u64),
    price: &Price,
) -> Option<Ways> {
    let least_bytes = |layer: &&LayerWays| {
        let ways = layer.ways.iter();
        let fitting = ways.filter(|way| way.workspace_bytes <= most_workspace);
        fitting.map(|way| kept_bytes(way, in_flight)).min()
    };
    let least_price = |layer: &&LayerWays| {
        let prices = layer
            .ways
            .iter()
            .map(|way| price.of(way.time(), kept_bytes(way, in_flight)));
        prices.min().unwrap_or(0)
    };
    let most_price = price.most(room_bytes);
    let mut left_price: i128 = layers.iter().map(least_price).sum();
    let mut left_bytes: u64 = layers.iter().map(least_bytes).sum::<Option<u64>>()?;
    let mut steps: Vec<Vec<Partial>> = vec![vec![Partial {
        time: 0,
        bytes: 0,
        way: 0,
        before: 0,
    }]];
    for layer in layers {
        left_bytes -= least_bytes(layer)?;
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
                way,
                before,
            });
            next.extend(extended.filter(|partial| {
                partial.bytes + left_bytes <= room_bytes
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

/// Without choices that another beats in time and bytes; by ascending time.
fn not_dominated(mut partials: Vec<Partial>) -> Vec<Partial> {
    partials.sort_by_key(|partial| (partial.time, partial.bytes));
    let mut least_bytes = u64::MAX;
    partials.retain(|partial| {
        let is_better = partial.bytes < least_bytes;
        least_bytes = least_bytes.min(partial.bytes);
        is_better
    });
    partials
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn way(time: u64, held_bytes: u64, stash_bytes: u64, workspace_bytes: u64) -> Way {
        Way {
            collective_back: 0,
            recompute: String::new(),
            mode: 0,
            forward: time,
            backward: 0,
            collective: 0,
            held_bytes,
            stash_bytes,
            workspace_bytes,
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
                block: None,
                ways,
            }
        };
        let layers: Vec<LayerWays> = (0..60).map(|at| layer(at, &mut rng)).collect();
        let layers: Vec<&LayerWays> = layers.iter().collect();
        let limit_bytes = bytes_of(&layers, &[0; 60], 4) / 2;
        let greedy = greedy_within(&layers, 4, limit_bytes).expect("the smallest fit");
        let best = fastest_within(&layers, 4, limit_bytes).expect("the smallest fit");
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
            block: None,
            layer: 0,
            ways: vec![way(180, 100, 826, 0), way(240, 100, 32, 0)],
        };
        let blocks = vec![&block; 5];
        let most = fastest_within(&blocks, 16, 500 + 16 * (2 * 826 + 3 * 32)).unwrap();
        assert_eq!(most.time, 5 * 180 + 3 * 60);
        assert_eq!(fastest_within(&blocks, 16, 500 + 16 * 5 * 32 - 1), None);
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
                    ways.sort_by_key(Way::time);
                    LayerWays {
                        layer,
                        block: None,
                        ways,
                    }
                })
                .collect();
            let layers: Vec<&LayerWays> = layers.iter().collect();
            let (in_flight, limit) = (random.random_range(0..=3), random.random_range(0..=80));
            let counts: Vec<usize> = layers.iter().map(|layer| layer.ways.len()).collect();
            let fitting = all(&counts)
                .into_iter()
                .filter(|ways| bytes_of(&layers, ways, in_flight) <= limit);
            let time = |ways: &[usize]| -> u64 {
                let chosen = layers.iter().zip(ways);
                chosen.map(|(layer, &way)| layer.ways[way].time()).sum()
            };
            let least = fitting.map(|ways| time(&ways)).min();
            let found = fastest_within(&layers, in_flight, limit);
            assert_eq!(found.as_ref().map(|found| found.time), least);
            if let Some(greedy) = greedy_within(&layers, in_flight, limit) {
                assert_eq!(time(&greedy.ways), greedy.time);
                assert!(bytes_of(&layers, &greedy.ways, in_flight) <= limit);
                assert!(found.as_ref().is_some_and(|found| found.time <= greedy.time));
            }
            if let Some(found) = found {
                assert_eq!(time(&found.ways), found.time);
                assert!(bytes_of(&layers, &found.ways, in_flight) <= limit);
            }
        }
    }
}
