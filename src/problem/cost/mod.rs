//! What a plan costs: written once, and used by every formulation, heuristic and report.
//!
//! A stage's work is that of its items. A transfer that crosses a cut is paid once at its producer's stage and once at
//! every other stage that consumes it, however many consumers lie there. `blocking` adds it to the stage's load;
//! `overlapped` puts it on the stage's links, where what is sent and what is received run side by side.

pub mod allocation;
pub(crate) mod global;
mod iteration;
mod modal;
pub mod virtual_stages;

pub use iteration::iteration_ns;
pub(crate) use iteration::{stage_times, sums_ns};
pub use modal::{modal_ns, modal_stages};

use crate::model::objective::Formula;
use crate::model::options::Communication;
use crate::model::schedule::Bottlenecks;
use crate::problem::{Assignment, Problem, Transfer};

/// Costs of one stage in one phase, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCost {
    /// Work of the items.
    pub work_ns: u64,
    /// Blocking transfers.
    pub communication_ns: u64,
    /// Overlapped transfers received.
    pub link_in_ns: u64,
    /// Overlapped transfers sent.
    pub link_out_ns: u64,
}

impl PhaseCost {
    /// What the stage's worker is busy with.
    pub fn load_ns(&self) -> u64 {
        self.work_ns + self.communication_ns
    }

    /// The busiest of worker, link in and link out.
    pub fn bottleneck_ns(&self) -> u64 {
        self.load_ns().max(self.link_in_ns).max(self.link_out_ns)
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            work_ns: combine(self.work_ns, other.work_ns),
            communication_ns: combine(self.communication_ns, other.communication_ns),
            link_in_ns: combine(self.link_in_ns, other.link_in_ns),
            link_out_ns: combine(self.link_out_ns, other.link_out_ns),
        }
    }
}

/// Costs of one stage, for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCost {
    /// Forward propagation.
    pub forward: PhaseCost,
    /// Backward propagation.
    pub backward: PhaseCost,
}

impl StageCost {
    /// Both phases together.
    pub fn both(&self) -> PhaseCost {
        self.forward.plus(self.backward)
    }

    /// Both costs together.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    /// What is left without a part of it.
    pub fn minus(self, part: Self) -> Self {
        self.with(part, |a, b| a - b)
    }

    /// Two costs, combined number by number.
    pub(crate) fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            forward: self.forward.with(other.forward, combine),
            backward: self.backward.with(other.backward, combine),
        }
    }

    /// What the stage's worker is busy with, in ns.
    pub fn load_ns(&self) -> u64 {
        self.both().load_ns()
    }

    /// The busiest of worker, link in and link out over both phases, in ns: the stage's own period.
    pub fn bottleneck_ns(&self) -> u64 {
        self.both().bottleneck_ns()
    }

    /// The busier of link in and link out over both phases, in ns.
    pub fn link_ns(&self) -> u64 {
        let link_in_ns = self.forward.link_in_ns + self.backward.link_in_ns;
        let link_out_ns = self.forward.link_out_ns + self.backward.link_out_ns;
        link_in_ns.max(link_out_ns)
    }

    /// Adds the work of an item.
    pub fn add_item(&mut self, problem: &Problem, item: usize) {
        self.forward.work_ns += problem.items[item].forward_ns;
        self.backward.work_ns += problem.items[item].backward_ns;
    }

    /// Adds what one side of a transfer pays.
    pub fn add_transfer(&mut self, mode: Communication, transfer: &Transfer, side: Side) {
        let backward_ns = transfer.backward_ns + transfer.gradient_ns;
        match mode {
            Communication::Ignored => {}
            Communication::Blocking => {
                self.forward.communication_ns += transfer.forward_ns;
                self.backward.communication_ns += backward_ns;
            }
            Communication::Overlapped if side == Side::Producer => {
                self.forward.link_out_ns += transfer.forward_ns;
                self.backward.link_out_ns += transfer.backward_ns;
                self.backward.link_in_ns += transfer.gradient_ns;
            }
            Communication::Overlapped => {
                self.forward.link_in_ns += transfer.forward_ns;
                self.backward.link_in_ns += transfer.backward_ns;
                self.backward.link_out_ns += transfer.gradient_ns;
            }
        }
    }
}

/// The side of a transfer on which a stage lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The producer is here, and some consumer elsewhere.
    Producer = 0,
    /// A consumer is here, and the producer elsewhere.
    Consumer = 1,
}

