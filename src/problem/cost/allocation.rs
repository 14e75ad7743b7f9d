//! What stages cost on workers that differ: an [`Allocation`] says which devices each runs on.

use super::iteration::of_workers_ns;
use super::{StageCost, formula_ns, keeps_order, stage_costs, stage_memory_bytes};
use crate::model::options::{Communication, Shares, Synchronization, WorkerMode};
use crate::model::settings::Settings;
use crate::model::units::transfer_ns;
use crate::problem::modes::Chosen;
use crate::problem::shares::{self, Allowed, Level, Speed};
use crate::problem::workers::{Choice, Workers};
use crate::problem::{Assignment, Problem};

/// A plan's stages, none of them empty, and what each runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Stage of every item.
    pub assignment: Assignment,
    /// For each stage, a position in [`Workers::choices`].
    pub choices: Vec<usize>,
    /// With `Shares::Global`, the share of each resource type, in the order of [`Workers::resource_names`]; else empty.
    pub global: Vec<f64>,
    /// How stages and layers run, where they have modes.
    pub modes: Option<Chosen>,
}

impl From<Assignment> for Allocation {
    /// An assignment where workers are alike: nothing to choose.
    fn from(assignment: Assignment) -> Self {
        Self {
            assignment,
            choices: Vec::new(),
            global: Vec::new(),
            modes: None,
        }
    }
}

/// What a stage holds, before it is known who runs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageWork {
    /// Forward and backward time at rate 1 by class, in ns; `None` where the class cannot run it.
    pub times_ns: Vec<Option<[u64; 2]>>,
    /// Its transfers.
    pub transfers: StageCost,
    /// Bytes of its parameters, which a group synchronises.
    pub parameter_bytes: u64,
}

impl StageWork {
    /// An empty stage.
    pub fn empty(classes: usize) -> Self {
        Self {
            times_ns: vec![Some([0, 0]); classes],
            ..Self::default()
        }
    }

    /// A stage of one item, without transfers.
    pub fn of_item(problem: &Problem, item: usize) -> Self {
        let mut work = Self::empty(problem.items[item].times.len());
        work.add_item(problem, item);
        work
    }

    /// Adds an item.
    pub fn add_item(&mut self, problem: &Problem, item: usize) {
        let item = &problem.items[item];
        for (sum, times) in self.times_ns.iter_mut().zip(&item.times) {
            *sum = match (*sum, times) {
                (Some([forward, backward]), Some(times)) => {
                    Some([forward + times.forward_ns, backward + times.backward_ns])
                }
                _ => None,
            };
        }
        self.parameter_bytes += item.parameter_bytes;
    }
}

/// What a stage costs on given devices.
#[derive(Clone, Debug, PartialEq)]
pub struct StageLoad {
    /// Work and transfers by phase.
    pub cost: StageCost,
    /// The level of every resource of every class in the group, in the order of [`Workers::resources`]; empty for
    /// sequential workers.
    pub levels: Vec<Level>,
    /// The stage's own period in ns.
    pub bottleneck_ns: u64,
}

/// How fast the devices of a choice work on a stage.
pub(super) struct Speeds {
    /// Of every resource, in the order of [`Workers::resources`].
    pub(super) by_resource: Vec<Speed>,
    /// For each phase, whether there is nothing to do in it.
    pub(super) idle: [bool; 2],
}

impl Workers {
    /// What a stage costs on the devices of a choice; `None` if one of them cannot run it.
    ///
    /// With `Shares::Global` the shares are those of `global`, see [`Allocation::global`]; if that is empty, the best of the
    /// stage, which no global share beats.
    pub fn load(
        &self,
        problem: &Problem,
        choice: &Choice,
        work: &StageWork,
        global: &[f64],
    ) -> Option<StageLoad> {
        let settings = &problem.settings;
        let speeds = self.speeds(choice, work)?;
        let (by_resource, idle) = (&speeds.by_resource, speeds.idle);
        let mut levels = Vec::new();
        let [forward, backward] = match settings.worker {
            WorkerMode::Sequential => {
                let sum = |of: fn(&Speed) -> f64| 1.0 / by_resource.iter().map(of).sum::<f64>();
                [sum(|speed| speed.forward), sum(|speed| speed.backward)]
            }
            WorkerMode::Concurrent => {
                levels = self.levels(settings, choice, &speeds, global);
                shares::times_ns(by_resource, &levels)
            }
        };
        let mut cost = match self.pays(choice) {
            true => work.transfers,
            false => StageCost::default(),
        };
        let [forward, backward] =
            [(forward, idle[0]), (backward, idle[1])].map(|(ns, idle)| if idle { 0.0 } else { ns });
        [cost.forward.work_ns, cost.backward.work_ns] = match settings.worker {
            // So that both together are rounded once.
            WorkerMode::Sequential => [
                whole_ns(forward),
                whole_ns(forward + backward) - whole_ns(forward),
            ],
            WorkerMode::Concurrent => [forward, backward].map(shares::whole_on_shares_ns),
        };
        self.synchronize(settings, choice, work, &mut cost);
        Some(StageLoad {
            bottleneck_ns: bottleneck_ns(settings, &cost),
            cost,
            levels,
        })
    }

