//! Devices and shares of a plan's stages: whether they may be used so, and how fast they are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::model::cluster::{DeviceKind, Resource};
use crate::model::instance::Instance;
use crate::model::options::{Groups, Shares, Synchronization, WorkerMode};
use crate::model::settings::Settings;
use crate::model::units::transfer_ns;
use crate::problem::plan::{Plan, PlanStage};

/// How far a stated share may be from what it must be, and how much nearer one level must be than another to come before it.
const SHARE_TOLERANCE: f64 = 1e-9;

/// The devices of a stage: positions of their kinds in the cluster, and how many there are of each.
pub(super) type Staff = BTreeMap<usize, usize>;

/// Reads the devices of every stage; adds what is wrong with them.
pub(super) fn staff(
    instance: &Instance,
    settings: &Settings,
    plan: &Plan,
    violations: &mut Vec<Violation>,
) -> Vec<Staff> {
    let kinds = &instance.cluster.kinds;
    let mut wrong = |stage: usize, device: &str, reason: &str| {
        violations.push(Violation::Device {
            stage: stage + 1,
            device: device.to_owned(),
            reason: reason.to_owned(),
        });
    };
    let mut seen = BTreeSet::new();
    let mut staff = vec![Staff::new(); plan.stages.len()];
    for (k, stage) in plan.stages.iter().enumerate() {
        for device in &stage.devices {
            let parts = device.rsplit_once(':');
            let number = parts.and_then(|(_, number)| number.parse::<usize>().ok());
            let kind = parts.and_then(|(name, _)| instance.cluster.kind(name));
            let (Some(kind), Some(number)) = (kind, number) else {
                wrong(k, device, "is not a `kind:number` of the cluster");
                continue;
            };
            if !settings.kinds.contains(&kind) {
                wrong(k, device, "is of a kind that is not in play");
            }
            // An independent path: not what the settings make of it.
            let most = settings.devices.or(kinds[kind].count);
            let too_many = most.is_some_and(|most| number > most);
            if number == 0 || too_many {
                wrong(k, device, "is beyond the count of its kind");
            }
            let is_new = seen.insert((kind, number));
            if !is_new && !settings.has_virtual_stages() {
                wrong(k, device, "is used twice");
            }
            *staff[k].entry(kind).or_insert(0) += 1;
        }
    }
    if !settings.modal {
        groups(instance, settings, &staff, violations);
    }
    // Where workers are alike it is known what a stage runs on, whatever its devices are called.
    for staff in staff
        .iter_mut()
        .filter(|staff| staff.is_empty() && !settings.has_unlike_devices())
    {
        staff.insert(settings.kind, 1);
    }
    staff
}

/// Whether every stage runs on what may work as one.
fn groups(instance: &Instance, settings: &Settings, staff: &[Staff], violations: &mut Vec<Violation>) {
    let mut left: Vec<usize> = instance.cluster.groups.iter().map(|group| group.count).collect();
    for (k, staff) in staff.iter().enumerate() {
        let size: usize = staff.values().sum();
        let is_group = |at: usize| {
            let devices = &instance.cluster.groups[at].devices;
            (0..devices.len()).all(|kind| devices[kind] == staff.get(&kind).copied().unwrap_or(0))
        };
        let given = (0..left.len()).find(|&at| left[at] > 0 && is_group(at));
        let is_allowed = match (settings.groups, left.is_empty()) {
            (Groups::Assign, _) => size >= 1,
            (Groups::Given, true) => size == 1,
            (Groups::Given, false) => given.is_some(),
        };
        if let (Groups::Given, Some(at)) = (settings.groups, given) {
            left[at] -= 1;
        }
        if !is_allowed {
            violations.push(Violation::Device {
                stage: k + 1,
                device: format!("all {size}"),
                reason: "do not form a worker that the problem allows".into(),
            });
        }
    }
}

