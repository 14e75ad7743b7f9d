//! Beam search over stages: they are filled one after the other, and of the ways to fill those so far only the most promising are gone on
//! from.
//!
//! A *line* is the problem from one end, without transfers and memory. For a limit on its stages' times, a state is a set of items that are
//! done and workers that are taken. It goes on with each kind of worker that is left and some loads for it: sets of items that are ready
//! one after the other, as full as the limit allows. Items and workers have [prices](line::Prices), found anew for what each state leaves:
//! a state is as good as what is left is worth little beside the time of the workers left. Limits are found by bisection, from both
//! ends. The stages of the best filling, item by item, are an order that [`slicing`] or [`SlicingFor`] cuts anew, now with memory.
//!
//! Where single devices differ, memory never binds and items are few, narrow [levels of ideals and devices](crate::search::device_levels) fill the
//! stages, and windows of neighbouring stages are filled again: their prices weigh what a device can earn with whole stages, and lead
//! better than shares of items.
//!
//! Sources: filling stages one after the other, T. Hoffmann, *Assembly line balancing with a precedence matrix*, Management Science 9(4),
//! 1963; what an item is worth beside its time, E. Sewell, S. Jacobson, *A branch, bound, and remember algorithm for the simple assembly
//! line balancing problem*, INFORMS J. Computing 24(3), 2012; a beam over workers and loads, L. Borba, M. Ritt, *A heuristic and a
//! branch-and-bound algorithm for the assembly line worker assignment and balancing problem*, Computers and Operations Research 45,
//! 2014. Prices by relaxation and slicing behind it are ours.

mod beam;
mod line;
mod loads;

use std::iter;

use petgraph::Direction::{self, Incoming, Outgoing};

use self::beam::{Beam, Stage};
use self::line::Line;
use super::slicing_for::SlicingFor;
use super::{Effort, Heuristic, MustStop, Run, global_shares, slicing};
use crate::model::units::LARGEST_EXACT;
use crate::model::words::Words;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::search::device_levels::narrow::narrow;
use crate::search::device_levels::problem::DeviceLine;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "beam-search",
    summary: "stages filled one after the other, the most promising of their fillings kept, then sliced anew",
    source: "T. Hoffmann, 1963; Sewell and Jacobson, 2012; Borba and Ritt, 2014; prices and slices ours",
    exact_for: "chains on single devices of one kind, without transfers",
    effort: Effort::Quick,
    run: Run::Any(applies, run),
};

/// From the beginning, and from the end.
const DIRECTIONS: [Direction; 2] = [Outgoing, Incoming];
/// The part of what must come behind an item that it is worth beside its own value.
const FOLLOWING: [f64; 2] = [0.0, 1.0];
/// States that are kept, in turn: more where fewer find nothing.
const WIDTHS: [usize; 3] = [1, 4, 16];
/// The first limit is this part of the bound above it.
const FIRST_MARGIN: u64 = 50;
/// Limits are tried until they are this part of themselves apart.
const PRECISION: u64 = 200;
/// Items looked at for loads after which limits are no longer halved: tenths of a second's work.
const MOST_STEPS: u64 = 10_000_000;

/// Nodes of narrow levels and their neighbourhoods: a second for 17 devices and 70 items.
const MOST_NODES: u64 = 7_000_000;

fn applies(problem: &Problem) -> Result<(), Words> {
    match problem.transfers.is_empty() {
        true => Ok(()),
        false => Err("transfers take time, and it fills stages without a look at them".into()),
    }
}

fn run(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    if let Some(plan) = narrow_levels(problem, must_stop) {
        return Some(plan);
    }
    let [forward, backward] = DIRECTIONS.map(|direction| Line::new(problem, direction));
    let lines = [forward?, backward?];
    let stages = fill(&lines, must_stop)?;
    slice(problem, &lines[0], &stages, must_stop)
}

