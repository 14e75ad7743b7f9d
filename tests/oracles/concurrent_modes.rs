//! Stages in modes whose devices run both phases at once, for the brute force over modes: what they take on shares of their resources, and how long they run.
//!
//! Where some resources have levels, several shares may be equally good for a stage's own period, and an iteration is longer on some of them than on others. So
//! there are two answers, that of the best of them and that of the worst.

use stagecut::instance::Instance;
use stagecut::options::Mode;
use stagecut::options::{Objective, WorkerMode};
use stagecut::settings::Settings;
use stagecut::simulate::Channels;

use super::modes::{Run, RunWay, Search, searched};
use super::replicas::{self, Stage};
use super::shares;

/// The least objective in ms of all plans, where of shares that are equally good for a stage the best are taken, and where the worst; `None` where no plan fits.
pub fn best_ms(instance: &Instance, settings: &Settings) -> Option<[f64; 2]> {
    let search = searched(instance, settings, settings.objective == Objective::Iteration);
    let both = [search.best_ns, search.best_at_most_ns];
    both[0].is_finite().then_some(both.map(|ns| ns / 1e6))
}

/// A stage at the best shares for one way to run it: forward and backward time and ring in whole ns, for each of those that are equally good.
type Ways = Vec<[f64; 3]>;

impl Search<'_> {
    pub(super) fn runs_both_at_once(&self) -> bool {
        self.settings.worker == WorkerMode::Concurrent
    }

    pub(super) fn channels(&self) -> Channels {
        match self.runs_both_at_once() {
            true => Channels::Split,
            false => Channels::Shared,
        }
    }

    /// Forward and backward time in ns on shares of what takes so long for a device with nothing else to do.
    fn on_shares(&self, kind: usize, alone_ns: [f64; 2]) -> Vec<[f64; 2]> {
        let stage = shares::Stage::on_kind(
            &self.instance.cluster.kinds[kind],
            self.settings.share_parts,
            alone_ns,
        );
        stage.times_ns(self.settings.shares)
    }

    /// The slower phase of the same, in ns.
    pub(super) fn slower_ns(&self, kind: usize, alone_ns: [f64; 2]) -> f64 {
        let both = self.on_shares(kind, alone_ns)[0];
        both[0].max(both[1])
    }

    /// What the slower phase takes at least of work that takes so long in both together: half of it, on resources at their fastest.
    pub(super) fn slower_at_least_ns(&self, kind: usize, both_ns: f64) -> f64 {
        let levels = self.instance.cluster.kinds[kind].resources.iter();
        let levels = levels.flat_map(|resource| &resource.levels);
        let speeds = levels.flat_map(|level| [level.forward_speed, level.backward_speed]);
        both_ns / 2.0 / speeds.fold(1.0, f64::max)
    }

    /// Micro-batches of a layer whose passes lie apart, in each replica of the stage that has its backward pass: those on the way behind its forward pass, and those
    /// on the way behind its backward pass.
    pub(super) fn in_flight_at_once(&self, layer: usize, runs: &[Run]) -> u64 {
        let own = runs[self.back_of[layer]].replicas;
        let turns = |stage: usize| {
            let behind: usize = runs[stage..].iter().map(|run| run.replicas).sum();
            behind.div_ceil(own) as u64
        };
        turns(self.stage_of[layer]) + turns(self.back_of[layer])
    }

    /// The shortest iteration of the stages over all choices of what they compute again, with the best and with the worst of equally good shares.
    pub(super) fn shared_iteration_ns(&self, runs: &[Run]) -> [f64; 2] {
        let Some(choices) = self.ways_of_stages(runs) else {
            return [f64::INFINITY; 2];
        };
        let links = self.links_of_stages(runs);
        let at = |(ways, run): (&Vec<RunWay>, &Run)| -> Vec<Ways> {
            ways.iter().map(|way| self.way_on_shares(run.kind, way)).collect()
        };
        let choices: Vec<Vec<Ways>> = choices.iter().zip(runs).map(at).collect();
        let count: usize = choices.iter().map(Vec::len).product();
        let mut best_ns = [f64::INFINITY; 2];
        for mut code in 0..count {
            let mut ways = Vec::new();
            for choices in &choices {
                ways.push(&choices[code % choices.len()]);
                code /= choices.len();
            }
            let all = products(&ways);
            let all = all.iter().map(|times| self.run_at_once_ns((runs, &links), times));
            let [least, most] = all.fold([f64::INFINITY, 0.0], |[least, most]: [f64; 2], ns| {
                [least.min(ns), most.max(ns)]
            });
            best_ns = [best_ns[0].min(least), best_ns[1].min(most)];
        }
        best_ns
    }

    fn way_on_shares(&self, kind: usize, way: &RunWay) -> Ways {
        let [forward, backward, ring] = way.times;
        let all = self.on_shares(kind, [forward, backward]).into_iter();
        let whole = |ns: f64| {
            if ns.is_finite() {
                shares::nearest_ns(ns) as f64
            } else {
                ns
            }
        };
        all.map(|[forward, backward]| [whole(forward), whole(backward), ring])
            .collect()
    }

    /// What an iteration takes of stages that take so long, in ns: infinite where a phase never ends.
    fn run_at_once_ns(&self, (runs, links): (&[Run], &[[[f64; 2]; 2]]), times: &[[f64; 3]]) -> f64 {
        if times.iter().flatten().any(|ns| !ns.is_finite()) {
            return f64::INFINITY;
        }
        let simulated = self.with_links_ns((runs, links), times) as f64;
        if self.settings.communication.has_links() {
            return simulated;
        }
        let stages = times.iter().zip(runs).map(|(times, run)| Stage {
            forward: times[0] as u64,
            backward: times[1] as u64,
            replicas: run.replicas,
        });
        let stages: Vec<Stage> = stages.collect();
        let trains = self.settings.mode == Mode::Training;
        let run = replicas::run_both_at_once(&stages, self.settings.run_micro_batches() as usize, trains);
        let end = |k: usize| run[k].iter().flatten().map(|times| times.1).max().unwrap_or(0) as f64;
        let ns = (0..stages.len())
            .map(|k| end(k) + times[k][2])
            .fold(0.0, f64::max);
        assert_eq!(ns, simulated, "{stages:?}");
        ns
    }
}

/// One of each, in every way.
fn products(ways: &[&Ways]) -> Vec<Vec<[f64; 3]>> {
    let mut all = vec![Vec::new()];
    for ways in ways {
        let longer = |before: &Vec<[f64; 3]>| -> Vec<Vec<[f64; 3]>> {
            ways.iter().map(|&own| [&before[..], &[own]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
