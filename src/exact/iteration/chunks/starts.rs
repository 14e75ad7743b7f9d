//! Plans to begin with: what people write down by hand.

use super::options::ChunkOptions;
use super::places;
use crate::exact::incumbent::Incumbent;
use crate::heuristics::{self, orders};
use crate::problem::control::Control;
use crate::problem::{Assignment, Problem};

/// Parts of an even chunk that the first and the last chunk hold where they have something else to do.
const PARTS_OF_ENDS: [f64; 4] = [1.0, 0.75, 0.5, 0.25];

/// Offers the plans of heuristics for the period, for as long as the control says.
pub(super) fn offer_quick(incumbent: &mut Incumbent, options: &dyn ChunkOptions, control: &Control) {
    let must_stop = || control.must_stop().is_some();
    let period = options.row().for_the_period();
    for heuristic in heuristics::METHODS.iter().filter(|_| control.switches.incumbents) {
        let plan = match must_stop() {
            true => return,
            false => heuristic.plan(&period, control.seed, &must_stop),
        };
        incumbent.offer_some(plan.and_then(|plan| options.plan(plan.assignment)));
    }
}

/// Offers even chunks.
pub(super) fn offer_even(incumbent: &mut Incumbent, options: &dyn ChunkOptions) {
    for plan in even(options) {
        incumbent.offer_some(options.plan(plan));
    }
}

/// Even chunks, for devices that differ by how fast these are: by items and by work, with smaller ones at either end.
pub(super) fn even(options: &dyn ChunkOptions) -> Vec<Assignment> {
    let (problem, of) = (options.row(), options.laid());
    let work = |item: usize| problem.items[item].work_ns() as f64;
    let order = orders::by_number(problem);
    let part = |device: usize| 1.0 / places::slower(options, device);
    let parts: Vec<f64> = (0..of.devices).map(part).collect();
    let even: Vec<f64> = of.device_of.iter().map(|&device| parts[device]).collect();
    let mut plans = Vec::new();
    for first in PARTS_OF_ENDS {
        for last in PARTS_OF_ENDS {
            let mut parts = even.clone();
            parts[0] *= first;
            parts[of.chunks() - 1] *= last;
            for weigh in [&|_| 1.0, &work as &dyn Fn(usize) -> f64] {
                plans.push(shared_out(problem, &order, &parts, weigh));
            }
        }
    }
    plans
}

/// Chunks that hold such parts of an order, by what items weigh: an item lies where its middle does.
fn shared_out(problem: &Problem, order: &[usize], parts: &[f64], weigh: &dyn Fn(usize) -> f64) -> Vec<usize> {
    let weight: f64 = order.iter().map(|&item| weigh(item)).sum();
    let scale = weight.max(f64::MIN_POSITIVE) / parts.iter().sum::<f64>();
    let mut assignment = vec![0; problem.items.len()];
    let (mut chunk, mut end, mut before) = (0, parts[0] * scale, 0.0);
    for &item in order {
        let own = weigh(item);
        while before + own / 2.0 > end && chunk + 1 < parts.len() {
            chunk += 1;
            end += parts[chunk] * scale;
        }
        assignment[item] = chunk;
        before += own;
    }
    assignment
}