    /// How fast a choice works on a stage; `None` where some device cannot run it.
    pub(super) fn speeds(&self, choice: &Choice, work: &StageWork) -> Option<Speeds> {
        let mut idle = [false; 2];
        let mut by_resource = Vec::new();
        for (class, resource) in self.resources(choice) {
            let times = work.times_ns[class]?;
            (0..2).for_each(|phase| idle[phase] |= times[phase] == 0);
            let devices = choice.devices[class] as f64;
            let resource = &self.classes[class].resources[resource];
            by_resource.push(Speed {
                forward: devices * resource.forward_rate / times[0].max(1) as f64,
                backward: devices * resource.backward_rate / times[1].max(1) as f64,
            });
        }
        Some(Speeds { by_resource, idle })
    }

    /// The levels that the share policy takes.
    fn levels(&self, settings: &Settings, choice: &Choice, speeds: &Speeds, global: &[f64]) -> Vec<Level> {
        let (speeds, idle) = (&speeds.by_resource, speeds.idle);
        let at = |(class, resource): (usize, usize)| self.classes[class].levels[resource].as_deref();
        let allowed: Vec<Allowed> = self.resources(choice).map(at).collect();
        if settings.shares != Shares::Global || global.is_empty() {
            return shares::by_policy(settings.shares, speeds, &allowed, idle);
        }
        let share = |(class, resource)| global[self.name_of(class, resource)];
        let wanted: Vec<f64> = self.resources(choice).map(share).collect();
        shares::nearest_of_all(&wanted, &allowed)
    }

    /// The ring all-reduce of a group's gradients, once an iteration, as far as each micro-batch bears it, in ticks: every
    /// device sends and receives 2 (m - 1) / m of the parameters in 2 (m - 1) messages (P. Patarasuk, X. Yuan, *Bandwidth
    /// optimal all-reduce algorithms for clusters of workstations*, JPDC 69(2), 2009).
    pub(crate) fn synchronization_ns(&self, settings: &Settings, choice: &Choice, work: &StageWork) -> u64 {
        let devices: usize = choice.devices.iter().sum();
        let is_free = settings.synchronization == Synchronization::None
            || !settings.communication.takes_time()
            || !settings.mode.trains()
            || devices < 2
            || !self.pays(choice);
        if is_free {
            return 0;
        }
        let link = settings.link;
        let part_bytes = work.parameter_bytes.div_ceil(devices as u64);
        let messages = 2 * (devices as u64 - 1);
        settings.shared_out(messages * transfer_ns(part_bytes, link.bandwidth_bytes_per_s, link.latency_ns))
    }

    /// Adds the synchronisation of a group to what the stage costs: a device sends and receives at the same time.
    fn synchronize(&self, settings: &Settings, choice: &Choice, work: &StageWork, cost: &mut StageCost) {
        let ns = self.synchronization_ns(settings, choice, work);
        match settings.communication {
            Communication::Ignored => {}
            Communication::Blocking => cost.backward.communication_ns += ns,
            Communication::Overlapped => {
                cost.backward.link_in_ns += ns;
                cost.backward.link_out_ns += ns;
            }
        }
    }

    /// What a choice receives and sends for a stage whose transfers would go over links as `on_links`; where they block, a
    /// synchronisation counts as sent.
    pub fn moved(
        &self,
        problem: &Problem,
        choice: &Choice,
        work: &StageWork,
        on_links: StageCost,
    ) -> StageCost {
        let mut moved = match self.pays(choice) {
            true => on_links,
            false => StageCost::default(),
        };
        let ns = self.synchronization_ns(&problem.settings, choice, work);
        moved.backward.link_out_ns += ns;
        if problem.settings.communication.has_links() {
            moved.backward.link_in_ns += ns;
        }
        moved
    }

