//! Every plan of few stages and choices, from the first stage on, but for those that no run of theirs makes better than the best.

use super::arcs::{Arc, Arcs};
use super::rest::{Rest, StageBound, is_in_turn, sending_ns};
use crate::exact::bounds::capacity::Capacity;
use crate::exact::incumbent::Incumbent;
use crate::problem::bound_source::BoundSource;
use crate::problem::cost;
use crate::problem::pipeline::StageTimes;
use crate::problem::plan::StoppedBy;

/// First stages of a plan, and what each runs on.
type Path<'a> = Vec<(&'a Arc, usize, StageTimes)>;

/// A search for a better plan, stage by stage.
pub(super) struct DepthFirst<'a> {
    arcs: &'a Arcs<'a>,
    /// What the stages to come take at least, where that is known.
    rest: Option<&'a Rest>,
    /// Of workers that differ, what they can carry, and what the items behind every ideal weigh.
    capacity: Option<(Capacity, Vec<u64>)>,
    /// The longest time of an item behind every ideal, in ns.
    longest_ns: Vec<u64>,
    micro_batches: u64,
    /// Stages that may be entered before it is left.
    left: u64,
    path: Path<'a>,
    /// No plan that has not been looked at takes less, in ns.
    open_ns: u64,
}

impl<'a> DepthFirst<'a> {
    pub(super) fn new(arcs: &'a Arcs<'a>, rest: Option<&'a Rest>, most_nodes: u64) -> Self {
        let problem = arcs.problem;
        let sets = &arcs.ideals.sets;
        let longest = super::arcs::Least::new(problem);
        let longest = |ideal: usize| {
            sets[ideal]
                .zeroes()
                .map(|item| longest.of(std::iter::once(item)))
                .max()
        };
        let weighed = |workers| {
            let capacity = Capacity::new(problem, workers);
            let weigh = |ideal: usize| sets[ideal].zeroes().map(|item| capacity.weights[item]).sum();
            let weights = (0..sets.len()).map(weigh).collect();
            (capacity, weights)
        };
        Self {
            capacity: problem.workers.as_ref().map(weighed),
            longest_ns: (0..sets.len()).map(|ideal| longest(ideal).unwrap_or(0)).collect(),
            micro_batches: problem.settings.run_micro_batches(),
            left: most_nodes,
            rest,
            path: Vec::new(),
            open_ns: u64::MAX,
            arcs,
        }
    }

    /// Looks at all plans of interest, or until a limit.
    pub(super) fn run(mut self, incumbent: &mut Incumbent) -> StoppedBy {
        let taken = self.arcs.untaken();
        match self.descend(incumbent, 0, &taken) {
            // A plan that takes no time leaves nothing to rule out.
            Ok(()) if incumbent.is_over() => StoppedBy::Completed,
            Ok(()) => {
                incumbent.exhausted(BoundSource::ExhaustiveSearch);
                StoppedBy::Completed
            }
            Err(stopped_by) => {
                // Whatever is below the best plan has not been looked at.
                let open_ns = self.open_ns.min(incumbent.target_ns().saturating_add(1));
                incumbent.raise(BoundSource::ExhaustiveSearch, open_ns);
                stopped_by
            }
        }
    }

    /// Looks at all plans that go on from an ideal.
    fn descend(&mut self, incumbent: &mut Incumbent, ideal: usize, taken: &[usize]) -> Result<(), StoppedBy> {
        let arcs = self.arcs;
        if ideal + 1 == arcs.from.len() {
            let stages = self.path.iter().map(|&(arc, choice, _)| (arc.after, choice));
            incumbent.offer(arcs.plan(&stages.collect::<Vec<_>>()));
            return Ok(());
        }
        if self.path.len() == arcs.problem.stages() {
            return Ok(());
        }
        let mut next = Vec::new();
        for arc in &arcs.from[ideal] {
            for (choice, cost) in &arc.options {
                let Some(taken) = arcs.taken(taken, *choice) else {
                    continue;
                };
                self.path.push((arc, *choice, cost::stage_times(cost)));
                if self.fits(arc.after) {
                    next.push((self.bound_ns(arc.after, &taken), arc, *choice, cost, taken));
                }
                self.path.pop();
            }
        }
        next.sort_by_key(|(bound_ns, arc, choice, ..)| (*bound_ns, arc.after, *choice));
        for (bound_ns, arc, choice, cost, taken) in next {
            if bound_ns > incumbent.target_ns() {
                break;
            }
            incumbent.statistics.nodes += 1;
            self.left = self.left.saturating_sub(1);
            let entered = match incumbent.control.must_stop() {
                Some(stopped_by) => Err(stopped_by),
                None if self.left == 0 => Err(StoppedBy::SizeLimit),
                None => {
                    self.path.push((arc, choice, cost::stage_times(cost)));
                    let entered = self.descend(incumbent, arc.after, &taken);
                    self.path.pop();
                    entered
                }
            };
            if entered.is_err() {
                // It, and what comes behind it, which are bounded no lower.
                self.open_ns = self.open_ns.min(bound_ns);
                return entered;
            }
        }
        Ok(())
    }

