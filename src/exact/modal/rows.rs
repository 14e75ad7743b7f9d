//! A pass over the ideals from the end where devices differ: labels say how many of each row of devices are taken. Each stage keeps a limit, or all of
//! them together take least ([`aims`](super::aims)).
//!
//! Stages of a row take its devices in pipeline order, and rows may alternate. A stage knows the place of its devices in their nodes from the
//! place where its row ends, which is chosen when the first stage of the row is taken off; the boundary ahead of it depends on what comes
//! there, so that a label says which levels of it keep the limit. A row that shares a node with another ends at a device, not only at a place
//! of a node: so boundaries between both have a level. For tensors that may skip a stage, the cheaper level counts: then a plan may take
//! longer than the limit, and what is proved stays a bound.

use std::collections::HashMap;
use std::ops::Range;

use crate::exact::modal::aims::{Ahead, Aim};
use crate::exact::modal::items::{Work, least_times};
use crate::exact::modal::labels::{Behind, Counted};
use crate::exact::modal::space::{Placement, Run, Space};
use crate::exact::modal::stages::{Bar, Stage, Stages};
use crate::problem::modes::{Chosen, Modes};
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// Memory is looked at once in so many labels.
const LOOK: usize = 1 << 16;

/// A place of a node that is not known yet: no stage of the row was taken off.
const UNKNOWN: u16 = u16::MAX;

/// What the stages behind an ideal have taken, in one way to get there.
#[derive(Clone, Debug)]
struct RowLabel<K> {
    /// Devices of each row.
    taken: Box<[u16]>,
    /// For each row, the first device that is taken: its place in its node, or, where the row shares a node with another, its number.
    places: Box<[u16]>,
    /// What is known of their time.
    known: K,
    behind: Behind,
}

impl<K> RowLabel<K> {
    /// Whether whatever can be ahead of the other label, of the same places, can be ahead of this one at no more cost.
    fn dominates<A: Aim<Known = K>>(&self, other: &Self, counted: &Counted) -> bool {
        self.taken
            .iter()
            .zip(&other.taken)
            .all(|(one, other)| one <= other)
            && counted.dominates(&self.behind, &other.behind)
            && A::dominates(&self.known, &other.known)
    }
}

/// What labels of an ideal have in common that can dominate each other: the row of the first stage, and places of nodes.
type Place = (usize, Box<[u16]>);

/// A pass for one limit.
pub(super) struct RowPass<'s, 'a, A: Aim> {
    space: &'s Space<'a>,
    /// What each ideal takes at least, of all devices and for a micro-batch.
    work: &'s Work,
    once: Vec<u64>,
    counted: Counted,
    /// Whether each row shares a node with another.
    shares_node: Vec<bool>,
    /// The levels of all links.
    levels: Vec<usize>,
    labels: Vec<RowLabel<A::Known>>,
    /// By ideal, the labels that none dominates.
    own: Vec<HashMap<Place, Vec<usize>>>,
}

impl<'s, 'a, A: Aim> RowPass<'s, 'a, A> {
    /// Nothing reached yet.
    pub(super) fn new(problem: &Problem, space: &'s Space<'a>, work: &'s Work, least_again: bool) -> Self {
        let modes = space.modes;
        let all = space.lattice.all();
        let rows = modes.rows.len();
        let start = RowLabel {
            taken: vec![0; rows].into(),
            places: vec![UNKNOWN; rows].into(),
            known: A::NOTHING,
            behind: Behind::nothing(all),
        };
        let mut own = vec![HashMap::new(); space.lattice.len()];
        own[all].insert((rows, start.places.clone()), vec![0]);
        Self {
            space,
            work,
            once: space.lattice.sums(
                &least_times(&space.sums)
                    .into_iter()
                    .map(Option::unwrap_or_default)
                    .collect::<Vec<u64>>(),
            ),
            counted: Counted::new(problem, modes, least_again),
            shares_node: (0..rows).map(|row| shares_node(modes, row)).collect(),
            levels: modes.links.of_rows(0..rows),
            labels: vec![start],
            own,
        }
    }

