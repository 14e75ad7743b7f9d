//! What a prompt takes that is read chunk by chunk: a flow shop whose jobs, the chunks, come in one order and differ. The symbols are those of
//! `formulations/prompt.md`.

use std::collections::BTreeMap;

use crate::model::instance::Instance;
use crate::model::prompt::Prompt;
use crate::model::settings::Settings;
use crate::problem::modes::{Chosen, ModalItem, Modes, Part};
use crate::problem::tables::Copies;
use crate::problem::{Assignment, Item, Problem, Transfer};

/// Times of each chunk of a prompt, in ns.
type Each = Box<[u64]>;

/// What each chunk takes on each machine that a stage is: the device, which receives, works and sends in turn, or where transfers are beside the work the
/// link in, the device, and the link out.
pub(crate) type Machines = Vec<Vec<u64>>;

/// What items and transfers take for each chunk of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// By kind in play, of each item; `None` where the kind cannot run it.
    items: Vec<Vec<Option<Each>>>,
    /// Of each transfer, on either side.
    transfers: Vec<Each>,
    /// How many chunks there are.
    pub(crate) chunks: usize,
    /// How many machines each stage is.
    pub(crate) machines: usize,
    /// Where stages have modes, what they are made of for each chunk, and nothing of the above.
    pub(crate) modes: Vec<Modes>,
}

impl Problem {
    /// The times of chunks, where the objective is to read them.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        self.reads.as_deref().filter(|_| self.settings.reads_prompt())
    }
}

impl Reads {
    /// Those of the prompt that is asked for, where stages have modes: for each chunk the modes of the [instance as it sees it](Instance::of_chunk).
    pub(super) fn in_modes(
        instance: &Instance,
        settings: &Settings,
        (items, copies): (&[Vec<Part>], &[Copies]),
    ) -> Option<Self> {
        let prompt = settings.prompt.as_ref().filter(|_| settings.modal)?;
        let modes = prompt.chunks().into_iter().map(|chunk| {
            let of_chunk = instance.of_chunk(chunk, prompt);
            Modes::new(&of_chunk, settings, (items, copies))
        });
        let modes: Vec<Modes> = modes.collect();
        Some(Self {
            items: Vec::new(),
            transfers: Vec::new(),
            chunks: modes.len(),
            machines: machines(settings),
            modes,
        })
    }

    /// Those of the prompt that is asked for, if one is.
    pub(super) fn new(
        instance: &Instance,
        settings: &Settings,
        items: &[Item],
        transfers: &[Transfer],
    ) -> Option<Self> {
        let prompt = settings.prompt.as_ref()?;
        let on_kind = |&kind: &usize| {
            let of_item = |item: &Item| each_of_item(instance, (prompt, kind), item);
            items.iter().map(of_item).collect()
        };
        Some(Self {
            items: settings.kinds.iter().map(on_kind).collect(),
            transfers: each_of_transfers(instance, (settings, prompt), items, transfers),
            chunks: prompt.chunks().len(),
            machines: machines(settings),
            modes: Vec::new(),
        })
    }

    /// What each chunk takes on the machines of a stage, on a device of a kind in play; `None` where it cannot run some item.
    ///
    /// * `members`: the items of the stage, which are those that are `inside`.
    ///
    /// Time O(members, and what they make and read, times the chunks).
    pub(crate) fn stage_ns(
        &self,
        problem: &Problem,
        members: &[usize],
        inside: impl Fn(usize) -> bool,
        class: usize,
    ) -> Option<Machines> {
        let mut sums = vec![vec![0; self.chunks]; self.machines];
        let mut add = |machine: usize, each: &Each| {
            let both = sums[machine].iter_mut().zip(each);
            both.for_each(|(sum, ns)| *sum += ns);
        };
        for &item in members {
            add(self.device(), self.items[class][item].as_ref()?);
        }
        let workers = problem.workers.as_ref();
        if workers.is_none_or(|workers| workers.classes[class].pays_communication) {
            let touched = members.iter().flat_map(|&item| &problem.transfers_of[item]);
            let mut touched: Vec<usize> = touched.copied().collect();
            touched.sort_unstable();
            touched.dedup();
            // One that a member makes or reads is here.
            let crosses = |t: &usize| problem.transfers[*t].items().any(|item| !inside(item));
            for t in touched.into_iter().filter(crosses) {
                let leaves = inside(problem.transfers[t].producer);
                add(self.link(leaves), &self.transfers[t]);
            }
        }
        Some(sums)
    }

