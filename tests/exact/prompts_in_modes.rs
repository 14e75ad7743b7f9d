//! Prompts that tensor groups read, in nodes and over links of kinds, against all plans. What a chunk takes is computed here from the file.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check::check;
use stagecut::instance::Instance;
use stagecut::options::{Communication, Constraint, Degrees, DeviceOrder, MemoryLimit, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::simulate::{Request, simulate};
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, ModeSpec, NodesSpec, PairLinkSpec,
    TensorSpec,
};
use stagecut::{Options, Watch, bound, solve};

use crate::common::seeds;
use crate::prompts::{self, assignments, chunks, layer_ns, longest_ns};

/// What a mode says of itself as if it were a layer.
fn as_layer(mode: &ModeSpec) -> LayerSpec {
    LayerSpec {
        forward_ms: mode.forward_ms,
        attention_ms: mode.attention_ms,
        fixed_ms: mode.fixed_ms,
        times: mode.times.clone(),
        work: mode.work.clone(),
        parameter_bytes: mode.parameter_bytes,
        ..LayerSpec::default()
    }
}

fn mode(rng: &mut ChaCha8Rng, tensor: usize, of: LayerSpec) -> ModeSpec {
    let mut few = |most: u32| f64::from(rng.random_range(0..=most));
    ModeSpec {
        tensor: Some(tensor),
        forward_ms: of.forward_ms,
        attention_ms: of.attention_ms,
        fixed_ms: of.fixed_ms,
        times: of.times,
        work: of.work,
        parameter_bytes: of.parameter_bytes,
        resident_bytes: of.resident_bytes,
        kv_bytes_per_token: of.kv_bytes_per_token,
        state_bytes_per_sequence: of.state_bytes_per_sequence,
        workspace_bytes: few(5),
        collective_bytes: if tensor > 1 { few(20) } else { 0.0 },
        ..ModeSpec::default()
    }
}

fn link(rng: &mut ChaCha8Rng) -> LinkSpec {
    LinkSpec {
        bandwidth_bytes_per_s: 1e6 * f64::from(rng.random_range(1..=8)),
        latency_ms: f64::from(rng.random_range(0..=2u8)) / 1e3,
        nodes: None,
    }
}

/// A problem of few layers with a mode or two each, on two to four devices.
fn drawn(seed: u64) -> InstanceSpec {
    let mut spec = prompts::drawn(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0d_e5);
    let rng = &mut rng;
    spec.network.layers.truncate(5);
    let names: Vec<String> = spec.network.layers.iter().map(|layer| layer.id.clone()).collect();
    for tensor in &mut spec.network.tensors {
        tensor.consumers.retain(|name| names.contains(name));
    }
    spec.network
        .tensors
        .retain(|tensor| names.contains(&tensor.producer) && !tensor.consumers.is_empty());
    let cluster = spec.cluster.as_mut().expect("a cluster");
    connect(cluster, if seed.is_multiple_of(2) { 4 } else { 2 }, rng);
    let kinds = cluster.device_kinds.clone();
    for layer in &mut spec.network.layers {
        add_modes(layer, &kinds, rng);
    }
    let tensors = spec.network.tensors.clone();
    for tensor in &tensors {
        if rng.random_bool(0.3) {
            let bytes = f64::from(rng.random_range(0..=9u8));
            let ends = [&tensor.producer, &tensor.consumers[0]];
            add_beside(&mut spec.network.layers, ends, bytes);
        }
    }
    let is_known = |constraint: &Constraint| match constraint {
        Constraint::Apart(of) | Constraint::Together(of) => of.iter().all(|name| names.contains(name)),
        Constraint::AtMost(_) | Constraint::Cuts(_) => true,
    };
    let asked = spec.pipeline.clone();
    let constraints = asked.constraints.iter().flatten().filter(|own| is_known(own));
    let degrees = [
        None,
        Some(Degrees::Choose),
        Some(Degrees::Choose),
        Some(Degrees::one(2)),
    ];
    spec.pipeline = PipelineOptions {
        tensor: degrees[rng.random_range(0..4)].clone(),
        uniform: rng.random_bool(0.3).then_some(true),
        device_order: rng.random_bool(0.3).then_some(DeviceOrder::Given),
        constraints: Some(constraints.cloned().collect::<Vec<_>>()).filter(|all| !all.is_empty()),
        ..asked.clone()
    };
    spec
}

