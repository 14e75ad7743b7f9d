//! Constraints of one's own, layer by layer.

use std::collections::BTreeSet;

use super::{Checker, Violation};
use crate::model::options::{Constraint, Places};
use crate::problem::plan::Plan;

impl Checker<'_> {
    /// Every constraint holds.
    pub(super) fn constraints(&mut self, plan: &Plan) {
        for constraint in &self.settings.constraints {
            match constraint {
                Constraint::Together(names) => {
                    let layers = self.named(names);
                    layers
                        .iter()
                        .for_each(|&at| self.apart(layers[0], at, "a constraint"));
                }
                Constraint::Apart(names) => self.one_a_stage(names),
                Constraint::Cuts(Places::Named(_)) => self.blocks_whole(),
                Constraint::Cuts(Places::Behind(names)) => self.cut_behind(plan, names),
                Constraint::AtMost(most) => {
                    for (k, stage) in plan
                        .stages
                        .iter()
                        .enumerate()
                        .filter(|(_, stage)| stage.forward.len() > *most)
                    {
                        let found = format!("{} layers", stage.forward.len());
                        self.wrong(
                            format!("stages[{k}].forward"),
                            found,
                            "no more than a constraint allows",
                        );
                    }
                }
            }
        }
    }

    fn named(&self, names: &[String]) -> Vec<usize> {
        let layers = &self.instance.network.layers;
        let of_name = |name: &String| layers.iter().position(|layer| layer.id == *name);
        names.iter().filter_map(of_name).collect()
    }

    /// No stage holds two of these layers.
    fn one_a_stage(&mut self, names: &[String]) {
        let mut held = BTreeSet::new();
        for at in self.named(names).into_iter().collect::<BTreeSet<usize>>() {
            if let Some(stage) = self.own_stage(at).filter(|&stage| !held.insert(stage)) {
                let found = format!("`{}` beside another", self.instance.network.layers[at].id);
                self.wrong(
                    format!("stages[{stage}].forward"),
                    found,
                    "layers apart, as a constraint has them",
                );
            }
        }
    }

    /// What stages end with: one of these layers, which needs all that lies there and before and has all that it needs there.
    fn cut_behind(&mut self, plan: &Plan, names: &[String]) {
        let places: Vec<BTreeSet<usize>> = self
            .named(names)
            .iter()
            .map(|&at| self.needs(at).collect())
            .collect();
        let forward = self.forward();
        for cut in 1..plan.stages.len() {
            let before: BTreeSet<usize> = forward
                .iter()
                .filter(|(_, stage)| *stage < cut)
                .map(|(at, _)| *at)
                .collect();
            if !places.contains(&before) && before.len() < forward.len() && !before.is_empty() {
                self.violations.push(Violation::Field {
                    field: format!("stages[{}].forward", cut - 1),
                    found: "a cut elsewhere".into(),
                    expected: "one behind a layer that a constraint names".into(),
                });
            }
        }
    }

    /// A layer and all that it needs, each once.
    pub(super) fn needs(&self, at: usize) -> impl Iterator<Item = usize> {
        let tensors = &self.instance.network.tensors;
        let (mut seen, mut open) = (BTreeSet::from([at]), vec![at]);
        std::iter::from_fn(move || {
            let next = open.pop()?;
            let read = tensors.iter().filter(|tensor| tensor.consumers.contains(&next));
            open.extend(
                read.map(|tensor| tensor.producer)
                    .filter(|&from| seen.insert(from)),
            );
            Some(next)
        })
    }
}
