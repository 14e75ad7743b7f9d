//! Transfers whose levels are kept account of, since a stage may lie between their ends.
//!
//! Links have two levels. Of stages `a`, `b` and `c` in one node and a tensor from `a` to `c`, the boundary in front of `c` is inside; but
//! if only `b` and `c` share a node, the tensor goes between nodes all the same. Where `c` is taken off the end, it is not known yet. Where
//! the link inside is the slower one, it is an advantage.

use crate::exact::bits;
use crate::exact::modal::lattice::Lattice;
use crate::exact::modal::space::{Placement, Space};
use crate::exact::modal::stages::{Side, Stage, payment};
use crate::problem::modes::{BETWEEN, ByLevel, Chosen, INSIDE, LEVELS, Modes};

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
    /// For each ideal, those with ends on both sides of the boundary behind it, and those whose producer it holds.
    at: Vec<AtBoundary>,
    /// Those that may take longer inside a node than between nodes.
    pub slower_inside: Mask,
}

/// Watched transfers at a boundary.
#[derive(Clone, Copy, Debug, Default)]
struct AtBoundary {
    /// With ends on both sides.
    crossing: Mask,
    /// With the producer ahead.
    produced: Mask,
}

/// What a label promises and knows of the watched transfers that cross the boundary ahead of its stages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Those that reach a later node than the one in which these stages begin: a consumer begins there if the producer is ahead, else the
    /// producer does.
    pub far: Mask,
    /// Those that these stages pay as if they stayed inside a node. What is ahead of them must lie in stages that end in the node in which
    /// these stages begin: the producer, or all consumers if the producer is behind.
    pub promised: Mask,
    /// Those that these stages pay as if they went between nodes, where that is cheaper. The producer ahead of them, or some consumer if the
    /// producer is behind, must lie in a stage that ends in an earlier node than the one in which these stages begin.
    pub owed: Mask,
}

