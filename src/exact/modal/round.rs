//! A pass over the ideals from the end, with labels.

use crate::exact::modal::ahead::Ahead;
use crate::exact::modal::labels::{Behind, Counted, Label, Reached};
use crate::exact::modal::space::{Placement, Run, Space};
use crate::exact::modal::stages::{Bar, Stage, Stages};
use crate::problem::modes::Chosen;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// A pass for one limit.
pub(super) struct Round<'s, 'a> {
    space: &'s Space<'a>,
    /// What is ahead takes at least, if that is asked for.
    ahead: Option<&'s Ahead>,
    counted: Counted,
    reached: Reached,
}

/// Memory is looked at once in so many bytes.
const LOOK_BYTES: usize = 1 << 24;

/// The end of a stage: the ideal that it ends, and labels behind it that begin at a place of a node.
struct End {
    behind: usize,
    place: usize,
    labels: Vec<usize>,
    least_devices: usize,
}

/// What a stage takes somewhere with the fastest ways of its layers, if no tensor goes farther than over the boundary.
struct Timed {
    /// Its layers.
    work: u64,
    /// What crosses its ends, and what its links are busy with.
    moved: u64,
    links: u64,
    replicas: u64,
    ring: u64,
    /// All of it.
    time: u64,
}

impl Timed {
    fn new(space: &Space, stage: &Stage, run: &Run, placement: &Placement) -> Self {
        let mut timed = Self {
            work: stage.sum.time,
            moved: placement.moved(&stage.crossing),
            links: placement.on_links(stage),
            replicas: run.mode.replicas as u64,
            ring: space.ring(stage, run, placement),
            time: 0,
        };
        timed.time = timed.taken(timed.work);
        timed
    }

    /// The same where its layers and what else it pays take so long.
    fn with(&self, work: u64) -> u64 {
        match work == self.work {
            true => self.time,
            false => self.taken(work),
        }
    }

    fn taken(&self, work: u64) -> u64 {
        (work + self.moved).max(self.links).div_ceil(self.replicas) + self.ring
    }
}

impl<'s, 'a> Round<'s, 'a> {
    /// Nothing reached yet.
    pub(super) fn new(
        problem: &Problem,
        space: &'s Space<'a>,
        ahead: Option<&'s Ahead>,
        least_again: bool,
    ) -> Self {
        let counted = Counted::new(problem, space.modes, least_again);
        let slower_inside = space.watched.slower_inside;
        Self {
            space,
            ahead,
            counted,
            reached: Reached::new(space.lattice.len(), space.node, counted, slower_inside),
        }
    }

    /// Takes stages off ideals, the largest first; a plan that keeps the limit.
    pub(super) fn run(
        &mut self,
        stages: &mut Stages,
        bar: &mut Bar,
    ) -> Result<Option<(Assignment, Chosen)>, StoppedBy> {
        let space = self.space;
        let mut looked = 0;
        for behind in (1..space.lattice.len()).rev() {
            let ends = self.ends(behind);
            if ends.is_empty() {
                continue;
            }
            stages.each(space, behind, bar, &mut |stage, bar| {
                self.take_off(stage, &ends, bar)
            })?;
            if self.reached.bytes() > looked + LOOK_BYTES {
                looked = self.reached.bytes();
                if looked > space.control.room_bytes() {
                    return Err(StoppedBy::MemoryLimit);
                }
            }
            if !self.counted.least_again && self.ending().is_some() {
                break;
            }
        }
        Ok(self.ending().and_then(|label| self.plan(label)))
    }

    fn ends(&self, behind: usize) -> Vec<End> {
        let at_place = |place: usize| {
            let labels = self.reached.at(behind, place).to_vec();
            let devices = labels.iter().map(|&at| self.reached.labels[at].devices);
            devices.min().map(|least_devices| End {
                behind,
                place,
                labels,
                least_devices,
            })
        };
        (0..self.space.node).filter_map(at_place).collect()
    }