/// Consumers of a transfer up to which they are looked through for those of a stage.
pub(crate) const FEW_CONSUMERS: usize = 8;

/// Cost of a stage that holds just the items for which `inside` is true, listed in `members`.
///
/// It depends on the set alone, not on its place in the pipeline: the reason why dynamic programs over sets work. Time O(members and
/// ends of what they produce, and what they consume), beside sorting the latter.
pub fn stage_cost(problem: &Problem, members: &[usize], inside: impl Fn(usize) -> bool) -> StageCost {
    stage_cost_by(problem, members, inside, |t, _| &problem.transfers[t])
}

/// The same where transfers of these numbers take what is said of either side.
pub(crate) fn stage_cost_by<'t>(
    problem: &Problem,
    members: &[usize],
    inside: impl Fn(usize) -> bool,
    paid: impl Fn(usize, Side) -> &'t Transfer,
) -> StageCost {
    let mode = problem.settings.communication;
    let mut cost = StageCost::default();
    // Transfers of many consumers that a member receives.
    let mut wide = Vec::new();
    for &item in members {
        cost.add_item(problem, item);
        for &t in &problem.transfers_of[item] {
            let transfer = &problem.transfers[t];
            if item != transfer.producer && transfer.consumers.len() > FEW_CONSUMERS {
                wide.push(t);
            } else if let Some(side) = side_at(transfer, item, &inside) {
                cost.add_transfer(mode, paid(t, side), side);
            }
        }
    }
    wide.sort_unstable();
    wide.dedup();
    for t in wide {
        if !inside(problem.transfers[t].producer) {
            cost.add_transfer(mode, paid(t, Side::Consumer), Side::Consumer);
        }
    }
    cost
}

/// The side that a stage pays for through `item`, which lies in it: each charge is found at exactly one of its items, the
/// producer or the first consumer.
fn side_at(transfer: &Transfer, item: usize, inside: &impl Fn(usize) -> bool) -> Option<Side> {
    if item == transfer.producer {
        let leaves = transfer.consumers.iter().any(|&to| !inside(to));
        return leaves.then_some(Side::Producer);
    }
    let first_here = transfer.consumers.iter().find(|&&to| inside(to)) == Some(&item);
    (first_here && !inside(transfer.producer)).then_some(Side::Consumer)
}

/// The side of a transfer that a stage pays for, if it pays for one. Time O(consumers).
pub(crate) fn side_of(transfer: &Transfer, inside: impl Fn(usize) -> bool) -> Option<Side> {
    let mut consumers = transfer.consumers.iter();
    match inside(transfer.producer) {
        true => consumers.any(|&to| !inside(to)).then_some(Side::Producer),
        false => consumers.any(|&to| inside(to)).then_some(Side::Consumer),
    }
}

/// Cost of every stage of an assignment. Time O(items + transfers and their consumers).
pub fn stage_costs(problem: &Problem, assignment: &Assignment) -> Vec<StageCost> {
    stage_costs_under(problem, assignment, problem.settings.communication)
}

/// Cost of every stage of an assignment if transfers cost time as `mode` says. Under `overlapped` the links tell what is
/// received and what is sent; `blocking` charges the two to the worker.
pub(crate) fn stage_costs_under(
    problem: &Problem,
    assignment: &Assignment,
    mode: Communication,
) -> Vec<StageCost> {
    costs_of_places(problem, assignment, problem.stages(), mode)
}

/// The same for stages, devices or whatever else items may lie in; of each item its place among so many.
fn costs_of_places(
    problem: &Problem,
    place_of: &[usize],
    places: usize,
    mode: Communication,
) -> Vec<StageCost> {
    let mut costs = vec![StageCost::default(); places];
    for (item, &place) in place_of.iter().enumerate() {
        costs[place].add_item(problem, item);
    }
    let mut consuming = Vec::new();
    for transfer in &problem.transfers {
        let home = place_of[transfer.producer];
        consuming.clear();
        consuming.extend(transfer.consumers.iter().map(|&to| place_of[to]));
        consuming.sort_unstable();
        consuming.dedup();
        consuming.retain(|&place| place != home);
        if !consuming.is_empty() {
            costs[home].add_transfer(mode, transfer, Side::Producer);
        }
        for &place in &consuming {
            costs[place].add_transfer(mode, transfer, Side::Consumer);
        }
    }
    costs
}

