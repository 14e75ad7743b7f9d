//! Better cuts under an order that is known: items move across boundaries.

use super::State;
use crate::exact::best_schedule::iteration;
use crate::problem::Assignment;
use crate::problem::control::Control;

/// How many items move at a time.
const STEPS: [usize; 5] = [1, 2, 3, 5, 8];

/// Moves items across boundaries while an iteration gets shorter: first under the order that is known, and where that helps no more, under
/// lists by urgency for the moved cut. A move that helps is made again before the next one is tried.
pub(super) fn improve_cut(state: &mut State, limit: &Control) {
    let Some(chunks) = state.best.as_ref().map(|best| best.chunks.len()) else {
        return;
    };
    let moves = moves(chunks);
    // One chunk has no boundary.
    if moves.is_empty() {
        return;
    }
    let mut has_new_orders = false;
    // How many moves were tried since one has helped.
    let (mut at, mut tried) = (0, 0);
    while limit.must_stop().is_none() {
        if tried == moves.len() {
            if has_new_orders {
                return;
            }
            (has_new_orders, tried) = (true, 0);
        }
        let best = state.best.as_ref().filter(|best| best.chunks.len() == chunks);
        let Some(cut) = best.map(|best| moves[at].of(&best.cut)) else {
            return;
        };
        let helps = cut.is_some_and(|cut| match has_new_orders {
            false => under_the_order(state, &cut),
            true => under_a_new_order(state, &cut),
        });
        match helps {
            true => (has_new_orders, tried) = (false, 0),
            false => (at, tried) = ((at + 1) % moves.len(), tried + 1),
        }
    }
}

fn under_the_order(state: &mut State, cut: &Assignment) -> bool {
    let chunks = state.question.chunks(state.problem, cut);
    let order = state.best.as_ref().map(|best| best.order.clone());
    match (chunks, order) {
        (Some(chunks), Some(order)) => state.offer(cut, chunks, &order),
        _ => false,
    }
}

fn under_a_new_order(state: &mut State, cut: &Assignment) -> bool {
    let micro_batches = state.question.micro_batches;
    let Some(chunks) = state.question.chunks(state.problem, cut) else {
        return false;
    };
    if iteration::bound_ns(&chunks, micro_batches) >= state.best_ns() {
        return false;
    }
    state.cuts += 1;
    match iteration::quick(&chunks, micro_batches, state.control) {
        Some((order, _)) => state.offer(cut, chunks, &order),
        None => false,
    }
}

/// A few items that move from a chunk to one beside it. Items are numbered in a topological order, so that the last ones of a chunk may go to
/// the next chunk, and its first ones to the chunk before.
#[derive(Clone, Copy)]
struct Move {
    from: usize,
    to: usize,
    step: usize,
}

/// All moves between so many chunks.
fn moves(chunks: usize) -> Vec<Move> {
    let pairs = (1..chunks).flat_map(|c| [(c - 1, c), (c, c - 1)]);
    let moves = pairs.flat_map(|(from, to)| STEPS.map(|step| Move { from, to, step }));
    moves.collect()
}

impl Move {
    /// The moved cut; `None` where the chunk has no more items than that.
    fn of(self, cut: &Assignment) -> Option<Assignment> {
        let own: Vec<usize> = (0..cut.len()).filter(|&item| cut[item] == self.from).collect();
        if own.len() <= self.step {
            return None;
        }
        let moved = match self.to > self.from {
            true => &own[own.len() - self.step..],
            false => &own[..self.step],
        };
        let mut cut = cut.clone();
        moved.iter().for_each(|&item| cut[item] = self.to);
        Some(cut)
    }
}
