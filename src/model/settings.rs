//! The problem that is asked, with every default decided.

mod constraints;
mod degrees;
mod faults;
mod hosts;
mod modal;
mod prompt;
mod room;
mod shares;
mod target;
mod totals;
mod virtual_stages;

pub(crate) use self::modal::uncounted_fault;
use self::modal::{Asked, Staffing};
pub use self::room::Room;
use crate::model::cluster::{Cluster, DeviceKind, Link};
use crate::model::fault::{FaultKind, InputError, closest};
use crate::model::instance::Instance;
use crate::model::network::{Layer, Size, Tensor, Times};
use crate::model::objective::Formula;
use crate::model::options::{
    Communication, Constraint, Cuts, Degrees, DeviceOrder, Groups, KeptStates, MemoryLimit, Mode, Objective,
    Optimizer, OptimizerOffload, OptimizerSharding, PipelineOptions, Placement, Recompute, Region, Schedule,
    Shares, StatePrecision, Synchronization, WorkerMode,
};
use crate::model::prompt::Prompt;
use crate::model::setting;
use crate::model::states::StateBytes;
use crate::model::units::{LARGEST_EXACT, LARGEST_SUM, NS_PER_MS, transfer_ns};
use crate::model::words::words;

/// Options of a planning problem, complete and valid for its instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Training or inference. Default: training where some layer has backward time.
    pub mode: Mode,
    /// Most stages. Default: the devices there are; never more than these.
    pub stages: usize,
    /// Devices of the one kind in play, in place of its count. Default: its count.
    pub devices: Option<usize>,
    /// Whether every stage must be non-empty. Default: no, but for chunks that a framework runs.
    pub all_stages: bool,
    /// Room that every device must have for requests. Default: none.
    pub room: Room,
    /// The prompt that is read in chunks, each a micro-batch of an iteration. Default: none.
    pub prompt: Option<Prompt>,
    /// What to minimise; where the most tokens are asked for, what comes after. Default: the iteration where micro-batches are known, the schedule flushes and an iteration can be told, else the period.
    pub objective: Objective,
    /// Micro-batches of an iteration; given where objective or schedule need it.
    pub micro_batches: Option<u64>,
    /// The schedule. Default: 1F1B; with virtual stages interleaved 1F1B in a loop, ZB-V in a V.
    pub schedule: Schedule,
    /// How transfers cost time. Default: blocking; ignored on a kind that does not pay.
    pub communication: Communication,
    /// The link between stages.
    pub link: Link,
    /// Position of the device kind in the cluster; the first of `kinds`.
    pub kind: usize,
    /// Positions of all device kinds in play, sorted. Default: every kind.
    pub kinds: Vec<usize>,
    /// Memory of a stage in bytes. Default: that of the kind, where workers are alike; where they are not,
    /// [`None`] leaves it to each device's kind and `u64::MAX` is no limit.
    pub memory_limit: Option<u64>,
    /// Whether both passes of a layer share a stage. Default: they do.
    pub cuts: Cuts,
    /// How a worker runs the two phases. Default: concurrent with the concurrent schedule, else sequential.
    pub worker: WorkerMode,
    /// How concurrent workers split their resources. Default: best.
    pub shares: Shares,
    /// Number of equal parts that shares are made of. Default: any share.
    pub share_parts: Option<usize>,
    /// Which devices form a worker. Default: given.
    pub groups: Groups,
    /// In which order stages go through the kinds of devices. Default: any.
    pub device_order: DeviceOrder,
    /// How the devices of a group keep their weights equal. Default: at no cost.
    pub synchronization: Synchronization,
    /// Whether workers differ, or can: several kinds, resources, groups, or concurrent workers. Otherwise every stage runs
    /// on one device like any other, or has modes, of which each says the kind of its devices.
    pub heterogeneous: bool,
    /// The optimiser. Default: Adam.
    pub optimizer: Optimizer,
    /// Numbers that training keeps for each parameter. Default: those of the network; where stages have modes or a framework
    /// keeps no others, mixed precision of networks of 16 bits.
    pub precision: StatePrecision,
    /// Bytes that are kept for each parameter, in the mode and precision.
    pub state_bytes: StateBytes,
    /// What replicas share out of what training keeps. Default: nothing.
    pub optimizer_sharding: OptimizerSharding,
    /// Whose optimiser's state lies at hosts. Default: nobody's.
    pub optimizer_offload: OptimizerOffload,
    /// Degrees of tensor parallelism that stages may have. Default: 1.
    pub tensor: Degrees,
    /// Degrees of expert parallelism that stages may have. Default: 1.
    pub expert: Degrees,
    /// Tokens of the busiest expert device over those of an even load. Default: 1.
    pub expert_load: f64,
    /// Degrees of context parallelism that stages may have. Default: 1.
    pub context_parallel: Degrees,
    /// Replicas that stages may have. Default: 1.
    pub replicas: Degrees,
    /// What layers may compute again. Default: nothing.
    pub recompute: Recompute,
    /// Whether all stages have one degree and one number of replicas. Default: no.
    pub uniform: bool,
    /// The framework that plans are for. Default: none.
    pub target: Option<Region>,
    /// Whether stages have [modes](crate::problem::modes): degrees or recomputation are asked for, or links have two levels.
    pub modal: bool,
    /// Constraints of one's own. Default: none.
    pub constraints: Vec<Constraint>,
    /// Chunks that every device holds; 1 as long as that is to be chosen. Default: 1.
    pub virtual_stages: usize,
    /// Which numbers of chunks a plan may choose from, where there are several; a plan says which it took.
    pub rounds: Option<Degrees>,
    /// Which device holds which chunk, where devices hold several. Default: in a loop.
    pub placement: Placement,
    /// Ticks in a ns: what times of a [problem](crate::problem::Problem) count, whatever is called `ns` there. One, unless
    /// what happens once an iteration is shared out over micro-batches: then as many as make a micro-batch's part whole, or
    /// as many as `LARGEST_EXACT` has room for. Objectives are rounded up to [whole ns](Settings::whole_ns).
    pub ticks_per_ns: u64,
}

