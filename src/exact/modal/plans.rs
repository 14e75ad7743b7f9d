//! Plans from stages and their modes.

use crate::problem::Assignment;
use crate::problem::modes::{Chosen, Modes, StageMode};

/// The plan of stages in pipeline order, each with its items and mode, and the best ways to run their layers; `None` where they do not fit
/// the memory.
pub(in crate::exact) fn plan_of(
    modes: &Modes,
    stages: &[(Vec<usize>, StageMode)],
) -> Option<(Assignment, Chosen)> {
    let held = modes.items.iter().flatten().flatten();
    let layers = held.flat_map(|item| &item.layers).map(|layer| layer.layer + 1);
    let mut assignment = vec![0; modes.items.len()];
    let mut chosen = Chosen {
        virtual_stages: 1,
        layers: vec![0; layers.max().unwrap_or(0)],
        stages: stages.iter().map(|(_, mode)| *mode).collect(),
    };
    let mut behind = 0;
    for (k, (items, mode)) in stages.iter().enumerate().rev() {
        let in_flight = modes.flight.of(mode.replicas, behind);
        let room = modes.room(items, mode)?;
        let layers = modes.layers_of(items, mode.degree)?;
        let ways = modes.knapsack.within(&layers, in_flight, room)?.ways;
        Modes::note_ways(&layers, &ways, &mut chosen.layers);
        items.iter().for_each(|&item| assignment[item] = k);
        behind += mode.replicas;
    }
    Some((assignment, chosen))
}
