//! A limit for every stage of a search over pairs of ideals, and what follows from it.

use std::sync::Arc;

use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::exact::components::component::Component;
use crate::exact::components::ideal::Ideal;
use crate::exact::cut_states::search::{Corridor, CutStateQuery};
use crate::exact::cut_states::states::CutStates;
use crate::exact::ideal_pairs::model::PairModel;
use crate::exact::windows;
use crate::formulations::staging::Windows;

/// Items that an ideal before a boundary cannot hold, and those that it must, as bits.
struct Restriction {
    excluded: Box<[u64]>,
    required: Box<[u64]>,
}

/// The same limit for every stage, and what follows from it.
pub(super) struct StageLimit {
    /// The limit.
    pub ns: u64,
    /// For each component and number of stages in front of a boundary, what ideals before it hold.
    restrictions: [Vec<Restriction>; 2],
    /// The pairs that can lie before each boundary, if that is looked for.
    pub cut_states: Option<Arc<CutStates>>,
}

impl StageLimit {
    /// What follows from a limit; `None` if no plan keeps it. `looser` is what is known of a looser one.
    pub(super) fn new(
        model: &PairModel,
        closure: &Closure,
        limit_ns: u64,
        looser: Option<&Self>,
        corridor: Option<&Corridor>,
    ) -> Option<Self> {
        let problem = model.problem;
        let must_stop = || model.control.must_stop().is_some();
        let windows = windows::within(problem, closure, limit_ns);
        if windows.some_is_empty() {
            return None;
        }
        let mut cut_states = None;
        if let Some(pairs) = model.indexed_pairs() {
            let looser = looser.and_then(|looser| looser.cut_states.as_ref());
            let query = CutStateQuery {
                pairs,
                limit_ns,
                windows: &windows,
                corridor,
                boundaries: problem.stages() - 1,
            };
            cut_states = Some(CutStates::find(&query, looser, &must_stop)?);
        }
        let [first, second] = &model.components;
        Some(Self {
            ns: limit_ns,
            cut_states,
            restrictions: [
                restrictions(first, &windows, problem.stages()),
                restrictions(second, &windows, problem.stages()),
            ],
        })
    }

    /// Whether an ideal can lie before a boundary with so many stages in front.
    pub(super) fn may_lie(&self, components: &[Component; 2], p: usize, ideal: Ideal, stages: usize) -> bool {
        let Restriction { excluded, required } = &self.restrictions[p][stages];
        let members = components[p].members(ideal);
        !bits::intersect(excluded, members) && bits::is_subset(required, members)
    }
}

/// For each number of stages in front of a boundary, what ideals of a component before it hold.
fn restrictions(component: &Component, windows: &Windows, stages: usize) -> Vec<Restriction> {
    let before = |stages: usize| Restriction {
        excluded: component.items_where(|item| windows.earliest[item] >= stages),
        required: component.items_where(|item| windows.latest[item] < stages),
    };
    (0..=stages).map(before).collect()
}
