//! Better cuts under an order that is known: items move across boundaries.

use super::State;
use crate::best_schedule::iteration;
use crate::control::Control;
use crate::problem::Assignment;

/// How many items move at a time.
const STEPS: [usize; 5] = [1, 2, 3, 5, 8];

/// Moves items across boundaries while an iteration gets shorter: first under the order that is known, and where that helps no more, under
/// lists by urgency for the moved cut.
pub(super) fn improve_cut(state: &mut State, limit: &Control) {
    let mut has_new_orders = false;
    loop {
        let Some(best) = state.best.clone() else {
            return;
        };
        let mut is_better = false;
        for cut in moved(&best.cut, best.chunks.len()) {
            if limit.must_stop().is_some() {
                return;
            }
            is_better |= match has_new_orders {
                false => under_the_order(state, &cut),
                true => under_a_new_order(state, &cut),
            };
            if is_better {
                break;
            }
        }
        if !is_better && has_new_orders {
            return;
        }
        has_new_orders = !is_better;
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
        Some(order) => state.offer(cut, chunks, &order),
        None => false,
    }
}

/// Cuts with a few items moved across one boundary. Items are numbered in a topological order, so that the last ones of a chunk may go to the
/// next chunk, and its first ones to the chunk before.
fn moved(cut: &Assignment, chunks: usize) -> Vec<Assignment> {
    let mut members = vec![Vec::new(); chunks];
    for (item, &chunk) in cut.iter().enumerate() {
        members[chunk].push(item);
    }
    let mut found = Vec::new();
    for (chunk, own) in members.iter().enumerate() {
        for step in STEPS.into_iter().filter(|&step| step < own.len()) {
            let mut add = |items: &[usize], to: usize| {
                let mut moved = cut.clone();
                items.iter().for_each(|&item| moved[item] = to);
                found.push(moved);
            };
            if chunk > 0 {
                add(&own[..step], chunk - 1);
            }
            if chunk + 1 < chunks {
                add(&own[own.len() - step..], chunk + 1);
            }
        }
    }
    found
}
