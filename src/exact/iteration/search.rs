//! Best-first search over chains of ideals: plans in the order of their bounds, each simulated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::options::{Left, StageOptions};
use super::prefix::{Prefix, PrefixStage};
use super::relaxation::{First, Relaxation};
use super::simple::is_alternating;
use crate::exact::incumbent::{Incumbent, feasible_ns};
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;

/// How often limits are looked at, progress is told and a plan is completed, in partial plans.
const LOOK: u64 = 256;

/// The first stages of a plan.
#[derive(Clone, Copy)]
struct Node {
    /// The same without its last stage; its own position where it has none.
    parent: u32,
    /// What is left for stages to come.
    left: Left,
    /// Its last stage, among those that begin where it does.
    stage: u32,
    /// What tells how that is run.
    tag: u32,
    /// Whether its [prefix](Prefix) has been looked at.
    is_refined: bool,
    /// What its stages say of the iteration.
    first: First,
    /// No plan that begins so is faster, in ns.
    bound_ns: u64,
}

/// The state of a search.
pub(super) struct PlanSearch<'a> {
    options: Arc<dyn StageOptions + 'a>,
    relaxation: Relaxation,
    nodes: Vec<Node>,
    /// Nodes to look at: by bound, and of equals those with less left.
    open: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// The least bound of stages that may have a faster plan than the one that was measured, in ns.
    open_ns: u64,
    /// Whether the pipeline is one of the [prefix](Prefix): 1F1B.
    has_prefix: bool,
    most_nodes: usize,
}

impl<'a> PlanSearch<'a> {
    /// A search that has looked at nothing.
    pub(super) fn new(
        relaxation: Relaxation,
        options: Arc<dyn StageOptions + 'a>,
        incumbent: &Incumbent,
    ) -> Self {
        let bytes = size_of::<Node>() + size_of::<Reverse<(u64, u32, u32)>>();
        let mut search = Self {
            nodes: Vec::new(),
            open: BinaryHeap::new(),
            has_prefix: is_alternating(options.pipeline()),
            options,
            open_ns: relaxation.others_ns,
            // Both grow by doubling.
            most_nodes: (incumbent.control.room_bytes() / (3 * bytes)).min(u32::MAX as usize),
            relaxation,
        };
        for left in search.relaxation.starts() {
            let bound_ns = search.relaxation.least_ns(left);
            if bound_ns < u64::MAX {
                let parent = search.nodes.len() as u32;
                search.push(Node {
                    parent,
                    left,
                    stage: 0,
                    tag: 0,
                    is_refined: true,
                    first: First::default(),
                    bound_ns,
                });
            }
        }
        search
    }

    fn push(&mut self, node: Node) {
        let at = self.nodes.len() as u32;
        self.nodes.push(node);
        self.open(at);
    }

    /// Puts a node among those to look at.
    fn open(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let left = node.left.units + node.left.replicas;
        self.open.push(Reverse((node.bound_ns, left, at)));
    }

    /// Looks at so many partial plans, unless the bound meets the incumbent before, or a limit does.
    pub(super) fn run(&mut self, incumbent: &mut Incumbent, most: u64) -> StoppedBy {
        for looked in 0..most {
            let bound_ns = self
                .open
                .peek()
                .map_or(u64::MAX, |&Reverse((bound_ns, ..))| bound_ns);
            if bound_ns > incumbent.target_ns() || self.open.is_empty() {
                // Without a plan nothing is left that could be one.
                match incumbent.has_plan() {
                    _ if self.open_ns <= incumbent.target_ns() => {
                        incumbent.raise(BoundSource::ChainsOfIdeals, self.open_ns);
                        return StoppedBy::NoMethod;
                    }
                    true => incumbent.exhausted(BoundSource::ChainsOfIdeals),
                    false => incumbent.raise(BoundSource::ChainsOfIdeals, u64::MAX),
                }
                return StoppedBy::Completed;
            }
            if looked % LOOK == 0 {
                incumbent.raise(BoundSource::ChainsOfIdeals, bound_ns.min(self.open_ns));
                incumbent.report();
                if let Some(stopped_by) = incumbent.control.must_stop() {
                    return stopped_by;
                }
                if incumbent.is_over() {
                    return StoppedBy::Completed;
                }
                self.dive(incumbent);
            }
            if self.nodes.len() >= self.most_nodes {
                return StoppedBy::MemoryLimit;
            }
            self.look_at_next(incumbent);
            incumbent.statistics.nodes += 1;
        }
        StoppedBy::SizeLimit
    }

    /// Completes the most promising partial plan by what has the least bound, stage by stage.
    fn dive(&self, incumbent: &mut Incumbent) {
        let Some(&Reverse((_, _, at))) = self.open.peek() else {
            return;
        };
        let node = self.nodes[at as usize];
        let mut stages = self.stages(at);
        let (mut first, mut left) = (node.first, node.left);
        while first.ideal as usize != self.relaxation.all() {
            let next = self.relaxation.next_stages(first.ideal as usize, left);
            let ahead = stages.last().map(|&(_, tag)| tag);
            let may_follow = |behind: u32| ahead.is_none_or(|ahead| self.options.may_follow(ahead, behind));
            let next = next.filter(|(_, stage, _)| may_follow(stage.way.tag));
            let longer = next.filter_map(|(_, stage, behind)| {
                let (longer, bound_ns) = self.relaxation.extended(&first, stage, (left, behind))?;
                Some((longer, bound_ns, (stage.way.tag, behind)))
            });
            let least = longer.min_by_key(|&(_, bound_ns, _)| bound_ns.max(node.bound_ns));
            let Some((longer, _, (tag, behind))) = least else {
                return;
            };
            (first, left) = (longer, behind);
            stages.push((first.ideal, tag));
        }
        self.offer(&stages, incumbent);
    }

