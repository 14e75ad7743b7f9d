//! The least latency over ideals and what may run their stages: a shortest path.
#![doc = include_str!("../../../formulations/latency.md")]

use super::arcs::{Arc, Arcs};
use crate::exact::incumbent::Incumbent;
use crate::problem::bound_source::BoundSource;
use crate::problem::cost::{PhaseCost, StageCost};
use crate::problem::plan::StoppedBy;

/// Labels beyond which the search is left: some hundred MB.
const MOST_LABELS: usize = 4_000_000;

/// Some last stages of plans.
struct Label {
    /// What they take, but for [`pending_ns`](Self::pending_ns).
    once_ns: u64,
    /// What the first of them receives in forward propagation, and sends in backward propagation: what the stage before makes of them is not known.
    pending_ns: [u64; 2],
    /// How many they are.
    stages: usize,
    /// What they take from the stock.
    taken: Box<[usize]>,
    /// What the first of them runs on.
    choice: usize,
    /// The ideal that it ends with, and the position of the label of those behind it there.
    next: (usize, usize),
}

impl Label {
    fn total_ns(&self) -> u64 {
        self.once_ns + self.pending_ns[0] + self.pending_ns[1]
    }

    /// Whether whatever comes before both is no longer with these stages.
    fn dominates(&self, other: &Self, is_exact: bool) -> bool {
        let longer = |k: usize| self.pending_ns[k].saturating_sub(other.pending_ns[k]);
        let has_room = match is_exact {
            true => self.stages == other.stages,
            false => self.stages <= other.stages,
        };
        has_room
            && self.once_ns + longer(0) + longer(1) <= other.once_ns
            && self
                .taken
                .iter()
                .zip(&other.taken)
                .all(|(own, other)| own <= other)
    }

    /// What a stage adds to those behind it.
    fn before(&self, cost: &StageCost) -> (u64, [u64; 2]) {
        let own_ns = |phase: &PhaseCost| phase.load_ns();
        let (forward, backward) = (&cost.forward, &cost.backward);
        let between_ns = match self.stages {
            // The last stage sends and receives at once what lies between its passes.
            0 => forward.link_out_ns.max(backward.link_in_ns),
            _ => forward.link_out_ns.max(self.pending_ns[0]) + backward.link_in_ns.max(self.pending_ns[1]),
        };
        let once_ns = self.once_ns + own_ns(forward) + own_ns(backward) + between_ns;
        (once_ns, [forward.link_in_ns, backward.link_out_ns])
    }
}

/// Finds the best plan, and proves it.
pub(super) fn search(incumbent: &mut Incumbent) -> StoppedBy {
    if incumbent.is_over() {
        return StoppedBy::Completed;
    }
    let arcs = match Arcs::new(incumbent) {
        Ok(arcs) => arcs,
        Err(stopped_by) => return stopped_by,
    };
    let mut labels = Labels {
        limit_ns: incumbent.target_ns(),
        most_stages: incumbent.problem.stages(),
        of: arcs.from.iter().map(|_| Vec::new()).collect(),
        count: 0,
        arcs: &arcs,
    };
    incumbent.statistics.ideals = Some(arcs.from.len());
    let all = arcs.from.len() - 1;
    labels.of[all].push(Label {
        once_ns: 0,
        pending_ns: [0, 0],
        stages: 0,
        taken: arcs.untaken(),
        choice: 0,
        next: (all, 0),
    });
    for before in (0..all).rev() {
        if let Some(stopped_by) = incumbent.control.must_stop() {
            return stopped_by;
        }
        for arc in &arcs.from[before] {
            labels.put_before(before, arc);
        }
        if labels.count > MOST_LABELS {
            return StoppedBy::SizeLimit;
        }
    }
    let limit_ns = labels.limit_ns;
    let best = labels.of[0].iter().min_by_key(|label| label.total_ns());
    match best {
        Some(best) => {
            incumbent.offer(arcs.plan(&labels.stages(best)));
            incumbent.raise(BoundSource::IdealsAndDevices, best.total_ns());
        }
        None => incumbent.rule_out(BoundSource::IdealsAndDevices, limit_ns),
    }
    StoppedBy::Completed
}

/// The labels of all ideals.
struct Labels<'a> {
    arcs: &'a Arcs<'a>,
    of: Vec<Vec<Label>>,
    count: usize,
    limit_ns: u64,
    most_stages: usize,
}

impl Labels<'_> {
    /// Puts a stage before what is known of the ideal that it ends with.
    fn put_before(&mut self, before: usize, arc: &Arc) {
        let is_exact = self.arcs.problem.settings.all_stages;
        let behind = std::mem::take(&mut self.of[arc.after]);
        for (at, label) in behind.iter().enumerate() {
            let stages = label.stages + 1;
            let is_short = before == 0 && is_exact && stages < self.most_stages;
            if stages > self.most_stages || is_short {
                continue;
            }
            for (choice, cost) in &arc.options {
                if !self.arcs.fits(arc, *choice, stages) {
                    continue;
                }
                let Some(taken) = self.arcs.taken(&label.taken, *choice) else {
                    continue;
                };
                let (once_ns, pending_ns) = label.before(cost);
                self.add(
                    before,
                    Label {
                        once_ns,
                        pending_ns,
                        stages,
                        taken,
                        choice: *choice,
                        next: (arc.after, at),
                    },
                );
            }
        }
        self.of[arc.after] = behind;
    }

    /// Keeps a label that may lead to a plan of interest, unless another is as good; drops those that are no better.
    fn add(&mut self, ideal: usize, label: Label) {
        let is_exact = self.arcs.problem.settings.all_stages;
        let least_ns = label.total_ns().saturating_add(self.arcs.least_within_ns[ideal]);
        let labels = &mut self.of[ideal];
        if least_ns > self.limit_ns || labels.iter().any(|other| other.dominates(&label, is_exact)) {
            return;
        }
        let before = labels.len();
        labels.retain(|other| !label.dominates(other, is_exact));
        labels.push(label);
        self.count = self.count + labels.len() - before;
    }

    /// Where the stages of a plan end, and what they run on, from its first.
    fn stages(&self, first: &Label) -> Vec<(usize, usize)> {
        let mut stages = Vec::with_capacity(first.stages);
        let mut label = first;
        while label.stages > 0 {
            stages.push((label.next.0, label.choice));
            label = &self.of[label.next.0][label.next.1];
        }
        stages
    }
}
