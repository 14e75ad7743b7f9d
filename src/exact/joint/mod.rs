//! The cut of a network and the order of its operations, chosen together for the shortest iteration.
#![doc = include_str!("../../../formulations/joint.md")]

mod alternate;
mod crossing;
mod nested;
mod plan;
mod question;
mod relaxation;
mod search;
mod simple;
mod starts;

use std::time::Duration;

use crate::exact::best_schedule::answer::Open;
use crate::exact::best_schedule::iteration;
use crate::model::options::{Cuts, WorkerMode};
use crate::model::settings::Settings;
use crate::problem::control::Control;
use crate::problem::plan::{Status, StoppedBy};
use crate::problem::{Assignment, Problem};
use crate::schedule::{Chunks, Order};
use crate::search::in_time::{self, Ending, Latest};

pub use plan::plan;
pub use question::{Question, Weights};
use relaxation::Relaxation;
use starts::Starts;

/// The part of the time that is left which the order of one cut may take.
const SHARE: f64 = 0.15;
/// The part of the time after which better cuts are no longer looked for by moves: the rest goes into the proof.
const SHARE_OF_MOVES: f64 = 0.6;
/// How many cuts are starts of those that nested chunks say to be good.
const NESTED_CUTS: usize = 4;
/// What is taken for the time that is left where there is no limit.
const NO_LIMIT: Duration = Duration::from_secs(60);

/// What a search for a cut and an order found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best cut, and its chunks; `None` where there is none within the room of the devices, or none was found.
    pub cut: Option<(Assignment, Chunks)>,
    /// Its best order, rules on it, and the bound for every cut and order.
    pub of_cut: iteration::Found,
    /// No order of this cut takes less.
    pub cut_bound_ns: u64,
    /// How many cuts were run.
    pub cuts: usize,
    /// Where the gap comes from; `None` without one.
    pub open: Option<Open>,
}

/// What keeps a problem from being one of cuts into chunks.
pub fn refusal(settings: &Settings) -> Option<&'static str> {
    if !settings.mode.trains() {
        Some("inference, where every order is the same")
    } else if settings.worker == WorkerMode::Concurrent {
        Some("workers that run both phases at once")
    } else if settings.modal {
        Some("stages with modes")
    } else if settings.heterogeneous {
        Some("devices that differ, or groups of them")
    } else if settings.cuts == Cuts::Separate {
        Some("separate cuts")
    } else if !settings.constraints.is_empty() {
        Some("constraints")
    } else {
        None
    }
}

/// The shortest iteration over all cuts into chunks, one stage each and none empty, and all orders within the room of the devices.
///
/// The problem is one that [`refusal`] has nothing against. Its limit of memory says how much room there is; how many stages it allows, its
/// objective and its schedule do not matter.
pub fn best(problem: &Problem, question: &Question, labels: &[String], control: &Control) -> Found {
    search(problem, question, labels, &Latest::default(), control)
}

/// The same in the time that `control` allows and a moment more, whatever a step of it takes: then what was found by then.
pub fn best_in_time(problem: &Problem, question: &Question, labels: &[String], control: &Control) -> Found {
    let (own, asked, names) = (problem.clone(), question.clone(), labels.to_vec());
    let in_time =
        move |control: &Control, latest: &Latest<Known>| search(&own, &asked, &names, latest, control);
    match in_time::latest(control, in_time) {
        Ending::Ended(found) => found,
        Ending::Left(known, stopped_by) => {
            let known = known.unwrap_or_default();
            let latest = Latest::default();
            let mut state = State::new(problem, question, &latest, control);
            (state.best, state.cuts) = (known.best, known.cuts);
            let proof = search::Proof {
                cuts_ns: 0,
                stopped_by,
            };
            state.finish(known.bound_ns, proof)
        }
    }
}