    /// What every stage of an allocation costs; `None` if some worker cannot run its stage, or never ends it: a phase has
    /// work to do and no share.
    pub fn loads(&self, problem: &Problem, allocation: &Allocation) -> Option<Vec<StageLoad>> {
        let works = self.works(problem, &allocation.assignment, allocation.choices.len());
        let stages = allocation.choices.iter().zip(&works);
        let load = |(&choice, work)| {
            let load = self.load(problem, &self.choices[choice], work, &allocation.global);
            load.filter(|load| load.bottleneck_ns < u64::MAX)
        };
        stages.map(load).collect()
    }

    /// What every one of so many stages holds.
    pub fn works(&self, problem: &Problem, assignment: &Assignment, stages: usize) -> Vec<StageWork> {
        let mut works = vec![StageWork::empty(self.classes.len()); stages];
        for (item, &stage) in assignment.iter().enumerate() {
            works[stage].add_item(problem, item);
        }
        for (work, mut cost) in works.iter_mut().zip(stage_costs(problem, assignment)) {
            (cost.forward.work_ns, cost.backward.work_ns) = (0, 0);
            work.transfers = cost;
        }
        works
    }

    /// The objective of an allocation, up to whole ns; `u64::MAX` if some worker cannot run its stage.
    pub fn objective_ns(&self, problem: &Problem, allocation: &Allocation) -> u64 {
        let loads = self.loads(problem, allocation);
        loads.map_or(u64::MAX, |loads| match problem.settings.is_simulated() {
            true => of_workers_ns(problem, allocation, &loads),
            false => {
                let ticks = objective_of(problem, &loads.iter().collect::<Vec<_>>());
                problem.settings.whole_ns(ticks)
            }
        })
    }

    /// Whether an allocation is a plan: order kept, no stage empty, as many as asked for, enough devices, memory held.
    pub fn is_feasible(&self, problem: &Problem, allocation: &Allocation) -> bool {
        let used = allocation.choices.len();
        let mut size = vec![0usize; used];
        for &stage in &allocation.assignment {
            match size.get_mut(stage) {
                Some(size) => *size += 1,
                None => return false,
            }
        }
        let takes = |at: usize| -> usize {
            let of = |&choice: &usize| self.choices[choice].takes[at];
            allocation.choices.iter().map(of).sum()
        };
        let memory = stage_memory_bytes(problem, &allocation.assignment, used);
        let fits = |(bytes, &choice): (&u64, &usize)| {
            *bytes <= self.memory_bytes(&problem.settings, &self.choices[choice])
        };
        size.iter().all(|&size| size > 0)
            && used <= problem.stages()
            && (!problem.settings.all_stages || used == problem.stages())
            && keeps_order(problem, &allocation.assignment)
            && problem.admits(&allocation.assignment)
            && (0..self.inventory.len()).all(|at| takes(at) <= self.inventory[at])
            && memory.iter().zip(&allocation.choices).all(fits)
            && self.loads(problem, allocation).is_some()
    }
}

/// What stages of these loads come to in ticks: the longest period, or `formula_ns`, which only workers that take
/// turns are asked for. More stages never make it less.
pub fn objective_of(problem: &Problem, loads: &[&StageLoad]) -> u64 {
    let formula = problem.formula();
    match formula.is_bottleneck() {
        true => loads.iter().map(|load| load.bottleneck_ns).max().unwrap_or(0),
        false => {
            let costs: Vec<StageCost> = loads.iter().map(|load| load.cost).collect();
            formula_ns(formula, &costs)
        }
    }
}

/// The busiest of worker and links: a concurrent worker is as busy as its slower phase.
pub fn bottleneck_ns(settings: &Settings, cost: &StageCost) -> u64 {
    match settings.worker {
        WorkerMode::Sequential => cost.bottleneck_ns(),
        WorkerMode::Concurrent => {
            // Phases are not summed: one may never end.
            let phases_ns = cost.forward.work_ns.max(cost.backward.work_ns);
            phases_ns.max(cost.link_ns())
        }
    }
}

/// Rounded to the nearest ns; `u64::MAX` for what does not end.
fn whole_ns(ns: f64) -> u64 {
    ns.round() as u64
}
