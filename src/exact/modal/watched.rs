//! Transfers whose levels are kept account of, since a stage may lie between their ends.
//!
//! Links have two levels. Of stages `a`, `b` and `c` in one node and a tensor from `a` to `c`, the boundary in front of `c` is inside; but
//! if only `b` and `c` share a node, the tensor goes between nodes all the same. Where `c` is taken off the end, it is not known yet.

use crate::exact::bits;
use crate::exact::modal::lattice::Lattice;
use crate::exact::modal::space::{Placement, Space};
use crate::exact::modal::stages::{Side, Stage, payment};
use crate::modes::{BETWEEN, Chosen, INSIDE, ModalTransfer, Modes};

/// A set of watched transfers: a bit for each.
pub(super) type Mask = u64;

/// The most transfers that are watched at once.
const MOST: usize = Mask::BITS as usize;

/// The most transfers of a stage between whose levels there is a choice.
const MOST_CHOICES: usize = 10;

/// Transfers that are watched.
#[derive(Default)]
pub(super) struct Watched {
    /// Their positions in [`Modes::transfers`].
    transfers: Vec<usize>,
    /// For each ideal, those with ends on both sides of the boundary behind it.
    crossing: Vec<Mask>,
}

/// What a label promises and knows of the watched transfers that cross the boundary ahead of its stages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Those with an end in a stage that begins in a later node than the first of these stages.
    pub far: Mask,
    /// Those that these stages pay as if they stayed inside a node: their ends ahead must lie in stages that end in the node in which
    /// these stages begin.
    pub promised: Mask,
}

impl Account {
    /// Whether whatever is ahead of one is allowed ahead of the other, at no less cost.
    pub(super) fn dominates(self, other: Self) -> bool {
        self.far & !other.far == 0 && self.promised & !other.promised == 0
    }
}

/// A way to pay for watched transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paid {
    /// Beyond the levels of the boundaries.
    pub ticks: u64,
    /// What is known and promised with the stage.
    pub account: Account,
}

impl Watched {
    /// Watches further transfers; whether there were any that can be watched, and room for them.
    pub(super) fn add(&mut self, modes: &Modes, lattice: &Lattice, transfers: &[usize]) -> bool {
        let before = self.transfers.len();
        for &t in transfers {
            let has_room = self.transfers.len() < MOST && !self.transfers.contains(&t);
            if has_room && goes_one_way(&modes.transfers[t], lattice) {
                self.transfers.push(t);
            }
        }
        let ideals = 0..lattice.len();
        self.crossing = ideals
            .map(|ideal| self.crossing_of(modes, lattice.set(ideal)))
            .collect();
        self.transfers.len() > before
    }

    fn crossing_of(&self, modes: &Modes, set: &[u64]) -> Mask {
        let mut mask = 0;
        for (bit, &t) in self.transfers.iter().enumerate() {
            let transfer = &modes.transfers[t];
            let mut ends = transfer.consumers.iter().copied().chain([transfer.producer]);
            let is_in = |end: usize| bits::contains(set, end);
            if ends.clone().any(is_in) && !ends.all(is_in) {
                mask |= 1 << bit;
            }
        }
        mask
    }

