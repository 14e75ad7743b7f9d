//! The exact engine where devices have several chunks: bounds, searches over chains and ideals, and the program. The page is that of
//! [`crate::formulations::virtual_stages`].

mod bounds;
mod chain;
mod ideals;
mod program;
mod repeated;
mod runs;

use self::chain::{Chain, ChainSearch};
use self::ideals::IdealSearch;
use self::repeated::RepeatedSearch;
use super::bounds::{Bound, all_in_one_ns, anchored};
use super::incumbent::Incumbent;
use super::method::Method;
use super::tuning::TUNING;
use crate::formulations::solver::SolverError;
use crate::heuristics;
use crate::heuristics::chunk_exchange::{self, Effort};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::virtual_stages::VirtualStages;
use crate::search::limits::{self, Answer, Asked, Halving};

/// Rounds for which a search over chains takes no longer than the program.
const FEW_ROUNDS: usize = 2;

/// Plans so few that a search is through them sooner than exchanges are through their rounds: milliseconds, not tenths of a second.
const FEW_PLANS: usize = 1 << 16;

/// Solves a problem with virtual stages.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    problem: &Problem,
    of: &VirtualStages,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut incumbent = Incumbent::new(problem, control);
    let switches = &control.switches;
    let plans = of.chunks().checked_pow(problem.items.len() as u32);
    let has_few = plans.is_some_and(|plans| plans <= FEW_PLANS) && control.must_stop().is_none();
    let by_search = has_few && method == Method::Exact && switches.chunk_ideals;
    if method != Method::Textbook {
        prepare(&mut incumbent, of, !by_search);
    }
    let exchanges = method == Method::Exact && switches.chunk_exchange && !by_search;
    if exchanges && !incumbent.is_over() {
        by_exchange(&mut incumbent, of, 0);
    }
    let mut stopped_by = StoppedBy::NoMethod;
    let has_ideals = matches!(method, Method::Exact | Method::Ideals);
    if has_ideals && !incumbent.is_over() {
        stopped_by = by_ideals(&mut incumbent, of, method);
    }
    if exchanges && !incumbent.is_over() && control.must_stop().is_none() {
        by_exchange(&mut incumbent, of, 1);
    }
    let has_program = method != Method::Ideals && switches.program && problem.confined.is_none();
    if has_program && !incumbent.is_over() && control.must_stop().is_none() {
        stopped_by = program::search(&mut incumbent, of, labels)?;
    }
    Ok(incumbent.finish(stopped_by))
}

/// Lower bounds alone.
pub(super) fn bound(problem: &Problem, of: &VirtualStages, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    raise_bounds(&mut incumbent, of);
    incumbent.finish(StoppedBy::Completed)
}

/// The best bound that takes no search, and what it says of the period in ns.
pub(super) fn simple_bound(problem: &Problem, of: &VirtualStages) -> (Bound, u64) {
    let bound = bounds::simple(problem, of);
    (bound, problem.settings.whole_ns(bound.bottleneck_ns))
}

/// Whether a search without a program knows the problem.
pub(super) fn has_ideals(problem: &Problem, of: &VirtualStages) -> bool {
    let control = Control::default();
    let is_chain = |chain: &Chain| ChainSearch::new(chain, of, &control, 0).is_some();
    of.devices <= ideals::MOST_DEVICES || Chain::of(problem).as_ref().is_some_and(is_chain)
}

/// Bounds and quick plans, with or without those of exchanges.
fn prepare(incumbent: &mut Incumbent, of: &VirtualStages, exchanges: bool) {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    let must_stop = || control.must_stop().is_some();
    let quick = heuristics::METHODS.iter().filter(|_| control.switches.incumbents);
    for heuristic in quick.filter(|heuristic| exchanges || heuristic.name != chunk_exchange::METHOD.name) {
        if incumbent.is_over() {
            return;
        }
        if let Some(plan) = heuristic.plan(problem, control.seed, &must_stop) {
            incumbent.offer(plan);
        }
    }
    raise_bounds(incumbent, of);
}

fn raise_bounds(incumbent: &mut Incumbent, of: &VirtualStages) {
    let problem = incumbent.problem;
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    if incumbent.control.switches.anchored {
        // What a device costs does not depend on which chunks hold its items.
        let anchored_ns = anchored::by_cuts(problem, incumbent.control);
        incumbent.raise(BoundSource::AnchoredStage, anchored_ns);
    }
    if incumbent.control.switches.device_runs
        && let Some(chain) = Chain::of(problem)
    {
        raise_bounds_of_chain(incumbent, of, &chain);
    }
}

