//! Exhaustive search over stages and what runs them: the method for problems that tie all stages together.
#![doc = include_str!("../../../formulations/allocation_tree.md")]

use crate::exact::bits;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::heterogeneous::stage::{Holding, sides};
use crate::exact::ideals::growth::{self, Grown, Growth};
use crate::model::units::LARGEST_EXACT;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::StageCost;
use crate::problem::cost::allocation::{Allocation, StageLoad, StageWork, objective_of};
use crate::problem::cost::global;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::{Choice, Workers};

/// Items up to which the search is worth its time: beyond, a problem without another method stays unproved.
pub(crate) const MOST_ITEMS: usize = 40;

/// What came of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Searched {
    /// The best plan that was found below the objective to beat.
    pub found: Option<Allocation>,
    /// No plan costs less than this, in ns, or than the one found or to beat; known only if the search is complete.
    pub open_ns: u64,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
}

/// Looks for the best plan below `upper_ns`, with so many steps at most; `u64::MAX` where any plan will do.
pub(crate) fn search(
    problem: &Problem,
    workers: &Workers,
    control: &Control,
    upper_ns: u64,
    most_steps: u64,
) -> Searched {
    let ground = Ground {
        problem,
        workers,
        control,
        capacity: Capacity::new(problem, workers),
        predecessors: growth::predecessors(problem),
        sides: sides(problem),
        is_global: problem.shares_are_global(),
    };
    let mut path = Path {
        stages: Vec::new(),
        from_end: vec![0; problem.items.len()],
        taken: vec![0; workers.inventory.len()],
        upper_ns,
        found: None,
        open_ns: u64::MAX,
        left: most_steps,
        stopped_by: None,
    };
    let everything = Ideal {
        items: &bits::full(problem.items.len()),
        weight: ground.capacity.total_weight,
    };
    ground.descend(&mut path, everything);
    Searched {
        found: path.found,
        open_ns: path.open_ns,
        stopped_by: path.stopped_by.unwrap_or(StoppedBy::Completed),
    }
}

/// What does not change during a search.
struct Ground<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    control: &'a Control<'a>,
    capacity: Capacity,
    predecessors: Vec<Vec<usize>>,
    sides: Vec<[StageCost; 2]>,
    is_global: bool,
}

/// Items without a stage: an ideal, and its weight.
#[derive(Clone, Copy)]
struct Ideal<'a> {
    items: &'a [u64],
    weight: u64,
}

impl Ideal<'_> {
    fn is_empty(self) -> bool {
        bits::is_empty(self.items)
    }
}

/// A stage with what runs it.
struct Staffed {
    choice: usize,
    work: StageWork,
    load: StageLoad,
}

/// Stages so far, from the last one on, and the best plan.
struct Path {
    stages: Vec<Staffed>,
    /// Stage of each item from the end, 1 for the last; 0 for items without one.
    from_end: Vec<usize>,
    taken: Vec<usize>,
    upper_ns: u64,
    found: Option<Allocation>,
    open_ns: u64,
    /// Steps that are left.
    left: u64,
    stopped_by: Option<StoppedBy>,
}

impl Path {
    /// The largest objective of interest.
    fn limit_ns(&self) -> u64 {
        self.upper_ns.saturating_sub(1).min(LARGEST_EXACT)
    }
}

