//! What frameworks can be told to compute again, of equal layers on stages that all have one mode: nothing, everything, or the first layers of each stage.

use super::uniform::{self, StageLayers};
use super::{Heuristic, ModalRun, Run, baseline};

/// Nothing recomputed: every layer keeps what its backward pass needs.
pub(super) const NONE: Heuristic = entry(
    [
        "recompute-none",
        "equal layers, one degree and number of replicas for all stages, and nothing computed again",
    ],
    "the default of Megatron-LM, D. Narayanan et al., SC 2021, and of every framework",
    "the period of chains of equal layers that fit the memory, on stages that are alike",
    |problem, modes, _, must_stop| uniform::best(problem, modes, all_fastest, must_stop),
);

/// Everything recomputed: every layer keeps as little as it can.
pub(super) const ALL: Heuristic = entry(
    [
        "recompute-all",
        "equal layers, one degree and number of replicas for all stages, and everything computed again",
    ],
    "T. Chen et al., Training deep nets with sublinear memory cost, 2016; `--recompute-method uniform --recompute-num-layers 1` of \
     Megatron-LM, and activation checkpointing of every layer elsewhere",
    "nothing",
    |problem, modes, _, must_stop| uniform::best(problem, modes, all_smallest, must_stop),
);

/// The first layers of each stage recomputed, equally many on all stages: as few as fit.
pub(super) const BLOCK: Heuristic = entry(
    [
        "recompute-block",
        "equal layers, one degree and number of replicas for all stages, and the first k layers of each computed again: the least k",
    ],
    "`--recompute-method block --recompute-num-layers k` of Megatron-LM, D. Narayanan et al., SC 2021",
    "nothing",
    |problem, modes, _, must_stop| uniform::best(problem, modes, first_smallest, must_stop),
);

/// A method of the registry. What it runs is a function that holds no rule.
const fn entry(
    names: [&'static str; 2],
    source: &'static str,
    exact_for: &'static str,
    run: ModalRun,
) -> Heuristic {
    let run = Run::Modal {
        applies: |_, _| Ok(()),
        run,
        estimate: None,
    };
    baseline(names, source, exact_for, run)
}

/// The fastest way of each layer, where that fits.
fn all_fastest(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    uniform::where_they_fit(stages, |stage| stage.fastest())
}

/// The way of each layer that keeps least, where that fits.
fn all_smallest(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    uniform::where_they_fit(stages, |stage| stage.smallest())
}

/// The first `k` layers of each stage that have a choice keep least, and all others run their fastest way; the least `k` that fits every
/// stage. More layers may need more workspace, so every `k` is tried.
fn first_smallest(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    let smallest: Vec<Vec<usize>> = stages.iter().map(StageLayers::smallest).collect();
    let changes = |ways: &Vec<usize>| ways.iter().filter(|&&way| way != 0).count();
    let most = smallest.iter().map(changes).max()?;
    let first = |count: usize| {
        let of_stage = |(stage, smallest): (&StageLayers<'_>, &Vec<usize>)| {
            let ways = first_of(smallest, count);
            stage.fits(&ways).then_some(ways)
        };
        stages.iter().zip(&smallest).map(of_stage).collect()
    };
    (0..=most).find_map(first)
}

/// Of ways that are not the fastest the first so many, and the fastest for the other layers.
fn first_of(ways: &[usize], count: usize) -> Vec<usize> {
    let mut left = count;
    let mut keep = |&way: &usize| {
        if way == 0 || left == 0 {
            return 0;
        }
        left -= 1;
        way
    };
    ways.iter().map(&mut keep).collect()
}
