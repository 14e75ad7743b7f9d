//! The checker: whether a plan is what it says, recomputed from the instance on a path of its own.
//!
//! It imports neither solver nor formulations nor [`crate::problem::cost`], works on layers and tensors instead of items, and
//! returns every violation with its amount. Which problem a plan is checked against, the instance and whoever asks decide,
//! not the plan: [`pose`].

mod claims;
mod constraints;
mod copies;
mod costs;
mod crossings;
mod devices;
mod held;
mod hosts;
mod modes;
mod orders;
mod parts;
mod passes;
mod placement;
mod problem;
mod prompt;
mod room;
mod shards;
mod states;
mod target;
mod violation;
mod virtual_stages;
mod workers;

pub use placement::placement_fault;
pub use problem::{Posed, pose};
pub use violation::Violation;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use costs::{Load, charge};

use crate::model::instance::Instance;
use crate::model::network::{Layer, Tensor};
use crate::model::options::{Cuts, WorkerMode};
use crate::model::settings::Settings;
use crate::problem::plan::{Overrun, Plan, PlanRun, PlanStage, SCHEMA, Transfers};
use crate::schedule::simulate;

pub(crate) use claims::is_met;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Everything that is wrong.
    pub violations: Vec<Violation>,
    /// The objective in ms, recomputed; `None` without stages, or where some stage has no time at all.
    pub objective_ms: Option<f64>,
    /// Stages that hold more than their memory if overlapped transfers are to be hidden, whatever the plan says of them.
    pub overruns: Vec<Overrun>,
    /// How it runs, where that can be told.
    pub run: Option<PlanRun>,
    /// What every stage comes to, whatever the plan says of it; zeros where that cannot be told.
    pub figures: Vec<Figures>,
    /// What each chunk of a prompt takes on every stage, in ns, together, or on the link in, the device and the link out where transfers are overlapped;
    /// empty where none is read.
    pub chunks_ns: Vec<Vec<Vec<u64>>>,
}

/// What a stage comes to, recomputed: the numbers of a [`PlanStage`] under their names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Forward propagation in ms.
    pub forward_ms: f64,
    /// Backward propagation in ms.
    pub backward_ms: f64,
    /// The part of it that is gradients of weights, in ms; absent where nobody says.
    pub weight_ms: Option<f64>,
    /// Work and blocking transfers in ms.
    pub load_ms: f64,
    /// Transfers in ms.
    pub communication_ms: f64,
    /// The same by phase and direction.
    pub transfers: Transfers,
    /// What its replicas take to exchange their gradients, once an iteration, in ms; absent where they exchange nothing.
    pub synchronization_ms: Option<f64>,
    /// Memory in use; what no count holds is its largest.
    pub memory_bytes: u64,
    /// What each device has at its host, likewise.
    pub host_bytes: u64,
    /// Micro-batches in flight; absent in inference.
    pub in_flight: Option<u64>,
    /// Versions of the weights; absent in inference.
    pub weight_versions: Option<u64>,
}

/// Checks a plan against an instance and settings: the violations of [`examine`].
pub fn check(instance: &Instance, settings: &Settings, plan: &Plan) -> Vec<Violation> {
    examine(instance, settings, plan).violations
}

/// Checks a plan against an instance and settings.
///
/// No violation means that the plan can be run, costs what it says, and claims no more than its bound allows. Whether the
/// bound itself is right only a proof can say: solve again with another method.
///
/// Time O(layers + tensors and their consumers), times the longest run of forward operators whose ties have no backward ones, where
/// an explicit backward graph is cut separately.
pub fn examine(instance: &Instance, settings: &Settings, plan: &Plan) -> Verdict {
    let asked = settings;
    let settings = &Plan::settled(asked, &plan.stages).of_plan_with(plan.tokens);
    let mut check = Checker {
        instance,
        settings,
        has_explicit_backward: instance.network.layers.iter().any(|layer| layer.backward),
        stage_of: [(); 2].map(|()| vec![None; instance.network.layers.len()]),
        staff: Vec::new(),
        in_flight: Vec::new(),
        overruns: Vec::new(),
        run: None,
        figures: vec![Figures::default(); plan.stages.len()],
        chunks_ns: Vec::new(),
        violations: Vec::new(),
    };
    check.header(plan);
    check.fields_of_kind(plan);
    check.problem(plan);
    let mut objective_ms = None;
    if !plan.stages.is_empty() {
        check.staff = workers::staff(instance, settings, plan, &mut check.violations);
        workers::same_everywhere(instance, settings, plan, &mut check.violations);
        check.placement(plan);
        check.together();
        check.order();
        check.order_of_ties();
        check.layout(plan);
        check.constraints(plan);
        check.needless_order(plan);
        // An order says what every device does, be it with a stage or with several.
        let by_order = plan.order.is_some() && orders::may_say_order(settings);
        let by_device = (settings.has_virtual_stages() && !settings.modal) || by_order;
        if by_device {
            check.chunks_in_place(plan);
        } else if settings.modal {
            check.rows_as_asked(asked, plan);
        }
        check.stage_count(plan);
        if by_device {
            objective_ms = check.virtual_costs(plan);
        } else if settings.modal {
            objective_ms = check.modal_costs(plan);
        } else {
            check.overruns = check.overruns_of(plan);
            objective_ms = check.costs(plan);
            check.counts(plan);
        }
    }
    let run = check.run.or_else(|| simulate::run_of(plan));
    check.stated_run(plan, run);
    check.claims(plan);
    check.stated_overruns(plan);
    check.stated_room(plan);
    Verdict {
        violations: check.violations,
        objective_ms,
        overruns: check.overruns,
        run,
        figures: check.figures,
        chunks_ns: check.chunks_ns,
    }
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
    /// Micro-batches in flight on every stage, where they are more than the schedule's own; empty while those count.
    in_flight: Vec<u64>,
    /// Stages without memory for as many micro-batches as hide overlapped transfers.
    overruns: Vec<Overrun>,
    /// How chunks run, where that is known.
    run: Option<PlanRun>,
    /// What every stage comes to, as far as it is known.
    figures: Vec<Figures>,
    /// What each chunk of a prompt takes there.
    chunks_ns: Vec<Vec<Vec<u64>>>,
    violations: Vec<Violation>,
}

