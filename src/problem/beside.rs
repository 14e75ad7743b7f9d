//! Forward passes beside a copy of their table, where cuts are separate: those neither hold another nor wait for one.
//!
//! What such a pass saves depends on where three passes lie, and searches know what two do. So a problem is told apart into cases, in each of which some
//! forward passes are joined with what has their table, and costs are those of pairs again: `formulations/copies.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Assignment, Item, Problem};
use crate::model::instance::Instance;
use crate::model::network::contract;
use crate::model::options::Cuts;
use crate::model::settings::Settings;
use crate::problem::copies::homes;
use crate::problem::passes::Passes;
use crate::problem::tables::Beside;

/// A problem in which some forward passes lie beside a copy.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The problem.
    pub problem: Problem,
    /// Its item of each item of the problem that is told apart.
    item_of: Vec<usize>,
    /// The layers of these passes.
    layers: BTreeSet<usize>,
}

/// The problem told apart, where some forward passes may lie beside a copy of their table, and the items of both passes of each layer that may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cases {
    /// The cases but the one of the problem itself, which counts no forward pass beside a copy that need not be there.
    pub others: Vec<Case>,
    ends: BTreeMap<usize, [usize; 2]>,
}

/// Layers of a table whose passes are the same items.
struct Place {
    /// The items of the forward and of the backward pass.
    items: [usize; 2],
    /// The layers, and a pass of either kind.
    layers: Vec<usize>,
    passes: [usize; 2],
}

impl Place {
    fn is_apart(&self) -> bool {
        self.items[0] != self.items[1]
    }
}

impl Beside {
    /// Every case of a problem; the first is that without a pass beside a copy that need not be there.
    pub(super) fn all(instance: &Instance, settings: &Settings) -> Vec<Self> {
        let mut all = vec![Self::default()];
        if settings.cuts == Cuts::Tied || instance.network.has_explicit_backward() {
            return all;
        }
        let tables = instance.network.shared_tables();
        if tables.is_empty() {
            return all;
        }
        let passes = Passes::new(instance, settings, &Self::default());
        let graph = contract(
            passes.nodes.len(),
            passes.ties(instance),
            &passes.order_pairs(instance),
        );
        for table in tables {
            let places = places(&table.layers, &passes, &graph.item_of);
            let of_table = Self::of_places(&places);
            let both = |one: &Self| of_table.iter().map(|other| one.and(other)).collect::<Vec<_>>();
            all = all.iter().flat_map(both).collect();
        }
        all
    }

    /// The cases of a table: of the first of two places, its forward passes wait for the table or lie beside the other's backward ones; of the
    /// second, they may lie beside the first one's forward passes besides. Of a place all forward passes but the first lie beside that.
    fn of_places(places: &[Place]) -> Vec<Self> {
        let own = |place: &Place| Self {
            layers: place.layers[1..].iter().copied().collect(),
            joined: Vec::new(),
        };
        let at = |place: &Place, pass: usize| Self {
            layers: place.layers.iter().copied().collect(),
            joined: vec![(place.passes[0], pass)],
        };
        let [first, second] = places else {
            return vec![places.first().map(own).unwrap_or_default()];
        };
        let of_first = match first.is_apart() && first.items[1] != second.items[1] {
            true if first.items[0] == second.items[1] => vec![at(first, second.passes[1])],
            true => vec![own(first), at(first, second.passes[1])],
            false => vec![own(first)],
        };
        let beside_backward = at(second, first.passes[1]);
        let beside_forward = at(second, first.passes[0]);
        let of_second = match second.is_apart() {
            true if second.items[0] == first.items[0] => vec![beside_forward],
            true if second.items[0] == first.items[1] => vec![beside_backward],
            true if second.items[1] == first.items[1] || !first.is_apart() => {
                vec![own(second), beside_forward]
            }
            true => vec![own(second), beside_backward, beside_forward],
            false => vec![own(second)],
        };
        let both = |one: &Self| of_second.iter().map(|other| one.and(other)).collect::<Vec<_>>();
        let all = of_first.iter().flat_map(both);
        // What lies beside the first one's forward passes, and so beside its own backward ones, is together.
        let is_together = |both: &Self| {
            both.joined.contains(&(first.passes[0], second.passes[1]))
                && both.joined.contains(&(second.passes[0], first.passes[0]))
        };
        let apart: Vec<Self> = all.clone().filter(|both| !is_together(both)).collect();
        if apart.is_empty() { all.collect() } else { apart }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            layers: self.layers.union(&other.layers).copied().collect(),
            joined: [&self.joined[..], &other.joined].concat(),
        }
    }
}

