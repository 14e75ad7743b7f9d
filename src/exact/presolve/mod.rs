//! Reductions: items that some best plan puts together become one, and those that could change places keep to an order.
#![doc = include_str!("../../../formulations/presolve.md")]

mod symmetry;

use std::collections::HashSet;

use fixedbitset::FixedBitSet;
use petgraph::Direction;

use crate::exact::tuning::TUNING;
use crate::model::options::{Communication, Synchronization};
use crate::problem::cost::allocation::StageWork;
use crate::problem::cost::{PhaseCost, Side, StageCost};
use crate::problem::switches::Switches;
use crate::problem::workers::Choice;
use crate::problem::{Assignment, Problem, Transfer};

/// A smaller problem, and the way back.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The problem.
    pub problem: Problem,
    /// Its item for each item of the original problem.
    pub item_of: Vec<usize>,
}

impl Reduced {
    /// Whether both are the same problem, reduced in the same way.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let pairs = |reduced: &Self| -> Vec<_> {
            let edges = reduced.problem.order.raw_edges().iter();
            edges.map(|edge| (edge.source(), edge.target())).collect()
        };
        self.item_of == other.item_of
            && self.problem.transfers == other.problem.transfers
            && pairs(self) == pairs(other)
    }

    /// Nothing reduced.
    pub(crate) fn identity(problem: &Problem) -> Self {
        Self {
            problem: problem.clone(),
            item_of: (0..problem.items.len()).collect(),
        }
    }

    /// With what tied cuts join in one item: [`Problem::tied`].
    pub(crate) fn tied(problem: &Problem) -> Self {
        let (problem, item_of) = problem.tied();
        Self { problem, item_of }
    }

    /// The assignment of the original problem's items.
    pub(crate) fn lift(&self, assignment: &Assignment) -> Assignment {
        self.item_of.iter().map(|&item| assignment[item]).collect()
    }

    /// The assignment of its items that comes nearest to one of the original problem's.
    pub(crate) fn lower(&self, assignment: &Assignment) -> Assignment {
        let mut lowered = vec![0; self.problem.items.len()];
        for (&item, &stage) in self.item_of.iter().zip(assignment).rev() {
            lowered[item] = stage;
        }
        lowered
    }

    /// A name for each item: that of the first of its items in the original problem.
    pub(crate) fn labels(&self, original: &[String]) -> Vec<String> {
        let mut labels = vec![String::new(); self.problem.items.len()];
        for (item, label) in self.item_of.iter().zip(original).rev() {
            labels[*item].clone_from(label);
        }
        labels
    }
}

/// Reduces a problem for plans whose busiest stage is at most `limit_ns`, until nothing changes.
///
/// Some plan of at most that much, if there is any, survives; the best one's objective does not change.
///
/// Time O(n + e + c) a round for n items, e order pairs and c consumers, beside the contraction's logarithm; rounds are few.
pub fn reduce(problem: &Problem, limit_ns: u64, switches: &Switches) -> Reduced {
    let mut reduced = Reduced::identity(problem);
    // What it joins, or puts in an order, a constraint may want apart.
    if problem.confined.is_some() {
        return reduced;
    }
    loop {
        let mut together = Vec::new();
        if switches.apart {
            together.extend(inseparable(&reduced.problem, limit_ns));
        }
        if switches.absorb && !problem.settings.all_stages {
            together.extend(absorbed(&reduced.problem));
        }
        if together.is_empty() {
            break;
        }
        let (smaller, item_of) = reduced.problem.merged(&together);
        reduced = Reduced {
            problem: smaller,
            item_of: reduced.item_of.iter().map(|&item| item_of[item]).collect(),
        };
    }
    if switches.symmetry {
        for (first, second) in symmetry::pairs(&reduced.problem) {
            let order = &mut reduced.problem.order;
            order.add_edge((first as u32).into(), (second as u32).into(), ());
        }
    }
    reduced
}

