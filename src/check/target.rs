//! What the framework that a plan is for can run: where it is cut, and what it computes again.

use std::collections::{BTreeMap, BTreeSet};

use super::modes::{FULL, NOTHING};
use super::parts::Part;
use super::{Checker, FORWARD, Violation};
use crate::model::network::{module_path, predictor_of};
use crate::model::options::{Layout, Recomputation};
use crate::problem::plan::Plan;

impl Checker<'_> {
    /// The framework can be cut where the plan is.
    pub(super) fn layout(&mut self, plan: &Plan) {
        let Some(target) = self.settings.target else {
            return;
        };
        match target.limits().layout {
            Layout::Layers => {}
            Layout::ModuleTree => self.modules_whole(),
            Layout::ModuleList => self.one_output_each(plan),
            Layout::Blocks { each, predictors } => self.blocks_in_a_row(plan, each, predictors),
        }
    }

    /// Forward layers and their stages.
    pub(super) fn forward(&self) -> Vec<(usize, usize)> {
        self.placed_in(FORWARD)
    }

    /// The same of either pass.
    pub(super) fn placed_in(&self, pass: usize) -> Vec<(usize, usize)> {
        let layers = 0..self.instance.network.layers.len();
        let forward = layers.filter(|&at| !self.layer(at).backward);
        forward
            .filter_map(|at| Some((at, self.stage_of_pass(at, pass)?)))
            .collect()
    }

    /// The stage of a layer's pass; of the forward one that of the layer, whichever it is. There is no backward pass where no gradient returns.
    pub(super) fn stage_of_pass(&self, at: usize, pass: usize) -> Option<usize> {
        match pass {
            FORWARD => self.own_stage(at),
            _ => self.stage_of[pass][at].filter(|_| self.layer(at).returns),
        }
    }

    /// Two layers are to share a stage.
    pub(super) fn apart(&mut self, first: usize, second: usize, reason: &'static str) {
        for &pass in self.cut_passes() {
            let [Some(one), Some(other)] = [first, second].map(|at| self.stage_of_pass(at, pass)) else {
                continue;
            };
            if one != other {
                self.violations.push(Violation::Apart {
                    first: self.layer(first).id.clone(),
                    second: self.layer(second).id.clone(),
                    reason,
                    stages: [one + 1, other + 1],
                });
            }
        }
    }

    /// What a module computes itself, and all that is inside of it, shares a stage.
    fn modules_whole(&mut self) {
        let instance = self.instance;
        let path = |at: usize| module_path(&instance.network.layers[at].id).unwrap_or_default();
        let mut first: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
        for (at, _) in self.forward() {
            first.entry(path(at)).or_insert(at);
        }
        for (at, _) in self.forward() {
            let path = path(at);
            let modules = (1..=path.len()).filter_map(|length| first.get(&path[..length]));
            for &own in modules.collect::<Vec<_>>() {
                self.apart(own, at, "a module that computes something itself");
            }
        }
    }

    /// One layer's output, and not the network's input, is all that stages hand on.
    fn one_output_each(&mut self, plan: &Plan) {
        let stages: BTreeMap<usize, usize> = self.forward().into_iter().collect();
        let tensors = &self.instance.network.tensors;
        let mut inputs: BTreeSet<usize> = stages.keys().copied().collect();
        for tensor in tensors
            .iter()
            .filter(|tensor| stages.contains_key(&tensor.producer))
        {
            tensor
                .consumers
                .iter()
                .filter(|&&to| !self.layer(to).reads_input)
                .for_each(|to| {
                    inputs.remove(to);
                });
        }
        for cut in 1..plan.stages.len() {
            let is_behind = |at: &usize| stages.get(at).is_some_and(|&stage| stage >= cut);
            let crosses = |tensor: &&crate::model::network::Tensor| {
                stages.get(&tensor.producer).is_some_and(|&stage| stage < cut)
                    && tensor.consumers.iter().any(is_behind)
            };
            let mut crossing: Vec<usize> = tensors
                .iter()
                .filter(crosses)
                .map(|tensor| tensor.producer)
                .collect();
            crossing.sort_unstable();
            crossing.dedup();
            if crossing.len() != 1 || inputs.iter().any(is_behind) {
                let found = format!("{} outputs that later stages need", crossing.len());
                let expected = "one layer's output, and no input of the network behind it";
                self.wrong(format!("stages[{}].forward", cut - 1), found, expected);
            }
        }
    }

    /// Every block shares a stage.
    pub(super) fn blocks_whole(&mut self) {
        let instance = self.instance;
        let stack = instance.network.stack(|at| !instance.network.layers[at].backward);
        for block in stack.iter().flat_map(|stack| stack.blocks.values()) {
            block
                .iter()
                .for_each(|&at| self.apart(block[0], at, "their block"));
        }
    }

    /// Every block shares a stage, blocks follow their numbers, and what lies outside is on the first and the last stage, but for `predictors`.
    fn blocks_in_a_row(&mut self, plan: &Plan, each: bool, predictors: bool) {
        let instance = self.instance;
        let Some(stack) = instance.network.stack(|at| !instance.network.layers[at].backward) else {
            return;
        };
        let members: Vec<&Vec<usize>> = stack.blocks.values().collect();
        for block in &members {
            block
                .iter()
                .for_each(|&at| self.apart(block[0], at, "their block"));
        }
        for two in members.windows(2) {
            let [Some(one), Some(other)] = [two[0][0], two[1][0]].map(|at| self.own_stage(at)) else {
                continue;
            };
            if one > other {
                self.wrong(
                    format!("stages[{other}].forward"),
                    format!(
                        "`{}` before `{}`",
                        self.layer(two[1][0]).id,
                        self.layer(two[0][0]).id
                    ),
                    "blocks in the order of their numbers",
                );
            }
        }
        let of_blocks: BTreeSet<usize> = members.iter().flat_map(|block| block.iter().copied()).collect();
        let held: BTreeSet<usize> = of_blocks.iter().filter_map(|&at| self.own_stage(at)).collect();
        for stage in (0..plan.stages.len()).filter(|stage| each && !held.contains(stage)) {
            self.wrong(
                format!("stages[{stage}].forward"),
                "no block".into(),
                "one at least",
            );
        }
        let last = plan.stages.len() - 1;
        let outside = self.forward().into_iter();
        let outside: Vec<(usize, usize)> = outside.filter(|(at, _)| !of_blocks.contains(at)).collect();
        let mut predicts = None;
        for (at, stage) in outside {
            let is_behind = self.needs(at).any(|layer| of_blocks.contains(&layer));
            if predictors && is_behind && predictor_of(&self.layer(at).id).is_some() {
                self.apart(*predicts.get_or_insert(at), at, "multi-token prediction");
                if held.last().is_some_and(|&block| stage < block) {
                    let found = format!("`{}`", self.layer(at).id);
                    let expected = "no multi-token prediction before the last block";
                    self.wrong(format!("stages[{stage}].forward"), found, expected);
                }
                continue;
            }
            let expected = match is_behind {
                true => (last, "all that comes after the blocks on the last stage"),
                false => (0, "all that comes before the blocks on the first stage"),
            };
            if stage != expected.0 {
                let found = format!("`{}`", self.layer(at).id);
                self.wrong(format!("stages[{stage}].forward"), found, expected.1);
            }
        }
    }

    /// For a framework that can be told no more: nothing outside of blocks, and the same in all blocks, or all in the first so many of every stage.
    pub(super) fn told_of_recomputation(&mut self, plan: &Plan, parts: &[Part]) {
        let Some(told) = self.settings.target.map(|target| target.limits().recomputation) else {
            return;
        };
        let ranks = self.instance.network.block_ranks();
        let mut names: Vec<BTreeMap<usize, &str>> = vec![BTreeMap::new(); plan.stages.len()];
        let mut is_told = true;
        for &Part {
            layer: at,
            stage,
            ref mode,
            ..
        } in parts
        {
            match ranks.get(at).copied().flatten() {
                None => is_told &= mode.recompute == NOTHING,
                Some(block) if mode.recompute == NOTHING => {
                    names[stage].entry(block).or_insert(NOTHING);
                }
                Some(block) => {
                    let before = names[stage].insert(block, &mode.recompute);
                    is_told &= before.is_none_or(|name| name == NOTHING || name == mode.recompute);
                }
            }
        }
        // Layers that keep everything can do nothing else, where others of their block do.
        for part in parts {
            let Some(block) = ranks.get(part.layer).copied().flatten() else {
                continue;
            };
            let name = names[part.stage][&block];
            let may = |name| self.mode_of_layer(part.layer, part.mode.tensor, name).is_some();
            is_told &= part.mode.recompute == name || !may(name);
        }
        let all: BTreeSet<&str> = names.iter().flat_map(BTreeMap::values).copied().collect();
        is_told &= match told {
            Recomputation::Nothing => all.iter().all(|&name| name == NOTHING),
            Recomputation::AllBlocks => {
                all.len() <= 1 && all.iter().all(|name| [NOTHING, FULL].contains(name))
            }
            Recomputation::Alike => {
                let first = |blocks: &BTreeMap<usize, &str>| {
                    let full = blocks.values().take_while(|&&name| name == FULL).count();
                    let none = blocks.values().filter(|&&name| name == NOTHING).count();
                    (full + none == blocks.len()).then_some(full)
                };
                let counts: BTreeSet<Option<usize>> = names.iter().map(first).collect();
                all.len() <= 1 || (counts.len() == 1 && !counts.contains(&None))
            }
        };
        if !is_told {
            let expected = "what the framework can be told";
            self.wrong("stages.mode.recomputed".into(), "others".into(), expected);
        }
    }
}
