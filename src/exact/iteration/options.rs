//! What a stage of a simulated pipeline may be, and which plan its stages are.

use crate::problem::cost::allocation::Allocation;
use crate::problem::{Assignment, Problem};

/// A way to run the items of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageOption {
    /// Forward and backward work, without transfers, in ns, each at least.
    pub works_ns: [u64; 2],
    /// Both together at least: more than their sum, where what takes least in one pass takes more in the other.
    pub work_ns: u64,
    /// How many units of devices may be left for the stage and those behind it at most, for its memory.
    pub most_left: u32,
    /// Units of devices that the stage takes.
    pub units: u32,
    /// Its replicas, each of which takes its part of the micro-batches, in place of those of the pipeline.
    pub replicas: u32,
    /// Replicas of the stage for which there is at most one replica behind in a unit.
    pub lead: u32,
    /// What the stage does once, when all its tasks are done, in ns.
    pub once_ns: u64,
    /// What tells this way from the others.
    pub tag: u32,
}

/// What stages may be: the options of a resource-constrained shortest path over ideals (S. Irnich, G. Desaulniers, *Shortest path problems
/// with resource constraints*, 2005).
pub(super) trait StageOptions: Send + Sync {
    /// The pipeline of single devices that no plan is faster than: its items, transfers, units of devices as stages, and micro-batches.
    fn pipeline(&self) -> &Problem;

    /// The ways to run the items of a stage, of which none is as fast as another and may lie as far from the end; empty where it never fits.
    fn options(&self, members: &[usize]) -> Vec<StageOption>;

    /// Whether stages and units are one, and run as single devices do.
    fn is_line(&self) -> bool {
        true
    }

    /// Whether no other plan has the same stages and tags and is faster: if not, what is proved of these stays a bound.
    fn is_complete(&self) -> bool {
        true
    }

    /// Whether stages take what is said of their work and transfers: only then it is known where more is in flight than the schedule's own number to hide
    /// transfers.
    fn hides_as_told(&self) -> bool {
        true
    }

    /// Whether a stage of a tag may lie right behind one of another.
    fn may_follow(&self, _ahead: u32, _behind: u32) -> bool {
        true
    }

    /// The most replicas of a stage.
    fn most_replicas(&self) -> u64 {
        1
    }

    /// The plan of an assignment and the tags of its stages, which takes no less than the bounds say of these options; `None` where it has no
    /// memory.
    fn plan(&self, assignment: Assignment, tags: &[u32]) -> Option<Allocation>;
}

/// Single devices, alike: one way a stage.
pub(super) struct Alike<'a>(pub &'a Problem);

impl StageOptions for Alike<'_> {
    fn pipeline(&self) -> &Problem {
        self.0
    }

    fn options(&self, members: &[usize]) -> Vec<StageOption> {
        let items = members.iter().map(|&item| &self.0.items[item]);
        let works = items.map(|item| [item.forward_ns, item.backward_ns]);
        let works_ns = works.fold([0, 0], |sum, work| [sum[0] + work[0], sum[1] + work[1]]);
        let option = |most_left| StageOption {
            works_ns,
            work_ns: works_ns.iter().sum(),
            most_left,
            units: 1,
            replicas: 1,
            lead: 1,
            once_ns: self.0.least_sums_ns(members),
            tag: 0,
        };
        let most = most_from_end(self.0, members).filter(|_| self.0.admits_together(members));
        most.map(option).into_iter().collect()
    }

    fn plan(&self, assignment: Assignment, _tags: &[u32]) -> Option<Allocation> {
        Some(assignment.into())
    }
}

/// How many stages from the end a stage of these items may lie at most, for its memory; `None` where it never fits.
fn most_from_end(problem: &Problem, members: &[usize]) -> Option<u32> {
    let Some(limit) = problem.settings.memory_limit else {
        return Some(u32::MAX);
    };
    // Weights of layers whose backward pass lies elsewhere; what is away for it is no less than with both passes here.
    let is_here = |item: usize| members.binary_search(&item).is_ok();
    let apart = problem.pairs.iter();
    let apart = apart.filter(|pair| is_here(pair.forward) && !is_here(pair.backward));
    let weights: u64 = apart.map(|pair| pair.weight_bytes).sum();
    let bytes = |from_end: usize| -> u64 {
        let items = members.iter();
        let items = items.map(|&item| problem.memory_bytes(&problem.items[item], from_end));
        items.sum::<u64>() + weights
    };
    let fits = (1..=problem.stages()).take_while(|&from_end| bytes(from_end) <= limit);
    fits.last().map(|most| most as u32)
}
