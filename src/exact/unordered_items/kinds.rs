//! Kinds of devices: how many there are of each, and what a stage costs on one.

use crate::exact::busy_times::{BusyTimes, paid_by_sides};
use crate::problem::Problem;

/// Kinds at most.
const MOST_KINDS: usize = 4;

/// How many devices of each kind.
pub(super) type Devices = [usize; MOST_KINDS];

/// A kind of devices.
pub(super) struct Kind {
    /// The place of one of them among the choices of workers.
    pub(super) choice: usize,
    /// What it takes for each item, in ns.
    pub(super) work_ns: Vec<i64>,
    /// What each side of each transfer adds to load, link in and link out, in ns.
    pub(super) paid: Vec<[BusyTimes; 2]>,
    pub(super) memory_limit: Option<u64>,
}

/// The devices of a problem.
pub(super) struct Kinds {
    pub(super) all: Vec<Kind>,
    /// How many there are.
    counts: Devices,
    /// Stages of a plan at most.
    stages: usize,
}

impl Kinds {
    /// `None` where stages may run on groups, where some device cannot run some item or its time is no sum, or where there are too many kinds.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let mut kinds = Self {
            all: Vec::new(),
            counts: [0; MOST_KINDS],
            stages: problem.stages(),
        };
        let Some(workers) = &problem.workers else {
            kinds.counts[0] = kinds.stages;
            kinds.all.push(Kind::new(problem, 0, paid_by_sides(problem)));
            return Some(kinds);
        };
        for (place, choice) in workers.choices.iter().enumerate() {
            let class = choice.devices.iter().position(|&devices| devices > 0)?;
            let is_known = place < MOST_KINDS && workers.is_single(choice) && choice.takes == choice.devices;
            let alone = problem.on_class(class).filter(|_| is_known)?;
            let paid = match workers.pays(choice) {
                true => paid_by_sides(problem),
                false => vec![[[0; 3]; 2]; problem.transfers.len()],
            };
            kinds.counts[place] = alone.stages();
            kinds.all.push(Kind::new(&alone, place, paid));
        }
        Some(kinds)
    }

    /// These devices and one more of a kind; `None` where there are not so many, or no stage is left for it.
    pub(super) fn with(&self, devices: &Devices, kind: usize) -> Option<Devices> {
        let mut more = *devices;
        more[kind] += 1;
        self.has(&more).then_some(more)
    }

    /// The same for each kind of which there are.
    pub(super) fn with_one_more(&self, devices: &Devices) -> Vec<(usize, Devices)> {
        let kinds = 0..self.all.len();
        kinds
            .filter_map(|kind| Some((kind, self.with(devices, kind)?)))
            .collect()
    }

    /// Whether there are these and those devices, and stages for them.
    pub(super) fn has_both(&self, these: &Devices, those: &Devices) -> bool {
        self.has(&std::array::from_fn(|kind| these[kind] + those[kind]))
    }

    fn has(&self, devices: &Devices) -> bool {
        is_within(devices, &self.counts) && devices.iter().sum::<usize>() <= self.stages
    }
}

impl Kind {
    /// Of a problem for such devices alone.
    fn new(alone: &Problem, choice: usize, paid: Vec<[BusyTimes; 2]>) -> Self {
        Self {
            choice,
            work_ns: alone.items.iter().map(|item| item.work_ns() as i64).collect(),
            paid,
            memory_limit: alone.settings.memory_limit,
        }
    }
}

/// Whether some devices are among others.
fn is_within(devices: &Devices, most: &Devices) -> bool {
    devices.iter().zip(most).all(|(n, most)| n <= most)
}

/// Adds devices to sets none of which holds another; whether they hold none of them.
pub(super) fn add_unless_more(sets: &mut Vec<Devices>, devices: Devices) -> bool {
    let is_new = !sets.iter().any(|other| is_within(other, &devices));
    if is_new {
        sets.retain(|other| !is_within(&devices, other));
        sets.push(devices);
    }
    is_new
}
