//! The least bound of all plans, from every ideal on: a dynamic program.

use super::simple::is_alternating;
use crate::cost::{self, StageCost};
use crate::exact::incumbent::Incumbent;
use crate::ideals::{Ideals, IdealsError};
use crate::plan::StoppedBy;
use crate::problem::Problem;

/// More ideals than this have more stages between them than can be looked at.
const MOST_IDEALS: usize = 50_000;

/// The most stages: half a gigabyte.
const MOST_STAGES: usize = 6_000_000;

/// A stage that holds the items between two ideals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// The larger ideal.
    pub to: u32,
    /// How many stages from the end it may lie at most, for its memory.
    most_from_end: u32,
    /// Forward and backward time of its worker, in ns.
    pub times: [u64; 2],
    /// Time that a micro-batch spends in it and on its way to and from the next stage at least, in ns.
    pub latency_ns: u64,
    /// Time until its link out has sent all but the last gradient, from the arrival of the first micro-batch on, in ns; 0 without links.
    sending_ns: u64,
}

/// All stages between ideals, and the least bound of the plans that go through each ideal.
pub(super) struct Relaxation {
    pub ideals: Ideals,
    /// Work of each ideal's items, in ns.
    work_ns: Vec<u64>,
    /// The stages that begin at each ideal.
    pub stages: Vec<Vec<Stage>>,
    /// For so many stages left, the least bound from each ideal on, counted from when a micro-batch gets there and with what comes
    /// back behind it; `u64::MAX` where no plan goes on.
    least_ns: Vec<Vec<u64>>,
    micro_batches: u64,
    /// How many forward passes of a stage surely lie behind its first backward pass.
    late: Late,
    /// How many stages plans may have.
    counts: Vec<usize>,
}

/// How many forward passes of a stage come after the first micro-batch has gone all the way to its backward pass, or before its last.
#[derive(Clone, Copy)]
enum Late {
    /// All but as many as there are stages from it to the end.
    BeyondLead,
    /// All but one: phases, or a single one.
    AllButOne,
    /// Unknown: links decide.
    Unknown,
}

impl Relaxation {
    /// Enumerates ideals and stages, as far as plans may be better than the incumbent's.
    ///
    /// # Errors
    ///
    /// Too many of either, or a limit.
    pub(super) fn new(incumbent: &Incumbent) -> Result<Self, StoppedBy> {
        let control = incumbent.control;
        let stop = || control.must_stop().is_some();
        let ideals =
            Ideals::enumerate(incumbent.problem, MOST_IDEALS, &stop).map_err(|error| match error {
                IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
                IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
            })?;
        Self::over(ideals, incumbent)
    }

    /// The same for plans whose stages lie between these ideals.
    ///
    /// # Errors
    ///
    /// Too many stages, or a limit.
    pub(super) fn over(ideals: Ideals, incumbent: &Incumbent) -> Result<Self, StoppedBy> {
        let problem = incumbent.problem;
        let work =
            |set: &fixedbitset::FixedBitSet| set.ones().map(|item| problem.items[item].work_ns()).sum();
        let settings = &problem.settings;
        let least = if settings.all_stages { problem.stages() } else { 1 };
        let mut relaxation = Self {
            work_ns: ideals.sets.iter().map(work).collect(),
            stages: vec![Vec::new(); ideals.sets.len()],
            ideals,
            least_ns: Vec::new(),
            micro_batches: settings.micro_batches.unwrap_or(1),
            late: match (settings.mode.trains(), settings.schedule.is_all_forward_first()) {
                _ if is_alternating(problem) => Late::BeyondLead,
                (true, false) => Late::Unknown,
                (false, _) | (true, true) => Late::AllButOne,
            },
            counts: (least..=problem.stages()).collect(),
        };
        relaxation.add_stages(incumbent)?;
        relaxation.fill(problem.stages());
        Ok(relaxation)
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.ideals.sets.len() - 1
    }

    /// How many stages plans may have.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The least bound of all plans, in ns; `u64::MAX` without any.
    pub(super) fn bound_ns(&self) -> u64 {
        let bounds = self.counts.iter().map(|&count| self.least_ns[count][0]);
        bounds.min().unwrap_or(u64::MAX)
    }

    /// The least bound of what begins at an ideal with so many stages, relative to its beginning.
    pub(super) fn least_ns(&self, ideal: usize, left: usize) -> u64 {
        self.least_ns[left][ideal]
    }

    /// Work of the items that an ideal lacks, in ns.
    pub(super) fn rest_ns(&self, ideal: usize) -> u64 {
        self.work_ns[self.all()] - self.work_ns[ideal]
    }

