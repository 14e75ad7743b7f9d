//! Longest processing time first: the best slicing for equal workers, then the fastest devices to the longest stages.
//!
//! Source: R. Graham, *Bounds on multiprocessing timing anomalies*, SIAM J. Applied Mathematics 17(2), 1969. Ours: the
//! stages come from [`slicing`] for workers each of which is an equal part of all devices, so that communication weighs
//! as much against work as it will.

use super::duan_wu::most_stages;
use super::grouping::Grouping;
use super::{Effort, Heuristic, MustStop, Run, global_shares, slicing};
use crate::model::options::Groups;
use crate::model::units::LARGEST_EXACT;
use crate::problem::Problem;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::Workers;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "lpt",
    summary: "the best slicing for equal workers, then the fastest device to the longest stage",
    source: "R. Graham, 1969, on slices of our own",
    exact_for: "what duan-wu is",
    effort: Effort::Quick,
    run: Run::Heterogeneous(|_, _| Ok(()), run),
};

fn run(problem: &Problem, workers: &Workers, seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let dealt = slice_and_deal(problem, workers, seed, must_stop)?;
    Some(global_shares::fill(problem, workers, dealt, must_stop))
}

/// The slicing and the workers; a plan but for a global share, or `None`.
pub(crate) fn slice_and_deal(
    problem: &Problem,
    workers: &Workers,
    seed: u64,
    must_stop: MustStop<'_>,
) -> Option<Allocation> {
    let equal = equal_workers(problem, workers, most_stages(problem, workers));
    let (assignment, _) = slicing::best_slicing(&equal, seed, must_stop)?;
    let (assignment, stages) = cost::without_empty_stages(&assignment);
    let choices = Grouping::new(problem, workers, &assignment, stages).deal()?;
    Some(Allocation {
        choices,
        ..Allocation::from(assignment)
    })
}

/// The problem for workers of which each is an equal part of all devices, pooled, taking turns, with the memory of the
/// largest device.
fn equal_workers(problem: &Problem, workers: &Workers, stages: usize) -> Problem {
    let memory = |choice| workers.memory_bytes(&problem.settings, choice);
    let mut equal = problem.homogeneous(stages, workers.choices.iter().map(memory).max());
    // Devices of each class in all, and the workers they make where those are given.
    let mut devices = vec![0.0; workers.classes.len()];
    for choice in &workers.choices {
        if choice.takes.iter().sum::<usize>() == 1 {
            let inventory: usize = choice
                .takes
                .iter()
                .zip(&workers.inventory)
                .map(|(takes, inventory)| takes * inventory)
                .sum();
            for (sum, &count) in devices.iter_mut().zip(&choice.devices) {
                *sum += (count * inventory) as f64;
            }
        }
    }
    let parts = match problem.settings.groups {
        Groups::Assign => stages,
        Groups::Given => workers.inventory.iter().sum(),
    };
    // What no device can run takes as long as still leaves sums in range.
    let most_ns = LARGEST_EXACT / equal.items.len().max(1) as u64;
    for item in &mut equal.items {
        let mut speeds = [0.0, 0.0];
        for (class, times) in item.times.iter().enumerate() {
            let Some(times) = times else { continue };
            for resource in &workers.classes[class].resources {
                speeds[0] += devices[class] * resource.forward_rate / times.forward_ns.max(1) as f64;
                speeds[1] += devices[class] * resource.backward_rate / times.backward_ns.max(1) as f64;
            }
        }
        let part_ns = |speed: f64, ns: u64| match ns {
            0 => 0,
            _ => ((parts as f64 / speed).round() as u64).min(most_ns),
        };
        item.forward_ns = part_ns(speeds[0], item.forward_ns);
        item.backward_ns = part_ns(speeds[1], item.backward_ns);
    }
    equal
}