/// Bytes that each device of a stage may hold: those of the smallest.
pub(super) fn memory_bytes(instance: &Instance, settings: &Settings, staff: &Staff) -> Option<u64> {
    let of_kind = |kind: &usize| instance.cluster.kinds[*kind].memory_bytes;
    match settings.has_unlike_devices() {
        true => settings.memory_limit.or(staff.keys().filter_map(of_kind).min()),
        false => settings.memory_limit,
    }
}

/// Whether a stage's transfers take time.
pub(super) fn pays(instance: &Instance, staff: &Staff) -> bool {
    staff
        .keys()
        .any(|&kind| instance.cluster.kinds[kind].pays_communication)
}

/// What the gradients of a stage cost its devices to synchronise, for one micro-batch, in ticks.
pub(super) fn synchronization_ns(settings: &Settings, staff: &Staff, parameter_bytes: u128) -> u128 {
    let devices = staff.values().sum::<usize>() as u128;
    if settings.synchronization != Synchronization::Ring || !settings.mode.trains() || devices < 2 {
        return 0;
    }
    let link = settings.link;
    let part = u64::try_from(parameter_bytes.div_ceil(devices)).unwrap_or(u64::MAX);
    let message = u128::from(transfer_ns(part, link.bandwidth_bytes_per_s, link.latency_ns));
    let all = 2 * (devices - 1) * message * u128::from(settings.ticks_per_ns);
    all.div_ceil(u128::from(settings.micro_batches.unwrap_or(1)))
}

/// Times from here on are none: 30 million years, in ns. Sums of as many as a plan may have stages and micro-batches stay
/// within 128 bits.
const ENDLESS_NS: f64 = 1e24;

/// A stage at work: its place in the plan, its devices, and what its layers take on them.
pub(super) struct StaffedStage<'a> {
    /// Position in the plan, from 0.
    pub(super) k: usize,
    pub(super) stage: &'a PlanStage,
    pub(super) staff: &'a Staff,
    /// Forward and backward time of its layers on every kind, in ns.
    pub(super) times_ns: &'a BTreeMap<usize, [u128; 2]>,
}

impl StaffedStage<'_> {
    /// For each phase, whether there is nothing to do in it.
    fn idle(&self) -> [bool; 2] {
        [0, 1].map(|phase| self.times_ns.values().any(|times| times[phase] == 0))
    }
}

/// Forward and backward time of a stage in ns, from the times of its layers on every kind that runs it; `None` where some
/// work never ends.
pub(super) fn times_ns(
    instance: &Instance,
    settings: &Settings,
    of: &StaffedStage,
    violations: &mut Vec<Violation>,
) -> Option<[u128; 2]> {
    let idle = of.idle();
    let speed = speeds(instance, settings, of, violations);
    let ns = [0, 1].map(|phase| if idle[phase] { 0.0 } else { 1.0 / speed[phase] });
    // A stage without a device has been told so.
    if !of.staff.is_empty() {
        unserved(of.k, ns, violations);
    }
    let [forward, backward] = ns;
    let whole_ns = |ns: f64| ns.round() as u128;
    (forward + backward < ENDLESS_NS).then(|| match settings.worker {
        // Phases that run in turn are rounded together.
        WorkerMode::Sequential => [
            whole_ns(forward),
            whole_ns(forward + backward) - whole_ns(forward),
        ],
        WorkerMode::Concurrent => [forward, backward].map(on_shares_ns),
    })
}

/// A time on shares in whole ns: of what doubles cannot tell from the middle between two the lower one.
fn on_shares_ns(ns: f64) -> u128 {
    const RELATIVE: f64 = 1e-12;
    let slack = ns * RELATIVE;
    let nearest = ns.round();
    let is_middle = slack < 0.25 && nearest - ns >= 0.5 - slack;
    nearest as u128 - u128::from(is_middle)
}

