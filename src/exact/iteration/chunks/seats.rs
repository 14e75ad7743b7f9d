//! How devices that differ may lie in a row.

use crate::problem::modal_chunks::ModalChunks;
use crate::problem::modes::{Modes, StageMode};

/// Orders of devices of several kinds that are looked at each by itself.
const MOST_ORDERS: usize = 300;

/// The modes of the devices of a row.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::exact) enum Seats {
    /// Of each.
    Known(Vec<StageMode>),
    /// Some of these, in whatever order: what is proved holds of every order.
    Any(Vec<StageMode>),
}

impl Seats {
    /// All that there are; or, where these are too many, those in which the devices of a kind lie together, and what holds of every order.
    pub(super) fn all(modes: &Modes, chunks: &ModalChunks) -> Vec<Self> {
        let alike = chunks.alike.as_slice();
        let mut orders = Orders {
            modes,
            alike,
            left: alike.iter().map(|mode| modes.most_of(mode)).collect(),
            devices: chunks.settings.stages,
            are_together: false,
            taken: Vec::new(),
            known: Vec::new(),
        };
        if orders.add_all() {
            return orders.known;
        }
        orders.are_together = true;
        orders.known.clear();
        orders.add_all();
        orders.known.push(Self::Any(alike.to_vec()));
        orders.known
    }

    /// The modes that some device has, or may have.
    pub(super) fn modes(&self) -> Vec<StageMode> {
        let (Self::Known(all) | Self::Any(all)) = self;
        let mut modes: Vec<StageMode> = Vec::new();
        for mode in all {
            if !modes.contains(mode) {
                modes.push(*mode);
            }
        }
        modes
    }
}

/// Orders of devices, as they are listed.
struct Orders<'a> {
    modes: &'a Modes,
    alike: &'a [StageMode],
    /// Devices of each mode that are left.
    left: Vec<usize>,
    devices: usize,
    /// Whether devices of a kind are neighbours.
    are_together: bool,
    /// Positions in `alike`.
    taken: Vec<usize>,
    known: Vec<Seats>,
}

impl Orders<'_> {
    /// Lists all that begin with those taken; whether these were few.
    fn add_all(&mut self) -> bool {
        if self.taken.len() == self.devices {
            let modes = self.taken.iter().map(|&at| self.alike[at]);
            self.known.push(Seats::Known(modes.collect()));
            return self.known.len() < MOST_ORDERS;
        }
        for at in 0..self.alike.len() {
            if self.left[at] == 0 || !self.may_follow(at) {
                continue;
            }
            self.left[at] -= 1;
            self.taken.push(at);
            let are_few = self.add_all();
            self.taken.pop();
            self.left[at] += 1;
            if !are_few {
                return false;
            }
        }
        true
    }

    fn may_follow(&self, at: usize) -> bool {
        let row = |at: usize| self.modes.degrees[self.alike[at].degree].row;
        self.taken.last().is_none_or(|&before| {
            let is_again = self.are_together && before != at && self.taken.contains(&at);
            !is_again && self.modes.may_follow(row(before), row(at))
        })
    }
}
