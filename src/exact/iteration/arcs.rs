//! Every stage that some plan may have, and what it costs on whatever may run it.

use crate::exact::incumbent::Incumbent;
use crate::model::options::WorkerMode;
use crate::problem::cost::allocation::{Allocation, StageWork};
use crate::problem::cost::{self, StageCost};
use crate::problem::plan::StoppedBy;
use crate::problem::workers::{Choice, Workers};
use crate::problem::{Item, Problem};
use crate::search::ideals::{Ideals, IdealsError};

/// Ideals and ways to run a stage between two of them beyond which it is left: some hundred MB.
const MOST_IDEALS: usize = 10_000;
const MOST_OPTIONS: usize = 500_000;

/// All items between two ideals as a stage.
pub(super) struct Arc {
    /// The larger ideal.
    pub(super) after: usize,
    /// Bytes held once, those of one more version of the weights, and those of a micro-batch in flight.
    bytes: [u64; 3],
    /// What may run it, by position among the choices of workers, 0 where these are alike; and what it costs there.
    pub(super) options: Vec<(usize, StageCost)>,
}

/// The stages of all plans of a problem with tied cuts.
pub(super) struct Arcs<'a> {
    pub(super) problem: &'a Problem,
    pub(super) ideals: Ideals,
    /// For every ideal those that may come next.
    pub(super) from: Vec<Vec<Arc>>,
    /// For every ideal what all items in it take at least, in whatever stages, in ns.
    pub(super) least_within_ns: Vec<u64>,
    /// The same of all others.
    pub(super) least_behind_ns: Vec<u64>,
}

impl<'a> Arcs<'a> {
    /// Lists them; or why not.
    pub(super) fn new(incumbent: &Incumbent<'a>) -> Result<Self, StoppedBy> {
        let (problem, control) = (incumbent.problem, incumbent.control);
        let ideals = ideals(incumbent)?;
        let least = Least::new(problem);
        let within = |ideal: usize| least.of(ideals.sets[ideal].ones());
        let behind = |ideal: usize| least.of(ideals.sets[ideal].zeroes());
        let count = ideals.sets.len();
        let mut arcs = Self {
            problem,
            from: (0..count).map(|_| Vec::new()).collect(),
            least_within_ns: (0..count).map(within).collect(),
            least_behind_ns: (0..count).map(behind).collect(),
            ideals,
        };
        let mut room = MOST_OPTIONS;
        for after in 1..count {
            for before in arcs.ideals.inside(after) {
                if let Some(stopped_by) = control.must_stop() {
                    return Err(stopped_by);
                }
                let arc = arcs.between(before, after);
                room = room
                    .checked_sub(1 + arc.options.len())
                    .ok_or(StoppedBy::SizeLimit)?;
                if !arc.options.is_empty() {
                    arcs.from[before].push(arc);
                }
            }
        }
        Ok(arcs)
    }

    fn between(&self, before: usize, after: usize) -> Arc {
        let problem = self.problem;
        let (outer, inner) = (&self.ideals.sets[after], &self.ideals.sets[before]);
        let members = self.ideals.between(before, after);
        let is_here = |item: usize| outer.contains(item) && !inner.contains(item);
        let cost = cost::stage_cost(problem, &members, is_here);
        let of_items =
            |bytes: fn(&Item) -> u64| members.iter().map(|&item| bytes(&problem.items[item])).sum();
        // A table whose other end lies elsewhere.
        let apart = problem
            .pairs
            .iter()
            .filter(|pair| is_here(pair.forward) && !is_here(pair.backward));
        let bytes = [
            of_items(|item| item.base_bytes) + apart.map(|pair| pair.weight_bytes).sum::<u64>(),
            of_items(|item| item.parameter_bytes),
            match problem.holds_no_less_apart() {
                true => of_items(|item| item.stash_bytes),
                false => 0,
            },
        ];
        let mut options = match &problem.workers {
            None => vec![(0, cost)],
            Some(workers) => on_workers(problem, workers, &members, cost),
        };
        options.retain(|&(choice, _)| problem.settings.bytes_on(bytes, 1) <= self.limit(choice));
        Arc {
            after,
            bytes,
            options,
        }
    }

    /// Bytes that what runs a stage has room for.
    fn limit(&self, choice: usize) -> u64 {
        let settings = &self.problem.settings;
        match &self.problem.workers {
            None => settings.memory_limit.unwrap_or(u64::MAX),
            Some(workers) => workers.memory_bytes(settings, &workers.choices[choice]),
        }
    }

    /// Whether a stage fits there with so many stages from it to the end.
    pub(super) fn fits(&self, arc: &Arc, choice: usize, from_end: usize) -> bool {
        self.problem.settings.bytes_on(arc.bytes, from_end) <= self.limit(choice)
    }

    /// What is taken from the stock by one more stage; `None` where there is too little.
    pub(super) fn taken(&self, taken: &[usize], choice: usize) -> Option<Box<[usize]>> {
        let Some(workers) = &self.problem.workers else {
            return Some(Box::default());
        };
        let both = taken.iter().zip(&workers.choices[choice].takes);
        let taken: Box<[usize]> = both.map(|(taken, more)| taken + more).collect();
        let mut each = taken.iter().zip(&workers.inventory);
        each.all(|(taken, all)| taken <= all).then_some(taken)
    }

    /// Nothing taken.
    pub(super) fn untaken(&self) -> Box<[usize]> {
        let kinds = self
            .problem
            .workers
            .as_ref()
            .map_or(0, |workers| workers.inventory.len());
        vec![0; kinds].into()
    }

    /// The plan whose stages end with these ideals and run on these choices.
    pub(super) fn plan(&self, stages: &[(usize, usize)]) -> Allocation {
        plan(self.problem, &self.ideals, stages)
    }
}

