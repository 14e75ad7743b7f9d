//! Every stage between two ideals, with what it takes: listed once, or walked through again where there are too many.

use crate::exact::bits;
use crate::exact::modal::items::{Room, Sum};
use crate::exact::modal::space::Space;
use crate::problem::confined::{Confined, Held};
use crate::problem::modes::{ByLevel, LEVELS, Memory, ModalTransfer, Modes, Passes, StageMode};
use crate::problem::plan::StoppedBy;

/// A stage off the end of an ideal, at a degree.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The ideal that is left.
    pub ahead: usize,
    /// Position of the degree.
    pub degree: usize,
    /// What its layers take.
    pub sum: Sum,
    /// What tensors that cross its ends take of its time.
    pub crossing: Crossing,
    /// What its links receive and send of them beside the work, where transfers run there.
    pub links: Option<Box<[Crossing; 2]>>,
    /// What sums of gradients take over its ends, of tables that others need as well, as far as a micro-batch bears it.
    pub sums: Crossing,
    /// Least times within memory that are known: see [`Stage::time_within`].
    known: Vec<(Asked, Option<u64>)>,
}

/// What the least time of a stage's layers depends on: micro-batches in flight, and what a device has for them; where passes may lie apart, copies
/// of the weights, which are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Within(u64, Memory),
    Copies(u64, u64),
}

/// What tensors that cross take of a stage's time, by level of the link, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossing {
    /// Over the boundary ahead.
    pub ahead: ByLevel,
    /// Over the boundary behind.
    pub behind: ByLevel,
    /// What the stage sends over both.
    pub both: ByLevel,
}

impl Crossing {
    /// Whatever the levels.
    pub(super) fn least(&self) -> u64 {
        let least = |ticks: ByLevel| ticks.into_iter().min().unwrap_or(0);
        least(self.ahead) + least(self.behind) + least(self.both)
    }

    fn side(&mut self, side: Side) -> &mut ByLevel {
        match side {
            Side::Ahead => &mut self.ahead,
            Side::Behind => &mut self.behind,
            Side::Both => &mut self.both,
        }
    }

    fn add(&mut self, (side, ticks): (Side, ByLevel)) {
        let sum = self.side(side);
        (0..LEVELS).for_each(|level| sum[level] += ticks[level]);
    }

    fn subtract(&mut self, (side, ticks): (Side, ByLevel)) {
        let sum = self.side(side);
        (0..LEVELS).for_each(|level| sum[level] -= ticks[level]);
    }
}

/// Which boundary of a stage something crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exact) enum Side {
    /// The one ahead.
    Ahead,
    /// The one behind.
    Behind,
    /// Both: the stage sends it to stages ahead and behind.
    Both,
}

/// What a stage pays for a transfer at a degree, by level, and over which boundary: its items are those `inside`, and of the others some lie
/// `ahead`.
pub(in crate::exact) fn payment(
    transfer: &ModalTransfer,
    degree: usize,
    inside: &dyn Fn(usize) -> bool,
    ahead: &dyn Fn(usize) -> bool,
) -> Option<(Side, ByLevel)> {
    let sends = inside(transfer.producer);
    let beside = if sends {
        &transfer.leaving
    } else {
        &transfer.entering
    };
    let ends = transfer.consumers.iter().zip(&beside[degree]);
    let paid_for = ends.filter(|(to, _)| inside(**to) != sends);
    let most = paid_for.clone().map(|(_, ticks)| *ticks);
    let most = most.reduce(|one, other| std::array::from_fn(|level| one[level].max(other[level])))?;
    let is_ahead = paid_for.map(|(&to, _)| match sends {
        true => ahead(to),
        false => ahead(transfer.producer),
    });
    let side = is_ahead.map(|is_ahead| if is_ahead { Side::Ahead } else { Side::Behind });
    let side = side.reduce(|one, other| if one == other { one } else { Side::Both })?;
    Some((
        side,
        std::array::from_fn(|level| transfer.ticks[level] + most[level]),
    ))
}

