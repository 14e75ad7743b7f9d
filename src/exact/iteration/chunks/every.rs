//! Every plan, where there are few.

use petgraph::Direction::Incoming;

use crate::exact::incumbent::Incumbent;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Operations of all plans together: a second's work.
const MOST_OPERATIONS: f64 = 2e8;

/// Whether all plans can be looked at.
pub(super) fn applies(problem: &Problem, of: &VirtualStages) -> bool {
    let operations = of.sequence.as_ref().map_or(0, |sequence| sequence.len());
    plans(problem, of) * (operations + 20 * problem.items.len()) as f64 <= MOST_OPERATIONS
}

/// How many plans there are, or more.
fn plans(problem: &Problem, of: &VirtualStages) -> f64 {
    let (items, chunks) = (problem.items.len(), of.chunks() as f64);
    match super::is_row(problem) {
        // Places of the cuts among the items.
        true => (1..=items).fold(1.0, |plans, k| plans * (chunks - 1.0 + k as f64) / k as f64),
        false => chunks.powi(items as i32),
    }
}

/// Measures every plan, but for those whose first items alone keep some device busy for too long.
pub(super) fn look_at_all(incumbent: &mut Incumbent, of: &VirtualStages) -> StoppedBy {
    let problem = incumbent.problem;
    let before = |item: usize| -> Vec<usize> {
        let before = problem.order.neighbors_directed((item as u32).into(), Incoming);
        before.map(|u| u.index()).collect()
    };
    let mut search = EveryPlan {
        of,
        micro_batches: super::micro_batches(problem),
        before: (0..problem.items.len()).map(before).collect(),
        assignment: Vec::new(),
        work_ns: vec![0; of.devices],
        incumbent,
    };
    match search.place_next() {
        Ok(()) => {
            if !incumbent.is_over() {
                incumbent.exhausted(BoundSource::ExhaustiveSearch);
            }
            StoppedBy::Completed
        }
        Err(stopped_by) => stopped_by,
    }
}

struct EveryPlan<'s, 'a> {
    incumbent: &'s mut Incumbent<'a>,
    of: &'s VirtualStages,
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
            self.incumbent.offer(self.assignment.clone().into());
            return Ok(());
        };
        let earliest = before.iter().map(|&u| self.assignment[u]).max().unwrap_or(0);
        let work_ns = self.incumbent.problem.items[item].work_ns();
        for chunk in earliest..self.of.chunks() {
            let device = self.of.device_of[chunk];
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