fn search(
    problem: &Problem,
    question: &Question,
    labels: &[String],
    latest: &Latest<Known>,
    control: &Control,
) -> Found {
    let mut state = State::new(problem, question, latest, control);
    // Bounds that take no search come first: starts may use up a short limit.
    let ideals = relaxation::ideals(&state);
    let least = |devices| (devices, simple::simple_ns(&state, devices, ideals.as_ref().ok()));
    let mut simple: Vec<(usize, u64)> = question.device_counts(problem).map(least).collect();
    state.raise(simple.iter().map(|&(_, ns)| ns).min());
    let mut starts = Starts::new(&mut state, labels);
    let period_ns = starts.period_ns;
    state.raise(Some(period_ns));
    if let (Ok(ideals), [(_, ns)]) = (&ideals, &mut simple[..]) {
        let (nested_ns, cuts) = nested::nested(&state, ideals, *ns, &state.within(SHARE));
        *ns = nested_ns.max(*ns);
        for cut in cuts.iter().take(NESTED_CUTS) {
            starts.take(&mut state, cut);
        }
    }
    state.raise(simple.iter().map(|&(_, ns)| ns).min());
    starts.search(&mut state);
    state.improve();
    let proof = match ideals.and_then(|ideals| Relaxation::new(&state, ideals, &simple)) {
        Ok(relaxation) => search::prove(&relaxation, &mut state),
        Err(stopped_by) => search::Proof {
            cuts_ns: 0,
            stopped_by,
        },
    };
    let simple_ns = simple.iter().map(|&(_, ns)| ns).min();
    state.finish(simple_ns.unwrap_or(0).max(period_ns), proof)
}

/// What may be told of a search before it ends.
#[derive(Clone, Debug, Default)]
struct Known {
    best: Option<Candidate>,
    cuts: usize,
    /// No cut and order take less, in ns.
    bound_ns: u64,
}

/// A cut, its chunks, and an order of theirs.
#[derive(Clone, Debug)]
struct Candidate {
    cut: Assignment,
    chunks: Chunks,
    order: Order,
    iteration_ns: u64,
}

/// What is known so far.
struct State<'a> {
    problem: &'a Problem,
    question: &'a Question,
    control: &'a Control<'a>,
    latest: &'a Latest<Known>,
    best: Option<Candidate>,
    /// No cut and order take less, as far as is known without a search, in ns.
    bound_ns: u64,
    /// How many cuts were run.
    cuts: usize,
    /// The least bound of a cut that was looked at whose best order is not proved.
    orders_ns: u64,
}

impl<'a> State<'a> {
    fn new(
        problem: &'a Problem,
        question: &'a Question,
        latest: &'a Latest<Known>,
        control: &'a Control<'a>,
    ) -> Self {
        Self {
            problem,
            question,
            control,
            latest,
            best: None,
            bound_ns: 0,
            cuts: 0,
            orders_ns: u64::MAX,
        }
    }

    /// Takes a bound on all cuts and orders, if there is one.
    fn raise(&mut self, bound_ns: Option<u64>) {
        self.bound_ns = self.bound_ns.max(bound_ns.unwrap_or(0));
        self.show();
    }

    /// Shows what is known.
    fn show(&self) {
        self.latest.show(Known {
            best: self.best.clone(),
            cuts: self.cuts,
            bound_ns: self.bound_ns,
        });
    }

