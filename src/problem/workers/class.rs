//! Device classes: what a kind in play is made of, and how it may be shared.

use crate::model::cluster::{DeviceKind, Resource, ShareLevel};
use crate::model::settings::Settings;
use crate::problem::shares::{Level, Speed};

/// A device kind in play.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its position in the cluster.
    pub kind: usize,
    /// Its name.
    pub name: String,
    /// Memory of one device in bytes; `u64::MAX` without a limit.
    pub memory_bytes: u64,
    /// Whether its transfers take time.
    pub pays_communication: bool,
    /// What a device is made of; at least one.
    pub resources: Vec<Resource>,
    /// Levels of each resource, where shares are not free.
    pub levels: Vec<Option<Vec<Level>>>,
}

impl Class {
    /// A kind under these settings.
    pub(crate) fn new(kind: usize, of: &DeviceKind, settings: &Settings) -> Self {
        let whole = || Resource {
            name: of.name.clone(),
            forward_rate: 1.0,
            backward_rate: 1.0,
            levels: Vec::new(),
        };
        let resources = match of.resources.is_empty() {
            true => vec![whole()],
            false => of.resources.clone(),
        };
        Self {
            kind,
            name: of.name.clone(),
            memory_bytes: of.memory_bytes.unwrap_or(u64::MAX),
            pays_communication: of.pays_communication,
            levels: resources
                .iter()
                .map(|resource| levels(resource, settings.share_parts))
                .collect(),
            resources,
        }
    }

    /// What a plan calls a resource: the kind's name where that is all one resource.
    pub(crate) fn share_key(&self, resource: usize) -> String {
        let name = &self.resources[resource].name;
        match *name == self.name {
            true => name.clone(),
            false => format!("{}.{name}", self.name),
        }
    }

    /// How fast each resource is.
    pub(crate) fn rates(&self) -> impl Iterator<Item = Speed> + Clone {
        self.resources.iter().map(|resource| Speed {
            forward: resource.forward_rate,
            backward: resource.backward_rate,
        })
    }
}

/// The levels a resource allows: measured ones, or equal parts; `None` where any share goes.
fn levels(resource: &Resource, parts: Option<usize>) -> Option<Vec<Level>> {
    let ends = [(0.0, 0.0, 1.0), (1.0, 1.0, 0.0)].map(|(share, forward, backward)| Level {
        share,
        forward,
        backward,
    });
    let mut levels: Vec<Level> = match (resource.levels.is_empty(), parts) {
        (true, None) => return None,
        (true, Some(parts)) => (1..parts)
            .map(|part| Level::linear(part as f64 / parts as f64))
            .collect(),
        (false, _) => {
            // Backward propagation runs at the level of what is left.
            let rest = resource.levels.iter().rev();
            let pairs = resource.levels.iter().zip(rest);
            let level = |(level, rest): (&ShareLevel, &ShareLevel)| Level {
                share: level.share,
                forward: level.forward_speed,
                backward: rest.backward_speed,
            };
            pairs.map(level).collect()
        }
    };
    levels.extend(ends);
    levels.sort_by(|a, b| a.share.total_cmp(&b.share));
    Some(levels)
}
