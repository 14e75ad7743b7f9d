//! Passes over one lattice, which narrow each other: stages that no better plan can have are left out of all that follow.

use crate::exact::modal::ahead::Ahead;
use crate::exact::modal::aims::{Aim, EachWithin};
use crate::exact::modal::behind::Behind;
use crate::exact::modal::items::Work;
use crate::exact::modal::round::Round;
use crate::exact::modal::rows::RowPass;
use crate::exact::modal::search::{ModalAnswer, Question};
use crate::exact::modal::space::Space;
use crate::exact::modal::stages::{Bar, Stage, Stages};
use crate::exact::modal::watched::underpaid;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Chosen;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// What no plan takes less than, and a plan, if levels are what they count as.
pub(super) type Least = (u64, Option<(Assignment, Chosen)>);

/// A lattice, the stages in it that may be of use, and what is known of them.
pub(super) struct Field<'a> {
    problem: &'a Problem,
    pub(super) space: Space<'a>,
    stages: Stages,
    /// What is behind takes at least, in any plan of at most `ceiling`.
    behind: Behind,
    ceiling: u64,
    /// What ideals take at least, where devices differ.
    work: Option<Work>,
}

impl<'a> Field<'a> {
    /// All stages of a lattice.
    pub(super) fn new(problem: &'a Problem, space: Space<'a>, work: Option<&Work>) -> Self {
        Self {
            work: work.map(|work| work.of_ideals(space.lattice.sums(work.least()))),
            problem,
            stages: Stages::new(&space),
            behind: Behind::unknown(&space),
            space,
            ceiling: u64::MAX,
        }
    }

    /// Leaves out what no plan of at most `ceiling` can have: stages that leave too few devices for what is ahead of them and behind.
    pub(super) fn narrow(&mut self, ceiling: u64) -> Result<(), StoppedBy> {
        if ceiling >= self.ceiling || !self.space.control.switches.modal_windows || self.work.is_some() {
            return Ok(());
        }
        let (space, stages) = (&self.space, &mut self.stages);
        let mut bar = Bar {
            limit: ceiling,
            next: u64::MAX,
        };
        let behind = Behind::new(space, stages, ceiling)?;
        let ahead = Ahead::new(space, stages, &behind, bar)?;
        let is_end = |ideal: usize| {
            (0..space.node).any(|place| {
                let devices = ahead.devices(ideal, place);
                devices.is_some_and(|devices| {
                    devices.saturating_add(behind.devices(ideal, place)) <= space.modes.devices
                })
            })
        };
        stages.keep(space, &mut bar, &is_end, &mut |ideal, stage| {
            is_of_use(space, (ideal, stage), (&ahead, &behind), ceiling)
        })?;
        (self.behind, self.ceiling) = (behind, ceiling);
        Ok(())
    }

    /// A pass from the front, which may do; then passes with labels, until the plan that they find is costed as they have it.
    pub(super) fn ask(&mut self, question: Question) -> Result<ModalAnswer, StoppedBy> {
        let mut bar = Bar {
            limit: question.limit,
            next: question.ceiling,
        };
        if let Some(work) = &self.work {
            let mut pass = RowPass::<EachWithin>::new(self.problem, &self.space, work, question.least_again);
            let found = pass.run(&mut self.stages, &mut bar)?;
            let is_kept = |plan| !question.least_again || self.keeps(plan, bar);
            return Ok(match found {
                Some(plan) if is_kept(&plan) => Answer::Plan(plan),
                Some(_) => Answer::Undecided,
                None => Answer::NoPlan { next_limit: bar.next },
            });
        }
        let mut ahead = None;
        if self.space.control.switches.modal_ahead {
            let found = Ahead::new(&self.space, &mut self.stages, &self.behind, bar)?;
            bar = found.bar;
            if !question.least_again
                && let Some(plan) = found.plans(&self.space).find(|plan| self.keeps(plan, bar))
            {
                return Ok(Answer::Plan(plan));
            }
            let all = self.space.lattice.all();
            let fits = |devices: usize| devices <= self.space.modes.devices;
            if !found.least_devices(all).is_some_and(fits) {
                return Ok(Answer::NoPlan { next_limit: bar.next });
            }
            ahead = Some(found);
        }
        loop {
            let mut tried = bar;
            let mut round = Round::new(self.problem, &self.space, ahead.as_ref(), question.least_again);
            let Some(plan) = round.run(&mut self.stages, &mut tried)? else {
                return Ok(Answer::NoPlan {
                    next_limit: tried.next,
                });
            };
            let unwatched = match self.keeps(&plan, bar) {
                true => Vec::new(),
                // Of links it is not kept account what goes farther than their boundary.
                false if self.space.modes.has_links => Vec::new(),
                false => underpaid(&self.space, &plan.0, &plan.1, question.limit),
            };
            let space = &mut self.space;
            if !space.watched.add(space.modes, &space.lattice, &unwatched) {
                return Ok(Answer::Plan(plan));
            }
        }
    }

    /// What no plan takes less than of an aim, and the plan of that; `None` where none takes `limit` ticks at most.
    pub(super) fn least<A: Aim>(&mut self, limit: u64, work: &Work) -> Result<Option<Least>, StoppedBy> {
        let mut bar = Bar {
            limit,
            next: u64::MAX,
        };
        let work = work.of_ideals(self.space.lattice.sums(work.least()));
        let mut pass = RowPass::<A>::new(self.problem, &self.space, &work, false);
        let found = pass.run(&mut self.stages, &mut bar)?;
        Ok(pass.least().map(|least| (least, found)))
    }

    /// Whether a plan keeps a limit.
    fn keeps(&self, (assignment, modes): &(Assignment, Chosen), bar: Bar) -> bool {
        let plan = Allocation {
            modes: Some(modes.clone()),
            ..Allocation::from(assignment.clone())
        };
        cost::modal_ns(self.problem, self.space.modes, &plan).is_some_and(|ns| ns <= bar.limit)
    }
}

/// Whether some plan of at most `ceiling` may have a stage, in some mode.
fn is_of_use(
    space: &Space,
    (ideal, stage): (usize, &mut Stage),
    (ahead, behind): (&Ahead, &Behind),
    ceiling: u64,
) -> bool {
    let devices = space.modes.devices;
    let Some(before) = ahead.least_devices(stage.ahead) else {
        return false;
    };
    space.runs(stage.degree).any(|run| {
        if before + run.devices > devices || space.least_time(stage, &run) > ceiling {
            return false;
        }
        let replicas = behind.replicas(ideal);
        if replicas == usize::MAX {
            return false;
        }
        let in_flight = space.modes.flight.of(run.mode.replicas, replicas);
        let Some(work) = stage.time_within(space, ideal, run.mode, in_flight) else {
            return false;
        };
        (0..space.node).any(|end| {
            let placement = space.placement(&run, end);
            let takes = ahead.devices(stage.ahead, placement.start);
            let takes = takes.map(|takes| takes + run.devices);
            placement.fits
                && takes.is_some_and(|takes| takes.saturating_add(behind.devices(ideal, end)) <= devices)
                && space.time(stage, &run, &placement, work) <= ceiling
        })
    })
}
