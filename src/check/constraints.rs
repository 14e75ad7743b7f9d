//! Constraints of one's own, layer by layer.

use std::collections::BTreeSet;

use super::{BACKWARD, Checker, FORWARD, Violation};
use crate::model::options::{Constraint, Cuts, Places};
use crate::problem::plan::{Plan, PlanStage};

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
                    for &pass in self.cut_passes() {
                        self.few_layers(plan, pass, *most);
                    }
                }
            }
        }
    }

    /// The passes that are cut: of the tied ones the backward pass lies where the forward one does.
    pub(super) fn cut_passes(&self) -> &'static [usize] {
        match self.settings.cuts {
            Cuts::Tied => &[FORWARD],
            Cuts::Separate => &[FORWARD, BACKWARD],
        }
    }

    /// How many of these layers have no backward pass, as no gradient returns through them.
    fn idle(&self, names: &[String]) -> usize {
        let named = self.named(names).into_iter();
        named.filter(|&at| !self.layer(at).returns).count()
    }

    fn few_layers(&mut self, plan: &Plan, pass: usize, most: usize) {
        let held = |stage: &PlanStage| match pass {
            FORWARD => stage.forward.len(),
            _ => stage.backward.len() - self.idle(&stage.backward),
        };
        let held: Vec<usize> = plan.stages.iter().map(held).collect();
        for (k, held) in held.into_iter().enumerate().filter(|&(_, held)| held > most) {
            let found = format!("{held} layers");
            self.wrong(of_pass(k, pass), found, "no more than a constraint allows");
        }
    }

    fn named(&self, names: &[String]) -> Vec<usize> {
        let layers = &self.instance.network.layers;
        let of_name = |name: &String| layers.iter().position(|layer| layer.id == *name);
        names.iter().filter_map(of_name).collect()
    }

    /// No stage holds two of these layers.
    fn one_a_stage(&mut self, names: &[String]) {
        let named: BTreeSet<usize> = self.named(names).into_iter().collect();
        let mut held = BTreeSet::new();
        let passes = self.cut_passes().iter();
        for (&pass, &at) in passes.flat_map(|pass| named.iter().map(move |at| (pass, at))) {
            let place = self.stage_of_pass(at, pass);
            if let Some(stage) = place.filter(|&stage| !held.insert((pass, stage))) {
                let found = format!("`{}` beside another", self.instance.network.layers[at].id);
                self.wrong(
                    of_pass(stage, pass),
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
        let cuts = |&pass: &usize| (1..plan.stages.len()).map(move |cut| (pass, cut));
        for (pass, cut) in self.cut_passes().iter().flat_map(cuts) {
            let forward = self.placed_in(pass);
            let placed: BTreeSet<usize> = forward.iter().map(|&(at, _)| at).collect();
            let mut places = places.iter().map(|place| place & &placed);
            let before: BTreeSet<usize> = forward
                .iter()
                .filter(|(_, stage)| *stage < cut)
                .map(|(at, _)| *at)
                .collect();
            if !places.any(|place| place == before) && before.len() < forward.len() && !before.is_empty() {
                self.violations.push(Violation::Field {
                    field: of_pass(cut - 1, pass),
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

/// Where a plan says the passes of a stage.
fn of_pass(stage: usize, pass: usize) -> String {
    format!("stages[{stage}].{}", ["forward", "backward"][pass])
}
