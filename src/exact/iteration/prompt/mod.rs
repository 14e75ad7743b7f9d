//! The plan that reads a prompt soonest, chunk by chunk: labels are the times at which the chunks leave the stages so far.
#![doc = include_str!("../../../../formulations/prompt.md")]

mod options;
mod search;
mod stages;

use self::options::Options;
use self::search::ReadingSearch;
use self::stages::Stages;
use super::{modal, moves, unlike};
use crate::exact::bounds::Bound;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::prompt::Reads;

/// Solves a problem whose objective is the time until a prompt is read.
pub(super) fn solve(mut incumbent: Incumbent, reads: &Reads, method: Method) -> Outcome {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let (bound, bound_ns) = simple_bound(problem, reads);
    incumbent.raise(bound.source, bound_ns);
    // The programs and dynamic programs of the other methods know formulas alone.
    if method != Method::Exact {
        return incumbent.finish(StoppedBy::NoMethod);
    }
    // A plan of another size of chunks may be better than any of this one.
    if incumbent.is_over() {
        return incumbent.finish(StoppedBy::Completed);
    }
    match &problem.modes {
        None => unlike::take_quick_plans(&mut incumbent),
        Some(modes) => modal::offer_plan_of_period(&mut incumbent, modes),
    }
    let stopped_by = match Options::new(&incumbent, reads) {
        Ok(options) => search(&options, &mut incumbent),
        Err(stopped_by) => stopped_by,
    };
    if stopped_by == StoppedBy::SizeLimit && problem.modes.is_none() {
        moves::improve(&mut incumbent);
    }
    incumbent.finish(control.must_stop().unwrap_or(stopped_by))
}

/// Looks through plans, where all stages are to be alike through those of each kind.
fn search(options: &Options, incumbent: &mut Incumbent) -> StoppedBy {
    let sets = options.sets();
    let [set] = &sets[..] else {
        return search_sets(options, &sets, incumbent);
    };
    let is_allowed = |option: usize| set.contains(&option);
    match Stages::new(options, &is_allowed, incumbent.control) {
        Ok(stages) => ReadingSearch::new(&stages).run(incumbent),
        Err(stopped_by) => stopped_by,
    }
}

/// The same of several sets, one after the other, each with what the others have found: the least of their bounds is one of all.
fn search_sets(options: &Options, sets: &[Vec<usize>], incumbent: &mut Incumbent) -> StoppedBy {
    let mut least_ns = u64::MAX;
    let mut ended = StoppedBy::Completed;
    for set in sets {
        let control = incumbent.control.elsewhere();
        let mut own = incumbent.under(&control);
        (own.lower_ns, own.source) = (incumbent.lower_ns, BoundSource::None);
        let is_allowed = |option: usize| set.contains(&option);
        let stopped_by = match Stages::new(options, &is_allowed, &control) {
            Ok(stages) => ReadingSearch::new(&stages).run(&mut own),
            Err(stopped_by) => stopped_by,
        };
        least_ns = least_ns.min(own.lower_ns);
        incumbent.statistics.nodes = own.statistics.nodes;
        incumbent.offer_some(own.plan.filter(|_| own.upper_ns < incumbent.upper_ns));
        incumbent.report();
        if stopped_by != StoppedBy::Completed {
            ended = stopped_by;
        }
    }
    incumbent.raise(BoundSource::ChainsOfIdeals, least_ns.min(incumbent.upper_ns));
    ended
}

/// Lower bounds alone.
pub(super) fn bound(problem: &Problem, reads: &Reads, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, reads);
    incumbent.raise(bound.source, bound_ns);
    let first = |options: Options| {
        let bounds = options.sets().into_iter().map(|set| {
            let stages = Stages::new(&options, &|option| set.contains(&option), control);
            stages.map(|stages| stages.first_ns())
        });
        bounds.collect::<Result<Vec<u64>, StoppedBy>>()
    };
    let stopped_by = match Options::new(&incumbent, reads).and_then(first) {
        Ok(bounds) => {
            let least_ns = bounds.into_iter().min().unwrap_or(u64::MAX);
            incumbent.raise(BoundSource::ChainsOfIdeals, least_ns);
            StoppedBy::Completed
        }
        Err(stopped_by) => stopped_by,
    };
    incumbent.finish(stopped_by)
}

/// What can be said without a search: the page's `work`, `item` and `chunk`.
pub(super) fn simple_bound(problem: &Problem, reads: &Reads) -> (Bound, u64) {
    let least: Vec<Vec<u64>> = (0..problem.items.len())
        .map(|item| reads.least_ns(item))
        .collect();
    let of_items = least.iter().map(|each| each.iter().sum::<u64>());
    let share_ns = of_items.clone().sum::<u64>().div_ceil(problem.stages() as u64);
    let of_chunks = (0..reads.chunks).map(|at| least.iter().map(|each| each[at]).sum::<u64>());
    let item_ns = of_items.chain(of_chunks).max().unwrap_or(0);
    let bound = |source, bottleneck_ns| {
        (
            Bound {
                source,
                bottleneck_ns,
            },
            bottleneck_ns,
        )
    };
    match item_ns > share_ns {
        true => bound(BoundSource::LargestItem, item_ns),
        false => bound(BoundSource::WorkPerStage, share_ns),
    }
}
