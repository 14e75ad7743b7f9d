//! Is there a plan within a limit? Searches that answer this give one kind of answer, and one search over limits asks them, from the bound and
//! from the best plan, until nothing is left between the two.

use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;

/// What a search knows of plans whose every stage keeps a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<P = Assignment> {
    /// There is one.
    Plan(P),
    /// There is none, nor for any limit below the next one that is worth asking about.
    NoPlan {
        /// That limit, which is larger than the one that was asked about.
        next_limit: u64,
    },
    /// Not known: what was left out, for width or for steps, may lead to one.
    Undecided,
    /// Not known: a limit of the search came first.
    Stopped(StoppedBy),
}

impl<P> Answer<P> {
    /// The answer about a limit by a search that is complete unless it stops.
    pub fn within(limit: u64, found: Result<Option<P>, StoppedBy>) -> Self {
        match found {
            Ok(Some(plan)) => Self::Plan(plan),
            Ok(None) => Self::none_within(limit),
            Err(stopped_by) => Self::Stopped(stopped_by),
        }
    }

    /// No plan keeps a limit, and nothing is known of larger ones.
    pub fn none_within(limit: u64) -> Self {
        let next_limit = limit.saturating_add(1);
        Self::NoPlan { next_limit }
    }

    /// The same of plans that are made of its own.
    pub fn map<Q>(self, plan: impl FnOnce(P) -> Q) -> Answer<Q> {
        match self {
            Self::Plan(own) => Answer::Plan(plan(own)),
            Self::NoPlan { next_limit } => Answer::NoPlan { next_limit },
            Self::Undecided => Answer::Undecided,
            Self::Stopped(stopped_by) => Answer::Stopped(stopped_by),
        }
    }

    /// Whether there is no plan.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::NoPlan { .. })
    }
}

/// What is known of a problem: a bound, and a plan.
pub(crate) trait Known {
    /// What a plan is.
    type Plan;

    /// The limits that are open; `None` where nothing is left to do. Whoever listens is told how far it has come.
    fn open(&mut self) -> Option<Open>;

    /// Takes a plan; whether it is better than all before.
    fn take(&mut self, plan: Self::Plan) -> bool;

    /// Takes that no plan keeps a limit: none is of interest where it is the largest that is open, or more.
    fn exclude(&mut self, source: BoundSource, limit: u64);
}

/// The limits that are open: no plan keeps a smaller one, and larger ones are of no interest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// The least of them.
    pub lower: u64,
    /// The largest of them: plans that need more are no better than the best one, or there are none.
    pub upper: u64,
    /// Whether there is a plan, just above them.
    pub has_plan: bool,
}

/// What decides whether there is a plan within a limit.
pub(crate) trait Decider<K: Known> {
    /// What proves that there is none; `None` where it looks at some plans alone and proves nothing.
    fn source(&self) -> Option<BoundSource>;

    /// The next limit that it can tell more of, of one or more that are open; `None` where there is none.
    fn next(&mut self, open: Open) -> Option<u64>;

    /// Whether there is a plan within a limit. One that it gives to `known` itself is no answer.
    fn decide(&mut self, known: &mut K, limit: u64) -> Answer<K::Plan>;
}

/// Asks about one limit after the other until bound and plan meet, nothing more can be told, or a limit of the search comes first.
pub(crate) fn search<K: Known>(known: &mut K, decider: &mut impl Decider<K>) -> StoppedBy {
    // No plan that it looks at keeps a smaller limit.
    let mut lower = 0;
    while let Some(mut open) = known.open() {
        open.lower = open.lower.max(lower);
        let is_open = open.lower <= open.upper;
        let Some(limit) = is_open.then(|| decider.next(open)).flatten() else {
            break;
        };
        match decider.decide(known, limit) {
            // One that is no better than the best is not what it was taken for: others must tell.
            Answer::Plan(plan) => {
                if !known.take(plan) {
                    return StoppedBy::SizeLimit;
                }
            }
            Answer::Undecided => {}
            Answer::NoPlan { next_limit } => {
                lower = next_limit;
                if let Some(source) = decider.source() {
                    known.exclude(source, next_limit - 1);
                }
            }
            Answer::Stopped(stopped_by) => return stopped_by,
        }
    }
    StoppedBy::Completed
}

