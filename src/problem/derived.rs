//! Problems made of others: with items joined or left out, other settings, fewer workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Assignment, Item, Pair, Problem, Transfer, apart, plus, summed};
use crate::model::network::{Times, contract};
use crate::model::options::{Communication, Objective, Placement, Schedule, WorkerMode};
use crate::model::settings::Settings;
use crate::problem::modes::{ModalTransfer, Modes};
use crate::problem::passes::TransferCosts;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::workers::Choice;

impl Problem {
    /// The problem with some items joined, and the new item of each old one. What the pairs close into a cycle of order
    /// pairs joins as well.
    pub fn merged(&self, together: &[(usize, usize)]) -> (Self, Vec<usize>) {
        let order: Vec<(usize, usize)> = self
            .order
            .edge_indices()
            .filter_map(|edge| self.order.edge_endpoints(edge))
            .map(|(u, v)| (u.index(), v.index()))
            .collect();
        let graph = contract(self.items.len(), together.iter().copied(), &order);
        let items: Vec<Item> = graph.members.iter().map(|members| self.joined(members)).collect();
        let costs = self.carried(|item| Some(graph.item_of[item]));
        let stages = match self.settings.all_stages || self.virtual_stages.is_some() {
            true => self.stages,
            false => self.stages.min(items.len()),
        };
        let pair = |pair: &Pair| Pair {
            forward: graph.item_of[pair.forward],
            backward: graph.item_of[pair.backward],
            ..*pair
        };
        let pairs = self.pairs.iter().map(pair).collect();
        let merged = Self {
            workers: self.workers.clone(),
            virtual_stages: self.virtual_stages.clone(),
            pairs: summed(pairs),
            copies: self.copies_among(|item| Some(graph.item_of[item])),
            ties: apart(self.ties.clone(), |item| graph.item_of[item]),
            confined: self
                .confined
                .as_ref()
                .map(|confined| confined.joined(&graph.members)),
            ..Self::assemble(self.settings.clone(), stages, items, graph.order, costs)
        };
        (merged, graph.item_of)
    }

    /// The problem with tied cuts, and its item of each of these: each of its plans is one of this problem, and costs the
    /// same. The same problem where cuts are tied.
    pub fn tied(&self) -> (Self, Vec<usize>) {
        self.merged(&self.ties)
    }

    /// The assignment of a plan with [tied cuts](Problem::with_tied_cuts) of stages in modes, laid out over the passes.
    pub(crate) fn over_passes(&self, tied: &Self, assignment: &Assignment) -> Assignment {
        let layers = tied.items.iter().zip(assignment);
        let layers =
            layers.flat_map(|(item, &stage)| item.all_layers().into_iter().map(move |layer| (layer, stage)));
        let stage_of: BTreeMap<usize, usize> = layers.collect();
        let of_item = |item: &Item| stage_of[&item.all_layers()[0]];
        self.items.iter().map(of_item).collect()
    }

    fn joined(&self, members: &[usize]) -> Item {
        let classes = self.workers.as_ref().map_or(0, |workers| workers.classes.len());
        let mut joined = Item {
            times: vec![Some(Times::default()); classes],
            ..Item::default()
        };
        for item in members.iter().map(|&member| &self.items[member]) {
            for (sum, times) in joined.times.iter_mut().zip(&item.times) {
                *sum = plus(*sum, *times);
            }
            joined.layers.extend(&item.layers);
            joined.backward_layers.extend(&item.backward_layers);
            joined.forward_ns += item.forward_ns;
            joined.backward_ns += item.backward_ns;
            joined.weight_ns += item.weight_ns;
            joined.base_bytes += item.base_bytes;
            joined.parameter_bytes += item.parameter_bytes;
            joined.stash_bytes += item.stash_bytes;
        }
        joined.layers.sort_unstable();
        joined.backward_layers.sort_unstable();
        joined
    }

    /// The same problem where a stage holds what it would if the other passes of its layers lay beside them, never more than it does: memory
    /// no longer ties stages together. `None` where it does not, or where a pass away from its other one may hold less.
    pub fn with_passes_together(&self) -> Option<Self> {
        (self.memory_is_joint() && self.holds_no_less_apart()).then(|| Self {
            pairs: Vec::new(),
            ..self.clone()
        })
    }

