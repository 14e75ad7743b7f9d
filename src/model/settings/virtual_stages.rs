//! What virtual stages need of the other options.

use super::Settings;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Cuts, Degrees, Objective, PipelineOptions, Schedule, WorkerMode};
use crate::model::schedule::Order;
use crate::model::schedule::in_flight;
use crate::model::schedule::rules::{Rule, Shape};
use crate::model::setting;
use crate::model::words::{Setting, Words, words};

/// Chunks of a device, and of all devices: far above any real pipeline.
const MOST_OF_A_DEVICE: usize = 1_000;
const MOST_CHUNKS: usize = 10_000;

/// Operations of the order that tells what devices hold, which is listed: some hundred megabytes.
const MOST_OPERATIONS: u64 = 4_000_000;

/// Operations of an iteration that is run again and again: as many as a simulation has.
const MOST_OPERATIONS_OF_ITERATIONS: u64 = 500_000;

impl Settings {
    /// Whether devices hold several chunks each.
    pub fn has_virtual_stages(&self) -> bool {
        self.virtual_stages > 1
    }

    /// Whether some plan may have devices of several chunks.
    pub fn may_have_virtual_stages(&self) -> bool {
        self.has_virtual_stages() || self.rounds.is_some()
    }

    /// Whether plans may have so many chunks on every device.
    pub fn allows_virtual_stages(&self, chunks: usize) -> bool {
        match &self.rounds {
            Some(rounds) => rounds.allows(chunks),
            None => self.virtual_stages == chunks,
        }
    }

    /// Whether devices run the two gradients of backward passes apart.
    pub(crate) fn splits_backward(&self) -> bool {
        self.schedule.rule().is_some_and(|rule| rule.splits)
    }

    /// Whether no chunk may be empty: no framework is known to run one without layers, and where their number is chosen, a plan with an empty one
    /// would be one of another number.
    pub fn fills_chunks(&self) -> bool {
        self.all_stages || self.target.is_some() || self.rounds.is_some()
    }

    /// What is asked of a plan of so many stages in a row that took so many chunks for each, where it had a choice of them or of the mode that
    /// says how many stages there are.
    pub fn with_chunks(&self, devices: usize, virtual_stages: usize) -> Self {
        let is_row = virtual_stages > 1;
        Self {
            stages: if is_row { devices } else { self.stages },
            all_stages: self.all_stages || (is_row && self.fills_chunks()),
            virtual_stages,
            rounds: None,
            schedule: match self.schedule {
                schedule if !is_row && schedule.needs_virtual_stages() => Schedule::OneFOneB,
                schedule => schedule,
            },
            ..self.clone()
        }
    }

    /// The same of one of so many replicas of all stages, which takes its part of the micro-batches as if it were alone.
    pub fn of_replica(&self, replicas: usize) -> Self {
        Self {
            modal: false,
            micro_batches: self.micro_batches.map(|all| all.div_ceil(replicas as u64)),
            ..self.clone()
        }
    }

    /// Whether devices of several chunks can run the schedule, and its order be listed.
    pub(crate) fn has_order_of_chunks(&self) -> bool {
        let is_few = self.virtual_stages <= MOST_OF_A_DEVICE && self.chunks() <= MOST_CHUNKS.max(self.stages);
        is_few && self.fault_of_length().is_none() && self.fault_of_rule().is_none()
    }

    /// Chunks of all devices: as many as stages where each has one.
    pub fn chunks(&self) -> usize {
        self.stages.saturating_mul(self.virtual_stages)
    }

    /// The pipeline as its schedule sees it, with as many micro-batches as show what devices hold: all there are, or enough for
    /// [a schedule that alternates](in_flight::steady).
    fn shape(&self) -> Shape {
        let enough = in_flight::steady(self.stages);
        let all = self.micro_batches.unwrap_or(enough);
        Shape {
            devices: self.stages,
            virtual_stages: self.virtual_stages,
            placement: self.placement,
            micro_batches: all.min(enough) as usize,
        }
    }

    /// The order in which devices of several chunks run them, in training; of more micro-batches than show what devices hold, only so
    /// many. `None` where nothing is held, which is inference, or every chunk holds all micro-batches, since all forward passes
    /// come first; and where every device has one chunk.
    pub fn order_of_chunks(&self) -> Option<Order> {
        let alternates = self.mode.trains() && !self.schedule.is_all_forward_first();
        match self.has_virtual_stages() && alternates {
            true => self.schedule.rule()?.order(&self.shape()),
            false => None,
        }
    }

    /// The order in which devices of several chunks run what is asked for: an iteration, or its first micro-batch alone.
    pub fn order_of_objective(&self) -> Option<Order> {
        match self.objective {
            Objective::Iteration => self.order_of_run(),
            Objective::Latency => {
                let all = self.micro_batches.unwrap_or(in_flight::steady(self.stages));
                let with_all = Self {
                    micro_batches: Some(all),
                    ..self.clone()
                };
                with_all.order_of_run().map(|order| order.of_first())
            }
            Objective::Period | Objective::Formula | Objective::Tokens => None,
        }
    }

