//! Lower bounds on the busiest device.

use std::collections::HashMap;

use super::chain::Chain;
use crate::bound_source::BoundSource;
use crate::exact::bounds::{self, Bound};
use crate::problem::Problem;
use crate::virtual_stages::VirtualStages;

/// The better of two bounds that hold wherever chunks lie: all work over the devices, a multiple of what all items are multiples
/// of; and the largest item.
pub(super) fn simple(problem: &Problem, of: &VirtualStages) -> Bound {
    let average = problem.work_ns().div_ceil(of.devices as u64);
    let work = Bound {
        source: BoundSource::WorkOverDevices,
        bottleneck_ns: average.next_multiple_of(bounds::quantum_ns(problem)),
    };
    let item = bounds::largest_item(problem);
    match item.bottleneck_ns > work.bottleneck_ns {
        true => item,
        false => work,
    }
}

/// Sizes that rooms are counted in: of items, and parts of a period.
const SIZES_OF_ITEMS: usize = 16;
const PARTS: u64 = 16;
/// Sizes of items that are looked at one by one.
const OTHERS: usize = 64;

/// No plan is better than this in ns, from the room of devices: the page's bound `room`. At least `from_ns`, which is a bound too, and at
/// most `to_ns`, which is of no interest.
pub(super) fn room(problem: &Problem, of: &VirtualStages, [from_ns, to_ns]: [u64; 2]) -> u64 {
    let room = Room::new(problem, of);
    // No plan takes less than `short_ns`. Whatever is refuted is a bound; periods need not be refuted in order.
    let (mut short_ns, mut long_ns) = (from_ns, to_ns);
    while short_ns < long_ns {
        let middle_ns = short_ns + (long_ns - short_ns) / 2;
        match room.refutes(middle_ns) {
            true => short_ns = middle_ns + 1,
            false => long_ns = middle_ns,
        }
    }
    short_ns
}

/// What is counted of items and devices.
struct Room<'a> {
    problem: &'a Problem,
    /// Sizes of items, the most frequent ones.
    sizes: Vec<u64>,
    /// Different sizes of items, the largest ones.
    others: Vec<u64>,
    /// Transfers that devices pay at least where none holds all items, one entry a device.
    paid_ns: Vec<u64>,
}

impl<'a> Room<'a> {
    fn new(problem: &'a Problem, of: &VirtualStages) -> Self {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for item in problem.items.iter().filter(|item| item.work_ns() > 0) {
            *counts.entry(item.work_ns()).or_default() += 1;
        }
        let mut sizes: Vec<(usize, u64)> = counts.into_iter().map(|(size, count)| (count, size)).collect();
        let mut others: Vec<u64> = sizes.iter().map(|&(_, size)| size).collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        others.truncate(OTHERS);
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.truncate(SIZES_OF_ITEMS);
        Self {
            problem,
            others,
            sizes: sizes.into_iter().map(|(_, size)| size).collect(),
            paid_ns: paid_ns(problem, of),
        }
    }

    /// Whether there is too little room for the others once an item lies on any device: beside it there is less than without it.
    fn lacks_beside(&self, item_ns: u64, [period_ns, size]: [u64; 2], [room, needed]: [u64; 2]) -> bool {
        let beside = |paid: &u64| {
            let own = period_ns.saturating_sub(*paid);
            let left = own.checked_sub(item_ns)?;
            Some(room - own / size + left / size)
        };
        let most = self.paid_ns.iter().filter_map(beside).max();
        most.is_none_or(|most| most < needed - item_ns / size)
    }

    /// Whether devices with so much time have too little room for all items, counted in any of the sizes: a device whose items take at
    /// most `T` has room for `⌊T / s⌋` sizes, and an item of `x` takes `⌊x / s⌋` of them.
    ///
    /// A device that could take all items is another case, of which nothing is said.
    fn refutes(&self, period_ns: u64) -> bool {
        if period_ns >= self.problem.work_ns() {
            return false;
        }
        let parts = (1..=PARTS).map(|parts| period_ns / (parts + 1) + 1);
        let mut sizes = [1].into_iter().chain(self.sizes.iter().copied()).chain(parts);
        sizes.any(|size| {
            let works = self.problem.items.iter().map(|item| item.work_ns() / size);
            let needed: u64 = works.sum();
            let rooms = self
                .paid_ns
                .iter()
                .map(|paid| period_ns.saturating_sub(*paid) / size);
            let room = rooms.sum::<u64>();
            let lacks = |&item_ns: &u64| self.lacks_beside(item_ns, [period_ns, size], [room, needed]);
            room < needed || self.others.iter().any(lacks)
        })
    }
}

/// What the devices behind each can do within a period: their time, less the transfers that they pay at least. A device that has time for all
/// items may pay nothing.
pub(super) fn behind_ns(chain: &Chain, of: &VirtualStages, period_ns: u64) -> Vec<u64> {
    let mut paid_ns = vec![0; of.devices];
    if period_ns < chain.work_ns(0, chain.items()) {
        paid_ns = chain_paid_ns(chain, of);
    }
    let all_stages = chain.all_stages();
    let behind = |device: usize| -> u64 {
        // Without `--all-stages` any two devices may be those that pay least, which come first.
        let own = match all_stages {
            true => &paid_ns[device + 1..],
            false => &paid_ns[..of.devices - 1 - device],
        };
        own.iter()
            .map(|paid_ns| period_ns.saturating_sub(*paid_ns))
            .fold(0, u64::saturating_add)
    };
    (0..of.devices).map(behind).collect()
}

/// What devices pay for transfers at least, where transfers block and every item of a chain sends to the next. Of a device that holds
/// anything, every run of items that does not begin with the first receives, and every run that does not end with the last sends.
fn paid_ns(problem: &Problem, of: &VirtualStages) -> Vec<u64> {
    match Chain::of(problem) {
        Some(chain) => chain_paid_ns(&chain, of),
        None => vec![0; of.devices],
    }
}

fn chain_paid_ns(chain: &Chain, of: &VirtualStages) -> Vec<u64> {
    let q = of.devices;
    let Some(least_ns) = chain.least_paid_ns().filter(|_| q > 1) else {
        return vec![0; q];
    };
    if chain.all_stages() {
        let crossings = |device: usize| -> u64 {
            let own = of.chunks_of[device].iter();
            let elsewhere = |chunk: Option<&usize>| chunk.is_some_and(|&other| other != device);
            own.map(|&chunk| {
                let before = chunk.checked_sub(1).and_then(|before| of.device_of.get(before));
                u64::from(elsewhere(before)) + u64::from(elsewhere(of.device_of.get(chunk + 1)))
            })
            .sum()
        };
        return (0..q).map(|device| least_ns * crossings(device)).collect();
    }
    // The first and the last item lie on two devices, or on one in two runs, which pays for both.
    let mut paid = vec![2 * least_ns; q];
    paid[..2].fill(least_ns);
    paid
}