/// The cluster's link, of another bandwidth where one is asked for.
fn link(instance: &Instance, options: &PipelineOptions) -> Link {
    let link = instance.cluster.link;
    Link {
        bandwidth_bytes_per_s: options
            .bandwidth_bytes_per_s
            .unwrap_or(link.bandwidth_bytes_per_s),
        ..link
    }
}

impl Settings {
    /// Decides every option: `overrides` first, then the instance's own, then the defaults.
    ///
    /// # Errors
    ///
    /// An unknown device kind, or else every option that is missing, out of range or contradicts the instance.
    pub fn resolve(instance: &Instance, overrides: &PipelineOptions) -> Result<Self, InputError> {
        let mut options = overrides.clone().or(&instance.pipeline);
        prompt::complete(&mut options);
        // Shares of workers that run both phases at once are chosen for the period.
        let schedule = options.schedule.map(Schedule::worker);
        let is_concurrent = options.worker.or(schedule) == Some(WorkerMode::Concurrent);
        if options.objective.is_some() || options.micro_batches.is_none() || is_concurrent {
            return Self::decide(instance, overrides, options);
        }
        // What runs is what counts, where it can be told.
        let iteration = PipelineOptions {
            objective: Some(Objective::Iteration),
            ..options.clone()
        };
        Self::decide(instance, overrides, iteration).or_else(|error| {
            let period = Self::decide(instance, overrides, options);
            period.map_err(|other| std::cmp::min_by_key(error, other, |error| error.faults.len()))
        })
    }

