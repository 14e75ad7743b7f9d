//! What a stage may hold beside its memory: constraints of one's own that no joining of layers expresses.
#![doc = include_str!("../../formulations/constraints.md")]

use crate::model::instance::Instance;
use crate::model::options::Constraint;
use crate::model::settings::Settings;
use crate::problem::{Item, Problem};

/// Constraints on the items of a stage, whichever stage it is. Whatever they forbid, they forbid with more items too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confined {
    /// For each item the constraints that keep it from others, by number.
    apart: Vec<Vec<usize>>,
    /// How many of those there are.
    kinds: usize,
    /// Forward layers of each item.
    layers: Vec<usize>,
    /// The most of them in a stage.
    most_layers: Option<usize>,
    /// Whether some item breaks a constraint by itself: there is no plan.
    is_broken: bool,
}

impl Problem {
    /// Whether every stage of a plan keeps what stages are confined to.
    pub(crate) fn admits(&self, assignment: &[usize]) -> bool {
        let confined = self.confined.as_ref();
        confined.is_none_or(|confined| confined.allows(assignment))
    }

    /// Whether some items may share a stage.
    pub(crate) fn admits_together(&self, items: &[usize]) -> bool {
        let Some(confined) = &self.confined else {
            return true;
        };
        let mut held = confined.nothing();
        items.iter().all(|&item| confined.takes(&mut held, item))
    }
}

/// What a stage holds, as far as these constraints care.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    apart: Vec<bool>,
    layers: usize,
}

impl Confined {
    /// Those of the settings, for items; `None` without any.
    pub(crate) fn new(instance: &Instance, settings: &Settings, items: &[Item]) -> Option<Self> {
        let layers = &instance.network.layers;
        let forward = |item: &Item| item.layers.iter().filter(|&&at| !layers[at].backward).count();
        let mut confined = Self {
            apart: vec![Vec::new(); items.len()],
            layers: items.iter().map(forward).collect(),
            ..Self::default()
        };
        let mut is_confined = false;
        for constraint in &settings.constraints {
            match constraint {
                Constraint::Together(_) | Constraint::Cuts(_) => continue,
                Constraint::AtMost(most) => {
                    let least = confined.most_layers.map_or(*most, |known| known.min(*most));
                    confined.most_layers = Some(least);
                    confined.is_broken |= confined.layers.iter().any(|&layers| layers > least);
                }
                Constraint::Apart(names) => {
                    for (item, numbers) in items.iter().zip(&mut confined.apart) {
                        let is_named = |&&at: &&usize| names.contains(&layers[at].id);
                        let named = item.layers.iter().filter(is_named).count();
                        confined.is_broken |= named > 1;
                        numbers.extend((named > 0).then_some(confined.kinds));
                    }
                    confined.kinds += 1;
                }
            }
            is_confined = true;
        }
        is_confined.then_some(confined)
    }

    /// An empty stage.
    pub(crate) fn nothing(&self) -> Held {
        Held {
            apart: vec![false; self.kinds],
            layers: 0,
        }
    }

    /// Whether an item may join what a stage holds. If not, it may not whatever else joins.
    pub(crate) fn admits(&self, held: &Held, item: usize) -> bool {
        let fits = |most: usize| held.layers + self.layers[item] <= most;
        !self.is_broken
            && self.most_layers.is_none_or(fits)
            && !self.apart[item].iter().any(|&kind| held.apart[kind])
    }

    /// It joins; it must have been admitted.
    pub(crate) fn add(&self, held: &mut Held, item: usize) {
        held.layers += self.layers[item];
        self.apart[item].iter().for_each(|&kind| held.apart[kind] = true);
    }

    /// It joins, if it may; whether it did.
    fn takes(&self, held: &mut Held, item: usize) -> bool {
        let is_admitted = self.admits(held, item);
        if is_admitted {
            self.add(held, item);
        }
        is_admitted
    }

    /// It leaves.
    pub(crate) fn remove(&self, held: &mut Held, item: usize) {
        held.layers -= self.layers[item];
        self.apart[item].iter().for_each(|&kind| held.apart[kind] = false);
    }

    /// Whether every stage of a plan is admitted.
    pub(crate) fn allows(&self, assignment: &[usize]) -> bool {
        let stages = assignment.iter().max().map_or(0, |last| last + 1);
        let mut held = vec![self.nothing(); stages];
        let mut items = assignment.iter().enumerate();
        items.all(|(item, &stage)| self.takes(&mut held[stage], item))
    }
}