    /// Takes stages off ideals, the largest first; a plan that keeps the limit, if levels are what they count as.
    pub(super) fn run(
        &mut self,
        stages: &mut Stages,
        bar: &mut Bar,
    ) -> Result<Option<(Assignment, Chosen)>, StoppedBy> {
        let space = self.space;
        let mut looked = 0;
        for behind in (1..space.lattice.len()).rev() {
            let mut ends: Vec<usize> = self.own[behind].values().flatten().copied().collect();
            if ends.is_empty() {
                continue;
            }
            ends.sort_unstable();
            stages.each(space, behind, bar, &mut |stage, bar| {
                self.take_off((stage, behind), &ends, bar)
            })?;
            if self.labels.len() > looked + LOOK {
                looked = self.labels.len();
                let bytes = looked * (size_of::<RowLabel<A::Known>>() + 16 * space.modes.rows.len() + 64);
                if bytes > space.control.room_bytes() {
                    return Err(StoppedBy::MemoryLimit);
                }
            }
            if A::FIRST_WILL_DO && !self.counted.least_again && self.ending().is_some() {
                break;
            }
        }
        Ok(self.ending().and_then(|label| self.plan(label)))
    }

    /// What the stages of the plan that was found take together, where that is asked for.
    pub(super) fn least(&self) -> Option<u64> {
        self.ending()
            .map(|label| A::taken(&self.labels[label].known, self.space))
    }

    /// Of the labels ahead of which nothing is left, the one that takes least, and that computes least again.
    fn ending(&self) -> Option<usize> {
        let labels = self.own[0].values().flatten().copied();
        labels
            .filter(|&at| self.counted.may_end(&self.labels[at].behind))
            .min_by_key(|&at| {
                let taken = A::taken(&self.labels[at].known, self.space);
                (taken, self.labels[at].behind.again, at)
            })
    }

    /// Takes a stage off ahead of every label, with every number of replicas and at every place that its devices may have.
    fn take_off(&mut self, (stage, behind): (&mut Stage, usize), ends: &[usize], bar: &mut Bar) {
        let space = self.space;
        let row = space.modes.degrees[stage.degree].row;
        for run in space.runs(stage.degree) {
            if !bar.keeps(space.least_time(stage, &run)) {
                continue;
            }
            for &at in ends {
                let period = self.least_period(&self.labels[at], (stage.ahead, row), run.devices);
                let Some(period) = period.filter(|&period| bar.keeps(period)) else {
                    continue;
                };
                if !self.may_precede(row, &self.labels[at]) {
                    continue;
                }
                let label = self.labels[at].clone();
                let in_flight = space.modes.flight.of(run.mode.replicas, label.behind.replicas);
                let Some(work) = stage.time_within(space, behind, run.mode, in_flight) else {
                    continue;
                };
                let ends = self.ends(&label, row);
                let placements = ends.map(|end| (end, space.placement(&run, end % space.node)));
                for (end, placement) in placements.filter(|(_, placement)| placement.fits) {
                    let takes = (work, [self.once[stage.ahead], period]);
                    self.extend((at, &label), (stage, row, end), (&run, &placement, takes), bar);
                }
            }
        }
    }

    /// Whether a stage of a row may lie ahead of the stages of a label.
    fn may_precede(&self, row: usize, label: &RowLabel<A::Known>) -> bool {
        let modes = self.space.modes;
        let next = modes.degrees[label.behind.mode.degree].row;
        label.behind.before.is_none() || modes.may_follow(row, next)
    }

    /// Where the devices of the next stage of a row may end, counted as its places are.
    fn ends(&self, label: &RowLabel<A::Known>, row: usize) -> Range<usize> {
        let own = &self.space.modes.rows[row];
        match (label.places[row], self.shares_node[row]) {
            (UNKNOWN, true) => own.first + 1..own.first + own.devices + 1,
            (UNKNOWN, false) => 0..self.space.node,
            (place, _) => usize::from(place)..usize::from(place) + 1,
        }
    }

    /// The shortest period of what is ahead of a stage on so many devices of a row; `None` where that leaves too few devices or stages.
    fn least_period(
        &self,
        label: &RowLabel<A::Known>,
        (ideal, row): (usize, usize),
        devices: usize,
    ) -> Option<u64> {
        let free = |at: usize| {
            let own = &self.space.modes.rows[at];
            let free = match label.places[at] {
                place if place < UNKNOWN && self.shares_node[at] => usize::from(place) - own.first,
                _ => own.devices - usize::from(label.taken[at]),
            };
            free.checked_sub(if at == row { devices } else { 0 })
        };
        let free: Vec<usize> = (0..label.taken.len()).map(free).collect::<Option<_>>()?;
        let stages = label.behind.stages + 1 + usize::from(ideal > 0);
        (stages <= self.counted.most_stages).then(|| self.work.least_within(ideal, &free))
    }

