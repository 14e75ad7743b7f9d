//! Validation of what a device is made of, and of groups of devices.

use super::build::Checks;
use crate::model::cluster::{Cluster, Group, Resource, ShareLevel};
use crate::model::fault::{FaultKind, closest};
use crate::model::spec::{GroupSpec, ResourceSpec, ShareLevelSpec};

/// How far two shares may be from adding up to 1.
const SHARE_TOLERANCE: f64 = 1e-9;

/// Rates beyond this, or below its inverse, are slips: no device is a million times as fast as another.
const LARGEST_RATE: f64 = 1e6;

impl Checks {
    /// Types of resource of the device kind at `at`.
    pub(super) fn resources(&mut self, at: &str, given: &[ResourceSpec]) -> Vec<Resource> {
        let mut resources: Vec<Resource> = Vec::new();
        for spec in given {
            let at = format!("{at}.resources `{}`", spec.name);
            if resources.iter().any(|resource| resource.name == spec.name) {
                let (what, name) = ("resource", spec.name.clone());
                self.add(at.clone(), FaultKind::DuplicateName { what, name });
            }
            let backward_rate = spec.backward_rate.unwrap_or(spec.forward_rate);
            for (field, found) in [
                ("forward_rate", spec.forward_rate),
                ("backward_rate", backward_rate),
            ] {
                if !(found.is_finite() && (1.0 / LARGEST_RATE..=LARGEST_RATE).contains(&found)) {
                    let expected = "a rate from 1e-6 to 1e6, where 1 runs the layers in their stated times";
                    self.add(format!("{at}.{field}"), FaultKind::BadNumber { found, expected });
                }
            }
            resources.push(Resource {
                name: spec.name.clone(),
                forward_rate: spec.forward_rate,
                backward_rate,
                levels: self.levels(&at, &spec.levels),
            });
        }
        resources
    }

    /// Share levels, sorted; each has its complement.
    fn levels(&mut self, at: &str, given: &[ShareLevelSpec]) -> Vec<ShareLevel> {
        let mut levels = Vec::new();
        for spec in given {
            let at = format!("{at}.levels");
            let backward_speed = spec.backward_speed.unwrap_or(spec.speed);
            if !(spec.share > 0.0 && spec.share < 1.0) {
                let (found, expected) = (spec.share, "a share above 0 and below 1");
                self.add(format!("{at}.share"), FaultKind::BadNumber { found, expected });
            }
            for (field, found) in [("speed", spec.speed), ("backward_speed", backward_speed)] {
                if !(found.is_finite() && (1.0 / LARGEST_RATE..=LARGEST_RATE).contains(&found)) {
                    let expected = "a speed from 1e-6 to 1e6, relative to the whole resource";
                    self.add(format!("{at}.{field}"), FaultKind::BadNumber { found, expected });
                }
            }
            let complement =
                |other: &ShareLevelSpec| (other.share + spec.share - 1.0).abs() <= SHARE_TOLERANCE;
            if !given.iter().any(complement) {
                self.add(
                    at,
                    FaultKind::Contradiction {
                        found: format!("a level at share {} and none at what is left of 1", spec.share)
                            .into(),
                        expected: format!("a level at share {} too", 1.0 - spec.share).into(),
                    },
                );
            }
            levels.push(ShareLevel {
                share: spec.share,
                forward_speed: spec.speed,
                backward_speed,
            });
        }
        levels.sort_by(|a, b| a.share.total_cmp(&b.share));
        levels
    }

    /// Groups, each of known kinds and not empty, none using more devices than there are.
    pub(super) fn groups(&mut self, given: &[GroupSpec], cluster: &Cluster) -> Vec<Group> {
        let names: Vec<String> = cluster.kinds.iter().map(|kind| kind.name.clone()).collect();
        let mut groups = Vec::new();
        let mut used = vec![0usize; names.len()];
        for (i, spec) in given.iter().enumerate() {
            let at = format!("cluster.groups[{i}]");
            let count = spec.count.unwrap_or(1);
            self.count(format!("{at}.count"), count);
            if spec.devices.values().all(|&devices| devices == 0) {
                let (found, expected) = (0.0, "at least 1");
                self.add(at.clone(), FaultKind::BadNumber { found, expected });
            }
            let mut devices = vec![0; names.len()];
            for (name, &number) in &spec.devices {
                let Some(kind) = cluster.kind(name) else {
                    self.add(
                        format!("{at}.devices"),
                        FaultKind::UnknownName {
                            what: "device kind",
                            name: name.clone(),
                            similar: closest(name, &names).map(str::to_owned),
                        },
                    );
                    continue;
                };
                if number > 0 {
                    self.count(format!("{at}.devices.{name}"), number);
                }
                devices[kind] = number;
                used[kind] = used[kind].saturating_add(number.saturating_mul(count));
            }
            groups.push(Group { devices, count });
        }
        for (kind, &used) in cluster.kinds.iter().zip(&used) {
            if let Some(count) = kind.count.filter(|&count| used > count) {
                self.add(
                    "cluster.groups",
                    FaultKind::Contradiction {
                        found: format!("{used} `{}` devices in groups", kind.name).into(),
                        expected: format!("at most its count of {count}").into(),
                    },
                );
            }
        }
        groups
    }
}