    /// The order in which devices of several chunks run all micro-batches: the schedule's, or its forward passes in inference. `None` where
    /// no rule is for such a pipeline, or nobody says how many there are.
    pub fn order_of_run(&self) -> Option<Order> {
        let shape = Shape {
            micro_batches: self.micro_batches? as usize,
            ..self.shape()
        };
        let has_chunks = self.has_virtual_stages();
        let order = self.schedule.rule().filter(|_| has_chunks)?.order(&shape)?;
        Some(match self.mode.trains() {
            true => order,
            false => order.ahead(),
        })
    }

    /// For every device, the [largest counts](in_flight::most_in_flight) of micro-batches of its chunks that are in flight together;
    /// zeros in inference. Empty where no rule is for such a pipeline.
    pub fn most_in_flight(&self) -> Vec<Vec<Vec<u64>>> {
        let alike = |count: u64| vec![vec![vec![count; self.virtual_stages]]; self.stages];
        if !self.mode.trains() {
            return alike(0);
        }
        if self.schedule.is_all_forward_first() {
            return alike(self.micro_batches.unwrap_or(u64::MAX));
        }
        let of = |rule| in_flight::most_of_rule(rule, self.shape());
        self.schedule.rule().and_then(of).unwrap_or_default()
    }

    /// Options that virtual stages cannot be asked together with, and options that need virtual stages.
    pub(super) fn virtual_stage_faults(&self, options: &PipelineOptions) -> Vec<Fault> {
        let most = match &self.rounds {
            Some(Degrees::Only(rounds)) => rounds.iter().copied().max().unwrap_or(1),
            Some(Degrees::Choose) | None => self.virtual_stages,
        };
        if most > MOST_OF_A_DEVICE || (!self.modal && self.chunks() > MOST_CHUNKS.max(self.stages)) {
            return vec![Fault::new(
                setting::VIRTUAL_STAGES,
                FaultKind::BadNumber {
                    found: most as f64,
                    expected: "a whole number from 1 to 1000, and no more than 10000 chunks on all devices",
                },
            )];
        }
        if !self.may_have_virtual_stages() {
            return self.faults_of_one_chunk(options);
        }
        if let Some(fault) = self.fault_of_length().filter(|_| !self.modal) {
            return vec![fault];
        }
        let mut faults = Vec::new();
        let asked = options
            .virtual_stages
            .as_ref()
            .map_or(String::new(), Degrees::to_string);
        let mut refuse = |is_wrong: bool, at: Setting, found: Words, expected: Words| {
            if is_wrong {
                let found = words!("{} with {}", found, setting::VIRTUAL_STAGES.given(&asked));
                faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
            }
        };
        let is_concurrent = self.worker == WorkerMode::Concurrent;
        refuse(
            is_concurrent,
            setting::WORKER,
            "workers that run both phases at once".into(),
            "sequential ones: an order of chunks has one phase at a time".into(),
        );
        refuse(
            self.heterogeneous && !is_concurrent && !self.modal,
            setting::GROUPS,
            "groups that the cluster lists, or of several kinds".into(),
            "none, or `assign` of devices of one kind".into(),
        );
        refuse(
            self.cuts == Cuts::Separate,
            setting::CUTS,
            "`separate`".into(),
            "`tied`: an order of chunks has both passes of each on one device, and does not say how many micro-batches lie between passes on two".into(),
        );
        refuse(
            matches!(self.objective, Objective::Formula | Objective::Tokens),
            setting::OBJECTIVE,
            format!("`{}`, which knows no order of chunks,", self.objective).into(),
            "`iteration`, which runs the order of the schedule, or `period`".into(),
        );
        if self.rounds.is_some() || self.modal {
            faults.extend(self.modal_chunk_faults(&asked));
        } else if !self.heterogeneous && (self.mode.trains() || self.is_simulated()) {
            faults.extend(self.fault_of_rule());
        }
        faults
    }

    /// Whether all stages have one degree and one number of replicas.
    fn is_alike(&self) -> bool {
        let is_one = |degrees: &Degrees| degrees.only_one().is_some();
        self.uniform || (is_one(&self.tensor) && is_one(&self.replicas))
    }