/// Pairs of a producer and a consumer whose separation alone would make a stage busier than the limit.
fn inseparable(problem: &Problem, limit_ns: u64) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for producer in 0..problem.items.len() {
        let produced: Vec<&Transfer> = problem.transfers_of[producer]
            .iter()
            .map(|&t| &problem.transfers[t])
            .filter(|transfer| transfer.producer == producer)
            .collect();
        let mut consumers: Vec<usize> = produced
            .iter()
            .flat_map(|t| t.consumers.iter().copied())
            .collect();
        consumers.sort_unstable();
        consumers.dedup();
        for consumer in consumers {
            let between: Vec<&Transfer> = produced
                .iter()
                .copied()
                .filter(|t| t.consumers.binary_search(&consumer).is_ok())
                .collect();
            if !is_separable(problem, [producer, consumer], &between, limit_ns) {
                pairs.push((producer, consumer));
            }
        }
    }
    pairs
}

/// Whether a producer and a consumer may lie apart: whether some two workers can run them, each with what it pays for the
/// transfers between them.
fn is_separable(problem: &Problem, ends: [usize; 2], between: &[&Transfer], limit_ns: u64) -> bool {
    let mode = problem.settings.communication;
    let paid = [Side::Producer, Side::Consumer].map(|side| {
        let mut paid = StageCost::default();
        between
            .iter()
            .for_each(|transfer| paid.add_transfer(mode, transfer, side));
        paid
    });
    let Some(workers) = &problem.workers else {
        return (0..2).all(|end| {
            let mut alone = paid[end];
            alone.add_item(problem, ends[end]);
            alone.bottleneck_ns() <= limit_ns
        });
    };
    // Whatever it does beside, a worker that pays is at least as busy as its transfers; sequential ones add them to the work.
    let fits = |end: usize, choice: &Choice| {
        let transfers = match workers.pays(choice) {
            true => paid[end],
            false => StageCost::default(),
        };
        let work = StageWork {
            transfers,
            ..StageWork::of_item(problem, ends[end])
        };
        let alone_counts = workers.is_single(choice) && workers.is_monotone(&problem.settings);
        alone_counts
            .then(|| workers.load(problem, choice, &work, &[]))
            .map_or_else(
                || transfers.bottleneck_ns() <= limit_ns,
                |load| load.is_some_and(|load| load.bottleneck_ns <= limit_ns),
            )
    };
    let able = [0, 1].map(|end| {
        let all = workers.choices.iter();
        all.filter(|choice| fits(end, choice)).collect::<Vec<_>>()
    });
    let in_stock = |a: &Choice, b: &Choice| {
        let takes = a.takes.iter().zip(&b.takes).zip(&workers.inventory);
        takes.into_iter().all(|((a, b), stock)| a + b <= *stock)
    };
    able[0].iter().any(|a| able[1].iter().any(|b| in_stock(a, b)))
}

/// Pairs of an item and one that it can follow into any stage at no cost. No item is in two
/// pairs, so that each argument holds whatever the other pairs do.
fn absorbed(problem: &Problem) -> Vec<(usize, usize)> {
    let mut hosts = Hosts::new(problem);
    let mut touched = vec![false; problem.items.len()];
    let mut pairs = Vec::new();
    for item in 0..problem.items.len() {
        if touched[item] {
            continue;
        }
        let Some(host) = hosts.host(item).filter(|&host| !touched[host]) else {
            continue;
        };
        touched[item] = true;
        touched[host] = true;
        pairs.push((item, host));
    }
    pairs
}

/// Looks for items that others can follow.
struct Hosts<'a> {
    problem: &'a Problem,
    memory_binds: bool,
    /// Items whose layer may have its other pass elsewhere, or share a table: where it lies changes what a stage must hold.
    in_pairs: FixedBitSet,
    /// For each item, the last search for paths that has come to it.
    met: Vec<usize>,
    /// Order pairs that these searches may still follow.
    steps_left: usize,
}

