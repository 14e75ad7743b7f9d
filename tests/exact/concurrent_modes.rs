//! Stages in modes whose devices run both phases at once: against brute force, which is held against the program where devices take turns, and where there are no modes.

use std::time::Duration;

use crate::common::draw::{Scope, draw};
use crate::common::{draws, modal, seeds};
use crate::in_modes::{found, is_open, settings_for};
use crate::modal_iteration::make_usual;
use crate::oracles::concurrent_modes::best_ms;
use crate::separate_modes::{are_near, is_near, with_anything};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::options::{
    Communication, Cuts, Degrees, Groups, MemoryLimit, Mode, Objective, PipelineOptions, Schedule, Shares,
    WorkerMode,
};
use stagecut::plan::{Plan, Status, StoppedBy};
use stagecut::settings::Settings;
use stagecut::simulate::{Request, simulate};
use stagecut::spec::{InstanceSpec, LayerSpec, ResourceSpec, ShareLevelSpec};

/// Problems drawn for each objective.
const DRAWS: u64 = 1_000;

/// Draws of what devices are.
struct Draw(ChaCha8Rng);

impl Draw {
    fn may(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())]
    }

    /// A resource with or without measured levels.
    fn resource(&mut self, at: usize, has_levels: bool) -> ResourceSpec {
        const RATES: [f64; 6] = [1.0, 1.0, 1.5, 3.0, 0.5, 0.2];
        const LEVELS: [&[f64]; 3] = [&[0.5], &[0.25, 0.75], &[0.1, 0.4, 0.6, 0.9]];
        let shares = if has_levels { self.one_of(&LEVELS) } else { &[] };
        let mut level = |&share: &f64| ShareLevelSpec {
            share,
            // Near the share, and now and then faster than the whole.
            speed: share + self.one_of(&[-0.09, 0.0, 0.0, 0.125, 0.3]),
            backward_speed: self.may(0.5).then_some(share),
        };
        let levels = shares.iter().map(&mut level).collect();
        ResourceSpec {
            name: ["tensor", "vector"][at].into(),
            forward_rate: self.one_of(&RATES),
            backward_rate: self.may(0.7).then(|| self.one_of(&RATES)),
            levels,
        }
    }
}

/// A small problem of two to four devices that run both phases at once, with anything in it that modes know, features drawn each by itself.
fn drawn(seed: u64) -> InstanceSpec {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0xc0c0));
    let (is_separate, is_linear, is_grouped) = (draw.may(0.2), draw.may(0.4), draw.may(0.2));
    let more = [0, 1].map(|_| draw.0.random_range(0..=if is_separate { 1 } else { 3 }));
    let mut spec = modal::random_modal_of(3 + more[0].min(more[1]), seed);
    if draw.may(0.2) {
        modal::slow_inside(&mut spec, seed);
    }
    if !is_linear {
        make_usual(&mut spec);
    }
    spec = with_anything(spec, seed, !is_grouped);
    count_devices(&mut spec, &mut draw);
    let pipeline = &mut spec.pipeline;
    pipeline.communication = Some(match draw.may(0.6) {
        true => Communication::Overlapped,
        false => Communication::Ignored,
    });
    pipeline.groups = is_grouped.then_some(Groups::Assign);
    if !is_separate {
        pipeline.cuts = Some(Cuts::Tied);
        pipeline.stages = pipeline.stages.filter(|_| draw.may(0.5));
    }
    pipeline.micro_batches = Some(draw.one_of(&[1, 2, 3, 4, 6, 8, 8, 8]));
    // Twice as much is in flight as where devices take turns.
    if let Some(MemoryLimit::Bytes(bytes)) = pipeline.memory_limit {
        pipeline.memory_limit = Some(MemoryLimit::Bytes(bytes * draw.one_of(&[1, 4, 8])));
    }
    ask_for_what_may_be(&mut spec);
    run_both_at_once(&mut spec, &mut draw, is_linear);
    if draw.may(0.08) {
        only_forwards(&mut spec);
    }
    spec
}

