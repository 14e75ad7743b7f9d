//! A pass over the ideals from the end, for one place of a node at which the last stage ends.

use crate::exact::bits;
use crate::exact::modal::ahead::Ahead;
use crate::exact::modal::labels::{Label, Order, Reached};
use crate::exact::modal::search::{ModalSearch, Question};
use crate::exact::modal::stage::{Crossing, Stage};
use crate::modes::{Chosen, Flight, StageMode};
use crate::plan::StoppedBy;
use crate::problem::Assignment;

/// A pass for one place of a node at which the last stage ends.
pub(super) struct Round<'s, 'a> {
    search: &'s ModalSearch<'a>,
    question: Question,
    /// What is ahead takes at least, if that is known.
    ahead: Option<&'s Ahead<'s, 'a>>,
    /// Devices are counted down from here; as many as devices or more.
    end: usize,
    /// Ideals and labels.
    pub reached: Reached,
    stage: Stage<'a>,
    /// The least cost beyond the limit of any stage that was turned down.
    pub next: u64,
    visits: u64,
    counts_replicas: bool,
    counts_stages: bool,
}

/// The ideal that a stage is taken off.
struct From {
    left: Box<[u64]>,
    items: usize,
    /// The least time that its items take of all devices together.
    device_time: u64,
    labels: Vec<usize>,
    /// Of all labels, the least devices and replicas behind.
    least: [usize; 2],
}

/// How often the clock and memory are looked at: once in so many stages.
const LOOK: u64 = 1024;

impl<'s, 'a> Round<'s, 'a> {
    /// Nothing reached yet.
    pub(super) fn new(
        search: &'s ModalSearch<'a>,
        question: Question,
        ahead: Option<&'s Ahead<'s, 'a>>,
        end: usize,
    ) -> Self {
        let modes = search.modes;
        let settings = &search.problem.settings;
        let items = search.sums.len();
        let order = Order {
            node: modes.links.node.unwrap_or(1),
            all_stages: settings.all_stages,
        };
        Self {
            search,
            question,
            ahead,
            end,
            reached: Reached::new(bits::full(items), items, order),
            stage: Stage::new(modes),
            next: u64::MAX,
            visits: 0,
            counts_replicas: matches!(modes.flight, Flight::Behind(_)) && modes.memory_bytes < u64::MAX,
            counts_stages: settings.all_stages || search.problem.stages() < modes.devices,
        }
    }

    /// Takes stages off ideals, the largest first; the label that ends the best plan.
    pub(super) fn run(&mut self) -> Result<Option<usize>, StoppedBy> {
        for size in (1..self.reached.by_size.len()).rev() {
            for at in 0..self.reached.by_size[size].len() {
                let from = self.from(self.reached.by_size[size][at], size);
                self.grow_from(&from)?;
            }
            if !self.question.least_again && self.ending().is_some() {
                break;
            }
        }
        Ok(self.ending())
    }

    /// Of the labels with nothing left that end where they should, the one that computes least again.
    fn ending(&self) -> Option<usize> {
        let node = self.search.modes.links.node.unwrap_or(1);
        let stages = self.search.problem.stages();
        let all_stages = self.search.problem.settings.all_stages;
        let ideal = self.reached.by_size[0].first()?;
        let labels = self.reached.ideals[*ideal].labels.iter().copied();
        let ends = |&at: &usize| {
            let label = &self.reached.labels[at];
            label.devices % node == self.end % node && (!all_stages || label.stages == stages)
        };
        labels
            .filter(ends)
            .min_by_key(|&at| self.reached.labels[at].again)
    }

    fn from(&self, ideal: usize, items: usize) -> From {
        let ideal = &self.reached.ideals[ideal];
        let labels = ideal.labels.iter().map(|&at| &self.reached.labels[at]);
        let least = |of: fn(&Label) -> usize| labels.clone().map(of).min().unwrap_or(0);
        From {
            items,
            device_time: bits::iter(&ideal.left)
                .map(|item| self.search.device_times[item])
                .sum(),
            least: [least(|label| label.devices), least(|label| label.replicas)],
            left: ideal.left.clone(),
            labels: ideal.labels.clone(),
        }
    }

    fn grow_from(&mut self, from: &From) -> Result<(), StoppedBy> {
        let members = bits::iter(&from.left);
        let ends: Vec<usize> = match self.question.in_order {
            true => members.max().into_iter().collect(),
            false => members.filter(|&item| self.is_free(from, item)).collect(),
        };
        self.grow(from, &ends)
    }