    /// Every way that a stage may pay for watched transfers, behind stages of which `account` is known.
    pub(super) fn ways(
        &self,
        space: &Space,
        (stage, behind): (&Stage, usize),
        placement: &Placement,
        account: Account,
        pay: &mut dyn FnMut(Paid),
    ) {
        let crossing = |ideal: usize| self.crossing.get(ideal).copied().unwrap_or(0);
        let crosses = [stage.ahead, behind].map(crossing);
        if crosses == [0, 0] {
            pay(Paid::default());
            return;
        }
        let [ahead, behind_it] = crosses;
        let begins_node = placement.ahead == BETWEEN;
        let carried = account.promised & ahead;
        if carried != 0 && (begins_node || placement.ring == BETWEEN) {
            return;
        }
        let mut paid = Paid::default();
        if !begins_node {
            let leaves_node = placement.ring == BETWEEN || placement.behind == BETWEEN;
            let far = if leaves_node { Mask::MAX } else { account.far };
            paid.account = Account {
                far: far & ahead & behind_it,
                promised: carried,
            };
        }
        let mut choices = Vec::new();
        for bit in bits::members([(ahead & !carried) | (behind_it & account.far)]) {
            match self.beyond(space, (stage, behind), bit) {
                Some((Side::Behind, ticks)) if placement.behind == INSIDE && account.far >> bit & 1 == 1 => {
                    paid.ticks += ticks;
                }
                Some((Side::Ahead, ticks)) if placement.ahead == INSIDE && carried >> bit & 1 == 0 => {
                    choices.push((bit, ticks));
                }
                _ => {}
            }
        }
        // Of more, the levels of the boundaries are taken, which are no higher.
        choices.truncate(MOST_CHOICES);
        for promised in 0..1usize << choices.len() {
            let mut way = paid;
            for (at, &(bit, ticks)) in choices.iter().enumerate() {
                match promised >> at & 1 {
                    1 => way.account.promised |= 1 << bit,
                    _ => way.ticks += ticks,
                }
            }
            pay(way);
        }
    }

    /// What a stage pays beyond the level inside if a watched transfer goes between nodes, and over which boundary.
    fn beyond(&self, space: &Space, (stage, behind): (&Stage, usize), bit: usize) -> Option<(Side, u64)> {
        let [front, back] = [stage.ahead, behind].map(|ideal| space.lattice.set(ideal));
        let ahead = |item: usize| bits::contains(front, item);
        let inside = |item: usize| bits::contains(back, item) && !ahead(item);
        let transfer = &space.modes.transfers[self.transfers[bit]];
        let (side, ticks) = payment(transfer, stage.degree, &inside, &ahead)?;
        let beyond = ticks[BETWEEN].saturating_sub(ticks[INSIDE]);
        (beyond > 0).then_some((side, beyond))
    }
}

/// Whether in every plan the producer comes first, or in every plan last. Only then all ends on one side of a boundary are alike.
fn goes_one_way(transfer: &ModalTransfer, lattice: &Lattice) -> bool {
    let holds = |ideal: usize, item: usize| bits::contains(lattice.set(ideal), item);
    let ends = |ideal: usize| {
        (
            holds(ideal, transfer.producer),
            transfer.consumers.iter().map(move |&to| holds(ideal, to)),
        )
    };
    let is_first = |ideal: usize| {
        let (producer, mut consumers) = ends(ideal);
        producer || !consumers.any(|is_in| is_in)
    };
    let is_last = |ideal: usize| {
        let (producer, mut consumers) = ends(ideal);
        !producer || consumers.all(|is_in| is_in)
    };
    (0..lattice.len()).all(is_first) || (0..lattice.len()).all(is_last)
}

/// Transfers of a plan that go between nodes although a boundary that they cross at an end lies inside one, in stages that take longer than
/// a limit.
pub(super) fn underpaid(modes: &Modes, assignment: &[usize], chosen: &Chosen, limit: u64) -> Vec<usize> {
    let Some(costs) = modes.stages(assignment, chosen) else {
        return Vec::new();
    };
    let first = |stage: usize| costs.starts[stage];
    let level = |one: usize, other: usize| {
        let (one, other) = (one.min(other), one.max(other));
        modes.links.level(first(one + 1) - 1, first(other))
    };
    let is_underpaid = |&t: &usize| {
        let transfer = &modes.transfers[t];
        let home = assignment[transfer.producer];
        let stages = transfer.consumers.iter().map(|&to| assignment[to]);
        stages.filter(|&stage| stage != home).any(|stage| {
            let (one, other) = (home.min(stage), home.max(stage));
            let nearest = level(one, one + 1).min(level(other - 1, other));
            let longest = costs.stages[one].period().max(costs.stages[other].period());
            level(one, other) > nearest && longest > limit
        })
    };
    (0..modes.transfers.len()).filter(is_underpaid).collect()
}
