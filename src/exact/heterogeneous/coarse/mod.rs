//! Dynamic program over ideals and devices from coarse to fine.
#![doc = include_str!("../../../../formulations/coarse_to_fine.md")]

mod cells;
mod crossings;
mod devices;
mod ideals;
mod stages;

use std::ops::Range;

use rayon::prelude::*;

use crate::exact::bits;
use crate::exact::heterogeneous::choices::Choices;
use crate::exact::heterogeneous::coarse::cells::Cell;
use crate::exact::heterogeneous::coarse::crossings::Crossings;
use crate::exact::heterogeneous::coarse::devices::DeviceStates;
use crate::exact::heterogeneous::coarse::ideals::{Ideal, Totals};
use crate::exact::heterogeneous::coarse::stages::{Stages, StagesBetween};
use crate::exact::tuning::TUNING;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::Workers;
use crate::search::limits::Answer;

/// All ideals of a problem, whatever the limit.
pub(super) struct AllIdeals {
    totals: Totals,
    ideals: Vec<Ideal>,
    crossings: Crossings,
}

impl AllIdeals {
    /// Lists them.
    ///
    /// # Errors
    ///
    /// [`StoppedBy::SizeLimit`] with too many ideals, or another limit of the search.
    pub(super) fn new(problem: &Problem, workers: &Workers, control: &Control) -> Result<Self, StoppedBy> {
        let totals = Totals::new(workers);
        let words = bits::words(problem.items.len());
        let bytes_of_an_ideal = 2 * 8 * (words + totals.len()) + TUNING.bytes_of_a_reached_ideal;
        let most = TUNING
            .most_ideals_in_cells
            .min(control.room_bytes() / bytes_of_an_ideal);
        let ideals = ideals::all(problem, totals, most, control)?;
        Ok(Self {
            crossings: Crossings::new(problem, &ideals, control)?,
            totals,
            ideals,
        })
    }
}

/// Looks for plans whose every stage keeps a limit.
pub(super) struct CoarseSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    choices: Choices<'a>,
    states: DeviceStates,
    totals: Totals,
    ideals: &'a [Ideal],
    crossings: &'a Crossings,
    limit_ns: u64,
    /// Cells looked at.
    pub cells: usize,
}

/// Stages between the cells before they were parted.
struct Coarser {
    stages: Vec<Option<Stages>>,
    /// Where the parts of each lie.
    children: Vec<Range<usize>>,
    /// What each is a part of.
    parents: Vec<usize>,
}

impl Coarser {
    fn new(stages: Vec<Option<Stages>>, children: Vec<Range<usize>>) -> Self {
        let parents = children.iter().enumerate();
        Self {
            stages,
            parents: parents
                .flat_map(|(parent, parts)| parts.clone().map(move |_| parent))
                .collect(),
            children,
        }
    }

    /// Where stages from a cell may lead, as far as the cells before told.
    fn ends(&self, from: usize) -> impl Iterator<Item = usize> {
        let stages = self.stages[self.parents[from]].iter().flat_map(Stages::iter);
        stages.flat_map(|stage| self.children[stage.to].clone())
    }
}

impl<'a> CoarseSearch<'a> {
    /// Prepares a search; `None` with too many device states.
    pub(super) fn new(
        problem: &'a Problem,
        choices: Choices<'a>,
        all: &'a AllIdeals,
        control: &'a Control<'a>,
        limit_ns: u64,
    ) -> Option<Self> {
        let states = DeviceStates::new(choices.workers, TUNING.most_device_states)?;
        Some(Self {
            totals: all.totals,
            ideals: &all.ideals,
            crossings: &all.crossings,
            problem,
            choices,
            control,
            states,
            limit_ns,
            cells: 0,
        })
    }

    /// A plan with every stage's bottleneck at most the limit, if there is one.
    pub(super) fn pass(&mut self) -> Answer<Allocation> {
        for width in TUNING.cells_of_a_dive {
            // What a dive does not find may lie among the cells that it left out.
            if let Ok(Some(plan)) = self.narrow_pass(width) {
                return Answer::Plan(plan);
            }
        }
        Answer::within(self.limit_ns, self.narrow_pass(usize::MAX))
    }

