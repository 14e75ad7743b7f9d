//! Whether some placement carries a rate: boundaries from the first layer on, with what may have passed by then.
//!
//! A state is a boundary at which machines end, the machines that are left, those that still work, in groups, and the most that may pass through
//! each set of groups: a polymatroid, which says all about the past. Where links carry everything, machines that end together are one group;
//! where they bind, those that are alike besides. See `formulations/placement.md`.

use std::collections::HashMap;

use super::covers::{Choice, Covers, Prices, ROUNDING};
use super::links::{self, Links};
use crate::formulations::placement::links_bind;
use crate::problem::control::Control;
use crate::problem::placement::{Held, Serving};
use crate::problem::plan::StoppedBy;

/// What came of a question.
#[derive(Debug)]
pub(super) enum Answer {
    /// A placement that carries the rate.
    Found(Vec<Held>),
    /// There is none.
    None,
    /// Not within its steps or limits.
    Undecided(StoppedBy),
}

/// Groups at work beyond which a state is not looked at, since it takes `2^groups` numbers.
const MOST_GROUPS: usize = 12;

/// Steps between two looks at the clock.
const BETWEEN_LOOKS: u64 = 256;

/// Numbers of all states that are kept as hopeless.
const MOST_KEPT: usize = 30_000_000;

/// Machines at work that need not be told apart; kind and number are 0 where links carry everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    end: usize,
    kind: usize,
    count: usize,
}

/// A boundary, with the past as far as it matters.
struct State {
    /// Groups at work by their end, of which the first is the boundary.
    groups: Vec<Group>,
    /// What may pass at most through a set of groups, by its bits.
    most: Vec<u64>,
}

/// Machines that start at a boundary, with what passes through all of them.
#[derive(Clone, Copy)]
struct Start {
    group: Group,
    rate: u64,
}

impl State {
    fn at(&self) -> usize {
        self.groups[0].end
    }

    /// How many groups end at the boundary.
    fn ended(&self) -> usize {
        let at = self.at();
        self.groups.partition_point(|group| group.end == at)
    }

    /// The state at the next boundary, where such machines start at this one. `link` is what links between two groups carry.
    ///
    /// Time `2^(groups + ended)` times the groups that start.
    fn next(&self, starts: &[Start], link: &dyn Fn(&Group, &Group) -> u64) -> Self {
        let ended = self.ended();
        let rest = self.groups.iter().enumerate().skip(ended);
        // Each group with its old bit, or what starts.
        let mut parts: Vec<(Group, usize, Option<Start>)> =
            rest.map(|(at, &group)| (group, 1 << at, None)).collect();
        parts.extend(starts.iter().map(|&start| (start.group, 0, Some(start))));
        parts.sort_by_key(|part| part.0);
        let mut groups: Vec<Group> = parts.iter().map(|part| part.0).collect();
        let is_merged = |group: &Group| group.count == 0;
        groups.dedup_by(|a, b| a == b && is_merged(a));
        let bit = |at: usize| match is_merged(&parts[at].0) {
            true => groups.partition_point(|group| *group < parts[at].0),
            false => at,
        };
        let mut most = vec![u64::MAX; 1 << groups.len()];
        // Whoever ends here and is cut off lets what may have come so far pass; the others what their links carry.
        for cut in 0..1_usize << ended {
            let through = |start: &Start| {
                let open = (0..ended).filter(|at| cut >> at & 1 == 0);
                let links = open.map(|at| link(&self.groups[at], &start.group));
                links.fold(0, u64::saturating_add).min(start.rate)
            };
            let parts: Vec<(usize, usize, u64)> = parts
                .iter()
                .enumerate()
                .map(|(at, (_, old, start))| (bit(at), *old, start.as_ref().map_or(0, &through)))
                .collect();
            for (set, most) in most.iter_mut().enumerate() {
                let chosen = parts.iter().filter(|part| set >> part.0 & 1 == 1);
                let (old, new) = chosen.fold((cut, 0), |sum, part| (sum.0 | part.1, sum.1 + part.2));
                *most = (*most).min(self.most[old] + new);
            }
        }
        Self { groups, most }
    }
}

/// A state that may come next.
struct Child {
    /// What machines have left over there.
    slack: f64,
    state: State,
    /// Machines that start before it.
    held: Vec<Held>,
}

/// Machines that start at a boundary.
#[derive(Clone, Default)]
struct Set {
    /// What machines have left over.
    slack: f64,
    /// The prices of its machines.
    paid: f64,
    /// The last choice; others come behind it.
    last: usize,
    starts: Vec<Start>,
    held: Vec<Held>,
}

/// What is left, and the groups at work.
type Key = (Vec<usize>, Vec<Group>);