/// A plan by narrow levels of ideals and devices; `None` where they do not apply, or find none.
fn narrow_levels(problem: &Problem, must_stop: MustStop<'_>) -> Option<Allocation> {
    let workers = problem.workers.as_ref()?;
    let levels = DeviceLine::new(problem, workers)?;
    let found = narrow(&levels.line, problem.stages(), MOST_NODES, &|| must_stop());
    let stations = found.plan?;
    let plan = levels.allocation(&stations, problem.items.len());
    let order: Vec<usize> = stations.iter().flat_map(|(_, items)| items).copied().collect();
    let choices = levels.all_choices(&stations, problem.stages());
    let sliced = SlicingFor::new(problem, workers, &order).slice(&choices, u64::MAX, must_stop);
    match sliced {
        Some((sliced, _)) => Some(super::better(problem, workers, sliced, plan)),
        None => Some(plan),
    }
}

/// Stages of which the longest is as short as is found, from the first on; `None` where there are none.
fn fill(lines: &[Line; 2], must_stop: MustStop<'_>) -> Option<Vec<Stage>> {
    let bound_ns = lines[0].bound_ns();
    let most_ns = lines[0].most_ns().max(bound_ns).min(LARGEST_EXACT);
    let mut lower_ns = bound_ns - 1;
    let mut best: Option<(u64, Vec<Stage>)> = None;
    let mut steps = 0;
    loop {
        let limit_ns = match &best {
            // Ever further above the bound, until there is a first filling.
            None => {
                let margin_ns = (2 * (lower_ns + 1 - bound_ns)).max(bound_ns / FIRST_MARGIN);
                most_ns.min(bound_ns + margin_ns)
            }
            Some((upper_ns, _)) => lower_ns + (upper_ns - lower_ns) / 2,
        };
        match first_filling(lines, limit_ns, &mut steps, must_stop) {
            Some(stages) => {
                let longest_ns = stages.iter().map(|stage| stage.time_ns).max().unwrap_or(0);
                best = Some((longest_ns, stages));
            }
            None => lower_ns = limit_ns,
        }
        let open_ns = |upper_ns: u64| upper_ns.saturating_sub(lower_ns);
        let is_precise = |upper_ns: u64| open_ns(upper_ns) <= upper_ns / PRECISION + 1 || steps > MOST_STEPS;
        let ends = best.as_ref().is_some_and(|(upper_ns, _)| is_precise(*upper_ns));
        if ends || must_stop() || limit_ns >= most_ns {
            return best.map(|(_, stages)| stages);
        }
    }
}

/// The stages of a filling within the limit, from either end and with any width; `None` where none is found.
fn first_filling(
    lines: &[Line; 2],
    limit_ns: u64,
    steps: &mut u64,
    must_stop: MustStop<'_>,
) -> Option<Vec<Stage>> {
    let ways = WIDTHS
        .into_iter()
        .flat_map(|width| FOLLOWING.map(|following| (width, following)));
    for (width, following) in ways {
        for (line, direction) in lines.iter().zip(DIRECTIONS) {
            let beam = Beam {
                line,
                limit_ns,
                following,
                width,
            };
            let (found, taken) = beam.fill(must_stop);
            *steps += taken;
            if let Some(stages) = found {
                return Some(along(direction, stages));
            }
        }
    }
    None
}

/// Stages that were filled in a direction, from the first on.
fn along(direction: Direction, mut stages: Vec<Stage>) -> Vec<Stage> {
    if direction == Incoming {
        stages.reverse();
        stages.iter_mut().for_each(|stage| stage.items.reverse());
    }
    stages
}

/// The best plan whose stages are intervals of these stages' items, on their workers.
fn slice(problem: &Problem, line: &Line, stages: &[Stage], must_stop: MustStop<'_>) -> Option<Allocation> {
    let items = stages.iter().flat_map(|stage| stage.items.iter().copied());
    let order: Vec<usize> = items.collect();
    let Some(workers) = &problem.workers else {
        return Some(slicing::slice(problem, &order, must_stop)?.0.into());
    };
    // Slices may take more stages, or must take all.
    let mut kinds: Vec<usize> = stages.iter().map(|stage| stage.kind).collect();
    let left = (0..line.counts.len()).flat_map(|kind| iter::repeat_n(kind, line.left(kind, &kinds)));
    let left: Vec<usize> = left.take(line.stages - kinds.len()).collect();
    kinds.extend(left);
    let choices: Vec<usize> = kinds.iter().map(|&kind| line.choices[kind]).collect();
    let sliced = SlicingFor::new(problem, workers, &order).slice(&choices, u64::MAX, must_stop);
    Some(global_shares::fill(problem, workers, sliced?.0, must_stop))
}
