//! Branch, bound and remember over ideals: the tree search for the period of a pipeline without transfers.
#![doc = include_str!("../../../formulations/ideal_tree.md")]

mod cycle;
mod greedy;
mod loads;
pub mod order;
pub mod question;
pub mod search;
mod side;
mod states;

/// Tasks, precedences and stations.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Time of each task.
    pub times: Vec<u64>,
    /// Bytes of each task, or nothing where memory is not limited.
    pub bytes: Vec<u64>,
    /// Tasks that each task must stand before, or beside in the same station.
    pub successors: Vec<Vec<usize>>,
    /// How many stations there are at most.
    pub stations: usize,
    /// Bytes that each station holds; `None` where memory is not limited.
    pub memory: Option<u64>,
}

/// What is wrong with a [`Line`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The precedences are not acyclic.
    Cycle,
    /// There is no station, or more than 65,535.
    Stations,
    /// Times or bytes add up to more than 2^48: bounds multiply them.
    TooLarge,
    /// Times, bytes and successors are not of one length, or a successor is no task.
    Shape,
}

impl Line {
    /// Largest load of a station.
    pub fn cycle_time(&self, assignment: &[usize]) -> u64 {
        let mut loads = vec![0; self.stations];
        assignment
            .iter()
            .zip(&self.times)
            .for_each(|(station, time)| loads[*station] += time);
        loads.into_iter().max().unwrap_or(0)
    }

    /// Whether an assignment keeps precedences, stations and memory.
    pub fn allows(&self, assignment: &[usize]) -> bool {
        let mut bytes = vec![0; self.stations];
        let placed =
            assignment.len() == self.times.len() && assignment.iter().all(|station| *station < self.stations);
        placed && {
            assignment
                .iter()
                .zip(&self.bytes)
                .for_each(|(station, more)| bytes[*station] += more);
            self.memory
                .is_none_or(|memory| bytes.iter().all(|bytes| *bytes <= memory))
                && self
                    .successors
                    .iter()
                    .enumerate()
                    .all(|(task, later)| later.iter().all(|later| assignment[task] <= assignment[*later]))
        }
    }

    /// Whether the parts fit together and the numbers are small enough to be multiplied.
    fn validate(&self) -> Result<(), Fault> {
        let count = self.times.len();
        let whole = self.successors.len() == count && (self.bytes.is_empty() || self.bytes.len() == count);
        if !whole || self.successors.iter().flatten().any(|later| *later >= count) {
            return Err(Fault::Shape);
        }
        if self.stations == 0 || u16::try_from(self.stations).is_err() {
            return Err(Fault::Stations);
        }
        let small = |numbers: &[u64]| {
            let total = numbers
                .iter()
                .try_fold(0_u64, |sum, number| sum.checked_add(*number));
            total.is_some_and(|total| total <= 1 << 48)
        };
        if small(&self.times) && small(&self.bytes) {
            Ok(())
        } else {
            Err(Fault::TooLarge)
        }
    }
}
