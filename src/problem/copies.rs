//! Tables of weights that several layers share: each stage that needs one holds a copy, and copies are kept equal.
#![doc = include_str!("../../formulations/copies.md")]

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::DiGraph;

use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::options::Communication;
use crate::model::settings::Settings;
use crate::problem::passes::{Pair, TransferCosts};
use crate::problem::tables::{Beside, Copies};
use crate::problem::{Item, Problem};

/// The tables of a network whose layers lie in these items, and what is wrong with others.
pub(super) fn copies(
    instance: &Instance,
    settings: &Settings,
    (items, beside): (&mut [Item], &Beside),
) -> (Vec<Copies>, Vec<Fault>) {
    let (mut copies, mut faults) = (Vec::new(), Vec::new());
    let layers = &instance.network.layers;
    let [forward, backward] = [0, 1].map(|pass| homes(items, pass));
    for table in instance.network.shared_tables() {
        let homes = |layer: &usize| {
            let forward = forward.get(layer)?;
            Some([*forward, *backward.get(layer).unwrap_or(forward)])
        };
        let ends: Vec<[usize; 2]> = table.layers.iter().filter_map(homes).collect();
        let places = BTreeSet::from_iter(&ends).len();
        let readers: Vec<usize> = ends.into_iter().map(|[_, home]| home).collect();
        let mut own: Vec<usize> = Vec::new();
        let first = &layers[table.layers[0]];
        let bytes = settings.copy_bytes(first, first.shared_bytes);
        let copy = |items: [usize; 2]| Copies {
            table: table.name.clone(),
            items,
            beside: table
                .layers
                .iter()
                .copied()
                .filter(|layer| beside.layers.contains(layer))
                .collect(),
            bytes,
            is_paired: false,
            once_ns: match settings.sums_copies() && !first.frozen {
                true => settings.sum_ns(first.shared_bytes),
                false => 0,
            },
        };
        for item in readers {
            match own.contains(&item) {
                // Stages with modes take off what they count twice.
                true if settings.modal => copies.push(copy([item, item])),
                true if !settings.has_virtual_stages() => items[item].base_bytes -= bytes,
                true => {}
                false => own.push(item),
            }
        }
        match own[..] {
            _ if places > 2 => faults.push(many(&table.name, places)),
            [one, other] => copies.push(copy([one, other])),
            _ => {}
        }
    }
    (copies, faults)
}

/// The item of the forward or of the backward pass of every layer.
pub(super) fn homes(items: &[Item], pass: usize) -> BTreeMap<usize, usize> {
    let of_item = |(at, item): (usize, &Item)| {
        let layers = [&item.layers, &item.backward_layers][pass].clone();
        layers.into_iter().map(move |layer| (layer, at))
    };
    items.iter().enumerate().flat_map(of_item).collect()
}

fn many(table: &str, stages: usize) -> Fault {
    let kind = FaultKind::Conflict {
        found: format!("a table that {stages} layers share, each of which may have a stage of its own")
            .into(),
        expected: "at most two places that need it".into(),
        remedy: "give layers of it that are to share a stage one `tie`".into(),
    };
    Fault::new(format!("shared table `{table}`"), kind)
}

/// Adds what sums of gradients take as transfers of a micro-batch, where no iteration is run that has them at its end: each end sends and
/// receives.
pub(super) fn add_sums(settings: &Settings, copies: &[Copies], transfers: &mut TransferCosts) {
    if settings.modal || settings.runs_iterations() {
        return;
    }
    for copy in copies.iter().filter(|copy| copy.once_ns > 0) {
        let ticks = settings.shared_out(copy.once_ns);
        let back = match settings.communication {
            Communication::Overlapped => ticks,
            Communication::Blocking | Communication::Ignored => 0,
        };
        let [one, other] = copy.items;
        let sum = transfers.entry((one, vec![other])).or_default();
        sum[1] += ticks;
        sum[2] += back;
    }
}

/// Pairs for the tables whose ends may share a stage of so many bytes, which then holds one copy: the other end counts none of its own.
pub(super) fn pairs(
    settings: &Settings,
    copies: &mut [Copies],
    (items, order): (&mut [Item], &DiGraph<usize, ()>),
    most_bytes: Option<u64>,
) -> Vec<Pair> {
    let (Some(most_bytes), false) = (most_bytes, settings.has_virtual_stages()) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    for copy in copies.iter_mut().filter(|copy| copy.bytes > 0) {
        let [one, other] = copy.items;
        let together = between(order, [one, other]);
        let held = |&item: &usize| {
            let item: &Item = &items[item];
            settings.bytes_on([item.base_bytes, item.parameter_bytes, item.stash_bytes], 1)
        };
        let least_bytes: u64 = together.iter().map(held).sum();
        if least_bytes - copy.bytes <= most_bytes {
            items[one].base_bytes -= copy.bytes;
            copy.is_paired = true;
            pairs.push(Pair {
                forward: one,
                backward: other,
                weight_bytes: copy.bytes,
                parameter_bytes: copy.bytes,
                stash_bytes: 0,
            });
        }
    }
    pairs
}

/// Two items and all that lie with them if they lie together. Items are numbered in a topological order.
fn between(order: &DiGraph<usize, ()>, ends: [usize; 2]) -> BTreeSet<usize> {
    let [first, last] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
    let reach = |from: usize, way: petgraph::Direction| {
        let mut met = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(item) = open.pop() {
            for next in order.neighbors_directed((item as u32).into(), way) {
                let next = next.index();
                if (first..=last).contains(&next) && met.insert(next) {
                    open.push(next);
                }
            }
        }
        met
    };
    let behind = reach(first, petgraph::Direction::Outgoing);
    let before = reach(last, petgraph::Direction::Incoming);
    let mut together: BTreeSet<usize> = behind.intersection(&before).copied().collect();
    together.extend(ends);
    together
}

impl Problem {
    /// What sums of gradients take at the end of an iteration in every stage of an assignment, in ns; stages of one device, by `place`, keep one copy
    /// equal by themselves.
    pub(crate) fn sums_ns(
        &self,
        assignment: &[usize],
        stages: usize,
        place: impl Fn(usize) -> usize,
    ) -> Vec<u64> {
        let mut sums = vec![0; stages];
        for copy in self.copies.iter().filter(|_| self.settings.runs_iterations()) {
            let [one, other] = copy.items.map(|item| assignment[item]);
            if place(one) != place(other) {
                sums[one] += copy.once_ns;
                sums[other] += copy.once_ns;
            }
        }
        sums
    }

    /// What sums of gradients take at the end of an iteration in a stage of these items, in ns.
    pub(crate) fn least_sums_ns(&self, members: &[usize]) -> u64 {
        let copies = self.copies.iter().filter(|_| self.settings.runs_iterations());
        let parted = |copy: &&Copies| members.contains(&copy.items[0]) != members.contains(&copy.items[1]);
        copies.filter(parted).map(|copy| copy.once_ns).sum()
    }

    /// The tables of a problem whose items are others: those of which both ends are there, and not in one.
    pub(super) fn copies_among(&self, new: impl Fn(usize) -> Option<usize>) -> Vec<Copies> {
        let moved = |copy: &Copies| {
            let [one, other] = copy.items.map(&new);
            let items = [one?, other?];
            (items[0] != items[1]).then_some(Copies {
                items,
                ..copy.clone()
            })
        };
        self.copies.iter().filter_map(moved).collect()
    }
}
