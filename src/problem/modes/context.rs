//! Sequences that devices of a replica share out: keys and values that they hand round.

use super::{Degree, Modes, at_rate};
use crate::model::cluster::Link;
use crate::model::network::{LayerMode, Network};
use crate::model::settings::Settings;

/// Degrees of context parallelism that are asked for and share out the tokens of a micro-batch evenly, ascending.
pub(super) fn degrees_of(network: &Network, settings: &Settings, most: usize) -> Vec<usize> {
    let tokens = network.micro_batch.map_or(0.0, |of| of.tokens);
    let shares_out = |degree: &usize| *degree == 1 || tokens % *degree as f64 == 0.0;
    (1..=most)
        .filter(|&degree| settings.context_parallel.allows(degree))
        .filter(shares_out)
        .collect()
}

impl Modes {
    /// What a backward pass takes at a degree that takes so many ticks at rate 1 on a device that has the whole sequence.
    pub(crate) fn backward(&self, degree: usize, ticks: u64) -> u64 {
        at_rate(
            ticks,
            self.row(degree).rates[1] * self.degrees[degree].parts() as f64,
        )
    }

    /// What a device sends of keys and values for a layer in a mode in a forward and in a backward pass, in ticks: all but one part of them go round
    /// once, and backward once more with their gradients, and again where attention is computed again (H. Liu, M. Zaharia, P. Abbeel, *Ring attention*,
    /// 2023).
    pub(super) fn handed_round(&self, mode: &LayerMode, (degree, returns): (usize, bool)) -> [u64; 2] {
        let Degree {
            tensor,
            context,
            group,
            ..
        } = self.degrees[degree];
        let tokens = self.tokens / group as f64;
        let bytes = tokens * mode.cache.token_bytes as f64 * (context - 1) as f64 / context as f64;
        let link = Link {
            latency_ns: 0,
            ..self.links.link(
                self.links
                    .level_of_group(self.degrees[degree].row, tensor * context),
            )
        };
        let once = self.moving(bytes, link);
        let again = if mode.computes_again() { once } else { 0 };
        [once, if returns { 2 * once + again } else { 0 }]
    }
}
