//! What the rules of frameworks have in common: they cut the list of a model's modules, and both passes of a layer run where it lies.
//!
//! A network that is no chain has no such list; its items in file order stand for it, sorted so that producers come before consumers.

use super::{along, if_feasible, orders};
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::{Assignment, Item, Problem};

/// Refuses passes that lie apart.
pub(super) fn keep_passes_together(problem: &Problem) -> Result<(), Words> {
    match problem.pairs.is_empty() && problem.ties.is_empty() {
        true => Ok(()),
        false => Err(words!(
            "frameworks keep both passes of a layer on one stage; {}",
            setting::CUTS.given("tied")
        )),
    }
}

/// A weight of every module of the list.
pub(super) fn weights(problem: &Problem, weight: impl Fn(&Item) -> u64) -> Vec<u64> {
    let order = orders::by_number(problem);
    order.iter().map(|&item| weight(&problem.items[item])).collect()
}

/// The plan whose stages end where these parts of the list do. Parts may be empty.
pub(super) fn cut_list(problem: &Problem, ends: &[usize]) -> Option<Assignment> {
    let order = orders::by_number(problem);
    let stages: Vec<usize> = (0..order.len())
        .map(|position| ends.partition_point(|&end| end <= position))
        .collect();
    if_feasible(problem, along(problem, &order, &stages))
}

/// The plan whose stages take so many blocks of a stack each. What stands before the blocks, such as the embedding, lies on the
/// first stage, what stands behind them, such as the head, on the last, and what has no number between them with the block before it.
pub(super) fn cut_stack(problem: &Problem, counts: &[usize]) -> Option<Assignment> {
    let order = orders::by_number(problem);
    let blocks: Vec<Option<usize>> = order.iter().map(|&item| block_of(problem, item)).collect();
    let last_block = blocks.iter().rposition(Option::is_some)?;
    let ends: Vec<usize> = counts
        .iter()
        .scan(0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect();
    let mut reached = 0;
    let stages: Vec<usize> = blocks
        .iter()
        .enumerate()
        .map(|(position, block)| {
            let own = match block {
                Some(block) => ends.partition_point(|end| end <= block),
                None if position > last_block => counts.len() - 1,
                None => 0,
            };
            reached = reached.max(own);
            reached
        })
        .collect();
    if_feasible(problem, along(problem, &order, &stages))
}

/// Number of blocks of the stack that the network is.
pub(super) fn stack_size(problem: &Problem) -> Result<usize, &'static str> {
    match problem.blocks.iter().flatten().max() {
        Some(last) => Ok(last + 1),
        None => Err("it counts the numbered blocks of a stack, and the network is no stack of equal ones"),
    }
}

/// The block of an item; that of its first layer that has one.
pub(super) fn block_of(problem: &Problem, item: usize) -> Option<usize> {
    let layers = problem.items[item].layers.iter();
    layers.filter_map(|&layer| *problem.blocks.get(layer)?).min()
}