/// What part of each phase all devices of a stage do in a ns, where concurrent workers at the shares that are stated.
fn speeds(
    instance: &Instance,
    settings: &Settings,
    of: &StaffedStage,
    violations: &mut Vec<Violation>,
) -> [f64; 2] {
    let mut speed = [0.0; 2];
    let mut stated = Stated::new(settings, (of.k, of.stage), of.idle());
    for (&kind, &devices) in of.staff {
        let kind_of_device = &instance.cluster.kinds[kind];
        let times = of.times_ns.get(&kind).copied().unwrap_or_default();
        for resource in resources(kind_of_device).iter() {
            let rates = [resource.forward_rate, resource.backward_rate];
            let mut parts = [1.0; 2];
            if settings.worker == WorkerMode::Concurrent {
                let ratio = [0, 1].map(|phase| rates[phase] / times[phase].max(1) as f64);
                parts = stated.parts_of(kind_of_device, resource, ratio);
            }
            for phase in 0..2 {
                let time = times[phase].max(1) as f64;
                speed[phase] += devices as f64 * rates[phase] * parts[phase] / time;
            }
        }
    }
    stated.end(violations);
    speed
}

/// A stage in modes, whose devices are of one kind: what each does in a micro-batch when it does nothing else.
pub(super) struct WorkingStage<'a> {
    /// Position in the plan, from 0.
    pub(super) k: usize,
    pub(super) stage: &'a PlanStage,
    pub(super) kind: &'a DeviceKind,
    /// In either pass, with what its groups move and what it copies to its host, in ns: whole ticks.
    pub(super) work_ns: [f64; 2],
}

impl WorkingStage<'_> {
    /// What both passes take at the shares that are stated, in ns; `None` where some work never ends.
    ///
    /// A device's resources do a phase together, each its part of it, and everything that the device does in the phase goes at
    /// this speed.
    pub(super) fn on_shares_ns(
        &self,
        settings: &Settings,
        violations: &mut Vec<Violation>,
    ) -> Option<[f64; 2]> {
        let idle = self.work_ns.map(|ns| ns == 0.0);
        let resources = resources(self.kind);
        let sum = |of: fn(&Resource) -> f64| resources.iter().map(of).sum::<f64>();
        let whole = [sum(|own| own.forward_rate), sum(|own| own.backward_rate)];
        let mut stated = Stated::new(settings, (self.k, self.stage), idle);
        let mut speed = [0.0; 2];
        for resource in resources.iter() {
            let rates = [resource.forward_rate, resource.backward_rate];
            let part = [0, 1].map(|phase| rates[phase] / whole[phase]);
            // Speeds of a phase in which nothing is to be done are compared with none.
            let time = [0, 1].map(|phase| if idle[phase] { 1.0 } else { self.work_ns[phase] });
            let ratio = [0, 1].map(|phase| part[phase] / time[phase]);
            let at_share = stated.parts_of(self.kind, resource, ratio);
            (0..2).for_each(|phase| speed[phase] += part[phase] * at_share[phase]);
        }
        stated.end(violations);
        let ns = [0, 1].map(|phase| match idle[phase] {
            true => 0.0,
            false => self.work_ns[phase] / speed[phase],
        });
        unserved(self.k, ns, violations);
        let ticks = settings.ticks_per_ns as f64;
        let whole = |ns: f64| on_shares_ns(ns * ticks) as f64 / ticks;
        (ns[0] + ns[1] < ENDLESS_NS).then(|| ns.map(whole))
    }
}

/// Phases that have work and do not end, of stage `k` from 0; a NaN counts as endless.
fn unserved(k: usize, ns: [f64; 2], violations: &mut Vec<Violation>) {
    for (phase, ns) in ["forward", "backward"].into_iter().zip(ns) {
        let ends = ns < ENDLESS_NS;
        if !ends {
            violations.push(Violation::Unserved { stage: k + 1, phase });
        }
    }
}

