//! Iterations of stages in modes: plans whose stages are alike first, kind by kind, then all others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use super::TIME_OF_GUIDES;
use super::chunks::ChunkRuns;
use super::chunks::kind::ChunkFamily;
use super::kinds::{KindFamily, Kinds};
use super::options::StageOptions;
use super::prompt;
use super::relaxation::Relaxation;
use super::search::PlanSearch;
use super::sums::KnownSums;
use crate::exact::homogeneous;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::exact::modal;
use crate::formulations::solver::SolverError;
use crate::model::options::{Objective, Recomputation};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Modes, StageMode};
use crate::problem::plan::{Outcome, StoppedBy};

/// How many families take their turns side by side, whatever the number of threads: what is found does not depend on it.
const SIDE_BY_SIDE: usize = 2;

/// Partial plans of a family that are looked at in a turn.
const NODES_OF_A_TURN: u64 = 5_000;

/// What plans of one stage a device may take of the time that is left where others are allowed, and whatever else is asked for good plans.
const SHARE_OF_ALIKE: f64 = 0.5;

/// What plans whose stages are alike take at most before others are looked at, among which they are, too.
const TIME_OF_ALIKE: Duration = Duration::from_secs(5);

/// What plans of chunks may take that compute again what a framework can be told, where others may too.
const SHARE_OF_RESTRICTED: f64 = 0.25;

/// Solves a problem with modes whose iterations are simulated, of which something may be known.
///
/// Plans whose stages are alike come first, since they are few and good; the others begin with the best of them.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn solve(known: Incumbent, modes: &Modes, labels: &[String]) -> Result<Outcome, SolverError> {
    if let Some(reads) = known.problem.reads() {
        return Ok(prompt::solve(known, reads, Method::Exact));
    }
    let mut incumbent = known;
    let (problem, control) = (incumbent.problem, incumbent.control);
    raise_to_share(&mut incumbent, modes);
    if modes.rows.len() > 1 && problem.settings.allows_virtual_stages(1) {
        offer_plan_of_period(&mut incumbent, modes);
    }
    let is_one_way = problem.settings.objective == Objective::Latency && !problem.settings.mode.trains();
    if is_one_way && !modes.has_links && !problem.settings.may_have_virtual_stages() {
        let within = match control.time_limit {
            Some(_) => share(control, SHARE_OF_ALIKE),
            None => control.clone(),
        };
        let mut restricted = incumbent.under(&within);
        find_soonest(&mut restricted, modes);
        incumbent.join(restricted);
        if incumbent.is_over() {
            return Ok(incumbent.finish(StoppedBy::Completed));
        }
    }
    search_restricted_first(&mut incumbent, modes, labels)?;
    if incumbent.is_over() {
        return Ok(incumbent.finish(StoppedBy::Completed));
    }
    let variants = variants(problem, modes);
    let mut families = alike(problem, &variants);
    let chunks = chunks(problem, &variants);
    let is_uniform = problem.settings.uniform || modes.alike_kinds().len() == 1;
    let others = match is_uniform || problem.settings.target.is_some() {
        true => None,
        false => free(problem, modes),
    };
    // Devices of several chunks are alike but for their kind.
    let others = others.filter(|_| !problem.settings.may_have_virtual_stages());
    if !chunks.is_empty() {
        // Plans of one stage a device are fewer.
        search_first(&mut incumbent, (&mut families, labels), &a_while(control))?;
    }
    families.extend(chunks);
    let Some(others) = others else {
        let stopped_by = search(&mut incumbent, (&mut families, labels), true)?;
        return Ok(incumbent.finish(stopped_by));
    };
    search_first(&mut incumbent, (&mut families, labels), &a_while(control))?;
    let mut stopped_by = search(&mut incumbent, (&mut [others], labels), true)?;
    if control.must_stop().is_none() && !incumbent.is_over() {
        // There may be better ones among those that are alike.
        search(&mut incumbent, (&mut families, labels), false)?;
        stopped_by = control.must_stop().unwrap_or(stopped_by);
    }
    Ok(incumbent.finish(stopped_by))
}

/// Looks for the plan that one micro-batch passes soonest, of stages that are alike where they have to be.
fn find_soonest(incumbent: &mut Incumbent, modes: &Modes) {
    let is_uniform = incumbent.problem.settings.uniform;
    let sets: Vec<(Modes, Vec<StageMode>)> = match is_uniform {
        true => modes
            .alike_kinds()
            .into_iter()
            .map(|alike| (modes.only(&alike), alike))
            .collect(),
        false => vec![(modes.clone(), Vec::new())],
    };
    let mut least_ns = u64::MAX;
    for (own, alike) in &sets {
        let named = |mode: StageMode| alike.get(mode.degree).copied().unwrap_or(mode);
        match modal::find_soonest(incumbent, own, &named) {
            Ok(own_ns) => least_ns = least_ns.min(own_ns),
            // Other searches go on with what was found.
            Err(_) => return,
        }
    }
    incumbent.raise(BoundSource::IdealsAndModes, least_ns.min(incumbent.upper_ns));
}

