//! SAPP's model of a chain: cut and recomputation that minimise an estimate of an iteration.
//!
//! ```text
//! min  Σ_body X_i + (M - 2) max_k X_k
//! ```
//!
//! `X_i` is the time of layer `i` forward and backward with what is computed again, `X_k` that of all layers of stage `k`, and `M` the
//! number of micro-batches. The sum leaves out head and tail, the first and the last layer where they have nothing to compute again:
//! a constant. Transfers are no part of it, and 1F1B keeps `q - k + 1` micro-batches in flight.
//!
//! The source counts equal layers in an integer program. Here layers may differ and stages are runs of them: for a limit `U` on the
//! longest stage, a dynamic program from the end finds the least sum, with the least time of each stage within its memory. The sum falls
//! and the maximum rises with `U`, and only limits that can beat the best estimate are asked for. Where stages have tensor degrees and
//! replicas, one degree and number of replicas for all of them is tried after the other, with the micro-batches that a replica takes:
//! that part is ours.

use std::collections::HashMap;

use super::uniform;
use super::{Effort, Heuristic, MustStop, Run, orders};
use crate::model::words::Words;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{LayerWays, Modes, StageMode, fastest_within};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "sapp",
    summary: "cut and recomputation that minimise an estimate of an iteration by all layers and the longest stage",
    source: "SAPP, the pipeline balancing of MindSpore's mindformers, 2024; by a dynamic program",
    exact_for: "its own estimate, over stages along the numbering of the items that have one mode",
    effort: Effort::Baseline,
    run: Run::Modal {
        applies,
        run,
        estimate: Some(estimate),
    },
};

/// The most items: runs of them are listed, and the ways of each are chosen.
const MOST_ITEMS: usize = 512;

fn applies(problem: &Problem, _modes: &Modes) -> Result<(), Words> {
    if problem.settings.micro_batches.is_none() {
        return Err("its estimate is of an iteration, which needs a number of micro-batches".into());
    }
    if !problem.settings.mode.trains() {
        return Err("its estimate is of training".into());
    }
    match problem.items.len() > MOST_ITEMS {
        true => Err("it chooses the ways of every run of items, and there are too many".into()),
        false => Ok(()),
    }
}

fn run(problem: &Problem, modes: &Modes, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let mut best: Option<(u128, Allocation)> = None;
    for mode in uniform::stage_modes(modes, 1) {
        let Some(mut model) = Model::new(problem, modes, mode, must_stop) else {
            continue;
        };
        let Some(assignment) = model.best() else { continue };
        let Some(plan) = uniform::plan(modes, assignment, mode, uniform::fastest) else {
            continue;
        };
        let Some(estimate) = estimate(problem, modes, &plan) else {
            continue;
        };
        if best.as_ref().is_none_or(|(least, _)| estimate < *least) {
            best = Some((estimate, plan));
        }
    }
    best.map(|(_, plan)| plan)
}

/// SAPP's estimate of a plan, in ticks; `None` where its stages differ in mode.
pub fn estimate(problem: &Problem, modes: &Modes, plan: &Allocation) -> Option<u128> {
    let chosen = plan.modes.as_ref()?;
    let mode = *chosen.stages.first()?;
    if chosen.stages.iter().any(|other| *other != mode) {
        return None;
    }
    let order = orders::by_number(problem);
    let mut stages = vec![0u64; chosen.stages.len()];
    let mut body = 0u64;
    for (at, &item) in order.iter().enumerate() {
        let layers = &modes.items[item][mode.degree].as_ref()?.layers;
        let time = |layer: &LayerWays| {
            let way = |mode: usize| layer.ways.iter().find(|way| way.mode == mode);
            way(chosen.layers[layer.layer]).map(|way| way.time())
        };
        let time: u64 = layers.iter().map(time).sum::<Option<u64>>()?;
        stages[plan.assignment[item]] += time;
        if !is_end(at, order.len(), layers) {
            body += time;
        }
    }
    let longest = *stages.iter().max()?;
    Some(u128::from(body) + rounds(problem, mode) * u128::from(longest))
}

/// How often the longest stage counts: the micro-batches of a replica but for two.
fn rounds(problem: &Problem, mode: StageMode) -> u128 {
    let all = problem.settings.micro_batches.unwrap_or(1);
    u128::from((all / mode.replicas as u64).saturating_sub(2))
}

/// Whether the item at a place of the order is head or tail.
fn is_end(at: usize, items: usize, layers: &[LayerWays]) -> bool {
    let is_outer = at == 0 || at + 1 == items;
    is_outer && layers.iter().all(|layer| layer.ways.len() == 1)
}

/// The model for stages of one mode.
struct Model<'a> {
    modes: &'a Modes,
    must_stop: MustStop<'a>,
    mode: StageMode,
    order: Vec<usize>,
    /// Numbers of stages that a plan may have.
    stages: std::ops::RangeInclusive<usize>,
    rounds: u128,
    /// The least times of the first items of the order, without memory.
    before: Vec<u64>,
    /// Least times of runs within memory that are known: first item, item behind the last, stages behind.
    known: HashMap<[usize; 3], Option<u64>>,
}

/// Stages along the order.
struct Stages {
    /// Time of all of them.
    sum: u64,
    /// The longest.
    longest: u64,
    assignment: Assignment,
}

