//! The two components that a problem falls into, with those of their ideals that are relevant.

use std::cmp::Reverse;

use crate::exact::bounds;
use crate::exact::components::component::Component;
use crate::exact::components::ideal::Ideal;
use crate::exact::components::ranges::RangeUnion;
use crate::exact::components::split::split_in_two;
use crate::exact::components::table::TooMany;
use crate::exact::tuning::TUNING;
use crate::model::options::Communication;
use crate::problem::Problem;

/// How many ideals of one component are listed.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// At most so many if all of them are.
    pub all: usize,
    /// At most so many if only those are that are relevant for limits near the bound, where transfers are no part of a load.
    pub near_bound: usize,
    /// Pairs of ideals before a boundary that are looked at one by one, at most, where transfers are blocking.
    pub pairs: usize,
    /// Bytes that the ideals of a component may take.
    pub bytes: usize,
}

impl Caps {
    /// What the portfolio allows, with so much memory.
    pub fn new(communication: Communication, bytes: usize) -> Self {
        Self {
            all: TUNING.most_ideals,
            near_bound: match communication {
                // Loads far above the work tell too little of the ideals that are relevant.
                Communication::Blocking => 0,
                Communication::Ignored | Communication::Overlapped => TUNING.most_ideals_near_bound,
            },
            pairs: TUNING.most_pairs_of_a_round,
            bytes,
        }
    }
}

/// Both components of the problem, the one with more ideals first, and the limit up to which no ideal is missing: at most `most_ns`,
/// and less where one component has too many ideals. `None` if it falls into no two components, or ideals are too many at any limit,
/// or when it must stop.
pub(crate) fn list(
    problem: &Problem,
    caps: Caps,
    most_ns: u64,
    must_stop: &dyn Fn() -> bool,
) -> Option<([Component; 2], u64)> {
    let items = split_in_two(problem, caps.all)?;
    let mut components = items
        .clone()
        .map(|items| Component::new(problem, items, None, caps.all, caps.bytes).ok());
    components.sort_by_key(|component| Reverse(component.as_ref().map_or(usize::MAX, Component::len)));
    let [large, small] = components;
    let small = small?;
    if let Some(large) = large {
        return Some(([large, small], most_ns));
    }
    let large: Vec<usize> = items.into_iter().find(|items| *items != small.items)?;
    let least_ns = bounds::work_per_stage(problem).bottleneck_ns;
    let mut above_ns = most_ns.saturating_sub(least_ns);
    loop {
        let limit_ns = least_ns + above_ns;
        let relevant_ns = relevant_work_ns(problem, &small, limit_ns);
        let listed = Component::new(
            problem,
            large.clone(),
            Some(&relevant_ns),
            caps.near_bound,
            caps.bytes,
        );
        match listed {
            Ok(large) => return Some(([large, small], limit_ns)),
            Err(TooMany::Listed) if above_ns > 0 && !must_stop() => above_ns /= TUNING.limit_shrink_factor,
            Err(_) => return None,
        }
    }
}

/// The work of ideals of a component that can lie before some boundary within a limit, beside one of the other component, whose
/// ideals are all known.
fn relevant_work_ns(problem: &Problem, known: &Component, limit_ns: u64) -> RangeUnion {
    let boundaries = 1..problem.stages();
    let of = |stages| relevant_work_before_ns(problem, known, limit_ns, stages);
    RangeUnion::new(boundaries.flat_map(of).collect())
}

/// The same for the boundary behind the first so many stages, as ranges: these can carry it, and those behind carry the rest.
pub(crate) fn relevant_work_before_ns(
    problem: &Problem,
    known: &Component,
    limit_ns: u64,
    stages: usize,
) -> impl Iterator<Item = [u64; 2]> {
    let behind_ns = (problem.stages() - stages) as u64 * limit_ns;
    let least_ns = problem.work_ns().saturating_sub(behind_ns);
    let most_ns = stages as u64 * limit_ns;
    (0..known.len() as Ideal).filter_map(move |ideal| {
        let known_ns = known.work_ns(ideal, 0);
        Some([least_ns.saturating_sub(known_ns), most_ns.checked_sub(known_ns)?])
    })
}