/// Leaves degrees open where only one is asked for that few plans have: layers may have no mode of it, and replicas share out micro-batches evenly.
fn ask_for_what_may_be(spec: &mut InstanceSpec) {
    let two = Some(Degrees::one(2));
    let has_pairs = |layer: &LayerSpec| layer.modes.iter().any(|mode| mode.tensor == Some(2));
    let all_have_pairs = spec.network.layers.iter().all(has_pairs);
    let pipeline = &mut spec.pipeline;
    if pipeline.tensor == two && !all_have_pairs {
        pipeline.tensor = Some(Degrees::Choose);
    }
    let is_odd = pipeline.micro_batches.is_some_and(|all| !all.is_multiple_of(2));
    if pipeline.replicas == two && (pipeline.tensor == two || is_odd) {
        pipeline.replicas = Some(Degrees::Choose);
    }
}

/// Two to four devices in all.
fn count_devices(spec: &mut InstanceSpec, draw: &mut Draw) {
    let kinds = &mut spec.cluster.as_mut().expect("a cluster").device_kinds;
    let most = match kinds.len() {
        1 => 4,
        2 => 2,
        _ => 1,
    };
    for kind in &mut *kinds {
        kind.count = Some(draw.0.random_range(if most > 2 { 2..=most } else { 1..=most }));
    }
    let devices: usize = kinds.iter().filter_map(|kind| kind.count).sum();
    let stages = &mut spec.pipeline.stages;
    *stages = stages.map(|stages| stages.min(devices));
}

/// Devices of resources, some with levels, and a policy for their shares; `is_linear` where each has one that takes any share.
fn run_both_at_once(spec: &mut InstanceSpec, draw: &mut Draw, is_linear: bool) {
    let pipeline = &mut spec.pipeline;
    (pipeline.worker, pipeline.schedule) = (Some(WorkerMode::Concurrent), Some(Schedule::Concurrent));
    let has_measured = !is_linear && draw.may(0.4);
    pipeline.share_parts = (!is_linear && draw.may(0.3)).then(|| draw.0.random_range(2..=5));
    let has_levels = has_measured || pipeline.share_parts.is_some();
    pipeline.shares = match has_levels {
        true => draw.one_of(&[None, Some(Shares::Best), Some(Shares::Best), Some(Shares::Even)]),
        false => draw.one_of(&[
            None,
            Some(Shares::Best),
            Some(Shares::Even),
            Some(Shares::Theorem),
        ]),
    };
    let cluster = spec.cluster.as_mut().expect("a cluster");
    for kind in &mut cluster.device_kinds {
        let count = if is_linear {
            draw.one_of(&[0, 1])
        } else {
            draw.one_of(&[1, 2, 2])
        };
        let resource = |at: usize| {
            let has_own = has_measured && draw.may(0.6);
            draw.resource(at, has_own)
        };
        kind.resources = (0..count).map(resource).collect();
    }
    if !is_linear {
        keep_forwards_alike(spec);
    }
}

/// Nothing of what layers may compute again makes their forward passes differ.
fn keep_forwards_alike(spec: &mut InstanceSpec) {
    let mut kinds = spec.cluster.iter().flat_map(|cluster| &cluster.device_kinds);
    if kinds.any(|kind| kind.host_bytes_per_s.is_some()) {
        spec.pipeline.recompute = Some("none,full".parse().unwrap());
    }
    for layer in &mut spec.network.layers {
        let shares: Vec<Option<f64>> = layer
            .modes
            .iter()
            .map(|mode| Some(mode.experts.as_ref()?.share))
            .collect();
        let modes = layer.modes.iter_mut().filter_map(|mode| mode.experts.as_mut());
        modes.for_each(|experts| experts.share = shares[0].unwrap_or(experts.share));
    }
}

/// The same in inference, without what only training knows.
fn only_forwards(spec: &mut InstanceSpec) {
    if spec.network.layers.iter().any(|layer| layer.backward) {
        return;
    }
    spec.pipeline = PipelineOptions {
        mode: Some(Mode::Inference),
        cuts: None,
        recompute: None,
        optimizer_sharding: None,
        optimizer_offload: None,
        context_parallel: None,
        ..spec.pipeline.clone()
    };
}

