//! Validation: from what a file says to a network and a cluster, or every fault at once.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{analytic, frozen, modes, offload, rates};
use crate::model::cluster::{Cluster, DEFAULT_BANDWIDTH_BYTES_PER_S, DeviceKind, Host};
use crate::model::fault::{Fault, FaultKind, Piece, closest};
use crate::model::network::{Layer, MicroBatch, Network, Size, Tensor, Times, find_cycle};
use crate::model::setting;
use crate::model::spec::{ClusterSpec, DeviceKindSpec, InstanceSpec, NetworkSpec, SCHEMA, TensorSpec};
use crate::model::units::{LARGEST_EXACT, ms_to_ns, whole};
use crate::model::words::{Words, words};

/// Builds network and cluster; `notes` receives the assumptions made.
pub(super) fn build(spec: &InstanceSpec, notes: &mut Vec<Words>) -> Result<(Network, Cluster), Vec<Fault>> {
    let mut checks = Checks::default();
    if let Some(schema) = spec.schema.as_deref().filter(|s| *s != SCHEMA) {
        checks.add(
            "schema",
            FaultKind::UnknownValue {
                found: schema.to_owned(),
                known: vec![SCHEMA.to_owned()],
            },
        );
    }
    let mut rates = checks.cluster(spec, notes);
    let passes = spec.network.micro_batch.as_ref().and_then(|of| of.passes);
    rates.wait_as_often(passes.unwrap_or(1).clamp(1, MOST_PASSES));
    let network = checks.network(&spec.network, &rates);
    if checks.faults.is_empty() {
        Ok((network, rates.cluster))
    } else {
        Err(checks.faults)
    }
}

/// A cluster with the rates of its kinds for the roofline model.
pub(super) struct Rates {
    pub(super) cluster: Cluster,
    /// Peaks of arithmetic.
    pub(super) flops_per_s: Vec<Option<f64>>,
    /// Peaks of memory.
    pub(super) memory_bytes_per_s: Vec<Option<f64>>,
    /// Names under which layers give their measured times.
    pub(super) profiles: Vec<String>,
}

impl Rates {
    /// Has a micro-batch of so many passes wait as often for launches, and for links before the first byte arrives.
    fn wait_as_often(&mut self, passes: u64) {
        let Cluster {
            kinds,
            link,
            nodes,
            links,
            ..
        } = &mut self.cluster;
        let launches = kinds.iter_mut().map(|kind| &mut kind.launch_ns);
        let apart = links.iter_mut().map(|pair| &mut pair.link.latency_ns);
        let inside = nodes.iter_mut().map(|nodes| &mut nodes.link.latency_ns);
        let all = launches.chain(apart).chain(inside).chain([&mut link.latency_ns]);
        all.for_each(|ns| *ns = ns.saturating_mul(passes));
    }
}

/// Passes of a micro-batch: tokens of the longest answer.
const MOST_PASSES: u64 = 1_000_000;

/// Devices of a kind, and groups alike: far above any real cluster, far below where sums and products of them overflow.
const MOST_DEVICES: usize = 1_000_000;

/// Unknown names that are compared with all known ones.
const MOST_COMPARED: usize = 100;

/// What is assumed of links that nobody names, where bytes move.
fn no_link(spec: &InstanceSpec, given: &ClusterSpec) -> Option<Words> {
    let in_bytes = spec.network.tensors.iter().any(|t| t.bytes.is_some());
    let is_open = given.link.is_none() && spec.pipeline.bandwidth_bytes_per_s.is_none();
    (in_bytes && is_open).then(|| {
        words!(
            "{}{} says otherwise (PCI Express 3.0 x16)",
            format!("the file names no link; {DEFAULT_BANDWIDTH_BYTES_PER_S:.3e} bytes/s assumed unless "),
            setting::BANDWIDTH
        )
    })
}

#[derive(Default)]
pub(super) struct Checks {
    faults: Vec<Fault>,
}

impl Checks {
    pub(super) fn add(&mut self, at: impl Into<Piece>, kind: FaultKind) {
        self.faults.push(Fault::new(at, kind));
    }

    /// Forgets what is wrong with fields of a layer that are those of a mode, where that is told of the mode.
    fn forget_told_of_modes(&mut self, at: &str) {
        let (field, of_mode) = (format!("{at}."), format!("{at}.modes["));
        let place = |fault: &Fault| match &fault.at {
            Piece::Text(place) => place.clone(),
            Piece::Asked(_) => String::new(),
        };
        let in_modes = self.faults.iter().filter_map(|fault| {
            let place = place(fault);
            let (_, name) = place.strip_prefix(&of_mode)?.split_once("].")?;
            Some(format!("{field}{name}"))
        });
        let told: HashSet<String> = in_modes.collect();
        self.faults.retain(|fault| !told.contains(&place(fault)));
    }