impl<'a> Hosts<'a> {
    fn new(problem: &'a Problem) -> Self {
        let n = problem.items.len();
        let mut in_pairs = FixedBitSet::with_capacity(n);
        let passes = problem
            .pairs
            .iter()
            .flat_map(|pair| [pair.forward, pair.backward]);
        let of_copies = problem.copies.iter().flat_map(|copy| copy.items);
        passes.chain(of_copies).for_each(|item| in_pairs.insert(item));
        Self {
            problem,
            memory_binds: !problem.memory_never_binds(),
            in_pairs,
            met: vec![usize::MAX; n],
            steps_left: TUNING.steps_of_absorbing,
        }
    }

    /// An item that another can follow into any stage: by order its last predecessor or its first successor, or any item where it
    /// has no order. The item that follows has no memory where that can bind, no parameters where groups synchronise them, and no work
    /// unless transfers are blocking.
    fn host(&mut self, item: usize) -> Option<usize> {
        let problem = self.problem;
        let own = &problem.items[item];
        let may_carry =
            problem.settings.communication == Communication::Blocking && problem.workers.is_none();
        if own.work_ns() > 0 && !may_carry || own.times.iter().any(Option::is_none) {
            return None;
        }
        // A group sends the gradients of its parameters round a ring.
        if own.parameter_bytes > 0 && problem.settings.synchronization == Synchronization::Ring {
            return None;
        }
        let holds = own.base_bytes + own.parameter_bytes + own.stash_bytes > 0;
        if self.memory_binds && (holds || self.in_pairs.contains(item)) {
            return None;
        }
        let is_free = |&host: &usize| host != item && follows_freely(problem, item, host);
        let has_order = problem
            .order
            .neighbors_undirected((item as u32).into())
            .next()
            .is_some();
        if !has_order {
            let transfers = problem.transfers_of[item].iter();
            let ends = transfers.flat_map(|&t| problem.transfers[t].items());
            return ends.chain(0..problem.items.len().min(2)).find(is_free);
        }
        let mut nearest = |direction| self.nearest(item, direction, is_free);
        nearest(Direction::Incoming).or_else(|| nearest(Direction::Outgoing))
    }

    /// The item before another that all others before it come before, or the one behind it that all others behind it come behind; if it is
    /// one that is asked for.
    ///
    /// Items are numbered along the order: only the last by number can come behind all others, and what leads to it lies between the numbers.
    fn nearest(
        &mut self,
        item: usize,
        direction: Direction,
        is_asked_for: impl Fn(&usize) -> bool,
    ) -> Option<usize> {
        let order = &self.problem.order;
        let others = |item: usize| {
            let others = order.neighbors_directed((item as u32).into(), direction);
            others.map(|other| other.index())
        };
        let [least, most] = [others(item).min()?, others(item).max()?];
        let nearest = match direction {
            Direction::Incoming => most,
            Direction::Outgoing => least,
        };
        if !is_asked_for(&nearest) {
            return None;
        }
        // Paths from it, until they have led to all others.
        let mut missing: HashSet<usize> = others(item).filter(|&other| other != nearest).collect();
        let mark = 2 * item + usize::from(direction == Direction::Outgoing);
        let mut open = vec![nearest];
        while !missing.is_empty() {
            for next in others(open.pop()?) {
                self.steps_left = self.steps_left.checked_sub(1)?;
                if (least..=most).contains(&next) && self.met[next] != mark {
                    self.met[next] = mark;
                    missing.remove(&next);
                    open.push(next);
                }
            }
        }
        Some(nearest)
    }
}