impl<'a> Model<'a> {
    /// `None` where some layer lacks the degree.
    fn new(problem: &Problem, modes: &'a Modes, mode: StageMode, must_stop: MustStop<'a>) -> Option<Self> {
        let order = orders::by_number(problem);
        let mut before = vec![0];
        for &item in &order {
            let layers = &modes.items[item][mode.degree].as_ref()?.layers;
            let time: u64 = layers.iter().map(|layer| layer.ways[0].time()).sum();
            before.push(before[before.len() - 1] + time);
        }
        let most = problem.stages().min(modes.most_of(&mode));
        let least = if problem.settings.all_stages {
            problem.stages()
        } else {
            1
        };
        Some(Self {
            modes,
            must_stop,
            mode,
            order,
            stages: least..=most,
            rounds: rounds(problem, mode),
            before,
            known: HashMap::new(),
        })
    }

    /// The stages of least estimate; `None` where none fit, or it must stop before it has found some.
    ///
    /// The estimate less the constant of head and tail is that of all times.
    fn best(&mut self) -> Option<Assignment> {
        let value =
            |stages: &Stages, rounds: u128| u128::from(stages.sum) + rounds * u128::from(stages.longest);
        let fastest = self.within(u64::MAX)?;
        if self.rounds == 0 {
            return Some(fastest.assignment);
        }
        let mut shortest = self.shortest(fastest.longest)?;
        let least_longest = shortest.longest;
        let mut sum = fastest.sum;
        if value(&fastest, self.rounds) < value(&shortest, self.rounds) {
            shortest = fastest;
        }
        let mut best = shortest;
        // Stages of a longest of at most `limit` sum up to no less than `sum`.
        let mut limit = u64::MAX;
        loop {
            let least = value(&best, self.rounds);
            let open = least.saturating_sub(u128::from(sum) + 1);
            limit = limit.min(u64::try_from(open / self.rounds).unwrap_or(u64::MAX));
            if limit < least_longest || least_longest == 0 {
                return Some(best.assignment);
            }
            let Some(found) = self.within(limit) else {
                return Some(best.assignment);
            };
            sum = found.sum;
            limit = found.longest.saturating_sub(1);
            if value(&found, self.rounds) < least {
                best = found;
            }
        }
    }

    /// Stages whose longest is the shortest there is; at most so long.
    fn shortest(&mut self, most: u64) -> Option<Stages> {
        let (mut low, mut high) = (0, most);
        let mut best = self.within(high)?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.within(middle) {
                Some(found) => {
                    high = found.longest;
                    best = found;
                }
                None => low = middle + 1,
            }
        }
        Some(best)
    }

    /// Stages of least sum, none of which takes longer than a limit.
    fn within(&mut self, limit: u64) -> Option<Stages> {
        let items = self.order.len();
        let most = *self.stages.end();
        // By stages from the end, by first item: the least sum, and the first item of the stage behind.
        let mut least: Vec<Vec<Option<(u64, usize)>>> = vec![vec![None; items + 1]];
        least[0][items] = Some((0, items));
        for behind in 0..most {
            let mut own = vec![None; items + 1];
            for (first, least_from) in own.iter_mut().enumerate().take(items) {
                if (self.must_stop)() {
                    return None;
                }
                *least_from = self.least_from(first, behind, &least[behind], limit);
            }
            least.push(own);
        }
        let counts = self.stages.clone().filter(|&count| least[count][0].is_some());
        let count = counts.min_by_key(|&count| least[count][0])?;
        self.stages_of(&least, count)
    }

    /// The least sum of a stage that begins with an item and of so many stages behind it, and the first item of these; `rest` are their sums
    /// by first item.
    fn least_from(
        &mut self,
        first: usize,
        behind: usize,
        rest: &[Option<(u64, usize)>],
        limit: u64,
    ) -> Option<(u64, usize)> {
        let mut least: Option<(u64, usize)> = None;
        for (next, rest) in rest.iter().enumerate().skip(first + 1) {
            if self.before[next] - self.before[first] > limit {
                break;
            }
            let Some((sum, _)) = *rest else { continue };
            let time = self.time(first, next, behind).filter(|&time| time <= limit);
            let reached = time.map(|time| (time + sum, next));
            if let Some(reached) = reached.filter(|reached| least.is_none_or(|least| reached.0 < least.0)) {
                least = Some(reached);
            }
        }
        least
    }

    /// Follows the table from the first item on.
    fn stages_of(&mut self, least: &[Vec<Option<(u64, usize)>>], count: usize) -> Option<Stages> {
        let mut stages = Stages {
            sum: least[count][0]?.0,
            longest: 0,
            assignment: vec![0; self.order.len()],
        };
        let mut first = 0;
        for stage in 0..count {
            let behind = count - 1 - stage;
            let (_, next) = least[behind + 1][first]?;
            let time = self.time(first, next, behind)?;
            stages.longest = stages.longest.max(time);
            for &item in &self.order[first..next] {
                stages.assignment[item] = stage;
            }
            first = next;
        }
        Some(stages)
    }

    /// The least time of a run of items that fits the memory with so many stages behind.
    fn time(&mut self, first: usize, next: usize, behind: usize) -> Option<u64> {
        if let Some(known) = self.known.get(&[first, next, behind]) {
            return *known;
        }
        let time = self.least_time(&self.order[first..next], behind);
        self.known.insert([first, next, behind], time);
        time
    }

    fn least_time(&self, items: &[usize], behind: usize) -> Option<u64> {
        let StageMode { degree, replicas } = self.mode;
        let layers = self.modes.layers_of(items, degree)?;
        let limit = self.modes.room(items, &self.mode)?;
        let in_flight = self.modes.flight.of(replicas, replicas * behind);
        fastest_within(&layers, in_flight, limit).map(|ways| ways.time)
    }
}