    /// Whether no layer has less in flight where its passes lie apart than with both where its backward pass is.
    pub(crate) fn holds_no_less_apart(&self) -> bool {
        let in_flight = |forward, backward| self.settings.in_flight_between(forward, backward);
        let from_end = || 1..=self.stages;
        self.pairs.is_empty()
            || from_end().all(|backward| {
                from_end().all(|forward| in_flight(forward, backward) >= in_flight(backward, backward))
            })
    }

    /// The same items on three stages, with neither memory nor an iteration to think of: *before*, *in* and *after*, as
    /// the anchored stage bound needs them.
    pub fn before_in_after(&self) -> Self {
        let settings = Settings {
            objective: Objective::Period,
            memory_limit: None,
            all_stages: false,
            ..self.settings.clone()
        };
        Self {
            settings,
            stages: 3,
            // What holds of a stage holds of none that stands for several.
            confined: None,
            ..self.clone()
        }
    }

    /// The same items for at most so many workers that are alike and take turns, each with so much memory. Items take the
    /// times of [`Item::forward_ns`] and [`Item::backward_ns`].
    pub fn homogeneous(&self, stages: usize, memory_limit: Option<u64>) -> Self {
        let settings = Settings {
            heterogeneous: false,
            worker: WorkerMode::Sequential,
            memory_limit,
            ..self.settings.clone()
        };
        Self {
            settings,
            stages,
            workers: None,
            ..self.clone()
        }
    }

    /// The same items for devices of several chunks each, all of which hold something, with the period as its objective and no limit of memory.
    /// It knows how many micro-batches there are.
    pub fn chunked(&self, devices: usize, virtual_stages: usize, placement: Placement) -> Self {
        let alone = self.homogeneous(devices * virtual_stages, None);
        let settings = Settings {
            objective: Objective::Period,
            // What devices hold does not matter without a limit, and this schedule is for chunks however they lie.
            schedule: Schedule::Gpipe,
            stages: devices,
            all_stages: true,
            virtual_stages,
            placement,
            ..alone.settings.clone()
        };
        Self {
            virtual_stages: VirtualStages::from_settings(&settings),
            settings,
            ..alone
        }
    }

    /// The same problem with one class of single devices alone, and so with workers that are alike; `None` where the class
    /// cannot run some item, works in groups or runs both phases at once.
    pub fn on_class(&self, class: usize) -> Option<Self> {
        let workers = self.workers.as_ref()?;
        let of = &workers.classes[class];
        let is_plain = of
            .resources
            .iter()
            .all(|r| r.forward_rate == 1.0 && r.backward_rate == 1.0);
        let alone = |choice: &Choice| workers.is_single(choice) && choice.devices[class] == 1;
        let choice = workers.choices.iter().find(|choice| alone(choice))?;
        let at = choice.takes.iter().position(|&takes| takes > 0)?;
        let stages = self.stages.min(workers.inventory[at]);
        let is_short = self.settings.all_stages && stages < self.stages;
        if is_short || !is_plain || of.resources.len() > 1 || self.settings.worker == WorkerMode::Concurrent {
            return None;
        }
        let memory_limit =
            Some(workers.memory_bytes(&self.settings, choice)).filter(|&bytes| bytes < u64::MAX);
        let mut problem = self.homogeneous(stages, memory_limit);
        for item in &mut problem.items {
            let times = item.times[class]?;
            (item.forward_ns, item.backward_ns) = (times.forward_ns, times.backward_ns);
            item.times.clear();
        }
        if !of.pays_communication {
            problem.transfers.clear();
            problem.transfers_of.iter_mut().for_each(Vec::clear);
        }
        Some(problem)
    }

    /// The pipeline of one of so many replicas of all stages, at most so many: single devices that are alike and take their part of the micro-batches.
    /// What items and transfers cost is not decided, memory is not limited, and as many transfers follow as stages with modes have.
    pub fn of_replica(&self, replicas: usize, stages: usize) -> Self {
        let alone = self.homogeneous(stages, None);
        let settings = Settings {
            worker: self.settings.worker,
            ..alone.settings.with_chunks(stages, 1).of_replica(replicas)
        };
        let of_modes = self.modes.iter().flat_map(|modes| modes.transfers.iter());
        let transfer = |transfer: &ModalTransfer| Transfer {
            producer: transfer.producer,
            consumers: transfer.consumers.clone(),
            forward_ns: 0,
            backward_ns: 0,
            gradient_ns: 0,
        };
        Self {
            settings,
            transfers: of_modes.map(transfer).collect(),
            transfers_of: self
                .modes
                .as_ref()
                .map_or_else(Vec::new, |modes| modes.transfers_of.clone()),
            modes: None,
            with_tied_cuts: None,
            modal_chunks: Arc::default(),
            ..alone
        }
    }