impl Ground<'_> {
    /// Takes every stage off the end of an ideal.
    fn descend(&self, path: &mut Path, left: Ideal) {
        let mut holding = Holding::new(self.problem, &self.capacity, &self.sides, path.limit_ns(), None);
        // Those of the stages behind are still growing.
        let mut stage = Growth::new(self.problem, self.control, &self.predecessors);
        stage.move_to(left.items);
        let grown = stage.each(&mut holding, path.left, &mut |holding, items| {
            let weight = left.weight - holding.weight;
            self.put_stage(path, holding, left, Ideal { items, weight });
            path.stopped_by.is_some()
        });
        if let Grown::Stopped(stopped_by) = grown {
            path.stopped_by = Some(stopped_by);
        }
    }

    /// Puts the stage that lies between two ideals on the path, tries its choices and takes it off again.
    fn put_stage(&self, path: &mut Path, holding: &Holding, left: Ideal, rest: Ideal) {
        self.count_step(path);
        let stages_left = self.problem.stages() - path.stages.len() - 1;
        let wrong_count = match rest.is_empty() {
            true => self.problem.settings.all_stages && stages_left > 0,
            false => stages_left == 0,
        };
        if wrong_count || path.stopped_by.is_some() {
            return;
        }
        let from_end = path.stages.len() + 1;
        let members = (0..self.problem.items.len())
            .filter(|&item| bits::contains(left.items, item) && !bits::contains(rest.items, item));
        let members: Vec<usize> = members.collect();
        members.iter().for_each(|&item| path.from_end[item] = from_end);
        if let Some(bytes) = self.bytes_of_next(path) {
            self.try_choices(path, &holding.work(), bytes, rest);
        }
        members.iter().for_each(|&item| path.from_end[item] = 0);
    }

    /// Counts a step, and looks now and then whether the search must stop.
    fn count_step(&self, path: &mut Path) {
        /// Stages between two looks at the clock.
        const PATIENCE: u64 = 1 << 8;
        let step = self.control.take_step(&mut path.left, PATIENCE);
        path.stopped_by = path.stopped_by.or(step.err());
    }

    /// Bytes that the stage before those of the path holds at least; `None` where one of them now holds too much.
    fn bytes_of_next(&self, path: &Path) -> Option<u64> {
        let mut bytes = self.least_bytes(path, path.stages.len() + 1);
        let next = bytes.pop();
        let mut behind = path.stages.iter().zip(bytes);
        let fits = |(stage, bytes): (&Staffed, u64)| bytes <= self.holds(&self.workers.choices[stage.choice]);
        next.filter(|_| behind.all(fits))
    }

    /// Bytes that a choice holds at most.
    fn holds(&self, choice: &Choice) -> u64 {
        self.workers.memory_bytes(&self.problem.settings, choice)
    }

    /// Goes on with a stage of so many bytes before those of the path, on every choice that can run it, the cheapest first.
    fn try_choices(&self, path: &mut Path, work: &StageWork, bytes: u64, rest: Ideal) {
        let stages_left = self.problem.stages() - path.stages.len() - 1;
        for (choice, load) in self.choices(path, work, bytes) {
            let work = work.clone();
            path.stages.push(Staffed { choice, work, load });
            self.take(path, choice, true);
            if self.is_of_interest(path, rest.weight, stages_left) {
                match rest.is_empty() {
                    true => self.finish(path),
                    false => self.descend(path, rest),
                }
            }
            self.take(path, choice, false);
            path.stages.pop();
            if path.stopped_by.is_some() {
                break;
            }
        }
    }

    /// Choices that can run a stage of so many bytes beside those that the path takes, the cheapest first.
    fn choices(&self, path: &Path, work: &StageWork, bytes: u64) -> Vec<(usize, StageLoad)> {
        let mut choices = Vec::new();
        for (at, choice) in self.workers.choices.iter().enumerate() {
            if self.is_left(path, choice) && bytes <= self.holds(choice) {
                let load = self.workers.load(self.problem, choice, work, &[]);
                choices.extend(load.map(|load| (at, load)));
            }
        }
        // The sort is stable: of equal ones, the first choice comes first.
        choices.sort_by_key(|(_, load)| load.bottleneck_ns);
        choices
    }

    fn is_left(&self, path: &Path, choice: &Choice) -> bool {
        let mut takes = choice.takes.iter().zip(&path.taken).zip(&self.workers.inventory);
        takes.all(|((takes, taken), stock)| taken + takes <= *stock)
    }

    fn take(&self, path: &mut Path, choice: usize, takes: bool) {
        let devices = &self.workers.choices[choice].takes;
        for (taken, n) in path.taken.iter_mut().zip(devices) {
            *taken = if takes { *taken + n } else { *taken - n };
        }
    }

    /// Bytes that stages so far hold at least, from the last one on. Exact once all items have a stage: a pass without one
    /// lies at least a stage before the first that there is.
    fn least_bytes(&self, path: &Path, first: usize) -> Vec<u64> {
        let mut bytes = vec![0u64; first];
        for (item, &from_end) in self.problem.items.iter().zip(&path.from_end) {
            if from_end > 0 {
                bytes[from_end - 1] += self.problem.memory_bytes(item, from_end);
            }
        }
        for pair in &self.problem.pairs {
            let place = |item: usize| match path.from_end[item] {
                0 => first + 1,
                from_end => from_end,
            };
            let (forward, backward) = (place(pair.forward), place(pair.backward));
            let (stash, weights) = self.problem.bytes_apart(pair, forward, backward);
            if let Some(held) = bytes.get_mut(backward - 1) {
                *held = held.saturating_add_signed(stash);
            }
            if let Some(held) = bytes.get_mut(forward - 1) {
                *held += weights;
            }
        }
        bytes
    }

    /// Whether some plan that ends in these stages may be cheap enough.
    fn is_of_interest(&self, path: &Path, weight: u64, stages_left: usize) -> bool {
        let limit_ns = path.limit_ns();
        let loads: Vec<&StageLoad> = path.stages.iter().map(|stage| &stage.load).collect();
        let later_ns = objective_of(self.problem, &loads);
        let before_ns = self.capacity.least_once_ns(self.problem, weight, stages_left);
        later_ns.saturating_add(before_ns) <= limit_ns
            && self.capacity.carries(&path.taken, stages_left, limit_ns) >= weight as f64
            && (!self.is_global || self.global(path).least_ns() <= limit_ns)
    }

    /// The best shares for the stages so far.
    fn global(&self, path: &Path) -> global::Best {
        let stages = path.stages.iter();
        let stages: Vec<(&Choice, &StageWork)> = stages
            .map(|stage| (&self.workers.choices[stage.choice], &stage.work))
            .collect();
        global::best(self.workers, &stages)
    }

    /// Costs a whole plan and keeps it if it is better.
    fn finish(&self, path: &mut Path) {
        let used = path.stages.len();
        let mut plan = Allocation {
            assignment: path.from_end.iter().map(|from_end| used - from_end).collect(),
            choices: path.stages.iter().rev().map(|stage| stage.choice).collect(),
            global: Vec::new(),
            modes: None,
        };
        let mut least_ns = 0;
        if self.is_global {
            let best = self.global(path);
            least_ns = best.least_ns();
            plan.global = best.global;
        }
        let objective_ns = match self.workers.is_feasible(self.problem, &plan) {
            true => self.workers.objective_ns(self.problem, &plan),
            false => u64::MAX,
        };
        if self.is_global {
            // Doubles may fall on the other side of half a ns than real numbers: then the ns between stays open.
            let loads = path.stages.iter().map(|stage| stage.load.cost.link_ns());
            let least_ns = loads.fold(least_ns, u64::max);
            if least_ns < objective_ns {
                path.open_ns = path.open_ns.min(least_ns);
            }
        }
        if objective_ns < path.upper_ns {
            path.upper_ns = objective_ns;
            path.found = Some(plan);
        }
    }
}
