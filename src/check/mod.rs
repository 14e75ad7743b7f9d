//! The checker: whether a plan is what it says, recomputed from the instance on a path of its own.
//!
//! It imports neither solver nor formulations nor [`crate::cost`], works on layers and tensors instead of items, and
//! returns every violation with its amount.

mod passes;
mod violation;
mod workers;

pub use violation::Violation;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::instance::Instance;
use crate::network::{Layer, Tensor};
use crate::options::{Communication, Cuts, Mode, Objective, Schedule, WorkerMode};
use crate::plan::{Plan, PlanStage, SCHEMA, Status};
use crate::settings::Settings;
use crate::units::{NS_PER_MS, ns_to_ms};

/// How far a stated time may lie from the recomputed one, in ms: half a nanosecond of rounding on either side, and what
/// printing a number in decimal may lose.
const TIME_TOLERANCE_MS: f64 = 1.01 / NS_PER_MS;

/// Checks a plan against an instance and settings.
///
/// Returns every violation; none means that the plan can be run, costs what it says, and claims no more than its bound
/// allows. Whether the bound itself is right only a proof can say: solve again with another method.
///
/// Time O(layers + tensors and their consumers), times the longest run of forward operators whose ties have no backward ones, where
/// an explicit backward graph is cut separately.
pub fn check(instance: &Instance, settings: &Settings, plan: &Plan) -> Vec<Violation> {
    let mut check = Checker {
        instance,
        settings,
        has_explicit_backward: instance.network.layers.iter().any(|layer| layer.backward),
        stage_of: [(); 2].map(|()| vec![None; instance.network.layers.len()]),
        staff: Vec::new(),
        violations: Vec::new(),
    };
    check.header(plan);
    if !plan.stages.is_empty() {
        check.staff = workers::staff(instance, settings, plan, &mut check.violations);
        workers::same_everywhere(instance, settings, plan, &mut check.violations);
        check.placement(plan);
        check.together();
        check.order();
        check.order_of_ties();
        check.stage_count(plan);
        check.costs(plan);
        check.counts(plan);
    }
    check.claims(plan);
    check.violations
}

struct Checker<'a> {
    instance: &'a Instance,
    settings: &'a Settings,
    /// Whether backward operators are layers of their own, whose tensors carry the gradients.
    has_explicit_backward: bool,
    /// Stage of every layer's forward and backward pass, from 0.
    stage_of: [Vec<Option<usize>>; 2],
    /// Devices of every stage.
    staff: Vec<workers::Staff>,
    violations: Vec<Violation>,
}

/// Times of one stage, in ns.
#[derive(Clone, Copy, Default)]
struct Load {
    work: u64,
    received: u64,
    sent: u64,
}

impl Load {
    /// What the worker is busy with.
    fn worker(&self, mode: Communication) -> u64 {
        match mode {
            Communication::Blocking => self.work + self.moved(mode),
            Communication::Overlapped | Communication::Ignored => self.work,
        }
    }

    /// Transfers as they cost time: one after the other, or side by side on two links.
    fn moved(&self, mode: Communication) -> u64 {
        match mode {
            Communication::Ignored => 0,
            Communication::Blocking => self.received + self.sent,
            Communication::Overlapped => self.received.max(self.sent),
        }
    }

    fn busiest(&self, mode: Communication) -> u64 {
        self.worker(mode).max(self.moved(mode))
    }

    fn plus(self, other: Self) -> Self {
        Self {
            work: self.work + other.work,
            received: self.received + other.received,
            sent: self.sent + other.sent,
        }
    }
}

/// Charges every stage that sends or receives once.
fn charge(loads: &mut [Load], senders: &[usize], receivers: &[usize], ns: u64) {
    senders.iter().for_each(|&k| loads[k].sent += ns);
    receivers.iter().for_each(|&k| loads[k].received += ns);
}

/// Stages other than the producer's, each once.
fn elsewhere(home: usize, mut stages: BTreeSet<usize>) -> Vec<usize> {
    stages.remove(&home);
    stages.into_iter().collect()
}

/// Positions in [`Checker::stage_of`].
const FORWARD: usize = 0;
const BACKWARD: usize = 1;

