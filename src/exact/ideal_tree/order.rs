//! Tasks numbered for the search, in one of the two directions of the line.
//!
//! A line may be filled from its first station or from its last: reversing every precedence turns one question into the
//! other, and one of the two is often much easier. Everything behind this module knows the forward direction alone.

use crate::exact::bits::{self, Rows};
use crate::exact::closure;
use crate::exact::ideal_tree::{Fault, Line};

/// Tasks, their precedences and what follows from them, whatever the cycle time.
#[derive(Debug, Clone)]
pub struct Order {
    /// Time of each task.
    pub times: Vec<u64>,
    /// Bytes of each task; zeros where memory is not limited.
    pub bytes: Vec<u64>,
    /// Bytes that each station holds; `None` where memory is not limited.
    pub memory: Option<u64>,
    /// Time of all tasks.
    pub total: u64,
    /// How many stations there are at most.
    pub stations: usize,
    /// Tasks that must stand before each task, directly or not: the transitive closure.
    pub before: Rows,
    /// Tasks that must stand after each task, directly or not.
    pub after: Rows,
    /// Direct successors of each task.
    pub next: Vec<Vec<usize>>,
    /// How many direct predecessors each task has.
    pub entering: Vec<usize>,
    /// Number of each task in the [`Line`].
    original: Vec<usize>,
    backwards: bool,
}

impl Order {
    /// Numbers the tasks by falling time, ties by falling time of what must follow.
    ///
    /// # Errors
    ///
    /// [`Fault::Cycle`] where the precedences are not acyclic.
    ///
    /// Complexity: `O(n² · w + e · w)` for `n` tasks, `e` precedences and sets of `w` words.
    pub fn new(line: &Line, backwards: bool) -> Result<Self, Fault> {
        let count = line.times.len();
        let successors = if backwards {
            closure::reversed(&line.successors)
        } else {
            line.successors.clone()
        };
        let after = closure::descendants(&successors).ok_or(Fault::Cycle)?;
        let following =
            |task: usize| -> u64 { bits::iter(after.row(task)).map(|later| line.times[later]).sum() };
        let mut original: Vec<usize> = (0..count).collect();
        original.sort_by_cached_key(|task| std::cmp::Reverse((line.times[*task], following(*task))));
        let mut number = vec![0; count];
        original
            .iter()
            .enumerate()
            .for_each(|(new, old)| number[*old] = new);

        let next: Vec<Vec<usize>> = original
            .iter()
            .map(|old| successors[*old].iter().map(|later| number[*later]).collect())
            .collect();
        let previous = closure::reversed(&next);
        Ok(Self {
            times: original.iter().map(|old| line.times[*old]).collect(),
            total: line.times.iter().sum(),
            bytes: original
                .iter()
                .map(|old| line.bytes.get(*old).copied().unwrap_or(0))
                .collect(),
            memory: line.memory,
            stations: line.stations,
            before: closure::descendants(&previous).ok_or(Fault::Cycle)?,
            after: closure::descendants(&next).ok_or(Fault::Cycle)?,
            entering: previous.iter().map(Vec::len).collect(),
            next,
            original,
            backwards,
        })
    }

    /// Number of tasks.
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// Number that each task has in another order of the same line.
    pub(crate) fn numbers_in(&self, other: &Self) -> Vec<usize> {
        let mut number = vec![0; self.count()];
        other
            .original
            .iter()
            .enumerate()
            .for_each(|(new, old)| number[*old] = new);
        self.original.iter().map(|old| number[*old]).collect()
    }

    /// Station of each task of the [`Line`], from the tasks of each station in this order.
    pub(crate) fn assignment(&self, stations: &[Vec<usize>]) -> Vec<usize> {
        let mut assignment = vec![0; self.count()];
        for (at, tasks) in stations.iter().enumerate() {
            let station = if self.backwards {
                self.stations - 1 - at
            } else {
                at
            };
            tasks
                .iter()
                .for_each(|task| assignment[self.original[*task]] = station);
        }
        assignment
    }
}
