//! What a pass over ideals and rows of devices asks of stages: that each keeps a limit, or that all of them together take least, once or as often as a
//! formula of iterations has it.

use crate::exact::modal::space::{Placement, Run, Space};
use crate::exact::modal::stages::{Bar, Stage};
use crate::problem::modes::{ByLevel, LEVELS};

/// A stage that is taken off ahead of others, over a boundary of a level that is known.
pub(super) struct Ahead<'s> {
    pub stage: &'s Stage,
    pub run: &'s Run,
    /// Its place, with the level of the boundary behind it.
    pub placement: Placement,
    /// What its layers take.
    pub work: u64,
    /// The levels that the boundary ahead of it may have.
    pub levels: &'s [usize],
    /// What is ahead of it takes at least for a micro-batch, and no stage there or here a shorter period.
    pub rest: [u64; 2],
}

/// What is asked of stages.
pub(super) trait Aim {
    /// What is known of the stages behind an ideal.
    type Known: Clone;
    /// What is known of none.
    const NOTHING: Self::Known;
    /// Whether one plan is as good as another.
    const FIRST_WILL_DO: bool;

    /// What is known with a stage more; `None` where no plan of interest has it there.
    fn ahead_of(known: &Self::Known, ahead: &Ahead, space: &Space, bar: &mut Bar) -> Option<Self::Known>;

    /// Whether whatever comes ahead of both costs no more ahead of the first.
    fn dominates(one: &Self::Known, other: &Self::Known) -> bool;

    /// What all stages take together, as far as that counts.
    fn taken(known: &Self::Known, space: &Space) -> u64;
}

/// Each stage keeps the limit.
pub(super) struct EachWithin;

impl Aim for EachWithin {
    /// Whether the first of these stages keeps it if the boundary ahead of it lies at a level.
    type Known = [bool; LEVELS];
    const NOTHING: Self::Known = [true; LEVELS];
    const FIRST_WILL_DO: bool = true;

    fn ahead_of(known: &Self::Known, ahead: &Ahead, space: &Space, bar: &mut Bar) -> Option<Self::Known> {
        if !known[ahead.placement.behind] {
            return None;
        }
        let mut keeps = [false; LEVELS];
        for &level in ahead.levels {
            let own = Placement {
                ahead: level,
                farthest: space.modes.links.farther(level, ahead.placement.behind),
                ..ahead.placement
            };
            keeps[level] = bar.keeps(space.time(ahead.stage, ahead.run, &own, ahead.work));
        }
        (keeps != [false; LEVELS]).then_some(keeps)
    }

    fn dominates(one: &Self::Known, other: &Self::Known) -> bool {
        (0..LEVELS).all(|level| one[level] || !other[level])
    }

    fn taken(_: &Self::Known, _: &Space) -> u64 {
        0
    }
}

/// One micro-batch passes all stages as soon as may be, in forward propagation: no more than the limit in all.
pub(super) struct SoonestThrough;

/// What a micro-batch takes through some last stages, in ticks.
#[derive(Clone)]
pub(super) struct Way {
    /// But for what the first of them pays for the boundary ahead of it.
    ticks: u64,
    /// That, by its level.
    ahead: ByLevel,
}

impl Aim for SoonestThrough {
    type Known = Way;
    const NOTHING: Way = Way {
        ticks: 0,
        ahead: [0; LEVELS],
    };
    const FIRST_WILL_DO: bool = false;

    fn ahead_of(known: &Way, ahead: &Ahead, _: &Space, bar: &mut Bar) -> Option<Way> {
        let (behind, crossing) = (ahead.placement.behind, &ahead.stage.crossing);
        // What goes both ways counts at the least that it may take.
        let both = crossing.both.into_iter().min().unwrap_or(0);
        let ticks = known.ticks + known.ahead[behind] + ahead.work + crossing.behind[behind] + both;
        let way = Way {
            ticks,
            ahead: crossing.ahead,
        };
        bar.keeps(ticks + ahead.rest[0]).then_some(way)
    }

    fn dominates(one: &Way, other: &Way) -> bool {
        (0..LEVELS).all(|level| one.ticks + one.ahead[level] <= other.ticks + other.ahead[level])
    }

    fn taken(way: &Way, _: &Space) -> u64 {
        // Nothing is ahead of all stages.
        way.ticks
    }
}

/// An iteration takes least by the formula: no more than the limit.
pub(super) struct LeastByFormula;

/// What some last stages take, in ticks: of the first of them, by the level of the boundary ahead.
#[derive(Clone)]
pub(super) struct Sums {
    /// One micro-batch through all of them.
    once: ByLevel,
    /// The longest period.
    period: ByLevel,
}

impl Sums {
    /// What the formula says of these stages, and of what takes so much ahead of them.
    fn value(&self, level: usize, [once, period]: [u64; 2], space: &Space) -> u64 {
        let others = (space.modes.micro_batches() - 1).saturating_mul(self.period[level].max(period));
        (self.once[level] + once).saturating_add(others)
    }
}

impl Aim for LeastByFormula {
    type Known = Sums;
    const NOTHING: Sums = Sums {
        once: [0; LEVELS],
        period: [0; LEVELS],
    };
    const FIRST_WILL_DO: bool = false;

    fn ahead_of(known: &Sums, ahead: &Ahead, space: &Space, bar: &mut Bar) -> Option<Sums> {
        let behind = ahead.placement.behind;
        let [once, period] = [known.once[behind], known.period[behind]];
        // No boundary has another level than those of the links.
        let mut sums = Sums {
            once: [u64::MAX / 2; LEVELS],
            period: [u64::MAX / 2; LEVELS],
        };
        let mut least = u64::MAX;
        for &level in ahead.levels {
            let own = Placement {
                ahead: level,
                farthest: space.modes.links.farther(level, behind),
                ..ahead.placement
            };
            let each = space.each(ahead.stage, &own, ahead.work);
            let ring = space.ring(ahead.stage, ahead.run, &own);
            sums.once[level] = once + each + ring;
            sums.period[level] = period.max(each.div_ceil(ahead.run.mode.replicas as u64) + ring);
            least = least.min(sums.value(level, ahead.rest, space));
        }
        bar.keeps(least).then_some(sums)
    }

    fn dominates(one: &Sums, other: &Sums) -> bool {
        let no_more =
            |level: usize| one.once[level] <= other.once[level] && one.period[level] <= other.period[level];
        (0..LEVELS).all(no_more)
    }

    fn taken(sums: &Sums, space: &Space) -> u64 {
        let values = (0..LEVELS).map(|level| sums.value(level, [0; 2], space));
        values.min().unwrap_or(0)
    }
}