/// Of what is paid for a transfer, what the stage's link in and its link out are busy with.
fn on_links(transfer: &ModalTransfer, sends: bool, paid: ByLevel) -> [ByLevel; 2] {
    let back = match transfer.passes {
        Passes::Both => paid.map(|ticks| ticks / 2),
        Passes::Gradient => paid,
        Passes::Forward | Passes::Backward => [0; LEVELS],
    };
    let there = std::array::from_fn(|level| paid[level] - back[level]);
    if sends { [back, there] } else { [there, back] }
}

impl Stage {
    /// The least time of its layers in a mode that fits the memory with so many micro-batches in flight.
    pub(super) fn time_within(
        &mut self,
        space: &Space,
        behind: usize,
        mode: StageMode,
        in_flight: u64,
    ) -> Option<u64> {
        let modes = space.modes;
        let copies = modes.copies_of_weights(&mode) as u64;
        if modes.has_passes_apart() || modes.shares.is_some() {
            // What a pass holds and may do depends on whether the other one is here, too; what both take on shares is no sum.
            return self.known_or(
                Asked::Copies(in_flight, copies),
                |items| {
                    let room = modes.room(items, &mode)?;
                    let layers = modes.layers_of(items, mode.degree)?;
                    let ways = modes.knapsack.within(&layers, in_flight, room)?;
                    Some(modes.time_of(mode.degree, &layers, &ways))
                },
                |ahead| space.lattice.stage(ahead, behind),
            );
        }
        let memory = Memory {
            bytes: modes.memory_bytes(mode.degree),
            host_bytes: modes.host_memory_bytes(mode.degree),
        };
        let at_host = modes.at_host_of_device(self.sum.once_bytes, &mode);
        let limit = match self.sum.room(memory, [copies, at_host], in_flight) {
            Room::Choose(limit) => limit,
            Room::Known(time) => return time,
        };
        self.known_or(
            Asked::Within(in_flight, limit),
            |items| {
                let layers = modes.layers_of(items, mode.degree)?;
                let ways = modes.knapsack.within(&layers, in_flight, limit)?;
                Some(ways.time)
            },
            |ahead| space.lattice.stage(ahead, behind),
        )
    }

    /// A time that was asked for before, or what is found for the stage's items.
    fn known_or(
        &mut self,
        asked: Asked,
        find: impl FnOnce(&[usize]) -> Option<u64>,
        items: impl FnOnce(usize) -> Vec<usize>,
    ) -> Option<u64> {
        if let Some((_, time)) = self.known.iter().find(|(known, _)| *known == asked) {
            return *time;
        }
        let time = find(&items(self.ahead));
        self.known.push((asked, time));
        time
    }
}

/// A limit on the time of stages, and the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    /// No stage takes longer.
    pub limit: u64,
    /// The least time beyond it of any stage that was turned down.
    pub next: u64,
}

impl Bar {
    /// Whether a time keeps the limit; else it may be the next one.
    pub(super) fn keeps(&mut self, time: u64) -> bool {
        if time > self.limit {
            self.next = self.next.min(time);
        }
        time <= self.limit
    }
}

/// The stages of a lattice.
pub(super) struct Stages {
    /// By the ideal that they end, if they are listed.
    listed: Option<Vec<Vec<Stage>>>,
    walk: Walk,
}

impl Stages {
    /// All of them, not listed.
    pub(super) fn new(space: &Space) -> Self {
        Self {
            listed: None,
            walk: Walk::new(space),
        }
    }

    /// Every stage off the end of an ideal that may keep a limit, at every degree.
    pub(super) fn each(
        &mut self,
        space: &Space,
        behind: usize,
        bar: &mut Bar,
        visit: &mut dyn FnMut(&mut Stage, &mut Bar),
    ) -> Result<(), StoppedBy> {
        match &mut self.listed {
            Some(listed) => {
                space.control.check_limits()?;
                listed[behind].iter_mut().for_each(|stage| visit(stage, bar));
                Ok(())
            }
            None => self.walk.from(space, behind, bar, visit),
        }
    }

