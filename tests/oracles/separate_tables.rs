//! Tables that layers share where both passes of a layer may lie apart, by brute force: every placement of every pass of a few layers on single devices that are
//! alike, costed from the rules of `formulations/copies.md` and `formulations/cuts.md`. Iterations are graphs of tasks.

use std::collections::BTreeSet;

use stagecut::cost::StageCost;
use stagecut::instance::Instance;
use stagecut::network::{Layer, Tensor};
use stagecut::options::{Communication, Objective, Schedule};
use stagecut::problem::Problem;
use stagecut::settings::Settings;

use super::is_behind_trained;
use super::runs::Run;

const FORWARD: usize = 0;
const BACKWARD: usize = 1;

/// The best plan of all.
#[derive(Clone, Debug)]
pub struct Best {
    /// What it takes, in ns.
    pub ns: u64,
    /// The stages of the forward and of the backward pass of every layer.
    pub stages: Vec<[usize; 2]>,
    /// How many plans fit.
    pub plans: usize,
}

/// The best of all plans; `None` where none fits.
pub fn best(instance: &Instance, problem: &Problem) -> Option<Best> {
    let mut search = Search {
        instance,
        problem,
        settings: &problem.settings,
        placed: Vec::new(),
        best: None,
        plans: 0,
    };
    search.place();
    search.best.map(|(ns, stages)| Best {
        ns,
        stages,
        plans: search.plans,
    })
}

struct Search<'a> {
    instance: &'a Instance,
    /// Only for what a graph of tasks asks of it.
    problem: &'a Problem,
    settings: &'a Settings,
    placed: Vec<[usize; 2]>,
    best: Option<(u64, Vec<[usize; 2]>)>,
    plans: usize,
}

