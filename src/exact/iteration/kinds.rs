//! What stages with modes may be: of one tensor degree and number of replicas all, so that each replica of a plan is a pipeline of single devices
//! of its own; or of any.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::options::{Left, StageOption, StageOptions, Stock};
use super::simple::simple_bound;
use super::sums::KnownSums;
use crate::exact::modal::plan_of;
use crate::model::settings::Settings;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{
    INSIDE, Knapsack, LayerWays, Memory, ModalItem, ModalTransfer, Modes, Passes, StageMode, Way, Ways,
    passes_of,
};
use crate::problem::{Assignment, Problem, Transfer};

/// Plans whose stages have some of these modes.
pub(super) struct Kinds<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    /// The modes.
    list: Vec<StageMode>,
    pipeline: Problem,
    /// The same between nodes, where it is known which boundaries lie there.
    apart: Option<Problem>,
    /// Whether ways of a layer differ in their backward passes alone.
    has_one_forward: bool,
    /// Whether no others than the ways that take least in all make a pass shorter.
    is_told: bool,
    /// For every item, the first that takes and holds the same.
    alike: Vec<usize>,
    /// Ways to run stages of such items.
    known: Mutex<HashMap<Vec<usize>, Vec<StageOption>>>,
}

/// The same before anything of it is laid out: there are many, and few are looked for.
pub(super) struct KindFamily<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    list: Vec<StageMode>,
    /// The most stages where all are alike, else devices.
    most: usize,
    bound_ns: u64,
}

impl<'a> KindFamily<'a> {
    /// All plans whose stages are of these modes; `None` where some item has no mode of them, or devices are too few.
    pub(super) fn new(
        problem: &'a Problem,
        (modes, known): (&'a Modes, &mut KnownSums),
        list: Vec<StageMode>,
    ) -> Option<Self> {
        let most = match list.as_slice() {
            [mode] => {
                let most_stages = modes.most_stages().unwrap_or(usize::MAX);
                modes.most_of(mode).min(problem.stages()).min(most_stages)
            }
            _ => modes.devices,
        };
        if most == 0 || (problem.settings.all_stages && most < problem.stages()) {
            return None;
        }
        let sums = known.of(list.iter().map(|mode| mode.degree).collect())?;
        let bound_ns = match list.as_slice() {
            [mode] => {
                let row = Settings {
                    stages: most,
                    ..problem.settings.with_chunks(most, 1).of_replica(mode.replicas)
                };
                sums.of_stages_ns(modes, mode, &row)
            }
            // Replicas work side by side: one micro-batch has to pass.
            _ => sums.way_ns(),
        };
        Some(Self {
            problem,
            modes,
            list,
            most,
            bound_ns,
        })
    }

    /// No plan takes less, in ns, as far as that is seen at once; `u64::MAX` where there is none.
    pub(super) fn bound_ns(&self) -> u64 {
        self.bound_ns
    }

    /// Its plans. What depends on where in its node a stage lies counts at the least that it may be.
    pub(super) fn laid(&self) -> Option<Kinds<'a>> {
        let share = match self.list.as_slice() {
            [mode] => mode.replicas,
            _ => 1,
        };
        let row = self.problem.of_replica(share, self.most);
        let mut pipeline = of_least(row, self.modes, &self.list)?;
        // Units that are no stages need not all be taken.
        pipeline.settings.all_stages &= self.list.len() == 1;
        // Of several rows nobody knows where the next stage lies.
        let is_told = self.list.len() > 1 && self.modes.rows.len() == 1 && self.modes.links.node.is_some();
        let apart = is_told.then(|| between_nodes(pipeline.clone(), self.modes, &self.list));
        let items = self.modes.items.iter().flatten().flatten();
        let layers = items.flat_map(|item| &item.layers).chain(self.modes.together());
        let layers: Vec<&LayerWays> = layers.collect();
        let has_one_forward = layers.iter().all(|layer| layer.has_one_forward());
        let is_told = match &self.modes.shares {
            Some(shares) if shares.is_sum() => true,
            Some(shares) if !shares.are_apart() => layers.iter().all(|layer| layer.ways.len() == 1),
            Some(_) | None => has_one_forward,
        };
        Some(Kinds {
            problem: self.problem,
            modes: self.modes,
            list: self.list.clone(),
            pipeline,
            apart,
            has_one_forward,
            is_told,
            alike: alike(self.modes),
            known: Mutex::default(),
        })
    }
}