/// Whether no stage is busier if an item joins its host from whatever other stage it is in.
fn follows_freely(problem: &Problem, item: usize, host: usize) -> bool {
    let mode = problem.settings.communication;
    // Of the host's stage and of the one left: what they save, and what they may have to pay in its place.
    let [mut saved, mut paid] = [[StageCost::default(); 2]; 2];
    for transfer in problem.transfers_of[item].iter().map(|&t| &problem.transfers[t]) {
        let [own, other] = match transfer.producer == item {
            true => [Side::Producer, Side::Consumer],
            false => [Side::Consumer, Side::Producer],
        };
        if transfer.items().all(|end| end == item || end == host) {
            saved[0].add_transfer(mode, transfer, other);
            saved[1].add_transfer(mode, transfer, own);
        } else if own == Side::Producer || !transfer.items().any(|end| end == host) {
            paid[0].add_transfer(mode, transfer, own);
            paid[1].add_transfer(mode, transfer, other);
        }
    }
    // With blocking transfers, so does its work.
    paid[0].add_item(problem, item);
    saved[1].add_item(problem, item);
    let counts_phases = problem.workers.is_some()
        || problem.formula().bottlenecks == crate::model::schedule::Bottlenecks::ByPhase;
    let within = |paid: PhaseCost, saved: PhaseCost| {
        paid.load_ns() <= saved.load_ns()
            && paid.link_in_ns <= saved.link_in_ns
            && paid.link_out_ns <= saved.link_out_ns
    };
    saved.iter().zip(&paid).all(|(saved, paid)| match counts_phases {
        true => within(paid.forward, saved.forward) && within(paid.backward, saved.backward),
        false => within(paid.both(), saved.both()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::instance::Instance;
    use crate::model::options::PipelineOptions;
    use crate::model::settings::Settings;
    use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

    /// A chain of layers with these times, and tensors between them with these transfer times, in ms.
    fn chain(times: &[f64], transfers: &[f64]) -> Problem {
        let layer = |(i, &ms): (usize, &f64)| LayerSpec {
            id: format!("l{i}"),
            forward_ms: Some(ms),
            ..Default::default()
        };
        let tensor = |(i, &ms): (usize, &f64)| TensorSpec {
            producer: format!("l{i}"),
            consumers: vec![format!("l{}", i + 1)],
            transfer_ms: Some(ms),
            ..Default::default()
        };
        let spec = InstanceSpec {
            network: NetworkSpec {
                layers: times.iter().enumerate().map(layer).collect(),
                tensors: transfers.iter().enumerate().map(tensor).collect(),
                ..Default::default()
            },
            ..Default::default()
        };
        let instance = Instance::from_spec(&spec).unwrap();
        let asked = PipelineOptions {
            stages: Some(4),
            ..Default::default()
        };
        Problem::new(&instance, Settings::resolve(&instance, &asked).unwrap()).unwrap()
    }

    #[test]
    fn a_transfer_above_the_limit_joins_its_ends() {
        let problem = chain(&[1.0, 1.0, 1.0], &[9.0, 1.0]);
        let apart_alone = Switches {
            absorb: false,
            ..Switches::default()
        };
        let reduced = reduce(&problem, 9_000_000, &apart_alone);
        assert_eq!(reduced.item_of, vec![0, 0, 1]);
    }

    #[test]
    fn a_weightless_item_follows_the_dearer_of_its_transfers() {
        let problem = chain(&[9.0, 0.0, 9.0, 9.0], &[5.0, 3.0, 3.0]);
        let reduced = reduce(&problem, u64::MAX, &Switches::default());
        assert_eq!(reduced.item_of, vec![0, 0, 1, 2]);
        let problem = chain(&[9.0, 0.0, 9.0, 9.0], &[3.0, 5.0, 3.0]);
        let reduced = reduce(&problem, u64::MAX, &Switches::default());
        assert_eq!(reduced.item_of, vec![0, 1, 1, 2]);
    }

    #[test]
    fn an_item_that_costs_less_than_it_saves_follows_where_transfers_are_blocking() {
        let problem = chain(&[9.0, 1.0, 9.0, 9.0], &[5.0, 4.0, 4.0]);
        let reduced = reduce(&problem, u64::MAX, &Switches::default());
        assert_eq!(reduced.item_of, vec![0, 0, 1, 2]);
        let problem = chain(&[9.0, 1.5, 9.0, 9.0], &[5.0, 4.0, 4.0]);
        let reduced = reduce(&problem, u64::MAX, &Switches::default());
        assert_eq!(reduced.item_of, vec![0, 1, 2, 3]);
    }
}
