//! Lower bounds on the busiest device.

use super::chain::Chain;
use crate::exact::bounds::{self, Bound};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::virtual_stages::VirtualStages;
use crate::search::limits::least_left;

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

/// No plan of a chain is better than this in ns: the least period at which devices have time for all work beside the transfers that they pay
/// at least. At least `from_ns`, which is a bound too, and at most `to_ns`, which is of no interest.
pub(super) fn work_and_transfers_ns(chain: &Chain, of: &VirtualStages, [from_ns, to_ns]: [u64; 2]) -> u64 {
    let paid_ns = chain_paid_ns(chain, of);
    let work_ns = chain.work_ns(0, chain.items());
    // A device that has time for all items may pay nothing.
    least_left([from_ns, to_ns.min(work_ns)], |period_ns| {
        let left_ns = paid_ns.iter().map(|paid_ns| period_ns.saturating_sub(*paid_ns));
        left_ns.sum::<u64>() < work_ns
    })
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