/// The same on devices that take turns with the phases.
fn in_turn(spec: &InstanceSpec) -> InstanceSpec {
    let pipeline = PipelineOptions {
        worker: None,
        schedule: None,
        shares: None,
        share_parts: None,
        ..spec.pipeline.clone()
    };
    InstanceSpec {
        pipeline,
        ..spec.clone()
    }
}

/// A problem, its plan, and the least objective in ms by brute force: with the best, and with the worst of shares that are equally good.
struct Compared {
    instance: Instance,
    settings: Settings,
    plan: Plan,
    best: Option<[f64; 2]>,
}

impl Compared {
    /// The plan of a problem held against brute force; `None` where what was drawn is none.
    fn of((seed, spec): (u64, &InstanceSpec), objective: Objective) -> Option<Self> {
        // Some layer may run on none of the kinds drawn.
        let instance = Instance::from_spec(spec).ok()?;
        let settings = settings_for(&instance, objective)?;
        let plan = found(&instance, &settings, Some(Duration::from_secs(2)))?;
        let best = best_ms(&instance, &settings);
        let compared = Self {
            instance,
            settings,
            plan,
            best,
        };
        compared.hold(seed);
        Some(compared)
    }

    fn hold(&self, seed: u64) {
        let Self { plan, best, .. } = self;
        let told = || {
            let found = (plan.status, plan.objective_ms, plan.bound_ms);
            let asked = self.settings.to_options(&self.instance);
            format!("seed {seed}: {found:?}, best {best:?}\n{asked:?}\n{plan:#?}")
        };
        let close_ms = self.slack_ms() + 1e-6 * best.map_or(0.0, |[least_ms, _]| least_ms).max(1.0);
        let is_open = is_open(plan, *best, close_ms, &told);
        assert!(!is_open || self.may_be_open(), "open: {}", told());
        if let (Objective::Iteration, Some(ms)) = (self.settings.objective, plan.objective_ms) {
            let run = simulate(plan, &Request::default()).unwrap();
            assert!(
                (run.iteration_ms - ms).abs() < 1e-9,
                "{} {}",
                run.iteration_ms,
                told()
            );
        }
    }

    /// By how much an iteration may differ from that of brute force: without modes a stage is rounded once, and with them each of its layers.
    fn slack_ms(&self) -> f64 {
        const NS: f64 = 1e-6;
        match (self.settings.modal, self.settings.objective) {
            (false, Objective::Iteration) => {
                let rounded = self.settings.micro_batches.unwrap_or(1) as usize + 2 * self.plan.stages.len();
                let layers = self.instance.network.layers.len();
                NS * (rounded * layers) as f64
            }
            _ => 0.0,
        }
    }

    /// Whether no plan is proved.
    fn is_open(&self) -> bool {
        matches!(self.plan.status, Status::Feasible | Status::Unknown)
    }

    fn may_be_open(&self) -> bool {
        let cluster = &self.instance.cluster;
        // What moves between stages that are no neighbours may go farther than over the boundaries between.
        let is_told = self.settings.kinds.len() == 1 && !self.settings.communication.has_links();
        let goes_farther = !is_told && (cluster.nodes.is_some() || !cluster.links.is_empty());
        self.plan.stopped_by == StoppedBy::TimeLimit
            || self.settings.cuts == Cuts::Separate
            || match self.settings.objective {
                Objective::Iteration => self.has_several_ways(),
                _ => goes_farther || (self.has_several_ways() && self.may_differ_forwards()),
            }
    }

    /// Whether what groups move in forward propagation may depend on what is computed again: then the way that takes least need not be best for the longer phase.
    fn may_differ_forwards(&self) -> bool {
        !(self.settings.expert.is_one() && self.settings.context_parallel.is_one())
    }

