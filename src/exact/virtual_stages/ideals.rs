//! Ideals with the loads of devices: item by item, chunk by chunk, whatever the order. See the page's *Ideals*.

use std::collections::{BTreeMap, HashMap};

use crate::exact::bits;
use crate::exact::busy_times::paid;
use crate::exact::ideals::growth;
use crate::model::options::Communication;
use crate::problem::confined::{Confined, Held};
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// Devices that a mask has bits for.
pub(super) const MOST_DEVICES: usize = 64;

/// Steps between two looks at the clock, some ten milliseconds.
const STEPS_BETWEEN_LOOKS: u64 = 1 << 12;

/// Bytes of a label beside its row of numbers: its place among those of its state, and that of the item that led to it.
const BYTES_OF_A_LABEL: usize = 96;

/// What can follow is the same for all labels of a state: the items placed, and where those lie that others will exchange tensors with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    /// Items placed.
    ideal: Box<[u64]>,
    /// For each transfer some of whose items are placed and others not: the device of its producer, and those of its consumers.
    ends: Vec<(Option<u8>, u64)>,
    /// The last item that the open chunk has taken; it takes them in ascending order.
    last: Option<usize>,
    /// What the open chunk holds, as far as chunks are confined.
    held: Option<Held>,
}

/// A way to a state: what is used up of every limit, and the last step.
#[derive(Clone, Debug)]
struct Label {
    used: Box<[u64]>,
    step: usize,
}

/// An item that was placed, in which chunk, and the step before.
struct Step {
    item: usize,
    chunk: usize,
    before: usize,
}

/// No step.
const NONE: usize = usize::MAX;

type States = HashMap<State, Vec<Label>>;

/// A search for plans of at most a period.
pub(super) struct IdealSearch<'a> {
    problem: &'a Problem,
    of: &'a VirtualStages,
    control: &'a Control<'a>,
    predecessors: Vec<Vec<usize>>,
    /// Whether links are limits of their own.
    has_links: bool,
    /// Whether memory may bind.
    has_memory: bool,
    /// For every device, where its limits begin among all: time, links, and each of its largest counts in flight.
    first: Vec<usize>,
    limits: Vec<u64>,
    left: u64,
    steps: Vec<Step>,
    most_labels: usize,
    labels: usize,
}

impl<'a> IdealSearch<'a> {
    /// A search that gives up after so many steps; `None` for more devices than it can take.
    pub(super) fn new(
        problem: &'a Problem,
        of: &'a VirtualStages,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Option<Self> {
        if of.devices > MOST_DEVICES {
            return None;
        }
        let has_links = problem.settings.communication == Communication::Overlapped;
        let has_memory = !problem.memory_never_binds();
        let times = if has_links { 3 } else { 1 };
        let mut first = vec![0];
        for (device, counts) in of.in_flight.iter().enumerate() {
            let rows = times + if has_memory { counts.len() } else { 0 };
            first.push(first[device] + rows);
        }
        Some(Self {
            problem,
            of,
            control,
            predecessors: growth::predecessors(problem),
            has_links,
            has_memory,
            limits: vec![0; first[of.devices]],
            first,
            left: most_steps,
            steps: Vec::new(),
            most_labels: 0,
            labels: 0,
        })
    }

    fn times(&self) -> usize {
        if self.has_links { 3 } else { 1 }
    }

    /// Looks for a plan of at most so long a period.
    pub(super) fn within(&mut self, period_ns: u64) -> Answer {
        let memory = self.problem.settings.memory_limit.unwrap_or(u64::MAX);
        for device in 0..self.of.devices {
            let rows = self.first[device]..self.first[device + 1];
            let time = rows.start + self.times();
            rows.for_each(|row| self.limits[row] = if row < time { period_ns } else { memory });
        }
        self.steps.clear();
        self.labels = 0;
        self.most_labels = self.control.room_bytes() / (BYTES_OF_A_LABEL + 8 * self.limits.len());
        Answer::within(period_ns, self.run())
    }

