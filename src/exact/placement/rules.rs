//! Placements by rules: those of Petals and SWARM, as Helix holds itself against them.

use crate::problem::placement::{Held, Serving};

/// Kinds of all machines, one after the other.
fn machines(serving: &Serving) -> Vec<usize> {
    let kinds = serving.kinds.iter().enumerate();
    kinds
        .flat_map(|(kind, machines)| vec![kind; machines.count])
        .collect()
}

/// The most layers that a machine of a kind may hold.
fn most_layers(serving: &Serving, kind: usize) -> usize {
    let rates = &serving.kinds[kind].rates;
    rates.iter().rposition(|&rate| rate > 0).map_or(0, |at| at + 1)
}

/// Petals: machine after machine takes the run of layers that carries least so far, as many as it can hold.
///
/// Source: A. Borzunov et al., *Distributed Inference and Fine-tuning of Large Language Models Over The Internet* (2023), appendix D: runs are
/// compared by their layers' rates in ascending order; as `petals_layout.py` of Helix's artifact has it.
pub(super) fn petals(serving: &Serving) -> Vec<Held> {
    let mut carried = vec![0; serving.layers];
    let mut placed = Vec::new();
    for kind in machines(serving) {
        let layers = most_layers(serving, kind);
        let sorted = |start: &usize| {
            let mut run: Vec<u64> = carried[*start..start + layers].to_vec();
            run.sort_unstable();
            run
        };
        let Some(start) = (0..=serving.layers - layers)
            .min_by_key(sorted)
            .filter(|_| layers > 0)
        else {
            continue;
        };
        placed.push(Held { kind, start, layers });
        let rate = serving.kinds[kind].rate(layers);
        carried[start..start + layers]
            .iter_mut()
            .for_each(|layer| *layer += rate);
    }
    placed
}

/// SWARM: stages of as many layers each, as few as fit every machine; the fastest machine that is left goes to the stage that carries least.
///
/// Source: M. Ryabinin et al., *SWARM Parallelism* (2023); as `swarm_layout.py` of Helix's artifact has it.
pub(super) fn swarm(serving: &Serving) -> Vec<Held> {
    let fits = |layers: usize| {
        machines(serving)
            .iter()
            .all(|&kind| serving.kinds[kind].rate(layers) > 0)
    };
    let even = (1..=serving.layers).filter(|&stages| serving.layers.is_multiple_of(stages));
    let stages = even.into_iter().find(|stages| fits(serving.layers / stages));
    stages.map_or_else(Vec::new, |stages| filled(serving, stages))
}

/// So many stages, as even as can be, filled in the same way by the machines that fit. Ours.
pub(super) fn filled(serving: &Serving, stages: usize) -> Vec<Held> {
    let (short, longer) = (serving.layers / stages, serving.layers % stages);
    let mut order = machines(serving);
    order.sort_by_key(|&kind| std::cmp::Reverse(serving.kinds[kind].rate(short)));
    let mut carried = vec![0; stages];
    let place = |kind: usize| {
        let rate = |stage: usize| serving.kinds[kind].rate(short + usize::from(stage < longer));
        let fit = (0..stages).filter(|&stage| rate(stage) > 0);
        let stage = fit.min_by_key(|&stage| carried[stage])?;
        carried[stage] += rate(stage);
        let start = stage * short + stage.min(longer);
        let layers = short + usize::from(stage < longer);
        Some(Held { kind, start, layers })
    };
    order.into_iter().filter_map(place).collect()
}