/// At most two kinds of so many devices, in nodes or not, with a link of their own or not.
fn connect(cluster: &mut ClusterSpec, most: usize, rng: &mut ChaCha8Rng) {
    cluster.device_kinds.truncate(2);
    for kind in &mut cluster.device_kinds {
        kind.pays_communication = true;
        kind.count = Some(rng.random_range(1..=most));
    }
    cluster.link = Some(LinkSpec {
        nodes: rng.random_bool(0.5).then(|| {
            Box::new(NodesSpec {
                devices: rng.random_range(2..=3),
                link: link(rng),
            })
        }),
        ..link(rng)
    });
    if let ([one, other], true) = (&cluster.device_kinds[..], rng.random_bool(0.4)) {
        let between = [[one, other], [one, one], [other, other]][rng.random_range(0..3)];
        let own = link(rng);
        cluster.links = vec![PairLinkSpec {
            between: between.map(|kind| kind.name.clone()),
            bandwidth_bytes_per_s: own.bandwidth_bytes_per_s,
            latency_ms: own.latency_ms,
        }];
    }
}

/// Says in modes what a layer is on one device, and mostly what it is on two.
fn add_modes(layer: &mut LayerSpec, kinds: &[DeviceKindSpec], rng: &mut ChaCha8Rng) {
    // Copies of tables are drawn elsewhere.
    (layer.shared, layer.shared_bytes) = (None, None);
    let mut modes = vec![mode(rng, 1, layer.clone())];
    if rng.random_bool(0.8) {
        let other = prompts::layer(rng, 0, kinds);
        modes.push(mode(rng, 2, other));
    }
    let is_kept = modes.iter().all(|mode| mode.kv_bytes_per_token > 0.0);
    for mode in &mut modes {
        if !is_kept {
            mode.kv_bytes_per_token = 0.0;
        }
        mode.state_bytes_per_sequence = 0.0;
    }
    *layer = LayerSpec {
        id: layer.id.clone(),
        tie: layer.tie.clone(),
        modes,
        ..LayerSpec::default()
    };
}

/// Has groups of two devices move so many bytes beside a tensor.
fn add_beside(layers: &mut [LayerSpec], [from, to]: [&String; 2], bytes: f64) {
    for layer in layers {
        let [is_from, is_to] = [from, to].map(|name| *name == layer.id);
        for mode in layer.modes.iter_mut().filter(|mode| mode.tensor == Some(2)) {
            if is_from {
                mode.output_bytes.insert(to.clone(), bytes);
            }
            if is_to {
                mode.input_bytes.insert(from.clone(), bytes);
            }
        }
    }
}

/// A stage: the first of its devices, counted over all kinds, its tensor degree and its kind.
#[derive(Clone, Copy)]
struct Placed {
    first: usize,
    tensor: usize,
    kind: usize,
}

impl Placed {
    fn last(&self) -> usize {
        self.first + self.tensor - 1
    }
}

struct Every<'a> {
    spec: &'a InstanceSpec,
    settings: &'a Settings,
    chunks: Vec<[f64; 2]>,
    stage_of: Vec<usize>,
    best_ns: Option<u64>,
}

impl<'a> Every<'a> {
    fn search(spec: &'a InstanceSpec, settings: &'a Settings) -> Option<u64> {
        let mut every = Every {
            spec,
            settings,
            chunks: chunks(spec),
            stage_of: Vec::new(),
            best_ns: None,
        };
        for (stage_of, used) in assignments(spec, settings) {
            every.stage_of = stage_of;
            every.staff(used, &mut Vec::new());
        }
        every.best_ns
    }