/// Begins with the plan of least period: where devices differ, partial plans know nothing of how many of each are left.
pub(super) fn offer_plan_of_period(incumbent: &mut Incumbent, modes: &Modes) {
    let period = incumbent.problem.for_the_period();
    let control = incumbent.control.elsewhere();
    let within = share(&control, SHARE_OF_ALIKE);
    let plan = modal::solve(Incumbent::new(&period, &within), modes).allocation;
    incumbent.offer_some(plan);
}

/// A part of the time that is left, or some seconds where that has no limit.
fn share<'a>(control: &'a Control, part: f64) -> Control<'a> {
    let left = control.remaining();
    control.with_time(Some(left.map_or(TIME_OF_GUIDES, |left| left.mul_f64(part))))
}

/// What plans whose stages are alike may take of the time that is left before others are looked at.
fn a_while<'a>(control: &'a Control) -> Control<'a> {
    let within = share(control, SHARE_OF_ALIKE);
    let least = within.time_limit.map(|limit| limit.min(TIME_OF_ALIKE));
    within.with_time(least)
}

/// Looks through plans of chunks that compute again what a framework can be told, for a part of the time, where others may too: they are few beside all.
fn search_restricted_first(
    incumbent: &mut Incumbent,
    modes: &Modes,
    labels: &[String],
) -> Result<(), SolverError> {
    let problem = incumbent.problem;
    let is_free = problem.settings.target.is_none() && problem.settings.may_have_virtual_stages();
    let told = match is_free {
        true => modes.recomputing(Recomputation::Alike),
        false => Vec::new(),
    };
    if told.len() < 2 {
        return Ok(());
    }
    let mut families = chunks(problem, &told);
    let within = share(incumbent.control, SHARE_OF_RESTRICTED);
    search_first(incumbent, (&mut families, labels), &within)
}

/// Looks through families whose best is what others have to beat: nothing is proved by them.
fn search_first(
    incumbent: &mut Incumbent,
    (families, labels): (&mut [Family], &[String]),
    within: &Control,
) -> Result<(), SolverError> {
    let mut first = incumbent.under(within);
    search(&mut first, (families, labels), false)?;
    incumbent.join(first);
    for family in families {
        // They go on where there was too little time.
        family
            .stopped_by
            .take_if(|stopped_by| *stopped_by == StoppedBy::TimeLimit);
    }
    Ok(())
}

/// Lower bounds alone.
pub(crate) fn bound(known: Incumbent, modes: &Modes) -> Outcome {
    if let Some(reads) = known.problem.reads() {
        return prompt::bound(known.problem, reads, known.control);
    }
    let mut incumbent = known;
    let variants = variants(incumbent.problem, modes);
    let settings = &incumbent.problem.settings;
    let mut families = match settings.uniform || settings.may_have_virtual_stages() {
        true => alike(incumbent.problem, &variants),
        false => free(incumbent.problem, modes).into_iter().collect(),
    };
    families.extend(chunks(incumbent.problem, &variants));
    let least_ns = least_ns(families, incumbent.control);
    incumbent.raise(BoundSource::WorkPerStage, least_ns);
    raise_to_share(&mut incumbent, modes);
    incumbent.finish(StoppedBy::Completed)
}

/// Raises the bound to what all devices take that share the work of all micro-batches evenly.
fn raise_to_share(incumbent: &mut Incumbent, modes: &Modes) {
    let (problem, control) = (incumbent.problem, incumbent.control);
    // What is known of stages is said of one a device.
    if problem.settings.may_have_virtual_stages() {
        return;
    }
    if let Some(least_ns) = modal::least(problem, modes, control) {
        // It is rounded up for each of them.
        let micro_batches = problem.settings.run_micro_batches();
        incumbent.raise(
            BoundSource::WorkPerStage,
            micro_batches * least_ns.saturating_sub(1),
        );
    }
}

/// What may be computed again: anything, or what the framework can be told.
fn variants(problem: &Problem, modes: &Modes) -> Vec<Modes> {
    match problem.settings.target {
        Some(target) => modes.recomputing(target.limits().recomputation),
        None => vec![modes.clone()],
    }
}