    /// Of the labels ahead of which nothing is left, the one that computes least again.
    fn ending(&self) -> Option<usize> {
        let labels = self.reached.at(0, 0).iter().copied();
        let behind = |at: usize| &self.reached.labels[at].behind;
        labels
            .filter(|&at| self.counted.may_end(behind(at)))
            .min_by_key(|&at| behind(at).again)
    }

    /// Takes a stage off ahead of every label, with every number of replicas.
    fn take_off(&mut self, stage: &mut Stage, ends: &[End], bar: &mut Bar) {
        let space = self.space;
        let Some(ahead) = self.least_ahead(stage.ahead) else {
            return;
        };
        let degree = stage.degree;
        let runs = ends
            .iter()
            .flat_map(|end| space.runs(degree).map(move |run| (end, run)));
        for (end, run) in runs {
            if end.least_devices + run.devices + ahead > space.modes.devices {
                continue;
            }
            let placement = space.placement(&run, end.place);
            let ahead = self.devices_ahead(stage.ahead, placement.start);
            let Some(ahead) = ahead.filter(|_| placement.fits) else {
                continue;
            };
            let fastest = Timed::new(space, stage, &run, &placement);
            if !bar.keeps(fastest.time) {
                continue;
            }
            for &at in &end.labels {
                let label = self.reached.labels[at];
                if label.devices + run.devices + ahead <= space.modes.devices {
                    let mode = (&run, &placement, &fastest);
                    self.extend((at, label), (stage, end.behind), mode, bar);
                }
            }
        }
    }

    /// The least devices of what is ahead, if it ends at a place of a node; `None` where it cannot.
    fn devices_ahead(&self, ideal: usize, place: usize) -> Option<usize> {
        match self.ahead {
            Some(ahead) => ahead.devices(ideal, place),
            None => (ideal > 0 || place == 0).then_some(usize::from(ideal > 0)),
        }
    }

    /// The same wherever it ends.
    fn least_ahead(&self, ideal: usize) -> Option<usize> {
        match self.ahead {
            Some(ahead) => ahead.least_devices(ideal),
            None => Some(usize::from(ideal > 0)),
        }
    }

    /// Whether a stage ahead of so many leaves some to what is ahead of it.
    fn leaves_stages(&self, stages: usize, ideal: usize) -> bool {
        let ahead = match self.ahead {
            Some(ahead) => ahead.stages(ideal),
            None => usize::from(ideal > 0),
        };
        !self.counted.stages || (stages + 1).saturating_add(ahead) <= self.counted.most_stages
    }

    /// Takes a stage off ahead of a label in a mode.
    fn extend(
        &mut self,
        (at, label): (usize, Label),
        (stage, behind): (&mut Stage, usize),
        (run, placement, fastest): (&Run, &Placement, &Timed),
        bar: &mut Bar,
    ) {
        if !self.leaves_stages(label.behind.stages, stage.ahead) {
            return;
        }
        let space = self.space;
        let in_flight = space.modes.flight.of(run.mode.replicas, label.behind.replicas);
        let Some(work) = stage.time_within(space, behind, run.mode, in_flight) else {
            return;
        };
        let mut next = Label {
            devices: label.devices + run.devices,
            account: label.account,
            behind: self
                .counted
                .ahead_of((at, &label.behind), (stage, run.mode, work)),
        };
        let stage = (&*stage, behind);
        let known = (placement, label.account);
        space.watched.ways(space, stage, known, &mut |paid| {
            if bar.keeps(fastest.with(work + paid.ticks)) {
                next.account = paid.account;
                self.reached.add(placement.start, next);
            }
        });
    }

    /// The plan that a label ends.
    fn plan(&self, label: usize) -> Option<(Assignment, Chosen)> {
        let behind = |at: usize| self.reached.labels[at].behind;
        Behind::plan(label, behind, &self.space.lattice, self.space.modes)
    }
}
