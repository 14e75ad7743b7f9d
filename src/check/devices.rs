//! Devices of stages in modes: where they lie, in which groups, and what links are between them.

use std::collections::BTreeMap;

use super::{Checker, Violation, shards};
use crate::model::cluster::Link;
use crate::model::options::{Degrees, DeviceOrder, Groups, Mode};
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::{Plan, PlanMode, PlanStage};

/// What a stage runs on.
pub(super) struct Placed {
    /// Devices of a tensor group.
    pub tensor: usize,
    /// Tensor groups.
    pub replicas: usize,
    /// How many devices with the same other weights share out the experts of a layer.
    pub expert: usize,
    /// How many groups of a replica share out a sequence.
    pub context: usize,
    /// How many members of a replica share out every micro-batch.
    pub group: usize,
    /// Whether the state of the optimiser lies at its hosts.
    pub(super) offloads: bool,
    /// The kind of its devices, by position in the cluster.
    pub(super) kind: usize,
    /// The first device, from 0 over all kinds in play, and the one behind the last.
    pub devices: [usize; 2],
}

impl Placed {
    /// Devices with the same weights, but for experts.
    pub(super) fn copies(&self) -> usize {
        self.replicas * self.parts()
    }

    /// Of how many devices of a replica each has a part of the work on a micro-batch, with the same weights as the others.
    pub(super) fn parts(&self) -> usize {
        self.context * self.group
    }

    /// Of so many bytes of activations, those that a device has.
    pub(super) fn part(&self, bytes: u64) -> u128 {
        u128::from(bytes).div_ceil(self.context as u128)
    }
}