    /// The level of the boundary between a stage of a row, whose devices end there, and the stages behind it.
    fn level(&self, label: &RowLabel<A::Known>, row: usize, end: usize) -> usize {
        let modes = self.space.modes;
        if label.behind.before.is_none() {
            return self.levels[0];
        }
        let other = modes.degrees[label.behind.mode.degree].row;
        let next = usize::from(label.places[other]);
        let share_node = modes.links.node.is_some_and(|node| match other == row {
            true => next % node > 0,
            false => self.shares_node[row] && self.shares_node[other] && (end - 1) / node == next / node,
        });
        modes.links.level_between([row, other], share_node)
    }

    /// Takes a stage off ahead of a label in a mode that its layers take so long in, on devices of a row that end there, with what the rest takes at least.
    fn extend(
        &mut self,
        (at, label): (usize, &RowLabel<A::Known>),
        (stage, row, end): (&Stage, usize, usize),
        (run, placement, (work, rest)): (&Run, &Placement, (u64, [u64; 2])),
        bar: &mut Bar,
    ) {
        let space = self.space;
        let own = &space.modes.rows[row];
        let start = match self.shares_node[row] {
            true if end < own.first + run.devices => return,
            true => end - run.devices,
            false => placement.start,
        };
        let behind = self.level(label, row, end);
        let ahead = Ahead {
            stage,
            run,
            placement: Placement { behind, ..*placement },
            work,
            levels: &self.levels,
            rest,
        };
        let Some(known) = A::ahead_of(&label.known, &ahead, space, bar) else {
            return;
        };
        let mut next = RowLabel {
            known,
            behind: self
                .counted
                .ahead_of((at, &label.behind), (stage, run.mode, work)),
            ..label.clone()
        };
        next.taken[row] += run.devices as u16;
        next.places[row] = start as u16;
        // Nothing is ahead of the first of a row's devices.
        let begins = |(row, &place): (usize, &u16)| {
            let first = space.modes.rows[row].first;
            let first = if self.shares_node[row] {
                first
            } else {
                first % space.node
            };
            place == UNKNOWN || usize::from(place) == first
        };
        if stage.ahead > 0 || next.places.iter().enumerate().all(begins) {
            self.add(row, next);
        }
    }

    /// Adds a label, unless another dominates it.
    fn add(&mut self, row: usize, label: RowLabel<A::Known>) {
        let links = &self.space.modes.links;
        let place: Place = match (links.node, links.differ_by_rows()) {
            (Some(_), _) => (row, label.places.clone()),
            (None, true) => (row, Box::default()),
            (None, false) if self.space.modes.rows_ascend => (row, Box::default()),
            (None, false) => (0, Box::default()),
        };
        let own = self.own[label.behind.ideal].entry(place).or_default();
        let (labels, counted) = (&self.labels, &self.counted);
        if own.iter().any(|&at| labels[at].dominates::<A>(&label, counted)) {
            return;
        }
        own.retain(|&at| !label.dominates::<A>(&labels[at], counted));
        own.push(self.labels.len());
        self.labels.push(label);
    }

    /// The plan that a label ends.
    fn plan(&self, label: usize) -> Option<(Assignment, Chosen)> {
        let behind = |at: usize| self.labels[at].behind;
        Behind::plan(label, behind, &self.space.lattice, self.space.modes)
    }
}

/// Whether a row has devices in a node where another has some.
fn shares_node(modes: &Modes, row: usize) -> bool {
    let Some(node) = modes.links.node else {
        return false;
    };
    let nodes = |at: usize| {
        let row = &modes.rows[at];
        (row.first / node, (row.first + row.devices - 1) / node)
    };
    let (first, last) = nodes(row);
    let others = (0..modes.rows.len()).filter(|&other| other != row).map(nodes);
    others
        .into_iter()
        .any(|(other_first, other_last)| first <= other_last && other_first <= last)
}
