//! The plan that reads a prompt soonest, chunk by chunk: labels are the times at which the chunks leave the stages so far.
#![doc = include_str!("../../../formulations/prompt.md")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arcs::Arcs;
use super::{moves, unlike};
use crate::exact::bounds::Bound;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::prompt::{Reads, class_of, pass};

/// Times that are kept at most, of stages and of bounds: a quarter of a gigabyte each.
const MOST_TIMES: usize = 32_000_000;

/// How often limits are looked at and a plan is completed, in labels.
const LOOK: u64 = 256;

/// Solves a problem whose objective is the time until a prompt is read.
pub(super) fn solve(mut incumbent: Incumbent, reads: &Reads, method: Method) -> Outcome {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let (bound, bound_ns) = simple_bound(problem, reads);
    incumbent.raise(bound.source, bound_ns);
    // The programs and dynamic programs of the other methods know formulas alone.
    if method != Method::Exact {
        return incumbent.finish(StoppedBy::NoMethod);
    }
    // A plan of another size of chunks may be better than any of this one.
    if incumbent.is_over() {
        return incumbent.finish(StoppedBy::Completed);
    }
    unlike::take_quick_plans(&mut incumbent);
    let stopped_by = match Stages::new(&incumbent, reads) {
        Ok(stages) => Search::new(&stages).run(&mut incumbent),
        Err(stopped_by) => {
            moves::improve(&mut incumbent);
            stopped_by
        }
    };
    incumbent.finish(control.must_stop().unwrap_or(stopped_by))
}

/// Lower bounds alone.
pub(super) fn bound(problem: &Problem, reads: &Reads, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, reads);
    incumbent.raise(bound.source, bound_ns);
    let stopped_by = match Stages::new(&incumbent, reads) {
        Ok(stages) => {
            incumbent.raise(BoundSource::ChainsOfIdeals, stages.behind(0, 0)[0]);
            StoppedBy::Completed
        }
        Err(stopped_by) => stopped_by,
    };
    incumbent.finish(stopped_by)
}

/// What can be said without a search: the page's `work`, `item` and `chunk`.
pub(super) fn simple_bound(problem: &Problem, reads: &Reads) -> (Bound, u64) {
    let least: Vec<Vec<u64>> = (0..problem.items.len())
        .map(|item| reads.least_ns(item))
        .collect();
    let of_items = least.iter().map(|each| each.iter().sum::<u64>());
    let share_ns = of_items.clone().sum::<u64>().div_ceil(problem.stages() as u64);
    let of_chunks = (0..reads.chunks).map(|at| least.iter().map(|each| each[at]).sum::<u64>());
    let item_ns = of_items.chain(of_chunks).max().unwrap_or(0);
    let bound = |source, bottleneck_ns| {
        (
            Bound {
                source,
                bottleneck_ns,
            },
            bottleneck_ns,
        )
    };
    match item_ns > share_ns {
        true => bound(BoundSource::LargestItem, item_ns),
        false => bound(BoundSource::WorkPerStage, share_ns),
    }
}

/// A stage between two ideals on a device of a kind.
struct Stage {
    /// The larger ideal.
    to: usize,
    choice: usize,
    class: usize,
    /// What each chunk takes.
    each_ns: Vec<u64>,
}

/// All stages of plans, and what those behind an ideal take at least.
struct Stages<'a> {
    arcs: Arcs<'a>,
    /// Those that begin at each ideal.
    from: Vec<Vec<Stage>>,
    /// How many devices there are of each kind, and what one more of it adds to the number of a state: how many are taken of each.
    stock: Vec<(usize, usize)>,
    states: usize,
    chunks: usize,
    /// By ideal, state and chunk: from when a chunk is there, how long all from it on take at least; `u64::MAX` where no plan goes on.
    behind_ns: Vec<u64>,
}

impl<'a> Stages<'a> {
    /// Lists them; or why not.
    fn new(incumbent: &Incumbent<'a>, reads: &Reads) -> Result<Self, StoppedBy> {
        let problem = incumbent.problem;
        let arcs = Arcs::new(incumbent)?;
        let inventory = problem
            .workers
            .as_ref()
            .map_or(vec![problem.stages()], |workers| workers.inventory.clone());
        let (mut stock, mut states) = (Vec::new(), 1usize);
        for count in inventory.into_iter().map(|count| count.min(problem.stages())) {
            stock.push((count, states));
            states = states.saturating_mul(count + 1);
        }
        let chunks = reads.chunks;
        let options: usize = arcs.from.iter().flatten().map(|arc| arc.options.len()).sum();
        let kept = options.max(states.saturating_mul(arcs.from.len()));
        // What bounds are computed from, once for each state.
        let steps = options.saturating_mul(states) / 64;
        if kept.max(steps).saturating_mul(chunks) > MOST_TIMES {
            return Err(StoppedBy::SizeLimit);
        }
        let mut stages = Self {
            from: (0..arcs.from.len()).map(|_| Vec::new()).collect(),
            behind_ns: vec![u64::MAX; arcs.from.len() * states * chunks],
            stock,
            states,
            chunks,
            arcs,
        };
        for before in 0..stages.from.len() {
            stages.from[before] = stages.beginning_at(before, reads);
        }
        stages.fill(incumbent.control)?;
        Ok(stages)
    }