impl Search<'_> {
    fn layers(&self) -> &[Layer] {
        &self.instance.network.layers
    }

    /// Gives both passes of each layer a stage, in every way that is a plan.
    fn place(&mut self) {
        let at = self.placed.len();
        if at == self.layers().len() {
            self.cost();
            return;
        }
        for forward in 0..self.settings.stages {
            for backward in 0..self.settings.stages {
                self.placed.push([forward, backward]);
                if self.may_be(at) {
                    self.place();
                }
                self.placed.pop();
            }
        }
    }

    /// Whether the layer that was placed last may lie where it does beside those before it in the file.
    fn may_be(&self, at: usize) -> bool {
        let own = self.placed[at];
        let returns = |layer: usize| is_behind_trained(&self.instance.network, layer);
        // Of layers through which no gradient returns the backward pass is nothing, and lies with the forward one.
        let keeps_pair = |from: usize, to: usize| match (self.placed.get(from), self.placed.get(to)) {
            (Some(from_stages), Some(to_stages)) => {
                let is_back = !returns(from) || from_stages[BACKWARD] <= to_stages[BACKWARD];
                from_stages[FORWARD] <= to_stages[FORWARD] && is_back
            }
            _ => true,
        };
        let keeps_order =
            |tensor: &Tensor| tensor.consumers.iter().all(|&to| keeps_pair(tensor.producer, to));
        let keeps_tie = |other: usize| {
            let tie = &self.layers()[at].tie;
            let is_tied = tie.is_some() && *tie == self.layers()[other].tie;
            let there = self.placed[other];
            let both_return = returns(at) && returns(other);
            !is_tied || there[FORWARD] == own[FORWARD] && (!both_return || there[BACKWARD] == own[BACKWARD])
        };
        (returns(at) || own[FORWARD] == own[BACKWARD])
            && (0..at).all(keeps_tie)
            && self.instance.network.tensors.iter().all(keeps_order)
    }

    fn cost(&mut self) {
        let used = self.placed.iter().flatten().max().map_or(0, |last| last + 1);
        let is_full = (0..used).all(|stage| self.placed.iter().flatten().any(|&own| own == stage));
        if !is_full || self.settings.all_stages && used < self.settings.stages || !self.fits(used) {
            return;
        }
        self.plans += 1;
        let ns = self.objective_ns(used);
        if self.best.as_ref().is_none_or(|(best, _)| ns < *best) {
            self.best = Some((ns, self.placed.clone()));
        }
    }

    /// The other layers that read the table of a layer.
    fn readers(&self, layer: usize) -> impl Iterator<Item = usize> + '_ {
        let own = self.layers()[layer].shared.as_ref();
        (0..self.layers().len()).filter(move |&other| {
            own.is_some() && other != layer && self.layers()[other].shared.as_ref() == own
        })
    }

    /// Whether the stage of a layer's forward pass has the layer's table without it.
    fn has_table(&self, layer: usize) -> bool {
        let stage = self.placed[layer][FORWARD];
        self.readers(layer).any(|other| {
            let is_before = other < layer && self.placed[other][FORWARD] == stage;
            is_before || self.placed[other][BACKWARD] == stage
        })
    }

    /// Weights that the forward pass of a layer needs, where that is away from the backward one, in bytes: those that are trained, and all.
    fn weights(&self, layer: usize) -> [u64; 2] {
        let own = &self.layers()[layer];
        let table = if self.has_table(layer) {
            own.shared_bytes
        } else {
            0
        };
        let trained = if own.frozen {
            0
        } else {
            own.parameter_bytes - table
        };
        [trained, own.parameter_bytes + own.frozen_bytes - table]
    }

    fn fits(&self, used: usize) -> bool {
        let mut bytes = vec![0; used];
        for (at, layer) in self.layers().iter().enumerate() {
            let [forward, backward] = self.placed[at];
            let from_end = (used - forward).max(used - backward) as u64;
            let all = self.settings.micro_batches.unwrap_or(u64::MAX);
            let in_flight = match self.settings.schedule {
                Schedule::Gpipe => all,
                _ => from_end.min(all),
            };
            bytes[backward] += self.settings.base_bytes(layer) + in_flight * layer.stash_bytes;
            if forward != backward {
                bytes[forward] += self.weights(at)[1];
            }
        }
        // A stage holds one copy, however many backward passes it has.
        for (at, layer) in self.layers().iter().enumerate() {
            let home = self.placed[at][BACKWARD];
            if self
                .readers(at)
                .any(|other| other < at && self.placed[other][BACKWARD] == home)
            {
                bytes[home] -= self.settings.copy_bytes(layer, layer.shared_bytes);
            }
        }
        let limit = self.settings.memory_limit.unwrap_or(u64::MAX);
        bytes.into_iter().all(|bytes| bytes <= limit)
    }

    /// A message of so many bytes, in ns.
    fn message_ns(&self, bytes: u64) -> u64 {
        let link = self.settings.link;
        match bytes {
            0 => 0,
            _ => link.latency_ns + (bytes as f64 / link.bandwidth_bytes_per_s * 1e9).round() as u64,
        }
    }

    /// Sums of gradients of copies: what two stages take, with these.
    fn sums(&self) -> Vec<(u64, [usize; 2])> {
        let mut sums = Vec::new();
        for (at, layer) in self.layers().iter().enumerate() {
            let others = self.readers(at).filter(|&other| other < at);
            let parted: BTreeSet<usize> = others.map(|other| self.placed[other][BACKWARD]).collect();
            let own = self.placed[at][BACKWARD];
            if let (false, Some(&other)) = (parted.contains(&own), parted.first()) {
                let ns = 2 * self.message_ns(layer.shared_bytes.div_ceil(2));
                let is_free = layer.frozen || self.settings.micro_batches.is_none();
                sums.push((if is_free { 0 } else { ns }, [other, own]));
            }
        }
        sums
    }

    /// What a message takes one stage that sends it and others that receive it, in ticks.
    fn send(&self, (pass, home): (usize, usize), to: &BTreeSet<usize>, ticks: u64, costs: &mut [StageCost]) {
        let away: Vec<usize> = to.iter().copied().filter(|&stage| stage != home).collect();
        if away.is_empty() {
            return;
        }
        let mut phase = |stage: usize, sends: bool| {
            let cost = match pass {
                FORWARD => &mut costs[stage].forward,
                _ => &mut costs[stage].backward,
            };
            match (self.settings.communication, sends) {
                (Communication::Blocking, _) => cost.communication_ns += ticks,
                (Communication::Overlapped, true) => cost.link_out_ns += ticks,
                (Communication::Overlapped, false) => cost.link_in_ns += ticks,
                _ => {}
            }
        };
        phase(home, true);
        away.into_iter().for_each(|stage| phase(stage, false));
    }

    /// What stages do for a micro-batch, in ticks.
    fn stages(&self, used: usize) -> Vec<StageCost> {
        let mut costs = vec![StageCost::default(); used];
        let ticks = self.settings.ticks_per_ns;
        let each = |ns: u64| (ns * ticks).div_ceil(self.settings.micro_batches.unwrap_or(1));
        for (at, layer) in self.layers().iter().enumerate() {
            let [forward, backward] = self.placed[at];
            let times = layer.times[self.settings.kind].expect("it runs there");
            costs[forward].forward.work_ns += times.forward_ns * ticks;
            costs[backward].backward.work_ns += times.backward_ns * ticks;
            let stash = self.message_ns(layer.stash_bytes) * ticks;
            self.send((FORWARD, forward), &BTreeSet::from([backward]), stash, &mut costs);
            let weights = each(self.message_ns(self.weights(at)[0]));
            self.send(
                (BACKWARD, backward),
                &BTreeSet::from([forward]),
                weights,
                &mut costs,
            );
        }
        for tensor in &self.instance.network.tensors {
            let moved = self.settings.transfer_ns(tensor) * ticks;
            let readers = |pass: usize| tensor.consumers.iter().map(|&to| self.placed[to][pass]).collect();
            let home = self.placed[tensor.producer];
            self.send((FORWARD, home[FORWARD]), &readers(FORWARD), moved, &mut costs);
            if is_behind_trained(&self.instance.network, tensor.producer) {
                // Gradients come from every stage that reads it.
                let readers: BTreeSet<usize> = readers(BACKWARD);
                let away: Vec<usize> = readers
                    .into_iter()
                    .filter(|&stage| stage != home[BACKWARD])
                    .collect();
                self.receive(home[BACKWARD], &away, moved, &mut costs);
            }
        }
        if !self.ends_with_sums() {
            for (ns, [one, other]) in self.sums() {
                self.send((BACKWARD, one), &BTreeSet::from([other]), each(ns), &mut costs);
                if self.settings.communication == Communication::Overlapped {
                    self.send((BACKWARD, other), &BTreeSet::from([one]), each(ns), &mut costs);
                }
            }
        }
        costs
    }

    /// What gradients take the stage that receives them, once, and those that send them.
    fn receive(&self, home: usize, away: &[usize], ticks: u64, costs: &mut [StageCost]) {
        if away.is_empty() {
            return;
        }
        match self.settings.communication {
            Communication::Blocking => {
                let all = away.iter().chain([&home]);
                all.for_each(|&stage| costs[stage].backward.communication_ns += ticks);
            }
            Communication::Overlapped => {
                costs[home].backward.link_in_ns += ticks;
                away.iter()
                    .for_each(|&stage| costs[stage].backward.link_out_ns += ticks);
            }
            _ => {}
        }
    }

    fn ends_with_sums(&self) -> bool {
        self.settings.is_simulated() && self.settings.objective == Objective::Iteration
    }

    fn objective_ns(&self, used: usize) -> u64 {
        let costs = self.stages(used);
        if self.settings.is_simulated() {
            let mut ends = Run::new(self.problem, &costs).ends_ns();
            if self.ends_with_sums() && self.settings.communication != Communication::Ignored {
                for (ns, stages) in self.sums() {
                    stages.into_iter().for_each(|stage| ends[stage] += ns);
                }
            }
            return ends.into_iter().max().unwrap_or(0);
        }
        let busy = |cost: &StageCost| {
            let both = [&cost.forward, &cost.backward];
            let sum = |of: fn(&stagecut::cost::PhaseCost) -> u64| both.map(of).into_iter().sum::<u64>();
            let work = sum(|cost| cost.work_ns + cost.communication_ns);
            (
                work,
                work.max(sum(|cost| cost.link_in_ns))
                    .max(sum(|cost| cost.link_out_ns)),
            )
        };
        let period = costs.iter().map(|cost| busy(cost).1).max().unwrap_or(0);
        let once: u64 = costs.iter().map(|cost| busy(cost).0).sum();
        let ticks = match self.settings.objective {
            Objective::Period => period,
            Objective::Latency => once,
            Objective::Formula | Objective::Iteration => {
                let of_phase = |phase: usize| {
                    let busiest = costs.iter().map(|cost| {
                        let cost = [&cost.forward, &cost.backward][phase];
                        (cost.work_ns + cost.communication_ns)
                            .max(cost.link_in_ns)
                            .max(cost.link_out_ns)
                    });
                    busiest.max().unwrap_or(0)
                };
                let round = match self.settings.schedule {
                    Schedule::Gpipe => of_phase(FORWARD) + of_phase(BACKWARD),
                    _ => period,
                };
                once + (self.settings.micro_batches.unwrap_or(1) - 1) * round
            }
            other => unreachable!("{other} of inference"),
        };
        ticks.div_ceil(self.settings.ticks_per_ns)
    }
}