/// The objective of the problem for stages of these costs, up to whole ns; where it is simulated, the formula that comes near it.
pub(crate) fn objective_ns(problem: &Problem, stages: &[StageCost]) -> u64 {
    problem.settings.whole_ns(formula_ns(problem.formula(), stages))
}

/// What stages of these costs come to by a formula, in ns.
pub(crate) fn formula_ns(formula: Formula, stages: &[StageCost]) -> u64 {
    let mut once_ns = 0;
    let mut longest_ns = [0, 0];
    for stage in stages {
        once_ns += formula.once_ns(stage.load_ns());
        let bottlenecks_ns = bottlenecks_ns(formula.bottlenecks, stage);
        longest_ns = [0, 1].map(|k| longest_ns[k].max(bottlenecks_ns[k]));
    }
    formula.value_ns(once_ns, longest_ns)
}

/// What a stage is to the bottlenecks of a formula, in ns; the second is 0 where there is one.
pub(crate) fn bottlenecks_ns(bottlenecks: Bottlenecks, stage: &StageCost) -> [u64; 2] {
    match bottlenecks {
        Bottlenecks::Together => [stage.bottleneck_ns(), 0],
        Bottlenecks::ByPhase => [stage.forward.bottleneck_ns(), stage.backward.bottleneck_ns()],
    }
}

/// The objective of an assignment, in ns.
pub fn assignment_ns(problem: &Problem, assignment: &Assignment) -> u64 {
    if let Some(of) = &problem.virtual_stages {
        return virtual_stages::assignment_ns(problem, of, assignment);
    }
    match problem.settings.is_simulated() {
        true => iteration_ns(problem, assignment, problem.settings.run_micro_batches()),
        false => objective_ns(problem, &stage_costs(problem, assignment)),
    }
}

/// Memory of every stage of an assignment without empty stages at its end, in bytes.
pub fn stage_memory_bytes(problem: &Problem, assignment: &Assignment, used: usize) -> Vec<u64> {
    let mut bytes = vec![0; used];
    for (item, &stage) in assignment.iter().enumerate() {
        bytes[stage] += problem.memory_bytes(&problem.items[item], used - stage);
    }
    for pair in &problem.pairs {
        let (forward, backward) = (assignment[pair.forward], assignment[pair.backward]);
        let (stash, weights) = problem.bytes_apart(pair, used - forward, used - backward);
        bytes[backward] = bytes[backward].saturating_add_signed(stash);
        bytes[forward] += weights;
    }
    for copy in problem.copies.iter().filter(|copy| !copy.is_paired) {
        let [one, other] = copy.items.map(|item| assignment[item]);
        bytes[one] -= if one == other { copy.bytes } else { 0 };
    }
    bytes
}

/// The same assignment with empty stages dropped and the rest renumbered, and how many are used.
///
/// Never costs more: stages cost the same wherever they lie, and fewer stages hold fewer micro-batches in flight.
pub fn without_empty_stages(assignment: &Assignment) -> (Assignment, usize) {
    let mut used: Vec<usize> = assignment.clone();
    used.sort_unstable();
    used.dedup();
    let renumbered = assignment
        .iter()
        .map(|stage| used.partition_point(|u| u < stage))
        .collect();
    (renumbered, used.len())
}

/// Whether every order pair goes from a stage to the same or a later one.
pub fn keeps_order(problem: &Problem, assignment: &Assignment) -> bool {
    let pairs = problem.order.edge_indices();
    let mut pairs = pairs.filter_map(|edge| problem.order.edge_endpoints(edge));
    pairs.all(|(u, v)| assignment[u.index()] <= assignment[v.index()])
}

/// Whether an assignment is a plan: order kept, memory held, every stage used where asked.
pub fn is_feasible(problem: &Problem, assignment: &Assignment) -> bool {
    if let Some(of) = &problem.virtual_stages {
        return virtual_stages::is_feasible(problem, of, assignment);
    }
    let (compact, used) = without_empty_stages(assignment);
    let enough = !problem.settings.all_stages || used == problem.stages();
    let fits = problem.settings.memory_limit.is_none_or(|limit| {
        stage_memory_bytes(problem, &compact, used)
            .into_iter()
            .all(|bytes| bytes <= limit)
    });
    let in_range = assignment.iter().all(|&stage| stage < problem.stages());
    in_range && keeps_order(problem, assignment) && enough && fits && problem.admits(assignment)
}
