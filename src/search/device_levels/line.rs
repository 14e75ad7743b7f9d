//! A line of stations for unlike devices: tasks, their times by device class, and their order.

/// A set of tasks, one bit each.
pub(crate) type TaskSet = u128;

/// The most tasks a [`Line`] may have.
pub(crate) const MOST_TASKS: usize = TaskSet::BITS as usize;

/// Why numbers do not make a [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// More tasks than `MOST_TASKS`.
    TooManyTasks,
    /// Rows of times, counts and successors differ in length, or a successor is no later task.
    Shape,
    /// A class's times add up to 2^32 or more, or there are 2^64 or more ways to choose devices.
    TooLarge,
}

/// Tasks in a partial order, to be cut into stations; a station is run by one device, and a device runs at most one station.
///
/// Tasks are numbered such that each comes before its successors.
#[derive(Clone, Debug)]
pub struct Line {
    /// Time of each task by class: `times[class][task]`, or nothing where the class cannot do the task.
    pub times: Vec<Vec<Option<u64>>>,
    /// Devices of each class, no more than tasks.
    pub counts: Vec<usize>,
    /// Tasks that must lie in a task's station or an earlier one, transitively.
    pub before: Vec<TaskSet>,
    /// Tasks that must lie in a task's station or a later one, transitively.
    pub after: Vec<TaskSet>,
}

/// Tasks of a set, in ascending order.
pub fn tasks(set: TaskSet) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let task = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(task)
    })
}

impl Line {
    /// A line of `times[class][task]`, `counts[class]` devices and `successors[task]`, which have larger numbers.
    ///
    /// # Errors
    ///
    /// [`LineError`]: too many tasks, shapes that differ, successors that are no later tasks, or sums that do not fit.
    pub fn new(
        times: &[Vec<Option<u64>>],
        counts: &[usize],
        successors: &[Vec<usize>],
    ) -> Result<Self, LineError> {
        let n = successors.len();
        if n > MOST_TASKS {
            return Err(LineError::TooManyTasks);
        }
        let shapes = times.len() == counts.len() && times.iter().all(|row| row.len() == n);
        let is_later = |(i, later): (usize, &Vec<usize>)| later.iter().all(|&j| i < j && j < n);
        if !shapes || !successors.iter().enumerate().all(is_later) {
            return Err(LineError::Shape);
        }
        let total = |row: &Vec<Option<u64>>| {
            row.iter()
                .flatten()
                .try_fold(0u64, |sum, &time| sum.checked_add(time))
        };
        if !times
            .iter()
            .all(|row| total(row).is_some_and(|sum| sum < 1 << 32))
        {
            return Err(LineError::TooLarge);
        }
        let counts: Vec<usize> = counts.iter().map(|&count| count.min(n)).collect();
        counts
            .iter()
            .try_fold(1u64, |product, &count| product.checked_mul(count as u64 + 1))
            .ok_or(LineError::TooLarge)?;
        let (mut before, mut after) = (vec![0; n], vec![0; n]);
        for i in 0..n {
            for &j in &successors[i] {
                before[j] |= before[i] | 1 << i;
            }
        }
        for i in (0..n).rev() {
            after[i] = successors[i].iter().fold(0, |set, &j| set | after[j] | 1 << j);
        }
        Ok(Line {
            times: times.to_vec(),
            counts,
            before,
            after,
        })
    }

    /// The same line read from its end. Task `i` becomes task `n - 1 - i`.
    pub(crate) fn reversed(&self) -> Line {
        let n = self.tasks();
        let turn = |sets: &[TaskSet]| {
            let turned = |set: &TaskSet| {
                if n == 0 {
                    0
                } else {
                    set.reverse_bits() >> (MOST_TASKS - n)
                }
            };
            sets.iter().rev().map(turned).collect()
        };
        Line {
            times: self
                .times
                .iter()
                .map(|row| row.iter().rev().copied().collect())
                .collect(),
            counts: self.counts.clone(),
            before: turn(&self.after),
            after: turn(&self.before),
        }
    }

    /// The line of some of its tasks, in ascending order, and so many devices of each class. Task `k` of it is the `k`-th of them.
    pub(crate) fn part(&self, chosen: &[usize], counts: &[usize]) -> Line {
        let of = |set: TaskSet| {
            let kept = chosen
                .iter()
                .enumerate()
                .filter(|&(_, &task)| set >> task & 1 == 1);
            kept.fold(0, |set, (position, _)| set | 1 << position)
        };
        let row = |row: &Vec<Option<u64>>| chosen.iter().map(|&task| row[task]).collect();
        Line {
            times: self.times.iter().map(row).collect(),
            counts: counts.to_vec(),
            before: chosen.iter().map(|&task| of(self.before[task])).collect(),
            after: chosen.iter().map(|&task| of(self.after[task])).collect(),
        }
    }

    /// Number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.before.len()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// All tasks.
    pub fn all(&self) -> TaskSet {
        if self.tasks() == MOST_TASKS {
            TaskSet::MAX
        } else {
            (1 << self.tasks()) - 1
        }
    }

    /// Time of a set of tasks on a class, or nothing where it cannot do one of them.
    pub fn load(&self, class: usize, set: TaskSet) -> Option<u64> {
        tasks(set).try_fold(0, |sum, i| Some(sum + self.times[class][i]?))
    }
}