    /// The same, with options that are complete but for defaults.
    fn decide(
        instance: &Instance,
        overrides: &PipelineOptions,
        options: PipelineOptions,
    ) -> Result<Self, InputError> {
        // Mode, stages and memory have defaults that depend on the kind.
        let kinds = resolve_kinds(instance, options.device_kinds.as_deref())?;
        let kind = kinds[0];
        let all = &instance.cluster.kinds;
        let in_play = |test: fn(&DeviceKind) -> bool| kinds.iter().any(|&k| test(&all[k]));
        let of_schedule = || options.schedule.map_or(WorkerMode::Sequential, Schedule::worker);
        let worker = options.worker.unwrap_or_else(of_schedule);
        let groups = options.groups.unwrap_or(Groups::Given);
        let staffing = Staffing::new(instance, &kinds, (worker, groups));
        let asked = Asked::new(&options, instance, staffing);
        let heterogeneous = staffing.is_heterogeneous(asked.modal);
        let placement = options.placement.unwrap_or(Placement::Loop);
        let schedule = default_schedule(&options, worker, placement);
        let mode = options.mode.unwrap_or_else(|| default_mode(instance, &kinds));
        let (precision, state_bytes) = states(instance, &options, asked.modal, mode);
        let mut settings = Self {
            ticks_per_ns: 1,
            mode,
            stages: stages(instance, &options, &kinds),
            devices: options.devices,
            all_stages: options.all_stages.unwrap_or(false) || has_full_chunks(&options, asked.modal),
            room: Room::new(&options),
            prompt: prompt::asked(instance, &options),
            objective: options.timed_objective().unwrap_or(Objective::Period),
            micro_batches: options.micro_batches,
            schedule: options.schedule.unwrap_or(schedule),
            communication: match options.communication.unwrap_or(schedule.default_communication()) {
                _ if !in_play(|kind| kind.pays_communication) => Communication::Ignored,
                communication => communication,
            },
            link: link(instance, &options),
            kind,
            memory_limit: memory_limit(instance, &options, kind, heterogeneous || kinds.len() > 1),
            cuts: options.cuts.unwrap_or(Cuts::Tied),
            worker,
            shares: options.shares.unwrap_or(Shares::Best),
            share_parts: options.share_parts,
            groups,
            device_order: options.device_order.unwrap_or(DeviceOrder::Free),
            synchronization: options.synchronization.unwrap_or(asked.synchronization()),
            heterogeneous,
            kinds,
            optimizer: options.optimizer.unwrap_or(Optimizer::Adam),
            precision,
            state_bytes,
            optimizer_sharding: options.optimizer_sharding.unwrap_or(OptimizerSharding::None),
            optimizer_offload: options.optimizer_offload.unwrap_or(OptimizerOffload::None),
            tensor: asked.tensor,
            expert: asked.expert,
            expert_load: options.expert_load.unwrap_or(1.0),
            context_parallel: asked.context_parallel,
            replicas: asked.replicas,
            recompute: asked.recompute,
            uniform: asked.uniform,
            target: options.target,
            constraints: options.constraints.clone().unwrap_or_default(),
            modal: asked.modal,
            virtual_stages: asked.rounds.only_one().unwrap_or(1),
            rounds: Some(asked.rounds).filter(|rounds| rounds.only_one().is_none()),
            placement,
        };
        let mut faults = settings.faults(instance, &options, overrides);
        if faults.is_empty() {
            faults.extend(settings.total_faults(instance));
        }
        settings.ticks_per_ns = settings.ticks(instance);
        match faults.is_empty() {
            true => Ok(settings),
            false => Err(InputError { path: None, faults }),
        }
    }

