//! The least devices that an ideal takes within a limit: what a label of the search must leave to what is ahead of it.
//!
//! A dynamic program from the front: of all numbers of devices that an ideal can run on, the least for each place of a node at which it
//! may end. Boundaries between stages are at the right level there, since devices are counted from the first. What is in flight is not
//! known from the front: it is taken to be what as many replicas bring about as there are behind at least.
//!
//! What it finds is often a plan, and then no label is needed; where it finds nothing, there is none.

use crate::exact::modal::behind::Behind;
use crate::exact::modal::plans::plan_of;
use crate::exact::modal::space::{Run, Space};
use crate::exact::modal::stages::{Bar, Stage, Stages};
use crate::problem::Assignment;
use crate::problem::modes::{Chosen, StageMode};
use crate::problem::plan::StoppedBy;

/// An ideal on the least devices, and of those ways one of the fewest stages.
#[derive(Clone, Copy)]
struct Front {
    devices: usize,
    stages: usize,
    /// The last of the stages: the ideal ahead of it, the place of the node where it begins, and its mode.
    last: (usize, usize, StageMode),
}

/// The least devices of all ideals.
pub(super) struct Ahead {
    node: usize,
    /// By ideal and place of a node.
    fronts: Vec<Option<Front>>,
    /// The least stages of each ideal, whatever devices they take.
    stages: Vec<usize>,
    /// The limit, and the least time beyond it of any stage that was turned down.
    pub bar: Bar,
}

impl Ahead {
    /// For plans that keep a limit; `behind` holds for them too.
    pub(super) fn new(
        space: &Space,
        stages: &mut Stages,
        behind: &Behind,
        bar: Bar,
    ) -> Result<Self, StoppedBy> {
        let (node, ideals) = (space.node, space.lattice.len());
        let mut ahead = Self {
            node,
            fronts: vec![None; ideals * node],
            stages: vec![usize::MAX; ideals],
            bar,
        };
        let nothing = StageMode {
            degree: 0,
            replicas: 0,
        };
        ahead.fronts[0] = Some(Front {
            devices: 0,
            stages: 0,
            last: (0, 0, nothing),
        });
        ahead.stages[0] = 0;
        let mut bar = bar;
        for ideal in 1..ideals {
            let least = (0..node).map(|place| behind.devices(ideal, place)).min();
            let Some(least) = least.filter(|&least| least < usize::MAX) else {
                continue;
            };
            stages.each(space, ideal, &mut bar, &mut |stage, bar| {
                ahead.extend(space, (ideal, least), stage, (behind, bar));
            })?;
        }
        ahead.bar = bar;
        Ok(ahead)
    }

    /// The least devices of an ideal that ends at a place of a node; `None` where it cannot.
    pub(super) fn devices(&self, ideal: usize, place: usize) -> Option<usize> {
        self.fronts[ideal * self.node + place].map(|front| front.devices)
    }

    /// The same wherever it ends.
    pub(super) fn least_devices(&self, ideal: usize) -> Option<usize> {
        (0..self.node)
            .filter_map(|place| self.devices(ideal, place))
            .min()
    }

    /// The least stages of an ideal.
    pub(super) fn stages(&self, ideal: usize) -> usize {
        self.stages[ideal]
    }

    /// Adds a stage that ends an ideal, in all its modes, from every place where it may begin.
    fn extend(
        &mut self,
        space: &Space,
        (ideal, least): (usize, usize),
        stage: &mut Stage,
        (behind, bar): (&Behind, &mut Bar),
    ) {
        let Some(start) = self.least_devices(stage.ahead) else {
            return;
        };
        for run in space.runs(stage.degree) {
            if start + run.devices + least > space.modes.devices {
                break;
            }
            if !bar.keeps(space.least_time(stage, &run)) {
                continue;
            }
            let in_flight = space.modes.flight.of(run.mode.replicas, behind.replicas(ideal));
            if let Some(work) = stage.time_within(space, ideal, run.mode, in_flight) {
                self.add(space, (ideal, stage, &run), work, (behind, bar));
            }
        }
    }

    /// Adds a stage in a mode whose layers take so long.
    fn add(
        &mut self,
        space: &Space,
        (ideal, stage, run): (usize, &Stage, &Run),
        work: u64,
        (behind, bar): (&Behind, &mut Bar),
    ) {
        for place in 0..self.node {
            let Some(from) = self.fronts[stage.ahead * self.node + place] else {
                continue;
            };
            let devices = from.devices + run.devices;
            let end = devices % self.node;
            let placement = space.placement(run, end);
            if !placement.fits || devices.saturating_add(behind.devices(ideal, end)) > space.modes.devices {
                continue;
            }
            let front = Front {
                devices,
                stages: from.stages + 1,
                last: (stage.ahead, place, run.mode),
            };
            let stages = self.stages[stage.ahead] + 1;
            let to = self.fronts[ideal * self.node + end];
            let is_better = to.is_none_or(|to| (front.devices, front.stages) < (to.devices, to.stages));
            if !is_better && stages >= self.stages[ideal] {
                continue;
            }
            if bar.keeps(space.time(stage, run, &placement, work)) {
                self.stages[ideal] = self.stages[ideal].min(stages);
                if is_better {
                    self.fronts[ideal * self.node + end] = Some(front);
                }
            }
        }
    }

    /// Plans of the least devices, whose levels are right and whose memory may not be.
    pub(super) fn plans(&self, space: &Space) -> impl Iterator<Item = (Assignment, Chosen)> {
        let all = space.lattice.all();
        let ends = 0..self.node;
        let open = ends.filter(move |&place| {
            let devices = self.devices(all, place);
            devices.is_some_and(|devices| devices <= space.modes.devices)
        });
        open.filter_map(move |place| self.plan(space, place))
    }

    fn plan(&self, space: &Space, place: usize) -> Option<(Assignment, Chosen)> {
        let (mut at, mut place) = (space.lattice.all(), place);
        let mut stages = Vec::new();
        while at > 0 {
            let (ahead, before, mode) = self.fronts[at * self.node + place]?.last;
            stages.push((space.lattice.stage(ahead, at), mode));
            (at, place) = (ahead, before);
        }
        stages.reverse();
        plan_of(space.modes, &stages)
    }
}
