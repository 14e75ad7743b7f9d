//! Cuts to start from, each with every published rule.
//!
//! What is found is no worse than any rule on any of these cuts. So the quick ones, and the rules on all of them, come before any search. They have a
//! share of the limit, but may take [`LEAST_OF_QUICK`]. Cuts that are the best for something else take a search each, which likewise has a share and
//! may take [`LEAST_OF_A_GUIDE`].

use std::time::Duration;

use super::{Candidate, State};
use crate::exact;
use crate::exact::best_schedule::iteration;
use crate::heuristics::{Effort, METHODS};
use crate::model::options::{Objective, Schedule};
use crate::model::settings::Settings;
use crate::problem::cost::without_empty_stages;
use crate::problem::{Assignment, Problem};

/// The part of the time that is left which the search for a cut to start from may take.
const SHARE_OF_A_GUIDE: f64 = 0.1;
/// What it may take in any case: enough for most networks, so that a short limit does not lose them.
const LEAST_OF_A_GUIDE: Duration = Duration::from_millis(500);
/// The part of the time that is left which quick heuristics of one problem may take, and what they may take in any case. Those that cut evenly take
/// no time.
const SHARE_OF_QUICK: f64 = 0.1;
const LEAST_OF_QUICK: Duration = Duration::from_millis(250);
/// How many of the starts get lists by urgency, those with the best rules first, and how many of these then get their best orders.
const LISTED: usize = 5;
const SEARCHED: usize = 2;
/// The part of the time that is left which lists of one start may take.
const SHARE_OF_LISTS: f64 = 0.05;

/// A cut to start from, and the best known iteration of it in ns.
struct Start {
    cut: Assignment,
    iteration_ns: u64,
}

/// Cuts to start from, each with every rule.
#[derive(Default)]
pub(super) struct Starts {
    starts: Vec<Start>,
    /// What the period says of every cut and order, in ns.
    pub period_ns: u64,
}

impl Starts {
    /// All of them.
    pub(super) fn new(state: &mut State, labels: &[String]) -> Self {
        let mut starts = Self::default();
        let guides = guides(state);
        for guide in &guides {
            starts.take_quick(state, guide);
        }
        for guide in &guides {
            let bound_ns = starts.take_best(state, guide, labels);
            if state.question.is_plain() && guide.settings.objective == Objective::Period {
                // Links are never what an order waits for, and so no more than work counts where there are some.
                let counts = !guide.settings.communication.has_links()
                    && guide.settings.all_stages == state.problem.settings.all_stages;
                let period_ns = bound_ns.filter(|_| counts).unwrap_or(0);
                starts.period_ns = starts
                    .period_ns
                    .max(state.question.micro_batches as u64 * period_ns);
            }
        }
        starts
    }

    /// Looks for the best orders of the best.
    pub(super) fn search(mut self, state: &mut State) {
        self.starts.sort_by_key(|start| start.iteration_ns);
        for start in self.starts.iter_mut().take(LISTED) {
            let within = state.within(SHARE_OF_LISTS);
            let micro_batches = state.question.micro_batches;
            let Some(chunks) = state.question.chunks(state.problem, &start.cut) else {
                continue;
            };
            if let Some((order, iteration_ns)) = iteration::quick(&chunks, micro_batches, &within) {
                start.iteration_ns = iteration_ns;
                state.offer(&start.cut, chunks, &order);
            }
        }
        self.starts.sort_by_key(|start| start.iteration_ns);
        for start in self.starts.into_iter().take(SEARCHED) {
            state.look_at(start.cut);
        }
    }

    /// Takes the plans of quick heuristics, even cuts among them.
    fn take_quick(&mut self, state: &mut State, guide: &Problem) {
        let within = state.within_at_least(SHARE_OF_QUICK, LEAST_OF_QUICK);
        let must_stop = || within.must_stop().is_some();
        for heuristic in METHODS.iter().filter(|method| method.effort == Effort::Quick) {
            if let Some(plan) = heuristic.plan(guide, within.seed, &must_stop) {
                self.take(state, &plan.assignment);
            }
        }
    }

    /// Takes the plan of the exact engine; returns its bound, if that says anything.
    fn take_best(&mut self, state: &mut State, guide: &Problem, labels: &[String]) -> Option<u64> {
        let within = state.within_at_least(SHARE_OF_A_GUIDE, LEAST_OF_A_GUIDE);
        // A solver that breaks down does no harm: these are no more than starts.
        let outcome = exact::solve(guide, exact::Method::Exact, labels, &within).ok()?;
        // What the search met first may suit an order better than the plan that is answered for it.
        let bound_ns = outcome.bound_ns;
        let first = outcome.allocation.clone();
        let answered = exact::tie_breaking::settled(guide, outcome).allocation;
        for plan in first.into_iter().chain(answered) {
            self.take(state, &plan.assignment);
        }
        Some(bound_ns).filter(|&bound_ns| bound_ns < u64::MAX)
    }

    /// Runs every rule on a cut.
    pub(super) fn take(&mut self, state: &mut State, cut: &Assignment) {
        let cut = without_empty_stages(cut).0;
        let stages = cut.iter().max().map_or(0, |last| last + 1);
        let is_known = self.starts.iter().any(|start| start.cut == cut);
        if is_known || !state.question.can_have(state.problem, stages) {
            return;
        }
        let Some(chunks) = state.question.chunks(state.problem, &cut) else {
            return;
        };
        state.cuts += 1;
        let Some((order, iteration_ns)) = iteration::by_rules(&chunks, state.question.micro_batches) else {
            return;
        };
        self.starts.push(Start {
            cut: cut.clone(),
            iteration_ns,
        });
        state.keep(Candidate {
            cut,
            chunks,
            order,
            iteration_ns,
        });
    }
}

/// Problems of the same items whose best cuts are good for some order: the period, with devices to spare and without, the period of devices that
/// hold several chunks, and an iteration under each schedule that has one.
fn guides(state: &State) -> Vec<Problem> {
    let (problem, question) = (state.problem, state.question);
    let all = question.devices * question.virtual_stages;
    let mut guides = Vec::new();
    if question.is_plain() {
        let period = question.at_most(problem, question.devices);
        let iteration = |schedule| under(&period, schedule);
        guides.extend([Schedule::OneFOneB, Schedule::Gpipe].map(iteration));
        guides.insert(0, period);
    }
    if all <= problem.items.len() {
        let exactly = question.exactly(problem, all);
        let chunked = exactly.chunked(question.devices, question.virtual_stages, question.placement);
        guides.push(exactly);
        if !question.is_plain() {
            guides.push(chunked);
        }
    }
    guides
}

/// The same with an iteration under a schedule as its objective.
fn under(guide: &Problem, schedule: Schedule) -> Problem {
    let settings = Settings {
        objective: Objective::Iteration,
        schedule,
        ..guide.settings.clone()
    };
    let mut guide = guide.clone();
    guide.settings = settings;
    guide
}
