//! Tables that layers share: a copy in each stage that needs one, and their gradients summed once an iteration.

use std::collections::{BTreeMap, BTreeSet};

use super::costs::{Load, charge};
use super::devices::Placed;
use super::modes::Sum;
use super::parts::Part;
use super::{BACKWARD, Checker, FORWARD, states, workers};
use crate::model::cluster::Link;
use crate::model::options::{Communication, Objective};

/// A shared table as a plan has it.
pub(super) struct Table {
    /// Its first layer.
    pub layer: usize,
    /// The stage of each layer that reads it, that of the first layer first.
    pub stages: Vec<usize>,
}

impl Table {
    /// The stages that hold a copy, that of its first layer first.
    pub(super) fn holders(&self) -> Vec<usize> {
        let mut met = BTreeSet::new();
        self.stages
            .iter()
            .copied()
            .filter(|&stage| met.insert(stage))
            .collect()
    }

    /// For each layer behind another of its stage, that stage: it counts a copy too many.
    pub(super) fn surplus(&self) -> impl Iterator<Item = usize> {
        let mut met = BTreeSet::new();
        self.stages
            .iter()
            .copied()
            .filter(move |&stage| !met.insert(stage))
    }
}

impl Checker<'_> {
    /// The stage where a layer has what belongs to its weights: that of its backward pass, if that is cut by itself.
    fn home(&self, at: usize) -> Option<usize> {
        match self.settings.modal {
            true => self.places(at).last().map(|&(_, stage)| stage),
            false => self.stage_of[BACKWARD][at].or(self.stage_of[FORWARD][at]),
        }
    }

    /// Bytes of the table of a layer that the stage of its forward pass has without it, of so many in some mode: a layer that reads the table has its
    /// backward pass there, or one before it in the file its forward pass.
    pub(super) fn there_anyway(&self, at: usize, table_bytes: u64) -> u64 {
        let layers = &self.instance.network.layers;
        let stage = self.stage_of[FORWARD][at];
        let is_here = |other: usize| {
            let is_before = other < at && self.stage_of[FORWARD][other] == stage;
            is_before || self.home(other) == stage
        };
        let mut others =
            (0..layers.len()).filter(|&other| other != at && layers[other].shared == layers[at].shared);
        match layers[at].shared.is_some() && others.any(is_here) {
            true => table_bytes,
            false => 0,
        }
    }

    /// The tables that layers of the plan share.
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables: BTreeMap<&str, Table> = BTreeMap::new();
        for (at, layer) in self.instance.network.layers.iter().enumerate() {
            let (Some(name), Some(stage), true) = (&layer.shared, self.home(at), self.kept(at)) else {
                continue;
            };
            let none = || Table {
                layer: at,
                stages: Vec::new(),
            };
            tables.entry(name).or_insert_with(none).stages.push(stage);
        }
        tables.into_values().collect()
    }

    /// Bytes of stages that count tables twice. Of devices with several chunks every layer has its own.
    pub(super) fn bytes_counted_twice(&self, stages: usize) -> Vec<u128> {
        let mut bytes = vec![0; stages];
        for table in self.tables() {
            let layer = self.layer(table.layer);
            let copy = match layer.frozen {
                true => layer.shared_bytes.into(),
                false => states::kept(self.settings, &self.instance.network, layer.shared_bytes).each,
            };
            table.surplus().for_each(|stage| bytes[stage] += copy);
        }
        bytes
    }

    /// Whether gradients of copies are summed, and how long the iteration is at the end of which they are.
    fn summed_over(&self) -> Option<u128> {
        let settings = self.settings;
        let takes_time = settings.mode.trains() && settings.communication.takes_time();
        settings.micro_batches.filter(|_| takes_time).map(u128::from)
    }

    /// Whether the objective runs an iteration, at whose end they are summed.
    fn sums_at_the_end(&self) -> bool {
        self.settings.is_simulated() && self.settings.objective == Objective::Iteration
    }

    /// What two stages take to sum the gradients of a table, in ns: each sends the other half of its own, then half of the sum.
    fn sum_ns(&self, table: &Table) -> u128 {
        let layer = self.layer(table.layer);
        if layer.frozen || layer.shared_bytes == 0 {
            return 0;
        }
        let link = self.settings.link;
        let half_ns = (layer.shared_bytes.div_ceil(2) as f64 / link.bandwidth_bytes_per_s * 1e9).round();
        2 * (u128::from(link.latency_ns) + half_ns as u128)
    }

    /// Charges the sums to micro-batches, where no iteration is run.
    ///
    /// * `place`: what keeps its copies equal by itself: a device.
    pub(super) fn sums_of_micro_batches(&self, backward: &mut [Load], place: &dyn Fn(usize) -> usize) {
        let Some(all) = self.summed_over().filter(|_| !self.sums_at_the_end()) else {
            return;
        };
        for table in self.tables() {
            if let [one, other] = table.holders()[..] {
                if place(one) == place(other) {
                    continue;
                }
                let ticks = (self.sum_ns(&table) * u128::from(self.settings.ticks_per_ns)).div_ceil(all);
                charge(backward, &[one], &[other], ticks);
                if self.settings.communication == Communication::Overlapped {
                    charge(backward, &[other], &[one], ticks);
                }
            }
        }
    }

    /// What every stage takes for sums at the end of an iteration that is run, in ns; nothing on devices that do not pay.
    pub(super) fn sums_at_end_ns(&self, stages: usize, place: &dyn Fn(usize) -> usize) -> Vec<u128> {
        let mut sums = vec![0; stages];
        if !self.sums_at_the_end() || self.summed_over().is_none() {
            return sums;
        }
        for table in self.tables() {
            if let [one, other] = table.holders()[..]
                && place(one) != place(other)
            {
                sums[one] += self.sum_ns(&table);
                sums[other] += self.sum_ns(&table);
            }
        }
        if self.settings.heterogeneous {
            let free = (0..stages).filter(|&k| !workers::pays(self.instance, &self.staff[k]));
            free.for_each(|k| sums[k] = 0);
        }
        sums
    }

    /// One copy of a table in a stage of several layers that read it, and sums of gradients between stages.
    pub(super) fn add_copies(&self, placed: &[Placed], parts: &[Part], sums: &mut [Sum]) {
        for table in self.tables() {
            let layer = self.layer(table.layer);
            // At each degree, what any layer of it says that is in the stage.
            let bytes_in = |stage: usize| {
                let mut own = parts
                    .iter()
                    .filter(|part| part.stage == stage && part.passes[BACKWARD]);
                let part = own.find(|part| self.layer(part.layer).shared == layer.shared);
                part.map_or(0, |part| part.mode.shared_bytes)
            };
            let surplus = table.surplus().filter(|_| !self.settings.has_virtual_stages());
            for stage in surplus {
                self.count_once((bytes_in(stage), layer.frozen), &placed[stage], &mut sums[stage]);
            }
            let link = self.link_of_sums(&table, placed);
            for (stage, link) in table.holders().into_iter().zip(link.into_iter().cycle()) {
                let half = bytes_in(stage) as f64 / 2.0;
                if half > 0.0 {
                    let message_ns = half / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
                    sums[stage].sums_ns += (2.0 * message_ns).ceil();
                }
            }
        }
    }

    /// Takes off a table of so many bytes that a stage counts once too often.
    fn count_once(&self, (bytes, is_frozen): (u64, bool), placed: &Placed, sum: &mut Sum) {
        if is_frozen {
            sum.held_bytes -= u128::from(bytes);
            return;
        }
        let kept = self.kept_on(placed, bytes);
        sum.held_bytes -= kept.each;
        sum.shared_bytes -= kept.together;
        (0..2).for_each(|of| sum.states_at_host[of] -= kept.at_host[of]);
        sum.gradient_bytes -= bytes as f64;
    }

    /// The link over which two stages sum the gradients of a table; `None` where they do not.
    fn link_of_sums(&self, table: &Table, placed: &[Placed]) -> Option<Link> {
        let settings = self.settings;
        let is_summed = settings.mode.trains() && settings.communication.takes_time();
        let [one, other] = table.holders()[..] else {
            return None;
        };
        let start = |stage: usize| placed[stage].devices[0];
        let is_free = !is_summed
            || settings.micro_batches.is_none()
            || self.layer(table.layer).frozen
            || start(one) == start(other);
        (!is_free).then(|| self.link_of_stages(placed, [one, other]).1)
    }
}
