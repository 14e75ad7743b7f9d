//! All stages that plans may have, with what each chunk takes on them, and what those behind an ideal take at least.

use super::options::{Options, Stage};
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Times that are kept at most, of stages and of bounds: a quarter of a gigabyte each.
const MOST_TIMES: usize = 32_000_000;

/// How many devices or stages there are, and what one more that is taken adds to the number of a state.
#[derive(Clone, Copy)]
struct Stock {
    count: usize,
    stride: usize,
}

impl Stock {
    fn taken(self, state: usize) -> usize {
        state / self.stride % (self.count + 1)
    }
}

/// All stages of plans, and what those behind an ideal take at least. A state says how many devices of each row are taken, and how many stages there are
/// where devices do not tell.
pub(super) struct Stages<'o, 'a> {
    pub options: &'o Options<'a>,
    /// Those that begin at each ideal.
    from: Vec<Vec<Stage>>,
    rows: Vec<Stock>,
    stages: Option<Stock>,
    pub states: usize,
    pub chunks: usize,
    /// By ideal, state and chunk: from when a chunk is there, how long all from it on take at least; `u64::MAX` where no plan goes on.
    behind_ns: Vec<u64>,
}

impl<'o, 'a> Stages<'o, 'a> {
    /// Lists them, of some of the options; or why not.
    pub(super) fn new(
        options: &'o Options<'a>,
        is_allowed: &dyn Fn(usize) -> bool,
        control: &Control,
    ) -> Result<Self, StoppedBy> {
        let most_stages = options.problem.stages();
        let mut states = 1usize;
        let mut stock = |count: usize| {
            let stride = states;
            states = states.saturating_mul(count + 1);
            Stock { count, stride }
        };
        let rows: Vec<Stock> = options.devices.iter().map(|&count| stock(count)).collect();
        let narrowest = options.narrowest(is_allowed);
        let most: usize = options.devices.iter().map(|count| count / narrowest).sum();
        let is_limited = most > most_stages || options.problem.settings.all_stages;
        let stages = (is_limited && !options.is_narrow()).then(|| stock(most_stages));
        let chunks = options.reads.chunks;
        let ideals = options.ideals.sets.len();
        let count = options.count(is_allowed);
        let kept = options
            .times_of_stages(count)
            .max(states.saturating_mul(ideals * chunks));
        // What bounds are computed from, once for each state.
        let steps = (count.saturating_mul(states) / 64).saturating_mul(chunks);
        if kept.max(steps) > MOST_TIMES {
            return Err(StoppedBy::SizeLimit);
        }
        let mut all = Self {
            from: Vec::with_capacity(ideals),
            behind_ns: vec![u64::MAX; ideals * states * chunks],
            rows,
            stages,
            states,
            chunks,
            options,
        };
        for before in 0..ideals {
            control.check_limits()?;
            all.from.push(options.from(before, is_allowed));
        }
        all.fill(control)?;
        Ok(all)
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.from.len() - 1
    }

    /// The stages that begin at an ideal.
    pub(super) fn from(&self, ideal: usize) -> &[Stage] {
        &self.from[ideal]
    }

    /// What is behind an ideal and a state at least, chunk by chunk.
    pub(super) fn behind(&self, ideal: usize, state: usize) -> &[u64] {
        let at = (ideal * self.states + state) * self.chunks;
        &self.behind_ns[at..at + self.chunks]
    }

    /// How many devices of a row are taken.
    pub(super) fn taken(&self, state: usize, row: usize) -> usize {
        self.rows[row].taken(state)
    }

    fn stages_taken(&self, state: usize) -> usize {
        match self.stages {
            Some(stages) => stages.taken(state),
            // Each has one device.
            None => self.rows.iter().map(|row| row.taken(state)).sum(),
        }
    }

    /// The state with one more stage; `None` where there are no devices for it.
    pub(super) fn after(&self, state: usize, stage: &Stage) -> Option<usize> {
        let row = self.rows[stage.row];
        let taken = row.taken(state);
        let is_last = |row: usize| self.options.may_follow(row, stage.row) || self.taken(state, row) == 0;
        let is_free = (0..self.rows.len()).all(is_last)
            && taken + stage.devices <= row.count
            && (!self.is_counted() || self.stages_taken(state) < self.options.problem.stages())
            && self.options.fits(stage, taken);
        let one = self.stages.map_or(0, |stages| stages.stride);
        is_free.then_some(state + stage.devices * row.stride + one)
    }

    /// Whether a state tells how many stages there are.
    fn is_counted(&self) -> bool {
        self.stages.is_some() || self.options.is_narrow()
    }

    /// The page's recursion, from the end on.
    fn fill(&mut self, control: &Control) -> Result<(), StoppedBy> {
        let (all, chunks) = (self.all(), self.chunks);
        let problem = self.options.problem;
        for state in 0..self.states {
            if !problem.settings.all_stages || self.stages_taken(state) == problem.stages() {
                let at = (all * self.states + state) * chunks;
                self.behind_ns[at..at + chunks].fill(0);
            }
        }
        for ideal in (0..all).rev() {
            for state in 0..self.states {
                control.check_limits()?;
                let least = self.least(ideal, state);
                let at = (ideal * self.states + state) * chunks;
                self.behind_ns[at..at + chunks].copy_from_slice(&least);
            }
        }
        Ok(())
    }

    fn least(&self, ideal: usize, state: usize) -> Vec<u64> {
        let mut least = vec![u64::MAX; self.chunks];
        for stage in &self.from[ideal] {
            let Some(after) = self.after(state, stage) else {
                continue;
            };
            let behind = self.behind(stage.to, after);
            if behind[0] == u64::MAX {
                continue;
            }
            // What this chunk and those up to the one that goes on take here, and what comes behind that one.
            let mut longest_ns = 0;
            for (at, &ns) in stage.least_ns().iter().enumerate().rev() {
                longest_ns = ns + behind[at].max(longest_ns);
                least[at] = least[at].min(longest_ns);
            }
        }
        least
    }
}
