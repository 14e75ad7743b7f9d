//! The first layers of each stage recomputed, equally many on all stages: as few as fit.

use super::uniform::{self, StageLayers};
use super::{Effort, Heuristic, MustStop, Run};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;

/// The registry's entry.
pub(super) const METHOD: Heuristic = Heuristic {
    name: "recompute-block",
    summary: "equal layers, one degree and number of replicas for all stages, and the first k layers of each computed again: the least k",
    source: "`--recompute-method block --recompute-num-layers k` of Megatron-LM, D. Narayanan et al., SC 2021",
    exact_for: "nothing",
    effort: Effort::Baseline,
    run: Run::Modal {
        applies: |_, _| Ok(()),
        run,
        estimate: None,
    },
};

fn run(problem: &Problem, modes: &Modes, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    uniform::best(problem, modes, ways, must_stop)
}

/// The first `k` layers of each stage that have a choice keep least, and all others run their fastest way; the least `k` that fits every
/// stage. More layers may need more workspace, so every `k` is tried.
fn ways(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
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
