//! Which devices run the stages, in the words of those who start ranks.
//!
//! A plan says `kind:number`; a framework knows GPUs by number and, some of them, the CPU. GPUs are numbered as the cluster lists
//! them, kind by kind, and inside of a node from 0: so list kinds as `nvidia-smi -L` does. CUDA itself puts the fastest first unless
//! `CUDA_DEVICE_ORDER=PCI_BUS_ID`.

use super::Ordered;
use super::framework::unsupported;
use crate::model::cluster::DeviceKind;
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;

/// What a rank runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The host.
    Cpu,
    /// So many GPUs, from this one on, among all of the cluster.
    Gpus { first: usize, count: usize },
}

/// A device of the plan and where its stages run.
pub(super) struct RankDevice {
    /// As the plan names it.
    pub name: String,
    /// The first stage that it runs, from 1.
    stage: usize,
    /// What that is.
    pub place: Place,
}

/// The devices of a plan in the order of the ranks that run on them.
pub(super) struct RankDevices {
    /// One for each rank, or for each group of ranks that work as one device.
    pub devices: Vec<RankDevice>,
    /// GPUs of a node; `None` where there is one.
    node: Option<usize>,
    /// Whether any GPU does as well as any other.
    pub(super) alike: bool,
}

impl RankDevices {
    /// Those of the stages, one after the other; of chunks, each device once.
    pub(super) fn of_stages(instance: &Instance, plan: &Plan) -> Result<Self, Fault> {
        let mut named: Vec<(usize, &str)> = Vec::new();
        for stage in &plan.stages {
            for device in &stage.devices {
                if !named.iter().any(|(_, other)| other == device) {
                    named.push((stage.index, device));
                }
            }
        }
        Self::from_names(instance, plan, &named)
    }