    /// The same settings as options with nothing left open: what a plan records.
    pub fn to_options(&self, instance: &Instance) -> PipelineOptions {
        let is_concurrent = self.worker == WorkerMode::Concurrent;
        PipelineOptions {
            mode: Some(self.mode),
            stages: Some(self.stages),
            devices: self.devices,
            all_stages: Some(self.all_stages),
            objective: Some(match self.room.is_most {
                true => Objective::Tokens,
                false => self.objective,
            }),
            then: self.room.is_most.then_some(self.objective),
            tokens: Some(self.room.tokens)
                .filter(|&tokens| tokens > self.prompt_tokens() && !self.room.is_most),
            sequences: Some(self.room.sequences).filter(|&sequences| sequences > 0),
            context: None,
            prompt: self.prompt.as_ref().map(|prompt| prompt.tokens),
            chunks: self.prompt.as_ref().map(|prompt| prompt.sizes.clone().into()),
            micro_batches: self.micro_batches,
            schedule: Some(self.schedule),
            communication: Some(self.communication),
            bandwidth_bytes_per_s: has_bytes(instance).then_some(self.link.bandwidth_bytes_per_s),
            device_kinds: Some(
                self.kinds
                    .iter()
                    .map(|&k| instance.cluster.kinds[k].name.clone())
                    .collect(),
            ),
            memory_limit: match (self.has_unlike_devices(), self.memory_limit) {
                // Each device's own, unless the option says that there is none.
                (true, None) => None,
                (true, Some(u64::MAX)) => Some(MemoryLimit::from(None)),
                (_, limit) => Some(MemoryLimit::from(limit)),
            },
            // Tied cuts are what plans without the word have.
            cuts: (self.cuts == Cuts::Separate).then_some(self.cuts),
            worker: (self.heterogeneous || is_concurrent).then_some(self.worker),
            shares: is_concurrent.then_some(self.shares),
            share_parts: self.share_parts,
            groups: (self.heterogeneous || self.forms_groups_in_modes()).then_some(self.groups),
            device_order: (self.device_order != DeviceOrder::Free).then_some(self.device_order),
            synchronization: (self.heterogeneous || self.modal).then_some(self.synchronization),
            optimizer: Some(self.optimizer),
            // What is kept as the network has it is what plans without the word have.
            precision: (self.precision != StatePrecision::Uniform || self.modal).then_some(self.precision),
            optimizer_sharding: (self.optimizer_sharding != OptimizerSharding::None)
                .then_some(self.optimizer_sharding),
            optimizer_offload: (self.optimizer_offload != OptimizerOffload::None)
                .then_some(self.optimizer_offload),
            tensor: (!self.tensor.is_one()).then(|| self.tensor.clone()),
            expert: (!self.expert.is_one()).then(|| self.expert.clone()),
            expert_load: (self.expert_load != 1.0).then_some(self.expert_load),
            context_parallel: (!self.context_parallel.is_one()).then(|| self.context_parallel.clone()),
            replicas: (!self.replicas.is_one()).then(|| self.replicas.clone()),
            recompute: (!self.recompute.is_none()).then(|| self.recompute.clone()),
            uniform: self.uniform.then_some(true),
            target: self.target,
            constraints: (!self.constraints.is_empty()).then(|| self.constraints.clone()),
            virtual_stages: match &self.rounds {
                Some(rounds) => Some(rounds.clone()),
                None => self
                    .has_virtual_stages()
                    .then(|| Degrees::one(self.virtual_stages)),
            },
            placement: self.may_have_virtual_stages().then_some(self.placement),
        }
    }

    /// Devices of a kind in play: as many as are asked for, else its count; `None` where nothing says how many there are.
    pub fn count(&self, cluster: &Cluster, kind: usize) -> Option<usize> {
        self.devices.or(cluster.kinds[kind].count)
    }

    /// Whether stages in modes may have groups of devices that share out micro-batches.
    pub(crate) fn forms_groups_in_modes(&self) -> bool {
        self.modal && self.groups == Groups::Assign
    }

    /// Whether several devices of a stage may have the same weights, and exchange their gradients.
    pub(super) fn may_copy_weights(&self) -> bool {
        !self.replicas.is_one() || !self.context_parallel.is_one() || self.forms_groups_in_modes()
    }

    /// Whether devices may differ: each has its own memory where no limit is given.
    pub fn has_unlike_devices(&self) -> bool {
        self.heterogeneous || self.kinds.len() > 1
    }