    fn cluster(&self) -> &'a ClusterSpec {
        self.spec.cluster.as_ref().expect("a cluster")
    }

    fn kinds(&self) -> &'a [DeviceKindSpec] {
        &self.cluster().device_kinds
    }

    fn at(&self, name: &str) -> usize {
        self.stage_of[self.layer(name)]
    }

    fn layer(&self, name: &str) -> usize {
        let mut layers = self.spec.network.layers.iter();
        layers.position(|layer| layer.id == name).expect("a layer")
    }

    /// Puts the stages on devices, one after the other.
    fn staff(&mut self, used: usize, stages: &mut Vec<Placed>) {
        if stages.len() == used {
            if let Some(each) = self.each_ns(stages) {
                let ns = longest_ns(&each, self.settings);
                self.best_ns = Some(self.best_ns.map_or(ns, |best| best.min(ns)));
            }
            return;
        }
        let nodes = self.cluster().link.as_ref().and_then(|link| link.nodes.clone());
        let mut before = 0;
        for (kind, of) in self.kinds().iter().enumerate() {
            let taken = stages.iter().filter(|own| own.kind == kind);
            let first = before + taken.map(|own| own.tensor).sum::<usize>();
            before += of.count.expect("a count");
            for tensor in [1, 2] {
                let own = Placed { first, tensor, kind };
                let is_inside =
                    (nodes.as_ref()).is_none_or(|of| own.first / of.devices == own.last() / of.devices);
                let ascends = self.settings.device_order == DeviceOrder::Free
                    || stages.last().is_none_or(|before| before.kind <= kind);
                let is_alike = !self.settings.uniform || stages.iter().all(|one| one.tensor == tensor);
                if own.last() < before
                    && self.settings.tensor.allows(tensor)
                    && is_alike
                    && ascends
                    && is_inside
                    && self.fits(stages.len(), own)
                {
                    stages.push(own);
                    self.staff(used, stages);
                    stages.pop();
                }
            }
        }
    }

    /// The modes of a stage's layers; `None` where one has none.
    fn modes(&self, stage: usize, placed: Placed) -> Option<Vec<&'a ModeSpec>> {
        let layers = self.spec.network.layers.iter().zip(&self.stage_of);
        let held = layers.filter(|(_, at)| **at == stage).map(|(layer, _)| layer);
        held.map(|layer| layer.modes.iter().find(|mode| mode.tensor == Some(placed.tensor)))
            .collect()
    }

    fn fits(&self, stage: usize, placed: Placed) -> bool {
        let Some(modes) = self.modes(stage, placed) else {
            return false;
        };
        let asked = &self.spec.pipeline;
        let given = asked
            .memory_limit
            .and_then(MemoryLimit::bytes)
            .map(|bytes| bytes as f64);
        let own = self.kinds()[placed.kind].memory_bytes;
        let limit = given.or(own).unwrap_or(f64::INFINITY);
        let of = self.spec.network.micro_batch.as_ref().map_or(0.0, |of| of.tokens);
        let read: f64 = self.chunks.iter().map(|[_, part]| (part * of).round()).sum();
        let tokens = read.max(asked.tokens.unwrap_or(0) as f64);
        let held = modes
            .iter()
            .map(|mode| mode.parameter_bytes + mode.resident_bytes + tokens * mode.kv_bytes_per_token);
        let workspace = modes.iter().map(|mode| mode.workspace_bytes).fold(0.0, f64::max);
        held.sum::<f64>() + workspace <= limit
    }

    /// The link between devices of two kinds, and whether it lies inside a node.
    fn link(&self, [one, other]: [(usize, usize); 2]) -> (LinkSpec, bool) {
        let main = self.cluster().link.as_ref().expect("a link");
        if let Some(nodes) = &main.nodes
            && one.0 / nodes.devices == other.0 / nodes.devices
        {
            return (nodes.link.clone(), true);
        }
        (self.link_apart([one.1, other.1]), false)
    }

    fn link_apart(&self, kinds: [usize; 2]) -> LinkSpec {
        let names = kinds.map(|kind| &self.kinds()[kind].name);
        let is_it = |pair: &&PairLinkSpec| {
            let [one, other] = &pair.between;
            [one, other] == names || [other, one] == names
        };
        let main = self.cluster().link.clone().expect("a link");
        match self.cluster().links.iter().find(is_it) {
            None => main,
            Some(pair) => LinkSpec {
                bandwidth_bytes_per_s: pair.bandwidth_bytes_per_s,
                latency_ms: pair.latency_ms,
                ..main
            },
        }
    }

    /// What each chunk takes on each stage to come in, to be worked on and to leave; `None` where some layer has no time there.
    fn each_ns(&self, stages: &[Placed]) -> Option<Vec<Vec<[u64; 3]>>> {
        let of_stage = |(k, placed): (usize, &Placed)| {
            let modes = self.modes(k, *placed)?;
            let nodes = self.cluster().link.as_ref().and_then(|link| link.nodes.clone());
            let group = nodes
                .filter(|nodes| placed.tensor <= nodes.devices)
                .map_or_else(|| self.link_apart([placed.kind; 2]), |nodes| nodes.link);
            let of_chunk = |&[before, part]: &[f64; 2]| {
                let pairs = part * (2.0 * before + part);
                let mut ns = 0;
                for mode in &modes {
                    ns += layer_ns(&as_layer(mode), &self.kinds()[placed.kind], [part, pairs])?;
                    let bytes = (part * mode.collective_bytes).round();
                    // A ring of two moves all of it once.
                    ns += (f64::from(u8::from(placed.tensor > 1)) * bytes / group.bandwidth_bytes_per_s * 1e9)
                        .round() as u64;
                }
                let [received, sent] = self.moved_ns(k, stages, part);
                Some([received, ns, sent])
            };
            self.chunks.iter().map(of_chunk).collect()
        };
        stages.iter().enumerate().map(of_stage).collect()
    }

    /// What a stage receives and sends for so much of a micro-batch.
    fn moved_ns(&self, k: usize, stages: &[Placed], part: f64) -> [u64; 2] {
        let mut sums = [0; 2];
        if self.settings.communication == Communication::Ignored {
            return sums;
        }
        for tensor in &self.spec.network.tensors {
            let home = self.at(&tensor.producer);
            let mut away: BTreeSet<usize> = tensor.consumers.iter().map(|to| self.at(to)).collect();
            away.remove(&home);
            let link_to = |stage: usize| {
                let [from, to] = [stages[home], stages[stage]];
                self.link([(from.last(), from.kind), (to.first, to.kind)])
            };
            let extra = |layer: &str, other: &str, is_leaving: bool| {
                let at = self.layer(layer);
                let tensor = stages[self.stage_of[at]].tensor;
                let own = self.spec.network.layers[at].modes.iter();
                let mode = own
                    .clone()
                    .find(|mode| mode.tensor == Some(tensor))
                    .expect("a mode");
                let bytes = if is_leaving {
                    &mode.output_bytes
                } else {
                    &mode.input_bytes
                };
                (part * bytes.get(other).copied().unwrap_or(0.0)).round()
            };
            let moving = |link: &LinkSpec, beside: f64| moving_ns(tensor, link, [part, beside]);
            let readers = tensor.consumers.iter().filter(|to| self.at(to) != home);
            if away.contains(&k) {
                let own = readers.clone().filter(|to| self.at(to) == k);
                let beside = own
                    .map(|to| extra(to, &tensor.producer, false))
                    .fold(0.0, f64::max);
                sums[0] += moving(&link_to(k).0, beside);
            }
            if home == k && !away.is_empty() {
                // Out of a node is farthest, then over the least bandwidth, then with the most latency.
                let farthest = away.iter().map(|&stage| link_to(stage)).max_by(|one, other| {
                    (other.1.cmp(&one.1))
                        .then(
                            other
                                .0
                                .bandwidth_bytes_per_s
                                .total_cmp(&one.0.bandwidth_bytes_per_s),
                        )
                        .then(one.0.latency_ms.total_cmp(&other.0.latency_ms))
                });
                let beside = readers
                    .map(|to| extra(&tensor.producer, to, true))
                    .fold(0.0, f64::max);
                sums[1] += moving(&farthest.expect("some stage").0, beside);
            }
        }
        sums
    }
}