    /// Those of an order's lines. A plan of stages for devices of their own says which line runs what on only if all are alike.
    pub(super) fn of_lines(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Result<Self, Fault> {
        let mut named = Vec::new();
        for line in 0..ordered.devices() {
            let own = |stage: &usize| ordered.ranks[*stage] == line;
            let stage = (0..plan.stages.len()).find(own).unwrap_or(0);
            named.push((
                stage + 1,
                plan.stages[stage].devices.first().map_or("", String::as_str),
            ));
        }
        let lines = Self::from_names(instance, plan, &named)?;
        let device = |stage: usize| &plan.stages[stage].devices;
        let apart = (0..plan.stages.len())
            .find(|&stage| device(stage).first().map(String::as_str) != Some(named[ordered.ranks[stage]].1));
        match apart.filter(|_| !lines.alike) {
            None => Ok(lines),
            Some(stage) => Err(unsupported(
                format!("stage {}", stage + 1),
                format!(
                    "`{}`, on one line of the order with stage {} on `{}`",
                    device(stage).join(", "),
                    named[ordered.ranks[stage]].0,
                    named[ordered.ranks[stage]].1
                ),
                "stages of a line on one device, where devices differ",
            )),
        }
    }

    fn from_names(instance: &Instance, plan: &Plan, named: &[(usize, &str)]) -> Result<Self, Fault> {
        let firsts = first_gpus(instance, plan);
        let mut devices = Vec::new();
        for &(stage, name) in named {
            let place = place(instance, &firsts, name).ok_or_else(|| {
                unsupported(
                    format!("stage {stage}"),
                    format!("the device `{name}`"),
                    "one of the cluster",
                )
            })?;
            let name = name.to_owned();
            devices.push(RankDevice { name, stage, place });
        }
        let kinds = &instance.cluster.kinds;
        let gpus = kinds.iter().filter(|kind| !kind.is_cpu());
        let is_one_kind = gpus.count() == 1 || kinds.len() == 1;
        let in_a_row = |(at, device): (usize, &RankDevice)| match device.place {
            Place::Cpu => kinds.len() == 1,
            Place::Gpus { first, count } => first == at * count,
        };
        Ok(Self {
            alike: is_one_kind && devices.iter().enumerate().all(in_a_row),
            node: instance.cluster.nodes.map(|nodes| nodes.devices * kinds[0].gpus),
            devices,
        })
    }

    /// Refuses a stage on a CPU, for what runs GPUs alone. A network that was measured on a CPU and names no other device says nothing of
    /// where it will run.
    pub(super) fn no_cpu(self, runner: &str) -> Result<Self, Fault> {
        let on_cpu = self
            .devices
            .iter()
            .find(|device| device.place == Place::Cpu && !self.alike);
        match on_cpu {
            None => Ok(self),
            Some(device) => Err(unsupported(
                format!("stage {}", device.stage),
                format!("`{}`, a CPU", device.name),
                words!(
                    "a GPU, which is what {} runs stages on; {} and {} take CPUs, {} leaves kinds out",
                    runner,
                    setting::TO.given("accelerate"),
                    setting::TO.given("json"),
                    setting::DEVICE_KINDS
                ),
            )),
        }
    }

    /// Whether every stage lies on a CPU.
    pub(super) fn are_cpus(&self) -> bool {
        self.devices.iter().all(|device| device.place == Place::Cpu)
    }

    /// Refuses a device that is several GPUs, for what runs a stage on one.
    pub(super) fn one_gpu_each(self, runner: &str) -> Result<Self, Fault> {
        match self.devices.iter().find(|device| device.gpus() > 1) {
            None => Ok(self),
            Some(device) => Err(unsupported(
                format!("stage {}", device.stage),
                format!(
                    "`{}`, a node of {} GPUs that work as one",
                    device.name,
                    device.gpus()
                ),
                words!(
                    "one GPU a stage: {} does not split layers; {}, `torchtitan`, `vllm` and `sglang` do",
                    runner,
                    setting::TO.given("megatron")
                ),
            )),
        }
    }

    /// How many GPUs work as one in every device.
    pub(super) fn gpus(&self) -> Result<usize, Fault> {
        let first = self.devices.first().map_or(1, RankDevice::gpus);
        match self.devices.iter().find(|device| device.gpus() != first) {
            None => Ok(first),
            Some(device) => Err(unsupported(
                format!("stage {}", device.stage),
                format!("`{}`, of {} GPUs", device.name, device.gpus()),
                words!(
                    "{} on every stage, as on stage 1; {} takes all",
                    first.to_string(),
                    setting::TO.given("json")
                ),
            )),
        }
    }

    /// The environment in which rank r runs on the device that the plan says, as a shell sets it: a line a node. `None` where ranks
    /// run there anyway, or all devices are alike.
    pub(super) fn environment(&self) -> Result<Option<Environment>, Fault> {
        if self.alike {
            return Ok(None);
        }
        let mut nodes: Vec<(usize, Vec<usize>)> = Vec::new();
        for device in &self.devices {
            let Place::Gpus { first, count } = device.place else {
                continue;
            };
            for gpu in first..first + count {
                let (node, local) = self.node.map_or((0, gpu), |node| (gpu / node, gpu % node));
                let known = nodes.iter().position(|(known, _)| *known == node);
                match known {
                    None => nodes.push((node, vec![local])),
                    Some(at) if at + 1 == nodes.len() => nodes[at].1.push(local),
                    Some(_) => {
                        let found =
                            format!("`{}`, on node {} again after another node", device.name, node + 1);
                        let expected = words!(
                            "the stages of a node in a row, which is how launchers number ranks; {} takes any",
                            setting::TO.given("json")
                        );
                        return Err(unsupported(format!("stage {}", device.stage), found, expected));
                    }
                }
            }
        }
        let named = self
            .devices
            .iter()
            .map(|device| format!("stage {} on {}", device.stage, device.name));
        Ok(Some(Environment {
            nodes,
            devices: named.collect::<Vec<_>>().join(", "),
        }))
    }
}

impl RankDevice {
    fn gpus(&self) -> usize {
        match self.place {
            Place::Cpu => 1,
            Place::Gpus { count, .. } => count,
        }
    }
}

/// What ranks see of the machine they run on.
pub(super) struct Environment {
    /// The nodes in the order of ranks, each with its number from 0 and its GPUs.
    nodes: Vec<(usize, Vec<usize>)>,
    /// Which stage that puts where, in words.
    pub devices: String,
}

impl Environment {
    /// The variables of a node, as they stand before a command.
    fn variables((_, gpus): &(usize, Vec<usize>)) -> String {
        let gpus: Vec<String> = gpus.iter().map(usize::to_string).collect();
        format!(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}",
            gpus.join(",")
        )
    }

