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
    /// How many times tell when chunks pass a boundary.
    pub times: usize,
    /// By ideal, state and chunk: from when a chunk is there, and where links are machines of their own from when it began to be sent, how long all from
    /// it on take at least; `u64::MAX` where no plan goes on.
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
        let times = options.reads.chunks * options.reads.times_of_a_chunk();
        let ideals = options.ideals.sets.len();
        let count = options.count(is_allowed);
        let kept = options
            .times_of_stages(count)
            .max(states.saturating_mul(ideals * times));
        // What bounds are computed from, once for each state.
        let steps = (count.saturating_mul(states) / 64).saturating_mul(times);
        if kept.max(steps) > MOST_TIMES {
            return Err(StoppedBy::SizeLimit);
        }
        let mut all = Self {
            from: Vec::with_capacity(ideals),
            behind_ns: vec![u64::MAX; ideals * states * times],
            rows,
            stages,
            states,
            times,
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
        let at = (ideal * self.states + state) * self.times;
        &self.behind_ns[at..at + self.times]
    }

    /// What all stages take at least.
    pub(super) fn first_ns(&self) -> u64 {
        self.behind(0, 0).iter().copied().max().unwrap_or(0)
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
        let (all, times) = (self.all(), self.times);
        let problem = self.options.problem;
        for state in 0..self.states {
            if !problem.settings.all_stages || self.stages_taken(state) == problem.stages() {
                let at = (all * self.states + state) * times;
                self.behind_ns[at..at + times].fill(0);
            }
        }
        for ideal in (0..all).rev() {
            for state in 0..self.states {
                control.check_limits()?;
                let least = self.least(ideal, state);
                let at = (ideal * self.states + state) * times;
                self.behind_ns[at..at + times].copy_from_slice(&least);
            }
        }
        Ok(())
    }

    fn least(&self, ideal: usize, state: usize) -> Vec<u64> {
        let mut least = vec![u64::MAX; self.times];
        for stage in &self.from[ideal] {
            let Some(after) = self.after(state, stage) else {
                continue;
            };
            let behind = self.behind(stage.to, after);
            if behind[0] == u64::MAX {
                continue;
            }
            let rest = match &stage.least_ns()[..] {
                [came_in, device, left] => {
                    let (there, sent) = behind.split_at(self.times / 2);
                    let worked = through(device, &over_link(left, there, sent));
                    [&worked[..], &through(came_in, &worked)].concat()
                }
                machines => machines
                    .iter()
                    .rev()
                    .fold(behind.to_vec(), |rest, each| through(each, &rest)),
            };
            let both = least.iter_mut().zip(rest);
            both.for_each(|(least, rest)| *least = rest.min(*least));
        }
        least
    }
}

/// What each chunk and those behind it take on a machine, up to one that goes on, and what comes behind that one.
fn through(machine: &[u64], behind: &[u64]) -> Vec<u64> {
    let mut rest = behind.to_vec();
    let mut longest_ns = 0;
    for (rest, ns) in rest.iter_mut().zip(machine).rev() {
        longest_ns = ns + longest_ns.max(*rest);
        *rest = longest_ns;
    }
    rest
}

/// The same of the link out, behind which something waits for a chunk to be there, and something for it to be sent.
fn over_link(link: &[u64], there: &[u64], sent: &[u64]) -> Vec<u64> {
    let mut rest = sent.to_vec();
    let mut longest_ns = 0;
    for ((rest, ns), there) in rest.iter_mut().zip(link).zip(there).rev() {
        longest_ns = (ns + longest_ns.max(*there)).max(*rest);
        *rest = longest_ns;
    }
    rest
}
