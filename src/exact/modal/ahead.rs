//! The least devices that the first items take within a limit, in stages along their numbering: what a label of the search must leave to what is ahead of it.
//!
//! A dynamic program from the front: of all numbers of devices that the first so many items can run on, the least for each place of a
//! node at which they may end. Levels of links are exact there, since devices are counted from the first. Only what is in flight is not
//! known from the front: it is taken to be what as many replicas bring about as the work behind needs at least.
//!
//! What it finds is often a plan, and then no label is needed; where it finds nothing, there is none.

use crate::exact::modal::spans::Spans;
use crate::modes::{Chosen, Modes, StageMode};
use crate::problem::Assignment;

/// The first items on the least devices.
#[derive(Clone, Copy)]
struct Front {
    devices: usize,
    /// The last of their stages: its first item, the place of the node where it begins, and its mode.
    last: (usize, usize, StageMode),
}

/// The least devices of all first items.
pub(super) struct Ahead<'s, 'a> {
    modes: &'a Modes,
    spans: &'s Spans<'a>,
    /// No stage takes longer.
    limit: u64,
    /// Devices of a node.
    node: usize,
    /// By number of items, by place of a node.
    fronts: Vec<Vec<Option<Front>>>,
    /// The least replicas of stages behind so many items.
    behind: Vec<usize>,
    /// The least cost beyond the limit of any stage that was turned down.
    pub next: u64,
}

impl<'s, 'a> Ahead<'s, 'a> {
    /// For plans that keep a limit, and for what `next` says for those that are better than `ceiling`.
    pub(super) fn new(modes: &'a Modes, spans: &'s Spans<'a>, limit: u64, ceiling: u64) -> Self {
        let node = modes.links.node.unwrap_or(1);
        let items = spans.items();
        let nowhere = StageMode {
            degree: 0,
            replicas: 0,
        };
        let mut fronts = vec![vec![None; node]; items + 1];
        fronts[0][0] = Some(Front {
            devices: 0,
            last: (0, 0, nowhere),
        });
        let mut ahead = Self {
            modes,
            spans,
            limit,
            node,
            fronts,
            behind: least_replicas(modes, spans, ceiling),
            next: ceiling,
        };
        for first in 0..items {
            ahead.extend(first);
        }
        ahead
    }

    /// The least devices of the first so many items that end at a place of a node; `None` where they cannot.
    pub(super) fn devices(&self, items: usize, place: usize) -> Option<usize> {
        self.fronts[items][place % self.node].map(|front| front.devices)
    }

    /// Every stage that begins with an item.
    fn extend(&mut self, first: usize) {
        if self.fronts[first].iter().all(Option::is_none) {
            return;
        }
        for behind in first + 1..=self.spans.items() {
            let mut may_grow = false;
            for degree in 0..self.modes.degrees.len() {
                may_grow |= self.at_degree(first, behind, degree);
            }
            if !may_grow {
                return;
            }
        }
    }

    /// A stage at a degree, with any replicas; whether a larger one may keep the limit.
    fn at_degree(&mut self, first: usize, behind: usize, degree: usize) -> bool {
        let modes = self.modes;
        let (sum, _) = *self.spans.cost(first, behind, degree);
        let most = modes.devices / modes.degrees[degree];
        let mut may_grow = false;
        for &replicas in modes.replicas.iter().take_while(|&&replicas| replicas <= most) {
            if sum.missing == 0 && self.within(sum.time.div_ceil(replicas as u64)) {
                may_grow = true;
                self.add(first, behind, StageMode { degree, replicas });
            }
        }
        may_grow
    }

    /// Whether a time keeps the limit; else it may be the next one.
    fn within(&mut self, time: u64) -> bool {
        if time > self.limit {
            self.next = self.next.min(time);
        }
        time <= self.limit
    }

    /// A stage in a mode, from every place where it may begin.
    fn add(&mut self, first: usize, behind: usize, mode: StageMode) {
        let modes = self.modes;
        let in_flight = modes.flight.of(mode.replicas, self.behind[behind]);
        let Some(work) = self.spans.time_within(first, behind, mode, in_flight) else {
            return;
        };
        let tensor = modes.degrees[mode.degree];
        let (sum, crossing) = self.spans.cost(first, behind, mode.degree);
        for place in 0..self.node {
            let Some(start) = self.devices(first, place) else {
                continue;
            };
            let end = start + modes.devices_of(&mode);
            let fits = end <= modes.devices && modes.links.groups_fit(start, tensor, mode.replicas);
            let to = self.fronts[behind][end % self.node];
            if !fits || to.is_some_and(|to| to.devices <= end) {
                continue;
            }
            let enters = crossing.entering[modes.links.level(start.saturating_sub(1), start)];
            let leaves = crossing.leaving[modes.links.level(end - 1, end)];
            let ring_level = modes.links.level(start, end - 1);
            let ring = modes.synchronization(sum.gradient_bytes, mode.replicas, ring_level);
            if self.within((work + enters + leaves).div_ceil(mode.replicas as u64) + ring) {
                self.fronts[behind][end % self.node] = Some(Front {
                    devices: end,
                    last: (first, place, mode),
                });
            }
        }
    }

    /// Plans of all items, if what is in flight lets them fit.
    pub(super) fn plans(&self) -> impl Iterator<Item = (Assignment, Chosen)> {
        (0..self.node).filter_map(|place| self.plan(place))
    }

    fn plan(&self, place: usize) -> Option<(Assignment, Chosen)> {
        let modes = self.modes;
        let items = self.spans.items();
        let (mut at, mut place) = (items, place);
        let mut stages = Vec::new();
        while at > 0 {
            let (first, before, mode) = self.fronts[at][place]?.last;
            stages.push((first..at, mode));
            (at, place) = (first, before);
        }
        let held = modes.items.iter().flatten().flatten();
        let layers = held.flat_map(|item| &item.layers).map(|layer| layer.layer + 1);
        let mut assignment = vec![0; items];
        let mut chosen = Chosen {
            layers: vec![0; layers.max().unwrap_or(0)],
            stages: stages.iter().rev().map(|(_, mode)| *mode).collect(),
        };
        let mut behind = 0;
        for (from_end, (span, mode)) in stages.iter().enumerate() {
            let items: Vec<usize> = span.clone().collect();
            let in_flight = modes.flight.of(mode.replicas, behind);
            let room_bytes = modes
                .memory_bytes
                .checked_sub(modes.shared_bytes(&items, mode)?)?;
            let layers = modes.layers_of(&items, mode.degree)?;
            let ways = modes.knapsack.within(&layers, in_flight, room_bytes)?.ways;
            for (layer, way) in layers.iter().zip(ways) {
                chosen.layers[layer.layer] = layer.ways[way].mode;
            }
            items
                .iter()
                .for_each(|&item| assignment[item] = stages.len() - 1 - from_end);
            behind += mode.replicas;
        }
        Some((assignment, chosen))
    }
}

/// The least replicas that stages behind so many items have in a plan that is better than `ceiling`: each is busy for no longer.
fn least_replicas(modes: &Modes, spans: &Spans, ceiling: u64) -> Vec<usize> {
    let items = spans.items();
    let mut least = vec![0; items + 1];
    let mut work = 0u64;
    for item in (0..items).rev() {
        let sums = (0..modes.degrees.len()).map(|degree| spans.cost(item, item + 1, degree).0);
        let able = sums.filter(|sum| sum.missing == 0);
        work = work.saturating_add(able.map(|sum| sum.time).min().unwrap_or(0));
        least[item] = (work.div_ceil(ceiling.max(1)) as usize).max(1);
    }
    least
}