pub(super) struct Sweep<'a> {
    serving: &'a Serving,
    control: &'a Control<'a>,
    rate: u64,
    prices: Prices,
    choices: Vec<Choice>,
    /// Machines left, by kind.
    left: Vec<usize>,
    held: Vec<Held>,
    /// States that lead nowhere, with what may have passed.
    hopeless: HashMap<Key, Vec<Vec<u64>>>,
    kept: usize,
    /// Whether links between machines bind.
    binds: bool,
    /// Prices that know links, where they bind.
    links: Option<Links>,
    /// Whether a state was left out.
    is_cut_short: bool,
    /// The most sets and states looked at behind each state.
    width: usize,
    /// Of sums of prices.
    rounding: f64,
    steps: u64,
}

/// Why a search ends early: found, or stopped.
type Ended = Result<(), Option<StoppedBy>>;

impl<'a> Sweep<'a> {
    /// A search for a rate, with the prices for it.
    pub(super) fn new(
        covers: &Covers<'a>,
        serving: &'a Serving,
        (rate, prices): (u64, Prices),
        control: &'a Control,
    ) -> Self {
        let mut choices = covers.choices.clone();
        let rounding = ROUNDING * prices.of_a_layer(rate) * serving.layers as f64;
        choices.sort_by_key(|choice| (choice.kind, std::cmp::Reverse(choice.layers)));
        Self {
            serving,
            control,
            rate,
            prices,
            choices,
            left: serving.kinds.iter().map(|kind| kind.count).collect(),
            held: Vec::new(),
            hopeless: HashMap::new(),
            kept: 0,
            binds: links_bind(serving, rate),
            links: None,
            is_cut_short: false,
            width: usize::MAX,
            rounding,
            steps: 0,
        }
    }

    /// The same search with prices that know links.
    pub(super) fn with_links(self, links: Option<Links>) -> Self {
        Self {
            links: links.filter(|_| self.binds),
            ..self
        }
    }

    /// The same search as if links between machines carried everything: what it refutes is refuted.
    pub(super) fn without_links(mut self) -> Self {
        self.binds = false;
        self
    }

    /// Searches for so many steps at most, and so many states behind each, those first that leave most over.
    pub(super) fn run(&mut self, steps: u64, width: usize) -> Answer {
        (self.steps, self.width) = (steps, width);
        let outside = Group {
            end: 0,
            kind: 0,
            count: 0,
        };
        let start = State {
            groups: vec![outside],
            most: vec![0, self.rate],
        };
        match self.visit(&start) {
            Ok(()) if self.is_cut_short => Answer::Undecided(StoppedBy::SizeLimit),
            Ok(()) => Answer::None,
            Err(None) => Answer::Found(std::mem::take(&mut self.held)),
            Err(Some(stopped_by)) => Answer::Undecided(stopped_by),
        }
    }

    /// Looks at all that may start at the boundary of a state.
    fn visit(&mut self, state: &State) -> Ended {
        if state.at() == self.serving.layers {
            return Err(None);
        }
        let key = (self.left.clone(), state.groups.clone());
        let is_no_better = |known: &Vec<u64>| state.most.iter().zip(known).all(|(own, known)| own <= known);
        if self
            .hopeless
            .get(&key)
            .is_some_and(|known| known.iter().any(is_no_better))
        {
            return Ok(());
        }
        let children = self.children(state)?;
        for child in children {
            let (left, held) = (self.left.clone(), self.held.len());
            child.held.iter().for_each(|own| self.left[own.kind] -= 1);
            self.held.extend(&child.held);
            self.visit(&child.state)?;
            self.held.truncate(held);
            self.left = left;
        }
        if self.kept < MOST_KEPT {
            self.kept += state.most.len() + 3 * state.groups.len() + self.left.len() + 8;
            let kept = self.hopeless.entry(key).or_default();
            kept.push(state.most.clone());
        }
        Ok(())
    }

    /// The group of one machine.
    fn group(&self, held: Held) -> Group {
        let (kind, count) = if self.binds { (held.kind, 1) } else { (0, 0) };
        let end = held.end();
        Group { end, kind, count }
    }

    /// What the links between two groups carry.
    fn link(&self, from: &Group, to: &Group) -> u64 {
        match (from.count as u64 * to.count as u64, self.binds) {
            // The coordinator has links of its own, which rates count.
            (0, _) | (_, false) => u64::MAX,
            (links, true) => self.serving.between[from.kind][to.kind].saturating_mul(links),
        }
    }

    /// The states at the next boundaries, those first that leave most over: sets of machines that start at a state's boundary, by their size.
    fn children(&mut self, state: &State) -> Result<Vec<Child>, Option<StoppedBy>> {
        let rest = state.most.len() - (1 << state.ended());
        let (mut children, mut sets) = (Vec::new(), vec![Set::default()]);
        while !sets.is_empty() {
            let mut larger = Vec::new();
            for set in &sets {
                self.control
                    .take_step(&mut self.steps, BETWEEN_LOOKS)
                    .map_err(Some)?;
                let passed = state.most[rest] + set.starts.iter().map(|start| start.rate).sum::<u64>();
                if passed >= self.rate {
                    children.extend(self.child(state, set));
                }
                larger.extend(
                    (set.last..self.choices.len()).filter_map(|choice| self.with(state, set, choice)),
                );
            }
            sets = self.widest(larger, |set| set.slack);
        }
        Ok(self.widest(children, |child| child.slack))
    }