    /// A time in ms as whole ns.
    pub(super) fn time(&mut self, at: &str, field: &str, ms: f64) -> u64 {
        ms_to_ns(ms).unwrap_or_else(|| {
            let expected = "a time from 0 to 9e9 ms (2^53 ns)";
            self.add(
                format!("{at}.{field}"),
                FaultKind::BadNumber { found: ms, expected },
            );
            0
        })
    }

    /// A size in whole bytes.
    pub(super) fn size(&mut self, at: &str, field: &str, bytes: f64) -> u64 {
        whole(bytes).unwrap_or_else(|| {
            let expected = "a size from 0 to 9e15 bytes (2^53)";
            self.add(
                format!("{at}.{field}"),
                FaultKind::BadNumber {
                    found: bytes,
                    expected,
                },
            );
            0
        })
    }

    /// A number of devices or groups.
    pub(super) fn count(&mut self, at: String, count: usize) {
        if !(1..=MOST_DEVICES).contains(&count) {
            let (found, expected) = (count as f64, "a whole number from 1 to 1000000");
            self.add(at, FaultKind::BadNumber { found, expected });
        }
    }

    pub(super) fn positive(&mut self, at: String, value: Option<f64>) -> Option<f64> {
        let value = value?;
        if value.is_finite() && value > 0.0 {
            return Some(value);
        }
        self.add(
            at,
            FaultKind::BadNumber {
                found: value,
                expected: "a finite number above 0",
            },
        );
        None
    }

    /// The part of a peak that is reached.
    fn efficiency(&mut self, at: String, given: Option<f64>) -> f64 {
        let efficiency = given.unwrap_or(1.0);
        if efficiency > 0.0 && efficiency <= 1.0 {
            return efficiency;
        }
        self.add(
            at,
            FaultKind::BadNumber {
                found: efficiency,
                expected: "a number above 0 and at most 1",
            },
        );
        1.0
    }

    fn some_kind(&mut self, given: &ClusterSpec) {
        if given.device_kinds.is_empty() {
            let kind = FaultKind::Missing {
                what: "device kind".into(),
                expected: "at least one".into(),
                remedy: "add one, such as { name = \"gpu\", count = 4 }".into(),
            };
            self.add("cluster.device_kinds", kind);
        }
    }

    fn cluster(&mut self, spec: &InstanceSpec, notes: &mut Vec<Words>) -> Rates {
        let default = ClusterSpec {
            device_kinds: vec![Default::default()],
            ..ClusterSpec::default()
        };
        let given = spec.cluster.as_ref().unwrap_or(&default);
        self.some_kind(given);
        let mut rates = Rates {
            cluster: Cluster {
                kinds: Vec::new(),
                link: self.link("cluster.link", given.link.as_ref()),
                nodes: self.nodes(given.link.as_ref()),
                links: Vec::new(),
                groups: Vec::new(),
                iteration_ns: given
                    .iteration_ms
                    .map_or(0, |ms| self.time("cluster", "iteration_ms", ms)),
                calibrated: given.calibrated.clone(),
            },
            flops_per_s: Vec::new(),
            memory_bytes_per_s: Vec::new(),
            profiles: Vec::new(),
        };
        for (i, kind) in given.device_kinds.iter().enumerate() {
            let at = format!("cluster.device_kinds[{i}] `{}`", kind.name);
            self.name_and_counts(&at, kind, &rates.cluster);
            let peak = self.positive(format!("{at}.flops_per_s"), kind.flops_per_s);
            let efficiency = self.efficiency(format!("{at}.efficiency"), kind.efficiency);
            for (operator, &part) in &kind.efficiencies {
                self.efficiency(format!("{at}.efficiencies.{operator}"), Some(part));
            }
            if let Some(measured) = &kind.measured {
                self.efficiency(format!("{at}.measured.efficiency"), Some(measured.efficiency));
            }
            let memory_rate = self.positive(format!("{at}.memory_bytes_per_s"), kind.memory_bytes_per_s);
            rates.flops_per_s.push(peak);
            rates.memory_bytes_per_s.push(memory_rate);
            let profile = kind.profile.as_ref().unwrap_or(&kind.name);
            rates.profiles.push(profile.clone());
            let memory_bytes = kind
                .memory_bytes
                .map(|bytes| self.size(&at, "memory_bytes", bytes));
            let host = self.host(&at, kind);
            rates.cluster.kinds.push(DeviceKind {
                name: kind.name.clone(),
                count: kind.count,
                memory_bytes,
                flops_per_s: peak.filter(|_| rates::hold_for(spec, kind)),
                efficiency,
                efficiencies: kind.efficiencies.clone(),
                launch_ns: kind.launch_ms.map_or(0, |ms| self.time(&at, "launch_ms", ms)),
                is_roofline: rates::gives_times(spec, kind),
                precision: rates::precision(spec, kind),
                host,
                pays_communication: kind.pays_communication,
                gpus: kind.gpus.unwrap_or(1),
                resources: self.resources(&at, &kind.resources),
            });
        }
        rates.cluster.links = self.pair_links(&given.links, &rates.cluster);
        rates.cluster.groups = self.groups(&given.groups, &rates.cluster);
        notes.extend(no_link(spec, given));
        rates
    }

