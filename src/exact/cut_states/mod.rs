//! Fronts: the pairs of ideals that can lie before each boundary between stages, where transfers are blocking.
#![doc = include_str!("../../../formulations/cut_states.md")]

pub(crate) mod costs;
pub(crate) mod cross;
pub(crate) mod ground;
pub(crate) mod layer;
pub(crate) mod look;
pub(crate) mod search;
pub(crate) mod tree;

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::exact::cut_states::costs::{Costs, counted};
pub use crate::exact::cut_states::ground::Ground;
use crate::exact::cut_states::look::{Pairs, Zone, leaves};
pub use crate::exact::cut_states::search::{Corridor, Within};
use crate::exact::cut_states::search::{Known, Search};

/// Of what boundaries have room for, one part in so many: what a round must take away to be followed by another, and what makes
/// it worth to look for the fronts of a lower limit.
const WORTH_A_ROUND: u64 = 8;
const WORTH_A_LIMIT: u64 = 24;

/// The fronts of all boundaries within a limit, as far as they are known.
pub struct Fronts {
    /// The limit.
    limit_ns: u64,
    /// See [`Search::slack_ns`].
    slack_ns: u64,
    pub known: Known,
    /// See [`Search`].
    pub zones: Vec<[Zone; 2]>,
    counted: Vec<[FixedBitSet; 3]>,
    /// For each boundary, what either side may come to.
    most_ns: Vec<[i64; 2]>,
}

/// Fronts of plans whose stages are busy for at most `within.limit_ns`, with every item in its window; `None` if no plan keeps the
/// limit. It starts from those within a looser limit, if there are some, and stops looking when it must.
///
/// Time O(p t / 8 + I) a round for p pairs of nodes, I ideals and t transfers.
pub fn fronts(
    within: &Within,
    looser: Option<&Arc<Fronts>>,
    must_stop: &dyn Fn() -> bool,
) -> Option<Arc<Fronts>> {
    let &Within { ground, limit_ns, .. } = within;
    let looser = looser.filter(|looser| limit_ns <= looser.limit_ns);
    if let Some(looser) = looser {
        // Each boundary loses what all stages do.
        let boundaries = within.boundaries as u64;
        let less_ns = boundaries * (boundaries + 1) * (looser.limit_ns - limit_ns);
        if less_ns < looser.slack_ns / WORTH_A_LIMIT {
            return Some(looser.clone());
        }
    }
    let known = looser.map(|looser| &looser.known);
    let mut search = Search::new(within, known);
    let mut slack_ns = u64::MAX;
    while !must_stop() {
        let before_ns = slack_ns;
        let is_open = search.round(ground.closeness(), must_stop);
        let Some(open_ns) = search.slack_ns().filter(|_| is_open) else {
            ground.keep(search.own);
            return None;
        };
        slack_ns = open_ns;
        if slack_ns >= before_ns - before_ns / WORTH_A_ROUND {
            break;
        }
    }
    let most_ns = (0..within.boundaries)
        .map(|boundary| search.most_ns(boundary))
        .collect();
    ground.keep(search.own);
    Some(Arc::new(Fronts {
        limit_ns,
        slack_ns,
        most_ns,
        known: search.known,
        zones: search.zones,
        counted: search.counted,
    }))
}

impl Fronts {
    /// What counts at a boundary.
    pub fn costs(&self, ground: &Ground, boundary: usize) -> Costs {
        let of = |of: usize, t: usize| counted(ground, &self.counted, boundary, of, t);
        Costs::new(ground, self.most_ns[boundary], of)
    }

    /// The pairs of ideals that may lie before a boundary, as far as they are known.
    pub fn pairs(&self, boundary: usize) -> usize {
        let Pairs { level, nodes } = &self.known.pairs[boundary];
        leaves(*level, nodes.len())
    }
}