    fn narrow_pass(&mut self, width: usize) -> Result<Option<Allocation>, StoppedBy> {
        let mut cells = self.coarsest();
        let mut coarser = None;
        loop {
            self.cells += cells.len();
            let stages = self.reach(&mut cells, coarser.as_ref())?;
            let is_exact = cells
                .iter()
                .all(|cell| cell.is_single() || bits::is_empty(&cell.may));
            if bits::is_empty(&cells[0].may) {
                return Ok(None);
            }
            if is_exact {
                return Ok(Some(self.plan(&cells, &stages)));
            }
            let kept = self.narrowed(&cells, &stages, width);
            let children;
            (cells, children) = self.finer(cells, &kept)?;
            coarser = Some(Coarser::new(stages, children));
        }
    }

    /// Whether each cell is one of so many, about: those on ways from everything to nothing that have little in common.
    fn narrowed(&self, cells: &[Cell], stages: &[Option<Stages>], width: usize) -> Vec<bool> {
        let is_left: Vec<bool> = cells.iter().map(|cell| !bits::is_empty(&cell.may)).collect();
        if is_left.iter().filter(|is_left| **is_left).count() <= width {
            return is_left;
        }
        let mut uses = vec![0; cells.len()];
        uses[0] = 1;
        let (mut kept, mut before) = (0, usize::MAX);
        while kept < width && kept != before {
            before = kept;
            for (to, _) in self.path(cells, stages, |to| uses[to]) {
                kept += usize::from(uses[to] == 0);
                uses[to] += 1;
            }
        }
        uses.into_iter().map(|uses| uses > 0).collect()
    }

    /// Everything, nothing, and all between.
    fn coarsest(&self) -> Vec<Cell> {
        let last = self.ideals.len() as u32 - 1;
        let anything = self.states.all().repeat(self.problem.stages() + 1);
        let between = (1..last).collect::<Vec<_>>();
        [vec![last], vec![0], between]
            .into_iter()
            .filter(|members| !members.is_empty())
            .map(|members| self.cell(members, anything.clone()))
            .collect()
    }

    /// The cells that are kept in parts, quarters while these are not many, and where the parts of each lie.
    fn finer(&self, cells: Vec<Cell>, kept: &[bool]) -> Result<(Vec<Cell>, Vec<Range<usize>>), StoppedBy> {
        let count = kept.iter().filter(|kept| **kept).count();
        let rounds = if count < TUNING.cells_in_quarters { 2 } else { 1 };
        let (mut finer, mut children) = (Vec::new(), Vec::new());
        for (cell, &is_kept) in cells.into_iter().zip(kept) {
            self.control.check_limits()?;
            let start = finer.len();
            if !is_kept {
                // No part of it is looked at.
            } else if cell.is_single() {
                finer.push(cell);
            } else {
                let mut parts = vec![cell.members];
                for _ in 0..rounds {
                    parts = parts.iter().flat_map(|part| self.halved(part)).collect();
                }
                finer.extend(
                    parts
                        .into_iter()
                        .map(|members| self.cell(members, cell.may.clone())),
                );
            }
            children.push(start..finer.len());
        }
        match finer.len() > TUNING.most_cells {
            true => Err(StoppedBy::SizeLimit),
            false => Ok((finer, children)),
        }
    }

