//! The devices and links a network may run on.

use std::collections::BTreeMap;

use crate::model::precision::Precision;

/// Devices and the link between them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// Kinds of device, at least one, of unique names.
    pub kinds: Vec<DeviceKind>,
    /// The link between any two devices, or between any two nodes.
    pub link: Link,
    /// Nodes of several devices with a link of their own inside; `None` where there is one link.
    pub nodes: Option<Nodes>,
    /// Links of their own between devices of two kinds, or of one, that share no node; each pair once.
    pub links: Vec<PairLink>,
    /// Groups of devices that work as one, where the instance fixes them; empty where every device is its own.
    pub groups: Vec<Group>,
    /// What an iteration takes beside what is planned, in ns.
    pub iteration_ns: u64,
    /// What its figures were fitted to, where they were.
    pub calibrated: Option<String>,
}

/// Devices that work as one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Devices of each kind, in the order of [`Cluster::kinds`]; at least one in all.
    pub devices: Vec<usize>,
    /// How many such groups there are.
    pub count: usize,
}

/// The host of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Host {
    /// At which rate it copies there or back.
    pub bytes_per_s: f64,
    /// What it may hold of a device; `None` without a limit.
    pub memory_bytes: Option<u64>,
}

/// A kind of device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceKind {
    /// Its name.
    pub name: String,
    /// How many there are, where the instance says so.
    pub count: Option<usize>,
    /// Memory of one device; `None` without a limit.
    pub memory_bytes: Option<u64>,
    /// Peak of its arithmetic for the network's numbers, where the instance says so.
    pub flops_per_s: Option<f64>,
    /// Part of its peak rates at which times from work are taken; 1 for peaks.
    pub efficiency: f64,
    /// The same by kind of operator, where that differs.
    pub efficiencies: BTreeMap<String, f64>,
    /// What a pass of a layer takes beside its work where its time follows from that, in ns.
    pub launch_ns: u64,
    /// Whether times of some layers come from their work and its rates.
    pub is_roofline: bool,
    /// Numbers for which its rates hold, where times come from them and the instance says so.
    pub precision: Option<Precision>,
    /// Where a device may lay what it keeps meanwhile; `None` where it may not.
    pub host: Option<Host>,
    /// False where transfers are free, such as for a host CPU.
    pub pays_communication: bool,
    /// GPUs of a device, where it is a node whose GPUs work as one; else 1.
    pub gpus: usize,
    /// What a device is made of, where the instance says so: types of which each may serve both phases at once. Empty for
    /// a device of one type with rate 1.
    pub resources: Vec<Resource>,
}

impl DeviceKind {
    /// Part of the peak rates that layers of an operator reach.
    pub(crate) fn efficiency_of(&self, operator: Option<&str>) -> f64 {
        let own = operator.and_then(|name| self.efficiencies.get(name));
        *own.unwrap_or(&self.efficiency)
    }

    /// How fast a device runs forward and backward passes that have it to themselves: its resources work together.
    pub(crate) fn rates(&self) -> [f64; 2] {
        let sum = |of: fn(&Resource) -> f64| match self.resources.is_empty() {
            true => 1.0,
            false => self.resources.iter().map(of).sum(),
        };
        [
            sum(|resource| resource.forward_rate),
            sum(|resource| resource.backward_rate),
        ]
    }

    /// Whether it is the host itself: it is called so, or pays for no transfers.
    pub(crate) fn is_cpu(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        let is_said = |word: &str| word.trim_end_matches(|c: char| c.is_ascii_digit()) == "cpu";
        !self.pays_communication || words.any(is_said)
    }
}

/// A type of resource in a device, such as its CPU or its GPU (Duan and Wu, ICPADS 2022, section 1 of the design).
///
/// Times of layers hold at rate 1: a phase takes its time over the sum of the rates that serve it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// Rate of forward propagation.
    pub forward_rate: f64,
    /// Rate of backward propagation.
    pub backward_rate: f64,
    /// Measured speeds at shares below 1, by share; empty where speed is the share.
    pub levels: Vec<ShareLevel>,
}

/// Speed of a resource that serves a phase with part of itself, relative to all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShareLevel {
    /// The share, above 0 and below 1.
    pub share: f64,
    /// Forward speed at that share.
    pub forward_speed: f64,
    /// Backward speed at that share.
    pub backward_speed: f64,
}

/// Nodes: of the devices, which are numbered, so many in a row share a node.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Nodes {
    /// Devices of a node, at least one.
    pub devices: usize,
    /// The link between two devices of a node.
    pub link: Link,
}

/// The link between a device of one kind and a device of another, or between any two of one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PairLink {
    /// Positions of the kinds in [`Cluster::kinds`].
    pub kinds: [usize; 2],
    /// The link.
    pub link: Link,
}

/// A link between two devices.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Link {
    /// Bandwidth in bytes per second, positive.
    pub bandwidth_bytes_per_s: f64,
    /// Time before the first byte arrives, in ns.
    pub latency_ns: u64,
}

/// Links of pairs of kinds that may differ from each other in a cluster.
pub const MOST_PAIR_LINKS: usize = 6;

/// Bandwidth of a link that no file or option gives: PCI Express 3.0 x16, 8 GT/s on 16 lanes in 128b/130b coding
/// (PCI-SIG, *PCI Express Base Specification 3.0*, 2010).
pub const DEFAULT_BANDWIDTH_BYTES_PER_S: f64 = 15.754e9;

impl Cluster {
    /// Position of the kind of that name.
    pub fn kind(&self, name: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.name == name)
    }

    /// The link between devices of two kinds, where they have one of their own.
    pub fn link_of(&self, one: usize, other: usize) -> Option<Link> {
        let is_theirs = |pair: &&PairLink| pair.kinds == [one, other] || pair.kinds == [other, one];
        self.links.iter().find(is_theirs).map(|pair| pair.link)
    }

    /// What makes links unlike, where they are: then a plan says which devices each of its stages has.
    pub(crate) fn unlike_links(&self) -> Option<&'static str> {
        match (self.nodes, self.links.is_empty()) {
            (Some(_), _) => Some("links of two levels"),
            (None, false) => Some("links of their own between kinds of devices"),
            (None, true) => None,
        }
    }
}