    /// Whether some layer may be run in several ways of a degree.
    fn has_several_ways(&self) -> bool {
        let is_analytic = !self.settings.recompute.is_none();
        is_analytic
            || self.instance.network.layers.iter().any(|layer| {
                let modes = layer.modes();
                let degrees = modes.iter().map(|mode| mode.tensor);
                let mut degrees: Vec<usize> = degrees.collect();
                degrees.dedup();
                degrees.len() < modes.len()
            })
    }

    /// The least objective in ms where devices take turns; infinite where no plan fits.
    fn in_turn_ms(&self) -> f64 {
        let settings = Settings {
            worker: WorkerMode::Sequential,
            schedule: Schedule::OneFOneB,
            ..self.settings.clone()
        };
        best_ms(&self.instance, &settings).map_or(f64::INFINITY, |both| both[0])
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    open: usize,
    /// Problems without a plan.
    infeasible: usize,
    separate: usize,
    /// Plans whose devices share out resources or levels that are several; with a stage of several devices; with a stage that computes something again.
    several: usize,
    on_groups: usize,
    again: usize,
    /// Problems whose best plan is better, or worse, than that of devices that take turns.
    better: usize,
    worse: usize,
    /// Problems in which shares that are equally good for a stage are not so for an iteration.
    tied: usize,
}

impl Seen {
    fn look_at(&mut self, compared: &Compared) {
        let Compared {
            settings, plan, best, ..
        } = compared;
        self.compared += 1;
        self.open += usize::from(compared.is_open());
        self.infeasible += usize::from(best.is_none());
        self.separate += usize::from(settings.cuts == Cuts::Separate);
        let mut stages = plan.stages.iter();
        let has_several = settings.share_parts.is_some() || stages.any(|stage| stage.shares.len() > 1);
        self.several += usize::from(has_several);
        self.on_groups += usize::from(plan.stages.iter().any(|stage| stage.devices.len() > 1));
        let mut modes = plan.stages.iter().filter_map(|stage| stage.mode.as_ref());
        self.again += usize::from(modes.any(|mode| !mode.recomputed.is_empty()));
        let Some([least_ms, most_ms]) = *best else {
            return;
        };
        self.tied += usize::from(!is_near(least_ms, most_ms));
        let in_turn_ms = compared.in_turn_ms();
        let is_other = !is_near(in_turn_ms, least_ms);
        self.better += usize::from(is_other && least_ms < in_turn_ms);
        self.worse += usize::from(is_other && least_ms > in_turn_ms);
    }
}

fn problems_are_those_of_brute_force(objective: Objective) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds(DRAWS) {
        let compared = Compared::of((seed, &drawn(seed)), objective);
        if let Some(compared) = compared.filter(|compared| compared.settings.modal) {
            seen.look_at(&compared);
        }
    }
    println!("{objective}: {seen:?}");
    seen
}

#[test]
fn periods_are_those_of_brute_force() {
    let seen = problems_are_those_of_brute_force(Objective::Period);
    assert!(
        seen.has_seen_enough() && seen.better * 12 > seen.compared && seen.open * 10 < seen.compared,
        "{seen:?}"
    );
}

#[test]
fn iterations_are_those_of_brute_force() {
    let seen = problems_are_those_of_brute_force(Objective::Iteration);
    // Few micro-batches gain little: a phase takes longer on shares than on all of a device.
    assert!(
        seen.has_seen_enough() && seen.better * 80 > seen.compared && seen.open * 3 < seen.compared,
        "{seen:?}"
    );
}

impl Seen {
    fn has_seen_enough(&self) -> bool {
        let is_often = |count: usize, every: usize| count * every > self.compared;
        self.compared * 2 > draws(DRAWS) as usize
            && is_often(self.separate, 10)
            && is_often(self.several, 5)
            && is_often(self.on_groups, 5)
            && is_often(self.again, 20)
            && self.infeasible * 3 < self.compared
    }
}

