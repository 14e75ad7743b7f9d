//! The best plan of a model for a batch of sequences: the size of micro-batches is chosen with everything else.
//!
//! Each size is a problem of its own, since times, bytes and the number of micro-batches differ, and all have one objective: the iteration
//! that takes the whole batch. So the best plan so far is what those of the next size have to beat, and the least of all bounds holds for all.
//! What is held in flight grows with the size of micro-batches: where one leaves no plan, none that is larger does.
//!
//! What a choice is worth is asked in the same way: the best plan in which that choice is another.

use std::path::Path;
use std::time::Duration;

use rayon::prelude::*;

use crate::exact;
use crate::input::import::config::Asked;
use crate::input::transformer::Precision;
use crate::model::efficiency::Efficiency;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::{
    Degrees, Mode, Objective, OptimizerSharding, PipelineOptions, Recomputation, Recompute, Staffing,
    StatePrecision,
};
use crate::model::setting;
use crate::model::spec::{GivenCluster, InstanceSpec};
use crate::model::units::NS_PER_MS;
use crate::model::words::words;
use crate::problem::control::{Control, Progress};
use crate::problem::plan::{Plan, PlanMode, Status, StoppedBy};
use crate::solve::error::Error;
use crate::solve::methods::Method;
use crate::solve::posed::Posed;

/// What a search may take where nobody says so.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How many questions are asked side by side, whatever the number of threads: what is found does not depend on it.
const SIDE_BY_SIDE: usize = 2;

/// The part of the time that is for what choices are worth.
const SHARE_OF_OTHERS: f64 = 0.15;

/// The part of the time that the first look at a size may take.
const SHARE_OF_A_LOOK: f64 = 0.15;

/// The best plan's time over what the next look at what is open may take.
const SHARE_OF_THE_REST: f64 = 0.75;

/// What is asked: a model, how it is run, on what, and what of the plan is given.
#[derive(Clone, Debug)]
pub struct Question {
    /// How the model is run; sizes and numbers of micro-batches are not said here.
    pub model: Asked,
    /// The cluster in place of the default one.
    pub cluster: Option<GivenCluster>,
    /// Part of the devices' peak rates that layers reach.
    pub efficiency: Option<Efficiency>,
    /// Sequences of an iteration.
    pub global_batch: u32,
    /// Sizes of micro-batches to look at: by default 1, 2, 4 and so on.
    pub sizes: Option<Vec<u32>>,
    /// What is given of the plan; all else is chosen.
    pub options: PipelineOptions,
}

/// A size of micro-batches, and what is known of it.
#[derive(Clone, Debug)]
pub struct OfSize {
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// The model so run, as a file has it.
    pub spec: InstanceSpec,
    /// The same, validated.
    pub instance: Instance,
    /// What is asked of its plans.
    pub options: PipelineOptions,
    /// The best plan that beats those of the sizes before, or what was proved of it.
    pub plan: Plan,
}

/// The best plan in which a choice is another.
#[derive(Clone, Debug)]
pub struct Otherwise {
    /// Which choice.
    pub choice: Choice,
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// The plan, without stages where none was found.
    pub plan: Plan,
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The tensor degree.
    Tensor,
    /// The number of replicas.
    Replicas,
    /// The expert degree.
    Expert,
    /// The number of chunks of a device.
    VirtualStages,
    /// The size of micro-batches.
    MicroBatch,
}