    /// As many as the width lets, those first that leave most over.
    fn widest<T>(&mut self, mut all: Vec<T>, slack: impl Fn(&T) -> f64) -> Vec<T> {
        all.sort_by(|a, b| slack(b).total_cmp(&slack(a)));
        if all.len() > self.width {
            all.truncate(self.width);
            self.is_cut_short = true;
        }
        all
    }

    /// The state behind a boundary at which a set of machines starts, if all may pass it.
    fn child(&mut self, state: &State, set: &Set) -> Option<Child> {
        if state.groups.len() - state.ended() + set.starts.len() > MOST_GROUPS {
            self.is_cut_short = true;
            return None;
        }
        let next = state.next(&set.starts, &|from, to| self.link(from, to));
        let slack = self.slack(&next, &[], None) - set.paid;
        let passes = next.most[next.most.len() - 1] >= self.rate
            && slack >= -self.rounding
            && self.pays_for_links(&next, set, slack);
        passes.then(|| Child {
            slack,
            state: next,
            held: set.held.clone(),
        })
    }

    /// Whether what is left behind a boundary, once a set has started, may pay for what is to be handed on; `slack` is what covers leave over.
    fn pays_for_links(&self, next: &State, set: &Set, slack: f64) -> bool {
        let Some(prices) = &self.links else {
            return true;
        };
        let left = (0..self.left.len()).map(|kind| {
            let used = set.held.iter().filter(|held| held.kind == kind).count();
            self.left[kind] - used
        });
        let covers = self.prices.of_all(&self.left) - set.paid - slack;
        let groups = next
            .groups
            .iter()
            .map(|group| (group.kind, group.end, group.count));
        let groups: Vec<(usize, usize, usize)> = groups.collect();
        let most = |groups: usize| next.most[groups].min(self.rate) as f64 / self.rate as f64;
        let needed = prices.rest(&groups, &most) + prices.covers * covers;
        prices.of_all(left) >= needed - links::ROUNDING
    }

    /// A set with one more machine, if there is one and what is left pays for the rest.
    fn with(&self, state: &State, set: &Set, choice: usize) -> Option<Set> {
        let start = state.at();
        let Choice { kind, layers, .. } = self.choices[choice];
        let used = set.held.iter().filter(|held| held.kind == kind).count();
        if used >= self.left[kind] || start + layers > self.serving.layers {
            return None;
        }
        let held = Held { kind, start, layers };
        let group = self.group(held);
        let into = state.groups[..state.ended()]
            .iter()
            .map(|ended| self.link(ended, &group));
        let into = into.fold(0, u64::saturating_add);
        let rate = self.serving.usable(&held).min(self.rate).min(into);
        if rate == 0 {
            return None;
        }
        let paid = set.paid + self.prices.of_a_machine[kind];
        let slack = self.slack(state, &set.starts, Some((group.end, rate))) - paid;
        if slack < -self.rounding {
            return None;
        }
        let mut more = Set {
            slack,
            paid,
            last: choice,
            ..set.clone()
        };
        more.held.push(held);
        let is_alike = |start: &&mut Start| (start.group.end, start.group.kind) == (group.end, group.kind);
        match more.starts.last_mut().filter(is_alike) {
            Some(start) => {
                start.rate += rate;
                start.group.count += group.count;
            }
            None => more.starts.push(Start { group, rate }),
        }
        Some(more)
    }

    /// What machines have left over at most that pay for all layers from a state's boundary on, beside those that start there and one more.
    fn slack(&self, state: &State, starts: &[Start], more: Option<(usize, u64)>) -> f64 {
        let starts = || {
            starts
                .iter()
                .map(|start| (start.group.end, start.rate))
                .chain(more)
        };
        let ends = || {
            state
                .groups
                .iter()
                .map(|group| group.end)
                .chain(starts().map(|start| start.0))
        };
        let here = (1 << state.ended()) - 1;
        let (mut at, mut needed) = (state.at(), 0.0);
        while let Some(end) = ends().filter(|&end| end > at).min() {
            let first = state.groups.partition_point(|group| group.end <= at);
            let old = state.most.len() - (1 << first);
            let new: u64 = starts().filter(|start| start.0 > at).map(|start| start.1).sum();
            let passed = state.most[old | here].min(state.most[old] + new);
            needed += self.prices.of_a_layer(self.rate - passed.min(self.rate)) * (end - at) as f64;
            at = end;
        }
        needed += self.prices.of_a_layer(self.rate) * (self.serving.layers - at) as f64;
        self.prices.of_all(&self.left) - needed
    }
}