/// The shares that a stage states, of which each is looked at once.
struct Stated<'a> {
    settings: &'a Settings,
    k: usize,
    stage: &'a PlanStage,
    /// For each phase, whether there is nothing to do in it.
    idle: [bool; 2],
    known: BTreeSet<String>,
    wrong: Vec<Violation>,
}

impl<'a> Stated<'a> {
    fn new(settings: &'a Settings, (k, stage): (usize, &'a PlanStage), idle: [bool; 2]) -> Self {
        Self {
            settings,
            k,
            stage,
            idle,
            known: BTreeSet::new(),
            wrong: Vec::new(),
        }
    }

    /// What is left of both speeds of a resource, which are `ratio`, at the share that is stated for it: all where none is.
    fn parts_of(&mut self, kind: &DeviceKind, resource: &Resource, ratio: [f64; 2]) -> [f64; 2] {
        let key = share_key(kind, resource);
        let share = self.stage.shares.get(&key).copied();
        let wanted = wanted_share(self.settings.shares, self.idle, ratio);
        let may_take = |share| may_take(self.settings, resource, share, wanted);
        if !share.is_some_and(may_take) {
            self.is_wrong(&key, share.unwrap_or(f64::NAN));
        }
        self.known.insert(key);
        let parts = share.map_or([1.0; 2], |share| parts_of(resource, share));
        // Shares may be off by rounding, speeds are none below 0.
        parts.map(|part| part.max(0.0))
    }

    fn is_wrong(&mut self, resource: &str, share: f64) {
        self.wrong.push(Violation::Share {
            stage: self.k + 1,
            resource: resource.to_owned(),
            share,
        });
    }

    /// All that is wrong: shares of what the stage does not run on, too.
    fn end(mut self, violations: &mut Vec<Violation>) {
        for (key, &share) in &self.stage.shares {
            if !self.known.contains(key) {
                self.is_wrong(key, share);
            }
        }
        violations.append(&mut self.wrong);
    }
}

/// The share that the policy wants of a resource, whose speeds in both phases are `ratio`; `None` where it leaves the choice.
fn wanted_share(shares: Shares, idle: [bool; 2], ratio: [f64; 2]) -> Option<f64> {
    match (shares, idle) {
        (Shares::Even, _) => Some(0.5),
        (Shares::Theorem, [false, false]) => Some(ratio[1] / (ratio[0] + ratio[1])),
        // The phase that works takes everything.
        (Shares::Theorem, [true, false]) => Some(0.0),
        (Shares::Theorem, [false, true]) => Some(1.0),
        (Shares::Theorem, [true, true]) | (Shares::Best | Shares::Global, _) => None,
    }
}

/// With one share for all stages, whether it is one: every type of resource needs a share from which all that is stated for it
/// follows, on a resource with levels the nearest.
pub(super) fn same_everywhere(
    instance: &Instance,
    settings: &Settings,
    plan: &Plan,
    violations: &mut Vec<Violation>,
) {
    if settings.worker != WorkerMode::Concurrent || settings.shares != Shares::Global {
        return;
    }
    let mut left: BTreeMap<String, Common> = BTreeMap::new();
    for (k, stage) in plan.stages.iter().enumerate() {
        for kind in &instance.cluster.kinds {
            for resource in resources(kind).iter() {
                let key = share_key(kind, resource);
                let Some(&share) = stage.shares.get(&key) else {
                    continue;
                };
                let from = match grid(settings, resource) {
                    None => Common::only(share),
                    Some(grid) => Common::nearest_to(&grid, share),
                };
                let common = left.entry(resource.name.clone()).or_insert(Common::ANY);
                match common.and(from) {
                    Some(both) => *common = both,
                    None => violations.push(Violation::Share {
                        stage: k + 1,
                        resource: key,
                        share,
                    }),
                }
            }
        }
    }
}

