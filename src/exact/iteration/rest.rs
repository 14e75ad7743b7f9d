//! What the stages to come take at least, whatever is left to run them.

use super::arcs::{Arc, Arcs};
use super::simple::is_alternating;
use crate::model::options::WorkerMode;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::{PhaseCost, StageCost};
use crate::problem::plan::StoppedBy;

/// Stages tried in all states beyond which there is no table: seconds.
const MOST_STEPS: usize = 100_000_000;

/// A stage of a plan that is known in part.
pub(super) struct StageBound {
    /// Its worker's forward and backward time.
    pub(super) own_ns: [u64; 2],
    /// What a micro-batch spends before it, there and back.
    pub(super) before_ns: u64,
    /// What a micro-batch spends on all stages.
    pub(super) alone_ns: u64,
    /// What it works for behind the stage.
    pub(super) behind_ns: u64,
    /// How far it can be from the end, 1 for the last.
    pub(super) from_end: usize,
}

impl StageBound {
    /// The page's `busy`, `behind`, `ahead` and `again`, in ns.
    pub(super) fn ns(&self, problem: &Problem) -> u64 {
        let (m, [forward, backward]) = (problem.settings.run_micro_batches(), self.own_ns);
        let each_ns = match problem.settings.worker {
            WorkerMode::Sequential => forward + backward,
            // Both phases run at once.
            WorkerMode::Concurrent => forward.max(backward),
        };
        let busy_ns = self.before_ns + m * each_ns;
        if is_in_turn(problem) {
            return busy_ns.max(self.alone_ns + (m - 1) * (forward + backward));
        }
        let after_first = match is_alternating(problem) {
            true => m.saturating_sub(self.from_end as u64),
            // Phases run side by side, each by its own order.
            false => 0,
        };
        let behind_ns = self.alone_ns + (m - 1) * backward + after_first * forward;
        let ahead_ns = self.alone_ns + (m - 1) * forward + after_first * backward;
        let again_ns = match after_first > 0 {
            true => self.alone_ns + self.behind_ns + after_first * (forward + backward),
            false => 0,
        };
        busy_ns.max(behind_ns).max(ahead_ns).max(again_ns)
    }
}

/// Whether all micro-batches pass a stage in one phase before the first in another.
pub(super) fn is_in_turn(problem: &Problem) -> bool {
    problem.settings.schedule.is_all_forward_first() || !problem.settings.mode.trains()
}

/// The page's `sending` of a stage before which a micro-batch spends nothing.
pub(super) fn sending_ns(problem: &Problem, forward: [u64; 2], returns_ns: u64) -> u64 {
    let ([work_ns, sends_ns], m) = (forward, problem.settings.run_micro_batches());
    let returns_ns = match problem.settings.worker {
        WorkerMode::Sequential => returns_ns,
        // On a link of its own.
        WorkerMode::Concurrent => 0,
    };
    match sends_ns > 0 {
        true => work_ns + m * (sends_ns + returns_ns) - returns_ns,
        false => 0,
    }
}

/// For every ideal and whatever stages before it have taken, what all stages behind take at least.
pub(super) struct Rest {
    /// What one more of each kind adds to the position of what is taken.
    strides: Vec<usize>,
    /// How many ways to take from the stock there are.
    states: usize,
    /// For one micro-batch alone, and for a run that begins with these stages; `u64::MAX` where nothing is left that could.
    least_ns: Vec<[u64; 2]>,
}

impl Rest {
    /// The table; `None` where it would be too large.
    pub(super) fn new(arcs: &Arcs, control: &Control) -> Result<Option<Self>, StoppedBy> {
        let workers = arcs.problem.workers.as_ref();
        let stock: &[usize] = workers.map_or(&[], |workers| &workers.inventory);
        let mut states: usize = 1;
        let mut strides = Vec::new();
        for &count in stock {
            strides.push(states);
            states = states.saturating_mul(count + 1);
        }
        let options = arcs.from.iter().flatten().map(|arc| arc.options.len());
        if options.sum::<usize>().saturating_mul(states) > MOST_STEPS {
            return Ok(None);
        }
        let all = arcs.from.len() - 1;
        let mut rest = Self {
            least_ns: vec![[u64::MAX; 2]; states * (all + 1)],
            strides,
            states,
        };
        rest.least_ns[all * states..].fill([0, 0]);
        for ideal in (0..all).rev() {
            for state in 0..states {
                if let Some(stopped_by) = control.must_stop() {
                    return Err(stopped_by);
                }
                let taken: Vec<usize> = rest.taken(state, stock);
                rest.least_ns[ideal * states + state] = rest.least(arcs, ideal, &taken);
            }
        }
        Ok(Some(rest))
    }

    fn taken(&self, state: usize, stock: &[usize]) -> Vec<usize> {
        let each = self.strides.iter().zip(stock);
        each.map(|(stride, count)| state / stride % (count + 1)).collect()
    }

    fn least(&self, arcs: &Arcs, ideal: usize, taken: &[usize]) -> [u64; 2] {
        let from_end = most_stages(arcs.problem, taken);
        let mut least = [u64::MAX; 2];
        for arc in &arcs.from[ideal] {
            for (choice, cost) in &arc.options {
                let Some(taken) = arcs.taken(taken, *choice) else {
                    continue;
                };
                let [alone_ns, run_ns] = self.behind_ns(arc.after, &taken);
                if alone_ns == u64::MAX {
                    continue;
                }
                let (through_ns, bound_ns) = self.of_stage(arcs, arc, cost, [alone_ns, from_end as u64]);
                least[0] = least[0].min(through_ns + alone_ns);
                least[1] = least[1].min(bound_ns.max(through_ns + run_ns));
            }
        }
        least
    }

    /// What a micro-batch spends on a stage and on its way to the next and back, and what the stage says of a run that begins with it.
    fn of_stage(
        &self,
        arcs: &Arcs,
        arc: &Arc,
        cost: &StageCost,
        [behind_ns, from_end]: [u64; 2],
    ) -> (u64, u64) {
        let own = |phase: &PhaseCost| phase.load_ns();
        let (sends_ns, receives_ns) = (cost.forward.link_out_ns, cost.backward.link_in_ns);
        let between_ns = match arc.after + 1 == arcs.from.len() {
            true => sends_ns.max(receives_ns),
            false => sends_ns + receives_ns,
        };
        let through_ns = cost.load_ns() + between_ns;
        let bound = StageBound {
            own_ns: [own(&cost.forward), own(&cost.backward)],
            before_ns: 0,
            alone_ns: through_ns + behind_ns,
            behind_ns,
            from_end: from_end as usize,
        };
        let sending = [own(&cost.forward), sends_ns];
        let sending_ns = sending_ns(arcs.problem, sending, cost.backward.link_out_ns);
        (through_ns, bound.ns(arcs.problem).max(sending_ns))
    }

    /// What the stages behind an ideal take at least, alone and in a run, where those before it have taken so much.
    pub(super) fn behind_ns(&self, ideal: usize, taken: &[usize]) -> [u64; 2] {
        let state: usize = taken
            .iter()
            .zip(&self.strides)
            .map(|(n, stride)| n * stride)
            .sum();
        self.least_ns[ideal * self.states + state]
    }
}

/// As many stages as there may be where so much is taken.
fn most_stages(problem: &Problem, taken: &[usize]) -> usize {
    let Some(workers) = &problem.workers else {
        return problem.stages();
    };
    let left: usize = workers.inventory.iter().sum::<usize>() - taken.iter().sum::<usize>();
    left.min(problem.stages())
}
