//! What a stage may hold beside its memory: constraints of one's own that no joining of layers expresses.
#![doc = include_str!("../../formulations/constraints.md")]

use crate::model::instance::Instance;
use crate::model::options::Constraint;
use crate::model::settings::Settings;
use crate::problem::{Item, Problem};

/// Constraints on the items of a stage, whichever stage it is. Whatever they forbid, they forbid with more items too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confined {
    /// For each item the constraints that keep it from others, by number: two each, one for either pass.
    apart: Vec<Vec<usize>>,
    /// How many numbers there are.
    kinds: usize,
    /// Layers of forward propagation of which each item has the forward pass, and the backward pass.
    layers: Vec<[usize; 2]>,
    /// The most of either in a stage.
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
    layers: [usize; 2],
}

impl Confined {
    /// Those of the settings, for items; `None` without any.
    pub(crate) fn new(instance: &Instance, settings: &Settings, items: &[Item]) -> Option<Self> {
        let layers = &instance.network.layers;
        // There is no backward pass where no gradient returns.
        let of_pass = |item: &Item, pass: usize, counts: &dyn Fn(usize) -> bool| {
            let own = [&item.layers, &item.backward_layers][pass].iter();
            let own = own.filter(|&&at| !layers[at].backward && (pass == 0 || layers[at].returns));
            own.filter(|&&at| counts(at)).count()
        };
        let passes = |item: &Item| [0, 1].map(|pass| of_pass(item, pass, &|_| true));
        let mut confined = Self {
            apart: vec![Vec::new(); items.len()],
            layers: items.iter().map(passes).collect(),
            ..Self::default()
        };
        let mut is_confined = false;
        for constraint in &settings.constraints {
            match constraint {
                Constraint::Together(_) | Constraint::Cuts(_) => continue,
                Constraint::AtMost(most) => {
                    let least = confined.most_layers.map_or(*most, |known| known.min(*most));
                    confined.most_layers = Some(least);
                    confined.is_broken |= confined.layers.iter().flatten().any(|&layers| layers > least);
                }
                Constraint::Apart(names) => {
                    let is_named = |at: usize| names.contains(&layers[at].id);
                    let first = confined.kinds;
                    for (item, numbers) in items.iter().zip(&mut confined.apart) {
                        let named = [0, 1].map(|pass| of_pass(item, pass, &is_named));
                        confined.is_broken |= named.iter().any(|&named| named > 1);
                        numbers.extend((0..2).filter(|&pass| named[pass] > 0).map(|pass| first + pass));
                    }
                    confined.kinds += 2;
                }
            }
            is_confined = true;
        }
        is_confined.then_some(confined)
    }

    /// Those of items that some of these are joined to.
    pub(super) fn joined(&self, members: &[Vec<usize>]) -> Self {
        let sum =
            |pass: usize, members: &Vec<usize>| members.iter().map(|&item| self.layers[item][pass]).sum();
        let kinds = |members: &Vec<usize>| -> Vec<usize> {
            let all = members.iter().flat_map(|&item| &self.apart[item]);
            all.copied().collect()
        };
        let is_broken = |members: &Vec<usize>| {
            let mut held = self.nothing();
            !members.iter().all(|&item| self.takes(&mut held, item))
        };
        Self {
            apart: members.iter().map(kinds).collect(),
            layers: members
                .iter()
                .map(|members| [0, 1].map(|pass| sum(pass, members)))
                .collect(),
            is_broken: self.is_broken || members.iter().any(is_broken),
            ..self.clone()
        }
    }

    /// An empty stage.
    pub(crate) fn nothing(&self) -> Held {
        Held {
            apart: vec![false; self.kinds],
            layers: [0; 2],
        }
    }

    /// Whether an item may join what a stage holds. If not, it may not whatever else joins.
    pub(crate) fn admits(&self, held: &Held, item: usize) -> bool {
        let fits = |most: usize| (0..2).all(|pass| held.layers[pass] + self.layers[item][pass] <= most);
        !self.is_broken
            && self.most_layers.is_none_or(fits)
            && !self.apart[item].iter().any(|&kind| held.apart[kind])
    }

    /// It joins; it must have been admitted.
    pub(crate) fn add(&self, held: &mut Held, item: usize) {
        (0..2).for_each(|pass| held.layers[pass] += self.layers[item][pass]);
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
        (0..2).for_each(|pass| held.layers[pass] -= self.layers[item][pass]);
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