impl Checker<'_> {
    /// The devices of every stage: consecutive ones, in tensor groups that lie inside nodes. `None` where that cannot be told.
    pub(super) fn placed(&mut self, plan: &Plan) -> Option<Vec<Placed>> {
        let mut placed = Vec::with_capacity(plan.stages.len());
        let mut next: BTreeMap<usize, usize> = BTreeMap::new();
        for (k, stage) in plan.stages.iter().enumerate() {
            let Some(&PlanMode {
                tensor,
                replicas,
                expert,
                context,
                group,
                optimizer_offload: offloads,
                ..
            }) = stage.mode.as_ref()
            else {
                let expected = "its tensor degree and replicas";
                self.wrong(format!("stages[{k}].mode"), "nothing".into(), expected);
                return None;
            };
            let devices = stage.devices.len();
            self.has_as_many(k, [tensor, context, group, replicas], devices)?;
            let copies = replicas * context * group;
            if expert == 0 || !copies.is_multiple_of(expert) {
                self.wrong(
                    format!("stages[{k}].mode.expert"),
                    format!("{expert} for {copies} devices with the same weights"),
                    "a divisor of them",
                );
                return None;
            }
            self.allowed_degrees(k, ([tensor, expert, context, replicas], offloads));
            self.may_share_out(k, group);
            self.alike(k, [plan.stages[0].mode.as_ref(), stage.mode.as_ref()]);
            // Chunks behind those of the first round lie where one of these does.
            let before: Option<&Placed> = match self.settings.has_virtual_stages() {
                true => placed.get(self.device_of_chunk(k)),
                false => None,
            };
            let kind = self.kind_of(stage);
            match before {
                Some(first) => self.on_its_kind(k, first.kind, kind)?,
                None => self.in_order_of_kinds(k, placed.last().map(|before| before.kind), kind),
            }
            let next = next.entry(kind).or_insert_with(|| self.first_of(kind));
            let first = before.map_or(*next, |before| before.devices[0]);
            let stage_of = Placed {
                tensor,
                replicas,
                expert,
                context,
                group,
                offloads,
                kind,
                devices: [first, first + devices],
            };
            *next = (first + devices).max(*next);
            self.in_a_row((k, stage), &stage_of);
            self.have_hosts(k, &stage_of);
            placed.push(stage_of);
        }
        Some(placed)
    }

    /// A stage has the devices that its degrees take; `None` where it does not.
    fn has_as_many(&mut self, k: usize, degrees: [usize; 4], devices: usize) -> Option<()> {
        let [tensor, context, group, replicas] = degrees;
        if group == 0 {
            let expected = "a member at least";
            self.wrong(format!("stages[{k}].mode.group"), "0".into(), expected);
            return None;
        }
        let needed = degrees.into_iter().try_fold(1, usize::checked_mul);
        if needed == Some(devices) && devices > 0 {
            return Some(());
        }
        let mut each = tensor.to_string();
        for degree in [context, group].into_iter().filter(|&degree| degree != 1) {
            each += &format!(" times {degree}");
        }
        let found = format!("{replicas} replicas of {each} on {devices} devices");
        let expected = "as many devices as replicas of the degree take";
        self.wrong(format!("stages[{k}].mode"), found, expected);
        None
    }

    /// Members of a replica share out micro-batches where groups are to be formed, and there alone.
    fn may_share_out(&mut self, k: usize, group: usize) {
        if group != 1 && self.settings.groups != Groups::Assign {
            self.violations.push(Violation::Field {
                field: format!("stages[{k}].mode.group"),
                found: group.to_string(),
                expected: words!("1, unless {} is asked for", setting::GROUPS.given("assign")),
            });
        }
    }

    /// Of a place in the row all chunks are on one kind; `None` where they are not.
    fn on_its_kind(&mut self, k: usize, first: usize, kind: usize) -> Option<()> {
        if kind != first {
            let found = format!("`{}`", self.instance.cluster.kinds[kind].name);
            let expected = "the kind of the device that holds this chunk's place";
            self.wrong(format!("stages[{k}].devices"), found, expected);
        }
        (kind == first).then_some(())
    }

    /// Kinds come in the order in which they are listed, where that is asked.
    fn in_order_of_kinds(&mut self, k: usize, before: Option<usize>, kind: usize) {
        let rank = |kind: usize| self.settings.kinds.iter().position(|&own| own == kind);
        if self.settings.device_order == DeviceOrder::Given
            && before.is_some_and(|one| rank(one) > rank(kind))
        {
            let found = format!("`{}`", self.instance.cluster.kinds[kind].name);
            let expected = "a kind that is not listed before that of the stage ahead, as the order is given";
            self.wrong(format!("stages[{k}].devices"), found, expected);
        }
    }

    /// Degrees are those of the first stage where all are to be alike.
    fn alike(&mut self, k: usize, modes: [Option<&PlanMode>; 2]) {
        let of = |mode: &PlanMode| {
            (
                mode.tensor,
                mode.expert,
                mode.context,
                mode.group,
                mode.replicas,
                mode.optimizer_offload,
            )
        };
        let [Some(first), Some(own)] = modes.map(|mode| mode.map(of)) else {
            return;
        };
        if (self.settings.uniform || self.settings.has_virtual_stages()) && first != own {
            let found = format!("{} replicas of {}", own.4, own.0);
            let expected = "those of the first stage, as all are to be alike";
            self.wrong(format!("stages[{k}].mode"), found, expected);
        }
    }

    /// The kind that a stage's first device names, else the first in play.
    fn kind_of(&self, stage: &PlanStage) -> usize {
        let name = stage.devices.first().and_then(|device| device.rsplit_once(':'));
        let kind = name.and_then(|(name, _)| self.instance.cluster.kind(name));
        kind.unwrap_or(self.settings.kind)
    }

    /// The number of the first device of a kind: kinds in play come one behind the other.
    fn first_of(&self, kind: usize) -> usize {
        let settings = self.settings;
        let before = settings.kinds.iter().take_while(|&&other| other != kind);
        let count = |&kind: &usize| settings.count(&self.instance.cluster, kind);
        before.map(|kind| count(kind).unwrap_or(settings.stages)).sum()
    }

    fn allowed_degrees(
        &mut self,
        k: usize,
        ([tensor, expert, context, replicas], offloads): ([usize; 4], bool),
    ) {
        let settings = self.settings;
        let tokens = self.instance.network.micro_batch.map_or(0.0, |of| of.tokens);
        let has_tokens = context == 1 || tokens % context as f64 == 0.0;
        let divides = match (settings.mode, settings.micro_batches) {
            (Mode::Training, Some(all)) => all.is_multiple_of(replicas as u64),
            _ => true,
        };
        let asked = |field: &'static str, found: usize, degrees: &Degrees| {
            (field, found, degrees.allows(found), degrees.to_string())
        };
        let wrong = [
            asked("tensor", tensor, &settings.tensor),
            asked("expert", expert, &settings.expert),
            asked("context", context, &settings.context_parallel),
            (
                "context",
                context,
                has_tokens,
                "a divisor of the tokens of a micro-batch".to_owned(),
            ),
            asked("replicas", replicas, &settings.replicas),
            (
                "replicas",
                replicas,
                divides,
                "a divisor of the micro-batches".to_owned(),
            ),
        ];
        if !settings.optimizer_offload.places().contains(&offloads) {
            let expected = format!("what `{}` allows", settings.optimizer_offload);
            self.wrong(
                format!("stages[{k}].mode.optimizer_offload"),
                offloads.to_string(),
                &expected,
            );
        }
        for (field, found, _, expected) in wrong.into_iter().filter(|(_, _, is_allowed, _)| !is_allowed) {
            self.wrong(format!("stages[{k}].mode.{field}"), found.to_string(), &expected);
        }
    }

    /// Devices are numbered along the pipeline, and no tensor group spans nodes.
    fn in_a_row(&mut self, (k, stage): (usize, &PlanStage), placed: &Placed) {
        let [first, behind] = placed.devices;
        let name = &self.instance.cluster.kinds[placed.kind].name;
        let numbers = stage.devices.iter().map(|device| match device.rsplit_once(':') {
            Some((own, number)) if own == name || self.settings.kinds.len() == 1 => {
                number.parse().unwrap_or(0)
            }
            _ => 0,
        });
        let before = self.first_of(placed.kind);
        if !numbers.eq(first + 1 - before..=behind - before) {
            let expected = format!(
                "devices {} to {} of `{name}`, which follow those of the stages before",
                first + 1 - before,
                behind - before
            );
            self.wrong(format!("stages[{k}].devices"), "others".into(), &expected);
        }
        let are_inside = |size: usize| {
            let mut groups = (first..behind).step_by(size);
            groups.all(|device| self.is_inside(device, device + size - 1))
        };
        let experts = placed.tensor * placed.expert;
        let sequence = placed.tensor * placed.context;
        let nodes = self.instance.cluster.nodes;
        let has_room = |devices: usize| nodes.is_none_or(|nodes| devices <= nodes.devices);
        let shares_out = shards::passes(self.settings) != [0.0; 2];
        let split = [
            ("tensor", "a tensor group", !are_inside(placed.tensor)),
            (
                "replicas",
                "replicas that share out gradients, and that a node has the devices for,",
                shares_out && has_room(behind - first) && !self.is_inside(first, behind - 1),
            ),
            (
                "expert",
                "a group of experts that a node has the devices for",
                has_room(experts) && !are_inside(experts),
            ),
            (
                "context",
                "a group that shares out a sequence, and that a node has the devices for,",
                has_room(sequence) && !are_inside(sequence),
            ),
        ];
        if let Some((field, what, _)) = split.into_iter().find(|(.., is_split)| *is_split) {
            self.wrong(
                format!("stages[{k}].mode.{field}"),
                format!("{what} on two nodes"),
                "every group inside a node",
            );
        }
    }

    /// Whether two devices share a node, or there is only one link.
    pub(super) fn is_inside(&self, one: usize, other: usize) -> bool {
        let nodes = self.instance.cluster.nodes;
        nodes.is_none_or(|nodes| one / nodes.devices == other / nodes.devices)
    }

    /// The link between two devices: of their node, else of their kinds, else that of all.
    pub(super) fn link_between(&self, one: usize, other: usize) -> Link {
        match self.instance.cluster.nodes {
            Some(nodes) if self.is_inside(one, other) => nodes.link,
            _ => self.link_apart(one, other),
        }
    }

    /// The link between two devices that share no node.
    fn link_apart(&self, one: usize, other: usize) -> Link {
        let [one, other] = [one, other].map(|device| self.kind_of_device(device));
        let mut own = self.instance.cluster.links.iter();
        let own = own.find(|pair| pair.kinds == [one, other] || pair.kinds == [other, one]);
        own.map_or(self.settings.link, |pair| pair.link)
    }

    /// The kind of a device, from 0 over all kinds in play.
    fn kind_of_device(&self, device: usize) -> usize {
        let kinds = self.settings.kinds.iter().copied();
        let behind = kinds.take_while(|&kind| self.first_of(kind) <= device);
        behind.last().unwrap_or_default()
    }

    /// The link on which so many devices from the first of a stage on exchange something in every pass: inside a node wherever a node has as many.
    pub(super) fn link_of_group(&self, placed: &Placed, size: usize) -> Link {
        let [first, _] = placed.devices;
        match self.instance.cluster.nodes {
            Some(nodes) if size <= nodes.devices => nodes.link,
            _ => self.link_apart(first, first),
        }
    }
}
