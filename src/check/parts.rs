//! Parts of layers in modes: what each adds to the stage where it lies, recomputed from the instance in floating point.
//!
//! A layer is one part where both of its passes share a stage, and two where they lie apart, each with a mode of its own stage. Every sum is
//! over parts, so that layers that are cut need no other rules than which of them a pass has.

use std::collections::HashMap;

use super::devices::Placed;
use super::hosts::weights_on;
use super::modes::{NOTHING, Sum};
use super::{BACKWARD, Checker, FORWARD};
use crate::model::cluster::Resource;
use crate::model::network::LayerMode;
use crate::model::options::{Cuts, OptimizerSharding};
use crate::problem::plan::Plan;

/// Passes of a layer that lie on one stage.
#[derive(Clone)]
pub(super) struct Part {
    /// Position of the layer.
    pub layer: usize,
    /// Whether its forward and its backward pass are there: both, wherever the layer is not cut, be it that it has one alone.
    pub passes: [bool; 2],
    /// Where it lies.
    pub stage: usize,
    /// The stages of its forward and of its backward pass, of which this one is either, or both.
    pub ends: [usize; 2],
    /// How it is run there.
    pub mode: LayerMode,
}

/// The part of a layer that has one of its passes, of parts in the order of their layers.
pub(super) fn part_of(parts: &[Part], layer: usize, pass: usize) -> Option<&Part> {
    let start = parts.partition_point(|part| part.layer < layer);
    let own = parts[start..].iter().take_while(|part| part.layer == layer);
    own.into_iter().find(|part| part.passes[pass])
}

/// The two parts of every layer whose passes lie apart: that of the forward pass first.
pub(super) fn apart(parts: &[Part]) -> impl Iterator<Item = [&Part; 2]> {
    let neighbours = parts.windows(2).map(|two| [&two[0], &two[1]]);
    neighbours.filter(|[one, other]| one.layer == other.layer)
}

