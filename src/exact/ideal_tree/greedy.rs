//! First plans: the stations are filled one after the other, each with the most promising of its loads (Hoffmann 1963).

use std::ops::ControlFlow;

use crate::exact::bits;
use crate::exact::ideal_tree::cycle::Cycle;
use crate::exact::ideal_tree::loads::{Loads, Station};
use crate::exact::ideal_tree::order::Order;

/// Steps that the enumeration of one station's loads may take, for each task.
const EFFORT: u64 = 10;
/// How much less than its time a task is worth for being one more task, in thousandths of the mean time.
const COUNT: i64 = 50;

/// What each task is worth when it is done: its time, `following` thousandths of what must come after it, less a little for
/// being one more task (Hoffmann's rule as modified by Sewell and Jacobson 2012). In millionths of the mean time.
pub(super) fn merits(order: &Order, following: u64) -> Vec<i64> {
    let total = u128::from(order.total.max(1));
    let after = |task| -> u64 {
        bits::iter(order.after.row(task))
            .map(|later| order.times[later])
            .sum()
    };
    let merit = |task| {
        let worth = u128::from(order.times[task]) * 1000 + u128::from(after(task)) * u128::from(following);
        (worth * 1000 * order.count() as u128 / total) as i64 - COUNT * 1000
    };
    (0..order.count()).map(merit).collect()
}

/// Fills the stations one after the other with the loads of most merit; the tasks of each, or `None` where they do not fit.
///
/// Complexity: `O(m · n · w)` steps for `m` stations.
pub(super) fn fill(
    order: &Order,
    cycle: &Cycle,
    merits: &[i64],
    must_stop: &dyn Fn() -> bool,
) -> Option<Vec<Vec<usize>>> {
    let effort = EFFORT * order.count() as u64;
    let mut loads = Loads::new(order);
    let mut done = vec![0; bits::words(order.count())];
    let mut plan = Vec::new();
    let mut left = order.total;
    for at in 0..order.stations {
        let spare = cycle.limit.saturating_mul((order.stations - at) as u64);
        let idle = spare.checked_sub(left)?.min(cycle.limit);
        let station = Station {
            order,
            cycle,
            at,
            done: &done,
            idle,
            work: effort,
            must_stop,
        };
        let mut best: Option<(i64, Vec<u64>)> = None;
        loads.visit(&station, &mut |load| {
            let merit: i64 = bits::iter(load).map(|task| merits[task]).sum();
            if best.as_ref().is_none_or(|(most, _)| merit > *most) {
                best = Some((merit, load.to_vec()));
            }
            ControlFlow::Continue(())
        });
        let (_, load) = best?;
        let tasks: Vec<usize> = bits::iter(&load).collect();
        left -= tasks.iter().map(|task| order.times[*task]).sum::<u64>();
        bits::unite(&mut done, &load);
        plan.push(tasks);
    }
    (bits::count(&done) as usize == order.count()).then_some(plan)
}