/// Enumerates ideals; or why not.
pub(super) fn ideals(incumbent: &Incumbent) -> Result<Ideals, StoppedBy> {
    let control = incumbent.control;
    let stop = || control.must_stop().is_some();
    Ideals::enumerate(incumbent.problem, MOST_IDEALS, &stop).map_err(|error| match error {
        IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
        IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
    })
}

/// The plan whose stages end with these ideals and run on these choices.
pub(super) fn plan(problem: &Problem, ideals: &Ideals, stages: &[(usize, usize)]) -> Allocation {
    let mut assignment = vec![0; problem.items.len()];
    for (k, &(ideal, _)) in stages.iter().enumerate().rev() {
        let items = ideals.sets[ideal].ones();
        items.for_each(|item| assignment[item] = k);
    }
    let choices = stages.iter().map(|&(_, choice)| choice);
    Allocation {
        choices: match &problem.workers {
            None => Vec::new(),
            Some(_) => choices.collect(),
        },
        ..assignment.into()
    }
}

/// What a stage costs on every choice that can run it.
fn on_workers(
    problem: &Problem,
    workers: &Workers,
    members: &[usize],
    mut transfers: StageCost,
) -> Vec<(usize, StageCost)> {
    let mut work = StageWork::empty(workers.classes.len());
    members.iter().for_each(|&item| work.add_item(problem, item));
    (transfers.forward.work_ns, transfers.backward.work_ns) = (0, 0);
    work.transfers = transfers;
    let choices = workers.choices.iter().enumerate();
    let load = |(at, choice): (usize, &Choice)| {
        let load = workers.load(problem, choice, &work, &[])?;
        // A phase without a share never ends.
        (load.bottleneck_ns < u64::MAX).then_some((at, load.cost))
    };
    choices.filter_map(load).collect()
}

/// What items take at least, whatever their stages and devices.
pub(super) struct Least {
    /// Of each item its work on the devices that suit it best, in ns.
    each_ns: Vec<f64>,
    /// What the rounding of all stages may take away, in ns.
    rounding_ns: f64,
}

impl Least {
    pub(super) fn new(problem: &Problem) -> Self {
        // On a share a phase may run faster than on everything.
        if problem.settings.worker == WorkerMode::Concurrent {
            return Self {
                each_ns: vec![0.0; problem.items.len()],
                rounding_ns: 0.0,
            };
        }
        let alone = |item: &Item| item.work_ns() as f64;
        let Some(workers) = &problem.workers else {
            return Self {
                each_ns: problem.items.iter().map(alone).collect(),
                rounding_ns: 0.0,
            };
        };
        let each = problem.items.iter().map(|item| {
            let choices = workers.choices.iter();
            let times = choices.filter_map(|choice| work_ns(workers, choice, item));
            times.fold(f64::INFINITY, f64::min)
        });
        let is_whole = |choice: &Choice| {
            let rates = workers
                .resources(choice)
                .map(|(class, at)| &workers.classes[class].resources[at]);
            let [forward, backward] = rates.fold([0.0, 0.0], |[forward, backward], resource| {
                [forward + resource.forward_rate, backward + resource.backward_rate]
            });
            workers.is_single(choice) && forward == 1.0 && backward == 1.0
        };
        Self {
            // An item that nothing can run has no plan, of which every bound holds.
            each_ns: each.map(|ns| if ns.is_finite() { ns } else { 0.0 }).collect(),
            rounding_ns: match workers.choices.iter().all(is_whole) {
                true => 0.0,
                false => 0.5 * problem.stages() as f64,
            },
        }
    }

    /// What some items take, one after the other, in ns.
    ///
    /// A stage takes no less than its items one by one would on its own devices: on one kind as much, and devices of several kinds share
    /// out a micro-batch as if all of it were alike. So none takes less than each on what suits it best.
    pub(super) fn of(&self, items: impl Iterator<Item = usize>) -> u64 {
        // Far more than what sums of doubles lose.
        const ROUNDING: f64 = 1e-12;
        let all_ns: f64 = items.map(|item| self.each_ns[item]).sum();
        match self.rounding_ns == 0.0 {
            // Sums of whole numbers are exact.
            true => all_ns as u64,
            false => (all_ns * (1.0 - ROUNDING) - self.rounding_ns).max(0.0) as u64,
        }
    }
}

/// Both passes of an item on a choice, in ns and not rounded; `None` where some device cannot run it.
fn work_ns(workers: &Workers, choice: &Choice, item: &Item) -> Option<f64> {
    let mut phases = [(0.0, f64::INFINITY); 2];
    for (class, at) in workers.resources(choice) {
        let times = item.times[class]?;
        let resource = &workers.classes[class].resources[at];
        let rates = [resource.forward_rate, resource.backward_rate];
        let of_phases = phases
            .iter_mut()
            .zip([times.forward_ns, times.backward_ns])
            .zip(rates);
        for (((speed, least_ns), ns), rate) in of_phases {
            let devices = choice.devices[class] as f64;
            *speed += devices * rate / ns.max(1) as f64;
            *least_ns = least_ns.min(ns as f64);
        }
    }
    let is_one = workers.is_single(choice) && workers.resources(choice).count() == 1;
    let time = |((speed, least_ns), rate): ((f64, f64), f64)| match (least_ns == 0.0, is_one) {
        (true, _) => 0.0,
        (false, true) => least_ns / rate,
        (false, false) => 1.0 / speed,
    };
    let mut resources = workers.resources(choice);
    let rates = resources.next().map(|(class, at)| {
        let resource = &workers.classes[class].resources[at];
        [resource.forward_rate, resource.backward_rate]
    })?;
    Some(phases.into_iter().zip(rates).map(time).sum())
}