/// Shares above one number and up to another.
#[derive(Clone, Copy)]
struct Common {
    above: f64,
    up_to: f64,
}

impl Common {
    const ANY: Self = Self {
        above: f64::NEG_INFINITY,
        up_to: f64::INFINITY,
    };

    fn only(share: f64) -> Self {
        Self {
            above: share - SHARE_TOLERANCE,
            up_to: share + SHARE_TOLERANCE,
        }
    }

    /// What is nearest to one share of a sorted grid: a tie is the smaller share's.
    fn nearest_to(grid: &[f64], share: f64) -> Self {
        let middle = |other: &f64| f64::midpoint(*other, share) + SHARE_TOLERANCE / 2.0;
        let smaller = grid.iter().rev().find(|&&other| other < share - SHARE_TOLERANCE);
        let larger = grid.iter().find(|&&other| other > share + SHARE_TOLERANCE);
        Self {
            above: smaller.map_or(f64::NEG_INFINITY, middle),
            up_to: larger.map_or(f64::INFINITY, middle),
        }
    }

    fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            above: self.above.max(other.above),
            up_to: self.up_to.min(other.up_to),
        };
        (both.above < both.up_to).then_some(both)
    }
}

/// What a device is made of: without stated resources, one of rate 1 that bears its kind's name.
fn resources(kind: &DeviceKind) -> Cow<'_, [Resource]> {
    if !kind.resources.is_empty() {
        return Cow::Borrowed(&kind.resources);
    }
    Cow::Owned(vec![Resource {
        name: kind.name.clone(),
        forward_rate: 1.0,
        backward_rate: 1.0,
        levels: Vec::new(),
    }])
}

fn share_key(kind: &DeviceKind, resource: &Resource) -> String {
    match resource.name == kind.name {
        true => kind.name.clone(),
        false => format!("{}.{}", kind.name, resource.name),
    }
}

/// Speeds of both phases at a share, relative to the whole resource.
fn parts_of(resource: &Resource, share: f64) -> [f64; 2] {
    let at = |share: f64| {
        resource
            .levels
            .iter()
            .find(|level| (level.share - share).abs() <= SHARE_TOLERANCE)
    };
    [
        at(share).map_or(share, |level| level.forward_speed),
        at(1.0 - share).map_or(1.0 - share, |level| level.backward_speed),
    ]
}

/// The shares that a resource allows, sorted; `None` where any goes.
fn grid(settings: &Settings, resource: &Resource) -> Option<Vec<f64>> {
    let mut grid: Vec<f64> = match (resource.levels.is_empty(), settings.share_parts) {
        (true, None) => return None,
        (true, Some(parts)) => (1..parts).map(|part| part as f64 / parts as f64).collect(),
        (false, _) => resource.levels.iter().map(|level| level.share).collect(),
    };
    grid.extend([0.0, 1.0]);
    grid.sort_by(f64::total_cmp);
    Some(grid)
}

/// Whether a resource may be split so: at a level if it has any, and at the one nearest to the share that the policy wants, of
/// two that are equally near the smaller.
fn may_take(settings: &Settings, resource: &Resource, share: f64, wanted: Option<f64>) -> bool {
    let is_near = |to: f64| (share - to).abs() <= SHARE_TOLERANCE;
    match (grid(settings, resource), wanted) {
        (None, None) => (-SHARE_TOLERANCE..=1.0 + SHARE_TOLERANCE).contains(&share),
        (None, Some(wanted)) => is_near(wanted),
        (Some(grid), None) => grid.into_iter().any(is_near),
        (Some(grid), Some(wanted)) => {
            let distance = |level: f64| (level - wanted).abs();
            let least = grid.iter().copied().map(distance).fold(f64::INFINITY, f64::min);
            let nearest = grid
                .into_iter()
                .find(|&level| distance(level) <= least + SHARE_TOLERANCE);
            nearest.is_some_and(is_near)
        }
    }
}
