//! Orders that plans say: whether they are orders of the plan's stages, can be run, and take as long as they state.
//!
//! A run of its own: devices take their operations one after the other, each as soon as what it waits for is there. Where transfers overlap, they
//! are delays between stages on different devices.

use super::costs::Load;
use super::{Checker, Violation};
use crate::model::options::{Communication, Cuts, Objective};
use crate::model::settings::Settings;
use crate::problem::plan::{Plan, PlanOrder};

/// An operation: stage, letter, micro-batch.
type Operation = (usize, char, usize);

/// Positions in what is known of a stage and a micro-batch.
const FORWARD: usize = 0;
const BACKWARD: usize = 1;
const WEIGHTS: usize = 2;

/// What operations of a stage take, in ticks: its forward pass, the gradients of its input, and those of its weights; and how long it takes from the
/// ends of the first two until the next stage, and the one before, have what they need.
struct Times {
    device: usize,
    passes: [u128; 3],
    delays: [u128; 2],
}

/// Whether plans of a problem may say an order.
pub(super) fn may_say_order(settings: &Settings) -> bool {
    settings.mode.trains()
        && settings.objective == Objective::Period
        && settings.cuts == Cuts::Tied
        && !settings.heterogeneous
        && !settings.modal
}

/// The operations that a plan's order says, by device; `None` without an order, and where it is none.
pub(super) fn operations(plan: &Plan) -> Option<Vec<Vec<Operation>>> {
    let order = plan.order.as_ref()?.read().ok()?;
    let devices = order.devices.iter().map(|list| {
        let operations = list.iter();
        let operations = operations.map(|of| (of.chunk, of.phase.letter(), of.micro_batch));
        operations.collect()
    });
    Some(devices.collect())
}

