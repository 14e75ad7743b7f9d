//! What is known of the sizes that the chunks of a prompt were chosen from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BoundSource, Plan, Status, StoppedBy};
use crate::model::units::NS_PER_MS;

/// What a prompt takes at best in chunks of a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChunkSize {
    /// Tokens of each chunk; the last one takes what is left.
    pub tokens: u64,
    /// The best known plan of this size takes so long, in ms; absent where none is known.
    pub objective_ms: Option<f64>,
    /// No plan of this size takes less, in ms.
    pub bound_ms: f64,
}

impl ChunkSize {
    /// What a plan says of its own size; `None` where it is proved that there is none.
    fn of(plan: &Plan) -> Option<Self> {
        let [tokens] = *plan.problem.given_chunks()? else {
            return None;
        };
        Some(Self {
            tokens,
            objective_ms: plan.objective_ms,
            bound_ms: plan.bound_ms?,
        })
    }
}

impl Plan {
    /// The best of plans of problems that differ in the size of chunks alone, with what is known of all; nothing without any.
    ///
    /// It is proved where no plan of any size is better. Time O(sizes).
    pub(crate) fn best_of_sizes(plans: Vec<Self>) -> Option<Self> {
        let mut chunk_sizes: Vec<ChunkSize> = plans.iter().filter_map(ChunkSize::of).collect();
        chunk_sizes.sort_by_key(|size| size.tokens);
        let nodes = plans.iter().map(|plan| plan.statistics.nodes).sum();
        let bound_ms = |plan: &Self| plan.bound_ms.unwrap_or(f64::INFINITY);
        let least = plans
            .iter()
            .min_by(|one, other| bound_ms(one).total_cmp(&bound_ms(other)))?;
        let least = (
            least.bound_ms,
            least.bound_source,
            least.statistics.bounds_ms.clone(),
        );
        let objective_ms = |plan: &Self| plan.objective_ms.unwrap_or(f64::INFINITY);
        let limits = plans.iter().map(|plan| plan.stopped_by);
        let limit = limits
            .clone()
            .find(|&stopped_by| stopped_by != StoppedBy::Completed);
        let mut best = plans.into_iter().min_by(|one, other| {
            let by_plan = objective_ms(one).total_cmp(&objective_ms(other));
            by_plan.then(bound_ms(one).total_cmp(&bound_ms(other)))
        })?;
        best.chunk_sizes = chunk_sizes;
        best.statistics.nodes = nodes;
        let (Some(bound_ms), bound_source, bounds_ms) = least else {
            return Some(best);
        };
        best.bound_below(bound_ms, (bound_source, bounds_ms));
        if let (Status::Feasible, Some(limit)) = (best.status, limit) {
            best.stopped_by = limit;
        }
        Some(best)
    }

    /// Takes a bound that may say less than its own, since it holds for more plans.
    fn bound_below(
        &mut self,
        bound_ms: f64,
        (source, bounds_ms): (BoundSource, std::collections::BTreeMap<BoundSource, f64>),
    ) {
        // A bound above the plan says that no other size is better, which its own bound says too where it is proved.
        if self.bound_ms.is_none_or(|own| own <= bound_ms) {
            return;
        }
        self.bound_ms = Some(bound_ms);
        self.bound_source = source;
        self.statistics.bounds_ms = bounds_ms;
        let Some(objective_ms) = self.objective_ms else {
            return;
        };
        self.gap = Some(match objective_ms > 0.0 {
            true => (objective_ms - bound_ms) / objective_ms,
            false => 0.0,
        });
        if objective_ms - bound_ms > 0.5 / NS_PER_MS {
            self.status = Status::Feasible;
        }
    }
}