/// What a tensor takes over a link for so much of a micro-batch, with what moves beside it.
fn moving_ns(tensor: &TensorSpec, link: &LinkSpec, [part, beside]: [f64; 2]) -> u64 {
    let ns = |bytes: f64| bytes / link.bandwidth_bytes_per_s * 1e9;
    let latency = 1e6 * link.latency_ms;
    let bytes = (part * tensor.bytes.unwrap_or(0.0)).round();
    let (own, latency_beside) = match tensor.transfer_ms {
        Some(ms) => ((part * (1e6 * ms).round()).round(), 0.0),
        None if bytes > 0.0 => ((ns(bytes) + latency).round(), 0.0),
        None => (0.0, latency),
    };
    let beside = if beside > 0.0 {
        (ns(beside) + latency_beside).round()
    } else {
        0.0
    };
    (own + beside) as u64
}

fn ns(ms: f64) -> u64 {
    (1e6 * ms).round() as u64
}

/// What came of a problem.
#[derive(Clone, Copy, PartialEq)]
enum Came {
    Proved,
    Found,
    Infeasible,
}

/// Compares a problem that is not refused with all plans: a plan that is proved is the best, what is proved of all holds of the best, the checker accepts
/// what is found and it runs as it says.
fn compare(seed: u64) -> Option<Came> {
    let spec = drawn(seed);
    // Some layer may have times on a kind alone that is not there.
    let instance = Instance::from_spec(&spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let best = Every::search(&spec, &settings);
    let plan = match solve(&instance, &Options::default()) {
        Ok(plan) => plan,
        Err(error) if error.to_string().contains("under `all_stages`") => return None,
        Err(error) => panic!("seed {seed}: {error}"),
    };
    assert_eq!(check(&instance, &settings, &plan), [], "seed {seed}");
    let lower = bound(&instance, &Options::default(), Watch::default()).expect("a bound");
    let holds = |plan: &Plan| plan.bound_ms.map_or(0, ns) <= best.unwrap_or(u64::MAX);
    assert!(
        holds(&plan) && holds(&lower),
        "seed {seed}: {best:?} {:?} {:?}",
        plan.bound_ms,
        lower.bound_ms
    );
    let found = plan.objective_ms.map(ns);
    match plan.status {
        Status::Optimal => assert_eq!(found, best, "seed {seed}"),
        Status::Infeasible => assert_eq!(best, None, "seed {seed}"),
        _ => assert!(
            found.is_some() && found >= best,
            "seed {seed}: {found:?} {best:?}"
        ),
    }
    if let Some(found) = found {
        let run = simulate(&plan, &Request::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(ns(run.iteration_ms), found, "seed {seed}");
    }
    Some(match plan.status {
        Status::Optimal => Came::Proved,
        Status::Infeasible => Came::Infeasible,
        _ => Came::Found,
    })
}

#[test]
fn tensor_groups_read_prompts_as_soon_as_by_brute_force() {
    let came: Vec<Came> = seeds(1_500).into_par_iter().filter_map(compare).collect();
    let count = |of: Came| came.iter().filter(|&&own| own == of).count();
    let [proved, found] = [Came::Proved, Came::Found].map(count);
    println!("{} compared, {proved} proved, {found} found", came.len());
    assert!(came.len() > 800 && proved > 400 && found < proved / 10);
}