    fn beginning_at(&self, before: usize, reads: &Reads) -> Vec<Stage> {
        let (problem, ideals) = (self.arcs.problem, &self.arcs.ideals);
        let mut all = Vec::new();
        for arc in &self.arcs.from[before] {
            let members = ideals.between(before, arc.after);
            if !problem.admits_together(&members) {
                continue;
            }
            let inside = |item| ideals.sets[arc.after].contains(item) && !ideals.sets[before].contains(item);
            for &(choice, _) in &arc.options {
                let class = class_of(problem, choice);
                let each_ns = reads.stage_ns(problem, &members, inside, class);
                all.extend(each_ns.map(|each_ns| Stage {
                    to: arc.after,
                    choice,
                    class,
                    each_ns,
                }));
            }
        }
        all
    }

    fn all(&self) -> usize {
        self.from.len() - 1
    }

    fn behind(&self, ideal: usize, state: usize) -> &[u64] {
        let at = (ideal * self.states + state) * self.chunks;
        &self.behind_ns[at..at + self.chunks]
    }

    /// How many devices are taken, of a kind and in all.
    fn taken(&self, state: usize, class: usize) -> [usize; 2] {
        let of = |&(count, stride): &(usize, usize)| state / stride % (count + 1);
        [of(&self.stock[class]), self.stock.iter().map(of).sum()]
    }

    /// The state with one more stage; `None` where there is no device for it.
    fn after(&self, state: usize, stage: &Stage) -> Option<usize> {
        let (count, stride) = self.stock[stage.class];
        let [own, all] = self.taken(state, stage.class);
        (own < count && all < self.arcs.problem.stages()).then_some(state + stride)
    }

    /// The page's recursion, from the end on.
    fn fill(&mut self, control: &Control) -> Result<(), StoppedBy> {
        let (all, chunks) = (self.all(), self.chunks);
        let is_exact = self.arcs.problem.settings.all_stages;
        for state in 0..self.states {
            let [_, taken] = self.taken(state, 0);
            if !is_exact || taken == self.arcs.problem.stages() {
                let at = (all * self.states + state) * chunks;
                self.behind_ns[at..at + chunks].fill(0);
            }
        }
        for ideal in (0..all).rev() {
            for state in 0..self.states {
                if let Some(stopped_by) = control.must_stop() {
                    return Err(stopped_by);
                }
                let least = self.least(ideal, state);
                let at = (ideal * self.states + state) * chunks;
                self.behind_ns[at..at + chunks].copy_from_slice(&least);
            }
        }
        Ok(())
    }

    fn least(&self, ideal: usize, state: usize) -> Vec<u64> {
        let mut least = vec![u64::MAX; self.chunks];
        for stage in &self.from[ideal] {
            let Some(after) = self.after(state, stage) else {
                continue;
            };
            let behind = self.behind(stage.to, after);
            if behind[0] == u64::MAX {
                continue;
            }
            // What this chunk and those up to the one that goes on take here, and what comes behind that one.
            let mut longest_ns = 0;
            for (at, &ns) in stage.each_ns.iter().enumerate().rev() {
                longest_ns = ns + behind[at].max(longest_ns);
                least[at] = least[at].min(longest_ns);
            }
        }
        least
    }
}

/// The first stages of a plan.
struct Label {
    /// The same without its last stage; its own position where it has none.
    parent: usize,
    ideal: usize,
    state: usize,
    choice: usize,
    /// When each chunk leaves them.
    left_ns: Box<[u64]>,
    /// No plan that begins so is faster.
    bound_ns: u64,
    /// Whether others of the same state are as fast for every chunk.
    is_dominated: bool,
}

/// Best first, over ideals and what is taken.
struct Search<'a> {
    stages: &'a Stages<'a>,
    labels: Vec<Label>,
    /// By ideal and state, those that no other dominates.
    kept: Vec<Vec<usize>>,
    /// By bound, and of equals those that hold more.
    open: BinaryHeap<Reverse<(u64, Reverse<usize>, usize)>>,
}

impl<'a> Search<'a> {
    fn new(stages: &'a Stages<'a>) -> Self {
        let mut search = Self {
            kept: vec![Vec::new(); stages.from.len() * stages.states],
            labels: Vec::new(),
            open: BinaryHeap::new(),
            stages,
        };
        search.push(Label {
            parent: 0,
            ideal: 0,
            state: 0,
            choice: 0,
            left_ns: vec![0; stages.chunks].into(),
            bound_ns: stages.behind(0, 0)[0],
            is_dominated: false,
        });
        search
    }

