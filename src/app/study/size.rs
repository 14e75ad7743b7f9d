//! How many tasks a study has, before they are listed: a slip of a few characters can ask for 10^9.

use std::collections::{BTreeSet, HashMap};

use super::grid::{Entry, is_for};
use super::places::Place;
use super::spec::{FAMILIES, StudySpec};
use super::values::combinations;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::PipelineOptions;

/// Tasks that a study may have unless more are asked for: a day's work, if each takes a second.
pub(crate) const MOST_TASKS: u64 = 100_000;

/// The largest of the lists that tasks are combined of. Each of them is a list of tasks if there is one of everything else.
pub(super) fn least(spec: &StudySpec) -> u64 {
    let instances = spec.instances.iter().map(|one| {
        let sources = match &one.generator {
            Some(_) => combinations(one.parameters.values()),
            // A pattern stands for at least one file.
            None => one.files.len() as u64,
        };
        sources.saturating_mul(one.clusters.len().max(1) as u64)
    });
    let options = spec.options.iter().map(|one| {
        let axes = one.iter().filter(|(name, _)| *name != FAMILIES);
        combinations(axes.map(|(_, values)| values))
    });
    let methods = spec.methods.iter().map(|one| {
        let seeds = combinations(&one.seeds);
        let limits = one.time_limits_s.len().max(1) as u64;
        seeds
            .saturating_mul(limits)
            .saturating_mul(one.names.len().max(1) as u64)
    });
    let sums = [
        instances.fold(0, u64::saturating_add),
        options.fold(0, u64::saturating_add),
        methods.fold(0, u64::saturating_add),
    ];
    sums.into_iter().max().unwrap_or(0)
}

/// The tasks that these lists are combined to.
pub(super) fn count(
    places: &[Place],
    grids: &[(BTreeSet<String>, PipelineOptions)],
    entries: &[Entry],
) -> u64 {
    let mut of_family: HashMap<&str, u64> = HashMap::new();
    let each = places.iter().map(|place| {
        *of_family.entry(&place.family).or_insert_with(|| {
            let options = grids
                .iter()
                .filter(|(families, _)| is_for(families, place))
                .count();
            let methods = entries
                .iter()
                .filter(|entry| is_for(&entry.families, place))
                .count();
            (options.max(1) as u64).saturating_mul(methods as u64)
        })
    });
    each.fold(0, u64::saturating_add)
}

/// Refuses more tasks than may be.
pub(super) fn check(tasks: u64, most: u64) -> Result<(), Vec<Fault>> {
    if tasks <= most {
        return Ok(());
    }
    let kind = FaultKind::Contradiction {
        found: format!("{tasks} tasks or more").into(),
        expected: format!(
            "at most {most}; `study run --most-tasks` allows more, and reports read the folder of results"
        )
        .into(),
    };
    Err(vec![Fault::new("the study", kind)])
}
