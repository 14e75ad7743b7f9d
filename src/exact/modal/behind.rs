//! What the stages behind an ideal take at least, in any plan within a limit.

use crate::exact::modal::space::Space;
use crate::exact::modal::stages::{Bar, Stage, Stages};
use crate::problem::plan::StoppedBy;

/// Least devices and replicas behind every ideal.
pub(super) struct Behind {
    node: usize,
    /// By ideal and the place of a node where the stages behind begin; `usize::MAX` where there are none within the limit, or they leave too
    /// few devices for the work ahead.
    devices: Vec<usize>,
    /// By ideal.
    replicas: Vec<usize>,
}

impl Behind {
    /// Nothing known.
    pub(super) fn unknown(space: &Space) -> Self {
        let ideals = space.lattice.len();
        let mut replicas = vec![1; ideals];
        replicas[ideals - 1] = 0;
        Self {
            node: space.node,
            devices: vec![0; ideals * space.node],
            replicas,
        }
    }

    /// A pass from the end: of each ideal the least devices and the least replicas, each alone.
    pub(super) fn new(space: &Space, stages: &mut Stages, limit: u64) -> Result<Self, StoppedBy> {
        let (node, ideals) = (space.node, space.lattice.len());
        let mut known = Self {
            node,
            devices: vec![usize::MAX; ideals * node],
            replicas: vec![usize::MAX; ideals],
        };
        known.devices[(ideals - 1) * node..].fill(0);
        known.replicas[ideals - 1] = 0;
        let mut bar = Bar {
            limit,
            next: u64::MAX,
        };
        for behind in (1..ideals).rev() {
            let room = space
                .modes
                .devices
                .saturating_sub(space.least_devices(behind, limit));
            let own = &mut known.devices[behind * node..][..node];
            for devices in own.iter_mut().filter(|devices| **devices > room) {
                *devices = usize::MAX;
            }
            let own = own.to_vec();
            if own.iter().all(|&devices| devices == usize::MAX) {
                continue;
            }
            stages.each(space, behind, &mut bar, &mut |stage, bar| {
                known.extend(space, (behind, &own), stage, bar.limit);
            })?;
        }
        Ok(known)
    }

    /// Takes a stage off ahead of so many devices, by the place where they begin, in all its modes.
    fn extend(&mut self, space: &Space, (behind, own): (usize, &[usize]), stage: &mut Stage, limit: u64) {
        let replicas = self.replicas[behind];
        let least = own.iter().copied().min().unwrap_or(usize::MAX);
        let fits = |devices: usize| devices <= space.modes.devices;
        let runs = space.runs(stage.degree);
        for run in runs.take_while(|run| fits(least.saturating_add(run.devices))) {
            if space.least_time(stage, &run) > limit {
                continue;
            }
            let in_flight = space.modes.flight.of(run.mode.replicas, replicas);
            let Some(work) = stage.time_within(space, behind, run.mode, in_flight) else {
                continue;
            };
            for (end, &devices) in own.iter().enumerate() {
                let placement = space.placement(&run, end);
                let takes = devices.saturating_add(run.devices);
                let is_open = placement.fits && fits(takes);
                if is_open && space.time(stage, &run, &placement, work) <= limit {
                    let to = &mut self.devices[stage.ahead * self.node + placement.start];
                    *to = takes.min(*to);
                    let to = &mut self.replicas[stage.ahead];
                    *to = (replicas + run.mode.replicas).min(*to);
                }
            }
        }
    }

    /// The least devices behind an ideal if the first of them is at a place of a node; `usize::MAX` where there are none.
    pub(super) fn devices(&self, ideal: usize, place: usize) -> usize {
        self.devices[ideal * self.node + place]
    }

    /// The least replicas behind an ideal.
    pub(super) fn replicas(&self, ideal: usize) -> usize {
        self.replicas[ideal]
    }
}
