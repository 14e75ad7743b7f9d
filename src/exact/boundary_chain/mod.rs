//! What the first stages of a plan can carry, boundary by boundary.
#![doc = include_str!("../../../formulations/boundary_chain.md")]

mod boundary;
mod branch;
mod relax;
mod share;
mod span;
mod walk;

use std::cell::Cell;

use self::share::Share;
use self::span::Span;
use self::walk::Walk;
use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::exact::windows;
use crate::model::options::Communication;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// A problem whose boundaries are asked about, limit by limit.
pub struct BoundaryChain<'a> {
    problem: &'a Problem,
    closure: Closure,
    spans: Vec<Span>,
    /// Work of each item and all that must not lie behind it, in ns, and of all that must not lie before it.
    with_ns: [Vec<i128>; 2],
    /// Plans that should be near the last limit that was left undecided; their stages may be busier.
    pub near: Vec<Assignment>,
}

/// How far the chain goes.
#[derive(Clone, Copy)]
pub struct ChainEffort<'a> {
    /// Relaxations of a boundary, at most.
    pub nodes: usize,
    /// Items and transfers looked at in all of them, at most: what is left.
    pub steps_left: &'a Cell<u64>,
    /// Asked before each relaxation.
    pub must_stop: &'a dyn Fn() -> bool,
}

impl ChainEffort<'_> {
    fn is_over(self) -> bool {
        self.steps_left.get() == 0 || (self.must_stop)()
    }

    /// Counts a relaxation.
    fn take(self, steps: usize) {
        self.steps_left
            .set(self.steps_left.get().saturating_sub(steps as u64));
    }
}

impl<'a> BoundaryChain<'a> {
    /// The boundaries of a problem; `None` where transfers do not make stages busier.
    pub fn new(problem: &'a Problem) -> Option<Self> {
        if problem.settings.communication != Communication::Blocking {
            return None;
        }
        let closure = Closure::new(problem);
        let work_ns = |item: usize| i128::from(problem.items[item].work_ns());
        let with_ns = [&closure.ancestors, &closure.descendants].map(|rows| {
            let with = |item| work_ns(item) + bits::iter(rows.row(item)).map(work_ns).sum::<i128>();
            (0..problem.items.len()).map(with).collect()
        });
        let spans = problem.transfers.iter().map(|t| Span::new(t, &closure)).collect();
        Some(Self {
            problem,
            closure,
            spans,
            with_ns,
            near: Vec::new(),
        })
    }

    /// Goes along the boundaries, there and back, for plans whose busiest stage is at most `limit_ns`: refutes it, or leaves it undecided.
    ///
    /// Time O(r q c) for r rounds, q stages and c minimum cuts a boundary, of at most some times `effort.nodes`.
    pub fn within(&mut self, limit_ns: u64, effort: ChainEffort) -> Answer {
        let windows = windows::within(self.problem, &self.closure, limit_ns);
        if windows.some_is_empty() {
            return Answer::none_within(limit_ns);
        }
        let shares = self.spans.iter().filter_map(|span| Share::new(span, &windows));
        let mut walk = Walk {
            chain: self,
            limit_ns: i128::from(limit_ns),
            shares: shares.collect(),
            windows,
            plans: Vec::new(),
            effort,
        };
        if walk.run().is_none() {
            return Answer::none_within(limit_ns);
        }
        self.near = walk.plans;
        Answer::Undecided
    }
}