    /// When chunks get to the first stage: see [`pass`].
    pub(crate) fn at_the_start(&self) -> Vec<u64> {
        vec![0; self.chunks * self.times_of_a_chunk()]
    }

    /// What is known of a chunk between two stages: when it is there, and where links are machines of their own when it began to be sent.
    pub(crate) fn times_of_a_chunk(&self) -> usize {
        self.machines.div_ceil(2)
    }

    /// The machine that works.
    pub(crate) fn device(&self) -> usize {
        self.machines / 2
    }

    /// The machine that tensors come in on, or leave on.
    pub(crate) fn link(&self, leaves: bool) -> usize {
        if leaves { self.machines - 1 } else { 0 }
    }

    /// The time until the last stage of a plan has read the last chunk; `u64::MAX` where some device cannot run its stage.
    ///
    /// * `choices`: what each stage runs on, where workers differ; stages are not empty.
    pub(crate) fn run_ns(&self, problem: &Problem, assignment: &Assignment, choices: &[usize]) -> u64 {
        let stages = self.stages_ns(problem, assignment, choices);
        stages.map_or(u64::MAX, |stages| self.last_ns(&stages))
    }

    /// The time until the last of stages has read the last chunk, each of which takes so long there.
    fn last_ns(&self, stages: &[Machines]) -> u64 {
        let mut left = self.at_the_start();
        for machines in stages {
            pass(&mut left, machines.len(), |machine, chunk| {
                machines[machine][chunk]
            });
        }
        left[..self.chunks].last().copied().unwrap_or(0)
    }

    /// The same of stages in modes.
    pub(crate) fn modal_run_ns(&self, assignment: &[usize], chosen: &Chosen) -> u64 {
        let stages = self.modal_stages_ns(assignment, chosen);
        stages.map_or(u64::MAX, |stages| self.last_ns(&stages))
    }

    /// What each chunk takes on the machines of each stage in modes; `None` where some layer has no such mode.
    pub(crate) fn modal_stages_ns(&self, assignment: &[usize], chosen: &Chosen) -> Option<Vec<Machines>> {
        let mut stages = vec![vec![vec![0; self.chunks]; self.machines]; chosen.stages.len()];
        for (at, modes) in self.modes.iter().enumerate() {
            let costs = modes.stages(assignment, chosen)?;
            for (machines, cost) in stages.iter_mut().zip(&costs.stages) {
                let [moved, _] = cost.moved;
                machines[self.link(false)][at] += moved.received;
                machines[self.device()][at] += cost.passes().iter().sum::<u64>();
                machines[self.link(true)][at] += moved.sent;
            }
        }
        Some(stages)
    }

    /// What each chunk takes on the machines of each stage of a plan, likewise.
    pub(crate) fn stages_ns(
        &self,
        problem: &Problem,
        assignment: &Assignment,
        choices: &[usize],
    ) -> Option<Vec<Machines>> {
        let used = assignment.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); used];
        assignment
            .iter()
            .enumerate()
            .for_each(|(item, &stage)| members[stage].push(item));
        let stage_ns = |(stage, members): (usize, &Vec<usize>)| {
            let class = class_of(problem, choices.get(stage).copied().unwrap_or(0));
            self.stage_ns(problem, members, |item| assignment[item] == stage, class)
        };
        members.iter().enumerate().map(stage_ns).collect()
    }

    /// At least what an item takes for each chunk, whatever runs it; nothing where nothing can.
    pub(crate) fn least_ns(&self, item: usize) -> Vec<u64> {
        let in_modes = |modes: &Modes| {
            let of_degrees = modes.items[item].iter().flatten();
            let fastest = |item: &ModalItem| item.layers.iter().map(|layer| layer.ways[0].time()).sum();
            of_degrees.map(fastest).min().unwrap_or(u64::MAX)
        };
        let on_kinds = self.items.iter().filter_map(|items| items[item].as_ref());
        let nothing = match self.modes.is_empty() {
            true => vec![u64::MAX; self.chunks],
            false => self.modes.iter().map(in_modes).collect(),
        };
        let least = on_kinds.fold(nothing, |least, each| {
            least
                .iter()
                .zip(each)
                .map(|(&one, &other)| one.min(other))
                .collect()
        });
        least
            .into_iter()
            .map(|ns| if ns == u64::MAX { 0 } else { ns })
            .collect()
    }
}

