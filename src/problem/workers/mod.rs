//! Workers that differ: which devices may run a stage together. [`crate::problem::cost::allocation`] says what a stage costs on them.
#![doc = include_str!("../../../formulations/workers.md")]

mod choices;
mod class;

pub(crate) use class::Class;

use crate::model::cluster::{Cluster, Resource};
use crate::model::fault::Fault;
use crate::model::options::{Shares, Synchronization, WorkerMode};
use crate::model::settings::Settings;

/// The device classes of a problem and the workers they can form.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Device kinds in play.
    pub classes: Vec<Class>,
    /// What a stage may run on: a device, a given group, or any group of devices.
    pub choices: Vec<Choice>,
    /// How many there are of what choices take: devices of each class, or given groups.
    pub inventory: Vec<usize>,
    /// Names of the resource types, each once: what [`Allocation::global`](crate::problem::cost::allocation::Allocation::global) gives shares for.
    pub resource_names: Vec<String>,
}

/// Devices that can work as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Devices of each class.
    pub devices: Vec<usize>,
    /// What it takes from the inventory.
    pub takes: Vec<usize>,
}

impl Workers {
    /// The workers of a cluster under these settings.
    ///
    /// # Errors
    ///
    /// Kinds without a count where groups are assigned, groups none of which may be used, too many ways to form a group.
    pub fn new(cluster: &Cluster, settings: &Settings) -> Result<Self, Fault> {
        let class = |&kind: &usize| Class::new(kind, &cluster.kinds[kind], settings);
        let classes: Vec<Class> = settings.kinds.iter().map(class).collect();
        let (inventory, choices) = choices::listed(cluster, settings, &classes)?;
        let resources = classes.iter().flat_map(|class| &class.resources);
        let mut resource_names: Vec<String> = resources.map(|resource| resource.name.clone()).collect();
        resource_names.sort_unstable();
        resource_names.dedup();
        Ok(Self {
            classes,
            choices,
            inventory,
            resource_names,
        })
    }

    /// Class and resource of everything that a group splits between the phases, in order.
    pub fn resources<'a>(&'a self, choice: &'a Choice) -> impl Iterator<Item = (usize, usize)> + 'a {
        let present = (0..self.classes.len()).filter(|&class| choice.devices[class] > 0);
        present
            .flat_map(|class| (0..self.classes[class].resources.len()).map(move |resource| (class, resource)))
    }

    /// What a plan calls a resource: its kind's name where that is all one resource.
    pub fn share_key(&self, class: usize, resource: usize) -> String {
        self.classes[class].share_key(resource)
    }

    /// Position of a resource's name in `resource_names`.
    pub fn name_of(&self, class: usize, resource: usize) -> usize {
        let name = &self.classes[class].resources[resource].name;
        self.resource_names.partition_point(|other| other < name)
    }

    /// Position of the choice of just these devices of each class, where groups are assigned. O(log choices).
    pub fn choice_of(&self, devices: &[usize]) -> Option<usize> {
        let by_devices = |choice: &Choice| choice.devices.as_slice().cmp(devices);
        self.choices.binary_search_by(by_devices).ok()
    }

    /// Bytes that each device of a group may hold: the whole stage lies on each.
    pub fn memory_bytes(&self, settings: &Settings, choice: &Choice) -> u64 {
        let present = (0..self.classes.len()).filter(|&class| choice.devices[class] > 0);
        let least = present.map(|class| self.classes[class].memory_bytes).min();
        settings.memory_limit.or(least).unwrap_or(u64::MAX)
    }

    /// Whether a stage never takes less time with more items in it. Not so where prescribed shares go to the nearest level.
    pub fn is_monotone(&self, settings: &Settings) -> bool {
        let has_levels = |class: &Class| class.levels.iter().any(Option::is_some);
        settings.worker == WorkerMode::Sequential
            || settings.shares != Shares::Theorem
            || !self.classes.iter().any(has_levels)
    }

    /// Whether it is one device.
    pub fn is_single(&self, choice: &Choice) -> bool {
        choice.devices.iter().sum::<usize>() == 1
    }

    /// Whether transfers of a group take time: if those of any of its devices do.
    pub fn pays(&self, choice: &Choice) -> bool {
        let mut present = (0..self.classes.len()).filter(|&class| choice.devices[class] > 0);
        present.any(|class| self.classes[class].pays_communication)
    }

    /// At least what the synchronisations of all stages take together, in ns, an update; a float, since it may be of any size.
    pub(crate) fn most_synchronization_ns(
        &self,
        settings: &Settings,
        stages: usize,
        parameter_bytes: f64,
    ) -> f64 {
        if settings.synchronization == Synchronization::None {
            return 0.0;
        }
        let devices = |choice: &Choice| choice.devices.iter().sum::<usize>();
        let largest = self.choices.iter().map(devices).max().unwrap_or(0) as f64;
        let messages = 2.0 * largest * stages as f64;
        // A byte more for each message, since parts are rounded up.
        let bytes = 2.0 * parameter_bytes + messages;
        messages * (settings.link.latency_ns as f64 + 1.0) + bytes / settings.link.bandwidth_bytes_per_s * 1e9
    }

    /// How many times longer than at rate 1 a phase may take at most: on the smallest level of the slowest resource.
    pub fn slowest(&self) -> f64 {
        let slowness = |resource: &Resource| {
            let speeds = resource
                .levels
                .iter()
                .map(|level| level.forward_speed.min(level.backward_speed));
            let least_speed = speeds.fold(1.0, f64::min);
            1.0 / (least_speed * resource.forward_rate.min(resource.backward_rate))
        };
        let resources = self.classes.iter().flat_map(|class| &class.resources);
        resources.map(slowness).fold(1.0, f64::max)
    }
}