    /// Which cells and device states a plan may come through: those that stages lead to from everything, and on to nothing.
    fn reach(&self, cells: &mut [Cell], coarser: Option<&Coarser>) -> Result<Vec<Option<Stages>>, StoppedBy> {
        let (words, most) = (self.states.words, self.problem.stages());
        let at = |behind: usize| behind * words..(behind + 1) * words;
        let mut stages: Vec<Option<Stages>> = cells.iter().map(|_| None).collect();
        let nothing_reached = vec![0; words * (most + 1)];
        let mut reached = vec![nothing_reached.clone(); cells.len()];
        reached[0][0] = 1;
        for behind in 0..=most {
            for (own, cell) in reached.iter_mut().zip(cells.iter()) {
                let own = &mut own[at(behind)];
                if !bits::is_empty(own) {
                    // With stages in parts a larger group may be needed.
                    self.states.waste(own);
                    own.iter_mut()
                        .zip(&cell.may[at(behind)])
                        .for_each(|(own, may)| *own &= may);
                }
            }
            if behind == most {
                break;
            }
            let is_reached = |from: &usize| *from != 1 && !bits::is_empty(&reached[*from][at(behind)]);
            let from_here: Vec<usize> = (0..cells.len()).filter(is_reached).collect();
            self.add_stages(cells, coarser, &from_here, &mut stages)?;
            for from in from_here {
                self.control.check_limits()?;
                let start = reached[from][at(behind)].to_vec();
                for stage in stages[from].iter().flat_map(Stages::iter) {
                    let to = &mut reached[stage.to][at(behind + 1)];
                    self.each_choice(stage, behind, |choice| self.states.take(&start, choice, to));
                }
            }
        }
        let mut leads_on = vec![nothing_reached; cells.len()];
        for behind in 1..=most {
            if behind == most || !self.problem.settings.all_stages {
                leads_on[1][at(behind)].copy_from_slice(&reached[1][at(behind)]);
            }
        }
        for behind in (0..most).rev() {
            for from in (0..cells.len()).filter(|&from| from != 1) {
                if bits::is_empty(&reached[from][at(behind)]) {
                    continue;
                }
                self.control.check_limits()?;
                let mut start = vec![0; words];
                for stage in stages[from].iter().flat_map(Stages::iter) {
                    let to = &leads_on[stage.to][at(behind + 1)];
                    let mut give_back = |choice| self.states.give_back(to, choice, &mut start);
                    self.each_choice(stage, behind, &mut give_back);
                }
                let own = &mut leads_on[from][at(behind)];
                (0..words).for_each(|word| own[word] = start[word] & reached[from][behind * words + word]);
            }
        }
        for (cell, leads_on) in cells.iter_mut().zip(leads_on) {
            cell.may = leads_on;
        }
        Ok(stages)
    }

    /// Looks for the stages from some cells, where that is not done, on all threads.
    fn add_stages(
        &self,
        cells: &[Cell],
        coarser: Option<&Coarser>,
        from: &[usize],
        stages: &mut [Option<Stages>],
    ) -> Result<(), StoppedBy> {
        let new: Vec<usize> = from
            .iter()
            .copied()
            .filter(|&from| stages[from].is_none())
            .collect();
        let found: Vec<Result<Stages, StoppedBy>> = new
            .par_iter()
            .map(|&from| {
                self.control.check_limits()?;
                Ok(match coarser {
                    None => self.stages_between(cells, from, 1..cells.len()),
                    Some(coarser) => self.stages_between(cells, from, coarser.ends(from)),
                })
            })
            .collect();
        for (from, found) in new.into_iter().zip(found) {
            stages[from] = Some(found?);
        }
        // Those before are kept until these have served.
        let bytes: usize = stages.iter().flatten().map(Stages::bytes).sum();
        match 3 * bytes > self.control.room_bytes() {
            true => Err(StoppedBy::SizeLimit),
            false => Ok(()),
        }
    }

    /// The choices of stages with so many others behind, as far as bytes tell.
    fn each_choice(&self, stages: StagesBetween, behind: usize, mut each: impl FnMut(usize)) {
        let settings = &self.problem.settings;
        let bytes = stages
            .bytes
            .map_or(0, |bytes| settings.bytes_on(bytes, behind + 1));
        let choices = stages.choices.iter().map(|&choice| choice as usize);
        choices
            .filter(|&choice| self.choices.holds(choice, bytes))
            .for_each(&mut each);
    }

    /// The stages that may lie at the end of the ideals of a cell, by what cells they may leave.
    fn stages_between(&self, cells: &[Cell], from: usize, ends: impl Iterator<Item = usize>) -> Stages {
        let left = &cells[from];
        let behind = self.with_more_taken(&left.may);
        let mut stages = Stages::default();
        for to in ends {
            let rest = &cells[to];
            if !bits::intersect(&behind, &rest.may[self.states.words..])
                || !bits::is_subset(&rest.common, &left.any)
                || (to == from && left.is_single())
            {
                continue;
            }
            let least: Box<[u64]> = left
                .least
                .iter()
                .zip(&rest.most)
                .map(|(left, rest)| left.saturating_sub(*rest))
                .collect();
            let mut work = self.totals.work(&least);
            if self.choices.is_too_much(&work, self.limit_ns) {
                continue;
            }
            work.transfers = self.crossings.least(&left.end(), &rest.end());
            let may_follow = |choice: usize| self.may_follow(left, rest, choice);
            let fitting = self
                .choices
                .fitting_among(&work, 0, self.limit_ns, may_follow)
                .into_iter();
            let bytes = self.choices.memory_binds.then(|| self.totals.bytes(&least));
            stages.push(to, fitting.map(|(choice, _)| choice), bytes);
        }
        stages
    }

