//! Choices: which devices may work as one, and what they take from the inventory.

use super::{Choice, Class};
use crate::model::cluster::{Cluster, Group};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::Groups;
use crate::model::setting;
use crate::model::settings::{Settings, uncounted_fault};
use crate::model::words::words;

/// Groups that a problem may choose from at most; more would not fit any search.
const MOST_CHOICES: usize = 200_000;

/// How many there are of what choices take, and the choices.
pub(super) type InventoryAndChoices = (Vec<usize>, Vec<Choice>);

/// The choices of a cluster under these settings.
pub(super) fn listed(
    cluster: &Cluster,
    settings: &Settings,
    classes: &[Class],
) -> Result<InventoryAndChoices, Fault> {
    match settings.groups {
        Groups::Assign => assigned(cluster, settings, classes),
        Groups::Given if cluster.groups.is_empty() => Ok(singles(cluster, settings)),
        Groups::Given => given(cluster, settings),
    }
}

/// Every device by itself; as many as stages where the cluster does not say.
fn singles(cluster: &Cluster, settings: &Settings) -> InventoryAndChoices {
    let classes = settings.kinds.len();
    let count = |&kind: &usize| settings.count(cluster, kind).unwrap_or(settings.stages);
    let single = |class: usize| {
        let mut devices = vec![0; classes];
        devices[class] = 1;
        Choice {
            takes: devices.clone(),
            devices,
        }
    };
    (
        settings.kinds.iter().map(count).collect(),
        (0..classes).map(single).collect(),
    )
}

/// The cluster's groups, as far as their kinds are in play.
fn given(cluster: &Cluster, settings: &Settings) -> Result<InventoryAndChoices, Fault> {
    let in_play = |group: &&Group| {
        let mut used = (0..group.devices.len()).filter(|&kind| group.devices[kind] > 0);
        used.all(|kind| settings.kinds.contains(&kind))
    };
    let groups: Vec<_> = cluster.groups.iter().filter(in_play).collect();
    if groups.is_empty() {
        return Err(Fault::new(
            setting::DEVICE_KINDS,
            FaultKind::Contradiction {
                found: "groups that all hold other kinds".into(),
                expected: words!("the kinds of some group, or {}", setting::GROUPS.given("assign")),
            },
        ));
    }
    let choice = |(at, group): (usize, &&Group)| {
        let mut takes = vec![0; groups.len()];
        takes[at] = 1;
        Choice {
            devices: settings.kinds.iter().map(|&kind| group.devices[kind]).collect(),
            takes,
        }
    };
    let choices = groups.iter().enumerate().map(choice).collect();
    Ok((groups.iter().map(|group| group.count).collect(), choices))
}

/// Every non-empty set of devices that leaves one for each other stage that must hold something, in lexicographic order:
/// see [`super::Workers::choice_of`].
fn assigned(cluster: &Cluster, settings: &Settings, classes: &[Class]) -> Result<InventoryAndChoices, Fault> {
    let mut inventory = Vec::new();
    for class in classes {
        let count = settings.count(cluster, class.kind);
        inventory.push(count.ok_or_else(|| uncounted_fault(&class.name))?);
    }
    let devices: usize = inventory.iter().sum();
    if devices < settings.stages {
        return Err(Fault::new(
            setting::STAGES,
            FaultKind::Contradiction {
                found: format!("{} stages and {devices} devices", settings.stages).into(),
                expected: "at least one device a stage".into(),
            },
        ));
    }
    let most = match settings.all_stages {
        true => devices + 1 - settings.stages,
        false => devices,
    };
    let ways = inventory
        .iter()
        .try_fold(1usize, |ways, count| ways.checked_mul(count + 1));
    if ways.is_none_or(|ways| ways > MOST_CHOICES) {
        return Err(Fault::new(
            setting::GROUPS,
            FaultKind::Unsupported {
                found: format!("more than {MOST_CHOICES} ways to form a group").into(),
                expected: words!(
                    "fewer devices or fewer kinds; name some with {}",
                    setting::DEVICE_KINDS
                ),
            },
        ));
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for &count in &inventory {
        let longer = |devices: &Vec<usize>| {
            let devices = devices.clone();
            (0..=count).map(move |n| [devices.clone(), vec![n]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|devices| (1..=most).contains(&devices.iter().sum()));
    let choice = |devices: Vec<usize>| Choice {
        takes: devices.clone(),
        devices,
    };
    Ok((inventory, all.into_iter().map(choice).collect()))
}