/// The places of a table, that of the first layer in the file first.
fn places(layers: &[usize], passes: &Passes, item_of: &[usize]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for &layer in layers {
        let (Some(forward), Some(backward)) = (passes.forward_of[layer], passes.backward_of[layer]) else {
            continue;
        };
        let items = [forward, backward].map(|pass| item_of[pass]);
        match places.iter_mut().find(|place| place.items == items) {
            Some(place) => place.layers.push(layer),
            None => places.push(Place {
                items,
                layers: vec![layer],
                passes: [forward, backward],
            }),
        }
    }
    places
}

impl Cases {
    /// The other cases of a problem. Those of which there is no problem have no plan either.
    pub(super) fn new(instance: &Instance, problem: &Problem, others: &[Beside]) -> Self {
        if others.is_empty() {
            return Self::default();
        }
        let case = |beside: &Beside| {
            let other = Problem::beside(instance, problem.settings.clone(), beside).ok()?;
            let homes = [0, 1].map(|pass| homes(&other.items, pass));
            let item_of = |item: &Item| match item.layers.first() {
                Some(layer) => homes[0][layer],
                None => homes[1][&item.backward_layers[0]],
            };
            Some(Case {
                item_of: problem.items.iter().map(item_of).collect(),
                layers: beside.layers.clone(),
                problem: other,
            })
        };
        let [forward, backward] = [0, 1].map(|pass| homes(&problem.items, pass));
        let layers: BTreeSet<usize> = others.iter().flat_map(|beside| &beside.layers).copied().collect();
        let ends = layers
            .into_iter()
            .map(|layer| (layer, [forward[&layer], backward[&layer]]));
        Self {
            others: others.iter().filter_map(case).collect(),
            ends: ends.collect(),
        }
    }
}

impl Case {
    /// An assignment of this problem, as one of the problem that is told apart.
    pub(crate) fn lift(&self, assignment: &Assignment) -> Assignment {
        self.item_of.iter().map(|&item| assignment[item]).collect()
    }

    /// An assignment of the problem that is told apart, as one of this; `None` where passes are apart that lie together here.
    fn lower(&self, assignment: &Assignment) -> Option<Assignment> {
        let mut lowered = vec![None; self.problem.items.len()];
        for (&item, &stage) in self.item_of.iter().zip(assignment) {
            if *lowered[item].get_or_insert(stage) != stage {
                return None;
            }
        }
        lowered.into_iter().collect()
    }
}

impl Problem {
    /// The case that an assignment is of, with the assignment there; `None` where that is the problem itself.
    ///
    /// What a case says of its assignments is so: of those that have this one it is the one that knows most.
    pub(crate) fn case_of(&self, assignment: &Assignment) -> Option<(&Self, Assignment)> {
        if !self.is_told_apart() {
            return None;
        }
        let is_apart = |layer: &&usize| {
            let ends = self.cases.ends.get(*layer);
            ends.is_some_and(|ends| assignment[ends[0]] != assignment[ends[1]])
        };
        let knows = |layers: &BTreeSet<usize>| layers.iter().filter(is_apart).count();
        let lowered = self.cases.others.iter().filter_map(|case| {
            let lowered = case.lower(assignment)?;
            Some((knows(&case.layers), &case.problem, lowered))
        });
        let own = knows(&self.beside);
        let more = lowered.filter(|(known, ..)| *known > own);
        let (_, problem, assignment) = more.max_by_key(|(known, ..)| *known)?;
        Some((problem, assignment))
    }

    /// Whether it has cases but itself.
    pub(crate) fn is_told_apart(&self) -> bool {
        !self.cases.others.is_empty()
    }

    /// The same problem by itself, as if it were not told apart.
    pub(crate) fn by_itself(&self) -> Self {
        Self {
            cases: Arc::default(),
            ..self.clone()
        }
    }

    /// Every case, the problem by itself first.
    pub(crate) fn each_case(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.cases.others.iter().map(|case| &case.problem))
    }
}