    /// Where a device of a kind may lay what it keeps.
    fn host(&mut self, at: &str, kind: &DeviceKindSpec) -> Option<Host> {
        let bytes = kind.host_memory_bytes;
        let memory_bytes = bytes.map(|bytes| self.size(at, "host_memory_bytes", bytes));
        let at = format!("{at}.host_bytes_per_s");
        if kind.host_bytes_per_s.is_none() && memory_bytes.is_some() {
            let kind = FaultKind::Missing {
                what: "`host_bytes_per_s`".into(),
                expected: "the rate of copies to a host whose memory is said".into(),
                remedy: "try `host_bytes_per_s = \"25GB/s\"`, or leave `host_memory_bytes` out".into(),
            };
            self.add(at.clone(), kind);
        }
        Some(Host {
            bytes_per_s: self.positive(at, kind.host_bytes_per_s)?,
            memory_bytes,
        })
    }

    /// A name that no kind before it has, and numbers of devices.
    fn name_and_counts(&mut self, at: &str, kind: &DeviceKindSpec, before: &Cluster) {
        if before.kind(&kind.name).is_some() {
            let (what, name) = ("device kind", kind.name.clone());
            self.add(at.to_owned(), FaultKind::DuplicateName { what, name });
        }
        for (name, count) in [("count", kind.count), ("gpus", kind.gpus)] {
            if let Some(count) = count {
                self.count(format!("{at}.{name}"), count);
            }
        }
    }

    fn network(&mut self, spec: &NetworkSpec, rates: &Rates) -> Network {
        if spec.layers.is_empty() {
            self.add("network", FaultKind::EmptyNetwork);
        }
        let mut position_of: HashMap<&str, usize> = HashMap::new();
        let mut layers: Vec<Layer> = Vec::with_capacity(spec.layers.len());
        for (i, layer) in spec.layers.iter().enumerate() {
            let at = format!("network.layers[{i}] `{}`", layer.id);
            if layer.id.is_empty() {
                self.add(
                    format!("{at}.id"),
                    FaultKind::Missing {
                        what: "name".into(),
                        expected: "a unique `id`".into(),
                        remedy: "name the layer".into(),
                    },
                );
            }
            if position_of.insert(&layer.id, i).is_some() {
                self.add(
                    at.clone(),
                    FaultKind::DuplicateName {
                        what: "layer",
                        name: layer.id.clone(),
                    },
                );
            }
            layers.push(self.layer(&at, layer, rates));
        }
        for (i, (layer, spec)) in layers.iter_mut().zip(&spec.layers).enumerate() {
            let at = format!("network.layers[{i}] `{}`", layer.id);
            layer.modes = self.modes(&at, spec, rates, &position_of);
            if modes::is_of_mode(spec) {
                self.forget_told_of_modes(&at);
            }
        }
        let names: Vec<String> = spec.layers.iter().map(|layer| layer.id.clone()).collect();
        let tensors: Vec<Tensor> = spec
            .tensors
            .iter()
            .enumerate()
            .filter_map(|(i, tensor)| self.tensor(i, tensor, &position_of, &names))
            .collect();
        let mut network = Network {
            layers,
            tensors,
            precision: spec.precision,
            micro_batch: self.micro_batch(spec),
        };
        self.shared(&mut network);
        analytic::recomputation(&mut network);
        frozen::leave_as_they_are(&mut network);
        offload::to_hosts(&mut network, &rates.cluster.kinds);
        if let Some(cycle) = find_cycle(&network.graph()) {
            let path = cycle.iter().map(|&layer| names[layer].clone()).collect();
            self.add("network.tensors", FaultKind::Cycle { path });
        }
        self.totals(&network, &rates.cluster);
        network
    }

