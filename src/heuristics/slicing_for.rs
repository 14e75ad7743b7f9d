//! Optimal slicing of a topological order for stages whose workers are fixed.
//!
//! A dynamic program from the front: for every stage and position, the least bottleneck of laying all items before the
//! position on the stages up to that one. Ours; the same idea as [`super::slicing`], where stages cost the same wherever
//! they lie.
//!
//! Two things keep it short. Only plans below a limit are asked for, and a stage that alone has too much work, or whose
//! settled transfers are too long, only gets worse as it grows to the left. And all that a stage leaves behind must find
//! room on the later ones by work alone. Both suppose that more work never takes less time, which fails only where shares
//! snap to levels under `--shares theorem`: then it may miss plans.

use super::MustStop;
use super::intervals::{Interval, Intervals};
use crate::problem::Problem;
use crate::problem::cost::StageCost;
use crate::problem::cost::allocation::{Allocation, StageWork};
use crate::problem::workers::Workers;

/// The slices of one order.
pub struct SlicingFor<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    order: &'a [usize],
    intervals: Intervals<'a>,
    /// Sums over the items before each position.
    before: Vec<Before>,
    /// Stages costed so far: what the time goes into.
    pub loads: u64,
}

/// Forward and backward time of some items on a class, and how many of them it cannot run.
type OnClass = ([u64; 2], usize);

/// Sums over the items before a position.
#[derive(Clone, Default)]
struct Before {
    classes: Vec<OnClass>,
    parameter_bytes: u64,
    /// Bytes on the stage r from the end, at r - 1.
    bytes: Vec<u64>,
}

/// The best way to lay everything before a position on the stages up to one: its bottleneck, and where that stage starts.
type Way = (u64, usize);

/// The stage that is laid behind all others so far.
#[derive(Clone, Copy)]
struct LastStage {
    choice: usize,
    /// Its position in the whole plan, 1 for the last.
    from_end: usize,
}

impl<'a> SlicingFor<'a> {
    /// Prepares a topological order.
    pub fn new(problem: &'a Problem, workers: &'a Workers, order: &'a [usize]) -> Self {
        let mut sum = Before {
            classes: vec![([0, 0], 0); workers.classes.len()],
            parameter_bytes: 0,
            bytes: vec![0; problem.stages()],
        };
        let mut before = vec![sum.clone()];
        for &item in order {
            let item = &problem.items[item];
            for ((sum, unable), times) in sum.classes.iter_mut().zip(&item.times) {
                match times {
                    Some(times) => {
                        sum[0] += times.forward_ns;
                        sum[1] += times.backward_ns;
                    }
                    None => *unable += 1,
                }
            }
            sum.parameter_bytes += item.parameter_bytes;
            for (r, bytes) in sum.bytes.iter_mut().enumerate() {
                *bytes += problem.memory_bytes(item, r + 1);
            }
            before.push(sum.clone());
        }
        Self {
            problem,
            workers,
            order,
            intervals: Intervals::new(problem, order),
            before,
            loads: 0,
        }
    }

    /// The best plan below `upper_ns` whose k-th stage is an interval of the order on the k-th choice, and its objective
    /// in ns; `None` where there is none, or when it must stop. A stage may stay out unless all are asked for; memory is then reckoned as if it
    /// did not, which is never too little. With one global share every stage is weighed at its own best.
    ///
    /// # Complexity
    ///
    /// Time O(I q (d + L)) for the I <= n²/2 intervals below `upper_ns`, q stages, d transfers an item, and L to cost a
    /// stage.
    pub fn slice(
        &mut self,
        choices: &[usize],
        upper_ns: u64,
        must_stop: MustStop<'_>,
    ) -> Option<(Allocation, u64)> {
        let n = self.order.len();
        let must_use = self.problem.settings.all_stages;
        let room = self.room(choices, upper_ns);
        if room[0] > 0 {
            return None;
        }
        let mut ways: Vec<Vec<Way>> = vec![vec![(u64::MAX, 0); n + 1]];
        ways[0][0].0 = 0;
        for (stage, &choice) in choices.iter().enumerate() {
            let last = LastStage {
                choice,
                from_end: choices.len() - stage,
            };
            let mut next = vec![(u64::MAX, 0); n + 1];
            for end in room[stage + 1]..=n {
                if must_stop() {
                    return None;
                }
                next[end] = self.lay(&ways[stage], last, end, upper_ns);
                if !must_use && ways[stage][end].0 < next[end].0 {
                    next[end] = (ways[stage][end].0, end);
                }
            }
            ways.push(next);
        }
        let objective_ns = ways[choices.len()][n].0;
        (objective_ns < upper_ns).then(|| (self.allocation(&ways, choices), objective_ns))
    }

