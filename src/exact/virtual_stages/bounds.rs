//! Lower bounds on the busiest device.

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