    /// The same items in so many chunks of the devices of a replica, which are to run as these settings say.
    pub fn in_chunks(self, settings: &Settings, of: &VirtualStages) -> Self {
        Self {
            settings: settings.clone(),
            stages: of.chunks(),
            virtual_stages: Some(of.clone()),
            ..self
        }
    }

    /// The same problem with other modes, in which any plan may be.
    pub(crate) fn in_modes(&self, modes: Modes) -> Self {
        let settings = Settings {
            uniform: false,
            target: None,
            ..self.settings.clone()
        };
        Self {
            settings,
            modes: Some(modes),
            with_tied_cuts: None,
            ..self.clone()
        }
    }

    /// The same problem with the period as its objective.
    pub fn for_the_period(&self) -> Self {
        self.for_the(Objective::Period)
    }

    /// The same problem with the latency as its objective.
    pub fn for_the_latency(&self) -> Self {
        self.for_the(Objective::Latency)
    }

    /// The same problem with an iteration's formula as its objective.
    pub fn for_the_formula(&self) -> Self {
        self.for_the(Objective::Formula)
    }

    fn for_the(&self, objective: Objective) -> Self {
        let settings = Settings {
            objective,
            ..self.settings.clone()
        };
        Self {
            settings,
            ..self.clone()
        }
    }

    /// The same problem with an objective that is not rounded up to whole ns: what is proved of it holds for bottlenecks.
    pub fn in_ticks(&self) -> Self {
        let settings = Settings {
            ticks_per_ns: 1,
            ..self.settings.clone()
        };
        Self {
            settings,
            ..self.clone()
        }
    }

    /// What transfers cost between other items that stand for these, if some does; those with the same ends become one.
    fn carried(&self, item_of: impl Fn(usize) -> Option<usize>) -> TransferCosts {
        let mut costs = TransferCosts::new();
        for transfer in &self.transfers {
            let Some(producer) = item_of(transfer.producer) else {
                continue;
            };
            let consumers = transfer.consumers.iter().filter_map(|&to| item_of(to));
            let mut consumers: Vec<usize> = consumers.filter(|&to| to != producer).collect();
            consumers.sort_unstable();
            consumers.dedup();
            if !consumers.is_empty() {
                let sum = costs.entry((producer, consumers)).or_default();
                sum[0] += transfer.forward_ns;
                sum[1] += transfer.backward_ns;
                sum[2] += transfer.gradient_ns;
            }
        }
        costs
    }

    /// The problem of some of its items, in ascending order, and what is between them. An item that is left out takes its order
    /// pairs along: where it lies between two others, the order of these may go with it.
    pub fn restricted(&self, kept: &[usize]) -> Self {
        let mut new = vec![None; self.items.len()];
        (0..).zip(kept).for_each(|(at, &item)| new[item] = Some(at));
        let order = self
            .order
            .filter_map(|node, _| new[node.index()], |_, ()| Some(()));
        let costs = self.carried(|item| new[item]);
        let pair = |pair: &Pair| {
            Some(Pair {
                forward: new[pair.forward]?,
                backward: new[pair.backward]?,
                ..*pair
            })
        };
        let items: Vec<Item> = kept.iter().map(|&item| self.items[item].clone()).collect();
        let stages = self.stages.min(items.len());
        Self {
            workers: self.workers.clone(),
            pairs: self.pairs.iter().filter_map(pair).collect(),
            copies: self.copies_among(|item| new[item]),
            ties: self
                .ties
                .iter()
                .filter_map(|&(u, v)| Some((new[u]?, new[v]?)))
                .collect(),
            ..Self::assemble(self.settings.clone(), stages, items, order, costs)
        }
    }

    /// The same problem without transfers.
    pub fn without_transfers(&self) -> Self {
        let settings = Settings {
            communication: Communication::Ignored,
            ..self.settings.clone()
        };
        Self {
            settings,
            transfers: Vec::new(),
            transfers_of: vec![Vec::new(); self.items.len()],
            ..self.clone()
        }
    }
}
