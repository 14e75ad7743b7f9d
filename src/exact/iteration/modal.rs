//! Iterations of stages in modes: plans whose stages are alike first, kind by kind, then all others.

use super::kinds::Kinds;
use super::options::StageOptions;
use super::relaxation::Relaxation;
use super::search::PlanSearch;
use super::simple::simple_bound;
use crate::exact::homogeneous;
use crate::exact::incumbent::Incumbent;
use crate::exact::modal;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::modes::Modes;
use crate::problem::plan::{Outcome, StoppedBy};

/// Partial plans of a family that are looked at in a turn.
const NODES_OF_A_TURN: u64 = 5_000;

/// What plans whose stages are alike may take of the time that is left, where others are allowed.
const SHARE_OF_ALIKE: f64 = 0.5;

/// Solves a problem with modes whose iterations are simulated, of which something may be known.
///
/// Plans whose stages are alike come first, since they are few and good; the others begin with the best of them.
pub(crate) fn solve(known: Incumbent, modes: &Modes) -> Outcome {
    let mut incumbent = known;
    let (problem, control) = (incumbent.problem, incumbent.control);
    raise_to_share(&mut incumbent, modes);
    let variants = variants(problem, modes);
    let alike = alike(problem, &variants);
    let is_uniform = problem.settings.uniform || modes.kinds().count() == 1;
    let others = match is_uniform || problem.settings.target.is_some() {
        true => None,
        false => Kinds::new(problem, modes, modes.kinds().collect()),
    };
    let is_all = others.is_none();
    let limited;
    let within = match control.remaining() {
        Some(left) if !is_all => {
            limited = control.with_time(Some(left.mul_f64(SHARE_OF_ALIKE)));
            &limited
        }
        _ => control,
    };
    let mut restricted = incumbent.under(within);
    let mut stopped_by = search(&mut restricted, &mut families(&alike), is_all);
    incumbent.join(restricted);
    if let (Some(others), None) = (&others, control.must_stop()) {
        stopped_by = search(&mut incumbent, &mut [Family::new(others)], true);
    }
    incumbent.finish(stopped_by)
}

/// Lower bounds alone.
pub(crate) fn bound(known: Incumbent, modes: &Modes) -> Outcome {
    let mut incumbent = known;
    let variants = variants(incumbent.problem, modes);
    let options = match incumbent.problem.settings.uniform {
        true => alike(incumbent.problem, &variants),
        false => Kinds::new(incumbent.problem, modes, modes.kinds().collect())
            .into_iter()
            .collect(),
    };
    let bounds = families(&options).into_iter().map(|family| family.bound_ns);
    incumbent.raise(BoundSource::WorkPerStage, bounds.min().unwrap_or(u64::MAX));
    raise_to_share(&mut incumbent, modes);
    incumbent.finish(StoppedBy::Completed)
}

/// Raises the bound to what all devices take that share the work of all micro-batches evenly.
fn raise_to_share(incumbent: &mut Incumbent, modes: &Modes) {
    let (problem, control) = (incumbent.problem, incumbent.control);
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
fn alike<'a>(problem: &Problem, variants: &'a [Modes]) -> Vec<Kinds<'a>> {
    let of = |modes: &'a Modes| {
        modes
            .kinds()
            .map(move |mode| Kinds::new(problem, modes, vec![mode]))
    };
    variants.iter().flat_map(of).flatten().collect()
}

fn families<'a>(options: &'a [Kinds<'a>]) -> Vec<Family<'a>> {
    options.iter().map(Family::new).collect()
}

/// Plans whose stages are of some kinds, and how far they have been looked through.
struct Family<'a> {
    options: &'a Kinds<'a>,
    /// No plan of the family takes less, in ns; `u64::MAX` where there is none.
    bound_ns: u64,
    search: Option<PlanSearch<'a>>,
    /// Why nothing more is tried.
    stopped_by: Option<StoppedBy>,
}

impl<'a> Family<'a> {
    fn new(options: &'a Kinds<'a>) -> Self {
        Self {
            options,
            bound_ns: match options.is_line() {
                true => simple_bound(options.pipeline()).1,
                // Replicas work side by side: one micro-batch has to pass.
                false => options.pipeline().work_ns(),
            },
            search: None,
            stopped_by: None,
        }
    }

    /// Looks at some more of its plans.
    fn take_turn(&mut self, incumbent: &mut Incumbent) {
        let control = incumbent.control.elsewhere();
        let mut own = incumbent.under(&control);
        (own.lower_ns, own.source) = (0, BoundSource::None);
        if self.search.is_none() {
            if self.options.is_line() {
                self.offer_quick_plans(&mut own, &control);
            }
            match Relaxation::new(self.options, &own) {
                Ok(relaxation) => self.search = Some(PlanSearch::new(relaxation, self.options, &own)),
                Err(stopped_by) => self.stopped_by = Some(stopped_by),
            }
        }
        if let Some(search) = &mut self.search {
            let stopped_by = search.run(&mut own, NODES_OF_A_TURN);
            self.bound_ns = self.bound_ns.max(own.lower_ns);
            self.stopped_by = (stopped_by != StoppedBy::SizeLimit).then_some(stopped_by);
        }
        incumbent.statistics.nodes = own.statistics.nodes;
        if let Some(plan) = own.plan.filter(|_| own.upper_ns < incumbent.upper_ns) {
            incumbent.offer(plan);
        }
    }

    /// Takes the quick plans of the formula that comes near its iterations.
    fn offer_quick_plans(&self, own: &mut Incumbent, control: &Control) {
        let formula = self.options.pipeline().for_the_formula();
        for assignment in homogeneous::quick_plans(&formula, control) {
            if let Some(plan) = self.options.plan(assignment, &[]) {
                own.offer(plan);
            }
        }
    }
}

/// Looks through families, always the one that promises most, until none promises anything; `is_all` says that there are no other plans.
fn search(incumbent: &mut Incumbent, families: &mut [Family], is_all: bool) -> StoppedBy {
    loop {
        let least = families
            .iter()
            .map(|family| family.bound_ns)
            .min()
            .unwrap_or(u64::MAX);
        if is_all {
            incumbent.raise(BoundSource::ChainsOfIdeals, least.min(incumbent.upper_ns));
        }
        incumbent.report();
        if let Some(stopped_by) = incumbent.control.must_stop() {
            return stopped_by;
        }
        let target_ns = incumbent.target_ns();
        let is_open = |family: &&mut Family| family.stopped_by.is_none() && family.bound_ns <= target_ns;
        let next = families
            .iter_mut()
            .filter(is_open)
            .min_by_key(|family| family.bound_ns);
        match next {
            Some(family) => family.take_turn(incumbent),
            None => break,
        }
    }
    let target_ns = incumbent.target_ns();
    let open = families.iter().filter(|family| family.bound_ns <= target_ns);
    let mut stopped = open.filter_map(|family| family.stopped_by);
    stopped.next().unwrap_or(StoppedBy::Completed)
}