    /// Keeps those that are of use, off the ends of some ideals, in a list if there is room for it.
    pub(super) fn keep(
        &mut self,
        space: &Space,
        bar: &mut Bar,
        is_end: &dyn Fn(usize) -> bool,
        is_of_use: &mut dyn FnMut(usize, &mut Stage) -> bool,
    ) -> Result<(), StoppedBy> {
        if let Some(listed) = &mut self.listed {
            for (behind, stages) in listed.iter_mut().enumerate() {
                space.control.check_limits()?;
                let is_end = is_end(behind);
                stages.retain_mut(|stage| is_end && is_of_use(behind, stage));
            }
            return Ok(());
        }
        let room = space.control.room_bytes() / 2 / size_of::<Stage>();
        let mut count = 0;
        let mut listed = vec![Vec::new(); space.lattice.len()];
        for (behind, own) in listed
            .iter_mut()
            .enumerate()
            .filter(|(behind, _)| is_end(*behind))
        {
            self.walk.from(space, behind, bar, &mut |stage, _| {
                if count <= room && is_of_use(behind, stage) {
                    own.push(stage.clone());
                    count += 1;
                }
            })?;
            if count > room {
                return Ok(());
            }
            own.shrink_to_fit();
        }
        self.listed = Some(listed);
        Ok(())
    }
}

/// A stage that grows off the end of an ideal, item by item.
struct Walk {
    /// Its items.
    inside: Box<[u64]>,
    /// What they are, as far as stages are confined.
    held: Option<Held>,
    /// Sums, and what crosses as [`Stage`] has it, of the first so many items, by degree.
    taken: Vec<Taken>,
    /// For each ideal, the walk that met it last.
    met: Vec<u32>,
    walks: u32,
    visits: u64,
}

/// What some items take at a degree: [`Stage::sum`], [`Stage::crossing`], [`Stage::sums`] and [`Stage::links`].
#[derive(Clone, Default)]
struct Taken {
    sum: Sum,
    crossing: Crossing,
    sums: Crossing,
    links: Option<Box<[Crossing; 2]>>,
}

impl Taken {
    /// Adds what is paid for a transfer, to the links where it runs there; or takes it off again.
    fn pay(&mut self, (transfer, sends): (&ModalTransfer, bool), (side, paid): (Side, ByLevel), adds: bool) {
        let change = |crossing: &mut Crossing, ticks: ByLevel| match adds {
            true => crossing.add((side, ticks)),
            false => crossing.subtract((side, ticks)),
        };
        match &mut self.links {
            Some(links) => {
                let both = links.iter_mut().zip(on_links(transfer, sends, paid));
                both.for_each(|(link, ticks)| change(link, ticks));
            }
            None => change(&mut self.crossing, paid),
        }
    }
}

/// How often the clock is looked at: once in so many stages.
const LOOK: u64 = 1024;

impl Walk {
    fn new(space: &Space) -> Self {
        let items = space.sums.len();
        Self {
            inside: bits::from_members(bits::words(items), []),
            held: space.confined.map(Confined::nothing),
            taken: vec![
                Taken {
                    links: space.modes.has_links.then(Box::default),
                    ..Taken::default()
                };
                space.modes.degrees.len()
            ],
            met: vec![0; space.lattice.len()],
            walks: 0,
            visits: 0,
        }
    }

    /// Every stage off the end of an ideal, once.
    fn from(
        &mut self,
        space: &Space,
        behind: usize,
        bar: &mut Bar,
        visit: &mut dyn FnMut(&mut Stage, &mut Bar),
    ) -> Result<(), StoppedBy> {
        self.walks += 1;
        let mut step = |stage: &mut Stage, bar: &mut Bar| {
            let may_grow = may_keep(space.modes, stage, bar);
            if may_grow {
                visit(stage, bar);
            }
            may_grow
        };
        self.grow(space, behind, bar, &mut step)
    }

    fn grow(
        &mut self,
        space: &Space,
        ahead: usize,
        bar: &mut Bar,
        step: &mut dyn FnMut(&mut Stage, &mut Bar) -> bool,
    ) -> Result<(), StoppedBy> {
        for (item, left) in space.lattice.below(ahead) {
            if self.met[left] == self.walks {
                continue;
            }
            self.met[left] = self.walks;
            self.visits += 1;
            if self.visits.is_multiple_of(LOOK) {
                space.control.check_limits()?;
            }
            if !self.is_admitted(space, item) {
                continue;
            }
            self.push(space, item, ahead);
            let degrees = space.modes.degrees.len();
            let first = self.taken.len() - degrees;
            let mut may_grow = false;
            for degree in 0..degrees {
                let taken = &self.taken[first + degree];
                let mut stage = Stage {
                    ahead: left,
                    degree,
                    sum: taken.sum,
                    crossing: taken.crossing,
                    sums: taken.sums,
                    links: taken.links.clone(),
                    known: Vec::new(),
                };
                may_grow |= step(&mut stage, bar);
            }
            if may_grow {
                self.grow(space, left, bar, step)?;
            }
            self.taken.truncate(first);
            bits::remove(&mut self.inside, item);
            if let Some((confined, held)) = space.confined.zip(self.held.as_mut()) {
                confined.remove(held, item);
            }
        }
        Ok(())
    }