    /// Memory of a device of a kind in bytes, if it is limited.
    pub fn device_bytes(&self, cluster: &Cluster, kind: usize) -> Option<u64> {
        let own = cluster.kinds[kind].memory_bytes;
        self.memory_limit.or(own.filter(|_| self.has_unlike_devices()))
    }

    /// Whether the layer is part of the work: backward operators are not, in inference.
    pub fn includes(&self, layer: &Layer) -> bool {
        self.mode.trains() || !layer.backward
    }

    /// Times of a layer on a device kind, in the chosen mode; `None` if the kind cannot run it.
    pub fn times_on(&self, layer: &Layer, kind: usize) -> Option<Times> {
        let times = layer.times[kind]?;
        Some(match self.mode {
            Mode::Training => times,
            Mode::Inference => Times {
                backward_ns: 0,
                weight_ns: 0,
                ..times
            },
        })
    }

    /// The longest times of a layer on any kind in play: with one kind, its times there.
    pub fn longest_times(&self, layer: &Layer) -> Times {
        let times = self.kinds.iter().filter_map(|&kind| self.times_on(layer, kind));
        times.fold(Times::default(), |longest, times| Times {
            forward_ns: longest.forward_ns.max(times.forward_ns),
            backward_ns: longest.backward_ns.max(times.backward_ns),
            weight_ns: longest.weight_ns.max(times.weight_ns),
        })
    }

    /// A micro-batch's part of what takes so many ns once an iteration, in ticks; rounded up where ticks are too few.
    pub fn shared_out(&self, ns: u64) -> u64 {
        let ticks = u128::from(ns) * u128::from(self.ticks_per_ns);
        let micro_batches = u128::from(self.micro_batches.unwrap_or(1));
        u64::try_from(ticks.div_ceil(micro_batches)).unwrap_or(u64::MAX)
    }

    /// Ticks rounded up to a whole ns, in which objectives count.
    pub fn whole_ns(&self, ticks: u64) -> u64 {
        ticks
            .checked_next_multiple_of(self.ticks_per_ns)
            .unwrap_or(u64::MAX)
    }

    /// Ticks of a problem as ms.
    pub fn ms(&self, ticks: u64) -> f64 {
        ticks as f64 / (self.ticks_per_ns as f64 * NS_PER_MS)
    }

    /// As many ticks a ns as there are micro-batches to share what happens once an iteration, if something does; fewer where twice what all
    /// layers and tensors could come to is then not exact in a double. The time of an iteration, which is a sum of whole numbers but for
    /// workers that differ, need only be one.
    fn ticks(&self, instance: &Instance) -> u64 {
        if self.modal {
            return self.fine_ticks(instance);
        }
        // What is simulated, and a latency is what a simulation says, counts in ns.
        if !self.shares_out(instance) || self.objective == Objective::Latency || self.is_simulated() {
            return 1;
        }
        let micro_batches = self.micro_batches.unwrap_or(1);
        let rounds = match self.objective.is_of_iterations() {
            true => 1.0 + micro_batches as f64,
            false => 2.0,
        };
        let all_ns = self.most_ns(instance).max(1.0);
        let once_ns = if self.schedule.flushes() {
            self.most_shared_ns(instance)
        } else {
            0.0
        };
        let iteration_ns = rounds * (all_ns - once_ns) + 2.0 * once_ns;
        let most = if self.heterogeneous {
            LARGEST_EXACT
        } else {
            LARGEST_SUM
        };
        let room = (most as f64 / (2.0 * iteration_ns)).min(LARGEST_EXACT as f64 / (2.0 * all_ns));
        micro_batches.clamp(1, (room as u64).max(1))
    }

    /// Time to move a tensor once, in ns.
    pub fn transfer_ns(&self, tensor: &Tensor) -> u64 {
        self.size_ns(tensor.size)
    }