impl Checker<'_> {
    fn layer(&self, at: usize) -> &Layer {
        &self.instance.network.layers[at]
    }

    fn kept(&self, at: usize) -> bool {
        self.settings.mode == Mode::Training || !self.layer(at).backward
    }

    fn header(&mut self, plan: &Plan) {
        if plan.schema != SCHEMA {
            self.violations.push(Violation::Field {
                field: "schema".into(),
                found: format!("`{}`", plan.schema),
                expected: format!("`{SCHEMA}`"),
            });
        }
        for (position, stage) in plan.stages.iter().enumerate() {
            if stage.index != position + 1 {
                self.violations.push(Violation::Field {
                    field: format!("stages[{position}].index"),
                    found: stage.index.to_string(),
                    expected: (position + 1).to_string(),
                });
            }
        }
    }

    /// Every layer in exactly one stage, its passes together, on a kind that runs it.
    fn placement(&mut self, plan: &Plan) {
        let network = &self.instance.network;
        let position: HashMap<&str, usize> = network
            .layers
            .iter()
            .enumerate()
            .map(|(at, layer)| (layer.id.as_str(), at))
            .collect();
        let explicit = self.has_explicit_backward;
        let training = self.settings.mode == Mode::Training;
        let mut forward: Vec<Vec<usize>> = vec![Vec::new(); network.layers.len()];
        let mut backward = forward.clone();
        for (k, stage) in plan.stages.iter().enumerate() {
            for (names, placed) in [(&stage.forward, &mut forward), (&stage.backward, &mut backward)] {
                for name in names {
                    match position.get(name.as_str()) {
                        Some(&at) => placed[at].push(k),
                        None => self.violations.push(Violation::UnknownLayer {
                            stage: k + 1,
                            layer: name.clone(),
                        }),
                    }
                }
            }
        }
        for at in 0..network.layers.len() {
            let is_backward = self.layer(at).backward;
            let expected = [
                ("forward pass", &forward[at], !is_backward),
                (
                    "backward pass",
                    &backward[at],
                    training && (!explicit || is_backward),
                ),
            ];
            for (pass, placed, wanted) in expected {
                if placed.len() != usize::from(wanted) {
                    self.violations.push(Violation::Placement {
                        layer: self.layer(at).id.clone(),
                        pass,
                        times: placed.len(),
                    });
                }
            }
            self.stage_of[FORWARD][at] = forward[at].first().copied();
            self.stage_of[BACKWARD][at] = backward[at].first().copied();
            let stages = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]);
            if let [Some(f), Some(b)] = stages
                && f != b
                && self.settings.cuts == Cuts::Tied
            {
                let layer = self.layer(at).id.clone();
                self.violations.push(Violation::Apart {
                    first: layer.clone(),
                    second: layer,
                    reason: "tied cuts",
                    stages: [f + 1, b + 1],
                });
            }
            let distinct: BTreeSet<usize> = stages.into_iter().flatten().collect();
            for k in distinct {
                for &kind in self.staff[k].keys() {
                    if network.layers[at].times[kind].is_none() {
                        self.violations.push(Violation::CannotRun {
                            stage: k + 1,
                            layer: network.layers[at].id.clone(),
                            kind: self.instance.cluster.kinds[kind].name.clone(),
                        });
                    }
                }
            }
        }
    }

    /// The stage of an operator's own pass: that of a layer's forward pass, unless it is backward itself.
    fn own_stage(&self, at: usize) -> Option<usize> {
        let pass = if self.layer(at).backward {
            BACKWARD
        } else {
            FORWARD
        };
        self.stage_of[pass][at]
    }

    /// Layers of one tie share a stage; with separate cuts, their passes of one direction do.
    fn together(&mut self) {
        let separate = self.settings.cuts == Cuts::Separate;
        for pass in [FORWARD, BACKWARD] {
            let mut first_of: BTreeMap<&str, usize> = BTreeMap::new();
            for (at, layer) in self.instance.network.layers.iter().enumerate() {
                let of = |at: usize| match separate {
                    true => self.stage_of[pass][at],
                    false => self.own_stage(at),
                };
                let (Some(tie), Some(stage)) = (&layer.tie, of(at)) else {
                    continue;
                };
                let first = *first_of.entry(tie).or_insert(at);
                let other = of(first).unwrap_or(stage);
                if other != stage && (separate || pass == FORWARD) {
                    self.violations.push(Violation::Apart {
                        first: self.instance.network.layers[first].id.clone(),
                        second: layer.id.clone(),
                        reason: "their tie",
                        stages: [other + 1, stage + 1],
                    });
                }
            }
        }
    }

    /// Forward tensors flow towards the end of the pipeline, and what flows back comes from there.
    fn order(&mut self) {
        let network = &self.instance.network;
        let separate = self.settings.cuts == Cuts::Separate;
        for tensor in &network.tensors {
            for &to in &tensor.consumers {
                let from = tensor.producer;
                let pair = |pass: usize| Some((self.stage_of[pass][from]?, self.stage_of[pass][to]?));
                let back = match separate && !self.has_explicit_backward {
                    true => pair(BACKWARD),
                    false => None,
                };
                for (first, second) in [pair(FORWARD), back].into_iter().flatten() {
                    if first > second {
                        self.violations.push(Violation::Order {
                            from: network.layers[from].id.clone(),
                            to: network.layers[to].id.clone(),
                            stages: [first + 1, second + 1],
                            by: first - second,
                        });
                    }
                }
            }
        }
    }

    /// The operators of an explicit backward graph keep the order of the forward ones of their ties. With tied cuts they share
    /// their stages.
    fn order_of_ties(&mut self) {
        let network = &self.instance.network;
        if self.settings.cuts == Cuts::Tied || !self.has_explicit_backward {
            return;
        }
        let mut first = BTreeMap::new();
        let ties = network
            .layers
            .iter()
            .enumerate()
            .map(|(at, layer)| match &layer.tie {
                Some(tie) => *first.entry(tie).or_insert(at),
                None => at,
            });
        let ties: Vec<usize> = ties.collect();
        let mut own = vec![None; ties.len()];
        for (at, &tie) in ties.iter().enumerate() {
            own[tie] = own[tie].or(self.stage_of[BACKWARD][at].map(|stage| (stage, at)));
        }
        // The last stage with backward operators along forward tensors to each tie, past ties without any, until it is known.
        let mut before: Vec<Option<(usize, usize)>> = vec![None; ties.len()];
        let mut is_known = false;
        while !is_known {
            is_known = true;
            for tensor in network
                .tensors
                .iter()
                .filter(|t| !network.layers[t.producer].backward)
            {
                for &to in tensor
                    .consumers
                    .iter()
                    .filter(|&&to| !network.layers[to].backward)
                {
                    let from = ties[tensor.producer];
                    let last = own[from].or(before[from]);
                    if last > before[ties[to]] {
                        before[ties[to]] = last;
                        is_known = false;
                    }
                }
            }
        }
        for (before, own) in before.into_iter().zip(own) {
            let (Some((first, from)), Some((second, to))) = (before, own) else {
                continue;
            };
            if first > second {
                self.violations.push(Violation::Order {
                    from: network.layers[from].id.clone(),
                    to: network.layers[to].id.clone(),
                    stages: [first + 1, second + 1],
                    by: first - second,
                });
            }
        }
    }

    fn stage_count(&mut self, plan: &Plan) {
        let (found, most) = (plan.stages.len(), self.settings.stages);
        let is_empty = |stage: &PlanStage| stage.forward.is_empty() && stage.backward.is_empty();
        let used = plan.stages.iter().filter(|stage| !is_empty(stage)).count();
        if found > most || (self.settings.all_stages && used != most) {
            self.violations.push(Violation::StageCount {
                found: used,
                expected: match self.settings.all_stages {
                    true => format!("exactly {most}, none empty"),
                    false => format!("at most {most}"),
                },
            });
        }
    }

    /// Stated times and sizes against recomputed ones.
    fn costs(&mut self, plan: &Plan) {
        let stages = plan.stages.len();
        let mut forward = vec![Load::default(); stages];
        let mut backward = vec![Load::default(); stages];
        let mut bytes = vec![0u64; stages];
        let mut parameter_bytes = vec![0u64; stages];
        // Times of each stage by kind.
        let mut sums: Vec<BTreeMap<usize, [u64; 2]>> = vec![BTreeMap::new(); stages];
        for at in 0..self.instance.network.layers.len() {
            if !self.kept(at) {
                continue;
            }
            let places = [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]);
            for (pass, k) in places.into_iter().enumerate() {
                let Some(k) = k else {
                    continue;
                };
                for &kind in self.staff[k].keys() {
                    let times = self.layer(at).times[kind].unwrap_or_default();
                    let sum = sums[k].entry(kind).or_default();
                    sum[pass] += [times.forward_ns, times.backward_ns][pass];
                }
            }
            self.hold(at, places, stages, &mut bytes);
            if let Some(k) = places[BACKWARD].or(places[FORWARD]) {
                parameter_bytes[k] += self.layer(at).parameter_bytes;
            }
        }
        for (k, stage) in plan.stages.iter().enumerate() {
            let (instance, settings) = (self.instance, self.settings);
            let times = workers::times_ns(
                instance,
                settings,
                (k, stage),
                &self.staff[k],
                &sums[k],
                &mut self.violations,
            );
            [forward[k].work, backward[k].work] = times;
        }
        for tensor in &self.instance.network.tensors {
            self.transfer(tensor, &mut forward, &mut backward);
        }
        for at in 0..self.instance.network.layers.len() {
            self.moved_between_passes(at, &mut forward, &mut backward);
        }
        self.devices_at_work(&mut forward, &mut backward, &parameter_bytes);
        for (k, stage) in plan.stages.iter().enumerate() {
            let both = forward[k].plus(backward[k]);
            let mode = self.settings.communication;
            let transfers = stage.transfers.unwrap_or_default();
            let stated = [
                ("forward_ms", stage.forward_ms, forward[k].work),
                ("backward_ms", stage.backward_ms, backward[k].work),
                ("communication_ms", stage.communication_ms, both.moved(mode)),
                ("load_ms", stage.load_ms, self.load(&forward[k], &backward[k])),
                (
                    "transfers.forward.in_ms",
                    transfers.forward.in_ms,
                    forward[k].received,
                ),
                (
                    "transfers.forward.out_ms",
                    transfers.forward.out_ms,
                    forward[k].sent,
                ),
                (
                    "transfers.backward.in_ms",
                    transfers.backward.in_ms,
                    backward[k].received,
                ),
                (
                    "transfers.backward.out_ms",
                    transfers.backward.out_ms,
                    backward[k].sent,
                ),
            ];
            for (field, stated, recomputed_ns) in stated {
                self.stated_time(format!("stages[{k}].{field}"), stated, recomputed_ns);
            }
            self.stated_count(format!("stages[{k}].memory_bytes"), stage.memory_bytes, bytes[k]);
            let limit = workers::memory_bytes(self.instance, self.settings, &self.staff[k]);
            if let Some(limit) = limit.filter(|&limit| bytes[k] > limit) {
                self.violations.push(Violation::Memory {
                    stage: k + 1,
                    bytes: bytes[k],
                    over: bytes[k] - limit,
                });
            }
        }
        let objective_ns = self.objective(&forward, &backward);
        match plan.objective_ms {
            Some(stated) => self.stated_time("objective_ms".into(), stated, objective_ns),
            None => self
                .violations
                .push(Violation::Claim("stages are given, but no `objective_ms`".into())),
        }
    }

    /// What the devices of a stage make of its transfers: nothing if none of them pays, more if they synchronise.
    fn devices_at_work(&self, forward: &mut [Load], backward: &mut [Load], parameter_bytes: &[u64]) {
        for (k, staff) in self.staff.iter().enumerate().filter(|_| self.settings.mixed) {
            if !workers::pays(self.instance, staff) {
                for load in [&mut forward[k], &mut backward[k]] {
                    (load.received, load.sent) = (0, 0);
                }
                continue;
            }
            let ns = workers::synchronization_ns(self.settings, staff, parameter_bytes[k]);
            match self.settings.communication {
                Communication::Ignored => {}
                Communication::Blocking => backward[k].sent += ns,
                Communication::Overlapped => {
                    backward[k].sent += ns;
                    backward[k].received += ns;
                }
            }
        }
    }

    /// What a stage's worker is busy with: both phases in turn, or the longer one.
    fn load(&self, forward: &Load, backward: &Load) -> u64 {
        match self.settings.worker {
            WorkerMode::Sequential => forward.plus(*backward).worker(self.settings.communication),
            WorkerMode::Concurrent => forward.work.max(backward.work),
        }
    }

    /// The busiest of a stage's worker and links.
    fn busiest(&self, forward: &Load, backward: &Load) -> u64 {
        let moved = match self.settings.communication {
            // Part of the load.
            Communication::Blocking => 0,
            mode => forward.plus(*backward).moved(mode),
        };
        self.load(forward, backward).max(moved)
    }

    fn stated_time(&mut self, field: String, stated: f64, recomputed_ns: u64) {
        let recomputed = ns_to_ms(recomputed_ns);
        // A comparison that is false for NaN too.
        let agrees = (stated - recomputed).abs() <= TIME_TOLERANCE_MS;
        if !agrees {
            self.violations.push(Violation::Stated {
                field,
                stated,
                recomputed,
            });
        }
    }

    fn stated_count(&mut self, field: String, stated: u64, recomputed: u64) {
        if stated != recomputed {
            self.violations.push(Violation::Stated {
                field,
                stated: stated as f64,
                recomputed: recomputed as f64,
            });
        }
    }

    /// Charges a tensor, and in training its gradient, to every stage it touches.
    fn transfer(&self, tensor: &Tensor, forward: &mut [Load], backward: &mut [Load]) {
        if !self.kept(tensor.producer) {
            return;
        }
        let ns = self.settings.transfer_ns(tensor);
        let kept = || tensor.consumers.iter().filter(|&&to| self.kept(to));
        let own = kept().filter_map(|&to| self.own_stage(to)).collect();
        let phase = match self.layer(tensor.producer).backward {
            true => &mut *backward,
            false => forward,
        };
        if let Some(home) = self.own_stage(tensor.producer) {
            let away = elsewhere(home, own);
            if !away.is_empty() {
                charge(phase, &[home], &away, ns);
            }
        }
        let has_gradient = self.settings.mode == Mode::Training && !self.has_explicit_backward;
        if let Some(home) = self.stage_of[BACKWARD][tensor.producer].filter(|_| has_gradient) {
            let back = kept().filter_map(|&to| self.stage_of[BACKWARD][to]).collect();
            let away = elsewhere(home, back);
            if !away.is_empty() {
                charge(backward, &away, &[home], ns);
            }
        }
    }

    fn objective(&self, forward: &[Load], backward: &[Load]) -> u64 {
        let both: Vec<Load> = forward.iter().zip(backward).map(|(f, b)| f.plus(*b)).collect();
        let mode = self.settings.communication;
        let busiest = |loads: &[Load]| loads.iter().map(|load| load.busiest(mode)).max().unwrap_or(0);
        let stages = forward.iter().zip(backward);
        let period = stages.map(|(f, b)| self.busiest(f, b)).max().unwrap_or(0);
        if self.settings.objective == Objective::Period {
            return period;
        }
        let once: u64 = both.iter().map(|load| load.worker(mode)).sum();
        let again = self.settings.micro_batches.unwrap_or(1) - 1;
        once + again
            * match self.settings.schedule {
                Schedule::Gpipe => busiest(forward) + busiest(backward),
                _ => period,
            }
    }

    /// Status, bound and gap against each other.
    fn claims(&mut self, plan: &Plan) {
        let mut claim = |holds: bool, text: String| {
            if !holds {
                self.violations.push(Violation::Claim(text));
            }
        };
        let has_plan = matches!(plan.status, Status::Optimal | Status::Feasible);
        let stages = plan.stages.len();
        claim(
            has_plan == (stages > 0),
            format!("status `{}` with {stages} stages", plan.status),
        );
        let (Some(objective), Some(bound)) = (plan.objective_ms, plan.bound_ms) else {
            claim(
                !has_plan,
                format!("status `{}` without objective or bound", plan.status),
            );
            return;
        };
        claim(
            bound <= objective + TIME_TOLERANCE_MS,
            format!("bound {bound} above the objective {objective}"),
        );
        claim(
            plan.status != Status::Optimal || objective - bound <= TIME_TOLERANCE_MS,
            format!("status `optimal` with objective {objective} above the bound {bound}"),
        );
        let gap = if objective > 0.0 {
            (objective - bound) / objective
        } else {
            0.0
        };
        claim(
            plan.gap.is_some_and(|stated| (stated - gap).abs() <= 1e-9),
            match plan.gap {
                Some(stated) => format!("gap {stated} stated, {gap} recomputed"),
                None => format!("no gap stated, {gap} recomputed"),
            },
        );
    }
}