    /// Looks at labels until the least bound meets the incumbent, or a limit does.
    fn run(&mut self, incumbent: &mut Incumbent) -> StoppedBy {
        let bytes = size_of::<Label>() + (self.stages.chunks + 8) * size_of::<u64>();
        let most_labels = incumbent.control.room_bytes() / (2 * bytes);
        for looked in 0.. {
            let next = self.open.peek().map(|&Reverse((bound_ns, _, at))| (bound_ns, at));
            let next = next.filter(|&(bound_ns, _)| bound_ns < u64::MAX && bound_ns <= incumbent.target_ns());
            let Some((bound_ns, at)) = next else {
                match incumbent.has_plan() {
                    true => incumbent.exhausted(BoundSource::ChainsOfIdeals),
                    false => incumbent.raise(BoundSource::ChainsOfIdeals, u64::MAX),
                }
                return StoppedBy::Completed;
            };
            if looked % LOOK == 0 {
                incumbent.raise(BoundSource::ChainsOfIdeals, bound_ns);
                incumbent.report();
                if let Some(stopped_by) = incumbent.control.must_stop() {
                    return stopped_by;
                }
                if incumbent.is_over() {
                    return StoppedBy::Completed;
                }
                self.dive(at, incumbent);
            }
            if self.labels.len() >= most_labels {
                return StoppedBy::MemoryLimit;
            }
            self.open.pop();
            incumbent.statistics.nodes += 1;
            if self.labels[at].ideal == self.stages.all() {
                incumbent.offer(self.stages.arcs.plan(&self.path(at)));
            } else if !self.labels[at].is_dominated {
                self.branch(at, incumbent.target_ns());
            }
        }
        StoppedBy::Completed
    }

    /// The stages that may come next, with when chunks leave them and the bound of what begins so.
    fn next(
        &self,
        ideal: usize,
        state: usize,
        left_ns: &[u64],
    ) -> impl Iterator<Item = (&'a Stage, usize, Vec<u64>, u64)> {
        let stages = self.stages;
        stages.from[ideal].iter().filter_map(move |stage| {
            let after = stages.after(state, stage)?;
            let behind = stages.behind(stage.to, after);
            if behind[0] == u64::MAX {
                return None;
            }
            let mut left_ns = left_ns.to_vec();
            pass(&mut left_ns, &stage.each_ns);
            let bound_ns = left_ns
                .iter()
                .zip(behind)
                .map(|(left, behind)| left + behind)
                .max();
            Some((stage, after, left_ns, bound_ns.unwrap_or(0)))
        })
    }

    fn branch(&mut self, at: usize, target_ns: u64) {
        let Label {
            ideal,
            state,
            bound_ns,
            ..
        } = self.labels[at];
        let left_ns = self.labels[at].left_ns.clone();
        let next: Vec<_> = self.next(ideal, state, &left_ns).collect();
        for (stage, state, left_ns, next_ns) in next {
            let bound_ns = bound_ns.max(next_ns);
            if bound_ns <= target_ns {
                self.push(Label {
                    parent: at,
                    ideal: stage.to,
                    state,
                    choice: stage.choice,
                    left_ns: left_ns.into(),
                    bound_ns,
                    is_dominated: false,
                });
            }
        }
    }

    /// Keeps a label unless another is as fast for every chunk; drops those that are no faster.
    fn push(&mut self, label: Label) {
        let kept = &mut self.kept[label.ideal * self.stages.states + label.state];
        let is_faster = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(one, other)| one <= other);
        if kept
            .iter()
            .any(|&other| is_faster(&self.labels[other].left_ns, &label.left_ns))
        {
            return;
        }
        let labels = &mut self.labels;
        kept.retain(|&other| {
            labels[other].is_dominated = is_faster(&label.left_ns, &labels[other].left_ns);
            !labels[other].is_dominated
        });
        let at = labels.len();
        kept.push(at);
        self.open
            .push(Reverse((label.bound_ns, Reverse(label.ideal), at)));
        labels.push(label);
    }

    /// Where the stages of a label end, and what they run on.
    fn path(&self, mut at: usize) -> Vec<(usize, usize)> {
        let mut path = Vec::new();
        while self.labels[at].parent != at {
            path.push((self.labels[at].ideal, self.labels[at].choice));
            at = self.labels[at].parent;
        }
        path.reverse();
        path
    }

    /// Completes a label by what has the least bound, stage by stage.
    fn dive(&self, at: usize, incumbent: &mut Incumbent) {
        let mut path = self.path(at);
        let Label {
            mut ideal, mut state, ..
        } = self.labels[at];
        let mut left_ns = self.labels[at].left_ns.to_vec();
        while ideal < self.stages.all() {
            let Some((stage, after, next_ns, _)) =
                self.next(ideal, state, &left_ns).min_by_key(|next| next.3)
            else {
                return;
            };
            path.push((stage.to, stage.choice));
            (ideal, state, left_ns) = (stage.to, after, next_ns);
        }
        incumbent.offer(self.stages.arcs.plan(&path));
    }
}
