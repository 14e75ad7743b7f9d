//! Brute force over chunks: every assignment of a handful of items, costed from items, transfers and operations alone.

use stagecut::options::Communication;
use stagecut::problem::{Assignment, Problem};
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Operation, Phase};

use super::each_assignment;

/// The least period in ns of a problem whose devices have several chunks, and a plan that reaches it; `None` where there is no plan.
///
/// # Complexity
///
/// O(c^n) plans for n items and c chunks, fewer for the order pairs.
pub fn solve(problem: &Problem) -> Option<(Assignment, u64)> {
    solve_among(problem, &|_| true)
}

/// The same of plans whose assignments are admitted.
pub fn solve_among(problem: &Problem, admits: &dyn Fn(&[usize]) -> bool) -> Option<(Assignment, u64)> {
    let settings = &problem.settings;
    let shape = Shape {
        devices: settings.stages,
        virtual_stages: settings.virtual_stages,
        placement: settings.placement,
        // Far more than any schedule needs to settle.
        micro_batches: settings.micro_batches.unwrap_or(8 * settings.stages as u64) as usize,
    };
    let rule = RULES
        .iter()
        .find(|rule| rule.name == settings.schedule.to_string());
    let order = match settings.mode.trains() {
        true => rule.and_then(|rule| rule.order(&shape)).expect("a rule").devices,
        false => vec![Vec::new(); shape.devices],
    };
    let mut search = Search {
        problem,
        admits,
        chunks: shape.devices * shape.virtual_stages,
        device_of: (0..shape.devices * shape.virtual_stages)
            .map(|chunk| shape.placement.device(chunk, shape.devices))
            .collect(),
        order,
        assignment: Vec::new(),
        best: None,
    };
    each_assignment(problem, search.chunks, &mut |assignment| {
        search.assignment.clone_from(assignment);
        search.keep_if_better();
    });
    search.best
}

struct Search<'a> {
    problem: &'a Problem,
    admits: &'a dyn Fn(&[usize]) -> bool,
    chunks: usize,
    device_of: Vec<usize>,
    order: Vec<Vec<Operation>>,
    assignment: Assignment,
    best: Option<(Assignment, u64)>,
}

impl Search<'_> {
    fn keep_if_better(&mut self) {
        let period_ns = self.period_ns();
        let better = self.best.as_ref().is_none_or(|(_, best)| period_ns < *best);
        if better && self.uses_enough() && self.fits() && (self.admits)(&self.assignment) {
            self.best = Some((self.assignment.clone(), period_ns));
        }
    }

    fn uses_enough(&self) -> bool {
        let is_used = |chunk: usize| self.assignment.contains(&chunk);
        !self.problem.settings.all_stages || (0..self.chunks).all(is_used)
    }

    fn period_ns(&self) -> u64 {
        let devices = self.order.len();
        let device = |item: usize| self.device_of[self.assignment[item]];
        let mut work = vec![0; devices];
        for (i, item) in self.problem.items.iter().enumerate() {
            work[device(i)] += item.forward_ns + item.backward_ns;
        }
        let (mut received, mut sent) = (vec![0; devices], vec![0; devices]);
        for transfer in &self.problem.transfers {
            let home = device(transfer.producer);
            let ahead = transfer.forward_ns + transfer.backward_ns;
            let away: Vec<usize> = (0..devices)
                .filter(|&d| d != home && transfer.consumers.iter().any(|&to| device(to) == d))
                .collect();
            for &d in &away {
                received[d] += ahead;
                sent[d] += transfer.gradient_ns;
            }
            if !away.is_empty() {
                sent[home] += ahead;
                received[home] += transfer.gradient_ns;
            }
        }
        let busy = |d: usize| match self.problem.settings.communication {
            Communication::Blocking => work[d] + received[d] + sent[d],
            Communication::Overlapped => work[d].max(received[d]).max(sent[d]),
            _ => work[d],
        };
        (0..devices).map(busy).max().unwrap_or(0)
    }

    /// Whether no device ever holds more than it may, one operation after the other.
    fn fits(&self) -> bool {
        let Some(limit) = self.problem.settings.memory_limit else {
            return true;
        };
        let mut stash = vec![0; self.chunks];
        let mut held = vec![0; self.order.len()];
        for (item, &chunk) in self.problem.items.iter().zip(&self.assignment) {
            stash[chunk] += item.stash_bytes;
            held[self.device_of[chunk]] += item.base_bytes;
        }
        self.order.iter().zip(&mut held).all(|(operations, held)| {
            let mut peak = *held;
            for operation in operations {
                match operation.phase {
                    Phase::Forward => *held += stash[operation.chunk],
                    Phase::Backward | Phase::WeightGradient => *held -= stash[operation.chunk],
                    Phase::InputGradient => {}
                }
                peak = peak.max(*held);
            }
            peak <= limit
        })
    }
}