    /// Whether the stages so far have memory, if there are no more behind them than there must be.
    fn fits(&self, ideal: usize) -> bool {
        let (known, all) = (self.path.len(), self.arcs.problem.stages());
        let is_whole = ideal + 1 == self.arcs.from.len();
        let stages = match self.arcs.problem.settings.all_stages {
            true => all,
            false => known + usize::from(!is_whole),
        };
        let mut path = self.path.iter().enumerate();
        (!is_whole || stages == known)
            && path.all(|(k, (arc, choice, _))| self.arcs.fits(arc, *choice, stages - k))
    }

    /// What no run of a plan that begins with these stages beats, in ns: the page's bounds of its stages, and of what lies behind.
    fn bound_ns(&self, ideal: usize, taken: &[usize]) -> u64 {
        let known = self.rest.map(|rest| rest.behind_ns(ideal, taken));
        let [least_behind_ns, run_ns] = known.unwrap_or([self.arcs.least_behind_ns[ideal], 0]);
        if run_ns == u64::MAX {
            return u64::MAX;
        }
        let is_whole = ideal + 1 == self.arcs.from.len();
        let stages: Vec<&StageTimes> = self.path.iter().map(|(_, _, times)| times).collect();
        let has_links = self.arcs.problem.settings.communication.has_links();
        // Without links, transfers are part of what a worker does.
        let own = |times: &StageTimes| match has_links {
            true => [times.forward.work_ns, times.backward.work_ns],
            false => [times.forward.total_ns(), times.backward.total_ns()],
        };
        let between = |k: usize| match (has_links, stages.get(k + 1)) {
            (false, _) => 0,
            (true, Some(next)) => {
                let there = stages[k].forward.out_ns.max(next.forward.in_ns);
                there + stages[k].backward.in_ns.max(next.backward.out_ns)
            }
            (true, None) if is_whole => stages[k].forward.out_ns.max(stages[k].backward.in_ns),
            (true, None) => stages[k].forward.out_ns + stages[k].backward.in_ns,
        };
        let loads: Vec<u64> = stages.iter().map(|times| own(times).iter().sum()).collect();
        let mut passage: Vec<u64> = vec![0];
        for (k, load) in loads.iter().enumerate() {
            passage.push(passage[k] + load + between(k));
        }
        let before_rest_ns = passage[loads.len()];
        let alone_ns = before_rest_ns + least_behind_ns;
        let mut behind_ns = least_behind_ns;
        let of_rest_ns = match known {
            Some(_) => before_rest_ns + run_ns,
            None => self.of_rest_ns(ideal, taken, before_rest_ns, alone_ns),
        };
        let mut bound_ns = alone_ns.max(of_rest_ns);
        for k in (0..stages.len()).rev() {
            let of_stage = StageBound {
                own_ns: own(stages[k]),
                before_ns: passage[k],
                alone_ns,
                behind_ns,
                from_end: self.arcs.problem.stages() - k,
            };
            bound_ns = bound_ns.max(of_stage.ns(self.arcs.problem));
            if has_links {
                let sending = [own(stages[k])[0], stages[k].forward.out_ns];
                let sending_ns = sending_ns(self.arcs.problem, sending, stages[k].backward.out_ns);
                bound_ns = bound_ns.max(passage[k] + sending_ns);
            }
            behind_ns += loads[k];
        }
        bound_ns
    }

    /// What the busiest of the stages to come says, where there are any.
    fn of_rest_ns(&self, ideal: usize, taken: &[usize], before_ns: u64, alone_ns: u64) -> u64 {
        let problem = self.arcs.problem;
        let stages_left = (problem.stages() - self.path.len()) as u64;
        if ideal + 1 == self.arcs.from.len() {
            return 0;
        }
        if stages_left == 0 {
            return u64::MAX;
        }
        let mut busiest_ns = self.longest_ns[ideal].max(match problem.workers {
            None => self.arcs.least_behind_ns[ideal].div_ceil(stages_left),
            Some(_) => 0,
        });
        if let Some((capacity, weights)) = &self.capacity {
            // What is carried in 0 ns counts the one ns of rounding.
            let rate = capacity.carries(taken, stages_left as usize, 0);
            if rate <= 0.0 {
                return u64::MAX;
            }
            let ns = (weights[ideal] as f64 / rate - 1.0).ceil();
            busiest_ns = busiest_ns.max(ns.max(0.0) as u64);
        }
        let m = self.micro_batches;
        let in_turn_ns = match is_in_turn(problem) {
            true => alone_ns + (m - 1) * busiest_ns,
            false => 0,
        };
        in_turn_ns.max(before_ns + m * busiest_ns)
    }
}