impl Account {
    /// Whether whatever is ahead of the other is allowed ahead of this one, at no more cost. To go far may be an advantage for what is slower
    /// inside.
    pub(super) fn dominates(self, other: Self, slower_inside: Mask) -> bool {
        self.far & !other.far == 0
            && other.far & !self.far & slower_inside == 0
            && self.promised & !other.promised == 0
            && self.owed & !other.owed == 0
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
    /// Watches further transfers; whether there were any, and room for them.
    pub(super) fn add(&mut self, modes: &Modes, lattice: &Lattice, transfers: &[usize]) -> bool {
        let before = self.transfers.len();
        for &t in transfers {
            if self.transfers.len() < MOST && !self.transfers.contains(&t) {
                self.slower_inside |=
                    Mask::from(modes.transfers[t].may_be_slower_inside()) << self.transfers.len();
                self.transfers.push(t);
            }
        }
        let ideals = 0..lattice.len();
        self.at = ideals
            .map(|ideal| self.at_boundary(modes, lattice.set(ideal)))
            .collect();
        self.transfers.len() > before
    }

    fn at_boundary(&self, modes: &Modes, set: &[u64]) -> AtBoundary {
        let mut at = AtBoundary::default();
        for (bit, &t) in self.transfers.iter().enumerate() {
            let transfer = &modes.transfers[t];
            let is_produced = bits::contains(set, transfer.producer);
            let crosses = |&to: &usize| bits::contains(set, to) != is_produced;
            at.crossing |= Mask::from(transfer.consumers.iter().any(crosses)) << bit;
            at.produced |= Mask::from(is_produced) << bit;
        }
        at
    }

    /// Every way that a stage may pay for watched transfers, behind stages of which `account` is known.
    pub(super) fn ways(
        &self,
        space: &Space,
        (stage, behind): (&Stage, usize),
        (placement, account): (&Placement, Account),
        pay: &mut dyn FnMut(Paid),
    ) {
        let at = |ideal: usize| self.at.get(ideal).copied().unwrap_or_default();
        let [front, back] = [stage.ahead, behind].map(at);
        if front.crossing | back.crossing == 0 {
            pay(Paid::default());
            return;
        }
        let own = back.produced & !front.produced;
        let begins_node = placement.ahead == BETWEEN;
        let carried = account.promised & front.crossing & !own;
        let is_last_of_node = begins_node || placement.ring == BETWEEN;
        // What is owed must have an end ahead of the node.
        if carried != 0 && is_last_of_node || account.owed & (own | !front.crossing) != 0 {
            return;
        }
        let mut paid = Paid::default();
        if !begins_node {
            let leaves_node = placement.ring == BETWEEN || placement.behind == BETWEEN;
            let far = if leaves_node { Mask::MAX } else { account.far };
            paid.account = Account {
                far: far & front.crossing & back.crossing & !own,
                promised: carried,
                owed: if is_last_of_node { 0 } else { account.owed },
            };
        }
        let mut choices = Vec::new();
        for bit in bits::members([front.crossing | back.crossing]) {
            let is_in = |mask: Mask| mask >> bit & 1 == 1;
            let Some((side, beyond)) = self.beyond(space, (stage, behind), bit) else {
                continue;
            };
            // What the level of a boundary has paid for is not paid for again.
            let [near_ahead, near_behind] = [placement.ahead, placement.behind].map(|level| level == INSIDE);
            let level = match (side, near_ahead, near_behind) {
                (Side::Behind, _, true) if is_in(account.far) => Some(BETWEEN),
                (Side::Behind, _, true) => Some(INSIDE),
                (Side::Both, true, true) if is_in(account.far) => Some(BETWEEN),
                (Side::Ahead, true, _) if is_in(carried) => Some(INSIDE),
                (Side::Ahead, true, _) if is_in(account.owed) => Some(BETWEEN),
                (Side::Ahead, true, _) | (Side::Both, true, true) => None,
                _ => continue,
            };
            match level {
                Some(level) => paid.ticks += beyond[level],
                None => choices.push((bit, beyond)),
            }
        }
        // Of more, the cheaper levels are taken.
        choices.truncate(MOST_CHOICES);
        for cheaper in 0..1usize << choices.len() {
            let mut way = paid;
            for (at, &(bit, beyond)) in choices.iter().enumerate() {
                let is_cheaper = cheaper >> at & 1 == 1;
                match beyond[INSIDE] == 0 {
                    _ if !is_cheaper => way.ticks += beyond[INSIDE].max(beyond[BETWEEN]),
                    true => way.account.promised |= 1 << bit,
                    false => way.account.owed |= 1 << bit,
                }
            }
            pay(way);
        }
    }

    /// What a stage pays for a watched transfer at each level beyond the cheaper one, and over which boundary.
    fn beyond(&self, space: &Space, (stage, behind): (&Stage, usize), bit: usize) -> Option<(Side, ByLevel)> {
        let [front, back] = [stage.ahead, behind].map(|ideal| space.lattice.set(ideal));
        let ahead = |item: usize| bits::contains(front, item);
        let inside = |item: usize| bits::contains(back, item) && !ahead(item);
        let transfer = &space.modes.transfers[self.transfers[bit]];
        let (side, ticks) = payment(transfer, stage.degree, &inside, &ahead)?;
        let beyond = ticks.map(|paid| paid - ticks[INSIDE].min(ticks[BETWEEN]));
        (beyond != [0; LEVELS]).then_some((side, beyond))
    }
}

/// Transfers of a plan for which stages that take longer than a limit may pay more than passes take them to: a boundary that they cross at an
/// end lies inside a node, and they go between nodes, or that were cheaper.
pub(super) fn underpaid(space: &Space, assignment: &[usize], chosen: &Chosen, limit: u64) -> Vec<usize> {
    let modes = space.modes;
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
            let is_other = level(one, other) > nearest || nearest == INSIDE && space.may_be_cheaper(t);
            is_other && longest > limit
        })
    };
    (0..modes.transfers.len()).filter(is_underpaid).collect()
}