    /// The same of a tensor of such a size.
    fn size_ns(&self, size: Size) -> u64 {
        match (self.communication.takes_time(), size) {
            (false, _) => 0,
            (true, Size::TransferNs(ns)) => ns,
            (true, Size::Bytes(bytes)) => {
                transfer_ns(bytes, self.link.bandwidth_bytes_per_s, self.link.latency_ns)
            }
        }
    }

    /// Whether the objective is what a simulation says, see [`Objective::is_simulated`]: devices that take turns with several chunks are no
    /// flow shop under any schedule.
    pub fn is_simulated(&self) -> bool {
        let has_links = self.communication.has_links();
        let trains = self.mode.trains();
        // Replicas take turns, and no flow shop has these.
        match self.modal || self.has_virtual_stages() {
            true => matches!(self.objective, Objective::Iteration | Objective::Latency),
            false if self.reads_prompt() => true,
            false => self.objective.is_simulated(self.schedule, trains, has_links),
        }
    }

    /// Whether the objective adds up what stages take, one behind the other, in whatever way.
    pub(crate) fn is_of_all_stages(&self) -> bool {
        self.is_simulated() || self.objective == Objective::Formula
    }

    /// Whether the objective is the time of an iteration as it runs, with what happens once at its end.
    pub(crate) fn runs_iterations(&self) -> bool {
        self.is_simulated() && self.objective == Objective::Iteration
    }

    /// Whether iterations are run of a known number of micro-batches: these have the schedule's own number in flight, as frameworks have it. A stream
    /// without end has as many as hide transfers on links.
    pub fn has_iterations(&self) -> bool {
        self.schedule.flushes() && self.micro_batches.is_some()
    }

    /// How many micro-batches a simulation of the objective runs.
    pub fn run_micro_batches(&self) -> u64 {
        self.objective.micro_batches(self.micro_batches)
    }

    /// Whether the same problem may be asked for its [`Objective::Formula`].
    pub(crate) fn knows_formula(&self) -> bool {
        let is_by_phase = self.modal && self.schedule.is_all_forward_first();
        self.worker == WorkerMode::Sequential && !self.may_have_virtual_stages() && !is_by_phase
    }

    /// The objective as a function of what stages cost; where it is [simulated](Self::is_simulated), a function that comes near it.
    pub fn formula(&self) -> Formula {
        // Where the number matters, it was asked for.
        self.objective
            .formula(self.schedule, self.micro_batches.unwrap_or(1))
    }

    /// Micro-batches whose stash a stage holds, `from_end` = 1 for the last stage. None in inference.
    pub fn in_flight(&self, from_end: usize) -> u64 {
        self.in_flight_between(from_end, from_end)
    }

    /// Micro-batches whose stash a layer holds, if its forward pass lies `forward` and its backward pass `backward` stages
    /// from the end: those of [`Schedule::in_flight`], never more than there are until the pipeline is empty.
    pub fn in_flight_between(&self, forward: usize, backward: usize) -> u64 {
        let all = self.micro_batches.unwrap_or(u64::MAX);
        let in_flight = self.schedule.in_flight(forward as u64, backward as u64, all);
        match (self.mode, self.schedule.flushes()) {
            (Mode::Inference, _) => 0,
            (Mode::Training, true) => in_flight.min(all),
            (Mode::Training, false) => in_flight,
        }
    }

    /// Whether weights stay as they are for an iteration, or for good: else an update follows each backward pass of a stage, or of all its replicas.
    pub fn updates_once(&self) -> bool {
        !self.mode.trains() || self.schedule.flushes()
    }

    /// Copies of the weights that a stage holds, `from_end` = 1 for the last stage: see [`Schedule::weight_versions`].
    pub fn weight_versions(&self, from_end: usize) -> u64 {
        match self.mode {
            Mode::Training => self.schedule.weight_versions(from_end as u64),
            Mode::Inference => 1,
        }
    }