fn raise_bounds_of_chain(incumbent: &mut Incumbent, of: &VirtualStages, chain: &Chain) {
    for bound in [bounds::work_and_transfers_ns, runs::bound_ns] {
        let to_ns = incumbent.upper_ns.min(incumbent.problem.work_ns());
        if incumbent.lower_ns < to_ns {
            let bound_ns = bound(chain, of, [incumbent.lower_ns, to_ns]);
            incumbent.raise(BoundSource::RoomOfDevices, bound_ns);
        }
    }
}

/// Looks for better plans from the best one on, in one of several turns.
fn by_exchange(incumbent: &mut Incumbent, of: &VirtualStages, turn: usize) {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let Some(plan) = &incumbent.plan else {
        return;
    };
    let must_stop = || control.must_stop().is_some();
    let effort = Effort {
        seed: control.seed.wrapping_add(turn as u64),
        steps: TUNING.steps_of_chunk_exchange[turn],
        failures: TUNING.failures_of_chunk_exchange,
        floor_ns: incumbent.lower_ns,
    };
    let found = chunk_exchange::improve(problem, of, plan.assignment.clone(), effort, &must_stop);
    incumbent.offer(found.into());
}

/// Searches without a program: over where a chain is cut, or else over ideals with the loads of devices.
fn by_ideals(incumbent: &mut Incumbent, of: &VirtualStages, method: Method) -> StoppedBy {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let within = |steps: u64| if method == Method::Ideals { u64::MAX } else { steps };
    let switches = &control.switches;
    let few = of.chunks() <= FEW_ROUNDS * of.devices;
    let most_steps = if few {
        u64::MAX
    } else {
        within(TUNING.steps_of_chunk_chains)
    };
    let chain = Chain::of(problem);
    if let Some(chain) = &chain
        && switches.repeated_chunks
        && problem.confined.is_none()
    {
        by_repetition(incumbent, of, chain, within(TUNING.steps_of_repeated_chains));
        if incumbent.is_over() {
            return StoppedBy::Completed;
        }
    }
    if let Some(chain) = &chain
        && switches.chunk_chains
        && let Some(mut search) = ChainSearch::new(chain, of, control, most_steps)
    {
        let source = BoundSource::ChainsOfChunks;
        return halve(incumbent, source, |period_ns| search.within(period_ns));
    }
    let ideals = switches.chunk_ideals.then_some(of);
    match ideals.and_then(|of| IdealSearch::new(problem, of, control, within(TUNING.steps_of_chunk_ideals))) {
        Some(mut search) => {
            let source = BoundSource::IdealsAndLoads;
            halve(incumbent, source, |period_ns| search.within(period_ns))
        }
        None => StoppedBy::NoMethod,
    }
}

/// Proves the least period of a chain whose items repeat, if memory has room for a plan of it; else it is a bound.
fn by_repetition(incumbent: &mut Incumbent, of: &VirtualStages, chain: &Chain, most_steps: u64) {
    let source = BoundSource::ChainsOfChunks;
    let limit_ns = match incumbent.has_plan() {
        true => incumbent.target_ns(),
        false => all_in_one_ns(incumbent.problem),
    };
    let search = RepeatedSearch::new(chain, of, incumbent.control, most_steps);
    match search.map(|mut search| search.best(limit_ns)) {
        Some(Ok(Some((period_ns, plan)))) => {
            incumbent.offer(plan.into());
            incumbent.raise(source, period_ns);
        }
        Some(Ok(None)) => incumbent.exhausted(source),
        Some(Err(_)) | None => (),
    }
}

/// Looks for better plans, half-way between bound and plan, until the two meet.
fn halve(incumbent: &mut Incumbent, source: BoundSource, mut within: impl FnMut(u64) -> Answer) -> StoppedBy {
    let mut passes = Asked {
        source: Some(source),
        halving: Some(Halving::down_to(u64::MAX)),
        decide: |_: &mut Incumbent, limit_ns| within(limit_ns).map(Allocation::from),
    };
    limits::search(incumbent, &mut passes)
}
