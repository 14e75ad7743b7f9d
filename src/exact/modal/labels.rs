//! Labels of the dynamic program: what the stages behind an ideal have taken.

use crate::exact::modal::watched::{Account, Mask};
use crate::problem::modes::StageMode;

/// What the stages behind an ideal have taken, in one way to get there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// Devices.
    pub devices: usize,
    /// Replicas of all these stages, where memory depends on them; else 0.
    pub replicas: usize,
    /// Stages, where they are limited; else 0.
    pub stages: usize,
    /// Time that is computed again, where that is asked for; else 0.
    pub again: u64,
    /// What is known and promised of transfers.
    pub account: Account,
    /// The mode of the first of these stages.
    pub mode: StageMode,
    /// Position of the label that it was taken from.
    pub before: usize,
    /// The ideal ahead.
    pub ideal: usize,
}

/// All labels, by ideal and the place of a node where the stages behind begin.
pub(super) struct Reached {
    pub labels: Vec<Label>,
    /// Positions of labels; none dominates another.
    own: Vec<Vec<usize>>,
    node: usize,
    /// Whether a label stands for a number of stages and no other.
    all_stages: bool,
    /// Watched transfers that may be slower inside a node.
    slower_inside: Mask,
}

impl Reached {
    /// Nothing is behind the last of so many ideals, and what comes first there may begin at any place.
    pub(super) fn new(ideals: usize, node: usize, all_stages: bool, slower_inside: Mask) -> Self {
        let start = Label {
            devices: 0,
            replicas: 0,
            stages: 0,
            again: 0,
            account: Account::default(),
            mode: StageMode {
                degree: 0,
                replicas: 0,
            },
            before: usize::MAX,
            ideal: ideals - 1,
        };
        let mut own = vec![Vec::new(); ideals * node];
        own[(ideals - 1) * node..].fill(vec![0]);
        Self {
            labels: vec![start],
            own,
            node,
            all_stages,
            slower_inside,
        }
    }

    /// The labels of an ideal behind which stages begin at a place of a node.
    pub(super) fn at(&self, ideal: usize, place: usize) -> &[usize] {
        &self.own[ideal * self.node + place]
    }

    /// Adds a label, unless another dominates it.
    pub(super) fn add(&mut self, place: usize, label: Label) {
        let own = &mut self.own[label.ideal * self.node + place];
        let labels = &self.labels;
        let dominates = |one: &Label, other: &Label| {
            one.dominates(other, self.all_stages) && one.account.dominates(other.account, self.slower_inside)
        };
        if own.iter().any(|&at| dominates(&labels[at], &label)) {
            return;
        }
        own.retain(|&at| !dominates(&label, &labels[at]));
        own.push(self.labels.len());
        self.labels.push(label);
    }

    /// Bytes that all of it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.own.len() * size_of::<Vec<usize>>() + self.labels.len() * (size_of::<Label>() + 8)
    }
}

impl Label {
    /// Whether whatever can be ahead of the other label can be ahead of this one at no more cost, but for the account of transfers.
    fn dominates(&self, other: &Self, all_stages: bool) -> bool {
        self.devices <= other.devices
            && self.replicas <= other.replicas
            && self.stages <= other.stages
            && self.again <= other.again
            && (!all_stages || self.stages == other.stages)
    }
}