impl Kinds<'_> {
    /// No plan takes less, in ns, without a search.
    pub(super) fn bound_ns(&self) -> u64 {
        match self.is_one() {
            true => simple_bound(&self.pipeline).1,
            // Replicas work side by side: one micro-batch has to pass.
            false => self.pipeline.work_ns(),
        }
    }

    /// Whether stages are alike, so that each replica of a plan is a row of single devices.
    pub(super) fn is_one(&self) -> bool {
        self.list.len() == 1
    }

    /// What a stage of these items takes once an iteration, at least, in ns.
    fn once_ns(&self, members: &[usize], mode: &StageMode) -> u64 {
        let bytes = self.modes.once_bytes(members, mode.degree).unwrap_or_default();
        let levels = ring_levels(self.modes, mode, self.is_one());
        let ns = levels.map(|level| self.modes.exchange_ns(bytes, mode, level));
        ns.min().unwrap_or(0) + self.modes.least_sums_ns(members, mode.degree)
    }

    /// The least forward, backward and whole work of a stage with so many replicas behind it, in ns; `None` where it has no memory then.
    fn works_ns(&self, stage: &StageOf, behind: usize) -> Option<([u64; 2], u64)> {
        let (modes, mode) = (self.modes, stage.mode);
        let in_flight = modes.flight.of(mode.replicas, behind);
        let ways = modes.knapsack.within(&stage.layers, in_flight, stage.room)?;
        if modes.shares.is_some() {
            return Some(self.works_on_shares_ns(stage, &ways));
        }
        let [forward_ns, backward_ns] = least_works(stage.layers.iter().copied(), Way::passes);
        // Where ways differ in their backward passes alone, that is what the ways take; else no way takes less in either.
        let backward_ns = match self.has_one_forward {
            true => ways.time - forward_ns,
            false => backward_ns,
        };
        Some(([forward_ns, backward_ns], ways.time))
    }

    /// The same on shares, in the ways that take least; the second time is that of the longer phase.
    fn works_on_shares_ns(&self, stage: &StageOf, ways: &Ways) -> ([u64; 2], u64) {
        let whole = passes_of(&stage.layers, &ways.ways);
        let works_ns = self.modes.run_together(stage.mode.degree, whole);
        let busy_ns = self.modes.busy(works_ns);
        // Others may take less in one of the phases.
        let least_ns = least_works(stage.layers.iter().copied(), Way::adds);
        match (self.is_told, self.has_one_forward) {
            (true, _) => (works_ns, busy_ns),
            (false, true) => (least_ns, busy_ns),
            (false, false) => (least_ns, least_ns.iter().sum()),
        }
    }

    /// Adds the ways to run these items in one of the modes.
    fn add_options(&self, members: &[usize], tag: usize, options: &mut Vec<StageOption>) {
        let mode = &self.list[tag];
        let (Some(layers), Some(room)) = (
            self.modes.layers_of(members, mode.degree),
            self.modes.room(members, mode),
        ) else {
            return;
        };
        let stage = StageOf { mode, layers, room };
        // The pipeline's micro-batches are those of a replica where all are alike.
        let [units, replicas] = match self.is_one() {
            true => [0, 1],
            false => [self.modes.devices_of(mode), mode.replicas],
        };
        let option = |(works_ns, work_ns), most_left| StageOption {
            works_ns,
            work_ns,
            most_left,
            units: units as u32,
            replicas: replicas as u32,
            once_ns: self.once_ns(members, mode),
            tag: tag as u32,
        };
        let works_ns = |left: usize| self.works_ns(&stage, (left - replicas) * mode.replicas / replicas);
        let most = replicas.max(self.stock().most.replicas as usize);
        let mut left = replicas;
        // The farther from the end, the more is in flight and the longer it takes.
        while let Some(works) = (left <= most).then(|| works_ns(left)).flatten() {
            let (mut same, mut other) = (left, most + 1);
            while other - same > 1 {
                // First whether it is so for all that are left.
                let middle = if same == left && other == most + 1 {
                    most
                } else {
                    same + (other - same) / 2
                };
                match works_ns(middle) == Some(works) {
                    true => same = middle,
                    false => other = middle,
                }
            }
            options.push(option(works, same as u32));
            left = other;
        }
    }
}

/// A stage at a mode.
struct StageOf<'a> {
    mode: &'a StageMode,
    layers: Vec<&'a LayerWays>,
    /// What a device has for them.
    room: Memory,
}