impl Checker<'_> {
    /// Where passes of a layer lie: both on one stage unless it is cut.
    pub(super) fn places(&self, at: usize) -> Vec<([bool; 2], usize)> {
        let may_be_cut = self.settings.cuts == Cuts::Separate && self.layer(at).returns;
        match [FORWARD, BACKWARD].map(|pass| self.stage_of[pass][at]) {
            [Some(forward), Some(backward)] if may_be_cut && forward != backward => {
                vec![([true, false], forward), ([false, true], backward)]
            }
            _ => self
                .own_stage(at)
                .map(|stage| ([true; 2], stage))
                .into_iter()
                .collect(),
        }
    }

    /// All parts, in the order of their layers. The mode of each is what its stage says, else the one that computes nothing again; `None` where the problem does
    /// not allow one.
    pub(super) fn parts(&mut self, plan: &Plan, placed: &[Placed]) -> Option<Vec<Part>> {
        let named = self.recomputed(plan);
        let mut parts = Vec::new();
        let mut is_complete = true;
        for at in (0..self.instance.network.layers.len())
            .filter(|&at| self.kept(at))
            .collect::<Vec<_>>()
        {
            let places = self.places(at);
            let on = |pass: usize| places.iter().find(|(passes, _)| passes[pass]);
            let ends = [FORWARD, BACKWARD].map(|pass| on(pass).map_or(0, |&(_, stage)| stage));
            let name = named.get(&at).map_or(NOTHING, String::as_str);
            for (passes, stage) in places {
                let Some(mode) = self.mode_on(&placed[stage], at, name) else {
                    is_complete = false;
                    let (id, tensor) = (&self.layer(at).id, placed[stage].tensor);
                    let found = format!("`{id}` at degree {tensor} with recomputation `{name}`");
                    let expected = "a mode of the layer that the problem allows";
                    self.wrong(format!("stages[{stage}].mode"), found, expected);
                    continue;
                };
                parts.push(Part {
                    layer: at,
                    passes,
                    stage,
                    ends,
                    mode,
                });
            }
        }
        is_complete.then_some(parts)
    }

    /// What stages say that layers compute again: those alone whose passes are all there.
    fn recomputed(&mut self, plan: &Plan) -> HashMap<usize, String> {
        let layers = self.instance.network.layers.iter().enumerate();
        let position: HashMap<&str, usize> = layers.map(|(at, layer)| (layer.id.as_str(), at)).collect();
        let mut named = HashMap::new();
        for (k, stage) in plan.stages.iter().enumerate() {
            let listed = stage.mode.iter().flat_map(|mode| &mode.recomputed);
            for (name, layer) in
                listed.flat_map(|(name, layers)| layers.iter().map(move |layer| (name, layer)))
            {
                let at = position.get(layer.as_str()).copied();
                let own = at.filter(|&at| self.places(at) == [([true; 2], k)]);
                let before = own.and_then(|at| named.insert(at, name.clone()));
                if own.is_none() || before.is_some() {
                    let field = format!("stages[{k}].mode.recomputed.{name}");
                    self.wrong(field, format!("`{layer}`"), "layers of the stage, each once");
                }
            }
        }
        named
    }

    /// The mode of such a name that a layer has on a stage, if the devices there run it.
    fn mode_on(&self, placed: &Placed, at: usize, name: &str) -> Option<LayerMode> {
        let shares_out = |mode: &LayerMode| {
            let own = mode.experts;
            own.is_none_or(|own| own.count.is_multiple_of(placed.expert))
        };
        let runs = |mode: &LayerMode| mode.times[placed.kind].is_some() && shares_out(mode);
        self.mode_of_layer(at, placed.tensor, name).filter(runs)
    }

    /// The mode of a layer at a degree and of a name, if the problem allows it.
    pub(super) fn mode_of_layer(&self, at: usize, tensor: usize, name: &str) -> Option<LayerMode> {
        let modes = self.layer(at).modes().into_owned();
        let of_degree: Vec<LayerMode> = modes.into_iter().filter(|mode| mode.tensor == tensor).collect();
        let recompute = &self.settings.recompute;
        // No framework is told what lies at hosts.
        let may = |mode: &LayerMode| mode.host_bytes == 0 || self.settings.target.is_none();
        let mut asked = of_degree
            .iter()
            .filter(|mode| recompute.names(&mode.recompute) && may(mode));
        let is_allowed = if asked.clone().next().is_some() {
            asked.any(|mode| mode.recompute == name)
        } else {
            name == NOTHING
        };
        let mode = of_degree.into_iter().find(|mode| mode.recompute == name)?;
        let runs = |&kind: &usize| mode.times[kind].is_some();
        (is_allowed && self.settings.kinds.iter().any(runs)).then_some(mode)
    }

    /// How fast a device of a kind runs forward and backward passes.
    fn rates_of(&self, kind: usize) -> [f64; 2] {
        let resources = &self.instance.cluster.kinds[kind].resources;
        let sum = |of: fn(&Resource) -> f64| resources.iter().map(of).sum();
        match resources.is_empty() {
            true => [1.0; 2],
            false => [sum(|own| own.forward_rate), sum(|own| own.backward_rate)],
        }
    }

    /// What parts come to on their stages, without what moves between these.
    pub(super) fn modal_sums(&self, placed: &[Placed], parts: &[Part]) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); placed.len()];
        for part in parts {
            let (placed, sum) = (&placed[part.stage], &mut sums[part.stage]);
            self.add_work(part, placed, sum);
            self.add_groups(part, placed, sum);
            match part.passes {
                [true, false] => self.hold_weights(part, placed, sum),
                _ => self.hold_layer(part, placed, sum),
            }
            let whole_bytes = self.whole_bytes(part.layer, &part.mode, placed);
            let workspace_bytes = placed.part(part.mode.workspace_bytes) + whole_bytes;
            sum.workspace_bytes = sum.workspace_bytes.max(workspace_bytes);
        }
        sums
    }

    /// Adds the work of the passes that are there.
    fn add_work(&self, part: &Part, placed: &Placed, sum: &mut Sum) {
        let times = part.mode.times[placed.kind].unwrap_or_default();
        let [forward_rate, backward_rate] = self.rates_of(placed.kind);
        let load = self.settings.expert_load;
        let longer = part.mode.experts.filter(|_| placed.expert > 1 && load > 1.0);
        let longer = longer.map_or(1.0, |own| 1.0 + (load - 1.0) * own.share);
        let parts = placed.parts() as f64;
        let at_rate =
            |ns: u64, rate: f64| self.counted_ns(self.counted_ns(ns as f64 / (rate * parts)) * longer);
        if part.passes[FORWARD] {
            sum.work_ns[FORWARD] += at_rate(times.forward_ns, forward_rate);
        }
        if part.passes[BACKWARD] && self.settings.mode.trains() {
            sum.work_ns[BACKWARD] += at_rate(times.backward_ns, backward_rate);
            sum.weight_ns += at_rate(times.weight_ns, backward_rate);
        }
    }

    /// Adds what groups of devices move in the passes that are there.
    fn add_groups(&self, part: &Part, placed: &Placed, sum: &mut Sum) {
        let (settings, tensor) = (self.settings, part.mode.tensor);
        let [group, expert, parts] = [tensor, placed.expert, placed.parts()].map(|of| of as f64);
        let bandwidth = self.link_of_group(placed, tensor).bandwidth_bytes_per_s;
        let group_ns = |bytes: u64| {
            self.counted_ns(2.0 * (group - 1.0) / group * bytes as f64 / parts / bandwidth * 1e9)
        };
        let link = self.link_of_group(placed, placed.tensor * placed.expert);
        let load = settings.expert_load;
        // Of the tokens' vectors all but one in so many go to other devices.
        let routed_ns = |mode: &LayerMode| {
            let bytes = mode.experts.map_or(0, |own| own.routed_bytes) as f64;
            self.counted_ns(load * bytes * (1.0 - 1.0 / expert) / parts / link.bandwidth_bytes_per_s * 1e9)
        };
        let moved_ns = |mode: &LayerMode| group_ns(mode.collective_bytes) + routed_ns(mode);
        // Of the least that a mode of the degree reduces half is forward propagation's; the rest is backward's.
        let modes = self.layer(part.layer).modes();
        let of_degree = modes.iter().filter(|other| other.tensor == tensor);
        let least_ns = of_degree.map(moved_ns).fold(f64::INFINITY, f64::min);
        let returns = settings.mode.trains() && self.layer(part.layer).returns;
        let all_ns = moved_ns(&part.mode);
        let forward_ns = match (returns, self.counted_ticks()) {
            (false, _) => all_ns,
            (true, Some(ticks)) => least_ns - ((least_ns * ticks).round() / 2.0).floor() / ticks,
            (true, None) => least_ns / 2.0,
        };
        let exchanged_ns = self.exchanged_ns(part.layer, &part.mode, placed);
        let own_ns = [forward_ns, all_ns - forward_ns];
        for pass in [FORWARD, BACKWARD].into_iter().filter(|&pass| part.passes[pass]) {
            sum.work_ns[pass] += exchanged_ns[pass] + own_ns[pass];
        }
    }

    /// Adds all that is held of a layer where its backward pass lies.
    fn hold_layer(&self, part: &Part, placed: &Placed, sum: &mut Sum) {
        let mode = &part.mode;
        self.keep(sum, part, placed);
        let own_bytes = mode.experts.map_or(0, |own| own.parameter_bytes);
        let of_experts = self.kept_on(placed, own_bytes);
        let kept = self.kept_on(placed, mode.parameter_bytes);
        sum.held_bytes += u128::from(mode.resident_bytes) + self.served(mode.cache) + kept.each;
        (0..2).for_each(|of| sum.states_at_host[of] += kept.at_host[of]);
        sum.gradient_bytes += mode.gradient_bytes as f64;
        if placed.expert > 1 {
            let frozen = self.layer(part.layer).frozen;
            let all = if frozen { own_bytes.into() } else { of_experts.each };
            sum.held_bytes -= elsewhere(placed, all);
            if !frozen {
                sum.states_at_host[0] -= elsewhere(placed, of_experts.at_host[0]);
                sum.gradient_bytes -= own_bytes as f64;
                sum.expert_gradient_bytes += own_bytes as f64 / placed.expert as f64;
            }
        }
        sum.shared_bytes += kept.together;
    }

    /// Adds what a forward pass needs by itself: the weights, but for a table that is there anyway, and nothing that belongs to them. Those of frozen
    /// layers are resident.
    fn hold_weights(&self, part: &Part, placed: &Placed, sum: &mut Sum) {
        let mode = &part.mode;
        let there_bytes = u128::from(self.there_anyway(part.layer, mode.shared_bytes));
        if self.layer(part.layer).frozen {
            let own_bytes = mode.experts.map_or(0, |own| own.parameter_bytes.into());
            sum.held_bytes += u128::from(mode.resident_bytes) - elsewhere(placed, own_bytes) - there_bytes;
        } else if self.settings.optimizer_sharding == OptimizerSharding::Zero3 {
            sum.shared_bytes += u128::from(mode.parameter_bytes) - there_bytes;
        } else {
            sum.held_bytes += weights_on(placed, mode) - there_bytes;
        }
    }
}

/// Of so many bytes of experts, those that a device leaves to others.
fn elsewhere(placed: &Placed, bytes: u128) -> u128 {
    bytes - bytes.div_ceil(placed.expert as u128)
}