    fn run(&mut self) -> Result<Option<Assignment>, StoppedBy> {
        let n = self.problem.items.len();
        let start = State {
            ideal: bits::from_members(bits::words(n), []),
            ends: Vec::new(),
            last: None,
            held: self.nothing_held(),
        };
        let label = Label {
            used: vec![0; self.limits.len()].into(),
            step: NONE,
        };
        let mut states = States::from([(start, vec![label])]);
        for chunk in 0..self.of.chunks() {
            states = self.along_chunk(chunk, states)?;
            if states.is_empty() {
                return Ok(None);
            }
        }
        // Only states with all items are left behind the last chunk.
        let plan = states.into_values().flatten().next();
        Ok(plan.map(|label| self.unwind(label.step)))
    }

    /// The states behind a chunk: those before it with whatever items it can take.
    fn along_chunk(&mut self, chunk: usize, states: States) -> Result<States, StoppedBy> {
        let mut behind = States::new();
        let mut open: BTreeMap<usize, States> = BTreeMap::new();
        for (state, labels) in states {
            let size = bits::count(&state.ideal) as usize;
            open.entry(size).or_default().insert(state, labels);
        }
        while let Some((size, states)) = open.pop_first() {
            let mut states: Vec<(State, Vec<Label>)> = states.into_iter().collect();
            states.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            let ways = states
                .iter()
                .flat_map(|(state, labels)| labels.iter().map(move |label| (state, label)));
            for way in ways {
                self.extend(chunk, way, open.entry(size + 1).or_default())?;
                self.close(chunk, way, &mut behind);
            }
            if self.labels > self.most_labels {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(behind)
    }

    /// What an empty chunk holds, as far as chunks are confined.
    fn nothing_held(&self) -> Option<Held> {
        self.problem.confined.as_ref().map(Confined::nothing)
    }

    /// Leaves the open chunk as it is.
    fn close(&mut self, chunk: usize, (state, label): (&State, &Label), behind: &mut States) {
        let is_filled = state.last.is_some() || !self.problem.settings.all_stages;
        if is_filled && self.may_close(chunk, state, label) {
            let closed = State {
                last: None,
                held: self.nothing_held(),
                ..state.clone()
            };
            self.labels += usize::from(keep(behind, closed, label.clone()));
        }
    }

    /// Places every item that may come next in the open chunk.
    fn extend(
        &mut self,
        chunk: usize,
        (state, label): (&State, &Label),
        next: &mut States,
    ) -> Result<(), StoppedBy> {
        let from = state.last.map_or(0, |last| last + 1);
        for item in from..self.problem.items.len() {
            self.control.take_step(&mut self.left, STEPS_BETWEEN_LOOKS)?;
            let is_free = !bits::contains(&state.ideal, item)
                && self.predecessors[item]
                    .iter()
                    .all(|&before| bits::contains(&state.ideal, before));
            if !is_free {
                continue;
            }
            if let Some((state, used)) = self.place(chunk, item, (state, label)) {
                let step = self.steps.len();
                if keep(next, state, Label { used, step }) {
                    self.labels += 1;
                    self.steps.push(Step {
                        item,
                        chunk,
                        before: label.step,
                    });
                }
            }
        }
        Ok(())
    }

    /// The state with one more item, and what is used then; `None` where that is more than there is.
    fn place(
        &self,
        chunk: usize,
        item: usize,
        (state, label): (&State, &Label),
    ) -> Option<(State, Box<[u64]>)> {
        let device = self.of.device_of[chunk];
        let mut held = state.held.clone();
        if let Some((confined, held)) = self.problem.confined.as_ref().zip(held.as_mut()) {
            if !confined.admits(held, item) {
                return None;
            }
            confined.add(held, item);
        }
        let mut used = label.used.clone();
        let rows = self.first[device];
        used[rows] += self.problem.items[item].work_ns();
        if self.has_memory {
            let own = &self.problem.items[item];
            for (row, counts) in (rows + self.times()..).zip(&self.of.in_flight[device]) {
                used[row] += own.base_bytes + counts[self.of.round_of[chunk]] * own.stash_bytes;
            }
        }
        let mut ideal = state.ideal.clone();
        bits::insert(&mut ideal, item);
        let mut before = state.ends.iter();
        let mut ends = Vec::new();
        for (t, transfer) in self.problem.transfers.iter().enumerate() {
            let is_placed = |items: &[u64]| {
                let placed = transfer
                    .items()
                    .filter(|&item| bits::contains(items, item))
                    .count();
                [placed > 0, placed == 1 + transfer.consumers.len()]
            };
            let mut own = match is_placed(&state.ideal) {
                [true, false] => *before.next()?,
                [_, true] => continue,
                [false, false] => (None, 0),
            };
            if transfer.items().any(|end| end == item) {
                self.meet(t, (item, device), &mut own, &mut used);
            }
            if is_placed(&ideal) == [true, false] {
                ends.push(own);
            }
        }
        let fits = used.iter().zip(&self.limits).all(|(used, limit)| used <= limit);
        let state = State {
            ideal,
            ends,
            last: Some(item),
            held,
        };
        fits.then_some((state, used))
    }

    /// An end of a transfer comes to a device, and both sides pay for what is elsewhere, once a device.
    fn meet(
        &self,
        transfer: usize,
        (item, device): (usize, usize),
        (producer, consumers): &mut (Option<u8>, u64),
        used: &mut [u64],
    ) {
        let own = 1u64 << device;
        let elsewhere = |home: u8, consumers: u64| consumers & !(1u64 << home);
        if item == self.problem.transfers[transfer].producer {
            *producer = Some(device as u8);
            let away = elsewhere(device as u8, *consumers);
            if away != 0 {
                self.pay(transfer, Side::Producer, device, used);
            }
            let receivers = (0..self.of.devices).filter(|&other| away >> other & 1 == 1);
            receivers.for_each(|other| self.pay(transfer, Side::Consumer, other, used));
            return;
        }
        let is_new = *consumers & own == 0;
        if let Some(home) = producer.filter(|&home| is_new && usize::from(home) != device) {
            if elsewhere(home, *consumers) == 0 {
                self.pay(transfer, Side::Producer, home.into(), used);
            }
            self.pay(transfer, Side::Consumer, device, used);
        }
        *consumers |= own;
    }

    fn pay(&self, transfer: usize, side: Side, device: usize, used: &mut [u64]) {
        let paid = paid(self.problem, transfer)[side as usize];
        for (resource, ns) in paid.into_iter().take(self.times()).enumerate() {
            used[self.first[device] + resource] += ns;
        }
    }

    /// Whether the chunks behind may take what is left: all of it in the time that their devices have left.
    fn may_close(&self, chunk: usize, state: &State, label: &Label) -> bool {
        let items = 0..self.problem.items.len();
        let left = items.filter(|&item| !bits::contains(&state.ideal, item));
        let work_ns: u64 = left.map(|item| self.problem.items[item].work_ns()).sum();
        let is_last = chunk + 1 == self.of.chunks();
        let room = (0..self.of.devices).map(|device| {
            let goes_on = self.of.chunks_of[device].last().is_some_and(|&last| last > chunk);
            let row = self.first[device];
            if goes_on {
                self.limits[row] - label.used[row]
            } else {
                0
            }
        });
        let has_room = room.fold(0, u64::saturating_add) >= work_ns;
        let all = bits::count(&state.ideal) as usize == self.problem.items.len();
        has_room && (all || !is_last)
    }

    fn unwind(&self, mut at: usize) -> Assignment {
        let mut assignment = vec![0; self.problem.items.len()];
        while let Some(step) = self.steps.get(at) {
            assignment[step.item] = step.chunk;
            at = step.before;
        }
        assignment
    }
}

/// Keeps a label unless another of its state uses no more of anything; drops those that use no less. Whether it was kept.
fn keep(states: &mut States, state: State, label: Label) -> bool {
    let labels = states.entry(state).or_default();
    let is_within = |a: &Label, b: &Label| a.used.iter().zip(&b.used).all(|(a, b)| a <= b);
    if labels.iter().any(|other| is_within(other, &label)) {
        return false;
    }
    labels.retain(|other| !is_within(&label, other));
    labels.push(label);
    true
}
