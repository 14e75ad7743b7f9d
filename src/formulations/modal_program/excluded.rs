//! Stages that are left out, since no plan of interest has them.

use good_lp::Expression;

use super::Builder;
use crate::problem::modes::StageMode;

/// A stage of no interest: with these items, or more, but none of those that must not join.
#[derive(Clone, Debug, PartialEq)]
pub struct Excluded {
    /// Items that lie in it.
    pub items: Vec<usize>,
    /// How it runs.
    pub mode: StageMode,
    /// With at least so many micro-batches in flight.
    pub in_flight: u64,
    /// Items that do not: with one of them the stage may be of interest.
    pub without: Vec<usize>,
    /// Where its place matters, the place.
    pub pinned: Option<Pinned>,
}

/// The place of a stage in a plan, as far as the levels of its links depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// The stage.
    pub stage: usize,
    /// Other items, with their stages.
    pub items: Vec<(usize, usize)>,
    /// The mode of every stage; `None` where it is empty.
    pub modes: Vec<Option<StageMode>>,
}

impl Builder<'_> {
    /// Family `excluded`: something differs from a stage of no interest.
    pub(super) fn exclude(&mut self, at: usize, excluded: &Excluded) {
        for k in 0..self.stages.len() {
            let mut same = Expression::default();
            let mut all = 0.0;
            for &item in &excluded.items {
                all += 1.0;
                self.add_item(k, item, excluded, &mut same);
            }
            for &item in &excluded.without {
                self.staging.add_x(&mut same, -1.0, item, k);
            }
            if let Some(pinned) = &excluded.pinned {
                if pinned.stage != k {
                    continue;
                }
                all += self.add_place(pinned, &mut same);
            }
            let most = Expression::from(all - 1.0);
            self.program
                .add_row(format!("excluded[{},{}]", at + 1, k + 1), same, most);
        }
    }

    /// Adds whether an item runs so in a stage.
    fn add_item(&self, k: usize, item: usize, excluded: &Excluded, same: &mut Expression) {
        let stage = &self.stages[k];
        for (choice, ran) in stage.choices.iter().zip(&stage.items[item]) {
            let is_same = choice.mode == excluded.mode && choice.in_flight >= excluded.in_flight;
            if let Some(ran) = ran.as_ref().filter(|_| is_same) {
                ran.on.add_to(same, 1.0);
            }
        }
    }

    /// Adds what is the same of a place; returns how much that is at most.
    fn add_place(&self, pinned: &Pinned, same: &mut Expression) -> f64 {
        for &(item, stage) in &pinned.items {
            self.staging.add_x(same, 1.0, item, stage);
        }
        for (stage, mode) in self.stages.iter().zip(&pinned.modes) {
            *same += match mode {
                Some(mode) => stage.sum(|choice| f64::from(choice.mode == *mode)),
                None => stage.sum(|_| -1.0),
            };
        }
        let used = pinned.modes.iter().flatten().count();
        (pinned.items.len() + used) as f64
    }
}
