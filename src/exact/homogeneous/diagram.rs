//! The search over stages of a decision diagram as a step: which limits it is asked about, and how widely.

use std::mem;

use crate::exact::closure::Closure;
use crate::exact::homogeneous::resumed::Resumed;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::stage_diagram::DiagramSearch;
use crate::exact::tuning::TUNING;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::{self, Answer, Decider, Open};

/// Passes with so many steps in all, each for a better plan or bound.
pub(crate) fn over_stages(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    let Some(limit_ns) = search.target_bottleneck_ns() else {
        search.incumbent.exhausted(BoundSource::WorkPerStage);
        return StoppedBy::Completed;
    };
    search.presolve(limit_ns);
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    if !Closure::has_room(&reduced.problem, search.control()) {
        return StoppedBy::SizeLimit;
    }
    let Some(mut stages) = DiagramSearch::new(&reduced.problem, search.control(), most_steps) else {
        return StoppedBy::SizeLimit;
    };
    let Resumed {
        width,
        prices,
        item_of,
    } = mem::take(&mut search.diagram);
    if item_of == reduced.item_of {
        stages.prices = prices;
    }
    let mut decider = Passes {
        stages,
        limits: Limits::new(width),
    };
    let stopped_by = limits::search(search, &mut decider);
    search.diagram = Resumed {
        width: decider.limits.width,
        prices: decider.stages.prices,
        item_of: reduced.item_of.clone(),
    };
    stopped_by
}

/// Passes over the reduced problem.
struct Passes<'p> {
    stages: DiagramSearch<'p>,
    limits: Limits,
}

impl Decider<HomogeneousSearch<'_>> for Passes<'_> {
    fn source(&self) -> Option<BoundSource> {
        Some(BoundSource::StageDiagram)
    }

    fn next(&mut self, open: Open) -> Option<u64> {
        self.limits.next(open.lower, open.upper)
    }

    fn decide(&mut self, search: &mut HomogeneousSearch, limit_ns: u64) -> Answer {
        let answer = self.stages.pass(limit_ns, self.limits.width);
        search.incumbent.statistics.ideals = Some(self.stages.reached);
        match answer {
            Answer::NoPlan { .. } => self.limits.ruled_out(),
            Answer::Undecided => self.limits.undecided(limit_ns),
            Answer::Plan(_) | Answer::Stopped(_) => {}
        }
        answer.map(|plan| search.improved(search.reduced.lift(&plan)))
    }
}

/// Which limit comes next, and how many sets of items a pass keeps of each number of stages.
struct Limits {
    width: usize,
    /// The last limit that a pass of this width has left undecided.
    undecided_ns: Option<u64>,
}

impl Limits {
    /// After passes of so many sets, if there were any.
    fn new(width: usize) -> Self {
        Self {
            width: width.max(TUNING.prefixes_at_first),
            undecided_ns: None,
        }
    }

    /// The next limit between bound and target.
    ///
    /// First passes look for plans: they halve what is open from below. Wider ones ask for anything better than the plan, and where that
    /// is too much, for half of it, until one proves a bound.
    fn next(&mut self, lower_ns: u64, target_ns: u64) -> Option<u64> {
        if self.width == TUNING.prefixes_at_first {
            let from_ns = lower_ns.max(self.undecided_ns.map_or(0, |ns| ns + 1));
            match target_ns.checked_sub(from_ns) {
                Some(open_ns) if open_ns < target_ns / TUNING.not_halved_by_diagrams => {
                    return Some(target_ns);
                }
                Some(open_ns) => return Some(from_ns + open_ns / 2),
                None => self.widen(),
            }
        }
        let Some(undecided_ns) = self.undecided_ns else {
            return Some(target_ns);
        };
        let half_ns = undecided_ns.saturating_sub(lower_ns) / 2;
        if half_ns < target_ns / TUNING.not_halved_by_diagrams {
            self.widen();
            return Some(target_ns);
        }
        Some((lower_ns + half_ns).min(target_ns))
    }

    fn widen(&mut self) {
        self.width *= TUNING.growth_of_prefixes;
        self.undecided_ns = None;
    }

    fn undecided(&mut self, limit_ns: u64) {
        self.undecided_ns = Some(limit_ns);
    }

    /// A pass has proved a bound below what it was asked for: wider ones come next.
    fn ruled_out(&mut self) {
        if self.width > TUNING.prefixes_at_first {
            self.widen();
        }
    }
}
