//! PipeDream's optimiser with replication: stages on several equal devices that keep their weights equal.
//!
//! [`pipedream`](super::pipedream) has the program, its source, and how its objective differs from ours. The fewer stages a
//! plan has, the more devices each may have.

use super::antichains::{self, Devices, Laid, StageSums};
use super::pipedream::lay_tied;
use super::{Effort, Heuristic, MustStop, Run};
use crate::model::options::{Groups, WorkerMode};
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::Problem;
use crate::problem::cost::allocation::{Allocation, StageWork};
use crate::problem::workers::Workers;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "pipedream-replicated",
    summary: "PipeDream's program for stages on several equal devices: the least bottleneck of work, all-reduce and links",
    source: "PipeDream, D. Narayanan et al., SOSP 2019, section 3.1",
    exact_for: "groups of equal devices without communication, with tied cuts",
    effort: Effort::Baseline,
    run: Run::Heterogeneous(applies, run),
};

fn applies(problem: &Problem, workers: &Workers) -> Result<(), Words> {
    if problem.settings.groups != Groups::Assign {
        return Err(words!(
            "its groups are given; {} lets it choose",
            setting::GROUPS.given("assign")
        ));
    }
    if workers.classes.len() > 1 {
        return Err("its devices are of several kinds".into());
    }
    if problem.settings.worker == WorkerMode::Concurrent {
        return Err("its workers run both phases at once".into());
    }
    antichains::has_few_states(&problem.tied().0)
}

fn run(problem: &Problem, workers: &Workers, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let laid = lay(problem, workers, must_stop)?;
    let choice = |&devices: &usize| workers.choice_of(&[devices]);
    Some(Allocation {
        choices: laid.devices.iter().map(choice).collect::<Option<_>>()?,
        ..Allocation::from(laid.assignment)
    })
}

/// The plan whose bottleneck is least, as PipeDream counts it, and that bottleneck. Devices are all of one class.
pub fn lay(problem: &Problem, workers: &Workers, must_stop: MustStop<'_>) -> Option<Laid> {
    let settings = &problem.settings;
    let groups: Vec<_> = workers.choices.iter().collect();
    let count = workers.inventory[0];
    let least_stages = match settings.all_stages {
        true => problem.stages(),
        false => 1,
    };
    let devices = Devices {
        stages: problem.stages(),
        all_stages: settings.all_stages,
        count,
        extra: count.checked_sub(least_stages)?,
        memory_bytes: workers.memory_bytes(settings, groups.first()?),
    };
    let resources = &workers.classes[0].resources;
    let forward_rate: f64 = resources.iter().map(|resource| resource.forward_rate).sum();
    let backward_rate: f64 = resources.iter().map(|resource| resource.backward_rate).sum();
    lay_tied(problem, |tied| {
        let stage_ns = |sums: &StageSums, m: usize| {
            let alone_ns = sums.forward_ns as f64 / forward_rate + sums.backward_ns as f64 / backward_rate;
            let work = StageWork {
                parameter_bytes: sums.parameter_bytes,
                ..StageWork::default()
            };
            // Groups of one class are listed by size.
            let ring_ns = workers.synchronization_ns(settings, groups[m - 1], &work);
            ring_ns.max((alone_ns / m as f64).round() as u64)
        };
        antichains::lay(tied, devices, stage_ns, must_stop)
    })
}