    /// What chunks of stages in modes cannot be asked together with. How many devices in a row there are, and so the micro-batches that fit, is a
    /// matter of the mode.
    fn modal_chunk_faults(&self, asked: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut refuse = |is_wrong: bool, at: Setting, found: &str, expected: Words| {
            if is_wrong {
                let found = words!("{} with {}", found, setting::VIRTUAL_STAGES.given(asked));
                faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
            }
        };
        let modes = || {
            words!(
                "{}, {} or {}",
                setting::TENSOR,
                setting::REPLICAS,
                setting::RECOMPUTE
            )
        };
        refuse(
            !self.modal,
            setting::VIRTUAL_STAGES,
            "no modes of stages",
            words!("a number, or {} to choose from", modes()),
        );
        refuse(
            self.modal && !self.is_alike(),
            setting::UNIFORM,
            "stages of several degrees or numbers of replicas",
            words!(
                "{}, as a device has one degree for all its chunks, or one {} and {}",
                setting::UNIFORM,
                setting::TENSOR,
                setting::REPLICAS
            ),
        );
        refuse(
            self.modal && self.objective == Objective::Period,
            setting::OBJECTIVE,
            "`period` of stages in modes, on devices that differ, or over links of two levels or of their own, which no order of chunks keeps,",
            "`iteration`, which runs the order of the schedule".into(),
        );
        // Of numbers to choose from two are enough for any.
        let chunks = if self.rounds.is_some() {
            2
        } else {
            self.virtual_stages
        };
        faults.extend(self.fault_of_placement(chunks).filter(|_| self.modal));
        faults
    }

    /// An order that is too long to be listed.
    fn fault_of_length(&self) -> Option<Fault> {
        // Each with a forward pass and the two gradients of its backward pass.
        let of_a_micro_batch = (self.chunks() as u64).saturating_mul(3);
        let micro_batches = self.micro_batches.unwrap_or(1);
        if self.objective == Objective::Iteration
            && of_a_micro_batch.saturating_mul(micro_batches) > MOST_OPERATIONS_OF_ITERATIONS
        {
            let kind = FaultKind::BadNumber {
                found: micro_batches as f64,
                expected: "no more than 500000 operations in all, three for each chunk and micro-batch",
            };
            return Some(Fault::new(setting::MICRO_BATCHES, kind));
        }
        let is_listed = self.mode.trains() && !self.schedule.is_all_forward_first();
        let operations = of_a_micro_batch.saturating_mul(self.shape().micro_batches as u64);
        let kind = FaultKind::Contradiction {
            found: format!(
                "{} chunks, whose order is told by {operations} operations",
                self.chunks()
            )
            .into(),
            expected: words!(
                "{} at most: fewer devices or chunks, or {}",
                MOST_OPERATIONS.to_string(),
                setting::SCHEDULE.given("gpipe")
            ),
        };
        (is_listed && operations > MOST_OPERATIONS).then(|| Fault::new(setting::VIRTUAL_STAGES, kind))
    }

    /// What only devices of several chunks have.
    fn faults_of_one_chunk(&self, options: &PipelineOptions) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut refuse = |at: Setting, found: String| {
            let found = format!("{found} where every device holds one chunk").into();
            let expected = words!("{} or more", setting::VIRTUAL_STAGES.given("2"));
            faults.push(Fault::new(at, FaultKind::Contradiction { found, expected }));
        };
        if let Some(placement) = options.placement {
            refuse(setting::PLACEMENT, format!("`{placement}`"));
        }
        if self.schedule.needs_virtual_stages() {
            refuse(setting::SCHEDULE, format!("`{}`", self.schedule));
        }
        faults
    }

    /// A schedule that is not for so many chunks, placed so, and so many micro-batches.
    fn fault_of_rule(&self) -> Option<Fault> {
        if let Some(fault) = self.fault_of_placement(self.virtual_stages) {
            return Some(fault);
        }
        let all = Shape {
            micro_batches: self.micro_batches.unwrap_or(in_flight::steady(self.stages)) as usize,
            ..self.shape()
        };
        let kind = FaultKind::Contradiction {
            found: words!(
                "{} with {}",
                all.micro_batches.to_string(),
                setting::SCHEDULE.given(self.schedule)
            ),
            expected: "a multiple of the devices".into(),
        };
        (!self.can_run(&all)).then(|| Fault::new(setting::MICRO_BATCHES, kind))
    }

    /// A schedule that is not for so many chunks, placed so, whatever the number of micro-batches.
    fn fault_of_placement(&self, virtual_stages: usize) -> Option<Fault> {
        let any_number = Shape {
            micro_batches: self.stages,
            virtual_stages,
            ..self.shape()
        };
        let kind = FaultKind::Contradiction {
            found: words!(
                "`{}` with {}",
                self.schedule.to_string(),
                setting::VIRTUAL_STAGES
                    .given(virtual_stages)
                    .and(setting::PLACEMENT.given(self.placement))
            ),
            expected: words!(
                "`interleaved` with {}; `zb-v`, `v-half` or `v-min` with two chunks and {}; or `gpipe`",
                setting::PLACEMENT.given("loop"),
                setting::PLACEMENT.given("v")
            ),
        };
        (!self.can_run(&any_number)).then(|| Fault::new(setting::SCHEDULE, kind))
    }

    fn can_run(&self, shape: &Shape) -> bool {
        let rule = self.schedule.rule();
        rule.is_some_and(|rule: &Rule| (rule.applies)(shape))
    }
}
