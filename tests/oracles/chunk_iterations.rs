//! Brute force over chunks for iterations: every assignment of a handful of items, each run event by event.

use stagecut::options::{Communication, Objective};
use stagecut::problem::{Assignment, Problem};
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Operation, Phase};

use super::each_assignment;

/// The least time in ns of an iteration, or of its first micro-batch alone, of a problem whose devices have several chunks; `None` where there is no plan.
///
/// # Complexity
///
/// O(c^n) plans for n items and c chunks, each run in O(o²) for o operations.
pub fn least_ns(problem: &Problem) -> Option<u64> {
    least_among_ns(problem, &|_| true)
}

/// The same of plans whose assignments are admitted.
pub fn least_among_ns(problem: &Problem, admits: &dyn Fn(&[usize]) -> bool) -> Option<u64> {
    let settings = &problem.settings;
    let shape = Shape {
        devices: settings.stages,
        virtual_stages: settings.virtual_stages,
        placement: settings.placement,
        micro_batches: settings.micro_batches.expect("a number of micro-batches") as usize,
    };
    let name = settings.schedule.to_string();
    let rule = RULES.iter().find(|rule| rule.name == name);
    let mut order = rule.and_then(|rule| rule.order(&shape)).expect("a rule").devices;
    let trains = settings.mode.trains();
    order
        .iter_mut()
        .for_each(|list| list.retain(|of| trains || of.phase == Phase::Forward));
    let chunks = shape.devices * shape.virtual_stages;
    let mut plans = Plans {
        problem,
        admits,
        device_of: (0..chunks)
            .map(|chunk| shape.placement.device(chunk, shape.devices))
            .collect(),
        runs: match settings.objective {
            Objective::Latency => order.iter().map(|list| first(list)).collect(),
            _ => order.clone(),
        },
        order,
        least_ns: None,
    };
    each_assignment(problem, chunks, &mut |plan| plans.look_at(plan));
    plans.least_ns
}

/// Operations of the first micro-batch.
pub fn first(list: &[Operation]) -> Vec<Operation> {
    list.iter().filter(|of| of.micro_batch == 0).copied().collect()
}

struct Plans<'a> {
    problem: &'a Problem,
    admits: &'a dyn Fn(&[usize]) -> bool,
    device_of: Vec<usize>,
    /// What fills memory, and what is timed.
    order: Vec<Vec<Operation>>,
    runs: Vec<Vec<Operation>>,
    least_ns: Option<u64>,
}

/// What a chunk takes: forward pass, gradients of inputs, and of weights; and what it sends and receives ahead and back.
#[derive(Clone, Copy, Default)]
struct Times {
    passes: [u64; 3],
    sent: [u64; 2],
    received: [u64; 2],
}

