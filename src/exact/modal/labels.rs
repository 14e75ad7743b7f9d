//! Labels of the dynamic program: what the stages behind an ideal have taken.

use std::collections::HashMap;

use crate::modes::StageMode;

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
    /// The last of these stages taken, and the label before it.
    pub mode: StageMode,
    /// Position of the label that it was taken from.
    pub before: usize,
    /// Position of its ideal.
    pub ideal: usize,
}

/// How labels of an ideal compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Devices of a node: labels compare if they end at the same place of a node. 1 where links have one level.
    pub node: usize,
    /// Whether a label stands for a number of stages and no other.
    pub all_stages: bool,
}

impl Order {
    /// Whether whatever can follow one label can follow the other at no less cost.
    fn dominates(self, one: &Label, other: &Label) -> bool {
        one.devices <= other.devices
            && one.replicas <= other.replicas
            && one.stages <= other.stages
            && one.again <= other.again
            && one.devices % self.node == other.devices % self.node
            && (!self.all_stages || one.stages == other.stages)
    }
}

/// An ideal: what is still to place, and the labels with which it was reached.
pub(super) struct Ideal {
    /// Items still to place.
    pub left: Box<[u64]>,
    /// Positions of its labels; none dominates another.
    pub labels: Vec<usize>,
}

/// All ideals that were reached, and their labels.
pub(super) struct Reached {
    pub ideals: Vec<Ideal>,
    pub labels: Vec<Label>,
    /// Ideals by the number of items left.
    pub by_size: Vec<Vec<usize>>,
    position: HashMap<Box<[u64]>, usize>,
    order: Order,
}

impl Reached {
    /// Everything is left of so many items.
    pub(super) fn new(left: Box<[u64]>, items: usize, order: Order) -> Self {
        let mut reached = Self {
            ideals: Vec::new(),
            labels: Vec::new(),
            by_size: vec![Vec::new(); items + 1],
            position: HashMap::new(),
            order,
        };
        let start = Label {
            devices: 0,
            replicas: 0,
            stages: 0,
            again: 0,
            mode: StageMode {
                degree: 0,
                replicas: 0,
            },
            before: usize::MAX,
            ideal: 0,
        };
        let ideal = reached.ideal(&left, items);
        reached.add(ideal, start);
        reached
    }

    /// The position of an ideal of so many items.
    pub(super) fn ideal(&mut self, left: &[u64], items: usize) -> usize {
        if let Some(&at) = self.position.get(left) {
            return at;
        }
        let at = self.ideals.len();
        self.ideals.push(Ideal {
            left: left.into(),
            labels: Vec::new(),
        });
        self.position.insert(left.into(), at);
        self.by_size[items].push(at);
        at
    }

    /// Adds a label to an ideal, unless another dominates it.
    pub(super) fn add(&mut self, ideal: usize, label: Label) {
        let (labels, order) = (&self.labels, self.order);
        let own = &mut self.ideals[ideal].labels;
        if own.iter().any(|&at| order.dominates(&labels[at], &label)) {
            return;
        }
        own.retain(|&at| !order.dominates(&label, &labels[at]));
        own.push(self.labels.len());
        self.labels.push(Label { ideal, ..label });
    }

    /// Bytes that all of it takes, about: sets are kept twice.
    pub(super) fn bytes(&self) -> usize {
        let words = self.ideals.first().map_or(0, |ideal| ideal.left.len());
        self.ideals.len() * (2 * 8 * words + 160) + self.labels.len() * (size_of::<Label>() + 8)
    }
}