    /// Lines that are pasted before a command.
    pub(super) fn shell(&self) -> String {
        match self.nodes.as_slice() {
            [only] => format!("export {}  # {}\n", Self::variables(only), self.devices),
            nodes => {
                let line = |node: &(usize, Vec<usize>)| {
                    format!("# On node {}: export {}\n", node.0 + 1, Self::variables(node))
                };
                format!(
                    "# {}\n{}",
                    self.devices,
                    nodes.iter().map(line).collect::<String>()
                )
            }
        }
    }

    /// Lines of a comment.
    pub(super) fn comment(&self) -> Vec<String> {
        let mut lines = vec![format!("# Devices: {}. Start ranks with:", self.devices)];
        lines.extend(self.nodes.iter().map(|node| match self.nodes.len() {
            1 => format!("#   {}", Self::variables(node)),
            _ => format!("#   on node {}: {}", node.0 + 1, Self::variables(node)),
        }));
        lines
    }

    /// Refuses several nodes, for what sets the same variables on each.
    pub(super) fn of_one_node(self, runner: &str) -> Result<Self, Fault> {
        match self.nodes.len() {
            0 | 1 => Ok(self),
            nodes => Err(unsupported(
                "the plan".into(),
                format!("unlike GPUs on {nodes} nodes ({})", self.devices),
                words!(
                    "one node: {} sets the same GPUs on each; {} and {} take several",
                    runner,
                    setting::TO.given("torch"),
                    setting::TO.given("json")
                ),
            )),
        }
    }

    /// The GPU of every rank, by its number in its node.
    pub(super) fn gpus(&self) -> Vec<usize> {
        self.nodes.iter().flat_map(|(_, gpus)| gpus).copied().collect()
    }
}

/// The number of the first GPU of every kind, as the cluster lists them; kinds without a count have as many as the plan uses.
fn first_gpus(instance: &Instance, plan: &Plan) -> Vec<usize> {
    let used = |kind: &DeviceKind| {
        let devices = plan.stages.iter().flat_map(|stage| &stage.devices);
        devices
            .filter_map(|device| number(device, &kind.name))
            .max()
            .unwrap_or(0)
    };
    let mut next = 0;
    let kinds = instance.cluster.kinds.iter().map(|kind| {
        let first = next;
        if !kind.is_cpu() {
            next += kind.count.unwrap_or(0).max(used(kind)) * kind.gpus;
        }
        first
    });
    kinds.collect()
}

/// The number of a device of this kind, from 1.
fn number(device: &str, kind: &str) -> Option<usize> {
    device.strip_prefix(kind)?.strip_prefix(':')?.parse().ok()
}

fn place(instance: &Instance, firsts: &[usize], device: &str) -> Option<Place> {
    let mut kinds = instance.cluster.kinds.iter().zip(firsts);
    kinds.find_map(|(kind, first)| {
        let number = number(device, &kind.name)?;
        Some(match kind.is_cpu() {
            true => Place::Cpu,
            false => Place::Gpus {
                first: first + number.checked_sub(1)? * kind.gpus,
                count: kind.gpus,
            },
        })
    })
}