impl Checker<'_> {
    /// An order that says nothing of such a problem.
    pub(super) fn needless_order(&mut self, plan: &Plan) {
        if plan.order.is_some() && !may_say_order(self.settings) {
            self.violations.push(Violation::Field {
                field: "order".into(),
                found: "an order".into(),
                expected: "none: only tied cuts for training on devices that are alike have one, with the period as their objective".into(),
            });
        }
    }

    /// Holds the order that a plan says against its stages.
    ///
    /// * `loads`: of forward and backward passes by stage;
    /// * `weights`: gradients of weights by stage as layers say, in ticks.
    pub(super) fn own_order(&mut self, plan: &Plan, loads: &[Vec<Load>; 2], weights: &[u128]) {
        let Some(stated) = &plan.order else {
            return;
        };
        let times = self.times(stated.weight_share, loads, weights);
        let ran = match (stated.read(), operations(plan)) {
            (Ok(_), Some(operations)) => self.whole(&operations, &times, stated).and_then(|()| {
                let micro_batches = self.settings.micro_batches.unwrap_or(0) as usize;
                run(&operations, &times, micro_batches)
            }),
            (Err(faults), _) => Err(faults.first().map_or("none".into(), ToString::to_string)),
            (Ok(_), None) => Err("none".into()),
        };
        match ran {
            Ok(ends) => {
                let ticks = ends.into_iter().max().unwrap_or(0);
                self.stated_ms("order.iteration_ms".into(), stated.iteration_ms, self.ms(ticks));
            }
            Err(found) => self.violations.push(Violation::Field {
                field: "order.devices".into(),
                found,
                expected: "every operation of the plan's stages and micro-batches once, on the stage's device, none of which waits for a later one"
                    .into(),
            }),
        }
    }

    /// How long an iteration takes in the order of the problem's schedule, in ticks; `None` where it has none, or chunks are missing.
    ///
    /// * `loads`: of forward and backward passes by chunk;
    /// * `weights`: gradients of weights by chunk, in ticks.
    pub(super) fn iteration_of_chunks(
        &self,
        is_objective: bool,
        loads: &[Vec<Load>; 2],
        weights: &[u128],
    ) -> Option<u128> {
        let mut ends = ends((self.settings, is_objective), &self.times(None, loads, weights))?;
        let at_end_ns = self.sums_at_end_ns(loads[0].len(), &|chunk| self.device_of_chunk(chunk));
        for (chunk, ns) in at_end_ns.into_iter().enumerate() {
            ends[self.device_of_chunk(chunk)] += ns;
        }
        ends.into_iter().max()
    }

    /// When every device has done its last operation where chunks take so long forwards, for gradients of inputs and for those of weights, in the
    /// order of these settings.
    ///
    /// * `links`: what the links of each chunk receive and send beside that in either pass; a tensor that goes to another device is late by the longer.
    pub(super) fn ends_of_chunks(
        &self,
        of: (&Settings, bool),
        takes: &[[u128; 3]],
        links: &[[[u128; 2]; 2]],
    ) -> Option<Vec<u128>> {
        let device = |chunk: usize| self.device_of_chunk(chunk);
        let delay = |from: usize, to: Option<usize>, pass: usize| match to.filter(|&to| to < takes.len()) {
            Some(to) if device(to) != device(from) => links[from][pass][1].max(links[to][pass][0]),
            _ => 0,
        };
        let times = |(chunk, &passes): (usize, &[u128; 3])| Times {
            device: device(chunk),
            passes,
            delays: [
                delay(chunk, Some(chunk + 1), 0),
                delay(chunk, chunk.checked_sub(1), 1),
            ],
        };
        let times: Vec<Times> = takes.iter().enumerate().map(times).collect();
        ends(of, &times)
    }

    fn times(
        &self,
        weight_share: Option<f64>,
        [forward, backward]: &[Vec<Load>; 2],
        weights: &[u128],
    ) -> Vec<Times> {
        let mode = self.settings.communication;
        let stages = forward.len();
        let devices: Vec<usize> = (0..stages).map(|stage| self.device_of_chunk(stage)).collect();
        let delay = |from: usize, to: usize, loads: &[Load]| {
            let [_, sent] = loads[from].ends();
            let [received, _] = loads[to].ends();
            match devices[from] != devices[to] && mode == Communication::Overlapped {
                true => sent.max(received),
                false => 0,
            }
        };
        let times = |stage: usize| {
            let work = backward[stage].work();
            // A share is that of whole ns.
            let weights = match weight_share {
                Some(share) => ((share * work as f64).round().max(0.0) as u128).min(work),
                None => weights[stage],
            };
            let next = (stage + 1 < stages).then(|| delay(stage, stage + 1, forward));
            let before = stage.checked_sub(1).map(|before| delay(stage, before, backward));
            Times {
                device: devices[stage],
                passes: [
                    forward[stage].worker(mode),
                    backward[stage].worker(mode) - weights,
                    weights,
                ],
                delays: [next.unwrap_or(0), before.unwrap_or(0)],
            }
        };
        (0..stages).map(times).collect()
    }

    /// Whether every operation is there once and on its device; what is wrong if not.
    fn whole(
        &self,
        operations: &[Vec<Operation>],
        times: &[Times],
        stated: &PlanOrder,
    ) -> Result<(), String> {
        let micro_batches = self.settings.micro_batches.unwrap_or(0) as usize;
        if !stated
            .weight_share
            .is_none_or(|share| (0.0..=1.0).contains(&share))
        {
            return Err("a `weight_share` that is no part from 0 to 1".into());
        }
        let may_split = stated.weight_share.is_some() || self.instance.network.splits_backward();
        let all = times.len().saturating_mul(micro_batches);
        let found: usize = operations.iter().map(Vec::len).sum();
        if found < all.saturating_mul(2) {
            return Err(format!("{found} operations"));
        }
        let mut seen = vec![[0u8; 4]; all];
        for (device, list) in operations.iter().enumerate() {
            for &(stage, letter, micro_batch) in list {
                let shown = || format!("`{stage}{letter}{micro_batch}` on line {}", device + 1);
                let is_here = times.get(stage).is_some_and(|times| times.device == device);
                let at = "FBIW".find(letter).filter(|&at| at < 2 || may_split);
                match at.filter(|_| is_here && micro_batch < micro_batches) {
                    Some(at) if seen[stage * micro_batches + micro_batch][at] == 0 => {
                        seen[stage * micro_batches + micro_batch][at] = 1;
                    }
                    _ => return Err(shown()),
                }
            }
        }
        let is_whole = |seen: &[u8; 4]| matches!(seen, [1, 1, 0, 0] | [1, 0, 1, 1]);
        match seen.iter().position(|seen| !is_whole(seen)) {
            None => Ok(()),
            Some(at) => Err(format!(
                "not all of micro-batch {} on stage {}",
                at % micro_batches,
                at / micro_batches
            )),
        }
    }
}