    /// Bytes on a stage that lies so many stages from the end of what holds some bytes once, some for each further version of
    /// the weights, and some for each micro-batch in flight.
    pub fn bytes_on(&self, [base, parameters, stash]: [u64; 3], from_end: usize) -> u64 {
        base + (self.weight_versions(from_end) - 1) * parameters + self.in_flight(from_end) * stash
    }

    /// Of parameters that take so many bytes in the file, the bytes of states that the replicas of a stage share out.
    pub fn shared_bytes(&self, parameter_bytes: u64) -> u64 {
        let parts = self.state_bytes.parts(parameter_bytes);
        let shared = parts.into_iter().zip(self.optimizer_sharding.shares_out());
        shared
            .filter(|(_, is_shared)| *is_shared)
            .map(|(part, _)| part)
            .sum()
    }

    /// The same with both passes of every layer together.
    pub(crate) fn with_tied_cuts(&self) -> Self {
        Self {
            cuts: Cuts::Tied,
            ..self.clone()
        }
    }

    /// Whether the replicas of a stage share out its weights.
    pub(crate) fn shares_out_weights(&self) -> bool {
        let [weights, ..] = self.optimizer_sharding.shares_out();
        weights
    }

    /// Of parameters that take so many bytes in the file, what is whole on every replica while their layer runs, of that which replicas share out.
    pub(crate) fn gathered_bytes(&self, parameter_bytes: u64) -> u64 {
        let [.., state] = self.state_bytes.parts(parameter_bytes);
        match self.optimizer_sharding.exchanges_each_time() {
            true => self.shared_bytes(parameter_bytes) - state,
            false => 0,
        }
    }

    /// Bytes that a copy of a table takes which layers share, of those that each of them holds once.
    pub fn copy_bytes(&self, layer: &Layer, table_bytes: u64) -> u64 {
        match layer.frozen {
            true => table_bytes,
            false => self.state_bytes.all(table_bytes),
        }
    }

    /// Whether the gradients of copies of a table are summed. Of an iteration of which nobody says how long it is, what happens once takes no part
    /// of a micro-batch.
    pub(crate) fn sums_copies(&self) -> bool {
        self.mode.trains() && self.communication.takes_time() && self.micro_batches.is_some()
    }

    /// Time in which two stages sum the gradients of their copies of a table, in ns: a ring of two, on which each sends half of its own and
    /// half of the sum.
    pub(crate) fn sum_ns(&self, table_bytes: u64) -> u64 {
        let link = self.link;
        match table_bytes {
            0 => 0,
            bytes => 2 * transfer_ns(bytes.div_ceil(2), link.bandwidth_bytes_per_s, link.latency_ns),
        }
    }

    /// Bytes that a layer holds once, whatever its stage: resident bytes, one version of the weights and, in training,
    /// gradients and optimiser state; in inference, room for requests.
    pub fn base_bytes(&self, layer: &Layer) -> u64 {
        layer.resident_bytes + self.room.bytes(layer.cache) + self.state_bytes.all(layer.parameter_bytes)
    }
}

fn resolve_kinds(instance: &Instance, wanted: Option<&[String]>) -> Result<Vec<usize>, InputError> {
    let kinds = &instance.cluster.kinds;
    let names: Vec<String> = kinds.iter().map(|kind| kind.name.clone()).collect();
    let mut positions = Vec::new();
    for name in wanted.unwrap_or(&names) {
        positions.push(instance.cluster.kind(name).ok_or_else(|| {
            InputError::option(
                setting::DEVICE_KINDS,
                FaultKind::UnknownName {
                    what: "device kind",
                    name: name.clone(),
                    similar: closest(name, &names).map(str::to_owned),
                },
            )
        })?);
    }
    positions.sort_unstable();
    positions.dedup();
    match positions.is_empty() {
        false => Ok(positions),
        true => Err(InputError::option(
            setting::DEVICE_KINDS,
            FaultKind::Missing {
                what: "device kind".into(),
                expected: "at least one".into(),
                remedy: words!("try {}", setting::DEVICE_KINDS.given(&names[0])),
            },
        )),
    }
}

