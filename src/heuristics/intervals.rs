//! Costs of the intervals of an order, grown one item at a time.
//!
//! ```text
//! order:   0 1 2 [ 3 4 5 6 ) 7 8        the stage holds positions start..end
//!                <- start    end        and grows to the left
//! ```
//!
//! A transfer is charged to an interval on its producer's side if a consumer lies outside, and on a consumer's side if
//! the producer does. When an item joins on the left, what changes follows from fixed positions alone: of the producer,
//! of the first and last consumer, and of the next consumer to the right. Nothing else has to be remembered, so growing
//! costs O(1) for each transfer of the item.
//!
//! Charges across the right end are settled: however far the interval grows to the left, they stay. Charges across the
//! left end are open.

use crate::problem::Problem;
use crate::problem::cost::{PhaseCost, Side, StageCost};

/// The intervals of one order.
pub struct Intervals<'a> {
    problem: &'a Problem,
    order: &'a [usize],
    /// What each side of each transfer pays.
    charges: Vec<Charge>,
    /// Transfers of the item at position p: `touches[first_touch[p]..first_touch[p + 1]]`.
    touches: Vec<Touch>,
    first_touch: Vec<usize>,
}

struct Charge {
    producer: StageCost,
    consumer: StageCost,
}

/// A transfer as seen from one of its items; positions count along the order.
#[derive(Clone, Default)]
struct Touch {
    transfer: usize,
    producer: usize,
    first_consumer: usize,
    last_consumer: usize,
    /// The next consumer to the right, or `usize::MAX`.
    next_consumer: usize,
}

/// One interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// First position.
    pub start: usize,
    /// Position behind the last.
    pub end: usize,
    /// Work, and charges that stay while the interval grows: no longer interval with this end costs less.
    pub settled: StageCost,
    open: StageCost,
}

impl Interval {
    /// The empty interval before a position.
    pub fn before(end: usize) -> Self {
        Self {
            start: end,
            end,
            settled: StageCost::default(),
            open: StageCost::default(),
        }
    }

    /// What a stage costs that holds the interval.
    pub fn cost(&self) -> StageCost {
        let mut cost = self.settled;
        add(&mut cost, &self.open);
        cost
    }
}

impl<'a> Intervals<'a> {
    /// Prepares an order; any permutation of the items will do. Time O(n + consumers log consumers).
    pub fn new(problem: &'a Problem, order: &'a [usize]) -> Self {
        let mut position = vec![0; order.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(at, &item)| position[item] = at);
        let mode = problem.settings.communication;
        let charges = problem.transfers.iter().map(|transfer| {
            let side = |side| {
                let mut cost = StageCost::default();
                cost.add_transfer(mode, transfer, side);
                cost
            };
            Charge {
                producer: side(Side::Producer),
                consumer: side(Side::Consumer),
            }
        });

        let mut first_touch = vec![0; order.len() + 1];
        for (at, &item) in order.iter().enumerate() {
            first_touch[at + 1] = first_touch[at] + problem.transfers_of[item].len();
        }
        let mut free = first_touch.clone();
        let mut touches = vec![Touch::default(); first_touch[order.len()]];
        let mut consumers = Vec::new();
        for (t, transfer) in problem.transfers.iter().enumerate() {
            consumers.clear();
            consumers.extend(transfer.consumers.iter().map(|&item| position[item]));
            consumers.sort_unstable();
            let producer = position[transfer.producer];
            for &at in consumers.iter().chain([&producer]) {
                let next = consumers.partition_point(|&consumer| consumer <= at);
                touches[free[at]] = Touch {
                    transfer: t,
                    producer,
                    first_consumer: consumers[0],
                    last_consumer: consumers[consumers.len() - 1],
                    next_consumer: consumers.get(next).copied().unwrap_or(usize::MAX),
                };
                free[at] += 1;
            }
        }
        Self {
            problem,
            order,
            charges: charges.collect(),
            touches,
            first_touch,
        }
    }

    /// Takes in the item left of the interval. Time O(transfers of the item).
    pub fn grow(&self, interval: &mut Interval) {
        interval.start -= 1;
        let (start, end) = (interval.start, interval.end);
        interval.settled.add_item(self.problem, self.order[start]);
        for touch in &self.touches[self.first_touch[start]..self.first_touch[start + 1]] {
            let charge = &self.charges[touch.transfer];
            let consumed_inside = touch.next_consumer < end;
            let consumed_behind = touch.last_consumer >= end;
            if touch.producer == start {
                if consumed_inside {
                    // Until now the producer was outside.
                    subtract(&mut interval.open, &charge.consumer);
                }
                if consumed_behind {
                    add(&mut interval.settled, &charge.producer);
                } else if touch.first_consumer < start {
                    add(&mut interval.open, &charge.producer);
                }
            } else if touch.producer >= end {
                if !consumed_inside {
                    add(&mut interval.settled, &charge.consumer);
                }
            } else if touch.producer < start {
                if !consumed_inside {
                    add(&mut interval.open, &charge.consumer);
                }
            } else if touch.first_consumer == start && !consumed_behind {
                // This was the last consumer outside.
                subtract(&mut interval.open, &charge.producer);
            }
        }
    }
}

fn add(to: &mut StageCost, charge: &StageCost) {
    let add = |to: &mut PhaseCost, charge: &PhaseCost| {
        to.work_ns += charge.work_ns;
        to.communication_ns += charge.communication_ns;
        to.link_in_ns += charge.link_in_ns;
        to.link_out_ns += charge.link_out_ns;
    };
    add(&mut to.forward, &charge.forward);
    add(&mut to.backward, &charge.backward);
}

/// Takes away what was added before.
fn subtract(from: &mut StageCost, charge: &StageCost) {
    let subtract = |from: &mut PhaseCost, charge: &PhaseCost| {
        from.work_ns -= charge.work_ns;
        from.communication_ns -= charge.communication_ns;
        from.link_in_ns -= charge.link_in_ns;
        from.link_out_ns -= charge.link_out_ns;
    };
    subtract(&mut from.forward, &charge.forward);
    subtract(&mut from.backward, &charge.backward);
}
