//! What a plan holds once so many micro-batches are in flight as hide its overlapped transfers, where these are a stream without end.
//!
//! The schedule's own number of micro-batches, which plans count, is enough where transfers take a worker's time or none. A
//! transfer beside the work keeps a micro-batch away for longer: to reach the period, a stage may need more of them, as the
//! simulator finds. A plan that has no memory for these runs all the same, with fewer in flight and a longer period.

use super::crossings::through;
use super::devices::Placed;
use super::modes::Sum;
use super::{Checker, Violation, workers};
use crate::model::options::Schedule;
use crate::problem::plan::{Overrun, Plan};
use crate::schedule::simulate::{self, Pipeline, hiding_in_flight};

impl Checker<'_> {
    /// Whether there are transfers that as many micro-batches are in flight for as hide them.
    fn hides_transfers(&self) -> bool {
        let settings = self.settings;
        settings.mode.trains() && settings.communication.has_links() && !settings.has_iterations()
    }

    /// Stages that hold more than their memory if transfers are to be hidden.
    pub(super) fn overruns_of(&mut self, plan: &Plan) -> Vec<Overrun> {
        let settings = self.settings;
        if !self.hides_transfers() {
            return Vec::new();
        }
        let limits = self.staff.iter().map(|staff| {
            let bytes = workers::memory_bytes(self.instance, settings, staff);
            bytes.filter(|&bytes| bytes < u64::MAX)
        });
        let limits: Vec<Option<u64>> = limits.collect();
        if limits.iter().all(Option::is_none) {
            return Vec::new();
        }
        // What cannot be simulated has other faults, which are told; so has a plan with more stages than passes.
        if plan.stages.len() > 2 * self.instance.network.layers.len() {
            return Vec::new();
        }
        let Ok(in_flight) = simulate::in_flight(plan) else {
            return Vec::new();
        };
        self.in_flight = in_flight;
        let bytes = self.sums(plan.stages.len()).bytes;
        let in_flight = std::mem::take(&mut self.in_flight);
        let stages = limits.into_iter().zip(bytes).zip(in_flight).zip(1..);
        let overrun = |(((limit, bytes), in_flight), stage): (((Option<u64>, u128), u64), usize)| {
            let memory_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            let over_bytes = memory_bytes.checked_sub(limit?).filter(|&over| over > 0)?;
            Some(Overrun {
                stage,
                in_flight,
                memory_bytes,
                over_bytes,
            })
        };
        stages.filter_map(overrun).collect()
    }

    /// The same of stages in modes, whose hosts may hold too much as well.
    pub(super) fn overruns_of_modes(
        &self,
        (placed, sums): (&[Placed], &[Sum]),
        pipeline: &Pipeline,
    ) -> Vec<Overrun> {
        let settings = self.settings;
        if !self.hides_transfers() {
            return Vec::new();
        }
        let micro_batches = settings.micro_batches.unwrap_or(u64::MAX);
        let all = hiding_in_flight(pipeline, settings.schedule, micro_batches);
        let kinds = &self.instance.cluster.kinds;
        let overrun = |(k, (&in_flight, (own, sum))): (usize, (&u64, (&Placed, &Sum)))| {
            let held = |each: u128| u128::from(in_flight) * each;
            let bytes = sum.bytes(own, &|ends| self.hiding_counts(&all, placed, (ends, k)));
            let at_host = sum.states_of_device(own).0 + held(sum.host_bytes);
            let host = kinds[own.kind].host.and_then(|host| host.memory_bytes);
            let limits = [settings.device_bytes(&self.instance.cluster, own.kind), host];
            let over = |(bytes, limit): (u128, Option<u64>)| {
                let memory_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                let over_bytes = memory_bytes.checked_sub(limit?).filter(|&over| over > 0)?;
                Some(Overrun {
                    stage: k + 1,
                    in_flight,
                    memory_bytes,
                    over_bytes,
                })
            };
            [bytes, at_host].into_iter().zip(limits).find_map(over)
        };
        let stages = all.iter().zip(placed.iter().zip(sums)).enumerate();
        stages.filter_map(overrun).collect()
    }

    /// Micro-batches in flight and versions of the weights on a replica of a stage, of layers whose passes are on such stages, of which it is one, if stages have
    /// so many in flight: where the first of them has more than the schedule's own, as many as it has, shared out.
    fn hiding_counts(&self, all: &[u64], placed: &[Placed], (ends, k): ([usize; 2], usize)) -> [u64; 2] {
        let first = ends[0].min(ends[1]);
        let in_flight = match ends == [k; 2] {
            true => all[k],
            false => {
                let through = through(placed);
                let [own, _] = self.counts_of(&placed[k], ends.map(|stage| through[stage]));
                let is_more = all[first] > self.counts_of(&placed[first], [through[first]; 2])[0];
                let in_all = all[first].saturating_mul(placed[first].replicas as u64);
                let shared = in_all.div_ceil(placed[k].replicas as u64);
                if is_more { shared.max(own) } else { own }
            }
        };
        [in_flight, self.versions_beside(in_flight)]
    }

    /// A plan need not say that it overruns, but must not say so wrongly.
    pub(super) fn stated_overruns(&mut self, plan: &Plan) {
        if !plan.overruns.is_empty() && plan.overruns != self.overruns {
            let shown = |overruns: &[Overrun]| match overruns {
                [] => "none".to_owned(),
                all => all.iter().map(Overrun::to_string).collect::<Vec<_>>().join("; "),
            };
            self.violations.push(Violation::Field {
                field: "overruns".into(),
                found: shown(&plan.overruns),
                expected: shown(&self.overruns).into(),
            });
        }
    }

    /// Micro-batches and versions of the weights between passes that lie so many stages from the end, where stages may have
    /// more in flight than the schedule's own: as many as the stage of the two that is further from the end.
    pub(super) fn between_held(&self, forward: u64, backward: u64) -> [u64; 2] {
        let own = self.held_between(forward, backward);
        let longer = forward.max(backward);
        let stage = self.in_flight.len().checked_sub(longer as usize);
        let Some(&needed) = stage.and_then(|stage| self.in_flight.get(stage)) else {
            return own;
        };
        match (
            needed > self.held_between(longer, longer)[0],
            self.settings.schedule,
        ) {
            (false, _) => own,
            (true, Schedule::Pipedream) => [needed, needed],
            (true, Schedule::Gpipe | Schedule::OneFOneB | Schedule::Concurrent) => [needed, own[1]],
            // Chunks are counted by their order: see `virtual_stages`.
            (true, Schedule::Interleaved | Schedule::ZbV | Schedule::VHalf | Schedule::VMin) => own,
        }
    }
}