/// One layer of 4 + 8 ms and 2 MB that keeps 1 MB, or half of all on two devices, which reduce 1 MB, half of it in either pass; links of 1 GB/s.
const ONE_LAYER: &str = r#"{"network": {"layers": [{"id": "block", "modes": [
    {"forward_ms": 4, "backward_ms": 8, "parameter_bytes": 2e6, "stash_bytes": 1e6},
    {"tensor": 2, "forward_ms": 2, "backward_ms": 4, "parameter_bytes": 1e6, "stash_bytes": 5e5, "collective_bytes": 1e6}]}]},
    "cluster": {"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 1e9}},
    "pipeline": {"worker": "concurrent", "schedule": "concurrent", "micro_batches": 8, "optimizer": "sgd",
        "precision": "uniform"}}"#;

/// The layer with other options, and the least period and iteration in ms.
fn counted_by_hand() -> Vec<(InstanceSpec, [Option<f64>; 2])> {
    let layer = || serde_json::from_str::<InstanceSpec>(ONE_LAYER).unwrap();
    let on_group = |shares: Option<Shares>| {
        let mut spec = layer();
        (spec.pipeline.tensor, spec.pipeline.shares) = (Some(Degrees::one(2)), shares);
        spec
    };
    let on_replicas = |bytes: u64| {
        let mut spec = layer();
        spec.pipeline.replicas = Some(Degrees::one(2));
        spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(bytes));
        spec
    };
    let resource = |name: &str, [forward, backward]: [f64; 2]| ResourceSpec {
        name: name.into(),
        forward_rate: forward,
        backward_rate: Some(backward),
        ..ResourceSpec::default()
    };
    let mut of_two = on_group(None);
    let kinds = &mut of_two.cluster.as_mut().unwrap().device_kinds;
    kinds[0].resources = vec![resource("one", [0.75, 0.1]), resource("other", [0.25, 0.9])];
    // The one would do three quarters of 2.5 ms forwards, and a tenth of 4.5 ms backwards, and the other does the rest of that: 0.3 β = 0.2 + (1 - β) / 45.
    let share = (0.2 + 1.0 / 45.0) / (0.3 + 1.0 / 45.0);
    let of_two_ms = 1.0 / (0.3 * share);
    vec![
        // A group takes 2.5 and 4.5 ms, and 7 ms for either on shares of these; the last backward pass ends after nine of them.
        (on_group(None), [Some(7.0), Some(9.0 * 7.0)]),
        (on_group(Some(Shares::Even)), [Some(9.0), Some(5.0 + 8.0 * 9.0)]),
        (of_two, [Some(of_two_ms), Some(9.0 * of_two_ms)]),
        // Each replica has 2 MB of weights, as much of gradients, and two micro-batches at once; 2 MB go round in 2 ms once.
        (on_replicas(6_000_000), [Some(6.25), Some(5.0 * 12.0 + 2.0)]),
        (on_replicas(5_999_999), [None; 2]),
    ]
}

#[test]
fn brute_force_finds_what_is_counted_by_hand() {
    for (spec, counted) in counted_by_hand() {
        for (objective, ms) in [Objective::Period, Objective::Iteration].into_iter().zip(counted) {
            let options = PipelineOptions {
                objective: Some(objective),
                ..PipelineOptions::default()
            };
            let instance = Instance::from_spec(&spec).unwrap();
            let settings = Settings::resolve(&instance, &options).unwrap();
            let best = best_ms(&instance, &settings).map(|both| both[0]);
            assert!(are_near(best, ms), "{best:?}, not {ms:?}: {:?}", spec.pipeline);
            if let Some(of) = Compared::of((0, &spec), objective) {
                assert!(
                    are_near(of.plan.objective_ms, ms),
                    "{:?}, not {ms:?}",
                    of.plan.objective_ms
                );
            }
        }
    }
}

/// On devices that take turns brute force is what it is known to be, on the same problems.
#[test]
fn devices_that_take_turns_are_those_of_brute_force() {
    for objective in [Objective::Period, Objective::Iteration] {
        let (mut compared, mut open) = (0, 0);
        for seed in seeds(150) {
            let Some(of) = Compared::of((seed, &in_turn(&drawn(seed))), objective) else {
                continue;
            };
            compared += 1;
            open += usize::from(of.is_open());
        }
        println!("{objective}: {compared} compared, {open} open");
        assert!(compared * 2 > draws(150) as usize, "{compared}");
    }
}