    /// Whether all that follows an item is placed.
    fn is_free(&self, from: &From, item: usize) -> bool {
        let mut after = self.search.successors[item].iter();
        after.all(|&next| !bits::contains(&from.left, next) || self.stage.holds(next))
    }

    /// Every stage that holds the present one and some of the candidates, each once: with the first of them that it holds, and none before.
    fn grow(&mut self, from: &From, candidates: &[usize]) -> Result<(), StoppedBy> {
        for (at, &item) in candidates.iter().enumerate() {
            self.look()?;
            self.stage.push(item, &self.search.sums[item]);
            if self.visit(from) {
                let mut next = candidates[at + 1..].to_vec();
                match self.question.in_order {
                    true => next.extend(item.checked_sub(1)),
                    false => {
                        let before = &self.search.predecessors[item];
                        next.extend(before.iter().filter(|&&before| self.is_free(from, before)));
                    }
                }
                self.grow(from, &next)?;
            }
            self.stage.pop();
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), StoppedBy> {
        self.visits += 1;
        if self.visits.is_multiple_of(LOOK) {
            self.search.control.check_limits()?;
            if self.reached.bytes() > self.search.control.room_bytes() {
                return Err(StoppedBy::MemoryLimit);
            }
        }
        Ok(())
    }

    /// Takes the stage off, in all its modes; whether a larger one may keep the limit.
    fn visit(&mut self, from: &From) -> bool {
        let mut may_grow = false;
        for degree in 0..self.search.modes.degrees.len() {
            if self.keeps_limit(from, degree) {
                may_grow = true;
                self.take_off(from, degree);
            }
        }
        may_grow
    }

    /// Whether the work and memory alone of the stage leave it a chance at a degree, behind the most modest label.
    fn keeps_limit(&mut self, from: &From, degree: usize) -> bool {
        let modes = self.search.modes;
        let sum = self.stage.sums()[degree];
        let room = (modes.devices - from.least[0]) / modes.degrees[degree];
        let Some(&replicas) = modes.replicas.iter().rev().find(|&&replicas| replicas <= room) else {
            return false;
        };
        let least_bytes = sum.least.with(modes.flight.of(replicas, from.least[1]));
        let shared_bytes = sum.shared_bytes.div_ceil(replicas as u64);
        if sum.missing > 0 || least_bytes + shared_bytes > modes.memory_bytes {
            return false;
        }
        let time = sum.time.div_ceil(replicas as u64);
        self.within(time)
    }

    /// Whether a time keeps the limit; else it may be the next one.
    fn within(&mut self, time: u64) -> bool {
        if time > self.question.limit {
            self.next = self.next.min(time);
        }
        time <= self.question.limit
    }

    /// Takes the stage off behind every label, at a degree.
    fn take_off(&mut self, from: &From, degree: usize) {
        let crossing = self.stage.crossing(degree);
        let taken: u64 = self
            .stage
            .items
            .iter()
            .map(|&item| self.search.device_times[item])
            .sum();
        let ahead = from.device_time - taken;
        let mut target = None;
        for &at in &from.labels {
            let label = self.reached.labels[at];
            if self.counts_stages && label.stages >= self.search.problem.stages() {
                continue;
            }
            let modes = self.search.modes;
            for &replicas in &modes.replicas {
                let takes = label.devices + modes.degrees[degree] * replicas;
                if takes > modes.devices {
                    break;
                }
                if !self.leaves_room(takes, ahead) {
                    break;
                }
                if !self.leaves_devices(from, takes) {
                    continue;
                }
                let mode = StageMode { degree, replicas };
                let Some((time, again)) = self.time(&label, mode, crossing) else {
                    continue;
                };
                if !self.within(time) {
                    continue;
                }
                let ideal = *target.get_or_insert_with(|| self.ahead_of(from));
                self.reached.add(ideal, self.label(at, mode, takes, again));
                // More replicas leave less to the others, and take nothing off this stage that matters.
                if modes.links.node.is_none() && again == 0 {
                    break;
                }
            }
        }
    }

    /// Whether what is ahead, of so much device time, may keep the limit on the devices that are left.
    fn leaves_room(&mut self, takes: usize, ahead: u64) -> bool {
        let left = self.search.modes.devices - takes;
        let fits = u128::from(ahead) <= left as u128 * u128::from(self.question.limit);
        if !fits {
            let needed = ahead.checked_div(left as u64);
            let needed = needed.map_or(u64::MAX, |needed| needed.max(self.question.limit + 1));
            self.next = self.next.min(needed);
        }
        fits
    }

    /// The same by what is known of the items ahead. What it turns down is behind `next` of that.
    fn leaves_devices(&self, from: &From, takes: usize) -> bool {
        let Some(ahead) = self.ahead else {
            return true;
        };
        let items = from.items - self.stage.items.len();
        let devices = ahead.devices(items, self.end - takes);
        devices.is_some_and(|devices| devices + takes <= self.search.modes.devices)
    }

    fn label(&self, before: usize, mode: StageMode, devices: usize, again: u64) -> Label {
        let label = self.reached.labels[before];
        let counted = |is_counted: bool, number: usize| if is_counted { number } else { 0 };
        Label {
            devices,
            replicas: counted(self.counts_replicas, label.replicas + mode.replicas),
            stages: counted(self.counts_stages, label.stages + 1),
            again: label.again + again,
            mode,
            before,
            ideal: 0,
        }
    }

    /// The ideal that is left ahead of the stage.
    fn ahead_of(&mut self, from: &From) -> usize {
        let mut left = from.left.clone();
        self.stage
            .items
            .iter()
            .for_each(|&item| bits::remove(&mut left, item));
        self.reached.ideal(&left, from.items - self.stage.items.len())
    }

    /// What the stage takes behind a label in a mode, and how much of it is computed again, if that is asked for; `None` if it does not
    /// fit.
    fn time(&mut self, label: &Label, mode: StageMode, crossing: Crossing) -> Option<(u64, u64)> {
        let modes = self.search.modes;
        let tensor = modes.degrees[mode.degree];
        let last = self.end - label.devices;
        let first = last - tensor * mode.replicas;
        if !modes.links.groups_fit(first, tensor, mode.replicas) {
            return None;
        }
        let in_flight = modes.flight.of(mode.replicas, label.replicas);
        let work = self.time_within(mode, in_flight)?;
        let enters = crossing.entering[modes.links.level(first.saturating_sub(1), first)];
        let leaves = crossing.leaving[modes.links.level(last - 1, last)];
        let ring_level = modes.links.level(first, last - 1);
        let sum = &self.stage.sums()[mode.degree];
        let ring = modes.synchronization(sum.gradient_bytes, mode.replicas, ring_level);
        let again = match self.question.least_again {
            true => work - sum.time,
            false => 0,
        };
        Some((
            (work + enters + leaves).div_ceil(mode.replicas as u64) + ring,
            again,
        ))
    }

    /// The least time of the stage's layers that fits the memory.
    fn time_within(&mut self, mode: StageMode, in_flight: u64) -> Option<u64> {
        let ends = (self.stage.items.last(), self.stage.items.first());
        let spans = self.search.spans.as_ref().filter(|_| self.question.in_order);
        match (spans, ends) {
            (Some(spans), (Some(&first), Some(&last))) => spans.time_within(first, last + 1, mode, in_flight),
            _ => self.stage.time_within(mode, in_flight),
        }
    }

    /// The plan that a label ends.
    pub(super) fn plan(&self, label: usize) -> (Assignment, Chosen) {
        let modes = self.search.modes;
        let mut assignment = vec![0; modes.items.len()];
        let held = modes
            .items
            .iter()
            .flatten()
            .flatten()
            .flat_map(|item| &item.layers);
        let layers = held.map(|layer| layer.layer + 1).max().unwrap_or(0);
        let mut chosen = Chosen {
            stages: Vec::new(),
            layers: vec![0; layers],
        };
        let mut at = label;
        while self.reached.labels[at].before != usize::MAX {
            let label = self.reached.labels[at];
            let before = &self.reached.labels[label.before];
            let left = &self.reached.ideals[label.ideal].left;
            let items = bits::iter(&self.reached.ideals[before.ideal].left)
                .filter(|&item| !bits::contains(left, item));
            let items: Vec<usize> = items.collect();
            items
                .iter()
                .for_each(|&item| assignment[item] = chosen.stages.len());
            chosen.stages.push(label.mode);
            let in_flight = modes.flight.of(label.mode.replicas, before.replicas);
            let layers = modes.layers_of(&items, label.mode.degree).unwrap_or_default();
            let shared_bytes = modes.shared_bytes(&items, &label.mode).unwrap_or(0);
            let room_bytes = modes.memory_bytes.saturating_sub(shared_bytes);
            let ways = modes.knapsack.within(&layers, in_flight, room_bytes);
            for (layer, way) in layers.iter().zip(ways.map_or(Vec::new(), |ways| ways.ways)) {
                chosen.layers[layer.layer] = layer.ways[way].mode;
            }
            at = label.before;
        }
        (assignment, chosen)
    }
}