/// How many machines a stage is.
fn machines(settings: &Settings) -> usize {
    if settings.communication.has_links() { 3 } else { 1 }
}

/// The kind in play, by position, of a choice of workers: each is one device.
pub(crate) fn class_of(problem: &Problem, choice: usize) -> usize {
    let workers = problem.workers.as_ref();
    let devices = workers.and_then(|workers| {
        workers.choices[choice]
            .devices
            .iter()
            .position(|&devices| devices > 0)
    });
    devices.unwrap_or(0)
}

/// Has chunks pass one more stage, of one machine or three: each goes on where it is there and the one before is done. A link in may start when the link out
/// before it does, and the device when both are done: what runs, and what is simulated.
///
/// * `left`: when each chunk is there, and with three machines when each began to be sent;
/// * `takes`: what a machine takes for a chunk.
pub(crate) fn pass(left: &mut [u64], machines: usize, takes: impl Fn(usize, usize) -> u64) {
    if machines == 1 {
        let mut free_ns = 0;
        for (chunk, there_ns) in left.iter_mut().enumerate() {
            free_ns = free_ns.max(*there_ns) + takes(0, chunk);
            *there_ns = free_ns;
        }
        return;
    }
    let (there_ns, sent_ns) = left.split_at_mut(left.len() / 2);
    let [mut in_ns, mut free_ns, mut out_ns] = [0; 3];
    for (chunk, (there_ns, sent_ns)) in there_ns.iter_mut().zip(sent_ns).enumerate() {
        in_ns = in_ns.max(*sent_ns) + takes(0, chunk);
        free_ns = free_ns.max(in_ns).max(*there_ns) + takes(1, chunk);
        *sent_ns = out_ns.max(free_ns);
        out_ns = *sent_ns + takes(2, chunk);
        *there_ns = out_ns;
    }
}

fn each_of_item(instance: &Instance, (prompt, kind): (&Prompt, usize), item: &Item) -> Option<Each> {
    let layers = item
        .layers
        .iter()
        .map(|&layer| instance.network.layers[layer].readings[kind]);
    let readings: Option<Vec<_>> = layers.collect();
    let readings = readings?;
    let each = prompt.chunks().into_iter();
    let each = each.map(|chunk| readings.iter().map(|reading| reading.ns(chunk, prompt)).sum());
    Some(each.collect())
}

fn each_of_transfers(
    instance: &Instance,
    (settings, prompt): (&Settings, &Prompt),
    items: &[Item],
    transfers: &[Transfer],
) -> Vec<Each> {
    let chunks = prompt.chunks();
    let mut item_of = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        item_of.extend(item.layers.iter().map(|&layer| (layer, at)));
    }
    let position = |(at, transfer): (usize, &Transfer)| ((transfer.producer, transfer.consumers.clone()), at);
    let positions: BTreeMap<(usize, Vec<usize>), usize> =
        transfers.iter().enumerate().map(position).collect();
    let mut all = vec![vec![0; chunks.len()].into_boxed_slice(); transfers.len()];
    for tensor in &instance.network.tensors {
        let Some(&producer) = item_of.get(&tensor.producer) else {
            continue;
        };
        let consumers = tensor.consumers.iter().filter_map(|to| item_of.get(to).copied());
        let mut consumers: Vec<usize> = consumers.filter(|&item| item != producer).collect();
        consumers.sort_unstable();
        consumers.dedup();
        if let Some(&at) = positions.get(&(producer, consumers)) {
            let each = all[at].iter_mut().zip(&chunks);
            each.for_each(|(sum, &chunk)| *sum += settings.chunk_transfer_ns(tensor, chunk, prompt));
        }
    }
    all
}