impl StageOptions for Kinds<'_> {
    fn pipeline(&self) -> &Problem {
        &self.pipeline
    }

    fn is_complete(&self) -> bool {
        self.is_told
    }

    fn memory_is_joint(&self) -> bool {
        self.modes.memory_is_joint()
    }

    fn stock(&self) -> Stock {
        if self.is_one() {
            return Stock::of_line(&self.pipeline);
        }
        let [units, all] = [
            self.modes.devices as u64,
            self.pipeline.settings.run_micro_batches(),
        ];
        let replicas = match self.modes.flight.counts_behind() {
            true => units.min(all),
            false => 0,
        };
        Stock {
            most: Left {
                units: units as u32,
                replicas: replicas as u32,
            },
            least_replicas: 0,
            is_open: true,
        }
    }

    fn between_nodes(&self) -> Option<(u32, &Problem)> {
        let node = self.modes.links.node? as u32;
        self.apart.as_ref().map(|pipeline| (node, pipeline))
    }

    fn may_begin(&self, tag: u32, left: u32) -> bool {
        let first = self.modes.devices - left as usize;
        self.apart.is_none() || self.modes.groups_fit(first, &self.list[tag as usize])
    }

    fn tags(&self) -> u32 {
        self.list.len() as u32
    }

    fn may_follow(&self, ahead: u32, behind: u32) -> bool {
        let [ahead, behind] =
            [ahead, behind].map(|tag| self.modes.degrees[self.list[tag as usize].degree].row);
        self.modes.may_follow(ahead, behind)
    }

    fn most_replicas(&self) -> u64 {
        match self.is_one() {
            true => 1,
            false => self
                .list
                .iter()
                .map(|mode| mode.replicas as u64)
                .max()
                .unwrap_or(1),
        }
    }

    fn options(&self, members: &[usize]) -> Vec<StageOption> {
        if !self.problem.admits_together(members) {
            return Vec::new();
        }
        let held = members.iter().map(|&item| self.alike[item]).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let options = known.entry(held).or_insert_with(|| {
            let mut options = Vec::new();
            for tag in 0..self.list.len() {
                self.add_options(members, tag, &mut options);
            }
            options
        });
        options.clone()
    }

    fn plan(&self, assignment: Assignment, tags: &[u32]) -> Option<Allocation> {
        let (assignment, used) = cost::without_empty_stages(&assignment);
        let mode = |stage: usize| self.list[tags.get(stage).map_or(0, |&tag| tag as usize)];
        let mut stages: Vec<(Vec<usize>, StageMode)> = (0..used).map(|k| (Vec::new(), mode(k))).collect();
        for (item, &stage) in assignment.iter().enumerate() {
            stages[stage].0.push(item);
        }
        let (assignment, chosen) = plan_of(self.modes, &stages)?;
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(assignment)
        })
    }
}

/// For every item, the first that takes and holds the same in every mode, so that stages of either are run in the same ways.
fn alike(modes: &Modes) -> Vec<usize> {
    // What depends on which block a layer is of, on tables that others share, or on where its other pass is, is its own.
    let is_own = |item: usize| {
        matches!(modes.knapsack, Knapsack::FirstBlocks(_))
            || modes.copies_of(item).next().is_some()
            || modes.has_other_pass(item)
    };
    let mut firsts: Vec<usize> = Vec::new();
    let of_item = |item: usize| {
        let is_first = |first: &&usize| {
            let both = modes.items[**first].iter().zip(&modes.items[item]);
            !is_own(**first)
                && both
                    .into_iter()
                    .all(|(one, other)| are_alike(one.as_ref(), other.as_ref()))
        };
        let first = firsts.iter().find(is_first).filter(|_| !is_own(item)).copied();
        if first.is_none() {
            firsts.push(item);
        }
        first.unwrap_or(item)
    };
    (0..modes.items.len()).map(of_item).collect()
}

/// Whether items take and hold the same at a degree.
fn are_alike(one: Option<&ModalItem>, other: Option<&ModalItem>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_none() && other.is_none();
    };
    let ways = one.layers.iter().map(|layer| &layer.ways);
    one.once_bytes == other.once_bytes
        && one.shared_bytes == other.shared_bytes
        && ways.eq(other.layers.iter().map(|layer| &layer.ways))
}

/// The pipeline with items and transfers that take what they do in any of the modes at least; `None` where some item has none of them.
pub(super) fn of_least(mut pipeline: Problem, modes: &Modes, list: &[StageMode]) -> Option<Problem> {
    for (item, of_degrees) in pipeline.items.iter_mut().zip(modes.items.iter()) {
        let [forward_ns, backward_ns] = least_works_in(of_degrees, list)?;
        (item.forward_ns, item.backward_ns, item.weight_ns) = (forward_ns, backward_ns, 0);
    }
    for (transfer, of_levels) in pipeline.transfers.iter_mut().zip(modes.transfers.iter()) {
        *transfer = least_transfer(modes, list, of_levels);
    }
    Some(pipeline)
}