/// Plans whose stages are alike, by their mode.
fn alike<'a>(problem: &'a Problem, variants: &'a [Modes]) -> Vec<Family<'a>> {
    if !problem.settings.allows_virtual_stages(1) {
        return Vec::new();
    }
    let of = |modes: &'a Modes| {
        let mut known = KnownSums::new(modes);
        let sets = modes.alike_kinds().into_iter();
        sets.filter_map(move |alike| KindFamily::new(problem, (modes, &mut known), alike))
    };
    variants.iter().flat_map(of).map(Family::new).collect()
}

/// Plans whose stages may have any modes.
fn free<'a>(problem: &'a Problem, modes: &'a Modes) -> Option<Family<'a>> {
    let known = &mut KnownSums::new(modes);
    KindFamily::new(problem, (modes, known), modes.kinds().collect()).map(Family::new)
}

/// Plans of devices with several chunks, by their mode and number.
fn chunks<'a>(problem: &'a Problem, variants: &'a [Modes]) -> Vec<Family<'a>> {
    let of = |modes: &'a Modes| ChunkFamily::all(problem, modes);
    variants.iter().flat_map(of).map(Family::of_chunks).collect()
}

/// No plan of any family takes less, in ns: only those are laid out that this depends on, as far as there is time.
fn least_ns(mut families: Vec<Family>, control: &Control) -> u64 {
    let bounds = families
        .iter()
        .enumerate()
        .map(|(at, family)| (family.bound_ns, at));
    let mut open: BTreeSet<(u64, usize)> = bounds.collect();
    while let Some((bound_ns, at)) = open.pop_first() {
        if control.must_stop().is_some() || !families[at].lay() {
            return bound_ns;
        }
        open.insert((families[at].bound_ns, at));
    }
    u64::MAX
}

/// Plans whose stages are of some kinds, or chunks of one, and how far they have been looked through.
struct Family<'a> {
    plans: Plans<'a>,
    /// No plan of the family takes less, in ns; `u64::MAX` where there is none.
    bound_ns: u64,
    /// Why nothing more is tried.
    stopped_by: Option<StoppedBy>,
}

/// The plans of a family.
enum Plans<'a> {
    /// A stage for each device or group.
    Stages {
        options: KindFamily<'a>,
        laid: Option<Arc<Kinds<'a>>>,
        search: Option<PlanSearch<'a>>,
    },
    /// Several for each.
    Chunks {
        options: ChunkFamily<'a>,
        runs: Option<Box<ChunkRuns<'a>>>,
        /// The best plan of these, which need not be the best of all.
        best: Option<Allocation>,
    },
}

impl<'a> Family<'a> {
    fn new(options: KindFamily<'a>) -> Self {
        Self {
            bound_ns: options.bound_ns(),
            plans: Plans::Stages {
                options,
                laid: None,
                search: None,
            },
            stopped_by: None,
        }
    }

    fn of_chunks(options: ChunkFamily<'a>) -> Self {
        Self {
            bound_ns: options.bound_ns(),
            plans: Plans::Chunks {
                options,
                runs: None,
                best: None,
            },
            stopped_by: None,
        }
    }

    /// Whether some plan may take so long at most.
    fn may_beat(&self, target_ns: u64) -> bool {
        self.bound_ns <= target_ns && self.bound_ns < u64::MAX
    }

    /// How often all has been tried in vain: each time takes longer than the one before, and what others need may be little.
    fn rounds(&self) -> u32 {
        match &self.plans {
            Plans::Chunks { runs: Some(runs), .. } => runs.rounds(),
            Plans::Chunks { .. } | Plans::Stages { .. } => 0,
        }
    }

    /// Lays out its stages, whose bound says more; whether there was anything to lay out.
    fn lay(&mut self) -> bool {
        let Plans::Stages { options, laid, .. } = &mut self.plans else {
            return false;
        };
        if laid.is_some() || self.bound_ns == u64::MAX {
            return false;
        }
        *laid = options.laid().map(Arc::new);
        let bound_ns = laid.as_ref().map_or(u64::MAX, |kinds| kinds.bound_ns());
        self.bound_ns = self.bound_ns.max(bound_ns);
        true
    }

