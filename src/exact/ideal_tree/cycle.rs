//! What follows from a cycle time: the stations where each task may stand.

use crate::exact::bits::{self, Rows};
use crate::exact::ideal_tree::order::Order;

/// One cycle time for one order of tasks.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    /// Largest load of a station.
    pub limit: u64,
    /// Row `k`: tasks that cannot stand later than station `k` (from 0).
    pub due: Rows,
    /// Row `k`: tasks that can stand in station `k` or before.
    pub open: Rows,
}

impl Cycle {
    /// The cycle time `limit` in both directions; `None` where windows show that no plan has it.
    ///
    /// Complexity: `O(n² log n + n · m)` for `n` tasks and `m` stations.
    pub(super) fn both(orders: &[Order; 2], limit: u64) -> Option<[Self; 2]> {
        let limit = limit.max(1);
        if orders[0].times.iter().any(|time| *time > limit) {
            return None;
        }
        let before = orders.each_ref().map(|order| earliest(order, limit));
        let behind = [0, 1].map(|direction: usize| -> Vec<usize> {
            let numbers_in = orders[direction].numbers_in(&orders[1 - direction]);
            numbers_in
                .into_iter()
                .map(|number| before[1 - direction][number])
                .collect()
        });
        let stations = orders[0].stations;
        let forward = Self::with_windows(limit, stations, &before[0], &behind[0])?;
        Some([
            forward,
            Self::with_windows(limit, stations, &before[1], &behind[1])?,
        ])
    }

    /// Turns the least numbers of stations before and behind each task into sets.
    fn with_windows(limit: u64, stations: usize, before: &[usize], behind: &[usize]) -> Option<Self> {
        let count = before.len();
        let (mut due, mut open) = (Rows::new(stations, count), Rows::new(stations, count));
        for task in 0..count {
            let last = (stations - 1)
                .checked_sub(behind[task])
                .filter(|last| before[task] <= *last)?;
            (before[task]..stations).for_each(|station| bits::insert(open.row_mut(station), task));
            (last..stations).for_each(|station| bits::insert(due.row_mut(station), task));
        }
        Some(Self { limit, due, open })
    }
}

/// A station (from 0) before which each task cannot stand.
///
/// Think of the stations as one long line of time on which each task is a piece that does not cross a multiple of `limit`. The
/// head of a task is a time at which it cannot have begun: for each set of its predecessors, their least head plus the sum of
/// their times (the one-machine bound: Johnson 1988; Klein and Scholl 1996), rounded up to the next station where it would
/// cross a boundary.
fn earliest(order: &Order, limit: u64) -> Vec<usize> {
    let count = order.count();
    let mut sorted: Vec<usize> = (0..count).collect();
    sorted.sort_by_key(|task| bits::count(order.before.row(*task)));
    let mut heads = vec![0_u64; count];
    for task in sorted {
        let mut earlier: Vec<usize> = bits::iter(order.before.row(task)).collect();
        earlier.sort_by_key(|earlier| std::cmp::Reverse(heads[*earlier]));
        let (mut head, mut sum) = (0, 0);
        for before in &earlier {
            sum += order.times[*before];
            head = head.max(heads[*before] + sum);
        }
        if head % limit + order.times[task] > limit {
            head = head.next_multiple_of(limit);
        }
        heads[task] = head;
    }
    // A task of no time that can begin at the end of a station still belongs to it.
    let station = |(head, time): (&u64, &u64)| (head + time).div_ceil(limit).saturating_sub(1) as usize;
    heads.iter().zip(&order.times).map(station).collect()
}