/// The pipeline with transfers that take what they do between nodes in any of the modes at least.
fn between_nodes(mut pipeline: Problem, modes: &Modes, list: &[StageMode]) -> Problem {
    let level = modes.links.level_between([0, 0], false);
    for (transfer, of_levels) in pipeline.transfers.iter_mut().zip(modes.transfers.iter()) {
        let costs = list.iter().map(|mode| least_at(of_levels, mode, level));
        *transfer = transfer_at(of_levels, costs.min().unwrap_or(0));
    }
    pipeline
}

/// Forward and backward work of an item in the modes that take least in either; `None` where it has none of them.
pub(super) fn least_works_in(of_degrees: &[Option<ModalItem>], list: &[StageMode]) -> Option<[u64; 2]> {
    let of_degree = |mode: &StageMode| {
        let layers = &of_degrees[mode.degree].as_ref()?.layers;
        Some(least_works(layers.iter(), Way::adds))
    };
    list.iter().filter_map(of_degree).reduce(least)
}

fn least(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].min(other[0]), one[1].min(other[1])]
}

/// Forward and backward work of layers in the ways that take least in either, with what their tensor group reduces.
fn least_works<'l>(layers: impl Iterator<Item = &'l LayerWays>, of: fn(&Way) -> [u64; 2]) -> [u64; 2] {
    let mut sum = [0, 0];
    for layer in layers {
        let works = layer.ways.iter().map(of);
        let works = works.reduce(least).unwrap_or_default();
        sum = [sum[0] + works[0], sum[1] + works[1]];
    }
    sum
}

/// The levels that the ring of a stage of a mode may lie at; where all stages are of it, each begins behind as many devices of the others.
pub(super) fn ring_levels(
    modes: &Modes,
    mode: &StageMode,
    is_only: bool,
) -> impl Iterator<Item = usize> + Clone {
    let (devices, row) = (modes.devices_of(mode), modes.degrees[mode.degree].row);
    let first = modes.rows[row].first;
    let [inside, apart] = match modes.links.node {
        None => [false, true],
        Some(node) => [
            devices <= node,
            devices > 1 && !(is_only && node.is_multiple_of(devices) && first.is_multiple_of(devices)),
        ],
    };
    let apart = apart.then(|| modes.links.level_between([row, row], false));
    inside.then_some(INSIDE).into_iter().chain(apart)
}

/// What a transfer costs at least where it crosses a boundary.
fn least_transfer(modes: &Modes, list: &[StageMode], of: &ModalTransfer) -> Transfer {
    let is_aligned = |mode: &StageMode, node: usize| {
        let first = modes.row(mode.degree).first;
        modes.devices_of(mode).is_multiple_of(node) && first.is_multiple_of(node)
    };
    let all_between = |node: usize| list.len() == 1 && is_aligned(&list[0], node);
    let rows = list.iter().map(|mode| modes.degrees[mode.degree].row);
    let levels: Vec<usize> = match modes.links.node {
        // Boundaries lie where nodes end.
        Some(node) if all_between(node) => rows
            .map(|row| modes.links.level_between([row, row], false))
            .collect(),
        _ => modes.links.of_rows(rows),
    };
    let costs = list
        .iter()
        .flat_map(|mode| levels.iter().map(move |&level| least_at(of, mode, level)));
    transfer_at(of, costs.min().unwrap_or(0))
}

/// What either side of a transfer pays at least over a link of a level, in ns.
pub(super) fn least_at(of: &ModalTransfer, mode: &StageMode, level: usize) -> u64 {
    let beside = of.leaving[mode.degree].iter().chain(&of.entering[mode.degree]);
    of.ticks[level] + beside.map(|ticks| ticks[level]).min().unwrap_or(0)
}

/// A transfer for which either side pays so much.
pub(super) fn transfer_at(of: &ModalTransfer, ns: u64) -> Transfer {
    let [forward_ns, backward_ns, gradient_ns] = match of.passes {
        Passes::Forward => [ns, 0, 0],
        Passes::Backward => [0, ns, 0],
        Passes::Both => [ns - ns / 2, 0, ns / 2],
        Passes::Gradient => [0, 0, ns],
    };
    Transfer {
        producer: of.producer,
        consumers: of.consumers.clone(),
        forward_ns,
        backward_ns,
        gradient_ns,
    }
}
