//! What stages may be but for their replicas.

use std::collections::BTreeSet;

use super::{Row, context, experts, sharding};
use crate::model::network::{Layer, Network};
use crate::model::settings::Settings;
use crate::model::units::gcd;

/// What a stage may be but for its replicas, which are as many times the devices of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degree {
    /// The degree of tensor parallelism.
    pub tensor: usize,
    /// The degree of expert parallelism: so many devices with the same other weights share out the experts of the layers.
    pub expert: usize,
    /// The degree of context parallelism: so many devices share out the sequence of a micro-batch.
    pub context: usize,
    /// Members of a replica that share out every micro-batch evenly and finish together.
    pub group: usize,
    /// The replicas that go with it, where these exchange something in every micro-batch.
    pub sharers: Option<usize>,
    /// Whether states of optimisers lie at hosts.
    pub at_host: bool,
    /// The row of its devices, by position in [`Modes::rows`](super::Modes::rows).
    pub row: usize,
}

impl Degree {
    /// Devices of a replica that have the same weights, each with a part of a micro-batch: members of a group, and of each of them those that share out sequences.
    pub fn parts(&self) -> usize {
        self.context * self.group
    }

    /// All that devices of a row are enough for.
    pub(super) fn all(
        network: &Network,
        settings: &Settings,
        (rows, replicas): (&[Row], &[usize]),
    ) -> Vec<Self> {
        let layers = network.layers.iter();
        let listed: BTreeSet<usize> = layers.flat_map(|layer| degrees_of(layer, settings)).collect();
        let most = rows.iter().map(|row| row.devices).max().unwrap_or(0);
        let experts = experts::degrees_of(network, settings);
        let mut copies: Vec<Copies> = Vec::new();
        for context in context::degrees_of(network, settings, most) {
            let members = if settings.forms_groups_in_modes() {
                most / context
            } else {
                1
            };
            for group in 1..=members {
                let own = sharding::groups((&experts, context * group), replicas, settings);
                copies.extend(own.map(|(expert, sharers)| Copies {
                    context,
                    group,
                    expert,
                    sharers,
                }));
            }
        }
        let mut all = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let places = settings.optimizer_offload.places().iter();
            for &at_host in places.filter(|&&at_host| row.host.is_some() || !at_host) {
                for of in &copies {
                    let fit = listed.range(..=row.devices / of.fewest());
                    all.extend(fit.map(|&tensor| Self {
                        tensor,
                        expert: of.expert,
                        context: of.context,
                        group: of.group,
                        sharers: of.sharers,
                        at_host,
                        row: at,
                    }));
                }
            }
        }
        all
    }
}

/// How the devices of a stage that have the same weights work together, but for the replicas where these are free.
struct Copies {
    context: usize,
    group: usize,
    expert: usize,
    sharers: Option<usize>,
}

impl Copies {
    /// How many of them a stage has at least.
    fn fewest(&self) -> usize {
        let own = self.context * self.group;
        let replicas = self.expert / gcd(self.expert as u64, own as u64) as usize;
        own * self.sharers.unwrap_or(replicas)
    }
}

/// Degrees of a layer's modes that are asked for.
fn degrees_of(layer: &Layer, settings: &Settings) -> Vec<usize> {
    let modes = layer.modes();
    let degrees = modes.iter().map(|mode| mode.tensor);
    degrees.filter(|&degree| settings.tensor.allows(degree)).collect()
}
