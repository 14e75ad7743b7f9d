//! The two parts that a problem falls into, with those of their ideals that count.

use std::cmp::Reverse;

use crate::exact::bounds;
use crate::exact::ideal_pairs::listing::Ranges;
use crate::exact::ideal_pairs::part::{Ideal, Part, TooMany, in_two};
use crate::options::Communication;
use crate::problem::Problem;

/// Where ideals are too many, how many times as close to the bound the next limit lies for which they are listed.
const CLOSER: u64 = 4;

/// How many ideals of one part are listed.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// At most so many if all of them are.
    pub all: usize,
    /// At most so many if only those are that count for limits near the bound, where transfers are no part of a load.
    pub wanted: usize,
    /// Pairs of ideals before a boundary that are looked at one by one, at most, where transfers are blocking.
    pub pairs: usize,
}

impl Caps {
    /// Where there are more, passes hardly ever end in time, and the program has the machine to itself.
    pub fn new(communication: Communication) -> Self {
        Self {
            all: 300_000,
            wanted: match communication {
                // Loads far above the work tell too little of the ideals that count.
                Communication::Blocking => 0,
                Communication::Ignored | Communication::Overlapped => 1_000_000,
            },
            // Hundredths of a second's work.
            pairs: 1 << 17,
        }
    }
}

/// Both parts of the problem, the one with more ideals first, and the limit up to which none is missing: at most `most_ns`, and less
/// where one part has too many ideals. `None` if it falls into no two parts, or ideals are too many at any limit, or when it must stop.
pub fn list(
    problem: &Problem,
    caps: Caps,
    most_ns: u64,
    must_stop: &dyn Fn() -> bool,
) -> Option<([Part; 2], u64)> {
    let items = in_two(problem, caps.all)?;
    let mut parts = items
        .clone()
        .map(|items| Part::new(problem, items, None, caps.all).ok());
    parts.sort_by_key(|part| Reverse(part.as_ref().map_or(usize::MAX, Part::len)));
    let [large, small] = parts;
    let small = small?;
    if let Some(large) = large {
        return Some(([large, small], most_ns));
    }
    let large: Vec<usize> = items.into_iter().find(|items| *items != small.items)?;
    let least_ns = bounds::work_per_stage(problem).bottleneck_ns;
    let mut spare_ns = most_ns.saturating_sub(least_ns);
    loop {
        let limit_ns = least_ns + spare_ns;
        let wanted = wanted(problem, &small, limit_ns);
        match Part::new(problem, large.clone(), Some(&wanted), caps.wanted) {
            Ok(part) => return Some(([part, small], limit_ns)),
            Err(TooMany::Listed) if spare_ns > 0 && !must_stop() => spare_ns /= CLOSER,
            Err(_) => return None,
        }
    }
}

/// The work of ideals of a part that can lie before some boundary within a limit, beside one of the other part, whose ideals are
/// all known.
fn wanted(problem: &Problem, known: &Part, limit_ns: u64) -> Ranges {
    let boundaries = 1..problem.stages();
    Ranges::new(
        boundaries
            .flat_map(|before| wanted_before(problem, known, limit_ns, before))
            .collect(),
    )
}

/// The same for the boundary with so many stages in front: these can carry it, and those behind carry the rest.
pub fn wanted_before(
    problem: &Problem,
    known: &Part,
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