impl Plans<'_> {
    fn look_at(&mut self, plan: &Assignment) {
        if self.is_allowed(plan) && (self.admits)(plan) {
            let ns = self.run_ns(plan);
            self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
        }
    }

    fn is_allowed(&self, plan: &Assignment) -> bool {
        let settings = &self.problem.settings;
        let is_used = |chunk: usize| plan.contains(&chunk);
        if settings.all_stages && !(0..self.device_of.len()).all(is_used) {
            return false;
        }
        let Some(limit) = settings.memory_limit else {
            return true;
        };
        self.order.iter().enumerate().all(|(device, operations)| {
            let own = || self.problem.items.iter().zip(plan);
            let base = own().filter(|(_, chunk)| self.device_of[**chunk] == device);
            let mut held: u64 = base.map(|(item, _)| item.base_bytes).sum();
            let mut most = held;
            for operation in operations.iter().filter(|_| settings.mode.trains()) {
                let stash = own().filter(|(_, chunk)| **chunk == operation.chunk);
                let stash: u64 = stash.map(|(item, _)| item.stash_bytes).sum();
                match operation.phase {
                    Phase::Forward => held += stash,
                    Phase::Backward | Phase::WeightGradient => held -= stash,
                    Phase::InputGradient => {}
                }
                most = most.max(held);
            }
            most <= limit
        })
    }

    fn times(&self, plan: &Assignment) -> Vec<Times> {
        let mut times = vec![Times::default(); self.device_of.len()];
        for (item, &chunk) in self.problem.items.iter().zip(plan) {
            let own = [item.forward_ns, item.backward_ns - item.weight_ns, item.weight_ns];
            (0..3).for_each(|part| times[chunk].passes[part] += own[part]);
        }
        for transfer in &self.problem.transfers {
            let home = plan[transfer.producer];
            let mut others = Vec::new();
            for device in 0..self.order.len() {
                let reads = transfer.consumers.iter().map(|&to| plan[to]);
                let first = reads.filter(|&chunk| self.device_of[chunk] == device).min();
                others.extend(first.filter(|_| device != self.device_of[home]));
            }
            for &chunk in &others {
                times[chunk].received[0] += transfer.forward_ns;
                times[chunk].received[1] += transfer.backward_ns;
                times[chunk].sent[1] += transfer.gradient_ns;
            }
            if !others.is_empty() {
                times[home].sent[0] += transfer.forward_ns;
                times[home].sent[1] += transfer.backward_ns;
                times[home].received[1] += transfer.gradient_ns;
            }
        }
        times
    }

    /// Starts every operation later and later until it starts behind all that it waits for.
    fn run_ns(&self, plan: &Assignment) -> u64 {
        let times = self.times(plan);
        let mode = self.problem.settings.communication;
        let blocking = |times: &Times, way: usize| match mode {
            Communication::Blocking => times.sent[way] + times.received[way],
            _ => 0,
        };
        let takes = |of: &Operation| {
            let times = &times[of.chunk];
            let [forward, input, weights] = times.passes;
            match of.phase {
                Phase::Forward => forward + blocking(times, 0),
                Phase::InputGradient => input + blocking(times, 1),
                Phase::Backward => input + weights + blocking(times, 1),
                Phase::WeightGradient => weights,
            }
        };
        let moves = |from: usize, to: usize, way: usize| match mode {
            Communication::Overlapped if self.device_of[from] != self.device_of[to] => {
                times[from].sent[way].max(times[to].received[way])
            }
            _ => 0,
        };
        let all: Vec<Operation> = self.runs.iter().flatten().copied().collect();
        // Of every operation those that it waits for, with the time from their end on.
        let mut waits: Vec<Vec<(usize, u64)>> = Vec::new();
        for (device, list) in self.runs.iter().enumerate() {
            let first: usize = self.runs[..device].iter().map(Vec::len).sum();
            for (at, of) in list.iter().enumerate() {
                let others = all.iter().enumerate();
                let others = others.filter_map(|(other, before)| {
                    let way = waits_for(of, before)?;
                    Some((other, way.map_or(0, |way| moves(before.chunk, of.chunk, way))))
                });
                let own = (at > 0).then(|| (first + at - 1, 0));
                waits.push(own.into_iter().chain(others).collect());
            }
        }
        let mut starts = vec![0; all.len()];
        loop {
            let mut has_moved = false;
            for at in 0..all.len() {
                let ready = waits[at]
                    .iter()
                    .map(|&(before, delay)| starts[before] + takes(&all[before]) + delay)
                    .max()
                    .unwrap_or(0);
                if ready > starts[at] {
                    starts[at] = ready;
                    has_moved = true;
                }
            }
            if !has_moved {
                break;
            }
        }
        let ends = all.iter().zip(&starts).map(|(of, start)| start + takes(of));
        ends.max().unwrap_or(0)
    }
}

/// Whether an operation waits for another one, and for what is moved, ahead or back.
fn waits_for(of: &Operation, before: &Operation) -> Option<Option<usize>> {
    use Phase::{Backward, Forward, InputGradient, WeightGradient};
    if before.micro_batch != of.micro_batch {
        return None;
    }
    match (of.phase, before.phase) {
        (Forward, Forward) => (before.chunk + 1 == of.chunk).then_some(Some(0)),
        (WeightGradient, InputGradient) => (before.chunk == of.chunk).then_some(None),
        (Backward | InputGradient, Forward) => (before.chunk == of.chunk).then_some(None),
        (Backward | InputGradient, Backward | InputGradient) => {
            (before.chunk == of.chunk + 1).then_some(Some(1))
        }
        _ => None,
    }
}