    fn micro_batch(&mut self, spec: &NetworkSpec) -> Option<MicroBatch> {
        let spec = spec.micro_batch.as_ref()?;
        let at = |field: &str| format!("network.micro_batch.{field}");
        let tokens = self.positive(at("tokens"), Some(spec.tokens))?;
        let are_even = |sequences: u64| sequences > 0 && tokens % sequences as f64 == 0.0;
        if let Some(sequences) = spec.sequences.filter(|&sequences| !are_even(sequences)) {
            let kind = FaultKind::BadNumber {
                found: sequences as f64,
                expected: "a whole number of sequences that share out the tokens evenly",
            };
            self.add(at("sequences"), kind);
        }
        let passes = spec.passes.unwrap_or(1);
        if !(1..=MOST_PASSES).contains(&passes) {
            let (found, expected) = (passes as f64, "a whole number from 1 to 1000000");
            self.add(at("passes"), FaultKind::BadNumber { found, expected });
        }
        Some(MicroBatch {
            passes,
            tokens,
            sequences: spec.sequences,
            forward_flops: self.positive(at("forward_flops"), spec.forward_flops),
            backward_flops: self.positive(at("backward_flops"), spec.backward_flops),
        })
    }

    fn tensor(
        &mut self,
        i: usize,
        spec: &TensorSpec,
        position_of: &HashMap<&str, usize>,
        names: &[String],
    ) -> Option<Tensor> {
        let at = format!("network.tensors[{i}] of `{}`", spec.producer);
        let mut find = |field: &str, name: &String| {
            let found = position_of.get(name.as_str()).copied();
            if found.is_none() {
                // A file in which no name fits has another fault than a slip; looking for each would take for ever.
                let compared = self.faults.len() < MOST_COMPARED;
                let similar = compared.then(|| closest(name, names)).flatten();
                self.add(
                    format!("{at}.{field}"),
                    FaultKind::UnknownName {
                        what: "layer",
                        name: name.clone(),
                        similar: similar.map(str::to_owned),
                    },
                );
            }
            found
        };
        let producer = find("producer", &spec.producer);
        let consumers: BTreeSet<usize> = spec
            .consumers
            .iter()
            .filter_map(|name| find("consumers", name))
            .collect();
        let size = match (spec.bytes, spec.transfer_ms) {
            (Some(bytes), None) => Size::Bytes(self.size(&at, "bytes", bytes)),
            (None, Some(ms)) => Size::TransferNs(self.time(&at, "transfer_ms", ms)),
            (None, None) => Size::Bytes(0),
            (Some(_), Some(_)) => {
                self.add(
                    at,
                    FaultKind::Contradiction {
                        found: "both `bytes` and `transfer_ms`".into(),
                        expected: "one of them".into(),
                    },
                );
                return None;
            }
        };
        Some(Tensor {
            producer: producer?,
            consumers: consumers.into_iter().collect(),
            size,
        })
    }

    /// No sum that any program forms may leave the exact range: each transfer is paid at most once by each layer that
    /// touches it, in both directions.
    fn totals(&mut self, network: &Network, cluster: &Cluster) {
        let slowest_ns = |layer: &Layer| {
            let of_kind = |t: &Times| t.forward_ns as f64 + t.backward_ns as f64;
            let modes = layer.modes.iter().flat_map(|mode| &mode.times);
            layer
                .times
                .iter()
                .chain(modes)
                .flatten()
                .map(of_kind)
                .fold(0.0, f64::max)
        };
        let moving_ns = |tensor: &Tensor| {
            let once = match tensor.size {
                Size::TransferNs(ns) => ns as f64,
                Size::Bytes(bytes) => {
                    bytes as f64 / cluster.link.bandwidth_bytes_per_s * 1e9 + cluster.link.latency_ns as f64
                }
            };
            2.0 * once * (1 + tensor.consumers.len()) as f64
        };
        let copied_ns = |layer: &Layer| {
            let hosts = cluster.kinds.iter().filter_map(|kind| kind.host);
            let slowest = hosts.map(|host| host.bytes_per_s).fold(f64::INFINITY, f64::min);
            let most = layer.modes.iter().map(|mode| mode.host_bytes).max().unwrap_or(0);
            2.0 * most as f64 / slowest * 1e9
        };
        let time_ns: f64 = network.layers.iter().map(slowest_ns).sum::<f64>()
            + network.tensors.iter().map(moving_ns).sum::<f64>()
            + network.layers.iter().map(copied_ns).sum::<f64>();
        // Weights, gradients and states of an optimiser: at most 18 bytes for one, before weight versions.
        let bytes: f64 = network
            .layers
            .iter()
            .flat_map(|layer| layer.modes().into_owned())
            .map(|l| 18.0 * l.parameter_bytes as f64 + l.stash_bytes as f64 + l.resident_bytes as f64)
            .sum();
        for (found, unit) in [(time_ns, "ns"), (bytes, "bytes")] {
            if found > LARGEST_EXACT as f64 {
                let most = LARGEST_EXACT;
                self.add("network", FaultKind::Overflow { found, most, unit });
            }
        }
    }
}
