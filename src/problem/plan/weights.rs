//! Gradients of weights: the part of a stage's backward pass that no other stage waits for.

use super::stage::Staffed;
use crate::model::instance::Instance;
use crate::model::options::WorkerMode;
use crate::model::settings::Settings;
use crate::problem::workers::{Choice, Class, Workers};

/// Whether stages say what gradients of weights take: some layer does, there is a backward pass, and it may be split. Workers that
/// run both phases at once have no time of their own for a part of one.
pub(super) fn are_told(instance: &Instance, settings: &Settings) -> bool {
    settings.mode.trains() && settings.worker == WorkerMode::Sequential && instance.network.splits_backward()
}

/// The kinds of a worker's devices, and how fast all of a kind are in backward propagation.
pub(super) fn rates(workers: &Workers, choice: &Choice) -> Vec<(usize, f64)> {
    let present = workers.classes.iter().zip(&choice.devices);
    let rate = |(class, &devices): (&Class, &usize)| {
        let resources = class.resources.iter().map(|resource| resource.backward_rate);
        (devices > 0).then(|| (class.kind, devices as f64 * resources.sum::<f64>()))
    };
    present.filter_map(rate).collect()
}

/// What the gradients of weights of these layers take of the backward work of a stage, in ticks.
///
/// Every device of a stage does a part of each micro-batch, as large as it is fast, and gradients of weights are the same part of its
/// time as they are of its kind's. So on devices of one kind it is that part of the stage's backward work; on several kinds, for which
/// it may differ, the mean over their parts of the micro-batch.
pub(super) fn weight_ns(instance: &Instance, layers: &[usize], staffed: &Staffed) -> u64 {
    let work_ns = staffed.cost.backward.work_ns;
    let sums = |kind: usize| -> [u64; 2] {
        let times = layers
            .iter()
            .filter_map(|&layer| instance.network.layers[layer].times[kind]);
        times.fold([0, 0], |[weight, backward], times| {
            [weight + times.weight_ns, backward + times.backward_ns]
        })
    };
    if let [(kind, _)] = staffed.rates[..] {
        let [weight, backward] = sums(kind).map(u128::from);
        let part = u128::from(work_ns) * weight + backward / 2;
        // No more than the work, since no layer's weights take more than its backward pass.
        return u64::try_from(part.checked_div(backward).unwrap_or(0)).unwrap_or(work_ns);
    }
    let (mut done, mut of_weights) = (0.0, 0.0);
    for &(kind, rate) in &staffed.rates {
        let [weight, backward] = sums(kind).map(|ns| ns as f64);
        if backward == 0.0 {
            return 0;
        }
        done += rate / backward;
        of_weights += rate / backward * (weight / backward);
    }
    ((work_ns as f64 * (of_weights / done)).round() as u64).min(work_ns)
}
