//! What a stage of a simulated pipeline may be, and which plan its stages are.

use crate::problem::cost::allocation::Allocation;
use crate::problem::{Assignment, Problem};

/// A way to run the items of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageOption {
    /// Forward and backward work, without transfers, in ns, each at least.
    pub works_ns: [u64; 2],
    /// Both together at least: more than their sum, where what takes least in one pass takes more in the other; the longer of them where devices run both at once.
    pub work_ns: u64,
    /// How many replicas the stage and those behind it may have at most, for its memory.
    pub most_left: u32,
    /// Units of devices that the stage takes; 0 where replicas say how many there are.
    pub units: u32,
    /// Its replicas, each of which takes its part of the pipeline's micro-batches.
    pub replicas: u32,
    /// What the stage does once, when all its tasks are done, in ns.
    pub once_ns: u64,
    /// What tells this way from the others.
    pub tag: u32,
}

/// What is left for a stage and those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Units of devices, at most.
    pub units: u32,
    /// Replicas of all these stages: what is in flight depends on them.
    pub replicas: u32,
}

/// What all stages of a plan may take together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stock {
    /// At most.
    pub most: Left,
    /// At least so many replicas.
    pub least_replicas: u32,
    /// Whether the most replicas stand for more of them, which are not told apart.
    pub is_open: bool,
}

impl Stock {
    /// A device for each stage.
    pub(super) fn of_line(problem: &Problem) -> Self {
        let replicas = problem.stages() as u32;
        Self {
            most: Left { units: 0, replicas },
            least_replicas: if problem.settings.all_stages { replicas } else { 1 },
            is_open: false,
        }
    }
}

/// What stages may be: the options of a resource-constrained shortest path over ideals (S. Irnich, G. Desaulniers, *Shortest path problems
/// with resource constraints*, 2005).
pub(super) trait StageOptions: Send + Sync {
    /// The pipeline of single devices that no plan is faster than: its items, transfers, stages, and micro-batches.
    fn pipeline(&self) -> &Problem;

    /// The ways to run the items of a stage, of which none is as fast as another and may lie as far from the end; empty where it never fits.
    fn options(&self, members: &[usize]) -> Vec<StageOption>;

    /// What there is for stages: single devices, unless another is said.
    fn stock(&self) -> Stock {
        Stock::of_line(self.pipeline())
    }

    /// Whether plans may have stages that hold nothing of the pipeline's items.
    fn may_have_others(&self) -> bool {
        false
    }

    /// Whether no other plan has the same stages and tags and is faster: if not, what is proved of these stays a bound.
    fn is_complete(&self) -> bool {
        true
    }

    /// Whether plans may have no memory for what stages say that they hold by themselves: then others of the same stages may have it.
    fn memory_is_joint(&self) -> bool {
        false
    }

    /// How many units a node has and the same pipeline with what transfers take between nodes, where that is known: stages take units in turn then.
    fn between_nodes(&self) -> Option<(u32, &Problem)> {
        None
    }

    /// Whether a stage of a tag may begin with so many units left.
    fn may_begin(&self, _tag: u32, _left: u32) -> bool {
        true
    }

    /// How many tags there are.
    fn tags(&self) -> u32 {
        1
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
            units: 0,
            replicas: 1,
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