/// When every device has done its last operation in the order of a schedule, in ticks; `None` where it has none, or chunks are missing.
///
/// * `is_objective`: whether only that runs which is asked for; if not, all micro-batches do.
fn ends((of, is_objective): (&Settings, bool), times: &[Times]) -> Option<Vec<u128>> {
    let order = match is_objective {
        true => of.order_of_objective()?,
        false => of.order_of_run()?,
    };
    let devices = order.devices.iter().map(|list| {
        let operations = list.iter();
        let operations = operations.map(|of| (of.chunk, of.phase.letter(), of.micro_batch));
        operations.collect()
    });
    let operations: Vec<Vec<Operation>> = devices.collect();
    // A plan may lack chunks, which is said elsewhere.
    let is_complete = times.len() == of.chunks();
    let micro_batches = of.micro_batches.unwrap_or(1);
    is_complete.then(|| run(&operations, times, micro_batches as usize).ok())?
}

/// When the last operation of every device ends in an order, in ticks; what waits for a later operation if there is such a thing.
fn run(operations: &[Vec<Operation>], times: &[Times], micro_batches: usize) -> Result<Vec<u128>, String> {
    let mut ends: Vec<[Option<u128>; 3]> = vec![[None; 3]; times.len() * micro_batches];
    let mut next = vec![0; operations.len()];
    let mut free = vec![0u128; operations.len()];
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for (device, list) in operations.iter().enumerate() {
            while let Some(&operation) = list.get(next[device]) {
                let Some(ready) = ready(operation, &ends, times, micro_batches) else {
                    break;
                };
                let (stage, letter, micro_batch) = operation;
                let [forward, input, weights] = times[stage].passes;
                let (at, takes) = match letter {
                    'F' => (FORWARD, forward),
                    'B' => (BACKWARD, input + weights),
                    'I' => (BACKWARD, input),
                    _ => (WEIGHTS, weights),
                };
                free[device] = free[device].max(ready) + takes;
                ends[stage * micro_batches + micro_batch][at] = Some(free[device]);
                next[device] += 1;
                has_moved = true;
            }
        }
    }
    let stuck = operations
        .iter()
        .zip(&next)
        .find_map(|(list, &next)| list.get(next));
    match stuck {
        None => Ok(free),
        Some((stage, letter, micro_batch)) => Err(format!(
            "`{stage}{letter}{micro_batch}`, which waits for a later operation"
        )),
    }
}

/// When what an operation waits for is there; `None` while it is not.
fn ready(
    (stage, letter, micro_batch): Operation,
    ends: &[[Option<u128>; 3]],
    times: &[Times],
    micro_batches: usize,
) -> Option<u128> {
    let end = |stage: usize, at: usize| ends[stage * micro_batches + micro_batch][at];
    match letter {
        'F' if stage == 0 => Some(0),
        'F' => Some(end(stage - 1, FORWARD)? + times[stage - 1].delays[FORWARD]),
        'W' => end(stage, BACKWARD),
        _ if stage + 1 == times.len() => end(stage, FORWARD),
        _ => Some(end(stage + 1, BACKWARD)? + times[stage + 1].delays[BACKWARD]),
    }
}
