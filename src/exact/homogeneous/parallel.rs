//! The two halves of the engine at the same time: dynamic programs over ideals and the mixed-integer program.

use std::time::{Duration, Instant};

use crate::exact::halves::Half;
use crate::exact::homogeneous::program::{self, Extent};
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::{destructive, diagram, ideals, quick, relaxed, tree};
use crate::exact::joint_memory;
use crate::exact::tuning::{Round, TUNING};
use crate::formulations::solver::SolverError;
use crate::problem::plan::StoppedBy;

/// Searches both ways from the same state, on two threads where there are two, until one of them is over or both have done what the
/// round allows: then what both have found counts. Ideals that are done first go on with more effort, as long as the program takes.
///
/// Steps and nodes are counted, not timed. So objective, bound and status of what is proved are the same whatever the number of threads;
/// of several best plans, the one of whoever is over first is reported.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn search(
    search: &mut HomogeneousSearch,
    round: Round,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let switches = search.control().switches;
    if !(switches.parallel && switches.program) || rayon::current_num_threads() == 1 {
        return one_after_the_other(search, round, labels);
    }
    let halves = [Half::default(), Half::default()];
    let controls = halves.each_ref().map(|half| half.control(search.control()));
    let known = search.plans.len();
    let [mut by_ideals, mut by_program] = controls.each_ref().map(|control| search.under(control));
    let [ideals_half, program_half] = &halves;
    let ideals = || {
        let mut effort = round;
        loop {
            let may_do_more = over_ideals(&mut by_ideals, effort);
            let goes_on = ideals_half.may_go_on(program_half, by_ideals.incumbent.is_over());
            if !may_do_more || !goes_on || by_ideals.control().must_stop().is_some() {
                return;
            }
            effort = effort.larger();
        }
    };
    let started = Instant::now();
    let program = || {
        while started.elapsed() < TUNING.head_start_of_ideals && by_program.control().must_stop().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut effort = round;
        loop {
            let stopped_by = program::search(&mut by_program, Extent::Presolved(effort.nodes), labels);
            let goes_on = program_half.may_go_on(ideals_half, by_program.incumbent.is_over());
            let may_do_more = effort.nodes.is_some() && stopped_by.is_ok();
            if !may_do_more || !goes_on || by_program.control().must_stop().is_some() {
                return stopped_by;
            }
            effort = effort.larger();
        }
    };
    let ((), program) = rayon::join(ideals, program);
    search.join(by_ideals, known);
    search.join(by_program, known);
    match search.incumbent.is_over() {
        true => Ok(StoppedBy::Completed),
        false => program,
    }
}

/// Both halves without the other beside them, those that are switched on.
fn one_after_the_other(
    search: &mut HomogeneousSearch,
    round: Round,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    over_ideals(search, round);
    let is_over = search.incumbent.is_over() || search.control().must_stop().is_some();
    match search.control().switches.program && !is_over {
        true => program::search(search, Extent::Presolved(round.nodes), labels),
        false => Ok(StoppedBy::SizeLimit),
    }
}

/// A search over ideals, with the effort of a round; whether more may do more.
type Turn = fn(&mut HomogeneousSearch, Round) -> bool;

/// All searches over ideals that apply, in turn; whether more effort may do more.
pub(crate) fn over_ideals(search: &mut HomogeneousSearch, round: Round) -> bool {
    let switches = search.control().switches;
    let is_period = search.problem().formula().is_bottleneck();
    // Plans over ideals would break memory that depends on other stages.
    let by_ideals = !search.problem().memory_is_joint();
    let is_accounted = joint_memory::allows_ideals(search.problem(), &switches);
    if !is_period {
        let may_do_more = switches.period && relaxed::by_the_period(search, round);
        if switches.labelled_ideals && by_ideals && round.labels && !search.incumbent.is_over() {
            ideals::over_labelled_ideals(search);
        }
        return may_do_more;
    }
    let turns: [(bool, Turn); 7] = [
        (switches.rebalance, |search, _| {
            quick::rebalance(search);
            false
        }),
        (switches.passes_together && !by_ideals, |search, round| {
            relaxed::with_passes_together(search, round)
        }),
        (
            switches.work_alone && relaxed::has_work_alone(search.problem()),
            |search, round| {
                relaxed::work_alone(search, round.work_alone);
                false
            },
        ),
        (switches.ideal_pairs && by_ideals, |search, round| {
            destructive::over_ideal_pairs(search, round.pairs) == Some(StoppedBy::SizeLimit)
        }),
        (switches.ideal_tree, |search, round| {
            tree::over_ideals(search, round.tree) == StoppedBy::SizeLimit && tree::is_line(search.problem())
        }),
        (switches.stage_diagram && is_accounted, |search, round| {
            diagram::over_stages(search, round.stages) == StoppedBy::SizeLimit
        }),
        (switches.ideals && is_accounted, |search, round| {
            ideals::over_ideals(search, round.ideals) == StoppedBy::SizeLimit
        }),
    ];
    let mut may_do_more = false;
    for (is_on, turn) in turns {
        let is_over = search.incumbent.is_over() || search.control().must_stop().is_some();
        if is_on && !is_over {
            may_do_more |= turn(search, round);
        }
    }
    may_do_more
}