    /// Whether a choice leads from states of a cell to states of another with one stage more behind.
    fn may_follow(&self, left: &Cell, rest: &Cell, choice: usize) -> bool {
        let words = self.states.words;
        let mut behind = left.may.chunks(words).zip(rest.may[words..].chunks(words));
        behind.any(|(from, to)| self.states.leads(from, choice, to))
    }

    /// For each number of stages behind, the states with at least one device more.
    fn with_more_taken(&self, may: &[u64]) -> Vec<u64> {
        let mut more = Vec::with_capacity(may.len());
        for states in may.chunks(self.states.words) {
            let start = more.len();
            more.resize(start + states.len(), 0);
            self.states.take_one(states, &mut more[start..]);
            self.states.waste(&mut more[start..]);
        }
        more
    }

    /// Some ideals in two halves, where they lie furthest apart for a stage: by a total, or by what transfers that leave them cost.
    fn halved(&self, members: &[u32]) -> Vec<Vec<u32>> {
        let totals = self.totals.len();
        let whole = &self.ideals[self.ideals.len() - 1].totals;
        let of = |member: u32, at: usize| match at == totals {
            true => self.crossings.busy_ns[member as usize].min(self.limit_ns),
            false => self.ideals[member as usize].totals[at],
        };
        let spread = |&at: &usize| {
            let all = || members.iter().map(|&member| of(member, at));
            let [least, most] = [all().min(), all().max()].map(Option::unwrap_or_default);
            let of_a_stage = match at == totals {
                true => self.limit_ns,
                false => whole[at] / self.problem.stages() as u64,
            };
            // All are below 2^53.
            ((most - least) << 10) / of_a_stage.max(1)
        };
        let furthest = (0..=totals).max_by_key(spread).unwrap_or(0);
        let mut members = members.to_vec();
        members.sort_by_key(|&member| (of(member, furthest), member));
        let rest = members.split_off(members.len().div_ceil(2));
        [members, rest]
            .into_iter()
            .filter(|half| !half.is_empty())
            .collect()
    }

    /// A cell of some ideals.
    fn cell(&self, members: Vec<u32>, may: Vec<u64>) -> Cell {
        let crossing = self.crossings.of(&members);
        Cell::new(self.ideals, members, crossing, may)
    }

    /// Cells and choices from everything to nothing, by way of those that come first by some measure.
    fn path<K: Ord>(
        &self,
        cells: &[Cell],
        stages: &[Option<Stages>],
        measure: impl Fn(usize) -> K,
    ) -> Vec<(usize, usize)> {
        let words = self.states.words;
        let mut state = vec![0; words];
        state[0] = 1;
        let (mut at, mut path) = (0, Vec::new());
        while at != 1 {
            let behind = path.len();
            let mut best: Option<(K, usize, usize, Vec<u64>)> = None;
            for stage in stages[at].iter().flat_map(Stages::iter) {
                let key = measure(stage.to);
                if best.as_ref().is_some_and(|best| best.0 <= key) {
                    continue;
                }
                let goal = &cells[stage.to].may[(behind + 1) * words..(behind + 2) * words];
                let mut leads = None;
                let mut take = |choice| {
                    let mut to = vec![0; words];
                    self.states.take(&state, choice, &mut to);
                    let is_first = leads.is_none() && bits::intersect(&to, goal);
                    leads = leads.take().or(is_first.then_some((choice, to)));
                };
                self.each_choice(stage, behind, &mut take);
                if let Some((choice, to)) = leads {
                    best = Some((key, stage.to, choice, to));
                }
            }
            let Some((_, to, choice, after)) = best else {
                unreachable!("every state that may be part of a plan leads on");
            };
            path.push((to, choice));
            (at, state) = (to, after);
        }
        path
    }

    /// A plan through cells of one ideal each.
    fn plan(&self, cells: &[Cell], stages: &[Option<Stages>]) -> Allocation {
        let path = self.path(cells, stages, |to| to);
        let mut assignment = vec![0; self.problem.items.len()];
        let mut left = 0;
        for (stage, &(rest, _)) in path.iter().enumerate() {
            for item in bits::without(&cells[left].any, &cells[rest].any) {
                assignment[item] = path.len() - 1 - stage;
            }
            left = rest;
        }
        Allocation {
            assignment,
            choices: path.into_iter().rev().map(|(_, choice)| choice).collect(),
            global: Vec::new(),
            modes: None,
        }
    }
}
