//! What a pass over ideals and rows of devices asks of stages: that each keeps a limit, or that all of them together take least.

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
    fn taken(known: &Self::Known) -> u64;
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

    fn taken(_: &Self::Known) -> u64 {
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
        bar.keeps(ticks).then_some(way)
    }

    fn dominates(one: &Way, other: &Way) -> bool {
        (0..LEVELS).all(|level| one.ticks + one.ahead[level] <= other.ticks + other.ahead[level])
    }

    fn taken(way: &Way) -> u64 {
        // Nothing is ahead of all stages.
        way.ticks
    }
}
