//! Labels of the dynamic program: what the stages behind an ideal have taken.

use crate::exact::modal::lattice::Lattice;
use crate::exact::modal::plans::plan_of;
use crate::exact::modal::stages::Stage;
use crate::exact::modal::watched::{Account, Mask};
use crate::problem::modes::{Chosen, Modes, StageMode};
use crate::problem::{Assignment, Problem};

/// What a label says wherever devices lie: how it was come to, and what counts of the stages behind its ideal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Replicas of all these stages, where memory depends on them; else 0.
    pub replicas: usize,
    /// Stages, where they are limited; else 0.
    pub stages: usize,
    /// Time that is computed again, where that is asked for; else 0.
    pub again: u64,
    /// The mode of the first of these stages.
    pub mode: StageMode,
    /// Position of the label that it was taken from; of the first label none.
    pub before: Option<usize>,
    /// The ideal ahead.
    pub ideal: usize,
}

impl Behind {
    /// Nothing is behind this ideal.
    pub(super) fn nothing(ideal: usize) -> Self {
        Self {
            replicas: 0,
            stages: 0,
            again: 0,
            mode: StageMode {
                degree: 0,
                replicas: 0,
            },
            before: None,
            ideal,
        }
    }

    /// The plan of the stages from a label to the first; `label` tells of each position what its label says.
    pub(super) fn plan(
        label: usize,
        of: impl Fn(usize) -> Self,
        lattice: &Lattice,
        modes: &Modes,
    ) -> Option<(Assignment, Chosen)> {
        let mut stages = Vec::new();
        let mut own = of(label);
        while let Some(before) = own.before.map(&of) {
            stages.push((lattice.stage(own.ideal, before.ideal), own.mode));
            own = before;
        }
        plan_of(modes, &stages)
    }
}

/// What labels count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// The most stages of a plan.
    pub most_stages: usize,
    /// Whether a label stands for a number of stages and no other.
    pub all_stages: bool,
    /// Whether the plan that computes least again is looked for.
    pub least_again: bool,
    pub stages: bool,
    replicas: bool,
}

impl Counted {
    pub(super) fn new(problem: &Problem, modes: &Modes, least_again: bool) -> Self {
        let all_stages = problem.settings.all_stages;
        Self {
            most_stages: problem.stages(),
            all_stages,
            least_again,
            stages: all_stages || problem.stages() < modes.devices,
            replicas: modes.flight.counts_behind() && modes.limits_memory(),
        }
    }

    /// A stage in a mode, whose layers take so long, ahead of what the label at a position says.
    pub(super) fn ahead_of(
        &self,
        (at, label): (usize, &Behind),
        (stage, mode, work): (&Stage, StageMode, u64),
    ) -> Behind {
        let again = if self.least_again {
            work - stage.sum.time
        } else {
            0
        };
        Behind {
            replicas: label.replicas + if self.replicas { mode.replicas } else { 0 },
            stages: label.stages + usize::from(self.stages),
            again: label.again + again,
            mode,
            before: Some(at),
            ideal: stage.ahead,
        }
    }

    /// Whether a plan may have what is behind, and nothing ahead.
    pub(super) fn may_end(&self, label: &Behind) -> bool {
        !self.all_stages || label.stages == self.most_stages
    }

    /// Whether whatever can be ahead of the other label can be ahead of this one at no more cost, as far as counts go.
    pub(super) fn dominates(&self, label: &Behind, other: &Behind) -> bool {
        label.replicas <= other.replicas
            && label.stages <= other.stages
            && label.again <= other.again
            && (!self.all_stages || label.stages == other.stages)
    }
}

/// What the stages behind an ideal have taken, in one way to get there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// Devices.
    pub devices: usize,
    /// What is known and promised of transfers.
    pub account: Account,
    pub behind: Behind,
}

/// All labels, by ideal and the place of a node where the stages behind begin.
pub(super) struct Reached {
    pub labels: Vec<Label>,
    /// Positions of labels; none dominates another.
    own: Vec<Vec<usize>>,
    node: usize,
    counted: Counted,
    /// Watched transfers that may be slower inside a node.
    slower_inside: Mask,
}

impl Reached {
    /// Nothing is behind the last of so many ideals, and what comes first there may begin at any place.
    pub(super) fn new(ideals: usize, node: usize, counted: Counted, slower_inside: Mask) -> Self {
        let start = Label {
            devices: 0,
            account: Account::default(),
            behind: Behind::nothing(ideals - 1),
        };
        let mut own = vec![Vec::new(); ideals * node];
        own[(ideals - 1) * node..].fill(vec![0]);
        Self {
            labels: vec![start],
            own,
            node,
            counted,
            slower_inside,
        }
    }

    /// The labels of an ideal behind which stages begin at a place of a node.
    pub(super) fn at(&self, ideal: usize, place: usize) -> &[usize] {
        &self.own[ideal * self.node + place]
    }

    /// Adds a label, unless another dominates it.
    pub(super) fn add(&mut self, place: usize, label: Label) {
        let own = &mut self.own[label.behind.ideal * self.node + place];
        let labels = &self.labels;
        let dominates = |one: &Label, other: &Label| {
            one.devices <= other.devices
                && self.counted.dominates(&one.behind, &other.behind)
                && one.account.dominates(other.account, self.slower_inside)
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
