//! Is there a plan with a given cycle time? Branch, bound and remember from both ends.
//!
//! The two directions search on their own, but each tells the other how much work can be done in the first `k` stations at its
//! end (`Side::reach`). Often a few stations at one end must leave much time idle, since few tasks may come first; then the other
//! direction has little idle time to give away from its very beginning, and most of its states fall.

use crate::exact::ideal_tree::cycle::Cycle;
use crate::exact::ideal_tree::order::Order;
use crate::exact::ideal_tree::side::{Expanded, Side, Strategy};
use crate::problem::plan::StoppedBy;
use crate::search::limits::Answer;

/// Steps that a state takes besides those over its loads.
const STEPS_OF_A_STATE: u64 = 100;

/// What is known about a question: a plan is a direction, and the tasks of each station in it. Without room for more states the question is
/// stopped; undecided, it may be taken up again.
pub type TreeAnswer = Answer<(usize, Vec<Vec<usize>>)>;

/// A search for a plan with one cycle time, which may be stopped and taken up again.
#[derive(Debug)]
pub struct Question {
    limit: u64,
    sides: [Side; 2],
    /// What each direction can do in its first stations: `Side::reach`.
    reach: [Vec<u64>; 2],
    /// Steps made so far; a state counts for as many as its bookkeeping takes.
    pub spent: u64,
}

impl Question {
    /// The question whether a plan has the cycle time `limit`; `None` where windows say no. `bytes` and `effort`: see `Side::new`.
    pub fn new(orders: &[Order; 2], limit: u64, bytes: usize, effort: u64) -> Option<Self> {
        let [forward, backward] = Cycle::both(orders, limit)?;
        let sides = [
            Side::new(&orders[0], forward, bytes / 2, effort),
            Side::new(&orders[1], backward, bytes / 2, effort),
        ];
        let reach = [sides[0].reach(), sides[1].reach()];
        Some(Self {
            limit,
            sides,
            reach,
            spent: 0,
        })
    }

    /// Goes on for about `work` steps: a quarter of them to complete levels, the others to look for plans.
    pub fn run(&mut self, orders: &[Order; 2], work: u64, must_stop: &dyn Fn() -> bool) -> TreeAnswer {
        let parts = [
            (Strategy::Levels, None, work / 4),
            (Strategy::Cyclic, Some(0), work / 8 * 3),
            (Strategy::Cyclic, Some(1), work / 8 * 3),
        ];
        for (strategy, direction, work) in parts {
            let answer = self.run_part(orders, (strategy, direction), work, must_stop);
            if answer != Answer::Undecided {
                return answer;
            }
        }
        Answer::Undecided
    }

    /// Goes on with one strategy, in one direction or in the cheaper one. States whose loads may take more steps than that wait.
    fn run_part(
        &mut self,
        orders: &[Order; 2],
        (strategy, direction): (Strategy, Option<usize>),
        work: u64,
        must_stop: &dyn Fn() -> bool,
    ) -> TreeAnswer {
        let start = self.spent;
        while self.spent - start < work && !must_stop() {
            let (Some(forward), Some(backward)) = (self.sides[0].cost(), self.sides[1].cost()) else {
                return Answer::none_within(self.limit);
            };
            let direction = direction.unwrap_or(usize::from(backward < forward));
            let order = &orders[direction];
            let side = &mut self.sides[direction];
            let advanced = side.advance(order, (strategy, work), &self.reach[1 - direction], must_stop);
            self.spent += STEPS_OF_A_STATE;
            let Some((expanded, steps)) = advanced else {
                break;
            };
            self.spent += steps;
            match expanded {
                Expanded::Plan(stations) => return Answer::Plan((direction, stations)),
                Expanded::Full => return Answer::Stopped(StoppedBy::MemoryLimit),
                Expanded::Done => {}
            }
            if side.completed() {
                self.reach[direction] = side.reach();
                if self.cannot_meet(order.total) {
                    return Answer::none_within(self.limit);
                }
            }
        }
        Answer::Undecided
    }

    /// Whether the two ends together cannot do all the work, wherever they meet.
    fn cannot_meet(&self, total: u64) -> bool {
        let [forward, backward] = &self.reach;
        forward
            .iter()
            .zip(backward.iter().rev())
            .any(|(first, last)| first + last < total)
    }
}