/// Positions in [`Checker::stage_of`].
const FORWARD: usize = 0;
const BACKWARD: usize = 1;

impl Checker<'_> {
    /// Whether the gradient of a tensor moves back: not before anything is trained, nor where it is a tensor of its own.
    fn has_gradient(&self, tensor: &Tensor) -> bool {
        let moves = self.settings.mode.trains() && !self.has_explicit_backward;
        moves && self.layer(tensor.producer).returns
    }

    fn layer(&self, at: usize) -> &Layer {
        &self.instance.network.layers[at]
    }

    fn kept(&self, at: usize) -> bool {
        self.settings.mode.trains() || !self.layer(at).backward
    }

    fn header(&mut self, plan: &Plan) {
        let names = [
            ("schema", &plan.schema, SCHEMA),
            ("instance", &plan.instance, &self.instance.name),
        ];
        for (field, found, expected) in names {
            if found != expected {
                self.violations.push(Violation::Field {
                    field: field.into(),
                    found: format!("`{found}`"),
                    expected: format!("`{expected}`").into(),
                });
            }
        }
        for (position, stage) in plan.stages.iter().enumerate() {
            if stage.index != position + 1 {
                self.violations.push(Violation::Field {
                    field: format!("stages[{position}].index"),
                    found: stage.index.to_string(),
                    expected: (position + 1).to_string().into(),
                });
            }
        }
    }

    /// Fields that only plans of some kinds have: split layers those of separate cuts, modes those that choose them, shares those of
    /// workers that run both phases at once.
    fn fields_of_kind(&mut self, plan: &Plan) {
        let settings = self.settings;
        let splits = settings.cuts == Cuts::Separate && !plan.stages.is_empty();
        let mut wrong = |field: String, is_there: bool, of: String| {
            self.violations.push(Violation::Field {
                field,
                found: if is_there { "one" } else { "none" }.into(),
                expected: format!("what fits {of}").into(),
            });
        };
        if plan.split.is_some() != splits {
            wrong(
                "split".into(),
                plan.split.is_some(),
                format!("`{}` cuts", settings.cuts),
            );
        }
        for (k, stage) in plan.stages.iter().enumerate() {
            // That one is missing is told where it is looked for.
            if stage.mode.is_some() && !settings.modal {
                wrong(format!("stages[{k}].mode"), true, "stages without modes".into());
            }
            let of_chunks = [
                ("chunks_ms", stage.chunks_ms.is_empty()),
                ("chunk_transfers", stage.chunk_transfers.is_empty()),
            ];
            for (field, is_empty) in of_chunks {
                if !is_empty && !settings.reads_prompt() {
                    let of = "plans that read no prompt";
                    wrong(format!("stages[{k}].{field}"), true, of.into());
                }
            }
            if !stage.shares.is_empty() && settings.worker != WorkerMode::Concurrent {
                wrong(
                    format!("stages[{k}].shares"),
                    true,
                    format!("`{}` workers", settings.worker),
                );
            }
        }
    }

    /// Every layer in exactly one stage, its passes together, on a kind that runs it.
    fn placement(&mut self, plan: &Plan) {
        let placed = self.stages_by_layer(plan);
        for at in 0..self.instance.network.layers.len() {
            let of_layer = [&placed[FORWARD][at], &placed[BACKWARD][at]];
            self.placed_once(at, of_layer);
            let stages = of_layer.map(|placed| placed.first().copied());
            [self.stage_of[FORWARD][at], self.stage_of[BACKWARD][at]] = stages;
            self.passes_together(at, stages);
            self.able_devices(at, stages);
        }
    }

    /// The stages that name each layer, for its forward and its backward pass.
    fn stages_by_layer(&mut self, plan: &Plan) -> [Vec<Vec<usize>>; 2] {
        let network = &self.instance.network;
        let position: HashMap<&str, usize> = network
            .layers
            .iter()
            .enumerate()
            .map(|(at, layer)| (layer.id.as_str(), at))
            .collect();
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
        [forward, backward]
    }

    /// Each pass of a layer is named once, if the layer has it.
    fn placed_once(&mut self, at: usize, [forward, backward]: [&Vec<usize>; 2]) {
        let is_backward = self.layer(at).backward;
        let returns = self.settings.mode.trains() && (!self.has_explicit_backward || is_backward);
        let expected = [
            ("forward pass", forward, !is_backward),
            ("backward pass", backward, returns),
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
    }

    /// With tied cuts both passes of a layer share a stage. With separate ones they do where the backward pass does nothing, and stages have modes.
    fn passes_together(&mut self, at: usize, stages: [Option<usize>; 2]) {
        let [Some(forward), Some(backward)] = stages else {
            return;
        };
        let reason = match self.settings.cuts {
            Cuts::Tied => "tied cuts",
            Cuts::Separate if self.settings.modal && !self.layer(at).returns => {
                "a backward pass without gradients"
            }
            Cuts::Separate => return,
        };
        if forward != backward {
            let layer = self.layer(at).id.clone();
            self.violations.push(Violation::Apart {
                first: layer.clone(),
                second: layer,
                reason,
                stages: [forward + 1, backward + 1],
            });
        }
    }

    /// The devices of a layer's stages can run it.
    fn able_devices(&mut self, at: usize, stages: [Option<usize>; 2]) {
        // Which modes run on what is a matter of their costs.
        if self.settings.modal {
            return;
        }
        let layer = &self.instance.network.layers[at];
        let distinct: BTreeSet<usize> = stages.into_iter().flatten().collect();
        for k in distinct {
            let kinds = self.staff[k].keys();
            for &kind in kinds.filter(|&&kind| layer.times[kind].is_none()) {
                self.violations.push(Violation::CannotRun {
                    stage: k + 1,
                    layer: layer.id.clone(),
                    kind: self.instance.cluster.kinds[kind].name.clone(),
                });
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
                    true => self.stage_of[pass][at].filter(|_| pass == FORWARD || self.layer(at).returns),
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
        for tensor in &self.instance.network.tensors {
            for &to in &tensor.consumers {
                self.order_of_consumer(tensor.producer, to);
            }
        }
    }

    /// The passes of a layer that reads a tensor come after those of its producer.
    fn order_of_consumer(&mut self, from: usize, to: usize) {
        let pair = |pass: usize| Some((self.stage_of[pass][from]?, self.stage_of[pass][to]?));
        let is_cut = self.settings.cuts == Cuts::Separate && !self.has_explicit_backward;
        // Where no gradient returns, the backward pass does nothing.
        let back = match is_cut && [from, to].iter().all(|&at| self.layer(at).returns) {
            true => pair(BACKWARD),
            false => None,
        };
        for (first, second) in [pair(FORWARD), back].into_iter().flatten() {
            self.in_order((first, from), (second, to));
        }
    }

    /// An operator on its stage, and another that must not lie before it.
    fn in_order(&mut self, (first, from): (usize, usize), (second, to): (usize, usize)) {
        if first > second {
            self.violations.push(Violation::Order {
                from: self.layer(from).id.clone(),
                to: self.layer(to).id.clone(),
                stages: [first + 1, second + 1],
                by: first - second,
            });
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
        let is_forward = |at: usize| !network.layers[at].backward;
        let tensors = network.tensors.iter().filter(|t| is_forward(t.producer));
        let forward_pairs: Vec<(usize, usize)> = tensors
            .flat_map(|tensor| {
                let consumers = tensor.consumers.iter().filter(|&&to| is_forward(to));
                consumers.map(|&to| (ties[tensor.producer], ties[to]))
            })
            .collect();
        // The last stage with backward operators along forward tensors to each tie, past ties without any, until it is known.
        let mut before: Vec<Option<(usize, usize)>> = vec![None; ties.len()];
        let mut is_known = false;
        while !is_known {
            is_known = true;
            for &(from, to) in &forward_pairs {
                let last = own[from].or(before[from]);
                if last > before[to] {
                    before[to] = last;
                    is_known = false;
                }
            }
        }
        for (before, own) in before.into_iter().zip(own) {
            if let (Some(before), Some(own)) = (before, own) {
                self.in_order(before, own);
            }
        }
    }

    fn stage_count(&mut self, plan: &Plan) {
        let (found, most) = (plan.stages.len(), self.settings.chunks());
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
}