    fn look_at_next(&mut self, incumbent: &mut Incumbent) {
        let Some(Reverse((_, _, at))) = self.open.pop() else {
            return;
        };
        let node = self.nodes[at as usize];
        if self.has_prefix && !node.is_refined {
            let bound_ns = node.bound_ns.max(self.prefix_ns(at));
            self.nodes[at as usize].is_refined = true;
            if bound_ns > node.bound_ns {
                self.nodes[at as usize].bound_ns = bound_ns;
                if bound_ns <= incumbent.target_ns() {
                    self.open(at);
                }
                return;
            }
        }
        if node.first.ideal as usize == self.relaxation.all() {
            let is_told = self.offer(&self.stages(at), incumbent);
            if !(is_told && self.options.is_complete()) {
                self.open_ns = self.open_ns.min(node.bound_ns);
            }
            return;
        }
        self.branch(at, incumbent.target_ns());
    }

    /// Adds every stage that may come next, if plans with it may cost at most `target_ns`.
    fn branch(&mut self, at: u32, target_ns: u64) {
        let node = self.nodes[at as usize];
        let is_first = node.first.ideal == 0;
        let may_come = |tag: u32| is_first || self.options.may_follow(node.tag, tag);
        let next = self.relaxation.next_stages(node.first.ideal as usize, node.left);
        let longer =
            next.filter(|(_, stage, _)| may_come(stage.way.tag))
                .filter_map(|(place, stage, behind)| {
                    let (first, bound_ns) =
                        self.relaxation
                            .extended(&node.first, stage, (node.left, behind))?;
                    (bound_ns <= target_ns).then_some(Node {
                        parent: at,
                        left: behind,
                        stage: place as u32,
                        tag: stage.way.tag,
                        is_refined: false,
                        first,
                        bound_ns: node.bound_ns.max(bound_ns),
                    })
                });
        let longer: Vec<Node> = longer.collect();
        longer.into_iter().for_each(|node| self.push(node));
    }

    /// The nodes from the first stage to this one.
    fn path(&self, mut at: u32) -> Vec<Node> {
        let mut path = Vec::new();
        while self.nodes[at as usize].parent != at {
            path.push(self.nodes[at as usize]);
            at = self.nodes[at as usize].parent;
        }
        path.reverse();
        path
    }

    /// The page's `prefix`; 0 where it is not known what is in flight.
    fn prefix_ns(&self, at: u32) -> u64 {
        let node = self.nodes[at as usize];
        let stage = |node: &Node| {
            let parent = &self.nodes[node.parent as usize];
            let ideal = parent.first.ideal as usize;
            let stage = &self.relaxation.stages_from(ideal, parent.left)[node.stage as usize];
            Some(PrefixStage {
                passes: stage.passes(),
                replicas: stage.way.replicas as usize,
                in_flight: self.relaxation.known_in_flight(&stage.way, parent.left)? as usize,
                once_ns: stage.way.once_ns,
            })
        };
        let stages: Option<Vec<PrefixStage>> = self.path(at).iter().map(stage).collect();
        let prefix = |stages: Vec<PrefixStage>| {
            Prefix {
                is_whole: node.first.ideal as usize == self.relaxation.all(),
                stages: &stages,
                rest_ns: self.relaxation.rest_ns(node.first.ideal as usize, node.left),
                micro_batches: self.options.pipeline().settings.run_micro_batches() as usize,
            }
            .bound_ns()
        };
        stages.map_or(0, prefix)
    }

    /// The ideals that the stages of a partial plan end with, and their tags.
    fn stages(&self, at: u32) -> Vec<(u32, u32)> {
        let path = self.path(at);
        path.iter().map(|node| (node.first.ideal, node.tag)).collect()
    }

    /// Offers the plan of these stages.
    ///
    /// Says whether no other plan of the same stages has the memory that this one lacks.
    fn offer(&self, stages: &[(u32, u32)], incumbent: &mut Incumbent) -> bool {
        let tags: Vec<u32> = stages.iter().map(|stage| stage.1).collect();
        let Some(plan) = self.options.plan(self.assignment(stages), &tags) else {
            return true;
        };
        let is_told = !self.options.memory_is_joint() || feasible_ns(incumbent.problem, &plan).is_some();
        incumbent.offer(plan);
        is_told
    }

    /// The assignment whose stages end with these ideals.
    fn assignment(&self, stages: &[(u32, u32)]) -> Assignment {
        let sets = &self.relaxation.ideals.sets;
        let items = sets[self.relaxation.all()].count_ones(..);
        let mut assignment = vec![0; items];
        for (k, &(ideal, _)) in stages.iter().enumerate().rev() {
            sets[ideal as usize].ones().for_each(|item| assignment[item] = k);
        }
        assignment
    }
}