/// A problem without modes of devices that each run both phases at once.
fn without_modes(seed: u64) -> InstanceSpec {
    let mut draws = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x5a5e));
    let is_separate = draws.may(0.25);
    let scope = Scope {
        layers: if is_separate { [2, 3] } else { [3, 5] },
        chain: seed.is_multiple_of(3),
        mixed: true,
        cuts: Some(if is_separate { Cuts::Separate } else { Cuts::Tied }),
    };
    let mut spec = draw(format!("at-once-{seed}"), seed, scope);
    // Brute force over modes places layers one after the other.
    let layers = &mut spec.network.layers;
    layers.sort_by(|one, other| (one.backward, &one.id).cmp(&(other.backward, &other.id)));
    // Weights of layers that lie apart move at the end of an iteration with modes, and with a micro-batch without.
    let weightless = layers.iter_mut().filter(|_| is_separate);
    weightless.for_each(|layer| layer.parameter_bytes = 0.0);
    if layers.iter().any(|layer| layer.backward) {
        spec.pipeline.mode = Some(Mode::Training);
    }
    let cluster = spec.cluster.as_mut().expect("a cluster");
    cluster.groups.clear();
    cluster
        .device_kinds
        .iter_mut()
        .for_each(|kind| kind.pays_communication = true);
    let pipeline = &mut spec.pipeline;
    (pipeline.worker, pipeline.schedule) = (Some(WorkerMode::Concurrent), Some(Schedule::Concurrent));
    (pipeline.groups, pipeline.synchronization) = (None, None);
    pipeline.micro_batches = Some(draws.0.random_range(1..=8));
    pipeline.communication = Some(draws.one_of(&[Communication::Overlapped, Communication::Ignored]));
    pipeline.shares = Some(draws.one_of(&[Shares::Best, Shares::Best, Shares::Even, Shares::Theorem]));
    pipeline.stages = pipeline.stages.map(|stages| stages.min(3));
    if has_levels(&spec) {
        // Which of two levels is nearer may be a matter of how times are rounded: with modes it is not asked.
        spec.pipeline.shares = spec.pipeline.shares.filter(|&shares| shares != Shares::Theorem);
    }
    spec
}

/// Whether some resource allows a few shares alone.
fn has_levels(spec: &InstanceSpec) -> bool {
    let kinds = spec.cluster.iter().flat_map(|cluster| &cluster.device_kinds);
    let mut resources = kinds.flat_map(|kind| &kind.resources);
    spec.pipeline.share_parts.is_some() || resources.any(|resource| !resource.levels.is_empty())
}

/// Where every stage is one device and computes nothing again, brute force over modes finds what is found without modes.
#[test]
fn without_modes_brute_force_is_what_it_is_without_modes() {
    for objective in [Objective::Period, Objective::Iteration] {
        let (mut compared, mut tied, mut several, mut separate) = (0, 0, 0, 0);
        for seed in seeds(600) {
            let spec = without_modes(seed);
            // Which of two levels makes the slower phase faster may be as well, and the other phase is another then.
            if objective == Objective::Iteration && has_levels(&spec) {
                continue;
            }
            let Some(of) = Compared::of((seed, &spec), objective) else {
                continue;
            };
            assert!(!of.settings.modal);
            compared += 1;
            tied += usize::from(of.best.is_some_and(|[least, most]| !is_near(least, most)));
            several += usize::from(of.plan.stages.iter().any(|stage| stage.shares.len() > 1));
            separate += usize::from(of.settings.cuts == Cuts::Separate);
        }
        println!(
            "{objective}: {compared} compared, {several} on several resources, {separate} separate, {tied} where equally good shares differ"
        );
        assert!(compared * 4 > draws(600) as usize, "{compared}");
        assert!(
            several * 8 > compared && separate * 8 > compared,
            "{several}, {separate}"
        );
    }
}
