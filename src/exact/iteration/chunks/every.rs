//! Every plan, where there are few.

use petgraph::Direction::Incoming;

use super::options::{ChunkOptions, least_ns};
use crate::exact::incumbent::Incumbent;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;

/// Operations of all plans together: a second's work.
const MOST_OPERATIONS: f64 = 2e8;

/// Whether all plans can be looked at.
pub(super) fn applies(options: &dyn ChunkOptions) -> bool {
    let (items, of) = (options.row().items.len(), options.laid());
    let operations = of.sequence.as_ref().map_or(0, |sequence| sequence.len());
    plans(options) * (operations + 20 * items) as f64 <= MOST_OPERATIONS
}

/// How many plans there are, or more.
fn plans(options: &dyn ChunkOptions) -> f64 {
    let (items, chunks) = (options.row().items.len(), options.laid().chunks() as f64);
    match super::is_row(options.row()) {
        // Places of the cuts among the items.
        true => (1..=items).fold(1.0, |plans, k| plans * (chunks - 1.0 + k as f64) / k as f64),
        false => chunks.powi(items as i32),
    }
}

/// Measures every plan, but for those whose first items alone keep some device busy for too long.
pub(super) fn look_at_all(incumbent: &mut Incumbent, options: &dyn ChunkOptions) -> StoppedBy {
    let (problem, of) = (options.row(), options.laid());
    let before = |item: usize| -> Vec<usize> {
        let before = problem.order.neighbors_directed((item as u32).into(), Incoming);
        before.map(|u| u.index()).collect()
    };
    let mut search = EveryPlan {
        options,
        least_ns: u64::MAX,
        micro_batches: super::micro_batches(problem),
        before: (0..problem.items.len()).map(before).collect(),
        assignment: Vec::new(),
        work_ns: vec![0; of.devices],
        incumbent: &mut *incumbent,
    };
    match search.place_next() {
        Ok(()) => {
            let least_ns = search.least_ns;
            if !incumbent.is_over() && least_ns > incumbent.target_ns() {
                incumbent.exhausted(BoundSource::ExhaustiveSearch);
            } else if !incumbent.is_over() {
                incumbent.raise(BoundSource::ExhaustiveSearch, least_ns);
            }
            StoppedBy::Completed
        }
        Err(stopped_by) => stopped_by,
    }
}

struct EveryPlan<'s, 'a> {
    incumbent: &'s mut Incumbent<'a>,
    options: &'s dyn ChunkOptions,
    /// No plan takes less that was not offered because another one with its chunks was, in ns.
    least_ns: u64,
    micro_batches: u64,
    /// For every item those that its chunk must not lie before.
    before: Vec<Vec<usize>>,
    assignment: Assignment,
    /// Of every device, by the items that have a place.
    work_ns: Vec<u64>,
}

impl EveryPlan<'_, '_> {
    fn place_next(&mut self) -> Result<(), StoppedBy> {
        let item = self.assignment.len();
        let Some(before) = self.before.get(item) else {
            self.incumbent.statistics.nodes += 1;
            self.incumbent.control.check_limits()?;
            if !self.incumbent.problem.admits(&self.assignment) {
                return Ok(());
            }
            let plan = self.options.plan(self.assignment.clone());
            self.incumbent.offer_some(plan);
            if !self.options.is_complete() {
                self.least_ns = self.least_ns.min(least_ns(self.options, &self.assignment));
            }
            return Ok(());
        };
        let earliest = before.iter().map(|&u| self.assignment[u]).max().unwrap_or(0);
        let of = self.options.laid();
        let work_ns = self.options.row().items[item].work_ns();
        for chunk in earliest..of.chunks() {
            let device = of.device_of[chunk];
            if self.micro_batches * (self.work_ns[device] + work_ns) > self.incumbent.target_ns() {
                continue;
            }
            self.work_ns[device] += work_ns;
            self.assignment.push(chunk);
            let placed = self.place_next();
            self.assignment.pop();
            self.work_ns[device] -= work_ns;
            placed?;
        }
        Ok(())
    }
}