    /// What a stage says of an iteration if it lies so many stages from the end, from when a micro-batch gets to it; `None` where it
    /// has no memory there.
    pub(super) fn of_stage_ns(&self, stage: &Stage, from_end: usize) -> Option<u64> {
        if from_end as u64 > u64::from(stage.most_from_end) {
            return None;
        }
        let [forward_ns, backward_ns] = stage.times;
        let load_ns = forward_ns + backward_ns;
        let (rest_ns, others) = (self.rest_ns(stage.to as usize), self.micro_batches - 1);
        let passed_ns = stage.latency_ns + rest_ns;
        let bound_ns = match self.late {
            Late::BeyondLead => {
                let late = self.micro_batches.saturating_sub(from_end as u64);
                let (more_ns, fewer_ns) = (forward_ns.max(backward_ns), forward_ns.min(backward_ns));
                let again_ns = match late {
                    0 => 0,
                    late => rest_ns + late * load_ns,
                };
                passed_ns + again_ns.max(others * more_ns + late * fewer_ns)
            }
            Late::AllButOne => passed_ns + others * load_ns,
            Late::Unknown => passed_ns + others * forward_ns.max(backward_ns),
        };
        Some((self.micro_batches * load_ns).max(bound_ns).max(stage.sending_ns))
    }

    fn add_stages(&mut self, incumbent: &Incumbent) -> Result<(), StoppedBy> {
        let (problem, control) = (incumbent.problem, incumbent.control);
        let upper_ns = u128::from(incumbent.target_ns());
        let most = MOST_STAGES.min(control.room_bytes() / (2 * size_of::<Stage>()));
        let mut count = 0;
        for to in 1..self.ideals.sets.len() {
            control.check_limits()?;
            // Both only grow with the stage.
            let may_be = |from: &usize| {
                let stage_ns = u128::from(self.work_ns[to] - self.work_ns[*from]);
                u128::from(self.work_ns[*from]) + u128::from(self.micro_batches) * stage_ns <= upper_ns
            };
            for from in self.ideals.inside_while(to, |from| may_be(&from)) {
                let members = self.ideals.between(from, to);
                let Some(most_from_end) = most_from_end(problem, &members) else {
                    continue;
                };
                let inside = |item: usize| {
                    self.ideals.sets[to].contains(item) && !self.ideals.sets[from].contains(item)
                };
                let cost = cost::stage_cost(problem, &members, inside);
                let stage = self.stage(to, most_from_end, &cost);
                self.stages[from].push(stage);
                count += 1;
            }
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(())
    }

    fn stage(&self, to: usize, most_from_end: u32, cost: &StageCost) -> Stage {
        let times = [cost.forward.load_ns(), cost.backward.load_ns()];
        let sent_ns = cost.forward.link_out_ns + cost.backward.link_out_ns;
        let sending_ns = match sent_ns {
            0 => 0,
            // Something may be sent back only after it has come here and on.
            _ if cost.forward.link_out_ns == 0 => 0,
            _ => times[0] + self.micro_batches * sent_ns - cost.backward.link_out_ns,
        };
        let (there_ns, back_ns) = (cost.forward.link_out_ns, cost.backward.link_in_ns);
        let on_the_way_ns = match to == self.all() {
            // Between its passes both links of the last stage work side by side.
            true => there_ns.max(back_ns),
            false => there_ns + back_ns,
        };
        Stage {
            to: to as u32,
            most_from_end,
            times,
            latency_ns: times[0] + times[1] + on_the_way_ns,
            sending_ns,
        }
    }

    /// The dynamic program: from the last stage to the first.
    fn fill(&mut self, most: usize) {
        let count = self.ideals.sets.len();
        self.least_ns = vec![vec![u64::MAX; count]];
        self.least_ns[0][count - 1] = 0;
        for left in 1..=most {
            let of = |from: usize| {
                let stages = self.stages[from].iter();
                let bounds = stages.filter_map(|stage| self.through_ns(stage, left));
                bounds.min().unwrap_or(u64::MAX)
            };
            let row = (0..count).map(of).collect();
            self.least_ns.push(row);
        }
    }

    /// The least bound of plans whose next stage, of so many, is this one.
    pub(super) fn through_ns(&self, stage: &Stage, left: usize) -> Option<u64> {
        let next_ns = self.least_ns[left - 1][stage.to as usize];
        if next_ns == u64::MAX {
            return None;
        }
        let own_ns = self.of_stage_ns(stage, left)?;
        Some(own_ns.max(stage.latency_ns + next_ns))
    }
}

/// How many stages from the end a stage of these items may lie at most, for its memory; `None` where it never fits.
fn most_from_end(problem: &Problem, members: &[usize]) -> Option<u32> {
    let Some(limit) = problem.settings.memory_limit else {
        return Some(u32::MAX);
    };
    let bytes = |from_end: usize| -> u64 {
        let items = members.iter();
        items
            .map(|&item| problem.memory_bytes(&problem.items[item], from_end))
            .sum()
    };
    let fits = (1..=problem.stages()).take_while(|&from_end| bytes(from_end) <= limit);
    fits.last().map(|most| most as u32)
}