    /// Looks at some more of its plans, of which those that take less than the best of all are of interest.
    fn take_turn(&mut self, known: &Incumbent, labels: &[String]) -> Result<Turn, SolverError> {
        if self.lay() {
            // Others may promise more now.
            return Ok(Turn::default());
        }
        let control = known.control.elsewhere();
        let mut own = known.under(&control);
        (own.lower_ns, own.source) = (0, BoundSource::None);
        match &mut self.plans {
            Plans::Stages { laid, search, .. } => {
                if let (Some(kinds), None) = (laid, &search) {
                    if kinds.is_one() {
                        offer_quick_plans(kinds, &mut own, &control);
                    }
                    match Relaxation::new(&**kinds, &own) {
                        Ok(relaxation) => *search = Some(PlanSearch::new(relaxation, kinds.clone(), &own)),
                        Err(stopped_by) => self.stopped_by = Some(stopped_by),
                    }
                }
                if let Some(search) = search {
                    let stopped_by = search.run(&mut own, NODES_OF_A_TURN);
                    self.stopped_by = (stopped_by != StoppedBy::SizeLimit).then_some(stopped_by);
                }
            }
            Plans::Chunks { options, runs, best } => {
                (own.upper_ns, own.plan) = (u64::MAX, None);
                own.offer_some(best.take());
                own.lower_ns = self.bound_ns;
                if runs.is_none() {
                    *runs = options.laid().map(ChunkRuns::among_others).map(Box::new);
                }
                let Some(runs) = runs else {
                    self.bound_ns = u64::MAX;
                    return Ok(Turn::default());
                };
                let limited = control.with_time(Some(runs.time(control.remaining())));
                runs.take_turn(&mut own, known.target_ns(), labels, &limited)?;
                let is_closed = own.lower_ns > known.target_ns() || own.is_over();
                if runs.is_done() && !runs.begin_again(is_closed) {
                    self.stopped_by = Some(StoppedBy::Completed);
                }
                best.clone_from(&own.plan);
            }
        }
        self.bound_ns = self.bound_ns.max(own.lower_ns);
        Ok(Turn {
            nodes: own.statistics.nodes - known.statistics.nodes,
            plan: own.plan.filter(|_| own.upper_ns < known.upper_ns),
        })
    }
}

/// What a family came to in a turn.
#[derive(Default)]
struct Turn {
    /// Its best plan, where it takes less than was known.
    plan: Option<Allocation>,
    /// What was looked at.
    nodes: u64,
}

/// Takes the quick plans of the formula that comes near the iterations of stages.
fn offer_quick_plans(options: &Kinds, own: &mut Incumbent, control: &Control) {
    let formula = options.pipeline().for_the_formula();
    for assignment in homogeneous::quick_plans(&formula, control) {
        if let Some(plan) = options.plan(assignment, &[]) {
            own.offer(plan);
        }
    }
}

/// Looks through families, of those that were tried as often the ones that promise most, until none promises anything; `is_all` says that
/// there are no other plans.
fn search(
    incumbent: &mut Incumbent,
    (families, labels): (&mut [Family], &[String]),
    is_all: bool,
) -> Result<StoppedBy, SolverError> {
    loop {
        let bounds = families.iter().map(|family| family.bound_ns);
        let least = bounds.min().unwrap_or(u64::MAX);
        if is_all {
            incumbent.raise(BoundSource::ChainsOfIdeals, least.min(incumbent.upper_ns));
        }
        incumbent.report();
        if let Some(stopped_by) = incumbent.control.must_stop() {
            return Ok(stopped_by);
        }
        let next = whose_turn(families, incumbent.target_ns());
        if next.is_empty() {
            break;
        }
        for turn in take_turns((families, &next), incumbent, labels)? {
            incumbent.statistics.nodes += turn.nodes;
            incumbent.offer_some(turn.plan);
        }
    }
    let target_ns = incumbent.target_ns();
    let open = families.iter().filter(|family| family.may_beat(target_ns));
    let mut stopped = open.filter_map(|family| family.stopped_by);
    Ok(stopped.next().unwrap_or(StoppedBy::Completed))
}

/// The families that are looked at next: of those that were tried as often, the ones that promise most.
fn whose_turn(families: &[Family], target_ns: u64) -> Vec<usize> {
    let is_open = |family: &Family| family.stopped_by.is_none() && family.may_beat(target_ns);
    let open = families.iter().enumerate().filter(|(_, family)| is_open(family));
    let mut open: Vec<(u32, u64, usize)> = open
        .map(|(at, family)| (family.rounds(), family.bound_ns, at))
        .collect();
    open.sort_unstable();
    open.into_iter().map(|(.., at)| at).take(SIDE_BY_SIDE).collect()
}

/// A turn of each of some families, in the families' order.
fn take_turns(
    (families, next): (&mut [Family], &[usize]),
    known: &Incumbent,
    labels: &[String],
) -> Result<Vec<Turn>, SolverError> {
    let own = families
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| next.contains(at));
    let own: Vec<&mut Family> = own.map(|(_, family)| family).collect();
    match known.control.switches.parallel {
        true => own
            .into_par_iter()
            .map(|family| family.take_turn(known, labels))
            .collect(),
        false => own
            .into_iter()
            .map(|family| family.take_turn(known, labels))
            .collect(),
    }
}