/// What decides by a function, of limits that are halved; without halving, each question is for anything better.
pub(crate) struct Asked<F> {
    /// What proves that there is no plan, if anything does.
    pub source: Option<BoundSource>,
    /// Which limits come next.
    pub halving: Option<Halving>,
    /// Decides.
    pub decide: F,
}

impl<K: Known, F: FnMut(&mut K, u64) -> Answer<K::Plan>> Decider<K> for Asked<F> {
    fn source(&self) -> Option<BoundSource> {
        self.source
    }

    fn next(&mut self, open: Open) -> Option<u64> {
        match &mut self.halving {
            Some(halving) => halving.next(open),
            None => Some(open.upper),
        }
    }

    fn decide(&mut self, known: &mut K, limit: u64) -> Answer<K::Plan> {
        match ((self.decide)(known, limit), &mut self.halving) {
            (Answer::Undecided, None) => Answer::Stopped(StoppedBy::SizeLimit),
            (Answer::Undecided, Some(halving)) => {
                halving.undecided = halving.undecided.min(limit);
                Answer::Undecided
            }
            (answer, _) => answer,
        }
    }
}

/// The first step beyond the bound is such a part of it, where there is no plan.
const FIRST_STEP: u64 = 16;

/// Limits half-way between bound and plan. Before there is a plan, steps beyond the bound double: limits without one take little time, since few
/// stages keep them.
pub(crate) struct Halving {
    at_once: u64,
    nears: bool,
    step: u64,
    has_asked: bool,
    /// Limits without a plan since the last one.
    failures: u32,
    last_upper: u64,
    /// The least limit that could not be decided.
    undecided: u64,
}

impl Halving {
    /// Halves what is more than such a part of the largest limit that is open. Below, anything better is asked for, unless that was the last
    /// question.
    pub(crate) fn down_to(at_once: u64) -> Self {
        Self {
            at_once,
            nears: false,
            step: 0,
            has_asked: false,
            failures: 32,
            last_upper: 0,
            undecided: u64::MAX,
        }
    }

    /// Halves whatever is open, but first of all a plan that is known is to be beaten. The best plan is often found long before it is proved:
    /// each limit without one is a reason to ask nearer to it.
    pub(crate) fn near_plans() -> Self {
        Self {
            nears: true,
            ..Self::down_to(u64::MAX)
        }
    }

    fn next(&mut self, open: Open) -> Option<u64> {
        let is_all = open.upper < self.undecided;
        let upper = open.upper.min(self.undecided.saturating_sub(1));
        let width = upper.checked_sub(open.lower)?;
        if is_all && !open.has_plan {
            self.last_upper = u64::MAX;
            let step = self.step.max(open.lower / FIRST_STEP).max(1);
            self.step = step.saturating_mul(2);
            return Some(open.lower.saturating_add(step).min(upper));
        }
        self.failures = if upper < self.last_upper {
            0
        } else {
            self.failures + 1
        };
        self.last_upper = upper;
        let is_little = width < upper / self.at_once;
        if is_little && !is_all {
            return None;
        }
        self.has_asked = is_little && !self.has_asked;
        Some(match (self.has_asked, self.nears) {
            (true, _) => upper,
            (false, true) => upper - width.checked_shr(2 * self.failures + 1).unwrap_or(0),
            (false, false) => open.lower + width / 2,
        })
    }
}

/// The least of some limits that is not refuted, by halving; the last, where all before are.
pub(crate) fn least_left([mut lower, mut upper]: [u64; 2], refutes: impl Fn(u64) -> bool) -> u64 {
    while lower < upper {
        let middle = lower.midpoint(upper);
        match refutes(middle) {
            true => lower = middle + 1,
            false => upper = middle,
        }
    }
    lower
}
