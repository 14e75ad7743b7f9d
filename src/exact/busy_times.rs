//! What stages are busy with, resource by resource.

use crate::problem::Problem;
use crate::problem::cost::{Side, StageCost};

/// What a stage adds to load, link in and link out, in ns; blocking transfers are part of the load.
pub(crate) type BusyTimes = [u64; 3];

/// The sum of two.
pub(crate) fn sum(a: BusyTimes, b: BusyTimes) -> BusyTimes {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// Whether every resource keeps a limit.
pub(crate) fn keep_limit(busy: BusyTimes, limit_ns: u64) -> bool {
    busy.iter().all(|&ns| ns <= limit_ns)
}

/// What each [`Side`] of each transfer pays.
pub(crate) fn paid_by_sides(problem: &Problem) -> Vec<[BusyTimes; 2]> {
    (0..problem.transfers.len())
        .map(|transfer| paid(problem, transfer))
        .collect()
}

/// What each [`Side`] of a transfer pays.
pub(crate) fn paid(problem: &Problem, transfer: usize) -> [BusyTimes; 2] {
    [Side::Producer, Side::Consumer].map(|side| {
        let mut cost = StageCost::default();
        cost.add_transfer(problem.settings.communication, &problem.transfers[transfer], side);
        let both = cost.both();
        [both.communication_ns, both.link_in_ns, both.link_out_ns]
    })
}
