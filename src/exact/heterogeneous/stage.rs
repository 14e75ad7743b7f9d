//! What a stage holds while it grows, on workers that differ: times by class, transfers, bytes.

use crate::exact::bounds::capacity::Capacity;
use crate::exact::ideals::growth::Tally;
use crate::problem::Problem;
use crate::problem::confined::{Confined, Held};
use crate::problem::cost::allocation::{StageWork, bottleneck_ns};
use crate::problem::cost::{Side, StageCost};

/// What each side of each transfer costs a stage.
pub(super) fn sides(problem: &Problem) -> Vec<[StageCost; 2]> {
    let side = |t: usize, side: Side| {
        let mut cost = StageCost::default();
        cost.add_transfer(problem.settings.communication, &problem.transfers[t], side);
        cost
    };
    (0..problem.transfers.len())
        .map(|t| [side(t, Side::Producer), side(t, Side::Consumer)])
        .collect()
}

/// A stage that grows and shrinks.
pub(super) struct Holding<'a> {
    problem: &'a Problem,
    capacity: &'a Capacity,
    sides: &'a [[StageCost; 2]],
    /// Weight that the strongest worker can still carry within the limit.
    heaviest: f64,
    /// With memory that binds, the fewest stages behind this one: the fewer, the fewer micro-batches in flight.
    behind: Option<usize>,
    /// Weight of its items.
    pub weight: u64,
    /// Forward and backward time by class, over the items it can run.
    sums: Vec<[u64; 2]>,
    /// Items that the class cannot run.
    cannot: Vec<usize>,
    transfers: StageCost,
    /// The part of them that is paid whatever joins.
    committed: StageCost,
    /// What that may come to at most, in ns.
    most_committed_ns: u64,
    /// Bytes held once, of one further version of the weights, and of one micro-batch in flight.
    bytes: [u64; 3],
    /// What it holds, as far as stages are confined.
    held: Option<Held>,
}

impl<'a> Holding<'a> {
    /// An empty stage of a plan whose every stage does its work within a limit.
    pub(super) fn new(
        problem: &'a Problem,
        capacity: &'a Capacity,
        sides: &'a [[StageCost; 2]],
        limit_ns: u64,
        behind: Option<usize>,
    ) -> Self {
        let classes = problem
            .workers
            .as_ref()
            .map_or(&[][..], |workers| &workers.classes);
        let all_pay = classes.iter().all(|class| class.pays_communication);
        Self {
            problem,
            capacity,
            sides,
            // Half a ns of rounding for either phase.
            heaviest: capacity.strongest * (limit_ns as f64 + 1.0),
            behind,
            weight: 0,
            sums: vec![[0; 2]; classes.len()],
            cannot: vec![0; classes.len()],
            transfers: StageCost::default(),
            committed: StageCost::default(),
            most_committed_ns: match all_pay && problem.formula().is_bottleneck() {
                true => limit_ns,
                false => u64::MAX,
            },
            bytes: [0; 3],
            held: problem.confined.as_ref().map(Confined::nothing),
        }
    }

    /// Bytes of a stage that lies so many stages from the end, if the passes of its layers are together.
    pub(super) fn bytes_on(&self, from_end: usize) -> u64 {
        self.problem.settings.bytes_on(self.bytes, from_end)
    }

    /// What there is to run.
    pub(super) fn work(&self) -> StageWork {
        let times = |(&sums, &cannot): (&[u64; 2], &usize)| (cannot == 0).then_some(sums);
        StageWork {
            times_ns: self.sums.iter().zip(&self.cannot).map(times).collect(),
            transfers: self.transfers,
            parameter_bytes: self.bytes[1],
        }
    }

    fn change(&mut self, item: usize, joins: bool) {
        if let Some((confined, held)) = self.problem.confined.as_ref().zip(self.held.as_mut()) {
            match joins {
                true => confined.add(held, item),
                false => confined.remove(held, item),
            }
        }
        let turn = |sum: &mut u64, by: u64| *sum = if joins { *sum + by } else { *sum - by };
        let of = &self.problem.items[item];
        turn(&mut self.weight, self.capacity.weights[item]);
        for ((sums, cannot), times) in self.sums.iter_mut().zip(&mut self.cannot).zip(&of.times) {
            match times {
                Some(times) => {
                    turn(&mut sums[0], times.forward_ns);
                    turn(&mut sums[1], times.backward_ns);
                }
                None if joins => *cannot += 1,
                None => *cannot -= 1,
            }
        }
        for (sum, by) in self
            .bytes
            .iter_mut()
            .zip([of.base_bytes, of.parameter_bytes, of.stash_bytes])
        {
            turn(sum, by);
        }
    }
}

impl Tally for Holding<'_> {
    /// Work that the strongest worker could still carry, bytes that the largest could still hold, and what a stage may hold.
    fn admits(&self, item: usize) -> bool {
        let confined = self.problem.confined.as_ref().zip(self.held.as_ref());
        let may_hold = confined.is_none_or(|(confined, held)| confined.admits(held, item));
        let fits = |behind: usize| {
            let one = self.problem.memory_bytes(&self.problem.items[item], behind + 1);
            self.bytes_on(behind + 1) + one <= self.capacity.most_bytes
        };
        may_hold
            && (self.weight + self.capacity.weights[item]) as f64 <= self.heaviest
            && self.behind.is_none_or(fits)
    }

    fn add(&mut self, item: usize) {
        self.change(item, true);
    }

    fn remove(&mut self, item: usize) {
        self.change(item, false);
    }

    fn pay(&mut self, transfer: usize, side: Side, _is_inside: bool) {
        self.transfers = self.transfers.plus(self.sides[transfer][side as usize]);
    }

    fn stop_paying(&mut self, transfer: usize, side: Side, _is_inside: bool) {
        self.transfers = self.transfers.minus(self.sides[transfer][side as usize]);
    }

    fn commit(&mut self, transfer: usize, side: Side) {
        self.committed = self.committed.plus(self.sides[transfer][side as usize]);
    }

    fn release(&mut self, transfer: usize, side: Side) {
        self.committed = self.committed.minus(self.sides[transfer][side as usize]);
    }

    /// Transfers cost every worker the same.
    fn is_hopeless(&self) -> bool {
        bottleneck_ns(&self.problem.settings, &self.committed) > self.most_committed_ns
    }
}