    fn best_ns(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| best.iteration_ns)
    }

    /// A share of the time that is left.
    fn within(&self, share: f64) -> Control<'a> {
        self.within_at_least(share, Duration::ZERO)
    }

    /// A share of the time that is left, or this much if that is more.
    fn within_at_least(&self, share: f64, least: Duration) -> Control<'a> {
        let left = self.control.remaining().unwrap_or(NO_LIMIT);
        Control {
            gap: 0.0,
            ..self
                .control
                .elsewhere()
                .with_time(Some(left.mul_f64(share).max(least)))
        }
    }

    /// Looks for the best order of a cut with some of the time, and takes both if that is better. Returns what is proved of the order, and
    /// the bound of the cut; `None` where no order fits the devices.
    fn look_at(&mut self, cut: Assignment) -> Option<(Status, u64)> {
        let chunks = self.question.chunks(self.problem, &cut)?;
        let micro_batches = self.question.micro_batches;
        self.cuts += 1;
        // An order that is known for this cut is one to start from.
        let known = self.best.as_ref().filter(|best| best.cut == cut);
        let known = known.map(|best| best.order.clone());
        let found = iteration::better(&chunks, micro_batches, known.as_ref(), &self.within(SHARE));
        let iteration_ns = found.iteration_ns?;
        if let Some(order) = found.order {
            self.keep(Candidate {
                cut,
                chunks,
                order,
                iteration_ns,
            });
        }
        Some((found.status, found.bound_ns))
    }

    /// Improves the cut under the best order, and the order of the best cut, in turns.
    fn improve(&mut self) {
        let limit = self.within(SHARE_OF_MOVES);
        let mut searched_ns = u64::MAX;
        while let Some(best) = self.best.clone() {
            alternate::improve_cut(self, &limit);
            if limit.must_stop().is_some() || self.best_ns() >= searched_ns.min(best.iteration_ns) {
                return;
            }
            if let Some(best) = self.best.clone() {
                self.look_at(best.cut);
            }
            searched_ns = self.best_ns();
        }
    }

    /// Runs a known order on another cut, and takes it if that is better.
    fn offer(&mut self, cut: &Assignment, chunks: Chunks, order: &Order) -> bool {
        let time_ns = iteration::time_ns(&chunks, order, self.question.micro_batches);
        let Some(iteration_ns) = time_ns.filter(|&ns| ns < self.best_ns()) else {
            return false;
        };
        self.best = Some(Candidate {
            cut: cut.clone(),
            chunks,
            order: order.clone(),
            iteration_ns,
        });
        self.show();
        true
    }

    /// Takes a candidate that is better than the best one.
    fn keep(&mut self, candidate: Candidate) {
        if candidate.iteration_ns < self.best_ns() {
            self.best = Some(candidate);
            self.show();
        }
    }

    fn finish(self, simple_ns: u64, proof: search::Proof) -> Found {
        let best_ns = self.best_ns();
        let known_ns = proof.cuts_ns.max(simple_ns);
        let bound_ns = known_ns.min(self.orders_ns).min(best_ns);
        let stopped_by = self.control.must_stop().unwrap_or(proof.stopped_by);
        let Some(best) = self.best else {
            let status = if bound_ns == u64::MAX {
                Status::Infeasible
            } else {
                Status::Unknown
            };
            return Found {
                cut: None,
                of_cut: iteration::Found {
                    order: None,
                    iteration_ns: None,
                    bound_ns,
                    status,
                    stopped_by,
                    rules: Vec::new(),
                },
                cut_bound_ns: bound_ns,
                cuts: self.cuts,
                open: (status == Status::Unknown).then_some(Open::Cuts),
            };
        };
        let rules = iteration::rules_on(&best.chunks, self.question.micro_batches);
        let is_proved = bound_ns >= best_ns;
        let (status, stopped_by, open) = match (is_proved, self.orders_ns < known_ns) {
            (true, _) => (Status::Optimal, StoppedBy::Completed, None),
            (false, true) => (Status::Feasible, stopped_by, Some(Open::Orders)),
            (false, false) => (Status::Feasible, stopped_by, Some(Open::Cuts)),
        };
        Found {
            cut_bound_ns: iteration::bound_ns(&best.chunks, self.question.micro_batches).max(bound_ns),
            of_cut: iteration::Found {
                order: Some(best.order),
                iteration_ns: Some(best_ns),
                bound_ns,
                status,
                stopped_by,
                rules,
            },
            cut: Some((best.cut, best.chunks)),
            cuts: self.cuts,
            open,
        }
    }
}