impl Choice {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor degree",
            Self::Replicas => "number of replicas",
            Self::Expert => "expert degree",
            Self::VirtualStages => "number of chunks",
            Self::MicroBatch => "size of micro-batches",
        }
    }

    /// What a plan takes of it, on its first stage.
    fn of(self, plan: &Plan, micro_batch: u32) -> usize {
        let mode = plan.stages.first().and_then(|stage| stage.mode.as_ref());
        let degree = |of: fn(&PlanMode) -> usize| mode.map_or(1, of);
        match self {
            Self::Tensor => degree(|mode| mode.tensor),
            Self::Replicas => degree(|mode| mode.replicas),
            Self::Expert => degree(|mode| mode.expert),
            Self::VirtualStages => plan.virtual_stages().unwrap_or(1),
            Self::MicroBatch => micro_batch as usize,
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Every size that was looked at, ascending.
    pub sizes: Vec<OfSize>,
    /// The position of the best plan's among them.
    pub best: Option<usize>,
    /// No plan of any size takes less, in ms; absent where there is none.
    pub bound_ms: Option<f64>,
    /// The best plans in which a choice is another, those that lose least first.
    pub otherwise: Vec<Otherwise>,
}

impl Answer {
    /// The best plan, with its size.
    pub fn best(&self) -> Option<&OfSize> {
        self.sizes.get(self.best?)
    }

    /// How much longer than any plan the best one may take, as a part of it.
    pub fn gap(&self) -> Option<f64> {
        let objective_ms = self.best()?.plan.objective_ms?;
        Some(((objective_ms - self.bound_ms?) / objective_ms).max(0.0))
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Sequences of a micro-batch of the plans that are looked at.
    pub micro_batch: u32,
    /// Which choice is to be another, where the best plan is known.
    pub otherwise: Option<Choice>,
    /// Seconds since the start.
    pub seconds: f64,
    /// The best plan of any size so far, in ms.
    pub best_ms: Option<f64>,
    /// No plan of this size, with such a choice, takes less, in ms.
    pub bound_ms: f64,
}

/// Whoever is told.
pub type Show<'a> = &'a (dyn Fn(&Step) + Sync);

/// Finds the best plan of the model in a file, and what its choices are worth.
///
/// The time limit is for all of it; without one every size is proved.
///
/// # Errors
///
/// [`Error`].
pub fn search(path: &Path, question: &Question, control: &Control, show: Show) -> Result<Answer, Error> {
    question.refuse()?;
    let mut search = Search {
        question,
        control,
        show,
        sizes: Vec::new(),
        best: None,
    };
    search.look_at_sizes(path)?;
    search.close()?;
    let mut otherwise = search.otherwise()?;
    search.take_better(&mut otherwise);
    let bounds = search.sizes.iter().filter_map(|size| size.plan.bound_ms);
    Ok(Answer {
        bound_ms: bounds.min_by(f64::total_cmp),
        best: search.best,
        sizes: search.sizes,
        otherwise,
    })
}

impl Question {
    /// Refuses what follows from the batch, and what no two sizes can be compared by.
    fn refuse(&self) -> Result<(), InputError> {
        let mut faults = Vec::new();
        if self.options.micro_batches.is_some() {
            let kind = FaultKind::Conflict {
                found: words!("{} beside {}", setting::MICRO_BATCHES, setting::GLOBAL_BATCH),
                expected: "one of them: the other follows from the size of micro-batches".into(),
                remedy: words!(
                    "leave out {}, or give {}",
                    setting::MICRO_BATCHES,
                    setting::MICRO_BATCH
                ),
            };
            faults.push(Fault::new(setting::MICRO_BATCHES, kind));
        }
        let objective = self.options.objective.unwrap_or(Objective::Iteration);
        if objective != Objective::Iteration {
            let kind = FaultKind::Contradiction {
                found: format!("`{objective}` of micro-batches of several sizes").into(),
                expected: words!(
                    "{}, which takes the whole batch",
                    setting::OBJECTIVE.given(Objective::Iteration)
                ),
            };
            faults.push(Fault::new(setting::OBJECTIVE, kind));
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(InputError { path: None, faults }),
        }
    }

    /// The sizes to look at, ascending.
    fn sizes(&self) -> Result<Vec<u32>, InputError> {
        let divides = |size: &u32| self.global_batch.is_multiple_of(*size);
        let Some(asked) = &self.sizes else {
            let doubled = std::iter::successors(Some(1u32), |size| size.checked_mul(2));
            return Ok(doubled.take_while(divides).collect());
        };
        let mut sizes = asked.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let fault = |size: &u32| {
            let kind = FaultKind::Conflict {
                found: format!("micro-batches of {size} for {} sequences", self.global_batch).into(),
                expected: "sizes that share out the sequences of an iteration evenly".into(),
                remedy: words!(
                    "try {}",
                    setting::MICRO_BATCH.given(nearest(self.global_batch, *size))
                ),
            };
            Fault::new(setting::MICRO_BATCH, kind)
        };
        let faults: Vec<Fault> = sizes.iter().filter(|size| !divides(size)).map(fault).collect();
        match faults.is_empty() {
            true => Ok(sizes),
            false => Err(InputError { path: None, faults }),
        }
    }

    /// The model with micro-batches of a size: as a file has it, and validated.
    fn instance(&self, path: &Path, micro_batch: u32) -> Result<(InstanceSpec, Instance), InputError> {
        let model = Asked {
            micro_batch: Some(micro_batch),
            micro_batches: Some(self.global_batch / micro_batch),
            ..self.model.clone()
        };
        let (spec, instance) = Instance::read_model(path, &model, self.cluster.clone(), self.efficiency)?;
        // The file that is written has the cluster as its own.
        let given_cluster = None;
        Ok((
            spec,
            Instance {
                given_cluster,
                ..instance
            },
        ))
    }

    /// What is asked of plans of a size: what is given, and all else that the framework can be told is chosen.
    fn options_at(&self, micro_batch: u32, instance: &Instance) -> PipelineOptions {
        let given = &self.options;
        let limits = given.target.map(|target| target.limits());
        let trains = match given.mode {
            Some(mode) => mode.trains(),
            None => limits.is_none_or(|limits| limits.trains),
        };
        let staffing = limits.map_or(Staffing::Replicated, |limits| limits.staffing);
        let recomputes = limits.is_none_or(|limits| limits.recomputation != Recomputation::Nothing);
        let takes_chunks = limits.is_some_and(|limits| limits.takes_chunks) && given.schedule.is_none();
        let replicates = staffing == Staffing::Replicated && trains;
        let splits_sequences = given
            .context_parallel
            .as_ref()
            .is_some_and(|degrees| !degrees.is_one());
        let has_replicas = match &given.replicas {
            Some(replicas) => !replicas.is_one() || splits_sequences,
            None => replicates,
        };
        let chosen = PipelineOptions {
            mode: (!trains).then_some(Mode::Inference),
            objective: Some(Objective::Iteration),
            micro_batches: Some(u64::from(self.global_batch / micro_batch)),
            precision: (trains && self.model.precision() == Precision::Bf16)
                .then_some(StatePrecision::Bf16Mixed),
            optimizer_sharding: (trains && has_replicas).then_some(OptimizerSharding::Zero1),
            tensor: (staffing != Staffing::One).then_some(Degrees::Choose),
            replicas: replicates.then_some(Degrees::Choose),
            expert: (has_replicas && has_experts(instance)).then_some(Degrees::Choose),
            recompute: (trains && recomputes).then_some(Recompute::Choose),
            virtual_stages: takes_chunks.then_some(Degrees::Choose),
            ..PipelineOptions::default()
        };
        given.clone().or(&chosen)
    }
}

/// Whether replicas can share out experts of some layer.
fn has_experts(instance: &Instance) -> bool {
    let mut layers = instance.network.layers.iter();
    layers.any(|layer| layer.modes().iter().any(|mode| mode.experts.is_some()))
}

/// The divisor of a batch that is nearest to a size.
fn nearest(batch: u32, size: u32) -> u32 {
    let divisors = (1..=batch.min(1 << 16)).filter(|size| batch.is_multiple_of(*size));
    divisors.min_by_key(|divisor| divisor.abs_diff(size)).unwrap_or(1)
}

/// The search over sizes.
struct Search<'a> {
    question: &'a Question,
    control: &'a Control<'a>,
    show: Show<'a>,
    sizes: Vec<OfSize>,
    best: Option<usize>,
}

impl Search<'_> {
    /// Looks at sizes from the least on, until one leaves no plan.
    fn look_at_sizes(&mut self, path: &Path) -> Result<(), Error> {
        for sizes in self.question.sizes()?.chunks(SIDE_BY_SIDE) {
            let looked = sizes
                .par_iter()
                .map(|&micro_batch| self.looked_at(path, micro_batch));
            // Faults are told of the least size that has any.
            for size in looked.collect::<Vec<Result<OfSize, Error>>>() {
                let size = size?;
                let is_too_large = size.plan.status == Status::Infeasible && self.question.sizes.is_none();
                self.sizes.push(size);
                self.take_best(self.sizes.len() - 1);
                if is_too_large {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A size with what is found of it at first.
    fn looked_at(&self, path: &Path, micro_batch: u32) -> Result<OfSize, Error> {
        let (spec, instance) = self.question.instance(path, micro_batch)?;
        let options = self.question.options_at(micro_batch, &instance);
        are_counted(&instance, &options)?;
        let plan = self.first_of(micro_batch, &Posed::new(&instance, &options)?)?;
        Ok(OfSize {
            micro_batch,
            spec,
            instance,
            options,
            plan,
        })
    }

    /// What is found of a size at first, or its bound where that is enough.
    fn first_of(&self, micro_batch: u32, posed: &Posed) -> Result<Plan, Error> {
        let bound = posed.bound(&self.control.elsewhere())?;
        let is_beaten = |best_ms: f64| bound.bound_ms.is_some_and(|bound_ms| bound_ms >= best_ms);
        let is_short = self.left(1.0).is_some_and(|left| left.is_zero());
        let is_late = !self.sizes.is_empty() && (is_short || self.control.is_interrupted());
        if bound.status != Status::Infeasible && (is_late || self.best_ms().is_some_and(is_beaten)) {
            return Ok(bound);
        }
        let share = self.left(SHARE_OF_A_LOOK);
        self.solved((micro_batch, None), posed, share, self.best_ms())
    }

    /// Goes on with the sizes of the least bounds, as long as these are below the best plan and there is time.
    fn close(&mut self) -> Result<(), Error> {
        loop {
            let mut open = self.open();
            // Where none is left over, there is nothing to keep time for.
            let share = match open.len() > SIDE_BY_SIDE {
                true => self.left(SHARE_OF_THE_REST),
                false => self.left(1.0),
            };
            open.truncate(SIDE_BY_SIDE);
            let again = open.par_iter().map(|&at| {
                let size = &self.sizes[at];
                let posed = Posed::new(&size.instance, &size.options)?;
                self.solved((size.micro_batch, None), &posed, share, self.best_ms())
            });
            let plans: Vec<Plan> = again.collect::<Result<_, Error>>()?;
            let is_of_clock = |plan: &Plan| {
                let stopped_by = plan.stopped_by;
                matches!(stopped_by, StoppedBy::Completed | StoppedBy::TimeLimit)
            };
            // Other limits than the clock end the next look as they have ended this one.
            let is_last = open.is_empty() || !plans.iter().all(is_of_clock);
            for (at, plan) in open.into_iter().zip(plans) {
                self.sizes[at].plan.learn(plan);
                self.take_best(at);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The sizes that may hold the best plan of all, the ones that promise most, if that is not known and there is time to look.
    fn open(&self) -> Vec<usize> {
        /// What a look needs at least, of all the time that there is.
        const LEAST: f64 = 0.05;
        let all = self.control.time_limit;
        let is_short = |left: Duration| all.is_some_and(|all| left <= all.mul_f64(LEAST));
        if self.control.is_interrupted() || self.left(1.0).is_some_and(is_short) {
            return Vec::new();
        }
        let bound_ms = |at: &usize| self.sizes[*at].plan.bound_ms.unwrap_or(f64::INFINITY);
        let best_ms = self.best_ms().unwrap_or(f64::INFINITY);
        let is_open = |at: &usize| {
            let gap = (best_ms - bound_ms(at)) / best_ms;
            bound_ms(at) < best_ms && (gap.is_nan() || gap > self.control.gap)
        };
        let mut open: Vec<usize> = (0..self.sizes.len()).filter(is_open).collect();
        open.sort_by(|one, other| bound_ms(one).total_cmp(&bound_ms(other)));
        open
    }

    /// A part of the time that is left for sizes.
    fn left(&self, part: f64) -> Option<Duration> {
        let (all, left) = (self.control.time_limit?, self.control.remaining()?);
        Some(left.saturating_sub(all.mul_f64(SHARE_OF_OTHERS)).mul_f64(part))
    }

    fn best_ms(&self) -> Option<f64> {
        self.sizes[self.best?].plan.objective_ms
    }

    fn take_best(&mut self, at: usize) {
        let Some(objective_ms) = self.sizes[at].plan.objective_ms else {
            return;
        };
        if self.best_ms().is_none_or(|best_ms| objective_ms < best_ms) {
            self.best = Some(at);
        }
    }

    /// What the exact method finds in so much time that takes less than a known plan.
    fn solved(
        &self,
        (micro_batch, otherwise): (u32, Option<Choice>),
        posed: &Posed,
        time: Option<Duration>,
        beat_ms: Option<f64>,
    ) -> Result<Plan, Error> {
        let (started, best_ms) = (self.control.seconds(), self.best_ms());
        let show = |progress: &Progress| {
            let own_ms = progress.incumbent_ns.map(|ns| posed.settings.ms(ns));
            let both_ms = [own_ms.filter(|_| otherwise.is_none()), best_ms];
            (self.show)(&Step {
                micro_batch,
                otherwise,
                seconds: started + progress.seconds,
                best_ms: both_ms.into_iter().flatten().min_by(f64::total_cmp),
                bound_ms: posed.settings.ms(progress.bound_ns),
            });
        };
        let control = Control {
            progress: Some(&show),
            // Iterations are whole ns.
            beat_ns: beat_ms.map(|ms| (ms * NS_PER_MS).round() as u64),
            ..self.control.with_time(time)
        };
        posed.solve(Method::Exact(exact::Method::Exact), &control)
    }

    /// The best plans in which one choice of the best is another.
    fn otherwise(&self) -> Result<Vec<Otherwise>, Error> {
        let Some(best) = self.best.map(|at| &self.sizes[at]) else {
            return Ok(Vec::new());
        };
        let mut asked = others(best);
        let sizes = [best.micro_batch.checked_mul(2), best.micro_batch.checked_div(2)];
        let of_size = |micro_batch: Option<u32>| {
            let size = self
                .sizes
                .iter()
                .find(|size| Some(size.micro_batch) == micro_batch)?;
            (size.plan.status != Status::Infeasible).then(|| (Choice::MicroBatch, size, size.options.clone()))
        };
        asked.extend(sizes.into_iter().filter_map(of_size));
        let mut found = Vec::new();
        let mut waiting = asked.len().div_ceil(SIDE_BY_SIDE) as u32;
        for asked in asked.chunks(SIDE_BY_SIDE) {
            let share = self.control.remaining().map(|left| left / waiting);
            waiting -= 1;
            if self.control.is_interrupted() {
                break;
            }
            let answers = asked.par_iter().map(|(choice, size, options)| {
                let posed = Posed::new(&size.instance, options)?;
                let plan = self.solved((size.micro_batch, Some(*choice)), &posed, share, None)?;
                Ok(Otherwise {
                    choice: *choice,
                    micro_batch: size.micro_batch,
                    plan,
                })
            });
            found.extend(answers.collect::<Result<Vec<_>, Error>>()?);
        }
        let key = |other: &Otherwise| other.plan.objective_ms.unwrap_or(f64::INFINITY);
        found.sort_by(|one, other| key(one).total_cmp(&key(other)));
        Ok(found)
    }

    /// Where there was no time to find the best plan, one in which a choice is another may take less: then it is the best, and the one before
    /// is what another choice takes.
    fn take_better(&mut self, otherwise: &mut Vec<Otherwise>) {
        let Some((best, best_ms)) = self.best.zip(self.best_ms()) else {
            return;
        };
        // None takes less than what is proved; a fault of ours would be seen.
        let least_ms = self.sizes[best].plan.bound_ms.unwrap_or(f64::INFINITY);
        let is_better = |other: &&mut Otherwise| {
            let found = other.plan.objective_ms;
            found.is_some_and(|ms| (least_ms..best_ms).contains(&ms))
        };
        let Some(first) = otherwise.first_mut().filter(is_better) else {
            return;
        };
        let of_size = |size: &OfSize| size.micro_batch == first.micro_batch;
        let Some(at) = self.sizes.iter().position(of_size) else {
            return;
        };
        let before = &self.sizes[best];
        let micro_batch = std::mem::replace(&mut first.micro_batch, before.micro_batch);
        let plan = std::mem::replace(&mut first.plan, before.plan.clone());
        let own = &mut self.sizes[at].plan;
        own.learn(Plan {
            // It says which number of chunks it took; the degrees that it might have had are those of all.
            problem: PipelineOptions {
                tensor: own.problem.tensor.clone(),
                replicas: own.problem.replicas.clone(),
                expert: own.problem.expert.clone(),
                ..plan.problem.clone()
            },
            status: Status::Feasible,
            stopped_by: own.stopped_by,
            // What is proved of plans with another choice says nothing of all.
            bound_ms: Some(0.0),
            ..plan
        });
        self.best = Some(at);
        let now = &self.sizes[at].plan;
        otherwise.retain(|other| {
            let own = other.choice.of(&other.plan, other.micro_batch);
            other.plan.stages.is_empty() || own != other.choice.of(now, micro_batch)
        });
    }
}

/// Options in which a choice of a plan is another, where it had one.
fn others(best: &OfSize) -> Vec<(Choice, &OfSize, PipelineOptions)> {
    let (plan, asked) = (&best.plan, &best.options);
    let modes = || plan.stages.iter().map(|stage| stage.mode.as_ref());
    let Some(mode) = modes().next().flatten() else {
        return Vec::new();
    };
    let is_alike =
        modes().all(|own| own.is_some_and(|own| (own.tensor, own.replicas) == (mode.tensor, mode.replicas)));
    let layers = best.instance.network.layers.iter();
    let mut tensor =
        layers.flat_map(|layer| layer.modes().iter().map(|mode| mode.tensor).collect::<Vec<_>>());
    let most = asked
        .devices
        .unwrap_or(plan.stages.iter().map(|stage| stage.devices.len()).sum());
    let micro_batches = asked.micro_batches.unwrap_or(1);
    let mut replicas = (1..=most).filter(|&replicas| micro_batches.is_multiple_of(replicas as u64));
    let chunks = plan.virtual_stages().unwrap_or(1);
    let mut numbers = if chunks > 1 {
        1..=1
    } else {
        2..=best.instance.network.layers.len()
    };
    let only = |asked: &Option<Degrees>, all: &mut dyn Iterator<Item = usize>, own: usize| {
        let asked = asked.as_ref()?;
        let mut others: Vec<usize> = all
            .filter(|&degree| degree != own && asked.allows(degree))
            .collect();
        others.sort_unstable();
        others.dedup();
        (!others.is_empty()).then_some(Degrees::Only(others))
    };
    let mut all = Vec::new();
    let mut push =
        |choice: Choice, degrees: Option<Degrees>, of: fn(&mut PipelineOptions) -> &mut Option<Degrees>| {
            let mut options = asked.clone();
            if degrees.is_some() {
                *of(&mut options) = degrees;
                all.push((choice, best, options));
            }
        };
    if is_alike {
        let degrees = only(&asked.tensor, &mut tensor, mode.tensor);
        push(Choice::Tensor, degrees, |options| &mut options.tensor);
        let degrees = only(&asked.replicas, &mut replicas, mode.replicas);
        push(Choice::Replicas, degrees, |options| &mut options.replicas);
    }
    let copies = mode.replicas * mode.context.max(1) * mode.group.max(1);
    let mut experts = (1..=copies).filter(|&degree| copies.is_multiple_of(degree));
    let degrees = only(&asked.expert, &mut experts, mode.expert);
    push(Choice::Expert, degrees, |options| &mut options.expert);
    // One stage is the same in however many chunks.
    let is_row = plan.stages.len() > chunks;
    let degrees = only(&asked.virtual_stages, &mut numbers, chunks).filter(|_| is_row);
    push(Choice::VirtualStages, degrees, |options| {
        &mut options.virtual_stages
    });
    all
}

/// Refuses devices that nobody counts: degrees are chosen among them.
fn are_counted(instance: &Instance, options: &PipelineOptions) -> Result<(), InputError> {
    let asked = &options.device_kinds;
    let is_asked = |name: &String| asked.as_ref().is_none_or(|asked| asked.contains(name));
    let mut kinds = instance.cluster.kinds.iter().filter(|kind| is_asked(&kind.name));
    match kinds.find(|kind| kind.count.is_none() && options.devices.is_none()) {
        None => Ok(()),
        Some(kind) => Err(InputError::option(
            setting::DEVICES,
            FaultKind::Missing {
                what: format!("number of `{}` devices", kind.name),
                expected: words!("{}, or a cluster that counts them", setting::DEVICES.given("N")),
                remedy: words!("try {}", setting::DEVICES.given(8)),
            },
        )),
    }
}
