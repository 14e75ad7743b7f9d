//! The cut states of all boundaries within a limit.

use std::sync::Arc;

use crate::exact::cut_states::boundary_window::BoundaryWindow;
use crate::exact::cut_states::costs::{BoundaryCosts, Crossers};
use crate::exact::cut_states::index::CutStateIndex;
use crate::exact::cut_states::refine::NodePairs;
use crate::exact::cut_states::search::{CutStateQuery, CutStateSearch, KnownStates};
use crate::exact::tuning::TUNING;

/// The cut states of all boundaries within a limit, as far as they are known.
pub(crate) struct CutStates {
    /// No stage is busier.
    limit_ns: u64,
    /// See [`CutStateSearch::slack_ns`].
    slack_ns: u64,
    known: KnownStates,
    /// For each boundary, what windows let lie before it.
    pub windows: Vec<[BoundaryWindow; 2]>,
    /// For each boundary, the transfers that may cross it.
    crossers: Vec<Crossers>,
    /// For each boundary, what either side may cost.
    most_ns: Vec<[i64; 2]>,
}

impl CutStates {
    /// Cut states of plans whose stages are busy for at most `query.limit_ns`, with every item in its window; `None` if no plan keeps
    /// the limit. It starts from those within a looser limit, if there are some, and stops searching when it must.
    ///
    /// Time O(p t / 8 + I) a round for p pairs of nodes, I ideals and t transfers.
    pub(crate) fn find(
        query: &CutStateQuery,
        looser: Option<&Arc<Self>>,
        must_stop: &dyn Fn() -> bool,
    ) -> Option<Arc<Self>> {
        let limit_ns = query.limit_ns;
        let looser = looser.filter(|looser| limit_ns <= looser.limit_ns);
        if let Some(looser) = looser.filter(|looser| looser.serve(limit_ns)) {
            return Some(looser.clone());
        }
        let mut search = CutStateSearch::new(query, looser.map(|looser| &looser.known));
        let Some(slack_ns) = rounds(&mut search, must_stop) else {
            search.end();
            return None;
        };
        let boundaries = 0..query.boundaries;
        let most_ns = boundaries.map(|boundary| search.most_ns(boundary)).collect();
        let (known, crossers, windows) = search.end();
        Some(Arc::new(Self {
            limit_ns,
            slack_ns,
            known,
            windows,
            crossers,
            most_ns,
        }))
    }

    /// Whether a lower limit takes away too little to search again.
    fn serve(&self, limit_ns: u64) -> bool {
        // Each boundary loses what all stages do.
        let boundaries = self.windows.len() as u64;
        let less_ns = boundaries * (boundaries + 1) * (self.limit_ns - limit_ns);
        less_ns < self.slack_ns / TUNING.slack_share_for_lower_limit
    }

    /// The costs of transfers at a boundary.
    pub(crate) fn costs(&self, index: &CutStateIndex, boundary: usize) -> BoundaryCosts {
        BoundaryCosts::shared(index, self.most_ns[boundary], &self.crossers, boundary)
    }

    /// The pairs of nodes below which the cut states of a boundary lie.
    pub(crate) fn pairs(&self, boundary: usize) -> &NodePairs {
        &self.known.pairs[boundary]
    }
}

/// Goes round the boundaries while that takes enough away; the slack left, or `None` if no plan keeps the limit.
fn rounds(search: &mut CutStateSearch, must_stop: &dyn Fn() -> bool) -> Option<u64> {
    let mut slack_ns = u64::MAX;
    while !must_stop() {
        let before_ns = slack_ns;
        if !search.round(must_stop) {
            return None;
        }
        slack_ns = search.slack_ns()?;
        if slack_ns >= before_ns - before_ns / TUNING.slack_share_for_another_round {
            break;
        }
    }
    Some(slack_ns)
}