    /// For each stage, how early it can start if it and those after it take all that work alone lets them; last, n.
    fn room(&mut self, choices: &[usize], upper_ns: u64) -> Vec<usize> {
        let mut room = vec![self.order.len(); choices.len() + 1];
        for stage in (0..choices.len()).rev() {
            let end = room[stage + 1];
            let mut start = end;
            while start > 0 && self.load_ns(choices[stage], start - 1, end, StageCost::default()) < upper_ns {
                start -= 1;
            }
            room[stage] = start;
        }
        room
    }

    /// The best start of a stage that ends at `end`, behind the ways to lay what lies before it.
    fn lay(&mut self, before: &[Way], stage: LastStage, end: usize, upper_ns: u64) -> Way {
        let LastStage { choice, from_end } = stage;
        let limit = self
            .workers
            .memory_bytes(&self.problem.settings, &self.workers.choices[choice]);
        let first = before.iter().position(|way| way.0 < upper_ns).unwrap_or(end);
        let mut best = (u64::MAX, 0);
        let mut interval = Interval::before(end);
        for start in (first..end).rev() {
            self.intervals.grow(&mut interval);
            let held = self.before[end].bytes[from_end - 1] - self.before[start].bytes[from_end - 1];
            if held > limit {
                break;
            }
            if before[start].0 >= upper_ns.min(best.0) {
                continue;
            }
            let cost_ns = self.load_ns(choice, start, end, interval.cost());
            if cost_ns >= upper_ns {
                if self.load_ns(choice, start, end, interval.settled) >= upper_ns {
                    break;
                }
                continue;
            }
            let bottleneck_ns = cost_ns.max(before[start].0);
            if bottleneck_ns < best.0 {
                best = (bottleneck_ns, start);
            }
        }
        best
    }

    /// What an interval costs on a choice with these transfers, in ns; `u64::MAX` where it cannot run.
    fn load_ns(&mut self, choice: usize, start: usize, end: usize, mut transfers: StageCost) -> u64 {
        self.loads += 1;
        let (before, behind) = (&self.before[start], &self.before[end]);
        let times = |(before, behind): (&OnClass, &OnClass)| {
            (before.1 == behind.1).then(|| [behind.0[0] - before.0[0], behind.0[1] - before.0[1]])
        };
        (transfers.forward.work_ns, transfers.backward.work_ns) = (0, 0);
        let work = StageWork {
            times_ns: before.classes.iter().zip(&behind.classes).map(times).collect(),
            transfers,
            parameter_bytes: behind.parameter_bytes - before.parameter_bytes,
        };
        let load = self
            .workers
            .load(self.problem, &self.workers.choices[choice], &work, &[]);
        load.map_or(u64::MAX, |load| load.bottleneck_ns)
    }

    fn allocation(&self, ways: &[Vec<Way>], choices: &[usize]) -> Allocation {
        // Ends of the stages that hold something, from the last.
        let mut used = Vec::new();
        let mut end = self.order.len();
        for stage in (0..choices.len()).rev() {
            let start = ways[stage + 1][end].1;
            if start < end {
                used.push((start, end, choices[stage]));
            }
            end = start;
        }
        let mut plan = Allocation::from(vec![0; self.order.len()]);
        for (stage, &(start, end, choice)) in used.iter().rev().enumerate() {
            plan.choices.push(choice);
            for &item in &self.order[start..end] {
                plan.assignment[item] = stage;
            }
        }
        plan
    }
}