/// As many stages as are asked for, or else as many as there are devices, or workers.
fn stages(instance: &Instance, options: &PipelineOptions, kinds: &[usize]) -> usize {
    let devices = options.devices.filter(|&devices| devices > 0);
    let asked = options.stages.or(devices);
    asked.or(workers(instance, kinds)).unwrap_or(1)
}

/// Whether several devices may work as one.
fn has_groups(instance: &Instance, groups: Groups) -> bool {
    groups == Groups::Assign || !instance.cluster.groups.is_empty()
}

/// Where nothing is said: the schedule of such workers, or of their chunks.
fn default_schedule(options: &PipelineOptions, worker: WorkerMode, placement: Placement) -> Schedule {
    let has_one = options.virtual_stages.as_ref().is_none_or(Degrees::is_one);
    match worker {
        WorkerMode::Sequential if !has_one => Schedule::default_for_chunks(placement),
        WorkerMode::Sequential | WorkerMode::Concurrent => Schedule::default_for(worker),
    }
}

/// Memory of a stage in bytes, as [`Settings::memory_limit`] has it.
fn memory_limit(
    instance: &Instance,
    options: &PipelineOptions,
    kind: usize,
    heterogeneous: bool,
) -> Option<u64> {
    match options.memory_limit {
        Some(limit) if heterogeneous => Some(limit.bytes().unwrap_or(u64::MAX)),
        Some(limit) => limit.bytes(),
        None if heterogeneous => None,
        None => instance.cluster.kinds[kind].memory_bytes,
    }
}

/// No framework is known to run a chunk without layers. Where stages have modes, how many there are is a matter of these.
fn has_full_chunks(options: &PipelineOptions, is_modal: bool) -> bool {
    let has_several = options
        .virtual_stages
        .as_ref()
        .is_some_and(|chunks| !chunks.is_one());
    options.target.is_some() && has_several && !is_modal
}

/// In which numbers training keeps what belongs to a parameter, and how many bytes are kept.
fn states(
    instance: &Instance,
    options: &PipelineOptions,
    is_modal: bool,
    mode: Mode,
) -> (StatePrecision, StateBytes) {
    let network = instance.network.precision;
    let optimizer = options.optimizer.unwrap_or(Optimizer::Adam);
    let keeps_mixed = |target: Region| target.limits().states == KeptStates::Mixed;
    let precision = options
        .precision
        .unwrap_or(match is_modal || options.target.is_some_and(keeps_mixed) {
            true => StatePrecision::default_of(network),
            false => StatePrecision::Uniform,
        });
    let bytes = match mode {
        Mode::Training => StateBytes::training(precision, optimizer, network),
        Mode::Inference => StateBytes::INFERENCE,
    };
    (precision, bytes)
}

/// Training where some layer has backward time on a kind in play.
fn default_mode(instance: &Instance, kinds: &[usize]) -> Mode {
    let trains = |layer: &Layer| {
        let on = |&k: &usize| layer.times[k].is_some_and(|t| t.backward_ns > 0);
        kinds.iter().any(on)
    };
    match instance.network.layers.iter().any(trains) {
        true => Mode::Training,
        false => Mode::Inference,
    }
}

/// Workers that the cluster says there are: its groups, or its devices of these kinds.
fn workers(instance: &Instance, kinds: &[usize]) -> Option<usize> {
    let cluster = &instance.cluster;
    if !cluster.groups.is_empty() {
        return Some(cluster.groups.iter().map(|group| group.count).sum());
    }
    let counts = kinds.iter().map(|&kind| cluster.kinds[kind].count);
    counts.sum()
}

fn has_bytes(instance: &Instance) -> bool {
    let in_bytes = |tensor: &Tensor| matches!(tensor.size, Size::Bytes(_));
    let tensors = &instance.network.tensors;
    tensors.is_empty() || tensors.iter().any(in_bytes)
}