    /// Whether an item may join the stage: if not, no larger one holds it.
    fn is_admitted(&self, space: &Space, item: usize) -> bool {
        let confined = space.confined.zip(self.held.as_ref());
        confined.is_none_or(|(confined, held)| confined.admits(held, item))
    }

    /// Pays for the transfers of an item that joins what is inside, and is no longer among the items of the ideal that is left.
    fn pay_for(&self, space: &Space, (item, left): (usize, &[u64]), degree: usize, taken: &mut Taken) {
        let tensors = space.modes.transfers_of[item].iter();
        let changes = tensors.flat_map(|&t| [(t, false), (t, true)]);
        for (t, joins) in changes {
            let transfer = &space.modes.transfers[t];
            let is_inside = |other: usize| (joins && other == item) || bits::contains(&self.inside, other);
            let is_ahead = |other: usize| !(joins && other == item) && bits::contains(left, other);
            if let Some((side, ticks)) = payment(transfer, degree, &is_inside, &is_ahead) {
                let paid = (side, space.paid_at_least(t, ticks));
                taken.pay((transfer, is_inside(transfer.producer)), paid, joins);
            }
        }
    }

    /// Adds an item off the end of an ideal.
    fn push(&mut self, space: &Space, item: usize, ahead: usize) {
        let degrees = space.modes.degrees.len();
        let first = self.taken.len() - degrees;
        let left = space.lattice.set(ahead);
        for degree in 0..degrees {
            let mut taken = self.taken[first + degree].clone();
            self.pay_for(space, (item, left), degree, &mut taken);
            let mut sum = taken.sum.plus(&space.sums[item][degree]);
            for (copy, other) in space.modes.copies_of(item) {
                let table = &copy.tables[degree];
                if other == item {
                    sum = sum.with_one_copy(table);
                    continue;
                }
                let is_inside = bits::contains(&self.inside, other);
                // The other end lay ahead of this one, or still does.
                let side = match is_inside || bits::contains(left, other) {
                    true => Side::Ahead,
                    false => Side::Behind,
                };
                let ticks = space.summed_at_least(table.sum_ticks);
                match is_inside {
                    true => {
                        sum = sum.with_one_copy(table);
                        taken.sums.subtract((side, ticks));
                    }
                    false => taken.sums.add((side, ticks)),
                }
            }
            self.taken.push(Taken { sum, ..taken });
        }
        bits::insert(&mut self.inside, item);
        if let Some((confined, held)) = space.confined.zip(self.held.as_mut()) {
            confined.add(held, item);
        }
    }
}

/// Whether the layers and memory of a stage leave it a chance, in front of nothing and with as many replicas as may be. A larger stage has
/// no better one.
fn may_keep(modes: &Modes, stage: &Stage, bar: &mut Bar) -> bool {
    let room = modes.row(stage.degree).devices / modes.width(stage.degree);
    let mut replicas = modes.replicas.iter().rev();
    let may_be = |&&replicas: &&usize| replicas <= room && modes.shares_out(stage.degree, replicas);
    let Some(&replicas) = replicas.find(may_be) else {
        return false;
    };
    let sum = &stage.sum;
    let least_bytes = sum.least.with(modes.flight.of(replicas, 0));
    let shared_bytes = sum
        .shared_bytes
        .div_ceil((replicas * modes.degrees[stage.degree].parts()) as u64);
    let room_bytes = modes.memory_bytes(stage.degree).saturating_add(sum.twice_bytes);
    if sum.missing > 0 || least_bytes + shared_bytes > room_bytes {
        return false;
    }
    bar.keeps(sum.time.div_ceil(replicas as u64))
}
